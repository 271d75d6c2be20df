/*
 * A value that can't ever fit into the store lies in a file in a spill folder, as Ray does it, and
 * is read in place: a reader maps the file.
 *
 *   MAKING   a client has asked; a thread of libuv's makes a file without a name and has the disk
 *            give all of its bytes, so that a mapping of it never fails (SIGBUS) for want of space.
 *            A folder that can't is followed by the next one
 *   MADE     the client is told, fetches the descriptor, maps the file and writes the value. Not
 *            bound to an object yet, or bound and not SEALED: it goes with the client
 *   (bound, and the object is SEALED: it goes with the object)
 *   REFUSED  no folder has space for it: the client is told, and fetches the words instead
 *
 * The daemon keeps the descriptor of each file for as long as the object lives, and nothing else
 * keeps the file: it has no name, so nothing is left behind however the session ends. A client that
 * has it mapped when the object goes keeps the disk's space until it lets go of the mapping.
 *
 * Descriptors go by a connection of their own (wire_fetch_t): a driver's first connection is read
 * by a thread that knows of texts only, if it is read at all. All other messages go by the rings,
 * whose order they need: the binding comes before the message that drops the last reference.
 *
 * A folder may lie in memory (tmpfs). Then the thread looks at the machine's headroom before, as
 * for any other memory, and again for each part, since other processes ask at the same time.
 *
 * Rejected: the descriptor's path below /proc/<daemon>/fd, which needs no connection, but which a
 * system may hide; a file with a name, which a kill of driver and daemon leaves behind.
 */
#include "node/space/large.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "node/inbox.h"
#include "node/state.h"

enum {
    MOST_UNBOUND = 1024, /* of one client: more than it has threads that write */
    LEAST_FILES = 16,
};
static const uint64_t MEMORY_PART = 256 << 20;

struct node_large {
    uv_work_t work;
    node_t *node;
    uint64_t size;
    uint32_t client;  /* that asked for it; 0: it is dead, or does not want it any more */
    uint32_t number;  /* by which that client knows it */
    mob_ref_t object; /* whose value it is; slot 0: nobody's yet */
    enum { MAKING, MADE, REFUSED } state;
    size_t first, tries; /* the folder that was tried first, and how many were since */
    const char *folder;  /* the last one that was tried */
    int fd, error;
    uint64_t free_bytes; /* on that disk */
    bool in_memory;      /* that disk is memory (tmpfs) */
    mob_status_t status; /* why it was refused */
    char why[700];
};

/* ---- in a thread ---- */

/* Without a name, or with one for a moment where the file system knows no other way. */
static int file_open(const char *folder) {
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);
    if (fd >= 0) return fd;
    char *path;
    if (asprintf(&path, "%s/large_XXXXXX", folder) < 0) return -1;
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    free(path);
    return fd;
}

static void folder_look(node_large_t *l) {
    struct statfs disk;
    l->free_bytes = UINT64_MAX;
    if (fstatfs(l->fd, &disk) != 0) return;
    l->free_bytes = (uint64_t)disk.f_bavail * (uint64_t)disk.f_bsize;
    l->in_memory = disk.f_type == TMPFS_MAGIC || disk.f_type == RAMFS_MAGIC;
}

/* Has the disk give all of the file's bytes. posix_fallocate writes them where the file system
 * can't set them aside. */
static int bytes_take(const node_large_t *l) {
    uint64_t part = l->in_memory ? MEMORY_PART : l->size;
    if (l->in_memory && node_memory_is_short(l->size)) return ENOMEM;
    /* What can't fit is not tried: until it failed, no other process would find a byte on that
     * disk. */
    if (l->size > l->free_bytes) return ENOSPC;
    for (uint64_t at = 0; at < l->size; at += part) {
        uint64_t left = l->size - at, size = left < part ? left : part;
        int error;
        if (l->in_memory && node_memory_is_short(size)) return ENOMEM;
        do error = posix_fallocate(l->fd, (off_t)at, (off_t)size);
        while (error == EINTR);
        if (error != 0) return error;
    }
    return 0;
}

static void make_run(uv_work_t *work) {
    node_large_t *l = work->data;
    l->fd = file_open(l->folder);
    l->error = l->fd < 0 ? errno : 0;
    if (l->error != 0) return;
    folder_look(l);
    l->error = bytes_take(l);
    if (l->error == 0) return;
    close(l->fd); /* and with it goes what it had got */
    l->fd = -1;
}

static void close_run(uv_work_t *work) {
    const node_large_t *l = work->data;
    close(l->fd); /* gives the disk all of it back: that may take a while */
}

/* ---- in the loop ---- */

static node_large_t *large_find(node_t *n, uint32_t client, uint32_t number) {
    for (size_t i = 0; i < n->larges.files.count; i++) {
        node_large_t *l = n->larges.files.items[i];
        if (l->client == client && l->number == number) return l;
    }
    return NULL;
}

