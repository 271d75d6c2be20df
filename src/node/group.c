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
#include "node/cluster/group_guest.h"
#include "node/cluster/group_home.h"
#include "node/cluster/group_over.h"
#include "node/forward.h"
#include "node/group_spec.h"
#include "node/state.h"

enum { MOST_REMOVED = 1000 };

static mob_group_t head_of(const node_group_t *g) {
    mob_group_t head;
    memcpy(&head, g->spec, sizeof head);
    return head;
}

/* ---- making one ---- */

static void book_free(node_group_t *g) {
    node_group_over_free(g);
    free(g->name);
    free(g->name_space);
    free(g->spec);
    free(g);
}

/* Copies what the record says. */
static node_group_t *book_read(node_client_t *c, const node_task_t *t, const node_named_t *named) {
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
        book_free(g);
        return NULL;
    }
    memcpy(g->spec, body.args, body.args_size);
    return g;
}

/* Whose share of the node its bundles are. */
static sched_job_t *share_of(node_group_t *g, node_job_t *maker) {
    node_groups_t *groups = &g->node->groups;
    node_group_spec_t spec;
    if (!node_group_spec_begin(g->spec, g->spec_size, &spec) || !spec.head.detached) {
        g->job = maker;
        return maker->sched;
    }
    if (groups->jobless == NULL) (void)sched_job_new(g->node->sched, &groups->jobless);
    return groups->jobless;
}

/* Enters it into the books. Not MOB_OK: it is freed. */
static mob_status_t book_open(node_group_t *g, node_job_t *maker) {
    node_t *n = g->node;
    sched_job_t *share = share_of(g, maker);
    node_object_t *o = node_object_find(n, g->id);
    mob_status_t status = share != NULL && o != NULL
                              ? node_group_spec_sched(g->spec, g->spec_size, share, &g->sched)
                              : MOB_ENOMEM;
    if (status == MOB_OK && !vec_push(&n->groups.items, g)) {
        sched_group_remove(g->sched);
        sched_group_free(g->sched);
        status = MOB_ENOMEM;
    }
    if (status != MOB_OK) {
        book_free(g);
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
static void book_request(node_group_t *g, const node_job_t *maker) {
    sched_job_t *share = g->job != NULL ? g->job->sched : g->node->groups.jobless;
    g->request.job = share;
    if (node_group_leaves(g, maker)) return;
    if (sched_group_fits_ever(g->sched))
        sched_task_add(share, &g->request, sched_group_shape(g->sched), base_clock_mono_ns());
    else if (maker != NULL)
        never_warn(g, maker);
}

/* ---- of another node ---- */

node_group_t *node_group_guest_new(node_t *n, frame_id_t id, uint8_t *spec, size_t spec_size) {
    node_groups_t *groups = &n->groups;
    node_group_t *g = calloc(1, sizeof *g);
    if (g == NULL) {
        free(spec);
        return NULL;
    }
    *g = (node_group_t){.node = n,
                        .made_ns = base_clock_wall_ns(),
                        .spec = spec,
                        .spec_size = spec_size,
                        .name = strdup(""),
                        .name_space = strdup("")};
    g->ask.group = g;
    if (groups->jobless == NULL) (void)sched_job_new(n->sched, &groups->jobless);
    bool is_fine = g->name != NULL && g->name_space != NULL && groups->jobless != NULL &&
                   node_group_over_new(g, id) != NULL &&
                   node_group_spec_sched(spec, spec_size, groups->jobless, &g->sched) == MOB_OK;
    if (is_fine && vec_push(&groups->items, g)) {
        sched_group_user_set(g->sched, g);
        return g;
    }
    if (g->sched != NULL) {
        sched_group_remove(g->sched);
        sched_group_free(g->sched);
    }
    book_free(g);
    return NULL;
}

void node_group_guest_bind(node_group_t *g, mob_ref_t ref) {
    node_object_t *o = node_object_find(g->node, ref);
    if (g->id.slot != 0 || o == NULL) return;
    g->id = ref;
    node_object_use(o);
    o->group = g;
}

/* ---- its name ---- */

typedef struct {
    node_t *node;
    uint32_t client, epoch;
    mob_ref_t id;
    char *name_space, *name;
} note_t;

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
        book_request(g, asks ? c->job : NULL);
    } else if (g != NULL) {
        node_slot_quiet(n, g->id);
        node_group_end(g, "its name is another group's");
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
    node_group_end(g, "the daemon has no memory for it");
    node_client_tell(c, wire_answer(MOB_ENOMEM, 0));
}

void node_group_create(node_client_t *c, uint32_t record, uint64_t generation,
                       const node_named_t *named) {
    node_t *n = c->node;
    mob_ref_t actor;
    node_task_t *t = node_task_submit_open(c, record, generation, &actor);
    if (t == NULL) return;
    bool has_name = named != NULL && named->name[0] != 0;
    node_group_t *g = t->kind == MOB_GROUP ? book_read(c, t, named) : NULL;
    base_fail_clear();
    mob_status_t status = g != NULL ? book_open(g, c->job) : MOB_ENOMEM;
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
    book_request(g, c->job);
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
    node_group_id_text(g, text);
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
    sched_group_place(g->sched, lease);
    node_group_made(g);
}

void node_group_made(node_group_t *g) {
    node_t *n = g->node;
    bool is_again = g->placed_ns != 0;
    g->state = NODE_GROUP_CREATED;
    if (!is_again) g->placed_ns = base_clock_wall_ns();
    node_group_over_tell(g);
    if (is_again) return;
    if (value_write(g))
        (void)store_slot_seal(&n->slots[g->id.slot], true);
    else
        node_slot_fail(n, g->id, MOB_EFULL, "the store has no space for the group's handle", NULL);
    node_object_sealed(n, g->id);
    node_bells_ring(n);
}

/* ---- its end ---- */

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
        if (!vec_push(&groups->removed, g)) book_free(g);
        return;
    }
    book_free(groups->removed.items[groups->removed_first]);
    groups->removed.items[groups->removed_first] = g;
    groups->removed_first = (groups->removed_first + 1) % MOST_REMOVED;
}

