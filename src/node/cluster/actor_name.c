/*
 * In the control state, by a hash of the namespace and the name:
 *
 *     u64 home | the actor's id            of an actor that has the name
 *
 * What a node that is dead has left there counts as nothing, unless it is of a detached actor that
 * goes on without its home: whoever asks says that it knows of the death, and of whose.
 *
 * A finder asks the home, which answers with the references in a frame, so that they are held:
 *
 *     ASK    epoch: the finder's number | space size 1, space, name
 *     TOLD   epoch: the same | id: the actor, or none | id: what it is described by, or none
 *
 * What is not answered, because Redis is away or another one has become the master, is asked again
 * with the same words: a name that is this actor's already is given to it again. For PATIENCE_NS:
 * whoever waits is told then. What gives a name back is asked until it is answered: the name would
 * stay taken as long as this node lives.
 *
 * An actor that is about to end has no name any more, whatever the control state says.
 *
 * A state that may have lost something has another master's name. Then each node says again which
 * of its actors have names; the state settles when all nodes have said all they have. Until then a
 * name that nobody has there may be somebody's: it is not given to anybody, and whoever looks for
 * it waits. Where an actor gave its name back meanwhile, that is said after it.
 */
#include "node/cluster/actor_name.h"

#include <stdlib.h>
#include <string.h>

#include "actor/script.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "frame/id.h"
#include "node/cluster/acting.h"
#include "node/cluster/actor_orphan.h"
#include "node/cluster/cluster.h"
#include "node/cluster/membership.h"
#include "node/cluster/post.h"
#include "node/cluster/proxy.h"
#include "node/state.h"

static const uint64_t PATIENCE_NS = 5000000000, SETTLING_NS = 20000000000;
enum { KEY_SIZE = 40, SAY_OK = 1, SAY_TAKEN, SAY_NONE, SAY_AGAIN, SAY_ORPHAN, SAY_POISONED };

struct node_name_search {
    node_name_search_t *next;
    uint64_t number, home; /* home 0: the control state was not heard yet */
    node_name_found_fn found;
    void *context;
    node_named_t named;
};

struct node_name_asked {
    node_name_asked_t *next; /* of those that were not answered */
    node_cluster_t *cluster;
    node_named_t named;
    frame_id_t id;            /* the actor; home 0: it is searched for */
    uint64_t dead;            /* a home that counts as nothing */
    node_name_taken_fn taken; /* NULL: it is given back, or said again */
    void *context;
    mob_ref_t actor; /* of a name that is said again; slot 0: it is not */
    uint64_t number; /* of a search */
    uint64_t since_ns;
};

/* ---- scripts ---- */

typedef struct {
    uint64_t master, dead;
    frame_id_t id; /* home 0: only looked at */
    bool drops;
    char key[KEY_SIZE];
} arguments_t;

static uint64_t hash_of(const char *space, const char *name, uint64_t hash) {
    for (const char *at = space; *at != 0; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3;
    hash = (hash ^ 0xff) * 0x100000001b3;
    for (const char *at = name; *at != 0; at++) hash = (hash ^ (uint8_t)*at) * 0x100000001b3;
    return hash;
}

static void key_write(const node_named_t *named, char ret_key[KEY_SIZE]) {
    snprintf(ret_key, KEY_SIZE, "an/%016llx%016llx",
             (unsigned long long)hash_of(named->name_space, named->name, 0xcbf29ce484222325),
             (unsigned long long)hash_of(named->name_space, named->name, 0x9ae16a3b2f90404f));
}

static size_t say(void *answer, uint8_t what, uint64_t home) {
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, what, 1);
    base_put_number(&w, home, 8);
    return w.size;
}

/* Whether the actor of a dead home is a detached one that goes on: what is kept of it is in the
 * answer then, behind a byte. */
static size_t orphan_say(const script_keys_t *keys, uint64_t master, frame_id_t id, void *answer) {
    uint8_t asked[8 + MOB_ID_SIZE], *say = answer;
    base_writer_t w = {.bytes = asked};
    base_put_number(&w, master, 8);
    actor_id_put(&w, id);
    script_keys_t named = *keys;
    named.master = master;
    size_t size = actor_script_read(&named, asked, w.size, answer);
    base_reader_t r = {.at = say + 1, .left = size - 1};
    actor_facts_t facts;
    bool goes_on = say[0] == ACTOR_SAY_OTHER && actor_facts_take(&r, &facts) &&
                   (facts.flags & ACTOR_DETACHED) != 0 && facts.at != ACTOR_AT_END;
    say[0] = SAY_ORPHAN;
    return goes_on ? size : 0;
}

