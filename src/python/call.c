/* What a run calls, and with what: its function or method, and its arguments as Python objects. */
#include "python/core.h"

#include <string.h>
#include <unistd.h>

/* dict: a function's id to (callable, its ObjectRef). While this worker holds the reference, the
 * daemon tells it when no other process needs the function any more. */
static PyObject *functions;

static PyObject *function_key(mob_ref_t ref) {
    return PyLong_FromUnsignedLongLong((unsigned long long)ref.generation << 24 | ref.slot);
}

PyObject *core_run_function(const mob_run_t *run) {
    if (functions == NULL && (functions = PyDict_New()) == NULL) return NULL;
    PyObject *key = function_key(run->function);
    if (key == NULL) return NULL;
    PyObject *found = PyDict_GetItemWithError(functions, key);
    mob_value_t value;
    if (found == NULL && !PyErr_Occurred()) {
        PyObject *definition = NULL, *ref = NULL;
        if (core_value_open(&run->function, 1, &value) == MOB_OK)
            definition = core_value_take(run->function, &value);
        if (definition != NULL) {
            mob_ref_retain(core.client, run->function);
            ref = core_ref_new(run->function);
        }
        PyObject *loaded =
            ref != NULL ? PyObject_CallFunctionObjArgs(core.load_function, definition, ref, NULL)
                        : NULL;
        PyObject *entry = loaded != NULL ? PyTuple_Pack(2, loaded, ref) : NULL;
        if (entry != NULL && PyDict_SetItem(functions, key, entry) == 0) found = entry;
        Py_XDECREF(entry);
        Py_XDECREF(loaded);
        Py_XDECREF(ref);
        Py_XDECREF(definition);
    }
    Py_DECREF(key);
    return found != NULL ? PyTuple_GET_ITEM(found, 0) : NULL;
}

/* What a run calls, NEW. */
PyObject *core_run_callable(const mob_run_t *run) {
    if (run->kind != MOB_ACTOR_CALL) return Py_XNewRef(core_run_function(run));
    if (core.actor == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this worker has no actor");
        return NULL;
    }
    PyObject *name = PyUnicode_FromStringAndSize(run->method, (Py_ssize_t)run->method_size);
    if (name == NULL) return NULL;
    PyUnicode_InternInPlace(&name);
    PyObject *method = PyObject_GetAttr(core.actor, name);
    Py_DECREF(name);
    return method;
}

void core_function_forget(const mob_run_t *run) {
    PyObject *key = function_key(run->function);
    if (key == NULL || functions == NULL || PyDict_DelItem(functions, key) < 0)
        PyErr_Clear(); /* this worker has never loaded it */
    Py_XDECREF(key);
}

void core_functions_drop(void) { Py_CLEAR(functions); }

/* ---- arguments ---- */

static PyObject *dep_load(const mob_run_t *run, uint32_t index, core_call_t *call) {
    mob_value_t value;
    if (index >= run->dep_count) {
        PyErr_SetString(PyExc_ValueError, "a call names an argument that it does not have");
        return NULL;
    }
    call->status = core_value_open(run->deps + index, run->dep_count - index, &value);
    if (call->status != MOB_OK) return NULL;
    if (value.error != MOB_OK) {
        call->failed = value;
        return NULL;
    }
    return core_value_take(run->deps[index], &value);
}

static PyObject *argument_read(const mob_run_t *run, const uint8_t **at, const uint8_t *end,
                               core_call_t *call) {
    if (*at < end && **at == MOB_ARG_DEP && end - *at >= 5) {
        uint32_t index;
        memcpy(&index, *at + 1, 4);
        *at += 5;
        return dep_load(run, index, call);
    }
    if (*at < end && **at == MOB_ARG_PICKLE && end - *at >= 9) {
        uint64_t size;
        memcpy(&size, *at + 1, 8);
        if (size > (uint64_t)(end - *at - 9)) {
            PyErr_SetString(PyExc_ValueError, "an argument is cut short");
            return NULL;
        }
        PyObject *stream = PyMemoryView_FromMemory((char *)*at + 9, (Py_ssize_t)size, PyBUF_READ);
        *at += 9 + size;
        if (stream == NULL) return NULL;
        PyObject *loaded = PyObject_CallOneArg(core.loads, stream);
        Py_DECREF(stream);
        return loaded;
    }
    return core_direct_read(at, end);
}

void core_call_fini(core_call_t *call) {
    for (size_t i = 0; i < call->count; i++) Py_DECREF(call->values[i]);
    PyMem_Free(call->values);
    Py_XDECREF(call->keywords);
}

static int call_make(const mob_run_t *run, core_call_t *call) {
    const uint8_t *at = run->args, *end = at + run->args_size;
    uint32_t counts[2];
    if (run->args_size < sizeof counts) {
        PyErr_SetString(PyExc_ValueError, "a call without its counts");
        return -1;
    }
    memcpy(counts, at, sizeof counts);
    at += sizeof counts;
    if ((uint64_t)counts[0] + counts[1] > run->args_size) {
        PyErr_SetString(PyExc_ValueError, "a call with impossible counts");
        return -1;
    }
    call->positional = counts[0];
    call->values = PyMem_Malloc((counts[0] + counts[1] + 1) * sizeof *call->values);
    if (call->values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (counts[1] > 0 && (call->keywords = PyTuple_New(counts[1])) == NULL) return -1;
    for (uint32_t i = 0; i < counts[0] + counts[1]; i++) {
        if (i >= counts[0]) {
            PyObject *keyword = core_direct_read(&at, end);
            if (keyword == NULL || !PyUnicode_Check(keyword)) {
                Py_XDECREF(keyword);
                if (!PyErr_Occurred())
                    PyErr_SetString(PyExc_ValueError, "a keyword that is no str");
                return -1;
            }
            PyUnicode_InternInPlace(&keyword);
            PyTuple_SET_ITEM(call->keywords, i - counts[0], keyword);
        }
        PyObject *value = argument_read(run, &at, end, call);
        if (value == NULL) return -1;
        call->values[call->count++] = value;
    }
    return 0;
}

int core_call_make(const mob_run_t *run, core_call_t *call) {
    PyObject *type, *error, *trace;
    for (int tries = 1;; tries++) {
        if (call_make(run, call) == 0) return 0;
        if (call->status != MOB_EFULL) return -1;
        PyErr_Fetch(&type, &error, &trace);
        core_call_fini(call); /* runs Python code, which may end the session */
        *call = (core_call_t){0};
        mob_client_t *client = core.client;
        bool again = false;
        Py_BEGIN_ALLOW_THREADS if (client != NULL) again =
            mob_space_retry(client, run->deps, run->dep_count, tries);
        Py_END_ALLOW_THREADS if (!again || core.client == NULL) {
            PyErr_Restore(type, error, trace);
            return -1;
        }
        Py_XDECREF(type);
        Py_XDECREF(error);
        Py_XDECREF(trace);
    }
}
