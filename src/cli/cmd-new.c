/* SPDX-License-Identifier: Apache-2.0 */
/* atoll new: make a sandbox. */
#include <string.h>

#include "base/json.h"
#include "cli/cost.h"
#include "cli/info.h"
#include "cli/interrupt.h"
#include "cli/message.h"
#include "cli/resolve.h"
#include "cli/settings.h"

/* What stands before the colon of a resource, and the option that means the same. */
static const struct kind {
	const char *prefix, *option;
	enum atoll_kind kind;
} kinds[] = { { "dir:", "dir", ATOLL_KIND_DIR },
	      { "file:", "file", ATOLL_KIND_FILE },
	      { "git:", "git", ATOLL_KIND_GIT },
	      { "sqlite:", NULL, ATOLL_KIND_SQLITE },
	      { "postgresql:", NULL, ATOLL_KIND_POSTGRES },
	      { "postgres:", NULL, ATOLL_KIND_POSTGRES } };

static const struct kind *find_option(const char *option)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].option && strcmp(kinds[i].option, option) == 0)
			return &kinds[i];
	return NULL;
}

static const struct kind *find_prefix(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (strncmp(text, kinds[i].prefix, strlen(kinds[i].prefix)) == 0)
			return &kinds[i];
	return NULL;
}

static bool takes_strategy(const struct kind *kind)
{
	return kind->kind == ATOLL_KIND_DIR || kind->kind == ATOLL_KIND_FILE;
}

static bool is_database(const struct kind *kind)
{
	return kind->kind == ATOLL_KIND_SQLITE || kind->kind == ATOLL_KIND_POSTGRES;
}

/* One resource: 1 and *ret, 0 if the option is none, or a usage error that was told. */
static int read_resource(struct cli *cli, const struct options *o, size_t i, struct atoll_resource_spec *ret)
{
	const char *option = o->uses[i].spec->name, *value = o->uses[i].value;
	const struct kind *kind = find_option(option);
	bool db = strcmp(option, "db") == 0;

	if (!kind && !db && strcmp(option, "resource") != 0)
		return 0;
	if (!kind) {
		kind = find_prefix(value);
		if (!kind || (db && !is_database(kind))) {
			message_usage(
				cli->command,
				db ? "\"%s\" is no database: give postgresql://… or sqlite:PATH"
				   : "\"%s\" is no resource: give dir:PATH, file:PATH, git:PATH, sqlite:PATH or postgresql://…",
				value);
			return -1;
		}
		/* A connection string is one as a whole. */
		if (kind->kind != ATOLL_KIND_POSTGRES)
			value += strlen(kind->prefix);
	}
	*ret = (struct atoll_resource_spec){ .kind = kind->kind,
					     .path = value,
					     .strategy = takes_strategy(kind) ? options_value(o, "strategy") : NULL,
					     .dirty = options_has(o, "dirty") };
	return 1;
}

/* The resources in the order given: how many, or -1. */
static ssize_t collect(struct cli *cli, const struct options *o, struct atoll_resource_spec *specs)
{
	ssize_t n = 0;

	for (size_t i = 0; i < o->n_uses; i++) {
		int r = read_resource(cli, o, i, &specs[n]);

		if (r < 0)
			return -1;
		n += r;
	}
	return n;
}

/* What is uncommitted in a repository stays out unless it is asked for. */
static void tell_left_out(const struct cli *cli, const struct atoll_info *info)
{
	for (size_t i = 0; i < info->n_resources && !cli->quiet; i++) {
		const struct atoll_resource_info *r = &info->resources[i];
		AUTO_STRBUF path = STRBUF_INIT;

		if (r->kind != ATOLL_KIND_GIT || !r->detail)
			continue;
		strbuf_add_quoted(&path, r->path);
		message_error("\"%s\" begins with %s; --dirty takes along what is not committed", strbuf_str(&path),
			      r->detail);
	}
}

int cmd_new(struct cli *cli, const struct options *o)
{
	CLEANUP(settings_resources_release) struct settings_resources resources = { 0 };
	AUTO_FREE struct atoll_resource_spec *given = calloc(o->n_uses + 1, sizeof(*given));
	AUTO_SETTINGS *settings = NULL;
	AUTO_SETTINGS *config = NULL;
	AUTO_INFO *info = NULL;
	struct atoll_new_options options = { .cost = cost_tell, .cost_arg = cli };
	struct atoll_error err;
	ssize_t n_given;

	if (!given)
		return message_oom(cli);
	if (settings_of_options(o, &settings, &err) < 0)
		return message_usage(cli->command, "%s", err.message);
	n_given = collect(cli, o, given);
	if (n_given < 0)
		return atoll_code_exit_status(ATOLL_INVALID);
	if (settings_of_config(o, &config, &err) < 0 ||
	    settings_kept_home(config, settings, given, (size_t)n_given, &resources, &err) < 0)
		return message_fail(cli, &err);
	if (resources.n == 0)
		return message_usage(cli->command, "nothing to hold: give at least one --dir, --file, --git or --db");
	options.resources = resources.v;
	options.n_resources = resources.n;
	options.name = o->n_operands > 0 ? o->operands[0] : NULL;
	options.settings = settings;
	options.durable_workspace = options_has(o, "durable-workspace");
	if (interrupt_new(cli, &options, &info, &err) < 0)
		return interrupt_status(message_fail(cli, &err));
	tell_left_out(cli, info);
	if (options_has(o, "json")) {
		struct json j;

		message_json_begin(&j);
		info_json(&j, info);
		json_finish(&j);
	} else {
		printf("%s\n", info->name);
	}
	return 0;
}
