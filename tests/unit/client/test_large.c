/*
 * Values that are larger than the store, through mobula.h alone: a daemon without workers.
 *
 * Usage: test_large MOBULAD
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "mobula.h"

static const uint64_t STORE = 8 << 20, SIZE = 12 << 20;
static const char *daemon_path;
static unsigned char *data;

static int system_start(void **state) {
    mob_config_t config = {.daemon_path = daemon_path, .store_bytes = STORE};
    mob_status_t status = mob_init(&config, (mob_client_t **)state);
    if (status != MOB_OK)
        print_error("mob_init: %s: %s\n", mob_status_text(status), mob_last_error());
    return status != MOB_OK;
}

static int system_stop(void **state) {
    mob_shutdown(*state);
    return 0;
}

/* Descriptors that a process has of files without a name in a spill folder. */
static int files_of(int pid) {
    char path[512], target[512];
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    DIR *folder = opendir(path);
    int count = 0;
    if (folder == NULL) return -1;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        snprintf(path, sizeof path, "/proc/%d/fd/%.64s", pid, entry->d_name);
        ssize_t size = readlink(path, target, sizeof target - 1);
        if (size <= 0) continue;
        target[size] = 0;
        count += strstr(target, "mobula_spill_") != NULL && strstr(target, "(deleted)") != NULL;
    }
    closedir(folder);
    return count;
}

static void files_await(mob_client_t *c, int wanted) {
    mob_session_t session;
    mob_client_session(c, &session);
    for (int i = 0; i < 20000 && files_of(session.daemon_pid) != wanted; i++) usleep(1000);
    assert_int_equal(files_of(session.daemon_pid), wanted);
}

static mob_ref_t put_ok(mob_client_t *c, uint64_t size) {
    mob_ref_t ref = {0};
    mob_status_t status = mob_put(c, data, size, MOB_FORMAT_DIRECT, &ref);
    if (status != MOB_OK)
        fail_msg("mob_put of %llu bytes: %s: %s", (unsigned long long)size, mob_status_name(status),
                 mob_last_error());
    return ref;
}

static mob_value_t open_ok(mob_client_t *c, mob_ref_t ref) {
    mob_value_t value = {0};
    mob_status_t status = mob_get_begin(c, ref, &value);
    while (status == MOB_EAWAY || status == MOB_EINTR)
        status = mob_get_fetch(c, &ref, 1, 20000, &value);
    if (status != MOB_OK) fail_msg("%s: %s", mob_status_name(status), mob_last_error());
    assert_int_equal(value.error, MOB_OK);
    assert_true(value.pinned);
    return value;
}

static void test_put_and_get(void **state) {
    mob_client_t *c = *state;
    const uint64_t sizes[] = {STORE, STORE + 1, SIZE, SIZE + 4097};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        mob_ref_t ref = put_ok(c, sizes[i]);
        mob_value_t value = open_ok(c, ref);
        assert_int_equal(value.size, sizes[i]);
        assert_int_equal(value.format, MOB_FORMAT_DIRECT);
        assert_int_equal(value.ref_count, 0);
        assert_memory_equal(value.data, data, sizes[i]);
        mob_get_end(c, ref, &value);
        mob_ref_release(c, ref);
    }
    files_await(c, 0);
}

static void test_it_is_mapped_once_and_while_it_is_open(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = put_ok(c, SIZE);
    mob_value_t first, second;
    assert_int_equal(mob_get_begin(c, ref, &first), MOB_EAWAY);
    first = open_ok(c, ref);
    assert_int_equal(mob_get_begin(c, ref, &second), MOB_OK);
    assert_ptr_equal(first.data, second.data);
    mob_get_keep(c, ref);
    mob_get_end(c, ref, &first);
    mob_get_end(c, ref, &first);
    assert_memory_equal(second.data, data, SIZE);
    mob_get_end(c, ref, &second);
    assert_int_equal(mob_get_begin(c, ref, &second), MOB_EAWAY);
    second = open_ok(c, ref);
    mob_ref_release(c, ref); /* left open: the last reference closes it */
    files_await(c, 0);
}

