/*
 * Design. Bytes go through the page cache, or past it (O_DIRECT), as the caller says for each file
 * and each read. Past it where the file system lets them: without that (tmpfs of older kernels,
 * ramfs) the same code runs. The kernel keeps the two coherent.
 *
 * Where everything lies is known before the first byte is written. So the file is cut into
 * stretches, and several threads take one after the other: while some wait for the disk, others
 * hash or copy. Small values are copied into a buffer side by side, and that is a stretch. A large
 * one (an extent of its own in the arena, its data 64 bytes from a page's beginning) has its head
 * at a page's beginning, so that its pages in the file are its pages in memory: all but the first
 * and the last are written from the arena and read into it without a copy, in pieces, each a
 * stretch.
 *
 * The hash behind a value is that of its head and of its pieces' hashes, in order: the first page's
 * bytes, then each PIECE, then the rest. A small value is one piece. Whoever hashes the last piece
 * of a large value writes what is behind it.
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
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/vec.h"

enum {
    BUFFER = 2 << 20,
    PIECE = 2 << 20,
    PAGE = STORE_SPILL_PAGE,
    UNIT = STORE_SPILL_PLACE,
    HELPERS = 2
};

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

_Static_assert(STORE_SPILL_SMALL + 4 * UNIT < BUFFER, "small values fit into a buffer");
static uint64_t page_up(uint64_t size) { return (size + PAGE - 1) / PAGE * PAGE; }

/* ---- the file ---- */

/* Opened without O_DIRECT first: with it, a file system that has none makes the file and then
 * refuses it. O_NONBLOCK: somebody may have put a pipe in its place. */
static int file_open(const char *path, bool cached, int flags) {
    struct stat found;
    int fd = open(path, flags | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0) return -1;
    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) {
        close(fd);
        errno = EBADMSG;
        return -1;
    }
    if (!cached) (void)fcntl(fd, F_SETFL, O_DIRECT);
    return fd;
}

/* A file system may take the flag and still refuse the transfer. True: without it now. */
static bool direct_give_up(int fd, int error, bool *gave_up) {
    int flags = fcntl(fd, F_GETFL);
    if (error != EINVAL || *gave_up || flags < 0) return false;
    *gave_up = true; /* another thread may have done it before us */
    return !(flags & O_DIRECT) || fcntl(fd, F_SETFL, flags & ~O_DIRECT) == 0;
}

/* Stretches of memory, each of whole pages, that lie one after the other in the file. */
typedef struct {
    struct iovec parts[3];
    int count;
} strip_t;

static void strip_add(strip_t *strip, const void *at, uint64_t size) {
    if (size > 0)
        strip->parts[strip->count++] =
            (struct iovec){.iov_base = (void *)(uintptr_t)at, .iov_len = size};
}

/* All of it, or an errno. A file that is too short to be read: EBADMSG. */
static int strip_move(int fd, bool writes, strip_t strip, uint64_t offset) {
    struct iovec *part = strip.parts, *end = part + strip.count;
    bool gave_up = false;
    while (part < end) {
        ssize_t n = writes ? pwritev(fd, part, (int)(end - part), (off_t)offset)
                           : preadv(fd, part, (int)(end - part), (off_t)offset);
        if (n < 0 && (errno == EINTR || direct_give_up(fd, errno, &gave_up))) continue;
        if (n < 0) return errno;
        offset += (uint64_t)n;
        bool over = n == 0 || offset % PAGE !=
                                  0; /* its end; and a disk that takes part of a page has no more */
        for (; part < end && (size_t)n >= part->iov_len; part++) n -= (ssize_t)part->iov_len;
        if (part == end) break;
        if (over) return writes ? ENOSPC : EBADMSG;
        part->iov_base = (char *)part->iov_base + n;
        part->iov_len -= (size_t)n;
    }
    return 0;
}

/* ---- several threads at one file ---- */

/* A stretch of the file that one thread moves in one go: small values side by side, or a piece of a
 * large one. */
typedef struct {
    struct large *large; /* NULL: small ones */
    size_t first, count; /* which items; or which piece */
    uint64_t offset;
} unit_t;

typedef struct crew {
    int fd;
    bool writes;
    uint64_t incarnation;
    unsigned char *arena;
    const store_spill_item_t *items;
    size_t item_count;
    const unit_t *units;
    size_t unit_count;
    _Atomic size_t next;
    _Atomic int error;
} crew_t;

static int small_write(const crew_t *c, const unit_t *unit, unsigned char *buffer);
static int piece_move(const crew_t *c, struct large *v, size_t index);

