/*
 * Leases: workers that take tasks from the queues by themselves, without the daemon.
 *
 * The daemon gives them CPUs and takes those back; shm/lease.h has the states. Queues are in lanes,
 * one for each shape of a job (shm/lane.h), and a lease is for one lane. The daemon asks the
 * scheduler for it as for a task of that shape: `request` is that task. A lane has at most one
 * request at a time, so queues and other tasks get their turn in the order in which they asked. The
 * daemon makes the request when the lane's queues have more tasks than workers that look. A
 * submitter that pushes tells it so while `more` is up, which is whenever no request waits.
 *
 * Other tasks come first, in this order: the daemon takes a free lease at once when another task
 * needs the CPU; it recalls a busy one after RECALL_NS; it lends a blocked one. After a blocked
 * task went on, more CPUs are used than there are: its worker takes no other task until there is a
 * CPU for it. For a task without a lease that went on, the daemon takes or recalls one. But it
 * leaves a lease alone for RECALL_NS that it gave for tasks in the queues: the worker may not have
 * been awake yet, and the queues would never have their turn beside tasks that come one after the
 * other. Nor is it worth changing hands for one task at a time. The request of another lane counts
 * as another task; that of the same lane does not.
 *
 * Between jobs: a lease that is not used goes to whichever job needs its CPU. A busy one is
 * recalled only for tasks of its own job, or of a job that holds fewer CPUs than its own: so jobs
 * that have more to do than there are CPUs come to hold equally many.
 *
 * A lane may be for a demand in a placement group. Then its leases are of the insides of bundles,
 * and who has to give way to whom is asked there: the node and each bundle are a *place* of their
 * own. Such a lane is closed when its group is removed, and goes to another shape once the last of
 * its workers is dead.
 *
 * The worker that a granted lease is for may still have to be started: `granted` holds the lease
 * until then.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "node/ahead.h"
#include "node/runname.h"
#include "node/state.h"

static const uint64_t RECALL_NS = 10000000;

static shm_lease_t *lease_of(node_client_t *w) { return &w->node->shared->leases[w->number]; }
static uint32_t state_of(node_client_t *w) {
    return atomic_load(&lease_of(w)->word) & SHM_LEASE_STATE;
}

/* The next leased worker from number `i` on; NULL: no more. */
static node_client_t *leased_from(node_t *n, uint32_t i) {
    for (; n->leases.given > 0 && i < n->client_next; i++)
        if (n->clients[i] != NULL && n->clients[i]->leased) return n->clients[i];
    return NULL;
}
#define EACH_LEASED(n, w) \
    for (node_client_t *w = leased_from(n, 1); w != NULL; w = leased_from(n, w->number + 1))

#define EACH_LANE(job, l)                    \
    for (uint32_t l = 0; l < SHM_LANES; l++) \
        if ((job)->lanes[l].shape != 0)

uint32_t node_lane_number(const node_job_t *job, uint32_t lane) {
    return job->place * SHM_LANES + lane;
}

static shm_lane_t *shared_of(const node_job_t *job, uint32_t lane) {
    return &job->node->shared->lanes[node_lane_number(job, lane)];
}
static node_lane_t *lane_of(const node_client_t *w) { return &w->job->lanes[w->lane]; }

/* What the worker's lease is of: the node, or the inside of a bundle. */
static sched_t *place_of(const node_client_t *w) { return sched_lease_place(&w->lease); }

