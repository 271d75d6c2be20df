/*
 * The inside of a client: what its files share. Drivers and workers are clients; both map the
 * node's segments and talk to the daemon by their two rings.
 *
 * One mutex guards everything that is not atomic. It is never held while user code runs, and while
 * it is held this process waits for nothing but the daemon's answer to a request for memory.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"
#include "base/vec.h"
#include "client/large.h"
#include "mobula.h"
#include "shm/heap.h"
#include "shm/node.h"
#include "shm/segment.h"
#include "store/slot.h"
#include "wire/message.h"
#include "wire/record.h"

/* This process's counts of one slot, under one generation: ref.c has the rule. `owned`: we opened
 * it and hold it since. `registered`: the daemon knows that we hold it. */
typedef struct {
    uint32_t count;
    uint32_t generation; /* its low bits; 0: nothing is counted */
    uint32_t pins : 24;  /* its value is read in place so often */
    bool owned : 1, registered : 1, escaped : 1;
    bool is_function : 1; /* tasks of ours that the daemon does not know may name it */
    uint16_t queue;       /* an actor: for our calls of it; 0: none */
    uint16_t refused;     /* calls since the daemon had none for us, plus one; 0: not asked */
} client_local_t;
_Static_assert(SHM_QUEUES <= UINT16_MAX, "a queue's number fits");
_Static_assert(sizeof(client_local_t) == 16, "four of them in a cache line");

/* A queue that an actor takes calls from. */
typedef struct {
    uint32_t queue;
    bool ending;       /* nothing more will be pushed */
    mob_ref_t missing; /* an argument that its first call waits for */
} client_calls_t;

/* What a run has stored for one of its returns so far. */
typedef struct {
    bool has_block, escaped;
    uint32_t file; /* it lies in, by its number; 0: none */
} client_result_t;

/* A record that this worker has claimed, and has not finished. */
typedef struct client_run {
    mob_run_t run; /* what its user sees */
    uint32_t record;
    uint64_t generation;
    bool taken;  /* from a queue; else the daemon told us to run it */
    bool leased; /* ... of tasks, under our lease */
    bool failed; /* a result is an error */
    bool large;  /* a result lies in a file */
    wire_body_t body;
    client_result_t *results; /* one a return */
    size_t result_capacity;
    struct client_run *next, *next_free;
} client_run_t;

/* How a run came to us. `taken`: from a queue, of tasks if `leased`, else of calls. */
typedef struct {
    uint32_t record;
    uint64_t generation, gpu_mask;
    bool may_retry, taken, leased;
} client_order_t;

/* An object that names a function, by the bytes in it. */
typedef struct {
    void *data;
    size_t size;
    mob_ref_t ref;
} client_function_t;

/* What was asked for and will not be had: space of so many bytes, or an object that is on disk. */
typedef struct {
    uint64_t size;
    mob_ref_t ref;
    mob_status_t status;
    uint64_t number; /* counts them */
} client_refusal_t;

/* How long it is worth to look before one sleeps, for one kind of wait: see rest.c. Hints, so
 * several threads may share it. */
typedef struct {
    _Atomic uint64_t since_ns; /* when the last look began */
    _Atomic uint64_t spin_ns;  /* 0: the least */
} client_patience_t;

/* Entries of a table that the daemon granted to us, and those of them known to be free. */
typedef struct {
    struct {
        uint32_t first, count;
    } * ranges;
    size_t range_count, range_capacity;
    VEC(uint32_t) free;
    uint32_t total,
        since_sweep; /* since_sweep: how many came into `free` by the last sweep and since */
} client_pool_t;

struct mob_client {
    pthread_mutex_t mutex;
    uint32_t role, number, epoch;
    uint64_t incarnation;
    int sock, daemon_event, daemon_pid;
    char *session_dir, *socket_path;
    VEC(char *) spill_dirs; /* a driver's, as configured */
    void *setup;
    size_t setup_size;
    _Atomic bool dead;      /* the daemon is gone */
    _Atomic uint32_t views; /* values in use; plus one until shutdown */
    bool messages_ended;
    char *packet; /* mob_message_read's */

