/*
 * Submitter: the callable behind f.remote, Class.remote and handle.method.remote.
 *
 * The Submitter asks `prepare` once a session for what does not change from call to call (function,
 * resources, name). A call of an actor's method starts no session: the actor is of one that is
 * there, or was. The Submitter encodes arguments into a buffer that goes into the record: small
 * plain values directly, other small ones pickled, references as such. A value that is large or has
 * buffers, and every array, becomes an object of its own first, so that the task reads it in place.
 */
#include "python/core.h"

#include <string.h>
#include <structmember.h>

#include "base/utf8.h"

enum { INLINE_LIMIT = 64 * 1024 };

typedef struct {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject *prepare, *bind;
    Py_ssize_t least, most;
    /* as prepared, for the connection `stamp` */
    uint64_t stamp;
    uint32_t capture;
    mob_task_t task;
    bool flows;                         /* it gives out items */
    uint32_t limit;                     /* of its flow; 0: none */
    mob_actor_name_t named;             /* what task.named points to */
    PyObject *function, *name, *naming; /* hold what `task` points to */
    PyObject *actor;                    /* ObjectRef, or NULL */
} submitter_t;

static PyTypeObject *submitter_type;

/* ---- the call's arguments ---- */

typedef struct {
    uint64_t stamp; /* of the connection that the call began in: pickling runs Python code, which
                             may end the session */
    uint8_t *data;
    size_t size, capacity;
    uint8_t local[512];
    VEC(mob_ref_t) deps, refs;
    PyObject *keep; /* ObjectRefs that pickling met, kept alive until the task is submitted */
    VEC(mob_ref_t) temporary; /* objects made for this call: one count each */
} arguments_t;

static bool arguments_reserve(arguments_t *a, size_t more) {
    if (a->size + more <= a->capacity) return true;
    size_t wanted = a->capacity * 2 > a->size + more ? a->capacity * 2 : a->size + more;
    uint8_t *grown = a->data == a->local ? PyMem_Malloc(wanted) : PyMem_Realloc(a->data, wanted);
    if (grown == NULL) {
        PyErr_NoMemory();
        return false;
    }
    if (a->data == a->local) memcpy(grown, a->local, a->size);
    a->data = grown;
    a->capacity = wanted;
    return true;
}

static void arguments_fini(arguments_t *a) {
    for (size_t i = 0; core.stamp == a->stamp && i < a->temporary.count; i++)
        mob_ref_release(core.client, a->temporary.items[i]);
    if (a->data != a->local) PyMem_Free(a->data);
    vec_free(&a->deps);
    vec_free(&a->refs);
    vec_free(&a->temporary);
    Py_XDECREF(a->keep);
}

static int write_dep(arguments_t *a, mob_ref_t ref) {
    uint32_t index = (uint32_t)a->deps.count;
    if (!arguments_reserve(a, 5)) return -1;
    if (!vec_push(&a->deps, ref)) {
        PyErr_NoMemory();
        return -1;
    }
    a->data[a->size] = MOB_ARG_DEP;
    memcpy(a->data + a->size + 1, &index, 4);
    a->size += 5;
    return 0;
}

/* An object that was made for this call. STEALS one count */
static int write_temporary(arguments_t *a, mob_ref_t ref) {
    if (!vec_push(&a->temporary, ref)) {
        mob_ref_release(core.client, ref);
        PyErr_NoMemory();
        return -1;
    }
    return write_dep(a, ref);
}

static int write_object(arguments_t *a, PyObject *value, const char *what) {
    core_target_t target = {0};
    return core_value_store(value, what, &target) < 0 ? -1 : write_temporary(a, target.ref);
}

