/*
 * Making the items of a flow: the worker's end. store/flow.h has the rules and the five steps.
 *
 * The slot behind the tail is opened before the item is written (mob_run_item_begin), so that
 * publishing the item can't fail.
 */
#include <time.h>

#include "client/client.h"

/* the public part comes first */
static client_run_t *run_of(const mob_run_t *run) { return (client_run_t *)run; }

void client_maker_begin(mob_client_t *c, client_run_t *run, bool flows) {
    run->flow = NULL;
    run->next_item = run->item = (mob_ref_t){0};
    run->item_block = run->item_file = 0;
    run->unread = run->told = false;
    if (!flows || !client_slot_valid(run->body.returns[1].slot)) return;
    run->flow = &c->slots[run->body.returns[1].slot].value.flow;
    run->run.items = store_flow_made(run->flow);
    uint64_t link = run->flow->links[run->run.items % 2];
    /* Its submitter could write anything there. */
    if (!store_link_ref(c->slots, link, &run->item) || !client_is_pending(c, run->item))
        run->item = (mob_ref_t){0};
    run->told = atomic_load_explicit(&run->flow->made, memory_order_relaxed) & STORE_RAISED;
    run->unread = run->told || run->item.slot == 0;
}

static bool is_unread(const client_run_t *run) {
    return run->flow == NULL || run->unread || store_flow_is_closed(run->flow);
}

/* The slot of the item behind the tail. */
static mob_status_t next_open(mob_client_t *c, client_run_t *run) {
    uint32_t slot;
    if (run->next_item.slot != 0) return MOB_OK;
    mob_status_t status = client_slot_take(c, &slot);
    if (status != MOB_OK) return status;
    run->next_item = (mob_ref_t){.slot = slot, .generation = store_slot_open(&c->slots[slot])};
    c->slots[slot].value.item.next = 0; /* so that the daemon does not take it for the tail's */
    return MOB_OK;
}

static void block_free(mob_client_t *c, client_run_t *run) {
    if (run->item_block != 0)
        shm_heap_free(&c->heap, run->item_block,
                      shm_tag(false, run->item.slot, run->item.generation));
    run->item_block = 0;
}

/* Not under the mutex. */
static void file_end(mob_client_t *c, client_run_t *run) {
    if (run->item_file != 0) client_large_end(c, run->item_file, true);
    run->item_file = 0;
}

