/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running where no namespace can be made: the command works in the copies themselves, at their own paths. Its edits are shown and
 * committed as ever. Landlock keeps its writes out of everything else, the originals first of all; where the kernel has none, nothing is
 * run. It is a weaker wall than a mount namespace (modes and times of files elsewhere can still be set), and the result says so.
 */
#include "engine/run.h"

#include <errno.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"

/* The same place in the workspace, or the path itself if it lies in no resource. */
static char *translate(struct session *s, const char *cwd)
{
	for (size_t i = 0; i < s->n; i++) {
		struct resource *r = &s->resources[i];

		if (r->ops->workspace && path_is_below(cwd, r->root_path))
			return str_format("%s/%s%s", r->row.work, r->ops->workspace, cwd + strlen(r->root_path));
	}
	return strdup(cwd);
}

static int refuse_overlays(struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->resources[i].ops->capabilities & STRATEGY_OVERLAY)
			return error_set(
				err, ATOLL_UNSUPPORTED, 0, "run", s->resources[i].row.path,
				"\"%s\" needs a mount namespace, which this machine no longer gives; atoll doctor says why",
				s->resources[i].row.path);
	return 0;
}

/* ---- Landlock ---- */

#define ACCESS_TRUNCATE (1ULL << 14) /* Linux 6.2; not in every header */

static uint64_t write_accesses(int abi)
{
	uint64_t all = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
		       LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
		       LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		       LANDLOCK_ACCESS_FS_MAKE_SYM;

	if (abi >= 2)
		all |= LANDLOCK_ACCESS_FS_REFER;
	return abi >= 3 ? all | ACCESS_TRUNCATE : all;
}

static int allow(int rules, const char *path, uint64_t accesses)
{
	AUTO_FD fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr beneath = { .allowed_access = accesses, .parent_fd = fd };

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

static int allow_places(int rules, struct session *s, uint64_t accesses)
{
	static const char *const scratch[] = { "/tmp", "/var/tmp", "/dev" };
	int r = 0;

	for (size_t i = 0; i < s->n && r >= 0; i++) {
		struct resource *res = &s->resources[i];
		AUTO_FREE char *copy = res->ops->workspace ? str_format("%s/%s", res->row.work, res->ops->workspace)
							   : strdup(res->root_path);

		r = copy ? allow(rules, copy, accesses) : -ENOMEM;
	}
	/* Not where an original, or Atoll's own state, lies in them. */
	for (size_t i = 0; i < ARRAY_SIZE(scratch) && r >= 0; i++)
		if (!holds_original(s, scratch[i]) && !path_is_below(s->a->state_dir, scratch[i]))
			r = allow(rules, scratch[i], accesses);
	return r;
}

static int make_rules(struct session *s, int *ret, struct atoll_error *err)
{
	int abi = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr attr = { .handled_access_fs = write_accesses(abi) };
	AUTO_FD rules = abi < 1 ? -EOPNOTSUPP : (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
	int r;

	if (rules < 0)
		return error_set(
			err, ATOLL_UNSUPPORTED, EOPNOTSUPP, "run", s->box.name,
			"neither user namespaces nor Landlock are available: a command could not be kept out of the originals; "
			"atoll doctor says how to allow namespaces");
	r = allow_places(rules, s, attr.handled_access_fs);
	if (r < 0)
		return error_sys(err, r, "run", s->box.name, "cannot confine the command");
	*ret = TAKE_FD(rules);
	return 0;
}

/* In the child: only what is safe after fork in a program with threads. */
static void execute(const char *cwd, char *const *argv, int rules, int report)
{
	int why;

	if (chdir(cwd) == 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	    syscall(SYS_landlock_restrict_self, rules, 0) == 0)
		execvp(argv[0], argv);
	why = errno;
	(void)!write(report, &why, sizeof why);
	_exit(why == ENOENT ? 127 : 126);
}

static void fill_result(int status, bool started, int64_t began, struct atoll_run_result *ret)
{
	*ret = (struct atoll_run_result){
		.exit_status = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status),
		.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0,
		.not_started = !started,
		.unconfined = true,
		.elapsed_ns = clock_monotonic_ns() - began,
	};
}

int run_plain(struct session *s, const struct atoll_run_options *options, const char *cwd, struct atoll_run_result *ret,
	      struct atoll_error *err)
{
	AUTO_FREE char *inside = translate(s, cwd);
	int64_t began = clock_monotonic_ns();
	int report[2], why = 0, status;
	AUTO_FD rules = -EBADF;
	pid_t pid;
	int r = refuse_overlays(s, err);

	if (r >= 0)
		r = make_rules(s, &rules, err);
	if (r < 0)
		return r;
	if (!inside)
		return error_oom(err, "run");
	if (pipe2(report, O_CLOEXEC) < 0)
		return error_sys(err, errno, "run", NULL, "cannot make a pipe");
	pid = fork();
	if (pid == 0)
		execute(inside, options->argv, rules, report[1]);
	fd_close(report[1]);
	if (pid < 0) {
		fd_close(report[0]);
		return error_sys(err, errno, "run", NULL, "cannot start a process");
	}
	while (read(report[0], &why, sizeof why) < 0 && errno == EINTR)
		;
	fd_close(report[0]);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return error_sys(err, errno, "run", NULL, "cannot wait for the command");
	fill_result(status, why == 0, began, ret);
	return 0;
}
