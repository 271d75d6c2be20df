/*
 * The times of membership that are not the caller's business, and why they fit together.
 *
 * A node N that lives on by its witnesses must be paused when its tombstone is written, at T. N's
 * last answered renewal, sent at t, was run at T - LEASE - LOOKED or before: its lease was absent
 * at the leader's first look. Suppose that N counts a witness x at T which the leader's script
 * counts as renewed. What x said was said at T - FRESH or later (N has its own stamp back), and
 * was: my last answered renewal is not after t + SINCE. The script saw x renew with no gap over
 * GAP, so at that time x knew an answered renewal of T - FRESH - GAP or later. Both hold only if
 * FRESH + GAP >= LEASE + LOOKED - SINCE; the numbers below leave 150 ms for drift and late timers.
 */
#ifndef MEMBER_TIMES_H
#define MEMBER_TIMES_H

#include "member/member.h"

enum {
    TIMES_FRESH_MS = 1300,     /* what a witness said counts for so long */
    TIMES_SINCE_MS = 600,      /* renewals of the same round, before the control state went away */
    TIMES_GAP_MS = 1400,       /* between answered renewals that are still one run of them */
    TIMES_LOOKED_MS = 450,     /* from the leader's first look without a lease to the tombstone */
    TIMES_REST_MS = 2000,      /* a tombstone is so old when its node counts as a dead witness */
    TIMES_RUN_MS = 6000,       /* two leases */
    TIMES_CERTAIN_MS = 90000,  /* nobody lives on without the control state for so long */
    TIMES_REIGN_MS = 3000,     /* the leader's lease; it gives up at two thirds of it */
    TIMES_COMPLAINT_MS = 1000, /* complaints have stood for so long when somebody is condemned */
    TIMES_OTHERS_MS = 3000,    /* into an era, others that did not come are said again */
    TIMES_LOST_MS = 10000,     /* a fail-over loses answered renewals of so long at most */
    TIMES_AGAIN_MS = 100,      /* renewals are not sooner than that after another */
    TIMES_ANSWER_MS = 5000,    /* a request without any answer is forgotten */
};

_Static_assert(TIMES_FRESH_MS + TIMES_GAP_MS + TIMES_SINCE_MS + 150 <=
                   MEMBER_LEASE_MS + TIMES_LOOKED_MS,
               "a node may live on when its tombstone is written");
_Static_assert(TIMES_REST_MS > TIMES_FRESH_MS, "a dead witness may still count as a living one");
_Static_assert(TIMES_CERTAIN_MS > MEMBER_ALONE_MS + TIMES_RUN_MS, "it may still live on");

#define TIMES_NS(ms) ((uint64_t)(ms)*1000000)

#endif
