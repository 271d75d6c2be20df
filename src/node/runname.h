/* The name of what a worker runs, for people. */
#ifndef NODE_RUNNAME_H
#define NODE_RUNNAME_H

#include "node/types.h"

/* The task or actor that the worker runs, or ran last; "" if none is known. NODE_NAME_BYTES are
 * written at most. */
void node_run_name(node_client_t *worker, char *ret_name);

#endif
