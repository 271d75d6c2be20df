/* CPU limits, on trees of files as the kernel would show them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../root.h"
#include "base/cpus.h"

#define MOUNT_V2 "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

static void test_nothing_there(void **state) {
    (void)state;
    assert_int_equal(base_cpus_limit(root), UINT_MAX);
    cpu_set_t set;
    assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
    assert_int_equal(base_cpus_count(root), CPU_COUNT(&set));
}

static void test_v2_quota_rounds_up(void **state) {
    (void)state;
    root_put("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/root rw\n" MOUNT_V2);
    root_put("/proc/self/cgroup", "0::/app\n");
    root_put("/sys/fs/cgroup/app/cpu.max", "300000 100000\n");
    assert_int_equal(base_cpus_limit(root), 3);
    root_put("/sys/fs/cgroup/app/cpu.max", "150000 100000\n");
    assert_int_equal(base_cpus_limit(root), 2);
    root_put("/sys/fs/cgroup/app/cpu.max", "1000 100000\n");
    assert_int_equal(base_cpus_limit(root), 1);
    assert_int_equal(base_cpus_count(root), 1);
    root_put("/sys/fs/cgroup/app/cpu.max", "0 100000\n");
    assert_int_equal(base_cpus_limit(root), 1);
    root_put("/sys/fs/cgroup/app/cpu.max", "max 100000\n");
    assert_int_equal(base_cpus_limit(root), UINT_MAX);
}

static void test_v2_groups_above_count(void **state) {
    (void)state;
    root_put("/proc/self/mountinfo", MOUNT_V2);
    root_put("/proc/self/cgroup", "0::/a/b/c\n");
    root_put("/sys/fs/cgroup/a/b/c/cpu.max", "max 100000\n");
    root_put("/sys/fs/cgroup/a/b/cpu.max", "700000 100000\n");
    root_put("/sys/fs/cgroup/a/cpu.max", "500000 100000\n");
    assert_int_equal(base_cpus_limit(root), 5);
    root_put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    assert_int_equal(base_cpus_limit(root), 4);
    root_put("/sys/fs/cgroup/other/cpu.max", "100000 100000\n");
    root_put("/sys/fs/cgroup/a/b/c/below/cpu.max", "100000 100000\n");
    assert_int_equal(base_cpus_limit(root), 4);
}

static void test_v2_set(void **state) {
    (void)state;
    root_put("/proc/self/mountinfo", MOUNT_V2);
    root_put("/proc/self/cgroup", "0::/a/b\n");
    root_put("/sys/fs/cgroup/a/cpuset.cpus.effective", "0-3,8,10-11\n");
    assert_int_equal(base_cpus_limit(root), 7);
    root_put("/sys/fs/cgroup/a/b/cpuset.cpus.effective", "2\n");
    assert_int_equal(base_cpus_limit(root), 1);
    root_put("/sys/fs/cgroup/a/b/cpuset.cpus.effective", "\n");
    root_put("/sys/fs/cgroup/a/b/cpu.max", "600000 100000\n");
    assert_int_equal(base_cpus_limit(root), 6);
}

static void test_v1(void **state) {
    (void)state;
    root_put("/proc/self/mountinfo",
             "31 25 0:27 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
             "32 25 0:28 / /sys/fs/cgroup/cpuset rw shared:10 - cgroup cgroup rw,cpuset\n");
    root_put("/proc/self/cgroup",
             "4:cpu,cpuacct:/user/one\n3:cpuset:/sets/two\n1:name=systemd:/init\n");
    root_put("/sys/fs/cgroup/cpu,cpuacct/user/one/cpu.cfs_quota_us", "-1\n");
    root_put("/sys/fs/cgroup/cpu,cpuacct/user/one/cpu.cfs_period_us", "100000\n");
    assert_int_equal(base_cpus_limit(root), UINT_MAX);
    root_put("/sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_quota_us", "250000\n");
    root_put("/sys/fs/cgroup/cpu,cpuacct/user/cpu.cfs_period_us", "50000\n");
    assert_int_equal(base_cpus_limit(root), 5);
    root_put("/sys/fs/cgroup/cpuset/sets/two/cpuset.cpus", "0-3\n");
    assert_int_equal(base_cpus_limit(root), 4);
    root_put("/sys/fs/cgroup/cpuset/sets/two/cpuset.effective_cpus", "0,2\n");
    assert_int_equal(base_cpus_limit(root), 2);
}

static void test_hybrid(void **state) {
    (void)state;
    root_put("/proc/self/mountinfo", "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                                     "33 31 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    root_put("/proc/self/cgroup", "1:cpu:/old\n0::/new\n");
    root_put("/sys/fs/cgroup/unified/new/cpuset.cpus.effective", "0-5\n");
    root_put("/sys/fs/cgroup/cpu/old/cpu.cfs_quota_us", "900000\n");
    root_put("/sys/fs/cgroup/cpu/old/cpu.cfs_period_us", "100000\n");
    assert_int_equal(base_cpus_limit(root), 6);
    root_put("/sys/fs/cgroup/cpu/old/cpu.cfs_quota_us", "200000\n");
    assert_int_equal(base_cpus_limit(root), 2);
}

static void test_container_views(void **state) {
    (void)state;
    /* Without a namespace of its own, the container's group is the mount's root. */
    root_put("/proc/self/mountinfo",
             "30 20 0:26 /docker/x /sys/fs/cgroup ro - cgroup2 cgroup rw\n");
    root_put("/proc/self/cgroup", "0::/docker/x/inner\n");
    root_put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
    root_put("/sys/fs/cgroup/inner/cpu.max", "300000 100000\n");
    assert_int_equal(base_cpus_limit(root), 3);
    /* A name that only begins alike is another group, and one that can't be seen leaves the mount
     * point. */
    root_put("/proc/self/cgroup", "0::/docker/xinner\n");
    assert_int_equal(base_cpus_limit(root), 4);
    root_put("/proc/self/mountinfo", MOUNT_V2);
    root_put("/proc/self/cgroup", "0::/../inner\n");
    assert_int_equal(base_cpus_limit(root), 4);
    /* The group is gone, the one above it is not. */
    root_put("/proc/self/cgroup", "0::/inner/gone (deleted)\n");
    assert_int_equal(base_cpus_limit(root), 3);
    /* No list of groups. */
    root_put("/proc/self/cgroup", "");
    assert_int_equal(base_cpus_limit(root), 4);
}

