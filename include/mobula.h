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
 * bytes that the parent has opened before the fork stay readable in the child. Ownership: a call
 * writes to its `ret_` arguments only when it returns MOB_OK. References are counted in the
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
    MOB_ENOMEM,       /* the process has no memory left */
    MOB_EINVAL,       /* an argument makes no sense */
    MOB_ELIMIT,       /* a fixed limit of the system was reached */
    MOB_ESYS,         /* a system call failed; mob_last_error has the text */
    MOB_ENOSPC,       /* no space in the temp folder */
    MOB_EPERM,        /* the peer belongs to another user */
    MOB_EPROTO,       /* the peer does not speak this protocol or version */
    MOB_ECLOSED,      /* the daemon is gone */
    MOB_EFORKED,      /* called in a forked child of the client */
    MOB_ETIMEOUT,     /* the time ran out; the tasks that you waited for go on */
    MOB_EINTR,        /* a signal arrived, or a second has passed: call again to go on waiting */
    MOB_EFULL,        /* the object store has no space */
    MOB_ESPACE,       /* ... at this moment: wait with mob_space_wait, then call again */
    MOB_EDISK,        /* ... and the disk that objects are moved to is full, or fails */
    MOB_EAWAY,        /* the object is on disk: mob_get_fetch brings it back */
    MOB_ESTALE,       /* a reference of an earlier session, or of an object that is gone */
    MOB_ETASK,        /* the value is an error that the task raised */
    MOB_ECRASHED,     /* the worker died while it ran the task */
    MOB_EOOM,         /* the task was ended because memory was short */
    MOB_EACTOR,       /* the actor is dead */
    MOB_EUNAVAILABLE, /* the actor's process died during the call, and the actor comes back */
    MOB_ELOST,        /* the object is lost */
    MOB_ECANCELLED,   /* the task was cancelled: by mob_cancel, or because its submitter died */
    MOB_EEXISTS,      /* another actor has the name */
    MOB_ENONAME,      /* no actor has the name */
    MOB_EDEADLOCK,    /* what you wait for will never come: it waits for you */
    MOB_ESETUP,       /* the worker's runtime environment could not be set up */
    MOB_ESTOPPED,     /* the daemon is stopped, or does not answer: it may go on later */
    MOB_EOVER,        /* a flow has no more items; or nobody reads it any more */
    MOB_EGROUP,       /* the task's placement group was removed */
    MOB_EACTORGROUP,  /* the actor's placement group was removed before the actor was made */
    MOB_EPLACE,       /* the task asks for a node that is not there */
    MOB_EACTORPLACE,  /* the actor does */
    MOB_EOWNER,       /* the node that the object was made on is dead, and no other has its value */
    MOB_ENODE,        /* the node died that ran the task */
    MOB_STATUS_COUNT
} mob_status_t;

MOB_API const char *mob_status_name(mob_status_t status); /* "store_full"; never NULL */
MOB_API const char *mob_status_text(mob_status_t status); /* a sentence; never NULL */
/* What went wrong in this thread's last failed call, with the names and sizes concerned; "": there
 * is no more to say. Valid until the thread's next call. */
MOB_API const char *mob_last_error(void);

/* ---- Client -------------------------------------------------------------- */

typedef struct mob_client mob_client_t;

typedef struct mob_resource {
    const char *name; /* "CPU", "GPU", "memory" or a name of your own */
    double amount;
} mob_resource_t;

typedef struct mob_config {
    const char *daemon_path; /* the mobulad program */
    const char *temp_dir; /* where the session's folder is made; NULL: $RAY_TMPDIR, $TMPDIR, /tmp */
    const char *const *
        zygote_argv; /* the command of the process that workers are forked from; NULL: no workers */
    const mob_resource_t *resources; /* what this node offers; without a CPU among them the daemon
                                        offers as many as mob_default_cpus says */
    size_t resource_count;
    uint64_t store_bytes; /* size of the object store; 0: 30 % of the memory that the machine or its
                             cgroup allows */
    const void *setup;    /* the daemon hands it to every worker as it is; at most 16 MiB */
    size_t setup_size;
    const char *const *preload; /* NULL-terminated: modules that the zygote loads after its start */
    const char *labels;         /* of this node: key=value,key=value; NULL: none */
    const char *const *spill_dirs; /* NULL-terminated: folders for objects that memory has no space
                                      for, used by turns; NULL: the session's own folder */
    const char *const *cluster;    /* NULL-terminated: how a node with an address takes part in a
                                      cluster, as mobulad's arguments say it (--join=HOST:PORT and so
                                      on); NULL: alone */
    bool log_to_driver;            /* whether mob_message_read gets what workers print */
    const char *join;    /* the socket of a daemon that mob_node_start started: mob_init joins it,
                            and what describes a node (daemon_path, temp_dir, resources,
                            store_bytes, spill_dirs) is not used. NULL: it starts one */
    const char *address; /* of a node that is started, "IP:PORT": its name on this machine */
    const char *name_space; /* of the job's named actors; NULL: "" */
    const char *entrypoint; /* how the job is shown to people: the program's command; or NULL */
    void (*meanwhile)(void *context); /* mob_init calls it once, in your thread, while the daemon
                                         starts, which takes some time; or NULL */
    void *meanwhile_context;
} mob_config_t;

MOB_API unsigned mob_default_cpus(void);
MOB_API uint64_t mob_default_store_bytes(void);
MOB_API uint64_t mob_memory_limit(void);

