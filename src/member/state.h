/*
 * What of membership lies in the control state, and how scripts read and write it. Every value is a
 * number of words of 64 bits, little-endian; some have bytes behind them.
 *
 *     m/era          era, copy, the cluster's id (2)     which state this is; copy: keys->master
 *     m/settled      era                                 that everybody has said his facts to
 *     m/count        the last number that was given out
 *     m/tail         the last tombstone
 *     m/struck       K
 *     m/fence        the highest fencing number that is known
 *     m/lead         holder, fence                       goes after a lease
 *     m/condemned    incarnation
 *     m/n/<inc>      record_t                            a member
 *     m/a/<inc>      number, then its blob
 *     m/l/<inc>      1                                   its lease
 *     m/j/<stamp>    incarnation                         members in the order of their coming
 *     m/t/<number>   incarnation, closed, time           tombstones; time: when, by keys->now_ms
 *     m/d/<inc>      number                              the same, by incarnation
 */
#ifndef MEMBER_STATE_H
#define MEMBER_STATE_H

#include "base/bytes.h"
#include "member/member.h"

enum { STATE_BEHIND_MAX = 64 }; /* words of a value, at most */

typedef struct {
    const script_keys_t *keys;
    char poisoned[SCRIPT_KEY_MAX]; /* the first key with a value that makes no sense; "": none */
} state_t;

typedef struct {
    uint64_t number;    /* of its registration */
    uint64_t stamp;     /* its place in m/j */
    uint64_t era;       /* of its last renewal */
    uint64_t sequence;  /* the same */
    uint64_t since_ms;  /* its renewals were answered without a gap since then */
    uint64_t echo_ms;   /* when the last one ran that it knows to be answered */
    uint64_t said;      /* era that it has said its facts to */
    uint64_t closed;    /* number */
    uint64_t condemned; /* 1: its renewals are refused */
    uint64_t witness_count, witnesses[MEMBER_WITNESSES];
    uint64_t complaint_count, complaints[MEMBER_COMPLAINTS];
} record_t;

enum { RECORD_WORDS = sizeof(record_t) / sizeof(uint64_t) };

typedef struct {
    uint64_t era, copy, cluster[2];
} era_t;

typedef struct {
    uint64_t incarnation, closed, at_ms;
} stone_t;

/* A key with a number in it, so that the order of the keys is that of the numbers. */
typedef struct {
    char text[SCRIPT_KEY_MAX];
} state_key_t;
state_key_t state_key(const char *prefix, uint64_t number);
/* The number in a key of that prefix. */
uint64_t state_key_number(const char *prefix, const char *key);

/* Reads `count` words. False: there is no such key, or it is poisoned, which `s` remembers. */
bool state_get(state_t *s, const char *key, uint64_t *ret_words, size_t count);
uint64_t state_get_one(state_t *s, const char *key); /* 0 if there is none */
void state_set(state_t *s, const char *key, const uint64_t *words, size_t count, uint64_t ttl_ms);
void state_set_one(state_t *s, const char *key, uint64_t word);

bool state_record(state_t *s, uint64_t incarnation, record_t *ret_record);
void state_record_set(state_t *s, uint64_t incarnation, const record_t *record);
bool state_has_lease(state_t *s, uint64_t incarnation);
bool state_stone(state_t *s, uint64_t number, stone_t *ret_stone);
uint64_t state_tombstone(state_t *s, uint64_t incarnation); /* its number, or 0 */
bool state_is_settled(state_t *s, uint64_t era);

/* A number above all that were given out and not below the clock: an acknowledged one may be gone
 * after a fail-over. */
uint64_t state_mint(state_t *s);
/* No number up to this one will be given out. */
void state_count_raise(state_t *s, uint64_t number);
/* Adds a member, unless it is there or dead. */
void state_member_add(state_t *s, uint64_t incarnation, uint64_t number, const record_t *record,
                      const void *blob, size_t size);
/* Adds a tombstone behind all others, and takes the member out. */
void state_bury(state_t *s, uint64_t incarnation, uint64_t number, uint64_t closed);

/* ---- answers: a status, then words ---- */

/* The answer's writer, with its status. */
base_writer_t state_answer(void *answer, uint64_t status);
/* Its size; or, if a value made no sense, the answer is that. */
size_t state_end(const state_t *s, base_writer_t *w);

#endif
