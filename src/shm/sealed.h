/*
 * Bytes that one process hands to others by a descriptor: a memfd that no process can change any
 * more. For bytes that are too large for a packet. Any thread.
 */
#ifndef SHM_SEALED_H
#define SHM_SEALED_H

#include <stddef.h>

#include "mobula.h"

/* Makes a memfd of `size` bytes, which are copied. *ret_fd is the caller's. */
mob_status_t shm_sealed_make(const char *name, const void *data, size_t size, int *ret_fd);
/* Checks that no process can change a received memfd (else MOB_EPROTO), and that its size is at
 * most `most` (else MOB_ELIMIT). The descriptor stays the caller's. */
mob_status_t shm_sealed_check(int fd, size_t most, size_t *ret_size);
/* Copies its `size` bytes, as shm_sealed_check found them. */
mob_status_t shm_sealed_read(int fd, void *ret_data, size_t size);

#endif
