/*
 * References across nodes: which nodes hold an object, kept at its home, the node that it was made
 * on. Only a node itself changes whether it is among them, over its one ordered link to the home.
 * README.md says how and why.
 *
 * One refs_t a node. The node counts what its own processes hold of an object, and tells this room
 * when that begins and ends. It tells of the references in the frames that it sends and gets. The
 * room tells the node when an object of its own may be freed, and when a foreign one is lost.
 *
 * No I/O, no clock, no chance; for one thread. What is decided within one turn of the node's loop
 * is sent by refs_flush at the turn's end, many words in one message. Functions of the table are
 * called within refs_flush, refs_died and refs_message only (`is_dead`: anywhere).
 * They may call refs_held, refs_cached, refs_unheld and refs_frame_send, and nothing else of here.
 */
#ifndef REFS_REFS_H
#define REFS_REFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "frame/frame.h"
#include "mobula.h"

typedef struct refs refs_t;

enum { REFS_MESSAGE_MAX = 16384 }; /* bytes; a longer one is no message of this room */

typedef enum refs_reason {
    REFS_LOST,       /* its home says that it is gone */
    REFS_OWNER_DIED, /* its home is dead: id.home names it. Copies that exist stay readable */
} refs_reason_t;

typedef struct refs_ops {
    /* A message of this room to a peer, in order with all frames to it, even if the link is full:
     * each word answers something that came. The bytes are borrowed. MOB_ECLOSED: the peer is dead;
     * MOB_ENOMEM: not now, refs_flush tries again. */
    mob_status_t (*send)(void *context, uint64_t peer, const void *bytes, size_t size);
    /* Whether the node is known here to be dead, or never was a member. */
    bool (*is_dead)(void *context, uint64_t node);
    /* No process of this node and no other node holds this object of this node any more. */
    void (*free)(void *context, frame_id_t id);
    /* This foreign object is lost, whether it is held here or not. It is not counted any more. */
    void (*gone)(void *context, frame_id_t id, refs_reason_t reason);
    /* Its home asks that this function be unloaded: nobody needs it but those that only keep it.
     * The node calls refs_unheld when it has done so, or refs_held if it needs it again; then this
     * comes again after refs_cached. */
    void (*forget)(void *context, frame_id_t id);
    /* What came in this frame is known at its homes (or gone): the frame's HOLDs are answered. */
    void (*kept)(void *context, uint64_t peer, uint64_t sequence);
    /* All tombstones up to this number are closed here. For the leader, which finds K. */
    void (*closed)(void *context, uint64_t number);
} refs_ops_t;

/* `tombstones`: the number with which this node was registered; all up to it are closed.
 * MOB_ENOMEM.
 */
mob_status_t refs_new(const refs_ops_t *ops, void *context, uint64_t self, uint64_t tombstones,
                      refs_t **ret_refs);
/* NULL is fine. */
void refs_free(refs_t *refs);

/* ---- what this node's processes hold ------------------------------------- */

/* From now on something here holds or uses the object. This node's own objects cost nothing until
 * they cross nodes. A foreign one must have come in a frame since it was last unheld: one whose id
 * came by other ways is asked of its home, which sends it in a frame. One that is gone is not
 * counted. Harmless if it is held. */
void refs_held(refs_t *refs, frame_id_t id);
/* A foreign function is kept loaded here, and nothing else holds it. */
void refs_cached(refs_t *refs, frame_id_t id);
/* Nothing here holds or uses it any more, and everything that could say otherwise has been looked
 * at: the rings of the processes are drained. True: it is this node's own and no other node holds
 * it, so the caller frees it. False: nothing is to be done; `free` follows for an own one. */
bool refs_unheld(refs_t *refs, frame_id_t id);

/* ---- references in frames ------------------------------------------------ */

/*
 * The caller is about to enqueue a frame with these references as number `sequence` of its link to
 * the peer. After MOB_OK it must enqueue it, before anything else to that peer. The node holds what
 * it gives away; what is not held (it is gone) is not protected. An id may be there twice.
 * MOB_ECLOSED: the peer is dead; MOB_ENOMEM; MOB_EINVAL: to itself, or a number that was. Then
 * nothing changed, and the frame must not be sent.
 */
mob_status_t refs_frame_send(refs_t *refs, uint64_t peer, uint64_t sequence, const frame_id_t *ids,
                             size_t count);
/*
 * The same for the references inside the value of `container`, an object of this node that is
 * there: a pull is answered. The peer holds the container from now on, as if it were sent too, and
 * keeps it until it holds the contents. So nothing is kept here for each reader of a large list.
 */
mob_status_t refs_list_send(refs_t *refs, uint64_t peer, uint64_t sequence, frame_id_t container,
                            const frame_id_t *ids, size_t count);
/*
 * Such a frame came. Call it before anything else of the frame is looked at, and refs_held for what
 * is kept of it before the next refs_flush; what is not held by then is given back. The node itself
 * looks up its own objects, and those of homes that it knows to be dead. ret_waits: `kept` follows
 * for this frame; until then a pull is not acknowledged. MOB_ENOMEM: call it again later, and read
 * nothing more of that peer before. MOB_ECLOSED: the peer is dead. MOB_EPROTO: a number that was,
 * or a container that is not the peer's.
 */
mob_status_t refs_frame_came(refs_t *refs, uint64_t peer, uint64_t sequence, const frame_id_t *ids,
                             size_t count, bool *ret_waits);
mob_status_t refs_list_came(refs_t *refs, uint64_t peer, uint64_t sequence, frame_id_t container,
                            const frame_id_t *ids, size_t count, bool *ret_waits);

/* ---- the course of things ------------------------------------------------ */

/* A message of this room came. MOB_EPROTO: it is none, and nothing changed. What it says of things
 * that are not the peer's to say is ignored. MOB_ECLOSED: the peer is dead. MOB_ENOMEM: nothing
 * changed; give it again later, and read nothing more of that peer before. */
mob_status_t refs_message(refs_t *refs, uint64_t peer, const void *bytes, size_t size);
/* The end of a turn: sends and tells what has come of it. MOB_ENOMEM: not all of it; call it again
 * later. */
mob_status_t refs_flush(refs_t *refs);
/* The peer's tombstone. They come in the order of their numbers, and after everything that came of
 * the peer. */
void refs_died(refs_t *refs, uint64_t peer, uint64_t number);
/* Every live node has closed all tombstones up to K = `number`, and so has every dead one whose own
 * tombstone is later. */
void refs_struck(refs_t *refs, uint64_t number);

/* What there is in the books. */
typedef struct refs_counts {
    size_t own;     /* objects of this node that other nodes hold */
    size_t holders; /* pairs of such an object and a node */
    size_t away;    /* foreign objects */
    size_t sent;    /* frames to others that are not confirmed */
    size_t came;    /* frames of others whose HOLDs are not answered */
    size_t dead;    /* peers with a tombstone that are not struck off */
} refs_counts_t;
refs_counts_t refs_count(const refs_t *refs);

#endif
