/*
 * A whole system without workers, through mobula.h alone: a daemon is started, objects are put,
 * read, waited for and dropped.
 *
 * Usage: test_system MOBULAD
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../system.h"
#include "mobula.h"

static const uint64_t STORE = 64 << 20;
static const char *daemon_path;

static mob_config_t usual_config(void) {
    return (mob_config_t){.daemon_path = daemon_path, .store_bytes = STORE};
}

static int system_start(void **state) {
    mob_config_t config = usual_config();
    return system_begin(&config, state);
}

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static mob_ref_t put_ok(mob_client_t *c, const void *data, uint64_t size) {
    mob_ref_t ref = {0};
    mob_status_t status = mob_put(c, data, size, MOB_FORMAT_DIRECT, &ref);
    if (status != MOB_OK)
        fail_msg("mob_put of %llu bytes: %s: %s", (unsigned long long)size, mob_status_name(status),
                 mob_last_error());
    assert_int_not_equal(ref.slot, 0);
    return ref;
}

static mob_value_t peek_ok(mob_client_t *c, mob_ref_t ref) {
    mob_value_t value;
    assert_int_equal(mob_get_wait(c, &ref, 1, 5000), MOB_OK);
    assert_int_equal(mob_get_begin(c, ref, &value), MOB_OK);
    assert_int_equal(value.error, MOB_OK);
    return value;
}

/* A task that nobody will ever run: its result stays pending. */
static mob_ref_t never_done(mob_client_t *c) {
    const mob_task_t task = {.kind = MOB_TASK, .name = "never", .name_size = 5, .num_returns = 1};
    mob_ref_t ref;
    assert_int_equal(mob_submit(c, &task, &ref), MOB_OK);
    return ref;
}

/* What the daemon says is free in the store: the last number of the last tuple of
 * MOB_QUERY_RESOURCES. */
static double store_free(mob_client_t *c) {
    void *answer;
    size_t size;
    double bytes;
    assert_int_equal(mob_query(c, MOB_QUERY_RESOURCES, 0, &answer, &size), MOB_OK);
    assert_true(size > 9);
    assert_int_equal(((uint8_t *)answer)[size - 9], MOB_FLOAT);
    memcpy(&bytes, (uint8_t *)answer + size - 8, 8);
    free(answer);
    return bytes;
}

static void test_put_and_get_all_sizes(void **state) {
    mob_client_t *c = *state;
    const uint64_t sizes[] = {0, 1, MOB_SMALL, MOB_SMALL + 1, 1000, 65536, 300000, 5 << 20};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char *data = malloc(sizes[i] + 1);
        for (uint64_t k = 0; k < sizes[i]; k++) data[k] = (unsigned char)(k * 7 + i);
        mob_ref_t ref = put_ok(c, data, sizes[i]);
        mob_value_t value = peek_ok(c, ref);
        assert_int_equal(value.size, sizes[i]);
        assert_int_equal(value.format, MOB_FORMAT_DIRECT);
        assert_int_equal(value.ref_count, 0);
        assert_memory_equal(value.data, data, sizes[i]);
        mob_ref_release(c, ref);
        free(data);
    }
}

static void test_a_buffer_is_written_in_parts(void **state) {
    mob_client_t *c = *state;
    const uint64_t size = 24 << 20, middle = 9 << 20;
    unsigned char *data = malloc(size);
    for (uint64_t k = 0; k < size; k++) data[k] = (unsigned char)(k * 7 + (k >> 13));
    for (int round = 0; round < 3; round++) {
        mob_buffer_t buffer;
        mob_ref_t ref;
        assert_int_equal(mob_put_begin(c, size, 0, &buffer), MOB_OK);
        assert_int_equal(buffer.cold, round == 0); /* the same place each time */
        if (round == 1) mob_buffer_map(c, &buffer);
        mob_buffer_write(c, &buffer, 0, data, middle + 1);
        mob_buffer_write(c, &buffer, middle + 1, data + middle + 1, 100);
        mob_buffer_write(c, &buffer, middle + 101, data + middle + 101, size - middle - 101);
        assert_int_equal(mob_put_commit(c, &buffer, MOB_FORMAT_DIRECT, NULL, &ref), MOB_OK);
        assert_memory_equal(peek_ok(c, ref).data, data, size);
        mob_ref_release(c, ref);
    }
    free(data);
}

