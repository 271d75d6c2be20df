#include "node/cluster/jobpost.h"

#include <string.h>

#include "shm/lane.h"
#include "wire/setup.h"

/* ---- writing ---- */

static base_writer_t begin(uint8_t *head, node_jobpost_kind_t kind) {
    base_writer_t w = {.bytes = head};
    base_put_number(&w, kind, 1);
    return w;
}

static void put_job(base_writer_t *w, frame_job_t job) {
    base_put_number(w, job.home, 8);
    base_put_number(w, job.number, 4);
}

size_t node_jobpiece_head(bool is_environment, const node_jobpiece_t *p,
                          uint8_t head[JOBPOST_HEAD_MAX]) {
    base_writer_t w = begin(head, is_environment ? JOBPOST_ENVIRONMENT : JOBPOST_SETUP);
    put_job(&w, p->job);
    if (is_environment)
        base_put_bytes(&w, p->name, sizeof p->name);
    else
        base_put_number(&w, p->shown, 4);
    base_put_number(&w, p->total, 4);
    base_put_number(&w, p->offset, 4);
    return w.size;
}

size_t node_jobends_head(const node_jobends_t *ends, uint8_t head[JOBPOST_HEAD_MAX]) {
    base_writer_t w = begin(head, JOBPOST_ENDS);
    base_put_number(&w, ends->made, 4);
    base_put_number(&w, ends->count, 4);
    return w.size;
}

size_t node_jobprint_head(frame_job_t job, const node_print_t *p, uint8_t head[JOBPOST_HEAD_MAX]) {
    base_writer_t w = begin(head, JOBPOST_PRINT);
    put_job(&w, job);
    base_put_number(&w, (uint64_t)p->kind, 1);
    base_put_number(&w, p->unfinished, 1);
    base_put_number(&w, (uint32_t)p->pid, 4);
    base_put_number(&w, strlen(p->name) + 1, 2);
    return w.size;
}

size_t node_jobover_head(frame_job_t job, uint8_t head[JOBPOST_HEAD_MAX]) {
    base_writer_t w = begin(head, JOBPOST_OVER);
    put_job(&w, job);
    return w.size;
}

/* ---- reading ---- */

node_jobpost_kind_t node_jobpost_kind(base_reader_t *r) {
    uint64_t kind = base_take_number(r, 1);
    return kind <= JOBPOST_PACKAGE ? (node_jobpost_kind_t)kind : 0;
}

static frame_job_t take_job(base_reader_t *r) {
    frame_job_t job = {.home = base_take_number(r, 8)};
    job.number = (uint32_t)base_take_number(r, 4);
    return job;
}

/* What follows is not empty, and lies within what was promised. */
bool node_jobpiece_read(bool is_environment, base_reader_t *r, node_jobpiece_t *ret_piece) {
    node_jobpiece_t p = {.job = take_job(r)};
    if (is_environment) {
        const void *name = base_take_bytes(r, sizeof p.name);
        if (name != NULL) memcpy(p.name, name, sizeof p.name);
    } else {
        p.shown = (uint32_t)base_take_number(r, 4);
    }
    p.total = (uint32_t)base_take_number(r, 4);
    p.offset = (uint32_t)base_take_number(r, 4);
    p.bytes = r->at;
    p.size = r->left;
    if (r->short_of || p.job.home == 0 || p.job.number == 0 || p.total > WIRE_SETUP_MAX ||
        p.offset > p.total || p.size == 0 || p.size > p.total - p.offset)
        return false;
    *ret_piece = p;
    return true;
}

bool node_jobends_read(base_reader_t *r, node_jobends_t *ret_ends) {
    node_jobends_t ends = {.made = (uint32_t)base_take_number(r, 4)};
    ends.count = (uint32_t)base_take_number(r, 4);
    if (ends.count > SHM_JOBS) return false;
    ends.living = base_take_bytes(r, (size_t)ends.count * 4);
    if (!base_reader_is_done(r)) return false;
    *ret_ends = ends;
    return true;
}

bool node_jobprint_read(base_reader_t *r, frame_job_t *ret_job, node_print_t *ret_print) {
    frame_job_t job = take_job(r);
    node_print_t p = {.kind = (int)base_take_number(r, 1)};
    uint64_t unfinished = base_take_number(r, 1);
    p.pid = (int32_t)(uint32_t)base_take_number(r, 4);
    size_t name_size = base_take_number(r, 2);
    p.name = base_take_bytes(r, name_size);
    p.unfinished = unfinished == 1;
    p.text = (const char *)r->at;
    p.size = r->left;
    if (r->short_of || p.kind > MOB_MESSAGE_UNHANDLED || unfinished > 1 || name_size == 0 ||
        name_size > NODE_NAME_BYTES || memchr(p.name, 0, name_size) != p.name + name_size - 1)
        return false;
    *ret_job = job;
    *ret_print = p;
    return true;
}

bool node_jobover_read(base_reader_t *r, frame_job_t *ret_job) {
    frame_job_t job = take_job(r);
    if (!base_reader_is_done(r)) return false;
    *ret_job = job;
    return true;
}

uint32_t node_jobends_at(const node_jobends_t *ends, size_t index) {
    base_reader_t r = {.at = ends->living + index * 4, .left = 4};
    return (uint32_t)base_take_number(&r, 4);
}
