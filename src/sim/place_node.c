/* The room's table of functions, and what the node hears from its host. */
#include "sim/place_node.h"

#include <stdlib.h>
#include <string.h>

enum { TASK = 8 }; /* MESSAGE_TASK, whose frames are counted */

/* ---- lanes ---- */

/* Whether its own scheduler starts it, without a word of the leader. */
static bool runs_here(const node_t *node, const task_t *task) {
    bool is_named = (task->shape == SHAPE_NODE || task->shape == SHAPE_SOFT) &&
                    task->target == host_incarnation(node->host);
    return (is_named || task->shape <= SHAPE_X) && place_node_suits(node, task);
}

static lane_t *lane_of(node_t *node, const task_t *task) {
    for (size_t i = 0; i < node->lanes.count; i++) {
        lane_t *lane = node->lanes.items[i];
        if (lane->job == task->job && lane->shape == task->shape && lane->target == task->target)
            return lane;
    }
    lane_t *lane = world_alloc(node->run->world, sizeof *lane);
    *lane = (lane_t){task->job, task->shape, task->target, NULL, runs_here(node, task), 0};
    frame_amount_t amounts[] = {{"CPU", (uint64_t)place_need_of(task, 0)}, {"X", 1}};
    place_demand_t demand = {.job = node->run->jobs[task->job],
                             .amounts = amounts,
                             .count = task->shape == SHAPE_X ? 2 : 1,
                             .strategy = task->shape == SHAPE_SPREAD ? PLACE_SPREAD
                                         : task->shape == SHAPE_NODE || task->shape == SHAPE_SOFT
                                             ? PLACE_NODE
                                             : PLACE_ANY,
                             .is_soft = task->shape == SHAPE_SOFT,
                             .node = task->target,
                             .hint = task->shape == SHAPE_HINT ? task->target : 0,
                             .selector = task->shape == SHAPE_ZONE ? "zone=a" : NULL,
                             .is_local = lane->is_local};
    if (place_lane_new(node->place, &demand, lane, &lane->lane) != MOB_OK) abort();
    if (!vec_push(&node->lanes, lane)) abort();
    return lane;
}

static void lanes_say(node_t *node) {
    for (size_t i = 0; i < node->lanes.count; i++) node->lanes.items[i]->waiting = 0;
    for (size_t i = 0; i < node->works.count; i++) {
        const work_t *work = node->works.items[i];
        if (work->lane != NULL) work->lane->waiting += place_is_of(work->lane, work);
    }
    for (size_t i = 0; i < node->lanes.count; i++)
        place_lane_waiting(node->place, node->lanes.items[i]->lane, node->lanes.items[i]->waiting,
                           place_node_now_ns(node));
}

work_t *place_own_new(node_t *node, task_t *task, bool may_start) {
    work_t *work = place_work_new(node, task, may_start);
    work->lane = lane_of(node, task);
    return work;
}

void place_node_submit(node_t *node, task_t *task) {
    size_t record = 0;
    while (record < node->records.count && node->records.items[record] != NULL) record++;
    if (record == node->records.count && !vec_push(&node->records, NULL)) abort();
    node->records.items[record] = task;
    task->record = (uint32_t)record;
    if (node->has_ended[task->job]) {
        place_task_end(task, PLACE_CANCELLED);
        return;
    }
    place_own_new(node, task, runs_here(node, task));
    place_node_settle(node);
}

/* ---- what the room asks for ---- */

static void op_send(void *context, uint64_t to, const void *head, size_t head_size,
                    const void *body, size_t body_size, bool is_answer) {
    node_t *node = context;
    uint8_t bytes[4096];
    if (head_size + body_size > sizeof bytes) abort();
    memcpy(bytes, head, head_size);
    if (body_size > 0) memcpy(bytes + head_size, body, body_size);
    static const char *const kinds[] = {"",     "VIEW",   "PROBE", "ASK",  "GRANT",
                                        "OPEN", "CREDIT", "CLOSE", "TASK", "BACK",
                                        "DONE", "BLOCK",  "CANCEL"};
    world_tell(node->run->world, "%llx says %s to %llx",
               (unsigned long long)host_incarnation(node->host), kinds[bytes[0]],
               (unsigned long long)to);
    host_send(node->host, HOST_PLACE, to, bytes, head_size + body_size, is_answer);
    for (size_t i = 0; i < node->silent.count; i++)
        if (node->silent.items[i] == to && bytes[0] == TASK)
            world_fail(node->run->world, "a task was sent to a node that its origin does not hear");
}

static bool op_take(void *context, void *lane, uint64_t to, place_task_t *ret_task) {
    node_t *node = context;
    (void)to;
    size_t i = 0;
    while (i < node->works.count && !place_is_of(lane, node->works.items[i])) i++;
    if (i == node->works.count) return false;
    task_t *task = node->works.items[i]->task;
    place_work_remove(node->works.items[i]);
    task->is_sent = true;
    if (++task->sends > SENDS_MAX)
        world_fail(node->run->world, "task %llu was sent %d times", (unsigned long long)task->id,
                   task->sends);
    if (task->is_cancelled)
        world_fail(node->run->world, "task %llu was sent after it was cancelled",
                   (unsigned long long)task->id);
    *ret_task =
        (place_task_t){task->record, task->retries, task->moves, &task->id, sizeof task->id};
    return true;
}