/* Starts a daemon and connects to it as its driver; that daemon ends when the driver ends, also
 * when the driver is killed. Or joins the daemon at config->join; that one goes on. Either way the
 * driver has a job of its own, with workers of its own. */
MOB_API mob_status_t mob_init(const mob_config_t *config, mob_client_t **ret_client);
/* Starts a daemon that outlives this process, and returns when drivers can join it. It is this
 * process's child as long as this process lives. SIGTERM ends it, its workers and its jobs. The
 * string is yours to free. Forgets nothing in this process: there is no client. */
MOB_API mob_status_t mob_node_start(const mob_config_t *config, int *ret_pid,
                                    char **ret_session_dir);
/* Ends the driver's job: its workers, its actors but for detached ones, its objects; and the
 * daemon, if mob_init started it. Workers have up to half a second for what they do at their end,
 * unless you called mob_message_finish before. Values of more than MOB_SMALL bytes stay readable
 * while a mob_view_hold is not released. Takes the client; NULL is fine. No other thread may be
 * inside a call. */
MOB_API void mob_shutdown(mob_client_t *client);
/* Every call that waits in another thread returns MOB_ECLOSED soon, so that you can call
 * mob_shutdown. */
MOB_API void mob_client_stop(mob_client_t *client);
/* Connects to a running daemon as a worker. The token is the one that the daemon gave when it asked
 * for this worker. */
MOB_API mob_status_t mob_worker_connect(const char *socket_path, uint64_t token,
                                        mob_client_t **ret_client);

typedef struct mob_session {
    const char *session_dir;
    const char *socket_path;
    uint64_t incarnation; /* of this node; part of every object's id */
    uint32_t number; /* of this client; the daemon gives it to another one after this one's end */
    uint32_t epoch;  /* which of the session's clients this is: no other client ever has it */
    uint32_t job;    /* the number of its job, which no other job of this daemon ever has */
    uint32_t environment; /* the runtime environment that it submits to; 0: its job's own */
    int daemon_pid;       /* 0 in a worker, and in a driver that joined */
    bool joined;
    const void *setup;
    size_t setup_size;
} mob_session_t;
MOB_API void mob_client_session(const mob_client_t *client, mob_session_t *ret_session);

/* What the daemon has to tell a driver: worker output, warnings, and errors of tasks whose results
 * were dropped before any process had asked for them. */
typedef enum mob_message_kind {
    MOB_MESSAGE_OUT = 1,
    MOB_MESSAGE_ERR = 2,
    MOB_MESSAGE_WARN = 3,
    MOB_MESSAGE_UNHANDLED = 4
} mob_message_kind_t;
typedef struct mob_message {
    mob_message_kind_t kind;
    int pid;
    const char *name;    /* of the task or actor that printed; "" if unknown */
    const char *address; /* of the node where that was; "": the driver's own */
    /* Lines, as the worker printed them; the newline of the last one is left out. */
    const char *text;
    size_t text_size;
    /* The last line has no end yet, and no newline was left out: the next message of the same pid,
     * address and kind goes on there. The daemon sends a line without its end when the worker has
     * not ended it for a short while, or when it is longer than one message holds. */
    bool unfinished;
} mob_message_t;
/* Waits for the next message, for so long (-1: without end). For one thread at a time. The strings
 * are valid until that thread's next call. MOB_ETIMEOUT: there is none yet. MOB_ECLOSED: there will
 * be no more. */
MOB_API mob_status_t mob_message_read(mob_client_t *client, int64_t timeout_ms,
                                      mob_message_t *ret_message);
/* Begins the session's end: the daemon lets the workers end for up to a second, and then kills
 * those that are left and tells you of them. It sends everything that they have printed, and then
 * closes the stream of messages: mob_message_read returns MOB_ECLOSED once you have read all. Call
 * mob_shutdown then. Called earlier, it ends at once whatever is left. MOB_ESTOPPED, MOB_ECLOSED:
 * the daemon is stopped or gone, and sends nothing more. */
MOB_API mob_status_t mob_message_finish(mob_client_t *client);

/* ---- References and objects ---------------------------------------------- */

typedef struct mob_ref {
    uint32_t slot; /* 0: no reference */
    uint32_t reserved;
    uint64_t generation;
} mob_ref_t;

enum { MOB_ID_SIZE = 20 };
/* The object's id, the same on all nodes of a cluster. Asks the daemon if the object is another
 * node's. */
MOB_API void mob_ref_id(mob_client_t *client, mob_ref_t ref, uint8_t ret_id[MOB_ID_SIZE]);
/* The reference of this node for an id; asks the daemon if the object is another node's. The object
 * need not be there. MOB_ESTALE: it is none of this session. */
MOB_API mob_status_t mob_ref_from_id(mob_client_t *client, const uint8_t id[MOB_ID_SIZE],
                                     mob_ref_t *ret_ref);
MOB_API void mob_ref_retain(mob_client_t *client, mob_ref_t ref);
MOB_API void mob_ref_release(mob_client_t *client, mob_ref_t ref);
/* The reference is about to leave this process by a way that the daemon does not see: one count is
 * never given back, so the object stays until this process's job ends. */
