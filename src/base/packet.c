#include "base/packet.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

ssize_t base_packet_send(int sock, const void *data, size_t size, const int *fds, int fd_count,
                         int flags) {
    char control[CMSG_SPACE(sizeof(int) * BASE_PACKET_FDS)] = {0};
    struct iovec part = {.iov_base = (void *)data, .iov_len = size};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    assert(fd_count <= BASE_PACKET_FDS);
    if (fd_count > 0) {
        m.msg_control = control;
        m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
        struct cmsghdr *h = CMSG_FIRSTHDR(&m);
        h->cmsg_level = SOL_SOCKET;
        h->cmsg_type = SCM_RIGHTS;
        h->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count);
        memcpy(CMSG_DATA(h), fds, sizeof(int) * (size_t)fd_count);
    }
    ssize_t n;
    do n = sendmsg(sock, &m, flags | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n;
}

/* Keeps up to `most` of those that came, and closes the rest. */
static int fds_take(const struct msghdr *m, int *ret_fds, int most) {
    int kept = 0;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(m); h != NULL; h = CMSG_NXTHDR((struct msghdr *)m, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (h->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(h) + i * sizeof fd, sizeof fd);
            if (kept < most)
                ret_fds[kept++] = fd;
            else
                close(fd);
        }
    }
    return kept;
}

ssize_t base_packet_receive(int sock, void *data, size_t capacity, int flags, int *ret_fds,
                            int most, int *ret_fd_count) {
    char control[CMSG_SPACE(sizeof(int) * BASE_PACKET_FDS)];
    struct iovec part = {.iov_base = data, .iov_len = capacity};
    struct msghdr m;
    ssize_t n;
    assert(most <= BASE_PACKET_FDS);
    do {
        m = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1};
        if (most > 0) { /* without space for any, the kernel closes them itself */
            m.msg_control = control;
            m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)most);
        }
        n = recvmsg(sock, &m, flags | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    int kept = n >= 0 && most > 0 ? fds_take(&m, ret_fds, most) : 0;
    if (ret_fd_count != NULL) *ret_fd_count = kept;
    return n;
}
