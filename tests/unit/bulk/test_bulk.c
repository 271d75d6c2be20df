/* Two bulk threads in one process, over loopback: chunks move right, whatever else happens. */
#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/random.h"
#include "bulk/bulk.h"
#include "bulk/chunk.h"

enum { TICKET = 77, MOST = 4096 };
static const frame_id_t ID = {.home = 5, .number = 6, .generation = 7};

typedef struct {
    net_port_t *port;
    bulk_t *bulk;
    uint64_t incarnation;
    net_secret_t secret;
    net_handover_t kept; /* what was accepted, if `keeps` */
    bool keeps;
    int came, whole, let_go, served, troubles;
    bulk_chunk_t last;
    size_t last_size;
    char words[256];
    bool has[MOST];
} side_t;

static uv_loop_t loop;
static side_t a, b; /* a is the source, b the receiver */
static net_credentials_t *credentials;

/* ---- two nodes ---- */

static net_verdict_t admit(void *context, const net_identity_t *peer) {
    (void)context, (void)peer;
    return NET_WELCOME;
}
static void up(void *context, net_line_t *line, const net_identity_t *peer) {
    (void)context, (void)line, (void)peer;
}
static void bytes_come(void *context, net_line_t *line, const uint8_t *bytes, size_t size) {
    (void)context, (void)line, (void)bytes, (void)size;
}
static void down(void *context, net_line_t *line, mob_status_t status) {
    (void)context, (void)line, (void)status;
}
static void refused(void *context, const char *address, mob_status_t status) {
    (void)context, (void)address, (void)status;
}
static void handed(void *context, net_handover_t *handover) {
    side_t *side = context;
    if (side->keeps)
        side->kept = *handover;
    else
        assert_int_equal(bulk_accept(side->bulk, handover), MOB_OK);
}
static const net_port_ops_t port_ops = {.admit = admit,
                                        .up = up,
                                        .bytes = bytes_come,
                                        .down = down,
                                        .bulk = handed,
                                        .refused = refused};

static void came(void *context, const bulk_chunk_t *chunk, size_t size, bool is_whole) {
    side_t *side = context;
    side->came++;
    side->whole += is_whole;
    side->last = *chunk;
    side->last_size = size;
    if (is_whole && chunk->chunk < MOST) side->has[chunk->chunk] = true;
}
static void let_go(void *context, uint64_t ticket, const frame_id_t *id) {
    side_t *side = context;
    assert_int_equal(ticket, TICKET);
    assert_int_equal(id->number, ID.number);
    side->let_go++;
}
static void served(void *context, uint64_t reader, const bulk_chunk_t *chunk) {
    (void)reader, (void)chunk;
    ((side_t *)context)->served++;
}
static void trouble(void *context, uint64_t peer, mob_status_t status, const char *words) {
    (void)peer, (void)status;
    side_t *side = context;
    side->troubles++;
    strncpy(side->words, words, sizeof side->words - 1);
}
static const bulk_ops_t bulk_ops = {
    .came = came, .let_go = let_go, .served = served, .trouble = trouble};

static net_identity_t identity(uint64_t incarnation) {
    net_identity_t own = {
        .cluster = 7, .incarnation = incarnation, .python_major = 3, .python_minor = 11};
    strcpy(own.version, "0.1.0");
    return own;
}

static void side_open(side_t *side, uint64_t incarnation) {
    memset(side, 0, sizeof *side);
    net_identity_t own = identity(incarnation);
    side->incarnation = incarnation;
    assert_int_equal(net_secret_of("a token for all", 15, &side->secret), MOB_OK);
    assert_int_equal(net_port_open(&loop, "127.0.0.1", 0, &side->secret, credentials, &own,
                                   &port_ops, side, &side->port),
                     MOB_OK);
    bulk_config_t config = {.secret = &side->secret, .credentials = credentials, .self = &own};
    assert_int_equal(bulk_open(&loop, &config, &bulk_ops, side, &side->bulk), MOB_OK);
}

static void side_close(side_t *side) {
    bulk_close(side->bulk);
    net_port_close(side->port);
}

/* ---- memory as an arena is ---- */

static int arena_fd;
static uint8_t *arena, *target;
static size_t arena_size;

