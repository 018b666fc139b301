/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a command: status, signals, stdio, terminals, and that nothing outlives it. src/jail/run.c, init.c, spawn.c. */
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <sys/file.h>
#include <termios.h>

#include "jail-scene.h"

static void pause_ms(int ms)
{
	usleep((useconds_t)ms * 1000);
}

/* Waits until the script has said this much. */
static void wait_for_says(const char *text)
{
	for (int i = 0; i < 6000; i++) {
		if (strcmp(tap_read(tap_dirfd, "says"), text) == 0)
			return;
		pause_ms(10);
	}
	tap_fail(__FILE__, __LINE__, "the script said \"%s\", not \"%s\"", tap_read(tap_dirfd, "says"), text);
}

/* A child of the test in which the scene runs; it exits with the command's status. */
static pid_t run_in_child(struct scene *s, const char *script)
{
	pid_t pid;

	scene_open_says();
	pid = fork();
	if (pid == 0)
		_exit(scene_sh(s, script));
	CHECK(pid > 0);
	return pid;
}

static int wait_child(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

JAIL_TEST(the_exit_status_is_the_commands)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(scene_sh(&s, "exit 0"), 0);
	CHECK_EQ(scene_sh(&s, "exit 7"), 7);
	CHECK_EQ(scene_sh(&s, "exit 255"), 255);
	CHECK_EQ(s.result.signal, 0);
	CHECK(!s.result.not_started);
	CHECK(s.result.elapsed_ns > 0);
}

JAIL_TEST(a_signal_that_ends_the_command_is_told)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(scene_sh(&s, "kill -TERM $$"), 128 + SIGTERM);
	CHECK_EQ(s.result.signal, SIGTERM);
	CHECK_EQ(scene_sh(&s, "kill -KILL $$"), 128 + SIGKILL);
	CHECK_EQ(s.result.signal, SIGKILL);
}

JAIL_TEST(a_command_that_cannot_be_executed_is_126_or_127)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(scene_run(&s, (char *[]){ (char *)"no-such-program-anywhere", NULL }), 127);
	CHECK(s.result.not_started);
	CHECK_EQ(scene_run(&s, (char *[]){ (char *)"./none", NULL }), 127);
	CHECK_EQ(scene_run(&s, (char *[]){ (char *)"./f", NULL }), 126);
	CHECK(s.result.not_started);
	CHECK_EQ(scene_run(&s, (char *[]){ (char *)"/etc", NULL }), 126);
	CHECK_EQ(scene_sh(&s, "exit 127"), 127);
	CHECK(!s.result.not_started);
}

JAIL_TEST(a_script_without_an_interpreter_line_is_run_by_the_shell)
{
	struct scene s = scene_new("orig");

	tap_write(s.lower, "script", "exit 3\n");
	CHECK_EQ(fchmodat(s.lower, "script", 0755, 0), 0);
	CHECK_EQ(scene_run(&s, (char *[]){ (char *)"./script", NULL }), 3);
}

JAIL_TEST(a_run_without_a_command_is_refused)
{
	struct scene s = scene_new("orig");

	CHECK_EQ(scene_try(&s, (char *[]){ NULL }), -ATOLL_INVALID);
}

JAIL_TEST(a_cwd_that_is_not_inside_is_an_error_with_its_name)
{
	struct scene s = scene_new("orig");

	s.spec.cwd = "/tmp/surely/not/here";
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"true", NULL }), -ATOLL_NOT_FOUND);
	CHECK_CONTAINS(s.err.message, "\"/tmp/surely/not/here\"");
}

JAIL_TEST(ids_and_environment_are_the_callers)
{
	struct scene s = scene_new("orig");
	char expected[128];

	snprintf(expected, sizeof(expected), "%u %u\nvalue\n", (unsigned)geteuid(), (unsigned)getegid());
	CHECK_EQ(setenv("ATOLL_TEST_VARIABLE", "value", 1), 0);
	CHECK_STR(scene_says(&s, "echo $(id -u) $(id -g) >&9; echo $ATOLL_TEST_VARIABLE >&9"), expected);
}