    shm_segment_t node_segment, own_segment, slot_segment, record_segment, extent_segment, arena,
        queue_segment;
    shm_node_t *node;
    shm_queue_t *queues; /* by client; ours too */
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
    _Atomic bool events_parked;

    uint32_t space_news; /* counts what the daemon said about space that somebody here waits for */
    VEC(client_refusal_t) refusals; /* the newest last */
    uint64_t refusals_told;         /* how many there ever were */

    _Atomic bool woke;         /* our last push woke somebody: he may want our CPU. A hint */
    _Atomic uint32_t spinners; /* threads in client_spin */
    client_patience_t get_patience, run_patience;
    bool answered;
    wire_message_t answer;

    /* workers */
    VEC(wire_message_t) orders; /* told to run, in order, from order_next */
    size_t order_next;
    VEC(mob_ref_t) forgets; /* functions to be unloaded */
    bool told_to_exit;
    char class_name[64]; /* an actor's, for its title */
    size_t class_size;   /* 0: it is none */
    bool looking;        /* our bit in the lane's `looking` is up */
    uint32_t looking_lane;
    uint32_t queue_turn;  /* whose queue the last task came from */
    bool queue_has_next;  /* ... had another entry then */
    uint64_t ended_ns;    /* when the last run ended, if nothing was waited for since; else 0 */
    bool run_unclaimable; /* none is claimed any more: a record makes no sense, there is no memory
                             for it, or the session ends */
    mob_ref_t actor;      /* that this process is; slot 0: none */
    VEC(client_calls_t) calls; /* an actor's */
    size_t calls_turn;
    bool calls_ending; /* some of them are */
    client_run_t *runs,
        *free_runs; /* all that were ever needed at once, and those that are not in use */
    mob_run_t *claimed, forget; /* what was taken last */
    uint32_t running, limit;    /* runs that are not finished, and how many there may be */
    bool awaits_end;            /* the taker of runs can't go on before one is finished */
    uint32_t waiting;           /* of those, how many stand still because a thread waits */
    uint64_t period;            /* counts the times without a pause between runs */
    bool has_loop;              /* they are run by turns in a loop */
    bool leased, lent;          /* our CPU is a lease's; it, or what the actor holds, is lent */
    uint32_t holds;             /* the shape of what we hold without a lease */
};

extern _Atomic bool client_forked; /* set in the child of a fork, by the handler that mob_init and
                                      mob_worker_connect install */

/* connect.c */
/* To a daemon of this user's. */
mob_status_t client_socket_connect(const char *path, int *ret_sock);
/* Receives one packet of up to `capacity` bytes, with up to `most` descriptors. Waits, for 20 s at
 * most. */
mob_status_t client_packet_receive(int sock, char *packet, size_t capacity, size_t *ret_size,
                                   int *ret_fds, int most, int *ret_fd_count);
/* The session's folders, after the daemon's end. */
void client_folders_remove(mob_client_t *c);

/* handshake.c */
/* Says hello on its socket and maps what the welcome brings. A worker has no `config`. Waits for
 * the daemon, up to 20 s. */
mob_status_t client_handshake(mob_client_t *c, uint64_t token, const mob_config_t *config);
/* A program that closed its standard streams must not find our descriptors there. Takes fd. */
int client_fd_above_standard(int fd);

/* link.c: talking to the daemon. All under the mutex. */
mob_status_t client_check(const mob_client_t *c); /* may this process call? */
void client_push(mob_client_t *c, wire_message_t message);
/* The same for what the daemon need not wake for: it is read before any later message of ours. */
void client_push_quietly(mob_client_t *c, wire_message_t message);
/* Pushes a request and waits for its answer. */
mob_status_t client_ask(mob_client_t *c, const wire_message_t *request, uint32_t answer_kind,
                        wire_message_t *ret_answer);
void client_notify(mob_client_t *c); /* the daemon is to look at its rings, and at the queues */
void client_listen(mob_client_t *c); /* takes what is on the ring down */
/* Whether the daemon is still there; looks at the socket. Any thread, with or without the mutex. */
bool client_daemon_alive(mob_client_t *c);
/* MOB_ECLOSED, with the words for it. */
mob_status_t client_daemon_gone(void);
/* Wakes those whom a slot's old word names. True if the daemon must be asked to ring all bells. */
bool client_wake(mob_client_t *c, uint64_t slot_word);

