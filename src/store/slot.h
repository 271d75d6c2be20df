/*
 * A slot: one object's place in the node's table. What a reference names is (slot, generation).
 *
 * The word holds the state, the flags below and which clients wait:
 *
 *   FREE                 nobody's; the process that the slot was granted to may open it
 *   PENDING              open; its value is being made by a task
 *   PENDING|DROPPED      as above, but no reference is left: the process that completes the task
 *                        frees it
 *   SEALED               the value is there, and does not change any more
 *   SEALED|DROPPED       only in passing, from PENDING|DROPPED: the task's worker frees it, or the
 *                        daemon
 *   SEALED|GOING         only in passing: its owner frees it
 *   SEALED|AWAY          the value is there, but not in memory: it is on disk or on another node,
 *                        and the daemon brings it when it is asked. Always ESCAPED
 *   SEALED|GIVEN         an item of a flow (store/flow.h): the client whose number stands in the
 *                        waiters' bits holds it, and not the owner. That client does with it what
 *                        an owner does
 *
 * SEEN says that a process was told of the error that the value is, or may become, or that none
 * need be. If an error is freed without SEEN, the daemon tells the driver of it. So another process
 * that drops the last reference of such an error leaves the freeing to the daemon.
 *
 * FOREIGN says that the slot stands for an object of another node, by whose id all nodes name it.
 * The daemon sets it as long as it alone knows of the slot, and it stays until the slot is FREE.
 *
 * ESCAPED says that the daemon counts the references (another process than the owner may have one),
 * so the owner asks the daemon instead of freeing the slot. The owner sets it before it publishes a
 * reference; the sealer, of a value that contains references or lies in a file; the daemon, before
 * it writes the value to disk.
 *
 *   transition                  by, and how
 *   FREE -> PENDING             owner (put, submit): a store, for nobody else names it yet
 *   PENDING -> SEALED           the record's worker, after DONE; the daemon, if that one died, or
 *                               for a peer's; the owner of a put: compare-and-swap
 *   PENDING -> SEALED|GIVEN     the same, of a flow's item
 *   PENDING -> SEALED|ESCAPED|AWAY  the daemon, of a value that is on another node: the same
 *   PENDING -> PENDING|DROPPED  owner, or the daemon at zero holders; the reader of a flow, of the
 *                               item that is being made: compare-and-swap
 *   SEALED -> SEALED|ESCAPED    owner, of an error that is not SEEN: compare-and-swap
 *   SEALED -> SEALED|GOING      owner if not ESCAPED, of a value in the arena: compare-and-swap,
 *                               against the next
 *   SEALED -> SEALED|ESCAPED    the daemon, which is to move it: compare-and-swap
 *   SEALED|ESCAPED -> ...|AWAY  the daemon, when it is on disk. It then looks for pins
 *                               (store/pins.h) and, if there is one, takes AWAY back at once
 *   ...|AWAY -> SEALED|ESCAPED  the daemon, when it is in memory again, or was never gone: release,
 *                               after `block`
 *   SEALED -> FREE              owner if not ESCAPED, else the daemon: block first, then the word
 *   SEEN                        a process that reads the error, or asked for it: fetch-or. The
 *                               daemon, which told of it in another way
 *   waiter bits, CROWD, WATCHED set by the waiter, by compare-and-swap while PENDING; taken by the
 *                               sealer
 *
 * If the owner dies, the daemon acts in its place. The process that may seal writes meta and the
 * value before SEALED (release).
 */
#ifndef STORE_SLOT_H
#define STORE_SLOT_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "mobula.h"

/* Of an item of a flow fewer bytes lie in the slot itself: the link to the next item follows them.
 */
enum { STORE_INLINE = MOB_SMALL, STORE_ITEM_INLINE = 32 };
enum { STORE_MAX_SLOTS = 1 << 24, STORE_SLOT_BLOCK = 256 };

