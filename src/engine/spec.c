/* SPDX-License-Identifier: Apache-2.0 */
/* What may be a resource, and by which strategy. */
#include "engine/sandbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>

#include "jail/jail.h"

/* These directories need allow_system, but directories in them do not. */
static const char *const system_dirs[] = { "/bin",   "/boot",    "/dev/shm", "/etc",     "/home",      "/lib",
					   "/lib32", "/lib64",   "/libx32",  "/media",   "/mnt",       "/opt",
					   "/sbin",  "/srv",     "/tmp",     "/usr",     "/usr/local", "/usr/src",
					   "/var",   "/var/lib", "/var/log", "/var/tmp", "/var/cache", "/var/spool" };
/* These directories and everything in them need allow_system. */
static const char *const system_trees[] = { "/bin",         "/boot",      "/lib",        "/lib32",    "/lib64",
					    "/libx32",      "/sbin",      "/usr/bin",    "/usr/sbin", "/usr/lib",
					    "/usr/libexec", "/usr/share", "/usr/include" };

/* Paths that Atoll refuses in any case, and why. */
static const struct {
	const char *path, *but; /* but: NULL, or the one directory in it that is not refused */
	bool tree;              /* together with everything in it */
	const char *why;
} impossible[] = {
	{ "/", NULL, false, "it holds all filesystems, and Atoll's own files; name directories in it" },
	{ "/dev", "/dev/shm", true, "its entries are devices, which have no content to commit" },
	{ "/proc", NULL, true, "the kernel makes its files, which cannot be exchanged for others" },
	{ "/run", NULL, true,
	  "services keep sockets and locks there, which are gone after a restart; each sandbox has an empty one" },
	{ "/sys", NULL, true, "the kernel makes its files, which cannot be exchanged for others" },
};

static const char *find_impossible(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(impossible); i++)
		if (strcmp(path, impossible[i].path) == 0 ||
		    (impossible[i].tree && path_is_below(path, impossible[i].path) &&
		     !(impossible[i].but && path_is_below(path, impossible[i].but))))
			return impossible[i].why;
	return NULL;
}

static bool is_system(const char *path)
{
	for (size_t i = 0; i < ARRAY_SIZE(system_dirs); i++)
		if (strcmp(path, system_dirs[i]) == 0)
			return true;
	for (size_t i = 0; i < ARRAY_SIZE(system_trees); i++)
		if (path_is_below(path, system_trees[i]))
			return true;
	return false;
}

static int check_system(const struct atoll_resource_spec *spec, const char *path, struct atoll_error *err)
{
	const char *why = find_impossible(path);

	if (why)
		return error_set(err, ATOLL_REFUSED, 0, "new", path, "\"%s\" cannot be held: %s", path, why);
	if (spec->allow_system || !is_system(path))
		return 0;
	return error_set(
		err, ATOLL_REFUSED, 0, "new", path,
		"\"%s\" belongs to the system: name a directory of your own in it, or allow directories of the system "
		"(--allow-system)",
		path);
}

/* mountinfo writes space, tab, newline and backslash as octal escapes. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *at = text; *at; at++) {
		if (at[0] == '\\' && at[1] && at[2] && at[3]) {
			*to++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
			at += 3;
		} else {
			*to++ = *at;
		}
	}
	*to = 0;
}

char *spec_find_submount(const char *path, bool (*skip)(const char *mount, const void *arg), const void *arg)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	AUTO_FREE char *line = NULL;
	char *found = NULL;
	size_t size = 0;

	while (f && !found && getline(&line, &size, f) > 0) {
		char *save = NULL, *field = strtok_r(line, " ", &save);

		for (int i = 0; field && i < 4; i++)
			field = strtok_r(NULL, " ", &save);
		if (!field)
			continue;
		unescape(field);
		if (strcmp(field, path) != 0 && path_is_below(field, strcmp(path, "/") == 0 ? "" : path) &&
		    !(skip && skip(field, arg)))
			found = strdup(field);
	}
	if (f)
		fclose(f);
	return found;
}

static int resolve_path(const struct atoll_resource_spec *spec, char **ret, struct stat *st, struct atoll_error *err)
{
	AUTO_FREE char *real = NULL;
	struct stat meant;

	if (!spec->path || !*spec->path)
		return error_set(err, ATOLL_INVALID, 0, "new", NULL, "a resource's path is empty");
	real = realpath(spec->path, NULL);
	if (!real && errno == ENAMETOOLONG)
		return error_set(err, ATOLL_INVALID, errno, "new", spec->path, "the path \"%.64s…\" is too long",
				 spec->path);
	if (!real && (errno == ENOENT || errno == ENOTDIR))
		return error_set(err, ATOLL_NOT_FOUND, errno, "new", spec->path, "there is no \"%s\"", spec->path);
	if (!real)
		return error_sys(err, errno, "new", spec->path, "cannot resolve \"%s\"", spec->path);
	if (stat(real, st) < 0 || stat(spec->path, &meant) < 0)
		return error_sys(err, errno, "new", spec->path, "cannot look at \"%s\"", spec->path);
	/* The text of /proc/PID/root says "/", which is another directory where that process has a root of its own. */
	if (meant.st_dev != st->st_dev || meant.st_ino != st->st_ino)
		return error_set(
			err, ATOLL_REFUSED, 0, "new", spec->path,
			"\"%s\" lies in the root directory of another process, in which the name of an original is another file; name a path outside of /proc",
			spec->path);
	*ret = TAKE_PTR(real);
	return 0;
}

