/* What the files of the room share. Nothing here is for others. */
#ifndef PULL_STATE_H
#define PULL_STATE_H

#include "base/map.h"
#include "base/vec.h"
#include "pull/message.h"
#include "pull/pull.h"
#include "pull/ring.h"
#include "pull/script.h"

typedef struct peer peer_t;
typedef struct book book_t;
typedef struct site site_t;
typedef struct copy copy_t;
typedef struct reading reading_t;

/* A node that has sent something, was named by pull_object_add, or is dead. */
struct peer {
    uint64_t node;
    bool is_dead;
    ring_t sites, readings; /* of it in this home's books; of this node's copies by it */
};

/* ---- the home (source.c, primary.c) ---- */

/* What the home knows of one node and one object. */
struct site {
    book_t *book;
    peer_t *peer;
    ring_t of_book, of_peer;
    ring_t line; /* of askers, or of those who want it described */
    ring_t idle; /* of sources that serve nobody */
    uint64_t ticket, birth, avoid;
    uint32_t have;
    bool has_copy, is_asking, is_describing;
    bool was_refused; /* it did not keep the copy as the primary */
    /* as a receiver */
    site_t *source;
    ring_t of_source, edge; /* among the source's readers; among all, by its last progress */
    bool is_live, is_lame, has_stayed; /* gets on; has complained since; was told to wait */
    uint64_t touched_ns, complained_ns;
    uint64_t rank; /* above that of its source, unless that is complete */
    /* as a source */
    ring_t readers;
    size_t live; /* readers that get on */
};

typedef enum { BOOK_PENDING, BOOK_THERE, BOOK_LOST } book_state_t;

/* What the home knows of one object. */
struct book {
    frame_id_t id;
    book_state_t state;
    uint32_t version, chunks;
    uint64_t size;
    site_t *primary, *heir; /* the copy that must stay; the one that was asked to */
    uint64_t move;          /* the ticket of that question */
    ring_t sites;           /* complete ones first */
    ring_t askers, describers, idle_complete, idle_partial;
    uint64_t last_rank;
    site_t own; /* this node's: its messages to itself need no memory */
};

/* ---- copies at this node (copy.c, serve.c, transfer.c) ---- */

typedef enum {
    COPY_NONE,    /* wanted, without memory */
    COPY_PULLING, /* it has memory, and chunks come */
    COPY_SEALING, /* all bytes are here; `seal` is not answered */
    COPY_COMPLETE,
    COPY_LEAVING, /* it goes when the bulk thread and the readers have let go */
} copy_state_t;

typedef enum { PHASE_NONE, PHASE_ASKING, PHASE_READING } phase_t;

struct copy {
    frame_id_t id;
    copy_state_t state;
    uint32_t version, chunks, have;
    uint64_t size, birth;
    bool is_described; /* version and size are known */
    bool is_made;      /* here: its memory is the node's own */
    bool is_spilled;
    bool is_primary;
    bool is_unneeded; /* it goes when nobody reads it */
    bool is_held;     /* counted in held_bytes */
    bool is_noted;    /* the control state knows it, or will */
    size_t pins;      /* by wants that were let in */
    uint64_t mark;    /* of the want that was last measured */
    ring_t wants, readings, cache;
    uint64_t question; /* the ticket of DESCRIBE; 0: none is open */
    /* the transfer */
    phase_t phase;
    uint64_t ticket, source, source_birth;
    uint32_t next; /* the chunk to ask for next */
    uint32_t broken;
    bool is_open;                    /* the source was asked for a chunk */
    bool is_letting_go, is_named;    /* a source was named meanwhile */
    uint64_t old_ticket, old_source; /* what is let go of, or waits to be acknowledged */
    uint64_t touched_ns, told_ns;
    ring_t active; /* of those that are read, by their last chunk */
    /* after its home's death */
    ring_t look;
    uint64_t look_ns, look_question;         /* when it was asked, or put off */
    uint32_t looks, found_count, found_next; /* looks that found nothing */
    pull_note_t *found;
    struct note *note;
};

/* Another node's reading of a copy here. */
struct reading {
    copy_t *copy;
    peer_t *peer;
    ring_t of_copy, of_peer;
    uint64_t ticket;
    uint32_t from, to; /* chunks asked for and not given to the bulk thread */
    uint32_t serving;  /* given to it */
    bool is_closed;
};

/* A copy's line for the control state. It outlives its copy, to take the line out. */
typedef struct note {
    pull_note_t said;
    ring_t line;
    copy_t *copy; /* NULL: gone */
} note_t;

