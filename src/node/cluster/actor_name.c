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
#include "node/cluster/post.h"
#include "node/cluster/proxy.h"
#include "node/state.h"

static const uint64_t PATIENCE_NS = 5000000000;
enum { KEY_SIZE = 40, SAY_OK = 1, SAY_TAKEN, SAY_NONE, SAY_AGAIN, SAY_ORPHAN };

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
    node_name_taken_fn taken; /* NULL: it is given back */
    void *context;
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
    bool is_there = value != NULL && !r.short_of;
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

static mob_status_t ask(node_name_asked_t *asked) {
    bool searches = frame_id_is_none(asked->id);
    arguments_t a;
    memset(&a, 0, sizeof a);
    a.master = asked->cluster->acting.master;
    a.dead = asked->dead;
    a.id = asked->id;
    a.drops = !searches && asked->taken == NULL;
    key_write(&asked->named, a.key);
    return node_cluster_ask(asked->cluster, script, &a, sizeof a, searches ? on_kept : on_taken,
                            asked);
}

static void unheard_add(node_name_asked_t *asked) {
    asked->next = asked->cluster->acting.unheard;
    asked->cluster->acting.unheard = asked;
}

/* False: there will be no answer, or not in time. */
static bool ask_later(node_name_asked_t *asked) {
    bool is_drop = !frame_id_is_none(asked->id) && asked->taken == NULL;
    bool is_late = base_clock_mono_ns() - asked->since_ns > PATIENCE_NS;
    if (asked->cluster->state == CLUSTER_OVER || (is_late && !is_drop)) return false;
    unheard_add(asked);
    return true;
}

void node_actor_names_tick(node_cluster_t *c) {
    node_name_asked_t *next, *asked = c->acting.unheard;
    c->acting.unheard = NULL;
    for (; asked != NULL; asked = next) {
        next = asked->next;
        if (ask(asked) != MOB_OK) unheard_add(asked);
    }
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

/* What it says, and whose it is; SAY_AGAIN: nobody knows. */
static uint8_t answer_read(const void *answer, size_t size, uint64_t *ret_home) {
    base_reader_t r = {.at = answer, .left = answer != NULL ? size : 0};
    uint8_t what = (uint8_t)base_take_number(&r, 1);
    *ret_home = base_take_number(&r, 8);
    return what == SAY_ORPHAN ? what : r.short_of ? SAY_AGAIN : what;
}

/* ---- taking ---- */

static void on_taken(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    node_name_asked_t *asked = context;
    node_cluster_t *c = asked->cluster;
    uint64_t home;
    uint8_t what = answer_read(answer, size, &home);
    if (what == SAY_AGAIN && ask_later(asked)) return;
    bool is_dead = home != c->node->incarnation && !member_knows(c->member, home);
    if (what == SAY_TAKEN && is_dead && asked->taken != NULL) {
        asked->dead = home;
        if (ask(asked) == MOB_OK) return;
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

static mob_status_t write_ask(node_cluster_t *c, const node_named_t *named, mob_ref_t actor,
                              node_name_taken_fn taken, void *context) {
    node_name_asked_t *asked = asked_new(c, named);
    if (asked == NULL) return MOB_ENOMEM;
    asked->id = node_proxy_id(c->node, actor);
    asked->taken = taken;
    asked->context = context;
    mob_status_t status = ask(asked);
    if (status != MOB_OK) free(asked);
    return status;
}

mob_status_t node_actor_name_take(node_cluster_t *c, const node_named_t *named, mob_ref_t actor,
                                  node_name_taken_fn taken, void *context) {
    return write_ask(c, named, actor, taken, context);
}

void node_actor_name_drop(node_cluster_t *c, const node_named_t *named, mob_ref_t actor) {
    (void)write_ask(c, named, actor, NULL, NULL); /* else it stays until this node is dead */
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
    uint8_t what = answer_read(answer, size, &home);
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
    node_name_search_t *s = search_take(c, m->epoch);
    if (s == NULL) return MOB_OK;
    bool is_found = s->home == peer && !frame_id_is_none(m->id);
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