static size_t script(const script_keys_t *keys, const void *arguments, size_t size, void *answer) {
    arguments_t a;
    size_t kept_size;
    memcpy(&a, arguments, size < sizeof a ? size : sizeof a);
    if (!member_script_guard(keys, a.master)) return say(answer, SAY_AGAIN, 0);
    const void *value = keys->get(keys->context, a.key, &kept_size);
    base_reader_t r = {.at = value, .left = value != NULL ? kept_size : 0};
    frame_id_t kept = frame_id_take(&r);
    bool is_there = value != NULL;
    if (is_there && !base_reader_is_done(&r)) return say(answer, SAY_POISONED, 0);
    bool is_own = is_there && kept.home == a.id.home && kept.number == a.id.number &&
                  kept.generation == a.id.generation;
    if (is_there && !is_own && !a.drops && kept.home == a.dead) {
        size_t said = orphan_say(keys, a.master, kept, answer);
        if (said > 0) return said;
        is_there = false;
    }
    if (a.id.home == 0) return say(answer, is_there ? SAY_OK : SAY_NONE, kept.home);
    if (a.drops) {
        if (is_own) keys->del(keys->context, a.key);
        return say(answer, SAY_OK, 0);
    }
    if (is_there && !is_own) return say(answer, SAY_TAKEN, kept.home);
    uint8_t bytes[MOB_ID_SIZE];
    base_writer_t w = {.bytes = bytes};
    frame_id_put(&w, a.id);
    keys->set(keys->context, a.key, bytes, w.size, 0);
    return say(answer, SAY_OK, 0);
}

static void on_taken(void *context, uint64_t master, const void *answer, size_t size);
static void on_kept(void *context, uint64_t master, const void *answer, size_t size);

/* In their order: who takes a name that was given back before is to get it. */
static void unheard_add(node_name_asked_t *asked) {
    node_name_asked_t **last = &asked->cluster->acting.unheard;
    while (*last != NULL) last = &(*last)->next;
    *last = asked;
    asked->next = NULL;
}

static bool is_settled(const node_cluster_t *c) {
    return c->acting.settled >= c->acting.master || c->state == CLUSTER_OVER;
}

static bool is_said(const node_name_asked_t *asked) { return asked->actor.slot != 0; }

static bool is_drop(const node_name_asked_t *asked) {
    return !frame_id_is_none(asked->id) && asked->taken == NULL && !is_said(asked);
}

/* Others have yet to say theirs. */
static bool must_wait(const node_name_asked_t *asked) {
    return asked->taken != NULL && !is_settled(asked->cluster);
}

static bool is_late(const node_name_asked_t *asked) {
    uint64_t patience = is_settled(asked->cluster) ? PATIENCE_NS : SETTLING_NS;
    return base_clock_mono_ns() - asked->since_ns > patience && !is_drop(asked) && !is_said(asked);
}

static mob_status_t ask(node_name_asked_t *asked) {
    bool searches = frame_id_is_none(asked->id);
    arguments_t a;
    if (must_wait(asked)) {
        unheard_add(asked);
        return MOB_OK;
    }
    memset(&a, 0, sizeof a);
    a.master = asked->cluster->acting.master;
    a.dead = asked->dead;
    a.id = asked->id;
    a.drops = is_drop(asked);
    key_write(&asked->named, a.key);
    return node_cluster_ask(asked->cluster, script, &a, sizeof a, searches ? on_kept : on_taken,
                            asked);
}

/* False: there will be no answer, or not in time. */
static bool ask_later(node_name_asked_t *asked) {
    if (asked->cluster->state == CLUSTER_OVER || is_late(asked)) return false;
    unheard_add(asked);
    return true;
}

void node_actor_names_tick(node_cluster_t *c) {
    node_name_asked_t *next, *asked = c->acting.unheard;
    c->acting.unheard = NULL;
    for (; asked != NULL; asked = next) {
        next = asked->next;
        if (must_wait(asked) && is_late(asked))
            on_taken(asked, 0, NULL, 0);
        else if (ask(asked) != MOB_OK)
            unheard_add(asked);
    }
    if (c->acting.names_due) node_actor_names_master(c, c->acting.names_master);
}

