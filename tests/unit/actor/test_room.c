/* The actors of a cluster: one node that is home, seat and stub at once, and peers that send
 * anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "actor/actor.h"
#include "actor/message.h"
#include "actor/script.h"
#include "base/bytes.h"
#include "frame/id.h"

enum { SELF = 7, MESSAGES = 64 };
enum { KILL = 11, KILLED = 12 }; /* kinds of messages */

typedef struct {
    actor_t *room;
    uint8_t messages[MESSAGES][512];
    size_t sizes[MESSAGES], count;
    uint64_t epoch, call, question;
    size_t confirmed; /* kills, to peer 9 */
    uint64_t met;     /* 99: it is known */
    int calls;        /* to peer 99 */
    int made, ran, cancelled, answers, ends;
    mob_status_t status;
} node_t;

static void on_send(void *context, uint64_t to, const void *head, size_t head_size,
                    const void *body, size_t body_size, bool is_answer) {
    node_t *n = context;
    (void)is_answer;
    n->confirmed += to == 9 && *(const uint8_t *)head == KILLED;
    n->calls += to == 99 && *(const uint8_t *)head == MESSAGE_CALL;
    if (to != SELF || n->count == MESSAGES || head_size + body_size > 512) return;
    memcpy(n->messages[n->count], head, head_size);
    if (body_size > 0) memcpy(n->messages[n->count] + head_size, body, body_size);
    n->sizes[n->count++] = head_size + body_size;
}
static void on_ask(void *context, script_fn script, const void *arguments, size_t size,
                   uint64_t question) {
    (void)script, (void)arguments, (void)size;
    ((node_t *)context)->question = question;
}
static void on_said(void *context, uint64_t master) { (void)context, (void)master; }
static bool is_dead(void *context, uint64_t peer) {
    return peer == 99 && ((node_t *)context)->met != 99;
}
static void on_place(void *context, frame_id_t id) { (void)context, (void)id; }
static void on_created(void *context, frame_id_t id, mob_status_t status) {
    (void)context, (void)id, (void)status;
}
static void on_ended(void *context, frame_id_t id) {
    (void)id;
    ((node_t *)context)->ends++;
}
static void on_make(void *context, frame_id_t id, uint64_t epoch, const void *spec, size_t size) {
    node_t *n = context;
    (void)id, (void)spec, (void)size;
    n->made++;
    n->epoch = epoch;
}
static void on_stop(void *context, frame_id_t id, uint64_t epoch) {
    (void)context, (void)id, (void)epoch;
}
static void on_fetch(void *context, uint64_t call, frame_id_t id, uint64_t epoch, const void *bytes,
                     size_t size) {
    (void)id, (void)epoch, (void)bytes, (void)size;
    ((node_t *)context)->call = call;
}
static void on_run(void *context, uint64_t call, bool begins) {
    (void)call;
    ((node_t *)context)->ran += begins;
}
static void on_cancel(void *context, uint64_t call, bool recursive) {
    (void)call;
    ((node_t *)context)->cancelled += recursive;
}
static void on_answer(void *context, uint64_t token, mob_status_t status, const void *bytes,
                      size_t size) {
    node_t *n = context;
    (void)token, (void)bytes, (void)size;
    n->answers++;
    n->status = status;
}
static void on_released(void *context, frame_id_t id) { (void)context, (void)id; }
static void on_found(void *context, uint64_t token, mob_status_t status, frame_id_t id,
                     uint8_t flags) {
    (void)context, (void)token, (void)status, (void)id, (void)flags;
}

static const actor_ops_t ops = {on_send,    on_ask,    on_said,   is_dead,     on_place,
                                on_created, on_ended,  on_make,   on_stop,     on_fetch,
                                on_run,     on_cancel, on_answer, on_released, on_found};
static const frame_id_t ID = {SELF, 1, 1};

static void deliver(node_t *n) {
    for (size_t i = 0; i < n->count; i++)
        assert_int_equal(actor_receive(n->room, SELF, n->messages[i], n->sizes[i]), MOB_OK);
    n->count = 0;
}

/* A plain actor that is alive, with a handle here. */
static void begin(node_t *n) {
    *n = (node_t){0};
    assert_int_equal(actor_new(&ops, n, SELF, 1, 1000, &n->room), MOB_OK);
    actor_spec_t spec = {.limit = 1, .bytes = "x", .size = 1};
    assert_int_equal(actor_create(n->room, ID, &spec), MOB_OK);
    assert_int_equal(actor_create(n->room, ID, &spec), MOB_EINVAL);
    assert_int_equal(actor_handle_open(n->room, ID, 0), MOB_OK);
    actor_placed(n->room, ID, SELF);
    deliver(n);
    assert_int_equal(n->made, 1);
    actor_process_made(n->room, ID, n->epoch);
    deliver(n);
    deliver(n);
}

