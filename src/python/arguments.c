/* What put, get and wait are called with: one value or a list of references, and a time limit. */
#include "python/core.h"

#include "base/clock.h"

/* Only the first argument may be positional; the others are found by name. */
int core_arguments_of(const char *function, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames, const char *const *names, PyObject **found) {
    if (nargs > 1) {
        PyErr_Format(PyExc_TypeError, "%s takes 1 positional argument, but %zd were given",
                     function, nargs);
        return -1;
    }
    found[0] = nargs == 1 ? args[0] : NULL;
    for (Py_ssize_t i = 0; kwnames != NULL && i < PyTuple_GET_SIZE(kwnames); i++) {
        int k = 0;
        while (names[k] != NULL &&
               PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), names[k]) != 0)
            k++;
        if (names[k] == NULL || (k == 0 && nargs == 1)) {
            PyErr_Format(PyExc_TypeError, "%s got an unexpected argument %R", function,
                         PyTuple_GET_ITEM(kwnames, i));
            return -1;
        }
        found[k] = args[nargs + i];
    }
    if (found[0] == NULL) {
        PyErr_Format(PyExc_TypeError, "%s needs the argument %s", function, names[0]);
        return -1;
    }
    return 0;
}

PyObject *core_raise_not_a_ref(PyObject *kind, const char *function, PyObject *object) {
    PyErr_Format(kind, "%s takes an ObjectRef or a list of them, and got %s", function,
                 Py_TYPE(object)->tp_name);
    return NULL;
}

/* The reference that this item of a list stands for. BORROWED, NULL with an exception. */
static ref_object_t *item_ref(const char *function, PyObject *item, Py_ssize_t place,
                              PyObject *heads) {
    if (core_ref_check(item)) return core_ref_of(item);
    if (heads != NULL && core_flow_check(item)) {
        PyObject *head = core_flow_head(item);
        bool kept = head != NULL && PyList_Append(heads, head) == 0;
        Py_XDECREF(head);
        return kept ? core_ref_of(head) : NULL;
    }
    PyErr_Format(PyExc_TypeError, "%s takes a list of ObjectRefs%s, and item %zd is %s", function,
                 heads != NULL ? " and generators" : "", place, Py_TYPE(item)->tp_name);
    return NULL;
}

/* In memory to be freed. The list may change while the caller waits: `*ret_held` keeps them
 * alive. */
mob_ref_t *core_waitables_of(const char *function, PyObject *sequence, PyObject *heads,
                             Py_ssize_t *ret_count, PyObject **ret_held) {
    PyObject *held = PySequence_Tuple(sequence);
    if (held == NULL) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(held);
    mob_ref_t *refs = PyMem_Malloc(((size_t)count + 1) * sizeof *refs);
    if (refs == NULL) PyErr_NoMemory();
    for (Py_ssize_t i = 0; refs != NULL && i < count; i++) {
        ref_object_t *ref = item_ref(function, PyTuple_GET_ITEM(held, i), i, heads);
        if (ref == NULL) {
            PyMem_Free(refs);
            refs = NULL;
        } else {
            refs[i] = ref->ref;
        }
    }
    if (refs == NULL) {
        Py_DECREF(held);
        return NULL;
    }
    *ret_count = count;
    *ret_held = held;
    return refs;
}

mob_ref_t *core_refs_of(const char *function, PyObject *sequence, Py_ssize_t *ret_count,
                        PyObject **ret_held) {
    return core_waitables_of(function, sequence, NULL, ret_count, ret_held);
}

int core_timeout(PyObject *seconds, int64_t *ret_ms) {
    *ret_ms = -1;
    if (seconds == NULL || seconds == Py_None) return 0;
    double s = PyFloat_AsDouble(seconds);
    if (s == -1 && PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "timeout must be a number of seconds or None, not %s",
                     Py_TYPE(seconds)->tp_name);
        return -1;
    }
    if (s != s) {
        PyErr_SetString(PyExc_ValueError, "timeout must be a number of seconds or None, not NaN");
        return -1;
    }
    if (s >= 0) *ret_ms = s > 9e12 ? -1 : (int64_t)(s * 1000 + 0.999999);
    return 0;
}

int64_t core_now_ms(void) { return (int64_t)(base_clock_mono_ns() / 1000000); }

/* What remains of a time limit after a wait that began at start_ms was interrupted. */
int64_t core_time_left(int64_t timeout_ms, int64_t start_ms) {
    if (timeout_ms < 0) return timeout_ms;
    int64_t passed = core_now_ms() - start_ms;
    return timeout_ms > passed ? timeout_ms - passed : 0;
}

/* In the loop of an async actor: no other call goes on while this one waits. Said once. */
int core_warn_in_loop(const char *function) {
    static bool warned;
    if (warned || core.loop_thread == 0 || PyThread_get_thread_ident() != core.loop_thread)
        return 0;
    warned = true;
    return PyErr_WarnFormat(
        PyExc_RuntimeWarning, 1,
        "Using blocking %s inside async actor. This blocks the event loop: no other call of the "
        "actor goes on meanwhile. Please use `await` on the reference, with asyncio.gather on "
        "several of them",
        function);
}
