/* Functions and a class in C that do what tests want to see; used by test_system.c and by
 * tests/python/test_c_tasks.py. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "mobula_task.h"

#define TASK(name)                       \
    mob_status_t name(mob_call_t *call); \
    mob_status_t name(mob_call_t *call)

TASK(add) {
    int64_t a, b;
    if (mob_call_arity(call, 2, 2) || mob_call_int(call, 0, &a) || mob_call_int(call, 1, &b))
        return MOB_EINVAL;
    return mob_call_return_int(call, 0, a + b);
}

/* Gives out the numbers below the first argument; dies once, after as many as the second says, if
 * the file that the third names is not there yet. */
TASK(count_up) {
    int64_t n, dies_at = -1;
    const char *path = "";
    uint64_t size = 0;
    if (mob_call_int(call, 0, &n)) return MOB_EINVAL;
    if (mob_call_count(call) > 1 &&
        (mob_call_int(call, 1, &dies_at) || mob_call_str(call, 2, &path, &size)))
        return MOB_EINVAL;
    for (int64_t i = 0; i < n; i++) {
        mob_status_t status = mob_call_return_int(call, MOB_ITEM, i);
        if (status != MOB_OK) return status;
        if (i != dies_at) continue;
        char name[500];
        snprintf(name, sizeof name, "%.*s", (int)size, path);
        if (open(name, O_CREAT | O_EXCL | O_WRONLY, 0600) >= 0) _exit(3);
    }
    return MOB_OK;
}

/* Arrays of so many numbers, a str, and a failure. */
TASK(arrays_up) {
    int64_t n, *data;
    if (mob_call_int(call, 0, &n)) return MOB_EINVAL;
    for (int64_t i = 0; i < 3; i++) {
        mob_status_t status =
            mob_call_return_array(call, MOB_ITEM, "i8", (uint64_t)n, sizeof *data, (void **)&data);
        if (status != MOB_OK) return status;
        for (int64_t k = 0; k < n; k++) data[k] = i;
    }
    mob_status_t status = mob_call_return_str(call, MOB_ITEM, "end", 3);
    return status != MOB_OK ? status : mob_call_fail(call, "no more than %lld", (long long)n);
}

/* What each argument is, as a tuple of words. */
TASK(describe) {
    mob_writer_t w = {0};
    mob_item_t item;
    mob_write_tuple(&w, mob_call_count(call));
    for (uint32_t i = 0; i < mob_call_count(call); i++) {
        if (mob_call_item(call, i, &item)) return MOB_EINVAL;
        mob_write_str(&w, mob_tag_text(item.tag), strlen(mob_tag_text(item.tag)));
    }
    mob_status_t status = mob_call_return(call, 0, &w);
    mob_writer_fini(&w);
    return status;
}

/* Its one argument, whatever it is, written anew. */
static bool copy(mob_writer_t *w, const mob_item_t *item) {
    mob_reader_t items = item->items;
    mob_item_t inner;
    switch (item->tag) {
    case MOB_NONE:
        mob_write_none(w);
        return true;
    case MOB_FALSE:
    case MOB_TRUE:
        mob_write_bool(w, item->integer != 0);
        return true;
    case MOB_INT:
        mob_write_int(w, item->integer);
        return true;
    case MOB_FLOAT:
        mob_write_float(w, item->real);
        return true;
    case MOB_STR:
        mob_write_str(w, item->data, item->size);
        return true;
    case MOB_BYTES:
        mob_write_bytes(w, item->data, item->size);
        return true;
    case MOB_TUPLE:
        mob_write_tuple(w, item->count);
        for (uint32_t i = 0; i < item->count; i++)
            if (mob_read(&items, &inner) != MOB_OK || !copy(w, &inner)) return false;
        return true;
    default:
        return false;
    }
}

TASK(echo) {
    mob_writer_t w = {0};
    mob_item_t item;
    if (mob_call_arity(call, 1, 1) || mob_call_item(call, 0, &item)) return MOB_EINVAL;
    mob_status_t status = copy(&w, &item)
                              ? mob_call_return(call, 0, &w)
                              : mob_call_fail(call, "can't echo %s", mob_tag_text(item.tag));
    mob_writer_fini(&w);
    return status;
}

/* As many results as there are: 0, 1, 2, ... */
TASK(count) {
    for (uint32_t i = 0; i < mob_call_run(call)->num_returns; i++)
        if (mob_call_return_int(call, i, i)) return MOB_EINVAL;
    return MOB_OK;
}

TASK(first_only) { return mob_call_return_int(call, 0, 1); }
TASK(too_many) { return mob_call_return_int(call, mob_call_run(call)->num_returns, 1); }
TASK(nothing) { return mob_call_arity(call, 0, 0); }
TASK(fails) { return mob_call_fail(call, "it failed with %d", 42); }
/* Makes the file, then asks until it is cancelled; it does not ask for ever. */
TASK(until_cancelled) {
    const char *path;
    uint64_t size;
    if (mob_call_str(call, 0, &path, &size)) return MOB_EINVAL;
    char *copy = strndup(path, size);
    close(open(copy, O_CREAT | O_WRONLY, 0600));
    free(copy);
    for (int i = 0; i < 6000; i++) {
        if (mob_call_is_cancelled(call)) return MOB_ECANCELLED;
        usleep(10000);
    }
    return mob_call_fail(call, "nobody cancelled it");
}
TASK(fails_in_latin_1) {
    return mob_call_fail(call, "%s", "\xe4 \xc3\xa4 \xed\xa0\x80 \xf0\x9f\x98\x80 \xe2\x82");
}
TASK(fails_at_length) {
    char words[5000];
    for (size_t i = 0; i + 1 < sizeof words; i++) words[i] = i % 2 ? '\xa4' : '\xc3';
    words[sizeof words - 1] = 0;
    return mob_call_fail(call, "x%s", words);
}
TASK(fails_without_words) {
    (void)call;
    return MOB_ETIMEOUT;
}

