/*
 * What a worker prints. The daemon has to know which task a line belongs to. So a worker writes a
 * mark, \1, the name, a newline, ahead of the first text of each task, and doubles a \1 that the
 * task prints. For that stdout and stderr become streams that write through this file to the same
 * descriptors. (They have no descriptor of their own then: fileno(stdout) is -1; 1 and 2 are the
 * ones.)
 *
 * Before a task of another name begins, a mark without a name takes the name back. The daemon then
 * gives text without a mark, of a subprocess, say, the name of the task that runs.
 */
#include <stdio.h>
#include <stdio_ext.h>
#include <string.h>
#include <unistd.h>

#include "task/task.h"

typedef struct {
    int fd;
    bool announced; /* the name of this run */
} stream_t;

static stream_t streams[2] = {{.fd = 1}, {.fd = 2}};
static char run_name[255]; /* a copy: the run's own name goes with the run */
static size_t run_name_size;

static bool all_write(int fd, const char *data, size_t size) {
    while (size > 0) {
        ssize_t n = write(fd, data, size);
        if (n <= 0) return false;
        data += n;
        size -= (size_t)n;
    }
    return true;
}

/* Takes back the name of the last run. */
static void announced_end(void) {
    for (int i = 0; i < 2; i++) {
        if (streams[i].announced) (void)all_write(streams[i].fd, "\1\n", 2);
        streams[i].announced = false;
    }
}

static ssize_t stream_write(void *cookie, const char *data, size_t size) {
    stream_t *s = cookie;
    if (!s->announced) {
        char mark[260];
        int length = snprintf(mark, sizeof mark, "\1%.*s\n", (int)run_name_size, run_name);
        if (!all_write(s->fd, mark, (size_t)length)) return 0;
        s->announced = true;
    }
    for (size_t at = 0; at < size;) {
        const char *special = memchr(data + at, 1, size - at);
        size_t plain = special ? (size_t)(special - data) - at + 1 : size - at;
        if (!all_write(s->fd, data + at, plain) || (special && !all_write(s->fd, "\1", 1)))
            return 0;
        at += plain;
    }
    return (ssize_t)size;
}

static FILE *stream_open(stream_t *s, FILE *fallback, int mode) {
    FILE *file = fopencookie(s, "w", (cookie_io_functions_t){.write = stream_write});
    if (file == NULL) return fallback;
    setvbuf(file, NULL, mode, BUFSIZ);
    return file;
}

void task_streams_open(void) {
    stdout = stream_open(&streams[0], stdout, _IOLBF);
    stderr = stream_open(&streams[1], stderr, _IONBF);
}

void task_streams_name(const char *name, size_t size) {
    if (size > sizeof run_name) size = sizeof run_name;
    if (size == run_name_size && memcmp(name, run_name, size) == 0) return; /* as most are */
    announced_end();
    memcpy(run_name, name, size);
    run_name_size = size;
    for (size_t i = 0; i < size; i++)
        if (run_name[i] == '\n' || run_name[i] == 1)
            run_name[i] = ' '; /* a mark ends with the one and begins with the other */
}

bool task_streams_end(void) {
    if (__fpending(stdout) > 0) fflush(stdout);
    bool any = streams[0].announced || streams[1].announced;
    announced_end();
    return any;
}
