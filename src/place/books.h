/* What the files of this room share: the books of one node. */
#ifndef PLACE_BOOKS_H
#define PLACE_BOOKS_H

#include "base/map.h"
#include "base/rule.h"
#include "base/vec.h"
#include "place/message.h"
#include "place/ring.h"

/* ---- peers ---- */

typedef struct peer {
    uint64_t id;
    bool is_silent;
    bool is_early; /* it took this node for the leader before this node did */
    ring_t leases; /* that this node has there */
    ring_t berths; /* that it has here */
    uint32_t berth_count, question_count; /* questions: while this node leads */
} peer_t;

/* ---- the origin ---- */

struct place_lane {
    place_t *place;
    uint32_t number;
    void *context;
    place_strategy_t strategy;
    bool is_soft, is_local;
    uint64_t node;
    frame_job_t job;
    uint8_t *demand;
    size_t demand_size;
    uint32_t waiting;
    uint64_t since_ns;    /* that some wait */
    uint32_t spare;       /* credits of its leases that are not used */
    ring_t leases, ready; /* all; those that a task can be sent to */
    bool is_asked;        /* the leader knows, and owes `asked` */
    bool must_ask;        /* what it knows is out of date */
    uint32_t serial, asked;
    message_avoid_t avoid[MESSAGE_AVOID_MAX];
    size_t avoid_count;
    uint64_t look_ns;            /* while it is patient: when it is looked at again */
    ring_t link, dirty, patient; /* of the room's */
};

/* A remote lease: so many tasks of the lane at once at the peer. */
typedef struct lease {
    uint64_t id;
    place_lane_t *lane;
    peer_t *peer;
    uint32_t credits, out; /* out: sent, not returned, not blocked */
    uint32_t sent;         /* ... and blocked */
    uint32_t spare;        /* its part of the lane's */
    bool is_open, is_closed;
    uint64_t way_ns, ran_ns; /* means: on the way there and back; running. 0: not known */
    uint64_t idle_ns;
    ring_t tasks; /* sent_t */
    ring_t in_lane, in_peer, ready, idle;
} lease_t;

typedef struct sent {
    uint32_t record;
    uint64_t run; /* the generation: each sending has one */
    lease_t *lease;
    int32_t retries;
    uint8_t moves;
    bool is_blocked, is_cancelled;
    uint64_t since_ns;
    ring_t in_lease;
} sent_t;

/* ---- guests ---- */

typedef struct need {
    uint32_t resource; /* of this node's */
    uint64_t amount;
} need_t;

/* A lease that a peer has here. */
typedef struct berth {
    uint64_t origin, id;
    frame_job_t job;
    uint32_t credits, used; /* used: queued or running, not blocked */
    uint32_t guests, blocked;
    uint32_t promised; /* credits that are kept free for it, in the room's sums */
    bool is_closed;
    uint64_t done_ns;                        /* when its last guest ended */
    uint64_t ran_ns;                         /* how long its guests run; 0: not known */
    uint64_t lapse_ns;                       /* when what is promised and not used is so no more */
    ring_t all, held, in_peer, link, unused; /* its guests; those that are not queued */
    uint32_t count;
    need_t needs[];
} berth_t;

typedef enum { GUEST_HELD, GUEST_QUEUED, GUEST_RUNNING, GUEST_BLOCKED } guest_state_t;

struct place_guest {
    place_t *place;
    berth_t *berth;
    uint64_t origin, run;
    uint32_t record;
    uint8_t moves;
    bool is_once, has_blocked, is_orphan; /* its origin is dead */
    guest_state_t state;
    void *task; /* the node's */
    uint64_t came_ns, begun_ns, due_ns;
    ring_t in_berth, held, patient;
};

typedef struct resource {
    char *name;
    uint64_t total;
    uint64_t promised;
    int64_t said; /* free now, without what is promised; below 0: nothing */
} resource_t;

typedef struct leader leader_t;

struct place {
    const place_ops_t *ops;
    void *context;
    uint64_t self, now_ns;
    uint64_t leader, fence;
    bool is_paused;
    base_map_t peers, dead, ended; /* by id; by id; by job */
    uint64_t messages;

    base_map_t lanes, leases, sent; /* by number, by id, by record */
    uint32_t lane_last;
    uint64_t lease_last, run_last;
    ring_t all_lanes, dirty, patient, idle;

    base_map_t guests, berths; /* by (origin, run), by (origin, id) */
    ring_t all_berths, unused;
    ring_t unbegun[PLACE_MOVES_MAX]; /* guests that wait, by moves: each in the order of due_ns */
    resource_t *resources;
    uint32_t resource_count;
    char *labels;
    uint64_t version, said_ns;
    bool is_view_new, must_say, has_refused;
    uint8_t *view; /* space for a report */

