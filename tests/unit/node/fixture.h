/* A daemon's books without a daemon: a node_t with its memory, and clients made by hand. Each test
 * file is a program. */
#ifndef TESTS_NODE_FIXTURE_H
#define TESTS_NODE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "node/ahead.h"
#include "node/inbox.h"
#include "node/runname.h"
#include "node/space/restore.h"
#include "node/state.h"

/* main.c's: the loop ends. */
void node_end(node_t *node) { node->ending = true; }

/* The first job, which most tests have alone. */
#define JOB(n) ((n)->jobs.items.items[0])

/* A job without a driver's setup. `argv`: the command of its zygote; NULL: it has no workers. */
static inline node_job_t *fixture_job_new(node_t *n, const char *const *argv) {
    static const char *const none[] = {NULL};
    node_setup_t *setup = calloc(1, sizeof *setup);
    node_job_t *job;
    assert_non_null(setup);
    setup->node = n;
    setup->holds = 1;
    setup->fd = -1;
    setup->given = (wire_setup_t){.folder = "",
                                  .name_space = "",
                                  .entrypoint = "",
                                  .argv = argv != NULL ? argv : none,
                                  .env = none,
                                  .preload = none,
                                  .log_to_driver = true};
    setup->zygote.pid = INT_MAX; /* one is on its way, and no process has this number */
    assert_true(vec_push(&n->setups.items, setup));
    assert_int_equal(node_job_new(n, setup, &job), MOB_OK);
    return job;
}

static inline void fixture_job_free(node_t *n, node_job_t *job) {
    (void)n;
    job->setup->zygote.pid = 0;
    NODE_EACH_POOL(job, pool) {
        vec_free(&pool->idle);
        vec_free(&pool->starting);
        free(pool);
    }
    vec_free(&job->pools);
    vec_free(&job->shapes.warned);
    if (job->setup->fd >= 0) close(job->setup->fd);
    free(job->setup->lists);
    free(job->setup->bytes);
    free(job->setup);
    free(job);
}

static inline node_t *fixture_node_new(uint64_t store_bytes) {
    static const sched_amount_t resources[] = {{.name = "CPU", .amount = 4 * SCHED_UNIT}};
    node_t *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->config.store_bytes = store_bytes;
    n->client_next = 1;
    uv_loop_init(&n->loop);
    uv_timer_init(&n->loop, &n->schedule.timer);
    n->schedule.timer.data = n;
    assert_int_equal(node_streams_start(n), MOB_OK);
    assert_int_equal(node_space_start(n), MOB_OK);
    assert_int_equal(node_failures_start(n), MOB_OK);
    assert_int_equal(node_farewell_start(n), MOB_OK);
    assert_int_equal(node_cancels_start(n), MOB_OK);
    assert_int_equal(sched_new(resources, 1, &n->sched), MOB_OK);
    assert_int_equal(control_embedded_new(&n->control), MOB_OK);
    assert_int_equal(node_memory_init(n), MOB_OK);
    fixture_job_new(n, NULL);
    return n;
}

static inline node_client_t *fixture_client_new(node_t *n, uint32_t role) {
    node_client_t *c = node_client_new(n);
    assert_non_null(c);
    assert_int_equal(shm_segment_create("test-client", SHM_CLIENT_BYTES, &c->segment), MOB_OK);
    c->up = (shm_ring_t *)c->segment.base;
    c->down = (shm_ring_t *)(c->segment.base + SHM_CLIENT_DOWN);
    assert_true(node_number_take(c));
    c->role = role;
    c->state = NODE_LIVE;
    if (role == WIRE_WORKER) c->pool = node_pool_first(JOB(n));
    if (role == WIRE_WORKER || role == WIRE_DRIVER) node_job_join(JOB(n), c);
    return c;
}

/* The next message to this client; kind 0 if there is none. */
static inline wire_message_t fixture_heard(node_client_t *c) {
    wire_message_t m = {0};
    (void)shm_ring_pop(c->down, SHM_DOWN_MESSAGES, &m);
    return m;
}

