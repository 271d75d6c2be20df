/*
 * Every object, who holds it and why, for people.
 *
 * The daemon looks up what it does not count. An object that never left its owner is its owner's.
 * Arguments are found in the books of tasks, captured references in those of objects, pins in the
 * clients' segments. One row for each object and reason.
 */
#include <stdlib.h>
#include <string.h>

#include "node/space/pins.h"
#include "node/state.h"
#include "wire/direct.h"

enum { MOST_SITES = 65536 };

static const char *site_text(node_t *n, uint32_t slot);

typedef enum {
    LOCAL,
    LOADED,
    ACTOR,
    PENDING_TASK,
    CAPTURED,
    PINNED,
    LINEAGE,
    ABROAD,
    UNKNOWN
} reason_t;

static const char *const reasons[] = {
    "LOCAL_REFERENCE",      "LOADED_FUNCTION",     "ACTOR_HANDLE",
    "USED_BY_PENDING_TASK", "CAPTURED_IN_OBJECT",  "PINNED_IN_MEMORY",
    "USED_BY_LINEAGE",      "HELD_BY_OTHER_NODES", "UNKNOWN_STATUS"};

typedef struct {
    uint32_t slot, count; /* count: how many tasks, or objects */
    reason_t reason;
    uint32_t client; /* 0: no process */
} row_t;

typedef struct {
    uint32_t *arguments, *captured; /* by slot: in how many tasks, in how many objects */
    VEC(row_t) rows;
    uint64_t objects; /* all that there are */
} census_t;

static bool uses_count(node_t *n, census_t *c) {
    c->arguments = calloc(n->grants.slots.granted + 1, sizeof *c->arguments);
    c->captured = calloc(n->grants.slots.granted + 1, sizeof *c->captured);
    if (c->arguments == NULL || c->captured == NULL) return false;
    for (uint32_t r = 0; r < n->grants.records.granted; r++) {
        const node_task_t *t = n->tasks[r];
        if (t == NULL || t->visit != NULL)
            continue; /* a visit is a task of its peer's, and told there */
        for (uint32_t i = t->num_returns; i < t->num_returns + t->num_deps + t->num_refs; i++)
            if (t->refs[i].slot < n->grants.slots.granted) c->arguments[t->refs[i].slot]++;
        if (t->function.slot < n->grants.slots.granted) c->arguments[t->function.slot]++;
    }
    for (uint32_t s = 0; s < n->grants.slots.granted; s++) {
        const node_object_t *o = n->objects[s];
        for (size_t i = 0; o != NULL && i < o->contents.count; i++)
            if (o->contents.items[i].slot < n->grants.slots.granted)
                c->captured[o->contents.items[i].slot]++;
    }
    return true;
}

static void row_add(census_t *c, uint32_t slot, reason_t reason, uint32_t client, uint32_t count) {
    (void)vec_push(&c->rows,
                   ((row_t){.slot = slot, .count = count, .reason = reason, .client = client}));
}

static void object_add(node_t *n, census_t *c, uint32_t slot, uint64_t word, bool pinned) {
    size_t before = c->rows.count;
    const node_object_t *o = n->objects[slot];
    if (o != NULL &&
        o->generation != atomic_load_explicit(&n->slots[slot].generation, memory_order_relaxed))
        o = NULL;
    uint32_t keeper = node_slot_keeper(n, slot, word);
    if (o == NULL && keeper != NODE_ORPHAN && !(word & (STORE_DROPPED | STORE_GOING)))
        row_add(c, slot, LOCAL, keeper, 1);
    for (size_t i = 0; o != NULL && i < o->holders.count; i++) {
        uint16_t holder = o->holders.items[i];
        bool abroad = node_proxy_owns(n, holder);
        row_add(c, slot,
                abroad                 ? ABROAD
                : holder & NODE_CACHED ? LOADED
                : o->actor             ? ACTOR
                                       : LOCAL,
                abroad ? 0 : holder & (uint16_t)~NODE_CACHED, 1);
    }
    if (c->arguments[slot] > 0) row_add(c, slot, PENDING_TASK, 0, c->arguments[slot]);
    if (c->captured[slot] > 0) row_add(c, slot, CAPTURED, 0, c->captured[slot]);
    for (uint32_t k = 1; pinned && k < n->client_next; k++)
        if (n->clients[k] != NULL && node_client_pins(n->clients[k], slot))
            row_add(c, slot, PINNED, k, 1);
    /* One of which a lineage has kept but the slot has no value, and is of no interest. */
    if (o != NULL && o->holders.count == 0 && node_object_is_gone(n, o)) return;
    if (c->rows.count == before)
        row_add(c, slot, o != NULL && o->spare != NULL ? LINEAGE : UNKNOWN, 0, 1);
}

