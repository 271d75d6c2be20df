/* Frames: written and read back the same; and whatever else is read, nothing of it is believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "../random.h"
#include "frame/frame.h"

enum { MOST_IDS = 40, MOST_NAMES = 5, MOST_ARGS = 300 };

/* A random frame, and the memory that it names. */
typedef struct {
    frame_t frame;
    frame_id_t ids[MOST_IDS];
    frame_amount_t demand[MOST_NAMES], held[MOST_NAMES];
    char names[2 * MOST_NAMES][32], name[255];
    uint8_t args[MOST_ARGS];
} sample_t;

static frame_id_t id_random(void) {
    return (frame_id_t){
        .home = next_random(), .number = (uint32_t)next_random(), .generation = next_random()};
}

static size_t amounts_fill(frame_amount_t *items, char (*names)[32]) {
    size_t count = next_random() % (MOST_NAMES + 1);
    for (size_t i = 0; i < count; i++) {
        size_t size = next_random() % 32;
        memset(names[i], 'a' + (int)(next_random() % 26), size);
        names[i][size] = 0;
        items[i] = (frame_amount_t){.name = names[i], .amount = next_random()};
    }
    return count;
}

static void sample_fill(sample_t *s) {
    memset(s, 0, sizeof *s);
    frame_t *f = &s->frame;
    f->kind = (uint8_t)(next_random() % (MOB_ACTOR_CALL + 1));
    f->retries_exceptions = next_random() % 2;
    f->flows = next_random() % 2;
    f->flow_limit = (uint32_t)next_random();
    f->dynamic = next_random() % 2;
    f->out_of_order = next_random() % 2;
    f->untold = next_random() % 2;
    f->group = (uint8_t)next_random();
    f->max_retries = (int32_t)(next_random() % 5) - 1;
    f->limit = (uint32_t)next_random();
    f->job = (frame_job_t){.home = next_random(), .number = (uint32_t)next_random()};
    f->function = id_random();
    f->actor = id_random();
    f->parent = id_random();
    f->num_returns = next_random() % 10;
    f->num_deps = next_random() % 10;
    f->num_refs = next_random() % 10;
    f->ids = s->ids;
    for (size_t i = 0; i < frame_id_count(f); i++) s->ids[i] = id_random();
    f->demand = (frame_demand_t){s->demand, amounts_fill(s->demand, s->names)};
    f->held = (frame_demand_t){s->held, amounts_fill(s->held, s->names + MOST_NAMES)};
    f->where = (frame_where_t){.group = id_random(),
                               .bundle = (int32_t)(next_random() % 5) - 1,
                               .flags = (uint32_t)next_random(),
                               .priority = (int32_t)(next_random() % 201) - 100,
                               .selector = next_random() % 2 ? "region=eu&+gpu" : ""};
    for (size_t i = 0; i < FRAME_ENVIRONMENT; i++) f->where.environment[i] = (uint8_t)next_random();
    f->name = s->name;
    f->name_size = next_random() % sizeof s->name;
    memset(s->name, 'n', sizeof s->name);
    f->args = s->args;
    f->args_size = next_random() % MOST_ARGS;
    for (size_t i = 0; i < f->args_size; i++) s->args[i] = (uint8_t)next_random();
}

static void ids_are_equal(frame_id_t a, frame_id_t b) {
    assert_int_equal(a.home, b.home);
    assert_int_equal(a.number, b.number);
    assert_int_equal(a.generation, b.generation);
}

static void demands_are_equal(const frame_demand_t *a, const frame_demand_t *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->items[i].amount, b->items[i].amount);
        assert_string_equal(a->items[i].name, b->items[i].name);
    }
}