static void test_nothing_may_be_put(void **state) {
    mob_ref_t ref;
    assert_int_equal(mob_put(*state, NULL, 0, MOB_FORMAT_DIRECT, &ref), MOB_OK);
    assert_int_equal(peek_ok(*state, ref).size, 0);
    mob_ref_release(*state, ref);
}

static void test_a_value_with_references(void **state) {
    mob_client_t *c = *state;
    mob_ref_t inside[3], container;
    for (uint32_t i = 0; i < 3; i++) inside[i] = put_ok(c, &i, sizeof i);
    mob_buffer_t buffer;
    assert_int_equal(mob_put_begin(c, 5, 3, &buffer), MOB_OK);
    memcpy(buffer.data, "stuff", 5);
    assert_int_equal(mob_put_commit(c, &buffer, MOB_FORMAT_PICKLE, inside, &container), MOB_OK);
    for (int i = 0; i < 3; i++) mob_ref_release(c, inside[i]); /* the container keeps them */
    (void)store_free(c);                                       /* the daemon has read all that */
    mob_value_t value = peek_ok(c, container);
    assert_int_equal(value.format, MOB_FORMAT_PICKLE);
    assert_int_equal(value.ref_count, 3);
    mob_value_adopt(c, container, &value);
    mob_ref_t kept[3];
    memcpy(kept, value.refs, sizeof kept);
    mob_ref_release(c, container);
    (void)store_free(c);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t number;
        mob_value_t inner = peek_ok(c, kept[i]);
        assert_int_equal(inner.size, sizeof number);
        memcpy(&number, inner.data, sizeof number);
        assert_int_equal(number, i);
        mob_ref_release(c, kept[i]);
    }
    mob_value_t gone;
    double start = now_s();
    while (mob_get_begin(c, kept[0], &gone) == MOB_OK && now_s() - start < 5) usleep(1000);
    assert_int_not_equal(mob_get_begin(c, kept[0], &gone), MOB_OK);
}

static void test_abort_leaves_nothing(void **state) {
    mob_client_t *c = *state;
    (void)put_ok(c, "x", 1);
    double before = store_free(c);
    for (int i = 0; i < 1000; i++) {
        mob_buffer_t buffer;
        assert_int_equal(mob_put_begin(c, 1 << 20, 0, &buffer), MOB_OK);
        mob_put_abort(c, &buffer);
    }
    assert_true(store_free(c) >= before);
}

static void test_dropped_memory_comes_back(void **state) {
    mob_client_t *c = *state;
    enum { COUNT = 8 };
    static unsigned char data[4 << 20];
    (void)store_free(c);
    double before = store_free(c);
    for (int round = 0; round < 20; round++) { /* together far more than there is */
        mob_ref_t refs[COUNT];
        for (int i = 0; i < COUNT; i++) refs[i] = put_ok(c, data, sizeof data);
        assert_true(store_free(c) <= before - COUNT * (double)sizeof data);
        for (int i = 0; i < COUNT; i++) mob_ref_release(c, refs[i]);
        assert_true(store_free(c) >= before);
    }
}

static void test_more_than_there_is(void **state) {
    mob_client_t *c = *state;
    const uint64_t sizes[] = {(uint64_t)1 << 50, UINT64_MAX / 2, UINT64_MAX - 100, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mob_buffer_t buffer;
        assert_int_equal(mob_put_begin(c, sizes[i], 0, &buffer), MOB_EFULL);
        assert_true(strstr(mob_last_error(), "object store") != NULL);
    }
    mob_ref_t ref = put_ok(c, "still here", 10);
    assert_memory_equal(peek_ok(c, ref).data, "still here", 10);
    mob_ref_release(c, ref);
}

