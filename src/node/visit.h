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
};

/* ---- from the peer ---- */

void node_visit_begin(node_peer_t *peer, frame_id_t run, const uint8_t *frame, size_t size);
void node_visit_cancel(node_peer_t *peer, frame_id_t run, const uint8_t *body, size_t size);
void node_visit_recall(node_peer_t *peer, frame_id_t run);
/* The peer does not need this result any more, which stayed here. False: it is none. */
bool node_visit_result_drop(node_peer_t *peer, mob_ref_t ref);
/* Answers what could not be answered for want of memory; once a round. */
void node_visits_answer(node_peer_t *peer);

/* ---- its end ---- */

/* Its worker died after it had begun. The peer decides what becomes of the task, which is gone
 * here. */
void node_visit_died(node_t *node, node_task_t *task, const node_death_t *death);
/* It raised, and asks for another run. `why` is borrowed. */
void node_visit_raised(node_t *node, node_task_t *task, const char *why, size_t size);
/* It was cancelled. */
void node_visit_cancelled(node_t *node, node_task_t *task, bool begun);
/* The task is dismissed: its results are sealed, unless one of the above was said. Takes `visit`.
 */
void node_visit_end(node_t *node, node_visit_t *visit);

#endif
