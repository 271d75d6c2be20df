/*
 * Groups that are made here, and removals.
 *
 * A group that nobody can outlive or find, and that fits here at once, is known to its home alone:
 * it has no name, ends with its job, its job's driver is at this node, and its strategy is content
 * with one node. It costs no message and no script. Everybody else who has its id asks its home;
 * once its home is dead so is its job, and with it the group.
 *
 * Not while an equal one that was made here waits: it would be overtaken.
 */
#include <stdlib.h>

#include "group/books.h"

void group_name_hash(const char *name_space, const char *name, uint8_t hash[GROUP_NAME_HASH]) {
    base_writer_t w = {.bytes = hash};
    size_t size = strlen(name_space) + 1;
    bool has_name = *name != 0;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        uint64_t half = group_hash(seed, name_space, size);
        half = group_hash(half, name, strlen(name));
        base_put_number(&w, has_name ? half | 1 : 0, 8);
    }
}

/* ---- how many of a class wait ---- */

void group_waiting_count(group_t *room, const group_watch_t *watch, int more) {
    const uint64_t *hash = &watch->spec->class_hash;
    uintptr_t count = (uintptr_t)base_map_get(&room->waiting, hash);
    if (more > 0)
        (void)base_map_put(&room->waiting, hash, (void *)(count + 1)); /* else it is overtaken */
    else if (more < 0 && count > 1)
        (void)base_map_put(&room->waiting, hash, (void *)(count - 1));
    else if (more < 0)
        (void)base_map_remove(&room->waiting, hash);
}

/* ---- a group that only this node knows ---- */

static bool may_be_local(const group_t *room, const group_spec_t *spec) {
    bool is_one =
        spec->count == 1 || spec->strategy == MOB_PACK || spec->strategy == MOB_STRICT_PACK;
    return is_one && *spec->name == 0 && !spec->detached && spec->job.home == room->self &&
           base_map_get(&room->waiting, &spec->class_hash) == NULL;
}

void group_local_release(group_t *room, group_watch_t *watch) {
    group_key_t key = {.id = group_id_frame(&watch->id)};
    for (; key.bundle < watch->spec->count; key.bundle++) room->ops->release(room->context, &key);
}

static bool local_reserve(group_t *room, group_watch_t *watch) {
    group_key_t key = {.id = group_id_frame(&watch->id)};
    for (; key.bundle < watch->spec->count; key.bundle++) {
        if (room->ops->reserve(room->context, &key, watch->spec)) continue;
        while (key.bundle-- > 0) room->ops->release(room->context, &key);
        return false;
    }
    for (key.bundle = 0; key.bundle < watch->spec->count; key.bundle++)
        room->ops->commit(room->context, &key);
    return true;
}

/* ---- making one ---- */

static void askers_send_on(group_t *room, group_watch_t *watch) {
    for (size_t i = 0; i < watch->askers.count; i++)
        group_say_id(room, watch->askers.items[i], GROUP_ITEM_SHARED, &watch->id);
    vec_free(&watch->askers);
}

static void created(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                    base_reader_t *answer) {
    (void)master;
    group_watch_t *watch = base_map_get(&room->watches, &ask->id);
    if (watch == NULL || watch->phase != WATCH_CREATING) return;
    watch->is_removing |= watch->is_ended; /* by a master that is lost, if it is there again */
    if (code != GROUP_SAID_OK) {
        bool is_ended = watch->is_ended;
        group_watch_end(room, watch, code == GROUP_SAID_TAKEN ? GROUP_NAME_TAKEN : GROUP_REMOVED);
        if (is_ended) group_say_id(room, room->leader, GROUP_ITEM_SEEN, &ask->id);
        return;
    }
    watch->number = base_take_number(answer, 8);
    watch->phase = WATCH_SHARED;
    askers_send_on(room, watch);
    group_watch_tell(room, watch, GROUP_WAITING, NULL, 0);
    if (watch->is_removing)
        group_watch_remove(room, watch);
    else
        group_watch_seek(room, watch);
}

static mob_status_t create_ask(group_t *room, group_watch_t *watch) {
    uint8_t hash[GROUP_NAME_HASH];
    group_ask_t *ask = group_ask_new(room, group_script_create, created, &watch->id,
                                     GROUP_ID_SIZE + sizeof hash + watch->spec->size);
    if (ask == NULL) return MOB_ENOMEM;
    group_name_hash(watch->spec->name_space, watch->spec->name, hash);
    base_put_bytes(&ask->arguments, watch->id.bytes, GROUP_ID_SIZE);
    base_put_bytes(&ask->arguments, hash, sizeof hash);
    base_put_bytes(&ask->arguments, watch->spec->bytes, watch->spec->size);
    group_waiting_count(room, watch, 1);
    group_ask_send(ask);
    return MOB_OK;
}

mob_status_t group_create(group_t *room, const group_want_t *want) {
    group_id_t id = group_id_of(&want->id);
    group_spec_t *spec;
    if (want->id.home != room->self || base_map_get(&room->watches, &id) != NULL) return MOB_EINVAL;
    mob_status_t status = group_spec_write(want, &spec);
    if (status != MOB_OK) return status;
    group_watch_t *watch = group_watch_new(room, &id);
    if (watch == NULL) {
        group_spec_free(spec);
        return MOB_ENOMEM;
    }
    watch->spec = spec;
    watch->is_home = true;
    if (may_be_local(room, spec) && local_reserve(room, watch)) {
        watch->phase = WATCH_LOCAL;
        group_watch_tell(room, watch, GROUP_READY, id.bytes, 1); /* an id begins with its home */
        return MOB_OK;
    }
    watch->phase = WATCH_CREATING;
    status = create_ask(room, watch);
    if (status != MOB_OK) group_watch_free(room, watch);
    return status;
}