MOB_API void mob_ref_keep(mob_client_t *client, mob_ref_t ref);
/* The number of a run that has this id (mob_run_t's task_id), for MOB_QUERY_TASK. */
MOB_API uint64_t mob_run_number(mob_ref_t task_id);
/* Takes a count of a reference that came by such a way. MOB_ESTALE: its object is gone. */
MOB_API mob_status_t mob_ref_restore(mob_client_t *client, mob_ref_t ref);
/* Whether its task is not done. The caller need not hold it: false if it is gone. */
MOB_API bool mob_ref_is_pending(const mob_client_t *client, mob_ref_t ref);
/* Keeps the memory of values readable beyond mob_shutdown, until you have released it as often. The
 * last release after mob_shutdown frees the client. */
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
    mob_status_t error; /* MOB_OK: a value. Else why the task failed; data is then the error in the
                           direct encoding: a str, or a tuple that begins with a str
                           (mob_error_text) and has more for Python */
    const mob_ref_t *refs; /* the references inside the value */
    uint32_t ref_count;
    bool pinned; /* open: the daemon does not move it before mob_get_end */
} mob_value_t;

enum {
    MOB_SMALL = 40
}; /* a value of up to so many bytes, without references, lies in its slot: copy it out at once */

/* Space for a value that you write. A small value lies in the struct itself until you commit it. */
typedef struct mob_buffer {
    void *data; /* write here, up to size bytes */
    uint64_t size;
    uint64_t block;
    uint32_t file; /* not 0: the value is larger than the store, and lies in a file of its own */
    uint32_t ref_count;
    bool cold; /* its pages are new to this process, and slow to write unless you map them before */
    mob_ref_t ref;
    uint8_t small[MOB_SMALL];
} mob_buffer_t;

/* Makes space for a value of `size` bytes that contains `ref_count` references. Commit or abort the
 * buffer, in any thread. MOB_ESPACE: there is none now. */
MOB_API mob_status_t mob_put_begin(mob_client_t *client, uint64_t size, uint32_t ref_count,
                                   mob_buffer_t *ret_buffer);
/* Copies `size` bytes to `offset` in the buffer: the fastest way for a large value. It maps the
 * pages that are new to this process, and helper threads take part where CPUs are idle. */
MOB_API void mob_buffer_write(mob_client_t *client, mob_buffer_t *buffer, uint64_t offset,
                              const void *data, uint64_t size);
/* Maps all pages of the buffer. Call this before you write a large value by other means than
 * mob_buffer_write. */
MOB_API void mob_buffer_map(mob_client_t *client, mob_buffer_t *buffer);
/* Publishes the value. `refs` are borrowed; the new object keeps the objects that they name
 * alive. */
MOB_API mob_status_t mob_put_commit(mob_client_t *client, mob_buffer_t *buffer, mob_format_t format,
                                    const mob_ref_t *refs, mob_ref_t *ret_ref);
/* The same of an error, in the direct encoding, as a failed task's result is one. */
MOB_API mob_status_t mob_put_error(mob_client_t *client, mob_buffer_t *buffer, mob_status_t error,
                                   const mob_ref_t *refs, mob_ref_t *ret_ref);
MOB_API void mob_put_abort(mob_client_t *client, mob_buffer_t *buffer);
/* All three steps for one value; waits for space if need be. */
MOB_API mob_status_t mob_put(mob_client_t *client, const void *data, uint64_t size,
                             mob_format_t format, mob_ref_t *ret_ref);
/* Call it after MOB_ESPACE, in the same thread, while the daemon moves objects to disk that no
 * process reads. MOB_OK, at the latest after a second: repeat the call that failed. MOB_EFULL,
 * MOB_EDISK: there will be no space, and mob_last_error says which processes have it. MOB_EINTR: a
 * signal handler ran. */
MOB_API mob_status_t mob_space_wait(mob_client_t *client);
/* The same, but goes on after signals. */
MOB_API mob_status_t mob_space_await(mob_client_t *client);
/* Call it if a call of this thread returned MOB_ESPACE and you will not repeat it: the daemon need
 * not keep space for it. */
MOB_API void mob_space_forget(mob_client_t *client);
/* You need several objects open at once, one found no space (MOB_EFULL), and you have closed the
 * others again. Another process may have waited for their space while you waited for its own. So
 * this waits a moment, a different one in each process. True: it is worth another try, which is
 * number `tries` + 1. */
MOB_API bool mob_space_retry(mob_client_t *client, const mob_ref_t *refs, size_t count, int tries);

/* Waits until every one of `refs` is there or one of them is an error, at most timeout_ms (-1: for
 * ever). Hold the references until it returns. MOB_EINTR when a signal handler ran, and once a
 * second, so that you can look after your own affairs. */
MOB_API mob_status_t mob_get_wait(mob_client_t *client, const mob_ref_t *refs, size_t count,
                                  int64_t timeout_ms);
/* Whether the object could be opened now: what mob_get_begin would return. */
MOB_API mob_status_t mob_get_look(mob_client_t *client, mob_ref_t ref);
/* The daemon need not tell the driver of the errors of these objects, now or once they are made.
 * Call it when you asked for all of them and have got the first error. (Else the daemon tells the
 * driver of each error that is dropped before any process has opened it.) */
MOB_API void mob_get_see(mob_client_t *client, const mob_ref_t *refs, size_t count);
/* Opens an object for reading in place, without waiting: MOB_ETIMEOUT if it is not there yet,
 * MOB_EAWAY if it is on disk. The value is valid, and stays in memory, until mob_get_end; the
 * caller holds a count of ref at least as long. An error is valid as long as ref is held. */
