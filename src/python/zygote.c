/* The process that Python workers are forked from: the client's loop, with what Python has to do
 * around a fork. */
#include "python/core.h"

static void module_load(const char *name) {
    PyObject *module = PyImport_ImportModule(name);
    if (module == NULL) PyErr_Clear(); /* the worker that needs it will say why */
    Py_XDECREF(module);
}

static PyObject *begin_call; /* begin(setup, again): None, or why not */

static const char *setup_begin(const void *setup, size_t size, bool again) {
    PyObject *why = PyObject_CallFunction(begin_call, "y#O", (const char *)setup, (Py_ssize_t)size,
                                          again ? Py_True : Py_False);
    if (why == NULL) {
        PyErr_Print();
        return "it could not be prepared (a fault of Mobula's: see the output)";
    }
    return why == Py_None ? NULL : PyUnicode_AsUTF8(why); /* never freed: the process ends */
}

extern char **environ;

/* The environment as the C library has it, which os.environ need not know of. */
PyObject *core_environment(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *found = PyDict_New();
    for (char **e = environ; found != NULL && *e != NULL; e++) {
        const char *equals = strchr(*e, '=');
        if (equals == NULL) continue;
        PyObject *name = PyBytes_FromStringAndSize(*e, equals - *e),
                 *value = PyBytes_FromString(equals + 1);
        if (name == NULL || value == NULL || PyDict_SetItem(found, name, value) != 0)
            Py_CLEAR(found);
        Py_XDECREF(name);
        Py_XDECREF(value);
    }
    return found;
}

/* zygote(begin): forks workers for the daemon; returns in each of them, with the setup. */
PyObject *core_zygote(PyObject *module, PyObject *begin) {
    (void)module;
    Py_XSETREF(begin_call, Py_NewRef(begin));
    static const mob_zygote_ops_t ops = {.before_fork = PyOS_BeforeFork,
                                         .after_fork_parent = PyOS_AfterFork_Parent,
                                         .after_fork_child = PyOS_AfterFork_Child,
                                         .begin = setup_begin,
                                         .preload = module_load};
    mob_status_t status = mob_zygote(&ops, &core.client);
    if (status != MOB_OK) return core_raise(status);
    mob_session_t session;
    mob_client_session(core.client, &session);
    core.incarnation = session.incarnation;
    core.stamp = 1;
    core.is_worker = true;
    core.shape = MOB_SHAPE_ONE_CPU; /* what a worker is prepared for */
    return PyBytes_FromStringAndSize(session.setup, (Py_ssize_t)session.setup_size);
}
