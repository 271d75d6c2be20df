/*
 * Questions to the daemon. Small ones and their answers go by the scratch page of the client's own
 * segment, so that they work when the store is full. The daemon writes a larger answer into a block
 * that the client owns.
 */
#include <string.h>

#include "client/client.h"

/* Tags of these blocks name no slot or record: index 0 of the slots, with a count of its own. */
static uint64_t block_tag(void) {
    static _Atomic uint64_t count;
    return shm_tag(false, 0, atomic_fetch_add(&count, 1) + 1);
}

/* Asks with space for `size` bytes: `input` lies there first, then the answer. Under the mutex. */
mob_status_t client_ask_with_space(mob_client_t *c, wire_message_t *request, const void *input,
                                   size_t input_size, uint64_t size, wire_message_t *ret_answer,
                                   void **ret_copy) {
    uint64_t tag = block_tag(), block = 0;
    unsigned char *space = c->own_segment.base + SHM_CLIENT_SCRATCH;
    if (size > SHM_SCRATCH_BYTES) {
        mob_status_t status = shm_heap_alloc(&c->heap, size, tag, &block);
        if (status != MOB_OK) return status;
        space = c->arena.base + block;
    }
    if (input_size > 0) memcpy(space, input, input_size);
    request->query.block = block; /* in the same place in all three kinds of questions */
    request->query.capacity = size;
    mob_status_t status = client_ask(c, request, WIRE_ANSWER, ret_answer);
    if (status == MOB_OK && ret_answer->answer.status == MOB_OK && ret_copy != NULL) {
        *ret_copy = malloc(ret_answer->answer.value + 1);
        if (*ret_copy == NULL)
            status = MOB_ENOMEM;
        else
            memcpy(*ret_copy, space, ret_answer->answer.value);
    }
    if (block != 0 && !client_owed_keeps(c, block, tag)) shm_heap_free(&c->heap, block, tag);
    return status;
}

/* Asks, again with more space if the answer did not fit. */
static mob_status_t question_ask(mob_client_t *c, wire_message_t request, const void *input,
                                 size_t input_size, void **ret_answer, size_t *ret_size) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    uint64_t size = input_size > SHM_SCRATCH_BYTES ? input_size : SHM_SCRATCH_BYTES;
    for (int tries = 0; tries < 8; tries++) {
        wire_message_t answer;
        status = client_ask_with_space(c, &request, input, input_size, size, &answer, ret_answer);
        if (status == MOB_ESPACE) {
            pthread_mutex_unlock(&c->mutex);
            status = mob_space_await(c);
            pthread_mutex_lock(&c->mutex);
            if (status != MOB_OK) break;
            continue;
        }
        if (status != MOB_OK || answer.answer.status == MOB_OK) {
            if (status == MOB_OK) *ret_size = answer.answer.value;
            break;
        }
        status = (mob_status_t)answer.answer.status;
        if (status != MOB_ELIMIT || answer.answer.value == 0) break;
        size = answer.answer.value +
               answer.answer.value / 4; /* the answer did not fit; the next may be longer */
    }
    pthread_mutex_unlock(&c->mutex);
    return status;
}

mob_status_t mob_query(mob_client_t *c, mob_query_t query, uint64_t argument, void **ret_answer,
                       size_t *ret_size) {
    wire_message_t request = {.query = {WIRE_QUERY, (uint32_t)query, argument}};
    mob_status_t status = question_ask(c, request, NULL, 0, ret_answer, ret_size);
    return status == MOB_ETIMEOUT
               ? base_fail(status, "a node of the cluster did not answer in time, so its part of "
                                   "the list is not known: ray.nodes() has who is there. Try again")
               : status;
}

mob_status_t mob_kv(mob_client_t *c, mob_kv_t what, const void *items, size_t size,
                    void **ret_answer, size_t *ret_size) {
    wire_message_t request = {.query = {WIRE_KV, (uint32_t)what, size}};
    mob_status_t status = size <= MOB_KV_BYTES
                              ? question_ask(c, request, items, size, ret_answer, ret_size)
                              : MOB_ELIMIT;
    if (status == MOB_ELIMIT)
        return base_fail(status,
                         "the daemon keeps at most %d MiB of keys and values, and has no "
                         "room for these: delete some",
                         MOB_KV_BYTES >> 20);
    if (status == MOB_EINVAL)
        return base_fail(status, "these keys and values make no sense to the daemon");
    return status;
}

mob_status_t mob_site(mob_client_t *c, const char *text, uint32_t *ret_site) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    size_t size = strlen(text);
    if (size > MOB_SITE_MAX) size = MOB_SITE_MAX;
    pthread_mutex_lock(&c->mutex);
    wire_message_t request = {.site = {WIRE_SITE, .size = size}}, answer;
    status = client_ask_with_space(c, &request, text, size, size + 1, &answer, NULL);
    pthread_mutex_unlock(&c->mutex);
    if (status == MOB_OK && answer.answer.status == MOB_OK)
        *ret_site = (uint32_t)answer.answer.value;
    return status == MOB_OK ? (mob_status_t)answer.answer.status : status;
}

void mob_ref_made_at(mob_client_t *c, mob_ref_t ref, uint32_t site) {
    if (!client_slot_valid(ref.slot) || client_check(c) != MOB_OK) return;
    pthread_mutex_lock(&c->mutex);
    client_push_quietly(c,
                        (wire_message_t){.made_at = {WIRE_MADE_AT, .slot = ref.slot,
                                                     .generation = ref.generation, .site = site}});
    pthread_mutex_unlock(&c->mutex);
}
