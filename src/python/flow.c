/*
 * ObjectRefGenerator: the reader of a flow, as a Python object. The items are its references, in
 * order; ray._private.async_generators has what needs an event loop.
 *
 * A generator that is pickled is passed on (ray._private.relay): its flow moves to another object,
 * which a relay's pump reads, and this one only answers what can be asked about its task.
 */
#include "python/core.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD mob_flow_t flow;
    uint64_t stamp;
    PyObject *passed; /* what knows its relay; NULL: it was not passed on */
    PyObject *weak_refs;
    unsigned int limit;
} flow_object_t;

static PyTypeObject *flow_type;

PyObject *core_flow_new(const mob_flow_t *flow, uint32_t limit) {
    flow_object_t *self = PyObject_New(flow_object_t, flow_type);
    if (self == NULL) {
        mob_flow_t unread = *flow;
        mob_flow_close(core.client, &unread);
        return NULL;
    }
    self->flow = *flow;
    self->stamp = core.stamp;
    self->passed = self->weak_refs = NULL;
    self->limit = limit;
    return (PyObject *)self;
}

bool core_flow_check(PyObject *object) { return Py_TYPE(object) == flow_type; }

/* False, with an exception: its session is over. */
static bool is_current(const flow_object_t *self) {
    if (core.client != NULL && self->stamp == core.stamp) return true;
    if (!core_exit_raises())
        core_raise_code("stale", PyUnicode_FromString(
                                     "this generator is from before a ray.shutdown(): generators "
                                     "do not outlive their session"));
    return false;
}

/* False, with an exception: the same, or others read it now. */
static bool is_readable(const flow_object_t *self) {
    if (!is_current(self)) return false;
    if (self->passed == NULL) return true;
    PyErr_SetString(PyExc_RuntimeError,
                    "this generator was passed on: whoever has what was made of its pickle reads "
                    "its items now. Call the generator again for items of your own");
    return false;
}

static void flow_dealloc(flow_object_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->weak_refs != NULL) PyObject_ClearWeakRefs((PyObject *)self);
    if (core.client != NULL && self->stamp == core.stamp) mob_flow_close(core.client, &self->flow);
    Py_XDECREF(self->passed);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* A reference of its own to what the flow holds. NEW */
static PyObject *ref_again(mob_ref_t ref) {
    mob_ref_retain(core.client, ref);
    return core_ref_new(ref);
}

PyObject *core_flow_head(PyObject *object) {
    flow_object_t *self = (flow_object_t *)object;
    if (!is_readable(self)) return NULL;
    /* `done` too is slot 0 if it was closed: nothing is there */
    return ref_again(self->flow.head.slot != 0 ? self->flow.head : self->flow.done);
}

PyObject *core_flow_done(PyObject *object, PyObject *unused) {
    flow_object_t *self = (flow_object_t *)object;
    (void)unused;
    if (!is_current(self)) return NULL;
    if (self->passed != NULL) return PyObject_CallMethod(self->passed, "completed", NULL);
    return ref_again(self->flow.done);
}

/* Takes the next item: its reference, NEW. NULL without an exception: *ret_status says why. */
static PyObject *take(flow_object_t *self, mob_status_t *ret_status) {
    mob_ref_t ref;
    *ret_status = mob_flow_next(core.client, &self->flow, &ref);
    return *ret_status == MOB_OK ? core_ref_new(ref) : NULL;
}

/* The same, and waits for it. MOB_ETIMEOUT after so long; -1: never. */
static PyObject *take_within(flow_object_t *self, int64_t timeout_ms, mob_status_t *ret_status) {
    if (!is_readable(self)) return NULL;
    PyObject *ref = take(self, ret_status);
    if (*ret_status != MOB_ETIMEOUT || timeout_ms == 0) return ref;
    if (core_warn_in_loop("next() of a generator") < 0) return NULL;
    int64_t start = core_now_ms();
    while (*ret_status == MOB_ETIMEOUT) {
        mob_status_t status;
        /* another thread may take it meanwhile */
        PyObject *held = core_flow_head((PyObject *)self);
        if (held == NULL) return NULL;
        mob_ref_t head = ((ref_object_t *)held)->ref;
        int64_t left = core_time_left(timeout_ms, start);
        CORE_ALLOW_THREADS_BEGIN
        status = mob_get_wait(client, &head, 1, left);
        CORE_ALLOW_THREADS_END
        Py_DECREF(held);
        if (status == MOB_EINTR && PyErr_CheckSignals() < 0) return NULL;
        if (!is_readable(self)) return NULL;
        if (status != MOB_OK && status != MOB_EINTR && status != MOB_ETIMEOUT)
            return core_raise(status);
        ref = take(self, ret_status);
        if (status == MOB_ETIMEOUT) return ref;
    }
    return ref;
}

static PyObject *flow_next(flow_object_t *self) {
    mob_status_t status = MOB_OK;
    PyObject *ref = take_within(self, -1, &status);
    if (ref == NULL && !PyErr_Occurred() && status != MOB_EOVER) core_raise(status);
    return ref;
}

