/*
 * Clients that write garbage into what they share with the daemon. The daemon ends such a client
 * and serves the others on; if it was the driver, the daemon ends, of its own accord and not by a
 * crash.
 *
 * The program is all of the system but the daemon: the driver that runs the tests, the zygote that
 * the daemon starts (this program with "zygote"), and the workers that it forks. A worker does what
 * the task's name says.
 *
 * Usage: test_hostile MOBULAD
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../random.h"
#include "client/client.h"

static const char *daemon_path, *own_path;

/* ---- garbage ---- */

static void notify(mob_client_t *c) {
    if (!shm_node_notify(c->node, c->number)) return;
    uint64_t one = 1;
    (void)!write(c->daemon_event, &one, sizeof one);
}

static void push(mob_client_t *c, uint32_t kind, uint32_t a, uint64_t b, uint64_t third,
                 uint64_t fourth) {
    wire_message_t m = {.query = {kind, a, b, third, fourth}};
    while (!shm_ring_push(c->up, SHM_UP_MESSAGES, &m)) sched_yield();
    notify(c);
}

static void tail_far_ahead(mob_client_t *c) {
    atomic_store(&c->up->tail, atomic_load(&c->up->tail) + SHM_UP_MESSAGES + 1);
    notify(c);
}

static void tail_behind(mob_client_t *c) {
    atomic_store(&c->up->tail, atomic_load(&c->up->tail) - 1);
    notify(c);
}

static void unknown_kind(mob_client_t *c) { push(c, 4711, 1, 2, 3, 4); }
static void daemons_own_kind(mob_client_t *c) { push(c, WIRE_RUN, 1, 2, 3, 4); }
static void extent_of_nothing(mob_client_t *c) { push(c, WIRE_NEED_EXTENT, 0, 0, 0, 0); }
static void slots_without_end(mob_client_t *c) { push(c, WIRE_NEED_SLOTS, UINT32_MAX, 0, 0, 0); }
static void records_without_end(mob_client_t *c) {
    push(c, WIRE_NEED_RECORDS, UINT32_MAX, 0, 0, 0);
}
static void record_of_nobody(mob_client_t *c) {
    push(c, WIRE_SUBMIT, WIRE_MAX_RECORDS - 1, 1, 0, 0);
}
static void record_out_of_range(mob_client_t *c) { push(c, WIRE_SUBMIT, UINT32_MAX, 1, 0, 0); }
static void done_with_anothers(mob_client_t *c) { push(c, WIRE_DONE, 5, 1, 0, 0); }
static void done_out_of_range(mob_client_t *c) { push(c, WIRE_DONE, UINT32_MAX, 1, 0, 0); }
static void retry_of_nothing(mob_client_t *c) { push(c, WIRE_RETRY, 0, UINT64_MAX, 0, 0); }
static void answer_outside(mob_client_t *c) {
    push(c, WIRE_QUERY, MOB_QUERY_RESOURCES, 0, UINT64_MAX - 100, 4096);
}
static void answer_too_large(mob_client_t *c) {
    push(c, WIRE_QUERY, MOB_QUERY_RESOURCES, 0, 64, UINT64_MAX);
}
static void items_outside(mob_client_t *c) {
    push(c, WIRE_KV, MOB_KV_PUT, 64, UINT64_MAX - 100, 4096);
}
static void items_longer_than_their_space(mob_client_t *c) {
    push(c, WIRE_KV, MOB_KV_PUT, 65, 0, 64);
}
/* They are refused, which is no fault. */
static void items_cut_short(mob_client_t *c) { push(c, WIRE_KV, MOB_KV_PUT, 7, 0, 64); }
static void items_for_nothing(mob_client_t *c) { push(c, WIRE_KV, UINT32_MAX, 0, 0, 64); }
static void shape_outside(mob_client_t *c) { push(c, WIRE_SHAPE, 1, 100, c->arena.size - 1, 100); }
static void shape_too_long(mob_client_t *c) { push(c, WIRE_SHAPE, UINT32_MAX, UINT64_MAX, 64, 64); }
static void shape_of_many(mob_client_t *c) {
    push(c, WIRE_SHAPE, MOB_MAX_RESOURCES + 1, 64, 0, 64);
}
static void shape_cut_short(mob_client_t *c) { push(c, WIRE_SHAPE, 2, 16, 0, 64); }
static void shape_not_held(mob_client_t *c) {
    push(c, WIRE_SHAPE_DROP, MOB_SHAPE_ONE_CPU, 0, 0, 0);
}
static void shape_of_nobody(mob_client_t *c) { push(c, WIRE_SHAPE_DROP, UINT32_MAX, 0, 0, 0); }
static void environment_outside(mob_client_t *c) {
    push(c, WIRE_ENVIRONMENT, 0, 100, UINT64_MAX - 100, 4096);
}
static void environment_longer_than_its_space(mob_client_t *c) {
    push(c, WIRE_ENVIRONMENT, 0, 65, 0, 64);
}
static void environment_without_end(mob_client_t *c) {
    push(c, WIRE_ENVIRONMENT, 0, UINT64_MAX, 0, UINT64_MAX);
}
/* They are refused, which is no fault. */
static void environment_of_garbage(mob_client_t *c) {
    push(c, WIRE_ENVIRONMENT, 0, 0, 0, 64);
    push(c, WIRE_ENVIRONMENT, 0, 64, 0, 64);
}
static void unfit_without_end(mob_client_t *c) {
    wire_message_t m = {.failure = {WIRE_WORKER_UNFIT, .size = UINT32_MAX}};
    while (!shm_ring_push(c->up, SHM_UP_MESSAGES, &m)) sched_yield();
    notify(c);
}

