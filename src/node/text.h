/* What workers print, on its way to their job's driver; and what the daemon itself has to say
 * there. */
#ifndef NODE_TEXT_H
#define NODE_TEXT_H

#include <uv.h>

#include "node/types.h"

/* A name for people to read, with its zero; longer ones are cut. */
enum { NODE_NAME_BYTES = 256 };

/* What a process prints on one stream. */
typedef struct node_stream {
    node_client_t *client;
    uv_poll_t poll;
    int fd;    /* -1: never opened. Open until libuv has let go of it: its number must not be used
                  again before */
    bool live; /* not yet ended */
    int kind;  /* mob_message_kind_t */
    char name[NODE_NAME_BYTES];                          /* of the task that prints */
    bool announced;                                      /* by a mark in the stream */
    bool looked;                                         /* or looked up, for what was read last */
    enum { NODE_TEXT, NODE_MARK, NODE_MARK_NAME } place; /* how far into a mark the bytes are */
    char mark[NODE_NAME_BYTES];                          /* the name in it, so far */
    size_t mark_size;
    VEC(char) line;  /* not sent yet */
    bool open;       /* the line that was sent last goes on */
    uint64_t due_ms; /* when `line` is sent, ended or not; 0: when more of it comes */
    size_t seen;     /* its size when that was last put off */
    bool paused;     /* the driver does not read: neither does the daemon */
} node_stream_t;

/* Text on its way to a driver. All of it is borrowed. */
typedef struct node_print {
    int kind; /* mob_message_kind_t */
    int pid;
    const char *name;    /* of the task; "": unknown */
    const char *address; /* of the node that it comes from; NULL: this one */
    const char *text;    /* lines, as mob_message_t has them */
    size_t size;
    bool unfinished; /* the last line has no end yet */
} node_print_t;

typedef struct {
    uv_timer_t timer; /* runs while a line has no end */
    size_t bytes;     /* of all lines that are not sent yet */
} node_texts_t;

/* At the start, before the first stream is opened. */
mob_status_t node_streams_start(node_t *node);
/* Takes the descriptor, also if it fails: it goes with the client. */
mob_status_t node_stream_open(node_client_t *client, node_stream_t *stream, int fd, int kind);
/* Reads and sends what is left, and ends its last line. Does nothing for a stream that was never
 * opened. */
void node_stream_close(node_stream_t *stream);
/* Reads what a process has printed until now, while the books still say what it runs. */
void node_streams_read(node_client_t *client);
/* Its driver asked for the rest. It gets that as soon as the objects are freed that it dropped
 * before, for there may be errors among them to tell of. */
void node_streams_end(node_job_t *job);
/* After each reading of the rings. */
void node_streams_settle(node_t *node);
/* Whole lines that the driver prints under a name and process; of the kind mob_message_kind_t. */
void node_text_send(const node_job_t *job, int kind, int pid, const char *name, const char *text,
                    size_t size);
/* Sends it to the job's driver, wherever that is. */
void node_print_send(const node_job_t *job, const node_print_t *print);
/* Whether anybody is told of what happens in the job; and takes more now, if at most `most` bytes
 * wait for a driver that is here. */
bool node_job_is_heard(const node_job_t *job);
bool node_job_has_room(const node_job_t *job, size_t most);
/* Beyond this many bytes that wait for a driver, its workers' output is not read. */
enum { NODE_OUTBOX_HIGH = 4 << 20 };
/* The driver reads again. */
void node_streams_resume(node_client_t *driver);
/* There is room again on the way to the driver of a guest job. */
void node_job_resume(const node_job_t *guest);
/* Tells the job's driver, in whole lines. Cut at about 1 KiB. */
void node_job_warn(const node_job_t *job, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Tells every driver. */
void node_warn(node_t *node, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
