/* A worker without another language in it: it takes runs and runs them until it is to end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "task/task.h"
#include "wire/message.h"

/* Names the GPUs that a run may use, by the driver's own list if the driver had one. */
static void gpus_set(const char *visible, uint64_t mask) {
    char names[1024] = "";
    size_t size = 0;
    const char *name = visible;
    for (int i = 0; i < 64; i++) {
        size_t length = name ? strcspn(name, ",") : 0;
        if (mask >> i & 1)
            size += (size_t)(name ? snprintf(names + size, sizeof names - size, "%s%.*s",
                                             size ? "," : "", (int)length, name)
                                  : snprintf(names + size, sizeof names - size, "%s%d",
                                             size ? "," : "", i));
        if (size >= sizeof names) break;
        if (name != NULL) name = name[length] == ',' ? name + length + 1 : "";
    }
    setenv("CUDA_VISIBLE_DEVICES", names, 1);
}

/* A worker can't break off a function in C: the signal only wakes a worker that waits, which then
 * reads why. */
static void on_end_signal(int number) { (void)number; }

mob_status_t mob_serve(mob_client_t *client) {
    sigaction(WIRE_END_SIGNAL, &(struct sigaction){.sa_handler = on_end_signal}, NULL);
    task_worker_t worker = {.client = client};
    const char *given = getenv("CUDA_VISIBLE_DEVICES");
    char *visible = given ? strdup(given) : NULL, class_[256] = "";
    uint64_t gpu_mask = 0;
    mob_run_t *run;
    mob_status_t status;
    while ((status = mob_run_next(client, &run)) == MOB_OK || status == MOB_EINTR) {
        if (status == MOB_EINTR) continue;
        if (run->kind == MOB_FORGET) {
            task_forget(&worker, run->function);
            continue;
        }
        if (run->kind == MOB_ACTOR_CALL)
            task_streams_name(class_, strlen(class_));
        else
            task_streams_name(run->name, run->name_size);
        if (run->kind == MOB_ACTOR_CREATE)
            snprintf(class_, sizeof class_, "%.*s", (int)run->name_size, run->name);
        if (run->kind != MOB_ACTOR_CALL && run->gpu_mask != gpu_mask)
            gpus_set(visible, gpu_mask = run->gpu_mask);
        task_run(&worker, run, task_function_of(&worker, run));
    }
    mob_worker_ends(client);
    task_worker_fini(&worker);
    free(visible);
    return status == MOB_ECLOSED ? MOB_OK : status;
}