/* A record of our own, filled so that it could be submitted. */
static uint32_t record_draft(mob_client_t *c) {
    uint32_t index, slot;
    if (client_record_take(c, &index) != MOB_OK || client_slot_take(c, &slot) != MOB_OK) abort();
    wire_record_t *r = &c->records[index];
    uint64_t generation = wire_word_generation(atomic_load(&r->word)) + 1;
    mob_ref_t result = {.slot = slot, .generation = store_slot_open(&c->slots[slot])};
    *r = (wire_record_t){.num_returns = 1, .body_size = sizeof result};
    memcpy(r->body, &result, sizeof result);
    atomic_store(&r->word, wire_word(generation, 0, WIRE_READY_STATE));
    return index;
}

static void record_submit(mob_client_t *c, uint32_t index) {
    push(c, WIRE_SUBMIT, index, wire_word_generation(atomic_load(&c->records[index].word)), 0, 0);
}

#define RECORD_GARBAGE(name, change)           \
    static void name(mob_client_t *c) {        \
        uint32_t index = record_draft(c);      \
        wire_record_t *r = &c->records[index]; \
        change;                                \
        record_submit(c, index);               \
    }
RECORD_GARBAGE(record_returns, r->num_returns = UINT32_MAX)
RECORD_GARBAGE(record_deps, r->num_deps = UINT32_MAX)
RECORD_GARBAGE(record_refs, r->num_refs = 1000)
RECORD_GARBAGE(record_body_size, r->body_size = UINT64_MAX)
RECORD_GARBAGE(record_block_outside, r->block = UINT64_MAX - 63; r->body_size = 1 << 20)
RECORD_GARBAGE(record_block_of_others, r->block = 64; r->body_size = 4096)
RECORD_GARBAGE(record_kind, r->kind = 200)
RECORD_GARBAGE(record_shape, r->shape = UINT32_MAX)
RECORD_GARBAGE(record_slot_of_others,
               ((mob_ref_t *)r->body)->slot = (c->slot_pool.ranges[0].first + (1 << 20)) & 0xffffff)
RECORD_GARBAGE(record_slot_out_of_range, ((mob_ref_t *)r->body)->slot = UINT32_MAX)
RECORD_GARBAGE(record_not_ready, atomic_store(&r->word, wire_word(1, 0, WIRE_DONE_STATE)))
RECORD_GARBAGE(actor_holds_more, r->kind = MOB_ACTOR_CREATE; r->held_shape = 1)

static void record_twice(mob_client_t *c) {
    uint32_t index = record_draft(c);
    c->records[index].shape = 0;
    record_submit(c, index);
    record_submit(c, index);
    record_submit(c, index);
}

