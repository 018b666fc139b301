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
};
/* Where sandboxes of the state directory have their workspaces, outside of it. */
struct run_areas {
	char **v; /* owned */
	size_t n;
};
int run_areas_list(struct session *s, struct run_areas *ret, struct atoll_error *err); /* asks the state database */
void run_areas_release(struct run_areas *areas);
/* Does without the state database, so that the session may be paused. */
int run_view_build(struct run_view *v, struct session *s, const struct run_options *o, const struct run_areas *areas,
		   struct atoll_error *err);
void run_view_release(struct run_view *v);

/* stdio: as in jail_spec. */
int run_plain(struct session *s, char *const *argv, const struct run_options *o, const int *stdio,
	      struct atoll_run_result *ret, struct atoll_error *err);

/* Why nothing is run here without namespaces, unless that was asked for. */
int run_plain_refuse(struct atoll_error *err);
/* Warns of standard output and error that are files of a resource. */
void run_output_tell(const struct session *s, const struct atoll_run_options *options);
bool run_output_is_inside(const struct session *s, int fd);

/* atoll_run(), with a keeper around it or NULL. */
struct keeper;
int run_start(struct atoll *a, const char *name, const struct atoll_run_options *options, struct keeper *keeper,
	      struct atoll_run_result *ret, struct atoll_error *err);

/* secrets.c: what is hidden by default. */
#define HOMES_MAX 2
struct homes {
	char *v[HOMES_MAX]; /* owned */
	size_t n;
};
/* The directories that count as the user's home: $HOME, if it is an absolute path, and the one that the system has on record for the
 * user. Without the latter neither a service that has no HOME nor a wrong one would hide anything. */
int secrets_homes(struct homes *ret);
void secrets_homes_release(struct homes *h);
size_t secrets_count(void);
/* Each as it is found below a home, malloc'ed, or NULL; what does not lie in a home is found with the first one, number 0. */
char *secrets_path(size_t i, const struct homes *homes, size_t number);

#endif
