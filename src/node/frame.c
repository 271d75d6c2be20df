/*
 * Frames out of records, and into them.
 *
 * Out: the numbers come from the book's private copies, names and arguments from the body, which
 * lies where its submitter could still write; so everything is bounded once more. In: shapes are
 * interned by the names of their resources, ids become slots (other nodes' objects proxies), and
 * the body is the daemon's own.
 *
 * Arguments name references by their places in the record's lists, so their bytes stay as they are.
 */
#include "node/frame.h"

#include <stdlib.h>
#include <string.h>

#include "node/cluster/group_over.h"
#include "node/cluster/guestjob.h"
#include "node/cluster/holding.h"
#include "node/cluster/proxy.h"
#include "node/state.h"

/* ---- out ---- */

static frame_id_t parent_of(const node_t *n, uint64_t entry) {
    if (entry == 0) return (frame_id_t){0};
    return (frame_id_t){
        .home = n->incarnation, .number = wire_entry_index(entry), .generation = entry >> 22};
}

/* Names are borrowed from the scheduler. */
static bool demand_of(const node_task_t *t, uint32_t shape, frame_demand_t *ret_demand) {
    sched_amount_t amounts[SCHED_NEEDS_MAX];
    size_t count = sched_shape_demand(t->job->sched, shape, amounts, SCHED_NEEDS_MAX);
    ret_demand->items = calloc(count + 1, sizeof *ret_demand->items);
    if (ret_demand->items == NULL) return false;
    for (size_t i = 0; i < count; i++)
        ret_demand->items[i] =
            (frame_amount_t){.name = amounts[i].name, .amount = amounts[i].amount};
    ret_demand->count = count;
    return true;
}

static frame_where_t where_of(const node_task_t *t) {
    const sched_where_t *where = sched_shape_where(t->job->sched, t->shape);
    const node_group_t *g = where->group != NULL ? sched_group_user(where->group) : NULL;
    frame_where_t made = {.group = g != NULL ? node_group_id(g) : (frame_id_t){0},
                          .bundle = where->bundle,
                          .flags =
                              where->group != NULL && g == NULL ? NODE_WHERE_REMOVED : where->flags,
                          .priority = where->priority,
                          .selector = where->selector};
    memcpy(made.environment, node_pool_of(t->job, t->shape)->name, sizeof made.environment);
    return made;
}

static mob_status_t frame_make(node_t *n, const node_task_t *t, const wire_record_t *copy,
                               const wire_body_t *body, frame_t *f) {
    *f = (frame_t){
        .kind = t->kind,
        .retries_exceptions = t->retries_exceptions,
        .flows = t->flows,
        .flow_limit = t->flows ? node_flow_limit(n, t->refs[1]) : 0,
        .dynamic = t->dynamic,
        .out_of_order = copy->flags & WIRE_OUT_OF_ORDER,
        .untold = copy->flags & WIRE_UNTOLD,
        .group = copy->group,
        .max_retries = t->retries,
        .limit = t->kind == MOB_TASK ? t->max_calls : copy->max_concurrency,
        .job = node_guestjob_id(t->job),
        .function = node_proxy_id(n, t->function),
        .actor = node_proxy_id(n, copy->actor),
        .parent = parent_of(n, copy->parent),
        .where = where_of(t),
        .num_returns = t->num_returns,
        .num_deps = t->num_deps,
        .num_refs = t->num_refs,
        .name = body->name,
        .name_size = copy->name_size,
        .args = body->args,
        .args_size = body->args_size,
    };
    f->ids = calloc(frame_id_count(f) + 1, sizeof *f->ids);
    if (f->ids == NULL || !demand_of(t, t->shape, &f->demand) ||
        !demand_of(t, t->held_shape, &f->held))
        return MOB_ENOMEM;
    /* a flow's slot is what two ends on one node share: it has no name elsewhere */
    for (uint32_t i = 0; i < (t->flows ? 1 : t->num_returns); i++)
        f->ids[i] = node_proxy_id(n, node_remake_result(t, i));
    for (size_t i = t->num_returns; i < frame_id_count(f); i++)
        f->ids[i] = node_proxy_id(n, t->refs[i]);
    return MOB_OK;
}

