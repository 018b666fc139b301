/* SPDX-License-Identifier: Apache-2.0 */
/* Edits and restarts of the machine: what was written to a workspace and not synced may have been lost by one. */
#include "engine/protocol.h"

#include <string.h>

#include "base/clock.h"

static bool is_of_this_boot(const struct store_resource *row)
{
	char boot[40];

	clock_boot_id(boot);
	return strcmp(boot, row->boot_id) == 0;
}

const struct change *boot_find_unsynced(const struct resource *r, const struct changes *c)
{
	for (size_t i = 0; !is_of_this_boot(&r->row) && i < c->n; i++)
		if (c->v[i].has_after && c->v[i].after.ctime >= r->row.synced_at)
			return &c->v[i];
	return NULL;
}

/* Whether the restart can have taken nothing from the workspace: what is there is on disk then, and counts as of this boot. */
static bool lost_nothing(struct resource *r)
{
	CLEANUP(cleanup_changes) struct changes *c = strategy_changes(r, false, NULL);

	return c && !boot_find_unsynced(r, c);
}

int boot_renew(struct session *s, struct atoll_error *err)
{
	int rc = 0;

	for (size_t i = 0; i < s->n && rc >= 0; i++) {
		struct resource *r = &s->resources[i];

		if (!resource_isolates(r) || is_of_this_boot(&r->row) || !lost_nothing(r) ||
		    tree_stamp(r->work_fd, &r->row.synced_at) < 0)
			continue;
		clock_boot_id(r->row.boot_id);
		rc = store_begin(s->store, false, err);
		if (rc >= 0)
			rc = store_resource_update(s->store, &r->row, err);
		if (rc >= 0)
			rc = store_commit(s->store, err);
		store_abort(s->store);
	}
	return rc;
}

bool boot_is_doubtful(const struct store_resource *row)
{
	return row->state == ATOLL_ACTIVE && !is_of_this_boot(row);
}

static int look_for_suspects(struct session *s, struct atoll_info *info)
{
	struct changes **changes = NULL;
	int r = 0;

	for (size_t i = 0; i < s->n && r >= 0; i++)
		r = resource_open(s, &s->resources[i], NULL);
	if (r >= 0)
		r = resource_set_excluded(s, NULL);
	if (r >= 0)
		r = session_changes(s, false, &changes, NULL);
	for (size_t i = 0; i < s->n && i < info->n_resources && r >= 0; i++)
		info->resources[i].suspect = boot_is_doubtful(&s->resources[i].row) &&
					     boot_find_unsynced(&s->resources[i], changes[i]);
	session_changes_free(changes, s->n);
	return r;
}

void boot_find_suspects(struct atoll *a, struct atoll_info *info)
{
	struct session s = { .lock_fd = -EBADF };

	if (session_peek(a, info->name, &s, NULL) >= 0)
		(void)look_for_suspects(&s, info);
	session_release(&s);
}
