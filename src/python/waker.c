/*
 * Waker: what wakes an event loop when a result is there, or, in an actor, when there is a call.
 * One a loop.
 *
 * A file descriptor (fileno) tells the loop, which then calls look() until that returns False.
 */
#include "python/core.h"

#include <structmember.h>

/* Watch: one result that a loop awaits. The event holds the Watch until it gives it out. */
typedef struct {
    PyObject_HEAD mob_watch_t watch;
    PyObject *ref, *future; /* NULL: it is over */
} watch_object_t;

typedef struct {
    PyObject_HEAD mob_event_t *event;
    PyObject *begin;  /* called with each Run; None: this Waker takes no runs */
    PyObject *cancel; /* called with each Run that was cancelled */
    PyObject *weak_refs;
    bool ended, full; /* full: there are as many runs as may be */
} waker_t;

enum { MOST_RUNS = 128 }; /* begun in one look: the loop's other tasks want their turn */

static PyTypeObject *watch_type;
static PyObject *name_done, *name_set_result;

static watch_object_t *watch_object(mob_watch_t *watch) {
    return (watch_object_t *)((char *)watch - offsetof(watch_object_t, watch));
}

static void watch_clear(watch_object_t *self) {
    Py_CLEAR(self->ref);
    Py_CLEAR(self->future);
}

