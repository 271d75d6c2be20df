/*
 * What the control state decides about groups. Each script is one step; script.c has the layout of
 * the keys. Arguments are numbers of 8 bytes unless it says else; an id has 20 bytes, an answer
 * begins with a byte of group_answer_t. All but `say` begin with the master that the asker knows
 * to have settled, and decide nothing on another one.
 */
#ifndef GROUP_SCRIPT_H
#define GROUP_SCRIPT_H

#include "base/bytes.h"
#include "control/script.h"

typedef enum {
    GROUP_SAID_UNSETTLED = 0, /* nothing was done: not all nodes have said their facts */
    GROUP_SAID_OK,
    GROUP_SAID_COMMITTED,
    GROUP_SAID_ABORTED,
    GROUP_SAID_ABSENT, /* there is no such group, or name */
    GROUP_SAID_REMOVED,
    GROUP_SAID_TAKEN,  /* another group has the name */
    GROUP_SAID_ENDED,  /* its job has ended */
    GROUP_SAID_FENCED, /* there is a newer leader */
    GROUP_SAID_BROKEN, /* a value makes no sense */
} group_answer_t;

typedef enum { GROUP_RECORD_LIVE = 1, GROUP_RECORD_REMOVED, GROUP_RECORD_SAID } group_record_t;

enum {
    GROUP_ID_SIZE = 20,
    GROUP_NAME_HASH = 16,
    GROUP_CHUNK = 160,      /* bundles whose places are in one key */
    GROUP_PLACE_SIZE = 24,  /* of a bundle: node, fence, attempt */
    GROUP_RECORD_HEAD = 69, /* of a record, before the spec */
};

/* id, hash of the name (all zero: none), then the spec.
 * -> OK, number; TAKEN; ENDED; REMOVED. */
size_t group_script_create(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer);
/* fence, leader, id, attempt, `late` as it was read, then what is placed: ranges of 4 bytes first,
 * 4 bytes count, node. After a loss of writes it writes those places again that are missing.
 * -> COMMITTED, ABORTED, ABSENT, FENCED. */
size_t group_script_commit(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer);
/* id, fence, attempt, node, then its ranges of 4 and 4 bytes. Writes ABORTED where nothing was
 * decided. -> COMMITTED, fence, leader: the newest that has read records; ABORTED; ABSENT. */
size_t group_script_decide(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer);
/* id. -> REMOVED, fence, leader: the newest that has read records; or ABSENT. */
size_t group_script_remove(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer);
/* fence, leader, id. -> OK, FENCED. */
size_t group_script_forget(const script_keys_t *keys, const void *arguments, size_t size,
                           void *answer);
/* fence, leader, two texts with their zeros: what a key begins with, and after which one.
 * -> OK, 1 byte whether there are more, then each: the key with its zero, 1 byte whether its job
 * has ended, 2 bytes size, the value; or FENCED. */
size_t group_script_list(const script_keys_t *keys, const void *arguments, size_t size,
                         void *answer);
/* hash of a name -> OK, id; or ABSENT. */
size_t group_script_find(const script_keys_t *keys, const void *arguments, size_t size,
                         void *answer);
/* job: 8 and 4 bytes -> OK. */
size_t group_script_job_end(const script_keys_t *keys, const void *arguments, size_t size,
                            void *answer);

/* What a node says again to a new master. First that master: what comes to a later one, because it
 * was asked again and again, is nothing. Then facts: a byte of group_fact_t, and what follows it.
 * -> OK. */
typedef enum {
    GROUP_FACT_LEADER = 1, /* fence, leader */
    GROUP_FACT_GROUP,      /* id, number, hash of the name, 2 bytes size, spec */
    GROUP_FACT_HELD,       /* id, fence, attempt, node, 2 bytes count, ranges */
    GROUP_FACT_REMOVED,    /* id */
    GROUP_FACT_ABORTED,    /* id, fence, attempt */
    GROUP_FACT_ENDED,      /* job: 8 and 4 bytes */
} group_fact_t;
size_t group_script_say(const script_keys_t *keys, const void *arguments, size_t size,
                        void *answer);

#define GROUP_PREFIX "group/r/"
/* The key of a group's record; chunk below 0: of its head. */
void group_script_key(const uint8_t *id, int chunk, char ret_key[SCRIPT_KEY_MAX]);

#endif
