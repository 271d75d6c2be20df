/*
 * Names, and requests about them. A request is carried out in control_turn, in the order in which
 * it was made, and answered there. A drop has no answer, but takes its place in that order: a name
 * that was dropped is free for a request that was made after it.
 */
#include "control/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { TAKE, FIND, LIST, DROP } what_t;

struct control_request {
    control_request_t *next;
    what_t what;
    bool all; /* LIST: of all namespaces */
    control_name_t name;
    control_reply_fn reply;
    void *context;
};

static control_name_t *name_of(const control_names_t *names, const control_name_t *key) {
    for (size_t i = 0; i < names->items.count; i++) {
        control_name_t *n = names->items.items[i];
        if (n->kind == key->kind && strcmp(n->name, key->name) == 0 &&
            strcmp(n->name_space, key->name_space) == 0)
            return n;
    }
    return NULL;
}

static mob_status_t name_add(control_names_t *names, const control_name_t *name) {
    control_name_t *copy = malloc(sizeof *copy);
    if (copy == NULL || !vec_push(&names->items, copy)) {
        free(copy);
        return MOB_ENOMEM;
    }
    *copy = *name;
    return MOB_OK;
}

static void name_remove(control_names_t *names, const control_name_t *key) {
    control_name_t *found = name_of(names, key);
    if (found == NULL || found->actor.slot != key->actor.slot ||
        found->actor.generation != key->actor.generation)
        return;
    for (size_t i = 0; i < names->items.count; i++)
        if (names->items.items[i] == found) vec_swap_remove(&names->items, i);
    free(found);
}

/* ---- carrying out ---- */

static void list_answer(control_names_t *names, const control_request_t *r) {
    control_name_t *listed = calloc(names->items.count + 1, sizeof *listed);
    control_reply_t reply = {.status = listed != NULL ? MOB_OK : MOB_ENOMEM, .names = listed};
    for (size_t i = 0; listed != NULL && i < names->items.count; i++)
        if (names->items.items[i]->kind == r->name.kind &&
            (r->all || strcmp(names->items.items[i]->name_space, r->name.name_space) == 0))
            listed[reply.count++] = *names->items.items[i];
    r->reply(r->context, &reply);
    free(listed);
}

static void request_carry_out(control_names_t *names, const control_request_t *r) {
    const control_name_t *known = name_of(names, &r->name);
    control_reply_t reply = {.status = MOB_OK, .names = known, .count = known != NULL};
    switch (r->what) {
    case TAKE:
        reply.status = known != NULL ? MOB_EEXISTS : name_add(names, &r->name);
        r->reply(r->context, &reply);
        break;
    case FIND:
        if (known == NULL) reply.status = MOB_ENONAME;
        r->reply(r->context, &reply);
        break;
    case LIST:
        list_answer(names, r);
        break;
    case DROP:
        name_remove(names, &r->name);
        break;
    }
}

bool control_names_turn(control_names_t *names) {
    /* Those that a callback makes wait for the next turn. */
    control_request_t *r = names->first;
    bool any = r != NULL;
    names->first = names->last = NULL;
    while (r != NULL) {
        control_request_t *next = r->next;
        request_carry_out(names, r);
        free(r);
        r = next;
    }
    return any;
}

/* ---- asking ---- */

static mob_status_t request_make(control_t *control, const control_request_t *made) {
    control_names_t *names = control_names_of(control);
    control_request_t *r = malloc(sizeof *r);
    if (r == NULL) return MOB_ENOMEM;
    *r = *made;
    r->next = NULL;
    if (names->last != NULL)
        names->last->next = r;
    else
        names->first = r;
    names->last = r;
    return MOB_OK;
}

static void key_set(control_name_t *key, control_named_t kind, const char *name_space,
                    const char *name) {
    key->kind = kind;
    snprintf(key->name_space, sizeof key->name_space, "%s", name_space);
    snprintf(key->name, sizeof key->name, "%s", name);
}

mob_status_t control_name_take(control_t *control, const control_name_t *name,
                               control_reply_fn reply, void *context) {
    control_request_t r = {.what = TAKE, .name = *name, .reply = reply, .context = context};
    return request_make(control, &r);
}

mob_status_t control_name_find(control_t *control, control_named_t kind, const char *name_space,
                               const char *name, control_reply_fn reply, void *context) {
    control_request_t r = {.what = FIND, .reply = reply, .context = context};
    key_set(&r.name, kind, name_space, name);
    return request_make(control, &r);
}

mob_status_t control_name_list(control_t *control, control_named_t kind, const char *name_space,
                               control_reply_fn reply, void *context) {
    control_request_t r = {
        .what = LIST, .all = name_space == NULL, .reply = reply, .context = context};
    key_set(&r.name, kind, name_space != NULL ? name_space : "", "");
    return request_make(control, &r);
}

void control_name_drop(control_t *control, control_named_t kind, const char *name_space,
                       const char *name, mob_ref_t actor) {
    control_request_t r = {.what = DROP, .name = {.actor = actor}};
    key_set(&r.name, kind, name_space, name);
    if (request_make(control, &r) != MOB_OK) /* without memory: at once */
        name_remove(control_names_of(control), &r.name);
}

void control_names_fini(control_names_t *names) {
    while (names->first != NULL) {
        control_request_t *r = names->first;
        names->first = r->next;
        free(r);
    }
    while (names->items.count > 0) free(vec_pop(&names->items));
    vec_free(&names->items);
}
