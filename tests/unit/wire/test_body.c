/* Splitting a record's body: whatever numbers a record has, the parts lie inside the body or it is
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../random.h"
#include "wire/record.h"

static void test_parts_follow_each_other(void **state) {
    (void)state;
    wire_record_t record = {
        .kind = MOB_ACTOR_CALL, .num_returns = 2, .num_deps = 1, .num_refs = 3, .name_size = 4};
    mob_ref_t start[16] = {0};
    uint64_t size = wire_body_size(2, 1, 3, 4, 11);
    assert_int_equal(size, 6 * sizeof(mob_ref_t) + 15);
    wire_body_t body;
    assert_int_equal(wire_body_split(&record, start, size, &body), MOB_OK);
    assert_ptr_equal(body.returns, start);
    assert_ptr_equal(body.deps, start + 2);
    assert_ptr_equal(body.refs, start + 3);
    assert_ptr_equal(body.name, start + 6);
    assert_ptr_equal(body.args, body.name + 4);
    assert_int_equal(body.args_size, 11);
}

static void test_empty_body(void **state) {
    (void)state;
    wire_record_t record = {0};
    wire_body_t body;
    assert_int_equal(wire_body_split(&record, record.body, 0, &body), MOB_OK);
    assert_int_equal(body.args_size, 0);
    record.name_size = 1;
    assert_int_equal(wire_body_split(&record, record.body, 0, &body), MOB_EPROTO);
}

static void test_each_number_has_its_limit(void **state) {
    (void)state;
    const wire_record_t refused[] = {
        {.num_returns = MOB_MAX_RETURNS + 1},
        {.num_deps = MOB_MAX_DEPS + 1},
        {.num_refs = MOB_MAX_DEPS + 1},
        {.num_returns = UINT32_MAX},
        {.num_deps = UINT32_MAX},
        {.num_refs = UINT32_MAX},
        {.kind = MOB_ACTOR_CALL + 1},
        {.kind = 255},
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        wire_body_t body = {.args_size = 77};
        assert_int_equal(wire_body_split(&refused[i], &refused[i], UINT64_MAX, &body), MOB_EPROTO);
        assert_int_equal(body.args_size, 77); /* written only on success */
    }
}

static void test_one_byte_too_few(void **state) {
    (void)state;
    wire_record_t record = {.num_returns = 1, .num_deps = 2, .num_refs = 3, .name_size = 9};
    mob_ref_t start[8] = {0};
    uint64_t size = wire_body_size(1, 2, 3, 9, 0);
    wire_body_t body;
    assert_int_equal(wire_body_split(&record, start, size, &body), MOB_OK);
    assert_int_equal(wire_body_split(&record, start, size - 1, &body), MOB_EPROTO);
}

/* Mostly small, sometimes anything at all. */
static uint32_t some_count(void) {
    uint32_t r = (uint32_t)next_random();
    switch (r & 7) {
    case 0:
        return (uint32_t)next_random();
    case 1:
        return r >> 12;
    default:
        return r >> 3 & 15;
    }
}

static void test_random_headers_stay_inside(void **state) {
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *map =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(map + page, page, PROT_NONE), 0); /* a read past the end is a crash */
    unsigned accepted = 0, sum = 0;
    for (int round = 0; round < 1000000; round++) {
        wire_record_t record;
        if (round % 16 == 0) {
            for (size_t i = 0; i < sizeof record / 8; i++) ((uint64_t *)&record)[i] = next_random();
        } else {
            record = (wire_record_t){.kind = (uint8_t)(next_random() % 4),
                                     .name_size = (uint8_t)next_random()};
            record.num_returns = some_count();
            record.num_deps = some_count();
            record.num_refs = some_count();
        }
        /* the body's end is the page's end, its start aligned */
        uint64_t size = next_random() % (page / 8 + 1) * 8;
        const unsigned char *start = map + page - size;
        wire_body_t body;
        if (wire_body_split(&record, start, size, &body) != MOB_OK) continue;
        accepted++;
        assert_ptr_equal(body.returns, start);
        assert_true(body.deps == body.returns + record.num_returns &&
                    body.refs == body.deps + record.num_deps);
        assert_ptr_equal(body.name, body.refs + record.num_refs);
        assert_ptr_equal(body.args, body.name + record.name_size);
        assert_ptr_equal(body.args + body.args_size, start + size);
        for (const mob_ref_t *r = body.returns; (const char *)r < body.name; r++) sum += r->slot;
        for (const uint8_t *b = (const uint8_t *)body.name; b < body.args + body.args_size; b++)
            sum += *b;
    }
    assert_int_equal(sum, 0);
    assert_true(accepted > 1000);
    munmap(map, 2 * page);
}

static void test_word_round_trip(void **state) {
    (void)state;
    const uint64_t generations[] = {0, 1, 0xffffffff, ((uint64_t)1 << 48) - 1};
    const uint32_t workers[] = {0, 1, 48, 4095};
    for (size_t g = 0; g < 4; g++) {
        for (size_t w = 0; w < 4; w++) {
            for (unsigned s = WIRE_FREE; s <= WIRE_DONE_STATE; s++) {
                uint64_t word = wire_word(generations[g], workers[w], s);
                assert_true(wire_word_generation(word) == generations[g]);
                assert_int_equal(wire_word_worker(word), workers[w]);
                assert_int_equal(wire_word_state(word), s);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts_follow_each_other),    cmocka_unit_test(test_empty_body),
        cmocka_unit_test(test_each_number_has_its_limit),  cmocka_unit_test(test_one_byte_too_few),
        cmocka_unit_test(test_random_headers_stay_inside), cmocka_unit_test(test_word_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
