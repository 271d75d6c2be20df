/* Tasks that failed, as the daemon keeps them: what they called, and with what. */
#include "python/core.h"

/* Takes (slot, generation), of which the daemon has noted that this process holds it: an ObjectRef,
 * or None for slot 0. NEW */
static PyObject *ref_adopt(PyObject *pair) {
    mob_ref_t ref;
    unsigned long long generation;
    if (!PyArg_ParseTuple(pair, "IK", &ref.slot, &generation)) return NULL;
    if (ref.slot == 0) Py_RETURN_NONE;
    ref.generation = generation;
    mob_status_t status = mob_ref_restore(core.client, ref);
    return status == MOB_OK ? core_ref_new(ref) : core_raise(status);
}

static PyObject *refs_adopt(PyObject *pairs) {
    PyObject *list = PyList_New(PyTuple_GET_SIZE(pairs));
    for (Py_ssize_t i = 0; list != NULL && i < PyTuple_GET_SIZE(pairs); i++) {
        PyObject *ref = ref_adopt(PyTuple_GET_ITEM(pairs, i));
        if (ref != NULL)
            PyList_SET_ITEM(list, i, ref);
        else
            Py_CLEAR(list);
    }
    return list;
}

/* kept_task(record, generation): kind, name, function, references of its arguments, arguments in
 * bytes, what its driver gave its workers, that driver's folder, what is missing; None: nothing is
 * kept. */
PyObject *core_kept_task(PyObject *module, PyObject *args) {
    (void)module;
    mob_ref_t id;
    unsigned long long generation;
    if (!PyArg_ParseTuple(args, "IK:kept_task", &id.slot, &generation)) return NULL;
    if (!core_connected()) return NULL;
    id.generation = generation;
    PyObject *kept = core_ask(MOB_QUERY_TASK, mob_run_number(id));
    if (kept == NULL) return NULL;
    PyObject *kind, *name, *function, *refs, *bytes, *inner, *folder, *note, *made = NULL;
    if (PyTuple_GET_SIZE(kept) == 0) {
        made = Py_NewRef(Py_None);
    } else if (PyArg_ParseTuple(kept, "OOOO!OOOO", &kind, &name, &function, &PyTuple_Type, &refs,
                                &bytes, &inner, &folder, &note)) {
        PyObject *list = refs_adopt(refs), *adopted = list ? ref_adopt(function) : NULL;
        if (adopted != NULL)
            made = Py_BuildValue("OONNOOOO", kind, name, adopted, list, bytes, inner, folder, note);
        else
            Py_XDECREF(list);
    }
    Py_DECREF(kept);
    return made;
}

/* The arguments as a tuple and a dict. */
static PyObject *call_tell(PyObject *callable, const core_call_t *call) {
    PyObject *positional = PyTuple_New(call->positional), *keywords = PyDict_New();
    bool good = positional != NULL && keywords != NULL;
    for (size_t i = 0; good && i < call->count; i++) {
        if (i < (size_t)call->positional)
            PyTuple_SET_ITEM(positional, (Py_ssize_t)i, Py_NewRef(call->values[i]));
        else
            good = PyDict_SetItem(
                       keywords, PyTuple_GET_ITEM(call->keywords, (Py_ssize_t)i - call->positional),
                       call->values[i]) == 0;
    }
    PyObject *made = good ? PyTuple_Pack(3, callable, positional, keywords) : NULL;
    Py_XDECREF(positional);
    Py_XDECREF(keywords);
    return made;
}

/* recall(kind, function, references, arguments): the callable, its positional arguments, its
 * keyword arguments. */
PyObject *core_recall(PyObject *module, PyObject *args) {
    (void)module;
    unsigned kind;
    PyObject *function, *list, *held = NULL;
    Py_buffer bytes;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "IOOy*:recall", &kind, &function, &list, &bytes)) return NULL;
    ref_object_t *ref = core_connected() ? core_ref_of(function) : NULL;
    mob_ref_t *refs = ref != NULL ? core_refs_of("recall", list, &count, &held) : NULL;
    PyObject *callable = NULL, *made = NULL;
    core_call_t call = {0};
    if (refs != NULL) {
        mob_run_t run = {.kind = (mob_kind_t)kind,
                         .function = ref->ref,
                         .args = bytes.buf,
                         .args_size = (size_t)bytes.len,
                         .deps = refs,
                         .dep_count = (uint32_t)count};
        callable = core_run_callable(&run);
        if (callable != NULL && core_call_make(&run, &call) == 0)
            made = call_tell(callable, &call);
        else if (call.failed.error != MOB_OK)
            core_raise_error(&call.failed);
    }
    core_call_fini(&call);
    Py_XDECREF(callable);
    Py_XDECREF(held);
    PyMem_Free(refs);
    PyBuffer_Release(&bytes);
    return made;
}
