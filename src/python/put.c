/*
 * Values into the store. A pickled value is written straight into shared memory, its large buffers
 * copied once, without the interpreter's lock.
 */
#include "python/core.h"

#include <string.h>

enum { BIG_COPY = 1 << 20 };

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
    uint64_t began = core.stamp;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_space_wait(client);
    CORE_ALLOW_THREADS_END
    if (PyErr_CheckSignals() < 0) {
        if (core.stamp == began) mob_space_forget(core.client);
        return -1;
    }
    if (core.stamp != began) { /* another thread or a signal handler ended the session */
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
    uint64_t began = core.stamp;
    CORE_ALLOW_THREADS_BEGIN
    mob_buffer_write(client, buffer, offset, from, size);
    CORE_ALLOW_THREADS_END
    if (core.stamp == began) return 0;
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
    uint64_t began = core.stamp;
    if (target_begin(target, size, (uint32_t)collector->refs.count, &buffer) < 0) return -1;
    if (core.stamp != began) {
        core_raise_ended(); /* the session ended while this thread waited for space */
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
    else if (got == count && core.stamp != began)
        core_raise_ended(); /* the session ended while Python code ran */
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
    uint64_t began = core.stamp;
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
    mob_buffer_t buffer;
    uint64_t length = size;
    if (target_begin(target, 9 + size, 0, &buffer) < 0) return -1;
    uint8_t *at = buffer.data;
    *at = as_str ? MOB_STR : MOB_BYTES;
    memcpy(at + 1, &length, 8);
    if (copy_in(&buffer, 9, data, size) < 0) return -1;
    target_commit(target, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
    return 0;
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

int core_error_store(const void *data, size_t size, mob_status_t error, const mob_ref_t *refs,
                     uint32_t ref_count, core_target_t *target) {
    mob_buffer_t buffer;
    if (target_begin(target, size, ref_count, &buffer) < 0) return -1;
    if (copy_in(&buffer, 0, data, size) < 0) return -1;
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
    return core_arguments_of("ray.put", args, nargs, kwnames, names, &value) == 0 ? put(value)
                                                                                  : NULL;
}
