/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio_ext.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/macros.h"
#include "cli/message.h"

#define PAGER_WORDS 32

static bool sigpipe_was_default;

/* The pager in use: its process, and the terminal that standard output was before. */
static struct {
	pid_t pid;
	int saved_stdout;
	struct sigaction old_int, old_quit;
} pager = { .saved_stdout = -EBADF };

void output_init(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* Opened the wrong way round: writing to what was closed must fail, and be noticed. */
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDONLY) != fd)
			_exit(1);
	}
}

void output_ignore_sigpipe(void)
{
	struct sigaction old;

	if (sigaction(SIGPIPE, &(struct sigaction){ .sa_handler = SIG_IGN }, &old) == 0 && old.sa_handler == SIG_DFL)
		sigpipe_was_default = true;
}

void output_restore_sigpipe(void)
{
	if (sigpipe_was_default)
		signal(SIGPIPE, SIG_DFL);
}

/* error 0: an earlier write failed, and its errno is gone; on a pipe that can only have been this. */
static bool is_broken_pipe(int error)
{
	struct stat st;

	return error == EPIPE ||
	       (error == 0 && fstat(STDOUT_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode)));
}

void output_stderr_to_end(void)
{
	off_t at = lseek(STDERR_FILENO, 0, SEEK_CUR);
	struct stat st;

	if (at >= 0 && fstat(STDERR_FILENO, &st) == 0 && S_ISREG(st.st_mode) && at < st.st_size)
		(void)lseek(STDERR_FILENO, 0, SEEK_END);
}

int output_finish(int status)
{
	int error;

	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	error = errno;
	if (!is_broken_pipe(error)) {
		message_error("cannot write to standard output: %s", error ? strerror(error) : "a write failed");
	} else if (sigpipe_was_default) {
		signal(SIGPIPE, SIG_DFL);
		raise(SIGPIPE);
	}
	return status ? status : 1;
}

bool output_wants_color(FILE *out, const char *when)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (when && strcmp(when, "auto") != 0)
		return strcmp(when, "always") == 0;
	if (no_color && *no_color)
		return false;
	return isatty(fileno(out)) && term && strcmp(term, "dumb") != 0;
}

const char *output_color(bool on, enum output_color color)
{
	static const char *const sequences[] = {
		[COLOR_RESET] = "\033[m",   [COLOR_BOLD] = "\033[1m",    [COLOR_RED] = "\033[31m",
		[COLOR_GREEN] = "\033[32m", [COLOR_YELLOW] = "\033[33m", [COLOR_CYAN] = "\033[36m",
	};

	return on ? sequences[color] : "";
}

/* ---- Pager ------------------------------------------------------------------------------------------------------- */

/* Cuts a command line at blanks; there is no shell, so quotes mean nothing. False if there is nothing to run. */
static bool split_words(char *line, char *words[PAGER_WORDS + 1])
{
	size_t n = 0;

	for (char *rest = line, *word; n < PAGER_WORDS && (word = strtok_r(rest, " \t", &rest));)
		words[n++] = word;
	words[n] = NULL;
	return n > 0 && strcmp(words[0], "cat") != 0;
}

static const char *pager_command(void)
{
	const char *command = getenv("ATOLL_PAGER");

	if (!command)
		command = getenv("PAGER");
	return command ? command : "less -FRX";
}

static int spawn_pager(char *const words[], int input, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t defaults;
	int r;

	sigemptyset(&defaults);
	sigaddset(&defaults, SIGPIPE);
	sigaddset(&defaults, SIGINT);
	sigaddset(&defaults, SIGQUIT);
	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attributes);
	if (r != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	posix_spawnattr_setsigdefault(&attributes, &defaults);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	r = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
	if (r == 0)
		r = posix_spawnp(ret, words[0], &actions, &attributes, words, environ);
	posix_spawnattr_destroy(&attributes);
	posix_spawn_file_actions_destroy(&actions);
	return -r;
}

void output_pager_start(void)
{
	AUTO_FREE char *line = NULL;
	AUTO_FD read_end = -EBADF;
	AUTO_FD write_end = -EBADF;
	char *words[PAGER_WORDS + 1];
	int ends[2];

	fflush(stdout);
	if (pager.pid > 0 || !isatty(STDOUT_FILENO))
		return;
	line = strdup(pager_command());
	if (!line || !split_words(line, words) || pipe2(ends, O_CLOEXEC) < 0)
		return;
	read_end = ends[0];
	write_end = ends[1];
	setenv("LESS", "FRX", 0);
	pager.saved_stdout = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
	if (pager.saved_stdout < 0 || spawn_pager(words, read_end, &pager.pid) < 0) {
		pager.pid = 0;
		pager.saved_stdout = fd_close(pager.saved_stdout);
		return;
	}
	/* Interrupting is the pager's business: whoever leaves it closes the pipe, and that ends us. */
	sigaction(SIGINT, &(struct sigaction){ .sa_handler = SIG_IGN }, &pager.old_int);
	sigaction(SIGQUIT, &(struct sigaction){ .sa_handler = SIG_IGN }, &pager.old_quit);
	dup2(write_end, STDOUT_FILENO);
}

void output_pager_end(void)
{
	int status;

	if (pager.pid <= 0)
		return;
	/* Leaving the pager early is no error, and what it did not want must not reach the terminal. */
	fflush(stdout);
	__fpurge(stdout);
	clearerr(stdout);
	dup2(pager.saved_stdout, STDOUT_FILENO);
	pager.saved_stdout = fd_close(pager.saved_stdout);
	while (waitpid(pager.pid, &status, 0) < 0 && errno == EINTR)
		;
	pager.pid = 0;
	sigaction(SIGINT, &pager.old_int, NULL);
	sigaction(SIGQUIT, &pager.old_quit, NULL);
}
