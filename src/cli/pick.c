/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pick.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/error.h"

void pick_release(struct pick *p)
{
	for (size_t i = 0; i < p->n_dirs; i++)
		free(p->dirs[i]);
	free(p->dirs);
	free(p->v);
	fold_free(p->changes);
	*p = (struct pick){ 0 };
}

/* ---- resources and directories that land as a whole ---- */

bool pick_lands_whole(const struct atoll_resource_info *r)
{
	return r->kind == ATOLL_KIND_GIT || r->kind == ATOLL_KIND_SQLITE || r->kind == ATOLL_KIND_POSTGRES;
}

bool pick_is_impossible(const struct atoll_info *info)
{
	return info->n_resources == 1 && pick_lands_whole(&info->resources[0]);
}

static bool is_whole_resource(const struct atoll_info *info, int seq)
{
	for (size_t i = 0; i < info->n_resources; i++)
		if (info->resources[i].seq == seq)
			return pick_lands_whole(&info->resources[i]);
	return false;
}

/* If only some files of a git directory landed, it would no longer be a repository. */
static bool is_git_directory(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(slash ? slash + 1 : path, ".git") == 0;
}

/* The engine commits a deleted or replaced directory only with everything below it. */
static bool is_whole_change(const struct fold_entry *e)
{
	return e->kind == ATOLL_DELETED || e->kind == ATOLL_TYPE;
}

/* ---- making the tree ---- */

static struct pick_node *add_node(struct pick *p, const struct pick_node *node)
{
	if (p->n == p->capacity) {
		size_t capacity = MAX(2 * p->capacity, (size_t)256);
		struct pick_node *v = reallocarray(p->v, capacity, sizeof(*v));

		if (!v)
			return NULL;
		p->v = v;
		p->capacity = capacity;
	}
	p->v[p->n] = *node;
	p->v[p->n].depth = node->parent == PICK_NONE ? 0 : p->v[node->parent].depth + 1;
	p->v[p->n].ticked = true;
	return &p->v[p->n++];
}

static const char *keep_dir(struct pick *p, const char *path, size_t size)
{
	char **grown = reallocarray(p->dirs, p->n_dirs + 1, sizeof(*grown));

	if (!grown)
		return NULL;
	p->dirs = grown;
	grown[p->n_dirs] = strndup(path, size);
	return grown[p->n_dirs] ? grown[p->n_dirs++] : NULL;
}

static bool lies_below(const char *path, const char *dir)
{
	size_t size = strlen(dir);

	return size == 0 || (strncmp(path, dir, size) == 0 && path[size] == '/');
}

/* Returns the innermost node that holds the entry, above or at the latest node. */
static size_t holder_of(const struct pick *p, size_t at, const struct fold_entry *e)
{
	while (at != PICK_NONE &&
	       (p->v[at].resource_path != e->resource_path || (e->flags & PATH_PART && *p->v[at].path) ||
		(p->v[at].entry && (p->v[at].entry->flags & PATH_PART)) || !lies_below(e->path, p->v[at].path)))
		at = p->v[at].parent;
	return at;
}

/* Adds nodes for the directories between the holder and the entry. */
static int add_directories(struct pick *p, size_t *holder, const struct fold_entry *e)
{
	size_t from = *holder == PICK_NONE ? 0 : strlen(p->v[*holder].path);
	const char *slash;

	for (from += from > 0; !(e->flags & PATH_PART) && (slash = strchr(e->path + from, '/'));
	     from = (size_t)(slash - e->path) + 1) {
		struct pick_node dir = { .path = keep_dir(p, e->path, (size_t)(slash - e->path)),
					 .resource_path = e->resource_path,
					 .parent = *holder };

		dir.is_whole = dir.path && is_git_directory(dir.path);
		if (!dir.path || !add_node(p, &dir))
			return -ENOMEM;
		*holder = p->n - 1;
	}
	return 0;
}