static int write_pickle(arguments_t *a, PyObject *value, const char *what) {
    collector_t collector;
    int result = -1;
    PyObject *made = core_pickle(value, what, &collector);
    if (made != NULL && core.stamp != a->stamp) {
        core_raise_ended();
        Py_CLEAR(made);
    }
    if (made != NULL && (PyList_GET_SIZE(PyTuple_GET_ITEM(made, 1)) > 0 ||
                         PyBytes_GET_SIZE(PyTuple_GET_ITEM(made, 0)) > INLINE_LIMIT)) {
        core_target_t target = {0};
        if (core_pickled_store(value, made, &collector, a->stamp, &target) == 0)
            result = write_temporary(a, target.ref);
        Py_DECREF(made);
    } else if (made != NULL) {
        PyObject *stream = PyTuple_GET_ITEM(made, 0);
        uint64_t size = (uint64_t)PyBytes_GET_SIZE(stream);
        bool space = arguments_reserve(a, 9 + size);
        for (size_t i = 0; space && i < collector.refs.count; i++)
            space = vec_push(&a->refs, collector.refs.items[i]);
        if (space && collector.keep != NULL) {
            if (a->keep == NULL) a->keep = PyList_New(0);
            space = a->keep != NULL && PyList_Append(a->keep, collector.keep) == 0;
        }
        if (space) {
            a->data[a->size] = MOB_ARG_PICKLE;
            memcpy(a->data + a->size + 1, &size, 8);
            memcpy(a->data + a->size + 9, PyBytes_AS_STRING(stream), size);
            a->size += 9 + size;
            result = 0;
        } else if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        Py_DECREF(made);
    }
    core_collector_pop(&collector);
    return result;
}

static int write_value(arguments_t *a, PyObject *value, submitter_t *self, Py_ssize_t index,
                       PyObject *keyword) {
    if (core_ref_check(value)) {
        ref_object_t *ref = core_ref_of(value);
        return ref == NULL ? -1 : write_dep(a, ref->ref);
    }
    Py_ssize_t size = core_direct_size(value);
    if (size >= 0 && size <= INLINE_LIMIT) {
        if (!arguments_reserve(a, (size_t)size)) return -1;
        core_direct_write(value, a->data + a->size);
        a->size += (size_t)size;
        return 0;
    }
    char what[300];
    enum { MOST = 100 };
    const char *name = self->task.name ? self->task.name : "the call",
               *word = keyword ? PyUnicode_AsUTF8(keyword) : "";
    int name_size = (int)base_utf8_whole(name, strnlen(name, MOST)),
        word_size = (int)base_utf8_whole(word, strnlen(word, MOST));
    if (keyword != NULL)
        snprintf(what, sizeof what, "argument %.*s of %.*s", word_size, word, name_size, name);
    else
        snprintf(what, sizeof what, "argument %zd of %.*s", index, name_size, name);
    return size >= 0 || core_array_check(value) ? write_object(a, value, what)
                                                : write_pickle(a, value, what);
}

static int write_all(arguments_t *a, submitter_t *self, PyObject *const *args, Py_ssize_t nargs,
                     PyObject *kwnames) {
    uint32_t counts[2] = {(uint32_t)nargs, kwnames ? (uint32_t)PyTuple_GET_SIZE(kwnames) : 0};
    memcpy(a->data, counts, sizeof counts);
    a->size = sizeof counts;
    for (Py_ssize_t i = 0; i < nargs; i++)
        if (write_value(a, args[i], self, i, NULL) < 0) return -1;
    for (Py_ssize_t i = 0; i < counts[1]; i++) {
        PyObject *keyword = PyTuple_GET_ITEM(kwnames, i);
        Py_ssize_t size = core_direct_size(keyword);
        if (size < 0) {
            PyErr_SetString(PyExc_TypeError, "keywords must be strings");
            return -1;
        }
        if (!arguments_reserve(a, (size_t)size)) return -1;
        core_direct_write(keyword, a->data + a->size);
        a->size += (size_t)size;
        if (write_value(a, args[nargs + i], self, 0, keyword) < 0) return -1;
    }
    return 0;
}

/* ---- preparing ---- */

