/*
 * Both questions are a minimum over the machine and every group that this process is in, up to the
 * outermost one that can be seen. A group without a limit says "max" (v2) or a number larger than
 * any machine (v1), and neither ever is the minimum.
 *
 * A group's usage contains the page cache that its files filled. The kernel drops that before it
 * kills a process, the active part (what was read twice) as well as the inactive one. MemAvailable
 * counts both as available; so both are taken off. Without this a program that has read a large
 * file would seem to have no memory left. The memory.stat fields used here count the groups below
 * as well, as the usage does; neither contains shared memory. Swap is left out of the sums: an
 * object store that fills it is slower than one that says that it is full.
 */
#include "base/memory.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/cpus.h"
#include "base/status.h"

/* A whole text of digits, a newline or a blank aside. */
static bool number_parse(const char *text, uint64_t *ret_value) {
    if (*text < '0' || *text > '9') return false;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || (*end && *end != '\n' && *end != ' ')) return false;
    *ret_value = value;
    return true;
}

/* The number behind `key` in a file of lines "key  number"; with key "" the number that is the
 * file. */
static bool value_read(const char *folder, const char *name, const char *key, uint64_t *ret_value) {
    char path[PATH_MAX], line[512];
    int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = length < 0 || (size_t)length >= sizeof path ? NULL : fopen(path, "re");
    if (!file) return false;
    bool found = false;
    size_t size = strlen(key);
    while (!found && fgets(line, sizeof line, file)) {
        if (strncmp(line, key, size) != 0 || (size && line[size] != ' ')) continue;
        found = number_parse(line + size + strspn(line + size, " "), ret_value);
        if (!size) break;
    }
    fclose(file);
    return found;
}

/* A line of /proc/meminfo, which counts in KiB. */
static bool meminfo_read(const char *root, const char *key, uint64_t *ret_bytes) {
    uint64_t kib;
    if (!value_read(root, "proc/meminfo", key, &kib) || kib > UINT64_MAX / 1024) return false;
    *ret_bytes = kib * 1024;
    return true;
}

static bool group_limit(base_cgroup_version_t version, const char *folder, uint64_t *ret_bytes) {
    return value_read(folder, version == BASE_CGROUP_V1 ? "memory.limit_in_bytes" : "memory.max",
                      "", ret_bytes);
}

/* What a group has in use beside the page cache. */
static uint64_t group_used(base_cgroup_version_t version, const char *folder) {
    bool v1 = version == BASE_CGROUP_V1;
    const char *const cached[] = {v1 ? "total_inactive_file" : "inactive_file",
                                  v1 ? "total_active_file" : "active_file"};
    uint64_t used, cache;
    if (!value_read(folder, v1 ? "memory.usage_in_bytes" : "memory.current", "", &used)) return 0;
    for (size_t i = 0; i < sizeof cached / sizeof *cached; i++)
        if (value_read(folder, "memory.stat", cached[i], &cache))
            used = cache < used ? used - cache : 0;
    return used;
}

static void bytes_lower(uint64_t *bytes, uint64_t value) {
    if (value < *bytes) *bytes = value;
}

static void visit_limit(void *arg, base_cgroup_version_t version, const char *folder) {
    uint64_t limit;
    if (group_limit(version, folder, &limit)) bytes_lower(arg, limit);
}

static void visit_headroom(void *arg, base_cgroup_version_t version, const char *folder) {
    uint64_t limit;
    if (!group_limit(version, folder, &limit)) return;
    uint64_t used = group_used(version, folder);
    bytes_lower(arg, used < limit ? limit - used : 0);
}

static mob_status_t least(const char *root, const char *key, base_cgroup_visit_t visit,
                          uint64_t *ret_bytes) {
    uint64_t bytes = UINT64_MAX, machine;
    if (meminfo_read(root, key, &machine)) bytes = machine;
    base_cgroup_walk(root, "memory", visit, &bytes);
    if (bytes == UINT64_MAX)
        return base_fail(MOB_ESYS, "%s is neither in /proc/meminfo nor limited by a group", key);
    *ret_bytes = bytes;
    return MOB_OK;
}

mob_status_t base_memory_limit(const char *root, uint64_t *ret_bytes) {
    return least(root, "MemTotal:", visit_limit, ret_bytes);
}

mob_status_t base_memory_headroom(const char *root, uint64_t *ret_bytes) {
    return least(root, "MemAvailable:", visit_headroom, ret_bytes);
}

/* The machine or group that is closest to its limit. */
typedef struct {
    uint64_t used, limit;
} fill_t;

static void fill_raise(fill_t *fill, uint64_t used, uint64_t limit) {
    if (limit > 0 && (fill->limit == 0 ||
                      (double)used / (double)limit > (double)fill->used / (double)fill->limit))
        *fill = (fill_t){.used = used, .limit = limit};
}

static void visit_fill(void *arg, base_cgroup_version_t version, const char *folder) {
    uint64_t limit;
    if (group_limit(version, folder, &limit)) fill_raise(arg, group_used(version, folder), limit);
}

mob_status_t base_memory_usage(const char *root, uint64_t *ret_used, uint64_t *ret_limit) {
    fill_t fill = {0};
    uint64_t total, available;
    if (meminfo_read(root, "MemTotal:", &total) && meminfo_read(root, "MemAvailable:", &available))
        fill_raise(&fill, available < total ? total - available : 0, total);
    base_cgroup_walk(root, "memory", visit_fill, &fill);
    if (fill.limit == 0)
        return base_fail(MOB_ESYS,
                         "neither /proc/meminfo nor a group says how much memory is used");
    *ret_used = fill.used;
    *ret_limit = fill.limit;
    return MOB_OK;
}

/* The sum of two lines; what is missing is nothing. */
static uint64_t dirty_sum(const char *folder, const char *name, const char *key,
                          const char *other_key) {
    uint64_t dirty = 0, written = 0;
    bool found = value_read(folder, name, key, &dirty),
         other = value_read(folder, name, other_key, &written);
    return (found ? dirty : 0) + (other ? written : 0);
}

static void visit_dirty(void *arg, base_cgroup_version_t version, const char *folder) {
    bool v1 = version == BASE_CGROUP_V1;
    uint64_t dirty = dirty_sum(folder, "memory.stat", v1 ? "total_dirty" : "file_dirty",
                               v1 ? "total_writeback" : "file_writeback");
    if (dirty > *(uint64_t *)arg) *(uint64_t *)arg = dirty;
}

mob_status_t base_memory_dirty(const char *root, uint64_t *ret_bytes) {
    uint64_t bytes, writeback;
    if (!meminfo_read(root, "Dirty:", &bytes) || !meminfo_read(root, "Writeback:", &writeback))
        return base_fail(MOB_ESYS, "/proc/meminfo does not say how much is to be written to disk");
    bytes += writeback;
    base_cgroup_walk(root, "memory", visit_dirty, &bytes);
    *ret_bytes = bytes;
    return MOB_OK;
}

static void visit_kills(void *arg, base_cgroup_version_t version, const char *folder) {
    uint64_t kills;
    bool v1 =
        version == BASE_CGROUP_V1; /* of a v2 group's own processes, without the groups below */
    if (value_read(folder, v1 ? "memory.oom_control" : "memory.events.local", "oom_kill", &kills))
        *(uint64_t *)arg += kills;
}

uint64_t base_memory_kills(const char *root) {
    uint64_t kills = 0;
    base_cgroup_walk(root, "memory", visit_kills, &kills);
    return kills;
}
