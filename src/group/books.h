/* What one node keeps of groups: shared by the files of this room only. */
#ifndef GROUP_BOOKS_H
#define GROUP_BOOKS_H

#include "base/map.h"
#include "base/rule.h"
#include "base/vec.h"
#include "group/choose.h"
#include "group/group.h"
#include "group/message.h"
#include "group/script.h"
#include "group/spec.h"

/* A place in a ring of the same. */
typedef struct group_link {
    struct group_link *prev, *next;
} group_link_t;

static inline void group_ring_init(group_link_t *ring) { ring->prev = ring->next = ring; }
static inline bool group_ring_has(const group_link_t *link) { return link->next != NULL; }
static inline void group_ring_drop(group_link_t *link) {
    if (link->next == NULL) return;
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->prev = link->next = NULL;
}
/* Before `at`: at the end, if that is the ring itself. */
static inline void group_ring_add(group_link_t *at, group_link_t *link) {
    group_ring_drop(link);
    link->prev = at->prev;
    link->next = at;
    at->prev->next = link;
    at->prev = link;
}

/* ---- requests to the control state ---- */

typedef struct group_ask group_ask_t;
/* `answer` is behind its code. */
typedef void (*group_done_fn)(group_t *room, const group_ask_t *ask, uint64_t master,
                              group_answer_t code, base_reader_t *answer);

struct group_ask {
    group_link_t link; /* in `asked` or `parked` */
    group_t *room;
    script_fn script;
    group_done_fn done;
    group_id_t id;
    uint64_t fence, attempt;
    uint64_t settled; /* that it was asked with */
    base_writer_t arguments;
    uint8_t bytes[];
};

/* ---- groups that were made or are watched here ---- */

typedef enum {
    WATCH_LOCAL,    /* made here, and nobody else knows it */
    WATCH_CREATING, /* made here, asked for in the control state */
    WATCH_SHARED,   /* the leader tells */
    WATCH_AT_HOME,  /* another node made it, which is asked */
} watch_phase_t;

typedef struct group_watch {
    group_link_t link; /* in `unanswered` */
    group_id_t id;
    watch_phase_t phase;
    bool is_home;
    bool is_removing; /* somebody here wants it removed */
    bool is_asked;    /* the control state, to remove it */
    bool is_removed;  /* the control state has it removed: the leader is to hear of it */
    bool is_ended;    /* the leader has said so while its home's request was under way */
    uint64_t since_ms;
    uint64_t number;
    group_state_t told;
    VEC(uint64_t) nodes;  /* told with READY */
    VEC(uint64_t) askers; /* peers that want to know of it from here */
    group_spec_t *spec;   /* of its home */
} group_watch_t;

/* ---- bundles that this node holds ---- */

/* Of one attempt at one group. */
typedef struct group_part {
    group_link_t link;       /* in `doubts` */
    struct group_part *next; /* of the same group */
    group_id_t id;
    uint64_t fence, attempt;
    bool is_committed, is_asked;
    uint64_t since_ms;
    size_t range_count;
    group_range_t ranges[];
} group_part_t;

/* ---- what was decided here a while ago ---- */

typedef struct {
    group_fact_t kind;
    group_id_t id; /* or the job, in its first bytes */
    uint64_t fence, attempt;
    uint64_t at_ms;
} group_kept_t;

/* ---- the leader's ---- */

typedef enum {
    BUNDLE_NONE,
    BUNDLE_RESERVING,
    BUNDLE_RESERVED,
    BUNDLE_ASSIGNED,
    BUNDLE_HELD
} bundle_state_t;

typedef struct {
    uint64_t node, fence, attempt;
    bundle_state_t state;
    uint64_t master; /* whose word it is that it is committed */
} group_place_t;

