/* Folders that Mobula makes, and their end. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <stdbool.h>

/* Removes the folder, the files in it, and its folders with the files in them. Follows no link.
 * False if something is left; a folder that is not there is fine. */
bool base_folder_remove(const char *path);

/*
 * Makes a folder that belongs to this process, in one that is there. Returns a descriptor that
 * holds a lock on it; keep it open. The kernel lets go of the lock when the process ends, however
 * it ends: so another process knows which folders were left behind. -1 and errno; EBUSY if another
 * process has had the lock for about 5 s.
 */
int base_folder_own(const char *path);

/* Removes the folders in `parent` that belong to no process any more, of those whose names are
 * `prefix` and hexadecimal numbers, joined by _. */
void base_folder_clear(const char *parent, const char *prefix);

#endif
