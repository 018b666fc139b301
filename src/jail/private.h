/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of this folder share with each other and with nobody else.
 *
 * Code that runs in a child made by spawn_start() is marked "child side": the caller may have had threads, whose locks are
 * frozen in the child, so it makes system calls and nothing else: no malloc, no stdio. All it needs was prepared before.
 */
#ifndef JAIL_PRIVATE_H
#define JAIL_PRIVATE_H

#include <signal.h>
#include <stdnoreturn.h>
#include <sys/resource.h>

#include "base/macros.h"
#include "jail/jail.h"

/* ---- ids.c ---- */

/* What the child side needs to map its own user and group: the texts for uid_map and gid_map. */
struct ids_own {
	char uid_map[64];
	char gid_map[64];
};
void ids_own(struct ids_own *ret);
/* Child side, inside a new user namespace: maps the caller's own uid and gid, each to itself. */
int ids_map_own(const struct ids_own *own);

/* A user namespace in which the sub-ids granted by /etc/subuid and /etc/subgid are mapped too, each to itself. Made by newuidmap
 * and newgidmap, which cost milliseconds, and therefore once per process and kept. The fd is the process's, not the caller's.
 * -ENOENT if nothing is granted or the helpers refuse: the caller then makes a namespace with ids_map_own(). */
int ids_wide_userns(void);

/* A user namespace below this one that has all its ids, each mapped to itself, for root's commands: in it they are root, over the host
 * they have no capability. Kept like the other. -errno where there can be none. *ret_first, if its pidfd is not -EBADF then, is a child
 * that is about to end and must be waited for some time. */
struct spawn;
int ids_root_userns(struct spawn *ret_first);

/* ids-inner.c. Child side, in pid 1 before it is sealed: a user namespace within the present one in which the user is root. Its fd, or -errno. */
int ids_inner_root(void);

/* ---- name.c ---- */

/* The user's name, malloc'ed, or NULL. grants: the texts in which it is wanted, lines that begin with "name:", ended by NULL. If
 * /etc/passwd knows every name there but not the user, he has none that matters. */
char *name_of_user(uid_t uid, const char *const *grants);

/* ---- advice.c ---- */

void advice_userns(const char *proc, int error, const char **ret_finding, const char **ret_advice);

/* ---- spawn.c ---- */

struct spawn {
	pid_t pid;
	int pidfd;
};

/* Called on the child side; what it returns is the exit status. setup is 0, or -errno if the ids could not be mapped. */
typedef int (*spawn_fn)(int setup, void *arg);

/*
 * Starts fn in a child inside the given new namespaces (CLONE_NEWNS, CLONE_NEWPID), and inside a user namespace with
 * the caller's ids unless the caller is root. All signals are blocked in the child. Its end raises no SIGCHLD and is invisible to wait():
 * a library must not disturb what the program around it does with its own children.
 */
int spawn_start(unsigned namespaces, spawn_fn fn, void *arg, struct spawn *ret);
/* The same inside namespaces that are there already, user namespace included, and further new ones. */
int spawn_join(const struct jail_namespaces *join, unsigned namespaces, spawn_fn fn, void *arg, struct spawn *ret);
/* The same in the caller's own namespaces. */
int spawn_plain(spawn_fn fn, void *arg, struct spawn *ret);
/* A child in the caller's memory, on a stack of its own, of which nothing is copied: it lives until spawn_kill(), and does nothing but calls by
 * syscall() that cannot fail, since errno is the caller's. */
#define SPAWN_STACK_SIZE 16384
int spawn_sharing(unsigned namespaces, int (*fn)(void *arg), void *arg, char stack[SPAWN_STACK_SIZE],
		  struct spawn *ret);
/* Waits for the end of the child and closes pidfd. Returns its wait status, or -errno. */
int spawn_wait(struct spawn *s);
/* By when a child that mounts must be ready, and how long that is: a filesystem may never answer. */
int64_t spawn_deadline(void);
int spawn_ms_until(int64_t deadline);
/* spawn_wait(), or -ETIMEDOUT if the child is still there at the deadline. */
int spawn_wait_until(struct spawn *s, int64_t deadline);
void spawn_kill(const struct spawn *s); /* and does not wait */
/* Kills the child and all that is in its pid namespace, waits until it is gone and closes pidfd. -ETIMEDOUT if the kernel does not let go of
 * it: it ends as soon as that does, and its mounts with it. */
