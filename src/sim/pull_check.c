/* The checks of the scenario, which see all nodes at once. */
#include "sim/pull_world.h"

enum { STALL_S = 12, LOST_S = 10 };

static unsigned long long number_of(const frame_id_t *id) { return id->number; }

/* ---- after every event ---- */

/* The node whose partial copy this one's is read from, if that one knows of it. */
static pull_node_t *reads_from(const pull_run_t *run, const pull_node_t *node,
                               const frame_id_t *id) {
    pull_copy_view_t view;
    if (!pull_copy_look(node->pull, id, &view) || view.source == 0 || view.is_complete) return NULL;
    pull_node_t *source = pull_node_find(run, view.source);
    bool is_known = source != NULL &&
                    pull_is_read_by(source->pull, id, host_incarnation(node->host), view.ticket);
    return is_known ? source : NULL;
}

static void check_cycle(const pull_run_t *run, const frame_id_t *id) {
    for (size_t i = 0; i < run->nodes.count; i++) {
        const pull_node_t *at = run->nodes.items[i];
        for (size_t step = 0; at != NULL && step <= run->nodes.count; step++)
            at = reads_from(run, at, id);
        if (at != NULL) {
            world_fail(run->world, "object %llu: partial copies are read in a circle",
                       number_of(id));
            return;
        }
    }
}

static void check_book(const pull_run_t *run, const thing_t *thing) {
    const pull_node_t *home = run->nodes.items[thing->home];
    pull_object_view_t view;
    if (pull_node_is_dead(home) || !pull_object_look(home->pull, &thing->id, &view)) return;
    if (run->is_calm && run->deaths == 0 && view.readers_most > 1)
        world_fail(run->world, "object %llu: a holder has %zu readers", number_of(&thing->id),
                   view.readers_most);
    if (view.is_lost) return;
    const pull_node_t *primary = pull_node_find(run, view.primary);
    if (primary == NULL) {
        world_fail(run->world, "object %llu has no primary", number_of(&thing->id));
        return;
    }
    pull_copy_view_t copy;
    bool is_kept = pull_node_is_dead(primary) ||
                   (primary != home && host_knows_dead(primary->host, thing->id.home)) ||
                   (pull_copy_look(primary->pull, &thing->id, &copy) && copy.is_complete &&
                    copy.is_primary && copy.version == view.version);
    if (!is_kept)
        world_fail(run->world, "object %llu: node %zu is its primary and does not know",
                   number_of(&thing->id), primary->index);
}

static bool is_leaving(const pull_call_t *call) {
    pull_copy_view_t view;
    for (size_t i = 0; i < call->count; i++)
        if (pull_copy_look(call->node->pull, &call->node->run->things[call->things[i]].id, &view) &&
            view.is_leaving)
            return true;
    return false;
}

/* Whether one that waits for room as the other does should get it first. */
static bool goes_before(const pull_call_t *a, const pull_call_t *b) {
    if (a->node != b->node || a == b) return false;
    return a->class != b->class ? a->class < b->class : a->number < b->number;
}

/* It was let in by the last event, before the other one, and waits again: when it began to read,
 * the object was a larger one than was described. */
static bool was_before(const pull_call_t *a, const pull_call_t *b) {
    uint64_t turn = pull_want_turn(a->want);
    return turn != a->turn && turn < pull_want_turn(b->want);
}

static void check_passed(const pull_run_t *run, const pull_call_t *let_in) {
    for (size_t i = 0; i < run->calls.count; i++) {
        const pull_call_t *other = run->calls.items[i];
        if (other->state != PULL_WAITING || !goes_before(other, let_in)) continue;
        if (pull_want_state(other->want) == PULL_WAITING && !is_leaving(other) &&
            !was_before(other, let_in))
            world_fail(run->world, "node %zu: want %llu was let in before want %llu",
                       let_in->node->index, (unsigned long long)let_in->number,
                       (unsigned long long)other->number);
    }
}

static void check_order(pull_run_t *run) {
    for (size_t i = 0; i < run->calls.count; i++) {
        const pull_call_t *call = run->calls.items[i];
        pull_state_t now = pull_want_state(call->want);
        bool was_let_in =
            call->state <= PULL_WAITING && (now == PULL_ADMITTED || now == PULL_READY);
        if (was_let_in) check_passed(run, call);
    }
    for (size_t i = 0; i < run->calls.count; i++) {
        pull_call_t *call = run->calls.items[i];
        pull_state_t now = pull_want_state(call->want);
        if (now == PULL_WAITING && call->state != now) call->waits_ns = world_now_ns(run->world);
        call->state = now;
        call->turn = pull_want_turn(call->want);
    }
}

