/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running where no namespace can be made, if that was asked for: the command works in the copies themselves, at their own paths. Its edits
 * are shown and committed as ever. Landlock keeps its writes out of everything else, the originals first of all, and its signals from other
 * processes; the filter of system calls stands as ever; where the kernel has none, or one
 * that does not guard against truncation, nothing is run. It is a weaker wall than a mount namespace (modes and times of files
 * elsewhere can still be set, and what the command leaves running goes on), and the result says so.
 */
#include "engine/run.h"

#include <errno.h>
#include <limits.h>
#include <linux/landlock.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/process.h"

int run_plain_refuse(struct atoll_error *err)
{
	int error = jail_probe_userns();
	const char *finding, *advice;

	jail_userns_advice(error, &finding, &advice);
	return error_set(
		err, ATOLL_UNSUPPORTED, -error, "run", NULL,
		"user namespaces cannot be made here: %s; to change it: %s. Without them --isolation=best runs the command "
		"in a copy, which is no boundary",
		finding, advice);
}

/* The same place in the workspace of the innermost resource, or the path itself if it lies in none. */
static char *translate(struct session *s, const char *cwd)
{
	const struct resource *best = NULL;

	for (size_t i = 0; i < s->n; i++) {
		const struct resource *r = &s->resources[i];

		if (r->ops->workspace && !r->host && path_is_below(cwd, r->root_path) &&
		    (!best || strlen(r->root_path) > strlen(best->root_path)))
			best = r;
	}
	if (!best)
		return strdup(cwd);
	return str_format("%s/%s%s", best->row.work, best->ops->workspace, cwd + strlen(best->root_path));
}

static int refuse_root(const struct run_options *o, struct atoll_error *err)
{
	if (!o->as_root || geteuid() == 0)
		return 0;
	return error_set(
		err, ATOLL_UNSUPPORTED, 0, "run", NULL,
		"--user root needs user namespaces, which this machine does not let you make: see `atoll doctor`");
}

static int refuse_overlays(struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++)
		if ((s->resources[i].ops->capabilities & STRATEGY_OVERLAY) && !s->resources[i].host)
			return error_set(
				err, ATOLL_UNSUPPORTED, 0, "run", s->resources[i].row.path,
				"\"%s\" needs a mount namespace, which this machine no longer gives; atoll doctor says why",
				s->resources[i].row.path);
	return 0;
}

/* A place that is asked to be out of sight must not be in it. */
static int refuse_places(const struct run_options *o, struct atoll_error *err)
{
	if (o->n_places == 0 && !o->root)
		return 0;
	return error_set(
		err, ATOLL_UNSUPPORTED, 0, "run", o->root ? o->root : o->places[0].path,
		"root, hide, ro, rw, scratch and tmpfs need a mount namespace, which this machine does not give; "
		"atoll doctor says why");
}

/* There is no pid 1 to be put into a control group, and all processes of the user count together. */
static int refuse_limits(const struct run_options *o, struct atoll_error *err)
{
	if (!o->limits.memory && !o->limits.pids && !o->disk)
		return 0;
	return error_set(
		err, ATOLL_UNSUPPORTED, 0, "run", NULL,
		"memory, pids and disk cannot be limited without namespaces; atoll doctor says how to allow them");
}

/* ---- Landlock ---- */

#define ACCESS_TRUNCATE (1ULL << 14) /* not in every header */
#define ABI_TRUNCATE 3               /* Linux 6.2; before it any file could be emptied */

#define ABI_SCOPES 6 /* Linux 6.12 */
#define SCOPE_ABSTRACT (1ULL << 0)
#define SCOPE_SIGNAL (1ULL << 1)
struct rules_attr {
	uint64_t fs, net, scoped;
};

static const uint64_t write_accesses =
	LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
	LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
	LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
	LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER | ACCESS_TRUNCATE;

static int allow(int rules, const char *path)
{
	AUTO_FD fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr beneath = { .allowed_access = write_accesses, .parent_fd = fd };

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0 ? -errno : 0;
}

static bool holds_original(const struct session *s, const char *dir)
{
	for (size_t i = 0; i < s->n; i++)
		if (path_is_below(s->resources[i].root_path, dir))
			return true;
	return false;
}

