/* What becomes of a run: its results, or the error that takes their place. */
#include "python/core.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "task/task.h"
#include "wire/direct.h"

static PyObject *dynamic_collect(PyObject *values);

static int result_store(mob_run_t *run, uint32_t index, PyObject *value) {
    char what[300] = "";
    if (core_direct_size(value) < 0) /* only what is pickled may have to be named in an error */
        snprintf(what, sizeof what, "the result of %.*s", (int)run->name_size, run->name);
    core_target_t target = {.run = run, .index = index};
    return core_value_store(value, what, &target);
}

/* What a generator yields is stored one by one. If it raises, what was stored stays, and the error
 * takes the place of the others. */
static int yielded_store(mob_run_t *run, PyObject *values) {
    uint32_t count = 0;
    PyObject *item;
    while ((item = PyIter_Next(values)) != NULL) {
        int stored = count < run->num_returns ? result_store(run, count, item) : 0;
        Py_DECREF(item);
        if (stored < 0) break;
        if (++count > run->num_returns) break;
    }
    if (!PyErr_Occurred() && count == run->num_returns) return 0;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_ValueError, "num_returns is %u, but the task yielded %s%u values",
                     run->num_returns, count > run->num_returns ? "more than " : "",
                     count > run->num_returns ? run->num_returns : count);
    if (count <= run->num_returns) run->kept = count;
    return -1;
}

int core_results_store(mob_run_t *run, PyObject *value) {
    if (run->num_returns == 0) return 0; /* an actor that is made again has none either */
    if (run->kind == MOB_ACTOR_CREATE) return result_store(run, 0, Py_None);
    if (run->dynamic) {
        PyObject *made = dynamic_collect(value);
        int result = made != NULL ? result_store(run, 0, made) : -1;
        Py_XDECREF(made);
        return result;
    }
    if (run->num_returns == 1) return result_store(run, 0, value);
    if (PyGen_CheckExact(value)) return yielded_store(run, value);
    /* the task's own list may change while Python code pickles */
    PyObject *items = PySequence_Tuple(value);
    if (items == NULL) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError,
                     "num_returns is %u, but the task returned %s, not a sequence of as many",
                     run->num_returns, Py_TYPE(value)->tp_name);
        return -1;
    }
    int result = 0;
    if (PyTuple_GET_SIZE(items) != (Py_ssize_t)run->num_returns) {
        PyErr_Format(PyExc_ValueError, "num_returns is %u, but the task returned %zd values",
                     run->num_returns, PyTuple_GET_SIZE(items));
        result = -1;
    }
    for (uint32_t i = 0; result == 0 && i < run->num_returns; i++)
        result = result_store(run, i, PyTuple_GET_ITEM(items, i));
    Py_DECREF(items);
    return result;
}

/* The objects that a run with num_returns="dynamic" makes, as one value, NEW. */
static PyObject *dynamic_collect(PyObject *values) {
    PyObject *module = PyImport_ImportModule("ray._private.generators");
    PyObject *made = module ? PyObject_CallMethod(module, "collect", "O", values) : NULL;
    Py_XDECREF(module);
    return made;
}

/* ---- errors ---- */

static void target_fail(core_target_t *target, const void *data, size_t size, mob_status_t error,
                        const mob_ref_t *refs, uint32_t ref_count) {
    static const char full[] = "\5\25\0\0\0\0\0\0\0no room for the error",
                      ended[] = "\5\24\0\0\0\0\0\0\0the daemon has ended";
    if (core_error_store(data, size, error, refs, ref_count, target) == 0 || target->over) return;
    /* The store is full, or the daemon is gone: the reason fits into the slot itself. */
    bool gone = target->failed == MOB_ECLOSED || target->failed == MOB_ESTOPPED;
    PyErr_Clear();
    if (gone)
        core_error_store(ended, sizeof ended - 1, target->failed, NULL, 0, target);
    else
        core_error_store(full, sizeof full - 1, MOB_EFULL, NULL, 0, target);
}