static void arena_make(size_t size) {
    arena_size = size;
    arena_fd = memfd_create("source", MFD_CLOEXEC);
    assert_int_equal(ftruncate(arena_fd, (off_t)size), 0);
    arena = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, arena_fd, 0);
    int fd = memfd_create("target", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, (off_t)size), 0);
    target = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    base_random_t random = {31};
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t n = base_random_next(&random);
        memcpy(arena + i, &n, 8);
    }
}

static void arena_free(void) {
    munmap(arena, arena_size);
    munmap(target, arena_size);
    close(arena_fd);
}

static int set_up(void **state) {
    (void)state;
    uv_loop_init(&loop);
    side_open(&a, 11);
    side_open(&b, 22);
    bulk_peer(a.bulk, 22, "127.0.0.1", net_port_number(b.port));
    bulk_peer(b.bulk, 11, "127.0.0.1", net_port_number(a.port));
    arena_make(64 << 20);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    if (b.keeps && b.kept.fd > 0) net_handover_fini(&b.kept);
    side_close(&a);
    side_close(&b);
    uv_run(&loop, UV_RUN_DEFAULT);
    arena_free();
    return uv_loop_close(&loop);
}

static void on_late(uv_timer_t *timer) { *(bool *)timer->data = true; }

/* Runs the loop until it is so, for a minute at most. */
#define UNTIL(so)                                             \
    do {                                                      \
        bool is_late = false;                                 \
        uv_timer_t limit;                                     \
        uv_timer_init(&loop, &limit);                         \
        limit.data = &is_late;                                \
        uv_timer_start(&limit, on_late, 60000, 0);            \
        while (!(so) && !is_late) uv_run(&loop, UV_RUN_ONCE); \
        uv_close((uv_handle_t *)&limit, NULL);                \
        uv_run(&loop, UV_RUN_NOWAIT);                         \
        assert_true(so);                                      \
    } while (0)

static bulk_chunk_t chunk_of(uint32_t number) {
    return (bulk_chunk_t){
        .id = ID, .ticket = TICKET, .chunk = number, .version = 3, .about = {41, 42}};
}

static void fetch(uint32_t number, uint8_t *to, size_t capacity) {
    bulk_chunk_t chunk = chunk_of(number);
    assert_int_equal(bulk_fetch(b.bulk, 11, &chunk, to, capacity, true), MOB_OK);
}

static void serve(uint32_t number, size_t offset, size_t size, bool in_file) {
    bulk_chunk_t chunk = chunk_of(number);
    bulk_bytes_t from = {
        .bytes = in_file ? NULL : arena + offset, .fd = arena_fd, .offset = offset, .size = size};
    assert_int_equal(bulk_serve(a.bulk, 22, &chunk, &from), MOB_OK);
}

/* ---- chunks ---- */

static void a_chunk_moves(void **state) {
    (void)state;
    fetch(4, target + 100, BULK_CHUNK);
    serve(4, 64, 1000, false);
    UNTIL(b.came == 1 && a.served == 1);
    assert_int_equal(b.whole, 1);
    assert_int_equal(b.last.ticket, TICKET);
    assert_int_equal(b.last.chunk, 4);
    assert_int_equal(b.last.version, 3);
    assert_int_equal(b.last.about[0], 41);
    assert_int_equal(b.last.about[1], 42);
    assert_int_equal(b.last_size, 1000);
    assert_memory_equal(target + 100, arena + 64, 1000);
    assert_int_equal(target[99] + target[1100], 0);
    assert_int_equal(a.troubles + b.troubles, 0);
}

static void one_without_bytes_moves(void **state) {
    (void)state;
    fetch(0, target, 0);
    serve(0, 0, 0, false);
    UNTIL(b.came == 1 && a.served == 1);
    assert_int_equal(b.whole, 1);
    assert_int_equal(b.last_size, 0);
}

static void many_move(bool in_file) {
    enum { COUNT = 64 };
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t at = (size_t)i * BULK_CHUNK;
        size_t size = i + 1 == COUNT ? BULK_CHUNK / 3 : BULK_CHUNK;
        fetch(i, target + at, BULK_CHUNK);
        serve(i, at, size, in_file);
    }
    UNTIL(b.came == COUNT && a.served == COUNT);
    assert_int_equal(b.whole, COUNT);
    assert_memory_equal(target, arena, (COUNT - 1) * (size_t)BULK_CHUNK + BULK_CHUNK / 3);
}

