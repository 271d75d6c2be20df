/*
 * The extension module ray._core: what its files share. A thin layer over mobula.h: Python values
 * in, Python values out.
 *
 * All state is under the interpreter's lock. A thread releases the lock while it waits in a call
 * and while it copies large buffers. No thread holds a mutex of the client while Python code runs,
 * so a destructor of an ObjectRef may run anywhere.
 */
#ifndef PYTHON_CORE_H
#define PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/vec.h"
#include "mobula.h"
#include "mobula_task.h"

typedef struct {
    mob_client_t *client; /* NULL: not connected */
    uint64_t incarnation; /* of the node: a part of every id */
    uint64_t stamp; /* of the connection, counting up in this process; 0: there is none. A reference
                       belongs to the connection that it came by: a later one may be to the same
                       node, and has counts of its own */
    PyObject *local; /* what stands in for a session, in local mode; else NULL */
    bool is_worker;
    bool cut_off; /* the session ends: this worker breaks its run off */
    int inside;   /* threads that are inside a call of the client without the interpreter's lock */
    int pid;      /* the process that connected; a forked child has none of those threads */
    /* hooks: Python callables, see module.c */
    PyObject *auto_init, *dumps, *loads, *make_error, *tell_error, *load_error, *load_function,
        *should_retry, *set_gpus, *set_shape, *await_ref, *future_of, *site;
    mob_run_t *run; /* the run of a worker that runs one after the other; else see run.c */
    mob_run_t *interruptible;  /* the task whose own code runs; NULL: none does */
    bool interrupt_waits;      /* a task was cancelled while none did */
    unsigned long loop_thread; /* of an async actor's loop; 0: there is none */
    unsigned long exit_thread; /* the thread that ends the program; 0: the program goes on */
    PyObject *run_name;        /* str; for an actor its class */
    PyObject *on_next_name;    /* called when run_name changes; NULL: nothing is */
    PyObject *actor;           /* the instance */
    PyObject *actor_class_name;
    PyObject *actor_repr; /* str, if the actor's class has a __repr__ of its own: the name before
                             what the actor prints */
    mob_ref_t actor_ref;
    uint32_t actor_shape;
    bool actor_restarted; /* a process of this actor died before */
    uint64_t gpu_mask;
    uint32_t shape;   /* of the last run */
    uint32_t capture; /* changes with the placement group that the run's own tasks go into */
} core_t;

extern core_t core;

typedef struct {
    PyObject_HEAD mob_ref_t ref;
    uint64_t incarnation, stamp;
    PyObject *weak_refs;
    PyObject *local; /* what it names, in local mode; else NULL */
} ref_object_t;

/* References that a pickler meets. Collectors nest: pickling may export a function, which
 * pickles. */
typedef struct collector {
    struct collector *outer;
    VEC(mob_ref_t) refs;
    PyObject *keep; /* list: holds the ObjectRefs until the bytes are published */
} collector_t;

/* Around a call of the client without the interpreter's lock: core_shutdown waits for such calls.
 * `client` is that of the session in which the call began. If core.stamp is another one
 * afterwards, that session is over (a new client may have the address of the old one). */
#define CORE_ALLOW_THREADS_BEGIN            \
    {                                       \
        mob_client_t *client = core.client; \
        core.inside++;                      \
        Py_BEGIN_ALLOW_THREADS
#define CORE_ALLOW_THREADS_END          \
    Py_END_ALLOW_THREADS core.inside--; \
    (void)client;                       \
    }

/* ref.c */
int core_ref_ready(PyObject *module);
bool core_ref_check(PyObject *object);
PyObject *core_ref_new(mob_ref_t ref);   /* STEALS one count */
PyObject *core_ref_count(mob_ref_t ref); /* takes a count of its own; NULL: the object is gone */
/* The reference, if it is one of this session; else NULL with an exception. BORROWED */
ref_object_t *core_ref_of(PyObject *object);
/* The same for an actor's: the exception is of its own. BORROWED */
ref_object_t *core_actor_of(PyObject *object);
PyObject *core_is_pending(PyObject *module, PyObject *key);
void core_collector_push(collector_t *collector);
bool core_is_collecting(void);                   /* this thread pickles for the store */
void core_collector_pop(collector_t *collector); /* frees what the collector holds */
PyObject *core_ref_restore(PyObject *module, PyObject *id);