/* worker.c */
bool client_forgets(void); /* this thread must not wait for anybody */

/* rest.c: waiting. Any thread, without the mutex. */
typedef bool (*client_look_fn)(mob_client_t *c, void *context);
/* Looks for a while, if there are CPUs for it; true as soon as it is there. */
bool client_spin(mob_client_t *c, client_patience_t *patience, client_look_fn there, void *context);
/* It was not, and we slept: it is there now; or we were woken for nothing. */
void client_patience_learn(client_patience_t *patience, bool there);
/* as shm_bell_sleep, on our own bell */
bool client_sleep(mob_client_t *c, uint32_t seen, int64_t timeout_ns);
void client_awake(mob_client_t *c, bool awake);
bool client_may_spin(mob_client_t *c);
enum { CLIENT_LARGE_COPY = 1 << 20 }; /* worth more than memcpy */
/* that no process of the session uses now, so far as is known */
unsigned client_idle_cpus(mob_client_t *c);

/* queue.c: tasks that workers take by themselves. */
void client_queue_push(mob_client_t *c, uint32_t lane, uint32_t record,
                       uint64_t generation); /* there is space: the caller has looked */
/* there is something in a queue: somebody is to be awake */
void client_queue_tell(mob_client_t *c, uint32_t lane);
bool client_queues_have(mob_client_t *c, uint32_t lane);
/* forgets queues that have nothing, before a sleep */
void client_queues_clear(mob_client_t *c, uint32_t lane);
typedef bool (*client_claim_fn)(mob_client_t *c, uint64_t entry);
/* the first one that can be claimed */
bool client_queue_take(mob_client_t *c, uint32_t lane, client_claim_fn claim);

/* calls.c: calls of actors. */
/* for our calls of it; 0: they go through the daemon */
uint32_t client_calls_queue(mob_client_t *c, mob_ref_t actor);
void client_call_push(mob_client_t *c, uint32_t number, uint32_t record, uint64_t generation);
void client_calls_add(mob_client_t *c, uint32_t number);
void client_calls_end(mob_client_t *c, uint32_t number);
bool client_calls_have(mob_client_t *c); /* one that can be taken now */
bool client_calls_wait(mob_client_t *c); /* any */
bool client_call_take(mob_client_t *c, client_claim_fn claim);
void client_calls_finish(mob_client_t *c); /* says of queues that get nothing more, and have nothing
                                              more, that they are done with */

/* lease.c: a worker's right to take them. */
uint32_t client_lane(mob_client_t *c);    /* that our lease is for */
bool client_lease_begin(mob_client_t *c); /* whether it may take one now */
void client_lease_rest(mob_client_t *c);  /* it found none */
void client_lease_run(mob_client_t *c, uint32_t record_and_one);
/* Whether others may rely on us to look into the queues before we sleep. */
void client_looking(mob_client_t *c, bool looking);
/* they may not any more; what came meanwhile is somebody else's */
void client_looked(mob_client_t *c);
/* for a while; true: there is something to do */
bool client_lease_look(mob_client_t *c, uint32_t seen);
bool client_lease_sleep(mob_client_t *c, uint32_t seen); /* false if a signal handler ran */
void client_watch(mob_client_t *c);
void client_lease_block(mob_client_t *c);
void client_lease_unblock(mob_client_t *c);

/* pool.c: slots and records granted to us. */
mob_status_t client_slot_take(mob_client_t *c, uint32_t *ret_slot);
void client_slot_give(mob_client_t *c, uint32_t slot);
mob_status_t client_record_take(mob_client_t *c, uint32_t *ret_record);
void client_record_give(mob_client_t *c, uint32_t record);

/* space.c: memory of the arena. */
mob_status_t client_heap_grant(void *context, uint64_t size, uint64_t least, uint64_t *ret_offset,
                               uint64_t *ret_size, uint64_t *ret_serial);
void client_space_told(mob_client_t *c,
                       const wire_message_t *m); /* by WIRE_SPACE or WIRE_RESTORED */
/* Takes the answer out if so much space was refused; MOB_OK: it was not. Under the mutex. */
mob_status_t client_refusal_take(mob_client_t *c, uint64_t size);
/* Whether an object did not come back since so many refusals had been told; it is told to every
 * thread that waits for it. Under the mutex. */
