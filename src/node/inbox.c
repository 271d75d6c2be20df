/*
 * Reading the rings. A client's bit in `pending` says that it has pushed; what it pushed is read up
 * to where its ring ended when we looked, so that one client can't keep us from the others. Nor by
 * questions, which cost more than other messages: a client waits for its answer before it asks
 * again, and one that does not is served in turn with the others.
 */
#include "node/inbox.h"
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
    case WIRE_SITE:
        return true;
    default:
        return false;
    }
}

static void object_message(node_client_t *c, const shm_message_t *m) {
    node_t *n = c->node;
    mob_ref_t ref = {.slot = m->a, .generation = m->b};
    /* An object that is gone already is no fault: its container may have been freed meanwhile. */
    node_object_t *o = node_object_find(n, ref);
    if (o == NULL) return;
    switch (m->kind) {
    case WIRE_HOLD:
        node_object_hold(n, o, c->number, m->c == 1);
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

static void message_handle(node_client_t *c, const shm_message_t *m) {
    node_t *n = c->node;
    switch (m->kind) {
    case WIRE_SUBMIT:
        node_task_submit(c, m->a, m->b);
        break;
    case WIRE_DONE:
        node_task_done(c, m->a, m->b, m->c != 0);
        break;
    case WIRE_RETRY:
        node_task_retry(c, m->a, m->b);
        break;
    case WIRE_UNREADY:
        node_task_unready(c, m->a, m->b);
        break;
    case WIRE_HOLD:
    case WIRE_HOLD_CONTENTS:
    case WIRE_DROP:
        object_message(c, m);
        break;
    case WIRE_ESCAPE:
        node_object_escape(n, (mob_ref_t){.slot = m->a, .generation = m->b});
        if (m->c != 0)
            node_large_bind(c, (mob_ref_t){.slot = m->a, .generation = m->b}, (uint32_t)m->c);
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
            sched_lease_unblock(n->sched, &c->runs->lease);
        break;
    case WIRE_KILL:
        node_actor_kill(n, (mob_ref_t){.slot = m->a, .generation = m->b});
        node_client_tell(c, WIRE_ANSWER, MOB_OK, 0, 0, 0);
        break;
    case WIRE_NEED_SLOTS:
        node_grant_slots(c, m->a);
        break;
    case WIRE_NEED_RECORDS:
        node_grant_records(c, m->a);
        break;
    case WIRE_NEED_EXTENT:
        node_extent_ask(c, m->b, m->c, m->a != 0);
        break;
    case WIRE_BACKED:
        node_extent_backed(c->node, c->number, m->b);
        break;
    case WIRE_RESTORE:
        if (m->a < STORE_MAX_SLOTS)
            node_restore(c, (mob_ref_t){.slot = m->a, .generation = m->b}, m->c != 0, m->d != 0);
        break;
    case WIRE_NEED_FILE:
        node_large_need(c, m->a, m->b);
        break;
    case WIRE_DROP_FILE:
        node_large_drop(c, m->a);
        break;
    case WIRE_SITE:
        node_site(c, m);
        break;
    case WIRE_MADE_AT:
        node_site_note(c, m->a, m->b, m->c);
        break;
    case WIRE_QUERY:
        node_query(c, m);
        break;
    case WIRE_SHAPE:
        node_shape(c, m);
        break;
    case WIRE_SHAPE_DROP:
        node_shape_drop(c, m->a);
        break;
    case WIRE_MESSAGES_END:
        if (c == n->driver) node_streams_finish(n);
        break;
    case WIRE_ARGUMENTS:
        node_task_arguments(c, m->a, m->b);
        break;
    case WIRE_SEALED:
        if (m->a < STORE_MAX_SLOTS)
            node_object_sealed(n, (mob_ref_t){.slot = m->a, .generation = m->b});
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
        node_calls_need(c, (mob_ref_t){.slot = m->a, .generation = m->b});
        break;
    case WIRE_CLOSED:
        node_calls_closed(c, m->a, m->b);
        break;
    case WIRE_CALLS_ENDED:
        node_calls_ended(c, m->a);
        break;
    default:
        node_client_fault(c, "sent a message of no known kind");
    }
}

static void ring_read(node_client_t *c) {
    node_client_flush(c); /* it may have made space */
    /* Bounded by the ring's size, not by a second look at its end. */
    for (int i = 0, questions = 0; i < SHM_UP_MESSAGES && questions < MOST_QUESTIONS; i++) {
        shm_message_t m;
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
        if (c->state == NODE_DEAD || c->node->ending || c->fault != NULL) return;
    }
    /* There may be more: it is looked at again before we sleep. */
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