enum {
    STORE_FREE = 0,
    STORE_PENDING = 1,
    STORE_SEALED = 2,
    STORE_STATE = 3,
    STORE_DROPPED = 4,
    STORE_ESCAPED = 8,
    STORE_CROWD = 16, /* a client without a bit waits: the daemon rings all bells */
    STORE_WATCHED =
        32, /* the daemon waits, for tasks that have it as an argument: the sealer tells it */
    STORE_AWAY = 64,
    STORE_GOING = 128,
    STORE_SEEN = 256,
    STORE_GIVEN = 512,
    STORE_FOREIGN = 1024, /* it stands for another node's object: the daemon knows that one's id */
    STORE_WAITER_SHIFT = 16,
    STORE_WAITER_BITS = 48,
    STORE_CLIENTS = 4096, /* numbers fit into 12 bits */
};

/* What the two ends of a flow share, in the slot that stands for it. flow.h has the rules. */
typedef struct store_flow {
    uint32_t maker;  /* as the slot's */
    uint32_t reader; /* limit << 12 | the reader's number. Written by the reader, before its task
                        is published */
    _Atomic uint64_t made;  /* STORE_WAITS, STORE_RAISED, STORE_FAR, and how many items there are.
                               Written by the maker */
    _Atomic uint64_t taken; /* STORE_CLOSED, and how many of them the reader has taken: counted only
                               if there is a limit. Written by the reader */
    uint64_t links[2];      /* of the slots of the next item, links[made % 2], and the one before */
} store_flow_t;
_Static_assert(sizeof(store_flow_t) == STORE_INLINE, "in a slot");

typedef struct store_slot {
    alignas(64) _Atomic uint64_t word;
    _Atomic uint64_t generation; /* written by the owner in FREE; 48 bits are used in ids */
    uint64_t meta; /* size << 16 | error << 8 | inline << 7 | in a file << 6 | format */
    union {
        uint32_t maker; /* of a task's result while it is PENDING: the task's record, until the
                           value is written. A hint, for the daemon */
        uint8_t small[STORE_INLINE];
        struct {
            uint64_t block;     /* the data's place in the arena; of a value in a file, that of the
                                   references inside, or 0 */
            uint32_t ref_count; /* references inside, as mob_ref_t after the data */
            _Atomic uint32_t used_ms; /* when it was written or last read, by a clock that wraps: a
                                         hint for what goes to disk first */
        } large;
        struct {
            uint8_t small[STORE_ITEM_INLINE]; /* or `large` */
            uint64_t next; /* of a flow's item: the slot of the next one, as store_link has it; 0:
                              this was the last */
        } item;
        store_flow_t flow;
    } value;
} store_slot_t;

_Static_assert(sizeof(store_slot_t) == 64, "a slot is a cache line");

static inline uint64_t store_meta(uint64_t size, mob_format_t format, mob_status_t error,
                                  bool is_inline) {
    return size << 16 | (uint64_t)error << 8 | (uint64_t)is_inline << 7 | (uint64_t)format;
}
static inline uint64_t store_meta_size(uint64_t meta) { return meta >> 16; }
static inline bool store_meta_inline(uint64_t meta) { return meta >> 7 & 1; }
static inline mob_format_t store_meta_format(uint64_t meta) { return (mob_format_t)(meta & 0x3f); }
/* The value lies in a file of its own, for it is larger than the store. Never inline, and always
 * ESCAPED: the daemon has the file. */
enum { STORE_META_IN_FILE = 0x40 };
#define STORE_LARGEST (UINT64_C(1) << 47) /* bytes of a value: `meta` has 48 bits for them */
static inline bool store_meta_in_file(uint64_t meta) { return meta & STORE_META_IN_FILE; }
static inline mob_status_t store_meta_error(uint64_t meta) {
    return (mob_status_t)(meta >> 8 & 0xff);
}
/* Whether a sealed slot has an error that no process has seen. */
static inline bool store_is_untold(uint64_t word, uint64_t meta) {
    return store_meta_error(meta) != MOB_OK && !(word & STORE_SEEN);
}
/* Where the list of contained references begins, from the start of the data. */
static inline uint64_t store_refs_offset(uint64_t size) { return (size + 15) & ~(uint64_t)15; }
static inline uint64_t store_block_size(uint64_t size, uint32_t ref_count) {
    return ref_count ? store_refs_offset(size) + (uint64_t)ref_count * sizeof(mob_ref_t) : size;
}

