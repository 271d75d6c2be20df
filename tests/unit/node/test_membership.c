/*
 * Membership on a real Redis: three nodes in one process, each with a connection of its own. Redis
 * stops and goes on, and nobody pauses for that; one node dies and is buried. What the simulator
 * has tried from seeds is tried here once, against a server and its clock.
 */
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "member/member.h"
#include "redis/keeper.h"

enum { NODES = 3 };

typedef struct {
    member_t *member;
    redis_keeper_t *keeper;
    uv_timer_t tick, beat;
    bool is_up;
    int joined, died, pauses;
    uint64_t leader, dead, number;
    bool is_paused, has_begun;
} node_side_t;

static uv_loop_t loop;
static pid_t server;
static uint16_t port;
static char folder[64];
static node_side_t nodes[NODES];
static uint64_t beat_ns; /* the newest heartbeat of anybody */
static bool is_late;     /* this process stood still for longer than membership allows for */

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t incarnation(int i) { return (uint64_t)(i + 1) * 0x1111111111111111; }

static node_side_t *node_of(uint64_t peer) {
    for (int i = 0; i < NODES; i++)
        if (incarnation(i) == peer && nodes[i].is_up) return &nodes[i];
    return NULL;
}

/* ---- what membership asks of its node ---- */

typedef struct {
    node_side_t *node;
    uint64_t request;
} asked_t;

static void tick(node_side_t *node);

static void answered(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    asked_t *asked = context;
    if (asked->node->is_up)
        assert_int_equal(member_answer(asked->node->member, now_ns(), asked->request, answer, size),
                         MOB_OK);
    node_side_t *node = asked->node;
    free(asked);
    if (node->is_up) tick(node);
}

static void ask(void *context, uint64_t request, script_fn script, const void *arguments,
                size_t size) {
    node_side_t *node = context;
    asked_t *asked = malloc(sizeof *asked);
    *asked = (asked_t){node, request};
    assert_int_equal(redis_keeper_ask(node->keeper, script, arguments, size, answered, asked),
                     MOB_OK);
}

static void send_to(void *context, uint64_t peer, const void *bytes, size_t size) {
    node_side_t *from = context, *to = node_of(peer);
    if (to != NULL)
        member_receive(to->member, now_ns(), incarnation((int)(from - nodes)), bytes, size);
}

static void began(void *context, uint64_t number) {
    (void)number;
    ((node_side_t *)context)->has_begun = true;
}

static void joined(void *context, uint64_t peer, const void *blob, size_t size) {
    (void)peer;
    assert_int_equal(size, 7);
    assert_memory_equal(blob, "a place", 7);
    ((node_side_t *)context)->joined++;
}

static void died(void *context, uint64_t peer, uint64_t number) {
    node_side_t *node = context;
    node->died++;
    node->dead = peer;
    node->number = number;
    member_closed(node->member, number);
}

static void struck(void *context, uint64_t number) { (void)context, (void)number; }
static void term(void *context, uint64_t end_ns) { (void)context, (void)end_ns; }

static void paused(void *context, bool is_paused) {
    node_side_t *node = context;
    node->is_paused = is_paused;
    node->pauses += is_paused;
}

static void leads(void *context, uint64_t leader, uint64_t fence) {
    (void)fence;
    ((node_side_t *)context)->leader = leader;
}

static void master(void *context, uint64_t number) {
    member_said(((node_side_t *)context)->member, number);
}

static void settled(void *context, uint64_t number) { (void)context, (void)number; }

static void over(void *context, member_end_t why, uint64_t number) {
    (void)context, (void)number;
    fail_msg("an incarnation is over for reason %d", (int)why);
}

static void poisoned(void *context, const char *key) {
    (void)context;
    fail_msg("%s makes no sense", key);
}

static const member_ops_t ops = {.ask = ask,
                                 .send = send_to,
                                 .began = began,
                                 .joined = joined,
                                 .died = died,
                                 .struck = struck,
                                 .term = term,
                                 .paused = paused,
                                 .leads = leads,
                                 .master = master,
                                 .settled = settled,
                                 .over = over,
                                 .poisoned = poisoned};

/* ---- a node ---- */

static void changed(void *context, bool is_there, mob_status_t status) {
    (void)context, (void)is_there, (void)status;
}

static const redis_keeper_ops_t keeper_ops = {changed};

static void on_tick(uv_timer_t *timer) { tick(timer->data); }

static void tick(node_side_t *node) {
    uint64_t now = now_ns(), next = member_tick(node->member, now);
    uv_timer_start(&node->tick, on_tick, next > now ? (next - now) / 1000000 + 1 : 0, 0);
}

