/* SPDX-License-Identifier: Apache-2.0 */
#include "strategy/postgres.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/child.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"

/* A server that does not answer is given up by libpq before that. */
#define RUN_MS 60000
#define LOST_MAX 4096
#define STATUS_SECONDS 10

/* ---- the program ---- */

static bool is_program(const char *path)
{
	return path && access(path, X_OK) == 0;
}

/* Where it was installed; beside the program that runs, wherever that was moved to; or in the same build. */
static char *find_program(void)
{
	static const char *const beside[] = { "/../libexec/atoll/", "/../hold/", "/" };
	AUTO_FREE char *exe = NULL;
	const char *given = getenv("ATOLL_LIBEXEC");
	char *path = str_format("%s/%s", given && *given ? given : ATOLL_LIBEXEC_DIR, HOLD_PROGRAM);

	if (is_program(path) || fd_readlink(AT_FDCWD, "/proc/self/exe", &exe) < 0)
		return path;
	*strrchr(exe, '/') = 0;
	for (size_t i = 0; i < ARRAY_SIZE(beside) && !is_program(path); i++) {
		free(path);
		path = str_format("%s%s%s", exe, beside[i], HOLD_PROGRAM);
	}
	return path;
}

static int memory_file(const char *content)
{
	AUTO_FD fd = memfd_create("atoll", MFD_CLOEXEC);
	size_t size = content ? strlen(content) : 0;

	if (fd < 0 || (size && write(fd, content, size) != (ssize_t)size) || lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int read_answer(int fd, struct strbuf *ret)
{
	char buffer[4096];
	ssize_t n;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		strbuf_add(ret, buffer, (size_t)n);
	while (ret->size && ret->data[ret->size - 1] == '\n')
		strbuf_truncate(ret, ret->size - 1);
	return n < 0 ? -errno : 0;
}

/* Its exit status is one of our codes, its standard error the message. */
static int translate(const struct child_result *result, struct atoll_error *err)
{
	enum atoll_code code = result->exit_status > 0 && result->exit_status < ATOLL_CODE_COUNT
				       ? (enum atoll_code)result->exit_status
				       : ATOLL_FAILED;

	if (result->exit_status == 0)
		return 0;
	return error_set(err, code, 0, "database", NULL, "%s",
			 *result->output ? result->output : "the program that speaks with the server has failed");
}

int postgres_run(const char *const *arguments, const char *input, struct strbuf *ret, struct atoll_error *err)
{
	AUTO_FREE char *program = find_program();
	AUTO_FD in = memory_file(input);
	AUTO_FD out = memory_file(NULL);
	char *argv[8] = { program };
	struct child child = { .pidfd = -EBADF, .output = -EBADF };
	struct child_result result;
	int r = MIN(in, out);

	for (size_t i = 0; arguments[i] && i + 2 < ARRAY_SIZE(argv); i++)
		argv[i + 1] = (char *)arguments[i];
	if (!program)
		return error_oom(err, "database");
	if (r >= 0)
		r = child_start_with(argv, &(struct child_io){ in, out, NULL }, &child);
	if (r == -ENOENT)
		return error_set(err, ATOLL_UNSUPPORTED, ENOENT, "database", program,
				 "\"%s\", which speaks with PostgreSQL, is not installed", program);
	if (r >= 0)
		r = child_wait(&child, RUN_MS, &result);
	if (r < 0)
		return error_sys(err, r, "database", program, "cannot run \"%s\"", program);
	r = translate(&result, err);
	if (r >= 0 && ret && read_answer(out, ret) < 0)
		return error_sys(err, EIO, "database", program, "cannot read what \"%s\" answers", program);
	return r;
}

/* ---- who holds the transaction ---- */

/* A socket's path may be short only: it is reached through the directory's fd. */
static int reach(int area_fd)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	if (fd < 0)
		return -errno;
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" HOLD_CONTROL, area_fd);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int exchange(int fd, const struct hold_request *q, struct hold_reply *ret)
{
	ssize_t n = send(fd, q, sizeof *q, MSG_NOSIGNAL);

	if (n == (ssize_t)sizeof *q)
		do
			n = recv(fd, ret, sizeof *ret, 0);
		while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof *ret)
		return 0;
	return n < 0 ? -errno : -ECONNRESET;
}

int postgres_request(int area_fd, const struct hold_request *q, struct hold_reply *ret, struct atoll_error *err)
{
	AUTO_FD fd = reach(area_fd);
	int r;

	if (fd == -ENOENT || fd == -ECONNREFUSED)
		return error_set(err, ATOLL_NOT_FOUND, -fd, "database", NULL, "no transaction is open");
	/* A commit takes as long as it takes; a question is not worth waiting for a server that hangs. */
	if (fd >= 0 && q->what == HOLD_STATUS)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){ .tv_sec = STATUS_SECONDS },
				 sizeof(struct timeval));
	r = fd < 0 ? fd : exchange(fd, q, ret);
	if (r < 0)
		return error_sys(err, r, "database", NULL, "the process that holds the transaction does not answer");
	if (ret->error.code && err)
		*err = ret->error;
	return -(int)ret->error.code;
}

int postgres_ask(int area_fd, enum hold_what what, struct hold_reply *ret, struct atoll_error *err)
{
	return postgres_request(area_fd, &(struct hold_request){ .what = what }, ret, err);
}

int postgres_lost(int area_fd, struct strbuf *why)
{
	AUTO_FREE char *text = NULL;
	AUTO_FD fd = -EBADF;
	int r = fd_read_file(area_fd, HOLD_LOST, LOST_MAX, &text, NULL);

	if (r >= 0) {
		strbuf_adds(why, *text ? text : "why could not be written down");
		return 1;
	}
	if (r != -ENOENT)
		return r;
	if (faccessat(area_fd, HOLD_OPEN, F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : -errno;
	fd = reach(area_fd);
	if (fd != -ENOENT && fd != -ECONNREFUSED)
		return MIN(fd, 0);
	strbuf_adds(why, "the process that held its transaction was killed");
	return 1;
}
