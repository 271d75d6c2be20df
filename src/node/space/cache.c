/*
 * Spill files through the page cache, or past it.
 *
 * While memory is plentiful, values stay in it: what comes from there comes at several times the
 * disk's speed, and the kernel drops the pages as soon as anybody needs them, so nobody counts them
 * as used (base/memory.c). While it is not, they go past it, for what was moved out because memory
 * is short must not come back as a cached page. Plentiful begins at a quarter of the limit and ends
 * at an eighth, so that it does not change with each file.
 *
 * Writes are into the cache on three conditions. Memory is plentiful. There is not much that the
 * kernel has yet to write: with much of it, it makes writers wait, and that costs more than the
 * cache gains (2 cores, 6 GB in one go: 0.6 GB/s, and 1.5 past the cache); it begins at 10 to 20 %
 * of what is available, and we end at a twelfth, whosever it is. And such writes do not take more
 * than twice as long as those past it, as they were lately: a value that is moved out is most often
 * read again, and what a write into the cache costs more, the read gains; but where pages are slow
 * to get and the disk is fast they may take four times as long (a virtual machine whose host takes
 * free pages back). So both are timed, and while writes go past it, each RETRYth is into it.
 *
 * Reads are through it if the file was written into it. If not, the disk has to be read anyway, and
 * that is faster past the cache (0.9 GB/s, and 0.75 through it); so a value comes into the cache
 * when it is read for the second time.
 *
 * A disk that fails after a write into the cache is noticed when the value is read: it is lost then
 * (restore.c), as when the file is damaged.
 */
#include "node/space/cache.h"

#include "base/clock.h"
#include "base/memory.h"
#include "node/state.h"

static const uint64_t LOOK_NS = 100000000,
                      TIMED_FROM = 4 << 20;      /* bytes; less says nothing about the rate */
enum { BEGINS_AT = 4, ENDS_AT = 8, DIRTY = 12 }; /* parts of the limit, and of what is available */
enum { RETRY = 16, MAY_TAKE = 2 /* times as long */ };

void node_cache_learn(node_cache_t *c, uint64_t limit, uint64_t headroom, uint64_t dirty) {
    c->plentiful = headroom > limit / (c->plentiful ? ENDS_AT : BEGINS_AT);
    uint64_t most = headroom / DIRTY, has = dirty + c->flying;
    c->budget = c->plentiful && has < most ? most - has : 0;
}

bool node_cache_choose(node_cache_t *c, uint64_t bytes) {
    if (bytes > c->budget) return false;
    double past = c->rates[false], into = c->rates[true];
    bool unknown = past == 0 && into != 0; /* once, to know it */
    if (unknown || (MAY_TAKE * into < past && ++c->past % RETRY != 0)) return false;
    c->budget -= bytes;
    c->flying += bytes;
    return true;
}

void node_cache_written(node_cache_t *c, bool cached, uint64_t bytes, uint64_t ns) {
    if (cached) c->flying -= bytes;
    if (bytes < TIMED_FROM || ns == 0) return;
    double rate = (double)bytes / (double)ns, *known = &c->rates[cached];
    *known = *known == 0 ? rate : *known + (rate - *known) / 4;
}

static void look(node_t *n) {
    uint64_t now = base_clock_mono_ns(), limit, headroom, dirty;
    if (n->cache.looked_ns != 0 && now - n->cache.looked_ns < LOOK_NS) return;
    n->cache.looked_ns = now;
    if (base_memory_limit("", &limit) != MOB_OK || base_memory_headroom("", &headroom) != MOB_OK ||
        base_memory_dirty("", &dirty) != MOB_OK)
        limit = headroom = dirty = 0;                  /* nothing is known: past it */
    if (n->pressure.short_since_ns != 0) headroom = 0; /* tasks are being held back */
    node_cache_learn(&n->cache, limit, headroom, dirty);
}

bool node_cache_reads(node_t *n, node_copy_t *copy) {
    look(n);
    bool cached = n->cache.plentiful && (copy->file->cached || copy->was_read);
    copy->was_read = true;
    return cached;
}

bool node_cache_writes(node_t *n, uint64_t bytes) {
    look(n);
    return node_cache_choose(&n->cache, bytes);
}