/* A slot in 64 bits: its index, and as much of its generation as fits. */
static inline uint64_t store_link(mob_ref_t ref) {
    return (uint64_t)ref.slot << 40 | (ref.generation & 0xffffffffff);
}
static inline uint32_t store_link_slot(uint64_t link) { return (uint32_t)(link >> 40); }

/* Owner: FREE to PENDING under a new generation, which is returned. */
uint64_t store_slot_open(store_slot_t *slot);
/* PENDING to SEALED; `escaped` adds that flag. Returns the word as it was before: the caller wakes
 * the waiters in it. Does nothing and returns 0 if the slot is not PENDING. */
uint64_t store_slot_seal(store_slot_t *slot, bool escaped);
/* The same, ESCAPED and AWAY: the value is on another node. */
uint64_t store_slot_seal_away(store_slot_t *slot);
/* The same of an item of a flow, which client `reader` holds from now on. */
uint64_t store_slot_seal_away_given(store_slot_t *slot, uint32_t reader);
/* The same as store_slot_seal for an item of a flow, which client `reader` holds from now on. */
uint64_t store_slot_seal_given(store_slot_t *slot, bool escaped, uint32_t reader);
/* The number in a GIVEN slot's word. */
static inline uint32_t store_word_reader(uint64_t word) {
    return word >> STORE_WAITER_SHIFT & (STORE_CLIENTS - 1);
}
/* PENDING to PENDING|DROPPED. False: it is not PENDING. */
bool store_slot_abandon(store_slot_t *slot);
/* Notes that client `number` waits. False if there is nothing to wait for any more: the value is
 * there. */
bool store_slot_wait(store_slot_t *slot, uint32_t number);

/* The daemon waits: the sealer is to tell it. False if the value is there. */
bool store_slot_watch(store_slot_t *slot);

/* The daemon: from now on only the daemon frees this value in the arena. False if it is not SEALED,
 * or about to be freed. */
bool store_slot_escape(store_slot_t *slot);
/* The daemon: SEALED|ESCAPED becomes AWAY. Sequentially consistent: a look at the pins follows.
 * False if it is dropped, or AWAY. */
bool store_slot_leave(store_slot_t *slot);
/* The daemon: AWAY no longer. */
static inline void store_slot_return(store_slot_t *slot) {
    /* release: a reader that sees it in memory sees where */
    atomic_fetch_and_explicit(&slot->word, ~(uint64_t)STORE_AWAY, memory_order_release);
}

/* Of a slot that the caller holds: the daemon need not tell the driver of its error, should it be
 * one. */
static inline void store_slot_see(store_slot_t *slot) {
    /* relaxed: the process that frees the slot has heard of the caller's last reference before */
    if (!(atomic_load_explicit(&slot->word, memory_order_relaxed) & STORE_SEEN))
        atomic_fetch_or_explicit(&slot->word, STORE_SEEN, memory_order_relaxed);
}

typedef enum { STORE_DROP_FREE, STORE_DROP_LATER, STORE_DROP_ASK } store_drop_t;
/* The last reference went. FREE: the caller frees block and slot now. LATER: the process that
 * completes the task will. ASK: the caller tells the daemon, which frees it; also if the value is
 * an error that no process has seen. */
store_drop_t store_slot_drop(store_slot_t *slot, bool is_daemon);
/* SEALED to FREE, after its block was released. */
static inline void store_slot_close(store_slot_t *slot) {
    atomic_store_explicit(&slot->word, STORE_FREE, memory_order_release);
}

#endif
