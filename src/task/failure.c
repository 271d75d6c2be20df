/* A task that failed: its results are the error. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/utf8.h"
#include "task/task.h"
#include "wire/direct.h"

/* False: nobody reads the items. */
static bool error_give(mob_client_t *c, mob_run_t *run, const void *data, uint64_t size,
                       mob_status_t error, const mob_ref_t *refs, uint32_t ref_count) {
    mob_buffer_t buffer;
    if (task_item_begin(c, run, size, ref_count, &buffer) != MOB_OK) return false;
    memcpy(buffer.data, data, size);
    mob_run_item_commit(c, run, &buffer, MOB_FORMAT_DIRECT, error, refs);
    return true;
}

static void none_store(mob_client_t *c, mob_run_t *run) {
    mob_buffer_t buffer;
    (void)mob_run_result_begin(c, run, 0, 1, 0, &buffer); /* it fits into the slot */
    *(uint8_t *)buffer.data = MOB_NONE;
    mob_run_result_commit(c, run, 0, &buffer, MOB_FORMAT_DIRECT, MOB_OK, NULL);
}

void task_errors_store(mob_client_t *c, mob_run_t *run, const void *data, uint64_t size,
                       mob_status_t error, const mob_ref_t *refs, uint32_t ref_count, bool raised) {
    if (run->flows && error_give(c, run, data, size, error, refs, ref_count) && raised) {
        none_store(c, run);
        return;
    }
    static const uint8_t full[] = "\5\25\0\0\0\0\0\0\0no room for the error";
    for (uint32_t i = 0; i < run->num_returns; i++) {
        mob_buffer_t buffer;
        mob_status_t status = task_result_begin(c, run, i, size, ref_count, &buffer);
        bool stored = status == MOB_OK, gone = status == MOB_ECLOSED || status == MOB_ESTOPPED;
        if (stored)
            memcpy(buffer.data, data, size);
        else if (mob_run_result_begin(c, run, i, sizeof full - 1, 0, &buffer) ==
                 MOB_OK) /* it fits into the slot */
            memcpy(buffer.data, full, sizeof full - 1);
        mob_run_result_commit(c, run, i, &buffer, MOB_FORMAT_DIRECT,
                              stored ? error
                              : gone ? status
                                     : MOB_EFULL,
                              stored ? refs : NULL);
    }
}

/* How many bytes the letter of UTF-8 has that begins here; 0: none begins. */
static size_t letter_size(const unsigned char *at, size_t left) {
    size_t size = at[0] < 0x80                    ? 1
                  : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                  : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                  : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                  : 0;
    if (size > left) return 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if (size == 3 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] >= 0xa0)))
        return 0;
    if (size == 4 && ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] >= 0x90)))
        return 0;
    return size;
}

/* Words come from any program, and may have been cut within a letter; as a str they must be
 * UTF-8. */
static void words_clean(char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        size_t letter = letter_size((const unsigned char *)text + at, size - at);
        if (letter == 0) text[at] = '?';
        at += letter ? letter : 1;
    }
}

size_t task_title(const task_worker_t *w, const mob_run_t *run, char *ret_title, size_t capacity) {
    const char *class_ = run->kind == MOB_ACTOR_CALL && w->actor_class ? w->actor_class->name : "";
    int size = snprintf(ret_title, capacity, "%s%s%.*s", class_, *class_ ? "." : "",
                        (int)run->name_size, run->name);
    return (size_t)size < capacity ? (size_t)size : base_utf8_whole(ret_title, capacity - 1);
}

uint64_t task_failure_story(const task_worker_t *w, const mob_run_t *run, const char *words,
                            char *ret_story, size_t capacity) {
    char title[512];
    task_title(w, run, title, sizeof title);
    uint64_t size =
        (uint64_t)snprintf(ret_story, capacity, "%sray::%s() (pid=%d)\n%s",
                           run->kind == MOB_ACTOR_CREATE
                               ? "The actor died because of an error raised in its creation task, "
                               : "",
                           title, (int)getpid(), words);
    if (size > capacity - 1) size = capacity - 1;
    words_clean(ret_story, size);
    return size;
}

void task_failure_store(const task_worker_t *w, mob_run_t *run, const char *words) {
    char text[2800];
    bool is_actor = run->kind == MOB_ACTOR_CREATE;
    uint64_t size = task_failure_story(w, run, words, text + 9, sizeof text - 9);
    if (run->num_returns == 0) mob_run_failed(w->client, run, text + 9, size);
    text[0] = MOB_STR;
    memcpy(text + 1, &size, 8);
    task_errors_store(w->client, run, text, 9 + size, is_actor ? MOB_EACTOR : MOB_ETASK, NULL, 0,
                      true);
}

