/* SPDX-License-Identifier: Apache-2.0 */
/* atoll status: shows the sandboxes that concern the working directory, newest first. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "cli/info.h"
#include "cli/message.h"
#include "cli/overview.h"
#include "cli/quote.h"
#include "cli/status.h"

/* Stop counting changes after this time; older sandboxes are then shown without counts. */
#define PATIENCE_NS (2 * NSEC_PER_SEC)

/* Maximum number of sandboxes in the text form. */
#define SHOWN_MAX 12

/* ---- selection ---- */

static bool is_below(const char *path, const char *top)
{
	size_t size = strlen(top);

	if (size > 0 && top[size - 1] == '/')
		size--;
	return strncmp(path, top, size) == 0 && (path[size] == '\0' || path[size] == '/');
}

/* A database on a server lies in no directory. */
static bool concerns(const struct atoll_info *info, const char *cwd)
{
	for (size_t i = 0; i < info->n_resources; i++) {
		const char *path = info->resources[i].path;

		if (path[0] == '/' && (is_below(path, cwd) || is_below(cwd, path)))
			return true;
	}
	return false;
}

/* ---- text ---- */

static void add_command(struct strbuf *s, const struct atoll_run_info *run)
{
	for (char **arg = run->argv; *arg; arg++) {
		if (arg != run->argv)
			strbuf_addc(s, ' ');
		quote_name(s, "", *arg, "");
	}
	strbuf_adds(s, run->cut ? "…" : "");
}

static void print_runs(const struct overview *o)
{
	for (size_t i = o->n_runs; i-- > 0;) {
		AUTO_STRBUF line = STRBUF_INIT;

		if (!o->runs[i].running)
			continue;
		overview_age(&line, o->runs[i].elapsed_ns / NSEC_PER_SEC, true);
		strbuf_addf(&line, ", run %" PRId64 ": ", o->runs[i].number);
		add_command(&line, &o->runs[i]);
		printf("  running   %s\n", strbuf_str(&line));
	}
}

/* "public.t (AccessExclusiveLock), public.u (…) for 12 seconds; others wait for it" */
static void print_locks(const struct atoll_resource_info *r)
{
	AUTO_STRBUF line = STRBUF_INIT, age = STRBUF_INIT;
	AUTO_FREE char *locks = r->locks ? strdup(r->locks) : NULL;

	if (!locks)
		return;
	for (char *save = NULL, *at = strtok_r(locks, "\n", &save); at; at = strtok_r(NULL, "\n", &save)) {
		strbuf_adds(&line, line.size > 0 ? ", " : "");
		quote_prose(&line, at);
	}
	overview_age(&age, r->locked_ns / NSEC_PER_SEC, true);
	printf("  locks     %s for %s; others wait for it\n", strbuf_str(&line), strbuf_str(&age));
}

static void print_headline(const struct atoll_info *info, const struct overview *o)
{
	AUTO_STRBUF line = STRBUF_INIT, state = STRBUF_INIT;

	info_state(&state, info);
	strbuf_addf(&line, "%s  %s: ", info->name, strbuf_str(&state));
	if (o->is_counted) {
		changes_words(&line, &o->changes);
		strbuf_adds(&line, ", ");
		overview_size(&line, o->bytes);
	} else {
		strbuf_adds(&line, "changes not counted");
	}
	strbuf_adds(&line, "; made ");
	overview_age(&line, o->age_s, true);
	strbuf_adds(&line, " ago, used ");
	overview_age(&line, o->idle_s, true);
	printf("%s ago\n", strbuf_str(&line));
}

static void print_one(const struct atoll_info *info, const struct overview *o)
{
	AUTO_STRBUF advice = STRBUF_INIT;

	print_headline(info, o);
	for (size_t i = 0; i < info->n_resources; i++) {
		AUTO_STRBUF path = STRBUF_INIT;

		quote_name(&path, "", info->resources[i].path, "");
		printf("  holds     %s (%s)\n", strbuf_str(&path), info->resources[i].strategy);
		print_locks(&info->resources[i]);
	}
	print_runs(o);
	overview_advice(&advice, o, info);
	printf("  next      %s\n", strbuf_str(&advice));
}

/* ---- JSON ---- */

static void put_one(struct json *j, const struct atoll_info *info, const struct overview *o)
{
	AUTO_STRBUF advice = STRBUF_INIT;

	overview_advice(&advice, o, info);
	json_object(j, NULL);
	info_json_members(j, info);
	overview_json(j, o);
	json_array(j, "commands");
	for (size_t i = o->n_runs; i-- > 0;) {
		if (!o->runs[i].running)
			continue;
		json_object(j, NULL);
		json_int(j, "run", o->runs[i].number);
		json_array(j, "command");
		for (char **arg = o->runs[i].argv; *arg; arg++)
			json_string(j, NULL, *arg);
		json_array_end(j);
		json_int(j, "elapsed_ns", o->runs[i].elapsed_ns);
		json_object_end(j);
	}
	json_array_end(j);
	json_string(j, "next", strbuf_str(&advice));
	json_object_end(j);
}

static void print_concerned(struct cli *cli, struct atoll_info **list, size_t n, const char *cwd, struct json *j,
			    size_t *ret_n)
{
	int64_t end = clock_monotonic_ns() + PATIENCE_NS;

	*ret_n = 0;
	for (size_t i = n; i-- > 0;) {
		AUTO_OVERVIEW o = { 0 };

		if (!concerns(list[i], cwd) || (++*ret_n > SHOWN_MAX && !j))
			continue;
		overview_init(&o, list[i]);
		overview_runs(&o, cli, list[i]);
		if (clock_monotonic_ns() < end)
			overview_count(&o, cli, list[i]);
		if (j)
			put_one(j, list[i], &o);
		else
			print_one(list[i], &o);
	}
	if (*ret_n > SHOWN_MAX && !j)
		printf("and %zu older ones: atoll list\n", *ret_n - SHOWN_MAX);
}

int status_print(struct cli *cli, bool json, size_t *ret_n)
{
	AUTO_FREE char *cwd = getcwd(NULL, 0);
	struct atoll_info **list;
	struct atoll_error err;
	struct json j;
	size_t n;

	*ret_n = 0;
	if (atoll_list(cli->a, &list, &n, &err) < 0)
		return message_fail(cli, &err);
	if (json) {
		json_init(&j, stdout, true);
		json_array(&j, NULL);
	}
	print_concerned(cli, list, n, cwd ? cwd : "/", json ? &j : NULL, ret_n);
	if (json) {
		json_array_end(&j);
		json_finish(&j);
	}
	atoll_info_list_free(list, n);
	return 0;
}

int cmd_status(struct cli *cli, const struct options *o)
{
	size_t n;
	int status = status_print(cli, options_has(o, "json"), &n);

	if (status == 0 && n == 0 && !options_has(o, "json") && !cli->quiet)
		puts("no sandbox holds this directory or something below it; atoll run -- COMMAND makes one, "
		     "atoll list shows all");
	return status;
}
