/*
 * What becomes of a task whose worker, or node, is certainly dead. Decisions only: whoever asks
 * carries them out. Any thread.
 */
#ifndef CONTROL_RETRY_H
#define CONTROL_RETRY_H

#include <stdbool.h>
#include <stdint.h>

/* What is left to a task. */
typedef struct {
    int32_t retries;  /* -1: without end */
    uint8_t oom_runs; /* that ended for want of memory */
} control_retry_t;

/* How its worker died. */
typedef struct {
    bool begun;     /* the worker had begun the task */
    bool oom;       /* the worker was ended for want of memory */
    bool oom_again; /* ... and there is hope that the task finds more of it the next time */
    bool cancelled; /* the task was cancelled */
    bool job_ends;
} control_death_t;

typedef enum {
    CONTROL_TASK_AGAIN,     /* it is run again */
    CONTROL_TASK_FAILS,     /* it fails, as the death tells */
    CONTROL_TASK_CANCELLED, /* it fails because it was cancelled */
    CONTROL_TASK_DROPPED,   /* it fails because its job ends */
} control_fate_t;

/* Decides, and counts the retry that it costs. */
control_fate_t control_retry_decide(control_retry_t *retry, const control_death_t *death);

#endif