static long long number_of(PyObject *dict, const char *key, long long fallback) {
    PyObject *found = PyDict_GetItemString(dict, key);
    if (found == NULL || found == Py_None) return fallback;
    return PyLong_AsLongLong(found);
}

/* The reference of an ObjectRef; none for NULL and None. -1 with an exception. */
static int ref_take(PyObject *object, mob_ref_t *ret_ref) {
    if (object == NULL || object == Py_None) return 0;
    if (!core_ref_check(object)) {
        PyErr_Format(PyExc_TypeError, "an ObjectRef is wanted, not %s", Py_TYPE(object)->tp_name);
        return -1;
    }
    ref_object_t *ref = core_ref_of(object);
    if (ref != NULL) *ret_ref = ref->ref;
    return ref == NULL ? -1 : 0;
}

static int actor_take(PyObject *object, mob_ref_t *ret_ref) {
    if (object != NULL && core_ref_check(object) && core_actor_of(object) == NULL) return -1;
    return ref_take(object, ret_ref);
}

/* The shape of a demand, which may be missing. The caller holds the shape. */
static int shape_field(PyObject *dict, const char *key, uint32_t *ret_shape) {
    PyObject *demand = PyDict_GetItemString(dict, key);
    *ret_shape = MOB_SHAPE_NOTHING;
    PyObject *where = PyDict_GetItemString(dict, "where");
    return demand == NULL ? 0 : core_shape(demand, where, ret_shape);
}

static void shapes_drop(const mob_task_t *task) {
    mob_shape_drop(core.client, task->shape);
    mob_shape_drop(core.client, task->held_shape);
}

static void submitter_shapes_drop(const submitter_t *self) {
    if (core.client != NULL && self->stamp == core.stamp) shapes_drop(&self->task);
}

/* The name of a new actor, (namespace, name, detached, info), which may be missing. The strings are
 * views of the tuple. */
static int naming_read(PyObject *naming, mob_actor_name_t *ret_named) {
    PyObject *info;
    int detached;
    if (!PyArg_ParseTuple(naming, "sspO", &ret_named->name_space, &ret_named->name, &detached,
                          &info))
        return -1;
    ret_named->detached = detached;
    ret_named->info = (mob_ref_t){0};
    return ref_take(info, &ret_named->info);
}

static int submitter_prepare(submitter_t *self) {
    PyObject *dict = PyObject_CallNoArgs(self->prepare);
    if (dict == NULL) return -1;
    if (core.client == NULL) {
        Py_DECREF(dict);
        core_raise_ended();
        return -1;
    }
    int result = -1;
    mob_task_t task = {0};
    PyObject *name = PyDict_Check(dict) ? PyDict_GetItemString(dict, "name") : NULL;
    PyObject *function = PyDict_Check(dict) ? PyDict_GetItemString(dict, "function") : NULL;
    Py_ssize_t name_size = 0;
    const char *text =
        name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, &name_size) : NULL;
    if (text == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "prepare must return a dict with a name");
    } else if (ref_take(function, &task.function) == 0 &&
               actor_take(self->actor, &task.actor) == 0) {
        task.kind = (mob_kind_t)number_of(dict, "kind", 0);
        task.num_returns = (uint32_t)number_of(dict, "num_returns", 1);
        task.max_retries = (int32_t)number_of(dict, "max_retries", 0);
        task.max_calls = (uint32_t)number_of(dict, "max_calls", 0);
        task.max_concurrency = (uint32_t)number_of(dict, "max_concurrency", 0);
        task.group = (uint8_t)number_of(dict, "group", 0);
        task.untold = number_of(dict, "untold", 0) != 0;
        task.out_of_order = number_of(dict, "out_of_order", 0) != 0;
        PyObject *retry = PyDict_GetItemString(dict, "retry_exceptions");
        task.retry_exceptions = retry != NULL && PyObject_IsTrue(retry) == 1;
        PyObject *dynamic = PyDict_GetItemString(dict, "dynamic");
        task.dynamic = dynamic != NULL && PyObject_IsTrue(dynamic) == 1;
        PyObject *flows = PyDict_GetItemString(dict, "flows");
        self->flows = flows != NULL && PyObject_IsTrue(flows) == 1;
        self->limit = (uint32_t)number_of(dict, "limit", 0);
        PyObject *naming = PyDict_GetItemString(dict, "naming");
        if (naming != NULL && naming_read(naming, &self->named) < 0) {
            Py_DECREF(dict);
            return -1;
        }
        task.named = naming != NULL ? &self->named : NULL;
        Py_XSETREF(self->naming, Py_XNewRef(naming));
        Py_XSETREF(self->name, Py_NewRef(name));
        Py_XSETREF(self->function, Py_XNewRef(function));
        task.name = text;
        task.name_size = base_utf8_whole(text, name_size > 255 ? 255 : (size_t)name_size);
        if (!PyErr_Occurred() && shape_field(dict, "demand", &task.shape) == 0) {
            if (shape_field(dict, "held_demand", &task.held_shape) == 0) {
                submitter_shapes_drop(
                    self); /* another thread may have prepared it while Python code ran */
                self->task = task;
                self->stamp = core.stamp;
                self->capture = core.capture;
                result = 0;
            } else {
                shapes_drop(&task);
            }
        }
    }
    Py_DECREF(dict);
    return result;
}

