/*
 * What the daemon tells the driver of failures that it might not hear of: an error that is freed
 * before a process asked for it, an actor that could not be made, a task that is run again.
 *
 * Only the daemon frees an error that no process has seen (store/slot.h), so it tells the driver at
 * that moment. It also frees a result whose task ends after its last reference is gone, if the
 * result is an error. It tells nothing of references that are still held when the session ends.
 *
 * Ten thousand tasks that fail must not drown the driver. A failure like one that the driver was
 * told of a moment ago (the same but for numbers) is counted, and the driver is told the count
 * after PERIOD_MS. It is also told how many others there were beyond NODE_FAILURES_MOST in that
 * time, or while it did not read.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "node/runname.h"
#include "node/space/survey.h"
#include "node/state.h"
#include "node/watch.h"

enum { HEAD = 2048, TAIL = 6144, PERIOD_MS = 5000, OUTBOX_MOST = 1 << 20 };

#define UNHANDLED "Unhandled error (suppress with 'RAY_IGNORE_UNHANDLED_ERRORS=1'): "

typedef struct {
    char text[HEAD + TAIL + 64];
    size_t size;
} words_t;

/* Long words lose their middle: the beginning says whose error it is, the end what it was. */
static void words_cut(const char *text, uint64_t size, words_t *ret_words) {
    if (size <= HEAD + TAIL) {
        memcpy(ret_words->text, text, size);
        ret_words->size = size;
        return;
    }
    const char *tail = text + size - TAIL;
    size_t head = base_utf8_whole(text, HEAD), rest = TAIL;
    while (rest > 0 && (*tail & 0xc0) == 0x80) tail++, rest--;
    memcpy(ret_words->text, text, head);
    int mark = snprintf(ret_words->text + head, 64, "\n... (%llu bytes left out) ...\n",
                        (unsigned long long)(size - head - rest));
    memcpy(ret_words->text + head + mark, tail, rest);
    ret_words->size = head + (size_t)mark + rest;
}

/* The words of the error that a slot has as its value. Clients write there: everything is bounded.
 */
static bool slot_words(node_t *n, mob_ref_t ref, words_t *ret_words) {
    const store_slot_t *slot = &n->slots[ref.slot];
    uint64_t meta = slot->meta, size = store_meta_size(meta), extent;
    const uint8_t *data = slot->value.small;
    uint32_t units;
    if (store_meta_format(meta) != MOB_FORMAT_DIRECT) return false;
    if (store_meta_inline(meta)) {
        if (size > STORE_INLINE) return false;
    } else {
        uint64_t block = slot->value.large.block, tag = shm_tag(false, ref.slot, ref.generation);
        if (size > n->config.store_bytes ||
            !node_survey_block(n, block, tag, size, &extent, &units))
            return false;
        data = n->arena.base + block;
    }
    const char *text;
    if (!wire_error_words(data, size, &text, &size)) return false;
    words_cut(text, size, ret_words);
    return true;
}

/* ---- bounds ---- */

static uint64_t hash_step(uint64_t hash, unsigned char byte) {
    return (hash ^ byte) * 0x100000001b3u;
}

/* How many hexadecimal digits follow each other here: ids have 40. */
static size_t hex_run(const char *text, size_t size) {
    size_t run = 0;
    while (run < size &&
           ((text[run] >= '0' && text[run] <= '9') || (text[run] >= 'a' && text[run] <= 'f')))
        run++;
    return run;
}

/* The same for texts that differ in numbers alone: process ids, values, addresses, ids. */
static uint64_t likeness(uint32_t kind, uint32_t turn, const char *text, size_t size) {
    uint64_t hash = hash_step(0xcbf29ce484222325u ^ turn, (unsigned char)kind);
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        size_t run = hex_run(text + i, size - i);
        if (run >= MOB_ID_SIZE) {
            i += run - 1;
            c = '0';
        } else if (c >= '0' && c <= '9') {
            bool hex = c == '0' && i + 1 < size && text[i + 1] == 'x';
            if (hex) i++;
            while (i + 1 < size && ((text[i + 1] >= '0' && text[i + 1] <= '9') ||
                                    (hex && text[i + 1] >= 'a' && text[i + 1] <= 'f')))
                i++;
            c = '0';
        }
        hash = hash_step(hash, c);
    }
    return hash;
}

static void on_timer(uv_timer_t *timer) {
    bool more = false;
    NODE_EACH_JOB((node_t *)timer->data, job) more |= node_failures_flush(job);
    if (!more) uv_timer_stop(timer);
}

