/* ray.wait: which of several objects are there. */
#include "python/core.h"

#include <string.h>

/* Whether each is there once. A hash set that is kept between calls and emptied by counting `round`
 * up; under the interpreter's lock. */
static int check_distinct(const mob_ref_t *refs, Py_ssize_t count) {
    static struct { uint32_t slot, round; } * set;
    static size_t capacity;
    static uint32_t round;
    if (capacity < 2 * (size_t)count) {
        size_t wanted = 1024;
        while (wanted < 2 * (size_t)count) wanted *= 2;
        void *fresh = calloc(wanted, sizeof *set);
        if (fresh == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        free(set);
        set = fresh;
        capacity = wanted;
        round = 0;
    }
    if (++round == 0) {
        memset(set, 0, capacity * sizeof *set);
        round = 1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t at = (refs[i].slot * 2654435761u) & (capacity - 1);
        for (; set[at].round == round; at = (at + 1) & (capacity - 1)) {
            if (set[at].slot != refs[i].slot) continue;
            PyErr_Format(PyExc_ValueError,
                         "ray.wait takes each ObjectRef once, and item %zd is in the list twice",
                         i);
            return -1;
        }
        set[at].slot = refs[i].slot;
        set[at].round = round;
    }
    return 0;
}

static PyObject *split_ready(PyObject *held, const uint8_t *ready, Py_ssize_t count,
                             size_t ready_count) {
    PyObject *yes = PyList_New((Py_ssize_t)ready_count),
             *no = PyList_New(count - (Py_ssize_t)ready_count);
    Py_ssize_t y = 0, n = 0;
    for (Py_ssize_t i = 0; yes != NULL && no != NULL && i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(held, i);
        Py_INCREF(item);
        if (ready[i])
            PyList_SET_ITEM(yes, y++, item);
        else
            PyList_SET_ITEM(no, n++, item);
    }
    if (yes != NULL && no != NULL) return Py_BuildValue("NN", yes, no);
    Py_XDECREF(yes);
    Py_XDECREF(no);
    return NULL;
}

static PyObject *wait_some(PyObject *what, Py_ssize_t num_returns, int64_t timeout_ms) {
    Py_ssize_t count;
    PyObject *held, *result = NULL, *heads = PyList_New(0);
    mob_ref_t *refs =
        heads != NULL ? core_waitables_of("ray.wait", what, heads, &count, &held) : NULL;
    if (refs == NULL) {
        Py_XDECREF(heads);
        return NULL;
    }
    uint8_t *ready = PyMem_Calloc((size_t)count + 1, 1);
    size_t ready_count = 0;
    if (ready == NULL) {
        PyErr_NoMemory();
    } else if (count == 0) {
        result = Py_BuildValue("[][]");
    } else if (num_returns <= 0) {
        PyErr_Format(PyExc_ValueError, "num_returns must be at least 1, not %zd", num_returns);
    } else if (num_returns > count) {
        PyErr_Format(PyExc_ValueError, "num_returns is %zd, but the list has only %zd ObjectRefs",
                     num_returns, count);
    } else if (check_distinct(refs, count) == 0 &&
               (timeout_ms == 0 || core_warn_in_loop("ray.wait") == 0)) {
        mob_status_t status;
        uint64_t began = core.stamp;
        int signalled = 0;
        do {
            int64_t start = core_now_ms();
            CORE_ALLOW_THREADS_BEGIN
            status = mob_wait(client, refs, (size_t)count, (size_t)num_returns, timeout_ms, ready,
                              &ready_count);
            CORE_ALLOW_THREADS_END
            if (status == MOB_EINTR) signalled = PyErr_CheckSignals();
            timeout_ms = core_time_left(timeout_ms, start);
        } while (status == MOB_EINTR && signalled == 0 && core.stamp == began);
        if (signalled == 0 && core.stamp != began)
            core_raise_ended();
        else if (status == MOB_OK)
            result = split_ready(held, ready, count, ready_count);
        else if (!PyErr_Occurred())
            core_raise(status);
    }
    PyMem_Free(ready);
    PyMem_Free(refs);
    Py_DECREF(held);
    Py_DECREF(heads);
    return result;
}

static PyObject *wait_for(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static const char *const names[] = {"ray_waitables", "num_returns", "timeout", "fetch_local",
                                        NULL};
    PyObject *found[4] = {NULL, NULL, NULL, NULL};
    int64_t timeout_ms;
    if (core.local != NULL) return core_local_call("wait", args, nargs, kwnames);
    if (core_arguments_of("ray.wait", args, nargs, kwnames, names, found) < 0 ||
        core_timeout(found[2], &timeout_ms) < 0)
        return NULL;
    if (found[2] != NULL && found[2] != Py_None && PyFloat_AsDouble(found[2]) < 0) {
        PyErr_SetString(PyExc_ValueError, "timeout must not be negative");
        return NULL;
    }
    if (core_ref_check(found[0])) {
        PyErr_SetString(PyExc_TypeError, "ray.wait takes a list of ObjectRefs, and got a single "
                                         "ObjectRef: write ray.wait([ref])");
        return NULL;
    }
    if (!PyList_Check(found[0]) && !PyTuple_Check(found[0])) {
        PyErr_Format(PyExc_TypeError, "ray.wait takes a list of ObjectRefs, and got %s",
                     Py_TYPE(found[0])->tp_name);
        return NULL;
    }
    Py_ssize_t num_returns = 1;
    if (found[1] != NULL) {
        if (!PyIndex_Check(found[1])) {
            PyErr_Format(PyExc_TypeError, "num_returns must be an int, not %s",
                         Py_TYPE(found[1])->tp_name);
            return NULL;
        }
        /* one that is too large is more than any list has */
        num_returns = PyNumber_AsSsize_t(found[1], NULL);
        if (num_returns == -1 && PyErr_Occurred()) return NULL;
    }
    if (PySequence_Fast_GET_SIZE(found[0]) == 0 && !core_connected()) return NULL;
    return wait_some(found[0], num_returns, timeout_ms);
}

PyObject *core_wait(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    (void)module;
    PyObject *result = wait_for(args, nargs, kwnames);
    if (result == NULL && nargs > 0) core_interrupt_note(args[0]);
    return result;
}
