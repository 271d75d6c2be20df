/*
 * Hello and welcome, and mapping what the welcome brings.
 *
 * A driver's setup is for its job's workers (wire/setup.h). The driver sends it with its hello, and
 * the daemon with every worker's welcome, as a descriptor of sealed bytes: it may be larger than a
 * packet.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/packet.h"
#include "client/client.h"
#include "shm/sealed.h"
#include "wire/setup.h"

extern char **environ;

/* The job's setup, as a descriptor of sealed bytes; -1: a worker has none to give. */
static mob_status_t setup_seal(const mob_config_t *config, int *ret_fd) {
    *ret_fd = -1;
    if (config == NULL) return MOB_OK;
    char *folder = getcwd(NULL, 0); /* NULL: it was removed */
    wire_setup_t setup = {.folder = folder,
                          .name_space = config->name_space,
                          .entrypoint = config->entrypoint,
                          .argv = config->zygote_argv,
                          .env = (const char *const *)environ,
                          .preload = config->preload,
                          .log_to_driver = config->log_to_driver,
                          .inner = config->setup,
                          .inner_size = config->setup_size};
    size_t size = wire_setup_size(&setup);
    void *bytes = size != SIZE_MAX ? malloc(size) : NULL;
    mob_status_t status = MOB_OK;
    if (size == SIZE_MAX) {
        status = base_fail(MOB_ELIMIT,
                           "what every worker is to be given at its start may have %d bytes, and "
                           "has more (%zu for itself): sys.path or the environment is most of it, "
                           "and is to be shorter",
                           WIRE_SETUP_MAX, config->setup_size);
    } else if (bytes == NULL) {
        status = MOB_ENOMEM;
    } else {
        wire_setup_write(&setup, bytes);
        status = shm_sealed_make("mobula-setup", bytes, size, ret_fd);
    }
    free(bytes);
    free(folder);
    return status;
}

static mob_status_t hello_send(mob_client_t *c, uint64_t token, int setup_fd) {
    wire_hello_t hello = wire_hello(c->role, token);
    ssize_t n = base_packet_send(c->sock, &hello, sizeof hello, &setup_fd, setup_fd >= 0, 0);
    return n < 0 ? base_fail(MOB_ESYS, "greeting the daemon: %s", strerror(errno)) : MOB_OK;
}

mob_status_t client_packet_receive(int sock, int timeout_ms, void *packet, size_t capacity,
                                   size_t *ret_size, int *ret_fds, int most, int *ret_fd_count) {
    struct pollfd p = {.fd = sock, .events = POLLIN};
    int ready;
    do ready = poll(&p, 1, timeout_ms);
    while (ready < 0 && errno == EINTR);
    if (ready == 0)
        return base_fail(MOB_ETIMEOUT, "the daemon mobulad did not answer in %.3g s",
                         (double)timeout_ms / 1000);
    ssize_t n = base_packet_receive(sock, packet, capacity, 0, ret_fds, most, ret_fd_count);
    /* If the daemon closed without having read our hello, the kernel reports that first, and only
     * then gives what the daemon had sent. */
    if (n < 0 && errno == ECONNRESET)
        n = base_packet_receive(sock, packet, capacity, 0, ret_fds, most, ret_fd_count);
    if (n < 0 && errno == ECONNRESET)
        return base_fail(MOB_ECLOSED, "the daemon mobulad ended before it answered");
    if (n < 0) return base_fail(MOB_ESYS, "hearing from the daemon: %s", strerror(errno));
    *ret_size = (size_t)n;
    return MOB_OK;
}

int client_fd_above_standard(int fd) {
    if (fd > 2) return fd;
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    close(fd);
    return moved;
}

