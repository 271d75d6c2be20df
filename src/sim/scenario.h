/*
 * A scenario: a number of hosts with work that one room's protocol carries, what goes wrong with
 * them, and the checks of that room. All from one seed. It says what is wrong by world_fail.
 *
 * A room's rules (base/rules.h) begin with the scenario's name in capitals.
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include "sim/world.h"

typedef struct scenario {
    const char *name;
    const char *checks; /* in words */
    /* One run, in a world that has only its seed. `hosts`: how many; 0: as many as suits, by
     * chance. */
    void (*run)(world_t *world, size_t hosts);
} scenario_t;

extern const scenario_t scenario_actor;
extern const scenario_t scenario_host;
extern const scenario_t scenario_link;
extern const scenario_t scenario_refs;
extern const scenario_t scenario_pull;
extern const scenario_t scenario_place;
extern const scenario_t scenario_member;
extern const scenario_t scenario_group;

#endif
