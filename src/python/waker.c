/*
 * Waker: what wakes an event loop when a result is there, or, in an actor, when there is a call. One a loop.
 *
 * The loop is told by a file descriptor (fileno) and then calls look() until that returns False.
 */
#include "python/core.h"

#include <structmember.h>

typedef struct {
    PyObject *ref, *future;
    PyObject *job; /* that awaits it; NULL: none */
} watch_t;

typedef struct {
    PyObject_HEAD mob_event_t *event;
    PyObject *begin; /* what is called with each Job; None: it takes none */
    PyObject *weak_refs;
    Py_ssize_t watching;
    bool ended;
} waker_t;

enum { MOST_JOBS = 128 }; /* begun in one look: others of the loop want their turn */

static PyObject *name_done, *name_set_result;

static void watch_free(watch_t *watch) {
    core_await_end(watch->job);
    Py_DECREF(watch->ref);
    Py_DECREF(watch->future);
    PyMem_Free(watch);
}

static PyObject *waker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *begin = Py_None;
    static char *names[] = {"begin", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Waker", names, &begin)) return NULL;
    if (core.client == NULL) return core_raise_ended();
    waker_t *self = (waker_t *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    mob_status_t status = mob_event_open(core.client, begin != Py_None, &self->event);
    if (status != MOB_OK) {
        Py_DECREF(self);
        return core_raise(status);
    }
    if (begin != Py_None) core.loop_thread = PyThread_get_thread_ident();
    self->begin = Py_NewRef(begin);
    return (PyObject *)self;
}

static void waker_dealloc(waker_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->weak_refs != NULL) PyObject_ClearWeakRefs((PyObject *)self);
    /* With its loop: what still waits waits in vain, and its references go back. */
    if (self->event != NULL)
        for (watch_t *watch; (watch = mob_event_drop(self->event)) != NULL;) watch_free(watch);
    mob_event_close(self->event);
    Py_XDECREF(self->begin);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *waker_fileno(waker_t *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(mob_event_fd(self->event));
}

/* watch(ref, future): look() will set the future's result to None when the object is there, unless it is done before. Returns what forget() takes. */
static PyObject *waker_watch(waker_t *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !core_ref_check(args[0]))
        return PyErr_Format(PyExc_TypeError, "watch takes an ObjectRef and a future");
    ref_object_t *ref = core_ref_of(args[0]);
    if (ref == NULL) return NULL;
    watch_t *watch = PyMem_Malloc(sizeof *watch);
    if (watch == NULL) return PyErr_NoMemory();
    *watch = (watch_t){.ref = Py_NewRef(args[0]), .future = Py_NewRef(args[1]), .job = core_await_begin()};
    mob_status_t status = mob_event_watch(self->event, ref->ref, watch);
    if (status != MOB_OK) {
        watch_free(watch);
        return core_raise(status);
    }
    self->watching++;
    return PyLong_FromVoidPtr(watch);
}

/* forget(watch): nobody waits for it any more. */
static PyObject *waker_forget(waker_t *self, PyObject *number) {
    watch_t *watch = PyLong_AsVoidPtr(number);
    if (watch == NULL) return NULL;
    if (mob_event_forget(self->event, watch)) { /* else it was found meanwhile, and is gone */
        self->watching--;
        watch_free(watch);
    }
    Py_RETURN_NONE;
}

static int future_resolve(PyObject *future) {
    PyObject *done = PyObject_CallMethodNoArgs(future, name_done);
    if (done == NULL) return -1;
    bool over = done == Py_True;
    Py_DECREF(done);
    if (over) return 0;
    PyObject *set = PyObject_CallMethodOneArg(future, name_set_result, Py_None);
    Py_XDECREF(set);
    return set == NULL ? -1 : 0;
}

/* Resolves what is there. -1: an exception. */
static int results_look(waker_t *self, bool *found) {
    for (watch_t *watch; (watch = mob_event_next(self->event)) != NULL;) {
        self->watching--;
        int status = future_resolve(watch->future);
        watch_free(watch);
        if (status < 0) return -1;
        *found = true;
    }
    return 0;
}

static int jobs_look(waker_t *self, bool *found) {
    for (int i = 0; i < MOST_JOBS && !self->ended; i++) {
        mob_job_t *job;
        mob_status_t status = mob_job_try(core.client, &job);
        if (status == MOB_ETIMEOUT) return 0;
        if (status != MOB_OK) {
            self->ended = true;
            return 0;
        }
        *found = true;
        if (job->kind == MOB_FORGET) {
            core_function_forget(job);
            continue;
        }
        PyObject *object = core_job_new(job), *begun = object ? PyObject_CallOneArg(self->begin, object) : NULL;
        Py_XDECREF(object);
        Py_XDECREF(begun);
        if (begun == NULL) return -1;
    }
    return 0;
}

/* look(): resolves futures, begins jobs. True: to be called again soon. False: when the descriptor is readable. */
static PyObject *waker_look(waker_t *self, PyObject *unused) {
    (void)unused;
    bool found = false;
    if (results_look(self, &found) < 0) return NULL;
    if (self->begin != Py_None && core.client != NULL && jobs_look(self, &found) < 0) return NULL;
    return PyBool_FromLong(mob_event_look_again(self->event, found) && !self->ended);
}

static PyObject *waker_get_ended(waker_t *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(self->ended);
}

static PyMethodDef waker_methods[] = {
    {"fileno", (PyCFunction)waker_fileno, METH_NOARGS, NULL},
    {"watch", (PyCFunction)(void (*)(void))waker_watch, METH_FASTCALL, NULL},
    {"forget", (PyCFunction)waker_forget, METH_O, NULL},
    {"look", (PyCFunction)waker_look, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef waker_getset[] = {
    {"ended", (getter)waker_get_ended, NULL, "Whether this worker is to end.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef waker_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(waker_t, weak_refs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot waker_slots[] = {
    {Py_tp_doc, "Wakes an event loop."},
    {Py_tp_new, waker_new},
    {Py_tp_dealloc, waker_dealloc},
    {Py_tp_methods, waker_methods},
    {Py_tp_getset, waker_getset},
    {Py_tp_members, waker_members},
    {0, NULL},
};
static PyType_Spec waker_spec = {
    .name = "ray._core.Waker", .basicsize = sizeof(waker_t), .flags = Py_TPFLAGS_DEFAULT, .slots = waker_slots};

int core_waker_ready(PyObject *module) {
    name_done = PyUnicode_InternFromString("done");
    name_set_result = PyUnicode_InternFromString("set_result");
    PyObject *type = PyType_FromSpec(&waker_spec);
    if (name_done == NULL || name_set_result == NULL || type == NULL) return -1;
    int status = PyModule_AddObjectRef(module, "Waker", type);
    Py_DECREF(type);
    return status;
}
