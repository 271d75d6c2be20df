/*
 * A worker's side of a task: claim the record, run, publish.
 *
 * Publishing: results are written into their slots while those are PENDING, which only the record's holder may do. Then the record's DONE commits all of
 * them at once; then each slot's word is sealed and its waiters are woken; then the daemon is told. If we die before DONE, nothing happened and
 * the task may be run again; after it, the daemon seals what we did not, which is harmless when repeated.
 *
 * Jobs come in two ways. The daemon tells us to run a record; or, while we have a lease, we take it from its submitter's queue. The second kind never meets the daemon unless its
 * record is KNOWN: we free the record ourselves, and leave a line about the run where the daemon will read it.
 */
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "client/client.h"

/* The references of a running job are held by its record until DONE. What outlives the job is registered before. */
static void job_refs_hold(mob_client_t *c, const mob_ref_t *refs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (client_slot_valid(refs[i].slot)) client_ref_retain(c, refs[i].slot);
}

static void job_refs_release(mob_client_t *c, const mob_ref_t *refs, uint32_t count, bool is_function) {
    for (uint32_t i = 0; i < count; i++) {
        if (!client_slot_valid(refs[i].slot)) continue;
        client_local_t *local = &c->local[refs[i].slot];
        if (local->count > 1 && !local->owned && !local->registered) {
            local->registered = true;
            client_push(c, WIRE_HOLD, refs[i].slot, refs[i].generation, is_function, 0);
        }
        client_ref_release(c, refs[i].slot);
    }
}

static bool results_reserve(mob_client_t *c, uint32_t count) {
    if (c->job_result_capacity >= count) return true;
    client_result_t *grown = realloc(c->job_results, count * sizeof *grown);
    if (grown == NULL) return false;
    c->job_results = grown;
    c->job_result_capacity = count;
    return true;
}

/* How a job came to us. */
typedef struct {
    uint32_t record;
    uint64_t generation, gpu_mask;
    bool may_retry, taken, leased;
} order_t;

/* Claims a record. False: somebody else has it, or it was taken back. What can fail is done before the claim, and then this worker ends, so that
 * the task, which is not begun, goes to another. */
static bool job_claim(mob_client_t *c, const order_t *order) {
    wire_record_t *record = &c->records[order->record];
    uint64_t ready = wire_word(order->generation, 0, WIRE_READY_STATE);
    /* acquire: pairs with the submitter's release of the whole record */
    if ((atomic_load_explicit(&record->word, memory_order_acquire) & ~(uint64_t)WIRE_KNOWN) != ready) return false;
    const void *body = record->block ? (const void *)(c->arena.read_only + record->block) : record->body;
    /* Read before the claim: whoever takes it from us then may let it be filled anew, and what we read is void; so the claim comes last. */
    if (wire_body_split(record, body, record->body_size, &c->job_body) != MOB_OK ||
        !results_reserve(c, record->num_returns)) {
        c->job_unclaimable = wire_word_is(atomic_load(&record->word), order->generation, WIRE_READY_STATE);
        c->told_to_exit |= c->job_unclaimable;
        return false;
    }
    if (!wire_record_move(record, ready, wire_word(order->generation, c->number, WIRE_TAKEN), NULL)) return false;
    if (order->leased)
        client_looking(c, false); /* a look at the queues follows */
    else
        client_looked(c);
    record->start_ns = base_clock_wall_ns();
    c->job_record = order->record;
    c->job_generation = order->generation;
    c->job_taken = order->taken;
    c->job_leased = order->leased;
    if (order->leased) client_lease_job(c, order->record + 1);
    c->job = (mob_job_t){
        .kind = (mob_kind_t)record->kind,
        .function = record->function,
        .actor = record->kind == MOB_ACTOR_CREATE ? c->job_body.returns[0] : record->actor,
        .task_id = {.slot = order->record, .generation = order->generation},
        .name = c->job_body.name,
        .name_size = record->name_size,
        .gpu_mask = order->gpu_mask,
        .shape = record->shape,
        .held_shape = record->held_shape,
        .num_returns = record->num_returns,
        .max_calls = record->max_calls,
        .may_retry = (record->flags & WIRE_RETRY_EXCEPTIONS) && order->may_retry,
        .args = c->job_body.args,
        .args_size = c->job_body.args_size,
        .deps = c->job_body.deps,
        .dep_count = record->num_deps,
        .ref_count = record->num_refs,
        .start_ns = record->start_ns,
    };
    c->job_returns = c->job_body.returns;
    c->job_failed = false;
    if (record->num_returns > 0) memset(c->job_results, 0, record->num_returns * sizeof *c->job_results);
    job_refs_hold(c, c->job_body.deps, record->num_deps);
    job_refs_hold(c, c->job_body.refs, record->num_refs);
    job_refs_hold(c, &c->job.function, 1);
    c->busy = true;
    c->job_number++;
    return true;
}

