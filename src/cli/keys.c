/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/keys.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"

#define ESCAPE_MS 50 /* the rest of a key's sequence follows its first byte faster than this */

static const int watched[] = { SIGWINCH, SIGINT, SIGTERM, SIGHUP, SIGQUIT };
static volatile sig_atomic_t caught; /* latest signal; 0: none */

static void note_signal(int sig)
{
	caught = sig;
}

bool keys_is_possible(void)
{
	const char *term = getenv("TERM");

	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

/* Blocks the signals except while keys_read() waits. */
static void watch_begin(struct keys *k)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		sigaddset(&set, watched[i]);
	sigprocmask(SIG_BLOCK, &set, &k->mask);
	caught = 0;
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++) {
		struct sigaction action = { .sa_handler = note_signal };

		if (sigaction(watched[i], NULL, &k->old[i]) == 0 && k->old[i].sa_handler != SIG_IGN)
			(void)sigaction(watched[i], &action, NULL);
	}
}

static void watch_end(struct keys *k)
{
	for (size_t i = 0; i < ARRAY_SIZE(watched); i++)
		(void)sigaction(watched[i], &k->old[i], NULL);
	sigprocmask(SIG_SETMASK, &k->mask, NULL);
}

static void put(const char *text)
{
	fputs(text, stderr);
	fflush(stderr);
}

int keys_begin(struct keys *k)
{
	struct termios raw;

	*k = (struct keys){ 0 };
	fflush(stdout);
	if (tcgetattr(STDIN_FILENO, &k->saved) < 0)
		return -errno;
	watch_begin(k);
	raw = k->saved;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
	raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR);
	raw.c_cc[VMIN] = 1;
	raw.c_cc[VTIME] = 0;
	if (tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) < 0) {
		watch_end(k);
		return -errno;
	}
	put("\033[?1049h\033[?25l");
	return 0;
}

void keys_end(struct keys *k)
{
	put("\033[?25h\033[?1049l");
	(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &k->saved);
	watch_end(k);
}

void keys_draw(const struct strbuf *text)
{
	put("\033[H");
	for (const char *at = strbuf_str(text), *end; *at; at = end + 1) {
		end = strchrnul(at, '\n');
		fwrite(at, 1, (size_t)(end - at), stderr);
		/* The last line gets no newline, which would scroll. */
		fputs(*end && end[1] ? "\033[K\n" : "\033[K", stderr);
		if (!*end)
			break;
	}
	put("\033[J");
}

/* ---- reading ---- */

/* Restores the terminal, then lets the signal end the program. */
static void end_by(struct keys *k, int sig)
{
	keys_end(k);
	raise(sig);
}

/* Waits for bytes. Returns 1; 0 after the timeout, after a change of the window's size, or if a
 * signal interrupted the wait; -1 at the end of input. */
static int fill(struct keys *k, int timeout_ms)
{
	const struct timespec limit = { .tv_nsec = timeout_ms * 1000000L };
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n;
	int r = ppoll(&input, 1, timeout_ms < 0 ? NULL : &limit, &k->mask);

	if (r <= 0)
		return r < 0 && errno != EINTR ? -1 : 0;
	n = read(STDIN_FILENO, k->pending + k->n_pending, sizeof(k->pending) - k->n_pending);
	if (n <= 0)
		return n < 0 && errno == EINTR ? 0 : -1;
	k->n_pending += (size_t)n;
	return 1;
}

static void drop(struct keys *k, size_t n)
{
	k->n_pending -= n;
	memmove(k->pending, k->pending + n, k->n_pending);
}

static int key_of_sequence(const char *text, size_t size)
{
	static const struct {
		const char *text;
		int key;
	} keys[] = {
		{ "A", KEY_UP },       { "B", KEY_DOWN },       { "C", KEY_RIGHT },  { "D", KEY_LEFT },
		{ "H", KEY_FIRST },    { "F", KEY_LAST },       { "1~", KEY_FIRST }, { "4~", KEY_LAST },
		{ "5~", KEY_PAGE_UP }, { "6~", KEY_PAGE_DOWN }, { "7~", KEY_FIRST }, { "8~", KEY_LAST },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (strlen(keys[i].text) == size && memcmp(keys[i].text, text, size) == 0)
			return keys[i].key;
	return KEY_UNKNOWN;
}

/* A sequence is ESC [ or ESC O, then other bytes, the last of which is a letter or a tilde. */
static int read_sequence(struct keys *k)
{
	size_t at = 2;
	int key;

	while (k->n_pending < 2 && fill(k, ESCAPE_MS) > 0)
		;
	if (k->n_pending < 2 || (k->pending[1] != '[' && k->pending[1] != 'O')) {
		drop(k, 1);
		return KEY_ESCAPE;
	}
	for (;; at++) {
		if (at == k->n_pending && (at == sizeof(k->pending) || fill(k, ESCAPE_MS) <= 0))
			break;
		if (k->pending[at] >= '@' && k->pending[at] <= '~')
			break;
	}
	key = at < k->n_pending ? key_of_sequence(k->pending + 2, at - 1) : KEY_UNKNOWN;
	drop(k, MIN(at + 1, k->n_pending));
	return key;
}

int keys_read(struct keys *k)
{
	int key;

	while (k->n_pending == 0) {
		int r = fill(k, -1), sig = caught;

		caught = 0;
		if (sig == SIGWINCH)
			return KEY_RESIZED;
		if (sig == SIGINT)
			return KEY_END;
		if (sig)
			end_by(k, sig);
		if (r < 0 || sig)
			return KEY_END;
	}
	key = (unsigned char)k->pending[0];
	if (key == '\033')
		return read_sequence(k);
	drop(k, 1);
	return key == 3 || key == 4 ? KEY_END : key;
}
