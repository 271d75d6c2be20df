/*
 * What libuv answers. Making a handle can fail (no descriptor is left, the user may watch no more),
 * and so can its first start: every caller of these looks at the answer. Starting one again that is
 * open and has its callback does not fail.
 */
#ifndef NODE_WATCH_H
#define NODE_WATCH_H

#include <uv.h>

#include "base/status.h"

/* As a status, with words: what was tried, and why it did not succeed. */
static inline mob_status_t node_watch(int error, const char *what) {
    return error == 0 ? MOB_OK : base_fail(MOB_ESYS, "%s: %s", what, uv_strerror(error));
}

#endif
