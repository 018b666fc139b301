/* SPDX-License-Identifier: Apache-2.0 */
/* The list in which the user ticks changes, one screen at a time. Directories are closed at first,
 * so that a list of any length begins short. */
#include <inttypes.h>
#include <string.h>

#include "cli/columns.h"
#include "cli/keys.h"
#include "cli/output.h"
#include "cli/pick.h"
#include "cli/quote.h"
#include "cli/terminal.h"

struct list {
	struct pick *p;
	const char *name;
	size_t *rows, n;    /* the nodes that no closed directory hides */
	size_t cursor, top; /* indices of rows: the current one, and the first on the screen */
	size_t height, width;
	const char *message;   /* shown once, in place of the keys */
	struct strbuf refusal; /* text of a message */
	bool color;
};

bool pick_list_is_possible(void)
{
	return keys_is_possible();
}

/* ---- which nodes are rows ---- */

static void find_rows(struct list *l)
{
	l->n = 0;
	for (size_t i = 0; i < l->p->n; i = l->p->v[i].is_open ? i + 1 : l->p->v[i].end)
		l->rows[l->n++] = i;
}

/* Places the cursor on the node, or on the directory that hides it. */
static void go_to(struct list *l, size_t node)
{
	l->cursor = 0;
	for (size_t i = 0; i < l->n && l->rows[i] <= node; i++)
		l->cursor = i;
}

static void open_node(struct list *l, size_t i, bool open)
{
	/* A directory that holds only one directory opens together with it. */
	l->p->v[i].is_open = open && pick_has_below(l->p, i);
	if (open && pick_has_below(l->p, i) && l->p->v[i + 1].end == l->p->v[i].end && pick_has_below(l->p, i + 1))
		open_node(l, i + 1, true);
	find_rows(l);
	go_to(l, i);
}

/* ---- drawing ---- */

static void add_box(struct strbuf *s, const struct pick_node *node)
{
	if (node->n_partly > 0)
		strbuf_adds(s, "[~] ");
	else
		strbuf_adds(s, node->n_ticked == node->n ? "[x] " : node->n_ticked == 0 ? "[ ] " : "[~] ");
}

static const char *base_of(const struct list *l, size_t i)
{
	const struct pick_node *node = &l->p->v[i];
	size_t parent = node->parent == PICK_NONE ? 0 : strlen(l->p->v[node->parent].path);

	return node->path + parent + (parent > 0 && node->path[parent] == '/');
}

static void add_name(struct strbuf *s, const struct list *l, size_t i)
{
	const struct pick_node *node = &l->p->v[i];
	bool is_dir = pick_has_below(l->p, i) || (node->entry && (node->entry->flags & PATH_DIR));

	if (!*node->path)
		quote_name(s, "", node->resource_path, "");
	else
		quote_name(s, "", base_of(l, i), is_dir ? "/" : "");
}

static void add_row(struct strbuf *s, const struct list *l, size_t row)
{
	const struct pick_node *node = &l->p->v[l->rows[row]];
	AUTO_STRBUF name = STRBUF_INIT, remark = STRBUF_INIT, fitted = STRBUF_INIT;
	size_t indent = MIN((size_t)2 * node->depth, l->width / 3);
	size_t room = MAX(l->width, indent + 30) - indent - 12, wide;
	enum atoll_change_kind kind;
	char letter = pick_letter(l->p, l->rows[row], &kind);

	add_name(&name, l, l->rows[row]);
	pick_add_remark(&remark, l->p, l->rows[row]);
	wide = MIN(columns_of(strbuf_str(&remark)), room / 2);
	columns_add_shortened(&fitted, strbuf_str(&name), room - wide);
	strbuf_addf(s, "%s%*s", row == l->cursor ? "> " : "  ", (int)indent, "");
	add_box(s, node);
	strbuf_addf(s, "%s%c%s  %s", letter == '*' ? "" : changes_color(l->color, kind), letter,
		    output_color(l->color && letter != '*', COLOR_RESET), strbuf_str(&fitted));
	if (remark.size > 0) {
		strbuf_adds(s, "  ");
		columns_add_shortened(s, strbuf_str(&remark), room - MIN(room, columns_of(strbuf_str(&fitted))));
	}
	strbuf_addc(s, '\n');
}

static void add_line(struct strbuf *s, const struct list *l, const char *text)
{
	columns_add_shortened(s, text, l->width - 1);
	strbuf_addc(s, '\n');
}

static void add_head(struct strbuf *s, const struct list *l)
{
	uint64_t partly = pick_partly(l->p);

	strbuf_addf(s, "%" PRIu64 " of %" PRIu64 " changes ticked", pick_ticked(l->p), pick_total(l->p));
	if (partly > 0)
		strbuf_addf(s, ", %" PRIu64 " of them in part; the rest stays in \"%s\"", partly, l->name);
	else
		strbuf_addf(s, "; the others stay in the sandbox \"%s\"", l->name);
}

