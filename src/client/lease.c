/* A worker's own moves of its lease: see shm/lease.h. All under the mutex, apart from the
 * sleeping. */
#include "client/client.h"

static shm_lease_t *lease_of(mob_client_t *c) { return &c->node->leases[c->number]; }

uint32_t client_lane(mob_client_t *c) { return atomic_load(&lease_of(c)->lane) % SHM_NO_LANE; }

void client_looking_set(mob_client_t *c, bool looking) {
    if (c->looking == looking) return;
    c->looking = looking;
    if (looking) c->looking_lane = client_lane(c);
    _Atomic uint64_t *word = &c->node->lanes[c->looking_lane].workers[c->number / 64].looking;
    if (looking)
        atomic_fetch_or(word, shm_node_bit(c->number));
    else
        atomic_fetch_and(word, ~shm_node_bit(c->number));
}

void client_looking_end(mob_client_t *c) {
    if (!c->looking) return;
    client_looking_set(c, false);
    if (client_queues_have(c, c->looking_lane)) client_queue_tell(c, c->looking_lane);
}

/* This worker has a lease for the lane, and nothing to do. */
static bool is_free(mob_client_t *c, uint32_t lane) {
    return atomic_load(&lease_of(c)->word) == SHM_LEASE_FREE && client_lane(c) == lane;
}

/* BUSY|RECALL, between two tasks. False: the daemon has taken the flag back. */
static bool give_back(mob_client_t *c) {
    uint32_t word = SHM_LEASE_BUSY | SHM_LEASE_RECALL;
    if (!atomic_compare_exchange_strong(&lease_of(c)->word, &word, SHM_LEASE_NONE)) return false;
    client_push(c, wire_plain(WIRE_LEASE));
    return true;
}

bool client_lease_begin(mob_client_t *c) {
    uint32_t word = atomic_load(&lease_of(c)->word);
    if (word == (SHM_LEASE_BUSY | SHM_LEASE_RECALL)) return !give_back(c);
    return word == SHM_LEASE_BUSY ||
           (word == SHM_LEASE_FREE && shm_lease_move(lease_of(c), SHM_LEASE_FREE, SHM_LEASE_BUSY));
}

void client_lease_rest(mob_client_t *c) {
    uint32_t word;
    do {
        word = SHM_LEASE_BUSY;
        if (atomic_compare_exchange_strong(&lease_of(c)->word, &word, SHM_LEASE_FREE)) {
            if (atomic_load(&c->node->wanted) != 0) client_notify(c);
            return;
        }
    } while (word == (SHM_LEASE_BUSY | SHM_LEASE_RECALL) && !give_back(c));
}

void client_lease_run(mob_client_t *c, uint32_t record_and_one) {
    /* release: the worker has told everything about a run before it says that it is over */
    atomic_store_explicit(&lease_of(c)->run, record_and_one, memory_order_release);
}

static bool work_is_there(mob_client_t *c, void *context) {
    uint32_t seen = *(uint32_t *)context;
    if (c->looking && !is_free(c, c->looking_lane))
        return true; /* submitters rely on this worker, in vain */
    return shm_bell_listen(&c->node->bells[c->number]) != seen || client_calls_have(c) ||
           (atomic_load_explicit(&lease_of(c)->word, memory_order_relaxed) == SHM_LEASE_FREE &&
            client_queues_have(c, client_lane(c)));
}

bool client_lease_look(mob_client_t *c, uint32_t seen) {
    bool found = false;
    if (c->looking && !is_free(c, c->looking_lane))
        client_looking_end(c); /* another lease, or none */
    if (atomic_load(&lease_of(c)->word) == SHM_LEASE_FREE) {
        client_looking_set(c, true);
        found = client_spin(c, &c->run_patience, work_is_there, &seen);
    } else if (c->calls.count > 0) {
        found = client_spin(c, &c->run_patience, work_is_there, &seen);
    }
    if (found) return true; /* and its `looking` bit stays until it has claimed something */
    client_looking_end(c);
    return false;
}

/* This worker is awake. A submitter may have relied on it: if it has no lease any more, it wakes
 * another one. */
static void idle_bit_take(mob_client_t *c, uint32_t lane) {
    atomic_fetch_and(&c->node->lanes[lane].workers[c->number / 64].idle, ~shm_node_bit(c->number));
    if (!is_free(c, lane) && client_queues_have(c, lane)) client_queue_tell(c, lane);
}

/* This worker is awake, and the shared words say so: the daemon is to look at memory now and then
 * while it works. */
void client_work_tell(mob_client_t *c) {
    /* seq_cst: the daemon takes `watched` back and then looks which workers rest */
    if (atomic_load(&c->node->watched) == 0) client_notify(c);
}

bool client_lease_sleep(mob_client_t *c, uint32_t seen) {
    uint32_t lane = client_lane(c);
    bool leased = is_free(c, lane), woken = true;
    if (leased) {
        client_queues_clear(c, lane);
        atomic_fetch_or(&c->node->lanes[lane].workers[c->number / 64].idle,
                        shm_node_bit(c->number));
        /* The daemon takes the lease, then the bit. If it did so before this worker set the bit,
         * the daemon will not take the bit: this worker does. */
        leased = is_free(c, lane);
        if (!leased) idle_bit_take(c, lane);
    }
    if (c->calls.count > 0) atomic_store(&lease_of(c)->rests, 1);
    if (!(leased && client_queues_have(c, lane)) && !client_calls_have(c))
        woken = client_sleep(c, seen, -1);
    if (c->calls.count > 0) atomic_store(&lease_of(c)->rests, 0);
    if (leased) idle_bit_take(c, lane);
    client_work_tell(c);
    return woken;
}

/* The run waits: its CPU may be lent. */
void client_lease_block(mob_client_t *c) {
    if (shm_lease_move(lease_of(c), SHM_LEASE_BUSY, SHM_LEASE_BLOCKED) &&
        atomic_load(&c->node->wanted) != 0)
        client_notify(c);
}

void client_lease_unblock(mob_client_t *c) {
    if (shm_lease_go_on(lease_of(c))) client_push(c, wire_plain(WIRE_UNBLOCK));
}
