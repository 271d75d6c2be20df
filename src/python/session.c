/* Starting and ending a session, messages from the daemon, questions to it. */
#include "python/core.h"

#include <string.h>
#include <unistd.h>

/* ---- start ---- */

/* The strings of a Python list, NULL-terminated; the list must outlive them. */
const char **core_strings(PyObject *list) {
    Py_ssize_t count = list != NULL && PyList_Check(list) ? PyList_GET_SIZE(list) : 0;
    const char **strings = PyMem_Calloc((size_t)count + 1, sizeof *strings);
    for (Py_ssize_t i = 0; strings != NULL && i < count; i++) {
        strings[i] = PyUnicode_AsUTF8(PyList_GET_ITEM(list, i));
        if (strings[i] == NULL) {
            PyMem_Free(strings);
            return NULL;
        }
    }
    return strings;
}

static mob_resource_t *resources_of(PyObject *dict, size_t *ret_count) {
    Py_ssize_t at = 0, count = PyDict_Check(dict) ? PyDict_GET_SIZE(dict) : 0;
    PyObject *key, *value;
    mob_resource_t *found = PyMem_Calloc((size_t)count + 1, sizeof *found);
    *ret_count = 0;
    while (found != NULL && count > 0 && PyDict_Next(dict, &at, &key, &value)) {
        found[*ret_count].name = PyUnicode_AsUTF8(key);
        found[*ret_count].amount = PyFloat_AsDouble(value);
        if (PyErr_Occurred()) {
            PyMem_Free(found);
            return NULL;
        }
        (*ret_count)++;
    }
    return found;
}

static const char *text_of(PyObject *dict, const char *key) {
    PyObject *found = PyDict_GetItemString(dict, key);
    return found != NULL && PyUnicode_Check(found) ? PyUnicode_AsUTF8(found) : NULL;
}

/* What Python does in this thread while the daemon starts. In another thread an import would be in
 * the way of a fork, and might take that thread for the main one. */
typedef struct {
    PyObject *call;
    PyThreadState *thread; /* saved while the lock is let go */
} meanwhile_t;

static void meanwhile(void *context) {
    meanwhile_t *m = context;
    PyEval_RestoreThread(m->thread);
    Py_XDECREF(PyObject_CallNoArgs(m->call)); /* core_start finds an exception */
    m->thread = PyEval_SaveThread();
}

/* What mob_init is given, with the memory that it lies in. */
typedef struct {
    mob_config_t config;
    const char **argv, **preload, **spill, **cluster;
    mob_resource_t *resources;
    meanwhile_t meanwhile;
} start_t;

/* From a dict, whose values are BORROWED. False: it lacks something, or there is an exception. */
static bool start_read(PyObject *dict, start_t *s) {
    mob_config_t *c = &s->config;
    PyObject *resources = PyDict_GetItemString(dict, "resources"),
             *setup = PyDict_GetItemString(dict, "setup"),
             *store = PyDict_GetItemString(dict, "object_store_memory"),
             *log = PyDict_GetItemString(dict, "log_to_driver");
    s->meanwhile.call = PyDict_GetItemString(dict, "meanwhile");
    s->argv = core_strings(PyDict_GetItemString(dict, "argv"));
    s->preload = core_strings(PyDict_GetItemString(dict, "preload"));
    s->spill = core_strings(PyDict_GetItemString(dict, "spill"));
    s->cluster = core_strings(PyDict_GetItemString(dict, "cluster"));
    s->resources = resources ? resources_of(resources, &c->resource_count) : NULL;
    c->daemon_path = text_of(dict, "daemon");
    c->join = text_of(dict, "join");
    c->address = text_of(dict, "address");
    c->name_space = text_of(dict, "namespace");
    c->entrypoint = text_of(dict, "entrypoint");
    c->temp_dir = text_of(dict, "temp_dir");
    c->labels = text_of(dict, "labels");
    c->resources = s->resources;
    c->zygote_argv = s->argv != NULL && s->argv[0] != NULL ? s->argv : NULL;
    c->preload = s->preload;
    c->spill_dirs = s->spill;
    c->cluster = s->cluster;
    c->store_bytes = store ? PyLong_AsUnsignedLongLong(store) : 0;
    c->log_to_driver = log == NULL || PyObject_IsTrue(log) == 1;
    if (setup != NULL && PyBytes_Check(setup)) {
        c->setup = PyBytes_AS_STRING(setup);
        c->setup_size = (size_t)PyBytes_GET_SIZE(setup);
    }
    if (s->meanwhile.call != NULL) {
        c->meanwhile = meanwhile;
        c->meanwhile_context = &s->meanwhile;
    }
    return !PyErr_Occurred() && s->argv != NULL && s->preload != NULL && s->spill != NULL &&
           s->cluster != NULL && (c->daemon_path != NULL || c->join != NULL);
}

