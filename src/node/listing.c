/*
 * Lists. The daemon that is asked makes a list of its own, and asks all other nodes for theirs
 * (cluster/gather.h): who has what is known at its home alone. Then it answers. A row is
 *
 *     u64 home | u32 slot | u64 generation | u64 node | u8 state | u32 pid | u32 restarts
 *     u8 size, text | u8 size, text
 *
 * The texts are namespace and name of a named actor; of any actor its class, and how it died.
 * `node` is where it lives, or lived last. What a name's row does not have is 0.
 *
 * An actor is in the list of its home, wherever it lives: not in that of the node where it is a
 * guest (node_actor_note). The name of one whose home is dead is in that of the node where it
 * lives.
 */
#include "node/listing.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "node/cluster/actor_orphan.h"
#include "node/cluster/gather.h"
#include "node/state.h"

typedef struct {
    uint64_t home, generation, node;
    uint32_t slot, pid, restarts;
    uint8_t state;
    const char *first, *second; /* borrowed, without an end */
    size_t first_size, second_size;
} row_t;

/* ---- rows ---- */

static bool rows_grow(node_rows_t *rows, size_t size) {
    if (rows->size + size <= rows->capacity) return true;
    size_t capacity = 2 * (rows->size + size);
    uint8_t *bytes = realloc(rows->bytes, capacity);
    if (bytes == NULL) return false;
    rows->bytes = bytes;
    rows->capacity = capacity;
    return true;
}

void node_rows_fini(node_rows_t *rows) {
    free(rows->bytes);
    *rows = (node_rows_t){0};
}

static void row_write(base_writer_t *w, const row_t *row) {
    base_put_number(w, row->home, 8);
    base_put_number(w, row->slot, 4);
    base_put_number(w, row->generation, 8);
    base_put_number(w, row->node, 8);
    base_put_number(w, row->state, 1);
    base_put_number(w, row->pid, 4);
    base_put_number(w, row->restarts, 4);
    base_put_number(w, row->first_size, 1);
    base_put_bytes(w, row->first, row->first_size);
    base_put_number(w, row->second_size, 1);
    base_put_bytes(w, row->second, row->second_size);
}

static bool row_add(node_rows_t *rows, const row_t *row) {
    base_writer_t w = {0};
    row_write(&w, row);
    if (!rows_grow(rows, w.size)) return false;
    w = (base_writer_t){.bytes = rows->bytes + rows->size};
    row_write(&w, row);
    rows->size += w.size;
    rows->count++;
    return true;
}

static row_t row_take(base_reader_t *r) {
    row_t row = {.home = base_take_number(r, 8)};
    row.slot = (uint32_t)base_take_number(r, 4);
    row.generation = base_take_number(r, 8);
    row.node = base_take_number(r, 8);
    row.state = (uint8_t)base_take_number(r, 1);
    row.pid = (uint32_t)base_take_number(r, 4);
    row.restarts = (uint32_t)base_take_number(r, 4);
    row.first_size = base_take_number(r, 1);
    row.first = base_take_bytes(r, row.first_size);
    row.second_size = base_take_number(r, 1);
    row.second = base_take_bytes(r, row.second_size);
    return row;
}

mob_status_t node_rows_add(node_rows_t *rows, const void *bytes, size_t size, uint32_t count) {
    base_reader_t r = {.at = bytes, .left = size};
    for (uint32_t i = 0; i < count && !r.short_of; i++)
        if (row_take(&r).state > CONTROL_ACTOR_DEAD) return MOB_EPROTO;
    if (!base_reader_is_done(&r)) return MOB_EPROTO;
    if (size == 0) return MOB_OK;
    if (!rows_grow(rows, size)) return MOB_ENOMEM;
    memcpy(rows->bytes + rows->size, bytes, size);
    rows->size += size;
    rows->count += count;
    return MOB_OK;
}

uint32_t node_rows_piece(const node_rows_t *rows, size_t at, size_t most, size_t *ret_size) {
    base_reader_t r = {.at = rows->bytes + at, .left = rows->size - at};
    uint32_t count = 0;
    *ret_size = 0;
    while (r.left > 0) {
        (void)row_take(&r);
        size_t size = rows->size - at - r.left;
        if (count > 0 && size > most) break;
        *ret_size = size;
        count++;
    }
    return count;
}

/* ---- this node's own ---- */

bool node_rows_add_name(node_rows_t *rows, frame_id_t id, const char *space, const char *name) {
    row_t row = {.home = id.home,
                 .slot = id.number,
                 .generation = id.generation,
                 .first = space,
                 .first_size = strlen(space),
                 .second = name,
                 .second_size = strlen(name)};
    return row_add(rows, &row);
}

static bool name_add(node_t *n, node_rows_t *rows, const control_name_t *name) {
    frame_id_t id = {n->incarnation, name->actor.slot, name->actor.generation};
    return node_rows_add_name(rows, id, name->name_space, name->name);
}

static bool actor_add(node_t *n, node_rows_t *rows, const control_actor_t *a) {
    row_t row = {.home = n->incarnation,
                 .slot = a->id.slot,
                 .generation = a->id.generation,
                 .node = a->node,
                 .state = (uint8_t)a->state,
                 .pid = (uint32_t)a->pid,
                 .restarts = a->restarts,
                 .first = a->name,
                 .first_size = strlen(a->name),
                 .second = a->cause,
                 .second_size = strlen(a->cause)};
    return row_add(rows, &row);
}

