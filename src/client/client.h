/*
 * The inside of a client: what its files share. Drivers and workers are clients: each maps the
 * node's segments and talks to the daemon by two rings.
 *
 * One mutex guards everything that is not atomic. No thread holds it while user code runs. The
 * thread that holds it waits for nothing but the daemon: for its answer, or for space in a ring
 * that it reads.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/status.h"
#include "base/vec.h"
#include "client/large.h"
#include "client/pulse.h"
#include "client/vigil.h"
#include "mobula.h"
#include "shm/heap.h"
#include "shm/node.h"
#include "shm/segment.h"
#include "store/flow.h"
#include "wire/message.h"
#include "wire/record.h"

/* This process's counts of one slot, under one generation: ref.c has the rule. `owned`: this
 * process opened the slot and has held it since, or was given it. `registered`: the daemon knows
 * that this process holds it. */
typedef struct {
    uint32_t count;
    uint32_t generation; /* its low bits; 0: nothing is counted */
    uint32_t pins : 24;  /* so many readers of this process have its value open in place */
    bool owned : 1, registered : 1, escaped : 1;
    bool given : 1;       /* owned, but its slot is another client's: an item of a flow */
    bool is_function : 1; /* tasks that this process submitted, and that the daemon does not know,
                             may name it */
    uint16_t queue;       /* of an actor: the queue for this process's calls; 0: none */
    uint16_t refused; /* calls since the daemon refused a queue, plus one; 0: it was not asked, or
                         granted one */
} client_local_t;
_Static_assert(SHM_QUEUES <= UINT16_MAX, "a queue's number fits");
_Static_assert(sizeof(client_local_t) == 16, "four of them in a cache line");

/* A call in a queue that the actor has looked at, and could not take. */
typedef struct {
    uint64_t entry;
    mob_ref_t missing; /* the argument that it waits for; slot 0: none is known of */
} client_kept_t;

typedef struct {
    VEC(client_kept_t) calls;
    size_t next; /* those before it were taken */
} client_row_t;

/* A queue that an actor takes calls from. */
typedef struct {
    uint32_t queue, rings;      /* rings: what the bell said before the last look at `unready` */
    bool ending;                /* its caller will push nothing more */
    uint64_t seen;              /* the position behind the last entry that was looked at */
    VEC(client_row_t) rows;     /* by group: calls that were kept, in their order */
    VEC(client_kept_t) unready; /* of an actor out of order: calls that wait for arguments */
} client_calls_t;

/* A concurrency group of an actor. */
typedef struct {
    uint32_t limit;
    _Atomic uint32_t running; /* written under the mutex; the taker looks without it, as a hint */
    VEC(wire_message_t) held; /* orders of the daemon's that came while it was full, in order */
    size_t held_next;         /* those before it were taken */
} client_group_t;

/* What a run has stored for one of its returns so far. */
typedef struct {
    bool has_block, escaped;
    uint32_t file; /* the number of the file that the result lies in; 0: none */
} client_result_t;

/* A record that this worker has claimed, and has not finished. */
typedef struct client_run {
    mob_run_t run; /* the part that the user of mob_run_t sees */
    uint32_t record;
    uint64_t generation;
    bool taken;  /* this worker took it from a queue; else the daemon told it to run it */
    bool leased; /* ... from a queue of tasks, under its lease */
    bool failed; /* a result is an error */
    bool large;  /* a result lies in a file */
    bool raised; /* a task or a creation, by an exception */
    bool repeatable, remakeable; /* the task may be run again; and a result is large enough for the
                                    daemon to do so if it is lost */
    bool cancelled, interrupted; /* interrupted: and this worker has broken it off */
    wire_body_t body;
    client_result_t *results; /* one a return */
    /* of a run that gives out items; NULL: it does not */
    store_flow_t *flow;
    mob_ref_t item,
        next_item;       /* the tail; the slot of the item behind it, slot 0: not opened yet */
    uint32_t item_file;  /* the number of the file for the tail's value; or */
    uint64_t item_block; /* space for the tail's value that was not committed; 0: none */
    bool unread;         /* nobody reads the items any more, or there are none left */
    bool told;           /* an error is among the items */
    size_t result_capacity;
    struct client_run *next, *next_free;
} client_run_t;

