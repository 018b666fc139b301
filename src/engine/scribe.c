/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/scribe.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>

#include "base/sys.h"
#include "engine/record.h"

#define LOG_PART_MAX (4 << 20)
#define CLIENTS_MAX 8
#define END_OF_INPUT 4 /* as typed at a terminal: Ctrl-D */

char *scribe_logs_path(const char *uuid)
{
	return str_format("logs/%s", uuid);
}

void scribe_log_name(char name[32], int64_t run, const char *suffix)
{
	snprintf(name, 32, "%lld%s", (long long)run, suffix);
}

int scribe_open_logs(struct atoll *a, const char *uuid, int64_t run)
{
	static const char *const suffixes[] = { "", ".1", ".sock" };
	AUTO_FREE char *path = scribe_logs_path(uuid);
	int dir = path ? fd_make_path(a->state_fd, path) : -ENOMEM;
	char name[32];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes) && dir >= 0; i++) {
		scribe_log_name(name, run - RECORD_MAX, suffixes[i]);
		(void)sys_unlink(dir, name, 0);
	}
	return dir;
}

/* ---- the socket; its path may be longer than an address ---- */

static void address_of(int logs, int64_t run, struct sockaddr_un *ret)
{
	*ret = (struct sockaddr_un){ .sun_family = AF_UNIX };
	snprintf(ret->sun_path, sizeof ret->sun_path, "/proc/self/fd/%d/%lld.sock", logs, (long long)run);
}

