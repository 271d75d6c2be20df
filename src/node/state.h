/*
 * The daemon's inside: what its files share. One thread, one loop; nothing here blocks.
 *
 * The books (who was granted what, who holds what, who runs what) are private to the daemon. Shared
 * memory is read with suspicion: an index once, bounded, copied, then checked. What is impossible
 * is the client's fault: node_client_fault ends that client and nobody else.
 */
#ifndef NODE_STATE_H
#define NODE_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <uv.h>

#include "base/status.h"
#include "base/vec.h"
#include "control/control.h"
#include "sched/sched.h"
#include "shm/heap.h"
#include "shm/node.h"
#include "shm/segment.h"
#include "store/slot.h"
#include "store/spill.h"
#include "wire/direct.h"
#include "wire/message.h"
#include "wire/record.h"

typedef struct node node_t;
typedef struct node_client node_client_t;
typedef struct node_task node_task_t;
typedef struct node_object node_object_t;
typedef struct node_actor node_actor_t;

/* Owner of what a dead client was granted and somebody still uses; no client has this number. */
enum { NODE_ORPHAN = UINT16_MAX };

/* Neighbouring entries of a table. */
typedef struct {
    uint32_t first, count;
} node_span_t;
typedef VEC(node_span_t) node_spans_t;

typedef struct {
    char *data;
    size_t size;
} node_parcel_t;

typedef struct {
    uint32_t client;
    uint64_t asked_ns, round;
    shm_message_t message;
} node_question_t;

/* The queues of one shape; see node/lease.c. */
typedef struct {
    uint32_t shape; /* 0: not in use */
    int64_t cpus;
    uint32_t leases;       /* given */
    sched_task_t request;  /* for one more lease, while it waits for its CPUs */
    sched_lease_t granted; /* one that waits for its worker */
} node_lane_t;

/* A call of an actor whose creation was not read yet; without a call: it is to be killed. */
typedef struct {
    mob_ref_t actor;
    node_task_t *call;
    uint64_t round; /* in which it was read */
} node_early_t;

/* A task from WIRE_SUBMIT until its record is free again. */
struct node_task {
    sched_task_t queue; /* first: the scheduler gives this back */
    node_task_t
        *next; /* in an actor's queue of one caller, or among those that wait for a worker */
    node_task_t *run_prev, *run_next; /* among those that were handed to one worker */
    uint64_t generation;              /* the record's, as of now */
    uint32_t record, submitter, shape, held_shape, max_calls;
    uint32_t num_returns, num_deps, num_refs, missing;
    int32_t retries;        /* left; -1 without end */
    uint8_t kind, oom_runs; /* oom_runs: that ended for want of memory */
    bool retries_exceptions;
    bool waiting_for_worker;
    bool queued;    /* workers take it from its submitter's queue, or one has; who is found when it
                       says so, or dies */
    bool adopted;   /* a dead caller's, that was seen in the queue */
    uint64_t block; /* of the body; 0: in the record */
    mob_ref_t function;
    node_actor_t *actor;
    node_client_t *worker;
    sched_lease_t lease;
    mob_ref_t refs[]; /* returns, deps, refs: private copies */
};

/* A file with values that were moved out of memory; see node/spill.c. */
typedef struct {
    char *path;
    uint32_t live; /* values in it that are needed */
} node_file_t;

/* Where a value lies on disk. It may be in memory too. */
typedef struct {
    node_file_t *file;
    store_spill_item_t item;
} node_copy_t;

/* Where an object was made: its number among `sites`, plus one. */
typedef struct {
    uint64_t generation;
    uint32_t site;
} node_site_t;

/* Somebody waits for space in the arena; see node/space.c. */
typedef struct {
    uint32_t client; /* that asked for an extent of `size`; 0: it is for the value of `ref`, which
                        is to come back */
    uint64_t size, least; /* in one piece; less will do if there is no more */
    mob_ref_t ref;
    uint64_t asked_ns;    /* when it was last asked for: who waits asks again once a second */
    uint32_t compactions; /* made for it */
    uint64_t stuck_ns,
        disk_ns; /* since when nothing can be moved for it, or not to the disk; 0: it can */
} node_want_t;