void node_actor_names_end(node_cluster_t *c) {
    for (node_name_asked_t *asked; (asked = c->acting.unheard) != NULL; free(asked))
        c->acting.unheard = asked->next;
}

static node_name_asked_t *asked_new(node_cluster_t *c, const node_named_t *named) {
    node_name_asked_t *asked = calloc(1, sizeof *asked);
    if (asked != NULL)
        *asked =
            (node_name_asked_t){.cluster = c, .named = *named, .since_ns = base_clock_mono_ns()};
    return asked;
}

static void poisoned_tell(const node_name_asked_t *asked) {
    char key[KEY_SIZE];
    key_write(&asked->named, key);
    node_cluster_trouble(asked->cluster,
                         "%s in Redis, the name %s of an actor, makes no sense: "
                         "delete that key, and the name is free",
                         key, asked->named.name);
}

/* What it says, and whose it is; SAY_AGAIN: nobody knows. */
static uint8_t answer_read(const node_name_asked_t *asked, const void *answer, size_t size,
                           uint64_t *ret_home) {
    base_reader_t r = {.at = answer, .left = answer != NULL ? size : 0};
    uint8_t what = (uint8_t)base_take_number(&r, 1);
    *ret_home = base_take_number(&r, 8);
    if (what == SAY_POISONED) poisoned_tell(asked);
    bool is_early = what == SAY_NONE && !is_settled(asked->cluster);
    if (what == SAY_ORPHAN) return what;
    return r.short_of || is_early || what == SAY_POISONED ? SAY_AGAIN : what;
}

/* ---- taking ---- */

static void said(node_name_asked_t *asked, uint8_t what);

static void on_taken(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    node_name_asked_t *asked = context;
    node_cluster_t *c = asked->cluster;
    uint64_t home;
    uint8_t what = answer_read(asked, answer, size, &home);
    if (what == SAY_AGAIN && ask_later(asked)) return;
    bool is_dead = home != c->node->incarnation && !member_knows(c->member, home);
    if (what == SAY_TAKEN && is_dead && asked->dead != home && !is_drop(asked)) {
        asked->dead = home;
        if (ask(asked) == MOB_OK) return;
    }
    if (is_said(asked)) {
        said(asked, what);
        return;
    }
    mob_status_t status = what == SAY_OK             ? MOB_OK
                          : what == SAY_TAKEN        ? MOB_EEXISTS
                          : what == SAY_ORPHAN       ? MOB_EEXISTS
                          : c->state == CLUSTER_OVER ? MOB_ECLOSED
                                                     : MOB_ETIMEOUT;
    if (asked->taken != NULL) asked->taken(asked->context, status);
    free(asked);
    c->node->again = true;
}

static mob_status_t write_ask(node_cluster_t *c, const node_named_t *named, frame_id_t actor,
                              node_name_taken_fn taken, void *context) {
    node_name_asked_t *asked = asked_new(c, named);
    if (asked == NULL) return MOB_ENOMEM;
    asked->id = actor;
    asked->taken = taken;
    asked->context = context;
    mob_status_t status = ask(asked);
    if (status != MOB_OK) free(asked);
    return status;
}

mob_status_t node_actor_name_take(node_cluster_t *c, const node_named_t *named, mob_ref_t actor,
                                  node_name_taken_fn taken, void *context) {
    return write_ask(c, named, node_proxy_id(c->node, actor), taken, context);
}

void node_actor_name_drop(node_cluster_t *c, const node_named_t *named, frame_id_t actor) {
    (void)write_ask(c, named, actor, NULL, NULL); /* else it stays until this node is dead */
}

/* ---- saying again ---- */

/* The own actor in the slot, if it has a name. */
static const node_actor_t *named_at(node_t *n, uint32_t slot) {
    const node_object_t *o = n->objects[slot];
    const node_actor_t *a = o != NULL && o->proxy == NULL ? o->actor : NULL;
    return a != NULL && a->named != NULL && a->named->name[0] != 0 ? a : NULL;
}

static void all_said(node_cluster_t *c) {
    if (c->acting.names_open > 0 || c->acting.names_due) return;
    c->acting.names_said = c->acting.names_master;
    node_membership_said(c);
}

