/*
 * Mobula's C API: remote tasks, actors and shared-memory objects for one machine.
 *
 * Everything that the Python package does goes through these calls. Values are byte buffers in one
 * of the formats of mob_format_t; the direct encoding (below) is the one that C and Python programs
 * share without pickle.
 *
 * Threads: every call may be made from any thread of the process that made the client, unless it
 * says otherwise. Fork: a child of a client's process is not a client; its calls return
 * MOB_EFORKED, and nothing that it does harms the parent's client. Values of more than MOB_SMALL
 * bytes that were looked at before the fork stay readable in the child. Ownership: what a call
 * gives out through `ret_` is written only when it returns MOB_OK. References are counted in the
 * process: every mob_ref_t that a call gives out is one count, given back by mob_ref_release.
 */
#ifndef MOBULA_H
#define MOBULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MOB_API __attribute__((visibility("default")))
#else
#define MOB_API
#endif

/* ---- Status -------------------------------------------------------------- */

typedef enum mob_status {
    MOB_OK = 0,
    MOB_ENOMEM,     /* the process has no memory left */
    MOB_EINVAL,     /* an argument makes no sense */
    MOB_ELIMIT,     /* a fixed limit of the system was reached */
    MOB_ESYS,       /* a system call failed; mob_last_error has the text */
    MOB_ENOSPC,     /* no space in the temp folder */
    MOB_EPERM,      /* the peer belongs to another user */
    MOB_EPROTO,     /* the peer does not speak this protocol or version */
    MOB_ECLOSED,    /* the daemon is gone */
    MOB_EFORKED,    /* called in a forked child of the client */
    MOB_ETIMEOUT,   /* the time ran out; what was waited for goes on */
    MOB_EINTR,      /* a signal arrived, or a second has passed: call again to go on waiting */
    MOB_EFULL,      /* the object store has no space */
    MOB_ESPACE,     /* ... at this moment: wait with mob_space_wait, then call again */
    MOB_EDISK,      /* ... and the disk that objects are moved to is full, or fails */
    MOB_EAWAY,      /* the object is on disk: mob_get_fetch brings it back */
    MOB_ESTALE,     /* a reference of an earlier session, or of an object that is gone */
    MOB_ETASK,      /* the value is an error that the task raised */
    MOB_ECRASHED,   /* the worker died while it ran the task */
    MOB_EOOM,       /* the task was ended because memory was short */
    MOB_EACTOR,     /* the actor is dead */
    MOB_ELOST,      /* the object is lost */
    MOB_ECANCELLED, /* the task was cancelled because its submitter died */
    MOB_STATUS_COUNT
} mob_status_t;

MOB_API const char *mob_status_name(mob_status_t status); /* "store_full"; never NULL */
MOB_API const char *mob_status_text(mob_status_t status); /* a sentence; never NULL */
/* What went wrong in this thread's last failed call, with the names and sizes concerned; "" if
 * there is no more to say. Valid until the thread's next call. */
MOB_API const char *mob_last_error(void);

/* ---- Client -------------------------------------------------------------- */

typedef struct mob_client mob_client_t;

typedef struct mob_resource {
    const char *name; /* "CPU", "GPU", "memory" or a name of one's own */
    double amount;
} mob_resource_t;

typedef struct mob_config {
    const char *daemon_path; /* the mobulad program */
    const char *temp_dir; /* where the session's folder is made; NULL: $RAY_TMPDIR, $TMPDIR, /tmp */
    const char *const *
        zygote_argv; /* the command of the process that workers are forked from; NULL: no workers */
    const mob_resource_t
        *resources; /* what this node offers; CPU is added by the CPU count if it is not named */
    size_t resource_count;
    uint64_t store_bytes; /* size of the object store; 0: 30 % of the memory that the machine or its
                             cgroup allows */
    const void *setup;    /* handed to every worker as it is; at most 16 MiB */
    size_t setup_size;
    const char *const *preload; /* NULL-terminated: modules that the zygote loads after its start */
    const char *const *spill_dirs;    /* NULL-terminated: where objects are moved that memory has no
                                         space for, by turns; NULL: the session's own folder */
    bool log_to_driver;               /* whether what workers print is sent to mob_message_read */
    void (*meanwhile)(void *context); /* called once by this thread while the daemon starts, which
                                         takes some time; or NULL */
    void *meanwhile_context;
} mob_config_t;

