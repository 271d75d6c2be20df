/*
 * Pin: a read-only view of shared memory. It keeps its object alive, and in its place, until the
 * last buffer over it is gone, also after the session has ended.
 */
#include "python/core.h"

typedef struct {
    PyObject_HEAD mob_client_t *client;
    mob_ref_t ref;
    const void *data;
    Py_ssize_t size;
} pin_object_t;

static PyTypeObject *pin_type;

PyObject *core_pin_new(mob_ref_t ref, const void *data, Py_ssize_t size) {
    pin_object_t *self = PyObject_New(pin_object_t, pin_type);
    if (self == NULL) return NULL;
    self->client = core.client;
    self->ref = ref;
    self->data = data;
    self->size = size;
    mob_view_hold(core.client);
    mob_ref_retain(core.client, ref);
    mob_get_keep(core.client, ref);
    return (PyObject *)self;
}

static void pin_dealloc(pin_object_t *self) {
    PyTypeObject *type = Py_TYPE(self);
    mob_get_end(self->client, self->ref, &(mob_value_t){.pinned = true});
    mob_ref_release(self->client, self->ref);
    mob_view_release(self->client);
    PyObject_Free(self);
    Py_DECREF(type);
}

static int pin_buffer(pin_object_t *self, Py_buffer *view, int flags) {
    return PyBuffer_FillInfo(view, (PyObject *)self, (void *)self->data, self->size, 1, flags);
}

static PyType_Slot pin_slots[] = {{Py_tp_doc, "A piece of an object in shared memory, kept alive."},
                                  {Py_tp_dealloc, pin_dealloc},
                                  {Py_bf_getbuffer, pin_buffer},
                                  {0, NULL}};
static PyType_Spec pin_spec = {.name = "ray._core.Pin",
                               .basicsize = sizeof(pin_object_t),
                               .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                               .slots = pin_slots};

int core_pin_ready(PyObject *module) {
    pin_type = (PyTypeObject *)PyType_FromSpec(&pin_spec);
    return pin_type == NULL ? -1 : PyModule_AddObjectRef(module, "Pin", (PyObject *)pin_type);
}
