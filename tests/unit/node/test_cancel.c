/* Tasks that are cancelled: where they wait, while they run, with what they have submitted. */
#include "players.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* As the loop does: all rings, then what follows. */
static void round_go(void) {
    n->round++;
    node_inbox_read(n);
    node_cancels_settle(n);
    node_schedule(n);
}

static void cancel_push(node_client_t *c, mob_ref_t ref, uint64_t how) {
    wire_message_t m = {.cancel = {WIRE_CANCEL, ref.slot, ref.generation, how}};
    assert_true(shm_ring_push(c->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(n->shared, c->number);
}

static void cancel(mob_ref_t ref, uint64_t how) {
    cancel_push(JOB(n)->driver, ref, how);
    round_go();
    node_cancels_settle(n);
}

static bool is_cancelled(mob_ref_t ref) {
    return (word_of(ref) & STORE_STATE) == STORE_SEALED && error_of(ref) == MOB_ECANCELLED;
}
static bool is_pending(mob_ref_t ref) { return (word_of(ref) & STORE_STATE) == STORE_PENDING; }
static bool is_free(uint32_t record) {
    return n->tasks[record] == NULL && wire_word_state(record_word(record)) == WIRE_FREE;
}

static bool told_to_cancel(node_client_t *w, uint32_t record) {
    wire_message_t m = fixture_heard(w);
    return m.kind == WIRE_CANCEL_RUN && m.record.record == record &&
           m.record.generation == generation_of(record);
}

/* ---- waiting ---- */

static void test_in_a_queue(void **state) {
    (void)state;
    mob_ref_t results[3];
    uint32_t records[3];
    for (int i = 0; i < 3; i++) {
        results[i] = slot_open(&driver);
        records[i] = push(&driver, results[i], 3);
    }
    cancel(results[1], 0);
    assert_true(is_cancelled(results[1]) && is_free(records[1]));
    assert_true(is_pending(results[0]) && is_pending(results[2]));
    node_client_t *w = worker_new();
    node_schedule(n);
    assert_int_equal(take(w, &driver), records[0]);
    finish(w, records[0], results[0]);
    assert_int_equal(take(w, &driver), records[2]); /* the entry between them names nothing */
    finish(w, records[2], results[2]);
    assert_int_equal(n->open_tasks[JOB(n)->driver->number], 0);
}

static void test_in_the_scheduler_and_for_a_worker(void **state) {
    (void)state;
    uint32_t waits = submit(4), behind = submit(4);
    mob_ref_t first = n->tasks[waits]->refs[0], second = n->tasks[behind]->refs[0];
    assert_true(n->tasks[waits]->waiting_for_worker);
    assert_int_equal(cpus_free(), 0);
    cancel(second, 0);
    assert_true(is_cancelled(second) && is_free(behind));
    cancel(first, WIRE_CANCEL_FORCE);
    assert_int_equal(fixture_heard(JOB(n)->driver).answer.status, MOB_OK);
    assert_true(is_cancelled(first) && is_free(waits));
    assert_int_equal(cpus_free(), CPUS);
    assert_int_equal(node_pool_first(JOB(n))->waiting, 0);
    assert_null(node_pool_first(JOB(n))->wait_head);
    assert_null(node_pool_first(JOB(n))->wait_tail);
}

static void test_for_an_argument(void **state) {
    (void)state;
    mob_ref_t argument = slot_open(&driver), result = slot_open(&driver);
    uint32_t record = record_fill(&driver, result, argument, 0, true);
    fixture_say(JOB(n)->driver, WIRE_SUBMIT, record, generation_of(record));
    assert_int_equal(n->missing_arguments, 1);
    cancel(result, 0);
    assert_true(is_cancelled(result) && is_free(record));
    assert_int_equal(n->missing_arguments, 0);
    slot_seal(argument);
    fixture_say(JOB(n)->driver, WIRE_SEALED, argument.slot, argument.generation);
    assert_true(is_free(record));
}

/* Handed to a worker that has not begun it. */
static void test_handed_out(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    node_leases_take_free(n);
    uint32_t record = submit(1);
    mob_ref_t result = n->tasks[record]->refs[0];
    uint64_t generation = generation_of(record);
    assert_true(told_to_run(w, record));
    cancel(result, 0);
    assert_true(is_cancelled(result) && is_free(record));
    assert_int_equal(cpus_free(), CPUS);
    assert_true(w->idle);
    /* the worker's claim comes too late */
    assert_false(wire_record_move(&n->records[record], wire_word(generation, 0, WIRE_READY_STATE),
                                  wire_word(generation, w->number, WIRE_TAKEN), NULL));
}

/* Another client cancels before the daemon has read the submitter's message. */
static void test_before_the_daemon_has_read_of_it(void **state) {
    (void)state;
    node_client_t *other = client_new(WIRE_WORKER); /* its ring is read after the driver's */
    submitter_t s = submitter_of(other);
    mob_ref_t result = slot_open(&s);
    uint32_t record = record_fill(&s, result, NONE, 0, true);
    cancel_push(JOB(n)->driver, result, 0);
    node_inbox_read(n);
    assert_true(is_pending(result));
    assert_int_equal(n->cancels.early.count, 1);
    node_cancels_settle(n);
    assert_true(is_pending(result)); /* not before every ring was read */
    fixture_say(other, WIRE_SUBMIT, record, generation_of(record));
    assert_null(other->fault);
    round_go();
    assert_true(is_cancelled(result) && is_free(record));
    assert_int_equal(n->cancels.early.count, 0);
}

static void test_one_that_is_never_told_of_is_not_waited_for(void **state) {
    (void)state;
    mob_ref_t result = slot_open(&driver);
    record_fill(&driver, result, NONE, 0, true);
    cancel(result, 0);
    for (int i = 0; i < 100; i++) round_go();
    assert_int_equal(n->cancels.early.count, 0);
    assert_true(is_pending(result));
}

/* ---- running ---- */

static void test_a_run_is_told_and_not_run_again(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result);
    assert_null(n->tasks[record]);
    cancel(result, 0);
    assert_true(told_to_cancel(w, record));
    assert_true(is_pending(result));
    assert_true(record_word(record) & WIRE_KNOWN);
    assert_int_equal(n->cancels.interrupts.count, 1);
    cancel(result, 0); /* once is enough */
    assert_int_equal(fixture_heard(w).kind, 0);
    fixture_say(w, WIRE_INTERRUPTED, record, generation_of(record));
    assert_int_equal(n->cancels.interrupts.count, 0);
    cancel(result, 0); /* it clears up */
    assert_int_equal(n->cancels.interrupts.count, 0);
    assert_int_equal(fixture_heard(w).kind, 0);
    node_client_died(w);
    node_cancels_settle(n);
    assert_true(is_cancelled(result) && is_free(record));
}

static void test_a_run_that_ends_all_the_same_has_its_result(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result);
    cancel(result, 0);
    finish(w, record, result);
    assert_true(is_free(record));
    assert_int_equal(error_of(result), MOB_OK);
    /* the timer finds that it is over */
    while (n->cancels.interrupts.count > 0) uv_run(&n->loop, UV_RUN_ONCE);
    assert_false(uv_is_active((uv_handle_t *)&n->cancels.timer));
}

