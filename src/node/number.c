/*
 * Numbers of clients. A process gets the lowest that is free: a wait has one of the 48 bits in a
 * slot's word only with a number up to 48 (store/slot.h), and every loop over clients goes up to
 * the highest number in use.
 *
 * So numbers are used again, and no process may take the next client of a number for the last one.
 * After a certain death (node_client_died) a number stands in these places:
 *
 *   what                                    why a later client is not mistaken for the dead one
 *   clients, queue bits, lease, idle,       cleared with the client, which alone set
 *     looking, awake; its slots, records,     them; what it was granted is an orphan's, or nobody's
 *     extents; holders of objects
 *   questions, wants for space              struck off with the client
 *   records TAKEN or DONE by it             found by node_tasks_find_taken, and run again, failed
 *                                             or completed. A record that makes no sense stays:
 *                                             only the client that claimed it believes that it
 *                                             runs it, in its own books
 *   creations that it ran, of actors that   DONE by it, in the books and not queued: nobody looks
 *     may be restarted                        at the worker in the word
 *   tasks that it submitted and that run    open_tasks: the number is not free
 *   queues of calls that the actor has      `named`: the number is not free
 *     not finished; values that it asked
 *     for and that are being read
 *   its queues of tasks                     empty. Positions count up for ever, so a worker that
 *                                             was held up there finds other positions; an entry
 *                                             gives no right, the record's generation does
 *   its segment (rings, pins, events)       a new one for each client
 *   its bell, waiter bits in slots, its     a ring for nothing: the client looks and sleeps on
 *     bit in `pending`, `taker` as read
 *     by a caller just before
 *   last_owner of a gap                     a hint
 *   control's events, a worker's id         the epoch, which is never given twice
 *
 * All of that is done when the client is closed, or is counted. Beside that a number rests for one
 * whole round of the loop (every ring read, everything settled): whatever a round has in hand is
 * put away before the number goes to another client. The rest is so short because a number that is
 * given while many rest is a high one, and its process keeps it. Nothing depends on the rest, so if
 * all free numbers rest, the daemon gives one of them.
 *
 * In the shared memory of one node no epoch is needed to tell two clients of a number apart, for
 * whatever names a number is cleared or counted here. People have no such counts: they are shown
 * the epoch.
 */
#include "node/number.h"

#include "node/state.h"

enum { REST = 2 }; /* rounds: the rest of the one that it went in, and a whole one */

/* The highest in use has changed. Sequentially consistent: a submitter reads it after its push, and
 * a new worker looks at the queues after this (client/queue.c). */
static void bound_set(node_t *n, uint32_t next) {
    n->client_next = next;
    atomic_store(&n->shared->numbers, next);
}

static bool is_free(const node_t *n, uint32_t number) {
    return n->clients[number] == NULL && n->open_tasks[number] == 0 &&
           n->numbers.named[number] == 0;
}

static bool has_rested(const node_t *n, uint32_t number) {
    return n->numbers.left[number] == 0 || n->round + 1 >= n->numbers.left[number] + REST;
}

static uint32_t lowest(const node_t *n, bool rested) {
    for (uint32_t i = 1; i < SHM_MAX_CLIENTS; i++)
        if (is_free(n, i) && (!rested || has_rested(n, i))) return i;
    return 0;
}

bool node_number_take(node_client_t *c) {
    node_t *n = c->node;
    uint32_t number = lowest(n, true);
    if (number == 0) number = lowest(n, false);
    if (number == 0) return false;
    c->number = number;
    c->epoch = ++n->numbers.epoch;
    n->clients[number] = c;
    atomic_store(&n->shared->bells[number].sleepers, 0);
    if (number >= n->client_next) bound_set(n, number + 1);
    return true;
}

bool node_number_take_high(node_client_t *c) {
    node_t *n = c->node;
    for (uint32_t i = SHM_MAX_CLIENTS - 1; i >= n->client_next; i--) {
        if (!is_free(n, i)) continue;
        c->number = i;
        c->epoch = ++n->numbers.epoch;
        n->clients[i] = c;
        return true;
    }
    return false;
}

void node_number_leave(node_client_t *c) {
    node_t *n = c->node;
    n->clients[c->number] = NULL;
    n->numbers.left[c->number] = n->round + 1;
    uint32_t next = n->client_next;
    while (next > 1 && n->clients[next - 1] == NULL) next--;
    if (next != n->client_next) bound_set(n, next);
}

void node_number_name(node_t *n, uint32_t number) { n->numbers.named[number]++; }

void node_number_unname(node_t *n, uint32_t number) { n->numbers.named[number]--; }
