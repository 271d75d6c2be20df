/*
 * ray.cancel, and tasks of this worker that are cancelled.
 *
 * A signal says that something was (src/node/cancel.c). Python calls its handler between two steps
 * of the first thread, which runs the tasks: there interrupt() compares what was cancelled with
 * what runs, and the handler raises KeyboardInterrupt if they are the same. It does so only while
 * the task's own code runs (core.interruptible): a KeyboardInterrupt in the code around it would
 * hit the worker. One that comes before that is kept for the beginning of it; one that comes after
 * is too late, and the task has its result.
 *
 * Methods of actors are not interrupted. They ask (is_cancelled), or the event loop is told, which
 * cancels the call's asyncio task (waker.c).
 */
#include "python/core.h"

/* cancel(ref, force, recursive) */
PyObject *core_cancel(PyObject *module, PyObject *args) {
    (void)module;
    PyObject *object;
    int force, recursive;
    if (!PyArg_ParseTuple(args, "Opp:cancel", &object, &force, &recursive)) return NULL;
    ref_object_t *ref = core_ref_of(object);
    if (ref == NULL) return NULL;
    mob_status_t status = mob_cancel(core.client, ref->ref, force, recursive);
    if (status != MOB_OK) return core_raise(status);
    Py_RETURN_NONE;
}

bool core_interruptible_begin(mob_run_t *run) {
    if (run->kind != MOB_TASK) return true;
    core.interruptible = run;
    if (!core.interrupt_waits) return true;
    core.interrupt_waits = false;
    if (!mob_run_interrupt(core.client, run)) return true;
    core.interruptible = NULL;
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    return false;
}

/* interrupt(): for the handler of CANCEL_SIGNAL. Whether what runs now is to be broken off. */
PyObject *core_interrupt(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (core.client == NULL) Py_RETURN_FALSE;
    if (core.interruptible == NULL) {
        core.interrupt_waits = true;
        Py_RETURN_FALSE;
    }
    return PyBool_FromLong(mob_run_interrupt(core.client, core.interruptible));
}

/* is_cancelled(): whether the run that asks was. As Ray's, not for async actors. */
PyObject *core_is_cancelled(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (core.loop_thread != 0)
        return PyErr_Format(PyExc_RuntimeError,
                            "is_canceled() is not for async actors: a method that was cancelled "
                            "gets asyncio.CancelledError");
    mob_run_t *run = core.run ? core.run : core_run_current();
    return PyBool_FromLong(run != NULL && core.client != NULL &&
                           mob_run_is_cancelled(core.client, run));
}

bool core_is_cancellation(mob_run_t *run, PyObject *error) {
    if (!mob_run_is_cancelled(core.client, run)) return false;
    PyObject *errors = PyImport_ImportModule("ray._private.errors");
    PyObject *answer = errors ? PyObject_CallMethod(errors, "is_cancellation", "O", error) : NULL;
    bool is = answer == Py_True;
    Py_XDECREF(answer);
    Py_XDECREF(errors);
    PyErr_Clear();
    return is;
}

PyObject *core_cancelled_words(const mob_run_t *run) {
    mob_ref_t id = run->task_id;
    id.slot |= 1u << 31; /* a task's ids are not those of objects */
    PyObject *text = core_id_text(id), *title = core_run_title(run), *words = NULL;
    if (text != NULL && title != NULL)
        words = PyUnicode_FromFormat("Task: TaskID(%U) was cancelled. %U was running", text, title);
    Py_XDECREF(text);
    Py_XDECREF(title);
    return words;
}

void core_interrupt_note(PyObject *refs) {
    if (core.is_worker || !PyErr_ExceptionMatches(PyExc_KeyboardInterrupt)) return;
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    PyObject *module = PyImport_ImportModule("ray._private.object_ref");
    PyObject *done = module ? PyObject_CallMethod(module, "interrupted", "OO", refs, error) : NULL;
    Py_XDECREF(done);
    Py_XDECREF(module);
    PyErr_Clear();
    PyErr_Restore(type, error, trace);
}
