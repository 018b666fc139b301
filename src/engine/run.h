/* SPDX-License-Identifier: Apache-2.0 */
/* The two ways of running a command. */
#ifndef ENGINE_RUN_H
#define ENGINE_RUN_H

#include <fcntl.h>

#include "engine/engine.h"
#include "engine/run-options.h"

struct run_view {
	struct jail_mount *mounts;
	size_t n;
	char **paths; /* owned */
	size_t n_paths;
	int *fds; /* owned */
	size_t n_fds;
	char **copies; /* owned: the contents of files */
	size_t n_copies;
};
/* Workspaces of this state directory's sandboxes that lie outside of it. */
struct run_areas {
	char **v; /* owned */
	size_t n;
};
/* Reads the state database. */
int run_areas_list(struct session *s, struct run_areas *ret, struct atoll_error *err);
void run_areas_release(struct run_areas *areas);
/* Does not read the state database, so the session may be paused. */
int run_view_build(struct run_view *v, struct session *s, const struct run_options *o, const struct run_areas *areas,
		   struct atoll_error *err);
/* Whether a path that the view hides does not even exist inside, because it lies in a place that is
 * empty there. */
bool run_view_is_absent(const struct run_view *v, const struct run_options *o, const char *path);
/* The last step of run_view_build(): makes the directories above hidden and read-only mounts mount points. */
int run_hold_directories(struct run_view *v, const struct run_options *o, struct atoll_error *err);
/* run-late.c: lists mounts for a run that joins a view. They hide the secrets that exist now; the run
 * makes those that the view lacks. */
int run_view_join(struct run_view *v, const struct session *s, struct atoll_error *err);
/* Whether the view hides all secrets that exist now, with those of a client that has this HOME. */
bool run_view_hides_all(const struct run_view *v, const struct session *s, const char *home);
void run_view_release(struct run_view *v);

struct run_plain {
	char *const *argv;
	const struct run_options *o;
	const int *stdio; /* as in jail_spec */
	/* Called once the command is confined, before exec succeeds or fails. */
	void (*begun)(void *arg);
	void *arg;
};
int run_plain(struct session *s, const struct run_plain *p, struct atoll_run_result *ret, struct atoll_error *err);

/* Why nothing is run here without namespaces, unless that was asked for. */
int run_plain_refuse(struct atoll_error *err);
/* Warns of standard output and error that are files of a resource. */
void run_output_tell(const struct session *s, const struct atoll_run_options *options);
bool run_output_is_inside(const struct session *s, int fd);

/* atoll_run(), with a keeper around it or NULL. */
struct keeper;
int run_start(struct atoll *a, const char *name, const struct atoll_run_options *options, struct keeper *keeper,
	      struct atoll_run_result *ret, struct atoll_error *err);

/* secrets.c: paths that a view hides by default. */
#define HOMES_MAX 2
struct homes {
	char *v[HOMES_MAX]; /* owned */
	size_t n;
};
/* The directories that count as the user's home: $HOME, if it is an absolute path, and the
 * directory that the system has on record for the user. Without the latter a service with no HOME,
 * or with a wrong one, would hide nothing. */
int secrets_homes(const char *variable, struct homes *ret); /* variable: of HOME, or NULL */
void secrets_homes_release(struct homes *h);
size_t secrets_count(void);
/* Returns secret i below the given home, malloc'ed, or NULL. A secret outside of any home belongs
 * to the first home, number 0. */
char *secrets_path(size_t i, const struct homes *homes, size_t number);
/* How Atoll hides a secret. If the content of a file decides, the view shows a copy of the content
 * that Atoll has read, so that a credential written later does not show. */
enum secret_kind {
	SECRET_ALWAYS,
	SECRET_BY_CONTENT, /* a file: shown if it holds no credential */
	SECRET_EXCEPTION,  /* the same, below a secret directory, which hides it otherwise */
};
enum secret_kind secrets_kind(size_t i);
/* Returns the malloc'ed content of a file that holds no credential; NULL for any other file. */
char *secrets_read_harmless(const char *path, size_t *ret_size);

/* secret-content.c: whether a configuration file (INI, JSON, netrc and the like) holds no
 * credential. Returns false when in doubt. */
bool secret_content_is_harmless(const char *text, size_t size);

#endif
