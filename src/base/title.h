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

/* Finds the memory of the arguments, which are gone afterwards: do not read argv any more. Call it
 * once, before anything else; processes that are forked later have it too. Without this call, or
 * with too little memory, base_title_set does nothing. Reads a small file. */
void base_title_begin(void);

/* The title becomes "ray::first", or "ray::first.second" if there is a second; cut where it is too
 * long. Cheap if the title is that already. */
void base_title_set(const char *first, size_t first_size, const char *second, size_t second_size);

/* Shows another environment than the one that the process was started with, as much of it as there
 * is room for. Nothing may use the old one any more: `environ` must have been replaced. */
void base_title_environment(const char *const *env);

/* The short name that top shows by default becomes "ray::name", cut at 15 bytes; that of the
 * calling thread, which is to be the main one. A system call. */
void base_title_short(const char *name, size_t size);

#endif
