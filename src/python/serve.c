/*
 * A worker's loop: take a job, make its arguments, call, store the results, publish.
 *
 * Everything that belongs to a job (arguments, exception, traceback) is let go before it is finished, so that what remains are the references that
 * outlive it, which the client then registers.
 */
#include "python/core.h"

#include <string.h>
#include <unistd.h>

/* dict: a function's id to (callable, its ObjectRef). Holding the reference makes the daemon tell us when nobody else needs the function any more. */
static PyObject *functions;

static PyObject *function_key(mob_ref_t ref) {
    return PyLong_FromUnsignedLongLong((unsigned long long)ref.generation << 24 | ref.slot);
}

/* The job's function or class, loaded once. BORROWED */
static PyObject *job_function(const mob_job_t *job) {
    PyObject *key = function_key(job->function);
    if (key == NULL) return NULL;
    PyObject *found = PyDict_GetItemWithError(functions, key);
    mob_value_t value;
    if (found == NULL && !PyErr_Occurred()) {
        mob_status_t status = mob_get_peek(core.client, job->function, &value);
        PyObject *definition = status == MOB_OK ? core_value_load(job->function, &value) : core_raise(status);
        PyObject *ref = NULL;
        if (definition != NULL) {
            mob_ref_retain(core.client, job->function);
            ref = core_ref_new(job->function);
        }
        PyObject *loaded = ref != NULL ? PyObject_CallFunctionObjArgs(core.load_function, definition, ref, NULL) : NULL;
        PyObject *entry = loaded != NULL ? PyTuple_Pack(2, loaded, ref) : NULL;
        if (entry != NULL && PyDict_SetItem(functions, key, entry) == 0) found = entry;
        Py_XDECREF(entry);
        Py_XDECREF(loaded);
        Py_XDECREF(ref);
        Py_XDECREF(definition);
    }
    Py_DECREF(key);
    return found != NULL ? PyTuple_GET_ITEM(found, 0) : NULL;
}

/* What a job calls, NEW. */
static PyObject *job_callable(const mob_job_t *job) {
    if (job->kind != MOB_ACTOR_CALL) return Py_XNewRef(job_function(job));
    if (core.actor == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "this worker has no actor");
        return NULL;
    }
    PyObject *name = PyUnicode_FromStringAndSize(job->name, (Py_ssize_t)job->name_size);
    if (name == NULL) return NULL;
    PyUnicode_InternInPlace(&name);
    PyObject *method = PyObject_GetAttr(core.actor, name);
    Py_DECREF(name);
    return method;
}

/* ---- arguments ---- */

typedef struct {
    PyObject **values;
    size_t count; /* made so far */
    size_t positional;
    PyObject *keywords;
    mob_value_t failed; /* an argument that is an error: failed.error is set */
} call_t;

static PyObject *dep_load(const mob_job_t *job, uint32_t index, call_t *call) {
    mob_value_t value;
    if (index >= job->dep_count) {
        PyErr_SetString(PyExc_ValueError, "a call names an argument that it does not have");
        return NULL;
    }
    mob_status_t status = mob_get_peek(core.client, job->deps[index], &value);
    if (status != MOB_OK) return core_raise(status);
    if (value.error != MOB_OK) {
        call->failed = value;
        return NULL;
    }
    return core_value_load(job->deps[index], &value);
}

static PyObject *argument_read(const mob_job_t *job, const uint8_t **at, const uint8_t *end, call_t *call) {
    if (*at < end && **at == MOB_ARG_DEP && end - *at >= 5) {
        uint32_t index;
        memcpy(&index, *at + 1, 4);
        *at += 5;
        return dep_load(job, index, call);
    }
    if (*at < end && **at == MOB_ARG_PICKLE && end - *at >= 9) {
        uint64_t size;
        memcpy(&size, *at + 1, 8);
        if (size > (uint64_t)(end - *at - 9)) {
            PyErr_SetString(PyExc_ValueError, "an argument is cut short");
            return NULL;
        }
        PyObject *stream = PyMemoryView_FromMemory((char *)*at + 9, (Py_ssize_t)size, PyBUF_READ);
        *at += 9 + size;
        if (stream == NULL) return NULL;
        PyObject *loaded = PyObject_CallOneArg(core.loads, stream);
        Py_DECREF(stream);
        return loaded;
    }
    return core_direct_read(at, end);
}

