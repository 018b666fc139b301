/* SPDX-License-Identifier: Apache-2.0 */
/* atoll list: all sandboxes, oldest first. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/info.h"
#include "cli/locks.h"
#include "cli/message.h"
#include "cli/overview.h"
#include "cli/quote.h"
#include "cli/settings.h"

/* Stop counting changes after this time, unless the user wants all counts. */
#define PATIENCE_NS (NSEC_PER_SEC / 2)

/* Reading the changes of a database uses its transaction: count them only on request. */
static bool holds_transaction(const struct atoll_info *info)
{
	for (size_t i = 0; i < info->n_resources; i++)
		if (info->resources[i].kind == ATOLL_KIND_POSTGRES)
			return true;
	return false;
}

static void count_changes(struct cli *cli, struct atoll_info **list, struct overview *overviews, size_t n, bool all)
{
	int64_t end = clock_monotonic_ns() + PATIENCE_NS;

	for (size_t i = n; i-- > 0;)
		if (all || (!holds_transaction(list[i]) && clock_monotonic_ns() < end))
			overview_count(&overviews[i], cli, list[i]);
}

static void print_json(struct atoll_info **list, const struct overview *overviews, size_t n)
{
	struct json j;

	message_json_begin(&j);
	json_array(&j, NULL);
	for (size_t i = 0; i < n; i++) {
		json_object(&j, NULL);
		info_json_members(&j, list[i]);
		overview_json(&j, &overviews[i]);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_finish(&j);
}

static void print_row(const struct atoll_info *info, const struct overview *o, int name_width, int state_width)
{
	AUTO_STRBUF state = STRBUF_INIT;
	AUTO_STRBUF resources = STRBUF_INIT;
	AUTO_STRBUF changes = STRBUF_INIT;
	AUTO_STRBUF size = STRBUF_INIT;
	AUTO_STRBUF age = STRBUF_INIT;

	info_state(&state, info);
	for (size_t i = 0; i < info->n_resources; i++) {
		if (i > 0)
			strbuf_adds(&resources, ", ");
		quote_name(&resources, "", info->resources[i].path, "");
		strbuf_addf(&resources, " (%s)", info->resources[i].strategy);
	}
	overview_age(&age, o->age_s, false);
	if (o->is_counted) {
		strbuf_addf(&changes, "%" PRIu64, changes_total(&o->changes));
		overview_size(&size, o->bytes);
	} else {
		strbuf_addc(&changes, '?');
		strbuf_addc(&size, '?');
	}
	printf("%-*s  %-*s  %7" PRId64 "  %7s  %5s  %4s  %s\n", name_width, info->name, state_width, strbuf_str(&state),
	       info->commits, strbuf_str(&changes), strbuf_str(&size), strbuf_str(&age), strbuf_str(&resources));
}

static void print_table(struct atoll_info **list, const struct overview *overviews, size_t n)
{
	int name_width = 4, state_width = 5;

	for (size_t i = 0; i < n; i++) {
		AUTO_STRBUF state = STRBUF_INIT;

		info_state(&state, list[i]);
		name_width = MAX(name_width, (int)strlen(list[i]->name));
		state_width = MAX(state_width, (int)state.size);
	}
	if (n > 0)
		printf("%-*s  %-*s  %7s  %7s  %5s  %4s  %s\n", name_width, "NAME", state_width, "STATE", "COMMITS",
		       "CHANGES", "SIZE", "AGE", "RESOURCES");
	else if (isatty(STDOUT_FILENO))
		puts("no sandboxes");
	for (size_t i = 0; i < n; i++)
		print_row(list[i], &overviews[i], name_width, state_width);
}

static void print_list(struct cli *cli, const struct options *o, struct atoll_info **list, struct overview *overviews,
		       size_t n)
{
	bool json = options_has(o, "json"), all = options_has(o, "long");

	for (size_t i = 0; i < n; i++)
		overview_init(&overviews[i], list[i]);
	if (all || !json)
		count_changes(cli, list, overviews, n, all);
	if (json)
		print_json(list, overviews, n);
	else
		print_table(list, overviews, n);
	for (size_t i = 0; i < n && !json; i++)
		locks_warn(list[i]);
}

/* Ignores errors in config files: the commands that run something report them. */
static void prune(struct cli *cli)
{
	AUTO_SETTINGS *config = NULL;

	if (atoll_settings_read_standard(&config, NULL) >= 0)
		(void)atoll_prune(cli->a, config, NULL, NULL, NULL);
}

int cmd_list(struct cli *cli, const struct options *o)
{
	AUTO_FREE struct overview *overviews = NULL;
	struct atoll_info **list;
	struct atoll_error err;
	size_t n;

	prune(cli);
	if (atoll_list(cli->a, &list, &n, &err) < 0)
		return message_fail(cli, &err);
	overviews = calloc(n + 1, sizeof(*overviews));
	if (!overviews) {
		atoll_info_list_free(list, n);
		return message_oom(cli);
	}
	if (cli->quiet && !options_has(o, "json")) {
		for (size_t i = 0; i < n; i++)
			puts(list[i]->name);
	} else {
		print_list(cli, o, list, overviews, n);
	}
	atoll_info_list_free(list, n);
	return 0;
}
