/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ask.h"

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

/* Like getline(). Ctrl-C ends the input, not the program: what becomes of the sandbox still has to be said. */
static ssize_t read_line(char **line, size_t *size)
{
	struct sigaction action = { .sa_handler = interrupted }, old;
	bool caught = sigaction(SIGINT, NULL, &old) == 0 && old.sa_handler == SIG_DFL &&
		      sigaction(SIGINT, &action, NULL) == 0;
	ssize_t n;

	clearerr(stdin);
	n = getline(line, size, stdin);
	if (caught)
		(void)sigaction(SIGINT, &old, NULL);
	return n;
}

/* One answer without blanks around it; NULL at the end of input. Malloc'ed. */
static char *read_answer(const char *question)
{
	char *line = NULL;
	size_t size = 0, start;

	fflush(stdout);
	fputs(question, stderr);
	fflush(stderr);
	if (read_line(&line, &size) < 0) {
		free(line);
		putc('\n', stderr);
		return NULL;
	}
	start = strspn(line, " \t");
	memmove(line, line + start, strlen(line + start) + 1);
	line[strcspn(line, " \t\r\n")] = '\0';
	return line;
}

static int find_choice(const char *answer, const struct ask_choice *choices, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const char letter[] = { choices[i].letter, '\0' };

		if (strcasecmp(answer, letter) == 0 || strcasecmp(answer, choices[i].word) == 0)
			return (int)i;
	}
	return -1;
}

int ask_choice(const char *question, const struct ask_choice *choices, size_t n)
{
	for (;;) {
		AUTO_FREE char *answer = read_answer(question);
		int found;

		if (!answer)
			return -1;
		found = find_choice(answer, choices, n);
		if (found >= 0)
			return found;
	}
}

bool ask_yes(const char *question)
{
	AUTO_FREE char *answer = read_answer(question);

	return answer && (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0);
}
