/*
 * A shortcut for numpy arrays. Unpickling one costs twenty times what making it costs, because the pickle names its functions and describes its dtype
 * anew each time. Arrays with the same pickle stream differ only in their buffer: so the first one that is unpickled teaches us shape, dtype and order, and the
 * next with the same stream is made directly.
 */
#include "python/core.h"

enum { MAX_TEMPLATES = 256, MAX_STREAM = 1024 };

static PyObject *templates; /* dict: stream to the arguments of ndarray: (shape, dtype, order) */

PyObject *core_array_load(const void *stream, uint64_t size, PyObject *buffer) {
    PyTypeObject *type = core_ndarray_type();
    if (templates == NULL || type == NULL || size > MAX_STREAM) return NULL;
    PyObject *key = PyBytes_FromStringAndSize(stream, (Py_ssize_t)size);
    PyObject *known = key ? PyDict_GetItemWithError(templates, key) : NULL, *zero = NULL, *array = NULL;
    if (known != NULL && (zero = PyLong_FromLong(0)) != NULL) {
        PyObject *args[] = {PyTuple_GET_ITEM(known, 0), PyTuple_GET_ITEM(known, 1), buffer, zero, Py_None,
                            PyTuple_GET_ITEM(known, 2)};
        array = PyObject_Vectorcall((PyObject *)type, args, 6, NULL);
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
    if (view.buf == buffer->buf && view.len == buffer->len) order = PyBuffer_IsContiguous(&view, 'C') ? 'C' : 'F';
    PyBuffer_Release(&view);
    return order;
}

void core_array_learn(const void *stream, uint64_t size, PyObject *buffer, PyObject *array) {
    PyTypeObject *type = core_ndarray_type();
    Py_buffer view;
    if (type == NULL || Py_TYPE(array) != type || size > MAX_STREAM) return;
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
    PyObject *shape = PyObject_GetAttrString(array, "shape"), *dtype = PyObject_GetAttrString(array, "dtype");
    PyObject *known = shape && dtype ? Py_BuildValue("OOs", shape, dtype, order == 'C' ? "C" : "F") : NULL;
    if (key != NULL && known != NULL) PyDict_SetItem(templates, key, known);
    Py_XDECREF(key);
    Py_XDECREF(shape);
    Py_XDECREF(dtype);
    Py_XDECREF(known);
    PyErr_Clear();
}
