/* Large values between three daemons' books, with real bulk threads and ports between them. */
#define NODES_STORE (48u << 20)
#include "nodes.h"

#include <signal.h>

#include "base/clock.h"
#include "node/cluster/pulled.h"

enum { LARGE = 5 << 20, CHUNK = PULL_CHUNK };

static net_port_t *ports[NODES];

/* ---- ports, for nothing but bulk data ---- */

static net_verdict_t on_admit(void *context, const net_identity_t *peer) {
    (void)context, (void)peer;
    return NET_WELCOME;
}
static void on_up(void *context, net_line_t *line, const net_identity_t *peer) {
    (void)context, (void)line, (void)peer;
}
static void on_bytes(void *context, net_line_t *line, const uint8_t *bytes, size_t size) {
    (void)context, (void)line, (void)bytes, (void)size;
}
static void on_down(void *context, net_line_t *line, mob_status_t status) {
    (void)context, (void)line, (void)status;
}
static void on_refused(void *context, const char *address, mob_status_t status) {
    (void)context, (void)address, (void)status;
}
static void on_bulk(void *context, net_handover_t *handover) {
    node_pulling_accept(context, handover);
}
static const net_port_ops_t ops = {.admit = on_admit,
                                   .up = on_up,
                                   .bytes = on_bytes,
                                   .down = on_down,
                                   .bulk = on_bulk,
                                   .refused = on_refused};

static int set_up(void **state) {
    begin(state);
    for (int i = 0; i < NODES; i++) {
        node_cluster_t *c = daemons[i].n->cluster;
        c->id[0] = 7;
        c->log_fd = -1;
        net_identity_t self = {.cluster = 7, .incarnation = incarnation_of(i)};
        snprintf(self.version, sizeof self.version, "%s", MOBULA_VERSION);
        assert_int_equal(net_secret_of("a token", 7, &c->secret), MOB_OK);
        assert_int_equal(net_port_open(&daemons[i].n->loop, "127.0.0.1", 0, &c->secret, NULL, &self,
                                       &ops, c, &ports[i]),
                         MOB_OK);
        assert_int_equal(node_pulling_start(c), MOB_OK);
    }
    for (int i = 0; i < NODES; i++)
        for (int k = 0; k < NODES; k++)
            if (i != k)
                node_pulling_peer(daemons[i].n->cluster, incarnation_of(k), "127.0.0.1",
                                  net_port_number(ports[k]));
    return 0;
}

static int tear_down(void **state) {
    for (int i = 0; i < NODES; i++) {
        net_port_close(ports[i]);
        node_pulling_end(daemons[i].n->cluster);
        for (int k = 0; k < 5; k++) uv_run(&daemons[i].n->loop, UV_RUN_NOWAIT);
    }
    return end(state);
}

/* Turns of all daemons: what their threads have said, what they say to each other. */
static void turns(void) {
    for (int i = 0; i < NODES; i++) {
        if (!lives(&daemons[i])) continue;
        uv_run(&daemons[i].n->loop, UV_RUN_NOWAIT);
        node_pulling_settle(daemons[i].n->cluster);
        node_remakes_settle(daemons[i].n);
        round_of(&daemons[i]);
        for (int k = 0; k < NODES; k++)
            if (k != i && lives(&daemons[k]))
                while (deliver(&daemons[i], &daemons[k])) {
                }
    }
}

#define UNTIL(so)                                                                        \
    do {                                                                                 \
        for (uint64_t began = base_clock_mono_ns();                                      \
             !(so) && base_clock_mono_ns() - began < UINT64_C(30000000000); usleep(200)) \
            turns();                                                                     \
        assert_true(so);                                                                 \
    } while (0)

static bool is_away(const daemon_t *d, mob_ref_t ref) { return word_at(d, ref) & STORE_AWAY; }

