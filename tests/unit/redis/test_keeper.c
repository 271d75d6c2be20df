/* The keeper, on a real server: scripts are one step each, whoever else asks; ends are told. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "redis/keeper.h"

enum { KEEPERS = 3, EACH = 100 };

static uv_loop_t loop;
static pid_t server;
static uint16_t port;
static char folder[64];

typedef struct {
    redis_keeper_t *keeper;
    int there, away;
    mob_status_t status;
    char words[256];
    int answers, lost;
    uint64_t sum, last, master;
} side_t;

static side_t sides[KEEPERS]; /* of the test that runs */

static bool has_server(void) { return system("command -v redis-server >/dev/null") == 0; }

static void server_start(void) {
    char number[8];
    snprintf(number, sizeof number, "%u", port);
    server = fork();
    if (server == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 1);
        dup2(null, 2);
        execlp("redis-server", "redis-server", "--port", number, "--bind", "127.0.0.1", "--dir",
               folder, "--requirepass", "a password", "--appendonly", "yes", "--appendfsync",
               "always", NULL);
        _exit(127);
    }
}

static void server_end(int signal_number) {
    kill(server, SIGCONT);
    kill(server, signal_number);
    waitpid(server, NULL, 0);
}

static int group_up(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (!has_server()) return 0;
    strcpy(folder, "/tmp/mobula-keeper-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    port = (uint16_t)(20000 + getpid() % 20000);
    server_start();
    return 0;
}

static int group_down(void **state) {
    (void)state;
    if (!has_server()) return 0;
    server_end(SIGKILL);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void changed(void *context, bool is_there, mob_status_t status) {
    side_t *side = context;
    *(is_there ? &side->there : &side->away) += 1;
    side->status = status;
    snprintf(side->words, sizeof side->words, "%s", mob_last_error());
}

static const redis_keeper_ops_t ops = {changed};

static void side_open(side_t *side, uint64_t cluster, const char *password) {
    redis_settings_t settings = {
        .at = {"127.0.0.1", port}, .password = password, .cluster = cluster};
    assert_int_equal(redis_keeper_open(&loop, &settings, &ops, side, &side->keeper), MOB_OK);
}

static int set_up(void **state) {
    (void)state;
    memset(sides, 0, sizeof sides);
    return uv_loop_init(&loop);
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < KEEPERS; i++)
        if (sides[i].keeper != NULL) redis_keeper_close(sides[i].keeper);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void on_late(uv_timer_t *timer) { *(bool *)timer->data = true; }

#define UNTIL(so)                                             \
    do {                                                      \
        bool is_late = false;                                 \
        uv_timer_t limit;                                     \
        uv_timer_init(&loop, &limit);                         \
        limit.data = &is_late;                                \
        uv_timer_start(&limit, on_late, 30000, 0);            \
        while (!(so) && !is_late) uv_run(&loop, UV_RUN_ONCE); \
        uv_close((uv_handle_t *)&limit, NULL);                \
        uv_run(&loop, UV_RUN_NOWAIT);                         \
        assert_true(so);                                      \
    } while (0)

static void answered(void *context, uint64_t master, const void *answer, size_t size) {
    side_t *side = context;
    side->answers++;
    if (answer == NULL) {
        side->lost++;
        return;
    }
    assert_int_equal(size, sizeof side->last);
    memcpy(&side->last, answer, size);
    side->sum += side->last;
    side->master = master;
}

static void ask(side_t *side, script_fn script, uint64_t argument) {
    assert_int_equal(
        redis_keeper_ask(side->keeper, script, &argument, sizeof argument, answered, side), MOB_OK);
}

static uint64_t number_at(const script_keys_t *keys, const char *key) {
    size_t size;
    uint64_t number = 0;
    const void *value = keys->get(keys->context, key, &size);
    if (value != NULL && size == sizeof number) memcpy(&number, value, size);
    return number;
}

/* Counts, and writes down who was the how many-th: two keys, which must never disagree. */
static size_t count_script(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    uint64_t number = number_at(keys, "count") + 1, who;
    assert_int_equal(size, sizeof who);
    memcpy(&who, arguments, size);
    char key[SCRIPT_KEY_MAX];
    snprintf(key, sizeof key, "turn/%08llu", (unsigned long long)number);
    keys->set(keys->context, "count", &number, sizeof number, 0);
    keys->set(keys->context, key, &who, sizeof who, 0);
    memcpy(answer, &number, sizeof number);
    return sizeof number;
}

/* How many turns there are. */
static size_t walk_script(const script_keys_t *keys, const void *arguments, size_t size,
                          void *answer) {
    (void)arguments, (void)size;
    char at[SCRIPT_KEY_MAX] = "";
    uint64_t count = 0;
    for (const char *key; (key = keys->next(keys->context, "turn/", at)) != NULL; count++)
        snprintf(at, sizeof at, "%s", key);
    memcpy(answer, &count, sizeof count);
    return sizeof count;
}

static size_t clear_script(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    const char *key;
    walk_script(keys, arguments, size, answer);
    while ((key = keys->next(keys->context, "turn/", NULL)) != NULL) {
        char copy[SCRIPT_KEY_MAX];
        snprintf(copy, sizeof copy, "%s", key);
        keys->del(keys->context, copy);
    }
    return sizeof(uint64_t);
}

static size_t lease_script(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    uint64_t found = number_at(keys, "lease"), asked;
    memcpy(&asked, arguments, size);
    if (found == 0) keys->set(keys->context, "lease", &asked, sizeof asked, 300);
    memcpy(answer, &found, sizeof found);
    return sizeof found;
}

static void scripts_are_one_step_each(void **state) {
    (void)state;
    if (!has_server()) skip();
    for (int i = 0; i < KEEPERS; i++) side_open(&sides[i], 1, "a password");
    for (int round = 0; round < EACH; round++)
        for (int i = 0; i < KEEPERS; i++) {
            ask(&sides[i], count_script, (uint64_t)i);
            if (round % 7 == i) uv_run(&loop, UV_RUN_NOWAIT);
        }
    UNTIL(sides[0].answers == EACH && sides[1].answers == EACH && sides[2].answers == EACH);
    uint64_t sum = 0, all = KEEPERS * EACH;
    for (int i = 0; i < KEEPERS; i++) {
        sum += sides[i].sum;
        assert_int_equal(sides[i].lost, 0);
        assert_true(sides[i].master == sides[0].master && sides[i].master > 0);
    }
    assert_true(sum == all * (all + 1) / 2); /* each number was given out once */
    ask(&sides[1], walk_script, 0);
    UNTIL(sides[1].answers == EACH + 1);
    assert_true(sides[1].last == all);
    ask(&sides[2], clear_script, 0);
    ask(&sides[2], walk_script, 0);
    ask(&sides[1], walk_script, 0);
    UNTIL(sides[2].answers == EACH + 2 && sides[1].answers == EACH + 2);
    assert_true(sides[2].last == 0);
}

static void what_has_a_time_limit_goes(void **state) {
    (void)state;
    if (!has_server()) skip();
    side_t *a = &sides[0], *b = &sides[1];
    side_open(a, 2, "a password");
    side_open(b, 2, "a password");
    ask(a, lease_script, 11);
    UNTIL(a->answers == 1);
    ask(b, lease_script, 22);
    UNTIL(b->answers == 1);
    assert_true(a->last == 0 && b->last == 11);
    for (int i = 2; b->last != 0; i++) {
        ask(b, lease_script, 22);
        UNTIL(b->answers == i);
    }
    ask(a, lease_script, 33);
    UNTIL(a->answers == 2);
    assert_true(a->last == 22);
}

static void a_wrong_password_gets_no_answers(void **state) {
    (void)state;
    if (!has_server()) skip();
    side_t *side = &sides[0];
    side_open(side, 3, "another one");
    ask(side, count_script, 0);
    UNTIL(side->answers == 1);
    assert_int_equal(side->lost, 1);
    assert_int_equal(side->there, 0);
    assert_int_equal(side->away, 1); /* and it is told why, once */
    assert_int_equal(side->status, MOB_EPERM);
    assert_non_null(strstr(side->words, "password"));
}

static void a_server_that_stops_and_one_that_dies(void **state) {
    (void)state;
    if (!has_server()) skip();
    side_t *side = &sides[0];
    side_open(side, 4, "a password");
    ask(side, count_script, 0);
    UNTIL(side->answers == 1 && side->there == 1);
    uint64_t master = side->master;
    kill(server, SIGSTOP);
    ask(side, count_script, 0);
    UNTIL(side->answers == 2);
    assert_int_equal(side->lost, 1);
    assert_int_equal(side->away, 1);
    kill(server, SIGCONT);
    UNTIL(side->there == 2);
    ask(side, count_script, 0);
    UNTIL(side->answers == 3);
    assert_true(side->last == 2 || side->last == 3); /* the lost one ran, or not */
    assert_true(side->master == master);
    server_end(SIGKILL);
    UNTIL(side->away == 2);
    server_start();
    UNTIL(side->there == 3);
    uint64_t before = side->last;
    ask(side, count_script, 0);
    UNTIL(side->answers == 4);
    assert_true(side->last == before + 1); /* nothing that was answered is lost */
    assert_true(side->master > master);    /* a new life of the server is a new master */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scripts_are_one_step_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_has_a_time_limit_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_wrong_password_gets_no_answers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_server_that_stops_and_one_that_dies, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, group_up, group_down);
}
