/* A growing array for any element type: `VEC(int) v = {0};`. Plain memory of the caller; not for
 * several threads. */
#ifndef BASE_VEC_H
#define BASE_VEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#define VEC(type)               \
    struct {                    \
        type *items;            \
        size_t count, capacity; \
    }

/* Makes space for `n` more elements; false (and nothing changed) without memory. */
#define vec_reserve(v, n) \
    base_vec_grow((void **)&(v)->items, (v)->count + (n), &(v)->capacity, sizeof *(v)->items)
/* Appends; false without memory. */
#define vec_push(v, item) (vec_reserve(v, 1) && ((v)->items[(v)->count++] = (item), true))
/* Takes the last element off; the array must not be empty. */
#define vec_pop(v) ((v)->items[--(v)->count])
/* Removes element i by moving the last one into its place. */
#define vec_swap_remove(v, i) ((v)->items[i] = (v)->items[--(v)->count])
#define vec_free(v)           (free((v)->items), (v)->items = NULL, (v)->count = (v)->capacity = 0)

bool base_vec_grow(void **items, size_t needed, size_t *capacity, size_t item_size);

#endif
