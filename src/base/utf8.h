/* Text in UTF-8. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>

/* How much of the text is whole characters: less than `size` if it was cut in the middle of one.
 * What is no UTF-8 is left as it is. */
size_t base_utf8_whole(const char *text, size_t size);

#endif
