/*
 * Tasks that failed, kept for people (`ray replay`).
 *
 * Which: tasks and creations that raised, were ended for want of memory, or whose worker died, for
 * good. The worker says so in the record (WIRE_RAISED) and makes it KNOWN. Calls of actors are not
 * kept, for the actor has changed since.
 *
 * What: the frame, a use of the function and of each argument, and what the job gave its workers
 * (for Python, where modules are found). So they outlive the job. Not handles, nor arguments with
 * handles inside: they would keep their actors alive.
 *
 * Bounds: the newest COUNT_MOST tasks, and no more than a STORE_PART of the store for all of their
 * arguments; one whose arguments need more than that is kept without them, and says so.
 */
#include "node/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/state.h"

enum { COUNT_MOST = 100, STORE_PART = 16 };

struct node_replay {
    node_replay_t *older, *newer;
    uint64_t entry, bytes;
    uint8_t *frame;
    size_t frame_size;
    char *folder; /* where its job's driver worked */
    void *inner;  /* what its job gave its workers */
    size_t inner_size;
    mob_ref_t *kept; /* the function, then arguments; slot 0: it is not held */
    size_t num_kept;
    char note[160]; /* what is missing; "": nothing */
};

/* ---- its end ---- */

static void replay_free(node_t *n, node_replay_t *r) {
    node_replays_t *all = &n->replays;
    *(r->older != NULL ? &r->older->newer : &all->oldest) = r->newer;
    *(r->newer != NULL ? &r->newer->older : &all->newest) = r->older;
    all->count--;
    all->bytes -= r->bytes;
    for (size_t i = 0; i < r->num_kept; i++) node_object_unuse_ref(n, r->kept[i]);
    free(r->kept);
    free(r->frame);
    free(r->folder);
    free(r->inner);
    free(r);
}

static uint64_t bytes_most(const node_t *n) { return n->config.store_bytes / STORE_PART; }

static void replays_bound(node_t *n) {
    while (n->replays.count > COUNT_MOST || n->replays.bytes > bytes_most(n))
        replay_free(n, n->replays.oldest);
}

/* ---- its beginning ---- */

static uint64_t value_bytes(node_t *n, const node_object_t *o) {
    const store_slot_t *slot = &n->slots[o->slot];
    bool sealed =
        (atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) == STORE_SEALED;
    return sealed ? store_meta_size(slot->meta) : 0;
}

/* What its arguments have in the store, and what is inside them. False: one of them has handles
 * inside, or more references inside those. */
static bool arguments_bytes(node_t *n, const node_task_t *t, uint64_t *ret_bytes) {
    *ret_bytes = 0;
    for (uint32_t i = t->num_returns; i < t->num_returns + t->num_deps + t->num_refs; i++) {
        const node_object_t *o = node_object_known(n, t->refs[i]);
        if (o == NULL) continue;
        *ret_bytes += value_bytes(n, o);
        for (size_t k = 0; k < o->contents.count; k++) {
            const node_object_t *inner = node_object_known(n, o->contents.items[k]);
            if (inner == NULL) continue;
            if (inner->actor != NULL || inner->contents.count > 0) return false;
            *ret_bytes += value_bytes(n, inner);
        }
    }
    return true;
}

static void ref_keep(node_t *n, node_replay_t *r, mob_ref_t ref) {
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL || o->actor != NULL) return;
    node_object_use(o);
    r->kept[r->num_kept++] = ref;
}

static void refs_keep(node_t *n, const node_task_t *t, node_replay_t *r) {
    uint64_t bytes;
    ref_keep(n, r, t->function);
    if (!arguments_bytes(n, t, &bytes)) {
        snprintf(r->note, sizeof r->note,
                 "its arguments have handles of actors inside, or references in references, and "
                 "are not kept; they are gone unless something else holds them");
        return;
    }
    if (bytes > bytes_most(n)) {
        snprintf(r->note, sizeof r->note,
                 "its arguments have %.1f MiB, and up to %.1f MiB are kept (a %dth of the store); "
                 "they are gone unless something else holds them",
                 (double)bytes / 0x1p20, (double)bytes_most(n) / 0x1p20, STORE_PART);
        return;
    }
    for (uint32_t i = t->num_returns; i < t->num_returns + t->num_deps + t->num_refs; i++)
        ref_keep(n, r, t->refs[i]);
    r->bytes += bytes;
}