typedef enum {
    PLACED_LOADING,   /* its record is to be read */
    PLACED_WAITING,   /* in the line of its class */
    PLACED_RESERVING, /* nodes were asked */
    PLACED_DECIDING,  /* all have reserved; the control state was asked */
    PLACED_WHOLE,     /* every bundle has its place; those that are ASSIGNED are to be confirmed */
    PLACED_ENDING,    /* the control state was asked to remove it */
    PLACED_REMOVED,   /* nodes give back, and its home sees it; then it is forgotten */
} placed_state_t;

typedef struct group_class group_class_t;

typedef struct group_placed {
    group_link_t line; /* of its class, by number */
    group_id_t id;
    placed_state_t state;
    uint64_t number, attempt;
    uint64_t late;        /* as it was read */
    uint64_t reading;     /* which reading has read its head; 0: none has yet */
    uint32_t unanswered;  /* nodes */
    uint32_t unconfirmed; /* bundles that are not HELD */
    bool is_refused, is_seen, is_forgetting;
    bool is_late;           /* what is being read may be older than what a node holds */
    bool was_placed;        /* it was ready once, as far as is known here */
    bool is_gone, is_ended; /* read, or heard: its record is REMOVED; it is to be */
    group_state_t told;
    group_spec_t *spec; /* NULL: it is not known (yet) */
    group_place_t *places;
    group_class_t *class;
    VEC(uint64_t) watchers;
    VEC(uint64_t) releasing; /* nodes that have not said that they gave back */
} group_placed_t;

struct group_class {
    uint64_t hash;
    group_link_t line;
    uint64_t failed_at; /* `gains` when its head did not fit; 0: it was not tried */
};

struct group {
    const group_ops_t *ops;
    void *context;
    uint64_t self, now_ms;
    uint64_t leader, fence; /* the newest that is known */
    uint64_t master, settled;
    bool is_short;     /* of memory: something is to be sent again */
    base_map_t boxes;  /* peer to group_box_t */
    group_link_t full; /* boxes to be sent */
    group_link_t asked, parked;
    size_t saying; /* requests that say facts */
    uint64_t saying_to, speech;
    VEC(group_kept_t) kept; /* oldest first, from kept_from */
    size_t kept_from;

    base_map_t watches; /* id to group_watch_t */
    base_map_t waiting; /* hash of a class to how many of it wait that were made here */
    group_link_t unanswered;

    base_map_t parts; /* id to the first group_part_t */
    group_link_t doubts;
    bool is_wanted, has_changed, is_view_due; /* this node's view, by the leader */
    bool is_view_known;                       /* the leader has one */
    uint64_t view_ms;                         /* when it was sent */

    bool is_leading, is_scanning, scans_again, is_loading;
    group_id_t loading;      /* the group that the reading of all is at */
    uint64_t readings, scan; /* numbers: the last, and that of all records that counts */
    uint64_t later_ms;       /* when all are to be read once more; 0: they are not */
    base_map_t placed;       /* id to group_placed_t */
    base_map_t classes;      /* hash to group_class_t */
    base_map_t views;        /* node to group_view_t */
    uint64_t attempt, gains;
    size_t deciding; /* requests for COMMITTED that are under way */
    uint64_t passed; /* `gains` at the last look at the line */
    bool has_new;    /* something came into the line since */
};

static inline uint64_t group_home_of(const group_id_t *id) {
    base_reader_t r = {.at = id->bytes, .left = 8};
    return base_take_number(&r, 8);
}
group_id_t group_id_of(const frame_id_t *id);
frame_id_t group_id_frame(const group_id_t *id);
bool group_is_dead(const group_t *room, uint64_t node);
/* The newest leader, as the control state's answer names it. */
void group_leads_learn(group_t *room, base_reader_t *answer);

/* ask.c. A request whose arguments begin with `settled` and have room for `size` more; NULL: no
 * memory, which is kept in mind. */
group_ask_t *group_ask_new(group_t *room, script_fn script, group_done_fn done,
                           const group_id_t *id, size_t size);
void group_ask_send(group_ask_t *ask);
void group_ask_put_leader(group_ask_t *ask);
void group_keep(group_t *room, group_fact_t kind, const group_id_t *id, uint64_t fence,
                uint64_t attempt);
