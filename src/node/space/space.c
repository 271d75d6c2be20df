/*
 * Wants: clients and values that wait for memory.
 *
 * The daemon answers a request that it can't grant with MOB_ESPACE and notes it here as a want. An
 * object that is to come back from disk and finds no space is a want too. Objects that come back
 * are served first, since a client that waits for one may hold memory that it gives up when it has
 * read it. Then come clients, in the order in which they came. The daemon makes space for the first
 * want, and for others only if it can make none for the first. But it grants the others meanwhile
 * what fits without that, for they too may hold what the first one needs. Space comes from values
 * that were moved to disk (spill.c), that were dropped, or that were unpinned. No message tells of
 * the last two, so a timer looks while a want waits, and only then.
 *
 * What a client waited for is granted as an extent that is EMPTY and promised. The client finds it
 * when it looks. If the client has given up, the daemon takes the extent back like any that is not
 * used. A client that waits asks again once a second; a want that no client asks for any more is
 * forgotten.
 *
 * The daemon refuses a want when for FULL_NS nothing could be moved for it: MOB_EFULL; or when for
 * DISK_NS the disk has failed: MOB_EDISK. One at a time: a client that is refused may give up what
 * the others need. How long a want waited in vain is remembered for PAST_NS. So a thread that could
 * not ask for a while (another keeps Python's lock) goes on where it was. And when one of several
 * threads that ask for the same was refused, the others need not begin anew.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "node/cluster/pulling.h"
#include "node/space/compact.h"
#include "node/space/pins.h"
#include "node/space/restore.h"
#include "node/state.h"
#include "node/watch.h"

static const uint64_t FULL_NS = 3000000000u, DISK_NS = 1000000000, FORGET_NS = 1700000000,
                      REFUSE_NS = 500000000, SURVEY_NS = 10000000, LONGEST_NS = 320000000,
                      PAST_NS = 10000000000u;
enum {
    LOOK_MS = 10,
    MOST_WANTS = 256 /* of one client */,
    MOST_PAST = 256,
    MOST_HELPED = 4,
    MOST_COMPACTIONS = 3 /* for one want */
};

static void on_timer(uv_timer_t *timer) { node_space_serve(timer->data); }

mob_status_t node_space_start(node_t *n) {
    n->space.timer.data = n;
    return node_watch(uv_timer_init(&n->loop, &n->space.timer), "making a timer");
}

static void want_refuse(node_t *n, const node_want_t *w, mob_status_t status) {
    node_client_t *c = n->clients[w->client];
    if (w->client == 0)
        node_restore_refuse(n, w->ref, status);
    else if (c != NULL)
        node_client_tell(
            c, (wire_message_t){.extent = {WIRE_SPACE, .status = status, .offset = w->size}});
}

static bool want_is_same(const node_want_t *a, const node_want_t *b) {
    return a->client == b->client && a->size == b->size && a->ref.slot == b->ref.slot &&
           a->ref.generation == b->ref.generation;
}

static void past_remove(node_t *n, size_t index) {
    memmove(&n->space.past_wants.items[index], &n->space.past_wants.items[index + 1],
            (n->space.past_wants.count - index - 1) * sizeof *n->space.past_wants.items);
    n->space.past_wants.count--;
}

/* The want is no more, but a client that asks for the same again may go on. */
static void want_remember(node_t *n, const node_want_t *w) {
    if (w->stuck_ns == 0 && w->disk_ns == 0) return;
    if (n->space.past_wants.count >= MOST_PAST) past_remove(n, 0);
    (void)vec_push(&n->space.past_wants, *w);
}

static void want_go_on(node_t *n, node_want_t *want) {
    while (n->space.past_wants.count > 0 &&
           want->asked_ns - n->space.past_wants.items[0].asked_ns > PAST_NS)
        past_remove(n, 0);
    for (size_t i = 0; i < n->space.past_wants.count; i++) {
        if (!want_is_same(&n->space.past_wants.items[i], want)) continue;
        want->stuck_ns = n->space.past_wants.items[i].stuck_ns;
        want->disk_ns = n->space.past_wants.items[i].disk_ns;
        want->compactions = n->space.past_wants.items[i].compactions;
        past_remove(n, i);
        return;
    }
}

