/*
 * Out of memory onto disk: what goes, and how.
 *
 * What goes is chosen by extents, since only whole ones give space to others: an extent can go if
 * every block of it that is used holds a value that is SEALED, no error, and pinned by nobody. A
 * survey over the table of slots finds, for each extent, how much of it is such and when the newest
 * of it was used. Then the cheapest stretch that is long enough goes, where an extent costs its
 * size, the less the longer ago it was used. What will go next, longest unused first, is written
 * ahead and stays in memory: whoever needs space next finds values that have a copy, and need not
 * wait for the disk; and the disk is busy while others fill the space.
 *
 *   in memory, no copy     -> escaped, moving: a thread of libuv's writes it, with others, into one
 *                             file
 *   written                -> it has a copy; if it was written ahead, that is all. Else AWAY, then
 *                             a look at the pins. Pinned: AWAY is taken back, and the copy stays
 *                             good, for a value does not change. Not pinned: its block is freed
 *   in memory, with a copy -> the same at once, without writing
 *   dropped meanwhile      -> what was written of it is of no use, and is punched out of the file
 *
 * The thread reads the arena while others go on: a value does not change, and if it is freed
 * meanwhile, nobody will ask for what was written. Everything else happens in the loop's own
 * thread. What one folder can't take goes to the next at once (folder.c). A file goes when nothing
 * in it is needed any more; a piece of it is given back to the disk before that.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node/cluster/pulling.h"
#include "node/space/survey.h"

static const uint64_t BATCH_BYTES = 128 << 20, EXTRA_BYTES = 16 << 20, FILE_BYTES = 256 << 20,
                      DISK_PAUSE_NS = 100000000, DEMAND_NS = 200000000, PUNCH_BYTES = 64 << 10;

enum { RECENT = 32, AHEAD_PARTS = 4 };

typedef struct {
    uv_work_t work;
    node_t *node;
    node_file_t *file;
    VEC(store_spill_item_t) items;
    uint64_t bytes, size;
    size_t folder, tries; /* the place of its folder, and how many could not take it */
    bool ahead, cached;
    uint64_t took_ns;
    int error;
} write_t;

/* ---- files ---- */

static node_file_t *file_new(node_t *n, size_t folder) {
    node_file_t *file = calloc(1, sizeof *file);
    const char *dir = n->folders.items.items[folder].path;
    if (file != NULL &&
        asprintf(&file->path, "%s/%llu", dir, (unsigned long long)n->spill.next_file++) >= 0)
        return file;
    free(file);
    return NULL;
}

static void file_check(node_t *n, node_file_t *file) {
    if (file->live > 0) return;
    node_folder_file_remove(n, file->path);
    free(file);
}

static void item_punch(node_t *n, node_file_t *file, const store_spill_item_t *item) {
    if (item->bytes >= PUNCH_BYTES) node_folder_file_punch(n, file->path, item);
}

void node_copy_drop(node_t *n, node_object_t *o) {
    node_copy_t *copy = o->copy;
    o->copy = NULL;
    if (--copy->file->live > 0)
        item_punch(n, copy->file, &copy->item);
    else
        file_check(n, copy->file);
    free(copy);
}

/* ---- what goes ---- */

typedef struct {
    uint32_t longest_ms; /* that anything was not used */
    bool copied_only;
} price_t;

/* An extent costs its size; what was used last RECENT times as much as what was not used for
 * longest. */
static double price_of(const node_t *n, const node_survey_t *e, uint64_t granule,
                       const void *context) {
    const price_t *p = context;
    if (!e->can_go || (p->copied_only && e->copied < e->units)) return -1;
    double recent = 1 - (double)e->idle_ms / ((double)p->longest_ms + 1);
    return (double)n->books.extents[granule].size * (1 + (RECENT - 1) * recent);
}

static uint32_t longest_of(const node_t *n, const node_survey_t *extents) {
    uint32_t longest = 0;
    for (uint64_t g = 0; g < n->config.store_bytes / SHM_GRANULE; g = node_survey_next(n, g))
        if (n->books.extents[g].size != 0 && extents[g].can_go && extents[g].idle_ms > longest)
            longest = extents[g].idle_ms;
    return longest;
}

typedef struct {
    uint32_t granule, idle_ms;
} idler_t;

