/* SPDX-License-Identifier: Apache-2.0 */
/* Output that goes to a file of a resource: the shell opened it before the run began, so it is written past the sandbox. */
#include "engine/run.h"

#include <string.h>

static bool is_written_file(int fd, ino_t *ret_inode)
{
	struct stat st;

	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (fcntl(fd, F_GETFL) & O_ACCMODE) == O_RDONLY)
		return false;
	*ret_inode = st.st_ino;
	return true;
}

static bool is_in_resource(const char *path, const struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (path_is_below(path, s->resources[i].row.path))
			return true;
	return false;
}

bool run_output_is_inside(const struct session *s, int fd)
{
	AUTO_FREE char *path = NULL;
	ino_t inode;

	return is_written_file(fd, &inode) && (fd_path(fd, &path) < 0 || is_in_resource(path, s));
}

void run_output_tell(const struct session *s, const struct atoll_run_options *options)
{
	ino_t inode, known = 0;

	for (int fd = STDOUT_FILENO; fd <= STDERR_FILENO && options->notice; fd++) {
		AUTO_FREE char *path = NULL;
		AUTO_FREE char *quoted = NULL;
		AUTO_FREE char *text = NULL;

		if (!is_written_file(fd, &inode) || inode == known || fd_path(fd, &path) < 0 ||
		    !is_in_resource(path, s))
			continue;
		known = inode;
		quoted = str_quote(path);
		text = quoted ? str_format("the output file \"%s\" is written outside the sandbox", quoted) : NULL;
		if (text)
			options->notice(true, text, options->notice_arg);
	}
}
