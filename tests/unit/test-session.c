/* SPDX-License-Identifier: Apache-2.0 */
/* Opening a sandbox for one operation: names, the only one there is, order of landing, and what happens while one waits for the lock. */
#include <pthread.h>

#include "engine/engine.h"
#include "store-scene.h"

static struct atoll *open_handle(void)
{
	struct atoll_error err = { 0 };
	struct atoll *a = NULL;
	char path[4200];

	snprintf(path, sizeof path, "%s/state", tap_dir);
	CHECK_DONE(atoll_open(&(struct atoll_options){ path }, &a, &err), err);
	return a;
}

static void make_box(struct atoll *a, const char *name, const char *dir)
{
	const struct atoll_resource_spec spec = { ATOLL_KIND_DIR, dir, "none" };
	const struct atoll_new_options options = { .name = name, .resources = &spec, .n_resources = 1 };
	struct atoll_error err = { 0 };

	CHECK_DONE(atoll_new(a, &options, NULL, &err), err);
}

TEST(names_are_of_a_safe_alphabet)
{
	char longest[66];

	memset(longest, 'a', sizeof longest);
	longest[64] = 0;
	CHECK(name_is_valid("a") && name_is_valid("A-b_c.9") && name_is_valid("0") && name_is_valid(longest));
	longest[64] = 'a';
	longest[65] = 0;
	CHECK(!name_is_valid(longest));
	CHECK(!name_is_valid("") && !name_is_valid(".") && !name_is_valid("..") && !name_is_valid("-x") &&
	      !name_is_valid("a/b"));
	CHECK(!name_is_valid("a b") && !name_is_valid("a\n") && !name_is_valid("\xc3\xa9") && !name_is_valid("a;b"));
}

TEST(every_call_refuses_a_malformed_name_before_any_effect)
{
	struct atoll *a = open_handle();
	struct atoll_info *info = NULL;
	struct atoll_result *result = NULL, **results = NULL;
	struct atoll_run_result run;
	struct atoll_error err = { 0 };
	char *const argv[] = { (char *)"true", NULL };
	size_t n = 0;
	uint64_t pending;

	CHECK_EQ(atoll_show(a, "../x", &info, &err), -ATOLL_INVALID);
	CHECK_EQ(atoll_run(a, "../x", &(struct atoll_run_options){ .argv = argv }, &run, &err), -ATOLL_INVALID);
	CHECK_EQ(atoll_changes(a, "../x", NULL, NULL, NULL, &err), -ATOLL_INVALID);
	CHECK_EQ(atoll_commit(a, "../x", NULL, &result, &err), -ATOLL_INVALID);
	atoll_result_free(result);
	CHECK_EQ(atoll_undo(a, "../x", NULL, &result, &err), -ATOLL_INVALID);
	atoll_result_free(result);
	CHECK_EQ(atoll_rollback(a, "../x", NULL, &result, &err), -ATOLL_INVALID);
	atoll_result_free(result);
	CHECK_EQ(atoll_remove(a, "../x", NULL, &err), -ATOLL_INVALID);
	CHECK_EQ(atoll_pending(a, "../x", 1, &pending, &err), -ATOLL_INVALID);
	CHECK_EQ(atoll_recover(a, "../x", NULL, &results, &n, &err), -ATOLL_INVALID);
	CHECK_EQ(atoll_remove(a, "", NULL, &err), -ATOLL_INVALID);
	atoll_close(a);
}

TEST(without_a_name_the_only_sandbox_is_meant)
{
	struct atoll *a = open_handle();
	struct atoll_info *info = NULL;
	struct atoll_error err = { 0 };

	CHECK_EQ(atoll_show(a, NULL, &info, &err), -ATOLL_NOT_FOUND);
	CHECK_OK(mkdir("one", 0755));
	make_box(a, "one", "one");
	CHECK_DONE(atoll_show(a, NULL, &info, &err), err);
	CHECK_STR(info->name, "one");
	atoll_info_free(info);
	CHECK_OK(mkdir("two", 0755));
	make_box(a, "two", "two");
	CHECK_EQ(atoll_show(a, NULL, &info, &err), -ATOLL_INVALID);
	atoll_close(a);
}

static void check_order_of(size_t n, const char *const *paths, const struct strategy_ops *const *ops,
			   const size_t *wanted)
{
	struct resource resources[8] = { 0 };
	struct session s = { .resources = resources, .n = n };
	AUTO_FREE size_t *order = NULL;
	struct atoll_error err = { 0 };

	for (size_t i = 0; i < n; i++) {
		resources[i].row.path = (char *)paths[i];
		resources[i].ops = ops ? ops[i] : strategy_find("overlay", ATOLL_KIND_DIR);
	}
	CHECK_DONE(session_order(&s, &order, &err), err);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(order[i], wanted[i]);
}

static void check_order(size_t n, const char *const *paths, const size_t *wanted)
{
	check_order_of(n, paths, NULL, wanted);
}

TEST(children_land_before_parents_and_others_as_created)
{
	check_order(3, (const char *const[]){ "/z", "/a", "/m" }, (const size_t[]){ 0, 1, 2 });
	check_order(3, (const char *const[]){ "/p", "/p/c", "/p/c/d" }, (const size_t[]){ 2, 1, 0 });
	check_order(3, (const char *const[]){ "/p/c", "/p", "/pp" }, (const size_t[]){ 0, 1, 2 });
	check_order(0, NULL, NULL);
}

