/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strategy of each resource of a new sandbox, and where its areas lie: what was asked for, or the strongest that can serve it and finds
 * a place. Why the stronger ones were not taken stays on record.
 */
#include "engine/sandbox.h"

#include <fcntl.h>
#include <string.h>

#include "jail/jail.h"

struct chooser {
	struct atoll *a;
	const char *uuid;
	const struct atoll_new_options *options;
	struct store_resource *rows;
};

/* Files of one directory share its workspace, and so do databases: there is one view of the directory. */
static const struct store_resource *find_sibling(const struct chooser *c, size_t i)
{
	const struct store_resource *row = &c->rows[i];
	size_t size = (size_t)(strrchr(row->path, '/') - row->path);

	for (size_t k = 0; k < i && kind_is_file(row->kind); k++)
		if (c->rows[k].kind == row->kind && (size_t)(strrchr(c->rows[k].path, '/') - c->rows[k].path) == size &&
		    strncmp(c->rows[k].path, row->path, size) == 0)
			return &c->rows[k];
	return NULL;
}

/* The length of the path of the directory that is the resource's root. */
static size_t root_size(const struct store_resource *row)
{
	return kind_is_file(row->kind) ? (size_t)MAX(strrchr(row->path, '/') - row->path, 1) : strlen(row->path);
}

static bool holds(const struct store_resource *outer, const struct store_resource *row)
{
	AUTO_FREE char *root = strndup(outer->path, root_size(outer));

	return root && path_is_below(row->path, root);
}

/* Whose workspace a guest lives in: the innermost around it. */
static const struct store_resource *find_host(const struct chooser *c, size_t i)
{
	const struct store_resource *best = NULL;

	for (size_t k = 0; k < c->options->n_resources; k++) {
		const struct store_resource *row = &c->rows[k];
		const struct strategy_ops *ops = row->strategy ? strategy_find(row->strategy, row->kind) : NULL;

		if (k == i || !ops || (ops->capabilities & STRATEGY_GUEST) || kind_is_remote(row->kind) ||
		    !holds(row, &c->rows[i]))
			continue;
		if (!best || root_size(row) > root_size(best))
			best = row;
	}
	return best;
}

static int share_host(struct store_resource *row, const struct store_resource *host, struct atoll_error *err)
{
	const struct strategy_ops *ops = strategy_find(host->strategy, host->kind);

	if (!(ops->capabilities & STRATEGY_ISOLATES))
		return error_set(
			err, ATOLL_REFUSED, 0, "new", row->path,
			"\"%s\" lies in the resource \"%s\", which is not isolated; give it a sandbox of its own",
			row->path, host->path);
	row->mode = str_format("in the workspace of \"%s\"", host->path);
	row->work = strdup(host->work);
	row->stage = strdup(host->stage);
	row->copies = host->copies;
	return row->mode && row->work && row->stage ? 0 : error_oom(err, "new");
}

static int share_place(struct store_resource *row, const struct store_resource *sibling, struct atoll_error *err)
{
	free(row->strategy);
	row->strategy = strdup(sibling->strategy);
	row->mode = strdup(sibling->mode);
	row->work = strdup(sibling->work);
	row->stage = strdup(sibling->stage);
	row->copies = sibling->copies;
	return row->strategy && row->mode && row->work && row->stage ? 0 : error_oom(err, "new");
}

/* What is no file has a private directory of ours. */
static int choose_remote_place(const struct chooser *c, struct store_resource *row, struct atoll_error *err)
{
	int r;

	row->work = str_format("%s/boxes/%s/%d", c->a->state_dir, c->uuid, row->seq);
	row->stage = row->work ? strdup(row->work) : NULL;
	row->mode = strdup("one transaction of the server, kept open");
	row->copies = true;
	if (!row->work || !row->stage || !row->mode)
		return error_oom(err, "new");
	r = area_make(row->work);
	return r < 0 ? error_sys(err, r, "new", row->path, "cannot make \"%s\"", row->work) : 0;
}

static int choose_place(const struct chooser *c, size_t i, const struct strategy_ops *ops, int root_fd,
			const char *root_path, struct atoll_error *err)
{
	const struct area_needs needs = { ops->capabilities & STRATEGY_OVERLAY, ops->fits };
	struct store_resource *row = &c->rows[i];
	const struct store_resource *sibling = kind_is_remote(row->kind) ? NULL : find_sibling(c, i);
	const struct store_resource *host = ops->capabilities & STRATEGY_GUEST ? find_host(c, i) : NULL;
	bool elsewhere;
	int r;

	if (kind_is_remote(row->kind))
		return choose_remote_place(c, row, err);
	if (host)
		return share_host(row, host, err);
	if (sibling)
		return share_place(row, sibling, err);
	if (!(ops->capabilities & STRATEGY_ISOLATES)) {
		row->work = strdup("");
		row->stage = strdup("");
		row->mode = strdup("the original itself");
		return row->work && row->stage && row->mode ? 0 : error_oom(err, "new");
	}
	r = area_choose(c->a, c->uuid, row->seq, root_fd, root_path, &needs, &row->work, &row->stage, &row->copies,
			err);
	if (r < 0)
		return r;
	elsewhere = row->copies && !ops->fits;
	row->mode = str_format("%s, %s",
			       jail_is_root()             ? "root"
			       : jail_probe_userns() == 0 ? "rootless"
							  : "without namespaces",
			       elsewhere ? "staged by copy from another filesystem" : "same filesystem");
	if (!(ops->capabilities & STRATEGY_LAYERED))
		row->copies = true;
	return row->mode ? 0 : error_oom(err, "new");
}

