/*
 * Design. Bytes go past the page cache (O_DIRECT) where the file system lets them: a value that was moved out because memory is short must not come back as a cached page, and it is faster:
 * on a machine with two cores, both busy, writing through the cache reached a sixth of the disk's speed. Without it (tmpfs of older kernels, ramfs) the same code runs.
 *
 * A small value goes through an aligned buffer, together with its neighbours; there are several, so that one is filled while others are written. A large one (an extent of its own in the arena, its data 64 bytes from a page's beginning) has its head at a page's beginning,
 * so that its pages in the file are its pages in memory: all but the first and the last are written from the arena and read into it without a copy, in pieces, by several threads at once. That keeps the disk
 * busy while other pieces are hashed.
 *
 * The hash behind a value is that of its head and of its pieces' hashes, in order: the first page's bytes, then each PIECE, then the rest. A small value is one piece.
 */
#define XXH_INLINE_ALL
#include "store/spill.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum { BUFFER = 4 << 20, BUFFERS = 4, PIECE = 2 << 20, PAGE = STORE_SPILL_PAGE, UNIT = STORE_SPILL_PLACE, HELPERS = 2 };

static const uint64_t FILE_MAGIC = 0x4c4c4950534d4f42, ITEM_MAGIC = 0x4d4554494c4c5053;
enum { VERSION = 1, FIRST = PAGE - UNIT }; /* FIRST: bytes of a large value in its first page */

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

static item_head_t head_of(uint64_t incarnation, const store_spill_item_t *item) {
    return (item_head_t){.magic = ITEM_MAGIC,
                         .incarnation = incarnation,
                         .generation = item->generation,
                         .meta = item->meta,
                         .bytes = item->bytes,
                         .slot = item->slot,
                         .ref_count = item->ref_count};
}

static bool is_large(const store_spill_item_t *item) {
    return item->bytes > STORE_SPILL_SMALL && item->block % PAGE == UNIT;
}

_Static_assert(STORE_SPILL_SMALL + 4 * UNIT + PAGE < BUFFER, "small values fit into a buffer");
static uint64_t page_up(uint64_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

/* ---- the file ---- */

/* Opened without O_DIRECT first: with it, a file system that has none makes the file and then refuses it. */
static int file_open(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0600);
    if (fd >= 0) (void)fcntl(fd, F_SETFL, O_DIRECT);
    return fd;
}

