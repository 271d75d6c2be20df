/*
 * What nodes say to each other of jobs (POST_JOB), in bytes. Numbers are little-endian.
 *
 *     SETUP        a piece of a job's setup, before its first frame
 *     ENVIRONMENT  a piece of a runtime environment of it, before the first frame that names it
 *     ENDS         which of the sender's own jobs go on; the others that there were have ended
 *     PRINT        what a worker has printed, or the node has to say to the job's driver
 *     OVER         to the home of a job that ends: no worker is left here, and no PRINT follows
 *     WANT         a file of a runtime environment, from an offset: package.c
 *     PACKAGE      a piece of that file, or why there is none
 *
 * Setups may be larger than a message, so they go in pieces, one after the other without anything
 * of POST_JOB between them. A piece at 0 begins anew.
 */
#ifndef NODE_CLUSTER_JOBPOST_H
#define NODE_CLUSTER_JOBPOST_H

#include "base/bytes.h"
#include "frame/frame.h"
#include "node/cluster/post.h"
#include "node/text.h"

typedef enum {
    JOBPOST_SETUP = 1,
    JOBPOST_ENVIRONMENT,
    JOBPOST_ENDS,
    JOBPOST_PRINT,
    JOBPOST_OVER,
    JOBPOST_WANT,
    JOBPOST_PACKAGE,
} node_jobpost_kind_t;

enum { JOBPOST_PIECE = 256 << 10, JOBPOST_HEAD_MAX = 64 };

typedef struct {
    frame_job_t job;
    uint32_t shown;                  /* a setup's: the number that its processes are told */
    uint8_t name[FRAME_ENVIRONMENT]; /* an environment's */
    uint32_t total, offset;
    const void *bytes; /* borrowed */
    size_t size;
} node_jobpiece_t;

typedef struct {
    uint32_t made;         /* no number above it was given to a job yet */
    uint32_t count;        /* of those that go on */
    const uint8_t *living; /* borrowed: `count` numbers of 4 bytes */
} node_jobends_t;

/* What begins a message; `bytes` go behind it. */
size_t node_jobpiece_head(bool is_environment, const node_jobpiece_t *piece,
                          uint8_t head[JOBPOST_HEAD_MAX]);
/* The whole message, but for the numbers, which go behind it. */
size_t node_jobends_head(const node_jobends_t *ends, uint8_t head[JOBPOST_HEAD_MAX]);
/* What begins a message; the name with its zero and the text go behind it, in this order. */
size_t node_jobprint_head(frame_job_t job, const node_print_t *print,
                          uint8_t head[JOBPOST_HEAD_MAX]);

size_t node_jobover_head(frame_job_t job, uint8_t head[JOBPOST_HEAD_MAX]);

/* 0: this is no message. Takes the kind off. */
node_jobpost_kind_t node_jobpost_kind(base_reader_t *reader);
/* What follows the kind; everything is bounded. False: it makes no sense. */
bool node_jobpiece_read(bool is_environment, base_reader_t *reader, node_jobpiece_t *ret_piece);
bool node_jobends_read(base_reader_t *reader, node_jobends_t *ret_ends);
bool node_jobover_read(base_reader_t *reader, frame_job_t *ret_job);
bool node_jobprint_read(base_reader_t *reader, frame_job_t *ret_job, node_print_t *ret_print);

uint32_t node_jobends_at(const node_jobends_t *ends, size_t index);

#endif
