/* A run, from the claim of its record to its results: what the daemon hears of it, and what it need
 * not. */
#include "worker.h"

enum { LARGE = 1000, WAITER = 7 };

/* Claims a record, as one from a queue (`taken`) or one that the daemon told us to run. */
static mob_run_t *claimed(mob_client_t *c, task_t task, bool from_queue) {
    client_order_t order = {.record = task.record,
                            .generation = task.generation,
                            .may_retry = true,
                            .taken = from_queue,
                            .leased = from_queue && record_of(task)->kind == MOB_TASK};
    return client_run_claim(c, &order) ? c->claimed : NULL;
}

static uint64_t slot_word(task_t task) {
    return atomic_load(&submitter->slots[task.result.slot].word);
}

static uint32_t events(mob_client_t *c) { return (uint32_t)atomic_load(&c->events->tail); }

static wire_message_t heard(mob_client_t *c, uint32_t kind) {
    wire_message_t m = daemon_hears(c);
    assert_int_equal(m.kind, kind);
    return m;
}

/* ---- the claim ---- */

static void test_a_record_is_claimed_once(void **state) {
    mob_client_t *c = *state;
    mob_client_t *other = client_beside(c, WIRE_WORKER, NUMBER + 1);
    task_t task = pushed();
    mob_run_t *run = claimed(c, task, true);
    assert_non_null(run);
    assert_int_equal(record_word(task), wire_word(task.generation, NUMBER, WIRE_TAKEN));
    assert_null(claimed(c, task, true));
    assert_null(claimed(other, task, true));
    assert_true(runs(run, task));
    assert_int_equal(run->kind, MOB_TASK);
    assert_int_equal(run->num_returns, 1);
    assert_int_equal(run->name_size, 4);
    assert_memory_equal(run->name, "work", 4);
    assert_int_equal(atomic_load(&lease(c)->run), task.record + 1);
    assert_false(c->told_to_exit);
    client_delete(other);
}

static void test_another_generation_is_not_claimed(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed(), older = task, newer = task;
    older.generation--;
    newer.generation++;
    assert_null(claimed(c, older, true));
    assert_null(claimed(c, newer, true));
    taken_back(task);
    assert_null(claimed(c, task, true));
    assert_non_null(claimed(c, newer, true)); /* as it is called now */
    assert_false(c->told_to_exit);
}

static void test_a_record_that_makes_no_sense_is_left_to_others(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    record_of(task)->num_deps = 1000;
    assert_null(claimed(c, task, true));
    assert_true(c->run_unclaimable);
    assert_true(c->told_to_exit);
    assert_int_equal(record_word(task), wire_word(task.generation, 0, WIRE_READY_STATE));
    assert_int_equal(c->running, 0);
}

static void test_known_is_kept(void **state) {
    mob_client_t *c = *state;
    task_t task = sent((mob_task_t){.kind = MOB_TASK});
    assert_true(record_word(task) & WIRE_KNOWN);
    assert_non_null(claimed(c, task, false));
    assert_int_equal(record_word(task),
                     wire_word(task.generation, NUMBER, WIRE_TAKEN) | WIRE_KNOWN);
}

static void test_one_that_follows_at_once_begins_when_the_last_ended(void **state) {
    mob_client_t *c = *state;
    mob_run_t *run = claimed(c, pushed(), true);
    assert_true(run->start_ns > 0);
    finished(c, run);
    uint64_t ended = c->ended_ns;
    assert_true(ended > 0);
    run = claimed(c, pushed(), true);
    assert_int_equal(run->start_ns, ended);
    finished(c, run);
    c->ended_ns = 0; /* it waited */
    assert_int_not_equal(claimed(c, pushed(), true)->start_ns, 0);
}

/* ---- its end ---- */

