/* The records of groups in Redis, as the checks see them: without a delay, and through a fail-over.
 */
#include "group/script.h"
#include "sim/group_model.h"

const uint8_t *group_model_record(const group_model_t *m, const group_model_group_t *g) {
    char key[SCRIPT_KEY_MAX];
    uint8_t id[GROUP_ID_SIZE];
    base_writer_t w = {.bytes = id};
    size_t size;
    base_put_number(&w, g->id.home, 8);
    base_put_number(&w, g->id.number, 4);
    base_put_number(&w, g->id.generation, 8);
    group_script_key(id, -1, key);
    return redis_look(cluster_redis(m->cluster), key, &size);
}

void group_model_fail_over(group_model_t *m) {
    for (size_t i = 0; i < m->groups.count; i++)
        m->groups.items[i]->is_lost |= group_model_record(m, m->groups.items[i]) != NULL;
    redis_fail_over(cluster_redis(m->cluster));
    for (size_t i = 0; i < m->groups.count; i++)
        m->groups.items[i]->is_lost &= group_model_record(m, m->groups.items[i]) == NULL;
}

bool group_model_is_ghost(const group_model_t *m, const group_model_group_t *g) {
    const uint8_t *record = group_model_record(m, g);
    const group_model_node_t *home = group_model_node(m, g->id.home);
    if (record == NULL || home->buried_ms == 0) return false;
    base_reader_t r = {.at = record + 1, .left = 8}; /* the keeper's clock when it was made */
    return base_take_number(&r, 8) >= UINT64_C(1700000000000) + home->buried_ms;
}
