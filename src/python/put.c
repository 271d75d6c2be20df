/*
 * Values into the store. A pickled value is written straight into shared memory, its large buffers
 * copied once, without the interpreter's lock.
 *
 * A value that has no buffer to copy from, an image say, whose library hands its pixels out piece
 * by piece, gives a writer instead: an object with a size, `nbytes`, and a method `write`, which
 * gets that much of the new object as a memoryview. Rejected: to gather the pieces first. Fresh
 * memory of tens of megabytes costs several times what copying costs.
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

/* MOB_OK: it is time to try again. Else with an exception: MOB_EINTR if it is Python's own. */
static mob_status_t space_await(void) {
    mob_status_t status;
    uint64_t began = core.stamp;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_space_wait(client);
    CORE_ALLOW_THREADS_END
    if (PyErr_CheckSignals() < 0) {
        if (core.stamp == began) mob_space_forget(core.client);
        return MOB_EINTR;
    }
    if (core.stamp != began) { /* another thread or a signal handler ended the session */
        core_raise_ended();
        return MOB_EINTR;
    }
    if (status == MOB_OK || status == MOB_EINTR) return MOB_OK;
    core_raise(status);
    return status;
}

int core_space_wait(void) { return space_await() == MOB_OK ? 0 : -1; }

/* -1 with an exception. */
static int target_begin(core_target_t *t, uint64_t size, uint32_t ref_count, mob_buffer_t *buffer) {
    mob_status_t status;
    do {
        status = t->item ? mob_run_item_begin(core.client, t->run, size, ref_count, buffer)
                 : t->run
                     ? mob_run_result_begin(core.client, t->run, t->index, size, ref_count, buffer)
                     : mob_put_begin(core.client, size, ref_count, buffer);
        if (status == MOB_OK) return 0;
        bool waits = status == MOB_ESPACE;
        t->failed = waits ? space_await() : status;
        if (!waits && status != MOB_EOVER) core_raise(status);
    } while (t->failed == MOB_OK);
    t->over = status == MOB_EOVER;
    return -1;
}

