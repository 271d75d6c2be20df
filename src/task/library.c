/*
 * Functions in shared libraries. A library that the worker has loaded stays: its code may have left
 * threads or exit handlers behind. So the worker forgets only the function's entry.
 *
 * A library need not be linked with Mobula: it finds mob_* in the process that loads it. The
 * program mobula-worker exports them. In Python they are in an extension module, whose symbols only
 * that module sees. So a worker makes them visible to all before it loads its first library.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "task/task.h"

static void own_symbols_show(void) {
    static bool done;
    Dl_info here;
    if (done) return;
    done = true;
    /* This loads nothing. In mobula-worker it finds no library of that name, and need not: the
     * program exports its symbols. */
    if (dladdr(&done, &here) != 0 && here.dli_fname != NULL)
        (void)dlopen(here.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

mob_status_t task_library_open(task_function_t *f) {
    if (f->handle != NULL) return MOB_OK;
    own_symbols_show();
    f->handle = dlopen(f->library, RTLD_NOW | RTLD_LOCAL);
    if (f->handle != NULL) return MOB_OK;
    const char *why = dlerror();
    return base_fail(MOB_EINVAL, "the library can't be loaded: %s", why ? why : f->library);
}

void *task_symbol(void *handle, const char *name, const char *suffix) {
    char symbol[600];
    int size =
        snprintf(symbol, sizeof symbol, "%s%s%s", name, suffix ? "_" : "", suffix ? suffix : "");
    return size < 0 || (size_t)size >= sizeof symbol ? NULL : dlsym(handle, symbol);
}
