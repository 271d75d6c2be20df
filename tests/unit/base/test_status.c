/* The table of statuses has a line for each, and mob_last_error keeps its words by thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "base/status.h"

static void test_every_status_has_its_words(void **state) {
    (void)state;
    for (int i = 0; i < MOB_STATUS_COUNT; i++) {
        const char *name = mob_status_name((mob_status_t)i),
                   *text = mob_status_text((mob_status_t)i);
        assert_non_null(name);
        assert_non_null(text);
        assert_true(strlen(name) > 0 && strlen(text) > 0);
        assert_int_equal(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        for (int k = 0; k < i; k++) {
            assert_string_not_equal(name, mob_status_name((mob_status_t)k));
            assert_string_not_equal(text, mob_status_text((mob_status_t)k));
        }
    }
}

/* The words that ray._private.errors knows. */
static void test_names_that_python_knows(void **state) {
    (void)state;
    assert_string_equal(mob_status_name(MOB_ECANCELLED), "task_cancelled");
    assert_string_equal(mob_status_name(MOB_EACTOR), "actor_died");
    assert_string_equal(mob_status_name(MOB_ECRASHED), "worker_crashed");
    assert_string_equal(mob_status_name(MOB_ETASK), "task");
}

static void test_status_from_elsewhere_is_unknown(void **state) {
    (void)state;
    const int outside[] = {MOB_STATUS_COUNT, 255, -1};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        assert_string_equal(mob_status_name((mob_status_t)outside[i]), "unknown");
        assert_non_null(mob_status_text((mob_status_t)outside[i]));
    }
}

static void *fail_elsewhere(void *unused) {
    (void)unused;
    base_fail(MOB_EFULL, "%s", "words of another thread");
    return NULL;
}

static void test_last_error_is_the_threads_own(void **state) {
    (void)state;
    assert_int_equal(base_fail(MOB_ESYS, "%s: %d", "number", 17), MOB_ESYS);
    assert_string_equal(mob_last_error(), "number: 17");
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_string_equal(mob_last_error(), "number: 17");
    base_fail_clear();
    assert_string_equal(mob_last_error(), "");
}

static void test_long_words_are_cut(void **state) {
    (void)state;
    char text[4096];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(base_fail(MOB_EINVAL, "%s", text), MOB_EINVAL);
    size_t size = strlen(mob_last_error());
    assert_true(size > 100 && size < sizeof text - 1);
    assert_memory_equal(mob_last_error(), text, size);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_status_has_its_words),
        cmocka_unit_test(test_names_that_python_knows),
        cmocka_unit_test(test_status_from_elsewhere_is_unknown),
        cmocka_unit_test(test_last_error_is_the_threads_own),
        cmocka_unit_test(test_long_words_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