/* What was handed to us behind another may need the results of that one, which may have to run again. */
static bool arguments_are_there(mob_client_t *c, const order_t *order) {
    const wire_record_t *record = &c->records[order->record];
    const void *body = record->block ? (const void *)(c->arena.read_only + record->block) : record->body;
    wire_body_t parts;
    if (record->num_deps == 0 || wire_body_split(record, body, record->body_size, &parts) != MOB_OK) return true;
    for (uint32_t i = 0; i < record->num_deps; i++)
        if (client_slot_valid(parts.deps[i].slot) && client_is_pending(c, parts.deps[i])) return false;
    return true;
}

static bool run_claim(mob_client_t *c, const shm_message_t *run) {
    order_t order = {.record = run->a < WIRE_MAX_RECORDS ? run->a : 0,
                     .generation = run->b,
                     .gpu_mask = run->c,
                     .may_retry = run->d != 0};
    uint64_t word = atomic_load_explicit(&c->records[order.record].word, memory_order_acquire);
    if (!wire_word_is(word, order.generation, WIRE_READY_STATE)) return false; /* taken back */
    if (!arguments_are_there(c, &order)) {
        client_push(c, WIRE_UNREADY, order.record, order.generation, 0, 0);
        return false;
    }
    return job_claim(c, &order);
}

static bool entry_claim(mob_client_t *c, uint64_t entry) {
    const wire_record_t *record = &c->records[wire_entry_index(entry)];
    uint64_t word = atomic_load_explicit(&record->word, memory_order_acquire);
    if (!wire_entry_names(entry, word)) return false;
    order_t order = {.record = wire_entry_index(entry),
                     .generation = wire_word_generation(word),
                     .may_retry = record->max_retries != 0,
                     .taken = true,
                     .leased = record->kind == MOB_TASK};
    return job_claim(c, &order);
}

/* The next record that we were told to run. What was said in between is noted: queues of calls are this thread's alone. */
static bool run_take(mob_client_t *c, shm_message_t *ret_run) {
    client_listen(c);
    while (c->run_next < c->runs.count) {
        *ret_run = c->runs.items[c->run_next++];
        if (c->run_next >= 1024) { /* one that is never idle would let it grow for ever */
            memmove(c->runs.items, c->runs.items + c->run_next, (c->runs.count - c->run_next) * sizeof *c->runs.items);
            c->runs.count -= c->run_next;
            c->run_next = 0;
        }
        if (ret_run->kind == WIRE_RUN) return true;
        if (ret_run->kind == WIRE_CALLS)
            client_calls_add(c, ret_run->a);
        else
            client_calls_end(c, ret_run->a);
    }
    c->runs.count = c->run_next = 0;
    return false;
}

