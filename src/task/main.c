/* mobula-worker: the process that C workers are forked from, and each of them. There is no Python
 * in it. Started by mobulad; see mob_config_t.zygote_argv. */
#include <stdio.h>
#include <string.h>

#include "mobula_task.h"
#include "task/task.h"

int main(int argc, char **argv) {
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        puts("mobula-worker " MOBULA_VERSION);
        return 0;
    }
    mob_client_t *client;
    mob_status_t status = mob_zygote(NULL, &client);
    if (status == MOB_OK) {
        task_streams_open();
        status = mob_serve(client);
    }
    if (status == MOB_OK) return 0;
    fprintf(stderr, "%s: %s: %s\n", argv[0], mob_status_text(status), mob_last_error());
    return 1;
}
