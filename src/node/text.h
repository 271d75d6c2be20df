/* What workers print, on its way to the driver; and what the daemon itself has to say there. */
#ifndef NODE_TEXT_H
#define NODE_TEXT_H

#include <uv.h>

#include "node/types.h"

/* What a process printed on one stream. */
typedef struct node_stream {
    node_client_t *client;
    uv_poll_t poll;
    int fd;     /* -1: never opened. Open until libuv has let go of it: its number must not be used
                   again before */
    bool live;  /* not yet ended */
    int kind;   /* mob_message_kind_t */
    char *name; /* of the task that prints, as announced in the stream */
    VEC(char) line; /* not sent yet */
    bool paused;    /* the driver does not read: neither do we */
} node_stream_t;

/* Takes the descriptor, also if it fails: it goes with the client. */
mob_status_t node_stream_open(node_client_t *client, node_stream_t *stream, int fd, int kind);
/* Reads and sends what is left. Does nothing for one that was never opened. */
void node_stream_close(node_stream_t *stream);
/* Sends what has come so far from all of them, and tells the driver that this was all. */
void node_streams_finish(node_t *node);
/* The driver reads again. */
void node_streams_resume(node_t *node);
/* A line for the driver. */
void node_warn(node_t *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
