/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libatoll: transactional sandboxes.
 *
 * A sandbox holds private copy-on-write views of real resources. Commands run inside it, what they changed is shown,
 * and atoll_commit() lands all of it atomically or none of it.
 *
 * Calling sequence:
 *
 *	struct atoll *a;
 *	atoll_open(&(struct atoll_options){ 0 }, &a, &err);
 *	atoll_new(a, &spec, &info, &err);
 *	atoll_run(a, info->name, &run, &run_result, &err);
 *	atoll_changes(a, info->name, NULL, print, NULL, &err);
 *	atoll_commit(a, info->name, &commit, &result, &err);
 *	atoll_remove(a, info->name, &remove, &err);
 *	atoll_close(a);
 *
 * Errors: every function that can fail returns 0 or a negative enum atoll_code and then has filled *err. The caller owns
 * the struct, nothing in it needs freeing, and it is untouched on success. err may be NULL.
 *
 * Threads: a handle may be used by several threads at once. Operations that change one sandbox exclude each other, over
 * threads and processes: the second one waits as long as its wait_ms says, with 0 for up to three seconds unless a command runs inside, and
 * then gets ATOLL_BUSY. So do those that change overlapping originals, of whichever sandbox, for at least ten seconds. Very many files are looked at by a few
 * threads of the library's own: they have all signals blocked, call nobody back, and are over when the call returns.
 *
 * Strings: paths and file names are bytes, ended by NUL, not necessarily UTF-8.
 */
#ifndef ATOLL_ATOLL_H
#define ATOLL_ATOLL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Everything declared here is exported, whatever the visibility of the rest. */
#pragma GCC visibility push(default)

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* Every code, its exit status and its meaning: one table in src/base/error.c, printed by `atoll help exit-codes`. */
enum atoll_code {
	ATOLL_OK,
	ATOLL_FAILED,      /* a system call or an internal check failed */
	ATOLL_INVALID,     /* an argument is malformed */
	ATOLL_CONFLICT,    /* somebody else changed the original meanwhile */
	ATOLL_REFUSED,     /* refused by policy or by a check beforehand */
	ATOLL_NOT_FOUND,   /* no such sandbox, path or commit */
	ATOLL_BUSY,        /* in use by another process or thread */
	ATOLL_IN_DOUBT,    /* something is left for recover, or for a human */
	ATOLL_EXISTS,      /* a sandbox of that name is there already */
	ATOLL_STATE,       /* not possible in the sandbox's present state */
	ATOLL_UNSUPPORTED, /* this strategy or machine cannot do it */
	ATOLL_NO_SPACE,    /* space, inodes or quota would not suffice */
	ATOLL_CORRUPT,     /* the state database is damaged or from a newer version */
	ATOLL_TIMEOUT,     /* a time limit passed */
	ATOLL_CODE_COUNT
};

struct atoll_error {
	enum atoll_code code;
	int sys_errno;      /* 0, or the errno behind it */
	char operation[32]; /* "commit" */
	char object[256];   /* what it was about, as given; shortened if long */
	char message[768];  /* one line, for people */
};

const char *atoll_code_name(enum atoll_code code);    /* "conflict" */
const char *atoll_code_meaning(enum atoll_code code); /* one sentence */
int atoll_code_exit_status(enum atoll_code code);     /* 0..7 */
const char *atoll_version(void);

/* ---- Handle ------------------------------------------------------------------------------------------------------ */

struct atoll;

struct atoll_options {
	const char *
		state_dir; /* NULL: $ATOLL_STATE_DIR, else $XDG_STATE_HOME/atoll, else ~/.local/state/atoll; root: /var/lib/atoll */
};

int atoll_open(const struct atoll_options *options, struct atoll **ret, struct atoll_error *err);
struct atoll *atoll_close(struct atoll *a); /* returns NULL; NULL is fine */
const char *atoll_state_dir(const struct atoll *a);

/* ---- Settings: how commands run ---------------------------------------------------------------------------------- */

/* One of them, as text: "timeout" and "90s", "env" and "KEY=value", "clear-env" and "yes". atoll_setting_at() lists the names. */
struct atoll_setting {
	const char *name, *value;
	const char *source; /* where it was given, for people: "/etc/atoll/config:3"; NULL: by the caller */
};

enum atoll_setting_shape {
	ATOLL_SETTING_ONE,   /* the nearest value counts */
	ATOLL_SETTING_LIST,  /* all values count, the nearest last */
	ATOLL_SETTING_SWITCH /* "yes" or "no"; the nearest counts */
};
struct atoll_setting_kind {
	const char *name;
	enum atoll_setting_shape shape;
	const char *fallback; /* what counts where none is given; NULL: nothing does */
};
const struct atoll_setting_kind *atoll_setting_at(size_t i); /* NULL past the end */

