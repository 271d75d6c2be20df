/*
 * Folders take turns. One that has failed, or in which no write has ended for HUNG_NS, is left out
 * for a while if there are others. What takes long and nobody waits for (removing files, giving
 * pieces of them back, clearing away what dead sessions left) is a chore of a thread of libuv's.
 */
#include "node/space/folder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "node/state.h"

static const uint64_t FAILED_NS = 1000000000, HUNG_NS = 5000000000u, DEAD_NS = 30000000000u;

/* ---- chores: somebody else waits for the disk ---- */

typedef struct {
    uv_work_t work;
    enum {
        CHORE_REMOVE, /* the file goes */
        CHORE_PUNCH,  /* the item's part of it goes */
        CHORE_CLEAR,  /* what sessions left in this folder that are over: it may be very much */
    } what;
    char *path;
    store_spill_item_t item;
} chore_t;

static void chore_run(uv_work_t *work) {
    chore_t *chore = work->data;
    if (chore->what == CHORE_REMOVE)
        unlink(chore->path);
    else if (chore->what == CHORE_PUNCH)
        store_spill_punch(chore->path, &chore->item);
    else
        base_folder_clear(chore->path, "mobula_spill_");
}

static void chore_done(uv_work_t *work, int status) {
    (void)status;
    chore_t *chore = work->data;
    free(chore->path);
    free(chore);
}

/* The path is TAKEN. */
static void chore_start(node_t *n, chore_t what) {
    chore_t *chore = what.path != NULL ? malloc(sizeof *chore) : NULL;
    if (chore == NULL) {
        free(what.path);
        return;
    }
    *chore = what;
    chore->work.data = chore;
    if (uv_queue_work(&n->loop, &chore->work, chore_run, chore_done) != 0)
        chore_done(&chore->work, 0);
}

void node_folder_file_remove(node_t *n, char *path) {
    chore_start(n, (chore_t){.what = CHORE_REMOVE, .path = path});
}

void node_folder_file_punch(node_t *n, const char *path, const store_spill_item_t *item) {
    chore_start(n, (chore_t){.what = CHORE_PUNCH, .path = strdup(path), .item = *item});
}

/* ---- folders ---- */

static bool is_among(const node_t *n, const char *path) {
    for (size_t i = 0; i < n->folders.items.count; i++)
        if (strcmp(n->folders.items.items[i].path, path) == 0) return true;
    return false;
}

void node_folders_clear(node_t *n) {
    for (size_t i = 0; i < n->config.spill_dirs.count; i++)
        chore_start(n,
                    (chore_t){.what = CHORE_CLEAR, .path = strdup(n->config.spill_dirs.items[i])});
}

int node_folders_make(node_t *n) {
    if (n->folders.items.count > 0) return 0;
    if (n->config.spill_dirs.count == 0 && !vec_push(&n->config.spill_dirs, n->session.dir))
        return ENOMEM;
    int error = ENOMEM;
    for (size_t i = 0; i < n->config.spill_dirs.count; i++) {
        char *path;
        if (asprintf(&path, WIRE_SPILL_FOLDER, n->config.spill_dirs.items[i],
                     (unsigned long long)n->incarnation) < 0)
            break;
        bool good = !is_among(n, path);          /* the same one twice */
        if (good && base_folder_own(path) < 0) { /* the descriptor stays open until we end */
            error = errno;
            good = false;
        }
        if (!good || !vec_push(&n->folders.items, ((node_folder_t){.path = path}))) free(path);
    }
    return n->folders.items.count > 0 ? 0 : error;
}

const char *node_folders_name(const node_t *n) {
    return n->folders.items.count > 0       ? n->folders.items.items[0].path
           : n->config.spill_dirs.count > 0 ? n->config.spill_dirs.items[0]
                                            : n->session.dir;
}

void node_folders_end(node_t *n) {
    for (size_t i = 0; i < n->folders.items.count; i++)
        base_folder_remove(n->folders.items.items[i].path);
}

/* ---- who answers ---- */

static uint64_t silent_ns(const node_folder_t *f) {
    return f->writes > 0 ? base_clock_mono_ns() - f->moved_ns : 0;
}

bool node_folders_are_written(const node_t *n) {
    for (size_t i = 0; i < n->folders.items.count; i++)
        if (n->folders.items.items[i].writes > 0 && silent_ns(&n->folders.items.items[i]) < HUNG_NS)
            return true;
    return false;
}

bool node_folders_are_silent(node_t *n, bool *ret_dead) {
    bool hung = n->folders.items.count > 0, dead = hung;
    for (size_t i = 0; i < n->folders.items.count; i++) {
        node_folder_t *f = &n->folders.items.items[i];
        uint64_t silent = silent_ns(f);
        if (silent >= HUNG_NS && !f->told)
            node_warn(n, "Writing to %s has not ended for %d s", f->path,
                      (int)(HUNG_NS / 1000000000));
        f->told = silent >= HUNG_NS;
        hung &= silent >= HUNG_NS;
        dead &= silent >= DEAD_NS;
    }
    *ret_dead = dead;
    return hung;
}

size_t node_folder_choose(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    for (int failed = 0; failed < 2; failed++)
        for (size_t tried = 0; tried < n->folders.items.count; tried++) {
            size_t i = n->folders.turn++ % n->folders.items.count;
            const node_folder_t *f = &n->folders.items.items[i];
            if (silent_ns(f) < HUNG_NS &&
                (failed || f->failed_ns == 0 || now - f->failed_ns > FAILED_NS))
                return i;
        }
    return SIZE_MAX;
}

void node_folder_write_begin(node_t *n, size_t folder) {
    node_folder_t *f = &n->folders.items.items[folder];
    if (f->writes++ == 0) f->moved_ns = base_clock_mono_ns();
}

void node_folder_write_end(node_t *n, size_t folder, int error) {
    node_folder_t *f = &n->folders.items.items[folder];
    f->writes--;
    f->moved_ns = base_clock_mono_ns();
    f->failed_ns = error ? f->moved_ns : 0;
}