mob_status_t node_frame_write(node_t *n, const node_task_t *t, uint8_t **ret_bytes,
                              size_t *ret_size) {
    wire_record_t copy;
    wire_body_t body;
    frame_t frame = {0};
    memcpy(&copy, &n->records[t->record], sizeof copy);
    /* The counts are the book's, and the block where the body was when the book was opened; a body
     * that its submitter changed since makes no sense. */
    copy.num_returns = t->num_returns;
    copy.num_deps = t->num_deps;
    copy.num_refs = t->num_refs;
    uint32_t owner = t->block / SHM_GRANULE < n->config.store_bytes / SHM_GRANULE
                         ? n->books.owner[t->block / SHM_GRANULE]
                         : 0;
    if (copy.block != t->block || copy.kind != t->kind ||
        !node_record_split(n, owner, &copy, &body))
        return MOB_EPROTO;
    mob_status_t status = frame_make(n, t, &copy, &body, &frame);
    if (status == MOB_OK) status = frame_write(&frame, ret_bytes, ret_size);
    frame_fini(&frame);
    return status;
}

/* ---- in ---- */

mob_ref_t node_frame_ref(node_t *n, frame_id_t id) {
    if (id.home != n->incarnation) return node_proxy_get(n, id);
    mob_ref_t ref = node_proxy_find(n, id);
    if (ref.slot != 0) node_holding_named(n, ref);
    return ref;
}

/* A group that is not known here is one that was removed: a task comes here for a bundle that it
 * has. */
static sched_where_t where_read(const node_job_t *job, const frame_where_t *given) {
    node_t *n = job->node;
    sched_where_t where = {.bundle = given->bundle,
                           .flags = given->flags,
                           .priority = given->priority,
                           .tag = node_environment_find(job, given->environment)};
    if (given->selector[0] != 0) where.selector = given->selector;
    if (given->group.home == 0) return where;
    const node_group_t *g = node_group_known(n, given->group);
    if (g == NULL)
        return (sched_where_t){.bundle = -1, .flags = NODE_WHERE_REMOVED, .tag = where.tag};
    where.group = g->sched;
    return where;
}

static mob_status_t shape_of(node_job_t *job, const frame_demand_t *demand,
                             const frame_where_t *given, uint32_t *ret_shape) {
    static const uint8_t none[FRAME_ENVIRONMENT];
    sched_where_t where = where_read(job, given);
    if (where.tag == 0 && memcmp(given->environment, none, sizeof none) != 0)
        return base_fail(MOB_EPROTO, "the task names a runtime environment that its job has not");
    sched_amount_t amounts[SCHED_NEEDS_MAX];
    for (size_t i = 0; i < demand->count; i++)
        amounts[i] =
            (sched_amount_t){.name = demand->items[i].name, .amount = demand->items[i].amount};
    return sched_shape_intern_at(job->sched, amounts, demand->count, &where, ret_shape);
}

/* Writes the body where it fits. */
static mob_status_t body_write(node_t *n, const frame_t *f, const mob_ref_t *returns,
                               wire_record_t *record, uint32_t index, uint64_t generation,
                               uint64_t *ret_block) {
    uint64_t size =
        wire_body_size(f->num_returns, f->num_deps, f->num_refs, f->name_size, f->args_size);
    uint8_t *body = record->body;
    uint64_t block = 0;
    if (size > WIRE_RECORD_BODY) {
        mob_status_t status =
            shm_heap_alloc(&n->heap, size, shm_tag(true, index, generation), &block);
        if (status != MOB_OK) return status;
        body = n->arena.base + block;
    }
    for (size_t i = 0; i < frame_id_count(f); i++) {
        mob_ref_t ref = i < f->num_returns ? returns[i] : node_frame_ref(n, f->ids[i]);
        memcpy(body, &ref, sizeof ref);
        body += sizeof ref;
    }
    if (f->name_size > 0) memcpy(body, f->name, f->name_size);
    if (f->args_size > 0) memcpy(body + f->name_size, f->args, f->args_size);
    record->block = *ret_block = block;
    record->body_size = size;
    return MOB_OK;
}

