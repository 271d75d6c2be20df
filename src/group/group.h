/*
 * Placement groups over nodes: bundles that are set aside on several nodes, all of them or none.
 *
 * One handle is one node's part in all of them: of those who made groups here (their home), who
 * wait for some, of the bundles that this node holds, and, while this node leads, of the placing.
 * README.md has the protocol.
 *
 * No I/O, no clock, no chance: the node outside is `group_ops_t`, time is an argument in ms of a
 * clock that never goes back. For one thread. No function calls back into a handle's caller but
 * by the ops. None of the ops may call the room, but group_freed.
 *
 * MOB_ENOMEM leaves everything as it was. Memory that is short inside of the protocol is asked for
 * again by group_turn: what should have been sent is sent later.
 */
#ifndef GROUP_GROUP_H
#define GROUP_GROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/script.h"
#include "frame/frame.h"
#include "mobula.h"

enum {
    GROUP_BUNDLES_MAX = 10000, /* of one group */
    GROUP_SPEC_MAX = 3840,     /* bytes of all that is asked for; equal neighbours count once */
    GROUP_NEEDS_MAX = 256,     /* resource names in one bundle */
    GROUP_VIEW_MAX = 1024,     /* resource names of one node */
    GROUP_DOUBT_MS = 500,      /* after which a node asks for the decision */
    GROUP_AGAIN_MS = 1000,     /* after which a leader that has not answered is asked again */
    GROUP_LATER_MS = 5000,     /* after a death the leader reads once more */
    GROUP_FACT_MS = 10000,     /* how long what was decided here is said to a new master */
};

typedef struct group group_t;
struct group_spec;

typedef struct {
    frame_demand_t demand; /* no names twice */
    const char *selector;  /* of labels; "": any node */
} group_bundle_t;

/* What its maker asks for; borrowed. */
typedef struct {
    frame_id_t id; /* its home is this node; never used before */
    frame_job_t job;
    mob_strategy_t strategy;
    bool detached;                 /* it outlives its job */
    const char *name_space, *name; /* name "": none */
    const group_bundle_t *bundles;
    size_t count;
} group_want_t;

/* Names a reservation. No two have the same key. fence 0: of a group that only its home knows. */
typedef struct {
    frame_id_t id;
    uint32_t bundle;
    uint64_t fence, attempt;
} group_key_t;

typedef enum {
    GROUP_WAITING = 1,  /* for room; said once it is certain that there will be such a group */
    GROUP_READY,        /* every bundle is set aside */
    GROUP_RESCHEDULING, /* it was ready; a node died, and its bundles are placed again */
    GROUP_REMOVED,      /* there is no such group (any more). The last word */
    GROUP_NAME_TAKEN,   /* another group has its name: there is none. The last word */
} group_state_t;

typedef struct {
    /* To the same room of a peer: in order, each once, unless the peer dies. */
    void (*send)(void *context, uint64_t to, const void *bytes, size_t size);
    /* Asks the control state, again and again until there is an answer; `reply` gets `ask` back.
     * Requests run in the order in which they were asked for the first time. `arguments` are
     * borrowed for the call. Never answers within the call. */
    void (*ask)(void *context, script_fn script, const void *arguments, size_t size,
                void (*reply)(void *ask, uint64_t master, const void *answer, size_t size),
                void *ask);
    /* This node's facts are known to that master. */
    void (*said)(void *context, uint64_t master);
    /* Whether this node knows its tombstone. */
    bool (*is_dead)(void *context, uint64_t node);
    /* Sets a bundle aside in this node's scheduler; false: there is no room, or it does not match.
     * What is asked for says spec.h; borrowed for the call. */
    bool (*reserve)(void *context, const group_key_t *key, const struct group_spec *spec);
    /* The bundle may be used from now on. */
    void (*commit)(void *context, const group_key_t *key);
    /* It goes back; what runs in it is to end. Also of one that was never committed. */
    void (*release)(void *context, const group_key_t *key);
    /* What is free here now; borrowed until the next op. At most GROUP_VIEW_MAX names. */
    frame_demand_t (*view)(void *context, const char **ret_labels);
    bool (*matches)(void *context, const char *selector, const char *labels);
    /* News of a group that was made or is watched here. nodes: where its bundles are, of READY
     * only. The same news is not told twice in a row. */
    void (*told)(void *context, const frame_id_t *id, group_state_t state, const uint64_t *nodes,
                 size_t count);
    /* The answer to group_find: MOB_OK or MOB_ENONAME. */
    void (*found)(void *context, uint64_t request, mob_status_t status, const frame_id_t *id);
    /* The answer to group_job_end: it is written, and all nodes are to hear of it now. */
    void (*job_written)(void *context, frame_job_t job);
} group_ops_t;

/* `ops` stay the caller's, as long as the handle. MOB_ENOMEM. */
mob_status_t group_new(const group_ops_t *ops, void *context, uint64_t self, group_t **ret_room);
/* Releases nothing by the ops. No answer may come after this. NULL is fine. */
void group_free(group_t *room);

/* ---- what this node's processes ask for ---- */

/* Makes a group. What becomes of it comes by `told`, perhaps within the call. MOB_EINVAL: it makes
 * no sense; MOB_ELIMIT: it is too large; MOB_ENOMEM. */
mob_status_t group_create(group_t *room, const group_want_t *want);
/* Removes it, whoever made it and whatever its state; `told` says when that is certain. Any number
 * of times, by anybody. */
mob_status_t group_remove(group_t *room, const frame_id_t *id);
/* Asks for news of a group, whoever made it, until its last word. */
mob_status_t group_watch(group_t *room, const frame_id_t *id);
/* `found` says which group has the name. MOB_EINVAL: this is no name. */
mob_status_t group_find(group_t *room, const char *name_space, const char *name, uint64_t request);
/* For the job's home: the job has ended. Once `job_written` says so, it can make no more groups
 * that others know of. */
mob_status_t group_job_end(group_t *room, frame_job_t job);
/* For every node, when it hears of it, which is after job_written; at the job's home also before:
 * the job's groups that are not detached are removed. */
void group_job_ended(group_t *room, frame_job_t job);

/* What waits for room, oldest first by kinds of demands; while this node leads. The bundles are
 * borrowed for the call. */
typedef void (*group_demand_fn)(void *context, const frame_demand_t *demand, const char *selector,
                                uint64_t bundles);
void group_demands(const group_t *room, group_demand_fn visit, void *context);

/* ---- what the node hears ---- */

/* A message of the peer. MOB_EPROTO: it is none, and has changed nothing. What a peer says about
 * what is not its to say is ignored. MOB_ENOMEM is never lost: see above. */
mob_status_t group_receive(group_t *room, uint64_t from, const void *bytes, size_t size);
void group_died(group_t *room, uint64_t peer);
/* Lower fences, and equal ones of another, are ignored. leader 0: nobody is known. */
void group_leads(group_t *room, uint64_t leader, uint64_t fence);
void group_master(group_t *room, uint64_t master);
void group_settled(group_t *room, uint64_t master);
/* The node has more free than before. */
void group_freed(group_t *room);

/* At the end of every turn of the node's loop, and each 100 ms at least: sends what was gathered,
 * places what waits, asks where it is in doubt. */
void group_turn(group_t *room, uint64_t now_ms);
/* Whether nothing is kept here: no group, no bundle, no request. For tests. */
bool group_is_idle(const group_t *room);

#endif
