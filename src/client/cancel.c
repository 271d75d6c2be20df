/*
 * Cancelling tasks, and the runs of this worker that were cancelled.
 *
 * A run, as far as this worker knows:
 *
 *   running       claimed
 *   cancelled     WIRE_CANCEL_RUN was read that names its record and generation. By the thread that
 *                 reads the ring, under the mutex
 *   interrupted   the thread that breaks the run off has asked (mob_run_interrupt), and the daemon
 *                 was told. Once a run: what the run does when it is broken off is left alone
 *
 * A run that is over has generation 0, so a message that comes late finds nothing. The message and
 * the thread that asks are under one mutex, so the next run of this worker is never taken for the
 * one that the message names.
 *
 * A signal follows the message (node/cancel.c), for a thread that runs Python code, or waits in a
 * system call, reads no ring. The message itself wakes nobody: a thread that is woken from a wait
 * and waits again would miss the signal.
 */
#include <signal.h>
#include <stddef.h>

#include "client/client.h"

static client_run_t *run_of(mob_run_t *run) { return (client_run_t *)run; }

mob_status_t mob_cancel(mob_client_t *c, mob_ref_t ref, bool force, bool recursive) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    if (!client_slot_valid(ref.slot)) return base_fail(MOB_ESTALE, "the reference names no object");
    if (!client_is_pending(c, ref)) return MOB_OK;
    wire_message_t answer,
        m = {.cancel = {WIRE_CANCEL, .slot = ref.slot, .generation = ref.generation}};
    m.cancel.how = (force ? WIRE_CANCEL_FORCE : 0) | (recursive ? WIRE_CANCEL_RECURSIVE : 0);
    pthread_mutex_lock(&c->mutex);
    /* Only what is done by force can be refused. So ten thousand others are told without a wait. */
    if (force)
        status = client_ask(c, &m, WIRE_ANSWER, &answer);
    else
        client_push(c, m);
    pthread_mutex_unlock(&c->mutex);
    if (status != MOB_OK || !force || answer.answer.status == MOB_OK) return status;
    return base_fail(MOB_EINVAL, "force=True is not supported for actor tasks.");
}

void client_cancel_told(mob_client_t *c, uint32_t record, uint64_t generation) {
    for (client_run_t *run = c->runs; run != NULL; run = run->next) {
        if (run->record != record || run->generation != generation || run->cancelled) continue;
        run->cancelled = true;
        c->cancelled++;
    }
}

/* Under the mutex. */
static bool interrupt(mob_client_t *c, client_run_t *run) {
    if (!run->cancelled || run->interrupted || run->generation == 0) return false;
    run->interrupted = true;
    c->cancelled--;
    client_push(c, wire_about_record(WIRE_INTERRUPTED, run->record, run->generation));
    return true;
}

bool mob_run_is_cancelled(mob_client_t *c, mob_run_t *run) {
    if (client_check(c) != MOB_OK) return false;
    pthread_mutex_lock(&c->mutex);
    client_listen(c);
    bool cancelled = run_of(run)->cancelled;
    pthread_mutex_unlock(&c->mutex);
    return cancelled;
}

bool mob_run_interrupt(mob_client_t *c, mob_run_t *run) {
    if (client_check(c) != MOB_OK) return false;
    pthread_mutex_lock(&c->mutex);
    client_listen(c);
    bool begun = interrupt(c, run_of(run));
    pthread_mutex_unlock(&c->mutex);
    return begun;
}

mob_run_t *mob_run_cancelled(mob_client_t *c) {
    mob_run_t *found = NULL;
    pthread_mutex_lock(&c->mutex);
    for (client_run_t *run = c->cancelled > 0 ? c->runs : NULL; run != NULL && found == NULL;
         run = run->next)
        if (interrupt(c, run)) found = &run->run;
    pthread_mutex_unlock(&c->mutex);
    return found;
}

void client_cancel_ignore(void) {
    struct sigaction action;
    if (sigaction(WIRE_CANCEL_SIGNAL, NULL, &action) != 0 || action.sa_handler != SIG_DFL) return;
    action = (struct sigaction){.sa_handler = SIG_IGN};
    sigaction(WIRE_CANCEL_SIGNAL, &action, NULL);
}
