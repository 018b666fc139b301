/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rename with the rights of the process that asked for it. An ordinary user's processes mostly have the caller's; those that have become
 * one of his subordinate users are left to the kernel. Root's command may have become anybody, who must not be helped to more than he could
 * do himself: a child takes on his ids, groups and capabilities, and finds the directories once more.
 */
#include <fcntl.h>
#include <linux/capability.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "jail/private.h"

#define GROUPS_MAX 1024
#define BIT(capability) (1ULL << (capability))

struct rights {
	uid_t uid;
	gid_t gid, groups[GROUPS_MAX];
	size_t n_groups;
	uint64_t capabilities;
};

struct asked {
	const struct rename_side *from, *to;
	unsigned flags;
	struct rights rights;
};

static const char *find_line(const char *text, const char *name)
{
	const char *at = strstr(text, name);

	return at ? at + strlen(name) : NULL;
}

static int parse(const char *text, struct rights *ret)
{
	const char *uids = find_line(text, "\nUid:"), *gids = find_line(text, "\nGid:");
	const char *groups = find_line(text, "\nGroups:"), *caps = find_line(text, "\nCapEff:");
	char *end;

	/* The fourth is what counts for files. */
	if (!uids || !gids || !groups || !caps || sscanf(uids, "%*u %*u %*u %u", &ret->uid) != 1 ||
	    sscanf(gids, "%*u %*u %*u %u", &ret->gid) != 1)
		return -EIO;
	ret->capabilities = strtoull(caps, NULL, 16);
	for (ret->n_groups = 0;; ret->n_groups++, groups = end) {
		groups += strspn(groups, " \t");
		if (*groups == '\n' || *groups == '\0')
			return 0;
		if (ret->n_groups == GROUPS_MAX)
			return -E2BIG;
		ret->groups[ret->n_groups] = (gid_t)strtoul(groups, &end, 10);
		if (end == groups)
			return -EIO;
	}
}

static int read_rights(pid_t pid, struct rights *ret)
{
	AUTO_FREE char *text = NULL;
	char path[32];
	int r;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	r = fd_read_file(AT_FDCWD, path, 1 << 16, &text, NULL);
	return r < 0 ? r : parse(text, ret);
}

static bool is_powerful(const struct rights *r)
{
	const uint64_t all = BIT(CAP_DAC_OVERRIDE) | BIT(CAP_FOWNER);

	return r->uid == 0 && (r->capabilities & all) == all;
}

/* The calls themselves: those of the library would tell threads that are not here. */
static int take_on(const struct rights *r)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { 0 };

	for (size_t i = 0; i < ARRAY_SIZE(data); i++)
		data[i].effective = data[i].permitted = (uint32_t)(r->capabilities >> (32 * i));
	if (syscall(SYS_setgroups, r->n_groups, r->groups) < 0 || syscall(SYS_setresgid, r->gid, r->gid, r->gid) < 0 ||
	    syscall(SYS_setresuid, r->uid, r->uid, r->uid) < 0)
		return -errno;
	/* Another uid has lost them all. */
	return r->uid == 0 && syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

static int open_again(const struct rename_side *s)
{
	struct stat found, known;
	int fd = rename_open_dir(s);

	if (fd < 0)
		return fd;
	if (fstat(fd, &found) == 0 && fstat(s->dir, &known) == 0 && found.st_dev == known.st_dev &&
	    found.st_ino == known.st_ino)
		return fd;
	close(fd);
	return -ESTALE;
}

static int rename_now(int from, int to, const struct asked *a)
{
	return renameat2(from, a->from->name, to, a->to->name, a->flags) < 0 ? -errno : 0;
}

/* Child side: the exit status is the error. */
static int rename_as(int setup, void *arg)
{
	const struct asked *a = arg;
	int from, to, r = take_on(&a->rights);

	(void)setup;
	if (r < 0)
		return EPERM;
	from = open_again(a->from);
	to = open_again(a->to);
	return -(from < 0 ? from : to < 0 ? to : rename_now(from, to, a));
}

int rights_rename(pid_t pid, const struct rename_side *from, const struct rename_side *to, unsigned flags)
{
	struct asked a = { .from = from, .to = to, .flags = flags };
	struct spawn child;
	int r = read_rights(pid, &a.rights);

	if (r < 0)
		return r;
	if (jail_is_root() ? is_powerful(&a.rights) : a.rights.uid == geteuid())
		return rename_now(from->dir, to->dir, &a);
	if (!jail_is_root())
		return 1;
	r = spawn_plain(rename_as, &a, &child);
	if (r == 0)
		r = spawn_wait(&child);
	if (r < 0)
		return r;
	return WIFEXITED(r) ? -WEXITSTATUS(r) : -EIO;
}
