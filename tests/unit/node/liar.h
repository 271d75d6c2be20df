/*
 * What peers say in a normal run, for test_liar.c: three daemons' books with all rooms, and a
 * record of all that B and C say to A. Of what a daemon alone does not say, as answers of workers
 * that are not there, messages are written as their rooms write them.
 */
#ifndef TESTS_NODE_LIAR_H
#define TESTS_NODE_LIAR_H

#define NODES_STORE (96 * SHM_GRANULE)
#include "nodes.h"

#include <stdio.h>

#include "../random.h"
#include "actor/facts.h"
#include "actor/message.h"
#include "frame/done.h"
#include "frame/id.h"
#include "net/token.h"
#include "node/cluster/actor_name.h"
#include "node/cluster/guest.h"
#include "node/cluster/inflow.h"
#include "node/cluster/jobpost.h"
#include "node/cluster/outflow.h"
#include "place/message.h"
#include "shm/sealed.h"

enum { SAMPLES = 4096, OWN = 8, TASKS = 6 };

/* What was said to A, in full. */
typedef struct {
    size_t size;
    uint8_t *bytes;
} sample_t;

static sample_t samples[SAMPLES];
static size_t sample_count;
static frame_id_t known[64]; /* ids that may be worth a lie */
static size_t known_count;
static char folders[NODES][64];
static mob_ref_t own[OWN];
static uint32_t tasks[TASKS];
static mob_ref_t results[TASKS];
static frame_id_t actor;                             /* of A's */
static struct { uint64_t record, run; } sent[TASKS]; /* of A's tasks, which nobody answers */
static size_t sent_count;

/* ---- in the place of the mesh, of the room member and of the control state ---- */

void __wrap_mesh_processed(mesh_t *mesh, uint64_t peer, size_t size);
void __wrap_mesh_processed(mesh_t *mesh, uint64_t peer, size_t size) {
    (void)mesh, (void)peer, (void)size;
}
bool __wrap_mesh_has_room(mesh_t *mesh, uint64_t peer);
bool __wrap_mesh_has_room(mesh_t *mesh, uint64_t peer) {
    (void)mesh, (void)peer;
    return true;
}
mob_status_t __wrap_member_receive(member_t *member, uint64_t now_ns, uint64_t peer,
                                   const void *bytes, size_t size);
mob_status_t __wrap_member_receive(member_t *member, uint64_t now_ns, uint64_t peer,
                                   const void *bytes, size_t size) {
    (void)member, (void)now_ns, (void)peer, (void)bytes, (void)size;
    return MOB_OK; /* it has a test like this of its own */
}
mob_status_t __wrap_member_pulse_read(member_t *member, uint64_t now_ns, uint64_t peer,
                                      const void *bytes, size_t size);
mob_status_t __wrap_member_pulse_read(member_t *member, uint64_t now_ns, uint64_t peer,
                                      const void *bytes, size_t size) {
    (void)member, (void)now_ns, (void)peer, (void)bytes, (void)size;
    return MOB_OK;
}
void __wrap_member_said(member_t *member, uint64_t master);
void __wrap_member_said(member_t *member, uint64_t master) { (void)member, (void)master; }
mob_status_t __wrap_node_cluster_ask(node_cluster_t *c, script_fn script, const void *arguments,
                                     size_t size, redis_reply_fn reply, void *context);
mob_status_t __wrap_node_cluster_ask(node_cluster_t *c, script_fn script, const void *arguments,
                                     size_t size, redis_reply_fn reply, void *context) {
    (void)c, (void)script, (void)arguments, (void)size, (void)reply, (void)context;
    return MOB_ECLOSED; /* Redis is away */
}

/* ---- daemons with all rooms ---- */

static mob_ref_t put_own(daemon_t *d, int i) { return put(d, i % 2 ? 70000 : 10); }

