/* SPDX-License-Identifier: Apache-2.0 */
/* atoll log: what was committed and undone. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "cli/changes.h"
#include "cli/info.h"
#include "cli/message.h"
#include "cli/quote.h"

static void print_json(const struct atoll_log_entry *entries, size_t n)
{
	struct json j;

	message_json_begin(&j);
	json_array(&j, NULL);
	for (size_t i = 0; i < n; i++) {
		json_object(&j, NULL);
		json_string(&j, "sandbox", entries[i].sandbox);
		json_int(&j, "number", entries[i].number);
		json_string(&j, "operation", entries[i].operation);
		json_string(&j, "status", entries[i].status);
		json_string(&j, "message", entries[i].message);
		json_string(&j, "started_at", entries[i].started_at);
		json_string(&j, "ended_at", entries[i].ended_at);
		json_int(&j, "added", (int64_t)entries[i].added);
		json_int(&j, "modified", (int64_t)entries[i].modified);
		json_int(&j, "deleted", (int64_t)entries[i].deleted);
		json_int(&j, "meta", (int64_t)entries[i].meta);
		json_object_end(&j);
	}
	json_array_end(&j);
	json_finish(&j);
}

/* "2026-01-02 03:04:05  fix  commit 2  landed  3 changes: 1 added, 2 modified", and the message below, indented. */
static void print_entry(const struct atoll_log_entry *e, int name_width)
{
	const struct changes_counts counts = { e->added, e->modified, e->deleted, e->meta, 0 };
	AUTO_STRBUF words = STRBUF_INIT;
	char time[INFO_TIME_SIZE];

	changes_words(&words, &counts);
	printf("%s  %-*s  %s %" PRId64 "  %s  %s\n", info_time(e->started_at, time), name_width, e->sandbox,
	       e->operation, e->number, e->status, strbuf_str(&words));
	for (const char *line = e->message; line && *line;) {
		size_t size = strcspn(line, "\n");
		AUTO_FREE char *copy = strndup(line, size);
		AUTO_STRBUF safe = STRBUF_INIT;

		quote_prose(&safe, copy ? copy : "");
		printf("    %s\n", strbuf_str(&safe));
		line += size + (line[size] == '\n');
	}
}

int cmd_log(struct cli *cli, const struct options *o)
{
	struct atoll_log_entry *entries;
	struct atoll_error err;
	int name_width = 0;
	size_t n;

	if (atoll_log(cli->a, o->n_operands > 0 ? o->operands[0] : NULL, &entries, &n, &err) < 0)
		return message_fail(cli, &err);
	for (size_t i = 0; i < n; i++)
		name_width = MAX(name_width, (int)strlen(entries[i].sandbox));
	if (options_has(o, "json"))
		print_json(entries, n);
	for (size_t i = 0; i < n && !options_has(o, "json"); i++)
		print_entry(&entries[i], name_width);
	atoll_log_free(entries, n);
	return 0;
}