static void frames_are_equal(const frame_t *a, const frame_t *b) {
    assert_int_equal(a->kind, b->kind);
    assert_int_equal(a->retries_exceptions, b->retries_exceptions);
    assert_int_equal(a->flows, b->flows);
    assert_int_equal(a->flow_limit, b->flow_limit);
    assert_int_equal(a->dynamic, b->dynamic);
    assert_int_equal(a->out_of_order, b->out_of_order);
    assert_int_equal(a->untold, b->untold);
    assert_int_equal(a->group, b->group);
    assert_int_equal(a->max_retries, b->max_retries);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->job.home, b->job.home);
    assert_int_equal(a->job.number, b->job.number);
    ids_are_equal(a->function, b->function);
    ids_are_equal(a->actor, b->actor);
    ids_are_equal(a->parent, b->parent);
    assert_int_equal(a->num_returns, b->num_returns);
    assert_int_equal(a->num_deps, b->num_deps);
    assert_int_equal(a->num_refs, b->num_refs);
    for (size_t i = 0; i < frame_id_count(a); i++) ids_are_equal(a->ids[i], b->ids[i]);
    demands_are_equal(&a->demand, &b->demand);
    demands_are_equal(&a->held, &b->held);
    ids_are_equal(a->where.group, b->where.group);
    assert_int_equal(a->where.bundle, b->where.bundle);
    assert_int_equal(a->where.flags, b->where.flags);
    assert_string_equal(a->where.selector, b->where.selector);
    assert_int_equal(a->where.priority, b->where.priority);
    assert_memory_equal(a->where.environment, b->where.environment, FRAME_ENVIRONMENT);
    assert_int_equal(a->name_size, b->name_size);
    if (a->name_size > 0) assert_memory_equal(a->name, b->name, a->name_size);
    assert_int_equal(a->args_size, b->args_size);
    if (a->args_size > 0) assert_memory_equal(a->args, b->args, a->args_size);
}

static void test_what_is_written_is_read(void **state) {
    (void)state;
    for (int i = 0; i < 2000; i++) {
        sample_t s;
        sample_fill(&s);
        uint8_t *bytes;
        size_t size;
        frame_t back;
        assert_int_equal(frame_write(&s.frame, &bytes, &size), MOB_OK);
        assert_int_equal(frame_read(bytes, size, &back), MOB_OK);
        frames_are_equal(&s.frame, &back);
        frame_fini(&back);
        free(bytes);
    }
}

static void test_every_shorter_one_is_refused(void **state) {
    (void)state;
    sample_t s;
    sample_fill(&s);
    uint8_t *bytes;
    size_t size;
    frame_t back;
    assert_int_equal(frame_write(&s.frame, &bytes, &size), MOB_OK);
    for (size_t cut = 0; cut < size; cut++) {
        /* memory of exactly that size: valgrind and the sanitizer see a byte too many */
        uint8_t *part = malloc(cut + 1);
        memcpy(part, bytes, cut);
        assert_int_equal(frame_read(part, cut, &back), MOB_EPROTO);
        free(part);
    }
    free(bytes);
}

/* Any byte changed: refused, or read as another frame within its bounds. */
static void test_damage(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        sample_t s;
        if (i % 100 == 0) seed += (uint64_t)i;
        sample_fill(&s);
        uint8_t *bytes;
        size_t size, written;
        frame_t back;
        assert_int_equal(frame_write(&s.frame, &bytes, &size), MOB_OK);
        for (uint64_t k = next_random() % 4 + 1; k > 0; k--)
            bytes[16 + next_random() % (size - 16)] = (uint8_t)next_random();
        mob_status_t status = frame_read(bytes, size, &back);
        if (status == MOB_OK) {
            uint8_t *again;
            assert_int_equal(frame_write(&back, &again, &written), MOB_OK);
            assert_int_equal(written, size);
            assert_memory_equal(again, bytes, size);
            free(again);
            frame_fini(&back);
        } else {
            assert_int_equal(status, MOB_EPROTO);
        }
        free(bytes);
    }
}

static void test_another_version(void **state) {
    (void)state;
    sample_t s;
    sample_fill(&s);
    uint8_t *bytes;
    size_t size;
    frame_t back;
    assert_int_equal(frame_write(&s.frame, &bytes, &size), MOB_OK);
    bytes[4]++;
    assert_int_equal(frame_read(bytes, size, &back), MOB_EPROTO);
    free(bytes);
}

static void test_what_it_cannot_say(void **state) {
    (void)state;
    sample_t s;
    uint8_t *bytes;
    size_t size;
    sample_fill(&s);
    s.frame.name_size = 256;
    assert_int_equal(frame_write(&s.frame, &bytes, &size), MOB_EINVAL);
    sample_fill(&s);
    s.frame.demand.count = MOB_MAX_RESOURCES + 1;
    assert_int_equal(frame_write(&s.frame, &bytes, &size), MOB_EINVAL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_is_read),
        cmocka_unit_test(test_every_shorter_one_is_refused),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_another_version),
        cmocka_unit_test(test_what_it_cannot_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
