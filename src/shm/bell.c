#include "shm/bell.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool shm_bell_ring(shm_bell_t *bell) {
    atomic_fetch_add(&bell->rings, 1);
    if (atomic_load(&bell->sleepers) == 0) return false;
    return syscall(SYS_futex, &bell->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0) > 0;
}

bool shm_bell_sleep(shm_bell_t *bell, uint32_t seen, int64_t timeout_ns) {
    struct timespec t = {.tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000};
    atomic_fetch_add(&bell->sleepers, 1);
    long rc =
        syscall(SYS_futex, &bell->rings, FUTEX_WAIT, seen, timeout_ns < 0 ? NULL : &t, NULL, 0);
    int error = errno;
    atomic_fetch_sub(&bell->sleepers, 1);
    return rc == 0 || error != EINTR;
}