/* A list of them, the nearest last. NULL is an empty one. */
struct atoll_settings;
/* Makes *settings if it is NULL. What is unknown or absurd is ATOLL_INVALID. Relative paths are those of the caller's working
 * directory just now; "~/" is the home directory when the command runs. source may be NULL. */
int atoll_settings_add(struct atoll_settings **settings, const char *name, const char *value, const char *source,
		       struct atoll_error *err);
const struct atoll_setting *atoll_settings_get(const struct atoll_settings *settings, size_t i); /* NULL past the end */
/* Adds those of a config file, or of the standard ones: /etc/atoll/config, then $XDG_CONFIG_HOME/atoll/config or
 * ~/.config/atoll/config; a standard one that does not exist adds nothing. ATOLL_REFUSED if somebody else could have written it. */
int atoll_settings_read(struct atoll_settings **settings, const char *path, struct atoll_error *err);
int atoll_settings_read_standard(struct atoll_settings **settings, struct atoll_error *err);
struct atoll_settings *atoll_settings_free(struct atoll_settings *settings); /* returns NULL */

/* ---- Sandboxes --------------------------------------------------------------------------------------------------- */

enum atoll_kind {
	ATOLL_KIND_DIR,
	ATOLL_KIND_FILE,
	ATOLL_KIND_GIT,      /* a repository with its checkout */
	ATOLL_KIND_SQLITE,   /* a database in one file */
	ATOLL_KIND_POSTGRES, /* a database of a server; its path is a connection string, as libpq takes it */
	ATOLL_KIND_COUNT
};
const char *atoll_kind_name(enum atoll_kind kind); /* "directory", "file", "git", "sqlite", "postgresql" */

/* The life of a resource; src/engine/state.c has the table. */
enum atoll_state {
	ATOLL_PENDING,
	ATOLL_CREATED,
	ATOLL_ACTIVE,
	ATOLL_COMMITTED,
	ATOLL_ROLLED_BACK,
	ATOLL_ERRORED,
	ATOLL_CLEANED_UP,
	ATOLL_STATE_COUNT
};
const char *atoll_state_name(enum atoll_state state);

enum atoll_phase { ATOLL_PHASE_NONE, ATOLL_PHASE_PREPARED, ATOLL_PHASE_DECIDED, ATOLL_PHASE_IN_DOUBT };
const char *atoll_phase_name(enum atoll_phase phase);

struct atoll_resource_spec {
	enum atoll_kind kind;
	const char *path;
	const char *strategy; /* NULL: the strongest that works here */
	bool dirty; /* git: what is uncommitted in the checkout comes along; otherwise the sandbox begins at its commit */
	/*
	 * git: take the checkout as it is. As with dirty, uncommitted changes come along; besides,
	 * HEAD inside is on the original's branch, and edits that no command inside commits land as
	 * uncommitted ones.
	 */
	bool as_is;
	/*
	 * Take a directory of the system, like /etc or /usr, or a path below one whose files belong
	 * to the system. atoll_new() refuses such a path otherwise. It refuses "/", /proc, /sys,
	 * /run and the devices of /dev in any case.
	 */
	bool allow_system;
};

/* What making the workspace of one resource takes where the filesystem cannot share blocks. */
struct atoll_cost {
	int resource;          /* its seq */
	const char *path;      /* absolute; valid during the call */
	uint64_t files, bytes; /* that will be copied */
};
/* A non-zero return value stops: the library does not begin the copy and makes no sandbox, and
 * atoll_new() returns ATOLL_REFUSED. */
typedef int (*atoll_cost_fn)(const struct atoll_cost *cost, void *arg);

struct atoll_new_options {
	const char *name; /* NULL: one is made up */
	const struct atoll_resource_spec *resources;
	size_t n_resources;
	bool durable_workspace;                /* sync the workspace after each run */
	bool prunable;                         /* atoll_prune() may remove it after all its changes have landed */
	const struct atoll_settings *settings; /* kept with the sandbox, for all its runs */
	atoll_cost_fn cost; /* NULL, or called for each resource that must be copied, before that begins */
	void *cost_arg;
	/*
	 * NULL, or a function that the calling thread calls many times, possibly at very short
	 * intervals, while the library makes the sandbox. If it returns true, the library gives up,
	 * leaves nothing behind, and sets the error's sys_errno to ECANCELED.
	 */
	bool (*cancelled)(void *arg);
	void *cancelled_arg;
};

