/* Bells, and the doorbell of shm_node_notify: no ring is lost, no sleep outlives its time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "shm/node.h"

static const int64_t SECOND = 1000000000;
enum { ROUNDS = 100000 };

/* Waits until *word is `value`. False if that took as long as a lost wake-up does. */
static bool await(shm_bell_t *bell, _Atomic uint32_t *word, uint32_t value) {
    for (;;) {
        uint32_t seen = shm_bell_listen(bell);
        if (atomic_load(word) == value) return true;
        uint64_t start = base_clock_mono_ns();
        shm_bell_sleep(bell, seen, 10 * SECOND);
        if (atomic_load(word) != value && base_clock_mono_ns() - start >= (uint64_t)(10 * SECOND))
            return false;
    }
}

typedef struct {
    shm_bell_t bells[2];
    _Atomic uint32_t turn[2];
} game_t;

static bool play(game_t *game, int me) {
    for (uint32_t i = 1; i <= ROUNDS; i++) {
        if (me == 1 && !await(&game->bells[1], &game->turn[1], i)) return false;
        atomic_store(&game->turn[1 - me], i);
        shm_bell_ring(&game->bells[1 - me]);
        if (me == 0 && !await(&game->bells[0], &game->turn[0], i)) return false;
    }
    return true;
}

static void test_ping_pong_loses_nothing(void **state) {
    (void)state;
    game_t *game =
        mmap(NULL, sizeof *game, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(game != MAP_FAILED);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) _exit(play(game, 1) ? 0 : 1);
    assert_true(play(game, 0));
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&game->bells[i].rings), ROUNDS);
        assert_int_equal(atomic_load(&game->bells[i].sleepers), 0);
    }
    munmap(game, sizeof *game);
}

static void test_a_ring_since_listen_does_not_sleep(void **state) {
    (void)state;
    shm_bell_t bell = {0};
    uint32_t seen = shm_bell_listen(&bell);
    shm_bell_ring(&bell);
    uint64_t start = base_clock_mono_ns();
    assert_true(shm_bell_sleep(&bell, seen, -1)); /* for ever, if it slept */
    assert_true(base_clock_mono_ns() - start < (uint64_t)SECOND);
}

static void test_timeout(void **state) {
    (void)state;
    shm_bell_t bell = {0};
    uint64_t start = base_clock_mono_ns();
    assert_true(shm_bell_sleep(&bell, shm_bell_listen(&bell), 30000000));
    uint64_t passed = base_clock_mono_ns() - start;
    assert_true(passed >= 30000000 && passed < (uint64_t)(10 * SECOND));
    assert_true(shm_bell_sleep(&bell, shm_bell_listen(&bell), 0));
    assert_int_equal(atomic_load(&bell.sleepers), 0);
}

static void on_alarm(int number) { (void)number; }

static void test_a_signal_ends_the_sleep(void **state) {
    (void)state;
    shm_bell_t bell = {0};
    struct sigaction action = {.sa_handler = on_alarm}, old;
    sigaction(SIGALRM, &action, &old);
    const int64_t timeouts[] = {-1, 30 * SECOND};
    for (int i = 0; i < 2; i++) {
        struct itimerval soon = {.it_value = {.tv_usec = 30000}};
        setitimer(ITIMER_REAL, &soon, NULL);
        assert_false(shm_bell_sleep(&bell, shm_bell_listen(&bell), timeouts[i]));
        assert_int_equal(atomic_load(&bell.sleepers), 0);
    }
    sigaction(SIGALRM, &old, NULL);
}

static shm_bell_t shared_bell;
static _Atomic uint32_t shared_word;

static void *sleep_once(void *unused) {
    (void)unused;
    return await(&shared_bell, &shared_word, 1) ? &shared_bell : NULL;
}

static void test_one_ring_wakes_all_threads(void **state) {
    (void)state;
    pthread_t threads[8];
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, sleep_once, NULL), 0);
    while (atomic_load(&shared_bell.sleepers) < 8)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    atomic_store(&shared_word, 1);
    shm_bell_ring(&shared_bell);
    for (int i = 0; i < 8; i++) {
        void *woken;
        assert_int_equal(pthread_join(threads[i], &woken), 0);
        assert_non_null(woken);
    }
    assert_int_equal(atomic_load(&shared_bell.sleepers), 0);
}

static void test_notify_names_the_client_and_tells_whether_to_wake(void **state) {
    (void)state;
    static shm_node_t node;
    assert_false(shm_node_notify(&node, 1)); /* awake: no system call */
    assert_false(shm_node_notify(&node, 4095));
    assert_true(atomic_load(&node.pending[0]) == 2);
    assert_true(atomic_load(&node.pending[63]) == (uint64_t)1 << 63);
    atomic_store(&node.daemon_sleeps, 1);
    assert_true(shm_node_notify(&node, 64));
    assert_true(shm_node_notify(&node, 65)); /* until the daemon itself says that it is awake */
    assert_true(atomic_load(&node.pending[1]) == 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ping_pong_loses_nothing),
        cmocka_unit_test(test_a_ring_since_listen_does_not_sleep),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_a_signal_ends_the_sleep),
        cmocka_unit_test(test_one_ring_wakes_all_threads),
        cmocka_unit_test(test_notify_names_the_client_and_tells_whether_to_wake),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
