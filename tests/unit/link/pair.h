/* Two sides of a link in one process: what one writes lies in `out` until a test hands it over. */
#ifndef UNIT_LINK_PAIR_H
#define UNIT_LINK_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "link/link.h"

enum { LOW = 10, HIGH = 20, ROOM = 4096 };
#define MS UINT64_C(1000000)

typedef struct side {
    link_t *link;
    uint64_t connection; /* that it has, as far as the test knows; 0: none */
    uint64_t accepting;
    uint64_t dials, ends, goodbyes, refusals, rooms, beats, age_ms;
    uint64_t received;  /* the newest sequence number */
    uint64_t last_size; /* of the newest message */
    uint8_t last_byte;  /* its first */
    size_t capacity;    /* of `out` */
    VEC(uint8_t) out;
    int silent;                  /* times that it was told, less those that it was heard */
    bool keeps, refuses, closes; /* does not process; has no memory; closes at a message */
} side_t;

static uint64_t connections, now = 1000 * MS;

static inline uint64_t side_dial(void *context) {
    side_t *side = context;
    side->dials++;
    return side->connection = ++connections;
}

static inline size_t side_write(void *context, uint64_t connection, const link_piece_t *pieces,
                                size_t count) {
    side_t *side = context;
    if (side->connection == 0) side->connection = side->accepting;
    assert_int_equal(connection, side->connection); /* the old one was ended before */
    size_t taken = 0;
    for (size_t i = 0; i < count; i++) {
        size_t left = side->capacity - side->out.count;
        size_t size = pieces[i].size < left ? pieces[i].size : left;
        assert_true(vec_reserve(&side->out, size + 1));
        memcpy(side->out.items + side->out.count, pieces[i].bytes, size);
        side->out.count += size;
        taken += size;
        if (size < pieces[i].size) break;
    }
    return taken;
}

static inline void side_end(void *context, uint64_t connection) {
    side_t *side = context;
    assert_int_equal(connection, side->connection);
    side->connection = 0;
    side->ends++;
    side->out.count = 0;
}

static inline bool side_receive(void *context, uint64_t sequence, const void *bytes, size_t size) {
    side_t *side = context;
    if (side->refuses) return false;
    assert_int_equal(sequence, side->received + 1);
    side->received = sequence;
    side->last_size = size;
    if (size > 0) side->last_byte = *(const uint8_t *)bytes;
    if (side->closes) link_close(side->link);
    if (!side->keeps) link_processed(side->link, size);
    return true;
}

static inline void side_room(void *context) { ((side_t *)context)->rooms++; }
static inline void side_silent(void *context, bool silent) {
    ((side_t *)context)->silent += silent ? 1 : -1;
}
static inline void side_beat(void *context, uint64_t age_ms) {
    ((side_t *)context)->beats++;
    ((side_t *)context)->age_ms = age_ms;
}
static inline void side_goodbye(void *context) {
    ((side_t *)context)->goodbyes++;
    ((side_t *)context)->received++;
}

static inline void side_refused(void *context) { ((side_t *)context)->refusals++; }

static const link_ops_t side_ops = {side_dial,   side_write, side_end,     side_receive, side_room,
                                    side_silent, side_beat,  side_goodbye, side_refused};

static inline void side_init(side_t *side, uint64_t self, uint64_t peer) {
    *side = (side_t){.capacity = SIZE_MAX / 2};
    assert_int_equal(link_new(&side_ops, side, self, peer, ROOM, now, &side->link), MOB_OK);
}

static inline void side_fini(side_t *side) {
    link_free(side->link);
    vec_free(&side->out);
}

/* A message of this size, of this byte. */
static inline mob_status_t side_send(side_t *side, size_t size, uint8_t byte, bool is_answer) {
    link_message_t *message;
    assert_int_equal(link_message_new(size, &message), MOB_OK);
    memset(link_message_bytes(message), byte, size);
    mob_status_t status = link_send(side->link, message, is_answer, NULL);
    if (status != MOB_OK) link_message_free(message);
    return status;
}

/* `size` bytes at the most of what one has written come to the other. */
static inline mob_status_t carry(side_t *from, side_t *to, size_t size) {
    if (size > from->out.count) size = from->out.count;
    uint8_t *bytes = malloc(size + 1);
    assert_non_null(bytes);
    memcpy(bytes, from->out.items, size);
    from->out.count -= size;
    memmove(from->out.items, from->out.items + size, from->out.count);
    mob_status_t status = link_received(to->link, to->connection, bytes, size, now);
    free(bytes);
    if (size > 0 && from->connection != 0) link_writable(from->link, from->connection);
    return status;
}

/* Everything, both ways, in pieces of this size. */
static inline void pump(side_t *a, side_t *b, size_t piece) {
    while (a->out.count > 0 || b->out.count > 0) {
        assert_int_equal(carry(a, b, piece), MOB_OK);
        assert_int_equal(carry(b, a, piece), MOB_OK);
    }
}

/* What the side has dialled comes up: its hello. */
static inline link_hello_t hello_of(side_t *side) {
    link_connected(side->link, side->connection, now);
    assert_int_equal(side->out.count, LINK_HELLO_SIZE);
    link_hello_t hello;
    assert_int_equal(link_hello_read(side->out.items, &hello), MOB_OK);
    side->out.count = 0;
    return hello;
}

/* A hello comes on a new connection. */
static inline mob_status_t hello_come(side_t *side, const link_hello_t *hello) {
    uint64_t connection = side->accepting = ++connections;
    mob_status_t status = link_accept(side->link, connection, hello, now);
    if (status != MOB_OK) assert_int_not_equal(side->connection, connection);
    return status;
}

static inline mob_status_t greet(side_t *from, side_t *to) {
    link_hello_t hello = hello_of(from);
    return hello_come(to, &hello);
}

/* Both sides, with a connection that the lower one has dialled. */
static inline void pair_init(side_t *low, side_t *high) {
    side_init(low, LOW, HIGH);
    side_init(high, HIGH, LOW);
    link_tick(low->link, now, 0);
    assert_int_equal(greet(low, high), MOB_OK);
    pump(low, high, SIZE_MAX);
    assert_true(link_is_open(low->link) && link_is_open(high->link));
}

static inline void pair_fini(side_t *low, side_t *high) {
    side_fini(low);
    side_fini(high);
}

/* Time passes, in ticks, and what is written comes. */
static inline void pass(side_t *low, side_t *high, uint64_t ms) {
    for (uint64_t i = 0; i < ms; i += 100) {
        now += LINK_TICK_NS;
        link_tick(low->link, now, 7);
        link_tick(high->link, now, 8);
        pump(low, high, SIZE_MAX);
    }
}

/* The connection ends for both; all that is on its way is lost. */
static inline void cut(side_t *low, side_t *high) {
    side_t *sides[] = {low, high};
    for (int i = 0; i < 2; i++) {
        uint64_t connection = sides[i]->connection;
        sides[i]->connection = 0;
        sides[i]->accepting = 0;
        sides[i]->out.count = 0;
        link_ended(sides[i]->link, connection, now);
    }
}

#endif
