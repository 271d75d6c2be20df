/* Names of actors in this process's own memory, and the requests about them. */
#ifndef CONTROL_NAMES_H
#define CONTROL_NAMES_H

#include "base/vec.h"
#include "control/control.h"

typedef struct control_request control_request_t;

typedef struct control_names {
    VEC(control_name_t *) items;
    control_request_t *first, *last; /* to be answered */
} control_names_t;

control_names_t *control_names_of(control_t *control);
bool control_names_turn(control_names_t *names);
void control_names_fini(control_names_t *names);

#endif
