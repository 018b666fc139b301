/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/locks.h"

#include <string.h>

#include "base/strbuf.h"
#include "cli/info.h"
#include "cli/message.h"
#include "cli/resolve.h"

#define SECOND_NS 1000000000LL

/* Ends "public.t (AccessExclusiveLock)" behind the relation, and returns the mode, or NULL. */
static const char *split(char *line)
{
	char *mode = strrchr(line, '(');

	if (!mode || mode == line)
		return NULL;
	mode[-1] = 0;
	mode[strlen(mode) - 1] = 0;
	return mode + 1;
}

static void lock_json(struct json *j, char *line, int64_t seconds)
{
	const char *mode = split(line);

	json_object(j, NULL);
	json_string(j, "relation", line);
	json_string(j, "mode", mode);
	json_int(j, "seconds", seconds);
	json_object_end(j);
}

/* The members that every change has, and the lock's own. */
static void lock_json_element(struct json *j, const struct atoll_resource_info *r, char *line)
{
	const char *mode = split(line);

	json_object(j, NULL);
	json_string(j, "change", "locked");
	json_string(j, "path", line);
	json_bool(j, "part", true);
	json_int(j, "resource", r->seq);
	json_string(j, "resource_path", r->path);
	json_array(j, "what");
	json_array_end(j);
	json_null(j, "old");
	json_null(j, "new");
	json_null(j, "note");
	json_string(j, "mode", mode);
	json_int(j, "seconds", r->locked_ns / SECOND_NS);
	if (r->given_up_ns >= 0)
		json_int(j, "given_up_in_seconds", r->given_up_ns / SECOND_NS);
	json_object_end(j);
}

void locks_json_elements(struct json *j, const struct atoll_info *info)
{
	for (size_t i = 0; i < info->n_resources; i++) {
		const struct atoll_resource_info *r = &info->resources[i];
		AUTO_FREE char *lines = r->locks ? strdup(r->locks) : NULL;
		char *save = NULL, *line = lines ? strtok_r(lines, "\n", &save) : NULL;

		for (; line; line = strtok_r(NULL, "\n", &save))
			lock_json_element(j, r, line);
	}
}

void locks_json(struct json *j, const struct atoll_resource_info *r)
{
	AUTO_FREE char *lines = r->locks ? strdup(r->locks) : NULL;
	char *save = NULL;

	if (!lines)
		return;
	json_array(j, "locks");
	for (char *line = strtok_r(lines, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		lock_json(j, line, r->locked_ns / SECOND_NS);
	json_array_end(j);
	if (r->given_up_ns >= 0)
		json_int(j, "given_up_in_seconds", r->given_up_ns / SECOND_NS);
}

static void add_time(struct strbuf *out, int64_t ns)
{
	long long seconds = ns / SECOND_NS;

	strbuf_addf(out, "%lld:%02lld:%02lld", seconds / 3600, seconds / 60 % 60, seconds % 60);
}

static void warn(const char *name, const struct atoll_resource_info *r)
{
	AUTO_STRBUF text = STRBUF_INIT;

	for (const char *p = r->locks; *p; p++) {
		if (*p == '\n')
			strbuf_adds(&text, ", ");
		else
			strbuf_addc(&text, *p);
	}
	strbuf_adds(&text, " for ");
	add_time(&text, r->locked_ns);
	strbuf_adds(&text, "; others wait for it until commit or rollback");
	if (r->given_up_ns >= 0) {
		strbuf_adds(&text, "; the edits are given up after ");
		add_time(&text, r->given_up_ns);
		strbuf_adds(&text, " without a command (--db-idle-limit)");
	}
	message_warning("\"%s\" locks %s", name, strbuf_str(&text));
}

void locks_warn(const struct atoll_info *info)
{
	for (size_t i = 0; i < info->n_resources; i++)
		if (info->resources[i].locks)
			warn(info->name, &info->resources[i]);
}

void locks_warn_of(struct cli *cli, const char *name)
{
	AUTO_INFO *info = NULL;
	struct atoll_error ignored;

	if (atoll_show(cli->a, name, &info, &ignored) >= 0)
		locks_warn(info);
}
