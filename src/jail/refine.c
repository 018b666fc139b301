/* SPDX-License-Identifier: Apache-2.0 */
/*
 * System calls that the kernel answers differently inside. The filter (wall-seccomp.c) reports them
 * to the caller together with the renames: chown() only for the commands of ordinary users.
 *
 * chown() to an id that the user namespace does not map gives EINVAL, where it gives EPERM outside,
 * and programs that expect that one (dpkg, tar, rsync) take the other for a serious mistake.
 *
 * link() to a file of the original gives the new name another inode number than the old one had
 * until then: an overlay in a user namespace cannot keep the number, and root's cannot if the file
 * has several names. git compares the numbers and gives up (clone of a local repository: "hardlink
 * different from source"). If link() fails, git copies the file, so the caller refuses the call.
 *
 * Neither is a wall: what is answered here is a refusal in either case, or left to the kernel.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include "base/fd.h"
#include "jail/private.h"

#define UNCHANGED UINT32_MAX
#define MAP_MAX 65536

/* ---- chown ---- */

/* Whether the process can speak of the id: the map has lines of "inside outside count". */
static bool is_mapped(pid_t pid, const char *map, uint32_t id)
{
	AUTO_FREE char *text = NULL;
	char path[48], *save = NULL;
	unsigned first, outside, count;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, map);
	if (id == UNCHANGED || fd_read_file(AT_FDCWD, path, MAP_MAX, &text, NULL) < 0)
		return true;
	for (const char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		if (sscanf(line, "%u %u %u", &first, &outside, &count) == 3 && id >= first && id - first < count)
			return true;
	return false;
}

/* What is not there is told by the kernel, as it is outside. */
static bool path_is_there(pid_t pid, int dirfd, uint64_t address)
{
	CLEANUP(rename_side_release) struct rename_side side = { .base = -EBADF, .dir = -EBADF };
	struct stat st;
	int r = rename_read_side(pid, dirfd, address, &side);

	/* "." and the like, which are; an empty path is not. */
	if (r == -EINVAL)
		return side.path && *side.path;
	return r == 0 && fstatat(side.dir, side.name, &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool fd_is_there(pid_t pid, int fd)
{
	char path[48];

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
	return faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int answer_chown(pid_t pid, const __u64 *ids, bool (*is_there)(pid_t pid, const __u64 *args), const __u64 *args)
{
	if (is_mapped(pid, "uid_map", (uint32_t)ids[0]) && is_mapped(pid, "gid_map", (uint32_t)ids[1]))
		return 1;
	return is_there(pid, args) ? -EPERM : 1;
}

static bool is_there_by_path(pid_t pid, const __u64 *args)
{
	return path_is_there(pid, AT_FDCWD, args[0]);
}

static bool is_there_by_fd(pid_t pid, const __u64 *args)
{
	return fd_is_there(pid, (int)args[0]);
}

static bool is_there_at(pid_t pid, const __u64 *args)
{
	return args[4] & AT_EMPTY_PATH ? fd_is_there(pid, (int)args[0]) || path_is_there(pid, (int)args[0], args[1])
				       : path_is_there(pid, (int)args[0], args[1]);
}

/* ---- link ---- */

static bool is_git(pid_t pid)
{
	char path[48], program[PATH_MAX];
	ssize_t size;
	const char *name;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	size = readlink(path, program, sizeof(program) - 1);
	program[size < 0 ? 0 : size] = '\0';
	name = strrchr(program, '/');
	return name && strcmp(name + 1, "git") == 0;
}

static bool keeps_number(const struct rename_side *file)
{
	struct stat st;

	return jail_is_root() && fstatat(file->dir, file->name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_nlink == 1;
}

static int answer_link(pid_t pid, int dirfd, uint64_t address)
{
	CLEANUP(rename_side_release) struct rename_side side = { .base = -EBADF, .dir = -EBADF };
	struct statfs fs;

	if (!is_git(pid) || rename_read_side(pid, dirfd, address, &side) < 0 || keeps_number(&side))
		return 1;
	return fstatfs(side.dir, &fs) == 0 && fs.f_type == OVERLAYFS_SUPER_MAGIC ? -EXDEV : 1;
}

/* ---- both ---- */

int refine_answer(const struct seccomp_notif *n)
{
	const __u64 *a = n->data.args;
	pid_t pid = (pid_t)n->pid;

	switch (n->data.nr) {
#ifdef SYS_chown
	case SYS_chown:
	case SYS_lchown:
		return answer_chown(pid, a + 1, is_there_by_path, a);
#endif
	case SYS_fchown:
		return answer_chown(pid, a + 1, is_there_by_fd, a);
	case SYS_fchownat:
		return answer_chown(pid, a + 2, is_there_at, a);
#ifdef SYS_link
	case SYS_link:
		return answer_link(pid, AT_FDCWD, a[0]);
#endif
	case SYS_linkat:
		return answer_link(pid, (int)a[0], a[1]);
	default:
		return -ENOSYS;
	}
}
