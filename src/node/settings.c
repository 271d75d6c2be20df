/* What the daemon reads from the environment of ray.init. A value that makes no sense is an error
 * there: ignored, it would look as if it worked. */
#include <stdlib.h>
#include <string.h>

#include "node/settings.h"
#include "node/state.h"

/* NULL: it is not set, or empty. */
static const char *value_of(const char *name) {
    const char *text = getenv(name);
    return text != NULL && *text != 0 ? text : NULL;
}

static mob_status_t number_read(const char *name, double least, double most, double *value) {
    const char *text = value_of(name);
    if (text == NULL) return MOB_OK;
    char *end;
    double number = strtod(text, &end);
    if (*end != 0 || !(number >= least && number <= most)) /* nan is neither */
        return base_fail(MOB_EINVAL, "the environment has %s=%s; it must be a number from %g to %g",
                         name, text, least, most);
    *value = number;
    return MOB_OK;
}

static mob_status_t switch_read(const char *name, bool *value) {
    const char *text = value_of(name);
    if (text == NULL) return MOB_OK;
    if (strcmp(text, "0") != 0 && strcmp(text, "1") != 0)
        return base_fail(MOB_EINVAL, "the environment has %s=%s; it must be 0 or 1", name, text);
    *value = text[0] == '1';
    return MOB_OK;
}

/* Ray's health checks fail `threshold` times in a row, a period apart, and each takes up to a
 * timeout to fail. Here they are the least that a death takes. What is not set is Ray's if it is
 * needed. */
static mob_status_t health_read(node_cluster_config_t *config) {
    double delay = 0, period = -1, timeout = 0, threshold = -1;
    mob_status_t status = number_read("RAY_health_check_initial_delay_ms", 0, 1e9, &delay);
    if (status == MOB_OK) status = number_read("RAY_health_check_period_ms", 0, 1e9, &period);
    if (status == MOB_OK) status = number_read("RAY_health_check_timeout_ms", 0, 1e9, &timeout);
    if (status == MOB_OK)
        status = number_read("RAY_health_check_failure_threshold", 1, 1e6, &threshold);
    bool is_set = period >= 0 || threshold >= 0;
    double least = (period >= 0 ? period : 3000) * (threshold >= 0 ? threshold : 5);
    config->newcomer_ms = (uint64_t)delay;
    config->patience_ms = (uint64_t)(is_set && least > timeout ? least : timeout);
    return status;
}

mob_status_t node_settings_read(node_t *n) {
    double refresh_ms = 250, end_ms = 30000, lineage_bytes = 128 << 20, quiet_bytes = 1 << 20;
    n->config.fast = true;
    n->pressure.threshold = 0.95;
    mob_status_t status = switch_read("MOBULA_FAST_PATH", &n->config.fast);
    if (status == MOB_OK)
        status = number_read("RAY_memory_usage_threshold", 0.01, 1, &n->pressure.threshold);
    if (status == MOB_OK)
        status = number_read("RAY_memory_monitor_refresh_ms", 0, 1e9, &refresh_ms);
    if (status == MOB_OK)
        status = number_read("RAY_actor_graceful_shutdown_timeout_ms", 0, 1e9, &end_ms);
    n->ends.end_ms = (uint64_t)end_ms;
    if (status == MOB_OK) status = number_read("RAY_max_lineage_bytes", 0, 1e15, &lineage_bytes);
    n->lineages.most = (uint64_t)lineage_bytes;
    if (status == MOB_OK) status = number_read("RAY_verbose_spill_logs", 0, 1e15, &quiet_bytes);
    n->spill.quiet_bytes = (uint64_t)quiet_bytes;
    if (status == MOB_OK) status = health_read(&n->config.cluster);
    if (status == MOB_OK) status = switch_read("MOBULA_LOOPBACK", &n->config.loopback);
    n->config.fast &= !n->config.loopback;
    if (status == MOB_OK) status = switch_read("RAY_deadlock_raise", &n->deadlock.raises);
    if (status == MOB_OK) status = switch_read("MOBULA_ENFORCE_MEMORY", &n->pressure.enforce);
    n->pressure.refresh_ms = (uint64_t)refresh_ms;
    if (status == MOB_OK && (double)n->pressure.refresh_ms != refresh_ms)
        return base_fail(
            MOB_EINVAL,
            "the environment has RAY_memory_monitor_refresh_ms=%s; it must be a whole number",
            value_of("RAY_memory_monitor_refresh_ms"));
    if (status == MOB_OK && n->pressure.enforce && n->pressure.refresh_ms == 0)
        return base_fail(
            MOB_EINVAL,
            "the environment has MOBULA_ENFORCE_MEMORY=1 and RAY_memory_monitor_refresh_ms=0, "
            "with which nobody looks how much memory a task uses: leave one of them out");
    return status;
}