/* ---- removing ---- */

static void removed(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                    base_reader_t *answer) {
    (void)master;
    if (code == GROUP_SAID_REMOVED) group_leads_learn(room, answer);
    if (code == GROUP_SAID_REMOVED) group_keep(room, GROUP_FACT_REMOVED, &ask->id, 0, 0);
    group_watch_t *watch = base_map_get(&room->watches, &ask->id);
    if (watch == NULL) return;
    watch->is_asked = false;
    if (code == GROUP_SAID_REMOVED) {
        watch->is_removed = true;
        watch->phase = WATCH_SHARED;
        group_watch_seek(room, watch);
    } else if (watch->is_home || group_is_dead(room, group_home_of(&watch->id)) ||
               group_home_of(&watch->id) == room->self) {
        if (watch->is_home) group_say_id(room, room->leader, GROUP_ITEM_SEEN, &ask->id);
        group_watch_end(room, watch, GROUP_REMOVED);
    } else { /* only its home may know it */
        watch->phase = WATCH_AT_HOME;
        group_watch_seek(room, watch);
    }
}

void group_watch_remove(group_t *room, group_watch_t *watch) {
    if (watch->phase == WATCH_LOCAL) {
        group_local_release(room, watch);
        group_watch_end(room, watch, GROUP_REMOVED);
        return;
    }
    if (watch->phase == WATCH_CREATING || watch->is_asked || watch->is_removed) return;
    group_ask_t *ask = group_ask_new(room, group_script_remove, removed, &watch->id, GROUP_ID_SIZE);
    if (ask == NULL) return; /* group_watches_again asks */
    base_put_bytes(&ask->arguments, watch->id.bytes, GROUP_ID_SIZE);
    watch->is_asked = true;
    group_ask_send(ask);
}

mob_status_t group_remove(group_t *room, const frame_id_t *frame) {
    group_id_t id = group_id_of(frame);
    group_watch_t *watch = base_map_get(&room->watches, &id);
    if (watch == NULL) watch = group_watch_new(room, &id);
    if (watch == NULL) return MOB_ENOMEM;
    watch->is_removing = true;
    group_watch_remove(room, watch);
    return MOB_OK;
}

/* ---- jobs ---- */

static bool is_of_job(const group_watch_t *watch, frame_job_t job) {
    return watch->is_home && !watch->is_removing && !watch->spec->detached &&
           watch->spec->job.home == job.home && watch->spec->job.number == job.number;
}

/* Some of the job's groups, and removes them; false: there were none. */
static bool some_remove(group_t *room, frame_job_t job) {
    enum { SOME = 64 };
    group_watch_t *some[SOME];
    size_t count = 0, cursor = 0;
    const void *key;
    void *watch;
    while (count < SOME && base_map_each(&room->watches, &cursor, &key, &watch))
        if (is_of_job(watch, job)) some[count++] = watch;
    for (size_t i = 0; i < count; i++) {
        some[i]->is_removing = true;
        group_watch_remove(room, some[i]);
    }
    return count > 0;
}

void group_job_ended(group_t *room, frame_job_t job) {
    while (some_remove(room, job)) continue;
    if (room->is_leading) group_lead_job_ended(room, job);
}

static void job_ended(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                      base_reader_t *answer) {
    (void)master;
    (void)code;
    (void)answer;
    base_reader_t r = {.at = ask->id.bytes, .left = sizeof ask->id.bytes};
    frame_job_t job = {.home = base_take_number(&r, 8)};
    job.number = (uint32_t)base_take_number(&r, 4);
    group_keep(room, GROUP_FACT_ENDED, &ask->id, 0, 0);
    room->ops->job_written(room->context, job);
}

mob_status_t group_job_end(group_t *room, frame_job_t job) {
    group_id_t id = {0};
    base_writer_t w = {.bytes = id.bytes};
    base_put_number(&w, job.home, 8);
    base_put_number(&w, job.number, 4);
    group_ask_t *ask = group_ask_new(room, group_script_job_end, job_ended, &id, w.size);
    if (ask == NULL) return MOB_ENOMEM;
    base_put_bytes(&ask->arguments, id.bytes, w.size);
    group_ask_send(ask);
    return MOB_OK;
}

/* ---- names ---- */

static void found(group_t *room, const group_ask_t *ask, uint64_t master, group_answer_t code,
                  base_reader_t *answer) {
    (void)master;
    group_id_t id = {0};
    const void *bytes = base_take_bytes(answer, GROUP_ID_SIZE);
    bool is_found = code == GROUP_SAID_OK && bytes != NULL;
    if (is_found) memcpy(id.bytes, bytes, GROUP_ID_SIZE);
    frame_id_t frame = group_id_frame(&id);
    room->ops->found(room->context, ask->attempt, is_found ? MOB_OK : MOB_ENONAME, &frame);
}

mob_status_t group_find(group_t *room, const char *name_space, const char *name, uint64_t request) {
    uint8_t hash[GROUP_NAME_HASH];
    if (*name == 0 || strlen(name) > MOB_NAME_MAX || strlen(name_space) > MOB_NAME_MAX)
        return MOB_EINVAL;
    group_ask_t *ask = group_ask_new(room, group_script_find, found, NULL, sizeof hash);
    if (ask == NULL) return MOB_ENOMEM;
    group_name_hash(name_space, name, hash);
    base_put_bytes(&ask->arguments, hash, sizeof hash);
    ask->attempt = request;
    group_ask_send(ask);
    return MOB_OK;
}