/* How a run came to this worker. `taken`: from a queue, of tasks if `leased`, else of calls. */
typedef struct {
    uint32_t record;
    uint64_t generation, gpu_mask;
    bool may_retry, taken, leased;
    bool restarted, made; /* a creation, as WIRE_RUN_RESTARTED and WIRE_RUN_MADE say */
} client_order_t;

/* An object that names a function, by the bytes in it. */
typedef struct {
    void *data;
    size_t size;
    mob_ref_t ref;
} client_function_t;

/* The daemon refused what a thread here asked for: space of `size` bytes, or an object that is on
 * disk. */
typedef struct {
    uint64_t size;
    mob_ref_t ref;
    mob_status_t status;
    uint64_t number; /* how many refusals there ever were, with this one */
} client_refusal_t;

/* How long a thread should look before it sleeps, for one kind of wait: see rest.c. Hints, so
 * several threads may share them. */
typedef struct {
    _Atomic uint64_t since_ns; /* when the last look began */
    _Atomic uint64_t spin_ns;  /* 0: the least */
} client_patience_t;

/* Entries of a table that the daemon granted to this process, and those of them known to be
 * free. */
typedef struct {
    struct {
        uint32_t first, count;
    } * ranges;
    size_t range_count, range_capacity;
    VEC(uint32_t) free;
    uint32_t total, since_sweep; /* since_sweep: how many entries the last sweep put into `free`,
                                    and the daemon granted since */
} client_pool_t;

struct mob_client {
    pthread_mutex_t mutex;
    uint32_t role, number, epoch;
    uint32_t job, lanes; /* its number; the number of its first lane */
    uint64_t incarnation;
    int sock, daemon_event, daemon_pid;
    char *session_dir, *socket_path;
    VEC(char *) spill_dirs; /* a driver's, as configured */
    uint32_t environment;   /* where its tasks run if nothing else is said; 0: its job's own */
    void *setup;            /* a worker's job's (wire/setup.h) */
    size_t setup_size;
    bool joined;            /* a driver whose daemon it did not start */
    _Atomic bool dead;      /* the daemon is gone, or this process has left it */
    _Atomic uint32_t views; /* values in use; plus one until shutdown */
    bool messages_ended;
    char *packet; /* mob_message_read's */

    shm_segment_t node_segment, own_segment, slot_segment, record_segment, extent_segment, arena,
        queue_segment;
    shm_node_t *node;
    shm_queue_t *queues; /* by number: of each lane and client, then of calls */
    shm_events_t *events;
    _Atomic uint64_t *pins; /* one bit a slot */
    shm_ring_t *up, *down;
    store_slot_t *slots;
    wire_record_t *records;
    shm_heap_t heap;
    client_pool_t slot_pool, record_pool;
    client_local_t *local; /* one a slot, sparse */
    client_large_t large;  /* values in files */

    VEC(client_function_t) functions; /* that were named by mob_function_c and its like */

    struct mob_event *events_list; /* see event.c */
    pthread_t events_thread;
    pthread_cond_t events_cond;
    bool events_thread_runs, events_stop;
    _Atomic bool events_parked, events_unlimited; /* how the bell's thread sleeps */

    uint32_t space_news; /* counts the daemon's messages about space that a thread here waits for */
    VEC(client_refusal_t) refusals; /* the newest last */
    uint64_t refusals_told;         /* how many there ever were */

    _Atomic bool woke;         /* the last push woke a worker, which may want this CPU. A hint */
    _Atomic uint32_t spinners; /* threads in client_spin */
    client_patience_t get_patience, run_patience;
    bool answered;
    wire_message_t answer;
    uint8_t wait_places;       /* of the segment's: taken, one bit each */
    wire_message_t deadlocked; /* WIRE_DEADLOCK, the last that came; kind 0: none has */
    client_pulse_t pulse;
    client_owed_t owed;

