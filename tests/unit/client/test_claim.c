/* What a worker takes from queues: what they are for, whoever has put something else there. */
#include "fixture.h"

enum { QUEUE = SHM_FIRST_CALLS + 5, CALLER = 9 };

static const mob_ref_t OURS = {.slot = 300, .generation = 7},
                       OTHER = {.slot = 301, .generation = 7},
                       EARLIER = {.slot = 300, .generation = 6};
static uint32_t next_record;

static int worker_make(void **state) {
    client_make(state);
    mob_client_t *c = *state;
    c->role = WIRE_WORKER;
    atomic_store(&c->node->numbers, 64);
    next_record = 128;
    return 0;
}

/* A record that is READY, in that queue. */
static wire_record_t *push(mob_client_t *c, uint32_t queue, mob_kind_t kind, mob_ref_t actor) {
    wire_record_t *r = &c->records[next_record];
    *r = (wire_record_t){.kind = (uint8_t)kind, .actor = actor};
    atomic_store(&r->word, wire_word(1, 0, WIRE_READY_STATE));
    assert_true(shm_queue_push(&c->queues[queue], wire_entry(next_record++, 1)));
    return r;
}

static bool is_ready(wire_record_t *r) {
    return wire_word_is(atomic_load(&r->word), 1, WIRE_READY_STATE);
}

/* We are told to become an actor, and do. */
static void become(mob_client_t *c, mob_ref_t actor) {
    wire_record_t *r = &c->records[next_record];
    mob_run_t *run;
    *r = (wire_record_t){
        .kind = MOB_ACTOR_CREATE, .num_returns = 1, .body_size = wire_body_size(1, 0, 0, 0, 0)};
    memcpy(r->body, &actor, sizeof actor);
    atomic_store(&r->word, wire_word(1, 0, WIRE_READY_STATE | WIRE_KNOWN));
    daemon_says(c, WIRE_RUN, next_record++, 1);
    assert_int_equal(mob_run_try(c, &run), MOB_OK);
    assert_int_equal(run->kind, MOB_ACTOR_CREATE);
    c->running = 0; /* it is made */
    c->free_runs = c->runs;
    daemon_says(c, WIRE_CALLS, QUEUE, 0);
}

static void test_an_actor_runs_its_own_calls_only(void **state) {
    mob_client_t *c = *state;
    mob_run_t *run;
    become(c, OURS);
    wire_record_t *wrong[] = {
        push(c, QUEUE, MOB_ACTOR_CALL, OTHER), push(c, QUEUE, MOB_ACTOR_CALL, EARLIER),
        push(c, QUEUE, MOB_TASK, OURS), push(c, QUEUE, MOB_ACTOR_CREATE, OURS)};
    assert_int_equal(mob_run_try(c, &run), MOB_ETIMEOUT);
    assert_false(c->told_to_exit);
    wire_record_t *right = push(c, QUEUE, MOB_ACTOR_CALL, OURS);
    assert_int_equal(mob_run_try(c, &run), MOB_OK);
    assert_int_equal(run->actor.slot, OURS.slot);
    assert_int_equal(run->actor.generation, OURS.generation);
    assert_false(is_ready(right));
    for (size_t i = 0; i < 4; i++) assert_true(is_ready(wrong[i]));
    assert_int_equal(shm_queue_count(&c->queues[QUEUE]), 0);
}

static void test_a_worker_with_a_lease_runs_tasks_only(void **state) {
    mob_client_t *c = *state;
    mob_run_t *run;
    atomic_store(&c->node->leases[NUMBER].word, SHM_LEASE_FREE);
    atomic_store(&c->node->lanes[0].queued[0], shm_node_bit(CALLER));
    wire_record_t *wrong[] = {push(c, CALLER, MOB_ACTOR_CALL, OURS),
                              push(c, CALLER, MOB_ACTOR_CREATE, OURS),
                              push(c, CALLER, (mob_kind_t)200, OURS)};
    assert_int_equal(mob_run_try(c, &run), MOB_ETIMEOUT);
    assert_false(c->told_to_exit);
    wire_record_t *right = push(c, CALLER, MOB_TASK, (mob_ref_t){0});
    assert_int_equal(mob_run_try(c, &run), MOB_OK);
    assert_int_equal(run->kind, MOB_TASK);
    assert_false(is_ready(right));
    for (size_t i = 0; i < 3; i++) assert_true(is_ready(wrong[i]));
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, worker_make, client_unmake)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_an_actor_runs_its_own_calls_only),
        TEST(test_a_worker_with_a_lease_runs_tasks_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
