/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unit tests that speak TAP. A test program is one file that includes this header and nothing else of a harness:
 *
 *	TEST(truncate_never_grows_a_string)
 *	{
 *		AUTO_STRBUF s = STRBUF_INIT;
 *
 *		strbuf_adds(&s, "abc");
 *		strbuf_truncate(&s, 9);
 *		CHECK_STR(strbuf_str(&s), "abc");
 *	}
 *
 * main() is here. The name is a sentence. Each test runs in a child of its own with its own process group, an alarm of 60 seconds and
 * a private, empty directory on a real file system, which is its current directory (also tap_dir, tap_dirfd) and is removed
 * afterwards with everything in it. A failed check prints where and what, and ends its test. Names given as arguments
 * select the tests that contain one of them.
 */
#ifndef TESTS_LIB_TAP_H
#define TESTS_LIB_TAP_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TAP_UNUSED __attribute__((unused))
#define TAP_MAX_TESTS 512
#ifndef TAP_SECONDS
#define TAP_SECONDS 60
#endif
#define TAP_SKIPPED 77

struct tap_test {
	const char *name;
	void (*run)(void);
	const char *
		variant; /* what the same function is run for, in a suite that runs it several times; see tap_variant */
};
static struct tap_test tap_tests[TAP_MAX_TESTS];
static size_t tap_n_tests;
static char *tap_skip_reason; /* in a page shared with the child */
static char tap_dir[4096] TAP_UNUSED;
static int tap_dirfd TAP_UNUSED = -EBADF;
static const char *tap_variant TAP_UNUSED; /* of the running test */

