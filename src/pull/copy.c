/*
 * Copies at this node, and the memory that they have.
 *
 *     NONE --admitted--> PULLING --last chunk--> SEALING --sealed--> COMPLETE
 *     PULLING --cancelled, another version--> LEAVING --let go of--> NONE
 *     COMPLETE --evicted, dropped, released--> LEAVING --> NONE
 *     NONE --made here--> COMPLETE
 *
 * A copy in state NONE that nobody wants is forgotten. `held_bytes` counts the copies that can't be
 * evicted: pinned by a want, primary, read by another node, or still in the hands of the bulk
 * thread. `used_bytes` counts all that have memory. The others among them are the cache, least
 * recently needed first.
 */
#include <stdlib.h>

#include "base/rule.h"
#include "pull/state.h"

copy_t *pull_copy_find(const pull_t *pull, const frame_id_t *id) {
    uint8_t key[PULL_ID_SIZE];
    pull_id_write(id, key);
    return base_map_get(&pull->copies, key);
}

copy_t *pull_copy_new(pull_t *pull, const frame_id_t *id) {
    copy_t *copy = pull_copy_find(pull, id);
    if (copy != NULL) return copy;
    uint8_t key[PULL_ID_SIZE];
    pull_id_write(id, key);
    copy = calloc(1, sizeof *copy);
    note_t *note = calloc(1, sizeof *note);
    if (copy == NULL || note == NULL || !base_map_put(&pull->copies, key, copy)) {
        free(copy);
        free(note);
        return NULL;
    }
    copy->id = *id;
    copy->note = note;
    note->copy = copy;
    ring_init(&copy->wants);
    ring_init(&copy->readings);
    return copy;
}

static void copy_forget(pull_t *pull, copy_t *copy) {
    uint8_t key[PULL_ID_SIZE];
    pull_id_write(&copy->id, key);
    base_map_remove(&pull->copies, key);
    ring_remove(&copy->look);
    if (ring_is_in(&copy->note->line))
        copy->note->copy = NULL; /* it is still to be said */
    else
        free(copy->note);
    free(copy->found);
    free(copy);
}

void pull_copy_free_all(pull_t *pull) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&pull->copies, &cursor, &key, &value)) {
        copy_t *copy = value;
        RING_EACH(link, &copy->readings) free(RING_OF(link, reading_t, of_copy));
        ring_remove(&copy->note->line);
        free(copy->note);
        free(copy->found);
        free(copy);
    }
}

bool pull_copy_has_memory(const copy_t *copy) { return copy->state != COPY_NONE; }

uint64_t pull_copy_bytes(const copy_t *copy) {
    return copy->is_made || copy->is_spilled ? 0 : copy->size;
}

static bool is_free_to_go(const copy_t *copy) {
    return copy->state == COPY_COMPLETE && copy->pins == 0 &&
           (ring_is_empty(&copy->readings) || !BASE_RULE(PULL_SOURCE_PINNED));
}

static void held_set(pull_t *pull, copy_t *copy, bool is_held) {
    if (copy->is_held == is_held) return;
    copy->is_held = is_held;
    if (is_held)
        pull->held_bytes += pull_copy_bytes(copy);
    else
        pull->held_bytes -= pull_copy_bytes(copy);
    pull->may_admit |= !is_held;
}

/* Its memory is free. */
static void copy_end(pull_t *pull, copy_t *copy) {
    held_set(pull, copy, false);
    pull->used_bytes -= pull_copy_bytes(copy);
    pull->may_admit = true;
    pull->ops->extent_free(pull->context, &copy->id);
    copy->state = COPY_NONE;
    copy->phase = PHASE_NONE;
    copy->have = 0;
    copy->is_made = copy->is_spilled = copy->is_primary = copy->is_unneeded = false;
    if (!copy->is_described && !ring_is_empty(&copy->wants)) pull_describe_ask(pull, copy);
}

static void leaving_update(pull_t *pull, copy_t *copy) {
    if (copy->is_letting_go) return;
    if (ring_is_empty(&copy->readings) || !BASE_RULE(PULL_SOURCE_PINNED)) copy_end(pull, copy);
}

void pull_copy_update(pull_t *pull, copy_t *copy) {
    if (copy->state == COPY_LEAVING) leaving_update(pull, copy);
    if (copy->is_unneeded && is_free_to_go(copy)) pull_copy_leave(pull, copy);
    bool is_going = is_free_to_go(copy) && !copy->is_primary;
    held_set(pull, copy, copy->state == COPY_NONE ? copy->pins > 0 : !is_going);
    ring_remove(&copy->cache);
    if (is_going)
        ring_push(&pull->cache, &copy->cache);
    else if (is_free_to_go(copy) && pull_copy_bytes(copy) > 0)
        ring_push(&pull->primaries, &copy->cache);
    if (copy->state == COPY_NONE && ring_is_empty(&copy->wants) && !copy->is_letting_go &&
        ring_is_empty(&copy->readings))
        copy_forget(pull, copy);
}

/* Of the cache it is said at once to itself: there may be any number, and nothing else of these
 * copies is under way. */
