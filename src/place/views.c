/*
 * A view is in the index of each of its resources, in the bucket of what is free of it. A question
 * looks for nodes from the fullest bucket down to that of what it needs, in the index of its rarest
 * resource: in a cluster with room the first one fits, and in one without room those buckets are
 * empty. Only a demand for much of two resources may look at many nodes.
 *
 * Indexes are kept once somebody has asked for them, up to a limit, until this node leads no more.
 */
#include "place/views.h"

#include <stdlib.h>

uint64_t place_views_hash(const void *bytes, size_t size) {
    const uint8_t *at = bytes;
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ size;
    for (size_t i = 0; i < size; i++) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    return hash ^ hash >> 29;
}

void place_views_init(views_t *views, place_t *place) {
    *views = (views_t){.place = place};
    base_map_init(&views->by_id, sizeof(uint64_t));
    base_map_init(&views->indexes, sizeof(uint64_t));
    ring_init(&views->all);
    ring_init(&views->selectors);
}

/* ---- indexes ---- */

static uint8_t bucket_of(uint64_t amount) {
    return amount == 0 ? 0
                       : (uint8_t)(64 - __builtin_clzll(amount | 1) < VIEWS_BUCKETS
                                       ? 64 - __builtin_clzll(amount | 1)
                                       : VIEWS_BUCKETS - 1);
}

static index_t *index_get(views_t *views, const char *key, size_t size, bool *ret_is_new) {
    uint64_t hash = place_views_hash(key, size);
    index_t *first = base_map_get(&views->indexes, &hash), *index = first;
    while (index != NULL && (index->key_size != size || memcmp(index->key, key, size) != 0))
        index = index->chain;
    *ret_is_new = index == NULL;
    if (index != NULL || views->index_count >= VIEWS_INDEXES_MAX) return index;
    index = calloc(1, sizeof *index + size);
    if (index == NULL) return NULL;
    index->chain = first;
    index->key_size = size;
    memcpy(index->key, key, size);
    for (int tier = 0; tier < VIEWS_TIERS; tier++)
        for (int bucket = 0; bucket < VIEWS_BUCKETS; bucket++)
            ring_init(&index->buckets[tier][bucket]);
    ring_init(&index->waiting);
    if (base_map_put(&views->indexes, &hash, index)) {
        views->index_count++;
        return index;
    }
    free(index);
    return NULL;
}

static void member_out(member_t *member) {
    index_t *index = member->index;
    if (!ring_is_in(&member->link)) return;
    ring_remove(&member->link);
    if (ring_is_empty(&index->buckets[member->tier][member->bucket]))
        index->filled[member->tier] &= ~(UINT64_C(1) << member->bucket);
}

static void member_in(member_t *member, uint64_t amount) {
    index_t *index = member->index;
    uint8_t bucket = index->is_flat ? 0 : bucket_of(amount);
    if (ring_is_in(&member->link) && member->bucket == bucket) return;
    member_out(member);
    member->bucket = bucket;
    ring_push(&index->buckets[member->tier][bucket], &member->link);
    index->filled[member->tier] |= UINT64_C(1) << bucket;
}

/* The view is in an index that is no resource's. */
static bool member_add(view_t *view, index_t *index) {
    member_t *member = calloc(1, sizeof *member);
    if (member == NULL) return false;
    *member = (member_t){.view = view, .index = index, .next = view->flat, .tier = view->has_gpu};
    view->flat = member;
    index->count++;
    member_in(member, 0);
    return true;
}

/* Keys: 'r' and the name of a resource, 's' and a selector, 'n' and the number of a node. */
static index_t *index_named(views_t *views, char kind, const char *text, bool *ret_is_new) {
    char key[2 + PLACE_SELECTOR_MAX];
    size_t size = strlen(text);
    if (size > PLACE_SELECTOR_MAX) return NULL;
    key[0] = kind;
    memcpy(key + 1, text, size + 1);
    return index_get(views, key, size + 2, ret_is_new);
}

static index_t *index_of_node(views_t *views, uint64_t id, bool *ret_is_new) {
    char key[1 + sizeof id] = {'n'};
    memcpy(key + 1, &id, sizeof id);
    return index_get(views, key, sizeof key, ret_is_new);
}

index_t *place_views_index(views_t *views, const char *resource) {
    bool is_new;
    if (resource != NULL && resource[0] != 0) return index_named(views, 'r', resource, &is_new);
    return place_views_index_labels(views, "");
}

static bool matches(const views_t *views, const view_t *view, const char *selector) {
    return selector[0] == 0 ||
           views->place->ops->matches(views->place->context, view->labels, selector);
}

