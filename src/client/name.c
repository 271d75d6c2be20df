/* Actors by name. The name of a new actor goes to the daemon with its creation, in one message: so
 * no process finds a name whose actor the daemon has not heard of.
 *
 * In a cluster the daemon may have to ask others, and Redis may be away for seconds. Then it
 * answers with a number, by which this process asks again: other threads of it use the client
 * meanwhile. */
#include <string.h>
#include <time.h>

#include "client/client.h"

enum { PAUSE_NS = 50000, LONGEST_PAUSE_NS = 5000000 };

static mob_status_t name_check(const char *what, const char *text) {
    if (strlen(text) <= MOB_NAME_MAX) return MOB_OK;
    return base_fail(MOB_EINVAL, "a %s may have %d bytes, and this one has %zu", what, MOB_NAME_MAX,
                     strlen(text));
}

mob_status_t client_name_check(const mob_actor_name_t *named) {
    mob_status_t status = name_check("name", named->name);
    return status == MOB_OK ? name_check("namespace", named->name_space) : status;
}

_Static_assert(sizeof(wire_name_t) + 2 * (MOB_NAME_MAX + 1) <= SHM_SCRATCH_BYTES, "it fits");

/* Writes it into the scratch page; its size. */
static uint32_t name_write(mob_client_t *c, const mob_actor_name_t *named, bool is_group) {
    char *space = (char *)c->own_segment.base + SHM_CLIENT_SCRATCH;
    wire_name_t head = {.slot = named->info.slot,
                        .flags = (named->detached ? WIRE_NAME_DETACHED : 0) |
                                 (is_group ? WIRE_NAME_GROUP : 0),
                        .generation = named->info.generation,
                        .space_size = (uint32_t)strlen(named->name_space) + 1,
                        .name_size = (uint32_t)strlen(named->name) + 1};
    memcpy(space, &head, sizeof head);
    memcpy(space + sizeof head, named->name_space, head.space_size);
    memcpy(space + sizeof head + head.space_size, named->name, head.name_size);
    return (uint32_t)sizeof head + head.space_size + head.name_size;
}

/* Asks, and again until the answer is there. Under the mutex, which others may have meanwhile. */
static mob_status_t name_ask(mob_client_t *c, const wire_message_t *request,
                             wire_message_t *ret_answer) {
    long pause_ns = PAUSE_NS;
    mob_status_t status = client_ask(c, request, WIRE_ANSWER, ret_answer);
    while (status == MOB_OK && ret_answer->answer.status == MOB_OK &&
           ret_answer->answer.value != 0) {
        wire_message_t again = {.wait = {WIRE_NAME_WAIT, .number = ret_answer->answer.value}};
        pthread_mutex_unlock(&c->mutex);
        nanosleep(&(struct timespec){.tv_nsec = pause_ns}, NULL);
        if (pause_ns < LONGEST_PAUSE_NS) pause_ns *= 2;
        pthread_mutex_lock(&c->mutex);
        status = client_check(c);
        if (status == MOB_OK) status = client_ask(c, &again, WIRE_ANSWER, ret_answer);
    }
    return status;
}

mob_status_t client_create_named(mob_client_t *c, const mob_task_t *task, uint32_t record,
                                 uint64_t generation) {
    const mob_actor_name_t *named = task->named;
    bool is_group = task->kind == MOB_GROUP;
    wire_message_t request = {.failure = {WIRE_CREATE, record, generation,
                                          name_write(c, named, is_group)}},
                   answer;
    mob_status_t status = name_ask(c, &request, &answer);
    if (status != MOB_OK || answer.answer.status == MOB_OK) return status;
    if (is_group && answer.answer.status == MOB_EEXISTS)
        return base_fail(MOB_EINVAL,
                         "Failed to create placement group: its name '%s' already exists in the "
                         "namespace '%s'. Choose another name, or get that group with "
                         "ray.util.get_placement_group",
                         named->name, named->name_space);
    if (answer.answer.status == MOB_EEXISTS)
        return base_fail(MOB_EEXISTS,
                         "an actor named '%s' is there already in the namespace '%s': choose "
                         "another name, get that actor with ray.get_actor, or pass "
                         "get_if_exists=True",
                         named->name, named->name_space);
    if (answer.answer.status == MOB_ETIMEOUT)
        return base_fail(MOB_ETIMEOUT,
                         "the actor %s could not be made: the cluster's Redis, which has the names "
                         "of actors, does not answer",
                         named->name);
    return base_fail((mob_status_t)answer.answer.status, "the %s %s could not be made: %s",
                     is_group ? "placement group" : "actor", named->name,
                     mob_status_text((mob_status_t)answer.answer.status));
}

mob_status_t mob_names_dropped(const mob_client_t *c, uint32_t *ret_count) {
    mob_status_t status = client_check(c);
    if (status == MOB_OK) *ret_count = atomic_load(&c->node->names_dropped);
    return status;
}

/* What has this name, and what its maker gave for those who find it. */
static mob_status_t name_find(mob_client_t *c, const char *name_space, const char *name,
                              bool is_group, mob_ref_t ret_found[2]) {
    mob_actor_name_t named = {.name_space = name_space, .name = name};
    mob_status_t status = client_check(c);
    if (status == MOB_OK) status = client_name_check(&named);
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    wire_message_t request = {.named = {WIRE_FIND, name_write(c, &named, is_group)}}, answer;
    status = name_ask(c, &request, &answer);
    if (status == MOB_OK && answer.answer.status == MOB_ETIMEOUT)
        status = base_fail(MOB_ETIMEOUT,
                           "whether an actor named '%s' is there in the namespace '%s' is not "
                           "known: the cluster's Redis, which has the names, does not answer",
                           name, name_space);
    else if (status == MOB_OK && answer.answer.status != MOB_OK)
        status = base_fail((mob_status_t)answer.answer.status,
                           "no %s named '%s' is there in the namespace '%s'",
                           is_group ? "placement group" : "actor", name, name_space);
    if (status == MOB_OK) {
        memcpy(ret_found, c->own_segment.base + SHM_CLIENT_SCRATCH, 2 * sizeof *ret_found);
        client_ref_adopt(c, ret_found[0]);
        client_ref_adopt(c, ret_found[1]);
    }
    pthread_mutex_unlock(&c->mutex);
    return status;
}

mob_status_t mob_actor_find(mob_client_t *c, const char *name_space, const char *name,
                            mob_ref_t *ret_actor, mob_ref_t *ret_info) {
    mob_ref_t found[2];
    mob_status_t status = name_find(c, name_space, name, false, found);
    if (status != MOB_OK) return status;
    *ret_actor = found[0];
    *ret_info = found[1];
    return MOB_OK;
}

mob_status_t mob_group_find(mob_client_t *c, const char *name_space, const char *name,
                            mob_ref_t *ret_group) {
    mob_ref_t found[2];
    mob_status_t status = name_find(c, name_space, name, true, found);
    if (status == MOB_OK) *ret_group = found[0];
    return status;
}

mob_status_t mob_group_remove(mob_client_t *c, mob_ref_t group) {
    mob_status_t status = client_check(c);
    if (status == MOB_OK && !client_slot_valid(group.slot))
        status = base_fail(MOB_ESTALE, "this is no placement group of this session");
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    status = client_room_await(c);
    if (status == MOB_OK)
        client_push(c, wire_about_object(WIRE_GROUP_REMOVE, group.slot, group.generation));
    pthread_mutex_unlock(&c->mutex);
    return status;
}
