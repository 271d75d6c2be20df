/* Folders that belong to a process, and what becomes of them when it is gone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../root.h"
#include "base/folder.h"

static const char *in_root(const char *name) {
    static char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

static bool is_there(const char *name) { return access(in_root(name), F_OK) == 0; }

static void file_make(const char *name) {
    int fd = open(in_root(name), O_WRONLY | O_CREAT, 0600);
    if (fd < 0) fail_msg("%s: %s", in_root(name), strerror(errno));
    close(fd);
}

static void test_what_somebody_owns_stays(void **state) {
    (void)state;
    int fd = base_folder_own(in_root("s_1"));
    assert_true(fd >= 0);
    base_folder_clear(root, "s_");
    assert_true(is_there("s_1"));
    close(fd);
    base_folder_clear(root, "s_");
    assert_false(is_there("s_1"));
}

static void test_what_nobody_owns_goes_whatever_is_in_it(void **state) {
    (void)state;
    assert_int_equal(mkdir(in_root("s_0_1"), 0700), 0);
    assert_int_equal(mkdir(in_root("s_af_12"), 0700), 0);
    file_make("s_af_12/socket");
    assert_int_equal(mkdir(in_root("s_af_12/inner"), 0700), 0);
    file_make("s_af_12/inner/1");
    assert_int_equal(mkdir(in_root("other"), 0700), 0);
    assert_int_equal(mkdir(in_root("s_"), 0700), 0);
    assert_int_equal(mkdir(in_root("s_mine"), 0700), 0);
    file_make("s_2");
    base_folder_clear(root, "s_");
    assert_false(is_there("s_0_1"));
    assert_false(is_there("s_af_12"));
    assert_true(is_there("other"));
    assert_true(is_there("s_"));
    assert_true(is_there("s_mine"));
    assert_true(is_there("s_2"));
}

static void test_the_lock_goes_with_its_process(void **state) {
    (void)state;
    int ready[2];
    char word;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        if (base_folder_own(in_root("s_1")) >= 0 && write(ready[1], "x", 1) == 1) pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &word, 1), 1);
    base_folder_clear(root, "s_");
    assert_true(is_there("s_1"));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    base_folder_clear(root, "s_");
    assert_false(is_there("s_1"));
    close(ready[0]);
    close(ready[1]);
}

static void test_it_can_be_owned_once(void **state) {
    (void)state;
    int fd = base_folder_own(in_root("s_1"));
    assert_true(fd >= 0);
    assert_int_equal(base_folder_own(in_root("s_1")), -1);
    assert_int_equal(errno, EBUSY);
    close(fd);
    assert_int_equal(base_folder_own(in_root("no/such")), -1);
    assert_int_equal(errno, ENOENT);
}

/* Who clears up has the lock for a moment, which is long if he is off the CPU then. */
static void test_it_waits_for_who_clears_up(void **state) {
    (void)state;
    int ready[2];
    char word;
    assert_int_equal(mkdir(in_root("s_1"), 0700), 0);
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        int held = open(in_root("s_1"), O_RDONLY | O_DIRECTORY);
        if (flock(held, LOCK_EX) == 0 && write(ready[1], "x", 1) == 1) usleep(1000000);
        _exit(0);
    }
    assert_int_equal(read(ready[0], &word, 1), 1);
    int fd = base_folder_own(in_root("s_1"));
    if (fd < 0) fail_msg("%s", strerror(errno));
    close(fd);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

/* Who clears up at the same time takes nothing that is owned. */
static void test_clearing_beside_making(void **state) {
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed assertion must not leave it running */
        for (;;) base_folder_clear(root, "s_");
    }
    for (int i = 0; i < 2000; i++) {
        int fd = base_folder_own(in_root("s_1"));
        assert_true(fd >= 0);
        file_make("s_1/socket");
        assert_true(is_there("s_1/socket"));
        assert_true(base_folder_remove(in_root("s_1")));
        close(fd);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_somebody_owns_stays, root_make, root_remove),
        cmocka_unit_test_setup_teardown(test_what_nobody_owns_goes_whatever_is_in_it, root_make,
                                        root_remove),
        cmocka_unit_test_setup_teardown(test_the_lock_goes_with_its_process, root_make,
                                        root_remove),
        cmocka_unit_test_setup_teardown(test_it_can_be_owned_once, root_make, root_remove),
        cmocka_unit_test_setup_teardown(test_it_waits_for_who_clears_up, root_make, root_remove),
        cmocka_unit_test_setup_teardown(test_clearing_beside_making, root_make, root_remove),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
