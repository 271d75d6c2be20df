/* A job of one node as a guest at another: the books of two nodes, with a real mesh between. */
#include "fixture.h"

#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "net/token.h"
#include "node/cluster/jobpost.h"
#include "shm/sealed.h"

enum { HOME, AWAY, NODES };

static node_t *nodes[NODES];
static node_client_t *driver;
static int far_end;
static char folders[NODES][64]; /* of their sessions */
static char *big;               /* makes a setup that takes more than one piece */

/* ---- two nodes ---- */

static bool receive(void *context, uint64_t peer, uint64_t sequence, const void *bytes,
                    size_t size) {
    return node_post_receive(context, peer, sequence, bytes, size);
}

static void about_peer(void *context, uint64_t peer) { (void)context, (void)peer; }
static void about_silence(void *context, uint64_t peer, bool is_silent) {
    (void)context, (void)peer, (void)is_silent;
}
static uint64_t age(void *context) {
    (void)context;
    return 0;
}
static void trouble(void *context, const char *address, mob_status_t status) {
    (void)context, (void)address, (void)status;
}
static const void *welcome(void *context, size_t *ret_size) {
    (void)context;
    *ret_size = 0;
    return "";
}

static const mesh_ops_t ops = {.receive = receive,
                               .room = about_peer,
                               .silent = about_silence,
                               .goodbye = about_peer,
                               .buried = about_peer,
                               .renewal_age_ms = age,
                               .trouble = trouble,
                               .welcome = welcome};

static void cluster_start(node_t *n, int i) {
    net_secret_t secret;
    net_identity_t self = {.cluster = 7, .incarnation = (uint64_t)i + 101, .version = "1"};
    net_secret_of("one token for all", 17, &secret);
    mesh_config_t config = {
        .address = "127.0.0.1", .secret = &secret, .self = &self, .room_bytes = 1 << 20};
    n->incarnation = self.incarnation;
    n->config.stays = true;
    n->config.cluster.join = i == HOME ? NULL : "127.0.0.1:1";
    snprintf(folders[i], sizeof folders[i], "/tmp/test-guestjob-XXXXXX");
    n->session.dir = mkdtemp(folders[i]);
    n->cluster = calloc(1, sizeof *n->cluster);
    *n->cluster = (node_cluster_t){.node = n, .log_fd = -1, .host = "127.0.0.1"};
    node_roster_init(&n->cluster->roster);
    assert_int_equal(mesh_open(&n->loop, &config, &ops, n->cluster, &n->cluster->mesh), MOB_OK);
}

static void meet(int i, int j) {
    uint8_t *card;
    size_t size;
    node_cluster_t *c = nodes[i]->cluster;
    uint64_t peer = nodes[j]->incarnation;
    assert_int_equal(node_roster_card(nodes[j], 512, &card, &size), MOB_OK);
    assert_int_equal(node_roster_add(&c->roster, peer, card, size), MOB_OK);
    free(card);
    assert_int_equal(mesh_peer_add(c->mesh, peer, "127.0.0.1", mesh_port(nodes[j]->cluster->mesh)),
                     MOB_OK);
    node_guestjob_joined(c, peer);
}

/* A job as a driver brings one. */
static node_job_t *job_new(node_t *n) {
    static const char *const argv[] = {"/no/such/python3", NULL};
    static const char *env[] = {"MINE=1", "PATH=/none", "CUDA_VISIBLE_DEVICES=3", NULL, NULL};
    static const char *const none[] = {NULL};
    env[3] = big;
    wire_setup_t given = {.folder = "/no/such/folder",
                          .name_space = "space",
                          .entrypoint = "x",
                          .argv = argv,
                          .env = env,
                          .preload = none,
                          .log_to_driver = true,
                          .inner = "words",
                          .inner_size = 5};
    size_t size = wire_setup_size(&given);
    char *bytes = malloc(size);
    int fd;
    node_setup_t *setup;
    node_job_t *job;
    wire_setup_write(&given, bytes);
    assert_int_equal(shm_sealed_make("test", bytes, size, &fd), MOB_OK);
    free(bytes);
    assert_int_equal(node_setup_new(n, fd, &setup), MOB_OK);
    assert_int_equal(node_job_new(n, setup, &job), MOB_OK);
    return job;
}

