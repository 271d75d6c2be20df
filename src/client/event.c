/*
 * Events: results and calls for programs that sleep in an event loop, on a file descriptor.
 *
 * A process sleeps on its bell, which is a futex and can't be polled. So a process that has events
 * has a thread that sleeps there in its place and, when the bell rings, writes to the eventfd of
 * each event that is armed. The owner of an event is the thread of its loop; only `armed`, `told`,
 * `seen` and `at_ns` are shared with the bell's thread.
 *
 *   owner                                        the bell's thread
 *   seen = rings; armed = 1; looks once more     armed, rings != seen, and at_ns is over:
 *   sleeps in its loop                               armed = 0; writes to the eventfd; told = 1
 *   awake: told = 0, reads the eventfd; looks
 *
 * No wake-up is lost: what happens after `seen` was read changes `rings`; what happened before is
 * found by the look after the arming. If the bell's thread sleeps on the bell, it went there with a
 * value of `rings` that is not newer than `seen`; if it does not sleep there, it compares again. It
 * sets `told` after the write, so that an owner that sees `told` finds the descriptor readable.
 *
 * While nothing is armed, rings are for other threads, and a ringer must not make a system call for
 * the bell's thread. So that thread parks, and the next arming wakes it. It parks only when a ring
 * (or a second without one) finds nothing armed, so that a program which awaits one result after
 * the other does not wake it each time.
 *
 * A look through the watches costs as much as there are watches, however few of them are over. So
 * after a long look the owner waits four times as long as that look took: looks never cost more
 * than a fifth of a CPU. If the owner has to leave out the look after the arming for that, `seen`
 * is what the bell said before the last whole look, and at_ns the time of the next. Then whatever
 * came in between counts as a ring; the owner rings the bell's thread for it, which tells at that
 * time.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"

/* A loop that sleeps is woken by way of the bell's thread, which takes twice as long as to wake a
 * thread that sleeps on the bell. So the loop looks for longer. */
static const uint64_t SPIN_NS = 120000, LONG_LOOK_NS = 50000;
enum { RESTS = 4 };

struct mob_event {
    mob_client_t *client; /* NULL: the session is over */
    mob_event_t *next;
    int fd, pid; /* pid: the process that opened the event. A forked child has only a copy, and not
                    the bell's thread */
    bool takes_runs;
    _Atomic bool armed, told;
    _Atomic bool watches_some; /* when it was armed, or since */
    _Atomic uint32_t seen;
    _Atomic uint64_t at_ns; /* the bell's thread does not tell before */
    /* the owner's */
    client_wait_t wait;     /* while it is armed */
    uint64_t since_ns;      /* when its look last found something */
    uint64_t not_before_ns; /* of the next look through the watches */
    uint64_t look_ns;       /* when this look began; 0: none has */
    uint32_t look_rings,
        last_rings; /* what the bell said before this look, and before the last whole one */
    /* of these, [kept, read) are gone: they were given out, or moved down */
    VEC(mob_watch_t *) watches;
    size_t kept, read;
};

/* Guards the list of events of every client, and their `client`. */
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;

static shm_bell_t *bell_of(mob_client_t *c) { return &c->node->bells[c->number]; }

/* ---- the bell's thread ---- */

static void event_tell(mob_event_t *e) {
    uint64_t one = 1;
    while (write(e->fd, &one, sizeof one) < 0 && errno == EINTR) {
    }
    atomic_store(&e->told, true);
}

/* Tells the events whose time has come. Returns whether any was armed; *timeout_ns becomes the time
 * until the next is due. */
static bool events_tell(mob_client_t *c, uint32_t rings, bool all, int64_t *timeout_ns) {
    bool any = false;
    uint64_t now = base_clock_mono_ns();
    for (mob_event_t *e = c->events_list; e != NULL; e = e->next) {
        if (!atomic_load(&e->armed)) continue;
        any = true;
        uint64_t at = atomic_load(&e->at_ns);
        bool rang = rings != atomic_load(&e->seen);
        bool lost = atomic_load(&e->watches_some) && client_pulse_lost(c);
        if ((rang && now >= at) || all || lost) {
            if (atomic_exchange(&e->armed, false)) event_tell(e);
        } else if (rang && (*timeout_ns < 0 || (int64_t)(at - now) < *timeout_ns)) {
            *timeout_ns = (int64_t)(at - now);
        }
    }
    return any;
}

static bool any_armed(mob_client_t *c) {
    for (mob_event_t *e = c->events_list; e != NULL; e = e->next)
        if (atomic_load(&e->armed)) return true;
    return false;
}

/* How long to sleep. A worker ends with the daemon: it looks whether the daemon runs only while it
 * awaits a result. A driver has to look whether the daemon is there. */
