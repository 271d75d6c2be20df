/* Nodes without memory: what could not be said is said later, and in the end nothing is left. */
#include "nodes.h"

enum { MOST_CALLS = 400, TURNS = 12 };

/* The allocator of this program fails after so many calls; -1: never. The sanitizer has its own. */
static volatile long calls_left = -1; /* the compiler thinks that malloc does not read it */

#ifndef __SANITIZE_ADDRESS__
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);

static bool is_out(void) {
    if (calls_left == 0) return true;
    if (calls_left > 0) calls_left--;
    return false;
}

void *malloc(size_t size) { return is_out() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return is_out() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return is_out() ? NULL : __libc_realloc(old, size); }
#endif

static bool can_fail(void) {
    calls_left = 0;
    void *volatile memory = malloc(1);
    calls_left = -1;
    free(memory);
    return memory == NULL;
}

/* Some turns of all daemons, whose memory ends after so many calls. True: it has ended. */
static bool turns(long calls) {
    memory_is_short = true;
    calls_left = calls;
    for (int i = 0; i < TURNS; i++)
        for (int k = 0; k < NODES; k++) {
            round_of(&daemons[k]);
            for (int to = 0; to < NODES; to++)
                if (to != k) (void)deliver(&daemons[k], &daemons[to]);
        }
    bool ended = calls_left == 0;
    calls_left = -1;
    memory_is_short = false;
    return ended;
}

/* A reference that came is of something that has a value, or an error that says why not. */
static void end_here(daemon_t *d, frame_id_t id, uint64_t size) {
    mob_ref_t ref = node_proxy_find(d->n, id);
    if (ref.slot == 0) return; /* it could not be taken in */
    assert_true(is_sealed(d, ref));
    if (error_at(d, ref) == MOB_OK)
        has_value(d, ref, size);
    else
        assert_int_equal(error_at(d, ref), MOB_ELOST);
    drop(d, ref);
}

static void test_values_with_ever_more_memory(void **state) {
    if (!can_fail()) skip();
    bool ended = true;
    for (long calls = 0; ended && calls < MOST_CALLS; calls++) {
        mob_ref_t inner = put(A, 8), other = put(C, 100), there = given(C, A, other),
                  x = slot_open_by(A), late = slot_open_by(A);
        seal(A, x, 50, (mob_ref_t[]){inner, there}, 2);
        frame_id_t ids[] = {give(A, B, x), give(A, B, late), give(A, C, x)};
        ended = turns(calls);
        seal(A, late, 1000, NULL, 0);
        ended |= turns(calls);
        settle();
        end_here(B, ids[0], 50);
        end_here(B, ids[1], 1000);
        end_here(C, ids[2], 50);
        mob_ref_t mine[] = {inner, there, x, late};
        for (size_t i = 0; i < sizeof mine / sizeof *mine; i++) drop(A, mine[i]);
        drop(C, other);
        nothing_is_left();
        end(state);
        begin(state);
    }
    assert_false(ended);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values_with_ever_more_memory, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