/* _next_sync(timeout_s=None): the nil reference if the time runs out. */
static PyObject *flow_next_sync(flow_object_t *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"timeout_s", NULL};
    PyObject *timeout = NULL;
    int64_t timeout_ms;
    mob_status_t status = MOB_OK;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:_next_sync", names, &timeout) ||
        core_timeout(timeout, &timeout_ms) < 0)
        return NULL;
    PyObject *ref = take_within(self, timeout_ms, &status);
    if (ref != NULL || PyErr_Occurred()) return ref;
    if (status == MOB_ETIMEOUT) return core_ref_new((mob_ref_t){0});
    if (status != MOB_EOVER) return core_raise(status);
    PyErr_SetNone(PyExc_StopIteration);
    return NULL;
}

/* _try_next(): None if the next item is not there yet; StopAsyncIteration at the end. */
static PyObject *flow_try_next(flow_object_t *self, PyObject *unused) {
    (void)unused;
    mob_status_t status = MOB_OK;
    PyObject *ref = take_within(self, 0, &status);
    if (ref != NULL || PyErr_Occurred()) return ref;
    if (status == MOB_ETIMEOUT) Py_RETURN_NONE;
    if (status != MOB_EOVER) return core_raise(status);
    PyErr_SetNone(PyExc_StopAsyncIteration);
    return NULL;
}

static PyObject *flow_head(PyObject *self, PyObject *unused) {
    (void)unused;
    return core_flow_head(self);
}

/* Names the task's end without holding it, for is_pending. */
static PyObject *flow_key(flow_object_t *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("IKK", self->flow.done.slot,
                         (unsigned long long)self->flow.done.generation,
                         (unsigned long long)self->stamp);
}

static PyObject *flow_next_ready(flow_object_t *self, PyObject *unused) {
    (void)unused;
    if (!is_readable(self)) return NULL;
    return PyBool_FromLong(mob_flow_look(core.client, &self->flow) == MOB_OK);
}

static PyObject *flow_is_finished(flow_object_t *self, PyObject *unused) {
    (void)unused;
    if (!is_readable(self)) return NULL;
    return PyBool_FromLong(mob_flow_look(core.client, &self->flow) == MOB_EOVER);
}

static PyObject *flow_close(flow_object_t *self, PyObject *unused) {
    (void)unused;
    if (core.client != NULL && self->stamp == core.stamp) mob_flow_close(core.client, &self->flow);
    Py_RETURN_NONE;
}

static PyObject *flow_task_id(flow_object_t *self, PyObject *unused) {
    (void)unused;
    mob_run_t named = {.task_id = self->flow.task_id};
    if (!is_current(self)) return NULL;
    PyObject *text = core_task_id_text(&named), *ids = PyImport_ImportModule("ray._private.ids"),
             *type = ids ? PyObject_GetAttrString(ids, "TaskID") : NULL,
             *id = type && text ? PyObject_CallMethod(type, "from_hex", "O", text) : NULL;
    Py_XDECREF(text);
    Py_XDECREF(ids);
    Py_XDECREF(type);
    return id;
}

/* ---- async ---- */

static const char in_loops[] = "ray._private.async_generators";

static PyObject *helper_call(const char *where, const char *name, PyObject *self,
                             PyObject *argument) {
    PyObject *module = PyImport_ImportModule(where), *result = NULL;
    if (module != NULL)
        result = PyObject_CallMethod(module, name, argument ? "OO" : "O", self, argument);
    Py_XDECREF(module);
    return result;
}

/* What is awaited for an item that is there: it does not wait. */
typedef struct {
    PyObject_HEAD PyObject *ref;
} there_t;

static PyTypeObject *there_type;

static void there_dealloc(there_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->ref);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PySendResult there_send(PyObject *self, PyObject *sent, PyObject **ret_value) {
    (void)sent;
    *ret_value = ((there_t *)self)->ref;
    ((there_t *)self)->ref = NULL;
    if (*ret_value != NULL) return PYGEN_RETURN;
    PyErr_SetString(PyExc_RuntimeError, "cannot reuse already awaited __anext__()");
    return PYGEN_ERROR;
}

static PyObject *there_next(PyObject *self) {
    PyObject *ref;
    if (there_send(self, NULL, &ref) == PYGEN_RETURN) {
        PyErr_SetObject(PyExc_StopIteration, ref); /* neither a tuple nor an exception */
        Py_DECREF(ref);
    }
    return NULL;
}

static PyType_Slot there_slots[] = {
    {Py_tp_dealloc, there_dealloc},  {Py_am_await, PyObject_SelfIter}, {Py_am_send, there_send},
    {Py_tp_iter, PyObject_SelfIter}, {Py_tp_iternext, there_next},     {0, NULL},
};
static PyType_Spec there_spec = {.name = "ray._core.There",
                                 .basicsize = sizeof(there_t),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = there_slots};

static PyObject *flow_anext(PyObject *self) {
    mob_status_t status = MOB_OK;
    PyObject *ref = take_within((flow_object_t *)self, 0, &status);
    if (ref == NULL)
        return PyErr_Occurred() ? NULL : helper_call(in_loops, "next_item", self, NULL);
    there_t *there = PyObject_New(there_t, there_type);
    if (there == NULL)
        Py_DECREF(ref);
    else
        there->ref = ref;
    return (PyObject *)there;
}

