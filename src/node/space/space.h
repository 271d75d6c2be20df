/* Clients and values that wait for space in the arena. space.c has the rules. */
#ifndef NODE_SPACE_SPACE_H
#define NODE_SPACE_SPACE_H

#include <uv.h>

#include "mobula.h"
#include "node/types.h"

/* A client, or a value on disk, that waits for space. */
typedef struct {
    uint32_t client; /* that asked for an extent of `size`; 0: the space is for the value of `ref`,
                        which is to come back */
    uint64_t size, least; /* in one piece; less will do if there is no more */
    mob_ref_t ref;
    uint64_t asked_ns;          /* when it was last asked for; clients ask again once a second */
    uint32_t compactions;       /* made for it */
    uint64_t stuck_ns, disk_ns; /* since when nothing can be moved for it, or not to the disk; 0: it
                                   can */
} node_want_t;

typedef struct {
    VEC(node_want_t) wants; /* in order */
    VEC(node_want_t)
    past_wants;          /* that were refused or forgotten a short while ago, in that
                            order */
    uv_timer_t timer;    /* runs while there are any wants */
    uint64_t wanted_ns;  /* when the last one came */
    uint64_t refused_ns; /* when one was last refused */
    uint64_t survey_ns, survey_pause_ns; /* not before: the last look found nothing */
    bool unbacked_short; /* what has no memory yet can't get any: the machine is short */
    bool compacting;     /* values are being moved together */
} node_space_t;

/* At the start. */
mob_status_t node_space_start(node_t *node);
/* Notes a want. `goes_on`: the client has asked before, and how long it waited in vain counts. */
void node_space_want(node_t *node, uint32_t client, uint64_t size, uint64_t least, mob_ref_t ref,
                     bool goes_on);
/* The daemon itself found no space for so many bytes, and tries again soon: some is made, if that
 * can be done. No want is noted. */
void node_space_make(node_t *node, uint64_t size);
/* The client is certainly dead: it wants nothing. */
void node_space_forget(node_client_t *client);
/* Grants wants that fit, makes space for those that do not, refuses those that have waited in
 * vain. */
void node_space_serve(node_t *node);
/* A write to disk succeeded: no want waits in vain for the disk. */
void node_space_disk_works(node_t *node);
/* Which processes have the memory, for people. */
void node_space_text(node_t *node, uint64_t size, char *text, size_t capacity);

#endif