struct atoll_resource_info {
	int seq; /* 1, 2, … in the order given at creation */
	enum atoll_kind kind;
	enum atoll_state state;
	char *path;      /* absolute and resolved; of a server's database where it is, without a password */
	char *strategy;  /* "overlay" */
	char *mode;      /* "rootless, same filesystem" */
	char *reason;    /* why this strategy */
	char *workspace; /* where the edits lie at rest; NULL for none */
	char *stage;     /* where staging and undo data lie; NULL for none */
	bool suspect;    /* written, not synced, and the machine restarted since */
	bool lost;       /* a database's transaction is gone, and with it the edits */
	char *detail;    /* one line about what it holds just now, or how it was lost; NULL: nothing */
	bool dirty;      /* a reset of the workspace did not finish */
	/* A commit may land some files of the resource alone. If not, the resource lands as a whole: a
	 * database, or a repository that was not taken as it is */
	bool divides;
	uint64_t copied_files, copied_bytes; /* as told to atoll_cost_fn; 0 but in the answer of atoll_new() */
	char *locks; /* relations of a database that are locked so that others wait, "public.t (AccessExclusiveLock)", one a line; NULL: none */
	int64_t locked_ns;   /* at most so long: since the transaction began */
	int64_t given_up_ns; /* the transaction is given up if no command uses it for so long from now; -1: never */
};

struct atoll_info {
	char *name;
	char *uuid;
	char *created_at; /* RFC 3339, UTC */
	char *active_at;
	enum atoll_state state; /* of its resources, the least advanced */
	enum atoll_phase phase; /* of a commit or undo in progress */
	bool running;           /* a command runs inside just now */
	bool durable_workspace;
	int64_t commits;                 /* commits that have landed and that no undo has taken back */
	bool landed;                     /* prunable, all changes have landed: kept for its undo record */
	struct atoll_settings *settings; /* kept with it; NULL: none */
	struct atoll_resource_info *resources;
	size_t n_resources;
};

int atoll_new(struct atoll *a, const struct atoll_new_options *options, struct atoll_info **ret,
	      struct atoll_error *err);
int atoll_show(struct atoll *a, const char *name, struct atoll_info **ret, struct atoll_error *err);
/*
 * In any call below, name NULL means the only sandbox or, if there are several, the sandbox with
 * the innermost resource around the current directory. The library passes over sandboxes that it
 * keeps only for their undo record (landed), unless there are no others. atoll_list() orders by
 * creation.
 */
int atoll_list(struct atoll *a, struct atoll_info ***ret, size_t *ret_n, struct atoll_error *err);
struct atoll_info *atoll_info_free(struct atoll_info *info);
void atoll_info_list_free(struct atoll_info **list, size_t n);

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* A path of the host that views hide, or a variable of the caller that commands do not get. "~/" at
 * the beginning of a path stands for each home directory of the user. text says when Atoll hides
 * the path, or why it drops the variable. atoll_hidden_at() returns false past the end. */
struct atoll_hidden {
	const char *name, *text;
	bool is_variable; /* a "*" at the end of the name matches any characters */
};
bool atoll_hidden_at(size_t i, struct atoll_hidden *ret);

/* A preset of the setting "net": a usual registry or forge. hosts: the hosts that the preset
 * allows, separated by spaces. */
struct atoll_net_preset {
	const char *name, *summary, *hosts;
};
const struct atoll_net_preset *atoll_net_preset_at(size_t i); /* NULL past the end */

/* Called before the command starts, for what its user should know: one line each. */
typedef void (*atoll_notice_fn)(bool is_warning, const char *text, void *arg);

/* What a command asked of the network and did not get, where only some hosts are allowed. */
enum atoll_refusal_kind {
	ATOLL_REFUSAL_NAME, /* a name was looked up */
	ATOLL_REFUSAL_TCP,  /* a connection was tried */
	ATOLL_REFUSAL_UDP,  /* a packet was sent */
	ATOLL_REFUSAL_PING,
	ATOLL_REFUSAL_MORE, /* there was more than could be kept */
	ATOLL_REFUSAL_LOST, /* the gateway to the network was ended before the command: it had none from then on */
	ATOLL_REFUSAL_KIND_COUNT
};
struct atoll_refusal {
	enum atoll_refusal_kind kind;
	uint32_t count;
	char what[288]; /* the name, or address and port; may hold any byte that is printable */
};
typedef void (*atoll_refusal_fn)(const struct atoll_refusal *refusal, void *arg);
typedef void (*atoll_wanted_network_fn)(void *arg);

/*
 * Entries that a command wrote or removed in places of its view that belong to no resource and
 * vanish with the view: a private layer over the home directory, and places that begin empty, such
 * as /tmp. No commit lands these entries. A run that shares its view with other runs reports the
 * entries that any of these runs wrote since it began.
 */
