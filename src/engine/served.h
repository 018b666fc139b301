/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs that a keeper does for others: docs/keeper.md. Who asks finds it by the name of the sandbox, as a socket in the state directory,
 * and needs neither the registry nor namespaces.
 */
#ifndef ENGINE_SERVED_H
#define ENGINE_SERVED_H

#include "engine/keeper.h"
#include "engine/record.h"

struct run_view;

/* ---- who asks ---- */

/* 1 if a keeper has run the command, 0 if there is none that could: then it goes the ordinary way. */
struct sockaddr_un;
void served_address(int dir, const char *name, struct sockaddr_un *ret);
int served_run(struct atoll *a, const char *name, const struct atoll_run_options *options, struct atoll_run_result *ret,
	       struct atoll_error *err);

/* ---- likeness.c ---- */

/* What the spare process takes on itself. */
struct heritage {
	mode_t umask;
	uint64_t ignored; /* signals */
};
/* Everything else that a process hands down to its children, as one number; 0: it cannot be known. Only one who is alike gets his command
 * run by a keeper, whose child it is. */
uint64_t likeness(pid_t pid, struct heritage *ret);

/* ---- the keeper: server.c ---- */

struct server {
	struct jail_server jail;
	struct session *s;
	const struct run_view *view;
	struct slot_note *note; /* of its slot */
	int lock_fd, slot;
	const int *layers;              /* fd of the view's private places, or -EBADF */
	int64_t began, began_monotonic; /* of the present run */
	struct keeper *k;
	int dir; /* in which its socket is */
	ino_t socket;
	struct record record;
	struct heritage heritage; /* of who asks */
};
/* Without a socket nobody can ask; the view stands all the same. The door is closed, and is so after server_close(). */
void server_open(struct server *v, const struct jail_limits *limits);
void server_close(struct server *v);
/* With the sandbox, or with a keeper that was killed. */
void server_forget(struct atoll *a, const char *name);

/* run.c: after the last command, what was touched. */
int run_tell_end(struct session *s, struct atoll_error *err);

#endif
