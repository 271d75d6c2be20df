/* Three nodes on one loop, with real sockets between: messages come once and in order, whatever
 * breaks; dead ones are told; nobody speaks in another one's name. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "mesh/mesh.h"

enum { NODES = 3 };

typedef struct {
    mesh_t *mesh;
    uint64_t sent[NODES], got[NODES];
    int silent[NODES], goodbyes, buried, troubles, rooms, strangers;
    char words[256];
} side_t;

static uv_loop_t loop;
static side_t sides[NODES];
static base_random_t chance = {21};

static uint64_t incarnation(int i) { return (uint64_t)i + 101; }

static bool receive(void *context, uint64_t peer, uint64_t sequence, const void *bytes,
                    size_t size) {
    side_t *side = context;
    uint64_t number;
    int from = (int)(peer - incarnation(0));
    if (base_random_chance(&chance, 1, 200)) return false; /* no memory for it now */
    memcpy(&number, bytes, sizeof number);
    assert_true(number == side->got[from] + 1 && sequence == number);
    side->got[from] = number;
    mesh_processed(side->mesh, peer, size);
    return true;
}

static void room(void *context, uint64_t peer) {
    (void)peer;
    ((side_t *)context)->rooms++;
}

static void silent(void *context, uint64_t peer, bool is_silent) {
    ((side_t *)context)->silent[peer - incarnation(0)] += is_silent ? 1 : -1;
}

static void goodbye(void *context, uint64_t peer) {
    (void)peer;
    ((side_t *)context)->goodbyes++;
}

static uint8_t how_to_join[3000]; /* more than one byte's worth of size */

static void buried(void *context, uint64_t by) {
    (void)by;
    ((side_t *)context)->buried++;
}

static uint64_t renewal_age_ms(void *context) {
    (void)context;
    return 0;
}

static void trouble(void *context, const char *address, mob_status_t status) {
    (void)address, (void)status;
    side_t *side = context;
    side->troubles++;
    snprintf(side->words, sizeof side->words, "%s", mob_last_error());
}

static void stranger(void *context, uint64_t number) {
    side_t *side = context;
    side->strangers += number == 999;
}

static const void *welcome(void *context, size_t *ret_size) {
    (void)context;
    *ret_size = sizeof how_to_join;
    return how_to_join;
}

static const mesh_ops_t ops = {.receive = receive,
                               .room = room,
                               .silent = silent,
                               .goodbye = goodbye,
                               .buried = buried,
                               .renewal_age_ms = renewal_age_ms,
                               .trouble = trouble,
                               .stranger = stranger,
                               .welcome = welcome};

static void side_open(int i, uint64_t self) {
    net_secret_t secret;
    net_identity_t own = {.cluster = 7, .incarnation = self, .python_major = 3, .version = "1"};
    net_secret_of("one token for all", 17, &secret);
    mesh_config_t config = {
        .address = "127.0.0.1", .secret = &secret, .self = &own, .room_bytes = 1 << 20};
    memset(&sides[i], 0, sizeof sides[i]);
    assert_int_equal(mesh_open(&loop, &config, &ops, &sides[i], &sides[i].mesh), MOB_OK);
}

static void introduce(int a, int b) {
    assert_int_equal(
        mesh_peer_add(sides[a].mesh, incarnation(b), "127.0.0.1", mesh_port(sides[b].mesh)),
        MOB_OK);
}

static int set_up(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    uv_loop_init(&loop);
    for (int i = 0; i < NODES; i++) side_open(i, incarnation(i));
    for (int i = 0; i < NODES; i++)
        for (int j = 0; j < NODES; j++)
            if (i != j) introduce(i, j);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (int i = 0; i < NODES; i++)
        if (sides[i].mesh != NULL) mesh_close(sides[i].mesh);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void on_limit(uv_timer_t *timer) { *(bool *)timer->data = true; }

#define UNTIL(so)                                             \
    do {                                                      \
        bool is_over = false;                                 \
        uv_timer_t limit;                                     \
        uv_timer_init(&loop, &limit);                         \
        limit.data = &is_over;                                \
        uv_timer_start(&limit, on_limit, 30000, 0);           \
        while (!(so) && !is_over) uv_run(&loop, UV_RUN_ONCE); \
        uv_close((uv_handle_t *)&limit, NULL);                \
        uv_run(&loop, UV_RUN_NOWAIT);                         \
        assert_true(so);                                      \
    } while (0)

static mob_status_t send_to(side_t *side, int to, const void *bytes, size_t size, bool is_answer,
                            uint64_t *ret_sequence) {
    mesh_letter_t letter = {.head = bytes,
                            .head_size = size / 2,
                            .body = (const char *)bytes + size / 2,
                            .body_size = size - size / 2,
                            .is_answer = is_answer};
    return mesh_send(side->mesh, incarnation(to), &letter, ret_sequence);
}

static void say(int from, int to) {
    static uint8_t bytes[70000];
    uint64_t number = sides[from].sent[to] + 1, sequence;
    size_t size = 8 + base_random_below(&chance, base_random_chance(&chance, 1, 50) ? 69000 : 200);
    memcpy(bytes, &number, sizeof number);
    mob_status_t status = send_to(&sides[from], to, bytes, size, false, &sequence);
    if (status == MOB_ELIMIT) return;
    assert_int_equal(status, MOB_OK);
    assert_true(sequence == number);
    sides[from].sent[to] = number;
}

static bool all_have_all(void) {
    for (int i = 0; i < NODES; i++)
        for (int j = 0; j < NODES; j++)
            if (i != j && sides[i].got[j] != sides[j].sent[i]) return false;
    return true;
}

/* Some connection of this process, whichever: as if a router had dropped it. */
static void connection_break(void) {
    for (int tries = 0; tries < 20; tries++) {
        int fd = 3 + (int)base_random_below(&chance, 40);
        struct sockaddr_storage peer;
        socklen_t size = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &size) != 0) continue;
        shutdown(fd, SHUT_RDWR);
        return;
    }
}

