/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least that a durable, repeatable commit can be: the changed files are made durable, a list of them is written to a preallocated
 * journal and synced, each is exchanged with its original, and what was renamed is made durable.
 *
 *	limit-commit LAYER TREE JOURNAL        exchanges every file below LAYER with the one of the same path below TREE
 *	limit-commit --edit TREE FILES BYTES   rewrites the first so many files of a tree made by `run`, as the command in a sandbox would
 *
 * Nothing is checked, recognised, locked or recorded: no foreign change would be noticed, and nothing could be taken back. What
 * `atoll commit` does beyond this is what it is measured for.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_PER_DIRECTORY 100
/* From here on one syncfs is quicker than an fsync of each. */
#define FEW 4

struct file {
	char *path;
	struct stat before, after;
};

struct list {
	struct file *v;
	size_t n, capacity;
};

static void die(const char *what)
{
	fprintf(stderr, "limit-commit: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int check(int r, const char *what)
{
	if (r < 0)
		die(what);
	return r;
}

static void add(struct list *l, const char *dir, const char *name)
{
	if (l->n == l->capacity) {
		l->capacity = l->capacity ? l->capacity * 2 : 64;
		l->v = reallocarray(l->v, l->capacity, sizeof *l->v);
		if (!l->v)
			die("memory");
	}
	if (asprintf(&l->v[l->n++].path, "%s%s%s", dir, *dir ? "/" : "", name) < 0)
		die("memory");
}

static void find(struct list *l, int at, const char *path)
{
	DIR *dir = fdopendir(openat(at, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	struct dirent *e;

	if (!dir)
		die(path);
	while ((e = readdir(dir))) {
		char *below;

		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (e->d_type != DT_DIR) {
			add(l, path, e->d_name);
			continue;
		}
		if (asprintf(&below, "%s%s%s", path, *path ? "/" : "", e->d_name) < 0)
			die("memory");
		find(l, at, below);
		free(below);
	}
	closedir(dir);
}

static void sync_data(const struct list *l, int layer)
{
	if (l->n > FEW) {
		check(syncfs(layer), "syncfs");
		return;
	}
	for (size_t i = 0; i < l->n; i++) {
		int fd = check(openat(layer, l->v[i].path, O_RDONLY | O_CLOEXEC), l->v[i].path);

		check(fsync(fd), "fsync");
		close(fd);
	}
}

/* Both inodes of each file: by them, and by nothing less, a crash half-way could be told. */
static void write_journal(const struct list *l, int layer, int tree, int journal)
{
	FILE *f = fdopen(journal, "w");

	if (!f)
		die("journal");
	for (size_t i = 0; i < l->n; i++) {
		struct file *file = &l->v[i];

		check(fstatat(tree, file->path, &file->before, AT_SYMLINK_NOFOLLOW), file->path);
		check(fstatat(layer, file->path, &file->after, AT_SYMLINK_NOFOLLOW), file->path);
		fprintf(f, "%s%c%lx %lx\n", file->path, 0, (long)file->before.st_ino, (long)file->after.st_ino);
	}
	check(fflush(f), "journal");
	check(fdatasync(journal), "fdatasync");
}

static int commit(const char *layer_path, const char *tree_path, const char *journal_path)
{
	int layer = check(open(layer_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), layer_path);
	int tree = check(open(tree_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), tree_path);
	int journal = check(open(journal_path, O_WRONLY | O_CLOEXEC), journal_path);
	struct list l = { 0 };

	find(&l, layer, "");
	sync_data(&l, layer);
	write_journal(&l, layer, tree, journal);
	for (size_t i = 0; i < l.n; i++)
		check(renameat2(layer, l.v[i].path, tree, l.v[i].path, RENAME_EXCHANGE), l.v[i].path);
	check(syncfs(tree), "syncfs");
	return 0;
}

static void edit(int tree, size_t number, const char *data, size_t bytes)
{
	char path[64];
	int fd;

	snprintf(path, sizeof path, "d%04zu/f%02zu", number / FILES_PER_DIRECTORY, number % FILES_PER_DIRECTORY);
	fd = check(openat(tree, path, O_WRONLY | O_TRUNC | O_CLOEXEC), path);
	if (write(fd, data, bytes) != (ssize_t)bytes)
		die(path);
	close(fd);
}

static int edit_all(const char *tree_path, size_t files, size_t bytes)
{
	int tree = check(open(tree_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), tree_path);
	char *data = malloc(bytes + 1);

	if (!data)
		die("memory");
	memset(data, 'a' + getpid() % 26, bytes);
	for (size_t i = 0; i < files; i++)
		edit(tree, i, data, bytes);
	free(data);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && strcmp(argv[1], "--edit") == 0)
		return edit_all(argv[2], strtoul(argv[3], NULL, 10), strtoul(argv[4], NULL, 10));
	if (argc == 4)
		return commit(argv[1], argv[2], argv[3]);
	fprintf(stderr, "usage: limit-commit LAYER TREE JOURNAL | --edit TREE FILES BYTES\n");
	return 2;
}
