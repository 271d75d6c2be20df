/* Submitting tasks: the submitter fills a record and its slots, publishes them by the record's
 * word, and names the record in a queue or on its ring. */
#include <string.h>

#include "client/client.h"

typedef struct {
    uint32_t record;
    uint64_t generation, block, body_size;
    unsigned char *body;
} draft_t;

static mob_status_t task_check(const mob_task_t *task, bool flows, uint32_t limit) {
    if (task->num_returns > MOB_MAX_RETURNS)
        return base_fail(MOB_EINVAL, "num_returns is %u, the most is %d", task->num_returns,
                         MOB_MAX_RETURNS);
    if (flows && (task->kind == MOB_ACTOR_CREATE || limit > MOB_MAX_LIMIT))
        return base_fail(MOB_EINVAL, limit > MOB_MAX_LIMIT ? "the limit of a flow is too large"
                                                           : "an actor's constructor has no items");
    bool makes_group = task->kind == MOB_GROUP;
    if (task->named != NULL && task->kind != MOB_ACTOR_CREATE && !makes_group)
        return base_fail(MOB_EINVAL, "only a new actor or placement group can be given a name");
    if (task->named != NULL && client_name_check(task->named) != MOB_OK) return MOB_EINVAL;
    if (task->kind == MOB_ACTOR_CREATE && task->num_returns != 1)
        return base_fail(MOB_EINVAL, "creating an actor has one result, the actor");
    if (makes_group && (task->num_returns != 1 || task->dep_count + task->ref_count > 0))
        return base_fail(MOB_EINVAL, "a placement group has one result, and no references");
    if (task->kind == MOB_ACTOR_CREATE && task->retry_exceptions)
        return base_fail(MOB_EINVAL, "an actor whose constructor fails is not made again");
    if (task->name_size > 255)
        return base_fail(MOB_EINVAL, "a name of %zu bytes is longer than 255", task->name_size);
    if (task->dep_count > MOB_MAX_DEPS || task->ref_count > MOB_MAX_DEPS)
        return base_fail(MOB_EINVAL, "more than %d references in one call", MOB_MAX_DEPS);
    for (uint32_t i = 0; i < task->dep_count; i++)
        if (!client_slot_valid(task->deps[i].slot))
            return base_fail(MOB_ESTALE, "argument reference %u names no object", i);
    return MOB_OK;
}

/* What is AWAY may be at another node, and the daemon knows whether the task had better go there.
 */
static bool is_at_hand(const mob_client_t *c, mob_ref_t argument) {
    return client_is_sealed(c, argument) &&
           !(atomic_load_explicit(&c->slots[argument.slot].word, memory_order_relaxed) &
             STORE_AWAY);
}

/* The lane in which workers may take the task by themselves: it has nothing special and nothing to
 * wait for. SHM_NO_LANE: none. */
static uint32_t lane_of(const mob_client_t *c, const mob_task_t *task) {
    if (task->kind != MOB_TASK || task->max_calls != 0 ||
        atomic_load_explicit(&c->node->fast, memory_order_relaxed) == 0)
        return SHM_NO_LANE;
    for (uint32_t i = 0; i < task->dep_count; i++)
        if (!is_at_hand(c, task->deps[i])) return SHM_NO_LANE;
    for (uint32_t lane = c->lanes; lane < c->lanes + SHM_LANES; lane++)
        if (atomic_load_explicit(&c->node->lanes[lane].shape, memory_order_relaxed) ==
            task->shape + 1)
            return lane;
    return SHM_NO_LANE;
}

/* Where the task goes: the number of a queue, this process's own or one of calls; 0: to the
 * daemon. */
static mob_status_t queue_choose(mob_client_t *c, const mob_task_t *task, uint32_t *ret_queue) {
    *ret_queue = 0;
    if (task->kind == MOB_ACTOR_CALL && client_slot_valid(task->actor.slot)) {
        mob_status_t status = client_calls_queue(c, task->actor, ret_queue);
        if (status != MOB_OK) return status;
        if (*ret_queue != 0 && shm_queue_count(&c->queues[*ret_queue]) >= SHM_QUEUE_ENTRIES)
            return base_fail(MOB_ELIMIT, "%d calls of this actor are waiting already",
                             SHM_QUEUE_ENTRIES);
        return MOB_OK;
    }
    uint32_t lane = lane_of(c, task), number = shm_lane_queue(lane, c->number);
    if (lane < SHM_NO_LANE &&
        shm_queue_count(&c->queues[number]) <
            SHM_QUEUE_ENTRIES) /* the count does not grow: this process alone pushes */
        *ret_queue = number;
    return MOB_OK;
}

