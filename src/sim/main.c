/*
 * sim: runs scenarios from seeds, and shows that it finds rules that were left out.
 *
 *     sim [SCENARIO ...] [--seeds FIRST-LAST] [--hosts N] [--leave-out RULE] [--tell]
 *     sim --rules [--seconds S]     each rule of the scenarios left out, until a seed finds it
 *     sim --list
 *
 * A failure is told with its seed. The same seed gives the same run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rule.h"
#include "sim/scenario.h"

base_rule_t base_rule_left_out = BASE_RULE_NONE;

static const scenario_t *const scenarios[] = {&scenario_host,   &scenario_link, &scenario_refs,
                                              &scenario_actor,  &scenario_pull, &scenario_place,
                                              &scenario_member, &scenario_group};
enum { SCENARIOS = sizeof scenarios / sizeof *scenarios };

static const struct {
    const char *name, *why;
} rules[] = {
    {"NONE", ""},
#define BASE_RULE_LINE(name, why) {#name, why},
#include "base/rules.h"
#undef BASE_RULE_LINE
};

typedef struct {
    const scenario_t *chosen[SCENARIOS];
    size_t count, hosts;
    uint64_t first, last;
    double seconds;
    bool tells, is_list, is_rules;
} options_t;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Whether the run went well; what went wrong is printed, unless it is wanted. */
static bool run_seed(const options_t *options, const scenario_t *scenario, uint64_t seed,
                     bool is_wanted, uint64_t *events) {
    world_t *world = world_new(seed);
    if (options->tells) world_tell_all(world);
    scenario->run(world, options->hosts);
    const char *failure = world_failure(world);
    *events += world_events(world);
    if (failure != NULL && !is_wanted)
        printf("%s: seed %llu: %s\n", scenario->name, (unsigned long long)seed, failure);
    else if (failure != NULL)
        printf("    seed %llu, %s\n", (unsigned long long)seed, failure);
    bool went_well = failure == NULL;
    world_free(world);
    return went_well;
}

/* All seeds of one scenario, by as many processes as there are CPUs. */
static bool run_scenario(const options_t *options, const scenario_t *scenario) {
    double begun = now_s();
    uint64_t processes = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN),
             count = options->last - options->first + 1;
    if (processes > count || options->tells) processes = 1;
    fflush(stdout);
    for (uint64_t p = 0; p < processes; p++) {
        pid_t child = fork();
        if (child < 0) {
            perror("fork");
            exit(3);
        }
        if (child > 0) continue;
        bool went_well = true;
        uint64_t events = 0;
        for (uint64_t seed = options->first + p; seed <= options->last && went_well;
             seed += processes)
            went_well = run_seed(options, scenario, seed, false, &events);
        exit(went_well ? 0 : 1);
    }
    bool went_well = true;
    int status;
    while (wait(&status) > 0) went_well &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    printf("%-8s %s: %llu seeds in %.1f s: %s\n", scenario->name, went_well ? "ok" : "FAILED",
           (unsigned long long)count, now_s() - begun, scenario->checks);
    fflush(stdout);
    return went_well;
}

/* Whether the rule's name begins with the scenario's, in capitals. */
static bool is_of(const char *rule, const scenario_t *scenario) {
    size_t length = strlen(scenario->name);
    return strncasecmp(rule, scenario->name, length) == 0 && rule[length] == '_';
}

static bool find_rule(const options_t *options, const scenario_t *scenario, base_rule_t rule) {
    printf("%s: %s\n", rules[rule].name, rules[rule].why);
    double begun = now_s();
    uint64_t seed = 0, events = 0;
    base_rule_left_out = rule;
    bool is_found = false;
    while (!is_found && now_s() - begun < options->seconds)
        is_found = !run_seed(options, scenario, ++seed, true, &events);
    base_rule_left_out = BASE_RULE_NONE;
    printf(is_found ? "    found in %.1f s\n" : "    NOT FOUND in %.1f s\n", now_s() - begun);
    fflush(stdout);
    return is_found;
}

static bool find_rules(const options_t *options) {
    bool are_found = true;
    for (int rule = 1; rule < BASE_RULE_COUNT; rule++)
        for (size_t i = 0; i < options->count; i++)
            if (is_of(rules[rule].name, options->chosen[i]))
                are_found &= find_rule(options, options->chosen[i], (base_rule_t)rule);
    return are_found;
}

static const scenario_t *scenario_named(const char *name) {
    for (size_t i = 0; i < SCENARIOS; i++)
        if (strcmp(scenarios[i]->name, name) == 0) return scenarios[i];
    fprintf(stderr, "sim: there is no scenario %s; see sim --list\n", name);
    exit(2);
}

static base_rule_t rule_named(const char *name) {
    for (int rule = 1; rule < BASE_RULE_COUNT; rule++)
        if (strcmp(rules[rule].name, name) == 0) return (base_rule_t)rule;
    fprintf(stderr, "sim: there is no rule %s; see sim --list\n", name);
    exit(2);
}

static const char *value_of(int argc, char **argv, int *i) {
    if (++*i < argc) return argv[*i];
    fprintf(stderr, "sim: %s needs a value\n", argv[*i - 1]);
    exit(2);
}

static void seeds_read(const char *text, options_t *options) {
    char *end;
    options->first = options->last = strtoull(text, &end, 10);
    if (*end == '-') options->last = strtoull(end + 1, &end, 10);
    if (*end == 0 && options->first <= options->last) return;
    fprintf(stderr, "sim: seeds are FIRST-LAST or one number, not %s\n", text);
    exit(2);
}

static void options_read(int argc, char **argv, options_t *options) {
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seeds") == 0)
            seeds_read(value_of(argc, argv, &i), options);
        else if (strcmp(argv[i], "--hosts") == 0)
            options->hosts = (size_t)strtoull(value_of(argc, argv, &i), NULL, 10);
        else if (strcmp(argv[i], "--seconds") == 0)
            options->seconds = strtod(value_of(argc, argv, &i), NULL);
        else if (strcmp(argv[i], "--leave-out") == 0)
            base_rule_left_out = rule_named(value_of(argc, argv, &i));
        else if (strcmp(argv[i], "--tell") == 0)
            options->tells = true;
        else if (strcmp(argv[i], "--list") == 0)
            options->is_list = true;
        else if (strcmp(argv[i], "--rules") == 0)
            options->is_rules = true;
        else if (options->count < SCENARIOS)
            options->chosen[options->count++] = scenario_named(argv[i]);
    }
    if (options->count > 0) return;
    for (size_t i = 0; i < SCENARIOS; i++) options->chosen[options->count++] = scenarios[i];
}

static void list_print(void) {
    for (size_t i = 0; i < SCENARIOS; i++)
        printf("%-8s %s\n", scenarios[i]->name, scenarios[i]->checks);
    for (int rule = 1; rule < BASE_RULE_COUNT; rule++)
        printf("%s: %s\n", rules[rule].name, rules[rule].why);
}

int main(int argc, char **argv) {
    options_t options = {.first = 1, .last = 100, .seconds = 60};
    options_read(argc, argv, &options);
    if (options.is_list) {
        list_print();
        return 0;
    }
    if (options.is_rules) return find_rules(&options) ? 0 : 1;
    bool went_well = true;
    for (size_t i = 0; i < options.count; i++)
        went_well &= run_scenario(&options, options.chosen[i]);
    return went_well ? 0 : 1;
}