static void test_the_daemon_hears_nothing_of_a_task_from_a_queue(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task, true);
    result_store(c, run, 5, MOB_OK);
    assert_int_equal(slot_word(task), STORE_PENDING); /* until all of it is there */
    mob_run_finish(c, run);
    assert_int_equal(slot_word(task), STORE_SEALED);
    assert_memory_equal(c->slots[task.result.slot].value.small, "rrrrr", 5);
    assert_int_equal(record_word(task), wire_word(task.generation, 0, WIRE_FREE));
    assert_int_equal(atomic_load(&lease(c)->run), 0);
    assert_int_equal(c->running, 0);
    daemon_hears_nothing(c);
    shm_event_t event; /* ... but for this, when it asks */
    assert_true(shm_events_take(c->events, &event));
    assert_int_equal(event.name_size, 4);
    assert_memory_equal(event.name, "work", 4);
    assert_int_equal(event.kind, MOB_TASK);
    assert_true(event.start_ns <= event.end_ns);
    assert_int_equal(events(c), 1);
}

static void test_what_the_daemon_gave_is_told_when_it_is_done(void **state) {
    mob_client_t *c = *state;
    task_t task = sent((mob_task_t){.kind = MOB_TASK});
    finished(c, claimed(c, task, false));
    assert_int_equal(slot_word(task), STORE_SEALED);
    assert_int_equal(record_word(task),
                     wire_word(task.generation, NUMBER, WIRE_DONE_STATE) | WIRE_KNOWN);
    daemon_hears_only(c, WIRE_DONE, task.record, task.generation);
    assert_int_equal(events(c), 0); /* it is in the daemon's own book */
}

/* Out of a queue whose owner died, before its record was made KNOWN. */
static void test_the_daemon_hears_of_whatever_it_gave(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    finished(c, claimed(c, task, false));
    daemon_hears_only(c, WIRE_DONE, task.record, task.generation);
    assert_int_equal(wire_word_state(record_word(task)), WIRE_DONE_STATE);
}

static void test_what_became_known_while_it_ran_is_told(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task, true);
    assert_true(wire_record_make_known(record_of(task), record_word(task)));
    finished(c, run);
    assert_int_equal(slot_word(task), STORE_SEALED);
    assert_int_equal(record_word(task),
                     wire_word(task.generation, NUMBER, WIRE_DONE_STATE) | WIRE_KNOWN);
    daemon_hears_only(c, WIRE_DONE, task.record, task.generation);
}

static void test_a_run_whose_record_was_taken_away_publishes_nothing(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task, true);
    uint64_t word = wire_word(task.generation + 1, 0, WIRE_READY_STATE);
    atomic_store(&record_of(task)->word, word); /* the daemon thinks that this worker is dead */
    finished(c, run);
    assert_int_equal(slot_word(task), STORE_PENDING);
    assert_int_equal(record_word(task), word);
    daemon_hears_nothing(c);
    assert_int_equal(c->running, 0);
}

static void test_who_waits_is_rung(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    assert_true(store_slot_wait(&c->slots[task.result.slot], WAITER));
    finished(c, claimed(c, task, true));
    assert_int_equal(rings(c, WAITER), 1);
    assert_int_equal(rings(c, WAITER + 1), 0);
    assert_false(store_slot_wait(&c->slots[task.result.slot], WAITER)); /* it is there */
    daemon_hears_nothing(c);
}

/* The daemon has to ring for those that have no bit, and for those that wait for something else but
 * want to hear of errors. */
static void test_the_daemon_is_asked_to_ring_all_bells(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    assert_true(store_slot_wait(&c->slots[task.result.slot], 1000));
    finished(c, claimed(c, task, true));
    daemon_hears_only(c, WIRE_RING, 0, 0);

    mob_run_t *run = claimed(c, task = pushed(), true);
    result_store(c, run, 1, MOB_ETASK);
    mob_run_finish(c, run);
    assert_int_equal(store_meta_error(c->slots[task.result.slot].meta), MOB_ETASK);
    assert_int_equal(heard(c, WIRE_DONE).done.crowd, 1); /* it keeps the task for people */
    daemon_hears_nothing(c);

    run = claimed(c, task = sent((mob_task_t){.kind = MOB_TASK}), false);
    result_store(c, run, 1, MOB_ETASK);
    mob_run_finish(c, run);
    assert_int_equal(heard(c, WIRE_DONE).done.crowd, 1);
    daemon_hears_nothing(c);

    finished(c, claimed(c, pushed(), true)); /* the next one is not an error */
    daemon_hears_nothing(c);
}