/* Its memory was not enough: as if it had not been asked for. It is the newest of its chain, and
 * the newest of each of its members. */
static index_t *index_undo(views_t *views, index_t *index) {
    for (ring_t *at = views->all.next; at != &views->all; at = at->next) {
        view_t *view = RING_OF(at, view_t, link);
        member_t *member = view->flat;
        if (member == NULL || member->index != index) continue;
        view->flat = member->next;
        member_out(member);
        free(member);
    }
    uint64_t hash = place_views_hash(index->key, index->key_size);
    if (index->chain != NULL)
        base_map_put(&views->indexes, &hash, index->chain);
    else
        base_map_remove(&views->indexes, &hash);
    ring_remove(&index->selectors);
    views->index_count--;
    free(index);
    return NULL;
}

index_t *place_views_index_labels(views_t *views, const char *selector) {
    bool is_new;
    index_t *index = index_named(views, 's', selector, &is_new);
    if (index == NULL || !is_new) return index;
    index->is_flat = true;
    ring_push(&views->selectors, &index->selectors);
    for (ring_t *at = views->all.next; at != &views->all; at = at->next) {
        view_t *view = RING_OF(at, view_t, link);
        if (matches(views, view, selector) && !member_add(view, index))
            return index_undo(views, index);
    }
    return index;
}

index_t *place_views_index_node(views_t *views, uint64_t id) {
    bool is_new;
    index_t *index = index_of_node(views, id, &is_new);
    view_t *view = place_views_find(views, id);
    if (index == NULL || !is_new) return index;
    index->is_flat = true;
    return view == NULL || member_add(view, index) ? index : index_undo(views, index);
}

/* ---- views ---- */

typedef struct {
    const char *labels;
    uint8_t count;
    const char *names[PLACE_NAMES_MAX];
    uint64_t totals[PLACE_NAMES_MAX], free[PLACE_NAMES_MAX];
} words_t;

static mob_status_t words_read(base_reader_t *r, words_t *words) {
    words->labels = place_message_text_read(r, PLACE_SELECTOR_MAX);
    words->count = (uint8_t)base_take_number(r, 1);
    if (words->count > PLACE_NAMES_MAX) return MOB_EPROTO;
    for (int i = 0; i < words->count && !r->short_of; i++) {
        words->names[i] = place_message_text_read(r, UINT8_MAX);
        words->totals[i] = base_take_number(r, 8);
        words->free[i] = base_take_number(r, 8);
        if (words->free[i] > words->totals[i]) words->free[i] = words->totals[i];
    }
    return base_reader_is_done(r) ? MOB_OK : MOB_EPROTO;
}

/* Whether the view is of the same resources, in the same order. */
static bool is_alike(const view_t *view, const words_t *words) {
    if (view->count != words->count || strcmp(view->labels, words->labels) != 0) return false;
    for (uint32_t i = 0; i < view->count; i++)
        if (strcmp(view->items[i].member.index->key + 1, words->names[i]) != 0) return false;
    return true;
}

static void view_free(view_t *view) {
    for (uint32_t i = 0; i < view->count; i++) {
        member_out(&view->items[i].member);
        view->items[i].member.index->count--;
    }
    for (member_t *member = view->flat, *next; member != NULL; member = next) {
        next = member->next;
        member_out(member);
        member->index->count--;
        free(member);
    }
    ring_remove(&view->link);
    ring_remove(&view->improved);
    ring_remove(&view->probe);
    free(view->labels);
    free(view);
}

/* It is in the indexes by labels and by name that were asked for. */
static bool view_join(views_t *views, view_t *view) {
    uint64_t id = view->id, hash;
    char key[1 + sizeof id] = {'n'};
    memcpy(key + 1, &id, sizeof id);
    hash = place_views_hash(key, sizeof key);
    index_t *index = base_map_get(&views->indexes, &hash);
    while (index != NULL &&
           (index->key_size != sizeof key || memcmp(index->key, key, sizeof key) != 0))
        index = index->chain;
    bool is_in = index == NULL || member_add(view, index);
    for (ring_t *at = views->selectors.next; is_in && at != &views->selectors; at = at->next) {
        index = RING_OF(at, index_t, selectors);
        if (matches(views, view, index->key + 1)) is_in = member_add(view, index);
    }
    return is_in;
}