/* Whether it holds nothing any more: then it is forgotten but for people. */
static bool book_settle(node_group_t *g) {
    if (!sched_group_is_over(g->sched)) return false;
    sched_group_user_set(g->sched, NULL);
    sched_group_free(g->sched);
    g->sched = NULL;
    if (g->job != NULL) g->job->groups--;
    g->job = NULL;
    if (g->id.slot != 0)
        removed_note(g);
    else
        book_free(g); /* nobody here knew of it */
    return true;
}

/* Of one that was made here: who waits for it is told. */
static void maker_end(node_group_t *g, const char *why) {
    node_t *n = g->node;
    char text[200];
    name_end(g);
    snprintf(text, sizeof text, "The placement group was removed before it was placed: %s", why);
    node_slot_fail(n, g->id, MOB_EGROUP, text, NULL);
    node_object_sealed(n, g->id);
}

void node_group_end(node_group_t *g, const char *why) {
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
    node_object_t *o = node_object_known(n, g->id);
    if (o != NULL) o->group = NULL;
    if (!node_group_is_guest(g)) maker_end(g, why);
    node_group_over_end(g);
    if (used) node_group_inside_end(g);
    node_bells_ring(n);
    n->again = true;
    if (g->id.slot != 0) node_object_unuse_ref(n, g->id);
    if (!book_settle(g) && !vec_push(&groups->draining, g))
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

static void removal_come(node_t *n, mob_ref_t id) {
    node_group_t *g = node_group_find(n, id);
    if (g == NULL) return;
    if (node_group_is_guest(g)) node_group_guest_remove(g);
    node_slot_quiet(n, id); /* who removes it knows */
    node_group_end(g, "by ray.util.remove_placement_group");
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
            removal_come(n, (mob_ref_t){.slot = e.message.object.slot,
                                        .generation = e.message.object.generation});
    }
    n->groups.early.count = kept;
    n->again |= kept > 0;
}

void node_group_remove(node_client_t *c, const wire_message_t *m) {
    mob_ref_t id = {.slot = m->object.slot, .generation = m->object.generation};
    if (!node_group_early(c, id, m)) removal_come(c->node, id);
}

void node_groups_end(node_job_t *job) {
    node_groups_t *groups = &job->node->groups;
    for (size_t i = groups->items.count; i-- > 0;) {
        node_group_t *g = i < groups->items.count ? groups->items.items[i] : NULL;
        if (g == NULL || g->job != job) continue;
        node_slot_quiet(job->node, g->id);
        node_group_end(g, "its job has ended");
    }
}

void node_groups_settle(node_t *n) {
    node_groups_t *groups = &n->groups;
    early_settle(n);
    for (size_t i = groups->draining.count; i-- > 0;)
        if (book_settle(groups->draining.items[i])) vec_swap_remove(&groups->draining, i);
}