static void ask(daemon_t *d, mob_ref_t ref, bool waits) {
    wire_message_t m = {
        .restore = {WIRE_RESTORE, .slot = ref.slot, .generation = ref.generation, .waits = waits}};
    assert_true(shm_ring_push(d->client->up, SHM_UP_MESSAGES, &m));
    shm_node_notify(d->n->shared, d->client->number);
    node_inbox_read(d->n);
}

/* What the client hears about the value that it waits for. */
static mob_status_t heard_of(daemon_t *d, mob_ref_t ref) {
    wire_message_t m = {0};
    for (uint64_t began = base_clock_mono_ns();
         base_clock_mono_ns() - began < UINT64_C(30000000000); usleep(200)) {
        turns();
        while ((m = fixture_heard(d->client)).restored.kind != 0)
            if (m.restored.kind == WIRE_RESTORED && m.restored.slot == ref.slot)
                return (mob_status_t)m.restored.status;
    }
    return MOB_ETIMEOUT;
}

/* A value whose bytes differ from place to place. */
static uint8_t byte_of(uint64_t i) { return (uint8_t)(i / 4096 * 31 + i); }

static void fill(daemon_t *d, mob_ref_t ref, uint64_t size) {
    uint8_t *bytes = d->n->arena.base + slot_at(d, ref)->value.large.block;
    for (uint64_t i = 0; i < size; i++) bytes[i] = byte_of(i);
}

static mob_ref_t put_large(daemon_t *d, uint64_t size) {
    mob_ref_t ref = put(d, size);
    fill(d, ref, size);
    return ref;
}

static void is_right(const daemon_t *d, mob_ref_t ref, uint64_t size) {
    assert_true(is_sealed(d, ref));
    assert_false(is_away(d, ref));
    assert_int_equal(error_at(d, ref), MOB_OK);
    assert_int_equal(store_meta_size(slot_at(d, ref)->meta), size);
    const uint8_t *bytes = bytes_at(d, ref);
    for (uint64_t i = 0; i < size; i++)
        if (bytes[i] != byte_of(i)) fail_msg("byte %llu is wrong", (unsigned long long)i);
}

static void get(daemon_t *d, mob_ref_t ref, uint64_t size) {
    ask(d, ref, true);
    assert_int_equal(heard_of(d, ref), MOB_OK);
    is_right(d, ref, size);
}

/* Nothing of pulling is left anywhere. */
static bool is_empty(void) {
    bool empty = true;
    for (int i = 0; i < NODES; i++) {
        const node_pulling_t *p = daemons[i].n->cluster->pulling;
        pull_counts_t c;
        if (!lives(&daemons[i])) continue;
        pull_count(p->pull, &c);
        empty &= p->all.count == 0 && c.wants + c.copies + c.transfers + c.readings == 0;
    }
    return empty;
}

static void all_is_gone(void) {
    UNTIL(is_empty());
    nothing_is_left();
}

/* ---- values without references ---- */

static void comes(uint64_t size) {
    mob_ref_t x = put_large(A, size), p = given(A, B, x);
    assert_true(is_sealed(B, p) && is_away(B, p));
    get(B, p, size);
    drop(B, p);
    drop(A, x);
    all_is_gone();
    assert_false(is_there(A, x));
}

static void a_large_value_comes(void **state) {
    (void)state;
    comes(70000);
    comes(CHUNK - 1);
    comes(CHUNK);
    comes(CHUNK + 1);
    comes(LARGE);
}

static void it_comes_to_two(void **state) {
    (void)state;
    mob_ref_t x = put_large(A, LARGE), p = given(A, B, x), q = given(A, C, x);
    ask(B, p, true);
    ask(C, q, false); /* which only wants it soon */
    UNTIL(!is_away(B, p) && !is_away(C, q));
    is_right(B, p, LARGE);
    is_right(C, q, LARGE);
    drop(A, x);
    UNTIL(is_there(A, x));
    drop(B, p);
    drop(C, q);
    all_is_gone();
    assert_false(is_there(A, x));
}

