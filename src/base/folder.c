#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* Tries, not a time: a process that was stopped has not waited. 5 s in all, for the process that
 * clears up may be off the CPU while it has the lock. */
enum { DEPTH = 128, OWN_TRIES = 5000, OWN_PAUSE_US = 1000 };

static void folder_empty(int fd, int depth) {
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        close(fd);
        return;
    }
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        if (unlinkat(fd, e->d_name, 0) == 0 || errno != EISDIR || depth + 1 >= DEPTH) continue;
        int inner = openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (inner >= 0) folder_empty(inner, depth + 1);
        unlinkat(fd, e->d_name, AT_REMOVEDIR);
    }
    closedir(dir);
}

bool base_folder_remove(const char *path) {
    /* Another process may be making files there: when the folder is gone, it can't. */
    for (int tries = 0; tries < 100; tries++) {
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0) folder_empty(fd, 0);
        if (rmdir(path) == 0 || errno == ENOENT) return true;
        if (errno != ENOTEMPTY && errno != EEXIST) return false;
    }
    return false;
}

/*
 * Locks a folder. Between the opening and the lock another process may have removed it and made one
 * of the same name: this process has the folder only if the name still leads to the locked one.
 * From then on it does: a process that clears up needs the lock, and a driver removes only what its
 * own daemon left, whose names come once. False and errno, ENOENT if the locked folder is not there
 * any more.
 */
static bool folder_lock(const char *path, int fd) {
    struct stat by_name, by_fd;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 || lstat(path, &by_name) != 0 || fstat(fd, &by_fd) != 0)
        return false;
    if (by_name.st_ino == by_fd.st_ino && by_name.st_dev == by_fd.st_dev) return true;
    errno = ENOENT;
    return false;
}

int base_folder_own(const char *path) {
    for (int tries = 0; tries < OWN_TRIES; tries++) {
        if (tries > 0) usleep(OWN_PAUSE_US);
        if (mkdir(path, 0700) != 0 && errno != EEXIST) return -1;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && errno != ENOENT) return -1;
        if (fd < 0) continue;
        if (folder_lock(path, fd)) return fd;
        int error = errno;
        close(fd);
        errno = error;
        /* this file system has no locks, say */
        if (error != EWOULDBLOCK && error != EINTR && error != ENOENT) return -1;
    }
    errno = EBUSY;
    return -1;
}

/* A folder of the user may begin alike. */
static bool is_numbered(const char *name, const char *prefix) {
    size_t skip = strlen(prefix);
    return strncmp(name, prefix, skip) == 0 && name[skip] != 0 &&
           name[skip + strspn(name + skip, "0123456789abcdef_")] == 0;
}

void base_folder_clear(const char *parent, const char *prefix) {
    DIR *dir = opendir(parent);
    if (dir == NULL) return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        char path[4608];
        if (!is_numbered(e->d_name, prefix)) continue;
        if (snprintf(path, sizeof path, "%s/%s", parent, e->d_name) >= (int)sizeof path) continue;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && folder_lock(path, fd)) base_folder_remove(path);
        if (fd >= 0) close(fd);
    }
    closedir(dir);
}