static void socket_talk(mob_client_t *c) {
    char text[100] = "hello again";
    (void)!send(c->sock, text, sizeof text, MSG_NOSIGNAL);
}

/* What can't be told from honest mistakes, or harms nobody but its writer: nobody is ended for
 * it. */

static void refs_of_nothing(mob_client_t *c) {
    for (uint32_t kind = WIRE_HOLD; kind <= WIRE_KILL; kind++) {
        push(c, kind, 0, 0, 0, 0);
        push(c, kind, UINT32_MAX, UINT64_MAX, 0, 0);
        push(c, kind, STORE_MAX_SLOTS - 1, 1, 0, 0);
        push(c, kind, c->slot_pool.total ? c->slot_pool.ranges[0].first : 1, 0, 0, 0);
    }
}

static void pending_bits(mob_client_t *c) {
    for (int i = 0; i < SHM_MAX_CLIENTS / 64; i++)
        atomic_fetch_or(&c->node->pending[i], UINT64_MAX);
    notify(c);
}

/* Containers whose slots say impossible things about where their references lie. */
static void containers(mob_client_t *c) {
    const uint64_t blocks[] = {
        0, 1, 63, 64, 65, UINT64_MAX, UINT64_MAX - 63, c->arena.size, c->arena.size - 64};
    const uint64_t sizes[] = {0, 1, c->arena.size, ((uint64_t)1 << 48) - 1};
    const uint32_t counts[] = {1, 1000, UINT32_MAX};
    for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++) {
        for (size_t s = 0; s < 4; s++) {
            for (size_t k = 0; k < 3; k++) {
                uint32_t slot;
                if (client_slot_take(c, &slot) != MOB_OK) abort();
                uint64_t generation = store_slot_open(&c->slots[slot]);
                c->slots[slot].value.large.block = blocks[b];
                c->slots[slot].value.large.ref_count = counts[k];
                c->slots[slot].meta = store_meta(sizes[s], MOB_FORMAT_PICKLE, MOB_OK, false);
                store_slot_seal(&c->slots[slot], true);
                push(c, WIRE_ESCAPE, slot, generation, 0, 0);
                push(c, WIRE_HOLD_CONTENTS, slot, generation, 0, 0);
                push(c, WIRE_DROP, slot, generation, 0, 0);
            }
        }
    }
}

static void container_of_itself(mob_client_t *c) {
    mob_buffer_t buffer;
    mob_ref_t inside, ref;
    if (mob_put(c, "x", 1, MOB_FORMAT_DIRECT, &inside) != MOB_OK ||
        mob_put_begin(c, 100, 1, &buffer) != MOB_OK ||
        mob_put_commit(c, &buffer, MOB_FORMAT_PICKLE, &inside, &ref) != MOB_OK)
        abort();
    void *answer;
    size_t size;
    if (mob_query(c, MOB_QUERY_RESOURCES, 0, &answer, &size) != MOB_OK)
        abort(); /* the daemon knows the container now */
    free(answer);
    *(mob_ref_t *)((unsigned char *)buffer.data + store_refs_offset(100)) = ref;
    mob_ref_release(c, ref);
    mob_ref_release(c, inside);
}

/* All over what belongs to us: our extents, records, slots and the ring down; then we ask for
 * things. */
static void own_memory(mob_client_t *c) {
    mob_ref_t ref;
    static unsigned char data[3000];
    for (int i = 0; i < 50; i++)
        if (mob_put(c, data, sizeof data, MOB_FORMAT_DIRECT, &ref) != MOB_OK) abort();
    for (size_t i = 0; i < c->heap.small.count; i++)
        memset(c->arena.base + c->heap.small.items[i].offset, 0x5b, c->heap.small.items[i].size);
    for (size_t r = 0; r < c->slot_pool.range_count; r++)
        memset(&c->slots[c->slot_pool.ranges[r].first], 0x5b,
               c->slot_pool.ranges[r].count * sizeof *c->slots);
    memset(&c->records[c->record_pool.range_count ? c->record_pool.ranges[0].first : 0], 0x5b,
           c->record_pool.range_count ? 32768 : 0);
    memset(c->down, 0x5b, sizeof *c->down);
    /* more answers than the ring down takes */
    for (int i = 0; i < 5000; i++) push(c, WIRE_NEED_SLOTS, 1, 0, 0, 0);
}

