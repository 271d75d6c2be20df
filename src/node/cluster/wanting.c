/*
 * Gets, waits and arguments. A client that opens a value which is AWAY on another node asks as it
 * does for one on disk, and is told in the same way. There is one want of an object for all clients
 * that wait for it, and one for those that will need it soon (ray.wait, the rest of a list). A
 * visit's arguments come before a worker is given to it: it waits in their books, as for what is
 * not made yet. After PULL_PATIENCE_NS without room it begins all the same, and its get goes before
 * others'.
 *
 * A want ends as soon as the copy is here: who asked had pinned the slot before, so the value stays
 * while it is read, whatever the room does with the copy.
 */
#include <stdio.h>
#include <stdlib.h>

#include "node/cluster/cluster.h"
#include "node/cluster/pulled.h"
#include "node/space/restore.h"
#include "node/state.h"

static void want_end(node_pulling_t *p, node_pull_ask_t *ask) {
    pull_want_t *want = ask->want;
    ask->want = NULL;
    if (want != NULL) pull_want_end(p->pull, want, node_pulling_now());
}

static void wants_end(node_pulling_t *p, node_pulled_t *e) {
    for (size_t i = 0; i < PULL_CLASSES; i++) want_end(p, &e->asks[i]);
    node_pulled_update(p, e);
}

/* Wants the object, which is elsewhere, if it is not wanted yet. MOB_ENOMEM. */
static mob_status_t want_begin(node_pulling_t *p, const node_object_t *o, pull_class_t class) {
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    frame_id_t id = node_proxy_id(p->node, ref);
    node_pulled_t *e = node_pulled_get(p, id, ref);
    if (e == NULL) return MOB_ENOMEM;
    node_pulling_wake(p, false);
    if (e->asks[class].want != NULL) return MOB_OK;
    mob_status_t status = pull_want_new(p->pull, class, &id, 1, &e->asks[class], node_pulling_now(),
                                        &e->asks[class].want);
    if (status != MOB_OK) node_pulled_update(p, e);
    return status;
}

bool node_pulling_want(node_t *n, node_object_t *o, bool waits) {
    node_pulling_t *p = n->cluster != NULL ? n->cluster->pulling : NULL;
    if (p == NULL || o->elsewhere == NULL) return false;
    mob_status_t status = want_begin(p, o, waits ? PULL_GET : PULL_WAIT);
    if (status != MOB_OK && waits) node_restore_tell(n, o, status);
    return true;
}

/* What this node, as its home, knows of the object; all zero: nothing. */
static pull_object_view_t own_look(const node_t *n, mob_ref_t ref) {
    const node_pulling_t *p = n->cluster != NULL ? n->cluster->pulling : NULL;
    frame_id_t id = {.home = n->incarnation, .number = ref.slot, .generation = ref.generation};
    pull_object_view_t view = {0};
    if (p != NULL) (void)pull_object_look(p->pull, &id, &view);
    return view;
}

uint64_t node_pulling_primary(const node_t *n, const node_object_t *o) {
    return own_look(n, (mob_ref_t){.slot = o->slot, .generation = o->generation}).primary;
}

uint32_t node_pulling_version(const node_t *n, mob_ref_t ref) { return own_look(n, ref).version; }

void node_pulling_arguments(node_task_t *t) {
    node_t *n = t->job->node;
    node_pulling_t *p = n->cluster != NULL ? n->cluster->pulling : NULL;
    uint32_t missing = t->missing;
    for (uint32_t i = 0; p != NULL && i < t->num_deps; i++) {
        node_object_t *o = node_object_known(n, t->refs[t->num_returns + i]);
        /* without memory its run fetches it */
        if (o != NULL && node_proxy_is_elsewhere(n, o) && o->copy == NULL &&
            want_begin(p, o, PULL_ARGUMENTS) == MOB_OK && vec_push(&o->waiting, t))
            t->missing++;
    }
    n->missing_arguments += missing == 0 && t->missing > 0;
}

void node_wanting_ready(node_pulling_t *p, frame_id_t id, pull_class_t class) {
    node_pulled_t *e = node_pulled_find(p, id);
    if (e == NULL || (e->is_shelved && !node_shelf_take(p, e))) return; /* at the next tick */
    want_end(p, &e->asks[class]);
    node_object_t *o = node_object_known(p->node, e->ref);
    /* it was here before it was wanted, or came by another way */
    if (o != NULL && !node_object_is_away(p->node, o)) node_restore_tell(p->node, o, MOB_OK);
    node_pulled_update(p, e);
}

static void words_on(const node_pulling_t *p, frame_id_t id, mob_status_t why, char *words,
                     size_t capacity) {
    const node_row_t *row = node_roster_find(&p->cluster->roster, id.home);
    const char *name = row != NULL && row->name != NULL ? row->name : "that it came from";
    if (why == MOB_EOWNER)
        snprintf(words, capacity, "the node %s, which knew what this value refers to, is dead%s%s",
                 name, row != NULL && row->reason != NULL ? ": " : "",
                 row != NULL && row->reason != NULL ? row->reason : "");
    else
        snprintf(words, capacity,
                 "no node has the value of this object any more; its own node is %s", name);
}

