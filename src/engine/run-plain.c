/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running where no namespace can be made: the command works in the copies themselves, at their own paths. Its edits are shown and
 * committed as ever; nothing but its good will keeps it out of the originals, and the result says so.
 */
#include "engine/run.h"

#include <errno.h>
#include <string.h>
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

/* In the child: only what is safe after fork in a program with threads. */
static void execute(const char *cwd, char *const *argv, int report)
{
	int why;

	if (chdir(cwd) == 0)
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
	pid_t pid;
	int r = refuse_overlays(s, err);

	if (r < 0)
		return r;
	if (!inside)
		return error_oom(err, "run");
	if (pipe2(report, O_CLOEXEC) < 0)
		return error_sys(err, errno, "run", NULL, "cannot make a pipe");
	pid = fork();
	if (pid == 0)
		execute(inside, options->argv, report[1]);
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