static void str_write(wire_writer_t *w, const char *text) { wire_write_str(w, text, strlen(text)); }

static void row_write(node_t *n, const row_t *r, wire_writer_t *w) {
    const store_slot_t *slot = &n->slots[r->slot];
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire), meta = slot->meta;
    bool sealed = (word & STORE_STATE) == STORE_SEALED;
    uint32_t owner = n->grants.slots.owner[r->slot / STORE_SLOT_BLOCK];
    const node_client_t *maker = owner < SHM_MAX_CLIENTS ? n->clients[owner] : NULL,
                        *holder = r->client < SHM_MAX_CLIENTS ? n->clients[r->client] : NULL;
    wire_write_tuple(w, 10);
    wire_write_int(w, r->slot);
    wire_write_int(w, (int64_t)atomic_load_explicit(&slot->generation, memory_order_relaxed));
    wire_write_int(w, sealed ? (int64_t)store_meta_size(meta) : -1);
    bool on_disk = word & STORE_AWAY || store_meta_in_file(meta);
    str_write(w, !sealed ? "PENDING" : on_disk ? "SPILLED" : "IN_MEMORY");
    wire_write_int(w, maker != NULL ? maker->pid : 0);
    str_write(w, reasons[r->reason]);
    wire_write_int(w, holder != NULL ? holder->pid : 0);
    str_write(w, holder == NULL ? "" : holder->role == WIRE_DRIVER ? "Driver" : "Worker");
    wire_write_int(w, r->count);
    str_write(w, site_text(n, r->slot));
}

/* ---- where objects were made, if clients tell ---- */

void node_site_name(node_client_t *c, const void *text, size_t size) {
    node_t *n = c->node;
    char *copy =
        size <= MOB_SITE_MAX && n->sites.texts.count < MOST_SITES ? strndup(text, size) : NULL;
    if (copy == NULL || !vec_push(&n->sites.texts, copy)) {
        free(copy);
        node_client_tell(c, wire_answer(MOB_ELIMIT, 0));
        return;
    }
    node_client_tell(c, wire_answer(MOB_OK, n->sites.texts.count));
}

void node_site_note(node_client_t *c, uint32_t slot, uint64_t generation, uint64_t site) {
    node_t *n = c->node;
    if (slot < n->grants.slots.granted && site != 0 && site <= n->sites.texts.count)
        n->sites.of[slot] = (node_site_t){.generation = generation, .site = (uint32_t)site};
}

static const char *site_text(node_t *n, uint32_t slot) {
    uint64_t generation = atomic_load_explicit(&n->slots[slot].generation, memory_order_relaxed);
    const node_site_t *s = &n->sites.of[slot];
    return s->site != 0 && s->site <= n->sites.texts.count && s->generation == generation
               ? n->sites.texts.items[s->site - 1]
               : "";
}

void node_census_write(node_t *n, uint64_t limit, wire_writer_t *w) {
    census_t c = {0};
    uint64_t pins = 0; /* of all processes, in these 64 slots */
    if (uses_count(n, &c)) {
        for (uint32_t s = STORE_SLOT_BLOCK; s < n->grants.slots.granted; s++) {
            uint64_t word = atomic_load_explicit(&n->slots[s].word, memory_order_acquire);
            if (s % 64 == 0) pins = c.objects < limit ? node_pins_word(n, s / 64) : 0;
            if ((word & STORE_STATE) == STORE_FREE) continue;
            if (c.objects++ < limit) object_add(n, &c, s, word, pins >> (s % 64) & 1);
        }
    }
    wire_write_tuple(w, 3);
    wire_write_int(w, (int64_t)c.objects);
    wire_write_int(w, (int64_t)n->incarnation);
    wire_write_tuple(w, (uint32_t)c.rows.count);
    for (size_t i = 0; i < c.rows.count; i++) row_write(n, &c.rows.items[i], w);
    free(c.arguments);
    free(c.captured);
    vec_free(&c.rows);
}
