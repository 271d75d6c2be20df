/* Control state in this process's own memory. Everything is bounded: what a session remembers must
 * not grow with its age. */
#include <stdlib.h>

#include "base/vec.h"
#include "control/control.h"
#include "control/kv.h"
#include "control/names.h"

struct control {
    VEC(control_event_t) events; /* a circle once it is full */
    size_t first;
    VEC(control_actor_t) actors;
    size_t dead;
    VEC(control_job_t *) jobs;
    size_t ended;
    control_names_t names;
    control_kv_t kv;
};

control_names_t *control_names_of(control_t *c) { return &c->names; }
control_kv_t *control_kv_of(control_t *c) { return &c->kv; }

bool control_turn(control_t *c) {
    bool names = control_names_turn(&c->names);
    return control_kv_turn(c) || names;
}

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
    while (c->jobs.count > 0) free(vec_pop(&c->jobs));
    vec_free(&c->jobs);
    control_names_fini(&c->names);
    control_kv_fini(&c->kv);
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

static control_job_t *job_find(control_t *c, uint32_t number) {
    for (size_t i = c->jobs.count; i-- > 0;)
        if (c->jobs.items[i]->number == number) return c->jobs.items[i];
    control_job_t *job = calloc(1, sizeof *job);
    if (job != NULL && vec_push(&c->jobs, job)) return job;
    free(job);
    return NULL;
}

static void ended_forget(control_t *c) {
    size_t i = 0;
    while (c->jobs.items[i]->end_ms == 0) i++;
    free(c->jobs.items[i]);
    for (; i + 1 < c->jobs.count; i++) c->jobs.items[i] = c->jobs.items[i + 1];
    c->jobs.count--;
    c->ended--;
}

void control_job_put(control_t *c, const control_job_t *job) {
    control_job_t *known = job_find(c, job->number);
    if (known == NULL) return;
    c->ended += job->end_ms != 0 && known->end_ms == 0;
    *known = *job;
    if (c->ended > CONTROL_MAX_DEAD_JOBS) ended_forget(c);
}

size_t control_job_count(const control_t *c) { return c->jobs.count; }
const control_job_t *control_job_at(const control_t *c, size_t index) {
    return c->jobs.items[index];
}
