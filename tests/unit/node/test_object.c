/* Who holds what: holders, uses, contents, zero; and clients that say or write what is not so. */
#include "fixture.h"

static node_t *n;
static node_client_t *owner, *other;
static uint32_t next_slot;
static uint64_t extent, next_block;

static int setup(void **state) {
    (void)state;
    n = fixture_node_new(64 * SHM_GRANULE);
    owner = fixture_client_new(n, WIRE_WORKER);
    other = fixture_client_new(n, WIRE_WORKER);
    node_grant_slots(owner, STORE_SLOT_BLOCK);
    next_slot = fixture_heard(owner).grant.first;
    node_extent_ask(owner, 16 * SHM_GRANULE, 16 * SHM_GRANULE, false);
    extent = fixture_heard(owner).extent.offset;
    next_block = extent + 64;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    fixture_node_free(n);
    return 0;
}

static store_slot_t *slot_of(mob_ref_t ref) { return &n->slots[ref.slot]; }
static uint64_t word_of(mob_ref_t ref) { return atomic_load(&slot_of(ref)->word); }

/* An escaped value of the owner's, in a block, with these references inside. */
static mob_ref_t value_put(const mob_ref_t *inside, uint32_t count) {
    mob_ref_t ref = {.slot = next_slot++};
    ref.generation = store_slot_open(&n->slots[ref.slot]);
    uint64_t data = next_block;
    next_block += 4096;
    shm_block_t *block = (shm_block_t *)(n->arena.base + data - sizeof(shm_block_t));
    block->back = (uint32_t)(data / SHM_GRANULE - extent / SHM_GRANULE);
    atomic_store(&block->units, 64);
    atomic_store(&block->word, shm_block_used(shm_tag(false, ref.slot, ref.generation)));
    if (count > 0)
        memcpy(n->arena.base + data + store_refs_offset(20), inside, count * sizeof *inside);
    slot_of(ref)->value.large.block = data;
    slot_of(ref)->value.large.ref_count = count;
    slot_of(ref)->meta = store_meta(20, MOB_FORMAT_PICKLE, MOB_OK, false);
    store_slot_seal(slot_of(ref), true);
    return ref;
}

static mob_ref_t *contents_of(mob_ref_t ref) {
    return (mob_ref_t *)(n->arena.base + slot_of(ref)->value.large.block + store_refs_offset(20));
}

static bool block_is_free(uint64_t data) {
    return atomic_load(&((shm_block_t *)(n->arena.base + data - sizeof(shm_block_t)))->word) == 0;
}

static void say(node_client_t *c, uint32_t kind, mob_ref_t ref) {
    fixture_say(c, kind, ref.slot, ref.generation);
}

static void test_the_owner_holds_without_saying_so(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0);
    uint64_t block = slot_of(ref)->value.large.block;
    node_object_t *o = node_object_find(n, ref);
    assert_non_null(o);
    assert_ptr_equal(node_object_find(n, ref), o);
    assert_int_equal(o->holders.count, 1);
    assert_int_equal(owner->held, 1);
    say(owner, WIRE_DROP, ref);
    assert_int_equal(owner->held, 0);
    /* not before all rings were read once more */
    assert_int_equal(word_of(ref) & STORE_STATE, STORE_SEALED);
    fixture_settle(n);
    assert_int_equal(word_of(ref), STORE_FREE);
    assert_true(block_is_free(block));
    assert_null(n->objects[ref.slot]);
}

static void test_the_last_of_several_frees(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0);
    say(other, WIRE_HOLD, ref);
    say(other, WIRE_HOLD, ref); /* counted once a process */
    say(owner, WIRE_DROP, ref);
    fixture_settle(n);
    assert_int_equal(word_of(ref) & STORE_STATE, STORE_SEALED);
    say(other, WIRE_DROP, ref);
    fixture_settle(n);
    assert_int_equal(word_of(ref), STORE_FREE);
}

static void test_a_hold_that_comes_at_zero_saves_it(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0);
    assert_non_null(node_object_find(n, ref));
    say(owner, WIRE_DROP, ref);
    assert_int_equal(n->zero.count, 1);
    say(other, WIRE_HOLD, ref);
    fixture_settle(n);
    assert_int_equal(word_of(ref) & STORE_STATE, STORE_SEALED);
    say(other, WIRE_DROP, ref);
    fixture_settle(n);
    assert_int_equal(word_of(ref), STORE_FREE);
}

