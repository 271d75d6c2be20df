/*
 * Slots and records are granted in blocks. The two tables are alike: a block belongs to one client,
 * to nobody, or to NODE_ORPHAN while something in it is alive after its owner's death.
 */
#include "node/state.h"

/* A table, with what is particular to it and to the client. */
typedef struct {
    node_table_t *table;
    node_spans_t *spans; /* the client's */
    shm_segment_t *segment;
    uint32_t limit, block, entry_bytes;
    bool (*block_is_free)(node_t *node, uint32_t first);
} grant_t;

static bool slot_block_is_free(node_t *n, uint32_t first) {
    for (uint32_t i = first; i < first + STORE_SLOT_BLOCK; i++)
        if (atomic_load_explicit(&n->slots[i].word, memory_order_acquire) != STORE_FREE ||
            n->objects[i] != NULL)
            return false;
    return true;
}

static bool record_block_is_free(node_t *n, uint32_t first) {
    for (uint32_t i = first; i < first + WIRE_RECORD_BLOCK; i++)
        if (n->tasks[i] != NULL) return false;
    return true;
}

static grant_t slots_for(node_t *n, node_spans_t *spans) {
    return (grant_t){.table = &n->grants.slots,
                     .spans = spans,
                     .segment = &n->segments.slots,
                     .limit = STORE_MAX_SLOTS,
                     .block = STORE_SLOT_BLOCK,
                     .entry_bytes = sizeof(store_slot_t),
                     .block_is_free = slot_block_is_free};
}

static grant_t records_for(node_t *n, node_spans_t *spans) {
    return (grant_t){.table = &n->grants.records,
                     .spans = spans,
                     .segment = &n->segments.records,
                     .limit = WIRE_MAX_RECORDS,
                     .block = WIRE_RECORD_BLOCK,
                     .entry_bytes = sizeof(wire_record_t),
                     .block_is_free = record_block_is_free};
}

static grant_t slots_of(node_client_t *c) { return slots_for(c->node, &c->slots); }

static grant_t records_of(node_client_t *c) { return records_for(c->node, &c->records); }

/* ---- granting ---- */

/* A free span of exactly or at most the blocks needed, or fresh ones above the high-water mark. */
static node_span_t span_take(const grant_t *g, uint32_t wanted) {
    node_table_t *t = g->table;
    wanted = (wanted + g->block - 1) / g->block * g->block;
    if (t->free.count > 0) {
        node_span_t *first = &t->free.items[0], s = *first;
        if (s.count > wanted) {
            first->first += wanted;
            first->count -= wanted;
            s.count = wanted;
        } else {
            vec_swap_remove(&t->free, 0);
        }
        return s;
    }
    if (t->granted >= g->limit) return (node_span_t){0};
    uint32_t left = g->limit - t->granted;
    node_span_t s = {.first = t->granted, .count = left < wanted ? left : wanted};
    t->granted += s.count;
    return s;
}

/* Gives the span memory, and notes it at the client. */
static bool span_give(const grant_t *g, node_span_t s) {
    uint64_t bytes = (uint64_t)s.count * g->entry_bytes;
    return !node_memory_is_short(bytes) &&
           shm_segment_back(g->segment, (uint64_t)s.first * g->entry_bytes, bytes) == MOB_OK &&
           vec_push(g->spans, s);
}

static node_span_t grant(const grant_t *g, uint32_t number, uint32_t wanted) {
    node_span_t s = span_take(g, wanted);
    if (s.count == 0) return s;
    if (!span_give(g, s)) {
        (void)vec_push(&g->table->free, s);
        return (node_span_t){0};
    }
    for (uint32_t b = s.first / g->block; b < (s.first + s.count) / g->block; b++)
        g->table->owner[b] = (uint16_t)number;
    return s;
}

void node_grant_slots(node_client_t *c, uint32_t wanted) {
    if (wanted == 0 || wanted > STORE_MAX_SLOTS / 4) {
        node_client_fault(c, "asked for an impossible number of slots");
        return;
    }
    grant_t g = slots_of(c);
    node_span_t s = grant(&g, c->number, wanted);
    node_client_tell(c,
                     (wire_message_t){.grant = {WIRE_SLOTS, .first = s.first, .count = s.count}});
}

void node_grant_records(node_client_t *c, uint32_t wanted) {
    if (wanted == 0 || wanted > WIRE_MAX_RECORDS / 4) {
        node_client_fault(c, "asked for an impossible number of records");
        return;
    }
    grant_t g = records_of(c);
    node_span_t s = grant(&g, c->number, wanted);
    node_client_tell(c,
                     (wire_message_t){.grant = {WIRE_RECORDS, .first = s.first, .count = s.count}});
}

