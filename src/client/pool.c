/*
 * Slots and records that the daemon granted to this process.
 *
 * An entry's own word says whether it is free; the list of free ones is a hint. When the list runs
 * out, this process sweeps all its entries for those that other processes freed since. If these are
 * few, it asks the daemon for more. A sweep reads every entry, so the next sweep waits until a
 * quarter as many were taken: a sweep then costs four reads for each entry taken, however many
 * there are.
 */
#include "client/client.h"

enum { POOL_MAX_ASK = 16384 };

static bool slot_is_free(mob_client_t *c, uint32_t index) {
    /* acquire: the process that freed it is done with it */
    return atomic_load_explicit(&c->slots[index].word, memory_order_acquire) == STORE_FREE;
}

static bool record_is_free(mob_client_t *c, uint32_t index) {
    return wire_word_state(atomic_load_explicit(&c->records[index].word, memory_order_acquire)) ==
           WIRE_FREE;
}

static void pool_sweep(mob_client_t *c, client_pool_t *pool, bool is_slots) {
    bool (*is_free)(mob_client_t *, uint32_t) = is_slots ? slot_is_free : record_is_free;
    if (!vec_reserve(&pool->free, pool->total)) return;
    for (size_t r = 0; r < pool->range_count; r++)
        for (uint32_t i = pool->ranges[r].count; i-- > 0;)
            if (is_free(c, pool->ranges[r].first + i))
                pool->free.items[pool->free.count++] = pool->ranges[r].first + i;
    pool->since_sweep = (uint32_t)pool->free.count;
}

static void pool_add(client_pool_t *pool, const wire_message_t *m) {
    pool->ranges[pool->range_count].first = m->grant.first;
    pool->ranges[pool->range_count++].count = (uint32_t)m->grant.count;
    pool->total += (uint32_t)m->grant.count;
    pool->since_sweep += (uint32_t)m->grant.count;
    if (!vec_reserve(&pool->free, pool->total)) return; /* the next sweep finds them */
    for (uint32_t i = (uint32_t)m->grant.count; i-- > 0;)
        pool->free.items[pool->free.count++] = m->grant.first + i;
}

static bool range_reserve(client_pool_t *pool) {
    return base_vec_grow((void **)&pool->ranges, pool->range_count + 1, &pool->range_capacity,
                         sizeof *pool->ranges);
}

void client_pool_add(mob_client_t *c, bool is_slots, const wire_message_t *grant) {
    client_pool_t *pool = is_slots ? &c->slot_pool : &c->record_pool;
    if (grant->grant.count > 0 && range_reserve(pool)) pool_add(pool, grant);
}

static mob_status_t pool_grow(mob_client_t *c, client_pool_t *pool, uint32_t request,
                              uint32_t answer_kind, uint32_t least) {
    uint32_t wanted = pool->total < least          ? least
                      : pool->total > POOL_MAX_ASK ? POOL_MAX_ASK
                                                   : pool->total;
    if (!range_reserve(pool)) return MOB_ENOMEM;
    wire_message_t m = {.need = {request, .count = wanted}}, answer;
    mob_status_t status = client_ask(c, &m, answer_kind, &answer);
    if (status != MOB_OK) return status;
    if (answer.grant.count == 0)
        return base_fail(MOB_ELIMIT, "too many live %s",
                         request == WIRE_NEED_SLOTS ? "objects" : "queued tasks");
    /* Again: waiting for the answer may have added a range that was granted earlier. */
    if (!range_reserve(pool)) return MOB_ENOMEM;
    pool_add(pool, &answer);
    return pool->free.count > 0 ? MOB_OK : MOB_ENOMEM;
}

static mob_status_t pool_take(mob_client_t *c, client_pool_t *pool, bool is_slots,
                              uint32_t *ret_index) {
    if (pool->free.count == 0) {
        if (pool->since_sweep >= pool->total / 4) pool_sweep(c, pool, is_slots);
        if (pool->free.count <= pool->total / 4) {
            mob_status_t status =
                is_slots ? pool_grow(c, pool, WIRE_NEED_SLOTS, WIRE_SLOTS, STORE_SLOT_BLOCK)
                         : pool_grow(c, pool, WIRE_NEED_RECORDS, WIRE_RECORDS, WIRE_RECORD_BLOCK);
            if (status != MOB_OK && pool->free.count == 0) pool_sweep(c, pool, is_slots);
            if (pool->free.count == 0) return status;
        }
    }
    *ret_index = vec_pop(&pool->free);
    return MOB_OK;
}

mob_status_t client_slot_take(mob_client_t *c, uint32_t *ret_slot) {
    return pool_take(c, &c->slot_pool, true, ret_slot);
}
mob_status_t client_record_take(mob_client_t *c, uint32_t *ret_record) {
    return pool_take(c, &c->record_pool, false, ret_record);
}
/* Giving back never fails: what the list can't hold, the next sweep finds. */
void client_slot_give(mob_client_t *c, uint32_t slot) { (void)vec_push(&c->slot_pool.free, slot); }
void client_record_give(mob_client_t *c, uint32_t record) {
    (void)vec_push(&c->record_pool.free, record);
}
