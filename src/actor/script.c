/*
 * Two kinds of keys: an actor's facts, by its id with the home first, so that those of one home lie
 * together; and a name's last owner, an id. The name is free if that actor has ended.
 *
 * Every decision compares the epoch that the asker believes in with the one that is kept. So there
 * is one authority, whoever asks: a home that is buried and does not know it yet, or one of two
 * leaders, finds that the epoch is another one.
 *
 * An end is kept for a while, so that what is said of an older time does not bring the actor back.
 *
 * Of two actors that say to a new master that they have a name, the one with the newer epoch has
 * it: it took the name when the other one had ended, and that end was lost. So whoever takes a name
 * gets an epoch above its last owner's, by whatever clock that was minted.
 */
#include "actor/script.h"

#include <stdio.h>

#include "base/rule.h"

enum { END_KEPT_MS = 600000, HOMES_AT_ONCE = 256, IDS_AT_ONCE = 128 };

static size_t say(void *answer, actor_say_t what) {
    *(uint8_t *)answer = (uint8_t)what;
    return 1;
}

static size_t say_epoch(void *answer, uint64_t epoch) {
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, ACTOR_SAY_OK, 1);
    base_put_number(&w, epoch, 8);
    return w.size;
}

static size_t say_facts(void *answer, const actor_facts_t *facts) {
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, ACTOR_SAY_OTHER, 1);
    actor_facts_put(&w, facts);
    return w.size;
}

static void id_name(char key[SCRIPT_KEY_MAX], frame_id_t id) {
    snprintf(key, SCRIPT_KEY_MAX, "actor:id:%016llx%08x%016llx", (unsigned long long)id.home,
             (unsigned)id.number, (unsigned long long)id.generation);
}

static void name_name(char key[SCRIPT_KEY_MAX], const uint8_t name[ACTOR_NAME_SIZE]) {
    int at = snprintf(key, SCRIPT_KEY_MAX, "actor:name:");
    for (int i = 0; i < ACTOR_NAME_SIZE; i++, at += 2)
        snprintf(key + at, (size_t)(SCRIPT_KEY_MAX - at), "%02x", name[i]);
}

/* What is kept of an actor, or why it can't be told. The value is copied: a get borrows. */
typedef struct {
    actor_facts_t facts;
    bool is_there, is_poisoned;
    uint8_t value[SCRIPT_VALUE_MAX];
} kept_t;

static void kept_get(const script_keys_t *keys, frame_id_t id, kept_t *ret_kept) {
    char key[SCRIPT_KEY_MAX];
    id_name(key, id);
    size_t size;
    const void *value = keys->get(keys->context, key, &size);
    ret_kept->is_there = ret_kept->is_poisoned = false;
    if (value == NULL) return;
    if (size <= sizeof ret_kept->value) {
        memcpy(ret_kept->value, value, size);
        base_reader_t r = {.at = ret_kept->value, .left = size};
        ret_kept->is_there =
            actor_facts_take(&r, &ret_kept->facts) && actor_id_equal(ret_kept->facts.id, id);
    }
    ret_kept->is_poisoned = !ret_kept->is_there;
}

static void facts_set(const script_keys_t *keys, const actor_facts_t *facts) {
    char key[SCRIPT_KEY_MAX];
    uint8_t value[SCRIPT_VALUE_MAX];
    base_writer_t w = {.bytes = value};
    id_name(key, facts->id);
    actor_facts_put(&w, facts);
    keys->set(keys->context, key, value, w.size, facts->at == ACTOR_AT_END ? END_KEPT_MS : 0);
}

/* Who had the name last, if that is known. */
static bool owner_get(const script_keys_t *keys, const uint8_t name[ACTOR_NAME_SIZE],
                      kept_t *ret_owner) {
    char key[SCRIPT_KEY_MAX];
    name_name(key, name);
    size_t size;
    const void *value = keys->get(keys->context, key, &size);
    if (value == NULL) return false;
    base_reader_t r = {.at = value, .left = size};
    kept_get(keys, actor_id_take(&r), ret_owner);
    return ret_owner->is_there || ret_owner->is_poisoned;
}

static void owner_set(const script_keys_t *keys, const actor_facts_t *facts, uint64_t ttl_ms) {
    char key[SCRIPT_KEY_MAX];
    actor_key_t id = actor_key(facts->id);
    name_name(key, facts->name);
    keys->set(keys->context, key, &id, sizeof id, ttl_ms);
}