/* A job as a driver brings one. */
static node_job_t *job_new(node_t *n) {
    static const char *const argv[] = {"/no/such/python3", NULL};
    static const char *const env[] = {"MINE=1", NULL}, *const none[] = {NULL};
    wire_setup_t given = {.folder = "/no/such/folder",
                          .name_space = "space",
                          .entrypoint = "x",
                          .argv = argv,
                          .env = env,
                          .preload = none,
                          .log_to_driver = true};
    size_t size = wire_setup_size(&given);
    char *bytes = malloc(size);
    int fd;
    node_setup_t *setup;
    node_job_t *job;
    wire_setup_write(&given, bytes);
    assert_int_equal(shm_sealed_make("test", bytes, size, &fd), MOB_OK);
    free(bytes);
    assert_int_equal(node_setup_new(n, fd, &setup), MOB_OK);
    setup->zygote.pid = INT_MAX; /* one is on its way */
    assert_int_equal(node_job_new(n, setup, &job), MOB_OK);
    return job;
}

static void part_take(daemon_t *d) {
    node_t *n = d->n;
    node_cluster_t *c = n->cluster;
    int i = place_of(d);
    c->log_fd = -1;
    c->id[0] = 7;
    c->state = CLUSTER_MEMBER;
    snprintf(c->host, sizeof c->host, "127.0.0.1");
    n->config.stays = true;
    snprintf(folders[i], sizeof folders[i], "/tmp/test-liar-XXXXXX");
    n->session.dir = mkdtemp(folders[i]);
    assert_int_equal(net_secret_of("a token", 7, &c->secret), MOB_OK);
    node_guestjobs_start(c);
    node_outflows_start(c);
    assert_int_equal(node_pulling_start(c), MOB_OK);
    assert_int_equal(node_placing_start(c), MOB_OK);
    assert_int_equal(node_acting_start(c), MOB_OK);
    assert_int_equal(node_grouping_start(c), MOB_OK);
    node_placing_leads(c, A->n->incarnation, 1);
    node_acting_leads(c, A->n->incarnation);
}

static void meet(daemon_t *d, daemon_t *other) {
    node_cluster_t *c = d->n->cluster;
    uint64_t peer = other->n->incarnation;
    uint8_t *card;
    size_t size;
    assert_int_equal(node_roster_card(other->n, 512, &card, &size), MOB_OK);
    assert_int_equal(node_roster_add(&c->roster, peer, card, size), MOB_OK);
    free(card);
    assert_int_equal(node_pulling_peer(c, peer, "127.0.0.1", 1), MOB_OK);
    node_guestjob_joined(c, peer);
    node_placing_joined(c, peer);
}

static void all_settle(daemon_t *d) {
    node_t *n = d->n;
    uv_run(&n->loop, UV_RUN_NOWAIT);
    n->round++;
    size_t settled = n->zero.count;
    node_inbox_read(n);
    node_objects_sweep(n, settled);
    node_jobs_settle(n);
    node_guestjobs_settle(n->cluster);
    node_pulling_settle(n->cluster);
    node_outflows_settle(n->cluster);
    node_inflows_settle(n->cluster);
    node_groups_settle(n);
    node_grouping_settle(n->cluster);
    node_acting_settle(n->cluster);
    node_placing_settle(n->cluster);
    node_holding_settle(n->cluster);
    node_schedule(n);
}

/* ---- the record ---- */

static void sample_add(node_post_t kind, const void *bytes, size_t size) {
    if (sample_count == SAMPLES) return;
    sample_t s = {.size = size + 1, .bytes = malloc(size + 1)};
    s.bytes[0] = (uint8_t)kind;
    if (size > 0) memcpy(s.bytes + 1, bytes, size);
    samples[sample_count++] = s;
}

static void known_add(frame_id_t id) {
    if (known_count < sizeof known / sizeof *known) known[known_count++] = id;
}

/* A task of A's on its way: the other one never hears of it. */
static bool is_kept_back(const daemon_t *from, const letter_t *l) {
    base_reader_t r = {.at = l->bytes, .left = l->size};
    if (from != A || l->kind != POST_PLACE || base_take_number(&r, 1) != MESSAGE_TASK ||
        sent_count == TASKS)
        return false;
    sent[sent_count].record = base_take_number(&r, 4);
    sent[sent_count++].run = base_take_number(&r, 8);
    return true;
}

