/* Two ports on one loop: lines come up, carry bytes, and end; strangers get nowhere. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/random.h"
#include "net/port.h"
#include "net/seal.h"

typedef struct {
    net_port_t *port;
    net_line_t *line; /* the newest that came up */
    net_identity_t peer;
    int ups, downs, refusals, admitted;
    mob_status_t status; /* of the newest end */
    char words[256];
    uint8_t *got;
    size_t got_size;
    net_verdict_t verdict;
    bool ends_at_first; /* ends the line at the first bytes */
    bool echoes;
} side_t;

static bool is_starved; /* there is no memory */
static int starved;     /* how often there was none */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_calloc(size_t count, size_t size) {
    starved += is_starved;
    return is_starved ? NULL : __real_calloc(count, size);
}

static uv_loop_t loop;
static side_t a, b;
static net_credentials_t *credentials; /* of the ports that are opened; NULL: no TLS */

static net_verdict_t admit(void *context, const net_identity_t *peer) {
    (void)peer;
    side_t *side = context;
    side->admitted++;
    return side->verdict;
}

static void up(void *context, net_line_t *line, const net_identity_t *peer) {
    side_t *side = context;
    side->ups++;
    side->line = line;
    side->peer = *peer;
}

static void bytes_come(void *context, net_line_t *line, const uint8_t *bytes, size_t size) {
    side_t *side = context;
    side->got = realloc(side->got, side->got_size + size);
    memcpy(side->got + side->got_size, bytes, size);
    side->got_size += size;
    if (side->echoes) net_line_write(line, bytes, size);
    if (side->ends_at_first) net_line_end(line);
}

static void down(void *context, net_line_t *line, mob_status_t status) {
    side_t *side = context;
    side->downs++;
    if (side->line == line) side->line = NULL;
    side->status = status;
    strncpy(side->words, mob_last_error(), sizeof side->words - 1);
}

static void refused(void *context, const char *address, mob_status_t status) {
    (void)address;
    side_t *side = context;
    side->refusals++;
    side->status = status;
    strncpy(side->words, mob_last_error(), sizeof side->words - 1);
}

static const net_port_ops_t ops = {
    .admit = admit, .up = up, .bytes = bytes_come, .down = down, .refused = refused};

static void side_open(side_t *side, uint64_t incarnation, const char *token, uint64_t cluster,
                      const char *version) {
    net_secret_t secret;
    net_identity_t own = {
        .cluster = cluster, .incarnation = incarnation, .python_major = 3, .python_minor = 11};
    strcpy(own.version, version);
    memset(side, 0, sizeof *side);
    assert_int_equal(net_secret_of(token, strlen(token), &secret), MOB_OK);
    assert_int_equal(
        net_port_open(&loop, "127.0.0.1", 0, &secret, credentials, &own, &ops, side, &side->port),
        MOB_OK);
}

static int set_up(void **state) {
    (void)state;
    uv_loop_init(&loop);
    side_open(&a, 11, "one token for all", 7, "0.1.0");
    side_open(&b, 22, "one token for all", 7, "0.1.0");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    net_port_close(a.port);
    net_port_close(b.port);
    uv_run(&loop, UV_RUN_DEFAULT);
    free(a.got);
    free(b.got);
    return uv_loop_close(&loop);
}

static void on_second(uv_timer_t *timer) { *(bool *)timer->data = true; }

/* Runs the loop until it is so, for 20 s at most. */
#define UNTIL(so)                                             \
    do {                                                      \
        bool is_late = false;                                 \
        uv_timer_t limit;                                     \
        uv_timer_init(&loop, &limit);                         \
        limit.data = &is_late;                                \
        uv_timer_start(&limit, on_second, 20000, 0);          \
        while (!(so) && !is_late) uv_run(&loop, UV_RUN_ONCE); \
        uv_close((uv_handle_t *)&limit, NULL);                \
        uv_run(&loop, UV_RUN_NOWAIT);                         \
        assert_true(so);                                      \
    } while (0)

static net_line_t *dial(uint64_t wanted) {
    net_line_t *line;
    assert_int_equal(
        net_port_dial(a.port, "127.0.0.1", net_port_number(b.port), wanted, NET_FRAMES, &a, &line),
        MOB_OK);
    return line;
}

static void connect_both(void) {
    net_line_t *line = dial(22);
    UNTIL(a.ups == 1 && b.ups == 1);
    assert_ptr_equal(a.line, line);
    assert_true(net_line_is_dialled(a.line) && !net_line_is_dialled(b.line));
    assert_ptr_equal(net_line_user(a.line), &a);
}

static void each_knows_who_the_other_is(void **state) {
    (void)state;
    connect_both();
    assert_int_equal(a.peer.incarnation, 22);
    assert_int_equal(a.peer.port, net_port_number(b.port));
    assert_int_equal(b.peer.incarnation, 11);
    assert_int_equal(b.peer.purpose, NET_FRAMES);
    assert_int_equal(b.admitted, 1);
}

