/*
 * Deadlocks: when the daemon looks, and what it says.
 *
 * A worker tells when a run of it has waited without a time limit for two seconds (WIRE_WAITS). The
 * daemon then looks every LOOK_MS, as long as any run stands still so. A look takes a picture of
 * everything that waits (tangle.c). What is tied in it is tied for good. But the picture is taken
 * while others go on, and so only a second one, a moment later, with the same runs in it is
 * believed. The driver is told of each run once.
 *
 * A run that waits comes up for air every second, and does not stand still for a moment then. So
 * the daemon stops looking when two looks in a row have found none.
 *
 * A look reads every record. So the next one waits at least a hundred times as long as the last
 * took: looking never takes more than a hundredth of the daemon's time.
 */
#include "node/deadlock.h"
#include "node/cluster/group_over.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "node/runname.h"
#include "node/state.h"
#include "node/tangle.h"

static const uint64_t AGE_NS = 5000000000;
enum { FIRST_MS = 3200, LOOK_MS = 5000, AGAIN_MS = 300, SLOWER = 100, MOST_LINES = 6 };

/* The runs of a picture that wait and are tied, and have waited for long enough to be told. */
typedef struct {
    VEC(const node_strand_t *) runs;
    const node_strand_t *youngest; /* the one that began to wait last */
    size_t fresh;                  /* those that the driver does not know of */
    uint64_t hash;                 /* a number for the set; 0: it is empty */
    uint64_t young_ms;             /* until the next one is old enough */
} node_tied_t;

/* ---- words ---- */

typedef struct {
    char *text;
    size_t size, capacity;
} words_t;

__attribute__((format(printf, 2, 3))) static void say(words_t *w, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int size = vsnprintf(w->text + w->size, w->capacity - w->size, format, args);
    va_end(args);
    if (size < 0) return;
    w->size += (size_t)size;
    if (w->size >= w->capacity) w->size = base_utf8_whole(w->text, w->capacity - 1);
    w->text[w->size] = 0;
}

/* A task's name and id, as its own runtime context gives it. */
static void strand_say(node_t *n, words_t *w, const node_strand_t *s) {
    char name[NODE_NAME_BYTES];
    if (s->group != NULL) {
        char id[2 * MOB_ID_SIZE + 1];
        node_group_id_text(s->group, id);
        say(w, "the placement group %s%s(%s)", s->group->name, *s->group->name ? " " : "", id);
        return;
    }
    node_task_t *t = n->tasks[s->record];
    if (t != NULL && t->generation == s->generation)
        node_task_name(n, t, name, sizeof name);
    else if (!node_record_name(n, s->record, name, sizeof name))
        snprintf(name, sizeof name, "?");
    const char *class_name = s->actor != NULL ? s->actor->name : "";
    say(w, "%s%s%s (task %016llx%08x%016llx)", class_name, *class_name ? "." : "", name,
        (unsigned long long)n->incarnation, s->record | 1u << 31,
        (unsigned long long)s->generation);
}

static const node_strand_t *missing_find(const node_tangle_t *g, const node_strand_t *s) {
    for (size_t i = 0; i < g->needs.count; i++) {
        if (&g->strands.items[g->needs.items[i].strand] != s) continue;
        const node_strand_t *p = node_tangle_producer(g, g->needs.items[i].ref);
        if (p != NULL && node_tangle_tied(g, p)) return p;
    }
    return NULL;
}

static void shape_say(words_t *w, const sched_job_t *job, uint32_t shape) {
    sched_amount_t demand[SCHED_NEEDS_MAX];
    size_t count = sched_shape_demand(job, shape, demand, SCHED_NEEDS_MAX);
    for (size_t i = 0; i < count && i < SCHED_NEEDS_MAX; i++)
        say(w, "%s%s: %g", i > 0 ? ", " : "", demand[i].name,
            (double)demand[i].amount / SCHED_UNIT);
}

/* What one that is not begun waits for. */
static void ready_say(node_t *n, words_t *w, const node_tangle_t *g, const node_strand_t *s) {
    const node_strand_t *missing = missing_find(g, s);
    if (missing != NULL) {
        say(w, ", which waits for its argument, actor or group, made by ");
        strand_say(n, w, missing);
    } else if (s->asks) {
        say(w, ", which waits for {");
        shape_say(w, s->job, s->shape);
        bool inside = sched_shape_where(s->job, s->shape)->group != NULL;
        say(w, inside ? "} in its placement group" : "}");
    } else if (s->actor != NULL) {
        say(w, ", which waits until the actor %s has a place for it", s->actor->name);
    }
}

/* One run that waits, and the first of those that it waits for. */
static void wait_say(node_t *n, words_t *w, const node_tangle_t *g, const node_strand_t *s) {
    const node_standing_t *standing = &g->waits.items[s->wait];
    uint64_t now = base_clock_mono_ns(), since = standing->wait.since_ns;
    say(w, "\n  ");
    strand_say(n, w, s);
    say(w, ", pid=%d, has waited for %.0f s for ", (int)standing->worker->pid,
        now > since ? (double)(now - since) / 1e9 : 0.0);
    for (uint32_t i = 0; i < standing->wait.listed; i++) {
        mob_ref_t ref = {.slot = standing->wait.slots[i],
                         .generation = standing->wait.generations[i]};
        const node_strand_t *p = node_tangle_producer(g, ref);
        if (p == NULL || !node_tangle_tied(g, p)) continue;
        strand_say(n, w, p);
        if (p->worker == 0) ready_say(n, w, g, p);
        break;
    }
    if (standing->wait.count > 1) say(w, "; and for %u more", (unsigned)standing->wait.count - 1);
}

