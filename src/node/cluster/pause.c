#include "node/cluster/pause.h"

#include "node/cluster/cluster.h"
#include "node/state.h"
#include "node/watch.h"

enum { TOLD_MS = 5000 };

static const char WORDS[] =
    "paused: Redis does not confirm that it is a member, so it may be dead for the others. It "
    "begins no calls or creations of actors, and no tasks that are not run again, until that is "
    "known";

static double seconds(const node_cluster_t *c) {
    return (double)(node_cluster_now_ns() - c->pause.since_ns) / 1e9;
}

static void on_timer(uv_timer_t *timer) {
    node_cluster_t *c = timer->data;
    c->pause.is_told = true;
    node_warn(c->node, "This node has %s. It has waited for %.0f s; cluster.log says more", WORDS,
              seconds(c));
}

mob_status_t node_pause_start(node_cluster_t *c) {
    int error = uv_timer_init(&c->node->loop, &c->pause.timer);
    c->pause.timer.data = c;
    return node_watch(error, "making a timer of a cluster's node");
}

void node_pause_end(node_cluster_t *c) { uv_timer_stop(&c->pause.timer); }

void node_pause_begin(node_cluster_t *c) {
    if (c->state != CLUSTER_MEMBER || c->pause.since_ns != 0) return;
    c->pause.since_ns = node_cluster_now_ns();
    node_cluster_trouble(c, "this node has %s", WORDS);
    uv_timer_start(&c->pause.timer, on_timer, TOLD_MS, 0);
}

void node_pause_over(node_cluster_t *c) {
    if (c->pause.since_ns == 0) return;
    node_cluster_trouble(c, "this node goes on, after a pause of %.1f s", seconds(c));
    if (c->pause.is_told)
        node_warn(c->node, "This node goes on, after a pause of %.0f s", seconds(c));
    uv_timer_stop(&c->pause.timer);
    c->pause.is_told = false;
    c->pause.since_ns = 0;
}

const char *node_pause_words(const node_cluster_t *c) {
    return c->pause.since_ns != 0 ? WORDS : NULL;
}
