#include "base/utf8.h"

enum { LONGEST = 4 };

static size_t character_size(unsigned char first) {
    return first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
}

size_t base_utf8_whole(const char *text, size_t size) {
    for (size_t back = 1; back <= size && back <= LONGEST; back++) {
        unsigned char byte = (unsigned char)text[size - back];
        if ((byte & 0xc0) == 0x80) continue; /* not the first of its character */
        return character_size(byte) > back ? size - back : size;
    }
    return size;
}