/* Where values go that are moved to disk. */
typedef struct {
    char *path;
    uint32_t writes;    /* under way */
    uint64_t moved_ns;  /* when the first of them began, or the last one ended */
    uint64_t failed_ns; /* when one last failed; 0: never */
    bool told;          /* that it does not answer */
} node_folder_t;

/* An object that more than its owner may know of. */
struct node_object {
    uint64_t generation;
    uint32_t slot;
    uint32_t uses; /* records and containers that hold it */
    /* clients; NODE_CACHED is set for one that only keeps a function loaded */
    VEC(uint16_t) holders;
    VEC(mob_ref_t) contents;    /* references inside its value: our copy, each of them a use */
    VEC(node_task_t *) waiting; /* tasks that wait for its value */
    node_actor_t *actor;
    node_copy_t *copy;    /* on disk; NULL: none */
    VEC(uint16_t) askers; /* clients that wait until it is back in memory */
    bool contents_held, at_zero, forget_told;
    bool moving; /* is being written to disk, or read back */
};
enum { NODE_CACHED = 0x8000 };

typedef struct {
    uint32_t caller;
    node_task_t *head, *tail;
} node_calls_t;

/* A queue of calls. */
typedef struct {
    uint32_t caller;
    int state;           /* 0: nobody's; see calls.c */
    node_actor_t *actor; /* may be dead */
} node_pair_t;

struct node_actor {
    mob_ref_t id;
    node_task_t *creation; /* until it is done */
    node_client_t *worker;
    VEC(node_calls_t) callers;
    VEC(uint32_t) queues; /* of calls that do not go through us */
    uint32_t in_flight;
    enum { NODE_ACTOR_PENDING, NODE_ACTOR_ALIVE, NODE_ACTOR_DEAD } state;
    bool released; /* nobody has a handle any more: ends when its calls are done */
    bool killed;   /* by ray.kill */
    char name[64];
    char cause[256];
};

/* What a process printed on one stream. */
typedef struct node_stream {
    node_client_t *client;
    uv_poll_t poll;
    int fd;     /* -1: never opened. Open until libuv has let go of it: its number must not be used
                   again before */
    bool live;  /* not yet ended */
    int kind;   /* mob_message_kind_t */
    char *name; /* of the task that prints, as announced in the stream */
    VEC(char) line; /* not sent yet */
    bool paused;
} node_stream_t;

typedef enum {
    NODE_STARTING, /* a worker that was asked for and has not said hello */
    NODE_GREETING, /* a connection that has not said hello */
    NODE_LIVE,
    NODE_DYING, /* killed; its end is not certain yet */
    NODE_DEAD,
} node_state_t;

/* How often a client holds a shape. */
typedef struct {
    uint32_t shape, count;
} node_hold_t;

/* A connection, and the process behind it. */
struct node_client {
    node_t *node;
    uint32_t number; /* 0: none */
    uint32_t role;
    node_state_t state;
    uint64_t token;
    pid_t pid;
    int sock, pidfd;
    uv_poll_t sock_poll, pid_poll;
    bool sock_polled;
    int closing;               /* handles that are being closed */
    VEC(node_parcel_t) outbox; /* packets that did not fit into the socket */
    size_t outbox_bytes;

    shm_segment_t segment;
    shm_ring_t *up, *down;
    VEC(shm_message_t) backlog; /* what did not fit on the ring down */
    uint32_t backlog_news;      /* in it: what it was told because it asked */

    node_spans_t slots, records; /* granted to it */
    uint64_t extents;            /* how many */
    uint64_t held;               /* objects that name it as a holder */
    VEC(node_hold_t) shapes;     /* that it holds, by their places */

