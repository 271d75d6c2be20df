/* Leases: who gets one, when it is taken back, recalled or lent. */
#include "players.h"

/* ---- giving ---- */

static void test_a_push_gives_an_idle_worker_a_lease(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    uint32_t seen = shm_bell_listen(&n->shared->bells[w->number]);
    node_schedule(n);
    assert_false(w->leased); /* not before there is something to do */
    assert_int_equal(atomic_load(&n->shared->lanes[0].more), 1);
    mob_ref_t result = slot_open(&driver);
    uint32_t record = push(&driver, result, 0);
    assert_true(w->leased);
    assert_int_equal(lease_word(w), SHM_LEASE_FREE);
    assert_int_not_equal(shm_bell_listen(&n->shared->bells[w->number]), seen);
    assert_int_equal(fixture_heard(w).kind, 0); /* it finds the task by itself */
    assert_int_equal(cpus_free(), CPUS - 1);
    assert_int_equal(node_pool_first(JOB(n))->idle.count, 0);
    /* All of this without us; the lease stays. */
    assert_int_equal(take(w, &driver), record);
    finish(w, record, result);
    rest(w);
    node_schedule(n);
    assert_int_equal(n->leases.given, 1);
    assert_int_equal(cpus_free(), CPUS - 1);
    assert_null(n->tasks[record]);
    assert_int_equal(atomic_load(&n->shared->lanes[0].more), 1);
}

static void test_as_many_leases_as_tasks(void **state) {
    (void)state;
    node_client_t *workers[] = {worker_new(), worker_new(), worker_new()};
    uint32_t first = push(&driver, slot_open(&driver), 0);
    assert_int_equal(n->leases.given, 1);
    node_schedule(n);
    assert_int_equal(n->leases.given, 1); /* one looks, and one is there */
    uint32_t second = push(&driver, slot_open(&driver), 0);
    assert_int_equal(n->leases.given, 2);
    assert_int_equal(cpus_free(), CPUS - 2);
    for (int i = 0; i < 3; i++) {
        if (!workers[i]->leased) continue;
        uint32_t record = take(workers[i], &driver);
        assert_true(record == first || record == second);
    }
    node_schedule(n);
    assert_int_equal(n->leases.given, 2); /* nothing is left in the queue */
}

static void test_all_queues_count(void **state) {
    (void)state;
    node_client_t *client = client_new(WIRE_WORKER); /* it runs something else, and submits */
    submitter_t other = submitter_of(client);
    worker_new();
    worker_new();
    push(&driver, slot_open(&driver), 0);
    push(&other, slot_open(&other), 0);
    assert_int_equal(n->leases.given, 2);
}

static void test_no_more_leases_than_cpus(void **state) {
    (void)state;
    node_client_t *workers[CPUS + 2];
    for (int i = 0; i < CPUS + 2; i++) workers[i] = worker_new();
    for (int i = 0; i < 10; i++) push(&driver, slot_open(&driver), 0);
    size_t leased = 0;
    for (int i = 0; i < CPUS + 2; i++) leased += lease_word(workers[i]) == SHM_LEASE_FREE;
    assert_int_equal(leased, CPUS);
    assert_int_equal(n->leases.given, CPUS);
    assert_int_equal(cpus_free(), 0);
    assert_int_equal(node_pool_first(JOB(n))->idle.count, 2);
    assert_true(JOB(n)->lanes[0].request.queued);
    assert_int_equal(atomic_load(&n->shared->lanes[0].more), 0); /* nobody need tell us of more */
    assert_int_equal(atomic_load(&n->shared->wanted), 1);
    /* The request waits its turn and gets the next CPU: that of a worker that dies. */
    for (int i = 0; i < CPUS + 2; i++) {
        if (!workers[i]->leased) continue;
        node_client_died(workers[i]);
        break;
    }
    assert_int_equal(n->leases.given, CPUS);
    assert_int_equal(node_pool_first(JOB(n))->idle.count, 1);
}

