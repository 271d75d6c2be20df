/*
 * Questions stand in a queue. One attempt is on its way at a time; it has the first questions of
 * the queue, up to BATCH. When it was written, they are answered, and the next go.
 *
 *   AWAY      no connection, or not yet: a timer tries again. With sentinels they are asked first
 *   MEETING   connected: which master is this, and what time is it?
 *   IDLE      nothing is on its way
 *   ASKED     an attempt is; with sentinels, until enough replicas have what it wrote
 *
 * Which master: each has a replication id of its own, which it takes when it becomes one. The first
 * who meets it writes that id down with a number greater than all before, in a key that every node
 * reads when it connects. So all nodes have the same number for the same master, and a copy that
 * lacks the last writes has a greater one.
 */
#include "redis/keeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/status.h"
#include "redis/attempt.h"
#include "redis/commit.h"
#include "redis/connection.h"

enum { BATCH = 64, LOOK_MS = 50, RETRY_MOST_MS = 1000, REPLID = 40, SHA = 40 };

typedef struct question {
    struct question *next;
    script_fn script;
    redis_reply_fn reply;
    void *context;
    uint64_t asked_ns;
    size_t answer_size;
    uint8_t *answer; /* SCRIPT_ANSWER_MAX bytes, while it is in an attempt */
    size_t size;
    uint8_t arguments[];
} question_t;

typedef enum { AWAY, MEETING, IDLE, ASKED } state_t;

struct redis_keeper {
    uv_loop_t *loop;
    uv_timer_t timer; /* runs while nobody can be asked */
    const redis_keeper_ops_t *ops;
    void *context;
    char password[512], prefix[32], index[40];
    redis_address_t at; /* of the server */
    redis_sentinels_t sentinels;
    redis_master_t *search;  /* of the sentinels, while it goes on */
    size_t searches, copies; /* how many there were; replicas that must have a write */
    char copies_text[24];
    redis_connection_t *connection; /* NULL: none */
    redis_attempt_t *attempt;
    state_t state;
    bool is_told, is_there;       /* whether it was told how it stands, and what */
    bool is_met;                  /* the master's number is known */
    uint64_t pause_ms, next_ms;   /* between two tries; when the next one is due */
    uint64_t master;              /* its number */
    char replid[REPLID + 1];      /* and its own name */
    char sha[SHA + 1];            /* under which it keeps `commit` */
    uint64_t time_ms, time_at_ns; /* the server's, and when that was here */
    question_t *first, *last;
    size_t asked; /* of the queue's first ones: in the attempt */
};

static void attempt_send(redis_keeper_t *k);
static mob_status_t command_send(redis_keeper_t *k, const char *const *texts, size_t count,
                                 redis_answer_fn answer);
/* The connection is of no use any more: what was asked on it has no answer. */
static void fall(redis_keeper_t *k, mob_status_t status);

/* ---- questions ---- */

mob_status_t redis_keeper_ask(redis_keeper_t *k, script_fn script, const void *arguments,
                              size_t size, redis_reply_fn reply, void *context) {
    question_t *q = malloc(sizeof *q + size);
    if (q == NULL) return MOB_ENOMEM;
    *q = (question_t){.script = script,
                      .reply = reply,
                      .context = context,
                      .asked_ns = base_clock_mono_ns(),
                      .size = size};
    if (size > 0) memcpy(q->arguments, arguments, size);
    *(k->last != NULL ? &k->last->next : &k->first) = q;
    k->last = q;
    if (k->state == IDLE) attempt_send(k);
    return MOB_OK;
}

static question_t *question_pop(redis_keeper_t *k) {
    question_t *q = k->first;
    k->first = q->next;
    if (k->first == NULL) k->last = NULL;
    return q;
}

static void question_free(question_t *q) {
    free(q->answer);
    free(q);
}

/* The first `count` of the queue get their answers, or none. The replies may ask anew. */
static void questions_answer(redis_keeper_t *k, size_t count, bool is_answered) {
    for (; count > 0; count--) {
        question_t *q = question_pop(k);
        q->reply(q->context, is_answered ? k->master : 0, is_answered ? q->answer : NULL,
                 is_answered ? q->answer_size : 0);
        question_free(q);
    }
}

static bool is_late(const question_t *q, uint64_t now_ns) {
    return now_ns - q->asked_ns >= (uint64_t)REDIS_LIMIT_MS * 1000000;
}

/* Those that have waited too long, while there is nobody to ask. */
static void questions_expire(redis_keeper_t *k) {
    uint64_t now = base_clock_mono_ns();
    size_t late = 0;
    for (question_t *q = k->first; q != NULL && is_late(q, now); q = q->next) late++;
    questions_answer(k, late, false);
}

/* ---- attempts ---- */

