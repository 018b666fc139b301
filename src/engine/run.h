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
int run_view_build(struct run_view *v, struct session *s, const struct run_options *o, struct atoll_error *err);
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

/* secrets.c: what is hidden by default, each as it is found here, malloc'ed, or NULL. */
size_t secrets_count(void);
char *secrets_path(size_t i, const char *home);

#endif