static void test_a_lease_waits_for_a_worker(void **state) {
    (void)state;
    push(&driver, slot_open(&driver), 0);
    assert_int_equal(n->leases.given, 0);
    assert_int_equal(node_pool_first(JOB(n))->waiting, 1); /* so one is started */
    assert_int_equal(cpus_free(), CPUS - 1);
    node_client_t *w = worker_new();
    assert_true(w->leased);
    assert_int_equal(lease_word(w), SHM_LEASE_FREE);
    assert_int_equal(node_pool_first(JOB(n))->waiting, 0);
    assert_int_equal(cpus_free(), CPUS - 1);
}

static void test_without_any_worker_the_queue_fails(void **state) {
    (void)state;
    mob_ref_t results[] = {slot_open(&driver), slot_open(&driver)};
    uint32_t records[] = {push(&driver, results[0], 3), push(&driver, results[1], 0)};
    for (int i = 0; i < 10; i++) node_worker_useless(node_pool_first(JOB(n)), "a test", true);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(error_of(results[i]), MOB_ESYS);
        assert_int_equal(wire_word_state(record_word(records[i])), WIRE_FREE);
        assert_null(n->tasks[records[i]]);
    }
    assert_int_equal(shm_queue_count(&n->queues[JOB(n)->driver->number]), 0);
    assert_int_equal(node_pool_first(JOB(n))->waiting, 0);
    assert_int_equal(cpus_free(), CPUS);
    /* the next task tries again */
    node_client_t *w = worker_new();
    uint32_t record = push(&driver, slot_open(&driver), 0);
    assert_int_equal(take(w, &driver), record);
}

static void useless(int count) {
    for (int i = 0; i < count; i++) node_worker_useless(node_pool_first(JOB(n)), "a test", true);
}

/* What older workers do says nothing about those that can't begin. */
static void test_useless_workers_are_counted_in_a_row(void **state) {
    (void)state;
    node_client_t *old = busy_worker(0, NULL, NULL);
    useless(5);
    atomic_fetch_add(&old->events->tail, 1);
    useless(1);
    assert_int_equal(node_pool_first(JOB(n))->failures, 6);
    node_client_t *newer = worker_new();
    newer->started_ns = base_clock_mono_ns();
    useless(1);
    assert_int_equal(node_pool_first(JOB(n))->failures, 7);
    atomic_fetch_add(&newer->events->tail, 1);
    useless(1);
    assert_int_equal(node_pool_first(JOB(n))->failures, 1);
    node_pool_first(JOB(n))->last_failure_ns -= 3600000000000u; /* an hour ago */
    useless(1);
    assert_int_equal(node_pool_first(JOB(n))->failures, 1);
}

static void test_without_the_fast_path_nobody_has_a_lease(void **state) {
    (void)state;
    n->config.fast = false;
    node_client_t *w = worker_new();
    queue_push(&driver, record_fill(&driver, slot_open(&driver), NONE, 0, false));
    node_schedule(n);
    assert_false(w->leased);
    assert_int_equal(cpus_free(), CPUS);
}

/* ---- taking back ---- */

static void test_a_free_lease_is_taken_at_once(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    for (int i = 0; i < CPUS; i++) {
        finish(workers[i], records[i], NONE);
        rest(workers[i]);
    }
    uint32_t record = submit(1);
    size_t ran = 0;
    for (int i = 0; i < CPUS; i++) {
        if (!told_to_run(workers[i], record)) continue;
        ran++;
        assert_int_equal(lease_word(workers[i]), SHM_LEASE_NONE);
        assert_false(workers[i]->leased);
    }
    assert_int_equal(ran, 1);
    assert_int_equal(n->leases.given, CPUS - 1);
    assert_int_equal(cpus_free(), 0);
    assert_int_equal(recalled(workers, CPUS), 0);
}

static void test_a_task_of_three_cpus_takes_as_many_as_it_lacks(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    for (int i = 0; i < CPUS; i++) {
        finish(workers[i], records[i], NONE);
        rest(workers[i]);
    }
    uint32_t record = submit(3);
    size_t ran = 0;
    for (int i = 0; i < CPUS; i++) ran += told_to_run(workers[i], record);
    assert_int_equal(ran, 1);
    assert_int_equal(n->leases.given, 1);
    assert_int_equal(cpus_free(), 0);
}

