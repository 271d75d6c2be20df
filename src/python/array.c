/*
 * A shortcut for numpy arrays. Pickling and unpickling one costs twenty times what copying and
 * making it costs, because the pickle names its functions and describes its dtype anew each time.
 * Arrays with the same pickle stream differ only in their buffer. So this process learns shape,
 * dtype and order from the first that it unpickles, and makes the next with the same stream
 * directly. And the other way round: from the first that it pickles it learns the stream of all
 * that have the same dtype, shape and order.
 *
 * This holds for numpy's own way to pickle an array, with its memory as one buffer beside the
 * pickle. So every array is stored that way, small ones too.
 */
#include "python/core.h"

#include <string.h>

enum { HEAD = 11 }; /* protocol and packet, before the first opcode */
enum { MAX_TEMPLATES = 256, MAX_STREAM = 1024, MAX_DIMENSIONS = 16 };

static PyObject *templates; /* dict: stream to the arguments of ndarray: (shape, dtype, order) */
static PyObject *streams;   /* dict: key_of an array to (stream, dtype) */

/* Whether numpy itself made the pickle, of one array, or a function in C did (task/array.c), and
 * not a class or a reducer of the user. */
static bool is_numpys(const char *stream, uint64_t size) {
    static const char from_c[] = "\x80\x05"
                                 "cnumpy\nndarray\n";
    static const char *const begins[] = {
        "\x8c\x13numpy._core.numeric\x94\x8c\x0b_frombuffer\x94\x93",
        "\x8c\x12numpy.core.numeric\x94\x8c\x0b_frombuffer\x94\x93"}; /* since 2, before */
    if (size > MAX_STREAM || size < sizeof from_c) return false;
    if (memcmp(stream, from_c, sizeof from_c - 1) == 0) return true;
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(begins[i]);
        if (size > HEAD + length && memcmp(stream + HEAD, begins[i], length) == 0) return true;
    }
    return false;
}

/* Whether the dtype stays as it is: a program can change names of fields and metadata in place. */
static bool is_fixed(PyObject *dtype) {
    PyObject *names = PyObject_GetAttrString(dtype, "names"),
             *notes = PyObject_GetAttrString(dtype, "metadata");
    bool fixed = names == Py_None && notes == Py_None;
    Py_XDECREF(names);
    Py_XDECREF(notes);
    return fixed;
}

PyObject *core_array_load(const void *stream, uint64_t size, PyObject *buffer) {
    PyTypeObject *type = core_ndarray_type();
    if (templates == NULL || type == NULL || size > MAX_STREAM) return NULL;
    PyObject *key = PyBytes_FromStringAndSize(stream, (Py_ssize_t)size);
    PyObject *known = key ? PyDict_GetItemWithError(templates, key) : NULL, *zero = NULL,
             *array = NULL;
    if (known != NULL && (zero = PyLong_FromLong(0)) != NULL) {
        PyObject *args[] = {
            PyTuple_GET_ITEM(known, 0), PyTuple_GET_ITEM(known, 1), buffer, zero, Py_None,
            PyTuple_GET_ITEM(known, 2)};
        Py_INCREF(known); /* a finaliser that runs in the call may load other arrays, and empty the
                             dict */
        array = PyObject_Vectorcall((PyObject *)type, args, 6, NULL);
        Py_DECREF(known);
        Py_DECREF(zero);
    }
    Py_XDECREF(key);
    if (array == NULL) PyErr_Clear(); /* pickle will say what is wrong */
    return array;
}

/* Whether the array is exactly the buffer, and in which order ('C' or 'F'); 0 if not. */
static char order_of(PyObject *array, const Py_buffer *buffer) {
    Py_buffer view;
    if (PyObject_GetBuffer(array, &view, PyBUF_ANY_CONTIGUOUS | PyBUF_FORMAT) < 0) {
        PyErr_Clear();
        return 0;
    }
    char order = 0;
    if (view.buf == buffer->buf && view.len == buffer->len)
        order = PyBuffer_IsContiguous(&view, 'C') ? 'C' : 'F';
    PyBuffer_Release(&view);
    return order;
}

