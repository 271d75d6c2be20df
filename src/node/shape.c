/*
 * Shapes: the demands of clients for resources, as numbers (sched/sched.h).
 *
 * A client holds a shape from the daemon's answer until it says WIRE_SHAPE_DROP, or dies; it may
 * ask for the same shape several times. A task's book holds the shapes that the task asks for. A
 * client that drops a shape has named the tasks that need it on the same ring before, so their
 * books are open by then. Tasks in a lane have no book, so a lane holds its shape for ever.
 */
#include <string.h>

#include "node/state.h"

/* Counts one hold more; false without memory. */
static bool hold_note(node_client_t *c, uint32_t shape) {
    uint32_t place = sched_shape_place(shape);
    while (c->shapes.count <= place)
        if (!vec_push(&c->shapes, (node_hold_t){0})) return false;
    c->shapes.items[place].shape = shape;
    c->shapes.items[place].count++;
    return true;
}

void node_shape_hold(node_client_t *c, uint32_t shape) {
    if (hold_note(c, shape)) sched_shape_hold(c->job->sched, shape);
}

/* Answers with a shape, or with the words of why it can't be had. */
static void demand_answer(node_client_t *c, const sched_amount_t *demand, uint32_t count,
                          const sched_where_t *where) {
    uint32_t shape = 0;
    base_fail_clear();
    mob_status_t status = sched_shape_intern_at(c->job->sched, demand, count, where, &shape);
    if (status == MOB_OK && hold_note(c, shape)) {
        node_client_tell(c, wire_answer(MOB_OK, shape));
        return;
    }
    if (status == MOB_OK) {
        sched_shape_drop(c->job->sched, shape);
        status = MOB_ENOMEM;
    }
    node_question_refuse(c, status);
}

/* Where the demand is to be met; *ret_size: how many bytes say so. False: it makes no sense. */
static bool where_read(node_client_t *c, const char *copy, size_t size, sched_where_t *where,
                       mob_ref_t *ret_group, size_t *ret_size) {
    wire_where_t head;
    if (size < sizeof head) return false;
    memcpy(&head, copy, sizeof head);
    *where = (sched_where_t){.bundle = head.bundle,
                             .flags = head.flags & (MOB_WHERE_CAPTURES | MOB_WHERE_SPREAD),
                             .tag = head.environment,
                             .priority = head.priority};
    *ret_size = sizeof head + head.selector_size;
    if (head.selector_size > size - sizeof head || head.environment >= c->job->pools.count)
        return false;
    if (head.selector_size > 0) {
        where->selector = copy + sizeof head;
        if (where->selector[head.selector_size - 1] != 0) return false;
    }
    if (head.slot == 0) return head.bundle == -1;
    *ret_group = (mob_ref_t){.slot = head.slot, .generation = head.generation};
    const node_group_t *g = node_group_find(c->node, *ret_group);
    if (g != NULL)
        where->group = g->sched;
    else
        *where = (sched_where_t){.bundle = -1, .flags = NODE_WHERE_REMOVED};
    return true;
}

/* A demand: where it is to be met, then for each resource 8 bytes of amount and a name with its
 * zero. */
void node_shape(node_client_t *c, const wire_message_t *m, bool settled) {
    uint8_t *space = node_question_space(c, m);
    if (space == NULL) return;
    if (m->shape.size > m->shape.capacity || m->shape.size > WIRE_SHAPE_BYTES ||
        m->shape.resources > SCHED_NEEDS_MAX) {
        node_client_fault(c, "asked for a shape that makes no sense");
        return;
    }
    char copy[WIRE_SHAPE_BYTES + 1];
    memcpy(copy, space, m->shape.size);
    copy[m->shape.size] = 0;
    sched_amount_t demand[SCHED_NEEDS_MAX];
    sched_where_t where;
    size_t at = 0;
    uint32_t count = 0;
    mob_ref_t group = {0};
    bool whole = where_read(c, copy, m->shape.size, &where, &group, &at);
    if (whole && !settled && node_group_early(c, group, m)) return;
    while (whole && count < m->shape.resources && at + sizeof(uint64_t) < m->shape.size) {
        memcpy(&demand[count].amount, copy + at, sizeof(uint64_t));
        demand[count].name = copy + at + sizeof(uint64_t);
        at += sizeof(uint64_t) + strlen(demand[count].name) + 1;
        count++;
    }
    if (whole && count == m->shape.resources)
        demand_answer(c, demand, count, &where);
    else
        node_client_fault(c, "asked for a shape that makes no sense");
}

