/* SPDX-License-Identifier: Apache-2.0 */
/* What the settings of a run mean, in the form in which it is needed. */
#ifndef ENGINE_RUN_OPTIONS_H
#define ENGINE_RUN_OPTIONS_H

#include "engine/engine.h"
#include "jail/jail.h"

enum run_place_kind { RUN_PLACE_HIDE, RUN_PLACE_RO, RUN_PLACE_RW, RUN_PLACE_TMPFS, RUN_PLACE_SCRATCH };

struct run_place {
	enum run_place_kind kind;
	char *path;         /* absolute; resolved once it was checked */
	bool may_be_absent; /* it comes from a config file, which is for many sandboxes */
	bool in_resource;
};

struct run_options {
	char *cwd;             /* absolute */
	char **env;            /* ended by NULL */
	char *root;            /* NULL: the host's */
	struct keeper *keeper; /* of a detached run, or NULL */
	int64_t timeout_ms;
	int64_t db_idle_limit_ms; /* how long it may be idle with exclusive locks; 0: as long as it likes */
	int64_t db_limit_ms;      /* of a database's transaction that begins with this run; 0: none */
	uint64_t disk;            /* bytes that the changes may take; 0: no limit */
	struct jail_limits limits;
	struct run_watch *watch; /* NULL: nothing needs to be watched */
	struct run_place *places;
	size_t n_places;
	char **kept; /* parts of the home directory that the caller takes to be resources */
	size_t n_kept;
	bool terminal;
	bool as_root;   /* the command is root inside */
	bool userns;    /* the command may make user namespaces */
	bool log;       /* keep the output of the run */
	bool best;      /* run also where Atoll can make no namespaces */
	bool untrusted; /* neither an option nor a resource may show a secret */
	bool clear_env;
	char *profile_name;
	struct jail_profile *profile; /* NULL: none but the default */
	struct net_policy net;
};

/* From the options, and what is kept with the sandbox. */
int run_options_make(const struct atoll_run_options *options, const struct store_sandbox *box, struct run_options *ret,
		     struct atoll_error *err);
void run_options_release(struct run_options *o);

/* run-places.c. What a setting of that name does to a place, if anything. */
bool run_places_kind(const char *setting, enum run_place_kind *ret);
/* Resolves the places and sees whether they go together with the resources. */
int run_places_check(struct run_options *o, const struct session *s, struct atoll_error *err);
enum jail_mount_kind run_places_mount(const struct run_place *p);
/* Warns of those that are no part of the sandbox. */
void run_places_tell(const struct run_options *o, const struct atoll_run_options *options);

/* run-mounters.c: warns of a command that cannot work inside because it mounts filesystems. */
void run_mounters_tell(const struct atoll_run_options *options);

/* environment.c: the environment of the command, ended by NULL: the caller's (or with clear only the few variables without which hardly
 * anything works), without those that steer the dynamic loader; then the files, then the single variables. PWD is cwd, unless that is NULL. */
struct environment_spec {
	bool clear;
	bool untrusted; /* refuse a file that holds a credential */
	const char *const *files, *const *single;
	const char *cwd;
};
int environment_make(const struct environment_spec *spec, char ***ret, struct atoll_error *err);
/* Environment variables by which a command learns its sandbox and its run. */
#define ENVIRONMENT_SANDBOX "ATOLL_SANDBOX="
#define ENVIRONMENT_RUN "ATOLL_RUN="
bool environment_names_run(const char *assignment);                     /* one of these two */
int environment_set_run(char ***env, const char *sandbox, int64_t run); /* 0 or -ENOMEM */
void environment_free(char **env);
/* Returns the i-th variable (with "*" at the end: several) that no command inherits, and why; false
 * past the end. */
bool environment_hidden_at(size_t i, const char **ret_name, const char **ret_why);
/* Calls fn for each variable of the caller that a command does not get. */
void environment_left_out(bool clear, void (*fn)(const char *name, const char *why, void *arg), void *arg);
/* "NAME=value" in place of what there is of that name; "NAME" takes it out. 0 or -ENOMEM. */
int environment_adapt(char ***env, const char *assignment);
/* What of another process's environment its command would get, one by one; false if a name is there twice, or keep said so. */
bool environment_filter(char *const *env, bool (*keep)(const char *assignment, void *arg), void *arg);

#endif
