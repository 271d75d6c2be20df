/*
 * The daemon: what its files share. One thread, one loop; nothing here blocks.
 *
 * The books (who was granted what, who holds what, who runs what) are private to the daemon. Shared
 * memory is read with suspicion: an index once, bounded, copied, then checked. What is impossible
 * is the client's fault: node_client_fault ends that client and nobody else.
 *
 * What one file needs for itself lies in a struct of its own, declared in that file's header.
 */
#ifndef NODE_STATE_H
#define NODE_STATE_H

#include <uv.h>

#include "control/control.h"
#include "node/actor.h"
#include "node/calls.h"
#include "node/cancel.h"
#include "node/census.h"
#include "node/children.h"
#include "node/client.h"
#include "node/cluster/cluster.h"
#include "node/deadlock.h"
#include "node/failure.h"
#include "node/farewell.h"
#include "node/flow.h"
#include "node/frame.h"
#include "node/greeting.h"
#include "node/group.h"
#include "node/job.h"
#include "node/kv.h"
#include "node/lease.h"
#include "node/lineage.h"
#include "node/name.h"
#include "node/number.h"
#include "node/object.h"
#include "node/peer.h"
#include "node/pool.h"
#include "node/query.h"
#include "node/queued.h"
#include "node/remake.h"
#include "node/replay.h"
#include "node/restart.h"
#include "node/run.h"
#include "node/schedule.h"
#include "node/session.h"
#include "node/setup.h"
#include "node/shape.h"
#include "node/space/cache.h"
#include "node/space/extent.h"
#include "node/space/folder.h"
#include "node/space/grant.h"
#include "node/space/large.h"
#include "node/space/memory.h"
#include "node/space/pressure.h"
#include "node/space/space.h"
#include "node/space/spill.h"
#include "node/task.h"
#include "node/term.h"
#include "node/text.h"
#include "node/types.h"
#include "node/zygote.h"
#include "sched/sched.h"
#include "shm/heap.h"
#include "shm/node.h"
#include "shm/segment.h"
#include "store/slot.h"
#include "wire/record.h"

/* What the daemon was started with. Fixed from then on. */
typedef struct {
    char *temp_dir;
    VEC(char *) spill_dirs;
    VEC(sched_amount_t) resources;
    uint64_t store_bytes;
    const char *labels;  /* key=value,...: its user's; NULL: none */
    const char *address; /* of a node that stays, IP:PORT; NULL: it has none */
    node_cluster_config_t cluster;
    bool stays;    /* it outlives its starter, and any driver may join */
    bool fast;     /* workers take tasks from queues */
    bool loopback; /* the daemon is its own peer, for tests */
} node_config_t;

/* What the loop itself watches; main.c's. */
typedef struct {
    uv_poll_t listen_poll, event_poll;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle; /* active: do not sleep */
    uv_signal_t child_signal, term_signal;
    int spare_fd; /* open for nothing but to be closed when no other is left */
} node_handles_t;

struct node {
    uv_loop_t loop;
    bool ending;
    bool stopping;  /* it was told to end: it does when its jobs have */
    bool closing;   /* the job of its only driver ends, and the daemon with it */
    bool again;     /* something was done that may let something else go on: one more round */
    uint64_t round; /* counts readings of all rings */
    uint64_t incarnation;
    uint64_t started_ms; /* wall clock */
    int event_fd;        /* clients wake the loop by it */
    node_handles_t handles;
    node_config_t config;
    node_session_t session;

    /* memory that clients share, see space/memory.h */
    node_segments_t segments;
    shm_segment_t arena;
    shm_node_t *shared;
    shm_queue_t *queues; /* of tasks by lane and client, then of calls by pair */
    store_slot_t *slots;
    wire_record_t *records;
    shm_extent_t *extents;
    shm_heap_t heap; /* the daemon's own blocks: errors, and values that come back from disk */

    /* rooms below */
    sched_t *sched;
    control_t *control;

    /* clients */
    node_client_t *clients[SHM_MAX_CLIENTS]; /* by number */
    uint32_t client_next;                    /* above every number in use */
    uint32_t open_tasks[SHM_MAX_CLIENTS];    /* submitted by the client of this number and not done;
                                                outlives the client */
    node_numbers_t numbers;
    node_peer_t *peer;                /* NULL: there is none */
    node_cluster_t *cluster;          /* NULL: the node is alone */
    VEC(node_client_t *) connections; /* all of them, for the end */
    node_client_t *starter; /* that started the daemon: its driver, or a process that waits until a
                               node which stays is ready; NULL: it has gone */

    /* jobs */
    node_jobs_t jobs;
    node_setups_t setups;
    node_texts_t texts;
    node_failing_t failing;
    node_ending_t ends;

    /* workers */
    uint64_t next_token; /* of a worker */
    node_children_t children;
    node_schedule_t schedule;
    node_leases_t leases;

    /* tasks, actors, objects */
    node_task_t **tasks;        /* by record */
    uint32_t missing_arguments; /* tasks that wait for some */
    uint32_t flows;             /* tasks that give out items */
    node_queued_t queued;
    node_cancels_t cancels;
    node_term_t term;
    node_actors_t actors;
    node_groups_t groups;
    node_pairs_t pairs;
    node_object_t **objects;   /* by slot */
    VEC(node_object_t *) zero; /* without holders: freed once all rings were read */
    node_lineages_t lineages;
    node_remakes_t remakes;
    node_replays_t replays;
    node_name_waits_t name_waits;
    node_questions_t questions;
    node_sites_t sites;
    node_deadlock_t deadlock;

    /* memory, see space/ */
    node_grants_t grants;
    node_books_t books;
    node_space_t space;
    node_folders_t folders;
    node_cache_t cache;
    node_spill_t spill;
    node_larges_t larges;
    node_pressure_t pressure;
};

/* Ends the loop, and with it the daemon and every process below it. */
void node_end(node_t *node);
/* Lets every job end first; told twice, it ends at once. */
void node_stop(node_t *node);

#endif