struct atoll_discarded_path {
	const char *path;  /* absolute */
	bool is_directory; /* new and empty, or unreadable to the library, or removed */
	bool is_removed;   /* removed in the view; the entry of the host still exists */
};
/* One group for each directory directly in a place, and one for the files directly in it. Groups
 * of the user's own files come first, caches and temporary places last. */
struct atoll_discarded {
	const char *place; /* "/home/ann", "/tmp" */
	const char *below; /* the innermost directory that holds all entries of the group */
	bool temporary;    /* the place begins empty: /tmp, /run, /dev/shm, /dev, or one of --tmpfs */
	bool is_cache;     /* below ~/.cache */
	bool view_stays;   /* another command or a keeper still holds the view: nothing is lost yet */
	uint64_t files;    /* made or changed; includes links, sockets and other types */
	uint64_t directories;
	uint64_t removed;                         /* a directory counts as one */
	bool more;                                /* the three counts are lower bounds: the walk stops at a maximum */
	const struct atoll_discarded_path *paths; /* sorted; only the first of them if there are many */
	size_t n_paths;
	size_t index, n; /* of this group, from 0 on, and the number of groups of the run */
};
typedef void (*atoll_discarded_fn)(const struct atoll_discarded *discarded, void *arg);

struct atoll_run_options {
	char *const *argv; /* NULL-terminated */
	const char *cwd;   /* NULL: as the settings say, else the caller's */
	int wait_ms;       /* how long to wait for the sandbox if it is busy; -1 for ever */
	bool terminal;     /* the standard fds are the terminal, in the foreground: the command has it to
						* itself, and the calling process stops (Ctrl-Z) and goes on with it */
	bool interactive;  /* of atoll_start(): its standard input comes from those who attach; otherwise it is empty */
	bool tty;          /* the same, at a terminal of its own */
	const struct atoll_settings *defaults; /* weaker than those kept with the sandbox: from config files */
	const struct atoll_settings *settings; /* stronger */
	atoll_notice_fn notice;                /* may be NULL */
	void *notice_arg;
	atoll_refusal_fn refusal; /* NULL, or called for each of them when the command has ended */
	void *refusal_arg;
	/* NULL, or called once if a command without network looks for one: while the command runs,
	 * or, in a view that a keeper holds, after the command has ended. */
	atoll_wanted_network_fn wanted_network;
	void *wanted_network_arg;
	atoll_discarded_fn discarded; /* NULL, or called for each group after the command has ended */
	void *discarded_arg;
};

struct atoll_run_result {
	int exit_status;  /* the command's own, 128 + n if signal n ended it, 126/127 if it could not be executed */
	int signal;       /* 0, or the signal that ended it */
	bool not_started; /* exit_status is 126 or 127 because exec failed */
	bool timed_out;   /* exit_status is 124: the time limit passed, and every process inside was ended */
	bool ended_from_outside; /* another process killed its pid 1, and thereby everything inside */
	bool wanted_network;     /* the command had no network, and a process inside looked for one */
	char limited[200];       /* "", or in one line which limit of memory, disk or processes was run into */
	bool unconfined; /* no namespaces here: it ran in the workspace itself, at another path, kept from writing elsewhere by
			   * Landlock alone */
	int64_t elapsed_ns;
	int64_t user_ns, system_ns, max_rss; /* of all processes inside that were waited for; bytes */
	int64_t run;                         /* its number within the sandbox */
	bool holds_transaction; /* a database's transaction stays open after the run: atoll_show() tells what it locks */
	uint64_t discarded;     /* entries of all groups that are not temporary: see struct atoll_discarded */
	uint64_t temporary;     /* entries of the temporary groups */
	bool discards_own;      /* some discarded entries lie outside of caches */
	bool discards_more;     /* these counts are lower bounds */
	bool discards_unknown;  /* the library could not look at these places */
	bool untrusted;         /* the settings of the run say so */
	bool lists_refusals;    /* a gateway reported every refused name and connection */
};

/* What a command could do with these options (argv may be NULL): one call of fn for each thing, nothing is run. */
struct atoll_ability {
	const char *what;   /* "see", "write", "hidden", "reach", "be", "call", "use" */
	const char *object; /* a path, a host, a user, a limit */
	const char *text;   /* one line */
};
typedef void (*atoll_ability_fn)(const struct atoll_ability *ability, void *arg);
int atoll_explain(struct atoll *a, const char *name, const struct atoll_run_options *options, atoll_ability_fn fn,
		  void *arg, struct atoll_error *err);

int atoll_run(struct atoll *a, const char *name, const struct atoll_run_options *options, struct atoll_run_result *ret,
	      struct atoll_error *err);

