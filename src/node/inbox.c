/*
 * Reading the rings. A client's bit in `pending` says that it has pushed. The daemon reads at most
 * a ring's length at a time, so that one client can't keep it from the others. Nor can a client do
 * that by questions, which cost more than other messages: a client waits for its answer before it
 * asks again, and a client that does not is served in turn with the others.
 */
#include "node/inbox.h"
#include "node/cluster/group_guest.h"
#include "node/cluster/inflow.h"
#include "node/cluster/naming.h"
#include "node/space/restore.h"
#include "node/state.h"

enum { MOST_QUESTIONS = 64 };

static bool is_question(uint32_t kind) {
    switch (kind) {
    case WIRE_KILL:
    case WIRE_NEED_SLOTS:
    case WIRE_NEED_RECORDS:
    case WIRE_NEED_EXTENT:
    case WIRE_NEED_FILE:
    case WIRE_NEED_CALLS:
    case WIRE_QUERY:
    case WIRE_SHAPE:
    case WIRE_ENVIRONMENT:
    case WIRE_WORKER_UNFIT:
    case WIRE_SITE:
    case WIRE_RETRY:
    case WIRE_FAILED:
    case WIRE_CANCEL:
    case WIRE_CREATE:
    case WIRE_FIND:
    case WIRE_NAME_WAIT:
    case WIRE_KV:
    case WIRE_ID:
    case WIRE_OF_ID:
    case WIRE_GROUP_OF_ID:
        return true;
    default:
        return false;
    }
}

/* Messages about an object begin alike. */
static mob_ref_t object_of(const wire_message_t *m) {
    return (mob_ref_t){.slot = m->object.slot, .generation = m->object.generation};
}

static void object_message(node_client_t *c, const wire_message_t *m) {
    node_t *n = c->node;
    mob_ref_t ref = object_of(m);
    /* An object that is gone already is no fault: its container may have been freed meanwhile. */
    node_object_t *o = node_object_find(n, ref);
    if (o == NULL) return;
    switch (m->kind) {
    case WIRE_HOLD:
        node_object_hold(n, o, c->number, m->hold.cached == 1);
        break;
    case WIRE_DROP:
        node_object_unhold(n, o, c->number);
        break;
    case WIRE_HOLD_CONTENTS: {
        node_object_contents_hold(n, o);
        for (size_t i = 0; i < o->contents.count; i++) {
            node_object_t *inner = node_object_find(n, o->contents.items[i]);
            if (inner != NULL) node_object_hold(n, inner, c->number, false);
        }
        break;
    }
    }
}