static int idler_compare(const void *a, const void *b) {
    uint32_t x = ((const idler_t *)a)->idle_ms, y = ((const idler_t *)b)->idle_ms;
    return x > y ? -1 : x < y;
}

typedef enum { ALL_GO, COPIED_GO, UNCOPIED_AHEAD } choice_t;

static bool is_chosen_from(const node_survey_t *e, choice_t choice) {
    bool copied = e->copied == e->units;
    return e->can_go && !e->goes && (choice == ALL_GO || copied == (choice == COPIED_GO));
}

/* Chooses longest unused first, until `bytes` are chosen. */
static void idlest_choose(const node_t *n, node_survey_t *extents, uint64_t bytes,
                          choice_t choice) {
    VEC(idler_t) idlers = {0};
    for (uint64_t g = 0; g < n->config.store_bytes / SHM_GRANULE; g = node_survey_next(n, g))
        if (n->books.extents[g].size != 0 && is_chosen_from(&extents[g], choice))
            (void)vec_push(&idlers,
                           ((idler_t){.granule = (uint32_t)g, .idle_ms = extents[g].idle_ms}));
    if (idlers.count > 0) qsort(idlers.items, idlers.count, sizeof *idlers.items, idler_compare);
    uint64_t chosen = 0;
    for (size_t i = 0; i < idlers.count && chosen < bytes; i++) {
        node_survey_t *e = &extents[idlers.items[i].granule];
        *(choice == UNCOPIED_AHEAD ? &e->ahead : &e->goes) = true;
        chosen += n->books.extents[idlers.items[i].granule].size;
    }
    vec_free(&idlers);
}

/* Chooses what is written ahead, until `bytes` have a copy or will have one; if little is missing,
 * it is left for another time, since large writes are better than small ones. */
static void ahead_choose(const node_t *n, node_survey_t *extents, uint64_t bytes) {
    uint64_t copied = n->spill.ahead_flying;
    for (uint64_t g = 0; g < n->config.store_bytes / SHM_GRANULE; g = node_survey_next(n, g))
        if (n->books.extents[g].size != 0 && extents[g].can_go && !extents[g].goes &&
            extents[g].copied == extents[g].units)
            copied += n->books.extents[g].size;
    if (copied + bytes / AHEAD_PARTS <= bytes)
        idlest_choose(n, extents, bytes - copied, UNCOPIED_AHEAD);
}

static uint64_t ahead_bytes(const node_t *n) {
    return BATCH_BYTES < n->config.store_bytes / 4 ? BATCH_BYTES : n->config.store_bytes / 4;
}

/* Marks what is to go, so that `size` bytes in one piece are free, and what is to be written ahead.
 * False: that is not to be had. */
static bool choose(node_t *n, node_survey_t *extents, uint64_t size, bool copied_only) {
    node_stretch_t s = {0};
    price_t price = {.longest_ms = longest_of(n, extents), .copied_only = copied_only};
    if (!node_survey_stretch(n, extents, size, price_of, &price, &s)) return false;
    for (uint64_t g = s.first; g < s.end; g = node_survey_next(n, g))
        extents[g].goes = n->books.extents[g].size != 0;
    /* A little more than was asked for, of what costs nothing: who needs much does not come for
     * each bit. */
    idlest_choose(n, extents,
                  EXTRA_BYTES < n->config.store_bytes / 16 ? EXTRA_BYTES
                                                           : n->config.store_bytes / 16,
                  COPIED_GO);
    if (!copied_only) ahead_choose(n, extents, ahead_bytes(n));
    return true;
}

/* ---- how it goes ---- */

/* It has a copy: out of memory, unless somebody reads it. How many bytes that frees. */
static uint64_t copied_leave(node_t *n, node_object_t *o, uint64_t block, uint64_t bytes) {
    if (!node_object_leave(n, o)) return 0;
    n->slots[o->slot].value.large.block = 0; /* nobody reads it while it is AWAY */
    node_pulling_left(n, o);
    shm_block_release(n->arena.base, n->extents, block, shm_tag(false, o->slot, o->generation));
    return bytes;
}

static void write_run(uv_work_t *work) {
    write_t *w = work->data;
    uint64_t begin = base_clock_mono_ns();
    w->error = store_spill_write(w->file->path, w->cached, w->node->incarnation,
                                 w->node->arena.base, w->items.items, w->items.count, &w->size);
    w->took_ns = base_clock_mono_ns() - begin;
}

