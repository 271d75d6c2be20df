/*
 * What ps and top show of a process. Linux keeps no such text: ps reads the memory that the process
 * was started with, its arguments, so a title is written there, without a system call.
 *
 * Not for several threads at once.
 */
#ifndef BASE_TITLE_H
#define BASE_TITLE_H

#include <stddef.h>
#include <stdint.h>

/* Finds the memory of the arguments, which are gone afterwards: argv is not to be read any more.
 * Once, before anything else; what is forked later has it too. Without it, or where there is too
 * little of it, base_title_set does nothing. Reads a small file. */
void base_title_begin(void);

/* The title becomes "ray::first", or "ray::first.second" if there is a second; cut where it is too
 * long. Cheap where it is that already. */
void base_title_set(const char *first, size_t first_size, const char *second, size_t second_size);

/* The short name that top shows by default becomes "ray::name", cut at 15 bytes; of the calling
 * thread, which is to be the main one. A system call. */
void base_title_short(const char *name, size_t size);

#endif