static void test_odd_mount_point(void **state) {
    (void)state;
    root_put("/proc/self/mountinfo", "30 20 0:26 / /my\\040groups\\134x rw - cgroup2 none rw\n");
    root_put("/proc/self/cgroup", "0::/a:b\n");
    root_put("/my groups\\x/a:b/cpu.max", "200000 100000\n");
    assert_int_equal(base_cpus_limit(root), 2);
}

static void test_no_mountinfo(void **state) {
    (void)state;
    root_put("/sys/fs/cgroup/cpu.max", "700000 100000\n");
    assert_int_equal(base_cpus_limit(root), 7);
    root_put("/proc/self/cgroup", "2:cpu:/v1\n0::/v2\n");
    root_put("/sys/fs/cgroup/v2/cpuset.cpus.effective", "0-4\n");
    assert_int_equal(base_cpus_limit(root), 5);
    root_put("/sys/fs/cgroup/cpu/v1/cpu.cfs_quota_us", "400000\n");
    root_put("/sys/fs/cgroup/cpu/v1/cpu.cfs_period_us", "100000\n");
    assert_int_equal(base_cpus_limit(root), 4);
}

static void test_garbage_limits_nothing(void **state) {
    (void)state;
    static const char *const quotas[] = {
        "",
        "\n",
        "max",
        "100000",
        "100000 0\n",
        "-100000 100000\n",
        "x y\n",
        "100000 100000x\n",
        "99999999999999999999999 1\n",
        "1 -1\n",
        " 100000 100000\n",
    };
    static const char *const sets[] = {
        "",
        "\n",
        "0-",
        "-3",
        "3-1",
        "0,,1",
        "0-3,2",
        "a",
        "0-3;5",
        "0-99999999999999999999",
        "0-18446744073709551615",
        ",",
        "1 2",
    };
    root_put("/proc/self/mountinfo",
             "nonsense\n - \n- - - -\n1 2 3\n\n" MOUNT_V2 "5 6 7 8 9 - cgroup2\n");
    root_put("/proc/self/cgroup", "nonsense\n0:\n::\n0::relative\n:::::\n0::/a\n");
    for (size_t i = 0; i < sizeof quotas / sizeof *quotas; i++) {
        root_put("/sys/fs/cgroup/a/cpu.max", quotas[i]);
        assert_int_equal(base_cpus_limit(root), UINT_MAX);
    }
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        root_put("/sys/fs/cgroup/a/cpuset.cpus.effective", sets[i]);
        assert_int_equal(base_cpus_limit(root), UINT_MAX);
    }
    root_put("/sys/fs/cgroup/a/cpuset.cpus.effective", "0-1\n");
    assert_int_equal(base_cpus_limit(root), 2);
}

static void test_this_machine(void **state) {
    (void)state;
    assert_in_range(base_cpus_count(""), 1, (unsigned)sysconf(_SC_NPROCESSORS_CONF));
}

int main(void) {
#define TREE_TEST(name) cmocka_unit_test_setup_teardown(name, root_make, root_remove)
    const struct CMUnitTest tests[] = {
        TREE_TEST(test_nothing_there),
        TREE_TEST(test_v2_quota_rounds_up),
        TREE_TEST(test_v2_groups_above_count),
        TREE_TEST(test_v2_set),
        TREE_TEST(test_v1),
        TREE_TEST(test_hybrid),
        TREE_TEST(test_container_views),
        TREE_TEST(test_odd_mount_point),
        TREE_TEST(test_no_mountinfo),
        TREE_TEST(test_garbage_limits_nothing),
        cmocka_unit_test(test_this_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