TEST(supplementary_groups_are_kept_as_user)
{
	static const gid_t group = 4242;
	struct scene s;

	if (geteuid() != 0)
		tap_skip("needs root to have a group of its own choice");
	s = scene_new("orig");
	CHECK_EQ(fchownat(s.lower, "f", 0, group, 0), 0);
	CHECK_EQ(fchmodat(s.lower, "f", 0640, 0), 0);
	CHECK_EQ(fchown(s.upper, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(fchown(s.work, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(chown(tap_dir, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(setgroups(1, &group), 0);
	CHECK_EQ(setresgid(SCENE_UID, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(setresuid(SCENE_UID, SCENE_UID, SCENE_UID), 0);
	CHECK_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
	CHECK_STR(scene_says(&s, "cat f >&9"), "original\n");
}

JAIL_TEST(no_new_privileges_can_be_gained)
{
	struct scene s = scene_new("orig");

	CHECK_STR(scene_says(&s, "grep NoNewPrivs /proc/self/status >&9"), "NoNewPrivs:\t1\n");
}

/* Through it the command could reach the program on the host. Root inside is root, and no boundary is promised against it. */
TEST(the_program_behind_pid_1_cannot_be_reached_as_user)
{
	struct scene s;

	scene_as_user();
	s = scene_new("orig");
	CHECK_STR(
		scene_says(
			&s,
			"for f in exe root cwd fd/0 mem; do cat /proc/1/$f 2>&1 >/dev/null | grep -o 'Permission denied' >&9; done"),
		"Permission denied\nPermission denied\nPermission denied\nPermission denied\nPermission denied\n");
}

JAIL_TEST(input_and_output_pass_byte_by_byte)
{
	struct scene s = scene_new("orig");
	static unsigned char data[300000], back[300001];
	int in = openat(tap_dirfd, "in", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int out = openat(tap_dirfd, "out", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int saved_in = dup(0), saved_out = dup(1);

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (unsigned char)(i * 2654435761U >> 13);
	CHECK_EQ(write(in, data, sizeof(data)), (ssize_t)sizeof(data));
	CHECK_EQ(lseek(in, 0, SEEK_SET), 0);
	fflush(NULL);
	dup2(in, 0);
	dup2(out, 1);
	(void)scene_run(&s, (char *[]){ (char *)"cat", NULL });
	dup2(saved_in, 0);
	dup2(saved_out, 1);
	CHECK_EQ(pread(out, back, sizeof(back), 0), (ssize_t)sizeof(data));
	CHECK_EQ(memcmp(data, back, sizeof(data)), 0);
}

JAIL_TEST(fds_of_ours_do_not_reach_the_command)
{
	struct scene s = scene_new("orig");

	/* ls itself has the listing open as one. */
	CHECK_STR(scene_says(&s, "exec ls /proc/self/fd >&9"), "0\n1\n2\n3\n9\n");
}

JAIL_TEST(signals_sent_to_the_caller_reach_the_command)
{
	static const struct {
		int sig;
		const char *name;
	} signals[] = { { SIGHUP, "HUP" },   { SIGINT, "INT" },   { SIGQUIT, "QUIT" },
			{ SIGTERM, "TERM" }, { SIGUSR1, "USR1" }, { SIGUSR2, "USR2" } };
	struct scene s = scene_new("orig");
	char script[256], said[64];

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++) {
		pid_t pid;

		snprintf(script, sizeof(script),
			 "trap 'echo %s >&9; exit 5' %s; echo ready >&9; while :; do sleep 0.02; done", signals[i].name,
			 signals[i].name);
		pid = run_in_child(&s, script);
		wait_for_says("ready\n");
		CHECK_EQ(kill(pid, signals[i].sig), 0);
		CHECK_EQ(WEXITSTATUS(wait_child(pid)), 5);
		snprintf(said, sizeof(said), "ready\n%s\n", signals[i].name);
		wait_for_says(said);
	}
}

/* The two lines of /proc/self/status. make, for one, starts its commands with the C library's own signals ignored. */
static void own_signals(char *buffer, size_t size)
{
	const char *text = tap_read(AT_FDCWD, "/proc/self/status");
	const char *begin = strstr(text, "SigBlk:"), *end = strstr(text, "SigCgt:");

	CHECK(begin && end && end > begin);
	snprintf(buffer, size, "%.*s", (int)(end - begin), begin);
}

JAIL_TEST(the_signal_mask_and_what_is_ignored_are_the_callers)
{
	struct scene s = scene_new("orig");
	static sigset_t set, before, after; /* the kernel fills only the beginning */
	int saved = dup(1), status;
	char own[200];

	/* Whoever runs the tests may have some ignored or blocked. (The C library keeps 32 and 33 to itself: see own.) */
	for (int number = 1; number < 32; number++)
		if (number != SIGKILL && number != SIGSTOP)
			signal(number, SIG_DFL);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_SETMASK, &set, NULL);
	sigprocmask(SIG_SETMASK, NULL, &before);
	own_signals(own, sizeof(own));
	/* The shell itself would change some of it, grep does not. */
	scene_open_says();
	dup2(SCENE_SAYS, 1);
	status = scene_run(&s, (char *[]){ (char *)"grep", (char *)"-E", (char *)"Sig(Blk|Ign)",
					   (char *)"/proc/self/status", NULL });
	dup2(saved, 1);
	CHECK_EQ(status, 0);
	CHECK_STR(tap_read(tap_dirfd, "says"), own);
	sigprocmask(SIG_SETMASK, NULL, &after);
	CHECK_EQ(memcmp(&before, &after, sizeof(before)), 0);
}

JAIL_TEST(a_daemon_inside_dies_with_the_command)
{
	struct scene s = scene_new("orig");
	int pipe_fds[2];
	struct pollfd p;

	CHECK_EQ(pipe(pipe_fds), 0);
	CHECK_EQ(fcntl(pipe_fds[0], F_SETFD, FD_CLOEXEC), 0);
	CHECK_EQ(scene_sh(&s, "setsid sh -c 'sleep 1000 & sleep 1000' >&- 2>&- & sleep 0.1; exit 4"), 4);
	close(pipe_fds[1]);
	p = (struct pollfd){ .fd = pipe_fds[0], .events = POLLIN };
	CHECK_EQ(poll(&p, 1, 0), 1); /* at once: every copy of the other end is closed */
	CHECK((p.revents & POLLHUP) != 0);
}

JAIL_TEST(everything_inside_dies_when_the_caller_is_killed)
{
	struct scene s = scene_new("orig");
	int pipe_fds[2];
	struct pollfd p;
	pid_t pid;

	CHECK_EQ(pipe(pipe_fds), 0);
	CHECK_EQ(fcntl(pipe_fds[0], F_SETFD, FD_CLOEXEC), 0);
	pid = run_in_child(
		&s,
		"trap '' HUP TERM; setsid sh -c 'trap \"\" HUP TERM; (setsid sleep 1000 &) ; sleep 1000' & echo up >&9; sleep 1000");
	close(pipe_fds[1]);
	wait_for_says("up\n");
	pause_ms(100);
	p = (struct pollfd){ .fd = pipe_fds[0], .events = POLLIN };
	CHECK_EQ(poll(&p, 1, 0), 0);
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(WTERMSIG(wait_child(pid)), SIGKILL);
	CHECK_EQ(poll(&p, 1, 10000), 1);
}

static int remember_pid(pid_t pid, uint64_t start_time, const struct jail_namespaces *namespaces, void *arg,
			struct atoll_error *err)
{
	(void)err;
	CHECK(start_time > 0);
	*(pid_t *)arg = pid;
	return 0;
}

static int kill_soon(pid_t pid, uint64_t start_time, const struct jail_namespaces *namespaces, void *arg,
		     struct atoll_error *err)
{
	(void)start_time;
	(void)arg;
	(void)err;
	if (fork() == 0) {
		wait_for_says("up\n");
		kill(pid, SIGKILL);
		_exit(0);
	}
	return 0;
}

JAIL_TEST(killing_pid_1_from_outside_ends_the_command)
{
	struct scene s = scene_new("orig");

	s.spec.started = kill_soon;
	scene_open_says();
	CHECK_EQ(scene_sh(&s, "echo up >&9; sleep 1000"), 128 + SIGKILL);
	CHECK_EQ(s.result.signal, SIGKILL);
}

static int refuse(pid_t pid, uint64_t start_time, const struct jail_namespaces *namespaces, void *arg,
		  struct atoll_error *err)
{
	remember_pid(pid, start_time, namespaces, arg, err);
	err->code = ATOLL_BUSY;
	return -ATOLL_BUSY;
}

JAIL_TEST(a_refusal_of_started_ends_the_run_before_the_command)
{
	struct scene s = scene_new("orig");
	pid_t pid = 0;

	s.spec.started = refuse;
	s.spec.started_arg = &pid;
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"touch", (char *)"ran", NULL }), -ATOLL_BUSY);
	CHECK_EQ(faccessat(s.upper, "ran", F_OK, 0), -1);
	CHECK(pid > 0);
	CHECK_EQ(kill(pid, 0), -1);
	CHECK_EQ(errno, ESRCH);
}

static int try_lock(void)
{
	int fd = openat(tap_dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	int r = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : 0;

	close(fd);
	return r;
}

JAIL_TEST(the_lock_is_held_while_pid_1_lives_and_not_by_the_command)
{
	struct scene s = scene_new("orig");
	int status;
	pid_t pid;

	scene_open_says();
	pid = fork();
	if (pid == 0) {
		s.spec.hold_fd = openat(tap_dirfd, "lock", O_RDWR | O_CREAT, 0600); /* also without O_CLOEXEC */
		CHECK_EQ(flock(s.spec.hold_fd, LOCK_EX), 0);
		_exit(scene_sh(&s, "ls /proc/self/fd | wc -l >&9; read x < /dev/null; sleep 1000"));
	}
	wait_for_says("5\n"); /* 0, 1, 2, 9 and ls's own */
	CHECK_EQ(try_lock(), -EWOULDBLOCK);
	CHECK_EQ(kill(pid, SIGTERM), 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(try_lock(), 0);
}

/* ---- Threads ---- */

static void *run_many(void *arg)
{
	struct scene *s = arg;

	for (int i = 0; i < 10; i++)
		CHECK_EQ(scene_sh(s, "echo x >> log; exit 3"), 3);
	return NULL;
}

static void *allocate(void *arg)
{
	while (!__atomic_load_n((bool *)arg, __ATOMIC_RELAXED)) {
		free(malloc(10000));
		(void)fflush(stdout);
	}
	return NULL;
}

JAIL_TEST(threads_can_run_commands_at_the_same_time)
{
	static struct scene s[3];
	static bool stop;
	pthread_t runners[3], busy;

	for (size_t i = 0; i < ARRAY_SIZE(s); i++) {
		char name[16];
		int dir;

		snprintf(name, sizeof(name), "t%zu", i);
		dir = scene_dir(name);
		dup2(dir, tap_dirfd);
		CHECK_EQ(fchdir(dir), 0);
		s[i] = scene_new("orig");
		CHECK(getcwd(s[i].path, sizeof(s[i].path) - 5));
		strcat(s[i].path, "/orig");
		dir = open("..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		dup2(dir, tap_dirfd);
	}
	CHECK_EQ(pthread_create(&busy, NULL, allocate, &stop), 0);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		CHECK_EQ(pthread_create(&runners[i], NULL, run_many, &s[i]), 0);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		CHECK_EQ(pthread_join(runners[i], NULL), 0);
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	CHECK_EQ(pthread_join(busy, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(s); i++)
		CHECK_EQ(strlen(tap_read(s[i].upper, "log")), 20);
}

JAIL_TEST(children_of_the_program_around_are_left_alone)
{
	struct scene s = scene_new("orig");
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(9);
	CHECK_EQ(scene_sh(&s, "true"), 0);
	CHECK_EQ(waitpid(-1, &status, 0), pid);
	CHECK_EQ(WEXITSTATUS(status), 9);
	CHECK_EQ(waitpid(-1, &status, 0), -1);
}

/* ---- Terminals: a small shell with one job, on a terminal of its own ---- */

struct terminal {
	int master;
	pid_t shell;
};

/* The shell tells by its exit status how the job ended; a stopped job is noted and continued. */
static _Noreturn void be_shell(struct scene *s, const char *script)
{
	pid_t job;
	int status;

	signal(SIGTTOU, SIG_IGN);
	job = fork();
	if (job == 0) {
		setpgid(0, 0);
		tcsetpgrp(0, getpid());
		signal(SIGTTOU, SIG_DFL);
		_exit(scene_sh(s, script));
	}
	setpgid(job, job);
	tcsetpgrp(0, job);
	for (;;) {
		if (waitpid(job, &status, WUNTRACED) < 0)
			_exit(99);
		if (!WIFSTOPPED(status))
			break;
		(void)!write(SCENE_SAYS, "stopped\n", 8);
		pause_ms(300);
		(void)!write(SCENE_SAYS, "continued\n", 10);
		kill(-job, SIGCONT);
	}
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

static struct terminal open_terminal(struct scene *s, const char *script)
{
	struct terminal t;

	scene_open_says();
	t.shell = forkpty(&t.master, NULL, NULL, NULL);
	CHECK(t.shell >= 0);
	if (t.shell == 0)
		be_shell(s, script);
	return t;
}

JAIL_TEST(control_c_reaches_the_command_once)
{
	struct scene s = scene_new("orig");
	struct terminal t =
		open_terminal(&s, "trap 'echo INT >&9; n=x$n' INT; echo ready >&9; until [ $n ]; do sleep 0.02; done\n"
				  "for i in 1 2 3 4 5 6; do sleep 0.05; done; test $n = x");

	wait_for_says("ready\n");
	CHECK_EQ(write(t.master, "\x03", 1), 1);
	CHECK_EQ(WEXITSTATUS(wait_child(t.shell)), 0);
	CHECK_STR(tap_read(tap_dirfd, "says"), "ready\nINT\n");
}

JAIL_TEST(control_c_ends_a_command_that_does_not_mind_it)
{
	struct scene s = scene_new("orig");
	struct terminal t = open_terminal(&s, "echo ready >&9; exec sleep 1000");

	wait_for_says("ready\n");
	pause_ms(50);
	CHECK_EQ(write(t.master, "\x03", 1), 1);
	CHECK_EQ(WEXITSTATUS(wait_child(t.shell)), 128 + SIGINT);
}

JAIL_TEST(control_z_stops_the_job_and_it_can_go_on)
{
	struct scene s = scene_new("orig");
	struct terminal t = open_terminal(
		&s,
		"echo ready >&9; until grep -q stopped /proc/self/fd/9; do sleep 0.02; done; echo done >&9; exit 6");

	wait_for_says("ready\n");
	CHECK_EQ(write(t.master, "\x1a", 1), 1);
	CHECK_EQ(WEXITSTATUS(wait_child(t.shell)), 6);
	/* Nothing came out of the command while the job was stopped. */
	CHECK_STR(tap_read(tap_dirfd, "says"), "ready\nstopped\ncontinued\ndone\n");
}

JAIL_TEST(a_hangup_of_the_terminal_ends_the_command)
{
	struct scene s = scene_new("orig");
	struct terminal t = open_terminal(&s, "echo ready >&9; exec sleep 1000");

	wait_for_says("ready\n");
	pause_ms(50);
	close(t.master);
	CHECK(WIFSIGNALED(wait_child(t.shell)));
}
