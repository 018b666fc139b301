/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user chooses what lands of a modified text file, hunk by hunk, as with git add -p: a line for
 * each answer, so that it works on any terminal.
 */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/ask.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/patch-hunks.h"
#include "cli/pick.h"
#include "cli/text.h"

/* ---- reading ---- */

struct texts {
	const struct pick_node *node;
	struct text old_text, new_text;
	const char *refusal; /* NULL: the texts are read */
};

static void texts_release(struct texts *t)
{
	text_release(&t->old_text);
	text_release(&t->new_text);
}

static const char *refusal_of_change(const struct atoll_change *c)
{
	if (S_ISLNK(c->old_mode) || S_ISLNK(c->new_mode))
		return "it is a symbolic link";
	if (!S_ISREG(c->old_mode) || !S_ISREG(c->new_mode))
		return "it is no regular file";
	if ((c->old_mode | c->new_mode) & (S_ISUID | S_ISGID))
		return "it has set-user-ID or set-group-ID";
	return NULL;
}

static const char *refusal_of_texts(const struct texts *t)
{
	if (t->old_text.is_binary || t->new_text.is_binary)
		return "the file is binary";
	if (t->old_text.is_large || t->new_text.is_large)
		return "the file is larger than 256 MiB";
	return NULL;
}

/* A commit would refuse hunks of a file with several names, so the user is told before choosing. */
static const char *read_side(int fd, struct text *ret)
{
	struct stat st;

	text_release(ret);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_nlink > 1) {
		close(fd);
		return "it has several names (hard links)";
	}
	return text_read(fd, ret) < 0 ? "the file cannot be read" : NULL;
}

static const char *read_both(struct texts *t, const struct atoll_change *c)
{
	const char *refusal = refusal_of_change(c);

	if (!refusal)
		refusal = read_side(atoll_change_open_old(c), &t->old_text);
	if (!refusal)
		refusal = read_side(atoll_change_open_new(c), &t->new_text);
	return refusal ? refusal : refusal_of_texts(t);
}

static int read_change(const struct atoll_change *c, void *arg)
{
	struct texts *t = arg;

	if (!c->part && c->kind == ATOLL_MODIFIED && strcmp(c->path, *t->node->path ? t->node->path : ".") == 0 &&
	    strcmp(c->resource_path, t->node->resource_path) == 0)
		t->refusal = read_both(t, c);
	return 0;
}

static int read_texts(struct cli *cli, const struct atoll_info *info, const struct pick_node *node, struct texts *ret,
		      struct atoll_error *err)
{
	AUTO_FREE char *path = pick_absolute(node);
	const char *paths[] = { path };
	const struct atoll_selection selection = { .paths = paths, .n_paths = 1, .exact = true };
	struct sigaction old;
	int r;

	*ret = (struct texts){ .node = node, .refusal = "the file was changed meanwhile" };
	if (!path)
		return error_oom(err, "choose");
	interrupt_guard_begin(info->name, &old);
	r = atoll_changes(cli->a, info->name, &selection, read_change, ret, err);
	interrupt_guard_end(&old);
	return r;
}

/* ---- what the user has seen ---- */

static uint64_t add_to_digest(uint64_t digest, const struct text *text)
{
	for (size_t i = 0; i < text->size; i++)
		digest = (digest ^ (unsigned char)text->data[i]) * 0x100000001b3U;
	return (digest ^ text->size) * 0x100000001b3U;
}

static uint64_t digest_of(const struct texts *t)
{
	return add_to_digest(add_to_digest(0xcbf29ce484222325U, &t->old_text), &t->new_text);
}

bool pick_hunks_are_current(struct cli *cli, const struct atoll_info *info, const struct pick *p)
{
	for (size_t i = 0; i < p->n; i++) {
		CLEANUP(texts_release) struct texts texts = { 0 };
		struct atoll_error ignored;

		if (!p->v[i].content)
			continue;
		if (read_texts(cli, info, &p->v[i], &texts, &ignored) < 0 || texts.refusal ||
		    digest_of(&texts) != p->v[i].content->digest)
			return false;
	}
	return true;
}

/* ---- asking ---- */

struct dialogue {
	const struct atoll_info *info;
	const struct patch *patch;
	struct patch_hunks hunks;
	size_t at; /* the hunk that is asked about; those before it are decided */
	bool is_stopped;
};