static void message_handle(node_client_t *c, const wire_message_t *m) {
    node_t *n = c->node;
    switch (m->kind) {
    case WIRE_SUBMIT:
        node_task_submit(c, m->record.record, m->record.generation);
        break;
    case WIRE_DONE:
        node_task_done(c, m->done.record, m->done.generation, m->done.crowd != 0);
        break;
    case WIRE_RETRY:
        node_task_retry(c, m);
        break;
    case WIRE_FAILED:
        node_failure_said(c, m);
        break;
    case WIRE_UNREADY:
        node_task_unready(c, m->record.record, m->record.generation);
        break;
    case WIRE_HOLD:
    case WIRE_HOLD_CONTENTS:
    case WIRE_DROP:
        object_message(c, m);
        break;
    case WIRE_ESCAPE:
        node_object_escape(n, object_of(m));
        if (m->escape.file != 0) node_large_bind(c, object_of(m), (uint32_t)m->escape.file);
        break;
    case WIRE_BLOCK:
        if (c->actor != NULL)
            sched_lease_block(n->sched, &c->lease);
        else
            node_worker_blocked(c);
        break;
    case WIRE_UNBLOCK:
        if (c->leased)
            node_lease_unblocked(c);
        else if (c->actor != NULL)
            sched_lease_unblock(n->sched, &c->lease);
        else if (c->runs != NULL)
            node_worker_unblocked(c);
        break;
    case WIRE_KILL:
        node_actor_kill(n, object_of(m), m->kill.may_restart == 1);
        node_client_tell(c, wire_answer(MOB_OK, 0));
        break;
    case WIRE_CANCEL:
        node_cancel(c, m);
        break;
    case WIRE_KEEP:
        node_task_keep(c, m->record.record, m->record.generation);
        break;
    case WIRE_INTERRUPTED:
        node_cancel_interrupted(c, m->record.record, m->record.generation);
        break;
    case WIRE_NEED_SLOTS:
        node_grant_slots(c, m->need.count);
        break;
    case WIRE_NEED_RECORDS:
        node_grant_records(c, m->need.count);
        break;
    case WIRE_NEED_EXTENT:
        node_extent_ask(c, m->need_extent.size, m->need_extent.least, m->need_extent.goes_on != 0);
        break;
    case WIRE_BACKED:
        node_extent_backed(c->node, c->number, m->backed.block);
        break;
    case WIRE_RESTORE:
        if (m->object.slot < STORE_MAX_SLOTS)
            node_restore(c, object_of(m), m->restore.waits != 0, m->restore.goes_on != 0);
        break;
    case WIRE_NEED_FILE:
        node_large_need(c, m->file.number, m->file.size);
        break;
    case WIRE_DROP_FILE:
        node_large_drop(c, m->file.number);
        break;
    case WIRE_ENVIRONMENT:
        node_environment(c, m);
        break;
    case WIRE_WORKER_UNFIT:
        node_worker_unfit(c, m);
        break;
    case WIRE_SITE:
        node_site(c, m);
        break;
    case WIRE_MADE_AT:
        node_site_note(c, m->made_at.slot, m->made_at.generation, m->made_at.site);
        break;
    case WIRE_QUERY:
        node_query(c, m);
        break;
    case WIRE_SHAPE:
        node_shape(c, m, false);
        break;
    case WIRE_SHAPE_DROP:
        node_shape_drop(c, m->shape_drop.shape);
        break;
    case WIRE_MESSAGES_END:
        if (c->role == WIRE_DRIVER) node_job_leave(c->job, true);
        break;
    case WIRE_CREATE:
        node_name_create(c, m);
        break;
    case WIRE_FIND:
        node_name_find(c, m);
        break;
    case WIRE_NAME_WAIT:
        node_name_waited(c, m);
        break;
    case WIRE_KV:
        node_kv(c, m);
        break;
    case WIRE_ID:
        node_naming_id(c, m);
        break;
    case WIRE_OF_ID:
        node_naming_of_id(c, m);
        break;
    case WIRE_GROUP_OF_ID:
        node_group_of_id(c, m);
        break;
    case WIRE_GROUP_REMOVE:
        node_group_remove(c, m);
        break;
    case WIRE_LEAVE:
        node_client_leave(c);
        break;
    case WIRE_ENDING:
        node_worker_ending(c);
        break;
    case WIRE_ARGUMENTS:
        node_task_arguments(c, m->record.record, m->record.generation);
        break;
    case WIRE_SEALED:
        if (m->object.slot < STORE_MAX_SLOTS) node_object_sealed(n, object_of(m));
        break;
    case WIRE_WAITS:
        node_deadlock_suspect(n);
        break;
    case WIRE_READS:
        c->reads = true;
        break;
    case WIRE_TAKEN_OF:
        node_inflow_read(n, object_of(m));
        break;
    case WIRE_RING:
        node_bells_ring(n);
        break;
    case WIRE_LEASE:
        node_lease_returned(c);
        break;
    case WIRE_EVENTS:
        node_events_read(c);
        break;
    case WIRE_NEED_CALLS:
        node_calls_need(c, object_of(m));
        break;
    case WIRE_CLOSED:
        node_calls_closed(c, m->record.record, m->record.generation);
        break;
    case WIRE_POSTPONE:
        node_queued_postpone(n, m->record.record, m->record.generation);
        break;
    case WIRE_CALLS_ENDED:
        node_calls_ended(c, m->queue.queue);
        break;
    default:
        node_client_fault(c, "sent a message of no known kind");
    }
}

static void ring_read(node_client_t *c) {
    node_client_flush(c); /* the client may have made space */
    /* Bounded by the ring's size, not by a second look at its end. */
    for (int i = 0, questions = 0; i < SHM_UP_MESSAGES && questions < MOST_QUESTIONS; i++) {
        wire_message_t m;
        switch (shm_ring_pop(c->up, SHM_UP_MESSAGES, &m)) {
        case SHM_RING_EMPTY:
            return;
        case SHM_RING_GARBAGE:
            node_client_fault(c, "has an impossible index on its ring");
            return;
        case SHM_RING_MESSAGE:
            message_handle(c, &m);
            node_client_flush(c);
            questions += is_question(m.kind);
        }
        if (c->state == NODE_DEAD || c->state == NODE_LEFT || c->node->ending || c->fault != NULL)
            return;
    }
    /* There may be more: the daemon looks again before it sleeps. */
    atomic_fetch_or(&c->node->shared->pending[c->number / 64], (uint64_t)1 << (c->number % 64));
}

void node_inbox_read(node_t *n) {
    for (uint32_t w = 0; w <= n->client_next / 64 && w < SHM_MAX_CLIENTS / 64; w++) {
        uint64_t bits = atomic_load_explicit(&n->shared->pending[w], memory_order_relaxed);
        if (bits != 0) bits = atomic_exchange(&n->shared->pending[w], 0);
        while (bits != 0) {
            uint32_t number = w * 64 + (uint32_t)__builtin_ctzll(bits);
            bits &= bits - 1;
            node_client_t *c = n->clients[number];
            if (c != NULL && c->up != NULL && (c->state == NODE_LIVE || c->state == NODE_DYING))
                ring_read(c);
            if (n->ending) return;
        }
    }
}