/* Another actor that has the name, and has not ended, as far as is known. */
static bool name_is_anothers(const script_keys_t *keys, const actor_facts_t *facts,
                             kept_t *ret_owner) {
    if ((facts->flags & ACTOR_NAMED) == 0 || !owner_get(keys, facts->name, ret_owner)) return false;
    if (ret_owner->is_poisoned) return true;
    return ret_owner->facts.at != ACTOR_AT_END && !actor_id_equal(ret_owner->facts.id, facts->id);
}

/* Another actor has the name, or has had it since. */
static bool name_has_passed(const script_keys_t *keys, const actor_facts_t *facts) {
    kept_t owner;
    if (!owner_get(keys, facts->name, &owner)) return false;
    return name_is_anothers(keys, facts, &owner) || owner.facts.epoch > facts->epoch;
}

static void end_set(const script_keys_t *keys, const actor_facts_t *facts) {
    actor_facts_t end = *facts;
    end.at = ACTOR_AT_END;
    end.spec_size = 0;
    facts_set(keys, &end);
    if ((facts->flags & ACTOR_NAMED) == 0) return;
    if (BASE_RULE(ACTOR_NAME_COMPARE) && name_has_passed(keys, facts)) return;
    owner_set(keys, facts, END_KEPT_MS);
}

/* Nobody else has the name now. False: another one has it, and keeps it. */
static bool name_claim(const script_keys_t *keys, const actor_facts_t *facts) {
    kept_t owner;
    if (!name_is_anothers(keys, facts, &owner)) return true;
    if (owner.is_poisoned || owner.facts.epoch >= facts->epoch || !BASE_RULE(ACTOR_NAME_NEWER))
        return false;
    end_set(keys, &owner.facts);
    return true;
}

/* A fail-over may have lost the newest number, but not the time. */
static uint64_t epoch_mint(const script_keys_t *keys, uint64_t last) {
    return BASE_RULE(ACTOR_EPOCH_TIME) && last + 1 < keys->now_ms ? keys->now_ms : last + 1;
}

static bool is_same(const actor_request_t *a, const actor_request_t *b) {
    return a->node == b->node && a->number == b->number;
}

/* Whether something may be decided; then what is asked and what is kept. Else the answer is there.
 */
static bool can_decide(const script_keys_t *keys, const void *args, size_t size,
                       actor_facts_t *ret_asked, kept_t *ret_kept, void *answer) {
    base_reader_t r = {.at = args, .left = size};
    uint64_t master = base_take_number(&r, 8);
    if (BASE_RULE(ACTOR_SETTLED) && master != keys->master) {
        say(answer, ACTOR_SAY_UNSETTLED);
        return false;
    }
    bool makes_sense = actor_facts_take(&r, ret_asked);
    if (makes_sense) kept_get(keys, ret_asked->id, ret_kept);
    if (makes_sense && !ret_kept->is_poisoned) return true;
    say(answer, ACTOR_SAY_POISONED);
    return false;
}

size_t actor_script_take(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    actor_facts_t asked;
    kept_t kept;
    if (!can_decide(keys, args, size, &asked, &kept, answer)) return 1;
    if (kept.is_there) { /* asked before; its epoch may be a leader's by now */
        bool is_moved = BASE_RULE(ACTOR_TAKE_COMPARE) && kept.facts.at != ACTOR_AT_NONE;
        return is_moved ? say_facts(answer, &kept.facts) : say_epoch(answer, kept.facts.epoch);
    }
    kept_t owner;
    if (name_is_anothers(keys, &asked, &owner)) return say(answer, ACTOR_SAY_TAKEN);
    bool had_owner = owner_get(keys, asked.name, &owner);
    asked.epoch = epoch_mint(keys, had_owner ? owner.facts.epoch : 0);
    asked.at = ACTOR_AT_NONE;
    owner_set(keys, &asked, 0);
    facts_set(keys, &asked);
    return say_epoch(answer, asked.epoch);
}

