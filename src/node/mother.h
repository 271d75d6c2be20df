/*
 * Mothers: zygotes that fork other zygotes, so that a setup need not wait for an interpreter to
 * start.
 *
 * A mother has loaded what every zygote loads, and nothing of a user's. A zygote that is forked
 * from it takes over its own setup's environment and folder. That makes no difference as long as
 * both setups have the same command, and the same values of those variables that only the start of
 * a process reads.
 *
 * A node has a mother from its starter (`ray start`), for the drivers that join it, and gets others
 * when runtime environments are first used. There are only so many: the one goes for the next that
 * was not used for longest.
 */
#ifndef NODE_MOTHER_H
#define NODE_MOTHER_H

#include "node/types.h"
#include "wire/setup.h"

/* A mother with this setup, in the descriptor that it takes, also if it fails. It is started at
 * once. MOB_EPROTO, MOB_ENOMEM, MOB_ESYS, with words. */
mob_status_t node_mother_new(node_t *node, int fd);
/* The mother that can fork this setup's zygote; NULL: none can. Makes one for an environment, since
 * a job that uses one will use others. */
node_setup_t *node_mother_of(const node_setup_t *setup);
/* Whether a process that was started for one of them can become the other's. */
bool node_mother_fits(const wire_setup_t *mother, const wire_setup_t *child);

#endif
