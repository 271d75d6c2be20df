/*
 * A connection, and the process behind it: driver, worker, zygote, observer (which only asks) or
 * fetcher (of one descriptor); or a peer, which has neither (peer.h). client.c has its states, and
 * what leads from one to the next.
 */
#ifndef NODE_CLIENT_H
#define NODE_CLIENT_H

#include <sys/types.h>
#include <uv.h>

#include "node/text.h"
#include "node/types.h"
#include "sched/sched.h"
#include "shm/node.h"
#include "shm/segment.h"
#include "wire/message.h"

typedef enum {
    NODE_STARTING, /* a worker that was asked for and has not said hello */
    NODE_GREETING, /* a connection that has not said hello */
    NODE_LIVE,
    NODE_REMOTE, /* a peer: it has no process */
    NODE_LEFT,   /* a driver that has left and still reads values in place */
    NODE_DYING,  /* killed; its end is not certain yet */
    NODE_DEAD,
} node_state_t;

/* The role of a peer, beside those that a hello may name. */
enum { NODE_PEER = 256 };

/* A packet that waits for its socket. */
typedef struct {
    char *data;
    size_t size;
} node_parcel_t;

/* How often a client holds a shape. */
typedef struct {
    uint32_t shape, count;
} node_hold_t;

struct node_client {
    node_t *node;
    node_job_t *job;     /* a driver's and a worker's */
    node_pool_t *pool;   /* a worker's */
    node_setup_t *setup; /* a zygote's */
    node_peer_t *peer;   /* a peer's */
    uint32_t number;     /* 0: none */
    uint32_t epoch;      /* which of the session's clients it is: numbers are used again */
    uint32_t role;
    node_state_t state;
    uint64_t token;
    pid_t pid;

    /* the connection */
    int sock, pidfd;
    uv_poll_t sock_poll, pid_poll;
    bool sock_polled;
    bool reads;                /* flows: slots of others may be given to it */
    bool struck;               /* what it had is being struck off, or was */
    int closing;               /* handles that are being closed */
    VEC(node_parcel_t) outbox; /* packets that did not fit into the socket */
    size_t outbox_bytes;
    shm_segment_t segment; /* the client's own: its rings, its events, its pins */
    shm_ring_t *up, *down;
    VEC(wire_message_t) backlog; /* what did not fit on the ring down */
    uint32_t backlog_news;       /* messages in it that the client asked for */

    /* what it has */
    node_spans_t slots, records; /* granted to it */
    uint64_t extents;            /* how many */
    uint64_t held;               /* objects that name it as a holder */
    VEC(node_hold_t) shapes;     /* that it holds, by their places */
    VEC(mob_ref_t) pinned;       /* what a driver that has left still reads: a use each */

    /* a worker's tasks */
    node_task_t *runs, *runs_tail; /* handed to it, oldest first; the first has the lease, the
                                      others follow it */
    uint32_t run_count;
    uint32_t limited_calls; /* of functions with max_calls */
    bool idle, has_worked;
    bool retiring; /* it is to end when it has nothing to do */
    uint64_t started_ns, idle_since_ns;
    node_actor_t *actor;
    uint64_t actor_ns;    /* when it became one, wall clock */
    shm_events_t *events; /* its runs, for the timeline */
    node_stream_t out, err;

    /* a worker's lease */
    sched_lease_t lease;  /* of an actor, once it is made; or of a worker that takes tasks */
    uint32_t lane;        /* that the lease is for: its place among its job's */
    uint64_t leased_ns;   /* when its lease was given */
    uint64_t recalled_ns; /* when the lease was recalled for a task that waits; 0: it was not */
    bool leased;          /* takes tasks from queues */
    bool owes;            /* its task went on after its CPU was lent, and it takes no other */
    bool takes; /* took tasks or calls from queues at some time: records may name it that the daemon
                   does not know of */

    /* its end */
    int exit_status;
    bool exited;
    bool killed;        /* by the daemon */
    char *unfit;        /* why it can't run anything; NULL: it can */
    uint64_t ending_ns; /* when it began to end by itself; 0: it has not */
    const char *fault;
    char oom[200];       /* why it was ended, if it was for want of memory */
    bool oom_again;      /* and its task may be run again */
    uint64_t born_bytes; /* what its process had when its task or actor began */
};

/* ---- beginning ---- */

/* For a worker that the daemon is about to ask for. NULL: no memory. */
node_client_t *node_client_new(node_t *node);
/* Takes the socket, also if it fails. MOB_EPERM: it is another user's. */
mob_status_t node_client_accept(node_t *node, int sock, node_client_t **ret_client);
/* Takes the socket, also if it fails: it goes with the client then, which is to be closed. */
mob_status_t node_client_attach(node_client_t *client, int sock);

/* ---- talking ---- */

/* Sends a packet on the client's socket; `packet` and `fds` are borrowed. What does not fit now
 * waits. */
void node_client_send(node_client_t *client, const void *packet, size_t size, const int *fds,
                      int fd_count);
/* Puts a message on the client's ring. What does not fit now waits. May end the client. */
void node_client_tell(node_client_t *client, wire_message_t message);
/* The client has read: messages that wait for its ring go on. */
void node_client_flush(node_client_t *client);
/* Wakes every client once: a process that published something and died may not have rung. */
void node_bells_ring(node_t *node);

/* ---- ending ---- */

/* The client did what no client does: tells its job's driver, and ends the client. `what` stays the
 * caller's. */
void node_client_fault(node_client_t *client, const char *what);
/* A worker's process is killed. Its tasks count as running until its death is certain. */
void node_client_kill(node_client_t *client);
/* The client's end is certain: deals with its tasks, references and memory, then closes it. */
void node_client_died(node_client_t *client);
/* A driver that joined leaves, and lives on: all that it had is struck off, but what it has pinned,
 * which it holds until it hangs up. */
void node_client_leave(node_client_t *client);
/* Ends the connection; the memory goes when libuv is done with it. */
void node_client_close(node_client_t *client);

#endif
