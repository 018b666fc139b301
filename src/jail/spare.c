/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pid 1 of a view in which commands come one after another. A spare process waits behind all walls for the next one, so that nothing
 * is left to be done for it but exec. When the command has ended, everything else inside is ended too, before its end is
 * reported: a run leaves pid 1 behind and nobody else. Child side.
 */
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "jail/private.h"

static _Noreturn void give_up(const struct init *in, enum view_step step, int error)
{
	init_send(in, &(struct init_report){ .event = INIT_FAILED, .failure = { .step = step, .error = error } });
	_exit(127);
}

/* The spare's own, since nothing may be allocated here. */
static char data[JAIL_REQUEST_MAX];
static char *strings[REQUEST_STRINGS];

/* As they are for whoever asks. */
static void set_signals(const struct jail_request *request)
{
	sigset_t blocked;

	sigemptyset(&blocked);
	for (int sig = 1; sig < NSIG; sig++) {
		uint64_t bit = 1ULL << (sig - 1);

		(void)signal(sig, request->ignored & bit ? SIG_IGN : SIG_DFL);
		if (request->blocked & bit)
			(void)sigaddset(&blocked, sig);
	}
	(void)sigprocmask(SIG_SETMASK, &blocked, NULL);
}

static _Noreturn void run_request(const struct init *in, const struct jail_request *request, const int stdio[3])
{
	int r = init_enter_cwd(strings[0]);

	if (r < 0)
		give_up(in, VIEW_STEP_CWD, -r);
	r = stdio_take(in, stdio);
	if (r < 0)
		give_up(in, VIEW_STEP_START, -r);
	umask((mode_t)request->umask);
	set_signals(request);
	environ = strings + 1 + request->n_args + 1;
	execvp(strings[1], strings + 1);
	init_send(in, &(struct init_report){ .event = INIT_NO_EXEC, .value = errno });
	_exit(127);
}

/* One that the spare before did not live to take is nobody's any more: its end was told. */
static void take_request(const struct init *in, uint32_t turn, struct jail_request *ret, int ret_stdio[3])
{
	for (;;) {
		ssize_t n = request_receive(in->requests, 0, data, sizeof(data), ret_stdio);

		if (n <= 0)
			_exit(127);
		if (!request_split(data, (size_t)n, ret, strings))
			give_up(in, VIEW_STEP_START, EBADMSG);
		if (ret->turn == turn)
			return;
		for (int i = 0; i < 3; i++)
			(void)close(ret_stdio[i]);
	}
}

static _Noreturn void give_up_walls(const struct init *in, const struct wall_failure *wall)
{
	struct init_report report = { .event = INIT_FAILED };

	wall_tell(wall, &report.failure);
	init_send(in, &report);
	_exit(127);
}

static _Noreturn void wait_for_request(const struct init *in, uint32_t turn)
{
	struct wall_failure wall = { 0 };
	struct jail_request request;
	int stdio[3], listener = -EBADF, rules = -EBADF, r;

	fd_close_others(STDERR_FILENO + 1, (int[]){ in->socket, in->requests, in->wall.userns_fd }, 3, NULL, 0);
	r = jail_limit_apply(&in->limits);
	if (r < 0)
		give_up(in, VIEW_STEP_LIMIT, -r);
	if (wall_raise(&in->wall, &listener, &rules, &wall) < 0)
		give_up_walls(in, &wall);
	init_hand_over(in, listener);
	take_request(in, turn, &request, stdio);
	if (wall_close(rules, stdio, &wall) < 0)
		give_up_walls(in, &wall);
	run_request(in, &request, stdio);
}

/* No C library in between, as in spawn.c. */
static pid_t start_spare(const struct init *in, uint32_t turn)
{
	pid_t pid = (pid_t)syscall(SYS_clone, (unsigned long)SIGCHLD, NULL, NULL, NULL, NULL);

	if (pid == 0)
		wait_for_request(in, turn);
	return pid;
}

/* Whoever is being made at this instant has the signal pending, and does not come to be. */
static void end_others(struct init_report *report)
{
	struct rusage usage;
	pid_t pid;

	(void)kill(-1, SIGKILL);
	while ((pid = wait4(-1, NULL, __WALL, &usage)) > 0 || (pid < 0 && errno == EINTR))
		if (pid > 0)
			init_add_usage(report, &usage);
}

/* Of pid 1, which every spare has from it. */
struct limits {
	struct rlimit l[RLIM_NLIMITS];
};

static void read_limits(struct limits *ret)
{
	memset(ret, 0, sizeof(*ret));
	for (int i = 0; i < (int)RLIM_NLIMITS; i++)
		(void)getrlimit((__rlimit_resource_t)i, &ret->l[i]);
}

/* A command of the same user may lower them; nobody who could is left now. */
static bool are_changed(const struct limits *limits)
{
	struct limits now;

	read_limits(&now);
	return memcmp(&now, limits, sizeof(now)) != 0;
}

int spare_serve(const struct init *in, int signal_fd)
{
	struct limits limits;

	read_limits(&limits);
	fd_close_others(STDERR_FILENO + 1,
			(int[]){ signal_fd, in->socket, in->requests, in->hold_fd, in->wall.userns_fd }, 5,
			in->hold_fds, in->n_hold_fds);
	/* A signal that a command sends to its process group reaches nobody outside; nor does it lead one. */
	(void)setsid();
	for (uint32_t turn = 0;; turn++) {
		struct init_report report = { .event = INIT_ENDED };
		uint64_t attempts = net_attempts();
		pid_t spare = start_spare(in, turn);

		if (spare < 0 || init_watch(in, signal_fd, spare, &report) < 0)
			return 1;
		end_others(&report);
		init_take_signals(signal_fd, 0);
		report.wanted_network = in->no_net && net_attempts() > attempts;
		report.spoilt = are_changed(&limits);
		init_send(in, &report);
	}
}
