/* SPDX-License-Identifier: Apache-2.0 */
/* atoll doctor: what this machine can do, what is missing, how to get it. */
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/quote.h"

static const struct {
	const char *word;
	enum output_color color;
} statuses[] = {
	[ATOLL_CHECK_OK] = { "ok", COLOR_GREEN },
	[ATOLL_CHECK_LIMITED] = { "limited", COLOR_YELLOW },
	[ATOLL_CHECK_MISSING] = { "missing", COLOR_RED },
};

static void print_json(const struct atoll_check *checks, size_t n)
{
	struct json j;

	message_json_begin(&j);
	json_array(&j, NULL);
	for (size_t i = 0; i < n; i++) {
		json_object(&j, NULL);
		json_string(&j, "check", checks[i].name);
		json_string(&j, "status", statuses[checks[i].status].word);
		json_string(&j, "finding", checks[i].finding);
		json_string(&j, "advice", checks[i].advice);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_finish(&j);
}

static void print_check(const struct atoll_check *check, int name_width, bool color)
{
	AUTO_STRBUF finding = STRBUF_INIT;
	AUTO_STRBUF advice = STRBUF_INIT;

	quote_prose(&finding, check->finding ? check->finding : "");
	printf("%s%-7s%s  %-*s  %s\n", output_color(color, statuses[check->status].color), statuses[check->status].word,
	       output_color(color, COLOR_RESET), name_width, check->name, strbuf_str(&finding));
	if (!check->advice)
		return;
	quote_prose(&advice, check->advice);
	printf("%-7s  %-*s  → %s\n", "", name_width, "", strbuf_str(&advice));
}

int cmd_doctor(struct cli *cli, const struct options *o)
{
	bool color = output_wants_color(stdout, NULL);
	struct atoll_check *checks;
	struct atoll_error err;
	int name_width = 0;
	size_t n;

	if (atoll_doctor(cli->a, &checks, &n, &err) < 0)
		return message_fail(cli, &err);
	for (size_t i = 0; i < n; i++)
		name_width = MAX(name_width, (int)strlen(checks[i].name));
	if (options_has(o, "json"))
		print_json(checks, n);
	for (size_t i = 0; i < n && !options_has(o, "json"); i++)
		print_check(&checks[i], name_width, color);
	atoll_checks_free(checks, n);
	return 0;
}
