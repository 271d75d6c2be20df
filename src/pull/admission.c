/*
 * Which wants get memory. A want waits until the size of each of its objects is known, that is,
 * until all are made: so nothing is held for a get whose last object is made by a task that needs
 * the memory. Then it stands in the line of its class, the oldest first, until there is room for
 * all of its objects, or none: two gets never hold half of the memory each. While one waits for
 * room nothing younger, and nothing of a later class, passes it.
 *
 *     ASKING --all described--> WAITING --room for all--> ADMITTED --all complete--> READY
 *        ^                         |                          |
 *        +--- another version -----+--------------------------+
 *     any but READY --an object is gone, no room ever, a task's second is over--> FAILED
 *
 * A want pins its copies from ADMITTED on; a wait's only until READY. Several wants may pin one
 * copy: it is pulled once, and its bytes count once.
 */
#include <stdlib.h>

#include "base/rule.h"
#include "pull/state.h"

/* ---- pins ---- */

static void item_pin(pull_t *pull, want_item_t *item) {
    item->is_pinned = true;
    item->copy->pins++;
    pull_copy_update(pull, item->copy);
}

static void item_unpin(pull_t *pull, want_item_t *item) {
    if (!item->is_pinned) return;
    copy_t *copy = item->copy;
    item->is_pinned = false;
    pull->may_admit = true;
    if (--copy->pins == 0 && copy->state == COPY_PULLING) pull_copy_leave(pull, copy);
    pull_copy_update(pull, copy);
}

static void want_unpin(pull_t *pull, pull_want_t *want) {
    for (size_t i = 0; i < want->count; i++) item_unpin(pull, &want->items[i]);
}

static void want_unqueue(pull_want_t *want) {
    ring_remove(&want->line);
    ring_remove(&want->patience);
}

/* It wants nothing any more. */
static void want_detach(pull_t *pull, pull_want_t *want) {
    want_unqueue(want);
    want_unpin(pull, want);
    for (size_t i = 0; i < want->count; i++) {
        copy_t *copy = want->items[i].copy;
        if (copy == NULL) continue;
        ring_remove(&want->items[i].of_copy);
        want->items[i].copy = NULL;
        pull_copy_update(pull, copy);
    }
    pull->may_admit = true;
}

static void want_fail(pull_t *pull, pull_want_t *want, const frame_id_t *id, mob_status_t why) {
    want->state = PULL_FAILED;
    pull->ops->failed(pull->context, want->user, id, why);
    want_detach(pull, want);
}

void pull_copy_fail(pull_t *pull, copy_t *copy, mob_status_t why) {
    frame_id_t id = copy->id;
    /* The copy is forgotten with its last want. */
    while ((copy = pull_copy_find(pull, &id)) != NULL && !ring_is_empty(&copy->wants))
        want_fail(pull, RING_OF(copy->wants.next, want_item_t, of_copy)->want, &id, why);
}

/* ---- sizes ---- */

static void want_queue(pull_t *pull, pull_want_t *want) {
    if (want->state != PULL_ASKING || ring_is_in(&want->line)) return;
    if (want->undescribed > 0 && BASE_RULE(PULL_SEALED_FIRST)) return;
    ring_t *head = &pull->lines[want->class], *before = head->prev;
    while (before != head && RING_OF(before, pull_want_t, line)->order > want->order)
        before = before->prev;
    ring_insert(before, &want->line);
    want->queued_ns = pull->now_ns;
    want->state = want->undescribed > 0 ? PULL_ASKING : PULL_WAITING;
    if (want->class == PULL_ARGUMENTS && BASE_RULE(PULL_TASK_GOES_BACK))
        ring_push(&pull->patience, &want->patience);
    pull->may_admit = true;
}

void pull_describe_ask(pull_t *pull, copy_t *copy) {
    if (pull_is_dead(pull, copy->id.home)) {
        pull_look(pull, copy);
        return;
    }
    copy->question = ++pull->last;
    pull_send(pull, copy->id.home,
              &(pull_message_t){.kind = PULL_DESCRIBE, .id = copy->id, .ticket = copy->question});
}

void pull_copy_describe(pull_t *pull, copy_t *copy, uint32_t version, uint64_t size) {
    copy->question = 0;
    if (copy->state == COPY_LEAVING) return; /* it is asked for again when it has gone */
    if (copy->state == COPY_NONE) {
        copy->version = version;
        copy->size = size;
        copy->chunks = pull_chunks(size);
    }
    bool was_described = copy->is_described;
    copy->is_described = true;
    RING_EACH(link, &copy->wants) {
        pull_want_t *want = RING_OF(link, want_item_t, of_copy)->want;
        if (!was_described) want->undescribed--;
        want_queue(pull, want);
        if (want->undescribed == 0 && want->state == PULL_ASKING) want->state = PULL_WAITING;
    }
}

