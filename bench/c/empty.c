/* What bench/c/rate.c calls: nothing. */
#include "mobula_task.h"

mob_status_t empty(mob_call_t *call);
mob_status_t Nothing_new(mob_call_t *call);
mob_status_t Nothing_call(mob_call_t *call);

mob_status_t empty(mob_call_t *call) {
    (void)call;
    return MOB_OK;
}
mob_status_t Nothing_new(mob_call_t *call) { return empty(call); }
mob_status_t Nothing_call(mob_call_t *call) { return empty(call); }
