/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/changes.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

#include "base/glob.h"
#include "base/json.h"
#include "cli/fold.h"
#include "cli/locks.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/quote.h"

void changes_count(struct changes_counts *counts, const struct atoll_change *change)
{
	switch (change->kind) {
	case ATOLL_ADDED:
		counts->added++;
		return;
	case ATOLL_MODIFIED:
	case ATOLL_TYPE:
	case ATOLL_RENAMED:
		counts->modified++;
		return;
	case ATOLL_DELETED:
		counts->deleted++;
		return;
	case ATOLL_META:
		counts->meta++;
		return;
	case ATOLL_SKIPPED:
		counts->skipped++;
		return;
	}
}

uint64_t changes_total(const struct changes_counts *counts)
{
	return counts->added + counts->modified + counts->deleted + counts->meta;
}

void changes_count_words(struct strbuf *s, const struct changes_counts *counts)
{
	const struct {
		uint64_t n;
		const char *word;
	} parts[] = {
		{ counts->added, "added" },        { counts->modified, "modified" }, { counts->deleted, "deleted" },
		{ counts->meta, "metadata only" }, { counts->skipped, "skipped" },
	};
	const char *separator = "";

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (parts[i].n == 0)
			continue;
		strbuf_addf(s, "%s%" PRIu64 " %s", separator, parts[i].n, parts[i].word);
		separator = ", ";
	}
}

void changes_words(struct strbuf *s, const struct changes_counts *counts)
{
	uint64_t total = changes_total(counts);

	if (total == 0 && counts->skipped == 0) {
		strbuf_adds(s, "no changes");
		return;
	}
	strbuf_addf(s, "%" PRIu64 " change%s: ", total, total == 1 ? "" : "s");
	changes_count_words(s, counts);
}

unsigned changes_path_flags(const struct atoll_change *change, bool several)
{
	bool is_dir = S_ISDIR(change->new_mode ? change->new_mode : change->old_mode);

	return (several ? PATH_SEVERAL : 0) | (is_dir ? PATH_DIR : 0) | (change->part ? PATH_PART : 0);
}

void changes_path(struct strbuf *s, const char *prefix, const char *resource_path, const char *path, unsigned flags)
{
	AUTO_STRBUF whole = STRBUF_INIT;
	bool is_root = strcmp(path, ".") == 0;

	if (flags & PATH_SEVERAL) {
		/* Behind a prefix the path goes on without its own slash. */
		strbuf_adds(&whole, *prefix && resource_path[0] == '/' ? resource_path + 1 : resource_path);
		if (!is_root)
			strbuf_addf(&whole, "%s%s", flags & PATH_PART ? ": " : "/", path);
	} else {
		strbuf_adds(&whole, path);
	}
	if (!(flags & PATH_RAW)) {
		quote_name(s, prefix, strbuf_str(&whole), (flags & PATH_DIR) && (flags & PATH_SLASH) ? "/" : "");
		return;
	}
	strbuf_adds(s, prefix);
	strbuf_adds(s, strbuf_str(&whole));
}

static const char *type_name(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return "file";
	case S_IFDIR:
		return "directory";
	case S_IFLNK:
		return "link";
	default:
		return "special file";
	}
}

static void add_detail(struct strbuf *s, const char *text)
{
	if (s->size > 0)
		strbuf_adds(s, ", ");
	strbuf_adds(s, text);
}

/* What is different, beyond what the letter says. */
static void add_differences(struct strbuf *s, const struct atoll_change *c)
{
	char text[96];

	if (c->kind == ATOLL_TYPE) {
		snprintf(text, sizeof(text), "%s → %s", type_name(c->old_mode), type_name(c->new_mode));
		add_detail(s, text);
	}
	if (c->kind == ATOLL_RENAMED && (c->what & (ATOLL_WHAT_CONTENT | ATOLL_WHAT_TARGET)))
		add_detail(s, "content");
	if ((c->what & ATOLL_WHAT_MODE) && c->old_mode && c->new_mode &&
	    (c->old_mode & 07777) != (c->new_mode & 07777)) {
		snprintf(text, sizeof(text), "mode %04o→%04o", c->old_mode & 07777, c->new_mode & 07777);
		add_detail(s, text);
	}
	if (c->what & ATOLL_WHAT_OWNER) {
		snprintf(text, sizeof(text), "owner %u:%u→%u:%u", c->old_uid, c->old_gid, c->new_uid, c->new_gid);
		add_detail(s, text);
	}
	if (c->what & ATOLL_WHAT_XATTR)
		add_detail(s, "xattr");
	if ((c->what & ATOLL_WHAT_TIME) && c->kind == ATOLL_META)
		add_detail(s, "time");
	if (c->what & ATOLL_WHAT_LINKS)
		add_detail(s, "links");
}

