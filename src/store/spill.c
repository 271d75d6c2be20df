/*
 * Design. Bytes go through one aligned buffer, past the page cache (O_DIRECT): a value that was moved out because memory is short must not come back as a cached page, and it is
 * faster: on the machine that this was made on, writing through the cache reached a sixth of the disk's speed. Where the file system has no O_DIRECT (tmpfs), the same
 * code runs without it. The hash is taken while the bytes are in the buffer.
 */
#define XXH_INLINE_ALL
#include "store/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { BUFFER = 4 << 20, PAGE = 4096, UNIT = 64 };

static const uint64_t FILE_MAGIC = 0x4c4c4950534d4f42, ITEM_MAGIC = 0x4d4554494c4c5053;
enum { VERSION = 1 };

typedef struct {
    uint64_t magic, incarnation;
    uint32_t version, count;
    uint64_t reserved[5];
} file_head_t;

typedef struct {
    uint64_t magic, incarnation, generation, meta, bytes;
    uint32_t slot, ref_count;
    uint64_t reserved[2];
} item_head_t;

_Static_assert(sizeof(file_head_t) == UNIT && sizeof(item_head_t) == UNIT, "heads are units");

/* What goes to the file, or comes from it, in pieces of the buffer's size. */
typedef struct {
    int fd;
    unsigned char *data;
    uint64_t offset; /* in the file, of data[0]; a multiple of PAGE */
    size_t used;     /* bytes in the buffer */
} stream_t;

static int file_open(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC | O_DIRECT, 0600);
    if (fd < 0 && errno == EINVAL) fd = open(path, flags | O_CLOEXEC, 0600);
    return fd;
}

static int stream_open(const char *path, int flags, stream_t *ret_stream) {
    stream_t s = {.fd = file_open(path, flags), .data = NULL};
    if (s.fd < 0) return errno;
    s.data = aligned_alloc(PAGE, BUFFER);
    if (s.data == NULL) {
        close(s.fd);
        return ENOMEM;
    }
    *ret_stream = s;
    return 0;
}

static int stream_close(stream_t *s, int error) {
    free(s->data);
    if (close(s->fd) != 0 && error == 0) error = errno;
    return error;
}

/* ---- writing ---- */