int spawn_end(struct spawn *s);
/* Child side: enters the wide user namespace if there is one (wide_fd >= 0), else a new one with the caller's own ids. */
int spawn_enter_userns(int wide_fd, const struct ids_own *own);

/* ---- mount.c: mounts that are nowhere yet; child side ---- */

/* How overlays are made here; decided before the child is started. */
struct mount_style {
	bool by_fd;          /* layers by FSCONFIG_SET_FD, else by /proc/self/fd */
	bool detached;       /* layers may lie in a mount that is attached nowhere */
	bool user_xattrs;    /* private attributes in user.overlay, else trusted.overlay */
	char tmpfs_size[24]; /* of all that is private, in bytes; "": as large as the memory */
};
void mount_style(struct mount_style *ret); /* not child side */

#define MOUNT_DETAIL_SIZE 128

/* All return the fd of a mount that is attached nowhere, or -errno. detail, if not NULL, receives what the kernel had to say. */
/* Without upper and work (-EBADF) it is read-only and wants two lower layers. */
int mount_overlay(const struct mount_style *style, const int *lower, size_t n_lower, int upper, int work, char *detail);
/* Removes what a volatile overlay leaves in its work directory, so that it can be mounted again. A mount tells if it could not. */
void mount_clear_marker(int work);
int mount_proc(unsigned attributes);
int mount_devpts(void);
int mount_bind(int fd);                                            /* of what the fd, of this mount namespace, is */
int mount_bind_at(int dir, const char *name, unsigned attributes); /* of an entry of the stage, MOUNT_ATTR_… set */
int mount_attach(int mount_fd, int target_fd);
int mount_make_private(void); /* everything: nothing goes to the host, nothing comes from it */

/* The one tmpfs of a view, in which layers are built and of which all private places are parts: a copy of a mount costs a fraction of a
 * filesystem. Before 6.15 the kernel takes no layer from a detached mount: it is put over "/" then, where no lookup sees it, and taken
 * away again. */
int mount_stage(const struct mount_style *style);
int mount_unstage(const struct mount_style *style, int stage_fd); /* the fd, or -EBADF if it is closed */

/* Opens an absolute path one name at a time, following no link: any length works. With make, missing directories are created
 * (0755) and a missing last name as directory or file. Child side. */
enum mount_make { MOUNT_MAKE_NOTHING, MOUNT_MAKE_DIR, MOUNT_MAKE_FILE };
int mount_open_path(const char *path, enum mount_make make);
/* Appends a number in decimal; false if there is no room. */
bool mount_add_number(char *text, size_t size, int number);
/* Of "\\040" in /proc/self/mountinfo the character, and moves behind it; others stand for themselves. */
char mount_decode(const char **text);
/* The entry that fd is, in this process's own mount namespace: looked up by path and verified. -ESTALE if it is another. */
int mount_reopen(int fd, const char *path, int flags);

/* ---- root.c, dev.c, shield.c, mirror.c: what every view has; child side ---- */

int root_put(int tree_fd);   /* over the present root: no path leads to it yet */
int root_enter(int tree_fd); /* after that; detaches the old root */

#define DEV_NODES 6
struct dev {
	int nodes[DEV_NODES], pts, console; /* to be mounted in it */
};
void dev_init(struct dev *d);
/* In a directory of the stage. terminal: the path of the one the caller is at, or NULL. */
int dev_make(int stage, bool root, const char *terminal, struct dev *ret);
int dev_fill(int dev_fd, struct dev *d); /* once it is in place */
/* Caller side: returns the i-th name that every private /dev has, NULL past the end. */
const char *dev_name(size_t i);

/* Made before the child is started. */
struct shield;
int shield_new(struct shield **ret);
void shield_free(struct shield *s);
/* Child side: makes the root of a view, not attached yet: an overlay of the root filesystem, or,
 * with *ret_mirror, an empty writable directory of the stage, which shield_fill() makes a
 * mirror. */
struct view;
int shield_root(const struct view *v, bool *ret_mirror);
/* Child side: fills that root, after root_put(): with overlays of the host's mounts, or with the
 * content of a mirror. new_proc: the view gets a /proc of its own. */
int shield_fill(const struct view *v, bool new_proc);

/* ---- plan.c: the view as data, made before the child is started ---- */

