/*
 * A queue is sorted by order number, so its head is its oldest task and nothing else of it ever
 * needs to be looked at. Tasks come in at two places only: new ones, with the highest number so
 * far, at the end; and ones that were picked and sent back, near the front. Each of the two is
 * found from its own end without a search structure.
 */
#include "sched/queue.h"

#include <assert.h>

static void queue_link(sched_queue_t *queue, sched_task_t *task, sched_task_t *after) {
    sched_task_t *before = after ? after->next : queue->head;
    task->prev = after;
    task->next = before;
    *(after ? &after->next : &queue->head) = task;
    *(before ? &before->prev : &queue->tail) = task;
    task->queued = true;
    queue->count++;
}

void sched_queue_insert(sched_queue_t *queue, sched_task_t *task) {
    assert(!task->queued);
    if (!queue->tail || queue->tail->order < task->order) {
        queue_link(queue, task, queue->tail);
        return;
    }
    sched_task_t *after = NULL;
    for (sched_task_t *at = queue->head; at->order < task->order; at = at->next) after = at;
    queue_link(queue, task, after);
}

void sched_queue_remove(sched_queue_t *queue, sched_task_t *task) {
    assert(task->queued && queue->count > 0);
    *(task->prev ? &task->prev->next : &queue->head) = task->next;
    *(task->next ? &task->next->prev : &queue->tail) = task->prev;
    task->prev = task->next = NULL;
    task->queued = false;
    queue->count--;
}
