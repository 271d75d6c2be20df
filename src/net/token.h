/*
 * The cluster's token: who knows it may do everything. Looked for in RAY_AUTH_TOKEN, then in the
 * file that RAY_AUTH_TOKEN_PATH names, then in ~/.ray/auth_token. Any thread; reads files.
 */
#ifndef NET_TOKEN_H
#define NET_TOKEN_H

#include <stddef.h>

#include "mobula.h"

enum { NET_TOKEN_MIN = 8, NET_TOKEN_MAX = 4096 };

typedef struct net_token {
    char text[NET_TOKEN_MAX + 1]; /* without white space around it */
    size_t size;
} net_token_t;

/* MOB_ENONAME: there is none. MOB_EPERM: others can read the file. MOB_EINVAL, MOB_ESYS. The words
 * name the place, never the token. */
mob_status_t net_token_find(net_token_t *ret_token);
/* The same, and makes ~/.ray/auth_token if there is none anywhere. Of two that make it at once,
 * both get the same. */
mob_status_t net_token_make(net_token_t *ret_token);
/* Forgets it. */
void net_token_fini(net_token_t *token);

#endif