/* direct.c: the direct encoding */
Py_ssize_t core_direct_size(PyObject *value); /* -1: it has no direct encoding (no exception set) */
uint8_t *core_direct_write(PyObject *value, uint8_t *at);
/* Decodes one value; moves *at. NULL with an exception. */
PyObject *core_direct_read(const uint8_t **at, const uint8_t *end);
bool core_is_plain(PyObject *value);
PyTypeObject *core_ndarray_type(void); /* numpy's, if numpy is loaded; else NULL. BORROWED */

/* array.c: arrays without pickle, where the same kind was seen before */
PyObject *core_array_load(const void *stream, uint64_t size,
                          PyObject *buffer); /* NULL without an exception: not known */
void core_array_learn(const void *stream, uint64_t size, PyObject *buffer, PyObject *array);
bool core_array_check(PyObject *value); /* exactly numpy's own type */
/* The pickle stream of an array, NEW, and its memory, to be released. NULL without an exception:
 * not known. */
PyObject *core_array_stream(PyObject *array, Py_buffer *ret_view);
/* It was pickled to this stream, with one buffer beside it. */
void core_array_note(PyObject *array, PyObject *stream, const Py_buffer *buffer);

/* pin.c */
int core_pin_ready(PyObject *module);
/* NEW; a view of memory of this object, which is open. */
PyObject *core_pin_new(mob_ref_t ref, const void *data, Py_ssize_t size);

/* error.c: these set an exception, and return NULL */
PyObject *core_raise(mob_status_t status); /* for a call that failed */
PyObject *core_raise_error(const mob_value_t *value);
PyObject *core_raise_ended(void); /* the session ended while the call was in it */
/* an error by its name in ray._private.errors; STEALS the payload, which may be NULL with an
 * exception */
PyObject *core_raise_code(const char *code, PyObject *payload);
/* Starts the system if need be; false with an exception. */
bool core_connected(void);

/* arguments.c */
/* Finds the arguments of a call: only the first may be positional, the others are found by name.
 * BORROWED; -1 with an exception. */
int core_arguments_of(const char *function, PyObject *const *args, Py_ssize_t nargs,
                      PyObject *kwnames, const char *const *names, PyObject **found);
PyObject *core_raise_not_a_ref(PyObject *kind, const char *function, PyObject *object);
/* The refs of a list or tuple, in memory for PyMem_Free. The list may change while the caller
 * waits: `*ret_held`, NEW, keeps them alive. */
mob_ref_t *core_refs_of(const char *function, PyObject *sequence, Py_ssize_t *ret_count,
                        PyObject **ret_held);
/* The same, but generators may be among them: of these it is what is there when their next item
 * is. `heads`, a list, keeps that alive. */
mob_ref_t *core_waitables_of(const char *function, PyObject *sequence, PyObject *heads,
                             Py_ssize_t *ret_count, PyObject **ret_held);
int core_timeout(PyObject *seconds, int64_t *ret_ms); /* -1 for None and for what is negative */
int64_t core_now_ms(void);
/* What remains of a time limit after a wait that began at start_ms was interrupted. */
int64_t core_time_left(int64_t timeout_ms, int64_t start_ms);
/* In the loop of an async actor: warns that no other call goes on while this one waits. Once. -1
 * with an exception. */
int core_warn_in_loop(const char *function);

/* put.c */
/* After MOB_ESPACE: waits, without the interpreter's lock, until it is time to try again. -1 with
 * an exception. */
