/* A line a rule, sorted by room: see rule.h. No include guard: it is read more than once. */

/* link */

/* member */

/* refs */

/* place */

/* pull */

/* actor */

/* group */