static void test_a_result_that_the_daemon_watches_is_told(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    assert_true(store_slot_watch(&c->slots[task.result.slot]));
    finished(c, claimed(c, task, true));
    daemon_hears_only(c, WIRE_SEALED, task.result.slot, task.result.generation);
}

static void test_a_result_that_nobody_wants_any_more_is_freed(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task, true);
    mob_ref_release(submitter, task.result);
    assert_int_equal(slot_word(task), STORE_PENDING | STORE_DROPPED);
    result_store(c, run, LARGE, MOB_OK);
    uint64_t block = c->slots[task.result.slot].value.large.block;
    assert_true(block_is_used(c, block));
    mob_run_finish(c, run);
    assert_int_equal(slot_word(task), STORE_FREE);
    assert_false(block_is_used(c, block));
    daemon_hears_nothing(c);
}

static void test_a_result_may_be_replaced_until_the_end(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task, true);
    result_store(c, run, LARGE, MOB_OK);
    uint64_t block = c->slots[task.result.slot].value.large.block;
    result_store(c, run, 3, MOB_ETASK);
    assert_false(block_is_used(c, block));
    mob_run_finish(c, run);
    uint64_t meta = c->slots[task.result.slot].meta;
    assert_int_equal(store_meta_error(meta), MOB_ETASK);
    assert_true(store_meta_inline(meta));
    assert_int_equal(store_meta_size(meta), 3);
}

static void test_a_large_body_is_freed_after_its_record(void **state) {
    mob_client_t *c = *state;
    char args[LARGE] = "arguments";
    task_t task = submitted((mob_task_t){
        .kind = MOB_TASK, .shape = MOB_SHAPE_ONE_CPU, .args = args, .args_size = sizeof args});
    uint64_t block = record_of(task)->block;
    assert_true(block_is_used(c, block));
    mob_run_t *run = claimed(c, task, true);
    assert_int_equal(run->args_size, LARGE);
    assert_memory_equal(run->args, args, LARGE);
    finished(c, run);
    assert_int_equal(wire_word_state(record_word(task)), WIRE_FREE);
    assert_false(block_is_used(c, block));
}

/* ---- references ---- */

static void test_an_argument_that_is_kept_is_told_before_the_end(void **state) {
    mob_client_t *c = *state;
    mob_ref_t argument;
    assert_int_equal(mob_put(submitter, "a", 1, MOB_FORMAT_DIRECT, &argument), MOB_OK);
    mob_task_t wanted = {.kind = MOB_TASK, .deps = &argument, .dep_count = 1};
    task_t task = sent(wanted);
    mob_run_t *run = claimed(c, task, false);
    assert_int_equal(c->local[argument.slot].count, 1);
    mob_ref_retain(c, argument); /* an actor puts it away */
    finished(c, run);
    wire_message_t hold = heard(c, WIRE_HOLD);
    assert_int_equal(hold.hold.slot, argument.slot);
    assert_int_equal(hold.hold.generation, argument.generation);
    heard(c, WIRE_DONE);
    mob_ref_release(c, argument);
    daemon_hears_only(c, WIRE_DROP, argument.slot, argument.generation);

    finished(c, claimed(c, sent(wanted), false)); /* one that is not kept is nobody's business */
    heard(c, WIRE_DONE);
    daemon_hears_nothing(c);
    assert_int_equal(c->local[argument.slot].count, 0);
}

