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

/* become(command): this zygote goes on as another program; returns only to raise. */
PyObject *core_become(PyObject *module, PyObject *command) {
    (void)module;
    const char **argv = core_strings(command);
    if (argv == NULL) return NULL;
    mob_status_t status = mob_zygote_become(argv);
    PyMem_Free(argv);
    return core_raise(status);
}

/* fetch(name, timeout_ms): a zygote's, see mob_zygote_fetch. None, or why not. */
PyObject *core_fetch(PyObject *module, PyObject *args) {
    (void)module;
    const char *name;
    int timeout_ms;
    if (!PyArg_ParseTuple(args, "si", &name, &timeout_ms)) return NULL;
    if (mob_zygote_fetch(name, timeout_ms) == MOB_OK) Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(mob_last_error(), (Py_ssize_t)strlen(mob_last_error()), "replace");
}

/* environment_number(argv, env, setup, at_once): of the job's runtime environments. */
PyObject *core_environment_number(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *argv, *env;
    mob_environment_t given = {0};
    Py_ssize_t size;
    const char *setup;
    uint32_t number;
    int at_once;
    if (!PyArg_ParseTuple(args, "OOy#p", &argv, &env, &setup, &size, &at_once) || !core_connected())
        return NULL;
    const char **words = core_strings(argv), **variables = words ? core_strings(env) : NULL;
    mob_status_t status = MOB_OK;
    if (variables != NULL) {
        given = (mob_environment_t){.zygote_argv = words[0] != NULL ? words : NULL,
                                    .env = variables,
                                    .setup = setup,
                                    .setup_size = (size_t)size,
                                    .at_once = at_once != 0};
        status = mob_environment(core.client, &given, &number);
    }
    bool whole = variables != NULL;
    PyMem_Free(words);
    PyMem_Free(variables);
    if (!whole) return NULL;
    return status == MOB_OK ? PyLong_FromUnsignedLong(number) : core_raise(status);
}

/* unfit(why): this worker can't run anything. */
PyObject *core_unfit(PyObject *module, PyObject *why) {
    (void)module;
    const char *words = PyUnicode_AsUTF8(why);
    if (words == NULL || !core_connected()) return NULL;
    mob_worker_unfit(core.client, words);
    Py_RETURN_NONE;
}

/* use_environment(number): for what this process submits, where nothing else is said. */
PyObject *core_use_environment(PyObject *module, PyObject *number) {
    (void)module;
    unsigned long value = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred() || !core_connected()) return NULL;
    mob_environment_use(core.client, (uint32_t)value);
    Py_RETURN_NONE;
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
