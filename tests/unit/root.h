/* A folder of the test's own: made before it, and gone with all that is in it after it. */
#ifndef UNIT_ROOT_H
#define UNIT_ROOT_H

#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char root[PATH_MAX];

static inline int root_make(void **state) {
    (void)state;
    const char *temp = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/mobula-unit-XXXXXX", temp ? temp : "/tmp");
    return mkdtemp(root) ? 0 : -1;
}

static inline int root_entry_remove(const char *path, const struct stat *info, int type,
                                    struct FTW *walk) {
    (void)info, (void)type, (void)walk;
    return remove(path);
}

static inline int root_remove(void **state) {
    (void)state;
    return nftw(root, root_entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file and the folders above it; `path` begins with a slash. */
static inline void root_put(const char *path, const char *text) {
    char full[2 * PATH_MAX];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
        *at = '\0';
        mkdir(full, 0700);
        *at = '/';
    }
    FILE *file = fopen(full, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

#endif
