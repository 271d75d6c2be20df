/* What becomes of a run: its results, or the error that takes their place. */
#include "python/core.h"

#include <string.h>
#include <unistd.h>

static int result_store(mob_run_t *run, uint32_t index, PyObject *value) {
    char what[300] = "";
    if (core_direct_size(value) < 0) /* only what is pickled may have to be named in an error */
        snprintf(what, sizeof what, "the result of %.*s", (int)run->name_size, run->name);
    core_target_t target = {.run = run, .index = index};
    return core_value_store(value, what, &target);
}

int core_results_store(mob_run_t *run, PyObject *value) {
    if (run->kind == MOB_ACTOR_CREATE) return result_store(run, 0, Py_None);
    if (run->num_returns == 0) return 0;
    if (run->num_returns == 1) return result_store(run, 0, value);
    /* the task's own list may change while Python code pickles */
    PyObject *items = PySequence_Tuple(value);
    if (items == NULL) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError,
                     "num_returns is %u, but the task returned %s, not a sequence of as many",
                     run->num_returns, Py_TYPE(value)->tp_name);
        return -1;
    }
    int result = 0;
    if (PyTuple_GET_SIZE(items) != (Py_ssize_t)run->num_returns) {
        PyErr_Format(PyExc_ValueError, "num_returns is %u, but the task returned %zd values",
                     run->num_returns, PyTuple_GET_SIZE(items));
        result = -1;
    }
    for (uint32_t i = 0; result == 0 && i < run->num_returns; i++)
        result = result_store(run, i, PyTuple_GET_ITEM(items, i));
    Py_DECREF(items);
    return result;
}

static void error_store(mob_run_t *run, const void *data, size_t size, bool as_str,
                        mob_status_t error, const mob_ref_t *refs, uint32_t ref_count) {
    for (uint32_t i = 0; i < run->num_returns; i++) {
        core_target_t target = {.run = run, .index = i};
        if (core_bytes_store(data, size, as_str, error, refs, ref_count, &target) == 0) continue;
        /* The store is full: the reason fits into the slot itself. */
        PyErr_Clear();
        core_bytes_store("no room for the error", 21, true, MOB_EFULL, NULL, 0, &target);
    }
}

/* An argument was an error: the results are that same error. */
void core_failed_argument_store(mob_run_t *run, const mob_value_t *failed) {
    const uint8_t *data = failed->data;
    if (failed->size < 9) return;
    error_store(run, data + 9, failed->size - 9, data[0] == MOB_STR, failed->error, failed->refs,
                failed->ref_count);
}

/* A packet that keeps its exception and the exception that keeps its packet are a circle: without
 * this, what both hold would live until the collector comes. */
static void tracebacks_drop(PyObject *error) {
    for (int depth = 0; error != NULL && depth < 100; depth++) {
        PyException_SetTraceback(error, Py_None);
        PyObject *cause = PyException_GetCause(error), *context = PyException_GetContext(error);
        PyObject *next = cause ? cause : context; /* both are kept alive by `error` */
        if (context != NULL && context != next) PyException_SetTraceback(context, Py_None);
        Py_XDECREF(cause);
        Py_XDECREF(context);
        error = next;
    }
    PyErr_Clear();
}

/* The exception that is set becomes the results. True if the task is to run again instead. */
bool core_exception_store(mob_run_t *run, PyObject *function) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL) PyException_SetTraceback(error, trace);
    bool again = false;
    if (run->may_retry && core.should_retry != NULL && function != NULL) {
        PyObject *answer = PyObject_CallFunctionObjArgs(core.should_retry, error, function, NULL);
        again = answer == Py_True;
        Py_XDECREF(answer);
        PyErr_Clear();
    }
    if (!again) {
        collector_t collector;
        core_collector_push(&collector);
        PyObject *made = PyObject_CallFunction(core.make_error, "ONi", error, core_run_title(run),
                                               (int)getpid());
        if (made == NULL || !PyBytes_Check(made)) {
            PyErr_Clear();
            error_store(run, "the task's exception could not be described", 43, true, MOB_ECRASHED,
                        NULL, 0);
        } else if (run->kind == MOB_ACTOR_CREATE) {
            PyObject *loaded = PyObject_CallFunction(core.load_error, "sO", "task", made),
                     *text = loaded ? PyObject_Str(loaded) : NULL;
            PyObject *whole =
                text ? PyUnicode_FromFormat(
                           "The actor died because of an error raised in its creation task, %U",
                           text)
                     : NULL;
            Py_ssize_t size = 0;
            const char *words = whole ? PyUnicode_AsUTF8AndSize(whole, &size) : NULL;
            PyErr_Clear();
            error_store(run, words ? words : "its creation failed", words ? (size_t)size : 19, true,
                        MOB_EACTOR, NULL, 0);
            Py_XDECREF(loaded);
            Py_XDECREF(text);
            Py_XDECREF(whole);
        } else {
            error_store(run, PyBytes_AS_STRING(made), (size_t)PyBytes_GET_SIZE(made), false,
                        MOB_ETASK, collector.refs.items, (uint32_t)collector.refs.count);
        }
        Py_XDECREF(made);
        core_collector_pop(&collector);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    tracebacks_drop(error);
    Py_XDECREF(error);
    return again;
}
