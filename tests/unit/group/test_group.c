/* The room on one node alone: groups that only their home knows, and hostile messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../random.h"
#include "frame/id.h"
#include "group/group.h"
#include "group/message.h"
#include "group/script.h"

typedef struct {
    int held, committed, sent, asked;
    group_state_t told;
    uint64_t dead;
    void (*reply)(void *, uint64_t, const void *, size_t);
    void *ask;
} node_t;

static void on_send(void *c, uint64_t to, const void *bytes, size_t size) {
    (void)to, (void)bytes, (void)size;
    ((node_t *)c)->sent++;
}
static void on_ask(void *c, script_fn script, const void *arguments, size_t size,
                   void (*reply)(void *, uint64_t, const void *, size_t), void *ask) {
    (void)script, (void)arguments, (void)size;
    ((node_t *)c)->asked++;
    ((node_t *)c)->reply = reply;
    ((node_t *)c)->ask = ask;
}
static void on_said(void *c, uint64_t master) { (void)c, (void)master; }
static bool on_is_dead(void *c, uint64_t node) { return node == ((node_t *)c)->dead; }
static bool on_reserve(void *c, const group_key_t *key, const struct group_spec *spec) {
    (void)key, (void)spec;
    return ((node_t *)c)->held < 4 && ++((node_t *)c)->held > 0;
}
static void on_commit(void *c, const group_key_t *key) { (void)key, ((node_t *)c)->committed++; }
static void on_release(void *c, const group_key_t *key) { (void)key, ((node_t *)c)->held--; }
static frame_demand_t on_view(void *c, const char **ret_labels) {
    (void)c;
    *ret_labels = "";
    return (frame_demand_t){NULL, 0};
}
static bool on_matches(void *c, const char *selector, const char *labels) {
    return (void)c, (void)selector, (void)labels, true;
}
static void on_told(void *c, const frame_id_t *id, group_state_t state, const uint64_t *nodes,
                    size_t count) {
    (void)id, (void)nodes, (void)count;
    ((node_t *)c)->told = state;
}
static void on_found(void *c, uint64_t request, mob_status_t status, const frame_id_t *id) {
    (void)c, (void)request, (void)status, (void)id;
}
static void on_job_written(void *c, frame_job_t job) { (void)c, (void)job; }
static const group_ops_t ops = {on_send,    on_ask,    on_said,    on_is_dead,
                                on_reserve, on_commit, on_release, on_view,
                                on_matches, on_told,   on_found,   on_job_written};

static void test_a_group_that_fits_at_home_costs_nothing(void **state) {
    (void)state;
    node_t node = {0};
    group_t *room;
    assert_int_equal(group_new(&ops, &node, 7, &room), MOB_OK);
    frame_amount_t cpu = {"CPU", 1};
    group_bundle_t bundles[2] = {{{&cpu, 1}, ""}, {{&cpu, 1}, ""}};
    group_want_t want = {.id = {7, 1, 1},
                         .job = {7, 0},
                         .strategy = MOB_PACK,
                         .name_space = "",
                         .name = "",
                         .bundles = bundles,
                         .count = 2};
    assert_int_equal(group_create(room, &want), MOB_OK);
    assert_int_equal(group_create(room, &want), MOB_EINVAL);
    assert_int_equal(node.told, GROUP_READY);
    assert_int_equal(node.committed, 2);
    assert_int_equal(group_remove(room, &want.id), MOB_OK);
    assert_int_equal(node.told, GROUP_REMOVED);
    group_turn(room, 1);
    assert_int_equal(node.held + node.sent + node.asked, 0);
    assert_true(group_is_idle(room));
    group_free(room);
}

/* The leader, 8, says so. */
static void ready_say(group_t *room, frame_id_t id, uint64_t node) {
    uint8_t bytes[256], list[8], key[20];
    base_writer_t l = {.bytes = list}, k = {.bytes = key}, w = {.bytes = bytes};
    group_item_t item = {.kind = GROUP_ITEM_STATE, .flag = GROUP_READY, .list = list, .count = 1};
    base_put_number(&l, node, 8);
    frame_id_put(&k, id);
    memcpy(item.id.bytes, key, sizeof key);
    base_put_number(&w, 5, 8);
    group_item_put(&w, &item);
    assert_int_equal(group_receive(room, 8, bytes, w.size), MOB_OK);
}

/* It has heard what is free here. */
static void want_say(group_t *room) {
    uint8_t bytes[16];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, 5, 8);
    group_item_put(&w, &(group_item_t){.kind = GROUP_ITEM_WANT});
    assert_int_equal(group_receive(room, 8, bytes, w.size), MOB_OK);
}

/* It may have joined just now, and its home has not heard of that. */
static void test_ready_on_an_unknown_node_is_asked_for_again(void **state) {
    (void)state;
    node_t node = {.dead = 9, .held = 4};
    group_t *room;
    uint8_t answer[9] = {GROUP_SAID_OK, 1};
    assert_int_equal(group_new(&ops, &node, 7, &room), MOB_OK);
    frame_amount_t cpu = {"CPU", 1};
    group_bundle_t bundle = {{&cpu, 1}, ""};
    group_want_t want = {.id = {7, 1, 1},
                         .job = {7, 0},
                         .strategy = MOB_PACK,
                         .name_space = "",
                         .name = "",
                         .bundles = &bundle,
                         .count = 1};
    group_turn(room, 1);
    group_leads(room, 8, 5);
    assert_int_equal(group_create(room, &want), MOB_OK);
    node.reply(node.ask, 0, answer, sizeof answer);
    group_turn(room, 2);
    assert_int_equal(node.told, GROUP_WAITING);
    want_say(room);
    ready_say(room, want.id, 9);
    assert_int_equal(node.told, GROUP_WAITING);
    group_turn(room, 3);
    int sent = node.sent;
    group_turn(room, 4 + GROUP_AGAIN_MS);
    assert_int_equal(node.sent, sent + 1);
    node.dead = 0;
    ready_say(room, want.id, 9);
    assert_int_equal(node.told, GROUP_READY);
    group_free(room);
}

static void test_hostile_messages_change_nothing(void **state) {
    (void)state;
    node_t node = {0};
    group_t *room;
    assert_int_equal(group_new(&ops, &node, 7, &room), MOB_OK);
    for (int i = 0; i < 30000; i++) {
        uint8_t bytes[96] = {0};
        size_t size = next_random() % sizeof bytes;
        for (size_t b = 8; b < size; b++) bytes[b] = (uint8_t)(next_random() % 24);
        (void)group_receive(room, 9, bytes, size); /* its sender does not lead */
        group_turn(room, (uint64_t)i);
    }
    assert_int_equal(node.held + node.committed, 0);
    assert_true(group_is_idle(room));
    group_free(room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_group_that_fits_at_home_costs_nothing),
        cmocka_unit_test(test_ready_on_an_unknown_node_is_asked_for_again),
        cmocka_unit_test(test_hostile_messages_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