void pull_check_event(void *context) {
    pull_run_t *run = context;
    check_order(run);
    if (run->dirty < 0 || run->dirty >= (int)run->thing_count) return;
    const thing_t *thing = &run->things[run->dirty];
    run->dirty = -1;
    check_cycle(run, &thing->id);
    check_book(run, thing);
}

/* ---- bytes ---- */

void pull_check_bytes(const pull_call_t *call, const char *when) {
    pull_node_t *node = call->node;
    if (call->class == PULL_WAIT) return; /* it may be gone again */
    for (size_t i = 0; i < call->count; i++) {
        const thing_t *thing = &node->run->things[call->things[i]];
        const extent_t *extent = pull_extent(node, &thing->id);
        pull_copy_view_t view;
        if (extent == NULL || !pull_copy_look(node->pull, &thing->id, &view)) {
            world_fail(node->run->world, "object %llu is not there %s", number_of(&thing->id),
                       when);
            return;
        }
        for (uint32_t chunk = 0; chunk < extent->count; chunk++)
            if (*extent->pages[chunk] != pull_content(thing, view.version, chunk)) {
                world_fail(node->run->world,
                           "object %llu at node %zu: chunk %u is %llx, not of version %u, %s",
                           number_of(&thing->id), node->index, chunk,
                           (unsigned long long)*extent->pages[chunk], view.version, when);
                return;
            }
    }
}

/* ---- waits ---- */

static bool is_later(const pull_run_t *run, uint64_t since_ns, uint64_t seconds) {
    return world_now_ns(run->world) > since_ns + seconds * WORLD_S;
}

/* Nothing was wrong with the node, or between the two, for that long. */
static bool node_was_well(const pull_node_t *node) {
    return pull_node_is_up(node) && is_later(node->run, node->troubled_ns, STALL_S);
}

static bool pair_was_well(const pull_node_t *a, const pull_node_t *b) {
    if (a == b) return true;
    const pull_run_t *run = a->run;
    uint64_t low = a->index < b->index ? a->index : b->index;
    uint64_t high = a->index < b->index ? b->index : a->index;
    uint64_t pair = low << 32 | high;
    uint64_t since = (uint64_t)(uintptr_t)base_map_get(&run->cut_ns, &pair);
    return !pull_pair_is_cut(run, a, b) && (since == 0 || is_later(run, since, STALL_S));
}

void pull_check_lost(const pull_call_t *call, const frame_id_t *id) {
    pull_run_t *run = call->node->run;
    if (!host_knows_dead(call->node->host, id->home)) {
        world_fail(run->world, "object %llu is lost while its home lives", number_of(id));
        return;
    }
    if (!is_later(run, run->redis_ns, LOST_S)) return;
    for (size_t i = 0; i < run->nodes.count; i++) {
        const pull_node_t *node = run->nodes.items[i];
        pull_copy_view_t view;
        if (!pull_copy_look(node->pull, id, &view) || !view.is_complete || view.is_leaving)
            continue;
        if (node != call->node && node_was_well(node) && pair_was_well(node, call->node) &&
            is_later(run, node->complete_ns[id->number], LOST_S))
            world_fail(run->world, "object %llu is lost for node %zu, and node %zu has it",
                       number_of(id), call->node->index, node->index);
    }
}

/* A pull must get on while its node, the home and the primary are well, and hear each other. */
static void check_stall(pull_run_t *run, const pull_call_t *call, const thing_t *thing) {
    const pull_node_t *node = call->node, *home = run->nodes.items[thing->home];
    if (!node_was_well(node) || !node_was_well(home) || !pair_was_well(node, home)) return;
    pull_object_view_t object;
    if (!pull_object_look(home->pull, &thing->id, &object) || object.is_lost) return;
    const pull_node_t *primary = pull_node_find(run, object.primary);
    if (primary == NULL || !node_was_well(primary) || !pair_was_well(primary, home) ||
        !pair_was_well(primary, node) ||
        !is_later(run, primary->complete_ns[thing->id.number], STALL_S))
        return;
    pull_copy_view_t copy;
    bool is_pulled = pull_copy_look(node->pull, &thing->id, &copy) && !copy.is_complete &&
                     !copy.is_leaving && copy.is_pinned;
    if (is_pulled && is_later(run, node->progress_ns[thing->id.number], STALL_S))
        world_fail(run->world, "object %llu: node %zu gets nothing for %d s, and has %u of %u",
                   number_of(&thing->id), node->index, STALL_S, copy.have, copy.chunks);
}

