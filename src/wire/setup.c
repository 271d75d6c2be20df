/*
 * Layout: head_t, then the strings with their zeros in the order of head_t.counts (folder,
 * namespace, entrypoint; argv; env; preload), then the part for the workers. A reader counts zeros:
 * each string ends within the bytes, and there are just as many as the head says.
 */
#include "wire/setup.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

enum { SETUP_MAGIC = 0x4d4f424a, SINGLES = 3, LISTS = 3 };

typedef struct {
    uint32_t magic, log_to_driver;
    uint32_t counts[LISTS]; /* strings of argv, env, preload */
    uint32_t text_size;     /* of all strings */
    uint64_t inner_size;
} head_t;
_Static_assert(sizeof(head_t) == 32, "in a memfd");

static const char *const *list_of(const wire_setup_t *s, int list) {
    return list == 0 ? s->argv : list == 1 ? s->env : s->preload;
}

static const char *single_of(const wire_setup_t *s, int single) {
    const char *text = single == 0 ? s->folder : single == 1 ? s->name_space : s->entrypoint;
    return text != NULL ? text : "";
}

static void head_make(const wire_setup_t *s, head_t *ret_head, size_t *ret_text) {
    *ret_head = (head_t){.magic = SETUP_MAGIC, .log_to_driver = s->log_to_driver};
    ret_head->inner_size = s->inner_size;
    *ret_text = 0;
    for (int i = 0; i < SINGLES; i++) *ret_text += strlen(single_of(s, i)) + 1;
    for (int l = 0; l < LISTS; l++)
        for (const char *const *t = list_of(s, l); t != NULL && *t != NULL; t++) {
            ret_head->counts[l]++;
            *ret_text += strlen(*t) + 1;
        }
    ret_head->text_size = (uint32_t)*ret_text;
}

size_t wire_setup_size(const wire_setup_t *s) {
    head_t head;
    size_t text;
    head_make(s, &head, &text);
    if (text > WIRE_SETUP_MAX || s->inner_size > WIRE_SETUP_MAX) return SIZE_MAX;
    size_t size = sizeof head + text + s->inner_size;
    return size <= WIRE_SETUP_MAX ? size : SIZE_MAX;
}

static char *string_write(char *at, const char *text) {
    size_t size = strlen(text) + 1;
    memcpy(at, text, size);
    return at + size;
}

void wire_setup_write(const wire_setup_t *s, void *ret_bytes) {
    head_t head;
    size_t text;
    char *at = (char *)ret_bytes + sizeof head;
    head_make(s, &head, &text);
    memcpy(ret_bytes, &head, sizeof head);
    for (int i = 0; i < SINGLES; i++) at = string_write(at, single_of(s, i));
    for (int l = 0; l < LISTS; l++)
        for (const char *const *t = list_of(s, l); t != NULL && *t != NULL; t++)
            at = string_write(at, *t);
    if (s->inner_size > 0) memcpy(at, s->inner, s->inner_size);
}

static mob_status_t head_read(const void *bytes, size_t size, head_t *ret_head) {
    if (size >= sizeof *ret_head) memcpy(ret_head, bytes, sizeof *ret_head);
    if (size < sizeof *ret_head || ret_head->magic != SETUP_MAGIC ||
        ret_head->text_size > size - sizeof *ret_head ||
        ret_head->inner_size != size - sizeof *ret_head - ret_head->text_size)
        return base_fail(MOB_EPROTO, "a job's setup makes no sense");
    return MOB_OK;
}

mob_status_t wire_setup_inner(const void *bytes, size_t size, const void **ret_inner,
                              size_t *ret_size) {
    head_t head;
    mob_status_t status = head_read(bytes, size, &head);
    if (status != MOB_OK) return status;
    *ret_inner = (const char *)bytes + sizeof head + head.text_size;
    *ret_size = head.inner_size;
    return MOB_OK;
}

/* Finds the next string; NULL: it does not end within the text. */
static const char *string_read(const char **at, const char *end) {
    const char *text = *at, *zero = memchr(text, 0, (size_t)(end - text));
    if (zero == NULL) return NULL;
    *at = zero + 1;
    return text;
}

static bool lists_read(const head_t *head, const char *at, const char *end, wire_setup_t *s,
                       const char **slots) {
    const char **singles[SINGLES] = {&s->folder, &s->name_space, &s->entrypoint};
    const char *const **lists[LISTS] = {&s->argv, &s->env, &s->preload};
    for (int i = 0; i < SINGLES; i++)
        if ((*singles[i] = string_read(&at, end)) == NULL) return false;
    for (int l = 0; l < LISTS; l++) {
        *lists[l] = slots;
        for (uint32_t i = 0; i < head->counts[l]; i++)
            if ((*slots++ = string_read(&at, end)) == NULL) return false;
        *slots++ = NULL;
    }
    return at == end && strlen(s->name_space) <= WIRE_NAMESPACE_MAX &&
           strlen(s->entrypoint) <= WIRE_ENTRYPOINT_MAX;
}

mob_status_t wire_setup_read(const void *bytes, size_t size, wire_setup_t *ret_setup,
                             void **ret_lists) {
    head_t head;
    mob_status_t status = head_read(bytes, size, &head);
    if (status != MOB_OK) return status;
    uint64_t count = LISTS;
    for (int l = 0; l < LISTS; l++) count += head.counts[l];
    /* a string has one byte at least */
    if (count > (uint64_t)head.text_size + LISTS)
        return base_fail(MOB_EPROTO, "a job's setup makes no sense");
    const char **slots = calloc(count, sizeof *slots);
    if (slots == NULL) return MOB_ENOMEM;
    const char *text = (const char *)bytes + sizeof head;
    wire_setup_t s = {.log_to_driver = head.log_to_driver != 0, .inner_size = head.inner_size};
    s.inner = text + head.text_size;
    if (!lists_read(&head, text, text + head.text_size, &s, slots)) {
        free(slots);
        return base_fail(MOB_EPROTO, "a job's setup makes no sense");
    }
    *ret_setup = s;
    *ret_lists = slots;
    return MOB_OK;
}