static void many_chunks_move(void **state) {
    (void)state;
    many_move(false);
}

static void chunks_in_files_move(void **state) {
    (void)state;
    many_move(true);
}

static void both_ways_at_once(void **state) {
    (void)state;
    enum { COUNT = 32 };
    uint8_t *back = malloc((size_t)COUNT * BULK_CHUNK);
    for (uint32_t i = 0; i < COUNT; i++) {
        size_t at = (size_t)i * BULK_CHUNK;
        fetch(i, target + at, BULK_CHUNK);
        serve(i, at, BULK_CHUNK, false);
        bulk_chunk_t chunk = chunk_of(i);
        bulk_bytes_t from = {.bytes = arena + at, .fd = arena_fd, .offset = at, .size = BULK_CHUNK};
        assert_int_equal(bulk_fetch(a.bulk, 22, &chunk, back + at, BULK_CHUNK, false), MOB_OK);
        assert_int_equal(bulk_serve(b.bulk, 11, &chunk, &from), MOB_OK);
    }
    UNTIL(b.whole == COUNT && a.whole == COUNT && a.served == COUNT && b.served == COUNT);
    assert_memory_equal(target, arena, COUNT * (size_t)BULK_CHUNK);
    assert_memory_equal(back, arena, COUNT * (size_t)BULK_CHUNK);
    free(back);
}

/* ---- what nobody waits for ---- */

static void what_nobody_waits_for_is_thrown_away(void **state) {
    (void)state;
    serve(1, 0, BULK_CHUNK, false); /* no fetch at all */
    bulk_chunk_t chunk = chunk_of(2);
    chunk.version = 4; /* another version */
    assert_int_equal(bulk_fetch(b.bulk, 11, &chunk, target, BULK_CHUNK, true), MOB_OK);
    serve(2, 0, BULK_CHUNK, false);
    chunk = chunk_of(3); /* of another source */
    assert_int_equal(bulk_fetch(b.bulk, 33, &chunk, target, BULK_CHUNK, true), MOB_OK);
    serve(3, 0, BULK_CHUNK, false);
    fetch(4, target, 999); /* it has too little room */
    serve(4, 0, 1000, false);
    fetch(5, target + BULK_CHUNK, BULK_CHUNK);
    serve(5, 0, BULK_CHUNK, false);
    UNTIL(b.came == 1 && a.served == 5);
    assert_int_equal(b.last.chunk, 5);
    assert_int_equal(b.whole, 1);
    for (size_t i = 0; i < BULK_CHUNK; i += 64) assert_int_equal(target[i], 0);
    assert_int_equal(b.troubles, 0);
}

static void let_go_while_bytes_come(void **state) {
    (void)state;
    base_random_t random = {3};
    for (int round = 1; round <= 200; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            fetch(i, target + (size_t)i * BULK_CHUNK, BULK_CHUNK);
            serve(i, (size_t)i * BULK_CHUNK, BULK_CHUNK, false);
        }
        usleep((useconds_t)base_random_below(&random, 1500));
        assert_int_equal(bulk_let_go(b.bulk, TICKET, &ID), MOB_OK);
        UNTIL(b.let_go == round);
        /* from now on this memory is somebody else's */
        memset(target, round, 4 * BULK_CHUNK);
        UNTIL(a.served == 4 * round);
        fetch(9, target + 8 * BULK_CHUNK, BULK_CHUNK); /* behind all that was under way */
        serve(9, 0, 10, false);
        a.served--;
        UNTIL(b.has[9]);
        b.has[9] = false;
        UNTIL(a.served == 4 * round);
        for (size_t i = 0; i < 4 * BULK_CHUNK; i += 16) assert_int_equal(target[i], (uint8_t)round);
    }
    assert_int_equal(a.troubles + b.troubles, 0);
}

/* ---- ends ---- */

static void a_node_that_is_not_there(void **state) {
    (void)state;
    bulk_peer(a.bulk, 22, "127.0.0.1", 1); /* nobody listens there */
    serve(1, 0, 100, false);
    UNTIL(a.served == 1 && a.troubles == 1);
    assert_non_null(strstr(a.words, "can't be reached"));
    bulk_chunk_t chunk = chunk_of(1);
    bulk_bytes_t from = {.bytes = arena, .fd = arena_fd, .size = 10};
    assert_int_equal(bulk_serve(a.bulk, 99, &chunk, &from), MOB_OK); /* nor is it known */
    UNTIL(a.served == 2 && a.troubles == 2);
    bulk_peer(a.bulk, 22, "127.0.0.1", net_port_number(b.port));
    fetch(2, target, BULK_CHUNK);
    serve(2, 0, 100, false);
    UNTIL(b.whole == 1);
}