static void *crew_work(void *argument) {
    crew_t *c = argument;
    unsigned char *buffer = NULL; /* for small values, kept from one stretch to the next */
    for (size_t i;
         (i = atomic_fetch_add(&c->next, 1)) < c->unit_count && atomic_load(&c->error) == 0;) {
        const unit_t *unit = &c->units[i];
        int error = 0;
        if (unit->large == NULL && buffer == NULL && (buffer = aligned_alloc(PAGE, BUFFER)) == NULL)
            error = ENOMEM;
        if (error == 0)
            error = unit->large != NULL ? piece_move(c, unit->large, unit->first)
                                        : small_write(c, unit, buffer);
        if (error != 0) atomic_store(&c->error, error);
    }
    free(buffer);
    return NULL;
}

static int crew_run(crew_t *c) {
    pthread_t helpers[HELPERS];
    size_t wanted = c->unit_count > HELPERS ? HELPERS
                    : c->unit_count > 0     ? c->unit_count - 1
                                            : 0,
           count = 0;
    while (count < wanted && pthread_create(&helpers[count], NULL, crew_work, c) == 0) count++;
    crew_work(c);
    while (count > 0) pthread_join(helpers[--count], NULL);
    return atomic_load(&c->error);
}

/* ---- small values ---- */

/* What it takes beside others: with its head and its hash. */
static uint64_t small_size(const store_spill_item_t *item) {
    return (sizeof(item_head_t) + item->bytes + sizeof(uint64_t) + UNIT - 1) / UNIT * UNIT;
}

static uint64_t hash_of(const item_head_t *head, const uint64_t *hashes, size_t count) {
    XXH3_state_t state;
    XXH3_64bits_reset(&state);
    XXH3_64bits_update(&state, head, sizeof *head);
    XXH3_64bits_update(&state, hashes, count * sizeof *hashes);
    return XXH3_64bits_digest(&state);
}

static int small_write(const crew_t *c, const unit_t *unit, unsigned char *buffer) {
    uint64_t used = 0;
    if (unit->offset == 0) {
        file_head_t head = {.magic = FILE_MAGIC,
                            .incarnation = c->incarnation,
                            .version = VERSION,
                            .count = (uint32_t)c->item_count};
        memcpy(buffer, &head, sizeof head);
        used = sizeof head;
    }
    for (size_t i = unit->first; i < unit->first + unit->count; i++) {
        const store_spill_item_t *item = &c->items[i];
        const unsigned char *data = c->arena + item->block;
        item_head_t head = head_of(c->incarnation, item);
        uint64_t piece = XXH3_64bits(data, item->bytes), hash = hash_of(&head, &piece, 1),
                 end = used + small_size(item),
                 hashed = used + sizeof head + item->bytes + sizeof hash;
        memcpy(buffer + used, &head, sizeof head);
        memcpy(buffer + used + sizeof head, data, item->bytes);
        memcpy(buffer + used + sizeof head + item->bytes, &hash, sizeof hash);
        memset(buffer + hashed, 0, end - hashed);
        used = end;
    }
    memset(buffer + used, 0, page_up(used) - used);
    strip_t strip = {0};
    strip_add(&strip, buffer, page_up(used));
    return strip_move(c->fd, true, strip, unit->offset);
}

static int small_read(int fd, const item_head_t *head, unsigned char *arena,
                      const store_spill_item_t *item) {
    uint64_t first = item->offset / PAGE * PAGE, skip = item->offset - first, stored,
             size = page_up(skip + small_size(item));
    if (size > BUFFER + PAGE) return EBADMSG; /* it was not written so */
    unsigned char *buffer = aligned_alloc(PAGE, size), *data = buffer + skip + sizeof *head;
    if (buffer == NULL) return ENOMEM;
    strip_t strip = {0};
    strip_add(&strip, buffer, size);
    int error = strip_move(fd, false, strip, first);
    if (error == 0 && memcmp(buffer + skip, head, sizeof *head) != 0) error = EBADMSG;
    if (error == 0) {
        memcpy(&stored, data + item->bytes, sizeof stored);
        uint64_t piece = XXH3_64bits(data, item->bytes);
        if (stored != hash_of(head, &piece, 1)) error = EBADMSG;
    }
    if (error == 0) memcpy(arena + item->block, data, item->bytes);
    free(buffer);
    return error;
}

/* ---- large values ---- */

/* Its first page in the file is its head and FIRST bytes; then whole pages, the middle; then the
 * rest and the hash. */
typedef struct large {
    item_head_t head;
    unsigned char *data;   /* in the arena */
    uint64_t offset;       /* in the file */
    uint64_t middle, rest; /* bytes */
    uint64_t stored;       /* the hash that was read */
    size_t pieces;
    uint64_t *hashes;    /* the first bytes', each piece's, the rest's */
    _Atomic size_t left; /* pieces that are not hashed yet */
} large_t;