/* Its task was in a queue, so nothing ties the worker's word that it keeps the function to what
 * others say. */
static void test_a_function_that_is_kept_after_the_others_dropped_it(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0);
    node_object_t *o = node_object_find(n, ref);
    node_client_t *third = fixture_client_new(n, WIRE_WORKER);
    say(owner, WIRE_DROP, ref);
    node_object_hold(n, o, other->number, true);
    wire_message_t heard = fixture_heard(other);
    assert_int_equal(heard.kind, WIRE_FORGET);
    assert_int_equal(heard.object.slot, ref.slot);
    node_object_hold(n, o, third->number, true); /* and one more, later */
    assert_int_equal(fixture_heard(third).kind, WIRE_FORGET);
    say(other, WIRE_DROP, ref);
    say(third, WIRE_DROP, ref);
    fixture_settle(n);
    assert_int_equal(word_of(ref), STORE_FREE);
}

static void test_uses_hold_too(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0);
    node_object_t *o = node_object_find(n, ref);
    node_object_use(o);
    node_object_use(o);
    say(owner, WIRE_DROP, ref);
    fixture_settle(n);
    node_object_unuse_ref(n, ref);
    fixture_settle(n);
    assert_ptr_equal(n->objects[ref.slot], o);
    node_object_unuse_ref(n, ref);
    fixture_settle(n);
    assert_int_equal(word_of(ref), STORE_FREE);
    node_object_unuse_ref(n, ref); /* gone: nothing happens */
    node_object_unuse_ref(n, (mob_ref_t){.slot = STORE_MAX_SLOTS});
}

static void test_a_container_holds_its_contents(void **state) {
    (void)state;
    mob_ref_t inside[2] = {value_put(NULL, 0), value_put(NULL, 0)},
              container = value_put(inside, 2);
    say(owner, WIRE_ESCAPE, container);
    for (int i = 0; i < 2; i++) say(owner, WIRE_DROP, inside[i]);
    fixture_settle(n);
    say(other, WIRE_HOLD_CONTENTS, container);
    say(owner, WIRE_DROP, container);
    fixture_settle(n);
    assert_int_equal(word_of(container), STORE_FREE);
    for (int i = 0; i < 2; i++) assert_int_equal(word_of(inside[i]) & STORE_STATE, STORE_SEALED);
    say(other, WIRE_DROP, inside[0]);
    fixture_settle(n);
    assert_int_equal(word_of(inside[0]), STORE_FREE);
    assert_int_equal(word_of(inside[1]) & STORE_STATE, STORE_SEALED);
}

static void test_chains_of_containers_fall_together(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0), all[20];
    for (int i = 0; i < 20; i++) {
        mob_ref_t container = value_put(&ref, 1);
        say(owner, WIRE_ESCAPE, container);
        say(owner, WIRE_DROP, ref);
        all[i] = ref;
        ref = container;
    }
    fixture_settle(n);
    say(owner, WIRE_DROP, ref);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 8; k++) node_objects_sweep(n, n->zero.count);
    }
    fixture_settle(n);
    for (int i = 0; i < 20; i++) assert_int_equal(word_of(all[i]), STORE_FREE);
}

static void test_there_is_no_such_object(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0);
    assert_null(node_object_find(n, (mob_ref_t){0}));
    assert_null(node_object_find(n, (mob_ref_t){.slot = STORE_MAX_SLOTS, .generation = 1}));
    assert_null(
        node_object_find(n, (mob_ref_t){.slot = ref.slot, .generation = ref.generation + 1}));
    assert_null(node_object_find(n, (mob_ref_t){.slot = next_slot, .generation = 0})); /* FREE */
    /* granted to nobody */
    assert_null(node_object_find(n, (mob_ref_t){.slot = 100000, .generation = 1}));
    say(other, WIRE_DROP, (mob_ref_t){.slot = UINT32_MAX, .generation = 3});
    /* no fault: its container may have been freed meanwhile */
    assert_int_equal(other->state, NODE_LIVE);
}

