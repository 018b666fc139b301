/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/resources.h"

#include <string.h>

#include "cli/message.h"

/* The prefix of a resource, and the option of the same meaning. */
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

/* Reads one resource: returns 1 and *ret, 0 if the option names none, or -1 after printing a
 * usage error. */
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
		/* A connection string keeps its prefix, which is part of it. */
		if (kind->kind != ATOLL_KIND_POSTGRES)
			value += strlen(kind->prefix);
	}
	*ret = (struct atoll_resource_spec){ .kind = kind->kind,
					     .path = value,
					     .strategy = takes_strategy(kind) ? options_value(o, "strategy") : NULL,
					     .dirty = options_has(o, "dirty"),
					     .allow_system = options_has(o, "allow-system") };
	return 1;
}

int resources_of_options(struct cli *cli, const struct options *o, struct atoll_resource_spec **ret, size_t *ret_n)
{
	AUTO_FREE struct atoll_resource_spec *specs = calloc(o->n_uses + 1, sizeof(*specs));
	size_t n = 0;

	if (!specs)
		return message_oom(cli);
	for (size_t i = 0; i < o->n_uses; i++) {
		int r = read_resource(cli, o, i, &specs[n]);

		if (r < 0)
			return atoll_code_exit_status(ATOLL_INVALID);
		n += (size_t)r;
	}
	*ret = TAKE_PTR(specs);
	*ret_n = n;
	return 0;
}
