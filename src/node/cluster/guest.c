/*
 * Tasks of other nodes here; visit.c has their way. The room says when one may stand in the
 * scheduler's queue (`queue`), and takes it out again if no worker has it (`unqueue`).
 *
 * Records are the client's that stands for other nodes, and results go into proxies of their
 * homes. A visit's end travels as the value of the run, however it ended: only the origin knows
 * what follows. One whose job is not known here, or for which there is no record, is admitted all
 * the same and answered when its turn comes: so the origin hears why.
 *
 * A result that is too large for the answer stays in its proxy, which pulling keeps until its home
 * lets go of it.
 */
#include "node/cluster/guest.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "frame/id.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guestjob.h"
#include "node/cluster/outflow.h"
#include "node/cluster/proxy.h"
#include "node/cluster/pulling.h"
#include "node/state.h"

uint32_t node_guest_version(uint64_t run) { return (uint32_t)run != 0 ? (uint32_t)run : 1; }

/* ---- what messages name ---- */

static size_t ids_add(frame_id_t *ids, size_t count, frame_id_t id) {
    if (!frame_id_is_none(id)) ids[count++] = id;
    return count;
}

mob_status_t node_guest_frame_ids(const void *bytes, size_t size, frame_id_t **ret_ids,
                                  size_t *ret_count) {
    frame_t f;
    if (size < NODE_GUEST_HEAD) return MOB_EPROTO;
    mob_status_t status =
        frame_read((const uint8_t *)bytes + NODE_GUEST_HEAD, size - NODE_GUEST_HEAD, &f);
    if (status != MOB_OK) return status;
    frame_id_t *ids = malloc((frame_id_count(&f) + 1) * sizeof *ids);
    size_t count = 0;
    for (size_t i = 0; ids != NULL && i < frame_id_count(&f); i++)
        count = ids_add(ids, count, f.ids[i]);
    if (ids != NULL) count = ids_add(ids, count, f.function);
    frame_fini(&f);
    *ret_ids = ids;
    *ret_count = count;
    return ids != NULL ? MOB_OK : MOB_ENOMEM;
}

/* NULL: no memory. */
static frame_id_t *answer_ids(const frame_done_t *d, size_t *ret_count) {
    size_t most = 0, count = 0;
    for (uint32_t i = 0; i < d->num_values; i++) most += d->values[i].num_refs;
    frame_id_t *ids = malloc((most + 1) * sizeof *ids);
    for (uint32_t i = 0; ids != NULL && i < d->num_values; i++)
        for (uint32_t k = 0; k < d->values[i].num_refs; k++)
            count = ids_add(ids, count, d->values[i].refs[k]);
    *ret_count = count;
    return ids;
}

mob_status_t node_guest_answer_ids(const void *bytes, size_t size, frame_id_t **ret_ids,
                                   size_t *ret_count) {
    frame_done_t done;
    mob_status_t status = frame_done_read(bytes, size, &done);
    if (status != MOB_OK) return status;
    *ret_ids = answer_ids(&done, ret_count);
    frame_done_fini(&done);
    return *ret_ids != NULL ? MOB_OK : MOB_ENOMEM;
}

/* ---- coming ---- */

/* What the frame asks for, or why that can't be. */
static void visit_open(node_cluster_t *c, node_visit_t *v, const frame_t *f) {
    bool has_ended = false;
    base_fail_clear();
    node_job_t *job = node_guestjob_find(c->node, f->job, &has_ended);
    if (job != NULL)
        node_visit_open(v, job, &c->proxies.own, f);
    else if (has_ended)
        node_visit_unfit(v, MOB_ECANCELLED, "its job has ended");
    else
        node_visit_unfit(v, MOB_EINVAL,
                         *mob_last_error() ? mob_last_error() : "its job is not known here");
}

mob_status_t node_guest_admit(void *context, place_guest_t *guest, uint64_t origin,
                              const void *bytes, size_t size, void **ret_task) {
    node_cluster_t *c = context;
    node_peer_t *p = node_placing_peer(c, origin);
    frame_t f;
    if (p == NULL || size < NODE_GUEST_HEAD) return MOB_EPROTO;
    mob_status_t status =
        frame_read((const uint8_t *)bytes + NODE_GUEST_HEAD, size - NODE_GUEST_HEAD, &f);
    if (status != MOB_OK) return status;
    base_reader_t r = {.at = bytes, .left = NODE_GUEST_HEAD};
    uint64_t run = base_take_number(&r, NODE_GUEST_HEAD);
    node_visit_t *v = node_visit_new(p, (frame_id_t){.home = origin, .generation = run}, &f);
    if (v != NULL) {
        v->guest = guest;
        v->version = node_guest_version(run);
        visit_open(c, v, &f);
        *ret_task = v;
    }
    frame_fini(&f);
    return v != NULL ? MOB_OK : MOB_ENOMEM;
}

/* Its references were accounted for when the message came. */
void node_guest_refuse(void *context, uint64_t origin, const void *frame, size_t size) {
    (void)context, (void)origin, (void)frame, (void)size;
}

/* ---- in the scheduler ---- */

void node_guest_queue(void *context, void *task) {
    node_cluster_t *c = context;
    node_visit_begin(task);
    c->node->again = true;
}

bool node_guest_unqueue(void *context, void *task) {
    node_cluster_t *c = context;
    node_t *n = c->node;
    node_visit_t *v = task;
    node_task_t *t = node_visit_task(v);
    if (t == NULL) return false; /* its answer is under way */
    /* What it needs is on its way, and would have to come to another node just as well: it counts
     * as begun. */
    if (t->missing > 0) return false;
    v->may_start = false;
    if (!node_cancel_take(n, t)) {
        v->may_start = true;
        return false;
    }
    sched_task_remove(n->sched, &t->queue);
    sched_lease_release(n->sched, &t->lease);
    n->again = true;
    return true;
}