static mob_status_t draft_begin(mob_client_t *c, const mob_task_t *task, draft_t *draft) {
    mob_status_t status = client_record_take(c, &draft->record);
    if (status != MOB_OK) return status;
    wire_record_t *record = &c->records[draft->record];
    draft->generation =
        wire_word_generation(atomic_load_explicit(&record->word, memory_order_relaxed)) + 1;
    /* The record's last worker freed it and may have died before it freed the body's block. If it
     * did free the block, this is harmless: the tag is another one by now. */
    if (record->block != 0)
        shm_heap_free(&c->heap, record->block, shm_tag(true, draft->record, draft->generation - 1));
    draft->body_size = wire_body_size(task->num_returns, task->dep_count, task->ref_count,
                                      task->name_size, task->args_size);
    draft->block = 0;
    draft->body = record->body;
    if (draft->body_size <= WIRE_RECORD_BODY) return MOB_OK;
    status = shm_heap_alloc(&c->heap, draft->body_size,
                            shm_tag(true, draft->record, draft->generation), &draft->block);
    if (status == MOB_OK) {
        draft->body = c->arena.base + draft->block;
    } else {
        client_record_give(c, draft->record);
    }
    return status;
}

static mob_status_t returns_open(mob_client_t *c, uint32_t count, uint32_t record,
                                 mob_ref_t *refs) {
    for (uint32_t i = 0; i < count; i++) {
        refs[i] = (mob_ref_t){0};
        mob_status_t status = client_slot_take(c, &refs[i].slot);
        if (status != MOB_OK) {
            while (i-- > 0) {
                store_slot_close(&c->slots[refs[i].slot]);
                client_slot_give(c, refs[i].slot);
            }
            return status;
        }
        refs[i].generation = store_slot_open(&c->slots[refs[i].slot]);
        c->slots[refs[i].slot].value.maker = record;
    }
    return MOB_OK;
}

static void body_write(const mob_task_t *task, const mob_ref_t *returns, unsigned char *at) {
    const struct {
        const void *from;
        size_t size;
    } parts[] = {
        {returns, task->num_returns * sizeof *returns},
        {task->deps, task->dep_count * sizeof *task->deps},
        {task->refs, task->ref_count * sizeof *task->refs},
        {task->name, task->name_size},
        {task->args, task->args_size},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].size > 0) memcpy(at, parts[i].from, parts[i].size);
        at += parts[i].size;
    }
}

static void record_write(wire_record_t *record, const mob_task_t *task, const draft_t *draft,
                         bool flows, uint64_t parent) {
    record->block = draft->block;
    record->body_size = draft->body_size;
    record->kind = (uint8_t)task->kind;
    record->flags =
        (uint8_t)((task->retry_exceptions ? WIRE_RETRY_EXCEPTIONS : 0) |
                  (task->out_of_order ? WIRE_OUT_OF_ORDER : 0) | (task->untold ? WIRE_UNTOLD : 0) |
                  (flows ? WIRE_FLOWS : 0) | (task->dynamic ? WIRE_DYNAMIC : 0));
    record->group = task->group;
    record->name_size = (uint8_t)task->name_size;
    record->shape = task->shape;
    record->held_shape = task->held_shape;
    record->max_retries = task->max_retries;
    record->num_returns = task->num_returns;
    record->num_deps = task->dep_count;
    record->num_refs = task->ref_count;
    if (task->kind == MOB_ACTOR_CREATE)
        record->max_concurrency = task->max_concurrency;
    else
        record->max_calls = task->max_calls;
    record->function = task->function;
    record->actor = task->actor;
    record->parent = parent;
    record->start_ns = record->end_ns = 0;
}

static void record_publish(mob_client_t *c, const draft_t *draft, bool known) {
    /* release: a worker that reads READY(generation) reads a whole record */
    atomic_store_explicit(
        &c->records[draft->record].word,
        wire_word(draft->generation, 0, WIRE_READY_STATE | (known ? WIRE_KNOWN : 0)),
        memory_order_release);
}

/* Puts the task into a queue. The daemon has to know of references among the arguments. It reads of
 * them on this process's ring, before any drop of them, and need not wake for it. */
static void draft_queue(mob_client_t *c, const mob_task_t *task, const draft_t *draft,
                        uint32_t queue) {
    if (client_slot_valid(task->function.slot) && client_local_is(c, task->function))
        c->local[task->function.slot].is_function = true;
    if (task->dep_count + task->ref_count > 0)
        client_push_quietly(c, wire_about_record(WIRE_ARGUMENTS, draft->record, draft->generation));
    uint32_t lane = queue / SHM_MAX_CLIENTS; /* the first is never closed */
    if (queue < SHM_FIRST_CALLS) {
        client_queue_push(c, c->lanes + lane, draft->record, draft->generation);
        /* seq_cst: after the push. Either this sees that the daemon has closed the lane, or the
         * daemon, which looks into the queue after that, sees the entry. */
        if (lane > 0 && atomic_load(&c->node->lanes[c->lanes + lane].shape) != task->shape + 1)
            client_push(c, wire_about_record(WIRE_CLOSED, draft->record, draft->generation));
    } else
        client_call_push(c, queue, draft->record, draft->generation);
}