static int check_kind(const struct atoll_resource_spec *spec, const char *path, const struct stat *st,
		      struct atoll_error *err)
{
	if (spec->kind == ATOLL_KIND_DIR && !S_ISDIR(st->st_mode))
		return error_set(err, ATOLL_REFUSED, ENOTDIR, "new", path,
				 "\"%s\" is not a directory; use --file for a file", path);
	if (spec->kind == ATOLL_KIND_GIT && !S_ISDIR(st->st_mode))
		return error_set(err, ATOLL_REFUSED, ENOTDIR, "new", path, "\"%s\" is not a directory", path);
	if (kind_is_file(spec->kind) && !S_ISREG(st->st_mode))
		return error_set(err, ATOLL_REFUSED, 0, "new", path, "\"%s\" is not a regular file", path);
	return 0;
}

/* A directory of mode 0555 that is the user's own can be written with capabilities; one of somebody else's cannot. */
static int check_access(int root_fd, const char *root_path, struct atoll_error *err)
{
	struct tree_stat st;
	int r = tree_stat(root_fd, "", &st);

	if (r < 0)
		return error_sys(err, r, "new", root_path, "cannot look at \"%s\"", root_path);
	if (faccessat(root_fd, ".", W_OK | X_OK, AT_EACCESS) == 0)
		return 0;
	if (errno == EROFS)
		return error_set(err, ATOLL_REFUSED, EROFS, "new", root_path,
				 "\"%s\" is on a read-only filesystem: nothing could be committed to it", root_path);
	if (st.uid == geteuid() && jail_probe_userns() == 0)
		return 0;
	return error_set(err, ATOLL_REFUSED, EACCES, "new", root_path,
			 "\"%s\" may not be written: nothing could be committed to it", root_path);
}

/* What is no file: whoever would serve it looks whether that is possible. */
static int resolve_remote(const struct atoll_resource_spec *spec, struct store_resource *ret, struct atoll_error *err)
{
	if (!spec->path || !*spec->path)
		return error_set(err, ATOLL_INVALID, 0, "new", NULL, "no database was given");
	for (size_t i = 0; strategy_all[i]; i++)
		if ((strategy_all[i]->kinds & STRATEGY_SERVES(spec->kind)) && strategy_all[i]->resolve) {
			ret->kind = spec->kind;
			return strategy_all[i]->resolve(spec->path, &ret->path, err);
		}
	return error_set(err, ATOLL_UNSUPPORTED, 0, "new", NULL, "this program was built without %s",
			 atoll_kind_name(spec->kind));
}

static int check_area(struct atoll *a, struct store *store, const char *path, struct atoll_error *err)
{
	if (area_owns_path(a, path))
		return error_set(err, ATOLL_REFUSED, 0, "new", path, "\"%s\" lies in Atoll's own area", path);
	return 0;
}

int spec_resolve(struct atoll *a, struct store *store, const struct atoll_resource_spec *spec,
		 struct store_resource *ret, struct atoll_error *err)
{
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *root = NULL;
	AUTO_FREE char *submount = NULL;
	AUTO_FD fd = -EBADF;
	struct tree_stat tree;
	struct stat st;
	int r;

