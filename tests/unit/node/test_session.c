/* The session's folder, and other sessions of the user that begin and end meanwhile. */
#include "fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../root.h"

enum { SESSIONS = 1500 };

static char parent[2 * PATH_MAX];
static pid_t others;

static int setup(void **state) {
    if (root_make(state) != 0) return -1;
    snprintf(parent, sizeof parent, "%s/mobula-%u", root, (unsigned)geteuid());
    return 0;
}

static int teardown(void **state) {
    if (others > 0) {
        kill(others, SIGKILL);
        waitpid(others, NULL, 0);
        others = 0;
    }
    return root_remove(state);
}

static mob_status_t session_open_and_close(node_t *n) {
    *n = (node_t){.config.temp_dir = root, .session.listen_fd = -1};
    /* the lowest number that is free: what is opened comes from there on */
    int first = fcntl(0, F_DUPFD, 0);
    close(first);
    mob_status_t status = node_session_open(n);
    node_session_close(n);
    /* the folder's descriptor too, which a daemon keeps until it ends */
    syscall(SYS_close_range, first, ~0u, 0);
    free(n->session.dir);
    free(n->session.socket_path);
    return status;
}

/* Others that end remove the folder of all sessions as soon as it is empty: also between two steps
 * of ours. */
static void test_the_outer_folder_comes_and_goes(void **state) {
    (void)state;
    others = fork();
    if (others == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            mkdir(parent, 0700);
            rmdir(parent);
            usleep(50);
        }
    }
    node_t *n = malloc(sizeof *n);
    assert_non_null(n);
    for (int i = 0; i < SESSIONS; i++)
        if (session_open_and_close(n) != MOB_OK) fail_msg("session %d: %s", i, mob_last_error());
    free(n);
}

static void test_a_folder_that_is_not_there(void **state) {
    (void)state;
    char nowhere[2 * PATH_MAX];
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", root);
    node_t *n = calloc(1, sizeof *n);
    assert_non_null(n);
    n->config.temp_dir = nowhere;
    assert_int_equal(node_session_open(n), MOB_ESYS);
    assert_non_null(strstr(mob_last_error(), "nowhere"));
    assert_null(n->session.dir);
    free(n);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_outer_folder_comes_and_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_folder_that_is_not_there, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
