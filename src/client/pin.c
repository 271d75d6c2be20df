/*
 * Pins: a process pins a value in the arena while it reads it in place (store/pins.h), so that the
 * daemon does not move it. A value in its slot needs no pin, nor does an error, which is never
 * moved. The last unpinning of a value in a file ends its mapping (large.c).
 */
#include "client/client.h"
#include "store/pins.h"

client_map_t client_unpin(mob_client_t *c, uint32_t slot) {
    c->local[slot].pins = 0;
    store_unpin(c->pins, slot);
    return client_large_unpinned(c, slot);
}

void client_pin(mob_client_t *c, mob_ref_t ref) {
    client_local_t *local = client_local(c, ref);
    if (local != NULL && local->pins++ == 0) store_pin(c->pins, ref.slot);
}

void client_pin_hold(mob_client_t *c, mob_ref_t ref) {
    pthread_mutex_lock(&c->mutex);
    client_pin(c, ref);
    pthread_mutex_unlock(&c->mutex);
}

void client_pin_drop(mob_client_t *c, mob_ref_t ref) {
    client_local_t *local = &c->local[ref.slot];
    client_map_t map = {0};
    pthread_mutex_lock(&c->mutex);
    if (client_local_is(c, ref) && local->pins > 0 && --local->pins == 0)
        map = client_unpin(c, ref.slot);
    pthread_mutex_unlock(&c->mutex);
    client_map_end(map);
}
