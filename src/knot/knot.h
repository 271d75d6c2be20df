/*
 * Things that wait for each other, and which of them can never go on.
 *
 * A thing goes on once so many of the things that it needs have gone on, and each amount that it
 * asks for is free. A thing holds amounts of resources until it has gone on, and then gives them
 * back. A thing that needs nothing and asks for nothing goes on at once. What never goes on, in
 * whichever order the others do, is tied.
 *
 * One thread. Calls that add things can't fail: without memory for them, nothing is found tied.
 */
#ifndef KNOT_KNOT_H
#define KNOT_KNOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct knot knot_t;

/* NULL: no memory. */
knot_t *knot_new(void);
void knot_free(knot_t *knot); /* NULL is fine */

/* A resource of which there is so much in all; its number. */
uint32_t knot_resource_add(knot_t *knot, int64_t total);
/* A thing that goes on once `needed` of the things that it needs have; its number. */
uint32_t knot_thing_add(knot_t *knot, uint32_t needed);
/* The thing needs the other one. `thing` and `other` are numbers of things that were added. */
void knot_need(knot_t *knot, uint32_t thing, uint32_t other);
void knot_ask(knot_t *knot, uint32_t thing, uint32_t resource, int64_t amount);
void knot_hold(knot_t *knot, uint32_t thing, uint32_t resource, int64_t amount);

/* Once, after everything was added: how many are tied. */
size_t knot_tie(knot_t *knot);
/* After that. */
bool knot_is_tied(const knot_t *knot, uint32_t thing);

#endif
