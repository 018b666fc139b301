/* SPDX-License-Identifier: Apache-2.0 */
/* What is checked before anything is touched: policies, permissions, boundaries, space. Everything found is listed, not just the first. */
#include "engine/link-target.h"

#include <fcntl.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "jail/jail.h"

/* The directory last judged that leaves with what is in it. */
struct leaving {
	struct peer original;
	struct tree_stat parent;
	const char *verdict;
};

struct checker {
	struct op *op;
	struct resource *r;
	struct store_op_resource *how;
	const struct selection *selection;
	const struct changes *changes;
	struct peer original, workspace;
	struct tree_stat root;
	struct tree_stat parent; /* of the directory last judged, and what came of it */
	const char *verdict;
	const char *boundary; /* the last mount point or subvolume among the originals of the changes */
	struct leaving leaving;
	size_t refused;
	struct atoll_error *err;
};

static int refuse(struct checker *c, const char *path, const char *why)
{
	c->refused++;
	return result_add(c->op->result, ATOLL_ITEM_REFUSED, c->r->row.seq, path, why) ? 0
										       : error_oom(c->err, "commit");
}

static int note(struct checker *c, const char *path, const char *why)
{
	return result_add(c->op->result, ATOLL_ITEM_NOTE, c->r->row.seq, path, why) ? 0 : error_oom(c->err, "commit");
}

/* ---- set-id ---- */

/* As the kernel keeps them; the third form, with the user namespace they belong to, is the longest. */
struct capability {
	char data[32];
	ssize_t size;
};

/* Without opening the file: every new file is asked. The last component of such a path is not followed. */
static struct capability capability_of(struct peer *peer, const char *path)
{
	int dir = peer_dir(peer, path, path_parent_size(path));
	AUTO_FREE char *at = dir < 0 ? NULL : str_format("/proc/self/fd/%d/%s", dir, path_base_name(path));
	struct capability c = { .size = -1 };

	if (at)
		c.size = lgetxattr(at, "security.capability", c.data, sizeof c.data);
	return c;
}

/* Whether the file lands with capabilities that the original does not have. */
static bool gains_capability(struct checker *c, const struct change *change)
{
	struct capability after = { .size = -1 }, before = { .size = -1 };

	if (!change->has_before || (change->what & (ATOLL_WHAT_CONTENT | ATOLL_WHAT_XATTR)))
		after = capability_of(&c->workspace, change->path);
	if (after.size > 0 && change->has_before && S_ISREG(change->before.mode))
		before = capability_of(&c->original, change->path);
	return after.size > 0 &&
	       (before.size != after.size || memcmp(before.data, after.data, (size_t)after.size) != 0);
}

static int check_set_id(struct checker *c, const struct change *change)
{
	mode_t gained = change->after.mode & (S_ISUID | S_ISGID);

	if (!S_ISREG(change->after.mode) || c->op->options->allow_set_id)
		return 0;
	if (change->has_before && S_ISREG(change->before.mode) && change->before.uid == change->after.uid &&
	    change->before.gid == change->after.gid)
		gained &= ~change->before.mode;
	if (gained)
		return refuse(c, change->path, "would gain set-user-ID or set-group-ID; --allow-set-id permits it");
	if (gains_capability(c, change))
		return refuse(c, change->path, "would gain file capabilities; --allow-set-id permits it");
	return 0;
}

/* ---- links ---- */

static int check_link(struct checker *c, const struct change *change)
{
	int dir = peer_dir(&c->workspace, change->path, path_parent_size(change->path));
	AUTO_FREE char *at = str_format("%s/%.*s", c->r->root_path, (int)path_parent_size(change->path), change->path);
	AUTO_FREE char *target = NULL;
	enum link_place place;
	int r = dir < 0 ? dir : fd_readlink(dir, path_base_name(change->path), &target);

	if (r < 0)
		return error_sys(c->err, r, "commit", change->path, "cannot read the link \"%s\"", change->path);
	/* For a link at the top of the resource, remove the slash at the end of its directory. */
	while (at && strlen(at) > 1 && at[strlen(at) - 1] == '/')
		at[strlen(at) - 1] = '\0';
	r = at ? link_target_place(c->op, at, target, &place) : -ENOMEM;
	if (r < 0)
		return error_sys(c->err, r, "commit", change->path, "cannot see where the link \"%s\" leads",
				 change->path);
	if (place == LINK_INSIDE)
		return 0;
	if (place == LINK_SYSTEM)
		return note(c, change->path, "links into the system");
	if (c->op->options->allow_outside_links)
		return note(c, change->path, "links outside the resources");
	return refuse(c, change->path, "links outside the resources; --allow-outside-links permits it");
}

/* ---- mount points and subvolumes ---- */

