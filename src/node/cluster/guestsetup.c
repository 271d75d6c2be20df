/*
 * A driver's setup says how its workers begin: a command, variables, a folder. They are meant for
 * the machine that the driver is on, and another one may differ:
 *
 * - Variables: this node's own come first, for they say where things are on this machine; then
 *   those of the driver that this node has not. Of these some say what only the driver's machine
 *   has (its GPUs, its folders for passing files, its terminal), and stay behind. What a runtime
 *   environment sets comes over all of them, as everywhere (environment.c; and in the workers,
 *   where a setup has an environment's variables mixed in: python/ray/_private/environment.py).
 * - The folder: if it is not here, workers begin in the session's folder.
 * - The command: if a file that it names is not here, the interpreter that started this node takes
 *   its place, which has ray, if the command is an interpreter too. Modules are looked for in the
 *   driver's folders first, and then in this interpreter's own: the variable MOBULA_GUEST says so
 *   to the zygote. Without such an interpreter the command is left as it is, and what waits for a
 *   worker fails with the name of the file.
 */
#include "node/cluster/guestsetup.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/state.h"
#include "shm/sealed.h"
#include "wire/setup.h"

extern char **environ;

typedef VEC(const char *) strings_t;

/* ---- variables ---- */

/* Beginnings of names that say what only one machine has. */
static const char *const of_a_machine[] = {"MOBULA_",
                                           "CUDA_VISIBLE_DEVICES=",
                                           "NVIDIA_VISIBLE_DEVICES=",
                                           "HIP_VISIBLE_DEVICES=",
                                           "ROCR_VIS",
                                           "TMPDIR=",
                                           "RAY_TMPDIR=",
                                           "XDG_",
                                           "SSH_",
                                           "DBUS_",
                                           "DISPLAY=",
                                           "HOSTNAME=",
                                           "TERM",
                                           "PWD=",
                                           "OLDPWD=",
                                           NULL};

static bool is_of_a_machine(const char *variable) {
    for (const char *const *name = of_a_machine; *name != NULL; name++)
        if (strncmp(variable, *name, strlen(*name)) == 0) return true;
    return false;
}

static bool is_here(const char *variable) {
    size_t length = strcspn(variable, "=");
    for (char **own = environ; *own != NULL; own++)
        if (strncmp(*own, variable, length) == 0 && (*own)[length] == '=') return true;
    return false;
}

/* `guest`: the variable that says that a worker is one. */
static bool variables_make(const char *const *given, const char *guest, strings_t *ret_env) {
    bool whole = true;
    for (char **own = environ; *own != NULL; own++)
        if (strncmp(*own, "MOBULA_", 7) != 0) whole = whole && vec_push(ret_env, *own);
    for (; *given != NULL; given++)
        if (!is_of_a_machine(*given) && !is_here(*given))
            whole = whole && vec_push(ret_env, *given);
    return whole && vec_push(ret_env, guest) && vec_push(ret_env, NULL);
}

/* ---- folder and command ---- */

static bool is_folder(const char *path) {
    struct stat found;
    return stat(path, &found) == 0 && S_ISDIR(found.st_mode) && access(path, X_OK) == 0;
}

/* The first file of the command that is not here; NULL: all are. */
static const char *missing_file(const char *const *argv) {
    for (; *argv != NULL; argv++)
        if (**argv == '/' && access(*argv, F_OK) != 0) return *argv;
    return NULL;
}

static bool is_python(const char *const *argv) {
    if (argv[0] == NULL) return false;
    const char *slash = strrchr(argv[0], '/'), *name = slash != NULL ? slash + 1 : argv[0];
    return strncmp(name, "python", 6) == 0;
}

/* The command of this node's own zygotes; NULL: there is none. */
static const char *const *own_command(const node_t *n) {
    for (size_t i = 0; i < n->setups.items.count; i++) {
        const node_setup_t *s = n->setups.items.items[i];
        if (s->is_mother && is_python(s->given.argv) && missing_file(s->given.argv) == NULL)
            return s->given.argv;
    }
    return NULL;
}

/* ---- all of it ---- */

__attribute__((format(printf, 2, 3))) static void word_add(char **word, const char *format, ...) {
    char *text, *both;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    if (size < 0) return;
    if (*word != NULL && asprintf(&both, "%s\n%s", *word, text) >= 0) {
        free(*word);
        free(text);
        text = both;
    }
    *word = text;
}

/* What is changed is borrowed from the node. */
static void places_change(const node_t *n, wire_setup_t *setup, char **word) {
    if (setup->folder[0] != 0 && !is_folder(setup->folder)) {
        word_add(word, "The driver's folder %s is not on this node: its workers begin in %s.",
                 setup->folder, n->session.dir);
        setup->folder = n->session.dir;
    }
    const char *missing = missing_file(setup->argv);
    const char *const *own = missing != NULL && is_python(setup->argv) ? own_command(n) : NULL;
    if (missing != NULL && own == NULL)
        word_add(word,
                 "%s, which the driver's workers run with, is not on this node, and no task of "
                 "the driver can run there: install it under the same path.",
                 missing);
    if (own == NULL) return;
    word_add(word,
             "%s, which the driver's workers run with, is not on this node: they run with %s "
             "instead.",
             missing, own[0]);
    setup->argv = own;
}

static mob_status_t setup_seal(const wire_setup_t *setup, int *ret_fd) {
    size_t size = wire_setup_size(setup);
    if (size == SIZE_MAX)
        return base_fail(MOB_ELIMIT, "a job's setup may have %d bytes with this node's variables",
                         WIRE_SETUP_MAX);
    void *bytes = malloc(size);
    if (bytes == NULL) return MOB_ENOMEM;
    wire_setup_write(setup, bytes);
    mob_status_t status = shm_sealed_make("mobula-setup", bytes, size, ret_fd);
    free(bytes);
    return status;
}

mob_status_t node_guestsetup_new(node_t *n, const void *bytes, size_t size,
                                 node_setup_t **ret_setup, char **ret_word) {
    wire_setup_t setup;
    void *lists;
    strings_t env = {0};
    char *word = NULL, guest[4096];
    int fd;
    mob_status_t status = wire_setup_read(bytes, size, &setup, &lists);
    if (status != MOB_OK) return status;
    places_change(n, &setup, &word);
    snprintf(guest, sizeof guest, NODE_GUEST_VARIABLE "=%s", n->session.dir);
    status = variables_make(setup.env, guest, &env) ? MOB_OK : MOB_ENOMEM;
    setup.env = env.items;
    if (status == MOB_OK) status = setup_seal(&setup, &fd);
    if (status == MOB_OK) status = node_setup_new(n, fd, ret_setup);
    vec_free(&env);
    free(lists);
    if (status == MOB_OK)
        *ret_word = word;
    else
        free(word);
    return status;
}
