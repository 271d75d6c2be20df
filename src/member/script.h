/*
 * The scripts of membership, as control/script.h says. Arguments and answers are words of 64 bits,
 * little-endian, with bytes behind them where it is said. An answer begins with its status.
 */
#ifndef MEMBER_SCRIPT_H
#define MEMBER_SCRIPT_H

#include "base/rule.h"
#include "control/script.h"
#include "member/member.h"

typedef enum {
    MEMBER_SAYS_OK = 1,
    MEMBER_SAYS_LATER,        /* not now: the state has to settle first, or is not there yet */
    MEMBER_SAYS_STRANGER,     /* another cluster's */
    MEMBER_SAYS_DEAD,         /* the asker has a tombstone: its number */
    MEMBER_SAYS_UNKNOWN,      /* the asker is not registered */
    MEMBER_SAYS_CONDEMNED,    /* the asker is to lose its lease */
    MEMBER_SAYS_CONTRADICTED, /* the asker's tombstones are not those of this state */
    MEMBER_SAYS_REFUSED,      /* the asker does not lead, or not with the highest number; or what it
                                 wants is not so */
    MEMBER_SAYS_POISONED,     /* a key's name follows */
} member_says_t;

/* The parts of a renewal. */
typedef struct {
    uint64_t self, cluster[2], sequence;
    uint64_t era;              /* the highest that it knows */
    uint64_t echo_ms;          /* when its last answered renewal ran; 0: none did */
    uint64_t said, closed;     /* as in its record */
    uint64_t heard, heard_inc; /* the last tombstone that it knows */
    uint64_t cursor;           /* the last stamp of m/j that it has read in this era */
    uint64_t seen;             /* the highest number that it knows */
    uint64_t fence, holder;    /* the highest that it knows, and whose */
    uint64_t is_member;        /* 1: it knows all tombstones up to its own number */
    uint64_t witness_count, witnesses[MEMBER_WITNESSES];
    uint64_t complaint_count, complaints[MEMBER_COMPLAINTS];
} member_renewal_t;

enum { MEMBER_RENEWAL_WORDS = sizeof(member_renewal_t) / sizeof(uint64_t) };

/* self, founds, cluster's id (2); its blob.
 * OK: number, era. LATER. STRANGER. DEAD: number. */
size_t member_script_register(const script_keys_t *keys, const void *arguments, size_t size,
                              void *answer);
/* member_renewal_t. Renews the lease; begins a new era if the state is not the one that it was.
 * STRANGER. OK, CONDEMNED, UNKNOWN, CONTRADICTED: era, settled era, time, leader, fence, K, tail,
 * whether there is more, number of tombstones, number of members; then of each tombstone its
 * number, incarnation and closed; of each member its stamp, incarnation, number and size of its
 * blob, and the blob. DEAD: number. */
size_t member_script_renew(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer);
/* self, era, tail that the tombstones follow on, number of these, number of members; then of each
 * tombstone its number, incarnation and closed; of each member its incarnation, number, closed and
 * size of blob, and the blob. Says again what the state has lost.
 * OK. REFUSED: the state is another one, or has settled. */
size_t member_script_say(const script_keys_t *keys, const void *arguments, size_t size,
                         void *answer);
/* self, era, a fencing number to be above. OK: fence. REFUSED. */
size_t member_script_lead(const script_keys_t *keys, const void *arguments, size_t size,
                          void *answer);
/* self, fence, era, whether it had two leases of answers. The leader's look at all members; it
 * keeps the lead, settles the state and publishes K.
 * OK: the one to condemn or 0, number of members without a lease; of each its incarnation and the
 * sequence of its last renewal. REFUSED. */
size_t member_script_survey(const script_keys_t *keys, const void *arguments, size_t size,
                            void *answer);
/* self, fence, era, incarnation, sequence as in the survey, whether its time without the control
 * state is over for certain.
 * OK: its tombstone's number. REFUSED. */
size_t member_script_bury(const script_keys_t *keys, const void *arguments, size_t size,
                          void *answer);
/* self, era, which has settled, an earlier incarnation of self's node or self, a fencing number up
 * to which self leads no more. OK: incarnation. LATER: the state is another one, or self is not
 * registered. */
size_t member_script_bury_own(const script_keys_t *keys, const void *arguments, size_t size,
                              void *answer);
/* self, fence, era, incarnation. OK. REFUSED. */
size_t member_script_condemn(const script_keys_t *keys, const void *arguments, size_t size,
                             void *answer);

enum { MEMBER_SURVEY_MAX = 200 }; /* members without a lease in one answer */

#endif