void node_shape_drop(node_client_t *c, uint32_t shape) {
    uint32_t place = sched_shape_place(shape);
    node_hold_t *hold = place < c->shapes.count ? &c->shapes.items[place] : NULL;
    if (hold == NULL || hold->count == 0 || hold->shape != shape) {
        node_client_fault(c, "dropped a shape that it does not hold");
        return;
    }
    hold->count--;
    sched_shape_drop(c->job->sched, shape);
}

void node_shapes_forget(node_client_t *c) {
    for (size_t i = 0; i < c->shapes.count; i++)
        for (node_hold_t *hold = &c->shapes.items[i]; hold->count > 0; hold->count--)
            sched_shape_drop(c->job->sched, hold->shape);
    vec_free(&c->shapes);
}

/* Notes that the driver was told; false if that was so already. */
static bool warning_note(node_shapes_t *shapes, uint32_t shape) {
    uint32_t place = sched_shape_place(shape);
    while (shapes->warned.count <= place)
        if (!vec_push(&shapes->warned, MOB_SHAPE_NOTHING)) return true;
    bool told = shapes->warned.items[place] == shape;
    shapes->warned.items[place] = shape;
    return !told;
}

/* Bytes without an exponent, fractions without noise. */
static void amount_text(double amount, char *ret_text, size_t size) {
    snprintf(ret_text, size, amount < 1e15 && amount == (double)(uint64_t)amount ? "%.0f" : "%g",
             amount);
}

bool node_lacks_text(const sched_job_t *job, uint32_t shape, char *ret_text, size_t size) {
    enum { TOLD = 8 };
    sched_amount_t missing[TOLD];
    uint64_t totals[TOLD];
    size_t count = sched_shape_lacks(job, shape, missing, totals, TOLD), at = 0;
    char asked[32], total[32];
    ret_text[0] = 0;
    for (size_t i = 0; i < count && i < TOLD && at < size; i++) {
        amount_text((double)missing[i].amount / SCHED_UNIT, asked, sizeof asked);
        amount_text((double)totals[i] / SCHED_UNIT, total, sizeof total);
        at += (size_t)snprintf(ret_text + at, size - at, "%s%s: %s, but this node has %s in all",
                               i > 0 ? "; " : "", missing[i].name, asked, total);
    }
    if (count > TOLD && at < size) snprintf(ret_text + at, size - at, "; and more");
    return count > 0;
}

/* What keeps a demand from ever being met. */
static void never_text(const node_job_t *job, uint32_t shape, char *ret_text, size_t size) {
    const sched_where_t *where = sched_shape_where(job->sched, shape);
    const char *labels = sched_labels(job->node->sched);
    if (where->group != NULL)
        snprintf(ret_text, size, "more than a bundle of its placement group has");
    else if (!sched_shape_matches(job->sched, shape))
        snprintf(ret_text, size, "a node with the labels %s, but this node has %s", where->selector,
                 labels != NULL ? labels : "none");
    else
        (void)node_lacks_text(job->sched, shape, ret_text, size);
    if (where->group == NULL && node_offer_fits_elsewhere(job, shape))
        snprintf(ret_text + strlen(ret_text), size - strlen(ret_text),
                 " (another node has it, but this runs on the node where it was submitted)");
}

void node_warn_if_never(node_job_t *job, uint32_t shape, mob_kind_t kind, const char *name) {
    char needs[700];
    if (sched_shape_fits_ever(job->sched, shape) || !warning_note(&job->shapes, shape)) return;
    never_text(job, shape, needs, sizeof needs);
    node_job_warn(job, "%s %s needs %s. It waits until that changes; until then it can't start.",
                  kind == MOB_ACTOR_CREATE ? "The actor" : "The task", name, needs);
}
