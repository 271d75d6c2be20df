/* Runtime environments as numbers. The daemon keeps each description once a job. */
#include <stdlib.h>

#include "client/client.h"
#include "wire/setup.h"

static mob_status_t environment_ask(mob_client_t *c, const void *bytes, size_t size, bool at_once,
                                    uint32_t *ret_number) {
    wire_message_t request = {.site = {WIRE_ENVIRONMENT, .at_once = at_once, .size = size}}, answer;
    mob_status_t status;
    do {
        pthread_mutex_lock(&c->mutex);
        status = client_ask_with_space(c, &request, bytes, size, size + 1, &answer, NULL);
        if (status == MOB_OK && answer.answer.status != MOB_OK) status = client_refused(c, &answer);
        pthread_mutex_unlock(&c->mutex);
    } while (status == MOB_ESPACE && (status = mob_space_await(c)) == MOB_OK);
    if (status == MOB_OK) *ret_number = (uint32_t)answer.answer.value;
    return status;
}

mob_status_t mob_environment(mob_client_t *c, const mob_environment_t *e, uint32_t *ret_number) {
    mob_status_t status = client_check(c);
    if (status != MOB_OK) return status;
    wire_setup_t setup = {
        .argv = e->zygote_argv, .env = e->env, .inner = e->setup, .inner_size = e->setup_size};
    size_t size = wire_setup_size(&setup);
    if (size == SIZE_MAX)
        return base_fail(MOB_ELIMIT, "a runtime environment may have %d bytes", WIRE_SETUP_MAX);
    void *bytes = malloc(size);
    if (bytes == NULL) return MOB_ENOMEM;
    wire_setup_write(&setup, bytes);
    status = environment_ask(c, bytes, size, e->at_once, ret_number);
    free(bytes);
    return status;
}

void mob_environment_use(mob_client_t *c, uint32_t number) { c->environment = number; }
