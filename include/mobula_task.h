/*
 * Tasks and actors in C, and values that C and Python share: the part of the C API that reads and
 * writes the direct encoding of mobula.h.
 *
 *     mob_status_t add(mob_call_t *call) {
 *         int64_t a, b;
 *         if (mob_call_arity(call, 2, 2) != MOB_OK) return MOB_EINVAL;
 *         if (mob_call_int(call, 0, &a) || mob_call_int(call, 1, &b)) return MOB_EINVAL;
 *         return mob_call_return_int(call, 0, a + b);
 *     }
 *
 * Compile it into a shared library, which you need not link with anything: the worker that loads it
 * has these functions. A driver, in C or in Python, calls it by the library's path and the symbol.
 * Workers are mobula-worker, which has no Python in it, or Python's own: both run C functions, by
 * the same code.
 *
 * Threads: a call belongs to the thread that runs it. Readers and writers are plain memory of your
 * own. Errors: a call that fails says why in mob_last_error. If your function returns that status,
 * its task fails with the same words. Pointers into values point into shared memory: read only, and
 * not aligned for str and bytes (copy numbers out with memcpy). They are valid as long as you hold
 * the value's reference; of arguments, until your function returns.
 */
#ifndef MOBULA_TASK_H
#define MOBULA_TASK_H

#include "mobula.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MOB_PRINTF(words, first) __attribute__((format(printf, words, first)))
#else
#define MOB_PRINTF(words, first)
#endif

/* ---- Reading values ------------------------------------------------------ */

/* Values one after the other. */
typedef struct mob_reader {
    const uint8_t *at, *end;
} mob_reader_t;

enum {
    MOB_PICKLED = 18
}; /* a tag that only mob_item_t has: a Python value without a direct encoding */

typedef struct mob_item {
    int tag;          /* MOB_NONE to MOB_TUPLE, or MOB_PICKLED */
    int64_t integer;  /* MOB_INT; 0 and 1 for MOB_FALSE and MOB_TRUE */
    double real;      /* MOB_FLOAT */
    const void *data; /* MOB_STR, MOB_BYTES; MOB_PICKLED: its buffer, a numpy array's numbers, if it
                         has exactly one; else NULL */
    uint64_t size;    /* of data */
    uint32_t count;   /* MOB_TUPLE: of its items */
    mob_reader_t items; /* MOB_TUPLE: they are all there */
} mob_item_t;

/* The next value. The reader moves past it, and past all that is in a tuple. MOB_EPROTO: the bytes
 * are not in the direct encoding, or no value is left; the reader stays. */
MOB_API mob_status_t mob_read(mob_reader_t *reader, mob_item_t *ret_item);
/* "an int", "a str"; for errors. Never NULL. */
MOB_API const char *mob_tag_text(int tag);

/* Waits for an object and opens it; goes on after signals. If the object is an error, the call
 * returns that status, and mob_last_error has the words (their end, where they are long:
 * mob_error_text has them all). MOB_ETIMEOUT after timeout_ms; -1: waits for ever. The value is
 * valid, and stays in memory, until you call mob_get_end or release your last count of ref. */
MOB_API mob_status_t mob_get(mob_client_t *client, mob_ref_t ref, int64_t timeout_ms,
                             mob_value_t *ret_value);
/* What a value is. The typed calls fail with MOB_EINVAL if it is something else. An int is a float
 * too. */
MOB_API mob_status_t mob_value_item(const mob_value_t *value, mob_item_t *ret_item);
MOB_API mob_status_t mob_value_int(const mob_value_t *value, int64_t *ret_integer);
MOB_API mob_status_t mob_value_float(const mob_value_t *value, double *ret_real);
MOB_API mob_status_t mob_value_bool(const mob_value_t *value, bool *ret_truth);
MOB_API mob_status_t mob_value_str(const mob_value_t *value, const char **ret_text,
                                   uint64_t *ret_size); /* no zero follows */
/* The memory of bytes, or of the one buffer of a Python value: a numpy array, aligned to 64. (Small
 * buffers inside other values are in the pickle, and have no memory of their own.) Your program and
 * Python's must agree on what the numbers are. */
MOB_API mob_status_t mob_value_buffer(const mob_value_t *value, const void **ret_data,
                                      uint64_t *ret_size);
