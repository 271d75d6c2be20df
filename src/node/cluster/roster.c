/*
 * A node's card is what it says of itself once, when it registers: where it is and what it has.
 * What it has free comes with its pulses, in the order of the card.
 *
 *     u8 version | host | u16 port | name | hostname | folder | u8 is_head | u32 pid | u64 since_ms
 *     labels | u8 count | count times: name, u64 amount           (texts: u16 size, bytes)
 *
 * A card may be anything: texts and counts are bounded by what is there.
 * Cards go with membership's own records, so they are small: what a node has must fit.
 */
#include "node/cluster/roster.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "node/cluster/cluster.h"
#include "node/state.h"

enum { CARD_VERSION = 1, TEXT_MAX = 500, RESOURCES_MAX = 64, DEAD_MAX = 256 };

static const char STORE[] = "object_store_memory";

/* ---- a row ---- */

static void row_fini(node_row_t *row) {
    for (size_t i = 0; i < row->count; i++) free((char *)row->totals[i].name);
    free(row->host);
    free(row->name);
    free(row->hostname);
    free(row->folder);
    free(row->labels);
    free(row->reason);
    free(row->totals);
    free(row->free);
}

static void row_free(node_row_t *row) {
    row_fini(row);
    free(row);
}

/* ---- this node's own ---- */

static uint64_t store_units(uint64_t bytes) { return bytes * SCHED_UNIT; }

/* How many resources this node has; what it has free of each, in their order. */
static size_t own_free(node_t *n, int64_t *ret_free, size_t most) {
    size_t count = sched_resource_count(n->sched);
    for (size_t i = 0; i < count && i < most; i++) {
        const char *name;
        uint64_t total;
        int64_t available;
        sched_resource_at(n->sched, i, &name, &total, &available);
        ret_free[i] = available < 0 ? 0 : available;
    }
    if (count < most) ret_free[count] = (int64_t)store_units(node_extents_free_bytes(n));
    return count + 1;
}

static bool own_totals(node_t *n, node_row_t *row) {
    size_t count = sched_resource_count(n->sched);
    row->totals = calloc(count + 1, sizeof *row->totals);
    row->free = calloc(count + 1, sizeof *row->free);
    if (row->totals == NULL || row->free == NULL) return false;
    for (; row->count < count; row->count++) {
        frame_amount_t *amount = &row->totals[row->count];
        const char *name;
        int64_t available;
        sched_resource_at(n->sched, row->count, &name, &amount->amount, &available);
        if ((amount->name = strdup(name)) == NULL) return false;
    }
    row->totals[count] =
        (frame_amount_t){.name = strdup(STORE), .amount = store_units(n->config.store_bytes)};
    if (row->totals[count].name == NULL) return false;
    row->count++;
    own_free(n, row->free, row->count);
    return true;
}

static bool own_texts(node_t *n, node_row_t *row) {
    const node_cluster_t *c = n->cluster;
    char host[TEXT_MAX + 1] = "127.0.0.1", hostname[TEXT_MAX + 1] = "";
    if (c != NULL) snprintf(host, sizeof host, "%s", c->host);
    if (gethostname(hostname, sizeof hostname - 1) != 0) hostname[0] = 0;
    const char *name = n->config.cluster.name, *labels = sched_labels(n->sched);
    row->host = strdup(host);
    row->hostname = strdup(hostname);
    row->name = strdup(name != NULL ? name : host);
    row->folder = strdup(n->session.dir != NULL ? n->session.dir : "");
    row->labels = strdup(labels != NULL ? labels : "");
    return row->host != NULL && row->hostname != NULL && row->name != NULL && row->folder != NULL &&
           row->labels != NULL;
}

static bool own_row(node_t *n, node_row_t *row) {
    *row = (node_row_t){.incarnation = n->incarnation,
                        .since_ms = n->started_ms,
                        .pid = (int32_t)getpid(),
                        .port = n->cluster != NULL ? mesh_port(n->cluster->mesh) : 0,
                        .is_head = n->config.cluster.join == NULL};
    return own_texts(n, row) && own_totals(n, row);
}

/* ---- cards ---- */

static void text_put(base_writer_t *w, const char *text) {
    size_t size = strnlen(text, TEXT_MAX);
    base_put_number(w, size, 2);
    base_put_bytes(w, text, size);
}

