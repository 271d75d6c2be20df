/* Every object, who holds it and why, for people; and where it was made. */
#ifndef NODE_CENSUS_H
#define NODE_CENSUS_H

#include "node/types.h"
#include "wire/direct.h"

/* Where an object was made: the number of the site's text, plus one. */
typedef struct {
    uint64_t generation;
    uint32_t site;
} node_site_t;

typedef struct {
    node_site_t *of; /* by slot; written only if clients tell */
    VEC(char *) texts;
} node_sites_t;

/* A client names a site, and asks for its number. `text` is borrowed. */
void node_site_name(node_client_t *client, const void *text, size_t size);
/* The client made an object at that site. */
void node_site_note(node_client_t *client, uint32_t slot, uint64_t generation, uint64_t site);
/* Writes at most `limit` objects. */
void node_census_write(node_t *node, uint64_t limit, wire_writer_t *writer);

#endif
