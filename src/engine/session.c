/* SPDX-License-Identifier: Apache-2.0 */
/* One sandbox opened for one operation: found, locked, read again under the lock, settled, its resources opened. */
#include "engine/protocol.h"

#include <ctype.h>
#include <string.h>

#include "base/clock.h"
#include "engine/claim.h"
#include "engine/exclusion.h"

#define NAME_MAX_SIZE 64
#define LOCK_PATIENCE_MS 3000

bool name_is_valid(const char *name)
{
	size_t size = strlen(name);

	if (size == 0 || size > NAME_MAX_SIZE || !isalnum((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < size; i++)
		if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
			return false;
	return true;
}

/* Measures the path of the sandbox's innermost resource that contains the directory; 0 if none
 * contains it. */
static int measure_around(struct store *store, int64_t sandbox, const char *dir, size_t *ret, struct atoll_error *err)
{
	struct store_resource *rows = NULL;
	size_t n = 0;
	int r = store_resource_list(store, sandbox, &rows, &n, err);

	*ret = 0;
	for (size_t i = 0; i < n; i++) {
		const struct store_resource *row = &rows[i];

		if ((row->kind == ATOLL_KIND_DIR || row->kind == ATOLL_KIND_GIT) && row->state != ATOLL_PENDING &&
		    path_is_below(dir, row->path))
			*ret = MAX(*ret, strlen(row->path));
		store_resource_release(&rows[i]);
	}
	free(rows);
	return r;
}

#define NAMES_MAX 8 /* in an error message */

static int refuse_choice(const struct store_sandbox *list, size_t n, const size_t *around, size_t longest,
			 struct atoll_error *err)
{
	AUTO_STRBUF names = STRBUF_INIT;
	size_t equal = 0;

	for (size_t i = 0; i < n; i++) {
		if (around[i] != longest)
			continue;
		if (equal < NAMES_MAX)
			strbuf_addf(&names, "%s\"%s\"", equal ? ", " : "", list[i].name);
		equal++;
	}
	return error_set(err, ATOLL_INVALID, 0, "open", NULL, "%s %zu sandboxes%s; name one of them: %s%s",
			 longest ? "the current directory is in" : "there are", equal,
			 longest ? "" : ", none of which holds the current directory", strbuf_str(&names),
			 equal > NAMES_MAX ? ", …" : "");
}

/* Finds the sandbox whose resource contains the working directory most closely. */
static int choose_by_directory(struct store *store, const struct store_sandbox *list, size_t n, size_t *ret,
			       struct atoll_error *err)
{
	AUTO_FREE size_t *around = calloc(n, sizeof *around);
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	size_t longest = 0, equal = 0;
	int r = around ? 0 : error_oom(err, "open");

	for (size_t i = 0; i < n && cwd && r >= 0; i++) {
		r = measure_around(store, list[i].id, cwd, &around[i], err);
		longest = MAX(longest, around[i]);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (around[i] == longest) {
			*ret = i;
			equal++;
		}
	return longest && equal == 1 ? 0 : refuse_choice(list, n, around, longest, err);
}

/* Whether the sandbox holds nothing but its undo record. */
static bool has_landed(struct store *store, const struct store_sandbox *box)
{
	struct store_resource *rows = NULL;
	size_t n = 0;
	bool landed = box->prunable && store_resource_list(store, box->id, &rows, &n, NULL) >= 0 && n > 0;

	for (size_t i = 0; i < n; i++) {
		landed &= rows[i].state == ATOLL_COMMITTED;
		store_resource_release(&rows[i]);
	}
	free(rows);
	return landed;
}

/* Moves sandboxes that hold nothing but their undo record to the end. Returns how many precede
 * them, or n if all sandboxes are like that. */
static size_t put_landed_last(struct store *store, struct store_sandbox *list, size_t n)
{
	size_t kept = 0;

	for (size_t i = 0; i < n; i++)
		if (!has_landed(store, &list[i])) {
			struct store_sandbox box = list[i];

			memmove(&list[kept + 1], &list[kept], (i - kept) * sizeof *list);
			list[kept++] = box;
		}
	return kept ? kept : n;
}

/* Chooses if the caller gave no name: the only sandbox, or the one around the working directory. */
static int find_unnamed(struct store *store, struct store_sandbox *ret, struct atoll_error *err)
{
	struct store_sandbox *list = NULL;
	size_t n = 0, candidates, chosen = 0;
	int r = store_sandbox_list(store, &list, &n, err);

	if (r < 0)
		return r;
	candidates = n > 1 ? put_landed_last(store, list, n) : n;
	if (n == 0)
		r = error_set(err, ATOLL_NOT_FOUND, 0, "open", NULL, "there is no sandbox; make one with atoll new");
	else if (candidates > 1)
		r = choose_by_directory(store, list, candidates, &chosen, err);
	if (r >= 0) {
		*ret = list[chosen];
		list[chosen] = (struct store_sandbox){ 0 };
	}
	for (size_t i = 0; i < n; i++)
		store_sandbox_release(&list[i]);
	free(list);
	return r;
}

static int find(struct store *store, const char *name, struct store_sandbox *ret, struct atoll_error *err)
{
	if (!name)
		return find_unnamed(store, ret, err);
	if (!name_is_valid(name))
		return error_set(
			err, ATOLL_INVALID, 0, "open", name,
			"\"%s\" is not a sandbox name: letters, digits, '.', '_' and '-', up to %d, beginning with a letter or digit",
			name, NAME_MAX_SIZE);
	return store_sandbox_find(store, name, ret, err);
}

static int load_resources(struct session *s, struct atoll_error *err)
{
	struct store_resource *rows = NULL;
	size_t n = 0;
	int r = store_resource_list(s->store, s->box.id, &rows, &n, err);

	if (r < 0)
		return r;
	s->resources = calloc(n ? n : 1, sizeof *s->resources);
	if (!s->resources) {
		for (size_t i = 0; i < n; i++)
			store_resource_release(&rows[i]);
		free(rows);
		return error_oom(err, "open");
	}
	s->n = n;
	for (size_t i = 0; i < n; i++) {
		struct resource *res = &s->resources[i];

		*res = (struct resource){
			.row = rows[i],
			.store = s->store,
			.root_fd = -EBADF,
			.work_fd = -EBADF,
			.stage_fd = -EBADF,
			.marks = tree_overlay_marks(),
		};
		memcpy(res->uuid, s->box.uuid, sizeof res->uuid);
		res->sandbox = s->box.name;
		res->ops = strategy_find(res->row.strategy, res->row.kind);
		/* Until one is chosen the record of what is being made names one that serves directories. */
		if (!res->ops && res->row.state == ATOLL_PENDING)
			res->ops = strategy_find(res->row.strategy, ATOLL_KIND_DIR);
		if (!res->ops)
			r = error_set(err, ATOLL_CORRUPT, 0, "open", res->row.strategy,
				      "the state database names a strategy \"%s\" that this program does not know",
				      res->row.strategy);
	}
	free(rows);
	return r;
}

int session_peek_in(struct atoll *a, struct store *store, struct store_sandbox *box, struct session *ret,
		    struct atoll_error *err)
{
	struct session s = { .a = a, .store = store, .box = *box, .lock_fd = -EBADF };
	int r;

	*box = (struct store_sandbox){ 0 };
	r = load_resources(&s, err);
	if (r < 0) {
		s.store = NULL;
		session_release(&s);
		return r;
	}
	*ret = s;
	return 0;
}

/* What is on record just now, without a lock. */
int session_peek(struct atoll *a, const char *name, struct session *ret, struct atoll_error *err)
{
	struct session s = { .a = a, .lock_fd = -EBADF };
	int r = store_open(a->state_dir, &s.store, err);

	if (r >= 0)
		r = find(s.store, name, &s.box, err);
	if (r >= 0)
		r = load_resources(&s, err);
	if (r < 0) {
		session_release(&s);
		return r;
	}
	*ret = s;
	return 0;
}

void session_pause(struct session *s)
{
	s->store = store_close(s->store);
	for (size_t i = 0; i < s->n; i++)
		s->resources[i].store = NULL;
}

int session_resume(struct session *s, struct atoll_error *err)
{
	int r = store_open(s->a->state_dir, &s->store, err);

	for (size_t i = 0; i < s->n; i++)
		s->resources[i].store = s->store;
	return r;
}

/* A reader, a commit or a recovery has the lock: that ends soon, and is no reason to be refused. A command that runs inside may take
 * any time. */
static int wait_shortly(struct session *s, const struct store_sandbox *box, enum lock_mode mode,
			struct atoll_error *err)
{
	int64_t end = clock_monotonic_ns() + (int64_t)LOCK_PATIENCE_MS * 1000000;
	struct atoll_error busy = { 0 };
	int r;

	do
		r = lock_take(s->a, box->uuid, mode, 50, box->name, &s->lock_fd, &busy);
	while (r == -ATOLL_BUSY && busy.sys_errno != EBUSY && clock_monotonic_ns() < end);
	if (r < 0 && err)
		*err = busy;
	return r;
}

/* Whoever has the lock may need the database to end, and to be forked while nobody has it open: one does not wait with it in hand. */
static int take_lock(struct session *s, const struct store_sandbox *box, enum lock_mode mode, int wait_ms,
		     struct atoll_error *err)
{
	struct atoll_error busy = { 0 };
	int r = lock_take(s->a, box->uuid, mode, 0, box->name, &s->lock_fd, &busy);

	if (r != -ATOLL_BUSY || (wait_ms == 0 && busy.sys_errno == EBUSY)) {
		if (r < 0 && err)
			*err = busy;
		return r;
	}
	session_pause(s);
	r = wait_ms ? lock_take(s->a, box->uuid, mode, wait_ms, box->name, &s->lock_fd, err)
		    : wait_shortly(s, box, mode, err);
	return r < 0 ? r : session_resume(s, err);
}

/* One attempt: 1 if the sandbox of that name is another one now than the one that was locked. */
static int lock_found(struct session *s, const char *name, enum lock_mode mode, int wait_ms, struct atoll_error *err)
{
	struct store_sandbox known = { 0 };
	int r = find(s->store, name, &known, err);

	if (r >= 0)
		r = take_lock(s, &known, mode, wait_ms, err);
	if (r >= 0) {
		r = store_sandbox_find(s->store, known.name, &s->box, err);
		if (r >= 0)
			r = strcmp(known.uuid, s->box.uuid) != 0;
		if (r == -ATOLL_NOT_FOUND || r > 0)
			lock_remove(s->a, known.uuid); /* taking it may have made the file again */
	}
	store_sandbox_release(&known);
	return r;
}

/* Finds, locks and reads again: between the two a sandbox may have been removed, and another one made under its name. */
static int lock_and_read(struct session *s, const char *name, enum lock_mode mode, int wait_ms, struct atoll_error *err)
{
	int r = store_open(s->a->state_dir, &s->store, err);

	if (r >= 0)
		r = owner_check(s->a, s->store, err);
	if (r < 0)
		return r;
	while ((r = lock_found(s, name, mode, wait_ms, err)) > 0) {
		s->lock_fd = lock_release(s->lock_fd);
		store_sandbox_release(&s->box);
	}
	if (r >= 0)
		r = load_resources(s, err);
	if (r >= 0)
		r = area_check_ways(s, err);
	return r < 0 ? r : claim_take(s, err);
}

int session_open_raw(struct atoll *a, const char *name, int wait_ms, bool lost, struct session *ret,
		     struct atoll_error *err)
{
	struct session s = { .a = a, .lock_fd = -EBADF };
	int r = lock_and_read(&s, name, LOCK_CHANGE, wait_ms, err);

	if (r >= 0 && !lost && !recover_is_removal(&s))
		r = claim_refuse(&s, err);
	if (r < 0) {
		session_release(&s);
		return r;
	}
	*ret = s;
	return 0;
}

static int settle(struct session *s, enum lock_mode mode, struct atoll_error *err)
{
	struct atoll_result *result = NULL;
	int r;

	if (!recover_is_needed(s, err))
		return 0;
	if (mode != LOCK_CHANGE)
		return error_set(err, ATOLL_IN_DOUBT, 0, "open", s->box.name,
				 "the sandbox \"%s\" needs recovery; run atoll recover", s->box.name);
	r = recover_session(s, &result, err);
	atoll_result_free(result);
	return r;
}

static int reload(struct session *s, struct atoll_error *err)
{
	for (size_t i = 0; i < s->n; i++)
		resource_release(&s->resources[i]);
	free(s->resources);
	s->resources = NULL;
	s->n = 0;
	return load_resources(s, err);
}

int session_open(struct atoll *a, const char *name, enum lock_mode mode, int wait_ms, struct session *ret,
		 struct atoll_error *err)
{
	struct session s = { .a = a, .lock_fd = -EBADF };
	int r = lock_and_read(&s, name, mode, wait_ms, err);

	if (r >= 0 && !recover_is_removal(&s))
		r = claim_refuse(&s, err);
	/* Deep trees want many fds; a command that is run keeps the limit it had. */
	if (mode == LOCK_CHANGE)
		fd_raise_limit();
	if (r >= 0 && recover_is_needed(&s, err)) {
		r = settle(&s, mode, err);
		if (r >= 0)
			r = reload(&s, err);
	}
	for (size_t i = 0; i < s.n && r >= 0; i++) {
		r = resource_open(&s, &s.resources[i], err);
		if (r >= 0 && s.resources[i].row.dirty)
			r = error_set(err, ATOLL_STATE, 0, "open", s.box.name,
				      "the workspace of \"%s\" could not be reset; run atoll rollback %s again",
				      s.resources[i].row.path, s.box.name);
	}
	if (r >= 0)
		r = resource_set_excluded(&s, err);
	if (r >= 0)
		strays_remove(&s);
	if (r >= 0)
		r = part_drop_left(&s, err);
	if (r < 0) {
		session_release(&s);
		return r;
	}
	*ret = s;
	return 0;
}

void session_release(struct session *s)
{
	for (size_t i = 0; i < s->n; i++)
		resource_release(&s->resources[i]);
	free(s->resources);
	store_sandbox_release(&s->box);
	exclusion_release(s);
	claim_release(s);
	s->store = store_close(s->store);
	s->lock_fd = lock_release(s->lock_fd);
	*s = (struct session){ .lock_fd = -EBADF };
}

struct resource *session_resource(struct session *s, int64_t id)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->resources[i].row.id == id)
			return &s->resources[i];
	return NULL;
}

/* An inner resource comes before the outer one; otherwise the order of creation stands. Each is put before the first that it lies in:
 * those that lie in it were put there too, and so stand before it. Adds one class to the order, from n on. */
static size_t order_class(const struct session *s, bool can_undo, size_t *order, size_t n)
{
	size_t start = n;

	for (size_t i = 0; i < s->n; i++) {
		size_t at = start;

		if (resource_can_undo(&s->resources[i]) != can_undo)
			continue;
		while (at < n && !path_is_below(s->resources[i].row.path, s->resources[order[at]].row.path))
			at++;
		memmove(&order[at + 1], &order[at], (n - at) * sizeof *order);
		order[at] = i;
		n++;
	}
	return n;
}

/* What cannot be taken back lands when all else has. */
int session_order(const struct session *s, size_t **ret, struct atoll_error *err)
{
	size_t *order = reallocarray(NULL, s->n ? s->n : 1, sizeof *order);

	if (!order)
		return error_oom(err, "commit");
	(void)order_class(s, false, order, order_class(s, true, order, 0));
	*ret = order;
	return 0;
}
