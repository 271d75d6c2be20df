/* A list of letters. It is bounded by the tasks in it; each answer belongs to a task that was. */
#include "node/loop.h"

#include <stdlib.h>

enum { MOST_BYTES = 16 << 20 };

struct node_letter {
    node_letter_t *next;
    uint8_t *bytes;
    size_t size;
};

bool node_loop_has_room(const node_loop_t *loop) { return loop->bytes < MOST_BYTES; }

mob_status_t node_loop_push(node_loop_t *loop, uint8_t *bytes, size_t size) {
    node_letter_t *letter = malloc(sizeof *letter);
    if (letter == NULL) {
        free(bytes);
        return MOB_ENOMEM;
    }
    *letter = (node_letter_t){.bytes = bytes, .size = size};
    *(loop->tail != NULL ? &loop->tail->next : &loop->head) = letter;
    loop->tail = letter;
    loop->count++;
    loop->bytes += size;
    return MOB_OK;
}

bool node_loop_pop(node_loop_t *loop, uint8_t **ret_bytes, size_t *ret_size) {
    node_letter_t *letter = loop->head;
    if (letter == NULL) return false;
    loop->head = letter->next;
    if (loop->head == NULL) loop->tail = NULL;
    loop->count--;
    loop->bytes -= letter->size;
    *ret_bytes = letter->bytes;
    *ret_size = letter->size;
    free(letter);
    return true;
}