static int add_entry(struct pick *p, const struct atoll_info *info, const struct fold_entry *e)
{
	bool is_root = !*e->path, is_whole = is_whole_resource(info, e->resource);
	size_t holder = p->n ? holder_of(p, p->n - 1, e) : PICK_NONE;
	struct pick_node node = { .path = e->path, .entry = e, .resource_path = e->resource_path };

	if (holder == PICK_NONE && (p->several || is_whole || is_root)) {
		struct pick_node top = { .path = "", .resource_path = e->resource_path, .parent = PICK_NONE };

		top.is_whole = is_whole;
		top.entry = is_root ? e : NULL;
		if (!add_node(p, &top))
			return -ENOMEM;
		holder = p->n - 1;
		if (is_root)
			return 0;
	}
	if (add_directories(p, &holder, e) < 0)
		return -ENOMEM;
	node.parent = holder;
	node.is_whole = is_whole_change(e) || (!(e->flags & PATH_PART) && is_git_directory(e->path));
	return add_node(p, &node) ? 0 : -ENOMEM;
}

static void find_ends(struct pick *p)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].end = i + 1;
	for (size_t i = p->n; i-- > 0;)
		if (p->v[i].parent != PICK_NONE)
			p->v[p->v[i].parent].end = MAX(p->v[p->v[i].parent].end, p->v[i].end);
}

static void add_counts(struct pick_node *sum, const struct pick_node *node)
{
	sum->counts.added += node->counts.added;
	sum->counts.modified += node->counts.modified;
	sum->counts.deleted += node->counts.deleted;
	sum->counts.meta += node->counts.meta;
	sum->n += node->n;
	sum->n_ticked += node->n_ticked;
	sum->n_ignored += node->n_ignored;
}

/* The change of a directory itself lands if everything below it does. */
static void count_own(struct pick *p, size_t i)
{
	struct pick_node *node = &p->v[i];
	bool ticked = pick_has_below(p, i) ? node->n_ticked == node->n : node->ticked;

	if (!node->entry)
		return;
	changes_count(&node->counts, &(struct atoll_change){ .kind = node->entry->kind });
	node->n++;
	node->n_ticked += ticked;
	node->n_ignored += node->entry->is_ignored;
}

static void recount(struct pick *p)
{
	for (size_t i = 0; i < p->n; i++) {
		p->v[i].counts = (struct changes_counts){ 0 };
		p->v[i].n = p->v[i].n_ticked = p->v[i].n_ignored = 0;
	}
	for (size_t i = p->n; i-- > 0;) {
		count_own(p, i);
		if (p->v[i].parent != PICK_NONE)
			add_counts(&p->v[p->v[i].parent], &p->v[i]);
	}
}

static int add_change(const struct atoll_change *change, void *arg)
{
	struct pick *p = arg;

	if (change->kind == ATOLL_SKIPPED) {
		p->skipped++;
		return 0;
	}
	return fold_add(p->changes, change, p->several) < 0;
}

static int make_tree(struct pick *p, const struct atoll_info *info)
{
	fold_find_ignored(p->changes);
	fold_sort(p->changes, p->changes->n);
	for (size_t i = 0; i < p->changes->n; i++)
		if (add_entry(p, info, &p->changes->entries[i]) < 0)
			return -ENOMEM;
	find_ends(p);
	recount(p);
	return 0;
}

int pick_load(struct cli *cli, const struct atoll_info *info, struct pick *ret, struct atoll_error *err)
{
	AUTO_PICK p = { .changes = fold_new(), .several = info->n_resources > 1 };
	int r;

	if (!p.changes)
		return error_oom(err, "choose");
	r = atoll_changes(cli->a, info->name, NULL, add_change, &p, err);
	if (r < 0)
		return r;
	if (make_tree(&p, info) < 0)
		return error_oom(err, "choose");
	*ret = p;
	p = (struct pick){ 0 };
	return 0;
}

/* ---- ticking ---- */

bool pick_has_below(const struct pick *p, size_t i)
{
	return p->v[i].end > i + 1;
}

static size_t whole_above(const struct pick *p, size_t i)
{
	size_t found = i;

	for (size_t at = i; at != PICK_NONE; at = p->v[at].parent)
		if (p->v[at].is_whole)
			found = at;
	return found;
}

void pick_set(struct pick *p, size_t i, bool ticked)
{
	i = whole_above(p, i);
	for (size_t k = i; k < p->v[i].end; k++)
		p->v[k].ticked = ticked;
	recount(p);
}

void pick_set_all(struct pick *p, bool ticked)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].ticked = ticked;
	recount(p);
}

