/* Whether the daemon runs: a child that is stopped stands for it. And answers that come late. */
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/process.h"
#include "fixture.h"

enum { FIRST = 512, COUNT = 64 };

static pid_t child_start(mob_client_t *c) {
    pid_t pid = fork();
    if (pid == 0)
        for (;;) pause();
    assert_true(pid > 0);
    c->pulse.pid = pid;
    return pid;
}

static void child_signal(pid_t pid, int number) {
    int status;
    kill(pid, number);
    assert_int_equal(waitpid(pid, &status, WUNTRACED | WCONTINUED), pid);
}

/* As if a second had passed since the last look. */
static void second_pass(mob_client_t *c) {
    atomic_store(&c->pulse.looked_ns, base_clock_mono_ns() - 1000000000);
}

static mob_status_t looks(mob_client_t *c, int count) {
    mob_status_t status = MOB_OK;
    for (int i = 0; i < count; i++) {
        second_pass(c);
        status = client_daemon_look(c);
    }
    return status;
}

static void test_stopped_after_some_looks_in_a_row(void **state) {
    mob_client_t *c = *state;
    pid_t pid = child_start(c);
    assert_int_equal(looks(c, 10), MOB_OK); /* it sleeps, and is not stopped */
    child_signal(pid, SIGSTOP);
    assert_int_equal(looks(c, 3), MOB_OK);
    assert_int_equal(client_daemon_look(c), MOB_OK); /* too soon to count */
    assert_int_equal(looks(c, 1), MOB_ESTOPPED);
    assert_int_equal(client_pulse_check(c), MOB_ESTOPPED);
    child_signal(pid, SIGCONT);
    assert_int_equal(client_pulse_check(c), MOB_OK); /* at once */
    child_signal(pid, SIGSTOP);
    assert_int_equal(looks(c, 3), MOB_OK); /* counted anew */
    child_signal(pid, SIGKILL);
}

static void test_what_begins_to_count_anew(void **state) {
    mob_client_t *c = *state;
    pid_t pid = child_start(c);
    child_signal(pid, SIGSTOP);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(looks(c, 3), MOB_OK);
        atomic_fetch_add(&c->node->rounds, 1); /* it ran meanwhile */
    }
    assert_int_equal(looks(c, 1), MOB_OK);
    for (int i = 0; i < 10; i++) { /* this process did not look for long: was stopped itself, say */
        atomic_store(&c->pulse.looked_ns, base_clock_mono_ns() - 5000000000);
        assert_int_equal(client_daemon_look(c), MOB_OK);
    }
    child_signal(pid, SIGKILL);
}

static void test_one_that_runs_and_answers_nobody(void **state) {
    mob_client_t *c = *state;
    client_quiet_t quiet = {0};
    child_signal(child_start(c), SIGKILL); /* so that nothing is known of it */
    mob_status_t status = MOB_OK;
    for (int i = 0; i < 100; i++) { /* however slow it is */
        if (quiet.looked_ns != 0) quiet.looked_ns -= 1000000000;
        assert_int_equal(client_quiet_look(c, &quiet), MOB_OK);
        if (i % 10 == 0) atomic_fetch_add(&c->node->rounds, 1);
    }
    int count = 0;
    for (; status == MOB_OK; count++) {
        quiet.looked_ns -= 1000000000;
        status = client_quiet_look(c, &quiet);
    }
    assert_int_equal(status, MOB_ESTOPPED);
    assert_in_range(count, 10, 21);
}

static void test_gone(void **state) {
    mob_client_t *c = *state;
    shutdown(sockets[1], SHUT_RDWR);
    assert_int_equal(client_daemon_look(c), MOB_ECLOSED);
}

/* A question whose call ends because the daemon is stopped. */
static pid_t ask_in_vain(mob_client_t *c, const wire_message_t *request) {
    wire_message_t answer;
    pid_t pid = child_start(c);
    child_signal(pid, SIGSTOP);
    assert_int_equal(looks(c, 3), MOB_OK);
    second_pass(c);
    assert_int_equal(client_ask(c, request, WIRE_SLOTS, &answer), MOB_ESTOPPED);
    return pid;
}

