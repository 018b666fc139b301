/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces: entering one's own user namespace, building a view from mounts given as data, and running a command in it
 * under a pid 1 of ours. Knows nothing of sandboxes; may use src/base, src/tree and src/net.
 *
 * No mount made here is ever visible in the host's mount namespace, and none outlives the command.
 */
#ifndef JAIL_JAIL_H
#define JAIL_JAIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <atoll/atoll.h>

#include "net/net.h"

/* ---- probe.c: what this machine can do; each question is answered once per process ---- */

bool jail_is_root(void);     /* effective uid 0 with CAP_SYS_ADMIN in this namespace: no user namespace is needed */
int jail_probe_userns(void); /* 0, or -errno of the refused unshare/map (EPERM, ENOSPC, EINVAL …) */
bool jail_userns_is_forbidden(
	void); /* that answer, where it was not for want of something that may be there in a moment */
/* Why it was refused, and what to change: one clause each. error: as jail_probe_userns() gave it. */
void jail_userns_advice(int error, const char **ret_finding, const char **ret_advice);
int jail_probe_overlay(
	void); /* 0 if an overlay can be mounted the way view.c does, else -errno; leaves nothing behind */
/* Whether an overlay works over these very directories (an fs may refuse to be upper). Not cached. As after a run, the kernel's own
 * directory is left in work. */
int jail_probe_overlay_at(int lower_fd, int upper_fd, int work_fd);
/* Overlays are given by fd (FSCONFIG_SET_FD, 6.13) rather than by /proc/self/fd/N strings. Off under ATOLL_OLD_KERNEL=1. */
bool jail_overlay_takes_fds(void);
int jail_probe_net(void);        /* 0 if a gate to allowed hosts can be built, else -errno; not kept */
unsigned jail_probe_count(void); /* how many times jail_probe_overlay() really mounted; for tests */
void jail_probe_again(void);     /* forgets the answers; for tests */
void jail_set_patience(int ms);  /* how long mounting may take until it is given up: 20 s; for tests */

/* ---- ids.c: who can be mapped ---- */

/* Whether uid/gid exist inside the user namespace that jail would make: the caller's own, and those that newuidmap and newgidmap
 * grant by /etc/subuid and /etc/subgid (identity-mapped). For root: always. */
bool jail_maps_uid(uid_t uid);
bool jail_maps_gid(gid_t gid);

/* ---- call.c: our own work with capabilities over our own files ---- */

/* Runs fn(arg, out) in a forked child inside a fresh user namespace (identity-mapped, all capabilities in it), so that e.g. 0555
 * directories of the user can be written. What fn writes to `out` (a memfd) is handed back, positioned at its start, as *ret_out
 * (may be NULL); fn's return value is returned. Root, and machines without user namespaces: the same, without the namespace and
 * without a fork. If the child is killed: -ATOLL_IN_DOUBT in err. Signals HUP, INT, TERM are blocked in child and caller for the
 * duration: they are deferred, not lost. */
int jail_call(int (*fn)(void *arg, int out), void *arg, int *ret_out, struct atoll_error *err);
/* Whether fn can learn owners, groups and ACLs that its user namespace does not map: the caller looks
 * for it (tree_outside_serve()). Not where pidfd_open() is refused. */
bool jail_call_is_helped(void);

/* ---- run.c, plan.c, view.c, init.c: a command in a view ---- */

enum jail_mount_kind {
	JAIL_MOUNT_OVERLAY, /* lower_fds below upper_fd, work_fd, in which nobody else may mount anything meanwhile */
	JAIL_MOUNT_BIND,    /* the tree lower_fds[0], writable */
	JAIL_MOUNT_BIND_RO, /* the same, read-only */
	JAIL_MOUNT_TMPFS,   /* an empty, private, writable tmpfs, mode 01777 for /tmp, else 0755 */
	/* an overlay over the host's directory, with its upper layer in a private tmpfs: writable,
	 * discarded ($HOME). Passed over if there is no such directory, or if a user namespace may
	 * not cover it because the host has mounted a filesystem below it; the directory is then
	 * read-only, like the rest. If the mount is required, the run fails instead */
	JAIL_MOUNT_SCRATCH,
	JAIL_MOUNT_HIDE, /* an empty read-only tmpfs, mode 0 (or, over a file, an empty file); passed over if nothing is there */
	/* an empty read-only tmpfs, mode 0755, with only the mount points that the view has below
	 * it; passed over if no directory is there */
	JAIL_MOUNT_VEIL,
	JAIL_MOUNT_COPY, /* a read-only file with the given content; passed over if nothing is there */
	JAIL_MOUNT_SEE,  /* what the host has there, read-only; passed over if nothing is there */
	JAIL_MOUNT_PIN,  /* what the view itself has there, read-only */
	JAIL_MOUNT_HOLD, /* the same, writable; a mount point, which nothing can rename */
	JAIL_MOUNT_DEV,  /* a private /dev */
};

