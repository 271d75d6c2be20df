/*
 * Guest jobs.
 *
 * What must be known before a frame of a job is read is its setup, and the runtime environment that
 * the frame names. Whoever sends the frame sends these first, once to each peer, by the same link:
 * the job's home, or a node where a task of it has submitted others. Pieces of a setup count as an
 * answer, for which a link always has room; a frame that had to wait for its setup would wait
 * behind what needs the room.
 *
 *   told     its setup is here; it has no job, no place among the node's, no process
 *   there    a node_job_t, from the first frame on
 *   ended    its struct ends as any job's does, and is no guest of this table any more
 *
 *   from     to       by
 *   told     there    node_guestjob_find: a frame of it, or an environment
 *   told     ended    its home's word, or its home's tombstone
 *   there    ended    the same; or this node ends
 *   there    own      its home's tombstone, and it is a detached actor's that lives here
 *
 * Ends: a home tells every member which of its jobs go on, and the newest number that it has given
 * to one, each time that one ends; and tells so every member that it hears of, before anything
 * else. (The jobs of detached actors that live elsewhere count as going on when this node ends.) So
 * all numbers up to that one have ended but those, and what is remembered of a home is bounded by
 * its living jobs, for ever. It suffices for nodes that join later, too. A setup can come from
 * another node than the home, and after the job's end: a node that has not heard of the end yet
 * sent it. But the receiver is a member, the home has told it of all ends by the time when that is
 * in its link, and until the home's tombstone; so the guest job ends then, or is refused if the
 * word came first. That nodes pass ends on to those that they have sent a setup would not do: one
 * may die in between. It is not needed either.
 *
 * At the tombstone of the home all of this is forgotten: no frame of a dead home's job is accepted.
 * The job of a detached actor that lives here becomes this node's own (actor_orphan.h).
 */
#include "node/cluster/guestjob.h"

#include <stdlib.h>
#include <string.h>

#include "node/cluster/actor_orphan.h"
#include "node/cluster/cluster.h"
#include "node/cluster/guestsetup.h"
#include "node/cluster/jobpieces.h"
#include "node/state.h"

/* A job's id without padding. */
typedef struct {
    uint64_t home, number;
} jobkey_t;

/* What a home has said. */
typedef struct {
    uint32_t made, count;
    uint32_t living[];
} home_t;

typedef struct {
    frame_job_t id;
    uint32_t shown;
    uint64_t from;       /* who sent its setup */
    node_setup_t *setup; /* held: as it is here; NULL: it can't be, and `word` says why */
    char *word;          /* what the driver is to be told of it; NULL: nothing */
    node_job_t *job;     /* NULL: no frame of it has come */
    size_t size;
    uint8_t bytes[]; /* its setup as it came, for others */
} guest_t;

static jobkey_t key_of(frame_job_t id) { return (jobkey_t){.home = id.home, .number = id.number}; }

/* ---- the books ---- */

/* Processes are told a number of 32 bits, which is what Ray shows as a job's id. So that two nodes
 * do not give the same, a node that has joined counts from a number of its own, of 15 bits, in the
 * upper half; the first node of a cluster counts from 1, as people expect. It is a number for
 * people and for keys in a node's memory. That two nodes have the same once in 32,768 clusters of
 * two makes no job another's: nodes know jobs by their homes. */
static uint32_t first_number(const node_t *n) {
    if (n->config.cluster.join == NULL) return 0;
    uint64_t i = n->incarnation;
    return (uint32_t)(1 + (i ^ i >> 16 ^ i >> 32 ^ i >> 48) % 0x7fff) << 16;
}

void node_guestjobs_start(node_cluster_t *c) {
    node_guestjobs_t *g = &c->guestjobs;
    c->node->jobs.made += first_number(c->node);
    base_map_init(&g->homes, sizeof(uint64_t));
    base_map_init(&g->guests, sizeof(jobkey_t));
    base_map_init(&g->parts, sizeof(uint64_t));
    g->owes = false;
}