static void draw(struct list *l)
{
	AUTO_STRBUF text = STRBUF_INIT, head = STRBUF_INIT;
	size_t height;

	if (!terminal_size(STDERR_FILENO, &l->height, &l->width))
		l->height = 24, l->width = 80;
	l->width = MAX(l->width, (size_t)20);
	height = MAX(l->height, (size_t)3) - 2;
	l->top = MIN(l->top, l->cursor);
	if (l->cursor - l->top >= height)
		l->top = l->cursor - height + 1;
	add_head(&head, l);
	add_line(&text, l, strbuf_str(&head));
	for (size_t i = l->top; i < l->n && i < l->top + height; i++)
		add_row(&text, l, i);
	add_line(&text, l,
		 l->message ? l->message
			    : "space tick, p hunks, → open, a/n all/none, d diff, e edit, enter commit, q back");
	l->message = NULL;
	keys_draw(&text);
}

/* ---- keys ---- */

static void move(struct list *l, long by)
{
	long at = (long)l->cursor + by;

	l->cursor = at < 0 ? 0 : MIN((size_t)at, l->n - 1);
}

/* Closes the current directory if it is open; otherwise moves the cursor to the directory above. */
static void close_or_leave(struct list *l)
{
	size_t i = l->rows[l->cursor];

	if (l->p->v[i].is_open)
		open_node(l, i, false);
	else if (l->p->v[i].parent != PICK_NONE)
		go_to(l, l->p->v[i].parent);
}

static void toggle(struct list *l)
{
	size_t i = l->rows[l->cursor];

	pick_set(l->p, i, l->p->v[i].n_ticked < l->p->v[i].n || l->p->v[i].n_partly > 0);
	move(l, 1);
}

static bool handle_motion(struct list *l, int key)
{
	long page = (long)MAX(l->height, (size_t)4) - 3;

	switch (key) {
	case KEY_UP:
	case 'k':
		move(l, -1);
		return true;
	case KEY_DOWN:
	case 'j':
		move(l, 1);
		return true;
	case KEY_PAGE_UP:
		move(l, -page);
		return true;
	case KEY_PAGE_DOWN:
		move(l, page);
		return true;
	case KEY_FIRST:
	case 'g':
		l->cursor = 0;
		return true;
	case KEY_LAST:
	case 'G':
		l->cursor = l->n - 1;
		return true;
	default:
		return false;
	}
}

static bool handle_change(struct list *l, int key)
{
	switch (key) {
	case KEY_RIGHT:
	case 'l':
		open_node(l, l->rows[l->cursor], true);
		return true;
	case KEY_LEFT:
	case 'h':
		close_or_leave(l);
		return true;
	case ' ':
		toggle(l);
		return true;
	case 'a':
		pick_set_all(l->p, true);
		return true;
	case 'n':
		pick_set_all(l->p, false);
		return true;
	default:
		return false;
	}
}

/* Returns NULL if hunks of the current line may be chosen. */
static const char *refusal_of_hunks(struct list *l)
{
	const char *why = pick_hunks_refusal(l->p, l->rows[l->cursor]);

	if (!why)
		return NULL;
	strbuf_truncate(&l->refusal, 0);
	strbuf_addf(&l->refusal, "no hunks can be chosen: %s", why);
	return strbuf_str(&l->refusal);
}

/* Returns true if the key ends the list. */
static bool handle_end(struct list *l, int key, enum pick_answer *ret)
{
	static const struct {
		int key;
		enum pick_answer answer;
	} ends[] = { { '\r', PICK_COMMIT }, { '\n', PICK_COMMIT },     { 'c', PICK_COMMIT },
		     { 'q', PICK_BACK },    { KEY_ESCAPE, PICK_BACK }, { 'e', PICK_EDIT },
		     { 'd', PICK_DIFF },    { 'p', PICK_HUNKS },       { KEY_END, PICK_END } };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		if (ends[i].key != key)
			continue;
		*ret = ends[i].answer;
		if (*ret == PICK_COMMIT && pick_ticked(l->p) == 0)
			l->message = "nothing is ticked: space ticks a line, q goes back to the question";
		else if (*ret == PICK_HUNKS)
			l->message = refusal_of_hunks(l);
		return !l->message;
	}
	return false;
}

static enum pick_answer loop(struct list *l, struct keys *k)
{
	enum pick_answer answer;

	for (;;) {
		int key;

		draw(l);
		key = keys_read(k);
		if (handle_end(l, key, &answer))
			return answer;
		if (!handle_motion(l, key) && !handle_change(l, key) && key != KEY_RESIZED && !l->message)
			l->message = "this key means nothing here; q goes back to the question";
	}
}

/* With several resources the topmost level is short, so it is open at first. */
static void open_first(struct pick *p)
{
	for (size_t i = 0; i < p->n; i = p->v[i].end)
		if (!*p->v[i].path && !p->v[i].is_whole)
			p->v[i].is_open = true;
}

enum pick_answer pick_list(struct pick *p, const char *name, size_t *cursor)
{
	struct list l = { .p = p, .name = name, .color = output_wants_color(stderr, NULL) };
	AUTO_FREE size_t *rows = reallocarray(NULL, p->n + 1, sizeof(*rows));
	enum pick_answer answer = PICK_BACK;
	struct keys keys;

	if (p->n == 0 || !rows || keys_begin(&keys) < 0)
		return PICK_BACK;
	l.rows = rows;
	if (*cursor == PICK_NONE) {
		open_first(p);
		*cursor = 0;
	}
	find_rows(&l);
	go_to(&l, *cursor);
	answer = loop(&l, &keys);
	keys_end(&keys);
	strbuf_release(&l.refusal);
	*cursor = l.rows[l.cursor];
	return answer;
}