static void start_free(start_t *s) {
    PyMem_Free(s->argv);
    PyMem_Free(s->preload);
    PyMem_Free(s->spill);
    PyMem_Free(s->cluster);
    PyMem_Free(s->resources);
}

static mob_status_t start_run(PyObject *dict, mob_client_t **ret_client) {
    start_t s = {0};
    mob_status_t status = MOB_EINVAL;
    if (start_read(dict, &s)) {
        s.meanwhile.thread = PyEval_SaveThread();
        status = mob_init(&s.config, ret_client);
        PyEval_RestoreThread(s.meanwhile.thread);
    }
    start_free(&s);
    return status;
}

/* start_node(config): starts a daemon that stays; its pid, and the session's folder. */
PyObject *core_start_node(PyObject *module, PyObject *dict) {
    (void)module;
    start_t s = {0};
    mob_status_t status = MOB_EINVAL;
    int pid = 0;
    char *folder = NULL;
    if (!PyDict_Check(dict)) {
        PyErr_SetString(PyExc_TypeError, "start_node takes a dict");
        return NULL;
    }
    if (start_read(dict, &s)) {
        Py_BEGIN_ALLOW_THREADS status = mob_node_start(&s.config, &pid, &folder);
        Py_END_ALLOW_THREADS
    }
    start_free(&s);
    if (PyErr_Occurred()) return NULL;
    if (status != MOB_OK) return core_raise(status);
    PyObject *made = Py_BuildValue("is", pid, folder);
    free(folder);
    return made;
}

static uint64_t stamps; /* how many connections this process has had */

PyObject *core_start(PyObject *module, PyObject *config) {
    (void)module;
    if (core.client != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this process is connected already");
        return NULL;
    }
    if (!PyDict_Check(config)) {
        PyErr_SetString(PyExc_TypeError, "start takes a dict");
        return NULL;
    }
    mob_client_t *client = NULL;
    mob_status_t status = start_run(config, &client);
    /* Python code that ran while the daemon started has begun another session: a signal handler,
     * say. */
    if (status == MOB_OK && core.client != NULL && !PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError,
                        "this process was connected by something else while it started");
    if (PyErr_Occurred()) { /* also one of the Python code that ran while the daemon started */
        PyObject *type, *error, *trace;
        PyErr_Fetch(&type, &error, &trace);
        Py_BEGIN_ALLOW_THREADS mob_shutdown(client);
        Py_END_ALLOW_THREADS PyErr_Restore(type, error, trace);
        return NULL;
    }
    if (status != MOB_OK) return core_raise(status);
    mob_session_t session;
    mob_client_session(client, &session);
    core.client = client;
    core.pid = (int)getpid();
    core.inside = 0;
    core.incarnation = session.incarnation;
    core.stamp = ++stamps;
    core.is_worker = false;
    Py_RETURN_NONE;
}

/* finish_messages(): False: the daemon is stopped, and will send none. */
PyObject *core_finish_messages(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    bool stopped = core.client != NULL && mob_message_finish(core.client) == MOB_ESTOPPED;
    return PyBool_FromLong(!stopped);
}

/* This thread ends the program. Calls of other threads get no answer any more, and their tracebacks
 * would be of no use. */
PyObject *core_begin_exit(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    core.exit_thread = PyThread_get_thread_ident();
    Py_RETURN_NONE;
}