/* A failure's first and last line, by which the driver is told of its repetitions. */
static void line_make(const char *text, size_t size, char *ret_line, size_t capacity) {
    while (size > 0 && text[size - 1] == '\n') size--;
    const char *end = memchr(text, '\n', size), *last = memrchr(text, '\n', size);
    int first_size = (int)(end ? end - text : (long)size),
        last_size = last ? (int)(text + size - last - 1) : 0;
    int room = (int)capacity / 2 - 8;
    if (first_size > room) first_size = (int)base_utf8_whole(text, (size_t)room);
    if (last_size > room) last_size = (int)base_utf8_whole(last + 1, (size_t)room);
    snprintf(ret_line, capacity, "%.*s%s%.*s", first_size, text, last ? " ... " : "", last_size,
             last ? last + 1 : "");
}

/* Whether the driver is to be told now; else the failure is counted. `turn` sets it apart from
 * failures like it. */
static bool is_news(node_job_t *job, uint32_t kind, uint32_t turn, const char *text, size_t size) {
    if (job == NULL || !node_job_is_heard(job)) return false;
    node_failures_t *f = &job->failures;
    uv_timer_t *timer = &job->node->failing.timer;
    if (!uv_is_active((uv_handle_t *)timer)) uv_timer_start(timer, on_timer, PERIOD_MS, PERIOD_MS);
    uint64_t hash = likeness(kind, turn, text, size);
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->told[i].hash != hash) continue;
        f->told[i].repeats++;
        return false;
    }
    if (f->count == NODE_FAILURES_MOST || !node_job_has_room(job, OUTBOX_MOST)) {
        f->left_out++;
        return false;
    }
    f->told[f->count] = (node_failure_t){.hash = hash, .kind = kind};
    line_make(text, size, f->told[f->count].line, sizeof f->told[f->count].line);
    f->count++;
    return true;
}

static void repeats_tell(node_job_t *job, node_failure_t *f) {
    char text[512];
    int size = snprintf(text, sizeof text, "%s%llu more like this: %s",
                        f->kind == MOB_MESSAGE_UNHANDLED ? UNHANDLED : "",
                        (unsigned long long)f->repeats, f->line);
    node_text_send(job, f->kind == MOB_MESSAGE_UNHANDLED ? MOB_MESSAGE_UNHANDLED : MOB_MESSAGE_WARN,
                   0, "", text,
                   size < (int)sizeof text ? (size_t)size : base_utf8_whole(text, sizeof text - 1));
    f->repeats = 0;
}

bool node_failures_flush(node_job_t *job) {
    node_failures_t *f = &job->failures;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->count; i++) {
        if (f->told[i].repeats == 0) continue; /* it is news again when it next comes */
        repeats_tell(job, &f->told[i]);
        f->told[kept++] = f->told[i];
    }
    if (f->left_out > 0)
        node_job_warn(job,
                      "%llu other failures of tasks and actors were left out: there were too many.",
                      (unsigned long long)f->left_out);
    f->left_out = 0;
    f->count = kept;
    return kept > 0;
}

mob_status_t node_failures_start(node_t *n) {
    n->failing.timer.data = n;
    return node_watch(uv_timer_init(&n->loop, &n->failing.timer), "making a timer");
}

/* ---- what is told ---- */

static void unhandled_tell(node_job_t *job, const words_t *words) {
    char text[sizeof UNHANDLED + sizeof words->text];
    if (!is_news(job, MOB_MESSAGE_UNHANDLED, 0, words->text, words->size)) return;
    int size = snprintf(text, sizeof text, "%s%.*s", UNHANDLED, (int)words->size, words->text);
    node_text_send(job, MOB_MESSAGE_UNHANDLED, 0, "", text, (size_t)size);
}

/* The job of the client that the slot was granted or given to; NULL: that is gone, and there are
 * several. */
static node_job_t *slot_job(node_t *n, uint32_t slot) {
    uint32_t keeper =
        node_slot_keeper(n, slot, atomic_load_explicit(&n->slots[slot].word, memory_order_relaxed));
    if (keeper < SHM_MAX_CLIENTS && n->clients[keeper] != NULL) return n->clients[keeper]->job;
    return n->jobs.items.count == 1 ? n->jobs.items.items[0] : NULL;
}

