/*
 * A whole system in C: this driver, the daemon, and workers without Python, which load a library of
 * odd functions.
 *
 * Usage: test_system MOBULAD MOBULA_WORKER LIBRARY
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../system.h"
#include "mobula_task.h"

static const char *daemon_path, *worker_path, *library;

static int system_start(void **state) {
    const char *argv[] = {worker_path, NULL};
    const mob_resource_t resources[] = {{"CPU", 2}, {"GPU", 3}};
    const mob_config_t config = {.daemon_path = daemon_path,
                                 .zygote_argv = argv,
                                 .store_bytes = 64 << 20,
                                 .resources = resources,
                                 .resource_count = 2,
                                 .log_to_driver = true};
    return system_begin(&config, state);
}

static mob_ref_t named(mob_client_t *c, const char *symbol) {
    mob_ref_t ref;
    assert_int_equal(mob_function_c(c, library, symbol, &ref), MOB_OK);
    return ref;
}

static mob_ref_t run(mob_client_t *c, const char *symbol, mob_args_t *args) {
    mob_ref_t ref, function = named(c, symbol);
    assert_int_equal(mob_task_run(c, function, symbol, args, &ref), MOB_OK);
    mob_ref_release(c, function);
    return ref;
}

static int64_t int_of(mob_client_t *c, mob_ref_t ref) {
    mob_value_t value;
    int64_t integer = -1;
    mob_status_t status = mob_get(c, ref, 20000, &value);
    if (status != MOB_OK) fail_msg("%s: %s", mob_status_name(status), mob_last_error());
    assert_int_equal(mob_value_int(&value, &integer), MOB_OK);
    mob_ref_release(c, ref);
    return integer;
}

static void expect_error(mob_client_t *c, mob_ref_t ref, mob_status_t error, const char *words) {
    mob_value_t value;
    mob_status_t status = mob_get(c, ref, 20000, &value);
    if (status != error || strstr(mob_last_error(), words) == NULL)
        fail_msg("%s: %s, and not %s", mob_status_name(status), mob_last_error(), words);
    mob_ref_release(c, ref);
}

static void two_ints(mob_args_t *args, int64_t a, int64_t b) {
    mob_args_init(args);
    mob_write_int(&args->values, a);
    mob_write_int(&args->values, b);
}

static void path_in(mob_args_t *args, char *path, const char *name) {
    snprintf(path, 100, "%s/mobula-task-%d-%s", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp",
             (int)getpid(), name);
    unlink(path);
    mob_args_init(args);
    mob_write_str(&args->values, path, strlen(path));
}

static mob_ref_t cancelled_one(mob_client_t *c, bool force) {
    mob_args_t args;
    char path[100];
    path_in(&args, path, "cancel");
    mob_ref_t ref = run(c, "until_cancelled", &args);
    mob_args_fini(&args);
    while (access(path, F_OK) != 0) usleep(1000);
    unlink(path);
    assert_int_equal(mob_cancel(c, ref, force, true), MOB_OK);
    return ref;
}

/* A worker without Python ignores the signal; its function asks. */
static mob_flow_t flow_begin(mob_client_t *c, const char *symbol, mob_args_t *args,
                             uint32_t limit) {
    mob_flow_t flow;
    mob_ref_t function = named(c, symbol);
    assert_int_equal(mob_task_flow(c, function, symbol, args, limit, &flow), MOB_OK);
    mob_ref_release(c, function);
    mob_args_fini(args);
    return flow;
}