static uint64_t server_ms(const redis_keeper_t *k) {
    return k->time_ms + (base_clock_mono_ns() - k->time_at_ns) / 1000000;
}

static mob_status_t attempt_make(redis_keeper_t *k) {
    redis_attempt_begin(k->attempt, server_ms(k), k->master);
    k->asked = 0;
    size_t most = k->is_met ? BATCH : 1; /* the meeting's own comes first */
    for (question_t *q = k->first; q != NULL && k->asked < most; q = q->next, k->asked++) {
        if (q->answer == NULL) q->answer = malloc(SCRIPT_ANSWER_MAX);
        if (q->answer == NULL) return MOB_ENOMEM;
        mob_status_t status = redis_attempt_run(k->attempt, q->script, q->arguments, q->size,
                                                q->answer, &q->answer_size);
        if (status != MOB_OK) return status;
    }
    return MOB_OK;
}

static void text_of(const redisReply *reply, size_t i, char *ret_text, size_t size) {
    const redisReply *part = i < reply->elements ? reply->element[i] : NULL;
    bool is_text = part != NULL && part->type == REDIS_REPLY_STRING && part->len < size;
    snprintf(ret_text, size, "%.*s", is_text ? (int)part->len : 0, is_text ? part->str : "");
}

static mob_status_t differs_take(redis_keeper_t *k, const redisReply *reply) {
    size_t count = reply->elements - 2;
    redis_word_t *words = malloc((count + 1) * sizeof *words);
    if (words == NULL) return MOB_ENOMEM;
    mob_status_t status = MOB_OK;
    for (size_t i = 0; i < count; i++) {
        const redisReply *part = reply->element[i + 2];
        if (part->type != REDIS_REPLY_STRING) status = MOB_EPROTO;
        words[i] = (redis_word_t){part->str, part->len};
    }
    if (status == MOB_OK) status = redis_attempt_differs(k->attempt, words, count);
    free(words);
    return status;
}

static mob_status_t commit_take(redis_keeper_t *k, const redisReply *reply, bool *ret_done) {
    char word[16], time[24];
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2)
        return base_fail(MOB_EPROTO, "Redis answered a script with: %s",
                         reply->str != NULL ? reply->str : "something else");
    text_of(reply, 0, word, sizeof word);
    text_of(reply, 1, time, sizeof time);
    k->time_ms = strtoull(time, NULL, 10);
    k->time_at_ns = base_clock_mono_ns();
    *ret_done = strcmp(word, "done") == 0;
    return *ret_done ? MOB_OK : differs_take(k, reply);
}

/* It was written, and counts. */
static void attempt_end(redis_keeper_t *k) {
    redis_attempt_done(k->attempt);
    size_t asked = k->asked;
    k->asked = 0;
    questions_answer(k, asked, true);
    if (k->state == ASKED) attempt_send(k);
}

static void on_copies(void *context, const redisReply *reply) {
    redis_keeper_t *k = context;
    if (reply == NULL) return; /* its end is told */
    if (reply->type == REDIS_REPLY_INTEGER && reply->integer >= (long long)k->copies)
        attempt_end(k);
    else
        fall(k, base_fail(MOB_EINVAL, "Redis at %s:%u has not enough replicas that keep up",
                          k->at.host, k->at.port));
}

/* What no replica has is gone if this master dies now: it does not count before. */
static void copies_ask(redis_keeper_t *k) {
    const char *wait[] = {"WAIT", k->copies_text, "500"};
    mob_status_t status = command_send(k, wait, 3, on_copies);
    if (status != MOB_OK) fall(k, status);
}

static void on_commit(void *context, const redisReply *reply) {
    redis_keeper_t *k = context;
    bool is_done = false;
    if (reply == NULL) return; /* its end is told */
    mob_status_t status = commit_take(k, reply, &is_done);
    if (status != MOB_OK) {
        fall(k, status);
        return;
    }
    if (!is_done)
        attempt_send(k);
    else if (k->copies > 0 && redis_attempt_writes(k->attempt))
        copies_ask(k);
    else
        attempt_end(k);
}

static void attempt_send(redis_keeper_t *k) {
    const redis_word_t *parts;
    size_t count;
    k->state = IDLE;
    if (k->first == NULL) return;
    mob_status_t status = attempt_make(k);
    if (status == MOB_OK) status = redis_attempt_words(k->attempt, &parts, &count);
    redis_word_t *words = status == MOB_OK ? malloc((count + 5) * sizeof *words) : NULL;
    if (words == NULL) {
        fall(k, MOB_ENOMEM);
        return;
    }
    words[0] = (redis_word_t){"EVALSHA", 7};
    words[1] = (redis_word_t){k->sha, SHA};
    words[2] = (redis_word_t){"1", 1};
    words[3] = (redis_word_t){k->index, strlen(k->index)};
    words[4] = (redis_word_t){k->prefix, strlen(k->prefix)};
    memcpy(words + 5, parts, count * sizeof *words);
    k->state = ASKED;
    status = redis_connection_send(k->connection, words, count + 5, on_commit, k);
    free(words);
    if (status != MOB_OK) fall(k, status);
}

