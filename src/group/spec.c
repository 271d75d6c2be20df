/*
 *   strategy 1, detached 1, job 8 + 4, name_space, name (texts, each with its zero),
 *   bundles 4, runs 2, then each run: bundles 4, selector (a text), needs 2,
 *   then each need: amount 8, name (a text)
 *
 * One walk reads it: it counts if it has nothing to write to, so that the memory is bounded by
 * what came, and is had at once.
 */
#include "group/spec.h"

#include <stdlib.h>

static const uint64_t AMOUNT_MAX = UINT64_C(1) << 60;

uint64_t group_hash(uint64_t seed, const void *bytes, size_t size) {
    uint64_t hash = seed ^ UINT64_C(0xcbf29ce484222325);
    const uint8_t *at = bytes;
    for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

const char *group_take_text(base_reader_t *r) {
    const uint8_t *zero = r->left > 0 ? memchr(r->at, 0, r->left) : NULL;
    if (zero == NULL) {
        r->short_of = true;
        r->left = 0;
        return NULL;
    }
    return base_take_bytes(r, (size_t)(zero - r->at) + 1);
}

/* ---- reading ---- */

/* Where a walk writes to; without memory it counts. */
typedef struct {
    group_spec_t head;
    size_t run_count, amount_count;
    group_run_t *runs;
    frame_amount_t *amounts;
} walk_t;

static bool walk_need(walk_t *w, base_reader_t *r) {
    frame_amount_t amount = {.amount = base_take_number(r, 8)};
    amount.name = group_take_text(r);
    if (amount.name == NULL || *amount.name == 0 || amount.amount > AMOUNT_MAX) return false;
    if (w->amounts != NULL) w->amounts[w->amount_count] = amount;
    w->amount_count++;
    return true;
}

static bool walk_run(walk_t *w, base_reader_t *r, uint32_t *first) {
    group_run_t run = {.first = *first, .count = (uint32_t)base_take_number(r, 4)};
    run.selector = group_take_text(r);
    run.demand.count = base_take_number(r, 2);
    if (w->amounts != NULL) run.demand.items = w->amounts + w->amount_count;
    if (r->short_of || run.count == 0 || run.count > w->head.count - *first ||
        run.demand.count > GROUP_NEEDS_MAX)
        return false;
    for (size_t i = 0; i < run.demand.count; i++)
        if (!walk_need(w, r)) return false;
    if (w->runs != NULL) w->runs[w->run_count] = run;
    w->run_count++;
    *first += run.count;
    return true;
}

static bool walk_all(walk_t *w, const void *bytes, size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    if (size > GROUP_SPEC_MAX) return false;
    w->head.strategy = (mob_strategy_t)base_take_number(&r, 1);
    uint64_t detached = base_take_number(&r, 1);
    w->head.detached = detached == 1;
    w->head.job.home = base_take_number(&r, 8);
    w->head.job.number = (uint32_t)base_take_number(&r, 4);
    w->head.name_space = group_take_text(&r);
    w->head.name = group_take_text(&r);
    const uint8_t *asked = r.at;
    size_t asked_size = r.left;
    w->head.count = (uint32_t)base_take_number(&r, 4);
    size_t runs = base_take_number(&r, 2);
    if (r.short_of || detached > 1 || w->head.strategy > MOB_STRICT_SPREAD || w->head.count == 0 ||
        w->head.count > GROUP_BUNDLES_MAX)
        return false;
    uint32_t first = 0;
    for (size_t i = 0; i < runs; i++)
        if (!walk_run(w, &r, &first)) return false;
    w->head.class_hash = group_hash((uint64_t)w->head.strategy + 1, asked, asked_size);
    return first == w->head.count && base_reader_is_done(&r);
}

bool group_spec_check(const void *bytes, size_t size, uint32_t *ret_count) {
    walk_t walk = {0};
    if (!walk_all(&walk, bytes, size)) return false;
    *ret_count = walk.head.count;
    return true;
}

mob_status_t group_spec_read(const void *bytes, size_t size, group_spec_t **ret_spec) {
    walk_t count = {0};
    if (!walk_all(&count, bytes, size)) return MOB_EPROTO;
    group_spec_t *spec = calloc(1, sizeof *spec + size);
    walk_t walk = {.runs = calloc(count.run_count, sizeof *walk.runs),
                   .amounts = calloc(count.amount_count + 1, sizeof *walk.amounts)};
    if (spec == NULL || walk.runs == NULL || walk.amounts == NULL) {
        free(spec);
        free(walk.runs);
        free(walk.amounts);
        return MOB_ENOMEM;
    }
    uint8_t *copy = (uint8_t *)(spec + 1);
    memcpy(copy, bytes, size);
    (void)walk_all(&walk, copy, size);
    walk.head.runs = walk.runs;
    walk.head.run_count = walk.run_count;
    walk.head.amounts = walk.amounts;
    walk.head.size = size;
    walk.head.bytes = copy;
    *spec = walk.head;
    *ret_spec = spec;
    return MOB_OK;
}

void group_spec_free(group_spec_t *spec) {
    if (spec == NULL) return;
    free(spec->runs);
    free(spec->amounts);
    free(spec);
}

const group_run_t *group_spec_run(const group_spec_t *spec, uint32_t bundle) {
    size_t low = 0, high = spec->run_count;
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        if (spec->runs[middle].first <= bundle)
            low = middle;
        else
            high = middle;
    }
    return &spec->runs[low];
}

