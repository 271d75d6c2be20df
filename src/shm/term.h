/*
 * A node's term: until when it may begin what runs at most once, which are calls of actors, their
 * creation, and tasks that are not run again. A node of a cluster that has lost touch with the
 * others may be dead for them, and what they take from it may run elsewhere. So each process that
 * begins such a run looks at the clock first, by itself: the daemon may stand still.
 *
 *   the daemon moves the end on             a worker that finds it over
 *   term_ns = end                           term_awaited = 1
 *   term_awaited: 1 to 0: rings all bells   reads term_ns again; then sleeps on its bell
 *
 * No wake-up is lost. All of this is sequentially consistent, and the worker has listened to its
 * bell before. So in one total order either its second look comes after the daemon's store, and it
 * sees the new end; or the daemon's exchange comes after the worker's mark, and rings for it. The
 * mark is one for all: whoever rings, rings for all that have set it, and those who find the new
 * end over, too, set it again.
 *
 * The daemon of a node that is in no cluster writes nothing here: then the term has no end, and a
 * look costs one load.
 */
#ifndef SHM_TERM_H
#define SHM_TERM_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "shm/node.h"

/* Whether nothing that runs at most once may begin now. */
static inline bool shm_term_is_over(shm_node_t *node) {
    uint64_t end_ns = atomic_load_explicit(&node->term_ns, memory_order_relaxed);
    return end_ns != 0 && base_clock_boot_ns() >= end_ns;
}

/* The same, and if so, all bells are rung when it has a later end. To be called after the caller
 * has listened to its bell, and before it sleeps. */
static inline bool shm_term_await(shm_node_t *node) {
    if (!shm_term_is_over(node)) return false;
    atomic_store(&node->term_awaited, 1);
    return base_clock_boot_ns() >= atomic_load(&node->term_ns);
}

/* The daemon: there is another end. True: all bells are to be rung. */
static inline bool shm_term_set(shm_node_t *node, uint64_t end_ns) {
    atomic_store(&node->term_ns, end_ns);
    return atomic_exchange(&node->term_awaited, 0) != 0;
}

#endif
