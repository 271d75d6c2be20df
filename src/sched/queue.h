/* The waiting tasks of one shape, oldest first: a list through the tasks themselves. */
#ifndef SCHED_QUEUE_H
#define SCHED_QUEUE_H

#include "sched/sched.h"

typedef struct sched_queue {
    sched_task_t *head, *tail;
    size_t count;
} sched_queue_t;

/* Puts a task where its order number belongs: at once at the end, else by a walk from the head,
 * which is short for one that was picked a moment ago. */
void sched_queue_insert(sched_queue_t *queue, sched_task_t *task);
/* Takes a task out that is in this queue. */
void sched_queue_remove(sched_queue_t *queue, sched_task_t *task);

#endif