/* The oldest message from one to the other, as the mesh brings it. */
static bool bring(daemon_t *from, daemon_t *to) {
    letter_t *l = from->out[place_of(to)];
    if (l == NULL) return false;
    if (to == A) sample_add(l->kind, l->bytes, l->size);
    if (is_kept_back(from, l)) {
        from->out[place_of(to)] = l->next;
        free(l);
        return true;
    }
    uint8_t *bytes = malloc(l->size + 1);
    bytes[0] = (uint8_t)l->kind;
    memcpy(bytes + 1, l->bytes, l->size);
    bool done =
        node_post_receive(to->n->cluster, from->n->incarnation, l->sequence, bytes, l->size + 1);
    free(bytes);
    if (!done) return false;
    from->out[place_of(to)] = l->next;
    free(l);
    return true;
}

static void turns(int count) {
    for (int turn = 0; turn < count; turn++) {
        for (int i = 0; i < NODES; i++) all_settle(&daemons[i]);
        for (int i = 0; i < NODES; i++)
            for (int k = 0; k < NODES; k++)
                while (k != i && bring(&daemons[i], &daemons[k])) {
                }
        usleep(200);
    }
}

/* ---- what is said in a normal run ---- */

static uint32_t task_submit(daemon_t *d, mob_kind_t kind, uint32_t record, mob_ref_t dep,
                            mob_ref_t *ret) {
    node_t *n = d->n;
    uint64_t cpus = kind == MOB_TASK ? 4 : 1;
    sched_amount_t demand = {.name = "CPU", .amount = cpus * SCHED_UNIT};
    *ret = slot_open_by(d);
    wire_record_t *r = fixture_record_fill(n, record, kind, *ret, dep, 1);
    fixture_record_publish(r, true);
    assert_int_equal(sched_shape_intern(JOB(n)->sched, &demand, 1, &r->shape), MOB_OK);
    fixture_say(d->client, WIRE_SUBMIT, record, wire_word_generation(atomic_load(&r->word)));
    return record;
}

static uint32_t records_granted(daemon_t *d) {
    node_grant_records(d->client, WIRE_RECORD_BLOCK);
    wire_message_t m;
    do m = fixture_heard(d->client);
    while (m.kind != 0 && m.kind != WIRE_RECORDS);
    return m.grant.first;
}

static frame_job_t job_of(const daemon_t *d) { return node_guestjob_id(d->n->jobs.items.items[1]); }

/* One that is often not thought of. */
static const uint64_t NUMBERS[] = {0,          1,         2,         3,         255,   1000,
                                   1001,       1002,      4096,      4097,      65535, 65536,
                                   UINT32_MAX, INT32_MAX, INT64_MAX, UINT64_MAX};

static uint64_t odd_number(void) {
    return NUMBERS[next_random() % (sizeof NUMBERS / sizeof *NUMBERS)];
}

/* Half of those who write amounts lie about them. */
static uint64_t amount(void) { return next_random() % 2 ? SCHED_UNIT : odd_number(); }

#include "liar_frames.h"

/* What goes along with an actor's message, behind its references. */
static void freight_put(base_writer_t *w, int kind) {
    uint8_t *bytes = NULL;
    size_t size = 0, head = kind == MESSAGE_CREATE ? NODE_GUEST_HEAD : 0;
    if (kind == MESSAGE_CREATE) size = frame_of(MOB_ACTOR_CREATE, false, &bytes);
    if (kind == MESSAGE_MADE) size = done_of(FRAME_RESULTS, &bytes);
    if (kind == MESSAGE_ENDED || kind == MESSAGE_DEAD) size = done_of(FRAME_DIED, &bytes);
    base_put_number(w, head + size, 4);
    if (head > 0) base_put_number(w, 0, head);
    base_put_bytes(w, bytes, size);
    free(bytes);
}

static void body_put(base_writer_t *w, int kind) {
    uint8_t *bytes = NULL;
    size_t size = kind == MESSAGE_CALL ? frame_of(MOB_ACTOR_CALL, next_random() % 2, &bytes)
                                       : done_of(FRAME_RESULTS, &bytes);
    if (kind == MESSAGE_CALL) base_put_number(w, 7, NODE_GUEST_HEAD);
    base_put_bytes(w, bytes, size);
    free(bytes);
}