static void test_items(void **state) {
    mob_client_t *c = *state;
    mob_args_t args;
    mob_ref_t ref;
    char path[100];
    /* a worker that dies in the middle, and a reader who may be behind by two */
    path_in(&args, path, "items");
    mob_args_clear(&args);
    mob_write_int(&args.values, 1000);
    mob_write_int(&args.values, 400);
    mob_write_str(&args.values, path, strlen(path));
    mob_flow_t flow = flow_begin(c, "count_up", &args, 2);
    for (int64_t i = 0; i < 1000; i++) {
        assert_int_equal(mob_flow_read(c, &flow, 20000, &ref), MOB_OK);
        assert_int_equal(int_of(c, ref), i);
    }
    assert_int_equal(mob_flow_read(c, &flow, 20000, &ref), MOB_EOVER);
    assert_int_equal(mob_flow_next(c, &flow, &ref), MOB_EOVER);
    mob_flow_close(c, &flow);
    unlink(path);
    /* arrays, and a failure at the end */
    mob_args_init(&args);
    mob_write_int(&args.values, 5);
    flow = flow_begin(c, "arrays_up", &args, 0);
    for (int64_t i = 0; i < 3; i++) {
        mob_value_t value;
        const void *data;
        uint64_t size;
        assert_int_equal(mob_flow_read(c, &flow, 20000, &ref), MOB_OK);
        assert_int_equal(mob_get(c, ref, 20000, &value), MOB_OK);
        assert_int_equal(mob_value_buffer(&value, &data, &size), MOB_OK);
        assert_int_equal(size, 40);
        assert_int_equal(((const int64_t *)data)[4], i);
        mob_get_end(c, ref, &value);
        mob_ref_release(c, ref);
    }
    assert_int_equal(mob_flow_read(c, &flow, 20000, &ref), MOB_OK);
    mob_ref_release(c, ref);
    assert_int_equal(mob_flow_read(c, &flow, 20000, &ref), MOB_OK);
    expect_error(c, ref, MOB_ETASK, "no more than 5");
    assert_int_equal(mob_flow_read(c, &flow, 20000, &ref), MOB_EOVER);
    mob_flow_close(c, &flow);
    /* closed before the task is done with it */
    mob_args_init(&args);
    mob_write_int(&args.values, INT64_MAX);
    flow = flow_begin(c, "count_up", &args, 0);
    assert_int_equal(mob_flow_read(c, &flow, 20000, &ref), MOB_OK);
    mob_ref_release(c, ref);
    mob_ref_retain(c, flow.done);
    ref = flow.done;
    mob_flow_close(c, &flow);
    mob_value_t value;
    assert_int_equal(mob_get(c, ref, 20000, &value), MOB_OK);
    mob_ref_release(c, ref);
    /* one that does not yield, and one that is not asked to */
    two_ints(&args, 3, 4);
    flow = flow_begin(c, "add", &args, 0);
    assert_int_equal(mob_flow_read(c, &flow, 20000, &ref), MOB_EOVER);
    assert_int_equal(int_of(c, flow.done), 7);
    flow.done = (mob_ref_t){0};
    mob_flow_close(c, &flow);
    mob_args_init(&args);
    mob_write_int(&args.values, 1);
    expect_error(c, run(c, "count_up", &args), MOB_ETASK, "streaming");
    mob_args_fini(&args);
}

static void test_cancel(void **state) {
    mob_client_t *c = *state;
    expect_error(c, cancelled_one(c, false), MOB_ECANCELLED, "until_cancelled was running");
    expect_error(c, cancelled_one(c, true), MOB_ECANCELLED, "was not run again");
    mob_args_t args;
    two_ints(&args, 1, 2);
    mob_ref_t ref = run(c, "add", &args);
    mob_args_fini(&args);
    mob_value_t value;
    assert_int_equal(mob_get(c, ref, 20000, &value), MOB_OK);
    assert_int_equal(mob_cancel(c, ref, true, true), MOB_OK); /* it is there */
    assert_int_equal(int_of(c, ref), 3);
}

static void test_tasks(void **state) {
    enum { COUNT = 2000 };
    mob_client_t *c = *state;
    static mob_ref_t refs[COUNT];
    for (int i = 0; i < COUNT; i++) {
        mob_args_t args;
        two_ints(&args, i, 1000);
        refs[i] = run(c, "add", &args);
        mob_args_fini(&args);
    }
    for (int i = 0; i < COUNT; i++) assert_int_equal(int_of(c, refs[i]), i + 1000);
}

static void test_wrong_arguments(void **state) {
    mob_client_t *c = *state;
    mob_args_t args;
    mob_args_init(&args);
    mob_write_int(&args.values, 1);
    expect_error(c, run(c, "add", &args), MOB_ETASK, "it takes 2 arguments, and 1 were given");
    mob_write_str(&args.values, "two", 3);
    expect_error(c, run(c, "add", &args), MOB_ETASK, "argument 1 is a str, and an int is needed");
    mob_args_clear(&args);
    mob_args_keyword(&args, "a");
    mob_write_int(&args.values, 1);
    expect_error(c, run(c, "add", &args), MOB_ETASK, "given by name");
    mob_args_fini(&args);
}

