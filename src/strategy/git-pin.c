/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refs below refs/atoll/UUID, which keep from gc what a sandbox is built on. Nobody but the sandbox writes them; its lock keeps away a gc that is
 * packing refs, and would take away a value that it has not seen.
 */
#include "strategy/git.h"

#include <fcntl.h>
#include <string.h>
#include <time.h>

#include "base/fd.h"
#include "base/sys.h"

#define STAGED "pin" /* the file that holds the value of a pin before it has its place */
#define LOCK_TRIES 20
#define LOCK_PAUSE_NS 50000000L

/* Git holds locks for moments. */
int git_pin_lock(const struct git_repo *repo, const char *path, const char *owner)
{
	int r = git_lock_take(repo->dir_fd, path, owner);

	for (int i = 0; i < LOCK_TRIES && r == -EEXIST; i++) {
		nanosleep(&(struct timespec){ .tv_nsec = LOCK_PAUSE_NS }, NULL);
		r = git_lock_take(repo->dir_fd, path, owner);
	}
	return r;
}

/* For everybody who may read the repository. An empty one may be removed by git at any time, until there is a lock in it. */
static int make_directories(const struct git_repo *repo, const char *uuid)
{
	AUTO_FREE char *own = str_format("refs/atoll/%s", uuid);
	int r = own ? sys_mkdir(repo->dir_fd, "refs/atoll", 0777) : -ENOMEM;

	if (r >= 0 || r == -EEXIST)
		r = sys_mkdir(repo->dir_fd, own, 0777);
	return r == -EEXIST ? 0 : r;
}

static int lock_own(const struct git_repo *repo, const char *uuid, const char *ref)
{
	int r = -ENOENT;

	for (int i = 0; i < LOCK_TRIES && r == -ENOENT; i++) {
		r = make_directories(repo, uuid);
		if (r >= 0)
			r = git_pin_lock(repo, ref, uuid);
	}
	return r;
}

/* A file that was staged is durable already. */
static int put_staged(const struct git_repo *repo, const char *ref, const char *staged)
{
	AUTO_FD parent = -EBADF;
	int rc = git_refs_put(repo->dir_fd, ref, staged, &parent);

	return rc < 0 ? rc : sys_fsync(parent);
}

static int write_pin(struct resource *r, const struct git_repo *repo, const char *ref, const struct git_id *id,
		     bool is_staged)
{
	AUTO_FREE char *tmp = git_index_own_name(r, "ref"), *staged = git_index_own_name(r, STAGED);
	int rc = tmp && staged ? lock_own(repo, r->uuid, ref) : -ENOMEM, dropped;

	if (rc < 0)
		return rc;
	rc = is_staged ? put_staged(repo, ref, staged) : -ENOENT;
	if (rc == -ENOENT)
		rc = git_refs_write(repo->dir_fd, ref, id, tmp);
	dropped = git_lock_drop(repo->dir_fd, ref, r->uuid);
	return rc < 0 ? rc : dropped;
}

static int pin(struct resource *r, const struct git_repo *repo, const char *name, const struct git_id *id,
	       bool is_staged, const char *operation, struct atoll_error *err)
{
	AUTO_FREE char *ref = str_format("refs/atoll/%s/%s", r->uuid, name);
	int rc = ref ? write_pin(r, repo, ref, id, is_staged) : -ENOMEM;

	return rc < 0 ? error_sys(err, rc, operation, repo->top, "cannot write a ref in the git directory of \"%s\"",
				  repo->top)
		      : 0;
}

int git_pin(struct resource *r, const struct git_repo *repo, const char *name, const struct git_id *id,
	    const char *operation, struct atoll_error *err)
{
	return pin(r, repo, name, id, false, operation, err);
}

int git_pin_stage(struct resource *r, const struct git_repo *repo, const struct git_id *id, struct tree_sync *sync)
{
	AUTO_FREE char *staged = git_index_own_name(r, STAGED);

	return staged ? git_part_stage_ref(repo, id, staged, sync) : -ENOMEM;
}

