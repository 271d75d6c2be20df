/* Packets with descriptors, over a unix socket (SOCK_SEQPACKET). Any thread. */
#ifndef BASE_PACKET_H
#define BASE_PACKET_H

#include <stddef.h>
#include <sys/types.h>

enum { BASE_PACKET_FDS = 16 }; /* that one packet can bring */

/* Sends one packet, with descriptors that stay the caller's. -1 with errno; a signal does not end
 * it. `flags` are sendmsg's. */
ssize_t base_packet_send(int sock, const void *data, size_t size, const int *fds, int fd_count,
                         int flags);
/* Receives one packet, cut at `capacity`, and up to `most` descriptors, which are the caller's then
 * and close on exec. Descriptors beyond these are closed. Its size; 0: the other side hung up; -1
 * with errno; a signal does not end it. `flags` are recvmsg's. With `most` 0 the last two may be
 * NULL. */
ssize_t base_packet_receive(int sock, void *data, size_t capacity, int flags, int *ret_fds,
                            int most, int *ret_fd_count);

#endif
