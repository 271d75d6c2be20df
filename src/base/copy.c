/*
 * Beyond the caches, stores that bypass them are about twice as fast, since the old content of the
 * target is not read. The C library does that too, but falls to a quarter of its speed when the two
 * buffers lie unluckily within their pages (measured with glibc 2.36: 3.6 GB/s instead of 15), and
 * values in the arena start wherever their header ends.
 *
 * One CPU does not use up the memory's speed, and is far from it where the kernel has to clear and
 * map pages (on 2 cores: copies of 13 and 18 GB/s by one and two threads, 1.3 and 2.3 into pages
 * that no process had touched). So a large copy is cut into chunks, and each thread takes the next
 * chunk: a helper that gets no CPU takes none. Chunks end where the kernel's large pages do, so
 * that the kernel never clears one page for two threads at the same time.
 */
#include "base/copy.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

enum {
    STREAM_FROM = 8 << 20,
    CHUNK = 2 << 20,      /* the size of a large page, too, on most machines */
    HELP_FROM = 16 << 20, /* a smaller copy is over before a helper has begun */
    HELP_COLD_FROM = 4 << 20,
    MOST_HELPERS = 3,
    STACK = 256 << 10,
    PAGE = 4096,
};

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

typedef struct {
    char *to;
    const char *from; /* NULL: the pages are mapped, no more */
    size_t size;
    bool cold;
    /* relaxed: it says which thread has a chunk, and nothing about its bytes; the join of a thread
     * orders those */
    _Atomic size_t next;
} work_t;

#ifdef __SSE2__
#include <emmintrin.h>

static void copy_stream(char *to, const char *from, size_t size) {
    size_t head = (64 - ((uintptr_t)to & 63)) & 63;
    if (head > size) head = size;
    memcpy(to, from, head);
    to += head, from += head, size -= head;
    size_t lines = size / 64;
    for (size_t i = 0; i < lines; i++, to += 64, from += 64) {
        _mm_prefetch(from + 1024, _MM_HINT_T0);
        __m128i a = _mm_loadu_si128((const __m128i *)from),
                b = _mm_loadu_si128((const __m128i *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(from + 32)),
                d = _mm_loadu_si128((const __m128i *)(from + 48));
        _mm_stream_si128((__m128i *)to, a);
        _mm_stream_si128((__m128i *)(to + 16), b);
        _mm_stream_si128((__m128i *)(to + 32), c);
        _mm_stream_si128((__m128i *)(to + 48), d);
    }
    _mm_sfence(); /* the release that publishes these bytes does not order such stores */
    memcpy(to, from, size % 64);
}
#else
static void copy_stream(char *to, const char *from, size_t size) { memcpy(to, from, size); }
#endif

static void pages_map(char *at, size_t size) {
    char *first = at - (uintptr_t)at % PAGE, *end = at + size;
    /* A kernel without it answers with an error, and the pages are then mapped one by one as they
     * are written. */
    madvise(first, (size_t)(end - first), MADV_POPULATE_WRITE);
}

static void *chunks_do(void *context) {
    work_t *w = context;
    size_t end,
        before = (uintptr_t)w->to % CHUNK; /* bytes of its first chunk that lie before `to` */
    while ((end = atomic_fetch_add_explicit(&w->next, CHUNK, memory_order_relaxed)) <
           before + w->size) {
        size_t at = end > before ? end - before : 0;
        end = end + CHUNK - before < w->size ? end + CHUNK - before : w->size;
        size_t size = end - at;
        if (w->cold) pages_map(w->to + at, size);
        if (w->from == NULL) continue;
        if (w->size >= STREAM_FROM)
            copy_stream(w->to + at, w->from + at, size);
        else
            memcpy(w->to + at, w->from + at, size);
    }
    return NULL;
}

static unsigned helpers_start(work_t *w, unsigned wanted, pthread_t *threads) {
    pthread_attr_t attributes;
    sigset_t all, before;
    unsigned count = 0;
    if (pthread_attr_init(&attributes) != 0) return 0;
    pthread_attr_setstacksize(&attributes, STACK);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the program's own threads */
    while (count < wanted && pthread_create(&threads[count], &attributes, chunks_do, w) == 0)
        count++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return count;
}

static void work_do(work_t *w, unsigned helpers) {
    pthread_t threads[MOST_HELPERS];
    if (w->size < (w->cold ? HELP_COLD_FROM : HELP_FROM)) helpers = 0;
    helpers = helpers > 0
                  ? helpers_start(w, helpers < MOST_HELPERS ? helpers : MOST_HELPERS, threads)
                  : 0;
    chunks_do(w);
    while (helpers > 0) pthread_join(threads[--helpers], NULL);
}

void base_copy(void *to, const void *from, size_t size, bool cold, unsigned helpers) {
    work_do(&(work_t){.to = to, .from = from, .size = size, .cold = cold}, helpers);
}

void base_copy_fresh(void *to, const void *from, size_t size, unsigned helpers) {
    /* A page that lies partly outside is left as it is. A kernel without large pages answers with
     * an error, and gives small ones. */
    size_t before = (CHUNK - (uintptr_t)to % CHUNK) % CHUNK;
    if (size >= before + CHUNK)
        madvise((char *)to + before, (size - before) / CHUNK * CHUNK, MADV_HUGEPAGE);
    base_copy(to, from, size, true, helpers);
}

void base_map(void *at, size_t size, unsigned helpers) {
    work_do(&(work_t){.to = at, .size = size, .cold = true}, helpers);
}