mob_status_t client_refusal_find(mob_client_t *c, mob_ref_t ref, uint64_t told);
/* Gives it words: who has the memory. Not under the mutex. */
mob_status_t client_refuse(mob_client_t *c, mob_status_t status, uint64_t size);

/* read.c: values in place, under the mutex. */
void client_pin(mob_client_t *c, mob_ref_t ref);
/* However often it was pinned. What was mapped for it is the caller's to end. */
client_map_t client_unpin(mob_client_t *c, uint32_t slot);

/* ref.c: counting, under the mutex. A reference whose slot holds another object by now is stale,
 * and not counted; its slot must be valid. */
void client_ref_retain(mob_client_t *c, mob_ref_t ref);
void client_ref_release(mob_client_t *c, mob_ref_t ref);
/* The reference is about to be published to others. */
void client_ref_escape(mob_client_t *c, mob_ref_t ref);
/* Its counts begin, if those that are there are of an earlier object. False: it is stale itself. */
bool client_local_renew(mob_client_t *c, mob_ref_t ref);
static inline bool client_local_is(const mob_client_t *c, mob_ref_t ref) {
    return c->local[ref.slot].generation == (uint32_t)ref.generation;
}
/* We have opened it, and hold it. */
static inline void client_local_begin(mob_client_t *c, mob_ref_t ref) {
    c->local[ref.slot] =
        (client_local_t){.count = 1, .generation = (uint32_t)ref.generation, .owned = true};
}
/* NULL: it is stale. */
static inline client_local_t *client_local(mob_client_t *c, mob_ref_t ref) {
    return client_local_is(c, ref) || client_local_renew(c, ref) ? &c->local[ref.slot] : NULL;
}

/* function.c */
void client_functions_free(mob_client_t *c);

/* event.c */
void client_events_forked(void); /* in the child of a fork */

/* run.c */
/* Claims a record. False: somebody else has it, or it was taken back. What can fail is done before
 * the claim, and then this worker ends, so that the task, which is not begun, goes to another. */
bool client_run_claim(mob_client_t *c, const client_order_t *order);
void client_runs_free(mob_client_t *c);
/* Around a wait of this thread: its runs wait. */
typedef struct {
    uint64_t period; /* 0: there was no run */
    uint32_t runs;
    bool lends; /* others may run because we wait */
} client_wait_t;
client_wait_t client_waiting_begin(mob_client_t *c);
void client_waiting_end(mob_client_t *c, client_wait_t wait);

/* title.c: what ps shows of a worker. Under the mutex, or by the thread that takes runs while none
 * runs. */
void client_title_run(mob_client_t *c, const mob_run_t *run); /* it is about to run this one */
void client_title_rest(const mob_client_t *c);                /* it is about to sleep */

/* object.c */
bool client_is_sealed(const mob_client_t *c, mob_ref_t ref);
bool client_is_pending(const mob_client_t *c, mob_ref_t ref); /* its task is still to be done */
mob_status_t client_buffer_begin(mob_client_t *c, mob_ref_t ref, uint64_t size, uint32_t ref_count,
                                 mob_buffer_t *ret_buffer);
/* Before one that is cold is published or freed: the daemon counts on no more memory for it. */
void client_buffer_told(mob_client_t *c, const mob_buffer_t *buffer);
/* What the daemon is told of one that is to be published ESCAPED. */
wire_message_t client_escape_of(const mob_buffer_t *buffer);
void client_buffer_store(mob_client_t *c, mob_buffer_t *buffer, mob_format_t format,
                         mob_status_t error, const mob_ref_t *refs);

/* The record that is next in a queue was written by another CPU: brought here while a run is on.
 * Whose it will be is not said by that. */
static inline void client_entry_fetch(const mob_client_t *c, uint64_t entry) {
    const char *record = (const char *)&c->records[wire_entry_index(entry)];
    for (size_t at = 0; at < sizeof(wire_record_t); at += 64) __builtin_prefetch(record + at);
}

static inline bool client_slot_valid(uint32_t slot) { return slot != 0 && slot < STORE_MAX_SLOTS; }

#endif
