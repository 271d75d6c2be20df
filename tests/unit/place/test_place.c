/* The contract by example: lanes, remote leases, guests, and what becomes of tasks. */
#include "town.h"

static void test_a_backlog_costs_one_question(void **state) {
    (void)state;
    town_new((int64_t[]){1, 4, 2});
    place_demand_t demand = one_cpu();
    demand.is_local = true;
    town_submit(0, demand, 0, 100, 3);
    town_pass(6);
    assert_int_equal(counts_of(0).leases, 2);
    assert_int_equal(town->guests.count, 6); /* as many as fit, at once */
    for (int i = 0; i < 94; i++) {
        town->now_ns += 10 * MS; /* long tasks: none is sent ahead */
        town_done(town->guests.items[0], PLACE_OK);
        town_pass(0);
        assert_int_equal(town->guests.count, 6);
    }
    while (town->guests.count > 0) town_done(town->guests.items[0], PLACE_OK);
    town_pass(1);
    for (int i = 0; i < 100; i++) assert_int_equal(town->nodes[0].ended[i], PLACE_OK + 1);
    assert_int_equal(town->sent[MESSAGE_OPEN], 2);
    town_pass(30);
    assert_int_equal(town->sent[MESSAGE_CLOSE], 2);
    for (int i = 0; i < NODES; i++) {
        place_counts_t counts = counts_of(i);
        assert_int_equal(counts.leases + counts.sent + counts.guests + counts.guest_leases, 0);
    }
    town_free();
}

static void test_what_need_not_wait_stays(void **state) {
    (void)state;
    town_new((int64_t[]){1, 4, 2});
    place_demand_t demand = one_cpu();
    demand.is_local = true;
    town_submit(1, demand, 0, 1, 3);
    town_pass(4);
    assert_int_equal(town->sent[MESSAGE_ASK], 0);
    town_pass(2);
    assert_int_equal(town->sent[MESSAGE_ASK], 1);
    assert_int_equal(town->guests.count, 1);
    town_free();
}

static void test_an_idle_town_is_quiet(void **state) {
    (void)state;
    town_new((int64_t[]){1, 4, 2});
    uint64_t before = counts_of(0).messages + counts_of(1).messages;
    town_pass(2000);
    assert_int_equal(counts_of(0).messages + counts_of(1).messages, before);
    for (int i = 0; i < NODES; i++) assert_true(place_due_ns(town->nodes[i].place) == UINT64_MAX);
    town_free();
}

static void test_short_tasks_are_sent_ahead(void **state) {
    (void)state;
    town_new((int64_t[]){0, 1, 0});
    town_submit(0, one_cpu(), 0, 100, 3);
    town_pass(0);
    assert_int_equal(town->guests.count, 1);
    town_done(town->guests.items[0], PLACE_OK); /* it took no time to run, and 5 ms to return */
    town->now_ns += 5 * MS;
    town_pass(0);
    assert_int_equal(town->guests.count, 1 + MESSAGE_AHEAD_MAX);
    for (int i = 0; i < 9; i++) { /* now each takes 5 ms, and no way */
        town->now_ns += 5 * MS;
        town_done(town->guests.items[0], PLACE_OK);
        town_pass(0);
    }
    assert_true(town->guests.count < 1 + MESSAGE_AHEAD_MAX);
    town_free();
}

static uint32_t queued_of(int node) {
    uint32_t count = 0;
    for (size_t i = 0; i < town->guests.count; i++)
        count += town->guests.items[i]->node == node && town->guests.items[i]->may_start;
    return count;
}

static void test_short_tasks_are_queued_ahead(void **state) {
    (void)state;
    town_new((int64_t[]){0, 1, 0});
    town_submit(0, one_cpu(), 0, 100, 3);
    town_pass(0);
    assert_int_equal(queued_of(1), 1);
    town_done(town->guests.items[0], PLACE_OK); /* it took no time */
    town_pass(0);
    assert_int_equal(queued_of(1), 1 + PLACE_QUEUE_MAX);
    town_pass(55); /* the one that runs does not end: only what has a credit still queues */
    assert_int_equal(queued_of(1), 1);
    town_free();
}

static void test_a_cancelled_task_ends_at_its_return(void **state) {
    (void)state;
    town_new((int64_t[]){0, 1, 0});
    town_submit(0, one_cpu(), 0, 1, 3);
    town_pass(0);
    assert_true(guest_of(0)->runs);
    assert_true(place_cancel(town->nodes[0].place, 0, PLACE_STOP_ALL));
    assert_int_equal(town->nodes[0].ended[0], 0);
    town_pass(0);
    assert_true(guest_of(0)->was_stopped);
    town_done(guest_of(0), PLACE_CRASHED); /* its worker was killed: no retry */
    town_pass(0);
    assert_int_equal(town->nodes[0].ended[0], PLACE_CANCELLED + 1);
    assert_false(place_cancel(town->nodes[0].place, 0, PLACE_STOP_ALL));
    town_free();
}

