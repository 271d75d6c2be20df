/*
 * Questions of the room group to the control state: one after the other, for they are to run in the
 * order in which they were asked for the first time, and some may have to be asked again. Groups
 * are made and removed rarely, so nobody waits for long.
 *
 * Masters have membership's names: a question runs only where the control state says that it is the
 * one which is known here, else it was no decision, and the room asks again when another has
 * settled.
 */
#include <stdlib.h>
#include <string.h>

#include "group/script.h"
#include "member/script.h"
#include "node/cluster/cluster.h"
#include "node/cluster/grouping.h"
#include "node/state.h"

typedef struct {
    script_fn script;
    uint64_t master;
} guard_t;

struct node_grouping_question {
    node_grouping_question_t *next;
    void (*reply)(void *ask, uint64_t master, const void *answer, size_t size);
    void *ask;
    guard_t guard;
    size_t size;
    uint8_t bytes[]; /* the guard once more, as it was asked, and the arguments */
};

static void first_ask(node_cluster_t *c);

static size_t guarded_script(const script_keys_t *keys, const void *arguments, size_t size,
                             void *answer) {
    guard_t guard;
    memcpy(&guard, arguments, sizeof guard);
    if (!member_script_guard(keys, guard.master)) {
        *(uint8_t *)answer = GROUP_SAID_UNSETTLED;
        return 1;
    }
    script_keys_t named = *keys;
    named.master = guard.master;
    return guard.script(&named, (const uint8_t *)arguments + sizeof guard, size - sizeof guard,
                        answer);
}

static void on_answered(void *context, uint64_t master, const void *answer, size_t size) {
    (void)master; /* the connection's */
    node_cluster_t *c = context;
    node_grouping_t *grouping = &c->grouping;
    node_grouping_question_t *q = grouping->first;
    grouping->is_asking = false;
    if (answer == NULL) return; /* at the next tick */
    grouping->first = q->next;
    if (q->next == NULL) grouping->last = NULL;
    q->reply(q->ask, q->guard.master, answer, size);
    free(q);
    first_ask(c);
    c->node->again = true;
}

static void first_ask(node_cluster_t *c) {
    node_grouping_t *grouping = &c->grouping;
    node_grouping_question_t *q = grouping->first;
    if (grouping->is_asking || q == NULL) return;
    q->guard.master = grouping->master;
    memcpy(q->bytes, &q->guard, sizeof q->guard);
    grouping->is_asking =
        node_cluster_ask(c, guarded_script, q->bytes, q->size, on_answered, c) == MOB_OK;
}

void node_grouping_ask_again(node_cluster_t *c) { first_ask(c); }

void node_grouping_ask(void *context, script_fn script, const void *arguments, size_t size,
                       void (*reply)(void *, uint64_t, const void *, size_t), void *ask) {
    node_cluster_t *c = context;
    node_grouping_t *grouping = &c->grouping;
    node_grouping_question_t *q = malloc(sizeof *q + sizeof q->guard + size);
    if (q == NULL) { /* it waits for ever, and its group with it */
        node_cluster_trouble(c, "no memory for a question about a placement group");
        return;
    }
    *q = (node_grouping_question_t){
        .reply = reply, .ask = ask, .guard = {.script = script}, .size = sizeof q->guard + size};
    if (size > 0) memcpy(q->bytes + sizeof q->guard, arguments, size);
    *(grouping->last != NULL ? &grouping->last->next : &grouping->first) = q;
    grouping->last = q;
    first_ask(c);
}
