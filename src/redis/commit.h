/*
 * The script in Lua that looks whether what was read is still so, and then writes.
 *
 *   KEYS   the index
 *   ARGV   prefix of all keys, the server's time as the attempt took it (ms),
 *          how many checks, the checks, how many writes, the writes
 *     check   'g' key found                    found: '-' for none, else '+' and the value
 *             'n' beginning after key          the first key behind `after` ('': of all) that
 *                                              begins so, or ''
 *     write   's' key value ttl_ms             '0': without one
 *             'd' key
 *   answer 'done' time, or 'differs' time and words:
 *             'g' key found
 *             'n' beginning after count key found ... 'more' or 'end'
 */
#ifndef REDIS_COMMIT_H
#define REDIS_COMMIT_H

extern const char redis_commit_lua[];

#endif
