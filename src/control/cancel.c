/*
 * Calls of an actor are never broken off by a signal or a kill: the actor's state is in the middle
 * of them, and its process is not the call's alone.
 *
 * The pauses double from 10 ms, so that a signal that was missed costs little, up to a second, and
 * end after about ten seconds. A run that has not looked at signals by then has them pending, and
 * needs no more.
 */
#include "control/cancel.h"

enum { MOST_SIGNALS = 16, FIRST_PAUSE_MS = 10, LONGEST_PAUSE_MS = 1000 };

control_cancel_t control_cancel_decide(mob_kind_t kind, control_stage_t stage, bool force) {
    if (stage == CONTROL_TASK_OVER || (kind != MOB_TASK && kind != MOB_ACTOR_CALL))
        return CONTROL_CANCEL_NOTHING;
    if (kind == MOB_ACTOR_CALL && force) return CONTROL_CANCEL_REFUSE;
    if (stage == CONTROL_TASK_WAITS) return CONTROL_CANCEL_FAIL;
    if (kind == MOB_ACTOR_CALL) return CONTROL_CANCEL_TELL;
    return force ? CONTROL_CANCEL_KILL : CONTROL_CANCEL_INTERRUPT;
}

uint64_t control_cancel_pause_ns(uint32_t sent) {
    if (sent == 0 || sent >= MOST_SIGNALS) return 0;
    uint64_t ms = sent <= 7 ? (uint64_t)FIRST_PAUSE_MS << (sent - 1) : LONGEST_PAUSE_MS;
    return ms * 1000000;
}