static void said(node_name_asked_t *asked, uint8_t what) {
    node_cluster_t *c = asked->cluster;
    const node_actor_t *a = named_at(c->node, asked->actor.slot);
    bool has_it = a != NULL && a->id.generation == asked->actor.generation;
    if (what == SAY_OK && !has_it) node_actor_name_drop(c, &asked->named, asked->id);
    if (what != SAY_OK && has_it)
        node_cluster_trouble(c, "another actor than %s of this node has its name in Redis now",
                             asked->named.name);
    c->acting.names_open--;
    free(asked);
    all_said(c);
}

static bool say_again(node_cluster_t *c, const node_actor_t *a) {
    node_name_asked_t *asked = asked_new(c, a->named);
    if (asked == NULL) return false;
    asked->id = node_proxy_id(c->node, a->id);
    asked->actor = a->id;
    if (ask(asked) != MOB_OK) unheard_add(asked);
    c->acting.names_open++;
    return true;
}

void node_actor_names_master(node_cluster_t *c, uint64_t master) {
    node_t *n = c->node;
    c->acting.names_master = master;
    c->acting.names_due = false;
    for (uint32_t slot = STORE_SLOT_BLOCK; slot < n->grants.slots.granted; slot++) {
        const node_actor_t *a = named_at(n, slot);
        if (a != NULL && !say_again(c, a)) c->acting.names_due = true; /* no memory */
    }
    all_said(c);
}

/* ---- finding ---- */

static mob_status_t message_send(node_cluster_t *c, uint64_t to, uint8_t kind, uint64_t number,
                                 const frame_id_t ids[2], const node_named_t *named) {
    uint8_t bytes[128 + 2 * (MOB_NAME_MAX + 1)];
    base_writer_t w = {.bytes = bytes};
    size_t count = 0;
    frame_id_t held[2];
    for (size_t i = 0; i < 2; i++)
        if (!frame_id_is_none(ids[i])) held[count++] = ids[i];
    base_put_number(&w, count, 4);
    for (size_t i = 0; i < count; i++) frame_id_put(&w, held[i]);
    base_put_number(&w, 0, 4);
    base_put_number(&w, kind, 1);
    frame_id_put(&w, ids[0]);
    base_put_number(&w, number, 8);
    if (named != NULL) {
        base_put_number(&w, strlen(named->name_space), 1);
        base_put_bytes(&w, named->name_space, strlen(named->name_space));
        base_put_bytes(&w, named->name, strlen(named->name));
    } else {
        frame_id_put(&w, ids[1]);
    }
    node_letter_parts_t parts = {.body = bytes, .body_size = w.size};
    return node_post_send_refs(c, to, POST_ACTOR, &parts, held, count, NULL, true);
}

/* The search with this number, which is over; NULL: there is none. */
static node_name_search_t *search_take(node_cluster_t *c, uint64_t number) {
    node_name_search_t **at = &c->acting.searches;
    while (*at != NULL && (*at)->number != number) at = &(*at)->next;
    node_name_search_t *s = *at;
    if (s != NULL) *at = s->next;
    return s;
}

static void search_end(node_cluster_t *c, node_name_search_t *s, mob_status_t status,
                       mob_ref_t actor, mob_ref_t info) {
    s->found(s->context, status, actor, info);
    free(s);
    c->node->again = true;
}

static void on_kept(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    node_name_asked_t *asked = context;
    node_cluster_t *c = asked->cluster;
    uint64_t home;
    static const frame_id_t none[2];
    uint8_t what = answer_read(asked, answer, size, &home);
    if (what == SAY_AGAIN && ask_later(asked)) return;
    bool is_dead = what == SAY_OK && home != c->node->incarnation && !member_knows(c->member, home);
    if (is_dead && asked->dead != home) {
        asked->dead = home;
        if (ask(asked) == MOB_OK) return;
    }
    node_name_search_t *s = search_take(c, asked->number);
    free(asked);
    if (s == NULL) return;
    if (what == SAY_ORPHAN) {
        node_orphan_find(c, &s->named, (const uint8_t *)answer + 1, size - 1, s->found, s->context);
        free(s);
        return;
    }
    bool is_there = what == SAY_OK && home != c->node->incarnation && member_knows(c->member, home);
    s->home = home;
    s->next = c->acting.searches;
    c->acting.searches = s;
    if (is_there && message_send(c, home, NODE_NAME_ASK, s->number, none, &s->named) == MOB_OK)
        return;
    mob_status_t status = what != SAY_AGAIN          ? MOB_ENONAME
                          : c->state == CLUSTER_OVER ? MOB_ECLOSED
                                                     : MOB_ETIMEOUT;
    search_end(c, search_take(c, s->number), status, (mob_ref_t){0}, (mob_ref_t){0});
}