void node_space_want(node_t *n, uint32_t client, uint64_t size, uint64_t least, mob_ref_t ref,
                     bool goes_on) {
    node_want_t want = {.client = client,
                        .size = size,
                        .least = least,
                        .ref = ref,
                        .asked_ns = base_clock_mono_ns()};
    uint32_t has = 0;
    n->space.wanted_ns = want.asked_ns;
    for (size_t i = 0; i < n->space.wants.count; i++) {
        node_want_t *w = &n->space.wants.items[i];
        has += w->client == client;
        if (!want_is_same(w, &want)) continue;
        w->asked_ns = want.asked_ns;
        if (least < w->least) w->least = least;
        return;
    }
    if (goes_on) want_go_on(n, &want);
    if ((client != 0 && has >= MOST_WANTS) || !vec_push(&n->space.wants, want)) {
        want_refuse(n, &want, MOB_EFULL);
        return;
    }
    if (n->space.wants.count == 1) uv_timer_start(&n->space.timer, on_timer, 0, LOOK_MS);
}

static bool extent_serve(node_t *n, const node_want_t *w, uint64_t bytes) {
    node_client_t *c = n->clients[w->client];
    uint64_t offset, serial, size = shm_granule_round(bytes);
    if (node_extent_grant(n, w->client, size, true, &offset, &serial) != MOB_OK) return false;
    node_client_tell(c, (wire_message_t){.extent = {WIRE_SPACE, .status = MOB_OK, .offset = offset,
                                                    .size = size, .serial = serial}});
    return true;
}

/* Whether the client is gone; or the value is freed, in memory, or on its way there. */
static bool want_is_over(node_t *n, const node_want_t *w) {
    if (w->client != 0)
        return n->clients[w->client] == NULL || n->clients[w->client]->state != NODE_LIVE;
    node_object_t *o = node_object_known(n, w->ref);
    if (o == NULL || o->moving || !node_object_is_away(n, o)) return true;
    return o->copy == NULL && !node_pulling_waits(n, o);
}

/* True: the want is no more. */
static bool want_serve(node_t *n, const node_want_t *w) {
    return w->client == 0 ? node_restore_begin(n, node_object_known(n, w->ref))
                          : extent_serve(n, w, w->size);
}

static void want_remove(node_t *n, size_t index) {
    memmove(&n->space.wants.items[index], &n->space.wants.items[index + 1],
            (n->space.wants.count - index - 1) * sizeof *n->space.wants.items);
    n->space.wants.count--;
}

void node_space_forget(node_client_t *c) {
    node_t *n = c->node;
    for (size_t i = n->space.wants.count; i-- > 0;)
        if (n->space.wants.items[i].client == c->number) want_remove(n, i);
    for (size_t i = n->space.past_wants.count; i-- > 0;)
        if (n->space.past_wants.items[i].client == c->number) past_remove(n, i);
}

/* Serves each want that can be served without making space: values from disk before the others,
 * each kind in its order. Returns the place of the first that was not served, or SIZE_MAX. */
static size_t all_serve(node_t *n) {
    size_t first = SIZE_MAX;
    /* the smallest that failed: a want as large fails too */
    uint64_t now = base_clock_mono_ns(), failed = UINT64_MAX;
    n->space.unbacked_short = false;
    for (int restores = 1; restores >= 0; restores--)
        for (size_t i = 0; i < n->space.wants.count;) {
            node_want_t w = n->space.wants.items[i];
            if ((w.client == 0) != restores) {
                i++;
                continue;
            }
            bool over = want_is_over(n, &w), forgotten = now - w.asked_ns > FORGET_NS;
            if (forgotten && !over) want_remember(n, &w);
            if (over || forgotten || (w.size < failed && want_serve(n, &w))) {
                want_remove(n, i);
                if (first != SIZE_MAX && first > i) first--;
                continue;
            }
            if (first == SIZE_MAX) first = i;
            if (w.size < failed) failed = w.size;
            i++;
        }
    return first;
}