MOB_API unsigned mob_default_cpus(void);
MOB_API uint64_t mob_default_store_bytes(void);
MOB_API uint64_t mob_memory_limit(void);

/* Starts a daemon and connects to it as its driver. The daemon ends when the driver does, however
 * that happens. */
MOB_API mob_status_t mob_init(const mob_config_t *config, mob_client_t **ret_client);
/* Ends the session: the daemon, its workers and all objects. Workers have up to half a second for
 * what they do at their end, unless mob_message_finish came before. Values of more than MOB_SMALL
 * bytes stay readable while mob_view_hold says so. Takes the client; NULL is fine. No other thread
 * may be inside a call. */
MOB_API void mob_shutdown(mob_client_t *client);
/* Makes every call that waits in another thread return MOB_ECLOSED soon, so that mob_shutdown can
 * follow. */
MOB_API void mob_client_stop(mob_client_t *client);
/* Connects to a running daemon as a worker. The token is the one that the daemon gave when it asked
 * for this worker. */
MOB_API mob_status_t mob_worker_connect(const char *socket_path, uint64_t token,
                                        mob_client_t **ret_client);

typedef struct mob_session {
    const char *session_dir;
    const char *socket_path;
    uint64_t incarnation; /* of this node; part of every object's id */
    uint32_t number;      /* of this client; used again after its end */
    uint32_t epoch;       /* which of the session's clients it is: never used again */
    int daemon_pid;       /* 0 in a worker */
    const void *setup;
    size_t setup_size;
} mob_session_t;
MOB_API void mob_client_session(const mob_client_t *client, mob_session_t *ret_session);

/* What the daemon has to tell a driver: worker output, warnings, and errors of tasks whose results
 * went without anybody having asked for them. */
typedef enum mob_message_kind {
    MOB_MESSAGE_OUT = 1,
    MOB_MESSAGE_ERR = 2,
    MOB_MESSAGE_WARN = 3,
    MOB_MESSAGE_UNHANDLED = 4
} mob_message_kind_t;
typedef struct mob_message {
    mob_message_kind_t kind;
    int pid;
    const char *name; /* of the task or actor that printed; "" if unknown */
    /* Lines, as they were printed; the newline of the last one is left out. */
    const char *text;
    size_t text_size;
    /* The last line has no end yet, and no newline was left out: the next message of the same pid
     * and kind goes on there. A worker's line comes like that when it has had no end for a short
     * while, or when it is longer than one message holds. */
    bool unfinished;
} mob_message_t;
/* Waits for the next message. For one thread at a time. The strings are valid until that thread's
 * next call. MOB_ECLOSED: there will be no more. */
MOB_API mob_status_t mob_message_read(mob_client_t *client, mob_message_t *ret_message);
/* Begins the session's end: the daemon lets the workers end (for up to a second; what has not ended
 * then is told and killed), sends everything that was printed, and then closes the stream of
 * messages, so that mob_message_read returns MOB_ECLOSED once all has been read. To be followed by
 * mob_shutdown, which, called before that, ends at once whatever is left. */
MOB_API void mob_message_finish(mob_client_t *client);

/* ---- References and objects ---------------------------------------------- */

typedef struct mob_ref {
    uint32_t slot; /* 0: no reference */
    uint32_t reserved;
    uint64_t generation;
} mob_ref_t;

enum { MOB_ID_SIZE = 20 };
MOB_API void mob_ref_id(const mob_client_t *client, mob_ref_t ref, uint8_t ret_id[MOB_ID_SIZE]);
MOB_API mob_status_t mob_ref_from_id(const mob_client_t *client, const uint8_t id[MOB_ID_SIZE],
                                     mob_ref_t *ret_ref);
MOB_API void mob_ref_retain(mob_client_t *client, mob_ref_t ref);
MOB_API void mob_ref_release(mob_client_t *client, mob_ref_t ref);
/* Keeps the memory of values readable beyond mob_shutdown, until released as often. The client
 * itself is freed with the last one. */
MOB_API void mob_view_hold(mob_client_t *client);
MOB_API void mob_view_release(mob_client_t *client);

typedef enum mob_format {
    MOB_FORMAT_DIRECT = 0, /* the encoding of this header */
    MOB_FORMAT_PICKLE = 1, /* protocol 5: mob_pickle_t, the stream, then its buffers */
} mob_format_t;

