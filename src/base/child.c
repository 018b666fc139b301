/* SPDX-License-Identifier: Apache-2.0 */
#include "base/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/macros.h"
#include "base/stop.h"
#include "base/strbuf.h"

/* A killed process that still does not end waits inside the kernel (a dead disk, say): not worth waiting with it. */
#define KILL_GRACE_MS 5000

/* The last bytes that were read. */
struct tail {
	char *data;
	size_t size, capacity;
};

static void tail_add(struct tail *t, const char *data, size_t size)
{
	if (size > t->capacity) {
		data += size - t->capacity;
		size = t->capacity;
	}
	if (t->size + size > t->capacity) {
		size_t drop = t->size + size - t->capacity;

		memmove(t->data, t->data + drop, t->size - drop);
		t->size -= drop;
	}
	memcpy(t->data + t->size, data, size);
	t->size += size;
}

/* Reads what is there. False once nothing more can come. */
static bool tail_read(struct tail *t, int fd)
{
	char buffer[4096];

	for (;;) {
		ssize_t n = read(fd, buffer, sizeof(buffer));

		if (n > 0)
			tail_add(t, buffer, (size_t)n);
		else if (n == 0 || (errno != EINTR && errno != EAGAIN))
			return false;
		else if (errno == EAGAIN)
			return true;
	}
}

static void tail_finish(struct tail *t)
{
	while (t->size > 0 && strchr(" \t\r\n", t->data[t->size - 1]))
		t->size--;
	t->data[t->size] = '\0';
}

