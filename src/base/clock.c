#include "base/clock.h"

#include <time.h>

static uint64_t clock_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t base_clock_mono_ns(void) { return clock_ns(CLOCK_MONOTONIC); }
uint64_t base_clock_wall_ns(void) { return clock_ns(CLOCK_REALTIME); }
uint64_t base_clock_boot_ns(void) { return clock_ns(CLOCK_BOOTTIME); }
uint32_t base_clock_coarse_ms(void) {
    return (uint32_t)(clock_ns(CLOCK_MONOTONIC_COARSE) / 1000000);
}