    /* workers */
    VEC(wire_message_t) orders; /* told to run, in order, from order_next */
    size_t order_next;
    VEC(mob_ref_t) forgets; /* functions to be unloaded */
    bool told_to_exit;
    char class_name[64]; /* an actor's, for its title */
    char titled[64];     /* the name of the run in the title, if it is no longer than this */
    size_t titled_size;  /* SIZE_MAX: there is none */
    size_t class_size;   /* 0: it is none */
    bool looking;        /* this worker's bit in the lane's `looking` is set */
    uint32_t looking_lane;
    uint32_t queue_turn;  /* the number of the client whose queue the last task came from */
    bool queue_has_next;  /* ... had another entry then */
    uint64_t ended_ns;    /* when the last run ended, if this worker has not waited since; else 0 */
    bool run_unclaimable; /* this worker claims no run any more: a record makes no sense, there is
                             no memory for it, or the session ends */
    bool reads;           /* this process has told the daemon that it reads flows */
    mob_ref_t actor;      /* the actor that this process is; slot 0: none */
    VEC(client_calls_t) calls; /* an actor's */
    size_t calls_turn;
    bool calls_ending;          /* some of them are */
    VEC(client_group_t) groups; /* an actor's; none: `limit` is all that there is */
    bool out_of_order;          /* a call that is not ready holds up none of its caller's */
    client_run_t *runs,
        *free_runs; /* every one that was ever made, and those of them that are not in use */
    mob_run_t *claimed, forget; /* the run that was claimed last, and the last MOB_FORGET */
    uint32_t cancelled;         /* runs that were cancelled, and not given out as such */
    uint32_t running, limit;    /* runs that are not finished, and how many there may be */
    bool awaits_end;            /* the taker can't go on before a run is finished */
    uint32_t waiting;           /* of those, how many stand still because a thread waits */
    uint64_t period;            /* counts the times without a pause between runs */
    bool has_loop;              /* a thread's event loop runs them by turns */
    bool leased, lent; /* leased: the run's CPU is the lease's. lent: that CPU, or what the actor
                          holds, is lent */
    uint32_t holds;    /* the shape of what this worker holds without a lease */
};

extern _Atomic bool client_forked; /* set in the child of a fork, by the handler that mob_init and
                                      mob_worker_connect install */

/*
 * The files' contracts with each other. "Under the mutex": the caller holds c->mutex. "Not under
 * the mutex": the function takes it itself, or sleeps. "Any": it does not matter. All threads of a
 * driver may call at any time. "The taker" is the one thread of a worker that takes runs.
 */

/* How often a sleeper makes sure that the daemon lives. */
#define CLIENT_LOOK_UP_NS INT64_C(1000000000)

/* ---- connect.c: beginning and end. Not under the mutex: no other thread has the client yet, or
 * any more. They wait for the daemon. ---- */

/* Connects to a daemon of this user. */
mob_status_t client_socket_connect(const char *path, int *ret_sock);
/* Removes the session's folders, after the daemon's end. */
void client_folders_remove(mob_client_t *c);

/* ---- handshake.c: the same ---- */

/* Says hello on the client's socket and maps the segments of the welcome. A worker has no `config`.
 * Waits for the daemon, up to 20 s. */
mob_status_t client_handshake(mob_client_t *c, uint64_t token, const mob_config_t *config);
/* Says hello as the starter, and waits until the daemon is ready. *ret_dir is the caller's. */
mob_status_t client_start_await(mob_client_t *c, const mob_config_t *config, char **ret_dir);
enum { CLIENT_ANSWER_MS = 20000 }; /* so long a daemon may take that is busy or slow */
/* Receives one packet of up to `capacity` bytes, with up to `most` descriptors, which are the
 * caller's then. Waits so long at most; -1: for ever. Of size 0: the daemon hung up. */