static void test_references_in_a_result_are_told_at_once(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task, true);
    mob_ref_t inside = sealed(c);
    mob_buffer_t buffer;
    assert_int_equal(mob_run_result_begin(c, run, 0, 1, 1, &buffer), MOB_OK);
    mob_run_result_commit(c, run, 0, &buffer, MOB_FORMAT_DIRECT, MOB_OK, &inside);
    daemon_hears_only(c, WIRE_ESCAPE, task.result.slot, task.result.generation);
    assert_int_equal(word_of(c, inside), STORE_SEALED | STORE_ESCAPED);
    mob_run_finish(c, run);
    assert_int_equal(slot_word(task), STORE_SEALED | STORE_ESCAPED);
}

/* ---- retries ---- */

static void test_a_retry_goes_through_the_daemon(void **state) {
    mob_client_t *c = *state;
    task_t task = submitted((mob_task_t){
        .kind = MOB_TASK, .shape = MOB_SHAPE_ONE_CPU, .max_retries = 3, .retry_exceptions = true});
    mob_run_t *run = claimed(c, task, true);
    assert_true(run->may_retry);
    result_store(c, run, LARGE, MOB_OK);
    uint64_t block = c->slots[task.result.slot].value.large.block;
    daemon_says(c, WIRE_ANSWER, MOB_OK, 0); /* once it has read why */
    assert_true(mob_run_retry(c, run, "why", 3));
    assert_int_equal(slot_word(task), STORE_PENDING);
    assert_false(block_is_used(c, block));
    assert_int_equal(record_word(task),
                     wire_word(task.generation, NUMBER, WIRE_TAKEN) | WIRE_KNOWN);
    daemon_hears_only(c, WIRE_RETRY, task.record, task.generation);
    assert_int_equal(c->running, 0);
    assert_int_equal(atomic_load(&lease(c)->run), 0);
    assert_int_equal(events(c), 0);
}

static void test_what_did_not_ask_for_retries_gets_none(void **state) {
    mob_client_t *c = *state;
    task_t task = pushed();
    mob_run_t *run = claimed(c, task, true);
    assert_false(run->may_retry);
    assert_false(mob_run_retry(c, run, "why", 3));
    daemon_hears_nothing(c);
    finished(c, run); /* it is still there to be finished */
    assert_int_equal(slot_word(task), STORE_SEALED);
}

/* ---- lending ---- */

static void test_a_run_that_waits_lends_its_cpu(void **state) {
    mob_client_t *c = *state;
    lease_give(c);
    assert_true(client_lease_begin(c));
    mob_run_t *run = claimed(c, pushed(), true);
    client_wait_t outer = client_waiting_begin(c);
    assert_true(outer.lends);
    assert_int_equal(lease_word(c), SHM_LEASE_BLOCKED);
    client_wait_t inner = client_waiting_begin(c); /* a helper's thread */
    client_waiting_end(c, inner);
    assert_int_equal(lease_word(c), SHM_LEASE_BLOCKED);
    client_waiting_end(c, outer);
    assert_int_equal(lease_word(c), SHM_LEASE_BUSY);
    client_wait_t late = client_waiting_begin(c);
    finished(c, run); /* while a thread of it waits on */
    assert_int_equal(lease_word(c), SHM_LEASE_BUSY);
    claimed(c, pushed(), true);
    client_waiting_end(c, late); /* for nobody: the next run does not wait */
    assert_int_equal(lease_word(c), SHM_LEASE_BUSY);
    assert_int_equal(c->waiting, 0);
}

static void test_a_run_that_the_daemon_gave_tells_it(void **state) {
    mob_client_t *c = *state;
    claimed(c, sent((mob_task_t){.kind = MOB_TASK}), false);
    client_wait_t wait = client_waiting_begin(c);
    daemon_hears_only(c, WIRE_BLOCK, 0, 0);
    client_waiting_end(c, wait);
    daemon_hears_only(c, WIRE_UNBLOCK, 0, 0);
}

static void test_a_driver_lends_nothing(void **state) {
    (void)state;
    client_wait_t wait = client_waiting_begin(submitter);
    assert_int_equal(wait.period, 0);
    client_waiting_end(submitter, wait);
    daemon_hears_nothing(submitter);
}

