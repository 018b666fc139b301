/* SPDX-License-Identifier: Apache-2.0 */
/* Running git: its environment, what every call is told, and what it says. */
#include "git/git.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "base/child.h"
#include "base/fd.h"

/* For a big repository on a slow disk; a git that hangs is ended all the same. */
#define GIT_TIMEOUT_MS (5 * 60 * 1000)
#define GIT_MAX_ARGS 40
#define GIT_MAX_VARIABLES 8

extern char **environ;

/* Who the user is and where the user's configuration lies is the user's business; everything else that begins so (a git directory, an
 * index, injected configuration, a tracing file) would lead our git elsewhere. */
bool git_environment_keeps(const char *variable)
{
	static const char *const kept[] = {
		"GIT_AUTHOR_NAME=",   "GIT_AUTHOR_EMAIL=",    "GIT_COMMITTER_NAME=", "GIT_COMMITTER_EMAIL=",
		"GIT_CONFIG_GLOBAL=", "GIT_CONFIG_NOSYSTEM=", "GIT_CONFIG_SYSTEM=",  "GIT_EXEC_PATH=",
	};

	if (strncmp(variable, "LC_ALL=", 7) == 0 || strncmp(variable, "LANGUAGE=", 9) == 0)
		return false;
	if (strncmp(variable, "GIT_", 4) != 0)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(kept); i++)
		if (strncmp(variable, kept[i], strlen(kept[i])) == 0)
			return true;
	return false;
}

static pthread_once_t environment_once = PTHREAD_ONCE_INIT;
static char **environment;

static void build_environment(void)
{
	static const char *const own[] = { "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0",
					   "GIT_NO_REPLACE_OBJECTS=1", "GIT_NO_LAZY_FETCH=1" };
	size_t n = 0, k = 0;
	char **list;

	while (environ && environ[n])
		n++;
	list = calloc(n + ARRAY_SIZE(own) + 1, sizeof *list);
	for (size_t i = 0; list && i < n; i++)
		if (git_environment_keeps(environ[i]))
			list[k] = strdup(environ[i]), k += list[k] != NULL;
	for (size_t i = 0; list && i < ARRAY_SIZE(own); i++)
		list[k++] = (char *)own[i];
	environment = list;
}

char *const *git_environment(void)
{
	pthread_once(&environment_once, build_environment);
	return environment;
}

/* The variables of one call, in front of the common ones. */
struct variables {
	char *own[GIT_MAX_VARIABLES];
	size_t n;
	char **all;
	bool failed;
};

static void variables_release(struct variables *v)
{
	for (size_t i = 0; i < v->n; i++)
		free(v->own[i]);
	free(v->all);
}

static void set(struct variables *v, const char *name, const char *value)
{
	if (!value)
		return;
	v->own[v->n] = str_format("%s=%s", name, value);
	if (v->own[v->n])
		v->n++;
	else
		v->failed = true;
}

/* In a list that is divided by colons a path that has one, or a quote, is written as C would write it. */
static char *quote_in_list(const char *path)
{
	AUTO_STRBUF s = STRBUF_INIT;

	if (!strpbrk(path, ":\"\n"))
		return strdup(path);
	strbuf_addc(&s, '"');
	for (; *path; path++)
		if (*path == '\n')
			strbuf_adds(&s, "\\n");
		else
			strbuf_addf(&s, "%s%c", *path == '"' || *path == '\\' ? "\\" : "", *path);
	strbuf_addc(&s, '"');
	return strbuf_take(&s);
}

static int join_variables(struct variables *v)
{
	char *const *common = git_environment();
	size_t n = 0;

	while (common && common[n])
		n++;
	v->all = common ? calloc(n + v->n + 1, sizeof *v->all) : NULL;
	if (!v->all || v->failed)
		return -ENOMEM;
	memcpy(v->all, v->own, v->n * sizeof *v->own);
	memcpy(v->all + v->n, common, n * sizeof *common);
	return 0;
}

static int make_variables(const struct git_call *c, struct variables *v)
{
	const struct git_repo *repo = c->repo;

	if (repo) {
		set(v, "GIT_DIR", repo->dir);
		set(v, "GIT_WORK_TREE", c->work_tree ? c->work_tree : repo->top);
		set(v, "GIT_INDEX_FILE", c->index);
	}
	if (repo && c->quarantine) {
		AUTO_FREE char *own = str_format("%s/objects", repo->dir);
		AUTO_FREE char *listed = own ? quote_in_list(own) : NULL;

		if (!listed)
			return -ENOMEM;
		set(v, "GIT_OBJECT_DIRECTORY", c->quarantine);
		set(v, "GIT_ALTERNATE_OBJECT_DIRECTORIES", listed);
	}
	return join_variables(v);
}

/* No hook of the user's runs for our plumbing, nothing is packed behind our back, and what is written is on disk when git ends, but for what
 * is in a quarantine. */