void changes_details(struct strbuf *s, const struct atoll_change *c)
{
	add_differences(s, c);
	if (c->note) {
		add_detail(s, "");
		quote_prose(s, c->note);
	}
}

static enum output_color kind_color(enum atoll_change_kind kind)
{
	switch (kind) {
	case ATOLL_ADDED:
		return COLOR_GREEN;
	case ATOLL_DELETED:
		return COLOR_RED;
	case ATOLL_MODIFIED:
	case ATOLL_TYPE:
	case ATOLL_RENAMED:
		return COLOR_YELLOW;
	case ATOLL_META:
	case ATOLL_SKIPPED:
		return COLOR_CYAN;
	}
	return COLOR_RESET;
}

const char *changes_color(bool on, enum atoll_change_kind kind)
{
	return output_color(on, kind_color(kind));
}

/* "M  src/main.c  (mode 0644→0755)" */
static void print_summary_line(struct changes_printer *p, const struct atoll_change *c)
{
	AUTO_STRBUF line = STRBUF_INIT;
	AUTO_STRBUF details = STRBUF_INIT;
	unsigned flags = changes_path_flags(c, p->several) | PATH_SLASH;

	if (c->old_path) {
		changes_path(&line, "", c->resource_path, c->old_path, flags);
		strbuf_adds(&line, " → ");
	}
	changes_path(&line, "", c->resource_path, c->path, flags);
	changes_details(&details, c);
	fprintf(p->style.out, "%s%c%s  %s", changes_color(p->style.color, c->kind), atoll_change_kind_letter(c->kind),
		output_color(p->style.color, COLOR_RESET), strbuf_str(&line));
	if (details.size > 0)
		fprintf(p->style.out, "  (%s)", strbuf_str(&details));
	putc('\n', p->style.out);
}

/* Returns the length of a path's prefix up to and including the name of a git directory; 0 if
 * the path is in none. */
static size_t git_directory_size(const char *path)
{
	for (const char *at = strstr(path, ".git"); at; at = strstr(at + 1, ".git"))
		if ((at == path || at[-1] == '/') && (at[4] == '/' || at[4] == '\0'))
			return (size_t)(at + 4 - path);
	return 0;
}

static void print_git_files(struct changes_printer *p)
{
	if (p->git_files.dir)
		fprintf(p->style.out, "%sM%s  %s/  (git's own: %" PRIu64 " entr%s)\n",
			output_color(p->style.color, COLOR_YELLOW), output_color(p->style.color, COLOR_RESET),
			p->git_files.dir, p->git_files.files, p->git_files.files == 1 ? "y" : "ies");
	p->git_files.any |= p->git_files.dir != NULL;
	free(p->git_files.dir);
	p->git_files.dir = NULL;
}

/* Returns whether the change is counted in the line of its git directory. That line is printed
 * after the last change in the directory. */
static bool fold_git_files(struct changes_printer *p, const struct atoll_change *c)
{
	AUTO_STRBUF dir = STRBUF_INIT;
	size_t size = p->style.fold_git && !c->part && !c->old_path ? git_directory_size(c->path) : 0;
	AUTO_FREE char *path = size ? strndup(c->path, size) : NULL;

	if (path)
		changes_path(&dir, "", c->resource_path, path, p->several ? PATH_SEVERAL : 0);
	if (p->git_files.dir && strcmp(p->git_files.dir, strbuf_str(&dir)) != 0)
		print_git_files(p);
	if (!dir.size || dir.failed)
		return false;
	if (!p->git_files.dir)
		p->git_files.files = 0;
	if (!p->git_files.dir)
		p->git_files.dir = strbuf_take(&dir);
	p->git_files.files++;
	return p->git_files.dir != NULL;
}

/* Fields end in a tab and a newline, or each in NUL; a rename has its old path first, as with git. */
static void print_name_status(struct changes_printer *p, const struct atoll_change *c)
{
	AUTO_STRBUF line = STRBUF_INIT;
	bool raw = p->style.format == CHANGES_NUL;
	unsigned flags = changes_path_flags(c, p->several) | (raw ? PATH_RAW : 0);

	strbuf_addc(&line, atoll_change_kind_letter(c->kind));
	strbuf_addc(&line, raw ? '\0' : '\t');
	if (c->old_path) {
		changes_path(&line, "", c->resource_path, c->old_path, flags);
		strbuf_addc(&line, raw ? '\0' : '\t');
	}
	changes_path(&line, "", c->resource_path, c->path, flags);
	strbuf_addc(&line, raw ? '\0' : '\n');
	fwrite(strbuf_str(&line), 1, line.size, p->style.out);
}