/* Why an entry of the original that is a mount point or a subvolume is neither removed, replaced nor changed itself, or
 * NULL. A rename of the directory above would move the mount or subvolume into the undo record. Only the device of a
 * directory tells: an overlay gives files other device numbers than directories. */
static const char *judge_boundary(const struct checker *c, const struct tree_stat *st)
{
	if (st->mnt_id != c->root.mnt_id)
		return "is a mount point, which a commit does not change; unmount it first";
	if (S_ISDIR(st->mode) && st->dev != c->root.dev)
		return "is a subvolume, which a commit does not change";
	return NULL;
}

/* Whether the original of the change lies in a mount or subvolume whose own directory is the original of an earlier
 * change. Notes the directory if there is no earlier one. */
static bool lies_behind_boundary(struct checker *c, const struct change *change)
{
	if (c->boundary && path_is_below(change->path, c->boundary))
		return true;
	if (change->has_before && judge_boundary(c, &change->before))
		c->boundary = change->path;
	return false;
}

/* ---- what leaves with its directory ---- */

/* Why nothing can be removed from a directory that leaves the original, or NULL. The owner of a directory can always add the permission. */
static const char *judge_leaving_parent(int dir, const struct tree_stat *st)
{
	if (st->uid == geteuid() || jail_maps_uid(st->uid) || faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) == 0)
		return NULL;
	return "lies in a directory of another user that may not be written: it could never be removed from the undo record";
}

/* The directory is renamed as a whole, which would succeed whatever it holds. Its content is removed much later, with the undo record or with the
 * sandbox, and an entry that cannot be removed then would keep the sandbox from ever being removed. */
static int check_leaving(struct checker *c, const struct change *change)
{
	struct leaving *l = &c->leaving;
	bool same = l->original.path && strlen(l->original.path) == path_parent_size(change->path) &&
		    memcmp(l->original.path, change->path, path_parent_size(change->path)) == 0;
	const char *boundary = judge_boundary(c, &change->before);
	int dir;

	if (boundary)
		return refuse(c, change->path, boundary);
	if (change->before.is_immutable)
		return refuse(c, change->path, "is immutable or append-only");
	if (jail_is_root())
		return 0;
	dir = peer_dir(&l->original, change->path, path_parent_size(change->path));
	if (dir < 0 || (!same && tree_stat(dir, "", &l->parent) < 0)) {
		peer_release(&l->original);
		return 0; /* gone meanwhile: a conflict */
	}
	if (!same)
		l->verdict = judge_leaving_parent(dir, &l->parent);
	if (l->verdict)
		return refuse(c, change->path, l->verdict);
	if ((l->parent.mode & S_ISVTX) && l->parent.uid != geteuid() && change->before.uid != geteuid() &&
	    !jail_maps_uid(change->before.uid))
		return refuse(c, change->path, "belongs to somebody else, in a sticky directory");
	return 0;
}

/* ---- each change ---- */

static int check_change(struct checker *c, const struct change *change)
{
	bool behind;
	int r = 0;

	if (change->part || !selection_has(c->selection, change->path))
		return 0;
	behind = lies_behind_boundary(c, change);
	if (change->kind == ATOLL_SKIPPED && change->implied)
		return 0;
	if (change->kind == ATOLL_SKIPPED) {
		struct atoll_item *item =
			result_add(c->op->result, ATOLL_ITEM_SKIPPED, c->r->row.seq, change->path, change->note);

		return item ? 0 : error_oom(c->err, "commit");
	}
	if (change->kind == ATOLL_DELETED && change->below && change->has_before && !behind)
		return check_leaving(c, change);
	if (!change->has_after)
		return 0;
	r = check_set_id(c, change);
	if (r >= 0 && S_ISLNK(change->after.mode) && (change->kind != ATOLL_META))
		r = check_link(c, change);
	return r;
}

/* ---- each directory that will be written ---- */

/* Why nothing in a directory can be replaced, or NULL. */
static const char *judge_parent(struct checker *c, int dir, const struct tree_stat *st)
{
	if (st->dev != c->root.dev || st->mnt_id != c->root.mnt_id)
		return "lies on another filesystem, mount or subvolume than the resource";
	if (st->is_immutable)
		return "lies in an immutable or append-only directory";
	if (faccessat(dir, ".", W_OK | X_OK, AT_EACCESS) < 0)
		return errno == EROFS ? "lies on a read-only filesystem"
				      : "lies in a directory that may not be written";
	return NULL;
}