static size_t pieces_of(const store_spill_item_t *item) {
    return (size_t)(((item->bytes - FIRST) / PAGE * PAGE + PIECE - 1) / PIECE);
}

static uint64_t end_size(const large_t *v) { return page_up(v->rest + sizeof v->stored); }

/* What it takes in the file. */
static uint64_t large_size(const large_t *v) { return PAGE + v->middle + end_size(v); }

/* `hashes`: space for two more than it has pieces. */
static void large_init(large_t *v, uint64_t incarnation, const unsigned char *arena,
                       const store_spill_item_t *item, uint64_t offset, uint64_t *hashes) {
    uint64_t middle = (item->bytes - FIRST) / PAGE * PAGE;
    *v = (large_t){.head = head_of(incarnation, item),
                   .data = (unsigned char *)arena + item->block,
                   .offset = offset,
                   .middle = middle,
                   .rest = item->bytes - FIRST - middle,
                   .pieces = pieces_of(item),
                   .hashes = hashes};
    atomic_init(&v->left, v->pieces);
}

static uint64_t large_hash(large_t *v) {
    v->hashes[0] = XXH3_64bits(v->data, FIRST);
    v->hashes[v->pieces + 1] = XXH3_64bits(v->data + FIRST + v->middle, v->rest);
    return hash_of(&v->head, v->hashes, v->pieces + 2);
}

/* Fills the pages behind its middle. */
static void end_make(large_t *v, unsigned char *pages) {
    uint64_t hash = large_hash(v), used = v->rest + sizeof hash;
    memcpy(pages, v->data + FIRST + v->middle, v->rest);
    memcpy(pages + v->rest, &hash, sizeof hash);
    memset(pages + used, 0, end_size(v) - used);
}

/* A piece, with the page before it if it is the first, and what is behind it if it is the last. */
static int piece_move(const crew_t *c, large_t *v, size_t index) {
    _Alignas(PAGE) unsigned char before[PAGE], behind[2 * PAGE];
    bool first = index == 0, last = index == v->pieces - 1;
    uint64_t at = index * (uint64_t)PIECE, size = last ? v->middle - at : PIECE,
             offset = v->offset + PAGE + at;
    unsigned char *data = v->data + FIRST + at;
    strip_t strip = {0};
    if (first) strip_add(&strip, before, PAGE);
    strip_add(&strip, data, size);
    if (first) offset -= PAGE;
    if (!c->writes) {
        if (last) strip_add(&strip, behind, end_size(v));
        int error = strip_move(c->fd, false, strip, offset);
        if (error == 0 && first && memcmp(before, &v->head, sizeof v->head) != 0) error = EBADMSG;
        if (error != 0) return error;
        v->hashes[index + 1] = XXH3_64bits(data, size);
        if (first) memcpy(v->data, before + UNIT, FIRST);
        if (last) memcpy(data + size, behind, v->rest);
        if (last) memcpy(&v->stored, behind + v->rest, sizeof v->stored);
        return 0;
    }
    v->hashes[index + 1] = XXH3_64bits(data, size);
    /* acquire and release: whoever finds none left has all the others' hashes */
    bool ends = atomic_fetch_sub_explicit(&v->left, 1, memory_order_acq_rel) == 1;
    if (first) memcpy(before, &v->head, sizeof v->head), memcpy(before + UNIT, v->data, FIRST);
    if (ends) end_make(v, behind);
    if (ends && last) strip_add(&strip, behind, end_size(v));
    int error = strip_move(c->fd, true, strip, offset);
    if (error != 0 || !ends || last) return error;
    strip_t end = {0};
    strip_add(&end, behind, end_size(v));
    return strip_move(c->fd, true, end, v->offset + PAGE + v->middle);
}

static int large_read(int fd, uint64_t incarnation, unsigned char *arena,
                      const store_spill_item_t *item) {
    large_t v;
    size_t pieces = pieces_of(item);
    uint64_t *hashes = malloc((pieces + 2) * sizeof *hashes);
    unit_t *units = malloc(pieces * sizeof *units);
    int error = hashes == NULL || units == NULL ? ENOMEM : 0;
    if (error == 0) {
        large_init(&v, incarnation, arena, item, item->offset, hashes);
        for (size_t i = 0; i < pieces; i++) units[i] = (unit_t){.large = &v, .first = i};
        crew_t crew = {.fd = fd, .units = units, .unit_count = pieces};
        error = crew_run(&crew);
    }
    if (error == 0 && v.stored != large_hash(&v)) error = EBADMSG;
    free(units);
    free(hashes);
    return error;
}