/* The words of a value whose `error` is set, Python's traceback too. No zero follows. */
MOB_API mob_status_t mob_error_text(const mob_value_t *value, const char **ret_text,
                                    uint64_t *ret_size);

/* ---- Writing values ------------------------------------------------------ */

/* Values one after the other, in memory that grows. Begin with {0}; not to be copied. After a write
 * that failed (no memory) mob_writer_finish returns its status. */
typedef struct mob_writer {
    uint8_t *grown; /* NULL: in `local` */
    size_t size, capacity;
    uint32_t count; /* of values, those inside tuples not counted */
    uint64_t owed;  /* values that are still to come inside tuples */
    mob_status_t status;
    uint8_t local[104];
} mob_writer_t;

MOB_API void mob_write_none(mob_writer_t *writer);
MOB_API void mob_write_bool(mob_writer_t *writer, bool truth);
MOB_API void mob_write_int(mob_writer_t *writer, int64_t integer);
MOB_API void mob_write_float(mob_writer_t *writer, double real);
MOB_API void mob_write_str(mob_writer_t *writer, const char *text, size_t size); /* UTF-8 */
MOB_API void mob_write_bytes(mob_writer_t *writer, const void *data, size_t size);
/* Followed by `count` values. */
MOB_API void mob_write_tuple(mob_writer_t *writer, uint32_t count);
/* What was written, valid until the next write. MOB_ENOMEM, or MOB_EINVAL if a tuple lacks
 * values. */
MOB_API mob_status_t mob_writer_finish(mob_writer_t *writer, const void **ret_data,
                                       size_t *ret_size);
MOB_API void mob_writer_clear(mob_writer_t *writer); /* to begin again; its memory stays */
MOB_API void mob_writer_fini(mob_writer_t *writer);

/* Puts the one value that you have written. */
MOB_API mob_status_t mob_put_value(mob_client_t *client, mob_writer_t *writer, mob_ref_t *ret_ref);
/* Space for `count` numbers of item_size bytes, that Python gets as a read-only numpy array of that
 * dtype ("f8", "i4") without a copy; NULL: as a memoryview. Fill *ret_data, aligned to 64 bytes,
 * then mob_put_commit(client, buffer, MOB_FORMAT_PICKLE, NULL, &ref), or abort. */
MOB_API mob_status_t mob_put_array(mob_client_t *client, const char *dtype, uint64_t count,
                                   size_t item_size, mob_buffer_t *ret_buffer, void **ret_data);

/* ---- Calling ------------------------------------------------------------- */

/* The object that names a function or a class, for mob_task_t: the same one as long as the client
 * lives. One count is yours. C: a symbol in a shared library. This process looks for the file now
 * (MOB_EINVAL: no such file), and the workers load it. Python: a function or class of a module that
 * workers can import. */
MOB_API mob_status_t mob_function_c(mob_client_t *client, const char *library, const char *symbol,
                                    mob_ref_t *ret_ref);
MOB_API mob_status_t mob_function_python(mob_client_t *client, const char *module, const char *name,
                                         mob_ref_t *ret_ref);

/* The arguments of a call, in order. Write values with mob_write_*(&args.values, ...), references
 * with mob_args_ref: the task starts when the object is there, and gets its value. */
typedef struct mob_args {
    mob_writer_t values;
    mob_ref_t *deps;
    uint32_t dep_count, dep_capacity;
    uint32_t positional, keywords;
} mob_args_t;

MOB_API void mob_args_init(mob_args_t *args);
/* hold ref until you have submitted the call */
MOB_API void mob_args_ref(mob_args_t *args, mob_ref_t ref);
/* The next value is the argument of that name; only arguments with names may follow it. For
 * functions in Python: those in C have no names for their arguments. */
MOB_API void mob_args_keyword(mob_args_t *args, const char *name);
/* Sets args and deps of `task`, which are valid until the next write. */
MOB_API mob_status_t mob_args_finish(mob_args_t *args, mob_task_t *task);
MOB_API void mob_args_clear(mob_args_t *args); /* to begin again; its memory stays */
MOB_API void mob_args_fini(mob_args_t *args);

/* The usual calls, shorter than mob_submit. mob_task_run: a task of one CPU and one result, which
 * is run again up to three times if its worker dies. mob_actor_new: an actor that holds no CPU once
 * it is made. mob_actor_call: a call of an actor with one result. The name is the task's (a
 * function's symbol, say), the class's or the method's. args may be NULL: none. */
