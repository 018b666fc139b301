/* SPDX-License-Identifier: Apache-2.0 */
/* atoll diff: what was changed inside a sandbox. */
#include "cli/changes.h"
#include "cli/locks.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/resolve.h"

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

static int show(struct cli *cli, const struct resolve_target *target, const struct changes_style *style,
		struct atoll_error *err)
{
	AUTO_STRBUF words = STRBUF_INIT;
	struct changes_counts counts;
	int r = changes_show(cli, target->info, &target->selection, style, &counts, err);

	if (r == 0 && style->format == CHANGES_SUMMARY && !cli->quiet) {
		changes_words(&words, &counts);
		printf("%s\n", strbuf_str(&words));
	}
	return r;
}

int cmd_diff(struct cli *cli, const struct options *o)
{
	AUTO_TARGET target = { 0 };
	struct changes_style style = { .out = stdout };
	struct atoll_error err;
	int format = find_format(o), r;

	if (format < 0)
		return message_usage(cli->command, "--name-status, --stat, --patch and --json exclude each other");
	if (resolve_target(cli, o, &target, &err) < 0)
		return message_fail(cli, &err);
	style.format = (enum changes_format)format;
	style.color = output_wants_color(stdout, options_value(o, "color"));
	style.escape = isatty(STDOUT_FILENO);
	if (is_for_people(style.format))
		output_pager_start();
	r = resolve_failed(cli, &target, show(cli, &target, &style, &err), &err);
	output_pager_end();
	if (!cli->quiet)
		locks_warn(target.info);
	return r < 0 ? message_fail(cli, &err) : 0;
}
