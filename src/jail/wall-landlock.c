/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Landlock, the second wall: the command writes below what is mounted writable in its view and nowhere else. It holds where mounts do
 * not, e.g. for a file of the host that came as standard input and is opened again through /proc. A file that came open for writing is the
 * exception: the command may write to it anyway, and programs open /dev/stdout and /dev/stderr. That very file, and nothing else. Child side.
 *
 * Only writing is handled: reading is a matter of the view, and costs nothing so.
 */
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "jail/calls.h"
#include "jail/private.h"

#define BUFFER_SIZE (16 * PATH_MAX) /* paths may be longer than PATH_MAX, and each byte may be written as four */

/* Not in every header. */
#define ACCESS_REFER (1ULL << 13)    /* version 2 */
#define ACCESS_TRUNCATE (1ULL << 14) /* version 3 */
#define SCOPE_ABSTRACT (1ULL << 0)   /* version 6 */
#define SCOPE_SIGNAL (1ULL << 1)
struct rules_attr {
	uint64_t fs, net, scoped;
};

#define FILE_ACCESS (LANDLOCK_ACCESS_FS_WRITE_FILE | ACCESS_TRUNCATE)
#define DIR_ACCESS                                                                                     \
	(FILE_ACCESS | ACCESS_REFER | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |    \
	 LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_SYM)
#define HANDLED (DIR_ACCESS | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

static uint64_t known(int version)
{
	uint64_t all = HANDLED;

	if (version < 2)
		all &= ~ACCESS_REFER;
	if (version < 3)
		all &= ~ACCESS_TRUNCATE;
	return all;
}

static int allow(int rules, const char *path, uint64_t handled)
{
	struct landlock_path_beneath_attr beneath = { 0 };
	AUTO_FD fd = mount_open_path(path, MOUNT_MAKE_NOTHING);
	struct stat st;

	/* Something else may have been mounted over it, or over the way to it. */
	if (fd < 0)
		return fd == -ENOENT || fd == -EACCES || fd == -ENOTDIR ? 0 : fd;
	if (fstat(fd, &st) < 0)
		return -errno;
	beneath.parent_fd = fd;
	beneath.allowed_access = (S_ISDIR(st.st_mode) ? DIR_ACCESS : FILE_ACCESS) & handled;
	return syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0) < 0 ? -errno : 0;
}

/* "36 35 98:0 /root /path rw,noatime …" */
static int allow_line(int rules, const char *line, uint64_t handled)
{
	static char path[BUFFER_SIZE];
	size_t n = 0;

	for (int i = 0; i < 4; i++) {
		line = strchr(line, ' ');
		if (!line)
			return 0;
		line++;
	}
	while (*line && *line != ' ' && n + 1 < sizeof(path))
		path[n++] = mount_decode(&line);
	path[n] = '\0';
	return strncmp(line, " rw", 3) == 0 ? allow(rules, path, handled) : 0;
}

/* The file comes in pieces that end anywhere; buffer holds what is left of the last one. */
static int allow_view(int rules, uint64_t handled)
{
	static char buffer[BUFFER_SIZE];
	AUTO_FD fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
	size_t left = 0;
	ssize_t n;
	int r = 0;

	if (fd < 0)
		return -errno;
	while (r == 0 && (n = read(fd, buffer + left, sizeof(buffer) - 1 - left)) > 0) {
		char *line = buffer, *end;

		buffer[left + (size_t)n] = '\0';
		while (r == 0 && (end = strchr(line, '\n'))) {
			*end = '\0';
			r = allow_line(rules, line, handled);
			line = end + 1;
		}
		left = strlen(line);
		memmove(buffer, line, left);
	}
	return r;
}

int wall_landlock_allow(int rules, int fd)
{
	int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_path_beneath_attr file = { .parent_fd = fd, .allowed_access = FILE_ACCESS & known(version) };
	int flags = rules < 0 ? -1 : fcntl(fd, F_GETFL);
	struct stat st;

	if (flags < 0 || (flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY || fstat(fd, &st) < 0 ||
	    (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode)))
		return 0;
	/* What has no place in any tree (a pipe, a file in memory) is not handled by Landlock, and needs no rule. */
	if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &file, 0) < 0 && errno != EBADFD)
		return -errno;
	return 0;
}

int wall_landlock_restrict(int rules)
{
	return rules >= 0 && syscall(SYS_landlock_restrict_self, rules, (uint64_t)LANDLOCK_OWN << 32) < 0 ? -errno : 0;
}

int wall_landlock(bool host_net)
{
	int version = (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct rules_attr attr = { .fs = known(version) };
	AUTO_FD rules = -EBADF;
	int r;

	/* The first version refuses every rename into another directory, which tools need. */
	if (version < 2)
		return -EBADF;
	if (version >= 6)
		attr.scoped = SCOPE_SIGNAL | (host_net ? SCOPE_ABSTRACT : 0);
	rules = (int)syscall(SYS_landlock_create_ruleset, &attr, version >= 6 ? sizeof(attr) : sizeof(attr.fs), 0);
	if (rules < 0)
		return -errno;
	r = allow_view(rules, known(version));
	return r < 0 ? r : TAKE_FD(rules);
}
