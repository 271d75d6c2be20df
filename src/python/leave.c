/*
 * A worker's end: that of a Python program, without most of its cost.
 *
 * Py_FinalizeEx is what ends a Python program: it stops the other threads at their next step,
 * destroys what modules hold, and so closes files and runs destructors. All of it takes 6 ms of a
 * CPU here, 11 with numpy loaded, nearly all for modules that every worker has inherited from the
 * zygote: each object that is touched copies a page. They hold nothing of the user. So the worker
 * takes them out of sys.modules before, and they stay. The last thing that the interpreter destroys
 * is an object that the worker left there: it ends the process by exit(), before the interpreter
 * frees its memory. 1.5 ms are left. An interpreter that does not come by that object finishes as a
 * whole, and the process ends then.
 *
 * By exit() and not _exit(): libraries flush what they have written in functions that they left
 * with atexit (HDF5, say). If one of them hangs or crashes, the user's files are closed already,
 * and the daemon limits the time.
 */
#include "python/core.h"

#include <stdlib.h>

static int exit_code;

static void last_dealloc(PyObject *self) {
    (void)self;
    exit(exit_code);
}

static PyTypeObject last_type = {PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ray._core.Last",
                                 .tp_basicsize = sizeof(PyObject), .tp_dealloc = last_dealloc,
                                 .tp_flags = Py_TPFLAGS_DEFAULT};

/* cut_off(): the session ends. True: there is a run, which the caller is to break off. True only
 * once: what the run does when it is broken off must not be broken off too. */
PyObject *core_cut_off(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (core.cut_off || core.client == NULL || mob_run_count(core.client) == 0) Py_RETURN_FALSE;
    core.cut_off = true;
    Py_RETURN_TRUE;
}

/* begin_end(): tells the daemon that this worker ends. None: the worker has run nothing, so there
 * is nothing to do; else whether the session ends too. */
PyObject *core_begin_end(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (core.run_name == NULL) Py_RETURN_NONE;
    return PyBool_FromLong(core.client == NULL || mob_worker_ends(core.client));
}

/* drop(): lets go of the actor, and then of all functions that this worker has loaded. */
PyObject *core_drop(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_CLEAR(core.actor);
    core_functions_drop();
    Py_RETURN_NONE;
}

/* Modules that were there before the user's code are not to be torn down. */
static int modules_keep(PyObject *inherited) {
    PyObject *modules = PyImport_GetModuleDict(), *name, *module; /* BORROWED */
    Py_INCREF(inherited); /* for ever: it keeps the modules */
    for (Py_ssize_t at = 0; PyDict_Next(inherited, &at, &name, &module);)
        if (PyDict_GetItemWithError(modules, name) == module && PyDict_DelItem(modules, name) < 0)
            return -1;
    return PyErr_Occurred() ? -1 : 0;
}

/* The interpreter clears the names in sys after all other modules, and in their order. (Those of
 * builtins follow; what programs have put there goes before.) */
static int last_leave(void) {
    if (PyType_Ready(&last_type) < 0) return -1;
    PyObject *last = PyObject_New(PyObject, &last_type);
    int status = last ? PySys_SetObject("ray_worker_end", last) : -1;
    Py_XDECREF(last);
    return status;
}

/* leave(status, inherited): ends the interpreter and the process. `inherited`: sys.modules as it
 * was before the user's code, without sys, builtins and __main__. Returns only with an exception.
 */
PyObject *core_leave(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *inherited;
    if (!PyArg_ParseTuple(args, "iO!", &exit_code, &PyDict_Type, &inherited)) return NULL;
    if (modules_keep(inherited) < 0 || last_leave() < 0) return NULL;
    Py_FinalizeEx();
    exit(exit_code);
}
