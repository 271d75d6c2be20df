/* What a peer sends may be anything: random bytes, real messages with some bits changed, and real
 * messages of a node that has no right to them. Nothing that others have may suffer. */
#include "town.h"

#include "../random.h"

enum { ROUNDS = 60000 };

/* Two tasks of node 0 run at node 1, one of node 1 at node 0; node 2 is the enemy. */
static void town_at_work(void) {
    town_new((int64_t[]){1, 2, 0});
    place_demand_t demand = one_cpu();
    demand.is_local = true;
    town_submit(0, demand, 0, 2, 3);
    town_submit(1, demand, 100, 1, 3);
    town_pass(8);
    assert_int_equal(counts_of(0).sent, 2);
    assert_int_equal(counts_of(1).sent, 1);
    assert_int_equal(town->guests.count, 3);
}

static void still_at_work(void) {
    assert_int_equal(counts_of(0).sent, 2);
    assert_int_equal(counts_of(1).sent, 1);
    for (size_t i = 0; i < town->guests.count; i++)
        assert_false(town->guests.items[i]->was_stopped);
    assert_non_null(guest_of(0));
    assert_non_null(guest_of(1));
    assert_non_null(guest_of(100));
}

static void letters_burn(void) {
    while (town->letters.count > 0) test_free(vec_pop(&town->letters));
}

static void hostile_message(const uint8_t *bytes, size_t size) {
    for (int node = 0; node < 2; node++) {
        place_counts_t before = counts_of(node), after;
        mob_status_t status =
            place_receive(town->nodes[node].place, id_of(2), bytes, size, town->now_ns);
        after = counts_of(node);
        assert_true(status == MOB_OK || status == MOB_EPROTO || status == MOB_ENOMEM);
        if (status == MOB_EPROTO) assert_memory_equal(&before, &after, sizeof before);
        place_tick(town->nodes[node].place, town->now_ns);
    }
    letters_burn();
}

static void test_random_bytes(void **state) {
    (void)state;
    town_at_work();
    for (int i = 0; i < ROUNDS; i++) {
        uint8_t bytes[128];
        size_t size = next_random() % sizeof bytes;
        for (size_t j = 0; j < size; j++) bytes[j] = (uint8_t)next_random();
        if (size > 0) bytes[0] %= MESSAGE_CANCEL + 2;
        hostile_message(bytes, size);
    }
    still_at_work();
    town_free();
}

typedef VEC(letter_t) samples_t;

static samples_t samples;

static void sample(void) {
    for (size_t i = 0; i < town->letters.count; i++)
        assert_true(vec_push(&samples, *town->letters.items[i]));
}

/* Real messages of all kinds. */
static void samples_take(void) {
    town_new((int64_t[]){1, 2, 0});
    place_demand_t demand = one_cpu();
    demand.is_local = true;
    demand.selector = "";
    town_submit(0, demand, 0, 8, 3);
    town_submit(1, demand, 100, 8, 3);
    for (int i = 0; i < 400; i++) {
        town_tick();
        sample();
        town_deliver();
        if (i % 16 == 0) town->now_ns += MS;
        if (i % 20 == 19) place_cancel(town->nodes[0].place, (uint32_t)i / 20, 0);
        guest_t *g = town->guests.count > 0 ? town->guests.items[0] : NULL;
        if (g == NULL || !g->runs) continue;
        if (i % 10 == 1) place_guest_block(town->nodes[g->node].place, g->guest, town->now_ns);
        if (i % 10 == 3) place_guest_unblock(town->nodes[g->node].place, g->guest, town->now_ns);
        if (i % 10 == 5) town_done(g, PLACE_OK);
    }
    town_free();
    bool has[16] = {0};
    for (size_t i = 0; i < samples.count; i++) has[samples.items[i].bytes[0]] = true;
    for (int kind = MESSAGE_VIEW; kind <= MESSAGE_BLOCK; kind++)
        if (kind != MESSAGE_PROBE && kind != MESSAGE_BACK) assert_true(has[kind]);
}

static void test_changed_messages(void **state) {
    (void)state;
    samples_take();
    town_at_work();
    for (int i = 0; i < ROUNDS; i++) {
        letter_t letter = samples.items[next_random() % samples.count];
        for (uint64_t flips = next_random() % 4; flips > 0; flips--)
            letter.bytes[next_random() % letter.size] ^= (uint8_t)(1 << next_random() % 8);
        size_t size = next_random() % 4 == 0 ? next_random() % (letter.size + 1) : letter.size;
        hostile_message(letter.bytes, size);
        if (i % 100 == 0) town->now_ns += MS;
    }
    still_at_work();
    vec_free(&samples);
    town_free();
}

static void test_a_stranger_ends_nothing(void **state) {
    (void)state;
    town_at_work();
    for (uint64_t run = 0; run < 4; run++)
        for (uint64_t record = 0; record < 101; record++)
            for (message_kind_t kind = MESSAGE_BACK; kind <= MESSAGE_CANCEL; kind++) {
                uint8_t bytes[64];
                base_writer_t w = {.bytes = bytes};
                base_put_number(&w, kind, 1);
                base_put_number(&w, record, 4);
                base_put_number(&w, run, 8);
                if (kind != MESSAGE_BACK) base_put_number(&w, 0, 1);
                if (kind == MESSAGE_DONE) base_put_number(&w, 0, 8);
                hostile_message(bytes, w.size);
            }
    still_at_work();
    town_free();
}

static void test_the_dead_are_not_heard(void **state) {
    (void)state;
    town_at_work();
    place_peer_died(town->nodes[0].place, id_of(2));
    uint8_t bytes[] = {MESSAGE_PROBE, 0};
    assert_int_equal(place_receive(town->nodes[0].place, id_of(2), bytes, 2, town->now_ns), MOB_OK);
    place_peer_silent(town->nodes[0].place, id_of(2), true);
    assert_int_equal(place_peer_joined(town->nodes[0].place, id_of(2)), MOB_OK);
    assert_int_equal(counts_of(0).views, 2);
    town_free();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_bytes),
        cmocka_unit_test(test_changed_messages),
        cmocka_unit_test(test_a_stranger_ends_nothing),
        cmocka_unit_test(test_the_dead_are_not_heard),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
