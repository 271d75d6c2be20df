/*
 * Rules of the cluster's protocols that the simulator can leave out, one at a time, to show that it
 * finds what each of them is for. Everywhere else a rule holds, and costs nothing.
 *
 *     if (BASE_RULE(LINK_ANSWERS_EXEMPT) && is_answer) ...
 *
 * The line of a rule in rules.h names the interleaving that breaks what it keeps.
 */
#ifndef BASE_RULE_H
#define BASE_RULE_H

#include <stdbool.h>

typedef enum {
    BASE_RULE_NONE,
#define BASE_RULE_LINE(name, why) BASE_RULE_##name,
#include "base/rules.h"
#undef BASE_RULE_LINE
    BASE_RULE_COUNT
} base_rule_t;

#ifdef BASE_RULES_CAN_BREAK
extern base_rule_t base_rule_left_out; /* the simulator's */
#define BASE_RULE(name) (base_rule_left_out != BASE_RULE_##name)
#else
#define BASE_RULE(name) true
#endif

#endif