mob_status_t mob_job_next(mob_client_t *c, mob_job_t *ret_job) {
    shm_bell_t *bell = &c->node->bells[c->number];
    for (;;) {
        uint32_t seen = shm_bell_listen(bell);
        shm_message_t run;
        bool claimed = false;
        pthread_mutex_lock(&c->mutex);
        while (!claimed && run_take(c, &run)) claimed = !c->told_to_exit && run_claim(c, &run);
        if (!claimed && !c->job_unclaimable) claimed = client_call_take(c, entry_claim);
        if (!claimed && !c->told_to_exit && client_lease_begin(c)) claimed = client_queue_take(c, entry_claim);
        if (!claimed) client_lease_rest(c);
        /* An actor that nobody can call any more ends after the calls that it has. */
        bool to_exit = c->told_to_exit && (c->job_unclaimable || !client_calls_wait(c)),
             forget = !claimed && c->forgets.count > 0;
        if (forget) c->job = (mob_job_t){.kind = MOB_FORGET, .function = vec_pop(&c->forgets)};
        pthread_mutex_unlock(&c->mutex);
        if (claimed || forget) break;
        if (to_exit || atomic_load(&c->dead)) return MOB_ECLOSED;
        if (client_lease_look(c, seen)) continue;
        /* No limit: the daemon's death ends its workers by signal, so there is nothing to look up for. */
        if (!client_lease_sleep(c, seen)) return MOB_EINTR;
    }
    *ret_job = c->job;
    return MOB_OK;
}

mob_status_t mob_job_result_begin(mob_client_t *c, uint32_t index, uint64_t size, uint32_t ref_count,
                                  mob_buffer_t *ret_buffer) {
    pthread_mutex_lock(&c->mutex);
    mob_status_t status = client_buffer_begin(c, c->job_returns[index], size, ref_count, ret_buffer);
    pthread_mutex_unlock(&c->mutex);
    return status;
}

void mob_job_result_commit(mob_client_t *c, uint32_t index, mob_buffer_t *buffer, mob_format_t format,
                           mob_status_t error, const mob_ref_t *refs) {
    store_slot_t *slot = &c->slots[buffer->ref.slot];
    pthread_mutex_lock(&c->mutex);
    /* A result may be replaced, by an error, until the job is finished. */
    if (c->job_results[index].has_block)
        shm_heap_free(&c->heap, slot->value.large.block, shm_tag(false, buffer->ref.slot, buffer->ref.generation));
    client_buffer_store(c, buffer, format, error, refs);
    for (uint32_t i = 0; i < buffer->ref_count; i++)
        if (client_slot_valid(refs[i].slot)) client_ref_escape(c, refs[i].slot);
    c->job_results[index].has_block = buffer->block != 0;
    c->job_results[index].escaped |= buffer->ref_count > 0;
    c->job_failed |= error != MOB_OK;
    /* Now, and not when the job is finished: our own references may go before that, and their drops must come after this. */
    if (buffer->ref_count > 0) client_push(c, WIRE_ESCAPE, buffer->ref.slot, buffer->ref.generation, 0, 0);
    pthread_mutex_unlock(&c->mutex);
}

void client_job_block(mob_client_t *c) {
    if (c->job_leased)
        client_lease_block(c);
    else
        client_push(c, WIRE_BLOCK, 0, 0, 0, 0);
}

void client_job_unblock(mob_client_t *c) {
    if (c->job_leased)
        client_lease_unblock(c);
    else
        client_push(c, WIRE_UNBLOCK, 0, 0, 0, 0);
}

static void job_end(mob_client_t *c) {
    wire_record_t *record = &c->records[c->job_record];
    job_refs_release(c, c->job_body.deps, record->num_deps, false);
    job_refs_release(c, c->job_body.refs, record->num_refs, false);
    job_refs_release(c, &c->job.function, 1, true);
    if (c->waiting > 0) client_job_unblock(c); /* a thread of the job waits on; the job does not */
    c->busy = false;
    c->waiting = 0;
}

/* Of a job that the daemon does not know: what it would do when a result is sealed. */
static void result_settle(mob_client_t *c, mob_ref_t ref, uint64_t word) {
    store_slot_t *slot = &c->slots[ref.slot];
    bool dropped = word & STORE_DROPPED;
    if ((word & STORE_WATCHED) || (dropped && (word & STORE_ESCAPED))) {
        client_push(c, WIRE_SEALED, ref.slot, ref.generation, 0, 0);
    } else if (dropped) {
        /* Its last reference went while the task ran. Block first, as whoever frees a slot. */
        if (!store_meta_inline(slot->meta))
            shm_heap_free(&c->heap, slot->value.large.block, shm_tag(false, ref.slot, ref.generation));
        store_slot_close(slot);
    }
}

