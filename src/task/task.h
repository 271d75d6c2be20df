/* The inside of the room: what its files share, and what a worker in another language calls to run
 * C functions itself. */
#ifndef TASK_TASK_H
#define TASK_TASK_H

#include "base/vec.h"
#include "mobula_task.h"

/* write.c */
/* Space for `more` bytes; NULL: no memory, and the writer's status says so. */
uint8_t *task_writer_space(mob_writer_t *writer, size_t more);
void task_write_dep(mob_writer_t *writer, uint32_t index);

/* array.c */
/* The plan of a value that Python loads as an array. task_array_write writes its head; the caller
 * writes the numbers, which begin at the offset. */
typedef struct {
    uint8_t stream[64];
    uint64_t stream_size, offset, size;
} task_array_t;
mob_status_t task_array_plan(const char *dtype, uint64_t count, size_t item_size,
                             task_array_t *ret_array);
void *task_array_write(const task_array_t *array, void *to); /* returns where the numbers go */

/* library.c: what a function's object names */
typedef enum { TASK_IN_C, TASK_IN_PYTHON, TASK_PICKLED, TASK_UNKNOWN } task_language_t;
typedef struct {
    mob_ref_t ref;
    task_language_t language;
    char *library, *name;  /* in Python: the module and the name in it */
    void *handle;          /* of the library */
    mob_function_t symbol; /* NULL: not looked for yet */
} task_function_t;

/* NAME, or NAME_SUFFIX; NULL: there is none. */
void *task_symbol(void *handle, const char *name, const char *suffix);
/* Loads the library if need be. MOB_EINVAL with the reason. */
mob_status_t task_library_open(task_function_t *function);

/* call.c: one run of a function */
enum { TASK_FEW = 16 };
struct mob_call {
    mob_client_t *client;
    mob_run_t *run;
    void *state;
    uint32_t count;         /* of arguments */
    const uint8_t **starts; /* where each begins; NULL: in `few` */
    const uint8_t *few[TASK_FEW];
    const uint8_t *end;
    uint64_t written;  /* one bit a result, of the first 64 */
    uint8_t *more;     /* one byte a result, where there are more than that */
    mob_value_t *deps; /* arguments that are references, open; NULL: in `few_deps` */
    mob_value_t few_deps[TASK_FEW];
    uint32_t deps_open;
    bool failed; /* `text` has the words */
    /* of a call that gives out items */
    mob_buffer_t item; /* an array that the function fills, published before the next item */
    bool item_waits;
    void *left_out; /* the same of one that is left out */
    char text[2000];
};
/* Looks at the arguments: MOB_EPROTO or MOB_EINVAL if they make no sense for a function in C.
 * Always to be followed by task_call_fini. */
mob_status_t task_call_init(mob_call_t *call, mob_client_t *client, mob_run_t *run, void *state);
void task_call_fini(mob_call_t *call);
/* Opens the arguments that are references, until task_call_close. False: the worker could not open
 * one (`failed` is set), or one is an error: then it is the last that is open. */
bool task_call_open(mob_call_t *call);
void task_call_close(mob_call_t *call);
/* Opens refs[0], from disk if need be; the caller reads the others next. */
mob_status_t task_open(mob_client_t *client, const mob_ref_t *refs, size_t count,
                       mob_value_t *ret_value);
/* mob_run_result_begin, waiting for space if need be. */
mob_status_t task_result_begin(mob_client_t *client, mob_run_t *run, uint32_t index, uint64_t size,
                               uint32_t ref_count, mob_buffer_t *ret_buffer);
/* The same for an item: mob_run_item_begin. */
mob_status_t task_item_begin(mob_client_t *client, mob_run_t *run, uint64_t size,
                             uint32_t ref_count, mob_buffer_t *ret_buffer);
/* After the function returned MOB_OK: whether every result is there. If the task has one result and
 * the function wrote none, writes None. */
mob_status_t task_call_complete(mob_call_t *call);

/* worker.c: a worker's functions and its actor. One thread at a time; the client's runs are one
 * after the other. */
typedef struct {
    char *name;
    size_t name_size;
    mob_function_t symbol;
} task_method_t;

typedef struct {
    mob_client_t *client;
    VEC(task_function_t *) functions; /* loaded; each holds a count of its object */
    task_function_t *last;            /* most runs have the function of the one before */
    task_function_t *actor_class;     /* not NULL: this worker has an actor in C */
    void *actor;
    VEC(task_method_t) methods; /* that were called before */
} task_worker_t;

/* The run's function; NULL: no memory, or the worker can't read its object, and mob_last_error says
 * why. Of a call: the actor's class, NULL if it is not in C. */
task_function_t *task_function_of(task_worker_t *worker, const mob_run_t *run);
/* Runs the run, and finishes it or gives it back, whatever comes of it. `function` is the one of
 * this run; NULL: the run fails with the words of mob_last_error. */
void task_run(task_worker_t *worker, mob_run_t *run, task_function_t *function);
void task_forget(task_worker_t *worker, mob_ref_t function);
/* The worker ends: so does its actor. */
void task_worker_fini(task_worker_t *worker);

/* failure.c */
/* Makes every result this error; a short one where the store has no space for it. Of a run that
 * gives out items it is the last item, and the result too unless the function itself has failed
 * (`raised`). */
void task_errors_store(mob_client_t *client, mob_run_t *run, const void *data, uint64_t size,
                       mob_status_t error, const mob_ref_t *refs, uint32_t ref_count, bool raised);
/* Stores that the run failed with these words; of an actor's creation, that the actor died. */
void task_failure_store(const task_worker_t *worker, mob_run_t *run, const char *words);
/* Stores that the run was cancelled. */
void task_cancelled_store(const task_worker_t *worker, mob_run_t *run);
/* The line between the name of a run and the error of its argument. */
#define TASK_LINK "  At least one of the input arguments for this task could not be computed:\n"
/* What people call the run: A.m for a method. Returns the title's size. */
size_t task_title(const task_worker_t *worker, const mob_run_t *run, char *ret_title,
                  size_t capacity);
/* Which run failed, and these words. Returns the story's size. */
uint64_t task_failure_story(const task_worker_t *worker, const mob_run_t *run, const char *words,
                            char *ret_story, size_t capacity);
/* The error of a run whose argument is the error `failed`: the same error, with words that name the
 * run before its own words. The caller frees it; NULL: no memory, or `failed` has no words. */
void *task_error_link(const mob_value_t *failed, const char *title, size_t title_size,
                      uint64_t *ret_size);

/* stream.c: stdout and stderr of a worker; lines are marked with the run's name, as the daemon
 * wants them. */
void task_streams_open(void);
void task_streams_name(const char *name, size_t size);
/* From now on other code (Python's) may write to the same descriptors. Returns whether anything was
 * written since the last time. */
bool task_streams_end(void);

#endif
