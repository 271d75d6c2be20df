/*
 * A worker's loop: take a run, make its arguments, call, store the results, publish.
 *
 * The worker lets go of everything that belongs to a run (arguments, exception, traceback) before
 * it finishes the run. So only the references that outlive the run remain, and the client registers
 * them.
 *
 * Python (ray._private.concurrency) serves an actor that runs several calls at once, with threads
 * or an event loop. Each call is a Run there, see run.c.
 */
#include "python/core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

/* Set in a child that a run forks. To compare process ids would cost a system call for each run. */
static _Atomic bool forked;

static void on_fork_in_child(void) { atomic_store_explicit(&forked, true, memory_order_relaxed); }
static void install_fork_handler(void) { pthread_atfork(NULL, NULL, on_fork_in_child); }

static int gpus_set(uint64_t mask) {
    if (mask == core.gpu_mask) return 0;
    core.gpu_mask = mask;
    if (core.set_gpus == NULL) return 0;
    PyObject *list = PyList_New(0);
    for (int i = 0; list != NULL && i < 64; i++) {
        if (!(mask >> i & 1)) continue;
        PyObject *index = PyLong_FromLong(i);
        if (index == NULL || PyList_Append(list, index) < 0) Py_CLEAR(list);
        Py_XDECREF(index);
    }
    PyObject *done = list ? PyObject_CallOneArg(core.set_gpus, list) : NULL;
    Py_XDECREF(list);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Tells Python when a run's resources are not those of the last one. */
static int shape_set(const mob_run_t *run) {
    if (run->shape == core.shape || core.set_shape == NULL) return 0;
    core.shape = run->shape;
    PyObject *done = PyObject_CallFunction(core.set_shape, "I", run->shape);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

void core_name_unannounce(void) {
    PyObject *callable = core.on_next_name;
    if (callable == NULL) return;
    core.on_next_name = NULL;
    PyObject *done = PyObject_CallNoArgs(callable);
    if (done == NULL) PyErr_WriteUnraisable(callable);
    Py_XDECREF(done);
    Py_DECREF(callable);
}

PyObject *core_on_next_name(PyObject *module, PyObject *callable) {
    (void)module;
    Py_INCREF(callable);
    Py_XSETREF(core.on_next_name, callable);
    Py_RETURN_NONE;
}

static void run_name_set(const mob_run_t *run) {
    PyObject *name;
    if (run->kind == MOB_ACTOR_CALL && core.actor_class_name != NULL) {
        if (core.run_name == core.actor_class_name) return;
        name = Py_NewRef(core.actor_class_name);
    } else {
        /* Most runs have the name of the one before. */
        Py_ssize_t size;
        const char *last = core.run_name ? PyUnicode_AsUTF8AndSize(core.run_name, &size) : NULL;
        if (last != NULL && (size_t)size == run->name_size &&
            memcmp(last, run->name, run->name_size) == 0)
            return;
        name = PyUnicode_DecodeUTF8(run->name, (Py_ssize_t)run->name_size, "replace");
    }
    if (name == NULL) {
        PyErr_Clear();
        name = PyUnicode_FromString("?");
    }
    core_name_unannounce();
    Py_XSETREF(core.run_name, name);
}

PyObject *core_run_title(const mob_run_t *run) {
    if (run->kind == MOB_ACTOR_CREATE) return PyUnicode_FromFormat("%U.__init__", core.run_name);
    if (run->kind != MOB_ACTOR_CALL) return Py_NewRef(core.run_name);
    PyObject *name = PyUnicode_DecodeUTF8(run->name, (Py_ssize_t)run->name_size, "replace");
    PyObject *title = name ? PyUnicode_FromFormat("%U.%U", core.run_name, name) : NULL;
    Py_XDECREF(name);
    return title;
}

int core_run_prepare(const mob_run_t *run) {
    run_name_set(run);
    return run->kind == MOB_ACTOR_CALL || (shape_set(run) == 0 && gpus_set(run->gpu_mask) == 0)
               ? 0
               : -1;
}

PyObject *core_run_call(mob_run_t *run, PyObject **ret_callable, mob_value_t *ret_failed) {
    core_call_t call = {0};
    PyObject *value = NULL;
    if (core_run_prepare(run) == 0 && (*ret_callable = core_run_callable(run)) != NULL &&
        core_interruptible_begin(run) && core_call_make(run, &call) == 0)
        value = PyObject_Vectorcall(*ret_callable, call.values, call.positional, call.keywords);
    /* In an event loop others go on between two items: see ray._private.concurrency. */
    if (value != NULL && run->flows && PyThread_get_thread_ident() != core.loop_thread)
        value = core_items_drain(run, value);
    core.interruptible = NULL;
    *ret_failed = call.failed;
    core_call_fini(&call);
    return value;
}

/* What the actor calls itself, NEW; NULL: its class does not say, or fails to. */
static PyObject *own_repr(PyObject *actor) {
    if (Py_TYPE(actor)->tp_repr == PyBaseObject_Type.tp_repr) return NULL;
    PyObject *text = PyObject_Repr(actor);
    if (text == NULL) PyErr_Clear();
    return text;
}

/* What the actor's subprocesses print is to have its own name too, which only this worker knows. */
static void repr_announce(void) {
    if (core.actor_repr == NULL) return;
    PyObject *streams = PyImport_ImportModule("ray._private.streams");
    PyObject *done = streams ? PyObject_CallMethod(streams, "announce", NULL) : NULL;
    if (done == NULL) PyErr_WriteUnraisable(core.actor_repr);
    Py_XDECREF(done);
    Py_XDECREF(streams);
}

/* Stores what the run came to: a value, or NULL with an exception or a failed argument. True if the
 * task is to run again; *ret_story says why. */
static bool value_store(mob_run_t *run, PyObject *callable, PyObject *value,
                        const mob_value_t *failed, PyObject **ret_story) {
    bool stored = value != NULL && core_results_store(run, value) == 0;
    if (stored && run->kind == MOB_ACTOR_CREATE) {
        core.actor = Py_NewRef(value);
        core.actor_ref = run->actor;
        core.actor_class_name = Py_NewRef(core.run_name);
        core.actor_repr = own_repr(value);
        repr_announce();
        core.actor_shape = run->held_shape;
        core.actor_restarted = run->restarted;
    }
    if (failed->error != MOB_OK) {
        core_failed_argument_store(run, failed);
        stored = true;
    }
    Py_XDECREF(value);
    return !stored && core_exception_store(run, callable, ret_story);
}

/*
 * A child that the run forked came back from the run. The run is its parent's, and the child has no
 * store. Its program has nothing left to do, so it ends as a forked child of a driver does at the
 * end of the script: with 0, whatever it returned; with its traceback and 1; or as its sys.exit
 * says. Sets SystemExit for that.
 */
static void forked_child_leave(PyObject *value) {
    if (value == NULL && PyErr_ExceptionMatches(PyExc_SystemExit)) return;
    if (PyErr_Occurred()) PyErr_Print();
    PyObject *status = PyLong_FromLong(value == NULL);
    PyErr_SetObject(PyExc_SystemExit, status);
    Py_XDECREF(status);
    Py_XDECREF(value);
}

static bool run_again(mob_run_t *run, PyObject *story) {
    Py_ssize_t size = 0;
    const char *text = story != NULL ? PyUnicode_AsUTF8AndSize(story, &size) : NULL;
    PyErr_Clear();
    return mob_run_retry(core.client, run, text, text ? (size_t)size : 0);
}

bool core_run_end(mob_run_t *run, PyObject *callable, PyObject *value, const mob_value_t *failed) {
    if (atomic_load_explicit(&forked, memory_order_relaxed)) {
        forked_child_leave(value);
        Py_XDECREF(callable);
        return false;
    }
    /* The call stays without a result: the daemon gives it one when the process is gone, and so it
     * does for the actor's other calls. */
    bool ends = value == NULL && (run->kind == MOB_ACTOR_CALL || core.cut_off) &&
                PyErr_ExceptionMatches(PyExc_SystemExit);
    PyObject *story = NULL;
    bool again = !ends && value_store(run, callable, value, failed, &story);
    Py_XDECREF(callable);
    if (core.run == run) core.run = NULL;
    if (ends) return false;
    if (!again || !run_again(run, story)) mob_run_finish(core.client, run);
    Py_XDECREF(story);
    return true;
}

static bool run_whole(mob_run_t *run) {
    PyObject *callable = NULL;
    mob_value_t failed;
    PyObject *value = core_run_call(run, &callable, &failed);
    return core_run_end(run, callable, value, &failed);
}

mob_run_t *core_run_take(void) {
    for (;;) {
        mob_run_t *run;
        /* A run that is there is taken with the interpreter's lock held: other threads get the lock
         * while Python code runs. */
        mob_status_t status = mob_run_try(core.client, &run);
        if (status == MOB_ETIMEOUT || status == MOB_ELIMIT) {
            Py_BEGIN_ALLOW_THREADS status = mob_run_next(core.client, &run);
            Py_END_ALLOW_THREADS
        }
        if (status == MOB_EINTR) {
            if (PyErr_CheckSignals() < 0) return NULL;
            continue;
        }
        if (status != MOB_OK) return NULL;
        if (run->kind != MOB_FORGET) return run;
        core_function_forget(run);
        core_native_forget(run);
    }
}

PyObject *core_serve(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handler);
    for (mob_run_t *run; (run = core_run_take()) != NULL;) {
        core.run = run;
        if (core_native_run(run)) continue;
        if (run->max_concurrency > 0) {
            core.run = NULL;
            return core_run_new(run);
        }
        if (!run_whole(run)) return NULL;
    }
    core_native_end();
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* ---- looking at it ---- */

PyObject *core_current_name(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *name = core.actor_repr ? core.actor_repr : core.run_name;
    return Py_NewRef(name ? name : Py_None);
}

PyObject *core_actor(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return Py_NewRef(core.actor ? core.actor : Py_None);
}

PyObject *core_id_text(mob_ref_t ref) {
    uint8_t id[MOB_ID_SIZE];
    char text[2 * MOB_ID_SIZE + 1];
    if (ref.slot == 0 || core.client == NULL) return Py_NewRef(Py_None);
    mob_ref_id(core.client, ref, id);
    for (int i = 0; i < MOB_ID_SIZE; i++) snprintf(text + 2 * i, 3, "%02x", id[i]);
    return PyUnicode_FromString(text);
}

PyObject *core_task_id_text(const mob_run_t *run) {
    mob_ref_t task = run ? run->task_id : (mob_ref_t){0};
    if (run) task.slot |= 1u << 31; /* a task's ids are not those of objects */
    return core_id_text(task);
}

PyObject *core_current(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    PyObject *gpus = PyList_New(0);
    for (int i = 0; gpus != NULL && i < 64; i++) {
        PyObject *index = core.gpu_mask >> i & 1 ? PyLong_FromLong(i) : NULL;
        if (index != NULL && PyList_Append(gpus, index) < 0) Py_CLEAR(gpus);
        Py_XDECREF(index);
    }
    if (gpus == NULL) return NULL;
    if (core.client == NULL) {
        Py_DECREF(gpus);
        return core_raise(MOB_ESTALE);
    }
    mob_session_t session;
    mob_client_session(core.client, &session);
    const mob_run_t *running = core.run ? core.run : core_run_current();
    bool creates = running != NULL && running->kind == MOB_ACTOR_CREATE;
    char node[17], job[9], worker[25];
    snprintf(node, sizeof node, "%016llx", (unsigned long long)session.incarnation);
    snprintf(job, sizeof job, "%08x", __builtin_bswap32(session.job)); /* as Ray writes it */
    snprintf(worker, sizeof worker, "%.16s%08x", node, session.epoch);
    uint32_t shape = core.actor ? core.actor_shape : running ? running->shape : 0;
    PyObject *name = running != NULL ? core_run_title(running) : Py_NewRef(Py_None);
    PyObject *function = running != NULL && running->kind == MOB_TASK ? core_run_callable(running)
                                                                      : Py_NewRef(Py_None);
    bool restarted = creates ? running->restarted : core.actor_restarted;
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:N,s:N,s:s,s:s,s:s,s:N,s:O}", "task_id", core_task_id_text(running),
        "actor_id", core_id_text(creates ? running->actor : core.actor_ref), "name", name,
        "function", function, "gpu_ids", gpus, "node_id", node, "job_id", job, "worker_id", worker,
        "resources", core_shape_dict(shape), "restarted", restarted ? Py_True : Py_False);
}
