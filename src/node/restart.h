/* What happens when a process of an actor dies: restart.c carries out what actor/life.h decides. */
#ifndef NODE_RESTART_H
#define NODE_RESTART_H

#include "node/types.h"

/* The worker of an actor that is ALIVE is certainly dead: decides what follows, before its calls
 * are looked at. Nothing, if that is decided already. */
void node_actor_lost(node_t *node, node_actor_t *actor, node_client_t *worker);
/* ... and after that: the actor is made again, or buried and perhaps gone. */
void node_actor_go_on(node_t *node, node_actor_t *actor, node_client_t *worker);
/* The worker that had this call is certainly dead, and did not finish it. */
void node_actor_call_lost(node_t *node, node_task_t *call, bool begun);
/* The worker that had this creation is certainly dead, and did not finish it. */
void node_actor_creation_lost(node_t *node, node_task_t *creation, bool begun);
/* Makes the actors again whose pause is over. */
void node_actors_resume(node_t *node);
/* The actor waits no longer to be made again. */
void node_actor_unhold(node_t *node, node_actor_t *actor);
/* Hands over the calls that come first, now that the actor is alive. */
void node_actor_first_give(node_t *node, node_actor_t *actor);
/* The call has raised what it may be run again for, and has retries left: answers its worker, which
 * runs it again at once. */
void node_actor_call_again(node_client_t *worker, node_task_t *call);
/* The constructor of an actor that is made again raised; the words are borrowed. */
void node_actor_refused(node_actor_t *actor, const char *words, size_t size);

#endif