static int64_t look_up_ns(mob_client_t *c) {
    bool limited = c->role != WIRE_WORKER;
    atomic_store(&c->events_unlimited, !limited);
    for (mob_event_t *e = c->events_list; e != NULL; e = e->next)
        limited |= atomic_load(&e->watches_some);
    if (limited) atomic_store(&c->events_unlimited, false);
    return limited ? CLIENT_LOOK_UP_NS : -1;
}

static void *bell_watch(void *context) {
    mob_client_t *c = context;
    pthread_mutex_lock(&list_mutex);
    while (!c->events_stop) {
        uint32_t rings = shm_bell_listen(bell_of(c));
        int64_t timeout = look_up_ns(c);
        if (!events_tell(c, rings, atomic_load(&c->dead), &timeout)) {
            /* seq_cst: an owner arms, then reads `parked`; this thread sets `parked`, then looks
             * whether one is armed. */
            atomic_store(&c->events_parked, true);
            while (!c->events_stop && !any_armed(c))
                pthread_cond_wait(&c->events_cond, &list_mutex);
            atomic_store(&c->events_parked, false);
            continue;
        }
        pthread_mutex_unlock(&list_mutex);
        shm_bell_sleep(bell_of(c), rings, timeout);
        if (timeout >= 0 && shm_bell_listen(bell_of(c)) == rings) (void)client_daemon_look(c);
        pthread_mutex_lock(&list_mutex);
    }
    pthread_mutex_unlock(&list_mutex);
    return NULL;
}

static mob_status_t thread_start(mob_client_t *c) {
    if (c->events_thread_runs) return MOB_OK;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    int error = pthread_create(&c->events_thread, NULL, bell_watch, c);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) return base_fail(MOB_ESYS, "a thread for events: %s", strerror(error));
    c->events_thread_runs = true;
    return MOB_OK;
}

/* the thread that held it is not in the child */
void client_events_forked(void) { pthread_mutex_init(&list_mutex, NULL); }

void mob_events_end(mob_client_t *c) {
    if (atomic_load(&client_forked)) return; /* the thread and the lists are the parent's */
    pthread_mutex_lock(&list_mutex);
    c->events_stop = true;
    pthread_cond_signal(&c->events_cond);
    pthread_mutex_unlock(&list_mutex);
    if (c->events_thread_runs) {
        shm_bell_ring(bell_of(c));
        pthread_join(c->events_thread, NULL);
        c->events_thread_runs = false;
    }
    pthread_mutex_lock(&list_mutex);
    for (mob_event_t *e = c->events_list; e != NULL; e = e->next) {
        e->client = NULL;
        event_tell(e); /* so that its owner sees that there is nothing more to wait for */
    }
    c->events_list = NULL;
    pthread_mutex_unlock(&list_mutex);
}

/* ---- the owner ---- */

mob_status_t mob_event_open(mob_client_t *c, bool takes_runs, mob_event_t **ret_event) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    mob_event_t *e = calloc(1, sizeof *e);
    if (e == NULL) return MOB_ENOMEM;
    e->client = c;
    e->takes_runs = takes_runs;
    e->pid = (int)getpid();
    e->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (e->fd < 0) status = base_fail(MOB_ESYS, "a descriptor for events: %s", strerror(errno));
    pthread_mutex_lock(&list_mutex);
    if (status == MOB_OK) status = thread_start(c);
    if (status == MOB_OK) {
        e->next = c->events_list;
        c->events_list = e;
        c->has_loop |= takes_runs;
    }
    pthread_mutex_unlock(&list_mutex);
    if (status != MOB_OK) {
        if (e->fd >= 0) close(e->fd);
        free(e);
        return status;
    }
    *ret_event = e;
    return MOB_OK;
}

void mob_event_close(mob_event_t *e) {
    if (e == NULL) return;
    if (e->pid == (int)getpid()) {
        pthread_mutex_lock(&list_mutex);
        mob_client_t *c = e->client;
        for (mob_event_t **at = c != NULL ? &c->events_list : NULL; at != NULL && *at != NULL;
             at = &(*at)->next)
            if (*at == e) {
                *at = e->next;
                break;
            }
        pthread_mutex_unlock(&list_mutex);
    }
    close(e->fd);
    vec_free(&e->watches);
    free(e);
}

int mob_event_fd(const mob_event_t *e) { return e->fd; }

mob_status_t mob_event_watch(mob_event_t *e, mob_watch_t *watch) {
    if (e->client == NULL) return base_fail(MOB_ECLOSED, "the session is over");
    mob_status_t status = client_check(e->client);
    if (status != MOB_OK) return status;
    if (!client_slot_valid(watch->ref.slot))
        return base_fail(MOB_ESTALE, "the object that this reference named is gone");
    if (!vec_push(&e->watches, watch)) return MOB_ENOMEM;
    watch->forgotten = false;
    /* If the object is there already, no sealer will ring for it: the next look must not be left
     * out. */
    if (!store_slot_wait(&e->client->slots[watch->ref.slot], e->client->number))
        e->not_before_ns = 0;
    return MOB_OK;
}

