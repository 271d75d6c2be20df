/*
 * Run: a call of an actor that runs several at once, as a Python object. A thread runs it whole, a
 * task of an event loop in steps.
 *
 * A context variable says which run this code belongs to. Each thread and each asyncio task has a
 * context; a task that another one makes gets a copy of that one's.
 *
 * A Run holds its asyncio task, which the loop itself does not. The collector deliberately does not
 * know of it: a task that waits must not be taken for garbage.
 */
#include "python/core.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD mob_run_t *run; /* NULL: it is finished */
    PyObject *task;
    unsigned group;
    bool called;
    mob_value_t failed; /* an argument that is an error */
} run_object_t;

static PyTypeObject *run_type;
static PyObject *current; /* ContextVar: the Run */

PyObject *core_run_new(mob_run_t *run) {
    run_object_t *self = PyObject_New(run_object_t, run_type);
    if (self == NULL) return NULL;
    self->run = run;
    self->called = false;
    self->group = run->group;
    run->user = self; /* BORROWED: until the run ends */
    self->task = NULL;
    self->failed = (mob_value_t){0};
    return (PyObject *)self;
}

static void run_dealloc(run_object_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->run != NULL) self->run->user = NULL;
    Py_XDECREF(self->task);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* The Run whose code runs here, NEW; NULL: none. */
static run_object_t *run_here(void) {
    PyObject *found = NULL;
    if (PyContextVar_Get(current, NULL, &found) < 0) PyErr_Clear();
    return (run_object_t *)found;
}

mob_run_t *core_run_current(void) {
    run_object_t *here = run_here();
    mob_run_t *run =
        here ? here->run
             : NULL; /* the client keeps it until it is finished, and that needs the lock */
    Py_XDECREF(here);
    return run;
}

/* Ends the run with the value that it came to, which is STOLEN; NULL: with the exception that is
 * set. Returns None, or NULL as core_run_end says. */
static PyObject *run_end(run_object_t *self, PyObject *value) {
    mob_run_t *run = self->run;
    self->run = NULL;
    /* the results are that error, with the run's name, not this exception with a traceback */
    if (self->failed.error != MOB_OK) PyErr_Clear();
    bool goes_on = core_run_end(run, NULL, value, &self->failed);
    Py_CLEAR(self->task);
    return goes_on ? Py_NewRef(Py_None) : NULL;
}

static bool run_check(run_object_t *self) {
    if (self->run != NULL) return true;
    PyErr_SetString(PyExc_RuntimeError, "this run is finished");
    return false;
}

/* call(): calls the method. Call done() next with what it came to, or failed(). */
static PyObject *run_call(run_object_t *self, PyObject *unused) {
    (void)unused;
    if (!run_check(self)) return NULL;
    self->called = true;
    PyObject *callable = NULL, *value = NULL, *token = PyContextVar_Set(current, (PyObject *)self);
    if (token != NULL) value = core_run_call(self->run, &callable, &self->failed);
    if (value == NULL && self->failed.error != MOB_OK) core_raise_error(&self->failed);
    Py_XDECREF(token);
    Py_XDECREF(callable);
    return value;
}

/* whole(): runs all of it, in this thread. */
static PyObject *run_whole(run_object_t *self, PyObject *unused) {
    (void)unused;
    if (!run_check(self)) return NULL;
    return run_end(self, run_call(self, NULL));
}

static PyObject *run_done(run_object_t *self, PyObject *value) {
    if (!run_check(self)) return NULL;
    return run_end(self, Py_NewRef(value));
}

/* failed([exception]): takes the exception out of the list, so that only the run has it, unless the
 * actor keeps it. */
static PyObject *run_failed(run_object_t *self, PyObject *list) {
    if (!run_check(self)) return NULL;
    if (!PyList_Check(list) || PyList_GET_SIZE(list) != 1 ||
        !PyExceptionInstance_Check(PyList_GET_ITEM(list, 0)))
        return PyErr_Format(PyExc_TypeError, "failed takes a list with an exception");
    PyObject *error = PyList_GET_ITEM(list, 0);
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    PyObject *type, *trace;
    PyErr_Fetch(&type, &error, &trace);
    int emptied = PyList_SetSlice(list, 0, 1, NULL);
    if (emptied < 0) PyErr_Clear();
    PyErr_Restore(type, error, trace);
    return run_end(self, NULL);
}

/* item(value): gives out an item. False: nobody reads them any more. */
static PyObject *run_item(run_object_t *self, PyObject *value) {
    if (!run_check(self)) return NULL;
    int goes_on = core_item_give(self->run, value);
    return goes_on < 0 ? NULL : PyBool_FromLong(goes_on);
}

