/* The process that Python workers are forked from: the client's loop, with what Python has to do
 * around a fork. */
#include "python/core.h"

static void module_load(const char *name) {
    PyObject *module = PyImport_ImportModule(name);
    if (module == NULL) PyErr_Clear(); /* the worker that needs it will say why */
    Py_XDECREF(module);
}

PyObject *core_zygote(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    static const mob_zygote_ops_t ops = {.before_fork = PyOS_BeforeFork,
                                         .after_fork_parent = PyOS_AfterFork_Parent,
                                         .after_fork_child = PyOS_AfterFork_Child,
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
