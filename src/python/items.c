/*
 * The items of a run: what a generator yields is stored and published, one after the other, while
 * the generator runs.
 *
 * A run that is repeated, because its worker died, leaves out as many items as were given out
 * before: the generator makes them again, and nobody sees them.
 */
#include "python/core.h"

int core_item_give(mob_run_t *run, PyObject *item) {
    if (run->items > 0) {
        run->items--;
        return 1;
    }
    char what[300] = "";
    if (core_direct_size(item) < 0) /* only what is pickled may have to be named in an error */
        snprintf(what, sizeof what, "an item of %.*s", (int)run->name_size, run->name);
    core_target_t target = {.run = run, .item = true};
    if (core_value_store(item, what, &target) == 0) return 1;
    return target.over ? 0 : -1;
}

int core_item_wait(mob_run_t *run) {
    while (!mob_run_item_room(core.client, run)) {
        mob_status_t status;
        CORE_ALLOW_THREADS_BEGIN
        status = mob_run_item_wait(client, run);
        CORE_ALLOW_THREADS_END
        if (PyErr_CheckSignals() < 0) return -1;
        if (status != MOB_OK && status != MOB_EINTR) {
            core_raise(status);
            return -1;
        }
    }
    return 0;
}

/* Nobody reads the items any more: the generator ends, with its `finally` blocks. */
static int values_close(PyObject *values) {
    if (!PyGen_Check(values)) return 0;
    PyObject *closed = PyObject_CallMethod(values, "close", NULL);
    Py_XDECREF(closed);
    return closed == NULL ? -1 : 0;
}

static int items_give(mob_run_t *run, PyObject *values) {
    for (PyObject *item; (item = PyIter_Next(values)) != NULL;) {
        int goes_on = core_item_give(run, item);
        Py_DECREF(item);
        if (goes_on < 0 || core_item_wait(run) < 0 || PyErr_CheckSignals() < 0) return -1;
        if (goes_on == 0) return values_close(values);
    }
    return PyErr_Occurred() ? -1 : 0;
}

PyObject *core_items_drain(mob_run_t *run, PyObject *values) {
    int result = -1;
    if (PyIter_Check(values))
        result = items_give(run, values);
    else
        PyErr_Format(PyExc_ValueError,
                     "a task with num_returns=\"streaming\" must return a generator, and %.*s "
                     "returned %s",
                     (int)run->name_size, run->name, Py_TYPE(values)->tp_name);
    Py_DECREF(values);
    return result == 0 ? Py_NewRef(Py_None) : NULL;
}
