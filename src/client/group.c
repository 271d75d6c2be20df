/*
 * Concurrency groups of an actor: so many calls of each group run at once, and a group that is full
 * holds up no other.
 *
 * A group's number is in the record of each call. The worker counts the runs of each group, and
 * takes no call of a group that is full: from a caller's queue it takes others first (calls.c), and
 * what the daemon told it to run it keeps here. What was kept of a group is the first that is
 * carried out once there is room, so the calls of one caller and group stay in order.
 *
 * Nothing of this is known to other processes. If the worker dies, the records' words say what was
 * begun, as for any actor.
 */
#include "client/client.h"

mob_status_t mob_actor_groups(mob_client_t *c, const uint32_t *limits, uint32_t count) {
    if (count == 0 || count > MOB_MAX_GROUPS)
        return base_fail(MOB_EINVAL, "an actor has 1 to %d groups, not %u", MOB_MAX_GROUPS, count);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (limits[i] == 0) return base_fail(MOB_EINVAL, "group %u would run no calls at all", i);
        sum += limits[i];
    }
    pthread_mutex_lock(&c->mutex);
    client_groups_free(c);
    bool space = vec_reserve(&c->groups, count);
    for (uint32_t i = 0; space && i < count; i++)
        (void)vec_push(&c->groups, ((client_group_t){.limit = limits[i]}));
    if (space) c->limit = sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
    pthread_mutex_unlock(&c->mutex);
    return space ? MOB_OK : MOB_ENOMEM;
}

void mob_run_give(mob_client_t *c, mob_run_t *run) {
    (void)c, (void)run;
    client_lending_give();
}

void mob_run_accept(mob_client_t *c, mob_run_t *run) {
    (void)c;
    client_lending_accept(run->task_id);
}

void client_group_begin(mob_client_t *c, uint32_t group) {
    if (c->groups.count > 0) c->groups.items[group].running++;
}

void client_group_end(mob_client_t *c, uint32_t group) {
    if (c->groups.count > 0) c->groups.items[group].running--;
}

static bool holds(const client_group_t *g) { return g->held_next < g->held.count; }

/* Before the others. */
static bool hold_first(client_group_t *g, const wire_message_t *order) {
    if (g->held_next > 0) {
        g->held.items[--g->held_next] = *order;
        return true;
    }
    if (!vec_push(&g->held, *order)) return false;
    memmove(g->held.items + 1, g->held.items, (g->held.count - 1) * sizeof *order);
    g->held.items[0] = *order;
    return true;
}

bool client_group_hold(mob_client_t *c, const wire_message_t *order, bool first) {
    const wire_record_t *record = &c->records[order->run.record % WIRE_MAX_RECORDS];
    if (c->groups.count == 0 || record->kind != MOB_ACTOR_CALL) return false;
    client_group_t *g = &c->groups.items[client_group_of(c, record)];
    if (!holds(g) && g->running < g->limit) return false;
    if (first ? !hold_first(g, order) : !vec_push(&g->held, *order))
        c->told_to_exit = c->run_unclaimable = true; /* no memory: others run the call, or none */
    return true;
}

bool client_group_next(mob_client_t *c, wire_message_t *ret_order) {
    for (size_t i = 0; i < c->groups.count; i++) {
        client_group_t *g = &c->groups.items[i];
        if (!holds(g) || g->running >= g->limit) continue;
        *ret_order = g->held.items[g->held_next++];
        if (!holds(g)) {
            g->held.count = g->held_next = 0;
        } else if (g->held_next >= 1024) { /* a group that is never idle would let it grow */
            g->held.count -= g->held_next;
            memmove(g->held.items, g->held.items + g->held_next,
                    g->held.count * sizeof *g->held.items);
            g->held_next = 0;
        }
        return true;
    }
    return false;
}

bool client_groups_hold(const mob_client_t *c) {
    for (size_t i = 0; i < c->groups.count; i++)
        if (holds(&c->groups.items[i])) return true;
    return false;
}

void client_groups_free(mob_client_t *c) {
    for (size_t i = 0; i < c->groups.count; i++) vec_free(&c->groups.items[i].held);
    vec_free(&c->groups);
}