static int file_actions(posix_spawn_file_actions_t *a, const struct child_io *io, int errors)
{
	int r = io->input >= 0 ? posix_spawn_file_actions_adddup2(a, io->input, STDIN_FILENO)
			       : posix_spawn_file_actions_addopen(a, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

	if (r == 0)
		r = posix_spawn_file_actions_adddup2(a, io->output >= 0 ? io->output : errors, STDOUT_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(a, errors, STDERR_FILENO);
	if (r == 0)
		r = posix_spawn_file_actions_addclosefrom_np(a, STDERR_FILENO + 1);
	return -r;
}

/* Looks a program up in PATH. execvp()'s rule, that one forbidden directory there turns "not found" into "forbidden", would
 * hide from an ordinary user that a helper is simply not installed. */
static int find_program(const char *name, char **ret)
{
	const char *path = getenv("PATH");

	if (strchr(name, '/')) {
		*ret = strdup(name);
		return *ret ? 0 : -ENOMEM;
	}
	for (path = path ? path : "/usr/bin:/bin"; name[0]; path++) {
		size_t size = strcspn(path, ":");
		AUTO_FREE char *file = str_format("%.*s%s%s", (int)size, path, size > 0 ? "/" : "./", name);
		struct stat st;

		if (!file)
			return -ENOMEM;
		if (stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0) {
			*ret = TAKE_PTR(file);
			return 0;
		}
		path += size;
		if (!*path)
			break;
	}
	return -ENOENT;
}

/* A process group of its own, and the signal state a program expects whatever ours is. */
static int spawn(const char *program, char *const argv[], const struct child_io *io, int errors, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return -ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -ENOMEM;
	}
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	r = file_actions(&actions, io, errors);
	if (r == 0)
		r = -posix_spawn(ret, program, &actions, &attr, argv, io->env ? io->env : environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return r;
}

static int remaining_ms(int64_t deadline)
{
	int64_t left = deadline - clock_monotonic_ns();

	if (deadline < 0)
		return -1;
	return left <= 0 ? 0 : (int)MIN((left + 999999) / 1000000, (int64_t)1 << 30);
}

/* A container's filter of system calls may refuse pidfds. Without one, this file polls for the
 * child's end at this interval. */
#define LOOK_MS 5

static int look_ms(const struct child *c, int wait)
{
	return c->pidfd >= 0 || (wait >= 0 && wait < LOOK_MS) ? wait : LOOK_MS;
}

static bool has_ended_unseen(const struct child *c)
{
	siginfo_t info = { 0 };

	return c->pidfd < 0 && waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0;
}

/* Reads the child's output until the child ends: 0, or -ETIMEDOUT, or -ECANCELED. The end of the
 * output does not count, because a grandchild may keep it open. */
static int wait_for_end(const struct child *c, int timeout_ms, struct tail *t)
{
	int64_t deadline = timeout_ms < 0 ? -1 : clock_monotonic_ns() + (int64_t)timeout_ms * 1000000;
	struct pollfd fds[] = { { .fd = c->pidfd, .events = POLLIN }, { .fd = c->output, .events = POLLIN } };

	for (;;) {
		int left = remaining_ms(deadline), wait = look_ms(c, stop_wait_ms(left)), r = stop_check();

		if (r < 0)
			return r;
		r = poll(fds, ARRAY_SIZE(fds), wait);
		if (r < 0 && errno != EINTR)
			return -errno;
		if (r == 0 && wait == left)
			return -ETIMEDOUT;
		if (r > 0 && fds[1].revents && !tail_read(t, c->output))
			fds[1].fd = -1;
		if ((r > 0 && fds[0].revents) || has_ended_unseen(c)) {
			tail_read(t, c->output);
			return 0;
		}
	}
}

static int reap(pid_t pid, int flags, int *ret)
{
	int status;
	pid_t r;

	do
		r = waitpid(pid, &status, flags);
	while (r < 0 && errno == EINTR);
	if (r <= 0)
		return r < 0 ? -errno : -EAGAIN;
	*ret = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
	return 0;
}

static int end_by_force(pid_t pid, int pidfd, int error)
{
	struct pollfd end = { .fd = pidfd, .events = POLLIN };
	int status;

	kill(-pid, SIGKILL);
	while (pidfd >= 0 && poll(&end, 1, KILL_GRACE_MS) < 0 && errno == EINTR)
		;
	reap(pid, pidfd < 0 ? 0 : WNOHANG, &status);
	return error;
}

int child_start_with(char *const argv[], const struct child_io *io, struct child *ret)
{
	AUTO_FD reader = -EBADF, writer = -EBADF, pidfd = -EBADF;
	AUTO_FREE char *program = NULL;
	int pipe_fds[2], r;
	pid_t pid = -1;

	r = find_program(argv[0], &program);
	if (r < 0)
		return r;
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	reader = pipe_fds[0];
	writer = pipe_fds[1];
	/* Ours only: the child's end of the pipe keeps blocking. */
	if (fcntl(reader, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	r = spawn(program, argv, io, writer, &pid);
	if (r < 0)
		return r;
	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0 && errno != ENOSYS && errno != EPERM)
		return end_by_force(pid, pidfd, -errno);
	*ret = (struct child){ .pid = pid, .pidfd = TAKE_FD(pidfd), .output = TAKE_FD(reader) };
	return 0;
}

int child_start(char *const argv[], struct child *ret)
{
	static const struct child_io none = { -EBADF, -EBADF, NULL };

	return child_start_with(argv, &none, ret);
}

int child_wait(struct child *c, int timeout_ms, struct child_result *ret)
{
	struct child_result result = { 0 };
	struct tail tail = { .data = result.output, .capacity = sizeof(result.output) - 1 };
	AUTO_FD pidfd = TAKE_FD(c->pidfd);
	AUTO_FD output = TAKE_FD(c->output);
	int r = wait_for_end(&(struct child){ c->pid, pidfd, output }, timeout_ms, &tail);

	if (r < 0)
		return end_by_force(c->pid, pidfd, r);
	r = reap(c->pid, 0, &result.exit_status);
	if (r < 0)
		return r;
	tail_finish(&tail);
	*ret = result;
	return 0;
}

int child_run(char *const argv[], int timeout_ms, struct child_result *ret)
{
	struct child c = { .pidfd = -EBADF, .output = -EBADF };
	int r = child_start(argv, &c);

	return r < 0 ? r : child_wait(&c, timeout_ms, ret);
}