/* It holds one CPU, and runs two calls at once. */
static void actor_make(mob_client_t *c) {
    task_t task = sent((mob_task_t){
        .kind = MOB_ACTOR_CREATE, .held_shape = MOB_SHAPE_ONE_CPU, .max_concurrency = 2});
    mob_run_t *run = claimed(c, task, false);
    assert_int_equal(run->kind, MOB_ACTOR_CREATE);
    assert_int_equal(run->actor.slot, task.result.slot);
    actor = run->actor;
    assert_int_equal(c->limit, 1); /* while it is made */
    finished(c, run);
    heard(c, WIRE_DONE);
}

static void test_an_actor_has_what_its_creation_said(void **state) {
    mob_client_t *c = *state;
    actor_make(c);
    assert_int_equal(c->limit, 2);
    assert_int_equal(c->holds, MOB_SHAPE_ONE_CPU);
    mob_run_t *first = claimed(c, called(NULL), true), *second = claimed(c, called(NULL), true);
    assert_int_equal(atomic_load(&lease(c)->calls), 2);
    assert_int_equal(c->holds, MOB_SHAPE_ONE_CPU);
    finished(c, second); /* in any order */
    assert_int_equal(atomic_load(&lease(c)->calls), 1);
    finished(c, first);
    assert_int_equal(atomic_load(&lease(c)->calls), 0);
    daemon_hears_nothing(c);
    assert_int_equal(events(c), 2);
}

static void test_an_actor_lends_when_all_its_calls_wait(void **state) {
    mob_client_t *c = *state;
    actor_make(c);
    mob_run_t *first = claimed(c, called(NULL), true);
    client_wait_t wait = client_waiting_begin(c);
    heard(c, WIRE_BLOCK);
    mob_run_t *second = claimed(c, called(NULL), true); /* this one works */
    heard(c, WIRE_UNBLOCK);
    finished(c, second);
    heard(c, WIRE_BLOCK);
    client_waiting_end(c, wait);
    heard(c, WIRE_UNBLOCK);
    finished(c, first);
    daemon_hears_nothing(c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORKER_TEST(test_a_record_is_claimed_once),
        WORKER_TEST(test_another_generation_is_not_claimed),
        WORKER_TEST(test_a_record_that_makes_no_sense_is_left_to_others),
        WORKER_TEST(test_known_is_kept),
        WORKER_TEST(test_one_that_follows_at_once_begins_when_the_last_ended),
        WORKER_TEST(test_the_daemon_hears_nothing_of_a_task_from_a_queue),
        WORKER_TEST(test_what_the_daemon_gave_is_told_when_it_is_done),
        WORKER_TEST(test_the_daemon_hears_of_whatever_it_gave),
        WORKER_TEST(test_what_became_known_while_it_ran_is_told),
        WORKER_TEST(test_a_run_whose_record_was_taken_away_publishes_nothing),
        WORKER_TEST(test_who_waits_is_rung),
        WORKER_TEST(test_the_daemon_is_asked_to_ring_all_bells),
        WORKER_TEST(test_a_result_that_the_daemon_watches_is_told),
        WORKER_TEST(test_a_result_that_nobody_wants_any_more_is_freed),
        WORKER_TEST(test_a_result_may_be_replaced_until_the_end),
        WORKER_TEST(test_a_large_body_is_freed_after_its_record),
        WORKER_TEST(test_an_argument_that_is_kept_is_told_before_the_end),
        WORKER_TEST(test_references_in_a_result_are_told_at_once),
        WORKER_TEST(test_a_retry_goes_through_the_daemon),
        WORKER_TEST(test_what_did_not_ask_for_retries_gets_none),
        WORKER_TEST(test_a_run_that_waits_lends_its_cpu),
        WORKER_TEST(test_a_run_that_the_daemon_gave_tells_it),
        WORKER_TEST(test_a_driver_lends_nothing),
        WORKER_TEST(test_an_actor_has_what_its_creation_said),
        WORKER_TEST(test_an_actor_lends_when_all_its_calls_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