typedef struct mob_value {
    const void *data; /* in shared memory: read only */
    uint64_t size;
    mob_format_t format;
    mob_status_t
        error; /* MOB_OK: a value. Else what failed; data is then the error, direct: a str, or
                  a tuple that begins with one (mob_error_text) and has more for Python */
    const mob_ref_t *refs; /* the references inside the value */
    uint32_t ref_count;
    bool pinned; /* it would move if it were not open */
} mob_value_t;

enum {
    MOB_SMALL = 40
}; /* a value of up to so many bytes, without references, lies in its slot: copy it out at once */

/* Space for a value that is being written. Small ones live in the struct itself until they are
 * committed. */
typedef struct mob_buffer {
    void *data; /* write here, up to size bytes */
    uint64_t size;
    uint64_t block;
    uint32_t file; /* of a value that is larger than the store: it lies in a file of its own */
    uint32_t ref_count;
    bool cold; /* its pages are new to this process, and slow to write unless they are mapped before
                */
    mob_ref_t ref;
    uint8_t small[MOB_SMALL];
} mob_buffer_t;

/* Makes space for a value of `size` bytes that contains `ref_count` references. Commit or abort it,
 * in any thread. MOB_ESPACE: not now. */
MOB_API mob_status_t mob_put_begin(mob_client_t *client, uint64_t size, uint32_t ref_count,
                                   mob_buffer_t *ret_buffer);
/* Copies `size` bytes to `offset` in the buffer: for much of it the fastest way, since pages that
 * are new to the process are mapped on the way, and other threads help where there are CPUs for
 * them. */
MOB_API void mob_buffer_write(mob_client_t *client, mob_buffer_t *buffer, uint64_t offset,
                              const void *data, uint64_t size);
/* Maps the pages of all of it, for who writes it by other means. */
MOB_API void mob_buffer_map(mob_client_t *client, mob_buffer_t *buffer);
/* Publishes it. `refs` are borrowed; the object keeps what they name alive. */
MOB_API mob_status_t mob_put_commit(mob_client_t *client, mob_buffer_t *buffer, mob_format_t format,
                                    const mob_ref_t *refs, mob_ref_t *ret_ref);
MOB_API void mob_put_abort(mob_client_t *client, mob_buffer_t *buffer);
/* All of it; waits for space if need be. */
MOB_API mob_status_t mob_put(mob_client_t *client, const void *data, uint64_t size,
                             mob_format_t format, mob_ref_t *ret_ref);
/* After MOB_ESPACE, in the same thread: objects that nobody reads are being moved to disk. MOB_OK:
 * call again; at the latest after a second. MOB_EFULL, MOB_EDISK: there will be no space, and
 * mob_last_error says who has it. MOB_EINTR: a signal handler ran. */
MOB_API mob_status_t mob_space_wait(mob_client_t *client);
/* The same, but goes on after signals. */
MOB_API mob_status_t mob_space_await(mob_client_t *client);
/* This thread was told MOB_ESPACE and will not call again: what it was promised is given up. */
MOB_API void mob_space_forget(mob_client_t *client);
/* Objects that are needed all at once found no space (MOB_EFULL), and those that were open are
 * closed again. Others may have waited for them as we did for theirs: waits a moment, a different
 * one in each process, and is true if it is worth another try, which is number `tries` + 1. */
MOB_API bool mob_space_retry(mob_client_t *client, const mob_ref_t *refs, size_t count, int tries);

/* Waits until every one of `refs` is there or one of them is an error, at most timeout_ms (-1: for
 * ever). MOB_EINTR when a signal handler ran, and once a second, so that the caller can look at its
 * own affairs. The caller holds the references meanwhile. */
MOB_API mob_status_t mob_get_wait(mob_client_t *client, const mob_ref_t *refs, size_t count,
                                  int64_t timeout_ms);
/* Whether it could be opened now: what mob_get_begin would return. */
MOB_API mob_status_t mob_get_look(mob_client_t *client, mob_ref_t ref);
/* Nobody need be told of the errors of these objects, now or once they are made: their holder asked
 * for all of them, and was told of the first. (An error that goes without anybody having opened it
 * is told to the driver.) */
MOB_API void mob_get_see(mob_client_t *client, const mob_ref_t *refs, size_t count);
/* Opens an object for reading in place, without waiting: MOB_ETIMEOUT if it is not there yet,
 * MOB_EAWAY if it is on disk. The value is valid, and stays in memory, until mob_get_end; the
 * caller holds a count of ref at least as long. An error is valid as long as ref is held. */