static void test_full_and_free_again(void **state) {
    mob_client_t *c = *state;
    enum { MOST = 1000 };
    static unsigned char data[1 << 20];
    static mob_ref_t refs[MOST];
    int count = 0;
    mob_status_t status = MOB_OK;
    /* Each is read in place, so none can go to disk. */
    while (count < MOST &&
           (status = mob_put(c, data, sizeof data, MOB_FORMAT_DIRECT, &refs[count])) == MOB_OK)
        peek_ok(c, refs[count++]);
    assert_int_equal(status, MOB_EFULL);
    assert_non_null(strstr(mob_last_error(), "in use by the driver"));
    assert_true(count > 40 && count <= 64);
    mob_ref_release(c, refs[--count]);
    refs[count++] = put_ok(c, data, sizeof data);
    while (count > 0) mob_ref_release(c, refs[--count]);
    refs[0] = put_ok(c, data, 1000);
    mob_ref_release(c, refs[0]);
}

static void test_many_dropped_at_once_keep_slots_few(void **state) {
    mob_client_t *c = *state;
    uint32_t highest = 0;
    for (int i = 0; i < 100000; i++) {
        mob_ref_t ref = put_ok(c, &i, sizeof i);
        if (ref.slot > highest) highest = ref.slot;
        mob_ref_release(c, ref);
    }
    assert_true(highest < 1024);
    unsigned char data[2000] = {0};
    double before = store_free(c);
    for (int i = 0; i < 100000; i++) {
        mob_ref_t ref = put_ok(c, data, sizeof data);
        if (ref.slot > highest) highest = ref.slot;
        mob_ref_release(c, ref);
    }
    assert_true(highest < 1024);
    assert_true(before - store_free(c) < 8 << 20);
}

static void test_timeouts(void **state) {
    mob_client_t *c = *state;
    mob_ref_t refs[2] = {put_ok(c, "x", 1), never_done(c)};
    uint8_t ready[2];
    size_t count;
    mob_value_t value;
    assert_int_equal(mob_get_begin(c, refs[1], &value), MOB_ETIMEOUT);
    assert_int_equal(mob_get_wait(c, refs, 2, 0), MOB_ETIMEOUT);
    double start = now_s();
    assert_int_equal(mob_get_wait(c, refs, 2, 50), MOB_ETIMEOUT);
    assert_true(now_s() - start >= 0.049 && now_s() - start < 10);
    start = now_s();
    assert_int_equal(mob_wait(c, refs, 2, 2, 50, ready, &count), MOB_OK);
    assert_true(now_s() - start >= 0.049 && now_s() - start < 10);
    assert_int_equal(count, 1);
    assert_int_equal(ready[0], 1);
    assert_int_equal(ready[1], 0);
    start = now_s();
    assert_int_equal(mob_wait(c, refs, 2, 1, -1, ready, &count), MOB_OK);
    assert_true(now_s() - start < 1);
    assert_int_equal(count, 1);
    assert_int_equal(mob_get_wait(c, refs, 1, -1), MOB_OK);
    assert_int_equal(mob_get_wait(c, refs, 0, 0), MOB_OK);
}

static void test_wait_marks_no_more_than_needed(void **state) {
    mob_client_t *c = *state;
    mob_ref_t refs[10];
    uint8_t ready[10];
    size_t count;
    for (int i = 0; i < 10; i++) refs[i] = put_ok(c, &i, sizeof i);
    assert_int_equal(mob_wait(c, refs, 10, 4, -1, ready, &count), MOB_OK);
    assert_int_equal(count, 4);
    for (int i = 0; i < 10; i++) assert_int_equal(ready[i], i < 4);
}

static void on_alarm(int number) { (void)number; }

static void alarm_soon(void) {
    struct itimerval soon = {.it_value = {.tv_usec = 100000}};
    setitimer(ITIMER_REAL, &soon, NULL);
}

static void test_a_signal_interrupts(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = never_done(c);
    uint8_t ready;
    size_t count;
    struct sigaction action = {.sa_handler = on_alarm}, old;
    sigaction(SIGALRM, &action, &old);
    double start = now_s();
    alarm_soon();
    assert_int_equal(mob_get_wait(c, &ref, 1, 30000), MOB_EINTR);
    alarm_soon();
    assert_int_equal(mob_wait(c, &ref, 1, 1, 30000, &ready, &count), MOB_EINTR);
    assert_true(now_s() - start < 5);
    sigaction(SIGALRM, &old, NULL);
}