static void spill_tell(node_t *n) {
    if (n->spill.quiet_bytes == 0 || n->spill.bytes < n->spill.quiet_bytes ||
        n->spill.bytes < n->spill.told_bytes)
        return;
    n->spill.told_bytes = 2 * n->spill.bytes; /* each time that it has doubled */
    double seconds = (double)(n->spill.busy_ns ? n->spill.busy_ns : 1) / 1e9;
    node_warn(n, "Spilled %llu MiB, %llu objects, write throughput %.0f MiB/s",
              (unsigned long long)(n->spill.bytes >> 20), (unsigned long long)n->spill.objects,
              (double)n->spill.bytes / 0x1p20 / seconds);
}

/* The value was written: from now on it has a copy. */
static void item_commit(node_t *n, node_file_t *file, const store_spill_item_t *item, bool ahead) {
    node_object_t *o = n->objects[item->slot];
    if (o == NULL || o->generation != item->generation || !o->moving) {
        item_punch(n, file, item);
        return;
    }
    o->moving = false;
    node_copy_t *copy = malloc(sizeof *copy);
    if (copy != NULL) {
        *copy = (node_copy_t){.file = file, .item = *item};
        o->copy = copy;
        file->live++;
        if (!ahead) copied_leave(n, o, item->block, item->bytes);
    }
    node_object_settle(n, o);
}

static void write_free(write_t *w) {
    vec_free(&w->items);
    free(w);
}

static void ahead_go_on(node_t *n);

static void disk_failed(node_t *n, int error, const char *path) {
    n->spill.disk_error = error;
    n->spill.disk_error_ns = base_clock_mono_ns();
    snprintf(n->spill.disk_error_path, sizeof n->spill.disk_error_path, "%s", path);
}

static bool write_start(node_t *n, write_t *w);

static void write_done(uv_work_t *work, int status) {
    (void)status;
    write_t *w = work->data;
    node_t *n = w->node;
    uint64_t now = base_clock_mono_ns();
    const char *folder = n->folders.items.items[w->folder].path;
    node_folder_write_end(n, w->folder, w->error);
    node_cache_written(&n->cache, w->cached, w->bytes, w->error == 0 ? w->took_ns : 0);
    if (--n->spill.writes == 0) n->spill.busy_ns += now - n->spill.begun_ns;
    if (w->ahead) n->spill.ahead_flying -= w->bytes;
    if (w->error != 0 && ++w->tries < n->folders.items.count) {
        node_file_t *failed = w->file;
        bool elsewhere = !n->ending && write_start(n, w);
        file_check(n, failed);
        if (elsewhere) return;
        w->file = NULL;
    }
    if (w->error == 0) {
        n->spill.disk_error = 0;
        node_space_disk_works(n);
        n->spill.bytes += w->bytes;
        n->spill.objects += w->items.count;
        for (size_t i = 0; i < w->items.count; i++)
            item_commit(n, w->file, &w->items.items[i], w->ahead);
        if (n->spill.writes == 0) spill_tell(n);
    } else {
        disk_failed(n, w->error, folder);
        for (size_t i = 0; i < w->items.count; i++) {
            node_object_t *o = n->objects[w->items.items[i].slot];
            if (o == NULL || o->generation != w->items.items[i].generation) continue;
            o->moving = false;
            node_object_settle(n, o);
        }
    }
    if (w->file != NULL) file_check(n, w->file);
    write_free(w);
    node_space_serve(n);
    if (n->pressure.paused) node_extents_give_back(n);
    /* The disk is not to stand still while others fill the space that was made. */
    if (n->spill.writes < AHEAD_PARTS && !n->ending && now - n->space.wanted_ns < DEMAND_NS)
        ahead_go_on(n);
}

static bool write_start(node_t *n, write_t *w) {
    w->node = n;
    w->work.data = w;
    w->folder = node_folder_choose(n);
    w->file = w->folder != SIZE_MAX ? file_new(n, w->folder) : NULL;
    if (w->file == NULL) return false;
    w->cached = w->file->cached = node_cache_writes(n, w->bytes);
    if (uv_queue_work(&n->loop, &w->work, write_run, write_done) != 0) {
        node_cache_written(&n->cache, w->cached, w->bytes, 0);
        free(w->file->path);
        free(w->file);
        return false;
    }
    if (n->spill.writes++ == 0) n->spill.begun_ns = base_clock_mono_ns();
    node_folder_write_begin(n, w->folder);
    if (w->ahead) n->spill.ahead_flying += w->bytes;
    return true;
}