/* ---- meeting a master ---- */

typedef struct {
    uint64_t number;
    char replid[REPLID];
} master_t;

/* The number of the master with this replication id: the one it has, or the next. */
static size_t master_script(const script_keys_t *keys, const void *arguments, size_t size,
                            void *answer) {
    master_t known = {0}, asked = {0};
    size_t known_size;
    memcpy(asked.replid, arguments, size < REPLID ? size : REPLID);
    const void *value = keys->get(keys->context, "master", &known_size);
    if (value != NULL && known_size == sizeof known) memcpy(&known, value, sizeof known);
    if (known.number == 0 || memcmp(known.replid, asked.replid, REPLID) != 0) {
        asked.number = known.number + 1 > keys->now_ms ? known.number + 1 : keys->now_ms;
        known = asked;
        keys->set(keys->context, "master", &known, sizeof known, 0);
    }
    memcpy(answer, &known.number, sizeof known.number);
    return sizeof known.number;
}

static void on_met(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master;
    redis_keeper_t *k = context;
    if (answer == NULL || size != sizeof k->master) return;
    memcpy(&k->master, answer, size);
    k->is_met = true;
    k->pause_ms = 0;
    uv_timer_stop(&k->timer);
    if (k->is_there) return;
    k->is_there = k->is_told = true;
    k->ops->changed(k->context, true, MOB_OK);
}

/* Before all that waits. */
static void meeting_ask(redis_keeper_t *k) {
    question_t *rest = k->first, *last = k->last;
    k->first = k->last = NULL;
    k->state = MEETING;
    mob_status_t status = redis_keeper_ask(k, master_script, k->replid, REPLID, on_met, k);
    question_t *own = k->first;
    if (own != NULL) own->next = rest;
    k->first = own != NULL ? own : rest;
    k->last = rest != NULL ? last : own;
    if (status != MOB_OK)
        fall(k, status);
    else
        attempt_send(k);
}

static void line_value(const char *text, const char *name, char *ret_value, size_t size) {
    const char *at = strstr(text, name);
    ret_value[0] = 0;
    if (at == NULL) return;
    at += strlen(name);
    snprintf(ret_value, size, "%.*s", (int)strcspn(at, "\r\n"), at);
}

static void on_info(void *context, const redisReply *reply) {
    redis_keeper_t *k = context;
    char role[16];
    if (reply == NULL) return;
    const char *text = reply->str != NULL ? reply->str : "";
    line_value(text, "role:", role, sizeof role);
    line_value(text, "master_replid:", k->replid, sizeof k->replid);
    if (strcmp(role, "master") != 0 || strlen(k->replid) != REPLID)
        fall(k, base_fail(MOB_EINVAL, "Redis at %s:%u is no master: %s", k->at.host, k->at.port,
                          role[0] != 0 ? role : text));
}

static void on_time(void *context, const redisReply *reply) {
    redis_keeper_t *k = context;
    char seconds[24], us[24];
    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) return;
    text_of(reply, 0, seconds, sizeof seconds);
    text_of(reply, 1, us, sizeof us);
    k->time_ms = strtoull(seconds, NULL, 10) * 1000 + strtoull(us, NULL, 10) / 1000;
    k->time_at_ns = base_clock_mono_ns();
}

static void on_loaded(void *context, const redisReply *reply) {
    redis_keeper_t *k = context;
    if (reply == NULL) return;
    if (reply->type != REDIS_REPLY_STRING || reply->len != SHA) {
        fall(k, base_fail(MOB_EPROTO, "Redis at %s:%u does not take a script: %s", k->at.host,
                          k->at.port, reply->str != NULL ? reply->str : ""));
        return;
    }
    memcpy(k->sha, reply->str, SHA);
    meeting_ask(k);
}

static mob_status_t command_send(redis_keeper_t *k, const char *const *texts, size_t count,
                                 redis_answer_fn answer) {
    redis_word_t words[4];
    for (size_t i = 0; i < count; i++) words[i] = (redis_word_t){texts[i], strlen(texts[i])};
    return redis_connection_send(k->connection, words, count, answer, k);
}

