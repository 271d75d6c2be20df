/*
 * A flow: the items of one generator, on their way from the worker that makes them to the process
 * that reads them. No daemon is on the way.
 *
 * What it consists of:
 *
 *   the flow's slot   an ordinary result of the task, opened by the reader, sealed when the task is
 *                     done. While it is PENDING its value is store_flow_t: what both ends share. So
 *                     it lives as long as the task or the reader needs it, by the rules of results
 *   items             slots, each a value like any other. The first is the reader's own. The maker
 *                     takes the others from its own slots. An item that is SEALED names the next
 *                     one (`next`), so the list has no length
 *   the tail          the one item that is PENDING: the next to be made. links[made % 2] names it
 *
 * Making item n, by the worker that holds the task's record:
 *
 *   1  opens the slot of item n + 1, with `next` 0
 *   2  writes value, meta and `next` of item n, which is PENDING
 *   3  links[(n + 1) % 2] = item n + 1
 *   4  made = n + 1                            release: this commits the item
 *   5  PENDING -> SEALED|GIVEN(reader)         and wakes whoever waits for it
 *
 * If item n is the exception that ended the generator, step 4 sets RAISED too: should the worker
 * die before DONE, the next run has nothing left to give out.
 *
 * The first item is not GIVEN: the reader owns its slot. The end of the flow is written into the
 * tail (STORE_FORMAT_END) before the record's DONE and sealed after it, as results are. A failure
 * that the daemon tells is sealed in the tail too, with `next` 0.
 *
 * The reader holds a count of the first item that it has not taken, its head: PENDING or SEALED. It
 * waits for the head as for any object. When the head is SEALED, the reader gives it out as a
 * reference, and holds the item that `next` names. Nobody else knows the tail's reference, so it
 * is never an argument and never inside of a value.
 *
 * Who frees an item: the reader, as an owner does: it is GIVEN to it. Freeing is one store of FREE,
 * and the slot's owner finds it in its next sweep, as with records. Once an item is ESCAPED, the
 * daemon counts who holds it. The holder that has not said so is then the reader, not the owner.
 *
 * The reader closes the flow: it sets CLOSED, frees what is SEALED, and makes the tail DROPPED by a
 * compare-and-swap against the seal. One of the two wins:
 *   - DROPPED is first: the maker's seal finds it. The maker makes item n + 1 DROPPED too, and then
 *     frees item n. So the tail of a closed flow is DROPPED, and its maker frees all that it makes.
 *   - the seal is first: the reader finds SEALED, frees the item, and goes on with the next.
 * CLOSED makes the maker stop at its next item. It decides nothing.
 *
 * Limit: with `limit` the maker waits after an item while made - taken >= limit. It sets WAITS,
 * then looks at `taken`. The reader stores `taken`, then looks at WAITS, and rings the maker's
 * bell. Both are sequentially consistent, so one of them sees the other. While it waits, the maker
 * lends its CPU.
 *
 * Deaths, at any instruction:
 *
 * - The maker, before 4: the item was not made. Its value goes with the dead worker's memory; the
 *   slot of item n + 1, which nothing names, with its slots.
 * - The maker, after 4: the daemon does step 5 in its place (node/flow.c). It knows item n from
 *   links[(n + 1) % 2], or rather what stands there: if step 3 of item n + 1 was done, that is the
 *   next slot. So it goes on only if the `next` of what it finds there names the tail. Items that
 *   are SEALED stay: they are GIVEN to the reader. Then the task is run again from its beginning,
 *   and the new maker leaves out as many items as `made` says; or it fails, and so does the tail.
 * - The reader: the daemon closes its flows in its place, and then frees all that was GIVEN to it.
 *   Makers that seal later find DROPPED. The reader's number is not given out before the tasks that
 *   it submitted are done.
 * - Both: the daemon does the one, then the other.
 * - The daemon: the session is over.
 *
 * Memory: `next`, the links and the item's value are published by `made` (release) for the daemon,
 * and by the seal (acquire-release) for the reader.
 *
 * Many nodes: a task may run elsewhere. There the flow is between the worker and its daemon, which
 * is the reader, and sends each item with its number (node/cluster/outflow.c). Here the daemon is
 * the maker, by the five steps, and leaves out what there is by `made` (node/cluster/inflow.c). So
 * long FAR stands in `made`, and the reader tells the daemon when it has stored `taken`, instead of
 * ringing a bell: the daemon stores FAR, then looks at `taken`, as with WAITS. Links are slots and
 * never travel.
 */
#ifndef STORE_FLOW_H
#define STORE_FLOW_H

#include "store/slot.h"

#define STORE_WAITS  (UINT64_C(1) << 63) /* in `made`: the maker waits for the reader */
#define STORE_RAISED (UINT64_C(1) << 62) /* in `made`: the last item is the task's error */
#define STORE_FAR    (UINT64_C(1) << 61) /* in `made`: the task is at another node */
#define STORE_CLOSED (UINT64_C(1) << 63) /* in `taken`: the reader is gone */
/* The format of what is no item: the end. */
enum { STORE_FORMAT_END = 0x3f };
enum { STORE_FLOW_LIMIT = (1 << 20) - 1 }; /* the largest limit */

/* Reader: before the task is published. `limit` 0: none. */
static inline void store_flow_init(store_flow_t *flow, uint32_t reader, uint32_t limit,
                                   mob_ref_t first) {
    flow->reader = limit << 12 | reader;
    atomic_store_explicit(&flow->made, 0, memory_order_relaxed);
    atomic_store_explicit(&flow->taken, 0, memory_order_relaxed);
    flow->links[0] = store_link(first);
    flow->links[1] = 0;
}
static inline uint32_t store_flow_reader(const store_flow_t *flow) {
    return flow->reader & (STORE_CLIENTS - 1);
}
static inline uint32_t store_flow_limit(const store_flow_t *flow) { return flow->reader >> 12; }
static inline uint64_t store_flow_made(const store_flow_t *flow) {
    return atomic_load_explicit(&flow->made, memory_order_acquire) & (STORE_FAR - 1);
}
static inline bool store_flow_is_closed(const store_flow_t *flow) {
    return atomic_load_explicit(&flow->taken, memory_order_relaxed) & STORE_CLOSED;
}
static inline bool store_meta_is_end(uint64_t meta) {
    return (unsigned)store_meta_format(meta) == STORE_FORMAT_END;
}
/* Whether item n - 1 leaves space for item n. Sequentially consistent: the maker has said that it
 * waits. */
static inline bool store_flow_has_room(const store_flow_t *flow) {
    uint64_t made = atomic_load(&flow->made) & (STORE_FAR - 1);
    uint64_t taken = atomic_load(&flow->taken);
    return store_flow_limit(flow) == 0 || (taken & STORE_CLOSED) ||
           made - taken < store_flow_limit(flow);
}

/* What a link names: the slot is there, and has that generation. False: it has another object. */
static inline bool store_link_ref(const store_slot_t *slots, uint64_t link, mob_ref_t *ret_ref) {
    uint32_t index = store_link_slot(link);
    if (index == 0) return false;
    uint64_t generation = atomic_load_explicit(&slots[index].generation, memory_order_relaxed);
    if ((generation & 0xffffffffff) != (link & 0xffffffffff)) return false;
    *ret_ref = (mob_ref_t){.slot = index, .generation = generation};
    return true;
}

#endif
