/* The token: where it is found, who may read it, and that it is made once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/token.h"

static char home[64];

static int set_up(void **state) {
    (void)state;
    strcpy(home, "/tmp/mobula-token-XXXXXX");
    assert_non_null(mkdtemp(home));
    setenv("HOME", home, 1);
    unsetenv("RAY_AUTH_TOKEN");
    unsetenv("RAY_AUTH_TOKEN_PATH");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", home);
    return system(command);
}

static const char *file_write(const char *name, const char *text, mode_t mode) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", home, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    chmod(path, mode);
    return path;
}

static void the_variable_comes_first(void **state) {
    (void)state;
    net_token_t token;
    setenv("RAY_AUTH_TOKEN_PATH", file_write("t", "of the file\n", 0600), 1);
    assert_int_equal(net_token_find(&token), MOB_OK);
    assert_string_equal(token.text, "of the file");
    setenv("RAY_AUTH_TOKEN", "  of the variable ", 1);
    assert_int_equal(net_token_find(&token), MOB_OK);
    assert_string_equal(token.text, "of the variable");
    assert_int_equal(token.size, 15);
}

static void without_one_it_says_so(void **state) {
    (void)state;
    net_token_t token;
    assert_int_equal(net_token_find(&token), MOB_ENONAME);
    setenv("RAY_AUTH_TOKEN_PATH", "/nowhere/at/all", 1);
    assert_int_equal(net_token_find(&token), MOB_EINVAL); /* that one was asked for */
    assert_non_null(strstr(mob_last_error(), "/nowhere/at/all"));
}

static void others_must_not_read_it(void **state) {
    (void)state;
    net_token_t token;
    setenv("RAY_AUTH_TOKEN_PATH", file_write("t", "open to all", 0640), 1);
    assert_int_equal(net_token_find(&token), MOB_EPERM);
    assert_non_null(strstr(mob_last_error(), "chmod 600"));
    setenv("RAY_AUTH_TOKEN_PATH", home, 1);
    assert_int_equal(net_token_find(&token), MOB_EINVAL); /* a folder */
}

static void its_length_is_bounded(void **state) {
    (void)state;
    net_token_t token;
    char *large = malloc(1 << 20);
    memset(large, 'x', (1 << 20) - 1);
    large[(1 << 20) - 1] = 0;
    const char *wrong[] = {"short", "     \n", large};
    for (int i = 0; i < 3; i++) {
        setenv("RAY_AUTH_TOKEN_PATH", file_write("t", wrong[i], 0600), 1);
        assert_int_equal(net_token_find(&token), MOB_EINVAL);
        assert_null(strstr(mob_last_error(), "xxxx")); /* the token itself is not told */
    }
    setenv("RAY_AUTH_TOKEN", "tiny", 1);
    assert_int_equal(net_token_find(&token), MOB_EINVAL);
    assert_null(strstr(mob_last_error(), "tiny"));
    free(large);
}

static void it_is_made_once(void **state) {
    (void)state;
    net_token_t first, again;
    struct stat about;
    char path[128];
    assert_int_equal(net_token_make(&first), MOB_OK);
    assert_int_equal(first.size, 64);
    snprintf(path, sizeof path, "%s/.ray/auth_token", home);
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0600);
    assert_int_equal(net_token_make(&again), MOB_OK);
    assert_string_equal(first.text, again.text);
}

/* Many at once: all get the same, and nothing else is left in the folder. */
static void several_make_it_at_once(void **state) {
    (void)state;
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    enum { CHILDREN = 8 };
    for (int i = 0; i < CHILDREN; i++) {
        if (fork() > 0) continue;
        net_token_t token;
        if (net_token_make(&token) != MOB_OK) _exit(1);
        _exit(write(pipe_fds[1], token.text, 64) == 64 ? 0 : 1);
    }
    char texts[CHILDREN][64];
    for (int i = 0; i < CHILDREN; i++) {
        int status;
        assert_true(wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int i = 0; i < CHILDREN; i++) {
        assert_int_equal(read(pipe_fds[0], texts[i], 64), 64);
        assert_memory_equal(texts[i], texts[0], 64);
    }
    char command[128];
    snprintf(command, sizeof command, "test $(ls -A '%s/.ray' | wc -l) = 1", home);
    assert_int_equal(system(command), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_variable_comes_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_one_it_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(others_must_not_read_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(its_length_is_bounded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(it_is_made_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(several_make_it_at_once, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