void core_array_learn(const void *stream, uint64_t size, PyObject *buffer, PyObject *array) {
    PyTypeObject *type = core_ndarray_type();
    Py_buffer view;
    if (type == NULL || Py_TYPE(array) != type || !is_numpys(stream, size)) return;
    if (templates == NULL && (templates = PyDict_New()) == NULL) PyErr_Clear();
    if (templates == NULL || PyObject_GetBuffer(buffer, &view, PyBUF_SIMPLE) < 0) {
        PyErr_Clear();
        return;
    }
    char order = order_of(array, &view);
    PyBuffer_Release(&view);
    if (order == 0) return;
    if (PyDict_GET_SIZE(templates) >= MAX_TEMPLATES) PyDict_Clear(templates);
    PyObject *key = PyBytes_FromStringAndSize(stream, (Py_ssize_t)size);
    PyObject *shape = PyObject_GetAttrString(array, "shape"),
             *dtype = PyObject_GetAttrString(array, "dtype");
    PyObject *known = shape && dtype && is_fixed(dtype)
                          ? Py_BuildValue("OOs", shape, dtype, order == 'C' ? "C" : "F")
                          : NULL;
    if (key != NULL && known != NULL) PyDict_SetItem(templates, key, known);
    Py_XDECREF(key);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    Py_XDECREF(known);
    PyErr_Clear();
}

bool core_array_check(PyObject *value) {
    PyTypeObject *type = core_ndarray_type();
    return type != NULL && Py_TYPE(value) == type;
}

/*
 * What the stream depends on, NEW: the dtype, the order, whether the array may be written, and the
 * shape. The dtype counts by its address, which the entry keeps alive: two equal dtypes may still
 * describe themselves differently. An array of one dimension is in both orders; numpy calls that C.
 */
static PyObject *key_of(PyObject *array, const Py_buffer *view, PyObject **ret_dtype) {
    uint64_t key[3 + MAX_DIMENSIONS] = {0};
    if (view->ndim > MAX_DIMENSIONS ||
        (*ret_dtype = PyObject_GetAttrString(array, "dtype")) == NULL)
        return NULL;
    key[0] = (uintptr_t)*ret_dtype;
    key[1] = PyBuffer_IsContiguous(view, 'C') != 0;
    key[2] = view->readonly != 0;
    for (int i = 0; i < view->ndim; i++) key[3 + i] = (uint64_t)view->shape[i];
    PyObject *made =
        PyBytes_FromStringAndSize((const char *)key, (Py_ssize_t)sizeof *key * (3 + view->ndim));
    if (made == NULL) Py_CLEAR(*ret_dtype);
    return made;
}

/* Whether the user has said how arrays are to be pickled. */
static bool has_reducer(PyObject *array) {
    static PyObject *reducers;
    if (reducers == NULL) {
        PyObject *copyreg = PyImport_ImportModule("copyreg");
        /* kept for good */
        reducers = copyreg != NULL ? PyObject_GetAttrString(copyreg, "dispatch_table") : NULL;
        Py_XDECREF(copyreg);
    }
    bool has = reducers == NULL || PyDict_Contains(reducers, (PyObject *)Py_TYPE(array)) != 0;
    PyErr_Clear();
    return has;
}

PyObject *core_array_stream(PyObject *array, Py_buffer *ret_view) {
    PyObject *dtype, *found = NULL;
    if (streams == NULL || has_reducer(array)) return NULL;
    if (PyObject_GetBuffer(array, ret_view, PyBUF_ANY_CONTIGUOUS) == 0) {
        PyObject *key = key_of(array, ret_view, &dtype);
        PyObject *entry = key != NULL ? PyDict_GetItemWithError(streams, key) : NULL;
        if (entry != NULL) found = Py_NewRef(PyTuple_GET_ITEM(entry, 0));
        if (key != NULL) Py_DECREF(dtype);
        Py_XDECREF(key);
        if (found == NULL) PyBuffer_Release(ret_view);
    }
    PyErr_Clear(); /* pickle will say what is wrong */
    return found;
}

void core_array_note(PyObject *array, PyObject *stream, const Py_buffer *buffer) {
    Py_buffer view;
    PyObject *dtype;
    if (!is_numpys(PyBytes_AS_STRING(stream), (uint64_t)PyBytes_GET_SIZE(stream))) return;
    if (streams == NULL && (streams = PyDict_New()) == NULL) PyErr_Clear();
    if (streams == NULL || PyObject_GetBuffer(array, &view, PyBUF_ANY_CONTIGUOUS) < 0) {
        PyErr_Clear();
        return;
    }
    PyObject *key =
        view.buf == buffer->buf && view.len == buffer->len ? key_of(array, &view, &dtype) : NULL;
    if (key != NULL) {
        PyObject *entry = is_fixed(dtype) ? PyTuple_Pack(2, stream, dtype) : NULL;
        if (entry != NULL && PyDict_GET_SIZE(streams) >= MAX_TEMPLATES) PyDict_Clear(streams);
        if (entry != NULL) PyDict_SetItem(streams, key, entry);
        Py_XDECREF(entry);
        Py_DECREF(dtype);
        Py_DECREF(key);
    }
    PyBuffer_Release(&view);
    PyErr_Clear();
}
