/*
 * The way of a value that is larger than the store.
 *
 *   put, result   WIRE_NEED_FILE with a number of its own; the call fails with MOB_ESPACE and its
 *                 thread waits in mob_space_wait, for the disk may take long to give the file's
 *                 bytes. WIRE_FILE says that the daemon is done; then this thread fetches the
 *                 descriptor, or the words why there is none, and maps the file. Its next call
 *                 finds it so
 *   commit        the slot says that its value lies in a file, and is ESCAPED; WIRE_ESCAPE names
 *                 the file, which is the object's from then on. What was mapped to be written is
 *                 unmapped: at the commit of a put, at the end of a run, whose user may write until
 *                 then
 *   get           mob_get_begin finds no mapping (MOB_EAWAY), and mob_get_fetch fetches the
 *                 descriptor and maps it, read-only, once for all threads. Each user of the value
 *                 pins the slot, as any value's, and with the last pin the mapping goes. References
 *                 inside lie in a block of the arena, since the daemon has to read them too
 *
 * A thread keeps the number that it waits for in a variable of its own. It gives it up by
 * mob_space_forget, or by asking for another one.
 *
 * If this process dies, the daemon frees every file that it has not published.
 */
#include "client/large.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "client/client.h"

static const uint64_t BIND_NS =
    5000000000u; /* so long the daemon may not know the file of a published value */

/* What this thread waits for. */
static _Thread_local struct {
    uint64_t incarnation; /* of the session */
    uint32_t number;      /* 0: nothing */
} awaited;

/* ---- descriptors ---- */

/* The daemon refused, in its own words. */
static mob_status_t refused(const wire_fetched_t *head, const char *words, size_t size) {
    mob_status_t status = (mob_status_t)head->status;
    if (status == MOB_ESPACE) return status;
    return base_fail(status, "%.*s", (int)size, words);
}

/* Waits until there is something to read, for as long as the daemon runs. */
static mob_status_t answer_await(mob_client_t *c, int sock) {
    struct pollfd p = {.fd = sock, .events = POLLIN};
    client_quiet_t quiet = {0};
    mob_status_t status = MOB_OK;
    while (status == MOB_OK && poll(&p, 1, (int)(CLIENT_LOOK_UP_NS / 1000000)) <= 0)
        status = client_quiet_look(c, &quiet);
    return status;
}

/* Asks the daemon for the descriptor, by a connection for that alone. MOB_ESPACE: the daemon does
 * not have it yet. */
static mob_status_t descriptor_fetch(mob_client_t *c, const wire_fetch_t *request, int *ret_fd,
                                     uint64_t *ret_size) {
    struct {
        wire_hello_t hello;
        wire_fetch_t fetch;
    } packet = {.hello = wire_hello(WIRE_FETCHER, 0), .fetch = *request};
    char answer[4096];
    wire_fetched_t head = {0};
    size_t size = 0;
    int sock, fd = -1, fd_count = 0;
    mob_status_t status = client_socket_connect(c->socket_path, &sock);
    if (status != MOB_OK) return status;
    if (send(sock, &packet, sizeof packet, MSG_NOSIGNAL) < 0)
        status = base_fail(MOB_ESYS, "asking the daemon for a file: %s", strerror(errno));
    if (status == MOB_OK) status = answer_await(c, sock);
    if (status == MOB_OK)
        status = client_packet_receive(sock, 0, answer, sizeof answer, &size, &fd, 1, &fd_count);
    close(sock);
    if (status != MOB_OK) return status;
    if (size >= sizeof head) memcpy(&head, answer, sizeof head);
    if (size < sizeof head || head.packet.magic != WIRE_MAGIC || head.packet.kind != WIRE_FETCHED)
        status = base_fail(MOB_EPROTO, "the daemon did not answer to a question for a file");
    else if (head.status != MOB_OK)
        status = refused(&head, answer + sizeof head, size - sizeof head);
    else if (fd_count != 1)
        status = base_fail(MOB_ESYS, "this process has no descriptor left for a file");
    if (status != MOB_OK) {
        if (fd_count == 1) close(fd);
        return status;
    }
    *ret_fd = fd;
    *ret_size = head.size;
    return MOB_OK;
}

