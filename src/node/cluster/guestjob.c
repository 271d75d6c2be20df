#include "node/cluster/guestjob.h"

#include "node/state.h"

frame_job_t node_guestjob_id(const node_job_t *job) {
    if (job->is_guest) return job->origin;
    return (frame_job_t){.home = job->node->incarnation, .number = job->number};
}