static task_t *task_at(node_t *node, uint32_t record) {
    task_t *task = record < node->records.count ? node->records.items[record] : NULL;
    if (task == NULL || !task->is_sent)
        world_fail(node->run->world, "record %u came back, which was not sent", record);
    return task;
}

static void op_put_back(void *context, uint32_t record, int32_t retries, uint8_t moves) {
    node_t *node = context;
    task_t *task = task_at(node, record);
    if (task == NULL) return;
    task->is_sent = false;
    task->retries = retries;
    task->moves = moves;
    place_own_new(node, task, runs_here(node, task));
}

static void op_ended(void *context, uint32_t record, place_outcome_t outcome, const void *value,
                     size_t size) {
    node_t *node = context;
    task_t *task = task_at(node, record);
    if (task == NULL) return;
    if (outcome == PLACE_OK && (size != sizeof task->id || memcmp(value, &task->id, size) != 0))
        world_fail(node->run->world, "task %llu ended with another task's value",
                   (unsigned long long)task->id);
    place_task_end(task, outcome);
}

static void op_keep(void *context, void *lane, uint32_t count) {
    node_t *node = context;
    for (size_t i = 0; i < node->works.count && count > 0; i++)
        if (place_is_of(lane, node->works.items[i])) {
            node->works.items[i]->may_start = true;
            count--;
        }
}

static void op_impossible(void *context, void *lane) {
    node_t *node = context;
    for (size_t i = node->works.count; i-- > 0;) {
        work_t *work = node->works.items[i];
        if (!place_is_of(lane, work)) continue;
        work->task->retries = 0;
        place_work_remove(work);
        place_task_end(work->task, PLACE_LOST);
    }
}

static uint32_t op_fits(void *context, const frame_amount_t *amounts, size_t count, uint32_t most) {
    node_t *node = context;
    (void)amounts;
    return node->is_sick && count > 1 ? 0 : most;
}

static void op_free_amounts(void *context, int64_t *ret_free) {
    memcpy(ret_free, ((node_t *)context)->free, sizeof((node_t *)context)->free);
}

static mob_status_t op_admit(void *context, place_guest_t *guest, uint64_t origin,
                             const void *frame, size_t size, void **ret_task) {
    node_t *node = context;
    uint64_t id;
    (void)origin;
    if (size != sizeof id) return MOB_EPROTO;
    memcpy(&id, frame, sizeof id);
    work_t *work = place_work_new(node, node->run->tasks.items[id - 1], false);
    work->guest = guest;
    work->is_guest = true;
    *ret_task = work;
    return MOB_OK;
}

static void op_refuse(void *context, uint64_t origin, const void *frame, size_t size) {
    (void)origin, (void)frame, (void)size;
    ((node_t *)context)->accounted++;
}

static void op_queue(void *context, void *task) {
    node_t *node = context;
    work_t *work = task;
    uint32_t credits, used;
    place_guest_credits(work->guest, &credits, &used);
    if (used > credits * (1 + PLACE_QUEUE_MAX))
        world_fail(node->run->world, "%u guests of a lease of %u", used, credits);
    work->may_start = true;
}

static bool op_unqueue(void *context, void *task) {
    (void)context;
    work_t *work = task;
    if (work->is_running) return false;
    work->may_start = false;
    return true;
}

static void op_drop(void *context, void *task) {
    node_t *node = context;
    work_t *work = task;
    work->guest = NULL;
    if (work->is_running) return; /* nobody waits for it any more */
    node->accounted++;
    place_work_remove(work);
}

static void op_stop(void *context, void *task, uint32_t how) {
    (void)context, (void)how;
    place_work_stop(task);
}

static bool op_matches(void *context, const char *labels, const char *selector) {
    (void)context;
    return strcmp(labels, selector) == 0;
}

static const place_ops_t ops = {
    .send = op_send,
    .take = op_take,
    .put_back = op_put_back,
    .ended = op_ended,
    .keep = op_keep,
    .impossible = op_impossible,
    .fits = op_fits,
    .free_amounts = op_free_amounts,
    .admit = op_admit,
    .refuse = op_refuse,
    .queue = op_queue,
    .unqueue = op_unqueue,
    .drop = op_drop,
    .stop = op_stop,
    .matches = op_matches,
};

/* ---- its course ---- */

static void timer(void *context, uint64_t due_ns) {
    node_t *node = context;
    if (node->timer_ns == due_ns) node->timer_ns = 0;
    place_node_settle(node);
}

static void timer_set(node_t *node) {
    uint64_t due = place_due_ns(node->place), now = place_node_now_ns(node);
    if (due == UINT64_MAX || (node->timer_ns != 0 && node->timer_ns <= due)) return;
    node->timer_ns = due;
    machine_later(host_machine(node->host), due > now ? due - now + due / 500 % 1000 + 1 : 1, 0,
                  timer, node, due);
}

