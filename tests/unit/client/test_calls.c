/* Calls of actors: the caller's side and the actor's, by a queue for the pair of them. */
#include "worker.h"

static const mob_ref_t ACTOR = {.slot = 300, .generation = 4};
static const uint32_t SECOND = CALLS + 1;

static uint64_t claimed; /* the entry that was taken last */

static bool claim(mob_client_t *c, uint64_t entry) {
    uint64_t word = atomic_load(&c->records[wire_entry_index(entry)].word);
    if (!wire_entry_names(entry, word)) return false;
    claimed = entry;
    return true;
}

static bool claim_fails(mob_client_t *c, uint64_t entry) {
    (void)entry;
    c->run_unclaimable = true;
    return false;
}

static bool takes(mob_client_t *c, task_t call) {
    return client_call_take(c, claim) && claimed == entry_of(call);
}

/* ---- the caller ---- */

static void test_the_daemon_is_asked_for_a_queue_once(void **state) {
    mob_client_t *c = *state;
    c->local[ACTOR.slot] = (client_local_t){.count = 1, .generation = (uint32_t)ACTOR.generation};
    daemon_says(c, WIRE_CALLS_ARE, CALLS, 0);
    assert_int_equal(calls_queue(c, ACTOR), CALLS);
    daemon_hears_only(c, WIRE_NEED_CALLS, ACTOR.slot, ACTOR.generation);
    assert_int_equal(calls_queue(c, ACTOR), CALLS);
    daemon_hears_nothing(c);
    atomic_store(&c->queues[CALLS].closed, 1); /* the actor died: its calls go to the daemon */
    assert_int_equal(calls_queue(c, ACTOR), 0);
}

static void test_no_queue_where_calls_go_through_the_daemon(void **state) {
    mob_client_t *c = *state;
    assert_int_equal(calls_queue(c, ACTOR), 0); /* nothing here holds it */
    c->local[ACTOR.slot] = (client_local_t){.count = 1, .generation = (uint32_t)ACTOR.generation};
    atomic_store(&c->node->fast, 0);
    assert_int_equal(calls_queue(c, ACTOR), 0);
    daemon_hears_nothing(c);
}

static void test_a_refusal_holds_for_a_while(void **state) {
    mob_client_t *c = *state;
    c->local[ACTOR.slot] = (client_local_t){.count = 1, .generation = (uint32_t)ACTOR.generation};
    daemon_says(c, WIRE_CALLS_ARE, 0, 0);
    assert_int_equal(calls_queue(c, ACTOR), 0);
    daemon_hears_only(c, WIRE_NEED_CALLS, ACTOR.slot, ACTOR.generation);
    daemon_says(c, WIRE_CALLS_ARE, CALLS, 0);
    unsigned calls = 1;
    while (calls_queue(c, ACTOR) == 0) {
        daemon_hears_nothing(c);
        assert_true(++calls < 1000);
    }
    assert_true(calls > 10);
    daemon_hears_only(c, WIRE_NEED_CALLS, ACTOR.slot, ACTOR.generation);
}

static void test_an_answer_that_names_no_queue_of_calls(void **state) {
    static const uint32_t answers[] = {1, SHM_FIRST_CALLS - 1, SHM_QUEUES, UINT32_MAX};
    mob_client_t *c = *state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        c->local[ACTOR.slot] = (client_local_t){.count = 1};
        daemon_says(c, WIRE_CALLS_ARE, answers[i], 0);
        assert_int_equal(calls_queue(c, ACTOR), 0);
    }
}

static void test_only_an_actor_that_rests_is_rung(void **state) {
    mob_client_t *c = *state;
    called(NULL); /* nobody takes from it yet */
    atomic_store(&c->queues[CALLS].taker, NUMBER);
    called(NULL);
    assert_int_equal(rings(c, NUMBER), 0);
    atomic_store(&lease(c)->rests, 1);
    called(NULL);
    assert_int_equal(rings(c, NUMBER), 1);
    assert_int_equal(shm_queue_count(&c->queues[CALLS]), 3);
    daemon_hears_nothing(submitter);
}