void node_failure_freed(node_t *n, mob_ref_t ref) {
    const store_slot_t *slot = &n->slots[ref.slot];
    mob_status_t error = store_meta_error(slot->meta);
    words_t words;
    /* No process could have asked for what was cancelled; a process that asks for what was lost is
     * told. */
    if (error == MOB_ECANCELLED || error == MOB_ELOST ||
        !store_is_untold(atomic_load_explicit(&slot->word, memory_order_relaxed), slot->meta))
        return;
    if (slot_words(n, ref, &words)) unhandled_tell(slot_job(n, ref.slot), &words);
}

/* The actor that this run makes again; NULL: the run is something else, or not this worker's. */
static node_actor_t *remade_by(const node_client_t *w, uint32_t record, uint64_t generation) {
    const node_task_t *t = record < WIRE_MAX_RECORDS ? w->node->tasks[record] : NULL;
    if (t == NULL || t->worker != w || t->generation != generation || t->kind != MOB_ACTOR_CREATE)
        return NULL;
    return t->actor != NULL && t->actor->life.made ? t->actor : NULL;
}

void node_failure_said(node_client_t *client, const wire_message_t *m) {
    words_t words;
    size_t size = m->failure.size <= MOB_STORY_MAX ? (size_t)m->failure.size : MOB_STORY_MAX;
    const char *text = (const char *)client->segment.base + SHM_CLIENT_SCRATCH;
    node_actor_t *remade = remade_by(client, m->failure.record, m->failure.generation);
    words_cut(text, size, &words);
    if (remade != NULL)
        node_actor_refused(remade, words.text, words.size);
    else
        unhandled_tell(client->job, &words);
    node_client_tell(client, wire_answer(MOB_OK, 0));
}

void node_failure_creation(node_t *n, const node_actor_t *a, pid_t pid) {
    static const char intro[] = "Exception raised in creation task: ";
    words_t words;
    if (a->words != NULL)
        words_cut(a->words, strlen(a->words), &words);
    else if (!slot_words(n, a->id, &words))
        return;
    char text[sizeof intro + sizeof words.text];
    if (!is_news(a->job, MOB_MESSAGE_ERR, 0, words.text, words.size)) return;
    int size = snprintf(text, sizeof text, "%s%.*s", intro, (int)words.size, words.text);
    node_text_send(a->job, MOB_MESSAGE_ERR, (int)pid, a->name, text, (size_t)size);
}

void node_failure_restart(const node_actor_t *a, const char *how) {
    if (a->job->farewell.leaving) return; /* it is not made again: its job ends */
    char left[80] = "It may be restarted without end", text[1024];
    if (a->life.restarts_left >= 0)
        snprintf(left, sizeof left, "%d more restarts are left after this one",
                 a->life.restarts_left);
    int size = snprintf(text, sizeof text, "The actor %s (pid %d) died and is restarted: %s. %s.",
                        a->name, (int)a->pid, how, left);
    if (is_news(a->job, MOB_MESSAGE_WARN, (uint32_t)a->life.restarts_left, text, (size_t)size))
        node_text_send(a->job, MOB_MESSAGE_WARN, 0, "", text, (size_t)size);
}

void node_failure_lost(node_t *n, const node_object_t *o) {
    node_job_t *job = slot_job(n, o->slot);
    char text[768];
    int size = snprintf(text, sizeof text, "%s. Its task is run again to make it.",
                        o->lost != NULL ? o->lost : "an object was lost");
    size_t whole = size < (int)sizeof text ? (size_t)size : base_utf8_whole(text, sizeof text - 1);
    text[0] = (char)toupper(text[0]);
    if (is_news(job, MOB_MESSAGE_WARN, 0, text, whole))
        node_text_send(job, MOB_MESSAGE_WARN, 0, "", text, whole);
}

void node_failure_retry(const node_task_t *t, int32_t retries, const char *why, size_t size) {
    if (t->job == NULL || t->job->farewell.leaving) return; /* the task is not run again */
    char name[256], left[80] = "It may be retried without end", text[512 + MOB_STORY_MAX];
    node_task_name(t->job->node, t, name, sizeof name);
    if (retries >= 0) snprintf(left, sizeof left, "There are %d retries remaining", retries);
    int whole = snprintf(text, sizeof text, "Task %s failed. %s, so it is run again. Error: %.*s",
                         name, left, (int)size, why);
    if (is_news(t->job, MOB_MESSAGE_WARN, (uint32_t)retries, text, (size_t)whole))
        node_text_send(t->job, MOB_MESSAGE_WARN, 0, "", text, (size_t)whole);
}
