/*
 * Who is a member, and all tombstones, in the order of their numbers. Both come from the state
 * alone: so everybody hears them in the same order. A node that joins reads all tombstones that
 * there ever were, so that each node can say all of them again to a state that lost them.
 */
#include "member/books.h"

#include <stdlib.h>
#include <string.h>

const tomb_t *history_last(const member_t *m) {
    return m->tombs.count > 0 ? &m->tombs.items[m->tombs.count - 1] : NULL;
}

bool member_knows(const member_t *m, uint64_t peer) {
    return base_map_get(&m->peers, &peer) != NULL;
}

uint64_t member_tombstone(const member_t *m, uint64_t peer) {
    size_t place = (size_t)(uintptr_t)base_map_get(&m->dead, &peer);
    return place > 0 ? m->tombs.items[place - 1].number : 0;
}

static void accused_remove(member_t *m, peer_t *p) {
    for (size_t i = 0; p->is_accused && i < m->accused.count; i++)
        if (m->accused.items[i] == p->incarnation) {
            vec_swap_remove(&m->accused, i);
            break;
        }
    p->is_accused = false;
}

static void peer_forget(member_t *m, uint64_t incarnation) {
    peer_t *p = base_map_remove(&m->peers, &incarnation);
    if (p == NULL) return;
    accused_remove(m, p);
    p->older->newer = p->newer;
    p->newer->older = p->older;
    free(p);
}

bool history_bury(member_t *m, const tomb_t *tomb) {
    const tomb_t *last = history_last(m);
    if (last != NULL && tomb->number <= last->number) return true; /* it is known */
    if (!vec_reserve(&m->tombs, 1)) return false;
    if (!base_map_put(&m->dead, &tomb->incarnation, (void *)(uintptr_t)(m->tombs.count + 1)))
        return false;
    m->tombs.items[m->tombs.count++] = *tomb;
    peer_forget(m, tomb->incarnation);
    if (tomb->incarnation == m->self)
        member_end(m, MEMBER_BURIED, tomb->number);
    else if (tomb->number > m->number)
        m->ops->died(m->context, tomb->incarnation, tomb->number);
    return true;
}

bool history_join(member_t *m, uint64_t incarnation, uint64_t number, const void *blob,
                  size_t size) {
    if (incarnation == m->self || base_map_get(&m->dead, &incarnation) != NULL) return true;
    peer_t *p = base_map_get(&m->peers, &incarnation);
    if (p != NULL) {
        p->era = m->era;
        return true;
    }
    p = malloc(sizeof *p + size);
    if (p == NULL) return false;
    *p = (peer_t){.incarnation = incarnation,
                  .number = number,
                  .era = m->era,
                  .renewed_ns = UINT64_MAX,
                  .blob_size = size,
                  .blob = (uint8_t *)(p + 1)};
    memcpy(p->blob, blob, size);
    if (!base_map_put(&m->peers, &incarnation, p)) {
        free(p);
        return false;
    }
    p->older = &m->heard; /* not heard yet: the oldest */
    p->newer = m->heard.newer;
    p->newer->older = m->heard.newer = p;
    m->ops->joined(m->context, incarnation, p->blob, p->blob_size);
    return true;
}

mob_status_t member_complain(member_t *m, uint64_t peer, bool silent) {
    peer_t *p = base_map_get(&m->peers, &peer);
    if (p == NULL || p->is_accused == silent) return MOB_OK;
    if (!silent)
        accused_remove(m, p);
    else if (!vec_push(&m->accused, peer))
        return MOB_ENOMEM;
    p->is_accused = silent;
    return MOB_OK;
}

void history_fini(member_t *m) {
    size_t cursor = 0;
    const void *key;
    void *peer;
    while (base_map_each(&m->peers, &cursor, &key, &peer)) free(peer);
    base_map_fini(&m->peers);
    base_map_fini(&m->dead);
    vec_free(&m->tombs);
    vec_free(&m->accused);
}