struct view_source {
	int fd;     /* as given: of the host's mount namespace */
	char *path; /* where it is; NULL if that is too long to be told */
};
struct view_mount {
	enum jail_mount_kind kind;
	char *path;
	size_t order;                /* in which it was given */
	bool make;                   /* lies in a private tmpfs: the mount point is made */
	bool required;               /* as in struct jail_mount */
	mode_t mode;                 /* of a tmpfs */
	struct view_source *sources; /* an overlay's lowers, then its upper and work; of a bind the one tree */
	size_t n_sources;
	const char *content; /* of a copy; the caller's */
	size_t content_size;
	int fd;       /* child side: the mount, or -EBADF where there is nothing to mount */
	bool is_file; /* child side */
};
struct view {
	struct mount_style style;
	bool root;
	char *terminal;            /* at which the caller is, or NULL */
	struct view_mount *mounts; /* sorted by path */
	size_t n_mounts;
	struct shield *shield;
	char *root_path; /* in place of the host's root, or NULL */
	char *places;    /* list of private places and mount points, for layers.c */
	size_t places_size;
	int begun;      /* child side: 0, or the error of view_begin() */
	int root_fd;    /* child side: the mount that becomes the root */
	bool mirror;    /* child side: from shield_root() */
	int stage;      /* child side: from mount_stage(), or -EBADF */
	struct dev dev; /* child side */
};
#define VIEW_SOURCES_MAX (ARRAY_SIZE(((struct jail_mount *)0)->lower_fds) + 2)

/* Reads the mounts of the spec into a plan: sorted, with the standard ones added, every path known. */
int view_new(const struct jail_spec *spec, struct view **ret, struct atoll_error *err);
struct view *view_free(struct view *v);

/* ---- layers.c ---- */

/* The file of the stage that lists its places. Each entry consists of the name of the directory in
 * the stage, a space, the path, and NUL. The first letter of the name is the kind of place. */
#define LAYERS_LIST "places"
#define LAYERS_OVERLAY 'u' /* an upper layer: the directory "u3" */
#define LAYERS_EMPTY 't'   /* an empty directory: "t3" */
#define LAYERS_DEVICES 'd' /* the private /dev */
#define LAYERS_DEVICES_DIR "dev"
#define LAYERS_POINT 'm' /* a mount point, or an entry that the view made */

/* ---- view.c ---- */

/* What went wrong on the child side, as it is sent to the caller. */
enum view_step {
	VIEW_STEP_NONE,
	VIEW_STEP_IDS,
	VIEW_STEP_PRIVATE,
	VIEW_STEP_LAYER,
	VIEW_STEP_MOUNT,
	VIEW_STEP_ROOT,
	VIEW_STEP_SHIELD,
	VIEW_STEP_PROC,
	VIEW_STEP_TARGET,
	VIEW_STEP_ATTACH,
	VIEW_STEP_CWD,
	VIEW_STEP_NET,
	VIEW_STEP_WALL,
	VIEW_STEP_START,
	VIEW_STEP_LIMIT,
};
struct view_failure {
	enum view_step step;
	int error;    /* errno */
	size_t mount; /* index into the plan, where the step is about one */
	char detail[MOUNT_DETAIL_SIZE];
};
/* Child side, called first: makes all mounts private, and makes the stage. Returns an fd of the
 * stage for jail_layers_walk(), or -errno, which view_build() then reports. */
int view_begin(struct view *v);
/* Child side: builds the view in this mount namespace. 0, or -1 with *ret filled. */
int view_build(struct view *v, struct view_failure *ret);
/* Child side: in a copy of a mount namespace in which a view stands, the one thing that is not shared: a new /proc. */
int view_join(const struct view *v, struct view_failure *ret);
/* plan.c: that there may be no more processes, which is nobody's fault here. */
int view_no_process(struct atoll_error *err);
/* Makes the error of a failure (plan.c). */
int view_error(const struct view *v, const char *cwd, const struct view_failure *f, struct atoll_error *err);

/* ---- limit.c, cgroup.c ---- */

int limit_enter(const struct jail_limits *limits, pid_t pid); /* into the control group, if there is one */

/* A new control group in which all of these controllers can be used, as a directory; NULL if none can be had. */
char *cgroup_make(const char *const *controllers);
int cgroup_set(const char *cgroup, const char *name, const char *format, ...) PRINTF_LIKE(3, 4);
uint64_t cgroup_event(const char *cgroup, const char *file, const char *event); /* 0 if there is none */
void cgroup_remove(const char *cgroup);
bool cgroup_is_divisible(const char *dir);
/* Whether groups below dir have the controllers, or can be given them. */
bool cgroup_offers(const char *dir, const char *const *controllers);
/* Of /proc/self/cgroup: the path in the second version's tree. Of /proc/self/mountinfo: where that tree is mounted, and which part. */
char *cgroup_parse_own(const char *text);
char *cgroup_parse_mount(const char *text, char **ret_root);

