/* Text in UTF-8. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* How much of the text is whole characters: less than `size` if it was cut in the middle of one.
 * Text that is not UTF-8 counts whole. */
size_t base_utf8_whole(const char *text, size_t size);

#endif
