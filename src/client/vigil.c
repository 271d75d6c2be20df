/*
 * A long wait of a run, and its place in shared memory where the daemon sees it (shm/wait.h).
 *
 * A thread that waits comes back to its caller every second (MOB_EINTR) and is called again with
 * the same objects. The second time that happens, what the run waits for is written down and the
 * daemon is told. It stands there only while the thread is inside of the call: a signal handler may
 * raise in between, and then nothing waits any more. The daemon may look at just that moment, and
 * believe that nothing waits: so it is told again from time to time.
 *
 * Not every wait can be part of a deadlock, as far as is known here. One with a time limit goes on
 * by itself. A thread that has not claimed the run is a helper of it, and the run itself may go on.
 * In an event loop several runs take turns.
 *
 * If the daemon finds that the run waits in vain, and is to raise for it, it says so on the ring
 * down (WIRE_DEADLOCK).
 */
#include "client/vigil.h"

#include "base/clock.h"
#include "client/client.h"

static const uint64_t LONG_NS = 1900000000, APART_NS = 500000000, TELL_NS = 10000000000;

/* What this thread waited for when it last came back without it. */
static _Thread_local struct {
    uint64_t incarnation, since_ns, left_ns;
    mob_ref_t last;
    size_t count;     /* 0: nothing */
    uint64_t told_ns; /* when the daemon was told last; 0: never */
} here;

static bool goes_on(const mob_client_t *c, mob_ref_t last, size_t count, uint64_t now) {
    return here.count == count && here.incarnation == c->incarnation &&
           here.last.slot == last.slot && here.last.generation == last.generation &&
           now - here.left_ns < APART_NS;
}

/* A place that no other thread has; NULL: there is none. Under the mutex. */
static shm_wait_t *place_take(mob_client_t *c) {
    shm_wait_t *places = (shm_wait_t *)(c->own_segment.base + SHM_CLIENT_WAITS);
    for (uint32_t i = 0; i < SHM_WAITS; i++) {
        if (c->wait_places >> i & 1) continue;
        c->wait_places |= (uint8_t)(1u << i);
        return &places[i];
    }
    return NULL;
}

static void place_fill(mob_client_t *c, shm_wait_t *w, mob_ref_t run, const mob_ref_t *refs,
                       size_t count, size_t needed) {
    shm_wait_clear(w);
    w->record = run.slot;
    w->generation = run.generation;
    w->since_ns = here.since_ns;
    w->count = w->listed = 0;
    for (size_t i = 0; i < count; i++) {
        if (client_is_sealed(c, refs[i])) continue;
        if (w->count++ >= SHM_WAIT_REFS) continue;
        w->slots[w->listed] = refs[i].slot;
        w->generations[w->listed++] = refs[i].generation;
    }
    size_t there = count - w->count;
    w->needed = (uint32_t)(needed > there ? needed - there : 1);
    shm_wait_publish(w);
}

shm_wait_t *client_vigil_begin(mob_client_t *c, const mob_ref_t *refs, size_t count, size_t needed,
                               int64_t timeout_ms) {
    mob_ref_t run;
    if (timeout_ms >= 0 || !client_lending_run(c, &run)) return NULL;
    uint64_t now = base_clock_mono_ns();
    mob_ref_t last = refs[count - 1];
    if (!goes_on(c, last, count, now)) {
        here.incarnation = c->incarnation;
        here.since_ns = now;
        here.last = last;
        here.count = count;
        here.told_ns = 0;
    }
    if (now - here.since_ns < LONG_NS) return NULL;
    pthread_mutex_lock(&c->mutex);
    shm_wait_t *w = place_take(c);
    if (w != NULL) place_fill(c, w, run, refs, count, needed);
    if (w != NULL && (here.told_ns == 0 || now - here.told_ns >= TELL_NS)) {
        client_push(c, wire_plain(WIRE_WAITS));
        here.told_ns = now;
    }
    pthread_mutex_unlock(&c->mutex);
    return w;
}

void client_vigil_end(mob_client_t *c, shm_wait_t *w, mob_status_t status) {
    if (w != NULL) {
        shm_wait_clear(w);
        pthread_mutex_lock(&c->mutex);
        shm_wait_t *places = (shm_wait_t *)(c->own_segment.base + SHM_CLIENT_WAITS);
        c->wait_places &= (uint8_t) ~(1u << (w - places));
        pthread_mutex_unlock(&c->mutex);
    }
    if (status == MOB_EINTR)
        here.left_ns = here.count > 0 ? base_clock_mono_ns() : 0;
    else
        here.count = 0;
}

/* In the daemon's words. */
static mob_status_t deadlock_raise(mob_client_t *c) {
    void *answer = NULL;
    size_t size = 0;
    if (mob_query(c, MOB_QUERY_DEADLOCK, 0, &answer, &size) != MOB_OK || size < 9)
        return base_fail(MOB_EDEADLOCK, "%s", mob_status_text(MOB_EDEADLOCK));
    /* a str in the direct encoding */
    base_fail(MOB_EDEADLOCK, "%.*s", (int)(size - 9), (const char *)answer + 9);
    free(answer);
    return MOB_EDEADLOCK;
}

mob_status_t client_vigil_look(mob_client_t *c) {
    mob_ref_t run;
    pthread_mutex_lock(&c->mutex);
    client_listen(c);
    bool raises = c->deadlocked.kind != 0 && client_lending_run(c, &run) &&
                  run.slot == c->deadlocked.deadlock.record &&
                  run.generation == c->deadlocked.deadlock.generation &&
                  here.since_ns == c->deadlocked.deadlock.since_ns;
    if (raises) c->deadlocked.kind = 0;
    pthread_mutex_unlock(&c->mutex);
    return raises ? deadlock_raise(c) : MOB_OK;
}
