/*
 * Visits: a peer's tasks, run here.
 *
 *   begun     the frame is a record and result slots under the peer's number: the peer is the
 *             submitter. From here it goes the way of any task: arguments, scheduler, worker
 *   ended     dismissed as any task. Then the one answer is sent (DONE), and what the frame named
 *             is dropped, in this order
 *   stayed    a result that is too large for a message stays here, until the peer drops it
 *
 * A visit never counts retries. If its worker dies before it begins, another worker gets it, as
 * ever; after that the peer is told. Whether the run had begun is known here alone, by the record's
 * word.
 */
#include "node/visit.h"

#include <stdlib.h>
#include <string.h>

#include "node/cluster/outflow.h"
#include "node/cluster/pulling.h"
#include "node/state.h"
#include "node/value.h"

enum { AGAIN_MS = 10 };

/* ---- its answer ---- */

/* What the value contains, as ids, which the peer holds from now on. */
static bool refs_write(node_visit_t *v, const node_object_t *o, frame_value_t *ret_value) {
    node_peer_t *p = v->peer;
    size_t count = o->contents.count;
    ret_value->refs = calloc(count + 1, sizeof *ret_value->refs);
    if (ret_value->refs == NULL) return false;
    for (; ret_value->num_refs < count; ret_value->num_refs++) {
        mob_ref_t ref = o->contents.items[ret_value->num_refs];
        if (!p->way->give(p, ref)) return false;
        ret_value->refs[ret_value->num_refs] = node_proxy_id(p->node, ref);
    }
    return true;
}

/* A value that makes no sense is an error from now on. */
static void value_check(node_t *n, mob_ref_t ref) {
    node_value_t found;
    if (node_value_read(n, ref, &found)) return;
    node_slot_write_error(n, ref, MOB_ELOST, "the value that the worker gave makes no sense", NULL);
    (void)store_slot_seal(&n->slots[ref.slot], false);
}

/* A small value is borrowed from its slot. False: no memory. */
static bool value_write(node_visit_t *v, uint32_t index, frame_value_t *ret_value) {
    node_t *n = v->peer->node;
    mob_ref_t ref = v->here.fresh[index];
    node_value_t found;
    value_check(n, ref);
    const node_object_t *o = node_object_known(n, ref);
    if (o == NULL || !node_value_read(n, ref, &found)) return false;
    uint64_t size = store_meta_size(found.meta);
    bool is_inline = store_meta_inline(found.meta);
    bool small = is_inline || (!store_meta_in_file(found.meta) && size <= FRAME_VALUE_MOST &&
                               found.ref_count <= FRAME_VALUE_MOST / MOB_ID_SIZE);
    ret_value->format = (uint8_t)store_meta_format(found.meta);
    ret_value->error = (uint8_t)store_meta_error(found.meta);
    /* without the daemon's copy of what is inside, the value can only be moved as it is */
    if (!small || (!is_inline && found.ref_count != o->contents.count)) {
        ret_value->stayed_bytes = size;
        return v->peer->way->stay(v, index, ret_value) &&
               (o->contents.count == 0 || refs_write(v, o, ret_value));
    }
    ret_value->size = size;
    ret_value->bytes = is_inline ? n->slots[ref.slot].value.small : n->arena.base + found.block;
    return is_inline || found.ref_count == 0 || refs_write(v, o, ret_value);
}

static bool values_write(node_visit_t *v) {
    frame_done_t *d = &v->end;
    uint32_t count = v->outflow != NULL ? 1 : v->here.num_returns; /* a flow's slot stays here */
    d->values = calloc((size_t)count + 1, sizeof *d->values);
    if (d->values == NULL) return false;
    for (; d->num_values < count; d->num_values++)
        if (!value_write(v, d->num_values, &d->values[d->num_values])) {
            d->num_values++; /* so that what it holds is undone */
            return false;
        }
    return true;
}

/* Nothing was sent: nothing is held for it. */
static void values_undo(node_visit_t *v) {
    for (uint32_t i = 0; i < v->end.num_values; i++)
        for (uint32_t k = 0; k < v->end.values[i].num_refs; k++)
            v->peer->way->ungive(v->peer, node_frame_ref(v->peer->node, v->end.values[i].refs[k]));
}

static void visit_free(node_visit_t *v) {
    v->peer->visit_count--;
    if (v->outflow != NULL) node_outflow_free(v);
    free(v->named);
    free(v->results);
    free(v->text);
    free(v);
}

/* False: not now; nothing has changed. */
static bool visit_answer(node_visit_t *v) {
    node_peer_t *p = v->peer;
    uint8_t *body;
    size_t size;
    if (v->outflow != NULL && !node_outflow_is_over(v)) return false;
    bool said = v->end.end != FRAME_RESULTS || values_write(v);
    if (said && frame_done_write(&v->end, &body, &size) == MOB_OK) {
        said = p->way->answer(v, body, size);
        free(body);
    } else {
        said = false;
    }
    if (said) {
        p->way->settle(v);
        node_run_fini(p->node, &v->here);
    } else {
        values_undo(v);
    }
    frame_done_fini(&v->end);
    v->end.values = NULL;
    v->end.num_values = 0;
    return said;
}

static void visit_close(node_visit_t *v) {
    if (visit_answer(v)) {
        visit_free(v);
        return;
    }
    v->next = v->peer->owing;
    v->peer->owing = v;
    v->is_owing = true;
    node_look_again(v->peer->node, AGAIN_MS);
}