void group_kept_turn(group_t *room);
void group_asks_free(group_t *room);
/* say.c */
void group_facts_say(group_t *room);

/* out.c: items for a peer; they go with the end of the turn. */
void group_say_id(group_t *room, uint64_t to, group_item_kind_t kind, const group_id_t *id);
void group_say(group_t *room, uint64_t to, const group_item_t *item);
void group_boxes_send(group_t *room);
void group_box_drop(group_t *room, uint64_t peer);
void group_boxes_free(group_t *room);

/* watch.c */
void group_watch_told(group_t *room, uint64_t from, const group_item_t *item);
void group_watch_asked(group_t *room, uint64_t from, const group_item_t *item);
void group_watch_shared(group_t *room, uint64_t from, const group_item_t *item);
void group_watches_again(group_t *room); /* there is a new leader, or memory was short */
void group_watches_turn(group_t *room);
void group_watches_died(group_t *room, uint64_t peer);
void group_watch_free(group_t *room, group_watch_t *watch);
void group_watches_free(group_t *room);
void group_watch_tell(group_t *room, group_watch_t *watch, group_state_t state,
                      const uint8_t *nodes, size_t count);
void group_watch_end(group_t *room, group_watch_t *watch, group_state_t state);
void group_watch_seek(group_t *room, group_watch_t *watch);
group_watch_t *group_watch_new(group_t *room, const group_id_t *id);
/* home.c */
void group_name_hash(const char *name_space, const char *name, uint8_t ret_hash[GROUP_NAME_HASH]);
void group_local_release(group_t *room, group_watch_t *watch);
void group_watch_remove(group_t *room, group_watch_t *watch);
void group_waiting_count(group_t *room, const group_watch_t *watch, int more);

/* hold.c */
void group_hold_reserve(group_t *room, uint64_t from, const group_item_t *item);
void group_hold_commit(group_t *room, uint64_t from, const group_item_t *item);
void group_hold_abort(group_t *room, uint64_t from, const group_item_t *item);
void group_hold_release(group_t *room, uint64_t from, const group_item_t *item);
void group_holds_turn(group_t *room);
void group_holds_free(group_t *room);
void group_view_say(group_t *room);

/* lead.c */
void group_lead_begin(group_t *room);
void group_lead_end(group_t *room);
void group_lead_scan(group_t *room);
void group_lead_turn(group_t *room);
void group_lead_item(group_t *room, uint64_t from, const group_item_t *item);
void group_lead_died(group_t *room, uint64_t peer);
void group_lead_job_ended(group_t *room, frame_job_t job);
/* scan.c */
void group_load(group_t *room, group_placed_t *g);
void group_load_again(group_t *room, group_placed_t *g); /* there is more than is known here */
/* placed.c: one group, as the leader has it */
group_placed_t *group_placed_get(group_t *room, const group_id_t *id);
group_placed_t *group_placed_new(group_t *room, const group_id_t *id);
void group_placed_free(group_t *room, group_placed_t *g);
void group_placed_tell(group_t *room, group_placed_t *g, uint64_t only);
void group_placed_remove(group_t *room, group_placed_t *g); /* its record is REMOVED */
void group_placed_end(group_t *room, group_placed_t *g);    /* asks for that */
void group_placed_settle(group_t *room, group_placed_t *g); /* its places have changed */
void group_placed_forget(group_t *room, group_placed_t *g); /* if nothing is left of it */
void group_placed_released(group_t *room, group_placed_t *g, uint64_t node);
void group_placed_holder(group_t *room, group_placed_t *g, uint64_t node);
void group_placed_confirm(group_t *room, group_placed_t *g);
/* attempt.c */
void group_line_pass(group_t *room);
void group_line_add(group_t *room, group_placed_t *g);
void group_line_drop(group_t *room, group_placed_t *g);
void group_attempt_answered(group_t *room, group_placed_t *g, uint64_t from, bool is_reserved);
void group_attempt_give_up(group_t *room, group_placed_t *g);

#endif