    /* workers */
    node_stream_t out, err;
    node_task_t *runs,
        *runs_tail; /* handed to it, oldest first; the first has the lease, the others follow it */
    uint32_t run_count;
    node_actor_t *actor;
    sched_lease_t
        lease; /* an actor's, once it is made; or that of a worker that takes from the queues */
    uint64_t leased_ns;   /* when its lease was given */
    uint64_t recalled_ns; /* when it was recalled for somebody who waits; 0: it was not */
    uint32_t lane;        /* what it is for */
    bool leased;          /* takes tasks from queues */
    bool owes;            /* its task went on after its CPU was lent, and it takes no other */
    bool takes; /* took tasks or calls from queues at some time: records may name it that we do not
                   know of */
    shm_events_t *events;
    bool idle, retiring, has_worked;
    uint64_t started_ns;
    uint64_t idle_since_ns;
    uint32_t limited_calls;
    int exit_status;
    bool exited;
    const char *fault;
    bool killed;         /* by us */
    uint64_t ending_ns;  /* when it began to end by itself; 0: it has not */
    char oom[200];       /* why it was ended, if it was for want of memory */
    bool oom_again;      /* and its task may be run again without counting */
    uint64_t actor_ns;   /* when it became one, wall clock */
    uint64_t born_bytes; /* what its process had when its task or actor began */
};

/* An extent of the arena, by its first granule. */
typedef struct {
    uint64_t size; /* 0: this granule begins no extent */
    uint64_t serial;
    uint32_t owner;       /* client; 0: the daemon's own or an orphan */
    uint64_t promised_ns; /* granted to somebody who waited, and may not have seen it yet */
    uint64_t cold;        /* bytes that its owner is getting memory for */
} node_extent_t;

typedef struct {
    uint64_t offset, size;
    uint32_t last_owner;
} node_gap_t;
typedef VEC(node_gap_t) node_gaps_t;

struct node {
    uv_loop_t loop;
    uv_poll_t listen_poll, event_poll;
    int spare_fd; /* open for nothing but to be closed when no other is left */
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle_handle; /* active: do not sleep */
    uv_signal_t child_signal, term_signal;
    uv_timer_t look_timer;
    uv_timer_t end_timer; /* see farewell.c; runs while a worker ends, or all do */
    uint64_t end_ms;      /* how long a worker may take to end */
    bool leaving;         /* the session ends: workers end by themselves, nothing is begun */
    bool driver_waits;    /* until they have */
    bool farewell_over;   /* they have, or were killed */
    uint64_t farewell_ns; /* when it began */
    bool ending, again;
    bool fast;      /* workers take tasks from queues */
    uint64_t round; /* counts readings of all rings */

    /* configuration */
    char *temp_dir, *session_dir, *socket_path;
    char **zygote_argv;
    VEC(char *) preload;
    VEC(sched_amount_t) resources;
    uint64_t store_bytes;
    bool log_to_driver;
    uint64_t incarnation;
    int listen_fd, event_fd;
    void *setup;
    size_t setup_size;

    shm_segment_t node_segment, slot_segment, record_segment, extent_segment, arena, queue_segment;
    shm_node_t *shared;
    shm_queue_t *queues; /* by client */
    store_slot_t *slots;
    wire_record_t *records;
    shm_extent_t *extents;
    shm_heap_t heap; /* the daemon's own blocks: errors */

    sched_t *sched;
    control_t *control;

    node_client_t *clients[SHM_MAX_CLIENTS];
    uint32_t open_tasks[SHM_MAX_CLIENTS]; /* submitted by the client of this number and not done;
                                             outlives the client */
    uint32_t client_next;                 /* the next number never given */
    uint32_t client_turn;                 /* the last one given again */
    node_client_t *driver, *zygote, *next_zygote;
    bool zygote_ready;
    bool spares_wanted; /* there may be fewer workers than are kept ready */
    int zygote_failures;
    pid_t zygote_pid;
    VEC(node_client_t *) starting; /* workers that were asked for */
    VEC(node_client_t *) idle;
    VEC(node_client_t *) connections;   /* all of them, for the end */
    node_task_t *wait_head, *wait_tail; /* have their resources, wait for a worker */
    uint32_t waiting_for_worker;
    uint32_t missing_arguments; /* tasks that wait for some */
    uint32_t cpu_shape; /* one CPU and nothing else: what may be handed out ahead, and is taken from
                           queues */
    node_lane_t lanes[SHM_LANES];
    uint32_t leases;    /* given */
    bool owing;         /* one of them owes */
    node_pair_t *pairs; /* queues of calls, by their number above SHM_FIRST_CALLS */
    uint32_t pairs_used;
    VEC(uint32_t) free_pairs;  /* their numbers */
    VEC(mob_ref_t) done_early; /* records whose worker was heard before their submitter */
    uint64_t next_token;
    int start_failures;
    uint64_t first_failure_ns, last_failure_ns; /* of that series */
    /* of workers that died: their descendants, which become our children, are ended too */
    VEC(pid_t) dead_sessions;
    VEC(node_question_t) questions; /* that are answered when what is done has been heard of */