static void test_a_lost_race_for_a_free_lease(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    push(&driver, slot_open(&driver), 0);
    take(w, &driver); /* before we look: FREE to BUSY */
    node_leases_take_free(n);
    assert_int_equal(lease_word(w), SHM_LEASE_BUSY);
    assert_int_equal(n->leases.given, 1);
}

/* Its worker has not looked yet, which may take a while on a busy machine: it must get to what the
 * lease was given for. */
static void test_a_lease_that_was_just_given_is_left_to_its_worker(void **state) {
    (void)state;
    for (int i = 0; i < CPUS; i++) worker_new();
    uint64_t begin = base_clock_mono_ns();
    for (int i = 0; i < CPUS; i++) push(&driver, slot_open(&driver), 0);
    assert_int_equal(n->leases.given, CPUS);
    submit(1);
    node_schedule(n);
    size_t early = n->leases.given;
    if (base_clock_mono_ns() - begin < RECALL_MS * 1000000ull) assert_int_equal(early, CPUS);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n); /* it had its chance */
    assert_true(n->leases.given < CPUS);
}

static void test_busy_leases_are_recalled_after_some_time(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    uint64_t begin = base_clock_mono_ns();
    uint32_t record = submit(1);
    size_t early = recalled(workers, CPUS);
    if (base_clock_mono_ns() - begin < RECALL_MS * 1000000ull) assert_int_equal(early, 0);
    assert_int_equal(atomic_load(&n->shared->wanted), 1);
    assert_true(uv_is_active((uv_handle_t *)&n->schedule.timer)); /* nobody else wakes us */
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    assert_true(recalled(workers, CPUS) > 0);
    assert_int_equal(n->leases.given, CPUS); /* until its task is done */
    for (int i = 0; i < CPUS; i++) {
        if (!(lease_word(workers[i]) & SHM_LEASE_RECALL)) continue;
        finish(workers[i], records[i], NONE);
        give_back(workers[i]);
        run(workers[i], record, NONE);
        assert_false(workers[i]->leased);
        assert_true(workers[i]->idle);
        break;
    }
    assert_int_equal(n->leases.given, CPUS - 1);
    assert_int_equal(cpus_free(), 1);
    assert_int_equal(atomic_load(&n->shared->wanted), 0);
}

/* One waits for one CPU: the others go on as they are, however often we look before it is given
 * back. */
static void test_one_task_recalls_one_lease(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    submit(1);
    usleep((RECALL_MS + 5) * 1000);
    for (int i = 0; i < 3; i++) node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 1);
}

static void test_a_backlog_alone_recalls_nothing(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    for (int i = 0; i < 5; i++) push(&driver, slot_open(&driver), 0);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 0);
}

/* Nor does one that no ended lease would help. */
static void test_a_task_that_lacks_something_else_recalls_nothing(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    submit(CPUS + 1);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 0);
}

static void test_a_given_back_lease_goes_on_to_the_queue(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    uint32_t record = submit(1), next = push(&driver, slot_open(&driver), 0);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    int i = 0;
    while (i < CPUS - 1 && !(lease_word(workers[i]) & SHM_LEASE_RECALL)) i++;
    finish(workers[i], records[i], NONE);
    give_back(workers[i]);
    run(workers[i], record, NONE);
    assert_true(workers[i]->leased); /* it asked for its turn while the other waited */
    assert_int_equal(take(workers[i], &driver), next);
    assert_int_equal(cpus_free(), 0);
}

/* ---- blocked ---- */

