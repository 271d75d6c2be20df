/* Writing the direct encoding into memory that grows. Small calls fit into the writer itself and
 * need no allocation. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "mobula_task.h"
#include "task/task.h"

uint8_t *task_writer_space(mob_writer_t *w, size_t more) {
    if (w->status != MOB_OK) return NULL;
    size_t capacity = w->grown ? w->capacity : sizeof w->local;
    if (more > capacity - w->size) {
        size_t wanted = more > SIZE_MAX / 2 - w->size ? 0 : 2 * (w->size + more);
        uint8_t *grown = wanted ? realloc(w->grown, wanted) : NULL;
        if (grown == NULL) {
            w->status = MOB_ENOMEM;
            return NULL;
        }
        if (w->grown == NULL) memcpy(grown, w->local, w->size);
        w->grown = grown;
        w->capacity = wanted;
    }
    uint8_t *at = (w->grown ? w->grown : w->local) + w->size;
    w->size += more;
    return at;
}

/* Begins a value: writes its tag and `size` bytes, and returns where the caller writes `more`
 * bytes. */
static uint8_t *value_begin(mob_writer_t *w, uint8_t tag, const void *from, size_t size,
                            size_t more) {
    uint8_t *at = task_writer_space(w, more < SIZE_MAX / 2 ? 1 + size + more : SIZE_MAX);
    if (at == NULL) return NULL;
    if (w->owed > 0)
        w->owed--;
    else
        w->count++;
    *at = tag;
    if (size > 0) memcpy(at + 1, from, size);
    return at + 1 + size;
}

static void sized_write(mob_writer_t *w, uint8_t tag, const void *data, size_t size) {
    uint64_t length = size;
    uint8_t *at = value_begin(w, tag, &length, sizeof length, size);
    if (at != NULL && size > 0) memcpy(at, data, size);
}

void mob_write_none(mob_writer_t *w) { value_begin(w, MOB_NONE, NULL, 0, 0); }
void mob_write_bool(mob_writer_t *w, bool truth) {
    value_begin(w, truth ? MOB_TRUE : MOB_FALSE, NULL, 0, 0);
}
void mob_write_int(mob_writer_t *w, int64_t integer) {
    value_begin(w, MOB_INT, &integer, sizeof integer, 0);
}
void mob_write_float(mob_writer_t *w, double real) {
    value_begin(w, MOB_FLOAT, &real, sizeof real, 0);
}
void mob_write_str(mob_writer_t *w, const char *text, size_t size) {
    sized_write(w, MOB_STR, text, size);
}
void mob_write_bytes(mob_writer_t *w, const void *data, size_t size) {
    sized_write(w, MOB_BYTES, data, size);
}

void mob_write_tuple(mob_writer_t *w, uint32_t count) {
    if (value_begin(w, MOB_TUPLE, &count, sizeof count, 0) != NULL) w->owed += count;
}

void task_write_dep(mob_writer_t *w, uint32_t index) {
    value_begin(w, MOB_ARG_DEP, &index, sizeof index, 0);
}

mob_status_t mob_writer_finish(mob_writer_t *w, const void **ret_data, size_t *ret_size) {
    if (w->status == MOB_ENOMEM)
        return base_fail(MOB_ENOMEM, "no memory for a value of more than %zu bytes", w->size);
    if (w->status != MOB_OK) return w->status;
    if (w->owed > 0)
        return base_fail(MOB_EINVAL, "a tuple was begun and lacks %llu values",
                         (unsigned long long)w->owed);
    *ret_data = w->grown ? w->grown : w->local;
    *ret_size = w->size;
    return MOB_OK;
}

void mob_writer_clear(mob_writer_t *w) {
    w->size = 0;
    w->count = 0;
    w->owed = 0;
    w->status = MOB_OK;
}

void mob_writer_fini(mob_writer_t *w) {
    free(w->grown);
    w->grown = NULL;
    mob_writer_clear(w);
}
