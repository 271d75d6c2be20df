/*
 * Functions and actors in C, run by a Python worker: the same code as in mobula-worker, without the
 * interpreter's lock.
 *
 * The function's object says which runs these are: ("c", library, symbol) in the direct encoding,
 * where Python's own functions are pickled.
 */
#include "python/core.h"

#include "task/task.h"

static task_worker_t worker;
static mob_ref_t last_of_python; /* most runs have the function of the one before */

static bool same(mob_ref_t a, mob_ref_t b) {
    return a.slot == b.slot && a.generation == b.generation;
}

/* NULL: the function is Python's, or there is something wrong with it, which Python's way will find
 * too. */
static task_function_t *function_in_c(const mob_run_t *run) {
    mob_value_t value;
    if (run->kind == MOB_ACTOR_CALL) return worker.actor_class;
    if (same(run->function, last_of_python)) return NULL;
    if (core_value_open(&run->function, 1, &value) != MOB_OK) {
        PyErr_Clear();
        return NULL;
    }
    worker.client = core.client;
    task_function_t *found =
        value.format == MOB_FORMAT_DIRECT ? task_function_of(&worker, run) : NULL;
    mob_get_end(core.client, run->function, &value);
    if (found != NULL && found->language == TASK_IN_C) return found;
    last_of_python = run->function;
    return NULL;
}

/* What C prints is marked with the task's name, as Python's own is (ray._private.streams). C and
 * Python each take their mark back, so each says the name again after the other. */
static void streams_begin(void) {
    static bool open;
    Py_ssize_t size = 0;
    const char *name = PyUnicode_AsUTF8AndSize(core.run_name, &size);
    if (!open) task_streams_open();
    open = true;
    if (name == NULL) PyErr_Clear();
    task_streams_name(name ? name : "", (size_t)size);
}

static void streams_end(void) {
    if (task_streams_end()) core_name_unannounce();
}

bool core_native_run(mob_run_t *run) {
    task_function_t *function = function_in_c(run);
    if (function == NULL) return false;
    if (core_run_prepare(run) < 0) {
        core_run_end(run, NULL, NULL, &(mob_value_t){0}); /* the exception that is set */
        return true;
    }
    bool had_actor = worker.actor_class != NULL;
    streams_begin();
    Py_BEGIN_ALLOW_THREADS task_run(&worker, run, function);
    Py_END_ALLOW_THREADS if (worker.actor_class != NULL && !had_actor) core.actor_class_name =
        Py_NewRef(core.run_name);
    core.run = NULL;
    streams_end();
    return true;
}

void core_native_forget(const mob_run_t *run) {
    if (same(run->function, last_of_python)) last_of_python = (mob_ref_t){0};
    task_forget(&worker, run->function);
}

void core_native_end(void) {
    Py_BEGIN_ALLOW_THREADS task_worker_fini(&worker);
    Py_END_ALLOW_THREADS
}
