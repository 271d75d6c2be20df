/*
 * Values out of the store. A pickled value is read in place. Each buffer that Python gets is a Pin
 * that keeps the object alive; small ones are copied.
 */
#include "python/core.h"

#include <string.h>

enum { BIG_COPY = 1 << 20, PIN_FROM = 4096 };

/* A small buffer is copied: a program that keeps a million small arrays keeps nothing in the
 * store. */
static PyObject *buffer_open(mob_ref_t ref, const char *data, Py_ssize_t size) {
    return size < PIN_FROM ? PyBytes_FromStringAndSize(data, size) : core_pin_new(ref, data, size);
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

/* Whether the value is bytes, and so many that other threads should go on while this one copies
 * them. */
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
    uint64_t began = core.stamp;
    CORE_ALLOW_THREADS_BEGIN
    mob_value_copy(client, data, length, PyBytes_AS_STRING(bytes));
    CORE_ALLOW_THREADS_END
    if (core.stamp == began) return bytes;
    Py_DECREF(bytes);
    return core_raise_ended();
}

static PyObject *value_load(mob_ref_t ref, const mob_value_t *value) {
    const uint8_t *at = value->data;
    if (value->error == MOB_OK && value->format == MOB_FORMAT_DIRECT)
        return is_large_bytes(value) ? large_bytes_load(value)
                                     : core_direct_read(&at, at + value->size);
    uint64_t began = core.stamp;
    if (value->ref_count > 0) mob_value_adopt(core.client, ref, value);
    PyObject *loaded = value->error != MOB_OK ? core_raise_error(value) : pickled_load(ref, value);
    /* Python code ran: the session may be over, and `value` with it. */
    if (core.stamp == began && value->ref_count > 0) mob_value_release(core.client, value);
    return loaded;
}

static void raise_get_timeout(const mob_ref_t *refs, size_t count, int64_t timeout_ms) {
    size_t ready = 0, missing = count - 1;
    for (size_t i = count; i-- > 0;) {
        if (mob_get_look(core.client, refs[i]) == MOB_ETIMEOUT)
            missing = i;
        else
            ready++;
    }
    char seconds[32];
    snprintf(seconds, sizeof seconds, "%g", (double)timeout_ms / 1000);
    mob_ref_retain(core.client, refs[missing]);
    PyObject *ref = core_ref_new(refs[missing]);
    if (ref == NULL) return;
    core_raise_code(
        "get_timeout",
        PyUnicode_FromFormat("ray.get waited %s s: %zu of %zu objects are there, and %R is not; "
                             "what it waits for goes on",
                             seconds, ready, count, ref));
    Py_DECREF(ref);
}

