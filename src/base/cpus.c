/*
 * A container on a large host has a quota or a CPU set, not fewer processors: the host's count
 * would start dozens of workers that then throttle each other. So this asks the groups.
 *
 * Where a group's files are takes two files to find. /proc/self/cgroup names this process's group
 * in each hierarchy; /proc/self/mountinfo says where a hierarchy can be seen, and from which of its
 * groups on ("root" there). In a container the two differ in all combinations: with a namespace of
 * its own both are "/"; without one the group is /docker/x and so is the mount's root, or the root
 * is "/" although only /docker/x is of interest; and a group outside of the namespace is written
 * "/../y". For a group that can't be placed under the mount, the walk takes the mount point itself,
 * which is then the innermost group that can be seen. If no mount of groups is listed at all, it
 * tries the usual places.
 *
 * Groups above count as well: a limit holds for all below, and the innermost group often has none
 * of its own. In v2 a group in which the controller is off has no such file, in v1 a group may have
 * been removed by now; both are just missing files.
 */
#include "base/cpus.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* ---- Groups -------------------------------------------------------------- */

typedef struct cgroup_walk {
    const char *root;
    const char *controller;
    base_cgroup_visit_t visit;
    void *arg;
    char v1[PATH_MAX], v2[PATH_MAX]; /* this process's group in each; "/" if it is not known */
    bool mounted;
} cgroup_walk_t;

static FILE *root_open(const char *root, const char *path) {
    char full[PATH_MAX];
    int size = snprintf(full, sizeof full, "%s%s", root, path);
    return size < 0 || (size_t)size >= sizeof full ? NULL : fopen(full, "re");
}

/* Whether `word` is one of the comma-separated `list`. */
static bool list_has(const char *list, const char *word) {
    size_t size = strlen(word);
    for (const char *at = list; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, size) == 0 && (at[size] == ',' || at[size] == '\0')) return true;
    }
    return false;
}

/* One line of /proc/self/cgroup: "number:controllers:path"; v2 is number 0 without controllers. */
static void walk_read_group(cgroup_walk_t *walk, char *line) {
    char *controllers = strchr(line, ':');
    if (!controllers) return;
    *controllers++ = '\0';
    char *path = strchr(controllers, ':');
    if (!path) return;
    *path++ = '\0';
    if (*path != '/' || strlen(path) >= PATH_MAX) return;
    if (strcmp(line, "0") == 0 && !*controllers) {
        strcpy(walk->v2, path);
    } else if (list_has(controllers, walk->controller)) {
        strcpy(walk->v1, path);
    }
}

/* Undoes mountinfo's \040 for a blank and the like, in place. */
static void octal_decode(char *text) {
    char *to = text;
    for (const char *at = text; *at; to++) {
        bool escaped = at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' &&
                       at[2] <= '7' && at[3] >= '0' && at[3] <= '7';
        *to = escaped ? (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0')) : *at;
        at += escaped ? 4 : 1;
    }
    *to = '\0';
}

/* The part of `group` below a mount that begins at `mount_root`; "" if it can't be seen there. */
static const char *group_below(const char *group, const char *mount_root) {
    size_t size = strcmp(mount_root, "/") == 0 ? 0 : strlen(mount_root);
    if (strncmp(group, mount_root, size) != 0 || (group[size] != '/' && group[size] != '\0'))
        return "";
    const char *below = group + size;
    if (strstr(below, "/..") || strcmp(below, "/") == 0) return "";
    return below;
}

/* The group and all above it up to the mount point. */
static void walk_mount(cgroup_walk_t *walk, base_cgroup_version_t version, const char *mount_root,
                       const char *mount_point) {
    const char *group = version == BASE_CGROUP_V2 ? walk->v2 : walk->v1;
    char folder[PATH_MAX];
    int top = snprintf(folder, sizeof folder, "%s%s", walk->root, mount_point);
    if (top < 0 || (size_t)top >= sizeof folder) return;
    int size =
        snprintf(folder + top, sizeof folder - (size_t)top, "%s", group_below(group, mount_root));
    if (size < 0 || (size_t)size >= sizeof folder - (size_t)top) folder[top] = '\0';
    for (;;) {
        walk->visit(walk->arg, version, folder);
        char *last = strrchr(folder + top, '/');
        if (!last) break;
        *last = '\0';
    }
}

/* One line of mountinfo: "id parent major:minor root point options [more...] - type source
 * options". */
static void walk_read_mount(cgroup_walk_t *walk, char *line) {
    char *tail = strstr(line, " - ");
    if (!tail) return;
    *tail = '\0';
    tail += 3;
    char *rest = NULL, *field[5] = {0};
    for (int i = 0; i < 5; i++) {
        field[i] = strtok_r(i ? NULL : line, " ", &rest);
        if (!field[i]) return;
    }
    char *type = strtok_r(tail, " ", &rest), *source = strtok_r(NULL, " ", &rest),
         *options = strtok_r(NULL, " ", &rest);
    if (!type || !source || !options) return;
    bool v2 = strcmp(type, "cgroup2") == 0;
    if (!v2 && strcmp(type, "cgroup") != 0) return;
    walk->mounted = true;
    if (!v2 && !list_has(options, walk->controller)) return;
    octal_decode(field[3]);
    octal_decode(field[4]);
    walk_mount(walk, v2 ? BASE_CGROUP_V2 : BASE_CGROUP_V1, field[3], field[4]);
}

static void walk_lines(cgroup_walk_t *walk, const char *path,
                       void (*read)(cgroup_walk_t *, char *)) {
    FILE *file = root_open(walk->root, path);
    if (!file) return;
    char *line = NULL;
    size_t capacity = 0;
    for (ssize_t size; (size = getline(&line, &capacity, file)) > 0;) {
        if (line[size - 1] == '\n') line[size - 1] = '\0';
        read(walk, line);
    }
    free(line);
    fclose(file);
}

void base_cgroup_walk(const char *root, const char *controller, base_cgroup_visit_t visit,
                      void *arg) {
    cgroup_walk_t walk = {
        .root = root, .controller = controller, .visit = visit, .arg = arg, .v1 = "/", .v2 = "/"};
    walk_lines(&walk, "/proc/self/cgroup", walk_read_group);
    walk_lines(&walk, "/proc/self/mountinfo", walk_read_mount);
    if (walk.mounted) return;
    char point[64];
    snprintf(point, sizeof point, "/sys/fs/cgroup/%s", controller);
    walk_mount(&walk, BASE_CGROUP_V1, "/", point);
    walk_mount(&walk, BASE_CGROUP_V2, "/", "/sys/fs/cgroup");
    walk_mount(&walk, BASE_CGROUP_V2, "/", "/sys/fs/cgroup/unified");
}

/* ---- CPUs ---------------------------------------------------------------- */

/* The first line of a group's file; false if there is none or it is cut short. */
static bool group_read(const char *folder, const char *name, char *ret_line, size_t size) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = length < 0 || (size_t)length >= sizeof path ? NULL : fopen(path, "re");
    if (!file) return false;
    bool good = fgets(ret_line, (int)size, file) && strlen(ret_line) + 1 < size;
    fclose(file);
    if (good) ret_line[strcspn(ret_line, "\n")] = '\0';
    return good;
}