size_t actor_script_move(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    actor_facts_t asked;
    kept_t kept;
    if (!can_decide(keys, args, size, &asked, &kept, answer)) return 1;
    if (!kept.is_there && asked.epoch != 0) return say(answer, ACTOR_SAY_NONE);
    if (kept.is_there) {
        if (is_same(&kept.facts.request, &asked.request))
            return say_epoch(answer, kept.facts.epoch);
        bool is_other = BASE_RULE(ACTOR_EPOCH_COMPARE) && kept.facts.epoch != asked.epoch;
        if (is_other || kept.facts.at == ACTOR_AT_END || (kept.facts.flags & ACTOR_KILLED) != 0)
            return say_facts(answer, &kept.facts);
        if (kept.facts.epoch > asked.epoch) asked.epoch = kept.facts.epoch;
    }
    asked.epoch = epoch_mint(keys, asked.epoch);
    asked.at = ACTOR_AT_SENT;
    facts_set(keys, &asked);
    return say_epoch(answer, asked.epoch);
}

/* Whether the actor is in the epoch, at the node that is asked for; else the answer is there. */
static bool is_current(const actor_facts_t *asked, const kept_t *kept, void *answer,
                       size_t *ret_size) {
    if (kept->is_there && kept->facts.epoch == asked->epoch && kept->facts.at != ACTOR_AT_END)
        return true;
    *ret_size = kept->is_there ? say_facts(answer, &kept->facts) : say(answer, ACTOR_SAY_NONE);
    return false;
}

size_t actor_script_begin(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    actor_facts_t asked;
    kept_t kept;
    size_t answer_size;
    if (!can_decide(keys, args, size, &asked, &kept, answer)) return 1;
    if (!is_current(&asked, &kept, answer, &answer_size)) return answer_size;
    actor_facts_t *f = &kept.facts;
    if (f->at == ACTOR_AT_BEGUN && f->node == asked.node && is_same(&f->begun, &asked.begun))
        return say_epoch(answer, f->epoch);
    if (f->at != ACTOR_AT_SENT || f->node != asked.node || (f->flags & ACTOR_KILLED) != 0)
        return say_facts(answer, f);
    f->at = ACTOR_AT_BEGUN;
    f->begun = asked.begun;
    facts_set(keys, f);
    return say_epoch(answer, f->epoch);
}

size_t actor_script_alive(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    actor_facts_t asked;
    kept_t kept;
    size_t answer_size;
    if (!can_decide(keys, args, size, &asked, &kept, answer)) return 1;
    if (!is_current(&asked, &kept, answer, &answer_size)) return answer_size;
    kept.facts.at = ACTOR_AT_ALIVE;
    facts_set(keys, &kept.facts);
    return say_epoch(answer, kept.facts.epoch);
}

size_t actor_script_kill(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    actor_facts_t asked;
    kept_t kept;
    if (!can_decide(keys, args, size, &asked, &kept, answer)) return 1;
    if (kept.is_there && kept.facts.at != ACTOR_AT_END) {
        kept.facts.flags |= ACTOR_KILLED;
        facts_set(keys, &kept.facts);
    }
    return say_epoch(answer, asked.epoch);
}

size_t actor_script_end(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    actor_facts_t asked;
    kept_t kept;
    if (!can_decide(keys, args, size, &asked, &kept, answer)) return 1;
    if (kept.is_there && kept.facts.epoch != asked.epoch && kept.facts.at != ACTOR_AT_END)
        return say_facts(answer, &kept.facts);
    end_set(keys, &asked);
    return say_epoch(answer, asked.epoch);
}

/* Whether what is kept is older than what is said. */
static bool is_older(const actor_facts_t *kept, const actor_facts_t *said) {
    if (kept->at == ACTOR_AT_END || said->at == ACTOR_AT_END) return kept->at != ACTOR_AT_END;
    return kept->epoch != said->epoch ? kept->epoch < said->epoch : kept->at < said->at;
}

size_t actor_script_say(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    base_reader_t r = {.at = args, .left = size};
    actor_facts_t said;
    kept_t kept;
    (void)base_take_number(&r, 8); /* said to whichever master there is */
    if (!actor_facts_take(&r, &said)) return say(answer, ACTOR_SAY_POISONED);
    kept_get(keys, said.id, &kept);
    if (kept.is_poisoned) return say(answer, ACTOR_SAY_POISONED);
    uint8_t killed = kept.is_there ? kept.facts.flags & ACTOR_KILLED : 0;
    if (kept.is_there && !is_older(&kept.facts, &said)) {
        if (kept.facts.at == ACTOR_AT_END || (said.flags & ACTOR_KILLED) == killed)
            return say_epoch(answer, kept.facts.epoch);
        killed |= said.flags & ACTOR_KILLED;
        said = kept.facts;
    }
    said.flags |= killed;
    if (said.at == ACTOR_AT_END) {
        end_set(keys, &said);
        return say_epoch(answer, said.epoch);
    }
    if (!name_claim(keys, &said)) return say(answer, ACTOR_SAY_TAKEN);
    if ((said.flags & ACTOR_NAMED) != 0) owner_set(keys, &said, 0);
    facts_set(keys, &said);
    return say_epoch(answer, said.epoch);
}