static int allow_places(int rules, struct session *s)
{
	static const char *const scratch[] = { "/tmp", "/var/tmp", "/dev" };
	int r = 0;

	for (size_t i = 0; i < s->n && r >= 0; i++) {
		struct resource *res = s->resources[i].host ? s->resources[i].host : &s->resources[i];
		AUTO_FREE char *copy = res->ops->workspace ? str_format("%s/%s", res->row.work, res->ops->workspace)
							   : strdup(res->root_path);

		r = copy ? allow(rules, copy) : -ENOMEM;
	}
	/* Not where an original, or Atoll's own state, lies in them. */
	for (size_t i = 0; i < ARRAY_SIZE(scratch) && r >= 0; i++)
		if (!holds_original(s, scratch[i]) && !path_is_below(s->a->state_dir, scratch[i]))
			r = allow(rules, scratch[i]);
	return r;
}

static int make_rules(struct session *s, int *ret, struct atoll_error *err)
{
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct rules_attr attr = { .fs = write_accesses,
				   .scoped = abi >= ABI_SCOPES ? SCOPE_ABSTRACT | SCOPE_SIGNAL : 0 };
	AUTO_FD rules = abi < ABI_TRUNCATE ? -EOPNOTSUPP
					   : (int)syscall(SYS_landlock_create_ruleset, &attr,
							  abi >= ABI_SCOPES ? sizeof attr : sizeof attr.fs, 0);
	int r;

	if (rules < 0)
		return error_set(
			err, ATOLL_UNSUPPORTED, EOPNOTSUPP, "run", s->box.name,
			"neither user namespaces nor Landlock (of Linux 6.2 or newer) are available: a command could not be kept out of "
			"the originals; atoll doctor says how to allow namespaces");
	r = allow_places(rules, s);
	if (r < 0)
		return error_sys(err, r, "run", s->box.name, "cannot confine the command");
	*ret = TAKE_FD(rules);
	return 0;
}

/* ---- The command ---- */

struct command {
	const char *cwd;
	const struct run_plain *p;
	int rules, report[2], signal_fd;
	sigset_t signals; /* the mask it starts with */
};

static void command_release(struct command *c)
{
	pthread_sigmask(SIG_SETMASK, &c->signals, NULL);
	fd_close(c->rules);
	fd_close(c->report[0]);
	fd_close(c->report[1]);
	fd_close(c->signal_fd);
}

/* Signals sent to the caller are for the command, as in a view. */
static int open_channels(struct command *c)
{
	static const int passed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
		sigaddset(&set, passed_on[i]);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return c->signal_fd < 0 || pipe2(c->report, O_CLOEXEC) < 0 ? -errno : 0;
}

/* Why the command did not start. */
struct refusal {
	const char *step; /* static text; NULL: the command was confined, and exec failed */
	int error;
};

static int enter_directory(const struct command *c)
{
	return chdir(c->cwd) < 0 ? -errno : 0;
}

static int bind_to_caller(const struct command *c)
{
	(void)c;
	return prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) < 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}

static int raise_landlock(const struct command *c)
{
	return syscall(SYS_landlock_restrict_self, c->rules, 0) < 0 ? -errno : 0;
}

static int restore_signals(const struct command *c)
{
	sigset_t signals = c->signals;

	size_limit_restore(&signals);
	return sigprocmask(SIG_SETMASK, &signals, NULL) < 0 ? -errno : 0;
}

static int apply_limits(const struct command *c)
{
	return jail_limit_apply(&c->p->o->limits);
}

/* Must be the last step, because the filter refuses system calls that the other steps need. */
static int raise_filter(const struct command *c)
{
	return jail_filter(c->p->o->profile);
}

static const struct {
	const char *name;
	int (*fn)(const struct command *c);
} steps[] = {
	{ "entering its directory", enter_directory },
	{ "binding it to its caller's life (prctl)", bind_to_caller },
	{ "Landlock (landlock_restrict_self)", raise_landlock },
	{ "restoring its signals (sigprocmask)", restore_signals },
	{ "limiting what it may use (setrlimit)", apply_limits },
	{ "a filter of system calls (seccomp)", raise_filter },
};

static void confine(const struct command *c, struct refusal *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(steps) && ret->error == 0; i++)
		*ret = (struct refusal){ .step = steps[i].name, .error = -steps[i].fn(c) };
}

/* In the child: only what is safe after fork in a program with threads. */
static void execute(const struct command *c)
{
	struct refusal why = { 0 };

	environ = c->p->o->env;
	for (int i = 0; i < 3; i++)
		if (c->p->stdio[i] >= 0)
			(void)dup2(c->p->stdio[i], i);
	confine(c, &why);
	if (why.error == 0) {
		why.step = NULL;
		execvp(c->p->argv[0], c->p->argv);
		why.error = errno;
	}
	(void)!write(c->report[1], &why, sizeof why);
	_exit(why.error == ENOENT ? 127 : 126);
}

