/*
 * Every process below the daemon is its child in the end: workers are forked twice, and the daemon
 * is the subreaper. So the kernel tells of each end.
 *
 * Nothing outlives the daemon: at its end it kills them all. Where it is killed itself, the kernel
 * kills what it has started and what was forked from that (PR_SET_PDEATHSIG: zygote.c here, and the
 * client's). The processes that a user's task or an installer has started go on then.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/state.h"

/* The daemon's children, from the kernel: each at most once, up to `capacity`. */
static size_t children_list(pid_t *ret_children, size_t capacity) {
    char path[64], line[65536];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "re");
    if (f == NULL) return 0;
    size_t size = fread(line, 1, sizeof line - 1, f), count = 0;
    fclose(f);
    line[size] = 0;
    char *rest = line;
    for (char *word; count < capacity && (word = strtok_r(rest, " \n", &rest)) != NULL;)
        ret_children[count++] = (pid_t)atoi(word);
    return count;
}

/* Ends what dead workers and zygotes started: those processes carry their session, and are or
 * become the daemon's children. A session is forgotten when no child has it any more. */
static void descendants_kill(node_t *n) {
    pid_t children[8192];
    size_t count = n->children.dead_sessions.count > 0
                       ? children_list(children, sizeof children / sizeof *children)
                       : 0;
    for (size_t s = n->children.dead_sessions.count; s-- > 0;) {
        bool found = false;
        for (size_t i = 0; i < count; i++) {
            if (getsid(children[i]) != n->children.dead_sessions.items[s]) continue;
            found = true;
            kill(children[i], SIGKILL);
        }
        if (!found) vec_swap_remove(&n->children.dead_sessions, s);
    }
}

void node_children_reap(node_t *n) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        node_client_t *dead = NULL;
        for (size_t i = 0; i < n->connections.count && dead == NULL; i++) {
            node_client_t *c = n->connections.items[i];
            bool ours = c->role == WIRE_WORKER ||
                        c->role == WIRE_ZYGOTE; /* a worker may look on as an observer too */
            if (c->pid == pid && ours && c->state != NODE_GREETING) dead = c;
        }
        node_setup_t *setup = node_setup_by_pid(n, pid);
        if (dead != NULL || setup != NULL) (void)vec_push(&n->children.dead_sessions, pid);
        descendants_kill(n);
        if (setup != NULL) setup->zygote.pid = 0;
        if (dead == NULL) {
            if (setup != NULL && setup->zygote.client == NULL) node_zygote_died(setup);
            continue;
        }
        dead->exit_status = status;
        dead->exited = true;
        if (dead->role == WIRE_ZYGOTE) {
            bool serves = setup != NULL && setup->zygote.client == dead;
            node_client_close(dead);
            /* killed before it was ready */
            if (setup != NULL && !serves && setup->zygote.client == NULL) node_zygote_died(setup);
        } else if (n->closing) {
            node_farewell_reaped(dead);
        } else {
            node_client_died(dead);
        }
        if (n->ending) return;
    }
}

/* Each round kills the daemon's children. Their children then become the daemon's, and so does a
 * worker that was being forked: the next round kills those, until there are none. */
void node_children_end(void) {
    pid_t children[8192];
    for (int round = 0; round < 5000; round++) {
        size_t count = children_list(children, sizeof children / sizeof *children);
        for (size_t i = 0; i < count; i++) kill(children[i], SIGKILL);
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if (waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD) return;
        usleep(round < 10 ? 200 : 1000);
    }
}
