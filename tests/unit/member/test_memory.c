/* Memory that is lacking for a while loses nothing: the n-th allocation and some after it fail, for
 * every n, and everybody hears of everybody and of every death all the same. */
#include "store.h"

static long left = -1; /* allocations that succeed before some fail; below 0: all do */
enum { FAILURES = 5 };

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool fails(void) {
    if (left < 0) return false;
    if (left > 0) {
        left--;
        return false;
    }
    static int failed;
    if (++failed < FAILURES) return true;
    failed = 0;
    left = -1;
    return true;
}

void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) {
    return fails() ? NULL : __real_calloc(count, size);
}
void *__wrap_realloc(void *memory, size_t size) {
    return fails() ? NULL : __real_realloc(memory, size);
}

static void complain(node_t *node, uint64_t peer) {
    while (member_complain(node->member, peer, true) == MOB_ENOMEM) {
    }
}

/* Node 2 dies, node 4 comes, node 3 is condemned. Returns whether memory was short. */
static bool run_with(long allocations) {
    town_begin(NULL);
    left = allocations;
    for (uint64_t self = 1; self <= 3; self++) node_start(self);
    town_run(8000);
    for (int i = 0; i < 3; i++) assert_int_equal(nodes[i].joined, 2);
    nodes[1].is_gone = true;
    town_run(8000);
    assert_int_equal(nodes[0].died, 2);
    assert_int_equal(nodes[2].died, 2);
    node_start(4);
    town_run(3000);
    assert_int_equal(nodes[0].joined, 3);
    assert_true(member_knows(nodes[3].member, 1) && member_knows(nodes[3].member, 3));
    assert_true(member_tombstone(nodes[3].member, 2) != 0);
    complain(&nodes[0], 3);
    complain(&nodes[3], 3);
    town_run(12000);
    assert_int_equal(nodes[2].over, MEMBER_BURIED);
    assert_int_equal(nodes[0].died, 3);
    assert_int_equal(nodes[3].died, 3);
    bool was_short = left < 0;
    left = -1;
    town_end(NULL);
    return was_short;
}

static void test_nothing_is_lost_without_memory(void **state) {
    (void)state;
    long allocations = 0;
    while (run_with(allocations)) allocations++;
    assert_true(allocations > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_lost_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
