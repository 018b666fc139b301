/* SPDX-License-Identifier: Apache-2.0 */
/* What a sandbox must remember of the repository it was made from. */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/sys.h"

void git_state_release(struct git_state *s)
{
	free(s->branch);
	free(s->own);
	*s = (struct git_state){ 0 };
}

int git_put_file(int dir_fd, const char *name, const char *content, size_t size)
{
	AUTO_FREE char *tmp = str_format("%s.new", name);
	AUTO_FD fd = -EBADF;
	int r = tmp ? tree_remove(dir_fd, tmp) : -ENOMEM; /* a command inside may have made anything of that name */

	if (r < 0 && r != -ENOENT)
		return r;
	fd = sys_open(dir_fd, tmp, O_WRONLY | O_CREAT | O_EXCL, 0600);
	r = fd < 0 ? fd : sys_write(fd, content, size);
	if (r >= 0)
		r = sys_fsync(fd);
	if (r >= 0)
		r = sys_rename(dir_fd, tmp, dir_fd, name, 0);
	return r < 0 ? r : sys_fsync(dir_fd);
}

int git_stage_file(int dir_fd, const char *name, const char *content, size_t size, struct tree_sync *sync)
{
	AUTO_FD fd = -EBADF;
	int r = tree_remove(dir_fd, name); /* left by a commit that was killed */

	if (r < 0 && r != -ENOENT)
		return r;
	fd = sys_open(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	r = fd < 0 ? fd : sys_write(fd, content, size);
	if (r >= 0)
		r = tree_sync_add_anywhere(sync, fd, "");
	return r < 0 ? r : tree_sync_add_anywhere(sync, dir_fd, "");
}

/* "key value" in each line. malloc'ed, or NULL. */
static char *value_of(const char *text, const char *key)
{
	size_t size = strlen(key);

	for (; text && *text; text = strchr(text, '\n'), text = text ? text + 1 : NULL)
		if (strncmp(text, key, size) == 0 && text[size] == ' ')
			return strndup(text + size + 1, strcspn(text + size + 1, "\n"));
	return NULL;
}

static int load(struct resource *r, const char *name, struct git_state *ret)
{
	AUTO_FREE char *text = NULL, *base = NULL, *carried = NULL, *settled = NULL, *seen = NULL, *left_out = NULL;
	AUTO_FREE char *under = NULL, *as_is = NULL, *outdated = NULL, *restaged = NULL, *root = NULL;
	AUTO_GIT_STATE s = { 0 };
	int rc = fd_read_file(r->work_fd, name, 1 << 16, &text, NULL);

	if (rc >= 0) {
		s.branch = value_of(text, "branch");
		s.own = value_of(text, "own");
		base = value_of(text, "base");
		carried = value_of(text, "carried");
		s.carried = carried && strcmp(carried, "yes") == 0;
		as_is = value_of(text, "as-is");
		s.as_is = as_is && strcmp(as_is, "yes") == 0;
		settled = value_of(text, "settled");
		s.unsettled = settled && strcmp(settled, "no") == 0;
		outdated = value_of(text, "outdated");
		s.outdated = outdated && strcmp(outdated, "yes") == 0;
		restaged = value_of(text, "restaged");
		s.restaged = restaged && strcmp(restaged, "yes") == 0;
		seen = value_of(text, "seen");
		if (seen)
			(void)git_id_parse(seen, &s.seen);
		root = value_of(text, "root");
		if (root)
			(void)git_id_parse(root, &s.root);
		under = value_of(text, "under");
		if (under)
			(void)git_id_parse(under, &s.under);
		left_out = value_of(text, "left-out");
		s.left_out = left_out ? strtoul(left_out, NULL, 10) : 0;
		if (!s.branch || !s.own || !base || !git_id_parse(base, &s.base) || !git_refs_is_name(s.branch) ||
		    !git_refs_is_name(s.own))
			rc = -EINVAL;
	}
	if (rc < 0)
		return rc;
	*ret = s;
	s = (struct git_state){ 0 };
	return 0;
}

int git_state_load(struct resource *r, struct git_state *ret, struct atoll_error *err)
{
	int rc = load(r, GIT_STATE, ret);

	return rc < 0 ? error_sys(err, rc, "open", r->row.path,
				  "what is known of the repository \"%s\" is gone from \"%s\"", r->row.path,
				  r->row.work)
		      : 0;
}

static int format(const struct git_state *s, struct strbuf *text)
{
	strbuf_addf(text, "branch %s\nown %s\nbase %s\ncarried %s\nsettled %s\n", s->branch, s->own, s->base.hex,
		    s->carried ? "yes" : "no", s->unsettled ? "no" : "yes");
	if (s->as_is)
		strbuf_adds(text, "as-is yes\n");
	if (s->outdated)
		strbuf_adds(text, "outdated yes\n");
	if (s->restaged)
		strbuf_adds(text, "restaged yes\n");
	if (*s->under.hex)
		strbuf_addf(text, "under %s\n", s->under.hex);
	if (*s->root.hex)
		strbuf_addf(text, "root %s\n", s->root.hex);
	if (*s->seen.hex)
		strbuf_addf(text, "seen %s\n", s->seen.hex);
	if (s->left_out)
		strbuf_addf(text, "left-out %zu\n", s->left_out);
	return text->failed ? -ENOMEM : 0;
}

int git_state_save(struct resource *r, const struct git_state *s, struct atoll_error *err)
{
	AUTO_STRBUF text = STRBUF_INIT;
	int rc = format(s, &text);

	if (rc >= 0)
		rc = git_put_file(r->work_fd, GIT_STATE, text.data, text.size);
	return rc < 0 ? error_sys(err, rc, "new", r->row.path, "cannot write to \"%s\"", r->row.work) : 0;
}

int git_state_set_under(struct resource *r, const struct git_id *under, struct atoll_error *err)
{
	AUTO_GIT_STATE s = { 0 };
	int rc = git_state_load(r, &s, err);

	if (rc < 0 || git_id_equal(&s.under, under))
		return rc;
	s.under = *under;
	return git_state_save(r, &s, err);
}

int git_state_stage_next(struct resource *r, const struct git_id *base, struct tree_sync *sync)
{
	AUTO_GIT_STATE s = { 0 };
	AUTO_STRBUF text = STRBUF_INIT;
	int rc = load(r, GIT_STATE, &s);

	s.base = *base;
	s.under = (struct git_id){ "" };
	s.unsettled = true;
	if (rc >= 0)
		rc = format(&s, &text);
	return rc < 0 ? rc : git_stage_file(r->work_fd, GIT_NEXT, text.data, text.size, sync);
}

/* An older version wrote the commit alone: a commit that it did not end gets the whole state here. */
static int complete_next(struct resource *r)
{
	AUTO_FREE char *text = NULL;
	AUTO_GIT_STATE s = { 0 };
	AUTO_STRBUF whole = STRBUF_INIT;
	struct git_id base;
	int rc = fd_read_file(r->work_fd, GIT_NEXT, 4096, &text, NULL);

	if (rc >= 0 && !git_id_parse(text, &base))
		return -EINVAL;
	if (rc >= 0)
		rc = load(r, GIT_STATE, &s);
	if (rc < 0)
		return rc;
	s.base = base;
	s.under = (struct git_id){ "" };
	s.unsettled = true;
	rc = format(&s, &whole);
	return rc < 0 ? rc : git_put_file(r->work_fd, GIT_NEXT, whole.data, whole.size);
}

int git_state_load_next(struct resource *r, struct git_state *ret)
{
	int rc = load(r, GIT_NEXT, ret);

	if (rc != -EINVAL)
		return rc;
	rc = complete_next(r);
	return rc < 0 ? rc : load(r, GIT_NEXT, ret);
}

int git_state_take_next(struct resource *r)
{
	int rc = sys_rename(r->work_fd, GIT_NEXT, r->work_fd, GIT_STATE, 0);

	return rc < 0 ? rc : sys_fsync(r->work_fd);
}
