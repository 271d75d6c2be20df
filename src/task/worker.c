/*
 * A worker's side of C: it finds what a run calls, calls it, and makes the results of what the
 * function returned.
 *
 * What a function's object says: ("c", library, symbol) or ("python", module, name), in the direct
 * encoding; a pickle is a Python function. The worker holds the object as long as its function is
 * loaded, so its slot is not used for anything else. The daemon tells it when no other process
 * needs the function any more (MOB_FORGET).
 */
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "task/task.h"

/* ---- functions ---- */

static void function_free(task_worker_t *w, task_function_t *f) {
    mob_ref_release(w->client, f->ref);
    free(f->library);
    free(f->name);
    free(f);
}

/* A str of the tuple, as a C string; NULL: it is none, has zeros in it, or there is no memory. */
static char *word_read(mob_reader_t *reader) {
    mob_item_t item;
    if (mob_read(reader, &item) != MOB_OK || item.tag != MOB_STR ||
        memchr(item.data, 0, item.size) != NULL)
        return NULL;
    return strndup(item.data, item.size);
}

static task_language_t function_parse(const mob_value_t *value, task_function_t *f) {
    mob_item_t tuple;
    if (value->error != MOB_OK) return TASK_UNKNOWN;
    if (value->format == MOB_FORMAT_PICKLE) return TASK_PICKLED;
    if (mob_value_item(value, &tuple) != MOB_OK || tuple.tag != MOB_TUPLE || tuple.count != 3)
        return TASK_UNKNOWN;
    char *language = word_read(&tuple.items);
    f->library = word_read(&tuple.items);
    f->name = word_read(&tuple.items);
    task_language_t found = language == NULL || f->library == NULL || f->name == NULL ? TASK_UNKNOWN
                            : strcmp(language, "c") == 0                              ? TASK_IN_C
                            : strcmp(language, "python") == 0 ? TASK_IN_PYTHON
                                                              : TASK_UNKNOWN;
    free(language);
    return found;
}

static bool same(mob_ref_t a, mob_ref_t b) {
    return a.slot == b.slot && a.generation == b.generation;
}

static task_function_t *function_load(task_worker_t *w, mob_ref_t ref) {
    mob_value_t value;
    if (task_open(w->client, &ref, 1, &value) != MOB_OK) {
        base_fail(MOB_ESTALE, "the task names no function");
        return NULL;
    }
    task_function_t *f = calloc(1, sizeof *f);
    if (f == NULL || !vec_reserve(&w->functions, 1)) {
        mob_get_end(w->client, ref, &value);
        free(f);
        base_fail(MOB_ENOMEM, "no memory for a function");
        return NULL;
    }
    f->ref = ref;
    f->language = function_parse(&value, f);
    mob_get_end(w->client, ref, &value);
    mob_ref_retain(w->client, ref);
    return w->functions.items[w->functions.count++] = f;
}

task_function_t *task_function_of(task_worker_t *w, const mob_run_t *run) {
    if (run->kind == MOB_ACTOR_CALL) {
        if (w->actor_class == NULL) base_fail(MOB_EINVAL, "this worker has no actor");
        return w->actor_class;
    }
    if (w->last != NULL && same(w->last->ref, run->function)) return w->last;
    for (size_t i = 0; i < w->functions.count; i++)
        if (same(w->functions.items[i]->ref, run->function)) return w->last = w->functions.items[i];
    task_function_t *loaded = function_load(w, run->function);
    if (loaded != NULL) w->last = loaded;
    return loaded;
}

void task_forget(task_worker_t *w, mob_ref_t ref) {
    for (size_t i = 0; i < w->functions.count; i++) {
        task_function_t *f = w->functions.items[i];
        if (!same(f->ref, ref) || f == w->actor_class) continue;
        if (w->last == f) w->last = NULL;
        vec_swap_remove(&w->functions, i);
        function_free(w, f);
        return;
    }
}

static mob_status_t not_in_c(const task_function_t *f, const mob_run_t *run) {
    int size = (int)run->name_size;
    switch (f->language) {
    case TASK_IN_PYTHON:
        return base_fail(
            MOB_EINVAL, "%s.%s is a Python function, and the workers of this session are C workers",
            f->library, f->name);
    case TASK_PICKLED:
        return base_fail(MOB_EINVAL,
                         "%.*s is a Python function, and the workers of this session are C workers",
                         size, run->name);
    default:
        return base_fail(MOB_EINVAL, "the object that %.*s is to call names no function", size,
                         run->name);
    }
}

/* ---- what is called ---- */

static mob_status_t symbol_find(task_function_t *f, const char *suffix,
                                mob_function_t *ret_symbol) {
    mob_status_t status = task_library_open(f);
    if (status != MOB_OK) return status;
    /* ISO C knows no way from an object's pointer to a function's; POSIX does. */
    *(void **)ret_symbol = task_symbol(f->handle, f->name, suffix);
    if (*ret_symbol != NULL) return MOB_OK;
    return base_fail(MOB_EINVAL, "%s has no function %s%s%s", f->library, f->name,
                     suffix ? "_" : "", suffix ? suffix : "");
}

static mob_status_t method_find(task_worker_t *w, const mob_run_t *run,
                                mob_function_t *ret_symbol) {
    for (size_t i = 0; i < w->methods.count; i++) {
        const task_method_t *m = &w->methods.items[i];
        if (m->name_size != run->method_size || memcmp(m->name, run->method, run->method_size) != 0)
            continue;
        *ret_symbol = m->symbol;
        return MOB_OK;
    }
    char *name = strndup(run->method, run->method_size);
    if (name == NULL) return base_fail(MOB_ENOMEM, "no memory for a method");
    mob_status_t status =
        strcmp(name, "new") == 0 || strcmp(name, "free") == 0
            ? base_fail(MOB_EINVAL, "%s is no method: it is called by the system", name)
            : symbol_find(w->actor_class, name, ret_symbol);
    if (status != MOB_OK ||
        !vec_push(&w->methods, ((task_method_t){name, run->method_size, *ret_symbol})))
        free(name);
    return status;
}

