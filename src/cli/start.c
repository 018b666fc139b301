/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the program begins, before the C library: `atoll run NAME -- COMMAND…`, word for word, is handed to the keeper of the sandbox if there
 * is one (docs/keeper.md), and the program ends with the command's status. For everything else, and whenever anything is out of the ordinary,
 * it goes on as any program does; what the keeper has said by then is found by src/engine/served.c.
 *
 * Why: on a virtual machine the C library asks the processor for its features for half a millisecond, which is as long as everything else
 * that such a run takes together. There is no C library here: no errno, no memcpy, no relocated pointer.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "engine/served-message.h"

#define PATIENCE_MS 2000 /* as in src/jail/ask.c */
#define SIGSET_SIZE 8

__attribute__((visibility("hidden"), used)) void start_early(long *stack);

/* The stack as the kernel has made it, and the register that the C library looks at, are left as they were. */
__asm__(".pushsection .text\n"
	".globl program_entry\n"
	".hidden program_entry\n"
	".type program_entry, @function\n"
	"program_entry:\n"
	"	endbr64\n"
	"	mov %rdx, %r12\n"
	"	mov %rsp, %rbx\n"
	"	mov %rsp, %rdi\n"
	"	xor %ebp, %ebp\n"
	"	and $-16, %rsp\n"
	"	call start_early\n"
	"	mov %rbx, %rsp\n"
	"	mov %r12, %rdx\n"
	"	jmp _start\n"
	".size program_entry, . - program_entry\n"
	".popsection\n");

static inline long call(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long r;

	__asm__ volatile("syscall"
			 : "=a"(r)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return r;
}

/* ---- text ---- */

static bool is_equal(const char *a, const char *b)
{
	while (*a && *a == *b) {
		a++;
		b++;
	}
	return *a == *b;
}

static const char *value_of(char *const *env, const char *name)
{
	for (; *env; env++) {
		const char *p = *env, *n = name;

		while (*n && *p == *n) {
			p++;
			n++;
		}
		if (!*n && *p == '=')
			return p + 1;
	}
	return NULL;
}

struct buffer {
	char *data;
	size_t size, n;
	bool full;
};

static void put(struct buffer *b, char c)
{
	if (b->n < b->size)
		b->data[b->n++] = c;
	else
		b->full = true;
}

static void put_text(struct buffer *b, const char *text)
{
	while (*text)
		put(b, *text++);
}

static void put_bytes(struct buffer *b, const void *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		put(b, ((const char *)data)[i]);
}

/* ---- the keeper ---- */

/* As in src/engine/open.c. */
static void put_state_dir(struct buffer *b, char *const *env)
{
	const char *value = value_of(env, "ATOLL_STATE_DIR");

	if (value && *value) {
		put_text(b, value);
	} else if (call(SYS_geteuid, 0, 0, 0, 0, 0) == 0) {
		put_text(b, "/var/lib/atoll");
	} else if ((value = value_of(env, "XDG_STATE_HOME")) && *value == '/') {
		put_text(b, value);
		put_text(b, "/atoll");
	} else if ((value = value_of(env, "HOME")) && *value == '/') {
		put_text(b, value);
		put_text(b, "/.local/state/atoll");
	} else {
		b->full = true;
	}
}

static bool is_name(const char *name)
{
	const char *p = name;

	if (*p == '-' || *p == '.' || *p == '\0')
		return false;
	while (*p && *p != '/')
		p++;
	return *p == '\0' && p - name < SERVED_NAME_MAX;
}

/* Of the same user: what is sent goes to nobody else. */
static bool is_ours(int fd)
{
	struct ucred peer = { 0, 0, 0 };
	socklen_t size = sizeof peer;

	return call(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&size) == 0 &&
	       (long)peer.uid == call(SYS_geteuid, 0, 0, 0, 0, 0);
}

static int reach(const char *name, char *const *env)
{
	struct sockaddr_un address;
	struct buffer path = { address.sun_path, sizeof address.sun_path, 0, false };
	long fd;

	address.sun_family = AF_UNIX;
	put_state_dir(&path, env);
	put_text(&path, "/" SERVED_DIR "/");
	put_text(&path, name);
	put(&path, '\0');
	if (path.full)
		return -1;
	/* One that is stopped, and before which many wait, is not waited for; and without standard input, output or error another fd would
	 * be sent in its place. */
	fd = call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, 0, 0);
	if (fd >= 0 &&
	    (fd <= 2 || call(SYS_connect, fd, (long)&address, sizeof address, 0, 0) != 0 || !is_ours((int)fd))) {
		(void)call(SYS_close, fd, 0, 0, 0, 0);
		return -1;
	}
	return (int)fd;
}

/* The command of a keeper has none to be controlled by. */
static bool has_terminal(void)
{
	long fd = call(SYS_openat, AT_FDCWD, (long)"/dev/tty", O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0, 0);

	if (fd >= 0)
		(void)call(SYS_close, fd, 0, 0, 0, 0);
	return fd != -ENXIO && fd != -ENOENT && fd != -ENODEV;
}

/* ---- what is said ---- */