static void close_done(uv_work_t *work, int status) {
    (void)status;
    free(work->data);
}

void node_large_free(node_t *n, node_large_t *l) {
    if (l->state == MAKING) { /* the thread has it */
        l->client = 0;
        return;
    }
    for (size_t i = 0; i < n->larges.files.count; i++)
        if (n->larges.files.items[i] == l) {
            vec_swap_remove(&n->larges.files, i);
            break;
        }
    if (l->fd < 0) {
        free(l);
    } else if (uv_queue_work(&n->loop, &l->work, close_run, close_done) != 0) {
        close_run(&l->work);
        free(l);
    }
}

static void bytes_text(uint64_t bytes, char *text, size_t capacity) {
    bool large = bytes >= 1 << 30;
    snprintf(text, capacity, "%.1f %s", (double)bytes / (large ? 0x1p30 : 0x1p20),
             large ? "GiB" : "MiB");
}

static void large_tell(node_t *n, const node_large_t *l) {
    char size[32], store[32];
    if (n->larges.told) return;
    n->larges.told = true;
    bytes_text(l->size, size, sizeof size);
    bytes_text(n->config.store_bytes, store, sizeof store);
    node_warn(n,
              "An object of %s is larger than the object store (%s): it lies in a file in %s; "
              "reading it is as fast as that disk. A larger object_store_memory keeps such objects "
              "in memory.",
              size, store, l->folder);
}

static void client_tell(node_large_t *l) {
    node_client_t *c = l->node->clients[l->client];
    if (l->client != 0 && c != NULL)
        node_client_tell(c, (wire_message_t){.file = {WIRE_FILE, .number = l->number}});
}

__attribute__((format(printf, 3, 4))) static void large_refuse(node_large_t *l, mob_status_t status,
                                                               const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(l->why, sizeof l->why, format, args);
    va_end(args);
    l->state = REFUSED;
    l->status = status;
    client_tell(l);
}

static void disk_refuse(node_large_t *l) {
    const char *reason = l->error != ENOMEM ? strerror(l->error)
                         : l->in_memory     ? "it lies in memory, which is short"
                                            : "no memory";
    large_refuse(l, MOB_EDISK,
                 "an object of %llu bytes is larger than the object store, which has %llu, and "
                 "there is no space for it on disk: %s has %llu bytes free (%s)%s. Give ray.init "
                 "another object_spilling_directory or a larger object_store_memory",
                 (unsigned long long)l->size, (unsigned long long)l->node->config.store_bytes,
                 l->folder, (unsigned long long)l->free_bytes, reason,
                 l->tries > 1 ? ", and the other folders have none either" : "");
}

static void make_start(node_large_t *l);

static void make_done(uv_work_t *work, int status) {
    (void)status;
    node_large_t *l = work->data;
    l->state = MADE;
    if (l->client == 0) {
        node_large_free(l->node, l);
    } else if (l->error == 0) {
        client_tell(l);
    } else if (l->tries < l->node->folders.items.count) {
        make_start(l);
    } else {
        disk_refuse(l);
    }
}

static void make_start(node_large_t *l) {
    node_folders_t *folders = &l->node->folders;
    l->folder = folders->items.items[(l->first + l->tries++) % folders->items.count].path;
    l->state = MAKING;
    l->work.data = l;
    l->free_bytes = 0;
    /* from here on it is the thread's, until make_done */
    if (uv_queue_work(&l->node->loop, &l->work, make_run, make_done) == 0) return;
    l->error = ENOMEM;
    disk_refuse(l);
}

/* The most files, so that descriptors are left for clients. */
static size_t most_files(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur / 2 < LEAST_FILES)
        return LEAST_FILES;
    return (size_t)files.rlim_cur / 2;
}

static void large_begin(node_large_t *l) {
    node_t *n = l->node;
    if (n->larges.files.count > most_files()) {
        large_refuse(l, MOB_ELIMIT,
                     "there are %zu objects that are larger than the object store, and each needs "
                     "an open file: as many as the daemon may have (ulimit -n). Give ray.init a "
                     "larger object_store_memory",
                     n->larges.files.count - 1);
        return;
    }
    int error = node_folders_make(n);
    l->first = error == 0 ? node_folder_choose(n) : SIZE_MAX;
    if (l->first != SIZE_MAX) {
        make_start(l);
        return;
    }
    l->error = error != 0 ? error : ETIMEDOUT;
    l->folder = node_folders_name(n);
    disk_refuse(l);
}

