/*
 * What the scheduler keeps: of the node, and of each job.
 *
 * Two lines of jobs stand ready, so that a pick looks only at jobs that have something waiting and
 * sorts nothing. Both are reserved for every job there is, so entering one can't fail.
 */
#ifndef SCHED_BOOKS_H
#define SCHED_BOOKS_H

#include "base/vec.h"
#include "sched/resources.h"
#include "sched/shape.h"

typedef VEC(sched_job_t *) sched_line_t;

/* A node, or the inside of a bundle of one. */
struct sched {
    sched_t *node;        /* itself, if it is one */
    sched_names_t *names; /* the node's */
    char *labels;         /* "key=value,..."; NULL: none */
    size_t offered;       /* resources with a total */
    sched_pool_t total, now, later;
    sched_line_t jobs;     /* all of them */
    sched_line_t turns;    /* those that wait, by whose turn it is: see job.c */
    sched_line_t patients; /* of these, those that have a patient, longest first */
    uint64_t last_order;   /* a node's: counts tasks that came and tasks that were given out */
    struct sched_bundle *bundle; /* whose inside it is; NULL: it is a node */
    size_t leases;               /* an inside's: that hold something */
    sched_t *stirred;            /* a node's: the first inside in which something may start now */
    sched_t *stirred_next;       /* of an inside that is one of these */
    bool is_stirred;
    bool has_priorities; /* a node's: a task had another than 0, ever */
};

struct sched_job {
    sched_t *sched;
    sched_job_t *outer; /* inside a bundle: the job whose part it is */
    size_t tickets;     /* ... and how many tickets name it */
    sched_shapes_t shapes;
    size_t queued; /* tasks, also ones that never fit */
    uint32_t
        waiting;   /* shapes that have tasks waiting and can ever fit; 0: it is in neither line */
    size_t leases; /* that hold something, if only the shape for nothing */
    int64_t cpus;  /* held now */
    uint64_t turn; /* the order number when it was last given something, else of the task with
                      which it began to wait */
    bool served;
    bool ahead;         /* while picking: its patient has been looked at before all turns */
    uint64_t patient;   /* the order number of its patient; 0: none, and not in the line */
    size_t passed;      /* so often another job was given some of what it lacks: see sched.c */
    sched_set_t lacked; /* what the patient could not have at some time since */
    int64_t running[SCHED_NAMES_MAX]; /* of each resource, what will come back from tasks' ends */
};

static inline sched_shape_t *sched_job_shape(const sched_job_t *job, uint32_t shape) {
    return sched_shapes_find(&job->shapes, shape);
}

/* Something has changed inside a bundle: sched_task_next is to look there. */
void sched_stir(sched_t *inside);
/* Call these when a shape that can ever fit begins to have tasks waiting, and when it ends. */
void sched_job_wait(sched_job_t *job, uint64_t order);
void sched_job_unwait(sched_job_t *job);
/* Call it when what its turn depends on has changed: its CPUs, or `turn`. */
void sched_job_moved(sched_job_t *job);
/* From now on this is its patient, the last in the line of patients. */
void sched_job_patient_set(sched_job_t *job, uint64_t order);

#endif