void node_wanting_failed(node_pulling_t *p, frame_id_t id, pull_class_t class, mob_status_t why) {
    node_pulled_t *e = node_pulled_find(p, id);
    char words[512];
    if (e == NULL || e->asks[class].want == NULL) return;
    want_end(p, &e->asks[class]);
    node_object_t *o = node_object_known(p->node, node_proxy_find(p->node, id));
    bool is_passing = why == MOB_EFULL || why == MOB_ENOMEM || why == MOB_ESPACE;
    if (o != NULL && is_passing && class == PULL_ARGUMENTS) {
        node_object_sealed(p->node, e->ref); /* its tasks begin, and wait as gets do */
    } else if (o != NULL && is_passing) {
        node_restore_tell(p->node, o, why);
    } else if (o != NULL && node_proxy_is_elsewhere(p->node, o)) {
        words_on(p, id, why, words, sizeof words);
        node_proxy_lose(p->node, o, why == MOB_EOWNER ? MOB_EOWNER : MOB_ELOST, words);
    }
    node_pulled_update(p, e);
}

bool node_pulling_lost(node_t *n, node_object_t *o) {
    node_pulling_t *p = n->cluster != NULL ? n->cluster->pulling : NULL;
    if (p == NULL || o->elsewhere == NULL) return false;
    frame_id_t id = node_proxy_id(n, (mob_ref_t){.slot = o->slot, .generation = o->generation});
    (void)pull_copy_drop(p->pull, &id, node_pulling_now());
    return o->askers.count == 0 || node_pulling_want(n, o, true);
}

void node_pulling_refused(node_t *n, const node_object_t *o, mob_status_t status) {
    node_pulling_t *p = n->cluster != NULL ? n->cluster->pulling : NULL;
    if (p == NULL) return;
    mob_ref_t ref = {.slot = o->slot, .generation = o->generation};
    frame_id_t id = node_proxy_id(n, ref);
    node_pulled_t *e = node_pulled_find(p, id);
    for (int i = 0; e != NULL && i < PULL_CLASSES; i++)
        if (e->asks[i].want != NULL)
            node_pulling_note(
                p, (node_todo_t){
                       .kind = TODO_FAILED, .id = id, .class = (pull_class_t)i, .why = status});
}

/* ---- nobody needs it ---- */

static bool is_needed(const node_pulling_t *p, const node_pulled_t *e) {
    mob_ref_t ref = e->is_shelved ? node_proxy_find(p->node, e->id) : e->ref;
    const node_object_t *o = node_object_known(p->node, ref);
    return o != NULL && node_proxy_is_elsewhere(p->node, o) &&
           (o->holders.count > 0 || o->uses > (e->is_used ? 1u : 0u));
}

void node_wanting_settle(node_pulling_t *p) {
    VEC(frame_id_t) ids = {0};
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&p->all, &cursor, &key, &value)) {
        const node_pulled_t *e = value;
        bool wants = e->asks[PULL_GET].want != NULL || e->asks[PULL_WAIT].want != NULL ||
                     e->asks[PULL_ARGUMENTS].want != NULL;
        if (wants && (e->is_shelved || !is_needed(p, e))) (void)vec_push(&ids, e->id);
    }
    for (size_t i = 0; i < ids.count; i++) {
        node_pulled_t *e = node_pulled_find(p, ids.items[i]);
        if (e == NULL) continue;
        if (is_needed(p, e))
            (void)node_shelf_take(p, e);
        else
            wants_end(p, e);
    }
    vec_free(&ids);
}

/* ---- lost, and made again ---- */

static void lost_set(node_pulling_t *p, node_pulled_t *e, bool is_lost) {
    if (e->is_lost == is_lost) return;
    e->is_lost = is_lost;
    if (is_lost)
        p->lost++;
    else
        p->lost--;
}

void node_wanting_lost(node_pulling_t *p, frame_id_t id) {
    node_t *n = p->node;
    mob_ref_t ref = node_proxy_find(n, id);
    node_object_t *o = node_object_known(n, ref);
    node_pulled_t *e = o != NULL ? node_pulled_get(p, id, ref) : NULL;
    if (e == NULL) {
        pull_object_free(p->pull, &id, node_pulling_now());
        return;
    }
    lost_set(p, e, true);
    if (o->elsewhere != NULL) e->lost_bytes = o->elsewhere->pulled_bytes;
    if (node_proxy_is_elsewhere(n, o))
        node_proxy_lose(n, o, MOB_ELOST, "the node that had this object's value is dead");
    node_pulling_wake(p, false);
}

/* It has a value again. Others can read it if it is what they were told of: an error, or a value of
 * another size, is none of theirs. */
static void remade(node_pulling_t *p, node_pulled_t *e) {
    frame_id_t id = e->id;
    const store_slot_t *slot = &p->node->slots[e->ref.slot];
    const node_object_t *o = node_object_known(p->node, e->ref);
    lost_set(p, e, false);
    if (o != NULL && o->elsewhere != NULL) { /* another node has made it, and can be asked */
        node_pulled_update(p, e);
        return;
    }
    bool is_same = o != NULL && store_meta_error(slot->meta) == MOB_OK &&
                   node_pulling_size(p->node, e->ref) == e->lost_bytes;
    if (!is_same || node_pulled_offer(p, id) != MOB_OK)
        pull_object_free(p->pull, &id, node_pulling_now());
    if ((e = node_pulled_find(p, id)) != NULL) node_pulled_update(p, e);
}

void node_wanting_remade(node_pulling_t *p) {
    VEC(frame_id_t) ids = {0};
    size_t cursor = 0;
    const void *key;
    void *value;
    while (p->lost > 0 && base_map_each(&p->all, &cursor, &key, &value)) {
        const node_pulled_t *e = value;
        const node_object_t *o = node_object_known(p->node, e->ref);
        bool is_over = o == NULL || !node_object_is_gone(p->node, o);
        if (e->is_lost && is_over) (void)vec_push(&ids, e->id);
    }
    for (size_t i = 0; i < ids.count; i++) {
        node_pulled_t *e = node_pulled_find(p, ids.items[i]);
        if (e != NULL) remade(p, e);
    }
    vec_free(&ids);
}
