/*
 * Values that are larger than the store: each in a file of its own, which the daemon makes and
 * keeps (node/space/large.c). large.c has the way of one.
 */
#ifndef CLIENT_LARGE_H
#define CLIENT_LARGE_H

#include "base/status.h"
#include "base/vec.h"
#include "mobula.h"
#include "wire/message.h"

/* A file for a value that this process writes: from when it asks for the file until it publishes
 * the value. */
typedef struct {
    uint32_t number;     /* by which this process and the daemon know the file */
    bool told;           /* the daemon has answered */
    unsigned char *base; /* where this process writes it; NULL: not mapped yet */
    uint64_t size;
} client_file_t;

/* A value that this process reads in place. It is mapped while this process has pinned its slot. */
typedef struct {
    mob_ref_t ref;
    const unsigned char *base;
    uint64_t size;
} client_map_t;

typedef struct {
    VEC(client_file_t) files;
    VEC(client_map_t) maps;
    uint32_t next_number;
} client_large_t;

/* ---- writing ---- */

/* Whether a value can't ever lie in the arena. Any thread. */
bool client_large_is(const mob_client_t *c, uint64_t size, uint32_t ref_count);
/* client_buffer_begin for a value in a file: the caller has set size, ref and ref_count. Under the
 * mutex. MOB_ESPACE: this thread is to call mob_space_wait. */
mob_status_t client_large_begin(mob_client_t *c, mob_buffer_t *buffer);
/* The daemon has sent WIRE_FILE. Under the mutex. */
void client_large_told(mob_client_t *c, const wire_message_t *m);
/* Whether this thread is to wait for a file; and that wait, as mob_space_wait. Not under the
 * mutex. */
bool client_large_awaits(mob_client_t *c);
mob_status_t client_large_wait(mob_client_t *c);
/* This thread does not want the file that it asked for. Not under the mutex. */
void client_large_forget(mob_client_t *c);
/* This process has written the file. `drop`: it will not publish it. Not under the mutex. */
void client_large_end(mob_client_t *c, uint32_t number, bool drop);

/* ---- reading ---- */

/* Where the value lies, if this process has mapped it; else NULL. Under the mutex. */
const unsigned char *client_large_at(const mob_client_t *c, mob_ref_t ref);
/* Maps it and pins its slot. Not under the mutex. MOB_EINTR: call again. */
mob_status_t client_large_open(mob_client_t *c, mob_ref_t ref);
/* This process does not pin the slot any more: takes the mapping off the list, for client_map_end.
 * Under the mutex. */
client_map_t client_large_unpinned(mob_client_t *c, uint32_t slot);
/* Unmaps; a base of NULL is fine. Any thread; a large mapping takes a while. */
void client_map_end(client_map_t map);

/* No thread writes any more. `forked`: this child did not inherit the writable mappings, and
 * something else may be in their place. */
void client_large_disconnect(mob_client_t *c, bool forked);
/* No thread reads any more either. */
void client_large_fini(mob_client_t *c);

#endif
