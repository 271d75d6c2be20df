/*
 * Three daemons' books in one process, with queues in the place of the mesh. What the room member
 * knows of who lives is the test's to say. To be linked with the wraps in tests/unit/meson.build.
 */
#ifndef TESTS_NODE_NODES_H
#define TESTS_NODE_NODES_H

#include "fixture.h"

#include "node/cluster/post.h"
#include "node/cluster/pulling.h"

enum { NODES = 3 };

#ifndef NODES_STORE
#define NODES_STORE (64 * SHM_GRANULE)
#endif

/* A message on its way. */
typedef struct letter {
    struct letter *next;
    uint64_t sequence;
    node_post_t kind;
    size_t size;
    uint8_t bytes[];
} letter_t;

/* A daemon with one process. */
typedef struct {
    node_t *n;
    node_client_t *client;
    uint32_t next_slot;
    bool dead[NODES];     /* whose tombstones it knows */
    uint64_t closed;      /* what it said last */
    letter_t *out[NODES]; /* to each of the others, in order */
    uint64_t sent[NODES]; /* how many */
    /* A frame of the test's has come: its process holds what that names; NULL: nobody cares. */
    void (*came)(int place, frame_id_t id);
    bool is_full; /* its links take nothing that is no answer */
} daemon_t;

static bool memory_is_short; /* by the test's will */
static daemon_t daemons[NODES];
static daemon_t *const A = &daemons[0], *const B = &daemons[1], *const C = &daemons[2];

static inline uint64_t incarnation_of(int i) { return 1000 + (uint64_t)i; }
static inline int index_of(uint64_t peer) { return (int)(peer - 1000); }
static inline int place_of(const daemon_t *d) { return (int)(d - daemons); }
static inline daemon_t *daemon_of(const node_cluster_t *c) {
    return &daemons[index_of(c->node->incarnation)];
}

/* ---- in the place of the mesh and of the room member ---- */

static inline mob_status_t letter_push(node_cluster_t *c, uint64_t peer, node_post_t kind,
                                       const node_letter_parts_t *parts, bool is_answer,
                                       const frame_id_t *ids, size_t count,
                                       const frame_id_t *container) {
    daemon_t *from = daemon_of(c);
    int to = index_of(peer);
    if (to < 0 || to >= NODES || from->dead[to]) return MOB_ECLOSED;
    if (from->is_full && !is_answer) return MOB_ELIMIT;
    uint64_t sequence = from->sent[to] + 1;
    letter_t *l = malloc(sizeof *l + parts->head_size + parts->body_size);
    if (l == NULL) return MOB_ENOMEM;
    mob_status_t status =
        ids != NULL ? node_holding_frame_sends(c, peer, sequence, ids, count, container) : MOB_OK;
    if (status != MOB_OK) {
        free(l);
        return status;
    }
    *l =
        (letter_t){.sequence = sequence, .kind = kind, .size = parts->head_size + parts->body_size};
    if (parts->head_size > 0) memcpy(l->bytes, parts->head, parts->head_size);
    if (parts->body_size > 0) memcpy(l->bytes + parts->head_size, parts->body, parts->body_size);
    from->sent[to] = sequence;
    letter_t **last = &from->out[to];
    while (*last != NULL) last = &(*last)->next;
    *last = l;
    return MOB_OK;
}

mob_status_t __wrap_node_post_send(node_cluster_t *c, uint64_t peer, node_post_t kind,
                                   const node_letter_parts_t *parts, bool is_answer);
mob_status_t __wrap_node_post_send(node_cluster_t *c, uint64_t peer, node_post_t kind,
                                   const node_letter_parts_t *parts, bool is_answer) {
    return letter_push(c, peer, kind, parts, is_answer, NULL, 0, NULL);
}

mob_status_t __wrap_node_post_send_refs(node_cluster_t *c, uint64_t peer, node_post_t kind,
                                        const node_letter_parts_t *parts, const frame_id_t *ids,
                                        size_t count, const frame_id_t *container, bool is_answer);
mob_status_t __wrap_node_post_send_refs(node_cluster_t *c, uint64_t peer, node_post_t kind,
                                        const node_letter_parts_t *parts, const frame_id_t *ids,
                                        size_t count, const frame_id_t *container, bool is_answer) {
    return letter_push(c, peer, kind, parts, is_answer, ids, count, container);
}

uint16_t __wrap_mesh_port(const mesh_t *mesh);
uint16_t __wrap_mesh_port(const mesh_t *mesh) {
    (void)mesh;
    return 0;
}

/* The pointer to a member_t is that to the daemon. */
static inline bool is_dead(const void *member, uint64_t peer) {
    const daemon_t *d = member;
    int i = index_of(peer);
    return i < 0 || i >= NODES || d->dead[i];
}

bool __wrap_member_knows(const member_t *member, uint64_t peer);
bool __wrap_member_knows(const member_t *member, uint64_t peer) { return !is_dead(member, peer); }

uint64_t __wrap_member_tombstone(const member_t *member, uint64_t peer);
uint64_t __wrap_member_tombstone(const member_t *member, uint64_t peer) {
    return is_dead(member, peer);
}