static void test_stale_references(void **state) {
    mob_client_t *c = *state;
    uint8_t id[MOB_ID_SIZE];
    mob_ref_t ref = put_ok(c, "x", 1), back;
    mob_ref_id(c, ref, id);
    mob_ref_release(c, ref);
    assert_int_equal(mob_ref_from_id(c, id, &back), MOB_OK);
    assert_int_equal(mob_get_wait(c, &back, 1, 1000), MOB_ESTALE);
    mob_ref_t other = put_ok(c, "y", 1); /* most likely in the same slot */
    assert_int_equal(mob_get_wait(c, &back, 1, 1000), MOB_ESTALE);
    mob_ref_release(c, other);
}

static void test_shapes(void **state) {
    mob_client_t *c = *state;
    uint32_t a, b, nothing;
    const mob_resource_t one[] = {{"CPU", 1}, {"own", 0.5}}, two[] = {{"own", 0.5}, {"CPU", 1}};
    assert_int_equal(mob_shape(c, one, 2, &a), MOB_OK);
    assert_int_equal(mob_shape(c, two, 2, &b), MOB_OK);
    assert_int_equal(a, b);
    assert_int_equal(mob_shape(c, NULL, 0, &nothing), MOB_OK);
    assert_int_equal(nothing, 0);
    const mob_resource_t negative = {"CPU", -1}, part = {"GPU", 1.5}, nameless = {"", 1};
    assert_int_equal(mob_shape(c, &negative, 1, &b), MOB_EINVAL);
    assert_int_equal(mob_shape(c, &part, 1, &b), MOB_EINVAL);
    assert_non_null(strstr(mob_last_error(), "GPU"));
    assert_int_equal(mob_shape(c, &nameless, 1, &b), MOB_EINVAL);
    assert_non_null(strstr(mob_last_error(), "name"));
    /* It is forgotten when it was dropped as often as it was asked for, and has another number
     * then. */
    mob_shape_drop(c, a);
    assert_int_equal(mob_shape(c, one, 2, &b), MOB_OK);
    assert_int_equal(a, b);
    mob_shape_drop(c, a);
    mob_shape_drop(c, a);
    assert_int_equal(mob_shape(c, one, 2, &b), MOB_OK);
    assert_int_not_equal(a, b);
}

static void test_creations_that_contradict_themselves(void **state) {
    mob_client_t *c = *state;
    mob_task_t task = {.kind = MOB_ACTOR_CREATE, .num_returns = 2};
    mob_ref_t refs[2];
    assert_int_equal(mob_submit(c, &task, refs), MOB_EINVAL);
    assert_non_null(strstr(mob_last_error(), "one result"));
    task = (mob_task_t){.kind = MOB_ACTOR_CREATE, .num_returns = 1, .retry_exceptions = true};
    assert_int_equal(mob_submit(c, &task, refs), MOB_EINVAL);
    assert_non_null(strstr(mob_last_error(), "not made again"));
}

static void test_shape_of_many_resources(void **state) {
    mob_client_t *c = *state;
    static char names[MOB_MAX_RESOURCES + 1][16];
    mob_resource_t demand[MOB_MAX_RESOURCES + 1];
    uint32_t shape;
    for (int i = 0; i <= MOB_MAX_RESOURCES; i++) {
        snprintf(names[i], sizeof names[i], "name%d", i);
        demand[i] = (mob_resource_t){names[i], 1};
    }
    assert_int_equal(mob_shape(c, demand, MOB_MAX_RESOURCES + 1, &shape), MOB_EINVAL);
    assert_non_null(strstr(mob_last_error(), "256"));
    assert_int_equal(mob_shape(c, demand, MOB_MAX_RESOURCES, &shape), MOB_OK);
}