/* ---- calling ---- */

static PyObject *submit_flow(const submitter_t *self, const mob_task_t *task, uint32_t site) {
    mob_flow_t flow;
    mob_status_t status;
    while ((status = mob_submit_flow(core.client, task, self->limit, &flow)) == MOB_ESPACE)
        if (core_space_wait() < 0) return NULL;
    if (status != MOB_OK) return core_raise(status);
    if (site != 0) mob_ref_made_at(core.client, flow.done, site);
    return core_flow_new(&flow, self->limit);
}

/* A name may have to be waited for: other threads go on. */
static mob_status_t task_submit(const mob_task_t *task, mob_ref_t *ret_refs) {
    mob_status_t status;
    if (task->named == NULL) return mob_submit(core.client, task, ret_refs);
    CORE_ALLOW_THREADS_BEGIN
    status = mob_submit(client, task, ret_refs);
    CORE_ALLOW_THREADS_END
    return status;
}

static PyObject *submit(submitter_t *self, arguments_t *a, uint32_t site) {
    mob_task_t task = self->task;
    task.args = a->data;
    task.args_size = a->size;
    task.deps = a->deps.items;
    task.dep_count = (uint32_t)a->deps.count;
    task.refs = a->refs.items;
    task.ref_count = (uint32_t)a->refs.count;
    if (core.is_worker && core.run == NULL) task.parent = core_run_current();
    if (self->flows) return submit_flow(self, &task, site);
    mob_ref_t few[4],
        *refs = task.num_returns <= 4 ? few : PyMem_Malloc(task.num_returns * sizeof *refs);
    if (refs == NULL) return PyErr_NoMemory();
    mob_status_t status;
    while ((status = task_submit(&task, refs)) == MOB_ESPACE)
        if (core_space_wait() < 0) break;
    for (uint32_t i = 0; status == MOB_OK && site != 0 && i < task.num_returns; i++)
        mob_ref_made_at(core.client, refs[i], site);
    PyObject *result = NULL;
    if (status == MOB_ESPACE) {
        /* its exception is set */
    } else if (status != MOB_OK) {
        core_raise(status);
    } else if (task.num_returns == 1) {
        result = core_ref_new(refs[0]);
    } else if (task.num_returns == 0) {
        result = Py_NewRef(Py_None);
    } else {
        result = PyList_New(task.num_returns);
        for (uint32_t i = 0; result != NULL && i < task.num_returns; i++) {
            PyObject *item = core_ref_new(refs[i]);
            if (item == NULL)
                Py_CLEAR(result);
            else
                PyList_SET_ITEM(result, i, item);
        }
    }
    if (refs != few) PyMem_Free(refs);
    return result;
}