int core_space_wait(void);
/* Where a pickled value goes: a new object, a run's result, or its next item. */
typedef struct {
    mob_run_t *run;      /* NULL: a new object */
    uint32_t index;      /* of the result */
    bool item;           /* the run's next item, and not a result */
    bool over;           /* it was not stored, and there is no exception: nobody reads the items */
    mob_status_t failed; /* why there was no place for it */
    mob_ref_t ref;       /* of the new object, one count */
} core_target_t;
int core_value_store(PyObject *value, const char *what, core_target_t *target);
/* Stores an error, which is in the direct encoding. */
int core_error_store(const void *data, size_t size, mob_status_t error, const mob_ref_t *refs,
                     uint32_t ref_count, core_target_t *target);
/* Pickles: (bytes, list of buffers and writers), with references collected. */
PyObject *core_pickle(PyObject *value, const char *what, collector_t *collector);
/* Stores what core_pickle made of the value, in the session `began`. -1 with an exception. */
int core_pickled_store(PyObject *value, PyObject *made, const collector_t *collector,
                       uint64_t began, core_target_t *target);
PyObject *core_put(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* get.c */
/* Loads what is open, and closes it. */
PyObject *core_value_take(mob_ref_t ref, const mob_value_t *value);
/* Opens refs[0]; from disk if need be, and then without the interpreter's lock. The caller reads
 * the others next. Sets an exception unless it returns MOB_OK. */
mob_status_t core_value_open(const mob_ref_t *refs, size_t count, mob_value_t *ret_value);
PyObject *core_get(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
PyObject *core_is_there(PyObject *module, PyObject *object);

/* wait.c */
PyObject *core_wait(PyObject *module, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);

/* flow.c: the reader of a flow */
int core_flow_ready(PyObject *module);
bool core_flow_check(PyObject *object);
PyObject *core_flow_new(const mob_flow_t *flow, uint32_t limit); /* STEALS its counts */
/* What is there when the flow's next item is, or its end. NEW, NULL with an exception. */
PyObject *core_flow_head(PyObject *flow);
PyObject *core_flow_done(PyObject *flow, PyObject *unused); /* NEW */

/* items.c: the items of a run */
/* Gives out one. 1: the run goes on; 0: nobody reads them any more; -1 with an exception. */
int core_item_give(mob_run_t *run, PyObject *item);
/* Waits while the flow's limit says so, without the interpreter's lock. -1 with an exception. */
int core_item_wait(mob_run_t *run);
/* Gives out everything that `values`, which is STOLEN, yields. None, NEW; NULL with an exception.
 */
PyObject *core_items_drain(mob_run_t *run, PyObject *values);

/* submit.c */
int core_submitter_ready(PyObject *module);

/* call.c: what a run calls, and with what */
typedef struct {
    PyObject **values;
    size_t count; /* made so far */
    size_t positional;
    PyObject *keywords;
    mob_value_t failed;  /* an argument that is an error: failed.error is set */
    mob_status_t status; /* of the argument that was opened last */
} core_call_t;
PyObject *core_run_callable(const mob_run_t *run); /* NEW */
/* What the run's function names, loaded once; of a call: what it is run again for. BORROWED */
PyObject *core_run_function(const mob_run_t *run);
int core_call_make(const mob_run_t *run, core_call_t *call);
void core_call_fini(core_call_t *call);
void core_function_forget(const mob_run_t *run);
void core_functions_drop(void); /* all that this worker has loaded */

/* result.c: what becomes of a run */
int core_results_store(mob_run_t *run, PyObject *value);
PyObject *core_put_error(PyObject *module, PyObject *error);
/* An argument was an error: the results are that error, with the run's name before it. */
void core_failed_argument_store(mob_run_t *run, const mob_value_t *failed);
/* Makes the exception that is set the results. True if the task is to run again instead: then
 * *ret_story says what happened, a str, NEW, or NULL. */
bool core_exception_store(mob_run_t *run, PyObject *function, PyObject **ret_story);

/* native.c: functions and actors in C */
bool core_native_run(mob_run_t *run); /* false: the run is Python's */
void core_native_forget(const mob_run_t *run);
void core_native_end(void);

/* serve.c */
/* waits for a run; NULL: the worker is to end, or there is an exception */
mob_run_t *core_run_take(void);
/* what people call it: A.m for a method of an actor. NEW */
PyObject *core_run_title(const mob_run_t *run);
/* the run's name, GPUs and CPUs become the process's; -1 with an exception */
int core_run_prepare(const mob_run_t *run);
/* Calls the run's function: the value, or NULL with an exception or with *ret_failed, an argument
 * that is an error. *ret_callable is NEW, and may stay NULL. */
PyObject *core_run_call(mob_run_t *run, PyObject **ret_callable, mob_value_t *ret_failed);
/* Stores what the call came to and publishes it. STEALS callable and value. False, with SystemExit
 * set: the process is to end, for a method ended its actor, or this is a child that the run
 * forked. */
bool core_run_end(mob_run_t *run, PyObject *callable, PyObject *value, const mob_value_t *failed);
PyObject *core_serve(PyObject *module, PyObject *unused);
/* as ObjectRef.hex gives it, NEW; None: it names nothing */
PyObject *core_id_text(mob_ref_t ref);
/* of the run's task; None for NULL. NEW */
PyObject *core_task_id_text(const mob_run_t *run);
PyObject *core_current(PyObject *module, PyObject *unused);
PyObject *core_current_name(PyObject *module, PyObject *unused);
/* Calls its argument once, with no arguments, before a run of another name begins. */
PyObject *core_on_next_name(PyObject *module, PyObject *callable);
/* Calls it now: it takes back what it announced under the run's name. */
void core_name_unannounce(void);

/* cancel.c */
PyObject *core_cancel(PyObject *module, PyObject *args);
PyObject *core_interrupt(PyObject *module, PyObject *unused);
PyObject *core_is_cancelled(PyObject *module, PyObject *unused);
/* The run's own code begins: until core.interruptible is NULL again, it may be broken off. False,
 * with KeyboardInterrupt set: it was cancelled before. */
bool core_interruptible_begin(mob_run_t *run);
/* Whether the run ends with this exception because it was cancelled. */
bool core_is_cancellation(mob_run_t *run, PyObject *error);
/* What its results say then: a str, NEW, or NULL with an exception. */
PyObject *core_cancelled_words(const mob_run_t *run);

/* replay.c */
PyObject *core_kept_task(PyObject *module, PyObject *args);
PyObject *core_recall(PyObject *module, PyObject *args);

/* run.c: runs as Python objects */
int core_run_ready(PyObject *module);
PyObject *core_run_new(mob_run_t *run);
mob_run_t *core_run_current(void); /* of this thread or asyncio task; NULL: none */
PyObject *core_next_run(PyObject *module, PyObject *unused);
PyObject *core_actor_groups(PyObject *module, PyObject *limits);

/* Of what a call waited for that KeyboardInterrupt has ended, if that is the exception: Python
 * notes it, for ray.util.cancel_waited. cancel.c */
void core_interrupt_note(PyObject *refs);
PyObject *core_maker(PyObject *module, PyObject *object);

/* local.c */
/* Calls a function of what stands in for the session. */
PyObject *core_local_call(const char *name, PyObject *const *args, Py_ssize_t nargs,
                          PyObject *kwnames);
/* A task or call, by what its Submitter's `prepare` says. `actor` may be NULL. */
PyObject *core_local_submit(PyObject *prepare, PyObject *actor, PyObject *const *args,
                            Py_ssize_t nargs, PyObject *kwnames);
PyObject *core_ref_local(PyObject *cell, mob_ref_t ref, uint64_t home); /* ref.c */
PyObject *core_set_local(PyObject *module, PyObject *object);
PyObject *core_local_ref(PyObject *module, PyObject *args);
PyObject *core_local_cell(PyObject *module, PyObject *object);

/* waker.c */
int core_waker_ready(PyObject *module);

/* leave.c: a worker's end */
PyObject *core_cut_off(PyObject *module, PyObject *unused);
PyObject *core_begin_end(PyObject *module, PyObject *unused);
PyObject *core_drop(PyObject *module, PyObject *unused);
PyObject *core_leave(PyObject *module, PyObject *args);

/* zygote.c */
PyObject *core_zygote(PyObject *module, PyObject *begin);
PyObject *core_environment(PyObject *module, PyObject *unused);
PyObject *core_unfit(PyObject *module, PyObject *why);
PyObject *core_become(PyObject *module, PyObject *command);
PyObject *core_fetch(PyObject *module, PyObject *args);
PyObject *core_environment_number(PyObject *module, PyObject *args);
PyObject *core_use_environment(PyObject *module, PyObject *number);
/* The strings of a list, BORROWED, with a NULL at the end; for PyMem_Free. NULL: an exception. */
const char **core_strings(PyObject *list);

/* group.c */
/* (id or None, bundle, flags, selector or None); NULL and None: anywhere. The text is the tuple's.
 * -1 with an exception */
int core_where(PyObject *where, mob_where_t *ret_where);
PyObject *core_create_group(PyObject *module, PyObject *args);
PyObject *core_remove_group(PyObject *module, PyObject *id);
PyObject *core_find_group(PyObject *module, PyObject *args);
PyObject *core_groups(PyObject *module, PyObject *id);
PyObject *core_restore_group(PyObject *module, PyObject *id);
PyObject *core_shape_where(PyObject *module, PyObject *shape);
PyObject *core_current_shape(PyObject *module, PyObject *unused);
PyObject *core_set_capture(PyObject *module, PyObject *number);
PyObject *core_labels(PyObject *module, PyObject *unused);

/* session.c */
PyObject *core_start(PyObject *module, PyObject *config);
PyObject *core_start_node(PyObject *module, PyObject *config);
PyObject *core_begin_exit(PyObject *module, PyObject *unused);
/* For a call that finds no session. While one thread ends the program, this raises SystemExit in
 * the others and returns true: that ends the thread without a word and lets its locks go. In the
 * thread of an event loop it does not return. */
bool core_exit_raises(void);
/* the instance that this worker serves, or None */
PyObject *core_actor(PyObject *module, PyObject *unused);
PyObject *core_shutdown(PyObject *module, PyObject *unused);
PyObject *core_finish_messages(PyObject *module, PyObject *unused);
PyObject *core_session(PyObject *module, PyObject *unused);
/* How long to wait: milliseconds, or None. (): that was too short; None: there are no more. */
PyObject *core_read_message(PyObject *module, PyObject *timeout);
/* the daemon's answer, NEW; NULL with an exception */
PyObject *core_ask(mob_query_t query, uint64_t argument);
PyObject *core_query(PyObject *module, PyObject *kind);
PyObject *core_observe(PyObject *module, PyObject *args);
PyObject *core_kv(PyObject *module, PyObject *args);
PyObject *core_name_site(PyObject *module, PyObject *text);
/* the number of the place in the program, if it is asked for; else 0. Runs Python code */
uint32_t core_site(void);
/* mob_shape of a dict, to be met at `where`, see core_where; -1 with an exception */
int core_shape(PyObject *demand, PyObject *where, uint32_t *ret_shape);
/* what a shape asks for; NEW, NULL with an exception */
PyObject *core_shape_dict(uint32_t shape);
PyObject *core_shape_demand(PyObject *module, PyObject *shape);
PyObject *core_kill_actor(PyObject *module, PyObject *args);
PyObject *core_find_actor(PyObject *module, PyObject *args);
PyObject *core_names_dropped(PyObject *module, PyObject *unused);
PyObject *core_actor_names(PyObject *module, PyObject *all);

#endif
