/*
 * Functions and actors in C, run by a Python worker: the same code as in mobula-worker, with the
 * interpreter's lock released meanwhile.
 *
 * Which jobs these are is seen by the function's object: ("c", library, symbol) in the direct
 * encoding, where Python's own are pickled.
 */
#include "python/core.h"

#include "task/task.h"

static task_worker_t worker;
static mob_ref_t last_of_python; /* most jobs have the function of the one before */

static bool same(mob_ref_t a, mob_ref_t b) {
    return a.slot == b.slot && a.generation == b.generation;
}

/* NULL: it is Python's, or there is something wrong with it, which Python will find too. */
static task_function_t *function_in_c(const mob_job_t *job) {
    mob_value_t value;
    if (job->kind == MOB_ACTOR_CALL) return worker.actor_class;
    if (same(job->function, last_of_python)) return NULL;
    if (core_value_open(&job->function, 1, &value) != MOB_OK) {
        PyErr_Clear();
        return NULL;
    }
    worker.client = core.client;
    task_function_t *found =
        value.format == MOB_FORMAT_DIRECT ? task_function_of(&worker, job) : NULL;
    mob_get_end(core.client, job->function, &value);
    if (found != NULL && found->language == TASK_IN_C) return found;
    last_of_python = job->function;
    return NULL;
}

/* What C prints is marked with the task's name, as Python's own is (ray._private.streams): each
 * says the name again after the other. */
static void streams_begin(void) {
    static bool open;
    Py_ssize_t size = 0;
    const char *name = PyUnicode_AsUTF8AndSize(core.job_name, &size);
    if (!open) task_streams_open();
    open = true;
    if (name == NULL) PyErr_Clear();
    task_streams_name(name ? name : "", (size_t)size);
}

static void streams_end(void) {
    if (!task_streams_end()) return;
    const char *const names[] = {"stdout", "stderr"};
    for (int i = 0; i < 2; i++) {
        PyObject *stream = PySys_GetObject(names[i]); /* BORROWED */
        if (stream != NULL && PyObject_SetAttrString(stream, "_announced", Py_None) < 0)
            PyErr_Clear();
    }
}

bool core_native_run(mob_job_t *job) {
    task_function_t *function = function_in_c(job);
    if (function == NULL) return false;
    if (core_job_prepare(job) < 0) {
        core_job_end(job, NULL, NULL, &(mob_value_t){0}); /* the exception that is set */
        return true;
    }
    bool had_actor = worker.actor_class != NULL;
    streams_begin();
    Py_BEGIN_ALLOW_THREADS task_run(&worker, job, function);
    Py_END_ALLOW_THREADS if (worker.actor_class != NULL && !had_actor) core.actor_class_name =
        Py_NewRef(core.job_name);
    core.job = NULL;
    streams_end();
    return true;
}

void core_native_forget(const mob_job_t *job) {
    if (same(job->function, last_of_python)) last_of_python = (mob_ref_t){0};
    task_forget(&worker, job->function);
}

void core_native_end(void) {
    Py_BEGIN_ALLOW_THREADS task_worker_fini(&worker);
    Py_END_ALLOW_THREADS
}
