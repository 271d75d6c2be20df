#include "node/environment.h"

#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/clock.h"
#include "node/inbox.h"
#include "node/state.h"
#include "shm/sealed.h"

static const uint64_t REST_NS = 30000000000;

enum {
    MOST = 65535, /* of one job: their bytes stay as long as it does */
    MOST_BYTES = 64 << 20,
    MOST_RESTING = 16 /* of the node: open, with nothing to do */
};

/* ---- asking for one ---- */

void node_environment_name(const void *bytes, size_t size, uint8_t *ret_name) {
    XXH128_canonical_t name;
    XXH128_canonicalFromHash(&name, XXH3_128bits(bytes, size));
    _Static_assert(sizeof name == NODE_ENVIRONMENT_NAME, "it is that hash");
    memcpy(ret_name, &name, sizeof name);
}

uint32_t node_environment_find(const node_job_t *job, const uint8_t *name) {
    NODE_EACH_POOL(job, pool)
    if (pool->number > 0 && memcmp(pool->name, name, NODE_ENVIRONMENT_NAME) == 0)
        return pool->number;
    return 0;
}

/* Takes the description, which is on the heap, also if it fails. */
static mob_status_t environment_new(node_job_t *job, void *given, size_t size,
                                    const uint8_t *name) {
    size_t bytes = size;
    NODE_EACH_POOL(job, known) bytes += known->environment_size;
    wire_setup_t setup;
    void *lists = NULL;
    mob_status_t status =
        job->pools.count > MOST || bytes > MOST_BYTES
            ? base_fail(MOB_ELIMIT,
                        "a job can have %d different runtime environments, and %d MB of what "
                        "describes them: use fewer, or fewer variables",
                        MOST, MOST_BYTES >> 20)
            : wire_setup_read(given, size, &setup, &lists);
    free(lists);
    if (status == MOB_OK) status = node_pool_new(job, NULL);
    if (status != MOB_OK) {
        free(given);
        return status;
    }
    node_pool_t *pool = job->pools.items[job->pools.count - 1];
    pool->environment = given;
    pool->environment_size = size;
    memcpy(pool->name, name, NODE_ENVIRONMENT_NAME);
    return MOB_OK;
}

mob_status_t node_environment_add(node_job_t *job, const void *bytes, size_t size,
                                  const uint8_t *name, uint32_t *ret_number) {
    uint8_t made[NODE_ENVIRONMENT_NAME];
    node_environment_name(bytes, size, made);
    if (memcmp(made, name, sizeof made) != 0)
        return base_fail(MOB_EPROTO, "a runtime environment has another's name");
    uint32_t number = node_environment_find(job, name);
    void *copy = number > 0 ? NULL : malloc(size + 1);
    if (number == 0 && copy == NULL) return MOB_ENOMEM;
    if (number == 0) {
        memcpy(copy, bytes, size);
        mob_status_t status = environment_new(job, copy, size, name);
        if (status != MOB_OK) return status;
        number = (uint32_t)job->pools.count - 1;
    }
    *ret_number = number;
    return MOB_OK;
}

/* Its zygote is there before a task needs it. What goes wrong is told when one does. */
static void environment_begin(node_pool_t *pool) {
    if (!pool->job->farewell.leaving && node_environment_open(pool) == MOB_OK &&
        node_zygote_is_missing(pool->setup))
        (void)node_zygote_start(pool->setup);
}

void node_environment(node_client_t *c, const wire_message_t *m) {
    const uint8_t *space = node_question_space(c, m);
    if (space == NULL) return;
    if (m->site.size > m->site.capacity || m->site.size > WIRE_SETUP_MAX) {
        node_client_fault(c, "named a runtime environment that makes no sense");
        return;
    }
    /* a copy first: the client may still write there */
    uint8_t *copy = malloc(m->site.size + 1), name[NODE_ENVIRONMENT_NAME];
    uint32_t number = 0;
    mob_status_t status = MOB_ENOMEM;
    base_fail_clear();
    if (copy != NULL) {
        memcpy(copy, space, m->site.size);
        node_environment_name(copy, m->site.size, name);
        status = node_environment_add(c->job, copy, m->site.size, name, &number);
        free(copy);
    }
    if (status != MOB_OK) {
        node_question_refuse(c, status);
        return;
    }
    if (m->site.at_once) environment_begin(c->job->pools.items[number]);
    node_client_tell(c, wire_answer(MOB_OK, number));
}