/* The latest runs are remembered, with what became of them. */
struct atoll_run_info {
	int64_t number; /* 1, 2, … within the sandbox */
	char **argv;    /* ended by NULL */
	bool cut;       /* the arguments are longer than what is remembered of them */
	char *started_at, *ended_at;
	bool running;
	bool lost;        /* it was killed together with the Atoll that watched it: how it ended is not known */
	bool detached;    /* by a keeper */
	bool logged;      /* its output is on disk */
	bool interactive; /* its input comes from those who attach */
	bool tty;         /* at a terminal of its own */
	bool failed;      /* Atoll could not run it */
	bool not_started; /* it cannot be executed */
	bool timed_out;
	int exit_status, signal; /* as in struct atoll_run_result */
	pid_t pid;               /* of the first process inside, as seen from outside; 0: none */
	int64_t elapsed_ns, user_ns, system_ns, max_rss;
	uint64_t discarded, temporary; /* as in struct atoll_run_result, and so are the next two */
	bool discards_more, discards_unknown;
};
/* Newest first. */
int atoll_runs(struct atoll *a, const char *name, struct atoll_run_info **ret, size_t *ret_n, struct atoll_error *err);
void atoll_runs_free(struct atoll_run_info *runs, size_t n);
/* Reads the recorded groups of a run and calls fn for each. There are none if the run wrote
 * nothing in such places or has not ended. */
int atoll_discarded(struct atoll *a, const char *name, int64_t run, atoll_discarded_fn fn, void *arg,
		    struct atoll_error *err);

/*
 * Starts a run in the background, held by a keeper, which keeps the last 4 to 8 MiB of the run's
 * output on disk. Returns when the command starts, with the run's number. The notices, refusals and
 * discarded groups for the callbacks of the options go to that output too. The keeper closes all other
 * files of the calling process: a callback can only write to standard output and standard error.
 */
int atoll_start(struct atoll *a, const char *name, const struct atoll_run_options *options, int64_t *ret_run,
		struct atoll_error *err);
/* Keeps the view, with its /tmp, until idle_ms have passed since the last command ended, so that
 * the next command starts sooner. Uses only the settings and defaults of the options. The keeper
 * ends earlier when a caller changes the sandbox. Fails with ATOLL_UNSUPPORTED and the operation
 * "keep" if commands run without namespaces here (isolation "best"): then there is no view to
 * keep. */
int atoll_keep(struct atoll *a, const char *name, const struct atoll_run_options *options, int idle_ms,
	       struct atoll_error *err);
/* A path by which other programs of the same user reach the sandbox's own files, as malloc'ed string: of a path within a resource
 * (absolute, or relative to the first one; NULL: that one itself). Where the view must stand for that, it is kept for idle_ms. */
int atoll_path(struct atoll *a, const char *name, const char *path, int idle_ms, char **ret, struct atoll_error *err);
/* Calls fn with the output of a detached run; on: until its end, also with nothing now and then. fn returning non-zero stops. */
typedef int (*atoll_output_fn)(const char *data, size_t size, void *arg);
int atoll_output(struct atoll *a, const char *name, int64_t run, bool on, atoll_output_fn fn, void *arg,
		 struct atoll_error *err);

struct atoll_attach_options {
	int64_t run;
	int input; /* whose bytes are typed; of a terminal the size is passed on too, its mode is the caller's matter. -1: none */
	const char *detach_keys; /* a sequence of bytes that ends it, while the command goes on; NULL: none */
	atoll_output_fn output;  /* as in atoll_output() */
	void *output_arg;
};
/* The output of a run, from its beginning until its end, and input for it if it was started to take some. */
int atoll_attach(struct atoll *a, const char *name, const struct atoll_attach_options *options, bool *ret_detached,
		 struct atoll_error *err);

struct atoll_kill_options {
	int64_t run;  /* 0: all of the sandbox */
	int signal;   /* sent to the command; 0: SIGTERM, and after grace_ms every process of the run is ended */
	int grace_ms; /* for signal 0 */
};
/* Ends runs, or sends them a signal; how many is returned in *ret_n. With signal 0 and SIGKILL none of their processes is left. */
int atoll_kill(struct atoll *a, const char *name, const struct atoll_kill_options *options, size_t *ret_n,
	       struct atoll_error *err);

/* ---- Changes ----------------------------------------------------------------------------------------------------- */

enum atoll_change_kind {
	ATOLL_ADDED,
	ATOLL_MODIFIED, /* content, or a link's target */
	ATOLL_DELETED,
	ATOLL_TYPE,    /* file <-> link <-> directory */
	ATOLL_META,    /* only mode, owner, xattrs, times or link count */
	ATOLL_RENAMED, /* from old_path; ATOLL_WHAT_CONTENT if it was edited too */
	ATOLL_SKIPPED  /* FIFO, socket, device, or outside a file resource: stays in the sandbox; see note */
};
const char *atoll_change_kind_name(enum atoll_change_kind kind); /* "added" */
char atoll_change_kind_letter(enum atoll_change_kind kind);      /* 'A' */

