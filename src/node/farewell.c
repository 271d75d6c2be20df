/*
 * How workers end: by themselves, in a limited time.
 *
 * A normal end is Python's: __ray_shutdown__, atexit functions, destructors, files flushed. That is
 * the worker's own work (ray._private.worker_main), and the daemon gives it time. A worker says
 * when it begins (WIRE_ENDING), for it may have calls to run after it was told to end; from then on
 * it has `end_ms`. The daemon kills a worker that takes longer, and tells the driver.
 *
 * At a job's end the daemon tells all of its workers at once (WIRE_EXIT with 1), and sends them a
 * signal that breaks off what they run, so that a task without end ends with its `finally` blocks
 * and its files closed too. All together have FAREWELL_MS, and HURRIED_MS when the driver hung up
 * without a word, for then no driver waits. The driver's end comes as WIRE_MESSAGES_END, after
 * which the driver waits until everything was printed, or as WIRE_LEAVE, or as the end of its
 * socket. If the socket ends after the first, the driver does not wait any more (a second Ctrl-C),
 * and the daemon kills the job's workers.
 *
 * Workers on other nodes end there, by the same rules and a shorter time. A driver that waits,
 * waits for what they printed, too, until their nodes say that it was all, or the time is over.
 *
 * In a daemon that ends with its job (`closing`), the books on a worker that is gone stay as they
 * are: the daemon runs nothing again, and no client will ask. Whatever did not end is killed by
 * node_children_end. Else, also where a detached actor's job ends in a session that goes on, a
 * worker's end is dealt with as any other.
 */
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "node/state.h"
#include "node/watch.h"

enum { FAREWELL_MS = 1000, HURRIED_MS = 500, AGAIN_MS = 100 };

static void on_timer(uv_timer_t *timer);

static bool is_ending(const node_client_t *c) {
    return c->role == WIRE_WORKER && c->number != 0 && c->pid > 0 && !c->exited && !c->killed;
}

#define EACH_WORKER_OF(job, w)                                                            \
    for (size_t at_ = (job)->node->connections.count; at_-- > 0;)                         \
        for (node_client_t *w = (job)->node->connections.items[at_]; w != NULL; w = NULL) \
            if (w->job == (job) && w->role == WIRE_WORKER)

static void timer_arm(node_t *n, uint64_t ms) {
    uv_timer_t *timer = &n->ends.timer;
    if (uv_is_active((uv_handle_t *)timer) && uv_timer_get_due_in(timer) <= ms) return;
    uv_timer_start(timer, on_timer, ms, 0);
}

/* ---- one worker ---- */

static void overdue_kill(node_client_t *w) {
    char name[320];
    node_worker_name(w, name, sizeof name);
    node_job_warn(
        w->job,
        "%s (pid=%d) had not ended %g s after it began to, and was killed: an exit function, "
        "__ray_shutdown__, a destructor or a thread takes that long. What it had not written yet "
        "is lost. RAY_actor_graceful_shutdown_timeout_ms in the environment of ray.init gives it "
        "another time.",
        name, (int)w->pid, (double)w->node->ends.end_ms / 1000);
    w->fault = "did not end in time";
    node_client_kill(w);
}

static void worker_look(node_client_t *w) {
    node_t *n = w->node;
    if (w->ending_ns == 0 || !is_ending(w) || w->job->farewell.leaving) return;
    uint64_t had_ms = (base_clock_mono_ns() - w->ending_ns) / 1000000;
    if (had_ms >= n->ends.end_ms)
        overdue_kill(w);
    else
        timer_arm(n, n->ends.end_ms - had_ms);
}

void node_worker_ending(node_client_t *w) {
    if (w->role != WIRE_WORKER || w->ending_ns != 0 || w->job->farewell.leaving) return;
    w->ending_ns = base_clock_mono_ns();
    timer_arm(w->node, w->node->ends.end_ms);
}

/* ---- a job ---- */

static bool any_is_left(node_job_t *job) {
    bool closing = job->node->closing;
    if (job->farewell.driver_waits && job->farewell.awaited > 0) return true;
    EACH_WORKER_OF(job, w) if (!closing || is_ending(w)) return true;
    return false;
}