/* ---- its setup ---- */

static bool is_same_variable(const char *a, const char *b) {
    size_t length = strcspn(a, "=");
    return strcspn(b, "=") == length && strncmp(a, b, length) == 0;
}

static bool is_in(const char *const *env, const char *variable) {
    for (; *env != NULL; env++)
        if (is_same_variable(*env, variable)) return true;
    return false;
}

typedef VEC(const char *) strings_t;

static bool variables_merge(const char *const *base, const char *const *over, strings_t *ret_env) {
    bool whole = true;
    for (const char *const *e = base; *e != NULL; e++)
        if (!is_in(over, *e)) whole = whole && vec_push(ret_env, *e);
    for (const char *const *e = over; *e != NULL; e++) whole = whole && vec_push(ret_env, *e);
    return whole && vec_push(ret_env, NULL);
}

/* The job's setup with the environment's changes, as sealed bytes. */
static mob_status_t setup_seal(const wire_setup_t *base, const wire_setup_t *changes, int *ret_fd) {
    strings_t env = {0};
    char *inner = malloc(base->inner_size + changes->inner_size + 1), *bytes = NULL;
    mob_status_t status =
        inner != NULL && variables_merge(base->env, changes->env, &env) ? MOB_OK : MOB_ENOMEM;
    if (status == MOB_OK) {
        memcpy(inner, base->inner, base->inner_size);
        memcpy(inner + base->inner_size, changes->inner, changes->inner_size);
        wire_setup_t made = *base;
        made.env = env.items;
        made.inner = inner;
        made.inner_size = base->inner_size + changes->inner_size;
        if (changes->argv[0] != NULL) made.argv = changes->argv;
        size_t size = wire_setup_size(&made);
        if (size == SIZE_MAX)
            status = base_fail(MOB_ELIMIT, "a runtime environment may have %d bytes with its job's",
                               WIRE_SETUP_MAX);
        else if ((bytes = malloc(size)) == NULL)
            status = MOB_ENOMEM;
        if (status == MOB_OK) {
            wire_setup_write(&made, bytes);
            status = shm_sealed_make("mobula-setup", bytes, size, ret_fd);
        }
    }
    vec_free(&env);
    free(inner);
    free(bytes);
    return status;
}

mob_status_t node_environment_open(node_pool_t *pool) {
    if (pool->setup != NULL) return MOB_OK;
    node_setup_t *base = pool->job->setup;
    wire_setup_t changes;
    void *lists;
    int fd = -1;
    mob_status_t status =
        wire_setup_read(pool->environment, pool->environment_size, &changes, &lists);
    if (status != MOB_OK) return status;
    status = setup_seal(&base->given, &changes, &fd);
    free(lists);
    if (status == MOB_OK) status = node_setup_new(pool->job->node, fd, &pool->setup);
    if (status == MOB_OK) pool->setup->used_ns = base_clock_mono_ns();
    if (status == MOB_OK) pool->setup->base = node_setup_hold(base);
    return status;
}

/* Whether so many others rest that were needed later: each is a process, so this one goes at
 * once. */
static bool is_one_too_many(const node_setup_t *s) {
    const node_setups_t *all = &s->node->setups;
    size_t later = 0;
    for (size_t i = 0; i < all->items.count; i++)
        later += all->items.items[i]->rests && all->items.items[i]->used_ns > s->used_ns;
    return later >= MOST_RESTING;
}

void node_environment_rest(node_pool_t *pool) {
    if (pool->number == 0 || pool->setup == NULL) return;
    uint64_t now = base_clock_mono_ns();
    node_setup_t *s = pool->setup;
    bool begins = s->zygote.client == NULL && !node_zygote_is_missing(s); /* which may take long */
    s->rests = pool->workers == 0 && pool->waiting == 0 && !begins;
    if (!s->rests) {
        s->used_ns = now;
    } else if (now - s->used_ns < REST_NS && !is_one_too_many(s)) {
        node_look_again(pool->job->node, REST_NS / 1000000 + 1);
    } else {
        s->rests = false; /* a detached actor's job may have it too */
        pool->setup = NULL;
        node_setup_drop(s);
    }
}