void node_space_disk_works(node_t *n) {
    for (size_t i = 0; i < n->space.wants.count; i++) n->space.wants.items[i].disk_ns = 0;
    for (size_t i = 0; i < n->space.past_wants.count; i++) n->space.past_wants.items[i].disk_ns = 0;
}

/* Notes what came of making space for the want. */
static void want_note(node_want_t *w, node_spilled_t spilled, uint64_t now) {
    bool stuck = spilled == NODE_SPILL_NOTHING, disk = spilled == NODE_SPILL_DISK;
    w->stuck_ns = !stuck ? 0 : w->stuck_ns ? w->stuck_ns : now;
    if (spilled != NODE_SPILL_WRITES) w->disk_ns = !disk ? 0 : w->disk_ns ? w->disk_ns : now;
}

/* Makes space for the want. False: there is none to be made. */
static bool want_help(node_t *n, node_want_t *w, uint64_t now) {
    /* Within memory, if there is enough of it. */
    if (n->space.compacting) return true;
    if (w->compactions < MOST_COMPACTIONS && node_compact(n, shm_granule_round(w->size))) {
        w->compactions++;
        w->stuck_ns = 0;
        return true;
    }
    /* One write after the other; values that have a copy can go meanwhile. */
    bool writing = node_folders_are_written(n);
    node_spilled_t spilled = node_spill(n, shm_granule_round(w->size), writing);
    if (!writing) want_note(w, spilled, now);
    return spilled == NODE_SPILL_FREED || spilled == NODE_SPILL_WRITES;
}

void node_space_make(node_t *n, uint64_t size) {
    uint64_t now = base_clock_mono_ns();
    bool is_early = now < n->space.survey_ns || n->space.compacting;
    if (is_early || n->space.wants.count > 0) return; /* space is made for those */
    n->space.survey_ns = now + SURVEY_NS;
    (void)node_spill(n, shm_granule_round(shm_heap_extent_for(size)), node_folders_are_written(n));
}

/* Makes space for the first want; if there is none to be made for it, for the next ones: their
 * clients too may hold what it needs. */
static void some_help(node_t *n, size_t first) {
    uint64_t now = base_clock_mono_ns();
    if (now < n->space.survey_ns) return;
    bool helped = want_help(n, &n->space.wants.items[first], now);
    for (size_t i = 0, tried = 1; !helped && i < n->space.wants.count && tried < MOST_HELPED; i++)
        if (i != first) tried++, helped = want_help(n, &n->space.wants.items[i], now);
    /* A look at everything that finds nothing is not repeated at once. */
    uint64_t pause = n->space.survey_pause_ns == 0 ? SURVEY_NS : 2 * n->space.survey_pause_ns;
    n->space.survey_pause_ns = helped ? 0 : pause < LONGEST_NS ? pause : LONGEST_NS;
    n->space.survey_ns = now + n->space.survey_pause_ns;
}

/* Refuses a want that has waited in vain for long enough. */
static void one_refuse(node_t *n) {
    uint64_t now = base_clock_mono_ns();
    for (size_t i = 0; i < n->space.wants.count && now - n->space.refused_ns >= REFUSE_NS; i++) {
        node_want_t w = n->space.wants.items[i];
        bool full = w.stuck_ns != 0 && now - w.stuck_ns > FULL_NS,
             disk = w.disk_ns != 0 && now - w.disk_ns > DISK_NS;
        if (!full && !disk) continue;
        want_remove(n, i);
        if (w.least < w.size && extent_serve(n, &w, w.least)) return;
        n->space.refused_ns = now;
        want_remember(n, &w);
        want_refuse(n, &w, full ? MOB_EFULL : MOB_EDISK);
    }
}

void node_space_serve(node_t *n) {
    size_t first = all_serve(n);
    if (first != SIZE_MAX) {
        some_help(n, first);
        (void)all_serve(n); /* values that had copies are gone at once */
        one_refuse(n);
    }
    if (n->space.wants.count == 0) uv_timer_stop(&n->space.timer);
}

/* ---- who has it ---- */

