/* SPDX-License-Identifier: Apache-2.0 */
/* The handle: one state directory. */
#include "engine/engine.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/sys.h"

static char *default_state_dir(void)
{
	const char *env = getenv("ATOLL_STATE_DIR");

	if (env && *env)
		return strdup(env);
	if (geteuid() == 0)
		return strdup("/var/lib/atoll");
	env = getenv("XDG_STATE_HOME");
	if (env && *env == '/')
		return str_format("%s/atoll", env);
	env = getenv("HOME");
	return env && *env == '/' ? str_format("%s/.local/state/atoll", env) : NULL;
}

/* Like mkdir -p, for a path given from outside: links in it are followed, what is made gets mode 0700. */
static int make_dirs(const char *path)
{
	AUTO_FREE char *at = strdup(path);

	if (!at)
		return -ENOMEM;
	for (char *slash = strchr(at + 1, '/');; slash = strchr(slash + 1, '/')) {
		int r;

		if (slash)
			*slash = 0;
		r = sys_mkdir(AT_FDCWD, at, 0700);
		if (r < 0 && r != -EEXIST && (r != -EACCES && r != -EROFS && r != -EPERM))
			return r;
		if (!slash)
			return r == -EEXIST ? 0 : r;
		*slash = '/';
	}
}

static int check_owner(int fd, const char *path, struct atoll_error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_sys(err, errno, "open", path, "cannot look at the state directory \"%s\"", path);
	if (st.st_uid != geteuid())
		return error_set(
			err, ATOLL_REFUSED, EPERM, "open", path,
			"the state directory \"%s\" belongs to another user; choose one with --state-dir or ATOLL_STATE_DIR",
			path);
	if (st.st_mode & 022)
		return error_set(
			err, ATOLL_REFUSED, EPERM, "open", path,
			"the state directory \"%s\" may be written by others; chmod go-w it, or choose another", path);
	return 0;
}

/* Inside a sandbox the state directory is covered by an empty one that nobody may enter. */
static int cannot_use(const char *path, int error, struct atoll_error *err)
{
	struct stat st;

	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) && (st.st_mode & 07777) == 0)
		return error_set(
			err, ATOLL_REFUSED, error < 0 ? -error : error, "open", path,
			"the state directory \"%s\" is hidden inside a sandbox; choose another with --state-dir or ATOLL_STATE_DIR",
			path);
	return error_sys(err, error, "open", path, "cannot use the state directory \"%s\"", path);
}

static int open_state(struct atoll *a, const char *wanted, struct atoll_error *err)
{
	int r = make_dirs(wanted);

	if (r >= 0)
		a->state_fd = open(wanted, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r < 0 || a->state_fd < 0)
		return cannot_use(wanted, r < 0 ? r : errno, err);
	a->state_dir = realpath(wanted, NULL);
	if (!a->state_dir)
		return error_sys(err, errno, "open", wanted, "cannot resolve the state directory \"%s\"", wanted);
	r = check_owner(a->state_fd, a->state_dir, err);
	if (r < 0)
		return r;
	r = sys_mkdir(a->state_fd, "boxes", 0700);
	if (r >= 0 || r == -EEXIST)
		r = sys_mkdir(a->state_fd, "locks", 0700);
	if (r < 0 && r != -EEXIST)
		return cannot_use(a->state_dir, r, err);
	return 0;
}

/* An old filter of a container refuses system calls that it does not know. Without this check,
 * later errors would wrongly say "no such file" or "may not be written". */
static int check_calls(struct atoll_error *err)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC };
	AUTO_FD fd = (int)syscall(SYS_openat2, AT_FDCWD, "/", &how, sizeof how);
	const char *missing = fd < 0 && (errno == ENOSYS || errno == EPERM) ? "openat2" : NULL;
	int error = errno;

	if (!missing && syscall(SYS_faccessat2, AT_FDCWD, "/", F_OK, AT_EACCESS) < 0 &&
	    (errno == ENOSYS || errno == EPERM)) {
		missing = "faccessat2";
		error = errno;
	}
	if (!missing)
		return 0;
	return error_sys(
		err, error, "open", NULL,
		"a filter of system calls refuses %s, which Atoll needs to check its access to files; use a "
		"container runtime that knows the calls of Linux 5.12, or start the container with --security-opt "
		"seccomp=unconfined",
		missing);
}

static int check_proc(struct atoll_error *err)
{
	struct stat st;

	if (stat("/proc/self/fd", &st) == 0)
		return 0;
	return error_sys(err, errno, "open", "/proc",
			 "/proc is not mounted here, and Atoll needs it (mount -t proc proc /proc)");
}

int atoll_open(const struct atoll_options *options, struct atoll **ret, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	AUTO_FREE char *wanted = NULL;
	struct atoll *a;
	int r;

	if (!ret)
		return error_set(err, ATOLL_INVALID, 0, "open", NULL, "no place was given for the handle");
	r = check_proc(err);
	if (r >= 0)
		r = check_calls(err);
	if (r < 0)
		return r;
	wanted = options && options->state_dir ? strdup(options->state_dir) : default_state_dir();
	if (!wanted || !*wanted)
		return error_set(
			err, ATOLL_INVALID, 0, "open", NULL,
			"no state directory: set ATOLL_STATE_DIR or HOME to an absolute path, or use --state-dir");
	a = calloc(1, sizeof *a);
	if (!a)
		return error_oom(err, "open");
	a->state_fd = -EBADF;
	r = open_state(a, wanted, err);
	if (r < 0) {
		atoll_close(a);
		return r;
	}
	*ret = a;
	return 0;
}

struct atoll *atoll_close(struct atoll *a)
{
	if (!a)
		return NULL;
	fd_close(a->state_fd);
	free(a->state_dir);
	free(a);
	return NULL;
}

const char *atoll_state_dir(const struct atoll *a)
{
	return a->state_dir;
}