MOB_API mob_status_t mob_get_begin(mob_client_t *client, mob_ref_t ref, mob_value_t *ret_value);
/* The same for refs[0], after MOB_EAWAY: waits until the daemon has brought it back into memory.
 * Give the objects that you will open next behind it: the daemon brings them back too. MOB_EFULL,
 * MOB_EDISK: there is no space for it. Else as mob_get_wait. */
MOB_API mob_status_t mob_get_fetch(mob_client_t *client, const mob_ref_t *refs, size_t count,
                                   int64_t timeout_ms, mob_value_t *ret_value);
/* You will call mob_get_end once more for this object. For a value of more than MOB_SMALL bytes
 * that is open. */
MOB_API void mob_get_keep(mob_client_t *client, mob_ref_t ref);
MOB_API void mob_get_end(mob_client_t *client, mob_ref_t ref, const mob_value_t *value);
/* Copies `size` bytes of a value that is open to memory of your own that you have not written to
 * yet: the fastest way for a large value, as mob_buffer_write. */
MOB_API void mob_value_copy(mob_client_t *client, const void *data, uint64_t size, void *to);
/* Call it before you unpack a value that contains references: it gives you one count of each. */
MOB_API void mob_value_adopt(mob_client_t *client, mob_ref_t container, const mob_value_t *value);
/* Call it when you have unpacked the value: it takes these counts back. */
MOB_API void mob_value_release(mob_client_t *client, const mob_value_t *value);
/* Waits until `needed` of the refs are there, and marks those in ret_ready (up to `needed`, in the
 * order of the list). If the time runs out, it marks fewer and returns MOB_OK. It always writes
 * ret_ready. */
MOB_API mob_status_t mob_wait(mob_client_t *client, const mob_ref_t *refs, size_t count,
                              size_t needed, int64_t timeout_ms, uint8_t *ret_ready,
                              size_t *ret_count);

/* ---- Tasks and actors ---------------------------------------------------- */

typedef enum mob_kind {
    MOB_TASK = 0,
    MOB_ACTOR_CREATE = 1,
    MOB_ACTOR_CALL = 2,
    MOB_FORGET = 3, /* for workers only: no process needs `function` any more; nothing to run,
                       nothing to finish */
    MOB_GROUP = 4, /* a placement group: the daemon itself sets its bundles aside. Its arguments are
                      a mob_group_t; its one result names the group, and is sealed when it is
                      placed */
} mob_kind_t;

/* The arguments of MOB_GROUP. There follow the bundles, a mob_bundle_t each; then `value_size`
 * bytes in MOB_FORMAT_PICKLE, which become the result's value. */
typedef struct mob_group {
    uint32_t strategy; /* mob_strategy_t */
    uint32_t detached; /* 1: it outlives its maker's job */
    uint32_t bundles;
    uint32_t value_size;
    uint32_t id_at; /* where in the value the id of the group is to be written; all ones: nowhere */
    uint32_t reserved;
} mob_group_t;
/* There follow `resources` times 8 bytes of amount, in 1/10000, and a name with its zero; then the
 * labels that its node must have, with a zero (see mob_where_t). */
typedef struct mob_bundle {
    uint32_t resources;
    uint32_t size; /* of what follows */
} mob_bundle_t;
typedef enum mob_strategy {
    MOB_PACK = 0,
    MOB_SPREAD = 1,
    MOB_STRICT_PACK = 2,
    MOB_STRICT_SPREAD = 3, /* each bundle on a node of its own */
} mob_strategy_t;

/* How an actor, or a placement group, is known to other programs. */
typedef struct mob_actor_name {
    const char *name_space, *name; /* at most MOB_NAME_MAX bytes each; name "": it has none */
    bool detached;  /* it outlives its maker's job: only mob_actor_kill, an exit of its own, or the
                       daemon's end ends it */
    mob_ref_t info; /* an object for those who find the actor by its name; or none */
} mob_actor_name_t;
enum { MOB_NAME_MAX = 255 };

typedef struct mob_task {
    mob_kind_t kind;
    mob_ref_t function; /* an object that names a function or class: mob_function_c and its like, in
                           mobula_task.h; none for calls */
    mob_ref_t actor;    /* MOB_ACTOR_CALL */
    const char *name;   /* for people; the method for MOB_ACTOR_CALL, or what people see instead, a
                           zero and the method. At most 255 bytes */
    size_t name_size;
    uint32_t shape;      /* resources: mob_shape */
    uint32_t held_shape; /* MOB_ACTOR_CREATE: what it holds once it is made */
    uint32_t num_returns;
    int32_t max_retries; /* how often it is run again, -1 without end. A task or a call: when the
                            worker dies. MOB_ACTOR_CREATE: how often the actor is made again
                            when its process dies */
    uint32_t max_calls;  /* the worker ends after so many runs of this function; 0: never */
    uint32_t max_concurrency; /* MOB_ACTOR_CREATE: so many calls may run at once, if the actor's
                                 worker can do that; 0: one after the other */
    bool dynamic;             /* its one result is a list of objects, which its run makes: Python's
                                 num_returns="dynamic" */
    uint8_t group; /* MOB_ACTOR_CALL: the number of its concurrency group, as mob_actor_groups has
                      them; 0: the default */
    bool out_of_order; /* MOB_ACTOR_CREATE: a call whose arguments are not there does not hold up
                          later calls of its caller */
    bool untold;       /* its runs are left out of the timeline */
    bool retry_exceptions; /* a task's or call's error counts as its worker's death does, see
                              mob_run_retry; not for MOB_ACTOR_CREATE */
    const mob_actor_name_t *named; /* MOB_ACTOR_CREATE: its name and lifetime; MOB_GROUP: its name;
                                      or NULL */
    const void *args;              /* see "Arguments" below */
    size_t args_size;
    const mob_ref_t *deps; /* arguments that are references: the task starts when they are there */
    uint32_t dep_count;
    const mob_ref_t *refs; /* references inside the arguments */
    uint32_t ref_count;
    const struct mob_run *parent; /* the run that submits it, whose mob_cancel reaches it too. NULL:
                                     the one that this worker runs, unless it may run several */
} mob_task_t;