static void test_the_daemon_is_told_of_a_call_of_a_dead_actor(void **state) {
    mob_client_t *c = *state;
    task_t call = called(NULL);
    daemon_hears_nothing(submitter);
    atomic_store(&c->queues[CALLS].closed, 1); /* after the caller had looked */
    client_call_push(submitter, CALLS, call.record, call.generation);
    daemon_hears_only(submitter, WIRE_CLOSED, call.record, call.generation);
}

static void test_no_more_calls_than_the_queue_holds(void **state) {
    mob_client_t *c = *state;
    called(NULL);
    atomic_store(&c->queues[CALLS].tail, SHM_QUEUE_ENTRIES);
    mob_task_t call = {.kind = MOB_ACTOR_CALL, .actor = {.slot = 300, .generation = 1}};
    mob_ref_t result = {0};
    call.num_returns = 1;
    assert_int_equal(mob_submit(submitter, &call, &result), MOB_ELIMIT);
    assert_int_equal(result.slot, 0);
    assert_int_equal(shm_queue_count(&c->queues[CALLS]), SHM_QUEUE_ENTRIES);
    daemon_hears_nothing(submitter);
}

/* ---- the actor ---- */

static void test_calls_of_a_caller_are_taken_in_order(void **state) {
    mob_client_t *c = *state;
    task_t calls[5];
    for (size_t i = 0; i < 5; i++) calls[i] = called(NULL);
    assert_false(client_calls_have(c)); /* it was not told of the queue */
    assert_false(client_call_take(c, claim));
    client_calls_add(c, CALLS);
    assert_true(client_calls_have(c));
    for (size_t i = 0; i < 5; i++) assert_true(takes(c, calls[i]));
    assert_false(client_calls_have(c));
    assert_false(client_call_take(c, claim));
}

/* A call in the queue SECOND, as of another caller. */
static task_t called_by_another(void) {
    task_t call = called(NULL);
    shm_queue_t *q = &submitter->queues[CALLS];
    atomic_fetch_sub(&q->tail, 1); /* out of the one it was pushed to */
    assert_true(shm_queue_push(&submitter->queues[SECOND], entry_of(call)));
    return call;
}

static void test_callers_have_their_turns(void **state) {
    mob_client_t *c = *state;
    client_calls_add(c, CALLS);
    client_calls_add(c, SECOND);
    task_t first[3], second[3];
    for (size_t i = 0; i < 3; i++) first[i] = called(NULL);
    for (size_t i = 0; i < 3; i++) second[i] = called_by_another();
    for (size_t i = 0; i < 3; i++) {
        assert_true(takes(c, first[i]));
        assert_true(takes(c, second[i]));
    }
    assert_false(client_call_take(c, claim));
}

static void test_a_call_waits_for_its_argument_and_others_do_not(void **state) {
    mob_client_t *c = *state;
    client_calls_add(c, CALLS);
    client_calls_add(c, SECOND);
    task_t argument = pushed();
    task_t waits = called(&argument.result), behind = called(NULL), other = called_by_another();
    assert_true(takes(c, other));
    assert_false(client_call_take(c, claim));
    assert_false(client_calls_have(c)); /* nothing that could be taken: it may sleep */
    assert_true(client_calls_wait(c));  /* but not end */
    assert_true(atomic_load(&c->slots[argument.result.slot].word) >> STORE_WAITER_SHIFT &
                (uint64_t)1 << (NUMBER - 1)); /* it is woken for it */
    store_slot_seal(&c->slots[argument.result.slot], false);
    assert_true(client_calls_have(c));
    assert_true(takes(c, waits));
    assert_true(takes(c, behind));
}

static void test_an_old_entry_is_passed(void **state) {
    mob_client_t *c = *state;
    client_calls_add(c, CALLS);
    task_t argument = pushed();
    task_t gone = called(&argument.result), next = called(NULL);
    taken_back(gone); /* its argument is not waited for */
    assert_true(takes(c, next));
    assert_false(client_calls_wait(c));
}

static void test_what_it_cannot_run_stays(void **state) {
    mob_client_t *c = *state;
    client_calls_add(c, CALLS);
    called(NULL);
    assert_false(client_call_take(c, claim_fails));
    assert_true(client_calls_wait(c));
    client_calls_end(c, CALLS);
    client_calls_finish(c); /* not done with */
    daemon_hears_nothing(c);
}