static void gave_up_tell(pull_t *pull, const copy_t *copy) {
    pull_message_t m = {.kind = PULL_GAVE_UP, .id = copy->id, .birth = copy->birth};
    if (!BASE_RULE(PULL_GAVE_UP_TOLD) || pull_is_dead(pull, copy->id.home)) return;
    if (copy->id.home == pull->self && copy->state == COPY_COMPLETE)
        pull_source_gave_up(pull, pull->self, &m);
    else
        pull_send(pull, copy->id.home, &m);
}

void pull_copy_leave(pull_t *pull, copy_t *copy) {
    if (copy->state == COPY_LEAVING || copy->state == COPY_NONE) return;
    gave_up_tell(pull, copy);
    pull_transfer_stop(pull, copy);
    pull_serve_end(pull, copy);
    pull_note_take(pull, copy);
    ring_remove(&copy->cache);
    copy->state = COPY_LEAVING;
    leaving_update(pull, copy);
}

bool pull_copy_evict(pull_t *pull, uint64_t bytes) {
    while (pull->used_bytes + bytes > pull->capacity) {
        if (ring_is_empty(&pull->cache)) return false;
        copy_t *copy = RING_OF(pull->cache.next, copy_t, cache);
        pull_copy_leave(pull, copy);
        pull_copy_update(pull, copy);
    }
    return true;
}

void pull_copy_spill(pull_t *pull) {
    if (pull->is_spilling || ring_is_empty(&pull->primaries)) return;
    pull->is_spilling = true;
    pull->ops->spill(pull->context, &RING_OF(pull->primaries.next, copy_t, cache)->id);
}

/* ---- the home's word ---- */

void pull_copy_keep(pull_t *pull, uint64_t from, const pull_message_t *m) {
    copy_t *copy = pull_copy_find(pull, &m->id);
    if (from != m->id.home) return;
    bool is_here = copy != NULL && copy->birth == m->birth && copy->version == m->version &&
                   (copy->state == COPY_COMPLETE || copy->state == COPY_SEALING);
    pull_send(
        pull, from,
        &(pull_message_t){.kind = PULL_KEPT, .id = m->id, .ticket = m->ticket, .flag = is_here});
    if (!is_here) return;
    copy->is_primary = true;
    copy->is_unneeded = false;
    pull_copy_update(pull, copy);
}

void pull_copy_release(pull_t *pull, uint64_t from, const pull_message_t *m) {
    copy_t *copy = pull_copy_find(pull, &m->id);
    if (from != m->id.home || copy == NULL || copy->version != m->version) return;
    if (!pull_copy_has_memory(copy)) return;
    copy->is_primary = false;
    /* What was made here is no cache: its memory is not of the wants'. */
    copy->is_unneeded |= m->flag || copy->is_made;
    pull_copy_update(pull, copy);
}

/* ---- the node's calls ---- */

mob_status_t pull_copy_made(pull_t *pull, const frame_id_t *id, uint32_t version, uint64_t size,
                            uint64_t now_ns) {
    pull->now_ns = now_ns;
    if (version == 0 || size == 0 || size > PULL_SIZE_MAX) return MOB_EINVAL;
    copy_t *copy = pull_copy_new(pull, id);
    if (copy == NULL) return MOB_ENOMEM;
    if (copy->state == COPY_COMPLETE && !copy->is_unneeded) return MOB_EEXISTS;
    if (copy->state == COPY_PULLING) pull_copy_retreat(pull, copy);
    if (copy->state != COPY_NONE || copy->is_letting_go) {
        pull_settle(pull);
        return MOB_ESPACE;
    }
    copy->state = COPY_COMPLETE;
    copy->birth = 0;
    copy->is_made = copy->is_primary = true;
    copy->version = version;
    copy->size = size;
    copy->have = copy->chunks = pull_chunks(size);
    pull_note_add(pull, copy);
    pull_copy_describe(pull, copy, version, size);
    pull_copy_update(pull, copy);
    pull_settle(pull);
    return MOB_OK;
}

mob_status_t pull_copy_drop(pull_t *pull, const frame_id_t *id, uint64_t now_ns) {
    pull->now_ns = now_ns;
    copy_t *copy = pull_copy_find(pull, id);
    bool has_home = !pull_is_dead(pull, id->home);
    if (copy == NULL || copy->state != COPY_COMPLETE || (copy->is_primary && has_home))
        return MOB_ESTALE;
    copy->is_primary = false;
    copy->is_unneeded = true;
    pull_copy_update(pull, copy);
    pull_settle(pull);
    return MOB_OK;
}

/* Its bytes are not counted any more. */
static void spilled(pull_t *pull, copy_t *copy) {
    bool was_held = copy->is_held;
    held_set(pull, copy, false);
    pull->used_bytes -= pull_copy_bytes(copy);
    copy->is_spilled = true;
    held_set(pull, copy, was_held);
    pull_copy_update(pull, copy);
}

mob_status_t pull_copy_spilled(pull_t *pull, const frame_id_t *id, uint64_t now_ns) {
    pull->now_ns = now_ns;
    pull->is_spilling = false;
    pull->may_admit = true;
    copy_t *copy = pull_copy_find(pull, id);
    bool may = copy != NULL && copy->state == COPY_COMPLETE && copy->pins == 0 &&
               ring_is_empty(&copy->readings);
    if (may && pull_copy_bytes(copy) > 0) spilled(pull, copy);
    return may ? MOB_OK : MOB_ESTALE;
}
