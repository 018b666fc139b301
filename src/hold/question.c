/* SPDX-License-Identifier: Apache-2.0 */
/* A question that goes to whoever holds the transaction, and its rows back. Both ends: what is longer than a packet goes in several. */
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "hold/inside.h"
#include "hold/message.h"

#define PACKET ((size_t)32 << 10)
#define SQL_MAX ((size_t)128 << 10)
#define TIMEOUT_MS 10000
#define MOMENT_MS 500
#define PATIENCE_S 20 /* with whoever holds it: it may have to wait for a client first */

/* ---- at whoever holds it ---- */

/* A client that has just been answered may still have something under way. */
static int ask_in_a_moment(struct pg_proxy *p, const char *sql, struct strbuf *rows, struct atoll_error *err)
{
	int64_t end = clock_monotonic_ns() + MOMENT_MS * 1000000LL;
	struct atoll_error why = { 0 };
	int r;

	while ((r = pg_proxy_question(p, sql, TIMEOUT_MS, rows, &why)) == -ATOLL_BUSY && clock_monotonic_ns() < end)
		(void)pg_proxy_step(p, 20);
	if (r < 0)
		*err = why;
	return r;
}

int question_answer(int fd, struct pg_proxy *p, struct strbuf *rows, struct atoll_error *err)
{
	AUTO_FREE char *sql = calloc(1, SQL_MAX + 1);
	ssize_t n = sql ? recv(fd, sql, SQL_MAX, 0) : -1;

	if (!sql)
		return error_oom(err, "database");
	if (n <= 0)
		return error_set(err, ATOLL_INVALID, 0, "database", NULL, "a question did not come whole");
	return ask_in_a_moment(p, sql, rows, err);
}

void question_send(int fd, const struct strbuf *rows)
{
	for (size_t at = 0; at < rows->size; at += MIN(PACKET, rows->size - at))
		if (send(fd, rows->data + at, MIN(PACKET, rows->size - at), MSG_NOSIGNAL) < 0)
			return;
}

/* ---- at who asks ---- */

static int reach(int area)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" HOLD_CONTROL, area);
	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0)
		return -errno;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	return TAKE_FD(fd);
}

static int receive_rows(int fd, struct strbuf *ret)
{
	char packet[PACKET];
	ssize_t n;

	while ((n = recv(fd, packet, sizeof packet, 0)) > 0)
		strbuf_add(ret, packet, (size_t)n);
	return n < 0 ? -errno : ret->failed ? -ENOMEM : 0;
}

static int no_answer(int r, struct atoll_error *err)
{
	return error_sys(err, r, "database", NULL, "the process that holds the transaction does not answer");
}

int question_ask(int area, const char *sql, struct strbuf *ret, struct atoll_error *err)
{
	const struct hold_request q = { .what = HOLD_QUESTION };
	AUTO_FREE struct hold_reply *reply = calloc(1, sizeof *reply);
	AUTO_FD fd = reach(area);
	ssize_t n = -1;

	if (!reply)
		return error_oom(err, "database");
	if (fd < 0)
		return no_answer(fd, err);
	if (send(fd, &q, sizeof q, MSG_NOSIGNAL) > 0 && send(fd, sql, strlen(sql), MSG_NOSIGNAL) > 0)
		n = recv(fd, reply, sizeof *reply, 0);
	if (n != (ssize_t)sizeof *reply)
		return no_answer(n < 0 ? -errno : -ECONNRESET, err);
	if (reply->error.code) {
		*err = reply->error;
		return -(int)reply->error.code;
	}
	n = receive_rows(fd, ret);
	return n < 0 ? no_answer((int)n, err) : 0;
}
