/* Answers to clients' questions, written in the direct encoding into a block of the asker's. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/cluster/group_over.h"
#include "node/demand.h"
#include "node/inbox.h"
#include "node/listing.h"
#include "node/state.h"
#include "wire/direct.h"

static const uint64_t PATIENCE_NS = 2000000000; /* a busy machine may keep a worker from a CPU */
enum { ANSWER_PIECE = 32 * 1024 };

static void question_answer(node_client_t *c, const wire_message_t *m);

static void write_resources(node_t *n, wire_writer_t *w) {
    size_t count = sched_resource_count(n->sched);
    wire_write_tuple(w, (uint32_t)count + 1);
    for (size_t i = 0; i < count; i++) {
        const char *name;
        uint64_t total;
        int64_t available;
        sched_resource_at(n->sched, i, &name, &total, &available);
        wire_write_tuple(w, 3);
        wire_write_str(w, name, strlen(name));
        wire_write_float(w, (double)total / SCHED_UNIT);
        wire_write_float(w, (double)(available < 0 ? 0 : available) / SCHED_UNIT);
    }
    wire_write_tuple(w, 3);
    wire_write_str(w, "object_store_memory", 19);
    wire_write_float(w, (double)n->config.store_bytes);
    wire_write_float(w, (double)node_extents_free_bytes(n));
}

static void write_events(node_t *n, wire_writer_t *w) {
    size_t count = control_event_count(n->control);
    wire_write_tuple(w, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const control_event_t *e = control_event_at(n->control, i);
        wire_write_tuple(w, 6);
        wire_write_str(w, e->name, strnlen(e->name, sizeof e->name));
        wire_write_int(w, e->kind);
        wire_write_int(w, e->pid);
        wire_write_int(w, e->worker);
        wire_write_int(w, (int64_t)e->start_ns);
        wire_write_int(w, (int64_t)e->end_ns);
    }
}

static void write_jobs(node_t *n, wire_writer_t *w) {
    size_t count = control_job_count(n->control);
    wire_write_tuple(w, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const control_job_t *j = control_job_at(n->control, i);
        wire_write_tuple(w, 8);
        wire_write_int(w, j->number);
        wire_write_int(w, j->pid);
        wire_write_int(w, (int64_t)j->start_ms);
        wire_write_int(w, (int64_t)j->end_ms);
        wire_write_bool(w, j->is_detached);
        wire_write_bool(w, j->failed);
        wire_write_str(w, j->name_space, strlen(j->name_space));
        wire_write_str(w, j->entrypoint, strlen(j->entrypoint));
    }
}

static void write_shape(const node_job_t *job, wire_writer_t *w, uint64_t shape) {
    sched_amount_t demand[SCHED_NEEDS_MAX];
    size_t count =
        job != NULL && shape <= UINT32_MAX && sched_shape_valid(job->sched, (uint32_t)shape)
            ? sched_shape_demand(job->sched, (uint32_t)shape, demand, SCHED_NEEDS_MAX)
            : 0;
    wire_write_tuple(w, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        wire_write_tuple(w, 2);
        wire_write_str(w, demand[i].name, strlen(demand[i].name));
        wire_write_float(w, (double)demand[i].amount / SCHED_UNIT);
    }
}

uint8_t *node_question_space(node_client_t *c, const wire_message_t *m) {
    if (m->query.block == 0 && m->query.capacity <= SHM_SCRATCH_BYTES)
        return c->segment.base + SHM_CLIENT_SCRATCH;
    if (m->query.block != 0 &&
        node_extent_owned(c->node, c->number, m->query.block, m->query.capacity))
        return c->node->arena.base + m->query.block;
    node_client_fault(c, "asked with memory that is not its own");
    return NULL;
}

void node_question_refuse(node_client_t *c, mob_status_t status) {
    const char *why = *mob_last_error() ? mob_last_error() : mob_status_text(status);
    size_t size = strnlen(why, SHM_SCRATCH_BYTES);
    memcpy(c->segment.base + SHM_CLIENT_SCRATCH, why, size);
    node_client_tell(c, wire_answer(status, size));
}

