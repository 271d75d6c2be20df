/*
 * Complete copies in the control state, each under two keys: "pull:OBJECT:NODE", to find an
 * object's copies when its home is dead, and "pulln:NODE:OBJECT", to strike off a dead node's. The
 * first one's value is the copy's birth (8 bytes), size (8) and version (4).
 */
#ifndef PULL_SCRIPT_H
#define PULL_SCRIPT_H

#include "control/script.h"
#include "pull/message.h"

enum { PULL_NOTES_MAX = 64, PULL_FOUND_MAX = 32, PULL_STRIKE_MAX = 64 };

/* One copy that there is, or is no more, at a node. */
typedef struct pull_note {
    frame_id_t id;
    uint64_t node, birth, size;
    uint32_t version;
    bool is_there;
} pull_note_t;

enum { PULL_NOTE_SIZE = PULL_ID_SIZE + 8 + 8 + 8 + 4 + 1 };

/* Arguments: up to PULL_NOTES_MAX notes, one after the other. Answer: a byte. Only the node itself
 * writes its keys, in order, as long as it lives. */
size_t pull_script_write(const script_keys_t *keys, const void *arguments, size_t size,
                         void *answer);
/* Arguments: an id. Answer: a note for each copy, up to PULL_FOUND_MAX; a first byte says that it
 * is an answer. */
size_t pull_script_find(const script_keys_t *keys, const void *arguments, size_t size,
                        void *answer);
/* Arguments: a node (8 bytes), whose copies go, up to PULL_STRIKE_MAX. Answer: a byte, 1: there are
 * more. */
size_t pull_script_strike(const script_keys_t *keys, const void *arguments, size_t size,
                          void *answer);

size_t pull_note_write(const pull_note_t *note, uint8_t ret_bytes[PULL_NOTE_SIZE]);
/* False: there are not as many bytes, or they make no sense. */
bool pull_note_read(const void *bytes, size_t size, pull_note_t *ret_note);

#endif