void node_lane_open(node_job_t *job, uint32_t shape) {
    node_lane_t *lanes = job->lanes;
    uint32_t lane = SHM_LANES;
    for (uint32_t l = SHM_LANES; l-- > 0;) {
        if (lanes[l].shape == shape) return;
        if (lanes[l].shape == 0) lane = l;
    }
    if (!job->node->config.fast || lane == SHM_LANES) return;
    sched_amount_t demand[2];
    if (sched_shape_demand(job->sched, shape, demand, 2) != 1 || strcmp(demand[0].name, "CPU") != 0)
        return;
    const sched_group_t *group = sched_shape_where(job->sched, shape)->group;
    if (group != NULL && sched_group_is_removed(group)) return;
    if (node_offer_holds(job, shape)) return; /* no worker may take them before it is said where */
    /* the shape would keep the lane for nothing */
    if (lane > 0 && !sched_shape_fits_ever(job->sched, shape)) return;
    sched_shape_hold(job->sched, shape);
    lanes[lane] = (node_lane_t){.ask = {.lane_of = job},
                                .shape = shape,
                                .cpus = (int64_t)demand[0].amount,
                                .inside = group != NULL};
    atomic_store(&shared_of(job, lane)->more, 1);
    atomic_store(&shared_of(job, lane)->shape, shape + 1);
}

void node_lanes_close(node_job_t *job) {
    NODE_EACH_POOL(job, pool) node_lease_abandon(pool);
    EACH_LANE (job, l) {
        sched_task_remove(job->node->sched, &job->lanes[l].request);
        atomic_store(&shared_of(job, l)->more, 0);
    }
}

/* No lease is given in a lane that was closed: it may go to another shape. */
static void lane_free(node_job_t *job, uint32_t l) {
    node_lane_t *lane = &job->lanes[l];
    sched_shape_drop(job->sched, lane->shape);
    *lane = (node_lane_t){0};
}

/* A submitter that pushes after this finds, behind its push, that the shape is not there any more,
 * and tells the daemon (WIRE_CLOSED); what was pushed before is found here, or was taken by a
 * worker that is killed. */
static void lane_close(node_job_t *job, uint32_t l) {
    node_t *n = job->node;
    node_lane_t *lane = &job->lanes[l];
    lane->closed = true;
    atomic_store(&shared_of(job, l)->shape, 0);
    atomic_store(&shared_of(job, l)->more, 0);
    sched_task_remove(n->sched, &lane->request);
    if (lane->granted.state != SCHED_LEASE_NONE) {
        sched_lease_release(n->sched, &lane->granted);
        node_pool_of(job, lane->shape)->waiting--;
    }
    node_lane_fail(job, l, MOB_EGROUP,
                   "The placement group corresponding to this task has been removed.");
    if (lane->leases == 0) lane_free(job, l);
}

void node_lanes_leave(node_t *n, const sched_group_t *group) {
    NODE_EACH_JOB(n, job)
    EACH_LANE (job, l)
        if (!job->lanes[l].closed &&
            sched_shape_where(job->sched, job->lanes[l].shape)->group == group)
            lane_close(job, l);
}

void node_lanes_end(node_job_t *job) {
    EACH_LANE (job, l) {
        sched_shape_drop(job->sched, job->lanes[l].shape);
        /* every bit in it was cleared with its client */
        atomic_store(&shared_of(job, l)->shape, 0);
        job->lanes[l].shape = 0;
    }
}

node_job_t *node_lane_asks(const sched_task_t *task, uint32_t *ret_lane) {
    node_job_t *job = ((const node_ask_t *)task)->lane_of;
    if (job != NULL) *ret_lane = (uint32_t)((const node_lane_t *)(const void *)task - job->lanes);
    return job;
}

uint64_t node_lane_queued(const node_job_t *job, uint32_t lane) {
    node_t *n = job->node;
    uint64_t queued = 0;
    for (uint32_t w = 0; w < shm_node_words(n->shared); w++)
        for (uint64_t bits = atomic_load(&shared_of(job, lane)->queued[w]); bits != 0;
             bits &= bits - 1) {
            uint64_t count = shm_queue_count(
                &n->queues[shm_lane_queue(lane, w * 64 + (uint32_t)__builtin_ctzll(bits))]);
            queued += count < SHM_QUEUE_ENTRIES ? count : SHM_QUEUE_ENTRIES;
        }
    return queued;
}

