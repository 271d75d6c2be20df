/* Objects that more than their owner may know of: who holds them, and when they are freed. */
#ifndef NODE_OBJECT_H
#define NODE_OBJECT_H

#include "mobula.h"
#include "node/space/large.h"
#include "node/types.h"
#include "store/spill.h"

/* A file with values that were moved out of memory; see space/spill.c. */
typedef struct {
    char *path;
    uint32_t live; /* values in it that are needed */
    bool cached;   /* it was written into the page cache */
} node_file_t;

/* Where a value lies on disk. It may be in memory too. */
typedef struct {
    node_file_t *file;
    store_spill_item_t item;
    bool was_read;
} node_copy_t;

struct node_object {
    uint64_t generation;
    uint32_t slot;
    uint32_t uses; /* records and containers that hold it */
    uint32_t kept; /* lineages that need its slot and its own lineage, not its value */
    VEC(uint16_t)
    holders; /* clients; NODE_CACHED is set for a client that only keeps a function loaded */
    VEC(mob_ref_t)
    contents; /* references inside its value: the daemon's copy, each of them a use */
    VEC(node_task_t *) waiting; /* tasks that wait for its value */
    size_t waiting_look;        /* where the last one was taken out of them */
    node_actor_t *actor;
    node_group_t *group;     /* the placement group that it names, until that is removed */
    node_copy_t *copy;       /* on disk; NULL: none */
    node_large_t *large;     /* the file that its value lies in; NULL: none */
    node_lineage_t *lineage; /* by which it can be made again; NULL: it can't */
    char *lost;              /* how its value was lost; NULL: it was not, or by the daemon's will */
    uint8_t *spare;          /* a copy of its value for lineages, see lineage.c; NULL: none */
    uint64_t spare_bytes;
    uint32_t spares;                  /* lineages that want one */
    VEC(uint16_t) askers;             /* clients that wait until it is back in memory */
    struct node_proxy *proxy;         /* another node's; NULL: it is an own one */
    struct node_elsewhere *elsewhere; /* its value lies on another node; NULL: it does not */
    struct node_watchers *watchers;   /* peers that wait for its value; NULL: none */
    bool contents_held, at_zero, forget_told;
    bool released; /* only other nodes hold it, and the room refs was told so */
    bool stayed;   /* a peer's result, which it has not dropped */
    bool moving;   /* is being written to disk, or read back */
    bool remaking; /* is to be made again, see remake.c */
};
enum { NODE_CACHED = 0x8000 };

/* The object's book. Makes one if need be, for a slot that has escaped; NULL: there is no such
 * object, or no memory. */
node_object_t *node_object_find(node_t *node, mob_ref_t ref);
/* The object's book, if there is one already; NULL: none. */
node_object_t *node_object_known(node_t *node, mob_ref_t ref);
/* Whether its value is on disk only. */
bool node_object_is_away(node_t *node, const node_object_t *object);

/* ---- who holds it ---- */

/* A process has a reference, or only keeps a function loaded (`cached`). */
void node_object_hold(node_t *node, node_object_t *object, uint32_t client, bool cached);
/* The process has none any more. Frees nothing before all rings were read. */
void node_object_unhold(node_t *node, node_object_t *object, uint32_t client);
/* A record or a container names it. */
void node_object_use(node_object_t *object);
void node_object_unuse_ref(node_t *node, mob_ref_t ref);
/* A lineage does not need it any more; it need not be there. */
void node_object_unkeep_ref(node_t *node, mob_ref_t ref);
/* Something has ended that kept it as it was: it goes, or its value, if nothing else needs it. */
void node_object_settle(node_t *node, node_object_t *object);
/* Its book, for one that is about to be named on another node: it counts as escaped from now on.
 * NULL: it is gone, or no memory. */
node_object_t *node_object_share(node_t *node, mob_ref_t ref);
/* Processes that only keep the function loaded are told to unload it; each says when it has. */
void node_object_unload(node_t *node, node_object_t *object);
/* The book on a slot that is the daemon's own goes, without a look at who holds it. */
void node_object_forget(node_t *node, mob_ref_t ref);
/* What `from`'s value contains is inside the value of `to` now, which had nothing. */
void node_object_contents_move(node_object_t *from, node_object_t *to);
/* Holds what the object's value contains, once; lets go of that. */
void node_object_contents_hold(node_t *node, node_object_t *object);
void node_object_contents_release(node_t *node, node_object_t *object);
/* Frees the first `settled` of the objects put aside at zero: every ring was read since. */
void node_objects_sweep(node_t *node, size_t settled);
/* A dead client holds nothing, and what it owned is freed or belongs to nobody. */
void node_objects_forget(node_client_t *client);

/* ---- its value ---- */

/* A task's result is about to be sealed with references inside: from now on it counts as
 * escaped. */
void node_object_escape(node_t *node, mob_ref_t ref);
/* The object has its value: tasks in the books that wait for it go on. */
void node_object_sealed(node_t *node, mob_ref_t ref);
/* The clients that wait go on, by the word that was there before a slot was sealed. */
void node_slot_wake(node_t *node, uint64_t word);
/* Seals a PENDING slot with an error; `text` is borrowed. Does nothing if it is sealed. `actor`:
 * the one that could not carry a call out; NULL: the error is not about an actor. */
void node_slot_fail(node_t *node, mob_ref_t ref, mob_status_t status, const char *text,
                    const node_actor_t *actor);
/* Writes an error into a slot that is the daemon's to write: PENDING, or AWAY. */
void node_slot_write_error(node_t *node, mob_ref_t ref, mob_status_t status, const char *text,
                           const node_actor_t *actor);
/* Frees a slot whose last reference went, or leaves that to the process that seals it. */
void node_slot_release(node_t *node, uint32_t slot);
/* The driver is not told of the error that the slot has, or will have. */
void node_slot_quiet(node_t *node, mob_ref_t ref);

#endif
