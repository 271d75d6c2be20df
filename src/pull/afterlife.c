/*
 * The control state knows complete copies: each node tells it of its own, in batches. While a home
 * lives nobody asks. After its death a receiver looks there, and reads from one copy after the
 * other until one serves it: only complete ones, so there is no cycle. What the control state still
 * lists and no node has is answered by NOT_HERE, for the birth is another.
 *
 * A copy that was complete shortly before the home's death may not be told yet. So a receiver looks
 * again, LOOKS times in all, before it says that the object is lost. An answer that was asked for
 * long ago is no such look: the node was stopped meanwhile, and another one may have a copy by now.
 *
 * A dead node's lines are struck off by everybody who hears of its death: whoever comes second
 * finds none, and no leader is needed.
 */
#include <stdlib.h>

#include "base/bytes.h"
#include "base/rule.h"
#include "pull/state.h"

enum { LOOKS = 3 };
#define LOOK_NS  (1000 * PULL_MS)
#define FRESH_NS (2 * LOOK_NS)

/* ---- looking ---- */

void pull_look(pull_t *pull, copy_t *copy) {
    ring_remove(&copy->look);
    copy->question = 0;
    copy->look_question = ++pull->last;
    copy->look_ns = pull->now_ns;
    uint8_t id[PULL_ID_SIZE];
    pull_id_write(&copy->id, id);
    pull_question_t question = {.kind = PULL_FIND, .number = copy->look_question, .id = copy->id};
    pull->ops->ask(pull->context, &question, pull_script_find, id, sizeof id);
}

static void look_later(pull_t *pull, copy_t *copy) {
    copy->look_ns = pull->now_ns;
    ring_push(&pull->looks, &copy->look);
}

/* Nothing was found, or nothing of it is there. */
static void look_failed(pull_t *pull, copy_t *copy) {
    if (pull->now_ns - copy->look_ns > FRESH_NS)
        pull_look(pull, copy);
    else if (++copy->looks >= LOOKS)
        pull_copy_fail(pull, copy, MOB_ELOST);
    else
        look_later(pull, copy);
}

static void found_remove(copy_t *copy, uint64_t node) {
    for (uint32_t i = 0; i < copy->found_count; i++) {
        if (copy->found[i].node != node) continue;
        copy->found[i] = copy->found[--copy->found_count];
        if (copy->found_next > i) copy->found_next--;
        return;
    }
}

static void found_forget(copy_t *copy) {
    free(copy->found);
    copy->found = NULL;
    copy->found_count = copy->found_next = 0;
}

void pull_look_next(pull_t *pull, copy_t *copy, bool is_absent) {
    if (copy->found == NULL) {
        if (copy->look_question == 0 && !ring_is_in(&copy->look)) pull_look(pull, copy);
        return;
    }
    if (is_absent) found_remove(copy, copy->source);
    while (copy->found_next < copy->found_count) {
        const pull_note_t *found = &copy->found[copy->found_next++];
        if (pull_is_dead(pull, found->node)) continue;
        pull_transfer_begin(pull, copy, found->node, found->birth);
        return;
    }
    bool is_nothing = copy->found_count == 0;
    found_forget(copy);
    if (is_nothing) {
        look_failed(pull, copy);
        return;
    }
    copy->looks = 0;
    look_later(pull, copy);
}

/* The newest version's copies at other nodes that live, from a place that depends on this node: not
 * all readers begin with the same. */
static uint32_t found_read(const pull_t *pull, const uint8_t *answer, size_t size,
                           pull_note_t ret_found[PULL_FOUND_MAX]) {
    uint32_t count = 0;
    pull_note_t note;
    for (size_t at = 1; at < size && count < PULL_FOUND_MAX; at += PULL_NOTE_SIZE) {
        if (!pull_note_read(answer + at, size - at, &note)) break;
        if (note.node == pull->self || pull_is_dead(pull, note.node)) continue;
        if (count > 0 && note.version < ret_found[0].version) continue;
        if (count > 0 && note.version > ret_found[0].version) count = 0;
        ret_found[count++] = note;
    }
    uint32_t first = count > 0 ? (uint32_t)(pull->self % count) : 0;
    pull_note_t swapped = ret_found[0];
    if (count > 0) {
        ret_found[0] = ret_found[first];
        ret_found[first] = swapped;
    }
    return count;
}

static void found_use(pull_t *pull, copy_t *copy) {
    const pull_note_t *first = &copy->found[0];
    bool is_same = copy->version == first->version && copy->size == first->size;
    if (copy->state == COPY_PULLING && !is_same)
        pull_copy_retreat(pull, copy); /* it looks again when it has left */
    else if (copy->state == COPY_PULLING && copy->phase == PHASE_ASKING && !copy->is_named)
        pull_look_next(pull, copy, false);
    else if (!copy->is_described)
        pull_copy_describe(pull, copy, first->version, first->size);
}

static void look_answered(pull_t *pull, const pull_question_t *question, const void *answer,
                          size_t size) {
    copy_t *copy = pull_copy_find(pull, &question->id);
    if (copy == NULL || copy->look_question != question->number) return;
    copy->look_question = 0;
    if (copy->state == COPY_COMPLETE || ring_is_empty(&copy->wants)) return;
    pull_note_t found[PULL_FOUND_MAX];
    uint32_t count = BASE_RULE(PULL_COPIES_OUTLIVE) ? found_read(pull, answer, size, found) : 0;
    if (count == 0) {
        look_failed(pull, copy);
        return;
    }
    found_forget(copy);
    copy->found = calloc(count, sizeof *copy->found);
    if (copy->found == NULL) { /* it is looked for again */
        look_later(pull, copy);
        return;
    }
    for (uint32_t i = 0; i < count; i++) copy->found[i] = found[i];
    copy->found_count = count;
    found_use(pull, copy);
}