static void call_fini(call_t *call) {
    for (size_t i = 0; i < call->count; i++) Py_DECREF(call->values[i]);
    PyMem_Free(call->values);
    Py_XDECREF(call->keywords);
}

static int call_make(const mob_job_t *job, call_t *call) {
    const uint8_t *at = job->args, *end = at + job->args_size;
    uint32_t counts[2];
    if (job->args_size < sizeof counts) {
        PyErr_SetString(PyExc_ValueError, "a call without its counts");
        return -1;
    }
    memcpy(counts, at, sizeof counts);
    at += sizeof counts;
    if ((uint64_t)counts[0] + counts[1] > job->args_size) {
        PyErr_SetString(PyExc_ValueError, "a call with impossible counts");
        return -1;
    }
    call->positional = counts[0];
    call->values = PyMem_Malloc((counts[0] + counts[1] + 1) * sizeof *call->values);
    if (call->values == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (counts[1] > 0 && (call->keywords = PyTuple_New(counts[1])) == NULL) return -1;
    for (uint32_t i = 0; i < counts[0] + counts[1]; i++) {
        if (i >= counts[0]) {
            PyObject *keyword = core_direct_read(&at, end);
            if (keyword == NULL || !PyUnicode_Check(keyword)) {
                Py_XDECREF(keyword);
                if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "a keyword that is no str");
                return -1;
            }
            PyUnicode_InternInPlace(&keyword);
            PyTuple_SET_ITEM(call->keywords, i - counts[0], keyword);
        }
        PyObject *value = argument_read(job, &at, end, call);
        if (value == NULL) return -1;
        call->values[call->count++] = value;
    }
    return 0;
}

/* ---- results ---- */

static int result_store(uint32_t index, PyObject *value, const mob_job_t *job) {
    char what[300] = "";
    if (core_direct_size(value) < 0) /* only what is pickled may have to be named in an error */
        snprintf(what, sizeof what, "the result of %.*s", (int)job->name_size, job->name);
    core_target_t target = {.is_result = true, .index = index};
    return core_value_store(value, what, &target);
}

static int results_store(const mob_job_t *job, PyObject *value) {
    if (job->kind == MOB_ACTOR_CREATE) return result_store(0, Py_None, job);
    if (job->num_returns == 0) return 0;
    if (job->num_returns == 1) return result_store(0, value, job);
    PyObject *items = PySequence_Fast(value, "");
    if (items == NULL) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError, "num_returns is %u, but the task returned %s, not a sequence of as many",
                     job->num_returns, Py_TYPE(value)->tp_name);
        return -1;
    }
    int result = 0;
    if (PySequence_Fast_GET_SIZE(items) != (Py_ssize_t)job->num_returns) {
        PyErr_Format(PyExc_ValueError, "num_returns is %u, but the task returned %zd values", job->num_returns,
                     PySequence_Fast_GET_SIZE(items));
        result = -1;
    }
    for (uint32_t i = 0; result == 0 && i < job->num_returns; i++)
        result = result_store(i, PySequence_Fast_GET_ITEM(items, i), job);
    Py_DECREF(items);
    return result;
}

static void error_store(const mob_job_t *job, const void *data, size_t size, bool as_str, mob_status_t error,
                        const mob_ref_t *refs, uint32_t ref_count) {
    for (uint32_t i = 0; i < job->num_returns; i++) {
        core_target_t target = {.is_result = true, .index = i};
        if (core_bytes_store(data, size, as_str, error, refs, ref_count, &target) == 0) continue;
        /* The store is full: the reason fits into the slot itself. */
        PyErr_Clear();
        core_bytes_store("no room for the error", 21, true, MOB_EFULL, NULL, 0, &target);
    }
}

