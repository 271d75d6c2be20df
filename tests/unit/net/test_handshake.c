/* The handshake: who knows the token gets through, and nobody else, whatever is sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "net/handshake.h"

enum { MESSAGE_MAX = 256 };

typedef struct {
    net_handshake_t dialler, acceptor;
    uint8_t bytes[MESSAGE_MAX]; /* the newest message */
} pair_t;

static const net_identity_t A = {.cluster = 7,
                                 .incarnation = 11,
                                 .purpose = NET_FRAMES,
                                 .python_major = 3,
                                 .python_minor = 11,
                                 .port = 6379,
                                 .version = "0.1.0"};

static void begin(pair_t *p, const char *token_a, const char *token_b) {
    net_secret_t a, b;
    uint8_t nonce[NET_NONCE];
    net_identity_t other = A;
    other.incarnation = 22;
    assert_int_equal(net_secret_of(token_a, strlen(token_a), &a), MOB_OK);
    assert_int_equal(net_secret_of(token_b, strlen(token_b), &b), MOB_OK);
    net_secret_random(nonce, sizeof nonce);
    net_handshake_init(&p->dialler, true, &a, &A, nonce);
    net_secret_random(nonce, sizeof nonce);
    net_handshake_init(&p->acceptor, false, &b, &other, nonce);
}

/* The newest message of one side; its size. */
static size_t say(pair_t *p, net_handshake_t *from) {
    size_t size;
    const uint8_t *bytes = net_handshake_out(from, &size);
    assert_true(size <= MESSAGE_MAX);
    memcpy(p->bytes, bytes, size);
    return size;
}

static mob_status_t pass(pair_t *p, net_handshake_t *from, net_handshake_t *to) {
    assert_int_equal(say(p, from), net_handshake_needs(to));
    return net_handshake_take(to, p->bytes);
}

static void up_to_decide(pair_t *p) {
    begin(p, "a token of ours", "a token of ours");
    assert_int_equal(pass(p, &p->dialler, &p->acceptor), MOB_OK);
    assert_int_equal(pass(p, &p->acceptor, &p->dialler), MOB_OK);
    assert_int_equal(pass(p, &p->dialler, &p->acceptor), MOB_OK);
    assert_int_equal(p->acceptor.state, NET_STATE_DECIDE);
}

static void both_know_each_other(void **state) {
    (void)state;
    pair_t p;
    up_to_decide(&p);
    assert_int_equal(p.acceptor.peer.incarnation, 11);
    assert_int_equal(p.acceptor.peer.port, 6379);
    assert_string_equal(p.acceptor.peer.version, "0.1.0");
    assert_int_equal(net_handshake_answer(&p.acceptor, NET_WELCOME), MOB_OK);
    assert_int_equal(pass(&p, &p.acceptor, &p.dialler), MOB_OK);
    assert_int_equal(p.dialler.state, NET_STATE_DONE);
    assert_int_equal(p.acceptor.state, NET_STATE_DONE);
    assert_int_equal(p.dialler.peer.incarnation, 22);
    assert_memory_equal(p.dialler.keys, p.acceptor.keys, sizeof p.dialler.keys);
    assert_memory_not_equal(p.dialler.keys[0], p.dialler.keys[1], NET_KEY);
}

static void another_token_is_told_at_once(void **state) {
    (void)state;
    pair_t p;
    begin(&p, "a token of ours", "a token of theirs");
    assert_int_equal(pass(&p, &p.dialler, &p.acceptor), MOB_OK);
    assert_int_equal(pass(&p, &p.acceptor, &p.dialler), MOB_OK);
    assert_int_equal(pass(&p, &p.dialler, &p.acceptor), MOB_EPERM);
    assert_int_equal(pass(&p, &p.acceptor, &p.dialler), MOB_EPERM);
    assert_non_null(strstr(mob_last_error(), "token"));
    /* nothing that the secret made was said to one who does not know it */
    for (size_t i = 1; i < 132; i++) assert_int_equal(p.bytes[i], 0);
}

static void a_token_that_begins_alike_is_another(void **state) {
    (void)state;
    pair_t p;
    begin(&p, "a token of ours", "a token of our");
    pass(&p, &p.dialler, &p.acceptor);
    pass(&p, &p.acceptor, &p.dialler);
    assert_int_equal(pass(&p, &p.dialler, &p.acceptor), MOB_EPERM);
}

static void verdicts_are_told_with_words(void **state) {
    (void)state;
    static const char *const words[NET_VERDICTS] = {
        [NET_WRONG_CLUSTER] = "another cluster",
        [NET_WRONG_VERSION] = "Python 3.11",
        [NET_WRONG_NODE] = "another node",
        [NET_DEAD] = "declared dead",
        [NET_BUSY] = "no room",
    };
    for (int verdict = NET_WRONG_CLUSTER; verdict < NET_VERDICTS; verdict++) {
        pair_t p;
        up_to_decide(&p);
        assert_int_equal(net_handshake_answer(&p.acceptor, (net_verdict_t)verdict), MOB_OK);
        assert_int_equal(p.acceptor.state, NET_STATE_FAILED);
        assert_int_equal(pass(&p, &p.acceptor, &p.dialler), MOB_EINVAL);
        assert_non_null(strstr(mob_last_error(), words[verdict]));
    }
}