	if (kind_is_remote(spec->kind))
		return resolve_remote(spec, ret, err);
	r = resolve_path(spec, &path, &st, err);
	if (r >= 0)
		r = check_kind(spec, path, &st, err);
	if (r < 0)
		return r;
	r = check_system(spec, path, err);
	if (r >= 0)
		r = check_area(a, store, path, err);
	if (r < 0)
		return r;
	root = strdup(path);
	if (!root)
		return error_oom(err, "new");
	if (kind_is_file(spec->kind)) {
		char *slash = strrchr(root, '/');

		slash[slash == root] = 0;
	}
	submount = spec_find_submount(root, NULL, NULL);
	if (submount && !kind_is_file(spec->kind))
		return error_set(err, ATOLL_REFUSED, 0, "new", path,
				 "\"%s\" has another filesystem mounted at \"%s\"; name that as a resource of its own",
				 path, submount);
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "new", root, "cannot read \"%s\"", root);
	r = check_access(fd, root, err);
	if (r < 0)
		return r;
	r = tree_stat(fd, "", &tree);
	if (r >= 0)
		r = tree_identify(fd, "", &tree, &ret->root_id);
	if (r < 0)
		return error_sys(err, r, "new", root, "cannot look at \"%s\"", root);
	ret->kind = spec->kind;
	ret->path = TAKE_PTR(path);
	return 0;
}

static char *parent_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

bool spec_is_guest(enum atoll_kind kind)
{
	for (size_t i = 0; strategy_all[i]; i++)
		if ((strategy_all[i]->kinds & STRATEGY_SERVES(kind)) &&
		    (strategy_all[i]->capabilities & STRATEGY_GUEST))
			return true;
	return false;
}

/* Whether a is a name beside the file b that is b's own. */
static bool is_companion(const struct store_resource *a, const struct store_resource *b)
{
	size_t size = strlen(b->path);

	if (strncmp(a->path, b->path, size) != 0 || !a->path[size])
		return false;
	for (size_t i = 0; strategy_all[i]; i++)
		for (const char *const *end = strategy_all[i]->companions;
		     end && *end && (strategy_all[i]->kinds & STRATEGY_SERVES(b->kind)); end++)
			if (strcmp(a->path + size, *end) == 0)
				return true;
	return false;
}

int spec_check_overlap(const struct store_resource *rows, size_t n, struct atoll_error *err)
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < n; k++) {
			const struct store_resource *a = &rows[i], *b = &rows[k];
			AUTO_FREE char *parent = kind_is_remote(b->kind) ? NULL : parent_of(b->path);

			if (i < k && strcmp(a->path, b->path) == 0)
				return error_set(err, ATOLL_REFUSED, 0, "new", a->path, "\"%s\" was given twice",
						 a->path);
			if (i != k && is_companion(a, b))
				return error_set(err, ATOLL_REFUSED, 0, "new", a->path,
						 "\"%s\" belongs to \"%s\", which is a resource already", a->path,
						 b->path);
			if (i != k && !kind_is_file(a->kind) && kind_is_file(b->kind) && !spec_is_guest(b->kind) &&
			    parent && path_is_below(parent, a->path))
				return error_set(err, ATOLL_REFUSED, 0, "new", b->path,
						 "\"%s\" lies in the resource \"%s\" already", b->path, a->path);
			if (i != k && a->kind == ATOLL_KIND_FILE && b->kind != a->kind && !kind_is_remote(b->kind) &&
			    !spec_is_guest(b->kind)) {
				AUTO_FREE char *root = parent_of(a->path);

				if (root && path_is_below(b->path, root))
					return error_set(
						err, ATOLL_REFUSED, 0, "new", b->path,
						"\"%s\" lies beside the file \"%s\"; name their directory instead",
						b->path, a->path);
			}
		}
	return 0;
}

/* ---- strategies ---- */

/* The root and what lies directly in it, up to so many, and fewer further down: creating depends neither on the
 * depth of the tree nor on its breadth. */
#define OWNERS_LOOKED_AT 4096
#define OWNERS_LOOKED_AT_BELOW 1024

/* Neighbours nearly always have one owner: `known` is the latest that was found to be mapped. */
static bool is_mapped(const struct tree_stat *st, struct tree_stat *known)
{
	if (st->uid == known->uid && st->gid == known->gid)
		return true;
	if (!jail_maps_uid(st->uid) || !jail_maps_gid(st->gid))
		return false;
	*known = *st;
	return true;
}

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Nothing below is opened, and the directory's own time of access does not move where that can be had. */
static DIR *open_list(int root_fd)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
	AUTO_FD fd = openat(root_fd, ".", flags | O_NOATIME);
	DIR *dir;

	if (fd < 0 && errno == EPERM)
		fd = openat(root_fd, ".", flags);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (dir)
		(void)TAKE_FD(fd);
	return dir;
}

/* One directory on the way down. */
struct level {
	char *path; /* below the root */
	struct level *next;
};

struct search {
	int root_fd;
	struct tree_stat root, known;
	struct level *first, **last; /* directories that are still to be read, in the order in which they were met */
	int left;                    /* how many entries may still be looked at */
	char **ret;
};

static struct level *pop_level(struct search *s)
{
	struct level *level = s->first;