static int set_up(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    big = malloc(600001);
    memset(big, 'x', 600000);
    memcpy(big, "BIG=", 4);
    big[600000] = 0;
    for (int i = 0; i < NODES; i++) {
        nodes[i] = fixture_node_new(16 * SHM_GRANULE);
        cluster_start(nodes[i], i);
        node_guestjobs_start(nodes[i]->cluster);
    }
    for (int i = 0; i < NODES; i++) meet(i, 1 - i);
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    driver = fixture_client_new(nodes[HOME], WIRE_DRIVER);
    assert_int_equal(node_client_attach(driver, pair[0]), MOB_OK);
    far_end = pair[1];
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    close(far_end);
    for (int i = 0; i < NODES; i++) {
        node_cluster_t *c = nodes[i]->cluster;
        node_guestjobs_end(c);
        mesh_close(c->mesh);
        node_roster_fini(&c->roster);
        vec_free(&c->packages.coming);
        nodes[i]->cluster = NULL;
        while (nodes[i]->jobs.items.count > 1) {
            node_job_t *job = vec_pop(&nodes[i]->jobs.items);
            job->driver = NULL;
            sched_job_free(job->sched);
            vec_free(&job->told);
            NODE_EACH_POOL(job, pool) node_pool_free(pool);
            vec_free(&job->pools);
            free(job);
        }
        fixture_node_free(nodes[i]);
        free(c);
        char command[256];
        snprintf(command, sizeof command, "rm -r %s", folders[i]);
        assert_int_equal(system(command), 0);
    }
    free(big);
    return 0;
}

static void turn(void) {
    for (int i = 0; i < NODES; i++) {
        uv_run(&nodes[i]->loop, UV_RUN_NOWAIT);
        node_jobs_settle(nodes[i]);
    }
    usleep(500);
}

#define UNTIL(so)                                       \
    do {                                                \
        bool is_so_ = false;                            \
        for (int i_ = 0; i_ < 40000 && !is_so_; i_++) { \
            is_so_ = (so);                              \
            if (!is_so_) turn();                        \
        }                                               \
        assert_true(is_so_);                            \
    } while (0)

static bool all_has_come(void) {
    return mesh_is_idle(nodes[HOME]->cluster->mesh, 0) &&
           mesh_is_idle(nodes[AWAY]->cluster->mesh, 0);
}

static node_job_t *found(int i, frame_job_t id) {
    bool is_ended;
    return node_guestjob_find(nodes[i], id, &is_ended);
}

static bool is_ended(int i, frame_job_t id) {
    bool ended;
    node_job_t *job = node_guestjob_find(nodes[i], id, &ended);
    return job == NULL && ended;
}

/* ---- what the driver hears ---- */

static bool heard(char *ret_text, char *ret_address) {
    static char packet[WIRE_PACKET_MAX];
    wire_text_t head;
    ssize_t size = recv(far_end, packet, sizeof packet, MSG_DONTWAIT);
    if (size < (ssize_t)sizeof head) return false;
    memcpy(&head, packet, sizeof head);
    if (head.packet.kind != WIRE_TEXT) return false;
    strcpy(ret_address, packet + sizeof head + head.name_size);
    snprintf(ret_text, 4096, "%.*s", (int)head.text_size,
             packet + sizeof head + head.name_size + head.address_size);
    return true;
}

/* ---- tests ---- */

static bool has(const char *const *list, const char *text) {
    for (; *list != NULL; list++)
        if (strcmp(*list, text) == 0) return true;
    return false;
}

