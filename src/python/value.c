/*
 * Values in the store: put, get, wait. A pickled value is written straight into shared memory, its
 * large buffers copied once; it is read in place, and each buffer that is handed out is a Pin that
 * keeps the object alive, but for small ones.
 */
#include "python/core.h"

#include <string.h>

#include "base/clock.h"

enum { BIG_COPY = 1 << 20, PIN_FROM = 4096 };

/* ---- Pin: a read-only view of shared memory ---- */

typedef struct {
    PyObject_HEAD mob_client_t *client;
    mob_ref_t ref;
    const void *data;
    Py_ssize_t size;
} pin_object_t;

static PyTypeObject *pin_type;

static PyObject *pin_new(mob_ref_t ref, const void *data, Py_ssize_t size) {
    pin_object_t *self = PyObject_New(pin_object_t, pin_type);
    if (self == NULL) return NULL;
    self->client = core.client;
    self->ref = ref;
    self->data = data;
    self->size = size;
    mob_view_hold(core.client);
    mob_ref_retain(core.client, ref);
    mob_get_keep(core.client, ref);
    return (PyObject *)self;
}

static void pin_dealloc(pin_object_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    mob_get_end(self->client, self->ref, &(mob_value_t){.pinned = true});
    mob_ref_release(self->client, self->ref);
    mob_view_release(self->client);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int pin_buffer(pin_object_t *self, Py_buffer *view, int flags) {
    return PyBuffer_FillInfo(view, (PyObject *)self, (void *)self->data, self->size, 1, flags);
}

static PyType_Slot pin_slots[] = {{Py_tp_doc, "A piece of an object in shared memory, kept alive."},
                                  {Py_tp_dealloc, pin_dealloc},
                                  {Py_bf_getbuffer, pin_buffer},
                                  {0, NULL}};
static PyType_Spec pin_spec = {.name = "ray._core.Pin",
                               .basicsize = sizeof(pin_object_t),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               .slots = pin_slots};

int core_value_ready(PyObject *module) {
    pin_type = (PyTypeObject *)PyType_FromSpec(&pin_spec);
    return pin_type == NULL ? -1 : PyModule_AddObjectRef(module, "Pin", (PyObject *)pin_type);
}

/* ---- errors ---- */

static PyObject *raise_code(const char *code, PyObject *payload) {
    PyObject *error = core.load_error != NULL && payload != NULL
                          ? PyObject_CallFunction(core.load_error, "sO", code, payload)
                          : NULL;
    if (error != NULL && PyExceptionInstance_Check(error))
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    else if (!PyErr_Occurred())
        PyErr_Format(PyExc_RuntimeError, "%s", code);
    Py_XDECREF(error);
    Py_XDECREF(payload);
    return NULL;
}

PyObject *core_raise(mob_status_t status) {
    const char *text = mob_last_error();
    return raise_code(mob_status_name(status),
                      PyUnicode_FromString(*text ? text : mob_status_text(status)));
}

PyObject *core_raise_ended(void) {
    if (core_exit_raises()) return NULL;
    return raise_code("system",
                      PyUnicode_FromString("the session ended while this call was in it"));
}

PyObject *core_raise_error(const mob_value_t *value) {
    const uint8_t *at = value->data;
    return raise_code(mob_status_name(value->error), core_direct_read(&at, at + value->size));
}

bool core_connected(void) {
    if (core.client != NULL) return true;
    if (core_exit_raises()) return false;
    PyObject *done = core.auto_init ? PyObject_CallNoArgs(core.auto_init) : NULL;
    Py_XDECREF(done);
    if (core.client != NULL) return true;
    if (!PyErr_Occurred())
        PyErr_SetString(PyExc_RuntimeError, "the system is not running: call ray.init()");
    return false;
}

/* ---- arguments ---- */

/* Takes the arguments of a call that has one positional parameter, the first: finds keyword values
 * by name. */
static int arguments_of(const char *function, PyObject *const *args, Py_ssize_t nargs,
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

/* ---- writing ---- */

PyObject *core_pickle(PyObject *value, const char *what, collector_t *collector) {
    core_collector_push(collector);
    PyObject *plain = core_is_plain(value) ? Py_True : Py_False;
    PyObject *apart = plain == Py_True && core_array_check(value) ? Py_True : Py_False;
    PyObject *made = PyObject_CallFunction(core.dumps, "OOsO", value, plain, what, apart);
    if (made != NULL &&
        (!PyTuple_Check(made) || PyTuple_GET_SIZE(made) != 2 ||
         !PyBytes_Check(PyTuple_GET_ITEM(made, 0)) || !PyList_Check(PyTuple_GET_ITEM(made, 1)))) {
        PyErr_SetString(PyExc_TypeError, "the dumps hook must return (bytes, list)");
        Py_CLEAR(made);
    }
    return made;
}

int core_space_wait(void) {
    mob_status_t status;
    uint64_t began = core.incarnation;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_space_wait(client);
    CORE_ALLOW_THREADS_END
    if (PyErr_CheckSignals() < 0) {
        if (core.incarnation == began) mob_space_forget(core.client);
        return -1;
    }
    if (core.incarnation != began) { /* by another thread, or by a handler */
        core_raise_ended();
        return -1;
    }
    if (status == MOB_OK || status == MOB_EINTR) return 0;
    core_raise(status);
    return -1;
}

/* -1 with an exception. */
static int target_begin(const core_target_t *t, uint64_t size, uint32_t ref_count,
                        mob_buffer_t *buffer) {
    mob_status_t status;
    do {
        status = t->run
                     ? mob_run_result_begin(core.client, t->run, t->index, size, ref_count, buffer)
                     : mob_put_begin(core.client, size, ref_count, buffer);
        if (status == MOB_OK) return 0;
    } while (status == MOB_ESPACE && core_space_wait() == 0);
    if (status != MOB_ESPACE) core_raise(status);
    return -1;
}

static void target_commit(core_target_t *t, mob_buffer_t *buffer, mob_format_t format,
                          mob_status_t error, const mob_ref_t *refs) {
    if (t->run)
        mob_run_result_commit(core.client, t->run, t->index, buffer, format, error, refs);
    else
        mob_put_commit(core.client, buffer, format, refs, &t->ref);
}

/* -1 with an exception: the session is over. */
static int copy_in(mob_buffer_t *buffer, uint64_t offset, const void *from, size_t size) {
    if (size < BIG_COPY) {
        memcpy((uint8_t *)buffer->data + offset, from, size);
        return 0;
    }
    uint64_t began = core.incarnation;
    CORE_ALLOW_THREADS_BEGIN
    mob_buffer_write(client, buffer, offset, from, size);
    CORE_ALLOW_THREADS_END
    if (core.incarnation == began) return 0;
    core_raise_ended();
    return -1;
}

static int pickled_store(PyObject *stream, Py_buffer *views, uint32_t count,
                         const collector_t *collector, core_target_t *target) {
    uint64_t table = sizeof(mob_pickle_t) + count * 16u,
             stream_size = (uint64_t)PyBytes_GET_SIZE(stream), size = table + stream_size;
    for (uint32_t i = 0; i < count; i++)
        size = ((size + 63) & ~(uint64_t)63) + (uint64_t)views[i].len;
    mob_buffer_t buffer;
    uint64_t began = core.incarnation;
    if (target_begin(target, size, (uint32_t)collector->refs.count, &buffer) < 0) return -1;
    if (core.incarnation != began) {
        core_raise_ended(); /* while it waited for space */
        return -1;
    }
    uint8_t *data = buffer.data;
    mob_pickle_t *head = buffer.data;
    head->buffer_count = count;
    head->reserved = 0;
    head->stream_size = stream_size;
    memcpy(data + table, PyBytes_AS_STRING(stream), stream_size);
    uint64_t at = table + stream_size;
    for (uint32_t i = 0; i < count; i++) {
        at = (at + 63) & ~(uint64_t)63;
        head->buffers[i].offset = at;
        head->buffers[i].size = (uint64_t)views[i].len;
        if (copy_in(&buffer, at, views[i].buf, (size_t)views[i].len) < 0) return -1;
        at += (uint64_t)views[i].len;
    }
    target_commit(target, &buffer, MOB_FORMAT_PICKLE, MOB_OK, collector->refs.items);
    return 0;
}

/* An array of a kind that was pickled before. */
static int array_store(PyObject *stream, Py_buffer *view, core_target_t *target) {
    static const collector_t no_references;
    int result = pickled_store(stream, view, 1, &no_references, target);
    PyBuffer_Release(view);
    Py_DECREF(stream);
    return result;
}

int core_pickled_store(PyObject *value, PyObject *made, const collector_t *collector,
                       uint64_t began, core_target_t *target) {
    PyObject *list = PyTuple_GET_ITEM(made, 1);
    int result = -1;
    Py_ssize_t count = PyList_GET_SIZE(list), got = 0;
    Py_buffer *views = PyMem_Calloc((size_t)count + 1, sizeof *views);
    while (views != NULL && got < count &&
           PyObject_GetBuffer(PyList_GET_ITEM(list, got), &views[got], PyBUF_ANY_CONTIGUOUS) == 0)
        got++;
    if (views != NULL && got == count && count == 1 && core_array_check(value))
        core_array_note(value, PyTuple_GET_ITEM(made, 0), &views[0]);
    if (views == NULL)
        PyErr_NoMemory();
    else if (got == count && core.incarnation != began)
        core_raise_ended(); /* while Python code ran */
    else if (got == count)
        result =
            pickled_store(PyTuple_GET_ITEM(made, 0), views, (uint32_t)count, collector, target);
    while (got > 0) PyBuffer_Release(&views[--got]);
    PyMem_Free(views);
    return result;
}

static int pickle_store(PyObject *value, const char *what, core_target_t *target) {
    collector_t collector;
    int result = -1;
    Py_buffer known;
    PyObject *seen = core_array_check(value) ? core_array_stream(value, &known) : NULL;
    if (seen != NULL) return array_store(seen, &known, target);
    uint64_t began = core.incarnation;
    PyObject *made = core_pickle(value, what, &collector);
    if (made != NULL) result = core_pickled_store(value, made, &collector, began, target);
    Py_XDECREF(made);
    core_collector_pop(&collector);
    return result;
}

/* A str or bytes, copied without the interpreter's lock. */
static int large_store(PyObject *value, size_t size, core_target_t *target) {
    bool as_str = PyUnicode_CheckExact(value);
    /* a str keeps its UTF-8 */
    const char *data = as_str ? PyUnicode_AsUTF8(value) : PyBytes_AS_STRING(value);
    return core_bytes_store(data, size, as_str, MOB_OK, NULL, 0, target);
}

int core_value_store(PyObject *value, const char *what, core_target_t *target) {
    Py_ssize_t size = core_direct_size(value);
    if (size < 0) return pickle_store(value, what, target);
    if (size > BIG_COPY && !PyTuple_CheckExact(value))
        return large_store(value, (size_t)size - 9, target);
    mob_buffer_t buffer;
    if (target_begin(target, (uint64_t)size, 0, &buffer) < 0) return -1;
    core_direct_write(value, buffer.data);
    target_commit(target, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
    return 0;
}

int core_bytes_store(const void *data, size_t size, bool as_str, mob_status_t error,
                     const mob_ref_t *refs, uint32_t ref_count, core_target_t *target) {
    mob_buffer_t buffer;
    uint64_t length = size;
    if (target_begin(target, 9 + size, ref_count, &buffer) < 0) return -1;
    uint8_t *at = buffer.data;
    *at = as_str ? MOB_STR : MOB_BYTES;
    memcpy(at + 1, &length, 8);
    if (copy_in(&buffer, 9, data, size) < 0) return -1;
    target_commit(target, &buffer, MOB_FORMAT_DIRECT, error, refs);
    return 0;
}

static PyObject *put(PyObject *value) {
    if (core.client == NULL && !core_connected()) return NULL;
    if (core_ref_check(value)) {
        PyErr_SetString(PyExc_TypeError,
                        "ray.put of an ObjectRef: its object is in the store already. To store the "
                        "reference itself, wrap it in a list");
        return NULL;
    }
    uint32_t site = core_site();
    if (core.client == NULL) return core_raise_ended();
    core_target_t target = {0};
    if (core_value_store(value, "the value given to ray.put", &target) < 0) return NULL;
    if (site != 0) mob_ref_made_at(core.client, target.ref, site);
    return core_ref_new(target.ref); /* no Python code since it was stored */
}

PyObject *core_put(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    (void)module;
    static const char *const names[] = {"value", NULL};
    if (nargs == 1 && kwnames == NULL) return put(args[0]);
    PyObject *value;
    return arguments_of("ray.put", args, nargs, kwnames, names, &value) == 0 ? put(value) : NULL;
}

/* ---- reading ---- */

/* A small one is copied: who keeps a million small arrays keeps nothing in the store. */
static PyObject *buffer_open(mob_ref_t ref, const char *data, Py_ssize_t size) {
    return size < PIN_FROM ? PyBytes_FromStringAndSize(data, size) : pin_new(ref, data, size);
}

static PyObject *pickled_load(mob_ref_t ref, const mob_value_t *value) {
    const mob_pickle_t *head = value->data;
    uint64_t count = value->size >= sizeof *head ? head->buffer_count : 0,
             table = sizeof *head + count * 16;
    if (value->size < table || head->stream_size > value->size - table) {
        PyErr_SetString(PyExc_ValueError, "a pickled object in the store is cut short");
        return NULL;
    }
    PyObject *buffers = PyList_New((Py_ssize_t)count);
    for (uint64_t i = 0; buffers != NULL && i < count; i++) {
        uint64_t offset = head->buffers[i].offset, size = head->buffers[i].size;
        bool inside = offset <= value->size && size <= value->size - offset;
        PyObject *buffer =
            inside ? buffer_open(ref, (const char *)value->data + offset, (Py_ssize_t)size) : NULL;
        if (buffer == NULL) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError,
                                "a pickled object in the store has a buffer out of bounds");
            Py_CLEAR(buffers);
            break;
        }
        PyList_SET_ITEM(buffers, (Py_ssize_t)i, buffer);
    }
    if (buffers == NULL) return NULL;
    const char *bytes = (const char *)value->data + table;
    PyObject *array =
        count == 1 ? core_array_load(bytes, head->stream_size, PyList_GET_ITEM(buffers, 0)) : NULL;
    if (array != NULL) {
        Py_DECREF(buffers);
        return array;
    }
    PyObject *loaded = NULL,
             *stream = PyMemoryView_FromMemory((char *)value->data + table,
                                               (Py_ssize_t)head->stream_size, PyBUF_READ);
    if (stream != NULL) {
        PyObject *args[] = {stream, buffers};
        loaded = PyObject_Vectorcall(core.loads, args, 2, NULL);
        Py_DECREF(stream);
    }
    if (loaded != NULL && count == 1)
        core_array_learn(bytes, head->stream_size, PyList_GET_ITEM(buffers, 0), loaded);
    Py_DECREF(buffers);
    return loaded;
}

/* Whether it is bytes, and so many that others should go on while they are copied. */
static bool is_large_bytes(const mob_value_t *value) {
    return value->size > BIG_COPY && *(const uint8_t *)value->data == MOB_BYTES;
}

static PyObject *large_bytes_load(const mob_value_t *value) {
    uint64_t length;
    const uint8_t *data = (const uint8_t *)value->data + 9;
    memcpy(&length, data - 8, 8);
    if (length > value->size - 9) {
        PyErr_SetString(PyExc_ValueError, "bytes in the store are cut short");
        return NULL;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)length);
    if (bytes == NULL) return NULL;
    uint64_t began = core.incarnation;
    CORE_ALLOW_THREADS_BEGIN
    mob_value_copy(client, data, length, PyBytes_AS_STRING(bytes));
    CORE_ALLOW_THREADS_END
    if (core.incarnation == began) return bytes;
    Py_DECREF(bytes);
    return core_raise_ended();
}