/* The run's line for the timeline, not published yet; NULL if the daemon is gone. */
static shm_event_t *event_write(mob_client_t *c, const wire_record_t *record) {
    shm_event_t *e = shm_events_next(c->events);
    for (int tries = 0; e == NULL; tries++) {
        /* Full: it was told before, and never waits for us, so this ends. */
        if (tries % 64 == 0) client_push(c, WIRE_EVENTS, 0, 0, 0, 0);
        if (tries % 64 == 63 && !client_daemon_alive(c)) return NULL;
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        e = shm_events_next(c->events);
    }
    e->start_ns = record->start_ns;
    e->end_ns = record->end_ns;
    e->kind = record->kind;
    e->name_size = record->name_size < sizeof e->name ? record->name_size : sizeof e->name;
    memcpy(e->name, c->job.name, e->name_size);
    return e;
}

/* The end of a job that the daemon does not know: the record is free again. False if it is KNOWN by now. */
static bool record_free(mob_client_t *c, wire_record_t *record) {
    shm_event_t *event = event_write(c, record);
    uint64_t block = record->block, done = wire_word(c->job_generation, c->number, WIRE_DONE_STATE);
    /* release: all that we wrote comes before the record's next life */
    if (!atomic_compare_exchange_strong_explicit(&record->word, &done, wire_word(c->job_generation, 0, WIRE_FREE),
                                                 memory_order_release, memory_order_relaxed))
        return false;
    /* After the record: until then the daemon may have to read the body. If we are killed in between, the record's owner does it. */
    if (block != 0) shm_heap_free(&c->heap, block, shm_tag(true, c->job_record, c->job_generation));
    if (event != NULL && shm_events_publish(c->events)) client_push(c, WIRE_EVENTS, 0, 0, 0, 0);
    return true;
}

void mob_job_finish(mob_client_t *c) {
    wire_record_t *record = &c->records[c->job_record];
    pthread_mutex_lock(&c->mutex);
    record->end_ns = base_clock_wall_ns();
    job_end(c);
    /* Before the results are seen: who waits for them may push the next task at once, and need wake nobody. */
    if (c->job_leased && !client_queues_have(c)) client_looking(c, true);
    bool known = false, crowd = c->job_failed;
    /* release: the results come first. It can only fail if the daemon thinks that we are dead, and then we soon are. */
    if (wire_record_move(record, wire_word(c->job_generation, c->number, WIRE_TAKEN),
                         wire_word(c->job_generation, c->number, WIRE_DONE_STATE), &known)) {
        known |= !c->job_taken; /* the daemon told us to run it */
        for (uint32_t i = 0; i < c->job.num_returns; i++) {
            mob_ref_t ref = c->job_returns[i];
            uint64_t word = store_slot_seal(&c->slots[ref.slot], c->job_results[i].escaped);
            crowd |= client_wake(c, word);
            if (!known) result_settle(c, ref, word | (c->job_results[i].escaped ? STORE_ESCAPED : 0));
        }
        if (!known && record_free(c, record)) {
            if (crowd) client_push(c, WIRE_RING, 0, 0, 0, 0);
        } else {
            client_push(c, WIRE_DONE, c->job_record, c->job_generation, crowd, 0);
        }
    }
    if (c->job_leased) client_lease_job(c, 0);
    pthread_mutex_unlock(&c->mutex);
}

bool mob_job_retry(mob_client_t *c) {
    if (!c->job.may_retry) return false;
    pthread_mutex_lock(&c->mutex);
    for (uint32_t i = 0; i < c->job.num_returns; i++) {
        mob_ref_t ref = c->job_returns[i];
        if (c->job_results[i].has_block)
            shm_heap_free(&c->heap, c->slots[ref.slot].value.large.block, shm_tag(false, ref.slot, ref.generation));
    }
    job_end(c);
    wire_record_t *record = &c->records[c->job_record];
    /* It goes through the daemon from now on. */
    wire_record_make_known(record, wire_word(c->job_generation, c->number, WIRE_TAKEN));
    client_push(c, WIRE_RETRY, c->job_record, c->job_generation, 0, 0);
    if (c->job_leased) client_lease_job(c, 0);
    pthread_mutex_unlock(&c->mutex);
    return true;
}
