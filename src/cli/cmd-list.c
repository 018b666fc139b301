/* SPDX-License-Identifier: Apache-2.0 */
/* atoll list: all sandboxes, oldest first. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "cli/info.h"
#include "cli/locks.h"
#include "cli/message.h"
#include "cli/quote.h"

static void print_json(struct atoll_info **list, size_t n)
{
	struct json j;

	message_json_begin(&j);
	json_array(&j, NULL);
	for (size_t i = 0; i < n; i++)
		info_json(&j, list[i]);
	json_array_end(&j);
	json_finish(&j);
}

static void print_row(const struct atoll_info *info, int name_width, int state_width)
{
	AUTO_STRBUF state = STRBUF_INIT;
	AUTO_STRBUF resources = STRBUF_INIT;
	char time[INFO_TIME_SIZE];

	info_state(&state, info);
	for (size_t i = 0; i < info->n_resources; i++) {
		if (i > 0)
			strbuf_adds(&resources, ", ");
		quote_name(&resources, "", info->resources[i].path, "");
		strbuf_addf(&resources, " (%s)", info->resources[i].strategy);
	}
	printf("%-*s  %-*s  %7" PRId64 "  %-19s  %s\n", name_width, info->name, state_width, strbuf_str(&state),
	       info->commits, info_time(info->created_at, time), strbuf_str(&resources));
}

static void print_table(struct atoll_info **list, size_t n)
{
	int name_width = 4, state_width = 5;

	for (size_t i = 0; i < n; i++) {
		AUTO_STRBUF state = STRBUF_INIT;

		info_state(&state, list[i]);
		name_width = MAX(name_width, (int)strlen(list[i]->name));
		state_width = MAX(state_width, (int)state.size);
	}
	if (n > 0)
		printf("%-*s  %-*s  %7s  %-19s  %s\n", name_width, "NAME", state_width, "STATE", "COMMITS", "CREATED",
		       "RESOURCES");
	else if (isatty(STDOUT_FILENO))
		puts("no sandboxes");
	for (size_t i = 0; i < n; i++)
		print_row(list[i], name_width, state_width);
}

int cmd_list(struct cli *cli, const struct options *o)
{
	struct atoll_info **list;
	struct atoll_error err;
	size_t n;

	if (atoll_list(cli->a, &list, &n, &err) < 0)
		return message_fail(cli, &err);
	if (options_has(o, "json")) {
		print_json(list, n);
	} else if (cli->quiet) {
		for (size_t i = 0; i < n; i++)
			puts(list[i]->name);
	} else {
		print_table(list, n);
		for (size_t i = 0; i < n; i++)
			locks_warn(list[i]);
	}
	atoll_info_list_free(list, n);
	return 0;
}
