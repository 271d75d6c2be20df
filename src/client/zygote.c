/*
 * The zygote's loop: forks a worker whenever the daemon asks.
 *
 * The zygote forks twice, so that the worker becomes a child of the daemon, the nearest subreaper:
 * then the daemon learns the worker's exit status. A worker waits until that has happened. It asks
 * the kernel to kill it when the daemon ends, and then makes sure that the daemon has not ended
 * already.
 *
 * A process with more than one thread can't be forked safely: the copy has only one, and the locks
 * that the others held stay locked. So the zygote counts its threads before each fork. If a module
 * has started some, the zygote tells the daemon, which starts a zygote without it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
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
#include "wire/message.h"

static pid_t daemon_pid;

static int thread_count(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/task");
    if (dir == NULL) return 1;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) count += e->d_name[0] != '.';
    closedir(dir);
    return count;
}

/* This process ends with the daemon from now on. False if the daemon is gone already. */
static bool die_with_daemon(void) {
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == daemon_pid;
}

static int zygote_connect(const char *path, uint64_t token) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (strlen(path) >= sizeof address.sun_path) return -1;
    strcpy(address.sun_path, path);
    wire_hello_t hello = wire_hello(WIRE_ZYGOTE, token);
    wire_packet_t ready = {.magic = WIRE_MAGIC, .kind = WIRE_READY};
    if (sock >= 0 && connect(sock, (struct sockaddr *)&address, sizeof address) == 0 &&
        send(sock, &hello, sizeof hello, MSG_NOSIGNAL) > 0 &&
        send(sock, &ready, sizeof ready, MSG_NOSIGNAL) > 0)
        return sock;
    if (sock >= 0) close(sock);
    return -1;
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

/* 1 in the grandchild, once it is the daemon's child; 0 in the zygote; -1 if the fork failed. The
 * process in the middle shares the zygote's memory while the zygote stands still (vfork). It does
 * nothing but fork, as the zygote would have, and exit. So the memory is copied once, not twice. */
static int fork_twice(const mob_zygote_ops_t *ops) {
    hook(ops->before_fork);
    volatile pid_t middle = vfork();
    if (middle == 0) {
        volatile pid_t me = getpid();
        pid_t second = fork();
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
    mob_status_t status = mob_worker_connect(path, token, ret_client);
    if (status == MOB_EPROTO || status == MOB_ECLOSED)
        _exit(0); /* the daemon does not want this worker any more */
    /* processes that it starts carry its session id, so that the daemon finds them */
    if (status == MOB_OK) setsid();
    title_set("worker");
    return status;
}

static void modules_load(const mob_zygote_ops_t *ops, const char *names, size_t size) {
    if (size == 0 || names[size - 1] != 0 || ops->preload == NULL) return;
    for (size_t at = 0; at < size; at += strlen(names + at) + 1) ops->preload(names + at);
}

static void answer(int sock, uint32_t kind) {
    wire_packet_t packet = {.magic = WIRE_MAGIC, .kind = kind};
    send(sock, &packet, sizeof packet, MSG_NOSIGNAL);
}

mob_status_t mob_zygote(const mob_zygote_ops_t *given, mob_client_t **ret_client) {
    const mob_zygote_ops_t none = {0}, *ops = given ? given : &none;
    const char *path = getenv("MOBULA_SOCKET"), *number = getenv("MOBULA_TOKEN");
    if (path == NULL || number == NULL)
        return base_fail(MOB_EINVAL, "this process is started by mobulad");
    char socket_path[256];
    snprintf(socket_path, sizeof socket_path, "%s", path);
    uint64_t token = strtoull(number, NULL, 10);
    unsetenv("MOBULA_SOCKET");
    unsetenv("MOBULA_TOKEN");
    daemon_pid = getppid();
    if (!die_with_daemon()) _exit(1);
    base_title_begin();
    title_set("zygote");
    oom_offer();
    int sock = zygote_connect(socket_path, token);
    if (sock < 0) _exit(1);
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
                return worker_begin(socket_path, head.token, ret_client);
            }
        } else if (head.packet.kind == WIRE_PRELOAD && fork_twice(ops) == 1) {
            close(sock);
            modules_load(ops, packet + sizeof(wire_packet_t), size - sizeof(wire_packet_t));
            sock = zygote_connect(socket_path, token);
            if (sock < 0) _exit(1);
            continue;
        }
        if (fds[0] >= 0) close(fds[0]);
        if (fds[1] >= 0) close(fds[1]);
    }
}
