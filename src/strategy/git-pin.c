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

static int write_pin(struct resource *r, const struct git_repo *repo, const char *ref, const struct git_id *id)
{
	AUTO_FREE char *tmp = git_index_own_name(r, "ref");
	int rc = tmp ? lock_own(repo, r->uuid, ref) : -ENOMEM, dropped;

	if (rc < 0)
		return rc;
	rc = git_refs_write(repo->dir_fd, ref, id, tmp);
	dropped = git_lock_drop(repo->dir_fd, ref, r->uuid);
	return rc < 0 ? rc : dropped;
}

int git_pin(struct resource *r, const struct git_repo *repo, const char *name, const struct git_id *id,
	    const char *operation, struct atoll_error *err)
{
	AUTO_FREE char *ref = str_format("refs/atoll/%s/%s", r->uuid, name);
	int rc = ref ? write_pin(r, repo, ref, id) : -ENOMEM;

	return rc < 0 ? error_sys(err, rc, operation, repo->top, "cannot write a ref in the git directory of \"%s\"",
				  repo->top)
		      : 0;
}

/* Packed or loose: git knows. */
int git_unpin(struct resource *r, const struct git_repo *repo, const char *operation, struct atoll_error *err)
{
	static const char *const names[] = { "base", "tip" };
	struct git_call call = { .repo = repo, .operation = operation };
	AUTO_STRBUF input = STRBUF_INIT;
	int rc;

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		AUTO_FREE char *ref = str_format("refs/atoll/%s/%s", r->uuid, names[i]);

		if (!ref)
			return error_oom(err, operation);
		(void)git_lock_drop(repo->dir_fd, ref, r->uuid);
		strbuf_addf(&input, "delete %s\n", ref);
	}
	if (input.failed)
		return error_oom(err, operation);
	call.input = input.data;
	call.input_size = input.size;
	rc = git_call(&call, err, (const char *const[]){ "update-ref", "--stdin", NULL });
	if (rc >= 0) {
		AUTO_FREE char *own = str_format("refs/atoll/%s", r->uuid);

		if (own)
			sys_unlink(repo->dir_fd, own, AT_REMOVEDIR);
		sys_unlink(repo->dir_fd, "refs/atoll", AT_REMOVEDIR);
	}
	return rc;
}