/* Who wants names, until the control state has answered. */
typedef struct {
    node_t *node;
    node_listed_fn listed;
    void *context;
    char space[MOB_NAME_MAX + 1];
} wish_t;

static void on_names(void *context, const control_reply_t *reply) {
    wish_t wish = *(wish_t *)context;
    node_rows_t rows = {0};
    mob_status_t status = reply->status;
    free(context);
    for (size_t i = 0; status == MOB_OK && i < reply->count; i++)
        if (!name_add(wish.node, &rows, &reply->names[i])) status = MOB_ENOMEM;
    if (status == MOB_OK && !node_orphans_list(wish.node, wish.space, &rows)) status = MOB_ENOMEM;
    wish.listed(wish.context, status, &rows);
    node_rows_fini(&rows);
    wish.node->again = true;
}

static mob_status_t names_list(node_t *n, const char *space, node_listed_fn listed, void *context) {
    wish_t *wish = malloc(sizeof *wish);
    if (wish == NULL) return MOB_ENOMEM;
    *wish = (wish_t){.node = n, .listed = listed, .context = context};
    snprintf(wish->space, sizeof wish->space, "%s", space);
    n->again = true;
    mob_status_t status = control_name_list(n->control, CONTROL_NAME_ACTOR,
                                            space[0] != 0 ? space : NULL, on_names, wish);
    if (status != MOB_OK) free(wish);
    return status;
}

mob_status_t node_listing_own(node_t *n, node_list_t what, const char *space, node_listed_fn listed,
                              void *context) {
    if (what == NODE_LIST_NAMES) return names_list(n, space, listed, context);
    node_rows_t rows = {0};
    mob_status_t status = MOB_OK;
    for (size_t i = 0; status == MOB_OK && i < control_actor_count(n->control); i++)
        if (!actor_add(n, &rows, control_actor_at(n->control, i))) status = MOB_ENOMEM;
    listed(context, status, &rows);
    node_rows_fini(&rows);
    return MOB_OK;
}

/* ---- the answer ---- */

static void id_write(wire_writer_t *w, uint64_t incarnation) {
    char text[17];
    snprintf(text, sizeof text, "%016" PRIx64, incarnation);
    wire_write_str(w, text, 16);
}

static void name_write(wire_writer_t *w, const row_t *row) {
    wire_write_tuple(w, 5);
    wire_write_str(w, row->first, row->first_size);
    wire_write_str(w, row->second, row->second_size);
    wire_write_int(w, row->slot);
    wire_write_int(w, (int64_t)row->generation);
    id_write(w, row->home);
}

static void actor_write(wire_writer_t *w, const row_t *row) {
    static const char *const states[] = {"PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD"};
    wire_write_tuple(w, 9);
    wire_write_int(w, row->slot);
    wire_write_int(w, (int64_t)row->generation);
    wire_write_str(w, row->first, row->first_size);
    wire_write_str(w, states[row->state], strlen(states[row->state]));
    wire_write_int(w, row->pid);
    wire_write_int(w, row->restarts);
    wire_write_str(w, row->second, row->second_size);
    id_write(w, row->home);
    id_write(w, row->node);
}

static void rows_write(wire_writer_t *w, node_list_t what, const node_rows_t *rows) {
    base_reader_t r = {.at = rows->bytes, .left = rows->size};
    wire_write_tuple(w, rows->count);
    while (r.left > 0) {
        row_t row = row_take(&r);
        what == NODE_LIST_NAMES ? name_write(w, &row) : actor_write(w, &row);
    }
}

static void on_own(void *context, mob_status_t status, const node_rows_t *rows) {
    if (status == MOB_OK) rows_write(context, NODE_LIST_ACTORS, rows);
}

void node_listing_write(node_t *n, wire_writer_t *w) {
    (void)node_listing_own(n, NODE_LIST_ACTORS, "", on_own, w);
}

/* Who asked. */
typedef struct {
    node_t *node;
    uint32_t client, epoch;
    node_list_t what;
    wire_message_t message;
} asker_t;

static void on_listed(void *context, mob_status_t status, const node_rows_t *rows) {
    asker_t *asker = context;
    node_client_t *c = asker->node->clients[asker->client];
    bool is_there = c != NULL && c->epoch == asker->epoch && c->state == NODE_LIVE;
    uint8_t *space = is_there ? node_question_space(c, &asker->message) : NULL;
    if (space != NULL) {
        wire_writer_t w = {.data = space, .capacity = asker->message.query.capacity};
        rows_write(&w, asker->what, rows);
        if (status == MOB_OK && w.size > w.capacity) status = MOB_ELIMIT;
        node_client_tell(c, wire_answer(status, w.size));
    }
    free(asker);
}

void node_listing_ask(node_client_t *c, const wire_message_t *m) {
    node_t *n = c->node;
    bool is_names = m->query.what == MOB_QUERY_NAMES;
    const char *space = is_names && m->query.argument == 0 ? c->job->setup->given.name_space : "";
    asker_t *asker = malloc(sizeof *asker);
    if (asker != NULL)
        *asker =
            (asker_t){n, c->number, c->epoch, is_names ? NODE_LIST_NAMES : NODE_LIST_ACTORS, *m};
    if (asker != NULL && node_gather(n, asker->what, space, on_listed, asker) == MOB_OK) return;
    free(asker);
    node_client_tell(c, wire_answer(MOB_ENOMEM, 0));
}