void pull_check_stalls(pull_run_t *run) {
    for (size_t i = 0; i < run->calls.count; i++) {
        const pull_call_t *call = run->calls.items[i];
        bool is_patient = call->state == PULL_WAITING && call->class == PULL_ARGUMENTS &&
                          node_was_well(call->node);
        if (is_patient && is_later(run, call->waits_ns, 3))
            world_fail(run->world, "node %zu: a task's want %llu waits for room for 3 s",
                       call->node->index, (unsigned long long)call->number);
        if (pull_want_state(call->want) != PULL_ADMITTED) continue;
        for (size_t j = 0; j < call->count; j++)
            check_stall(run, call, &run->things[call->things[j]]);
    }
}

/* ---- at the end ---- */

static void check_node_end(const pull_node_t *node) {
    pull_counts_t counts;
    pull_count(node->pull, &counts);
    uint64_t kept = 0;
    for (size_t i = 0; i < node->run->thing_count; i++) {
        const frame_id_t *id = &node->run->things[i].id;
        const extent_t *extent = pull_extent(node, id);
        pull_copy_view_t view;
        if (!pull_copy_look(node->pull, id, &view)) continue;
        if (view.is_primary && !extent->is_made) kept += view.size;
    }
    if (counts.wants + counts.waiting + counts.transfers + counts.readings > 0 ||
        counts.held_bytes != kept)
        world_fail(node->run->world,
                   "node %zu ends with %zu wants, %zu transfers, %zu readings, %llu of %llu bytes "
                   "held",
                   node->index, counts.wants, counts.transfers, counts.readings,
                   (unsigned long long)counts.held_bytes, (unsigned long long)kept);
}

static void check_site_end(pull_run_t *run, const thing_t *thing, const pull_node_t *node) {
    uint64_t birth;
    pull_copy_view_t view;
    pull_node_t *home = run->nodes.items[thing->home];
    if (!pull_object_names(home->pull, &thing->id, host_incarnation(node->host), &birth)) return;
    if (pull_node_is_dead(node) || !pull_copy_look(node->pull, &thing->id, &view) ||
        view.birth != birth || view.is_leaving)
        world_fail(run->world, "object %llu: the home names node %zu, which has no copy",
                   number_of(&thing->id), node->index);
}

static void check_object_end(pull_run_t *run, const thing_t *thing) {
    const pull_node_t *home = run->nodes.items[thing->home];
    pull_object_view_t view;
    if (pull_node_is_dead(home) || !pull_object_look(home->pull, &thing->id, &view)) return;
    size_t primaries = 0;
    for (size_t i = 0; i < run->nodes.count; i++) {
        const pull_node_t *node = run->nodes.items[i];
        pull_copy_view_t copy;
        check_site_end(run, thing, node);
        primaries += !pull_node_is_dead(node) && pull_copy_look(node->pull, &thing->id, &copy) &&
                     copy.is_primary;
    }
    if (view.is_lost || primaries != 1 || view.askers + view.readers > 0)
        world_fail(run->world,
                   "object %llu ends %s, with %zu primaries, %zu askers and %zu readers",
                   number_of(&thing->id), view.is_lost ? "lost" : "there", primaries, view.askers,
                   view.readers);
}

void pull_check_end(pull_run_t *run) {
    for (size_t i = 0; i < run->calls.count; i++) {
        const pull_call_t *call = run->calls.items[i];
        if (pull_node_is_dead(call->node)) continue;
        for (size_t j = 0; j < call->count; j++) {
            const thing_t *thing = &run->things[call->things[j]];
            world_tell(run->world, "node %zu wants object %llu of node %zu, in state %d",
                       call->node->index, number_of(&thing->id), thing->home, thing->state);
        }
        world_fail(run->world, "node %zu: want %llu of class %d has no end, in state %d",
                   call->node->index, (unsigned long long)call->number, call->class,
                   pull_want_state(call->want));
    }
    for (size_t i = 0; i < run->nodes.count; i++)
        if (!pull_node_is_dead(run->nodes.items[i])) check_node_end(run->nodes.items[i]);
    for (size_t i = 0; i < run->thing_count; i++) check_object_end(run, &run->things[i]);
}