/* One for each task: there may be any number of them in a session's life. */
static void test_shapes_one_after_the_other(void **state) {
    mob_client_t *c = *state;
    for (int i = 1; i <= 70000; i++) {
        uint32_t shape;
        const mob_resource_t memory = {"memory", i};
        if (mob_shape(c, &memory, 1, &shape) != MOB_OK || shape % (1 << 20) > 2000) fail();
        mob_shape_drop(c, shape);
    }
}

static void *work(void *client) {
    mob_client_t *c = client;
    unsigned seed = (unsigned)(uintptr_t)pthread_self();
    for (int i = 0; i < 3000; i++) {
        unsigned char data[6000];
        size_t size = (size_t)rand_r(&seed) % sizeof data;
        memset(data, i, size);
        mob_ref_t ref;
        mob_value_t value;
        if (mob_put(c, data, size, MOB_FORMAT_DIRECT, &ref) != MOB_OK ||
            mob_get_wait(c, &ref, 1, 1000) != MOB_OK || mob_get_begin(c, ref, &value) != MOB_OK ||
            value.size != size || (size > 0 && memcmp(value.data, data, size) != 0))
            return "a value was not what was put";
        mob_ref_release(c, ref);
        if (i % 500 == 0) {
            void *answer;
            if (mob_query(c, MOB_QUERY_RESOURCES, 0, &answer, &size) != MOB_OK)
                return "a question was not answered";
            free(answer);
        }
    }
    return NULL;
}

static void test_four_threads(void **state) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, *state), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        if (wrong != NULL) fail_msg("%s", (const char *)wrong);
    }
}

/* In a child: what a fork's copy of the client does. 0 if all is as promised. */
static int forked_use(mob_client_t *c, mob_ref_t small, const mob_value_t *large) {
    mob_ref_t made;
    mob_value_t value;
    mob_buffer_t buffer;
    if (mob_put(c, "x", 1, MOB_FORMAT_DIRECT, &made) != MOB_EFORKED) return 1;
    if (mob_get_wait(c, &small, 1, 0) != MOB_EFORKED) return 2;
    if (mob_get_begin(c, small, &value) != MOB_EFORKED) return 3;
    if (mob_put_begin(c, 100, 0, &buffer) != MOB_EFORKED) return 4;
    mob_ref_retain(c, small);
    mob_ref_release(c, small);
    for (uint64_t i = 0; i < large->size; i++)
        if (((const unsigned char *)large->data)[i] != 0x5a) return 5;
    mob_shutdown(c);
    return 0;
}

static void test_a_forked_child_is_no_client(void **state) {
    mob_client_t *c = *state;
    static unsigned char data[400000];
    memset(data, 0x5a, sizeof data);
    mob_ref_t small = put_ok(c, "small", 5), large = put_ok(c, data, sizeof data);
    mob_value_t value = peek_ok(c, large);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(forked_use(c, small, &value));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_memory_equal(peek_ok(c, small).data, "small", 5); /* the parent's goes on */
    mob_ref_release(c, put_ok(c, "more", 4));
}

static void test_values_outlive_the_session(void **state) {
    (void)state;
    mob_config_t config = usual_config();
    mob_client_t *c;
    static unsigned char data[100000];
    memset(data, 7, sizeof data);
    assert_int_equal(mob_init(&config, &c), MOB_OK);
    mob_value_t value = peek_ok(c, put_ok(c, data, sizeof data));
    mob_view_hold(c);
    mob_shutdown(c);
    assert_memory_equal(value.data, data, sizeof data);
    mob_view_release(c);
}

static bool process_is_there(int pid) { return kill(pid, 0) == 0 || errno != ESRCH; }

