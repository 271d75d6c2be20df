/* ObjectRef: one count of an object in the store, as a Python object. */
#include "python/core.h"

#include <string.h>
#include <structmember.h>

static PyTypeObject *ref_type;
static PyObject *restore_function;
static _Thread_local collector_t *collectors;

PyObject *core_ref_new(mob_ref_t ref) {
    ref_object_t *self = PyObject_New(ref_object_t, ref_type);
    if (self == NULL) {
        mob_ref_release(core.client, ref);
        return NULL;
    }
    self->ref = ref;
    self->incarnation = core.incarnation;
    self->stamp = core.stamp;
    self->weak_refs = NULL;
    self->local = NULL;
    return (PyObject *)self;
}

PyObject *core_ref_local(PyObject *cell, mob_ref_t ref, uint64_t home) {
    ref_object_t *self = PyObject_New(ref_object_t, ref_type);
    if (self == NULL) return NULL;
    *self = (ref_object_t){.ob_base = self->ob_base, .ref = ref, .incarnation = home};
    self->local = Py_NewRef(cell);
    return (PyObject *)self;
}

bool core_ref_check(PyObject *object) { return Py_TYPE(object) == ref_type; }

/* Raises the error of this code; NULL. */
static void *fail(const char *code, const char *words) {
    PyObject *error =
        core.load_error ? PyObject_CallFunction(core.load_error, "ss", code, words) : NULL;
    if (error != NULL) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    return NULL;
}

static ref_object_t *ref_of(PyObject *object, const char *code, const char *words) {
    ref_object_t *self = (ref_object_t *)object;
    if (core.client != NULL && self->stamp == core.stamp) return self;
    return core_exit_raises() ? NULL : fail(code, words);
}

ref_object_t *core_ref_of(PyObject *object) {
    return ref_of(object, "stale",
                  "this reference is from before a ray.shutdown(): refs and actor handles do not "
                  "outlive their session");
}

ref_object_t *core_actor_of(PyObject *object) {
    return ref_of(
        object, "stale_actor",
        "this actor's handle is from before a ray.shutdown(), and the job that it belongs "
        "to has ended. An actor that has a name and lives on is found by ray.get_actor");
}

static void ref_dealloc(ref_object_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    if (self->weak_refs != NULL) PyObject_ClearWeakRefs((PyObject *)self);
    if (core.client != NULL && self->stamp == core.stamp) mob_ref_release(core.client, self->ref);
    Py_XDECREF(self->local);
    PyObject_Free(self);
    Py_DECREF(type);
}

static void ref_id(const ref_object_t *self, uint8_t id[MOB_ID_SIZE]) {
    if (self->local == NULL && core.client != NULL && self->stamp == core.stamp) {
        mob_ref_id(core.client, self->ref, id);
        return;
    }
    for (int i = 0; i < 8; i++) id[i] = (uint8_t)(self->incarnation >> (56 - 8 * i));
    for (int i = 0; i < 4; i++) id[8 + i] = (uint8_t)(self->ref.slot >> (24 - 8 * i));
    for (int i = 0; i < 8; i++) id[12 + i] = (uint8_t)(self->ref.generation >> (56 - 8 * i));
}

static PyObject *ref_binary(ref_object_t *self, PyObject *unused) {
    (void)unused;
    uint8_t id[MOB_ID_SIZE];
    ref_id(self, id);
    return PyBytes_FromStringAndSize((char *)id, sizeof id);
}

static PyObject *ref_hex(ref_object_t *self, PyObject *unused) {
    (void)unused;
    static const char digits[] = "0123456789abcdef";
    uint8_t id[MOB_ID_SIZE];
    char text[2 * MOB_ID_SIZE];
    ref_id(self, id);
    for (int i = 0; i < MOB_ID_SIZE; i++) {
        text[2 * i] = digits[id[i] >> 4];
        text[2 * i + 1] = digits[id[i] & 15];
    }
    return PyUnicode_FromStringAndSize(text, sizeof text);
}

static PyObject *ref_repr(ref_object_t *self) {
    PyObject *hex = ref_hex(self, NULL);
    if (hex == NULL) return NULL;
    PyObject *text = PyUnicode_FromFormat("ObjectRef(%U)", hex);
    Py_DECREF(hex);
    return text;
}