static void card_put(base_writer_t *w, const node_row_t *row) {
    base_put_number(w, CARD_VERSION, 1);
    text_put(w, row->host);
    base_put_number(w, row->port, 2);
    text_put(w, row->name);
    text_put(w, row->hostname);
    text_put(w, row->folder);
    base_put_number(w, row->is_head, 1);
    base_put_number(w, (uint32_t)row->pid, 4);
    base_put_number(w, row->since_ms, 8);
    text_put(w, row->labels);
    base_put_number(w, row->count, 1);
    for (size_t i = 0; i < row->count; i++) {
        text_put(w, row->totals[i].name);
        base_put_number(w, row->totals[i].amount, 8);
    }
}

mob_status_t node_roster_card(node_t *n, size_t most, uint8_t **ret_bytes, size_t *ret_size) {
    node_row_t row;
    base_writer_t w = {0};
    mob_status_t status = own_row(n, &row) ? MOB_OK : MOB_ENOMEM;
    if (status == MOB_OK) card_put(&w, &row);
    if (status == MOB_OK && (w.size > most || row.count > RESOURCES_MAX))
        status = base_fail(MOB_ELIMIT,
                           "what this node has does not fit into a cluster's list of nodes: %zu "
                           "bytes for its resources, labels and names, and there may be %zu. Give "
                           "it fewer resources and labels, or shorter names",
                           w.size, most);
    if (status == MOB_OK && (*ret_bytes = w.bytes = malloc(w.size)) == NULL) status = MOB_ENOMEM;
    if (status == MOB_OK) {
        w.size = 0;
        card_put(&w, &row);
        *ret_size = w.size;
    }
    row_fini(&row);
    return status;
}

/* NULL: it is not there, or no memory. */
static char *text_take(base_reader_t *r) {
    size_t size = base_take_number(r, 2);
    const char *bytes = base_take_bytes(r, size);
    return bytes != NULL && memchr(bytes, 0, size) == NULL ? strndup(bytes, size) : NULL;
}

static bool card_take(base_reader_t *r, node_row_t *row) {
    if (base_take_number(r, 1) != CARD_VERSION) return false;
    row->host = text_take(r);
    row->port = (uint16_t)base_take_number(r, 2);
    row->name = text_take(r);
    row->hostname = text_take(r);
    row->folder = text_take(r);
    row->is_head = base_take_number(r, 1) != 0;
    row->pid = (int32_t)base_take_number(r, 4);
    row->since_ms = base_take_number(r, 8);
    row->labels = text_take(r);
    size_t count = base_take_number(r, 1);
    if (count > RESOURCES_MAX) return false;
    row->totals = calloc(count + 1, sizeof *row->totals);
    row->free = calloc(count + 1, sizeof *row->free);
    if (row->totals == NULL || row->free == NULL) return false;
    for (; row->count < count; row->count++) {
        frame_amount_t *amount = &row->totals[row->count];
        if ((amount->name = text_take(r)) == NULL) return false;
        amount->amount = base_take_number(r, 8);
        row->free[row->count] = (int64_t)amount->amount;
    }
    return base_reader_is_done(r) && row->host != NULL && row->name != NULL &&
           row->hostname != NULL && row->folder != NULL && row->labels != NULL;
}

/* ---- the roster ---- */

void node_roster_init(node_roster_t *roster) { base_map_init(&roster->rows, sizeof(uint64_t)); }

void node_roster_fini(node_roster_t *roster) {
    for (size_t i = 0; i < roster->order.count; i++) row_free(roster->order.items[i]);
    vec_free(&roster->order);
    base_map_fini(&roster->rows);
}

node_row_t *node_roster_find(const node_roster_t *roster, uint64_t incarnation) {
    return base_map_get(&roster->rows, &incarnation);
}

void node_roster_words(const node_roster_t *roster, uint64_t incarnation, char *ret_words,
                       size_t capacity) {
    const node_row_t *row = node_roster_find(roster, incarnation);
    unsigned long long id = incarnation;
    if (row == NULL)
        snprintf(ret_words, capacity, "node_id %016llx", id);
    else
        snprintf(ret_words, capacity, "%.100s (%.100s:%u, node_id %016llx)%s%s",
                 *row->name != 0 ? row->name : row->hostname, row->host, row->port, id,
                 row->reason != NULL ? ": " : "", row->reason != NULL ? row->reason : "");
}

