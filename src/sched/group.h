/*
 * Groups, their bundles, and how tasks get into them.
 *
 * A demand in a group is a shape of its job like any other, with the queue of its tasks. In each
 * bundle that could ever meet it, it has a ticket: a task of the scheduler inside, which stands
 * there for the oldest of the queue. The first ticket that is picked starts that task.
 */
#ifndef SCHED_GROUP_H
#define SCHED_GROUP_H

#include "sched/sched.h"
#include "sched/shape.h"

/* Stands in a bundle's line for the oldest task of a shape. */
typedef struct sched_ticket {
    sched_task_t task; /* first: the scheduler inside gives this back */
    sched_entry_t *entry;
    uint32_t bundle;
} sched_ticket_t;

/* A shape's way into its group. */
struct sched_entry {
    sched_group_t *group;
    sched_shape_t *shape;
    sched_job_t *job;           /* the shape's */
    sched_entry_t *prev, *next; /* of the group */
    uint32_t count;             /* 0: no bundle could ever meet the demand */
    sched_ticket_t tickets[];
};

typedef struct sched_bundle {
    sched_group_t *group;
    sched_lease_t lease; /* of the node */
    bool open;           /* what waits for it may start */
    uint32_t shape;      /* in the group's job */
    uint64_t devices;    /* of those that the group asks for: which are its, from the lowest */
    sched_t *inside;     /* NULL: nobody has asked for anything in it */
} sched_bundle_t;

/* The shape is new, and is to be met in a group. MOB_ENOMEM. */
mob_status_t sched_entry_new(sched_job_t *job, sched_shape_t *shape);
void sched_entry_free(sched_entry_t *entry); /* NULL is fine */
/* The head of the shape's queue has changed: its tickets are for another task, or for none. */
void sched_entry_renew(sched_entry_t *entry);
/* A ticket was picked: the task that it stood for, out of its queue. */
sched_task_t *sched_ticket_redeem(sched_ticket_t *ticket);
/* The ticket that stands for this task alone in a bundle; NULL: there is none. */
const sched_task_t *sched_ticket_of(const sched_bundle_t *bundle, const sched_task_t *task);
/* The number that the shape has inside the bundle. */
uint32_t sched_entry_shape(const sched_entry_t *entry, const sched_bundle_t *bundle);

/* A lease of the job, which is inside a bundle, began, changed or ended: by how many there are more
 * of them. May free the job. */
void sched_bundle_changed(sched_job_t *job, int leases);

#endif
