/* FRAME_DONE: how a run ended on the node that a task was sent to. */
#ifndef FRAME_DONE_H
#define FRAME_DONE_H

#include "frame/frame.h"

typedef enum {
    FRAME_RESULTS = 1, /* it ran: these are its results, values or errors */
    FRAME_DIED,        /* its worker died */
    FRAME_RAISED,      /* it raised, and asks to be run again */
    FRAME_CANCELLED,   /* it was cancelled */
    FRAME_REFUSED,     /* it was not begun, and will not be there */
} frame_end_t;

enum { FRAME_VALUE_MOST = 64 << 10, FRAME_TEXT_MOST = 64 << 10 };

/* A result, with the references inside it. A small one lies in the message. A larger one stays on
 * its node, under the id `at`, until that is dropped. */
typedef struct {
    frame_id_t at;         /* all zero: it lies in the message */
    uint8_t format, error; /* mob_format_t, mob_status_t */
    const uint8_t *bytes;
    size_t size;           /* 0 for one that stays */
    uint64_t stayed_bytes; /* how large one is that stays */
    uint64_t pulled_bytes; /* and how much comes when it is fetched */
    frame_id_t *refs;
    uint32_t num_refs;
} frame_value_t;

typedef struct {
    frame_end_t end;
    frame_value_t *values; /* of RESULTS, one a result */
    uint32_t num_values;
    bool begun;          /* DIED, CANCELLED: it had begun */
    bool oom, oom_again; /* DIED: as control_death_t's */
    int32_t pid;         /* DIED: the worker's */
    uint8_t status;   /* mob_status_t. REFUSED: why; DIED, of an actor: MOB_ECANCELLED if it ended
                         by itself, on purpose */
    const char *text; /* DIED: how; RAISED: what; REFUSED: why. Not ended by 0 */
    size_t text_size;
} frame_done_t;

/* The body of a message, to be freed. MOB_EINVAL: more than a message may say; MOB_ENOMEM. */
mob_status_t frame_done_write(const frame_done_t *done, uint8_t **ret_bytes, size_t *ret_size);
/* What the body says. Values and text lie in the bytes, which must stay. MOB_EPROTO, MOB_ENOMEM. */
mob_status_t frame_done_read(const uint8_t *bytes, size_t size, frame_done_t *ret_done);
/* Frees what frame_done_read has made. */
void frame_done_fini(frame_done_t *done);

#endif