/* A file system may take the flag and still refuse the transfer. True: without it now. */
static bool direct_give_up(int fd, int error, bool *gave_up) {
    int flags = fcntl(fd, F_GETFL);
    if (error != EINVAL || *gave_up || flags < 0) return false;
    *gave_up = true; /* another thread may have done it before us */
    return !(flags & O_DIRECT) || fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

/* All of it, or an errno. */
static int write_at(int fd, const unsigned char *from, uint64_t size, uint64_t offset) {
    bool gave_up = false;
    for (uint64_t done = 0; done < size;) {
        ssize_t n = pwrite(fd, from + done, size - done, (off_t)(offset + done));
        if (n < 0 && (errno == EINTR || direct_give_up(fd, errno, &gave_up))) continue;
        if (n <= 0) return n < 0 ? errno : ENOSPC;
        done += (uint64_t)n;
        if (done % PAGE != 0 && done < size) return ENOSPC; /* a disk that takes part of a page has no more */
    }
    return 0;
}

/* As much of it as the file has. */
static int read_at(int fd, unsigned char *to, uint64_t size, uint64_t offset, uint64_t *ret_size) {
    uint64_t done = 0;
    bool gave_up = false;
    while (done < size) {
        ssize_t n = pread(fd, to + done, size - done, (off_t)(offset + done));
        if (n < 0 && (errno == EINTR || direct_give_up(fd, errno, &gave_up))) continue;
        if (n < 0) return errno;
        done += (uint64_t)n;
        if (n == 0 || done % PAGE != 0) break; /* its end */
    }
    *ret_size = done;
    return 0;
}

/* ---- the middle of a large value, by several threads ---- */

typedef struct {
    int fd;
    bool writes;
    unsigned char *data; /* in the arena; a page's beginning */
    uint64_t offset, bytes;
    size_t pieces;
    uint64_t *hashes;
    _Atomic size_t next;
    _Atomic int error;
} middle_t;

static void *middle_work(void *argument) {
    middle_t *m = argument;
    for (size_t i; (i = atomic_fetch_add(&m->next, 1)) < m->pieces && atomic_load(&m->error) == 0;) {
        uint64_t at = i * (uint64_t)PIECE, size = m->bytes - at < PIECE ? m->bytes - at : PIECE, got = size;
        int error = m->writes ? write_at(m->fd, m->data + at, size, m->offset + at)
                              : read_at(m->fd, m->data + at, size, m->offset + at, &got);
        if (error == 0 && got < size) error = EBADMSG;
        if (error == 0) m->hashes[i] = XXH3_64bits(m->data + at, size);
        if (error != 0) atomic_store(&m->error, error);
    }
    return NULL;
}

static int middle_run(middle_t *m) {
    pthread_t helpers[HELPERS];
    size_t wanted = m->pieces > HELPERS ? HELPERS : m->pieces > 0 ? m->pieces - 1 : 0, count = 0;
    while (count < wanted && pthread_create(&helpers[count], NULL, middle_work, m) == 0) count++;
    middle_work(m);
    while (count > 0) pthread_join(helpers[--count], NULL);
    return atomic_load(&m->error);
}

/* The parts of a large value. */
typedef struct {
    uint64_t middle, rest; /* bytes of whole pages, and after them */
    size_t pieces;
    uint64_t *hashes; /* the first page's, each piece's, the rest's */
} parts_t;

static bool parts_of(const store_spill_item_t *item, parts_t *ret_parts) {
    parts_t p = {.middle = (item->bytes - FIRST) / PAGE * PAGE};
    p.rest = item->bytes - FIRST - p.middle;
    p.pieces = (size_t)((p.middle + PIECE - 1) / PIECE);
    p.hashes = malloc((p.pieces + 2) * sizeof *p.hashes);
    *ret_parts = p;
    return p.hashes != NULL;
}

static uint64_t hash_of(const item_head_t *head, const uint64_t *hashes, size_t count) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, head, sizeof *head);
    XXH3_64bits_update(&state, hashes, count * sizeof *hashes);
    return XXH3_64bits_digest(&state);
}

/* Bytes that a large value takes in the file: its pages, the last with the hash behind the rest. */
static uint64_t large_size(const parts_t *p) { return PAGE + p->middle + page_up(p->rest + sizeof(uint64_t)); }

/* ---- writing ---- */

/* A buffer that is being filled, is being written, or is free. */
typedef struct {
    unsigned char *data;
    uint64_t offset, size;
    int fd, error;
    bool writing;
    pthread_t writer;
} buffer_t;

typedef struct {
    int fd;
    buffer_t buffers[BUFFERS];
    unsigned turn;       /* which one is being filled */
    unsigned char *data; /* its BUFFER bytes, aligned */
    uint64_t offset;     /* in the file, of data[0]; a multiple of PAGE */
    size_t used;         /* bytes in it */
} stream_t;

static int stream_open(const char *path, int flags, stream_t *ret_stream) {
    stream_t s = {.fd = file_open(path, flags)};
    if (s.fd < 0) return errno;
    s.data = aligned_alloc(PAGE, BUFFERS * BUFFER);
    if (s.data == NULL) {
        close(s.fd);
        return ENOMEM;
    }
    for (unsigned i = 0; i < BUFFERS; i++) s.buffers[i].data = s.data + i * (size_t)BUFFER;
    *ret_stream = s;
    return 0;
}

static void *buffer_write(void *argument) {
    buffer_t *b = argument;
    b->error = write_at(b->fd, b->data, b->size, b->offset);
    return NULL;
}

static int buffer_settle(buffer_t *b) {
    if (b->writing) pthread_join(b->writer, NULL);
    b->writing = false;
    return b->error;
}

static int stream_close(stream_t *s, int error) {
    for (unsigned i = 0; i < BUFFERS; i++) {
        int behind = buffer_settle(&s->buffers[i]);
        if (error == 0) error = behind;
    }
    free(s->buffers[0].data);
    if (close(s->fd) != 0 && error == 0) error = errno;
    return error;
}