static view_t *view_new(views_t *views, uint64_t id, const words_t *words) {
    view_t *view = calloc(1, sizeof *view + words->count * sizeof *view->items);
    if (view == NULL) return NULL;
    view->id = id;
    view->labels = strdup(words->labels);
    for (int i = 0; i < words->count; i++)
        view->has_gpu |= strcmp(words->names[i], "GPU") == 0 && words->totals[i] > 0;
    bool is_whole = view->labels != NULL;
    for (int i = 0; i < words->count && is_whole; i++) {
        index_t *index = place_views_index(views, words->names[i]);
        is_whole = index != NULL;
        if (!is_whole) break;
        bool is_cpu = strcmp(words->names[i], "CPU") == 0;
        view->items[i].member =
            (member_t){.view = view, .index = index, .tier = is_cpu && view->has_gpu};
        index->count++;
        view->count++;
    }
    if (is_whole && view_join(views, view) && base_map_put(&views->by_id, &id, view)) return view;
    view_free(view);
    return NULL;
}

view_t *place_views_find(const views_t *views, uint64_t id) {
    return base_map_get(&views->by_id, &id);
}

mob_status_t place_views_read(views_t *views, uint64_t id, base_reader_t *r, view_t **ret_view) {
    words_t words;
    uint64_t version = base_take_number(r, 8);
    mob_status_t status = words_read(r, &words);
    if (status != MOB_OK) return status;
    for (int i = 0; i < words.count; i++)
        if (words.names[i][0] == 0) return MOB_EPROTO;
    view_t *view = place_views_find(views, id);
    if (view == NULL || !is_alike(view, &words)) {
        view_t *old = view;
        view = view_new(views, id, &words);
        if (view == NULL) return MOB_ENOMEM;
        if (old != NULL) view_free(old);
        ring_push(&views->all, &view->link);
    }
    view->version = version;
    for (uint32_t i = 0; i < view->count; i++) {
        view->items[i].total = words.totals[i];
        view->items[i].free = words.free[i];
        member_in(&view->items[i].member, words.free[i]);
    }
    *ret_view = view;
    return MOB_OK;
}

void place_views_remove(views_t *views, uint64_t id) {
    view_t *view = base_map_remove(&views->by_id, &id);
    if (view != NULL) view_free(view);
}

void place_views_fini(views_t *views) {
    ring_t *first;
    while ((first = ring_first(&views->all)) != NULL) view_free(RING_OF(first, view_t, link));
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(&views->indexes, &cursor, &key, &value))
        for (index_t *index = value, *next; index != NULL; index = next) {
            next = index->chain;
            free(index);
        }
    base_map_fini(&views->indexes);
    base_map_fini(&views->by_id);
}

/* ---- choosing ---- */

static const view_item_t *item_of(const view_t *view, const index_t *index) {
    for (uint32_t i = 0; i < view->count; i++)
        if (view->items[i].member.index == index) return &view->items[i];
    return NULL;
}

uint32_t place_view_fits(const view_t *view, const views_need_t *needs, size_t count,
                         uint32_t most) {
    for (size_t i = 0; i < count && most > 0; i++) {
        const view_item_t *item = item_of(view, needs[i].index);
        uint64_t times = item != NULL ? item->free / needs[i].amount : 0;
        if (times < most) most = (uint32_t)times;
    }
    return most;
}

bool place_view_fits_ever(const view_t *view, const views_need_t *needs, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const view_item_t *item = item_of(view, needs[i].index);
        if (item == NULL || item->total < needs[i].amount) return false;
    }
    return true;
}

void place_view_take(view_t *view, const views_need_t *needs, size_t count, uint32_t times) {
    for (size_t i = 0; i < count; i++) {
        view_item_t *item = (view_item_t *)item_of(view, needs[i].index);
        uint64_t taken = needs[i].amount * times;
        item->free -= taken < item->free ? taken : item->free;
        member_in(&item->member, item->free);
    }
}

void place_view_rotate(view_t *view, index_t *index) {
    view_item_t *item = (view_item_t *)item_of(view, index);
    member_t *member = item != NULL ? &item->member : view->flat;
    while (member != NULL && member->index != index) member = member->next;
    if (member != NULL) ring_push(&index->buckets[member->tier][member->bucket], &member->link);
}

view_t *place_views_pick(const index_t *index, uint64_t least,
                         bool (*accepts)(void *context, const view_t *view), void *context) {
    uint8_t lowest = index->is_flat ? 0 : bucket_of(least);
    for (int tier = 0; tier < VIEWS_TIERS; tier++) {
        uint64_t filled = index->filled[tier] >> lowest << lowest;
        while (filled != 0) {
            int bucket = 63 - __builtin_clzll(filled);
            filled &= ~(UINT64_C(1) << bucket);
            const ring_t *head = &index->buckets[tier][bucket];
            for (ring_t *at = head->next; at != head; at = at->next)
                if (accepts(context, RING_OF(at, member_t, link)->view))
                    return RING_OF(at, member_t, link)->view;
        }
    }
    return NULL;
}
