/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a path is where resources lie within one another: the innermost one's, and a guest's is in the workspace of its host. */
#include "engine/engine.h"
#include "tap.h"

static struct resource resource(enum atoll_kind kind, const char *path, const char *strategy, const char *work)
{
	struct resource r = {
		.row = { .kind = kind, .path = strdup(path), .work = strdup(work), .stage = strdup(work) },
		.ops = strategy_find(strategy, kind),
		.root_fd = -EBADF,
		.work_fd = -EBADF,
		.stage_fd = -EBADF,
		.root_path = strdup(path)
	};

	CHECK(r.ops != NULL);
	if (kind_is_file(kind)) {
		r.only = strrchr(r.row.path, '/') + 1;
		*strrchr(r.root_path, '/') = 0;
	}
	return r;
}

static bool is_listed(char *const *list, size_t n, const char *path)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i], path) == 0)
			return true;
	return false;
}

static struct session *open_session(struct resource *list, size_t n)
{
	static struct atoll a = { .state_dir = (char *)"/state" };
	static struct session s;
	struct atoll_error err = { 0 };

	s = (struct session){ .a = &a, .resources = list, .n = n, .lock_fd = -EBADF };
	CHECK_EQ(resource_set_excluded(&s, &err), 0);
	return &s;
}

static void close_session(const struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		resource_release(&s->resources[i]);
}

TEST(a_database_in_a_directory_is_the_guest_of_the_innermost)
{
	struct resource list[] = { resource(ATOLL_KIND_SQLITE, "/app/svc/d/x.db", "transaction_rollback",
					    "/state/boxes/u/3"),
				   resource(ATOLL_KIND_DIR, "/app", "overlay", "/state/boxes/u/2"),
				   resource(ATOLL_KIND_GIT, "/app/svc", "git_worktree", "/state/boxes/u/3") };
	const struct session *s = open_session(list, 3);
	const struct resource *outer = &s->resources[1], *inner = &s->resources[2];

	CHECK(s->resources[0].host == inner && !inner->host && !outer->host);
	CHECK_EQ(inner->n_claimed, 5);
	CHECK(is_listed(inner->claimed, inner->n_claimed, "d/x.db") &&
	      is_listed(inner->claimed, inner->n_claimed, "d/x.db-wal") &&
	      is_listed(inner->claimed, inner->n_claimed, "d/x.db-journal"));
	CHECK(!is_listed(inner->excluded, inner->n_excluded, "d"));
	CHECK(is_listed(outer->excluded, outer->n_excluded, "svc"));
	CHECK_EQ(outer->n_claimed, 0);
	CHECK_STR(resource_workspace_name(&s->resources[0]), inner->ops->workspace);
	close_session(s);
}

TEST(files_of_one_directory_and_databases_beside_them_share_one_workspace)
{
	struct resource list[] = { resource(ATOLL_KIND_FILE, "/d/a", "copy_on_write", "/state/boxes/u/1"),
				   resource(ATOLL_KIND_SQLITE, "/d/x.db", "transaction_rollback", "/state/boxes/u/1"),
				   resource(ATOLL_KIND_FILE, "/d/b", "copy_on_write", "/state/boxes/u/1") };
	const struct session *s = open_session(list, 3);

	CHECK(s->resources[1].host == &s->resources[0]);
	CHECK(resource_is_claimed(&s->resources[0], "x.db") && resource_is_claimed(&s->resources[2], "x.db-shm"));
	CHECK_STR(resource_workspace_name(&s->resources[1]), "tree");
	close_session(s);
}

TEST(databases_alone_have_no_host)
{
	struct resource list[] = { resource(ATOLL_KIND_SQLITE, "/d/x.db", "transaction_rollback", "/state/boxes/u/1"),
				   resource(ATOLL_KIND_SQLITE, "/d/y.db", "transaction_rollback", "/state/boxes/u/1"),
				   resource(ATOLL_KIND_DIR, "/d/sub", "overlay", "/state/boxes/u/3") };
	const struct session *s = open_session(list, 3);

	CHECK(!s->resources[0].host && !s->resources[1].host);
	CHECK_EQ(s->resources[0].n_claimed, 0);
	CHECK_EQ(s->resources[0].n_siblings, 1);
	CHECK(is_listed(s->resources[0].excluded, s->resources[0].n_excluded, "sub"));
	CHECK_STR(resource_workspace_name(&s->resources[0]), "upper");
	close_session(s);
}