MOB_API mob_status_t mob_get_begin(mob_client_t *client, mob_ref_t ref, mob_value_t *ret_value);
/* The same for refs[0], after MOB_EAWAY: waits until it is in memory. The others are what will be
 * opened next, and are brought back on the way. MOB_EFULL, MOB_EDISK: there is no space for it.
 * Else as mob_get_wait. */
MOB_API mob_status_t mob_get_fetch(mob_client_t *client, const mob_ref_t *refs, size_t count,
                                   int64_t timeout_ms, mob_value_t *ret_value);
/* One more mob_get_end is to come; for a value that is open, and of more than MOB_SMALL bytes. */
MOB_API void mob_get_keep(mob_client_t *client, mob_ref_t ref);
MOB_API void mob_get_end(mob_client_t *client, mob_ref_t ref, const mob_value_t *value);
/* Copies `size` bytes of a value that is open to memory of the caller's own that nothing was
 * written to yet: for much of it the fastest way, as mob_buffer_write. */
MOB_API void mob_value_copy(mob_client_t *client, const void *data, uint64_t size, void *to);
/* Before unpacking a value that contains references: gives the caller one count of each. */
MOB_API void mob_value_adopt(mob_client_t *client, mob_ref_t container, const mob_value_t *value);
/* After it: takes these counts back. */
MOB_API void mob_value_release(mob_client_t *client, const mob_value_t *value);
/* Waits until `needed` of the refs are there; marks them in ret_ready (up to `needed`, in the order
 * of the list). Returns MOB_OK with fewer marked when the time ran out. ret_ready is always
 * written. */
MOB_API mob_status_t mob_wait(mob_client_t *client, const mob_ref_t *refs, size_t count,
                              size_t needed, int64_t timeout_ms, uint8_t *ret_ready,
                              size_t *ret_count);

/* ---- Tasks and actors ---------------------------------------------------- */

typedef enum mob_kind {
    MOB_TASK = 0,
    MOB_ACTOR_CREATE = 1,
    MOB_ACTOR_CALL = 2,
    MOB_FORGET = 3, /* for workers only: `function` is not needed any more; nothing to run, nothing
                       to finish */
} mob_kind_t;

typedef struct mob_task {
    mob_kind_t kind;
    mob_ref_t function; /* an object that names a function or class: mob_function_c and its like, in
                           mobula_task.h; none for calls */
    mob_ref_t actor;    /* MOB_ACTOR_CALL */
    const char *name;   /* for people; the method for MOB_ACTOR_CALL. At most 255 bytes */
    size_t name_size;
    uint32_t shape;      /* resources: mob_shape */
    uint32_t held_shape; /* MOB_ACTOR_CREATE: what it holds once it is made */
    uint32_t num_returns;
    int32_t max_retries;      /* when the worker dies: 0 never, -1 without end */
    uint32_t max_calls;       /* the worker ends after so many runs of this function; 0: never */
    uint32_t max_concurrency; /* MOB_ACTOR_CREATE: so many calls may run at once, if its worker can
                                 do that; 0: one after the other */
    bool retry_exceptions;
    const void *args; /* see "Arguments" below */
    size_t args_size;
    const mob_ref_t *deps; /* arguments that are references: the task starts when they are there */
    uint32_t dep_count;
    const mob_ref_t *refs; /* references inside the arguments */
    uint32_t ref_count;
} mob_task_t;

enum { MOB_MAX_RETURNS = 100000, MOB_MAX_DEPS = 1000000, MOB_MAX_RESOURCES = 256 };

/* Shapes that every node knows: nothing at all, and one CPU. */
enum { MOB_SHAPE_NOTHING = 0, MOB_SHAPE_ONE_CPU = 1 };
/* A demand's number, to be used in mob_task_t; the same for the same demand. It is good until as
 * many calls of mob_shape_drop; tasks that were submitted before that keep theirs. A demand names
 * at most MOB_MAX_RESOURCES. */
MOB_API mob_status_t mob_shape(mob_client_t *client, const mob_resource_t *demand, size_t count,
                               uint32_t *ret_shape);
MOB_API void mob_shape_drop(mob_client_t *client, uint32_t shape);
/* Hands a task to the scheduler. ret_refs has space for num_returns (1 for MOB_ACTOR_CREATE: the
 * actor itself). All inputs are borrowed; the task keeps what its references name alive.
 * MOB_ESPACE: not now. */