/* `flows`: then ret_refs gets the first item behind the results, and `limit` is the flow's. */
static mob_status_t submit(mob_client_t *c, const mob_task_t *task, bool flows, uint32_t limit,
                           mob_ref_t *ret_refs, mob_ref_t *ret_task_id) {
    mob_status_t status = client_check(c);
    if (status == MOB_OK) status = task_check(task, flows, limit);
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    draft_t draft;
    uint32_t queue;
    status = queue_choose(c, task, &queue);
    if (status == MOB_OK && (queue == 0 || task->dep_count + task->ref_count > 0 || flows))
        status = client_room_await(c);
    if (status == MOB_OK) status = draft_begin(c, task, &draft);
    if (status == MOB_OK) {
        status = returns_open(c, task->num_returns + flows, draft.record, ret_refs);
        if (status != MOB_OK) {
            if (draft.block != 0)
                shm_heap_free(&c->heap, draft.block, shm_tag(true, draft.record, draft.generation));
            client_record_give(c, draft.record);
        }
    }
    if (status != MOB_OK) {
        pthread_mutex_unlock(&c->mutex);
        return status;
    }
    for (uint32_t i = 0; i < task->num_returns + flows; i++) client_local_begin(c, ret_refs[i]);
    if (flows) {
        *ret_task_id = (mob_ref_t){.slot = draft.record, .generation = draft.generation};
        client_flow_note(c);
        store_flow_init(&c->slots[ret_refs[1].slot].value.flow, c->number, limit, ret_refs[2]);
    }
    for (uint32_t i = 0; i < task->dep_count; i++) client_ref_escape(c, task->deps[i]);
    for (uint32_t i = 0; i < task->ref_count; i++)
        if (client_slot_valid(task->refs[i].slot)) client_ref_escape(c, task->refs[i]);
    if (client_slot_valid(task->function.slot)) client_ref_escape(c, task->function);
    /* An actor lives as long as references to it, and any process may ask for a group: the daemon
     * counts them from the start. */
    if (task->kind == MOB_ACTOR_CREATE || task->kind == MOB_GROUP)
        client_ref_escape(c, ret_refs[0]);
    body_write(task, ret_refs, draft.body);
    record_write(&c->records[draft.record], task, &draft, flows, client_parent_of(c, task));
    record_publish(c, &draft, queue == 0 || task->dep_count + task->ref_count > 0);
    if (task->named != NULL) {
        if (client_slot_valid(task->named->info.slot)) client_ref_escape(c, task->named->info);
        status = client_create_named(c, task, draft.record, draft.generation);
        if (status != MOB_OK) client_ref_release(c, ret_refs[0]);
    } else if (queue != 0) {
        draft_queue(c, task, &draft, queue);
    } else {
        client_push(c, wire_about_record(WIRE_SUBMIT, draft.record, draft.generation));
    }
    pthread_mutex_unlock(&c->mutex);
    return status;
}

mob_status_t mob_submit(mob_client_t *c, const mob_task_t *task, mob_ref_t *ret_refs) {
    return submit(c, task, false, 0, ret_refs, NULL);
}

mob_status_t mob_submit_flow(mob_client_t *c, const mob_task_t *task, uint32_t limit,
                             mob_flow_t *ret_flow) {
    mob_task_t flowing = *task;
    mob_ref_t refs[3], task_id;
    flowing.num_returns = 2; /* `done`, and the flow's slot */
    mob_status_t status = submit(c, &flowing, true, limit, refs, &task_id);
    if (status == MOB_OK)
        *ret_flow =
            (mob_flow_t){.done = refs[0], .link = refs[1], .head = refs[2], .task_id = task_id};
    return status;
}

mob_status_t mob_actor_kill(mob_client_t *c, mob_ref_t actor, bool may_restart) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    /* Answered: a process that learns from this one that the actor was killed, and then calls it,
     * must find it dead. */
    wire_message_t m = {.kill = {WIRE_KILL, .slot = actor.slot, .generation = actor.generation,
                                 .may_restart = may_restart}},
                   answer;
    status = client_ask(c, &m, WIRE_ANSWER, &answer);
    pthread_mutex_unlock(&c->mutex);
    return status;
}