static void one_that_is_asked_for_twice(void **state) {
    (void)state;
    mob_ref_t x = put_large(A, LARGE), p = given(A, B, x);
    ask(B, p, false);
    ask(B, p, true);
    turns();
    ask(B, p, true);
    assert_int_equal(heard_of(B, p), MOB_OK);
    is_right(B, p, LARGE);
    get(B, p, LARGE); /* it is here */
    drop(B, p);
    drop(A, x);
    all_is_gone();
}

static void a_get_that_is_given_up(void **state) {
    (void)state;
    for (int i = 0; i < 20; i++) {
        mob_ref_t x = put_large(A, LARGE), p = given(A, B, x);
        ask(B, p, true);
        for (int k = 0; k < i; k++) turns();
        drop(B, p);
        drop(A, x);
        all_is_gone();
        while (fixture_heard(B->client).restored.kind != 0) {
        }
    }
}

static void many_come(void **state) {
    (void)state;
    enum { COUNT = 12 }; /* more than B has memory for */
    mob_ref_t x[COUNT], p[COUNT];
    for (int i = 0; i < COUNT; i++) {
        x[i] = put_large(i % 2 ? A : C, LARGE);
        p[i] = given(i % 2 ? A : C, B, x[i]);
    }
    for (int i = 0; i < COUNT; i++) {
        get(B, p[i], LARGE);
        drop(B, p[i]);
        drop(i % 2 ? A : C, x[i]);
    }
    all_is_gone();
}

static void copies_make_room_for_others(void **state) {
    (void)state;
    enum { COUNT = 6 };
    mob_ref_t x[COUNT], p[COUNT], own = put(B, 30 << 20);
    for (int i = 0; i < COUNT; i++) {
        x[i] = put_large(A, LARGE);
        p[i] = given(A, B, x[i]);
    }
    /* B keeps all of these references, but has room for two or three of the values */
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < COUNT; i++) get(B, p[i], LARGE);
    for (int i = 0; i < COUNT; i++) {
        drop(B, p[i]);
        drop(A, x[i]);
    }
    drop(B, own);
    all_is_gone();
}

/* ---- references inside ---- */

static void what_is_inside_comes_too(void **state) {
    (void)state;
    mob_ref_t y = put(A, 8), z = put_large(A, LARGE), w = put(C, 100), at_a = given(C, A, w);
    mob_ref_t inside[] = {y, z, at_a, y}, x = slot_open_by(A);
    seal(A, x, LARGE, inside, 4);
    fill(A, x, LARGE);
    mob_ref_t p = given(A, B, x);
    get(B, p, LARGE);
    assert_int_equal(slot_at(B, p)->value.large.ref_count, 4);
    mob_ref_t list[4];
    memcpy(list, bytes_at(B, p) + store_refs_offset(LARGE), sizeof list);
    for (int i = 0; i < 4; i++) {
        frame_id_t there = node_proxy_id(A->n, inside[i]), here = node_proxy_id(B->n, list[i]);
        assert_true(there.home == here.home && there.number == here.number &&
                    there.generation == here.generation);
        assert_true(is_there(B, list[i]));
    }
    drop(A, x);
    drop(A, y);
    drop(A, z);
    drop(A, at_a);
    drop(C, w);
    for (int i = 0; i < 50; i++) turns();
    for (int i = 0; i < 4; i++) assert_true(is_there(B, list[i])); /* by the value at B */
    get(B, list[1], LARGE);
    drop(B, p);
    all_is_gone();
    assert_false(is_there(A, z));
    assert_false(is_there(C, w));
}

/* ---- values that were made elsewhere ---- */

