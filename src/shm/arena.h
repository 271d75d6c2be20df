/*
 * The arena's layout: one sparse segment, handed out by the daemon in extents of whole granules,
 * cut into blocks by the process that was granted the extent.
 *
 * Beside the arena lies the extent table, one entry a granule; the entry of an extent's first
 * granule is the extent's word:
 *
 *   OWNED(serial)  its owner, the process that it was granted to, cuts blocks from it
 *   EMPTY(serial)  nothing in it is used; the owner may take it again (EMPTY to OWNED), the daemon
 *                  may take it back (EMPTY to GONE)
 *   GONE(serial)   the daemon's; the former owner forgets the extent when it sees this
 *
 * `used` counts the units that the owner has allocated less those that it freed itself. `freed`
 * counts the units that other processes have freed. If the two are equal, nothing in the extent is
 * used. The daemon may then take it although it is OWNED: the daemon makes it EMPTY and looks at
 * `used` again; the owner raises `used` and then looks at the word. Both are sequentially
 * consistent, so one of them sees the other: the daemon puts OWNED back, or the owner finds that it
 * must take the extent again, or has lost it.
 *
 * While the owner has an extent in hand without a block of it (a new one until the first
 * allocation, one that it takes again or sweeps), `used` has IN_HAND more than there are. So an
 * extent whose owner is dead has nothing that is used if the two are equal, or IN_HAND apart: the
 * bytes in a new extent may be anything.
 *
 * Both counts carry the grant's serial number and change by compare-and-swap only. So neither a
 * former owner, nor a process that freed a block and was held up before it counted that, can change
 * them after the extent was granted anew. They are never set back: a process that dies between
 * freeing and counting leaves `freed` too low, and the extent looks used until its owner sweeps it.
 * That errs on the safe side.
 *
 * Each change is one compare-and-swap on a word that carries the grant's serial number, so a
 * process that still names an extent of an earlier grant can't touch a later one. An owner that
 * dies in EMPTY or OWNED leaves the extent to the daemon, which knows all grants.
 *
 * A block is a header and data, one after the other from the extent's first byte + 48, so that data
 * are aligned to 64. The header's word:
 *
 *   FREE           nobody's; the extent's owner may cut it or join it with its neighbours
 *   USED(tag)      holds what the tag names: a slot's value or a record's body
 *
 * USED(tag) to FREE is one compare-and-swap by the process that ends the life of the slot or record
 * in the tag: its owner or the daemon. Freeing twice is harmless, for the second freeing finds
 * another word. Nothing else remembers free blocks: lists of them are the owner's private hints. A
 * block that fills its extent takes the extent from OWNED to EMPTY with it. If the process dies
 * between the two, the extent stays its owner's until the owner ends.
 */
#ifndef SHM_ARENA_H
#define SHM_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* The daemon grants a larger extent without memory. Its owner gets the memory from the kernel as it
 * maps the pages, and then tells the daemon (WIRE_BACKED). */
enum { SHM_BACKED_AT_ONCE = 4 << 20 };
enum { SHM_GRANULE = 16 * 1024, SHM_BLOCK_UNIT = 64, SHM_BLOCK_FIRST = 48 };
#define SHM_BLOCK_WHOLE 0xffffffffu

typedef struct shm_extent {
    _Atomic uint64_t word;  /* serial << 2 | state */
    _Atomic uint64_t freed; /* serial << 32 | units that other processes than its owner have freed;
                               the process that freed a block adds them */
    _Atomic uint64_t used; /* serial << 32 | units that its owner allocated less those that it freed
                              itself; changed by the owner */
    uint64_t reserved;
} shm_extent_t;

enum { SHM_EXTENT_NONE = 0, SHM_EXTENT_OWNED = 1, SHM_EXTENT_EMPTY = 2, SHM_EXTENT_GONE = 3 };

typedef struct shm_block {
    _Atomic uint64_t word;  /* 0: FREE; else tag << 1 | 1 */
    _Atomic uint32_t units; /* whole size with this header, in units of 64 bytes; written by the
                               extent's owner */
    uint32_t back; /* granules from the extent's start to this header's; SHM_BLOCK_WHOLE: it fills
                      the extent */
} shm_block_t;

_Static_assert(sizeof(shm_extent_t) == 32 && sizeof(shm_block_t) == 16, "layout");

#define SHM_EXTENT_IN_HAND UINT64_C(0x80000000) /* units: more than an extent can have */

/* What a block holds. 63 bits: which table, the index, the low bits of the generation. */
static inline uint64_t shm_tag(bool is_record, uint32_t index, uint64_t generation) {
    return (uint64_t)is_record << 62 | (uint64_t)(index & 0xffffff) << 38 |
           (generation & 0x3fffffffff);
}
/* Whole granules. */
static inline uint64_t shm_granule_round(uint64_t size) {
    return (size + SHM_GRANULE - 1) / SHM_GRANULE * SHM_GRANULE;
}
/* A count of an extent: modulo 2^32 units, which is more than any extent has at one time. */
static inline uint64_t shm_extent_count(uint64_t serial, uint64_t units) {
    return serial << 32 | (units & 0xffffffff);
}
/* Nothing in it is used, provided that its owner is dead; false says nothing. */
static inline bool shm_extent_is_left_empty(const shm_extent_t *extent) {
    uint64_t used = atomic_load(&extent->used), freed = atomic_load(&extent->freed),
             units = (used - freed) & 0xffffffff;
    return used >> 32 == freed >> 32 && (units == 0 || units == SHM_EXTENT_IN_HAND);
}
static inline uint64_t shm_block_used(uint64_t tag) { return tag << 1 | 1; }

/* Ends the life of the block with data at `data`, if it still is the tag's. The owner, another
 * client or the daemon may call it, and to repeat it is harmless. The caller vouches that [data -
 * 16, data) lies in the arena. True if this call did it. */
bool shm_block_release(unsigned char *base, shm_extent_t *extents, uint64_t data, uint64_t tag);

#endif
