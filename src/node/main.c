/*
 * mobulad: one a node. Owns the shared memory, schedules, supervises.
 *
 * Started with its starter's connection as descriptor 3. That is a driver, and then the daemon ends
 * when that driver does. Or, with --stay, it is a process that waits until the daemon is ready; the
 * daemon stays then, any driver of the user may join, and SIGTERM ends it.
 *
 * The loop sleeps in epoll. Clients wake it by the eventfd, and only if `daemon_sleeps` says so:
 * the daemon sets it before its last look at `pending`, so either that look finds a message or its
 * sender sees the flag.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpus.h"
#include "node/inbox.h"
#include "node/settings.h"
#include "node/state.h"
#include "node/watch.h"

enum { STARTER_FD = 3, ROUNDS = 64, DESCRIPTORS = 32 };

void node_end(node_t *n) {
    n->ending = true;
    uv_stop(&n->loop);
}

void node_stop(node_t *n) {
    if (n->stopping || !n->config.stays) {
        node_end(n);
        return;
    }
    n->stopping = true;
    NODE_EACH_JOB(n, job) node_job_leave(job, false);
    if (node_jobs_are_over(n)) node_cluster_leave(n);
}

static bool messages_pending(node_t *n) {
    for (uint32_t w = 0; w <= n->client_next / 64 && w < SHM_MAX_CLIENTS / 64; w++)
        if (atomic_load(&n->shared->pending[w]) != 0) return true;
    return false;
}

static void on_idle(uv_idle_t *handle) { uv_idle_stop(handle); }

/* Before the loop sleeps: everything that can be done is done. */
static void on_prepare(uv_prepare_t *handle) {
    node_t *n = handle->data;
    for (int i = 0; i < ROUNDS && !n->ending; i++) {
        n->again = false;
        atomic_store_explicit(&n->shared->rounds, ++n->round, memory_order_relaxed);
        size_t settled = n->zero.count;
        node_inbox_read(n);
        n->again |= control_turn(n->control);
        node_actors_settle(n);
        node_cancels_settle(n);
        node_groups_settle(n);
        node_remakes_settle(n);
        node_peers_settle(n);
        node_objects_sweep(n, settled);
        node_streams_settle(n);
        node_jobs_settle(n);
        node_questions_answer(n);
        node_schedule(n);
        if (n->cluster != NULL) node_cluster_settle(n->cluster);
        if (n->again || n->zero.count > 0) continue;
        atomic_store(&n->shared->daemon_sleeps, 1);
        if (!messages_pending(n)) {
            node_pressure_watch(n);
            return;
        }
        atomic_store(&n->shared->daemon_sleeps, 0);
    }
    /* still busy: the sockets get their turn, without sleeping */
    uv_idle_start(&n->handles.idle, on_idle);
}

static void on_check(uv_check_t *handle) {
    node_t *n = handle->data;
    atomic_store(&n->shared->daemon_sleeps, 0);
}

static void on_event(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    node_t *n = poll->data;
    uint64_t count;
    while (read(n->event_fd, &count, sizeof count) < 0 && errno == EINTR) {
    }
}

/* No descriptor is left for a process that connects, and the kernel would tell the daemon of it for
 * ever. The daemon accepts it with the descriptor that it keeps for this, and closes it. */
