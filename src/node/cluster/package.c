/*
 * Packages from other nodes.
 *
 * A zygote that gets ready asks its daemon for the file, and waits. The daemon asks the job's home
 * for it, and if that has none, the node that has sent the environment: a task there may have made
 * it. A file comes in pieces, each of which is asked for when the one before it is written. So
 * nothing is held for a file where it is read, and neither the link nor memory is ever filled by
 * one. Files are read and written by libuv's threads.
 *
 * A file is written under another name and then renamed, so whoever finds it has all of it. Its
 * name is a hash of what is in it, and nobody changes one: a piece is a piece of the same file,
 * whenever it is read. Zygotes that want the same file wait for the same transfer; they are
 * remembered by the tokens of their setups, for they may be gone when it ends.
 *
 *     WANT       name, offset
 *     PACKAGE    name, offset, size of the whole file, bytes; 0 for the size: words why not
 */
#include "node/cluster/package.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

#include "node/cluster/cluster.h"
#include "node/cluster/jobpost.h"
#include "node/state.h"

enum {
    PIECE = 512 << 10,
    NAME_MAX_BYTES = 255,
    MOST_COMING = 256,
    MOST_READINGS = 64,
    WORDS = 512
};

static const uint64_t MOST_BYTES = (uint64_t)1 << 30;

struct node_package {
    node_cluster_t *cluster;
    char name[NAME_MAX_BYTES + 1];
    uint64_t sources[2]; /* that have it perhaps; 0: none */
    size_t source;       /* which is asked now */
    uint64_t offset, total;
    VEC(uint64_t) waiting; /* tokens of setups */
    uv_work_t work;        /* a piece that is being written */
    bool writing;
    uint8_t *bytes;
    size_t size;
    int error;
};

/* Of a file in one folder, without a way out of it. */
static bool is_name(const char *name) {
    size_t size = strnlen(name, NAME_MAX_BYTES + 1);
    return size > 0 && size <= NAME_MAX_BYTES - 8 && name[0] != '.' && strchr(name, '/') == NULL;
}

static bool path_make(const node_t *n, const char *name, const char *end, char *path,
                      size_t capacity) {
    int size = snprintf(path, capacity, "%s/packages/%s%s", n->session.dir, name, end);
    return size > 0 && (size_t)size < capacity;
}

static bool name_take(base_reader_t *r, char *ret_name) {
    size_t size = base_take_number(r, 1);
    const void *name = base_take_bytes(r, size);
    if (name == NULL) return false;
    memcpy(ret_name, name, size);
    ret_name[size] = 0;
    return strlen(ret_name) == size && is_name(ret_name);
}

static base_writer_t message_begin(uint8_t *head, node_jobpost_kind_t kind, const char *name,
                                   uint64_t offset) {
    base_writer_t w = {.bytes = head};
    base_put_number(&w, kind, 1);
    base_put_number(&w, strlen(name), 1);
    base_put_bytes(&w, name, strlen(name));
    base_put_number(&w, offset, 8);
    return w;
}

/* ---- where it is wanted ---- */

static void package_free(node_package_t *p) {
    node_packages_t *all = &p->cluster->packages;
    for (size_t i = all->coming.count; i-- > 0;)
        if (all->coming.items[i] == p) vec_swap_remove(&all->coming, i);
    vec_free(&p->waiting);
    free(p->bytes);
    free(p);
}

/* "": it is there. */
static void zygote_tell(node_setup_t *s, const char *name, const char *why) {
    char packet[sizeof(wire_packet_t) + NAME_MAX_BYTES + 1 + WORDS];
    wire_packet_t head = {.magic = WIRE_MAGIC, .kind = WIRE_BROUGHT};
    memcpy(packet, &head, sizeof head);
    int size = snprintf(packet + sizeof head, sizeof packet - sizeof head, "%s%c%.*s", name, 0,
                        WORDS - 1, why);
    if (s->zygote.next != NULL)
        node_client_send(s->zygote.next, packet, sizeof head + (size_t)size, NULL, 0);
}

/* Takes the package. */
static void package_end(node_package_t *p, const char *why) {
    for (size_t i = 0; i < p->waiting.count; i++) {
        node_setup_t *s = node_setup_by_token(p->cluster->node, p->waiting.items[i]);
        if (s != NULL) zygote_tell(s, p->name, why);
    }
    package_free(p);
}

/* Asks a source for the next piece; without one that can be asked the package ends. */
static void piece_ask(node_package_t *p, const char *why) {
    uint8_t head[NAME_MAX_BYTES + 32];
    for (; p->source < 2; p->source++, p->offset = 0) {
        if (p->sources[p->source] == 0) continue;
        base_writer_t w = message_begin(head, JOBPOST_WANT, p->name, p->offset);
        node_letter_parts_t parts = {.head = head, .head_size = w.size};
        mob_status_t status =
            node_post_send(p->cluster, p->sources[p->source], POST_JOB, &parts, true);
        if (status == MOB_OK) return;
        why = mob_status_text(status);
    }
    package_end(p, why);
}

