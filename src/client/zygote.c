/*
 * The zygote's loop: forks a worker whenever the daemon asks.
 *
 * The zygote forks twice, so that the worker becomes a child of the daemon, the nearest subreaper:
 * then the daemon learns the worker's exit status. A worker waits until that has happened. It asks
 * the kernel to kill it when the daemon ends, and then makes sure that the daemon has not ended
 * already.
 *
 * A zygote can also fork another zygote: one that has loaded more (WIRE_PRELOAD), or one for
 * another setup (WIRE_ADOPT), which takes over that setup's environment and folder. Both connect by
 * themselves. A zygote says hello before it gets ready, for that may take long (a package has to be
 * installed), and the daemon should know that it is there.
 *
 * A process with more than one thread can't be forked safely: the copy has only one, and the locks
 * that the others held stay locked. So the zygote counts its threads before each fork. If a module
 * has started some, the zygote tells the daemon, which starts a zygote without it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/packet.h"
#include "base/status.h"
#include "base/title.h"
#include "mobula_task.h"
#include "shm/sealed.h"
#include "wire/message.h"
#include "wire/setup.h"

extern char **environ;

static pid_t daemon_pid;

/* Whose zygote this is. */
static struct {
    char socket_path[256];
    uint64_t token;
    int setup_fd, sock;
} self;

/* jemalloc's own thread, which pyarrow starts: jemalloc takes all of its locks for a fork (by
 * pthread_atfork), and the child goes without the thread. */
static bool stands_a_fork(const char *thread) {
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%.16s/comm", thread);
    FILE *file = fopen(path, "re");
    if (file == NULL) return true; /* it has ended */
    bool read = fgets(name, sizeof name, file) != NULL;
    fclose(file);
    return read && strcmp(name, "jemalloc_bg_thd\n") == 0;
}

/* The threads that a fork would lose, this one counted. */
static int thread_count(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    if (dir == NULL) return 1;
    for (struct dirent *e; (e = readdir(dir)) != NULL;)
        count += e->d_name[0] != '.' && !stands_a_fork(e->d_name);
    closedir(dir);
    return count;
}

/* This process ends with the daemon from now on. False if the daemon is gone already. */
static bool die_with_daemon(void) {
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == daemon_pid;
}

