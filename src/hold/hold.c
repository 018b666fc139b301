/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that holds a transaction. It begins it, lets clients in through the socket in "socket/", and does what it is asked for at the control
 * socket: one request at a time, in the order in which they came, so that whoever is answered knows that all before him were done. It ends
 * when it is told to, or when the transaction is lost; then it says why in "lost".
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/sys.h"
#include "hold/hold.h"
#include "hold/inside.h"
#include "hold/keeper.h"

#define CONNINFO_MAX 65536
#define START_MS 30000
#define LOOK_MS 1000 /* whether the area is still there */

/* ---- requests ---- */

static bool is_ours(int fd)
{
	struct ucred who;
	socklen_t size = sizeof who;

	return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) == 0 && who.uid == geteuid();
}

static void serve_one(struct keeper *h)
{
	AUTO_FD fd = accept4(h->control, NULL, NULL, SOCK_CLOEXEC);
	AUTO_FREE struct hold_reply *reply = calloc(1, sizeof *reply);
	AUTO_STRBUF rows = STRBUF_INIT;
	const struct timeval patience = { .tv_sec = 2 };
	struct hold_request q;

	if (fd < 0 || !reply || !is_ours(fd))
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (recv(fd, &q, sizeof q, 0) != (ssize_t)sizeof q)
		return;
	q.token[sizeof q.token - 1] = 0;
	if (q.what == HOLD_QUESTION)
		(void)question_answer(fd, h->proxy, &rows, &reply->error);
	else
		(void)keeper_answer(h, &q, reply, &reply->error);
	(void)!send(fd, reply, sizeof *reply, MSG_NOSIGNAL);
	question_send(fd, &rows);
}

/* Somebody has removed the area by hand: nobody will ever ask. */
static bool is_abandoned(struct keeper *h)
{
	int64_t now = clock_monotonic_ns();

	if (now - h->looked_at < LOOK_MS * 1000000LL)
		return false;
	h->looked_at = now;
	return faccessat(h->area, HOLD_CONNINFO, F_OK, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT;
}

static void look_for_loss(struct keeper *h)
{
	struct pg_status status;

	if (is_abandoned(h)) {
		keeper_end(h);
		return;
	}
	pg_proxy_status(h->proxy, &status);
	if (status.state != PG_LOST)
		return;
	keeper_lose(h, status.reason);
	keeper_end(h);
}

/* ---- a limit of time ---- */

/* "10m", "90s", "0.5s" */
static void print_limit(char *out, size_t size, int64_t ms)
{
	if (ms % 3600000 == 0)
		snprintf(out, size, "%lldh", (long long)(ms / 3600000));
	else if (ms % 60000 == 0)
		snprintf(out, size, "%lldm", (long long)(ms / 60000));
	else
		snprintf(out, size, "%gs", (double)ms / 1000);
}

/* How long until its time is over; INT64_MAX: there is no limit, or a commit is under way, which is not disturbed, or it is over anyway. */
static int64_t time_left_ms(const struct keeper *h)
{
	struct pg_status status;

	if (!h->limit_ms || h->over)
		return INT64_MAX;
	pg_proxy_status(h->proxy, &status);
	return status.state == PG_OPEN ? MAX(h->limit_ms - status.open_ns / 1000000, 0) : INT64_MAX;
}

/* Whoever is in the middle of something is cut off. That it is lost is on record before it is. */
static void give_up(struct keeper *h, const char *why)
{
	struct atoll_error ignored;

	keeper_lose(h, why);
	if (pg_proxy_hold(h->proxy, 0, true, &ignored) >= 0)
		(void)pg_proxy_rollback(h->proxy, &ignored);
	keeper_end(h);
}

static void give_up_in_time(struct keeper *h)
{
	char limit[40], why[80];

	if (time_left_ms(h) > 0)
		return;
	print_limit(limit, sizeof limit, h->limit_ms);
	snprintf(why, sizeof why, "limit of %s reached", limit);
	give_up(h, why);
}

/* Looks once a second at most: the server has to be asked. */
static bool is_idle_too_long(struct keeper *h)
{
	int64_t now = clock_monotonic_ns();
	struct pg_status status;

	if (!h->idle_limit_ms || h->over || now - h->idle_looked_at < LOOK_MS * 1000000LL)
		return false;
	h->idle_looked_at = now;
	pg_proxy_status(h->proxy, &status);
	return status.state == PG_OPEN && status.idle_ns >= h->idle_limit_ms * 1000000;
}

/* A transaction that keeps nobody waiting may be idle as long as it likes. */
static void give_up_idle(struct keeper *h)
{
	struct pg_inspection found = { 0 };
	struct atoll_error ignored;
	char limit[40], relations[200], why[320];

	if (!is_idle_too_long(h) || pg_proxy_inspect(h->proxy, &found, &ignored) < 0)
		return;
	keeper_list_exclusive(&found, relations, sizeof relations);
	pg_inspection_release(&found);
	if (!*relations)
		return;
	for (char *p = strchr(relations, '\n'); p; p = strchr(p, '\n'))
		*p = ' ';
	print_limit(limit, sizeof limit, h->idle_limit_ms);
	snprintf(why, sizeof why, "idle for %s while it locked %s", limit, relations);
	give_up(h, why);
}

/* ---- the loop ---- */

static void asked(void *arg)
{
	((struct keeper *)arg)->asked = true;
}

static int watch_control(struct keeper *h)
{
	struct atoll_error ignored;

	h->asked = false;
	return pg_proxy_watch(h->proxy, h->control, asked, h, &ignored);
}

/* Who comes meanwhile is not watched: what is asked for may itself wait in the loop. */
static int serve_control(struct keeper *h)
{
	(void)pg_proxy_watch(h->proxy, -EBADF, asked, h, NULL);
	serve_one(h);
	return h->over ? 0 : watch_control(h);
}

/* One loop for clients and control: what clients do passes through it twice a statement. */
static void serve(struct keeper *h)
{
	int r = watch_control(h);

	while (r >= 0 && !h->over) {
		r = pg_proxy_step(h->proxy, (int)MIN(time_left_ms(h), LOOK_MS));
		look_for_loss(h);
		give_up_in_time(h);
		give_up_idle(h);
		if (r >= 0 && !h->over && h->asked)
			r = serve_control(h);
	}
}

/* ---- beginning ---- */

static int listen_control(struct keeper *h, struct atoll_error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int r = sys_unlink(h->area, HOLD_CONTROL, 0);

	h->control = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" HOLD_CONTROL, h->area);
	if (r < 0 && r != -ENOENT)
		return error_sys(err, r, "run", HOLD_CONTROL, "cannot remove an old control socket");
	if (h->control < 0 || bind(h->control, (struct sockaddr *)&address, sizeof address) < 0 ||
	    listen(h->control, 16) < 0)
		return error_sys(err, errno, "run", HOLD_CONTROL, "cannot make the control socket");
	return 0;
}

static int begin(struct keeper *h, const char *conninfo, struct atoll_error *err)
{
	const struct pg_options options = { .conninfo = conninfo };
	int r = pg_proxy_new(&options, &h->proxy, err);

	if (r >= 0)
		r = pg_proxy_listen(h->proxy, h->sockets, 0600, err);
	if (r >= 0) {
		r = keeper_note(h->area, HOLD_OPEN, "");
		r = r < 0 ? error_sys(err, r, "run", HOLD_OPEN, "cannot note that a transaction is open") : 0;
	}
	return r < 0 ? r : listen_control(h, err);
}

static void detach(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	setsid();
	(void)!chdir("/");
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	for (int i = 0; null >= 0 && i < 3; i++)
		(void)dup2(null, i);
	if (null > STDERR_FILENO)
		close(null);
}

static _Noreturn void keep(struct keeper *h, const char *conninfo, int report)
{
	struct atoll_error err = { 0 };

	detach();
	if (begin(h, conninfo, &err) < 0) {
		(void)sys_unlink(h->area, HOLD_OPEN, 0);
		(void)!write(report, &err, sizeof err);
		_exit(1);
	}
	(void)!write(report, &err, sizeof err);
	close(report);
	serve(h);
	_exit(0);
}

static int wait_for(int report, struct atoll_error *err)
{
	struct atoll_error told;
	ssize_t n;

	do
		n = read(report, &told, sizeof told);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof told)
		return error_set(err, ATOLL_FAILED, 0, "run", NULL,
				 "the process that holds the transaction died at once");
	if (told.code)
		*err = told;
	return -(int)told.code;
}