MOB_API mob_status_t mob_task_run(mob_client_t *client, mob_ref_t function, const char *name,
                                  mob_args_t *args, mob_ref_t *ret_ref);
MOB_API mob_status_t mob_actor_new(mob_client_t *client, mob_ref_t class_, const char *name,
                                   mob_args_t *args, mob_ref_t *ret_actor);
MOB_API mob_status_t mob_actor_call(mob_client_t *client, mob_ref_t actor, const char *method,
                                    mob_args_t *args, mob_ref_t *ret_ref);

/* The same for tasks and calls that give out items: mob_flow_read gives one after the other, and
 * mob_flow_close ends it. `limit` as mob_submit_flow's. */
MOB_API mob_status_t mob_task_flow(mob_client_t *client, mob_ref_t function, const char *name,
                                   mob_args_t *args, uint32_t limit, mob_flow_t *ret_flow);
MOB_API mob_status_t mob_actor_flow(mob_client_t *client, mob_ref_t actor, const char *method,
                                    mob_args_t *args, uint32_t limit, mob_flow_t *ret_flow);
/* Waits for the next item and gives it out, one count of it; goes on after signals. MOB_EOVER:
 * there are no more. MOB_ETIMEOUT after timeout_ms; -1: waits for ever. */
MOB_API mob_status_t mob_flow_read(mob_client_t *client, mob_flow_t *flow, int64_t timeout_ms,
                                   mob_ref_t *ret_ref);

/* Where the programs are: `ray c-flags` defines these for the compiler. For mob_config_t:
 * .daemon_path = MOB_DAEMON, .zygote_argv = MOB_C_WORKERS or MOB_PYTHON_WORKERS. */
#define MOB_C_WORKERS      ((const char *const[]){MOB_WORKER, NULL})
#define MOB_PYTHON_WORKERS ((const char *const[]){MOB_PYTHON, "-m", "ray._private.zygote", NULL})

/* ---- Being called -------------------------------------------------------- */

/*
 * A task is a symbol of this type. MOB_OK: it is done, and its results are written. Any other
 * status: it failed, with the words of mob_call_fail, else of mob_last_error. Python raises them as
 * a RayTaskError, mob_get returns MOB_ETASK. With retry_exceptions the task is then run again.
 *
 * An actor's class NAME is three symbols and one a method:
 *     mob_status_t NAME_new(mob_call_t *)       its constructor, with the creation's arguments;
 *                                               mob_call_set_state keeps what it made
 *     void         NAME_free(void *state)       at its end, if there is such a symbol; not when
 *                                               the actor is killed or crashes
 *     mob_status_t NAME_<method>(mob_call_t *)  a method; mob_call_state gives what NAME_new made
 * Methods are called one after the other, in the same thread.
 */
typedef struct mob_call mob_call_t;
typedef mob_status_t (*mob_function_t)(mob_call_t *call);

/* This worker's client: for tasks that your function submits, for objects and for waits, which lend
 * the CPU. */
MOB_API mob_client_t *mob_call_client(const mob_call_t *call);
/* name, resources, number of results */
MOB_API const mob_run_t *mob_call_run(const mob_call_t *call);
MOB_API void *mob_call_state(const mob_call_t *call);
MOB_API void mob_call_set_state(mob_call_t *call, void *state);

/* Whether the call was cancelled (mob_cancel, ray.cancel). A function in C is not interrupted: one
 * that runs for long asks now and then, and returns MOB_ECANCELLED; that is its result then. */
MOB_API bool mob_call_is_cancelled(const mob_call_t *call);
/* Fails the call: `return mob_call_fail(call, "no such file: %s", path)`. Returns MOB_ETASK. */
MOB_API mob_status_t mob_call_fail(mob_call_t *call, const char *format, ...) MOB_PRINTF(2, 3);

/* Arguments, from 0. Of a reference you get its object's value. The typed calls fail with
 * MOB_EINVAL if the argument is of another type, and say which argument it is and what they
 * found. */
MOB_API uint32_t mob_call_count(const mob_call_t *call);
MOB_API mob_status_t mob_call_arity(mob_call_t *call, uint32_t least,
                                    uint32_t most); /* fails if there are fewer or more */
