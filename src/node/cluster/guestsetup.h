/* What a driver's setup becomes on another node than its own. guestsetup.c has the rules. */
#ifndef NODE_CLUSTER_GUESTSETUP_H
#define NODE_CLUSTER_GUESTSETUP_H

#include "node/types.h"

/* Set for workers of guest jobs: the folder of the session that they are in. */
#define NODE_GUEST_VARIABLE "MOBULA_GUEST"

/* A setup for this node, held once, of a driver's setup in bytes, which may be anything.
 * `ret_word`: what its driver is to be told of it, to be freed; NULL: nothing. MOB_EPROTO,
 * MOB_ELIMIT, MOB_ENOMEM, MOB_ESYS, with words. */
mob_status_t node_guestsetup_new(node_t *node, const void *bytes, size_t size,
                                 node_setup_t **ret_setup, char **ret_word);

#endif