static void another_node_is_there(void **state) {
    (void)state;
    bulk_peer(a.bulk, 33, "127.0.0.1", net_port_number(b.port));
    bulk_chunk_t chunk = chunk_of(1);
    bulk_bytes_t from = {.bytes = arena, .fd = arena_fd, .size = 10};
    assert_int_equal(bulk_serve(a.bulk, 33, &chunk, &from), MOB_OK);
    UNTIL(a.served == 1 && a.troubles == 1);
    assert_non_null(strstr(a.words, "another node"));
}

static void the_dead_get_nothing(void **state) {
    (void)state;
    fetch(1, target, BULK_CHUNK);
    serve(1, 0, BULK_CHUNK, false);
    UNTIL(b.whole == 1);
    assert_int_equal(bulk_peer_died(a.bulk, 22), MOB_OK);
    serve(2, 0, BULK_CHUNK, false);
    UNTIL(a.served == 2 && b.troubles == 1);
    assert_int_equal(b.came, 1);
}

/* ---- hostile and broken peers ---- */

/* The connection that `a` has dialled, with its keys, in the test's hands. */
static int connection_take(chunk_key_t *ret_key) {
    b.keeps = true;
    serve(1, 0, 100, false);
    UNTIL(b.kept.fd > 0);
    assert_int_equal(chunk_key_init(ret_key, b.kept.keys[0]), MOB_OK);
    assert_int_equal(b.kept.peer.incarnation, 11);
    assert_int_equal(b.kept.peer.purpose, NET_BULK);
    return b.kept.fd;
}

static void a_receiver_that_stops_is_left(void **state) {
    (void)state;
    chunk_key_t key;
    connection_take(&key); /* and never reads */
    for (uint32_t i = 2; i < 32; i++) serve(i, 0, BULK_CHUNK, false);
    uint64_t began = base_clock_mono_ns();
    UNTIL(a.served == 31 && a.troubles == 1);
    assert_non_null(strstr(a.words, "no byte"));
    assert_true(base_clock_mono_ns() - began >= UINT64_C(4000000000));
}

static void a_receiver_that_speaks_is_left(void **state) {
    (void)state;
    chunk_key_t key;
    int fd = connection_take(&key);
    UNTIL(a.served == 1);
    assert_int_equal(write(fd, "hello", 5), 5);
    UNTIL(a.troubles == 1);
    assert_non_null(strstr(a.words, "listen"));
}

/* A source in the test's hands: says what it likes to b. */
typedef struct {
    int fd;
    chunk_key_t key;
    chunk_hash_t *hash;
} liar_t;

static void liar_init(liar_t *liar) {
    uint8_t keys[2][NET_KEY] = {{1}, {2}};
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    net_handover_t handover = {.fd = fds[1], .peer = identity(11), .address = "a liar"};
    memcpy(handover.keys, keys, sizeof keys);
    assert_int_equal(bulk_accept(b.bulk, &handover), MOB_OK);
    assert_int_equal(chunk_key_init(&liar->key, keys[0]), MOB_OK);
    liar->fd = fds[0];
    liar->hash = chunk_hash_new();
}

static void liar_fini(liar_t *liar) {
    chunk_hash_free(liar->hash);
    close(liar->fd);
}

static void write_all(int fd, const void *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = send(fd, (const char *)bytes + at, size - at, MSG_NOSIGNAL);
        if (n <= 0) return;
        at += (size_t)n;
    }
}

static void liar_say(liar_t *liar, uint32_t number, const uint8_t *bytes, size_t size,
                     int flip_head, int flip_body) {
    uint8_t head[CHUNK_HEAD], *body = malloc(size);
    bulk_chunk_t chunk = chunk_of(number);
    memcpy(body, bytes, size);
    chunk_hash_begin(liar->hash, &liar->key);
    chunk_hash_add(liar->hash, bytes, size);
    assert_int_equal(chunk_head_write(&liar->key, &chunk, size, liar->hash, head), MOB_OK);
    if (flip_head >= 0) head[flip_head] ^= 1;
    if (flip_body >= 0) body[flip_body] ^= 1;
    write_all(liar->fd, head, sizeof head);
    write_all(liar->fd, body, size);
    free(body);
}