static uint64_t some_number(mob_client_t *c) {
    uint64_t r = next_random();
    switch (r % 6) {
    case 0:
        return 0;
    case 1:
        return r >> 8 & 255;
    case 2:
        return UINT64_MAX - (r >> 60);
    case 3:
        return (r >> 8) % c->arena.size & ~(uint64_t)63;
    case 4:
        return c->slot_pool.total ? c->slot_pool.ranges[0].first + (r >> 8) % 64 : 1;
    default:
        return r;
    }
}

/* Messages of every kind with any numbers, until one of them is too much. */
static void random_messages(mob_client_t *c) {
    seed ^= (uint64_t)getpid() << 20;
    if (record_draft(c) == 0) return;
    for (int i = 0; i < 2000; i++) {
        wire_message_t m = {.query = {(uint32_t)(next_random() % (WIRE_UP_END + 2)),
                                      .what = (uint32_t)some_number(c)}};
        if (m.kind == WIRE_QUERY && m.query.what == 0) continue;
        m.query.argument = some_number(c);
        m.query.block = some_number(c);
        m.query.capacity = some_number(c);
        if (!shm_ring_push(c->up, SHM_UP_MESSAGES, &m)) return;
    }
    notify(c);
}

typedef struct {
    const char *name;
    void (*act)(mob_client_t *);
    bool fatal; /* for whoever does it */
} garbage_t;

static const garbage_t all_garbage[] = {
    {"tail_far_ahead", tail_far_ahead, true},
    {"tail_behind", tail_behind, true},
    {"unknown_kind", unknown_kind, true},
    {"daemons_own_kind", daemons_own_kind, true},
    {"extent_of_nothing", extent_of_nothing, true},
    {"slots_without_end", slots_without_end, true},
    {"records_without_end", records_without_end, true},
    {"record_of_nobody", record_of_nobody, true},
    {"record_out_of_range", record_out_of_range, true},
    {"done_with_anothers", done_with_anothers, true},
    {"done_out_of_range", done_out_of_range, true},
    {"retry_of_nothing", retry_of_nothing, true},
    {"answer_outside", answer_outside, true},
    {"answer_too_large", answer_too_large, true},
    {"items_outside", items_outside, true},
    {"items_longer_than_their_space", items_longer_than_their_space, true},
    {"items_cut_short", items_cut_short, false},
    {"items_for_nothing", items_for_nothing, false},
    {"shape_outside", shape_outside, true},
    {"shape_too_long", shape_too_long, true},
    {"shape_of_many", shape_of_many, true},
    {"shape_cut_short", shape_cut_short, true},
    {"shape_not_held", shape_not_held, true},
    {"shape_of_nobody", shape_of_nobody, true},
    {"environment_outside", environment_outside, true},
    {"environment_longer_than_its_space", environment_longer_than_its_space, true},
    {"environment_without_end", environment_without_end, true},
    {"environment_of_garbage", environment_of_garbage, false},
    {"unfit_without_end", unfit_without_end, true},
    {"record_returns", record_returns, true},
    {"record_deps", record_deps, true},
    {"record_refs", record_refs, true},
    {"record_body_size", record_body_size, true},
    {"record_block_outside", record_block_outside, true},
    {"record_block_of_others", record_block_of_others, true},
    {"record_kind", record_kind, true},
    {"record_shape", record_shape, true},
    {"record_slot_of_others", record_slot_of_others, true},
    {"record_slot_out_of_range", record_slot_out_of_range, true},
    {"record_not_ready", record_not_ready, true},
    {"record_twice", record_twice, true},
    {"actor_holds_more", actor_holds_more, true},
    {"socket_talk", socket_talk, true},
    {"refs_of_nothing", refs_of_nothing, false},
    {"pending_bits", pending_bits, false},
    {"containers", containers, false},
    {"container_of_itself", container_of_itself, false},
};
enum { GARBAGE_COUNT = sizeof all_garbage / sizeof *all_garbage };

/* ---- the zygote and its workers ---- */

