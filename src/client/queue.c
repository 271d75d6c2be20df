/*
 * The queues that workers take tasks from. Each process has one in each lane, and it alone pushes
 * there. Every worker with a lease for the lane takes, from the queues in turn.
 *
 * Whom a push wakes. If a worker looks (it is awake, and looks at all queues once more before it
 * sleeps), that worker will find the entry: the submitter wakes nobody. Else it wakes one sleeping
 * worker that has a lease. If there is none, it wakes the daemon, if the daemon said that it may
 * grant another lease. A worker that took a task and sees more does the same, so one push can wake
 * a chain.
 *
 * No wake-up is lost. The submitter publishes the entry, then reads `looking`, `idle` and `more`. A
 * worker that goes to sleep clears `looking`, sets `idle`, then looks at the queues. The daemon
 * sets `more`, then looks at them. All of this is sequentially consistent. So in one total order
 * either the submitter's read comes after the write of the worker or the daemon, and the submitter
 * acts on it; or their look comes after the push, and finds the entry. A process may die after it
 * took a bit and before it rang: so the daemon rings all bells at every death.
 */
#include "client/client.h"

void client_queue_tell(mob_client_t *c, uint32_t lane) {
    bool rang;
    bool roused = shm_node_rouse(c->node, lane, &rang);
    if (rang) c->woke = true;
    if (!roused && atomic_load(&c->node->lanes[lane].more) != 0) client_notify(c);
}

void client_queue_push(mob_client_t *c, uint32_t lane, uint32_t record, uint64_t generation) {
    shm_queue_push(&c->queues[shm_lane_queue(lane, c->number)], wire_entry(record, generation));
    _Atomic uint64_t *queued = &c->node->lanes[lane].queued[c->number / 64];
    if (!(atomic_load(queued) & shm_node_bit(c->number)))
        atomic_fetch_or(queued, shm_node_bit(c->number));
    client_queue_tell(c, lane);
}

bool client_queues_have(mob_client_t *c, uint32_t lane) {
    for (uint32_t w = 0; w < shm_node_words(c->node); w++)
        for (uint64_t bits = atomic_load(&c->node->lanes[lane].queued[w]); bits != 0;
             bits &= bits - 1)
            if (shm_queue_count(
                    &c->queues[shm_lane_queue(lane, w * 64 + (uint32_t)__builtin_ctzll(bits))]) > 0)
                return true;
    return false;
}

/* The queue is empty: clears its bit, and sets it again if an entry came at the same time. */
static void queue_clear(mob_client_t *c, uint32_t lane, uint32_t number) {
    _Atomic uint64_t *queued = &c->node->lanes[lane].queued[number / 64];
    atomic_fetch_and(queued, ~shm_node_bit(number));
    if (shm_queue_count(&c->queues[shm_lane_queue(lane, number)]) > 0)
        atomic_fetch_or(queued, shm_node_bit(number));
}

void client_queues_clear(mob_client_t *c, uint32_t lane) {
    for (uint32_t w = 0; w < shm_node_words(c->node); w++) {
        uint64_t bits = atomic_load_explicit(&c->node->lanes[lane].queued[w], memory_order_relaxed);
        for (; bits != 0; bits &= bits - 1) {
            uint32_t number = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (shm_queue_count(&c->queues[shm_lane_queue(lane, number)]) == 0)
                queue_clear(c, lane, number);
        }
    }
}

static bool queue_take(mob_client_t *c, uint32_t number, client_claim_fn claim) {
    shm_queue_t *q = &c->queues[number];
    uint64_t position, entry;
    while (!c->run_unclaimable && shm_queue_peek(q, &position, &entry)) {
        uint64_t next = shm_queue_after(q, position); /* now, while the queue's words are here */
        bool claimed = claim(c, entry);
        if (!claimed && c->run_unclaimable) return false; /* the entry stays for other workers */
        shm_queue_pass(q, position);
        c->queue_has_next = next != 0;
        if (next != 0) client_entry_fetch(c, next);
        if (claimed) return true;
    }
    return false;
}

/* Whether a look at the queues could lead to anything: a worker sleeps with a lease, or the daemon
 * may grant another lease. */
static bool somebody_to_tell(mob_client_t *c, uint32_t lane) {
    if (atomic_load(&c->node->lanes[lane].more) != 0) return true;
    for (uint32_t w = 0; w < shm_node_words(c->node); w++)
        if (atomic_load(&c->node->lanes[lane].workers[w].idle) != 0) return true;
    return false;
}

bool client_queue_take(mob_client_t *c, uint32_t lane, client_claim_fn claim) {
    uint32_t words = shm_node_words(c->node), start = c->queue_turn / 64;
    uint64_t above = c->queue_turn % 64 == 63 ? 0 : ~(uint64_t)0 << (c->queue_turn % 64 + 1);
    /* Every queue once, beginning after the one that had its turn: the first word's lower part
     * comes last. */
    for (uint32_t i = 0; i <= words && words > 0; i++) {
        uint32_t w = (start + i) % words;
        uint64_t bits =
            atomic_load(&c->node->lanes[lane].queued[w]) & (i == 0       ? above
                                                            : i == words ? ~above
                                                                         : ~(uint64_t)0);
        for (; bits != 0; bits &= bits - 1) {
            uint32_t number = w * 64 + (uint32_t)__builtin_ctzll(bits);
            if (!queue_take(c, shm_lane_queue(lane, number), claim)) continue;
            c->queue_turn = number;
            /* In this order, since submitters write the queues' words all the time, and the words
             * that somebody_to_tell reads change rarely. A worker that sets `idle` after that, or
             * the daemon that sets `more`, looks at the queues itself. */
            if (somebody_to_tell(c, lane) && client_queues_have(c, lane))
                client_queue_tell(c, lane);
            return true;
        }
    }
    return false;
}

bool client_record_split(const mob_client_t *c, const wire_record_t *record,
                         wire_body_t *ret_body) {
    const void *start =
        record->block ? (const void *)(c->arena.read_only + record->block) : record->body;
    return record->num_deps > 0 &&
           wire_body_split(record, start, record->body_size, ret_body) == MOB_OK;
}