/* The error is the run's last item. False: nobody reads its items. */
static bool error_give(mob_run_t *run, const void *data, size_t size, mob_status_t error,
                       const mob_ref_t *refs, uint32_t ref_count) {
    core_target_t target = {.run = run, .item = true};
    target_fail(&target, data, size, error, refs, ref_count);
    return !target.over;
}

/* Makes every result this error, which is in the direct encoding. `raised`: the run's own code has
 * raised it. */
static void error_store(mob_run_t *run, const void *data, size_t size, mob_status_t error,
                        const mob_ref_t *refs, uint32_t ref_count, bool raised) {
    if (run->flows && error_give(run, data, size, error, refs, ref_count) && raised) {
        (void)result_store(run, 0, Py_None); /* its reader is told by the item */
        return;
    }
    for (uint32_t i = run->kept; i < run->num_returns; i++) {
        core_target_t target = {.run = run, .index = i};
        target_fail(&target, data, size, error, refs, ref_count);
    }
}

/* The same of a str, or of a tuple that begins with one. STEALS it; NULL: it could not be made. */
static void payload_store(mob_run_t *run, PyObject *payload, mob_status_t error,
                          const collector_t *collector) {
    static const char none[] = "\5\53\0\0\0\0\0\0\0the task's exception could not be described";
    Py_ssize_t size = payload != NULL ? core_direct_size(payload) : -1;
    uint8_t *data = size >= 0 ? PyMem_Malloc((size_t)size) : NULL;
    PyErr_Clear();
    if (data != NULL) {
        core_direct_write(payload, data);
        error_store(run, data, (size_t)size, error, collector ? collector->refs.items : NULL,
                    collector ? (uint32_t)collector->refs.count : 0, error == MOB_ETASK);
    } else {
        error_store(run, none, sizeof none - 1, error, NULL, 0, error == MOB_ETASK);
    }
    PyMem_Free(data);
    Py_XDECREF(payload);
}

/* Tells the driver, by the daemon, of a run that has no result to say it. STEALS the story. */
static void story_tell(mob_run_t *run, PyObject *story) {
    Py_ssize_t size = 0;
    const char *text = story != NULL ? PyUnicode_AsUTF8AndSize(story, &size) : NULL;
    PyErr_Clear();
    if (text != NULL) mob_run_failed(core.client, run, text, (size_t)size);
    Py_XDECREF(story);
}

/* An actor could not be made, as the story tells. STEALS the story. */
static void creation_store(mob_run_t *run, PyObject *story) {
    PyObject *text =
        story ? PyUnicode_FromFormat(
                    "The actor died because of an error raised in its creation task, %U", story)
              : NULL;
    if (run->num_returns == 0) { /* it was made before: the daemon keeps the words */
        Py_XDECREF(story);
        story_tell(run, text);
        return;
    }
    PyObject *id = core_id_text(run->actor);
    payload_store(run, text && id ? Py_BuildValue("(OOO)", text, id, Py_True) : NULL, MOB_EACTOR,
                  NULL);
    Py_XDECREF(text);
    Py_XDECREF(id);
    Py_XDECREF(story);
}

void core_failed_argument_store(mob_run_t *run, const mob_value_t *failed) {
    uint64_t size = failed->size;
    Py_ssize_t title_size = 0;
    PyObject *title = core_run_title(run);
    const char *name = title ? PyUnicode_AsUTF8AndSize(title, &title_size) : NULL;
    void *linked = name ? task_error_link(failed, name, (size_t)title_size, &size) : NULL;
    const void *data = linked ? linked : failed->data;
    const char *words;
    uint64_t words_size;
    bool has_words = wire_error_words(data, size, &words, &words_size);
    PyErr_Clear();
    if (run->kind == MOB_ACTOR_CREATE)
        creation_store(
            run, has_words ? PyUnicode_DecodeUTF8(words, (Py_ssize_t)words_size, "replace") : NULL);
    else if (run->num_returns == 0 && has_words)
        mob_run_failed(core.client, run, words, words_size);
    else
        error_store(run, data, size, failed->error, failed->refs, failed->ref_count, false);
    free(linked);
    Py_XDECREF(title);
}

