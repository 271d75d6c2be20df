/*
 * Job: a call of an actor that runs several at once, as a Python object; a thread runs it whole, an event loop begins and ends it.
 *
 * Which job is the running one is in a context variable: threads have a context each, and so has each asyncio task, which copies the one it was made in.
 *
 * It holds its asyncio task, which the loop itself does not, and is deliberately unknown to the collector: what waits must not be taken for garbage.
 */
#include "python/core.h"

typedef struct {
    PyObject_HEAD mob_job_t *job; /* NULL: it is finished */
    PyObject *task;
    uint32_t awaits; /* results that it awaits */
    uint64_t period; /* mob_waiting_begin's */
} job_object_t;

static PyTypeObject *job_type;
static PyObject *current; /* ContextVar: the Job */

PyObject *core_job_new(mob_job_t *job) {
    job_object_t *self = PyObject_New(job_object_t, job_type);
    if (self == NULL) return NULL;
    self->job = job;
    self->task = NULL;
    self->awaits = 0;
    self->period = 0;
    return (PyObject *)self;
}

static void job_dealloc(job_object_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->task);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* The Job whose code runs here, NEW; NULL: none. */
static job_object_t *job_here(void) {
    PyObject *found = NULL;
    if (PyContextVar_Get(current, NULL, &found) < 0) PyErr_Clear();
    return (job_object_t *)found;
}

const mob_job_t *core_job_current(void) {
    job_object_t *here = job_here();
    const mob_job_t *job =
        here ? here->job : NULL; /* the client keeps it until it is finished, and that needs the lock */
    Py_XDECREF(here);
    return job;
}

PyObject *core_await_begin(void) {
    job_object_t *here = job_here();
    if (here != NULL && here->job != NULL && here->awaits++ == 0) here->period = mob_waiting_begin(core.client);
    return (PyObject *)here;
}

void core_await_end(PyObject *object) {
    job_object_t *here = (job_object_t *)object;
    if (here == NULL) return;
    if (here->awaits > 0 && --here->awaits == 0 && core.client != NULL) mob_waiting_end(core.client, here->period);
    Py_DECREF(here);
}

/* Ends it with what it came to, which is STOLEN; NULL: the exception that is set. */
static void job_end(job_object_t *self, PyObject *callable, PyObject *value, const mob_value_t *failed) {
    mob_job_t *job = self->job;
    if (self->awaits > 0) mob_waiting_end(core.client, self->period);
    self->awaits = 0;
    self->job = NULL;
    core_job_end(job, callable, value, failed);
    Py_CLEAR(self->task);
}

static bool job_check(job_object_t *self) {
    if (self->job != NULL) return true;
    PyErr_SetString(PyExc_RuntimeError, "this job is finished");
    return false;
}

/* run(): all of it, in this thread. */
static PyObject *job_run(job_object_t *self, PyObject *unused) {
    (void)unused;
    if (!job_check(self)) return NULL;
    PyObject *callable = NULL, *token = PyContextVar_Set(current, (PyObject *)self);
    mob_value_t failed = {0};
    PyObject *value = token != NULL ? core_job_call(self->job, &callable, &failed) : NULL;
    job_end(self, callable, value, &failed);
    Py_XDECREF(token);
    Py_RETURN_NONE;
}

/* What the call gave is a coroutine: `spawn` makes a task of it. Takes `value` only if it did. */
static bool coroutine_begin(job_object_t *self, PyObject *spawn, PyObject *value) {
    if (self->job->kind != MOB_ACTOR_CALL || !PyCoro_CheckExact(value)) return false;
    self->task = PyObject_CallFunctionObjArgs(spawn, (PyObject *)self, value, NULL);
    if (self->task == NULL) return false;
    Py_DECREF(value);
    return true;
}

/* begin(spawn): in the loop. A plain method is done when this returns; else `spawn(job, coroutine)` has made the task that goes on with it. */
static PyObject *job_begin(job_object_t *self, PyObject *spawn) {
    if (!job_check(self)) return NULL;
    PyObject *context = PyContext_CopyCurrent(), *token = NULL, *callable = NULL, *value = NULL;
    mob_value_t failed = {0};
    bool entered = context != NULL && PyContext_Enter(context) == 0;
    if (entered) token = PyContextVar_Set(current, (PyObject *)self);
    if (token != NULL) value = core_job_call(self->job, &callable, &failed);
    if (value != NULL && coroutine_begin(self, spawn, value)) {
        Py_XDECREF(callable);
    } else {
        if (PyErr_Occurred()) Py_CLEAR(value);
        job_end(self, callable, value, &failed);
    }
    Py_XDECREF(token);
    if (entered && PyContext_Exit(context) < 0) PyErr_Clear();
    Py_XDECREF(context);
    Py_RETURN_NONE;
}

static PyObject *job_done(job_object_t *self, PyObject *value) {
    if (!job_check(self)) return NULL;
    job_end(self, NULL, Py_NewRef(value), NULL);
    Py_RETURN_NONE;
}

static PyObject *job_failed(job_object_t *self, PyObject *error) {
    if (!job_check(self)) return NULL;
    if (!PyExceptionInstance_Check(error)) return PyErr_Format(PyExc_TypeError, "failed takes an exception");
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    job_end(self, NULL, NULL, NULL);
    Py_RETURN_NONE;
}

/* function(): the class that this job makes an actor of. */
static PyObject *job_function(job_object_t *self, PyObject *unused) {
    (void)unused;
    return job_check(self) ? core_job_callable(self->job) : NULL;
}

static PyMethodDef job_methods[] = {
    {"run", (PyCFunction)job_run, METH_NOARGS, NULL},
    {"begin", (PyCFunction)job_begin, METH_O, NULL},
    {"done", (PyCFunction)job_done, METH_O, NULL},
    {"failed", (PyCFunction)job_failed, METH_O, NULL},
    {"function", (PyCFunction)job_function, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot job_slots[] = {
    {Py_tp_doc, "A call that is being run."},
    {Py_tp_dealloc, job_dealloc},
    {Py_tp_methods, job_methods},
    {0, NULL},
};
static PyType_Spec job_spec = {.name = "ray._core.Job",
                               .basicsize = sizeof(job_object_t),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               .slots = job_slots};

PyObject *core_next_job(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    mob_job_t *job = core_job_take();
    if (job != NULL) return core_job_new(job);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

int core_job_ready(PyObject *module) {
    (void)module;
    job_type = (PyTypeObject *)PyType_FromSpec(&job_spec);
    current = PyContextVar_New("ray_job", NULL);
    return job_type == NULL || current == NULL ? -1 : 0;
}