static void bytes_come_whole_and_in_order(void **state) {
    (void)state;
    enum { ALL = 5 << 20 };
    connect_both();
    b.echoes = true;
    uint8_t *said = malloc(ALL);
    base_random_t random = {9};
    for (size_t i = 0; i < ALL; i++) said[i] = (uint8_t)base_random_next(&random);
    for (size_t at = 0, size; at < ALL; at += size) {
        size = 1 + base_random_below(&random, base_random_chance(&random, 1, 20) ? 300000 : 900);
        if (size > ALL - at) size = ALL - at;
        assert_int_equal(net_line_write(a.line, said + at, size), MOB_OK);
        if (base_random_chance(&random, 1, 10)) uv_run(&loop, UV_RUN_NOWAIT);
    }
    UNTIL(a.got_size == ALL && b.got_size == ALL);
    assert_memory_equal(b.got, said, ALL);
    assert_memory_equal(a.got, said, ALL);
    UNTIL(net_line_pending(a.line) == 0 && net_line_pending(b.line) == 0);
    free(said);
}

static void an_end_is_told_to_the_other_side_only(void **state) {
    (void)state;
    connect_both();
    net_line_write(a.line, "bye", 3); /* of this turn: it need not go */
    net_line_end(a.line);
    UNTIL(b.downs == 1);
    assert_int_equal(a.downs, 0);
    assert_int_equal(b.status, MOB_ECLOSED);
}

static void a_line_may_be_ended_by_what_came(void **state) {
    (void)state;
    connect_both();
    b.ends_at_first = true;
    for (int i = 0; i < 100; i++) net_line_write(a.line, "0123456789", 10);
    UNTIL(a.downs == 1);
    assert_int_equal(b.downs, 0);
}

static void side_b_anew(const char *token, uint64_t cluster, const char *version) {
    net_port_close(b.port);
    side_open(&b, 22, token, cluster, version);
}

static void refusals_have_words(void **state) {
    (void)state;
    side_b_anew("another token here", 7, "0.1.0");
    dial(0);
    UNTIL(a.downs == 1 && b.refusals == 1);
    assert_int_equal(a.status, MOB_EPERM);
    assert_non_null(strstr(a.words, "token"));
    side_b_anew("one token for all", 8, "0.1.0");
    dial(0);
    UNTIL(a.downs == 2 && b.refusals == 1);
    assert_non_null(strstr(a.words, "another cluster"));
    side_b_anew("one token for all", 7, "0.2.0");
    dial(0);
    UNTIL(a.downs == 3 && b.refusals == 1);
    assert_non_null(strstr(a.words, "Mobula 0.2.0"));
    side_b_anew("one token for all", 7, "0.1.0");
    dial(33);
    UNTIL(a.downs == 4 && b.refusals == 1);
    assert_non_null(strstr(a.words, "another node is there"));
    b.verdict = NET_DEAD;
    dial(22);
    UNTIL(a.downs == 5);
    assert_non_null(strstr(a.words, "declared dead"));
    assert_int_equal(a.ups + b.ups, 0);
}

static void nobody_is_there(void **state) {
    (void)state;
    uint16_t number = net_port_number(b.port);
    side_b_anew("one token for all", 7, "0.1.0");
    net_line_t *line;
    assert_int_equal(net_port_dial(a.port, "127.0.0.1", number, 0, NET_FRAMES, NULL, &line),
                     MOB_OK);
    UNTIL(a.downs == 1);
    assert_non_null(strstr(a.words, "can't be reached"));
    assert_int_equal(net_port_dial(a.port, "a.name", number, 0, NET_FRAMES, NULL, &line),
                     MOB_EINVAL);
}

static int stranger_connect(void) {
    struct sockaddr_in about = {.sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                .sin_port = htons(net_port_number(b.port))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&about, sizeof about), 0);
    return fd;
}