static bool write_question(struct buffer *b, uint64_t blocked, char *const *argv, char *const *env)
{
	struct served_question q;
	struct jail_request request = { 0, 0, 0, 0, 0, 0 };
	static const char version[] = ATOLL_VERSION;
	char cwd[PATH_MAX];
	size_t at;

	for (size_t i = 0; i < sizeof q.version; i++)
		((volatile char *)q.version)[i] = i < sizeof version ? version[i] : '\0';
	q.blocked = blocked;
	q.has_settings = 0;
	if (call(SYS_getcwd, (long)cwd, sizeof cwd, 0, 0, 0) <= 0 || *cwd != '/')
		return false;
	put_bytes(b, &q, sizeof q);
	at = b->n;
	put_bytes(b, &request, sizeof request);
	put_text(b, cwd);
	put(b, '\0');
	for (; argv[request.n_args]; request.n_args++) {
		put_text(b, argv[request.n_args]);
		put(b, '\0');
	}
	for (; env[request.n_env]; request.n_env++) {
		put_text(b, env[request.n_env]);
		put(b, '\0');
	}
	if (b->full || (size_t)request.n_args + request.n_env + 1 > JAIL_REQUEST_STRINGS_MAX)
		return false;
	for (size_t i = 0; i < sizeof request; i++)
		((volatile char *)b->data)[at + i] = ((const char *)&request)[i];
	return true;
}

static bool send_question(int fd, const struct buffer *b)
{
	union {
		char room[CMSG_SPACE(3 * sizeof(int))];
		struct cmsghdr head;
	} control;
	struct iovec data = { b->data, b->n };
	struct msghdr message = { NULL, 0, &data, 1, &control, sizeof control, 0 };

	control.head.cmsg_len = CMSG_LEN(3 * sizeof(int));
	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	for (int i = 0; i < 3; i++)
		((int *)CMSG_DATA(&control.head))[i] = i;
	return call(SYS_sendmsg, fd, (long)&message, MSG_NOSIGNAL, 0, 0) == (long)b->n;
}

static bool receive(int fd)
{
	return call(SYS_read, fd, (long)&served_early_answer, sizeof served_early_answer, 0, 0) ==
	       (long)sizeof served_early_answer;
}

/* These as in src/jail/ask.c. */
static bool is_heard(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	char byte;
	long n;

	do {
		n = call(SYS_poll, (long)&p, 1, PATIENCE_MS, 0, 0);
	} while (n == -EINTR);
	return n > 0 && call(SYS_read, fd, (long)&byte, 1, 0, 0) == 1;
}

static enum served_early wait_for_begin(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };
	long n;

	do {
		n = call(SYS_poll, (long)&p, 1, PATIENCE_MS, 0, 0);
	} while (n == -EINTR);
	if (n > 0)
		return receive(fd) ? SERVED_ANSWERED : SERVED_NOT_YET;
	(void)call(SYS_shutdown, fd, SHUT_RDWR, 0, 0, 0);
	return receive(fd) ? SERVED_LOST : SERVED_NOT_YET;
}

static void pass_signals_on(int fd, int signal_fd)
{
	struct signalfd_siginfo info;

	info.ssi_signo = 0;
	while (call(SYS_read, signal_fd, (long)&info, sizeof info, 0, 0) == (long)sizeof info) {
		char byte = (char)info.ssi_signo;

		(void)call(SYS_sendto, fd, (long)&byte, 1, MSG_NOSIGNAL, 0);
	}
}

static enum served_early wait_for_end(int fd, int signal_fd)
{
	struct pollfd fds[2] = { { fd, POLLIN, 0 }, { signal_fd, POLLIN, 0 } };

	for (;;) {
		if (call(SYS_poll, (long)fds, 2, -1, 0, 0) <= 0)
			continue;
		if (fds[1].revents)
			pass_signals_on(fd, signal_fd);
		if (fds[0].revents)
			return receive(fd) ? SERVED_ANSWERED : SERVED_LOST;
	}
}

static enum served_early ask(int fd, uint64_t signals, uint64_t blocked, char *const *argv, char *const *env)
{
	char data[JAIL_REQUEST_MAX];
	struct buffer question = { data, sizeof data, 0, false };
	enum served_early state = SERVED_NOT_YET;
	long signal_fd;

	if (!write_question(&question, blocked, argv, env))
		return state;
	signal_fd = call(SYS_signalfd4, -1, (long)&signals, SIGSET_SIZE, SFD_CLOEXEC | SFD_NONBLOCK, 0);
	if (signal_fd < 0)
		return state;
	if (is_heard(fd) && send_question(fd, &question))
		state = wait_for_begin(fd);
	if (state == SERVED_ANSWERED)
		state = wait_for_end(fd, (int)signal_fd);
	(void)call(SYS_close, signal_fd, 0, 0, 0, 0);
	return state;
}

/* Nothing is to be said but its status. */
static bool is_plain(const struct served_answer *a)
{
	const struct atoll_run_result *r = &a->result;

	return a->code == 0 && !r->not_started && !r->timed_out && !r->ended_from_outside && !r->wanted_network &&
	       !r->unconfined && !r->limited[0] && r->discarded == 0 && r->temporary == 0 && !r->discards_unknown;
}

void start_early(long *stack)
{
	static const int passed_on[] = { SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2 };
	char *const *argv = (char *const *)(stack + 1);
	char *const *env = argv + stack[0] + 1;
	uint64_t signals = 0, blocked = 0;
	int fd;

	if (stack[0] < 5 || !is_equal(argv[1], "run") || !is_name(argv[2]) || !is_equal(argv[3], "--"))
		return;
	fd = reach(argv[2], env);
	if (fd < 0)
		return;
	for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
		signals |= 1UL << (passed_on[i] - 1);
	if (!has_terminal() &&
	    call(SYS_rt_sigprocmask, SIG_BLOCK, (long)&signals, (long)&blocked, SIGSET_SIZE, 0) == 0) {
		served_early = ask(fd, signals, blocked, argv + 4, env);
		if (served_early == SERVED_ANSWERED && is_plain(&served_early_answer))
			(void)call(SYS_exit_group, served_early_answer.result.exit_status, 0, 0, 0, 0);
		(void)call(SYS_rt_sigprocmask, SIG_SETMASK, (long)&blocked, 0, SIGSET_SIZE, 0);
	}
	(void)call(SYS_close, fd, 0, 0, 0, 0);
}
