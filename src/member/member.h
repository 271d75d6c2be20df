/*
 * Membership: who is in the cluster, who is dead, who leads, and whether this node may begin what
 * runs at most once. One member_t a node, for one incarnation of it. README.md has the rules, and
 * what the caller must do.
 *
 * Decisions only: no I/O, no clock, no chance. `now_ns` is this node's CLOCK_BOOTTIME. For one
 * thread. What is told by the table of functions may be told from inside any call below but the
 * questions; nothing of that table may call back into the room, but for member_closed and
 * member_said.
 */
#ifndef MEMBER_MEMBER_H
#define MEMBER_MEMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control/script.h"
#include "mobula.h"

typedef struct member member_t;

enum {
    MEMBER_BLOB_MAX = 512,   /* bytes of a node's address, resources and labels */
    MEMBER_PULSE_SIZE = 40,  /* what rides in a heartbeat */
    MEMBER_WITNESSES = 15,   /* of a renewal, at most */
    MEMBER_COMPLAINTS = 8,   /* of a renewal, at most */
    MEMBER_RENEW_MS = 500,   /* between two renewals, and between two heartbeats */
    MEMBER_TERM_MS = 1500,   /* after the sending of the last answered renewal */
    MEMBER_LEASE_MS = 3000,  /* in the control state, after a renewal has run */
    MEMBER_ALONE_MS = 60000, /* without the control state, by witnesses */
};

/* Why an incarnation is over. Its node ends its workers and joins again as a new one. */
typedef enum member_end {
    MEMBER_BURIED = 1,   /* it has a tombstone */
    MEMBER_CONTRADICTED, /* it knows of tombstones, or closed some, that were lost for good */
    MEMBER_FORGOTTEN,    /* the control state lost its registration, and has settled without it */
    MEMBER_STRANGER,     /* the control state is another cluster's */
    MEMBER_LEFT,         /* it left: member_leave */
} member_end_t;

/* What the room asks of its node. `context` is member_new's. */
typedef struct member_ops {
    /* Runs a script in the control state; the answer comes by member_answer, with the same
     * `request`. The arguments are borrowed. Requests of one node are run in the order in which
     * they were asked. */
    void (*ask)(void *context, uint64_t request, script_fn script, const void *arguments,
                size_t size);
    /* A message to a peer, which may be dead: its node takes it with member_receive. It may be
     * lost. */
    void (*send)(void *context, uint64_t peer, const void *bytes, size_t size);
    /* This node is registered under that number and knows all members. Numbers up to it are
     * closed. */
    void (*began)(void *context, uint64_t number);
    /* A member, once each, before its `died`. */
    void (*joined)(void *context, uint64_t peer, const void *blob, size_t size);
    /* A tombstone. Everybody hears the same ones in the order of their numbers, each once; a node
     * only those after its own number. The peer may be one that never was `joined`. */
    void (*died)(void *context, uint64_t peer, uint64_t number);
    /* Tombstones up to this number are closed everywhere. */
    void (*struck)(void *context, uint64_t number);
    /* Until when, by this node's clock, workers may begin what runs at most once. They look at it
     * themselves. It may also come to lie earlier. */
    void (*term)(void *context, uint64_t end_ns);
    /* The term is over, or is not any more, at the time of a call. */
    void (*paused)(void *context, bool paused);
    /* Who leads, with which fencing number: rising ones only. 0: this node led, and does not now.
     */
    void (*leads)(void *context, uint64_t leader, uint64_t fence);
    /* The control state may lack the last writes, or all of them. `master` grows. Its rooms say
     * their facts, then the node says member_said. */
    void (*master)(void *context, uint64_t master);
    /* Every live node has said its facts: what the first one wins may be decided again. */
    void (*settled)(void *context, uint64_t master);
    /* This incarnation is over; the room does nothing more. `number`: of its tombstone, or 0. */
    void (*over)(void *context, member_end_t why, uint64_t number);
    /* The value of this key makes no sense; what needs it waits. Told again while it is so. */
    void (*poisoned)(void *context, const char *key);
} member_ops_t;