#define TEST(test_name)                                                                             \
	static void test_##test_name(void);                                                         \
	__attribute__((constructor)) static void tap_register_##test_name(void)                     \
	{                                                                                           \
		if (tap_n_tests == TAP_MAX_TESTS)                                                   \
			abort();                                                                    \
		tap_tests[tap_n_tests++] = (struct tap_test){ #test_name, test_##test_name, NULL }; \
	}                                                                                           \
	static void test_##test_name(void)

/* ---- Checks ------------------------------------------------------------------------------------------------------ */

__attribute__((noreturn, format(printf, 3, 4), unused)) static void tap_fail(const char *file, int line,
									     const char *format, ...)
{
	va_list args;

	printf("# %s:%d: ", file, line);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
	_exit(1);
}

#define CHECK(condition)                                                          \
	do {                                                                      \
		if (!(condition))                                                 \
			tap_fail(__FILE__, __LINE__, "not true: %s", #condition); \
	} while (0)

/* Integers. */
#define CHECK_EQ(got, expected)                                                                                      \
	do {                                                                                                         \
		long long _got = (long long)(got), _expected = (long long)(expected);                                \
		if (_got != _expected)                                                                               \
			tap_fail(__FILE__, __LINE__, "%s is %lld, not %lld (%s)", #got, _got, _expected, #expected); \
	} while (0)

/* A result of the kind "0 or positive, or -errno". */
#define CHECK_OK(got)                                                                                      \
	do {                                                                                               \
		long long _got = (long long)(got);                                                         \
		if (_got < 0)                                                                              \
			tap_fail(__FILE__, __LINE__, "%s is %lld (%s)", #got, _got, strerror((int)-_got)); \
	} while (0)

/* Strings; NULL equals NULL only. */
#define CHECK_STR(got, expected)                                                                               \
	do {                                                                                                   \
		const char *_got = (got), *_expected = (expected);                                             \
		if (!_got != !_expected || (_got && strcmp(_got, _expected) != 0))                             \
			tap_fail(__FILE__, __LINE__, "%s is \"%s\", not \"%s\"", #got, _got ? _got : "(null)", \
				 _expected ? _expected : "(null)");                                            \
	} while (0)

#define CHECK_CONTAINS(text, part)                                                                                    \
	do {                                                                                                          \
		const char *_text = (text), *_part = (part);                                                          \
		if (!_text || !strstr(_text, _part))                                                                  \
			tap_fail(__FILE__, __LINE__, "%s is \"%s\", without \"%s\"", #text, _text ? _text : "(null)", \
				 _part);                                                                              \
	} while (0)

/* Ends the test as skipped: something it needs is not on this machine. The reason is printed. */
__attribute__((noreturn, format(printf, 1, 2), unused)) static void tap_skip(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(tap_skip_reason, 1024, format, args);
	va_end(args);
	fflush(stdout);
	_exit(TAP_SKIPPED);
}

/* ---- Small helpers ----------------------------------------------------------------------------------------------- */

TAP_UNUSED static void tap_write(int dirfd, const char *name, const char *content)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	size_t size = strlen(content);

	if (fd < 0 || write(fd, content, size) != (ssize_t)size || close(fd) < 0)
		tap_fail(__FILE__, __LINE__, "cannot write %s: %s", name, strerror(errno));
}

/* The content of a small file, in a buffer that the next call uses again. */
TAP_UNUSED static const char *tap_read(int dirfd, const char *name)
{
	static char buffer[65536];
	int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, buffer, sizeof(buffer) - 1);

	if (size < 0)
		tap_fail(__FILE__, __LINE__, "cannot read %s: %s", name, strerror(errno));
	close(fd);
	buffer[size] = '\0';
	return buffer;
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static void tap_bail_out(const char *why)
{
	printf("Bail out! %s: %s\n", why, strerror(errno));
	exit(1);
}

static void tap_make_dir(void)
{
	const char *base = getenv("TEST_TMP");

	snprintf(tap_dir, sizeof(tap_dir), "%s/atoll-unit.XXXXXX", base && base[0] ? base : "/var/tmp");
	if (!mkdtemp(tap_dir) || chmod(tap_dir, 0755) < 0)
		tap_bail_out("no temporary directory");
}

static void tap_remove_dir(void)
{
	pid_t pid = fork();
	struct stat st;

	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", "chmod -R u+rwX -- \"$1\" 2>&-; rm -rf --one-file-system -- \"$1\"", "sh",
		      tap_dir, (char *)NULL);
		_exit(127);
	}
	if (pid < 0 || waitpid(pid, NULL, 0) < 0 || lstat(tap_dir, &st) == 0)
		tap_bail_out("the temporary directory could not be removed");
}

__attribute__((noreturn)) static void tap_child(const struct tap_test *test)
{
	sigset_t none;

	/* Whoever runs the tests may have signals ignored or blocked, as a shell does for what it starts in the background. */
	for (int number = 1; number < 32; number++)
		if (number != SIGKILL && number != SIGSTOP)
			signal(number, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setpgid(0, 0);
	alarm(TAP_SECONDS);
	tap_dirfd = open(tap_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (tap_dirfd < 0 || chdir(tap_dir) < 0)
		tap_fail(__FILE__, __LINE__, "cannot enter %s: %s", tap_dir, strerror(errno));
	tap_variant = test->variant;
	test->run();
	/* exit, not _exit: sanitizers and coverage report from there. */
	exit(0);
}

static int tap_run_child(const struct tap_test *test)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid < 0)
		tap_bail_out("fork");
	if (pid == 0)
		tap_child(test);
	while (waitpid(pid, &status, 0) < 0) {
		if (errno != EINTR)
			tap_bail_out("wait");
	}
	kill(-pid, SIGKILL); /* whatever it left running */
	return status;
}

static bool tap_run(const struct tap_test *test, int number)
{
	int status;

	tap_make_dir();
	tap_skip_reason[0] = '\0';
	status = tap_run_child(test);
	tap_remove_dir();
	if (WIFSIGNALED(status))
		printf("# ended by signal %d (%s)\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
	if (WIFEXITED(status) && WEXITSTATUS(status) == TAP_SKIPPED && tap_skip_reason[0]) {
		printf("ok %d - %s # SKIP %s\n", number, test->name, tap_skip_reason);
		return true;
	}
	printf("%s %d - %s\n", status == 0 ? "ok" : "not ok", number, test->name);
	return status == 0;
}

static bool tap_is_selected(const struct tap_test *test, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strstr(test->name, argv[i]))
			return true;
	}
	return argc < 2;
}

int main(int argc, char **argv)
{
	int n = 0, number = 0;
	bool good = true;

	tap_skip_reason = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (tap_skip_reason == MAP_FAILED)
		tap_bail_out("mmap");
	for (size_t i = 0; i < tap_n_tests; i++)
		n += tap_is_selected(&tap_tests[i], argc, argv);
	printf("1..%d\n", n);
	for (size_t i = 0; i < tap_n_tests; i++) {
		if (tap_is_selected(&tap_tests[i], argc, argv))
			good &= tap_run(&tap_tests[i], ++number);
	}
	return good ? 0 : 1;
}

#endif
