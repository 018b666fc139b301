/* SPDX-License-Identifier: Apache-2.0 */
/* Recovery of one sandbox or all, as asked for from outside. Each is looked at without its lock first: hardly ever is anything left, and a lock
 * would make other commands wait. */
#include "engine/leftovers.h"

#include <fcntl.h>
#include <string.h>

#include "base/sys.h"
#include "engine/claim.h"

/* ---- locks of sandboxes that are no more ---- */

struct stale {
	struct atoll *a;
	struct store *store;
};

static int remove_stale_lock(const struct tree_entry *e, void *arg)
{
	struct stale *stale = arg;
	AUTO_FD lock = -EBADF;

	if (!S_ISREG(e->stat.mode) || store_sandbox_is_known(stale->store, e->name, NULL) != 0)
		return TREE_WALK_SKIP;
	/* One that is held belongs to a sandbox that is just being made. Under the lock it is on record, or is none. */
	if (lock_take(stale->a, e->name, LOCK_CHANGE, 0, e->name, &lock, NULL) >= 0 &&
	    store_sandbox_is_known(stale->store, e->name, NULL) == 0)
		lock_remove(stale->a, e->name);
	return TREE_WALK_GO;
}

static void remove_stale_locks(struct atoll *a)
{
	CLEANUP(cleanup_store) struct store *store = NULL;
	AUTO_FD dir = fd_open_beneath(a->state_fd, "locks", O_RDONLY | O_DIRECTORY);
	struct stale stale = { .a = a };

	if (dir < 0 || store_open(a->state_dir, &store, NULL) < 0)
		return;
	stale.store = store;
	tree_walk(dir, TREE_WALK_NO_ROOT, remove_stale_lock, &stale, NULL);
}

/* ---- who needs it ---- */

/* Takes over the strings of *box. */
static bool is_left(struct atoll *a, struct store *store, struct store_sandbox *box)
{
	struct session s = { .lock_fd = -EBADF };
	bool left = session_peek_in(a, store, box, &s, NULL) < 0 || leftovers_may_exist(&s);

	s.store = NULL;
	session_release(&s);
	return left;
}

/* The names of those that may need recovery. */
static int find_left(struct atoll *a, char ***ret, size_t *ret_n, struct atoll_error *err)
{
	CLEANUP(cleanup_store) struct store *store = NULL;
	struct store_sandbox *boxes = NULL;
	size_t n = 0;
	int r = store_open(a->state_dir, &store, err);

	if (r >= 0)
		r = store_sandbox_list(store, &boxes, &n, err);
	if (r >= 0 && n > 0)
		r = owner_check(a, store, err);
	*ret = r < 0 ? NULL : calloc(n ? n : 1, sizeof **ret);
	if (r >= 0 && !*ret)
		r = error_oom(err, "recover");
	for (size_t i = 0; i < n; i++) {
		AUTO_FREE char *name = r >= 0 ? strdup(boxes[i].name) : NULL;

		if (name && is_left(a, store, &boxes[i]))
			(*ret)[(*ret_n)++] = TAKE_PTR(name);
		store_sandbox_release(&boxes[i]);
	}
	free(boxes);
	return r;
}

static int refuse_lost(struct session *s, struct atoll_error *err)
{
	int r = owner_registry(s->a, s->store, s->registry, err);

	return r >= 0 && claim_is_lost(s, s->registry) && !recover_is_removal(s) ? claim_refuse(s, err) : r;
}

/* The same of one that is named. */
static int find_named(struct atoll *a, const char *name, char ***ret, size_t *ret_n, struct atoll_error *err)
{
	struct session s = { .lock_fd = -EBADF };
	int r = session_peek(a, name, &s, err);

	if (r >= 0)
		r = owner_check(a, s.store, err);
	if (r >= 0)
		r = refuse_lost(&s, err);
	if (r >= 0 && leftovers_may_exist(&s)) {
		*ret = calloc(1, sizeof **ret);
		if (*ret)
			(*ret)[0] = strdup(s.box.name);
		*ret_n = *ret && (*ret)[0];
		r = *ret_n ? 0 : error_oom(err, "recover");
	}
	session_release(&s);
	return r;
}

/* ---- the public call ---- */

static int recover_one(struct atoll *a, const char *name, const struct atoll_recover_options *options,
		       struct atoll_result ***list, size_t *n, struct atoll_error *err)
{
	struct operation op = { .a = a, .name = name, .options = options, .fn = recover_work };
	struct atoll_result *result = NULL;
	struct atoll_result **grown;
	int r = operation_run(&op, &result, err);

	if (!result)
		return r;
	grown = reallocarray(*list, *n + 1, sizeof *grown);
	if (!grown) {
		atoll_result_free(result);
		return error_oom(err, "recover");
	}
	*list = grown;
	grown[(*n)++] = result;
	return r;
}

/* One that fails never stops the others; the first failure is the answer. */
static int recover_each(struct atoll *a, char **names, size_t n, bool all, const struct atoll_recover_options *options,
			struct atoll_result ***ret, size_t *ret_n, struct atoll_error *err)
{
	int first = 0;

	for (size_t i = 0; i < n; i++) {
		struct atoll_error why = { 0 };
		int r = recover_one(a, names[i], options, ret, ret_n, &why);

		if (r < 0 && !(all && r == -ATOLL_NOT_FOUND) && first == 0) {
			first = r;
			if (err)
				*err = why;
		}
	}
	return first;
}

int atoll_recover(struct atoll *a, const char *name, const struct atoll_recover_options *options,
		  struct atoll_result ***ret, size_t *ret_n, struct atoll_error *err)
{
	SIZE_LIMIT_GUARD;
	static const struct atoll_recover_options none;
	char **names = NULL;
	size_t n = 0;
	int r;

	if (!a || !ret || !ret_n)
		return error_set(err, ATOLL_INVALID, 0, "recover", NULL,
				 "no handle or no place for the results was given");
	*ret = NULL;
	*ret_n = 0;
	options = options ? options : &none;
	r = options->adopt ? owner_adopt(a, options->accept_incomplete, err) : 0;
	if (r >= 0)
		r = name ? find_named(a, name, &names, &n, err) : find_left(a, &names, &n, err);
	if (r >= 0)
		r = recover_each(a, names, n, !name, options, ret, ret_n, err);
	if (!name)
		remove_stale_locks(a);
	for (size_t i = 0; i < n; i++)
		free(names[i]);
	free(names);
	return r;
}
