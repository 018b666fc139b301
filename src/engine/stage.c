/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getting ready to apply: every file that will be installed is proven not to be open for writing, freed of the overlay's private marks or
 * copied, and made durable. Nothing of the originals is touched. What is left by a crash here is an op directory nobody knows, which
 * recovery removes.
 *
 * The overlay's marks need not be put back if the commit fails: on an entry that stands for itself (it is not merged with a directory of the
 * original) they mean nothing.
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/sys.h"
#include "engine/step.h"

/* A further name on its way to its place; no slot has this name. */
#define JOINED "joined"

/* A directory of the original in which entries are put, if it takes only those of its own project (tree_hands_project_down()). */
struct project {
	char *path; /* that was looked at last; NULL: none */
	int dir;    /* or -EBADF */
};

static void project_release(struct project *p)
{
	p->dir = fd_close(p->dir);
	free(p->path);
	p->path = NULL;
}

struct stager {
	struct op *op;
	struct resource *r;
	struct store_op_resource *how;
	struct peer workspace;
	struct project project;
	int stage_fd, work_fd; /* the op's directories */
	struct tree_sync *sync;
	struct tree_links links; /* of the workspace: their copies in the op's directory */
	const char *slot;
	const char *top; /* of the tree that is copied */
	int failed;
	size_t busy;
	int cause; /* of the step that could not be staged, */
	size_t at; /* which is this one */
	struct tree_copy_report report;
	struct atoll_error *err;
};

static int report_busy(struct stager *s, const char *path)
{
	s->busy++;
	return op_tell(s->op, ATOLL_ITEM_BUSY, s->r, path, "is open for writing in a process that still lives");
}