static bool is_told(const node_t *n, const node_strand_t *s) {
    for (size_t i = 0; i < n->deadlock.told.count; i++)
        if (n->deadlock.told.items[i].slot == s->record &&
            n->deadlock.told.items[i].generation == s->generation)
            return true;
    return false;
}

/* The runs that were not told of before. */
static void knot_say(node_t *n, const node_tangle_t *g, const node_tied_t *tied) {
    words_t w = {.text = n->deadlock.text, .capacity = sizeof n->deadlock.text};
    size_t said = 0;
    say(&w, "A deadlock: tasks wait for each other, and none of them can go on.");
    for (size_t i = 0; i < tied->runs.count && said < MOST_LINES; i++) {
        if (is_told(n, tied->runs.items[i])) continue;
        wait_say(n, &w, g, tied->runs.items[i]);
        said++;
    }
    if (tied->fresh > said) say(&w, "\n  and %zu more tasks", tied->fresh - said);
    say(&w,
        "\nActors that call each other need async methods or max_concurrency. A task that holds "
        "what its own subtasks ask for must ask for less, or ray.init be given more.");
    if (!n->deadlock.raises) say(&w, " RAY_deadlock_raise=1 raises DeadlockError in the youngest.");
}

/* ---- looking ---- */

static uint64_t mix(uint64_t hash, uint64_t value) {
    return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15) ^ hash >> 29;
}

static uint64_t since_of(const node_tangle_t *g, const node_strand_t *s) {
    return g->waits.items[s->wait].wait.since_ns;
}

static void tied_find(node_t *n, const node_tangle_t *g, node_tied_t *tied) {
    uint64_t now = base_clock_mono_ns();
    for (size_t i = 0; i < g->strands.count; i++) {
        const node_strand_t *s = &g->strands.items[i];
        if (s->wait < 0 || !node_tangle_tied(g, s)) continue;
        uint64_t since = since_of(g, s), age = now > since ? now - since : 0;
        if (age < AGE_NS) {
            uint64_t left_ms = (AGE_NS - age) / 1000000 + 1;
            if (left_ms < tied->young_ms) tied->young_ms = left_ms;
            continue;
        }
        if (!vec_push(&tied->runs, s)) continue;
        if (tied->youngest == NULL || since > since_of(g, tied->youngest)) tied->youngest = s;
        tied->fresh += !is_told(n, s);
        tied->hash = mix(mix(mix(tied->hash, s->record), s->generation), since) | 1;
    }
}

/* Twice the same: it is certain. */
static void tied_tell(node_t *n, const node_tangle_t *g, const node_tied_t *tied) {
    const node_strand_t *s = tied->youngest;
    if (tied->fresh > 0 || n->deadlock.raises) knot_say(n, g, tied);
    if (tied->fresh > 0)
        node_text_send(g->waits.items[s->wait].worker->job, MOB_MESSAGE_WARN, 0, "",
                       n->deadlock.text, strlen(n->deadlock.text));
    if (n->deadlock.raises)
        node_client_tell(g->waits.items[s->wait].worker,
                         (wire_message_t){.deadlock = {WIRE_DEADLOCK, .record = s->record,
                                                       .generation = s->generation,
                                                       .since_ns = since_of(g, s)}});
    n->deadlock.told.count = 0;
    for (size_t i = 0; i < tied->runs.count; i++)
        (void)vec_push(&n->deadlock.told,
                       ((mob_ref_t){.slot = tied->runs.items[i]->record,
                                    .generation = tied->runs.items[i]->generation}));
}

/* Returns the time until the next look, in ms. */
static uint64_t tangle_judge(node_t *n, const node_tangle_t *g) {
    node_tied_t tied = {.young_ms = LOOK_MS};
    tied_find(n, g, &tied);
    uint64_t next_ms = tied.young_ms;
    bool news = tied.fresh > 0 || (tied.hash != 0 && n->deadlock.raises);
    if (news && tied.hash == n->deadlock.seen)
        tied_tell(n, g, &tied);
    else if (news)
        next_ms = AGAIN_MS;
    n->deadlock.seen = tied.hash;
    vec_free(&tied.runs);
    return next_ms;
}

uint64_t node_deadlock_look(node_t *n) {
    node_tangle_t tangle;
    uint64_t next_ms = 0, began = base_clock_mono_ns();
    if (node_tangle_take(n, &tangle))
        next_ms = tangle_judge(n, &tangle);
    else if (tangle.waits.count > 0 || !n->deadlock.empty)
        next_ms = tangle.waits.count > 0 ? LOOK_MS : AGAIN_MS;
    n->deadlock.empty = tangle.waits.count == 0;
    node_tangle_fini(&tangle);
    uint64_t took_ms = (base_clock_mono_ns() - began) / 1000000;
    return next_ms > 0 && next_ms < took_ms * SLOWER ? took_ms * SLOWER : next_ms;
}

static void on_timer(uv_timer_t *timer) {
    node_t *n = timer->data;
    uint64_t next_ms = node_deadlock_look(n);
    if (next_ms > 0) uv_timer_start(timer, on_timer, next_ms, 0);
}

void node_deadlock_suspect(node_t *n) {
    node_deadlock_t *d = &n->deadlock;
    if (!d->started) {
        if (uv_timer_init(&n->loop, &d->timer) != 0) return;
        d->timer.data = n;
        d->started = true;
    }
    bool soon =
        uv_is_active((uv_handle_t *)&d->timer) && uv_timer_get_due_in(&d->timer) <= FIRST_MS;
    d->empty = false;
    if (!soon) uv_timer_start(&d->timer, on_timer, FIRST_MS, 0);
}