/* ---- wants (admission.c) ---- */

typedef struct want_item {
    pull_want_t *want;
    copy_t *copy;
    ring_t of_copy;
    bool is_pinned;
} want_item_t;

struct pull_want {
    pull_class_t class;
    pull_state_t state;
    void *user;
    uint64_t order, queued_ns;
    uint64_t turn; /* when it was let in last; 0: never */
    ring_t of_pull, line, patience;
    size_t undescribed, missing; /* objects of unknown size; let in and not complete */
    size_t count;
    want_item_t items[];
};

enum { LOOP_MIN = 64, LOOP_ITEM = 8 };

struct pull {
    const pull_ops_t *ops;
    void *context;
    uint64_t self, now_ns;
    uint64_t last; /* ticket, birth, question: none comes twice */
    base_map_t peers, copies, books, sites, readings;
    /* Messages to itself, which are read at the end of a call. There is always room for some, and
     * for LOOP_ITEM of every object of every want: so sending them can't fail. */
    VEC(pull_message_t) loop;
    size_t loop_first, items;
    ring_t edges;  /* of the home: readers that get on, by their last progress */
    ring_t active; /* of the receiver */
    ring_t lines[PULL_CLASSES], patience;
    ring_t cache, primaries; /* copies that nobody holds, and that may go; that may be spilled */
    bool is_spilling;
    uint64_t capacity, used_bytes, held_bytes;
    ring_t all;                /* wants */
    ring_t notes, sent, looks; /* to tell; being told to the control state; to look again */
    uint64_t notes_ns, master, said;
    bool may_admit; /* something has changed that may let a want in */
};

/* ---- pull.c ---- */

void pull_send(pull_t *pull, uint64_t peer, const pull_message_t *message);
/* Reads what this node has said to itself. */
void pull_drain(pull_t *pull);
/* Makes room for the messages to itself of so many more objects of wants; false: no memory. */
bool pull_loop_reserve(pull_t *pull, size_t items);
/* Drains, and lets wants in: the end of every call. */
void pull_settle(pull_t *pull);
/* NULL without memory. */
peer_t *pull_peer(pull_t *pull, uint64_t node);
bool pull_is_dead(const pull_t *pull, uint64_t node);
uint32_t pull_chunks(uint64_t size);

/* ---- source.c: what the home is told ---- */

book_t *pull_book_find(const pull_t *pull, const frame_id_t *id);
/* The book of an object that is being made; NULL without memory. */
book_t *pull_book_new(pull_t *pull, const frame_id_t *id);
void pull_book_free(pull_t *pull, book_t *book);
site_t *pull_site_find(pull_t *pull, book_t *book, uint64_t node);
site_t *pull_site_new(pull_t *pull, book_t *book, peer_t *peer);
/* The node's copy is no more: nobody is sent there. */
void pull_site_lose(pull_t *pull, site_t *site);
/* It has all chunks of the book's version. */
bool pull_site_is_complete(const site_t *site);
void pull_site_have(pull_t *pull, site_t *site, uint64_t birth, uint32_t have);
/* Frees it, unless it has a copy or waits for something. */
void pull_site_tidy(pull_t *pull, site_t *site);
/* Names sources to those who wait, and describes. */
void pull_book_match(pull_t *pull, book_t *book);
void pull_book_describe(pull_t *pull, book_t *book);
/* The object is lost: who waits for a source is to hold nothing meanwhile. */
void pull_book_unmade(pull_t *pull, book_t *book);

mob_status_t pull_source_describe(pull_t *pull, peer_t *from, const pull_message_t *m);
mob_status_t pull_source_ask(pull_t *pull, peer_t *from, const pull_message_t *m);
void pull_source_progress(pull_t *pull, uint64_t from, const pull_message_t *m);
void pull_source_gave_up(pull_t *pull, uint64_t from, const pull_message_t *m);
void pull_source_died(pull_t *pull, peer_t *peer);
void pull_source_tick(pull_t *pull);

/* ---- primary.c: which copy must stay ---- */

/* The primary is gone: another becomes it, or the object is lost. */
void pull_primary_lose(pull_t *pull, book_t *book);
/* A copy is complete: if there is no primary it may become it. */
void pull_primary_offer(pull_t *pull, book_t *book, site_t *site);
void pull_primary_kept(pull_t *pull, uint64_t from, const pull_message_t *m);
/* The heir's copy is gone before it has answered. */
void pull_primary_heir_lose(pull_t *pull, book_t *book);

