/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A control group of a run's own, where the user was given a part of the tree (cgroup v2): beside the one this process is in, or further
 * up, in the nearest directory that has the controllers wanted and lets us make another.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "base/fd.h"
#include "base/strbuf.h"
#include "jail/private.h"

#define PREFIX "atoll-"

/* The value of one line: "memory pids". Empty if it cannot be read. */
static char *read_line(const char *dir, const char *name)
{
	AUTO_FREE char *path = str_format("%s/%s", dir, name);
	char *text = NULL;

	if (!path || fd_read_file(AT_FDCWD, path, 1 << 16, &text, NULL) < 0)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static int write_line(const char *dir, const char *name, const char *text)
{
	AUTO_FREE char *path = str_format("%s/%s", dir, name);
	AUTO_FD fd = path ? open(path, O_WRONLY | O_CLOEXEC) : -EBADF;

	if (fd < 0)
		return path ? -errno : -ENOMEM;
	return write(fd, text, strlen(text)) < 0 ? -errno : 0;
}

static bool has_word(const char *words, const char *word)
{
	size_t n = strlen(word);

	for (const char *p = words; p && *p; p += strspn(p, " ")) {
		if (strcspn(p, " ") == n && strncmp(p, word, n) == 0)
			return true;
		p += strcspn(p, " ");
	}
	return false;
}

char *cgroup_parse_own(const char *text)
{
	const char *line = strncmp(text, "0::/", 4) == 0 ? text : strstr(text, "\n0::/");

	if (!line)
		return NULL;
	line = strchr(line, '/');
	return strndup(line, strcspn(line, "\n"));
}

/* Fields 4 and 5 of the line whose filesystem, behind " - ", is cgroup2: the root of the mount, and where it is. */
char *cgroup_parse_mount(const char *text, char **ret_root)
{
	for (const char *line = text, *next; *line; line = next) {
		char root[512], point[512];
		const char *kind;

		next = line + strcspn(line, "\n");
		kind = memmem(line, (size_t)(next - line), " - cgroup2 ", 11);
		next += *next == '\n';
		if (!kind || sscanf(line, "%*s %*s %*s %511s %511s", root, point) != 2)
			continue;
		*ret_root = strdup(root);
		return strdup(point);
	}
	return NULL;
}

/* Where this process is in the tree, as a directory, and the length of the part that cannot be left. */
static char *find_own(size_t *ret_top)
{
	AUTO_FREE char *cgroups = NULL;
	AUTO_FREE char *mounts = NULL;
	AUTO_FREE char *own = NULL;
	AUTO_FREE char *root = NULL;
	AUTO_FREE char *point = NULL;
	size_t skip;

	if (fd_read_file(AT_FDCWD, "/proc/self/cgroup", 1 << 16, &cgroups, NULL) < 0 ||
	    fd_read_file(AT_FDCWD, "/proc/self/mountinfo", 1 << 22, &mounts, NULL) < 0)
		return NULL;
	own = cgroup_parse_own(cgroups);
	point = cgroup_parse_mount(mounts, &root);
	if (!own || !point || !root)
		return NULL;
	skip = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strncmp(own, root, skip) != 0)
		return NULL;
	*ret_top = strlen(point);
	return str_format("%s%s", point, strcmp(own + skip, "/") == 0 ? "" : own + skip);
}

bool cgroup_offers(const char *dir, const char *const *controllers)
{
	AUTO_FREE char *given = read_line(dir, "cgroup.subtree_control");
	AUTO_FREE char *there = read_line(dir, "cgroup.controllers");

	for (; *controllers; controllers++) {
		char request[32];

		if (has_word(given, *controllers))
			continue;
		snprintf(request, sizeof(request), "+%s", *controllers);
		if (!has_word(there, *controllers) || write_line(dir, "cgroup.subtree_control", request) < 0)
			return false;
	}
	return true;
}

/* Whether groups can be made below it, and processes be brought there. One with processes of its own cannot be divided: the kernel
 * refuses it the controller of memory, and with others makes groups below it into which no process can go. Only the root, which has no
 * type, may have both. */
bool cgroup_is_divisible(const char *dir)
{
	AUTO_FREE char *type = read_line(dir, "cgroup.type");
	AUTO_FREE char *processes = read_line(dir, "cgroup.procs");
	AUTO_FREE char *path = str_format("%s/cgroup.procs", dir);

	return path && access(dir, W_OK) == 0 && access(path, W_OK) == 0 && processes &&
	       (!type || (strcmp(type, "domain") == 0 && !*processes));
}

/* Those of runs whose atoll was killed. */
static void sweep(const char *dir)
{
	DIR *d = opendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		long pid = strncmp(e->d_name, PREFIX, strlen(PREFIX)) == 0
				   ? strtol(e->d_name + strlen(PREFIX), NULL, 10)
				   : 0;

		if (pid > 0 && kill((pid_t)pid, 0) < 0 && errno == ESRCH)
			(void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
}

static char *make_below(const char *dir)
{
	for (int i = 0; i < 100; i++) {
		AUTO_FREE char *path = str_format("%s/" PREFIX "%d-%d", dir, (int)getpid(), i);

		if (!path)
			return NULL;
		if (mkdir(path, 0755) == 0)
			return TAKE_PTR(path);
		if (errno != EEXIST)
			return NULL;
	}
	return NULL;
}

char *cgroup_make(const char *const *controllers)
{
	size_t top = 0;
	AUTO_FREE char *dir = find_own(&top);

	while (dir) {
		if (cgroup_is_divisible(dir) && cgroup_offers(dir, controllers)) {
			sweep(dir);
			return make_below(dir);
		}
		if (strlen(dir) <= top)
			break;
		*strrchr(dir, '/') = '\0';
	}
	return NULL;
}

int cgroup_set(const char *cgroup, const char *name, const char *format, ...)
{
	char text[64];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return write_line(cgroup, name, text);
}

uint64_t cgroup_event(const char *cgroup, const char *file, const char *event)
{
	AUTO_FREE char *path = str_format("%s/%s", cgroup, file);
	AUTO_FREE char *text = NULL;
	size_t n = strlen(event);

	if (!path || fd_read_file(AT_FDCWD, path, 1 << 16, &text, NULL) < 0)
		return 0;
	for (const char *line = text; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, event, n) == 0 && line[n] == ' ')
			return strtoull(line + n, NULL, 10);
	return 0;
}

/* What is in it is dead, but may not be gone from it yet. */
void cgroup_remove(const char *cgroup)
{
	for (int i = 0; i < 200 && rmdir(cgroup) < 0 && errno == EBUSY; i++)
		usleep(5000);
}
