/* Memory limits and headroom, on trees of files as the kernel would show them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../root.h"
#include "base/memory.h"

static uint64_t limit(void) {
    uint64_t bytes = 0;
    assert_int_equal(base_memory_limit(root, &bytes), MOB_OK);
    return bytes;
}

static uint64_t headroom(void) {
    uint64_t bytes = 0;
    assert_int_equal(base_memory_headroom(root, &bytes), MOB_OK);
    return bytes;
}

#define MEMINFO  "MemTotal:       1000 kB\nMemFree:         100 kB\nMemAvailable:    800 kB\n"
#define TOTAL    UINT64_C(1024000)
#define FREE     UINT64_C(819200)
#define MOUNT_V2 "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
#define MOUNT_V1 "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"

static void test_nothing_there(void **state) {
    (void)state;
    uint64_t bytes = 77;
    assert_int_equal(base_memory_limit(root, &bytes), MOB_ESYS);
    assert_int_equal(base_memory_headroom(root, &bytes), MOB_ESYS);
    assert_int_equal(bytes, 77);
    root_put("/proc/meminfo", MEMINFO);
    assert_int_equal(limit(), TOTAL);
    assert_int_equal(headroom(), FREE);
}

static void test_v2(void **state) {
    (void)state;
    root_put("/proc/meminfo", MEMINFO);
    root_put("/proc/self/mountinfo", MOUNT_V2);
    root_put("/proc/self/cgroup", "0::/a/b\n");
    root_put("/sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_int_equal(limit(), TOTAL);
    root_put("/sys/fs/cgroup/a/memory.max", "500000\n");
    root_put("/sys/fs/cgroup/a/memory.current", "300000\n");
    assert_int_equal(limit(), 500000);
    assert_int_equal(headroom(), 200000);
    root_put("/sys/fs/cgroup/a/memory.stat",
             "anon 1\ninactive_file_more 5\ninactive_file 120000\nactive_file 700\n");
    assert_int_equal(headroom(), 320700);
    /* The innermost has the lower limit, the one above less space. */
    root_put("/sys/fs/cgroup/a/b/memory.max", "400000\n");
    root_put("/sys/fs/cgroup/a/b/memory.current", "10\n");
    assert_int_equal(limit(), 400000);
    assert_int_equal(headroom(), 320700);
}

static void test_v1(void **state) {
    (void)state;
    root_put("/proc/meminfo", MEMINFO);
    root_put("/proc/self/mountinfo", MOUNT_V1);
    root_put("/proc/self/cgroup", "4:memory:/run/x\n");
    root_put("/sys/fs/cgroup/memory/run/x/memory.limit_in_bytes", "9223372036854771712\n");
    root_put("/sys/fs/cgroup/memory/run/x/memory.usage_in_bytes", "1000\n");
    assert_int_equal(limit(), TOTAL);
    assert_int_equal(headroom(), FREE);
    root_put("/sys/fs/cgroup/memory/run/memory.limit_in_bytes", "600000\n");
    root_put("/sys/fs/cgroup/memory/run/memory.usage_in_bytes", "590000\n");
    root_put("/sys/fs/cgroup/memory/run/memory.stat",
             "inactive_file 1\nactive_file 2\ntotal_inactive_file 90000\ntotal_active_file 5000\n");
    assert_int_equal(limit(), 600000);
    assert_int_equal(headroom(), 105000);
}

static void test_hybrid(void **state) {
    (void)state;
    root_put("/proc/meminfo", MEMINFO);
    root_put("/proc/self/mountinfo",
             MOUNT_V1 "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    root_put("/proc/self/cgroup", "4:memory:/m\n0::/u\n");
    root_put("/sys/fs/cgroup/memory/m/memory.limit_in_bytes", "700000\n");
    assert_int_equal(limit(), 700000);
    root_put("/sys/fs/cgroup/unified/u/memory.max", "650000\n");
    assert_int_equal(limit(), 650000);
    assert_int_equal(headroom(), 650000);
}

static void test_no_space_left(void **state) {
    (void)state;
    root_put("/proc/meminfo", MEMINFO);
    root_put("/sys/fs/cgroup/memory.max", "5000\n");
    root_put("/sys/fs/cgroup/memory.current", "6000\n");
    assert_int_equal(headroom(), 0);
    root_put("/sys/fs/cgroup/memory.stat", "inactive_file 3000\nactive_file 9000\n");
    assert_int_equal(headroom(), 5000);
    root_put("/sys/fs/cgroup/memory.max", "0\n");
    assert_int_equal(limit(), 0);
    assert_int_equal(headroom(), 0);
}

static void test_garbage_limits_nothing(void **state) {
    (void)state;
    static const char *const texts[] = {
        "", "\n", "-5\n", "5x\n", "x\n", "99999999999999999999999\n", "maximum\n"};
    root_put("/proc/meminfo", "MemTotals: 5 kB\n:::\nMemTotal: x\n" MEMINFO);
    root_put("/proc/self/mountinfo", MOUNT_V2);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        root_put("/sys/fs/cgroup/memory.max", texts[i]);
        assert_int_equal(limit(), TOTAL);
        assert_int_equal(headroom(), FREE);
    }
    root_put("/sys/fs/cgroup/memory.max", "9000\n");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        root_put("/sys/fs/cgroup/memory.current", texts[i]);
        assert_int_equal(headroom(), 9000);
    }
    root_put("/sys/fs/cgroup/memory.current", "4000\n");
    root_put("/sys/fs/cgroup/memory.stat", "inactive_file\ninactive_file x\n");
    assert_int_equal(headroom(), 5000);
    root_put("/proc/meminfo",
             "MemTotal: 99999999999999999999 kB\nMemAvailable: 18446744073709551615 kB\n");
    assert_int_equal(limit(), 9000);
    assert_int_equal(headroom(), 5000);
}