static void test_a_blocked_lease_is_lent_when_somebody_waits(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    assert_true(shm_lease_move(lease_of(workers[1]), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED));
    node_schedule(n);
    assert_int_equal(lease_word(workers[1]), SHM_LEASE_BLOCKED);
    assert_int_equal(atomic_load(&n->shared->wanted), 0); /* so it told nobody */
    assert_int_equal(cpus_free(), 0);
    node_client_t *idle = worker_new();
    uint32_t record = submit(1);
    assert_int_equal(lease_word(workers[1]), SHM_LEASE_LENT);
    assert_true(workers[1]->leased);
    assert_true(told_to_run(idle, record));
    assert_int_equal(cpus_free(), 0);
}

static void test_a_blocked_lease_is_lent_to_the_queue(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    node_client_t *idle = worker_new();
    uint32_t nested = push(&driver, slot_open(&driver), 0); /* what it is about to wait for */
    assert_int_equal(atomic_load(&n->shared->wanted), 1);   /* so it tells us when it blocks */
    assert_true(shm_lease_move(lease_of(workers[0]), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED));
    node_schedule(n);
    assert_int_equal(lease_word(workers[0]), SHM_LEASE_LENT);
    assert_int_equal(n->leases.given, CPUS + 1);
    assert_int_equal(take(idle, &driver), nested);
    assert_int_equal(cpus_free(), 0);
}

static void test_one_that_goes_on_by_itself_was_not_lent(void **state) {
    (void)state;
    node_client_t *w = busy_worker(0, NULL, NULL);
    assert_true(shm_lease_move(lease_of(w), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED));
    assert_false(shm_lease_go_on(lease_of(w)));
    assert_int_equal(lease_word(w), SHM_LEASE_BUSY);
    node_schedule(n);
    assert_int_equal(cpus_free(), CPUS - 1);
    fixture_say(w, WIRE_UNBLOCK, 0, 0); /* nor does a word too many cost a CPU */
    assert_int_equal(cpus_free(), CPUS - 1);
    assert_int_equal(w->state, NODE_LIVE);
}

/* All CPUs are used, one of them was lent, and then its owner goes on; it has not said so yet. */
static void lend_and_go_on_quietly(node_client_t **workers, uint32_t *records) {
    busy_workers(workers, records);
    assert_true(shm_lease_move(lease_of(workers[2]), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED));
    node_client_t *other = worker_new();
    uint32_t record = submit(1);
    assert_true(told_to_run(other, record));
    assert_true(shm_lease_go_on(lease_of(workers[2])));
}

static void lend_and_go_on(node_client_t **workers, uint32_t *records) {
    lend_and_go_on_quietly(workers, records);
    fixture_say(workers[2], WIRE_UNBLOCK, 0, 0);
    assert_int_equal(cpus_free(), -1);
}

static void test_too_many_cpus_in_use_recall_a_busy_lease(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on(workers, records);
    for (int i = 0; i < 3; i++) node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 1); /* one is enough, however often we look */
    for (int i = 0; i < CPUS; i++) {
        if (!(lease_word(workers[i]) & SHM_LEASE_RECALL)) continue;
        finish(workers[i], records[i], NONE);
        give_back(workers[i]);
        break;
    }
    assert_int_equal(cpus_free(), 0);
    assert_int_equal(n->leases.given, CPUS - 1);
    assert_int_equal(recalled(workers, CPUS), 0);
}