/* A result of A's that is made at B. */
static mob_ref_t make_at_b(mob_ref_t *ret_proxy) {
    mob_ref_t x = slot_open_by(A);
    frame_id_t id = give(A, B, x);
    settle();
    mob_ref_t p = node_proxy_find(B->n, id);
    seal(B, p, LARGE, NULL, 0);
    fill(B, p, LARGE);
    uint64_t size = node_pulling_size(B->n, p);
    assert_int_equal(size, LARGE);
    assert_int_equal(node_pulling_made(B->n->cluster, id, 1, size), MOB_OK);
    assert_int_equal(node_pulling_found(A->n->cluster, id, 1, size, incarnation_of(1)), MOB_OK);
    node_elsewhere_t what = {
        .pulled_bytes = size, .bytes = LARGE, .format = MOB_FORMAT_PICKLE, .error = MOB_OK};
    assert_int_equal(node_proxy_seal_elsewhere(A->n, x, &what), MOB_OK);
    *ret_proxy = p;
    return x;
}

static void a_result_that_stayed_where_it_was_made(void **state) {
    (void)state;
    mob_ref_t p, x = make_at_b(&p), q = given(A, C, x);
    drop(B, p); /* nobody holds it there, but it is the only copy */
    UNTIL(!is_there(B, p));
    get(C, q, LARGE);
    get(A, x, LARGE);
    mob_ref_t again = given(A, B, x);
    get(B, again, LARGE);
    drop(B, again);
    UNTIL(!is_there(B, again));
    again = given(C, B, q);
    get(B, again, LARGE);
    drop(C, q);
    drop(A, x);
    get(B, again, LARGE);
    drop(B, again);
    all_is_gone();
}

static void one_whose_node_has_died(void **state) {
    (void)state;
    mob_ref_t p, x = make_at_b(&p), q = given(A, C, x);
    for (int i = 0; i < NODES; i++) {
        if (i == 1) continue;
        daemons[i].dead[1] = true;
        assert_int_equal(node_pulling_died(daemons[i].n->cluster, incarnation_of(1)), MOB_OK);
        node_holding_died(daemons[i].n->cluster, incarnation_of(1), 1);
        node_holding_struck(daemons[i].n->cluster, 1);
    }
    ask(C, q, true);
    assert_int_equal(heard_of(C, q), MOB_OK);
    assert_int_equal(error_at(C, q), MOB_ELOST);
    UNTIL(error_at(A, x) == MOB_ELOST);
    drop(C, q);
    drop(A, x);
    UNTIL(is_empty());
}

static void arguments_come_before_their_task_begins(void **state) {
    (void)state;
    mob_ref_t x = put_large(A, LARGE), y = put_large(A, 2 * CHUNK), z = put(B, 100),
              p = given(A, B, x), q = given(A, B, y);
    node_task_t *t = calloc(1, sizeof *t + 4 * sizeof *t->refs);
    mob_ref_t deps[] = {p, q, z, p};
    *t = (node_task_t){.job = JOB(B->n), .num_deps = 4, .kind = MOB_TASK, .queued = true};
    memcpy(t->refs, deps, sizeof deps);
    node_pulling_arguments(t);
    assert_int_equal(t->missing, 3); /* one is named twice */
    assert_int_equal(B->n->missing_arguments, 1);
    UNTIL(t->missing == 0);
    assert_int_equal(B->n->missing_arguments, 0);
    is_right(B, p, LARGE);
    is_right(B, q, 2 * CHUNK);
    node_pulling_arguments(t);
    assert_int_equal(t->missing, 0);
    free(t);
    drop(A, x);
    drop(A, y);
    drop(B, p);
    drop(B, q);
    drop(B, z);
    all_is_gone();
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(a_large_value_comes),
        TEST(it_comes_to_two),
        TEST(one_that_is_asked_for_twice),
        TEST(a_get_that_is_given_up),
        TEST(many_come),
        TEST(copies_make_room_for_others),
        TEST(what_is_inside_comes_too),
        TEST(a_result_that_stayed_where_it_was_made),
        TEST(one_whose_node_has_died),
        TEST(arguments_come_before_their_task_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
