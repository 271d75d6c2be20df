/*
 * A run: a record that this worker has claimed, until it publishes the results or gives the record
 * back.
 *
 * Publishing: the worker writes the results into their slots while those are PENDING, which only
 * the record's holder may do. Then the record's DONE commits all of them at once. Then the worker
 * seals each slot's word and wakes its waiters. Then it tells the daemon. If the worker dies before
 * DONE, nothing has happened and the task may be run again. If it dies after DONE, the daemon seals
 * the slots that the worker did not; to seal one twice is harmless.
 *
 * A worker has one run at a time, unless it is an actor that runs several calls at once. The CPUs
 * that it holds are lent while all of its runs wait.
 */
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/utf8.h"
#include "client/client.h"

/* the public part comes first */
static client_run_t *run_of(const mob_run_t *run) { return (client_run_t *)run; }

/* The record holds the references of a run until DONE. This worker registers before that those
 * which outlive the run. */
static void refs_hold(mob_client_t *c, const mob_ref_t *refs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (client_slot_valid(refs[i].slot)) client_ref_retain(c, refs[i]);
}

static void refs_release(mob_client_t *c, const mob_ref_t *refs, uint32_t count, bool is_function) {
    for (uint32_t i = 0; i < count; i++) {
        if (!client_slot_valid(refs[i].slot)) continue;
        client_local_t *local = &c->local[refs[i].slot];
        if (client_local_is(c, refs[i]) && local->count > 1 && !local->owned &&
            !local->registered) {
            local->registered = true;
            client_push(c, (wire_message_t){.hold = {WIRE_HOLD, .slot = refs[i].slot,
                                                     .generation = refs[i].generation,
                                                     .cached = is_function}});
        }
        client_ref_release(c, refs[i]);
    }
}

/* A client_run_t that is not in use, with space for so many results; NULL: no memory. It is in use
 * once the caller takes it off the list. */
static client_run_t *run_prepare(mob_client_t *c, uint32_t num_returns) {
    client_run_t *run = c->free_runs;
    if (run == NULL) {
        if ((run = calloc(1, sizeof *run)) == NULL) return NULL;
        run->next = c->runs;
        c->runs = c->free_runs = run;
    }
    if (run->result_capacity < num_returns) {
        client_result_t *grown = realloc(run->results, num_returns * sizeof *grown);
        if (grown == NULL) return NULL;
        run->results = grown;
        run->result_capacity = num_returns;
    }
    return run;
}

void client_runs_free(mob_client_t *c) {
    while (c->runs != NULL) {
        client_run_t *run = c->runs;
        c->runs = run->next;
        free(run->results);
        free(run);
    }
    c->free_runs = NULL;
}

/* ---- a run's life ---- */

/* Says how many calls run: an actor's taker may rest while its other threads work. */
static void calls_publish(mob_client_t *c) {
    if (c->limit > 1) atomic_store(&c->node->leases[c->number].calls, c->running);
}

/* Whether a record from a queue is what the queue is for: a task, or a call of the actor that this
 * process is. The daemon has checked the records that it tells a worker to run. A queue says what
 * its producer wrote. */
static bool is_for_us(const mob_client_t *c, const client_order_t *order,
                      const wire_record_t *copy) {
    if (!order->taken) return true;
    if (order->leased) {
        /* A lane that was closed for another shape, and given to this one, may have an entry of the
         * other, whose submitter tells the daemon of it. */
        uint32_t shape = atomic_load(&c->node->lanes[client_lane((mob_client_t *)c)].shape);
        return copy->kind == MOB_TASK && (shape == 0 || shape == copy->shape + 1);
    }
    return copy->kind == MOB_ACTOR_CALL && copy->actor.slot == c->actor.slot &&
           copy->actor.generation == c->actor.generation;
}

