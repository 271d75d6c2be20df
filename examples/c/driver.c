/*
 * A driver in C: tasks, an array by reference, nested tasks and an actor in C workers; then Python
 * functions and an actor, in Python workers.
 *
 * Build: cc driver.c $(ray c-flags) -o driver
 * Usage: driver LIBTASKS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mobula_task.h"

static void check(mob_status_t status, const char *what) {
    if (status == MOB_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, mob_status_text(status), mob_last_error());
    exit(1);
}

static int64_t get_int(mob_client_t *client, mob_ref_t ref) {
    mob_value_t value;
    int64_t integer;
    check(mob_get(client, ref, -1, &value), "get");
    check(mob_value_int(&value, &integer), "an int");
    mob_ref_release(client, ref);
    return integer;
}

static mob_ref_t function_in_c(mob_client_t *client, const char *library, const char *symbol) {
    mob_ref_t function;
    check(mob_function_c(client, library, symbol, &function), symbol);
    return function;
}

static mob_client_t *session(const char *const *workers) {
    const mob_config_t config = {
        .daemon_path = MOB_DAEMON, .zygote_argv = workers, .store_bytes = 256 << 20};
    mob_client_t *client;
    check(mob_init(&config, &client), "init");
    return client;
}

static void tasks(mob_client_t *client, const char *library) {
    mob_ref_t add = function_in_c(client, library, "add"), ref;
    mob_args_t args;
    mob_args_init(&args);
    mob_write_int(&args.values, 40);
    mob_write_int(&args.values, 2);
    check(mob_task_run(client, add, "add", &args, &ref), "add");
    printf("40 + 2 = %lld\n", (long long)get_int(client, ref));

    mob_args_clear(&args);
    mob_write_int(&args.values, 40);
    mob_write_str(&args.values, "two", 3);
    mob_value_t value;
    check(mob_task_run(client, add, "add", &args, &ref), "add");
    mob_status_t status = mob_get(client, ref, -1, &value);
    printf("40 + \"two\": %s: %s\n", mob_status_name(status), strchr(mob_last_error(), '\n') + 1);
    mob_ref_release(client, ref);

    mob_args_clear(&args);
    mob_write_int(&args.values, 100);
    mob_write_str(&args.values, library, strlen(library));
    check(mob_task_run(client, function_in_c(client, library, "add_many"), "add_many", &args, &ref),
          "add_many");
    printf("0 + ... + 99, by a hundred tasks of a task: %lld\n", (long long)get_int(client, ref));
    mob_args_fini(&args);
}

static void array(mob_client_t *client, const char *library) {
    enum { COUNT = 1000000 };
    mob_buffer_t buffer;
    mob_ref_t numbers, ref;
    mob_value_t value;
    void *data;
    double total;
    check(mob_put_array(client, "f8", COUNT, sizeof(double), &buffer, &data), "put");
    for (int i = 0; i < COUNT; i++) ((double *)data)[i] = 0.5;
    check(mob_put_commit(client, &buffer, MOB_FORMAT_PICKLE, NULL, &numbers), "put");
    mob_args_t args;
    mob_args_init(&args);
    mob_args_ref(&args, numbers);
    check(mob_task_run(client, function_in_c(client, library, "sum"), "sum", &args, &ref), "sum");
    mob_args_fini(&args);
    check(mob_get(client, ref, -1, &value), "sum");
    check(mob_value_float(&value, &total), "sum");
    printf("the sum of a million halves, in place: %.1f\n", total);
    mob_ref_release(client, ref);
    mob_ref_release(client, numbers);
}

static void actor(mob_client_t *client, mob_ref_t class_, const char *where) {
    mob_ref_t counter, refs[3];
    mob_args_t args;
    mob_args_init(&args);
    mob_write_int(&args.values, 10);
    check(mob_actor_new(client, class_, "Counter", &args, &counter), "Counter");
    for (int i = 0; i < 3; i++) {
        mob_args_clear(&args);
        mob_write_int(&args.values, i);
        check(mob_actor_call(client, counter, "add", &args, &refs[i]), "add");
    }
    mob_args_fini(&args);
    printf("a counter in %s:", where);
    for (int i = 0; i < 3; i++) printf(" %lld", (long long)get_int(client, refs[i]));
    printf("\n");
    mob_ref_release(client, counter);
}

/* json.dumps((1, 2.5, "three"), indent=2), and an actor of a class in Python: collections.Counter's
 * cousin in words.py beside this file. */
static void python(mob_client_t *client, const char *module) {
    mob_ref_t function, ref;
    mob_value_t value;
    const char *text;
    uint64_t size;
    mob_args_t args;
    check(mob_function_python(client, "json", "dumps", &function), "json.dumps");
    mob_args_init(&args);
    mob_write_tuple(&args.values, 3);
    mob_write_int(&args.values, 1);
    mob_write_float(&args.values, 2.5);
    mob_write_str(&args.values, "three", 5);
    mob_args_keyword(&args, "separators");
    mob_write_tuple(&args.values, 2);
    mob_write_str(&args.values, ";", 1);
    mob_write_str(&args.values, ":", 1);
    check(mob_task_run(client, function, "dumps", &args, &ref), "dumps");
    check(mob_get(client, ref, -1, &value), "dumps");
    check(mob_value_str(&value, &text, &size), "dumps");
    printf("json.dumps: %.*s\n", (int)size, text);
    mob_ref_release(client, ref);

    check(mob_function_python(client, "math", "sqrt", &function), "math.sqrt");
    mob_args_clear(&args);
    mob_write_int(&args.values, -1);
    check(mob_task_run(client, function, "sqrt", &args, &ref), "sqrt");
    mob_status_t status = mob_get(client, ref, -1, &value);
    const char *words = strrchr(mob_last_error(), '\n');
    printf("math.sqrt(-1): %s: %s\n", mob_status_name(status),
           words ? words + 1 : mob_last_error());
    mob_ref_release(client, ref);
    mob_args_fini(&args);

    mob_ref_t class_;
    check(mob_function_python(client, module, "Counter", &class_), module);
    actor(client, class_, "Python");
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: %s LIBTASKS\n", argv[0]);
        return 2;
    }
    mob_client_t *client = session(MOB_C_WORKERS);
    tasks(client, argv[1]);
    array(client, argv[1]);
    actor(client, function_in_c(client, argv[1], "Counter"), "C");
    mob_shutdown(client);

    client = session(MOB_PYTHON_WORKERS);
    python(client, "counter");
    array(client, argv[1]); /* Python workers run C too */
    mob_shutdown(client);
    return 0;
}
