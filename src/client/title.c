/*
 * A worker's title, for ps and top: ray::f while it runs a task, ray::Class.method or ray::Class
 * for an actor, ray::IDLE at rest. The taker sets it when it has claimed a run and before it
 * sleeps, and not after each run: of two that follow each other at once the first costs nothing at
 * its end. If an actor runs several calls at once, its taker may rest before they end; so the last
 * one that ends sets the title. It names the call that began last. One thread at a time: while
 * anything runs, the taker sets the title only under the mutex.
 */
#include <string.h>

#include "base/title.h"
#include "base/utf8.h"
#include "client/client.h"

void client_title_change(mob_client_t *c, const mob_run_t *run) {
    c->titled_size = run->name_size <= sizeof c->titled ? run->name_size : SIZE_MAX;
    if (c->titled_size != SIZE_MAX) memcpy(c->titled, run->name, c->titled_size);
    if (run->kind == MOB_ACTOR_CREATE) {
        c->class_size = run->name_size < sizeof c->class_name
                            ? run->name_size
                            : base_utf8_whole(run->name, sizeof c->class_name);
        memcpy(c->class_name, run->name, c->class_size);
        base_title_short(c->class_name, c->class_size);
        base_title_set(c->class_name, c->class_size, "__init__", 8);
    } else if (run->kind == MOB_ACTOR_CALL) {
        base_title_set(c->class_name, c->class_size, run->name, run->name_size);
    } else {
        base_title_set(run->name, run->name_size, NULL, 0);
    }
}

void client_title_rest(mob_client_t *c) {
    c->titled_size = SIZE_MAX;
    if (c->class_size > 0)
        base_title_set(c->class_name, c->class_size, NULL, 0);
    else
        base_title_set("IDLE", 4, NULL, 0);
}
