/* Sentinels: where they are, whom they name, and a master that dies while scripts are asked. */
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

enum { SERVERS = 3, SENTINELS = 3 };

static uv_loop_t loop;
static char folder[64];
static pid_t processes[SERVERS + SENTINELS];
static uint16_t first_port;

static bool has_server(void) {
    return system("command -v redis-server >/dev/null && command -v redis-cli >/dev/null") == 0;
}

static void start(int which, const char *text) {
    char path[96], *sentinel = which >= SERVERS ? "--sentinel" : NULL;
    snprintf(path, sizeof path, "%s/%d.conf", folder, which);
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
    processes[which] = fork();
    if (processes[which] > 0) return;
    int null = open("/dev/null", O_RDWR);
    dup2(null, 1);
    dup2(null, 2);
    execlp("redis-server", "redis-server", path, sentinel, NULL);
    _exit(127);
}

static uint16_t port_of(int which) { return (uint16_t)(first_port + which); }

static void servers_start(void) {
    char text[512], replica[64];
    for (int i = 0; i < SERVERS; i++) {
        snprintf(replica, sizeof replica, "replicaof 127.0.0.1 %u\n", port_of(0));
        snprintf(text, sizeof text,
                 "port %u\nbind 127.0.0.1\ndir %s\ndbfilename %d.rdb\nsave \"\"\n"
                 "repl-diskless-sync-delay 0\nrepl-ping-replica-period 1\n%s",
                 port_of(i), folder, i, i > 0 ? replica : "");
        start(i, text);
    }
    for (int i = SERVERS; i < SERVERS + SENTINELS; i++) {
        snprintf(
            text, sizeof text,
            "port %u\nbind 127.0.0.1\ndir %s\nsentinel monitor ours 127.0.0.1 %u 2\n"
            "sentinel down-after-milliseconds ours 1000\nsentinel failover-timeout ours 3000\n",
            port_of(i), folder, port_of(0));
        start(i, text);
    }
}

/* The sentinels know each other and all replicas, which are in step. */
static bool are_ready(void) {
    char command[512];
    snprintf(command, sizeof command,
             "for i in 1 2 3; do s=$(redis-cli -p $((%u + i)) sentinel master ours 2>/dev/null) || "
             "exit 1; echo \"$s\" | grep -A1 num-slaves | grep -qx 2 || exit 1; echo \"$s\" | grep "
             "-A1 num-other-sentinels | grep -qx 2 || exit 1; done; "
             "redis-cli -p %u info replication | grep -c state=online | grep -qx 2",
             port_of(SERVERS) - 1, port_of(0));
    return system(command) == 0;
}

static int group_up(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    if (!has_server()) return 0;
    strcpy(folder, "/tmp/mobula-master-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    first_port = (uint16_t)(40000 + getpid() % 2500 * 8);
    servers_start();
    for (int i = 0; i < 300; i++) {
        if (are_ready()) return 0;
        usleep(200000);
    }
    return -1;
}

static int group_down(void **state) {
    (void)state;
    if (!has_server()) return 0;
    for (int i = 0; i < SERVERS + SENTINELS; i++) {
        kill(processes[i], SIGKILL);
        waitpid(processes[i], NULL, 0);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static void places_are_read(void **state) {
    (void)state;
    redis_sentinels_t s;
    assert_int_equal(redis_sentinels_read("ours@10.0.0.1:26379,[::1]:5", &s), MOB_EINVAL);
    assert_int_equal(redis_sentinels_read("ours@10.0.0.1:26379,10.0.0.2:26380", &s), MOB_OK);
    assert_string_equal(s.name, "ours");
    assert_int_equal(s.count, 2);
    assert_string_equal(s.at[1].host, "10.0.0.2");
    assert_int_equal(s.at[1].port, 26380);
    assert_int_equal(redis_sentinels_read("m@::1:26379", &s), MOB_OK);
    assert_string_equal(s.at[0].host, "::1");
    const char *wrong[] = {"",
                           "10.0.0.1:26379",
                           "ours@",
                           "ours@a.name:1",
                           "@1.1.1.1:1",
                           "ours@10.0.0.1",
                           "ours@10.0.0.1:0",
                           "ours@10.0.0.1:99999",
                           "ours@10.0.0.1:1,",
                           "ours@10.0.0.1:1x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(redis_sentinels_read(wrong[i], &s), MOB_EINVAL);
}

/* ---- a master that dies ---- */

typedef struct {
    redis_keeper_t *keeper;
    int answers, lost;
    uint64_t last, first_master, master;
    bool is_done;
} side_t;

static void changed(void *context, bool is_there, mob_status_t status) {
    (void)context, (void)is_there, (void)status;
}

static const redis_keeper_ops_t ops = {changed};

static size_t count_script(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer) {
    (void)arguments, (void)size;
    uint64_t number = 0;
    size_t found;
    const void *value = keys->get(keys->context, "count", &found);
    if (value != NULL) memcpy(&number, value, sizeof number);
    number++;
    keys->set(keys->context, "count", &number, sizeof number, 0);
    memcpy(answer, &number, sizeof number);
    return sizeof number;
}

static void answered(void *context, uint64_t master, const void *answer, size_t size) {
    side_t *side = context;
    uint64_t number;
    side->answers++;
    if (answer == NULL) {
        side->lost++;
    } else {
        assert_int_equal(size, sizeof number);
        memcpy(&number, answer, size);
        assert_true(number > side->last); /* nothing that was answered is ever gone */
        assert_true(master >= side->master);
        side->last = number;
        side->master = master;
        if (side->first_master == 0) side->first_master = master;
    }
    if (!side->is_done) redis_keeper_ask(side->keeper, count_script, NULL, 0, answered, side);
}

static void on_late(uv_timer_t *timer) { *(bool *)timer->data = true; }

static void run_until(bool (*so)(const side_t *), const side_t *side) {
    bool is_late = false;
    uv_timer_t limit;
    uv_timer_init(&loop, &limit);
    limit.data = &is_late;
    uv_timer_start(&limit, on_late, 60000, 0);
    while (!so(side) && !is_late) uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_true(so(side));
}

static bool has_counted(const side_t *side) { return side->last > 100; }
static bool has_moved(const side_t *side) {
    return side->first_master != 0 && side->master > side->first_master;
}

static void a_master_that_dies_loses_nothing_that_was_answered(void **state) {
    (void)state;
    if (!has_server()) skip();
    side_t side = {0};
    redis_settings_t settings = {.cluster = 5};
    char text[128];
    snprintf(text, sizeof text, "ours@127.0.0.1:%u,127.0.0.1:%u,127.0.0.1:%u", port_of(SERVERS),
             port_of(SERVERS + 1), port_of(SERVERS + 2));
    assert_int_equal(redis_sentinels_read(text, &settings.sentinels), MOB_OK);
    uv_loop_init(&loop);
    assert_int_equal(redis_keeper_open(&loop, &settings, &ops, &side, &side.keeper), MOB_OK);
    redis_keeper_ask(side.keeper, count_script, NULL, 0, answered, &side);
    run_until(has_counted, &side);
    kill(processes[0], SIGKILL);
    run_until(has_moved, &side);
    assert_true(side.lost > 0);
    side.is_done = true;
    redis_keeper_close(side.keeper);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(places_are_read),
        cmocka_unit_test(a_master_that_dies_loses_nothing_that_was_answered),
    };
    return cmocka_run_group_tests(tests, group_up, group_down);
}