mob_status_t client_packet_receive(int sock, int timeout_ms, void *packet, size_t capacity,
                                   size_t *ret_size, int *ret_fds, int most, int *ret_fd_count);
/* Moves fd out of the way: a program that closed its standard streams must not find our descriptors
 * there. Takes fd. */
int client_fd_above_standard(int fd);

/* ---- link.c: talking to the daemon. Under the mutex, unless it says otherwise. ---- */

/* Whether this process may call. Any. */
mob_status_t client_check(const mob_client_t *c);
/* Sends a message, and wakes the daemon for it. Waits only while the ring is full. */
void client_push(mob_client_t *c, wire_message_t message);
/* The same, but does not wake the daemon, which reads the message before any later one of this
 * process. */
void client_push_quietly(mob_client_t *c, wire_message_t message);
/* Waits until the ring has space for a call's messages. MOB_ECLOSED, MOB_ESTOPPED: it will not. */
mob_status_t client_room_await(mob_client_t *c);
/* Pushes a request and waits for its answer. MOB_ESTOPPED: the daemon is stopped; the request may
 * have been pushed, and an answer that comes later is taken care of. */
mob_status_t client_ask(mob_client_t *c, const wire_message_t *request, uint32_t answer_kind,
                        wire_message_t *ret_answer);
/* The same without a limit, for what the daemon has to be told whenever it goes on. */
uint64_t client_report(mob_client_t *c, const wire_message_t *request);
/* Makes the daemon look at its rings and at the queues. Any. */
void client_notify(mob_client_t *c);
/* Takes all messages off the ring down. */
void client_listen(mob_client_t *c);
/* Whether the daemon is still there; looks at the socket. Any. */
bool client_daemon_alive(mob_client_t *c);
/* MOB_ECLOSED, with the words for it. Any. */
mob_status_t client_daemon_gone(void);
/* Wakes the clients whose bits are in a slot's old word. True: a client without a bit waits, so the
 * caller must ask the daemon to ring all bells. Any. */
bool client_wake(mob_client_t *c, uint64_t slot_word);

/* ---- query.c. Under the mutex; waits for the daemon. ---- */

/* Asks the daemon, with space for `size` bytes: `input` lies there first, then the answer.
 * *ret_copy, if ret_copy is not NULL, is the caller's to free. MOB_ESPACE: not now. */
/* Why the daemon refused what was asked for, in its own words; the status. Under the mutex. */
mob_status_t client_refused(const mob_client_t *c, const wire_message_t *answer);
mob_status_t client_ask_with_space(mob_client_t *c, wire_message_t *request, const void *input,
                                   size_t input_size, uint64_t size, wire_message_t *ret_answer,
                                   void **ret_copy);

/* ---- rest.c: waiting. Any thread, not under the mutex. ---- */

typedef bool (*client_look_fn)(mob_client_t *c, void *context);
/* Calls `there` again and again for a while, if there are CPUs for it. True as soon as `there`
 * is. */
bool client_spin(mob_client_t *c, client_patience_t *patience, client_look_fn there, void *context);
/* After a look in vain and a sleep: `there`, or this thread was woken for nothing. */
void client_patience_learn(client_patience_t *patience, bool there);
/* As shm_bell_sleep, on this process's bell. */
bool client_sleep(mob_client_t *c, uint32_t seen, int64_t timeout_ns);
/* Other processes guess by this whether it is worth to spin. */
void client_awake_set(mob_client_t *c, bool awake);
bool client_may_spin(mob_client_t *c);
enum { CLIENT_LARGE_COPY = 1 << 20 }; /* worth more than memcpy */
/* CPUs that no process of the session uses now, as far as the shared words say. */
unsigned client_idle_cpus(mob_client_t *c);
/* When a wait ends, by the monotonic clock; UINT64_MAX: never. And how long to sleep: until then,
 * or until it is time to look whether the daemon lives; 0: the wait is over. */
