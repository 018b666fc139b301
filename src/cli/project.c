/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/project.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/strbuf.h"
#include "cli/ask.h"
#include "cli/cost.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/settings.h"

/* Ask before a copy of at least this size. */
#define MUCH_FILES 100000
#define MUCH_BYTES (UINT64_C(1) << 30)
/* Copy speed of a common disk, to estimate the duration. */
#define BYTES_A_SECOND 150e6
#define FILES_A_SECOND 4000.0
/* Limit for counting the home directory before the question. */
#define COUNT_NS INT64_C(1000000000)

#define GIT_FILE_MAX 8192

enum shape {
	SHAPE_DIRECTORY,  /* no git working tree */
	SHAPE_REPOSITORY, /* with a .git directory of its own */
	SHAPE_LINKED,     /* .git is a file that names the git directory: a linked worktree, a submodule */
	SHAPE_BARE        /* a git directory holds the current directory */
};

struct project {
	struct cli *cli;
	enum shape shape;
	char *path;
	struct atoll_settings *kept; /* settings to keep with the sandbox */
	char *git_dir;               /* SHAPE_LINKED: commands inside may read it, but not write */
	bool may_ask;                /* the user named no resource and gave no --yes */
	bool declined;               /* the user or Atoll declined the copy: *err says why */
	struct atoll_error *err;
};

static void project_release(struct project *p)
{
	free(p->path);
	free(p->git_dir);
	atoll_settings_free(p->kept);
}

/* ---- choosing the directory ---- */

static bool has(const char *dir, const char *name, mode_t type)
{
	AUTO_FREE char *path = str_format("%s/%s", strcmp(dir, "/") == 0 ? "" : dir, name);
	struct stat st;

	return path && stat(path, &st) == 0 && (st.st_mode & S_IFMT) == type;
}

static bool is_git_directory(const char *dir)
{
	return has(dir, "HEAD", S_IFREG) && has(dir, "objects", S_IFDIR) && has(dir, "refs", S_IFDIR);
}

static enum shape shape_of(const char *dir)
{
	AUTO_FREE char *git = str_format("%s/.git", strcmp(dir, "/") == 0 ? "" : dir);

	if (git && is_git_directory(git))
		return SHAPE_REPOSITORY;
	if (has(dir, ".git", S_IFREG))
		return SHAPE_LINKED;
	return is_git_directory(dir) ? SHAPE_BARE : SHAPE_DIRECTORY;
}

