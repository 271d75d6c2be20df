/* What a member_t keeps. For the files of this room only. */
#ifndef MEMBER_BOOKS_H
#define MEMBER_BOOKS_H

#include "base/bytes.h"
#include "base/map.h"
#include "base/rule.h"
#include "base/vec.h"
#include "member/member.h"
#include "member/script.h"
#include "member/times.h"

/* A member, not known to be dead. */
typedef struct peer {
    struct peer *older, *newer; /* by when it was heard last, from books' `heard` */
    uint64_t incarnation, number;
    uint64_t era;        /* in which the state was seen to have it */
    uint64_t stamp;      /* its own, to be sent back; 0: none yet */
    uint64_t stamp_ns;   /* when that came */
    uint64_t fresh_ns;   /* what it said was said then or later, by this node's clock */
    uint64_t until_ns;   /* its word lets this node go on until then */
    uint64_t renewed_ns; /* its last answered renewal was sent then or before; UINT64_MAX: unknown
                          */
    bool is_paused, is_accused;
    size_t blob_size;
    uint8_t *blob; /* behind it */
} peer_t;

typedef struct {
    uint64_t number, incarnation, closed;
} tomb_t;

typedef struct {
    uint64_t sent_ns; /* for the last time; 0: never */
    uint64_t count, items[MEMBER_WITNESSES];
} witnesses_t;

/* A renewal that was sent. */
typedef struct {
    uint64_t request, sent_ns;
} sent_t;

enum { RENEWALS_MAX = 4, LISTS_MAX = 8 };

/* Requests carry what they are in their lowest bits. */
typedef enum {
    ASK_REGISTER,
    ASK_RENEW,
    ASK_SAY,
    ASK_LEAD,
    ASK_SURVEY,
    ASK_BURY,
    ASK_OWN,
    ASK_CONDEMN,
    ASKS
} ask_t;
enum { ASK_BITS = 3 };
_Static_assert(ASKS == 1 << ASK_BITS, "kinds of requests must fill their bits");

/* A member without a lease, as the leader sees it. */
typedef struct {
    uint64_t incarnation, sequence, since_ns;
    bool is_seen; /* in the survey that is being read */
} absent_t;

struct member {
    const member_ops_t *ops;
    void *context;
    uint64_t self, cluster[2];
    bool founds, is_over, is_leaving;
    uint8_t blob[MEMBER_BLOB_MAX];
    size_t blob_size;
    uint64_t patience_ms, newcomer_ms; /* as configured */
    VEC(uint64_t) buries;              /* own earlier incarnations */

    uint64_t number; /* of the registration; 0: not registered */
    bool is_member;  /* has read all there is */
    uint64_t requests;
    uint64_t asked[ASKS]; /* the newest request of each kind that waits for its answer; 0: none */
    uint64_t asked_ns[ASKS]; /* when */

    /* lease.c */
    uint64_t renew_ns; /* when the next is due */
    sent_t sent[RENEWALS_MAX];
    uint64_t echo_ms;
    bool is_ever;      /* a renewal was answered that counts for the term */
    uint64_t term_ns;  /* its sending */
    bool is_held;      /* answered after it has paused: it goes on when the state has settled */
    uint64_t end_ns;   /* of the term, as told */
    bool is_paused;    /* as told */
    bool is_witnessed; /* an answered renewal had somebody in its list */
    witnesses_t lists[LISTS_MAX]; /* of the renewals that were sent; the newest is the first */
    uint64_t marks[2];            /* sendings of answered renewals, the newer first */
    uint64_t answered_ns;         /* sending of the newest answered renewal, also one that does not
                                     count */
    uint64_t unbroken_ns;         /* since when renewals were answered without a gap */
    bool is_unbroken;

    /* eras */
    uint64_t era, era_ns, settled; /* era_ns: when it was met */
    uint64_t said;                 /* by the rooms */
    bool has_said;                 /* everything of this room */
    uint64_t cursor, tail;         /* of the state, as answered last */
    bool has_read;                 /* all members in this era */

    /* history.c */
    base_map_t peers;  /* incarnation to peer_t */
    base_map_t dead;   /* incarnation to its place in `tombs`, from 1 */
    peer_t heard;      /* a ring: its `older` is the newest, its `newer` the oldest */
    VEC(tomb_t) tombs; /* in the order of their numbers */
    VEC(uint64_t) accused;
    uint64_t closed, struck, hinted; /* hinted: a tombstone that somebody knows */

    /* lead.c */
    uint64_t fence, holder; /* the highest known */
    uint64_t above;         /* the number to be above of */
    bool is_leader, is_vacant;
    uint64_t reign_ns;  /* sending of the last answered survey, or of the question to lead */
    uint64_t survey_ns; /* when the next is due */
    VEC(absent_t) absent;
    uint64_t to_condemn, to_condemn_ns;
};

/* member.c */
uint64_t member_ask(member_t *m, uint64_t now, ask_t kind, script_fn script, const void *arguments,
                    size_t size);
/* Whether a question of this kind waits for its answer. */
bool member_is_asking(const member_t *m, uint64_t now, ask_t kind);
void member_end(member_t *m, member_end_t why, uint64_t number);

/* lease.c */
void lease_tick(member_t *m, uint64_t now);
void lease_begin(member_t *m, uint64_t now);
mob_status_t lease_answer(member_t *m, uint64_t now, uint64_t request, uint64_t status,
                          base_reader_t *r);
/* Moves the term's end to where it belongs, and says whether it is over. */
void lease_term(member_t *m, uint64_t now);

/* witness.c */
/* The witnesses of the renewal that is sent now. */
const witnesses_t *witness_choose(member_t *m, uint64_t now);
/* A renewal was answered. */
void witness_mark(member_t *m, uint64_t sent_ns);
/* Until when the node may go on by its witnesses. */
uint64_t witness_end(const member_t *m);

/* history.c */
/* A tombstone or a member, as the state has it. False: no memory, or out of order; it will come
 * again. */
bool history_bury(member_t *m, const tomb_t *tomb);
bool history_join(member_t *m, uint64_t incarnation, uint64_t number, const void *blob,
                  size_t size);
void history_fini(member_t *m);
const tomb_t *history_last(const member_t *m); /* NULL: none */

/* era.c */
/* An answer of this era. False: an old one, which is no answer. */
bool era_meet(member_t *m, uint64_t now, uint64_t era);
/* What is left to be said again to it. */
void era_tick(member_t *m, uint64_t now, bool is_registered);
void era_settled(member_t *m, uint64_t settled);
mob_status_t era_answer(member_t *m, uint64_t now, uint64_t status);

/* lead.c */
void lead_tick(member_t *m, uint64_t now);
/* Who leads, as the state has it; 0: nobody. */
void lead_told(member_t *m, uint64_t leader, uint64_t fence);
mob_status_t lead_answer(member_t *m, uint64_t now, ask_t kind, uint64_t asked_ns, uint64_t status,
                         base_reader_t *r);
bool lead_is_holding(const member_t *m, uint64_t now);
/* Leads no more with a number up to the one it has. */
void lead_release(member_t *m);

#endif