static void test_a_new_generation_is_a_new_object(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0);
    assert_non_null(node_object_find(n, ref));
    /* its owner frees it all the same, and opens the slot again */
    store_slot_close(slot_of(ref));
    mob_ref_t again = {.slot = ref.slot, .generation = store_slot_open(slot_of(ref))};
    store_slot_seal(slot_of(ref), true);
    node_object_t *o = node_object_find(n, again);
    assert_non_null(o);
    assert_true(o->generation == again.generation);
    assert_int_equal(owner->held, 1);
}

static void test_pending_is_freed_when_it_is_done(void **state) {
    (void)state;
    mob_ref_t ref = {.slot = next_slot++};
    ref.generation = store_slot_open(slot_of(ref));
    atomic_fetch_or(&slot_of(ref)->word, STORE_ESCAPED);
    assert_non_null(node_object_find(n, ref));
    say(owner, WIRE_DROP, ref);
    fixture_settle(n);
    assert_int_equal(word_of(ref), STORE_PENDING | STORE_ESCAPED | STORE_DROPPED);
    slot_of(ref)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    store_slot_seal(slot_of(ref), false);
    node_object_sealed(n, ref);
    fixture_settle(n);
    assert_int_equal(word_of(ref), STORE_FREE);
}

static void test_an_error_as_value(void **state) {
    (void)state;
    const char *long_text =
        "the worker that ran this died, and there is more to say about it than fits into a slot";
    const char *texts[] = {"short", long_text};
    for (int i = 0; i < 2; i++) {
        mob_ref_t ref = {.slot = next_slot++};
        ref.generation = store_slot_open(slot_of(ref));
        node_slot_fail(n, ref, MOB_ECRASHED, texts[i], NULL);
        assert_int_equal(word_of(ref), STORE_SEALED);
        uint64_t meta = slot_of(ref)->meta;
        assert_int_equal(store_meta_error(meta), MOB_ECRASHED);
        assert_int_equal(store_meta_size(meta), 9 + strlen(texts[i]));
        const unsigned char *data = store_meta_inline(meta)
                                        ? slot_of(ref)->value.small
                                        : n->arena.base + slot_of(ref)->value.large.block;
        assert_int_equal(data[0], MOB_STR);
        assert_memory_equal(data + 9, texts[i], strlen(texts[i]));
        node_slot_fail(n, ref, MOB_ELOST, "again", NULL); /* it has a value */
        assert_true(slot_of(ref)->meta == meta);
    }
    node_slot_fail(n, (mob_ref_t){.slot = STORE_MAX_SLOTS - 1, .generation = 5}, MOB_ELOST,
                   "nobody's", NULL);
}

static void test_a_dead_owners_slots(void **state) {
    (void)state;
    mob_ref_t unknown = value_put(NULL, 0), held = value_put(NULL, 0),
              begun = {.slot = next_slot++};
    begun.generation = store_slot_open(slot_of(begun)); /* died while it put */
    atomic_fetch_and(&slot_of(unknown)->word, ~(uint64_t)STORE_ESCAPED);
    say(other, WIRE_HOLD, held);
    node_objects_forget(owner);
    fixture_settle(n);
    assert_int_equal(word_of(unknown), STORE_FREE);
    assert_int_equal(word_of(begun), STORE_FREE);
    assert_int_equal(word_of(held) & STORE_STATE, STORE_SEALED);
    assert_int_equal(owner->held, 0);
    say(other, WIRE_DROP, held);
    fixture_settle(n);
    assert_int_equal(word_of(held), STORE_FREE);
}

/* The task's result is written, and sealed even, but the daemon has not heard of it when the
 * submitter dies. */
static void test_a_dead_submitters_results_stay_whole(void **state) {
    (void)state;
    mob_ref_t ref = value_put(NULL, 0);
    say(other, WIRE_HOLD, ref);
    node_grant_records(owner, 1);
    uint32_t record = fixture_heard(owner).grant.first;
    node_task_t *t = calloc(1, sizeof *t + sizeof(mob_ref_t));
    t->record = record;
    t->submitter = owner->number;
    t->num_returns = 1;
    t->refs[0] = ref;
    n->tasks[record] = t;
    uint64_t meta = slot_of(ref)->meta;
    node_objects_forget(owner);
    assert_true(slot_of(ref)->meta == meta);
}

