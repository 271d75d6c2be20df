/*
 * The direct encoding of mobula.h for Python values: None, bool, int, float, str, bytes and short
 * tuples of these, of exactly these types (a subclass has more to it and is pickled).
 */
#include "python/core.h"

#include <string.h>

enum { MAX_TUPLE = 16, MAX_DEPTH = 4, MAX_PLAIN = 100000 };

static Py_ssize_t size_of(PyObject *v, int depth) {
    PyTypeObject *type = Py_TYPE(v);
    if (v == Py_None || type == &PyBool_Type) return 1;
    if (type == &PyFloat_Type) return 9;
    if (type == &PyLong_Type) {
        int overflow;
        PyLong_AsLongLongAndOverflow(v, &overflow);
        return overflow ? -1 : 9;
    }
    if (type == &PyBytes_Type) return 9 + PyBytes_GET_SIZE(v);
    if (type == &PyUnicode_Type) {
        Py_ssize_t size;
        if (PyUnicode_AsUTF8AndSize(v, &size) != NULL) return 9 + size;
        PyErr_Clear(); /* lone surrogates: pickle knows how */
        return -1;
    }
    if (type != &PyTuple_Type || PyTuple_GET_SIZE(v) > MAX_TUPLE || depth == MAX_DEPTH) return -1;
    Py_ssize_t total = 5;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(v); i++) {
        Py_ssize_t size = size_of(PyTuple_GET_ITEM(v, i), depth + 1);
        if (size < 0) return -1;
        total += size;
    }
    return total;
}

Py_ssize_t core_direct_size(PyObject *value) { return size_of(value, 0); }

static uint8_t *write_sized(uint8_t *at, uint8_t tag, const void *from, Py_ssize_t size) {
    uint64_t length = (uint64_t)size;
    *at = tag;
    memcpy(at + 1, &length, 8);
    memcpy(at + 9, from, (size_t)size);
    return at + 9 + size;
}

uint8_t *core_direct_write(PyObject *v, uint8_t *at) {
    PyTypeObject *type = Py_TYPE(v);
    if (v == Py_None || type == &PyBool_Type) {
        *at = v == Py_None ? MOB_NONE : v == Py_True ? MOB_TRUE : MOB_FALSE;
        return at + 1;
    }
    if (type == &PyFloat_Type) {
        double d = PyFloat_AS_DOUBLE(v);
        *at = MOB_FLOAT;
        memcpy(at + 1, &d, 8);
        return at + 9;
    }
    if (type == &PyLong_Type) {
        int64_t i = PyLong_AsLongLong(v);
        *at = MOB_INT;
        memcpy(at + 1, &i, 8);
        return at + 9;
    }
    if (type == &PyBytes_Type)
        return write_sized(at, MOB_BYTES, PyBytes_AS_STRING(v), PyBytes_GET_SIZE(v));
    if (type == &PyUnicode_Type) {
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(v, &size); /* cached by core_direct_size */
        return write_sized(at, MOB_STR, text, size);
    }
    uint32_t count = (uint32_t)PyTuple_GET_SIZE(v);
    *at = MOB_TUPLE;
    memcpy(at + 1, &count, 4);
    at += 5;
    for (uint32_t i = 0; i < count; i++) at = core_direct_write(PyTuple_GET_ITEM(v, i), at);
    return at;
}

static PyObject *malformed(void) {
    PyErr_SetString(PyExc_ValueError,
                    "a value in the direct encoding is cut short or has an unknown tag");
    return NULL;
}