TEST(a_child_lands_before_its_parent_though_others_were_created_between_them)
{
	check_order(3, (const char *const[]){ "/p", "/x", "/p/c" }, (const size_t[]){ 2, 0, 1 });
	check_order(4, (const char *const[]){ "/p", "/q", "/q/d", "/p/c" }, (const size_t[]){ 3, 0, 2, 1 });
}

TEST(what_does_not_declare_that_it_can_be_undone_lands_last)
{
	struct strategy_ops mine = *strategy_find("copy_on_write", ATOLL_KIND_DIR);
	const struct strategy_ops *safe = strategy_find("overlay", ATOLL_KIND_DIR);

	mine.capabilities &= ~(unsigned)STRATEGY_UNDO_AFTER;
	check_order_of(3, (const char *const[]){ "/a", "/b", "/c" },
		       (const struct strategy_ops *const[]){ &mine, safe, safe }, (const size_t[]){ 1, 2, 0 });
	/* Being inside comes second, but holds within each class. */
	check_order_of(4, (const char *const[]){ "/p", "/p/c", "/q", "/q/d" },
		       (const struct strategy_ops *const[]){ safe, &mine, &mine, &mine },
		       (const size_t[]){ 0, 1, 3, 2 });
}

struct waiter {
	struct atoll *a;
	int code;
	char uuid[37];
	bool locked;
};

static void *wait_for_box(void *arg)
{
	struct waiter *w = arg;
	struct session s = { .lock_fd = -EBADF };
	struct atoll_error err = { 0 };
	int other = -EBADF;

	w->code = session_open(w->a, "box", LOCK_CHANGE, 20000, &s, &err);
	if (w->code == 0) {
		snprintf(w->uuid, sizeof w->uuid, "%s", s.box.uuid);
		/* Really locked: nobody else gets this sandbox now. */
		w->locked = lock_take(w->a, s.box.uuid, LOCK_LOOK, 0, "box", &other, &err) == -ATOLL_BUSY;
		fd_close(other);
		session_release(&s);
	}
	return NULL;
}

static int64_t box_id(struct store *s, char uuid[37])
{
	struct store_sandbox box = { 0 };
	struct atoll_error err = { 0 };
	int64_t id;

	CHECK_DONE(store_sandbox_find(s, "box", &box, &err), err);
	id = box.id;
	snprintf(uuid, 37, "%s", box.uuid);
	store_sandbox_release(&box);
	return id;
}

static struct atoll *begin_wait(struct waiter *w, pthread_t *thread, int *lock, char uuid[37], int64_t *id)
{
	struct atoll *a = open_handle();
	struct atoll_error err = { 0 };
	struct store *s = NULL;

	CHECK_OK(mkdir("dir", 0755));
	make_box(a, "box", "dir");
	CHECK_DONE(store_open(atoll_state_dir(a), &s, &err), err);
	*id = box_id(s, uuid);
	store_close(s);
	CHECK_DONE(lock_take(a, uuid, LOCK_CHANGE, 0, "box", lock, &err), err);
	*w = (struct waiter){ .a = a };
	CHECK_EQ(pthread_create(thread, NULL, wait_for_box, w), 0);
	usleep(200000);
	return a;
}

static void delete_box(struct atoll *a, int64_t id, const char *uuid)
{
	struct atoll_error err = { 0 };
	struct store *s = NULL;

	CHECK_DONE(store_open(atoll_state_dir(a), &s, &err), err);
	scene_begin(s);
	CHECK_DONE(store_sandbox_delete(s, id, &err), err);
	scene_commit(s);
	store_close(s);
	lock_remove(a, uuid);
}

TEST(a_sandbox_removed_while_one_waited_for_it_is_not_found_and_leaves_no_lock_file)
{
	struct waiter w;
	pthread_t thread;
	char uuid[37], path[64];
	int64_t id;
	int lock;
	struct atoll *a = begin_wait(&w, &thread, &lock, uuid, &id);

	delete_box(a, id, uuid);
	fd_close(lock);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(w.code, -ATOLL_NOT_FOUND);
	snprintf(path, sizeof path, "state/locks/%s", uuid);
	CHECK_EQ(access(path, F_OK), -1);
	atoll_close(a);
}

TEST(a_sandbox_made_anew_under_the_name_while_one_waited_is_locked_itself)
{
	struct waiter w;
	pthread_t thread;
	char uuid[37], fresh[37];
	struct store *s = NULL;
	struct atoll_error err = { 0 };
	int64_t id;
	int lock;
	struct atoll *a = begin_wait(&w, &thread, &lock, uuid, &id);

	delete_box(a, id, uuid);
	make_box(a, "box", "dir");
	CHECK_DONE(store_open(atoll_state_dir(a), &s, &err), err);
	box_id(s, fresh);
	store_close(s);
	fd_close(lock);
	CHECK_EQ(pthread_join(thread, NULL), 0);
	CHECK_EQ(w.code, 0);
	CHECK_STR(w.uuid, fresh);
	CHECK(w.locked);
	atoll_close(a);
}

TEST(a_released_sandbox_is_free_though_a_forked_process_still_has_its_fds)
{
	struct atoll *a = open_handle();
	struct session s = { .lock_fd = -EBADF };
	struct atoll_error err = { 0 };
	pid_t pid;

	CHECK_OK(mkdir("dir", 0755));
	make_box(a, "box", "dir");
	CHECK_DONE(session_open(a, "box", LOCK_CHANGE, 0, &s, &err), err);
	pid = fork();
	if (pid == 0) {
		pause();
		_exit(0);
	}
	session_release(&s);
	CHECK_DONE(session_open(a, "box", LOCK_CHANGE, 0, &s, &err), err);
	session_release(&s);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	atoll_close(a);
}