static void farewell_end(node_job_t *job) {
    node_t *n = job->node;
    if (job->farewell.over) return;
    job->farewell.over = true;
    node_guestjob_over(job);
    bool ends = n->closing || n->stopping;
    if (ends && !node_jobs_are_over(n)) return; /* the last one goes on here */
    bool waits = false;
    NODE_EACH_JOB(n, other) {
        if (!other->farewell.driver_waits || other->finish_round != 0 || !other->farewell.over)
            continue;
        if (!ends && other != job) continue;
        node_streams_end(other); /* it hangs up when it has read everything */
        waits = true;
    }
    if (ends && !waits) node_cluster_leave(n);
}

static void workers_kill(node_job_t *job) {
    EACH_WORKER_OF(job, w) if (is_ending(w)) node_client_kill(w);
}

static void overdue_tell(node_job_t *job, uint64_t limit_ms) {
    EACH_WORKER_OF(job, w) {
        char name[320];
        if (!is_ending(w)) continue;
        node_worker_name(w, name, sizeof name);
        node_job_warn(job,
                      "%s (pid=%d) had not ended %g s after the end of the session began, and was "
                      "killed. What it had not written yet is lost.",
                      name, (int)w->pid, (double)limit_ms / 1000);
    }
}

static void job_look(node_job_t *job) {
    node_farewell_t *f = &job->farewell;
    if (!f->leaving || f->over) return;
    uint64_t limit_ms = f->driver_waits ? FAREWELL_MS : HURRIED_MS;
    if (base_clock_mono_ns() - f->began_ns < limit_ms * 1000000) {
        /* A worker that was about to sleep when the first signal came sleeps on: it gets another
         * signal now and then. */
        EACH_WORKER_OF(job, w) if (is_ending(w)) kill(w->pid, WIRE_END_SIGNAL);
        timer_arm(job->node, AGAIN_MS);
        return;
    }
    f->awaited = 0;
    overdue_tell(job, limit_ms);
    workers_kill(job);
    if (!any_is_left(job)) farewell_end(job); /* else when they are reaped */
}

static void on_timer(uv_timer_t *timer) {
    node_t *n = timer->data;
    for (size_t i = n->connections.count; i-- > 0;) worker_look(n->connections.items[i]);
    NODE_EACH_JOB(n, job) job_look(job);
}

static void workers_tell(node_job_t *job) {
    EACH_WORKER_OF(job, w) {
        if (!is_ending(w)) continue;
        /* The signal first: the message wakes the worker, and then the signal would not. */
        kill(w->pid, WIRE_END_SIGNAL); /* the daemon's unreaped child: the pid is its */
        node_client_tell(w, (wire_message_t){.exit = {WIRE_EXIT, .job_ends = 1}});
    }
}

void node_farewell(node_job_t *job, bool begins, bool driver_waits) {
    node_farewell_t *f = &job->farewell;
    if (!begins) {
        bool gave_up = f->driver_waits && !driver_waits;
        f->driver_waits = driver_waits;
        if (gave_up && !job->node->config.stays) node_end(job->node);
        if (gave_up) workers_kill(job);
        return;
    }
    f->driver_waits = driver_waits;
    f->began_ns = base_clock_mono_ns();
    if (job->node->closing) {
        NODE_EACH_POOL(job, pool) {
            pid_t zygote = pool->setup != NULL ? pool->setup->zygote.pid : 0;
            if (zygote > 0) kill(zygote, SIGKILL); /* nothing more is to be forked */
        }
    }
    workers_tell(job);
    if (any_is_left(job))
        timer_arm(job->node, AGAIN_MS);
    else
        farewell_end(job);
}

void node_farewell_gone(node_job_t *job) {
    /* One that was still starting is closed before the farewell, which looks for itself then. */
    if (job->farewell.began_ns == 0) return;
    if (!any_is_left(job)) farewell_end(job);
}

void node_farewell_reaped(node_client_t *w) {
    node_stream_close(&w->out);
    node_stream_close(&w->err);
    if (w->sock_polled) uv_poll_stop(&w->sock_poll);
    node_farewell_gone(w->job);
}

mob_status_t node_farewell_start(node_t *n) {
    n->ends.timer.data = n;
    return node_watch(uv_timer_init(&n->loop, &n->ends.timer), "making a timer");
}