/* ---- questions ---- */

static bool can_tell(const script_keys_t *keys, base_reader_t *r, void *answer) {
    uint64_t master = base_take_number(r, 8);
    if (!BASE_RULE(ACTOR_SETTLED) || master == keys->master) return true;
    say(answer, ACTOR_SAY_UNSETTLED);
    return false;
}

size_t actor_script_read(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    base_reader_t r = {.at = args, .left = size};
    kept_t kept;
    if (!can_tell(keys, &r, answer)) return 1;
    kept_get(keys, actor_id_take(&r), &kept);
    if (kept.is_poisoned) return say(answer, ACTOR_SAY_POISONED);
    return kept.is_there ? say_facts(answer, &kept.facts) : say(answer, ACTOR_SAY_NONE);
}

size_t actor_script_find(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    base_reader_t r = {.at = args, .left = size};
    kept_t owner;
    if (!can_tell(keys, &r, answer)) return 1;
    const uint8_t *name = base_take_bytes(&r, ACTOR_NAME_SIZE);
    if (name == NULL || !owner_get(keys, name, &owner)) return say(answer, ACTOR_SAY_NONE);
    if (owner.is_poisoned) return say(answer, ACTOR_SAY_POISONED);
    if (owner.facts.at == ACTOR_AT_END) return say(answer, ACTOR_SAY_NONE);
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, ACTOR_SAY_OK, 1);
    actor_id_put(&w, owner.facts.id);
    base_put_number(&w, owner.facts.flags, 1);
    return w.size;
}

size_t actor_script_homes(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    base_reader_t r = {.at = args, .left = size};
    if (!can_tell(keys, &r, answer)) return 1;
    uint64_t home = base_take_number(&r, 8);
    char after[SCRIPT_KEY_MAX];
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, ACTOR_SAY_OK, 1);
    for (int i = 0; i < HOMES_AT_ONCE; i++) {
        snprintf(after, sizeof after, "actor:id:%016llx~", (unsigned long long)home);
        const char *key = keys->next(keys->context, "actor:id:", after);
        unsigned long long next;
        if (key == NULL || sscanf(key, "actor:id:%16llx", &next) != 1) break;
        home = next;
        base_put_number(&w, home, 8);
    }
    return w.size;
}

/* One actor of a dead home. */
static void sweep_one(const script_keys_t *keys, const actor_facts_t *facts, base_writer_t *w) {
    if (facts->at == ACTOR_AT_END) return;
    if ((facts->flags & ACTOR_DETACHED) != 0)
        actor_id_put(w, facts->id);
    else
        end_set(keys, facts);
}

size_t actor_script_sweep(const script_keys_t *keys, const void *args, size_t size, void *answer) {
    base_reader_t r = {.at = args, .left = size};
    if (!can_tell(keys, &r, answer)) return 1;
    frame_id_t id = actor_id_take(&r);
    char prefix[SCRIPT_KEY_MAX], after[SCRIPT_KEY_MAX];
    snprintf(prefix, sizeof prefix, "actor:id:%016llx", (unsigned long long)id.home);
    id_name(after, id);
    base_writer_t w = {.bytes = answer};
    base_put_number(&w, ACTOR_SAY_OK, 1);
    while (w.size < 1 + (size_t)IDS_AT_ONCE * ACTOR_ID_SIZE) {
        const char *key = keys->next(keys->context, prefix, after);
        if (key == NULL) break;
        snprintf(after, sizeof after, "%s", key);
        unsigned long long home, generation;
        unsigned number;
        kept_t kept = {0};
        if (sscanf(key, "actor:id:%16llx%8x%16llx", &home, &number, &generation) != 3) continue;
        kept_get(keys, (frame_id_t){home, number, generation}, &kept);
        if (kept.is_there) sweep_one(keys, &kept.facts, &w);
    }
    return w.size;
}
