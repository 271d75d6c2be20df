/*
 * What the workers of a guest job print, and what its node has to say to the job's driver: from
 * there to the job's home, and from the home to the driver.
 *
 * Bounded: while the link to the home is full, the workers' output is not read, so that they wait
 * in their print. What can't wait (the last words of a process, warnings) is left out then, and so
 * is what comes home while the driver does not read; how many lines those were is told.
 */
#ifndef NODE_CLUSTER_OUTPUT_H
#define NODE_CLUSTER_OUTPUT_H

#include "base/bytes.h"
#include "node/types.h"

typedef struct node_print node_print_t;

/* A job's. */
typedef struct {
    uint64_t left_out; /* lines that nobody was told of */
    bool held;         /* output of its workers is not read: the link was full */
} node_output_t;

/* Text of at most a packet's size of a guest job, to its home. */
void node_output_send(node_job_t *guest, const node_print_t *print);
/* Whether the link to the guest job's home takes more. */
bool node_output_has_room(const node_job_t *guest);
/* A PRINT of that peer, without its kind. MOB_EPROTO. */
mob_status_t node_output_receive(node_cluster_t *cluster, uint64_t peer, base_reader_t *reader);
/* Once a round: reads on what was held, and tells what was left out. */
void node_outputs_settle(node_cluster_t *cluster);

#endif
