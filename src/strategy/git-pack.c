/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs the objects that land. Git needs some milliseconds for it, so Atoll begins as soon as it
 * can guess which objects will land. If the guess was wrong, Atoll makes the pack again.
 */
#include "strategy/git.h"

#include <string.h>

#include "base/fd.h"

void git_pack_release(struct git_pack *p)
{
	if (p->revisions) {
		git_running_release(&p->running);
		fd_close(p->fd);
	}
	free(p->revisions);
	*p = (struct git_pack){ 0 };
}

/* malloc'ed */
static char *list_revisions(const struct git_id *new, const struct git_id *old, const struct git_moves *m)
{
	AUTO_STRBUF list = STRBUF_INIT;

	strbuf_addf(&list, "%s\n^%s\n", new->hex, old->hex);
	for (size_t i = 0; m && i < m->n; i++)
		strbuf_addf(&list, "%s\n", m->v[i].new.hex);
	return list.failed ? NULL : strbuf_take(&list);
}

int git_pack_start(struct git_work *w, const struct git_id *new, const struct git_id *old, const struct git_moves *m,
		   struct atoll_error *err)
{
	AUTO_FREE char *revisions = list_revisions(new, old, m);
	int rc;

	if (!revisions)
		return error_oom(err, w->operation);
	if (w->pack.revisions && strcmp(w->pack.revisions, revisions) == 0)
		return 0;
	git_pack_release(&w->pack);
	rc = git_objects_pack_start(&w->repo, w->objects, revisions, &w->pack.running, &w->pack.fd, err);
	if (rc >= 0)
		w->pack.revisions = TAKE_PTR(revisions);
	return rc;
}

void git_pack_start_early(struct git_work *w)
{
	if (!w->r->lands || git_id_equal(&w->head, &w->tip))
		return;
	(void)git_pack_start(w, &w->tip, &w->head, NULL, NULL);
	(void)git_landing_ask(w, NULL);
}
