/* Files of values that are larger than the store: who has one, and when it goes. */
#include "fixture.h"

#include <stdio.h>
#include <unistd.h>

#include "base/folder.h"

enum { SIZE = 5 << 20 };

static node_t *n;
static node_client_t *owner, *worker;
static uint32_t next_slot;
static char folder[] = "/tmp/mobula-large-XXXXXX";

static int setup(void **state) {
    (void)state;
    n = fixture_node_new(64 * SHM_GRANULE);
    n->incarnation = 0x1234;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    assert_true(vec_push(&n->config.spill_dirs, folder));
    owner = fixture_client_new(n, WIRE_WORKER);
    worker = fixture_client_new(n, WIRE_WORKER);
    node_grant_slots(owner, STORE_SLOT_BLOCK);
    next_slot = fixture_heard(owner).grant.first;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fixture_node_free(n);
    base_folder_remove(folder);
    return 0;
}

/* Until the threads have nothing to do. */
static void threads_await(void) { uv_run(&n->loop, UV_RUN_DEFAULT); }

static void need(node_client_t *c, uint32_t number, uint64_t size) {
    fixture_say(c, WIRE_NEED_FILE, number, size);
}

static void make(node_client_t *c, uint32_t number) {
    need(c, number, SIZE);
    threads_await();
    wire_message_t m = fixture_heard(c);
    assert_int_equal(m.kind, WIRE_FILE);
    assert_int_equal(m.file.number, number);
}

static mob_ref_t slot_open(void) {
    mob_ref_t ref = {.slot = next_slot++};
    ref.generation = store_slot_open(&n->slots[ref.slot]);
    return ref;
}

static void slot_seal(mob_ref_t ref) {
    n->slots[ref.slot].value.large.block = 0;
    n->slots[ref.slot].value.large.ref_count = 0;
    n->slots[ref.slot].meta =
        store_meta(SIZE, MOB_FORMAT_PICKLE, MOB_OK, false) | STORE_META_IN_FILE;
    store_slot_seal(&n->slots[ref.slot], true);
}

