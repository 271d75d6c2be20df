/* Both are read as they stand each time: that is once for each new demand, and they are short. */
#include "sched/selector.h"

#include <stddef.h>
#include <string.h>

/* A piece of text: not ended by a zero. */
typedef struct {
    const char *start;
    size_t size;
} piece_t;

static bool piece_equals(piece_t a, piece_t b) {
    return a.size == b.size && memcmp(a.start, b.start, a.size) == 0;
}

/* Takes off what comes before the first `mark`, or all of it. */
static piece_t piece_split(piece_t *rest, char mark) {
    const char *at = memchr(rest->start, mark, rest->size);
    piece_t first = {.start = rest->start, .size = at ? (size_t)(at - rest->start) : rest->size};
    size_t passed = first.size + (at != NULL);
    *rest = (piece_t){.start = rest->start + passed, .size = rest->size - passed};
    return first;
}

static piece_t piece_of(const char *text) {
    return (piece_t){.start = text ? text : "", .size = text ? strlen(text) : 0};
}

static bool is_name(piece_t piece) {
    static const char rest[] = "-_./";
    for (size_t i = 0; i < piece.size; i++) {
        char c = piece.start[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        if (!letter && (c == 0 || !strchr(rest, c))) return false;
    }
    return true;
}

bool sched_labels_check(const char *labels) {
    for (piece_t rest = piece_of(labels); rest.size > 0;) {
        piece_t value = piece_split(&rest, ',');
        bool has_value = memchr(value.start, '=', value.size) != NULL;
        piece_t key = piece_split(&value, '=');
        if (!has_value || !key.size || !is_name(key) || !is_name(value)) return false;
    }
    return true;
}

static bool label_find(const char *labels, piece_t key, piece_t *ret_value) {
    for (piece_t rest = piece_of(labels); rest.size > 0;) {
        piece_t value = piece_split(&rest, ','), name = piece_split(&value, '=');
        if (!piece_equals(name, key)) continue;
        *ret_value = value;
        return true;
    }
    return false;
}

typedef enum { HAS, LACKS, IN, NOT_IN, NO_TERM } relation_t;

/* The parts of a term. */
static relation_t term_read(piece_t term, piece_t *ret_key, piece_t *ret_values) {
    *ret_values = (piece_t){.start = "", .size = 0};
    if (term.size > 1 && (term.start[0] == '+' || term.start[0] == '-')) {
        *ret_key = (piece_t){.start = term.start + 1, .size = term.size - 1};
        return term.start[0] == '+' ? HAS : LACKS;
    }
    bool related = memchr(term.start, '=', term.size) != NULL;
    *ret_key = piece_split(&term, '=');
    *ret_values = term;
    bool negated = ret_key->size > 0 && ret_key->start[ret_key->size - 1] == '!';
    ret_key->size -= negated;
    if (!related || !ret_key->size) return NO_TERM;
    return negated ? NOT_IN : IN;
}

static bool term_check(piece_t term) {
    piece_t key, values;
    if (term_read(term, &key, &values) == NO_TERM || !is_name(key)) return false;
    do {
        if (!is_name(piece_split(&values, ';'))) return false;
    } while (values.size > 0);
    return true;
}

static bool term_holds(piece_t term, const char *labels) {
    piece_t key, values, value;
    relation_t relation = term_read(term, &key, &values);
    bool has = label_find(labels, key, &value), among = false;
    if (relation == HAS || relation == LACKS) return has == (relation == HAS);
    do among |= has && piece_equals(piece_split(&values, ';'), value);
    while (has && values.size > 0);
    return among == (relation == IN);
}

static piece_t selector_of(const char *text) {
    piece_t all = piece_of(text);
    return all.size > 0 && (all.start[0] == '!' || all.start[0] == '~')
               ? (piece_t){.start = all.start + 1, .size = all.size - 1}
               : all;
}

bool sched_selector_check(const char *selector) {
    piece_t rest = selector_of(selector);
    do {
        piece_t terms = piece_split(&rest, '|');
        do {
            if (!term_check(piece_split(&terms, '&'))) return false;
        } while (terms.size > 0);
    } while (rest.size > 0);
    return true;
}

static bool terms_hold(piece_t terms, const char *labels) {
    while (terms.size > 0)
        if (!term_holds(piece_split(&terms, '&'), labels)) return false;
    return true;
}

bool sched_selector_matches(const char *selector, const char *labels) {
    if (!selector || selector[0] == '~') return true;
    piece_t rest = selector_of(selector);
    do {
        if (terms_hold(piece_split(&rest, '|'), labels)) return true;
    } while (rest.size > 0);
    return false;
}