/* Digits only; moves *at behind them. */
static bool number_read(const char **at, uint64_t *ret_value) {
    if (**at < '0' || **at > '9') return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(*at, &end, 10);
    if (errno) return false;
    *at = end;
    *ret_value = value;
    return true;
}

static void limit_lower(unsigned *limit, uint64_t cpus) {
    if (cpus < 1) cpus = 1;
    if (cpus < *limit) *limit = (unsigned)cpus;
}

static void limit_quota(unsigned *limit, const char *quota, const char *period) {
    uint64_t runtime, length;
    if (!number_read(&quota, &runtime) || *quota || !number_read(&period, &length) || *period ||
        !length)
        return;
    limit_lower(limit, runtime / length + (runtime % length != 0));
}

/* The number of CPUs in a list such as "0-3,8,10-11"; 0 if it is empty or no such list. */
static uint64_t list_count(const char *at) {
    uint64_t count = 0, next = 0;
    for (;;) {
        uint64_t first, last;
        if (!number_read(&at, &first)) return 0;
        last = first;
        if (*at == '-') {
            at++;
            if (!number_read(&at, &last)) return 0;
        }
        if (first < next || last < first || last > UINT_MAX) return 0;
        count += last - first + 1;
        next = last + 1;
        if (!*at) return count;
        if (*at++ != ',') return 0;
    }
}

static void visit_quota(void *arg, base_cgroup_version_t version, const char *folder) {
    char quota[128], period[128];
    if (version == BASE_CGROUP_V1) {
        if (!group_read(folder, "cpu.cfs_quota_us", quota, sizeof quota)) return;
        if (!group_read(folder, "cpu.cfs_period_us", period, sizeof period)) return;
        limit_quota(arg, quota, period);
        return;
    }
    if (!group_read(folder, "cpu.max", quota, sizeof quota)) return;
    char *blank = strchr(quota, ' ');
    if (!blank) return;
    *blank = '\0';
    limit_quota(arg, quota, blank + 1);
}

static void visit_set(void *arg, base_cgroup_version_t version, const char *folder) {
    static const char *const names[] = {"cpuset.effective_cpus", "cpuset.cpus",
                                        "cpuset.cpus.effective"};
    /* A set of single CPUs takes up to six characters each. */
    char list[32768];
    int first = version == BASE_CGROUP_V1 ? 0 : 2, end = version == BASE_CGROUP_V1 ? 2 : 3;
    for (int i = first; i < end; i++) {
        uint64_t count = group_read(folder, names[i], list, sizeof list) ? list_count(list) : 0;
        if (!count) continue;
        limit_lower(arg, count);
        return;
    }
}

unsigned base_cpus_limit(const char *root) {
    unsigned limit = UINT_MAX;
    base_cgroup_walk(root, "cpu", visit_quota, &limit);
    base_cgroup_walk(root, "cpuset", visit_set, &limit);
    return limit;
}

/* The kernel refuses a mask that is shorter than its own, and does not say how long that is. */
static unsigned affinity_count(void) {
    for (size_t cpus = 1024; cpus <= (size_t)1 << 20; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        if (!set) break;
        size_t size = CPU_ALLOC_SIZE(cpus);
        bool good = sched_getaffinity(0, size, set) == 0, larger = !good && errno == EINVAL;
        unsigned count = good ? (unsigned)CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (good && count) return count;
        if (!larger) break;
    }
    return 1;
}

unsigned base_cpus_count(const char *root) {
    unsigned limit = base_cpus_limit(root), affinity = affinity_count();
    return limit < affinity ? limit : affinity;
}