void mob_event_forget(mob_watch_t *watch) { watch->forgotten = true; }

mob_watch_t *mob_event_drop(mob_event_t *e) {
    while (e->watches.count > 0) {
        size_t last = e->watches.count - 1;
        mob_watch_t *watch = vec_pop(&e->watches);
        if (last < e->kept || last >= e->read) return watch;
    }
    return NULL;
}

static bool is_over(const mob_client_t *c, const mob_watch_t *watch) {
    return watch->forgotten || c == NULL || !client_is_pending(c, watch->ref) ||
           atomic_load_explicit(&c->dead, memory_order_relaxed) || client_pulse_lost(c);
}

/* The client, unless the session is over or this is a forked child. */
static mob_client_t *client_of(const mob_event_t *e) {
    return atomic_load_explicit(&client_forked, memory_order_relaxed) ? NULL : e->client;
}

mob_watch_t *mob_event_next(mob_event_t *e) {
    mob_client_t *c = client_of(e);
    if (e->look_ns == 0) {
        uint64_t now = e->watches.count > 0 ? base_clock_mono_ns() : 0;
        if (now == 0 || (now < e->not_before_ns && c != NULL)) return NULL;
        e->look_ns = now;
        e->look_rings = c ? shm_bell_listen(bell_of(c)) : 0;
    }
    while (e->read < e->watches.count) {
        mob_watch_t *watch = e->watches.items[e->read++];
        if (is_over(c, watch)) return watch;
        e->watches.items[e->kept++] = watch;
    }
    uint64_t now = base_clock_mono_ns(), took = now - e->look_ns;
    e->not_before_ns = took > LONG_LOOK_NS ? now + RESTS * took : 0;
    e->last_rings = e->look_rings;
    e->watches.count = e->kept;
    e->kept = e->read = 0;
    e->look_ns = 0;
    return NULL;
}

/* While an event is armed and watches something, its owner counts as waiting. */
static void wait_settle(mob_event_t *e, mob_client_t *c) {
    atomic_store(&e->watches_some, e->watches.count > 0);
    /* seq_cst: the bell's thread sets events_unlimited, then looks for watches */
    if (e->watches.count > 0 && atomic_load(&c->events_unlimited)) shm_bell_ring(bell_of(c));
    if (e->watches.count > 0 && e->wait.period == 0) e->wait = client_waiting_begin(c);
}

static void event_arm(mob_event_t *e, mob_client_t *c) {
    wait_settle(e, c);
    uint32_t rings = shm_bell_listen(bell_of(c));
    /* the look that follows */
    bool left_out = e->watches.count > 0 && base_clock_mono_ns() < e->not_before_ns;
    uint32_t seen = left_out ? e->last_rings : rings;
    atomic_store(&e->seen, seen);
    atomic_store(&e->at_ns, left_out ? e->not_before_ns : 0);
    /* from now on callers ring */
    if (e->takes_runs) atomic_store(&c->node->leases[c->number].rests, 1);
    client_awake_set(c, false);
    atomic_store(&e->armed, true);
    /* the bell's thread may sleep beyond at_ns */
    if (seen != rings) shm_bell_ring(bell_of(c));
    if (!atomic_load(&c->events_parked)) return;
    pthread_mutex_lock(&list_mutex);
    pthread_cond_signal(&c->events_cond);
    pthread_mutex_unlock(&list_mutex);
}

static void event_disarm(mob_event_t *e, mob_client_t *c) {
    atomic_store(&e->armed, false);
    if (e->takes_runs) {
        atomic_store(&c->node->leases[c->number].rests, 0);
        client_work_tell(c);
    }
    client_waiting_end(c, e->wait);
    e->wait = (client_wait_t){0};
    client_awake_set(c, true);
}

bool mob_event_look_again(mob_event_t *e, bool found) {
    mob_client_t *c = client_of(e);
    uint64_t now = base_clock_mono_ns();
    if (atomic_exchange(&e->told, false)) {
        uint64_t count;
        while (read(e->fd, &count, sizeof count) < 0 && errno == EINTR) {
        }
        if (c != NULL) event_disarm(e, c);
        e->since_ns = now;
    }
    if (c == NULL) return false;
    if (found) {
        if (atomic_load(&e->armed)) event_disarm(e, c);
        e->since_ns = now;
        return true;
    }
    if (atomic_load(&e->armed)) {
        wait_settle(e, c); /* something may be watched since */
        return false;
    }
    if (e->watches.count == 0 && !e->takes_runs) return false;
    if (now < e->since_ns + SPIN_NS &&
        !atomic_exchange_explicit(&c->woke, false, memory_order_relaxed) && client_may_spin(c))
        return true;
    event_arm(e, c);
    return true;
}