    leader_t *lead; /* NULL: another node leads */
};

/* Sends one message; to this node itself it is received at once. */
void place_send(place_t *place, uint64_t to, const void *head, size_t head_size, const void *body,
                size_t body_size, bool is_answer);
static inline uint64_t place_mean(uint64_t old, uint64_t new) {
    return old == 0 ? new : (7 * old + new) / 8;
}
void place_send_head(place_t *place, uint64_t to, const base_writer_t *w, bool is_answer);
/* NULL: it is dead, or no memory. */
peer_t *place_peer(place_t *place, uint64_t id);
bool place_is_ended(const place_t *place, frame_job_t job);

/* lane.c: lanes, and what is asked of the leader for them. */
void place_lane_dirty(place_lane_t *lane);
void place_lane_refused(place_lane_t *lane, uint64_t node, uint64_t version);
void place_lanes_ask_again(place_t *place);
void place_lanes_ask_refused(place_t *place);
void place_lanes_node_died(place_t *place, uint64_t node);
void place_lanes_tick(place_t *place);
uint64_t place_lanes_due_ns(const place_t *place);
mob_status_t place_lane_receive_grant(place_t *place, uint64_t from, base_reader_t *r);

/* lease.c: remote leases. */
void place_lease_new(place_lane_t *lane, peer_t *peer, uint32_t credits, bool is_to_queue);
void place_lease_refresh(lease_t *lease);
void place_lease_close(lease_t *lease); /* may free it */
void place_leases_tick(place_t *place);
uint64_t place_leases_due_ns(const place_t *place);
mob_status_t place_lease_receive_credit(place_t *place, uint64_t from, base_reader_t *r);

/* sent.c: tasks that are at peers. */
bool place_sent_fill(lease_t *lease); /* sends one task; false: there is none, or no memory */
void place_sent_peer_died(place_t *place, peer_t *peer);
void place_sent_job_ended(place_t *place, frame_job_t job);
mob_status_t place_sent_receive_back(place_t *place, uint64_t from, base_reader_t *r);
mob_status_t place_sent_receive_done(place_t *place, uint64_t from, base_reader_t *r);
mob_status_t place_sent_receive_block(place_t *place, uint64_t from, base_reader_t *r);

/* guest.c: tasks of peers. */
bool place_guest_return(place_guest_t *guest); /* BACK, unless it was begun */
void place_guest_orphan(place_guest_t *guest); /* its origin is dead */
void place_guest_hold(place_guest_t *guest);   /* out of the queue, unless it was begun */
void place_guests_tick(place_t *place);
uint64_t place_guests_due_ns(const place_t *place);
mob_status_t place_guest_receive_task(place_t *place, uint64_t from, base_reader_t *r);
mob_status_t place_guest_receive_cancel(place_t *place, uint64_t from, base_reader_t *r);

/* berth.c: leases of peers. */
berth_t *place_berth_find(const place_t *place, uint64_t origin, uint64_t id);
void place_berth_refresh(place_t *place, berth_t *berth); /* may free it */
void place_berth_shrink(place_t *place, berth_t *berth, uint32_t credits);
void place_berth_fill(place_t *place, berth_t *berth);
void place_berths_tick(place_t *place);
uint64_t place_berths_due_ns(const place_t *place);
void place_berths_peer_died(place_t *place, peer_t *peer);
void place_berths_peer_silent(place_t *place, peer_t *peer);
void place_berths_job_ended(place_t *place, frame_job_t job);
mob_status_t place_berth_receive_open(place_t *place, uint64_t from, base_reader_t *r);
mob_status_t place_berth_receive_close(place_t *place, uint64_t from, base_reader_t *r);

/* report.c: this node's view. */
void place_report_refresh(place_t *place); /* so that `version` is that of what is free now */
void place_report_tick(place_t *place);
uint64_t place_report_due_ns(const place_t *place);

/* leader.c: while this node leads. */
leader_t *place_leader_new(place_t *place);
void place_leader_probe(place_t *place, uint64_t node, bool is_for_all); /* for questions too */
void place_leader_free(leader_t *leader);
void place_leader_node_died(leader_t *leader, uint64_t node);
void place_leader_node_heard(leader_t *leader, uint64_t node); /* it was silent */
void place_leader_tick(leader_t *leader);
uint64_t place_leader_due_ns(const leader_t *leader);
size_t place_leader_questions(const leader_t *leader);
size_t place_leader_views(const leader_t *leader);
mob_status_t place_leader_receive_view(place_t *place, uint64_t from, base_reader_t *r);
mob_status_t place_leader_receive_ask(place_t *place, uint64_t from, base_reader_t *r);

#endif
