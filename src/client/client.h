/*
 * The inside of a client: what its files share. Drivers and workers are clients; both map the node's segments and talk to the daemon
 * by their two rings.
 *
 * One mutex guards everything that is not atomic. It is never held while user code runs, and while it is held this process waits for nothing but
 * the daemon's answer to a request for memory.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/status.h"
#include "base/vec.h"
#include "mobula.h"
#include "shm/heap.h"
#include "shm/node.h"
#include "shm/segment.h"
#include "store/slot.h"
#include "wire/message.h"
#include "wire/record.h"

/* This process's counts of one slot. `owned`: we opened it and hold it since. `registered`: the daemon knows that we hold it. */
typedef struct {
    uint32_t count;
    bool owned, registered, escaped;
} client_local_t;

/* What a job has stored for one of its returns so far. */
typedef struct {
    bool has_block, escaped;
} client_result_t;

/* Entries of a table that the daemon granted to us, and those of them known to be free. */
typedef struct {
    struct {
        uint32_t first, count;
    } * ranges;
    size_t range_count, range_capacity;
    VEC(uint32_t) free;
    uint32_t total;
} client_pool_t;

struct mob_client {
    pthread_mutex_t mutex;
    uint32_t role, number;
    uint64_t incarnation;
    int sock, daemon_event, daemon_pid;
    char *session_dir, *socket_path;
    void *setup;
    size_t setup_size;
    _Atomic bool dead;      /* the daemon is gone */
    _Atomic uint32_t views; /* values in use; plus one until shutdown */
    bool messages_ended;
    char *frame; /* mob_message_read's */

    shm_segment_t node_segment, own_segment, slot_segment, record_segment, extent_segment, arena;
    shm_node_t *node;
    shm_ring_t *up, *down;
    store_slot_t *slots;
    wire_record_t *records;
    shm_heap_t heap;
    client_pool_t slot_pool, record_pool;
    client_local_t *local; /* one a slot, sparse */

    bool answered;
    shm_message_t answer;

    /* workers */
    VEC(shm_message_t) runs; /* told to run, in order, from run_next */
    size_t run_next;
    VEC(mob_ref_t) forgets; /* functions to be unloaded */
    bool told_to_exit;
    bool busy;           /* a job is being run */
    uint64_t job_number; /* counts jobs */
    uint32_t waiting;    /* threads that wait in get or wait for the running job */
    uint32_t job_record;
    uint64_t job_generation;
    mob_job_t job;
    wire_body_t job_body;
    const mob_ref_t *job_returns;
    client_result_t *job_results; /* one a return */
    size_t job_result_capacity;
    bool job_failed;
};

/* link.c: talking to the daemon. All under the mutex. */
mob_status_t client_check(const mob_client_t *c); /* may this process call? */
void client_push(mob_client_t *c, uint32_t kind, uint32_t a, uint64_t b, uint64_t rest_c, uint64_t rest_d);
/* Pushes a request and waits for its answer. */
mob_status_t client_ask(mob_client_t *c, const shm_message_t *request, uint32_t answer_kind, shm_message_t *ret_answer);
void client_listen(mob_client_t *c); /* takes what is on the ring down */
/* Whether the daemon is still there; looks at the socket. Any thread, with or without the mutex. */
bool client_daemon_alive(mob_client_t *c);
/* Wakes those whom a slot's old word names. True if the daemon must be asked to ring all bells. */
bool client_wake(mob_client_t *c, uint64_t slot_word);

/* pool.c: slots and records granted to us. */
mob_status_t client_slot_take(mob_client_t *c, uint32_t *ret_slot);
void client_slot_give(mob_client_t *c, uint32_t slot);
mob_status_t client_record_take(mob_client_t *c, uint32_t *ret_record);
void client_record_give(mob_client_t *c, uint32_t record);
mob_status_t client_heap_grant(void *context, uint64_t size, uint64_t *ret_offset, uint64_t *ret_size,
                               uint64_t *ret_serial);

/* ref.c: counting, under the mutex. */
void client_ref_retain(mob_client_t *c, uint32_t slot);
void client_ref_release(mob_client_t *c, uint32_t slot);
/* The reference is about to be published to others. */
void client_ref_escape(mob_client_t *c, uint32_t slot);

/* object.c */
mob_status_t client_buffer_begin(mob_client_t *c, mob_ref_t ref, uint64_t size, uint32_t ref_count,
                                 mob_buffer_t *ret_buffer);
void client_buffer_store(mob_client_t *c, mob_buffer_t *buffer, mob_format_t format, mob_status_t error,
                         const mob_ref_t *refs);

static inline bool client_slot_valid(uint32_t slot) { return slot != 0 && slot < STORE_MAX_SLOTS; }

#endif