enum { MOB_MAX_LIMIT = (1 << 20) - 1 }; /* of a flow's items, see mob_submit_flow */
enum { MOB_MAX_RETURNS = 100000, MOB_MAX_DEPS = 1000000, MOB_MAX_RESOURCES = 256 };

/* Shapes that every node knows: nothing at all, and one CPU. */
enum { MOB_SHAPE_NOTHING = 0, MOB_SHAPE_ONE_CPU = 1 };
/* A demand's number, for mob_task_t; the same for the same demand. It is good until you have called
 * mob_shape_drop as often. Tasks that you submitted before that keep theirs. A demand names at most
 * MOB_MAX_RESOURCES. */
MOB_API mob_status_t mob_shape(mob_client_t *client, const mob_resource_t *demand, size_t count,
                               uint32_t *ret_shape);
/* Where a demand is to be met. */
typedef struct mob_where {
    mob_ref_t group;      /* in this placement group; slot 0: in none */
    int32_t bundle;       /* of the group; -1: in any */
    uint32_t flags;       /* MOB_WHERE_* */
    const char *selector; /* labels that the node must have, as src/sched/selector.h writes them;
                             NULL: any node will do */
    uint32_t environment; /* by workers of this runtime environment; 0: of the submitter's */
    int32_t priority;     /* -100 to 100: the higher goes first of what waits in its job; what has
                             waited for 10 s goes before all */
} mob_where_t;
enum {
    MOB_WHERE_CAPTURES = 1, /* what runs there submits its own tasks into the group, too */
    MOB_WHERE_SPREAD = 2,   /* on as many nodes as there are; of one that is alone: nothing */
};
/* The same, met there. Tasks of a demand in a group that was removed fail with MOB_EGROUP. */
MOB_API mob_status_t mob_shape_at(mob_client_t *client, const mob_resource_t *demand, size_t count,
                                  const mob_where_t *where, uint32_t *ret_shape);
MOB_API void mob_shape_drop(mob_client_t *client, uint32_t shape);

/* A runtime environment: workers that begin with something else than their job's. */
typedef struct mob_environment {
    const char *const *zygote_argv; /* as in mob_config_t; NULL: the job's */
    const char *const *env;         /* "NAME=value", beside the job's and in their place; or NULL */
    const void *setup;              /* follows the job's own setup, for its zygote and workers */
    size_t setup_size;
    bool at_once; /* it is set up now, not when a task needs it; nobody waits for that */
} mob_environment_t;
/* The number of an environment in this client's job: the same for the same. If it can't be set up,
 * its tasks fail with MOB_ESETUP. MOB_ELIMIT. */
MOB_API mob_status_t mob_environment(mob_client_t *client, const mob_environment_t *environment,
                                     uint32_t *ret_number);
/* What this client submits runs in that environment where nothing else is said. A worker's is the
 * one that it is in. For shapes that are asked for after it. */
MOB_API void mob_environment_use(mob_client_t *client, uint32_t number);

/* Removes a placement group: what runs in it is killed, what waits for it fails. Does not wait. */
MOB_API mob_status_t mob_group_remove(mob_client_t *client, mob_ref_t group);
/* As mob_ref_from_id, for the id of a placement group, which may be of another node of the cluster
 * that this one has not heard of: then that is asked. Of a group that is gone there comes the name
 * of nothing. No count; the group's bundles do not depend on it. */
MOB_API mob_status_t mob_group_from_id(mob_client_t *client, const uint8_t id[MOB_ID_SIZE],
                                       mob_ref_t *ret_group);
/* The placement group of that name; one count. MOB_ENONAME: there is none. */
MOB_API mob_status_t mob_group_find(mob_client_t *client, const char *name_space, const char *name,
                                    mob_ref_t *ret_group);
/* Hands a task to the scheduler. ret_refs has space for num_returns (1 for MOB_ACTOR_CREATE: the
 * actor itself). All inputs are borrowed; the task keeps the objects that its references name
 * alive. MOB_ESPACE: there is no space now. MOB_EEXISTS: an actor has that name. */
MOB_API mob_status_t mob_submit(mob_client_t *client, const mob_task_t *task, mob_ref_t *ret_refs);
/* A flow: the items that a task or call gives out one after the other while it runs. In your own
 * memory. One thread at a time. */
typedef struct mob_flow {
    mob_ref_t done;    /* an object that is there when the task is over */
    mob_ref_t head;    /* the item that comes next: wait for it as for any object; slot 0: none */
    mob_ref_t task_id; /* names the task, as mob_run_t's; not a reference to an object */
    mob_ref_t link;    /* the rest is the library's */
    uint64_t taken;
} mob_flow_t;
/* As mob_submit, of a task or call that yields (its num_returns is not used). `limit`: the task
 * waits while so many items are not taken; 0: it does not wait; at most MOB_MAX_LIMIT. */