static void test_a_late_answer_is_not_the_next_ones(void **state) {
    mob_client_t *c = *state;
    wire_message_t slots = {.need = {WIRE_NEED_SLOTS, .count = COUNT}}, answer;
    wire_message_t kill_it = wire_about_object(WIRE_KILL, 7, 1);
    pid_t pid = ask_in_vain(c, &slots);
    assert_int_equal(client_ask(c, &kill_it, WIRE_ANSWER, &answer), MOB_ESTOPPED);
    child_signal(pid, SIGCONT);
    assert_int_equal(daemon_hears(c).kind, WIRE_NEED_SLOTS);
    assert_int_equal(daemon_hears(c).kind, 0); /* the second was not even asked */
    daemon_says(c, WIRE_SLOTS, FIRST, COUNT);
    client_listen(c);
    daemon_says(c, WIRE_SLOTS, FIRST + COUNT, COUNT);
    assert_int_equal(client_ask(c, &slots, WIRE_SLOTS, &answer), MOB_OK);
    assert_int_equal(answer.grant.first, FIRST + COUNT);
    uint32_t slot; /* and what the first one granted is not lost */
    assert_int_equal(client_slot_take(c, &slot), MOB_OK);
    assert_in_range(slot, FIRST, FIRST + COUNT - 1);
    child_signal(pid, SIGKILL);
}

static void test_a_late_shape_is_given_back(void **state) {
    mob_client_t *c = *state;
    wire_message_t shape = {.shape = {WIRE_SHAPE, 1}};
    pid_t pid = ask_in_vain(c, &shape);
    assert_int_equal(daemon_hears(c).kind, WIRE_SHAPE);
    daemon_says(c, WIRE_ANSWER, MOB_OK, 42);
    client_listen(c);
    wire_message_t drop = daemon_hears(c);
    assert_int_equal(drop.kind, WIRE_SHAPE_DROP);
    assert_int_equal(drop.shape_drop.shape, 42);
    child_signal(pid, SIGKILL);
}

static void test_its_block_stays_until_the_answer(void **state) {
    mob_client_t *c = *state;
    wire_message_t query = {.query = {WIRE_QUERY, 1, 0, .block = 4096, .capacity = 8192}};
    pid_t pid = ask_in_vain(c, &query);
    assert_false(client_owed_keeps(c, 8192, 1));
    assert_true(client_owed_keeps(c, 4096, 1));
    child_signal(pid, SIGKILL);
}

static void test_a_full_ring_and_a_stopped_daemon(void **state) {
    mob_client_t *c = *state;
    pid_t pid = child_start(c);
    assert_int_equal(client_room_await(c), MOB_OK);
    for (int i = 0; i < SHM_UP_MESSAGES; i++) client_push_quietly(c, wire_plain(WIRE_RING));
    child_signal(pid, SIGSTOP);
    assert_int_equal(looks(c, 3), MOB_OK);
    second_pass(c);
    assert_int_equal(client_room_await(c), MOB_ESTOPPED);
    assert_int_equal(client_check(c), MOB_OK);
    client_push(c, wire_plain(WIRE_RING)); /* can't fail, and can't be left out */
    assert_int_equal(client_check(c), MOB_ECLOSED);
    child_signal(pid, SIGKILL);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, client_make, client_unmake)
    const struct CMUnitTest tests[] = {
        TEST(test_stopped_after_some_looks_in_a_row),  TEST(test_what_begins_to_count_anew),
        TEST(test_one_that_runs_and_answers_nobody),   TEST(test_gone),
        TEST(test_a_late_answer_is_not_the_next_ones), TEST(test_a_late_shape_is_given_back),
        TEST(test_its_block_stays_until_the_answer),   TEST(test_a_full_ring_and_a_stopped_daemon),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