uint64_t node_lane_passed(const node_job_t *job, uint32_t lane, uint32_t *ret_workers) {
    node_t *n = job->node;
    uint64_t passed = 0;
    *ret_workers = 0;
    EACH_LEASED (n, w) *ret_workers += lane_of(w) == &job->lanes[lane];
    for (uint32_t w = 0; w < shm_node_words(n->shared); w++)
        for (uint64_t bits = atomic_load(&shared_of(job, lane)->queued[w]); bits != 0;
             bits &= bits - 1)
            passed += atomic_load_explicit(
                &n->queues[shm_lane_queue(lane, w * 64 + (uint32_t)__builtin_ctzll(bits))].head,
                memory_order_relaxed);
    return passed;
}

/* Whether the queues have more tasks than there are workers that will look there. */
static bool more_is_needed(node_job_t *job, uint32_t lane) {
    uint64_t queued = node_lane_queued(job, lane), looking = 0;
    if (queued == 0) return false;
    EACH_LEASED (job->node, w)
        looking += lane_of(w) == &job->lanes[lane] && state_of(w) == SHM_LEASE_FREE;
    return queued > looking;
}

bool node_record_name(node_t *n, uint32_t record, char *ret_name, size_t capacity) {
    wire_record_t copy;
    wire_body_t body;
    memcpy(&copy, &n->records[record], sizeof copy);
    /* not worth the checks */
    if (copy.block != 0 || copy.body_size > WIRE_RECORD_BODY) return false;
    if (wire_body_split(&copy, copy.body, copy.body_size, &body) != MOB_OK) return false;
    snprintf(ret_name, capacity, "%.*s", copy.name_size, body.name);
    return true;
}

/* The name of a task that lies in a queue, for people to read. */
static void first_name(node_job_t *job, uint32_t lane, char *ret_name, size_t capacity) {
    node_t *n = job->node;
    snprintf(ret_name, capacity, "?");
    for (uint32_t i = 1; i < n->client_next; i++) {
        uint64_t position, entry;
        if (n->clients[i] == NULL || n->clients[i]->job != job) continue;
        if (shm_queue_peek(&n->queues[shm_lane_queue(lane, i)], &position, &entry) &&
            node_record_name(n, wire_entry_index(entry), ret_name, capacity))
            return;
    }
}

static void lane_request(node_job_t *job, uint32_t l) {
    node_t *n = job->node;
    node_lane_t *lane = &job->lanes[l];
    if (lane->closed) return;
    _Atomic uint32_t *more = &shared_of(job, l)->more;
    /* A worker that sleeps with a lease looks only if it is rung for, and the worker that a
     * submitter relied on may have lost its lease to the daemon. */
    if (node_lane_queued(job, l) > 0)
        (void)shm_node_rouse(n->shared, node_lane_number(job, l), &(bool){false});
    if (lane->request.queued && node_lane_queued(job, l) == 0)
        sched_task_remove(n->sched, &lane->request); /* workers took all of it */
    if (lane->request.queued || lane->granted.state != SCHED_LEASE_NONE) return;
    /* First the flag, then the look: a submitter that pushes after the daemon's look reads the flag
     * after its push. */
    if (atomic_load(more) == 0) atomic_store(more, 1);
    if (!more_is_needed(job, l)) return;
    atomic_store(more, 0);
    if (!sched_shape_fits_ever(job->sched, lane->shape) &&
        !node_offer_fits_elsewhere(job, lane->shape)) {
        char name[256];
        first_name(job, l, name, sizeof name);
        node_warn_if_never(job, lane->shape, MOB_TASK, name);
    }
    sched_task_add(job->sched, &lane->request, lane->shape, base_clock_mono_ns());
}

void node_lease_request(node_job_t *job) {
    if (job->farewell.leaving) return;
    EACH_LANE (job, l) lane_request(job, l);
}