/* The job that uses the setup, as far as its driver goes; NULL: none here. */
static node_pool_t *pool_of(const node_setup_t *s) {
    NODE_EACH_JOB(s->node, job)
    NODE_EACH_POOL(job, pool)
    if (pool->setup == s) return pool;
    return NULL;
}

static node_package_t *package_find(const node_cluster_t *c, const char *name) {
    for (size_t i = 0; i < c->packages.coming.count; i++)
        if (strcmp(c->packages.coming.items[i]->name, name) == 0)
            return c->packages.coming.items[i];
    return NULL;
}

static node_package_t *package_new(node_cluster_t *c, const char *name, const node_pool_t *pool) {
    node_package_t *p = c->packages.coming.count < MOST_COMING ? calloc(1, sizeof *p) : NULL;
    if (p == NULL || !vec_push(&c->packages.coming, p)) {
        free(p);
        return NULL;
    }
    const node_job_t *job = pool->job->maker != NULL ? pool->job->maker : pool->job;
    p->cluster = c;
    snprintf(p->name, sizeof p->name, "%s", name);
    if (job->is_guest) p->sources[0] = job->origin.home;
    if (pool->told.count > 0 && pool->told.items[0] != p->sources[0])
        p->sources[1] = pool->told.items[0];
    return p;
}

void node_package_want(node_setup_t *s, const char *name) {
    node_cluster_t *c = s->node->cluster;
    node_pool_t *pool = pool_of(s);
    if (c == NULL || pool == NULL || !is_name(name)) {
        zygote_tell(s, name, "this node knows of no other that could have it");
        return;
    }
    node_package_t *p = package_find(c, name);
    bool is_new = p == NULL;
    if (is_new) p = package_new(c, name, pool);
    if (p == NULL || !vec_push(&p->waiting, s->token)) {
        zygote_tell(s, name, "the daemon has no memory for one more file");
        if (is_new && p != NULL) package_free(p);
        return;
    }
    if (is_new) piece_ask(p, "this node knows of no other that could have it");
}

/* ---- a piece that came, in a thread of libuv's ---- */

static int piece_write(const char *path, const void *bytes, size_t size, uint64_t offset) {
    int anew = offset == 0 ? O_TRUNC : 0; /* a piece of an earlier attempt may be there */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | anew, 0600);
    if (fd < 0) return errno;
    int error = 0;
    for (size_t done = 0; done < size && error == 0;) {
        ssize_t n = pwrite(fd, (const char *)bytes + done, size - done, (off_t)(offset + done));
        if (n > 0) done += (size_t)n;
        if (n <= 0 && errno != EINTR) error = n < 0 ? errno : EIO;
    }
    if (close(fd) != 0 && error == 0) error = errno;
    return error;
}

static void write_run(uv_work_t *work) {
    node_package_t *p = work->data;
    const node_t *n = p->cluster->node;
    char folder[4096], part[4096], whole[4096];
    bool fits = path_make(n, "", "", folder, sizeof folder) &&
                path_make(n, p->name, ".part", part, sizeof part) &&
                path_make(n, p->name, "", whole, sizeof whole);
    p->error = fits ? 0 : ENAMETOOLONG;
    if (fits && p->offset == 0 && mkdir(folder, 0700) != 0 && errno != EEXIST) p->error = errno;
    if (p->error == 0) p->error = piece_write(part, p->bytes, p->size, p->offset);
    if (p->error == 0 && p->offset + p->size == p->total && rename(part, whole) != 0)
        p->error = errno;
}

static void write_done(uv_work_t *work, int status) {
    node_package_t *p = work->data;
    char why[WORDS];
    p->writing = false;
    free(p->bytes);
    p->bytes = NULL;
    if (status != 0 || p->error != 0) {
        snprintf(why, sizeof why, "writing it into this session's folder: %s",
                 strerror(p->error != 0 ? p->error : ECANCELED));
        package_end(p, why);
        return;
    }
    p->offset += p->size;
    if (p->offset == p->total)
        package_end(p, "");
    else
        piece_ask(p, "");
}

/* The source has none of it. */
static void source_fail(node_package_t *p, const char *words, size_t size) {
    char why[WORDS];
    snprintf(why, sizeof why, "%.*s", (int)(size < WORDS ? size : WORDS - 1), words);
    p->source++;
    p->offset = 0;
    piece_ask(p, why);
}