/* What its user sees of it. */
static mob_run_t run_view(const mob_client_t *c, const client_order_t *order,
                          const wire_record_t *copy, const wire_body_t *body, uint64_t start_ns) {
    bool flows = (copy->flags & WIRE_FLOWS) && copy->num_returns == 2;
    size_t shown = strnlen(body->name, copy->name_size);
    size_t skip = shown < copy->name_size ? shown + 1 : 0; /* to the method: see mob_task_t */
    return (mob_run_t){
        .kind = (mob_kind_t)copy->kind,
        .function = copy->function,
        .actor = copy->kind == MOB_ACTOR_CREATE ? body->returns[0] : copy->actor,
        .task_id = {.slot = order->record, .generation = order->generation},
        .name = body->name,
        .name_size = shown,
        .method = body->name + skip,
        .method_size = copy->name_size - skip,
        .gpu_mask = order->gpu_mask,
        .shape = copy->shape,
        .held_shape = copy->held_shape,
        /* an actor that is made again has its value: nothing is published */
        .num_returns = order->made ? 0
                       : flows     ? 1
                                   : copy->num_returns,
        .flows = flows,
        .dynamic = copy->flags & WIRE_DYNAMIC,
        .max_calls = copy->kind == MOB_TASK ? copy->max_calls : 0,
        .max_concurrency = copy->kind == MOB_ACTOR_CREATE ? copy->max_concurrency : 0,
        .group = copy->kind == MOB_ACTOR_CALL ? client_group_of(c, copy) : 0,
        .may_retry = (copy->flags & WIRE_RETRY_EXCEPTIONS) && order->may_retry,
        .restarted = order->restarted,
        .args = body->args,
        .args_size = body->args_size,
        .deps = body->deps,
        .dep_count = copy->num_deps,
        .ref_count = copy->num_refs,
        .start_ns = start_ns,
    };
}

/* A run that follows at once begins when the last one ended: so the clock is read once a run. (In a
 * loop other things may go on in between.) */
static uint64_t run_clock(mob_client_t *c) {
    bool at_once = c->ended_ns != 0 && c->limit == 1 && !c->has_loop;
    uint64_t start_ns = at_once ? c->ended_ns : base_clock_wall_ns();
    c->ended_ns = 0; /* this run may be given back instead of ending */
    return start_ns;
}

/* The record is this worker's: the run begins. */
static void run_begin(mob_client_t *c, client_run_t *run, const client_order_t *order,
                      const wire_record_t *copy, const wire_body_t *body) {
    wire_record_t *record = &c->records[order->record];
    c->free_runs = run->next_free;
    if (order->leased && c->looking_lane == client_lane(c))
        client_looking_set(c, false); /* client_queue_take looks at those queues next */
    else
        client_looking_end(c); /* also if this worker's lease is for another lane by now */
    record->start_ns = run_clock(c);
    run->record = order->record;
    run->generation = order->generation;
    run->taken = order->taken;
    run->leased = order->leased;
    run->body = *body;
    run->failed = run->large = run->cancelled = run->interrupted = run->remakeable = run->raised =
        false;
    run->repeatable = copy->kind == MOB_TASK && copy->max_retries != 0;
    if (order->leased) client_lease_run(c, order->record + 1);
    run->run = run_view(c, order, copy, body, record->start_ns);
    if (copy->num_returns > 0) memset(run->results, 0, copy->num_returns * sizeof *run->results);
    client_maker_begin(c, run, run->run.flows);
    refs_hold(c, body->deps, copy->num_deps);
    refs_hold(c, body->refs, copy->num_refs);
    refs_hold(c, &run->run.function, 1);
    c->leased = order->leased;
    if (copy->kind != MOB_ACTOR_CALL) c->holds = copy->shape;
    if (copy->kind == MOB_ACTOR_CREATE) {
        c->actor = run->run.actor;
        c->out_of_order = copy->flags & WIRE_OUT_OF_ORDER;
    }
    if (copy->kind == MOB_ACTOR_CALL) client_group_begin(c, run->run.group);
    client_lending_begin(c, run->run.task_id);
    calls_publish(c);
    client_lending_settle(c);
    c->claimed = &run->run;
    client_title_run(c, &run->run);
}

