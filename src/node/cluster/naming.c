/* The answers lie in the client's scratch page, which it does not use until it is answered. */
#include "node/cluster/naming.h"

#include <string.h>

#include "node/cluster/actor_seat.h"
#include "node/cluster/proxy.h"
#include "node/state.h"

static void answer(node_client_t *c, const void *what, size_t size) {
    memcpy(c->segment.base + SHM_CLIENT_SCRATCH, what, size);
    node_client_tell(c, wire_answer(MOB_OK, size));
}

void node_naming_id(node_client_t *c, const wire_message_t *m) {
    frame_id_t id = node_proxy_id(
        c->node, (mob_ref_t){.slot = m->object.slot, .generation = m->object.generation});
    wire_id_t found = {.home = id.home, .generation = id.generation, .number = id.number};
    answer(c, &found, sizeof found);
}

void node_naming_of_id(node_client_t *c, const wire_message_t *m) {
    frame_id_t id = {.home = m->id.home, .number = m->id.number, .generation = m->id.generation};
    mob_ref_t ref = node_seat_find(c, id);
    if (ref.slot == 0) ref = node_proxy_find(c->node, id);
    if (ref.slot != 0)
        answer(c, &ref, sizeof ref);
    else
        node_client_tell(c, wire_answer(MOB_ESTALE, 0));
}
