/*
 * ray._core. The Python layer gives it hooks for what needs Python's own modules:
 * set_hooks(auto_init, dumps, loads, make_error, tell_error, load_error, load_function,
 * should_retry, set_gpus, set_shape, await_ref, future_of, site). Each call replaces only what it
 * names.
 */
#include "python/core.h"
#include "wire/message.h"

core_t core;

static PyObject *set_hooks(PyObject *module, PyObject *args, PyObject *kwargs) {
    (void)module;
    static char *names[] = {
        "auto_init",     "dumps",        "loads",      "make_error", "load_error",
        "load_function", "should_retry", "set_gpus",   "set_shape",  "await_ref",
        "future_of",     "site",         "tell_error", NULL};
    PyObject **hooks[] = {&core.auto_init,    &core.dumps,      &core.loads,
                          &core.make_error,   &core.load_error, &core.load_function,
                          &core.should_retry, &core.set_gpus,   &core.set_shape,
                          &core.await_ref,    &core.future_of,  &core.site,
                          &core.tell_error};
    PyObject *given[13] = {NULL};
    /* Checked here, since every import of ray calls this, and not every one calls PyInit: a second
     * interpreter gets a copy of the module. */
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "ray can't be used in a sub-interpreter: a process takes part once");
        return NULL;
    }
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOOOOOOOOOOO:set_hooks", names, &given[0],
                                     &given[1], &given[2], &given[3], &given[4], &given[5],
                                     &given[6], &given[7], &given[8], &given[9], &given[10],
                                     &given[11], &given[12]))
        return NULL;
    for (int i = 0; i < 13; i++) {
        if (given[i] == NULL) continue;
        if (given[i] == Py_None) {
            Py_CLEAR(*hooks[i]);
            continue;
        }
        Py_INCREF(given[i]);
        Py_XSETREF(*hooks[i], given[i]);
    }
    Py_RETURN_NONE;
}

static PyObject *is_connected(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(core.client != NULL);
}

static PyObject *is_collecting(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyBool_FromLong(core_is_collecting());
}

static PyObject *default_cpus(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromUnsignedLong(mob_default_cpus());
}

static PyObject *default_store(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyLong_FromUnsignedLongLong(mob_default_store_bytes());
}

#define FAST(f) ((PyCFunction)(void (*)(void))(f))