mob_status_t node_frame_fill(node_job_t *job, const frame_t *f, const mob_ref_t *returns,
                             uint32_t index, uint64_t generation, node_filled_t *ret_filled) {
    node_t *n = job->node;
    wire_record_t *record = &n->records[index];
    uint32_t shape, held;
    uint64_t block;
    mob_status_t status = shape_of(job, &f->demand, &f->where, &shape);
    if (status != MOB_OK) return status;
    status = shape_of(job, &f->held, &f->where, &held);
    if (status != MOB_OK) {
        sched_shape_drop(job->sched, shape);
        return status;
    }
    status = body_write(n, f, returns, record, index, generation, &block);
    if (status != MOB_OK) {
        sched_shape_drop(job->sched, shape);
        sched_shape_drop(job->sched, held);
        return status;
    }
    record->kind = f->kind;
    record->flags =
        (uint8_t)((f->retries_exceptions ? WIRE_RETRY_EXCEPTIONS : 0) |
                  (f->out_of_order ? WIRE_OUT_OF_ORDER : 0) | (f->untold ? WIRE_UNTOLD : 0) |
                  (f->flows ? WIRE_FLOWS : 0) | (f->dynamic ? WIRE_DYNAMIC : 0));
    record->group = f->group;
    record->name_size = (uint8_t)f->name_size;
    record->shape = shape;
    record->held_shape = held;
    record->max_retries = f->max_retries;
    record->num_returns = f->num_returns;
    record->num_deps = f->num_deps;
    record->num_refs = f->num_refs;
    record->max_calls = f->limit;
    record->function = node_frame_ref(n, f->function);
    record->actor = node_frame_ref(n, f->actor);
    record->parent =
        f->parent.home == n->incarnation ? wire_entry(f->parent.number, f->parent.generation) : 0;
    record->start_ns = record->end_ns = 0;
    *ret_filled = (node_filled_t){.block = block, .shape = shape, .held_shape = held};
    return MOB_OK;
}

/* ---- loopback ---- */

/* The record as the frame says, and the book with it. */
static mob_status_t loop_in(node_t *n, node_task_t *t, const uint8_t *bytes, size_t size) {
    frame_t frame;
    node_filled_t filled;
    wire_record_t *record = &n->records[t->record];
    mob_status_t status = frame_read(bytes, size, &frame);
    if (status != MOB_OK) return status;
    /* so that nothing of it can be left over */
    memset((char *)record + offsetof(wire_record_t, block), 0xaa,
           sizeof *record - offsetof(wire_record_t, block));
    status = node_frame_fill(t->job, &frame, t->refs, t->record, t->generation, &filled);
    frame_fini(&frame);
    if (status != MOB_OK) return status;
    if (t->block != 0)
        shm_block_release(n->arena.base, n->extents, t->block,
                          shm_tag(true, t->record, t->generation));
    sched_shape_drop(t->job->sched, t->shape);
    sched_shape_drop(t->job->sched, t->held_shape);
    t->block = filled.block;
    t->shape = filled.shape;
    t->held_shape = filled.held_shape;
    return MOB_OK;
}

mob_status_t node_frame_loop(node_t *n, node_task_t *t) {
    uint8_t *bytes;
    size_t size;
    mob_status_t status = node_frame_write(n, t, &bytes, &size);
    if (status != MOB_OK) return status;
    status = loop_in(n, t, bytes, size);
    free(bytes);
    return status;
}