uint64_t __wrap_member_master(const member_t *member);
uint64_t __wrap_member_master(const member_t *member) {
    (void)member;
    return 1;
}

void __wrap_member_closed(member_t *member, uint64_t number);
void __wrap_member_closed(member_t *member, uint64_t number) {
    ((daemon_t *)(void *)member)->closed = number;
}

/* ---- a daemon's turns ---- */

static inline void round_of(daemon_t *d) {
    node_t *n = d->n;
    n->round++;
    size_t settled = n->zero.count;
    node_inbox_read(n);
    node_objects_sweep(n, settled);
    node_schedule(n);
    node_holding_settle(n->cluster);
}

/* What a frame of the test's names is held by the process of its receiver. */
static inline mob_status_t frame_read_by(daemon_t *d, uint64_t peer, const letter_t *l) {
    frame_id_t ids[8];
    size_t count = l->size / sizeof *ids;
    memcpy(ids, l->bytes, l->size);
    mob_status_t status = node_holding_frame_came(d->n->cluster, peer, ids, count);
    if (status != MOB_OK) return status;
    for (size_t i = 0; i < count; i++) {
        mob_ref_t ref = node_frame_ref(d->n, ids[i]);
        node_object_t *o = ref.slot != 0 ? node_object_known(d->n, ref) : NULL;
        assert_true(o != NULL || memory_is_short); /* whoever is given an object finds it there */
        if (o == NULL) continue;
        node_object_hold(d->n, o, d->client->number, false);
        if (d->came != NULL) d->came(place_of(d), ids[i]);
    }
    return MOB_OK;
}

static inline mob_status_t letter_read(daemon_t *d, uint64_t peer, const letter_t *l) {
    switch (l->kind) {
    case POST_REFS:
        return node_holding_receive(d->n->cluster, peer, l->bytes, l->size);
    case POST_VALUE:
        return node_watch_receive(d->n->cluster, peer, l->bytes, l->size);
    case POST_PULL:
        return node_pulling_receive(d->n->cluster, peer, l->bytes, l->size);
    default:
        return frame_read_by(d, peer, l);
    }
}

/* The oldest message from one to the other. False: there is none, or it has to come again. */
static inline bool deliver(daemon_t *from, daemon_t *to) {
    letter_t *l = from->out[place_of(to)];
    if (l == NULL) return false;
    to->n->cluster->sequence = l->sequence;
    mob_status_t status = letter_read(to, from->n->incarnation, l);
    to->n->cluster->sequence = 0;
    assert_true(status == MOB_OK || status == MOB_ECLOSED ||
                (status == MOB_ENOMEM && memory_is_short));
    if (status == MOB_ENOMEM) return false;
    from->out[place_of(to)] = l->next;
    free(l);
    return true;
}

static inline bool lives(const daemon_t *d) {
    return !A->dead[place_of(d)];
} /* in no test A dies */

/* Until nobody has anything to say. */
static inline void settle(void) {
    for (int rounds = 0, quiet = 0; quiet < 6; rounds++) {
        bool some = false;
        assert_true(rounds < 10000);
        for (int i = 0; i < NODES; i++) {
            if (!lives(&daemons[i])) continue;
            round_of(&daemons[i]);
            for (int k = 0; k < NODES; k++)
                if (k != i && lives(&daemons[k])) some |= deliver(&daemons[i], &daemons[k]);
        }
        quiet = some ? 0 : quiet + 1;
    }
}

static inline int begin(void **state) {
    (void)state;
    memset(daemons, 0, sizeof daemons);
    for (int i = 0; i < NODES; i++) {
        daemon_t *d = &daemons[i];
        d->n = fixture_node_new(NODES_STORE);
        d->n->incarnation = incarnation_of(i);
        d->n->cluster = calloc(1, sizeof *d->n->cluster);
        d->n->cluster->node = d->n;
        d->n->cluster->member = (member_t *)(void *)d;
        node_roster_init(&d->n->cluster->roster);
        d->client = fixture_client_new(d->n, WIRE_DRIVER);
        JOB(d->n)->driver = d->client;
        node_grant_slots(d->client, 16 * STORE_SLOT_BLOCK);
        d->next_slot = fixture_heard(d->client).grant.first;
        assert_int_equal(node_holding_start(d->n->cluster, 0), MOB_OK);
    }
    return 0;
}

static inline int end(void **state) {
    (void)state;
    for (int i = 0; i < NODES; i++) {
        daemon_t *d = &daemons[i];
        for (int k = 0; k < NODES; k++)
            while (d->out[k] != NULL) {
                letter_t *l = d->out[k];
                d->out[k] = l->next;
                free(l);
            }
        node_cluster_t *c = d->n->cluster;
        node_holding_end(c);
        node_roster_fini(&c->roster);
        fixture_node_free(d->n);
        free(c);
    }
    return 0;
}

/* ---- what processes do ---- */