static void test_a_call_is_run_and_answered(void **state) {
    (void)state;
    node_t n;
    begin(&n);
    assert_int_equal(actor_call(n.room, ID, 1, 5, 0, "c", 1), MOB_OK);
    deliver(&n);
    actor_pause(n.room, true);
    actor_call_ready(n.room, n.call);
    assert_int_equal(n.ran, 0);
    actor_pause(n.room, false);
    assert_int_equal(n.ran, 1);
    actor_call_done(n.room, n.call, MOB_OK, NULL, 0);
    deliver(&n);
    assert_int_equal(n.answers, 1);
    assert_int_equal(n.status, MOB_OK);
    actor_free(n.room);
}

/* It has joined a moment ago: the actor's home knows it already. */
static void test_calls_wait_until_their_node_is_known(void **state) {
    (void)state;
    node_t n = {0};
    static const frame_id_t there = {9, 1, 1};
    uint8_t alive[64];
    base_writer_t w = {.bytes = alive};
    assert_int_equal(actor_new(&ops, &n, SELF, 1, 1000, &n.room), MOB_OK);
    assert_int_equal(actor_handle_open(n.room, there, 0), MOB_OK);
    assert_int_equal(actor_call(n.room, there, 1, 5, 0, "c", 1), MOB_OK);
    base_put_number(&w, MESSAGE_ALIVE, 1);
    frame_id_put(&w, there);
    base_put_number(&w, 1, 8);
    base_put_number(&w, 99, 8);
    assert_int_equal(actor_receive(n.room, 9, alive, w.size), MOB_OK);
    for (uint64_t now = 1000; now < 60000; now += 250) actor_tick(n.room, now);
    assert_int_equal(n.calls + n.answers, 0);
    n.met = 99;
    actor_tick(n.room, 60000);
    assert_int_equal(n.calls, 1);
    actor_free(n.room);
}

static void test_a_call_that_waits_there_is_cancelled(void **state) {
    (void)state;
    node_t n;
    begin(&n);
    for (uint64_t token = 5; token < 8; token++)
        assert_int_equal(actor_call(n.room, ID, 1, token, 0, "c", 1), MOB_OK);
    deliver(&n);
    actor_cancel(n.room, 6, false);
    actor_cancel(n.room, 9, false); /* there is none */
    deliver(&n);
    assert_int_equal(n.answers, 1);
    assert_int_equal(n.status, MOB_ECANCELLED);
    actor_call_ready(n.room, n.call);
    assert_int_equal(n.ran, 0); /* behind the first one */
    actor_call_ready(n.room, n.call - 2);
    assert_int_equal(n.ran, 1);
    actor_call_done(n.room, n.call - 2, MOB_OK, NULL, 0);
    assert_int_equal(n.ran, 2);
    actor_free(n.room);
}

static void test_a_call_that_runs_there_is_cancelled(void **state) {
    (void)state;
    node_t n;
    begin(&n);
    assert_int_equal(actor_call(n.room, ID, 1, 5, 0, "c", 1), MOB_OK);
    deliver(&n);
    actor_call_ready(n.room, n.call);
    actor_cancel(n.room, 5, true);
    deliver(&n);
    assert_int_equal(n.cancelled, 1);
    actor_process_ended(n.room, ID, n.epoch, ACTOR_CRASHED);
    deliver(&n);
    assert_int_equal(n.answers, 1);
    actor_free(n.room);
}

static void test_a_begun_call_fails_with_its_process(void **state) {
    (void)state;
    node_t n;
    begin(&n);
    assert_int_equal(actor_call(n.room, ID, 1, 5, 0, "c", 1), MOB_OK);
    deliver(&n);
    actor_call_ready(n.room, n.call);
    actor_process_ended(n.room, ID, n.epoch, ACTOR_CRASHED);
    deliver(&n);
    assert_int_equal(n.answers, 1);
    assert_int_not_equal(n.status, MOB_OK);
    assert_int_equal(n.ends, 1);
    deliver(&n);
    assert_int_equal(actor_counts(n.room).seats, 0);
    actor_free(n.room);
}

static void test_a_silent_home_fails_the_wait(void **state) {
    (void)state;
    node_t n;
    begin(&n);
    frame_id_t other = {8, 1, 1};
    assert_int_equal(actor_handle_open(n.room, other, 0), MOB_OK);
    assert_int_equal(actor_call(n.room, other, 1, 6, 0, NULL, 0), MOB_OK);
    actor_peer_silent(n.room, 8, true);
    actor_tick(n.room, 1000 + ACTOR_PATIENCE_MS - 1);
    assert_int_equal(n.answers, 0);
    actor_tick(n.room, 1000 + ACTOR_PATIENCE_MS);
    assert_int_equal(n.answers, 1);
    assert_int_equal(n.status, MOB_EUNAVAILABLE);
    actor_free(n.room);
}