void node_questions_answer(node_t *n) {
    size_t leased = n->questions.count > 0 ? node_leases_due(n) : 0;
    bool due = n->questions.count > 0 && (leased > 0 || node_workers_due(n, true) > 0);
    for (size_t i = n->questions.count; i-- > 0;) {
        node_question_t q = n->questions.items[i];
        if (q.round == n->round) {
            n->again = true;
            continue;
        }
        if (due && base_clock_mono_ns() - q.asked_ns < PATIENCE_NS) {
            /* Unless a worker's message, or its end, wakes the daemon before. Workers with a lease
             * send no message. */
            node_look_again(n, leased > 0 ? 1 : PATIENCE_NS / 1000000 + 1);
            continue;
        }
        vec_swap_remove(&n->questions, i);
        node_client_t *c = n->clients[q.client];
        if (c != NULL && c->state == NODE_LIVE) question_answer(c, &q.message);
    }
}

void node_questions_forget(node_client_t *c) {
    node_questions_t *questions = &c->node->questions;
    for (size_t i = questions->count; i-- > 0;)
        if (questions->items[i].client == c->number) vec_swap_remove(questions, i);
}

/* An answer must know of every task whose result the asker can have seen. So the daemon gives it
 * when it has read every ring once more, and when the workers that are about to tell it something
 * have done so. */
void node_query(node_client_t *c, const wire_message_t *m) {
    if (m->query.what == MOB_QUERY_NAMES) {
        if (node_question_space(c, m) != NULL) node_listing_ask(c, m);
        return;
    }
    node_question_t q = {.client = c->number,
                         .asked_ns = base_clock_mono_ns(),
                         .round = c->node->round,
                         .message = *m};
    if (node_question_space(c, m) != NULL && !vec_push(&c->node->questions, q))
        question_answer(c, m);
}

/* Of its group, if it is met in one. */
static void write_where(const node_job_t *job, wire_writer_t *w, uint64_t shape) {
    bool valid =
        job != NULL && shape <= UINT32_MAX && sched_shape_valid(job->sched, (uint32_t)shape);
    const sched_where_t *where =
        valid ? sched_shape_where(job->sched, (uint32_t)shape) : &(sched_where_t){0};
    const node_group_t *g = where->group != NULL ? sched_group_user(where->group) : NULL;
    wire_write_tuple(w, g != NULL ? 3 : 0);
    if (g == NULL) return;
    char id[2 * MOB_ID_SIZE + 1];
    node_group_id_text(g, id);
    wire_write_str(w, id, strlen(id));
    wire_write_int(w, where->bundle);
    wire_write_int(w, where->flags);
}

/* False: there is no such question. */
static bool answer_write(node_client_t *asker, uint32_t query, uint64_t argument,
                         wire_writer_t *w) {
    node_t *n = asker->node;
    char text[1024];
    switch (query) {
    case MOB_QUERY_RESOURCES:
        node_leases_take_free(n); /* what nobody uses is available */
        write_resources(n, w);
        return true;
    case MOB_QUERY_EVENTS:
        for (uint32_t i = 1; i < n->client_next; i++)
            if (n->clients[i] != NULL) node_events_read(n->clients[i]);
        write_events(n, w);
        return true;
    case MOB_QUERY_ACTORS:
        node_listing_write(n, w); /* for who looks from outside, at this node */
        return true;
    case MOB_QUERY_SHAPE:
        write_shape(asker->job, w, argument);
        return true;
    case MOB_QUERY_SPACE:
        node_space_text(n, argument, text, sizeof text);
        wire_write_str(w, text, strlen(text));
        return true;
    case MOB_QUERY_DEADLOCK:
        wire_write_str(w, n->deadlock.text, strlen(n->deadlock.text));
        return true;
    case MOB_QUERY_OBJECTS:
        node_census_write(n, argument, w);
        return true;
    case MOB_QUERY_JOBS:
        write_jobs(n, w);
        return true;
    case MOB_QUERY_TASK:
        node_replay_write(asker, argument, w);
        return true;
    case MOB_QUERY_KEPT:
        node_kv_write(n, w);
        return true;
    case MOB_QUERY_GROUPS:
        node_groups_write(n, argument, w);
        return true;
    case MOB_QUERY_WHERE:
        write_where(asker->job, w, argument);
        return true;
    case MOB_QUERY_LABELS: {
        const char *labels = sched_labels(n->sched);
        wire_write_str(w, labels ? labels : "", labels ? strlen(labels) : 0);
        return true;
    }
    case MOB_QUERY_NODES:
        node_leases_take_free(n);
        node_roster_write(n, w);
        return true;
    case MOB_QUERY_DEMANDS:
        node_demands_write(n, w);
        return true;
    default:
        return false;
    }
}