void node_guest_drop(void *context, void *task) {
    node_cluster_t *c = context;
    node_visit_t *v = task;
    node_task_t *t = node_visit_task(v);
    v->guest = NULL;
    node_outflow_close(v);
    v->end.end = FRAME_REFUSED; /* it has made nothing */
    if (t != NULL)
        node_task_dismiss(c->node, t);
    else if (!v->is_owing)
        node_visit_end(c->node, v);
}

void node_guest_stop(void *context, void *task, uint32_t how) {
    (void)context;
    node_visit_cancel(task, how & PLACE_STOP_FORCE, how & PLACE_STOP_CHILDREN);
}

/* ---- what is free ---- */

static bool is_cpu(const char *name) { return strcmp(name, "CPU") == 0; }

void node_guest_free_amounts(void *context, int64_t *ret_free) {
    node_cluster_t *c = context;
    node_t *n = c->node;
    int64_t spare = node_leases_spare(n, &c->placing.leases_busy);
    size_t count = sched_resource_count(n->sched);
    for (size_t i = 0; i < count && i < PLACE_NAMES_MAX; i++) {
        const char *name;
        uint64_t total;
        int64_t available;
        sched_resource_at(n->sched, i, &name, &total, &available);
        if (is_cpu(name)) available += spare;
        ret_free[i] = node_is_paused(n) ? 0 : available;
    }
}

uint32_t node_guest_fits(void *context, const frame_amount_t *amounts, size_t count,
                         uint32_t most) {
    node_cluster_t *c = context;
    int64_t free[PLACE_NAMES_MAX] = {0};
    node_guest_free_amounts(c, free);
    for (size_t k = 0; k < count; k++) {
        uint64_t fit = 0;
        if (amounts[k].amount == 0) continue; /* a frame of a peer's may say anything */
        for (size_t i = 0; i < sched_resource_count(c->node->sched) && i < PLACE_NAMES_MAX; i++) {
            const char *name;
            uint64_t total;
            int64_t available;
            sched_resource_at(c->node->sched, i, &name, &total, &available);
            if (strcmp(name, amounts[k].name) == 0 && free[i] > 0)
                fit = (uint64_t)free[i] / amounts[k].amount;
        }
        if (fit < most) most = (uint32_t)fit;
    }
    return most;
}

/* ---- a run ---- */

static uint64_t now_ns(void) { return base_clock_mono_ns(); }

void node_placing_begun(node_visit_t *v) {
    node_cluster_t *c = v->peer->node->cluster;
    if (v->guest != NULL && c != NULL && c->placing.place != NULL)
        place_guest_begun(c->placing.place, v->guest, now_ns());
}

void node_placing_blocked(node_visit_t *v, bool is_blocked) {
    node_cluster_t *c = v->peer->node->cluster;
    if (v->guest == NULL || c == NULL || c->placing.place == NULL) return;
    node_placing_enter(c);
    if (is_blocked)
        place_guest_block(c->placing.place, v->guest, now_ns());
    else
        place_guest_unblock(c->placing.place, v->guest, now_ns());
    node_placing_leave(c);
}

/* ---- its end ---- */

bool node_guest_keep(const node_visit_t *v, frame_id_t id, mob_ref_t from,
                     frame_value_t *ret_value) {
    node_t *n = v->peer->node;
    mob_ref_t ref = from;
    const node_object_t *o = node_object_known(n, ref);
    /* One whose proxy has a value from another run went into a slot of its own. It is the proxy's
     * if that value is lost; else the proxy keeps what it has. */
    if ((o == NULL || o->proxy == NULL) && node_proxy_adopt(n, id, from, &ref) == MOB_ENOMEM)
        return false;
    uint64_t bytes = node_pulling_size(n, ref);
    mob_status_t status =
        bytes > 0 ? node_pulling_made(n->cluster, id, v->version, bytes) : MOB_ELOST;
    if (status == MOB_ENOMEM) return false;
    if (status != MOB_OK && status != MOB_EEXISTS) {
        ret_value->error = MOB_ELOST;
        return true;
    }
    ret_value->at = id;
    ret_value->pulled_bytes = bytes;
    return true;
}

bool node_guest_stay(node_visit_t *v, uint32_t index, frame_value_t *ret_value) {
    return node_guest_keep(v, v->results[index], v->here.fresh[index], ret_value);
}

bool node_guest_answer(node_visit_t *v, const uint8_t *body, size_t size) {
    node_cluster_t *c = v->peer->node->cluster;
    node_placing_parcel_t *parcel = &c->placing.parcel;
    if (v->guest == NULL || c->placing.place == NULL) return true; /* nobody waits for it */
    if (c->placing.depth > 0) {
        c->node->again = true;
        return false;
    }
    size_t count;
    frame_id_t *ids = answer_ids(&v->end, &count);
    if (ids == NULL) return false;
    free(parcel->ids);
    *parcel = (node_placing_parcel_t){.body = body, .ids = ids, .count = count};
    node_placing_enter(c);
    place_guest_done(c->placing.place, v->guest, PLACE_OK, body, size, now_ns());
    node_placing_leave(c);
    parcel->body = NULL;
    v->guest = NULL;
    c->node->again = true;
    return true;
}

/* The run gives its slots back: proxies stay as long as they are held. */
void node_guest_settle(node_visit_t *v) { (void)v; }
