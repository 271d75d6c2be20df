/*
 * Whether the daemon runs, and what becomes of a question whose call has ended because it does not.
 * Any thread, unless it says otherwise.
 */
#ifndef CLIENT_PULSE_H
#define CLIENT_PULSE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "mobula.h"
#include "wire/message.h"

/* What this process knows of whether the daemon runs: see pulse.c. Shared by all threads. */
typedef struct {
    int pid;                            /* the daemon's; 0: not known */
    _Atomic uint64_t looked_ns, rounds; /* when a thread last looked, and `rounds` then */
    _Atomic uint32_t strikes;           /* looks in a row that found the daemon stopped */
} client_pulse_t;

/* How long an asker has seen no sign of the daemon. */
typedef struct {
    uint64_t rounds, looked_ns;
    uint32_t looks;
} client_quiet_t;

/* A question whose call has ended without the answer, which will come. Kind 0: there is none. */
typedef struct {
    wire_message_t request;
    uint64_t tag; /* of the block that the answer is written to; 0: there is none */
} client_owed_t;

/* Before the first look: the client is connected. */
void client_pulse_init(mob_client_t *c);
/* For a thread that waits, once a second or more often. MOB_ECLOSED: the daemon is gone.
 * MOB_ESTOPPED: it is stopped, and was for some seconds. */
mob_status_t client_daemon_look(mob_client_t *c);
/* Whether the last look said that the daemon is stopped. */
bool client_pulse_lost(const mob_client_t *c);
/* Before a wait: as client_daemon_look if the last look said so; else MOB_OK, for nothing. */
mob_status_t client_pulse_check(mob_client_t *c);
/* As client_daemon_look, for a thread that rang the daemon and waits for it alone. `quiet` is zero
 * at first. */
mob_status_t client_quiet_look(mob_client_t *c, client_quiet_t *quiet);
/* Under the mutex: the call that asked this ends without the answer. Whether the answer goes into
 * this block, which is then freed later. The answer has come: true if it is to such a question. */
void client_owed_note(mob_client_t *c, const wire_message_t *request);
bool client_owed_keeps(mob_client_t *c, uint64_t block, uint64_t tag);
bool client_owed_settle(mob_client_t *c, const wire_message_t *m);

#endif