static int try_strategy(const struct chooser *c, size_t i, const struct strategy_ops *ops, int root_fd,
			const char *root_path, struct strbuf *reason)
{
	AUTO_FREE const char **apart = reallocarray(NULL, c->options->n_resources, sizeof *apart);
	struct strategy_probe p = { root_fd, root_path, apart, 0 };
	bool guest = (ops->capabilities & STRATEGY_GUEST) && find_host(c, i);
	int r = !apart ? -ENOMEM : guest ? 0 : spec_try_strategy(ops, &c->rows[i], root_fd, reason);

	if (r != 0 || !ops->probe)
		return r;
	for (size_t k = 0; k < c->options->n_resources; k++)
		apart[p.n_apart++] = k == i ? c->a->state_dir : c->rows[k].path;
	return ops->probe(&p, reason);
}

static int take_strategy(struct store_resource *row, const struct strategy_ops *ops, bool wanted, struct strbuf *why,
			 struct atoll_error *err)
{
	/* A sibling may have said which already. */
	if (!row->strategy)
		row->strategy = strdup(ops->name);
	row->reason = wanted      ? strdup("asked for")
		      : why->size ? strbuf_take(why)
				  : strdup("the strongest that works here");
	return row->strategy && row->reason ? 0 : error_oom(err, "new");
}

/* What is not asked for and finds no place is passed over, as what cannot serve at all. */
static bool is_passed_over(const struct strategy_ops *ops, bool wanted, const struct atoll_error *why)
{
	return !wanted && ops->fits && why->code == ATOLL_REFUSED;
}

static int choose(const struct chooser *c, size_t i, int root_fd, const char *root_path, struct atoll_error *err)
{
	struct store_resource *row = &c->rows[i];
	const char *wanted = c->options->resources[i].strategy;
	AUTO_STRBUF why = STRBUF_INIT;

	for (size_t k = 0; strategy_all[k]; k++) {
		const struct strategy_ops *ops = strategy_all[k];
		AUTO_STRBUF reason = STRBUF_INIT;
		int r;

		if (!(ops->kinds & STRATEGY_SERVES(row->kind)) ||
		    (wanted ? ops != strategy_find(wanted, row->kind) : !(ops->capabilities & STRATEGY_ISOLATES)))
			continue;
		r = try_strategy(c, i, ops, root_fd, root_path, &reason);
		if (r < 0)
			return error_sys(err, r, "new", row->path, "cannot look into \"%s\"", row->path);
		if (r == 0) {
			struct atoll_error local = { 0 };

			r = choose_place(c, i, ops, root_fd, root_path, &local);
			if (r >= 0)
				return take_strategy(row, ops, wanted, &why, err);
			if (!is_passed_over(ops, wanted, &local)) {
				*err = local;
				return r;
			}
			strbuf_adds(&reason, local.message);
		}
		if (wanted)
			return error_set(err, ATOLL_UNSUPPORTED, 0, "new", row->path, "%s cannot serve \"%s\": %s",
					 ops->name, row->path, strbuf_str(&reason));
		strbuf_addf(&why, "%sno %s: %s", why.size ? "; " : "", ops->name, strbuf_str(&reason));
	}
	return error_set(err, ATOLL_UNSUPPORTED, 0, "new", row->path, "no strategy can serve \"%s\": %s", row->path,
			 strbuf_str(&why));
}

static int choose_one(const struct chooser *c, size_t i, struct atoll_error *err)
{
	const struct store_resource *row = &c->rows[i];
	AUTO_FREE char *root = strdup(row->path);
	AUTO_FD fd = -EBADF;

	if (!root)
		return error_oom(err, "new");
	if (kind_is_remote(row->kind))
		return choose(c, i, -EBADF, root, err);
	if (kind_is_file(row->kind))
		root[MAX(strrchr(root, '/') - root, 1)] = 0;
	fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_sys(err, errno, "new", root, "cannot read \"%s\"", root);
	return choose(c, i, fd, root, err);
}

int choose_all(struct atoll *a, const char *uuid, const struct atoll_new_options *options, struct store_resource *rows,
	       struct atoll_error *err)
{
	const struct chooser c = { a, uuid, options, rows };
	int r = 0;

	/* A guest comes when its host is known. */
	for (int guests = 0; guests < 2; guests++)
		for (size_t i = 0; i < options->n_resources && r >= 0; i++)
			if (spec_is_guest(rows[i].kind) == guests)
				r = choose_one(&c, i, err);
	return r;
}
