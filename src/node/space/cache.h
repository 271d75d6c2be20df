/* Whether what is moved to disk stays in the kernel's page cache too. cache.c has the rules. */
#ifndef NODE_SPACE_CACHE_H
#define NODE_SPACE_CACHE_H

#include "node/object.h"
#include "node/types.h"

typedef struct {
    bool plentiful;     /* is memory, as of the last look */
    uint64_t looked_ns; /* when that was; 0: never */
    uint64_t budget;    /* bytes that may be written into the cache until the next look */
    uint64_t flying;    /* bytes that threads are writing into it */
    double rates[2];    /* of writes past it and into it, bytes a nanosecond; 0: not known */
    uint32_t past;      /* writes that went past it because they are faster so */
} node_cache_t;

/* Whether the value is to be read through the cache, which then has it for the next time. Notes
 * that it is read. Looks at files of the kernel's, a few times a second. */
bool node_cache_reads(node_t *node, node_copy_t *copy);
/* Whether so many bytes are to be written into it. node_cache_written has to follow. */
bool node_cache_writes(node_t *node, uint64_t bytes);

/* These touch nothing but `cache`. */

/* A look has found how much memory may be used, how much more could be, and how much of the page
 * cache the kernel has yet to write. */
void node_cache_learn(node_cache_t *cache, uint64_t limit, uint64_t headroom, uint64_t dirty);
/* As node_cache_writes, by what is known. */
bool node_cache_choose(node_cache_t *cache, uint64_t bytes);
/* A write has ended, and took so long; 0: it failed, or was not begun. */
void node_cache_written(node_cache_t *cache, bool cached, uint64_t bytes, uint64_t ns);

#endif