static void test_written_in_place_with_references(void **state) {
    mob_client_t *c = *state;
    mob_ref_t inside[3], ref;
    mob_buffer_t buffer;
    mob_status_t status;
    for (int i = 0; i < 3; i++)
        assert_int_equal(mob_put(c, &i, sizeof i, MOB_FORMAT_DIRECT, &inside[i]), MOB_OK);
    while ((status = mob_put_begin(c, SIZE, 3, &buffer)) == MOB_ESPACE)
        assert_int_equal(mob_space_await(c), MOB_OK);
    assert_int_equal(status, MOB_OK);
    memcpy(buffer.data, data, 100);
    mob_buffer_write(c, &buffer, 100, data + 100, SIZE - 100);
    assert_int_equal(mob_put_commit(c, &buffer, MOB_FORMAT_DIRECT, inside, &ref), MOB_OK);
    for (int i = 0; i < 3; i++) mob_ref_release(c, inside[i]);
    mob_value_t value = open_ok(c, ref), inner;
    assert_int_equal(value.ref_count, 3);
    assert_memory_equal(value.data, data, SIZE);
    mob_value_adopt(c, ref, &value);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(value.refs[i].slot, inside[i].slot);
        assert_int_equal(mob_get_begin(c, value.refs[i], &inner), MOB_OK);
        assert_int_equal(*(const int *)inner.data, i);
    }
    mob_value_release(c, &value);
    mob_get_end(c, ref, &value);
    mob_ref_release(c, ref);
    files_await(c, 0);
}

static void test_what_is_given_up_leaves_nothing(void **state) {
    mob_client_t *c = *state;
    mob_buffer_t buffer;
    mob_status_t status;
    while ((status = mob_put_begin(c, SIZE, 0, &buffer)) == MOB_ESPACE)
        assert_int_equal(mob_space_await(c), MOB_OK);
    assert_int_equal(status, MOB_OK);
    files_await(c, 1);
    mob_put_abort(c, &buffer);
    files_await(c, 0);
    assert_int_equal(mob_put_begin(c, SIZE, 0, &buffer), MOB_ESPACE); /* before it is there */
    mob_space_forget(c);
    assert_int_equal(mob_put_begin(c, SIZE, 0, &buffer), MOB_ESPACE); /* and after that */
    assert_int_equal(mob_space_await(c), MOB_OK);
    mob_space_forget(c);
    files_await(c, 0);
    assert_int_equal(mob_put_begin(c, SIZE, 0, &buffer), MOB_ESPACE); /* without a word */
    files_await(c, 1);
    mob_ref_t ref = put_ok(c, SIZE + 1);
    files_await(c, 1);
    mob_ref_release(c, ref);
    files_await(c, 0);
}

static void test_more_than_the_disk_has(void **state) {
    mob_client_t *c = *state;
    mob_buffer_t buffer;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mob_put_begin(c, (uint64_t)1 << 46, 0, &buffer), MOB_ESPACE);
        mob_status_t status;
        while ((status = mob_space_wait(c)) == MOB_EINTR) {
        }
        assert_int_equal(status, MOB_EDISK);
        assert_non_null(strstr(mob_last_error(), "70368744177664"));
        assert_non_null(strstr(mob_last_error(), "mobula_spill_"));
    }
    mob_ref_t ref = put_ok(c, SIZE);
    mob_ref_release(c, ref);
}

static void test_a_forked_child_reads_on(void **state) {
    mob_client_t *c = *state;
    mob_ref_t ref = put_ok(c, SIZE);
    mob_value_t value = open_ok(c, ref);
    pid_t pid = fork();
    if (pid == 0) {
        mob_value_t other;
        bool good =
            memcmp(value.data, data, SIZE) == 0 && mob_get_begin(c, ref, &other) == MOB_EFORKED;
        mob_get_end(c, ref, &value);
        _exit(!good);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_memory_equal(value.data, data, SIZE);
    mob_get_end(c, ref, &value);
    mob_ref_release(c, ref);
}

static void test_values_outlive_the_session(void **state) {
    mob_client_t *c;
    assert_int_equal(system_start((void **)&c), 0);
    (void)state;
    mob_value_t value = open_ok(c, put_ok(c, SIZE));
    mob_view_hold(c);
    mob_shutdown(c);
    assert_memory_equal(value.data, data, SIZE);
    mob_view_release(c);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    daemon_path = argv[1];
    data = malloc(SIZE + 8192);
    for (uint64_t i = 0; i < SIZE + 8192; i++) data[i] = (unsigned char)(i * 7 + i / 4096);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_put_and_get, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_it_is_mapped_once_and_while_it_is_open, system_start,
                                        system_stop),
        cmocka_unit_test_setup_teardown(test_written_in_place_with_references, system_start,
                                        system_stop),
        cmocka_unit_test_setup_teardown(test_what_is_given_up_leaves_nothing, system_start,
                                        system_stop),
        cmocka_unit_test_setup_teardown(test_more_than_the_disk_has, system_start, system_stop),
        cmocka_unit_test_setup_teardown(test_a_forked_child_reads_on, system_start, system_stop),
        cmocka_unit_test(test_values_outlive_the_session),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(data);
    return failed;
}