/* Somebody else is just beginning, or holds it already. */
static int wait_for_other(int area)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int64_t end = clock_monotonic_ns() + START_MS * 1000000LL;

	snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/" HOLD_CONTROL, area);
	do {
		AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

		if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
			return 0;
		if (flock(area, LOCK_EX | LOCK_NB) == 0)
			return 1;
		nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
	} while (clock_monotonic_ns() < end);
	return -ETIMEDOUT;
}

int hold_start(const char *path, int64_t limit_ms, int64_t idle_limit_ms, struct atoll_error *err)
{
	struct keeper h = { .area = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			    .sockets = -EBADF,
			    .control = -EBADF,
			    .limit_ms = limit_ms,
			    .idle_limit_ms = idle_limit_ms };
	AUTO_FREE char *conninfo = NULL;
	int ends[2], r;
	pid_t pid;

	h.sockets = h.area < 0 ? -errno : fd_open_beneath(h.area, HOLD_SOCKETS, O_RDONLY | O_DIRECTORY);
	r = h.sockets < 0 ? h.sockets : fd_read_file(h.area, HOLD_CONNINFO, CONNINFO_MAX, &conninfo, NULL);
	if (r < 0)
		return error_sys(err, r, "run", path, "cannot look into \"%s\"", path);
	/* Who holds a transaction has the lock as long as it lives: there is one at most. */
	r = wait_for_other(h.area);
	if (r <= 0)
		return r < 0 ? error_set(err, ATOLL_BUSY, 0, "run", path,
					 "somebody else begins the transaction, and does not get ready")
			     : 0;
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_sys(err, errno, "run", path, "cannot make a pipe");
	pid = fork();
	if (pid == 0) {
		close(ends[0]);
		keep(&h, conninfo, ends[1]);
	}
	close(ends[1]);
	r = pid < 0 ? error_sys(err, errno, "run", path, "cannot start a process") : wait_for(ends[0], err);
	close(ends[0]);
	return r;
}