static void lease_give(node_client_t *w, uint32_t lane, const sched_lease_t *lease) {
    w->leased = true;
    w->lane = lane;
    w->takes = true;
    w->owes = false;
    w->lease = *lease;
    w->leased_ns = base_clock_mono_ns();
    w->recalled_ns = 0;
    w->node->leases.given++;
    w->node->leases.inside += lane_of(w)->inside;
    lane_of(w)->leases++;
    atomic_store(&lease_of(w)->lane, node_lane_number(w->job, lane));
    atomic_store_explicit(&lease_of(w)->word, SHM_LEASE_FREE, memory_order_release);
    shm_bell_ring(&w->node->shared->bells[w->number]);
}

void node_lease_granted(node_job_t *job, uint32_t lane, const sched_lease_t *lease) {
    sched_lease_t held = *lease;
    node_pool_t *pool = node_pool_of(job, job->lanes[lane].shape);
    bool needed = more_is_needed(job, lane);
    node_client_t *w = needed ? node_worker_idle(pool) : NULL;
    if (w != NULL) {
        lease_give(w, lane, &held);
    } else if (needed) {
        job->lanes[lane].granted = held;
        pool->waiting++;
    } else {
        sched_lease_release(job->node->sched, &held);
    }
    lane_request(job, lane);
}

bool node_lease_claim(node_client_t *w) {
    node_job_t *job = w->job;
    EACH_LANE (job, l) {
        sched_lease_t lease = job->lanes[l].granted;
        if (lease.state == SCHED_LEASE_NONE || node_pool_of(job, job->lanes[l].shape) != w->pool)
            continue;
        job->lanes[l].granted = (sched_lease_t){0};
        w->pool->waiting--;
        lease_give(w, l, &lease);
        return true;
    }
    return false;
}

void node_lease_abandon(node_pool_t *pool) {
    node_job_t *job = pool->job;
    EACH_LANE (job, l) {
        sched_lease_t *granted = &job->lanes[l].granted;
        if (granted->state == SCHED_LEASE_NONE || node_pool_of(job, job->lanes[l].shape) != pool)
            continue;
        sched_lease_release(job->node->sched, granted);
        *granted = (sched_lease_t){0};
        pool->waiting--;
        job->node->again = true; /* a submitter may push before `more` is up again */
    }
}

/* The lease's word is NONE: its CPUs go back. */
static void lease_end(node_client_t *w) {
    node_t *n = w->node;
    uint64_t bit = shm_node_bit(w->number);
    if (!w->leased) return;
    w->leased = false;
    n->leases.given--;
    n->leases.inside -= lane_of(w)->inside;
    lane_of(w)->leases--;
    /* A submitter that took this bit to wake the worker has pushed before. The daemon looks at the
     * queues after this. */
    atomic_fetch_and(&shared_of(w->job, w->lane)->workers[w->number / 64].idle, ~bit);
    n->again = true;
    sched_lease_release(n->sched, &w->lease);
    if (lane_of(w)->closed && lane_of(w)->leases == 0) lane_free(w->job, w->lane);
    node_worker_free(w);
}

void node_lease_returned(node_client_t *w) {
    if (w->leased && state_of(w) == SHM_LEASE_NONE) lease_end(w);
}

/* NULL stands for any lane, and for any place. */
static bool is_in(const node_client_t *w, const node_lane_t *lane, const sched_t *place) {
    return (lane == NULL || lane_of(w) == lane) && (place == NULL || place_of(w) == place);
}

/* Looks again when it is time, not when a whole RECALL_NS has passed once more. A timer counts in
 * milliseconds from a clock that may be one behind: it must not go off too early. */
static void look_at(node_t *n, uint64_t due_ns, uint64_t now_ns) {
    node_look_again(n, (due_ns > now_ns ? due_ns - now_ns : 0) / 1000000 + 1);
}

