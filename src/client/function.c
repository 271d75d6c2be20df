/*
 * Names of functions: an object for each ("c", library, symbol) or ("python", module, name) that
 * this client has asked for, made once. So each worker loads a function once, though every call
 * names it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "mobula_task.h"
#include "wire/direct.h"

enum { NAME_MAX_SIZE = 8192 };

static mob_status_t function_of(mob_client_t *c, const char *const words[3], mob_ref_t *ret_ref) {
    uint8_t data[NAME_MAX_SIZE];
    wire_writer_t w = {.data = data, .capacity = sizeof data};
    wire_write_tuple(&w, 3);
    for (int i = 0; i < 3; i++) wire_write_str(&w, words[i], strlen(words[i]));
    if (w.size > sizeof data)
        return base_fail(MOB_EINVAL, "a function's name of %zu bytes is too long", w.size);
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    pthread_mutex_lock(&c->mutex);
    for (size_t i = 0; i < c->functions.count; i++) {
        const client_function_t *f = &c->functions.items[i];
        if (f->size != w.size || memcmp(f->data, data, w.size) != 0) continue;
        client_ref_retain(c, f->ref);
        *ret_ref = f->ref;
        pthread_mutex_unlock(&c->mutex);
        return MOB_OK;
    }
    pthread_mutex_unlock(&c->mutex);
    /* Another thread may do the same at this time: then there are two objects, which does no
     * harm. */
    client_function_t made = {.data = malloc(w.size), .size = w.size};
    status = made.data ? mob_put(c, data, w.size, MOB_FORMAT_DIRECT, &made.ref) : MOB_ENOMEM;
    if (status != MOB_OK) {
        free(made.data);
        return status;
    }
    memcpy(made.data, data, w.size);
    pthread_mutex_lock(&c->mutex);
    client_ref_retain(c, made.ref);
    bool kept = vec_push(&c->functions, made);
    if (!kept) client_ref_release(c, made.ref);
    pthread_mutex_unlock(&c->mutex);
    if (!kept) free(made.data);
    *ret_ref = made.ref;
    return MOB_OK;
}

void client_functions_free(mob_client_t *c) {
    for (size_t i = 0; i < c->functions.count; i++) free(c->functions.items[i].data);
    vec_free(&c->functions);
}

mob_status_t mob_function_c(mob_client_t *c, const char *library, const char *symbol,
                            mob_ref_t *ret_ref) {
    char *path = realpath(library, NULL);
    if (path == NULL) return base_fail(MOB_EINVAL, "the library %s: %s", library, strerror(errno));
    mob_status_t status = function_of(c, (const char *const[]){"c", path, symbol}, ret_ref);
    free(path);
    return status;
}

mob_status_t mob_function_python(mob_client_t *c, const char *module, const char *name,
                                 mob_ref_t *ret_ref) {
    return function_of(c, (const char *const[]){"python", module, name}, ret_ref);
}