/* What follows kind, id and epoch. */
static void rest_put(base_writer_t *w, int kind, frame_id_t id, uint64_t number) {
    actor_facts_t facts = {.id = id, .epoch = 1, .node = A->n->incarnation, .limit = 1};
    switch (kind) {
    case MESSAGE_CREATE:
        actor_facts_put(w, &facts);
        break;
    case MESSAGE_ENDED:
        base_put_number(w, next_random() % 4, 2);
        break;
    case MESSAGE_END:
        base_put_number(w, ACTOR_SHOT, 1);
        break;
    case MESSAGE_ALIVE:
        base_put_number(w, B->n->incarnation, 8);
        break;
    case MESSAGE_KILL:
        base_put_number(w, number, 8);
        base_put_number(w, number % 2, 1);
        break;
    case MESSAGE_KILLED:
        base_put_number(w, number, 8);
        break;
    case MESSAGE_CALL:
        base_put_number(w, 1, 8);
        base_put_number(w, number, 8);
        body_put(w, kind);
        break;
    case MESSAGE_ANSWER:
        base_put_number(w, number, 8);
        base_put_number(w, next_random() % 3, 3);
        body_put(w, kind);
        break;
    case NODE_NAME_ASK:
    case NODE_NAME_TOLD:
        base_put_number(w, number, 8);
        base_put_bytes(w, "name\0space\0aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 40);
        break;
    default:
        break;
    }
}

/* Messages of the room actor, each kind, with what may go along. */
static void actors_say(void) {
    static const int names[] = {NODE_NAME_ASK, NODE_NAME_TOLD};
    uint8_t bytes[4096];
    for (int i = MESSAGE_CREATE; i <= MESSAGE_ANSWER + 2; i++)
        for (uint64_t number = 0; number < 4; number++) {
            int kind = i <= MESSAGE_ANSWER ? i : names[i - MESSAGE_ANSWER - 1];
            frame_id_t id = known[next_random() % known_count];
            if (kind == MESSAGE_CREATE || kind == MESSAGE_CALL) id = known[2 + number % 2 * 2];
            if (kind == MESSAGE_LOOK || kind == MESSAGE_KILL) id = actor;
            base_writer_t w = {.bytes = bytes};
            base_put_number(&w, 2, 4);
            frame_id_put(&w, known[0]);
            frame_id_put(&w, known[2]);
            freight_put(&w, kind);
            base_put_number(&w, (uint64_t)kind, 1);
            frame_id_put(&w, id);
            base_put_number(&w, 1, 8);
            rest_put(&w, kind, id, number);
            sample_add(POST_ACTOR, bytes, w.size);
        }
}

static void open_say(uint64_t lease) {
    uint8_t bytes[4096], *demand;
    size_t size;
    frame_amount_t one = {"CPU", SCHED_UNIT};
    place_demand_t d = {.job = job_of(B), .amounts = &one, .count = 1, .selector = ""};
    base_writer_t w = {.bytes = bytes};
    assert_int_equal(place_message_demand_write(&d, &demand, &size), MOB_OK);
    base_put_number(&w, MESSAGE_OPEN, 1);
    base_put_number(&w, lease, 8);
    base_put_number(&w, 4000, 4);
    base_put_number(&w, MESSAGE_QUEUES, 1);
    base_put_bytes(&w, demand, size);
    free(demand);
    sample_add(POST_PLACE, bytes, w.size);
}

static void task_say(uint64_t lease, uint64_t run) {
    uint8_t bytes[4096], *frame;
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, MESSAGE_TASK, 1);
    base_put_number(&w, run, 4);
    base_put_number(&w, run, 8);
    base_put_number(&w, lease, 8);
    base_put_number(&w, 0, 2);
    base_put_number(&w, run, NODE_GUEST_HEAD);
    size_t size = frame_of(MOB_TASK, run % 2, &frame);
    base_put_bytes(&w, frame, size);
    free(frame);
    sample_add(POST_PLACE, bytes, w.size);
}

static void done_say(uint64_t record, uint64_t run, frame_end_t end) {
    uint8_t bytes[4096], *done;
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, MESSAGE_DONE, 1);
    base_put_number(&w, record, 4);
    base_put_number(&w, run, 8);
    base_put_number(&w, PLACE_OK, 1);
    base_put_number(&w, 5, 8);
    size_t size = done_of(end, &done);
    base_put_bytes(&w, done, size);
    free(done);
    sample_add(POST_PLACE, bytes, w.size);
}

#include "liar_flows.h"
#include "liar_groups.h"

