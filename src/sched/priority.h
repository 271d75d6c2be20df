/*
 * Priorities as places in line. A task's order number says when its turn is, within its job: the
 * lowest is first. It is the task's number in the order of coming, less a head start for each level
 * of its priority. The head start is so long that a task goes before everything of a lower priority
 * that waits, unless that has let a million go by for each level between them.
 *
 * No starvation: whatever has waited for SCHED_STARVING_NS has the highest priority from then on.
 * So the longest that a task waits beside others of any priority is that, and what those of before
 * take that wait as long.
 */
#ifndef SCHED_PRIORITY_H
#define SCHED_PRIORITY_H

#include <stdint.h>

#define SCHED_STARVING_NS UINT64_C(10000000000)

enum { SCHED_PRIORITY_MOST = 100 }; /* and the least is its negative */

/* No two tasks have the same: the level is in the low bits. */
enum { SCHED_HEAD_START = 1 << 20, SCHED_STARVING = SCHED_PRIORITY_MOST + 1 };
#define SCHED_ORDER_BASE (UINT64_C(1) << 40)

static inline uint64_t sched_order(uint64_t number, int32_t priority) {
    int64_t place = (int64_t)(SCHED_ORDER_BASE + number) - (int64_t)priority * SCHED_HEAD_START;
    return (uint64_t)place << 8 | (uint8_t)(priority + 128);
}
static inline int32_t sched_order_priority(uint64_t order) { return (int32_t)(order & 255) - 128; }
/* The task's number in the order of coming. */
static inline uint64_t sched_order_number(uint64_t order) {
    int64_t start = (int64_t)sched_order_priority(order) * SCHED_HEAD_START;
    return (uint64_t)((int64_t)(order >> 8) + start) - SCHED_ORDER_BASE;
}

#endif
