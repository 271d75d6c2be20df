/* What is held, and how it changes the books of the node and of its job. */
#ifndef SCHED_LEASE_H
#define SCHED_LEASE_H

#include "sched/sched.h"

/* Makes a lease into another of the same job, or of nothing: gives back what it held, and takes. */
void sched_lease_set(sched_lease_t *lease, sched_lease_t next);

#endif