static inline store_slot_t *slot_at(const daemon_t *d, mob_ref_t ref) {
    return &d->n->slots[ref.slot];
}
static inline uint64_t word_at(const daemon_t *d, mob_ref_t ref) {
    return atomic_load(&slot_at(d, ref)->word);
}
static inline bool is_sealed(const daemon_t *d, mob_ref_t ref) {
    return (word_at(d, ref) & STORE_STATE) == STORE_SEALED;
}
static inline mob_status_t error_at(const daemon_t *d, mob_ref_t ref) {
    return store_meta_error(slot_at(d, ref)->meta);
}
static inline bool is_there(const daemon_t *d, mob_ref_t ref) {
    return atomic_load(&slot_at(d, ref)->generation) == ref.generation &&
           (word_at(d, ref) & STORE_STATE) != STORE_FREE;
}

/* A slot of the process's own, which may be named elsewhere. */
static inline mob_ref_t slot_open_by(daemon_t *d) {
    mob_ref_t ref = {.slot = d->next_slot++};
    ref.generation = store_slot_open(slot_at(d, ref));
    atomic_fetch_or(&slot_at(d, ref)->word, STORE_ESCAPED);
    assert_non_null(node_object_find(d->n, ref));
    return ref;
}

/* Its value, of so many bytes, and references inside; as a worker seals it, and tells the daemon if
 * that watches. */
static inline void seal(daemon_t *d, mob_ref_t ref, uint64_t size, const mob_ref_t *inside,
                        uint32_t count) {
    store_slot_t *slot = slot_at(d, ref);
    bool is_inline = size <= STORE_INLINE && count == 0;
    uint8_t *bytes = slot->value.small;
    if (!is_inline) {
        uint64_t block;
        assert_int_equal(shm_heap_alloc(&d->n->heap, store_block_size(size, count),
                                        shm_tag(false, ref.slot, ref.generation), &block),
                         MOB_OK);
        bytes = d->n->arena.base + block;
        if (count > 0) memcpy(bytes + store_refs_offset(size), inside, count * sizeof *inside);
        slot->value.large.block = block;
        slot->value.large.ref_count = count;
    }
    memset(bytes, 7, size);
    slot->meta = store_meta(size, MOB_FORMAT_PICKLE, MOB_OK, is_inline);
    if (count > 0) fixture_say(d->client, WIRE_ESCAPE, ref.slot, ref.generation);
    if (store_slot_seal(slot, count > 0) & STORE_WATCHED)
        fixture_say(d->client, WIRE_SEALED, ref.slot, ref.generation);
}

static inline mob_ref_t put(daemon_t *d, uint64_t size) {
    mob_ref_t ref = slot_open_by(d);
    seal(d, ref, size, NULL, 0);
    return ref;
}

static inline void drop(daemon_t *d, mob_ref_t ref) {
    fixture_say(d->client, WIRE_DROP, ref.slot, ref.generation);
}

/* Sends a frame that names the object. */
static inline frame_id_t give(daemon_t *from, daemon_t *to, mob_ref_t ref) {
    frame_id_t id = node_proxy_id(from->n, ref);
    node_letter_parts_t parts = {.body = &id, .body_size = sizeof id};
    assert_int_equal(__wrap_node_post_send_refs(from->n->cluster, to->n->incarnation, POST_PLACE,
                                                &parts, &id, 1, NULL, false),
                     MOB_OK);
    return id;
}

static inline mob_ref_t given(daemon_t *from, daemon_t *to, mob_ref_t ref) {
    frame_id_t id = give(from, to, ref);
    settle();
    mob_ref_t there = node_proxy_find(to->n, id);
    assert_int_not_equal(there.slot, 0);
    return there;
}

static inline refs_counts_t counts(const daemon_t *d) {
    return refs_count(d->n->cluster->holding.refs);
}

/* No proxy is left, and nothing on the books of refs. */
static inline void nothing_is_left(void) {
    settle();
    for (int i = 0; i < NODES; i++) {
        if (!lives(&daemons[i])) continue;
        const node_proxies_t *p = &daemons[i].n->cluster->proxies;
        refs_counts_t c = counts(&daemons[i]);
        assert_int_equal(p->by_id.count, 0);
        assert_int_equal(p->others->held, 0);
        assert_int_equal(c.own + c.away + c.sent + c.came, 0);
        size_t slots = p->own.slots.spans.count * STORE_SLOT_BLOCK;
        assert_int_equal(p->own.slots.free.count, slots);
        assert_int_equal(daemons[i].n->cluster->watches.asked.count, 0);
        assert_null(daemons[i].n->cluster->watches.due);
    }
}

static inline const uint8_t *bytes_at(const daemon_t *d, mob_ref_t ref) {
    return store_meta_inline(slot_at(d, ref)->meta)
               ? slot_at(d, ref)->value.small
               : d->n->arena.base + slot_at(d, ref)->value.large.block;
}

static inline void has_value(const daemon_t *d, mob_ref_t ref, uint64_t size) {
    assert_true(is_sealed(d, ref));
    assert_int_equal(error_at(d, ref), MOB_OK);
    assert_int_equal(store_meta_size(slot_at(d, ref)->meta), size);
    for (uint64_t i = 0; i < size; i++) assert_int_equal(bytes_at(d, ref)[i], 7);
}

#endif