MOB_API mob_status_t mob_submit(mob_client_t *client, const mob_task_t *task, mob_ref_t *ret_refs);
/* Ends it. Calls that are made after this has returned, by whomever, find it dead. */
MOB_API mob_status_t mob_actor_kill(mob_client_t *client, mob_ref_t actor);

/* ---- Workers ------------------------------------------------------------- */

typedef struct mob_run {
    mob_kind_t kind;
    mob_ref_t function;
    mob_ref_t actor;   /* the one that is called, or is being made */
    mob_ref_t task_id; /* names this run; not a reference to an object */
    const char *name;
    size_t name_size;
    uint64_t gpu_mask;
    uint32_t shape, held_shape;
    uint32_t num_returns;
    uint32_t max_calls, max_concurrency;
    bool may_retry; /* an exception may be answered with mob_run_retry */
    const void *args;
    size_t args_size;
    const mob_ref_t *deps;
    uint32_t dep_count;
    uint32_t ref_count;
    uint64_t start_ns;
} mob_run_t;

/* Waits for work. The run is valid until it is finished or retried (MOB_FORGET: until the next
 * call). MOB_ECLOSED: the worker is to end. An actor with max_concurrency may call this again
 * before it has finished a run; it then waits while it has so many. One thread at a time. */
MOB_API mob_status_t mob_run_next(mob_client_t *client, mob_run_t **ret_run);
/* The same, but does not wait: MOB_ETIMEOUT if there is nothing now, MOB_ELIMIT if one has to be
 * finished before. */
MOB_API mob_status_t mob_run_try(mob_client_t *client, mob_run_t **ret_run);
/* Space for the run's result number `index`; written by mob_run_finish. MOB_ESPACE: not now. */
MOB_API mob_status_t mob_run_result_begin(mob_client_t *client, mob_run_t *run, uint32_t index,
                                          uint64_t size, uint32_t ref_count,
                                          mob_buffer_t *ret_buffer);
MOB_API void mob_run_result_commit(mob_client_t *client, mob_run_t *run, uint32_t index,
                                   mob_buffer_t *buffer, mob_format_t format, mob_status_t error,
                                   const mob_ref_t *refs);
/* Publishes all results at once. */
MOB_API void mob_run_finish(mob_client_t *client, mob_run_t *run);
/* Asks for another run instead; false if the task may not be run again: then finish it. The driver
 * is told of the text, which says what went wrong and is cut at MOB_STORY_MAX bytes. */
enum { MOB_STORY_MAX = 4000 };
MOB_API bool mob_run_retry(mob_client_t *client, mob_run_t *run, const char *text, size_t size);
/* The run failed, and has no result that could say so: the driver is told, as of an error that
 * nobody asked for. To be followed by mob_run_finish. */
MOB_API void mob_run_failed(mob_client_t *client, mob_run_t *run, const char *text, size_t size);
/* Runs that were begun and are not finished. */
MOB_API uint32_t mob_run_count(mob_client_t *client);
/* Tells the daemon that this worker has begun to end, for whatever reason: from now on it has as
 * long as RAY_actor_graceful_shutdown_timeout_ms says, and is then told of and killed. True: the
 * session ends too, and all its workers have a second together. Does not wait. */
MOB_API bool mob_worker_ends(mob_client_t *client);

/* ---- Event loops --------------------------------------------------------- */

/*
 * For programs that must not sleep in mob_get_wait, mob_wait or mob_run_next: a file descriptor
 * that is readable when it is time to look.
 *
 *     do {
 *         found = false;
 *         while ((watch = mob_event_next(event))) { ...; found = true; }
 *         the same with mob_run_try, then the loop's other work, if there is any
 *     } while (mob_event_look_again(event, found));
 *     then sleep until the descriptor is readable
 *
 * While it sleeps so, a worker's thread counts as waiting: what its runs hold of CPUs is lent. An
 * event belongs to one thread at a time. */
typedef struct mob_event mob_event_t;

/* Something that is waited for; its user's memory. */
typedef struct mob_watch {
    mob_ref_t ref;
    bool forgotten; /* by mob_event_forget */
} mob_watch_t;

/* takes_runs: it also tells of runs for mob_run_try, which this thread runs by turns; for an
 * actor's worker, one event. */
MOB_API mob_status_t mob_event_open(mob_client_t *client, bool takes_runs, mob_event_t **ret_event);
/* May come after mob_shutdown. Watches that were not given out are forgotten: mob_event_drop them
 * before. */