static bool is_at_or_below(const char *path, const char *top)
{
	size_t size = strcmp(top, "/") == 0 ? 0 : strlen(top);

	return strncmp(path, top, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* Returns whether the path is the home directory or a directory around it. */
static bool holds_home(const char *path)
{
	const char *home = getenv("HOME");
	AUTO_FREE char *real = home && *home == '/' ? realpath(home, NULL) : NULL;

	return real && is_at_or_below(real, path);
}

/* Like git, stops at the boundary of the filesystem. The git directory of a working tree counts
 * as a part of that working tree. */
static char *find_top(const char *cwd, enum shape *ret)
{
	AUTO_FREE char *dir = strdup(cwd);
	struct stat first, st;

	*ret = SHAPE_DIRECTORY;
	for (bool more = dir && stat(cwd, &first) == 0; more && stat(dir, &st) == 0 && st.st_dev == first.st_dev;) {
		char *slash = strrchr(dir, '/');
		enum shape shape = shape_of(dir);

		if (shape == SHAPE_BARE && strcmp(slash, "/.git") == 0)
			shape = SHAPE_DIRECTORY;
		if (shape != SHAPE_DIRECTORY) {
			*ret = shape;
			return TAKE_PTR(dir);
		}
		more = slash != dir || slash[1];
		slash[slash == dir] = '\0';
	}
	return strdup(cwd);
}

/* Returns the git directory that commands in a linked worktree write to: that of the main
 * checkout, if there is one. */
static char *read_git_dir(const char *top)
{
	AUTO_FREE char *file = str_format("%s/.git", top), *text = NULL, *common = NULL, *path = NULL, *dir = NULL;
	bool known = file && fd_read_file(AT_FDCWD, file, GIT_FILE_MAX, &text, NULL) >= 0 &&
		     strncmp(text, "gitdir: ", 8) == 0;

	if (!known)
		return NULL;
	text[strcspn(text, "\n")] = '\0';
	dir = text[8] == '/' ? strdup(text + 8) : str_format("%s/%s", top, text + 8);
	path = dir ? str_format("%s/commondir", dir) : NULL;
	if (!path || fd_read_file(AT_FDCWD, path, GIT_FILE_MAX, &common, NULL) < 0)
		return dir ? realpath(dir, NULL) : NULL;
	common[strcspn(common, "\n")] = '\0';
	free(path);
	path = common[0] == '/' ? strdup(common) : str_format("%s/%s", dir, common);
	return path ? realpath(path, NULL) : NULL;
}

static void tell(const struct project *p, const char *path, const char *why)
{
	AUTO_FREE char *quoted = str_quote(path);

	if (!p->cli->quiet)
		message_error("\"%s\" is taken as a directory, not as a repository: %s", quoted ? quoted : "", why);
}

static bool is_in_git_directory(const char *cwd, const char *top)
{
	AUTO_FREE char *git = str_format("%s/.git", top);

	return git && is_at_or_below(cwd, git);
}

static int find(struct project *p, const char *cwd, struct atoll_error *err)
{
	AUTO_FREE char *top = find_top(cwd, &p->shape);

	if (!top)
		return error_oom(err, "run");
	/* Files that a command writes there are git's own, and git_worktree would not land them. */
	if (p->shape == SHAPE_REPOSITORY && is_in_git_directory(cwd, top))
		p->shape = SHAPE_BARE;
	if (p->shape != SHAPE_DIRECTORY && holds_home(top) && strcmp(top, cwd) != 0) {
		tell(p, cwd, "the repository around it holds your home directory; --git takes that");
		p->shape = SHAPE_DIRECTORY;
		free(top);
		top = strdup(cwd);
	}
	p->path = TAKE_PTR(top);
	if (!p->path)
		return error_oom(err, "run");
	if (p->shape != SHAPE_LINKED)
		return 0;
	p->git_dir = read_git_dir(p->path);
	if (!p->git_dir)
		p->shape = SHAPE_DIRECTORY;
	return 0;
}

/* ---- questions ---- */

static void add_count(struct strbuf *s, uint64_t files, uint64_t bytes)
{
	strbuf_addf(s, "%" PRIu64 " file%s, ", files, files == 1 ? "" : "s");
	cost_size(s, bytes);
}

/* Adds the number and size of the files in a directory, as far as it can count them in a second. */
static void count_tree(const char *path, struct strbuf *ret)
{
	char *const paths[] = { (char *)path, NULL };
	FTS *fts = fts_open(paths, FTS_PHYSICAL | FTS_XDEV | FTS_NOCHDIR, NULL);
	int64_t end = clock_monotonic_ns() + COUNT_NS;
	uint64_t files = 0, bytes = 0;
	const FTSENT *e;
	bool all = true;

	while (fts && all && (e = fts_read(fts))) {
		if (e->fts_info == FTS_F) {
			files++;
			bytes += (uint64_t)e->fts_statp->st_blocks * 512;
		}
		all = clock_monotonic_ns() < end;
	}
	if (fts)
		fts_close(fts);
	strbuf_adds(ret, all ? "" : "at least ");
	add_count(ret, files, bytes);
}

static int check_home(struct project *p, struct atoll_error *err)
{
	AUTO_STRBUF question = STRBUF_INIT;

	/* Do not ask about the root directory and /home: the library refuses them in any case. */
	if (!p->may_ask || !holds_home(p->path) || strcmp(p->path, "/") == 0 || strcmp(p->path, "/home") == 0)
		return 0;
	if (!ask_is_possible())
		return error_set(err, ATOLL_REFUSED, 0, "run", p->path,
				 "\"%s\" is your home directory; go to a project, name with --dir what the command may "
				 "change, or take all of it with --yes",
				 p->path);
	strbuf_adds(&question, "atoll: \"");
	strbuf_add_quoted(&question, p->path);
	strbuf_adds(&question, "\" is your home directory, ");
	count_tree(p->path, &question);
	strbuf_adds(&question, "; make a sandbox over all of it (y/n)? ");
	if (!question.failed && ask_yes(strbuf_str(&question)))
		return 0;
	return error_set(err, ATOLL_REFUSED, 0, "run", p->path,
			 "nothing was run; name with --dir what the command may change");
}

static void add_duration(struct strbuf *s, uint64_t files, uint64_t bytes)
{
	double seconds = (double)bytes / BYTES_A_SECOND + (double)files / FILES_A_SECOND;
	long minutes = (long)(seconds / 60 + 0.5);

	if (minutes < 1)
		strbuf_adds(s, "less than a minute");
	else
		strbuf_addf(s, "about %ld minute%s", minutes, minutes == 1 ? "" : "s");
}

/* An atoll_cost_fn. */
static int judge_cost(const struct atoll_cost *cost, void *arg)
{
	struct project *p = arg;
	AUTO_STRBUF much = STRBUF_INIT, question = STRBUF_INIT;

	if (!p->may_ask || (cost->files < MUCH_FILES && cost->bytes < MUCH_BYTES))
		return cost_tell(cost, p->cli);
	add_count(&much, cost->files, cost->bytes);
	strbuf_adds(&much, ", ");
	add_duration(&much, cost->files, cost->bytes);
	p->declined = true;
	if (!ask_is_possible()) {
		(void)error_set(p->err, ATOLL_REFUSED, 0, "run", cost->path,
				"\"%s\" would have to be copied (%s), since blocks cannot be shared here; copy it with "
				"--yes, or name less with --dir",
				cost->path, strbuf_str(&much));
		return 1;
	}
	strbuf_adds(&question, "atoll: \"");
	strbuf_add_quoted(&question, cost->path);
	strbuf_addf(&question, "\" must be copied first: %s; copy it (y/n)? ", strbuf_str(&much));
	p->declined = question.failed || !ask_yes(strbuf_str(&question));
	if (p->declined)
		(void)error_set(p->err, ATOLL_REFUSED, 0, "run", cost->path,
				"nothing was copied or run; name less with --dir");
	return p->declined;
}

/* ---- making the sandbox ---- */

static int make(struct project *p, const struct settings_resources *resources, struct atoll_info **ret,
		struct atoll_error *err)
{
	struct atoll_new_options options = { .resources = resources->v,
					     .n_resources = resources->n,
					     .settings = p->kept,
					     .prunable = true,
					     .cost = judge_cost,
					     .cost_arg = p };
	struct atoll_error failed = { 0 }, declined = { 0 };
	int r;

	p->err = &declined;
	p->declined = false;
	r = interrupt_new(p->cli, &options, ret, &failed);
	if (r < 0)
		*err = p->declined ? declined : failed;
	return r;
}

/*
 * git_worktree refuses some states of a repository (a rebase, a detached HEAD) and some repository
 * formats, and git may be missing or too old; the repository can then still be taken as a
 * directory.
 */
static bool may_fall_back(const struct project *p, const struct atoll_error *err)
{
	return !p->declined &&
	       (err->code == ATOLL_REFUSED || err->code == ATOLL_UNSUPPORTED || err->code == ATOLL_FAILED);
}

static int make_linked(struct project *p, const struct settings_resources *resources, struct atoll_info **ret,
		       struct atoll_error *err)
{
	AUTO_FREE char *why =
		str_format("its git directory \"%s\" lies elsewhere, and stays read-only: files land, and "
			   "git cannot commit inside",
			   p->git_dir);
	int r = why ? atoll_settings_add(&p->kept, "ro", p->git_dir, NULL, err) : error_oom(err, "run");

	if (r < 0)
		return r;
	tell(p, p->path, why);
	return make(p, resources, ret, err);
}

static int make_project(struct project *p, struct settings_resources *resources, struct atoll_info **ret,
			struct atoll_error *err)
{
	int r;

	if (p->shape == SHAPE_BARE)
		tell(p, p->path, "the current directory is a part of its git directory");
	if (p->shape == SHAPE_LINKED)
		return make_linked(p, resources, ret, err);
	if (p->shape != SHAPE_REPOSITORY)
		return make(p, resources, ret, err);
	resources->v[0].kind = ATOLL_KIND_GIT;
	resources->v[0].as_is = true;
	r = make(p, resources, ret, err);
	if (r >= 0 || !may_fall_back(p, err))
		return r;
	tell(p, p->path, err->message);
	resources->v[0].kind = ATOLL_KIND_DIR;
	resources->v[0].as_is = false;
	return make(p, resources, ret, err);
}

static int make_around(struct project *p, const struct project_request *q, struct atoll_info **ret,
		       struct atoll_error *err)
{
	CLEANUP(settings_resources_release) struct settings_resources resources = { 0 };
	struct atoll_resource_spec spec = { .kind = ATOLL_KIND_DIR,
					    .strategy = q->strategy,
					    .allow_system = q->allow_system };
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	int r;

	if (!cwd && errno == ENOENT)
		return error_set(err, ATOLL_NOT_FOUND, errno, "run", NULL,
				 "the working directory was removed; cd to another");
	if (!cwd)
		return error_sys(err, errno, "run", NULL, "the path of the working directory cannot be found");
	p->may_ask = !q->yes;
	r = find(p, cwd, err);
	/* The user asked for a strategy that isolates directories. */
	if (r >= 0 && spec.strategy && p->shape == SHAPE_REPOSITORY)
		p->shape = SHAPE_DIRECTORY;
	if (r >= 0)
		r = check_home(p, err);
	spec.path = p->path;
	if (r >= 0)
		r = settings_kept_home(q->config, q->own, &spec, 1, &resources, err);
	return r < 0 ? r : make_project(p, &resources, ret, err);
}

int project_new(struct cli *cli, const struct project_request *q, struct atoll_info **ret, struct atoll_error *err)
{
	CLEANUP(project_release) struct project p = { .cli = cli };
	CLEANUP(settings_resources_release) struct settings_resources resources = { 0 };
	const struct atoll_setting *s;
	int r = 0;

	/* Keep the setting with the sandbox: later commands read it after the sandbox has
	 * landed. */
	for (size_t i = 0; (s = atoll_settings_get(q->own, i)) && r >= 0; i++)
		if (strcmp(s->name, "keep-landed") == 0)
			r = atoll_settings_add(&p.kept, s->name, s->value, NULL, err);
	if (r < 0)
		return r;
	if (!q->n_given)
		return make_around(&p, q, ret, err);
	r = settings_kept_home(q->config, q->own, q->given, q->n_given, &resources, err);
	return r < 0 ? r : make(&p, &resources, ret, err);
}
