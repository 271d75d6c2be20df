/* Memory that is lacking for a while loses no task: the n-th allocation and some after it fail, for
 * every n, and everything ends all the same. */
#include "town.h"

static long left = -1; /* allocations that succeed before some fail; below 0: all do */
enum { FAILURES = 5 };

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

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

static void lane_new(int node, place_demand_t demand) {
    town_node_t *n = &town->nodes[node];
    mob_status_t status;
    while ((status = place_lane_new(n->place, &demand, n, &n->lane)) == MOB_ENOMEM) {
    }
    assert_int_equal(status, MOB_OK);
}

/* Returns whether memory was short. */
static bool run_with(long allocations) {
    town_new((int64_t[]){0, 2, 3});
    left = allocations;
    place_demand_t demand = one_cpu();
    lane_new(0, demand);
    demand.selector = "zone=a";
    lane_new(1, demand);
    town_submit(0, demand, 0, 10, 3);
    town_submit(1, demand, 100, 10, 3);
    for (int i = 0; i < 400; i++) {
        town_pass(1);
        if (i == 5)
            for (int node = 0; node < NODES; node++)
                place_leads(town->nodes[node].place, id_of(1), 2);
        size_t at = 0;
        while (at < town->guests.count && !town->guests.items[at]->runs) at++;
        if (at < town->guests.count) town_done(town->guests.items[at], PLACE_OK);
    }
    bool was_short = left < 0;
    left = -1;
    uint32_t kept = town->nodes[0].kept + town->nodes[1].kept, ended = 0;
    for (int i = 0; i < 10; i++)
        ended += (town->nodes[0].ended[i] != 0) + (uint32_t)(town->nodes[1].ended[100 + i] != 0);
    assert_int_equal(kept + ended, 20);
    town_pass(50);
    for (int i = 0; i < NODES; i++) {
        place_counts_t counts = counts_of(i);
        assert_int_equal(counts.leases + counts.sent + counts.guests + counts.guest_leases +
                             counts.questions,
                         0);
    }
    town_free();
    return was_short;
}

static void test_nothing_is_lost_without_memory(void **state) {
    (void)state;
    long allocations = 0;
    while (run_with(allocations)) allocations++;
    assert_true(allocations > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nothing_is_lost_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
