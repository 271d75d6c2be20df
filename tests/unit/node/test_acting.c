/* Messages about actors, whatever is in them: nothing is believed that makes no sense, and what
 * other nodes say of actors that are not theirs changes nothing. */
#include "nodes.h"

#include "actor/actor.h"
#include "actor/message.h"
#include "base/bytes.h"
#include "frame/id.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_name.h"

#include "../random.h"

enum { ROUNDS = 40000, LETTER_MAX = 400 };

static int begin_acting(void **state) {
    begin(state);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(node_acting_start(daemons[i].n->cluster), MOB_OK);
    return 0;
}

static int end_acting(void **state) {
    for (int i = 0; i < NODES; i++) {
        node_peer_t *others = daemons[i].n->cluster->acting.others;
        node_acting_end(daemons[i].n->cluster);
        node_peer_free(others);
        uv_run(&daemons[i].n->loop, UV_RUN_NOWAIT);
    }
    return end(state);
}

static actor_counts_t room_of(const daemon_t *d) {
    return actor_counts(d->n->cluster->acting.room);
}

static size_t letter_write(uint8_t *bytes, uint8_t kind, frame_id_t id, uint64_t epoch,
                           size_t freight, size_t rest) {
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, 0, 4);
    base_put_number(&w, freight, 4);
    for (size_t i = 0; i < freight; i++) base_put_number(&w, next_random(), 1);
    base_put_number(&w, kind, 1);
    frame_id_put(&w, id);
    base_put_number(&w, epoch, 8);
    for (size_t i = 0; i < rest; i++) base_put_number(&w, next_random() % 3, 1);
    return w.size;
}

static mob_status_t come(daemon_t *from, daemon_t *to, const uint8_t *bytes, size_t size) {
    uint8_t *copy = malloc(size + 1); /* of its exact size, for the sanitizers */
    memcpy(copy, bytes, size);
    to->n->cluster->sequence = 1 + next_random() % 1000;
    mob_status_t status = node_acting_receive(to->n->cluster, from->n->incarnation, copy, size);
    to->n->cluster->sequence = 0;
    free(copy);
    node_acting_settle(to->n->cluster);
    return status;
}

static void test_any_bytes(void **state) {
    (void)state;
    uint8_t bytes[LETTER_MAX];
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = next_random() % LETTER_MAX;
        for (size_t k = 0; k < size; k++) bytes[k] = (uint8_t)(next_random() % 4);
        (void)come(B, A, bytes, size);
    }
    assert_int_equal(room_of(A).actors, 0);
    assert_int_equal(room_of(A).seats, 0);
}

static void test_any_words_about_any_actor(void **state) {
    (void)state;
    uint8_t bytes[LETTER_MAX];
    static const uint8_t kinds[] = {MESSAGE_MADE,
                                    MESSAGE_REFUSED,
                                    MESSAGE_ENDED,
                                    MESSAGE_OVER,
                                    MESSAGE_END,
                                    MESSAGE_LOOK,
                                    MESSAGE_UNLOOK,
                                    MESSAGE_ALIVE,
                                    MESSAGE_DEAD,
                                    MESSAGE_KILL,
                                    MESSAGE_KILLED,
                                    MESSAGE_CALL,
                                    MESSAGE_ANSWER,
                                    NODE_NAME_ASK,
                                    NODE_NAME_TOLD,
                                    0,
                                    15,
                                    255};
    mob_ref_t own = put(A, 8), foreign = given(B, A, put(B, 8));
    for (int i = 0; i < ROUNDS; i++) {
        mob_ref_t ref = next_random() % 2 ? own : foreign;
        frame_id_t id = node_proxy_id(A->n, ref);
        if (next_random() % 8 == 0) id.number ^= next_random() % 64;
        size_t size = letter_write(bytes, kinds[next_random() % sizeof kinds], id,
                                   next_random() % 3, next_random() % 20, next_random() % 40);
        if (next_random() % 4 == 0) size = next_random() % (size + 1);
        (void)come(B, A, bytes, size);
        assert_true(is_there(A, own) && is_there(A, foreign));
    }
    assert_int_equal(room_of(A).actors, 0);
    assert_int_equal(room_of(A).seats, 0);
    assert_int_equal(room_of(A).calls, 0);
}

/* Whoever asks for an actor that is not there is told so, once all rings were read. */
static void test_an_actor_that_is_not_there(void **state) {
    (void)state;
    mob_ref_t pending = slot_open_by(A);
    uint8_t bytes[LETTER_MAX];
    size_t size = letter_write(bytes, MESSAGE_LOOK, node_proxy_id(A->n, pending), 0, 0, 0);
    assert_int_equal(come(B, A, bytes, size), MOB_OK);
    assert_null(A->out[place_of(B)]);
    A->n->round++;
    node_acting_settle(A->n->cluster);
    A->n->round++;
    node_acting_settle(A->n->cluster);
    const letter_t *told = A->out[place_of(B)];
    actor_message_t m;
    assert_non_null(told);
    assert_int_equal(told->kind, POST_ACTOR);
    assert_true(actor_message_peek(told->bytes + 8, told->size - 8, &m));
    assert_int_equal(m.kind, MESSAGE_DEAD);
}

int main(void) {
#define ACTING_TEST(name) cmocka_unit_test_setup_teardown(name, begin_acting, end_acting)
    const struct CMUnitTest tests[] = {
        ACTING_TEST(test_any_bytes),
        ACTING_TEST(test_any_words_about_any_actor),
        ACTING_TEST(test_an_actor_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