static void test_a_setup_fits_the_machine(void **state) {
    (void)state;
    char text[4096], address[64], path[4096];
    node_job_t *job = job_new(nodes[HOME]);
    frame_job_t id = node_guestjob_id(job);
    job->driver = driver;
    assert_ptr_equal(found(HOME, id), job);
    assert_null(found(AWAY, id));
    assert_false(is_ended(AWAY, id)); /* it was never told of it */
    for (int i = 0; i < 2; i++)
        assert_int_equal(node_guestjob_send(nodes[HOME]->cluster, nodes[AWAY]->incarnation, job),
                         MOB_OK);
    assert_int_equal(job->told.count, 1);
    UNTIL(all_has_come());
    node_job_t *guest = found(AWAY, id);
    assert_non_null(guest);
    assert_ptr_equal(found(AWAY, id), guest);
    assert_true(guest->is_guest);
    assert_int_equal(guest->shown, job->shown);
    assert_int_equal(node_guestjob_id(guest).home, id.home);
    assert_int_equal(node_guestjob_id(guest).number, id.number);
    const wire_setup_t *given = &guest->setup->given;
    snprintf(path, sizeof path, "PATH=%s", getenv("PATH"));
    assert_string_equal(given->folder, folders[AWAY]);
    assert_string_equal(given->name_space, "space");
    assert_true(has(given->env, "MINE=1") && has(given->env, path) && has(given->env, big));
    snprintf(path, sizeof path, "MOBULA_GUEST=%s", folders[AWAY]);
    assert_true(has(given->env, path));
    assert_false(has(given->env, "PATH=/none") || has(given->env, "CUDA_VISIBLE_DEVICES=3"));
    assert_int_equal(given->inner_size, 5);
    /* the driver is told what is not there */
    UNTIL(heard(text, address));
    assert_non_null(strstr(text, "/no/such/folder"));
    assert_string_equal(address, "127.0.0.1");
}

static void test_an_environment_comes_before_its_frame(void **state) {
    (void)state;
    static const char *const none[] = {NULL}, *const env[] = {"LEVEL=3", NULL};
    wire_setup_t changes = {.folder = "",
                            .name_space = "",
                            .entrypoint = "",
                            .argv = none,
                            .env = env,
                            .preload = none};
    uint8_t bytes[512], name[NODE_ENVIRONMENT_NAME];
    size_t size = wire_setup_size(&changes);
    wire_setup_write(&changes, bytes);
    node_job_t *job = job_new(nodes[HOME]);
    frame_job_t id = node_guestjob_id(job);
    uint32_t number;
    node_environment_name(bytes, size, name);
    assert_int_equal(node_environment_add(job, bytes, size, name, &number), MOB_OK);
    node_pool_t *pool = job->pools.items[number];
    assert_int_equal(node_guestjob_send_pool(nodes[HOME]->cluster, nodes[AWAY]->incarnation, pool),
                     MOB_OK);
    UNTIL(all_has_come());
    node_job_t *guest = found(AWAY, id);
    assert_non_null(guest);
    uint32_t there = node_environment_find(guest, name);
    assert_int_not_equal(there, 0);
    assert_int_equal(node_environment_open(guest->pools.items[there]), MOB_OK);
    assert_true(has(guest->pools.items[there]->setup->given.env, "LEVEL=3"));
    assert_true(has(guest->pools.items[there]->setup->given.env, "MINE=1"));
    /* it is not sent back */
    assert_int_equal(node_guestjob_send_pool(nodes[AWAY]->cluster, nodes[HOME]->incarnation,
                                             guest->pools.items[there]),
                     MOB_OK);
    assert_true(all_has_come());
    name[0] ^= 1;
    assert_int_equal(node_environment_add(job, bytes, size, name, &number), MOB_EPROTO);
}

static void test_a_job_that_ends(void **state) {
    (void)state;
    node_job_t *job = job_new(nodes[HOME]), *stays = job_new(nodes[HOME]);
    frame_job_t id = node_guestjob_id(job), other = node_guestjob_id(stays);
    node_cluster_t *home = nodes[HOME]->cluster;
    uint64_t away = nodes[AWAY]->incarnation;
    assert_int_equal(node_guestjob_send(home, away, job), MOB_OK);
    assert_int_equal(node_guestjob_send(home, away, stays), MOB_OK);
    UNTIL(all_has_come());
    assert_non_null(found(AWAY, id));
    assert_non_null(found(AWAY, other));
    size_t there = nodes[AWAY]->jobs.items.count;
    node_job_leave(job, true);
    assert_true(is_ended(HOME, id));
    assert_int_equal(job->farewell.awaited, 1);
    assert_false(job->farewell.over);
    UNTIL(is_ended(AWAY, id));
    assert_non_null(found(AWAY, other));
    UNTIL(nodes[AWAY]->jobs.items.count == there - 1);
    UNTIL(nodes[HOME]->cluster == home && all_has_come());
    /* its setup comes late, from a node that has not heard of the end */
    node_jobpiece_t piece = {.job = id, .shown = 1, .total = 4, .size = 4};
    uint8_t late[JOBPOST_HEAD_MAX + 4] = {0};
    size_t size = node_jobpiece_head(false, &piece, late);
    assert_int_equal(node_guestjob_receive(nodes[AWAY]->cluster, 99, late, size + 4), MOB_OK);
    assert_true(is_ended(AWAY, id));
}

