/* The arguments of a call, and the usual calls. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/vec.h"
#include "mobula_task.h"
#include "task/task.h"

enum { COUNTS = 8 }; /* the bytes before the values: how many of each kind */

void mob_args_init(mob_args_t *a) {
    *a = (mob_args_t){0};
    (void)task_writer_space(&a->values, COUNTS); /* they fit into the writer itself */
}

void mob_args_ref(mob_args_t *a, mob_ref_t ref) {
    size_t capacity = a->dep_capacity;
    if (a->values.owed > 0) {
        a->values.status = base_fail(MOB_EINVAL, "a reference can't be inside a tuple");
        return;
    }
    if (!base_vec_grow((void **)&a->deps, a->dep_count + 1, &capacity, sizeof *a->deps)) {
        a->values.status = MOB_ENOMEM;
        return;
    }
    a->dep_capacity = (uint32_t)capacity;
    a->deps[a->dep_count] = ref;
    task_write_dep(&a->values, a->dep_count++);
}

/* Whether each name that was given has its one value, and nothing else came between. */
static bool keywords_are_whole(const mob_args_t *a) {
    return a->keywords == 0 ||
           (a->values.count == a->positional + a->keywords && a->values.owed == 0);
}

void mob_args_keyword(mob_args_t *a, const char *name) {
    if (a->keywords == 0) a->positional = a->values.count;
    if (!keywords_are_whole(a) || a->values.owed > 0) {
        a->values.status =
            base_fail(MOB_EINVAL, "the argument before %s is not whole, or has no name", name);
        return;
    }
    a->keywords++;
    mob_write_str(&a->values, name, strlen(name));
    a->values.count--; /* its value follows */
}

mob_status_t mob_args_finish(mob_args_t *a, mob_task_t *task) {
    const void *data;
    size_t size;
    mob_status_t status = mob_writer_finish(&a->values, &data, &size);
    if (status != MOB_OK) return status;
    if (!keywords_are_whole(a))
        return base_fail(MOB_EINVAL,
                         "%u arguments have names, and %u values follow the first of them",
                         a->keywords, a->values.count - a->positional);
    uint32_t counts[2] = {a->values.count - a->keywords, a->keywords};
    memcpy((void *)data, counts, COUNTS);
    task->args = data;
    task->args_size = size;
    task->deps = a->deps;
    task->dep_count = a->dep_count;
    return MOB_OK;
}

void mob_args_clear(mob_args_t *a) {
    mob_writer_clear(&a->values);
    (void)task_writer_space(&a->values, COUNTS);
    a->dep_count = a->positional = a->keywords = 0;
}

void mob_args_fini(mob_args_t *a) {
    mob_writer_fini(&a->values);
    free(a->deps);
    *a = (mob_args_t){0};
}

/* Submits it for a result, or for a flow: the one that is not NULL. */
static mob_status_t submit(mob_client_t *c, mob_task_t *task, const char *name, mob_args_t *args,
                           mob_ref_t *ret_ref, uint32_t limit, mob_flow_t *ret_flow) {
    static const uint8_t none[COUNTS];
    task->name = name;
    task->name_size = strlen(name);
    task->num_returns = 1;
    task->args = none;
    task->args_size = sizeof none;
    mob_status_t status = args ? mob_args_finish(args, task) : MOB_OK;
    if (status != MOB_OK) return status;
    while ((status = ret_flow != NULL ? mob_submit_flow(c, task, limit, ret_flow)
                                      : mob_submit(c, task, ret_ref)) == MOB_ESPACE) {
        status = mob_space_await(c);
        if (status != MOB_OK) return status;
    }
    return status;
}

mob_status_t mob_task_run(mob_client_t *c, mob_ref_t function, const char *name, mob_args_t *args,
                          mob_ref_t *ret_ref) {
    mob_task_t task = {
        .kind = MOB_TASK, .function = function, .shape = MOB_SHAPE_ONE_CPU, .max_retries = 3};
    return submit(c, &task, name, args, ret_ref, 0, NULL);
}

mob_status_t mob_task_flow(mob_client_t *c, mob_ref_t function, const char *name, mob_args_t *args,
                           uint32_t limit, mob_flow_t *ret_flow) {
    mob_task_t task = {
        .kind = MOB_TASK, .function = function, .shape = MOB_SHAPE_ONE_CPU, .max_retries = 3};
    return submit(c, &task, name, args, NULL, limit, ret_flow);
}

mob_status_t mob_actor_new(mob_client_t *c, mob_ref_t class_, const char *name, mob_args_t *args,
                           mob_ref_t *ret_actor) {
    mob_task_t task = {.kind = MOB_ACTOR_CREATE, .function = class_, .shape = MOB_SHAPE_ONE_CPU};
    return submit(c, &task, name, args, ret_actor, 0, NULL);
}

mob_status_t mob_actor_call(mob_client_t *c, mob_ref_t actor, const char *method, mob_args_t *args,
                            mob_ref_t *ret_ref) {
    mob_task_t task = {.kind = MOB_ACTOR_CALL, .actor = actor};
    return submit(c, &task, method, args, ret_ref, 0, NULL);
}

mob_status_t mob_actor_flow(mob_client_t *c, mob_ref_t actor, const char *method, mob_args_t *args,
                            uint32_t limit, mob_flow_t *ret_flow) {
    mob_task_t task = {.kind = MOB_ACTOR_CALL, .actor = actor};
    return submit(c, &task, method, args, NULL, limit, ret_flow);
}