/* What the terminal sends goes to the command's process group by itself. */
static void pass_signals_on(int signal_fd, pid_t pid)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
		if (!process_signal_is_for_group((int)info.ssi_signo, info.ssi_code))
			kill(pid, (int)info.ssi_signo);
}

#define GRACE_NS 1000000000LL /* between being asked to end and being ended */
#define EXIT_TIMED_OUT 124

/* What it started itself may outlive it: there is no pid namespace that ends with it. */
static void end_over_time(pid_t pid, int64_t *end_at, bool *timed_out)
{
	if (*end_at == 0 || clock_monotonic_ns() < *end_at)
		return;
	kill(pid, *timed_out ? SIGKILL : SIGTERM);
	*end_at += GRACE_NS;
	*timed_out = true;
}

static int poll_ms(int64_t end_at)
{
	return end_at == 0 ? -1 : (int)MIN(MAX(0, (end_at - clock_monotonic_ns()) / 1000000 + 1), INT_MAX);
}

static int wait_for_end(const struct command *c, pid_t pid, int *ret_status, bool *ret_timed_out)
{
	AUTO_FD pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct pollfd fds[] = { { .fd = pidfd, .events = POLLIN }, { .fd = c->signal_fd, .events = POLLIN } };
	int64_t timeout_ms = c->p->o->timeout_ms;
	int64_t end_at = timeout_ms ? clock_monotonic_ns() + timeout_ms * 1000000 : 0;

	while (pidfd >= 0 && !fds[0].revents) {
		if (poll(fds, ARRAY_SIZE(fds), poll_ms(end_at)) >= 0)
			pass_signals_on(c->signal_fd, pid);
		if (!fds[0].revents)
			end_over_time(pid, &end_at, ret_timed_out);
	}
	while (waitpid(pid, ret_status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void fill_result(int status, bool started, bool timed_out, int64_t began, struct atoll_run_result *ret)
{
	*ret = (struct atoll_run_result){
		.exit_status = timed_out             ? EXIT_TIMED_OUT
			       : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
						     : WEXITSTATUS(status),
		.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		.not_started = !started,
		.timed_out = timed_out,
		.unconfined = true,
		.elapsed_ns = clock_monotonic_ns() - began,
	};
}

static int run_command(struct command *c, struct atoll_run_result *ret, struct atoll_error *err)
{
	int64_t began = clock_monotonic_ns();
	struct refusal why = { 0 };
	int r = open_channels(c), status;
	bool timed_out = false;
	pid_t pid;

	if (r < 0)
		return error_sys(err, r, "run", NULL, "cannot make a channel to the command");
	pid = fork();
	if (pid == 0)
		execute(c);
	if (pid < 0)
		return error_sys(err, errno, "run", NULL, "cannot start a process");
	c->report[1] = fd_close(c->report[1]);
	while (read(c->report[0], &why, sizeof why) < 0 && errno == EINTR)
		;
	if (!why.step && c->p->begun)
		c->p->begun(c->p->arg);
	r = wait_for_end(c, pid, &status, &timed_out);
	if (r < 0)
		return error_sys(err, r, "run", NULL, "cannot wait for the command");
	if (why.step)
		return error_sys(err, why.error, "run", c->cwd,
				 "the command cannot be confined, and without that it is not run: %s failed", why.step);
	fill_result(status, why.error == 0, timed_out, began, ret);
	return 0;
}

int run_plain(struct session *s, const struct run_plain *p, struct atoll_run_result *ret, struct atoll_error *err)
{
	CLEANUP(command_release)
	struct command c = { .p = p, .rules = -EBADF, .report = { -EBADF, -EBADF }, .signal_fd = -EBADF };
	const struct run_options *o = p->o;
	AUTO_FREE char *inside = translate(s, o->cwd);
	int r = refuse_places(o, err);

	if (r >= 0 && net_policy_needs_gateway(&o->net))
		r = error_set(
			err, ATOLL_UNSUPPORTED, 0, "run", NULL,
			"--net allow: and --publish need user namespaces, which this machine does not let you make: see "
			"`atoll doctor`");
	if (r >= 0)
		r = refuse_root(o, err);
	if (r >= 0)
		r = refuse_limits(o, err);
	if (r >= 0)
		r = refuse_overlays(s, err);

	pthread_sigmask(SIG_SETMASK, NULL, &c.signals);
	if (r >= 0)
		r = make_rules(s, &c.rules, err);
	if (r < 0)
		return r;
	if (!inside)
		return error_oom(err, "run");
	c.cwd = inside;
	return run_command(&c, ret, err);
}
