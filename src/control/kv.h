/* Values by key in this process's own memory, and the requests about them. */
#ifndef CONTROL_KV_H
#define CONTROL_KV_H

#include "base/vec.h"
#include "control/control.h"

typedef struct control_kv_entry control_kv_entry_t;
typedef struct control_kv_request control_kv_request_t;

typedef struct control_kv {
    VEC(control_kv_entry_t *) entries; /* in the order of their keys */
    uint64_t bytes;                    /* of all entries, what they cost beside included */
    control_kv_request_t *first, *last;
} control_kv_t;

control_kv_t *control_kv_of(control_t *control);
bool control_kv_turn(control_t *control);
void control_kv_fini(control_kv_t *kv);

#endif