/* Takes a lease that is not used, and not about to be. Returns its CPUs; 0: there is none. */
static int64_t free_take(node_t *n, const node_lane_t *lane, const sched_t *place) {
    uint64_t now = base_clock_mono_ns();
    EACH_LEASED (n, w) {
        uint32_t word = SHM_LEASE_FREE;
        if (w->state != NODE_LIVE || state_of(w) != SHM_LEASE_FREE || !is_in(w, lane, place))
            continue;
        if (now - w->leased_ns < RECALL_NS && node_lane_queued(w->job, w->lane) > 0) {
            look_at(n, w->leased_ns + RECALL_NS, now);
            continue;
        }
        if (!atomic_compare_exchange_strong(&lease_of(w)->word, &word, SHM_LEASE_NONE)) continue;
        int64_t cpus = lane_of(w)->cpus;
        lease_end(w);
        return cpus;
    }
    return 0;
}

void node_leases_take_free(node_t *n) {
    while (free_take(n, NULL, NULL) > 0) {
    }
}

void node_lease_unblocked(node_client_t *w) {
    /* lent again since: the worker says so once more when its task goes on */
    if (state_of(w) == SHM_LEASE_LENT) return;
    sched_lease_unblock(w->node->sched, &w->lease);
    w->owes = w->node->leases.owing = true;
}

/* Where there is a CPU for each worker whose task went on, they may take other tasks. (A lease that
 * was recalled for another reason before is recalled for it again.) */
static void owing_settle(node_t *n) {
    n->leases.owing = false;
    EACH_LEASED (n, w) {
        uint32_t word = SHM_LEASE_BUSY | SHM_LEASE_RECALL;
        if (w->owes && sched_cpus_free(place_of(w)) < 0) {
            n->leases.owing = true;
            continue;
        }
        if (w->owes && w->lease.state == SCHED_LEASE_HELD) /* and not lent once more */
            atomic_compare_exchange_strong(&lease_of(w)->word, &word, SHM_LEASE_BUSY);
        w->owes = false;
    }
}

/* CPUs that will come back by recalls that were made since then. A worker whose task goes on and
 * that has not said so has none to give. */
static int64_t recalled(node_t *n, const sched_t *place, uint64_t since) {
    int64_t amount = 0;
    EACH_LEASED (n, w)
        if (is_in(w, NULL, place) && w->recalled_ns >= since &&
            w->lease.state == SCHED_LEASE_HELD &&
            atomic_load(&lease_of(w)->word) == (SHM_LEASE_BUSY | SHM_LEASE_RECALL))
            amount += lane_of(w)->cpus;
    return amount;
}

/* Recalls a lease that was given before that. Returns the CPUs that will come back; 0: there is
 * none. */
static int64_t recall_one(node_t *n, const node_lane_t *lane, const sched_t *place,
                          uint64_t given_before) {
    EACH_LEASED (n, w) {
        uint32_t word = SHM_LEASE_BUSY;
        if (!is_in(w, lane, place) || w->leased_ns > given_before ||
            !atomic_compare_exchange_strong(&lease_of(w)->word, &word,
                                            SHM_LEASE_BUSY | SHM_LEASE_RECALL))
            continue;
        w->recalled_ns = base_clock_mono_ns();
        return lane_of(w)->cpus;
    }
    return 0;
}

/* When the next lease can be recalled for a task that waits since then; UINT64_MAX: there is
 * none. */
static uint64_t recall_due(node_t *n, const node_lane_t *lane, const sched_t *place,
                           uint64_t since) {
    uint64_t due = UINT64_MAX;
    EACH_LEASED (n, w) {
        if (!is_in(w, lane, place) || atomic_load(&lease_of(w)->word) != SHM_LEASE_BUSY) continue;
        uint64_t one = (w->leased_ns > since ? w->leased_ns : since) + RECALL_NS;
        if (one < due) due = one;
    }
    return due;
}

/* More CPUs are used in a place than there are, since blocked tasks went on: as many of its leases
 * are to end. */
static void overdraft_settle(node_t *n, const sched_t *place) {
    int64_t over = -sched_cpus_free(place), got = 1;
    while (over > 0 && (got = free_take(n, NULL, place)) > 0) over -= got;
    if (over > 0) over -= recalled(n, place, 0);
    while (over > 0 && (got = recall_one(n, NULL, place, UINT64_MAX)) > 0) over -= got;
}

