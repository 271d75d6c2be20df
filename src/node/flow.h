/* Flows (store/flow.h): what the daemon does for one whose maker or reader is gone. */
#ifndef NODE_FLOW_H
#define NODE_FLOW_H

#include "mobula.h"
#include "node/types.h"

/* Who holds an object of which the daemon has no book: the client that the slot was granted to, or
 * that it was given to. NODE_ORPHAN: nobody. */
uint32_t node_slot_keeper(node_t *node, uint32_t slot, uint64_t word);

/* The task's worker is certainly dead, or has given the run back: the last item that it committed
 * is published. The caller rings the bells. */
void node_flow_mend(node_t *node, const node_task_t *task);
/* The same, and the end of the flow is published: the task's record is DONE. */
void node_flow_end(node_t *node, const node_task_t *task);
/* The same, and the next item is this error, the last one. `text` is borrowed. */
void node_flow_fail(node_t *node, const node_task_t *task, mob_status_t status, const char *text,
                    const node_actor_t *actor);
/* The driver is not told how it fails. */
void node_flow_quiet(node_t *node, const node_task_t *task);
/* The same, and the end of the flow stands behind its last item, published: no run will make more.
 * Nothing happens to a flow that is sealed. The caller rings the bells. */
void node_flow_stop(node_t *node, const node_task_t *task);
/* The item that the task makes next; slot 0: none. */
mob_ref_t node_flow_tail(node_t *node, mob_ref_t flow);
/* How many items may wait to be taken; 0: any number. */
uint32_t node_flow_limit(node_t *node, mob_ref_t flow);

/* ---- the daemon as the maker: the task is at another node ---- */

/* From now on the reader tells the daemon what it has taken. Undone by node_flow_mend. */
void node_flow_far(node_t *node, const node_task_t *task);
/* How far the flow is: how many items there are, how many of them the reader has taken, and whether
 * it takes no more. False: the flow is over, or what its submitter wrote there makes no sense. */
bool node_flow_look(node_t *node, const node_task_t *task, uint64_t *ret_made, uint64_t *ret_taken,
                    bool *ret_closed);
/* The tail, whose value is written or lies elsewhere (`is_away`), is an item, and `next` the tail:
 * who waits goes on. `raised`: it is the task's error. */
void node_flow_publish(node_t *node, const node_task_t *task, mob_ref_t next, bool is_away,
                       bool raised);
/* The tail was named to another node: its book has the hold that the reader will have. */
void node_flow_named(node_t *node, const node_task_t *task, node_object_t *tail);

/* Marks the tails of the flows in the books, by slot: they stay although their owner is gone. */
enum { NODE_TAIL = 2 };
void node_flows_mark(node_t *node, uint8_t *marks);
/* Whether a dead client's slot is held by the reader of a flow, and so stays. */
bool node_flow_spares(node_client_t *client, uint32_t slot, uint64_t word);
/* A reader is dead: closes its flows, and frees what was given to it. */
void node_flows_forget(node_client_t *client);

#endif