static void result_write(mob_client_t *c, mob_run_t *run, const char *text) {
    mob_buffer_t buffer;
    if (mob_run_result_begin(c, run, 0, strlen(text), 0, &buffer) != MOB_OK) abort();
    memcpy(buffer.data, text, strlen(text));
    mob_run_result_commit(c, run, 0, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
    mob_run_finish(c, run);
}

static void run_do(mob_client_t *c, mob_run_t *run) {
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)run->name_size, run->name);
    for (size_t i = 0; i < GARBAGE_COUNT; i++) {
        if (strcmp(name, all_garbage[i].name) != 0) continue;
        all_garbage[i].act(c);
        /* its end is near */
        for (int k = 0; all_garbage[i].fatal && k < 100; k++) poll(NULL, 0, 100);
    }
    if (strcmp(name, "own_memory") == 0) {
        own_memory(c);
        _exit(3); /* and the daemon clears up */
    }
    if (strcmp(name, "random_messages") == 0) {
        random_messages(c);
        poll(NULL, 0, 50);
        _exit(4);
    }
    result_write(c, run, "done");
}

static void work(const char *path, uint64_t token) {
    mob_client_t *c;
    if (mob_worker_connect(path, token, &c) != MOB_OK) _exit(0);
    for (;;) {
        mob_run_t *run;
        mob_status_t status = mob_run_next(c, &run);
        if (status == MOB_EINTR) continue;
        if (status != MOB_OK) _exit(0);
        run_do(c, run);
    }
}

static int zygote(void) {
    const char *path = getenv("MOBULA_SOCKET"), *number = getenv("MOBULA_TOKEN");
    if (path == NULL || number == NULL) return 2;
    pid_t daemon = getppid();
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    wire_hello_t hello = wire_hello(WIRE_ZYGOTE, strtoull(number, NULL, 10));
    wire_packet_t ready = {.magic = WIRE_MAGIC, .kind = WIRE_READY};
    if (connect(sock, (struct sockaddr *)&address, sizeof address) != 0 ||
        send(sock, &hello, sizeof hello, MSG_NOSIGNAL) < 0 ||
        send(sock, &ready, sizeof ready, MSG_NOSIGNAL) < 0)
        return 3;
    for (;;) {
        wire_fork_t packet;
        char control[CMSG_SPACE(sizeof(int) * 2)];
        struct iovec part = {.iov_base = &packet, .iov_len = sizeof packet};
        struct msghdr m = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control,
                           .msg_controllen = sizeof control};
        ssize_t size = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
        if (size <= 0) return 0;
        int fds[2] = {-1, -1};
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        if (h != NULL && h->cmsg_len == CMSG_LEN(sizeof fds)) memcpy(fds, CMSG_DATA(h), sizeof fds);
        pid_t middle = fork();
        if (middle == 0) {
            if (fork() != 0) _exit(0);
            while (getppid() != daemon) sched_yield(); /* until we are the daemon's */
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            dup2(fds[0], 1);
            dup2(fds[1], 2);
            close(sock);
            work(path, packet.token);
        }
        waitpid(middle, NULL, 0);
        close(fds[0]);
        close(fds[1]);
    }
}

/* ---- the driver ---- */

static mob_client_t *session_start(void) {
    const char *argv[] = {own_path, "zygote", NULL};
    const mob_resource_t cpus = {"CPU", 2};
    const mob_config_t config = {.daemon_path = daemon_path,
                                 .zygote_argv = argv,
                                 .store_bytes = 64 << 20,
                                 .resources = &cpus,
                                 .resource_count = 1};
    mob_client_t *c = NULL;
    mob_status_t status = mob_init(&config, &c);
    if (status != MOB_OK) fail_msg("mob_init: %s: %s", mob_status_name(status), mob_last_error());
    return c;
}

static mob_ref_t task_run(mob_client_t *c, const char *name) {
    const mob_task_t task = {
        .kind = MOB_TASK, .name = name, .name_size = strlen(name), .num_returns = 1};
    mob_ref_t ref;
    assert_int_equal(mob_submit(c, &task, &ref), MOB_OK);
    return ref;
}