    node_task_t **tasks;                     /* by record */
    node_object_t **objects;                 /* by slot */
    uint16_t *slot_owner;                    /* by block of STORE_SLOT_BLOCK slots */
    uint16_t *record_owner;                  /* by block of WIRE_RECORD_BLOCK records */
    uint32_t slots_granted, records_granted; /* high-water marks */
    node_spans_t free_slots, free_records;
    node_spans_t orphan_slots, orphan_records; /* blocks of the dead with something alive in them */
    /* about actors not yet created; settled once all rings were read */
    VEC(node_early_t) early;
    VEC(node_object_t *) zero; /* without holders: freed once all rings were read */
    node_extent_t *books;      /* by granule */
    uint16_t *granule_owner;
    uint64_t *backed; /* one bit a granule: it has memory, or its owner is getting it */
    uint64_t cold; /* bytes that owners are getting memory for: not gone from the machine's yet */
    node_gaps_t gaps;
    uint64_t next_serial, arena_free, orphan_extents;
    VEC(uint32_t) warned; /* shapes that can never fit, already told, by their places */

    node_site_t *site_of; /* by slot; written only if clients tell */
    VEC(char *) sites;
    uv_timer_t pressure_timer; /* see pressure.c; runs while anything does */
    double memory_threshold, growth /* bytes a nanosecond, lately */;
    uint64_t refresh_ms, look_ms, short_since_ns, last_kill_ns, last_used, last_limit, looked_ns,
        relief_ns, relief_pause_ns, kernel_kills, kernel_kill_ns, kernel_owes;
    bool paused, enforce_memory;
    VEC(node_want_t) wants; /* in order */
    /* that were refused or forgotten a short while ago, in that order */
    VEC(node_want_t) past_wants;
    uv_timer_t space_timer;              /* runs while there are any */
    uint64_t wanted_ns;                  /* when the last one came */
    uint64_t refused_ns;                 /* when one was last refused */
    uint64_t survey_ns, survey_pause_ns; /* not before: the last look found nothing */
    bool unbacked_short;    /* what has no memory yet can't get any: the machine is short */
    VEC(char *) spill_dirs; /* as configured */
    VEC(node_folder_t) spill_folders; /* ours in them, from the first use on */
    uint32_t spill_turn;              /* files made */
    uint64_t next_file;
    int disk_error; /* errno of the last write that failed; 0: none, or one has succeeded since */
    char disk_error_path[256];
    uint64_t disk_error_ns, spilled_bytes, spilled_objects, spill_told_bytes, spill_busy_ns,
        spill_begun_ns;
    uint32_t spills;       /* writes under way */
    uint64_t ahead_flying; /* bytes that are being written ahead */
    bool compacting;
};

/* main.c */
void node_end(node_t *node);

/* session.c: the folder with the socket */
mob_status_t node_session_open(node_t *node);
void node_session_close(node_t *node);

/* client.c: connections */
mob_status_t node_client_accept(node_t *node, int sock, node_client_t **ret_client);
node_client_t *node_client_new(node_t *node);
/* Takes the socket, also if it fails: it goes with the client then, which is to be closed. */
mob_status_t node_client_attach(node_client_t *client, int sock);
void node_client_send(node_client_t *client, const void *packet, size_t size, const int *fds,
                      int fd_count);