/* A workspace file that somebody can still write to would let them write into the original. *ret_fd: the file, if it may be read. */
static int open_checked(struct stager *s, int dirfd, const char *name, const char *path, int *ret_fd)
{
	AUTO_FD fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == EACCES || errno == EPERM ? 0 : -errno;
	if (step_lease(fd) == -EAGAIN)
		return report_busy(s, path);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int check_writer(struct stager *s, int dirfd, const char *name, const char *path)
{
	AUTO_FD fd = -EBADF;

	return open_checked(s, dirfd, name, path, &fd);
}

/* ---- entries that are moved ---- */

struct ready_walk {
	struct stager *s;
	const char *top;
};

static bool is_whiteout(const struct tree_stat *st)
{
	return S_ISCHR(st->mode) && st->rdev_major == 0 && st->rdev_minor == 0;
}

/* Below a directory that is not merged a whiteout hides nothing. Its directory keeps its times. */
static int drop_whiteout(const struct tree_entry *e)
{
	struct tree_stat dir;
	int r = tree_stat(e->dirfd, "", &dir);

	if (r >= 0)
		r = sys_unlink(e->dirfd, e->name, 0);
	if (r >= 0) {
		const struct timespec times[2] = { tree_atime(&dir), tree_mtime(&dir) };

		r = sys_utimens(e->dirfd, "", times);
	}
	return r;
}

static int make_ready(const struct tree_entry *e, void *arg)
{
	struct ready_walk *w = arg;
	enum tree_marks marks = resource_marks(w->s->r);
	AUTO_FREE char *path = NULL;
	AUTO_FD fd = -EBADF;
	int r = 0;

	if (is_whiteout(&e->stat))
		return drop_whiteout(e) < 0 ? -EIO : TREE_WALK_GO;
	path = *e->path ? str_format("%s/%s", w->top, e->path) : strdup(w->top);
	if (!path)
		return -ENOMEM;
	if (S_ISREG(e->stat.mode))
		r = open_checked(w->s, e->dirfd, e->name, path, &fd);
	if (r >= 0)
		r = fd >= 0 ? tree_strip_overlay(fd, "", marks) : tree_strip_overlay(e->dirfd, e->name, marks);
	if (r >= 0 && !S_ISLNK(e->stat.mode))
		r = tree_sync_add(w->s->sync, e->dirfd, e->name, S_ISREG(e->stat.mode) ? e->stat.size : 0);
	return r < 0 ? r : TREE_WALK_GO;
}

static int ready_tree(struct stager *s, int dir, const char *name, const char *path)
{
	struct ready_walk w = { s, path };
	AUTO_FD fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : tree_walk(fd, 0, make_ready, &w, NULL);
}

static int ready_entry(struct stager *s, int dir, const char *name, const struct store_step *step)
{
	struct ready_walk w = { s, step->path };
	struct tree_entry e = { .dirfd = dir, .name = name, .path = "", .fd = -EBADF };

	if (S_ISDIR(step->after.mode))
		return ready_tree(s, dir, name, step->path);
	e.stat = (struct tree_stat){ .mode = step->after.mode, .size = step->after.size };
	return make_ready(&e, &w);
}

/* ---- entries that are copied ---- */

/* Names of one workspace inode become names of one staged inode, over all slots. One that can take no more names is followed by another. */
static int join_links(struct stager *s, const struct tree_stat *from, const struct tree_stat *to, int to_dir,
		      const char *to_name, const char *path)
{
	const char *first = tree_links_find(&s->links, from);
	AUTO_FD dir = -EBADF;
	struct tree_stat st;
	const char *name;
	int r;

	if (!first)
		return tree_links_put(&s->links, from, path);
	r = fd_open_parent(s->stage_fd, first, &dir, &name);
	if (r >= 0)
		r = tree_stat(dir, name, &st);
	/* Within one slot they are joined already. */
	if (r < 0 || (st.ino == to->ino && st.dev == to->dev))
		return r;
	r = sys_link(dir, name, s->stage_fd, JOINED);
	if (r == -EMLINK)
		return tree_links_put(&s->links, from, path);
	return r < 0 ? r : sys_rename(s->stage_fd, JOINED, to_dir, to_name, 0);
}

static int note_copied(const char *path, const struct tree_stat *from, int from_dir, const char *from_name,
		       const struct tree_stat *to, int to_dir, const char *to_name, void *arg)
{
	struct stager *s = arg;
	AUTO_FREE char *full = NULL;
	int r = S_ISLNK(to->mode) ? 0 : tree_sync_add(s->sync, to_dir, to_name, S_ISREG(to->mode) ? to->size : 0);

	if (r < 0 || S_ISDIR(from->mode) || from->nlink < 2)
		return r;
	full = *path ? str_format("%s/%s", s->slot, path) : strdup(s->slot);
	return full ? join_links(s, from, to, to_dir, to_name, full) : -ENOMEM;
}

/* Asked of every entry before it is copied: one walk serves both. What could not be looked at fails the copy as a whole, afterwards. */
static bool is_left_out(const struct tree_entry *from, void *arg)
{
	struct stager *s = arg;
	AUTO_FREE char *path = NULL;
	int r;

	if (!S_ISREG(from->stat.mode))
		return tree_is_special(from->stat.mode);
	path = str_format("%s/%s", s->top, from->path);
	r = path ? check_writer(s, from->dirfd, from->name, path) : -ENOMEM;
	s->failed = s->failed < 0 ? s->failed : r;
	return r < 0;
}

static int copy_tree(struct stager *s, int dir, const char *name, const struct store_step *step)
{
	struct tree_copy_hooks hooks = { .skip = is_left_out, .copied = note_copied, .arg = s };
	AUTO_FD from = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	AUTO_FD to = -EBADF;
	int r = from < 0 ? -errno : sys_mkdir(s->stage_fd, step->slot, 0700);

	if (r < 0)
		return r;
	s->top = step->path;
	s->failed = 0;
	to = fd_open_beneath(s->stage_fd, step->slot, O_RDONLY | O_DIRECTORY);
	r = to < 0 ? to : tree_copy(from, to, TREE_COPY_KEEP_SET_ID | resource_marks(s->r), &hooks, &s->report, NULL);
	return r < 0 ? r : s->failed;
}

static int copy_file(struct stager *s, int dir, const char *name, const struct store_step *step)
{
	unsigned flags = TREE_COPY_KEEP_SET_ID | resource_marks(s->r);
	const struct change *c =
		step->slot[0] == 'h' ? changes_find(s->op->changes[s->r - s->op->s->resources], step->path) : NULL;

	if (step->slot[0] != 'h')
		return tree_copy_entry(dir, name, s->stage_fd, step->slot, flags, &s->report);
	return !c || !c->content ? -EINVAL
				 : tree_copy_entry_with(dir, name, s->stage_fd, step->slot, flags, c->content->data,
							c->content->size, &s->report);
}

static int copy_entry(struct stager *s, int dir, const char *name, const struct store_step *step)
{
	struct tree_stat from, to;
	int r;

	s->slot = step->slot;
	if (step->slot[0] == 'c' && S_ISDIR(step->after.mode))
		return copy_tree(s, dir, name, step);
	r = tree_stat(dir, name, &from);
	if (r >= 0 && S_ISREG(from.mode))
		r = check_writer(s, dir, name, step->path);
	if (r >= 0)
		r = copy_file(s, dir, name, step);
	if (r >= 0)
		r = tree_stat(s->stage_fd, step->slot, &to);
	return r < 0 ? r : note_copied("", &from, dir, name, &to, s->stage_fd, step->slot, s);
}

/* The inode that will be installed is the staged one. */
static int identify_copy(struct stager *s, struct store_step *step)
{
	struct tree_stat st;
	int r = tree_stat(s->stage_fd, step->slot, &st);

	return r < 0 ? r : resource_look(s->stage_fd, step->slot, &st, &step->after);
}

/* An ordinary user's copy is the user's own from the beginning: the owner was lost then, and is told when it lands. */
static bool loses_owner(const struct stager *s, const struct store_step *step)
{
	if ((s->r->ops->capabilities & STRATEGY_LAYERED) || geteuid() == 0 || !step->before.id.size)
		return false;
	return step->before.uid != step->after.uid || step->before.gid != step->after.gid;
}

static int note_losses(struct stager *s, const struct store_step *step)
{
	int r = 0;

	s->report.owner_lost |= loses_owner(s, step);
	if (s->report.owner_lost)
		r = op_tell(s->op, ATOLL_ITEM_NOTE, s->r, step->path, "its owner or group could not be kept");
	if (r >= 0 && s->report.xattrs_lost)
		r = op_tell(s->op, ATOLL_ITEM_NOTE, s->r, step->path, "its extended attributes could not be kept");
	s->report = (struct tree_copy_report){ 0 };
	return MIN(r, 0);
}

/* The directory that the entry will lie in, or the next one above it that is there already. */
static int open_original_dir(const struct stager *s, const char *path)
{
	AUTO_FREE char *parent = strdup(path);
	int fd = -ENOENT;

	while (parent && (fd == -ENOENT || fd == -ENOTDIR) && *parent) {
		parent[path_parent_size(parent)] = 0;
		fd = fd_open_beneath(s->r->root_fd, parent, O_RDONLY | O_DIRECTORY);
	}
	return parent ? fd : -ENOMEM;
}

static int find_project(struct stager *s, const char *path)
{
	size_t size = path_parent_size(path);

	if (s->project.path && strlen(s->project.path) == size && strncmp(s->project.path, path, size) == 0)
		return 0;
	project_release(&s->project);
	s->project.path = strndup(path, size);
	s->project.dir = open_original_dir(s, path);
	if (s->project.dir >= 0 && !tree_hands_project_down(s->project.dir))
		s->project.dir = fd_close(s->project.dir);
	return s->project.path ? 0 : -ENOMEM;
}

/* A directory with a project of its own takes nothing of another. */
static int match_project(struct stager *s, int from_dir, const char *name, const char *path)
{
	int r = find_project(s, path);

	return r < 0 || s->project.dir < 0 ? r : tree_project_give(s->project.dir, from_dir, name);
}

/* The overlay does not take it along when it copies a file up. */
static int keep_nodump(const struct store_step *step, int dir, const char *name)
{
	AUTO_FD fd = -EBADF;

	if (step->kind != STORE_STEP_EXCHANGE || !step->seen.is_nodump || !S_ISREG(step->seen.mode) ||
	    !S_ISREG(step->after.mode))
		return 0;
	fd = openat(dir, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : tree_set_nodump(fd);
}

static int stage_step(struct stager *s, struct store_step *step)
{
	const char *name = path_base_name(step->path);
	int dir = peer_dir(&s->workspace, step->path, path_parent_size(step->path));
	int r;

	if (step->kind != STORE_STEP_EXCHANGE && step->kind != STORE_STEP_INSTALL)
		return 0;
	if (dir < 0)
		return dir;
	if (!step->slot || step->slot[0] == 'm') {
		r = ready_entry(s, dir, name, step);
		if (r >= 0)
			r = keep_nodump(step, dir, name);
		if (r >= 0)
			r = match_project(s, dir, name, step->path);
		return r < 0 ? r : tree_sync_add(s->sync, dir, "", 0);
	}
	r = copy_entry(s, dir, name, step);
	if (r >= 0)
		r = keep_nodump(step, s->stage_fd, step->slot);
	/* What stays behind in a divided directory shows together with what lands. */
	if (r >= 0 && step->slot[0] == 'd' && (s->r->ops->capabilities & STRATEGY_LAYERED))
		r = tree_strip_overlay(dir, name, resource_marks(s->r));
	if (r >= 0)
		r = match_project(s, s->stage_fd, step->slot, step->path);
	if (r >= 0)
		r = identify_copy(s, step);
	return r < 0 ? r : note_losses(s, step);
}

/* ---- the op's directories, and the layer that takes the workspace's place ---- */

static bool changes_root(const struct stager *s)
{
	for (size_t i = 0; i < s->op->n; i++)
		if (s->op->steps[i].resource == s->r->row.id && s->op->steps[i].kind == STORE_STEP_META &&
		    !*s->op->steps[i].path)
			return true;
	return false;
}

static bool is_apart(const struct resource *r)
{
	return strcmp(r->row.work, r->row.stage) != 0;
}

static int make_fresh_layer(struct stager *s)
{
	struct tree_copy_report report = { 0 };
	AUTO_FREE char *name = op_layer(s->op);
	struct tree_stat st;
	int from = changes_root(s) ? s->workspace.root_fd : s->r->root_fd;
	int r;

	if (!s->how->switches)
		return 0;
	if (!name)
		return -ENOMEM;
	r = tree_copy_entry(from, "", s->r->work_fd, name, TREE_COPY_KEEP_SET_ID | resource_marks(s->r), &report);
	if (r >= 0)
		r = tree_stat(s->r->work_fd, name, &st);
	if (r >= 0)
		r = tree_identify(s->r->work_fd, name, &st, &s->how->fresh);
	if (r < 0)
		return r;
	/* Beside what is staged it is made durable with that, by the same flush. */
	return is_apart(s->r) ? sys_fsync(s->r->work_fd) : tree_sync_add(s->sync, s->r->work_fd, name, 0);
}

static int make_dirs(struct stager *s)
{
	bool apart = is_apart(s->r);
	int r = sys_mkdir(s->r->stage_fd, s->op->row.dir, 0700);

	/* Resources that share their areas share the op's directory. */
	if ((r >= 0 || r == -EEXIST) && apart)
		r = sys_mkdir(s->r->work_fd, s->op->row.dir, 0700);
	if (r < 0 && r != -EEXIST)
		return r;
	s->stage_fd = op_dir(s->op, s->r, true);
	s->work_fd = op_dir(s->op, s->r, false);
	if (s->stage_fd < 0 || s->work_fd < 0)
		return MIN(s->stage_fd, s->work_fd);
	r = tree_sync_new(s->stage_fd, &s->sync);
	if (r >= 0)
		r = tree_sync_add(s->sync, s->stage_fd, "", 0);
	if (r >= 0)
		r = tree_sync_add(s->sync, s->r->stage_fd, "", 0);
	if (r >= 0 && apart)
		r = sys_fsync(s->r->work_fd);
	return r;
}

/* One stager for each thread; the first is the caller's. */
static void stage_portion(void *arg, size_t part, size_t first, size_t end)
{
	struct stager *s = ((struct stager **)arg)[part];

	for (size_t i = first; i < end && s->cause >= 0; i++) {
		if (s->op->steps[i].resource == s->r->row.id)
			s->cause = stage_step(s, &s->op->steps[i]);
		s->at = i;
		if ((i & 0xff) == 0 && part == 0)
			op_progress(s->op, "staging", i, s->op->n);
	}
}

/* Entries that are moved share nothing with each other but the flush, which is one for so many. */
static void stage_in_threads(struct stager *s)
{
	struct stager others[PARALLEL_MAX - 1], *parts[PARALLEL_MAX] = { s };

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		others[i] = *s;
		others[i].workspace = (struct peer){ s->workspace.root_fd, NULL, -EBADF };
		others[i].project = (struct project){ NULL, -EBADF };
		parts[i + 1] = &others[i];
	}
	tree_sync_add_all(s->sync);
	parallel_run(s->op->n, stage_portion, parts);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		peer_release(&others[i].workspace);
		project_release(&others[i].project);
		s->busy += others[i].busy;
		if (others[i].cause < 0 && (s->cause >= 0 || others[i].at < s->at)) {
			s->cause = others[i].cause;
			s->at = others[i].at;
		}
	}
}