enum {
	ATOLL_WHAT_CONTENT = 1 << 0,
	ATOLL_WHAT_TARGET = 1 << 1,
	ATOLL_WHAT_MODE = 1 << 2,
	ATOLL_WHAT_OWNER = 1 << 3,
	ATOLL_WHAT_XATTR = 1 << 4,
	ATOLL_WHAT_TIME = 1 << 5,
	ATOLL_WHAT_LINKS = 1 << 6
};

struct atoll_change {
	int resource;              /* seq of its resource */
	const char *resource_path; /* absolute */
	const char *path;          /* relative to the resource; "." is its root */
	bool part;                 /* it is no file: the path says what it is, e.g. "table people" */
	const char *old_path;      /* ATOLL_RENAMED only, else NULL */
	enum atoll_change_kind kind;
	unsigned what;             /* ATOLL_WHAT_… */
	mode_t old_mode, new_mode; /* with type bits; 0 where there is none */
	uid_t old_uid, new_uid;
	gid_t old_gid, new_gid;
	int64_t old_size, new_size;
	const char *note; /* NULL, or one line */
	const void *priv;
};

struct atoll_selection {
	const char *const *
		paths; /* absolute, or relative to the caller's cwd or, failing that, to a resource; with everything below.
			* A path with a star or a question mark is a pattern as in a .gitignore, unless
			* a file has exactly that name: "*.c" matches at any depth */
	size_t n_paths; /* 0: everything */
	/* Take each path literally: it is the resource_path of a change, alone or followed by a
	 * slash and a path in the resource, as atoll_changes() reports them. Stars are ordinary
	 * characters, and the library does not follow links of the host. */
	bool exact;
};
/* For a path that is neither in the original nor in the sandbox nor among its changes, the call
 * fails with ATOLL_NOT_FOUND and the error's object is the path as given. */

/* Calls fn for each change, resources in order, paths sorted, parents before children. fn returning non-zero stops. */
typedef int (*atoll_change_fn)(const struct atoll_change *change, void *arg);
int atoll_changes(struct atoll *a, const char *name, const struct atoll_selection *selection, atoll_change_fn fn,
		  void *arg, struct atoll_error *err);

/* For use inside atoll_change_fn: a readable fd of the file's content before or after; -ENOENT where it has none
 * (absent, or not a regular file). */
int atoll_change_open_old(const struct atoll_change *change);
int atoll_change_open_new(const struct atoll_change *change);
/* The link's target before or after, as malloc'ed string, or NULL. */
char *atoll_change_old_target(const struct atoll_change *change);
char *atoll_change_new_target(const struct atoll_change *change);

/* A row that was changed in a database. Values are SQL literals: 3, 2.5, 'it''s', x'00ff', NULL; a very long one may be cut, and says so. */
struct atoll_row {
	enum atoll_change_kind kind; /* ATOLL_ADDED, _MODIFIED or _DELETED */
	const char *table;
	size_t n_columns;
	const char *const *columns;
	const bool *keys;              /* which of them are its primary key */
	const char *const *old_values; /* NULL if it was added, or modified and nobody knows */
	const char *const *new_values; /* NULL if it was deleted */
};
typedef int (*atoll_row_fn)(const struct atoll_row *row, void *arg); /* non-zero stops */
/* For use inside atoll_change_fn: the rows of a change that is a table ("table people"). There are none where it is not, or where it
 * has no primary key (SQLite). A failure after some rows says why the others do not come. */
int atoll_change_rows(const struct atoll_change *change, atoll_row_fn fn, void *arg, struct atoll_error *err);

/* ---- Commit, undo, rollback -------------------------------------------------------------------------------------- */

enum atoll_on_conflict {
	ATOLL_ON_CONFLICT_FAIL,
	ATOLL_ON_CONFLICT_OURS,
	ATOLL_ON_CONFLICT_MERGE, /* of repositories: what others have committed is merged inside first, where it merges by itself */
};

typedef void (*atoll_progress_fn)(const char *phase, uint64_t done, uint64_t total, void *arg);

/*
 * Content that lands in place of the whole edit of a file: the original with some hunks of the edit
 * applied, say. The file in the sandbox stays as it is, and still differs from the original by the
 * rest of the edit. Owner, mode and attributes land from the file in the sandbox. The path is read
 * as a path of an exact selection. It must be selected, and belong to a regular file that the sandbox
 * has modified, that has one name and neither set-user-ID nor set-group-ID; atoll_commit() refuses
 * any other file (ATOLL_ITEM_REFUSED). The caller keeps path and data until atoll_commit() returns.
 */