static PyObject *submitter_call(PyObject *callable, PyObject *const *args, size_t nargsf,
                                PyObject *kwnames) {
    submitter_t *self = (submitter_t *)callable;
    Py_ssize_t nargs = PyVectorcall_NARGS(nargsf);
    if (kwnames != NULL && PyTuple_GET_SIZE(kwnames) == 0) kwnames = NULL;
    if (kwnames != NULL || nargs < self->least || (self->most >= 0 && nargs > self->most) ||
        (self->most >= 0 && self->least > self->most)) {
        PyObject *checked = PyObject_Vectorcall(self->bind, args, (size_t)nargs, kwnames);
        if (checked == NULL) return NULL;
        Py_DECREF(checked);
    }
    if (core.local != NULL)
        return core_local_submit(self->prepare, self->actor, args, nargs, kwnames);
    if (core.client == NULL &&
        (self->actor != NULL ? core_actor_of(self->actor) == NULL : !core_connected()))
        return NULL;
    uint32_t site = core_site();
    if (core.client == NULL) return core_raise_ended();
    if ((self->stamp != core.stamp || self->capture != core.capture) && submitter_prepare(self) < 0)
        return NULL;
    arguments_t a = {.stamp = core.stamp, .capacity = sizeof a.local};
    a.data = a.local;
    PyObject *result =
        write_all(&a, self, args, nargs, kwnames) == 0 ? submit(self, &a, site) : NULL;
    arguments_fini(&a);
    return result;
}

/* ---- the type ---- */

static PyObject *submitter_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *prepare, *bind, *actor = NULL;
    Py_ssize_t least, most;
    (void)kwargs;
    if (!PyArg_ParseTuple(args, "OOnn|O:Submitter", &prepare, &bind, &least, &most, &actor))
        return NULL;
    if (actor != NULL && !core_ref_check(actor))
        return PyErr_Format(PyExc_TypeError, "an actor is an ObjectRef");
    submitter_t *self = (submitter_t *)type->tp_alloc(type, 0);
    if (self == NULL) return NULL;
    self->vectorcall = submitter_call;
    self->prepare = Py_NewRef(prepare);
    self->bind = Py_NewRef(bind);
    self->actor = Py_XNewRef(actor);
    self->least = least;
    self->most = most;
    return (PyObject *)self;
}

static int submitter_traverse(submitter_t *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->prepare);
    Py_VISIT(self->bind);
    Py_VISIT(self->function);
    Py_VISIT(self->actor);
    return 0;
}

static int submitter_clear(submitter_t *self) {
    Py_CLEAR(self->prepare);
    Py_CLEAR(self->bind);
    Py_CLEAR(self->function);
    Py_CLEAR(self->actor);
    Py_CLEAR(self->name);
    Py_CLEAR(self->naming);
    return 0;
}

static void submitter_dealloc(submitter_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    submitter_clear(self);
    submitter_shapes_drop(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef submitter_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(submitter_t, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot submitter_slots[] = {
    {Py_tp_doc, "Starts a task or calls an actor; returns the reference to the result at once."},
    {Py_tp_new, submitter_new},
    {Py_tp_dealloc, submitter_dealloc},
    {Py_tp_traverse, submitter_traverse},
    {Py_tp_clear, submitter_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, submitter_members},
    {0, NULL},
};
static PyType_Spec submitter_spec = {.name = "ray._core.Submitter",
                                     .basicsize = sizeof(submitter_t),
                                     .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC |
                                              Py_TPFLAGS_HAVE_VECTORCALL,
                                     .slots = submitter_slots};

int core_submitter_ready(PyObject *module) {
    submitter_type = (PyTypeObject *)PyType_FromSpec(&submitter_spec);
    return submitter_type == NULL
               ? -1
               : PyModule_AddObjectRef(module, "Submitter", (PyObject *)submitter_type);
}
