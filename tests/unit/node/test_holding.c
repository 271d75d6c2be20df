/* Which nodes hold what: objects go when nobody anywhere holds them, and not before. */
#include "nodes.h"

#include "../random.h"

enum { STEPS = 4000 };

static void test_what_is_inside_a_value_comes_with_it(void **state) {
    (void)state;
    mob_ref_t inside[2] = {put(A, 8), put(C, 100)};
    mob_ref_t foreign = given(C, A, inside[1]);
    mob_ref_t x = slot_open_by(A);
    seal(A, x, 50, (mob_ref_t[]){inside[0], foreign}, 2);
    mob_ref_t p = given(A, B, x);
    drop(A, inside[0]);
    drop(A, foreign);
    drop(C, inside[1]);
    drop(A, x);
    settle();
    const node_object_t *o = node_object_known(B->n, p);
    assert_int_equal(o->contents.count, 2);
    has_value(B, o->contents.items[0], 8);
    has_value(B, o->contents.items[1], 100);
    assert_true(is_there(A, x));
    assert_true(is_there(A, inside[0]));
    assert_true(is_there(C, inside[1]));
    drop(B, p);
    nothing_is_left();
    assert_false(is_there(A, x));
    assert_false(is_there(A, inside[0]));
    assert_false(is_there(C, inside[1]));
}

static void test_a_reference_is_passed_on(void **state) {
    (void)state;
    mob_ref_t x = put(A, 8), p = given(A, B, x);
    frame_id_t id = give(B, C, p);
    drop(B, p);
    drop(A, x);
    settle();
    mob_ref_t q = node_proxy_find(C->n, id);
    has_value(C, q, 8);
    assert_true(is_there(A, x));
    assert_false(is_there(B, p));
    drop(C, q);
    nothing_is_left();
    assert_false(is_there(A, x));
}

static void test_a_reference_comes_home(void **state) {
    (void)state;
    mob_ref_t x = put(A, 8), p = given(A, B, x);
    drop(A, x);
    settle();
    assert_true(node_object_known(A->n, x)->released);
    mob_ref_t back = given(B, A, p);
    assert_int_equal(back.slot, x.slot);
    assert_false(node_object_known(A->n, x)->released);
    drop(B, p);
    settle();
    assert_true(is_there(A, x));
    /* once more, but B drops it while it is on its way */
    p = given(A, B, x);
    drop(A, x);
    settle();
    (void)give(B, A, p);
    drop(B, p);
    settle();
    assert_true(is_there(A, x));
    drop(A, x);
    nothing_is_left();
    assert_false(is_there(A, x));
}

static void die(daemon_t *d, uint64_t number) {
    for (int i = 0; i < NODES; i++) daemons[i].dead[place_of(d)] = true;
    for (int i = 0; i < NODES; i++)
        if (&daemons[i] != d) node_holding_died(daemons[i].n->cluster, d->n->incarnation, number);
    settle();
}

static void test_the_death_of_a_home(void **state) {
    (void)state;
    mob_ref_t x = put(B, 8), y = slot_open_by(B), p = given(B, A, x), q = given(B, A, y);
    mob_ref_t z = put(A, 8);
    (void)given(A, B, z);
    drop(A, z);
    die(B, 1);
    has_value(A, p, 8);
    assert_true(is_sealed(A, q));
    assert_int_equal(error_at(A, q), MOB_EOWNER);
    assert_int_equal(A->closed, 1);
    /* named again by a third node: the copy that is there stays good */
    mob_ref_t r = given(A, C, p);
    assert_int_equal(error_at(C, r), MOB_EOWNER);
    assert_true(is_there(A, z)); /* B held it, and may have given it on */
    for (int i = 0; i < NODES; i += 2) node_holding_struck(daemons[i].n->cluster, 1);
    settle();
    assert_false(is_there(A, z));
    drop(A, p);
    drop(A, q);
    drop(C, r);
    settle();
    assert_int_equal(A->n->cluster->proxies.by_id.count, 0);
    assert_int_equal(C->n->cluster->proxies.by_id.count, 0);
}

static void test_a_function_that_is_only_loaded(void **state) {
    (void)state;
    mob_ref_t f = put(A, 100), p = given(A, B, f);
    node_object_t *o = node_object_known(B->n, p);
    node_client_t *worker = fixture_client_new(B->n, WIRE_WORKER);
    node_object_hold(B->n, o, worker->number, true);
    drop(B, p);
    settle();
    assert_int_equal(fixture_heard(worker).kind, 0); /* it may keep it */
    assert_true(is_there(B, p));
    drop(A, f);
    settle();
    assert_int_equal(fixture_heard(worker).kind, WIRE_FORGET);
    assert_true(is_there(A, f));
    fixture_say(worker, WIRE_DROP, p.slot, p.generation);
    nothing_is_left();
    assert_false(is_there(A, f));
}