uint64_t client_wait_deadline(int64_t timeout_ms);
int64_t client_wait_slice(uint64_t deadline_ns);
/* Before a sleep: MOB_ELIMIT, with words, for a thread that must not. Or the daemon is stopped. */
mob_status_t client_wait_check(mob_client_t *c);

/* ---- queue.c: tasks that workers take by themselves. Under the mutex. ---- */

/* The queue has space: the caller has looked. */
void client_queue_push(mob_client_t *c, uint32_t lane, uint32_t record, uint64_t generation);
/* A queue of the lane has something: wakes a worker for it, or tells the daemon, unless a worker
 * looks. */
void client_queue_tell(mob_client_t *c, uint32_t lane);
/* Any. */
bool client_queues_have(mob_client_t *c, uint32_t lane);
/* Clears the bits of queues that are empty, before a sleep. */
void client_queues_clear(mob_client_t *c, uint32_t lane);
/* The parts of a record that has arguments by reference. False: it has none, or makes no sense. */
bool client_record_split(const mob_client_t *c, const wire_record_t *record, wire_body_t *ret_body);
typedef bool (*client_claim_fn)(mob_client_t *c, uint64_t entry);
/* Claims the first entry that can be claimed. The taker. */
bool client_queue_take(mob_client_t *c, uint32_t lane, client_claim_fn claim);

/* ---- calls.c: calls of actors. Under the mutex. ---- */

/* The queue for this process's calls of the actor; 0: they go through the daemon. May wait for the
 * daemon. */
mob_status_t client_calls_queue(mob_client_t *c, mob_ref_t actor, uint32_t *ret_queue);
/* The daemon has answered to the question for it. */
void client_calls_granted(mob_client_t *c, mob_ref_t actor, const wire_message_t *answer);
void client_call_push(mob_client_t *c, uint32_t number, uint32_t record, uint64_t generation);
/* The rest is for the taker of an actor's worker. The daemon named a queue to take calls from; or
 * one that gets nothing more. */
void client_calls_add(mob_client_t *c, uint32_t number);
void client_calls_end(mob_client_t *c, uint32_t number);
bool client_calls_have(mob_client_t *c); /* there is a call that can be taken now */
bool client_calls_wait(mob_client_t *c); /* there is a call */
/* A call can't be taken because its group is full. */
bool client_calls_crowded(mob_client_t *c);
bool client_call_take(mob_client_t *c, client_claim_fn claim);
/* Tells the daemon which queues get nothing more and are empty: this worker is done with them. */
void client_calls_finish(mob_client_t *c);
/* At the end. */
void client_calls_free(mob_client_t *c);

/* ---- group.c: concurrency groups of an actor. Under the mutex; the taker, unless it says
 * otherwise. ---- */

/* How many there are, with the default one. */
static inline size_t client_group_count(const mob_client_t *c) {
    return c->groups.count > 0 ? c->groups.count : 1;
}
/* The group of a call. */
static inline uint32_t client_group_of(const mob_client_t *c, const wire_record_t *record) {
    return record->group < c->groups.count ? record->group : 0;
}
/* Whether a call of this group may begin, if this worker is not full. Any. */
static inline bool client_group_has_room(const mob_client_t *c, uint32_t group) {
    return c->groups.count == 0 || c->groups.items[group].running < c->groups.items[group].limit;
}
/* A run of this group begins; or one is over, by any thread. */
void client_group_begin(mob_client_t *c, uint32_t group);
void client_group_end(mob_client_t *c, uint32_t group);
/* The order is for a call of a group that is full, or has others waiting: it is kept. `first`:
 * before the others. False: it may be carried out now. */
bool client_group_hold(mob_client_t *c, const wire_message_t *order, bool first);
/* The first order that was kept, and may be carried out now. */
bool client_group_next(mob_client_t *c, wire_message_t *ret_order);
/* Orders are kept. */
bool client_groups_hold(const mob_client_t *c);
/* At the end. */
void client_groups_free(mob_client_t *c);