mob_status_t node_package_came(node_cluster_t *c, uint64_t peer, base_reader_t *r) {
    char name[NAME_MAX_BYTES + 1];
    bool is_one = name_take(r, name);
    uint64_t offset = base_take_number(r, 8), total = base_take_number(r, 8);
    if (!is_one || r->short_of || total > MOST_BYTES ||
        (total > 0 && (offset >= total || r->left == 0 || r->left > total - offset)))
        return base_fail(MOB_EPROTO, "a piece of a package makes no sense");
    node_package_t *p = package_find(c, name);
    if (p == NULL || p->writing || p->source >= 2 || p->sources[p->source] != peer ||
        p->offset != offset || (offset > 0 && total != 0 && p->total != total))
        return MOB_OK; /* nobody waits for it any more */
    if (total == 0) {
        source_fail(p, (const char *)r->at, r->left);
        return MOB_OK;
    }
    p->bytes = malloc(r->left);
    if (p->bytes == NULL) return MOB_ENOMEM;
    memcpy(p->bytes, r->at, r->left);
    p->size = r->left;
    p->total = total;
    p->work.data = p;
    p->writing = uv_queue_work(&c->node->loop, &p->work, write_run, write_done) == 0;
    if (!p->writing) package_end(p, "the daemon could not begin to write it");
    return MOB_OK;
}

void node_packages_died(node_cluster_t *c, uint64_t peer) {
    static const char why[] = "the node that has it is dead";
    for (size_t i = c->packages.coming.count; i-- > 0;) {
        node_package_t *p = c->packages.coming.items[i];
        if (!p->writing && p->source < 2 && p->sources[p->source] == peer)
            source_fail(p, why, sizeof why - 1);
    }
}

/* ---- where it lies ---- */

typedef struct {
    uv_work_t work;
    node_cluster_t *cluster;
    uint64_t peer, offset, total;
    char name[NAME_MAX_BYTES + 1];
    ssize_t size;
    int error;
    uint8_t bytes[PIECE];
} reading_t;

static void read_run(uv_work_t *work) {
    reading_t *reading = work->data;
    char path[4096];
    struct stat found;
    bool fits = path_make(reading->cluster->node, reading->name, "", path, sizeof path);
    int fd = fits ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    reading->error = fits ? 0 : ENAMETOOLONG;
    if (fd >= 0 && fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
        reading->total = (uint64_t)found.st_size;
        do reading->size = pread(fd, reading->bytes, PIECE, (off_t)reading->offset);
        while (reading->size < 0 && errno == EINTR);
    } else if (reading->error == 0) {
        reading->error = fd < 0 ? errno : EINVAL;
    }
    if (reading->size < 0) reading->error = errno;
    if (fd >= 0) close(fd);
}

static void read_done(uv_work_t *work, int status) {
    reading_t *reading = work->data;
    node_cluster_t *c = reading->cluster;
    uint8_t head[NAME_MAX_BYTES + 32];
    char why[WORDS];
    c->packages.readings--;
    bool is_good = status == 0 && reading->error == 0 && reading->size > 0;
    int words = snprintf(why, sizeof why, "node %s: %s", c->host,
                         reading->error != 0 ? strerror(reading->error) : "it is not whole");
    base_writer_t w = message_begin(head, JOBPOST_PACKAGE, reading->name, reading->offset);
    base_put_number(&w, is_good ? reading->total : 0, 8);
    node_letter_parts_t parts = {.head = head,
                                 .head_size = w.size,
                                 .body = is_good ? (const void *)reading->bytes : why,
                                 .body_size = is_good ? (size_t)reading->size : (size_t)words};
    (void)node_post_send(c, reading->peer, POST_JOB, &parts, true);
    free(reading);
}

mob_status_t node_package_asked(node_cluster_t *c, uint64_t peer, base_reader_t *r) {
    char name[NAME_MAX_BYTES + 1];
    bool is_one = name_take(r, name);
    uint64_t offset = base_take_number(r, 8);
    if (!is_one || !base_reader_is_done(r) || offset > MOST_BYTES)
        return base_fail(MOB_EPROTO, "a question for a package makes no sense");
    reading_t *reading = c->packages.readings < MOST_READINGS ? calloc(1, sizeof *reading) : NULL;
    if (reading == NULL) return MOB_ENOMEM; /* it comes again, when some have ended */
    reading->cluster = c;
    reading->peer = peer;
    reading->offset = offset;
    snprintf(reading->name, sizeof reading->name, "%s", name);
    reading->work.data = reading;
    if (uv_queue_work(&c->node->loop, &reading->work, read_run, read_done) != 0) {
        free(reading);
        return MOB_ENOMEM;
    }
    c->packages.readings++;
    return MOB_OK;
}