/* Copies depend on each other by their hard links. */
static bool has_copies(const struct stager *s)
{
	for (size_t i = 0; i < s->op->n; i++)
		if (s->op->steps[i].resource == s->r->row.id && s->op->steps[i].slot &&
		    (s->op->steps[i].slot[0] == 'c' || s->op->steps[i].slot[0] == 'h'))
			return true;
	return false;
}

static int stage_entries(struct stager *s)
{
	if (s->how->source == STORE_SOURCE_MOVE && parallel_is_worth(s->op->n) && !has_copies(s))
		stage_in_threads(s);
	else
		stage_portion(&s, 0, 0, s->op->n);
	if (s->cause >= 0)
		return 0;
	return error_sys(s->err, s->cause, "commit", s->op->steps[s->at].path, "cannot stage \"%s\" of \"%s\"",
			 s->op->steps[s->at].path, s->r->row.path);
}

static int stage_steps(struct stager *s)
{
	int r = make_dirs(s);

	if (r >= 0)
		r = make_fresh_layer(s);
	if (r >= 0) {
		int staged = stage_entries(s);

		if (staged < 0)
			return staged;
	}
	/* Everything planned is older than this moment. */
	if (r >= 0 && !s->busy)
		r = tree_stamp(s->stage_fd, &s->how->prepared_at);
	return r < 0 ? error_sys(s->err, r, "commit", s->r->row.path, "cannot stage the changes of \"%s\" in \"%s\"",
				 s->r->row.path, s->r->row.stage)
		     : 0;
}