/* Whether this thread runs an event loop. */
static bool is_in_loop(void) {
    PyObject *name = PyUnicode_FromString("_asyncio"),
             *module = name ? PyImport_GetModule(name) : NULL;
    PyObject *loop = module ? PyObject_CallMethod(module, "_get_running_loop", NULL) : NULL;
    bool found = loop != NULL && loop != Py_None;
    Py_XDECREF(loop);
    Py_XDECREF(module);
    Py_XDECREF(name);
    PyErr_Clear();
    return found;
}

bool core_exit_raises(void) {
    if (core.exit_thread == 0 || core.exit_thread == PyThread_get_thread_ident()) return false;
    /* An event loop would print the exception for each of its tasks. */
    while (is_in_loop()) {
        Py_BEGIN_ALLOW_THREADS sleep(1);
        Py_END_ALLOW_THREADS
    }
    PyErr_SetNone(PyExc_SystemExit);
    return true;
}

PyObject *core_shutdown(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    mob_client_t *client = core.client;
    if (client == NULL) Py_RETURN_NONE;
    core.client = NULL; /* from now on no call begins */
    core.incarnation = core.stamp = 0;
    /* with the interpreter's lock, so that no event loop is in the middle of a look */
    mob_events_end(client);
    if (core.pid != (int)getpid()) core.inside = 0;
    while (core.inside > 0) {
        mob_client_stop(client);
        Py_BEGIN_ALLOW_THREADS usleep(500);
        Py_END_ALLOW_THREADS
    }
    Py_BEGIN_ALLOW_THREADS mob_shutdown(client);
    Py_END_ALLOW_THREADS core_functions_drop(); /* their numbers will be others' */
    Py_RETURN_NONE;
}

PyObject *core_session(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (core.client == NULL) return core_raise(MOB_ESTALE);
    mob_session_t s;
    char node[17];
    mob_client_session(core.client, &s);
    snprintf(node, sizeof node, "%016llx", (unsigned long long)s.incarnation);
    return Py_BuildValue("{s:s,s:s,s:s,s:I,s:i,s:I,s:I,s:O}", "session_dir", s.session_dir,
                         "socket", s.socket_path, "node_id", node, "number", s.number, "daemon_pid",
                         s.daemon_pid, "job", s.job, "environment", s.environment, "joined",
                         s.joined ? Py_True : Py_False);
}

PyObject *core_read_message(PyObject *module, PyObject *timeout) {
    (void)module;
    static const char *const kinds[] = {"", "out", "err", "warn", "unhandled"};
    uint64_t began = core.stamp;
    mob_message_t m;
    mob_status_t status;
    int64_t timeout_ms = timeout == Py_None ? -1 : PyLong_AsLongLong(timeout);
    if (timeout_ms == -1 && PyErr_Occurred()) return NULL;
    if (core.client == NULL) Py_RETURN_NONE;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_message_read(client, timeout_ms, &m);
    CORE_ALLOW_THREADS_END
    if (status == MOB_ETIMEOUT && core.stamp == began) return PyTuple_New(0);
    if (status != MOB_OK || core.stamp != began) Py_RETURN_NONE;
    PyObject *name = PyUnicode_DecodeUTF8(m.name, (Py_ssize_t)strlen(m.name), "replace");
    PyObject *text = PyUnicode_DecodeUTF8(m.text, (Py_ssize_t)m.text_size, "replace");
    PyObject *address = PyUnicode_DecodeUTF8(m.address, (Py_ssize_t)strlen(m.address), "replace");
    if (name == NULL || text == NULL || address == NULL) {
        Py_XDECREF(name);
        Py_XDECREF(text);
        Py_XDECREF(address);
        return NULL;
    }
    return Py_BuildValue("siNNNO", kinds[m.kind <= 4 ? m.kind : 0], m.pid, address, name, text,
                         m.unfinished ? Py_True : Py_False);
}

/* ---- questions ---- */