static void question_answer(node_client_t *c, const wire_message_t *m) {
    uint8_t *space = node_question_space(c, m);
    if (space == NULL) return;
    if (m->query.what == MOB_QUERY_ACTORS) {
        node_listing_ask(c, m);
        return;
    }
    wire_writer_t w = {.data = space, .capacity = m->query.capacity};
    if (!answer_write(c, m->query.what, m->query.argument, &w))
        node_client_tell(c, wire_answer(MOB_EINVAL, 0));
    else
        node_client_tell(c, wire_answer(w.size > w.capacity ? MOB_ELIMIT : MOB_OK, w.size));
}

/* Reads everything that was said before the question, and frees the objects at zero, as before the
 * loop sleeps. */
static void books_settle(node_t *n) {
    for (int i = 0; i < 64 && !n->ending; i++) {
        size_t settled = n->zero.count;
        node_inbox_read(n);
        node_objects_sweep(n, settled);
        if (i > 0 && n->zero.count == 0) return;
    }
}

void node_observer_packet(node_client_t *c, const void *packet, size_t size) {
    wire_ask_t ask;
    if (size != sizeof ask || c->outbox.count > 0) { /* one question after the other */
        node_client_close(c);
        return;
    }
    memcpy(&ask, packet, sizeof ask);
    if (ask.packet.magic != WIRE_MAGIC || ask.packet.kind != WIRE_ASK) {
        node_client_close(c);
        return;
    }
    books_settle(c->node);
    wire_writer_t w = {.capacity = ANSWER_PIECE};
    bool known = true;
    /* Clients go on meanwhile, and there may be more each time. */
    for (int tries = 0; known && tries < 8 && (w.data == NULL || w.size > w.capacity); tries++) {
        if (w.size > w.capacity) w.capacity = w.size + w.size / 4;
        free(w.data);
        w = (wire_writer_t){.data = malloc(w.capacity), .capacity = w.capacity};
        if (w.data == NULL) break;
        known = answer_write(c, ask.query, ask.argument, &w);
    }
    wire_answer_t head = {.packet = {.magic = WIRE_MAGIC, .kind = WIRE_ANSWERED},
                          .status = !known                ? MOB_EINVAL
                                    : w.data == NULL      ? MOB_ENOMEM
                                    : w.size > w.capacity ? MOB_ELIMIT
                                                          : MOB_OK,
                          .size = w.size};
    if (head.status != MOB_OK) head.size = 0;
    node_client_send(c, &head, sizeof head, NULL, 0);
    for (uint64_t at = 0; at < head.size && c->state != NODE_DEAD; at += ANSWER_PIECE)
        node_client_send(c, w.data + at,
                         head.size - at < ANSWER_PIECE ? head.size - at : ANSWER_PIECE, NULL, 0);
    free(w.data);
}

void node_site(node_client_t *c, const wire_message_t *m) {
    uint8_t *space = node_question_space(c, m);
    if (space == NULL) return;
    if (m->site.size > m->site.capacity)
        node_client_fault(c, "named a place that makes no sense");
    else
        node_site_name(c, space, m->site.size);
}