static void values_free(base_map_t *map) {
    size_t cursor = 0;
    const void *key;
    void *value;
    while (base_map_each(map, &cursor, &key, &value)) free(value);
    base_map_fini(map);
}

static void guest_free(guest_t *guest) {
    node_setup_drop(guest->setup);
    free(guest->word);
    free(guest);
}

void node_guestjobs_end(node_cluster_t *c) {
    node_guestjobs_t *g = &c->guestjobs;
    size_t cursor = 0;
    const void *key;
    void *guest;
    while (base_map_each(&g->guests, &cursor, &key, &guest)) guest_free(guest);
    base_map_fini(&g->guests);
    vec_free(&g->abroad);
    values_free(&g->homes);
    values_free(&g->parts);
}

static guest_t *guest_find(const node_cluster_t *c, frame_job_t id) {
    jobkey_t key = key_of(id);
    return base_map_get(&c->guestjobs.guests, &key);
}

/* Whether the home, which is another node, has said so, or is dead. */
static bool is_ended(const node_cluster_t *c, frame_job_t id) {
    if (c->member != NULL && member_tombstone(c->member, id.home) != 0) return true;
    const home_t *home = base_map_get(&c->guestjobs.homes, &id.home);
    if (home == NULL || id.number > home->made) return false;
    for (uint32_t i = 0; i < home->count; i++)
        if (home->living[i] == id.number) return false;
    return true;
}

/* ---- jobs by their ids ---- */

frame_job_t node_guestjob_id(const node_job_t *job) {
    if (job->is_guest) return job->origin;
    return (frame_job_t){.home = job->node->incarnation, .number = job->number};
}

static node_job_t *own_find(node_t *n, frame_job_t id, bool *ret_is_ended) {
    NODE_EACH_JOB(n, job)
    if (!job->is_guest && job->number == id.number && !job->farewell.leaving) {
        *ret_is_ended = false;
        return job;
    }
    *ret_is_ended = id.number <= n->jobs.made;
    return NULL;
}

/* The node's own job for a guest. */
static mob_status_t guest_begin(node_t *n, guest_t *guest) {
    node_job_t *job;
    if (guest->setup == NULL) return base_fail(MOB_ESETUP, "%s", guest->word);
    mob_status_t status = node_job_new(n, node_setup_hold(guest->setup), &job);
    if (status != MOB_OK) return status;
    job->is_guest = true;
    job->origin = guest->id;
    job->shown = guest->shown;
    (void)vec_push(&job->told, guest->from); /* else it is sent there for nothing */
    guest->job = job;
    if (guest->word != NULL) node_job_warn(job, "%s", guest->word);
    return MOB_OK;
}

node_job_t *node_guestjob_find(node_t *n, frame_job_t id, bool *ret_is_ended) {
    *ret_is_ended = false;
    if (id.home == n->incarnation) return own_find(n, id, ret_is_ended);
    guest_t *guest = n->cluster != NULL ? guest_find(n->cluster, id) : NULL;
    if (guest == NULL) {
        *ret_is_ended = n->cluster != NULL && is_ended(n->cluster, id);
        if (!*ret_is_ended)
            (void)base_fail(MOB_EPROTO, "nobody has sent the setup of the job that it is of");
        return NULL;
    }
    if (guest->job == NULL && guest_begin(n, guest) != MOB_OK) return NULL;
    *ret_is_ended = guest->job->farewell.leaving; /* as this node is ending */
    return *ret_is_ended ? NULL : guest->job;
}

static void over_send(node_cluster_t *c, frame_job_t id) {
    uint8_t head[JOBPOST_HEAD_MAX];
    node_letter_parts_t parts = {.head = head, .head_size = node_jobover_head(id, head)};
    (void)node_post_send(c, id.home, POST_JOB, &parts,
                         true); /* its driver waits for so long only */
}