static int make_arguments(const struct git_call *c, const char *const *argv, char **ret)
{
	const char *const common[] = { "git",
				       "--no-pager",
				       "--literal-pathspecs",
				       "-c",
				       "core.hooksPath=/dev/null",
				       "-c",
				       "core.fsmonitor=false",
				       "-c",
				       "gc.auto=0",
				       "-c",
				       c->quarantine ? "core.fsync=none" : "core.fsync=committed,loose-object",
				       "-c",
				       "core.fsyncMethod=fsync",
				       "-c",
				       "core.quotePath=false" };
	size_t n = 0;

	for (; n < ARRAY_SIZE(common); n++)
		ret[n] = (char *)common[n];
	for (; *argv; argv++) {
		if (n + 1 == GIT_MAX_ARGS)
			return -E2BIG;
		ret[n++] = (char *)*argv;
	}
	ret[n] = NULL;
	return 0;
}

static int memory_file(const char *data, size_t size)
{
	AUTO_FD fd = memfd_create("git", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < size;) {
		ssize_t n = write(fd, data + done, size - done);

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (size_t)n : 0;
	}
	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static int read_all(int fd, struct strbuf *out)
{
	char buffer[65536];
	ssize_t n;

	if (lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	while ((n = read(fd, buffer, sizeof buffer)) > 0)
		strbuf_add(out, buffer, (size_t)n);
	return n < 0 ? -errno : out->failed ? -ENOMEM : 0;
}

static int start(const struct git_call *c, char *const *argv, char *const *env, struct git_running *ret)
{
	AUTO_FD in = c->input ? memory_file(c->input, c->input_size) : -EBADF;
	AUTO_FD out = c->output ? memory_file(NULL, 0) : -EBADF;
	int r;

	if ((c->input && in < 0) || (c->output && out < 0))
		return c->input && in < 0 ? in : out;
	r = child_start_with(
		argv, &(struct child_io){ c->input_fd ? c->input_fd : in, c->output_fd ? c->output_fd : out, env },
		&ret->child);
	if (r < 0)
		return r;
	ret->output = TAKE_FD(out);
	ret->started = true;
	return 0;
}

/* The last line git wrote, without its own prefix. */
static const char *last_words(const char *output)
{
	const char *line = strrchr(output, '\n');

	line = line ? line + 1 : output;
	if (strncmp(line, "fatal: ", 7) == 0 || strncmp(line, "error: ", 7) == 0)
		line += 7;
	return *line ? line : "it said nothing";
}

/* The lock file that git found in its way, malloc'ed; NULL if it failed for another reason. */
static char *find_lock(const char *output)
{
	static const char before[] = "Unable to create '", after[] = ".lock': File exists";
	const char *from = strstr(output, before), *to = from ? strstr(from, after) : NULL;

	if (!to)
		return NULL;
	from += strlen(before);
	return strndup(from, (size_t)(to - from) + strlen(".lock"));
}

static int cannot_run(const struct git_running *g, int r, struct atoll_error *err)
{
	const char *where = g->call.repo ? g->call.repo->top : NULL;

	if (r == -ENOENT)
		return error_set(err, ATOLL_REFUSED, ENOENT, g->call.operation, where,
				 "the program git is not installed, and a repository cannot be served without it");
	return error_sys(err, r, g->call.operation, where, "git %s could not be run", g->verb);
}

int git_call_start(const struct git_call *c, struct git_running *ret, struct atoll_error *err, const char *const argv[])
{
	CLEANUP(variables_release) struct variables v = { 0 };
	char *all[GIT_MAX_ARGS];
	const char *const *verb = argv;
	int r = make_variables(c, &v);

	while (verb[0][0] == '-')
		verb += 2;
	*ret = (struct git_running){
		.call = *c, .verb = *verb, .where = c->repo ? c->repo->top : argv[1], .output = -EBADF
	};
	if (r >= 0)
		r = make_arguments(c, argv, all);
	if (r >= 0)
		r = start(c, all, v.all, ret);
	return r < 0 ? cannot_run(ret, r, err) : 0;
}

int git_call_finish(struct git_running *g, struct atoll_error *err)
{
	AUTO_FD output = TAKE_FD(g->output);
	AUTO_FREE char *lock = NULL;
	struct child_result result = { 0 };
	int r = child_wait(&g->child, GIT_TIMEOUT_MS, &result);

	g->started = false;
	if (r >= 0 && g->call.output)
		r = read_all(output, g->call.output);
	if (r < 0)
		return cannot_run(g, r, err);
	if (result.exit_status == 0 || (g->call.also && result.exit_status == g->call.also))
		return result.exit_status;
	lock = find_lock(result.output);
	if (lock)
		return error_set(err, ATOLL_BUSY, EEXIST, g->call.operation, g->call.repo ? g->where : NULL,
				 "\"%s\" is there: git is at work in \"%s\", or was ended there", lock, g->where);
	return error_set(err, ATOLL_FAILED, 0, g->call.operation, g->call.repo ? g->where : NULL,
			 "git %s failed in \"%s\": %s", g->verb, g->where, last_words(result.output));
}

void git_running_release(struct git_running *g)
{
	struct child_result ignored;

	if (g->started)
		(void)child_wait(&g->child, 0, &ignored);
	if (g->started)
		fd_close(g->output);
	g->started = false;
}

int git_call(const struct git_call *c, struct atoll_error *err, const char *const argv[])
{
	struct git_running g;
	int r = git_call_start(c, &g, err, argv);

	return r < 0 ? r : git_call_finish(&g, err);
}