void pick_set_marks(struct pick *p, const bool *ticked)
{
	for (size_t i = 0; i < p->n; i++)
		p->v[i].ticked = ticked[i];
	recount(p);
}

uint64_t pick_total(const struct pick *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n; i = p->v[i].end)
		sum += p->v[i].n;
	return sum;
}

uint64_t pick_ticked(const struct pick *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n; i = p->v[i].end)
		sum += p->v[i].n_ticked;
	return sum;
}

static bool is_same_list(const struct pick *a, const struct pick *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = strcmp(a->v[i].path, b->v[i].path) == 0 &&
		       strcmp(a->v[i].resource_path, b->v[i].resource_path) == 0;
	return same;
}

bool pick_copy_ticks(struct pick *p, const struct pick *before)
{
	if (!is_same_list(p, before))
		return false;
	for (size_t i = 0; i < p->n; i++) {
		p->v[i].ticked = before->v[i].ticked;
		p->v[i].is_open = before->v[i].is_open;
	}
	recount(p);
	return true;
}

/* ---- names ---- */

void pick_add_path(struct strbuf *s, const struct pick *p, size_t i, unsigned flags)
{
	const struct pick_node *node = &p->v[i];
	bool is_dir = node->entry ? node->entry->flags & PATH_DIR : *node->path != '\0';

	flags |= (p->several ? PATH_SEVERAL : 0) | (is_dir ? PATH_DIR : 0);
	if (node->entry)
		flags |= node->entry->flags & PATH_PART;
	changes_path(s, "", node->resource_path, *node->path ? node->path : ".", flags);
}

static void add_whole(struct strbuf *s, const struct pick_node *node)
{
	changes_count_words(s, &node->counts);
	strbuf_adds(s, ", lands as a whole");
}

void pick_add_remark(struct strbuf *s, const struct pick *p, size_t i)
{
	const struct pick_node *node = &p->v[i];
	AUTO_STRBUF text = STRBUF_INIT;

	if (pick_has_below(p, i) && node->is_whole)
		add_whole(&text, node);
	else if (pick_has_below(p, i))
		changes_count_words(&text, &node->counts);
	else if (node->entry && node->entry->details)
		strbuf_adds(&text, node->entry->details);
	if (node->entry && node->entry->old_path) {
		strbuf_adds(&text, text.size ? ", from " : "from ");
		changes_path(&text, "", node->resource_path, node->entry->old_path, p->several ? PATH_SEVERAL : 0);
	}
	if (node->n_ignored > 0 && node->n_ignored == node->n)
		strbuf_adds(&text, text.size ? ", ignored by git" : "ignored by git");
	strbuf_adds(s, strbuf_str(&text));
}

char pick_letter(const struct pick *p, size_t i, enum atoll_change_kind *ret_kind)
{
	const struct pick_node *node = &p->v[i];

	*ret_kind = ATOLL_META;
	if (node->entry && (!pick_has_below(p, i) || node->counts.added != node->n))
		*ret_kind = node->entry->kind;
	else if (node->counts.added == node->n)
		*ret_kind = ATOLL_ADDED;
	else if (node->counts.modified == node->n)
		*ret_kind = ATOLL_MODIFIED;
	else if (node->counts.deleted == node->n)
		*ret_kind = ATOLL_DELETED;
	else if (node->counts.meta != node->n)
		return '*';
	return atoll_change_kind_letter(*ret_kind);
}

static bool is_written(const struct pick *p, size_t i, const char *path)
{
	AUTO_STRBUF plain = STRBUF_INIT, slash = STRBUF_INIT;

	pick_add_path(&plain, p, i, PATH_RAW);
	if (strcmp(strbuf_str(&plain), path) == 0)
		return true;
	strbuf_addf(&slash, "%s/", strbuf_str(&plain));
	return pick_has_below(p, i) && strcmp(strbuf_str(&slash), path) == 0;
}

size_t pick_find(const struct pick *p, const char *path, size_t from)
{
	for (size_t k = 0; k < p->n; k++) {
		size_t i = from + k < p->n ? from + k : from + k - p->n;

		if (is_written(p, i, path))
			return i;
	}
	return PICK_NONE;
}

/* ---- the selection ---- */