int git_pin_staged(struct resource *r, const struct git_repo *repo, const char *name, const struct git_id *id,
		   const char *operation, struct atoll_error *err)
{
	return pin(r, repo, name, id, true, operation, err);
}

static bool has_object(const struct git_repo *repo, const struct git_id *id, const char *operation)
{
	const struct git_call call = { .repo = repo, .operation = operation };
	struct atoll_error ignored = { 0 };

	return git_call(&call, &ignored, (const char *const[]){ "cat-file", "-e", id->hex, NULL }) == 0;
}

/* If gc has removed the object already, a pin would be a broken ref, so none is written. */
void git_pin_renew(struct resource *r, const struct git_repo *repo, const struct git_id *id, const char *operation)
{
	AUTO_FREE char *base = str_format("refs/atoll/%s/base", r->uuid),
		       *tip = str_format("refs/atoll/%s/tip", r->uuid);
	const struct git_refs refs = { -EBADF, repo->dir_fd };
	struct atoll_error ignored = { 0 };
	struct git_id at;
	bool has_base;

	if (!base || !tip)
		return;
	has_base = git_refs_read(&refs, base, &at) >= 0;
	if ((has_base && git_id_equal(&at, id)) || (git_refs_read(&refs, tip, &at) >= 0 && git_id_equal(&at, id)))
		return;
	if (has_object(repo, id, operation))
		(void)git_pin(r, repo, has_base ? "tip" : "base", id, operation, &ignored);
}

void git_pin_unstage(struct resource *r, const struct git_repo *repo)
{
	AUTO_FREE char *staged = git_index_own_name(r, STAGED);

	if (staged)
		sys_unlink(repo->dir_fd, staged, 0);
}

/* ---- and away again ---- */

/* Removes the loose ones. Which of them somebody has packed is git's to remove, and is added to the input of its update-ref. */
static int remove_loose(const struct git_repo *repo, const char *uuid, struct strbuf *ret)
{
	static const char *const names[] = { "base", "tip" };
	const struct git_refs refs = { -EBADF, repo->dir_fd };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *ref = str_format("refs/atoll/%s/%s", uuid, names[i]);
		struct git_id id;
		int r = ref ? git_lock_drop(repo->dir_fd, ref, uuid) : -ENOMEM;

		if (r >= 0)
			r = sys_unlink(repo->dir_fd, ref, 0);
		if (r < 0 && r != -ENOENT && r != -ENOTDIR)
			return r;
		if (git_refs_read(&refs, ref, &id) >= 0)
			strbuf_addf(ret, "delete %s\n", ref);
	}
	return ret->failed ? -ENOMEM : 0;
}

static void remove_directories(const struct git_repo *repo, const char *uuid)
{
	AUTO_FREE char *own = str_format("refs/atoll/%s", uuid);

	if (own)
		sys_unlink(repo->dir_fd, own, AT_REMOVEDIR);
	sys_unlink(repo->dir_fd, "refs/atoll", AT_REMOVEDIR);
}

/* A git that is ended while it removes a ref leaves a lock of its own, on which everybody's next one fails: it is asked only if it must be. With
 * packed-refs locked nobody packs meanwhile; if that cannot be had, somebody who does may leave a ref that keeps a little too much. */
int git_unpin(struct resource *r, const struct git_repo *repo, const char *operation, struct atoll_error *err)
{
	struct git_call call = { .repo = repo, .operation = operation };
	AUTO_STRBUF packed = STRBUF_INIT;
	int rc, dropped;

	(void)git_pin_lock(repo, "packed-refs", r->uuid);
	rc = remove_loose(repo, r->uuid, &packed);
	dropped = git_lock_drop(repo->dir_fd, "packed-refs", r->uuid);
	rc = rc < 0 ? rc : dropped;
	if (rc < 0)
		return error_sys(err, rc, operation, repo->top, "cannot remove a ref in the git directory of \"%s\"",
				 repo->top);
	call.input = packed.data;
	call.input_size = packed.size;
	rc = packed.size ? git_call(&call, err, (const char *const[]){ "update-ref", "--stdin", NULL }) : 0;
	if (rc >= 0)
		remove_directories(repo, r->uuid);
	return rc;
}
