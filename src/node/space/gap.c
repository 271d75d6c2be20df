/*
 * Gaps are a list in order of place. It is walked from its beginning: a store is cut into few
 * stretches, since extents are large or lie side by side.
 */
#include <string.h>

#include "node/state.h"

static const uint64_t SMALL_BYTES = 4 << 20;

void node_gap_add(node_t *n, uint64_t offset, uint64_t size, uint32_t last_owner) {
    size_t i = 0;
    while (i < n->books.gaps.count && n->books.gaps.items[i].offset < offset) i++;
    node_gap_t *before = i > 0 ? &n->books.gaps.items[i - 1] : NULL,
               *after = i < n->books.gaps.count ? &n->books.gaps.items[i] : NULL;
    bool joins_before = before && before->offset + before->size == offset,
         joins_after = after && offset + size == after->offset;
    n->books.free_bytes += size;
    if (joins_before) {
        before->size += size;
        before->last_owner = before->last_owner == last_owner ? last_owner : 0;
        if (joins_after) {
            before->size += after->size;
            memmove(after, after + 1, (n->books.gaps.count - i - 1) * sizeof *after);
            n->books.gaps.count--;
        }
    } else if (joins_after) {
        after->offset = offset;
        after->size += size;
        after->last_owner = after->last_owner == last_owner ? last_owner : 0;
    } else if (vec_reserve(&n->books.gaps, 1)) {
        after = &n->books.gaps.items[i];
        memmove(after + 1, after, (n->books.gaps.count - i) * sizeof *after);
        *after = (node_gap_t){.offset = offset, .size = size, .last_owner = last_owner};
        n->books.gaps.count++;
    }
}

/* A stretch of `size` bytes in the gap that has its memory already. */
static bool gap_find_backed(const node_t *n, const node_gap_t *gap, uint64_t size,
                            uint64_t *ret_offset) {
    uint64_t run = 0;
    for (uint64_t g = gap->offset / SHM_GRANULE; g < (gap->offset + gap->size) / SHM_GRANULE; g++) {
        run = node_granule_is_backed(n, g) ? run + SHM_GRANULE : 0;
        if (run < size) continue;
        *ret_offset = (g + 1) * SHM_GRANULE - size;
        return true;
    }
    return false;
}

static void gap_cut(node_t *n, size_t index, uint64_t offset, uint64_t size) {
    node_gap_t *g = &n->books.gaps.items[index];
    node_gap_t rest = {.offset = offset + size,
                       .size = g->offset + g->size - offset - size,
                       .last_owner = g->last_owner};
    g->size = offset - g->offset;
    n->books.free_bytes -= size;
    if (g->size == 0) {
        if (rest.size > 0)
            *g = rest;
        else
            memmove(g, g + 1, (--n->books.gaps.count - index) * sizeof *g);
    } else if (rest.size > 0) {
        g++; /* the caller made space */
        memmove(g + 1, g, (n->books.gaps.count++ - index - 1) * sizeof *g);
        *g = rest;
    }
}

/* Small extents from the bottom, large ones from the top: else one small object that lives long
 * would cut the space for large ones in two. Large ones go by best fit, the asker's own former
 * stretches first. `backed`: only what has its memory already. */
bool node_gap_take(node_t *n, uint64_t size, uint32_t owner, bool backed, uint64_t *ret_offset) {
    bool small = size <= SMALL_BYTES && size <= n->config.store_bytes / 16;
    size_t best = SIZE_MAX;
    uint64_t place = 0;
    if (!vec_reserve(&n->books.gaps, 1)) return false;
    for (size_t i = 0; i < n->books.gaps.count && !(small && best != SIZE_MAX); i++) {
        const node_gap_t *g = &n->books.gaps.items[i],
                         *b = best != SIZE_MAX ? &n->books.gaps.items[best] : NULL;
        if (g->size < size || (backed && !gap_find_backed(n, g, size, &place))) continue;
        bool mine = g->last_owner == owner, best_mine = b != NULL && b->last_owner == owner;
        if (b != NULL && !(mine != best_mine ? mine : g->size < b->size)) continue;
        best = i;
        *ret_offset = backed ? place : small ? g->offset : g->offset + g->size - size;
    }
    if (best == SIZE_MAX) return false;
    gap_cut(n, best, *ret_offset, size);
    return true;
}

void node_gaps_take(node_t *n, uint64_t from, uint64_t to, node_gaps_t *ret_taken) {
    for (size_t i = 0; i < n->books.gaps.count && n->books.gaps.items[i].offset < to;) {
        node_gap_t g = n->books.gaps.items[i];
        uint64_t first = g.offset > from ? g.offset : from,
                 end = g.offset + g.size < to ? g.offset + g.size : to;
        if (first >= end || !vec_reserve(&n->books.gaps, 1) ||
            !vec_push(
                ret_taken,
                ((node_gap_t){.offset = first, .size = end - first, .last_owner = g.last_owner}))) {
            i++;
            continue;
        }
        gap_cut(n, i, first, end - first);
        if (first > g.offset) i++; /* what is left before it */
    }
}

void node_gaps_return(node_t *n, const node_gap_t *gaps, size_t count) {
    for (size_t i = 0; i < count; i++)
        node_gap_add(n, gaps[i].offset, gaps[i].size, gaps[i].last_owner);
}
