/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who is inside a sandbox: slots in its lock file. docs/keeper.md describes the protocol.
 *
 *	slot_close_door()                     nobody else comes in or goes out from here on
 *	slot_take()                           a free slot
 *	slot_find_peer()                      somebody to join, or nobody
 *	slot_note()                           once pid 1 exists
 *	slot_open_door()                      by pid 1, when its view stands
 *	…
 *	slot_close_door(), slot_leave(), slot_open_door()
 */
#ifndef ENGINE_SLOT_H
#define ENGINE_SLOT_H

#include "engine/engine.h"
#include "jail/jail.h"

#define SLOT_MAX 256

enum slot_kind {
	SLOT_RUN = 1,  /* a command, with a holder that waits for it */
	SLOT_DETACHED, /* a command, with a keeper as holder */
	SLOT_PLAIN,    /* a command without namespaces of its own */
	SLOT_KEEPER,   /* no command: namespaces that are kept, by a program that sleeps inside */
	SLOT_SERVER,   /* the same, by a spare process for those who ask; SLOT_RUN while it runs a command */
};

#define SLOT_DISMISSED (-1) /* as run of a keeper: it is being ended */

struct slot_note {
	char boot_id[40];
	int64_t pid, holder; /* pid 1 (SLOT_PLAIN, SLOT_KEEPER: the holder itself), and the process that started it */
	uint64_t tag, holder_tag; /* base/process.h */
	int64_t run;              /* its number; 0: none; SLOT_DISMISSED */
	uint64_t view_key;        /* of the options that make the view: only runs with the same key share one */
	int32_t kind, n_namespaces;
	int32_t namespaces[JAIL_NAMESPACES_MAX]; /* fds of the holder */
	int32_t layers;                          /* fd of the holder: the private places; 0: none */
};

/* One by one, for an instant. ATOLL_BUSY if it takes for ever. */
int slot_close_door(int lock_fd, const char *name, struct atoll_error *err);
void slot_open_door(int lock_fd); /* system calls only */

/* With the door closed. The index of a slot that is now this lock_fd's, or a negative code. */
int slot_take(int lock_fd, const char *name, struct atoll_error *err);
void slot_leave(int lock_fd, int slot); /* when all processes of it are gone */
/* Fills in boot and holder (this process). */
int slot_write(int lock_fd, int slot, struct slot_note *note);
int slot_rewrite(int lock_fd, int slot, const struct slot_note *note); /* as it is */

/* With the door closed: the view to share. 1 and *ret, whose fds are the caller's; 0 if nobody is inside, and nobody dying either. */
int slot_find_peer(int lock_fd, uint64_t view_key, const char *name, struct jail_namespaces *ret,
		   struct atoll_error *err);
/* Whether notes name nobody but processes that were killed; the door is closed then, and to be opened again. */
bool slot_close_after_dead(int lock_fd);
void slot_forget_dead(int lock_fd); /* what killed them has been seen to */
/* Until no note names a living process; for whoever changes the sandbox. */
int slot_wait_gone(int lock_fd, int wait_ms, const char *name, struct atoll_error *err);

/* Slots that are held just now, by whomever but lock_fd. Calls fn with each; stops where it returns true, and returns that. */
typedef bool (*slot_fn)(int slot, const struct slot_note *note, void *arg);
bool slot_each(int lock_fd, slot_fn fn, void *arg);
bool slot_has_command(int lock_fd); /* whether any of them is a command */
bool slot_is_shared(int lock_fd);   /* whether any slot is held */
bool slot_is_command(const struct slot_note *note);
void slot_dismiss(int lock_fd, int slot, const struct slot_note *note); /* with the door closed */
bool slot_is_dismissed(int lock_fd, int slot);
bool slot_is_alive(const struct slot_note *note); /* whether a process with the noted boot, number and tag lives */

#endif