static int stream_flush(stream_t *s) {
    size_t size = (s->used + PAGE - 1) / PAGE * PAGE, done = 0;
    memset(s->data + s->used, 0, size - s->used);
    while (done < size) {
        ssize_t n = pwrite(s->fd, s->data + done, size - done, (off_t)(s->offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : ENOSPC;
        done += (size_t)n;
        if (done % PAGE != 0 && done < size) return ENOSPC; /* a disk that takes part of a page has no more */
    }
    s->offset += size;
    s->used = 0;
    return 0;
}

static int stream_add(stream_t *s, const void *from, uint64_t size, XXH3_state_t *hash) {
    for (uint64_t at = 0; at < size;) {
        size_t piece = BUFFER - s->used < size - at ? BUFFER - s->used : (size_t)(size - at);
        memcpy(s->data + s->used, (const unsigned char *)from + at, piece);
        if (hash != NULL) XXH3_64bits_update(hash, s->data + s->used, piece);
        s->used += piece;
        at += piece;
        if (s->used < BUFFER) continue;
        int error = stream_flush(s);
        if (error != 0) return error;
    }
    return 0;
}

static const unsigned char zeros[UNIT];

/* The head is written before the bytes, and the hash is known after them: it has a place of its own behind them. */
static int item_add(stream_t *s, uint64_t incarnation, const unsigned char *arena, store_spill_item_t *item) {
    XXH3_state_t state;
    item_head_t head = {.magic = ITEM_MAGIC,
                        .incarnation = incarnation,
                        .generation = item->generation,
                        .meta = item->meta,
                        .bytes = item->bytes,
                        .slot = item->slot,
                        .ref_count = item->ref_count};
    XXH3_64bits_reset(&state);
    item->offset = s->offset + s->used;
    int error = stream_add(s, &head, sizeof head, &state);
    if (error == 0) error = stream_add(s, arena + item->block, item->bytes, &state);
    uint64_t hash = XXH3_64bits_digest(&state);
    if (error == 0) error = stream_add(s, &hash, sizeof hash, NULL);
    if (error == 0) error = stream_add(s, zeros, (UNIT - (s->offset + s->used) % UNIT) % UNIT, NULL);
    return error;
}

int store_spill_write(const char *path, uint64_t incarnation, const unsigned char *arena, store_spill_item_t *items,
                      size_t count, uint64_t *ret_size) {
    stream_t s;
    int error = stream_open(path, O_WRONLY | O_CREAT | O_EXCL, &s);
    if (error != 0) return error;
    file_head_t head = {.magic = FILE_MAGIC, .incarnation = incarnation, .version = VERSION, .count = (uint32_t)count};
    error = stream_add(&s, &head, sizeof head, NULL);
    for (size_t i = 0; error == 0 && i < count; i++) error = item_add(&s, incarnation, arena, &items[i]);
    if (error == 0) error = stream_flush(&s);
    *ret_size = s.offset;
    error = stream_close(&s, error);
    if (error != 0) unlink(path);
    return error;
}

/* ---- reading ---- */

/* Fills the buffer from where the file has `offset`, which is then at data + *ret_skip. */
static int stream_fill(stream_t *s, uint64_t offset, uint64_t wanted, size_t *ret_skip) {
    s->offset = offset / PAGE * PAGE;
    *ret_skip = (size_t)(offset - s->offset);
    uint64_t size = (wanted + *ret_skip + PAGE - 1) / PAGE * PAGE;
    if (size > BUFFER) size = BUFFER;
    s->used = 0;
    while (s->used < size) {
        ssize_t n = pread(s->fd, s->data + s->used, (size_t)size - s->used, (off_t)(s->offset + s->used));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        s->used += (size_t)n;
        if (n == 0 || s->used % PAGE != 0) break; /* its end */
    }
    return s->used > *ret_skip ? 0 : EBADMSG;
}

static int item_take(stream_t *s, uint64_t incarnation, unsigned char *arena, const store_spill_item_t *item) {
    XXH3_state_t state;
    item_head_t head;
    uint64_t at = item->offset, end = at + sizeof head + item->bytes, data = 0, stored;
    size_t skip;
    XXH3_64bits_reset(&state);
    int error = stream_fill(s, at, end + sizeof stored - at, &skip);
    if (error != 0) return error;
    if (s->used - skip < sizeof head) return EBADMSG;
    memcpy(&head, s->data + skip, sizeof head);
    if (head.magic != ITEM_MAGIC || head.incarnation != incarnation || head.slot != item->slot ||
        head.generation != item->generation || head.meta != item->meta || head.bytes != item->bytes ||
        head.ref_count != item->ref_count)
        return EBADMSG;
    XXH3_64bits_update(&state, &head, sizeof head);
    skip += sizeof head;
    while (data < item->bytes) {
        size_t piece = s->used - skip < item->bytes - data ? s->used - skip : (size_t)(item->bytes - data);
        memcpy(arena + item->block + data, s->data + skip, piece);
        XXH3_64bits_update(&state, s->data + skip, piece);
        data += piece;
        skip += piece;
        if (data == item->bytes) break;
        at = item->offset + sizeof head + data;
        error = stream_fill(s, at, end + sizeof stored - at, &skip);
        if (error != 0) return error;
    }
    if (s->used - skip < sizeof stored) {
        error = stream_fill(s, end, sizeof stored, &skip);
        if (error != 0) return error;
        if (s->used - skip < sizeof stored) return EBADMSG;
    }
    memcpy(&stored, s->data + skip, sizeof stored);
    return stored == XXH3_64bits_digest(&state) ? 0 : EBADMSG;
}

int store_spill_read(const char *path, uint64_t incarnation, unsigned char *arena, const store_spill_item_t *item) {
    stream_t s;
    int error = stream_open(path, O_RDONLY | O_NOFOLLOW, &s);
    if (error != 0) return error;
    error = item_take(&s, incarnation, arena, item);
    return stream_close(&s, error);
}

int store_spill_punch(const char *path, const store_spill_item_t *item) {
    uint64_t first = (item->offset + PAGE - 1) / PAGE * PAGE, end = (item->offset + UNIT + item->bytes) / PAGE * PAGE;
    if (first >= end) return 0;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW), error = 0;
    if (fd < 0) return errno;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first, (off_t)(end - first)) != 0)
        error = errno;
    close(fd);
    return error;
}
