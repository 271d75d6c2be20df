/*
 * Beginning and end of a client: starting a daemon, connecting to one, leaving.
 *
 * A driver that starts a daemon of its own has one end of a socket pair; the daemon inherits the
 * other. So the driver has no socket to find, and waits for nothing but the daemon's welcome. A
 * worker, and a driver that joins a daemon which is there already, connect to the socket in the
 * session's folder.
 *
 * The end of a driver that joined is WIRE_LEAVE, for its process lives on and the daemon can't wait
 * for its death: the daemon strikes off whatever the driver had, but for the values that it has
 * pinned. The connection stays open as long as one of those is in use, and tells the daemon by its
 * end that none is.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cpus.h"
#include "base/folder.h"
#include "base/memory.h"
#include "base/process.h"
#include "client/client.h"
#include "wire/setup.h"

extern char **environ;

enum { DAEMON_FD = 3, DAEMON_ROUNDS = 6000, DAEMON_STOPPED = 12 };
enum { LEAVE_TRIES = 4000, LEAVE_PAUSE_US = 1000 }; /* some four seconds: the daemon is stopped */

unsigned mob_default_cpus(void) { return base_cpus_count(""); }

uint64_t mob_memory_limit(void) {
    uint64_t bytes = 0;
    return base_memory_limit("", &bytes) == MOB_OK ? bytes : 0;
}

uint64_t mob_default_store_bytes(void) { return mob_memory_limit() / 10 * 3; }

static void on_fork_in_child(void) {
    atomic_store(&client_forked, true);
    client_events_forked();
}
static void install_fork_handler(void) { pthread_atfork(NULL, NULL, on_fork_in_child); }

static mob_client_t *client_new(uint32_t role) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_fork_handler);
    mob_client_t *c = calloc(1, sizeof *c);
    if (c == NULL) return NULL;
    c->role = role;
    c->sock = c->daemon_event = -1;
    c->node_segment = c->own_segment = c->slot_segment = c->record_segment = c->extent_segment =
        c->arena = c->queue_segment = SHM_SEGMENT_NONE;
    atomic_init(&c->views, 1);
    c->limit = 1;
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->events_cond, NULL);
    return c;
}

static void link_close(mob_client_t *c) {
    if (c->sock >= 0) close(c->sock);
    c->sock = -1;
}

/* Everything but the connection, the read-only view and the struct itself. */
static void client_disconnect(mob_client_t *c) {
    if (c->daemon_event >= 0) close(c->daemon_event);
    c->daemon_event = -1;
    shm_segment_t *segments[] = {&c->node_segment,   &c->own_segment,    &c->slot_segment,
                                 &c->record_segment, &c->extent_segment, &c->queue_segment};
    bool forked = atomic_load(&client_forked);
    for (size_t i = 0; i < sizeof segments / sizeof *segments; i++) {
        /* the child did not inherit it: something else may lie there by now */
        if (forked) shm_segment_abandon(segments[i]);
        shm_segment_fini(segments[i]);
    }
    if (forked) shm_segment_abandon(&c->arena);
    client_large_disconnect(c, forked);
    shm_heap_fini(&c->heap);
    vec_free(&c->slot_pool.free);
    vec_free(&c->record_pool.free);
    vec_free(&c->orders);
    vec_free(&c->forgets);
    client_calls_free(c);
    client_groups_free(c);
    vec_free(&c->refusals);
    free(c->slot_pool.ranges);
    free(c->record_pool.ranges);
    client_runs_free(c);
    client_functions_free(c);
    free(c->packet);
    c->slot_pool.ranges = NULL;
    c->record_pool.ranges = NULL;
    c->packet = NULL;
    if (c->local != NULL) munmap(c->local, STORE_MAX_SLOTS * sizeof *c->local);
    c->local = NULL;
}