mob_status_t node_roster_add(node_roster_t *roster, uint64_t incarnation, const void *card,
                             size_t size) {
    base_reader_t r = {.at = card, .left = size};
    node_row_t *row = calloc(1, sizeof *row);
    if (row == NULL) return MOB_ENOMEM;
    row->incarnation = incarnation;
    if (!card_take(&r, row)) {
        row_free(row);
        return base_fail(MOB_EPROTO, "what node %016llx says of itself makes no sense",
                         (unsigned long long)incarnation);
    }
    if (node_roster_find(roster, incarnation) == NULL && vec_push(&roster->order, row)) {
        if (base_map_put(&roster->rows, &incarnation, row)) return MOB_OK;
        roster->order.count--;
    }
    row_free(row);
    return MOB_ENOMEM;
}

/* The one that died first goes, when there are many. */
static void dead_bound(node_roster_t *roster) {
    size_t dead = 0, first = 0;
    for (size_t i = roster->order.count; i-- > 0;)
        if (roster->order.items[i]->until_ms != 0) dead++, first = i;
    if (dead <= DEAD_MAX) return;
    node_row_t *row = roster->order.items[first];
    base_map_remove(&roster->rows, &row->incarnation);
    memmove(&roster->order.items[first], &roster->order.items[first + 1],
            (roster->order.count - first - 1) * sizeof *roster->order.items);
    roster->order.count--;
    row_free(row);
}

void node_roster_bury(node_roster_t *roster, uint64_t incarnation, const char *reason) {
    node_row_t *row = node_roster_find(roster, incarnation);
    if (row == NULL || row->until_ms != 0) return;
    row->until_ms = base_clock_wall_ns() / 1000000;
    row->reason = strdup(reason); /* without memory: no words */
    dead_bound(roster);
}

/* ---- what is free ---- */

size_t node_roster_usage_write(node_t *n, uint8_t *bytes, size_t capacity) {
    int64_t free_amounts[RESOURCES_MAX];
    size_t count = own_free(n, free_amounts, RESOURCES_MAX);
    base_writer_t w = {.bytes = bytes};
    if (count > RESOURCES_MAX || count * 8 > capacity) return 0;
    for (size_t i = 0; i < count; i++) base_put_number(&w, (uint64_t)free_amounts[i], 8);
    return w.size;
}

mob_status_t node_roster_usage_read(node_row_t *row, const void *bytes, size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    if (size != row->count * 8)
        return base_fail(MOB_EPROTO, "what node %s says it has free makes no sense", row->name);
    for (size_t i = 0; i < row->count; i++) {
        uint64_t amount = base_take_number(&r, 8), total = row->totals[i].amount;
        row->free[i] = (int64_t)(amount < total ? amount : total);
    }
    return MOB_OK;
}

/* ---- for questions ---- */

static void write_text(wire_writer_t *w, const char *text) {
    wire_write_str(w, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

/* `reason`: why it is dead, or has paused. */
static void row_write(const node_row_t *row, const char *reason, wire_writer_t *w) {
    char id[17];
    snprintf(id, sizeof id, "%016llx", (unsigned long long)row->incarnation);
    wire_write_tuple(w, 14);
    write_text(w, id);
    wire_write_bool(w, row->until_ms == 0);
    write_text(w, row->host);
    wire_write_int(w, row->port);
    write_text(w, row->name);
    write_text(w, row->hostname);
    wire_write_int(w, row->pid);
    wire_write_bool(w, row->is_head);
    write_text(w, row->folder);
    write_text(w, row->labels);
    wire_write_int(w, (int64_t)row->since_ms);
    wire_write_int(w, (int64_t)row->until_ms);
    write_text(w, reason);
    wire_write_tuple(w, (uint32_t)row->count);
    for (size_t i = 0; i < row->count; i++) {
        wire_write_tuple(w, 3);
        write_text(w, row->totals[i].name);
        wire_write_float(w, (double)row->totals[i].amount / SCHED_UNIT);
        wire_write_float(w, (double)row->free[i] / SCHED_UNIT);
    }
}

void node_roster_write(node_t *n, wire_writer_t *w) {
    node_row_t own;
    const node_roster_t *roster = n->cluster != NULL ? &n->cluster->roster : NULL;
    bool has_own = own_row(n, &own);
    wire_write_tuple(w, (uint32_t)((roster != NULL ? roster->order.count : 0) + has_own));
    if (has_own) row_write(&own, n->cluster != NULL ? node_pause_words(n->cluster) : NULL, w);
    for (size_t i = 0; roster != NULL && i < roster->order.count; i++)
        row_write(roster->order.items[i], roster->order.items[i]->reason, w);
    row_fini(&own);
}
