/* A new token is written to a file of its own and linked to its name: so nobody reads half of one,
 * and the first who links wins. */
#include "net/token.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "net/secret.h"

static const char *value_of(const char *name) {
    const char *value = getenv(name);
    return value != NULL && value[0] != 0 ? value : NULL;
}

static mob_status_t token_take(const char *text, size_t size, const char *where,
                               net_token_t *ret_token) {
    while (size > 0 && isspace((unsigned char)text[size - 1])) size--;
    while (size > 0 && isspace((unsigned char)text[0])) text++, size--;
    if (size < NET_TOKEN_MIN || size > NET_TOKEN_MAX)
        return base_fail(MOB_EINVAL,
                         "the cluster's token in %s has %zu characters; it must have %d to %d",
                         where, size, NET_TOKEN_MIN, NET_TOKEN_MAX);
    memcpy(ret_token->text, text, size);
    ret_token->text[size] = 0;
    ret_token->size = size;
    return MOB_OK;
}

static mob_status_t permissions_check(int fd, const char *path) {
    struct stat about;
    if (fstat(fd, &about) < 0) return base_fail(MOB_ESYS, "%s: %s", path, strerror(errno));
    if (!S_ISREG(about.st_mode)) return base_fail(MOB_EINVAL, "%s is no file", path);
    if ((about.st_uid != geteuid() && about.st_uid != 0) || (about.st_mode & 077) != 0)
        return base_fail(MOB_EPERM,
                         "other users can read or write the cluster's token: chmod 600 %s, and "
                         "make a new one if somebody may have seen it",
                         path);
    return MOB_OK;
}

static mob_status_t file_read(const char *path, net_token_t *ret_token) {
    char text[NET_TOKEN_MAX + 64]; /* white space around it, too */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0 && errno == ENOENT) return base_fail(MOB_ENONAME, "there is no file %s", path);
    if (fd < 0) return base_fail(MOB_ESYS, "%s: %s", path, strerror(errno));
    mob_status_t status = permissions_check(fd, path);
    size_t size = 0;
    while (status == MOB_OK && size < sizeof text) {
        ssize_t n = read(fd, text + size, sizeof text - size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = base_fail(MOB_ESYS, "%s: %s", path, strerror(errno));
        if (n <= 0) break;
        size += (size_t)n;
    }
    close(fd);
    if (status == MOB_OK) status = token_take(text, size, path, ret_token);
    explicit_bzero(text, sizeof text);
    return status;
}

/* ~/.ray, or with a name ~/.ray/name. */
static mob_status_t home_path(const char *name, char *ret_path) {
    const char *home = value_of("HOME");
    if (home == NULL)
        return base_fail(MOB_ENONAME, "HOME is not set: set RAY_AUTH_TOKEN to the cluster's token");
    int n = snprintf(ret_path, PATH_MAX, "%s/.ray%s%s", home, name[0] != 0 ? "/" : "", name);
    return n < PATH_MAX ? MOB_OK : base_fail(MOB_EINVAL, "HOME is too long");
}

mob_status_t net_token_find(net_token_t *ret_token) {
    const char *value = value_of("RAY_AUTH_TOKEN"), *path = value_of("RAY_AUTH_TOKEN_PATH");
    if (value != NULL) return token_take(value, strlen(value), "RAY_AUTH_TOKEN", ret_token);
    if (path != NULL) {
        mob_status_t status = file_read(path, ret_token);
        if (status != MOB_ENONAME) return status;
        return base_fail(MOB_EINVAL, "RAY_AUTH_TOKEN_PATH names %s, and there is no such file",
                         path);
    }
    char own[PATH_MAX];
    mob_status_t status = home_path("auth_token", own);
    return status == MOB_OK ? file_read(own, ret_token) : status;
}

static mob_status_t file_write(const char *path) {
    uint8_t random[32];
    char text[2 * sizeof random + 1];
    net_secret_random(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++) snprintf(text + 2 * i, 3, "%02x", random[i]);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t n = fd >= 0 ? write(fd, text, sizeof text - 1) : -1;
    int error = n < 0 ? errno : n < (ssize_t)sizeof text - 1 ? ENOSPC : 0;
    if (fd >= 0 && (fsync(fd) < 0 || close(fd) < 0) && error == 0) error = errno;
    explicit_bzero(random, sizeof random);
    explicit_bzero(text, sizeof text);
    return error == 0 ? MOB_OK : base_fail(MOB_ESYS, "%s: %s", path, strerror(error));
}

static mob_status_t file_make(void) {
    char folder[PATH_MAX], path[PATH_MAX], name[64], draft[PATH_MAX];
    uint64_t number;
    net_secret_random(&number, sizeof number);
    snprintf(name, sizeof name, "auth_token.%016llx", (unsigned long long)number);
    mob_status_t status = home_path("", folder);
    if (status == MOB_OK) status = home_path("auth_token", path);
    if (status == MOB_OK) status = home_path(name, draft);
    if (status != MOB_OK) return status;
    if (mkdir(folder, 0700) < 0 && errno != EEXIST)
        return base_fail(MOB_ESYS, "%s: %s", folder, strerror(errno));
    status = file_write(draft);
    if (status == MOB_OK && link(draft, path) < 0 && errno != EEXIST)
        status = base_fail(MOB_ESYS, "%s: %s", path, strerror(errno));
    unlink(draft);
    return status;
}

mob_status_t net_token_make(net_token_t *ret_token) {
    mob_status_t status = net_token_find(ret_token);
    if (status != MOB_ENONAME) return status;
    status = file_make();
    return status == MOB_OK ? net_token_find(ret_token) : status;
}

void net_token_fini(net_token_t *token) { explicit_bzero(token, sizeof *token); }