struct atoll_content {
	const char *path;
	const void *data;
	size_t size;
};

struct atoll_commit_options {
	const char *message; /* NULL: none */
	struct atoll_selection selection;
	const struct atoll_content *contents;
	size_t n_contents; /* 0: each file lands as the sandbox has it */
	enum atoll_on_conflict on_conflict;
	bool dry_run;             /* plan and check; change nothing */
	bool accept_unsynced;     /* commit a suspect workspace */
	bool allow_set_id;        /* let files gain setuid, setgid or file capabilities */
	bool allow_outside_links; /* let new links point outside the resources */
	bool permissive;          /* proceed though the batch cannot be atomic */
	bool refs;                /* of repositories: land branches and tags made inside too */
	int wait_ms;
	atoll_progress_fn progress;
	void *progress_arg;
};

/* What became of one resource. Listed exactly once each, and by what was verified. */
enum atoll_outcome {
	ATOLL_OUTCOME_NOT_ATTEMPTED,
	ATOLL_OUTCOME_COMMITTED,
	ATOLL_OUTCOME_ROLLED_BACK,
	ATOLL_OUTCOME_ROLLBACK_FAILED,
	ATOLL_OUTCOME_NOT_ISOLATED,
	ATOLL_OUTCOME_UNCHANGED,
	ATOLL_OUTCOME_IRREVERSIBLE, /* committed, and its strategy cannot take that back */
	ATOLL_OUTCOME_IN_DOUBT, /* it could not be told how it is to end, or asked how it ended; the next recovery does */
	ATOLL_OUTCOME_COUNT
};
const char *atoll_outcome_name(enum atoll_outcome outcome);

/* One line of a result: a path and what there is to say about it. */
enum atoll_item_kind {
	ATOLL_ITEM_CHANGE,   /* landed, would land, or was taken back; change says how */
	ATOLL_ITEM_CONFLICT, /* changed by somebody else */
	ATOLL_ITEM_REFUSED,  /* refused by a policy or check */
	ATOLL_ITEM_BUSY,     /* open for writing */
	ATOLL_ITEM_SKIPPED,  /* stays in the sandbox */
	ATOLL_ITEM_NOTE,     /* landed, with something to know; rollback: dropped, and no commit would have landed it */
	ATOLL_ITEM_FOREIGN,  /* edited between crash and recovery: left as it is, the other version is at `kept` */
	ATOLL_ITEM_STEP,     /* dry run: one step of the plan */
	ATOLL_ITEM_LOST, /* somebody removed from Atoll's areas what recovery needed: left as it is, or moved to `kept` */
	ATOLL_ITEM_KIND_COUNT
};
const char *atoll_item_kind_name(enum atoll_item_kind kind);

struct atoll_item {
	enum atoll_item_kind kind;
	enum atoll_change_kind change;
	int resource;
	char *path; /* relative to the resource */
	char *note; /* NULL or one line */
	char *kept; /* NULL, or where the other version lies */
};

struct atoll_resource_result {
	int seq;
	char *path;
	enum atoll_outcome outcome;
	char *cause; /* NULL or one line */
	bool workspace_dirty;
	uint64_t added, modified, deleted, meta, skipped;
	enum atoll_kind kind; /* the paths of a single file's items are relative to its directory */
};

struct atoll_result {
	bool success;          /* set by the operation, never inferred */
	const char *operation; /* "commit", "undo", "rollback", "recover", "rm" */
	char *sandbox;
	int64_t commit; /* its number within the sandbox, 0 if none was made */
	char *message;  /* NULL: none given */
	char *started_at, *ended_at;
	bool dry_run;
	bool atomic; /* false: atomicity was not guaranteed (permissive) */
	struct atoll_error error;
	struct atoll_resource_result *resources;
	size_t n_resources;
	struct atoll_item *items;
	size_t n_items;
};
struct atoll_result *atoll_result_free(struct atoll_result *result);

/* *ret is filled on success and on failure alike (NULL only if memory ran out); the caller frees it. */
int atoll_commit(struct atoll *a, const char *name, const struct atoll_commit_options *options,
		 struct atoll_result **ret, struct atoll_error *err);

struct atoll_undo_options {
	int wait_ms;
	/* atoll_undo(): take back these resources alone, by number or path; what else landed with them stays for good. 0: all of them, and it is
	 * refused if one of them cannot be taken back. */
	const char *const *only;
	size_t n_only;
	atoll_progress_fn progress;
	void *progress_arg;
	/* atoll_rollback(): if there are no edits since the latest commit, undo that commit and
	 * drop its edits too */
	bool landed;
};
/* Takes the latest commit back and keeps its edits in the sandbox. */
int atoll_undo(struct atoll *a, const char *name, const struct atoll_undo_options *options, struct atoll_result **ret,
	       struct atoll_error *err);
