/* Folders that the system makes, and their end. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <stdbool.h>

/* Removes the folder, the files in it, and its folders with the files in them. Follows no link.
 * False if something is left; one that is not there is fine. */
bool base_folder_remove(const char *path);

/*
 * Makes a folder that belongs to this process, in one that is there. Returns a descriptor that
 * holds a lock on it, to be kept open: the kernel lets go of the lock when the process ends,
 * however it does, and that is how others know what was left behind. -1 and errno; EBUSY if
 * somebody else has had the lock for about 5 s.
 */
int base_folder_own(const char *path);

/* Removes the folders in `parent` that belong to nobody any more, of those whose names are `prefix`
 * and hexadecimal numbers, joined by _. */
void base_folder_clear(const char *parent, const char *prefix);

#endif
