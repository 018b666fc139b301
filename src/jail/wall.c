/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a command may not do, put up in the command's own process right before exec, when nothing has to be mounted any more. Child side.
 *
 *   fds            all but the standard ones are closed by exec
 *   capabilities   an ordinary user's command has none, in no namespace. Root's enters a user namespace with all of the host's ids, and
 *                  has there those that work on files and identities: over the host, its mounts and its settings it has none. So does
 *                  one that a user runs as root inside, in a namespace in which root is the user
 *   Landlock       wall-landlock.c
 *   seccomp        wall-seccomp.c, the last, since it refuses what the others need
 *
 * no_new_privs was set by pid 1.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "base/fd.h"
#include "jail/private.h"

#define BIT(capability) (1ULL << (capability))

/* What root needs to handle files of many owners, and to become somebody else, in its own user namespace. */
static const uint64_t kept_by_root = BIT(CAP_CHOWN) | BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER) | BIT(CAP_FSETID) |
				     BIT(CAP_KILL) | BIT(CAP_SETGID) | BIT(CAP_SETUID) | BIT(CAP_SETPCAP) |
				     BIT(CAP_NET_BIND_SERVICE);

static int close_on_exec(const struct wall *w)
{
	fd_close_on_exec(STDERR_FILENO + 1);
	for (size_t i = 0; i < w->n_pass_fds; i++) {
		if (fcntl(w->pass_fds[i], F_SETFD, 0) < 0)
			return -errno;
	}
	return 0;
}

static int drop_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	/* The kernel says where they end. */
	for (unsigned long i = 0; i < CHAR_BIT * sizeof(kept); i++) {
		if (!(kept & BIT(i)) && prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0) {
			if (errno == EINVAL)
				break;
			return -errno;
		}
	}
	(void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
	for (size_t i = 0; i < ARRAY_SIZE(data); i++)
		data[i].effective = data[i].permitted = (uint32_t)(kept >> (32 * i));
	return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int leave_initial_userns(const struct wall *w)
{
	if (w->userns_fd >= 0 && setns(w->userns_fd, CLONE_NEWUSER) < 0)
		return -errno;
	return 0;
}

static int note(struct wall_failure *ret, const char *means, int r)
{
	if (r >= 0)
		return 0;
	*ret = (struct wall_failure){ .means = means, .error = -r };
	return -1;
}

void wall_tell(const struct wall_failure *w, struct view_failure *ret)
{
	size_t n = MIN(w->means ? strlen(w->means) : 0, sizeof(ret->detail) - 1);

	ret->step = w->error != 0 ? VIEW_STEP_WALL : VIEW_STEP_NONE;
	ret->error = w->error;
	memcpy(ret->detail, w->means ? w->means : "", n);
	ret->detail[n] = '\0';
}

static const char landlock[] = "Landlock (landlock_create_ruleset and the calls beside it)";

int wall_close(int rules, const int stdio[3], struct wall_failure *ret)
{
	int r = 0;

	for (int i = 0; i < 3 && r == 0; i++)
		r = wall_landlock_allow(rules, stdio[i]);
	if (r == 0)
		r = wall_landlock_restrict(rules);
	return note(ret, landlock, r);
}

/* Landlock's rules, and the wall itself unless that is to wait. */
static int raise_landlock(const struct wall *w, int *ret_rules, struct wall_failure *ret)
{
	AUTO_FD rules = wall_landlock(w->host_net);
	int r = rules == -EBADF ? 0 : MIN(rules, 0);

	for (size_t i = 0; i < w->n_pass_fds && r == 0; i++)
		r = wall_landlock_allow(rules, w->pass_fds[i]);
	if (r < 0)
		return note(ret, landlock, r);
	if (!ret_rules)
		return wall_close(rules, (const int[]){ STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO }, ret);
	*ret_rules = TAKE_FD(rules);
	return 0;
}

static enum wall_reports reports_of(const struct wall *w)
{
	return w->reports_all ? WALL_REPORTS_ALL : w->reports_names ? WALL_REPORTS_NAMES : WALL_REPORTS_NOTHING;
}

int wall_raise(const struct wall *w, int *ret_listener, int *ret_rules, struct wall_failure *ret)
{
	int r = note(ret, "entering the command's user namespace (setns)", leave_initial_userns(w));

	if (r == 0)
		r = raise_landlock(w, ret_rules, ret);
	if (r == 0)
		r = note(ret, "closing files (fcntl)", close_on_exec(w));
	if (r == 0)
		r = note(ret, "giving up capabilities (prctl, capset)", drop_capabilities(w->root ? kept_by_root : 0));
	/* A change of capabilities may have set it, and pid 1's memory is still shared. */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (r < 0)
		return r;
	return note(ret, "a filter of system calls (seccomp)", wall_filter(w->userns, reports_of(w), ret_listener));
}