struct collector {
	const struct pick *p;
	const struct atoll_info *info;
	const struct pick_node **origins; /* nodes of renames that are not ticked */
	size_t n_origins;
	const char **paths;
	size_t n, capacity;
	bool failed;
};

static char *absolute(const struct pick_node *node, const char *path)
{
	if (!*path)
		return strdup(node->resource_path);
	return str_format("%s/%s", strcmp(node->resource_path, "/") == 0 ? "" : node->resource_path, path);
}

char *pick_absolute(const struct pick_node *node)
{
	return absolute(node, node->path);
}

static void collect(struct collector *c, const struct pick_node *node, const char *path)
{
	if (c->n == c->capacity) {
		size_t capacity = MAX(2 * c->capacity, (size_t)64);
		const char **v = reallocarray(c->paths, capacity, sizeof(*v));

		if (!v) {
			c->failed = true;
			return;
		}
		c->paths = v;
		c->capacity = capacity;
	}
	c->paths[c->n] = absolute(node, path);
	c->failed |= !c->paths[c->n];
	c->n++;
}

/* The path of a directory above another resource would select that resource too. */
static bool holds_resource(const struct collector *c, const struct pick_node *node)
{
	AUTO_FREE char *dir = absolute(node, node->path);

	for (size_t i = 0; dir && i < c->info->n_resources; i++)
		if (c->info->resources[i].path && strcmp(c->info->resources[i].path, dir) != 0 &&
		    lies_below(c->info->resources[i].path, strcmp(dir, "/") == 0 ? "" : dir))
			return true;
	return false;
}

static void find_unticked_origins(struct collector *c)
{
	c->origins = reallocarray(NULL, c->p->n + 1, sizeof(const struct pick_node *));
	c->failed |= !c->origins;
	for (size_t i = 0; c->origins && i < c->p->n; i++)
		if (!c->p->v[i].ticked && c->p->v[i].entry && c->p->v[i].entry->old_path)
			c->origins[c->n_origins++] = &c->p->v[i];
}

/* The path of a directory also selects the files that were renamed out of it. */
static bool holds_unticked_origin(const struct collector *c, const struct pick_node *node)
{
	for (size_t i = 0; i < c->n_origins; i++)
		if (c->origins[i]->resource_path == node->resource_path &&
		    lies_below(c->origins[i]->entry->old_path, node->path))
			return true;
	return false;
}

/* Whether one path selects the node with everything below it, and nothing else. */
static bool can_be_named(const struct collector *c, size_t i)
{
	const struct pick_node *node = &c->p->v[i];

	if (!pick_has_below(c->p, i) || node->is_whole)
		return true;
	return !holds_resource(c, node) && !holds_unticked_origin(c, node);
}

static void collect_origins(struct collector *c, size_t from, size_t end)
{
	for (size_t i = from; i < end; i++)
		if (c->p->v[i].entry && c->p->v[i].entry->old_path)
			collect(c, &c->p->v[i], c->p->v[i].entry->old_path);
}

static void collect_ticked(struct collector *c)
{
	for (size_t i = 0; i < c->p->n && !c->failed;) {
		const struct pick_node *node = &c->p->v[i];

		if (node->n_ticked == node->n && can_be_named(c, i)) {
			collect(c, node, node->path);
			collect_origins(c, i, node->end);
			i = node->end;
		} else {
			i = node->n_ticked == 0 ? node->end : i + 1;
		}
	}
}

int pick_selection(const struct pick *p, const struct atoll_info *info, struct atoll_selection *ret)
{
	struct collector c = { .p = p, .info = info };

	*ret = (struct atoll_selection){ 0 };
	if (pick_ticked(p) == pick_total(p))
		return 0;
	find_unticked_origins(&c);
	collect_ticked(&c);
	free(c.origins);
	*ret = (struct atoll_selection){ .paths = c.paths, .n_paths = c.n, .exact = true };
	if (!c.failed)
		return 0;
	pick_selection_release(ret);
	return -ENOMEM;
}

void pick_selection_release(struct atoll_selection *s)
{
	for (size_t i = 0; i < s->n_paths; i++)
		free((char *)s->paths[i]);
	free((void *)s->paths);
	*s = (struct atoll_selection){ 0 };
}
