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

/* A file that is to hold a value of ours, from when it is asked for until it is published. */
typedef struct {
    uint32_t number;     /* by which we and the daemon know it */
    bool told;           /* the daemon has answered */
    unsigned char *base; /* where we write it; NULL: not mapped yet */
    uint64_t size;
} client_file_t;

/* A value that is read in place. It is mapped while this process has pinned its slot. */
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
/* client_buffer_begin for such: size, ref and ref_count are set. Under the mutex. MOB_ESPACE: this
 * thread is to call mob_space_wait. */
mob_status_t client_large_begin(mob_client_t *c, mob_buffer_t *buffer);
/* By WIRE_FILE. Under the mutex. */
void client_large_told(mob_client_t *c, const wire_message_t *m);
/* Whether this thread was told to wait for a file; and that wait, as mob_space_wait. Not under the
 * mutex. */
bool client_large_awaits(mob_client_t *c);
mob_status_t client_large_wait(mob_client_t *c);
/* This thread does not want the file that it asked for. Not under the mutex. */
void client_large_forget(mob_client_t *c);
/* Nothing more is written. `drop`: nor will it be published. Not under the mutex. */
void client_large_end(mob_client_t *c, uint32_t number, bool drop);

/* ---- reading ---- */

/* Where the value lies, if it is mapped here; else NULL. Under the mutex. */
const unsigned char *client_large_at(const mob_client_t *c, mob_ref_t ref);
/* Maps it and pins its slot. Not under the mutex. MOB_EINTR: call again. */
mob_status_t client_large_open(mob_client_t *c, mob_ref_t ref);
/* The slot is not pinned any more: takes the mapping out, for client_map_end. Under the mutex. */
client_map_t client_large_unpinned(mob_client_t *c, uint32_t slot);
/* NULL is fine. Any thread: it takes a while for what is large. */
void client_map_end(client_map_t map);

/* Nobody writes any more. `forked`: what was being written is not mapped here, and something else
 * may be in its place. */
void client_large_disconnect(mob_client_t *c, bool forked);
/* Nobody reads any more either. */
void client_large_fini(mob_client_t *c);

#endif