/* ---- lease.c: a worker's right to take tasks. Under the mutex; the taker, unless it says
 * otherwise. ---- */

uint32_t client_lane(mob_client_t *c);    /* the lane that this worker's lease is for */
bool client_lease_begin(mob_client_t *c); /* whether this worker may take a task now */
void client_lease_rest(mob_client_t *c);  /* this worker found no task */
/* Says what runs under the lease; 0: nothing does. */
void client_lease_run(mob_client_t *c, uint32_t record_and_one);
/* Whether submitters may rely on this worker to look into the queues before it sleeps. */
void client_looking_set(mob_client_t *c, bool looking);
/* Submitters may not rely on this worker any more. If a queue has something by now, another worker
 * is woken for it. */
void client_looking_end(mob_client_t *c);
/* Looks for work for a while; true: there is something to do. Not under the mutex. */
bool client_lease_look(mob_client_t *c, uint32_t seen);
/* False if a signal handler ran. Not under the mutex. */
bool client_lease_sleep(mob_client_t *c, uint32_t seen);
/* This worker wakes to work: the daemon is to look at the machine's memory from now on. Not under
 * the mutex. */
void client_work_tell(mob_client_t *c);
void client_lease_block(mob_client_t *c);
void client_lease_unblock(mob_client_t *c);

/* ---- lending.c: what a worker holds, while its runs wait ---- */

/* This thread has claimed a run; or one is over. Under the mutex. */
void client_lending_begin(mob_client_t *c, mob_ref_t run);
/* The one run that stands still while this thread waits: its record and generation. False: there
 * is none, or it is not certain. Any. */
bool client_lending_run(const mob_client_t *c, mob_ref_t *ret_run);
void client_lending_end(mob_client_t *c);
/* This thread gives a run to another, or gets it from there. Any. */
void client_lending_give(void);
void client_lending_accept(mob_ref_t run);
/* Lends, or takes back, what is due now. Under the mutex. */
void client_lending_settle(mob_client_t *c);
/* Around a wait of this thread, while its runs stand still. Not under the mutex. */
typedef struct {
    uint64_t period; /* 0: there was no run */
    uint32_t runs;
    bool lends; /* this worker's CPUs may be lent because this thread waits */
} client_wait_t;
client_wait_t client_waiting_begin(mob_client_t *c);
void client_waiting_end(mob_client_t *c, client_wait_t wait);

/* ---- run.c. Under the mutex. ---- */

/* Claims a record. False: another worker has it, or the daemon took it back. Whatever can fail is
 * done before the claim. If it fails, this worker ends, and the task, which is not begun, goes to
 * another worker. The taker. */
bool client_run_claim(mob_client_t *c, const client_order_t *order);
/* At the end. */
void client_runs_free(mob_client_t *c);
/* Of a run that the daemon does not know, or of an item: does what the daemon would do when it is
 * sealed. `word`: before that, and ESCAPED if it was sealed so. */
void client_result_settle(mob_client_t *c, mob_ref_t ref, uint64_t word);

/* ---- maker.c: items of a run. Under the mutex. ---- */

/* The run begins, or goes on where the last one stopped. */
void client_maker_begin(mob_client_t *c, client_run_t *run, bool flows);
/* The run is over, or given back: lets go of what was made for an item that there will not be. */
void client_maker_end(mob_client_t *c, client_run_t *run);
/* The same of what needs no mutex: not under it, and before. */
void client_maker_abort(mob_client_t *c, client_run_t *run);
/* Writes the end of the flow, before DONE; publishes it after that. True as client_wake. */
void client_maker_end_write(mob_client_t *c, client_run_t *run);
bool client_maker_end_publish(mob_client_t *c, client_run_t *run);

/* ---- flow.c: reading items. Under the mutex. ---- */

