/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/late.h"

#include <fcntl.h>
#include <string.h>

struct late {
	int64_t since;
	bool in_slots;              /* the walk is of an op's directory, where each entry is a slot */
	struct tree_inodes *linked; /* see count_name() */
	char *path;                 /* the first that was found */
	size_t n;
};

/* A mark of overlayfs for a deleted name. All of them are links of one inode, which also has a name in the work directory: its ctime moves
 * when that one goes. */
static bool is_whiteout(const struct tree_stat *st)
{
	return S_ISCHR(st->mode) && st->rdev_major == 0 && st->rdev_minor == 0;
}

/* A file with several names is lost with the undo data only if that has all of them, in whichever commits. Counts one more name. 1: this was
 * the last one, and the content of the file or the directory of a name has changed since. */
static int count_name(struct late *late, const struct tree_entry *e, bool changed)
{
	uint64_t *value = tree_inodes_find(late->linked, &e->stat);

	if (!value)
		value = tree_inodes_add(late->linked, &e->stat, 0);
	if (!value)
		return -ENOMEM;
	*value = (*value + 2) | changed; /* twice the number of names, and one if any has changed */
	return *value == (uint64_t)e->stat.nlink * 2 + 1;
}

/* Atoll itself touches nothing there. The ctime of a file may have moved because another name of it went elsewhere. */
static int is_late(struct late *late, const struct tree_entry *e)
{
	struct tree_stat parent;
	bool changed;

	if (e->stat.ctime < late->since || is_whiteout(&e->stat))
		return 0;
	changed = tree_stat(e->dirfd, "", &parent) >= 0 && parent.mtime >= late->since;
	if (S_ISDIR(e->stat.mode))
		return changed;
	return count_name(late, e, changed || e->stat.mtime >= late->since);
}

/* Whether the slot's content never was in the original: it is a strategy's own data (p), or an
 * entry of the workspace (k), which a command inside may still write to under another name. */
static bool is_own_slot(const struct tree_entry *e)
{
	return !strchr(e->path, '/') && (e->name[0] == 'k' || (e->name[0] == 'p' && S_ISDIR(e->stat.mode)));
}

static int visit(const struct tree_entry *e, void *arg)
{
	struct late *late = arg;
	int r;

	if (late->in_slots && is_own_slot(e))
		return TREE_WALK_SKIP;
	r = is_late(late, e);
	if (r <= 0)
		return r < 0 ? r : TREE_WALK_GO;
	late->n++;
	if (!late->path)
		late->path = strdup(e->path);
	return late->path ? TREE_WALK_GO : -ENOMEM;
}

/* Walks one directory of undo data, if it is there. */
static int look(int area_fd, const char *name, struct late *late)
{
	AUTO_FD fd = area_fd < 0 ? -ENOENT : fd_open_beneath(area_fd, name, O_RDONLY | O_DIRECTORY);
	int r;

	if (fd < 0)
		return is_absent(fd) ? 0 : fd;
	r = tree_walk(fd, TREE_WALK_NO_ROOT, visit, late, NULL);
	/* A mount in there belongs to nobody's undo data, and is what the removal stops at. */
	return r == -EXDEV ? 0 : r;
}

/* ---- before a sandbox is removed ---- */

static int refuse(struct session *s, const char *area, const char *dir, const struct late *late,
		  struct atoll_error *err)
{
	return error_set(
		err, ATOLL_REFUSED, 0, "rm", s->box.name,
		"the sandbox \"%s\" holds what another process wrote into a directory after a commit had removed it: "
		"\"%s/%s/%s\"%s; take the commit back, move it away, or remove it too with --abandon",
		s->box.name, area, dir, late->path, late->n > 1 ? " and more" : "");
}

static int look_in_resource(struct session *s, const struct store_op *op, const struct store_op_resource *how,
			    int64_t put_back, struct tree_inodes *linked, struct atoll_error *err)
{
	struct resource *r = session_resource(s, how->resource);
	AUTO_FREE char *layer = str_format("%s.layer", op->dir);
	struct late late = { .since = MAX(how->landed_at, put_back), .linked = linked };
	bool in_layer = false;
	int rc;

	if (!layer)
		return error_oom(err, "rm");
	if (!r || !how->landed_at || (r->work_fd < 0 && resource_open_areas(s, r, NULL) < 0))
		return 0;
	late.in_slots = true;
	rc = look(r->stage_fd, op->dir, &late);
	late.in_slots = false;
	/* Where the workspace lies on another filesystem its layer holds nothing of the original. */
	if (rc >= 0 && !late.n && !r->row.copies) {
		rc = look(r->work_fd, layer, &late);
		in_layer = late.n > 0;
	}
	if (rc < 0)
		rc = error_sys(err, rc, "rm", r->row.path, "cannot look at the undo data in \"%s\"", r->row.stage);
	else if (late.n)
		rc = refuse(s, r->row.stage, in_layer ? layer : op->dir, &late, err);
	free(late.path);
	return rc;
}

/* When an undo that failed, or was cut off, had put everything back where the commit left it: that was Atoll's own doing. */
static int64_t last_put_back(const struct store_op *ops, size_t n, const struct store_op *commit)
{
	int64_t last = 0;

	for (size_t i = 0; i < n; i++)
		if (ops[i].kind == STORE_OP_UNDO && ops[i].commit_op == commit->id)
			last = MAX(last, ops[i].ended_ns);
	return last;
}

static int look_in_op(struct session *s, const struct store_op *op, int64_t put_back, struct tree_inodes *linked,
		      struct atoll_error *err)
{
	AUTO_FREE struct store_op_resource *list = NULL;
	size_t n = 0;
	int r;

	if (op->kind != STORE_OP_COMMIT || op->phase == STORE_FAILED || op->taken_back)
		return 0;
	r = store_op_resource_list(s->store, op->id, &list, &n, err);
	for (size_t i = 0; i < n && r >= 0; i++)
		r = look_in_resource(s, op, &list[i], put_back, linked, err);
	return r;
}

int late_refuse(struct session *s, struct atoll_error *err)
{
	struct tree_inodes linked = { 0 };
	struct store_op *ops = NULL;
	size_t n = 0;
	int r = store_op_list(s->store, s->box.id, &ops, &n, err);

	for (size_t i = 0; i < n && r >= 0; i++)
		r = look_in_op(s, &ops[i], last_put_back(ops, n, &ops[i]), &linked, err);
	tree_inodes_release(&linked);
	store_ops_free(ops, n);
	return r;
}