bool client_run_claim(mob_client_t *c, const client_order_t *order) {
    wire_record_t *record = &c->records[order->record];
    uint64_t ready = wire_word(order->generation, 0, WIRE_READY_STATE);
    /* acquire: pairs with the submitter's release of the whole record */
    if ((atomic_load_explicit(&record->word, memory_order_acquire) & ~(uint64_t)WIRE_KNOWN) !=
        ready)
        return false;
    /* Each number is read once: the submitter, whose record it is, can change it at any time. */
    wire_record_t copy;
    memcpy(&copy, record, offsetof(wire_record_t, body));
    if (!is_for_us(c, order, &copy)) return false;
    const void *start = copy.block ? (const void *)(c->arena.read_only + copy.block) : record->body;
    wire_body_t body;
    client_run_t *run = NULL;
    /* Read before the claim. Another worker may claim the record first and free it, and its owner
     * may fill it anew: then what was read is void, and the claim, which comes last, fails. */
    if (copy.kind > MOB_ACTOR_CALL ||
        wire_body_split(&copy, start, copy.body_size, &body) != MOB_OK ||
        (run = run_prepare(c, copy.num_returns)) == NULL) {
        c->run_unclaimable =
            wire_word_is(atomic_load(&record->word), order->generation, WIRE_READY_STATE);
        c->told_to_exit |= c->run_unclaimable;
        return false;
    }
    if (!wire_record_move(record, ready, wire_word(order->generation, c->number, WIRE_TAKEN), NULL))
        return false;
    run_begin(c, run, order, &copy, &body);
    return true;
}

