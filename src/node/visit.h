/* Tasks that a peer has sent: the side of the node that runs them. */
#ifndef NODE_VISIT_H
#define NODE_VISIT_H

#include "frame/done.h"
#include "frame/frame.h"
#include "node/peer.h"
#include "node/run.h"
#include "node/task.h"
#include "node/types.h"

struct node_visit {
    node_peer_t *peer;
    frame_id_t run;    /* the peer's */
    node_run_t here;   /* and ours */
    frame_id_t *named; /* what its frame names: function, deps, refs */
    size_t num_named;
    frame_done_t end;   /* how it ended; RESULTS if nothing else was said */
    char *text;         /* end.text, if there is one */
    node_visit_t *next; /* among those that owe their answer */
    bool may_start;     /* else it is not for the scheduler yet */
    bool is_owing;      /* it is among those */
    bool has_fetched;   /* its arguments were asked for */

    /* of an actor's call; see cluster/actor_visit.c */
    uint64_t call;   /* the room actor's number of it; 0: it is none, or has ended */
    frame_id_t seat; /* its actor */

    /* of another node's; see cluster/guest.c */
    struct place_guest *guest; /* of the room place; NULL: that has done with it */
    frame_id_t *results;       /* the origin's names of them */
    uint32_t version;          /* of the values that it makes */
    node_outflow_t *outflow;   /* its items, on their way to the origin; NULL: it makes none */
};

/* ---- its beginning ---- */

/* A visit of the peer's run. NULL: no memory. */
node_visit_t *node_visit_new(node_peer_t *peer, frame_id_t run, const frame_t *frame);
/* Its frame becomes a task, or it is refused: with a job of NULL, which has ended, or a frame of a
 * kind that no node takes. */
void node_visit_open(node_visit_t *visit, node_job_t *job, node_own_t *own, const frame_t *frame);
/* Whether the task of a visit, whose arguments have values, may be scheduled. Those that lie on
 * other nodes are fetched first: node_task_ready follows. */
bool node_visit_may_start(node_task_t *task);
/* It can't be opened: that is its end, once it begins. */
void node_visit_unfit(node_visit_t *visit, mob_status_t status, const char *why);
/* It may start, if it was not refused, as soon as its arguments are there. */
void node_visit_begin(node_visit_t *visit);
/* It will not be here: the peer gets it back. Takes `visit`. */
void node_visit_refuse(node_visit_t *visit, mob_status_t status, const char *why);

/* ---- from the peer ---- */

/* Its task; NULL: it has ended. */
node_task_t *node_visit_task(const node_visit_t *visit);
void node_visit_cancel(node_visit_t *visit, bool force, bool recursive);
/* It ends if it has not begun. */
void node_visit_recall(node_visit_t *visit);
/* Answers what could not be answered; once a round. */
void node_visits_answer(node_peer_t *peer);

/* ---- its end ---- */

/* Its worker died after it had begun. The peer decides what becomes of the task, which is gone
 * here. */
void node_visit_died(node_t *node, node_task_t *task, const node_death_t *death);
/* It raised, and asks for another run. `why` is borrowed. */
void node_visit_raised(node_t *node, node_task_t *task, const char *why, size_t size);
/* It was cancelled. */
void node_visit_cancelled(node_t *node, node_task_t *task, bool begun);
/* The task is dismissed: its results are sealed, unless one of the above was said. Takes
 * `visit`. */
void node_visit_end(node_t *node, node_visit_t *visit);

#endif
