/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/macros.h"

bool ask_is_possible(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

static void interrupted(int sig)
{
	(void)sig;
}

/*
 * Ctrl-C ends the input, not the program: what becomes of the sandbox still has to be said. It is held back from before the question can
 * be seen, and let in only where waiting notices it.
 */
struct watch {
	struct sigaction old;
	sigset_t mask;
	bool caught;
};

static void watch_begin(struct watch *w)
{
	struct sigaction action = { .sa_handler = interrupted };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, &w->mask);
	w->caught = sigaction(SIGINT, NULL, &w->old) == 0 && w->old.sa_handler == SIG_DFL &&
		    sigaction(SIGINT, &action, NULL) == 0;
}

static void watch_end(const struct watch *w)
{
	sigprocmask(SIG_SETMASK, &w->mask, NULL);
	if (w->caught)
		(void)sigaction(SIGINT, &w->old, NULL);
}

/* Like getline(). */
static ssize_t read_line(const struct watch *w, char **line, size_t *size)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	clearerr(stdin);
	if (ppoll(&input, 1, NULL, &w->mask) < 0)
		return -1;
	sigprocmask(SIG_SETMASK, &w->mask, NULL);
	return getline(line, size, stdin);
}

char *ask_line(const char *question)
{
	char *line = NULL;
	size_t size = 0, start;
	struct watch watch;
	ssize_t n;

	fflush(stdout);
	watch_begin(&watch);
	fputs(question, stderr);
	fflush(stderr);
	n = read_line(&watch, &line, &size);
	watch_end(&watch);
	if (n < 0) {
		free(line);
		putc('\n', stderr);
		return NULL;
	}
	start = strspn(line, " \t");
	memmove(line, line + start, strlen(line + start) + 1);
	line[strcspn(line, "\r\n")] = '\0';
	return line;
}

bool ask_yes(const char *question)
{
	AUTO_FREE char *answer = ask_line(question);

	if (answer)
		answer[strcspn(answer, " \t")] = '\0';
	return answer && (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0);
}