/* ---- writing ---- */

static bool is_same(const group_bundle_t *a, const group_bundle_t *b) {
    if (a->demand.count != b->demand.count || strcmp(a->selector, b->selector) != 0) return false;
    for (size_t i = 0; i < a->demand.count; i++)
        if (a->demand.items[i].amount != b->demand.items[i].amount ||
            strcmp(a->demand.items[i].name, b->demand.items[i].name) != 0)
            return false;
    return true;
}

static void put_text(base_writer_t *w, const char *text) {
    base_put_bytes(w, text, strlen(text) + 1);
}

static void put_run(base_writer_t *w, const group_bundle_t *bundle, size_t count) {
    base_put_number(w, count, 4);
    put_text(w, bundle->selector);
    base_put_number(w, bundle->demand.count, 2);
    for (size_t i = 0; i < bundle->demand.count; i++) {
        base_put_number(w, bundle->demand.items[i].amount, 8);
        put_text(w, bundle->demand.items[i].name);
    }
}

/* The runs, and how many there are; stops when they are too many bytes. */
static size_t put_runs(base_writer_t *w, const group_want_t *want) {
    size_t runs = 0;
    for (size_t i = 0, next; i < want->count && w->size <= GROUP_SPEC_MAX; i = next, runs++) {
        for (next = i + 1; next < want->count;)
            if (is_same(&want->bundles[i], &want->bundles[next]))
                next++;
            else
                break;
        put_run(w, &want->bundles[i], next - i);
    }
    return runs;
}

static void put_spec(base_writer_t *w, const group_want_t *want, size_t runs) {
    base_put_number(w, (uint64_t)want->strategy, 1);
    base_put_number(w, want->detached, 1);
    base_put_number(w, want->job.home, 8);
    base_put_number(w, want->job.number, 4);
    put_text(w, want->name_space);
    put_text(w, want->name);
    base_put_number(w, want->count, 4);
    base_put_number(w, runs, 2);
    (void)put_runs(w, want);
}

static bool makes_sense(const group_want_t *want) {
    if (want->strategy > MOB_STRICT_SPREAD || want->count == 0 || want->name == NULL ||
        want->name_space == NULL || strlen(want->name) > MOB_NAME_MAX ||
        strlen(want->name_space) > MOB_NAME_MAX)
        return false;
    for (size_t b = 0; b < want->count; b++)
        if (want->bundles[b].selector == NULL || want->bundles[b].demand.count > GROUP_NEEDS_MAX)
            return false;
    return true;
}

mob_status_t group_spec_write(const group_want_t *want, group_spec_t **ret_spec) {
    if (!makes_sense(want)) return MOB_EINVAL;
    if (want->count > GROUP_BUNDLES_MAX) return MOB_ELIMIT;
    base_writer_t count = {0}, only = {0};
    size_t runs = put_runs(&only, want);
    put_spec(&count, want, runs);
    if (count.size > GROUP_SPEC_MAX) return MOB_ELIMIT;
    uint8_t bytes[GROUP_SPEC_MAX];
    base_writer_t w = {.bytes = bytes};
    put_spec(&w, want, runs);
    mob_status_t status = group_spec_read(bytes, w.size, ret_spec);
    return status == MOB_EPROTO ? MOB_EINVAL : status;
}