void node_large_need(node_client_t *c, uint32_t number, uint64_t size) {
    node_t *n = c->node;
    size_t unbound = 0;
    for (size_t i = 0; i < n->larges.files.count; i++)
        unbound += n->larges.files.items[i]->client == c->number &&
                   n->larges.files.items[i]->object.slot == 0;
    if (number == 0 || size == 0 || size > STORE_LARGEST || unbound >= MOST_UNBOUND ||
        large_find(n, c->number, number) != NULL) {
        node_client_fault(c, "asked for a file that makes no sense, or for too many");
        return;
    }
    node_large_t *l = calloc(1, sizeof *l);
    if (l == NULL || !vec_push(&n->larges.files, l)) {
        free(l);
        node_client_fault(c, "asked for a file, and the daemon has no memory left");
        return;
    }
    *l = (node_large_t){.node = n, .size = size, .client = c->number, .number = number, .fd = -1};
    large_begin(l);
}

/* Whether a process may read the file. */
static bool is_published(const node_t *n, const node_large_t *l) {
    const store_slot_t *slot = &n->slots[l->object.slot];
    return l->object.slot != 0 &&
           (atomic_load_explicit(&slot->word, memory_order_acquire) & STORE_STATE) ==
               STORE_SEALED &&
           atomic_load_explicit(&slot->generation, memory_order_relaxed) == l->object.generation &&
           store_meta_in_file(slot->meta);
}

/* The file is not its object's value any more, nor its client's. */
static void large_end(node_t *n, node_large_t *l) {
    node_object_t *o = node_object_known(n, l->object);
    if (o != NULL && o->large == l) o->large = NULL;
    node_large_free(n, l);
}

void node_large_drop(node_client_t *c, uint32_t number) {
    node_large_t *l = large_find(c->node, c->number, number);
    if (l != NULL && !is_published(c->node, l)) large_end(c->node, l);
}

void node_large_bind(node_client_t *c, mob_ref_t ref, uint32_t number) {
    node_t *n = c->node;
    node_large_t *l = large_find(n, c->number, number);
    node_object_t *o = node_object_known(n, ref);
    if (l == NULL || l->state != MADE || l->object.slot != 0 || o == NULL) return;
    if (o->large != NULL) node_large_free(n, o->large);
    o->large = l;
    l->object = ref;
    large_tell(n, l);
}

int node_large_fd(const node_large_t *l) { return l->state == MADE ? l->fd : -1; }

void node_large_move(node_object_t *from, node_object_t *to) {
    to->large = from->large;
    from->large = NULL;
    to->large->object = (mob_ref_t){.slot = to->slot, .generation = to->generation};
}

void node_large_forget(node_client_t *c) {
    node_t *n = c->node;
    for (size_t i = n->larges.files.count; i-- > 0;) {
        node_large_t *l = n->larges.files.items[i];
        if (l->client != c->number) continue;
        if (is_published(n, l))
            l->client = 0;
        else
            large_end(n, l);
    }
}

/* ---- descriptors ---- */

static void answer(node_client_t *fetcher, mob_status_t status, const char *words,
                   const node_large_t *l) {
    char packet[sizeof(wire_fetched_t) + sizeof l->why];
    size_t size = strnlen(words, sizeof l->why);
    wire_fetched_t head = {.packet = {.magic = WIRE_MAGIC, .kind = WIRE_FETCHED},
                           .status = (uint32_t)status,
                           .size = l != NULL ? l->size : 0};
    memcpy(packet, &head, sizeof head);
    memcpy(packet + sizeof head, words, size);
    node_client_send(fetcher, packet, sizeof head + size, l != NULL ? &l->fd : NULL, l != NULL);
}

/* Whether the slot says that it has a file: then the message that binds it is on its way. */
static bool is_on_its_way(const node_t *n, mob_ref_t ref) {
    node_large_t wanted = {.object = ref};
    return ref.slot < STORE_MAX_SLOTS && is_published(n, &wanted);
}

static void fetch_answer(node_client_t *fetcher, const wire_fetch_t *f) {
    node_t *n = fetcher->node;
    mob_ref_t ref = {.slot = f->slot, .generation = f->generation};
    node_object_t *o = f->client == 0 ? node_object_known(n, ref) : NULL;
    const node_large_t *l = o != NULL        ? o->large
                            : f->client != 0 ? large_find(n, f->client, f->number)
                                             : NULL;
    if (l != NULL && l->state == MADE)
        answer(fetcher, MOB_OK, "", l);
    else if (l != NULL && l->state == REFUSED)
        answer(fetcher, l->status, l->why, NULL);
    else if (l != NULL || is_on_its_way(n, ref))
        answer(fetcher, MOB_ESPACE, "", NULL);
    else
        answer(fetcher, MOB_ELOST, "the daemon has no file with the value of this object", NULL);
}

void node_large_fetch(node_client_t *fetcher, const void *request, size_t size) {
    wire_fetch_t f;
    if (size >= sizeof f) {
        memcpy(&f, request, sizeof f);
        node_inbox_read(fetcher->node);
        fetch_answer(fetcher, &f);
    }
    node_client_close(fetcher);
}
