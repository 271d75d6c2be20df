/* Whatever a peer or Redis says, the room is alive afterwards, and what made no sense changed
 * nothing. */
#include "../random.h"
#include "store.h"

enum { ROUNDS = 20000 };

static void bytes_random(uint8_t *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)next_random();
}

static void town_start(void) {
    for (uint64_t self = 1; self <= 3; self++) node_start(self);
    town_run(10000);
}

static void town_is_well(void) {
    town_run(3000);
    for (int i = 0; i < 3; i++) assert_false(nodes[i].is_paused || nodes[i].over != 0);
    assert_int_equal(nodes[0].died, 0);
}

static void test_random_pulses_and_messages(void **state) {
    (void)state;
    town_start();
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t bytes[64];
        size_t size = next_random() % sizeof bytes;
        bytes_random(bytes, sizeof bytes);
        uint64_t peer = 1 + next_random() % 5;
        uint64_t end = nodes[0].end_ns;
        if (member_pulse_read(nodes[0].member, clock_ms * MS, peer, bytes, size) != MOB_OK)
            assert_int_equal(nodes[0].end_ns, end);
        member_receive(nodes[0].member, clock_ms * MS, peer, bytes, size);
    }
    town_is_well();
}

static void test_mutated_pulses(void **state) {
    (void)state;
    town_start();
    for (int round = 0; round < ROUNDS; round++) {
        uint8_t pulse[MEMBER_PULSE_SIZE];
        member_pulse_write(nodes[1].member, clock_ms * MS, 1, pulse);
        pulse[next_random() % sizeof pulse] ^= (uint8_t)(1 << next_random() % 8);
        size_t size = next_random() % 8 == 0 ? next_random() % sizeof pulse : sizeof pulse;
        mob_status_t status = member_pulse_read(nodes[0].member, clock_ms * MS, 2, pulse, size);
        if (size != sizeof pulse) assert_int_equal(status, MOB_EPROTO);
    }
    town_is_well();
}

static void test_epitaphs_of_others_are_ignored(void **state) {
    (void)state;
    town_start();
    uint8_t bytes[24] = {1};
    bytes[8] = 2;
    bytes[16] = 5;
    assert_int_equal(member_receive(nodes[0].member, clock_ms * MS, 3, bytes, 23), MOB_EPROTO);
    assert_int_equal(member_receive(nodes[0].member, clock_ms * MS, 3, bytes, 24), MOB_OK);
    town_is_well();
    bytes[8] = 1;
    assert_int_equal(member_receive(nodes[0].member, clock_ms * MS, 3, bytes, 24), MOB_OK);
    assert_int_equal(nodes[0].over, MEMBER_BURIED);
}

/* Answers that were bitten: a refused one counts as none. What can't be told from a true one may
 * be believed, even that the node is over; it is never a crash. */
static void test_mutated_answers(void **state) {
    (void)state;
    for (int round = 0; round < 400; round++) {
        town_begin(NULL);
        town_start();
        for (int step = 0; step < 50; step++) {
            member_tick(nodes[0].member, (clock_ms += 100) * MS);
            while (nodes[0].asked_count > 0) {
                asked_t asked = nodes[0].asked[--nodes[0].asked_count];
                script_keys_t keys = keys_now();
                uint8_t answer[SCRIPT_ANSWER_MAX];
                size_t size = asked.script(&keys, asked.arguments, asked.size, answer);
                if (next_random() % 4 == 0) size = next_random() % (size + 1);
                if (size > 0) answer[next_random() % size] ^= (uint8_t)(1 << next_random() % 8);
                member_answer(nodes[0].member, clock_ms * MS, asked.request, answer, size);
            }
        }
        town_end(NULL);
        memset(nodes, 0, sizeof nodes);
    }
}

static void test_random_answers(void **state) {
    (void)state;
    town_start();
    for (int round = 0; round < ROUNDS && nodes[0].over == 0; round++) {
        uint8_t answer[256];
        size_t size = next_random() % sizeof answer;
        bytes_random(answer, sizeof answer);
        uint64_t end = nodes[0].end_ns;
        uint64_t request = next_random() % 4096;
        if (member_answer(nodes[0].member, clock_ms * MS, request, answer, size) != MOB_OK)
            assert_int_equal(nodes[0].end_ns, end);
    }
    assert_int_equal(nodes[0].over, 0);
    town_is_well();
}

/* Each value of the state is spoiled in turn: told with its name, or of no consequence. */
static void test_poisoned_values(void **state) {
    (void)state;
    town_start();
    size_t told = 0;
    for (size_t i = 0; i < stored_count; i++) {
        char key[SCRIPT_KEY_MAX];
        strcpy(key, stored[i].key);
        stored_t before = stored[i];
        nodes[0].poisoned[0] = 0;
        for (int k = 0; k < NODES; k++) nodes[k].asked_count = 0;
        stored[i].size = 3;
        clock_ms += 600; /* a renewal, and the leader's survey */
        member_tick(nodes[0].member, clock_ms * MS);
        node_answer(&nodes[0]);
        if (strcmp(nodes[0].poisoned, key) == 0) told++;
        assert_int_equal(nodes[0].over, 0);
        stored_t *after = key_find(key);
        if (after != NULL && after->size == 3) *after = before;
    }
    assert_true(told >= 6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_random_pulses_and_messages, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_mutated_pulses, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_epitaphs_of_others_are_ignored, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_mutated_answers, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_random_answers, town_begin, town_end),
        cmocka_unit_test_setup_teardown(test_poisoned_values, town_begin, town_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