/* Maps the file, which must have `least` bytes. Takes fd. */
static mob_status_t file_map(int fd, uint64_t size, uint64_t least, bool writes,
                             unsigned char **ret_base) {
    void *base = MAP_FAILED;
    mob_status_t status = MOB_OK;
    if (size < least)
        status = base_fail(MOB_ELOST, "the file of an object of %llu bytes has %llu",
                           (unsigned long long)least, (unsigned long long)size);
    else
        base = mmap(NULL, size, PROT_READ | (writes ? PROT_WRITE : 0), MAP_SHARED, fd, 0);
    if (status == MOB_OK && base == MAP_FAILED)
        status = base_fail(MOB_ENOMEM, "mapping an object of %llu bytes: %s",
                           (unsigned long long)size, strerror(errno));
    close(fd);
    if (status != MOB_OK) return status;
    if (writes) madvise(base, size, MADV_DONTFORK); /* a child has no business there */
    *ret_base = base;
    return MOB_OK;
}

/* ---- writing ---- */

static client_file_t *file_find(const mob_client_t *c, uint32_t number) {
    for (size_t i = 0; number != 0 && i < c->large.files.count; i++)
        if (c->large.files.items[i].number == number) return &c->large.files.items[i];
    return NULL;
}

static client_file_t *file_awaited(const mob_client_t *c) {
    return awaited.incarnation == c->incarnation ? file_find(c, awaited.number) : NULL;
}

/* Takes the file off the list. The caller unmaps it. */
static client_file_t file_take(mob_client_t *c, client_file_t *file) {
    client_file_t taken = *file;
    vec_swap_remove(&c->large.files, (size_t)(file - c->large.files.items));
    return taken;
}

bool client_large_is(const mob_client_t *c, uint64_t size, uint32_t ref_count) {
    if (size > c->arena.size) return true;
    uint64_t bytes = store_block_size(size, ref_count);
    return bytes > c->arena.size / 2 && size > 0 && shm_heap_extent_for(bytes) > c->arena.size;
}

static mob_status_t file_ask(mob_client_t *c, uint64_t size) {
    if (size > STORE_LARGEST)
        return base_fail(MOB_EFULL, "no object can have %llu bytes: the object store has %llu",
                         (unsigned long long)size, (unsigned long long)c->arena.size);
    uint32_t number = ++c->large.next_number;
    if (number == 0 ||
        !vec_push(&c->large.files, ((client_file_t){.number = number, .size = size})))
        return MOB_ENOMEM;
    awaited.incarnation = c->incarnation;
    awaited.number = number;
    client_push(c, (wire_message_t){.file = {WIRE_NEED_FILE, .number = number, .size = size}});
    return MOB_ESPACE;
}

mob_status_t client_large_begin(mob_client_t *c, mob_buffer_t *buffer) {
    client_file_t *file = file_awaited(c);
    if (file != NULL &&
        file->size != buffer->size) { /* this thread gave its last file up without a word */
        client_push(c, (wire_message_t){.file = {WIRE_DROP_FILE, .number = file->number}});
        if (file->base != NULL) munmap(file->base, file->size);
        file_take(c, file);
        file = NULL;
    }
    if (file == NULL) return file_ask(c, buffer->size);
    if (file->base == NULL) return MOB_ESPACE;
    if (buffer->ref_count > 0) {
        uint64_t tag = shm_tag(false, buffer->ref.slot, buffer->ref.generation);
        mob_status_t status =
            shm_heap_alloc(&c->heap, store_block_size(0, buffer->ref_count), tag, &buffer->block);
        if (status != MOB_OK) return status;
    }
    buffer->data = file->base;
    buffer->file = file->number;
    awaited.number = 0;
    return MOB_OK;
}

void client_large_told(mob_client_t *c, const wire_message_t *m) {
    client_file_t *file = file_find(c, m->file.number);
    if (file != NULL) file->told = true;
}

bool client_large_awaits(mob_client_t *c) {
    pthread_mutex_lock(&c->mutex);
    client_file_t *file = file_awaited(c);
    bool awaits = file != NULL && file->base == NULL;
    pthread_mutex_unlock(&c->mutex);
    return awaits;
}

/* The daemon is done with the file: maps it, or says why there is none. */
static mob_status_t file_open(mob_client_t *c) {
    uint32_t number = awaited.number;
    wire_fetch_t request = {.client = c->number, .number = number};
    unsigned char *base = NULL;
    uint64_t size;
    int fd;
    mob_status_t status = descriptor_fetch(c, &request, &fd, &size);
    if (status == MOB_OK) status = file_map(fd, size, size, true, &base);
    if (status == MOB_ESPACE) return MOB_OK;
    if (status != MOB_OK) {
        client_large_forget(c);
        return status;
    }
    pthread_mutex_lock(&c->mutex);
    file_find(c, number)->base = base; /* no other thread takes it off the list */
    pthread_mutex_unlock(&c->mutex);
    return MOB_OK;
}

