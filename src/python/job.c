/*
 * Job: a call of an actor that runs several at once, as a Python object; a thread runs it whole, a
 * task of an event loop in steps.
 *
 * Which job is the running one is in a context variable: threads have a context each, and so has
 * each asyncio task, and those that it makes copy it.
 *
 * It holds its asyncio task, which the loop itself does not, and is deliberately unknown to the
 * collector: what waits must not be taken for garbage.
 */
#include "python/core.h"

#include <structmember.h>

typedef struct {
    PyObject_HEAD mob_job_t *job; /* NULL: it is finished */
    PyObject *task;
    mob_value_t failed; /* an argument that is an error */
} job_object_t;

static PyTypeObject *job_type;
static PyObject *current; /* ContextVar: the Job */

PyObject *core_job_new(mob_job_t *job) {
    job_object_t *self = PyObject_New(job_object_t, job_type);
    if (self == NULL) return NULL;
    self->job = job;
    self->task = NULL;
    self->failed = (mob_value_t){0};
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
        here ? here->job
             : NULL; /* the client keeps it until it is finished, and that needs the lock */
    Py_XDECREF(here);
    return job;
}

/* Ends it with what it came to, which is STOLEN; NULL: the exception that is set. Returns None, or
 * NULL as core_job_end says. */
static PyObject *job_end(job_object_t *self, PyObject *value) {
    mob_job_t *job = self->job;
    self->job = NULL;
    /* the results are that error itself, not one more around it */
    if (self->failed.error != MOB_OK) PyErr_Clear();
    bool goes_on = core_job_end(job, NULL, value, &self->failed);
    Py_CLEAR(self->task);
    return goes_on ? Py_NewRef(Py_None) : NULL;
}

static bool job_check(job_object_t *self) {
    if (self->job != NULL) return true;
    PyErr_SetString(PyExc_RuntimeError, "this job is finished");
    return false;
}

/* call(): calls the method; to be followed by done() with what it came to, or by failed(). */
static PyObject *job_call(job_object_t *self, PyObject *unused) {
    (void)unused;
    if (!job_check(self)) return NULL;
    PyObject *callable = NULL, *value = NULL, *token = PyContextVar_Set(current, (PyObject *)self);
    if (token != NULL) value = core_job_call(self->job, &callable, &self->failed);
    if (value == NULL && self->failed.error != MOB_OK) core_raise_error(&self->failed);
    Py_XDECREF(token);
    Py_XDECREF(callable);
    return value;
}

/* run(): all of it, in this thread. */
static PyObject *job_run(job_object_t *self, PyObject *unused) {
    (void)unused;
    if (!job_check(self)) return NULL;
    return job_end(self, job_call(self, NULL));
}

static PyObject *job_done(job_object_t *self, PyObject *value) {
    if (!job_check(self)) return NULL;
    return job_end(self, Py_NewRef(value));
}

static PyObject *job_failed(job_object_t *self, PyObject *error) {
    if (!job_check(self)) return NULL;
    if (!PyExceptionInstance_Check(error))
        return PyErr_Format(PyExc_TypeError, "failed takes an exception");
    PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    return job_end(self, NULL);
}

/* function(): the class that this job makes an actor of. */
static PyObject *job_function(job_object_t *self, PyObject *unused) {
    (void)unused;
    return job_check(self) && core_job_prepare(self->job) == 0 ? core_job_callable(self->job)
                                                               : NULL;
}

static PyMemberDef job_members[] = {
    {"task", T_OBJECT, offsetof(job_object_t, task), 0, "The asyncio task that runs it."},
    {NULL, 0, 0, 0, NULL},
};

static PyMethodDef job_methods[] = {
    {"run", (PyCFunction)job_run, METH_NOARGS, NULL},
    {"call", (PyCFunction)job_call, METH_NOARGS, NULL},
    {"done", (PyCFunction)job_done, METH_O, NULL},
    {"failed", (PyCFunction)job_failed, METH_O, NULL},
    {"function", (PyCFunction)job_function, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot job_slots[] = {
    {Py_tp_doc, "A call that is being run."},
    {Py_tp_dealloc, job_dealloc},
    {Py_tp_methods, job_methods},
    {Py_tp_members, job_members},
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
