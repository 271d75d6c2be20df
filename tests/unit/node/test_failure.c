/* What the driver is told of failures: errors that go unseen, once each, and not too many. */
#include "fixture.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static node_t *n;
static node_client_t *driver;
static int far_end;
static uint32_t next_slot;

static int setup(void **state) {
    (void)state;
    n = fixture_node_new(64 * SHM_GRANULE);
    driver = fixture_client_new(n, WIRE_DRIVER);
    JOB(n)->driver = driver;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(node_client_attach(driver, pair[0]), MOB_OK);
    far_end = pair[1];
    node_grant_slots(driver, STORE_SLOT_BLOCK);
    wire_message_t granted = fixture_heard(driver);
    assert_int_equal(granted.kind, WIRE_SLOTS);
    next_slot = granted.grant.first;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    JOB(n)->driver = NULL;
    close(far_end);
    fixture_node_free(n);
    return 0;
}

static mob_ref_t slot_failed(mob_status_t status, const char *text) {
    mob_ref_t ref = {.slot = next_slot};
    ref.generation = store_slot_open(&n->slots[ref.slot]);
    node_slot_fail(n, ref, status, text, NULL);
    return ref;
}

/* As its owner does with an error that nobody has seen. */
static void slot_drop(mob_ref_t ref) {
    if (store_slot_drop(&n->slots[ref.slot], false) == STORE_DROP_ASK)
        fixture_say(driver, WIRE_DROP, ref.slot, ref.generation);
    else
        store_slot_close(&n->slots[ref.slot]);
    fixture_settle(n);
    assert_int_equal(atomic_load(&n->slots[ref.slot].word) & STORE_STATE, STORE_FREE);
}

/* The next message to the driver; false: there is none. */
static bool told(uint32_t kind, char *ret_text, size_t capacity) {
    static char packet[WIRE_PACKET_MAX];
    ssize_t size = recv(far_end, packet, sizeof packet, MSG_DONTWAIT);
    if (size < 0) return false;
    wire_text_t head;
    memcpy(&head, packet, sizeof head);
    assert_int_equal(head.packet.kind, WIRE_TEXT);
    assert_int_equal(head.stream, kind);
    assert_true(head.text_size < capacity);
    memcpy(ret_text, packet + sizeof head + head.name_size + head.address_size, head.text_size);
    ret_text[head.text_size] = 0;
    return true;
}

static void test_an_error_that_nobody_saw(void **state) {
    (void)state;
    char text[65536];
    slot_drop(slot_failed(MOB_ECRASHED, "short"));
    assert_true(told(MOB_MESSAGE_UNHANDLED, text, sizeof text));
    assert_string_equal(text,
                        "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): short");
    slot_drop(slot_failed(MOB_ECRASHED, "longer than fits into the slot of the object itself"));
    assert_true(told(MOB_MESSAGE_UNHANDLED, text, sizeof text));
    assert_non_null(strstr(text, "the slot of the object itself"));
    assert_false(told(0, text, sizeof text));
}

static void test_what_is_not_told(void **state) {
    (void)state;
    char text[65536];
    mob_ref_t ref = slot_failed(MOB_ECRASHED, "seen");
    store_slot_see(&n->slots[ref.slot]);
    slot_drop(ref);
    slot_drop(slot_failed(MOB_ECANCELLED, "cancelled"));
    ref = slot_failed(MOB_ECRASHED, "its owner writes nonsense over where it lies in the arena");
    n->slots[ref.slot].value.large.block = 1 << 30;
    slot_drop(ref);
    assert_false(told(0, text, sizeof text));
}

static void test_a_long_one_loses_its_middle(void **state) {
    (void)state;
    static char error[100000], text[65536];
    memset(error, 'x', sizeof error);
    memcpy(error, "ray::f()", 8);
    memcpy(error + sizeof error - 9, "the end!", 9);
    slot_drop(slot_failed(MOB_ECRASHED, error));
    assert_true(told(MOB_MESSAGE_UNHANDLED, text, sizeof text));
    assert_true(strlen(text) < 10000);
    assert_non_null(strstr(text, "ray::f()xxx"));
    assert_non_null(strstr(text, "bytes left out"));
    assert_string_equal(text + strlen(text) - 8, "the end!");
}

static void test_what_is_alike_is_counted(void **state) {
    (void)state;
    char error[100], text[65536];
    for (int i = 0; i < 1000; i++) {
        snprintf(error, sizeof error, "ray::f() (pid=%d)\nValueError: %d at 0x7f%x", i, i, i);
        slot_drop(slot_failed(MOB_ECRASHED, error));
    }
    assert_true(told(MOB_MESSAGE_UNHANDLED, text, sizeof text));
    assert_non_null(strstr(text, "(pid=0)"));
    assert_false(told(0, text, sizeof text));
    node_failures_flush(JOB(n));
    assert_true(told(MOB_MESSAGE_UNHANDLED, text, sizeof text));
    assert_non_null(strstr(text, "999 more like this: ray::f() (pid=0) ... ValueError: 0"));
    node_failures_flush(JOB(n)); /* nothing came since */
    assert_false(told(0, text, sizeof text));
    slot_drop(slot_failed(MOB_ECRASHED, error)); /* and so it is news again */
    assert_true(told(MOB_MESSAGE_UNHANDLED, text, sizeof text));
}

static void test_too_many_different_ones_are_left_out(void **state) {
    (void)state;
    char text[65536];
    for (int i = 0; i < 200; i++) {
        char error[8] = {'a' + i % 20, 'a' + i / 20, 0};
        slot_drop(slot_failed(MOB_ECRASHED, error));
    }
    int count = 0;
    while (told(MOB_MESSAGE_UNHANDLED, text, sizeof text)) count++;
    assert_int_equal(count, NODE_FAILURES_MOST);
    node_failures_flush(JOB(n));
    assert_true(told(MOB_MESSAGE_WARN, text, sizeof text));
    assert_ptr_equal(strstr(text, "168 other failures"), text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_error_that_nobody_saw, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_not_told, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_long_one_loses_its_middle, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_alike_is_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_different_ones_are_left_out, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