MOB_API void mob_event_close(mob_event_t *event);
MOB_API int mob_event_fd(const mob_event_t *event);
/* Asks to be told when the object watch->ref is there: then mob_event_next gives out the watch,
 * which stays where it is until then. */
MOB_API mob_status_t mob_event_watch(mob_event_t *event, mob_watch_t *watch);
/* The object is not wanted any more, nor need its reference be held; mob_event_next gives out the
 * watch soon. Only before it did. */
MOB_API void mob_event_forget(mob_watch_t *watch);
/* A watch whose object is there, or will never be since the session is over, or which is forgotten;
 * NULL: none. In the order of the watches. */
MOB_API mob_watch_t *mob_event_next(mob_event_t *event);
/* Before the end: any watch that was not given out; NULL: none is left. */
MOB_API mob_watch_t *mob_event_drop(mob_event_t *event);
/* To be called after a look, `found`: whether there was anything. True: look again before you
 * sleep. False: the descriptor will tell; until then there is nothing. */
MOB_API bool mob_event_look_again(mob_event_t *event, bool found);
/* All events of the client are over, and tell so. No other thread may be inside a call with one.
 * mob_shutdown does this too. */
MOB_API void mob_events_end(mob_client_t *client);

/* ---- Looking around ------------------------------------------------------ */

typedef enum mob_query {
    MOB_QUERY_RESOURCES = 1,
    MOB_QUERY_EVENTS = 2,
    MOB_QUERY_ACTORS = 3,
    MOB_QUERY_SHAPE = 4,
    MOB_QUERY_SPACE = 5,  /* a text: who has the object store's memory */
    MOB_QUERY_OBJECTS = 6 /* at most `argument` of them, and who holds each */
} mob_query_t;
/* The answer is a value in the direct encoding; the caller frees it with free(). */
MOB_API mob_status_t mob_query(mob_client_t *client, mob_query_t query, uint64_t argument,
                               void **ret_answer, size_t *ret_size);

/* The same for a session that this process need not take part in: by the socket in the session's
 * folder. Waits for the whole answer at most timeout_ms (-1: for ever), then MOB_ETIMEOUT. */
MOB_API mob_status_t mob_observe(const char *socket_path, mob_query_t query, uint64_t argument,
                                 int64_t timeout_ms, void **ret_answer, size_t *ret_size);
/* For people who look at the objects: where one was made. A text is told once, and has a number. */
enum { MOB_SITE_MAX = 1024 };
MOB_API mob_status_t mob_site(mob_client_t *client, const char *text, uint32_t *ret_site);
MOB_API void mob_ref_made_at(mob_client_t *client, mob_ref_t ref, uint32_t site);

/* ---- The direct encoding
 * -------------------------------------------------------------------------------------------- A
 * tag byte, then what it needs, little-endian, unaligned.
 *
 *   tag            follows
 *   MOB_NONE       -
 *   MOB_FALSE/TRUE -
 *   MOB_INT        8 bytes, two's complement
 *   MOB_FLOAT      8 bytes, IEEE 754
 *   MOB_STR        8 bytes of length, UTF-8
 *   MOB_BYTES      8 bytes of length, bytes
 *   MOB_TUPLE      4 bytes of count, that many values
 *
 * Arguments: 4 bytes number of positional ones, 4 bytes number of keyword ones, then the values,
 * keyword ones preceded by a MOB_STR. Beside the tags above, an argument may be MOB_ARG_DEP (4
 * bytes: index into deps) or MOB_ARG_PICKLE (8 bytes of length, a pickle without out-of-band
 * buffers).
 */
enum {
    MOB_NONE = 0,
    MOB_FALSE = 1,
    MOB_TRUE = 2,
    MOB_INT = 3,
    MOB_FLOAT = 4,
    MOB_STR = 5,
    MOB_BYTES = 6,
    MOB_TUPLE = 7,
    MOB_ARG_DEP = 16,
    MOB_ARG_PICKLE = 17,
};

/* MOB_FORMAT_PICKLE begins with this; offsets are from its start, multiples of 64 for buffers. */
typedef struct mob_pickle {
    uint32_t buffer_count;
    uint32_t reserved;
    uint64_t stream_size;
    struct {
        uint64_t offset, size;
    } buffers[]; /* the stream follows the table */
} mob_pickle_t;

#ifdef __cplusplus
}
#endif
#endif
