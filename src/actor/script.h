/*
 * Scripts of the control state about actors (control/script.h): one decides at a time, and whoever
 * asks twice is told the same. Arguments begin with the master that the asker knows to be settled.
 * Answers begin with an actor_say_t.
 */
#ifndef ACTOR_SCRIPT_H
#define ACTOR_SCRIPT_H

#include "actor/facts.h"
#include "control/script.h"

typedef enum {
    ACTOR_SAY_OK,        /* the epoch, 8 bytes, where one was asked for */
    ACTOR_SAY_UNSETTLED, /* another master; nothing was decided */
    ACTOR_SAY_OTHER,     /* it is otherwise: the facts as they are */
    ACTOR_SAY_NONE,      /* there is no such actor, or name */
    ACTOR_SAY_TAKEN,     /* another actor has the name */
    ACTOR_SAY_POISONED,  /* a value makes no sense */
} actor_say_t;

/* All of these have the facts as arguments, as the asker wants them. */
/* Takes the name; its first epoch is minted. OK, OTHER, TAKEN. */
size_t actor_script_take(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* From the epoch in the facts to a newly minted one, at the node in the facts. OK, OTHER, NONE. */
size_t actor_script_move(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* This node is about to begin the epoch; nobody begins it afterwards. OK, OTHER, NONE. */
size_t actor_script_begin(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* The constructor has ended in this epoch. OK, OTHER, NONE. */
size_t actor_script_alive(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* It is to die for good, whatever its epoch. OK. */
size_t actor_script_kill(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* It is dead, and so was its last epoch; its name is free. OK, OTHER. */
size_t actor_script_end(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* What is known here is said to a new master: it stays unless newer is known. OK, TAKEN. */
size_t actor_script_say(const script_keys_t *keys, const void *args, size_t size, void *answer);

/* Arguments: the master, the id. OTHER with the facts, or NONE. */
size_t actor_script_read(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* Arguments: the master, the name. OK with the id and the flags (1 byte), or NONE. */
size_t actor_script_find(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* Arguments: the master, a home. OK with homes after it that have actors, 8 bytes each. */
size_t actor_script_homes(const script_keys_t *keys, const void *args, size_t size, void *answer);
/* A dead home's actors. Arguments: the master, an id of the home, 0 or the last that was told. Ends
 * those that end with their home. OK with the ids of the others after that one. */
size_t actor_script_sweep(const script_keys_t *keys, const void *args, size_t size, void *answer);

#endif
