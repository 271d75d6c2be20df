/* Whatever a peer sends: the room lives, and other nodes' objects do not change. */
#include "../random.h"
#include "fixture.h"

static void test_noise_is_refused_and_changes_nothing(void **state) {
    (void)state;
    make(1, 7, 3);
    pull_counts_t before, after;
    pull_count(nodes[0].pull, &before);
    for (int i = 0; i < 50000; i++) {
        uint8_t bytes[PULL_MESSAGE_MAX + 8];
        size_t size = next_random() % sizeof bytes;
        for (size_t j = 0; j < size; j++) bytes[j] = (uint8_t)next_random();
        pull_message_t m;
        if (pull_message_read(bytes, size, &m)) continue;
        assert_int_equal(pull_receive(nodes[0].pull, 2, bytes, size, now_ns), MOB_EPROTO);
    }
    pull_count(nodes[0].pull, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(queue_count, 0);
}

static pull_message_t message_by_chance(void) {
    pull_message_t m = {.kind = (pull_kind_t)(next_random() % PULL_KINDS)};
    m.id = object(next_random() % 4, (uint32_t)(next_random() % 4));
    m.ticket = next_random() % 64;
    m.birth = next_random() % 32;
    m.node = next_random() % 6;
    m.size = (next_random() % 8) * PULL_CHUNK;
    m.version = (uint32_t)(next_random() % 3);
    m.chunk = (uint32_t)(next_random() % 8);
    m.flag = (uint8_t)(next_random() % 3);
    return m;
}

/* Answers of the bulk thread come as well; nothing goes to the peer. */
static void answers_run(void) {
    while (queue_first < queue_count) {
        item_t item = queue[queue_first++];
        if (item.to == &nodes[0] && item.what != MESSAGE) item_do(&item);
    }
    queue_first = queue_count = 0;
}

static void test_lies_do_not_hurt(void **state) {
    (void)state;
    make(1, 1, 3);
    frame_id_t own = object(1, 1), others[] = {object(2, 1), object(2, 2)};
    for (int i = 0; i < 60000; i++) {
        if (i % 500 == 0) queue_count = queue_first = 0;
        pull_want_t *w = i % 50 == 0 ? want(&nodes[0], PULL_GET, others, 2) : NULL;
        pull_message_t m = message_by_chance();
        uint8_t bytes[PULL_MESSAGE_MAX];
        size_t size = pull_message_write(&m, bytes);
        if (next_random() % 4 == 0) bytes[next_random() % size] ^= (uint8_t)next_random();
        mob_status_t status =
            pull_receive(nodes[0].pull, 2 + next_random() % 2, bytes, size, now_ns);
        assert_true(status == MOB_OK || status == MOB_EPROTO);
        now_ns += PULL_MS * (next_random() % 10);
        if (i % 10 == 0) pull_tick(nodes[0].pull, now_ns);
        answers_run();
        if (w != NULL) pull_want_end(nodes[0].pull, w, now_ns);
        pull_object_view_t view;
        assert_true(pull_object_look(nodes[0].pull, &own, &view));
        assert_true(!view.is_lost && view.primary == 1);
    }
    for (uint64_t peer = 2; peer <= 3; peer++)
        assert_int_equal(pull_died(nodes[0].pull, peer, now_ns), MOB_OK);
    answers_run();
    pull_counts_t counts;
    pull_count(nodes[0].pull, &counts);
    assert_int_equal(counts.readings, 0);
    assert_int_equal(counts.transfers, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_noise_is_refused_and_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lies_do_not_hurt, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