static Py_hash_t ref_hash(ref_object_t *self) {
    uint64_t h = (self->ref.generation * 0x9e3779b97f4a7c15u) ^
                 ((uint64_t)self->ref.slot * 0xff51afd7ed558ccdu) ^ self->incarnation;
    h ^= h >> 29;
    return (Py_hash_t)h == -1 ? -2 : (Py_hash_t)h;
}

static PyObject *ref_compare(PyObject *a, PyObject *b, int op) {
    if (!core_ref_check(a) || !core_ref_check(b) || (op != Py_EQ && op != Py_NE))
        Py_RETURN_NOTIMPLEMENTED;
    ref_object_t *x = (ref_object_t *)a, *y = (ref_object_t *)b;
    bool same = x->ref.slot == y->ref.slot && x->ref.generation == y->ref.generation &&
                x->incarnation == y->incarnation;
    return PyBool_FromLong(same == (op == Py_EQ));
}

void core_collector_push(collector_t *c) {
    memset(c, 0, sizeof *c);
    c->outer = collectors;
    collectors = c;
}

bool core_is_collecting(void) { return collectors != NULL; }

void core_collector_pop(collector_t *c) {
    if (collectors == c) collectors = c->outer;
    vec_free(&c->refs);
    Py_CLEAR(c->keep);
}

/* The daemon does not see where the bytes go, so the object is kept until this process's job ends.
 */
static PyObject *reduce_by_itself(ref_object_t *self) {
    if (core_ref_of((PyObject *)self) == NULL) return NULL;
    mob_ref_keep(core.client, self->ref);
    PyObject *id = ref_binary(self, NULL);
    return id ? Py_BuildValue("O(N)", restore_function, id) : NULL;
}

/* The cell is told, so that whatever the bytes become holds it. */
static PyObject *reduce_local(ref_object_t *self) {
    PyObject *met = PyObject_CallMethod(self->local, "met", NULL);
    PyObject *id = met ? ref_binary(self, NULL) : NULL;
    Py_XDECREF(met);
    return id ? Py_BuildValue("O(N)", restore_function, id) : NULL;
}

static PyObject *ref_reduce(ref_object_t *self, PyObject *unused) {
    (void)unused;
    collector_t *c = collectors;
    if (self->local != NULL) return reduce_local(self);
    if (c == NULL) return reduce_by_itself(self);
    if (core_ref_of((PyObject *)self) == NULL) return NULL;
    if (c->keep == NULL && (c->keep = PyList_New(0)) == NULL) return NULL;
    if (PyList_Append(c->keep, (PyObject *)self) < 0) return NULL;
    if (!vec_push(&c->refs, self->ref)) return PyErr_NoMemory();
    PyObject *id = ref_binary(self, NULL);
    return id ? Py_BuildValue("O(N)", restore_function, id) : NULL;
}

/* While a value is unpacked its container holds the objects that it names, so it is safe to take
 * another count. */
PyObject *core_ref_restore(PyObject *module, PyObject *id) {
    (void)module;
    mob_ref_t ref;
    if (!PyBytes_Check(id) || PyBytes_GET_SIZE(id) != MOB_ID_SIZE) {
        PyErr_SetString(PyExc_TypeError, "an id has 20 bytes");
        return NULL;
    }
    if (core.local != NULL) return core_local_call("restore", &id, 1, NULL);
    if (core.client == NULL) return core_raise(MOB_ESTALE);
    mob_status_t status =
        mob_ref_from_id(core.client, (const uint8_t *)PyBytes_AS_STRING(id), &ref);
    return status == MOB_OK ? core_ref_count(ref) : core_raise(status);
}

PyObject *core_ref_count(mob_ref_t ref) {
    mob_status_t status = mob_ref_restore(core.client, ref);
    if (status == MOB_ESTALE)
        return fail("owner_died", "the object of this reference is gone: the job that pickled the "
                                  "reference has ended, and no other one holds the object");
    return status == MOB_OK ? core_ref_new(ref) : core_raise(status);
}

/* Whether the task that makes this object is not done. Any reference will do, also an old one. */
PyObject *core_is_pending(PyObject *module, PyObject *object) {
    (void)module;
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "is_pending takes what ref_key gives");
        return NULL;
    }
    mob_ref_t ref = {0};
    unsigned long long generation, stamp;
    if (!PyArg_ParseTuple(object, "IKK", &ref.slot, &generation, &stamp)) return NULL;
    ref.generation = generation;
    return PyBool_FromLong(core.client != NULL && stamp == core.stamp &&
                           mob_ref_is_pending(core.client, ref));
}

