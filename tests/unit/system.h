/* A whole system as a test's setup and teardown; the test's state is its client. */
#ifndef UNIT_SYSTEM_H
#define UNIT_SYSTEM_H

#include "mobula.h"

static inline int system_begin(const mob_config_t *config, void **state) {
    mob_status_t status = mob_init(config, (mob_client_t **)state);
    if (status != MOB_OK)
        print_error("mob_init: %s: %s\n", mob_status_text(status), mob_last_error());
    return status != MOB_OK;
}

static inline int system_stop(void **state) {
    mob_shutdown(*state);
    return 0;
}

#endif