/* Called late: if a listing fails before its first change, standard output gets only the error. */
static void begin_json(struct changes_printer *p)
{
	if (p->begun)
		return;
	p->begun = true;
	message_json_begin(p->state);
	json_array(p->state, NULL);
}

/* If the listing failed, the last element of the array holds the error: the array is incomplete. */
static void end_json(struct changes_printer *p, const struct atoll_info *info, int r, const struct atoll_error *err)
{
	struct json *j = p->state;

	if (r < 0 && !p->begun)
		return;
	begin_json(p);
	if (r < 0) {
		json_object(j, NULL);
		message_json_error(j, err, atoll_code_exit_status(err->code));
		json_object_end(j);
	} else {
		locks_json_elements(j, info);
	}
	json_array_end(j);
	json_finish(j);
}

/* Patterns work like lines of a .gitignore at the top of the resource; a pattern that begins
 * with a slash may also be an absolute path. */
static bool is_excluded(const char *const *patterns, const struct atoll_change *c)
{
	for (; patterns && *patterns && !c->part; patterns++) {
		size_t size = strcspn(*patterns, "/");
		bool at_any_depth = (*patterns)[size] == '\0' || (size > 0 && (*patterns)[size + 1] == '\0');
		AUTO_FREE char *pattern = str_format("%s%s", at_any_depth ? "**/" : "", *patterns);
		AUTO_FREE char *path = **patterns == '/' ? str_format("%s/%s", c->resource_path, c->path) : NULL;

		if (pattern && (glob_covers(pattern, c->path) || (path && glob_covers(pattern, path))))
			return true;
	}
	return false;
}

static int print_change(const struct atoll_change *c, void *arg)
{
	struct changes_printer *p = arg;

	if (is_excluded(p->style.exclude, c)) {
		p->counts.excluded++;
		return 0;
	}
	changes_count(&p->counts, c);
	if (p->style.see)
		p->style.see(c, p->style.see_arg);
	switch (p->style.format) {
	case CHANGES_SUMMARY:
		if (fold_git_files(p, c))
			break;
		if (p->state)
			p->failure = fold_add(p->state, c, p->several);
		else
			print_summary_line(p, c);
		break;
	case CHANGES_NAME_STATUS:
	case CHANGES_NUL:
		print_name_status(p, c);
		break;
	case CHANGES_STAT:
		p->failure = changes_stat_add(p->state, c, p->several);
		break;
	case CHANGES_PATCH:
		p->failure = changes_patch_print(p, c);
		break;
	case CHANGES_JSON:
		begin_json(p);
		p->failure = changes_json_print(p->state, c);
		break;
	}
	return p->failure < 0 || ferror(p->style.out);
}

static int out_of_memory(struct atoll_error *err)
{
	if (err)
		*err = (struct atoll_error){ .code = ATOLL_FAILED,
					     .sys_errno = ENOMEM,
					     .operation = "diff",
					     .message = "cannot show the changes: out of memory" };
	return -(int)ATOLL_FAILED;
}

static int list(struct cli *cli, const struct atoll_info *info, const struct atoll_selection *selection,
		struct changes_printer *p, struct atoll_error *err)
{
	int r = atoll_changes(cli->a, info->name, selection, print_change, p, err);

	/* A listing that was stopped from here is no failure of the library's, whatever it returned. */
	if (p->failure < 0)
		return out_of_memory(err);
	return ferror(p->style.out) ? 0 : r;
}

int changes_show(struct cli *cli, const struct atoll_info *info, const struct atoll_selection *selection,
		 const struct changes_style *style, struct changes_counts *ret_counts, struct atoll_error *err)
{
	struct changes_printer p = { .style = *style, .several = info->n_resources > 1 };
	struct changes_stat *table = NULL;
	struct fold *fold = NULL;
	struct json j;
	int r;

	if (style->format == CHANGES_SUMMARY && style->rows > 0)
		p.state = fold = fold_new();
	if (style->format == CHANGES_STAT)
		p.state = table = changes_stat_new();
	if (style->format == CHANGES_JSON)
		p.state = &j;
	r = list(cli, info, selection, &p, err);
	print_git_files(&p);
	if (style->format == CHANGES_JSON)
		end_json(&p, info, r, err);
	if (r == 0 && table)
		changes_stat_print(table, style->out, style->color);
	if (r == 0 && fold && fold_print(fold, style, style->rows, style->columns, &p.counts.folded) < 0)
		r = out_of_memory(err);
	p.counts.folded |= style->rows > 0 && p.git_files.any;
	changes_stat_free(table);
	fold_free(fold);
	if (r == 0 && ret_counts)
		*ret_counts = p.counts;
	return r;
}
