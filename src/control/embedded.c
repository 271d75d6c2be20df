/* Control state in this process's own memory. Everything is bounded: what a session remembers must
 * not grow with its age. */
#include <stdlib.h>

#include "base/vec.h"
#include "control/control.h"

struct control {
    VEC(control_event_t) events; /* a circle once it is full */
    size_t first;
    VEC(control_actor_t) actors;
    size_t dead;
};

mob_status_t control_embedded_new(control_t **ret_control) {
    control_t *c = calloc(1, sizeof *c);
    if (c == NULL) return MOB_ENOMEM;
    *ret_control = c;
    return MOB_OK;
}

void control_free(control_t *c) {
    if (c == NULL) return;
    vec_free(&c->events);
    vec_free(&c->actors);
    free(c);
}

void control_event_add(control_t *c, const control_event_t *event) {
    if (c->events.count < CONTROL_MAX_EVENTS) {
        (void)vec_push(&c->events, *event);
        return;
    }
    c->events.items[c->first] = *event;
    c->first = (c->first + 1) % CONTROL_MAX_EVENTS;
}

size_t control_event_count(const control_t *c) { return c->events.count; }

const control_event_t *control_event_at(const control_t *c, size_t index) {
    return &c->events.items[(c->first + index) % c->events.count];
}

static void dead_forget(control_t *c) {
    for (size_t i = 0; i < c->actors.count; i++) {
        if (c->actors.items[i].state != CONTROL_ACTOR_DEAD) continue;
        for (size_t k = i + 1; k < c->actors.count; k++)
            c->actors.items[k - 1] = c->actors.items[k];
        c->actors.count--;
        c->dead--;
        return;
    }
}

void control_actor_put(control_t *c, const control_actor_t *actor) {
    for (size_t i = c->actors.count; i-- > 0;) {
        control_actor_t *known = &c->actors.items[i];
        if (known->id.slot != actor->id.slot || known->id.generation != actor->id.generation)
            continue;
        if (actor->state == CONTROL_ACTOR_DEAD && known->state != CONTROL_ACTOR_DEAD) c->dead++;
        *known = *actor;
        if (c->dead > CONTROL_MAX_DEAD_ACTORS) dead_forget(c);
        return;
    }
    if (vec_push(&c->actors, *actor) && actor->state == CONTROL_ACTOR_DEAD) c->dead++;
    if (c->dead > CONTROL_MAX_DEAD_ACTORS) dead_forget(c);
}

size_t control_actor_count(const control_t *c) { return c->actors.count; }
const control_actor_t *control_actor_at(const control_t *c, size_t index) {
    return &c->actors.items[index];
}