/* Hands the buffer to a writer, and takes the next one. */
static int stream_flush(stream_t *s) {
    buffer_t *b = &s->buffers[s->turn];
    if (s->used == 0) return 0;
    b->fd = s->fd;
    b->size = page_up(s->used);
    b->offset = s->offset;
    memset(b->data + s->used, 0, b->size - s->used);
    b->writing = pthread_create(&b->writer, NULL, buffer_write, b) == 0;
    if (!b->writing) buffer_write(b);
    s->offset += b->size;
    s->used = 0;
    s->turn = (s->turn + 1) % BUFFERS;
    s->data = s->buffers[s->turn].data;
    return buffer_settle(&s->buffers[s->turn]);
}

static void stream_add(stream_t *s, const void *from, size_t size) {
    memcpy(s->data + s->used, from, size);
    s->used += size;
}

static int small_add(stream_t *s, uint64_t incarnation, const unsigned char *arena, store_spill_item_t *item) {
    static const unsigned char zeros[UNIT];
    uint64_t whole = sizeof(item_head_t) + item->bytes + sizeof(uint64_t) + UNIT;
    if (whole > BUFFER) return EINVAL; /* it lies where no value of its size does */
    int error = s->used + whole > BUFFER ? stream_flush(s) : 0;
    if (error != 0) return error;
    item_head_t head = head_of(incarnation, item);
    uint64_t piece = XXH3_64bits(arena + item->block, item->bytes), hash = hash_of(&head, &piece, 1);
    item->offset = s->offset + s->used;
    stream_add(s, &head, sizeof head);
    stream_add(s, arena + item->block, item->bytes);
    stream_add(s, &hash, sizeof hash);
    stream_add(s, zeros, (UNIT - s->used % UNIT) % UNIT);
    return 0;
}

static int large_add(stream_t *s, uint64_t incarnation, const unsigned char *arena, store_spill_item_t *item) {
    int error = stream_flush(s);
    parts_t p;
    if (error != 0) return error;
    if (!parts_of(item, &p)) return ENOMEM;
    const unsigned char *data = arena + item->block;
    item->offset = s->offset;
    middle_t m = {.fd = s->fd,
                  .writes = true,
                  .data = (unsigned char *)data + FIRST,
                  .offset = s->offset + PAGE,
                  .bytes = p.middle,
                  .pieces = p.pieces,
                  .hashes = p.hashes + 1};
    error = middle_run(&m);
    item_head_t head = head_of(incarnation, item);
    p.hashes[0] = XXH3_64bits(data, FIRST);
    p.hashes[p.pieces + 1] = XXH3_64bits(data + FIRST + p.middle, p.rest);
    uint64_t hash = hash_of(&head, p.hashes, p.pieces + 2), end = s->offset + large_size(&p);
    if (error == 0) {
        stream_add(s, &head, sizeof head);
        stream_add(s, data, FIRST);
        error = stream_flush(s);
    }
    if (error == 0) {
        s->offset += p.middle;
        stream_add(s, data + FIRST + p.middle, p.rest);
        stream_add(s, &hash, sizeof hash);
        error = stream_flush(s);
    }
    s->offset = end;
    free(p.hashes);
    return error;
}

/* All that the file can need, at once: a full disk shows before anything is written, and writes that do not make a file longer need not wait for each other. */
static int space_take(int fd, const store_spill_item_t *items, size_t count) {
    uint64_t size = PAGE;
    for (size_t i = 0; i < count; i++) size += items[i].bytes + (is_large(&items[i]) ? 3 * PAGE : 3 * UNIT);
    if (fallocate(fd, 0, 0, (off_t)page_up(size)) == 0) return 0;
    return errno == ENOSPC || errno == EDQUOT || errno == EFBIG ? errno : 0; /* else this file system can't */
}