/* A task that flows is about to be submitted. */
void client_flow_note(mob_client_t *c);

/* ---- cancel.c ---- */

/* The daemon has cancelled a run of this worker. Under the mutex. */
void client_cancel_told(mob_client_t *c, uint32_t record, uint64_t generation);
/* A worker whose program does not handle WIRE_CANCEL_SIGNAL must not die by it. At the
 * beginning. */
void client_cancel_ignore(void);
/* The run that submits the task: the one that its submitter names, else the only one. Under the
 * mutex. */
static inline uint64_t client_parent_of(const mob_client_t *c, const mob_task_t *task) {
    const mob_run_t *run = task->parent;
    if (run == NULL && c->running == 1 && c->limit == 1) run = c->claimed;
    const client_run_t *found = (const client_run_t *)run; /* the public part comes first */
    return found == NULL ? 0 : wire_entry(found->record, found->generation);
}

/* ---- worker.c ---- */

/* The daemon has this worker run a call again: before all others. Under the mutex. */
void client_order_again(mob_client_t *c, uint32_t record, uint64_t generation, bool may_retry);
/* Whether this thread unloads a function, and so must not wait for a result. Any. */
bool client_is_unloading(void);

/* ---- title.c: what ps shows of a worker. Under the mutex, or by the taker while nothing runs.
 * ---- */

/* The worker is about to run one of another name than before. */
void client_title_change(mob_client_t *c, const mob_run_t *run);
/* The worker is about to sleep. */
void client_title_rest(mob_client_t *c);
/* The worker is about to run this one; most have the name of the one before. */
static inline void client_title_run(mob_client_t *c, const mob_run_t *run) {
    if (run->name_size != c->titled_size || memcmp(run->name, c->titled, run->name_size) != 0)
        client_title_change(c, run);
}

/* ---- pool.c: slots and records that the daemon granted to this process. Under the mutex; may wait
 * for the daemon. ---- */

mob_status_t client_slot_take(mob_client_t *c, uint32_t *ret_slot);
void client_slot_give(mob_client_t *c, uint32_t slot);
mob_status_t client_record_take(mob_client_t *c, uint32_t *ret_record);
void client_record_give(mob_client_t *c, uint32_t record);
/* The daemon granted these. */
void client_pool_add(mob_client_t *c, bool is_slots, const wire_message_t *grant);

/* ---- space.c: memory of the arena. Under the mutex, unless it says otherwise. ---- */

/* The heap's grant function; waits for the daemon's answer, not for space. */
mob_status_t client_heap_grant(void *context, uint64_t size, uint64_t least, uint64_t *ret_offset,
                               uint64_t *ret_size, uint64_t *ret_serial);
/* The daemon has sent WIRE_SPACE or WIRE_RESTORED. */
void client_space_told(mob_client_t *c, const wire_message_t *m);
/* Why the daemon did not bring an object back, if it has said so since refusal number `told`; else
 * MOB_OK. Every thread that waits for the object finds it. */
mob_status_t client_refusal_find(mob_client_t *c, mob_ref_t ref, uint64_t told);
/* Gives the status words: which processes have the memory. Not under the mutex. */
mob_status_t client_refuse(mob_client_t *c, mob_status_t status, uint64_t size);

/* ---- pin.c: values that are read in place ---- */

/* Under the mutex. */
void client_pin(mob_client_t *c, mob_ref_t ref);
/* Takes all pins of the slot away. The caller ends the mapping that this returns. Under the
 * mutex. */
client_map_t client_unpin(mob_client_t *c, uint32_t slot);
/* One pin more, or one less. Not under the mutex. */
void client_pin_hold(mob_client_t *c, mob_ref_t ref);
void client_pin_drop(mob_client_t *c, mob_ref_t ref);

/* ---- ref.c: counting. Under the mutex. A reference whose slot holds another object by now is
 * stale, and not counted; its slot must be valid. ---- */