static void test_a_queue_that_ends_is_emptied_first(void **state) {
    mob_client_t *c = *state;
    client_calls_add(c, CALLS);
    client_calls_add(c, SECOND);
    task_t call = called(NULL);
    client_calls_end(c, CALLS);
    client_calls_finish(c);
    daemon_hears_nothing(c);
    assert_true(takes(c, call));
    client_calls_finish(c);
    daemon_hears_only(c, WIRE_CALLS_ENDED, CALLS, 0);
    client_calls_finish(c); /* said once */
    daemon_hears_nothing(c);
    called(NULL); /* nobody looks there any more */
    assert_false(client_call_take(c, claim));
    assert_true(takes(c, called_by_another()));
}

/* ---- groups, and calls out of order; the worker takes them whole ---- */

static void groups_are(mob_client_t *c, uint32_t first, uint32_t second) {
    uint32_t limits[] = {1, first, second};
    assert_int_equal(mob_actor_groups(c, limits, 3), MOB_OK);
    client_calls_add(c, CALLS);
}

static void test_a_full_group_holds_up_no_other(void **state) {
    mob_client_t *c = *state;
    groups_are(c, 1, 2);
    task_t first = called_in(1, NULL), waits = called_in(1, NULL), other = called_in(2, NULL),
           plain = called(NULL), behind = called_in(1, NULL);
    mob_run_t *run = taken(c);
    assert_true(runs(run, first));
    assert_int_equal(run->group, 1);
    assert_true(runs(taken(c), other));
    assert_true(runs(taken(c), plain));
    takes_nothing(c, MOB_ELIMIT); /* a run has to end first */
    assert_false(client_calls_have(c));
    assert_true(client_calls_wait(c));
    finished(c, run);
    assert_true(client_calls_have(c));
    run = taken(c);
    assert_true(runs(run, waits)); /* in their order */
    takes_nothing(c, MOB_ELIMIT);
    finished(c, run);
    assert_true(runs(taken(c), behind));
    takes_nothing(c, MOB_ETIMEOUT);
    assert_false(client_calls_wait(c)); /* the head has moved over all of them */
}

static void test_a_call_that_is_cancelled_in_a_full_group(void **state) {
    mob_client_t *c = *state;
    groups_are(c, 1, 1);
    mob_run_t *run = (called_in(1, NULL), taken(c));
    task_t gone = called_in(1, NULL), next = called_in(1, NULL);
    takes_nothing(c, MOB_ELIMIT);
    taken_back(gone);
    finished(c, run);
    assert_true(runs(taken(c), next));
    assert_false(client_calls_wait(c));
}

static void test_a_missing_argument_holds_up_its_group_only(void **state) {
    mob_client_t *c = *state;
    groups_are(c, 4, 4);
    task_t argument = pushed();
    task_t waits = called_in(1, &argument.result), behind = called_in(1, NULL),
           other = called_in(2, NULL);
    assert_true(runs(taken(c), other));
    takes_nothing(c, MOB_ETIMEOUT);
    store_slot_seal(&c->slots[argument.result.slot], false);
    assert_true(client_calls_have(c));
    assert_true(runs(taken(c), waits));
    assert_true(runs(taken(c), behind));
}

static void test_orders_of_a_full_group_wait_in_order(void **state) {
    mob_client_t *c = *state;
    groups_are(c, 1, 1);
    task_t tasks[4] = {called_in(1, NULL), called_in(1, NULL), called_in(2, NULL),
                       called_in(1, NULL)};
    atomic_store(&c->queues[CALLS].head, atomic_load(&c->queues[CALLS].tail));
    for (size_t i = 0; i < 4; i++) daemon_tells_to_run(c, tasks[i]);
    mob_run_t *run = taken(c);
    assert_true(runs(run, tasks[0]));
    assert_true(runs(taken(c), tasks[2]));
    takes_nothing(c, MOB_ELIMIT);
    task_t late = called_in(1, NULL); /* what the daemon told comes first */
    finished(c, run);
    run = taken(c);
    assert_true(runs(run, tasks[1]));
    finished(c, run);
    run = taken(c);
    assert_true(runs(run, tasks[3]));
    finished(c, run);
    assert_true(runs(taken(c), late));
}

