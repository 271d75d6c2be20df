/* Setups. The daemon copies a driver's bytes once and reads the copy: the descriptor goes on to the
 * workers as it is. */
#include "node/setup.h"

#include <stdlib.h>
#include <unistd.h>

#include "node/state.h"
#include "shm/sealed.h"

static mob_status_t bytes_read(node_setup_t *s) {
    mob_status_t status = shm_sealed_check(s->fd, WIRE_SETUP_MAX, &s->size);
    if (status != MOB_OK) return status;
    s->bytes = malloc(s->size + 1);
    if (s->bytes == NULL) return MOB_ENOMEM;
    status = shm_sealed_read(s->fd, s->bytes, s->size);
    return status == MOB_OK ? wire_setup_read(s->bytes, s->size, &s->given, &s->lists) : status;
}

static void setup_free(node_setup_t *s) {
    free(s->lists);
    free(s->bytes);
    if (s->fd >= 0) close(s->fd);
    free(s);
}

mob_status_t node_setup_new(node_t *n, int fd, node_setup_t **ret_setup) {
    node_setup_t *s = calloc(1, sizeof *s);
    if (s == NULL) {
        if (fd >= 0) close(fd);
        return MOB_ENOMEM;
    }
    s->fd = fd;
    s->node = n;
    s->holds = 1;
    mob_status_t status =
        fd >= 0 ? bytes_read(s) : base_fail(MOB_EPROTO, "the driver gave no setup for its job");
    if (status == MOB_OK && !vec_push(&n->setups.items, s)) status = MOB_ENOMEM;
    if (status != MOB_OK) {
        setup_free(s);
        return status;
    }
    s->preloads = s->given.preload[0] != NULL;
    s->token = n->incarnation + ++n->setups.made;
    *ret_setup = s;
    return MOB_OK;
}

node_setup_t *node_setup_hold(node_setup_t *s) {
    s->holds++;
    return s;
}

void node_setup_drop(node_setup_t *s) {
    if (s == NULL || --s->holds > 0) return;
    node_t *n = s->node;
    for (size_t i = 0; i < n->setups.items.count; i++) {
        if (n->setups.items.items[i] != s) continue;
        vec_swap_remove(&n->setups.items, i);
        break;
    }
    node_zygote_end(s);
    node_setup_t *base = s->base;
    setup_free(s);
    node_setup_drop(base);
}

node_setup_t *node_setup_by_token(node_t *n, uint64_t token) {
    for (size_t i = 0; i < n->setups.items.count; i++)
        if (n->setups.items.items[i]->token == token) return n->setups.items.items[i];
    return NULL;
}

node_setup_t *node_setup_by_pid(node_t *n, pid_t pid) {
    for (size_t i = 0; i < n->setups.items.count; i++)
        if (n->setups.items.items[i]->zygote.pid == pid) return n->setups.items.items[i];
    return NULL;
}