/* ---- wall.c, wall-landlock.c, wall-seccomp.c: child side, in the command itself ---- */

struct wall {
	bool root;          /* the command is root, over its own files */
	bool inner;         /* pid 1 makes the command's user namespace */
	int userns_fd;      /* the user namespace to enter, or -EBADF */
	bool host_net;      /* the network is the host's */
	bool userns;        /* the command may make user namespaces */
	bool reports_names; /* the filter reports renames and links */
	bool reports_all;   /* and, for an ordinary user, the further calls of refine.c */
	const struct jail_profile *profile;
	const int *pass_fds;
	size_t n_pass_fds;
};
/* The means that failed, as static text for the message. */
struct wall_failure {
	const char *means;
	int error; /* errno; 0: none failed */
};
/* Puts a failure where view_error() finds it. */
void wall_tell(const struct wall_failure *w, struct view_failure *ret);
/* *ret_listener: on which renames are reported, to be handed to the caller; -EBADF if they are not,
 * or cannot be here. ret_rules: NULL, or where Landlock's rules are left for wall_close(): that
 * wall stands then only when it is called. All return 0, or -1 and fill *ret. */
int wall_raise(const struct wall *w, int *ret_listener, int *ret_rules, struct wall_failure *ret);
/* With the standard fds that the command will have. */
int wall_close(int rules, const int stdio[3], struct wall_failure *ret);
/* The rules, as a fd; -EBADF where the kernel has no Landlock, or too little of it. */
int wall_landlock(bool host_net);
/* Allows a file that is open for writing to be opened for writing once more; does nothing for all other fds. */
int wall_landlock_allow(int rules, int fd);
int wall_landlock_restrict(int rules);
enum wall_reports { WALL_REPORTS_NOTHING, WALL_REPORTS_NAMES, WALL_REPORTS_ALL };
int wall_filter(bool userns, enum wall_reports reports, int *ret_listener);
int wall_profile(const struct jail_profile *profile); /* 0 or -errno */

/* ---- run.c ---- */

/* Those that are passed on to a command, blocked in this thread. */
void run_block_signals(bool terminal, sigset_t *ret_set, sigset_t *ret_old);
void run_send_byte(int socket, char byte);
bool run_is_being_set_up(int socket);
int run_view_late(struct atoll_error *err);
/* Receives a report and its fds; -1 if there is none. */
struct init_report;
ssize_t run_receive(int socket, struct init_report *ret, int ret_fds[2]);
/* Of a wait status. */
void run_result(int status, const struct init_report *report, struct atoll_run_result *ret);

/* ---- init.c: pid 1 ---- */

enum init_event {
	INIT_FAILED,  /* failure: the command was not started */
	INIT_NO_EXEC, /* value: errno of exec */
	INIT_ENDED,   /* value: wait status of the command */
	INIT_RENAMES, /* with the fd that reports renames; also names the root of the view */
	INIT_STDIO,   /* with both ends of a socket, for standard fd number `value` */
	INIT_STARTED, /* sent first: the namespaces and the layers, unless the run joined them */
	INIT_STOPPED, /* value: the signal by which the command was stopped; and whether it had the terminal then */
	INIT_WANTED_NETWORK, /* sent once; a pid 1 that serves does not send it */
};
struct init_report {
	bool wanted_network; /* with INIT_ENDED */
	bool spoilt;         /* the same, of one that serves: the next command would have other limits */
	enum init_event event;
	int value;
	bool has_layers, has_segments;       /* INIT_STARTED: the last fds are those of the layers, of the segments */
	bool had_terminal;                   /* INIT_STOPPED */
	int64_t user_ns, system_ns, max_rss; /* INIT_ENDED */
	uint64_t root_mount, root_ino;       /* INIT_RENAMES */
	struct view_failure failure;
};
/* From the caller: one byte each. INIT_GO first, then the numbers of signals for the command. */
#define INIT_GO '\0'
/* The command is to go on, with the terminal or without. */
#define INIT_FOREGROUND 0xfe
#define INIT_BACKGROUND 0xff
/* To one that serves: a request may follow, and what comes next is for its command; everything inside is to end, but pid 1. */
#define INIT_BEGIN 0xfc
#define INIT_END_ALL 0xfd
/* From anybody else outside: this signal, with the number of the one that is meant for the command. */
#define INIT_SIGNAL SIGRTMAX

