/*
 * The session's folder: <temp>/mobula-<uid>/session_<time>_<pid>, with the socket. Only its user
 * may enter it. Its daemon keeps it locked as long as it lives. A folder that is not locked was
 * left behind by a daemon that was killed; the next daemon that starts removes it.
 *
 * A node that any driver of the user may join has a file `node` in its folder: a line each with its
 * address, its process id, its version, its id, its cluster's id (empty: it is alone) and its name.
 * It is written last, when the daemon listens. Drivers come by the socket, other nodes to the
 * address.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "node/state.h"

enum { MAKE_TRIES = 1000, MAKE_PAUSE_US = 1000, MAKE_PAUSES = 7 }; /* some four seconds */

/* Leaves errno as it is. */
static mob_status_t folder_fail(const char *what, const char *path) {
    int error = errno;
    mob_status_t status = errno == ENOSPC || errno == EDQUOT                    ? MOB_ENOSPC
                          : errno == EACCES || errno == EPERM || errno == EROFS ? MOB_EPERM
                                                                                : MOB_ESYS;
    const char *advice = errno == EMFILE   ? "Raise the limit of open files (ulimit -n)"
                         : errno == ENFILE ? "The machine has as many files open as it can"
                                           : "Give ray.init another _temp_dir, or set RAY_TMPDIR";
    base_fail(status, "%s %s: %s. %s", what, path, strerror(error), advice);
    errno = error;
    return status;
}

/* The user's own folder: refused if it is another user's, and closed to others. */
static mob_status_t folder_check(const char *path) {
    struct stat st;
    if (lstat(path, &st) != 0) return folder_fail("looking at the folder", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid())
        return base_fail(
            MOB_EPERM,
            "%s is not a folder of this user's; remove it, or give ray.init another _temp_dir",
            path);
    if ((st.st_mode & 077) != 0 && chmod(path, 0700) != 0)
        return folder_fail("closing the folder", path);
    return MOB_OK;
}

static mob_status_t file_write(const node_t *n, const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", n->session.dir, name);
    ssize_t size = (ssize_t)strlen(text);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    mob_status_t status =
        fd >= 0 && write(fd, text, (size_t)size) == size ? MOB_OK : folder_fail("writing", path);
    if (fd >= 0) close(fd);
    return status;
}

/* A word on disk shows now, not later, whether there is space. */
static mob_status_t pid_write(const node_t *n) {
    char text[32];
    snprintf(text, sizeof text, "%d\n", (int)getpid());
    return file_write(n, "pid", text);
}

mob_status_t node_session_announce(const node_t *n, const char *address) {
    const node_cluster_t *c = n->cluster;
    const char *name = n->config.cluster.name;
    char text[1024], cluster[33] = "";
    if (c != NULL && !c->is_alone)
        snprintf(cluster, sizeof cluster, "%016llx%016llx", (unsigned long long)c->id[0],
                 (unsigned long long)c->id[1]);
    snprintf(text, sizeof text, "%s\n%d\n%s\n%016llx\n%s\n%s\n", address, (int)getpid(),
             MOBULA_VERSION, (unsigned long long)n->incarnation, cluster, name != NULL ? name : "");
    return file_write(n, "node", text);
}

static mob_status_t socket_listen(node_t *n) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(n->session.socket_path) >= sizeof address.sun_path)
        return base_fail(
            MOB_EINVAL,
            "the path %s is longer than a socket's may be (%zu). Give ray.init a shorter _temp_dir",
            n->session.socket_path, sizeof address.sun_path - 1);
    strcpy(address.sun_path, n->session.socket_path);
    n->session.listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (n->session.listen_fd < 0 ||
        bind(n->session.listen_fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(n->session.listen_fd, 128) != 0)
        return folder_fail("listening on", n->session.socket_path);
    return MOB_OK;
}

/* Makes both folders; again if another daemon that ended has just removed the outer one, before
 * this daemon looked at it or made the inner one. */
static mob_status_t folders_make(const char *parent, const char *dir) {
    mob_status_t status = MOB_OK;
    for (int tries = 0; tries < MAKE_TRIES; tries++) {
        /* Not in step with daemons that make and remove it: else each try could meet the same
         * end. */
        if (tries > 0) usleep(MAKE_PAUSE_US * (1 + (unsigned)tries % MAKE_PAUSES));
        /* if there is no place for it, no daemon is about to make one */
        if (mkdir(parent, 0700) != 0 && errno != EEXIST)
            return folder_fail("making the folder", parent);
        status = folder_check(parent);
        if (status == MOB_OK) {
            /* one that was removed since had nothing in it */
            if (tries == 0) base_folder_clear(parent, "session_");
            /* the descriptor stays open until the daemon ends */
            if (base_folder_own(dir) >= 0) return MOB_OK;
            status = folder_fail("making the folder", dir);
        }
        if (status != MOB_ESYS || errno != ENOENT) break;
    }
    return status;
}

mob_status_t node_session_open(node_t *n) {
    char *parent = NULL, *dir = NULL;
    if (asprintf(&parent, "%s/mobula-%u", n->config.temp_dir, (unsigned)geteuid()) < 0)
        return MOB_ENOMEM;
    if (asprintf(&dir, "%s/session_%llx_%d", parent,
                 (unsigned long long)base_clock_wall_ns() / 1000, (int)getpid()) < 0)
        dir = NULL;
    mob_status_t status = dir != NULL ? folders_make(parent, dir) : MOB_ENOMEM;
    free(parent);
    if (status != MOB_OK) {
        free(dir);
        return status;
    }
    n->session.dir = dir;
    if (asprintf(&n->session.socket_path, "%s/socket", dir) < 0) return MOB_ENOMEM;
    status = pid_write(n);
    return status == MOB_OK ? socket_listen(n) : status;
}

void node_session_close(node_t *n) {
    if (n->session.dir == NULL) return;
    base_folder_remove(n->session.dir);
    *strrchr(n->session.dir, '/') = 0;
    rmdir(n->session.dir); /* the user's folder too, if no other session is in it */
}