TASK(two_values) {
    mob_writer_t w = {0};
    mob_write_int(&w, 1);
    mob_write_int(&w, 2);
    return mob_call_return(call, 0, &w);
}

static void end_here(void) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    abort();
}

TASK(crash) {
    (void)call;
    end_here();
    return MOB_OK;
}

/* Whether the file of that name was there; it is now. */
static bool was_there(mob_call_t *call) {
    const char *text;
    uint64_t size;
    char path[1000];
    if (mob_call_str(call, 0, &text, &size)) return true;
    snprintf(path, sizeof path, "%.*s", (int)size, text);
    if (access(path, F_OK) == 0) return true;
    close(open(path, O_CREAT | O_WRONLY, 0600));
    return false;
}

TASK(crash_once) {
    if (!was_there(call)) end_here();
    return mob_call_return_int(call, 0, 1);
}

TASK(fail_once) {
    if (!was_there(call)) return mob_call_fail(call, "the first time");
    return mob_call_return_int(call, 0, 1);
}

TASK(says) {
    printf("from C: \1 and more\n");
    fprintf(stderr, "an error from C\n");
    printf("a line without an end");
    (void)call;
    return MOB_OK;
}

TASK(sum) {
    const void *data;
    uint64_t size;
    double total = 0, x;
    if (mob_call_arity(call, 1, 1) || mob_call_buffer(call, 0, &data, &size)) return MOB_EINVAL;
    for (uint64_t i = 0; i + sizeof x <= size; i += sizeof x) {
        memcpy(&x, (const char *)data + i, sizeof x);
        total += x;
    }
    return mob_call_return_float(call, 0, total);
}

TASK(view) {
    void *data;
    if (mob_call_return_array(call, 0, NULL, 5000, 1, &data)) return MOB_EFULL;
    memset(data, 'v', 5000);
    return MOB_OK;
}

/* An array, and then it fails: the array is replaced by the error. */
TASK(array_then_fails) {
    void *data;
    if (mob_call_return_array(call, 0, "f8", 1 << 20, 8, &data)) return MOB_EFULL;
    memset(data, 1, 8 << 20);
    return mob_call_fail(call, "after all");
}

TASK(too_large) {
    void *data;
    if (mob_call_return_array(call, 0, "f8", (uint64_t)1 << 40, 8, &data)) return MOB_EFULL;
    return MOB_OK;
}

/* Tuples, each inside the last. */
TASK(deep) {
    int64_t depth;
    mob_writer_t w = {0};
    if (mob_call_arity(call, 1, 1) || mob_call_int(call, 0, &depth)) return MOB_EINVAL;
    while (depth-- > 0) mob_write_tuple(&w, 1);
    mob_write_none(&w);
    mob_status_t status = mob_call_return(call, 0, &w);
    mob_writer_fini(&w);
    return status;
}

/* Hands its first argument on, as the reference that it is, to `sum` of the library in its
 * second. */
TASK(pass_on) {
    mob_client_t *client = mob_call_client(call);
    mob_ref_t ref, function, result;
    mob_value_t value;
    double total;
    const char *text;
    uint64_t size;
    char library[1000];
    if (mob_call_ref(call, 0, &ref) || mob_call_str(call, 1, &text, &size)) return MOB_EINVAL;
    snprintf(library, sizeof library, "%.*s", (int)size, text);
    mob_status_t status = mob_function_c(client, library, "sum", &function);
    if (status != MOB_OK) return status;
    mob_args_t args;
    mob_args_init(&args);
    mob_args_ref(&args, ref);
    status = mob_task_run(client, function, "sum", &args, &result);
    mob_args_fini(&args);
    mob_ref_release(client, function);
    if (status != MOB_OK) return status;
    status = mob_get(client, result, -1, &value);
    if (status == MOB_OK) status = mob_value_float(&value, &total);
    mob_ref_release(client, result);
    return status == MOB_OK ? mob_call_return_float(call, 0, total) : status;
}

/* An actor that leaves a file behind at its end. */
typedef struct {
    int64_t calls;
    char path[1000];
} box_t;

void Box_free(void *state);
void Box_free(void *state) {
    box_t *box = state;
    close(open(box->path, O_CREAT | O_WRONLY, 0600));
    free(box);
}

TASK(Box_new) {
    const char *text;
    uint64_t size;
    if (mob_call_arity(call, 1, 1) || mob_call_str(call, 0, &text, &size)) return MOB_EINVAL;
    box_t *box = calloc(1, sizeof *box);
    snprintf(box->path, sizeof box->path, "%.*s", (int)size, text);
    mob_call_set_state(call, box);
    return MOB_OK;
}

TASK(Box_calls) { return mob_call_return_int(call, 0, ++((box_t *)mob_call_state(call))->calls); }
TASK(Box_pid) { return mob_call_return_int(call, 0, getpid()); }
TASK(Box_add) { return add(call); }
TASK(Box_sum) { return sum(call); }
TASK(Box_crash) { return crash(call); }
TASK(Box_fails) { return mob_call_fail(call, "the box is shut"); }
