/*
 * Tasks and calls a second between two C processes: this one and one worker.
 *
 * A batch is submitted, then its last result is waited for, then its references are dropped; all of
 * it counts. The best of several windows is printed, because on a shared machine everything that
 * disturbs makes a figure worse.
 *
 * Usage: rate LIBRARY [SECONDS [PART_OF_A_ROW'S_NAME]]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mobula_task.h"

enum { WINDOWS = 5, MOST = 10000 };

static mob_client_t *client;
static mob_ref_t refs[MOST], actor;
static mob_task_t task;
static const char *pattern = "";

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(mob_status_t status, const char *what) {
    if (status == MOB_OK) return;
    fprintf(stderr, "%s: %s: %s\n", what, mob_status_text(status), mob_last_error());
    exit(1);
}

static void batch(int size) {
    mob_value_t value;
    for (int i = 0; i < size; i++) check(mob_submit(client, &task, &refs[i]), "submit");
    for (int i = size - 1; i >= 0; i--) { /* the last one first: one wait for all */
        check(mob_get(client, refs[i], -1, &value), "get");
        mob_ref_release(client, refs[i]);
    }
}

static double rate(int size, double seconds) {
    double best = 0;
    for (int w = 0; w < WINDOWS; w++) {
        double start = now_s(), passed;
        uint64_t count = 0;
        do {
            batch(size);
            count += (uint64_t)size;
        } while ((passed = now_s() - start) < seconds);
        if ((double)count / passed > best) best = (double)count / passed;
    }
    return best;
}

static void row(const char *name, int size, double seconds) {
    if (strstr(name, pattern) == NULL) return;
    batch(size);
    printf("%-44s %12.0f/s\n", name, rate(size, seconds));
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const uint8_t none[8];
    if (argc < 2) {
        fprintf(stderr, "usage: %s LIBRARY [SECONDS [ROW]]\n", argv[0]);
        return 2;
    }
    double seconds = argc > 2 ? atof(argv[2]) : 0.5;
    if (argc > 3) pattern = argv[3];
    const mob_resource_t cpu = {"CPU", 1};
    const mob_config_t config = {.daemon_path = MOB_DAEMON,
                                 .zygote_argv = MOB_C_WORKERS,
                                 .resources = &cpu,
                                 .resource_count = 1,
                                 .store_bytes = 256 << 20};
    mob_ref_t function, class_;
    check(mob_init(&config, &client), "init");
    check(mob_function_c(client, argv[1], "empty", &function), "empty");
    check(mob_function_c(client, argv[1], "Nothing", &class_), "Nothing");
    task = (mob_task_t){.kind = MOB_TASK,
                        .function = function,
                        .name = "empty",
                        .name_size = 5,
                        .shape = MOB_SHAPE_ONE_CPU,
                        .num_returns = 1,
                        .args = none,
                        .args_size = sizeof none};
    row("C tasks, one at a time", 1, seconds);
    row("C tasks, 1,000 at once", 1000, seconds);
    row("C tasks, 10,000 at once", 10000, seconds);
    check(mob_actor_new(client, class_, "Nothing", NULL, &actor), "Nothing");
    task = (mob_task_t){.kind = MOB_ACTOR_CALL,
                        .actor = actor,
                        .name = "call",
                        .name_size = 4,
                        .num_returns = 1,
                        .args = none,
                        .args_size = sizeof none};
    row("calls of a C actor, one at a time", 1, seconds);
    row("calls of a C actor, 1,000 at once", 1000, seconds);
    row("calls of a C actor, 10,000 at once", 10000, seconds);
    mob_shutdown(client);
    return 0;
}
