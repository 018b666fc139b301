/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recovery when somebody has removed what it needs from Atoll's own areas. The areas are made again, empty; every step is moved as far as what
 * is left allows (step_move() tells what is lost), and a workspace that is gone is made fresh when the op is closed. Nothing is guessed:
 * each loss is in the report, and the sandbox can be used or removed afterwards.
 */
#include "engine/protocol.h"

#include <fcntl.h>
#include <linux/fs.h>

#include "base/sys.h"
#include "engine/claim.h"

int salvage_open_all(struct session *s, struct atoll_error *err)
{
	int r = 0;

	for (size_t i = 0; i < s->n && r >= 0; i++)
		r = resource_open_mended(s, &s->resources[i], err);
	if (r >= 0)
		r = claim_take(s, err);
	return r < 0 ? r : resource_set_excluded(s, err);
}

/* Whether the workspace is gone: 1, 0 or -errno. */
static int is_gone(const struct resource *r)
{
	struct tree_stat st;
	int rc = resource_isolates(r) && !r->row.dirty ? tree_stat(r->work_fd, resource_workspace_name(r), &st) : 0;

	return rc == -ENOENT ? 1 : MIN(rc, 0);
}

/* The layer beside the workspace is the undo record of a commit; but of an undo that was decided it holds the newer edits, which cannot be put on
 * top of what is gone. */
static int keep_newer(struct op *op, const struct resource *r, char **ret_kept)
{
	AUTO_FREE char *layer = op_layer(op);
	AUTO_FD kept = -EBADF;
	int rc;

	if (op->row.kind != STORE_OP_UNDO || op->row.phase != STORE_DECIDED || !op_resource(op, r->row.id)->switches)
		return 0;
	kept = fd_make_path(r->stage_fd, "kept");
	rc = !layer ? -ENOMEM : kept < 0 ? kept : sys_rename(r->work_fd, layer, kept, layer, RENAME_NOREPLACE);
	if (rc < 0)
		return rc == -ENOENT ? 0 : rc;
	*ret_kept = str_format("%s/kept/%s", r->row.stage, layer);
	return *ret_kept ? 0 : -ENOMEM;
}

static int take_for_lost(struct op *op, struct resource *r, struct atoll_error *err)
{
	struct atoll_item *item;
	char *kept = NULL;
	int rc = keep_newer(op, r, &kept);

	if (rc < 0)
		return error_sys(err, rc, "recover", r->row.path, "cannot set aside the newer edits of \"%s\"",
				 r->row.path);
	item = result_add(op->result, ATOLL_ITEM_LOST, r->row.seq, ".",
			  "somebody has removed its workspace, and the edits in it with that");
	if (!item) {
		free(kept);
		return error_oom(err, "recover");
	}
	item->kept = kept;
	r->row.dirty = true;
	op->lost = true;
	return 0;
}

int salvage_mark_lost(struct op *op, struct atoll_error *err)
{
	for (size_t i = 0; i < op->s->n; i++) {
		struct resource *r = &op->s->resources[i];
		int rc = is_gone(r);

		if (rc < 0)
			return error_sys(err, rc, "recover", r->row.path, "cannot look for the workspace of \"%s\"",
					 r->row.path);
		if (rc > 0)
			rc = take_for_lost(op, r, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}
