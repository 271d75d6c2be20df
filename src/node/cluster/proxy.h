/*
 * Objects of other nodes, as slots here. proxy.c has the states; README.md says how it fits.
 *
 * An id (frame_id_t) and a reference (mob_ref_t) are two names of one object: own ones have the
 * slot in their id, foreign ones have a proxy. Both of these ways are here.
 */
#ifndef NODE_CLUSTER_PROXY_H
#define NODE_CLUSTER_PROXY_H

#include "base/map.h"
#include "frame/frame.h"
#include "mobula.h"
#include "node/space/grant.h"
#include "node/types.h"

/* What the book of a foreign object has beside: node_object_t's `proxy`. */
typedef struct node_proxy {
    frame_id_t id;
    bool is_asked;  /* the home was asked for the value, or is in this round */
    bool is_made;   /* a task that runs here makes its value */
    bool is_cached; /* the room refs was told that it is only kept loaded */
    bool is_lost;   /* nobody counts it any more: its home is dead, or says that it is gone */
} node_proxy_t;

/* A value that lies on another node, as far as it is known here: node_object_t's `elsewhere`. */
typedef struct node_elsewhere {
    uint64_t pulled_bytes; /* what comes when it is pulled: bytes, and room for the references */
    uint64_t bytes;
    mob_format_t format;
    mob_status_t error;
    uint32_t ref_count;
} node_elsewhere_t;

typedef struct {
    node_client_t *others; /* owns proxies, and holds own objects that other nodes hold */
    node_own_t own;        /* what their slots are taken from */
    node_own_t swept;      /* and those of what goes like any object, so that nobody gives its slot
                              back: items of flows, and what is left of an actor's home */
    base_map_t by_id;      /* to node_object_t */
    bool unasked;          /* for want of memory the home of some was not asked */
} node_proxies_t;

/* MOB_ENOMEM. */
mob_status_t node_proxies_start(node_cluster_t *cluster);
void node_proxies_end(node_cluster_t *cluster);
/* The home is dead: who waits for a value of it that is nowhere is told. */
void node_proxies_died(node_cluster_t *cluster, uint64_t home);

/* ---- ids and references ---- */

/* The id that a local reference stands for; all zero for slot 0. */
frame_id_t node_proxy_id(node_t *node, mob_ref_t ref);
/* The local reference of an id, whose object need not be there if it is an own one; slot 0: this
 * node has no proxy of it. */
mob_ref_t node_proxy_find(node_t *node, frame_id_t id);
/* The same, and makes the proxy if there is none. It asks the home for the value. The id has come
 * in a frame that node_holding_frame_came was told of. Nobody holds it yet: it goes with the next
 * sweep but one if that stays so. Slot 0: no memory, or this node is alone. */
mob_ref_t node_proxy_get(node_t *node, frame_id_t id);
/* A proxy that is made by a task which is run here: PENDING, and the home is not asked. Slot 0: no
 * memory, or it has a value, or another run makes it. */
mob_ref_t node_proxy_result(node_t *node, frame_id_t id);
/* Whether the number is the client's that stands for other nodes. */
bool node_proxy_owns(const node_t *node, uint32_t client);

/* ---- values that lie elsewhere; of proxies and of own objects ---- */

/* Whether the value is at another node, and not here. How large it is stands in
 * `object->elsewhere`, which stays when it has come. */
bool node_proxy_is_elsewhere(node_t *node, const node_object_t *object);
/* How the sealed own object's value looks to others that may pull it. */
void node_proxy_describe(node_t *node, const node_object_t *object, node_elsewhere_t *ret_what);
/* The PENDING slot has a value, at another node: SEALED and AWAY. Who waits is woken. Nothing
 * happens if it is sealed. MOB_ENOMEM. */
mob_status_t node_proxy_seal_elsewhere(node_t *node, mob_ref_t ref, const node_elsewhere_t *what);
/* The same without the seal, which is the caller's: store_slot_seal_away, or as an item. */
mob_status_t node_proxy_put_elsewhere(node_t *node, mob_ref_t ref, const node_elsewhere_t *what);
/* A result of another node's task was made here, in the sealed slot `from`, and stays: its value is
 * the proxy's from now on, which is made if there is none, and `from` has none any more. Nobody
 * holds the proxy by that. MOB_EEXISTS: it has a value here, and keeps it, or a run makes it;
 * ret_ref is set, too. MOB_ENOMEM; MOB_ELOST: `from` makes no sense. */
mob_status_t node_proxy_adopt(node_t *node, frame_id_t id, mob_ref_t from, mob_ref_t *ret_ref);
/* The value has come, into this block of the daemon's under the slot's tag, with its references
 * behind the bytes: AWAY no longer, as after a file was read. Who asked is told. */
void node_proxy_fill(node_t *node, node_object_t *object, uint64_t block);
/* No node has the value any more. An own object is made again, if that can be done; a proxy's value
 * is this error. `words` are borrowed. */
void node_proxy_lose(node_t *node, node_object_t *object, mob_status_t status, const char *words);
/* The PENDING slot gets this value, whose references must be there; it is sealed, and who waits is
 * woken. Nothing happens if it is sealed. MOB_ESPACE: there is no space now; MOB_ENOMEM. */
mob_status_t node_proxy_seal(node_t *node, mob_ref_t ref, mob_format_t format, mob_status_t error,
                             const uint8_t *bytes, uint64_t size, const mob_ref_t *refs,
                             uint32_t ref_count);
/* The PENDING slot's value is an error: sealed, and who waits is woken. */
void node_proxy_fail(node_t *node, mob_ref_t ref, mob_status_t status, const char *words);

/* ---- for run.c, object.c and holding.c ---- */

/* The run that made it is over. Without a value the home is asked after all. */
void node_proxy_result_end(node_t *node, node_object_t *object);
/* Asks for those that were not asked for; once a round, if there are any. */
void node_proxies_ask(node_cluster_t *cluster);
/* The room refs does not count the object any more: it is gone at its home, or that is dead. */
void node_proxy_gone(node_t *node, frame_id_t id);
/* The book of a proxy is gone: its slot goes too, which nobody can name any more. */
void node_proxy_free(node_t *node, uint32_t slot, node_proxy_t *proxy);

#endif