void task_cancelled_store(const task_worker_t *w, mob_run_t *run) {
    uint8_t id[MOB_ID_SIZE];
    char text[800], title[512], digits[2 * MOB_ID_SIZE + 1];
    mob_ref_t task = run->task_id;
    task.slot |= 1u << 31; /* a task's ids are not those of objects */
    mob_ref_id(w->client, task, id);
    for (int i = 0; i < MOB_ID_SIZE; i++) snprintf(digits + 2 * i, 3, "%02x", id[i]);
    task_title(w, run, title, sizeof title);
    uint64_t size = (uint64_t)snprintf(
        text + 9, sizeof text - 9, "Task: TaskID(%s) was cancelled. %s was running", digits, title);
    text[0] = MOB_STR;
    memcpy(text + 1, &size, 8);
    task_errors_store(w->client, run, text, 9 + size, MOB_ECANCELLED, NULL, 0, false);
}

/* ---- an argument that is an error ---- */

enum { LINK_SIZE = sizeof TASK_LINK - 1, MOST_LINKS = 16 };

static const char *error_class(mob_status_t error) {
    switch (error) {
    case MOB_ETASK:
        return "RayTaskError";
    case MOB_ECRASHED:
        return "WorkerCrashedError";
    case MOB_ENODE:
        return "NodeDiedError";
    case MOB_EACTOR:
        return "ActorDiedError";
    case MOB_EUNAVAILABLE:
        return "ActorUnavailableError";
    case MOB_EOOM:
        return "OutOfMemoryError";
    case MOB_ELOST:
        return "ObjectLostError";
    case MOB_EOWNER:
        return "OwnerDiedError";
    case MOB_ECANCELLED:
        return "TaskCancelledError";
    default:
        return "RayError";
    }
}

/* Where the words go on after their first link, if they have MOST_LINKS of them; else NULL. */
static const char *links_are_many(const char *words, uint64_t size) {
    const char *at = words, *first = NULL, *end = words + size;
    for (int links = 0; links < MOST_LINKS; links++) {
        at = memmem(at, (size_t)(end - at), TASK_LINK, LINK_SIZE);
        if (at == NULL) return NULL;
        at += LINK_SIZE;
        if (first == NULL) first = at;
    }
    return first;
}

/* Writes what comes before `words`. Of a long chain it leaves out the next link: moves *words past
 * it. */
static size_t link_write(const char *title, size_t title_size, mob_status_t error,
                         const char **words, uint64_t *size, char *ret_link, size_t capacity) {
    int head = snprintf(ret_link, capacity, "ray::%.*s() (pid=%d)\n%s", (int)title_size, title,
                        (int)getpid(), TASK_LINK);
    const char *inner = links_are_many(*words, *size);
    if (inner == NULL)
        return (size_t)head + (size_t)snprintf(ret_link + head, capacity - (size_t)head,
                                               "ray.exceptions.%s: ", error_class(error));
    /* The words need not end with a zero, so sscanf gets a copy. */
    char line[80] = "";
    size_t left = (size_t)(*words + *size - inner);
    memcpy(line, inner, left < sizeof line - 1 ? left : sizeof line - 1);
    unsigned before = 0;
    int scanned = 0;
    (void)sscanf(line, "  (%u tasks in between are left out)\n%n", &before, &scanned);
    *size = left - (size_t)scanned;
    *words = inner + scanned;
    return (size_t)head + (size_t)snprintf(ret_link + head, capacity - (size_t)head,
                                           "  (%u tasks in between are left out)\n", before + 1);
}

void *task_error_link(const mob_value_t *failed, const char *title, size_t title_size,
                      uint64_t *ret_size) {
    char link[512];
    const char *words;
    uint64_t size;
    const uint8_t *from = failed->data, *end = from + failed->size;
    if (!wire_error_words(from, failed->size, &words, &size)) return NULL;
    const uint8_t *rest = (const uint8_t *)words + size;
    size_t before = (size_t)((const uint8_t *)words - 9 - from), after = (size_t)(end - rest);
    if (title_size > 255) title_size = 255;
    size_t link_size =
        link_write(title, title_size, failed->error, &words, &size, link, sizeof link);
    uint64_t length = link_size + size;
    uint8_t *made = malloc(before + 9 + length + after);
    if (made == NULL) return NULL;
    uint8_t *at = made;
    memcpy(at, from, before);
    at += before;
    *at = MOB_STR;
    memcpy(at + 1, &length, 8);
    memcpy(at + 9, link, link_size);
    memcpy(at + 9 + link_size, words, size);
    memcpy(at + 9 + length, rest, after);
    *ret_size = before + 9 + length + after;
    return made;
}