/* ---- what an exception keeps alive ---- */

/*
 * A traceback holds the frames of the run, and their locals. If one of these is the exception
 * itself (`e = ValueError(); raise e`), the two make a circle: whatever the frames hold (arrays,
 * say) would live until the collector comes. So the worker takes the traceback away, unless
 * something beside the run refers to the exception too: an actor that keeps one is to find it
 * whole. The exception's count tells.
 */
enum { MOST_LINKED = 32 };
typedef struct {
    PyObject *error;  /* BORROWED */
    Py_ssize_t count; /* references to it */
    Py_ssize_t ours;  /* how many of these are the run's */
} linked_t;
typedef struct {
    linked_t items[MOST_LINKED];
    int count;
} chain_t;

/* The chain has one reference to the error; STEALS the caller's. */
static void chain_add(chain_t *chain, PyObject *error) {
    if (error == NULL) return;
    Py_DECREF(error); /* the link that names it keeps it alive */
    for (int i = 0; i < chain->count; i++) {
        if (chain->items[i].error != error) continue;
        chain->items[i].ours++;
        return;
    }
    if (chain->count < MOST_LINKED)
        chain->items[chain->count++] =
            (linked_t){.error = error, .count = Py_REFCNT(error), .ours = 1};
}

static bool chain_is_held(const chain_t *chain) {
    for (int i = 0; i < chain->count; i++)
        if (chain->items[i].count > chain->items[i].ours) return true;
    return false;
}

/* Adds what the locals of a frame refer to. */
static void frame_count(PyObject *frame, chain_t *chain) {
    PyObject *locals = PyObject_GetAttrString(frame, "f_locals"),
             *values = locals ? PyMapping_Values(locals) : NULL;
    for (Py_ssize_t i = 0; values != NULL && i < PyList_GET_SIZE(values); i++)
        for (int k = 0; k < chain->count; k++)
            chain->items[k].ours += PyList_GET_ITEM(values, i) == chain->items[k].error;
    Py_XDECREF(values);
    Py_XDECREF(locals);
}

/* Each frame once: a traceback may be part of another's. */
static void frames_count(PyObject *error, chain_t *chain, PyObject *seen) {
    PyObject *trace = PyException_GetTraceback(error);
    while (trace != NULL && trace != Py_None) {
        PyObject *frame = PyObject_GetAttrString(trace, "tb_frame"),
                 *next = PyObject_GetAttrString(trace, "tb_next");
        if (frame != NULL && PySet_Contains(seen, frame) == 0 && PySet_Add(seen, frame) == 0)
            frame_count(frame, chain);
        Py_XDECREF(frame);
        Py_SETREF(trace, next);
    }
    Py_XDECREF(trace);
}

/* `error` is held by its caller, once. */
static void tracebacks_drop(PyObject *error) {
    chain_t chain = {.count = 0};
    chain_add(&chain, Py_NewRef(error));
    for (int i = 0; i < chain.count; i++) {
        chain_add(&chain, PyException_GetCause(chain.items[i].error));
        chain_add(&chain, PyException_GetContext(chain.items[i].error));
    }
    PyObject *seen = chain_is_held(&chain) ? PySet_New(NULL) : NULL;
    for (int i = 0; seen != NULL && i < chain.count; i++)
        frames_count(chain.items[i].error, &chain, seen);
    Py_XDECREF(seen);
    PyErr_Clear();
    if (seen == NULL) return; /* no circle */
    for (int i = 0; i < chain.count; i++) Py_INCREF(chain.items[i].error);
    for (int i = 0; i < chain.count; i++) {
        if (chain.items[i].count <= chain.items[i].ours)
            PyException_SetTraceback(chain.items[i].error, Py_None);
        Py_DECREF(chain.items[i].error);
    }
    PyErr_Clear();
}

/* ---- an exception ---- */

