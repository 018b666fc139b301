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
#include "base/random.h"
#include "base/sys.h"
#include "hold/hold.h"
#include "hold/message.h"

#define CONNINFO_MAX 65536
#define PATIENCE_MS 2000 /* with a client that is inside a statement */
#define START_MS 30000
#define MOMENT_MS 500
#define LOOK_MS 1000 /* whether the area is still there */

struct keeper {
	int area, sockets, control;
	struct pg_proxy *proxy;
	struct pg_marker marker;
	bool marked; /* it is in the transaction */
	bool asked;  /* somebody is at the control socket */
	int64_t looked_at;
	bool over;
};

/* ---- files of the area ---- */

static int write_note(int area, const char *name, const char *text)
{
	AUTO_FD fd = sys_open(area, name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int r = fd < 0 ? fd : sys_write(fd, text, strlen(text));

	return r < 0 ? r : sys_fsync(fd);
}

static void note_lost(const struct keeper *h, const char *why)
{
	(void)write_note(h->area, HOLD_LOST, why);
}

/* ---- what is asked ---- */

static void list_locks(const struct pg_inspection *found, struct hold_reply *ret)
{
	size_t at = 0;

	for (size_t i = 0; i < found->n_locks && at < sizeof ret->locks; i++) {
		int n = snprintf(ret->locks + at, sizeof ret->locks - at, "%s%s (%s)", i ? ", " : "",
				 found->locks[i].relation, found->locks[i].mode);

		at += n < 0 ? 0 : (size_t)n;
	}
}

static void add_table(const struct pg_table *t, void *arg)
{
	struct hold_reply *ret = arg;
	struct hold_table *to = &ret->tables[ret->n_tables];

	if (ret->n_tables == HOLD_TABLES_MAX) {
		ret->more = 1;
		return;
	}
	snprintf(to->name, sizeof to->name, "%s", t->name);
	to->inserted = t->inserted;
	to->updated = t->updated;
	to->deleted = t->deleted;
	ret->n_tables++;
}

/* A client that has just been answered may still have something under way: it is given a moment. */
static int inspect(struct keeper *h, struct pg_inspection *ret, struct atoll_error *err)
{
	int64_t end = clock_monotonic_ns() + MOMENT_MS * 1000000LL;
	struct atoll_error busy = { 0 };
	int r;

	while ((r = pg_proxy_inspect(h->proxy, ret, &busy)) == -ATOLL_BUSY && clock_monotonic_ns() < end)
		(void)pg_proxy_step(h->proxy, 20);
	if (r < 0)
		*err = busy;
	return r;
}

static int tell_status(struct keeper *h, struct hold_reply *ret, struct atoll_error *err)
{
	struct pg_inspection found = { 0 };
	struct pg_status status;
	int r;

	pg_proxy_status(h->proxy, &status);
	ret->ended = status.state == PG_ENDED || status.state == PG_LOST;
	ret->clients = (uint32_t)status.clients;
	ret->open_ns = status.open_ns;
	if (ret->ended)
		return 0;
	r = inspect(h, &found, err);
	if (r < 0)
		return r;
	ret->xid = found.xid;
	list_locks(&found, ret);
	pg_inspection_release(&found);
	return ret->xid ? pg_proxy_tables(h->proxy, add_table, ret, err) : 0;
}

static int check(struct keeper *h, struct atoll_error *err)
{
	int r = pg_proxy_hold(h->proxy, PATIENCE_MS, false, err);

	return r < 0 ? r : pg_proxy_check(h->proxy, err);
}

/* The marker of a commit that came to nothing must not land with the next one. */
static int unmark(struct keeper *h, struct atoll_error *err)
{
	int r = h->marked ? pg_proxy_unmark(h->proxy, &h->marker, err) : 0;

	h->marked = h->marked && r < 0;
	return r;
}

static int resume(struct keeper *h, struct atoll_error *err)
{
	int r = unmark(h, err);

	pg_proxy_resume(h->proxy);
	return r;
}

static int mark(struct keeper *h, const char *token, struct atoll_error *err)
{
	char uuid[37];
	int r = unmark(h, err);

	random_uuid(uuid);
	if (r >= 0)
		r = pg_proxy_mark(h->proxy, uuid, &h->marker, err);
	h->marked |= r >= 0;
	return r < 0 ? r : marker_write(h->area, token, &h->marker, err);
}

static int prepare(struct keeper *h, const char *token, struct atoll_error *err)
{
	struct atoll_error ignored;
	int r = check(h, err);

	if (r >= 0)
		r = mark(h, token, err);
	if (r < 0)
		(void)resume(h, &ignored);
	return r;
}

static int commit(struct keeper *h, struct atoll_error *err)
{
	int r = pg_proxy_commit(h->proxy, err);

	if (r == -ATOLL_REFUSED)
		note_lost(h, err->message);
	return r;
}

static int end(struct keeper *h, struct atoll_error *err)
{
	h->proxy = pg_proxy_free(h->proxy);
	h->over = true;
	(void)sys_unlink(h->area, HOLD_OPEN, 0);
	(void)sys_unlink(h->area, HOLD_CONTROL, 0);
	return 0;
}

static int answer(struct keeper *h, const struct hold_request *q, struct hold_reply *ret, struct atoll_error *err)
{
	int r;

	switch (q->what) {
	case HOLD_STATUS:
		return tell_status(h, ret, err);
	case HOLD_CHECK:
		r = check(h, err);
		pg_proxy_resume(h->proxy);
		return r;
	case HOLD_PREPARE:
		return prepare(h, q->token, err);
	case HOLD_COMMIT:
		return commit(h, err);
	case HOLD_RESUME:
		return resume(h, err);
	case HOLD_END:
		return end(h, err);
	default:
		return error_set(err, ATOLL_INVALID, 0, "database", NULL, "unknown request");
	}
}

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
	const struct timeval patience = { .tv_sec = 2 };
	struct hold_request q;

	if (fd < 0 || !reply || !is_ours(fd))
		return;
	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
	if (recv(fd, &q, sizeof q, 0) != (ssize_t)sizeof q)
		return;
	q.token[sizeof q.token - 1] = 0;
	(void)answer(h, &q, reply, &reply->error);
	(void)!send(fd, reply, sizeof *reply, MSG_NOSIGNAL);
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
		(void)end(h, NULL);
		return;
	}
	pg_proxy_status(h->proxy, &status);
	if (status.state != PG_LOST)
		return;
	note_lost(h, status.reason);
	(void)end(h, NULL);
}

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
		r = pg_proxy_step(h->proxy, LOOK_MS);
		look_for_loss(h);
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
		r = write_note(h->area, HOLD_OPEN, "");
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

int hold_start(const char *path, struct atoll_error *err)
{
	struct keeper h = { .area = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			    .sockets = -EBADF,
			    .control = -EBADF };
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