/* What a client says; the daemon reads it at once. */
static inline void fixture_say(node_client_t *c, uint32_t kind, uint32_t a, uint64_t b) {
    wire_message_t m = wire_about_record(kind, a, b); /* what most of them are like */
    assert_true(shm_ring_push(c->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(c->node->shared, c->number);
    node_inbox_read(c->node);
}

/* As the loop does before it sleeps: what is at zero is freed, and what that puts at zero. */
static inline void fixture_settle(node_t *n) {
    for (int i = 0; i < 8; i++) {
        size_t settled = n->zero.count;
        node_inbox_read(n);
        node_objects_sweep(n, settled);
    }
    assert_int_equal(n->zero.count, 0);
}

/* Fills a record for one return and at most one argument, as a client does; it is not published. */
static inline wire_record_t *fixture_record_fill(node_t *n, uint32_t index, mob_kind_t kind,
                                                 mob_ref_t result, mob_ref_t dep,
                                                 int32_t max_retries) {
    wire_record_t *r = &n->records[index];
    uint64_t word = atomic_load(&r->word);
    *r = (wire_record_t){.word = word,
                         .kind = (uint8_t)kind,
                         .shape = MOB_SHAPE_ONE_CPU,
                         .max_retries = max_retries,
                         .num_returns = 1,
                         .name_size = 4};
    r->num_deps = dep.slot != 0;
    memcpy(r->body, &result, sizeof result);
    n->slots[result.slot].value.maker = index;
    memcpy(r->body + sizeof result, &dep, sizeof dep);
    memcpy(r->body + (1 + r->num_deps) * sizeof result, "work", 4);
    r->body_size = wire_body_size(1, r->num_deps, 0, 4, 0);
    if (kind == MOB_ACTOR_CREATE) atomic_fetch_or(&n->slots[result.slot].word, STORE_ESCAPED);
    if (dep.slot != 0) atomic_fetch_or(&n->slots[dep.slot].word, STORE_ESCAPED);
    return r;
}

/* Publishes it, under the next generation. */
static inline void fixture_record_publish(wire_record_t *r, bool known) {
    uint64_t generation = wire_word_generation(atomic_load(&r->word)) + 1;
    atomic_store(&r->word, wire_word(generation, 0, WIRE_READY_STATE | (known ? WIRE_KNOWN : 0)));
}

/* The daemon itself never does this: its end frees everything. */
static inline void fixture_memory_fini(node_t *n) {
    shm_heap_fini(&n->heap);
    shm_segment_fini(&n->segments.node);
    shm_segment_fini(&n->segments.slots);
    shm_segment_fini(&n->segments.records);
    shm_segment_fini(&n->segments.extents);
    shm_segment_fini(&n->arena);
    shm_segment_fini(&n->segments.queues);
}

static inline void fixture_node_free(node_t *n) {
    n->ending = true;
    node_replays_end(n);
    NODE_EACH_JOB(n, ended) node_lineage_job_ends(ended);
    vec_free(&n->remakes.wanted);
    for (uint32_t r = 0; r < n->grants.records.granted; r++) free(n->tasks[r]);
    for (uint32_t s = 0; s < n->grants.slots.granted; s++) {
        node_object_t *o = n->objects[s];
        if (o == NULL) continue;
        if (o->actor != NULL) {
            vec_free(&o->actor->callers);
            vec_free(&o->actor->queues);
            free(o->actor->words);
        }
        free(o->actor);
        vec_free(&o->holders);
        vec_free(&o->contents);
        vec_free(&o->waiting);
        vec_free(&o->askers);
        free(o->spare);
        free(o->lost);
        free(o->proxy);
        free(o->elsewhere);
        if (o->watchers != NULL) vec_free(&o->watchers->peers);
        free(o->watchers);
        free(o);
    }
    NODE_EACH_JOB(n, job) job->driver = NULL;
    while (n->connections.count > 0) node_client_close(n->connections.items[0]);
    uv_close((uv_handle_t *)&n->schedule.timer, NULL);
    uv_close((uv_handle_t *)&n->space.timer, NULL);
    uv_close((uv_handle_t *)&n->texts.timer, NULL);
    uv_close((uv_handle_t *)&n->failing.timer, NULL);
    uv_close((uv_handle_t *)&n->ends.timer, NULL);
    uv_close((uv_handle_t *)&n->cancels.timer, NULL);
    uv_run(&n->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&n->loop), 0);
    uint64_t granules = n->config.store_bytes / SHM_GRANULE;
    munmap(n->tasks, WIRE_MAX_RECORDS * sizeof *n->tasks);
    munmap(n->objects, STORE_MAX_SLOTS * sizeof *n->objects);
    munmap(n->grants.slots.owner,
           STORE_MAX_SLOTS / STORE_SLOT_BLOCK * sizeof *n->grants.slots.owner);
    munmap(n->grants.records.owner,
           WIRE_MAX_RECORDS / WIRE_RECORD_BLOCK * sizeof *n->grants.records.owner);
    munmap(n->books.extents, (granules + 1) * sizeof *n->books.extents);
    munmap(n->books.owner, (granules + 1) * sizeof *n->books.owner);
    munmap(n->books.backed, (granules / 64 + 1) * sizeof *n->books.backed);
    fixture_memory_fini(n);
    sched_free(n->sched);
    control_free(n->control);
    vec_free(&n->connections);
    while (n->jobs.items.count > 0) fixture_job_free(n, vec_pop(&n->jobs.items));
    vec_free(&n->jobs.items);
    vec_free(&n->setups.items);
    vec_free(&n->zero);
    vec_free(&n->actors.early);
    vec_free(&n->cancels.todo);
    vec_free(&n->cancels.early);
    vec_free(&n->cancels.interrupts);
    vec_free(&n->pairs.free);
    vec_free(&n->books.gaps);
    vec_free(&n->questions);
    vec_free(&n->children.dead_sessions);
    vec_free(&n->grants.slots.free);
    vec_free(&n->grants.records.free);
    vec_free(&n->grants.slots.orphans);
    vec_free(&n->grants.records.orphans);
    vec_free(&n->space.wants);
    vec_free(&n->space.past_wants);
    vec_free(&n->larges.files);
    for (size_t i = 0; i < n->folders.items.count; i++) free(n->folders.items.items[i].path);
    vec_free(&n->folders.items);
    vec_free(&n->config.spill_dirs);
    free(n);
}

#endif
