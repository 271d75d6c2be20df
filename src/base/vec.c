#include "base/vec.h"

bool base_vec_grow(void **items, size_t needed, size_t *capacity, size_t item_size) {
    if (needed <= *capacity) return true;
    size_t wanted = *capacity ? *capacity * 2 : 8;
    if (wanted < needed) wanted = needed;
    void *grown = reallocarray(*items, wanted, item_size);
    if (grown == NULL) return false;
    *items = grown;
    *capacity = wanted;
    return true;
}
