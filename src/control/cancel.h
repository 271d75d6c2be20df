/*
 * What ray.cancel does to a task. Decisions only: whoever asks carries them out. Any thread.
 */
#ifndef CONTROL_CANCEL_H
#define CONTROL_CANCEL_H

#include <stdbool.h>
#include <stdint.h>

#include "mobula.h"

/* Where the task is. */
typedef enum {
    CONTROL_TASK_WAITS, /* no worker has begun it */
    CONTROL_TASK_RUNS,
    CONTROL_TASK_OVER,
} control_stage_t;

typedef enum {
    CONTROL_CANCEL_NOTHING,
    CONTROL_CANCEL_REFUSE,    /* it can't be done by force */
    CONTROL_CANCEL_FAIL,      /* its results become the error, and it never runs */
    CONTROL_CANCEL_INTERRUPT, /* its worker is to break it off */
    CONTROL_CANCEL_TELL,      /* its worker is told; the run asks, or an event loop breaks it off */
    CONTROL_CANCEL_KILL,      /* its worker is killed */
} control_cancel_t;

control_cancel_t control_cancel_decide(mob_kind_t kind, control_stage_t stage, bool force);

/* A worker that was about to wait when the signal came waits on: it gets another one so long after
 * signal number `sent`. 0: it gets no more. */
uint64_t control_cancel_pause_ns(uint32_t sent);

#endif