/* However late we read that it goes on: it gives its lease back after the task. */
static void test_one_that_goes_on_takes_no_other_task_by_itself(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on_quietly(workers, records);
    assert_int_equal(lease_word(workers[2]), SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    node_schedule(n); /* what it lent is not there yet */
    assert_int_equal(lease_word(workers[2]), SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    assert_int_equal(recalled(workers, CPUS), 1);
    finish(workers[2], records[2], NONE);
    atomic_store(&lease_of(workers[2])->word, SHM_LEASE_NONE);
    fixture_say(workers[2], WIRE_UNBLOCK, 0, 0);
    assert_int_equal(recalled(workers, CPUS), 0);
    fixture_say(workers[2], WIRE_LEASE, 0, 0);
    node_schedule(n);
    assert_int_equal(cpus_free(), 0);
    assert_int_equal(n->leases.given, CPUS - 1);
}

static void test_one_that_goes_on_may_take_others_when_there_is_a_cpu(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on(workers, records);
    assert_int_equal(lease_word(workers[2]), SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    finish(workers[0], records[0], NONE);
    rest(workers[0]);
    node_schedule(n);
    assert_int_equal(lease_word(workers[0]), SHM_LEASE_NONE);
    assert_int_equal(lease_word(workers[2]), SHM_LEASE_BUSY);
    assert_int_equal(cpus_free(), 0);
    for (int i = 0; i < 3; i++) node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 0);
}

static void test_one_that_goes_on_while_memory_is_short(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on(workers, records);
    n->pressure.paused = true;
    finish(workers[0], records[0], NONE);
    rest(workers[0]);
    node_schedule(n);
    assert_int_equal(lease_word(workers[2]), SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    n->pressure.paused = false;
    node_schedule(n);
    assert_int_equal(lease_word(workers[2]), SHM_LEASE_BUSY);
}

static void test_too_many_cpus_in_use_take_a_free_lease(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on(workers, records);
    finish(workers[0], records[0], NONE);
    rest(workers[0]);
    node_schedule(n);
    assert_int_equal(lease_word(workers[0]), SHM_LEASE_NONE);
    assert_false(workers[0]->leased);
    assert_int_equal(recalled(workers, CPUS), 0);
    assert_int_equal(cpus_free(), 0);
}

/* Nothing is granted while more CPUs are used than there are. */
static void test_too_many_cpus_in_use_give_no_new_lease(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    lend_and_go_on(workers, records);
    node_client_t *idle = worker_new();
    push(&driver, slot_open(&driver), 0);
    assert_false(idle->leased);
    assert_true(cpus_free() <= 0);
}

/* ---- lanes ---- */

static void test_a_lane_for_each_shape_of_cpus(void **state) {
    (void)state;
    node_client_t *workers[] = {worker_new(), worker_new()};
    uint32_t two, again, one;
    push_cpus(&driver, 2, &two);
    assert_int_not_equal(two, 0);
    assert_int_equal(n->leases.given, 1);
    assert_int_equal(cpus_free(), CPUS - 2);
    node_client_t *w = workers[0]->leased ? workers[0] : workers[1];
    assert_int_equal(w->lane, two);
    assert_int_equal(atomic_load(&lease_of(w)->lane), two);
    push_cpus(&driver, 2, &again);
    assert_int_equal(again, two);
    push_cpus(&driver, 1, &one);
    assert_int_equal(one, 0);
}

static void test_what_is_not_of_cpus_alone_has_no_lane(void **state) {
    (void)state;
    sched_amount_t demands[][2] = {{{"GPU", SCHED_UNIT}},
                                   {{"CPU", SCHED_UNIT}, {"special", SCHED_UNIT}}};
    for (int i = 0; i < 2; i++) {
        uint32_t shape;
        assert_int_equal(sched_shape_intern(JOB(n)->sched, demands[i], (size_t)i + 1, &shape),
                         MOB_OK);
        node_lane_open(JOB(n), shape);
    }
    node_lane_open(JOB(n), MOB_SHAPE_NOTHING);
    for (uint32_t l = 1; l < SHM_LANES; l++)
        assert_int_equal(atomic_load(&n->shared->lanes[l].shape), 0);
}

static void test_no_more_lanes_than_there_are(void **state) {
    (void)state;
    for (uint64_t cpus = 2; cpus < 20; cpus++) submit(cpus);
    uint32_t used = 0;
    for (uint32_t l = 0; l < SHM_LANES; l++) used += atomic_load(&n->shared->lanes[l].shape) != 0;
    assert_int_equal(used, SHM_LANES);
}

static void test_one_lane_gives_way_to_another(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS], lane;
    busy_workers(workers, records); /* all of one CPU, all busy */
    node_client_t *other = worker_new();
    push_cpus(&driver, 2, &lane);
    assert_false(other->leased);
    assert_int_equal(recalled(workers, CPUS), 0);
    usleep((RECALL_MS + 5) * 1000);
    node_schedule(n);
    node_schedule(n);
    assert_int_equal(recalled(workers, CPUS), 2); /* as many as it lacks, and no more */
    for (int i = 0; i < CPUS; i++)
        if (lease_word(workers[i]) & SHM_LEASE_RECALL) give_back(workers[i]);
    node_schedule(n);
    assert_int_equal(JOB(n)->lanes[lane].leases, 1);
    assert_int_equal(cpus_free(), 0);
}

static void test_a_request_whose_task_was_taken_goes(void **state) {
    (void)state;
    node_client_t *workers[CPUS];
    uint32_t records[CPUS];
    busy_workers(workers, records);
    push(&driver, slot_open(&driver), 0);
    assert_true(JOB(n)->lanes[0].request.queued);
    finish(workers[0], records[0], NONE);
    take(workers[0], &driver);
    node_schedule(n);
    assert_false(JOB(n)->lanes[0].request.queued);
    assert_int_equal(atomic_load(&n->shared->lanes[0].more), 1);
}

/* ---- what no client does ---- */

static void test_words_about_leases_that_are_not_true(void **state) {
    (void)state;
    node_client_t *idle = worker_new();
    fixture_say(idle, WIRE_LEASE, 0, 0); /* has none */
    assert_int_equal(node_pool_first(JOB(n))->idle.count, 1);
    node_client_t *w = busy_worker(0, NULL, NULL);
    assert_true(w == idle || w->leased);
    fixture_say(w, WIRE_LEASE, 0, 0); /* did not give it back */
    assert_true(w->leased);
    assert_int_equal(cpus_free(), CPUS - 1);
    for (int i = 0; i < 3; i++) fixture_say(w, WIRE_UNBLOCK, 0, 0);
    assert_int_equal(cpus_free(), CPUS - 1);
    atomic_store(&lease_of(w)->run, UINT32_MAX);
    (void)node_leases_due(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_push_gives_an_idle_worker_a_lease),
        TEST(test_as_many_leases_as_tasks),
        TEST(test_all_queues_count),
        TEST(test_no_more_leases_than_cpus),
        TEST(test_a_lease_waits_for_a_worker),
        TEST(test_without_any_worker_the_queue_fails),
        TEST(test_useless_workers_are_counted_in_a_row),
        TEST(test_without_the_fast_path_nobody_has_a_lease),
        TEST(test_a_free_lease_is_taken_at_once),
        TEST(test_a_task_of_three_cpus_takes_as_many_as_it_lacks),
        TEST(test_a_lost_race_for_a_free_lease),
        TEST(test_a_lease_that_was_just_given_is_left_to_its_worker),
        TEST(test_busy_leases_are_recalled_after_some_time),
        TEST(test_one_task_recalls_one_lease),
        TEST(test_a_backlog_alone_recalls_nothing),
        TEST(test_a_task_that_lacks_something_else_recalls_nothing),
        TEST(test_a_given_back_lease_goes_on_to_the_queue),
        TEST(test_a_blocked_lease_is_lent_when_somebody_waits),
        TEST(test_a_blocked_lease_is_lent_to_the_queue),
        TEST(test_one_that_goes_on_by_itself_was_not_lent),
        TEST(test_too_many_cpus_in_use_recall_a_busy_lease),
        TEST(test_one_that_goes_on_takes_no_other_task_by_itself),
        TEST(test_one_that_goes_on_may_take_others_when_there_is_a_cpu),
        TEST(test_one_that_goes_on_while_memory_is_short),
        TEST(test_too_many_cpus_in_use_take_a_free_lease),
        TEST(test_too_many_cpus_in_use_give_no_new_lease),
        TEST(test_a_lane_for_each_shape_of_cpus),
        TEST(test_what_is_not_of_cpus_alone_has_no_lane),
        TEST(test_no_more_lanes_than_there_are),
        TEST(test_one_lane_gives_way_to_another),
        TEST(test_a_request_whose_task_was_taken_goes),
        TEST(test_words_about_leases_that_are_not_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