static void test_a_retry_is_not_granted(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result);
    n->records[record].flags = WIRE_RETRY_EXCEPTIONS;
    cancel(result, 0);
    assert_true(told_to_cancel(w, record));
    fixture_say(w, WIRE_RETRY, record, generation_of(record));
    assert_int_equal(fixture_heard(w).kind, WIRE_ANSWER);
    assert_null(w->fault);
    assert_true(is_cancelled(result) && is_free(record));
}

static void test_by_force(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result, behind = slot_open(&driver);
    node_client_t *w = busy_worker(3, &record, &result);
    uint32_t next = push(&driver, behind, 0);
    uint64_t generation = generation_of(record);
    uint32_t number = w->number;
    cancel(result, WIRE_CANCEL_FORCE);
    assert_int_equal(fixture_heard(JOB(n)->driver).answer.status, MOB_OK);
    assert_true(w->killed);
    /* The worker's DONE comes too late, and the results are left alone until it is dead. */
    assert_false(wire_record_move(&n->records[record], wire_word(generation, number, WIRE_TAKEN),
                                  wire_word(generation, number, WIRE_DONE_STATE), NULL));
    assert_true(is_pending(result));
    node_client_died(w);
    node_cancels_settle(n);
    assert_true(is_cancelled(result) && is_free(record));
    node_client_t *other = worker_new();
    node_schedule(n);
    assert_int_equal(take(other, &driver), next);
    finish(other, next, behind);
}

/* By force, and the worker was faster: nobody is killed. */
static void test_by_force_too_late(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(3, &record, &result);
    commit(w, record);
    cancel(result, WIRE_CANCEL_FORCE);
    assert_int_equal(fixture_heard(JOB(n)->driver).answer.status, MOB_OK);
    assert_false(w->killed);
    assert_true(is_pending(result)); /* the worker is about to seal it */
}

/* ---- children ---- */

static uint32_t child_of(submitter_t *s, uint32_t parent, mob_ref_t *ret_result) {
    *ret_result = slot_open(s);
    uint32_t record = s->next_record;
    n->records[record].parent = 0;
    assert_int_equal(record_fill(s, *ret_result, NONE, 0, false), record);
    n->records[record].parent = wire_entry(parent, generation_of(parent));
    queue_push(s, record);
    return record;
}

