/* What the kernel says of a process: how much memory it has for itself, without what it shares with
 * others (the object store above all), and whether it is stopped. */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* In bytes; 0 if the process is gone. Memory that it inherited by a fork counts, as long as it lies
 * in memory. Reads one small file. */
uint64_t base_process_bytes(pid_t pid);

/* Of the processes that it started, and those that they started: only memory that none of them
 * shares with another. So of inherited memory only what they have changed counts. Reads some files
 * for each, and the kernel walks their page tables: 1 ms or so for 500 MB. */
uint64_t base_process_children_bytes(pid_t pid);

/* Whether a signal or a debugger has stopped it. False if that can't be read. Reads one small
 * file. */
bool base_process_stopped(pid_t pid);

#endif