mob_status_t node_actor_name_find(node_cluster_t *c, const node_named_t *named,
                                  node_name_found_fn found, void *context) {
    node_name_search_t *s = calloc(1, sizeof *s);
    node_name_asked_t *asked = asked_new(c, named);
    if (s == NULL || asked == NULL || ask(asked) != MOB_OK) {
        free(s);
        free(asked);
        return MOB_ENOMEM;
    }
    *s = (node_name_search_t){.number = ++c->acting.search_count,
                              .found = found,
                              .context = context,
                              .named = *named,
                              .next = c->acting.searches};
    asked->number = s->number;
    c->acting.searches = s;
    return MOB_OK;
}

/* ---- at the home ---- */

typedef struct {
    node_cluster_t *cluster;
    uint64_t peer, number;
} finder_t;

static void on_looked(void *context, mob_status_t status, mob_ref_t actor, mob_ref_t info) {
    finder_t finder = *(finder_t *)context;
    node_t *n = finder.cluster->node;
    frame_id_t ids[2] = {{0}, {0}};
    free(context);
    if (status == MOB_OK) {
        ids[0] = node_proxy_id(n, actor);
        ids[1] = node_proxy_id(n, info);
    }
    /* a dead peer needs no answer; without memory it waits until this node is dead */
    (void)message_send(finder.cluster, finder.peer, NODE_NAME_TOLD, finder.number, ids, NULL);
}

mob_status_t node_actor_name_asked(node_cluster_t *c, uint64_t peer, const actor_message_t *m,
                                   const uint8_t *body, size_t size) {
    base_reader_t r = {.at = body, .left = size};
    size_t space_size = base_take_number(&r, 1);
    const char *space = base_take_bytes(&r, space_size);
    node_named_t named = {0};
    if (r.short_of || space_size > MOB_NAME_MAX || r.left > MOB_NAME_MAX) return MOB_EPROTO;
    memcpy(named.name_space, space, space_size);
    memcpy(named.name, r.at, r.left);
    finder_t *finder = malloc(sizeof *finder);
    if (finder == NULL) return MOB_ENOMEM;
    *finder = (finder_t){c, peer, m->epoch};
    if (node_name_look(c->node, &named, on_looked, finder) == MOB_OK) return MOB_OK;
    free(finder);
    return MOB_ENOMEM;
}

mob_status_t node_actor_name_told(node_cluster_t *c, uint64_t peer, const actor_message_t *m,
                                  const uint8_t *body, size_t size) {
    base_reader_t r = {.at = body, .left = size};
    frame_id_t info = frame_id_take(&r);
    if (!base_reader_is_done(&r)) return MOB_EPROTO;
    node_name_search_t *s = c->acting.searches;
    while (s != NULL && s->number != m->epoch) s = s->next;
    if (s == NULL || s->home != peer) return MOB_OK; /* it was not asked */
    (void)search_take(c, m->epoch);
    bool is_found = !frame_id_is_none(m->id);
    mob_ref_t actor = is_found ? node_proxy_get(c->node, m->id) : (mob_ref_t){0};
    mob_ref_t described = is_found ? node_proxy_get(c->node, info) : (mob_ref_t){0};
    search_end(c, s, actor.slot != 0 ? MOB_OK : MOB_ENONAME, actor, described);
    return MOB_OK;
}

void node_actor_names_died(node_cluster_t *c, uint64_t peer) {
    VEC(uint64_t) over = {0};
    for (const node_name_search_t *s = c->acting.searches; s != NULL; s = s->next)
        if (s->home == peer) (void)vec_push(&over, s->number);
    for (size_t i = 0; i < over.count; i++) { /* it may be a detached one, and go on */
        node_name_search_t *s = search_take(c, over.items[i]);
        if (node_actor_name_find(c, &s->named, s->found, s->context) == MOB_OK)
            free(s);
        else
            search_end(c, s, MOB_ENONAME, (mob_ref_t){0}, (mob_ref_t){0});
    }
    vec_free(&over);
}