typedef struct {
    const node_survey_t *extents;
    write_t *writes[2]; /* that are being filled: what goes, and what is written ahead */
    uint64_t bytes;     /* that are gone */
    bool may_write;
} mover_t;

static void mover_flush(node_t *n, mover_t *m, bool ahead) {
    write_t *w = m->writes[ahead];
    m->writes[ahead] = NULL;
    if (w == NULL) return;
    w->ahead = ahead;
    if (w->items.count > 0 && write_start(n, w)) return;
    for (size_t i = 0; i < w->items.count; i++) n->objects[w->items.items[i].slot]->moving = false;
    write_free(w);
}

static void item_move(node_t *n, const store_spill_item_t *item, uint64_t extent, uint32_t units,
                      void *context) {
    mover_t *m = context;
    (void)units;
    bool goes = m->extents[extent].goes, ahead = m->extents[extent].ahead;
    node_object_t *o = goes || ahead ? node_survey_claim(n, item, extent) : NULL;
    if (o == NULL) return;
    if (o->copy != NULL) {
        if (goes) m->bytes += copied_leave(n, o, item->block, item->bytes);
        return;
    }
    if (!m->may_write) return;
    /* What is written ahead comes in parts, so that the first of it is of use early. */
    uint64_t most = ahead ? ahead_bytes(n) / AHEAD_PARTS : FILE_BYTES;
    if (m->writes[ahead] != NULL && m->writes[ahead]->bytes + item->bytes > most)
        mover_flush(n, m, ahead);
    if (m->writes[ahead] == NULL && (m->writes[ahead] = calloc(1, sizeof **m->writes)) == NULL)
        return;
    if (!vec_push(&m->writes[ahead]->items, *item)) return;
    m->writes[ahead]->bytes += item->bytes;
    o->moving = true;
}

/* Moves what is marked. */
static node_spilled_t chosen_move(node_t *n, const node_survey_t *extents) {
    /* After a failure the disk is left alone for a moment: what has a copy can go nevertheless. */
    bool pause =
        n->spill.disk_error != 0 && base_clock_mono_ns() - n->spill.disk_error_ns < DISK_PAUSE_NS;
    bool dead, hung = node_folders_are_silent(n, &dead);
    mover_t m = {.extents = extents, .may_write = !pause && !hung};
    int error = m.may_write ? node_folders_make(n) : 0;
    if (error != 0) m.may_write = false;
    /* A disk that is merely slow is waited for, but not for ever. */
    if (dead) error = ETIMEDOUT;
    if (error != 0) disk_failed(n, error, node_folders_name(n));
    uint32_t before = n->spill.writes;
    node_survey_walk(n, item_move, &m);
    mover_flush(n, &m, false);
    bool writes = n->spill.writes > before;
    mover_flush(n, &m, true);
    return writes        ? NODE_SPILL_WRITES
           : m.bytes > 0 ? NODE_SPILL_FREED
           : n->spill.writes > before
               ? NODE_SPILL_WRITES /* only ahead; what was to go is in use by now */
           : m.may_write   ? NODE_SPILL_NOTHING
           : hung && !dead ? NODE_SPILL_WRITES
                           : NODE_SPILL_DISK;
}

static void ahead_go_on(node_t *n) {
    node_survey_t *extents = node_survey_make(n);
    if (extents == NULL) return;
    ahead_choose(n, extents, ahead_bytes(n));
    chosen_move(n, extents);
    free(extents);
}

node_spilled_t node_spill(node_t *n, uint64_t size, bool copied_only) {
    node_survey_t *extents = node_survey_make(n);
    node_spilled_t spilled = NODE_SPILL_NOTHING;
    if (extents != NULL && choose(n, extents, size, copied_only)) spilled = chosen_move(n, extents);
    free(extents);
    return spilled;
}

void node_spill_idlest(node_t *n, uint64_t bytes) {
    node_survey_t *extents = node_survey_make(n);
    if (extents == NULL) return;
    idlest_choose(n, extents, bytes, ALL_GO);
    chosen_move(n, extents);
    free(extents);
}