void node_guestjob_over(node_job_t *job) {
    if (job->is_guest && job->node->cluster != NULL) over_send(job->node->cluster, job->origin);
}

/* It is no guest any more. */
static void guest_end(node_cluster_t *c, guest_t *guest, bool is_home_dead) {
    jobkey_t key = key_of(guest->id);
    node_job_t *job = guest->job;
    base_map_remove(&c->guestjobs.guests, &key);
    frame_job_t id = guest->id;
    guest_free(guest);
    if (job != NULL && is_home_dead && node_orphan_takes_job(c, job)) return;
    if (job == NULL)
        over_send(c, id);
    else if (!job->farewell.leaving)
        node_job_leave(job, false);
}

void node_guestjob_freed(node_job_t *job) {
    if (!job->is_guest || job->node->cluster == NULL) return;
    jobkey_t key = key_of(job->origin);
    guest_t *guest = guest_find(job->node->cluster, job->origin);
    if (guest == NULL || guest->job != job) return;
    base_map_remove(&job->node->cluster->guestjobs.guests, &key);
    guest_free(guest);
}

/* Ends the guest jobs of that home, if that is dead, or those of them that have ended. */
static void guests_end(node_cluster_t *c, uint64_t home, bool is_home_dead) {
    for (bool more = true; more;) {
        size_t cursor = 0;
        const void *key;
        void *value;
        more = false;
        while (!more && base_map_each(&c->guestjobs.guests, &cursor, &key, &value)) {
            guest_t *guest = value;
            more = guest->id.home == home && (is_home_dead || is_ended(c, guest->id));
            if (more) guest_end(c, guest, is_home_dead); /* the map changes */
        }
    }
}

/* ---- what is sent ---- */

static bool is_told(const node_told_t *told, uint64_t peer) {
    for (size_t i = told->count; i-- > 0;)
        if (told->items[i] == peer) return true;
    return false;
}

static bool told_forget(node_told_t *told, uint64_t peer) {
    for (size_t i = told->count; i-- > 0;) {
        if (told->items[i] != peer) continue;
        vec_swap_remove(told, i);
        return true;
    }
    return false;
}

/* Sends all of it, and notes that. */
static mob_status_t whole_send(node_cluster_t *c, uint64_t peer, node_told_t *told,
                               const node_jobpiece_t *whole, bool is_environment) {
    if (!vec_reserve(told, 1)) return MOB_ENOMEM;
    mob_status_t status = node_jobpieces_send(c, peer, is_environment, whole);
    if (status == MOB_OK) told->items[told->count++] = peer;
    return status;
}

mob_status_t node_guestjob_send(node_cluster_t *c, uint64_t peer, node_job_t *job) {
    frame_job_t id = node_guestjob_id(job);
    if (id.home == peer || is_told(&job->told, peer)) return MOB_OK;
    const guest_t *guest = job->is_guest ? guest_find(c, id) : NULL;
    if (job->is_guest && guest == NULL) return MOB_ECLOSED; /* it has ended */
    node_jobpiece_t whole = {.job = id,
                             .shown = job->shown,
                             .total = (uint32_t)(guest != NULL ? guest->size : job->setup->size),
                             .bytes =
                                 guest != NULL ? (const void *)guest->bytes : job->setup->bytes};
    return whole_send(c, peer, &job->told, &whole, false);
}

mob_status_t node_guestjob_send_pool(node_cluster_t *c, uint64_t peer, node_pool_t *pool) {
    mob_status_t status = node_guestjob_send(c, peer, pool->job);
    if (status != MOB_OK || pool->number == 0 || is_told(&pool->told, peer)) return status;
    node_jobpiece_t whole = {.job = node_guestjob_id(pool->job),
                             .total = (uint32_t)pool->environment_size,
                             .bytes = pool->environment};
    memcpy(whole.name, pool->name, sizeof whole.name);
    return whole_send(c, peer, &pool->told, &whole, true);
}

/* ---- ends ---- */