/* ---- the home's death ---- */

void pull_copy_own(pull_t *pull, copy_t *copy) {
    if (!pull_is_dead(pull, copy->id.home) || copy->is_unneeded) return;
    copy->is_primary = true;
    pull->ops->owned(pull->context, &copy->id);
    pull_copy_update(pull, copy);
}

static void copy_orphan(pull_t *pull, copy_t *copy) {
    bool waits = copy->state == COPY_NONE && copy->question != 0;
    copy->question = 0;
    if (copy->state == COPY_COMPLETE)
        pull_copy_own(pull, copy);
    else if (waits)
        pull_look(pull, copy);
    else if (copy->phase == PHASE_ASKING && !copy->is_named)
        pull_look_next(pull, copy, false);
}

void pull_afterlife_died(pull_t *pull, uint64_t home) {
    ring_t orphans;
    ring_init(&orphans);
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&pull->copies, &cursor, &key, &value)) {
        copy_t *copy = value;
        if (copy->id.home == home) ring_push(&orphans, &copy->look);
    }
    while (!ring_is_empty(&orphans)) {
        copy_t *copy = RING_OF(orphans.next, copy_t, look);
        ring_remove(&copy->look);
        copy_orphan(pull, copy);
    }
}

/* ---- notes ---- */

static void note_push(pull_t *pull, copy_t *copy, bool is_there) {
    note_t *note = copy->note;
    note->said = (pull_note_t){.id = copy->id,
                               .node = pull->self,
                               .birth = copy->birth,
                               .size = copy->size,
                               .version = copy->version,
                               .is_there = is_there};
    if (ring_is_empty(&pull->notes)) pull->notes_ns = pull->now_ns;
    ring_push(&pull->notes, &note->line);
}

void pull_note_add(pull_t *pull, copy_t *copy) {
    if (copy->id.home == pull->self) return; /* its copies die with their home */
    copy->is_noted = true;
    note_push(pull, copy, true);
}

void pull_note_take(pull_t *pull, copy_t *copy) {
    if (!copy->is_noted) return;
    copy->is_noted = false;
    note_push(pull, copy, false);
}

static void notes_flush(pull_t *pull) {
    if (ring_is_empty(&pull->notes) || !ring_is_empty(&pull->sent)) return;
    if (pull->now_ns - pull->notes_ns < PULL_NOTE_NS) return;
    uint8_t bytes[PULL_NOTES_MAX * PULL_NOTE_SIZE];
    size_t size = 0;
    while (!ring_is_empty(&pull->notes) && size + PULL_NOTE_SIZE <= sizeof bytes) {
        note_t *note = RING_OF(pull->notes.next, note_t, line);
        size += pull_note_write(&note->said, bytes + size);
        ring_push(&pull->sent, &note->line);
    }
    pull_question_t question = {.kind = PULL_WRITE, .number = pull->master};
    pull->ops->ask(pull->context, &question, pull_script_write, bytes, size);
}

static void notes_said(pull_t *pull) {
    bool is_all = ring_is_empty(&pull->notes) && ring_is_empty(&pull->sent);
    if (!is_all || pull->said == pull->master) return;
    pull->said = pull->master;
    pull->ops->said(pull->context, pull->master);
}

static void notes_answered(pull_t *pull) {
    RING_EACH(link, &pull->sent) {
        note_t *note = RING_OF(link, note_t, line);
        ring_remove(link);
        if (note->copy == NULL) free(note);
    }
    notes_flush(pull);
    notes_said(pull);
}

void pull_master(pull_t *pull, uint64_t master, uint64_t now_ns) {
    pull->now_ns = now_ns;
    if (master <= pull->master) return;
    pull->master = master;
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&pull->copies, &cursor, &key, &value)) {
        copy_t *copy = value;
        if (copy->is_noted && BASE_RULE(PULL_SAID_AGAIN)) note_push(pull, copy, true);
    }
    notes_said(pull);
}

void pull_strike(pull_t *pull, uint64_t node) {
    uint8_t bytes[8];
    base_put_number(&(base_writer_t){bytes, 0}, node, 8);
    pull_question_t question = {.kind = PULL_STRIKE, .number = node};
    pull->ops->ask(pull->context, &question, pull_script_strike, bytes, sizeof bytes);
}

void pull_answered(pull_t *pull, const pull_question_t *question, const void *answer, size_t size,
                   uint64_t now_ns) {
    pull->now_ns = now_ns;
    if (question->kind == PULL_FIND) look_answered(pull, question, answer, size);
    if (question->kind == PULL_WRITE) notes_answered(pull);
    bool has_more = size > 0 && *(const uint8_t *)answer == 1;
    if (question->kind == PULL_STRIKE && has_more) pull_strike(pull, question->number);
    pull_settle(pull);
}

void pull_afterlife_tick(pull_t *pull) {
    notes_flush(pull);
    notes_said(pull);
    while (!ring_is_empty(&pull->looks)) {
        copy_t *copy = RING_OF(pull->looks.next, copy_t, look);
        if (pull->now_ns - copy->look_ns < LOOK_NS) return;
        pull_look(pull, copy);
    }
}

void pull_afterlife_free(pull_t *pull) {
    RING_EACH(link, &pull->notes) free(RING_OF(link, note_t, line));
    RING_EACH(link, &pull->sent) free(RING_OF(link, note_t, line));
}
