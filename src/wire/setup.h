/*
 * A job's setup: what a driver gives with its hello, for its workers. Bytes that stand alone, in a
 * sealed memfd: they may be longer than a packet (a sys.path of thousands of folders).
 *
 * The daemon reads all but the last part. It starts the process that workers are forked from with
 * the driver's command, environment and working directory. The last part is for the workers, in the
 * words of their own language, and the daemon never looks inside.
 */
#ifndef WIRE_SETUP_H
#define WIRE_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mobula.h"

enum { WIRE_SETUP_MAX = 16 << 20, WIRE_NAMESPACE_MAX = 255, WIRE_ENTRYPOINT_MAX = 1023 };

/* Lists end with NULL. Strings and lists lie in memory of whoever made the struct. */
typedef struct wire_setup {
    const char *folder;     /* where the driver works; "": unknown */
    const char *name_space; /* of its named actors */
    const char *entrypoint; /* the driver's command line, for people */
    const char *const *argv, *const *env, *const *preload; /* NULL: none */
    bool log_to_driver;
    const void *inner; /* for the workers */
    size_t inner_size;
} wire_setup_t;

/* How many bytes it takes; SIZE_MAX: more than there may be. */
size_t wire_setup_size(const wire_setup_t *setup);
/* Writes that many. */
void wire_setup_write(const wire_setup_t *setup, void *ret_bytes);
/* Reads `size` bytes that another process wrote, and that do not change any more. The strings are
 * views of `bytes`; *ret_lists, which the lists lie in, is the caller's to free. MOB_EPROTO: they
 * make no sense. MOB_ENOMEM. */
mob_status_t wire_setup_read(const void *bytes, size_t size, wire_setup_t *ret_setup,
                             void **ret_lists);
/* Where the part for the workers lies in them, as wire_setup_read finds it. */
mob_status_t wire_setup_inner(const void *bytes, size_t size, const void **ret_inner,
                              size_t *ret_size);

#endif