typedef struct member_config {
    uint64_t self;       /* this incarnation; not 0 */
    uint64_t cluster[2]; /* the cluster's id */
    bool founds;         /* the id is new: nobody else can have it yet */
    const void *blob;    /* copied; up to MEMBER_BLOB_MAX bytes */
    size_t blob_size;
    /* Earlier incarnations of this node, found in its folder under its lock: dead for certain.
     * Copied. */
    const uint64_t *buries;
    size_t buries_count;
    /* A node is not declared dead before it was silent for that long, nor before it has been
     * registered for that long. What is less than the times of membership changes nothing. */
    uint64_t patience_ms, newcomer_ms;
} member_config_t;

/* MOB_EINVAL, MOB_ENOMEM. It asks nothing before its first tick. The table is borrowed. */
mob_status_t member_new(const member_config_t *config, const member_ops_t *ops, void *context,
                        member_t **ret_member);
void member_free(member_t *member); /* NULL is fine */

/* There may be a member that this node does not know of: it looks sooner than it would. */
void member_look(member_t *member, uint64_t now_ns);
/* What is due by now. Returns when it wants to be called again, at the latest. To be called before
 * anything else when the node's thread was late. */
uint64_t member_tick(member_t *member, uint64_t now_ns);
/* The answer to a request. NULL: none was heard within the time limit, or not enough copies have
 * confirmed what was written; the script may have run, or may yet. Every request is answered, once.
 * MOB_EPROTO: this is no answer; it counts as none. */
mob_status_t member_answer(member_t *member, uint64_t now_ns, uint64_t request, const void *answer,
                           size_t size);

/* ---- peers ---- */

/* What a heartbeat to that peer says. */
void member_pulse_write(member_t *member, uint64_t now_ns, uint64_t peer,
                        uint8_t pulse[MEMBER_PULSE_SIZE]);
/* What a heartbeat of that peer said, which the link has authenticated. An unknown peer is ignored;
 * a dead one is sent its epitaph. MOB_EPROTO: malformed, nothing changed. */
mob_status_t member_pulse_read(member_t *member, uint64_t now_ns, uint64_t peer, const void *bytes,
                               size_t size);
/* A message of that peer's room. MOB_EPROTO: malformed, nothing changed. */
mob_status_t member_receive(member_t *member, uint64_t now_ns, uint64_t peer, const void *bytes,
                            size_t size);
/* The link to that peer is silent although it should not be, or is not any more. MOB_ENOMEM: say
 * it again. A peer that is unknown or dead is ignored. */
mob_status_t member_complain(member_t *member, uint64_t peer, bool silent);

/* ---- what the node says of itself ---- */

/* This node leaves, and has ended its workers: it has paused for good from now on, and asks for its
 * own tombstone until it has it; then it is `over`. Until that it is ticked and answered as before,
 * and may even lead: the state can't settle without it. Whoever can't wait ends all the same, and
 * is buried after its lease. */
void member_leave(member_t *member, uint64_t now_ns);
/* All rooms of this node have closed the tombstones up to this number. */
void member_closed(member_t *member, uint64_t number);
/* All rooms of this node have said their facts to this master, and were answered. */
void member_said(member_t *member, uint64_t master);
/* A peer refused this leader's fencing number, and knows this one: it asks for one above it. */
void member_refused(member_t *member, uint64_t fence);

/* ---- questions ---- */

bool member_is_paused(const member_t *member, uint64_t now_ns);
/* Whether the state has had a list of this node's witnesses with somebody in it: if it dies now, it
 * is buried in time. */
bool member_is_witnessed(const member_t *member);
bool member_knows(const member_t *member, uint64_t peer); /* a member, not known to be dead */
uint64_t member_tombstone(const member_t *member, uint64_t peer); /* its number, or 0 */
/* Whether what this leader says with this fencing number is to be done: not if a higher one is
 * known, or this one of another holder. What it accepts it remembers. */
bool member_accepts(member_t *member, uint64_t leader, uint64_t fence);
/* Whether this node leads, by its own clock, and with which number. */
bool member_is_leader(const member_t *member, uint64_t now_ns, uint64_t *ret_fence);
uint64_t member_master(const member_t *member);
/* For scripts of other rooms, which run behind it: whether the state is still the one that this
 * master is the name of. If not, the script must not run, and its asker is not answered. */
bool member_script_guard(const script_keys_t *keys, uint64_t master);

#endif
