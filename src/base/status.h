/* Statuses are public: mobula.h. This adds the words for mob_last_error. */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include "mobula.h"

/* Notes what went wrong for mob_last_error and returns `status`: `return base_fail(MOB_ESYS, "mmap:
 * %s", ...)`. */
__attribute__((format(printf, 2, 3))) mob_status_t base_fail(mob_status_t status,
                                                             const char *format, ...);
/* Nothing has gone wrong yet in this thread. */
void base_fail_clear(void);

#endif