/* Neighbours share the answer about their directory. */
static int check_parent(struct checker *c, const struct store_step *step)
{
	bool same = c->original.path && strlen(c->original.path) == path_parent_size(step->path) &&
		    memcmp(c->original.path, step->path, path_parent_size(step->path)) == 0;
	int dir = peer_dir(&c->original, step->path, path_parent_size(step->path));
	const char *boundary = step->seen.mode ? judge_boundary(c, &step->seen) : NULL;

	if (dir < 0)
		return 0; /* made by an earlier step */
	if (!same && tree_stat(dir, "", &c->parent) < 0) {
		peer_release(&c->original);
		return 0;
	}
	if (!same)
		c->verdict = judge_parent(c, dir, &c->parent);
	if (c->verdict)
		return refuse(c, step->path, c->verdict);
	if (boundary)
		return refuse(c, step->path, boundary);
	if (step->seen.is_immutable)
		return refuse(c, step->path, "is immutable or append-only");
	if (step->seen.mode && (c->parent.mode & S_ISVTX) && geteuid() != 0 && step->seen.uid != geteuid() &&
	    c->parent.uid != geteuid())
		return refuse(c, step->path, "belongs to somebody else, in a sticky directory");
	return 0;
}

/* What the user's own rights do not allow is refused before anything has landed; the set-group-ID bit, once lost, could
 * not be put back by an undo. */
static int check_meta(struct checker *c, const struct store_step *step)
{
	const struct store_look *before = &step->before, *after = &step->after;
	AUTO_FD fd = -EBADF;
	struct tree_stat st;

	if (jail_is_root() || (before->mode == after->mode && before->uid == after->uid && before->gid == after->gid))
		return 0;
	fd = fd_open_beneath(c->r->root_fd, step->path, O_PATH | O_DIRECTORY);
	if (fd < 0 || tree_stat(fd, "", &st) < 0)
		return 0; /* made by an earlier step, or gone: that is found later */
	if (st.uid != geteuid() && !jail_maps_uid(st.uid))
		return refuse(c, *step->path ? step->path : ".",
			      "is a directory of another user: its mode and owner cannot be changed");
	if (((before->mode | after->mode) & S_ISGID) && tree_keeps_set_gid(fd, &st) == 0)
		return refuse(
			c, *step->path ? step->path : ".",
			"belongs to a group that you are not in: a new mode would take its set-group-ID bit for good");
	return 0;
}

static int check_steps(struct checker *c)
{
	int r = 0;

	for (size_t i = 0; i < c->op->n && r >= 0; i++) {
		const struct store_step *step = &c->op->steps[i];

		if (step->resource == c->r->row.id && step->kind != STORE_STEP_TIME &&
		    step->kind != STORE_STEP_RETIRE && *step->path)
			r = check_parent(c, step);
		if (r >= 0 && step->resource == c->r->row.id && step->kind == STORE_STEP_META)
			r = check_meta(c, step);
	}
	return r;
}

/* ---- the resource as a whole ---- */

static int check_suspect(struct checker *c)
{
	const struct change *lost = c->op->options->accept_unsynced ? NULL : boot_find_unsynced(c->r, c->changes);

	if (!lost)
		return 0;
	return refuse(c, lost->path,
		      "was written, not synced, and the machine restarted since; look at it, then --accept-unsynced");
}

static int check_space(struct checker *c)
{
	uint64_t bytes = 0, inodes = 64, left;
	struct statvfs fs;

	if (fstatvfs(c->r->stage_fd, &fs) < 0)
		return 0;
	for (size_t i = 0; i < c->changes->n; i++)
		if (c->changes->v[i].has_after && selection_has(c->selection, c->changes->v[i].path)) {
			bytes += c->how->source == STORE_SOURCE_COPY ? c->changes->v[i].after.blocks * 512 : 0;
			inodes += c->how->source == STORE_SOURCE_COPY;
		}
	/* What is reserved for root is root's to use; blocks that are shared take no space. */
	left = (uint64_t)(jail_is_root() ? fs.f_bfree : fs.f_bavail) * fs.f_frsize;
	if (bytes > left && !tree_can_share(c->r->work_fd, c->r->stage_fd))
		return error_set(c->err, ATOLL_NO_SPACE, ENOSPC, "commit", c->r->row.path,
				 "staging for \"%s\" needs %llu bytes in \"%s\", %llu are free", c->r->row.path,
				 (unsigned long long)bytes, c->r->row.stage, (unsigned long long)left);
	if (fs.f_files && inodes > fs.f_favail)
		return error_set(c->err, ATOLL_NO_SPACE, ENOSPC, "commit", c->r->row.path,
				 "staging for \"%s\" needs %llu inodes in \"%s\", %llu are free", c->r->row.path,
				 (unsigned long long)inodes, c->r->row.stage, (unsigned long long)fs.f_favail);
	return 0;
}

