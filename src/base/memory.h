/* How much memory this process and its children may use: the machine's, or less if a control group
 * says so. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdint.h>

#include "mobula.h"

/*
 * `root` is put before every path, see base/cpus.h; "" is the real machine. Files that are missing
 * or make no sense limit nothing. They read a dozen small files and may allocate. Safe in several
 * threads. MOB_ESYS: nothing at all could be found out.
 */

/* The least of the machine's memory and the limits of this process's control groups, v1 and v2, its
 * own and all above it. */
mob_status_t base_memory_limit(const char *root, uint64_t *ret_bytes);

/* How much more can be allocated before the machine runs short or a group reaches its limit (and
 * the kernel starts to kill). The page cache, which the kernel drops before that, counts as free. A
 * guess that another process can make wrong at any time: keep a reserve. */
mob_status_t base_memory_headroom(const char *root, uint64_t *ret_bytes);

/* Of the machine and the groups, the one that is fullest: what is used (the page cache aside, which
 * the kernel would drop), and how much that may be. */
mob_status_t base_memory_usage(const char *root, uint64_t *ret_used, uint64_t *ret_limit);

/* How much of the page cache the kernel has yet to write to disk: the machine's, or a group's,
 * whichever is more. */
mob_status_t base_memory_dirty(const char *root, uint64_t *ret_bytes);

/* How often the kernel has killed in these groups because they were full. */
uint64_t base_memory_kills(const char *root);

#endif
