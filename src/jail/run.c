/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The caller's side of a run.
 *
 *	caller					pid 1 (init.c)
 *	plan, block signals, clone ------------> map ids, build the view, enter the cwd
 *	started(), then INIT_GO ---------------> start the command
 *	signals, one byte each ----------------> kill(command)
 *	report of failure or end <-------------- exit, by which the kernel ends everything inside
 *	wait for pid 1
 *
 * Building the view and noting the run go on side by side. Signals are blocked in the calling thread alone and read from
 * a signalfd, since the dispositions belong to the program around the library.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/process.h"
#include "base/size-limit.h"
#include "jail/private.h"

static const char operation[] = "run";
/* That every sandbox has; beside them a pid namespace for each run, and a user namespace. */
#define NAMESPACES (CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP)
static const int passed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };

struct run {
	struct init init;
	struct spawn child;
	struct spawn first; /* inhabitant of the user namespace of root's command, or none: pidfd -EBADF */
	struct jail_namespaces namespaces; /* of pid 1, if it made them */
	struct net *net;                   /* the gateway, or NULL */
	int socket, signal_fd;
	int requests; /* of one that serves, or -EBADF */
	int renames;  /* on which the command's renames are reported, or -EBADF */
	struct confined confined;
	struct mover mover;
	const int *stdio_fds; /* as in struct jail_spec */
	struct stdio stdio;
	bool signalled;  /* the caller got a signal for the command */
	int stdio_error; /* -errno: a socket of the caller cannot be passed on */
	const struct rename_door *door;
	bool reported;
	struct init_report report;
	int64_t end_at; /* when the time limit passes, or the grace after it; 0: never */
	bool timed_out;
	bool ended; /* by us */
	bool told_network;
	const struct jail_spec *spec;
	int (*watch)(pid_t pid, int segments, void *arg);
	void *watch_arg;
	int64_t watch_at; /* when to look again; 0: never */
};

#define EXIT_TIMED_OUT 124 /* as timeout(1) has it */
/* Between being asked to end and being ended. */
#define GRACE_NS 1000000000LL

static void cleanup_view(struct view **v)
{
	view_free(*v);
}

static void restore_signals(sigset_t *old)
{
	pthread_sigmask(SIG_SETMASK, old, NULL);
}

void run_block_signals(bool terminal, sigset_t *ret_set, sigset_t *ret_old)
{
	sigemptyset(ret_set);
	if (terminal)
		sigaddset(ret_set, SIGCONT);
	for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
		sigaddset(ret_set, passed_on[i]);
	pthread_sigmask(SIG_BLOCK, ret_set, ret_old);
}

static int clone_error(int r, struct atoll_error *err)
{
	if (!jail_is_root() && (r == -EPERM || r == -EACCES || r == -ENOSPC || r == -EUSERS || r == -EINVAL))
		return error_set(err, ATOLL_UNSUPPORTED, -r, operation, NULL,
				 "this machine does not let you make user namespaces (%s): see `atoll doctor`",
				 strerror(-r));
	if (r == -EAGAIN)
		return view_no_process(err);
	return error_sys(err, r, operation, NULL, "cannot make the sandbox's namespaces");
}

/* Its end is seen on the pidfd: a process that another thread has started meanwhile may hold the other end of the socket open. */
static int receive_namespaces(struct run *run)
{
	struct pollfd fds[] = { { .fd = run->socket, .events = POLLIN }, { .fd = run->child.pidfd, .events = POLLIN } };
	ssize_t n;

	while (poll(fds, ARRAY_SIZE(fds), -1) < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOMEM))
		;
	n = namespaces_receive(run->socket, &run->report, &run->namespaces);
	if (n != (ssize_t)sizeof(run->report))
		return n < 0 ? (int)n : -ECHILD;
	run->reported = run->report.event != INIT_STARTED;
	return 0;
}

static int tell_started(const struct jail_spec *spec, struct run *run, struct atoll_error *err)
{
	uint64_t tag;
	int r;

	r = receive_namespaces(run);
	if (r < 0)
		return error_sys(err, r, operation, NULL, "the sandbox's first process did not start");
	/* It could not begin, and says why at the end. */
	if (!spec->started || run->reported)
		return 0;
	r = process_tag(run->child.pid, &tag);
	if (r < 0)
		return error_sys(err, r, operation, NULL,
				 "cannot tell the sandbox's first process from later ones: is /proc mounted?");
	return spec->started(run->child.pid, tag, spec->join ? spec->join : &run->namespaces, spec->started_arg, err);
}

