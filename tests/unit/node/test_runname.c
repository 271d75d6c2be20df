/* What a worker runs, by its name: from the books, or from a record that others may write. */
#include "players.h"

#include <fcntl.h>
#include <sys/socket.h>

static void expect_name(node_client_t *w, const char *name) {
    char found[NODE_NAME_BYTES];
    memset(found, 'x', sizeof found);
    node_run_name(w, found);
    assert_string_equal(found, name);
}

static void test_nothing_was_run(void **state) {
    (void)state;
    expect_name(worker_new(), "");
}

static void test_a_task_from_a_queue(void **state) {
    (void)state;
    node_client_t *w = worker_new(), *other = client_new(WIRE_WORKER);
    mob_ref_t result = slot_open(&driver);
    push(&driver, result, 0);
    expect_name(w, ""); /* it has a lease, and runs nothing */
    uint32_t record = take(w, &driver);
    expect_name(w, "work");
    expect_name(other, "");
    memcpy(n->records[record].body + sizeof(mob_ref_t), "a\nb\1", 4);
    expect_name(w, "a b ");
}

/* Each index and size is the worker's or the submitter's to write, and may be anything. */
static void test_impossible_values(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    push(&driver, slot_open(&driver), 0);
    uint32_t record = take(w, &driver);
    wire_record_t *r = &n->records[record], good = *r;
    uint32_t runs[] = {0, record + 2, n->grants.records.granted + 1, 0x7fffffff, SHM_LEASE_FORGETS};
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        atomic_store(&lease_of(w)->run, runs[i]);
        expect_name(w, "");
    }
    atomic_store(&lease_of(w)->run, record + 1);
    expect_name(w, "work");
    r->name_size = 255;
    expect_name(w, "");
    *r = good;
    r->num_deps = r->num_refs = UINT32_MAX;
    expect_name(w, "");
    *r = good;
    r->body_size = UINT64_MAX;
    expect_name(w, "");
    uint64_t blocks[] = {8, n->config.store_bytes, n->config.store_bytes - 8, UINT64_MAX,
                         SHM_GRANULE};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        *r = good;
        r->block = blocks[i];
        expect_name(w, "");
        r->body_size = UINT64_MAX;
        expect_name(w, "");
    }
    *r = good;
}

static void test_a_body_in_the_arena(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    push(&driver, slot_open(&driver), 0);
    wire_record_t *r = &n->records[take(w, &driver)];
    uint64_t offset, serial;
    assert_int_equal(
        node_extent_grant(n, JOB(n)->driver->number, SHM_GRANULE, false, &offset, &serial), MOB_OK);
    r->block = offset + SHM_BLOCK_UNIT;
    memcpy(n->arena.base + r->block, r->body, r->body_size);
    memcpy(n->arena.base + r->block + sizeof(mob_ref_t), "long", 4);
    expect_name(w, "long");
    r->block = 0;
}

static void test_tasks_that_were_handed_out(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    uint32_t record = submit(2);
    assert_ptr_equal(n->tasks[record]->worker, w);
    expect_name(w, ""); /* not begun */
    uint64_t generation = generation_of(record);
    assert_true(wire_record_move(&n->records[record], wire_word(generation, 0, WIRE_READY_STATE),
                                 wire_word(generation, w->number, WIRE_TAKEN), NULL));
    expect_name(w, "work");
    commit(w, record);
    expect_name(w, "work"); /* done, and we have not heard of it */
    fixture_say(w, WIRE_DONE, record, generation);
    assert_null(n->tasks[record]);
    expect_name(w, "work"); /* the last one */
}

static void test_the_last_run(void **state) {
    (void)state;
    node_client_t *w = worker_new(), *other = client_new(WIRE_WORKER);
    w->epoch = 1000; /* as after many others have come and gone under its number */
    const char *const names[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        shm_event_t *e = shm_events_next(w->events);
        e->kind = MOB_TASK;
        e->name_size = (uint8_t)strlen(names[i]);
        memcpy(e->name, names[i], e->name_size);
        shm_events_publish(w->events);
        expect_name(w, names[i]);
    }
    expect_name(other, "");
    control_event_t call = {.kind = MOB_ACTOR_CALL, .worker = w->epoch, .name = "Box.put"};
    control_event_add(n->control, &call);
    expect_name(w, "Box");
}

static void test_an_actor(void **state) {
    (void)state;
    node_client_t *w = client_new(WIRE_WORKER);
    node_actor_t actor = {.name = "Counter"};
    w->actor = &actor;
    expect_name(w, "Counter");
    w->actor = NULL;
}

/* ---- as it is printed ---- */

static int far_end, printer;

static void streams_open(node_client_t *w) {
    int pair[2], pipes[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
    assert_int_equal(node_client_attach(JOB(n)->driver, pair[0]), MOB_OK);
    far_end = pair[1];
    printer = pipes[1];
    assert_int_equal(node_stream_open(w, &w->out, pipes[0], MOB_MESSAGE_OUT), MOB_OK);
}

static void print(const char *text) {
    assert_int_equal(write(printer, text, strlen(text)), strlen(text));
    uv_run(&n->loop, UV_RUN_NOWAIT);
}

/* The next lines. Pieces of them are put together. */
static void expect(const char *name, const char *text) {
    char packet[4096], got[4096] = "";
    wire_text_t head = {.unfinished = 1};
    while (head.unfinished) {
        ssize_t size = recv(far_end, packet, sizeof packet - 1, MSG_DONTWAIT);
        assert_true(size >= (ssize_t)sizeof head);
        packet[size] = 0;
        memcpy(&head, packet, sizeof head);
        assert_string_equal(packet + sizeof head, name);
        strcat(got, packet + sizeof head + head.name_size + head.address_size);
    }
    assert_string_equal(got, text);
}

static void test_text_without_a_mark(void **state) {
    (void)state;
    node_client_t *w = client_new(WIRE_WORKER);
    node_actor_t one = {.name = "one"}, two = {.name = "two"};
    streams_open(w);
    w->actor = &one;
    print("raw\n");
    expect("one", "raw");
    print("\1said\nmarked\n");
    w->actor = &two;
    print("still marked\nhalf");
    expect("said", "marked");
    expect("said", "still marked");
    print("\1\nraw\n"); /* the mark is taken back */
    expect("said", "half");
    expect("two", "raw");
    print("half");
    w->actor = &one;
    print("\nwhole\n"); /* what was begun as one's, ends as one's */
    expect("two", "half");
    expect("one", "whole");
    print("half");
    w->actor = &two;
    print("other\n");
    expect("one", "half");
    expect("two", "other");
    w->actor = NULL;
    close(printer);
    close(far_end);
}

/* What it wrote before its death is read while the books still say what it ran. */
static void test_last_words(void **state) {
    (void)state;
    node_client_t *w = worker_new();
    streams_open(w);
    push(&driver, slot_open(&driver), 0);
    take(w, &driver);
    assert_int_equal(write(printer, "crash\n", 6), 6);
    w->exited = true;
    node_client_died(w);
    expect("work", "crash");
    close(printer);
    close(far_end);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_nothing_was_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_task_from_a_queue, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impossible_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_body_in_the_arena, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tasks_that_were_handed_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_last_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_actor, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_without_a_mark, setup, teardown),
        cmocka_unit_test_setup_teardown(test_last_words, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