/* The id by which a person can run it again, NEW; None: a call of an actor can't be. */
static PyObject *replayable_id(const mob_run_t *run) {
    return run->kind == MOB_ACTOR_CALL ? Py_NewRef(Py_None) : core_task_id_text(run);
}

/* Whose failure it is, and its traceback: a str, NEW; NULL: it could not be made. */
static PyObject *story_of(const mob_run_t *run, PyObject *error) {
    PyObject *story = PyObject_CallFunction(core.tell_error, "ONiN", error, core_run_title(run),
                                            (int)getpid(), replayable_id(run));
    if (story != NULL && !PyUnicode_Check(story)) Py_CLEAR(story);
    PyErr_Clear();
    return story;
}

static void exception_store(mob_run_t *run, PyObject *error) {
    if (run->kind == MOB_ACTOR_CREATE) {
        creation_store(run, story_of(run, error));
        return;
    }
    if (run->num_returns == 0) {
        story_tell(run, story_of(run, error));
        return;
    }
    collector_t collector;
    core_collector_push(&collector);
    PyObject *made = PyObject_CallFunction(core.make_error, "ONiN", error, core_run_title(run),
                                           (int)getpid(), replayable_id(run));
    payload_store(run, made, MOB_ETASK, &collector);
    core_collector_pop(&collector);
}

/* put_error(exception): a reference to an object that is this error of the run's. */
PyObject *core_put_error(PyObject *module, PyObject *error) {
    (void)module;
    const mob_run_t *run = core.run ? core.run : core_run_current();
    if (run == NULL) return PyErr_Format(PyExc_RuntimeError, "nothing runs here");
    collector_t collector;
    core_target_t target = {0};
    int status = -1;
    core_collector_push(&collector);
    PyObject *made = PyObject_CallFunction(core.make_error, "ONiN", error, core_run_title(run),
                                           (int)getpid(), replayable_id(run));
    Py_ssize_t size = made != NULL ? core_direct_size(made) : -1;
    uint8_t *data = size >= 0 ? PyMem_Malloc((size_t)size) : NULL;
    if (data != NULL) {
        core_direct_write(made, data);
        status = core_error_store(data, (size_t)size, MOB_ETASK, collector.refs.items,
                                  (uint32_t)collector.refs.count, &target);
    }
    PyMem_Free(data);
    Py_XDECREF(made);
    core_collector_pop(&collector);
    if (status < 0 && !PyErr_Occurred()) PyErr_NoMemory();
    return status < 0 ? NULL : core_ref_new(target.ref);
}

/* Whether the run is to be run again after this exception. `function`: of a task; NULL: of a call,
 * which names what it is run again for, or nothing, which is any exception. */
static bool error_is_retried(mob_run_t *run, PyObject *function, PyObject *error) {
    if (!run->may_retry || core.should_retry == NULL) return false;
    if (run->kind == MOB_ACTOR_CALL)
        function = run->function.slot != 0 ? core_run_function(run) : Py_None;
    if (function == NULL) {
        PyErr_Clear();
        return false;
    }
    PyObject *answer = PyObject_CallFunctionObjArgs(core.should_retry, error, function, NULL);
    bool again = answer == Py_True;
    Py_XDECREF(answer);
    PyErr_Clear();
    return again;
}

bool core_exception_store(mob_run_t *run, PyObject *function, PyObject **ret_story) {
    PyObject *type, *error, *trace;
    PyErr_Fetch(&type, &error, &trace);
    PyErr_NormalizeException(&type, &error, &trace);
    if (trace != NULL) PyException_SetTraceback(error, trace);
    Py_CLEAR(trace);
    bool cancelled = core_is_cancellation(run, error);
    bool again = !cancelled && error_is_retried(run, function, error) &&
                 !mob_run_is_cancelled(core.client, run);
    if (cancelled)
        payload_store(run, core_cancelled_words(run), MOB_ECANCELLED, NULL);
    else if (again)
        *ret_story = story_of(run, error);
    else
        exception_store(run, error);
    Py_XDECREF(type);
    tracebacks_drop(error);
    Py_XDECREF(error);
    return again;
}
