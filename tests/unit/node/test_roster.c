/* Nodes as one knows them: cards and pulses of others, which may be anything; and how to join. */
#include "fixture.h"

#include "base/bytes.h"
#include "base/random.h"
#include "node/cluster/join.h"
#include "node/cluster/roster.h"

enum { STORE_BYTES = 8 << 20, CARD_MAX = 512 };

static node_t *node;
static node_roster_t roster;
static uint8_t *card;
static size_t card_size;

static int setup(void **state) {
    (void)state;
    node = fixture_node_new(STORE_BYTES);
    node->incarnation = 7;
    node->config.cluster.name = "one";
    assert_int_equal(sched_labels_set(node->sched, "zone=east,disk=fast"), MOB_OK);
    node_roster_init(&roster);
    assert_int_equal(node_roster_card(node, CARD_MAX, &card, &card_size), MOB_OK);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    free(card);
    node_roster_fini(&roster);
    fixture_node_free(node);
    return 0;
}

static void test_a_card_says_what_the_node_has(void **state) {
    (void)state;
    assert_int_equal(node_roster_add(&roster, 8, card, card_size), MOB_OK);
    const node_row_t *row = node_roster_find(&roster, 8);
    assert_non_null(row);
    assert_string_equal(row->name, "one");
    assert_string_equal(row->labels, "zone=east,disk=fast");
    assert_int_equal(row->count, 2);
    assert_string_equal(row->totals[0].name, "CPU");
    assert_true(row->totals[0].amount == 4 * SCHED_UNIT && row->free[0] == 4 * SCHED_UNIT);
    assert_string_equal(row->totals[1].name, "object_store_memory");
    assert_true(row->totals[1].amount == (uint64_t)STORE_BYTES * SCHED_UNIT);
    assert_true(row->until_ms == 0);
}

static void test_a_card_that_is_too_large_is_an_error(void **state) {
    (void)state;
    uint8_t *bytes;
    size_t size;
    assert_int_equal(node_roster_card(node, card_size, &bytes, &size), MOB_OK);
    free(bytes);
    assert_int_equal(node_roster_card(node, card_size - 1, &bytes, &size), MOB_ELIMIT);
}

static void test_what_is_free_comes_later(void **state) {
    (void)state;
    uint8_t usage[64];
    size_t size = node_roster_usage_write(node, usage, sizeof usage);
    assert_int_equal(size, 2 * 8);
    assert_int_equal(node_roster_usage_write(node, usage, size - 1), 0);
    assert_int_equal(node_roster_add(&roster, 8, card, card_size), MOB_OK);
    node_row_t *row = node_roster_find(&roster, 8);
    base_writer_t w = {.bytes = usage};
    base_put_number(&w, SCHED_UNIT, 8);
    base_put_number(&w, UINT64_MAX, 8); /* more than it has in all */
    assert_int_equal(node_roster_usage_read(row, usage, w.size), MOB_OK);
    assert_true(row->free[0] == SCHED_UNIT);
    assert_true(row->free[1] == (int64_t)row->totals[1].amount);
    assert_int_equal(node_roster_usage_read(row, usage, w.size - 1), MOB_EPROTO);
}

static void test_cards_that_make_no_sense_change_nothing(void **state) {
    (void)state;
    base_random_t chance = {11};
    uint8_t bytes[CARD_MAX];
    for (size_t size = 0; size < card_size; size++)
        assert_int_equal(node_roster_add(&roster, 8, card, size), MOB_EPROTO);
    for (int i = 0; i < 100000; i++) {
        memcpy(bytes, card, card_size);
        for (int flips = 1 + i % 4; flips > 0; flips--)
            bytes[base_random_below(&chance, card_size)] ^=
                (uint8_t)(1 + base_random_below(&chance, 255));
        uint64_t incarnation = 100 + (uint64_t)i;
        if (node_roster_add(&roster, incarnation, bytes, card_size) != MOB_OK) continue;
        node_roster_bury(&roster, incarnation, "tried"); /* so they are bounded */
    }
    assert_true(roster.order.count < 1000);
}

static void test_the_dead_stay_for_a_while(void **state) {
    (void)state;
    for (uint64_t i = 1; i <= 1000; i++) {
        assert_int_equal(node_roster_add(&roster, i, card, card_size), MOB_OK);
        if (i != 500) node_roster_bury(&roster, i, "so");
    }
    assert_true(roster.order.count < 300);
    assert_non_null(node_roster_find(&roster, 500));
    assert_null(node_roster_find(&roster, 1));
    assert_string_equal(node_roster_find(&roster, 1000)->reason, "so");
}

static void test_a_node_is_told_in_words(void **state) {
    (void)state;
    char words[NODE_ROSTER_WORDS], few[8];
    node_roster_words(&roster, 8, words, sizeof words);
    assert_string_equal(words, "node_id 0000000000000008");
    assert_int_equal(node_roster_add(&roster, 8, card, card_size), MOB_OK);
    node_roster_words(&roster, 8, words, sizeof words);
    assert_string_equal(words, "one (127.0.0.1:0, node_id 0000000000000008)");
    node_roster_bury(&roster, 8, "so");
    node_roster_words(&roster, 8, words, sizeof words);
    assert_string_equal(words, "one (127.0.0.1:0, node_id 0000000000000008): so");
    node_roster_words(&roster, 8, few, sizeof few);
    assert_string_equal(few, "one (12");
}

static void test_how_to_join_is_told_in_words(void **state) {
    (void)state;
    uint64_t id[2];
    char host[16];
    uint16_t port;
    assert_int_equal(node_join_id_read("00000000000000010000000000000002", id), MOB_OK);
    assert_true(id[0] == 1 && id[1] == 2);
    static const char *const no_ids[] = {"", "1", "0000000000000000000000000000000x",
                                         "00000000000000000000000000000001",
                                         "000000000000000100000000000000021"};
    for (size_t i = 0; i < sizeof no_ids / sizeof *no_ids; i++)
        assert_int_equal(node_join_id_read(no_ids[i], id), MOB_EINVAL);
    assert_int_equal(node_join_address_read("it", "10.0.0.1:65535", host, sizeof host, &port),
                     MOB_OK);
    assert_string_equal(host, "10.0.0.1");
    assert_int_equal(port, 65535);
    static const char *const nowhere[] = {"",
                                          ":1",
                                          "10.0.0.1",
                                          "10.0.0.1:",
                                          "10.0.0.1:65536",
                                          "10.0.0.1:1x",
                                          "a.name.that.is.too.long:1"};
    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++)
        assert_int_equal(node_join_address_read("it", nowhere[i], host, sizeof host, &port),
                         MOB_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_card_says_what_the_node_has, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_card_that_is_too_large_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_free_comes_later, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cards_that_make_no_sense_change_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_the_dead_stay_for_a_while, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_node_is_told_in_words, setup, teardown),
        cmocka_unit_test_setup_teardown(test_how_to_join_is_told_in_words, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