void node_client_tell(node_client_t *client, uint32_t kind, uint32_t a, uint64_t b, uint64_t c,
                      uint64_t d);
void node_client_flush(node_client_t *client);
void node_client_welcome(node_client_t *client);
void node_client_refuse(node_client_t *client, mob_status_t status, const char *text);
void node_client_fault(node_client_t *client, const char *what); /* it did what no client does */
void node_client_kill(node_client_t *client);
/* ends the connection; the memory goes when libuv is done with it */
void node_client_close(node_client_t *client);
void node_client_died(node_client_t *client); /* its end is certain */
void node_bells_ring(node_t *node);

/* inbox.c: messages on the rings */
void node_inbox_read(node_t *node);

/* memory.c: what clients are granted */
mob_status_t node_memory_init(node_t *node);
void node_memory_fini(node_t *node);
void node_memory_slots(node_client_t *client, uint32_t wanted);
void node_memory_records(node_client_t *client, uint32_t wanted);
void node_memory_extent(node_client_t *client, uint64_t size, uint64_t least, bool goes_on);
/* MOB_ESPACE: not now. `promised`: the extent is EMPTY, for somebody who is about to be told of
 * it. */
mob_status_t node_memory_grant(node_t *node, uint32_t owner, uint64_t size, bool promised,
                               uint64_t *ret_offset, uint64_t *ret_serial);
/* The owner of a large block has got memory for it, or gives it up. */
void node_memory_backed(node_t *node, uint32_t owner, uint64_t block);
bool node_memory_owns(node_t *node, uint32_t owner, uint64_t offset, uint64_t size);
uint64_t node_memory_free_bytes(node_t *node);
/* Takes what is free between two places out of the gaps, and gives it back. */
void node_memory_take_gaps(node_t *node, uint64_t from, uint64_t to, node_gaps_t *ret_taken);
void node_memory_return_gaps(node_t *node, const node_gap_t *gaps, size_t count);
bool node_memory_is_backed(const node_t *node, uint64_t granule);
void node_memory_give_back(node_t *node);       /* what is not used, to the machine */
void node_memory_forget(node_client_t *client); /* a dead client's grants */
bool node_memory_slot_is(node_t *node, uint32_t slot, uint32_t owner);
bool node_memory_record_is(node_t *node, uint32_t record, uint32_t owner);

/* farewell.c: workers that end by themselves */
void node_farewell_start(node_t *node);
void node_worker_ending(node_client_t *worker); /* it has begun to */
/* The session ends: lets all workers end, kills what has not after a while, and then ends the loop,
 * or, if the driver waits, sends what was printed. Called again because the driver does not wait
 * any more: ends the loop now. */
void node_farewell(node_t *node, bool driver_waits);
void node_farewell_gone(node_client_t *worker); /* while the session ends: it was reaped */

/* census.c */
void node_site_name(node_client_t *client, const shm_message_t *message, const void *text);
void node_site_note(node_client_t *client, uint32_t slot, uint64_t generation, uint64_t site);
void node_census_write(node_t *node, uint64_t limit, wire_writer_t *writer);

/* environment.c: what the user's variables say; MOB_EINVAL if one has a value that it can't have */
mob_status_t node_environment_read(node_t *node);

/* pressure.c: memory short */
void node_pressure_start(node_t *node);
void node_pressure_watch(node_t *node);
void node_pressure_spare(node_client_t *worker); /* an actor: the kernel is rather to end a task */
/* is about to be given a task: what it has now is not that one's */
void node_pressure_begins(node_client_t *worker);
void node_pressure_died(node_client_t *worker); /* finds out whether it was for want of memory */
bool node_is_paused(node_t *node);
/* What it is, or runs, for people to read: "The actor A", "The task f", "A worker". */
void node_worker_name(node_client_t *worker, char *ret_name, size_t capacity);

/* space.c: who waits for memory */
/* goes_on: whoever asks has asked before, and how long that one waited in vain counts. */
void node_space_want(node_t *node, uint32_t client, uint64_t size, uint64_t least, mob_ref_t ref,
                     bool goes_on);