static void watch_dealloc(watch_object_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    watch_clear(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* forget(): the program does not wait for the result any more. */
static PyObject *watch_forget(watch_object_t *self, PyObject *unused) {
    (void)unused;
    if (self->ref != NULL) mob_event_forget(&self->watch); /* else it was given out */
    watch_clear(self);
    Py_RETURN_NONE;
}

static PyMethodDef watch_methods[] = {
    {"forget", (PyCFunction)watch_forget, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot watch_slots[] = {
    {Py_tp_doc, "A result that is awaited."},
    {Py_tp_dealloc, watch_dealloc},
    {Py_tp_methods, watch_methods},
    {0, NULL},
};
static PyType_Spec watch_spec = {.name = "ray._core.Watch",
                                 .basicsize = sizeof(watch_object_t),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = watch_slots};

static PyObject *waker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *begin = Py_None, *cancel = Py_None;
    static char *names[] = {"begin", "cancel", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:Waker", names, &begin, &cancel))
        return NULL;
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
    self->cancel = Py_NewRef(cancel);
    return (PyObject *)self;
}

static void waker_dealloc(waker_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->weak_refs != NULL) PyObject_ClearWeakRefs((PyObject *)self);
    /* The Waker goes with its loop: whatever still waits there waits in vain, and its references
     * are released. */
    if (self->event != NULL)
        for (mob_watch_t *watch; (watch = mob_event_drop(self->event)) != NULL;) {
            watch_clear(watch_object(watch));
            Py_DECREF(watch_object(watch));
        }
    mob_event_close(self->event);
    Py_XDECREF(self->begin);
    Py_XDECREF(self->cancel);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *waker_fileno(waker_t *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLong(mob_event_fd(self->event));
}

/* watch(ref, future): look() will set the future's result to None when the object is there, unless
 * the future is done before. Returns the Watch. */
static PyObject *waker_watch(waker_t *self, PyObject *const *args, Py_ssize_t nargs) {
    if (nargs != 2 || !core_ref_check(args[0]))
        return PyErr_Format(PyExc_TypeError, "watch takes an ObjectRef and a future");
    ref_object_t *ref = core_ref_of(args[0]);
    if (ref == NULL) return NULL;
    watch_object_t *watch = PyObject_New(watch_object_t, watch_type);
    if (watch == NULL) return NULL;
    watch->watch = (mob_watch_t){.ref = ref->ref};
    watch->ref = Py_NewRef(args[0]);
    watch->future = Py_NewRef(args[1]);
    mob_status_t status = mob_event_watch(self->event, &watch->watch);
    if (status != MOB_OK) {
        Py_DECREF(watch);
        return core_raise(status);
    }
    return Py_NewRef((PyObject *)watch); /* one for the event, one for the caller */
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

/* Resolves the futures of results that are there. -1 with an exception. */
static int results_look(waker_t *self, bool *found) {
    for (mob_watch_t *given; (given = mob_event_next(self->event)) != NULL;) {
        watch_object_t *watch = watch_object(given);
        PyObject *future = watch->future; /* NULL: forgotten */
        watch->future = NULL;
        watch_clear(watch);
        Py_DECREF(watch);
        int status = future != NULL ? future_resolve(future) : 0;
        *found |= future != NULL;
        Py_XDECREF(future);
        if (status < 0) return -1;
    }
    return 0;
}

static int runs_look(waker_t *self, bool *found) {
    for (int i = 0; i < MOST_RUNS && !self->ended;) {
        mob_run_t *run;
        mob_status_t status = mob_run_try(core.client, &run);
        self->full = status == MOB_ELIMIT;
        if (status == MOB_ETIMEOUT || self->full) return 0;
        if (status != MOB_OK) {
            self->ended = true;
            return 0;
        }
        *found = true;
        /* it is over when this thread asks for the next run, so it must not be the last of a
         * look */
        if (run->kind == MOB_FORGET) {
            core_function_forget(run);
            continue;
        }
        i++;
        PyObject *object = core_run_new(run),
                 *begun = object ? PyObject_CallOneArg(self->begin, object) : NULL;
        Py_XDECREF(object);
        Py_XDECREF(begun);
        if (begun == NULL) return -1;
    }
    return 0;
}

static int cancels_look(waker_t *self) {
    for (mob_run_t *run; (run = mob_run_cancelled(core.client)) != NULL;) {
        if (run->user == NULL) continue;
        PyObject *object = Py_NewRef((PyObject *)run->user),
                 *done = PyObject_CallOneArg(self->cancel, object);
        Py_DECREF(object);
        Py_XDECREF(done);
        if (done == NULL) return -1;
    }
    return 0;
}

/* look(): resolves futures, begins runs, cancels them. True: call it again soon. False: call it
 * when the descriptor is readable. */
static PyObject *waker_look(waker_t *self, PyObject *unused) {
    (void)unused;
    bool found = false;
    if (results_look(self, &found) < 0) return NULL;
    if (self->begin != Py_None && core.client != NULL &&
        (runs_look(self, &found) < 0 || cancels_look(self) < 0))
        return NULL;
    return PyBool_FromLong(mob_event_look_again(self->event, found) && !self->ended);
}

static PyMethodDef waker_methods[] = {
    {"fileno", (PyCFunction)waker_fileno, METH_NOARGS, NULL},
    {"watch", (PyCFunction)(void (*)(void))waker_watch, METH_FASTCALL, NULL},
    {"look", (PyCFunction)waker_look, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef waker_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(waker_t, weak_refs), READONLY, NULL},
    {"ended", T_BOOL, offsetof(waker_t, ended), READONLY, "Whether this worker is to end."},
    {"full", T_BOOL, offsetof(waker_t, full), READONLY,
     "Whether a run has to be finished before the next."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot waker_slots[] = {
    {Py_tp_doc, "Wakes an event loop."}, {Py_tp_new, waker_new},
    {Py_tp_dealloc, waker_dealloc},      {Py_tp_methods, waker_methods},
    {Py_tp_members, waker_members},      {0, NULL},
};
static PyType_Spec waker_spec = {.name = "ray._core.Waker",
                                 .basicsize = sizeof(waker_t),
                                 .flags = Py_TPFLAGS_DEFAULT,
                                 .slots = waker_slots};

int core_waker_ready(PyObject *module) {
    watch_type = (PyTypeObject *)PyType_FromSpec(&watch_spec);
    name_done = PyUnicode_InternFromString("done");
    name_set_result = PyUnicode_InternFromString("set_result");
    PyObject *type = PyType_FromSpec(&waker_spec);
    if (watch_type == NULL || name_done == NULL || name_set_result == NULL || type == NULL)
        return -1;
    int status = PyModule_AddObjectRef(module, "Waker", type);
    Py_DECREF(type);
    return status;
}
