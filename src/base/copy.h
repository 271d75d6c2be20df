/* Copying much, and mapping the pages of memory that is new to this process. */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stdbool.h>
#include <stddef.h>

/*
 * As memcpy; what is larger than the caches it copies at the memory's full speed, whatever the
 * alignment of the two. `cold`: the target's pages are not mapped yet; to map them costs ten times
 * the copy. In a large copy up to `helpers` threads take part, which end before the call returns.
 */
void base_copy(void *to, const void *from, size_t size, bool cold, unsigned helpers);
/* The same, into memory that this process has just got from the kernel for itself alone: in large
 * pages, where the kernel has them, which it clears twice as fast. */
void base_copy_fresh(void *to, const void *from, size_t size, unsigned helpers);
/* Maps the pages that these bytes lie in, before the caller writes them. Their content stays. */
void base_map(void *at, size_t size, unsigned helpers);

#endif
