#include "shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

static uint64_t page_round(uint64_t size) {
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    return (size + page - 1) / page * page;
}

static mob_status_t map_fail(const shm_segment_t *s) {
    return base_fail(MOB_ESYS,
                     "mapping %llu bytes of shared memory: %s. Give ray.init a smaller "
                     "object_store_memory, or raise the "
                     "limit of address space (ulimit -v)",
                     (unsigned long long)s->size, strerror(errno));
}

static mob_status_t segment_map(shm_segment_t *s, bool read_only_too) {
    void *base = mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->fd, 0);
    if (base == MAP_FAILED) return map_fail(s);
    s->base = base;
    /* A forked child must not be able to write by accident, nor keep the pages alive through this
     * view. */
    madvise(base, s->size, MADV_DONTFORK);
    madvise(base, s->size, MADV_HUGEPAGE); /* where the system lets shared memory have huge pages */
    if (!read_only_too) return MOB_OK;
    void *view = mmap(NULL, s->size, PROT_READ, MAP_SHARED | MAP_NORESERVE, s->fd, 0);
    if (view == MAP_FAILED) return map_fail(s);
    s->read_only = view;
    return MOB_OK;
}

mob_status_t shm_segment_create(const char *name, uint64_t size, shm_segment_t *ret_segment) {
    shm_segment_t s = SHM_SEGMENT_NONE;
    s.size = page_round(size);
    s.fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (s.fd < 0) return base_fail(MOB_ESYS, "memfd_create %s: %s", name, strerror(errno));
    mob_status_t status = MOB_OK;
    if (ftruncate(s.fd, (off_t)s.size) != 0 ||
        fcntl(s.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
        status = base_fail(MOB_ESYS, "sizing the segment %s: %s", name, strerror(errno));
    if (status == MOB_OK) status = segment_map(&s, false);
    if (status != MOB_OK) {
        shm_segment_fini(&s);
        return status;
    }
    *ret_segment = s;
    return MOB_OK;
}

mob_status_t shm_segment_open(int fd, uint64_t expected_size, bool read_only_too,
                              shm_segment_t *ret_segment) {
    shm_segment_t s = SHM_SEGMENT_NONE;
    s.fd = fd;
    s.size = page_round(expected_size);
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    mob_status_t status = MOB_OK;
    if (fstat(fd, &st) != 0 || (uint64_t)st.st_size < s.size || seals < 0 ||
        !(seals & F_SEAL_SHRINK))
        status = base_fail(MOB_EPROTO, "a received segment is not of %llu sealed bytes",
                           (unsigned long long)s.size);
    if (status == MOB_OK) status = segment_map(&s, read_only_too);
    if (status != MOB_OK) {
        shm_segment_fini(&s);
        return status;
    }
    *ret_segment = s;
    return MOB_OK;
}

mob_status_t shm_segment_back(const shm_segment_t *s, uint64_t offset, uint64_t size) {
    int rc;
    do rc = fallocate(s->fd, 0, (off_t)offset, (off_t)size);
    while (rc != 0 && errno == EINTR);
    return rc == 0 ? MOB_OK
                   : base_fail(MOB_EFULL, "fallocate of %llu bytes: %s", (unsigned long long)size,
                               strerror(errno));
}

void shm_segment_unback(const shm_segment_t *s, uint64_t offset, uint64_t size) {
    int rc;
    do
        rc = fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset,
                       (off_t)size);
    while (rc != 0 && errno == EINTR);
}

void shm_segment_fini(shm_segment_t *s) {
    if (s->read_only != NULL) munmap((void *)s->read_only, s->size);
    if (s->base != NULL) munmap(s->base, s->size);
    if (s->fd >= 0) close(s->fd);
    *s = SHM_SEGMENT_NONE;
}

void shm_segment_abandon(shm_segment_t *s) {
    if (s->fd >= 0) close(s->fd);
    s->fd = -1;
    s->base = NULL;
}