static void overdrafts_settle(node_t *n) {
    if (n->leases.given == 0) return;
    overdraft_settle(n, n->sched);
    if (n->leases.inside > 0)
        EACH_LEASED (n, w)
            if (lane_of(w)->inside && sched_cpus_free(place_of(w)) < 0)
                overdraft_settle(n, place_of(w));
    if (n->leases.owing && !n->pressure.paused) owing_settle(n);
}

/* Whether a task waits for a CPU there, a lane's request among them. */
static bool place_wants(node_t *n, const sched_t *place) {
    uint64_t since;
    return sched_cpu_lacking(place, NULL, NULL, &since) > 0 ||
           (place == n->sched && n->leases.given > 0 && node_ahead_waits(n, NULL, &since));
}

/* Lends the CPUs of workers whose task is blocked where they are wanted; true if there were any. */
static bool blocked_lend(node_t *n, bool node_wants) {
    bool any = false;
    EACH_LEASED (n, w) {
        bool wants = lane_of(w)->inside ? place_wants(n, place_of(w)) : node_wants;
        if (!wants || !shm_lease_move(lease_of(w), SHM_LEASE_BLOCKED, SHM_LEASE_LENT)) continue;
        sched_lease_block(n->sched, &w->lease);
        any = true;
    }
    return any;
}

/* Recalls leases of the lane for tasks that have waited for `lacking` CPUs since then. */
static void lane_recall(node_t *n, const node_lane_t *lane, const sched_t *place, int64_t lacking,
                        uint64_t since) {
    uint64_t now = base_clock_mono_ns();
    /* A worker that was recalled says so when its task is over, which may be long; of the others
     * the daemon knows only if it looks again. So after a while it recalls another one, too. */
    int64_t missing = lacking - recalled(n, place, now - RECALL_NS), got;
    bool late = now - since >= RECALL_NS;
    while (late && missing > 0 && (got = recall_one(n, lane, place, now - RECALL_NS)) > 0)
        missing -= got;
    uint64_t due = recall_due(n, lane, place, missing > 0 ? since : now);
    if (due != UINT64_MAX) look_at(n, due, now);
}

/* Gives up CPUs that leases of the lane hold in a place, of which `holder` is its job's part. True:
 * a task may start now. */
static bool lane_yield_at(node_job_t *job, node_lane_t *lane, const sched_t *place,
                          const sched_job_t *holder) {
    node_t *n = job->node;
    uint64_t since = 0;
    bool needed = sched_cpu_lacking(place, &lane->request, NULL, &since) > 0 ||
                  (!lane->inside && node_ahead_waits(n, NULL, &since));
    if (needed && free_take(n, lane, place) > 0) return true;
    int64_t lacking = sched_cpu_lacking(place, &lane->request, holder, &since);
    if (lacking <= 0 && !lane->inside && node_ahead_waits(n, job, &since)) lacking = SCHED_UNIT;
    if (lacking > 0) lane_recall(n, lane, place, lacking, since);
    return false;
}

static bool lane_yield(node_job_t *job, node_lane_t *lane) {
    if (!lane->inside) return lane_yield_at(job, lane, job->node->sched, job->sched);
    EACH_LEASED (job->node, w)
        if (lane_of(w) == lane && lane_yield_at(job, lane, place_of(w), w->lease.job)) return true;
    return false;
}

static bool insides_want(node_t *n) {
    if (n->leases.inside > 0)
        EACH_LEASED (n, w)
            if (lane_of(w)->inside && place_wants(n, place_of(w))) return true;
    return false;
}

bool node_leases_yield(node_t *n) {
    overdrafts_settle(n);
    bool node_wants = place_wants(n, n->sched), wanted = node_wants || insides_want(n);
    /* First the flag, then the look: a worker that blocks after the daemon's look reads the flag
     * after it said so. */
    if (atomic_load(&n->shared->wanted) != wanted) atomic_store(&n->shared->wanted, wanted);
    if (n->leases.given == 0) return false;
    /* The lanes' requests count too: a CPU that is blocked in a lane may be lent to that lane. */
    if (wanted && blocked_lend(n, node_wants)) return true;
    NODE_EACH_JOB(n, job)
    EACH_LANE (job, l)
        if (job->lanes[l].leases > 0 && lane_yield(job, &job->lanes[l])) return true;
    return false;
}

