#include "node/mother.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "node/state.h"

enum { MOST = 8 };

/* Variables that the loader, the C library, the interpreter or a sanitizer reads when a process
 * starts, and never again. */
static const char *const at_start[] = {"PYTHON", "LD_",   "GLIBC_", "MALLOC_", "LC_",    "LANG",
                                       "TZ",     "ASAN_", "LSAN_",  "TSAN_",   "UBSAN_", NULL};

static bool is_read_at_start(const char *variable) {
    for (const char *const *name = at_start; *name != NULL; name++)
        if (strncmp(variable, *name, strlen(*name)) == 0) return true;
    return false;
}

static bool list_has(const char *const *list, const char *text) {
    for (; *list != NULL; list++)
        if (strcmp(*list, text) == 0) return true;
    return false;
}

/* Whether `other` has all of these with the same values. */
static bool variables_are_in(const char *const *env, const char *const *other) {
    for (; *env != NULL; env++)
        if (is_read_at_start(*env) && !list_has(other, *env)) return false;
    return true;
}

bool node_mother_fits(const wire_setup_t *mother, const wire_setup_t *child) {
    size_t i = 0;
    for (; mother->argv[i] != NULL; i++)
        if (child->argv[i] == NULL || strcmp(mother->argv[i], child->argv[i]) != 0) return false;
    return child->argv[i] == NULL && variables_are_in(mother->env, child->env) &&
           variables_are_in(child->env, mother->env);
}

static bool has_children(const node_setup_t *mother) {
    const node_t *n = mother->node;
    for (size_t i = 0; i < n->setups.items.count; i++)
        if (n->setups.items.items[i]->zygote.mother == mother) return true;
    return false;
}

/* Makes room for one more: the one goes that was not used for longest. */
static bool room_make(node_t *n) {
    size_t mothers = 0;
    node_setup_t *oldest = NULL;
    for (size_t i = 0; i < n->setups.items.count; i++) {
        node_setup_t *m = n->setups.items.items[i];
        if (!m->is_mother) continue;
        mothers++;
        if (!has_children(m) && (oldest == NULL || m->used_ns < oldest->used_ns)) oldest = m;
    }
    if (mothers < MOST) return true;
    node_setup_drop(oldest);
    return oldest != NULL;
}

/* A mother with the driver's own setup, if it could fork the environment's zygote. (A detached
 * actor's job may be in an environment itself: a mother is in none.) */
static node_setup_t *mother_for_base(const node_setup_t *s) {
    node_t *n = s->node;
    const node_setup_t *base = s->base;
    while (base->base != NULL) base = base->base;
    if (!node_mother_fits(&base->given, &s->given) || !room_make(n)) return NULL;
    int fd = fcntl(base->fd, F_DUPFD_CLOEXEC, 0);
    if (fd < 0 || node_mother_new(n, fd) != MOB_OK) return NULL;
    return n->setups.items.items[n->setups.items.count - 1];
}

node_setup_t *node_mother_of(const node_setup_t *s) {
    node_t *n = s->node;
    for (size_t i = 0; i < n->setups.items.count; i++) {
        node_setup_t *m = n->setups.items.items[i];
        if (m->is_mother && node_mother_fits(&m->given, &s->given)) return m;
    }
    return s->base != NULL ? mother_for_base(s) : NULL;
}

mob_status_t node_mother_new(node_t *n, int fd) {
    node_setup_t *m;
    mob_status_t status = node_setup_new(n, fd, &m);
    if (status != MOB_OK) return status;
    m->is_mother = true;
    m->used_ns = base_clock_mono_ns();
    m->preloads = false; /* what a user has loaded may have read a variable */
    status = m->given.argv[0] != NULL ? node_zygote_start(m) : MOB_EPROTO;
    if (status != MOB_OK) node_setup_drop(m);
    return status;
}