void node_visits_answer(node_peer_t *p) {
    node_visit_t *v = p->owing;
    p->owing = NULL;
    while (v != NULL) {
        node_visit_t *next = v->next;
        v->is_owing = false;
        visit_close(v);
        v = next;
    }
}

void node_visit_end(node_t *n, node_visit_t *v) {
    (void)n;
    visit_close(v);
}

static void text_set(node_visit_t *v, const char *text, size_t size) {
    if (size > FRAME_TEXT_MOST) size = FRAME_TEXT_MOST;
    v->text = strndup(text, size); /* without memory: no words */
    v->end.text = v->text;
    v->end.text_size = v->text != NULL ? strlen(v->text) : 0;
}

void node_visit_died(node_t *n, node_task_t *t, const node_death_t *death) {
    node_visit_t *v = t->visit;
    v->end = (frame_done_t){.end = FRAME_DIED,
                            .begun = death->begun,
                            .oom = death->oom,
                            .oom_again = death->oom_again,
                            .pid = death->pid};
    text_set(v, death->how, strlen(death->how));
    node_task_dismiss(n, t);
}

void node_visit_raised(node_t *n, node_task_t *t, const char *why, size_t size) {
    t->visit->end = (frame_done_t){.end = FRAME_RAISED, .begun = true};
    text_set(t->visit, why, size);
    node_task_dismiss(n, t);
}

void node_visit_cancelled(node_t *n, node_task_t *t, bool begun) {
    t->visit->end = (frame_done_t){.end = FRAME_CANCELLED, .begun = begun};
    node_task_dismiss(n, t);
}

/* ---- its beginning ---- */

/* What the frame names: results, and what is to be dropped at the end. False: no memory. */
static bool names_keep(node_visit_t *v, const frame_t *f) {
    v->named = malloc(((size_t)f->num_deps + f->num_refs + 1) * sizeof *v->named);
    v->results = malloc(((size_t)f->num_returns + 1) * sizeof *v->results);
    if (v->named == NULL || v->results == NULL) return false;
    if (f->num_returns > 0) memcpy(v->results, f->ids, f->num_returns * sizeof *v->results);
    v->named[v->num_named++] = f->function;
    for (size_t i = f->num_returns; i < frame_id_count(f); i++)
        v->named[v->num_named++] = f->ids[i];
    return true;
}

node_visit_t *node_visit_new(node_peer_t *p, frame_id_t run, const frame_t *f) {
    node_visit_t *v = calloc(1, sizeof *v);
    if (v == NULL) return NULL;
    v->peer = p;
    p->visit_count++;
    v->run = run;
    v->here.record = UINT32_MAX;
    v->end.end = FRAME_RESULTS;
    if (names_keep(v, f)) return v;
    visit_free(v);
    return NULL;
}

void node_visit_unfit(node_visit_t *v, mob_status_t status, const char *why) {
    v->end = (frame_done_t){.end = FRAME_REFUSED, .status = (uint8_t)status};
    text_set(v, why, strlen(why));
}

void node_visit_refuse(node_visit_t *v, mob_status_t status, const char *why) {
    node_visit_unfit(v, status, why);
    visit_close(v);
}

/* Items go to other nodes, and by the name of the first result. */
static bool may_flow(const node_visit_t *v, const frame_t *f) {
    bool is_far = v->guest != NULL || v->call != 0;
    return is_far && f->num_returns == 2 && v->results[0].home == v->run.home;
}

void node_visit_open(node_visit_t *v, node_job_t *job, node_own_t *own, const frame_t *f) {
    node_task_t *t;
    if (f->kind != (v->call != 0 ? MOB_ACTOR_CALL : MOB_TASK) || (f->flows && !may_flow(v, f))) {
        node_visit_unfit(v, MOB_EINVAL, "this node takes no such tasks");
        return;
    }
    if (job == NULL) {
        node_visit_unfit(v, MOB_ECANCELLED, "its job has ended");
        return;
    }
    mob_status_t status = f->flows ? node_outflow_new(v) : MOB_OK;
    if (status == MOB_OK) status = node_run_init(job, own, f, &v->here, &t);
    if (status != MOB_OK) {
        node_visit_unfit(v, status, mob_status_text(status));
        return;
    }
    t->visit = v;
    if (f->flows) node_outflow_open(v, f->flow_limit);
}

void node_visit_begin(node_visit_t *v) {
    node_task_t *t = node_visit_task(v);
    v->may_start = true;
    if (t == NULL)
        visit_close(v);
    else if (t->missing == 0)
        node_task_ready(t, v->peer->node);
}

bool node_visit_may_start(node_task_t *t) {
    node_visit_t *v = t->visit;
    if (!v->may_start) return false;
    if (!v->has_fetched) node_pulling_arguments(t);
    v->has_fetched = true;
    return t->missing == 0;
}

/* ---- orders ---- */

node_task_t *node_visit_task(const node_visit_t *v) {
    return v->here.record != UINT32_MAX ? v->peer->node->tasks[v->here.record] : NULL;
}

void node_visit_cancel(node_visit_t *v, bool force, bool recursive) {
    const node_task_t *t = node_visit_task(v);
    if (t != NULL) node_cancel_record(v->peer->node, t->record, t->generation, force, recursive);
}

void node_visit_recall(node_visit_t *v) {
    node_task_t *t = node_visit_task(v);
    if (t == NULL || !node_cancel_take(v->peer->node, t)) return;
    v->end = (frame_done_t){.end = FRAME_REFUSED, .status = MOB_ECANCELLED};
    node_task_dismiss(v->peer->node, t);
}
