/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same directory, reached through another mount. Below a bind mount of /a/t at /b/t, ".." leads to /b and never to /a,
 * although /a holds the tree as well. /proc/self/mountinfo tells for each mount which directory of its filesystem it shows,
 * and so through which other mount the directories above it can be reached.
 */
#include "engine/engine.h"

#include <fcntl.h>
#include <string.h>

#include "engine/exclusion.h"

#define MOUNTINFO_MAX ((size_t)1 << 24)

/* One line of mountinfo. The strings point into the text, which parsing cuts and unescapes in place. */
struct mount_line {
	uint64_t id;
	const char *device; /* "8:1" */
	const char *root;   /* the directory of the filesystem that is mounted */
	const char *point;  /* where */
};

/* mountinfo writes space, tab, newline and backslash as octal escapes. */
static void unescape(char *text)
{
	char *to = text;

	for (const char *from = text; *from; to++) {
		if (from[0] == '\\' && from[1] >= '0' && from[1] <= '3' && from[2] && from[3]) {
			*to = (char)((from[1] - '0') * 64 + (from[2] - '0') * 8 + (from[3] - '0'));
			from += 4;
		} else {
			*to = *from++;
		}
	}
	*to = 0;
}

static bool parse_line(char *line, struct mount_line *ret)
{
	char *save = NULL, *field[5];

	for (size_t i = 0; i < ARRAY_SIZE(field); i++) {
		field[i] = strtok_r(i ? NULL : line, " ", &save);
		if (!field[i])
			return false;
	}
	unescape(field[3]);
	unescape(field[4]);
	*ret = (struct mount_line){ strtoull(field[0], NULL, 10), field[2], field[3], field[4] };
	return true;
}

static int parse_all(char *text, struct mount_line **ret, size_t *ret_n)
{
	struct mount_line *list = NULL, *grown;
	size_t n = 0;
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		grown = (n & (n - 1)) == 0 ? reallocarray(list, n ? n * 2 : 1, sizeof *list) : list;
		if (!grown) {
			free(list);
			return -ENOMEM;
		}
		list = grown;
		n += parse_line(line, &list[n]);
	}
	*ret = list;
	*ret_n = n;
	return 0;
}

static const struct mount_line *find_mount(const struct mount_line *list, size_t n, uint64_t id)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].id == id)
			return &list[i];
	return NULL;
}

/* Opens what `here` shows through another mount of the same filesystem that shows more of it. */
static int open_through(const struct mount_line *other, const struct mount_line *here, const struct tree_stat *st)
{
	const char *shown = strcmp(other->root, "/") == 0 ? "" : other->root;
	AUTO_FREE char *path = NULL;
	AUTO_FD fd = -EBADF;
	struct tree_stat found;

	if (strcmp(other->device, here->device) != 0 || strcmp(other->root, here->root) == 0 ||
	    !path_is_below(here->root, shown))
		return -ENOENT;
	path = str_format("%s%s", strcmp(other->point, "/") == 0 ? "" : other->point, here->root + strlen(shown));
	if (!path)
		return -ENOMEM;
	fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	/* Something else may be mounted on the way. */
	if (fd < 0 || tree_stat(fd, "", &found) < 0 || found.dev != st->dev || found.ino != st->ino)
		return -ENOENT;
	return TAKE_FD(fd);
}

int mount_alias_open(const struct tree_stat *mount_root)
{
	AUTO_FREE struct mount_line *list = NULL;
	AUTO_FREE char *text = NULL;
	const struct mount_line *here;
	size_t n = 0;
	int r = fd_read_file(AT_FDCWD, "/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL);

	if (r >= 0)
		r = parse_all(text, &list, &n);
	if (r < 0)
		return r;
	here = find_mount(list, n, mount_root->mnt_id);
	if (!here || strcmp(here->root, "/") == 0)
		return -ENOENT;
	for (size_t i = 0; i < n; i++) {
		r = open_through(&list[i], here, mount_root);
		if (r != -ENOENT)
			return r;
	}
	return -ENOENT;
}
