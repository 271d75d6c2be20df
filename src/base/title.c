/*
 * The memory lies between arg_start and arg_end of /proc/self/stat, and the environment follows it.
 * This writes into the arguments alone: the environment stays readable. The kernel shows the memory
 * up to the first zero if its last byte is not zero (that is how it knows that a program did this),
 * and all of it, zeros too, if it is; so the last byte gets a mark, and every title ends before it.
 */
#include "base/title.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/utf8.h"

enum { ARG_START = 48, ENV_START = 50, PREFIX = 5, LEAST = 16 };

static char *area; /* NULL: there is none */
static size_t area_size;

/* Two neighbouring fields of /proc/self/stat, which are addresses: where something starts and ends.
 * Its size; 0: there is none. */
static size_t stat_read(int number, uintptr_t *ret_start, uintptr_t *ret_end) {
    char text[2048];
    int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    if (fd >= 0) close(fd);
    if (size <= 0) return 0;
    text[size] = 0;
    char *at = strrchr(text, ')'); /* ends the second field, which may have anything in it */
    for (int field = 2; at != NULL && field < number; field++) {
        at = strchr(at, ' ');
        if (at != NULL) at++;
    }
    if (at == NULL) return 0;
    *ret_start = (uintptr_t)strtoull(at, &at, 10);
    *ret_end = (uintptr_t)strtoull(at, &at, 10);
    return *ret_end > *ret_start ? *ret_end - *ret_start : 0;
}

void base_title_begin(void) {
    uintptr_t start, end;
    size_t size = stat_read(ARG_START, &start, &end);
    if (size < LEAST) return;
    area = (char *)start;
    area_size = size;
    memset(area, 0, area_size);
    area[area_size - 1] = '.';
}

/* Where a part of the title ends. */
static size_t part_end(size_t at, const char *part, size_t size) {
    size_t space = area_size - 2 - at;
    return at + (size <= space ? size : base_utf8_whole(part, space));
}

void base_title_set(const char *first, size_t first_size, const char *second, size_t second_size) {
    if (area == NULL) return;
    size_t end = part_end(PREFIX, first, first_size), dot = end, next = end;
    if (second != NULL && end + 1 < area_size - 2) {
        dot = end + 1;
        next = part_end(dot, second, second_size);
    }
    if (area[next] == 0 && memcmp(area + PREFIX, first, end - PREFIX) == 0 &&
        (dot == end || (area[end] == '.' && memcmp(area + dot, second, next - dot) == 0)) &&
        memcmp(area, "ray::", PREFIX) == 0)
        return;
    memcpy(area, "ray::", PREFIX);
    memcpy(area + PREFIX, first, end - PREFIX);
    if (dot > end) {
        area[end] = '.';
        memcpy(area + dot, second, next - dot);
    }
    area[next] = 0;
}

void base_title_environment(const char *const *env) {
    uintptr_t start, end;
    size_t size = stat_read(ENV_START, &start, &end), at = 0;
    char *space = (char *)start;
    if (size == 0) return;
    memset(space, 0, size);
    for (; *env != NULL; env++) {
        size_t length = strlen(*env) + 1;
        if (length > size - at) continue;
        memcpy(space + at, *env, length);
        at += length;
    }
}

void base_title_short(const char *name, size_t size) {
    char text[16];
    snprintf(text, sizeof text, "ray::%.*s",
             (int)base_utf8_whole(name, size < sizeof text - 1 - PREFIX ? size
                                                                        : sizeof text - 1 - PREFIX),
             name);
    prctl(PR_SET_NAME, text);
}