/*
 * Drops the edits, including edits that a commit leaves behind, and names the latter. The originals
 * stay as they are: if all edits have landed with a commit, the call fails with ATOLL_REFUSED,
 * unless options->landed asks to undo the commit.
 */
int atoll_rollback(struct atoll *a, const char *name, const struct atoll_undo_options *options,
		   struct atoll_result **ret, struct atoll_error *err);

struct atoll_remove_options {
	bool force; /* also with undecided changes inside */
	bool abandon; /* the same, and also what may be the only copy of an original: the undo record of a commit that cannot be
		       * recovered, versions that a recovery kept */
	int wait_ms;
};
int atoll_remove(struct atoll *a, const char *name, const struct atoll_remove_options *options,
		 struct atoll_error *err);
/* The same. *ret: NULL, or, if a commit that could not be recovered was given up, on which side each of its resources was left, by its outcome: committed,
 * rolled back (it is as before), or in doubt. */
int atoll_remove_told(struct atoll *a, const char *name, const struct atoll_remove_options *options,
		      struct atoll_result **ret, struct atoll_error *err);
/*
 * Removes prunable sandboxes whose changes have landed (struct atoll_info, landed); their commits
 * can then no longer be undone. First it removes the sandboxes that landed longer ago than the
 * setting keep-landed allows, taken from defaults or, with precedence, from the settings kept with
 * the sandbox. Then it removes the oldest ones until the rest fits into keep-landed-size, taken
 * from defaults or, with precedence, from settings; but it never removes the latest one for its
 * size. It keeps a sandbox that is in use or holds anything else (skipped changes, versions that a
 * recovery kept). ret_n may be NULL; otherwise *ret_n becomes the number of removed sandboxes.
 */
int atoll_prune(struct atoll *a, const struct atoll_settings *defaults, const struct atoll_settings *settings,
		size_t *ret_n, struct atoll_error *err);
/* How many undecided changes are inside (stops counting at limit). */
int atoll_pending(struct atoll *a, const char *name, uint64_t limit, uint64_t *ret, struct atoll_error *err);

/* ---- Recovery, log, doctor --------------------------------------------------------------------------------------- */

struct atoll_recover_options {
	int wait_ms;
	bool adopt; /* take over a state directory that was copied or restored from one that is no longer there */
	bool accept_incomplete; /* with adopt: also if the copy lacks attributes, times or hard links, or an op was cut off */
};
/* Finishes what a crash left, for one sandbox or (name NULL) for all. One result per sandbox that needed it; one that is in use and
 * needs none is left alone. Every operation above does this for its own sandbox first. */
int atoll_recover(struct atoll *a, const char *name, const struct atoll_recover_options *options,
		  struct atoll_result ***ret, size_t *ret_n, struct atoll_error *err);
void atoll_result_list_free(struct atoll_result **list, size_t n);

struct atoll_log_entry {
	char *sandbox;
	int64_t number;        /* of the commit, within its sandbox */
	const char *operation; /* "commit", "undo", "rollback" */
	char *status;          /* "landed", "taken back", "failed", "prepared", "decided", "in doubt" */
	char *message;         /* NULL: none */
	char *started_at, *ended_at;
	uint64_t added, modified, deleted, meta;
};
/* Newest first; name NULL: of all sandboxes. */
int atoll_log(struct atoll *a, const char *name, struct atoll_log_entry **ret, size_t *ret_n, struct atoll_error *err);
void atoll_log_free(struct atoll_log_entry *entries, size_t n);

enum atoll_check_status { ATOLL_CHECK_OK, ATOLL_CHECK_LIMITED, ATOLL_CHECK_MISSING };
struct atoll_check {
	const char *name; /* "user-namespaces" */
	enum atoll_check_status status;
	char *finding; /* what was seen */
	char *advice;  /* NULL, or how to get it */
};
/* Checks what the machine can do, then tries the whole life of a sandbox in a temporary directory,
 * with a state directory of its own. Each step of that life is one check, "try-new", "try-run",
 * "try-diff", "try-commit", "try-undo" and "try-rm", up to the first step that fails: its status is
 * ATOLL_CHECK_MISSING, and its finding the cause. */
int atoll_doctor(struct atoll *a, struct atoll_check **ret, size_t *ret_n, struct atoll_error *err);
void atoll_checks_free(struct atoll_check *checks, size_t n);

/* The strategies there are, strongest first; NULL past the end. */
const char *atoll_strategy_name(size_t i);
const char *atoll_strategy_summary(size_t i);

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