static void a_chunk_that_was_changed(void **state) {
    (void)state;
    liar_t liar;
    liar_init(&liar);
    fetch(1, target, BULK_CHUNK);
    fetch(2, target + BULK_CHUNK, BULK_CHUNK);
    liar_say(&liar, 1, arena, 5000, -1, -1);
    UNTIL(b.whole == 1);
    liar_say(&liar, 2, arena, 5000, -1, 4321);
    UNTIL(b.came == 2 && b.troubles == 1);
    assert_int_equal(b.whole, 1);
    assert_non_null(strstr(b.words, "changed"));
    liar_fini(&liar);
}

static void garbage_ends_the_connection(void **state) {
    (void)state;
    base_random_t random = {19};
    uint8_t bytes[4096];
    for (int i = 1; i <= 100; i++) {
        liar_t liar;
        liar_init(&liar);
        fetch((uint32_t)i, target, BULK_CHUNK);
        if (i % 3 == 0) { /* a head that is nearly right */
            liar_say(&liar, (uint32_t)i, arena, 100, (int)base_random_below(&random, CHUNK_HEAD),
                     -1);
            shutdown(liar.fd, SHUT_WR);
        } else {
            for (size_t j = 0; j < sizeof bytes; j++) bytes[j] = (uint8_t)base_random_next(&random);
            write_all(liar.fd, bytes, 1 + base_random_below(&random, sizeof bytes));
            shutdown(liar.fd, SHUT_WR);
        }
        UNTIL(b.troubles == i);
        liar_fini(&liar);
    }
    assert_int_equal(b.whole, 0);
    serve(200, 0, 1000, false);
    fetch(200, target, BULK_CHUNK);
    UNTIL(b.whole == 1); /* and an honest one is heard */
}

static void a_connection_is_cut(void **state) {
    (void)state;
    liar_t liar;
    liar_init(&liar);
    uint8_t head[CHUNK_HEAD];
    bulk_chunk_t chunk = chunk_of(7);
    chunk_hash_begin(liar.hash, &liar.key);
    assert_int_equal(chunk_head_write(&liar.key, &chunk, BULK_CHUNK, liar.hash, head), MOB_OK);
    fetch(7, target, BULK_CHUNK);
    write_all(liar.fd, head, sizeof head);
    write_all(liar.fd, arena, 10000);
    liar_fini(&liar);
    UNTIL(b.troubles == 1);
    assert_int_equal(b.came, 0);
    assert_int_equal(bulk_let_go(b.bulk, TICKET, &ID), MOB_OK); /* as the room pull does then */
    UNTIL(b.let_go == 1);
    fetch(7, target, BULK_CHUNK);
    serve(7, 0, BULK_CHUNK, false);
    UNTIL(b.whole == 1);
    assert_memory_equal(target, arena, BULK_CHUNK);
}

static void a_source_that_stops_is_left(void **state) {
    (void)state;
    liar_t liar;
    liar_init(&liar);
    fetch(7, target, BULK_CHUNK);
    write_all(liar.fd, "\0\0\10\0", 4); /* the beginning of a head, and no more */
    UNTIL(b.troubles == 1);
    assert_non_null(strstr(b.words, "no byte"));
    liar_fini(&liar);
}

/* ---- how fast ---- */

static double gigabytes(uint64_t bytes, uint64_t since) {
    return (double)bytes / (double)(base_clock_mono_ns() - since);
}

/* The same bytes through a plain socket, from one thread to another. */
static void *plain_send(void *context) {
    int fd = *(int *)context;
    for (size_t at = 0; at < 8 * arena_size;) {
        off_t from = (off_t)(at % arena_size);
        ssize_t n = sendfile(fd, arena_fd, &from, BULK_CHUNK - at % BULK_CHUNK);
        assert_true(n > 0);
        at += (size_t)n;
    }
    return NULL;
}

