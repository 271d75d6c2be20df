/*
 * A task that was not begun is run again in any case: its worker's death says nothing about it. One
 * that was begun needs a retry. A run that ended for want of memory costs none, since others had
 * the memory; but not for ever: after MOST_OOM_RUNS it does. What was cancelled, or whose job ends,
 * is never run again.
 */
#include "control/retry.h"

enum { MOST_OOM_RUNS = 20 };

control_fate_t control_retry_decide(control_retry_t *r, const control_death_t *d) {
    if (d->cancelled) return CONTROL_TASK_CANCELLED;
    if (d->job_ends) return CONTROL_TASK_DROPPED;
    if (!d->begun) return CONTROL_TASK_AGAIN;
    if (r->retries == 0 || (d->oom && !d->oom_again)) return CONTROL_TASK_FAILS;
    bool free_of_charge = d->oom && r->oom_runs < MOST_OOM_RUNS;
    if (free_of_charge)
        r->oom_runs++;
    else if (r->retries > 0)
        r->retries--;
    return CONTROL_TASK_AGAIN;
}
