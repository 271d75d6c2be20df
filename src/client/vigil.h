/* Long waits of runs, where the daemon sees them: vigil.c has the rules. Not under the mutex. */
#ifndef CLIENT_VIGIL_H
#define CLIENT_VIGIL_H

#include <stddef.h>

#include "mobula.h"
#include "shm/wait.h"

/* This thread is about to wait until `needed` of these are there. NULL: nobody need know yet. */
shm_wait_t *client_vigil_begin(mob_client_t *c, const mob_ref_t *refs, size_t count, size_t needed,
                               int64_t timeout_ms);
/* It is awake, and `wait` was not NULL. MOB_EDEADLOCK, with words: it waits in vain. */
mob_status_t client_vigil_look(mob_client_t *c);
/* It waits no more. MOB_EINTR: it may be called again soon, and goes on. */
void client_vigil_end(mob_client_t *c, shm_wait_t *wait, mob_status_t status);

#endif
