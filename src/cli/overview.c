/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/overview.h"

#include <fts.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/json.h"

/* ---- ages ---- */

static int64_t seconds_since(const char *rfc3339)
{
	struct tm tm = { 0 };

	if (!rfc3339 || sscanf(rfc3339, "%4d-%2d-%2dT%2d:%2d:%2d", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour,
			       &tm.tm_min, &tm.tm_sec) != 6)
		return 0;
	tm.tm_year -= 1900;
	tm.tm_mon -= 1;
	return MAX((int64_t)time(NULL) - (int64_t)timegm(&tm), (int64_t)0);
}

void overview_age(struct strbuf *s, int64_t seconds, bool in_words)
{
	static const struct {
		int64_t seconds;
		char letter;
		const char *word;
	} units[] = { { 86400, 'd', "day" }, { 3600, 'h', "hour" }, { 60, 'm', "minute" }, { 1, 's', "second" } };
	size_t i = 0;
	int64_t n;

	while (i + 1 < ARRAY_SIZE(units) && seconds < units[i].seconds)
		i++;
	n = seconds / units[i].seconds;
	if (in_words)
		strbuf_addf(s, "%" PRId64 " %s%s", n, units[i].word, n == 1 ? "" : "s");
	else
		strbuf_addf(s, "%" PRId64 "%c", n, units[i].letter);
}

/* ---- sizes ---- */

void overview_size(struct strbuf *s, uint64_t bytes)
{
	static const char units[] = "KMGTPE";
	double n = (double)bytes;
	size_t i = 0;

	if (bytes < 1024) {
		strbuf_addf(s, "%" PRIu64, bytes);
		return;
	}
	for (n /= 1024; n >= 1024 && units[i + 1]; i++)
		n /= 1024;
	strbuf_addf(s, n < 10 ? "%.1f%c" : "%.0f%c", n, units[i]);
}

static uint64_t measure(const char *path)
{
	char *const paths[] = { (char *)path, NULL };
	FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	uint64_t bytes = 0;

	for (FTSENT *e; tree && (e = fts_read(tree));)
		if (e->fts_info != FTS_DP && e->fts_info != FTS_NS && e->fts_statp)
			bytes += (uint64_t)e->fts_statp->st_blocks * 512;
	if (tree)
		fts_close(tree);
	return bytes;
}

/* A database can have the same workspace as the resource around it. */
static bool is_measured(const struct atoll_info *info, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (info->resources[k].workspace &&
		    strcmp(info->resources[k].workspace, info->resources[i].workspace) == 0)
			return true;
	return false;
}

/* ---- overview ---- */

void overview_init(struct overview *o, const struct atoll_info *info)
{
	*o = (struct overview){ .age_s = seconds_since(info->created_at), .idle_s = seconds_since(info->active_at) };
}

static int count(const struct atoll_change *change, void *arg)
{
	changes_count(arg, change);
	return 0;
}

void overview_count(struct overview *o, struct cli *cli, const struct atoll_info *info)
{
	struct atoll_error ignored;

	/* Reading the changes would recover the sandbox; a listing must not do that. */
	if (info->phase != ATOLL_PHASE_NONE ||
	    atoll_changes(cli->a, info->name, NULL, count, &o->changes, &ignored) < 0) {
		o->changes = (struct changes_counts){ 0 };
		return;
	}
	o->is_counted = true;
	for (size_t i = 0; i < info->n_resources; i++)
		if (info->resources[i].workspace && !is_measured(info, i))
			o->bytes += measure(info->resources[i].workspace);
}

void overview_runs(struct overview *o, struct cli *cli, const struct atoll_info *info)
{
	struct atoll_error ignored;

	if (atoll_runs(cli->a, info->name, &o->runs, &o->n_runs, &ignored) < 0) {
		o->runs = NULL;
		o->n_runs = 0;
	}
	for (size_t i = 0; i < o->n_runs; i++)
		o->n_running += o->runs[i].running;
}

void overview_release(struct overview *o)
{
	if (o->runs)
		atoll_runs_free(o->runs, o->n_runs);
	o->runs = NULL;
}

void overview_advice(struct strbuf *s, const struct overview *o, const struct atoll_info *info)
{
	const char *name = info->name;
	bool lost = false;

	for (size_t i = 0; i < info->n_resources; i++)
		lost |= info->resources[i].lost;
	if (info->phase != ATOLL_PHASE_NONE)
		strbuf_addf(s, "atoll recover %s: a commit or undo is not finished", name);
	else if (lost)
		strbuf_addf(s, "atoll rollback %s: the edits of a database are gone", name);
	else if (o->n_running > 0)
		strbuf_addf(s, "wait for the command; atoll ps %s, or atoll kill %s to end it", name, name);
	else if (!o->is_counted)
		strbuf_addf(s, "atoll diff %s", name);
	else if (changes_total(&o->changes) > 0)
		strbuf_addf(s, "atoll diff %s; then atoll commit %s, or atoll rollback %s", name, name, name);
	else if (info->commits > 0)
		strbuf_addf(s, "all has landed: atoll rm %s, or atoll undo %s to take it back", name, name);
	else
		strbuf_addf(s, "atoll run %s -- COMMAND, or atoll rm %s", name, name);
}

void overview_json(struct json *j, const struct overview *o)
{
	if (o->is_counted) {
		json_int(j, "changes", (int64_t)changes_total(&o->changes));
		json_int(j, "size_bytes", (int64_t)o->bytes);
	} else {
		json_null(j, "changes");
		json_null(j, "size_bytes");
	}
}