static mob_status_t symbol_of(task_worker_t *w, const mob_run_t *run, task_function_t *f,
                              mob_function_t *ret_symbol) {
    if (f->language != TASK_IN_C) return not_in_c(f, run);
    switch (run->kind) {
    case MOB_ACTOR_CALL:
        return method_find(w, run, ret_symbol);
    case MOB_ACTOR_CREATE:
        if (run->max_concurrency > 1)
            return base_fail(MOB_EINVAL,
                             "max_concurrency is %u, and an actor in C runs one call at a time",
                             run->max_concurrency);
        return symbol_find(f, "new", ret_symbol);
    default:
        if (f->symbol == NULL && symbol_find(f, NULL, &f->symbol) != MOB_OK) return MOB_EINVAL;
        *ret_symbol = f->symbol;
        return MOB_OK;
    }
}

/* ---- the run ---- */

/* True if an argument is an error and the results are that error now, with the run's name before
 * it. Of an actor's creation: false, and the call fails with the error's words. */
static bool argument_is_error(task_worker_t *w, mob_run_t *run, mob_call_t *call) {
    if (task_call_open(call) || call->failed) return false;
    const mob_value_t *value = &(call->deps ? call->deps : call->few_deps)[call->deps_open - 1];
    if (run->kind != MOB_ACTOR_CREATE) {
        char title[512];
        uint64_t whole = value->size;
        void *linked =
            task_error_link(value, title, task_title(w, run, title, sizeof title), &whole);
        task_errors_store(w->client, run, linked ? linked : value->data, whole, value->error,
                          value->refs, value->ref_count, false);
        free(linked);
        return true;
    }
    const char *text;
    uint64_t size;
    if (mob_error_text(value, &text, &size) != MOB_OK) text = "an argument is an error", size = 23;
    mob_call_fail(call, "%s%.*s", TASK_LINK, size > 1900 ? 1900 : (int)size, text);
    return false;
}

/* MOB_OK: the results are there. Else the run failed, and the words are in the call or in
 * mob_last_error. */
static mob_status_t call_run(task_worker_t *w, mob_run_t *run, task_function_t *f,
                             mob_call_t *call) {
    mob_function_t symbol;
    mob_status_t status =
        task_call_init(call, w->client, run, run->kind == MOB_ACTOR_CALL ? w->actor : NULL);
    if (status != MOB_OK) return status;
    if (run->dep_count > 0 && argument_is_error(w, run, call)) return MOB_OK;
    if (call->failed) return MOB_ETASK;
    if (run->dynamic)
        return base_fail(MOB_EINVAL, "num_returns=\"dynamic\" is for functions in Python: "
                                     "\"streaming\" is for those in C too");
    status = symbol_of(w, run, f, &symbol);
    if (status != MOB_OK) return status;
    base_fail_clear(); /* an earlier failure is not the function's */
    status = symbol(call);
    if (status == MOB_EOVER && run->flows) status = MOB_OK; /* nobody reads its items any more */
    return status == MOB_OK ? task_call_complete(call) : status;
}

/* The function has failed with these words. True: the task is run again. */
static bool failure_end(task_worker_t *w, mob_run_t *run, mob_status_t status, const char *words) {
    char story[2800];
    bool cancelled = mob_run_is_cancelled(w->client, run);
    if (cancelled && status == MOB_ECANCELLED && run->kind != MOB_ACTOR_CREATE) {
        task_cancelled_store(w, run);
        return false;
    }
    uint64_t size = run->may_retry ? task_failure_story(w, run, words, story, sizeof story) : 0;
    if (!cancelled && mob_run_retry(w->client, run, story, size)) return true;
    task_failure_store(w, run, words);
    return false;
}

void task_run(task_worker_t *w, mob_run_t *run, task_function_t *f) {
    mob_call_t call;
    call.failed = false;
    call.starts = NULL;
    call.more = NULL;
    call.deps = NULL;
    call.deps_open = 0;
    call.item_waits = false;
    call.left_out = NULL;
    mob_status_t status = f != NULL ? call_run(w, run, f, &call) : MOB_EINVAL;
    if (__fpending(stdout) > 0)
        fflush(stdout); /* what the function printed comes before its result */
    bool again = false;
    if (status == MOB_OK && run->kind != MOB_TASK) {
        w->actor_class = f;
        w->actor = call.state; /* a method may change it */
    } else if (status != MOB_OK) {
        if (!call.failed) {
            const char *words = mob_last_error();
            mob_call_fail(&call, "%s", *words ? words : mob_status_text(status));
        }
        task_call_close(&call); /* mob_run_retry gives the run's arguments back */
        again = failure_end(w, run, status, call.text);
    }
    task_call_fini(&call);
    if (!again) mob_run_finish(w->client, run);
}

void task_worker_fini(task_worker_t *w) {
    void (*end)(void *) = NULL;
    if (w->actor_class != NULL)
        *(void **)&end = task_symbol(w->actor_class->handle, w->actor_class->name, "free");
    if (end != NULL) end(w->actor);
    w->actor_class = NULL;
    for (size_t i = 0; i < w->functions.count; i++) function_free(w, w->functions.items[i]);
    for (size_t i = 0; i < w->methods.count; i++) free(w->methods.items[i].name);
    vec_free(&w->functions);
    vec_free(&w->methods);
    fflush(NULL);
}
