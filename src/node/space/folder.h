/* Folders on disk for values that memory has no space for: the daemon's own in each that was
 * configured. */
#ifndef NODE_SPACE_FOLDER_H
#define NODE_SPACE_FOLDER_H

#include "node/types.h"
#include "store/spill.h"

typedef struct {
    char *path;
    uint32_t writes;    /* under way */
    uint64_t moved_ns;  /* when the first of them began, or the last one ended */
    uint64_t failed_ns; /* when one last failed; 0: never */
    bool told;          /* that it does not answer */
} node_folder_t;

typedef struct {
    VEC(node_folder_t) items; /* from the first use on */
    uint32_t turn;            /* whose it is */
} node_folders_t;

/* Begins to remove what killed daemons have left in those that are configured. At the start only: a
 * session's own folder goes with it. */
void node_folders_clear(node_t *node);
/* Makes them, once. Of those that were configured one is enough, and without any it is the
 * session's own. An errno: there is none. */
int node_folders_make(node_t *node);
/* One for people who ask where values would lie, also if none could be made. */
const char *node_folders_name(const node_t *node);
/* The place of the folder whose turn it is, of those that are good; else of those that only failed;
 * SIZE_MAX: none answers. */
size_t node_folder_choose(node_t *node);
/* A write begins in that folder, or has ended, with 0 or an errno. */
void node_folder_write_begin(node_t *node, size_t folder);
void node_folder_write_end(node_t *node, size_t folder, int error);
/* Whether writes are under way, other than to a folder that does not answer. */
bool node_folders_are_written(const node_t *node);
/* Whether in all of them writes are under way and none has ended for a while; in `dead`, for so
 * long that nobody waits for it any more. Tells the driver of each that does not answer. */
bool node_folders_are_silent(node_t *node, bool *ret_dead);
/* Removes them, with all files. At the end only: waits for the disk. */
void node_folders_end(node_t *node);

/* A thread of libuv's removes the file, and the path, which is TAKEN, is freed; or gives the disk
 * back what the item took in it. Without memory for that it stays until the session's end. */
void node_folder_file_remove(node_t *node, char *path);
void node_folder_file_punch(node_t *node, const char *path, const store_spill_item_t *item);

#endif