static void show_hunk(const struct dialogue *d)
{
	bool color = output_wants_color(stderr, NULL);
	struct patch_style style = {
		.removed = output_color(color, COLOR_RED),
		.added = output_color(color, COLOR_GREEN),
		.hunk = output_color(color, COLOR_CYAN),
		.reset = output_color(color, COLOR_RESET),
		.escape = true,
	};
	struct sigaction old;

	interrupt_guard_begin(d->info->name, &old);
	patch_hunks_print(d->patch, &d->hunks.v[d->at], stderr, &style);
	fflush(stderr);
	interrupt_guard_end(&old);
}

static void decide_rest(struct dialogue *d, bool chosen)
{
	for (; d->at < d->hunks.n; d->at++)
		d->hunks.v[d->at].chosen = chosen;
}

static void say_help(void)
{
	fputs("y  land this hunk\n"
	      "n  leave this hunk in the sandbox\n"
	      "a  land this hunk and all later ones of the file\n"
	      "d  leave this hunk and all later ones of the file in the sandbox\n"
	      "s  split this hunk into smaller ones\n"
	      "k  go back to the hunk before\n"
	      "q  leave this hunk and all later ones, also of other files, in the sandbox\n"
	      "?  this list\n"
	      "Ctrl-C  forget these answers\n",
	      stderr);
}

static void split(struct dialogue *d)
{
	int n = patch_hunks_split(d->patch, &d->hunks, d->at);

	if (n == 1)
		message_error("no unchanged lines lie between the changes of this hunk, so it cannot be split");
	else if (n > 1)
		fprintf(stderr, "split into %d hunks\n", n);
	else
		message_error("no memory to split this hunk");
}

/* Returns NUL if the line is not one letter. */
static char letter_of(const char *line)
{
	return *line && !line[1 + strspn(line + 1, " \t")] ? *line : '\0';
}

static void handle(struct dialogue *d, char letter)
{
	switch (letter) {
	case 'y':
	case 'n':
		d->hunks.v[d->at++].chosen = letter == 'y';
		break;
	case 'a':
		decide_rest(d, true);
		break;
	case 'q':
		d->is_stopped = true;
		decide_rest(d, false);
		break;
	case 'd':
		decide_rest(d, false);
		break;
	case 's':
		split(d);
		break;
	case 'k':
		d->at -= d->at > 0;
		break;
	default:
		say_help();
	}
}

static char *ask(const struct dialogue *d)
{
	AUTO_FREE char *question = str_format("land this hunk (%zu of %zu) [y,n,a,d,%s%sq,?]? ", d->at + 1, d->hunks.n,
					      patch_hunks_can_split(d->patch, &d->hunks.v[d->at]) ? "s," : "",
					      d->at > 0 ? "k," : "");

	return ask_line(question ? question : "land this hunk? ");
}

/* Returns false at the end of input. */
static bool talk(struct dialogue *d)
{
	size_t shown = SIZE_MAX, n_shown = 0;

	while (d->at < d->hunks.n) {
		AUTO_FREE char *line = NULL;

		if (d->at != shown || d->hunks.n != n_shown)
			show_hunk(d);
		shown = d->at;
		n_shown = d->hunks.n;
		line = ask(d);
		if (!line)
			return false;
		handle(d, letter_of(line));
	}
	return true;
}

/* ---- choosing ---- */

static struct pick_content *make_content(const struct dialogue *d, const struct texts *texts)
{
	struct pick_content *content = calloc(1, sizeof(*content));
	AUTO_STRBUF text = STRBUF_INIT;

	patch_hunks_apply(d->patch, &d->hunks, &text);
	if (!content)
		return NULL;
	content->n_chosen = patch_hunks_chosen(&d->hunks);
	content->n_hunks = d->hunks.n;
	content->digest = digest_of(texts);
	content->size = text.size;
	content->data = strbuf_take(&text);
	return content->data ? content : pick_content_free(content);
}

static int take_choice(struct pick *p, size_t i, const struct dialogue *d, const struct texts *texts)
{
	size_t n = patch_hunks_chosen(&d->hunks);
	struct pick_content *content;

	if (n == 0 || n == d->hunks.n) {
		pick_set(p, i, n > 0);
		return 0;
	}
	content = make_content(d, texts);
	if (!content)
		return -ENOMEM;
	pick_set_content(p, i, content);
	return 0;
}