static void client_free(mob_client_t *c) {
    /* the daemon of a driver that left lets its values go now */
    if (c->joined && c->sock >= 0 && !atomic_load(&client_forked)) shutdown(c->sock, SHUT_RDWR);
    link_close(c);
    client_disconnect(c);
    shm_segment_fini(&c->arena);
    client_large_fini(c);
    while (c->spill_dirs.count > 0) free(vec_pop(&c->spill_dirs));
    vec_free(&c->spill_dirs);
    free(c->session_dir);
    free(c->socket_path);
    free(c->setup);
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->events_cond);
    free(c);
}

/* ---- driver ---- */

typedef VEC(char *) words_t;

__attribute__((format(printf, 2, 3))) static bool word_add(words_t *words, const char *format,
                                                           ...) {
    va_list args;
    char *word;
    va_start(args, format);
    int n = vasprintf(&word, format, args);
    va_end(args);
    return n >= 0 && vec_push(words, word);
}

/* `stays`: the daemon outlives its starter. */
static bool words_of(const mob_config_t *config, bool stays, words_t *words) {
    const char *temp = config->temp_dir;
    if (temp == NULL) temp = getenv("RAY_TMPDIR");
    if (temp == NULL) temp = getenv("TMPDIR");
    if (temp == NULL || *temp == 0) temp = "/tmp";
    bool ok = word_add(words, "%s", config->daemon_path) && word_add(words, "--temp=%s", temp) &&
              word_add(words, "--store=%llu",
                       (unsigned long long)(config->store_bytes ? config->store_bytes
                                                                : mob_default_store_bytes()));
    if (stays) ok = ok && word_add(words, "--stay");
    if (stays && config->address != NULL)
        ok = ok && word_add(words, "--address=%s", config->address);
    for (const char *const *w = config->cluster; ok && stays && w != NULL && *w != NULL; w++)
        ok = word_add(words, "%s", *w);
    bool has_cpu = false;
    for (size_t i = 0; ok && i < config->resource_count; i++) {
        has_cpu |= strcmp(config->resources[i].name, "CPU") == 0;
        ok = word_add(words, "--resource=%.4f=%s", config->resources[i].amount,
                      config->resources[i].name);
    }
    if (!has_cpu) ok = ok && word_add(words, "--resource=%u=CPU", mob_default_cpus());
    if (config->labels != NULL) ok = ok && word_add(words, "--labels=%s", config->labels);
    for (const char *const *d = config->spill_dirs; ok && d != NULL && *d != NULL; d++)
        ok = word_add(words, "--spill=%s", *d);
    return ok && vec_push(words, NULL);
}