struct jail_mount {
	enum jail_mount_kind kind;
	const char *path; /* absolute, resolved; is made where it lies in a private tmpfs, must exist elsewhere */
	int lower_fds[64];
	size_t n_lower;
	int upper_fd, work_fd;
	bool required; /* a scratch: the run fails if it cannot be made */
	const char *content;
	size_t content_size;
};

/* 0: no limit of ours. */
enum jail_limit_means { JAIL_LIMIT_BY_NOTHING, JAIL_LIMIT_BY_CGROUP, JAIL_LIMIT_BY_RLIMIT, JAIL_LIMIT_BY_AFFINITY };

struct jail_limits {
	uint64_t nofile;     /* open files of each process */
	uint64_t nofile_own; /* the caller's soft limit, if Atoll has raised it for itself; else 0 */
	uint64_t memory;     /* bytes: of all together in a control group, else of each process */
	uint64_t pids;       /* processes and threads, without pid 1 */
	unsigned cpu_millis; /* thousandths of a processor */
	/* Filled by jail_limit_open(): by what each of them is kept. Nothing: there is none, or the machine has no more anyway. */
	enum jail_limit_means memory_by, pids_by, cpus_by;
	char *cgroup;
};
struct jail_limit_events {
	bool memory, pids; /* that it was run into; known of a control group only */
};

/* Nobody mounts the same layers while a directory is being moved: the process that does it may outlive its caller for an instant. */
struct rename_door {
	int (*set)(bool closed, void *arg); /* may be NULL */
	void *arg;
};

/* The namespaces of a run, by fds: what is to be entered first stands first. */
#define JAIL_NAMESPACES_MAX 6
struct jail_namespaces {
	int fds[JAIL_NAMESPACES_MAX];
	size_t n;
	int layers;   /* the view's private places, for jail_layers_walk(); an fd above 0, or 0 */
	int segments; /* for jail_segments(), likewise */
};

struct jail_profile;

/* ---- serve.c, spare.c, ask.c, request.c: commands that come one after another into a view that stands ---- */

/* What is to be run: this, then working directory, arguments and environment, each ended by NUL. */
struct jail_request {
	uint32_t umask, n_args, n_env;
	uint32_t turn;             /* filled in by the server: for which spare process it is */
	uint64_t ignored, blocked; /* signals: bit 0 is signal 1 */
};
#define SERVE_HELLO '!'
#define JAIL_REQUEST_MAX 65536
#define JAIL_REQUEST_STRINGS_MAX 2048
/* Its size, or -E2BIG. */
ssize_t jail_request_write(char *data, size_t size, const char *cwd, char *const *argv, char *const *env);
/* All strings of one that was received, as pointers into it, malloc'ed; arguments and environment are ended by NULL each. False if it is
 * none. */
struct jail_strings {
	char **all, *cwd, **args, **env;
};
bool jail_request_read(char *data, size_t size, struct jail_request *ret, struct jail_strings *ret_strings);

struct jail_server {
	int listen_fd; /* SOCK_SEQPACKET, not blocking; -EBADF: nobody can ask */
	/* Somebody has connected, and was told with one byte, SERVE_HELLO, that he is heard; false: he is sent away. */
	bool (*greet)(int client, void *arg);
	/* Somebody who connected has sent this and three fds, for standard input, output and error. Where in it the request begins, of which
	 * it may leave less; or negative: he is sent away. */
	ssize_t (*begin)(int client, char *data, size_t *size, const int stdio[3], void *arg);
	/* Its command has ended, and every process with it; code: negative if it could not be started for a reason of ours. */
	void (*end)(int client, int code, const struct atoll_run_result *result, const struct atoll_error *err,
		    void *arg);
	void *arg;
};

