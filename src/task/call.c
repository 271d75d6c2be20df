/* One run of a function in C: its arguments, read where they lie, and its results, written where
 * they stay. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "task/task.h"

/* ---- the call ---- */

/* Finds where each argument begins, so that the function can read them in any order. */
static mob_status_t arguments_find(mob_call_t *call, const uint8_t *at) {
    const uint8_t **starts = call->starts ? call->starts : call->few;
    for (uint32_t i = 0; i < call->count; i++) {
        starts[i] = at;
        uint64_t size;
        if (at < call->end && *at == MOB_ARG_DEP && call->end - at >= 5) {
            at += 5;
        } else if (at < call->end && *at == MOB_ARG_PICKLE && call->end - at >= 9) {
            memcpy(&size, at + 1, sizeof size);
            if (size > (uint64_t)(call->end - at - 9))
                return base_fail(MOB_EPROTO, "argument %u is cut short", i);
            at += 9 + size;
        } else {
            mob_reader_t reader = {.at = at, .end = call->end};
            mob_item_t item;
            mob_status_t status = mob_read(&reader, &item);
            if (status != MOB_OK) return status;
            at = reader.at;
        }
    }
    return MOB_OK;
}

mob_status_t task_call_init(mob_call_t *call, mob_client_t *client, mob_run_t *run, void *state) {
    const uint8_t *at = run->args;
    uint32_t counts[2];
    call->client = client;
    call->run = run;
    call->state = state;
    call->count = 0;
    call->starts = NULL;
    call->end = at + run->args_size;
    call->written = 0;
    call->more = NULL;
    call->failed = false;
    call->deps = NULL;
    call->deps_open = 0;
    call->item_waits = false;
    call->left_out = NULL;
    if (run->dep_count > TASK_FEW &&
        (call->deps = malloc(run->dep_count * sizeof *call->deps)) == NULL)
        return base_fail(MOB_ENOMEM, "no memory for %u arguments", run->dep_count);
    if (run->num_returns > 64 && (call->more = calloc(run->num_returns, 1)) == NULL)
        return base_fail(MOB_ENOMEM, "no memory for %u results", run->num_returns);
    if (run->args_size < sizeof counts) return base_fail(MOB_EPROTO, "a call without its counts");
    memcpy(counts, at, sizeof counts);
    if (counts[1] > 0)
        return base_fail(
            MOB_EINVAL,
            "%u arguments were given by name, and functions in C have no names for them",
            counts[1]);
    if (counts[0] > run->args_size) return base_fail(MOB_EPROTO, "a call with impossible counts");
    if (counts[0] > TASK_FEW && (call->starts = malloc(counts[0] * sizeof *call->starts)) == NULL)
        return base_fail(MOB_ENOMEM, "no memory for %u arguments", counts[0]);
    call->count = counts[0];
    return arguments_find(call, at + sizeof counts);
}

mob_status_t task_open(mob_client_t *c, const mob_ref_t *refs, size_t count,
                       mob_value_t *ret_value) {
    mob_status_t status = mob_get_begin(c, refs[0], ret_value);
    while (status == MOB_EAWAY || status == MOB_EINTR)
        status = mob_get_fetch(c, refs, count, -1, ret_value);
    return status;
}

/* If one of them is an error: MOB_OK, and the error is the last that is open. */
static mob_status_t deps_open(mob_call_t *call) {
    mob_value_t *deps = call->deps ? call->deps : call->few_deps;
    for (uint32_t i = 0; i < call->run->dep_count; i++) {
        mob_status_t status =
            task_open(call->client, call->run->deps + i, call->run->dep_count - i, &deps[i]);
        if (status != MOB_OK) return status;
        call->deps_open++;
        if (deps[i].error != MOB_OK) break;
    }
    return MOB_OK;
}

bool task_call_open(mob_call_t *call) {
    mob_status_t status;
    uint32_t failed = 0;
    for (int tries = 1; (status = deps_open(call)) == MOB_EFULL; tries++) {
        failed = call->deps_open;
        task_call_close(call);
        if (!mob_space_retry(call->client, call->run->deps, call->run->dep_count, tries)) break;
    }
    if (status != MOB_OK)
        mob_call_fail(call, "argument reference %u: %s",
                      status == MOB_EFULL ? failed : call->deps_open, mob_last_error());
    const mob_value_t *deps = call->deps ? call->deps : call->few_deps;
    return status == MOB_OK && deps[call->deps_open - 1].error == MOB_OK;
}

void task_call_close(mob_call_t *call) {
    const mob_value_t *deps = call->deps ? call->deps : call->few_deps;
    while (call->deps_open > 0) {
        call->deps_open--;
        mob_get_end(call->client, call->run->deps[call->deps_open], &deps[call->deps_open]);
    }
}

