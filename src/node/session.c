/*
 * The session's folder: <temp>/mobula-<uid>/session_<time>_<pid>, with the socket and a lock. Only its user may enter it.
 *
 * The lock tells the living from the dead: a daemon holds it as long as it lives, so a folder whose lock can be taken was left behind by one that
 * was killed, and is removed by the next daemon that starts.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "node/state.h"

static mob_status_t folder_fail(const char *what, const char *path) {
    mob_status_t status = errno == ENOSPC || errno == EDQUOT                    ? MOB_ENOSPC
                          : errno == EACCES || errno == EPERM || errno == EROFS ? MOB_EPERM
                                                                                : MOB_ESYS;
    const char *advice = errno == EMFILE   ? "Raise the limit of open files (ulimit -n)"
                         : errno == ENFILE ? "The machine has as many files open as it can"
                                           : "Give ray.init another _temp_dir, or set RAY_TMPDIR";
    return base_fail(status, "%s %s: %s. %s", what, path, strerror(errno), advice);
}

/* The user's own folder: made if need be, refused if somebody else could write into it. */
static mob_status_t folder_make(const char *path) {
    struct stat st;
    if (mkdir(path, 0700) != 0 && errno != EEXIST) return folder_fail("making the folder", path);
    if (lstat(path, &st) != 0) return folder_fail("looking at the folder", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return base_fail(MOB_EPERM, "%s is not a folder of this user's; remove it, or give ray.init another _temp_dir",
                         path);
    if ((st.st_mode & 077) != 0 && chmod(path, 0700) != 0) return folder_fail("closing the folder", path);
    return MOB_OK;
}

static void stale_remove(const char *parent) {
    DIR *dir = opendir(parent);
    if (dir == NULL) return;
    for (struct dirent *e; (e = readdir(dir)) != NULL;) {
        if (strncmp(e->d_name, "session_", 8) != 0) continue;
        char path[4096], lock[4352];
        snprintf(path, sizeof path, "%s/%s", parent, e->d_name);
        snprintf(lock, sizeof lock, "%s/lock", path);
        int fd = open(lock, O_RDWR | O_CLOEXEC);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) base_folder_remove(path);
        if (fd >= 0) close(fd);
    }
    closedir(dir);
}

static mob_status_t lock_take(node_t *n) {
    char path[4096], fresh[4096];
    snprintf(path, sizeof path, "%s/lock", n->session_dir);
    snprintf(fresh, sizeof fresh, "%s/new", n->session_dir);
    /* Locked before it has its name, so that nobody finds it unlocked. */
    n->lock_fd = open(fresh, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (n->lock_fd < 0 || flock(n->lock_fd, LOCK_EX | LOCK_NB) != 0 || rename(fresh, path) != 0)
        return folder_fail("locking", path);
    /* A word on disk shows now, not later, whether there is space. */
    char text[32];
    int size = snprintf(text, sizeof text, "%d\n", (int)getpid());
    if (write(n->lock_fd, text, (size_t)size) != size) return folder_fail("writing", path);
    return MOB_OK;
}

static mob_status_t socket_listen(node_t *n) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(n->socket_path) >= sizeof address.sun_path)
        return base_fail(MOB_EINVAL,
                         "the path %s is longer than a socket's may be (%zu). Give ray.init a shorter _temp_dir",
                         n->socket_path, sizeof address.sun_path - 1);
    strcpy(address.sun_path, n->socket_path);
    n->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (n->listen_fd < 0 || bind(n->listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(n->listen_fd, 128) != 0)
        return folder_fail("listening on", n->socket_path);
    return MOB_OK;
}

/* Makes both folders; again if another daemon that ended has just removed the outer one. */
static mob_status_t folders_make(const char *parent, const char *dir) {
    mob_status_t status = MOB_OK;
    for (int tries = 0; tries < 10; tries++) {
        status = folder_make(parent);
        if (status != MOB_OK) return status;
        if (tries == 0) stale_remove(parent);
        if (mkdir(dir, 0700) == 0) return MOB_OK;
        status = folder_fail("making the folder", dir);
        if (errno != ENOENT) break;
    }
    return status;
}

mob_status_t node_session_open(node_t *n) {
    char *parent = NULL, *dir = NULL;
    if (asprintf(&parent, "%s/mobula-%u", n->temp_dir, (unsigned)geteuid()) < 0) return MOB_ENOMEM;
    if (asprintf(&dir, "%s/session_%llx_%d", parent, (unsigned long long)base_clock_wall_ns() / 1000, (int)getpid()) <
        0)
        dir = NULL;
    mob_status_t status = dir != NULL ? folders_make(parent, dir) : MOB_ENOMEM;
    free(parent);
    if (status != MOB_OK) {
        free(dir);
        return status;
    }
    n->session_dir = dir;
    if (asprintf(&n->socket_path, "%s/socket", dir) < 0) return MOB_ENOMEM;
    status = lock_take(n);
    return status == MOB_OK ? socket_listen(n) : status;
}

void node_session_close(node_t *n) {
    if (n->session_dir == NULL) return;
    base_folder_remove(n->session_dir);
    *strrchr(n->session_dir, '/') = 0;
    rmdir(n->session_dir); /* the user's folder too, if no other session is in it */
}