/* The other side: when it is heard, sends the data, with the caller's standard input, output and error, and waits for a first and a last
 * message of reply_size bytes each, while signals for the caller are passed on. 0 if the first does not come: nothing was run. 1 if both came. -ECONNRESET if the server
 * was lost in between. */
int jail_ask(int socket, const char *data, size_t size, void *reply, size_t reply_size);

struct jail_spec {
	/* In any order; sorted by path, so that inner ones are mounted on outer ones; equal paths: in the order given. The root of
	 * the host is there below all of them, read-only, with a private /proc and /dev, and a private tmpfs on /tmp, /run, /dev/shm
	 * unless given. */
	const struct jail_mount *mounts;
	size_t n_mounts;
	const char *
		root; /* NULL, or a directory, absolute and resolved, in place of the host's root: mount points are made in it as needed,
			   * none of which reaches the directory itself */
	const struct jail_server *server; /* NULL, or who says what is run, instead of argv, env, cwd and stdio */
	char *const *argv;
	char *const *env; /* NULL: the caller's */
	const char *cwd;
	struct jail_limits limits;
	const struct net_policy *net; /* what it reaches; NULL: nothing but its own loopback */
	atoll_refusal_fn refusal;     /* may be NULL */
	void *refusal_arg;
	/* NULL, or called once, as soon as a command without network looks for one. Never called
	 * with a server. */
	atoll_wanted_network_fn wanted_network;
	void *wanted_network_arg;
	int64_t timeout_ms; /* from the start of the command on; 0: none. It is asked to end, and all of it is ended a second later */
	/* NULL, or those of a run whose view is shared: nothing is mounted then but a new /proc. They must be open already. */
	const struct jail_namespaces *join;
	/* Called in the parent once pid 1 exists and before the command starts: its pid and tag
	 * (base/process.h), and its namespaces, which stay open until jail_run() returns. A
	 * negative code ends the run. */
	int (*started)(pid_t pid, uint64_t tag, const struct jail_namespaces *namespaces, void *arg,
		       struct atoll_error *err);
	/* Called in pid 1 after that, once the view stands; makes system calls and nothing else. */
	void (*stands)(void *arg);
	/* Called in pid 1 as well, once the command's walls stand and exec was tried. Only system
	 * calls. May be NULL. */
	void (*begun)(void *arg);
	void *started_arg; /* the arg of all three */
	/* Standard input, output and error are the controlling terminal, the caller's group is in the foreground, and the caller is a
	 * program of its own: the command gets the terminal for itself, and the caller stops when it does. */
	bool terminal;
	/* Standard input is a terminal that is nobody's yet: the command gets a session of its own at it. */
	bool session;
	/* NULL, or three fds that the command gets as standard input, output and error; -EBADF: the caller's own. */
	const int *stdio;
	/* An ordinary user's command is root, in a user namespace in which that is the user. Root's is anyway. */
	bool as_root;
	bool userns; /* the command may make user namespaces, and others in them */
	const struct jail_profile
		*profile; /* of system calls that it is refused beside those that always are, or NULL */
	/* Called in the parent with the pid of pid 1 as it is outside, now and again: in how many milliseconds it wants to be called next, or
	 * 0 to end the run. segments: for jail_segments(). May be NULL. */
	int (*watch)(pid_t pid, int segments, void *arg);
	void *watch_arg;
	struct rename_door door;
	/* What the command gets beside the standard fds, which are never closed: all others are. A directory of the host is a way out. */
	const int *pass_fds;
	size_t n_pass_fds;
	int hold_fd;         /* kept open by pid 1, closed in the command (the sandbox's lock), or -EBADF */
	const int *hold_fds; /* likewise: locks on its areas */
	size_t n_hold_fds;
};

/* ---- profile.c ---- */

/* A filter of system calls: "default" is none beside the one that always stands (*ret is NULL then), "strict" refuses what hardly
 * anything needs, everything else is the path of a file, whose mistakes are ATOLL_INVALID with the line. userns: as in the spec. */
int jail_profile_open(const char *name, bool userns, struct jail_profile **ret, struct atoll_error *err);
struct jail_profile *jail_profile_free(struct jail_profile *p); /* returns NULL */
/* Of one from a file: the calls that it refuses beside those that always are, and those of which the arguments decide. */
void jail_profile_count(const struct jail_profile *p, unsigned *ret_refused, unsigned *ret_conditional);

