/* Time. Decisions take it as an argument; these are for their callers. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

uint64_t base_clock_mono_ns(void);   /* never goes back; for durations */
uint64_t base_clock_wall_ns(void);   /* since 1970; for people */
uint64_t base_clock_boot_ns(void);   /* as mono, and goes on while the machine sleeps */
uint32_t base_clock_coarse_ms(void); /* cheap, a few ms behind, wraps after seven weeks; for ages */

#endif