void pull_described(pull_t *pull, uint64_t from, const pull_message_t *m) {
    copy_t *copy = pull_copy_find(pull, &m->id);
    if (copy == NULL || from != m->id.home || copy->question == 0 || copy->question != m->ticket)
        return;
    pull_copy_describe(pull, copy, m->version, m->size);
}

void pull_gone(pull_t *pull, uint64_t from, const pull_message_t *m) {
    copy_t *copy = pull_copy_find(pull, &m->id);
    if (copy == NULL || from != m->id.home || m->ticket == 0) return;
    bool is_asked = copy->phase == PHASE_ASKING && copy->ticket == m->ticket;
    if (!is_asked && copy->question != m->ticket) return;
    bool is_status = m->flag > MOB_OK && m->flag < MOB_STATUS_COUNT;
    pull_copy_fail(pull, copy, is_status ? (mob_status_t)m->flag : MOB_ELOST);
}

/* ---- admission ---- */

/* More than this node can ever have. */
static bool can_never_fit(pull_t *pull, pull_want_t *want) {
    uint64_t sum = 0;
    uint64_t mark = ++pull->last;
    for (size_t i = 0; i < want->count; i++) {
        copy_t *copy = want->items[i].copy;
        if (copy->mark == mark) continue;
        copy->mark = mark;
        uint64_t bytes = pull_copy_bytes(copy);
        if (bytes > pull->capacity - sum) return true;
        sum += bytes;
    }
    return false;
}

/* It waits for the end of an older copy, not for room. */
static bool waits_for_another(const pull_want_t *want) {
    for (size_t i = 0; i < want->count; i++) {
        const copy_t *copy = want->items[i].copy;
        if (copy->state == COPY_LEAVING || (copy->state == COPY_NONE && copy->is_letting_go))
            return true;
    }
    return false;
}

/* Pins what there is room for: all, or none. */
static bool want_pin(pull_t *pull, pull_want_t *want) {
    bool is_all = true;
    for (size_t i = 0; i < want->count && is_all; i++) {
        want_item_t *item = &want->items[i];
        if (item->is_pinned) continue;
        if (!item->copy->is_described) return false; /* without PULL_SEALED_FIRST only */
        item_pin(pull, item);
        is_all = pull->held_bytes <= pull->capacity;
        if (!is_all) item_unpin(pull, item);
    }
    if (!is_all && BASE_RULE(PULL_ALL_OR_NONE)) want_unpin(pull, want);
    return is_all;
}

/* Memory for what is pinned and has none; false: not now. */
static bool want_extents(pull_t *pull, pull_want_t *want) {
    for (size_t i = 0; i < want->count; i++) {
        copy_t *copy = want->items[i].copy;
        if (copy->state != COPY_NONE || !want->items[i].is_pinned) continue;
        if (!pull_copy_evict(pull, copy->size)) return false;
        if (!pull->ops->extent_new(pull->context, &copy->id, copy->size)) return false;
        pull->used_bytes += copy->size;
        copy->state = COPY_PULLING;
        pull_copy_update(pull, copy);
    }
    return true;
}

static void want_start(pull_t *pull, pull_want_t *want) {
    for (size_t i = 0; i < want->count; i++) {
        copy_t *copy = want->items[i].copy;
        if (copy->state == COPY_PULLING && copy->phase == PHASE_NONE)
            pull_transfer_start(pull, copy);
    }
}

static void want_ready(pull_t *pull, pull_want_t *want) {
    want->state = PULL_READY;
    pull->ops->ready(pull->context, want->user);
    if (want->class == PULL_WAIT) want_unpin(pull, want);
}

static void want_admitted(pull_t *pull, pull_want_t *want) {
    want_unqueue(want);
    want->state = PULL_ADMITTED;
    want->turn = ++pull->last;
    want->missing = 0;
    for (size_t i = 0; i < want->count; i++)
        want->missing += want->items[i].copy->state != COPY_COMPLETE;
    if (want->missing == 0) want_ready(pull, want);
}

/* False: nothing behind it may pass. */
static bool want_try(pull_t *pull, pull_want_t *want) {
    if (waits_for_another(want)) return true;
    if (can_never_fit(pull, want) && BASE_RULE(PULL_CANT_FIT)) {
        want_fail(pull, want, &want->items[0].copy->id, MOB_EFULL);
        return true;
    }
    bool is_all = want_pin(pull, want);
    if (!want_extents(pull, want)) {
        want_unpin(pull, want);
        return false;
    }
    want_start(pull, want);
    if (is_all)
        want_admitted(pull, want);
    else
        pull_copy_spill(pull);
    return is_all;
}

