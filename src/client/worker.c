/*
 * A worker's side of a task: claim the record, run, publish.
 *
 * Publishing: results are written into their slots while those are PENDING, which only the record's holder may do. Then the record's DONE commits all of
 * them at once; then each slot's word is sealed and its waiters are woken; then the daemon is told. If we die before DONE, nothing happened and
 * the task may be run again; after it, the daemon seals what we did not, which is harmless when repeated.
 */
#include <string.h>

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

/* Claims the record that a WIRE_RUN names. False: it was taken back meanwhile. What can fail is done before the claim, and then this worker ends, so that
 * the task, which is not begun, goes to another. */
static bool job_claim(mob_client_t *c, const shm_message_t *run) {
    wire_record_t *record = &c->records[run->a < WIRE_MAX_RECORDS ? run->a : 0];
    uint64_t ready = wire_word(run->b, 0, WIRE_READY_STATE);
    /* acquire: pairs with the submitter's release of the whole record */
    if (atomic_load_explicit(&record->word, memory_order_acquire) != ready) return false;
    const void *body = record->block ? (const void *)(c->arena.read_only + record->block) : record->body;
    if (wire_body_split(record, body, record->body_size, &c->job_body) != MOB_OK ||
        !results_reserve(c, record->num_returns)) {
        c->told_to_exit = true;
        return false;
    }
    if (!atomic_compare_exchange_strong_explicit(&record->word, &ready, wire_word(run->b, c->number, WIRE_TAKEN),
                                                 memory_order_acq_rel, memory_order_relaxed))
        return false;
    record->start_ns = base_clock_wall_ns();
    c->job_record = run->a;
    c->job_generation = run->b;
    c->job = (mob_job_t){
        .kind = (mob_kind_t)record->kind,
        .function = record->function,
        .actor = record->kind == MOB_ACTOR_CREATE ? c->job_body.returns[0] : record->actor,
        .task_id = {.slot = run->a, .generation = run->b},
        .name = c->job_body.name,
        .name_size = record->name_size,
        .gpu_mask = run->c,
        .shape = record->shape,
        .held_shape = record->held_shape,
        .num_returns = record->num_returns,
        .max_calls = record->max_calls,
        .may_retry = (record->flags & WIRE_RETRY_EXCEPTIONS) && run->d != 0,
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

static bool run_take(mob_client_t *c, shm_message_t *ret_run) {
    client_listen(c);
    if (c->run_next == c->runs.count) {
        c->runs.count = c->run_next = 0;
        return false;
    }
    *ret_run = c->runs.items[c->run_next++];
    if (c->run_next >= 1024) { /* one that is never idle would let it grow for ever */
        memmove(c->runs.items, c->runs.items + c->run_next, (c->runs.count - c->run_next) * sizeof *c->runs.items);
        c->runs.count -= c->run_next;
        c->run_next = 0;
    }
    return true;
}

mob_status_t mob_job_next(mob_client_t *c, mob_job_t *ret_job) {
    shm_bell_t *bell = &c->node->bells[c->number];
    for (;;) {
        uint32_t seen = shm_bell_listen(bell);
        shm_message_t run;
        bool claimed = false;
        pthread_mutex_lock(&c->mutex);
        while (!claimed && !c->told_to_exit && run_take(c, &run)) claimed = job_claim(c, &run);
        bool to_exit = c->told_to_exit, forget = !claimed && c->forgets.count > 0;
        if (forget) c->job = (mob_job_t){.kind = MOB_FORGET, .function = vec_pop(&c->forgets)};
        pthread_mutex_unlock(&c->mutex);
        if (claimed || forget) break;
        if (to_exit || atomic_load(&c->dead)) return MOB_ECLOSED;
        /* No limit: the daemon's death ends its workers by signal, so there is nothing to look up for. */
        if (!shm_bell_sleep(bell, seen, -1)) return MOB_EINTR;
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

static void job_end(mob_client_t *c) {
    wire_record_t *record = &c->records[c->job_record];
    job_refs_release(c, c->job_body.deps, record->num_deps, false);
    job_refs_release(c, c->job_body.refs, record->num_refs, false);
    job_refs_release(c, &c->job.function, 1, true);
    if (c->waiting > 0) client_push(c, WIRE_UNBLOCK, 0, 0, 0, 0); /* a thread of the job waits on; the job does not */
    c->busy = false;
    c->waiting = 0;
}

void mob_job_finish(mob_client_t *c) {
    wire_record_t *record = &c->records[c->job_record];
    pthread_mutex_lock(&c->mutex);
    record->end_ns = base_clock_wall_ns();
    job_end(c);
    uint64_t taken = wire_word(c->job_generation, c->number, WIRE_TAKEN);
    /* release: the results come first. It can only fail if the daemon thinks that we are dead, and then we soon are. */
    if (atomic_compare_exchange_strong_explicit(&record->word, &taken, wire_word(c->job_generation, 0, WIRE_DONE_STATE),
                                                memory_order_acq_rel, memory_order_relaxed)) {
        bool crowd = c->job_failed;
        for (uint32_t i = 0; i < c->job.num_returns; i++)
            crowd |= client_wake(c, store_slot_seal(&c->slots[c->job_returns[i].slot], c->job_results[i].escaped));
        client_push(c, WIRE_DONE, c->job_record, c->job_generation, crowd, 0);
    }
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
    client_push(c, WIRE_RETRY, c->job_record, c->job_generation, 0, 0);
    pthread_mutex_unlock(&c->mutex);
    return true;
}