/* Its end is told to a node that joins later: all numbers but those that go on. */
static void test_what_a_node_is_told_that_joins(void **state) {
    (void)state;
    node_t *n = nodes[AWAY];
    frame_job_t first = {.home = nodes[HOME]->incarnation, .number = 1};
    UNTIL(all_has_come());
    assert_false(is_ended(AWAY, first)); /* the fixture's own */
    first.number = 77;
    assert_false(is_ended(AWAY, first)); /* not made yet, for all that is known */
    first.number = 1;
    node_guestjob_died(n->cluster, nodes[HOME]->incarnation);
    assert_false(is_ended(AWAY, first)); /* forgotten; with a real member the tombstone says it */
}

static void test_the_death_of_a_home(void **state) {
    (void)state;
    node_job_t *job = job_new(nodes[HOME]);
    frame_job_t id = node_guestjob_id(job);
    assert_int_equal(node_guestjob_send(nodes[HOME]->cluster, nodes[AWAY]->incarnation, job),
                     MOB_OK);
    UNTIL(all_has_come());
    node_job_t *guest = found(AWAY, id);
    size_t there = nodes[AWAY]->jobs.items.count;
    assert_non_null(guest);
    mesh_peer_close(nodes[AWAY]->cluster->mesh, id.home);
    node_guestjob_died(nodes[AWAY]->cluster, id.home);
    assert_null(found(AWAY, id));
    UNTIL(nodes[AWAY]->jobs.items.count == there - 1);
    node_guestjob_died(nodes[HOME]->cluster, nodes[AWAY]->incarnation);
    assert_int_equal(job->told.count, 0);
}

static void test_prints_go_home(void **state) {
    (void)state;
    char text[4096], address[64];
    node_job_t *job = job_new(nodes[HOME]);
    job->driver = driver;
    assert_int_equal(node_guestjob_send(nodes[HOME]->cluster, nodes[AWAY]->incarnation, job),
                     MOB_OK);
    UNTIL(all_has_come());
    node_job_t *guest = found(AWAY, node_guestjob_id(job));
    UNTIL(heard(text, address)); /* of the folder */
    assert_true(node_job_is_heard(guest) && node_job_has_room(guest, 0));
    node_text_send(guest, MOB_MESSAGE_OUT, 12, "work", "hello", 5);
    UNTIL(heard(text, address));
    assert_string_equal(text, "hello");
    assert_string_equal(address, "127.0.0.1");
    /* the driver does not read: what comes is counted */
    driver->outbox_bytes += NODE_OUTBOX_HIGH + 1;
    for (int i = 0; i < 3; i++) node_text_send(guest, MOB_MESSAGE_OUT, 12, "work", "a\nb", 3);
    UNTIL(job->output.left_out == 6);
    driver->outbox_bytes -= NODE_OUTBOX_HIGH + 1;
    UNTIL(heard(text, address));
    assert_non_null(strstr(text, "6 lines"));
}

static void test_a_full_link(void **state) {
    (void)state;
    static char line[60000];
    node_job_t *job = job_new(nodes[HOME]);
    assert_int_equal(node_guestjob_send(nodes[HOME]->cluster, nodes[AWAY]->incarnation, job),
                     MOB_OK);
    UNTIL(all_has_come());
    node_job_t *guest = found(AWAY, node_guestjob_id(job));
    memset(line, 'x', sizeof line);
    for (int i = 0; i < 100; i++)
        node_text_send(guest, MOB_MESSAGE_OUT, 12, "work", line, sizeof line);
    assert_false(node_job_has_room(guest, NODE_OUTBOX_HIGH));
    assert_true(guest->output.left_out > 50);
    UNTIL(guest->output.left_out == 0 && all_has_come());
}

/* ---- packages ---- */

static void file_write(int node, const char *name, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/packages", folders[node]);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/packages/%s", folders[node], name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < size; i++) fputc((int)(i * i >> 8), file);
    fclose(file);
}

