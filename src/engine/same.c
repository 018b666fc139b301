/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undo: files that another process has written anew, or touched, since they landed, and that hold what landed all the same. Git does so when
 * another branch is checked out and left again. The strategy compares the content; what it knows nothing of is compared here: owner, permissions,
 * links and extended attributes.
 *
 * Such a file is what landed from then on: the step gets its identity and look, and is stored again before the undo begins (struct op.revised),
 * so that recovery knows it. The undo moves it into the sandbox, where the file that landed would have gone.
 *
 * A stamp is taken first. A file that was changed before the stamp has an earlier ctime, and every later change gives a later one: what is done to
 * the file while its content is compared is seen when the step moves it.
 */
#include "engine/step.h"

#include <fcntl.h>
#include <string.h>

#include "base/sys.h"

void same_release(struct same *s)
{
	free(s->steps);
	*s = (struct same){ 0 };
}

bool same_can_be(const struct step_site *site, const struct store_step *step)
{
	bool file = S_ISREG(step->seen.mode) || S_ISLNK(step->seen.mode);

	return site->r->ops->part_same && file && (step->seen.mode & S_IFMT) == (step->after.mode & S_IFMT) &&
	       (step->kind == STORE_STEP_EXCHANGE || step->kind == STORE_STEP_INSTALL);
}

int same_add(struct same *s, struct store_step *step)
{
	struct store_step **grown = reallocarray(s->steps, s->n + 1, sizeof *grown);

	if (!grown)
		return -ENOMEM;
	s->steps = grown;
	s->steps[s->n++] = step;
	return 0;
}

/* Permissions that git gives a file it writes, under the usual umasks. */
static bool is_plain(mode_t mode)
{
	mode_t permissions = mode & 07777;

	return permissions == 0644 || permissions == 0755 || permissions == 0664 || permissions == 0775;
}

/* A file that is still the inode that landed has its mode. One that was written anew has that, the one of the version before, or a plain one. */
static bool has_known_mode(const struct store_step *step, const struct store_look *now)
{
	if (S_ISLNK(now->mode) || now->mode == step->after.mode)
		return true;
	return !tree_id_equal(&now->id, &step->after.id) && (now->mode == step->before.mode || is_plain(now->mode));
}

/* None, or those of the version that the undo brings back. */
static bool has_known_attributes(struct step_site *site, const struct store_step *step, const struct place *at)
{
	CLEANUP(tree_xattrs_release) struct tree_xattrs x = { 0 };
	AUTO_FD file = openat(at->dir, at->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	struct place old;

	if (S_ISLNK(step->seen.mode))
		return true;
	if (file < 0 || tree_xattrs_read(file, TREE_MARKS_NONE, &x) < 0)
		return false;
	return x.n == 0 || (step->kind == STORE_STEP_EXCHANGE && S_ISREG(step->before.mode) &&
			    step_find_source(site, step, &old) >= 0 &&
			    tree_xattrs_same(old.dir, old.name, at->dir, at->name, TREE_MARKS_NONE) > 0);
}

/* As far as it can be said without reading the content: 1 and *ret, 0 or -errno. */
static int looks_alike(struct step_site *site, struct store_step *step, int64_t stamp, struct store_look *ret)
{
	struct place at;
	int r = step_find_original(site, step, &at);

	if (r >= 0)
		r = step_look_at(&at, &step->seen, ret);
	if (is_absent(r))
		return 0;
	return r < 0 ? r
		     : same_can_be(site, step) && step->seen.ctime < stamp && step->seen.nlink == 1 &&
			       ret->uid == step->after.uid && ret->gid == step->after.gid &&
			       has_known_mode(step, ret) && has_known_attributes(site, step, &at);
}

/* The directory of the part that landed with the files: an fd or -errno. */
static int open_part(struct step_site *site)
{
	const struct op *op = site->op;

	for (size_t i = 0; i < op->n; i++)
		if (op->steps[i].kind == STORE_STEP_PART && op->steps[i].resource == site->r->row.id)
			return part_open(site, &op->steps[i]);
	return -ENOENT;
}

struct candidates {
	struct store_step **steps;
	struct store_look *looks;
	const char **paths;
	bool *same;
	size_t n;
};

static void candidates_release(struct candidates *c)
{
	free(c->steps);
	free(c->looks);
	free(c->paths);
	free(c->same);
}

/* Those of the list that look alike. */
static int collect(struct step_site *site, const struct same *s, struct candidates *c)
{
	int64_t stamp;
	int r = tree_stamp(site->r->stage_fd, &stamp);

	c->steps = calloc(s->n, sizeof *c->steps);
	c->looks = calloc(s->n, sizeof *c->looks);
	c->paths = calloc(s->n, sizeof *c->paths);
	c->same = calloc(s->n, sizeof *c->same);
	if (!c->steps || !c->looks || !c->paths || !c->same)
		return -ENOMEM;
	for (size_t i = 0; i < s->n && r >= 0; i++) {
		r = looks_alike(site, s->steps[i], stamp, &c->looks[c->n]);
		if (r <= 0)
			continue;
		c->steps[c->n] = s->steps[i];
		c->paths[c->n++] = s->steps[i]->path;
	}
	return MIN(r, 0);
}

/* What landed was durable, and so is what takes its place: it becomes an edit of the sandbox. */
static int make_durable(struct step_site *site, const struct candidates *c)
{
	int r = 0;

	for (size_t i = 0; i < c->n && r >= 0; i++) {
		AUTO_FD fd = -EBADF;
		struct place at;

		if (!c->same[i] || !S_ISREG(c->steps[i]->seen.mode))
			continue;
		r = step_find_original(site, c->steps[i], &at);
		if (r < 0)
			break;
		fd = openat(at.dir, at.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		r = fd < 0 ? -errno : sys_fsync(fd);
	}
	return r;
}

/* The candidates are in the order of the list. */
static void adopt(struct op *op, const struct candidates *c, struct same *s)
{
	size_t left = 0, at = 0;

	for (size_t i = 0; i < s->n; i++) {
		bool judged = at < c->n && c->steps[at] == s->steps[i];

		if (judged && c->same[at])
			s->steps[i]->after = c->looks[at];
		else
			s->steps[left++] = s->steps[i];
		at += judged;
	}
	op->revised |= left < s->n;
	s->n = left;
}

int same_judge(struct step_site *site, struct same *s, struct atoll_error *err)
{
	CLEANUP(candidates_release) struct candidates c = { 0 };
	AUTO_FD part = s->n ? open_part(site) : -ENOENT;
	int r;

	if (part == -ENOENT)
		return 0;
	r = part < 0 ? part : collect(site, s, &c);
	if (r < 0)
		return error_sys(err, r, "undo", site->r->row.path, "cannot look at the files of \"%s\"",
				 site->r->row.path);
	r = c.n ? site->r->ops->part_same(site->r, part, c.paths, c.n, c.same, err) : 0;
	if (r < 0)
		return r;
	r = make_durable(site, &c);
	if (r < 0)
		return error_sys(err, r, "undo", site->r->row.path, "cannot make the files of \"%s\" durable",
				 site->r->row.path);
	adopt(site->op, &c, s);
	return 0;
}
