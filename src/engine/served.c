/* SPDX-License-Identifier: Apache-2.0 */
/* Asking a keeper to run a command. */
#include "engine/served.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "engine/served-message.h"

enum served_early served_early;
struct served_answer served_early_answer;

/* The command of a keeper has no terminal to be controlled by. */
static bool has_terminal(void)
{
	AUTO_FD fd = open("/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	return fd >= 0 || (errno != ENXIO && errno != ENOENT && errno != ENODEV);
}

/* Whatever is said about a run makes it one of its own. */
static bool is_plain(const char *name, const struct atoll_run_options *o)
{
	return name && *name && *name != '.' && !strchr(name, '/') && strlen(name) < SERVED_NAME_MAX && !o->terminal &&
	       !o->cwd && !atoll_settings_get(o->defaults, 0) && !atoll_settings_get(o->settings, 0);
}

/* By way of an open directory: the path may be longer than an address. */
void served_address(int dir, const char *name, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%s", dir, name);
}

/* Otherwise another fd would be sent in its place. */
static bool has_stdio(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			return false;
	return true;
}

/* One that is stopped, and before which many wait, is not waited for. */
static int reach(struct atoll *a, const char *name)
{
	AUTO_FD dir = fd_open_beneath(a->state_fd, SERVED_DIR, O_PATH | O_DIRECTORY);
	AUTO_FD fd = -EBADF;
	struct sockaddr_un address;

	if (dir < 0 || !has_stdio())
		return -EBADF;
	served_address(dir, name, &address);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static uint64_t blocked_signals(void)
{
	uint64_t mask = 0;
	sigset_t set;

	pthread_sigmask(SIG_BLOCK, NULL, &set);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&set, sig) == 1)
			mask |= 1ULL << (sig - 1);
	return mask;
}

/* Its size; negative: it is not for a keeper. */
static ssize_t write_question(char *const *argv, char *data, size_t size)
{
	struct served_question q = { .blocked = blocked_signals(), .has_settings = 1 };
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	ssize_t n;

	if (!cwd || *cwd != '/')
		return -1;
	snprintf(q.version, sizeof q.version, "%s", atoll_version());
	memcpy(data, &q, sizeof q);
	n = jail_request_write(data + sizeof q, size - sizeof q, cwd, argv, environ);
	return n < 0 ? n : n + (ssize_t)sizeof q;
}

static int ask(struct atoll *a, const char *name, char *const *argv, struct served_answer *ret)
{
	AUTO_FREE char *data = NULL;
	AUTO_FD fd = reach(a, name);
	ssize_t size;

	if (fd < 0 || has_terminal())
		return 0;
	data = malloc(JAIL_REQUEST_MAX);
	size = data ? write_question(argv, data, JAIL_REQUEST_MAX) : -1;
	return size < 0 ? 0 : jail_ask(fd, data, (size_t)size, ret, sizeof *ret);
}

static int read_answer(const struct served_answer *answer, struct atoll_run_result *ret, struct atoll_error *err)
{
	*ret = answer->result;
	ret->run = answer->run;
	if (answer->code >= 0)
		return 1;
	if (err)
		*err = answer->error;
	return answer->code;
}

int served_run(struct atoll *a, const char *name, const struct atoll_run_options *options, struct atoll_run_result *ret,
	       struct atoll_error *err)
{
	struct served_answer answer = served_early_answer;
	int r = served_early == SERVED_ANSWERED ? 1 : served_early == SERVED_LOST ? -ECONNRESET : 0;

	served_early = SERVED_NOT_YET;
	if (r == 0 && is_plain(name, options))
		r = ask(a, name, options->argv, &answer);
	if (r >= 0)
		return r == 0 ? 0 : read_answer(&answer, ret, err);
	/* Killed, and everything inside with it. */
	*ret = (struct atoll_run_result){ .signal = SIGKILL, .exit_status = 128 + SIGKILL, .ended_from_outside = true };
	return 1;
}
