/* What a status or a failed value of the client is in Python: an exception. */
#include "python/core.h"

PyObject *core_raise_code(const char *code, PyObject *payload) {
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
    return core_raise_code(mob_status_name(status),
                           PyUnicode_FromString(*text ? text : mob_status_text(status)));
}

PyObject *core_raise_ended(void) {
    if (core_exit_raises()) return NULL;
    return core_raise_code("system",
                           PyUnicode_FromString("the session ended while this call was in it"));
}

PyObject *core_raise_error(const mob_value_t *value) {
    const uint8_t *at = value->data;
    return core_raise_code(mob_status_name(value->error), core_direct_read(&at, at + value->size));
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
