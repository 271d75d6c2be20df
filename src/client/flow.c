/*
 * Reading a flow. store/flow.h has the rules; this is the reader's end.
 *
 * The reader owns each item that it takes, as if it had opened the slot itself (`given`). Its head
 * is counted like a reference, from when the item before it was taken: so it may be waited for like
 * any object.
 */
#include "client/client.h"

void client_flow_note(mob_client_t *c) {
    if (c->reads) return;
    c->reads = true;
    client_push_quietly(c, wire_plain(WIRE_READS));
}

/* Begins to count the item behind the head, which is SEALED; none: slot 0. */
static mob_ref_t following(mob_client_t *c, mob_ref_t head) {
    mob_ref_t next = {0};
    uint64_t link = c->slots[head.slot].value.item.next;
    if (!store_link_ref(c->slots, link, &next) || !client_local_renew(c, next))
        return (mob_ref_t){0};
    c->local[next.slot].count = 1;
    c->local[next.slot].owned = c->local[next.slot].given = true;
    return next;
}

static bool is_end(const mob_client_t *c, mob_ref_t head) {
    return store_meta_is_end(c->slots[head.slot].meta);
}

/* The run that makes the items may wait for the reader, or be at another node. */
static void maker_wake(mob_client_t *c, mob_ref_t link) {
    const store_flow_t *flow = &c->slots[link.slot].value.flow;
    uint64_t made = atomic_load(&flow->made);
    if (made & STORE_FAR)
        client_push(c, wire_about_object(WIRE_TAKEN_OF, link.slot, link.generation));
    if (!(made & STORE_WAITS)) return;
    uint64_t word = atomic_load(&c->records[flow->maker & (WIRE_MAX_RECORDS - 1)].word);
    /* By now it may be another record's worker: then this is a ring for nothing. */
    shm_bell_ring(&c->node->bells[wire_word_worker(word)]);
}

static void taken_note(mob_client_t *c, mob_flow_t *flow) {
    store_flow_t *shared = &c->slots[flow->link.slot].value.flow;
    flow->taken++;
    /* When the task is over, its word is a value's: nobody reads that. */
    if (store_flow_limit(shared) == 0 || !client_is_pending(c, flow->link)) return;
    atomic_store(&shared->taken, flow->taken);
    maker_wake(c, flow->link);
}

mob_status_t mob_flow_look(const mob_client_t *c, const mob_flow_t *flow) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    if (flow->head.slot == 0) return MOB_EOVER;
    if (!client_is_sealed(c, flow->head)) return MOB_ETIMEOUT;
    return is_end(c, flow->head) ? MOB_EOVER : MOB_OK;
}

mob_status_t mob_flow_next(mob_client_t *c, mob_flow_t *flow, mob_ref_t *ret_ref) {
    mob_status_t status = mob_flow_look(c, flow);
    if (flow->head.slot == 0 || (status != MOB_OK && status != MOB_EOVER)) return status;
    bool over = status == MOB_EOVER;
    pthread_mutex_lock(&c->mutex);
    mob_ref_t head = flow->head;
    flow->head = over ? (mob_ref_t){0} : following(c, head);
    if (over)
        client_ref_release(c, head);
    else
        taken_note(c, flow);
    pthread_mutex_unlock(&c->mutex);
    if (over) return MOB_EOVER;
    *ret_ref = head;
    return MOB_OK;
}

/* Lets go of all items from the head on. */
static void items_drop(mob_client_t *c, mob_ref_t head) {
    while (head.slot != 0) {
        store_slot_t *slot = &c->slots[head.slot];
        if (client_is_sealed(c, head)) {
            mob_ref_t next = is_end(c, head) ? (mob_ref_t){0} : following(c, head);
            client_ref_release(c, head);
            head = next;
        } else if (store_slot_abandon(slot)) {
            c->local[head.slot] = (client_local_t){0}; /* its maker frees it, when it is made */
            return;
        }
    }
}

void mob_flow_close(mob_client_t *c, mob_flow_t *flow) {
    if (client_check(c) != MOB_OK || flow->link.slot == 0) return;
    pthread_mutex_lock(&c->mutex);
    if (client_is_pending(c, flow->link)) {
        store_flow_t *shared = &c->slots[flow->link.slot].value.flow;
        atomic_fetch_or(&shared->taken, STORE_CLOSED);
        maker_wake(c, flow->link);
    }
    items_drop(c, flow->head);
    client_ref_release(c, flow->link);
    client_ref_release(c, flow->done);
    pthread_mutex_unlock(&c->mutex);
    *flow = (mob_flow_t){0};
}