static bool file_is(int node, const char *name, size_t size) {
    char path[256];
    snprintf(path, sizeof path, "%s/packages/%s", folders[node], name);
    FILE *file = fopen(path, "r");
    if (file == NULL) return false;
    bool same = true;
    for (size_t i = 0; i < size && same; i++) same = fgetc(file) == (int)(uint8_t)(i * i >> 8);
    same = same && fgetc(file) == EOF;
    fclose(file);
    return same;
}

/* What the zygote hears: nothing, or why not. */
static bool brought(int sock, const char *name, char *ret_why) {
    char packet[1024];
    wire_packet_t head;
    ssize_t size = recv(sock, packet, sizeof packet, MSG_DONTWAIT);
    if (size < 0) return false;
    memcpy(&head, packet, sizeof head);
    assert_int_equal(head.kind, WIRE_BROUGHT);
    assert_string_equal(packet + sizeof head, name);
    size_t words = sizeof head + strlen(name) + 1;
    snprintf(ret_why, 512, "%.*s", (int)((size_t)size - words), packet + words);
    return true;
}

static void test_a_package_is_brought(void **state) {
    (void)state;
    enum { SIZE = 1300000 };
    char why[512];
    int pair[2];
    node_job_t *job = job_new(nodes[HOME]);
    assert_int_equal(node_guestjob_send(nodes[HOME]->cluster, nodes[AWAY]->incarnation, job),
                     MOB_OK);
    UNTIL(all_has_come());
    node_job_t *guest = found(AWAY, node_guestjob_id(job));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    node_client_t *zygote = node_client_new(nodes[AWAY]);
    assert_int_equal(node_client_attach(zygote, pair[0]), MOB_OK);
    guest->setup->zygote.next = zygote;
    file_write(HOME, "good.zip", SIZE);
    for (int i = 0; i < 2; i++) node_package_want(guest->setup, "good.zip");
    for (int i = 0; i < 2; i++) {
        UNTIL(brought(pair[1], "good.zip", why));
        assert_string_equal(why, "");
    }
    assert_true(file_is(AWAY, "good.zip", SIZE));
    /* none has it */
    node_package_want(guest->setup, "none.zip");
    UNTIL(brought(pair[1], "none.zip", why));
    assert_non_null(strstr(why, "No such file"));
    /* nothing else of the home's files can be had */
    static const char *const bad[] = {"../good.zip", ".part", "", "a/b"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        node_package_want(guest->setup, bad[i]);
        UNTIL(brought(pair[1], bad[i], why));
        assert_string_not_equal(why, "");
    }
    uint8_t ask[64] = {JOBPOST_WANT, 7, '.', '.', '/', 'a', 'b', 'c', 'd'};
    assert_int_equal(node_guestjob_receive(nodes[HOME]->cluster, nodes[AWAY]->incarnation, ask, 17),
                     MOB_EPROTO);
    /* its source dies */
    node_package_want(guest->setup, "good2.zip");
    node_packages_died(nodes[AWAY]->cluster, nodes[HOME]->incarnation);
    UNTIL(brought(pair[1], "good2.zip", why));
    assert_non_null(strstr(why, "dead"));
    assert_int_equal(nodes[AWAY]->cluster->packages.coming.count, 0);
    UNTIL(nodes[HOME]->cluster->packages.readings == 0 && all_has_come());
    guest->setup->zygote.next = NULL;
    close(pair[1]);
}

/* Whatever a peer says: nothing of it breaks anything. */
static void test_anything(void **state) {
    (void)state;
    unsigned chance = 7;
    for (int i = 0; i < 100000; i++) {
        uint8_t bytes[64];
        size_t size = (size_t)(rand_r(&chance) % 64);
        for (size_t k = 0; k < size; k++)
            bytes[k] = (uint8_t)(rand_r(&chance) % 4 ? rand_r(&chance) % 6 : rand_r(&chance));
        if (size > 9 && rand_r(&chance) % 2) bytes[1] = 102, memset(bytes + 2, 0, 7);
        (void)node_guestjob_receive(nodes[AWAY]->cluster, 101, bytes, size);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_setup_fits_the_machine),
        TEST(test_an_environment_comes_before_its_frame),
        TEST(test_a_job_that_ends),
        TEST(test_what_a_node_is_told_that_joins),
        TEST(test_the_death_of_a_home),
        TEST(test_prints_go_home),
        TEST(test_a_full_link),
        TEST(test_a_package_is_brought),
        TEST(test_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