static int zygote_connect(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (strlen(self.socket_path) >= sizeof address.sun_path) _exit(1);
    strcpy(address.sun_path, self.socket_path);
    wire_hello_t hello = wire_hello(WIRE_ZYGOTE, self.token);
    if (sock >= 0 && connect(sock, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(sock, &hello, sizeof hello, MSG_NOSIGNAL) > 0)
        return sock;
    _exit(1);
}

static void answer(int sock, uint32_t kind) {
    wire_packet_t packet = {.magic = WIRE_MAGIC, .kind = kind};
    send(sock, &packet, sizeof packet, MSG_NOSIGNAL);
}

/* Does not return. */
static void unfit(int sock, const char *why) {
    static char packet[WIRE_PACKET_MAX / 2];
    wire_packet_t head = {.magic = WIRE_MAGIC, .kind = WIRE_UNFIT};
    size_t size = strnlen(why, sizeof packet - sizeof head);
    memcpy(packet, &head, sizeof head);
    memcpy(packet + sizeof head, why, size);
    send(sock, packet, sizeof head + size, MSG_NOSIGNAL);
    _exit(0);
}

/* Gets ready for the setup in the descriptor, which it takes. Its bytes are never freed: they may
 * be this process's environment. */
static void setup_begin(const mob_zygote_ops_t *ops, int sock, int fd, bool again) {
    size_t size = 0;
    self.setup_fd = fd;
    self.sock = sock;
    char *bytes = NULL;
    void *lists;
    wire_setup_t setup;
    mob_status_t status = shm_sealed_check(fd, WIRE_SETUP_MAX, &size);
    if (status == MOB_OK && (bytes = malloc(size + 1)) == NULL) status = MOB_ENOMEM;
    if (status == MOB_OK) status = shm_sealed_read(fd, bytes, size);
    if (status == MOB_OK) status = wire_setup_read(bytes, size, &setup, &lists);
    if (status != MOB_OK) unfit(sock, mob_last_error());
    if (again) {
        environ = (char **)setup.env;
        base_title_environment(setup.env);
        if (chdir(setup.folder) != 0) (void)!chdir("/");
    }
    const char *why = ops->begin != NULL ? ops->begin(setup.inner, setup.inner_size, again) : NULL;
    if (why != NULL) unfit(sock, why);
    close(fd);
}

/* Its connection closes with the old program; the daemon waits for the next hello, or for the end
 * of the process. */
mob_status_t mob_zygote_become(const char *const *argv) {
    char token[32], setup[16], daemon[16];
    int fd = fcntl(self.setup_fd, F_DUPFD, 0); /* stays open in the other program */
    snprintf(token, sizeof token, "%llu", (unsigned long long)self.token);
    snprintf(setup, sizeof setup, "%d", fd);
    snprintf(daemon, sizeof daemon, "%d", (int)daemon_pid);
    setenv("MOBULA_SOCKET", self.socket_path, 1);
    setenv("MOBULA_TOKEN", token, 1);
    setenv("MOBULA_SETUP", setup, 1);
    setenv("MOBULA_DAEMON", daemon, 1);
    execvp(argv[0], (char *const *)argv);
    int error = errno;
    close(fd);
    return base_fail(MOB_ESYS, "starting %s: %s", argv[0], strerror(error));
}

/* Whether the packet says what has become of that file; with words if it can't be had. */
static bool is_about(const char *packet, size_t size, const char *name, mob_status_t *ret_status) {
    wire_packet_t head;
    memcpy(&head, packet, sizeof head);
    size_t name_size = strlen(name) + 1, words = sizeof head + name_size;
    if (head.kind != WIRE_BROUGHT || size < words ||
        memcmp(packet + sizeof head, name, name_size) != 0)
        return false;
    *ret_status =
        size == words ? MOB_OK : base_fail(MOB_ESYS, "%.*s", (int)(size - words), packet + words);
    return true;
}

mob_status_t mob_zygote_fetch(const char *name, int timeout_ms) {
    static char packet[WIRE_PACKET_MAX];
    wire_packet_t head = {.magic = WIRE_MAGIC, .kind = WIRE_WANTED};
    struct pollfd ready = {.fd = self.sock, .events = POLLIN};
    mob_status_t status;
    size_t size = strlen(name);
    if (size > 255) return base_fail(MOB_EINVAL, "the name of a file has 255 bytes at most");
    memcpy(packet, &head, sizeof head);
    memcpy(packet + sizeof head, name, size);
    send(self.sock, packet, sizeof head + size, MSG_NOSIGNAL);
    for (;;) {
        int got = poll(&ready, 1, timeout_ms);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return base_fail(MOB_ETIMEOUT, "it did not come in time");
        ssize_t n = recv(self.sock, packet, sizeof packet, 0);
        if (n < (ssize_t)sizeof head) _exit(0); /* the daemon is gone */
        if (is_about(packet, (size_t)n, name, &status)) return status;
    }
}

static void hook(void (*function)(void)) {
    if (function != NULL) function();
}

/* The C library has told the kernel where to keep the number of its CPU up to date. The process in
 * the middle shares the zygote's memory, so the kernel has forgotten that for it and for its child.
 * The child's sched_getcpu would be wrong for ever, and allocators that keep memory by CPU rely on
 * it. */
static void rseq_restore(void) {
#if defined(RSEQ_SIG) && defined(SYS_rseq)
    enum { FIRST_SIZE = 32 }; /* of the area; later kernels take it too */
    if (__rseq_size > 0)
        (void)syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, FIRST_SIZE, 0,
                      RSEQ_SIG);
#endif
}

static volatile pid_t forked; /* the last grandchild; 0: it could not be forked */

/* 1 in the grandchild, once it is the daemon's child; 0 in the zygote; -1 if the fork failed. The
 * process in the middle shares the zygote's memory while the zygote stands still (vfork). It does
 * nothing but fork, as the zygote would have, and exit. So the memory is copied once, not twice. */
static int fork_twice(const mob_zygote_ops_t *ops) {
    hook(ops->before_fork);
    forked = 0;
    volatile pid_t middle = vfork();
    if (middle == 0) {
        volatile pid_t me = getpid();
        pid_t second = fork();
        if (second > 0) forked = second; /* in the zygote's memory too */
        if (second != 0) _exit(second < 0);
        rseq_restore();
        while (getppid() == me) sched_yield();
        if (!die_with_daemon()) _exit(1);
        hook(ops->after_fork_child);
        return 1;
    }
    hook(ops->after_fork_parent);
    if (middle < 0) return -1;
    pid_t pid = middle;
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return 0;
}

static void output_take(const int *fds) {
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(null, 0);
    close(null);
    dup2(fds[0], 1);
    dup2(fds[1], 2);
    close(fds[0]);
    close(fds[1]);
}

