/*
 * A peer that lies. Three daemons' books in one process; what B and C say to A in a normal run is
 * written down by kind, then changed from a seed in all the ways that there are, and given to A.
 * Nothing that is A's own changes, and when B and C are buried nothing of them is left.
 *
 * Each life is a process of its own: a crash names its seed. Called with a number it gives as many
 * messages; MOBULA_LIES does the same.
 */
#include "liar.h"

#include <signal.h>
#include <sys/wait.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/lsan_interface.h>
#endif

enum { A_LIFE = 2000, LIES = 60000, LARGEST = 70000 };

/* ---- lies ---- */

static void number_put(uint8_t *bytes, size_t size, size_t at, size_t width, uint64_t number) {
    for (size_t i = 0; i < width && at + i < size; i++) bytes[at + i] = (uint8_t)(number >> 8 * i);
}

/* One change; the new size. */
static size_t change(uint8_t *bytes, size_t size) {
    size_t at = size > 1 ? 1 + next_random() % (size - 1) : 0, more, other;
    static const size_t widths[] = {1, 2, 4, 8};
    switch (next_random() % 9) {
    case 0:
        bytes[at] ^= (uint8_t)(1u << next_random() % 8);
        return size;
    case 1:
        return at > 0 ? at : size; /* cut short */
    case 2:                        /* longer */
        more = next_random() % 40;
        for (size_t i = 0; i < more; i++) bytes[size + i] = (uint8_t)next_random();
        return size + more;
    case 3:
        number_put(bytes, size, at, widths[next_random() % 4], odd_number());
        return size;
    case 4: /* two numbers change places */
        other = size > 1 ? 1 + next_random() % (size - 1) : 0;
        for (size_t i = 0; i < 8 && at + i < size && other + i < size; i++) {
            uint8_t kept = bytes[at + i];
            bytes[at + i] = bytes[other + i];
            bytes[other + i] = kept;
        }
        return size;
    case 5: { /* another id, where there may be one */
        uint8_t id[MOB_ID_SIZE];
        base_writer_t w = {.bytes = id};
        frame_id_put(&w, known[next_random() % known_count]);
        for (size_t i = 0; i < sizeof id && at + i < size; i++) bytes[at + i] = id[i];
        return size;
    }
    case 6: /* a piece of it is left out */
        more = next_random() % 16;
        if (at == 0 || at + more >= size) return size;
        memmove(bytes + at, bytes + at + more, size - at - more);
        return size - more;
    case 7: /* the first words, where kinds and lengths are */
        number_put(bytes, size, 1 + next_random() % 40 % size, 1, next_random() % 20);
        return size;
    default: /* as it is: it comes again */
        return size;
    }
}

/* Most lies of a life are of one kind: one that ends a job leaves nothing to lie about it. */
static const sample_t *sample_choose(node_post_t favourite) {
    const sample_t *s = &samples[next_random() % sample_count];
    for (int i = 0; i < 20 && s->bytes[0] != favourite; i++)
        s = &samples[next_random() % sample_count];
    return s;
}

static size_t lie_make(uint8_t *bytes, node_post_t favourite) {
    const sample_t *s = sample_choose(next_random() % 8 ? favourite : 0);
    size_t size = s->size < LARGEST ? s->size : LARGEST;
    memcpy(bytes, s->bytes, size);
    for (uint64_t k = next_random() % 4; k > 0 && size < LARGEST + 200; k--)
        size = change(bytes, size);
    return size;
}

static void outs_drop(void) {
    for (int i = 0; i < NODES; i++)
        for (int k = 0; k < NODES; k++)
            while (daemons[i].out[k] != NULL) {
                letter_t *l = daemons[i].out[k];
                daemons[i].out[k] = l->next;
                free(l);
            }
}

static void lies_tell(long count) {
    static uint8_t bytes[LARGEST + 512];
    uint64_t sequence = 1000;
    node_post_t favourite = (node_post_t)(next_random() % POST_KINDS);
    long taken = 0;
    for (long i = 0; i < count; i++) {
        size_t size = lie_make(bytes, favourite);
        A->n->cluster->trouble[0] = 0;
        uint8_t *exact = malloc(size); /* so that a reader beyond its end is seen */
        memcpy(exact, bytes, size);
        (void)node_post_receive(A->n->cluster, incarnation_of(1 + (int)(next_random() % 2)),
                                sequence++, exact, size);
        free(exact);
        taken += A->n->cluster->trouble[0] == 0;
        if (next_random() % 8 == 0) all_settle(A);
        if (i % 64 == 0) outs_drop();
    }
    print_message("of %ld lies %ld made sense; most were of kind %d\n", count, taken, favourite);
}