/* something was written: nobody waits in vain for the disk */
void node_space_disk_works(node_t *node);
void node_space_serve(node_t *node);
void node_space_start(node_t *node);
/* who has the memory */
void node_space_text(node_t *node, uint64_t size, char *text, size_t capacity);

/* spill.c: out of memory onto disk */
/* Moves what was least recently used and nobody reads, so that there will be space for `size` in
 * one piece. copied_only: nothing is written for it. */
typedef enum {
    NODE_SPILL_FREED,   /* it had copies, and is gone */
    NODE_SPILL_WRITES,  /* it is being written */
    NODE_SPILL_DISK,    /* the disk fails */
    NODE_SPILL_NOTHING, /* there is no such piece */
} node_spilled_t;
node_spilled_t node_spill(node_t *node, uint64_t size, bool copied_only);
/* Whether writes are under way, other than to a folder that does not answer. */
bool node_spill_is_writing(const node_t *node);
/* Moves about so many bytes, longest unused first. */
void node_spill_idlest(node_t *node, uint64_t bytes);
/* its value on disk is not needed any more */
void node_copy_drop(node_t *node, node_object_t *object);
bool node_slot_is_pinned(node_t *node, uint32_t slot);
bool node_client_pins(node_client_t *client, uint32_t slot);
uint64_t node_pins_word(node_t *node, uint32_t word);                 /* of all processes */
uint64_t node_client_pins_word(node_client_t *client, uint32_t word); /* of 64 slots */
void node_spill_end(node_t *node);                                    /* removes all files */

/* compact.c: moves values within the arena, so that there will be space for `size` in one piece.
 * True: it is under way. */
bool node_compact(node_t *node, uint64_t size);

/* restore.c: and back */
/* goes_on: as for node_space_want */
void node_restore(node_client_t *client, mob_ref_t ref, bool waits, bool goes_on);
/* Begins to read it; false: there is no space. */
bool node_restore_begin(node_t *node, node_object_t *object);
void node_restore_refuse(node_t *node, mob_ref_t ref, mob_status_t status);

/* object.c: who holds what */
/* Makes one if need be, for a slot that has escaped; NULL: there is no such object. */
node_object_t *node_object_find(node_t *node, mob_ref_t ref);
/* The one that is in the books; NULL: none. */
node_object_t *node_object_known(node_t *node, mob_ref_t ref);
bool node_object_is_away(node_t *node, const node_object_t *object);
/* A task's result is about to be sealed with references inside: from now on it counts as
 * escaped. */
void node_object_escape(node_t *node, mob_ref_t ref);
void node_object_hold(node_t *node, node_object_t *object, uint32_t client, bool cached);
void node_object_unhold(node_t *node, node_object_t *object, uint32_t client);
void node_object_use(node_object_t *object);
void node_object_unuse(node_t *node, node_object_t *object);
void node_object_unuse_ref(node_t *node, mob_ref_t ref);
void node_object_contents_hold(node_t *node, node_object_t *object);
/* Frees the first `settled` of those put aside at zero: every ring was read since. */
void node_objects_sweep(node_t *node, size_t settled);
void node_object_sealed(node_t *node, mob_ref_t ref); /* its task is done */
void node_slot_fail(node_t *node, mob_ref_t ref, mob_status_t status, const char *text);
/* Writes an error into a slot that is the daemon's to write: PENDING, or AWAY. */
void node_slot_write_error(node_t *node, mob_ref_t ref, mob_status_t status, const char *text);
void node_object_contents_release(node_t *node, node_object_t *object);
void node_objects_forget(node_client_t *client);

/* task.c */
void node_task_submit(node_client_t *client, uint32_t record, uint64_t generation);
void node_task_done(node_client_t *client, uint32_t record, uint64_t generation, bool crowd);
void node_task_retry(node_client_t *client, uint32_t record, uint64_t generation);
/* A record in the client's queue has references, or its function goes: keep a book on it. */
void node_task_arguments(node_client_t *client, uint32_t record, uint64_t generation);
/* Finds what a dead worker had taken from queues: its runs are complete then. */
void node_tasks_find_taken(node_client_t *worker);
/* No worker can be had: what lies in the queues fails. */
void node_queues_fail(node_t *node, const char *text);
/* Takes a record that `entry` names, and that nobody has begun, out of a queue of its owner's: it
 * is ours to run or to fail. NULL: it is begun, done, or makes no sense. */
