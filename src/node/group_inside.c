/* What runs in a placement group, or waits for it. */
#include "node/forward.h"
#include "node/state.h"

static bool task_is_in(const node_task_t *t, const node_group_t *g) {
    return t != NULL && t->job != NULL &&
           sched_shape_where(t->job->sched, t->shape)->group == g->sched;
}

static bool lease_is_in(const sched_lease_t *lease, const node_group_t *g) {
    uint32_t bundle;
    return lease->job != NULL && sched_lease_group(lease, &bundle) == g->sched;
}

/* One that runs is killed with its worker, and fails when that is certain. */
static void task_end(node_t *n, node_task_t *t) {
    const char *words;
    mob_status_t status = node_task_doom(t, &words);
    if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL) {
        node_actor_end(n, t->actor, status, words);
    } else if (node_forward_is(t)) {
        return; /* the peer ends it, and says so */
    } else if (t->worker != NULL) {
        node_client_kill(t->worker);
    } else if (!t->queued) {
        if (t->waiting_for_worker) node_pool_unwait(t);
        node_task_fail(n, t, status, words);
    }
}

void node_group_stir(node_group_t *g) {
    node_t *n = g->node;
    const char *words;
    for (uint32_t r = 0; r < n->grants.records.granted; r++) {
        node_task_t *t = n->tasks[r];
        if (!task_is_in(t, g) || !t->queue.queued) continue;
        if (t->kind == MOB_ACTOR_CREATE) {
            sched_task_remove(n->sched, &t->queue);
            node_task_ready(t, n); /* which may send it away */
        } else if (node_task_doom(t, &words) == MOB_OK) {
            node_offer_note(t);
        } else {
            task_end(n, t);
        }
    }
    n->again = true;
}

/* What belongs to a job that ends does so in that job's way: its workers have some time for it, and
 * the group is over after that. */
void node_group_inside_end(node_group_t *g) {
    node_t *n = g->node;
    node_lanes_leave(n, g->sched);
    for (uint32_t r = 0; r < n->grants.records.granted; r++)
        if (task_is_in(n->tasks[r], g) && !n->tasks[r]->job->farewell.leaving)
            task_end(n, n->tasks[r]);
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w == NULL || !lease_is_in(&w->lease, g) || w->job->farewell.leaving) continue;
        if (w->actor != NULL)
            node_actor_end(n, w->actor, MOB_EACTORGROUP,
                           "The placement group corresponding to this Actor has been removed.");
        else
            node_client_kill(w);
    }
}
