/* What the user's environment variables say. */
#ifndef NODE_ENVIRONMENT_H
#define NODE_ENVIRONMENT_H

#include "node/types.h"

/* At the start. MOB_EINVAL, with words, if a variable has a value that it can't have. */
mob_status_t node_environment_read(node_t *node);

#endif
