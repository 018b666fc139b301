/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/git-ignored.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/child.h"
#include "base/fd.h"
#include "base/strbuf.h"

#define PATIENCE_MS 600
#define ANSWER_MAX ((size_t)1 << 30)

static bool is_in_working_tree(const char *dir)
{
	AUTO_FREE char *at = strdup(dir);

	while (at && *at == '/') {
		AUTO_FREE char *git = str_format("%s/.git", at);
		char *slash = strrchr(at, '/');
		struct stat st;

		if (git && lstat(git, &st) == 0)
			return true;
		if (!at[1])
			return false;
		slash[slash == at] = '\0';
	}
	return false;
}

/* git must not see the GIT_* variables with which a hook or the user's shell selects another
 * repository. */
static char **environment_without_git(void)
{
	size_t n = 0, kept = 0;
	char **v;

	while (environ[n])
		n++;
	v = calloc(n + 1, sizeof(*v));
	for (size_t i = 0; v && i < n; i++)
		if (strncmp(environ[i], "GIT_", 4) != 0)
			v[kept++] = environ[i];
	return v;
}

static int write_question(const char *const *paths, size_t n)
{
	AUTO_FD fd = memfd_create("paths", MFD_CLOEXEC);
	FILE *out = fd < 0 ? NULL : fdopen(dup(fd), "w");
	bool failed;

	if (!out)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		fwrite(paths[i], 1, strlen(paths[i]) + 1, out);
	failed = ferror(out);
	failed |= fclose(out) != 0;
	if (failed || lseek(fd, 0, SEEK_SET) < 0)
		return -EIO;
	return TAKE_FD(fd);
}

/* Uses files instead of pipes: git then writes its answers together, and neither process waits
 * for the other. */
static int ask(const char *dir, int question, int answer)
{
	char *const argv[] = { "git", "-c", "core.fsmonitor=false", "-C", (char *)dir, "check-ignore", "--stdin",
			       "-z",  NULL };
	AUTO_FREE char **env = environment_without_git();
	struct child_io io = { .input = question, .output = answer, .env = env };
	struct child_result result;
	struct child child;
	int r = env ? child_start_with(argv, &io, &child) : -ENOMEM;

	return r < 0 ? r : child_wait(&child, PATIENCE_MS, &result);
}

/* git answers with the ignored paths, in the order of the question. The last path may be
 * incomplete. */
static void read_answer(int fd, const char *const *paths, size_t n, bool *ret)
{
	struct stat st;
	char *text, *end;
	size_t i = 0;

	if (fstat(fd, &st) < 0 || st.st_size <= 0 || (size_t)st.st_size > ANSWER_MAX)
		return;
	text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (text == MAP_FAILED)
		return;
	end = text + st.st_size;
	for (char *at = text, *next; at < end; at = next + 1) {
		next = memchr(at, '\0', (size_t)(end - at));
		if (!next)
			break;
		while (i < n && strcmp(paths[i], at) != 0)
			i++;
		if (i < n)
			ret[i++] = true;
	}
	munmap(text, (size_t)st.st_size);
}

void git_ignored(const char *dir, const char *const *paths, size_t n, bool *ret)
{
	AUTO_FD question = -EBADF, answer = -EBADF;

	if (n == 0 || !is_in_working_tree(dir))
		return;
	question = write_question(paths, n);
	answer = memfd_create("ignored", MFD_CLOEXEC);
	if (question < 0 || answer < 0 || ask(dir, question, answer) < 0)
		return;
	read_answer(answer, paths, n, ret);
}