mob_status_t client_large_wait(mob_client_t *c) {
    uint64_t look_up = base_clock_mono_ns() + (uint64_t)CLIENT_LOOK_UP_NS;
    for (;;) {
        uint32_t seen = shm_bell_listen(&c->node->bells[c->number]);
        pthread_mutex_lock(&c->mutex);
        client_listen(c);
        client_file_t *file = file_awaited(c);
        bool told = file == NULL || file->told;
        pthread_mutex_unlock(&c->mutex);
        if (told) return file_open(c);
        if (!client_sleep(c, seen, CLIENT_LOOK_UP_NS)) return MOB_EINTR;
        if (base_clock_mono_ns() < look_up) continue;
        return client_daemon_look(c);
    }
}

void client_large_end(mob_client_t *c, uint32_t number, bool drop) {
    pthread_mutex_lock(&c->mutex);
    client_file_t *found = file_find(c, number), file = {0};
    if (found != NULL) file = file_take(c, found);
    if (found != NULL && drop)
        client_push(c, (wire_message_t){.file = {WIRE_DROP_FILE, .number = number}});
    pthread_mutex_unlock(&c->mutex);
    if (file.base != NULL) munmap(file.base, file.size);
}

void client_large_forget(mob_client_t *c) {
    if (awaited.incarnation == c->incarnation && awaited.number != 0)
        client_large_end(c, awaited.number, true);
    awaited.number = 0;
}

/* ---- reading ---- */

static client_map_t *map_find(const mob_client_t *c, uint32_t slot) {
    for (size_t i = 0; i < c->large.maps.count; i++)
        if (c->large.maps.items[i].ref.slot == slot) return &c->large.maps.items[i];
    return NULL;
}

const unsigned char *client_large_at(const mob_client_t *c, mob_ref_t ref) {
    const client_map_t *map = map_find(c, ref.slot);
    return map != NULL && map->ref.generation == ref.generation ? map->base : NULL;
}

void client_map_end(client_map_t map) {
    if (map.base != NULL) munmap((void *)(uintptr_t)map.base, map.size);
}

client_map_t client_large_unpinned(mob_client_t *c, uint32_t slot) {
    client_map_t *found = map_find(c, slot), map = {0};
    if (found == NULL) return map;
    map = *found;
    vec_swap_remove(&c->large.maps, (size_t)(found - c->large.maps.items));
    return map;
}

/* Pins the slot. The mapping that another thread may have made by now stays; else this one does.
 * TAKES `map`. */
static mob_status_t map_add(mob_client_t *c, client_map_t map) {
    pthread_mutex_lock(&c->mutex);
    bool there = client_large_at(c, map.ref) != NULL,
         added = !there && vec_push(&c->large.maps, map);
    if (there || added) client_pin(c, map.ref);
    pthread_mutex_unlock(&c->mutex);
    if (!added) client_map_end(map);
    return there || added ? MOB_OK : MOB_ENOMEM;
}

mob_status_t client_large_open(mob_client_t *c, mob_ref_t ref) {
    wire_fetch_t request = {.slot = ref.slot, .generation = ref.generation};
    uint64_t start = base_clock_mono_ns(), size;
    unsigned char *base = NULL;
    mob_status_t status;
    int fd;
    /* The value may be published before the daemon has read WIRE_ESCAPE, which names its file: a
     * matter of moments. */
    while ((status = descriptor_fetch(c, &request, &fd, &size)) == MOB_ESPACE) {
        if (base_clock_mono_ns() - start > BIND_NS)
            return base_fail(MOB_ELOST, "the daemon does not know the file of this object");
        if (nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL) != 0) return MOB_EINTR;
    }
    if (status == MOB_OK)
        status = file_map(fd, size, store_meta_size(c->slots[ref.slot].meta), false, &base);
    if (status != MOB_OK) return status;
    return map_add(c, (client_map_t){.ref = ref, .base = base, .size = size});
}

void client_large_disconnect(mob_client_t *c, bool forked) {
    for (size_t i = 0; !forked && i < c->large.files.count; i++)
        if (c->large.files.items[i].base != NULL)
            munmap(c->large.files.items[i].base, c->large.files.items[i].size);
    vec_free(&c->large.files);
}

void client_large_fini(mob_client_t *c) {
    for (size_t i = 0; i < c->large.maps.count; i++) client_map_end(c->large.maps.items[i]);
    vec_free(&c->large.maps);
}