struct init {
	struct view *view;
	struct wall wall;
	unsigned namespaces; /* that were made, CLONE_NEW…; 0: they were joined */
	void (*stands)(void *arg);
	void (*begun)(void *arg);
	void *stands_arg; /* the arg of both */
	char *const *argv;
	char *const *env; /* NULL: the caller's */
	const char *cwd;
	struct jail_limits limits;
	bool new_net;      /* a network namespace was made for the command */
	bool no_net;       /* and no gateway reports what the command looks for */
	uint64_t attempts; /* failed attempts to use a network before this command started; for no_net */
	int announce_fd;   /* of the gateway, or -EBADF */
	int hold_fd;
	const int *hold_fds;
	size_t n_hold_fds;
	int socket;         /* SOCK_SEQPACKET: reports out, bytes in; its end is the caller's death */
	int caller_socket;  /* the other end, which is the caller's */
	sigset_t signals;   /* the mask the command starts with */
	bool child_ignored; /* the caller ignored SIGCHLD, so the command starts that way */
	bool terminal;      /* the command gets it for itself */
	bool session;       /* at a terminal that was made for it */
	const int *stdio;   /* as in the spec */
	bool serves;        /* commands that come one after another, instead of argv */
	int requests;       /* on which they come, and the other end, which is the caller's */
	int caller_requests;
};
int init_main(int setup, void *init);
/* For those that serve. All child side. */
void init_send(const struct init *in, const struct init_report *report);
void init_add_usage(struct init_report *report, const struct rusage *usage);
int init_enter_cwd(const char *cwd);
void init_hand_over(const struct init *in, int listener);
/* For the command; 0: for nobody. */
void init_take_signals(int signal_fd, pid_t command);
/* Until the command has ended: 0, and the report has its status. -ECANCELED: nobody had asked for it. Another -errno: the caller is
 * gone. */
int init_watch(const struct init *in, int signal_fd, pid_t command, struct init_report *report);

/* ---- request.c ---- */

#define REQUEST_STRINGS (JAIL_REQUEST_STRINGS_MAX + 3)
/* Child side too: working directory, arguments, NULL, environment, NULL, as pointers into the data. False if it is not whole. */
bool request_split(char *data, size_t size, struct jail_request *ret, char *strings[REQUEST_STRINGS]);
/* With three fds, for standard input, output and error. */
int request_send(int socket, const char *data, size_t size, const int stdio[3]);
/* The number of bytes; 0 or less: it is none, but what fds came are there, the others -EBADF. */
ssize_t request_receive(int socket, int flags, char *data, size_t size, int ret_stdio[3]);

/* ---- stdio.c: sockets as standard input, output and error ---- */

enum stdio_kind {
	STDIO_AS_IT_IS,
	STDIO_STREAM,       /* a connected stream of another network: stdio_take() replaces it */
	STDIO_OTHER_SOCKET, /* cannot be replaced: refused */
	STDIO_DIRECTORY,    /* refused: it gives access to files of the host, past the view */
};
enum stdio_kind stdio_kind(int fd, bool host_net);
/* Caller side: refuses fds that the command must not get. */
int stdio_check(const struct jail_spec *spec, struct atoll_error *err);
/* Child side, in the command's network namespace: makes these fds standard input, output and error.
 * For a stream it makes a new pair, keeps the command's end, and reports both ends to the caller
 * with INIT_STDIO. */
struct init;
int stdio_take(const struct init *in, const int from[3]);
/* Caller side: the streams of one command. {0} is none. */
struct stdio_channel;
struct stdio {
	struct stdio_channel *channels[3];
	size_t n;
};
/* Starts to pass bytes between outer, which stays the caller's, and the reported ends, which it
 * takes over. */
int stdio_begin(struct stdio *s, int outer, int fds[2]);
/* Call it when the command and all its processes have ended. Waits until their output has been
 * passed on, but not beyond end_at (0: no limit), and only until `interrupt` becomes readable.
 * Input that they did not read stays in the outer sockets. */
void stdio_end(struct stdio *s, int interrupt, int64_t end_at);

/* ---- spare.c: pid 1 that serves; child side ---- */

int spare_serve(const struct init *in, int signal_fd);

/* ---- serve.c ---- */

/* What run.c has of a run that serves. */
struct serve {
	const struct jail_server *server;
	const struct view *view;
	const struct rename_door *door;
	struct spawn *child;
	int socket, signal_fd, requests;
	bool host_net;
	int (*watch)(pid_t pid, int segments, void *arg);
	int segments;
	void *watch_arg;
};
/* Until pid 1 has ended, and everything inside with it. Negative if the view never stood. */
int serve_commands(const struct serve *s, struct atoll_error *err);