static void test_out_of_order_a_missing_argument_holds_up_none(void **state) {
    mob_client_t *c = *state;
    client_calls_add(c, CALLS);
    c->out_of_order = true;
    c->limit = 10;
    task_t first = pushed(), second = pushed();
    task_t waits = called(&first.result), too = called(&second.result), goes = called(NULL);
    assert_true(runs(taken(c), goes));
    takes_nothing(c, MOB_ETIMEOUT);
    assert_true(client_calls_wait(c));
    store_slot_seal(&c->slots[second.result.slot], false); /* and its sealer died before it rang */
    assert_true(client_calls_have(c));
    assert_true(runs(taken(c), too));
    taken_back(waits); /* cancelled */
    assert_true(client_calls_have(c));
    takes_nothing(c, MOB_ETIMEOUT);
    assert_false(client_calls_wait(c));
}

static void test_groups_that_make_no_sense(void **state) {
    static const uint32_t limits[] = {1, 0};
    uint32_t many[MOB_MAX_GROUPS + 1];
    mob_client_t *c = *state;
    assert_int_equal(mob_actor_groups(c, limits, 0), MOB_EINVAL);
    assert_int_equal(mob_actor_groups(c, limits, 2), MOB_EINVAL);
    for (size_t i = 0; i <= MOB_MAX_GROUPS; i++) many[i] = UINT32_MAX;
    assert_int_equal(mob_actor_groups(c, many, MOB_MAX_GROUPS + 1), MOB_EINVAL);
    assert_int_equal(mob_actor_groups(c, many, MOB_MAX_GROUPS), MOB_OK);
    assert_int_equal(c->limit, UINT32_MAX);
    client_calls_add(c, CALLS);
    uint32_t few[] = {1, 1};
    assert_int_equal(mob_actor_groups(c, few, 2), MOB_OK);
    task_t call = called_in(200, NULL); /* no such group: it runs in the default one */
    mob_run_t *run = taken(c);
    assert_true(runs(run, call));
    assert_int_equal(run->group, 0);
}

static void test_a_number_that_is_no_queue_of_calls(void **state) {
    static const uint32_t numbers[] = {0, SHM_FIRST_CALLS - 1, SHM_QUEUES, UINT32_MAX};
    mob_client_t *c = *state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        client_calls_add(c, numbers[i]);
        client_calls_end(c, numbers[i]);
    }
    assert_int_equal(c->calls.count, 0);
    client_calls_finish(c);
    daemon_hears_nothing(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORKER_TEST(test_the_daemon_is_asked_for_a_queue_once),
        WORKER_TEST(test_no_queue_where_calls_go_through_the_daemon),
        WORKER_TEST(test_a_refusal_holds_for_a_while),
        WORKER_TEST(test_an_answer_that_names_no_queue_of_calls),
        WORKER_TEST(test_only_an_actor_that_rests_is_rung),
        WORKER_TEST(test_the_daemon_is_told_of_a_call_of_a_dead_actor),
        WORKER_TEST(test_no_more_calls_than_the_queue_holds),
        WORKER_TEST(test_calls_of_a_caller_are_taken_in_order),
        WORKER_TEST(test_callers_have_their_turns),
        WORKER_TEST(test_a_call_waits_for_its_argument_and_others_do_not),
        WORKER_TEST(test_an_old_entry_is_passed),
        WORKER_TEST(test_what_it_cannot_run_stays),
        WORKER_TEST(test_a_queue_that_ends_is_emptied_first),
        WORKER_TEST(test_a_full_group_holds_up_no_other),
        WORKER_TEST(test_a_call_that_is_cancelled_in_a_full_group),
        WORKER_TEST(test_a_missing_argument_holds_up_its_group_only),
        WORKER_TEST(test_orders_of_a_full_group_wait_in_order),
        WORKER_TEST(test_out_of_order_a_missing_argument_holds_up_none),
        WORKER_TEST(test_groups_that_make_no_sense),
        WORKER_TEST(test_a_number_that_is_no_queue_of_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