/* An argument was an error: the results are that same error. */
static void failed_argument_store(const mob_job_t *job, const mob_value_t *failed) {
    const uint8_t *data = failed->data;
    if (failed->size < 9) return;
    error_store(job, data + 9, failed->size - 9, data[0] == MOB_STR, failed->error, failed->refs, failed->ref_count);
}

/* A frame that keeps its exception and the exception that keeps its frame are a circle: without this, what both hold would live until the collector comes. */
static void tracebacks_drop(PyObject *error) {
    for (int depth = 0; error != NULL && depth < 100; depth++) {
        PyException_SetTraceback(error, Py_None);
        PyObject *cause = PyException_GetCause(error), *context = PyException_GetContext(error);
        PyObject *next = cause ? cause : context; /* both are kept alive by `error` */
        if (context != NULL && context != next) PyException_SetTraceback(context, Py_None);
        Py_XDECREF(cause);
        Py_XDECREF(context);
        error = next;
    }
    PyErr_Clear();
}

/* The exception that is set becomes the results. True if the task is to run again instead. */
static bool exception_store(const mob_job_t *job, PyObject *function) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL) PyException_SetTraceback(error, trace);
    bool again = false;
    if (job->may_retry && core.should_retry != NULL && function != NULL) {
        PyObject *answer = PyObject_CallFunctionObjArgs(core.should_retry, error, function, NULL);
        again = answer == Py_True;
        Py_XDECREF(answer);
        PyErr_Clear();
    }
    if (!again) {
        collector_t collector;
        core_collector_push(&collector);
        PyObject *made = PyObject_CallFunction(core.make_error, "OOi", error, core.job_name, (int)getpid());
        if (made == NULL || !PyBytes_Check(made)) {
            PyErr_Clear();
            error_store(job, "the task's exception could not be described", 43, true, MOB_ECRASHED, NULL, 0);
        } else if (job->kind == MOB_ACTOR_CREATE) {
            PyObject *loaded = PyObject_CallFunction(core.load_error, "sO", "task", made),
                     *text = loaded ? PyObject_Str(loaded) : NULL;
            PyObject *whole =
                text ? PyUnicode_FromFormat("The actor died because of an error raised in its creation task, %U", text)
                     : NULL;
            Py_ssize_t size = 0;
            const char *words = whole ? PyUnicode_AsUTF8AndSize(whole, &size) : NULL;
            PyErr_Clear();
            error_store(job, words ? words : "its creation failed", words ? (size_t)size : 19, true, MOB_EACTOR, NULL,
                        0);
            Py_XDECREF(loaded);
            Py_XDECREF(text);
            Py_XDECREF(whole);
        } else {
            error_store(job, PyBytes_AS_STRING(made), (size_t)PyBytes_GET_SIZE(made), false, MOB_ETASK,
                        collector.refs.items, (uint32_t)collector.refs.count);
        }
        Py_XDECREF(made);
        core_collector_pop(&collector);
    }
    Py_XDECREF(type);
    Py_XDECREF(trace);
    tracebacks_drop(error);
    Py_XDECREF(error);
    return again;
}

/* ---- a job ---- */

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

