/* Titles, as another process reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/title.h"

extern char **environ;

static char shown[8192];

/* What /proc has of a process, its zeros as bars. */
static const char *proc_read(pid_t pid, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, shown, sizeof shown - 1);
    close(fd);
    assert_true(size >= 0);
    shown[size] = 0;
    for (ssize_t i = 0; i < size; i++)
        if (shown[i] == 0) shown[i] = '|';
    return shown;
}

/* A child with these titles, one after the other; it waits until it is ended. */
static pid_t child_start(const char *const titles[][2]) {
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        base_title_begin();
        for (; (*titles)[0] != NULL; titles++)
            base_title_set((*titles)[0], strlen((*titles)[0]), (*titles)[1],
                           (*titles)[1] ? strlen((*titles)[1]) : 0);
        base_title_short("a name that is long", 19);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        for (;;) pause();
    }
    char word;
    assert_int_equal(read(ready[0], &word, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return child;
}

static void child_end(pid_t child) {
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
}

static void expect(const char *const titles[][2], const char *line) {
    pid_t child = child_start(titles);
    assert_string_equal(proc_read(child, "cmdline"), line);
    assert_string_equal(proc_read(child, "comm"), "ray::a name tha\n");
    assert_non_null(strstr(proc_read(child, "environ"), environ[0]));
    child_end(child);
}

static void test_the_last_one_is_shown(void **state) {
    (void)state;
    expect((const char *const[][2]){{"f", NULL}, {NULL, NULL}}, "ray::f|");
    expect((const char *const[][2]){{"A", "method"}, {NULL, NULL}}, "ray::A.method|");
    expect((const char *const[][2]){{"A", "method"}, {"A", NULL}, {NULL, NULL}}, "ray::A|");
    expect((const char *const[][2]){{"A", NULL}, {"A", "m"}, {NULL, NULL}}, "ray::A.m|");
    expect((const char *const[][2]){{"A", "m"}, {"A", "m"}, {NULL, NULL}}, "ray::A.m|");
    expect((const char *const[][2]){{"A.m", NULL}, {"A", "mm"}, {"A", "m"}, {NULL, NULL}},
           "ray::A.m|");
    expect((const char *const[][2]){{"\xc3\xa4", "\xc3\xb6"}, {NULL, NULL}},
           "ray::\xc3\xa4.\xc3\xb6|");
}

static void test_a_long_one_is_cut(void **state) {
    (void)state;
    static char name[8192];
    memset(name, 'n', sizeof name - 1);
    size_t space = strlen(proc_read(getpid(), "cmdline")) - 2;
    for (int second = 0; second <= 1; second++) {
        pid_t child = child_start(
            (const char *const[][2]){{second ? "A" : name, second ? name : NULL}, {NULL, NULL}});
        const char *line = proc_read(child, "cmdline");
        assert_int_equal(strlen(line), space + 1);
        assert_int_equal(line[space], '|');
        assert_memory_equal(line, second ? "ray::A.n" : "ray::nnn", 8);
        assert_int_equal(line[space - 1], 'n');
        child_end(child);
    }
}

static void test_without_a_beginning_nothing_is_written(void **state) {
    (void)state;
    static char before[8192];
    strcpy(before, proc_read(getpid(), "cmdline"));
    base_title_set("f", 1, NULL, 0);
    assert_string_equal(proc_read(getpid(), "cmdline"), before);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_one_is_shown),
        cmocka_unit_test(test_a_long_one_is_cut),
        cmocka_unit_test(test_without_a_beginning_nothing_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
