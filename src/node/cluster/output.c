#include "node/cluster/output.h"

#include <string.h>

#include "node/cluster/cluster.h"
#include "node/cluster/jobpost.h"
#include "node/state.h"

static uint64_t lines_of(const node_print_t *p) {
    uint64_t lines = 1;
    for (size_t i = 0; i < p->size; i++) lines += p->text[i] == '\n';
    return lines;
}

/* ---- at the guest ---- */

bool node_output_has_room(const node_job_t *guest) {
    node_cluster_t *c = guest->node->cluster;
    return c == NULL || node_post_has_room(c, guest->origin.home);
}

void node_output_send(node_job_t *guest, const node_print_t *p) {
    node_cluster_t *c = guest->node->cluster;
    uint8_t bytes[JOBPOST_HEAD_MAX + NODE_NAME_BYTES];
    if (c == NULL) return; /* the node has left: nobody is told anything more */
    size_t size = node_jobprint_head(guest->origin, p, bytes), name_size = strlen(p->name) + 1;
    memcpy(bytes + size, p->name, name_size);
    node_letter_parts_t parts = {
        .head = bytes, .head_size = size + name_size, .body = p->text, .body_size = p->size};
    mob_status_t status = node_post_send(c, guest->origin.home, POST_JOB, &parts, false);
    if (status != MOB_OK && status != MOB_ECLOSED) guest->output.left_out += lines_of(p);
}

/* ---- at home ---- */

static node_job_t *own_job(node_t *n, frame_job_t id) {
    NODE_EACH_JOB(n, job)
    if (!job->is_guest && job->number == id.number && id.home == n->incarnation) return job;
    return NULL;
}

mob_status_t node_output_receive(node_cluster_t *c, uint64_t peer, base_reader_t *r) {
    frame_job_t id;
    node_print_t print;
    if (!node_jobprint_read(r, &id, &print))
        return base_fail(MOB_EPROTO, "what a job's worker printed makes no sense");
    node_job_t *job = own_job(c->node, id);
    if (job == NULL || !node_job_is_heard(job)) return MOB_OK; /* it has ended meanwhile */
    const node_row_t *row = node_roster_find(&c->roster, peer);
    print.address = row != NULL ? row->host : NULL;
    if (node_job_has_room(job, NODE_OUTBOX_HIGH))
        node_print_send(job, &print);
    else
        job->output.left_out += lines_of(&print);
    return MOB_OK;
}

/* ---- both ---- */

static void left_out_tell(node_job_t *job) {
    uint64_t lines = job->output.left_out;
    job->output.left_out = 0;
    if (job->is_guest)
        node_job_warn(job,
                      "%llu lines of output were left out: the link to the driver's node was full.",
                      (unsigned long long)lines);
    else
        node_job_warn(job,
                      "%llu lines of output of other nodes were left out: this program did not "
                      "read what came.",
                      (unsigned long long)lines);
}

void node_outputs_settle(node_cluster_t *c) {
    NODE_EACH_JOB(c->node, job) {
        node_output_t *o = &job->output;
        if ((o->left_out == 0 && !o->held) || !node_job_has_room(job, NODE_OUTBOX_HIGH)) continue;
        if (o->held && job->is_guest) node_job_resume(job); /* a driver that reads does it itself */
        o->held = false;
        if (o->left_out > 0) left_out_tell(job);
    }
}