static void test_a_function_that_is_used_when_it_is_to_be_forgotten(void **state) {
    (void)state;
    mob_ref_t f = put(A, 100), p = given(A, B, f);
    node_object_t *o = node_object_known(B->n, p);
    node_client_t *worker = fixture_client_new(B->n, WIRE_WORKER);
    node_object_hold(B->n, o, worker->number, true);
    drop(B, p);
    settle();
    node_object_use(o); /* by a task that the worker submits */
    drop(A, f);
    settle();
    assert_int_equal(fixture_heard(worker).kind, 0);
    assert_true(is_there(A, f));
    node_object_unuse_ref(B->n, p);
    settle();
    assert_int_equal(fixture_heard(worker).kind, WIRE_FORGET);
    fixture_say(worker, WIRE_DROP, p.slot, p.generation);
    nothing_is_left();
}

/* Frames, drops and values in any order: whoever holds an object finds it, and in the end nothing
 * is left. `held`: how often each daemon's process holds each object, one reference at a time. */
typedef struct {
    int home;
    mob_ref_t ref; /* at home */
    bool sealed;
    bool held[NODES];
} thing_t;

static mob_ref_t ref_at(const thing_t *t, int at) {
    return node_proxy_find(daemons[at].n, node_proxy_id(daemons[t->home].n, t->ref));
}

static void things_check(const thing_t *things, int count) {
    for (int i = 0; i < count; i++)
        for (int k = 0; k < NODES; k++) {
            if (!things[i].held[k]) continue;
            assert_true(is_there(&daemons[things[i].home], things[i].ref));
            assert_true(is_there(&daemons[k], ref_at(&things[i], k)));
        }
}

static void thing_step(thing_t *t) {
    int k = (int)(next_random() % NODES), to = (int)(next_random() % NODES);
    daemon_t *d = &daemons[k];
    switch (next_random() % 4) {
    case 0: /* the test's frames are held by the receiver: it is told when that has come */
    case 1:
        if (k == to || !t->held[k] || t->held[to]) return;
        (void)give(d, &daemons[to], ref_at(t, k));
        if (next_random() % 2) {
            drop(d, ref_at(t, k));
            t->held[k] = false;
        }
        while (deliver(d, &daemons[to])) {
        }
        t->held[to] = true;
        return;
    case 2:
        if (!t->held[k]) return;
        drop(d, ref_at(t, k));
        t->held[k] = false;
        return;
    default:
        if (t->sealed) return;
        t->sealed = true;
        seal(&daemons[t->home], t->ref, next_random() % 100, NULL, 0);
    }
}

static void test_any_order(void **state) {
    (void)state;
    thing_t things[8] = {0};
    int count = sizeof things / sizeof *things;
    for (int i = 0; i < STEPS; i++) {
        thing_t *t = &things[next_random() % 8];
        bool held = t->held[0] || t->held[1] || t->held[2];
        if (!held && daemons[i % NODES].next_slot < 4000) {
            if (t->ref.slot != 0 && !t->sealed) seal(&daemons[t->home], t->ref, 8, NULL, 0);
            *t = (thing_t){.home = i % NODES, .ref = slot_open_by(&daemons[i % NODES])};
            t->held[t->home] = true;
        }
        thing_step(t);
        for (int k = 0; k < NODES; k++) {
            if (next_random() % 2) round_of(&daemons[k]);
            int to = (int)(next_random() % NODES);
            if (to != k && next_random() % 2) (void)deliver(&daemons[k], &daemons[to]);
        }
        things_check(things, count);
    }
    for (int i = 0; i < count; i++) {
        if (things[i].ref.slot != 0 && !things[i].sealed)
            seal(&daemons[things[i].home], things[i].ref, 8, NULL, 0);
        for (int k = 0; k < NODES; k++)
            if (things[i].held[k]) drop(&daemons[k], ref_at(&things[i], k));
    }
    nothing_is_left();
}

int main(void) {
#define HOLDING_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        HOLDING_TEST(test_what_is_inside_a_value_comes_with_it),
        HOLDING_TEST(test_a_reference_is_passed_on),
        HOLDING_TEST(test_a_reference_comes_home),
        HOLDING_TEST(test_the_death_of_a_home),
        HOLDING_TEST(test_a_function_that_is_only_loaded),
        HOLDING_TEST(test_a_function_that_is_used_when_it_is_to_be_forgotten),
        HOLDING_TEST(test_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