/* ---- values that a client has scribbled over after it published them ---- */

static void test_a_container_that_names_itself(void **state) {
    (void)state;
    mob_ref_t inside = value_put(NULL, 0), container = value_put(&inside, 1);
    say(owner, WIRE_ESCAPE, container);
    *contents_of(container) = container;
    say(owner, WIRE_DROP, container);
    say(owner, WIRE_DROP, inside);
    fixture_settle(n);
    assert_int_equal(word_of(container), STORE_FREE);
    assert_int_equal(word_of(inside), STORE_FREE);
}

static void test_a_container_that_named_itself_from_the_start(void **state) {
    (void)state;
    mob_ref_t container = value_put(NULL, 0);
    slot_of(container)->value.large.ref_count = 1;
    *contents_of(container) = container;
    say(owner, WIRE_ESCAPE, container);
    say(owner, WIRE_DROP, container);
    fixture_settle(n); /* it holds itself and stays: its owner's loss */
    node_objects_forget(owner);
    fixture_settle(n);
}

/* A slot that its owner opens again without having told us. */
static mob_ref_t opened_again(mob_ref_t ref) {
    store_slot_close(slot_of(ref));
    ref.generation = store_slot_open(slot_of(ref));
    slot_of(ref)->meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    store_slot_seal(slot_of(ref), true);
    return ref;
}

static void test_a_new_generation_while_the_old_one_is_at_zero(void **state) {
    (void)state;
    mob_ref_t refs[3];
    for (int i = 0; i < 3; i++) {
        refs[i] = value_put(NULL, 0);
        assert_non_null(node_object_find(n, refs[i]));
        say(owner, WIRE_DROP, refs[i]);
    }
    size_t settled = n->zero.count;
    assert_int_equal(settled, 3);
    mob_ref_t again = opened_again(refs[0]);
    say(other, WIRE_HOLD, again); /* the old one is discarded */
    mob_ref_t late = value_put(NULL, 0);
    assert_non_null(node_object_find(n, late));
    say(owner, WIRE_DROP, late);
    node_objects_sweep(n, settled);
    assert_int_equal(word_of(refs[1]), STORE_FREE);
    assert_int_equal(word_of(refs[2]), STORE_FREE);
    /* came after the count: rings are to be read first */
    assert_int_equal(word_of(late) & STORE_STATE, STORE_SEALED);
    assert_non_null(node_object_known(n, again));
    fixture_settle(n);
    assert_int_equal(word_of(late), STORE_FREE);
}

static void test_a_container_with_a_newer_self_inside(void **state) {
    (void)state;
    mob_ref_t inside = value_put(NULL, 0), container = value_put(&inside, 1);
    node_object_t *o = node_object_find(n, container);
    assert_non_null(o);
    uint64_t block = slot_of(container)->value.large.block;
    mob_ref_t again = opened_again(container);
    slot_of(container)->value.large.block = block;
    slot_of(container)->value.large.ref_count = 1;
    slot_of(container)->meta = store_meta(20, MOB_FORMAT_PICKLE, MOB_OK, false);
    *contents_of(container) = again;
    node_object_contents_hold(n, o);
    assert_ptr_equal(n->objects[container.slot], o);
    assert_int_equal(o->contents.count, 1);
    assert_int_equal(o->contents.items[0].slot, 0);
}

static void test_references_in_a_block_of_another(void **state) {
    (void)state;
    mob_ref_t inside = value_put(NULL, 0), container = value_put(&inside, 1),
              thief = value_put(NULL, 0);
    slot_of(thief)->value.large.block = slot_of(container)->value.large.block;
    slot_of(thief)->value.large.ref_count = 1;
    node_object_t *o = node_object_find(n, thief), *held = node_object_find(n, container);
    node_object_contents_hold(n, o);
    assert_int_equal(o->contents.count, 0);
    node_object_contents_hold(n, held);
    assert_int_equal(held->contents.count, 1);
}

/* ---- clients that ask and do not read ---- */