static void test_what_makes_no_sense_changes_nothing(void **state) {
    (void)state;
    node_t n;
    begin(&n);
    assert_int_equal(actor_call(n.room, ID, 1, 5, 0, "c", 1), MOB_OK);
    uint8_t real[512], bytes[512];
    size_t real_size = n.sizes[0];
    memcpy(real, n.messages[0], real_size);
    deliver(&n);
    actor_counts_t before = actor_counts(n.room);
    for (int i = 0; i < 20000; i++) {
        size_t size = next_random() % 200;
        for (size_t j = 0; j < size; j++) bytes[j] = (uint8_t)next_random();
        if (i % 2 == 0) {
            size = next_random() % (real_size + 1);
            memcpy(bytes, real, size);
            if (size > 0) bytes[0] = (uint8_t)(next_random() % 16);
            if (size > 29) bytes[next_random() % size] ^= (uint8_t)(1 + next_random() % 255);
        }
        /* a call or a watch of a stranger may be taken; everything else leaves all as it is */
        bool adds = size > 0 && (bytes[0] == 13 || bytes[0] == 7 || bytes[0] == 1);
        mob_status_t status = actor_receive(n.room, 9, bytes, size);
        assert_true(status == MOB_OK || status == MOB_EPROTO);
        n.count = 0;
        if (status == MOB_EPROTO || !adds) {
            actor_counts_t now = actor_counts(n.room);
            assert_int_equal(now.actors, before.actors);
            assert_int_equal(now.stubs, before.stubs);
        }
        before = actor_counts(n.room);
    }
    assert_int_equal(n.answers, 0);
    assert_int_equal(n.made, 1);
    actor_free(n.room);
}

/* A detached actor with a name, whose home asks for the name and is not answered yet. */
static void begin_named(node_t *n) {
    *n = (node_t){0};
    assert_int_equal(actor_new(&ops, n, SELF, 1, 1000, &n->room), MOB_OK);
    actor_settled(n->room, 1);
    actor_spec_t spec = {.flags = ACTOR_NAMED | ACTOR_DETACHED, .name = "n", .limit = 1};
    assert_int_equal(actor_create(n->room, ID, &spec), MOB_OK);
    assert_true(n->question != 0);
}

static void answer_ok(node_t *n) {
    uint8_t bytes[9] = {ACTOR_SAY_OK, 42};
    actor_answered(n->room, n->question, 1, bytes, sizeof bytes);
}

static void kill_come(node_t *n) {
    uint8_t bytes[64];
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, KILL, 1);
    actor_id_put(&w, ID);
    base_put_number(&w, 0, 8);
    base_put_number(&w, 5, 8);
    base_put_number(&w, 1, 1);
    assert_int_equal(actor_receive(n->room, 9, bytes, w.size), MOB_OK);
}

/* The control state has the actor, the home has not heard so. It confirms a kill and dies: a leader
 * would find the actor, and make it. */
static void test_a_kill_is_confirmed_when_it_can_not_be_lost(void **state) {
    (void)state;
    node_t n;
    begin_named(&n);
    kill_come(&n);
    assert_int_equal(n.confirmed, 0);
    answer_ok(&n); /* the name is taken */
    kill_come(&n);
    assert_int_equal(n.confirmed, 0);
    answer_ok(&n); /* that it is to die is kept */
    kill_come(&n);
    assert_int_equal(n.confirmed, 1);
    answer_ok(&n);
    assert_int_equal(n.ends, 1);
    actor_free(n.room);
}

/* A fail-over may take back an end, and be heard of late: so it is asked for again. */
static void test_an_end_is_asked_for_again_before_it_is_forgotten(void **state) {
    (void)state;
    node_t n;
    begin_named(&n);
    kill_come(&n);
    for (int i = 0; i < 3; i++) answer_ok(&n); /* the name, the kill, the end */
    assert_int_equal(n.ends, 1);
    uint64_t last = n.question;
    actor_tick(n.room, 1000 + ACTOR_KEPT_MS - 1);
    assert_int_equal(n.question, last);
    actor_tick(n.room, 1000 + ACTOR_KEPT_MS);
    assert_true(n.question > last);
    actor_tick(n.room, 1000 + 2 * ACTOR_KEPT_MS);
    assert_int_equal(actor_counts(n.room).actors, 1);
    answer_ok(&n);
    assert_int_equal(actor_counts(n.room).actors, 0);
    assert_int_equal(n.ends, 1);
    actor_free(n.room);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_call_is_run_and_answered),
        cmocka_unit_test(test_calls_wait_until_their_node_is_known),
        cmocka_unit_test(test_a_call_that_waits_there_is_cancelled),
        cmocka_unit_test(test_a_call_that_runs_there_is_cancelled),
        cmocka_unit_test(test_a_begun_call_fails_with_its_process),
        cmocka_unit_test(test_a_silent_home_fails_the_wait),
        cmocka_unit_test(test_a_kill_is_confirmed_when_it_can_not_be_lost),
        cmocka_unit_test(test_an_end_is_asked_for_again_before_it_is_forgotten),
        cmocka_unit_test(test_what_makes_no_sense_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
