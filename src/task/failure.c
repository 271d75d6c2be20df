/* A task that failed: its results are the error. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "task/task.h"

void task_errors_store(mob_client_t *c, mob_run_t *run, const void *data, uint64_t size,
                       mob_status_t error, const mob_ref_t *refs, uint32_t ref_count) {
    static const uint8_t full[] = "\5\25\0\0\0\0\0\0\0no room for the error";
    for (uint32_t i = 0; i < run->num_returns; i++) {
        mob_buffer_t buffer;
        bool stored = task_result_begin(c, run, i, size, ref_count, &buffer) == MOB_OK;
        if (stored)
            memcpy(buffer.data, data, size);
        else if (mob_run_result_begin(c, run, i, sizeof full - 1, 0, &buffer) ==
                 MOB_OK) /* it fits into the slot */
            memcpy(buffer.data, full, sizeof full - 1);
        mob_run_result_commit(c, run, i, &buffer, MOB_FORMAT_DIRECT, stored ? error : MOB_EFULL,
                              stored ? refs : NULL);
    }
}

/* How many bytes of UTF-8 begin here; 0: it is none. */
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

/* Words come from anywhere, and may have been cut within a letter; as a str they must be UTF-8. */
static void words_clean(char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        size_t letter = letter_size((const unsigned char *)text + at, size - at);
        if (letter == 0) text[at] = '?';
        at += letter ? letter : 1;
    }
}

void task_failure_store(const task_worker_t *w, mob_run_t *run, const char *words) {
    char text[2800];
    bool is_actor = run->kind == MOB_ACTOR_CREATE;
    const char *class_ = run->kind == MOB_ACTOR_CALL && w->actor_class ? w->actor_class->name : "";
    uint64_t size = (uint64_t)snprintf(
        text + 9, sizeof text - 9, "%sray::%s%s%.*s() (pid=%d)\n%s",
        is_actor ? "The actor died because of an error raised in its creation task, " : "", class_,
        *class_ ? "." : "", (int)run->name_size, run->name, (int)getpid(), words);
    if (size > sizeof text - 10) size = sizeof text - 10;
    words_clean(text + 9, size);
    text[0] = MOB_STR;
    memcpy(text + 1, &size, 8);
    task_errors_store(w->client, run, text, 9 + size, is_actor ? MOB_EACTOR : MOB_ETASK, NULL, 0);
}