/* Child side: the filter that always stands, and a profile (or NULL) beside it. After no_new_privs. */
int jail_filter(const struct jail_profile *profile);

/* ---- signal.c ---- */

/* Sends a signal to a run's command by way of its pid 1; SIGKILL ends all of it. to_command false: to that process itself. -ESRCH if
 * there is no process of that number and tag (base/process.h). */
int jail_signal(pid_t pid, uint64_t tag, int sig, bool to_command);

/* ---- limit.c ---- */

/* Chooses the means. ATOLL_INVALID or ATOLL_UNSUPPORTED if a limit cannot be kept here. */
int jail_limit_open(struct jail_limits *limits, struct atoll_error *err);
/* After the run; ret may be NULL. */
void jail_limit_close(struct jail_limits *limits, struct jail_limit_events *ret);
/* Child side, in the command itself: what each process has. 0 or -errno. */
int jail_limit_apply(const struct jail_limits *limits);

/* ---- layers.c: entries that commands wrote in the private places of a view ---- */

/*
 * All private places of a view are directories of one tmpfs: the upper layer over the home
 * directory, /tmp, /run and so on. They end with the view. An fd of the tmpfs reaches them from
 * outside of the view as long as the fd is open, even after every process inside has ended.
 */
struct jail_layer_entry {
	const char *place; /* absolute */
	bool is_layer;     /* over a directory of the host; false: the place began empty */
	const char *top;   /* the name directly in the place that the entry is or lies below */
	bool at_top;       /* the entry is top itself */
	const char *path;  /* absolute */
	bool is_directory;
	bool is_removed; /* a command removed it; the host still has it */
	bool is_rest;    /* stands for more entries below the path, which the walk skipped */
};
/* A negative result ends the walk, which then returns it. */
typedef int (*jail_layer_fn)(const struct jail_layer_entry *entry, void *arg);

/*
 * Calls fn for each entry that a command made, changed or removed since the given time (nanoseconds
 * of the clock of inode timestamps; 0: since the view was made). The user's own files come before
 * hidden ones, caches come last, and layers before places that began empty. A directory is an entry
 * only if it is new and contains no other entry. The walk looks at a limited number of names per
 * directory and in total. Commands may write during the walk. 0 or -errno.
 */
int jail_layers_walk(int layers, int64_t since, jail_layer_fn fn, void *arg);
/* Whether programs keep only caches below this name in a home directory. */
bool jail_layer_is_cache(const char *top);

/* ---- usage.c: of the process and all that descend from it ---- */

struct jail_usage {
	uint64_t
		memory; /* resident and not of a file, in bytes; of what processes may share, the most that one of them has */
	uint64_t shared; /* that part of it */
	uint64_t tasks;
};
void jail_usage(pid_t pid, struct jail_usage *ret);
/* Returns the size of all System V segments of a run's IPC namespace in bytes, including those that
 * no process has attached. segments: the fd that pid 1 opened; returns 0 for -EBADF. */
uint64_t jail_segments(int segments);

/* Measures the open files of these processes that have no name (any more): memfds, and files on any
 * filesystem but a tmpfs. Leaves out files that the caller has open itself, since the caller passed
 * them in. */
struct jail_nameless {
	uint64_t memory, disk; /* bytes */
};
void jail_nameless(pid_t pid, struct jail_nameless *ret);

/*
 * Sets up user (not for root), mount, pid and (unless it is the host's) network namespaces, mounts the view, and runs the command as the caller's uid and gid with its
 * cwd, environment and stdio; no_new_privs is set. pid 1 is non-dumpable, reaps, and ends everything when the command ends or the calling
 * process dies (SIGKILL included). If the view does not stand in time, all is ended and the answer is ATOLL_TIMEOUT. HUP, INT, QUIT, TERM, USR1, USR2 sent to the caller reach the command (terminal signals
 * once, not twice). Returns 0 with the result once every process inside is gone, or a negative code if the command could not
 * be started for Atoll's own reasons; nothing is left behind then. May be called from a threaded process.
 */
int jail_run(const struct jail_spec *spec, struct atoll_run_result *ret, struct atoll_error *err);

#endif
