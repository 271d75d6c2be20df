/* The one table of statuses: a name that the Python layer maps to its exception, and a sentence. */
#include "base/status.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name, *text;
} statuses[MOB_STATUS_COUNT] = {
    [MOB_OK] = {"ok", "all is well"},
    [MOB_ENOMEM] = {"no_memory", "the process has no memory left"},
    [MOB_EINVAL] = {"invalid", "an argument makes no sense"},
    [MOB_ELIMIT] = {"limit", "a fixed limit of the system was reached"},
    [MOB_ESYS] = {"system", "a system call failed"},
    [MOB_ENOSPC] = {"no_space", "there is no space left in the temp folder"},
    [MOB_EPERM] = {"permission", "the other side belongs to another user"},
    [MOB_EPROTO] = {"protocol", "the other side does not speak this version of the protocol"},
    [MOB_ECLOSED] = {"daemon_died", "the daemon is gone"},
    [MOB_EFORKED] = {"forked",
                     "this process was forked from a driver or worker and is not connected itself"},
    [MOB_ETIMEOUT] = {"get_timeout", "the time ran out"},
    [MOB_EINTR] = {"interrupted", "interrupted by a signal"},
    [MOB_EFULL] = {"store_full", "the object store is full"},
    [MOB_ESPACE] = {"space_short", "the object store has no room at this moment"},
    [MOB_EDISK] = {"out_of_disk", "the object store is full, and objects can't be moved to disk"},
    [MOB_EAWAY] = {"away", "the object is on disk"},
    [MOB_ESTALE] = {"stale", "the reference belongs to an earlier session, or its object is gone"},
    [MOB_ETASK] = {"task", "the task raised an exception"},
    [MOB_ECRASHED] = {"worker_crashed", "the worker died while it ran the task"},
    [MOB_EOOM] = {"out_of_memory", "the task was ended because memory was short"},
    [MOB_EACTOR] = {"actor_died", "the actor is dead"},
    [MOB_EUNAVAILABLE] = {"actor_unavailable",
                          "the actor's process died during the call, and the actor comes back"},
    [MOB_ELOST] = {"object_lost", "the object is lost"},
    [MOB_ECANCELLED] = {"task_cancelled", "the task was cancelled"},
    [MOB_EEXISTS] = {"name_taken", "another actor has this name"},
    [MOB_ENONAME] = {"no_such_name", "no actor has this name"},
    [MOB_EDEADLOCK] = {"deadlock", "tasks wait for each other"},
    [MOB_ESETUP] = {"runtime_env", "the runtime environment could not be set up"},
    [MOB_EGROUP] = {"group_removed", "the task's placement group was removed"},
    [MOB_EACTORGROUP] = {"actor_group_removed", "the actor's placement group was removed"},
    [MOB_EPLACE] = {"task_unschedulable", "the task asks for a node that is not there"},
    [MOB_EACTORPLACE] = {"actor_unschedulable", "the actor asks for a node that is not there"},
    [MOB_EOWNER] = {"owner_died", "the node that the object was made on is dead"},
    [MOB_ENODE] = {"node_died", "the node died that ran the task"},
    [MOB_ESTOPPED] = {"daemon_stopped", "the daemon is stopped, or does not answer"},
    [MOB_EOVER] = {"over", "there are no more items, or nobody reads them any more"},
};

static _Thread_local char last_error[2048];

const char *mob_status_name(mob_status_t status) {
    return (unsigned)status < MOB_STATUS_COUNT ? statuses[status].name : "unknown";
}

const char *mob_status_text(mob_status_t status) {
    return (unsigned)status < MOB_STATUS_COUNT ? statuses[status].text : "unknown status";
}

const char *mob_last_error(void) { return last_error; }

mob_status_t base_fail(mob_status_t status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last_error, sizeof last_error, format, args);
    va_end(args);
    return status;
}

void base_fail_clear(void) { last_error[0] = 0; }