void run_send_byte(int socket, char byte)
{
	while (send(socket, &byte, 1, MSG_NOSIGNAL) < 0 && errno == EINTR)
		;
}

static void let_go_on(const struct run *run)
{
	run_send_byte(run->socket, (char)(terminal_is_ours() ? INIT_FOREGROUND : INIT_BACKGROUND));
}

/* What the terminal sends goes to the command's process group by itself. */
static void pass_signals_on(struct run *run)
{
	struct signalfd_siginfo info;

	while (read(run->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		if (info.ssi_signo == SIGCONT)
			let_go_on(run);
		else if (!process_signal_is_for_group((int)info.ssi_signo, info.ssi_code))
			run_send_byte(run->socket, (char)info.ssi_signo);
		run->signalled |= info.ssi_signo != SIGCONT;
	}
}

ssize_t run_receive(int socket, struct init_report *ret, int ret_fds[2])
{
	char room[CMSG_SPACE(2 * sizeof(int))];
	struct iovec data = { ret, sizeof(*ret) };
	struct msghdr message = {
		.msg_iov = &data, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *c;
	ssize_t n;

	/* A peer that closed without having read everything is told first; its report still comes after that. */
	do {
		n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	} while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	c = n < 0 ? NULL : CMSG_FIRSTHDR(&message);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
		memcpy(ret_fds, CMSG_DATA(c), MIN(c->cmsg_len - CMSG_LEN(0), 2 * sizeof(int)));
	return n;
}

static void begin_stdio(struct run *run, int which, int fds[2])
{
	int outer = run->stdio_fds && run->stdio_fds[which] >= 0 ? run->stdio_fds[which] : which;
	int r = stdio_begin(&run->stdio, outer, fds);

	run->stdio_error = MIN(run->stdio_error, r);
}

static void tell_network(struct run *run)
{
	if (!run->told_network && run->spec->wanted_network)
		run->spec->wanted_network(run->spec->wanted_network_arg);
	run->told_network = true;
}

static void take_report(struct run *run, const struct init_report *report, int fds[2])
{
	if (report->event == INIT_STOPPED) {
		terminal_stop(report->value, report->had_terminal);
		let_go_on(run);
	} else if (report->event == INIT_RENAMES && run->renames < 0) {
		run->renames = TAKE_FD(fds[0]);
		run->confined = (struct confined){ .root_mount = report->root_mount, .root_ino = report->root_ino };
	} else if (report->event == INIT_STDIO) {
		begin_stdio(run, report->value, fds);
	} else if (report->event == INIT_WANTED_NETWORK) {
		tell_network(run);
	} else if (report->event != INIT_RENAMES) {
		run->report = *report;
		run->reported = true;
	}
}

/* Returns false if there is no report. */
static bool read_report(struct run *run)
{
	struct init_report report;
	int fds[2] = { -EBADF, -EBADF };
	bool is_report = run_receive(run->socket, &report, fds) == (ssize_t)sizeof(report);

	if (is_report)
		take_report(run, &report, fds);
	fd_close(fds[0]);
	fd_close(fds[1]);
	return is_report;
}

/* Pid 1 takes INIT_GO when the view stands; until then it lies unread on the socket. */
bool run_is_being_set_up(int socket)
{
	int unread = 0;

	return ioctl(socket, SIOCOUTQ, &unread) == 0 && unread > 0;
}

/* How long to poll: until the view must stand, and until the time limit passes. */
static int poll_ms(const struct run *run, bool set_up, int64_t deadline)
{
	const int64_t times[] = { run->end_at, run->watch_at };
	int ms = set_up ? -1 : spawn_ms_until(deadline);

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		int64_t left = times[i] ? MAX(0, (times[i] - clock_monotonic_ns() + 999999) / 1000000) : -1;

		if (left >= 0)
			ms = (int)MIN(left, ms < 0 ? INT_MAX : ms);
	}
	return ms;
}

/* False if what was seen ends the run. */
static bool look(struct run *run)
{
	int64_t now = clock_monotonic_ns();
	int ms;

	if (run->watch_at == 0 || now < run->watch_at)
		return true;
	ms = run->watch(run->child.pid, run->namespaces.segments, run->watch_arg);
	run->watch_at = clock_monotonic_ns() + (int64_t)ms * 1000000;
	return ms > 0;
}

/* The command is asked to end; true if it was and did not. */
static bool is_over_time(struct run *run)
{
	if (run->end_at == 0 || clock_monotonic_ns() < run->end_at)
		return false;
	if (run->timed_out)
		return true;
	run->timed_out = true;
	run->end_at += GRACE_NS;
	run_send_byte(run->socket, SIGTERM);
	return false;
}

/* Until pid 1 is gone, and with it everything inside. -ETIMEDOUT if the view does not stand in time, -ETIME if the command does not
 * end in its own. */
static int wait_for_end(struct run *run)
{
	struct pollfd fds[] = { { .fd = run->child.pidfd, .events = POLLIN },
				{ .fd = run->signal_fd, .events = POLLIN },
				{ .fd = run->socket, .events = POLLIN },
				{ .fd = -1, .events = POLLIN },
				{ .fd = -1, .events = POLLIN } };
	int64_t deadline = spawn_deadline();
	bool set_up = false;

	do {
		int n = poll(fds, ARRAY_SIZE(fds), poll_ms(run, set_up, deadline));

		if (n < 0 && errno != EINTR && errno != EAGAIN && errno != ENOMEM)
			return -errno;
		if (n == 0 && !set_up && spawn_ms_until(deadline) == 0) {
			if (run_is_being_set_up(run->socket))
				return -ETIMEDOUT;
			set_up = true;
		}
		pass_signals_on(run);
		if (fds[4].revents)
			mover_wait(&run->mover);
		if (fds[3].revents & POLLIN)
			rename_answer(&run->mover, run->renames, &run->confined, run->end_at, run->door);
		/* The last word, or nobody is there any more. */
		if (fds[2].revents && (!read_report(run) || run->reported))
			fds[2].fd = -1;
		/* Without a process that could ask, it hangs up. */
		if (fds[3].revents & (POLLHUP | POLLERR) && !mover_is_busy(&run->mover))
			run->renames = fd_close(run->renames);
		fds[3].fd = mover_is_busy(&run->mover) ? -1 : run->renames;
		fds[4].fd = mover_fd(&run->mover);
		if (run->stdio_error < 0)
			return run->stdio_error;
		if (!fds[0].revents && (is_over_time(run) || !look(run)))
			return -ETIME;
	} while (!fds[0].revents);
	while (!run->reported && read_report(run))
		;
	return run->stdio_error;
}

void run_result(int status, const struct init_report *report, struct atoll_run_result *ret)
{
	ret->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
	ret->exit_status = ret->signal ? 128 + ret->signal : WEXITSTATUS(status);
	ret->user_ns = report->user_ns;
	ret->system_ns = report->system_ns;
	ret->max_rss = report->max_rss;
	ret->wanted_network = report->wanted_network;
}

static int read_result(const struct run *run, int status, struct atoll_run_result *ret, struct atoll_error *err)
{
	int command = run->report.value;

	ret->timed_out = run->timed_out;
	ret->wanted_network = run->report.wanted_network;
	if (!run->reported) {
		/* Somebody ended pid 1 from outside, and the command with it. */
		int sig = WIFSIGNALED(status) ? WTERMSIG(status) : SIGKILL;

		ret->signal = sig;
		ret->exit_status = 128 + sig;
		ret->ended_from_outside = !run->ended;
		return 0;
	}
	switch (run->report.event) {
	case INIT_FAILED:
		return view_error(run->init.view, run->init.cwd, &run->report.failure, err);
	case INIT_NO_EXEC:
		ret->not_started = true;
		ret->exit_status = command == ENOENT ? 127 : 126;
		break;
	case INIT_RENAMES:
	case INIT_STDIO:
	case INIT_STARTED:
	case INIT_STOPPED:
	case INIT_WANTED_NETWORK:
	case INIT_ENDED:
		run_result(command, &run->report, ret);
		break;
	}
	return 0;
}

/* Runs without network share one loopback; whoever may reach something has a network of its own, and nobody joins that. */
static int start(const struct jail_spec *spec, struct run *run)
{
	unsigned namespaces = CLONE_NEWPID | (spec->join ? CLONE_NEWNS : NAMESPACES);
	struct jail_namespaces join;

	if (spec->join && namespaces_choose(spec->join, run->init.no_net, &join) && run->init.no_net)
		run->init.new_net = false;
	if (run->init.new_net)
		namespaces |= CLONE_NEWNET;
	return spec->join ? spawn_join(&join, namespaces, init_main, &run->init, &run->child)
			  : spawn_start(namespaces, init_main, &run->init, &run->child);
}

/* He is gone by now, or will be before the command has started. */
static void wait_for_first(struct run *run)
{
	if (run->first.pidfd >= 0)
		(void)spawn_wait(&run->first);
}

static int serve(const struct jail_spec *spec, struct run *run, struct atoll_error *err)
{
	return serve_commands(&(struct serve){ .server = spec->server,
					       .view = run->init.view,
					       .door = &spec->door,
					       .child = &run->child,
					       .socket = run->socket,
					       .signal_fd = run->signal_fd,
					       .requests = run->requests,
					       .host_net = run->init.wall.host_net,
					       .watch = spec->watch,
					       .segments = run->namespaces.segments,
					       .watch_arg = spec->watch_arg },
			      err);
}

int run_view_late(struct atoll_error *err)
{
	return error_set(err, ATOLL_TIMEOUT, ETIMEDOUT, operation, NULL,
			 "the view could not be mounted: a filesystem below it does not answer");
}

/* A user who ends a command does not want to wait for a process that reads its output. A signal
 * that comes during the wait has had its effect already. */
static void end_stdio(struct run *run)
{
	stdio_end(&run->stdio, run->signal_fd,
		  run->ended || run->signalled ? clock_monotonic_ns() + GRACE_NS : run->end_at);
	pass_signals_on(run);
}

static int run_command(const struct jail_spec *spec, struct run *run, struct atoll_run_result *ret,
		       struct atoll_error *err)
{
	int r = start(spec, run);

	run->init.socket = fd_close(run->init.socket);
	run->init.requests = fd_close(run->init.requests);
	if (r < 0)
		return clone_error(r, err);
	r = limit_enter(&spec->limits, run->child.pid);
	r = r < 0 ? error_sys(err, r, operation, NULL, "cannot put the command into a control group of its own")
		  : tell_started(spec, run, err);
	if (r == 0 && run->net)
		r = net_ready(run->net, run->signal_fd, err);
	if (r < 0) {
		/* One that ended the wait has had its effect. */
		pass_signals_on(run);
		(void)spawn_end(&run->child);
		return r;
	}
	run_send_byte(run->socket, INIT_GO);
	wait_for_first(run);
	if (spec->timeout_ms > 0)
		run->end_at = clock_monotonic_ns() + spec->timeout_ms * 1000000;
	if (spec->server && !run->reported)
		return serve(spec, run, err);
	run->door = &spec->door;
	run->watch = spec->watch;
	run->watch_arg = spec->watch_arg;
	run->watch_at = spec->watch ? clock_monotonic_ns() : 0;
	r = wait_for_end(run);
	if (r < 0 && r != -ETIME) {
		(void)spawn_end(&run->child);
		if (r == -ETIMEDOUT)
			return run_view_late(err);
		if (r == run->stdio_error)
			return error_sys(err, r, operation, NULL,
					 "cannot pass on a socket that is standard input, output or error");
		return error_sys(err, r, operation, NULL, "cannot wait for the command");
	}
	run->ended = r == -ETIME;
	r = run->ended ? spawn_end(&run->child) : spawn_wait(&run->child);
	mover_wait(&run->mover);
	if (r < 0)
		return error_sys(err, r, operation, NULL, "cannot wait for the sandbox's first process");
	end_stdio(run);
	return read_result(run, r, ret, err);
}

static int open_channels(struct run *run, bool serves, const sigset_t *signals)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	run->socket = pair[0];
	run->init.socket = pair[1];
	if (serves) {
		if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
			return -errno;
		run->requests = pair[0];
		run->init.requests = pair[1];
	}
	run->signal_fd = signalfd(-1, signals, SFD_CLOEXEC | SFD_NONBLOCK);
	return run->signal_fd < 0 ? -errno : 0;
}