static void messages_come_whatever_breaks(void **state) {
    (void)state;
    for (int round = 0; round < 3000; round++) {
        int from = (int)base_random_below(&chance, NODES);
        say(from, (from + 1 + (int)base_random_below(&chance, NODES - 1)) % NODES);
        if (base_random_chance(&chance, 1, 3)) uv_run(&loop, UV_RUN_NOWAIT);
        if (base_random_chance(&chance, 1, 100)) connection_break();
    }
    UNTIL(all_have_all());
    UNTIL(mesh_is_idle(sides[0].mesh, 0) && mesh_is_idle(sides[1].mesh, 0) &&
          mesh_is_idle(sides[2].mesh, 0));
}

static void one_that_leaves_says_so(void **state) {
    (void)state;
    say(0, 1);
    UNTIL(all_have_all());
    mesh_leave(sides[0].mesh);
    UNTIL(sides[1].goodbyes == 1 && sides[2].goodbyes == 1);
    assert_int_equal(send_to(&sides[0], 1, "x", 1, false, NULL), MOB_ECLOSED);
}

static void one_that_is_dead_hears_of_it(void **state) {
    (void)state;
    mesh_peer_close(sides[1].mesh, incarnation(0));
    assert_int_equal(send_to(&sides[1], 0, "x", 1, true, NULL), MOB_ECLOSED);
    say(0, 1);
    UNTIL(sides[0].buried > 0);
    assert_true(sides[1].got[0] == 0);
}

static void one_that_is_gone_is_silent(void **state) {
    (void)state;
    say(0, 1);
    UNTIL(all_have_all());
    mesh_close(sides[0].mesh);
    sides[0].mesh = NULL;
    UNTIL(sides[1].silent[0] == 1);
    assert_int_equal(sides[1].silent[2], 0);
}

typedef struct {
    int answers;
    mob_status_t status;
    size_t size;
    uint8_t bytes[sizeof how_to_join];
} joined_t;

static void welcomed(void *context, mob_status_t status, const void *bytes, size_t size) {
    joined_t *joined = context;
    joined->answers++;
    joined->status = status;
    joined->size = size;
    if (status == MOB_OK && size <= sizeof joined->bytes) memcpy(joined->bytes, bytes, size);
}

/* One that is nobody's peer asks, and so does one that knows another token. */
static void one_that_joins_is_told_how(void **state) {
    (void)state;
    joined_t joined = {0};
    for (size_t i = 0; i < sizeof how_to_join; i++) how_to_join[i] = (uint8_t)(i * 7);
    mesh_close(sides[0].mesh);
    side_open(0, 999);
    uint16_t port = mesh_port(sides[1].mesh);
    assert_int_equal(mesh_join(sides[0].mesh, "127.0.0.1", port, welcomed, &joined), MOB_OK);
    UNTIL(joined.answers == 1);
    assert_int_equal(joined.status, MOB_OK);
    assert_int_equal(joined.size, sizeof how_to_join);
    assert_memory_equal(joined.bytes, how_to_join, sizeof how_to_join);
    assert_int_equal(mesh_join(sides[0].mesh, "somewhere", port, welcomed, &joined), MOB_EINVAL);
    mesh_close(sides[1].mesh);
    sides[1].mesh = NULL;
    assert_int_equal(mesh_join(sides[0].mesh, "127.0.0.1", port, welcomed, &joined), MOB_OK);
    UNTIL(joined.answers == 2);
    assert_int_not_equal(joined.status, MOB_OK);
}

/* The number that a message gets is known before it goes, and a refusal keeps it back. */
static mob_status_t number_note(void *context, uint64_t sequence) {
    uint64_t *noted = context;
    *noted = sequence;
    return sequence == 2 ? MOB_EINVAL : MOB_OK;
}

static void a_message_is_noted_before_it_goes(void **state) {
    (void)state;
    uint64_t noted = 0, sequence = 0, number = 1;
    mesh_letter_t letter = {
        .head = &number, .head_size = sizeof number, .note = number_note, .context = &noted};
    assert_int_equal(mesh_send(sides[0].mesh, incarnation(1), &letter, &sequence), MOB_OK);
    assert_true(noted == 1 && sequence == 1);
    sides[0].sent[1] = 1;
    assert_int_equal(mesh_send(sides[0].mesh, incarnation(1), &letter, &sequence), MOB_EINVAL);
    assert_true(noted == 2);
    say(0, 1); /* as number 2: the other one was none */
    UNTIL(all_have_all());
}

/* A node with another incarnation, at the place of one that is known. */
static void another_one_at_its_place_is_not_taken_for_it(void **state) {
    (void)state;
    side_t *stranger = &sides[0];
    mesh_close(stranger->mesh);
    side_open(0, 999);
    assert_int_equal(
        mesh_peer_add(stranger->mesh, incarnation(1), "127.0.0.1", mesh_port(sides[1].mesh)),
        MOB_OK);
    uint64_t number = 1;
    send_to(stranger, 1, &number, sizeof number, false, NULL);
    UNTIL(sides[1].strangers > 0 && (stranger->troubles > 0 || sides[1].silent[0] == 1));
    assert_true(sides[1].got[0] == 0);
    assert_false(mesh_is_idle(stranger->mesh, 0)); /* nobody there knows it */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_come_whatever_breaks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_leaves_says_so, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_dead_hears_of_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_is_gone_is_silent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_that_joins_is_told_how, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_is_noted_before_it_goes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_one_at_its_place_is_not_taken_for_it, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