static void on_beat(uv_timer_t *timer) {
    node_side_t *node = timer->data;
    uint64_t now = now_ns();
    is_late |= beat_ns != 0 && now - beat_ns > (MEMBER_RENEW_MS + 200) * UINT64_C(1000000);
    beat_ns = now;
    for (int i = 0; i < NODES; i++) {
        uint8_t pulse[MEMBER_PULSE_SIZE];
        if (&nodes[i] == node || !nodes[i].is_up) continue;
        member_pulse_write(node->member, now_ns(), incarnation(i), pulse);
        assert_int_equal(member_pulse_read(nodes[i].member, now_ns(),
                                           incarnation((int)(node - nodes)), pulse, sizeof pulse),
                         MOB_OK);
    }
}

static void node_start(int i) {
    node_side_t *node = &nodes[i];
    redis_settings_t settings = {.at = {"127.0.0.1", port}, .cluster = 9};
    member_config_t config = {.self = incarnation(i),
                              .cluster = {9, 9},
                              .founds = i == 0,
                              .blob = "a place",
                              .blob_size = 7};
    node->is_up = true;
    assert_int_equal(redis_keeper_open(&loop, &settings, &keeper_ops, node, &node->keeper), MOB_OK);
    assert_int_equal(member_new(&config, &ops, node, &node->member), MOB_OK);
    uv_timer_init(&loop, &node->tick);
    uv_timer_init(&loop, &node->beat);
    node->tick.data = node->beat.data = node;
    uv_timer_start(&node->beat, on_beat, MEMBER_RENEW_MS, MEMBER_RENEW_MS);
    tick(node);
}

static void node_end(node_side_t *node) {
    if (!node->is_up) return;
    node->is_up = false;
    redis_keeper_close(node->keeper);
    uv_close((uv_handle_t *)&node->tick, NULL);
    uv_close((uv_handle_t *)&node->beat, NULL);
    member_free(node->member);
}

/* ---- the server ---- */

static bool has_server(void) { return system("command -v redis-server >/dev/null") == 0; }

static int set_up(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    if (!has_server()) return 0;
    strcpy(folder, "/tmp/mobula-membership-XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    port = (uint16_t)(20000 + getpid() % 20000);
    char number[8];
    snprintf(number, sizeof number, "%u", port);
    server = fork();
    if (server > 0) return 0;
    int null = open("/dev/null", O_RDWR);
    dup2(null, 1);
    dup2(null, 2);
    execlp("redis-server", "redis-server", "--port", number, "--bind", "127.0.0.1", "--dir", folder,
           "--save", "", NULL);
    _exit(127);
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < NODES; i++) node_end(&nodes[i]);
    uv_run(&loop, UV_RUN_DEFAULT);
    if (!has_server()) return uv_loop_close(&loop);
    kill(server, SIGCONT);
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) + uv_loop_close(&loop);
}

static void on_limit(uv_timer_t *timer) { *(bool *)timer->data = true; }

static bool run_for(bool (*is_so)(void), uint64_t limit_ms) {
    bool is_over = false;
    uv_timer_t limit;
    uv_timer_init(&loop, &limit);
    limit.data = &is_over;
    uv_timer_start(&limit, on_limit, limit_ms, 0);
    while (!is_so() && !is_over) uv_run(&loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&limit, NULL);
    uv_run(&loop, UV_RUN_NOWAIT);
    return is_so();
}

static bool never(void) { return false; }

static bool all_know_each_other(void) {
    for (int i = 0; i < NODES; i++)
        if (!nodes[i].has_begun || nodes[i].joined < NODES - 1 || nodes[i].leader == 0)
            return false;
    return nodes[0].leader == nodes[1].leader && nodes[1].leader == nodes[2].leader;
}

static bool the_others_heard(void) { return nodes[0].died == 1 && nodes[1].died == 1; }

static void three_nodes_one_of_which_dies(void **state) {
    (void)state;
    if (!has_server()) skip();
    uint64_t began_ns = now_ns();
    for (int i = 0; i < NODES; i++) node_start(i);
    assert_true(run_for(all_know_each_other, 60000));
    print_message("all know each other after %.2f s\n", (double)(now_ns() - began_ns) / 1e9);
    run_for(never, 3000); /* renewals */

    kill(server, SIGSTOP);
    run_for(never, 4000);
    kill(server, SIGCONT);
    run_for(never, 4000);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(nodes[i].died, 0);
        assert_false(nodes[i].is_paused && !is_late);
        if (!is_late) assert_int_equal(nodes[i].pauses, 0); /* it was away for all */
    }
    if (is_late) print_message("this process was late: whether nobody paused is not known\n");

    began_ns = now_ns();
    node_end(&nodes[2]);
    assert_true(run_for(the_others_heard, 60000));
    print_message("its tombstone came after %.2f s\n", (double)(now_ns() - began_ns) / 1e9);
    assert_true(nodes[0].dead == incarnation(2) && nodes[1].dead == incarnation(2));
    assert_true(nodes[0].number == nodes[1].number && nodes[0].number > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(three_nodes_one_of_which_dies, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