static PyObject *value_load(mob_ref_t ref, const mob_value_t *value) {
    const uint8_t *at = value->data;
    if (value->error == MOB_OK && value->format == MOB_FORMAT_DIRECT)
        return is_large_bytes(value) ? large_bytes_load(value)
                                     : core_direct_read(&at, at + value->size);
    uint64_t began = core.incarnation;
    if (value->ref_count > 0) mob_value_adopt(core.client, ref, value);
    PyObject *loaded = value->error != MOB_OK ? core_raise_error(value) : pickled_load(ref, value);
    /* Python code ran: the session may be over, and `value` with it. */
    if (core.incarnation == began && value->ref_count > 0) mob_value_release(core.client, value);
    return loaded;
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

static int64_t now_ms(void) { return (int64_t)(base_clock_mono_ns() / 1000000); }

/* What remains of a time limit after a wait that began at start_ms was interrupted. */
static int64_t time_left(int64_t timeout_ms, int64_t start_ms) {
    if (timeout_ms < 0) return timeout_ms;
    int64_t passed = now_ms() - start_ms;
    return timeout_ms > passed ? timeout_ms - passed : 0;
}

/* In the loop of an async actor: no other call goes on meanwhile. Said once. */
static int warn_in_loop(const char *function) {
    static bool warned;
    if (warned || core.loop_thread == 0 || PyThread_get_thread_ident() != core.loop_thread)
        return 0;
    warned = true;
    return PyErr_WarnFormat(
        PyExc_RuntimeWarning, 1,
        "%s waits in a method of an async actor, and no other call of it can go on meanwhile: use "
        "await, as in `await ref`",
        function);
}

/* What mob_get_begin says now. */
static mob_status_t look_at(mob_ref_t ref) {
    mob_value_t value;
    mob_status_t status = mob_get_begin(core.client, ref, &value);
    if (status == MOB_OK) mob_get_end(core.client, ref, &value);
    return status;
}

static void raise_get_timeout(const mob_ref_t *refs, size_t count, int64_t timeout_ms) {
    size_t ready = 0, missing = count - 1;
    for (size_t i = count; i-- > 0;) {
        if (look_at(refs[i]) == MOB_ETIMEOUT)
            missing = i;
        else
            ready++;
    }
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%g", (double)timeout_ms / 1000);
    mob_ref_retain(core.client, refs[missing]);
    PyObject *ref = core_ref_new(refs[missing]);
    if (ref == NULL) return;
    raise_code(
        "get_timeout",
        PyUnicode_FromFormat("ray.get waited %s s: %zu of %zu objects are there, and %R is not; "
                             "what it waits for goes on",
                             seconds, ready, count, ref));
    Py_DECREF(ref);
}

/* Waits, with the interpreter's lock released, until all are there or one is an error. */
static int wait_all(const mob_ref_t *refs, size_t count, int64_t timeout_ms) {
    int64_t limit_ms = timeout_ms;
    uint64_t began = core.incarnation; /* the references are this session's */
    if (timeout_ms != 0 && warn_in_loop("ray.get") < 0) return -1;
    for (;;) {
        mob_status_t status;
        int64_t start = now_ms();
        if (core.incarnation != began) {
            core_raise_ended();
            return -1;
        }
        CORE_ALLOW_THREADS_BEGIN
        status = mob_get_wait(client, refs, count, timeout_ms);
        CORE_ALLOW_THREADS_END
        if (core.incarnation != began) {
            core_raise_ended();
            return -1;
        }
        if (status == MOB_OK) return 0;
        if (status == MOB_ETIMEOUT) {
            raise_get_timeout(refs, count, limit_ms);
            return -1;
        }
        if (status != MOB_EINTR) {
            core_raise(status);
            return -1;
        }
        if (PyErr_CheckSignals() < 0) return -1;
        timeout_ms = time_left(timeout_ms, start);
    }
}

/* mob_get_fetch until it is there: its time limit is the caller's. */
static mob_status_t value_fetch(const mob_ref_t *refs, size_t count, int64_t timeout_ms,
                                mob_value_t *ret_value) {
    mob_status_t status;
    uint64_t began = core.incarnation;
    do {
        int64_t start = now_ms();
        CORE_ALLOW_THREADS_BEGIN
        status = mob_get_fetch(client, refs, count, timeout_ms, ret_value);
        CORE_ALLOW_THREADS_END
        timeout_ms = time_left(timeout_ms, start);
    } while (status == MOB_EINTR && PyErr_CheckSignals() == 0 && core.incarnation == began);
    if (core.incarnation != began) {
        if (!PyErr_Occurred()) core_raise_ended();
        return MOB_ECLOSED;
    }
    return status;
}

mob_status_t core_value_open(const mob_ref_t *refs, size_t count, mob_value_t *ret_value) {
    mob_status_t status = mob_get_begin(core.client, refs[0], ret_value);
    if (status == MOB_EAWAY) status = value_fetch(refs, count, -1, ret_value);
    if (status != MOB_OK && !PyErr_Occurred()) core_raise(status);
    return status;
}

/* Loads what is open, and closes it. A pickle is read in place while Python code runs, and the
 * session may end meanwhile: the store stays mapped for as long, and what is small lies elsewhere,
 * so it is copied. */
PyObject *core_value_take(mob_ref_t ref, const mob_value_t *value) {
    uint64_t began = core.incarnation;
    mob_client_t *client = core.client;
    bool plain = value->error == MOB_OK && value->format == MOB_FORMAT_DIRECT;
    mob_value_t kept = *value;
    uint8_t small[MOB_SMALL];
    if (!plain) mob_view_hold(client);
    if (!plain && value->size <= sizeof small) {
        memcpy(small, value->data, value->size);
        kept.data = small;
    }
    PyObject *loaded = value_load(ref, &kept);
    if (core.incarnation == began) mob_get_end(client, ref, value);
    if (!plain) mob_view_release(client);
    return loaded;
}

static PyObject *get_one(PyObject *object, int64_t timeout_ms) {
    ref_object_t *ref = core_ref_of(object);
    if (ref == NULL) return NULL;
    mob_value_t value;
    mob_status_t status = mob_get_begin(core.client, ref->ref, &value);
    if (status == MOB_ETIMEOUT) {
        int64_t start = timeout_ms < 0 ? 0 : now_ms();
        if (wait_all(&ref->ref, 1, timeout_ms) < 0) return NULL;
        status = mob_get_begin(core.client, ref->ref, &value);
        timeout_ms = time_left(timeout_ms, start);
    }
    if (status == MOB_EAWAY) {
        status = value_fetch(&ref->ref, 1, timeout_ms, &value);
        if (PyErr_Occurred()) return NULL;
    }
    return status == MOB_OK ? core_value_take(ref->ref, &value) : core_raise(status);
}

static PyObject *not_a_ref(PyObject *kind, const char *function, PyObject *object) {
    PyErr_Format(kind, "%s takes an ObjectRef or a list of them, and got %s", function,
                 Py_TYPE(object)->tp_name);
    return NULL;
}

/* The refs of a list or tuple, in memory to be freed. Holding `sequence` holds them, but the list
 * may change: `*ret_held` keeps them. */
static mob_ref_t *refs_of(const char *function, PyObject *sequence, Py_ssize_t *ret_count,
                          PyObject **ret_held) {
    PyObject *held = PySequence_Tuple(sequence);
    if (held == NULL) return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(held);
    mob_ref_t *refs = PyMem_Malloc(((size_t)count + 1) * sizeof *refs);
    if (refs == NULL) PyErr_NoMemory();
    for (Py_ssize_t i = 0; refs != NULL && i < count; i++) {
        PyObject *item = PyTuple_GET_ITEM(held, i);
        ref_object_t *ref = core_ref_check(item) ? core_ref_of(item) : NULL;
        if (ref == NULL) {
            if (!PyErr_Occurred())
                PyErr_Format(PyExc_TypeError, "%s takes a list of ObjectRefs, and item %zd is %s",
                             function, i, Py_TYPE(item)->tp_name);
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

static PyObject *load_all(const mob_ref_t *refs, Py_ssize_t count, int64_t timeout_ms) {
    PyObject *list = PyList_New(count);
    mob_value_t value;
    uint64_t began = core.incarnation;
    int64_t start = now_ms();
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        if (core.incarnation != began) {
            core_raise_ended();
            Py_CLEAR(list);
            break;
        }
        mob_status_t status = mob_get_begin(core.client, refs[i], &value);
        /* Not there: then one of the others is an error, and that is the news. */
        if (status == MOB_ETIMEOUT) continue;
        if (status == MOB_EAWAY)
            status =
                value_fetch(&refs[i], (size_t)(count - i), time_left(timeout_ms, start), &value);
        PyObject *item = status == MOB_OK   ? core_value_take(refs[i], &value)
                         : PyErr_Occurred() ? NULL
                                            : core_raise(status);
        if (item == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, item);
    }
    return list;
}

PyObject *core_get(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    (void)module;
    static const char *const names[] = {"object_refs", "timeout", NULL};
    PyObject *found[2] = {NULL, NULL};
    int64_t timeout_ms = -1;
    if (nargs == 1 && kwnames == NULL) {
        found[0] = args[0];
    } else if (arguments_of("ray.get", args, nargs, kwnames, names, found) < 0 ||
               core_timeout(found[1], &timeout_ms) < 0) {
        return NULL;
    }
    PyObject *what = found[0];
    if (core_ref_check(what)) return get_one(what, timeout_ms);
    if (!PyList_Check(what) && !PyTuple_Check(what))
        return not_a_ref(PyExc_ValueError, "ray.get", what); /* as in Ray */
    /* A reference is of a session that there is, or was: it starts none. */
    if (PySequence_Fast_GET_SIZE(what) == 0 && !core_connected()) return NULL;
    Py_ssize_t count;
    PyObject *held, *list = NULL;
    mob_ref_t *refs = refs_of("ray.get", what, &count, &held);
    if (refs == NULL) return NULL;
    int64_t start = now_ms();
    if (wait_all(refs, (size_t)count, timeout_ms) == 0)
        list = load_all(refs, count, time_left(timeout_ms, start));
    PyMem_Free(refs);
    Py_DECREF(held);
    return list;
}

/* is_there(ref): True: get would not wait. False: the object is not made yet. None: it is on
 * disk. */
PyObject *core_is_there(PyObject *module, PyObject *object) {
    (void)module;
    if (!core_ref_check(object)) return not_a_ref(PyExc_TypeError, "is_there", object);
    ref_object_t *ref = core_ref_of(object);
    if (ref == NULL) return NULL;
    mob_status_t status = look_at(ref->ref);
    if (status == MOB_EAWAY) Py_RETURN_NONE;
    return PyBool_FromLong(status != MOB_ETIMEOUT);
}

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
    PyObject *held, *result = NULL;
    mob_ref_t *refs = refs_of("ray.wait", what, &count, &held);
    if (refs == NULL) return NULL;
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
               (timeout_ms == 0 || warn_in_loop("ray.wait") == 0)) {
        mob_status_t status;
        uint64_t began = core.incarnation;
        int signalled = 0;
        do {
            int64_t start = now_ms();
            CORE_ALLOW_THREADS_BEGIN
            status = mob_wait(client, refs, (size_t)count, (size_t)num_returns, timeout_ms, ready,
                              &ready_count);
            CORE_ALLOW_THREADS_END
            if (status == MOB_EINTR) signalled = PyErr_CheckSignals();
            timeout_ms = time_left(timeout_ms, start);
        } while (status == MOB_EINTR && signalled == 0 && core.incarnation == began);
        if (signalled == 0 && core.incarnation != began)
            core_raise_ended();
        else if (status == MOB_OK)
            result = split_ready(held, ready, count, ready_count);
        else if (!PyErr_Occurred())
            core_raise(status);
    }
    PyMem_Free(ready);
    PyMem_Free(refs);
    Py_DECREF(held);
    return result;
}

PyObject *core_wait(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    (void)module;
    static const char *const names[] = {"ray_waitables", "num_returns", "timeout", "fetch_local",
                                        NULL};
    PyObject *found[4] = {NULL, NULL, NULL, NULL};
    int64_t timeout_ms;
    if (arguments_of("ray.wait", args, nargs, kwnames, names, found) < 0 ||
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