/* Tasks that come with a lease, and what is said of those that have left. */
static void places_say(void) {
    for (uint64_t lease = 1; lease <= 3; lease++) {
        open_say(100 + lease);
        for (uint64_t run = 1; run <= 4; run++) task_say(100 + lease, lease * 10 + run);
    }
    for (size_t i = 0; i < sent_count; i++)
        for (int end = FRAME_RESULTS; end <= FRAME_REFUSED; end++)
            done_say(sent[i].record, sent[i].run, (frame_end_t)end);
}

static void pulses_say(void) {
    uint8_t bytes[4096] = {0};
    size_t size = node_roster_usage_write(B->n, bytes + MEMBER_PULSE_SIZE, 512);
    sample_add(POST_PULSE, bytes, MEMBER_PULSE_SIZE + size);
    sample_add(POST_MEMBER, bytes, 40);
}

static void jobs_say(void) {
    uint8_t head[JOBPOST_HEAD_MAX + 64];
    node_print_t print = {
        .kind = MOB_MESSAGE_UNHANDLED, .name = "f", .text = "printed", .size = 7, .pid = 9};
    size_t size = node_jobprint_head(job_of(A), &print, head);
    memcpy(head + size, "f\0printed", 9);
    sample_add(POST_JOB, head, size + 9);
    sample_add(POST_JOB, head, node_jobover_head(job_of(A), head));
    base_writer_t w = {.bytes = head};
    for (int kind = JOBPOST_WANT; kind <= JOBPOST_PACKAGE; kind++) {
        w.size = 0;
        base_put_number(&w, (uint64_t)kind, 1);
        base_put_bytes(&w, "gcs://0123456789abcdef.zip\0aaaaaaaaaa", 36);
        sample_add(POST_JOB, head, w.size);
    }
}

/* Values and references go both ways, and so do tasks and what is pulled. */
static void live(void) {
    uint32_t first[NODES];
    mob_ref_t there[OWN], dep, made;
    for (int i = 0; i < NODES; i++) first[i] = records_granted(&daemons[i]);
    for (int i = 0; i < OWN; i++) own[i] = put_own(A, i);
    for (int i = 0; i < OWN; i++) {
        mob_ref_t theirs = put_own(i % 3 ? B : C, i);
        frame_id_t id = node_proxy_id(i % 3 ? B->n : C->n, theirs);
        known_add(id);
        known_add(node_proxy_id(A->n, own[i]));
        node_holding_frame_sends(i % 3 ? B->n->cluster : C->n->cluster, A->n->incarnation, 1, &id,
                                 1, NULL);
        A->n->cluster->sequence = 1;
        node_holding_frame_came(A->n->cluster, i % 3 ? B->n->incarnation : C->n->incarnation, &id,
                                1);
        A->n->cluster->sequence = 0;
        there[i] = node_frame_ref(A->n, id);
        node_object_hold(A->n, node_object_known(A->n, there[i]), A->client->number, false);
        turns(2);
    }
    dep = put(B, 10);
    (void)task_submit(A, MOB_ACTOR_CREATE, first[0] + TASKS, (mob_ref_t){0}, &made);
    actor = node_proxy_id(A->n, made);
    known_add(actor);
    for (int i = 1; i < NODES; i++)
        assert_int_equal(node_guestjob_send(daemons[i].n->cluster, A->n->incarnation,
                                            daemons[i].n->jobs.items.items[1]),
                         MOB_OK);
    for (int i = 0; i < TASKS; i++) {
        mob_ref_t result;
        tasks[i] = i % 2 ? flow_submit(A, first[0] + (uint32_t)i, 4, &results[i])
                         : task_submit(A, MOB_TASK, first[0] + (uint32_t)i, own[0], &results[i]);
        (void)task_submit(B, MOB_TASK, first[1] + (uint32_t)i, dep, &result);
        known_add(node_proxy_id(B->n, result));
    }
    for (int i = 0; i < OWN; i++) {
        wire_message_t m = {.restore = {WIRE_RESTORE, .slot = there[i].slot,
                                        .generation = there[i].generation, .waits = false}};
        assert_true(shm_ring_push(A->client->up, SHM_UP_MESSAGES, &m));
        shm_node_notify(A->n->shared, A->client->number);
    }
    turns(200);
    jobs_say();
    pulses_say();
    places_say();
    flows_say(known[4]);
    groups_say();
    actors_say();
}

#endif