node_task_t *node_task_take_over(node_t *node, uint32_t record, uint64_t entry, uint32_t owner);
/* Keeps a book on a record that stays in its dead owner's queue, if nobody has begun it. */
void node_task_adopt(node_t *node, uint32_t record, uint64_t entry, uint32_t owner);
bool node_client_has_tasks(node_client_t *client);     /* submitted and not done */
void node_task_ready(node_task_t *task, node_t *node); /* its arguments are there */
void node_task_fail(node_t *node, node_task_t *task, mob_status_t status, const char *text);
void node_task_free(node_t *node, node_task_t *task);
void node_task_run_on(node_t *node, node_task_t *task, node_client_t *worker);
/* Puts a task that was handed out behind another, and that its worker has not begun, back where it
 * was. False if it has begun. */
bool node_task_take_back(node_t *node, node_task_t *task);
/* The worker finds that an argument is not there: the task before it is to run again. */
void node_task_unready(node_client_t *client, uint32_t record, uint64_t generation);
/* A task that waits for nothing but the results of this one; NULL: none. */
node_task_t *node_task_follower(node_t *node, const node_task_t *task);
void node_task_lost(node_t *node, node_task_t *task); /* its worker is certainly dead */
/* those that a dead client submitted and nobody began */
void node_tasks_cancel(node_client_t *client);
size_t node_task_name(node_t *node, const node_task_t *task, char *ret_name, size_t capacity);
/* The name of a call in the timeline: A.m, each half cut where it is too long. */
void node_event_name(control_event_t *event, const node_actor_t *actor, const char *method,
                     size_t size);

/* actor.c */
void node_actor_create(node_t *node, node_task_t *task);
void node_actor_created(node_t *node, node_task_t *task);
void node_actor_call(node_t *node, node_task_t *task, mob_ref_t id);
/* Hands on what was said of an actor before its creation was read. The actor, and its creation, may
 * be gone afterwards. */
void node_actor_early(node_t *node, mob_ref_t id);
/* Fails the early calls of former rounds: every ring was read since. */
void node_actors_settle(node_t *node);
void node_actor_pump(node_t *node, node_actor_t *actor);
void node_actor_kill(node_t *node, mob_ref_t id);
void node_actor_release(node_t *node, node_actor_t *actor);
void node_actor_died(node_t *node, node_actor_t *actor, const char *cause);
void node_actor_try_end(node_t *node, node_actor_t *actor);
void node_actor_note(node_t *node, const node_actor_t *actor);

/* calls.c: calls that go straight from the caller to the actor */
void node_calls_need(node_client_t *caller, mob_ref_t actor);
void node_calls_begin(node_t *node, node_actor_t *actor); /* it is alive */
void node_calls_close(node_t *node, node_actor_t *actor); /* it is to die: no more calls for it */
void node_calls_actor_died(node_t *node, node_actor_t *actor);
void node_calls_closed(node_client_t *caller, uint32_t record, uint64_t generation);
/* the caller has no handle any more */
void node_calls_unheld(node_t *node, node_actor_t *actor, uint32_t caller);
/* nobody can name it any more */
void node_calls_forget(node_t *node, node_actor_t *actor);
void node_calls_ended(node_client_t *worker, uint32_t number);
void node_calls_caller_died(node_client_t *caller);
/* whether this pair has a queue */
bool node_calls_open(node_t *node, const node_actor_t *actor, uint32_t caller);

