/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pid 1 of a run: builds the view, starts the command, reaps, passes signals on, and ends everything by ending itself. All of
 * it is child side.
 *
 * It talks with the caller over one socket: a report out when the command cannot start or has ended, a byte in for every
 * signal the caller was sent. Signals sent to pid 1 itself are blocked and mean nothing: a terminal or a kill of the whole process
 * group reaches the command without help, and would otherwise reach it twice.
 */
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fd.h"
#include "jail/private.h"

void init_send(const struct init *in, const struct init_report *report)
{
	while (send(in->socket, report, sizeof(*report), MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static int fail(const struct init *in, struct init_report *report, enum view_step step, int error)
{
	report->event = INIT_FAILED;
	if (step != VIEW_STEP_NONE) {
		report->failure.step = step;
		report->failure.error = error;
	}
	init_send(in, report);
	return 1;
}

/* By path, so that it lies in the new mounts. */
int init_enter_cwd(const char *cwd)
{
	AUTO_FD fd = -EBADF;

	if (chdir(cwd) == 0)
		return 0;
	if (errno != ENAMETOOLONG)
		return -errno;
	fd = mount_open_path(cwd, MOUNT_MAKE_NOTHING);
	if (fd < 0)
		return fd;
	return fchdir(fd) < 0 ? -errno : 0;
}

/* The program's handlers must not run in the command before exec: pid 1 shares its memory then. What is ignored stays so. */
static void reset_handlers(void)
{
	struct sigaction action;

	for (int sig = 1; sig < NSIG; sig++) {
		if (sigaction(sig, NULL, &action) < 0 || action.sa_handler == SIG_IGN || action.sa_handler == SIG_DFL)
			continue;
		action = (struct sigaction){ .sa_handler = SIG_DFL };
		(void)sigaction(sig, &action, NULL);
	}
	/* pid 1 must see its children end, whatever the caller does. */
	action = (struct sigaction){ .sa_handler = SIG_DFL };
	(void)sigaction(SIGCHLD, &action, NULL);
}

/* Where it does not work, renaming a directory of the original is refused, as overlayfs does. */
void init_hand_over(const struct init *in, int listener)
{
	AUTO_FD fd = listener;
	struct init_report report = { .event = INIT_RENAMES };
	struct statx root;
	char room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec data = { &report, sizeof(report) };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&message);

	if (fd < 0)
		return;
	if (statx(AT_FDCWD, "/", 0, STATX_INO | STATX_MNT_ID, &root) == 0) {
		report.root_mount = root.stx_mask & STATX_MNT_ID ? root.stx_mnt_id : 0;
		report.root_ino = root.stx_ino;
	}
	*c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	while (sendmsg(in->socket, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static bool raise_walls(const struct init *in, struct wall_failure *ret)
{
	int listener = -EBADF, r;

	if (wall_raise(&in->wall, &listener, NULL, ret) < 0)
		return false;
	init_hand_over(in, listener);
	/* The last wall, because the profile may refuse system calls that the others need. */
	r = wall_profile(in->wall.profile);
	if (r < 0)
		*ret = (struct wall_failure){ .means = "the profile of system calls (seccomp)", .error = -r };
	return r == 0;
}

/* vfork: nothing of pid 1's memory is copied, and since it is shared the error of exec is known at once. */
/* NOLINTBEGIN(clang-analyzer-unix.Vfork,clang-analyzer-security.insecureAPI.vfork) */
static pid_t start_command(const struct init *in, int *ret_exec_error, struct view_failure *ret)
{
	static const struct sigaction ignore = { .sa_handler = SIG_IGN };
	volatile int exec_error = 0, limit_error = 0;
	struct wall_failure wall = { 0 };
	volatile bool stands = false;
	pid_t pid = vfork();

	if (pid == 0) {
		/* At once, since the limit may leave room for few. */
		fd_close_others(STDERR_FILENO + 1, (int[]){ in->socket, in->wall.userns_fd }, 2, in->wall.pass_fds,
				in->wall.n_pass_fds);
		if (in->child_ignored)
			(void)sigaction(SIGCHLD, &ignore, NULL);
		if (in->terminal)
			terminal_begin();
		if (in->session)
			terminal_own();
		(void)sigprocmask(SIG_SETMASK, &in->signals, NULL);
		limit_error = -jail_limit_apply(&in->limits);
		if (limit_error == 0)
			stands = raise_walls(in, &wall);
		if (stands)
			execvp(in->argv[0], in->argv);
		exec_error = errno;
		_exit(127);
	}
	*ret_exec_error = exec_error;
	wall_tell(&wall, ret);
	if (limit_error != 0)
		*ret = (struct view_failure){ .step = VIEW_STEP_LIMIT, .error = limit_error };
	return pid < 0 ? -errno : pid;
}
/* NOLINTEND(clang-analyzer-unix.Vfork,clang-analyzer-security.insecureAPI.vfork) */

void init_add_usage(struct init_report *report, const struct rusage *usage)
{
	report->user_ns += usage->ru_utime.tv_sec * 1000000000LL + usage->ru_utime.tv_usec * 1000LL;
	report->system_ns += usage->ru_stime.tv_sec * 1000000000LL + usage->ru_stime.tv_usec * 1000LL;
	report->max_rss = MAX(report->max_rss, usage->ru_maxrss * 1024LL);
}

/* True once the command itself has ended. Everything that was waited for counts; who is still there then is ended without. */
static bool reap(const struct init *in, pid_t command, struct init_report *report)
{
	struct rusage usage;
	bool ended = false;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG | __WALL | (in->terminal ? WUNTRACED : 0), &usage)) > 0) {
		if (!WIFSTOPPED(status))
			init_add_usage(report, &usage);
		if (pid != command)
			continue;
		if (WIFSTOPPED(status)) {
			init_send(in, &(struct init_report){ .event = INIT_STOPPED,
							     .value = WSTOPSIG(status),
							     .had_terminal = terminal_is_of(command) });
			continue;
		}
		report->value = status;
		ended = true;
	}
	return ended;
}

/* Passes the signals on, to a command that has begun: what was meant for the one before is not for a spare. False if the caller is gone. */
static bool pass_on(int socket, pid_t command, bool *begun)
{
	unsigned char sig;

	for (;;) {
		ssize_t n = recv(socket, &sig, 1, MSG_DONTWAIT);

		if (n == 1 && (sig == INIT_BEGIN || !*begun))
			*begun = sig == INIT_BEGIN;
		else if (n == 1 && (sig == INIT_FOREGROUND || sig == INIT_BACKGROUND))
			terminal_continue(command, sig == INIT_FOREGROUND);
		else if (n == 1 && sig == INIT_END_ALL)
			(void)kill(-1, SIGKILL);
		else if (n == 1)
			(void)kill(command, sig);
		else if (n == 0)
			return false;
		else if (errno != EINTR)
			return errno == EAGAIN;
	}
}

void init_take_signals(int signal_fd, pid_t command)
{
	struct signalfd_siginfo info;

	while (read(signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		if (info.ssi_signo == (uint32_t)INIT_SIGNAL && command > 0)
			(void)kill(command, info.ssi_int);
}

/* No event reports failed attempts to reach a network, so pid 1 polls the kernel's counters: first
 * after a short time, because a user may be waiting, and later at most once a second. */
#define LOOK_FIRST_MS 50
#define LOOK_LAST_MS 1000
#define LOOK_SHARE 16 /* of the time that has passed */

struct look {
	int64_t began, at; /* at: when to look next; 0: never again */
};

static void plan_look(struct look *l)
{
	int64_t now = clock_monotonic_ns(), ms = (now - l->began) / 1000000 / LOOK_SHARE;

	l->at = now + MIN(MAX(ms, LOOK_FIRST_MS), LOOK_LAST_MS) * 1000000;
}

static void look_for_attempts(const struct init *in, struct look *l)
{
	if (l->at == 0 || clock_monotonic_ns() < l->at)
		return;
	plan_look(l);
	if (net_attempts() <= in->attempts)
		return;
	l->at = 0;
	init_send(in, &(struct init_report){ .event = INIT_WANTED_NETWORK });
}

/* That a command has begun is heard before what was sent to it, and before it is seen to have ended. */
int init_watch(const struct init *in, int signal_fd, pid_t command, struct init_report *report)
{
	struct look look = { .began = clock_monotonic_ns() };
	struct pollfd fds[] = { { .fd = signal_fd, .events = POLLIN }, { .fd = in->socket, .events = POLLIN } };
	bool begun = !in->serves;

	if (in->no_net && !in->serves)
		plan_look(&look);
	for (;;) {
		if (poll(fds, ARRAY_SIZE(fds), look.at ? spawn_ms_until(look.at) : -1) < 0 && errno != EINTR)
			return -errno;
		look_for_attempts(in, &look);
		if (fds[1].revents && !pass_on(in->socket, command, &begun))
			return -ECONNRESET;
		if (fds[0].revents)
			init_take_signals(signal_fd, begun ? command : 0);
		if (fds[0].revents && reap(in, command, report))
			return begun ? 0 : -ECANCELED;
	}
}

/* Waits until the caller has noted that pid 1 exists. */
static int wait_for_go(int socket)
{
	char byte;
	ssize_t n;

	do {
		n = recv(socket, &byte, 1, 0);
	} while (n < 0 && errno == EINTR);
	return n == 1 && byte == INIT_GO ? 0 : -ECONNRESET;
}

static int open_child_signals(void)
{
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, INIT_SIGNAL);
	fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

/* Before anything that could look at it exists inside: through /proc/1/exe the command could otherwise reach the program
 * on the host, whose mount is writable there. The second call ends it even if the caller dies while exec hangs. */
static void seal(void)
{
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
}

/* Before the view: the gateway gets ready meanwhile. */
static int set_up_net(const struct init *in)
{
	int r = in->new_net ? net_loopback() : 0;

	if (r == 0 && in->new_net)
		net_open_low_ports();
	if (r == 0 && in->announce_fd >= 0)
		r = net_announce(in->announce_fd);
	return r;
}

/* Ids can be mapped only by one who may be looked into; nobody is here yet who could. */
static int make_inner_root(struct init *in, struct view_failure *f)
{
	if (!in->wall.inner || in->wall.userns_fd >= 0)
		return 0;
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	in->wall.userns_fd = ids_inner_root();
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	f->step = VIEW_STEP_IDS;
	f->error = -in->wall.userns_fd;
	return in->wall.userns_fd < 0 ? -1 : 0;
}

/* The host's /proc can always be written, that of a view not everywhere; but in one that is joined there is none of ours before. */
static int make_view(struct init *in, struct view_failure *f)
{
	int r = in->namespaces ? make_inner_root(in, f) : view_join(in->view, f);

	if (r == 0)
		r = in->namespaces ? view_build(in->view, f) : make_inner_root(in, f);
	return r;
}

static int prepare(struct init *in, struct view_failure *f)
{
	int r;

	if (make_view(in, f) < 0)
		return -1;
	r = init_enter_cwd(in->cwd);
	f->step = VIEW_STEP_CWD;
	if (r == 0) {
		f->step = VIEW_STEP_START;
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
			r = -errno;
	}
	f->error = -r;
	return r < 0 ? -1 : 0;
}

/* pid 1 does not write to these fds; it passes them on. A pid 1 that serves gets new ones with each
 * command. */
static int take_stdio(const struct init *in)
{
	int from[3];

	for (int i = 0; i < 3; i++)
		from[i] = in->stdio && in->stdio[i] >= 0 ? in->stdio[i] : i;
	return in->serves ? 0 : stdio_take(in, from);
}

int init_main(int setup, void *arg)
{
	struct init *in = arg;
	struct init_report report = { 0 };
	int signal_fd, exec_error, layers, r;
	pid_t command;

	/* Otherwise the caller's death would not end it. */
	(void)close(in->caller_socket);
	if (in->serves)
		(void)close(in->caller_requests);
	if (setup < 0)
		return fail(in, &report, VIEW_STEP_IDS, -setup);
	seal();
	report.event = INIT_STARTED;
	/* view_build() reports a failure. */
	layers = in->namespaces ? view_begin(in->view) : -EBADF;
	r = namespaces_send(in->socket, in->namespaces, layers, &report);
	fd_close(layers);
	if (r == 0)
		r = take_stdio(in);
	if (r < 0)
		return fail(in, &report, VIEW_STEP_START, -r);
	reset_handlers();
	r = set_up_net(in);
	if (r < 0)
		return fail(in, &report, VIEW_STEP_NET, -r);
	if (prepare(in, &report.failure) < 0)
		return fail(in, &report, VIEW_STEP_NONE, 0);
	signal_fd = open_child_signals();
	if (signal_fd < 0)
		return fail(in, &report, VIEW_STEP_START, -signal_fd);
	/* In a network of its own nobody tried before. */
	in->attempts = in->no_net && !in->new_net ? net_attempts() : 0;
	if (wait_for_go(in->socket) < 0)
		return 1;
	if (in->stands)
		in->stands(in->stands_arg);
	if (in->serves)
		return spare_serve(in, signal_fd);
	/* Also the one that the program is searched by. */
	if (in->env)
		environ = (char **)in->env;
	command = start_command(in, &exec_error, &report.failure);
	if (command < 0)
		return fail(in, &report, VIEW_STEP_START, -command);
	if (in->begun && report.failure.step == VIEW_STEP_NONE)
		in->begun(in->stands_arg);
	/* So that no lock, pipe or layer of the caller stays open through pid 1. */
	fd_close_others(STDERR_FILENO + 1, (int[]){ signal_fd, in->socket, in->hold_fd }, 3, in->hold_fds,
			in->n_hold_fds);
	if (report.failure.step != VIEW_STEP_NONE)
		return fail(in, &report, VIEW_STEP_NONE, 0);
	if (exec_error != 0) {
		report.event = INIT_NO_EXEC;
		report.value = exec_error;
		init_send(in, &report);
		return 0;
	}
	r = init_watch(in, signal_fd, command, &report);
	if (r < 0)
		return 1;
	report.event = INIT_ENDED;
	report.wanted_network = in->no_net && net_attempts() > in->attempts;
	init_send(in, &report);
	return 0;
}