/* Tells Python when a job's resources are not those of the last one. */
static int shape_set(const mob_job_t *job) {
    if (job->kind == MOB_ACTOR_CALL || job->shape == core.shape || core.set_shape == NULL) return 0;
    core.shape = job->shape;
    PyObject *done = PyObject_CallFunction(core.set_shape, "I", job->shape);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* Runs the job and stores its results; true if it is to run again. */
static bool job_run(const mob_job_t *job) {
    call_t call = {0};
    PyObject *callable = NULL, *value = NULL;
    bool stored = false, again = false;
    if (shape_set(job) == 0 && (job->kind == MOB_ACTOR_CALL || gpus_set(job->gpu_mask) == 0) &&
        (callable = job_callable(job)) != NULL && call_make(job, &call) == 0)
        value = PyObject_Vectorcall(callable, call.values, call.positional, call.keywords);
    if (value != NULL) {
        stored = results_store(job, value) == 0;
        if (stored && job->kind == MOB_ACTOR_CREATE) {
            core.actor = Py_NewRef(value);
            core.actor_ref = job->actor;
            core.actor_class_name = Py_NewRef(core.job_name);
            core.actor_shape = job->held_shape;
        }
    }
    if (call.failed.error != MOB_OK) {
        /* A result is the same error; an actor's is one of its own, which tells the story as text. */
        if (job->kind == MOB_ACTOR_CREATE) {
            core_raise_error(&call.failed);
        } else {
            failed_argument_store(job, &call.failed);
            stored = true;
        }
    }
    Py_XDECREF(value);
    call_fini(&call);
    if (!stored) again = exception_store(job, callable);
    Py_XDECREF(callable);
    return again;
}

static void job_name_set(const mob_job_t *job) {
    PyObject *name;
    if (job->kind == MOB_ACTOR_CALL && core.actor_class_name != NULL) {
        name = Py_NewRef(core.actor_class_name);
    } else {
        /* Most jobs have the name of the one before. */
        Py_ssize_t size;
        const char *last = core.job_name ? PyUnicode_AsUTF8AndSize(core.job_name, &size) : NULL;
        if (last != NULL && (size_t)size == job->name_size && memcmp(last, job->name, job->name_size) == 0) return;
        name = PyUnicode_DecodeUTF8(job->name, (Py_ssize_t)job->name_size, "replace");
    }
    if (name == NULL) {
        PyErr_Clear();
        name = PyUnicode_FromString("?");
    }
    Py_XSETREF(core.job_name, name);
}

PyObject *core_serve(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    if (functions == NULL && (functions = PyDict_New()) == NULL) return NULL;
    for (;;) {
        mob_status_t status;
        Py_BEGIN_ALLOW_THREADS status = mob_job_next(core.client, &core.job);
        Py_END_ALLOW_THREADS if (status == MOB_EINTR) {
            if (PyErr_CheckSignals() < 0) return NULL;
            continue;
        }
        if (status != MOB_OK) Py_RETURN_NONE;
        if (core.job.kind == MOB_FORGET) {
            PyObject *key = function_key(core.job.function);
            if (key == NULL || PyDict_DelItem(functions, key) < 0) PyErr_Clear(); /* it was never loaded here */
            Py_XDECREF(key);
            continue;
        }
        job_name_set(&core.job);
        core.running = true;
        bool again = job_run(&core.job);
        core.running = false;
        if (again && mob_job_retry(core.client)) continue;
        mob_job_finish(core.client);
    }
}

/* ---- looking at it ---- */

PyObject *core_current_name(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return core.job_name ? Py_NewRef(core.job_name) : Py_NewRef(Py_None);
}

static PyObject *id_text(mob_ref_t ref) {
    uint8_t id[MOB_ID_SIZE];
    char text[2 * MOB_ID_SIZE + 1];
    if (ref.slot == 0 || core.client == NULL) return Py_NewRef(Py_None);
    mob_ref_id(core.client, ref, id);
    for (int i = 0; i < MOB_ID_SIZE; i++) snprintf(text + 2 * i, 3, "%02x", id[i]);
    return PyUnicode_FromString(text);
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
    mob_ref_t task = core.running ? core.job.task_id : (mob_ref_t){0};
    if (core.running) task.slot |= 1u << 31; /* its ids are not those of objects */
    char node[17], job[9], worker[25];
    snprintf(node, sizeof node, "%016llx", (unsigned long long)session.incarnation);
    snprintf(job, sizeof job, "%08x",
             (unsigned)(session.incarnation >> 32)); /* a session has one driver, and so one job */
    snprintf(worker, sizeof worker, "%.16s%08x", node, session.number);
    uint32_t shape = core.actor ? core.actor_shape : core.running ? core.job.shape : 0;
    return Py_BuildValue("{s:N,s:N,s:O,s:N,s:s,s:s,s:s,s:N}", "task_id", id_text(task), "actor_id",
                         id_text(core.actor_ref), "name", core.running && core.job_name ? core.job_name : Py_None,
                         "gpu_ids", gpus, "node_id", node, "job_id", job, "worker_id", worker, "resources",
                         core_shape_dict(shape));
}