static void a_changed_verdict_is_found(void **state) {
    (void)state;
    pair_t p;
    up_to_decide(&p);
    net_handshake_answer(&p.acceptor, NET_DEAD);
    say(&p, &p.acceptor);
    p.bytes[0] = NET_WELCOME;
    assert_int_equal(net_handshake_take(&p.dialler, p.bytes), MOB_EPERM);
}

static void a_proof_of_another_connection_is_worth_nothing(void **state) {
    (void)state;
    pair_t p, other;
    uint8_t kept[MESSAGE_MAX];
    up_to_decide(&p);
    memcpy(kept, p.bytes, sizeof kept); /* what the dialler proved */
    begin(&other, "a token of ours", "a token of ours");
    pass(&other, &other.dialler, &other.acceptor);
    pass(&other, &other.acceptor, &other.dialler);
    assert_int_equal(net_handshake_take(&other.acceptor, kept), MOB_EPERM);
}

static void an_echo_is_worth_nothing(void **state) {
    (void)state;
    pair_t p;
    begin(&p, "a token of ours", "a token of ours");
    say(&p, &p.dialler);
    assert_int_equal(net_handshake_take(&p.dialler, p.bytes), MOB_OK); /* its own greeting */
    uint8_t answer[MESSAGE_MAX] = {0};
    say(&p, &p.dialler);
    memcpy(answer + 4, p.bytes, MESSAGE_MAX - 4); /* and its own claim */
    assert_int_equal(net_handshake_take(&p.dialler, answer), MOB_EPERM);
}

static void strangers_are_told_nothing(void **state) {
    (void)state;
    pair_t p;
    begin(&p, "a token of ours", "a token of ours");
    uint8_t request[NET_GREETING] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    assert_int_equal(net_handshake_take(&p.acceptor, request), MOB_EPROTO);
    assert_int_equal(say(&p, &p.acceptor), 0);
    assert_int_equal(net_handshake_needs(&p.acceptor), 0);
}

static void another_version_is_named(void **state) {
    (void)state;
    pair_t p;
    begin(&p, "a token of ours", "a token of ours");
    say(&p, &p.dialler);
    p.bytes[8] = 99;
    assert_int_equal(net_handshake_take(&p.acceptor, p.bytes), MOB_EPROTO);
    assert_non_null(strstr(mob_last_error(), "version 99"));
    say(&p, &p.acceptor); /* ours, so that the other side can say the same */
    p.bytes[8] = 98;
    assert_int_equal(net_handshake_take(&p.dialler, p.bytes), MOB_EPROTO);
    assert_non_null(strstr(mob_last_error(), "version 98"));
}

/* One changed bit anywhere, in any message, and nobody gets through. */
static void every_changed_bit_is_found(void **state) {
    (void)state;
    base_random_t random = {1};
    for (int round = 0; round < 2000; round++) {
        pair_t p;
        begin(&p, "a token of ours", "a token of ours");
        net_handshake_t *sides[2] = {&p.dialler, &p.acceptor};
        int changed = (int)base_random_below(&random, 4);
        for (int i = 0; i < 4; i++) {
            net_handshake_t *from = sides[i % 2], *to = sides[1 - i % 2];
            size_t size = say(&p, from);
            if (size != net_handshake_needs(to) || size == 0) break;
            if (i == changed)
                p.bytes[base_random_below(&random, size)] ^= 1u << base_random_below(&random, 8);
            if (net_handshake_take(to, p.bytes) != MOB_OK) break;
            if (to->state == NET_STATE_DECIDE) net_handshake_answer(to, NET_WELCOME);
        }
        assert_false(p.dialler.state == NET_STATE_DONE && p.acceptor.state == NET_STATE_DONE);
        if (changed < 3) assert_int_not_equal(p.acceptor.state, NET_STATE_DONE);
        assert_int_not_equal(p.dialler.state, NET_STATE_DONE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_know_each_other),
        cmocka_unit_test(another_token_is_told_at_once),
        cmocka_unit_test(a_token_that_begins_alike_is_another),
        cmocka_unit_test(verdicts_are_told_with_words),
        cmocka_unit_test(a_changed_verdict_is_found),
        cmocka_unit_test(a_proof_of_another_connection_is_worth_nothing),
        cmocka_unit_test(an_echo_is_worth_nothing),
        cmocka_unit_test(strangers_are_told_nothing),
        cmocka_unit_test(another_version_is_named),
        cmocka_unit_test(every_changed_bit_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
