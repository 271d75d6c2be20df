/* Folders that the system makes, and their end. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include <stdbool.h>

/* Removes the folder, the files in it, and its folders with the files in them. Follows no link. False if something is left; one that is not there is fine. */
bool base_folder_remove(const char *path);

#endif