static double plain_speed(void) {
    struct sockaddr_in about = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof about;
    int listener = socket(AF_INET, SOCK_STREAM, 0), from = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&about, size) + listen(listener, 1), 0);
    getsockname(listener, (struct sockaddr *)&about, &size);
    assert_int_equal(connect(from, (struct sockaddr *)&about, size), 0);
    int to = accept(listener, NULL, NULL);
    pthread_t thread;
    uint64_t began = base_clock_mono_ns();
    pthread_create(&thread, NULL, plain_send, &from);
    for (size_t at = 0; at < 8 * arena_size;) {
        size_t place = at % arena_size, left = arena_size - place;
        ssize_t n = recv(to, target + place, left < (256 << 10) ? left : 256 << 10, 0);
        assert_true(n > 0);
        at += (size_t)n;
    }
    double speed = gigabytes(8 * arena_size, began);
    pthread_join(thread, NULL);
    close(listener);
    close(from);
    close(to);
    return speed;
}

static void gigabytes_move(void **state) {
    (void)state;
    enum { COUNT = 64 };
    const int TIMES = credentials != NULL ? 2 : 8;
    uint64_t began = base_clock_mono_ns(), bytes = 0;
    int at = 0;
    for (int i = 0; i < TIMES * COUNT; i++) {
        uint32_t number = (uint32_t)(i % COUNT);
        fetch(number, target + (size_t)number * BULK_CHUNK, BULK_CHUNK);
        serve(number, (size_t)number * BULK_CHUNK, BULK_CHUNK, false);
        bytes += BULK_CHUNK;
        if (++at % 4 == 0) UNTIL(b.came > at - 8); /* as far ahead as pull is */
    }
    UNTIL(b.whole == TIMES * COUNT);
    double speed = gigabytes(bytes, began);
    assert_memory_equal(target, arena, arena_size);
    began = base_clock_mono_ns();
    memcpy(target, arena, arena_size);
    double copy = gigabytes(arena_size, began);
    print_message("%llu MiB in chunks: %.2f GB/s; a plain socket: %.2f GB/s; memcpy: %.2f GB/s\n",
                  (unsigned long long)(bytes >> 20), speed, plain_speed(), copy);
}

/* ---- with TLS ---- */

static char folder[64];

static int tls_up(void **state) {
    char command[1024], paths[3][96];
    strcpy(folder, "/tmp/mobula-tls-XXXXXX");
    if (system("command -v openssl >/dev/null") != 0 || mkdtemp(folder) == NULL) return -1;
    snprintf(command, sizeof command,
             "cd '%s' && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
             "-days 2 -subj /CN=authority -keyout ca.key -out ca.pem >/dev/null 2>&1",
             folder);
    if (system(command) != 0) return -1;
    snprintf(paths[0], 96, "%s/ca.pem", folder);
    snprintf(paths[1], 96, "%s/ca.key", folder);
    if (net_credentials_new(paths[0], paths[1], paths[0], &credentials) != MOB_OK) return -1;
    return set_up(state);
}

static int tls_down(void **state) {
    int failed = tear_down(state);
    char command[128];
    net_credentials_free(credentials);
    credentials = NULL;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return failed + system(command);
}

#define PLAIN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
#define TLS(test)   cmocka_unit_test_setup_teardown(test, tls_up, tls_down)

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        PLAIN(a_chunk_moves),
        PLAIN(one_without_bytes_moves),
        PLAIN(many_chunks_move),
        PLAIN(chunks_in_files_move),
        PLAIN(both_ways_at_once),
        PLAIN(what_nobody_waits_for_is_thrown_away),
        PLAIN(let_go_while_bytes_come),
        PLAIN(a_node_that_is_not_there),
        PLAIN(another_node_is_there),
        PLAIN(the_dead_get_nothing),
        PLAIN(a_receiver_that_stops_is_left),
        PLAIN(a_receiver_that_speaks_is_left),
        PLAIN(a_chunk_that_was_changed),
        PLAIN(garbage_ends_the_connection),
        PLAIN(a_connection_is_cut),
        PLAIN(a_source_that_stops_is_left),
        PLAIN(gigabytes_move),
        TLS(a_chunk_moves),
        TLS(one_without_bytes_moves),
        TLS(many_chunks_move),
        TLS(chunks_in_files_move),
        TLS(both_ways_at_once),
        TLS(let_go_while_bytes_come),
        TLS(gigabytes_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
