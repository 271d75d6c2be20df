/* Placement groups: made, found, removed; and where demands are met. */
#include "python/core.h"

#include <string.h>

/* The reference that 20 bytes name; -1 with an exception. */
static int id_read(PyObject *id, mob_ref_t *ret_ref) {
    if (!PyBytes_Check(id) || PyBytes_GET_SIZE(id) != MOB_ID_SIZE) {
        PyErr_SetString(PyExc_TypeError, "an id has 20 bytes");
        return -1;
    }
    const uint8_t *bytes = (const uint8_t *)PyBytes_AS_STRING(id);
    mob_status_t status;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_group_from_id(client, bytes, ret_ref);
    CORE_ALLOW_THREADS_END
    if (status == MOB_OK) return 0;
    core_raise(status);
    return -1;
}

/* create_group(spec, naming): the reference that is there once the group is placed. `spec`: a
 * mob_group_t and what follows it; `naming`: (namespace, name), or None. */
PyObject *core_create_group(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *naming;
    Py_buffer spec;
    mob_actor_name_t named = {0};
    if (!PyArg_ParseTuple(args, "y*O:create_group", &spec, &naming)) return NULL;
    mob_task_t task = {.kind = MOB_GROUP,
                       .num_returns = 1,
                       .name = "",
                       .args = spec.buf,
                       .args_size = (size_t)spec.len};
    mob_status_t status = MOB_ESPACE;
    mob_ref_t ref;
    bool fine =
        core_connected() &&
        (naming == Py_None || PyArg_ParseTuple(naming, "ss", &named.name_space, &named.name));
    if (fine && naming != Py_None) task.named = &named;
    while (fine && (status = mob_submit(core.client, &task, &ref)) == MOB_ESPACE)
        fine = core_space_wait() == 0;
    PyBuffer_Release(&spec);
    if (!fine) return NULL;
    return status == MOB_OK ? core_ref_new(ref) : core_raise(status);
}

/* remove_group(id) */
PyObject *core_remove_group(PyObject *module, PyObject *id) {
    (void)module;
    mob_ref_t ref;
    if (!core_connected() || id_read(id, &ref) < 0) return NULL;
    mob_status_t status = mob_group_remove(core.client, ref);
    if (status != MOB_OK) return core_raise(status);
    Py_RETURN_NONE;
}

/* find_group(namespace, name): its reference */
PyObject *core_find_group(PyObject *module, PyObject *args) {
    (void)module;
    const char *space, *name;
    mob_ref_t ref;
    mob_status_t status;
    if (!PyArg_ParseTuple(args, "ss:find_group", &space, &name) || !core_connected()) return NULL;
    CORE_ALLOW_THREADS_BEGIN
    status = mob_group_find(client, space, name, &ref);
    CORE_ALLOW_THREADS_END
    return status == MOB_OK ? core_ref_new(ref) : core_raise(status);
}

/* groups(id): rows of this placement group, perhaps of others, too; of all for None. */
PyObject *core_groups(PyObject *module, PyObject *id) {
    (void)module;
    mob_ref_t ref = {0};
    if (!core_connected() || (id != Py_None && id_read(id, &ref) < 0)) return NULL;
    return core_ask(MOB_QUERY_GROUPS, ref.slot);
}

/* restore_group(id): the reference that is there once the group is placed. */
PyObject *core_restore_group(PyObject *module, PyObject *id) {
    (void)module;
    mob_ref_t ref;
    if (!core_connected() || id_read(id, &ref) < 0) return NULL;
    return core_ref_count(ref);
}

/* shape_where(shape): (id, bundle, flags) of the group that the demand is met in, or (). */
PyObject *core_shape_where(PyObject *module, PyObject *shape) {
    (void)module;
    unsigned long number = PyLong_AsUnsignedLong(shape);
    if (PyErr_Occurred() || !core_connected()) return NULL;
    return number <= MOB_SHAPE_ONE_CPU ? PyTuple_New(0) : core_ask(MOB_QUERY_WHERE, number);
}

/* labels(): the node's, key=value,... */
PyObject *core_labels(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return core_connected() ? core_ask(MOB_QUERY_LABELS, 0) : NULL;
}

/* current_shape(): what the actor holds, or the run of this thread was given; 0 outside of one. */
PyObject *core_current_shape(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    const mob_run_t *running = core.run ? core.run : core_run_current();
    uint32_t shape = core.actor ? core.actor_shape : running ? running->shape : 0;
    return PyLong_FromUnsignedLong(shape);
}

/* set_capture(number): what is submitted from now on is met elsewhere than what was submitted under
 * another number. */
PyObject *core_set_capture(PyObject *module, PyObject *number) {
    (void)module;
    unsigned long capture = PyLong_AsUnsignedLong(number);
    if (PyErr_Occurred()) return NULL;
    core.capture = (uint32_t)capture;
    Py_RETURN_NONE;
}

int core_where(PyObject *where, mob_where_t *ret_where) {
    PyObject *id, *selector;
    *ret_where = (mob_where_t){.bundle = -1};
    if (where == NULL || where == Py_None) return 0;
    if (!PyArg_ParseTuple(where, "OiIOIi", &id, &ret_where->bundle, &ret_where->flags, &selector,
                          &ret_where->environment, &ret_where->priority))
        return -1;
    if (id != Py_None && id_read(id, &ret_where->group) < 0) return -1;
    if (selector == Py_None) return 0;
    ret_where->selector = PyUnicode_AsUTF8(selector);
    return ret_where->selector == NULL ? -1 : 0;
}