static void on_up(void *context) {
    redis_keeper_t *k = context;
    const char *info[] = {"INFO", "replication"}, *time[] = {"TIME"},
               *load[] = {"SCRIPT", "LOAD", redis_commit_lua};
    k->state = MEETING;
    k->is_met = false;
    redis_attempt_forget(k->attempt); /* it may be another one, or have lost something */
    mob_status_t status = command_send(k, info, 2, on_info);
    if (status == MOB_OK) status = command_send(k, time, 1, on_time);
    if (status == MOB_OK) status = command_send(k, load, 3, on_loaded);
    if (status != MOB_OK) fall(k, status);
}

/* ---- connections ---- */

static void on_down(void *context, mob_status_t status) {
    redis_keeper_t *k = context;
    k->connection = NULL;
    fall(k, status);
}

static const redis_connection_ops_t connection_ops = {.up = on_up, .down = on_down};

static void server_connect(redis_keeper_t *k) {
    const char *password = k->password[0] != 0 ? k->password : NULL;
    mob_status_t status = redis_connection_open(k->loop, k->at.host, k->at.port, password,
                                                &connection_ops, k, &k->connection);
    if (status != MOB_OK) fall(k, status);
}

static void on_found(void *context, const redis_address_t *address, size_t replicas) {
    redis_keeper_t *k = context;
    k->search = NULL;
    if (address == NULL) {
        fall(k, MOB_EINVAL);
        return;
    }
    k->at = *address;
    k->copies = (replicas + 1) / 2;
    snprintf(k->copies_text, sizeof k->copies_text, "%zu", k->copies);
    server_connect(k);
}

/* Every time anew: the master may be another one. */
static void connect_begin(redis_keeper_t *k) {
    if (k->sentinels.count == 0) {
        server_connect(k);
        return;
    }
    mob_status_t status =
        redis_master_ask(k->loop, &k->sentinels, k->searches++, on_found, k, &k->search);
    if (status != MOB_OK) fall(k, status);
}

/* Nobody can be asked now. */
static void on_look(uv_timer_t *timer) {
    redis_keeper_t *k = timer->data;
    questions_expire(k);
    if (k->connection == NULL && k->search == NULL && uv_now(k->loop) >= k->next_ms)
        connect_begin(k);
}

static void fall(redis_keeper_t *k, mob_status_t status) {
    if (k->connection != NULL) redis_connection_close(k->connection);
    k->connection = NULL;
    k->state = AWAY;
    k->pause_ms = k->pause_ms == 0 ? LOOK_MS : 2 * k->pause_ms;
    if (k->pause_ms > RETRY_MOST_MS) k->pause_ms = RETRY_MOST_MS;
    k->next_ms = uv_now(k->loop) + k->pause_ms;
    uv_timer_start(&k->timer, on_look, LOOK_MS, LOOK_MS);
    size_t asked = k->asked;
    k->asked = 0;
    if (k->is_there || !k->is_told) { /* one that never was there is told of, too */
        k->is_there = false;
        k->is_told = true;
        k->ops->changed(k->context, false, status);
    }
    questions_answer(k, asked, false);
}

/* ---- opening and closing ---- */

mob_status_t redis_keeper_open(uv_loop_t *loop, const redis_settings_t *settings,
                               const redis_keeper_ops_t *ops, void *context,
                               redis_keeper_t **ret_keeper) {
    redis_keeper_t *k = calloc(1, sizeof *k);
    if (k == NULL) return MOB_ENOMEM;
    if (redis_attempt_new(&k->attempt) != MOB_OK) {
        free(k);
        return MOB_ENOMEM;
    }
    k->loop = loop;
    k->ops = ops;
    k->context = context;
    k->at = settings->at;
    k->sentinels = settings->sentinels;
    snprintf(k->password, sizeof k->password, "%s",
             settings->password != NULL ? settings->password : "");
    memcpy(k->sentinels.password, k->password, sizeof k->password);
    snprintf(k->prefix, sizeof k->prefix, "{%016" PRIx64 "}:", settings->cluster);
    snprintf(k->index, sizeof k->index, "%sindex", k->prefix);
    uv_timer_init(loop, &k->timer);
    k->timer.data = k;
    uv_timer_start(&k->timer, on_look, 0, LOOK_MS);
    *ret_keeper = k;
    return MOB_OK;
}

static void on_closed(uv_handle_t *handle) {
    redis_keeper_t *k = handle->data;
    while (k->first != NULL) question_free(question_pop(k));
    redis_attempt_free(k->attempt);
    explicit_bzero(k->password, sizeof k->password);
    explicit_bzero(k->sentinels.password, sizeof k->sentinels.password);
    free(k);
}

void redis_keeper_close(redis_keeper_t *k) {
    if (k->connection != NULL) redis_connection_close(k->connection);
    if (k->search != NULL) redis_master_cancel(k->search);
    k->connection = NULL;
    uv_close((uv_handle_t *)&k->timer, on_closed);
}