/* Bytes that are no arguments: the task fails, the worker lives. */
static void test_garbage_as_arguments(void **state) {
    mob_client_t *c = *state;
    uint64_t seed = 88172645463325252u;
    mob_task_t task = {
        .kind = MOB_TASK, .function = named(c, "describe"), .name = "describe", .name_size = 8};
    mob_ref_t ref;
    mob_value_t value;
    task.shape = MOB_SHAPE_ONE_CPU;
    task.num_returns = 1;
    int failed = 0;
    for (int round = 0; round < 3000; round++) {
        uint8_t bytes[60];
        task.args = bytes;
        task.args_size = (seed >> 40) % sizeof bytes;
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            bytes[i] = i > 8 || i == 0 ? (uint8_t)((seed >> 20) % 20) : 0;
        }
        assert_int_equal(mob_submit(c, &task, &ref), MOB_OK);
        mob_status_t status = mob_get(c, ref, 20000, &value);
        assert_true(status == MOB_OK || status == MOB_ETASK);
        failed += status == MOB_ETASK;
        mob_ref_release(c, ref);
    }
    assert_true(failed > 100);
}

static void test_functions_that_are_none(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref, other;
    expect_error(c, run(c, "no_such_function", NULL), MOB_ETASK,
                 "has no function no_such_function");
    assert_int_equal(mob_function_c(c, "/no/such/library.so", "f", &ref), MOB_EINVAL);
    assert_int_equal(mob_function_c(c, daemon_path, "f", &ref), MOB_OK);
    assert_int_equal(mob_task_run(c, ref, "f", NULL, &other), MOB_OK);
    expect_error(c, other, MOB_ETASK, "can't be loaded");
    assert_int_equal(mob_function_python(c, "json", "dumps", &ref), MOB_OK);
    assert_int_equal(mob_task_run(c, ref, "dumps", NULL, &other), MOB_OK);
    expect_error(c, other, MOB_ETASK,
                 "json.dumps is a Python function, and the workers of this session are C workers");
    assert_int_equal(mob_put(c, "some pickle", 11, MOB_FORMAT_PICKLE, &ref), MOB_OK);
    assert_int_equal(mob_task_run(c, ref, "pickled", NULL, &other), MOB_OK);
    expect_error(c, other, MOB_ETASK, "pickled is a Python function");
    assert_int_equal(mob_put(c, "\7\3\0\0\0\5", 6, MOB_FORMAT_DIRECT, &ref), MOB_OK);
    assert_int_equal(mob_task_run(c, ref, "broken", NULL, &other), MOB_OK);
    expect_error(c, other, MOB_ETASK, "names no function");
}

static void test_names_are_kept(void **state) {
    mob_client_t *c = *state;
    mob_ref_t a = named(c, "add"), b = named(c, "add"), other = named(c, "echo");
    assert_int_equal(a.slot, b.slot);
    assert_int_not_equal(a.slot, other.slot);
    mob_ref_release(c, a);
    mob_ref_release(c, b);
    mob_ref_release(c, other);
}

static void test_results(void **state) {
    mob_client_t *c = *state;
    enum { MANY = 100 };
    mob_ref_t refs[MANY], function = named(c, "count");
    mob_task_t task = {.kind = MOB_TASK,
                       .function = function,
                       .name = "count",
                       .name_size = 5,
                       .args = "\0\0\0\0\0\0\0"};
    task.args_size = 8;
    task.shape = MOB_SHAPE_ONE_CPU;
    for (uint32_t n = 0; n <= MANY; n += n < 3 ? 1 : 97) {
        task.num_returns = n;
        assert_int_equal(mob_submit(c, &task, refs), MOB_OK);
        for (uint32_t i = 0; i < n; i++) assert_int_equal(int_of(c, refs[i]), i);
    }
    task.function = named(c, "first_only");
    task.num_returns = 2;
    assert_int_equal(mob_submit(c, &task, refs), MOB_OK);
    expect_error(c, refs[0], MOB_ETASK, "num_returns is 2, and result 1 was not written");
    expect_error(c, refs[1], MOB_ETASK, "result 1 was not written");
    expect_error(c, run(c, "too_many", NULL), MOB_ETASK,
                 "result 1 was written, and the call has 1");
    expect_error(c, run(c, "two_values", NULL), MOB_ETASK, "a result is one value");
    expect_error(c, run(c, "too_large", NULL), MOB_ETASK, "object store");
    mob_value_t value;
    mob_item_t item;
    mob_ref_t ref = run(c, "nothing", NULL);
    assert_int_equal(mob_get(c, ref, 20000, &value), MOB_OK);
    assert_int_equal(mob_value_item(&value, &item), MOB_OK);
    assert_int_equal(item.tag, MOB_NONE);
    mob_ref_release(c, ref);
}