MOB_API mob_status_t mob_submit_flow(mob_client_t *client, const mob_task_t *task, uint32_t limit,
                                     mob_flow_t *ret_flow);
/* Gives out the next item, one count of it. Does not wait: MOB_ETIMEOUT, it is not there yet (wait
 * for flow->head by mob_get_wait, mob_wait or mob_event_watch). MOB_EOVER: there are no more. If
 * the task fails, its error is the last item. */
MOB_API mob_status_t mob_flow_next(mob_client_t *client, mob_flow_t *flow, mob_ref_t *ret_ref);
/* What mob_flow_next would return. */
MOB_API mob_status_t mob_flow_look(const mob_client_t *client, const mob_flow_t *flow);
/* Gives up what was not taken, and the references in `flow`. The task ends at its next item. Always
 * to be called. */
MOB_API void mob_flow_close(mob_client_t *client, mob_flow_t *flow);
/* Ends the actor. A call that any process makes after this has returned finds it dead. With
 * `may_restart` only its process is killed: the actor is made again if it has restarts left. */
MOB_API mob_status_t mob_actor_kill(mob_client_t *client, mob_ref_t actor, bool may_restart);
/* Changes whenever an actor's name was given up: what mob_actor_find said holds until then. Read it
 * before you ask. */
MOB_API mob_status_t mob_names_dropped(const mob_client_t *client, uint32_t *ret_count);
/* The actor of that name, and the object that its maker gave for those who find it; each is one
 * count. MOB_ENONAME: there is none. */
MOB_API mob_status_t mob_actor_find(mob_client_t *client, const char *name_space, const char *name,
                                    mob_ref_t *ret_actor, mob_ref_t *ret_info);
/* Cancels the task that makes this object, and with `recursive` what its run has submitted, and so
 * on. A task that no worker has begun is never run; a run in Python is broken off; a call of an
 * actor, and a run in C, can only ask whether it was cancelled (mob_run_is_cancelled). With `force`
 * the worker is killed. The results become MOB_ECANCELLED, unless the run ends with results all the
 * same; the task is not run again. Nothing happens if the object is there, or if no task makes it,
 * or to an actor. Does not wait for the task. MOB_EINVAL: `force`, and it is a call of an actor. */
MOB_API mob_status_t mob_cancel(mob_client_t *client, mob_ref_t ref, bool force, bool recursive);

/* ---- Workers ------------------------------------------------------------- */

typedef struct mob_run {
    mob_kind_t kind;
    mob_ref_t function;
    mob_ref_t actor;   /* the one that is called, or is being made */
    mob_ref_t task_id; /* names this run; not a reference to an object */
    const char *name;  /* for people */
    size_t name_size;
    const char *method; /* MOB_ACTOR_CALL: what is called; `name`, unless it was named else */
    size_t method_size;
    uint64_t gpu_mask;
    uint32_t shape, held_shape;
    uint32_t num_returns; /* 0 when an actor is made again: its result is there already */
    uint32_t max_calls, max_concurrency;
    uint32_t group; /* MOB_ACTOR_CALL: its concurrency group; 0: the default */
    bool may_retry; /* an exception may be answered with mob_run_retry */
    bool restarted; /* MOB_ACTOR_CREATE: a process of this actor died before */
    bool dynamic;   /* as mob_task_t's */
    bool flows;     /* it gives out items; its one result is what mob_flow_t calls `done` */
    uint64_t items; /* that it gave out when it ran before: it is not to give them out again. For
                       you to count down */
    const void *args;
    size_t args_size;
    const mob_ref_t *deps;
    uint32_t dep_count;
    uint32_t ref_count;
    uint64_t start_ns;
    void *user;    /* yours; NULL at first */
    uint32_t kept; /* yours too; 0 at first */
} mob_run_t;

/* Waits for work. The run is valid until it is finished or retried (MOB_FORGET: until the next
 * call). MOB_ECLOSED: the worker is to end. An actor's worker with max_concurrency may call this
 * again before it has finished a run; the call then waits while so many are not finished. One
 * thread at a time. */
MOB_API mob_status_t mob_run_next(mob_client_t *client, mob_run_t **ret_run);
/* The same, but does not wait. MOB_ETIMEOUT: there is nothing to run now. MOB_ELIMIT: finish a run
 * first, one of the groups that are full. */
MOB_API mob_status_t mob_run_try(mob_client_t *client, mob_run_t **ret_run);
/* The actor that this worker makes has concurrency groups: limits[i] calls of group i run at once,
 * 0 is the default group. Calls of a group that is full hold up no others. At most MOB_MAX_GROUPS,
 * of at least 1 each. Call it before you finish the creation. */
enum { MOB_MAX_GROUPS = 256 };
MOB_API mob_status_t mob_actor_groups(mob_client_t *client, const uint32_t *limits, uint32_t count);
/* A thread that has taken a run gives it to another one: the first calls `give` before, the other
 * `accept` after. */
MOB_API void mob_run_give(mob_client_t *client, mob_run_t *run);
MOB_API void mob_run_accept(mob_client_t *client, mob_run_t *run);
/* Space for the run's result number `index`, which mob_run_finish publishes. MOB_ESPACE: there is
 * none now. */