static void connection_refuse(node_t *n) {
    close(n->handles.spare_fd);
    int sock = accept4(n->session.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (sock >= 0) close(sock);
    n->handles.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    NODE_EACH_JOB(n, job)
    NODE_EACH_POOL(job, pool)
    if (pool->starting.count > 0)
        node_worker_useless(pool, "the daemon has as many files open as it may: see ulimit -n",
                            true);
}

static void on_connection(uv_poll_t *poll, int status, int events) {
    (void)status, (void)events;
    node_t *n = poll->data;
    int sock = accept4(n->session.listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    node_client_t *client;
    if (sock >= 0)
        node_client_accept(n, sock, &client);
    else if (errno == EMFILE || errno == ENFILE)
        connection_refuse(n);
}

static void on_signal(uv_signal_t *signal, int number) {
    node_t *n = signal->data;
    if (number == SIGCHLD)
        node_children_reap(n);
    else
        node_stop(n);
}

static int handles_init(node_t *n) {
    node_handles_t *h = &n->handles;
    h->listen_poll.data = h->event_poll.data = h->prepare.data = h->check.data = h->idle.data =
        h->child_signal.data = h->term_signal.data = n->schedule.timer.data = n;
    int error = uv_poll_init(&n->loop, &h->listen_poll, n->session.listen_fd);
    if (error == 0) error = uv_poll_init(&n->loop, &h->event_poll, n->event_fd);
    if (error == 0) error = uv_prepare_init(&n->loop, &h->prepare);
    if (error == 0) error = uv_check_init(&n->loop, &h->check);
    if (error == 0) error = uv_idle_init(&n->loop, &h->idle);
    if (error == 0) error = uv_signal_init(&n->loop, &h->child_signal);
    if (error == 0) error = uv_signal_init(&n->loop, &h->term_signal);
    if (error == 0) error = uv_timer_init(&n->loop, &n->schedule.timer);
    return error;
}

static int handles_start(node_t *n) {
    node_handles_t *h = &n->handles;
    int error = uv_poll_start(&h->listen_poll, UV_READABLE, on_connection);
    if (error == 0) error = uv_poll_start(&h->event_poll, UV_READABLE, on_event);
    if (error == 0) error = uv_prepare_start(&h->prepare, on_prepare);
    if (error == 0) error = uv_check_start(&h->check, on_check);
    if (error == 0) error = uv_signal_start(&h->child_signal, on_signal, SIGCHLD);
    if (error == 0) error = uv_signal_start(&h->term_signal, on_signal, SIGTERM);
    return error;
}

/* libuv aborts where it finds no descriptor for a part of its own. So the daemon checks first that
 * some are left, for libuv and for everything else that it opens at the start. */
static mob_status_t descriptors_check(void) {
    int fds[DESCRIPTORS], count = 0;
    while (count < DESCRIPTORS && (fds[count] = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0) count++;
    int error = errno;
    for (int i = 0; i < count; i++) close(fds[i]);
    if (count == DESCRIPTORS) return MOB_OK;
    return base_fail(MOB_ELIMIT,
                     "the daemon can open %d files, and needs %d at its start: %s. Raise the "
                     "limit of open files (ulimit -n)",
                     count, DESCRIPTORS, strerror(error));
}

/* The loop, and the starter's connection in it. */
static mob_status_t starter_open(node_t *n) {
    mob_status_t status = descriptors_check();
    if (status == MOB_OK) status = node_watch(uv_loop_init(&n->loop), "making the daemon's loop");
    return status == MOB_OK ? node_client_accept(n, STARTER_FD, &n->starter) : status;
}

/* The starter's hello is read first: a socket that is closed with something unread takes the
 * daemon's answer with it. */
static void starter_refuse(node_t *n, mob_status_t status) {
    char hello[256], why[512];
    snprintf(why, sizeof why, "%s", *mob_last_error() ? mob_last_error() : mob_status_text(status));
    poll(&(struct pollfd){.fd = STARTER_FD, .events = POLLIN}, 1, 5000);
    (void)!read(STARTER_FD, hello, sizeof hello);
    if (n->starter == NULL) { /* there is no loop that would watch it */
        if ((n->starter = node_client_new(n)) == NULL) return;
        n->starter->sock = STARTER_FD;
    }
    node_client_refuse(n->starter, status, why);
}

static mob_status_t loop_start(node_t *n) {
    n->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (n->event_fd < 0) return base_fail(MOB_ESYS, "eventfd: %s", strerror(errno));
    n->handles.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (n->handles.spare_fd < 0)
        return base_fail(MOB_ESYS, "opening /dev/null: %s", strerror(errno));
    mob_status_t status = node_watch(handles_init(n), "preparing the daemon's loop");
    if (status == MOB_OK) status = node_streams_start(n);
    if (status == MOB_OK) status = node_space_start(n);
    if (status == MOB_OK) status = node_failures_start(n);
    if (status == MOB_OK) status = node_farewell_start(n);
    if (status == MOB_OK) status = node_cancels_start(n);
    if (status == MOB_OK) status = node_pressure_start(n);
    if (status == MOB_OK && n->config.loopback) status = node_peer_start(n);
    if (status == MOB_OK) status = node_watch(handles_start(n), "starting the daemon's loop");
    if (status == MOB_OK) node_folders_clear(n);
    return status;
}

/* An argument about the node's part in a cluster; false: it is another one. */
static bool cluster_argument_read(node_cluster_config_t *config, const char *argument) {
    const struct {
        const char *name, **value;
    } known[] = {
        {"--join=", &config->join},           {"--redis=", &config->redis},
        {"--sentinels=", &config->sentinels}, {"--founded=", &config->founded},
        {"--buries=", &config->buries},       {"--node-name=", &config->name},
        {"--python=", &config->python},       {"--tls-cert=", &config->certificate},
        {"--tls-key=", &config->key},         {"--tls-ca=", &config->authority},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t size = strlen(known[i].name);
        if (strncmp(argument, known[i].name, size) != 0) continue;
        *known[i].value = argument + size;
        return true;
    }
    return false;
}

static mob_status_t arguments_read(node_t *n, int argc, char **argv) {
    n->config.temp_dir = "/tmp";
    for (int i = 1; i < argc; i++) {
        char *end;
        if (strncmp(argv[i], "--temp=", 7) == 0) {
            n->config.temp_dir = argv[i] + 7;
        } else if (strncmp(argv[i], "--store=", 8) == 0) {
            n->config.store_bytes = strtoull(argv[i] + 8, NULL, 10);
        } else if (strcmp(argv[i], "--stay") == 0) {
            n->config.stays = true;
        } else if (strncmp(argv[i], "--address=", 10) == 0) {
            n->config.address = argv[i] + 10;
        } else if (cluster_argument_read(&n->config.cluster, argv[i])) {
            continue;
        } else if (strncmp(argv[i], "--labels=", 9) == 0) {
            n->config.labels = argv[i] + 9;
        } else if (strncmp(argv[i], "--spill=", 8) == 0) {
            if (!vec_push(&n->config.spill_dirs, argv[i] + 8)) return MOB_ENOMEM;
        } else if (strncmp(argv[i], "--resource=", 11) == 0) {
            double amount = strtod(argv[i] + 11, &end);
            if (*end != '=' || !(amount >= 0)) return base_fail(MOB_EINVAL, "mobulad: %s", argv[i]);
            double units = amount * SCHED_UNIT + 0.5,
                   most = 2.0 * SCHED_AMOUNT_MAX; /* which the scheduler refuses */
            sched_amount_t r = {.name = end + 1, .amount = (uint64_t)(units < most ? units : most)};
            if (!vec_push(&n->config.resources, r)) return MOB_ENOMEM;
        } else {
            return base_fail(MOB_EINVAL, "mobulad: unknown argument %s", argv[i]);
        }
    }
    return MOB_OK;
}

/* Its own, and those that it was started with. */
static mob_status_t labels_set(node_t *n) {
    char *labels;
    const char *more = n->config.labels != NULL ? n->config.labels : "";
    if (asprintf(&labels, "ray.io/node-id=%016llx%s%s", (unsigned long long)n->incarnation,
                 *more ? "," : "", more) < 0)
        return MOB_ENOMEM;
    mob_status_t status = sched_labels_set(n->sched, labels);
    free(labels);
    return status;
}

/* A node that has an address takes part in a cluster, and is announced when it does. */
static mob_status_t part_take(node_t *n) {
    return n->config.address != NULL ? node_cluster_start(n) : node_session_announce(n, "");
}

/* Everything that can fail at the start. */
static mob_status_t node_start(node_t *n) {
    if (getrandom(&n->incarnation, sizeof n->incarnation, 0) != sizeof n->incarnation)
        return base_fail(MOB_ESYS, "getrandom: %s", strerror(errno));
    n->client_next = 1;
    n->started_ms = base_clock_wall_ns() / 1000000;
    mob_status_t status = node_settings_read(n);
    if (status == MOB_OK)
        status = sched_new(n->config.resources.items, n->config.resources.count, &n->sched);
    if (status == MOB_OK) status = labels_set(n);
    if (status != MOB_OK) return status;
    status = control_embedded_new(&n->control);
    if (status == MOB_OK) status = node_memory_init(n);
    if (status != MOB_OK) return status;
    atomic_store(&n->shared->fast, n->config.fast);
    atomic_store(&n->shared->cpus, base_cpus_count(""));
    status = node_session_open(n);
    if (status == MOB_OK) status = loop_start(n);
    return status == MOB_OK && n->config.stays ? part_take(n) : status;
}

static void silence(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return;
    dup2(null, 0);
    dup2(null, 1);
    if (getenv("MOBULA_DEBUG") == NULL) dup2(null, 2);
    close(null);
}

int main(int argc, char **argv) {
    static node_t node;
    node_t *n = &node;
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("mobulad " MOBULA_VERSION);
        return 0;
    }
    /* One heap for all threads, and large blocks go back at once: threads that read and write files
     * come and go, and each would leave a heap of its own behind. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 64 << 10);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file beyond the user's limit is an error, not the daemon's end */
    for (int fd = 0; fd < STARTER_FD; fd++) /* a starter without standard streams: their numbers
                                               must not be taken by anything else */
        if (fcntl(fd, F_GETFD) < 0) (void)!open("/dev/null", O_RDWR);
    syscall(SYS_close_range, STARTER_FD + 1, ~0u, 0);
    fcntl(STARTER_FD, F_SETFD, FD_CLOEXEC);
    fcntl(STARTER_FD, F_SETFL, O_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "mobulad");
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    mob_status_t status = arguments_read(n, argc, argv);
    if (status == MOB_OK) status = starter_open(n);
    if (status != MOB_OK) {
        int type;
        if (getsockopt(STARTER_FD, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){sizeof type}) == 0)
            starter_refuse(n, status);
        else
            fprintf(stderr, "mobulad: %s %s (it is started by ray.init or ray start)\n",
                    mob_status_text(status), mob_last_error());
        return 1;
    }
    status = node_start(n);
    if (status != MOB_OK) {
        starter_refuse(n, status);
    } else {
        silence();
        if (n->config.stays) (void)!chdir("/"); /* it keeps no folder of its starter's in use */
        uv_run(&n->loop, UV_RUN_DEFAULT);
    }
    if (n->session.listen_fd > 0) close(n->session.listen_fd);
    node_children_end();
    node_folders_end(n);
    node_session_close(n);
    /* Not by return: that waits for the threads, and one may wait for a disk that does not
     * answer. */
    _exit(node_cluster_is_put_out(n) ? 1 : 0);
}