static double store_free(mob_client_t *c) {
    void *answer;
    size_t size;
    double bytes;
    assert_int_equal(mob_query(c, MOB_QUERY_RESOURCES, 0, &answer, &size), MOB_OK);
    memcpy(&bytes, (uint8_t *)answer + size - 8, 8);
    free(answer);
    return bytes;
}

static void test_a_replaced_array_is_freed(void **state) {
    mob_client_t *c = *state;
    for (int i = 0; i < 30; i++)
        expect_error(c, run(c, "array_then_fails", NULL), MOB_ETASK, "after all");
    assert_true(store_free(c) > 40 << 20);
}

static void test_failures(void **state) {
    mob_client_t *c = *state;
    expect_error(c, run(c, "fails", NULL), MOB_ETASK, "ray::fails() (pid=");
    expect_error(c, run(c, "fails", NULL), MOB_ETASK, "it failed with 42");
    expect_error(c, run(c, "fails_without_words", NULL), MOB_ETASK, "the time ran out");
    mob_args_t args; /* an argument that failed: so does the task, with the same words */
    mob_ref_t failed = run(c, "fails", NULL);
    mob_args_init(&args);
    mob_args_ref(&args, failed);
    expect_error(c, run(c, "echo", &args), MOB_ETASK, "it failed with 42");
    mob_ref_release(c, failed);
    mob_args_fini(&args);
}

static void test_crashes(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref;
    mob_args_t args;
    char path[100];
    mob_task_t task = {
        .kind = MOB_TASK, .function = named(c, "crash"), .name = "crash", .name_size = 5};
    task.shape = MOB_SHAPE_ONE_CPU;
    task.num_returns = 1;
    task.args = "\0\0\0\0\0\0\0";
    task.args_size = 8;
    assert_int_equal(mob_submit(c, &task, &ref), MOB_OK);
    expect_error(c, ref, MOB_ECRASHED, "");
    path_in(&args, path, "crash");
    assert_int_equal(int_of(c, run(c, "crash_once", &args)), 1);
    unlink(path);
    task.function = named(c, "fail_once");
    task.max_retries = 1;
    task.retry_exceptions = true;
    assert_int_equal(mob_args_finish(&args, &task), MOB_OK);
    assert_int_equal(mob_submit(c, &task, &ref), MOB_OK);
    assert_int_equal(int_of(c, ref), 1);
    unlink(path);
    mob_args_fini(&args);
}

static void test_arrays_by_reference(void **state) {
    mob_client_t *c = *state;
    enum { COUNT = 100000 };
    mob_buffer_t buffer;
    mob_ref_t numbers, ref;
    mob_value_t value;
    mob_args_t args;
    void *data;
    double total;
    assert_int_equal(mob_put_array(c, "f8", COUNT, 8, &buffer, &data), MOB_OK);
    for (int i = 0; i < COUNT; i++) ((double *)data)[i] = i;
    assert_int_equal(mob_put_commit(c, &buffer, MOB_FORMAT_PICKLE, NULL, &numbers), MOB_OK);
    mob_args_init(&args);
    mob_args_ref(&args, numbers);
    const char *symbols[] = {"sum", "pass_on"};
    for (int i = 0; i < 2; i++) {
        if (i == 1) mob_write_str(&args.values, library, strlen(library));
        ref = run(c, symbols[i], &args);
        assert_int_equal(mob_get(c, ref, 20000, &value), MOB_OK);
        assert_int_equal(mob_value_float(&value, &total), MOB_OK);
        assert_true(total == (double)COUNT * (COUNT - 1) / 2);
        mob_ref_release(c, ref);
    }
    mob_args_fini(&args);
    mob_ref_release(c, numbers);
    mob_args_init(&args); /* and one that is not */
    mob_write_int(&args.values, 1);
    expect_error(c, run(c, "pass_on", &args), MOB_ETASK, "argument 0 was not given as a reference");
    mob_args_fini(&args);
}

