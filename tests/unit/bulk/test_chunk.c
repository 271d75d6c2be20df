/* Heads and tags of chunks: what fits, and that nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "bulk/chunk.h"

static const uint8_t KEY[NET_KEY] = {1, 2, 3}, OTHER[NET_KEY] = {1, 2, 4};
static const bulk_chunk_t CHUNK = {.id = {.home = 7, .number = 8, .generation = 9},
                                   .ticket = 10,
                                   .chunk = 11,
                                   .version = 12,
                                   .about = {13, 14}};

typedef struct {
    chunk_key_t from, to;
    chunk_hash_t *hash;
    uint8_t head[CHUNK_HEAD], bytes[1000];
} pair_t;

static void pair_init(pair_t *p, const uint8_t *key) {
    base_random_t random = {5};
    assert_int_equal(chunk_key_init(&p->from, KEY), MOB_OK);
    assert_int_equal(chunk_key_init(&p->to, key), MOB_OK);
    p->hash = chunk_hash_new();
    for (size_t i = 0; i < sizeof p->bytes; i++) p->bytes[i] = (uint8_t)base_random_next(&random);
}

static void say(pair_t *p, size_t size) {
    chunk_hash_begin(p->hash, &p->from);
    chunk_hash_add(p->hash, p->bytes, size);
    assert_int_equal(chunk_head_write(&p->from, &CHUNK, size, p->hash, p->head), MOB_OK);
}

static mob_status_t hear(pair_t *p, size_t size) {
    chunk_hash_begin(p->hash, &p->to);
    chunk_hash_add(p->hash, p->bytes, size / 3);
    chunk_hash_add(p->hash, p->bytes + size / 3, size - size / 3);
    return chunk_check(&p->to, p->head, p->hash);
}

static void what_is_said_is_heard(void **state) {
    (void)state;
    pair_t p;
    bulk_chunk_t chunk;
    size_t size;
    pair_init(&p, KEY);
    for (size_t n = 0; n < 1000; n += 37) {
        say(&p, n);
        assert_true(chunk_head_read(p.head, &chunk, &size));
        assert_int_equal(size, n);
        assert_memory_equal(&chunk.id.home, &CHUNK.id.home, sizeof chunk.id.home);
        assert_int_equal(chunk.id.number, 8);
        assert_int_equal(chunk.id.generation, 9);
        assert_int_equal(chunk.ticket, 10);
        assert_int_equal(chunk.chunk, 11);
        assert_int_equal(chunk.version, 12);
        assert_int_equal(chunk.about[0], 13);
        assert_int_equal(chunk.about[1], 14);
        assert_int_equal(hear(&p, n), MOB_OK);
    }
    chunk_hash_free(p.hash);
}

static void any_bit_that_differs_is_found(void **state) {
    (void)state;
    pair_t p;
    pair_init(&p, KEY);
    for (size_t i = 0; i < CHUNK_HEAD; i++) {
        say(&p, 100);
        p.head[i] ^= (uint8_t)(1 << i % 8);
        assert_int_equal(hear(&p, 100), MOB_EPERM);
    }
    for (size_t i = 0; i < 100; i++) {
        say(&p, 100);
        p.bytes[i] ^= 0x10;
        assert_int_equal(hear(&p, 100), MOB_EPERM);
    }
    chunk_hash_free(p.hash);
}

static void repeated_or_left_out_is_found(void **state) {
    (void)state;
    pair_t p;
    pair_init(&p, KEY);
    say(&p, 100);
    assert_int_equal(hear(&p, 100), MOB_OK);
    assert_int_equal(hear(&p, 100), MOB_EPERM); /* again */
    say(&p, 100);
    say(&p, 100);
    say(&p, 100);
    assert_int_equal(hear(&p, 100), MOB_EPERM); /* the second was left out */
    chunk_hash_free(p.hash);
}

static void another_key_is_found(void **state) {
    (void)state;
    pair_t p;
    pair_init(&p, OTHER);
    say(&p, 100);
    assert_int_equal(hear(&p, 100), MOB_EPERM);
    chunk_hash_free(p.hash);
}

static void too_large_is_no_chunk(void **state) {
    (void)state;
    bulk_chunk_t chunk;
    size_t size;
    uint8_t head[CHUNK_HEAD] = {0, 0, 0x10};
    assert_true(chunk_head_read(head, &chunk, &size));
    assert_int_equal(size, BULK_CHUNK);
    head[0] = 1;
    assert_false(chunk_head_read(head, &chunk, &size));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_said_is_heard),
        cmocka_unit_test(any_bit_that_differs_is_found),
        cmocka_unit_test(repeated_or_left_out_is_found),
        cmocka_unit_test(another_key_is_found),
        cmocka_unit_test(too_large_is_no_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