static int listen_at(int logs, int64_t run)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct sockaddr_un address;
	char name[32];

	scribe_log_name(name, run, ".sock");
	(void)sys_unlink(logs, name, 0);
	address_of(logs, run, &address);
	if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) < 0 || listen(fd, CLIENTS_MAX) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int scribe_connect(int logs, int64_t run)
{
	AUTO_FD fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	struct sockaddr_un address;

	address_of(logs, run, &address);
	if (fd < 0 || connect(fd, (const struct sockaddr *)&address, sizeof address) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* ---- the process: system calls and little else ---- */

struct source {
	int fd, copy; /* -EBADF: none */
};

struct process {
	int logs, log, listener;
	int64_t run, size;
	struct source sources[2];
	int command; /* its standard input, or -EBADF */
	int clients[CLIENTS_MAX];
	int keyboard, screen; /* terminals, or -EBADF */
	struct termios before;
	bool tty;
	char pending[SCRIBE_PACKET_MAX]; /* input that the command has not taken yet */
	size_t n_pending;
};

static int open_log(struct process *p)
{
	char name[32];

	scribe_log_name(name, p->run, "");
	return sys_open(p->logs, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
}

/* What cannot be written is lost; the command is not made to wait for a disk. */
static void add_to_log(struct process *p, const char *data, size_t n)
{
	char name[32], older[32];

	if (p->log >= 0)
		(void)sys_write(p->log, data, n);
	p->size += (int64_t)n;
	if (p->size < LOG_PART_MAX)
		return;
	scribe_log_name(name, p->run, "");
	scribe_log_name(older, p->run, ".1");
	fd_close(p->log);
	(void)sys_rename(p->logs, name, p->logs, older, 0);
	p->log = open_log(p);
	p->size = 0;
}

static bool write_all(int fd, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, data, n);

		if (done < 0 && errno == EAGAIN)
			(void)poll(&(struct pollfd){ .fd = fd, .events = POLLOUT }, 1, -1);
		else if (done < 0 && errno != EINTR)
			return false;
		data += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
	return true;
}

/* The command hears of it as if it wrote there itself. */
static void close_source(struct process *p, struct source *s)
{
	if (p->command == s->fd)
		p->command = -EBADF;
	s->fd = fd_close(s->fd);
	s->copy = -EBADF;
}

static void take_output(struct process *p, struct source *s)
{
	char data[65536];
	ssize_t n = read(s->fd, data, sizeof data);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return;
	/* A pseudo-terminal that nobody has open any more answers with an error. */
	if (n <= 0) {
		close_source(p, s);
		return;
	}
	add_to_log(p, data, (size_t)n);
	if (s->copy >= 0 && !write_all(s->copy, data, (size_t)n))
		close_source(p, s);
}

static void give_input(struct process *p)
{
	ssize_t n = p->command < 0 ? 0 : write(p->command, p->pending, p->n_pending);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || p->command < 0) {
		p->n_pending = 0; /* nobody wants it */
		return;
	}
	p->n_pending -= (size_t)n;
	memmove(p->pending, p->pending + n, p->n_pending);
}

static void end_input(struct process *p)
{
	if (p->tty && p->command >= 0) {
		p->pending[0] = END_OF_INPUT;
		p->n_pending = 1;
	} else {
		p->command = fd_close(p->command);
	}
}

static void set_size(const struct process *p, const char *data, size_t n)
{
	struct winsize size;

	if (n != sizeof size || !p->tty || p->command < 0)
		return;
	memcpy(&size, data, sizeof size);
	(void)ioctl(p->command, TIOCSWINSZ, &size);
}

static void accept_client(struct process *p)
{
	int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	for (size_t i = 0; i < CLIENTS_MAX && fd >= 0; i++) {
		if (p->clients[i] < 0) {
			p->clients[i] = TAKE_FD(fd);
			break;
		}
	}
	fd_close(fd);
}

static void hear_client(struct process *p, int *client)
{
	char packet[1 + SCRIBE_PACKET_MAX];
	ssize_t n = recv(*client, packet, sizeof packet, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		*client = fd_close(*client);
	} else if (packet[0] == SCRIBE_INPUT) {
		memcpy(p->pending, packet + 1, (size_t)n - 1);
		p->n_pending = (size_t)n - 1;
	} else if (packet[0] == SCRIBE_SIZE) {
		set_size(p, packet + 1, (size_t)n - 1);
	} else if (packet[0] == SCRIBE_END) {
		end_input(p);
	}
}

static void hear_keyboard(struct process *p)
{
	ssize_t n = read(p->keyboard, p->pending, sizeof p->pending);

	if (n > 0)
		p->n_pending = (size_t)n;
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		p->keyboard = -EBADF;
}

/* A terminal tells nobody but its own group of a new size: it is asked. */
static void follow_size(const struct process *p)
{
	struct winsize now, had;

	if (p->screen >= 0 && p->command >= 0 && ioctl(p->screen, TIOCGWINSZ, &now) == 0 &&
	    ioctl(p->command, TIOCGWINSZ, &had) == 0 && memcmp(&now, &had, sizeof now) != 0)
		(void)ioctl(p->command, TIOCSWINSZ, &now);
}

#define SIZE_MS 100

enum {
	AT_SOURCES,
	AT_COPIES = 2,
	AT_COMMAND = 4,
	AT_LISTENER,
	AT_KEYBOARD,
	AT_CLIENTS,
	AT_ALL = AT_CLIENTS + CLIENTS_MAX
};

static void fill(const struct process *p, struct pollfd *fds)
{
	bool wants_input = p->n_pending == 0 && p->command >= 0;

	for (int i = 0; i < 2; i++) {
		fds[AT_SOURCES + i] = (struct pollfd){ .fd = p->sources[i].fd, .events = POLLIN };
		fds[AT_COPIES + i] = (struct pollfd){ .fd = p->sources[i].copy };
	}
	fds[AT_COMMAND] = (struct pollfd){ .fd = p->n_pending ? p->command : -1, .events = POLLOUT };
	fds[AT_LISTENER] = (struct pollfd){ .fd = p->listener, .events = POLLIN };
	fds[AT_KEYBOARD] = (struct pollfd){ .fd = wants_input ? p->keyboard : -1, .events = POLLIN };
	for (int i = 0; i < CLIENTS_MAX; i++)
		fds[AT_CLIENTS + i] = (struct pollfd){ .fd = p->n_pending == 0 ? p->clients[i] : -1, .events = POLLIN };
}

static void serve_once(struct process *p)
{
	struct pollfd fds[AT_ALL];

	fill(p, fds);
	if (poll(fds, AT_ALL, p->screen >= 0 ? SIZE_MS : -1) < 0)
		return;
	follow_size(p);
	for (int i = 0; i < 2; i++) {
		if (fds[AT_COPIES + i].revents & (POLLERR | POLLNVAL) && !p->tty)
			close_source(p, &p->sources[i]);
		else if (fds[AT_SOURCES + i].revents)
			take_output(p, &p->sources[i]);
	}
	if (fds[AT_COMMAND].revents)
		give_input(p);
	if (fds[AT_LISTENER].revents)
		accept_client(p);
	if (fds[AT_KEYBOARD].revents && p->n_pending == 0)
		hear_keyboard(p);
	for (int i = 0; i < CLIENTS_MAX; i++)
		if (fds[AT_CLIENTS + i].revents && p->n_pending == 0)
			hear_client(p, &p->clients[i]);
}

static _Noreturn void serve(struct process *p)
{
	char name[32];

	p->log = open_log(p);
	while (p->sources[0].fd >= 0 || p->sources[1].fd >= 0)
		serve_once(p);
	scribe_log_name(name, p->run, ".sock");
	if (p->listener >= 0)
		(void)sys_unlink(p->logs, name, 0);
	if (p->tty && p->keyboard >= 0)
		(void)tcsetattr(p->keyboard, TCSADRAIN, &p->before);
	_exit(0);
}

/* ---- the caller ---- */

static int add_pipe(struct process *p, int i, struct scribe *r)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	p->sources[i].fd = ends[0];
	r->stdio[STDOUT_FILENO + i] = ends[1];
	return 0;
}

