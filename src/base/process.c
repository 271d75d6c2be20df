#include "base/process.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1024 }; /* descendants that are looked at */

uint64_t base_process_bytes(pid_t pid) {
    char path[64];
    unsigned long long size, resident = 0, shared = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    if (fscanf(file, "%llu %llu %llu", &size, &resident, &shared) != 3) resident = shared = 0;
    fclose(file);
    return resident > shared ? (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Memory that the process has changed and shares with no other, shared memory aside. */
static uint64_t changed_bytes(pid_t pid) {
    char path[64], line[256];
    unsigned long long changed = 0, shared = 0;
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    while (fgets(line, sizeof line, file) != NULL) {
        (void)sscanf(line, "Private_Dirty: %llu", &changed);
        (void)sscanf(line, "Pss_Shmem: %llu", &shared);
    }
    fclose(file);
    return changed > shared ? (changed - shared) << 10 : 0;
}

/* Adds the children of one thread of the process. */
static size_t children_add(pid_t pid, const char *thread, pid_t *found, size_t count) {
    char path[300];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, thread);
    FILE *file = fopen(path, "re");
    if (file == NULL) return count;
    while (count < MOST && fscanf(file, "%d", &child) == 1) found[count++] = child;
    fclose(file);
    return count;
}

uint64_t base_process_children_bytes(pid_t pid) {
    pid_t found[MOST];
    size_t count = 0;
    uint64_t bytes = 0;
    for (size_t at = 0;; at++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
        DIR *threads = opendir(path);
        for (struct dirent *e; threads != NULL && (e = readdir(threads)) != NULL;)
            if (e->d_name[0] != '.') count = children_add(pid, e->d_name, found, count);
        if (threads != NULL) closedir(threads);
        if (at == count) return bytes;
        pid = found[at];
        bytes += changed_bytes(pid);
    }
}

bool base_process_stopped(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL) return false;
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    const char *end = strrchr(text, ')'); /* the program's name may hold anything */
    return end != NULL && end[1] == ' ' && (end[2] == 'T' || end[2] == 't');
}