/* Names the object without holding it, for is_pending. */
static PyObject *ref_key(ref_object_t *self, PyObject *unused) {
    (void)unused;
    return Py_BuildValue("IKK", self->ref.slot, (unsigned long long)self->ref.generation,
                         (unsigned long long)self->stamp);
}

static PyObject *ref_is_nil(ref_object_t *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(self->ref.slot == 0);
}

static PyObject *ref_nil(PyObject *type, PyObject *unused) {
    (void)type, (void)unused;
    return core_ref_new((mob_ref_t){0});
}

static PyObject *ref_size(PyObject *type, PyObject *unused) {
    (void)type, (void)unused;
    return PyLong_FromLong(MOB_ID_SIZE);
}

/* A reference can't be changed, so it is its own copy. */
static PyObject *ref_copy(PyObject *self, PyObject *unused) {
    (void)unused;
    return Py_NewRef(self);
}

static PyObject *ref_no_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    (void)type, (void)args, (void)kwargs;
    PyErr_SetString(PyExc_TypeError, "an ObjectRef comes from ray.put or from a task");
    return NULL;
}

static PyObject *ref_future(ref_object_t *self, PyObject *unused) {
    (void)unused;
    if (self->local != NULL) return PyObject_CallMethod(self->local, "future", NULL);
    return core_ref_of((PyObject *)self) ? PyObject_CallOneArg(core.future_of, (PyObject *)self)
                                         : NULL;
}

static PyObject *ref_await(PyObject *self) {
    PyObject *local = ((ref_object_t *)self)->local;
    if (local != NULL) return PyObject_CallMethod(local, "awaited", NULL);
    return core_ref_of(self) ? PyObject_CallOneArg(core.await_ref, self) : NULL;
}

static PyMethodDef ref_methods[] = {
    {"future", (PyCFunction)ref_future, METH_NOARGS, "A concurrent.futures.Future of its value."},
    {"hex", (PyCFunction)ref_hex, METH_NOARGS, "The id as 40 hexadecimal digits."},
    {"binary", (PyCFunction)ref_binary, METH_NOARGS, "The id as 20 bytes."},
    {"is_nil", (PyCFunction)ref_is_nil, METH_NOARGS, "Whether it names no object."},
    {"nil", ref_nil, METH_NOARGS | METH_CLASS, "A reference that names no object."},
    {"size", ref_size, METH_NOARGS | METH_CLASS, "How many bytes an id has."},
    {"_key", (PyCFunction)ref_key, METH_NOARGS, NULL},
    {"__bytes__", (PyCFunction)ref_binary, METH_NOARGS, NULL},
    {"__copy__", ref_copy, METH_NOARGS, NULL},
    {"__deepcopy__", ref_copy, METH_O, NULL},
    {"__reduce__", (PyCFunction)ref_reduce, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef ref_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ref_object_t, weak_refs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot ref_slots[] = {
    {Py_tp_doc, "A reference to an object that is there, or will be: ray.get() waits for it and "
                "gives its value.\n\n"
                "    ref = square.remote(3)\n"
                "    print(ray.get(ref))                 # or, in async code, await ref\n"
                "    print(ray.get(square.remote(ref)))  # an argument that is made by a task"},
    {Py_tp_dealloc, ref_dealloc},
    {Py_tp_repr, ref_repr},
    {Py_tp_hash, ref_hash},
    {Py_tp_richcompare, ref_compare},
    {Py_tp_methods, ref_methods},
    {Py_tp_members, ref_members},
    {Py_tp_new, ref_no_new},
    {Py_am_await, ref_await},
    {0, NULL},
};
static PyType_Spec ref_spec = {.name = "ray.ObjectRef",
                               .basicsize = sizeof(ref_object_t),
                               .flags = Py_TPFLAGS_DEFAULT,
                               .slots = ref_slots};

int core_ref_ready(PyObject *module) {
    ref_type = (PyTypeObject *)PyType_FromSpec(&ref_spec);
    if (ref_type == NULL || PyModule_AddObjectRef(module, "ObjectRef", (PyObject *)ref_type) < 0)
        return -1;
    restore_function = PyObject_GetAttrString(module, "_restore");
    return restore_function == NULL ? -1 : 0;
}
