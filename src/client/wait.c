/* mob_wait: which of several objects are there. */
#include <string.h>

#include "base/clock.h"
#include "client/client.h"

static size_t mark_ready(const mob_client_t *c, const mob_ref_t *refs, size_t count, size_t needed,
                         uint8_t *ready) {
    size_t found = 0;
    for (size_t i = 0; i < count; i++) {
        ready[i] = found < needed && client_is_sealed(c, refs[i]);
        found += ready[i];
    }
    return found;
}

mob_status_t mob_wait(mob_client_t *c, const mob_ref_t *refs, size_t count, size_t needed,
                      int64_t timeout_ms, uint8_t *ret_ready, size_t *ret_count) {
    *ret_count = 0;
    if (count > 0) memset(ret_ready, 0, count);
    mob_status_t status = client_check(c);
    if (status == MOB_OK) status = client_refs_check(c, refs, count);
    if (status != MOB_OK) return status;
    *ret_count = mark_ready(c, refs, count, needed, ret_ready);
    if (*ret_count >= needed || timeout_ms == 0) return MOB_OK;
    if ((status = client_wait_check(c)) != MOB_OK) return status;
    uint64_t deadline = client_wait_deadline(timeout_ms),
             look_up = base_clock_mono_ns() + (uint64_t)CLIENT_LOOK_UP_NS;
    shm_bell_t *bell = &c->node->bells[c->number];
    bool noted = false;
    client_wait_t wait = client_waiting_begin(c);
    shm_wait_t *vigil = client_vigil_begin(c, refs, count, needed, timeout_ms);
    for (;;) {
        uint32_t seen = shm_bell_listen(bell);
        if (!noted)
            for (size_t i = 0; i < count; i++) store_slot_wait(&c->slots[refs[i].slot], c->number);
        noted = true; /* a bit stays until its slot is sealed */
        *ret_count = mark_ready(c, refs, count, needed, ret_ready);
        if (*ret_count >= needed) break;
        int64_t slice = client_wait_slice(deadline);
        if (slice == 0) break;
        if (!client_sleep(c, seen, slice)) {
            status = MOB_EINTR;
            break;
        }
        if ((status = client_daemon_look(c)) != MOB_OK) break;
        if (vigil != NULL && (status = client_vigil_look(c)) != MOB_OK) break;
        if (base_clock_mono_ns() >= look_up &&
            mark_ready(c, refs, count, needed, ret_ready) < needed) {
            status = MOB_EINTR;
            break;
        }
    }
    client_vigil_end(c, vigil, status);
    client_waiting_end(c, wait);
    return status;
}
