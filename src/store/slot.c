#include "store/slot.h"

uint64_t store_slot_open(store_slot_t *slot) {
    uint64_t generation = atomic_load_explicit(&slot->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&slot->generation, generation, memory_order_relaxed);
    /* release: a process that sees PENDING sees its generation */
    atomic_store_explicit(&slot->word, STORE_PENDING, memory_order_release);
    return generation;
}

/* `more`: further bits of the sealed word. */
static uint64_t seal(store_slot_t *slot, uint64_t more) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_relaxed);
    for (;;) {
        if ((word & STORE_STATE) != STORE_PENDING) return 0;
        uint64_t sealed = STORE_SEALED |
                          (word & (STORE_DROPPED | STORE_ESCAPED | STORE_SEEN | STORE_FOREIGN)) |
                          more;
        /* release: meta and value come first. acquire: each waiter sets its own bit, and looks
         * again after that. */
        if (atomic_compare_exchange_weak_explicit(&slot->word, &word, sealed, memory_order_acq_rel,
                                                  memory_order_relaxed))
            return word;
    }
}

uint64_t store_slot_seal(store_slot_t *slot, bool escaped) {
    return seal(slot, escaped ? STORE_ESCAPED : 0);
}

uint64_t store_slot_seal_away(store_slot_t *slot) { return seal(slot, STORE_ESCAPED | STORE_AWAY); }

uint64_t store_slot_seal_away_given(store_slot_t *slot, uint32_t reader) {
    return seal(slot,
                STORE_ESCAPED | STORE_AWAY | STORE_GIVEN | (uint64_t)reader << STORE_WAITER_SHIFT);
}

uint64_t store_slot_seal_given(store_slot_t *slot, bool escaped, uint32_t reader) {
    return seal(slot, (escaped ? STORE_ESCAPED : 0) | STORE_GIVEN |
                          (uint64_t)reader << STORE_WAITER_SHIFT);
}

bool store_slot_abandon(store_slot_t *slot) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    while ((word & STORE_STATE) == STORE_PENDING)
        if (atomic_compare_exchange_weak_explicit(&slot->word, &word, word | STORE_DROPPED,
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    return false;
}

static bool bit_set(store_slot_t *slot, uint64_t bit) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    for (;;) {
        if ((word & STORE_STATE) != STORE_PENDING) return false;
        if (word & bit) return true;
        if (atomic_compare_exchange_weak_explicit(&slot->word, &word, word | bit,
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    }
}

bool store_slot_wait(store_slot_t *slot, uint32_t number) {
    return bit_set(slot, number >= 1 && number <= STORE_WAITER_BITS
                             ? (uint64_t)1 << (STORE_WAITER_SHIFT + number - 1)
                             : STORE_CROWD);
}

bool store_slot_watch(store_slot_t *slot) { return bit_set(slot, STORE_WATCHED); }

store_drop_t store_slot_drop(store_slot_t *slot, bool is_daemon) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    for (;;) {
        if ((word & STORE_ESCAPED) && !is_daemon) return STORE_DROP_ASK;
        bool pending = (word & STORE_STATE) == STORE_PENDING;
        if (!pending && !is_daemon && store_is_untold(word, slot->meta)) {
            if (atomic_compare_exchange_weak_explicit(&slot->word, &word, word | STORE_ESCAPED,
                                                      memory_order_acq_rel, memory_order_acquire))
                return STORE_DROP_ASK;
            continue;
        }
        /* The daemon never moves a value that lies in the slot itself, nor one that it frees. */
        if (!pending && (is_daemon || store_meta_inline(slot->meta))) return STORE_DROP_FREE;
        if (atomic_compare_exchange_weak_explicit(&slot->word, &word,
                                                  word | (pending ? STORE_DROPPED : STORE_GOING),
                                                  memory_order_acq_rel, memory_order_acquire))
            return pending ? STORE_DROP_LATER : STORE_DROP_FREE;
    }
}

bool store_slot_escape(store_slot_t *slot) {
    uint64_t word = atomic_load_explicit(&slot->word, memory_order_acquire);
    while ((word & STORE_STATE) == STORE_SEALED && !(word & (STORE_DROPPED | STORE_GOING))) {
        if (word & STORE_ESCAPED) return true;
        if (atomic_compare_exchange_weak_explicit(&slot->word, &word, word | STORE_ESCAPED,
                                                  memory_order_acq_rel, memory_order_acquire))
            return true;
    }
    return false;
}

bool store_slot_leave(store_slot_t *slot) {
    uint64_t word = atomic_load(&slot->word);
    while ((word & (STORE_STATE | STORE_ESCAPED | STORE_DROPPED | STORE_AWAY)) ==
           (STORE_SEALED | STORE_ESCAPED))
        if (atomic_compare_exchange_weak(&slot->word, &word, word | STORE_AWAY)) return true;
    return false;
}