/* has_room(): whether the flow's limit lets the run go on to its next item now. */
static PyObject *run_has_room(run_object_t *self, PyObject *unused) {
    (void)unused;
    return run_check(self) ? PyBool_FromLong(mob_run_item_room(core.client, self->run)) : NULL;
}

/* wait_room(): waits until it does, for a second at most; in a thread beside the event loop. The
 * run must not end before. */
static PyObject *run_wait_room(run_object_t *self, PyObject *unused) {
    (void)unused;
    if (!run_check(self)) return NULL;
    mob_run_t *run = self->run;
    CORE_ALLOW_THREADS_BEGIN(void) mob_run_item_wait(client, run);
    CORE_ALLOW_THREADS_END
    Py_RETURN_NONE;
}

static PyObject *run_flows(run_object_t *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(self->run != NULL && self->run->flows);
}

/* function(): the class that this run makes an actor of. */
static PyObject *run_function(run_object_t *self, PyObject *unused) {
    (void)unused;
    return run_check(self) && core_run_prepare(self->run) == 0 ? core_run_callable(self->run)
                                                               : NULL;
}

/* is_cancelled(): whether ray.cancel has named it, or the task that called. */
static PyObject *run_is_cancelled(run_object_t *self, PyObject *unused) {
    (void)unused;
    return run_check(self) ? PyBool_FromLong(mob_run_is_cancelled(core.client, self->run)) : NULL;
}

/* give(): this thread does not run it; accept(): this one does. */
static PyObject *run_give(run_object_t *self, PyObject *unused) {
    (void)unused;
    if (!run_check(self)) return NULL;
    mob_run_give(core.client, self->run);
    Py_RETURN_NONE;
}

static PyObject *run_accept(run_object_t *self, PyObject *unused) {
    (void)unused;
    if (!run_check(self)) return NULL;
    mob_run_accept(core.client, self->run);
    Py_RETURN_NONE;
}

static PyMemberDef run_members[] = {
    {"task", T_OBJECT, offsetof(run_object_t, task), 0, "The asyncio task that runs it."},
    {"group", T_UINT, offsetof(run_object_t, group), READONLY, "Its concurrency group's number."},
    {"called", T_BOOL, offsetof(run_object_t, called), READONLY, "Whether call() was called."},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef run_methods[] = {
    {"whole", (PyCFunction)run_whole, METH_NOARGS, NULL},
    {"call", (PyCFunction)run_call, METH_NOARGS, NULL},
    {"done", (PyCFunction)run_done, METH_O, NULL},
    {"failed", (PyCFunction)run_failed, METH_O, NULL},
    {"give", (PyCFunction)run_give, METH_NOARGS, NULL},
    {"accept", (PyCFunction)run_accept, METH_NOARGS, NULL},
    {"function", (PyCFunction)run_function, METH_NOARGS, NULL},
    {"is_cancelled", (PyCFunction)run_is_cancelled, METH_NOARGS, NULL},
    {"item", (PyCFunction)run_item, METH_O, NULL},
    {"has_room", (PyCFunction)run_has_room, METH_NOARGS, NULL},
    {"wait_room", (PyCFunction)run_wait_room, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef run_getset[] = {
    {"flows", (getter)run_flows, NULL, "Whether it gives out items.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot run_slots[] = {
    {Py_tp_doc, "A call that is being run."},
    {Py_tp_dealloc, run_dealloc},
    {Py_tp_methods, run_methods},
    {Py_tp_members, run_members},
    {Py_tp_getset, run_getset},
    {0, NULL},
};
static PyType_Spec run_spec = {.name = "ray._core.Run",
                               .basicsize = sizeof(run_object_t),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               .slots = run_slots};

PyObject *core_next_run(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    mob_run_t *run = core_run_take();
    if (run != NULL) return core_run_new(run);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

PyObject *core_actor_groups(PyObject *module, PyObject *limits) {
    (void)module;
    uint32_t numbers[MOB_MAX_GROUPS];
    PyObject *fast = PySequence_Fast(limits, "limits must be a sequence");
    if (fast == NULL) return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    for (Py_ssize_t i = 0; i < count && i < MOB_MAX_GROUPS; i++)
        numbers[i] = (uint32_t)PyLong_AsUnsignedLong(PySequence_Fast_GET_ITEM(fast, i));
    Py_DECREF(fast);
    if (PyErr_Occurred()) return NULL;
    mob_status_t status = mob_actor_groups(core.client, numbers, (uint32_t)count);
    if (status != MOB_OK) return core_raise(status);
    Py_RETURN_NONE;
}

int core_run_ready(PyObject *module) {
    (void)module;
    run_type = (PyTypeObject *)PyType_FromSpec(&run_spec);
    current = PyContextVar_New("ray_run", NULL);
    return run_type == NULL || current == NULL ? -1 : 0;
}
