/*
 * How workers end: by themselves, in a limited time.
 *
 * A normal end is Python's: __ray_shutdown__, atexit functions, destructors, files flushed. That is
 * the worker's own work (ray._private.worker_main), and the daemon gives it time. A worker says
 * when it begins (WIRE_ENDING), for it may have calls to run after it was told to end; from then on
 * it has `end_ms`. The daemon kills a worker that takes longer, and tells the driver.
 *
 * At the session's end the daemon tells all workers at once (WIRE_EXIT with 1), and sends them a
 * signal that breaks off what they run, so that a task without end ends with its `finally` blocks
 * and its files closed too. All together have FAREWELL_MS, and HURRIED_MS when the driver hung up
 * without a word, for then no driver waits. The driver's end comes as WIRE_MESSAGES_END, after
 * which the driver waits until everything was printed, or as the end of its socket. If the socket
 * ends after that message, the driver does not wait any more (a second Ctrl-C), and the daemon
 * kills everything.
 *
 * While the session ends, the books on a worker that is gone stay as they are: the daemon runs
 * nothing again, and no client will ask. Whatever did not end is killed by node_children_end.
 */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "node/state.h"
#include "node/watch.h"

enum { FAREWELL_MS = 1000, HURRIED_MS = 500, AGAIN_MS = 100 };

static bool is_ending(const node_client_t *c) {
    return c->role == WIRE_WORKER && c->number != 0 && c->pid > 0 && !c->exited && !c->killed;
}

/* ---- one worker ---- */

static void overdue_kill(node_client_t *w) {
    char name[320];
    node_worker_name(w, name, sizeof name);
    node_warn(w->node,
              "%s (pid=%d) had not ended %g s after it began to, and was killed: an exit function, "
              "__ray_shutdown__, a destructor or a thread takes that long. What it had not written "
              "yet is lost. RAY_actor_graceful_shutdown_timeout_ms in the environment of ray.init "
              "gives it another time.",
              name, (int)w->pid, (double)w->node->farewell.end_ms / 1000);
    w->fault = "did not end in time";
    node_client_kill(w);
}

static void on_end_timer(uv_timer_t *timer) {
    node_t *n = timer->data;
    uint64_t now = base_clock_mono_ns(), next_ms = UINT64_MAX;
    for (size_t i = 0; i < n->connections.count; i++) {
        node_client_t *w = n->connections.items[i];
        if (w->ending_ns == 0 || !is_ending(w)) continue;
        uint64_t had_ms = (now - w->ending_ns) / 1000000;
        if (had_ms >= n->farewell.end_ms)
            overdue_kill(w);
        else if (n->farewell.end_ms - had_ms < next_ms)
            next_ms = n->farewell.end_ms - had_ms;
    }
    if (next_ms != UINT64_MAX) uv_timer_start(timer, on_end_timer, next_ms, 0);
}

void node_worker_ending(node_client_t *w) {
    node_t *n = w->node;
    if (w->role != WIRE_WORKER || w->ending_ns != 0 || n->farewell.leaving) return;
    w->ending_ns = base_clock_mono_ns();
    if (!uv_is_active((uv_handle_t *)&n->farewell.timer))
        uv_timer_start(&n->farewell.timer, on_end_timer, n->farewell.end_ms, 0);
}

/* ---- the session ---- */

static void farewell_end(node_t *n) {
    if (n->farewell.over) return;
    n->farewell.over = true;
    uv_timer_stop(&n->farewell.timer);
    if (n->farewell.driver_waits)
        node_streams_end(n); /* it hangs up when it has read everything */
    else
        node_end(n);
}

/* A worker that was about to sleep when the first signal came sleeps on: it gets another signal now
 * and then. */
static void signal_again(node_t *n) {
    for (size_t i = 0; i < n->connections.count; i++)
        if (is_ending(n->connections.items[i])) kill(n->connections.items[i]->pid, WIRE_END_SIGNAL);
}

static void on_farewell_timer(uv_timer_t *timer) {
    node_t *n = timer->data;
    uint64_t limit_ms = n->farewell.driver_waits ? FAREWELL_MS : HURRIED_MS;
    if (base_clock_mono_ns() - n->farewell.began_ns < limit_ms * 1000000) {
        signal_again(n);
        return;
    }
    for (size_t i = 0; i < n->connections.count; i++) {
        node_client_t *w = n->connections.items[i];
        char name[320];
        if (!is_ending(w)) continue;
        node_worker_name(w, name, sizeof name);
        node_warn(n,
                  "%s (pid=%d) had not ended %g s after the end of the session began, and was "
                  "killed. What it had not written yet is lost.",
                  name, (int)w->pid, (double)limit_ms / 1000);
        node_client_kill(w);
    }
    farewell_end(n);
}

static bool any_is_ending(const node_t *n) {
    for (size_t i = 0; i < n->connections.count; i++)
        if (is_ending(n->connections.items[i])) return true;
    return false;
}

void node_farewell(node_t *n, bool driver_waits) {
    if (n->farewell.leaving) {
        if (n->farewell.driver_waits && !driver_waits) node_end(n);
        return;
    }
    n->farewell.leaving = true;
    n->farewell.driver_waits = driver_waits;
    for (size_t i = 0; i < n->connections.count; i++) {
        node_client_t *w = n->connections.items[i];
        if (w->role == WIRE_ZYGOTE && w->pid > 0)
            kill(w->pid, SIGKILL); /* nothing more is to be forked */
        if (!is_ending(w)) continue;
        /* The signal first: the message wakes the worker, and then the signal would not. */
        kill(w->pid, WIRE_END_SIGNAL); /* the daemon's unreaped child: the pid is its */
        node_client_tell(w, (wire_message_t){.exit = {WIRE_EXIT, .session_ends = 1}});
    }
    n->farewell.began_ns = base_clock_mono_ns();
    if (any_is_ending(n))
        uv_timer_start(&n->farewell.timer, on_farewell_timer, AGAIN_MS, AGAIN_MS);
    else
        farewell_end(n);
}

void node_farewell_gone(node_client_t *w) {
    node_stream_close(&w->out);
    node_stream_close(&w->err);
    if (w->sock_polled) uv_poll_stop(&w->sock_poll);
    if (!any_is_ending(w->node)) farewell_end(w->node);
}

mob_status_t node_farewell_start(node_t *n) {
    n->farewell.timer.data = n;
    return node_watch(uv_timer_init(&n->loop, &n->farewell.timer), "making a timer");
}