void client_ref_retain(mob_client_t *c, mob_ref_t ref);
/* The same, of one that the daemon has noted this process to hold. */
void client_ref_adopt(mob_client_t *c, mob_ref_t ref);
void client_ref_release(mob_client_t *c, mob_ref_t ref);
/* This process is about to publish the reference to another one. */
void client_ref_escape(mob_client_t *c, mob_ref_t ref);
/* Begins to count this object, if the counts that are there are of an earlier one. False: the
 * reference itself is stale. */
bool client_local_renew(mob_client_t *c, mob_ref_t ref);
static inline bool client_local_is(const mob_client_t *c, mob_ref_t ref) {
    return c->local[ref.slot].generation == (uint32_t)ref.generation;
}
/* This process has opened the slot, and holds it. */
static inline void client_local_begin(mob_client_t *c, mob_ref_t ref) {
    c->local[ref.slot] =
        (client_local_t){.count = 1, .generation = (uint32_t)ref.generation, .owned = true};
}
/* NULL: it is stale. */
static inline client_local_t *client_local(mob_client_t *c, mob_ref_t ref) {
    return client_local_is(c, ref) || client_local_renew(c, ref) ? &c->local[ref.slot] : NULL;
}

/* ---- name.c: actors by name. Under the mutex, unless it says otherwise. ---- */

/* Any. */
mob_status_t client_name_check(const mob_actor_name_t *named);
/* The record of the actor's creation is READY: submits it under its name. MOB_EEXISTS: the daemon
 * has failed the creation. Waits for the daemon. */
mob_status_t client_create_named(mob_client_t *c, const mob_task_t *task, uint32_t record,
                                 uint64_t generation);

/* ---- function.c, event.c ---- */

/* At the end. */
void client_functions_free(mob_client_t *c);
/* In the child of a fork. */
void client_events_forked(void);

/* ---- object.c. Any; the caller holds the objects that it names. ---- */

bool client_is_sealed(const mob_client_t *c, mob_ref_t ref);
/* Its task is still to be done. */
bool client_is_pending(const mob_client_t *c, mob_ref_t ref);
/* Whether all of them name objects that are there or pending. */
mob_status_t client_refs_check(const mob_client_t *c, const mob_ref_t *refs, size_t count);

/* ---- put.c ---- */

/* Finds space for the value of an object that is open and this process's to seal. MOB_ESPACE: not
 * now. Under the mutex, unless the value fits into the slot. */
mob_status_t client_buffer_begin(mob_client_t *c, mob_ref_t ref, uint64_t size, uint32_t ref_count,
                                 mob_buffer_t *ret_buffer);
/* The same of an item of a flow, whose slot itself has less space. */
mob_status_t client_item_begin(mob_client_t *c, mob_ref_t ref, uint64_t size, uint32_t ref_count,
                               mob_buffer_t *ret_buffer);
/* Fills the slot's fields. Any: the slot is PENDING and this process's to seal. */
void client_buffer_store(mob_client_t *c, mob_buffer_t *buffer, mob_format_t format,
                         mob_status_t error, const mob_ref_t *refs);
/* Call it before you publish or free a cold buffer: the daemon then counts on no more memory for
 * it. Under the mutex. */
void client_buffer_told(mob_client_t *c, const mob_buffer_t *buffer);
/* The message that tells the daemon of a value that is published ESCAPED. */
wire_message_t client_escape_of(const mob_buffer_t *buffer);

/* ---- queue.c, calls.c: records ---- */

/* Another CPU wrote the next record of a queue: this one fetches it while a run is on. Another
 * worker may claim it all the same. */
static inline void client_entry_fetch(const mob_client_t *c, uint64_t entry) {
    const char *record = (const char *)&c->records[wire_entry_index(entry)];
    for (size_t at = 0; at < sizeof(wire_record_t); at += 64) __builtin_prefetch(record + at);
}

static inline bool client_slot_valid(uint32_t slot) { return slot != 0 && slot < STORE_MAX_SLOTS; }

#endif