/* lease.c: workers that take tasks from the queues */
/* asks the scheduler for one more, if there is more to do than workers for it */
void node_lease_request(node_t *node);
/* the scheduler's answer */
void node_lease_granted(node_t *node, uint32_t lane, const sched_lease_t *lease);
/* if it is of CPUs alone, and there is a lane left */
void node_lane_open(node_t *node, uint32_t shape);
int node_lane_of_request(node_t *node, const sched_task_t *task); /* -1: it is none */
/* takes the one that waits for a worker, if one does */
bool node_lease_claim(node_client_t *worker);
void node_lease_abandon(node_t *node); /* no worker can be had for it */
void node_lease_returned(node_client_t *worker);
void node_lease_unblocked(node_client_t *worker);
void node_lease_forget(node_client_t *worker); /* it is dead */
/* Gives others what leases can spare; true if something may start now that could not before. */
bool node_leases_yield(node_t *node);
void node_leases_take_free(node_t *node);
/* Of a task that lies in a queue or was taken from one, for people to read. False: not to be had
 * easily. */
bool node_record_name(node_t *node, uint32_t record, char *ret_name, size_t capacity);
void node_leases_recall(node_t *node); /* all of them: nothing new is to be begun */
size_t node_leases_due(node_t *node);  /* workers that are between two tasks, or about to be free */
void node_events_read(node_client_t *worker);
/* one who died may have taken a queue's bit and not looked again */
void node_queues_note(node_t *node);

/* worker.c: the pool and the zygote */
/* one that has nothing to do, out of the pool; NULL: none */
node_client_t *node_worker_idle(node_t *node);
/* Whether a task that could start elsewhere waits behind another in a worker, and since when it
 * waits. */
bool node_ahead_waits(node_t *node, uint64_t *ret_since_ns);
/* in SCHED_UNITs; negative when more are used than there are */
int64_t node_cpus_free(node_t *node);
void node_schedule(node_t *node);
/* schedules, and answers what waits, after that time at the latest */
void node_look_again(node_t *node, uint64_t ms);
/* How many workers have published the results of what they run and not told us yet. They are about
 * to, unless they were killed. */
size_t node_workers_due(node_t *node, bool actors_too);
mob_status_t node_zygote_start(node_t *node);
void node_zygote_packet(node_client_t *client, uint32_t kind);
void node_zygote_died(node_t *node);
void node_worker_hello(node_client_t *connection, uint64_t token);
void node_worker_free(node_client_t *worker); /* it has nothing to do now */
/* Sends an idle one home. False: not while tasks of its own are open, which would be cancelled with
 * it. */
bool node_worker_retire(node_client_t *worker);
void node_worker_blocked(node_client_t *worker); /* its task waits for others */
/* what they were given ahead of the task that they run is taken back */
void node_workers_hold_back(node_t *node);
void node_worker_forget(node_client_t *worker);
void node_worker_start_failed(node_client_t *worker);
/* A worker ended without having run anything. After some in a row, the tasks that wait for one
 * fail. */
void node_worker_useless(node_t *node, const char *how, bool by_itself);
void node_worker_exit_text(const node_client_t *worker, char *ret_text, size_t size);
void node_children_reap(node_t *node);
size_t node_children_list(pid_t *ret_children, size_t capacity); /* our children, from the kernel */

/* text.c: what workers print */
/* Takes the descriptor, also if it fails. */
mob_status_t node_stream_open(node_client_t *client, node_stream_t *stream, int fd, int kind);
void node_stream_close(node_stream_t *stream);
void node_streams_finish(node_t *node);
void node_streams_resume(node_t *node);
void node_warn(node_t *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* query.c */
void node_site(node_client_t *client, const shm_message_t *message);
void node_observer_packet(node_client_t *client, const void *packet, size_t size);
void node_query(node_client_t *client, const shm_message_t *message);
void node_questions_answer(node_t *node);
/* The memory that a question names; NULL, and the asker's fault, if it is not its own. */
uint8_t *node_question_space(node_client_t *client, const shm_message_t *message);

/* shape.c: demands, and which client holds them */
void node_shape(node_client_t *client, const shm_message_t *message);
void node_shape_drop(node_client_t *client, uint32_t shape);
void node_shapes_forget(node_client_t *client); /* it is dead */
/* Tells the driver, once a shape, that the node will never have what it needs. */
void node_warn_if_never(node_t *node, uint32_t shape, mob_kind_t kind, const char *name);

#endif