bool node_grant_slot_is(node_t *n, uint32_t slot, uint32_t owner) {
    return slot != 0 && slot < STORE_MAX_SLOTS &&
           n->grants.slots.owner[slot / STORE_SLOT_BLOCK] == owner;
}

bool node_grant_record_is(node_t *n, uint32_t record, uint32_t owner) {
    return record < WIRE_MAX_RECORDS &&
           n->grants.records.owner[record / WIRE_RECORD_BLOCK] == owner;
}

/* ---- what the daemon runs itself ---- */

/* The daemon's own are NODE_ORPHAN's, and in no list of orphans: so no client gets them. */
uint32_t node_own_owner(const node_own_t *own) {
    return own->submitter != 0 ? own->submitter : NODE_ORPHAN;
}

/* One more block. False: no memory. */
static bool stock_grow(const grant_t *g, uint32_t owner, node_stock_t *stock) {
    /* so that all of them can be given back */
    if (!vec_reserve(&stock->free, (stock->spans.count + 1) * g->block)) return false;
    node_span_t s = grant(g, owner, g->block);
    for (uint32_t i = s.count; i-- > 0;)
        if (s.first + i != 0) stock->free.items[stock->free.count++] = s.first + i;
    return true;
}

static bool stock_take(const grant_t *g, uint32_t owner, node_stock_t *stock, uint32_t *ret_index) {
    if (stock->free.count == 0 && !stock_grow(g, owner, stock)) return false;
    if (stock->free.count == 0) return false;
    *ret_index = vec_pop(&stock->free);
    return true;
}

bool node_own_slot(node_t *n, node_own_t *own, uint32_t *ret_slot) {
    grant_t g = slots_for(n, &own->slots.spans);
    return stock_take(&g, node_own_owner(own), &own->slots, ret_slot);
}

/* Those that were freed meanwhile; there was room for all when they were granted. */
static void slots_sweep(node_t *n, node_stock_t *stock) {
    for (size_t k = 0; k < stock->spans.count; k++) {
        node_span_t s = stock->spans.items[k];
        for (uint32_t i = s.first; i < s.first + s.count; i++)
            if (i != 0 && n->objects[i] == NULL &&
                atomic_load_explicit(&n->slots[i].word, memory_order_acquire) == STORE_FREE)
                (void)vec_push(&stock->free, i);
    }
}

bool node_own_slot_swept(node_t *n, node_own_t *own, uint32_t *ret_slot) {
    grant_t g = slots_for(n, &own->slots.spans);
    if (own->slots.free.count == 0) {
        slots_sweep(n, &own->slots);
        /* so that a sweep is worth its time */
        if (own->slots.free.count < own->slots.spans.count * g.block / 4)
            (void)stock_grow(&g, node_own_owner(own), &own->slots);
    }
    return stock_take(&g, node_own_owner(own), &own->slots, ret_slot);
}

bool node_own_record(node_t *n, node_own_t *own, uint32_t *ret_record) {
    grant_t g = records_for(n, &own->records.spans);
    return stock_take(&g, node_own_owner(own), &own->records, ret_record);
}

/* There was room for it when it was taken. */
void node_own_slot_back(node_own_t *own, uint32_t slot) { (void)vec_push(&own->slots.free, slot); }

void node_own_record_back(node_own_t *own, uint32_t record) {
    (void)vec_push(&own->records.free, record);
}

/* ---- the end of a client ---- */

/* Blocks that nothing names any more can be granted again. */
static void orphans_clean(node_t *n, const grant_t *g) {
    node_spans_t *orphans = &g->table->orphans;
    for (size_t i = orphans->count; i-- > 0;) {
        node_span_t s = orphans->items[i];
        if (!g->block_is_free(n, s.first) || !vec_push(&g->table->free, s)) continue;
        g->table->owner[s.first / g->block] = 0;
        vec_swap_remove(orphans, i);
    }
}

static void spans_forget(node_t *n, const grant_t *g) {
    for (size_t i = 0; i < g->spans->count; i++) {
        node_span_t s = g->spans->items[i];
        for (uint32_t at = s.first; at < s.first + s.count; at += g->block) {
            g->table->owner[at / g->block] = NODE_ORPHAN;
            (void)vec_push(&g->table->orphans, ((node_span_t){.first = at, .count = g->block}));
        }
    }
    orphans_clean(n, g);
}

void node_grants_forget(node_client_t *c) {
    grant_t slots = slots_of(c), records = records_of(c);
    spans_forget(c->node, &slots);
    spans_forget(c->node, &records);
}
