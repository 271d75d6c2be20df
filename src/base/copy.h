/* Copying large buffers. */
#ifndef BASE_COPY_H
#define BASE_COPY_H

#include <stddef.h>

/* As memcpy; for what is larger than the caches, at the memory's full speed whatever the alignment of the two. */
void base_copy(void *to, const void *from, size_t size);

#endif