static PyObject *flow_next_async(PyObject *self, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"timeout_s", NULL};
    PyObject *timeout = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:_next_async", names, &timeout)) return NULL;
    return helper_call(in_loops, "next_item_within", self, timeout);
}

/* ---- passing it on ---- */

static PyObject *flow_reduce(PyObject *self, PyObject *unused) {
    (void)unused;
    if (!is_current((flow_object_t *)self)) return NULL;
    return helper_call("ray._private.relay", "reduce", self, NULL);
}

static PyObject *flow_passed(flow_object_t *self, PyObject *unused) {
    (void)unused;
    return Py_NewRef(self->passed != NULL ? self->passed : Py_None);
}

/* _pass_on(passed): a generator that has the flow from now on. NEW */
static PyObject *flow_pass_on(flow_object_t *self, PyObject *passed) {
    if (!is_readable(self)) return NULL;
    PyObject *moved = core_flow_new(&self->flow, self->limit);
    self->flow = (mob_flow_t){.task_id = self->flow.task_id};
    self->passed = Py_NewRef(passed);
    return moved;
}

static PyObject *flow_no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)type, (void)args, (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "an ObjectRefGenerator comes from a task that yields");
    return NULL;
}

static PyObject *flow_repr(flow_object_t *self) {
    mob_run_t named = {.task_id = self->flow.task_id};
    PyObject *id = core_task_id_text(&named);
    PyObject *text = id ? PyUnicode_FromFormat("ObjectRefGenerator(%U)", id) : NULL;
    Py_XDECREF(id);
    return text;
}

#define WITH_KEYWORDS(f) ((PyCFunction)(void (*)(void))(f))

static PyMethodDef flow_methods[] = {
    {"completed", core_flow_done, METH_NOARGS,
     "completed()\n--\n\nA reference that is there when the task is over. ray.get() of it gives "
     "None, or raises what made the task fail; an exception of the generator itself is its last "
     "item instead."},
    {"next_ready", (PyCFunction)flow_next_ready, METH_NOARGS,
     "next_ready()\n--\n\nWhether next() gives a reference at once, whose value is there."},
    {"is_finished", (PyCFunction)flow_is_finished, METH_NOARGS,
     "is_finished()\n--\n\nWhether the task is over and all its items were taken."},
    {"task_id", (PyCFunction)flow_task_id, METH_NOARGS,
     "task_id()\n--\n\nThe id of the task that makes the items."},
    {"close", (PyCFunction)flow_close, METH_NOARGS,
     "close()\n--\n\nGives up the items that were not taken. The task ends at its next one. It is "
     "what happens too when the generator goes."},
    {"_next_sync", WITH_KEYWORDS(flow_next_sync), METH_VARARGS | METH_KEYWORDS,
     "_next_sync(timeout_s=None)\n--\n\nAs next(), but ObjectRef.nil() if no item comes in time."},
    {"_next_async", WITH_KEYWORDS(flow_next_async), METH_VARARGS | METH_KEYWORDS,
     "_next_async(timeout_s=None)\n--\n\nThe same to be awaited."},
    {"_try_next", (PyCFunction)flow_try_next, METH_NOARGS, NULL},
    {"_head", flow_head, METH_NOARGS, NULL},
    {"_key", (PyCFunction)flow_key, METH_NOARGS, NULL},
    {"_passed", (PyCFunction)flow_passed, METH_NOARGS, NULL},
    {"_pass_on", (PyCFunction)flow_pass_on, METH_O, NULL},
    {"__reduce__", flow_reduce, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef flow_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(flow_object_t, weak_refs), READONLY, NULL},
    {"_limit", T_UINT, offsetof(flow_object_t, limit), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot flow_slots[] = {
    {Py_tp_doc,
     "What a task or method that yields returns: it gives out a reference for each item, in\n"
     "order, as soon as the item is there.\n\n"
     "    for ref in numbers.remote(3):\n        print(ray.get(ref))"},
    {Py_tp_dealloc, flow_dealloc},
    {Py_tp_repr, flow_repr},
    {Py_tp_iter, PyObject_SelfIter},
    {Py_tp_iternext, flow_next},
    {Py_am_aiter, PyObject_SelfIter},
    {Py_am_anext, flow_anext},
    {Py_tp_methods, flow_methods},
    {Py_tp_members, flow_members},
    {Py_tp_new, flow_no_new},
    {0, NULL},
};
static PyType_Spec flow_spec = {.name = "ray.ObjectRefGenerator",
                                .basicsize = sizeof(flow_object_t),
                                .flags = Py_TPFLAGS_DEFAULT,
                                .slots = flow_slots};

int core_flow_ready(PyObject *module) {
    flow_type = (PyTypeObject *)PyType_FromSpec(&flow_spec);
    there_type = (PyTypeObject *)PyType_FromSpec(&there_spec);
    if (flow_type == NULL || there_type == NULL) return -1;
    return PyModule_AddObjectRef(module, "ObjectRefGenerator", (PyObject *)flow_type);
}
