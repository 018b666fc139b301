/* SPDX-License-Identifier: Apache-2.0 */
/* The open directories of one resource during an op, the switch of its workspace layer, and small tests on what is there. */
#include "engine/step.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/single_threaded.h>

#include "base/sys.h"

static int identity_of(int dirfd, const char *name, struct tree_id *ret)
{
	struct tree_stat st;
	int r = tree_stat(dirfd, name, &st);

	return r < 0 ? r : tree_identify(dirfd, name, &st, ret);
}

/* Which of the two layers is in the workspace's place just now; if somebody removed that one, the other tells. */
static int find_switched(struct step_site *site)
{
	struct tree_id id;
	int r = identity_of(site->r->work_fd, resource_workspace_name(site->r), &id);
	bool gone = r == -ENOENT && site->op->salvage;

	if (gone)
		r = identity_of(site->r->work_fd, site->layer, &id);
	if (r < 0 && !(gone && r == -ENOENT))
		return r;
	site->switched = r >= 0 && tree_id_equal(&id, &site->how->fresh) != gone;
	return 0;
}

static int find_layer(struct step_site *site)
{
	int r = site->how->switches ? find_switched(site) : 0;

	if (r < 0)
		return r;
	fd_close(site->workspace_fd);
	peer_release(&site->workspace);
	site->workspace_fd = site->switched ? fd_open_beneath(site->r->work_fd, site->layer, O_RDONLY | O_DIRECTORY)
					    : resource_workspace(site->r);
	site->workspace.root_fd = site->workspace_fd;
	if (site->workspace_fd != -ENOENT || !site->op->salvage)
		return MIN(site->workspace_fd, 0);
	site->mended = true;
	return 0;
}

static int open_op_dir(struct step_site *site, bool stage)
{
	int fd = op_dir(site->op, site->r, stage);

	if (fd != -ENOENT || !site->op->salvage)
		return fd;
	site->mended = true;
	return fd_make_path(stage ? site->r->stage_fd : site->r->work_fd, site->op->row.dir);
}

struct step_site *step_site_new(struct op *op, struct resource *r, struct atoll_error *err)
{
	struct step_site *site = calloc(1, sizeof *site);
	int rc;

	if (!site) {
		error_oom(err, "commit");
		return NULL;
	}
	*site = (struct step_site){ .op = op,
				    .r = r,
				    .how = op_resource(op, r->row.id),
				    .workspace_fd = -EBADF,
				    .stage_op_fd = -EBADF,
				    .work_op_fd = -EBADF,
				    .original = { r->root_fd, NULL, -EBADF },
				    .workspace = { -EBADF, NULL, -EBADF },
				    .layer = op_layer(op) };
	site->stage_op_fd = open_op_dir(site, true);
	site->work_op_fd = open_op_dir(site, false);
	rc = site->layer ? MIN(site->stage_op_fd, site->work_op_fd) : -ENOMEM;
	if (rc >= 0)
		rc = find_layer(site);
	if (rc < 0) {
		error_sys(err, rc, "commit", r->row.path, "the undo data of \"%s\" in \"%s\" cannot be opened",
			  r->row.path, r->row.stage);
		return step_site_free(site);
	}
	return site;
}

struct step_site *step_site_free(struct step_site *site)
{
	if (!site)
		return NULL;
	peer_release(&site->original);
	peer_release(&site->workspace);
	fd_close(site->workspace_fd);
	fd_close(site->stage_op_fd);
	fd_close(site->work_op_fd);
	free(site->layer);
	free(site);
	return NULL;
}

/* One of the two layers was removed by somebody: the one that is left goes where it belongs. */
static int switch_alone(struct step_site *site, enum direction direction)
{
	int dir = site->r->work_fd;
	int r = sys_rename(dir, site->layer, dir, resource_workspace_name(site->r), RENAME_NOREPLACE);

	if (r == -ENOENT && direction == FORWARD)
		r = sys_rename(dir, resource_workspace_name(site->r), dir, site->layer, RENAME_NOREPLACE);
	return r == -ENOENT ? 0 : r;
}

