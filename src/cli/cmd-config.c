/* SPDX-License-Identifier: Apache-2.0 */
/* atoll config: what holds for a run, and where each value comes from. */
#include <string.h>

#include "base/json.h"
#include "cli/info.h"
#include "cli/message.h"
#include "cli/quote.h"
#include "cli/resolve.h"
#include "cli/settings.h"

/* Calls fn for each value that counts, the settings in the order of the table, their values in the order given. */
static void each_effective(const struct atoll_settings *const lists[], size_t n_lists,
			   void (*fn)(const struct atoll_setting *s, void *arg), void *arg)
{
	const struct atoll_setting_kind *kind;

	for (size_t k = 0; (kind = atoll_setting_at(k)); k++) {
		const struct atoll_setting *s, *nearest = NULL;

		for (size_t i = 0; i < n_lists; i++) {
			for (size_t j = 0; (s = atoll_settings_get(lists[i], j)); j++) {
				if (strcmp(s->name, kind->name) != 0)
					continue;
				nearest = s;
				if (kind->shape == ATOLL_SETTING_LIST)
					fn(s, arg);
			}
		}
		if (!nearest)
			fn(&(struct atoll_setting){ kind->name, kind->fallback, NULL }, arg);
		else if (kind->shape != ATOLL_SETTING_LIST)
			fn(nearest, arg);
	}
}

static void print_json(const struct atoll_setting *s, void *arg)
{
	struct json *j = arg;

	json_object(j, NULL);
	json_string(j, "name", s->name);
	json_string(j, "value", s->value);
	json_string(j, "source", s->source ? s->source : "default");
	json_object_end(j);
}

static void print_line(const struct atoll_setting *s, void *arg)
{
	AUTO_STRBUF value = STRBUF_INIT;
	AUTO_STRBUF source = STRBUF_INIT;

	(void)arg;
	quote_prose(&value, s->value ? s->value : "-");
	quote_prose(&source, s->source ? s->source : "default");
	printf("%-11s %-24s %s\n", s->name, strbuf_str(&value), strbuf_str(&source));
}

int cmd_config(struct cli *cli, const struct options *o)
{
	AUTO_SETTINGS *defaults = NULL;
	AUTO_INFO *info = NULL;
	const struct atoll_settings *lists[2];
	struct atoll_error err;

	if (settings_of_config(o, &defaults, &err) < 0)
		return message_fail(cli, &err);
	if (o->n_operands > 0 && resolve_sandbox(cli, o->operands[0], &info, &err) < 0)
		return message_fail(cli, &err);
	lists[0] = defaults;
	lists[1] = info ? info->settings : NULL;
	if (options_has(o, "json")) {
		struct json j;

		message_json_begin(&j);
		json_array(&j, NULL);
		each_effective(lists, ARRAY_SIZE(lists), print_json, &j);
		json_array_end(&j);
		json_finish(&j);
	} else {
		each_effective(lists, ARRAY_SIZE(lists), print_line, NULL);
	}
	return 0;
}