/* False: nobody else may be let in. */
static bool line_admit(pull_t *pull, ring_t *line) {
    RING_EACH(link, line)
    if (!want_try(pull, RING_OF(link, pull_want_t, line)) && BASE_RULE(PULL_OLDEST_FIRST))
        return false;
    return true;
}

void pull_admit(pull_t *pull) {
    if (!pull->may_admit) return;
    pull->may_admit = false;
    for (int i = 0; i < PULL_CLASSES; i++) {
        int class = BASE_RULE(PULL_GETS_FIRST) ? i : PULL_CLASSES - 1 - i;
        if (!line_admit(pull, &pull->lines[class])) return;
    }
}

void pull_copy_ready(pull_t *pull, copy_t *copy) {
    RING_EACH(link, &copy->wants) {
        want_item_t *item = RING_OF(link, want_item_t, of_copy);
        if (item->want->state == PULL_ADMITTED && --item->want->missing == 0)
            want_ready(pull, item->want);
    }
}

void pull_copy_retreat(pull_t *pull, copy_t *copy) {
    copy->is_described = false;
    RING_EACH(link, &copy->wants) {
        pull_want_t *want = RING_OF(link, want_item_t, of_copy)->want;
        want->undescribed++;
        want_unqueue(want);
        want->state = PULL_ASKING;
        want_unpin(pull, want);
    }
    pull_copy_leave(pull, copy);
}

void pull_admission_tick(pull_t *pull) {
    pull->may_admit = true;
    while (!ring_is_empty(&pull->patience)) {
        pull_want_t *want = RING_OF(pull->patience.next, pull_want_t, patience);
        if (pull->now_ns - want->queued_ns < PULL_PATIENCE_NS) return;
        want_fail(pull, want, &want->items[0].copy->id, MOB_ESPACE);
    }
}

/* ---- the node's calls ---- */

/* A want of this node's own object needs its book, for questions to itself bring no memory. */
static bool book_prepare(pull_t *pull, const frame_id_t *id) {
    if (id->home != pull->self || pull_book_find(pull, id) != NULL) return true;
    if (pull->ops->object_state(pull->context, id) != MOB_OK) return true; /* it will be told */
    return pull_book_new(pull, id) != NULL;
}

static bool items_attach(pull_t *pull, pull_want_t *want, const frame_id_t *ids, size_t count) {
    for (; want->count < count; want->count++) {
        copy_t *copy = pull_copy_new(pull, &ids[want->count]);
        if (copy == NULL) return false;
        want_item_t *item = &want->items[want->count];
        *item = (want_item_t){.want = want, .copy = copy};
        ring_push(&copy->wants, &item->of_copy);
        if (!book_prepare(pull, &copy->id)) {
            want->count++;
            return false;
        }
    }
    return true;
}

mob_status_t pull_want_new(pull_t *pull, pull_class_t class, const frame_id_t *ids, size_t count,
                           void *user, uint64_t now_ns, pull_want_t **ret_want) {
    pull->now_ns = now_ns;
    if (!pull_loop_reserve(pull, count)) return MOB_ENOMEM;
    pull_want_t *want = calloc(1, sizeof *want + count * sizeof *want->items);
    if (want == NULL) return MOB_ENOMEM;
    want->class = class;
    want->user = user;
    want->order = ++pull->last;
    if (!items_attach(pull, want, ids, count)) {
        want_detach(pull, want);
        free(want);
        return MOB_ENOMEM;
    }
    ring_push(&pull->all, &want->of_pull);
    pull->items += count;
    for (size_t i = 0; i < count; i++) want->undescribed += !want->items[i].copy->is_described;
    *ret_want = want;
    want_queue(pull, want);
    for (size_t i = 0; i < count; i++) {
        copy_t *copy = want->items[i].copy;
        bool is_asked = copy->question != 0 || copy->look_question != 0 || ring_is_in(&copy->look);
        if (!copy->is_described && copy->state == COPY_NONE && !is_asked)
            pull_describe_ask(pull, copy);
    }
    pull_settle(pull);
    return MOB_OK;
}

void pull_want_end(pull_t *pull, pull_want_t *want, uint64_t now_ns) {
    pull->now_ns = now_ns;
    want_detach(pull, want);
    ring_remove(&want->of_pull);
    pull->items -= want->count;
    free(want);
    pull_settle(pull);
}

pull_state_t pull_want_state(const pull_want_t *want) { return want->state; }
uint64_t pull_want_turn(const pull_want_t *want) { return want->turn; }