static mob_value_t result_of(mob_client_t *c, mob_ref_t ref, const char *name) {
    mob_value_t value;
    mob_status_t status = MOB_EINTR; /* waiting may come up for air */
    for (int i = 0; i < 20 && status == MOB_EINTR; i++) status = mob_get_wait(c, &ref, 1, 20000);
    if (status != MOB_OK)
        fail_msg("%s, or the task after it, has no result: %s", name, mob_status_name(status));
    assert_int_equal(mob_get_begin(c, ref, &value), MOB_OK);
    return value;
}

static void expect_served(mob_client_t *c, const char *after) {
    mob_ref_t ref = task_run(c, "honest");
    mob_value_t value = result_of(c, ref, after);
    assert_int_equal(value.error, MOB_OK);
    assert_int_equal(value.size, 4);
    assert_memory_equal(value.data, "done", 4);
    mob_ref_release(c, ref);
}

/* Waits for the daemon's end; it must be its own. */
static void expect_clean_end(mob_client_t *c, const char *after) {
    int status = -1;
    pid_t ended = 0;
    for (int i = 0; i < 2000 && ended == 0; i++) {
        ended = waitpid(c->daemon_pid, &status, WNOHANG);
        if (ended == 0) poll(NULL, 0, 5);
    }
    if (ended == 0) fail_msg("after %s the daemon goes on as if nothing had happened", after);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("after %s the daemon's status is %x", after, status);
    mob_shutdown(c);
}

static void test_hostile_workers(void **state) {
    (void)state;
    mob_client_t *c = session_start();
    expect_served(c, "nothing");
    for (size_t i = 0; i < GARBAGE_COUNT; i++) {
        mob_ref_t ref = task_run(c, all_garbage[i].name);
        mob_value_t value = result_of(c, ref, all_garbage[i].name);
        if (value.error != (all_garbage[i].fatal ? MOB_ECRASHED : MOB_OK))
            fail_msg("%s: the task's status is %s", all_garbage[i].name,
                     mob_status_name(value.error));
        mob_ref_release(c, ref);
        expect_served(c, all_garbage[i].name);
    }
    mob_session_t session;
    mob_client_session(c, &session);
    assert_int_equal(kill(session.daemon_pid, 0), 0);
    mob_shutdown(c);
}

static void test_a_worker_that_scribbles_and_dies(void **state) {
    (void)state;
    mob_client_t *c = session_start();
    for (int i = 0; i < 10; i++) {
        mob_ref_t ref = task_run(c, "own_memory");
        assert_int_equal(result_of(c, ref, "garbage").error, MOB_ECRASHED);
        mob_ref_release(c, ref);
        expect_served(c, "own_memory");
    }
    mob_shutdown(c);
}

static void test_random_messages_from_workers(void **state) {
    (void)state;
    mob_client_t *c = session_start();
    for (int i = 0; i < 60; i++) {
        mob_ref_t ref = task_run(c, "random_messages");
        assert_int_equal(result_of(c, ref, "garbage").error, MOB_ECRASHED);
        mob_ref_release(c, ref);
        if (i % 5 == 0) expect_served(c, "random_messages");
    }
    expect_served(c, "random_messages");
    mob_shutdown(c);
}

static void test_hostile_driver(void **state) {
    (void)state;
    for (size_t i = 0; i < GARBAGE_COUNT; i++) {
        mob_client_t *c = session_start();
        expect_served(c, "nothing");
        all_garbage[i].act(c);
        if (all_garbage[i].fatal) {
            expect_clean_end(c, all_garbage[i].name);
            continue;
        }
        expect_served(c, all_garbage[i].name);
        shutdown(c->sock, SHUT_RDWR);
        expect_clean_end(c, all_garbage[i].name);
    }
}

/* Says `packet` to the socket and returns the kind of the answer: 0 if the daemon hung up without
 * one, -1 if it said nothing. */
static int socket_say(mob_client_t *c, const void *packet, size_t size) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", c->socket_path);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(sock, (struct sockaddr *)&address, sizeof address), 0);
    if (size > 0) assert_int_equal(send(sock, packet, size, MSG_NOSIGNAL), size);
    struct pollfd p = {.fd = sock, .events = POLLIN};
    wire_packet_t answer = {0};
    int kind = -1;
    if (poll(&p, 1, 300) == 1)
        kind =
            recv(sock, &answer, sizeof answer, 0) >= (ssize_t)sizeof answer ? (int)answer.kind : 0;
    close(sock);
    return kind;
}