static mob_status_t daemon_spawn(mob_client_t *c, char **argv) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return base_fail(MOB_ESYS, "socketpair: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    pair[1] = client_fd_above_standard(pair[1]);
    posix_spawn_file_actions_adddup2(&actions, pair[1], DAEMON_FD);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    int error = posix_spawn(&c->daemon_pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(pair[1]);
    c->sock = client_fd_above_standard(pair[0]);
    if (error == 0) return MOB_OK;
    return base_fail(MOB_ESYS, "starting %s: %s", argv[0], strerror(error));
}

/* The daemon ends its workers and then itself; a session is over when nothing of it runs any more.
 * The driver kills a daemon that is stuck or stopped, and the kernel then ends its workers. */
static void daemon_await(pid_t pid) {
    for (int round = 0, stopped = 0; round < DAEMON_ROUNDS && stopped < DAEMON_STOPPED; round++) {
        pid_t done = waitpid(pid, NULL, WNOHANG);
        if (done == pid || (done < 0 && errno != EINTR)) return;
        if (round % 100 == 0) stopped = base_process_stopped(pid) ? stopped + 1 : 0;
        usleep(round < 100 ? 100 : 1000);
    }
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* The daemon puts its folders away, unless it was killed: then the driver does. */
void client_folders_remove(mob_client_t *c) {
    char *path;
    for (size_t i = 0; i < c->spill_dirs.count; i++) {
        if (asprintf(&path, WIRE_SPILL_FOLDER, c->spill_dirs.items[i],
                     (unsigned long long)c->incarnation) < 0)
            return;
        base_folder_remove(path);
        free(path);
    }
    if (c->session_dir == NULL || !base_folder_remove(c->session_dir) ||
        (path = strdup(c->session_dir)) == NULL)
        return;
    *strrchr(path, '/') = 0;
    rmdir(path); /* the user's folder too, if no other session is in it */
    free(path);
}

static void words_free(words_t *words) {
    for (size_t i = 0; i < words->count; i++) free(words->items[i]);
    vec_free(words);
}

static mob_status_t spill_dirs_note(mob_client_t *c, const mob_config_t *config) {
    for (const char *const *d = config->spill_dirs; d != NULL && *d != NULL; d++) {
        char *copy = strdup(*d);
        if (copy != NULL && vec_push(&c->spill_dirs, copy)) continue;
        free(copy);
        return MOB_ENOMEM;
    }
    return MOB_OK;
}

/* Starts a daemon; c->sock is the connection to it. */
static mob_status_t daemon_start(mob_client_t *c, const mob_config_t *config, bool stays) {
    words_t words = {0};
    mob_status_t status = words_of(config, stays, &words) ? MOB_OK : MOB_ENOMEM;
    if (status == MOB_OK) status = daemon_spawn(c, words.items);
    words_free(&words);
    return status;
}

/* Could not be started, or not be greeted. */
static void client_abandon(mob_client_t *c) {
    if (c->sock >= 0) shutdown(c->sock, SHUT_RDWR);
    if (c->daemon_pid > 0) daemon_await(c->daemon_pid); /* it puts away what it had made */
    client_free(c);
}

static mob_status_t driver_begin(mob_client_t *c, const mob_config_t *config) {
    mob_status_t status;
    if (config->join != NULL) {
        c->joined = true;
        status = client_socket_connect(config->join, &c->sock);
    } else {
        status = spill_dirs_note(c, config);
        if (status == MOB_OK) status = daemon_start(c, config, false);
    }
    return status == MOB_OK ? client_handshake(c, 0, config) : status;
}

mob_status_t mob_init(const mob_config_t *config, mob_client_t **ret_client) {
    atomic_store(&client_forked, false); /* a forked child may start a session of its own */
    mob_client_t *c = client_new(WIRE_DRIVER);
    if (c == NULL) return MOB_ENOMEM;
    mob_status_t status = driver_begin(c, config);
    if (status != MOB_OK) {
        client_abandon(c);
        return status;
    }
    *ret_client = c;
    return MOB_OK;
}

mob_status_t mob_node_start(const mob_config_t *config, int *ret_pid, char **ret_session_dir) {
    mob_client_t *c = client_new(WIRE_STARTER);
    if (c == NULL) return MOB_ENOMEM;
    mob_status_t status = daemon_start(c, config, true);
    if (status == MOB_OK) status = client_start_await(c, config, ret_session_dir);
    if (status != MOB_OK) {
        client_abandon(c);
        return status;
    }
    *ret_pid = c->daemon_pid;
    client_free(c);
    return MOB_OK;
}

void mob_client_stop(mob_client_t *c) {
    if (atomic_load(&client_forked)) return;
    atomic_store(&c->dead, true);
    /* A joined driver has yet to say that it leaves, and may go on reading: only the thread that
     * waits for messages is woken. */
    shutdown(c->sock, c->joined ? SHUT_RD : SHUT_RDWR);
    shm_bell_ring(&c->node->bells[c->number]);
}

/* Also after mob_client_stop, which ends only this side's reading. */
static bool daemon_hung_up(const mob_client_t *c) {
    struct pollfd socket = {.fd = c->sock};
    return poll(&socket, 1, 0) == 1 && (socket.revents & (POLLHUP | POLLERR)) != 0;
}

/* The last message of a driver that joined, also where nothing else is sent any more: without it
 * the daemon would wait for the end of this process before it lets the job go. */
static void client_leave(mob_client_t *c) {
    wire_message_t message = wire_plain(WIRE_LEAVE);
    pthread_mutex_lock(&c->mutex);
    for (int tries = 0; tries < LEAVE_TRIES && !daemon_hung_up(c); tries++) {
        bool pushed = shm_ring_push(c->up, SHM_UP_MESSAGES, &message);
        client_notify(c);
        if (pushed) break;
        usleep(LEAVE_PAUSE_US);
    }
    pthread_mutex_unlock(&c->mutex);
}

void mob_shutdown(mob_client_t *c) {
    if (c == NULL) return;
    bool forked = atomic_load(&client_forked), leaves = c->joined && !forked;
    if (leaves) client_leave(c);
    atomic_store(&c->dead, true);
    if (c->sock >= 0 && !forked && !leaves)
        shutdown(c->sock, SHUT_RDWR); /* a forked child's copy must not keep the daemon waiting */
    if (!leaves) link_close(c);
    if (c->daemon_pid > 0 && !forked) {
        daemon_await(c->daemon_pid);
        client_folders_remove(c);
    }
    mob_events_end(c);
    client_disconnect(c);
    mob_view_release(c);
}

void mob_view_hold(mob_client_t *c) {
    atomic_fetch_add_explicit(&c->views, 1, memory_order_relaxed);
}

void mob_view_release(mob_client_t *c) {
    if (atomic_fetch_sub_explicit(&c->views, 1, memory_order_acq_rel) == 1) client_free(c);
}

/* ---- worker ---- */

mob_status_t client_socket_connect(const char *path, int *ret_sock) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t size = sizeof peer;
    if (strlen(path) >= sizeof address.sun_path)
        return base_fail(MOB_EINVAL, "the socket's path is too long: %s", path);
    strcpy(address.sun_path, path);
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    mob_status_t status = MOB_OK;
    if (sock < 0 || connect(sock, (struct sockaddr *)&address, sizeof address) != 0)
        status = base_fail(errno == EACCES                            ? MOB_EPERM
                           : errno == ENOENT || errno == ECONNREFUSED ? MOB_ECLOSED
                                                                      : MOB_ESYS,
                           "connecting to %s: %s", path, strerror(errno));
    else if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != geteuid())
        status = base_fail(MOB_EPERM, "the socket %s belongs to another user", path);
    if (status == MOB_OK)
        *ret_sock = sock;
    else if (sock >= 0)
        close(sock);
    return status;
}

mob_status_t mob_worker_connect(const char *socket_path, uint64_t token,
                                mob_client_t **ret_client) {
    mob_client_t *c = client_new(WIRE_WORKER);
    if (c == NULL) return MOB_ENOMEM;
    client_cancel_ignore();
    mob_status_t status = client_socket_connect(socket_path, &c->sock);
    if (status == MOB_OK) status = client_handshake(c, token, NULL);
    if (status != MOB_OK) {
        client_free(c);
        return status;
    }
    *ret_client = c;
    return MOB_OK;
}

void mob_client_session(const mob_client_t *c, mob_session_t *ret_session) {
    *ret_session = (mob_session_t){
        .session_dir = c->session_dir,
        .socket_path = c->socket_path,
        .incarnation = c->incarnation,
        .number = c->number,
        .epoch = c->epoch,
        .job = c->job,
        .environment = c->environment,
        .daemon_pid = c->daemon_pid,
        .joined = c->joined,
    };
    if (c->setup == NULL || wire_setup_inner(c->setup, c->setup_size, &ret_session->setup,
                                             &ret_session->setup_size) != MOB_OK)
        ret_session->setup_size = 0;
}
