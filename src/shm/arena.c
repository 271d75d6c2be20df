#include "shm/arena.h"

bool shm_block_release(unsigned char *base, shm_extent_t *extents, uint64_t data, uint64_t tag) {
    shm_block_t *block = (shm_block_t *)(base + data - sizeof(shm_block_t));
    uint64_t header = data - sizeof(shm_block_t);
    uint32_t back = block->back, units = atomic_load_explicit(&block->units, memory_order_relaxed);
    uint64_t granule = header / SHM_GRANULE;
    /* Read before the block is free: until then the daemon can't grant the extent to another
     * process, so these words are of the block's own grant. */
    uint64_t first = back == SHM_BLOCK_WHOLE ? granule : granule - (back <= granule ? back : 0);
    uint64_t owned = atomic_load_explicit(&extents[granule].word, memory_order_relaxed);
    uint64_t freed = atomic_load_explicit(&extents[first].freed, memory_order_relaxed),
             serial = freed >> 32;
    uint64_t expected = shm_block_used(tag);
    /* release: this process's reads of the data come before the owner's next writes, which follow
     * an acquire of the word */
    if (!atomic_compare_exchange_strong_explicit(&block->word, &expected, 0, memory_order_acq_rel,
                                                 memory_order_relaxed))
        return false;
    /* release: a process that sees the sum sees the block free. Not counted if the extent was
     * granted anew since. */
    while (freed >> 32 == serial &&
           !atomic_compare_exchange_weak_explicit(&extents[first].freed, &freed,
                                                  shm_extent_count(serial, freed + units),
                                                  memory_order_release, memory_order_relaxed)) {
    }
    if (back != SHM_BLOCK_WHOLE) return true;
    if ((owned & 3) == SHM_EXTENT_OWNED)
        atomic_compare_exchange_strong_explicit(&extents[granule].word, &owned,
                                                (owned & ~(uint64_t)3) | SHM_EXTENT_EMPTY,
                                                memory_order_acq_rel, memory_order_relaxed);
    return true;
}
