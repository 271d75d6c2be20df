/* Numbers that look random, and are the same for the same seed: splitmix64. Not for secrets. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct base_random {
    uint64_t state; /* any seed will do */
} base_random_t;

static inline uint64_t base_random_next(base_random_t *random) {
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

__extension__ typedef unsigned __int128 base_random_wide_t;

/* Below n, which is not 0. */
static inline uint64_t base_random_below(base_random_t *random, uint64_t n) {
    return (uint64_t)((base_random_wide_t)base_random_next(random) * n >> 64);
}

/* True in `part` of `whole` cases. */
static inline bool base_random_chance(base_random_t *random, uint64_t part, uint64_t whole) {
    return base_random_below(random, whole) < part;
}

#endif