static mob_status_t ends_send(node_cluster_t *c, uint64_t peer) {
    node_t *n = c->node;
    uint8_t head[JOBPOST_HEAD_MAX];
    node_jobends_t ends = {.made = n->jobs.made};
    uint8_t *living = malloc((n->jobs.items.count + c->guestjobs.abroad.count) * 4 + 1);
    if (living == NULL) return MOB_ENOMEM;
    base_writer_t w = {.bytes = living};
    NODE_EACH_JOB(n, job) {
        if (job->is_guest || job->farewell.leaving) continue;
        base_put_number(&w, job->number, 4);
        ends.count++;
    }
    for (size_t i = 0; i < c->guestjobs.abroad.count; i++, ends.count++)
        base_put_number(&w, c->guestjobs.abroad.items[i], 4);
    node_letter_parts_t parts = {.head = head,
                                 .head_size = node_jobends_head(&ends, head),
                                 .body = living,
                                 .body_size = w.size};
    mob_status_t status = node_post_send(c, peer, POST_JOB, &parts, true);
    free(living);
    return status == MOB_ECLOSED ? MOB_OK : status;
}

static void ends_tell(node_cluster_t *c) {
    c->guestjobs.owes = false;
    for (size_t i = 0; i < c->roster.order.count; i++) {
        const node_row_t *row = c->roster.order.items[i];
        if (row->incarnation != c->node->incarnation && row->until_ms == 0 &&
            ends_send(c, row->incarnation) != MOB_OK)
            c->guestjobs.owes = true;
    }
}

void node_guestjob_ended(node_job_t *job) {
    node_cluster_t *c = job->node->cluster;
    if (c == NULL || job->is_guest) return;
    /* its actor has not ended, so this node does: the actor goes on where it lives */
    if (job->is_detached && job->actor != NULL && job->actor->far != NULL &&
        vec_push(&c->guestjobs.abroad, job->number))
        return;
    job->farewell.awaited = (uint32_t)job->told.count;
    ends_tell(c);
}

/* The node has no worker of this node's job any more. */
static void over_note(node_job_t *job, uint64_t peer) {
    if (!told_forget(&job->told, peer) || job->farewell.awaited == 0) return;
    job->farewell.awaited--;
    node_farewell_gone(job);
}

void node_guestjob_joined(node_cluster_t *c, uint64_t peer) {
    if (ends_send(c, peer) != MOB_OK) c->guestjobs.owes = true;
}

void node_guestjobs_settle(node_cluster_t *c) {
    if (c->guestjobs.owes) ends_tell(c);
    node_outputs_settle(c);
}

static mob_status_t over_take(node_cluster_t *c, uint64_t peer, base_reader_t *r) {
    frame_job_t id;
    if (!node_jobover_read(r, &id))
        return base_fail(MOB_EPROTO, "a word that a job is over makes no sense");
    NODE_EACH_JOB(c->node, job)
    if (!job->is_guest && job->number == id.number && id.home == c->node->incarnation &&
        job->farewell.leaving)
        over_note(job, peer);
    return MOB_OK;
}

static mob_status_t ends_take(node_cluster_t *c, uint64_t peer, base_reader_t *r) {
    node_jobends_t ends;
    if (!node_jobends_read(r, &ends))
        return base_fail(MOB_EPROTO, "a list of jobs that have ended makes no sense");
    home_t *home = malloc(sizeof *home + ends.count * sizeof *home->living);
    if (home == NULL) return MOB_ENOMEM;
    home->made = ends.made;
    home->count = ends.count;
    for (uint32_t i = 0; i < ends.count; i++) home->living[i] = node_jobends_at(&ends, i);
    void *before = base_map_get(&c->guestjobs.homes, &peer);
    if (!base_map_put(&c->guestjobs.homes, &peer, home)) {
        free(home);
        return MOB_ENOMEM;
    }
    free(before);
    guests_end(c, peer, false);
    return MOB_OK;
}

/* ---- what comes in pieces ---- */