static void test_one_that_has_not_begun_comes_back_free(void **state) {
    (void)state;
    town_new((int64_t[]){0, 1, 0});
    town_submit(0, one_cpu(), 0, 1, 0);
    town_pass(0);
    town_done(guest_of(0), PLACE_OK);
    town->nodes[1].free = 0; /* its own tasks take it, before the next comes */
    town_submit(0, one_cpu(), 1, 1, 0);
    town_pass(0);
    assert_false(guest_of(1)->runs);
    town_pass(60);
    assert_null(guest_of(1));
    assert_int_equal(town->nodes[0].ended[1], 0);
    assert_int_equal(town->nodes[0].moves[1], 1);
    assert_int_equal(town->nodes[0].retries[1], 0);
    town_free();
}

static void test_a_death_costs_a_retry(void **state) {
    (void)state;
    town_new((int64_t[]){0, 2, 0});
    town_submit(0, one_cpu(), 0, 1, 0);
    town_submit(0, one_cpu(), 1, 1, 2);
    town_pass(0);
    assert_int_equal(counts_of(0).sent, 2);
    place_peer_silent(town->nodes[0].place, id_of(1), true);
    town_pass(10);
    assert_int_equal(counts_of(0).sent, 2); /* silence is no death */
    place_peer_died(town->nodes[0].place, id_of(1));
    assert_int_equal(town->nodes[0].ended[0], PLACE_LOST + 1);
    assert_int_equal(town->nodes[0].ended[1], 0);
    assert_int_equal(town->nodes[0].retries[1], 1);
    assert_int_equal(counts_of(0).sent + counts_of(0).leases, 0);
    town_free();
}

static void test_blocked_guests_lend_their_credit(void **state) {
    (void)state;
    town_new((int64_t[]){0, 1, 0});
    town_submit(0, one_cpu(), 0, 3, 0);
    town_pass(0);
    assert_int_equal(town->guests.count, 1);
    guest_t *first = town->guests.items[0];
    town->nodes[1].free++;
    place_guest_block(town->nodes[1].place, first->guest, town->now_ns);
    town_pass(0);
    assert_int_equal(town->guests.count, 2);
    town->nodes[1].free--;
    place_guest_unblock(town->nodes[1].place, first->guest, town->now_ns);
    town->now_ns += 5 * MS; /* they are not short */
    town_done(town->guests.items[1], PLACE_OK);
    town_pass(0);
    assert_int_equal(town->guests.count, 1); /* the first one has the credit again */
    town_free();
}

static void test_an_ended_job_is_refused(void **state) {
    (void)state;
    town_new((int64_t[]){0, 1, 0});
    town_submit(0, one_cpu(), 0, 1, 0);
    town_tick();
    while (town->sent[MESSAGE_TASK] == 0) {
        assert_true(town_deliver());
        town_tick();
    }
    assert_int_equal(place_job_end(town->nodes[1].place, job), MOB_OK);
    town_pass(0); /* the frame comes after the end */
    assert_int_equal(town->nodes[1].refused, 1);
    assert_int_equal(town->guests.count, 0);
    assert_int_equal(place_job_end(town->nodes[0].place, job), MOB_OK);
    town_pass(1);
    assert_int_equal(counts_of(0).sent + counts_of(0).leases + counts_of(0).questions, 0);
    town_free();
}

static void test_a_paused_node_holds_what_runs_once(void **state) {
    (void)state;
    town_new((int64_t[]){0, 2, 0});
    town_submit(0, one_cpu(), 0, 1, 0);
    town_submit(0, one_cpu(), 1, 1, 1);
    town_tick();
    while (town->sent[MESSAGE_TASK] < 2) {
        assert_true(town_deliver());
        town_tick();
    }
    place_paused(town->nodes[1].place, true);
    town_pass(0);
    assert_false(guest_of(0)->runs);
    assert_true(guest_of(1)->runs);
    place_paused(town->nodes[1].place, false);
    town_pass(0);
    assert_true(guest_of(0)->runs);
    town_free();
}

static void test_a_node_that_is_named_is_the_only_one(void **state) {
    (void)state;
    town_new((int64_t[]){4, 1, 4});
    place_demand_t demand = one_cpu();
    demand.strategy = PLACE_NODE;
    demand.node = id_of(1);
    town_submit(0, demand, 0, 2, 0);
    town_pass(0);
    assert_int_equal(town->guests.count, 1);
    assert_int_equal(town->guests.items[0]->node, 1);
    place_peer_died(town->nodes[0].place, id_of(1));
    town_pass(0);
    assert_int_equal(town->nodes[0].impossible, 1);
    town_free();
}

static void test_spread_takes_all_nodes(void **state) {
    (void)state;
    town_new((int64_t[]){2, 2, 2});
    place_demand_t demand = one_cpu();
    demand.strategy = PLACE_SPREAD;
    town_submit(0, demand, 0, 3, 0);
    town_pass(0);
    assert_int_equal(town->nodes[0].kept, 1);
    assert_int_equal(town->guests.count, 2);
    assert_int_not_equal(town->guests.items[0]->node, town->guests.items[1]->node);
    town_free();
}

