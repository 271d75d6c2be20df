/*
 * Labels of a node, and what is asked of them.
 *
 * Labels are "key=value,key=value". A selector is a list of alternatives, parted by '|'; each is a
 * list of terms, parted by '&', all of which must hold:
 *
 *   key=a;b    the node has the label, with one of these values
 *   key!=a;b   it has the label with none of these values, or has not the label
 *   +key       it has the label
 *   -key       it has not
 *
 * "!" before the whole says that what asks must fail where no node is like that, instead of
 * waiting for one (MUST). "~" says that any node will do, but one like that is better.
 */
#ifndef SCHED_SELECTOR_H
#define SCHED_SELECTOR_H

#include <stdbool.h>

/* Whether they are well written. */
bool sched_labels_check(const char *labels);
bool sched_selector_check(const char *selector);
/* Both may be NULL: no selector, and one that only prefers some nodes, matches every node. */
bool sched_selector_matches(const char *selector, const char *labels);

#endif