static mob_status_t setup_take(node_cluster_t *c, uint64_t peer, const node_jobpart_t *part) {
    frame_job_t id = part->about.job;
    if (id.home == c->node->incarnation || is_ended(c, id) || guest_find(c, id) != NULL)
        return MOB_OK; /* it is known, or has come too late */
    if (c->guestjobs.guests.count >= SHM_JOBS)
        return base_fail(MOB_EPROTO, "more jobs than a node can have");
    guest_t *guest = calloc(1, sizeof *guest + part->size);
    if (guest == NULL) return MOB_ENOMEM;
    *guest = (guest_t){.id = id, .shown = part->about.shown, .from = peer, .size = part->size};
    memcpy(guest->bytes, part->bytes, part->size);
    jobkey_t key = key_of(id);
    mob_status_t status =
        node_guestsetup_new(c->node, part->bytes, part->size, &guest->setup, &guest->word);
    if (status != MOB_OK && status != MOB_ENOMEM) { /* its tasks are told */
        guest->word = strdup(*mob_last_error() ? mob_last_error() : mob_status_text(status));
        status = guest->word != NULL ? MOB_OK : MOB_ENOMEM;
    }
    if (status == MOB_OK && !base_map_put(&c->guestjobs.guests, &key, guest)) status = MOB_ENOMEM;
    if (status != MOB_OK) guest_free(guest);
    return status;
}

static mob_status_t environment_take(node_cluster_t *c, uint64_t peer, const node_jobpart_t *part) {
    bool is_over;
    uint32_t number;
    node_job_t *job = node_guestjob_find(c->node, part->about.job, &is_over);
    if (job == NULL) return is_over ? MOB_OK : MOB_EPROTO;
    mob_status_t status =
        node_environment_add(job, part->bytes, part->size, part->about.name, &number);
    if (status == MOB_OK) (void)vec_push(&job->pools.items[number]->told, peer);
    return status;
}

static mob_status_t piece_take(node_cluster_t *c, uint64_t peer, bool is_environment,
                               base_reader_t *r) {
    node_jobpart_t *part;
    mob_status_t status = node_jobpieces_take(c, peer, is_environment, r, &part);
    if (status != MOB_OK || part->size < part->about.total) return status;
    size_t before = part->size - part->last;
    status = is_environment ? environment_take(c, peer, part) : setup_take(c, peer, part);
    if (status == MOB_ENOMEM)
        part->size = before; /* its last piece comes again */
    else
        node_jobpieces_drop(c, peer);
    return status;
}

mob_status_t node_guestjob_receive(node_cluster_t *c, uint64_t peer, const void *bytes,
                                   size_t size) {
    base_reader_t r = {.at = bytes, .left = size};
    base_fail_clear();
    switch (node_jobpost_kind(&r)) {
    case JOBPOST_SETUP:
        return piece_take(c, peer, false, &r);
    case JOBPOST_ENVIRONMENT:
        return piece_take(c, peer, true, &r);
    case JOBPOST_ENDS:
        return ends_take(c, peer, &r);
    case JOBPOST_PRINT:
        return node_output_receive(c, peer, &r);
    case JOBPOST_OVER:
        return over_take(c, peer, &r);
    case JOBPOST_WANT:
        return node_package_asked(c, peer, &r);
    case JOBPOST_PACKAGE:
        return node_package_came(c, peer, &r);
    }
    return base_fail(MOB_EPROTO, "a message about a job is of no kind");
}

/* ---- a death ---- */

void node_guestjob_died(node_cluster_t *c, uint64_t peer) {
    guests_end(c, peer, true);
    free(base_map_remove(&c->guestjobs.homes, &peer));
    node_jobpieces_drop(c, peer);
    node_packages_died(c, peer);
    NODE_EACH_JOB(c->node, job) {
        NODE_EACH_POOL(job, pool)(void) told_forget(&pool->told, peer);
        over_note(job, peer);
    }
}
