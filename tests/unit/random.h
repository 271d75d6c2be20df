/* Numbers that look random, the same in every run: xorshift. A test may set `seed`, but not to 0.
 */
#ifndef UNIT_RANDOM_H
#define UNIT_RANDOM_H

#include <stdint.h>

static uint64_t seed = 88172645463325252u;

static inline uint64_t next_random(void) {
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

#endif
