/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pick.h"

#include <inttypes.h>
#include <string.h>

struct pick_content *pick_content_free(struct pick_content *content)
{
	if (content)
		free(content->data);
	free(content);
	return NULL;
}

void pick_release(struct pick *p)
{
	for (size_t i = 0; i < p->n; i++)
		pick_content_free(p->v[i].content);
	for (size_t i = 0; i < p->n_dirs; i++)
		free(p->dirs[i]);
	free(p->dirs);
	free(p->v);
	fold_free(p->changes);
	*p = (struct pick){ 0 };
}

/* ---- counting ---- */

static void add_counts(struct pick_node *sum, const struct pick_node *node)
{
	sum->counts.added += node->counts.added;
	sum->counts.modified += node->counts.modified;
	sum->counts.deleted += node->counts.deleted;
	sum->counts.meta += node->counts.meta;
	sum->n += node->n;
	sum->n_ticked += node->n_ticked;
	sum->n_ignored += node->n_ignored;
	sum->n_partly += node->n_partly;
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
	node->n_partly += node->content != NULL;
}

void pick_recount(struct pick *p)
{
	for (size_t i = 0; i < p->n; i++) {
		p->v[i].counts = (struct changes_counts){ 0 };
		p->v[i].n = p->v[i].n_ticked = p->v[i].n_ignored = p->v[i].n_partly = 0;
	}
	for (size_t i = p->n; i-- > 0;) {
		count_own(p, i);
		if (p->v[i].parent != PICK_NONE)
			add_counts(&p->v[p->v[i].parent], &p->v[i]);
	}
}

/* ---- ticking ---- */

bool pick_has_below(const struct pick *p, size_t i)
{
	return p->v[i].end > i + 1;
}

size_t pick_whole_above(const struct pick *p, size_t i)
{
	size_t found = i;

	for (size_t at = i; at != PICK_NONE; at = p->v[at].parent)
		if (p->v[at].is_whole)
			found = at;
	return found;
}

static void set_node(struct pick_node *node, bool ticked)
{
	node->ticked = ticked;
	node->content = pick_content_free(node->content);
}

void pick_set(struct pick *p, size_t i, bool ticked)
{
	i = pick_whole_above(p, i);
	for (size_t k = i; k < p->v[i].end; k++)
		set_node(&p->v[k], ticked);
	pick_recount(p);
}

void pick_set_all(struct pick *p, bool ticked)
{
	for (size_t i = 0; i < p->n; i++)
		set_node(&p->v[i], ticked);
	pick_recount(p);
}

void pick_set_marks(struct pick *p, const bool *ticked)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].ticked != ticked[i])
			set_node(&p->v[i], ticked[i]);
	pick_recount(p);
}

void pick_set_content(struct pick *p, size_t i, struct pick_content *content)
{
	set_node(&p->v[i], true);
	p->v[i].content = content;
	pick_recount(p);
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

uint64_t pick_partly(const struct pick *p)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < p->n; i = p->v[i].end)
		sum += p->v[i].n_partly;
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

bool pick_take_ticks(struct pick *p, struct pick *before)
{
	if (!is_same_list(p, before))
		return false;
	for (size_t i = 0; i < p->n; i++) {
		p->v[i].ticked = before->v[i].ticked;
		p->v[i].is_open = before->v[i].is_open;
		p->v[i].content = TAKE_PTR(before->v[i].content);
	}
	pick_recount(p);
	return true;
}

/* ---- names ---- */

bool pick_lies_below(const char *path, const char *dir)
{
	size_t size = strlen(dir);

	return size == 0 || (strncmp(path, dir, size) == 0 && path[size] == '/');
}

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
	if (node->content)
		strbuf_addf(&text, "%zu of %zu hunks", node->content->n_chosen, node->content->n_hunks);
	if (!pick_has_below(p, i) && node->entry && node->entry->details)
		strbuf_addf(&text, "%s%s", text.size ? ", " : "", node->entry->details);
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

size_t pick_find_change(const struct pick *p, const char *resource_path, const char *path)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].entry && strcmp(p->v[i].path, path) == 0 &&
		    strcmp(p->v[i].resource_path, resource_path) == 0)
			return i;
	return PICK_NONE;
}