mob_status_t mob_run_item_begin(mob_client_t *c, mob_run_t *public_run, uint64_t size,
                                uint32_t ref_count, mob_buffer_t *ret_buffer) {
    client_run_t *run = run_of(public_run);
    if (is_unread(run)) return MOB_EOVER;
    file_end(c, run);
    for (;;) {
        pthread_mutex_lock(&c->mutex);
        block_free(c, run);
        mob_status_t status = next_open(c, run);
        if (status == MOB_OK) status = client_item_begin(c, run->item, size, ref_count, ret_buffer);
        if (status == MOB_OK)
            run->item_block = ret_buffer->block, run->item_file = ret_buffer->file;
        pthread_mutex_unlock(&c->mutex);
        /* as with a result: see mob_run_result_begin */
        if (status != MOB_ESTOPPED) return status;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

/* Steps 3 to 5. Returns the tail's word as it was. */
static uint64_t item_publish(client_run_t *run, store_slot_t *slot, bool escaped, bool raised) {
    uint64_t made = store_flow_made(run->flow);
    run->flow->links[(made + 1) % 2] = store_link(run->next_item);
    /* release: the item and its links come first. */
    atomic_store_explicit(&run->flow->made, (made + 1) | (raised ? STORE_RAISED : 0),
                          memory_order_release);
    return made == 0 ? store_slot_seal(slot, escaped)
                     : store_slot_seal_given(slot, escaped, store_flow_reader(run->flow));
}

void mob_run_item_commit(mob_client_t *c, mob_run_t *public_run, mob_buffer_t *buffer,
                         mob_format_t format, mob_status_t error, const mob_ref_t *refs) {
    client_run_t *run = run_of(public_run);
    mob_ref_t item = run->item;
    store_slot_t *slot = &c->slots[item.slot];
    bool escaped = buffer->ref_count > 0 || buffer->file != 0;
    client_buffer_store(c, buffer, format, error, refs);
    slot->value.item.next = store_link(run->next_item);
    pthread_mutex_lock(&c->mutex);
    if (buffer->cold) client_buffer_told(c, buffer);
    for (uint32_t i = 0; i < buffer->ref_count; i++)
        if (client_slot_valid(refs[i].slot)) client_ref_escape(c, refs[i]);
    uint64_t word = item_publish(run, slot, escaped, error != MOB_OK);
    run->told |= error != MOB_OK;
    bool crowd = client_wake(c, word) || error != MOB_OK;
    /* After the seal: the daemon then finds to whom it is given. Before this worker's own
     * references can go. */
    if (escaped) client_push(c, client_escape_of(buffer));
    if (word & STORE_DROPPED) {
        /* the next one first: see store/flow.h */
        run->unread = true;
        (void)store_slot_abandon(&c->slots[run->next_item.slot]);
    }
    if (word & (STORE_DROPPED | STORE_WATCHED))
        client_result_settle(c, item, word | (escaped ? STORE_ESCAPED : 0));
    run->raised |= error == MOB_ETASK && run->run.kind != MOB_ACTOR_CALL;
    run->item = run->next_item;
    run->next_item = (mob_ref_t){0};
    run->item_block = run->item_file = 0;
    if (crowd) client_push(c, wire_plain(WIRE_RING));
    pthread_mutex_unlock(&c->mutex);
    if (buffer->file != 0) client_large_end(c, buffer->file, false);
}

/* ---- the limit ---- */

bool mob_run_item_room(const mob_client_t *c, const mob_run_t *run) {
    (void)c;
    const client_run_t *found = run_of(run);
    return found->flow == NULL || store_flow_has_room(found->flow);
}

mob_status_t mob_run_item_wait(mob_client_t *c, mob_run_t *public_run) {
    store_flow_t *flow = run_of(public_run)->flow;
    if (mob_run_item_room(c, public_run)) return MOB_OK;
    mob_status_t status = client_wait_check(c);
    if (status != MOB_OK) return status;
    client_wait_t wait = client_waiting_begin(c);
    uint64_t made = store_flow_made(flow);
    uint32_t seen = shm_bell_listen(&c->node->bells[c->number]);
    atomic_store(&flow->made, made | STORE_WAITS);
    if (!store_flow_has_room(flow)) (void)client_sleep(c, seen, CLIENT_LOOK_UP_NS);
    atomic_store(&flow->made, made);
    client_waiting_end(c, wait);
    return store_flow_has_room(flow) ? MOB_OK : MOB_EINTR;
}

/* ---- the end ---- */

void client_maker_abort(mob_client_t *c, client_run_t *run) {
    if (run->flow != NULL) file_end(c, run);
}

void client_maker_end(mob_client_t *c, client_run_t *run) {
    block_free(c, run);
    if (run->next_item.slot == 0) return;
    store_slot_close(&c->slots[run->next_item.slot]);
    client_slot_give(c, run->next_item.slot);
    run->next_item = (mob_ref_t){0};
}

void client_maker_end_write(mob_client_t *c, client_run_t *run) {
    uint32_t flow = run->body.returns[1].slot;
    c->slots[flow].meta = store_meta(0, MOB_FORMAT_DIRECT, MOB_OK, true);
    if (run->item.slot == 0) return;
    store_slot_t *slot = &c->slots[run->item.slot];
    slot->value.item.next = 0;
    slot->meta = store_meta(0, (mob_format_t)STORE_FORMAT_END, MOB_OK, true);
}

bool client_maker_end_publish(mob_client_t *c, client_run_t *run) {
    if (run->item.slot == 0) return false;
    store_slot_t *slot = &c->slots[run->item.slot];
    uint64_t word = store_flow_made(run->flow) == 0
                        ? store_slot_seal(slot, false)
                        : store_slot_seal_given(slot, false, store_flow_reader(run->flow));
    bool crowd = client_wake(c, word);
    client_result_settle(c, run->item, word);
    return crowd;
}