void node_leases_recall(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    EACH_LEASED (n, w) {
        uint32_t word = SHM_LEASE_FREE, busy = SHM_LEASE_BUSY;
        /* A worker that got its lease just now has not had the time to take anything. */
        if (w->state == NODE_LIVE && now - w->leased_ns >= RECALL_NS &&
            atomic_compare_exchange_strong(&lease_of(w)->word, &word, SHM_LEASE_NONE))
            lease_end(w);
        else
            atomic_compare_exchange_strong(&lease_of(w)->word, &busy,
                                           SHM_LEASE_BUSY | SHM_LEASE_RECALL);
    }
}

int64_t node_leases_spare(node_t *n, bool *ret_busy) {
    int64_t spare = 0;
    *ret_busy = false;
    EACH_LEASED (n, w) {
        bool is_free = state_of(w) == SHM_LEASE_FREE;
        if (is_free && !lane_of(w)->inside) spare += lane_of(w)->cpus;
        *ret_busy |= !is_free;
    }
    return spare;
}

size_t node_leases_due(node_t *n) {
    size_t count = 0;
    EACH_LEASED (n, w) {
        if (state_of(w) != SHM_LEASE_BUSY) continue;
        uint32_t run = atomic_load(&lease_of(w)->run);
        if (run == SHM_LEASE_FORGETS) continue;
        uint64_t word =
            run > 0 && run <= WIRE_MAX_RECORDS ? atomic_load(&n->records[run - 1].word) : 0;
        count += wire_word_state(word) != WIRE_TAKEN || wire_word_worker(word) != w->number;
    }
    return count;
}

void node_lease_forget(node_client_t *w) {
    node_t *n = w->node;
    uint64_t bit = shm_node_bit(w->number);
    for (uint32_t l = 0; w->job != NULL && l < SHM_LANES; l++) {
        shm_lane_t *lane = shared_of(w->job, l);
        atomic_fetch_and(&lane->workers[w->number / 64].looking, ~bit);
        atomic_fetch_and(&lane->workers[w->number / 64].idle, ~bit);
    }
    atomic_fetch_and(&n->shared->awake[w->number / 64], ~bit);
    atomic_store(&lease_of(w)->word, SHM_LEASE_NONE);
    atomic_store(&lease_of(w)->run, 0);
    atomic_store(&lease_of(w)->rests, 0); /* the next client of this number begins anew */
    atomic_store(&lease_of(w)->calls, 0);
    lease_end(w);
}

void node_queues_note(node_t *n) {
    for (uint32_t i = 1; i < n->client_next; i++) {
        const node_job_t *job = n->clients[i] != NULL ? n->clients[i]->job : NULL;
        if (job == NULL) continue;
        EACH_LANE (job, l)
            if (shm_queue_count(&n->queues[shm_lane_queue(l, i)]) > 0)
                atomic_fetch_or(&shared_of(job, l)->queued[i / 64], shm_node_bit(i));
    }
}

void node_events_read(node_client_t *w) {
    shm_event_t e;
    for (int i = 0; w->events != NULL && i < SHM_EVENTS && shm_events_take(w->events, &e); i++) {
        control_event_t event = {.start_ns = e.start_ns,
                                 .end_ns = e.end_ns,
                                 .pid = w->pid,
                                 .worker = w->epoch,
                                 .kind = e.kind};
        uint8_t size = e.name_size < sizeof e.name ? e.name_size : sizeof e.name;
        if (e.kind == MOB_ACTOR_CALL && w->actor != NULL)
            node_event_name(&event, w->actor, e.name, size);
        else
            memcpy(event.name, e.name, size);
        control_event_add(w->node->control, &event);
    }
}