static void test_answers_that_nobody_reads(void **state) {
    (void)state;
    mob_ref_t nothing = {.slot = next_slot, .generation = 1};
    for (int i = 0; i < 100000 && other->state == NODE_LIVE; i++)
        node_restore(other, nothing, true, false);
    assert_int_not_equal(other->state, NODE_LIVE);
    assert_true(other->backlog.count < 10000);
    for (int i = 0; i < 100000 && owner->state == NODE_LIVE; i++)
        node_client_tell(owner, wire_answer(MOB_OK, 0));
    assert_int_not_equal(owner->state, NODE_LIVE);
    assert_int_equal(owner->backlog.count, 0);
}

static void test_impossible_blocks(void **state) {
    (void)state;
    const struct {
        uint64_t block, size;
        uint32_t count;
    } cases[] = {
        {UINT64_MAX, 20, 1},
        {64 * SHM_GRANULE, 20, 1},
        {64 * SHM_GRANULE - 64, 20, 1000},
        {0, 20, 1},
        {1, 20, 1},
        {next_block + 1, 20, 1},
        {next_block + 4, 20, 3},
        {next_block, 1ull << 47, 1},
        {next_block, (1ull << 48) - 1, UINT32_MAX},
        {next_block, 20, UINT32_MAX},
        {16, 0, 1},
        {48, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mob_ref_t ref = value_put(NULL, 0);
        slot_of(ref)->value.large.block = cases[i].block;
        slot_of(ref)->value.large.ref_count = cases[i].count;
        slot_of(ref)->meta = store_meta(cases[i].size, MOB_FORMAT_PICKLE, MOB_OK, false);
        say(owner, WIRE_ESCAPE, ref);
        say(other, WIRE_HOLD_CONTENTS, ref);
        say(owner, WIRE_DROP, ref);
        fixture_settle(n);
        assert_int_equal(word_of(ref), STORE_FREE);
    }
}

static void test_random_messages(void **state) {
    (void)state;
    enum { KNOWN = 40 };
    mob_ref_t refs[KNOWN];
    unsigned seed = 99;
    for (int i = 0; i < KNOWN; i++) refs[i] = value_put(refs, (uint32_t)i % 4);
    const uint32_t kinds[] = {WIRE_HOLD, WIRE_DROP, WIRE_ESCAPE, WIRE_HOLD_CONTENTS, WIRE_KILL};
    for (int i = 0; i < 100000; i++) {
        mob_ref_t ref = refs[rand_r(&seed) % KNOWN];
        if (rand_r(&seed) % 50 == 0) ref.generation += (uint64_t)rand_r(&seed) % 3;
        if (rand_r(&seed) % 50 == 0) ref.slot = (uint32_t)rand_r(&seed);
        if (rand_r(&seed) % 20 == 0) { /* scribbles */
            mob_ref_t victim = refs[rand_r(&seed) % KNOWN];
            slot_of(victim)->value.large.ref_count = (uint32_t)rand_r(&seed) % 100;
            contents_of(victim)[rand_r(&seed) % 10] = refs[rand_r(&seed) % KNOWN];
        }
        if (rand_r(&seed) % 200 == 0)
            atomic_store(&slot_of(refs[rand_r(&seed) % KNOWN])->word, (uint64_t)rand_r(&seed) % 16);
        node_client_t *sender = rand_r(&seed) % 2 ? owner : other;
        say(sender, kinds[rand_r(&seed) % 5], ref);
        while (fixture_heard(sender).kind != 0) {
        }
        if (rand_r(&seed) % 10 == 0) node_objects_sweep(n, n->zero.count);
    }
    assert_int_equal(owner->state, NODE_LIVE);
    node_objects_forget(other);
    node_objects_forget(owner);
    for (int i = 0; i < 100; i++) node_objects_sweep(n, n->zero.count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_owner_holds_without_saying_so, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_last_of_several_frees, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_hold_that_comes_at_zero_saves_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_function_that_is_kept_after_the_others_dropped_it,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_uses_hold_too, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_container_holds_its_contents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_chains_of_containers_fall_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_there_is_no_such_object, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_new_generation_is_a_new_object, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pending_is_freed_when_it_is_done, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_error_as_value, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_dead_owners_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_dead_submitters_results_stay_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_container_that_names_itself, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_container_that_named_itself_from_the_start, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_new_generation_while_the_old_one_is_at_zero, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_container_with_a_newer_self_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_references_in_a_block_of_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_answers_that_nobody_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_impossible_blocks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_random_messages, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