/* ---- what lies where ---- */

typedef struct {
    VEC(unit_t) units;
    large_t *larges;
    uint64_t *hashes;
    uint64_t size; /* of the file */
} plan_t;

static bool small_plan(plan_t *plan, size_t first, size_t count, uint64_t used) {
    unit_t unit = {.first = first, .count = count, .offset = plan->size};
    plan->size += page_up(used);
    return used == 0 || vec_push(&plan->units, unit);
}

static bool large_plan(plan_t *plan, large_t *v) {
    for (size_t i = 0; i < v->pieces; i++)
        if (!vec_push(&plan->units, ((unit_t){.large = v, .first = i}))) return false;
    plan->size += large_size(v);
    return true;
}

static void plan_fini(plan_t *plan) {
    vec_free(&plan->units);
    free(plan->larges);
    free(plan->hashes);
}

/* Gives each item its place. To be undone also if it fails. */
static int plan_make(plan_t *plan, uint64_t incarnation, const unsigned char *arena,
                     store_spill_item_t *items, size_t count) {
    size_t larges = 0, hashes = 0, first = 0;
    /* of the stretch that is being filled, which begins at item `first` */
    uint64_t used = sizeof(file_head_t);
    for (size_t i = 0; i < count; i++)
        if (is_large(&items[i])) larges++, hashes += pieces_of(&items[i]) + 2;
    plan->larges = malloc((larges + 1) * sizeof *plan->larges);
    plan->hashes = malloc((hashes + 1) * sizeof *plan->hashes);
    if (plan->larges == NULL || plan->hashes == NULL) return ENOMEM;
    larges = hashes = 0;
    for (size_t i = 0; i < count; i++) {
        store_spill_item_t *item = &items[i];
        bool large = is_large(item);
        uint64_t size = large ? 0 : small_size(item);
        /* it lies where no value of its size does */
        if (size > BUFFER - sizeof(file_head_t)) return EINVAL;
        if (large || used + size > BUFFER) {
            if (!small_plan(plan, first, i - first, used)) return ENOMEM;
            first = i;
            used = 0;
        }
        item->offset = plan->size + used;
        used += size;
        if (!large) continue;
        large_t *v = &plan->larges[larges++];
        large_init(v, incarnation, arena, item, plan->size, plan->hashes + hashes);
        hashes += v->pieces + 2;
        if (!large_plan(plan, v)) return ENOMEM;
        first = i + 1;
    }
    return small_plan(plan, first, count - first, used) ? 0 : ENOMEM;
}

/* All that the file needs, at once: a full disk shows before anything is written, and writes that
 * do not make a file longer need not wait for each other. */
static int space_take(int fd, uint64_t size) {
    if (fallocate(fd, 0, 0, (off_t)size) == 0) return 0;
    return errno == ENOSPC || errno == EDQUOT || errno == EFBIG
               ? errno
               : 0; /* else this file system can't */
}

int store_spill_write(const char *path, bool cached, uint64_t incarnation,
                      const unsigned char *arena, store_spill_item_t *items, size_t count,
                      uint64_t *ret_size) {
    plan_t plan = {0};
    int fd = file_open(path, cached, O_WRONLY | O_CREAT | O_EXCL);
    if (fd < 0) return errno;
    int error = plan_make(&plan, incarnation, arena, items, count);
    if (error == 0) error = space_take(fd, plan.size);
    if (error == 0) {
        crew_t crew = {.fd = fd,
                       .writes = true,
                       .incarnation = incarnation,
                       .arena = (unsigned char *)arena,
                       .items = items,
                       .item_count = count,
                       .units = plan.units.items,
                       .unit_count = plan.units.count};
        error = crew_run(&crew);
    }
    *ret_size = plan.size;
    plan_fini(&plan);
    if (close(fd) != 0 && error == 0) error = errno;
    if (error != 0) unlink(path);
    return error;
}

int store_spill_read(const char *path, bool cached, uint64_t incarnation, unsigned char *arena,
                     const store_spill_item_t *item) {
    int fd = file_open(path, cached, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) return errno;
    item_head_t head = head_of(incarnation, item);
    int error = is_large(item) ? large_read(fd, incarnation, arena, item)
                               : small_read(fd, &head, arena, item);
    close(fd);
    return error;
}

int store_spill_punch(const char *path, const store_spill_item_t *item) {
    uint64_t first = page_up(item->offset), end = (item->offset + UNIT + item->bytes) / PAGE * PAGE;
    if (first >= end) return 0;
    int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error = 0;
    if (fd < 0) return errno;
    if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)first,
                  (off_t)(end - first)) != 0)
        error = errno;
    close(fd);
    return error;
}