/* Waits, with the interpreter's lock released, until all are there or one is an error. */
static int wait_all(const mob_ref_t *refs, size_t count, int64_t timeout_ms) {
    int64_t limit_ms = timeout_ms;
    uint64_t began = core.stamp; /* the references are this session's */
    if (timeout_ms != 0 && core_warn_in_loop("ray.get") < 0) return -1;
    for (;;) {
        mob_status_t status;
        int64_t start = core_now_ms();
        if (core.stamp != began) {
            core_raise_ended();
            return -1;
        }
        CORE_ALLOW_THREADS_BEGIN
        status = mob_get_wait(client, refs, count, timeout_ms);
        CORE_ALLOW_THREADS_END
        if (core.stamp != began) {
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
        timeout_ms = core_time_left(timeout_ms, start);
    }
}

/* mob_get_fetch until the object is there, within the caller's time limit. */
static mob_status_t value_fetch(const mob_ref_t *refs, size_t count, int64_t timeout_ms,
                                mob_value_t *ret_value) {
    mob_status_t status;
    uint64_t began = core.stamp;
    do {
        int64_t start = core_now_ms();
        CORE_ALLOW_THREADS_BEGIN
        status = mob_get_fetch(client, refs, count, timeout_ms, ret_value);
        CORE_ALLOW_THREADS_END
        timeout_ms = core_time_left(timeout_ms, start);
    } while (status == MOB_EINTR && PyErr_CheckSignals() == 0 && core.stamp == began);
    if (core.stamp != began) {
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

/* Loads what is open, and closes it. A pickle is read in place while Python code runs, and that
 * code may end the session. So the store stays mapped for as long. A small value lies in its slot,
 * which does not stay, so it is copied. */
PyObject *core_value_take(mob_ref_t ref, const mob_value_t *value) {
    uint64_t began = core.stamp;
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
    if (core.stamp == began) mob_get_end(client, ref, value);
    if (!plain) mob_view_release(client);
    return loaded;
}

static PyObject *get_one(PyObject *object, int64_t timeout_ms) {
    ref_object_t *ref = core_ref_of(object);
    if (ref == NULL) return NULL;
    mob_value_t value;
    mob_status_t status = mob_get_begin(core.client, ref->ref, &value);
    if (status == MOB_ETIMEOUT) {
        int64_t start = timeout_ms < 0 ? 0 : core_now_ms();
        if (wait_all(&ref->ref, 1, timeout_ms) < 0) return NULL;
        status = mob_get_begin(core.client, ref->ref, &value);
        timeout_ms = core_time_left(timeout_ms, start);
    }
    if (status == MOB_EAWAY) {
        status = value_fetch(&ref->ref, 1, timeout_ms, &value);
        if (PyErr_Occurred()) return NULL;
    }
    return status == MOB_OK ? core_value_take(ref->ref, &value) : core_raise(status);
}

static PyObject *load_all(const mob_ref_t *refs, Py_ssize_t count, int64_t timeout_ms) {
    PyObject *list = PyList_New(count);
    mob_value_t value;
    uint64_t began = core.stamp;
    int64_t start = core_now_ms();
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        if (core.stamp != began) {
            core_raise_ended();
            Py_CLEAR(list);
            break;
        }
        mob_status_t status = mob_get_begin(core.client, refs[i], &value);
        /* Not there: then the wait ended because another one is an error, which is raised
         * instead. */
        if (status == MOB_ETIMEOUT) continue;
        if (status == MOB_EAWAY)
            status = value_fetch(&refs[i], (size_t)(count - i), core_time_left(timeout_ms, start),
                                 &value);
        PyObject *item = status == MOB_OK   ? core_value_take(refs[i], &value)
                         : PyErr_Occurred() ? NULL
                                            : core_raise(status);
        if (item == NULL) {
            /* The caller asked for all of them and is told of this error: the daemon need not tell
             * of the others. */
            if (core.stamp == began && status == MOB_OK && value.error != MOB_OK)
                mob_get_see(core.client, refs, (size_t)count);
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, i, item);
        }
    }
    return list;
}

static PyObject *get(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    static const char *const names[] = {"object_refs", "timeout", NULL};
    PyObject *found[2] = {NULL, NULL};
    int64_t timeout_ms = -1;
    if (core.local != NULL) return core_local_call("get", args, nargs, kwnames);
    if (nargs == 1 && kwnames == NULL) {
        found[0] = args[0];
    } else if (core_arguments_of("ray.get", args, nargs, kwnames, names, found) < 0 ||
               core_timeout(found[1], &timeout_ms) < 0) {
        return NULL;
    }
    PyObject *what = found[0];
    if (core_ref_check(what)) return get_one(what, timeout_ms);
    if (!PyList_Check(what) && !PyTuple_Check(what))
        return core_raise_not_a_ref(PyExc_ValueError, "ray.get", what); /* as in Ray */
    /* A list with references starts no session: they are of one that is there, or was. */
    if (PySequence_Fast_GET_SIZE(what) == 0 && !core_connected()) return NULL;
    Py_ssize_t count;
    PyObject *held, *list = NULL;
    mob_ref_t *refs = core_refs_of("ray.get", what, &count, &held);
    if (refs == NULL) return NULL;
    int64_t start = core_now_ms();
    if (wait_all(refs, (size_t)count, timeout_ms) == 0)
        list = load_all(refs, count, core_time_left(timeout_ms, start));
    PyMem_Free(refs);
    Py_DECREF(held);
    return list;
}

PyObject *core_get(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames) {
    (void)module;
    PyObject *result = get(args, nargs, kwnames);
    if (result == NULL && nargs > 0) core_interrupt_note(args[0]);
    return result;
}

/* maker(ref): the id of the task that makes it; None: it is there. */
PyObject *core_maker(PyObject *module, PyObject *object) {
    (void)module;
    if (!core_ref_check(object)) return core_raise_not_a_ref(PyExc_TypeError, "maker", object);
    if (((ref_object_t *)object)->local != NULL) Py_RETURN_NONE;
    ref_object_t *ref = core_ref_of(object);
    mob_run_t run = {0};
    if (ref == NULL) return NULL;
    if (!mob_ref_maker(core.client, ref->ref, &run.task_id)) Py_RETURN_NONE;
    return core_task_id_text(&run);
}

/* is_there(ref): True: get would not wait. False: the object is not made yet. None: it is on
 * disk. */
PyObject *core_is_there(PyObject *module, PyObject *object) {
    (void)module;
    if (!core_ref_check(object)) return core_raise_not_a_ref(PyExc_TypeError, "is_there", object);
    ref_object_t *ref = core_ref_of(object);
    if (ref == NULL) return NULL;
    mob_status_t status = mob_get_look(core.client, ref->ref);
    if (status == MOB_EAWAY) Py_RETURN_NONE;
    return PyBool_FromLong(status != MOB_ETIMEOUT);
}
