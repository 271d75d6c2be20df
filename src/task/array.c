/*
 * Arrays that Python gets without a copy. The value is a pickle (mob_pickle_t) with one buffer: the
 * numbers, aligned; and a stream of a few bytes that says numpy.ndarray((count,), dtype, buffer),
 * or memoryview(buffer) without a dtype. So Python reads it as it reads its own arrays, and no new
 * format is needed.
 *
 * In the direct encoding the numbers would lie nine bytes after the start, aligned for nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "mobula_task.h"
#include "task/task.h"

enum { ALIGNED = 64, MAX_DTYPE = 15 };
enum { TABLE = sizeof(mob_pickle_t) + 2 * sizeof(uint64_t) };

/* Opcodes of pickle's protocol 5: \x80\x05 protocol, c global, \x8a\x08 an int of 8 bytes, \x85
 * \x87 tuples of 1 and 3, \x8c a str, \x97 the next buffer, \x98 read-only, R call, . end */
static void append(task_array_t *a, const void *from, size_t size) {
    memcpy(a->stream + a->stream_size, from, size);
    a->stream_size += size;
}

mob_status_t task_array_plan(const char *dtype, uint64_t count, size_t item_size,
                             task_array_t *ret_array) {
    size_t length = dtype ? strlen(dtype) : 0;
    if (length > MAX_DTYPE || (dtype != NULL && length == 0))
        return base_fail(MOB_EINVAL, "a dtype has 1 to %d letters, not %zu", MAX_DTYPE, length);
    if (dtype != NULL && strchr(dtype, 'O') != NULL)
        return base_fail(MOB_EINVAL, "an array of Python objects can't be made in C");
    if (item_size == 0 || count > ((uint64_t)1 << 47) / item_size)
        return base_fail(MOB_EINVAL, "an array of %llu items of %zu bytes",
                         (unsigned long long)count, item_size);
    task_array_t a = {0};
    if (dtype == NULL) {
        static const char view[] = "\x80\x05"
                                   "cbuiltins\nmemoryview\n\x97\x98\x85R.";
        append(&a, view, sizeof view - 1);
    } else {
        static const char head[] = "\x80\x05"
                                   "cnumpy\nndarray\n\x8a\x08";
        uint8_t letters = (uint8_t)length;
        append(&a, head, sizeof head - 1);
        append(&a, &count, sizeof count);
        append(&a, "\x85\x8c", 2);
        append(&a, &letters, 1);
        append(&a, dtype, length);
        append(&a, "\x97\x98\x87R.", 5);
    }
    a.offset = (TABLE + a.stream_size + ALIGNED - 1) & ~(uint64_t)(ALIGNED - 1);
    a.size = a.offset + count * item_size;
    *ret_array = a;
    return MOB_OK;
}

void *task_array_write(const task_array_t *a, void *to) {
    uint64_t place[2] = {a->offset, a->size - a->offset};
    mob_pickle_t head = {.buffer_count = 1, .stream_size = a->stream_size};
    uint8_t *at = to;
    memcpy(at, &head, sizeof head);
    memcpy(at + sizeof head, place, sizeof place);
    memcpy(at + TABLE, a->stream, a->stream_size);
    return at + a->offset;
}

mob_status_t mob_put_array(mob_client_t *c, const char *dtype, uint64_t count, size_t item_size,
                           mob_buffer_t *ret_buffer, void **ret_data) {
    task_array_t a;
    mob_status_t status = task_array_plan(dtype, count, item_size, &a);
    if (status != MOB_OK) return status;
    while ((status = mob_put_begin(c, a.size, 0, ret_buffer)) == MOB_ESPACE)
        if ((status = mob_space_await(c)) != MOB_OK) break;
    if (status != MOB_OK) return status;
    mob_buffer_map(c, ret_buffer);
    *ret_data = task_array_write(&a, ret_buffer->data);
    return MOB_OK;
}