/* ---- terminal.c ---- */

void terminal_begin(void);                              /* child side, in the command, before exec */
void terminal_own(void);                                /* the same, in a session of its own */
void terminal_continue(pid_t command, bool foreground); /* child side, in pid 1 */
bool terminal_is_ours(void);                            /* the caller: its group is the foreground one */
bool terminal_is_of(pid_t command);                     /* child side, in pid 1 */
void terminal_stop(int sig, bool take_back);            /* the caller: stops as the command did */

/* ---- confined.c: processes that may do less than their run ---- */

#define CONFINED_MAX 64
struct confined {
	uint64_t root_mount, root_ino; /* of the view, from INIT_RENAMES */
	uint64_t since;                /* first confinement, in clock ticks since boot */
	pid_t processes[CONFINED_MAX]; /* processes that confined themselves */
	size_t n;                      /* counts also those that did not fit */
};
void confined_note(struct confined *c, pid_t task);
bool confined_is(const struct confined *c, pid_t task);

/* ---- rename.c ---- */

/* One end of a rename, as the command named it. */
struct rename_side {
	int base; /* where the path begins */
	char *path;
	const char *above; /* the path of the directory */
	char *way;         /* that, if it is not a part of path */
	uint64_t resolve;  /* how that is found */
	int dir;           /* what was found */
	const char *name;  /* in it */
};
int rename_open_dir(const struct rename_side *s);
/* Reads a path of the process that waits: 0, or -errno: -EINVAL if its last name is none ("."). */
int rename_read_side(pid_t pid, int dirfd, uint64_t address, struct rename_side *ret);
void rename_side_release(struct rename_side *s);
struct rename_request {
	struct rename_side from, to;
	unsigned flags;
};
void rename_request_release(struct rename_request *r);
/* A process that waits for the answer to its rename. */
struct rename_waiting {
	int listener;
	uint64_t id;
	int64_t end_at; /* when the time of the run is over; 0: never */
};
bool rename_is_waiting(const struct rename_waiting *w);
void rename_reply(const struct rename_waiting *w, int r); /* -errno, 0, or 1: let the kernel do it */
/* Caller side: answers one report, or lets the mover, which must not be busy, answer it. When the
 * time of the run is over, the mover rolls an unfinished move back. */
struct mover;
void rename_answer(struct mover *m, int listener, struct confined *confined, int64_t end_at,
		   const struct rename_door *door);

/* ---- mover.c: a process that moves a directory ---- */

struct mover {
	pid_t pid; /* 0: none */
	int pidfd;
	struct rename_waiting waiting;
	const struct rename_door *door;
};
/* If Atoll cannot start a mover, the move has ended when this returns. */
void mover_start(struct mover *m, struct rename_waiting *w, const struct rename_request *q,
		 const struct rename_door *door);
bool mover_is_busy(const struct mover *m);
int mover_fd(const struct mover *m); /* readable when the move is over, for mover_wait(); -EBADF if there is none */
void mover_wait(struct mover *m);    /* waits until the move is over */

/* ---- refine.c ---- */

/* -errno for the command; 1: let the kernel do it. -ENOSYS if it is none of these calls. */
struct seccomp_notif;
int refine_answer(const struct seccomp_notif *n);

/* ---- rights.c ---- */

/* renameat2() with the rights that the process pid has: a command may have become somebody else. 0 or -errno; 1: that must be
 * left to the kernel. */
int rights_rename(pid_t pid, const struct rename_side *from, const struct rename_side *to, unsigned flags);

/* ---- namespaces.c ---- */

/* Child side: sends the namespaces of this process that flags names, with the report, and the fd of
 * the layers if there is one. */
int namespaces_send(int socket, unsigned flags, int layers, const struct init_report *report);
/* Receives a report and what comes with it, without waiting. The size of the report, 0 at the end, or -errno. */
ssize_t namespaces_receive(int socket, struct init_report *report, struct jail_namespaces *ret);
void namespaces_close(struct jail_namespaces *n);
/* Child side. */
int namespaces_enter(const struct jail_namespaces *n);
/* Those that are to be entered, with or without the network's. Whether that is among the given ones. */
bool namespaces_choose(const struct jail_namespaces *from, bool with_net, struct jail_namespaces *ret);

#endif
