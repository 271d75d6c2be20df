/* How many CPUs this process may use, and the walk over its control groups that tells
 * (base/memory.c takes it too). */
#ifndef BASE_CPUS_H
#define BASE_CPUS_H

/*
 * In all of these `root` is put before every path that is read: "" is the real machine, a test
 * gives a folder with a proc/self/cgroup, a proc/self/mountinfo and group files in it. Files that
 * are missing or make no sense limit nothing. They read a dozen small files and may allocate:
 * nothing for a hot path. Safe in several threads.
 */

/* The CPUs to count on by default, at least 1: the least of base_cpus_limit and the CPUs that the
 * scheduler may put this process on (which are this machine's, whatever `root` says). */
unsigned base_cpus_count(const char *root);

/* What the control groups allow, v1 and v2, this process's own and all above it: the least of their
 * quotas and CPU sets. A quota of 1.5 CPUs counts as 2: rounding down would leave a third of it
 * idle. UINT_MAX if nothing limits. */
unsigned base_cpus_limit(const char *root);

typedef enum base_cgroup_version { BASE_CGROUP_V1 = 1, BASE_CGROUP_V2 = 2 } base_cgroup_version_t;

/* Gets the folder of one group, borrowed for the call. */
typedef void (*base_cgroup_visit_t)(void *arg, base_cgroup_version_t version, const char *folder);

/* Visits this process's group and those above it, in the v1 hierarchy of `controller` and in v2, as
 * far as they can be seen from here. A folder need not exist, and may come twice. */
void base_cgroup_walk(const char *root, const char *controller, base_cgroup_visit_t visit,
                      void *arg);

#endif
