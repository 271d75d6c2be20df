/*
 * Placement groups.
 *
 *   naming     its name was asked for, and is not answered yet; nothing of it is in the scheduler
 *   PENDING    its request waits in the scheduler, like a task that needs all bundles at once
 *   CREATED    the bundles are set aside, and the object that names it is sealed
 *   REMOVED    nothing starts in it any more. What ran in it is killed; each bundle goes back when
 *              that is certain (sched/group.c), and the book is kept for people for a while
 *
 *   from      to        by
 *   PENDING   CREATED   the scheduler gives its request out
 *   any       REMOVED   WIRE_GROUP_REMOVE; the end of its job, unless it is detached
 *
 * A record brings it: the daemon reads that and frees it in the same call, so that nothing of its
 * maker is needed any more. The object that names the group is used by the daemon until the group
 * is removed, so a process that knows its id can hold it at any time. A handle keeps nothing: a
 * group lives until it is removed, whoever still knows of it.
 *
 * The bundles of a group are its maker's job's share of the node; those of detached groups belong
 * to a job that has nothing else. A job stays until its groups hold nothing, for processes of other
 * jobs may have run in them.
 */
#include "node/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "node/forward.h"
#include "node/state.h"

enum { MOST_REMOVED = 1000, MOST_BUNDLES = 10000 };
static const char *const STRATEGIES[] = {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"};
static const char *const STATES[] = {"PENDING", "CREATED", "REMOVED"};

/* ---- what its maker says ---- */

typedef struct {
    mob_group_t head;
    const uint8_t *at, *end;
} spec_t;

static bool spec_begin(const uint8_t *bytes, size_t size, spec_t *spec) {
    if (size < sizeof spec->head) return false;
    memcpy(&spec->head, bytes, sizeof spec->head);
    spec->at = bytes + sizeof spec->head;
    spec->end = bytes + size;
    return spec->head.strategy <= MOB_STRICT_SPREAD && spec->head.bundles >= 1 &&
           spec->head.bundles <= MOST_BUNDLES && spec->head.value_size <= size;
}

/* A text with its zero; NULL: there is none. */
static const char *text_take(const uint8_t **at, const uint8_t *end) {
    const char *text = (const char *)*at;
    const uint8_t *zero = memchr(*at, 0, (size_t)(end - *at));
    if (zero == NULL) return NULL;
    *at = zero + 1;
    return text;
}

/* The next bundle; its names lie in the spec. False: it makes no sense. */
static bool spec_bundle(spec_t *spec, sched_amount_t *amounts, sched_bundle_want_t *want) {
    mob_bundle_t head;
    if ((size_t)(spec->end - spec->at) < sizeof head) return false;
    memcpy(&head, spec->at, sizeof head);
    const uint8_t *at = spec->at + sizeof head;
    if (head.resources > SCHED_NEEDS_MAX || head.size > (size_t)(spec->end - at)) return false;
    const uint8_t *end = spec->at = at + head.size;
    for (uint32_t i = 0; i < head.resources; i++) {
        if ((size_t)(end - at) < sizeof(uint64_t)) return false;
        memcpy(&amounts[i].amount, at, sizeof(uint64_t));
        at += sizeof(uint64_t);
        amounts[i].name = text_take(&at, end);
        if (amounts[i].name == NULL) return false;
    }
    const char *selector = text_take(&at, end);
    *want = (sched_bundle_want_t){.demand = amounts,
                                  .count = head.resources,
                                  .selector = selector && *selector ? selector : NULL};
    return selector != NULL && at == end;
}

/* The scheduler's group. MOB_EPROTO: the spec makes no sense. */
static mob_status_t sched_make(node_group_t *g, sched_job_t *job) {
    spec_t spec;
    if (!spec_begin(g->spec, g->spec_size, &spec)) return MOB_EPROTO;
    uint32_t count = spec.head.bundles;
    size_t lines = g->spec_size / (sizeof(uint64_t) + 1) + 1, used = 0;
    sched_amount_t *amounts = calloc(lines + SCHED_NEEDS_MAX, sizeof *amounts);
    sched_bundle_want_t *wants = calloc(count, sizeof *wants);
    mob_status_t status = amounts != NULL && wants != NULL ? MOB_OK : MOB_ENOMEM;
    for (uint32_t b = 0; status == MOB_OK && b < count; b++) {
        if (spec_bundle(&spec, amounts + used, &wants[b]))
            used += wants[b].count;
        else
            status = MOB_EPROTO;
    }
    if (status == MOB_OK && (size_t)(spec.end - spec.at) != spec.head.value_size)
        status = MOB_EPROTO;
    if (status == MOB_OK)
        status =
            sched_group_new(job, wants, count, spec.head.strategy == MOB_STRICT_SPREAD, &g->sched);
    free(amounts);
    free(wants);
    return status;
}

static mob_group_t head_of(const node_group_t *g) {
    mob_group_t head;
    memcpy(&head, g->spec, sizeof head);
    return head;
}

/* ---- making one ---- */

static void group_free(node_group_t *g) {
    free(g->name);
    free(g->name_space);
    free(g->spec);
    free(g);
}

/* Copies what the record says. */
static node_group_t *group_read(node_client_t *c, const node_task_t *t, const node_named_t *named) {
    node_t *n = c->node;
    wire_record_t copy;
    wire_body_t body;
    memcpy(&copy, &n->records[t->record], sizeof copy);
    node_group_t *g = calloc(1, sizeof *g);
    if (g == NULL || t->num_returns != 1 || !node_record_split(n, c->number, &copy, &body)) {
        free(g);
        return NULL;
    }
    *g = (node_group_t){.node = n,
                        .id = t->refs[0],
                        .job_number = c->job->shown,
                        .made_ns = base_clock_wall_ns(),
                        .spec_size = body.args_size};
    g->ask.group = g;
    g->spec = malloc(body.args_size + 1);
    g->name = strdup(named != NULL ? named->name : "");
    g->name_space = strdup(named != NULL ? named->name_space : "");
    if (g->spec == NULL || g->name == NULL || g->name_space == NULL) {
        group_free(g);
        return NULL;
    }
    memcpy(g->spec, body.args, body.args_size);
    return g;
}

/* Whose share of the node its bundles are. */
static sched_job_t *share_of(node_group_t *g, node_job_t *maker) {
    node_groups_t *groups = &g->node->groups;
    spec_t spec;
    if (!spec_begin(g->spec, g->spec_size, &spec) || !spec.head.detached) {
        g->job = maker;
        return maker->sched;
    }
    if (groups->detached == NULL) (void)sched_job_new(g->node->sched, &groups->detached);
    return groups->detached;
}

/* Enters it into the books. Not MOB_OK: it is freed. */
static mob_status_t group_open(node_group_t *g, node_job_t *maker) {
    node_t *n = g->node;
    sched_job_t *share = share_of(g, maker);
    node_object_t *o = node_object_find(n, g->id);
    mob_status_t status = share != NULL && o != NULL ? sched_make(g, share) : MOB_ENOMEM;
    if (status == MOB_OK && !vec_push(&n->groups.items, g)) {
        sched_group_remove(g->sched);
        sched_group_free(g->sched);
        status = MOB_ENOMEM;
    }
    if (status != MOB_OK) {
        group_free(g);
        return status;
    }
    sched_group_user_set(g->sched, g);
    node_object_use(o);
    o->group = g;
    if (g->job != NULL) g->job->groups++;
    return MOB_OK;
}

static void never_warn(const node_group_t *g, const node_job_t *maker) {
    char lacks[600];
    const char *name = *g->name ? g->name : "(without a name)";
    uint32_t bundles = head_of(g).bundles;
    if (!sched_group_matches(g->sched))
        node_job_warn(maker,
                      "The placement group %s asks for labels that this node does not have. It "
                      "waits until that changes; until then it can't be placed.",
                      name);
    else if (node_lacks_text(g->request.job, sched_group_shape(g->sched), lacks, sizeof lacks))
        node_job_warn(maker,
                      "The placement group %s needs %s. It waits until that changes; until then it "
                      "can't be placed.",
                      name, lacks);
    else
        node_job_warn(
            maker,
            "The placement group %s is STRICT_SPREAD: each of its %u bundles needs a node "
            "of its own, and there is one node. It waits until that changes; until then "
            "it can't be placed.",
            name, bundles);
}

/* It waits for its bundles from now on. */
static void group_request(node_group_t *g, const node_job_t *maker) {
    sched_job_t *share = g->job != NULL ? g->job->sched : g->node->groups.detached;
    g->request.job = share;
    if (sched_group_fits_ever(g->sched))
        sched_task_add(share, &g->request, sched_group_shape(g->sched), base_clock_mono_ns());
    else if (maker != NULL)
        never_warn(g, maker);
}

/* ---- its name ---- */

typedef struct {
    node_t *node;
    uint32_t client, epoch;
    mob_ref_t id;
    char *name_space, *name;
} note_t;

static void group_end(node_group_t *g, const char *why);

static void on_named(void *context, const control_reply_t *reply) {
    note_t *note = context;
    node_t *n = note->node;
    node_object_t *o = node_object_known(n, note->id);
    node_group_t *g = o != NULL ? o->group : NULL; /* NULL: its job has ended meanwhile */
    node_client_t *c = n->clients[note->client];
    bool asks = c != NULL && c->epoch == note->epoch && c->state == NODE_LIVE;
    if (g != NULL && reply->status == MOB_OK) {
        g->naming = false;
        g->has_name = true;
        group_request(g, asks ? c->job : NULL);
    } else if (g != NULL) {
        node_slot_quiet(n, g->id);
        group_end(g, "its name is another group's");
    } else if (reply->status == MOB_OK) {
        control_name_drop(n->control, CONTROL_NAME_GROUP, note->name_space, note->name, note->id);
    }
    if (asks) node_client_tell(c, wire_answer(reply->status, 0));
    free(note->name);
    free(note->name_space);
    free(note);
    n->again = true;
}

static void name_ask(node_client_t *c, node_group_t *g) {
    node_t *n = c->node;
    note_t *note = calloc(1, sizeof *note);
    control_name_t key = {.kind = CONTROL_NAME_GROUP, .actor = g->id};
    snprintf(key.name_space, sizeof key.name_space, "%s", g->name_space);
    snprintf(key.name, sizeof key.name, "%s", g->name);
    g->naming = true;
    n->again = true;
    if (note != NULL)
        *note = (note_t){.node = n,
                         .client = c->number,
                         .epoch = c->epoch,
                         .id = g->id,
                         .name_space = strdup(g->name_space),
                         .name = strdup(g->name)};
    if (note != NULL && note->name != NULL && note->name_space != NULL &&
        control_name_take(n->control, &key, on_named, note) == MOB_OK)
        return;
    if (note != NULL) {
        free(note->name);
        free(note->name_space);
        free(note);
    }
    group_end(g, "the daemon has no memory for it");
    node_client_tell(c, wire_answer(MOB_ENOMEM, 0));
}

void node_group_create(node_client_t *c, uint32_t record, uint64_t generation,
                       const node_named_t *named) {
    node_t *n = c->node;
    mob_ref_t actor;
    node_task_t *t = node_task_submit_open(c, record, generation, &actor);
    if (t == NULL) return;
    bool has_name = named != NULL && named->name[0] != 0;
    node_group_t *g = t->kind == MOB_GROUP ? group_read(c, t, named) : NULL;
    base_fail_clear();
    mob_status_t status = g != NULL ? group_open(g, c->job) : MOB_ENOMEM;
    if (t->kind != MOB_GROUP || status == MOB_EPROTO) {
        node_task_fail(n, t, MOB_EPROTO, "this is no placement group");
        node_client_fault(c, "asked for a placement group that makes no sense");
        return;
    }
    if (status != MOB_OK) {
        node_task_fail(n, t, status,
                       *mob_last_error() ? mob_last_error() : mob_status_text(status));
        if (named != NULL) node_client_tell(c, wire_answer(status, 0));
        return;
    }
    node_task_dismiss(n, t);
    if (has_name) {
        name_ask(c, g);
        return;
    }
    group_request(g, c->job);
    if (named != NULL) node_client_tell(c, wire_answer(MOB_OK, 0));
}

/* ---- its bundles ---- */

/* The value that its maker gave for when it is placed, with the group's id in it. False: there is
 * no space for it. */
static bool value_write(const node_group_t *g) {
    node_t *n = g->node;
    store_slot_t *slot = &n->slots[g->id.slot];
    mob_group_t head = head_of(g);
    uint64_t block = 0, size = head.value_size;
    uint8_t *to = slot->value.small;
    if (size > STORE_INLINE) {
        if (shm_heap_alloc(&n->heap, size, shm_tag(false, g->id.slot, g->id.generation), &block) !=
            MOB_OK)
            return false;
        to = n->arena.base + block;
    }
    memcpy(to, g->spec + g->spec_size - size, size);
    char text[2 * MOB_ID_SIZE + 1];
    snprintf(text, sizeof text, "%016llx%08x%016llx", (unsigned long long)n->incarnation,
             g->id.slot, (unsigned long long)g->id.generation);
    for (uint32_t i = 0; head.id_at < size && size - head.id_at >= MOB_ID_SIZE && i < MOB_ID_SIZE;
         i++) {
        unsigned byte;
        sscanf(text + 2 * i, "%2x", &byte);
        to[head.id_at + i] = (uint8_t)byte;
    }
    if (block != 0) {
        slot->value.large.block = block;
        slot->value.large.ref_count = 0;
    }
    slot->meta =
        store_meta(size, size > 0 ? MOB_FORMAT_PICKLE : MOB_FORMAT_DIRECT, MOB_OK, block == 0);
    return true;
}

void node_group_place(node_group_t *g, sched_lease_t *lease) {
    node_t *n = g->node;
    sched_group_place(g->sched, lease);
    g->state = NODE_GROUP_CREATED;
    g->placed_ns = base_clock_wall_ns();
    if (value_write(g))
        (void)store_slot_seal(&n->slots[g->id.slot], true);
    else
        node_slot_fail(n, g->id, MOB_EFULL, "the store has no space for the group's handle", NULL);
    node_object_sealed(n, g->id);
    node_bells_ring(n);
}

/* ---- its end ---- */

static bool task_is_in(const node_task_t *t, const node_group_t *g) {
    return t != NULL && t->job != NULL &&
           sched_shape_where(t->job->sched, t->shape)->group == g->sched;
}

static bool lease_is_in(const sched_lease_t *lease, const node_group_t *g) {
    uint32_t bundle;
    return lease->job != NULL && sched_lease_group(lease, &bundle) == g->sched;
}

/* One that runs is killed with its worker, and fails when that is certain. */
static void task_end(node_t *n, node_task_t *t) {
    const char *words;
    mob_status_t status = node_task_doom(t, &words);
    if (t->kind == MOB_ACTOR_CREATE && t->actor != NULL) {
        node_actor_end(n, t->actor, status, words);
    } else if (node_forward_is(t)) {
        return; /* the peer ends it, and says so */
    } else if (t->worker != NULL) {
        node_client_kill(t->worker);
    } else if (!t->queued) {
        if (t->waiting_for_worker) node_pool_unwait(t);
        node_task_fail(n, t, status, words);
    }
}

/* What belongs to a job that ends does so in that job's way: its workers have some time for it, and
 * the group is over after that. */
static void inside_end(node_group_t *g) {
    node_t *n = g->node;
    node_lanes_leave(n, g->sched);
    for (uint32_t r = 0; r < n->grants.records.granted; r++)
        if (task_is_in(n->tasks[r], g) && !n->tasks[r]->job->farewell.leaving)
            task_end(n, n->tasks[r]);
    for (uint32_t i = 1; i < n->client_next; i++) {
        node_client_t *w = n->clients[i];
        if (w == NULL || !lease_is_in(&w->lease, g) || w->job->farewell.leaving) continue;
        if (w->actor != NULL)
            node_actor_end(n, w->actor, MOB_EACTORGROUP,
                           "The placement group corresponding to this Actor has been removed.");
        else
            node_client_kill(w);
    }
}

static void name_end(node_group_t *g) {
    node_t *n = g->node;
    if (!g->has_name) return;
    g->has_name = false;
    atomic_fetch_add(&n->shared->names_dropped, 1);
    control_name_drop(n->control, CONTROL_NAME_GROUP, g->name_space, g->name, g->id);
}

/* Kept for people, instead of the oldest. */
static void removed_note(node_group_t *g) {
    node_groups_t *groups = &g->node->groups;
    if (groups->removed.count < MOST_REMOVED) {
        if (!vec_push(&groups->removed, g)) group_free(g);
        return;
    }
    group_free(groups->removed.items[groups->removed_first]);
    groups->removed.items[groups->removed_first] = g;
    groups->removed_first = (groups->removed_first + 1) % MOST_REMOVED;
}

/* Whether it holds nothing any more: then it is forgotten but for people. */
static bool group_settle(node_group_t *g) {
    if (!sched_group_is_over(g->sched)) return false;
    sched_group_user_set(g->sched, NULL);
    sched_group_free(g->sched);
    g->sched = NULL;
    if (g->job != NULL) g->job->groups--;
    g->job = NULL;
    removed_note(g);
    return true;
}

static void group_end(node_group_t *g, const char *why) {
    node_t *n = g->node;
    node_groups_t *groups = &n->groups;
    bool used = sched_group_is_used(g->sched);
    for (size_t i = groups->items.count; i-- > 0;) /* the newest is often the one */
        if (groups->items.items[i] == g) {
            vec_swap_remove(&groups->items, i);
            break;
        }
    g->state = NODE_GROUP_REMOVED;
    sched_task_remove(n->sched, &g->request);
    sched_group_remove(g->sched);
    name_end(g);
    node_object_t *o = node_object_known(n, g->id);
    if (o != NULL) o->group = NULL;
    char text[200];
    snprintf(text, sizeof text, "The placement group was removed before it was placed: %s", why);
    node_slot_fail(n, g->id, MOB_EGROUP, text, NULL);
    node_object_sealed(n, g->id);
    if (used) inside_end(g);
    node_bells_ring(n);
    n->again = true;
    node_object_unuse_ref(n, g->id);
    if (!group_settle(g) && !vec_push(&groups->draining, g))
        g->node = NULL; /* without memory it is never freed; its bundles are */
}

node_group_t *node_group_find(node_t *n, mob_ref_t id) {
    node_object_t *o = id.slot < STORE_MAX_SLOTS ? node_object_known(n, id) : NULL;
    return o != NULL ? o->group : NULL;
}

/* The creation was pushed before its id was given away: so it was read once all rings were. */
bool node_group_early(node_client_t *c, mob_ref_t id, const wire_message_t *m) {
    node_t *n = c->node;
    if (node_group_find(n, id) != NULL || id.slot == 0 || id.slot >= n->grants.slots.granted)
        return false;
    const store_slot_t *slot = &n->slots[id.slot];
    if ((atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) != STORE_PENDING ||
        atomic_load_explicit(&slot->generation, memory_order_relaxed) != id.generation)
        return false;
    n->again = true;
    return vec_push(&n->groups.early,
                    ((node_group_early_t){
                        .client = c->number, .epoch = c->epoch, .round = n->round, .message = *m}));
}

static void group_remove(node_t *n, mob_ref_t id) {
    node_group_t *g = node_group_find(n, id);
    if (g == NULL) return;
    node_slot_quiet(n, id); /* who removes it knows */
    group_end(g, "by ray.util.remove_placement_group");
}

static void early_settle(node_t *n) {
    size_t kept = 0;
    for (size_t i = 0; i < n->groups.early.count; i++) {
        node_group_early_t e = n->groups.early.items[i];
        node_client_t *c = n->clients[e.client];
        if (e.round == n->round)
            n->groups.early.items[kept++] = e;
        else if (c == NULL || c->epoch != e.epoch || c->state != NODE_LIVE)
            continue;
        else if (e.message.kind == WIRE_SHAPE)
            node_shape(c, &e.message, true);
        else
            group_remove(n, (mob_ref_t){.slot = e.message.object.slot,
                                        .generation = e.message.object.generation});
    }
    n->groups.early.count = kept;
    n->again |= kept > 0;
}

void node_group_remove(node_client_t *c, const wire_message_t *m) {
    mob_ref_t id = {.slot = m->object.slot, .generation = m->object.generation};
    if (!node_group_early(c, id, m)) group_remove(c->node, id);
}

void node_groups_end(node_job_t *job) {
    node_groups_t *groups = &job->node->groups;
    for (size_t i = groups->items.count; i-- > 0;) {
        node_group_t *g = i < groups->items.count ? groups->items.items[i] : NULL;
        if (g == NULL || g->job != job) continue;
        node_slot_quiet(job->node, g->id);
        group_end(g, "its job has ended");
    }
}

void node_groups_settle(node_t *n) {
    node_groups_t *groups = &n->groups;
    early_settle(n);
    for (size_t i = groups->draining.count; i-- > 0;)
        if (group_settle(groups->draining.items[i])) vec_swap_remove(&groups->draining, i);
}

/* ---- for people ---- */

static void bundles_write(const node_group_t *g, wire_writer_t *w) {
    spec_t spec;
    sched_amount_t amounts[SCHED_NEEDS_MAX];
    sched_bundle_want_t want;
    (void)spec_begin(g->spec, g->spec_size, &spec);
    wire_write_tuple(w, spec.head.bundles);
    for (uint32_t b = 0; b < spec.head.bundles; b++) {
        (void)spec_bundle(&spec, amounts, &want);
        wire_write_tuple(w, (uint32_t)want.count);
        for (size_t i = 0; i < want.count; i++) {
            wire_write_tuple(w, 2);
            wire_write_str(w, amounts[i].name, strlen(amounts[i].name));
            wire_write_float(w, (double)amounts[i].amount / SCHED_UNIT);
        }
    }
}

static void group_write(const node_group_t *g, wire_writer_t *w) {
    mob_group_t head = head_of(g);
    bool possible =
        g->sched != NULL && g->state == NODE_GROUP_PENDING && sched_group_fits_ever(g->sched);
    wire_write_tuple(w, 12);
    wire_write_int(w, g->id.slot);
    wire_write_int(w, (int64_t)g->id.generation);
    wire_write_str(w, g->name, strlen(g->name));
    wire_write_str(w, g->name_space, strlen(g->name_space));
    wire_write_str(w, STRATEGIES[head.strategy], strlen(STRATEGIES[head.strategy]));
    wire_write_str(w, STATES[g->state], strlen(STATES[g->state]));
    wire_write_bool(w, possible);
    wire_write_bool(w, head.detached != 0);
    wire_write_int(w, g->job_number);
    wire_write_int(w, (int64_t)g->made_ns);
    wire_write_int(w, (int64_t)g->placed_ns);
    bundles_write(g, w);
}

typedef struct {
    node_group_t *const *items;
    size_t count;
} list_t;

void node_groups_write(node_t *n, uint64_t slot, wire_writer_t *w) {
    const node_groups_t *groups = &n->groups;
    const list_t lists[] = {{groups->removed.items, groups->removed.count},
                            {groups->draining.items, groups->draining.count},
                            {groups->items.items, groups->items.count}};
    uint32_t count = 0;
    wire_write_tuple(w, 2);
    wire_write_int(w, (int64_t)n->incarnation);
    for (int writes = 0; writes <= 1; writes++) {
        if (writes) wire_write_tuple(w, count);
        for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
            for (size_t i = 0; i < lists[l].count; i++) {
                const node_group_t *g = lists[l].items[i];
                if (slot != 0 && g->id.slot != slot) continue;
                if (writes)
                    group_write(g, w);
                else
                    count++;
            }
    }
}
