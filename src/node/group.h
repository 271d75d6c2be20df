/* Placement groups: bundles of resources that are set aside, by the object that names them. The
 * scheduler decides (sched/sched.h); group.c has their life. What other nodes have to do with one
 * is in cluster/group_over.h. */
#ifndef NODE_GROUP_H
#define NODE_GROUP_H

#include "frame/frame.h"
#include "mobula.h"
#include "node/lease.h"
#include "node/name.h"
#include "node/types.h"
#include "sched/sched.h"
#include "wire/direct.h"
#include "wire/message.h"

/* In a shape's flags, beside MOB_WHERE_*: its group was removed before it was asked for. */
enum { NODE_WHERE_REMOVED = 1 << 16 };

typedef enum {
    NODE_GROUP_PENDING,
    NODE_GROUP_CREATED,
    NODE_GROUP_RESCHEDULING, /* it was created; a node died, and its bundles are placed again */
    NODE_GROUP_REMOVED,
} node_group_state_t;

struct node_group {
    union {
        node_ask_t ask;
        sched_task_t request;
    }; /* first: the scheduler gives this back */
    node_t *node;
    mob_ref_t id;        /* the object that is sealed when it is placed: a use, until it is removed.
                            Slot 0: it is another node's, and nobody here has asked for it */
    node_job_t *job;     /* with which it ends; NULL: it is detached, or over */
    uint32_t job_number; /* its maker's */
    sched_group_t *sched; /* NULL: it is over */
    node_group_state_t state;
    uint64_t made_ns, placed_ns; /* wall clock; 0: not yet */
    bool naming;                 /* it waits for its name */
    bool has_name;
    char *name, *name_space; /* "" : it has none */
    uint8_t *spec;           /* what its maker said: checked */
    size_t spec_size;
    struct node_group_over *over; /* NULL: no other node knows of it */
};

/* A question for a shape in a group, or a removal, of which the daemon has not read the creation
 * yet: that lies in another ring. */
typedef struct {
    uint32_t client, epoch;
    uint64_t round; /* in which it was read */
    wire_message_t message;
} node_group_early_t;

typedef struct {
    VEC(node_group_early_t) early; /* settled once all rings were read */
    VEC(node_group_t *) items;     /* those that were not removed */
    VEC(node_group_t *) draining;  /* removed, and something may be held inside */
    VEC(node_group_t *) removed;   /* the last ones, for people; a circle once it is full */
    size_t removed_first;
    sched_job_t *jobless; /* whose the bundles of detached groups are, and those that this node has
                             of other nodes' groups; NULL: there were none */
} node_groups_t;

/* A record of MOB_GROUP was submitted; with a name the client waits for an answer. */
void node_group_create(node_client_t *client, uint32_t record, uint64_t generation,
                       const node_named_t *named);
/* The scheduler has given the lease that its request asked for. */
void node_group_place(node_group_t *group, sched_lease_t *lease);
/* The group that the object names; NULL: there is none, or it was removed. */
node_group_t *node_group_find(node_t *node, mob_ref_t id);
/* Puts a message aside that names a group which may be yet to come. False: it need not wait. */
bool node_group_early(node_client_t *client, mob_ref_t id, const wire_message_t *message);
/* WIRE_GROUP_REMOVE: what runs in it is killed, what waits for it fails. Nothing happens if it is
 * gone. */
void node_group_remove(node_client_t *client, const wire_message_t *message);
/* The job ends, and its groups with it. */
void node_groups_end(node_job_t *job);
/* Frees groups that were removed and hold nothing any more, and goes on with early messages of
 * former rounds; once a round. */
void node_groups_settle(node_t *node);
/* For people: rows of the group whose reference has this slot, or with 0 of all. */
void node_groups_write(node_t *node, uint64_t slot, wire_writer_t *writer);

/* ---- what is in it: group_inside.c ---- */

/* Where its bundles are has changed: what waits for them goes there, or fails. */
void node_group_stir(node_group_t *group);
/* It was removed: what runs in it here is killed, what waits for it fails. */
void node_group_inside_end(node_group_t *group);

/* ---- for the files in cluster/ ---- */

/* The book of a group of another node, which takes the spec; NULL: it makes no sense, or no memory,
 * and the spec is freed. */
node_group_t *node_group_guest_new(node_t *node, frame_id_t id, uint8_t *spec, size_t spec_size);
/* The object is its own from now on: a use. */
void node_group_guest_bind(node_group_t *group, mob_ref_t ref);
/* All its bundles are set aside, on whichever nodes: who waits for it goes on. */
void node_group_made(node_group_t *group);
/* Nothing starts in it any more, what runs in it here is killed, and it is forgotten. `why`: for
 * those who wait for it. */
void node_group_end(node_group_t *group, const char *why);

#endif
