/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves a directory of the original within the view, because overlayfs does not rename it
 * (rename.c). With many files that takes seconds. A process of its own, the mover, moves one
 * directory at a time, so that the caller can go on watching the limits of the run and passing
 * signals on. The caller answers no further report until the mover has ended: other renames of the
 * run wait.
 *
 * If the command is ended meanwhile, the mover rolls the move back if it has not put the new
 * directory in place yet; otherwise it finishes the move. The caller waits for it. If the caller
 * dies, the mover runs to its end, and holds the caller's locks until then.
 *
 * The mover is a process, not a thread, because an ordinary user's move forks (call.c), and a
 * second thread may not fork while the first one has a database open (base/fork-gate.h).
 */
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/fd.h"
#include "base/fork-gate.h"
#include "base/stop.h"
#include "base/sys.h"
#include "jail/private.h"
#include "tree/tree.h"

static bool is_wanted(void *arg)
{
	return rename_is_waiting(arg);
}

static int move_work(void *arg, int out)
{
	(void)out;
	return tree_move(arg);
}

/* A rename needs no read permission for the files that it moves, so jail_call() moves the user's
 * own files whatever their mode. */
static int move(struct rename_waiting *w, const struct rename_request *q, const struct rename_door *door)
{
	struct tree_move m = { .from_dir = q->from.dir,
			       .from_name = q->from.name,
			       .to_dir = q->to.dir,
			       .to_name = q->to.name,
			       .flags = q->flags,
			       .is_wanted = is_wanted,
			       .arg = w };
	struct atoll_error err = { 0 };
	int r = door->set ? door->set(true, door->arg) : 0;

	if (r < 0)
		return -EBUSY;
	tree_move_name(&m);
	r = jail_call(move_work, &m, NULL, &err);
	if (err.code) {
		/* The process of jail_call() was killed. */
		(void)tree_remove(m.to_dir, m.name);
		r = -EIO;
	}
	if (door->set)
		(void)door->set(false, door->arg);
	return r;
}

/* Returns only in the caller: the mover's pid, or -errno. */
static pid_t start(struct rename_waiting *w, const struct rename_request *q, const struct rename_door *door)
{
	pid_t pid = fork_gate_fork();

	if (pid != 0)
		return pid < 0 ? -errno : pid;
	sys_fault_child();
	stop_in_child();
	rename_reply(w, move(w, q, door));
	_exit(0);
}

void mover_start(struct mover *m, struct rename_waiting *w, const struct rename_request *q,
		 const struct rename_door *door)
{
	pid_t pid = start(w, q, door);
	int pidfd = pid < 0 ? -EBADF : (int)syscall(SYS_pidfd_open, pid, 0);

	if (pid < 0) {
		/* Without a mover the caller moves the directory itself, and watches nothing
		 * meanwhile. */
		rename_reply(w, move(w, q, door));
		return;
	}
	*m = (struct mover){ .pid = pid, .pidfd = pidfd, .waiting = *w, .door = door };
	if (pidfd < 0)
		mover_wait(m);
}

bool mover_is_busy(const struct mover *m)
{
	return m->pid > 0;
}

int mover_fd(const struct mover *m)
{
	return m->pid > 0 ? m->pidfd : -EBADF;
}

/* The program may ignore SIGCHLD, or wait for any child, so the pidfd reports the end. The wait
 * status is known only if this call gets it. */
static bool was_killed(const struct mover *m)
{
	struct pollfd fd = { .fd = m->pidfd, .events = POLLIN };
	int status = 0;
	pid_t pid;

	while (m->pidfd >= 0 && poll(&fd, 1, -1) < 0)
		;
	do {
		pid = waitpid(m->pid, &status, 0);
	} while (pid < 0 && errno == EINTR);
	return pid == m->pid && WIFSIGNALED(status);
}

void mover_wait(struct mover *m)
{
	if (m->pid <= 0)
		return;
	/* Atoll removes the killed mover's leftovers when the sandbox is used the next time. */
	if (was_killed(m)) {
		rename_reply(&m->waiting, -EIO);
		if (m->door->set)
			(void)m->door->set(false, m->door->arg);
	}
	fd_close(m->pidfd);
	*m = (struct mover){ 0 };
}