static int add_input(struct process *p, struct scribe *r)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	(void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
	r->stdio[STDIN_FILENO] = ends[0];
	p->command = ends[1];
	return 0;
}

static int add_pty(struct process *p, const struct scribe_spec *spec, struct scribe *r)
{
	struct winsize size = { .ws_row = 24, .ws_col = 80 };
	struct termios settings;
	bool like = spec->screen >= 0 && tcgetattr(spec->screen, &settings) == 0;
	int master, slave;

	if (like)
		(void)ioctl(spec->screen, TIOCGWINSZ, &size);
	if (openpty(&master, &slave, NULL, like ? &settings : NULL, &size) < 0)
		return -errno;
	(void)fcntl(master, F_SETFD, FD_CLOEXEC);
	(void)fcntl(slave, F_SETFD, FD_CLOEXEC);
	(void)fcntl(master, F_SETFL, O_NONBLOCK | O_RDWR);
	p->sources[0].fd = p->command = master;
	p->screen = spec->screen;
	r->stdio[STDOUT_FILENO] = slave;
	r->stdio[STDERR_FILENO] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	if (spec->input >= 0 || spec->attachable)
		r->stdio[STDIN_FILENO] = fcntl(slave, F_DUPFD_CLOEXEC, 3);
	return 0;
}

static int open_ends(struct process *p, const struct scribe_spec *spec, struct scribe *r)
{
	int rc = 0;

	if (spec->tty) {
		rc = add_pty(p, spec, r);
		p->sources[0].copy = spec->copy_to[0];
		p->keyboard = spec->input;
	}
	for (int i = 0; i < 2 && rc >= 0 && !spec->tty; i++) {
		if (spec->leave[i])
			continue;
		/* In the order in which they were written. */
		if (i == 1 && !spec->leave[0] && spec->copy_to[0] == spec->copy_to[1]) {
			r->stdio[STDERR_FILENO] = fcntl(r->stdio[STDOUT_FILENO], F_DUPFD_CLOEXEC, 3);
			continue;
		}
		p->sources[i].copy = spec->copy_to[i];
		rc = add_pipe(p, i, r);
	}
	if (rc >= 0 && spec->attachable && !spec->tty)
		rc = add_input(p, r);
	if (rc >= 0 && spec->attachable) {
		p->listener = listen_at(p->logs, p->run);
		rc = MIN(p->listener, 0);
	}
	return rc;
}