static PyMethodDef methods[] = {
    {"put", FAST(core_put), METH_FASTCALL | METH_KEYWORDS,
     "put(value)\n--\n\nPuts a value into the object store and returns the reference to it.\n\n"
     "Large buffers (numpy arrays) are copied once, into shared memory.\n\n"
     "    ref = ray.put(numpy.zeros(1000000))\n"
     "    ray.get([total.remote(ref) for _ in range(10)])     # each task reads the same memory"},
    {"get", FAST(core_get), METH_FASTCALL | METH_KEYWORDS,
     "get(object_refs, *, timeout=None)\n--\n\nWaits for an object, or for each of a list of them, "
     "and returns the value or the\nlist of values.\n\n"
     "Raises what its task raised; GetTimeoutError after `timeout` seconds (the task goes on).\n"
     "Arrays are read-only views of shared memory.\n\n"
     "    value = ray.get(ref)\n"
     "    values = ray.get([square.remote(i) for i in range(4)], timeout=60)"},
    {"wait", FAST(core_wait), METH_FASTCALL | METH_KEYWORDS,
     "wait(ray_waitables, *, num_returns=1, timeout=None, fetch_local=True)\n--\n\nWaits until "
     "`num_returns` of the objects are there, at most `timeout` seconds.\n\n"
     "Returns two lists, both in the order of the first: those that are there (at most\n"
     "num_returns), and the rest.\n\n"
     "    while refs:\n"
     "        (done,), refs = ray.wait(refs)\n"
     "        print(ray.get(done))"},
    {"is_there", core_is_there, METH_O, NULL},
    {"_restore", core_ref_restore, METH_O, NULL},
    {"set_hooks", FAST(set_hooks), METH_VARARGS | METH_KEYWORDS, NULL},
    {"is_collecting", is_collecting, METH_NOARGS, NULL},
    {"is_connected", is_connected, METH_NOARGS, NULL},
    {"default_cpus", default_cpus, METH_NOARGS, NULL},
    {"default_store", default_store, METH_NOARGS, NULL},
    {"start", core_start, METH_O, NULL},
    {"start_node", core_start_node, METH_O, NULL},
    {"begin_exit", core_begin_exit, METH_NOARGS, NULL},
    {"shutdown", core_shutdown, METH_NOARGS, NULL},
    {"finish_messages", core_finish_messages, METH_NOARGS, NULL},
    {"session", core_session, METH_NOARGS, NULL},
    {"read_message", core_read_message, METH_O, NULL},
    {"query", core_query, METH_O, NULL},
    {"name_site", core_name_site, METH_O, NULL},
    {"observe", core_observe, METH_VARARGS, NULL},
    {"kv", core_kv, METH_VARARGS, NULL},
    {"shape_demand", core_shape_demand, METH_O, NULL},
    {"kill_actor", core_kill_actor, METH_VARARGS, NULL},
    {"find_actor", core_find_actor, METH_VARARGS, NULL},
    {"names_dropped", core_names_dropped, METH_NOARGS, NULL},
    {"actor_names", core_actor_names, METH_O, NULL},
    {"create_group", core_create_group, METH_VARARGS, NULL},
    {"remove_group", core_remove_group, METH_O, NULL},
    {"find_group", core_find_group, METH_VARARGS, NULL},
    {"groups", core_groups, METH_O, NULL},
    {"restore_group", core_restore_group, METH_O, NULL},
    {"shape_where", core_shape_where, METH_O, NULL},
    {"current_shape", core_current_shape, METH_NOARGS, NULL},
    {"set_capture", core_set_capture, METH_O, NULL},
    {"labels", core_labels, METH_NOARGS, NULL},
    {"is_pending", core_is_pending, METH_O, NULL},
    {"cancel", core_cancel, METH_VARARGS, NULL},
    {"interrupt", core_interrupt, METH_NOARGS, NULL},
    {"is_cancelled", core_is_cancelled, METH_NOARGS, NULL},
    {"kept_task", core_kept_task, METH_VARARGS, NULL},
    {"put_error", core_put_error, METH_O, NULL},
    {"recall", core_recall, METH_VARARGS, NULL},
    {"current", core_current, METH_NOARGS, NULL},
    {"current_name", core_current_name, METH_NOARGS, NULL},
    {"on_next_name", core_on_next_name, METH_O, NULL},
    {"actor", core_actor, METH_NOARGS, NULL},
    {"serve", core_serve, METH_NOARGS, NULL},
    {"next_run", core_next_run, METH_NOARGS, NULL},
    {"zygote", core_zygote, METH_O, NULL},
    {"environment", core_environment, METH_NOARGS, NULL},
    {"become", core_become, METH_O, NULL},
    {"fetch", core_fetch, METH_VARARGS, NULL},
    {"unfit", core_unfit, METH_O, NULL},
    {"environment_number", core_environment_number, METH_VARARGS, NULL},
    {"use_environment", core_use_environment, METH_O, NULL},
    {"actor_groups", core_actor_groups, METH_O, NULL},
    {"maker", core_maker, METH_O, NULL},
    {"set_local", core_set_local, METH_O, NULL},
    {"local_ref", core_local_ref, METH_VARARGS, NULL},
    {"local_cell", core_local_cell, METH_O, NULL},
    {"cut_off", core_cut_off, METH_NOARGS, NULL},
    {"begin_end", core_begin_end, METH_NOARGS, NULL},
    {"drop", core_drop, METH_NOARGS, NULL},
    {"leave", core_leave, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "ray._core",
                                        .m_doc = "Mobula's client.", .m_size = -1,
                                        .m_methods = methods};

PyMODINIT_FUNC PyInit__core(void) {
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) return NULL;
    if (core_ref_ready(module) == 0 && core_pin_ready(module) == 0 &&
        core_submitter_ready(module) == 0 && core_run_ready(module) == 0 &&
        core_waker_ready(module) == 0 && core_flow_ready(module) == 0 &&
        PyModule_AddIntConstant(module, "MAX_LIMIT", MOB_MAX_LIMIT) == 0 &&
        PyModule_AddIntConstant(module, "MAX_RETURNS", MOB_MAX_RETURNS) == 0 &&
        PyModule_AddIntConstant(module, "MAX_GROUPS", MOB_MAX_GROUPS) == 0 &&
        PyModule_AddIntConstant(module, "END_SIGNAL", WIRE_END_SIGNAL) == 0 &&
        PyModule_AddIntConstant(module, "CANCEL_SIGNAL", WIRE_CANCEL_SIGNAL) == 0 &&
        PyModule_AddIntConstant(module, "QUERY_RESOURCES", MOB_QUERY_RESOURCES) == 0 &&
        PyModule_AddIntConstant(module, "QUERY_OBJECTS", MOB_QUERY_OBJECTS) == 0 &&
        PyModule_AddIntConstant(module, "QUERY_JOBS", MOB_QUERY_JOBS) == 0 &&
        PyModule_AddIntConstant(module, "QUERY_DEMANDS", MOB_QUERY_DEMANDS) == 0 &&
        PyModule_AddIntConstant(module, "QUERY_NODES", MOB_QUERY_NODES) == 0 &&
        PyModule_AddIntConstant(module, "QUERY_KEPT", MOB_QUERY_KEPT) == 0 &&
        PyModule_AddIntConstant(module, "KV_PUT", MOB_KV_PUT) == 0 &&
        PyModule_AddIntConstant(module, "KV_NEW", MOB_KV_NEW) == 0 &&
        PyModule_AddIntConstant(module, "KV_ADD", MOB_KV_ADD) == 0 &&
        PyModule_AddIntConstant(module, "KV_DROP", MOB_KV_DROP) == 0 &&
        PyModule_AddIntConstant(module, "KV_DROP_ALL", MOB_KV_DROP_ALL) == 0 &&
        PyModule_AddIntConstant(module, "KV_GET", MOB_KV_GET) == 0 &&
        PyModule_AddIntConstant(module, "KV_LIST", MOB_KV_LIST) == 0 &&
        PyModule_AddIntConstant(module, "KV_SCAN", MOB_KV_SCAN) == 0 &&
        PyModule_AddIntConstant(module, "QUERY_GROUPS", MOB_QUERY_GROUPS) == 0 &&
        PyModule_AddIntConstant(module, "WHERE_CAPTURES", MOB_WHERE_CAPTURES) == 0 &&
        PyModule_AddIntConstant(module, "WHERE_SPREAD", MOB_WHERE_SPREAD) == 0 &&
        PyModule_AddIntConstant(module, "TASK", MOB_TASK) == 0 &&
        PyModule_AddIntConstant(module, "ACTOR_CREATE", MOB_ACTOR_CREATE) == 0 &&
        PyModule_AddIntConstant(module, "ACTOR_CALL", MOB_ACTOR_CALL) == 0)
        return module;
    Py_DECREF(module);
    return NULL;
}