PyObject *core_direct_read(const uint8_t **at, const uint8_t *end) {
    if (*at >= end) return malformed();
    uint8_t tag = *(*at)++;
    size_t left = (size_t)(end - *at);
    uint64_t length;
    switch (tag) {
    case MOB_NONE:
        Py_RETURN_NONE;
    case MOB_FALSE:
        Py_RETURN_FALSE;
    case MOB_TRUE:
        Py_RETURN_TRUE;
    case MOB_INT: {
        int64_t i;
        if (left < 8) return malformed();
        memcpy(&i, *at, 8);
        *at += 8;
        return PyLong_FromLongLong(i);
    }
    case MOB_FLOAT: {
        double d;
        if (left < 8) return malformed();
        memcpy(&d, *at, 8);
        *at += 8;
        return PyFloat_FromDouble(d);
    }
    case MOB_STR:
    case MOB_BYTES: {
        if (left < 8) return malformed();
        memcpy(&length, *at, 8);
        if (length > left - 8) return malformed();
        const char *data = (const char *)*at + 8;
        *at += 8 + length;
        return tag == MOB_STR ? PyUnicode_DecodeUTF8(data, (Py_ssize_t)length, NULL)
                              : PyBytes_FromStringAndSize(data, (Py_ssize_t)length);
    }
    case MOB_TUPLE: {
        uint32_t count;
        if (left < 4) return malformed();
        memcpy(&count, *at, 4);
        *at += 4;
        if (count > left) return malformed(); /* each value has a byte at least */
        /* C may write any depth */
        if (Py_EnterRecursiveCall(" in a value in the direct encoding")) return NULL;
        PyObject *tuple = PyTuple_New(count);
        for (uint32_t i = 0; tuple != NULL && i < count; i++) {
            PyObject *item = core_direct_read(at, end);
            if (item == NULL) {
                Py_CLEAR(tuple);
                break;
            }
            PyTuple_SET_ITEM(tuple, i, item);
        }
        Py_LeaveRecursiveCall();
        return tuple;
    }
    default:
        return malformed();
    }
}

PyTypeObject *core_ndarray_type(void) {
    static PyTypeObject *type;
    if (type != NULL) return type;
    PyObject *modules = PyImport_GetModuleDict(), *numpy = PyDict_GetItemString(modules, "numpy");
    PyObject *found = numpy ? PyObject_GetAttrString(numpy, "ndarray") : NULL;
    PyErr_Clear();
    if (found != NULL && PyType_Check(found)) type = (PyTypeObject *)found; /* kept for good */
    return type;
}

/* Whether numpy pickles the array's memory as a buffer. It does not do that with objects, nor with
 * times, which have a reducer of ours (ray._private.reducers). */
static bool plain_array(PyObject *v) {
    PyObject *dtype = PyObject_GetAttrString(v, "dtype"),
             *has = dtype ? PyObject_GetAttrString(dtype, "hasobject") : NULL,
             *kind = dtype ? PyObject_GetAttrString(dtype, "char") : NULL;
    bool plain = has == Py_False && kind != NULL && PyUnicode_Check(kind) &&
                 PyUnicode_CompareWithASCIIString(kind, "M") != 0 &&
                 PyUnicode_CompareWithASCIIString(kind, "m") != 0;
    Py_XDECREF(dtype);
    Py_XDECREF(has);
    Py_XDECREF(kind);
    PyErr_Clear();
    return plain;
}

static bool plain(PyObject *v, int depth, int *budget) {
    PyTypeObject *type = Py_TYPE(v);
    if (--*budget < 0) return false;
    if (v == Py_None || type == &PyLong_Type || type == &PyFloat_Type || type == &PyUnicode_Type ||
        type == &PyBool_Type || type == &PyBytes_Type || type == &PyByteArray_Type ||
        type == &PyComplex_Type || core_ref_check(v))
        return true;
    if (depth == 32) return false;
    if (type == &PyList_Type || type == &PyTuple_Type) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(v); i++)
            if (!plain(PySequence_Fast_GET_ITEM(v, i), depth + 1, budget)) return false;
        return true;
    }
    if (type == &PyDict_Type) {
        PyObject *key, *value;
        Py_ssize_t at = 0;
        while (PyDict_Next(v, &at, &key, &value))
            if (!plain(key, depth + 1, budget) || !plain(value, depth + 1, budget)) return false;
        return true;
    }
    return type == core_ndarray_type() && plain_array(v);
}

/* Whether plain pickle does the same as cloudpickle would: nothing in the value has a class or a
 * function of the user. */
bool core_is_plain(PyObject *value) {
    int budget = MAX_PLAIN;
    return plain(value, 0, &budget);
}