static int stage_resource(struct op *op, size_t index, size_t *busy, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	AUTO_FD workspace = resource_workspace(r);
	struct stager s = { .op = op,
			    .r = r,
			    .how = &op->resources[index],
			    .workspace = { workspace, NULL, -EBADF },
			    .project = { NULL, -EBADF },
			    .stage_fd = -EBADF,
			    .work_fd = -EBADF,
			    .err = err };
	int rc = stage_steps(&s);

	*busy += s.busy;
	peer_release(&s.workspace);
	project_release(&s.project);
	op->syncs[index] = s.sync;
	tree_links_release(&s.links);
	fd_close(s.stage_fd);
	fd_close(s.work_fd);
	return rc;
}

static bool takes_part(const struct op *op, size_t index)
{
	if (op->decider == index + 1 || vote_is_cast_by(op, index))
		return true;
	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].resource == op->s->resources[index].row.id)
			return true;
	return false;
}

int stage_all(struct op *op, struct atoll_error *err)
{
	size_t busy = 0;
	sigset_t before;

	op->syncs = calloc(op->s->n ? op->s->n : 1, sizeof *op->syncs);
	if (!op->syncs)
		return error_oom(err, "commit");
	for (size_t i = 0; i < op->s->n; i++) {
		int r;

		if (!takes_part(op, i))
			continue;
		op->resources[i].resource = op->s->resources[i].row.id;
		op->resources[i].op = -1; /* its number comes with the journal */
		step_leases_begin(&before);
		r = stage_resource(op, i, &busy, err);
		step_leases_end(&before);
		if (r < 0)
			return r;
	}
	if (!busy)
		return 0;
	return error_set(err, ATOLL_BUSY, 0, "commit", op->s->box.name,
			 "%zu file%s still open for writing; end the process that holds %s", busy,
			 busy == 1 ? " is" : "s are", busy == 1 ? "it" : "them");
}

int stage_flush_all(struct op *op, struct atoll_error *err)
{
	for (size_t i = 0; i < op->s->n; i++) {
		const struct store_resource *row = &op->s->resources[i].row;
		int r = op->syncs[i] ? tree_sync_flush(op->syncs[i]) : 0;

		if (r < 0)
			return error_sys(err, r, "commit", row->path,
					 "cannot make the staged changes of \"%s\" durable in \"%s\"", row->path,
					 row->stage);
		op->syncs[i] = tree_sync_free(op->syncs[i]);
	}
	return 0;
}