mob_status_t mob_run_result_begin(mob_client_t *c, mob_run_t *run, uint32_t index, uint64_t size,
                                  uint32_t ref_count, mob_buffer_t *ret_buffer) {
    mob_ref_t ref = run_of(run)->body.returns[index];
    /* A value that goes into the slot itself takes nothing that threads share: no lock. */
    if (size <= STORE_INLINE && ref_count == 0)
        return client_buffer_begin(c, ref, size, 0, ret_buffer);
    for (;;) {
        pthread_mutex_lock(&c->mutex);
        mob_status_t status = client_buffer_begin(c, ref, size, ref_count, ret_buffer);
        pthread_mutex_unlock(&c->mutex);
        /* A stopped daemon is no reason to lose a result: it goes on, or this worker ends too. */
        if (status != MOB_ESTOPPED) return status;
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

static void failure_note(client_run_t *run, mob_status_t error) {
    run->failed |= error != MOB_OK;
    run->raised |= run->run.kind != MOB_ACTOR_CALL && (error == MOB_ETASK || error == MOB_EACTOR);
}

void mob_run_result_commit(mob_client_t *c, mob_run_t *public_run, uint32_t index,
                           mob_buffer_t *buffer, mob_format_t format, mob_status_t error,
                           const mob_ref_t *refs) {
    client_run_t *run = run_of(public_run);
    store_slot_t *slot = &c->slots[buffer->ref.slot];
    if (run->told && error != MOB_OK) store_slot_see(slot); /* whoever reads the items is told */
    if (buffer->block == 0 && buffer->file == 0 && !run->results[index].has_block &&
        run->results[index].file == 0) {
        /* the run and its slots belong to this thread */
        client_buffer_store(c, buffer, format, error, refs);
        failure_note(run, error);
        return;
    }
    /* An error may replace a result until the run is finished. */
    if (run->results[index].file != 0) client_large_end(c, run->results[index].file, true);
    pthread_mutex_lock(&c->mutex);
    if (run->results[index].has_block)
        shm_heap_free(&c->heap, slot->value.large.block,
                      shm_tag(false, buffer->ref.slot, buffer->ref.generation));
    if (buffer->cold) client_buffer_told(c, buffer);
    client_buffer_store(c, buffer, format, error, refs);
    for (uint32_t i = 0; i < buffer->ref_count; i++)
        if (client_slot_valid(refs[i].slot)) client_ref_escape(c, refs[i]);
    bool escaped = buffer->ref_count > 0 || buffer->file != 0;
    run->results[index].has_block = buffer->block != 0;
    run->results[index].file = buffer->file;
    run->results[index].escaped |= escaped;
    run->large |= buffer->file != 0;
    run->remakeable |= run->repeatable && buffer->block != 0 && buffer->size >= WIRE_LINEAGE_LEAST;
    failure_note(run, error);
    /* Now, and not when the run is finished: this worker's own references may go before that, and
     * the daemon must read their drops after this. */
    if (escaped) client_push(c, client_escape_of(buffer));
    pthread_mutex_unlock(&c->mutex);
}

/* The run's results that lie in files are written, or void (`drop`). */
static void files_end(mob_client_t *c, const client_run_t *run, bool drop) {
    for (uint32_t i = 0; run->large && i < run->run.num_returns; i++)
        if (run->results[i].file != 0) client_large_end(c, run->results[i].file, drop);
}

/* Before the worker tells the run's end: lets go of what the run held, and settles what it lent. */
static void run_end(mob_client_t *c, client_run_t *run) {
    if (run->flow != NULL) client_maker_end(c, run);
    refs_release(c, run->body.deps, run->run.dep_count, false);
    refs_release(c, run->body.refs, run->run.ref_count, false);
    refs_release(c, &run->run.function, 1, true);
    if (run->run.kind == MOB_ACTOR_CALL) client_group_end(c, run->run.group);
    client_lending_end(c);
    calls_publish(c);
    client_lending_settle(c);
}

/* After the worker has told the run's end. */
static void run_close(mob_client_t *c, client_run_t *run) {
    if (run->leased) client_lease_run(c, 0);
    run->generation = 0; /* a cancel that comes now is too late */
    if (run->cancelled && !run->interrupted) c->cancelled--;
    run->next_free = c->free_runs;
    c->free_runs = run;
    if ((c->has_loop || c->limit > 1) && c->running == 0) client_title_rest(c);
    /* A loop looks again only if it is told. The taker may wait for just this: that the last run is
     * over. */
    if (c->awaits_end || (c->told_to_exit && c->has_loop))
        shm_bell_ring(&c->node->bells[c->number]);
}

void client_result_settle(mob_client_t *c, mob_ref_t ref, uint64_t word) {
    store_slot_t *slot = &c->slots[ref.slot];
    bool dropped = word & STORE_DROPPED;
    if ((word & STORE_WATCHED) ||
        (dropped && ((word & STORE_ESCAPED) || store_is_untold(word, slot->meta)))) {
        client_push(c, wire_about_object(WIRE_SEALED, ref.slot, ref.generation));
    } else if (dropped) {
        /* The last reference to the result went while the task ran. Block first, as in ref.c. */
        if (!store_meta_inline(slot->meta))
            shm_heap_free(&c->heap, slot->value.large.block,
                          shm_tag(false, ref.slot, ref.generation));
        store_slot_close(slot);
    }
}

/* The run's line for the timeline. */
static void event_tell(mob_client_t *c, const client_run_t *run, wire_record_t *record) {
    if (record->flags & WIRE_UNTOLD) return;
    shm_event_t *e = shm_events_next(c->events);
    for (int tries = 0; e == NULL; tries++) {
        /* Full: the daemon was told before, and never waits for a worker. So this ends, unless the
         * daemon is stopped: then it ends when the daemon goes on, or with it. */
        if (tries == 0) client_push(c, wire_plain(WIRE_EVENTS));
        if (tries % 64 == 63 && !client_daemon_alive(c)) return;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        e = shm_events_next(c->events);
    }
    e->start_ns = record->start_ns;
    e->end_ns = record->end_ns;
    e->kind = record->kind;
    /* The size as it was at the claim: the submitter can still write to the record. */
    size_t size = run->run.name_size;
    if (size > sizeof e->name) size = base_utf8_whole(run->run.name, sizeof e->name);
    memcpy(e->name, run->run.name, size);
    e->name_size = (uint8_t)size;
    if (shm_events_publish(c->events)) client_push(c, wire_plain(WIRE_EVENTS));
    record->flags |= WIRE_TOLD; /* the record may become KNOWN yet, and then the daemon ends it */
}

/* Ends a run that the daemon does not know: frees the record. False if it is KNOWN by now. */
static bool record_free(mob_client_t *c, const client_run_t *run, wire_record_t *record) {
    uint64_t block = record->block, done = wire_word(run->generation, c->number, WIRE_DONE_STATE);
    /* release: all that this worker wrote comes before the record's next life */
    if (!atomic_compare_exchange_strong_explicit(&record->word, &done,
                                                 wire_word(run->generation, 0, WIRE_FREE),
                                                 memory_order_release, memory_order_relaxed))
        return false;
    /* After the record: until then the daemon may have to read the body. If this worker is killed
     * in between, the record's owner frees the block. */
    if (block != 0) shm_heap_free(&c->heap, block, shm_tag(true, run->record, run->generation));
    return true;
}

/* The daemon is to keep the task's frame, from which a result that is lost is made again, or a
 * person runs a task that failed. So it has to hear of the task's end. */
static void keeping_ask(mob_client_t *c, const client_run_t *run, wire_record_t *record) {
    if (run->raised) record->flags |= WIRE_RAISED;
    /* It fails if the record is KNOWN already, or is the daemon's by now. */
    (void)wire_record_make_known(record, wire_word(run->generation, c->number, WIRE_TAKEN));
    /* Before the results are seen: a process that drops a result says so after this, so the daemon
     * has read this when it frees the result. */
    if (run->remakeable) client_push(c, wire_about_record(WIRE_KEEP, run->record, run->generation));
}

void mob_run_finish(mob_client_t *c, mob_run_t *public_run) {
    client_run_t *run = run_of(public_run);
    wire_record_t *record = &c->records[run->record];
    files_end(c, run, false);
    client_maker_abort(c, run);
    pthread_mutex_lock(&c->mutex);
    record->end_ns = c->ended_ns = base_clock_wall_ns();
    run_end(c, run);
    if (run->run.kind == MOB_ACTOR_CREATE) {
        c->holds = run->run.held_shape;
        if (run->run.max_concurrency > 0 && c->groups.count == 0)
            c->limit = run->run.max_concurrency;
    }
    /* Before the results are seen: a submitter that waits for them may push the next task at once,
     * and then need wake nobody. */
    /* If there was another entry, it most likely still is there: this worker's next take decides,
     * and it need not look into the queues now. If another worker has taken the entry, a push wakes
     * a worker without need. */
    if (run->leased && !c->queue_has_next && !client_queues_have(c, client_lane(c)))
        client_looking_set(c, true);
    bool known = false, crowd = run->failed;
    if (run->flow != NULL) client_maker_end_write(c, run);
    if (run->remakeable || run->raised) keeping_ask(c, run, record);
    /* release: the results come first. The move can only fail if the daemon takes this worker for
     * dead, or has cancelled the task by force; then it soon is, and takes no other run. */
    if (wire_record_move(record, wire_word(run->generation, c->number, WIRE_TAKEN),
                         wire_word(run->generation, c->number, WIRE_DONE_STATE), &known)) {
        known |= !run->taken; /* the daemon told this worker to run it */
        /* before the results: a process that has seen those finds the run in the timeline */
        if (!known) event_tell(c, run, record);
        /* whoever sees that the task is over finds the end of its items */
        if (run->flow != NULL) crowd |= client_maker_end_publish(c, run);
        for (uint32_t i = 0; i < run->run.num_returns; i++) {
            mob_ref_t ref = run->body.returns[i];
            uint64_t word = store_slot_seal(&c->slots[ref.slot], run->results[i].escaped);
            crowd |= client_wake(c, word);
            if (!known)
                client_result_settle(c, ref, word | (run->results[i].escaped ? STORE_ESCAPED : 0));
        }
        if (run->flow != NULL) {
            mob_ref_t flow = run->body.returns[1];
            uint64_t word = store_slot_seal(&c->slots[flow.slot], false);
            if (!known) client_result_settle(c, flow, word);
        }
        if (!known && record_free(c, run, record)) {
            if (crowd) client_push(c, wire_plain(WIRE_RING));
        } else {
            client_push(c,
                        (wire_message_t){.done = {WIRE_DONE, .record = run->record,
                                                  .generation = run->generation, .crowd = crowd}});
        }
    } else {
        c->told_to_exit = c->run_unclaimable = true;
    }
    run_close(c, run);
    pthread_mutex_unlock(&c->mutex);
}

_Static_assert(MOB_STORY_MAX <= SHM_SCRATCH_BYTES, "a story fits into the scratch page");

/* Sends words in the scratch page; the daemon answers when it has read them. What it answered; 0
 * too if it is gone. Under the mutex. */
static uint64_t words_tell(mob_client_t *c, uint32_t kind, const client_run_t *run,
                           const char *text, size_t size) {
    char *space = (char *)c->own_segment.base + SHM_CLIENT_SCRATCH;
    if (size > MOB_STORY_MAX) {
        /* The beginning says which task failed, the end says how. */
        size_t head = base_utf8_whole(text, MOB_STORY_MAX / 4), rest = MOB_STORY_MAX / 2;
        const char *tail = text + size - rest;
        while (rest > 0 && (*tail & 0xc0) == 0x80) tail++, rest--;
        memcpy(space, text, head);
        memcpy(space + head, "\n...\n", 5);
        memcpy(space + head + 5, tail, rest);
        size = head + 5 + rest;
    } else if (size > 0) {
        memcpy(space, text, size);
    }
    wire_message_t request = {.failure = {kind, run->record, run->generation, size}};
    return client_report(c, &request);
}

bool mob_run_retry(mob_client_t *c, mob_run_t *public_run, const char *text, size_t size) {
    client_run_t *run = run_of(public_run);
    if (!run->run.may_retry) return false;
    files_end(c, run, true);
    client_maker_abort(c, run);
    pthread_mutex_lock(&c->mutex);
    for (uint32_t i = 0; i < run->run.num_returns; i++) {
        mob_ref_t ref = run->body.returns[i];
        if (run->results[i].has_block)
            shm_heap_free(&c->heap, c->slots[ref.slot].value.large.block,
                          shm_tag(false, ref.slot, ref.generation));
    }
    run_end(c, run);
    /* The task goes through the daemon from now on. */
    wire_record_make_known(&c->records[run->record],
                           wire_word(run->generation, c->number, WIRE_TAKEN));
    uint64_t again = words_tell(c, WIRE_RETRY, run, text, size);
    if (again != 0) client_order_again(c, run->record, again >> 1, again & 1);
    run_close(c, run);
    pthread_mutex_unlock(&c->mutex);
    return true;
}

void mob_run_failed(mob_client_t *c, mob_run_t *run, const char *text, size_t size) {
    pthread_mutex_lock(&c->mutex);
    failure_note(run_of(run), MOB_ETASK);
    (void)words_tell(c, WIRE_FAILED, run_of(run), text, size);
    pthread_mutex_unlock(&c->mutex);
}