void task_call_fini(mob_call_t *call) {
    task_call_close(call);
    free(call->deps);
    free(call->starts);
    free(call->more);
    free(call->left_out);
}

mob_client_t *mob_call_client(const mob_call_t *call) { return call->client; }
const mob_run_t *mob_call_run(const mob_call_t *call) { return call->run; }
void *mob_call_state(const mob_call_t *call) { return call->state; }
void mob_call_set_state(mob_call_t *call, void *state) { call->state = state; }

bool mob_call_is_cancelled(const mob_call_t *call) {
    return mob_run_is_cancelled(call->client, call->run);
}

mob_status_t mob_call_fail(mob_call_t *call, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(call->text, sizeof call->text, format, args);
    va_end(args);
    call->failed = true;
    return MOB_ETASK;
}

/* ---- arguments ---- */

uint32_t mob_call_count(const mob_call_t *call) { return call->count; }

mob_status_t mob_call_arity(mob_call_t *call, uint32_t least, uint32_t most) {
    if (call->count >= least && call->count <= most) return MOB_OK;
    char range[40];
    snprintf(range, sizeof range, least == most ? "%u" : "%u to %u", least, most);
    return base_fail(MOB_EINVAL, "it takes %s arguments, and %u were given", range, call->count);
}

static const uint8_t *argument(const mob_call_t *call, uint32_t index) {
    if (index < call->count) return (call->starts ? call->starts : call->few)[index];
    base_fail(MOB_EINVAL, "argument %u is missing: %u were given", index, call->count);
    return NULL;
}

static mob_status_t dep_of(const mob_call_t *call, uint32_t index, const uint8_t *at,
                           uint32_t *ret_dep) {
    memcpy(ret_dep, at + 1, sizeof *ret_dep);
    if (*ret_dep >= call->deps_open)
        return base_fail(MOB_EPROTO, "argument %u is a reference that the call does not have",
                         index);
    return MOB_OK;
}

mob_status_t mob_call_item(mob_call_t *call, uint32_t index, mob_item_t *ret_item) {
    const uint8_t *at = argument(call, index);
    uint32_t dep;
    if (at == NULL) return MOB_EINVAL;
    if (*at == MOB_ARG_PICKLE) {
        *ret_item = (mob_item_t){.tag = MOB_PICKLED};
        return MOB_OK;
    }
    if (*at != MOB_ARG_DEP) return mob_read(&(mob_reader_t){.at = at, .end = call->end}, ret_item);
    mob_status_t status = dep_of(call, index, at, &dep);
    return status == MOB_OK
               ? mob_value_item(&(call->deps ? call->deps : call->few_deps)[dep], ret_item)
               : status;
}

static mob_status_t item_expect(mob_call_t *call, uint32_t index, const char *what, int tag,
                                int or_tag, mob_item_t *ret_item) {
    mob_status_t status = mob_call_item(call, index, ret_item);
    if (status != MOB_OK || ret_item->tag == tag || ret_item->tag == or_tag) return status;
    return base_fail(MOB_EINVAL, "argument %u is %s, and %s is needed", index,
                     mob_tag_text(ret_item->tag), what);
}

mob_status_t mob_call_int(mob_call_t *call, uint32_t index, int64_t *ret_integer) {
    mob_item_t item;
    mob_status_t status = item_expect(call, index, "an int", MOB_INT, MOB_INT, &item);
    if (status == MOB_OK) *ret_integer = item.integer;
    return status;
}

mob_status_t mob_call_float(mob_call_t *call, uint32_t index, double *ret_real) {
    mob_item_t item;
    mob_status_t status = item_expect(call, index, "a float", MOB_FLOAT, MOB_INT, &item);
    if (status == MOB_OK) *ret_real = item.tag == MOB_INT ? (double)item.integer : item.real;
    return status;
}

mob_status_t mob_call_bool(mob_call_t *call, uint32_t index, bool *ret_truth) {
    mob_item_t item;
    mob_status_t status = item_expect(call, index, "a bool", MOB_FALSE, MOB_TRUE, &item);
    if (status == MOB_OK) *ret_truth = item.integer != 0;
    return status;
}

mob_status_t mob_call_str(mob_call_t *call, uint32_t index, const char **ret_text,
                          uint64_t *ret_size) {
    mob_item_t item;
    mob_status_t status = item_expect(call, index, "a str", MOB_STR, MOB_STR, &item);
    if (status != MOB_OK) return status;
    *ret_text = item.data;
    *ret_size = item.size;
    return MOB_OK;
}