	s->first = level->next;
	if (!s->first)
		s->last = &s->first;
	return level;
}

static void release_levels(struct search *s)
{
	while (s->first) {
		struct level *level = pop_level(s);

		free(level->path);
		free(level);
	}
}

static int push_level(struct search *s, char *path)
{
	struct level *level = calloc(1, sizeof *level);

	if (!level)
		return -ENOMEM;
	level->path = path;
	*s->last = level;
	s->last = &level->next;
	return 0;
}

/* In the root itself every entry counts. Further down only those that the user could write: overlayfs copies
 * neither them nor what lies in them (EOVERFLOW); what the user cannot write cannot be written inside either. */
static bool is_hindrance(struct search *s, int dir_fd, const char *name, const struct tree_stat *st, bool below)
{
	if (is_mapped(st, &s->known))
		return false;
	return !below || (!S_ISLNK(st->mode) && faccessat(dir_fd, name, W_OK, AT_EACCESS | AT_SYMLINK_NOFOLLOW) == 0);
}

/* 1 with its path, 0 or -errno. */
static int look_at_entry(struct search *s, int dir_fd, const char *dir, const char *name)
{
	AUTO_FREE char *path = NULL;
	struct tree_stat st;
	int r = tree_stat(dir_fd, name, &st);

	if (r < 0)
		return r == -ENOENT || (*dir && r == -EACCES) ? 0 : r;
	path = *dir ? str_format("%s/%s", dir, name) : strdup(name);
	if (!path)
		return -ENOMEM;
	if (is_hindrance(s, dir_fd, name, &st, *dir)) {
		*s->ret = TAKE_PTR(path);
		return 1;
	}
	if (!S_ISDIR(st.mode) || st.dev != s->root.dev || st.mnt_id != s->root.mnt_id)
		return 0;
	r = push_level(s, path);
	if (r >= 0)
		(void)TAKE_PTR(path);
	return r;
}

static int look_into(struct search *s, const char *path)
{
	AUTO_FD fd = fd_open_beneath(s->root_fd, path, O_PATH | O_DIRECTORY);
	CLEANUP(close_dir) DIR *dir = fd < 0 ? NULL : open_list(fd);
	int r = 0;

	if (!dir)
		return *path ? 0 : -errno;
	while (r == 0 && s->left > 0) {
		const struct dirent *e;

		errno = 0;
		e = readdir(dir);
		if (!e)
			return *path ? 0 : -errno;
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		s->left--;
		r = look_at_entry(s, fd, path, e->d_name);
	}
	return r;
}

/* The first that belongs to somebody whom the namespace does not know: 1 with its name, 0 or -errno. */
static int find_unmapped(int root_fd, char **ret)
{
	CLEANUP(release_levels)
	struct search s = { .root_fd = root_fd,
			    .known = { .uid = geteuid(), .gid = getegid() },
			    .left = OWNERS_LOOKED_AT,
			    .ret = ret };
	int r = tree_stat(root_fd, "", &s.root);

	s.last = &s.first;
	if (r < 0)
		return r;
	if (!is_mapped(&s.root, &s.known)) {
		*ret = strdup(".");
		return *ret ? 1 : -ENOMEM;
	}
	r = look_into(&s, "");
	s.left = OWNERS_LOOKED_AT_BELOW;
	while (r == 0 && s.first && s.left > 0) {
		struct level *level = pop_level(&s);

		r = look_into(&s, level->path);
		free(level->path);
		free(level);
	}
	return r;
}

static int try_overlay(const struct store_resource *row, int root_fd, struct strbuf *reason)
{
	AUTO_FREE char *unmapped = NULL;
	int r = jail_is_root() ? 0 : jail_probe_userns();

	if (r < 0) {
		strbuf_addf(reason, "user namespaces are not available (%s)", strerror(-r));
		return 1;
	}
	r = jail_probe_overlay();
	if (r < 0) {
		strbuf_addf(reason, "overlayfs cannot be mounted (%s)", strerror(-r));
		return 1;
	}
	if (jail_is_root())
		return 0;
	r = find_unmapped(root_fd, &unmapped);
	if (r > 0)
		strbuf_addf(
			reason,
			"\"%s\" belongs to a user or group that the namespace cannot map (newuidmap, newgidmap): what is changed lands as yours, unless the group is one of yours",
			unmapped);
	return r;
}

int spec_try_strategy(const struct strategy_ops *ops, const struct store_resource *row, int root_fd,
		      struct strbuf *reason)
{
	return ops->capabilities & STRATEGY_OVERLAY ? try_overlay(row, root_fd, reason) : 0;
}
