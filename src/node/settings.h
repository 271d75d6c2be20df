/* What the user's environment variables say. */
#ifndef NODE_SETTINGS_H
#define NODE_SETTINGS_H

#include "node/types.h"

/* At the start. MOB_EINVAL, with words, if a variable has a value that it can't have. */
mob_status_t node_settings_read(node_t *node);

#endif
