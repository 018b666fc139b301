/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/discarded.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "cli/message.h"
#include "cli/quote.h"

#define LINES_MAX 8      /* after a run */
#define NAMES_MAX 3      /* in a line */
#define SHOWN_RUNS_MAX 3 /* in atoll show */

void discarded_report_release(struct discarded_report *r)
{
	strbuf_release(&r->places);
}

/* ---- phrases ---- */

static uint64_t count(const struct atoll_discarded *d)
{
	return d->files + d->directories + d->removed;
}

static void add_count(struct strbuf *s, uint64_t n, const char *one, const char *several)
{
	if (n > 0)
		strbuf_addf(s, "%s%" PRIu64 " %s", s->size > 0 ? ", " : "", n, n == 1 ? one : several);
}

/* "at least 12 files, 1 removal" */
static void add_counts(struct strbuf *s, const struct atoll_discarded *d)
{
	AUTO_STRBUF words = STRBUF_INIT;

	add_count(&words, d->files, "file", "files");
	add_count(&words, d->directories, "directory", "directories");
	add_count(&words, d->removed, "removal", "removals");
	strbuf_addf(s, "%s%s", d->more ? "at least " : "", strbuf_str(&words));
}

/* Returns the path relative to the directory that the same line names. */
static const char *relative(const struct atoll_discarded *d, const char *path)
{
	size_t n = strlen(d->below);

	return strncmp(path, d->below, n) == 0 && path[n] == '/' && path[n + 1] ? path + n + 1 : path;
}

static void add_names(struct strbuf *s, const struct atoll_discarded *d)
{
	for (size_t i = 0; i < d->n_paths && i < NAMES_MAX; i++) {
		const struct atoll_discarded_path *p = &d->paths[i];

		strbuf_adds(s, i == 0 ? ": " : ", ");
		quote_name(s, "", relative(d, p->path), p->is_directory ? "/" : "");
		if (p->is_removed && d->removed < count(d))
			strbuf_adds(s, " (removed)");
	}
	if (d->n_paths > 0 && (count(d) > NAMES_MAX || d->more))
		strbuf_adds(s, ", …");
}

/* "12 files below /home/ann/shop, outside the sandbox: a, b, c, …" */
static void add_group(struct strbuf *s, const struct atoll_discarded *d)
{
	add_counts(s, d);
	strbuf_adds(s, " below ");
	quote_name(s, "", d->below, "");
	strbuf_adds(s, d->temporary ? ", which is temporary" : d->is_cache ? ", a cache" : ", outside the sandbox");
	add_names(s, d);
}

static const char *when(bool view_stays)
{
	return view_stays ? "discarded when the last command or keeper inside ends" : "discarded";
}

/* ---- after a run ---- */

static void add_temporary(struct discarded_report *r, const struct atoll_discarded *d)
{
	AUTO_STRBUF place = STRBUF_INIT;

	quote_name(&place, "", d->place, "");
	r->temporary += count(d);
	r->temporary_more |= d->more;
	if (strstr(strbuf_str(&r->places), strbuf_str(&place)))
		return;
	strbuf_addf(&r->places, "%s%s", r->places.size > 0 ? ", " : "", strbuf_str(&place));
}

/* Prints one line for all files that programs leave in temporary places. */
static void tell_rest(struct discarded_report *r)
{
	if (r->left_out > 0)
		message_error("%s: %" PRIu64 " more, outside the sandbox", when(r->view_stays), r->left_out);
	if (r->temporary > 0 || r->temporary_more)
		message_error("%s: %s%" PRIu64 " temporary file%s below %s", when(r->view_stays),
			      r->temporary_more ? "at least " : "", r->temporary, r->temporary == 1 ? "" : "s",
			      strbuf_str(&r->places));
	r->left_out = r->temporary = r->n_lines = 0;
	r->temporary_more = false;
	strbuf_truncate(&r->places, 0);
}