/* ---- copy.c ---- */

copy_t *pull_copy_find(const pull_t *pull, const frame_id_t *id);
/* Without memory, wanted by nobody yet; NULL without memory. */
copy_t *pull_copy_new(pull_t *pull, const frame_id_t *id);
/* Something that holds it has changed: it may go, or no more; it may be counted anew. */
void pull_copy_update(pull_t *pull, copy_t *copy);
/* It goes, as soon as nobody writes or reads its memory. */
void pull_copy_leave(pull_t *pull, copy_t *copy);
/* Makes room for so many bytes by copies that nobody holds; false: there is too little. */
bool pull_copy_evict(pull_t *pull, uint64_t bytes);
/* A want found no room: the node is asked to spill a primary copy, if one is asked for. */
void pull_copy_spill(pull_t *pull);
bool pull_copy_has_memory(const copy_t *copy);
uint64_t pull_copy_bytes(const copy_t *copy);
void pull_copy_keep(pull_t *pull, uint64_t from, const pull_message_t *m);
void pull_copy_release(pull_t *pull, uint64_t from, const pull_message_t *m);
void pull_copy_free_all(pull_t *pull);

/* ---- serve.c ---- */

mob_status_t pull_serve_fetch(pull_t *pull, peer_t *from, const pull_message_t *m);
void pull_serve_close(pull_t *pull, uint64_t from, const pull_message_t *m);
/* The copy has more chunks. */
void pull_serve_more(pull_t *pull, copy_t *copy);
/* The copy goes: its readers are told. */
void pull_serve_end(pull_t *pull, copy_t *copy);
void pull_serve_died(pull_t *pull, peer_t *peer);

/* ---- transfer.c ---- */

/* Has memory now; asks for a source. */
void pull_transfer_start(pull_t *pull, copy_t *copy);
/* Reads no more, and asks for another source. */
void pull_transfer_complain(pull_t *pull, copy_t *copy, pull_reason_t why);
/* Reads from there, as soon as the bulk thread has let go of the last source. */
void pull_transfer_begin(pull_t *pull, copy_t *copy, uint64_t source, uint64_t birth);
/* Ends it without another question. */
void pull_transfer_stop(pull_t *pull, copy_t *copy);
void pull_transfer_source(pull_t *pull, uint64_t from, const pull_message_t *m);
void pull_transfer_unmade(pull_t *pull, uint64_t from, const pull_message_t *m);
void pull_transfer_not_here(pull_t *pull, uint64_t from, const pull_message_t *m);
void pull_transfer_died(pull_t *pull, uint64_t peer);
void pull_transfer_tick(pull_t *pull);
void pull_transfer_tell(pull_t *pull, copy_t *copy);

/* ---- admission.c ---- */

void pull_describe_ask(pull_t *pull, copy_t *copy);
void pull_described(pull_t *pull, uint64_t from, const pull_message_t *m);
/* The copy's version and size are known, perhaps others than before. */
void pull_copy_describe(pull_t *pull, copy_t *copy, uint32_t version, uint64_t size);
void pull_gone(pull_t *pull, uint64_t from, const pull_message_t *m);
/* Every want of the copy fails. */
void pull_copy_fail(pull_t *pull, copy_t *copy, mob_status_t why);
/* The copy is complete: wants may be ready. */
void pull_copy_ready(pull_t *pull, copy_t *copy);
/* The copy's memory goes though wants wait for it: they hold nothing any more, and wait anew. */
void pull_copy_retreat(pull_t *pull, copy_t *copy);
void pull_admit(pull_t *pull);
void pull_admission_tick(pull_t *pull);

/* ---- afterlife.c: when the home is dead; and the control state ---- */

/* Asks the control state where copies are. */
void pull_look(pull_t *pull, copy_t *copy);
/* Reads from the next copy that is known, or looks again. */
void pull_look_next(pull_t *pull, copy_t *copy, bool is_absent);
/* A complete copy whose home is dead belongs to this node. */
void pull_copy_own(pull_t *pull, copy_t *copy);
void pull_afterlife_died(pull_t *pull, uint64_t home);
void pull_afterlife_tick(pull_t *pull);
/* A copy is complete, or goes: the control state is told, later. */
void pull_note_add(pull_t *pull, copy_t *copy);
void pull_note_take(pull_t *pull, copy_t *copy);
void pull_strike(pull_t *pull, uint64_t node);
/* Frees the notes whose copies are gone; call it when all are. */
void pull_afterlife_free(pull_t *pull);

#endif