/* Puts the fresh layer in the workspace's place, or the old one back. One exchange, recognised by the fresh layer's identity. */
int step_site_switch(struct step_site *site, enum direction direction)
{
	int r;

	if (!site->how->switches || site->switched == (direction == FORWARD))
		return 0;
	r = sys_rename(site->r->work_fd, resource_workspace_name(site->r), site->r->work_fd, site->layer,
		       RENAME_EXCHANGE);
	if (r == -ENOENT && site->op->salvage)
		r = switch_alone(site, direction);
	if (r < 0)
		return r;
	site->switched = direction == FORWARD;
	return find_layer(site);
}

/* Everything the steps renamed: the directories on both sides. */
int step_site_sync(struct step_site *site)
{
	struct tree_sync *sync = NULL;
	struct peer peers[2] = { { site->r->root_fd, NULL, -EBADF }, { site->workspace_fd, NULL, -EBADF } };
	bool stages = false, keeps = false; /* steps move something in the op's directory of that area */
	int r = tree_sync_new(site->r->stage_fd, &sync);

	for (size_t i = 0; i < site->op->n && r >= 0; i++) {
		const struct store_step *step = &site->op->steps[i];
		const char *slash = strrchr(step->path, '/');
		size_t size = slash ? (size_t)(slash - step->path) : 0;

		if (step->resource != site->r->row.id)
			continue;
		if (step->kind == STORE_STEP_PART) {
			r = part_sync(site, step, sync);
			continue;
		}
		stages |= step->slot && step->slot[0] != 'k';
		keeps |= step->slot && step->slot[0] == 'k';
		if (step->kind == STORE_STEP_META || step->kind == STORE_STEP_TIME) {
			AUTO_FD dir = fd_open_beneath(site->r->root_fd, step->path, O_PATH | O_DIRECTORY);

			r = dir >= 0 ? tree_sync_add(sync, dir, "", 0) : is_absent(dir) ? 0 : dir;
			continue;
		}
		for (size_t k = 0; k < ARRAY_SIZE(peers) && r >= 0; k++) {
			bool fresh = !peers[k].path || strlen(peers[k].path) != size ||
				     memcmp(peers[k].path, step->path, size) != 0;
			int dir = peer_dir(&peers[k], step->path, size);

			if (dir >= 0 && fresh)
				r = tree_sync_add(sync, dir, "", 0);
			else if (dir < 0 && !is_absent(dir))
				r = dir;
		}
	}
	if (r >= 0 && stages)
		r = tree_sync_add(sync, site->stage_op_fd, "", 0);
	if (r >= 0 && keeps)
		r = tree_sync_add(sync, site->work_op_fd, "", 0);
	if (r >= 0)
		r = tree_sync_add(sync, site->r->work_fd, "", 0);
	if (r >= 0)
		r = tree_sync_flush(sync);
	peer_release(&peers[0]);
	peer_release(&peers[1]);
	tree_sync_free(sync);
	/* A workspace on another filesystem is not reached by that. */
	if (r >= 0 && site->r->row.copies && keeps)
		r = sys_syncfs(site->r->work_fd);
	else if (r >= 0 && site->r->row.copies && site->how->switches)
		r = sys_fsync(site->r->work_fd);
	return r;
}

void step_leases_begin(sigset_t *ret_before)
{
	sigset_t notice;

	sigemptyset(&notice);
	sigaddset(&notice, SIGIO);
	pthread_sigmask(SIG_BLOCK, &notice, ret_before);
}

void step_leases_end(const sigset_t *before)
{
	sigset_t notice;

	if (sigismember(before, SIGIO))
		return;
	sigemptyset(&notice);
	sigaddset(&notice, SIGIO);
	while (sigtimedwait(&notice, NULL, &(struct timespec){ 0 }) == SIGIO)
		;
	pthread_sigmask(SIG_SETMASK, before, NULL);
}

int step_lease(int fd)
{
	int r;

	/* The notice goes to the process, and so to any of its threads, unless it is meant for this one, which has it blocked. */
	if (!__libc_single_threaded)
		(void)fcntl(fd, F_SETOWN_EX, &(struct f_owner_ex){ F_OWNER_TID, gettid() });
	r = sys_lease(fd, F_RDLCK);
	return r == -EAGAIN || r == -ENOMEM || r == -EIO ? r : r == 0;
}