static void test_shutdown_leaves_nothing(void **state) {
    (void)state;
    mob_config_t config = usual_config();
    mob_client_t *c;
    mob_session_t session;
    struct stat st;
    config.setup = "hello";
    config.setup_size = 5;
    assert_int_equal(mob_init(&config, &c), MOB_OK);
    mob_client_session(c, &session);
    assert_true(session.daemon_pid > 0);
    assert_true(process_is_there(session.daemon_pid));
    assert_int_equal(session.number, 1);
    assert_int_equal(session.setup_size, 0); /* it is for the workers */
    assert_int_equal(session.job, 1);
    assert_int_equal(stat(session.session_dir, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    char folder[4096];
    strncpy(folder, session.session_dir, sizeof folder - 1);
    int pid = session.daemon_pid;
    (void)never_done(c);
    mob_shutdown(c);
    assert_false(process_is_there(pid));
    assert_int_equal(stat(folder, &st), -1);
    mob_shutdown(NULL);
}

static void test_a_dead_daemon_is_an_error_with_a_name(void **state) {
    (void)state;
    mob_config_t config = usual_config();
    mob_client_t *c;
    mob_session_t session;
    assert_int_equal(mob_init(&config, &c), MOB_OK);
    mob_client_session(c, &session);
    mob_ref_t ref = never_done(c);
    kill(session.daemon_pid, SIGKILL);
    double start = now_s();
    mob_status_t status = MOB_EINTR; /* waiting may come up for air */
    while (status == MOB_EINTR) status = mob_get_wait(c, &ref, 1, -1);
    assert_int_equal(status, MOB_ECLOSED);
    void *answer;
    size_t size;
    assert_int_equal(mob_query(c, MOB_QUERY_RESOURCES, 0, &answer, &size), MOB_ECLOSED);
    assert_true(now_s() - start < 5);
    mob_shutdown(c);
}

static void test_no_daemon_to_start(void **state) {
    (void)state;
    mob_client_t *c = NULL;
    mob_config_t config = usual_config();
    config.daemon_path = "/nonexistent/mobulad";
    assert_int_equal(mob_init(&config, &c), MOB_ESYS);
    config.daemon_path = "/bin/true"; /* ends before it answers */
    assert_int_not_equal(mob_init(&config, &c), MOB_OK);
    config = usual_config();
    config.temp_dir = "/proc";
    assert_int_not_equal(mob_init(&config, &c), MOB_OK);
    assert_true(strlen(mob_last_error()) > 10);
    static char setup[(16 << 20) + 1]; /* more than may be */
    config = usual_config();
    config.setup = setup;
    config.setup_size = sizeof setup;
    assert_int_equal(mob_init(&config, &c), MOB_ELIMIT);
    assert_non_null(strstr(mob_last_error(), "16777217 for itself"));
    assert_null(c);
}

/* More than a packet can be, and more than the socket takes at once. */
static void test_a_large_setup(void **state) {
    (void)state;
    enum { SIZE = 3 << 20 };
    char *setup = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++) setup[i] = (char)(i * 7 + i / 65536);
    mob_config_t config = usual_config();
    config.setup = setup;
    config.setup_size = SIZE;
    mob_client_t *c;
    assert_int_equal(mob_init(&config, &c), MOB_OK);
    mob_shutdown(c);
    free(setup);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    daemon_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_and_get_all_sizes, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_a_buffer_is_written_in_parts, system_start,
                                        system_stop),
        cmocka_unit_test_setup_teardown(test_nothing_may_be_put, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_a_value_with_references, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_abort_leaves_nothing, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_dropped_memory_comes_back, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_more_than_there_is, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_full_and_free_again, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_many_dropped_at_once_keep_slots_few, system_start,
                                        system_stop),
        cmocka_unit_test_setup_teardown(test_timeouts, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_wait_marks_no_more_than_needed, system_start,
                                        system_stop),
        cmocka_unit_test_setup_teardown(test_a_signal_interrupts, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_stale_references, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_shapes, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_creations_that_contradict_themselves, system_start,
                                        system_stop),
        cmocka_unit_test_setup_teardown(test_shape_of_many_resources, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_shapes_one_after_the_other, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_four_threads, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_a_forked_child_is_no_client, system_start,
                                        system_stop),
        cmocka_unit_test(test_values_outlive_the_session),
        cmocka_unit_test(test_shutdown_leaves_nothing),
        cmocka_unit_test(test_a_dead_daemon_is_an_error_with_a_name),
        cmocka_unit_test(test_no_daemon_to_start),
        cmocka_unit_test(test_a_large_setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
