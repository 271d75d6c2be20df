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

/* Answers with a shape, or with the words of why it can't be had. */
static void demand_answer(node_client_t *c, const sched_amount_t *demand, uint32_t count) {
    uint32_t shape = 0;
    base_fail_clear();
    mob_status_t status = sched_shape_intern(c->job->sched, demand, count, &shape);
    if (status == MOB_OK && hold_note(c, shape)) {
        node_client_tell(c, wire_answer(MOB_OK, shape));
        return;
    }
    if (status == MOB_OK) {
        sched_shape_drop(c->job->sched, shape);
        status = MOB_ENOMEM;
    }
    const char *why = *mob_last_error() ? mob_last_error() : mob_status_text(status);
    size_t size = strnlen(why, SHM_SCRATCH_BYTES);
    memcpy(c->segment.base + SHM_CLIENT_SCRATCH, why, size);
    node_client_tell(c, wire_answer(status, size));
}

/* A demand: for each resource 8 bytes of amount and a name with its zero. */
void node_shape(node_client_t *c, const wire_message_t *m) {
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
    size_t at = 0;
    uint32_t count = 0;
    while (count < m->shape.resources && at + sizeof(uint64_t) < m->shape.size) {
        memcpy(&demand[count].amount, copy + at, sizeof(uint64_t));
        demand[count].name = copy + at + sizeof(uint64_t);
        at += sizeof(uint64_t) + strlen(demand[count].name) + 1;
        count++;
    }
    if (count == m->shape.resources)
        demand_answer(c, demand, count);
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

void node_warn_if_never(node_job_t *job, uint32_t shape, mob_kind_t kind, const char *name) {
    enum { TOLD = 8 };
    sched_amount_t missing[TOLD];
    uint64_t totals[TOLD];
    if (sched_shape_fits_ever(job->sched, shape) || !warning_note(&job->shapes, shape)) return;
    size_t count = sched_shape_lacks(job->sched, shape, missing, totals, TOLD), at = 0;
    char needs[600] = "", asked[32], total[32];
    for (size_t i = 0; i < count && i < TOLD && at < sizeof needs; i++) {
        amount_text((double)missing[i].amount / SCHED_UNIT, asked, sizeof asked);
        amount_text((double)totals[i] / SCHED_UNIT, total, sizeof total);
        at +=
            (size_t)snprintf(needs + at, sizeof needs - at, "%s%s: %s, but this node has %s in all",
                             i > 0 ? "; " : "", missing[i].name, asked, total);
    }
    node_job_warn(job, "%s %s needs %s%s. It waits until that changes; until then it can't start.",
                  kind == MOB_ACTOR_CREATE ? "The actor" : "The task", name, needs,
                  count > TOLD ? "; and more" : "");
}