/* The command reaches what its policy says; most reach nothing, and need nobody for that. */
static int open_net(const struct jail_spec *spec, struct run *run, struct atoll_error *err)
{
	int r;

	run->init.new_net = !spec->net || spec->net->mode != NET_HOST;
	run->init.no_net = !spec->net || spec->net->mode == NET_NONE;
	run->init.wall.host_net = !run->init.new_net;
	run->init.announce_fd = -EBADF;
	if (!spec->net || !net_policy_needs_gateway(spec->net))
		return 0;
	r = net_open(spec->net, &run->net, err);
	if (r == 0)
		run->init.announce_fd = net_announce_fd(run->net);
	return r;
}

static void run_release(struct run *run)
{
	stdio_end(&run->stdio, -EBADF, clock_monotonic_ns());
	net_close(run->net, NULL, NULL);
	run->socket = fd_close(run->socket);
	run->init.socket = fd_close(run->init.socket);
	run->requests = fd_close(run->requests);
	run->init.requests = fd_close(run->init.requests);
	run->signal_fd = fd_close(run->signal_fd);
	mover_wait(&run->mover);
	run->renames = fd_close(run->renames);
	wait_for_first(run);
	namespaces_close(&run->namespaces);
}

int jail_run(const struct jail_spec *spec, struct atoll_run_result *ret, struct atoll_error *err)
{
	CLEANUP(cleanup_view) struct view *view = NULL;
	CLEANUP(restore_signals) sigset_t old;
	CLEANUP(run_release)
	struct run run = { .socket = -EBADF,
			   .signal_fd = -EBADF,
			   .requests = -EBADF,
			   .renames = -EBADF,
			   .spec = spec,
			   .stdio_fds = spec->stdio,
			   .first.pidfd = -EBADF,
			   .init.socket = -EBADF,
			   .init.requests = -EBADF };
	int64_t began = clock_monotonic_ns();
	struct atoll_run_result result = { 0 };
	struct sigaction action;
	sigset_t signals, command;
	int r;

	run_block_signals(spec->terminal, &signals, &old);
	command = old;
	size_limit_restore(&command);
	if (!spec->server && (!spec->argv || !spec->argv[0] || !spec->cwd))
		return error_set(err, ATOLL_INVALID, 0, operation, NULL, "there is no command to run");
	r = stdio_check(spec, err);
	if (r == 0)
		r = view_new(spec, &view, err);
	if (r < 0)
		return r;
	r = open_channels(&run, spec->server != NULL, &signals);
	if (r < 0)
		return error_sys(err, r, operation, NULL, "cannot make a channel to the sandbox");
	run.init = (struct init){ .view = view,
				  .argv = spec->argv,
				  .env = spec->env,
				  .limits = spec->limits,
				  .cwd = spec->cwd,
				  .hold_fd = spec->hold_fd,
				  .hold_fds = spec->hold_fds,
				  .n_hold_fds = spec->n_hold_fds,
				  .terminal = spec->terminal,
				  .session = spec->session,
				  .stdio = spec->stdio,
				  .socket = run.init.socket,
				  .caller_socket = run.socket,
				  .serves = spec->server != NULL,
				  .requests = run.init.requests,
				  .caller_requests = run.requests,
				  .signals = command,
				  .stands = spec->stands,
				  .begun = spec->begun,
				  .stands_arg = spec->started_arg,
				  .wall = { .root = jail_is_root() || spec->as_root,
					    .inner = !jail_is_root() && spec->as_root,
					    .userns_fd = jail_is_root() ? ids_root_userns(&run.first) : -EBADF,
					    .userns = spec->userns,
					    .profile = spec->profile,
					    .pass_fds = spec->pass_fds,
					    .n_pass_fds = spec->n_pass_fds } };
	/* Of a view that is joined it is not known. */
	run.init.wall.reports_all = !jail_is_root();
	run.init.wall.reports_names = spec->join != NULL;
	for (size_t i = 0; i < spec->n_mounts; i++)
		run.init.wall.reports_names |= spec->mounts[i].kind == JAIL_MOUNT_OVERLAY;
	if (!spec->join)
		run.init.namespaces = NAMESPACES | (jail_is_root() ? 0 : CLONE_NEWUSER);
	run.init.child_ignored = sigaction(SIGCHLD, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
	r = open_net(spec, &run, err);
	if (!spec->join && run.init.no_net)
		run.init.namespaces |= CLONE_NEWNET;
	if (r == 0)
		r = run_command(spec, &run, &result, err);
	if (r < 0)
		return r;
	result.wanted_network |= run.told_network;
	if (result.wanted_network)
		tell_network(&run);
	net_close(TAKE_PTR(run.net), spec->refusal, spec->refusal_arg);
	if (result.timed_out)
		result.exit_status = EXIT_TIMED_OUT;
	result.elapsed_ns = clock_monotonic_ns() - began;
	*ret = result;
	return 0;
}