PyObject *core_ask(mob_query_t query, uint64_t argument) {
    void *data;
    size_t size;
    mob_status_t status;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_query(client, query, argument, &data,
                       &size); /* a long answer may have to wait for space */
    CORE_ALLOW_THREADS_END
    if (status != MOB_OK) return core_raise(status);
    const uint8_t *at = data;
    PyObject *value = core_direct_read(&at, at + size);
    free(data);
    return value;
}

/* kv(what, items): see mob_kv. */
PyObject *core_kv(PyObject *module, PyObject *args) {
    (void)module;
    int what;
    Py_buffer items;
    void *data = NULL;
    size_t size = 0;
    mob_status_t status;
    if (!core_connected() || !PyArg_ParseTuple(args, "iy*:kv", &what, &items)) return NULL;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_kv(client, (mob_kv_t)what, items.buf, (size_t)items.len, &data, &size);
    CORE_ALLOW_THREADS_END
    PyBuffer_Release(&items);
    if (status != MOB_OK) return core_raise(status);
    const uint8_t *at = data;
    PyObject *value = core_direct_read(&at, at + size);
    free(data);
    return value;
}

/* ((name, total, available), ...) to {"total": {...}, "available": {...}} */
static PyObject *resources_dict(void) {
    PyObject *rows = core_ask(MOB_QUERY_RESOURCES, 0), *total = PyDict_New(),
             *available = PyDict_New();
    bool good = rows != NULL && total != NULL && available != NULL;
    for (Py_ssize_t i = 0; good && i < PyTuple_GET_SIZE(rows); i++) {
        PyObject *row = PyTuple_GET_ITEM(rows, i);
        good = PyDict_SetItem(total, PyTuple_GET_ITEM(row, 0), PyTuple_GET_ITEM(row, 1)) == 0 &&
               PyDict_SetItem(available, PyTuple_GET_ITEM(row, 0), PyTuple_GET_ITEM(row, 2)) == 0;
    }
    Py_XDECREF(rows);
    if (good) return Py_BuildValue("{s:N,s:N}", "total", total, "available", available);
    Py_XDECREF(total);
    Py_XDECREF(available);
    return NULL;
}

PyObject *core_shape_dict(uint32_t shape) {
    PyObject *rows = core_ask(MOB_QUERY_SHAPE, shape);
    if (rows == NULL) return NULL;
    PyObject *dict = PyDict_New();
    if (dict != NULL && PyDict_MergeFromSeq2(dict, rows, 1) < 0) Py_CLEAR(dict);
    Py_DECREF(rows);
    return dict;
}

PyObject *core_query(PyObject *module, PyObject *kind) {
    (void)module;
    if (!PyUnicode_Check(kind)) {
        PyErr_SetString(PyExc_TypeError, "query takes a str");
        return NULL;
    }
    if (!core_connected()) return NULL;
    if (PyUnicode_CompareWithASCIIString(kind, "resources") == 0) return resources_dict();
    if (PyUnicode_CompareWithASCIIString(kind, "nodes") == 0) return core_ask(MOB_QUERY_NODES, 0);
    if (PyUnicode_CompareWithASCIIString(kind, "events") == 0) return core_ask(MOB_QUERY_EVENTS, 0);
    if (PyUnicode_CompareWithASCIIString(kind, "actors") == 0) return core_ask(MOB_QUERY_ACTORS, 0);
    PyErr_Format(PyExc_ValueError, "no such query: %U", kind);
    return NULL;
}

PyObject *core_name_site(PyObject *module, PyObject *text) {
    (void)module;
    uint32_t site = 0;
    const char *words = PyUnicode_AsUTF8(text);
    if (words == NULL) return NULL;
    if (core.client != NULL) (void)mob_site(core.client, words, &site); /* 0: there are too many */
    return PyLong_FromUnsignedLong(site);
}

uint32_t core_site(void) {
    if (core.site == NULL) return 0;
    PyObject *site = PyObject_CallNoArgs(core.site);
    unsigned long number = site != NULL ? PyLong_AsUnsignedLong(site) : 0;
    Py_XDECREF(site);
    PyErr_Clear(); /* the place is only for people */
    return (uint32_t)number;
}