static void expect_use(uint64_t expected_used, uint64_t expected_limit) {
    uint64_t used = 0, most = 0;
    assert_int_equal(base_memory_usage(root, &used, &most), MOB_OK);
    assert_int_equal(used, expected_used);
    assert_int_equal(most, expected_limit);
}

/* The machine or a group: whichever is closest to its limit. */
static void test_who_is_fullest(void **state) {
    (void)state;
    uint64_t used = 77, most = 77;
    assert_int_equal(base_memory_usage(root, &used, &most), MOB_ESYS);
    root_put("/proc/meminfo", MEMINFO);
    expect_use(TOTAL - FREE, TOTAL);
    root_put("/proc/self/mountinfo", MOUNT_V2);
    root_put("/proc/self/cgroup", "0::/a/b\n");
    root_put("/sys/fs/cgroup/a/memory.max", "500000\n");
    root_put("/sys/fs/cgroup/a/memory.current", "50000\n");
    expect_use(TOTAL - FREE, TOTAL);
    root_put("/sys/fs/cgroup/a/memory.current", "300000\n");
    expect_use(300000, 500000);
    /* could be given up */
    root_put("/sys/fs/cgroup/a/memory.stat", "inactive_file 10000\nactive_file 20000\n");
    expect_use(270000, 500000);
    root_put("/sys/fs/cgroup/a/b/memory.max", "20000\n");
    root_put("/sys/fs/cgroup/a/b/memory.current", "19000\n");
    expect_use(19000, 20000);
    root_put("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 1 kB\n");
    expect_use(999 * 1024, TOTAL);
}

static void test_who_is_fullest_v1(void **state) {
    (void)state;
    root_put("/proc/meminfo", MEMINFO);
    root_put("/proc/self/mountinfo", MOUNT_V1);
    root_put("/proc/self/cgroup", "4:memory:/run/x\n");
    root_put("/sys/fs/cgroup/memory/run/memory.limit_in_bytes", "600000\n");
    root_put("/sys/fs/cgroup/memory/run/memory.usage_in_bytes", "590000\n");
    root_put("/sys/fs/cgroup/memory/run/memory.stat", "total_inactive_file 90000\n");
    expect_use(500000, 600000);
}

static void test_kills(void **state) {
    (void)state;
    assert_int_equal(base_memory_kills(root), 0);
    root_put("/proc/self/mountinfo", MOUNT_V2);
    root_put("/proc/self/cgroup", "0::/a/b\n");
    root_put("/sys/fs/cgroup/a/b/memory.events.local",
             "low 1\nmax 9\noom 4\noom_kill 3\noom_group_kill 0\n");
    root_put("/sys/fs/cgroup/a/b/memory.events",
             "oom_kill 70\n"); /* those of the groups below too */
    assert_int_equal(base_memory_kills(root), 3);
    root_put("/proc/self/mountinfo", MOUNT_V1);
    root_put("/proc/self/cgroup", "4:memory:/run\n");
    root_put("/sys/fs/cgroup/memory/run/memory.oom_control",
             "oom_kill_disable 0\nunder_oom 0\noom_kill 5\n");
    assert_int_equal(base_memory_kills(root), 5);
    root_put("/sys/fs/cgroup/memory/run/memory.oom_control", "oom_kill many\n");
    assert_int_equal(base_memory_kills(root), 0);
}

static void test_what_is_to_be_written(void **state) {
    (void)state;
    uint64_t bytes = 77;
    assert_int_equal(base_memory_dirty(root, &bytes), MOB_ESYS);
    assert_int_equal(bytes, 77);
    root_put("/proc/meminfo", MEMINFO "Dirty:   30 kB\nWriteback:   12 kB\n");
    assert_int_equal(base_memory_dirty(root, &bytes), MOB_OK);
    assert_int_equal(bytes, 42 * 1024);
    root_put("/proc/self/mountinfo", MOUNT_V2);
    root_put("/proc/self/cgroup", "0::/a/b\n");
    root_put("/sys/fs/cgroup/a/b/memory.stat", "file_dirty 40000\nfile_writeback 10000\n");
    root_put("/sys/fs/cgroup/a/memory.stat", "file_dirty 1000\n");
    assert_int_equal(base_memory_dirty(root, &bytes), MOB_OK);
    assert_int_equal(bytes, 50000);
    root_put("/proc/self/mountinfo", MOUNT_V1);
    root_put("/proc/self/cgroup", "4:memory:/run\n");
    root_put("/sys/fs/cgroup/memory/run/memory.stat",
             "dirty 900000\ntotal_dirty 60000\ntotal_writeback 7\n");
    assert_int_equal(base_memory_dirty(root, &bytes), MOB_OK);
    assert_int_equal(bytes, 60007);
}

static void test_this_machine(void **state) {
    (void)state;
    uint64_t all = 0, space = 0;
    assert_int_equal(base_memory_limit("", &all), MOB_OK);
    assert_int_equal(base_memory_headroom("", &space), MOB_OK);
    assert_true(all > 0 && space <= all);
    assert_int_equal(base_memory_dirty("", &space), MOB_OK);
}

int main(void) {
#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, root_make, root_remove)
    const struct CMUnitTest tests[] = {
        TREE_TEST(test_nothing_there),
        TREE_TEST(test_v2),
        TREE_TEST(test_v1),
        TREE_TEST(test_hybrid),
        TREE_TEST(test_no_space_left),
        TREE_TEST(test_garbage_limits_nothing),
        TREE_TEST(test_who_is_fullest),
        TREE_TEST(test_who_is_fullest_v1),
        TREE_TEST(test_kills),
        TREE_TEST(test_what_is_to_be_written),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