/* Processes that say hello as the job's zygote: all but the last are of no use to anybody. */
static void test_zygotes_of_nobody(void **state) {
    (void)state;
    mob_client_t *c = session_start();
    expect_served(c, "nothing");
    mob_session_t session;
    mob_client_session(c, &session);
    int socks[8];
    for (int i = 0; i < 8; i++) {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%s", c->socket_path);
        wire_hello_t hello = wire_hello(WIRE_ZYGOTE, session.incarnation + 1);
        socks[i] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(socks[i], (struct sockaddr *)&address, sizeof address), 0);
        assert_int_equal(send(socks[i], &hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    }
    for (int i = 0; i < 7; i++) { /* its socket is closed when the next one says hello */
        struct pollfd p = {.fd = socks[i], .events = POLLIN};
        assert_int_equal(poll(&p, 1, 20000), 1);
        close(socks[i]);
    }
    wire_adopted_t adopted = {
        .packet = {.magic = WIRE_MAGIC, .kind = WIRE_ADOPTED}, .token = UINT64_MAX, .pid = 1};
    assert_int_equal(send(socks[7], &adopted, sizeof adopted, MSG_NOSIGNAL), sizeof adopted);
    adopted.token = session.incarnation + 1;
    assert_int_equal(send(socks[7], &adopted, sizeof adopted, MSG_NOSIGNAL), sizeof adopted);
    const wire_packet_t kinds[] = {{WIRE_MAGIC, WIRE_UNFIT}, {WIRE_MAGIC, WIRE_STUCK}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(send(socks[7], &kinds[i], sizeof *kinds, MSG_NOSIGNAL), sizeof *kinds);
    expect_served(c, "zygotes of nobody");
    close(socks[7]);
    expect_served(c, "zygotes of nobody");
    mob_shutdown(c);
}

static void test_strangers_on_the_socket(void **state) {
    (void)state;
    mob_client_t *c = session_start();
    const wire_hello_t good = wire_hello(WIRE_WORKER, 1 << 30);
    wire_hello_t hello = good;
    assert_int_equal(socket_say(c, &hello, sizeof hello), WIRE_REFUSED); /* nobody asked for it */
    hello.role = WIRE_DRIVER;
    assert_int_equal(socket_say(c, &hello, sizeof hello), WIRE_REFUSED); /* there is one */
    hello.role = WIRE_ZYGOTE;
    assert_int_equal(socket_say(c, &hello, sizeof hello), WIRE_REFUSED); /* with the wrong token */
    hello.role = 99;
    assert_int_equal(socket_say(c, &hello, sizeof hello), WIRE_REFUSED);
    hello = good;
    hello.version++;
    assert_int_equal(socket_say(c, &hello, sizeof hello), WIRE_REFUSED);
    hello = good;
    hello.packet.magic++;
    assert_int_equal(socket_say(c, &hello, sizeof hello), 0);
    hello = good;
    hello.packet.kind = WIRE_WELCOME;
    assert_int_equal(socket_say(c, &hello, sizeof hello), 0);
    assert_int_equal(socket_say(c, &good, 1), 0);
    assert_int_equal(socket_say(c, &good, sizeof good - 1), 0);
    assert_int_equal(socket_say(c, NULL, 0), -1); /* says nothing and goes */
    static char large[100000];
    memcpy(large, &good, sizeof good);
    assert_int_equal(socket_say(c, large, sizeof large), WIRE_REFUSED);
    for (int i = 0; i < 200; i++) {
        for (size_t k = 0; k < 64; k++) large[k] = (char)next_random();
        assert_true(socket_say(c, large, 64) <= 0);
    }
    expect_served(c, "strangers");
    mob_shutdown(c);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    if (strcmp(argv[1], "zygote") == 0) return zygote();
    daemon_path = argv[1];
    own_path = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile_workers),
        cmocka_unit_test(test_a_worker_that_scribbles_and_dies),
        cmocka_unit_test(test_random_messages_from_workers),
        cmocka_unit_test(test_hostile_driver),
        cmocka_unit_test(test_strangers_on_the_socket),
        cmocka_unit_test(test_zygotes_of_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