static void test_labels_and_hints(void **state) {
    (void)state;
    town_new((int64_t[]){8, 8, 1});
    place_demand_t demand = one_cpu();
    demand.selector = "zone=a";
    town_submit(0, demand, 0, 1, 0);
    town_pass(0);
    assert_int_equal(guest_of(0)->node, 2);
    town_done(guest_of(0), PLACE_OK);
    town_pass(50);
    demand = one_cpu();
    demand.hint = id_of(2);
    town_submit(1, demand, 1, 1, 0);
    town_pass(0);
    assert_int_equal(guest_of(1)->node, 2);
    town_free();
}

static void test_one_that_refused_is_not_named_again(void **state) {
    (void)state;
    town_new((int64_t[]){0, 8, 1});
    town->nodes[1].is_sick = true;
    town_submit(0, one_cpu(), 0, 1, 0);
    town_pass(1);
    assert_int_equal(guest_of(0)->node, 2);
    assert_true(town->sent[MESSAGE_OPEN] <= 2);
    town_free();
}

static void test_a_new_leader_is_told_all(void **state) {
    (void)state;
    town_new((int64_t[]){0, 0, 1});
    town->nodes[2].free = 0;
    place_free_changed(town->nodes[2].place);
    town_pass(20);
    town_submit(1, one_cpu(), 0, 1, 0);
    town_pass(1);
    assert_int_equal(counts_of(0).questions, 1);
    place_leads(town->nodes[1].place, id_of(2), 2); /* hears of it before the leader does */
    town_pass(15);
    place_leads(town->nodes[2].place, id_of(2), 2);
    place_leads(town->nodes[0].place, id_of(2), 2);
    town_pass(1);
    assert_int_equal(counts_of(0).questions, 0);
    assert_int_equal(counts_of(2).questions, 1);
    town->nodes[2].free = 1;
    place_free_changed(town->nodes[2].place);
    town_pass(20);
    assert_non_null(guest_of(0));
    place_leads(town->nodes[1].place, id_of(0), 1); /* an old one */
    town_pass(20);
    assert_int_equal(counts_of(2).views, 3);
    town_free();
}

static void test_a_full_node_is_shared(void **state) {
    (void)state;
    town_new((int64_t[]){0, 0, 4});
    town->nodes[2].free = 0;
    place_free_changed(town->nodes[2].place);
    town_pass(20);
    town_submit(0, one_cpu(), 0, 8, 0);
    place_demand_t demand = one_cpu();
    demand.job.number = 2;
    town_submit(1, demand, 100, 8, 0);
    town_pass(5);
    town->nodes[2].free = 4;
    place_free_changed(town->nodes[2].place);
    town_pass(15);
    int of_first = 0;
    for (size_t i = 0; i < town->guests.count; i++)
        of_first += town->guests.items[i]->runs && town->guests.items[i]->record < 100;
    assert_int_equal(town->guests.count, 4);
    assert_int_equal(of_first, 2);
    town_free();
}

static void test_what_of_a_message_is_the_nodes(void **state) {
    (void)state;
    uint8_t bytes[MESSAGE_TASK_HEAD + 1] = {MESSAGE_TASK};
    const void *body;
    bool is_frame;
    size_t size;
    assert_true(place_message_body(bytes, sizeof bytes, &is_frame, &body, &size));
    assert_true(is_frame && body == bytes + MESSAGE_TASK_HEAD && size == 1);
    assert_false(place_message_body(bytes, MESSAGE_TASK_HEAD, &is_frame, &body, &size));
    bytes[0] = MESSAGE_DONE;
    assert_true(place_message_body(bytes, sizeof bytes, &is_frame, &body, &size));
    assert_true(!is_frame && body == bytes + MESSAGE_DONE_HEAD);
    bytes[0] = MESSAGE_BACK;
    assert_false(place_message_body(bytes, sizeof bytes, &is_frame, &body, &size));
    assert_false(place_message_body(bytes, 0, &is_frame, &body, &size));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_of_a_message_is_the_nodes),
        cmocka_unit_test(test_a_backlog_costs_one_question),
        cmocka_unit_test(test_what_need_not_wait_stays),
        cmocka_unit_test(test_an_idle_town_is_quiet),
        cmocka_unit_test(test_short_tasks_are_sent_ahead),
        cmocka_unit_test(test_short_tasks_are_queued_ahead),
        cmocka_unit_test(test_a_cancelled_task_ends_at_its_return),
        cmocka_unit_test(test_one_that_has_not_begun_comes_back_free),
        cmocka_unit_test(test_a_death_costs_a_retry),
        cmocka_unit_test(test_blocked_guests_lend_their_credit),
        cmocka_unit_test(test_an_ended_job_is_refused),
        cmocka_unit_test(test_a_paused_node_holds_what_runs_once),
        cmocka_unit_test(test_a_node_that_is_named_is_the_only_one),
        cmocka_unit_test(test_spread_takes_all_nodes),
        cmocka_unit_test(test_labels_and_hints),
        cmocka_unit_test(test_one_that_refused_is_not_named_again),
        cmocka_unit_test(test_a_new_leader_is_told_all),
        cmocka_unit_test(test_a_full_node_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