static void publish(node_client_t *c, mob_ref_t ref, uint32_t number) {
    wire_message_t m = {.escape = {WIRE_ESCAPE, ref.slot, ref.generation, number}};
    assert_true(shm_ring_push(c->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(n->shared, c->number);
    node_inbox_read(n);
}

static mob_ref_t put(node_client_t *c, uint32_t number) {
    make(c, number);
    mob_ref_t ref = slot_open();
    slot_seal(ref);
    publish(c, ref, number);
    return ref;
}

static void drop(mob_ref_t ref) {
    fixture_say(owner, WIRE_DROP, ref.slot, ref.generation);
    fixture_settle(n);
    threads_await();
}

static void test_it_goes_with_its_object(void **state) {
    (void)state;
    mob_ref_t ref = put(owner, 1);
    assert_int_equal(n->larges.files.count, 1);
    assert_non_null(node_object_known(n, ref)->large);
    drop(ref);
    assert_int_equal(n->larges.files.count, 0);
    assert_int_equal(atomic_load(&n->slots[ref.slot].word), STORE_FREE);
}

static void test_a_published_one_outlives_its_maker(void **state) {
    (void)state;
    mob_ref_t ref = put(worker, 1);
    node_client_died(worker);
    assert_int_equal(n->larges.files.count, 1);
    assert_non_null(node_object_known(n, ref)->large);
    drop(ref);
    assert_int_equal(n->larges.files.count, 0);
}

static void test_one_that_is_not_bound_goes_with_its_client(void **state) {
    (void)state;
    make(worker, 1);
    make(worker, 2);
    need(worker, 3, SIZE); /* a thread is at it */
    node_client_died(worker);
    threads_await();
    assert_int_equal(n->larges.files.count, 0);
}

/* The task runs again, and its second run has a file of its own. */
static void test_one_that_is_bound_and_not_sealed_goes_with_its_client(void **state) {
    (void)state;
    mob_ref_t ref = slot_open();
    make(worker, 1);
    publish(worker, ref, 1);
    assert_non_null(node_object_known(n, ref)->large);
    node_client_died(worker);
    threads_await();
    assert_null(node_object_known(n, ref)->large);
    assert_int_equal(n->larges.files.count, 0);
    make(owner, 1);
    slot_seal(ref);
    publish(owner, ref, 1);
    assert_non_null(node_object_known(n, ref)->large);
    drop(ref);
    assert_int_equal(n->larges.files.count, 0);
}

static void test_a_second_one_takes_the_place_of_the_first(void **state) {
    (void)state;
    mob_ref_t ref = slot_open();
    make(owner, 1);
    make(owner, 2);
    publish(owner, ref, 1);
    node_large_t *first = node_object_known(n, ref)->large;
    publish(owner, ref, 2);
    threads_await();
    assert_ptr_not_equal(node_object_known(n, ref)->large, first);
    assert_int_equal(n->larges.files.count, 1);
    slot_seal(ref);
    drop(ref);
    assert_int_equal(n->larges.files.count, 0);
}

static void test_drops(void **state) {
    (void)state;
    make(owner, 1);
    fixture_say(owner, WIRE_DROP_FILE, 1, 0);
    fixture_say(owner, WIRE_DROP_FILE, 1, 0);  /* twice */
    fixture_say(owner, WIRE_DROP_FILE, 99, 0); /* of nothing */
    assert_int_equal(n->larges.files.count, 0);
    need(owner, 2, SIZE);
    fixture_say(owner, WIRE_DROP_FILE, 2, 0); /* a thread is at it */
    threads_await();
    assert_int_equal(n->larges.files.count, 0);
    assert_int_equal(fixture_heard(owner).kind, 0);
    mob_ref_t ref = put(owner, 3);
    fixture_say(owner, WIRE_DROP_FILE, 3, 0); /* somebody may read it */
    assert_int_equal(n->larges.files.count, 1);
    drop(ref);
    assert_int_equal(n->larges.files.count, 0);
}

static void test_another_ones_file_can_not_be_bound(void **state) {
    (void)state;
    make(owner, 1);
    mob_ref_t ref = slot_open();
    publish(worker, ref, 1);
    assert_null(node_object_known(n, ref)->large);
    publish(owner, ref, 7);
    assert_null(node_object_known(n, ref)->large);
    fixture_say(owner, WIRE_DROP_FILE, 1, 0);
    threads_await();
}

static void test_no_disk_has_so_much(void **state) {
    (void)state;
    need(owner, 1, STORE_LARGEST);
    threads_await();
    assert_int_equal(fixture_heard(owner).kind, WIRE_FILE); /* it fetches the words */
    mob_ref_t ref = slot_open();
    slot_seal(ref);
    publish(owner, ref, 1);
    assert_null(node_object_known(n, ref)->large);
    fixture_say(owner, WIRE_DROP_FILE, 1, 0);
    assert_int_equal(n->larges.files.count, 0);
}

static void test_questions_that_make_no_sense(void **state) {
    (void)state;
    const struct {
        uint32_t number;
        uint64_t size;
    } cases[] = {{0, SIZE}, {1, 0}, {1, STORE_LARGEST + 1}, {1, UINT64_MAX}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        node_client_t *c = fixture_client_new(n, WIRE_WORKER);
        need(c, cases[i].number, cases[i].size);
        assert_non_null(c->fault);
        assert_int_equal(n->larges.files.count, 0);
    }
    make(worker, 5);
    need(worker, 5, SIZE); /* the same number again */
    assert_non_null(worker->fault);
    node_client_died(worker);
    threads_await();
    assert_int_equal(n->larges.files.count, 0);
}

static void test_a_client_that_asks_on_and_on_is_ended(void **state) {
    (void)state;
    for (uint32_t i = 1; i < 3000 && worker->fault == NULL; i++) need(worker, i, 1);
    assert_non_null(worker->fault);
    assert_true(n->larges.files.count < 2000);
    node_client_died(worker);
    threads_await();
    assert_int_equal(n->larges.files.count, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_it_goes_with_its_object, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_published_one_outlives_its_maker, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_that_is_not_bound_goes_with_its_client, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_one_that_is_bound_and_not_sealed_goes_with_its_client,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_second_one_takes_the_place_of_the_first, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_drops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_another_ones_file_can_not_be_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_disk_has_so_much, setup, teardown),
        cmocka_unit_test_setup_teardown(test_questions_that_make_no_sense, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_client_that_asks_on_and_on_is_ended, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
