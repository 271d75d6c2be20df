/* floor: what this machine charges for the few things that no task system can avoid.
 *
 *     floor MODE SECONDS
 *
 * Each mode repeats one thing for about SECONDS and prints one number, so that the runner can take
 * it in turn with the systems it measures and both see the same neighbours:
 *
 *     wake    microseconds to wake a sleeping process on another CPU, back to back
 *     near    the same with both processes on one CPU
 *     spin    microseconds of a round trip between two processes that never sleep, on a CPU each
 *     fork    microseconds to fork a process and see it end
 *     copy    GB/s of memcpy into shared memory that this process has touched before
 *     cold    GB/s of memcpy into shared memory that nobody has touched
 *
 * A wake-up is half of a futex round trip between two processes that never spin: the waiting side
 * is asleep each time, which is what a system whose idle processes use no CPU has to pay at every
 * hop. The two are pinned, because left to itself the scheduler settles on one CPU or on two, from
 * run to run, and the figures of the two cases are several times apart: waking another CPU needs an
 * interrupt, and that CPU has to come out of its idle state. The copies are 200 MiB long, from a
 * source filled with changing bytes, because a source of untouched zeros is one page read over and
 * over from the cache. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)200 << 20)

/* The two sides of a round trip, a cache line each; a side sleeps until its word has reached the
 * turn it waits for. */
typedef struct {
    _Alignas(64) _Atomic uint32_t ping;
    _Alignas(64) _Atomic uint32_t pong;
} floor_pair_t;

static double floor_clock_us(void) {
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void floor_die(const char *what) {
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

typedef enum { FLOOR_WAKE, FLOOR_NEAR, FLOOR_SPIN } floor_way_t;

static void floor_word_post(_Atomic uint32_t *word, uint32_t turn, floor_way_t way) {
    atomic_store(word, turn);
    if (way != FLOOR_SPIN) {
        syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

static void floor_word_await(_Atomic uint32_t *word, uint32_t turn, floor_way_t way) {
    uint32_t seen;

    while ((seen = atomic_load(word)) != turn) {
        if (way != FLOOR_SPIN) {
            syscall(SYS_futex, word, FUTEX_WAIT, seen, NULL, NULL, 0);
        }
    }
}

static void *floor_shared_map(size_t bytes) {
    void *at;
    int fd = memfd_create("floor", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        floor_die("memfd");
    }
    at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        floor_die("mmap");
    }
    close(fd);
    return at;
}

/* Keeps this process on the nth CPU that it may use, or on the last if there are fewer. */
static void floor_cpu_pin(int nth) {
    cpu_set_t all, one;
    int cpu, last = 0;

    if (sched_getaffinity(0, sizeof(all), &all) != 0) {
        floor_die("sched_getaffinity");
    }
    for (cpu = 0; cpu < CPU_SETSIZE && nth >= 0; cpu++) {
        if (CPU_ISSET(cpu, &all)) {
            last = cpu;
            nth--;
        }
    }
    CPU_ZERO(&one);
    CPU_SET(last, &one);
    if (sched_setaffinity(0, sizeof(one), &one) != 0) {
        floor_die("sched_setaffinity");
    }
}

static pid_t floor_echo_start(floor_pair_t *pair, floor_way_t way) {
    pid_t pid = fork();

    if (pid < 0) {
        floor_die("fork");
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        floor_cpu_pin(way == FLOOR_NEAR ? 0 : 1);
        for (uint32_t turn = 1;; turn++) {
            floor_word_await(&pair->ping, turn, way);
            floor_word_post(&pair->pong, turn, way);
        }
    }
    return pid;
}

/* The mean, because the rates that it is set beside are means too. */
static double floor_trip_measure(double seconds, floor_way_t way) {
    floor_pair_t *pair = floor_shared_map(sizeof(*pair));
    pid_t pid = floor_echo_start(pair, way);
    double begin, now;
    uint32_t turn = 0;

    floor_cpu_pin(0);
    begin = floor_clock_us();
    do {
        floor_word_post(&pair->ping, ++turn, way);
        floor_word_await(&pair->pong, turn, way);
        now = floor_clock_us();
    } while (now - begin < seconds * 1e6);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    munmap(pair, sizeof(*pair));
    return (now - begin) / turn;
}

static double floor_fork_measure(double seconds) {
    double begin = floor_clock_us(), now;
    long count = 0;

    do {
        pid_t pid = fork();

        if (pid < 0) {
            floor_die("fork");
        }
        if (pid == 0) {
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        count++;
        now = floor_clock_us();
    } while (now - begin < seconds * 1e6);
    return (now - begin) / (double)count;
}

static unsigned char *floor_source_new(void) {
    unsigned char *source = malloc(COPY_BYTES);
    uint64_t x = 88172645463325252u;

    if (source == NULL) {
        floor_die("malloc");
    }
    for (size_t i = 0; i + sizeof(x) <= COPY_BYTES; i += sizeof(x)) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        memcpy(source + i, &x, sizeof(x));
    }
    return source;
}

/* The best copy, in GB/s: a bandwidth is disturbed downwards only. */
static double floor_copy_measure(double seconds, bool cold) {
    unsigned char *source = floor_source_new(), *target = floor_shared_map(COPY_BYTES);
    double begin, start, took, best = 1e18;

    if (!cold) {
        memcpy(target, source, COPY_BYTES);
    }
    begin = floor_clock_us();
    do {
        start = floor_clock_us();
        memcpy(target, source, COPY_BYTES);
        /* The compiler must not see that nobody reads the target. */
        __asm__ volatile("" : : "r"(target) : "memory");
        took = floor_clock_us() - start;
        best = took < best ? took : best;
        if (cold) {
            munmap(target, COPY_BYTES);
            target = floor_shared_map(COPY_BYTES);
        }
    } while (floor_clock_us() - begin < seconds * 1e6);
    munmap(target, COPY_BYTES);
    free(source);
    return (double)COPY_BYTES / best / 1e3;
}

int main(int argc, char **argv) {
    const char *mode = argc == 3 ? argv[1] : "";
    double seconds = argc == 3 ? atof(argv[2]) : 0;
    double value;

    if (strcmp(mode, "wake") == 0) {
        value = floor_trip_measure(seconds, FLOOR_WAKE) / 2;
    } else if (strcmp(mode, "near") == 0) {
        value = floor_trip_measure(seconds, FLOOR_NEAR) / 2;
    } else if (strcmp(mode, "spin") == 0) {
        value = floor_trip_measure(seconds, FLOOR_SPIN);
    } else if (strcmp(mode, "fork") == 0) {
        value = floor_fork_measure(seconds);
    } else if (strcmp(mode, "copy") == 0 || strcmp(mode, "cold") == 0) {
        value = floor_copy_measure(seconds, strcmp(mode, "cold") == 0);
    } else {
        fprintf(stderr, "usage: floor wake|near|spin|fork|copy|cold SECONDS\n");
        return 2;
    }
    printf("%.4f\n", value);
    return 0;
}