static enum pick_hunks_end refuse(const struct pick *p, size_t i, const char *why)
{
	AUTO_STRBUF path = STRBUF_INIT;

	pick_add_path(&path, p, i, PATH_SLASH);
	message_error("the hunks of %s cannot be chosen: %s", strbuf_str(&path), why);
	return PICK_HUNKS_FAILED;
}

/* "src/price.ts: 5 hunks" */
static void say_hunks(const struct pick *p, size_t i, const char *count)
{
	bool color = output_wants_color(stderr, NULL);
	AUTO_STRBUF path = STRBUF_INIT;

	pick_add_path(&path, p, i, 0);
	fprintf(stderr, "%s%s%s: %s\n", output_color(color, COLOR_BOLD), strbuf_str(&path),
		output_color(color, COLOR_RESET), count);
}

static enum pick_hunks_end choose(struct cli *cli, struct pick *p, size_t i, struct dialogue *d,
				  const struct texts *texts)
{
	char count[64];

	if (d->hunks.n == 0)
		return refuse(p, i, "its text is the same as before");
	snprintf(count, sizeof(count), "%zu hunk%s", d->hunks.n, d->hunks.n == 1 ? "" : "s");
	say_hunks(p, i, count);
	if (!talk(d))
		return PICK_HUNKS_CANCELLED;
	if (take_choice(p, i, d, texts) < 0) {
		message_oom(cli);
		return PICK_HUNKS_FAILED;
	}
	snprintf(count, sizeof(count), "%zu of %zu hunk%s chosen", patch_hunks_chosen(&d->hunks), d->hunks.n,
		 d->hunks.n == 1 ? "" : "s");
	say_hunks(p, i, count);
	return d->is_stopped ? PICK_HUNKS_STOPPED : PICK_HUNKS_CHOSEN;
}

const char *pick_hunks_refusal(const struct pick *p, size_t i)
{
	static const char *const by_kind[] = {
		[ATOLL_ADDED] = "the file was added",     [ATOLL_DELETED] = "it was deleted",
		[ATOLL_TYPE] = "it became another type",  [ATOLL_META] = "its text is the same as before",
		[ATOLL_RENAMED] = "the file was renamed", [ATOLL_SKIPPED] = "it stays in the sandbox",
	};
	const struct fold_entry *entry = p->v[i].entry;
	bool is_replaced = entry && (entry->kind == ATOLL_DELETED || entry->kind == ATOLL_TYPE);

	if (p->v[pick_whole_above(p, i)].is_whole && !is_replaced)
		return "what it belongs to lands as a whole";
	if (!entry || (entry->flags & PATH_DIR && !is_replaced))
		return "it is a directory";
	if (entry->flags & PATH_PART)
		return "it is no file";
	return (size_t)entry->kind < ARRAY_SIZE(by_kind) ? by_kind[entry->kind] : NULL;
}

enum pick_hunks_end pick_hunks(struct cli *cli, const struct atoll_info *info, struct pick *p, size_t i)
{
	CLEANUP(texts_release) struct texts texts = { 0 };
	const char *refusal = pick_hunks_refusal(p, i);
	struct dialogue d = { .info = info };
	enum pick_hunks_end end;
	AUTO_PATCH patch = { 0 };
	struct atoll_error err;

	if (refusal)
		return refuse(p, i, refusal);
	if (read_texts(cli, info, &p->v[i], &texts, &err) < 0) {
		message_fail(cli, &err);
		return PICK_HUNKS_FAILED;
	}
	if (texts.refusal)
		return refuse(p, i, texts.refusal);
	d.patch = &patch;
	if (patch_init(&patch, &(struct patch_text){ texts.old_text.data, texts.old_text.size },
		       &(struct patch_text){ texts.new_text.data, texts.new_text.size }) < 0 ||
	    patch_hunks_find(&patch, &d.hunks) < 0) {
		message_oom(cli);
		return PICK_HUNKS_FAILED;
	}
	end = choose(cli, p, i, &d, &texts);
	patch_hunks_release(&d.hunks);
	return end;
}
