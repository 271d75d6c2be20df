/*
 * The daemon does not see the tasks of a lane: workers take them from its queues. It sees how far
 * these have come between two looks, and how many workers took from them.
 *
 * A queue that was emptied counts no more, or begins again further on (shm/queue.h): then nothing
 * waited there for long, and the tasks count as short. What was seen before a pause says nothing of
 * the time since; how it was judged then stands until the next look.
 */
#include "node/cluster/pace.h"

#include "node/lease.h"

static const uint64_t LEAST_NS = 1000000, MOST_NS = 200000000; /* between two looks */
static const uint64_t SHORT_NS = 20000;                        /* of one task */

bool node_pace_is_quick(node_pace_t *pace, const node_job_t *job, uint32_t lane, uint64_t now_ns) {
    uint64_t took = now_ns - pace->since_ns;
    uint32_t workers;
    if (took < LEAST_NS) return pace->is_quick;
    uint64_t passed = node_lane_passed(job, lane, &workers), done = passed - pace->passed;
    if (took <= MOST_NS)
        pace->is_quick = passed < pace->passed || (workers > 0 && took * workers < done * SHORT_NS);
    pace->since_ns = now_ns;
    pace->passed = passed;
    return pace->is_quick;
}
