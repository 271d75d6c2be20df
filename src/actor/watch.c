/* Stubs on other nodes, and here, that ask an actor's home where it is: they are told at ALIVE, and
 * at its end. */
#include "actor/room.h"

void watch_free(actor_t *room, watch_t *watch) {
    peer_key_t key = peer_key(watch->record->facts.id, watch->peer, 0);
    base_map_remove(&room->watches, &key);
    actor_list_remove(&watch->in_record);
    actor_list_remove(&watch->in_peer);
    free(watch);
}

static void watch_tell(actor_t *room, const watch_t *watch) {
    const record_t *r = watch->record;
    uint8_t head[HEAD_MAX];
    base_writer_t w = head_begin(head, MESSAGE_ALIVE, r->facts.id, r->facts.epoch);
    base_put_number(&w, r->facts.node, 8);
    head_send(room, watch->peer, &w, NULL, 0);
}

void watches_tell(actor_t *room, const record_t *r) {
    actor_list_each(&r->watches, at) watch_tell(room, actor_list_item(at, watch_t, in_record));
}

mob_status_t record_watch(actor_t *room, frame_id_t id, uint64_t peer) {
    if (id.home != room->self) return MOB_OK;
    record_t *r = record_find(room, id);
    if (r == NULL || r->phase == PHASE_DEAD) {
        message_send(room, peer, MESSAGE_DEAD, id, 0);
        return MOB_OK;
    }
    peer_key_t key = peer_key(id, peer, 0);
    watch_t *watch = base_map_get(&room->watches, &key);
    if (watch == NULL) {
        peer_t *p = peer_of(room, peer);
        watch = p != NULL ? calloc(1, sizeof *watch) : NULL;
        if (watch == NULL || !base_map_put(&room->watches, &key, watch)) {
            free(watch);
            return MOB_ENOMEM;
        }
        watch->record = r;
        watch->peer = peer;
        actor_list_add(&r->watches, &watch->in_record);
        actor_list_add(&p->watches, &watch->in_peer);
    }
    if (r->phase == PHASE_ALIVE) watch_tell(room, watch);
    return MOB_OK;
}

void record_unwatch(actor_t *room, frame_id_t id, uint64_t peer) {
    peer_key_t key = peer_key(id, peer, 0);
    watch_t *watch = base_map_get(&room->watches, &key);
    if (watch != NULL) watch_free(room, watch);
}

void watches_end(actor_t *room, record_t *r) {
    actor_list_each(&r->watches, at) {
        watch_t *watch = actor_list_item(at, watch_t, in_record);
        message_send(room, watch->peer, MESSAGE_DEAD, r->facts.id, 0);
        watch_free(room, watch);
    }
}