static void strangers_are_bounded_in_number_and_time(void **state) {
    (void)state;
    enum { MORE = NET_STRANGERS_MAX + 50 };
    int fds[MORE];
    for (int i = 0; i < MORE; i++) {
        fds[i] = stranger_connect();
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    UNTIL(b.refusals >= MORE - NET_STRANGERS_MAX);
    assert_int_equal(b.status, MOB_ELIMIT);
    connect_both(); /* and one who knows the token comes in all the same */
    UNTIL(b.refusals == MORE);
    assert_int_equal(b.status, MOB_ETIMEOUT);
    for (int i = 0; i < MORE; i++) close(fds[i]);
}

static void garbage_gets_nowhere(void **state) {
    (void)state;
    base_random_t random = {17};
    for (int i = 0; i < 300; i++) {
        uint8_t bytes[4096];
        size_t size = 1 + base_random_below(&random, sizeof bytes);
        for (size_t j = 0; j < size; j++) bytes[j] = (uint8_t)base_random_next(&random);
        if (i % 3 == 0) memcpy(bytes, "MOBULA\r\n\1\0\0\0\0\0\0\0", 16);
        int fd = stranger_connect();
        assert_true(write(fd, bytes, size) > 0);
        uv_run(&loop, UV_RUN_NOWAIT);
        close(fd);
    }
    UNTIL(b.refusals == 300);
    assert_int_equal(b.ups, 0);
    connect_both();
}

/* ---- with TLS ---- */

static char folder[64];

/* Two authorities, and a certificate of each. */
static bool certificates_make(void) {
    char command[1024];
    strcpy(folder, "/tmp/mobula-tls-XXXXXX");
    if (mkdtemp(folder) == NULL) return false;
    snprintf(command, sizeof command,
             "cd '%s' && for i in 1 2; do openssl req -x509 -newkey ec -pkeyopt "
             "ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=authority$i -keyout ca$i.key "
             "-out ca$i.pem && openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
             "-subj /CN=node$i -keyout node$i.key -out node$i.csr && openssl x509 -req -days 2 -in "
             "node$i.csr -CA ca$i.pem -CAkey ca$i.key -CAcreateserial -out node$i.pem; done "
             ">/dev/null 2>&1",
             folder);
    return system(command) == 0;
}

static mob_status_t credentials_read(int node, int authority, net_credentials_t **ret) {
    char paths[3][96];
    snprintf(paths[0], 96, "%s/node%d.pem", folder, node);
    snprintf(paths[1], 96, "%s/node%d.key", folder, node);
    snprintf(paths[2], 96, "%s/ca%d.pem", folder, authority);
    return net_credentials_new(paths[0], paths[1], paths[2], ret);
}

static net_credentials_t *of[3];

static int tls_up(void **state) {
    if (system("command -v openssl >/dev/null") != 0 || !certificates_make()) return -1;
    for (int i = 1; i <= 2; i++)
        if (credentials_read(i, i, &of[i]) != MOB_OK) return -1;
    credentials = of[1];
    return set_up(state);
}

static int tls_down(void **state) {
    int failed = tear_down(state);
    char command[128];
    for (int i = 1; i <= 2; i++) net_credentials_free(of[i]);
    credentials = NULL;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return failed + system(command);
}

static void whoever_comes_while_there_is_no_memory_waits(void **state) {
    (void)state;
    dial(0);
    is_starved = true;
    starved = 0;
    UNTIL(starved > 0);
    is_starved = false;
    assert_int_equal(b.ups, 0);
    UNTIL(a.ups == 1 && b.ups == 1);
    dial(0); /* and the port still listens */
    UNTIL(b.ups == 2);
}

static void another_authority_is_refused(void **state) {
    (void)state;
    credentials = of[2];
    side_b_anew("one token for all", 7, "0.1.0");
    dial(0);
    UNTIL(a.downs == 1 && b.refusals == 1);
    assert_int_equal(a.status, MOB_EPERM);
    assert_non_null(strstr(a.words, "certificate"));
}

static void one_without_tls_is_refused(void **state) {
    (void)state;
    credentials = NULL;
    side_b_anew("one token for all", 7, "0.1.0");
    dial(0);
    UNTIL(a.downs == 1 && b.refusals == 1);
    assert_int_equal(a.ups + b.ups, 0);
}

static void files_that_are_none_are_named(void **state) {
    (void)state;
    net_credentials_t *none;
    char path[96];
    assert_int_equal(net_credentials_new("/no/such", "/no/key", "/no/ca", &none), MOB_EINVAL);
    assert_non_null(strstr(mob_last_error(), "/no/such"));
    snprintf(path, sizeof path, "%s/node1.pem", folder);
    assert_int_equal(net_credentials_new(path, "/no/key", "/no/ca", &none), MOB_EINVAL);
    assert_non_null(strstr(mob_last_error(), "/no/key"));
    char key[96], authority[96];
    snprintf(key, sizeof key, "%s/node2.key", folder);
    snprintf(authority, sizeof authority, "%s/ca1.pem", folder);
    assert_int_equal(net_credentials_new(path, key, authority, &none),
                     MOB_EINVAL); /* not its key */
}

int main(void) {
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_knows_who_the_other_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bytes_come_whole_and_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_end_is_told_to_the_other_side_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_may_be_ended_by_what_came, set_up, tear_down),
        cmocka_unit_test_setup_teardown(refusals_have_words, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nobody_is_there, set_up, tear_down),
        cmocka_unit_test_setup_teardown(strangers_are_bounded_in_number_and_time, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(garbage_gets_nowhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whoever_comes_while_there_is_no_memory_waits, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(each_knows_who_the_other_is, tls_up, tls_down),
        cmocka_unit_test_setup_teardown(bytes_come_whole_and_in_order, tls_up, tls_down),
        cmocka_unit_test_setup_teardown(a_line_may_be_ended_by_what_came, tls_up, tls_down),
        cmocka_unit_test_setup_teardown(refusals_have_words, tls_up, tls_down),
        cmocka_unit_test_setup_teardown(garbage_gets_nowhere, tls_up, tls_down),
        cmocka_unit_test_setup_teardown(another_authority_is_refused, tls_up, tls_down),
        cmocka_unit_test_setup_teardown(one_without_tls_is_refused, tls_up, tls_down),
        cmocka_unit_test_setup_teardown(files_that_are_none_are_named, tls_up, tls_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