static void target_commit(core_target_t *t, mob_buffer_t *buffer, mob_format_t format,
                          mob_status_t error, const mob_ref_t *refs) {
    if (t->item)
        mob_run_item_commit(core.client, t->run, buffer, format, error, refs);
    else if (t->run)
        mob_run_result_commit(core.client, t->run, t->index, buffer, format, error, refs);
    else if (error != MOB_OK)
        mob_put_error(core.client, buffer, error, refs, &t->ref);
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

/* A buffer of a pickle: memory to copy, or a writer. */
typedef struct {
    PyObject *writer; /* BORROWED; NULL: the view has the memory */
    Py_buffer view;   /* of a writer only its len counts */
} piece_t;

/* -1 with an exception. */
static int piece_open(PyObject *item, piece_t *piece) {
    if (PyObject_CheckBuffer(item)) {
        piece->writer = NULL;
        return PyObject_GetBuffer(item, &piece->view, PyBUF_ANY_CONTIGUOUS);
    }
    PyObject *size = PyObject_GetAttrString(item, "nbytes");
    piece->writer = item;
    piece->view.len = size != NULL ? PyLong_AsSsize_t(size) : -1;
    Py_XDECREF(size);
    if (piece->view.len >= 0) return 0;
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a writer's nbytes is negative");
    return -1;
}

static void piece_close(piece_t *piece) {
    if (piece->writer == NULL) PyBuffer_Release(&piece->view);
}

/* Maps the pages that a large writer is going to write, all in one go: that is faster than one by
 * one. -1 with an exception: the session is over. */
static int pieces_map(const piece_t *pieces, uint32_t count, mob_buffer_t *buffer) {
    uint32_t large = 0;
    while (large < count && (pieces[large].writer == NULL || pieces[large].view.len < BIG_COPY))
        large++;
    if (large == count) return 0;
    uint64_t began = core.stamp;
    CORE_ALLOW_THREADS_BEGIN
    mob_buffer_map(client, buffer);
    CORE_ALLOW_THREADS_END
    if (core.stamp == began) return 0;
    core_raise_ended();
    return -1;
}

/* -1 with an exception: the writer's, or that the session is over. The store stays mapped while
 * Python code runs, whatever that code does. */
static int writer_ask(PyObject *writer, mob_buffer_t *buffer, uint64_t offset, Py_ssize_t size) {
    uint64_t began = core.stamp;
    mob_client_t *held = core.client;
    mob_view_hold(held);
    PyObject *view = PyMemoryView_FromMemory((char *)buffer->data + offset, size, PyBUF_WRITE);
    PyObject *done = view ? PyObject_CallMethod(writer, "write", "O", view) : NULL;
    /* Nothing may be written once the object is sealed. This fails if a part of the view is kept.
     */
    PyObject *ended = done ? PyObject_CallMethod(view, "release", NULL) : NULL;
    Py_XDECREF(view);
    Py_XDECREF(done);
    Py_XDECREF(ended);
    mob_view_release(held);
    if (core.stamp == began) return ended != NULL ? 0 : -1;
    PyErr_Clear();
    core_raise_ended();
    return -1;
}

static int piece_write(const piece_t *piece, mob_buffer_t *buffer, uint64_t offset) {
    return piece->writer != NULL
               ? writer_ask(piece->writer, buffer, offset, piece->view.len)
               : copy_in(buffer, offset, piece->view.buf, (size_t)piece->view.len);
}

/* Gives up a buffer that could not be written. A run's result is committed as it is: the error that
 * the caller stores takes its place. */
static void target_abandon(core_target_t *t, mob_buffer_t *buffer, const mob_ref_t *refs) {
    if (t->run)
        target_commit(t, buffer, MOB_FORMAT_PICKLE, MOB_OK, refs);
    else
        mob_put_abort(core.client, buffer);
}

static int pickled_store(PyObject *stream, const piece_t *pieces, uint32_t count,
                         const collector_t *collector, core_target_t *target) {
    uint64_t table = sizeof(mob_pickle_t) + count * 16u,
             stream_size = (uint64_t)PyBytes_GET_SIZE(stream), size = table + stream_size;
    for (uint32_t i = 0; i < count; i++)
        size = ((size + 63) & ~(uint64_t)63) + (uint64_t)pieces[i].view.len;
    mob_buffer_t buffer;
    uint64_t began = core.stamp;
    if (target_begin(target, size, (uint32_t)collector->refs.count, &buffer) < 0) return -1;
    if (core.stamp != began) {
        core_raise_ended(); /* the session ended while this thread waited for space */
        return -1;
    }
    if (pieces_map(pieces, count, &buffer) < 0) return -1;
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
        head->buffers[i].size = (uint64_t)pieces[i].view.len;
        if (piece_write(&pieces[i], &buffer, at) < 0) {
            if (core.stamp == began) target_abandon(target, &buffer, collector->refs.items);
            return -1;
        }
        at += (uint64_t)pieces[i].view.len;
    }
    target_commit(target, &buffer, MOB_FORMAT_PICKLE, MOB_OK, collector->refs.items);
    return 0;
}

/* An array of a kind that was pickled before. */
static int array_store(PyObject *stream, Py_buffer *view, core_target_t *target) {
    static const collector_t no_references;
    piece_t piece = {.view = *view};
    int result = pickled_store(stream, &piece, 1, &no_references, target);
    PyBuffer_Release(view);
    Py_DECREF(stream);
    return result;
}

int core_pickled_store(PyObject *value, PyObject *made, const collector_t *collector,
                       uint64_t began, core_target_t *target) {
    PyObject *list = PyTuple_GET_ITEM(made, 1);
    int result = -1;
    Py_ssize_t count = PyList_GET_SIZE(list), got = 0;
    piece_t *pieces = PyMem_Calloc((size_t)count + 1, sizeof *pieces);
    while (pieces != NULL && got < count &&
           piece_open(PyList_GET_ITEM(list, got), &pieces[got]) == 0)
        got++;
    if (pieces != NULL && got == count && count == 1 && core_array_check(value))
        core_array_note(value, PyTuple_GET_ITEM(made, 0), &pieces[0].view);
    if (pieces == NULL)
        PyErr_NoMemory();
    else if (got == count && core.stamp != began)
        core_raise_ended(); /* the session ended while Python code ran */
    else if (got == count)
        result =
            pickled_store(PyTuple_GET_ITEM(made, 0), pieces, (uint32_t)count, collector, target);
    while (got > 0) piece_close(&pieces[--got]);
    PyMem_Free(pieces);
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
    if (core.local != NULL) return core_local_call("put", &value, 1, NULL);
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