MOB_API mob_status_t mob_run_result_begin(mob_client_t *client, mob_run_t *run, uint32_t index,
                                          uint64_t size, uint32_t ref_count,
                                          mob_buffer_t *ret_buffer);
MOB_API void mob_run_result_commit(mob_client_t *client, mob_run_t *run, uint32_t index,
                                   mob_buffer_t *buffer, mob_format_t format, mob_status_t error,
                                   const mob_ref_t *refs);
/* The same for the next item of a run that gives out items (`flows`). MOB_EOVER: nobody reads them
 * any more, so end the run. */
MOB_API mob_status_t mob_run_item_begin(mob_client_t *client, mob_run_t *run, uint64_t size,
                                        uint32_t ref_count, mob_buffer_t *ret_buffer);
/* Publishes the item. */
MOB_API void mob_run_item_commit(mob_client_t *client, mob_run_t *run, mob_buffer_t *buffer,
                                 mob_format_t format, mob_status_t error, const mob_ref_t *refs);
/* Whether the run may go on to its next item now, as the flow's limit says. */
MOB_API bool mob_run_item_room(const mob_client_t *client, const mob_run_t *run);
/* Waits until it may. MOB_EINTR: something else woke the thread, or a second has passed. Not beyond
 * the end of the run. */
MOB_API mob_status_t mob_run_item_wait(mob_client_t *client, mob_run_t *run);
/* Publishes all results at once; and the end of its items, if it gives out some. */
MOB_API void mob_run_finish(mob_client_t *client, mob_run_t *run);
/* Gives the run back, so that the daemon has the task run again. False: the task may not be run
 * again, so finish this run. The daemon tells the driver the text, which says what went wrong and
 * is cut at MOB_STORY_MAX bytes. */
enum { MOB_STORY_MAX = 4000 };
MOB_API bool mob_run_retry(mob_client_t *client, mob_run_t *run, const char *text, size_t size);
/* The run failed, and has no result that could say so. The daemon tells the driver the text, as
 * that of an error that no process has asked for; of an actor that is made again it is why the
 * actor is dead. Call mob_run_finish next. */
MOB_API void mob_run_failed(mob_client_t *client, mob_run_t *run, const char *text, size_t size);
/* Whether the run was cancelled (mob_cancel). Any thread. */
MOB_API bool mob_run_is_cancelled(mob_client_t *client, mob_run_t *run);
/* The same, but true once a run: for the thread that then breaks the run off. */
MOB_API bool mob_run_interrupt(mob_client_t *client, mob_run_t *run);
/* A run that was cancelled, each once, as if by mob_run_interrupt; NULL: none. For programs that
 * run several at once: call it after mob_run_try. */
MOB_API mob_run_t *mob_run_cancelled(mob_client_t *client);
/* How many runs this worker has begun and not finished. */
MOB_API uint32_t mob_run_count(mob_client_t *client);
/* Tells the daemon that this worker has begun to end, for whatever reason. From now on the worker
 * has as long as RAY_actor_graceful_shutdown_timeout_ms says. Then the daemon kills it and tells
 * the driver. True: the session ends too, and all its workers have a second together. Does not
 * wait. */
/* Says, instead, that this worker can't run anything, and why: what waits for its like fails with
 * MOB_ESETUP. For one that has run nothing; it is to end then. */
MOB_API void mob_worker_unfit(mob_client_t *client, const char *why);
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
 * While a worker's thread sleeps so, it counts as waiting: the CPUs that its runs hold are lent. An
 * event belongs to one thread at a time.
 */
typedef struct mob_event mob_event_t;

/* An object that you wait for; in your own memory. */
typedef struct mob_watch {
    mob_ref_t ref;
    bool forgotten; /* by mob_event_forget */
} mob_watch_t;

/* takes_runs: the event also tells of runs for mob_run_try, which this thread runs by turns. Only
 * for an actor's worker, and for one event of it. */
MOB_API mob_status_t mob_event_open(mob_client_t *client, bool takes_runs, mob_event_t **ret_event);
/* You may call it after mob_shutdown. It forgets the watches that it did not give out:
 * mob_event_drop them before. */
MOB_API void mob_event_close(mob_event_t *event);
MOB_API int mob_event_fd(const mob_event_t *event);
/* When the object watch->ref is there, mob_event_next gives out the watch. Leave the watch where it
 * is until then. */
MOB_API mob_status_t mob_event_watch(mob_event_t *event, mob_watch_t *watch);
/* You do not wait for the object any more, and need not hold its reference; mob_event_next gives
 * out the watch soon. Only call it before mob_event_next has given it out. */
MOB_API void mob_event_forget(mob_watch_t *watch);
/* The next watch that is over: its object is there, or will never be since the session has ended,
 * or you have forgotten it. NULL: none is. In the order of the watches. */
MOB_API mob_watch_t *mob_event_next(mob_event_t *event);
/* For the end: any watch that mob_event_next has not given out; NULL: none is left. */
MOB_API mob_watch_t *mob_event_drop(mob_event_t *event);
/* Call it after each look; `found`: whether there was anything. True: look again before you sleep.
 * False: there is nothing until the descriptor is readable. */
MOB_API bool mob_event_look_again(mob_event_t *event, bool found);
/* Ends all events of the client, and makes their descriptors readable. No other thread may be
 * inside a call with an event. mob_shutdown does this too. */