/* observe(socket, what, argument, timeout): the daemon's answer to one of mob_query_t. */
PyObject *core_observe(PyObject *module, PyObject *args) {
    (void)module;
    const char *path;
    int what;
    unsigned long long argument;
    PyObject *timeout;
    int64_t timeout_ms;
    void *data;
    size_t size;
    mob_status_t status;
    if (!PyArg_ParseTuple(args, "siKO:observe", &path, &what, &argument, &timeout)) return NULL;
    if (core_timeout(timeout, &timeout_ms) < 0) return NULL;
    Py_BEGIN_ALLOW_THREADS status =
        mob_observe(path, (mob_query_t)what, argument, timeout_ms, &data, &size);
    Py_END_ALLOW_THREADS if (status != MOB_OK) return core_raise(status);
    const uint8_t *at = data;
    PyObject *value = core_direct_read(&at, at + size);
    free(data);
    return value;
}

int core_shape(PyObject *demand, PyObject *where, uint32_t *ret_shape) {
    size_t count;
    mob_where_t place;
    if (!PyDict_Check(demand)) {
        PyErr_SetString(PyExc_TypeError, "a demand must be a dict");
        return -1;
    }
    if (core_where(where, &place) < 0) return -1;
    mob_resource_t *amounts = resources_of(demand, &count);
    if (amounts == NULL) return -1;
    bool anywhere = place.group.slot == 0 && place.flags == 0 && place.selector == NULL &&
                    place.environment == 0 && place.priority == 0;
    mob_status_t status = anywhere ? mob_shape(core.client, amounts, count, ret_shape)
                                   : mob_shape_at(core.client, amounts, count, &place, ret_shape);
    PyMem_Free(amounts);
    if (status == MOB_OK) return 0;
    core_raise(status);
    return -1;
}

PyObject *core_shape_demand(PyObject *module, PyObject *shape) {
    (void)module;
    unsigned long number = PyLong_AsUnsignedLong(shape);
    if (PyErr_Occurred() || !core_connected()) return NULL;
    return core_shape_dict((uint32_t)number);
}

/* find_actor(namespace, name): its reference, and the object that its maker gave. */
PyObject *core_find_actor(PyObject *module, PyObject *args) {
    (void)module;
    const char *space, *name;
    mob_ref_t actor, info;
    mob_status_t status;
    if (!PyArg_ParseTuple(args, "ss:find_actor", &space, &name) || !core_connected()) return NULL;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_actor_find(client, space, name, &actor, &info);
    CORE_ALLOW_THREADS_END
    if (status != MOB_OK) return core_raise(status);
    PyObject *handle = core_ref_new(actor),
             *given = info.slot != 0 ? core_ref_new(info) : Py_NewRef(Py_None);
    if (handle != NULL && given != NULL) return Py_BuildValue("NN", handle, given);
    Py_XDECREF(handle);
    Py_XDECREF(given);
    return NULL;
}

/* names_dropped(): see mob_names_dropped; None without a session that could be asked. */
PyObject *core_names_dropped(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    uint32_t count;
    if (core.client == NULL || mob_names_dropped(core.client, &count) != MOB_OK) Py_RETURN_NONE;
    return PyLong_FromUnsignedLong(count);
}

/* actor_names(all): (namespace, name, slot, generation, home) of each; of all namespaces, or of
 * this job's. */
PyObject *core_actor_names(PyObject *module, PyObject *all) {
    (void)module;
    return core_connected() ? core_ask(MOB_QUERY_NAMES, PyObject_IsTrue(all) == 1) : NULL;
}

PyObject *core_kill_actor(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *object;
    int no_restart;
    if (!PyArg_ParseTuple(args, "Op:kill_actor", &object, &no_restart)) return NULL;
    if (!core_ref_check(object)) {
        PyErr_SetString(PyExc_TypeError, "kill_actor takes an actor's ObjectRef");
        return NULL;
    }
    ref_object_t *ref = core_actor_of(object);
    if (ref == NULL) return NULL;
    mob_status_t status = mob_actor_kill(core.client, ref->ref, !no_restart);
    if (status != MOB_OK) return core_raise(status);
    Py_RETURN_NONE;
}