typedef struct {
    uint64_t memory, disk, idle, pinned[SHM_MAX_CLIENTS];
} usage_t;

static void usage_survey(node_t *n, usage_t *u) {
    for (uint32_t w = STORE_SLOT_BLOCK / 64; w < (n->grants.slots.granted + 63) / 64; w++) {
        uint64_t here = 0, pinned = 0; /* bits of values in memory, and of those that are read */
        for (uint32_t i = w * 64; i < w * 64 + 64 && i < n->grants.slots.granted; i++) {
            uint64_t word = atomic_load_explicit(&n->slots[i].word, memory_order_acquire),
                     meta = n->slots[i].meta;
            if ((word & STORE_STATE) != STORE_SEALED || store_meta_inline(meta)) continue;
            if (n->objects[i] != NULL && node_object_is_gone(n, n->objects[i])) continue;
            bool on_disk = word & STORE_AWAY || store_meta_in_file(meta);
            *(on_disk ? &u->disk : &u->memory) += store_meta_size(meta);
            if (!on_disk) here |= (uint64_t)1 << (i % 64);
        }
        for (uint32_t k = 1; here != 0 && k < n->client_next; k++) {
            uint64_t bits =
                n->clients[k] != NULL ? here & node_client_pins_word(n->clients[k], w) : 0;
            pinned |= bits;
            for (; bits != 0; bits &= bits - 1)
                u->pinned[k] +=
                    store_meta_size(n->slots[w * 64 + (uint32_t)__builtin_ctzll(bits)].meta);
        }
        for (uint64_t idle = here & ~pinned; idle != 0; idle &= idle - 1)
            u->idle += store_meta_size(n->slots[w * 64 + (uint32_t)__builtin_ctzll(idle)].meta);
    }
}

static uint64_t largest_gap(const node_t *n) {
    uint64_t largest = 0;
    for (size_t i = 0; i < n->books.gaps.count; i++)
        if (n->books.gaps.items[i].size > largest) largest = n->books.gaps.items[i].size;
    return largest;
}

void node_space_text(node_t *n, uint64_t size, char *text, size_t capacity) {
    static usage_t u;
    memset(&u, 0, sizeof u);
    usage_survey(n, &u);
    size_t at = (size_t)snprintf(
        text, capacity,
        "the object store is full: %llu bytes were asked for, %llu of its %llu bytes are free, at "
        "most %llu of them in "
        "one piece. Objects in memory: %llu bytes, %llu of them not in use; on disk: %llu bytes",
        (unsigned long long)size, (unsigned long long)node_extents_free_bytes(n),
        (unsigned long long)n->config.store_bytes, (unsigned long long)largest_gap(n),
        (unsigned long long)u.memory, (unsigned long long)u.idle, (unsigned long long)u.disk);
    for (int told = 0; told < 3 && at < capacity; told++) {
        uint32_t most = 0;
        for (uint32_t k = 1; k < n->client_next; k++)
            if (u.pinned[k] > u.pinned[most]) most = k;
        if (most == 0) break;
        at += (size_t)snprintf(text + at, capacity - at, "; in use by %s %d: %llu bytes",
                               n->clients[most]->role == WIRE_DRIVER ? "the driver" : "the worker",
                               (int)n->clients[most]->pid, (unsigned long long)u.pinned[most]);
        u.pinned[most] = 0;
    }
    /* Where all of it is in use, the disk is not what is in the way. */
    bool disk = u.idle > 0 && n->spill.disk_error != 0 &&
                base_clock_mono_ns() - n->spill.disk_error_ns < 2 * FULL_NS;
    if (disk && at < capacity)
        at += (size_t)snprintf(text + at, capacity - at, "; writing %s failed: %s",
                               n->spill.disk_error_path,
                               n->spill.disk_error == ETIMEDOUT ? "the disk does not answer"
                                                                : strerror(n->spill.disk_error));
    if (at < capacity)
        snprintf(
            text + at, capacity - at,
            ". Drop references and arrays that are no longer needed, or give ray.init a larger "
            "object_store_memory%s",
            disk ? " or another object_spilling_directory" : "");
}