static node_replay_t *replay_new(node_t *n, const node_task_t *t) {
    const wire_setup_t *given = &t->job->setup->given;
    node_replay_t *r = calloc(1, sizeof *r);
    if (r == NULL) return NULL;
    r->entry = wire_entry(t->record, t->generation);
    r->inner_size = given->inner_size;
    r->inner = malloc(given->inner_size + 1);
    r->folder = strdup(given->folder);
    r->kept = malloc((1 + (size_t)t->num_deps + t->num_refs) * sizeof *r->kept);
    if (r->inner == NULL || r->folder == NULL || r->kept == NULL ||
        node_frame_write(n, t, &r->frame, &r->frame_size) != MOB_OK) {
        free(r->inner);
        free(r->folder);
        free(r->kept);
        free(r);
        return NULL;
    }
    if (given->inner_size > 0) memcpy(r->inner, given->inner, given->inner_size);
    r->bytes = sizeof *r + r->frame_size + r->inner_size;
    return r;
}

void node_replay_keep(node_t *n, node_task_t *t) {
    node_replays_t *all = &n->replays;
    node_replay_t *r = t->job != NULL && t->kind != MOB_ACTOR_CALL ? replay_new(n, t) : NULL;
    if (r == NULL) return; /* without memory there is none */
    refs_keep(n, t, r);
    r->older = all->newest;
    *(r->older != NULL ? &r->older->newer : &all->oldest) = r;
    all->newest = r;
    all->count++;
    all->bytes += r->bytes;
    replays_bound(n);
}

void node_replays_end(node_t *n) {
    while (n->replays.oldest != NULL) replay_free(n, n->replays.oldest);
}

/* ---- who asks ---- */

static void id_write(node_t *n, frame_id_t id, node_client_t *asker, wire_writer_t *w) {
    mob_ref_t ref = node_frame_ref(n, id);
    node_object_t *o = node_object_known(n, ref);
    if (o == NULL) ref = (mob_ref_t){0};
    if (o != NULL && asker->number != 0) node_object_hold(n, o, asker->number, false);
    wire_write_tuple(w, 2);
    wire_write_int(w, ref.slot);
    wire_write_int(w, (int64_t)ref.generation);
}

static void frame_tell(node_t *n, const node_replay_t *r, const frame_t *f, node_client_t *asker,
                       wire_writer_t *w) {
    wire_write_tuple(w, 8);
    wire_write_int(w, f->kind);
    wire_write_str(w, f->name, f->name_size);
    id_write(n, f->function, asker, w);
    wire_write_tuple(w, f->num_deps + f->num_refs);
    for (uint32_t i = 0; i < f->num_deps + f->num_refs; i++)
        id_write(n, f->ids[f->num_returns + i], asker, w);
    wire_write_bytes(w, f->args, f->args_size);
    wire_write_bytes(w, r->inner, r->inner_size);
    wire_write_str(w, r->folder, strlen(r->folder));
    wire_write_str(w, r->note, strlen(r->note));
}

void node_replay_write(node_client_t *asker, uint64_t entry, wire_writer_t *w) {
    node_t *n = asker->node;
    node_replay_t *r = n->replays.newest;
    frame_t frame;
    while (r != NULL && r->entry != entry) r = r->older;
    if (r == NULL || frame_read(r->frame, r->frame_size, &frame) != MOB_OK) {
        wire_write_tuple(w, 0);
        return;
    }
    frame_tell(n, r, &frame, asker, w);
    frame_fini(&frame);
}

void node_replay_hint(const node_task_t *t, char *ret_text, size_t size) {
    const node_t *n = t->job->node;
    char id[2 * MOB_ID_SIZE + 1];
    snprintf(id, sizeof id, "%016llx%08x%016llx", (unsigned long long)n->incarnation,
             t->record | 1u << 31, (unsigned long long)t->generation);
    snprintf(ret_text, size, n->config.stays ? "ray replay %s" : "ray.util.replay(\"%s\")", id);
}