mob_status_t mob_call_buffer(mob_call_t *call, uint32_t index, const void **ret_data,
                             uint64_t *ret_size) {
    mob_item_t item;
    mob_status_t status =
        item_expect(call, index, "bytes or an array", MOB_BYTES, MOB_PICKLED, &item);
    if (status != MOB_OK) return status;
    if (item.data == NULL)
        return base_fail(MOB_EINVAL,
                         "argument %u is a pickled Python object without a buffer of its own, and "
                         "bytes or an array "
                         "is needed (an array of less than 4,096 bytes has none either once it is "
                         "in the store: hand "
                         "over the array itself, or bytes)",
                         index);
    *ret_data = item.data;
    *ret_size = item.size;
    return MOB_OK;
}

mob_status_t mob_call_ref(mob_call_t *call, uint32_t index, mob_ref_t *ret_ref) {
    const uint8_t *at = argument(call, index);
    if (at == NULL) return MOB_EINVAL;
    if (*at != MOB_ARG_DEP)
        return base_fail(MOB_EINVAL, "argument %u was not given as a reference", index);
    uint32_t dep;
    mob_status_t status = dep_of(call, index, at, &dep);
    if (status == MOB_OK) *ret_ref = call->run->deps[dep];
    return status;
}

mob_status_t task_result_begin(mob_client_t *c, mob_run_t *run, uint32_t index, uint64_t size,
                               uint32_t ref_count, mob_buffer_t *ret_buffer) {
    mob_status_t status;
    while ((status = mob_run_result_begin(c, run, index, size, ref_count, ret_buffer)) ==
           MOB_ESPACE) {
        status = mob_space_await(c);
        if (status != MOB_OK) return status;
    }
    return status;
}

/* ---- items ---- */

mob_status_t task_item_begin(mob_client_t *c, mob_run_t *run, uint64_t size, uint32_t ref_count,
                             mob_buffer_t *ret_buffer) {
    mob_status_t status;
    while ((status = mob_run_item_begin(c, run, size, ref_count, ret_buffer)) == MOB_ESPACE) {
        status = mob_space_await(c);
        if (status != MOB_OK) return status;
    }
    return status;
}

/* Waits while the reader is behind; not if the run was cancelled, which the function may ask. */
static mob_status_t room_await(mob_call_t *call) {
    mob_status_t status = MOB_EINTR;
    while (status == MOB_EINTR && !mob_run_is_cancelled(call->client, call->run))
        status = mob_run_item_wait(call->client, call->run);
    return status == MOB_EINTR ? MOB_OK : status;
}

static mob_status_t item_commit(mob_call_t *call, mob_buffer_t *buffer, mob_format_t format) {
    mob_run_item_commit(call->client, call->run, buffer, format, MOB_OK, NULL);
    return room_await(call);
}

/* Publishes the array that the function has filled meanwhile. */
static mob_status_t item_flush(mob_call_t *call) {
    free(call->left_out);
    call->left_out = NULL;
    if (!call->item_waits) return MOB_OK;
    call->item_waits = false;
    return item_commit(call, &call->item, MOB_FORMAT_PICKLE);
}

/* Space for an item. *ret_buffer's data are NULL: it was given out before, and is left out. */
static mob_status_t item_begin(mob_call_t *call, uint64_t size, mob_buffer_t *ret_buffer) {
    if (!call->run->flows)
        return base_fail(MOB_EINVAL, "an item was written, and the caller wants results: "
                                     "num_returns must be \"streaming\" (in C: mob_task_flow)");
    mob_status_t status = item_flush(call);
    if (status != MOB_OK) return status;
    ret_buffer->data = NULL;
    if (call->run->items == 0) return task_item_begin(call->client, call->run, size, 0, ret_buffer);
    call->run->items--;
    return MOB_OK;
}

/* ---- results ---- */

static void written_set(mob_call_t *call, uint32_t index) {
    if (call->more != NULL)
        call->more[index] = 1;
    else
        call->written |= (uint64_t)1 << index;
}

static bool written_is(const mob_call_t *call, uint32_t index) {
    return call->more != NULL ? call->more[index] != 0 : call->written >> index & 1;
}

static mob_status_t result_begin(mob_call_t *call, uint32_t index, uint64_t size,
                                 mob_buffer_t *ret_buffer) {
    if (index == MOB_ITEM) return item_begin(call, size, ret_buffer);
    if (index >= call->run->num_returns)
        return base_fail(MOB_EINVAL, "result %u was written, and the call has %u", index,
                         call->run->num_returns);
    if (call->run->kind == MOB_ACTOR_CREATE)
        return base_fail(MOB_EINVAL,
                         "a constructor has no result: mob_call_set_state keeps what it made");
    return task_result_begin(call->client, call->run, index, size, 0, ret_buffer);
}

static mob_status_t result_commit(mob_call_t *call, uint32_t index, mob_buffer_t *buffer,
                                  mob_format_t format) {
    if (index == MOB_ITEM) return item_commit(call, buffer, format);
    mob_run_result_commit(call->client, call->run, index, buffer, format, MOB_OK, NULL);
    written_set(call, index);
    return MOB_OK;
}

