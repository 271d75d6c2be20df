/*
 * An actor's life.
 *
 *                  made
 *   PENDING ----------------> ALIVE
 *      |  ended: again          |  ended: again
 *      +--------> RESTARTING <--+
 *      |            |  |  ^          RESTARTING -- made --> ALIVE
 *      |            |  +--+ ended: again
 *      |  ended     |  ended, for good
 *      +----------> DEAD <---- ALIVE
 *
 * A restart follows a death that was not meant: a crash, a signal, want of memory, or
 * ray.kill(no_restart=False), also while the constructor runs. Each takes one of `restarts_left`.
 * None follows
 *
 *   a kill for good, at whatever state it came: `killed` stays set
 *   an end on purpose (exit_actor, sys.exit(0)), and an error of the constructor
 *   a death while no handle is left and no call waits: nobody would miss it
 *
 * A process that died before it began the constructor says nothing about the actor: another one
 * takes its place at no cost, but not for ever (a creation that no worker can read ends each of
 * them).
 *
 * A restart follows at once. Only when some processes in a row died before they had answered a call
 * is there a pause, which grows up to a second: a constructor that crashes each time must not keep
 * a CPU busy for ever.
 *
 * Invariants
 *   DEAD is the end: nothing leads out of it
 *   ALIVE implies made; made is never taken back
 *   restarts + restarts_left = max_restarts, unless there is no end to them
 *   a call that was begun is run again only by one of its own retries, and one that was not begun
 *   is never failed while the actor comes back. So without retries no call runs twice
 */
#include "actor/life.h"

enum { MOST_UNBEGUN = 8, FRUITLESS_AT_ONCE = 4, MOST_PAUSE_MS = 1000 };

void actor_life_init(actor_life_t *life, int32_t max_restarts) {
    *life = (actor_life_t){.restarts_left = max_restarts < 0 ? -1 : max_restarts};
}

bool actor_life_may_restart(const actor_life_t *life) {
    return life->state != ACTOR_DEAD && !life->killed && life->restarts_left != 0;
}

void actor_life_made(actor_life_t *life) {
    if (life->state == ACTOR_DEAD) return;
    life->state = ACTOR_ALIVE;
    life->made = true;
}

void actor_life_kill(actor_life_t *life) { life->killed = true; }

/* Whether this death costs a restart, and there is one. */
static bool restart_take(actor_life_t *life, actor_end_t end) {
    if ((end != ACTOR_CRASHED && end != ACTOR_SHOT && end != ACTOR_UNBEGUN) ||
        !actor_life_may_restart(life))
        return false;
    if (life->fruitless < UINT32_MAX) life->fruitless++;
    if (life->restarts_left > 0) life->restarts_left--;
    life->restarts++;
    life->state = ACTOR_RESTARTING;
    return true;
}

void actor_life_answered(actor_life_t *life) { life->fruitless = 0; }

uint32_t actor_life_pause_ms(const actor_life_t *life) {
    if (life->fruitless <= FRUITLESS_AT_ONCE) return 0;
    uint32_t doublings = life->fruitless - FRUITLESS_AT_ONCE;
    return doublings < 10 ? 1u << doublings : MOST_PAUSE_MS;
}

bool actor_life_ended(actor_life_t *life, actor_end_t end, bool wanted) {
    if (life->state == ACTOR_DEAD) return false;
    bool again = wanted && !life->killed;
    if (again && end == ACTOR_UNBEGUN && life->unbegun < MOST_UNBEGUN) {
        life->unbegun++; /* PENDING or RESTARTING, as before */
        return true;
    }
    if (again && restart_take(life, end)) return true;
    life->state = ACTOR_DEAD;
    return false;
}

bool actor_call_again(int32_t *retries) {
    if (*retries == 0) return false;
    if (*retries > 0) --*retries;
    return true;
}

actor_fate_t actor_call_fate(const actor_life_t *life, bool begun, int32_t *retries) {
    if (life->state == ACTOR_DEAD) return ACTOR_CALL_DIES;
    return !begun || actor_call_again(retries) ? ACTOR_CALL_WAITS : ACTOR_CALL_UNAVAILABLE;
}