void place_node_settle(node_t *node) {
    if (node->is_settling) return;
    node->is_settling = true;
    for (int i = 0; i < 3; i++) {
        while (place_schedule_one(node)) {
        }
        lanes_say(node);
        place_tick(node->place, place_node_now_ns(node));
    }
    while (place_schedule_one(node)) {
    }
    timer_set(node);
    node->is_settling = false;
}

void place_node_cancel(node_t *node, task_t *task) {
    if (task->has_ended || task->is_cancelled || !machine_is_up(host_machine(node->host))) return;
    task->is_cancelled = true;
    if (!task->is_sent) {
        size_t i = 0;
        while (i < node->works.count && node->works.items[i]->task != task) i++;
        task->is_cancelled = i < node->works.count; /* else it is not there yet */
        if (!task->is_cancelled) return;
        work_t *work = node->works.items[i];
        if (work->is_running) {
            place_work_stop(work);
        } else {
            place_work_remove(work);
            place_task_end(task, PLACE_CANCELLED);
        }
    } else if (!place_cancel(node->place, task->record, PLACE_STOP_FORCE)) {
        world_fail(node->run->world, "a sent task is not known");
    }
    place_node_settle(node);
}

void place_node_job_end(node_t *node, int job) {
    if (node->has_ended[job]) return;
    node->has_ended[job] = true;
    if (place_job_end(node->place, node->run->jobs[job]) != MOB_OK) abort();
    for (size_t i = node->works.count; i-- > 0;) {
        work_t *work = node->works.items[i];
        if (work->is_guest || work->task->job != job) continue;
        if (work->is_running) {
            place_work_stop(work);
            continue;
        }
        place_work_remove(work);
        place_task_end(work->task, PLACE_CANCELLED);
    }
    place_node_settle(node);
}

/* ---- what the node hears ---- */

static void receive(void *room, uint64_t from, uint64_t sequence, const void *bytes, size_t size) {
    node_t *node = room;
    (void)sequence;
    node->received += *(const uint8_t *)bytes == TASK;
    if (place_receive(node->place, from, bytes, size, place_node_now_ns(node)) != MOB_OK)
        world_fail(node->run->world, "a message was not understood: kind %d", *(uint8_t *)bytes);
    place_node_settle(node);
}

static void joined(void *room, uint64_t peer) {
    node_t *node = room;
    if (place_peer_joined(node->place, peer) != MOB_OK) abort();
    place_node_settle(node);
}

static void died(void *room, uint64_t peer, uint64_t number) {
    node_t *node = room;
    (void)number;
    place_peer_died(node->place, peer);
    place_node_settle(node);
}

static void paused(void *room, bool is_paused) {
    node_t *node = room;
    node->is_paused = is_paused;
    place_paused(node->place, is_paused);
    place_node_settle(node);
}

static void leads(void *room, uint64_t leader, uint64_t fence) {
    node_t *node = room;
    place_leads(node->place, leader, fence);
    place_node_settle(node);
}

static void silent(void *room, uint64_t peer, bool is_silent) {
    node_t *node = room;
    for (size_t i = node->silent.count; i-- > 0;)
        if (node->silent.items[i] == peer) vec_swap_remove(&node->silent, i);
    if (is_silent && !vec_push(&node->silent, peer)) abort();
    place_peer_silent(node->place, peer, is_silent);
    place_node_settle(node);
}

static const host_room_ops_t room_ops = {.receive = receive,
                                         .joined = joined,
                                         .died = died,
                                         .paused = paused,
                                         .leads = leads,
                                         .silent = silent};

node_t *place_node_new(run_t *run, int64_t cpus, int64_t xs, bool is_zone_a) {
    node_t *node = world_alloc(run->world, sizeof *node);
    node->run = run;
    node->host = host_new(run->cluster);
    node->place = place_new(&ops, node, host_incarnation(node->host));
    node->total[0] = node->free[0] = cpus;
    node->total[1] = node->free[1] = xs;
    node->is_zone_a = is_zone_a;
    frame_amount_t totals[] = {{"CPU", (uint64_t)cpus}, {"X", (uint64_t)xs}};
    if (node->place == NULL || place_resources_set(node->place, totals, RESOURCES,
                                                   is_zone_a ? "zone=a" : "zone=b") != MOB_OK)
        abort();
    host_room(node->host, HOST_PLACE, &room_ops, node);
    if (!vec_push(&run->nodes, node)) abort();
    place_node_settle(node);
    return node;
}

void place_node_lanes_free(node_t *node) {
    for (size_t i = 0; i < node->lanes.count; i++)
        place_lane_free(node->place, node->lanes.items[i]->lane);
    node->lanes.count = 0;
    place_node_settle(node);
}

void place_node_free(node_t *node) {
    place_free(node->place);
    vec_free(&node->works);
    vec_free(&node->records);
    vec_free(&node->lanes);
    vec_free(&node->silent);
}
