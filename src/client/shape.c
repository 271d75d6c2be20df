/*
 * Demands as numbers. A process asks the daemon once for each different demand, and holds the
 * number that the daemon answers with.
 */
#include <stdlib.h>
#include <string.h>

#include "client/client.h"

static bool is_one_cpu(const mob_resource_t *demand, size_t count) {
    return count == 1 && demand[0].amount == 1 && strcmp(demand[0].name, "CPU") == 0;
}

/* Why the daemon refused what was asked for, in the daemon's own words. Under the mutex. */
mob_status_t client_refused(const mob_client_t *c, const wire_message_t *answer) {
    int size =
        answer->answer.value < SHM_SCRATCH_BYTES ? (int)answer->answer.value : SHM_SCRATCH_BYTES;
    return base_fail((mob_status_t)answer->answer.status, "%.*s", size,
                     (const char *)c->own_segment.base + SHM_CLIENT_SCRATCH);
}

typedef VEC(char) text_t;

/* Where the demand is to be met, as the daemon reads it. */
static bool where_write(text_t *text, const mob_where_t *where, uint32_t environment) {
    wire_where_t head = {.slot = where->group.slot,
                         .bundle = where->bundle,
                         .generation = where->group.generation,
                         .flags = where->flags,
                         .environment = environment,
                         .priority = where->priority};
    if (where->selector != NULL) head.selector_size = (uint32_t)strlen(where->selector) + 1;
    if (!vec_reserve(text, sizeof head + head.selector_size)) return false;
    memcpy(text->items, &head, sizeof head);
    if (head.selector_size > 0)
        memcpy(text->items + sizeof head, where->selector, head.selector_size);
    text->count = sizeof head + head.selector_size;
    return true;
}

mob_status_t mob_shape(mob_client_t *c, const mob_resource_t *demand, size_t count,
                       uint32_t *ret_shape) {
    if (c->environment != 0 || (count > 0 && !is_one_cpu(demand, count)))
        return mob_shape_at(c, demand, count, &(mob_where_t){.bundle = -1}, ret_shape);
    mob_status_t status = client_check(c);
    if (status == MOB_OK) *ret_shape = count == 0 ? MOB_SHAPE_NOTHING : MOB_SHAPE_ONE_CPU;
    return status; /* known to all */
}

mob_status_t mob_shape_at(mob_client_t *c, const mob_resource_t *demand, size_t count,
                          const mob_where_t *where, uint32_t *ret_shape) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    if (count > MOB_MAX_RESOURCES)
        return base_fail(MOB_EINVAL,
                         "a task or actor can ask for at most %d different resources, not %zu",
                         MOB_MAX_RESOURCES, count);
    text_t text = {0};
    if (!where_write(&text, where, where->environment ? where->environment : c->environment))
        return MOB_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        size_t name_size = strlen(demand[i].name) + 1;
        /* An amount beyond what any node can have is cut to the most: it never fits either. */
        double most = strcmp(demand[i].name, "CPU") == 0 ? 0x1p40 : 0x1p60,
               units = demand[i].amount * 10000.0 + 0.5;
        uint64_t amount = (uint64_t)(units < most ? units : most);
        if (demand[i].amount < 0 || !vec_reserve(&text, name_size + sizeof amount)) {
            vec_free(&text);
            return base_fail(MOB_EINVAL, "an amount of %g of %s", demand[i].amount, demand[i].name);
        }
        memcpy(text.items + text.count, &amount, sizeof amount);
        memcpy(text.items + text.count + sizeof amount, demand[i].name, name_size);
        text.count += name_size + sizeof amount;
    }
    if (text.count > WIRE_SHAPE_BYTES) {
        vec_free(&text);
        return base_fail(MOB_EINVAL,
                         "the names of the resources that a task or actor asks for are too long");
    }
    wire_message_t request = {.shape = {WIRE_SHAPE, (uint32_t)count, text.count}}, answer;
    do {
        pthread_mutex_lock(&c->mutex);
        status = client_ask_with_space(c, &request, text.items, text.count, text.count + 1, &answer,
                                       NULL);
        if (status == MOB_OK && answer.answer.status != MOB_OK) status = client_refused(c, &answer);
        pthread_mutex_unlock(&c->mutex);
    } while (status == MOB_ESPACE && (status = mob_space_await(c)) == MOB_OK);
    vec_free(&text);
    if (status == MOB_OK) *ret_shape = (uint32_t)answer.answer.value;
    return status;
}

void mob_shape_drop(mob_client_t *c, uint32_t shape) {
    if (shape <= MOB_SHAPE_ONE_CPU || client_check(c) != MOB_OK) return;
    pthread_mutex_lock(&c->mutex);
    /* The daemon has heard before this, on the same ring, of the tasks that name the shape. It has
     * not heard of those in a lane, but a lane's shape stays. */
    client_push_quietly(c, (wire_message_t){.shape_drop = {WIRE_SHAPE_DROP, .shape = shape}});
    pthread_mutex_unlock(&c->mutex);
}