void discarded_report_tell(const struct atoll_discarded *d, void *report)
{
	struct discarded_report *r = report;
	AUTO_STRBUF line = STRBUF_INIT;

	if (r->cli->quiet)
		return;
	r->view_stays = d->view_stays;
	if (d->temporary) {
		add_temporary(r, d);
	} else if (r->n_lines < LINES_MAX) {
		r->n_lines++;
		add_group(&line, d);
		message_error("%s: %s", when(d->view_stays), strbuf_str(&line));
	} else {
		r->left_out += count(d);
	}
	if (d->index + 1 == d->n)
		tell_rest(r);
}

bool discarded_is_all(const struct atoll_run_result *result, uint64_t n_changes)
{
	return result->discards_own && n_changes == 0;
}

void discarded_warn_all(void)
{
	message_warning(
		"all that the command wrote lies outside the sandbox and is discarded: to keep such files, start "
		"from the directory that holds them, or name it with --keep-home");
}

/* ---- atoll show ---- */

static void print_group(const struct atoll_discarded *d, void *arg)
{
	const int64_t *run = arg;
	AUTO_STRBUF line = STRBUF_INIT;

	add_group(&line, d);
	printf("  %-10s by run %" PRId64 "%s: %s\n", "discarded", *run,
	       d->view_stays ? ", when the last command or keeper inside ends" : "", strbuf_str(&line));
}

void discarded_group_json(const struct atoll_discarded *d, void *arg)
{
	struct json *j = arg;

	json_object(j, NULL);
	json_string(j, "place", d->place);
	json_string(j, "below", d->below);
	json_bool(j, "temporary", d->temporary);
	json_bool(j, "cache", d->is_cache);
	json_bool(j, "view_stays", d->view_stays);
	json_int(j, "files", (int64_t)d->files);
	json_int(j, "directories", (int64_t)d->directories);
	json_int(j, "removed", (int64_t)d->removed);
	json_bool(j, "more", d->more);
	json_array(j, "paths");
	for (size_t i = 0; i < d->n_paths; i++) {
		json_object(j, NULL);
		json_string(j, "path", d->paths[i].path);
		json_bool(j, "directory", d->paths[i].is_directory);
		json_bool(j, "removed", d->paths[i].is_removed);
		json_object_end(j);
	}
	json_array_end(j);
	json_object_end(j);
}

static bool has_discarded(const struct atoll_run_info *r)
{
	return r->discarded + r->temporary > 0 || r->discards_more || r->discards_unknown;
}

void discarded_json(struct json *j, struct cli *cli, const char *name)
{
	struct atoll_run_info *runs = NULL;
	size_t n = 0;

	json_array(j, "discarded");
	if (atoll_runs(cli->a, name, &runs, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		if (!has_discarded(&runs[i]))
			continue;
		json_object(j, NULL);
		json_int(j, "run", runs[i].number);
		json_int(j, "discarded", (int64_t)runs[i].discarded);
		json_int(j, "temporary", (int64_t)runs[i].temporary);
		json_bool(j, "more", runs[i].discards_more);
		json_bool(j, "unknown", runs[i].discards_unknown);
		json_array(j, "groups");
		(void)atoll_discarded(cli->a, name, runs[i].number, discarded_group_json, j, NULL);
		json_array_end(j);
		json_object_end(j);
	}
	json_array_end(j);
	atoll_runs_free(runs, n);
}

void discarded_print(struct cli *cli, const char *name)
{
	struct atoll_run_info *runs = NULL;
	size_t n = 0, shown = 0;

	if (atoll_runs(cli->a, name, &runs, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n && shown < SHOWN_RUNS_MAX; i++) {
		if (!has_discarded(&runs[i]))
			continue;
		shown++;
		if (runs[i].discards_unknown)
			printf("  %-10s by run %" PRId64 ": what it wrote outside the sandbox could not be looked at\n",
			       "discarded", runs[i].number);
		(void)atoll_discarded(cli->a, name, runs[i].number, print_group, &runs[i].number, NULL);
	}
	atoll_runs_free(runs, n);
}