MOB_API mob_status_t mob_call_item(mob_call_t *call, uint32_t index, mob_item_t *ret_item);
MOB_API mob_status_t mob_call_int(mob_call_t *call, uint32_t index, int64_t *ret_integer);
MOB_API mob_status_t mob_call_float(mob_call_t *call, uint32_t index, double *ret_real);
MOB_API mob_status_t mob_call_bool(mob_call_t *call, uint32_t index, bool *ret_truth);
MOB_API mob_status_t mob_call_str(mob_call_t *call, uint32_t index, const char **ret_text,
                                  uint64_t *ret_size);
MOB_API mob_status_t mob_call_buffer(mob_call_t *call, uint32_t index, const void **ret_data,
                                     uint64_t *ret_size);
/* The reference that the caller gave as this argument, to pass on; the call holds it. MOB_EINVAL:
 * the caller gave a value. */
MOB_API mob_status_t mob_call_ref(mob_call_t *call, uint32_t index, mob_ref_t *ret_ref);

/* Results, from 0; a later one for the same index replaces it. If the task has one result and you
 * write none, it is None. With MOB_ITEM as the index it is the next item of a task that its caller
 * reads one by one (mob_task_flow; num_returns="streaming" in Python), which gets it at once. Such
 * a call waits while the reader is behind by its limit. MOB_EOVER: nobody reads the items any more,
 * so return that. MOB_EINVAL: the caller wants results, not items. If your task is run again, the
 * items that were read before are left out. */
#define MOB_ITEM UINT32_MAX
MOB_API mob_status_t mob_call_return_none(mob_call_t *call, uint32_t index);
MOB_API mob_status_t mob_call_return_bool(mob_call_t *call, uint32_t index, bool truth);
MOB_API mob_status_t mob_call_return_int(mob_call_t *call, uint32_t index, int64_t integer);
MOB_API mob_status_t mob_call_return_float(mob_call_t *call, uint32_t index, double real);
MOB_API mob_status_t mob_call_return_str(mob_call_t *call, uint32_t index, const char *text,
                                         size_t size);
MOB_API mob_status_t mob_call_return_bytes(mob_call_t *call, uint32_t index, const void *data,
                                           size_t size);
/* The one value that you have written with a writer: for tuples. The writer stays yours. */
MOB_API mob_status_t mob_call_return(mob_call_t *call, uint32_t index, mob_writer_t *writer);
/* As mob_put_array, without a copy: fill *ret_data before your function returns; of an item, before
 * it writes the next one. */
MOB_API mob_status_t mob_call_return_array(mob_call_t *call, uint32_t index, const char *dtype,
                                           uint64_t count, size_t item_size, void **ret_data);

/* ---- Workers of your own ------------------------------------------------- */

/* For a program that does what mobula-worker does. mob_zygote makes it the process that workers are
 * forked from, and returns in each of them, connected. If functions are linked into your program,
 * or it has another language in it, use mob_run_next in the place of mob_serve. */
typedef struct mob_zygote_ops {
    void (*before_fork)(void), (*after_fork_parent)(void), (*after_fork_child)(void);
    /* Called with mob_config_t.setup before any worker is forked; the bytes stay. `again`: this
     * process has begun for another setup before, and its environment and working directory have
     * changed since. NULL: it is ready; else the words of why no worker can be had. */
    const char *(*begin)(const void *setup, size_t size, bool again);
    void (*preload)(const char *name); /* called with each of mob_config_t.preload, in a copy of the
                                          process that then takes its place */
} mob_zygote_ops_t;

/* For `begin`: the process goes on as another program, which calls mob_zygote for the same setup.
 * Returns only if that program can't be started, with words. */
MOB_API mob_status_t mob_zygote_become(const char *const *argv);
/* For `begin`, in a zygote of a driver that is at another node: has the daemon bring a file of that
 * name from there into the folder `packages` of this session's. Blocks; -1: for as long as it
 * takes. MOB_ETIMEOUT, MOB_ESYS, with words. */
MOB_API mob_status_t mob_zygote_fetch(const char *name, int timeout_ms);
/* For a program that mobulad has started, while it has one thread. ops and each of its members may
 * be NULL. MOB_EINVAL: mobulad has not started this program. */
MOB_API mob_status_t mob_zygote(const mob_zygote_ops_t *ops, mob_client_t **ret_client);
/* Takes runs of functions in C and runs them, until this worker is to end. */
MOB_API mob_status_t mob_serve(mob_client_t *client);

#ifdef __cplusplus
}
#endif
#endif