/* Nobody else may have it open for a write lease, which is dropped at once: it would keep readers waiting. */
bool step_is_open_elsewhere(int fd)
{
	int r;

	if (!__libc_single_threaded)
		(void)fcntl(fd, F_SETOWN_EX, &(struct f_owner_ex){ F_OWNER_TID, gettid() });
	r = fcntl(fd, F_SETLEASE, F_WRLCK) < 0 ? -errno : 0;
	if (r == 0)
		(void)fcntl(fd, F_SETLEASE, F_UNLCK);
	return r == -EAGAIN;
}

static int any_entry(const struct tree_entry *e, void *arg)
{
	return -ESTALE;
}

int step_is_empty_dir(const struct place *at)
{
	AUTO_FD fd = openat(at->dir, at->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : tree_walk(fd, TREE_WALK_NO_ROOT, any_entry, NULL, NULL);
}

/* A later commit of the sandbox that was taken back has touched what it put back; it was checked for foreign changes then, and its stamps
 * tell how far. */
int step_is_newer(struct step_site *site, const char *top, const char *below, const struct tree_stat *st, int64_t since)
{
	const struct resource *r = site->r;
	AUTO_FREE char *path = NULL;
	int64_t own;

	if (st->ctime < since)
		return 0;
	if (!r->n_stamps)
		return 1;
	path = str_format("%s%s%s", top, *top && *below ? "/" : "", below);
	if (!path)
		return -ENOMEM;
	own = resource_own_stamp(r, path, S_ISDIR(st->mode));
	return st->ctime >= own;
}

struct untouched {
	struct step_site *site;
	const struct store_step *step;
	bool before;
};

/* Whether the strategy has judged the original by its content, and the entry has not been touched
 * since then: git does so with a file that another process has changed and committed. */
static bool was_judged(const struct step_site *site, const char *path, const struct tree_stat *now)
{
	const struct changes *changes = site->op->changes ? site->op->changes[site->r - site->op->s->resources] : NULL;
	const struct change *c = changes ? changes_find(changes, path) : NULL;

	return c && c->judged && c->has_before && c->before.ctime == now->ctime && c->before.ino == now->ino;
}

/* What a commit is about to remove or replace was judged when its changes were found, some time before it was prepared: the same rule
 * again. */
static int is_foreign(const struct untouched *u, const struct tree_entry *e)
{
	const struct atoll_commit_options *options = u->site->op->options;
	const struct resource *r = u->site->r;
	AUTO_FREE char *path = NULL;

	if (!u->before || !options || options->on_conflict == ATOLL_ON_CONFLICT_OURS)
		return 0;
	path = str_format("%s%s%s", u->step->path, *u->step->path ? "/" : "", e->path);
	if (!path)
		return -ENOMEM;
	if (e->stat.ctime < (S_ISDIR(e->stat.mode) ? resource_dir_stamp(r, path) : resource_stamp(r, path)))
		return 0;
	return !was_judged(u->site, path, &e->stat);
}

static int check_entry(const struct tree_entry *e, void *arg)
{
	const struct untouched *u = arg;
	bool undo = u->site->op->row.kind == STORE_OP_UNDO;
	/* The commit's own steps have moved ctimes until it was in place. */
	int64_t since = undo ? u->site->how->landed_at : u->site->how->prepared_at;
	int r = step_is_newer(u->site, u->step->path, e->path, &e->stat, since);

	if (r == 0)
		r = is_foreign(u, e);
	if (r > 0) {
		int own = own_explains(u->site->op, u->site->r, e->dirfd, e->name, &e->stat);

		r = own < 0 ? own : !own;
	}
	return r > 0 ? -ESTALE : r < 0 ? r : TREE_WALK_GO;
}

int step_tree_is_untouched(struct step_site *site, const struct store_step *step, const struct place *at,
			   const struct store_look *then)
{
	AUTO_FD fd = openat(at->dir, at->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct untouched u = { site, step, then == &step->before };

	return fd < 0 ? -errno : tree_walk(fd, TREE_WALK_NO_ROOT, check_entry, &u, NULL);
}