/* Keys go to the command as they are; its own terminal makes of them what it is set to. */
static void make_raw(struct process *p)
{
	struct termios raw;

	if (p->keyboard < 0 || tcgetattr(p->keyboard, &p->before) < 0)
		return;
	raw = p->before;
	cfmakeraw(&raw);
	(void)tcsetattr(p->keyboard, TCSADRAIN, &raw);
}

static _Noreturn void become_scribe(struct process *p)
{
	int kept[] = { p->logs,    p->sources[0].fd, p->sources[0].copy, p->sources[1].fd, p->sources[1].copy,
		       p->command, p->listener,      p->keyboard,        p->screen };
	sigset_t all;

	/* It ends when nobody can write any more, and not before. */
	sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, NULL);
	fd_close_others(0, kept, ARRAY_SIZE(kept), NULL, 0);
	make_raw(p);
	serve(p);
}

static void close_own(struct process *p)
{
	if (p->command != p->sources[0].fd)
		fd_close(p->command);
	fd_close(p->sources[0].fd);
	fd_close(p->sources[1].fd);
	fd_close(p->listener);
}

int scribe_start(int logs, int64_t run, const struct scribe_spec *spec, struct scribe *ret)
{
	struct process p = { .logs = logs,
			     .log = -EBADF,
			     .listener = -EBADF,
			     .run = run,
			     .sources = { { -EBADF, -EBADF }, { -EBADF, -EBADF } },
			     .command = -EBADF,
			     .keyboard = -EBADF,
			     .screen = -EBADF,
			     .tty = spec->tty };
	struct scribe r = SCRIBE_NONE;
	int rc = open_ends(&p, spec, &r);

	for (size_t i = 0; i < CLIENTS_MAX; i++)
		p.clients[i] = -EBADF;
	if (rc >= 0) {
		/* Its end raises no signal, and is not seen by whoever waits for children of his own. */
		long pid = syscall(SYS_clone, 0UL, NULL, NULL, NULL, NULL);

		if (pid == 0)
			become_scribe(&p);
		rc = pid < 0 ? -errno : 0;
		r.pid = (pid_t)pid;
	}
	close_own(&p);
	if (rc < 0)
		scribe_close_ends(&r);
	else
		*ret = r;
	return rc;
}

static bool same_file(int a, int b)
{
	struct stat x, y;

	return fstat(a, &x) == 0 && fstat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

bool scribe_of_caller(bool terminal, struct scribe_spec *ret)
{
	bool ttys[] = { isatty(STDOUT_FILENO), isatty(STDERR_FILENO) };

	*ret = (struct scribe_spec){ .copy_to = { STDOUT_FILENO, STDERR_FILENO }, .input = -EBADF, .screen = -EBADF };
	ret->tty = ttys[0] && ttys[1] && same_file(STDOUT_FILENO, STDERR_FILENO);
	if (ret->tty) {
		ret->screen = STDOUT_FILENO;
		ret->input = terminal ? STDIN_FILENO : -EBADF;
		return true;
	}
	for (int i = 0; i < 2; i++)
		ret->leave[i] = ttys[i] || fcntl(STDOUT_FILENO + i, F_GETFD) < 0;
	if (same_file(STDOUT_FILENO, STDERR_FILENO))
		ret->copy_to[1] = STDOUT_FILENO;
	return !ret->leave[0] || !ret->leave[1];
}

void scribe_close_ends(struct scribe *r)
{
	for (size_t i = 0; i < ARRAY_SIZE(r->stdio); i++)
		r->stdio[i] = fd_close(r->stdio[i]);
}

void scribe_wait(struct scribe *r)
{
	scribe_close_ends(r);
	while (r->pid > 0 && waitpid(r->pid, NULL, __WALL) < 0 && errno == EINTR)
		;
	r->pid = 0;
}
