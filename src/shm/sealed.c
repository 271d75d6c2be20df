#include "shm/sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

static const int SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

static bool write_all(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

mob_status_t shm_sealed_make(const char *name, const void *data, size_t size, int *ret_fd) {
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd >= 0 && write_all(fd, data, size) && fcntl(fd, F_ADD_SEALS, SEALS) == 0) {
        *ret_fd = fd;
        return MOB_OK;
    }
    int error = errno;
    if (fd >= 0) close(fd);
    return base_fail(MOB_ESYS, "making %zu bytes of shared memory: %s", size, strerror(error));
}

mob_status_t shm_sealed_check(int fd, size_t most, size_t *ret_size) {
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &st) != 0)
        return base_fail(MOB_EPROTO, "a descriptor was received that is not of sealed bytes");
    if (st.st_size < 0 || (uint64_t)st.st_size > most)
        return base_fail(MOB_ELIMIT, "%llu bytes were received, of at most %zu",
                         (unsigned long long)st.st_size, most);
    *ret_size = (size_t)st.st_size;
    return MOB_OK;
}

mob_status_t shm_sealed_read(int fd, void *ret_data, size_t size) {
    for (size_t at = 0; at < size;) {
        ssize_t n = pread(fd, (char *)ret_data + at, size - at, (off_t)at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return base_fail(MOB_ESYS, "reading %zu sealed bytes: %s", size,
                             n < 0 ? strerror(errno) : "there are fewer");
        at += (size_t)n;
    }
    return MOB_OK;
}