static int check_resource(struct op *op, size_t index, size_t *refused, struct atoll_error *err)
{
	struct resource *r = &op->s->resources[index];
	AUTO_FD workspace = resource_workspace(r);
	struct checker c = { .op = op,
			     .r = r,
			     .how = &op->resources[index],
			     .selection = &op->selections[index],
			     .changes = op->changes[index],
			     .original = { r->root_fd, NULL, -EBADF },
			     .leaving = { .original = { r->root_fd, NULL, -EBADF } },
			     .workspace = { workspace, NULL, -EBADF },
			     .err = err };
	int rc = tree_stat(r->root_fd, "", &c.root);

	if (rc < 0)
		return error_sys(err, rc, "commit", r->row.path, "cannot look at \"%s\"", r->row.path);
	for (size_t i = 0; i < c.changes->n && rc >= 0; i++)
		rc = check_change(&c, &c.changes->v[i]);
	if (rc >= 0)
		rc = check_steps(&c);
	if (rc >= 0)
		rc = link_notes_add(op, index, err);
	if (rc >= 0)
		rc = live_check(op, index, err);
	if (rc >= 0)
		rc = check_suspect(&c);
	if (rc >= 0)
		rc = check_space(&c);
	peer_release(&c.original);
	peer_release(&c.leaving.original);
	peer_release(&c.workspace);
	*refused += c.refused;
	return rc;
}

static int check_atomicity(struct op *op, struct atoll_error *err)
{
	for (size_t i = 0; i < op->s->n && op->s->n > 1; i++) {
		const struct store_resource *row = &op->s->resources[i].row;

		if (resource_isolates(&op->s->resources[i]))
			continue;
		if (!op->options->permissive)
			return error_set(
				err, ATOLL_REFUSED, 0, "commit", row->path,
				"\"%s\" is not isolated, so that all or nothing cannot be promised; --permissive commits the rest all the same",
				row->path);
		op->result->atomic = false;
	}
	return 0;
}

static size_t count_items(const struct atoll_result *r, enum atoll_item_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_items; i++)
		n += r->items[i].kind == kind;
	return n;
}

/* A directory that turned immutable takes neither its old mode nor its old time back. */
static int check_undo_directory(struct checker *c, const struct store_step *step)
{
	AUTO_FD fd = fd_open_beneath(c->r->root_fd, *step->path ? step->path : ".", O_PATH | O_DIRECTORY);
	struct tree_stat st;

	if (fd < 0 || tree_stat(fd, "", &st) < 0 || !st.is_immutable)
		return 0;
	return refuse(c, *step->path ? step->path : ".", "is immutable or append-only");
}

static int check_undo_steps(struct checker *c)
{
	int r = 0;

	for (size_t i = 0; i < c->op->n && r >= 0; i++) {
		const struct store_step *step = &c->op->steps[i];

		if (step->resource != c->r->row.id || step->kind == STORE_STEP_RETIRE || step->kind == STORE_STEP_PART)
			continue;
		if (step->kind == STORE_STEP_META || step->kind == STORE_STEP_TIME)
			r = check_undo_directory(c, step);
		else if (*step->path)
			r = check_parent(c, step);
	}
	return r;
}

/* Undo renames the same paths that the commit renamed. The directories may have become immutable
 * or read-only since: then the undo is refused before its first step. */
int check_undo(struct op *op, struct atoll_error *err)
{
	size_t refused = 0;
	int rc = 0;

	for (size_t i = 0; i < op->s->n && rc >= 0; i++) {
		struct resource *r = &op->s->resources[i];
		struct checker c = { .op = op, .r = r, .original = { r->root_fd, NULL, -EBADF }, .err = err };

		if (!op->resources[i].op || !resource_isolates(r) || tree_stat(r->root_fd, "", &c.root) < 0)
			continue;
		rc = check_undo_steps(&c);
		peer_release(&c.original);
		refused += c.refused;
	}
	if (rc < 0 || !refused)
		return rc;
	return error_set(err, ATOLL_REFUSED, 0, "undo", op->s->box.name, "%zu path%s refused; nothing was taken back",
			 refused, refused == 1 ? " was" : "s were");
}

int check_plan(struct op *op, struct atoll_error *err)
{
	size_t refused = 0;
	int r = check_atomicity(op, err);

	for (size_t i = 0; i < op->s->n && r >= 0; i++)
		if (resource_isolates(&op->s->resources[i]))
			r = check_resource(op, i, &refused, err);
	if (r < 0)
		return r;
	refused = count_items(op->result, ATOLL_ITEM_REFUSED);
	if (!refused)
		return 0;
	return error_set(err, ATOLL_REFUSED, 0, "commit", op->s->box.name, "%zu path%s refused; nothing was committed",
			 refused, refused == 1 ? " was" : "s were");
}