MOB_API void mob_events_end(mob_client_t *client);

/* ---- Looking around ------------------------------------------------------ */

typedef enum mob_query {
    MOB_QUERY_RESOURCES = 1,
    MOB_QUERY_EVENTS = 2,
    MOB_QUERY_ACTORS = 3, /* of all nodes: slot, generation, class, state, pid, restarts, how it
                             died, its home, where it lives */
    MOB_QUERY_SHAPE = 4,
    MOB_QUERY_SPACE = 5,   /* a text: which processes have the object store's memory */
    MOB_QUERY_OBJECTS = 6, /* at most `argument` of them, and which processes hold each */
    MOB_QUERY_JOBS = 7, /* number, driver's pid, start and end in ms (0: it goes on), whether it is
                           a detached actor's, whether its driver died, namespace, entrypoint */
    MOB_QUERY_DEMANDS = 8,   /* what waits for resources: ((name, amount), ...), how many */
    MOB_QUERY_NAMES = 9,     /* of actors of all nodes: (namespace, name, slot, generation, home);
                                `argument` 0: of the asker's namespace */
    MOB_QUERY_DEADLOCK = 10, /* a text: the last deadlock that was found */
    MOB_QUERY_KEPT = 12,     /* (key, value) of each key that goes with its job: see mob_kv */
    MOB_QUERY_GROUPS = 13,   /* placement groups; `argument`: of this slot only, 0: all */
    MOB_QUERY_WHERE = 14,    /* where a shape is met: (slot, generation, bundle, flags) of its
                                group, or () */
    MOB_QUERY_LABELS = 15,   /* of the node: a text, key=value,... */
    MOB_QUERY_NODES = 16,    /* of the cluster, the one that is asked first: (id, whether it lives,
                                host, port, name, hostname, pid, whether it founded the cluster,
                                folder, labels, start and end in ms (0: none), why it ended,
                                ((resource, total, free), ...)) */
    MOB_QUERY_TASK = 11      /* what is kept of a run that failed, which `argument` names: see
                                mob_run_number. Kind, name, its function (slot, generation), references
                                of its arguments, its arguments in bytes, what its driver gave its
                                workers, where that driver worked, what is missing. (): nothing is kept.
                                The daemon holds
                           what it names for you: call mob_ref_restore on each of slot not 0 */
} mob_query_t;
/* The answer is a value in the direct encoding; free it with free(). */
MOB_API mob_status_t mob_query(mob_client_t *client, mob_query_t query, uint64_t argument,
                               void **ret_answer, size_t *ret_size);

/* The same by the socket in a session's folder: this process need not be a client of that session.
 * Waits for the whole answer at most timeout_ms (-1: for ever), then MOB_ETIMEOUT. */
MOB_API mob_status_t mob_observe(const char *socket_path, mob_query_t query, uint64_t argument,
                                 int64_t timeout_ms, void **ret_answer, size_t *ret_size);
/* For people who look at the objects: where your program made each. Give the daemon each text once;
 * it answers with a number. */
enum { MOB_SITE_MAX = 1024 };
MOB_API mob_status_t mob_site(mob_client_t *client, const char *text, uint32_t *ret_site);
/* The run that makes this object, as mob_run_t's task_id; false: it is there already, or no task
 * makes it. */
MOB_API bool mob_ref_maker(mob_client_t *client, mob_ref_t ref, mob_ref_t *ret_task);
MOB_API void mob_ref_made_at(mob_client_t *client, mob_ref_t ref, uint32_t site);

/* ---- Values by key -------------------------------------------------------- */

/*
 * Small values, which the daemon keeps in its memory for all jobs of the node until they are
 * dropped: what libraries leave for each other. Keys and values are bytes; all of them together may
 * be MOB_KV_BYTES, with 64 for each key.
 *
 * A key that begins with the byte MOB_KV_OF_JOB and a job's number (4 bytes) goes when that job has
 * ended.
 */
enum { MOB_KV_BYTES = 64 << 20, MOB_KV_OF_JOB = 1 };
typedef enum mob_kv {
    MOB_KV_PUT = 1, /* sets values; the answer: how many keys are new */
    MOB_KV_NEW,     /* the same, but a key that is there keeps its value */
    MOB_KV_ADD,  /* the same, but a value is an array of doubles, which are added to those there */
    MOB_KV_DROP, /* drops keys; the answer: how many there were */
    MOB_KV_DROP_ALL, /* drops all keys that begin so */
    MOB_KV_GET,      /* the answer: a value, as bytes, or None */
    MOB_KV_LIST,     /* the answer: a tuple of the keys that begin so, in order */
    MOB_KV_SCAN      /* the answer: a tuple of (key, value) */
} mob_kv_t;
/* `items`: one after the other, 4 bytes of the key's size, 4 of the value's, the key, the value;
 * several for a write, one for a question, which has no value. Items are written in their order.
 * The answer is a value in the direct encoding; free it with free(). MOB_ELIMIT: there is no room
 * for an item; those before it are written. MOB_EINVAL: the items make no sense, or the numbers
 * that are there are not as many. */
MOB_API mob_status_t mob_kv(mob_client_t *client, mob_kv_t what, const void *items, size_t size,
                            void **ret_answer, size_t *ret_size);

/* ---- The direct encoding ------------------------------------------------- */

/*
 * A value is a tag byte, then what the tag needs, little-endian, unaligned.
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