/* ---- what is A's own ---- */

static void own_is_as_before(void) {
    for (int i = 0; i < OWN; i++) has_value(A, own[i], i % 2 ? 70000 : 10);
    assert_false(A->n->ending);
    assert_true(A->n->jobs.items.count >= 2);
    assert_ptr_equal(JOB(A->n)->driver, A->client);
    assert_int_equal(A->client->state, NODE_LIVE);
    for (int i = 0; i < TASKS; i++) assert_true(is_there(A, results[i]));
    mob_ref_t fresh = put(A, 100);
    has_value(A, fresh, 100);
    drop(A, fresh);
}

static void bury(daemon_t *d) {
    node_cluster_t *c = A->n->cluster;
    uint64_t peer = d->n->incarnation;
    A->dead[place_of(d)] = true;
    node_roster_bury(&c->roster, peer, "it lied");
    node_outflows_died(c, peer);
    node_placing_died(c, peer);
    node_acting_died(c, peer);
    node_grouping_died(c, peer);
    (void)node_pulling_died(c, peer);
    node_guestjob_died(c, peer);
    node_holding_died(c, peer, 1 + (uint64_t)place_of(d));
}

/* The books stay as they are, as at a daemon's end. What nothing leads to was lost: so the leak
 * check is told where they are. */
static void books_show(void) {
#ifdef __SANITIZE_ADDRESS__
    for (int i = 0; i < NODES; i++) {
        node_t *n = daemons[i].n;
        __lsan_register_root_region(n->objects, n->grants.slots.granted * sizeof *n->objects);
        __lsan_register_root_region(n->tasks, n->grants.records.granted * sizeof *n->tasks);
    }
#endif
}

static void test_a_peer_lies(void **state) {
    long count = *(long *)*state;
    assert_int_equal(begin(NULL), 0);
    for (int i = 0; i < NODES; i++) part_take(&daemons[i]);
    for (int i = 0; i < NODES; i++) assert_non_null(job_new(daemons[i].n));
    for (int i = 0; i < NODES; i++)
        for (int k = 0; k < NODES; k++)
            if (k != i) meet(&daemons[i], &daemons[k]);
    live();
    outs_drop();
    own_is_as_before();
    lies_tell(count);
    own_is_as_before();
    bury(B);
    bury(C);
    for (int i = 0; i < 50; i++) {
        all_settle(A);
        usleep(200);
    }
    own_is_as_before();
    books_show();
    char command[256];
    snprintf(command, sizeof command, "rm -r %s %s %s", folders[0], folders[1], folders[2]);
    assert_int_equal(system(command), 0);
}

/* One life, in a process of its own. */
static bool life(uint64_t number, long count) {
    fflush(NULL);
    pid_t pid = fork();
    int status = 0;
    if (pid == 0) {
        seed = number * UINT64_C(0x9e3779b97f4a7c15);
        const struct CMUnitTest tests[] = {cmocka_unit_test_prestate(test_a_peer_lies, &count)};
        exit(cmocka_run_group_tests(tests, NULL, NULL) != 0);
    }
    waitpid(pid, &status, 0);
    if (status != 0) fprintf(stderr, "seed %llu: status %x\n", (unsigned long long)number, status);
    return status == 0;
}

int main(int argc, char **argv) {
    const char *wanted = argc > 1 ? argv[1] : getenv("MOBULA_LIES");
    const char *only = getenv("MOBULA_LIES_SEED");
    long left = wanted != NULL ? atol(wanted) : LIES;
    bool good = true;
    signal(SIGPIPE, SIG_IGN);
    if (only != NULL) return !life(strtoull(only, NULL, 10), left);
    for (uint64_t number = 1; left > 0; number++, left -= A_LIFE)
        good &= life(number, left < A_LIFE ? left : A_LIFE);
    return !good;
}