static mob_status_t result_write(mob_call_t *call, uint32_t index, uint8_t tag, const void *from,
                                 size_t size, const void *data, size_t data_size) {
    mob_buffer_t buffer;
    mob_status_t status = result_begin(call, index, 1 + size + data_size, &buffer);
    if (status != MOB_OK || buffer.data == NULL) return status;
    uint8_t *at = buffer.data;
    *at = tag;
    if (size > 0) memcpy(at + 1, from, size);
    if (data_size > 0) mob_buffer_write(call->client, &buffer, 1 + size, data, data_size);
    return result_commit(call, index, &buffer, MOB_FORMAT_DIRECT);
}

mob_status_t mob_call_return_none(mob_call_t *call, uint32_t index) {
    return result_write(call, index, MOB_NONE, NULL, 0, NULL, 0);
}

mob_status_t mob_call_return_bool(mob_call_t *call, uint32_t index, bool truth) {
    return result_write(call, index, truth ? MOB_TRUE : MOB_FALSE, NULL, 0, NULL, 0);
}

mob_status_t mob_call_return_int(mob_call_t *call, uint32_t index, int64_t integer) {
    return result_write(call, index, MOB_INT, &integer, sizeof integer, NULL, 0);
}

mob_status_t mob_call_return_float(mob_call_t *call, uint32_t index, double real) {
    return result_write(call, index, MOB_FLOAT, &real, sizeof real, NULL, 0);
}

mob_status_t mob_call_return_str(mob_call_t *call, uint32_t index, const char *text, size_t size) {
    uint64_t length = size;
    return result_write(call, index, MOB_STR, &length, sizeof length, text, size);
}

mob_status_t mob_call_return_bytes(mob_call_t *call, uint32_t index, const void *data,
                                   size_t size) {
    uint64_t length = size;
    return result_write(call, index, MOB_BYTES, &length, sizeof length, data, size);
}

mob_status_t mob_call_return(mob_call_t *call, uint32_t index, mob_writer_t *writer) {
    const void *data;
    size_t size;
    mob_buffer_t buffer;
    mob_status_t status = mob_writer_finish(writer, &data, &size);
    if (status == MOB_OK && writer->count != 1)
        status = base_fail(MOB_EINVAL,
                           "a result is one value, and %u were written: make a tuple of them",
                           writer->count);
    if (status == MOB_OK) status = result_begin(call, index, size, &buffer);
    if (status != MOB_OK || buffer.data == NULL) return status;
    mob_buffer_write(call->client, &buffer, 0, data, size);
    return result_commit(call, index, &buffer, MOB_FORMAT_DIRECT);
}

mob_status_t mob_call_return_array(mob_call_t *call, uint32_t index, const char *dtype,
                                   uint64_t count, size_t item_size, void **ret_data) {
    task_array_t array;
    mob_buffer_t buffer;
    mob_status_t status = task_array_plan(dtype, count, item_size, &array);
    if (status == MOB_OK) status = result_begin(call, index, array.size, &buffer);
    if (status != MOB_OK) return status;
    if (buffer.data == NULL) {
        *ret_data = call->left_out = aligned_alloc(64, (array.size + 63) / 64 * 64);
        return *ret_data != NULL ? MOB_OK : base_fail(MOB_ENOMEM, "no memory for an array");
    }
    mob_buffer_map(call->client, &buffer);
    *ret_data = task_array_write(&array, buffer.data);
    if (index == MOB_ITEM) { /* when it is filled */
        call->item = buffer;
        call->item_waits = true;
        return MOB_OK;
    }
    /* Committed at once: no process reads it before the run is finished, and until then an error
     * can take its place and free its memory. The array never lies in the slot itself, where it
     * would be copied now. */
    return result_commit(call, index, &buffer, MOB_FORMAT_PICKLE);
}

mob_status_t task_call_complete(mob_call_t *call) {
    uint32_t count = call->run->num_returns;
    mob_status_t flushed = item_flush(call);
    if (flushed != MOB_OK) return flushed;
    if (count == 1 && !written_is(call, 0)) {
        mob_buffer_t buffer;
        mob_status_t status = task_result_begin(call->client, call->run, 0, 1, 0, &buffer);
        if (status != MOB_OK) return status;
        *(uint8_t *)buffer.data = MOB_NONE;
        return result_commit(call, 0, &buffer, MOB_FORMAT_DIRECT);
    }
    for (uint32_t i = 0; i < count; i++)
        if (!written_is(call, i))
            return base_fail(MOB_EINVAL, "num_returns is %u, and result %u was not written", count,
                             i);
    return MOB_OK;
}