static mob_status_t segments_open(mob_client_t *c, const wire_welcome_t *welcome, int *fds) {
    uint64_t granules = welcome->arena_size / SHM_GRANULE;
    const struct {
        shm_segment_t *segment;
        uint64_t size;
        bool read_only_too;
    } wanted[] = {
        {&c->node_segment, sizeof(shm_node_t), false},
        {&c->own_segment, SHM_CLIENT_BYTES, false},
        {&c->slot_segment, (uint64_t)STORE_MAX_SLOTS * sizeof(store_slot_t), false},
        {&c->record_segment, (uint64_t)WIRE_MAX_RECORDS * sizeof(wire_record_t), false},
        {&c->extent_segment, (granules + 1) * sizeof(shm_extent_t), false},
        {&c->arena, welcome->arena_size, true},
        {&c->queue_segment, (uint64_t)SHM_QUEUES * sizeof(shm_queue_t), false},
    };
    size_t count = sizeof wanted / sizeof *wanted;
    for (size_t i = 0; i < count; i++) {
        int fd = client_fd_above_standard(fds[i]);
        fds[i] = -1;
        mob_status_t status =
            shm_segment_open(fd, wanted[i].size, wanted[i].read_only_too, wanted[i].segment);
        if (status != MOB_OK) return status;
    }
    c->daemon_event = client_fd_above_standard(fds[count]);
    fds[count] = -1;
    c->node = (shm_node_t *)c->node_segment.base;
    c->up = (shm_ring_t *)c->own_segment.base;
    c->down = (shm_ring_t *)(c->own_segment.base + SHM_CLIENT_DOWN);
    c->events = (shm_events_t *)(c->own_segment.base + SHM_CLIENT_EVENTS);
    c->pins = (_Atomic uint64_t *)(c->own_segment.base + SHM_CLIENT_PINS);
    c->queues = (shm_queue_t *)c->queue_segment.base;
    c->slots = (store_slot_t *)c->slot_segment.base;
    c->records = (wire_record_t *)c->record_segment.base;
    void *local = mmap(NULL, STORE_MAX_SLOTS * sizeof *c->local, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (local == MAP_FAILED)
        return base_fail(MOB_ENOMEM, "no address space for the table of references");
    c->local = local;
    client_awake_set(c, true);
    return shm_heap_init(&c->heap, c->arena.base, welcome->arena_size,
                         (shm_extent_t *)c->extent_segment.base, client_heap_grant, c);
}

/* Reads the setup of the worker's job. */
static mob_status_t setup_read(mob_client_t *c, int fd, uint32_t expected_size) {
    mob_status_t status = shm_sealed_check(fd, WIRE_SETUP_MAX, &c->setup_size);
    if (status != MOB_OK) return status;
    if (c->setup_size != expected_size)
        return base_fail(MOB_EPROTO, "the setup has the wrong size");
    c->setup = malloc(c->setup_size);
    return c->setup == NULL ? MOB_ENOMEM : shm_sealed_read(fd, c->setup, c->setup_size);
}

/* What the daemon says instead of a welcome, or something else than a daemon does. */
static mob_status_t refusal_read(const char *packet, size_t size, wire_packet_t *ret_head) {
    if (size == 0) return base_fail(MOB_ECLOSED, "the daemon mobulad ended before it answered");
    if (size < sizeof *ret_head) return base_fail(MOB_EPROTO, "a packet of %zu bytes", size);
    memcpy(ret_head, packet, sizeof *ret_head);
    if (ret_head->magic != WIRE_MAGIC)
        return base_fail(MOB_EPROTO, "what listens there is not mobulad");
    if (ret_head->kind != WIRE_REFUSED) return MOB_OK;
    uint32_t code = MOB_ESYS;
    if (size >= sizeof *ret_head + 4) memcpy(&code, packet + sizeof *ret_head, 4);
    int text = (int)(size > sizeof *ret_head + 4 ? size - sizeof *ret_head - 4 : 0);
    return base_fail((mob_status_t)code, "%.*s", text, packet + sizeof *ret_head + 4);
}

static mob_status_t welcome_apply(mob_client_t *c, const char *packet, size_t size, int *fds,
                                  int fd_count) {
    wire_welcome_t welcome;
    mob_status_t refused = refusal_read(packet, size, &welcome.packet);
    if (refused != MOB_OK) return refused;
    if (welcome.packet.kind != WIRE_WELCOME || size < sizeof welcome || fd_count < WIRE_WELCOME_FDS)
        return base_fail(MOB_EPROTO, "the daemon's welcome makes no sense");
    memcpy(&welcome, packet, sizeof welcome);
    if (welcome.dir_size + sizeof welcome != size || welcome.dir_size == 0 ||
        fd_count != WIRE_WELCOME_FDS + (welcome.setup_size > 0))
        return base_fail(MOB_EPROTO, "the daemon's welcome has the wrong size");
    c->number = welcome.number;
    c->epoch = welcome.epoch;
    c->job = welcome.job;
    c->environment = welcome.environment;
    c->lanes = welcome.lanes % SHM_NO_LANE / SHM_LANES * SHM_LANES;
    c->incarnation = welcome.incarnation;
    c->session_dir = strndup(packet + sizeof welcome, welcome.dir_size);
    if (c->session_dir == NULL || asprintf(&c->socket_path, "%s/socket", c->session_dir) < 0)
        return MOB_ENOMEM;
    mob_status_t status =
        welcome.setup_size > 0 ? setup_read(c, fds[WIRE_WELCOME_FDS], welcome.setup_size) : MOB_OK;
    client_pulse_init(c);
    return status == MOB_OK ? segments_open(c, &welcome, fds) : status;
}

mob_status_t client_handshake(mob_client_t *c, uint64_t token, const mob_config_t *config) {
    int fds[WIRE_MOST_FDS], fd_count = 0, setup_fd;
    size_t size = 0;
    mob_status_t status = setup_seal(config, &setup_fd);
    if (status != MOB_OK) return status;
    status = hello_send(c, token, setup_fd);
    if (setup_fd >= 0) close(setup_fd);
    if (config != NULL && config->meanwhile != NULL) config->meanwhile(config->meanwhile_context);
    c->packet = malloc(WIRE_PACKET_MAX);
    if (c->packet == NULL) return MOB_ENOMEM;
    mob_status_t heard =
        client_packet_receive(c->sock, CLIENT_ANSWER_MS, c->packet, WIRE_PACKET_MAX, &size, fds,
                              WIRE_MOST_FDS, &fd_count);
    if (heard != MOB_OK) return status != MOB_OK ? status : heard;
    status = welcome_apply(c, c->packet, size, fds, fd_count);
    for (int i = 0; i < fd_count; i++)
        if (fds[i] >= 0) close(fds[i]);
    return status;
}

mob_status_t client_start_await(mob_client_t *c, const mob_config_t *config, char **ret_dir) {
    char packet[4096 + sizeof(wire_packet_t)];
    wire_packet_t head;
    size_t size = 0;
    int setup_fd;
    mob_status_t status = setup_seal(config->zygote_argv != NULL ? config : NULL, &setup_fd);
    if (status != MOB_OK) return status;
    status = hello_send(c, 0, setup_fd);
    if (setup_fd >= 0) close(setup_fd);
    mob_status_t heard = client_packet_receive(c->sock, CLIENT_ANSWER_MS, packet, sizeof packet,
                                               &size, NULL, 0, NULL);
    if (heard != MOB_OK) return status != MOB_OK ? status : heard;
    status = refusal_read(packet, size, &head);
    if (status != MOB_OK) return status;
    if (head.kind != WIRE_STARTED)
        return base_fail(MOB_EPROTO, "the daemon's answer makes no sense");
    *ret_dir = strndup(packet + sizeof head, size - sizeof head);
    return *ret_dir != NULL ? MOB_OK : MOB_ENOMEM;
}
