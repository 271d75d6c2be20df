/* Which nodes hold what: objects go when nobody anywhere holds them, and not before. */
#include "nodes.h"

#include "../random.h"

enum { STEPS = 20000, THINGS = 8 };

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

/* Frames, drops and values in any order: whoever is given an object finds it, and in the end
 * nothing is left. */
typedef struct {
    frame_id_t id;
    mob_ref_t ref; /* at home */
    bool sealed;
    bool held[NODES]; /* by the process there */
    int under_way;    /* in frames */
} thing_t;

static thing_t things[THINGS];

static void thing_came(int place, frame_id_t id) {
    for (int i = 0; i < THINGS; i++) {
        if (things[i].id.number != id.number || things[i].id.home != id.home ||
            things[i].id.generation != id.generation)
            continue;
        things[i].held[place] = true;
        things[i].under_way--;
    }
}

static daemon_t *home_of(const thing_t *t) { return &daemons[index_of(t->id.home)]; }

static bool is_needed(const thing_t *t) {
    return t->held[0] || t->held[1] || t->held[2] || t->under_way > 0;
}

static mob_ref_t ref_at(const thing_t *t, int at) { return node_proxy_find(daemons[at].n, t->id); }

static void things_check(void) {
    for (int i = 0; i < THINGS; i++) {
        if (!is_needed(&things[i])) continue;
        if (lives(home_of(&things[i]))) assert_true(is_there(home_of(&things[i]), things[i].ref));
        for (int k = 0; k < NODES; k++)
            if (things[i].held[k] && lives(&daemons[k]))
                assert_true(is_there(&daemons[k], ref_at(&things[i], k)));
    }
}

static void thing_seal(thing_t *t) {
    if (t->ref.slot == 0 || t->sealed || !lives(home_of(t))) return;
    t->sealed = true;
    seal(home_of(t), t->ref, next_random() % 100, NULL, 0);
}

/* Its home's process holds it. */
static void thing_make(thing_t *t, int home) {
    thing_seal(t); /* a slot that stays PENDING is never freed */
    *t = (thing_t){.ref = slot_open_by(&daemons[home])};
    t->id = node_proxy_id(daemons[home].n, t->ref);
    t->held[home] = true;
}

static void thing_drop(thing_t *t, int at) {
    if (t->held[at]) drop(&daemons[at], ref_at(t, at));
    t->held[at] = false;
}

static void thing_step(thing_t *t) {
    int from = (int)(next_random() % NODES), to = (int)(next_random() % NODES);
    if (!lives(&daemons[from]) || !lives(&daemons[to])) return;
    switch (next_random() % 4) {
    case 0:
    case 1:
        if (from == to || !t->held[from]) return;
        (void)give(&daemons[from], &daemons[to], ref_at(t, from));
        t->under_way++;
        if (next_random() % 2) thing_drop(t, from);
        return;
    case 2:
        thing_drop(t, from);
        return;
    default:
        thing_seal(t);
    }
}

static void things_begin(void) {
    memset(things, 0, sizeof things);
    for (int k = 0; k < NODES; k++) daemons[k].came = thing_came;
}

static void things_run(int steps, bool makes) {
    for (int i = 0; i < steps; i++) {
        thing_t *t = &things[next_random() % THINGS];
        int k = (int)(next_random() % NODES), to = (int)(next_random() % NODES);
        if (!lives(&daemons[k]) || !lives(&daemons[to])) continue;
        if (makes && !is_needed(t)) thing_make(t, k);
        thing_step(t);
        if (next_random() % 2) round_of(&daemons[k]);
        if (to != k) (void)deliver(&daemons[k], &daemons[to]);
        things_check();
    }
}

static void things_end(void) {
    settle();
    for (int i = 0; i < THINGS; i++) {
        thing_seal(&things[i]);
        for (int k = 0; k < NODES; k++)
            if (lives(&daemons[k])) thing_drop(&things[i], k);
    }
}

static void test_any_order(void **state) {
    (void)state;
    things_begin();
    things_run(STEPS / 2, true);
    things_run(STEPS / 2, false);
    things_end();
    nothing_is_left();
}

/* What was on its way from or to the dead never comes. */
static void letters_lose(daemon_t *from, daemon_t *to) {
    for (letter_t *l = from->out[place_of(to)], *next; l != NULL; l = next) {
        frame_id_t id;
        next = l->next;
        if (l->kind == POST_PLACE) memcpy(&id, l->bytes, sizeof id);
        for (int i = 0; l->kind == POST_PLACE && i < THINGS; i++)
            things[i].under_way -= things[i].id.home == id.home &&
                                   things[i].id.number == id.number &&
                                   things[i].id.generation == id.generation;
        free(l);
    }
    from->out[place_of(to)] = NULL;
}

static void test_a_death_in_any_order(void **state) {
    for (int turn = 0; turn < 20; turn++) {
        if (turn > 0) {
            end(state);
            begin(state);
        }
        things_begin();
        things_run(200 + (int)(next_random() % 400), true);
        for (int k = 0; k < NODES; k += 2) {
            letters_lose(B, &daemons[k]);
            letters_lose(&daemons[k], B);
        }
        for (int i = 0; i < THINGS; i++) things[i].held[1] = false;
        die(B, 1);
        assert_int_equal(A->closed, 1);
        assert_int_equal(C->closed, 1);
        things_run(200, true);
        settle();
        for (int k = 0; k < NODES; k += 2) node_holding_struck(daemons[k].n->cluster, 1);
        things_run(200, true);
        things_end();
        nothing_is_left();
    }
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
        HOLDING_TEST(test_a_death_in_any_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
