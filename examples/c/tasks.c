/* A library of tasks in C. Build: cc -shared -fPIC $(ray c-flags --compile) tasks.c -o
 * libtasks.so */
#include <stdlib.h>
#include <string.h>

#include "mobula_task.h"

mob_status_t add(mob_call_t *call);
mob_status_t sum(mob_call_t *call);
mob_status_t squares(mob_call_t *call);
mob_status_t divide(mob_call_t *call);
mob_status_t add_many(mob_call_t *call);
mob_status_t Counter_new(mob_call_t *call);
mob_status_t Counter_add(mob_call_t *call);
void Counter_free(void *state);

/* Two numbers in, one out. A wrong argument fails the task, with words that say which it was. */
mob_status_t add(mob_call_t *call) {
    int64_t a, b;
    if (mob_call_arity(call, 2, 2) || mob_call_int(call, 0, &a) || mob_call_int(call, 1, &b))
        return MOB_EINVAL;
    return mob_call_return_int(call, 0, a + b);
}

/* The sum of an array of doubles, which is read where it lies in shared memory. */
mob_status_t sum(mob_call_t *call) {
    const void *data;
    uint64_t size;
    double total = 0, x;
    if (mob_call_arity(call, 1, 1) || mob_call_buffer(call, 0, &data, &size)) return MOB_EINVAL;
    if (size % sizeof x != 0)
        return mob_call_fail(call, "%llu bytes are no doubles", (unsigned long long)size);
    for (uint64_t i = 0; i < size; i += sizeof x) {
        memcpy(&x, (const char *)data + i, sizeof x);
        total += x;
    }
    return mob_call_return_float(call, 0, total);
}

/* An array made in shared memory: Python gets it as a numpy array, without a copy. */
mob_status_t squares(mob_call_t *call) {
    int64_t count;
    void *data;
    if (mob_call_arity(call, 1, 1) || mob_call_int(call, 0, &count)) return MOB_EINVAL;
    if (count < 0) return mob_call_fail(call, "%lld squares", (long long)count);
    if (mob_call_return_array(call, 0, "f8", (uint64_t)count, sizeof(double), &data))
        return MOB_EFULL;
    for (int64_t i = 0; i < count; i++) ((double *)data)[i] = (double)i * (double)i;
    return MOB_OK;
}

/* Two results: num_returns is 2. */
mob_status_t divide(mob_call_t *call) {
    int64_t a, b;
    if (mob_call_arity(call, 2, 2) || mob_call_int(call, 0, &a) || mob_call_int(call, 1, &b))
        return MOB_EINVAL;
    if (b == 0) return mob_call_fail(call, "%lld can't be divided by zero", (long long)a);
    if (mob_call_return_int(call, 0, a / b)) return MOB_EINVAL;
    return mob_call_return_int(call, 1, a % b);
}

/* A task that submits tasks: the sum of 0 to n - 1, in n tasks of `add`. The library's own path is
 * its second argument. */
mob_status_t add_many(mob_call_t *call) {
    mob_client_t *client = mob_call_client(call);
    int64_t n, total = 0;
    const char *text;
    uint64_t size;
    if (mob_call_arity(call, 2, 2) || mob_call_int(call, 0, &n) ||
        mob_call_str(call, 1, &text, &size))
        return MOB_EINVAL;
    char *library = strndup(text, size);
    mob_ref_t function, *refs = calloc((size_t)n + 1, sizeof *refs);
    mob_status_t status =
        library && refs ? mob_function_c(client, library, "add", &function) : MOB_ENOMEM;
    int64_t made = 0;
    mob_args_t args;
    mob_args_init(&args);
    for (; status == MOB_OK && made < n; made++) {
        mob_args_clear(&args);
        mob_write_int(&args.values, made);
        mob_write_int(&args.values, 0);
        status = mob_task_run(client, function, "add", &args, &refs[made]);
        if (status != MOB_OK) break;
    }
    for (int64_t i = 0; i < made; i++) {
        mob_value_t value;
        int64_t one;
        if (status == MOB_OK) status = mob_get(client, refs[i], -1, &value);
        if (status == MOB_OK) status = mob_value_int(&value, &one);
        if (status == MOB_OK) total += one;
        mob_ref_release(client, refs[i]);
    }
    mob_args_fini(&args);
    free(refs);
    free(library);
    return status == MOB_OK ? mob_call_return_int(call, 0, total) : status;
}

/* An actor: its state is one number. */
mob_status_t Counter_new(mob_call_t *call) {
    int64_t start = 0, *n;
    if (mob_call_arity(call, 0, 1) || (mob_call_count(call) == 1 && mob_call_int(call, 0, &start)))
        return MOB_EINVAL;
    if ((n = malloc(sizeof *n)) == NULL) return MOB_ENOMEM;
    *n = start;
    mob_call_set_state(call, n);
    return MOB_OK;
}

mob_status_t Counter_add(mob_call_t *call) {
    int64_t k, *n = mob_call_state(call);
    if (mob_call_arity(call, 1, 1) || mob_call_int(call, 0, &k)) return MOB_EINVAL;
    return mob_call_return_int(call, 0, *n += k);
}

void Counter_free(void *state) { free(state); }
