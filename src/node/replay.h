/* Tasks that failed, kept so that a person can run them again with the same arguments. */
#ifndef NODE_REPLAY_H
#define NODE_REPLAY_H

#include "mobula.h"
#include "node/types.h"
#include "wire/direct.h"

typedef struct node_replay node_replay_t;

typedef struct {
    node_replay_t *oldest, *newest;
    uint32_t count;
    uint64_t bytes; /* of what is kept for them */
} node_replays_t;

/* The task, or creation, has failed for good, and is about to be dismissed. */
void node_replay_keep(node_t *node, node_task_t *task);
/* Nothing is kept any more. */
void node_replays_end(node_t *node);
/* Writes what is kept of the run that `entry` (wire_entry) names; an empty tuple: nothing. The
 * asker, if it is a client, holds what is named from now on. */
void node_replay_write(node_client_t *asker, uint64_t entry, wire_writer_t *writer);
/* How a person asks for it, with the id that is written in errors: words to be added to them. */
void node_replay_hint(const node_task_t *task, char *ret_text, size_t size);

#endif