static void test_an_actor(void **state) {
    mob_client_t *c = *state;
    mob_ref_t actor, ref, class_ = named(c, "Box");
    mob_args_t args, none;
    char path[100];
    path_in(&args, path, "box");
    assert_int_equal(mob_actor_new(c, class_, "Box", &args, &actor), MOB_OK);
    for (int i = 1; i <= 500; i++) {
        assert_int_equal(mob_actor_call(c, actor, "calls", NULL, &ref), MOB_OK);
        assert_int_equal(int_of(c, ref), i);
    }
    two_ints(&none, 1, 2);
    assert_int_equal(mob_actor_call(c, actor, "add", &none, &ref), MOB_OK);
    assert_int_equal(int_of(c, ref), 3);
    mob_args_fini(&none);
    assert_int_equal(mob_actor_call(c, actor, "fails", NULL, &ref), MOB_OK);
    expect_error(c, ref, MOB_ETASK, "ray::Box.fails() (pid=");
    assert_int_equal(mob_actor_call(c, actor, "no_such", NULL, &ref), MOB_OK);
    expect_error(c, ref, MOB_ETASK, "has no function Box_no_such");
    assert_int_equal(mob_actor_call(c, actor, "free", NULL, &ref), MOB_OK);
    expect_error(c, ref, MOB_ETASK, "free is no method");
    assert_int_equal(access(path, F_OK), -1);
    mob_ref_release(c, actor);
    for (int i = 0; i < 1000 && access(path, F_OK) != 0; i++) usleep(10000);
    assert_int_equal(access(path, F_OK), 0); /* its end was called */
    unlink(path);
    mob_args_fini(&args);
}

static void test_actors_that_fail(void **state) {
    mob_client_t *c = *state;
    mob_ref_t actor, ref, class_ = named(c, "Box"), no_class = named(c, "NoSuchClass");
    assert_int_equal(mob_actor_new(c, class_, "Box", NULL, &actor), MOB_OK);
    assert_int_equal(mob_actor_call(c, actor, "calls", NULL, &ref), MOB_OK);
    expect_error(c, ref, MOB_EACTOR, "it takes 1 arguments, and 0 were given");
    mob_ref_release(c, actor);
    assert_int_equal(mob_actor_new(c, no_class, "NoSuchClass", NULL, &actor), MOB_OK);
    assert_int_equal(mob_actor_call(c, actor, "calls", NULL, &ref), MOB_OK);
    expect_error(c, ref, MOB_EACTOR, "has no function NoSuchClass_new");
    mob_ref_release(c, actor);
    mob_args_t args;
    char path[100];
    path_in(&args, path, "crashed-box");
    assert_int_equal(mob_actor_new(c, class_, "Box", &args, &actor), MOB_OK);
    assert_int_equal(mob_actor_call(c, actor, "crash", NULL, &ref), MOB_OK);
    expect_error(c, ref, MOB_EACTOR, "");
    mob_ref_release(c, actor);
    mob_task_t task = {.kind = MOB_ACTOR_CREATE,
                       .function = class_,
                       .name = "Box",
                       .name_size = 3,
                       .num_returns = 1};
    task.shape = MOB_SHAPE_ONE_CPU;
    task.max_concurrency = 4;
    assert_int_equal(mob_args_finish(&args, &task), MOB_OK);
    assert_int_equal(mob_submit(c, &task, &actor), MOB_OK);
    assert_int_equal(mob_actor_call(c, actor, "calls", NULL, &ref), MOB_OK);
    expect_error(c, ref, MOB_EACTOR, "an actor in C runs one call at a time");
    mob_ref_release(c, actor);
    mob_args_fini(&args);
}

static void test_what_is_printed(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = run(c, "says", NULL);
    mob_value_t value;
    mob_message_t m;
    assert_int_equal(mob_get(c, ref, 20000, &value), MOB_OK);
    bool out = false, err = false, rest = false;
    mob_message_finish(c);
    while (mob_message_read(c, -1, &m) == MOB_OK) {
        if (strcmp(m.name, "says") != 0) continue;
        char text[500];
        snprintf(text, sizeof text, "%.*s", (int)m.text_size, m.text);
        out |= strstr(text, "from C: \1 and more") != NULL;
        rest |= strstr(text, "a line without an end") != NULL;
        err |= m.kind == MOB_MESSAGE_ERR && strstr(text, "an error from C") != NULL;
    }
    assert_true(out && err && rest);
    mob_ref_release(c, ref);
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    daemon_path = argv[1];
    worker_path = argv[2];
    library = argv[3];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tasks),
        cmocka_unit_test(test_items),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_wrong_arguments),
        cmocka_unit_test(test_garbage_as_arguments),
        cmocka_unit_test(test_functions_that_are_none),
        cmocka_unit_test(test_names_are_kept),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_a_replaced_array_is_freed),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_crashes),
        cmocka_unit_test(test_arrays_by_reference),
        cmocka_unit_test(test_an_actor),
        cmocka_unit_test(test_actors_that_fail),
        cmocka_unit_test(test_what_is_printed),
    };
    return cmocka_run_group_tests(tests, system_start, system_stop);
}