/* If the kernel has to kill a process for want of memory, let it be a worker, whose task may be run
 * again: workers inherit this. */
static void oom_offer(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!write(fd, "1000", 4);
    close(fd);
}

static void title_set(const char *name) {
    base_title_set(name, strlen(name), NULL, 0);
    base_title_short(name, strlen(name));
}

static mob_status_t worker_begin(const char *path, uint64_t token, mob_client_t **ret_client) {
    /* Processes that it starts carry its session id, so that the daemon finds them. Before the
     * daemon knows of it: the zygote's session ends with the zygote. */
    setsid();
    mob_status_t status = mob_worker_connect(path, token, ret_client);
    if (status == MOB_EPROTO || status == MOB_ECLOSED)
        _exit(0); /* the daemon does not want this worker any more */
    title_set("worker");
    return status;
}

static void modules_load(const mob_zygote_ops_t *ops, const char *names, size_t size) {
    if (size == 0 || names[size - 1] != 0 || ops->preload == NULL) return;
    for (size_t at = 0; at < size; at += strlen(names + at) + 1) ops->preload(names + at);
}

mob_status_t mob_zygote(const mob_zygote_ops_t *given, mob_client_t **ret_client) {
    const mob_zygote_ops_t none = {0}, *ops = given ? given : &none;
    const char *path = getenv("MOBULA_SOCKET"), *number = getenv("MOBULA_TOKEN"),
               *setup = getenv("MOBULA_SETUP"), *daemon = getenv("MOBULA_DAEMON");
    if (path == NULL || number == NULL || setup == NULL)
        return base_fail(MOB_EINVAL, "this process is started by mobulad");
    snprintf(self.socket_path, sizeof self.socket_path, "%s", path);
    self.token = strtoull(number, NULL, 10);
    int setup_fd = atoi(setup);
    unsetenv("MOBULA_SETUP");
    unsetenv("MOBULA_SOCKET");
    unsetenv("MOBULA_TOKEN");
    /* a command that starts the interpreter may be between the two */
    daemon_pid = daemon != NULL ? atoi(daemon) : getppid();
    unsetenv("MOBULA_DAEMON");
    if (!die_with_daemon() && (daemon == NULL || getppid() == 1)) _exit(1);
    base_title_begin();
    title_set(getenv("MOBULA_MOTHER") != NULL ? "mother" : "zygote");
    unsetenv("MOBULA_MOTHER");
    oom_offer();
    setsid(); /* what it starts is found by that, as with workers */
    int sock = zygote_connect();
    setup_begin(ops, sock, setup_fd, false);
    answer(sock, WIRE_READY);
    static char packet[WIRE_PACKET_MAX];
    for (;;) {
        int fds[2] = {-1, -1};
        ssize_t got = base_packet_receive(sock, packet, sizeof packet, 0, fds, 2, NULL);
        size_t size = got > 0 ? (size_t)got : 0;
        if (size < sizeof(wire_packet_t)) _exit(0);
        wire_fork_t head = {0};
        memcpy(&head, packet, size < sizeof head ? size : sizeof head);
        if (thread_count() != 1) {
            answer(sock, WIRE_STUCK);
            for (;;) pause(); /* the daemon kills this zygote */
        }
        if (head.packet.kind == WIRE_FORK && fds[1] >= 0) {
            if (fork_twice(ops) == 1) {
                close(sock);
                output_take(fds);
                return worker_begin(self.socket_path, head.token, ret_client);
            }
        } else if (head.packet.kind == WIRE_PRELOAD && fork_twice(ops) == 1) {
            close(sock);
            setsid();
            modules_load(ops, packet + sizeof(wire_packet_t), size - sizeof(wire_packet_t));
            sock = zygote_connect();
            answer(sock, WIRE_READY);
            continue;
        } else if (head.packet.kind == WIRE_ADOPT && fds[0] >= 0) {
            if (fork_twice(ops) == 1) {
                close(sock);
                title_set("zygote");
                setsid();
                self.token = head.token;
                sock = zygote_connect();
                setup_begin(ops, sock, fds[0], true);
                answer(sock, WIRE_READY);
                continue;
            }
            wire_adopted_t adopted = {.packet = {.magic = WIRE_MAGIC, .kind = WIRE_ADOPTED},
                                      .token = head.token,
                                      .pid = forked};
            send(sock, &adopted, sizeof adopted, MSG_NOSIGNAL);
        }
        if (fds[0] >= 0) close(fds[0]);
        if (fds[1] >= 0) close(fds[1]);
    }
}