static void test_children(void **state) {
    (void)state;
    uint32_t record, earlier = 77;
    mob_ref_t result, results[3], left;
    node_client_t *w = busy_worker(0, &record, &result);
    submitter_t own = submitter_of(w);
    for (int i = 0; i < 3; i++) child_of(&own, record, &results[i]);
    child_of(&own, earlier, &left); /* of a task that this worker has run before */
    cancel(result, 0);
    for (int i = 0; i < 3; i++) assert_true(is_pending(results[i]));
    cancel(result, WIRE_CANCEL_RECURSIVE);
    for (int i = 0; i < 3; i++) assert_true(is_cancelled(results[i]));
    assert_true(is_pending(left));
    /* It has submitted another one before it was broken off. */
    mob_ref_t late;
    child_of(&own, record, &late);
    fixture_say(w, WIRE_INTERRUPTED, record, generation_of(record));
    node_cancels_settle(n);
    assert_true(is_cancelled(late));
    assert_true(is_pending(left) && is_pending(result));
}

/* A record that is its own parent, and run by its owner: no run ever wrote that. */
static void test_a_circle(void **state) {
    (void)state;
    node_client_t *w = busy_worker(0, NULL, NULL), *other = worker_new();
    submitter_t own = submitter_of(other);
    mob_ref_t result, inner;
    uint32_t record = child_of(&own, 1, &result);
    node_schedule(n);
    assert_int_equal(take(other, &own), record);
    n->records[record].parent = wire_entry(record, generation_of(record));
    uint32_t child = child_of(&own, record, &inner);
    cancel(result, WIRE_CANCEL_RECURSIVE);
    assert_true(is_cancelled(inner) && is_free(child));
    assert_true(is_pending(result));
    assert_true(told_to_cancel(other, record));
    assert_int_equal(w->state, NODE_LIVE);
}

/* ---- what is no task ---- */

static void test_what_makes_no_sense(void **state) {
    (void)state;
    mob_ref_t result = slot_open(&driver), other = slot_open(&driver);
    uint32_t record = push(&driver, result, 0);
    slot_of(other)->value.maker = record; /* the record does not name it */
    cancel(other, 0);
    slot_of(other)->value.maker = UINT32_MAX;
    cancel(other, 0);
    cancel((mob_ref_t){.slot = UINT32_MAX, .generation = 1}, 0);
    cancel((mob_ref_t){.slot = result.slot, .generation = result.generation + 1}, 0);
    cancel((mob_ref_t){0}, WIRE_CANCEL_FORCE);
    assert_int_equal(fixture_heard(JOB(n)->driver).answer.status, MOB_OK);
    assert_true(is_pending(result) && is_pending(other));
    /* a body that is nowhere */
    n->records[record].block = UINT64_MAX - 63;
    cancel(result, 0);
    assert_true(is_pending(result));
    fixture_say(JOB(n)->driver, WIRE_INTERRUPTED, UINT32_MAX, 1);
    fixture_say(JOB(n)->driver, WIRE_INTERRUPTED, record, generation_of(record));
    assert_null(JOB(n)->driver->fault);
}

/* ---- the signal ---- */

static volatile sig_atomic_t signals;
static void on_signal(int number) {
    (void)number;
    signals++;
}

/* A process that says, by its exit, after how many signals it had enough. */
static void test_the_signal_comes_again(void **state) {
    (void)state;
    uint32_t record;
    mob_ref_t result;
    node_client_t *w = busy_worker(0, &record, &result);
    int ready[2], status;
    char word;
    assert_int_equal(pipe(ready), 0);
    w->pid = fork();
    if (w->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        signal(WIRE_CANCEL_SIGNAL, on_signal);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        while (signals < 3) usleep(1000);
        _exit(42);
    }
    assert_int_equal(read(ready[0], &word, 1), 1);
    close(ready[0]);
    close(ready[1]);
    cancel(result, 0);
    while (waitpid(w->pid, &status, WNOHANG) == 0) uv_run(&n->loop, UV_RUN_ONCE);
    w->pid = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 42);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_in_a_queue),
        TEST(test_in_the_scheduler_and_for_a_worker),
        TEST(test_for_an_argument),
        TEST(test_handed_out),
        TEST(test_before_the_daemon_has_read_of_it),
        TEST(test_one_that_is_never_told_of_is_not_waited_for),
        TEST(test_a_run_is_told_and_not_run_again),
        TEST(test_a_run_that_ends_all_the_same_has_its_result),
        TEST(test_a_retry_is_not_granted),
        TEST(test_by_force),
        TEST(test_by_force_too_late),
        TEST(test_children),
        TEST(test_a_circle),
        TEST(test_what_makes_no_sense),
        TEST(test_the_signal_comes_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
