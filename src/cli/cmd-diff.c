/* SPDX-License-Identifier: Apache-2.0 */
/* atoll diff: what was changed inside a sandbox. */
#include <inttypes.h>
#include <string.h>

#include "cli/changes.h"
#include "cli/locks.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/resolve.h"
#include "cli/terminal.h"

/* -1 if two of them are asked for. */
static int find_format(const struct options *o)
{
	static const struct {
		const char *option;
		enum changes_format format;
	} formats[] = {
		{ "name-status", CHANGES_NAME_STATUS },
		{ "stat", CHANGES_STAT },
		{ "patch", CHANGES_PATCH },
		{ "json", CHANGES_JSON },
	};
	int found = CHANGES_SUMMARY;

	for (size_t i = 0; i < ARRAY_SIZE(formats); i++) {
		if (!options_has(o, formats[i].option))
			continue;
		if (found != CHANGES_SUMMARY)
			return -1;
		found = (int)formats[i].format;
	}
	if (options_has(o, "null")) {
		if (found != CHANGES_SUMMARY && found != CHANGES_NAME_STATUS)
			return -1;
		found = CHANGES_NUL;
	}
	return found;
}

static bool is_for_people(enum changes_format format)
{
	return format == CHANGES_SUMMARY || format == CHANGES_STAT || format == CHANGES_PATCH;
}

/* Returns the patterns of --exclude, one for each use of it, as a malloc'ed NULL-terminated
 * array. */
static const char **find_excluded(const struct options *o)
{
	const char **patterns = calloc(o->n_uses + 1, sizeof(*patterns));
	size_t n = 0;

	for (size_t i = 0; patterns && i < o->n_uses; i++)
		if (strcmp(o->uses[i].spec->name, "exclude") == 0)
			patterns[n++] = o->uses[i].value;
	return patterns;
}

/* The screen also holds the command line, two lines of summary, and the next prompt. */
#define OTHER_ROWS 5

static void fit_to_screen(struct changes_style *style, const struct atoll_selection *selection)
{
	size_t rows;

	if (style->format != CHANGES_SUMMARY || !terminal_size(STDOUT_FILENO, &rows, &style->columns))
		return;
	style->rows = rows > OTHER_ROWS ? rows - OTHER_ROWS : 1;
	/* A user who names paths wants to see what they hold. */
	style->fold_git = selection->n_paths == 0;
}

static void print_summary(const char *name, const struct changes_counts *counts)
{
	AUTO_STRBUF words = STRBUF_INIT;

	changes_words(&words, counts);
	if (counts->excluded > 0)
		strbuf_addf(&words, "; %" PRIu64 " more left out by --exclude", counts->excluded);
	printf("%s\n", strbuf_str(&words));
	if (counts->folded)
		printf("folded; one by one: atoll diff %s --all\n", name);
}

static int show(struct cli *cli, const struct resolve_target *target, const struct changes_style *style,
		struct atoll_error *err)
{
	struct changes_counts counts;
	int r = changes_show(cli, target->info, &target->selection, style, &counts, err);

	if (r == 0 && style->format == CHANGES_SUMMARY && !cli->quiet)
		print_summary(target->info->name, &counts);
	return r;
}

int cmd_diff(struct cli *cli, const struct options *o)
{
	AUTO_TARGET target = { 0 };
	AUTO_FREE const char **excluded = find_excluded(o);
	struct changes_style style = { .out = stdout, .exclude = excluded };
	struct atoll_error err;
	int format = find_format(o), r;

	if (!excluded)
		return message_oom(cli);

	if (format < 0)
		return message_usage(cli->command, "--name-status, --stat, --patch and --json exclude each other");
	if (resolve_target(cli, o, &target, &err) < 0)
		return message_fail(cli, &err);
	style.format = (enum changes_format)format;
	style.color = output_wants_color(stdout, options_value(o, "color"));
	style.escape = isatty(STDOUT_FILENO);
	if (!options_has(o, "all"))
		fit_to_screen(&style, &target.selection);
	if (is_for_people(style.format))
		output_pager_start();
	r = resolve_failed(cli, &target, show(cli, &target, &style, &err), &err);
	output_pager_end();
	if (!cli->quiet)
		locks_warn(target.info);
	return r < 0 ? message_fail(cli, &err) : 0;
}
