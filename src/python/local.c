/*
 * Local mode: no session, everything in this process (ray._private.local_mode). While it is on,
 * core.client is NULL and core.local has the object that stands in for a session: get, put, wait
 * and calls go there. A reference holds its value itself, in an object of that module's: its cell.
 */
#include "python/core.h"

#include <structmember.h>

static const uint64_t HOME = 0x6c6f63616c000000; /* where a node's incarnation stands in an id */

PyObject *core_local_call(const char *name, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames) {
    PyObject *called = PyObject_GetAttrString(core.local, name);
    if (called == NULL) return NULL;
    PyObject *result = PyObject_Vectorcall(called, args, (size_t)nargs, kwnames);
    Py_DECREF(called);
    return result;
}

PyObject *core_local_submit(PyObject *prepare, PyObject *actor, PyObject *const *args,
                            Py_ssize_t nargs, PyObject *kwnames) {
    PyObject *positional = PyTuple_New(nargs), *named = PyDict_New(), *result = NULL;
    for (Py_ssize_t i = 0; positional != NULL && i < nargs; i++)
        PyTuple_SET_ITEM(positional, i, Py_NewRef(args[i]));
    Py_ssize_t count = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; named != NULL && i < count; i++)
        if (PyDict_SetItem(named, PyTuple_GET_ITEM(kwnames, i), args[nargs + i]) < 0)
            Py_CLEAR(named);
    if (positional != NULL && named != NULL)
        result = PyObject_CallMethod(core.local, "submit", "OOOO", prepare, actor ? actor : Py_None,
                                     positional, named);
    Py_XDECREF(positional);
    Py_XDECREF(named);
    return result;
}

/* set_local(stand-in, or None): local mode begins, or ends. */
PyObject *core_set_local(PyObject *module, PyObject *object) {
    (void)module;
    if (core.client != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this process is in a session");
        return NULL;
    }
    Py_XSETREF(core.local, object == Py_None ? NULL : Py_NewRef(object));
    Py_RETURN_NONE;
}

/* local_ref(cell, number): a reference to what the cell has. */
PyObject *core_local_ref(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *cell;
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "OK:local_ref", &cell, &number)) return NULL;
    return core_ref_local(cell, (mob_ref_t){.slot = 1, .generation = number}, HOME);
}

/* local_cell(ref): the cell; None: it is not of local mode. */
PyObject *core_local_cell(PyObject *module, PyObject *object) {
    (void)module;
    if (!core_ref_check(object)) return core_raise_not_a_ref(PyExc_TypeError, "local_cell", object);
    PyObject *cell = ((ref_object_t *)object)->local;
    return Py_NewRef(cell ? cell : Py_None);
}