int store_spill_write(const char *path, uint64_t incarnation, const unsigned char *arena, store_spill_item_t *items,
                      size_t count, uint64_t *ret_size) {
    stream_t s;
    int error = stream_open(path, O_WRONLY | O_CREAT | O_EXCL, &s);
    if (error != 0) return error;
    file_head_t head = {.magic = FILE_MAGIC, .incarnation = incarnation, .version = VERSION, .count = (uint32_t)count};
    error = space_take(s.fd, items, count);
    stream_add(&s, &head, sizeof head);
    for (size_t i = 0; error == 0 && i < count; i++)
        error = is_large(&items[i]) ? large_add(&s, incarnation, arena, &items[i])
                                    : small_add(&s, incarnation, arena, &items[i]);
    if (error == 0) error = stream_flush(&s);
    *ret_size = s.offset;
    error = stream_close(&s, error);
    if (error == 0 && truncate(path, (off_t)*ret_size) != 0) error = errno; /* what was taken and not needed */
    if (error != 0) unlink(path);
    return error;
}

/* ---- reading ---- */

static bool head_is(const void *bytes, const item_head_t *expected) {
    return memcmp(bytes, expected, sizeof *expected) == 0;
}

static int small_read(stream_t *s, const item_head_t *head, unsigned char *arena, const store_spill_item_t *item) {
    uint64_t first = item->offset / PAGE * PAGE, skip = item->offset - first, got, stored,
             size = page_up(skip + sizeof *head + item->bytes + sizeof stored);
    if (size > BUFFER) return EBADMSG; /* it was not written so */
    int error = read_at(s->fd, s->data, size, first, &got);
    if (error != 0) return error;
    if (got < skip + sizeof *head + item->bytes + sizeof stored || !head_is(s->data + skip, head)) return EBADMSG;
    const unsigned char *data = s->data + skip + sizeof *head;
    memcpy(&stored, data + item->bytes, sizeof stored);
    uint64_t piece = XXH3_64bits(data, item->bytes);
    if (stored != hash_of(head, &piece, 1)) return EBADMSG;
    memcpy(arena + item->block, data, item->bytes);
    return 0;
}

static int large_read(stream_t *s, const item_head_t *head, unsigned char *arena, const store_spill_item_t *item) {
    parts_t p;
    if (!parts_of(item, &p)) return ENOMEM;
    unsigned char *data = arena + item->block;
    uint64_t got, stored, last = item->offset + PAGE + p.middle;
    int error = read_at(s->fd, s->data, PAGE, item->offset, &got);
    if (error == 0 && (got < PAGE || !head_is(s->data, head))) error = EBADMSG;
    if (error == 0) {
        memcpy(data, s->data + UNIT, FIRST);
        middle_t m = {.fd = s->fd,
                      .data = data + FIRST,
                      .offset = item->offset + PAGE,
                      .bytes = p.middle,
                      .pieces = p.pieces,
                      .hashes = p.hashes + 1};
        error = middle_run(&m);
    }
    if (error == 0) error = read_at(s->fd, s->data, page_up(p.rest + sizeof stored), last, &got);
    if (error == 0 && got < p.rest + sizeof stored) error = EBADMSG;
    if (error == 0) {
        memcpy(data + FIRST + p.middle, s->data, p.rest);
        memcpy(&stored, s->data + p.rest, sizeof stored);
        p.hashes[0] = XXH3_64bits(data, FIRST);
        p.hashes[p.pieces + 1] = XXH3_64bits(s->data, p.rest);
        if (stored != hash_of(head, p.hashes, p.pieces + 2)) error = EBADMSG;
    }
    free(p.hashes);
    return error;
}

int store_spill_read(const char *path, uint64_t incarnation, unsigned char *arena, const store_spill_item_t *item) {
    stream_t s;
    int error = stream_open(path, O_RDONLY | O_NOFOLLOW, &s);
    if (error != 0) return error;
    item_head_t head = head_of(incarnation, item);
    error = is_large(item) ? large_read(&s, &head, arena, item) : small_read(&s, &head, arena, item);
    return stream_close(&s, error);
}

int store_spill_punch(const char *path, const store_spill_item_t *item) {
    uint64_t first = page_up(item->offset), end = (item->offset + UNIT + item->bytes) / PAGE * PAGE;
    if (first >= end) return 0;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW), error = 0;
    if (fd < 0) return errno;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first, (off_t)(end - first)) != 0)
        error = errno;
    close(fd);
    return error;
}
