/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"
#include "cli/changes.h"
#include "cli/message.h"
#include "cli/quote.h"

static struct changes_counts sum_up(const struct atoll_result *result)
{
	struct changes_counts c = { 0 };

	for (size_t i = 0; i < result->n_resources; i++) {
		const struct atoll_resource_result *r = &result->resources[i];

		c.added += r->added;
		c.modified += r->modified;
		c.deleted += r->deleted;
		c.meta += r->meta;
		c.skipped += r->skipped;
	}
	return c;
}

static bool is_database(enum atoll_kind kind)
{
	return kind != ATOLL_KIND_DIR && kind != ATOLL_KIND_FILE && kind != ATOLL_KIND_GIT;
}

/* Where the paths of a resource's items begin. Those of a single file are relative to its directory; what is in a database has no path. */
static unsigned add_base(struct strbuf *s, const struct atoll_result *result, int seq)
{
	unsigned flags = result->n_resources > 1 ? PATH_SEVERAL : 0;
	const char *slash;

	for (size_t i = 0; i < result->n_resources; i++) {
		const struct atoll_resource_result *r = &result->resources[i];

		if (r->seq != seq)
			continue;
		slash = r->kind == ATOLL_KIND_FILE ? strrchr(r->path, '/') : NULL;
		strbuf_add(s, r->path, slash ? (size_t)(slash - r->path) : strlen(r->path));
		flags |= is_database(r->kind) ? PATH_PART : 0;
	}
	return flags;
}

/* "src/a.c: changed since the sandbox began; the other version is at …" */
static void add_item(struct strbuf *s, const struct atoll_result *result, const struct atoll_item *item)
{
	AUTO_STRBUF base = STRBUF_INIT;
	unsigned flags = add_base(&base, result, item->resource);

	changes_path(s, "", strbuf_str(&base), item->path ? item->path : ".", flags);
	if (item->note) {
		strbuf_adds(s, ": ");
		quote_prose(s, item->note);
	}
	if (item->kept) {
		strbuf_adds(s, "; the other version is at ");
		quote_prose(s, item->kept);
	}
}

static bool is_trouble(enum atoll_item_kind kind)
{
	switch (kind) {
	case ATOLL_ITEM_CONFLICT:
	case ATOLL_ITEM_REFUSED:
	case ATOLL_ITEM_BUSY:
	case ATOLL_ITEM_FOREIGN:
	case ATOLL_ITEM_LOST:
		return true;
	case ATOLL_ITEM_CHANGE:
	case ATOLL_ITEM_SKIPPED:
	case ATOLL_ITEM_NOTE:
	case ATOLL_ITEM_STEP:
	case ATOLL_ITEM_KIND_COUNT:
		return false;
	}
	return false;
}

/* Every path that stood in the way, one line each. */
static void print_troubles(const struct atoll_result *result)
{
	for (size_t i = 0; i < result->n_items; i++) {
		AUTO_STRBUF s = STRBUF_INIT;

		if (!is_trouble(result->items[i].kind))
			continue;
		add_item(&s, result, &result->items[i]);
		message_error("%s: %s", atoll_item_kind_name(result->items[i].kind), strbuf_str(&s));
	}
}

/* Whether paths of a resource were left as they are, each of which is named; all else of it is settled then. */
static bool is_settled(const struct atoll_result *result, const struct atoll_resource_result *r)
{
	for (size_t i = 0; i < result->n_items; i++) {
		const struct atoll_item *item = &result->items[i];

		if (item->resource == r->seq && (item->kind == ATOLL_ITEM_FOREIGN || item->kind == ATOLL_ITEM_LOST))
			return !r->cause;
	}
	return false;
}

/* Where an original could not be put back, or a workspace not reset, people must know which. */
static void print_outcomes(const struct atoll_result *result)
{
	for (size_t i = 0; i < result->n_resources; i++) {
		const struct atoll_resource_result *r = &result->resources[i];
		AUTO_STRBUF path = STRBUF_INIT;
		AUTO_STRBUF cause = STRBUF_INIT;

		strbuf_add_quoted(&path, r->path);
		if (r->cause) {
			strbuf_adds(&cause, ": ");
			quote_prose(&cause, r->cause);
		}
		if (r->outcome == ATOLL_OUTCOME_ROLLBACK_FAILED && is_settled(result, r))
			message_error("\"%s\" was put back, but for the paths above", strbuf_str(&path));
		else if (r->outcome == ATOLL_OUTCOME_ROLLBACK_FAILED)
			message_error("\"%s\" could not be put back%s; run: atoll recover", strbuf_str(&path),
				      strbuf_str(&cause));
		else if (r->outcome == ATOLL_OUTCOME_IN_DOUBT)
			message_error("\"%s\" is in doubt%s; run: atoll recover", strbuf_str(&path),
				      strbuf_str(&cause));
		else if (r->outcome == ATOLL_OUTCOME_ROLLED_BACK && r->cause && !r->workspace_dirty)
			message_error("\"%s\" was rolled back%s", strbuf_str(&path), strbuf_str(&cause));
		else if (r->outcome == ATOLL_OUTCOME_NOT_ISOLATED)
			message_warning("\"%s\" is not isolated: what was written there is in place already",
					strbuf_str(&path));
		/* What the error itself says is not said twice. */
		if (r->workspace_dirty && !(r->cause && strstr(result->error.message, r->cause)))
			message_warning(
				"the workspace of \"%s\" could not be put in order%s; that is tried again before its next use",
				strbuf_str(&path), strbuf_str(&cause));
	}
}

static void print_items(const struct atoll_result *result, enum atoll_item_kind kind, const char *label, FILE *out)
{
	for (size_t i = 0; i < result->n_items; i++) {
		AUTO_STRBUF s = STRBUF_INIT;

		if (result->items[i].kind != kind)
			continue;
		add_item(&s, result, &result->items[i]);
		fprintf(out, "%s%s\n", label, strbuf_str(&s));
	}
}

/* What a recovery came to is said by what was verified of each resource. */
static void add_recovery(struct strbuf *s, const struct atoll_result *result)
{
	strbuf_adds(s, "recovered \"");
	strbuf_add_quoted(s, result->sandbox ? result->sandbox : "");
	strbuf_adds(s, "\":");
	for (size_t i = 0; i < result->n_resources; i++) {
		strbuf_adds(s, i > 0 ? ", " : " ");
		quote_name(s, "", result->resources[i].path, "");
		strbuf_addf(s, " %s", atoll_outcome_name(result->resources[i].outcome));
	}
}

static void add_headline(struct strbuf *s, const struct atoll_result *result)
{
	struct changes_counts counts = sum_up(result);
	bool nothing = changes_total(&counts) == 0 && counts.skipped == 0;
	const char *operation = result->operation;

	if (strcmp(operation, "recover") == 0) {
		add_recovery(s, result);
		return;
	}
	if (strcmp(operation, "commit") == 0) {
		strbuf_adds(s, result->dry_run ? "would commit " : nothing ? "nothing to commit: " : "committed ");
	} else if (strcmp(operation, "undo") == 0) {
		strbuf_addf(s, "took back commit %" PRId64 "%s", result->commit, nothing ? "" : ": ");
	} else if (strcmp(operation, "rollback") == 0) {
		strbuf_addf(s, "rolled back%s", nothing ? "" : " ");
	}
	/* Only a commit says how much by itself; the others may not have counted. */
	if (!nothing || strcmp(operation, "commit") == 0)
		changes_words(s, &counts);
	if (strcmp(operation, "undo") == 0) {
		strbuf_adds(s, "; the edits are still in the sandbox \"");
		strbuf_add_quoted(s, result->sandbox);
		strbuf_addc(s, '"');
	}
}

int report_trouble(const struct cli *cli, int r, const struct atoll_result *result, const struct atoll_error *err)
{
	if (r < 0)
		(void)message_fail(cli, err);
	if (result) {
		print_troubles(result);
		print_outcomes(result);
		if (result->success && !result->atomic && !result->dry_run)
			message_warning("atomicity was not guaranteed");
	}
	return r < 0 ? atoll_code_exit_status(err->code) : 0;
}

static void print_result(struct cli *cli, const struct atoll_result *result, FILE *out)
{
	AUTO_STRBUF headline = STRBUF_INIT;

	print_items(result, ATOLL_ITEM_STEP, "", out);
	if (!cli->quiet) {
		add_headline(&headline, result);
		fprintf(out, "%s\n", strbuf_str(&headline));
	}
	print_items(result, ATOLL_ITEM_NOTE, "note: ", out);
	print_items(result, ATOLL_ITEM_SKIPPED, "skipped: ", out);
}

int report_result(struct cli *cli, int r, const struct atoll_result *result, const struct atoll_error *err, FILE *out,
		  bool json)
{
	return report_result_with(cli, r, result, NULL, err, out, json);
}

int report_result_with(struct cli *cli, int r, const struct atoll_result *result, const struct atoll_info *info,
		       const struct atoll_error *err, FILE *out, bool json)
{
	struct json j;

	if (result && json) {
		message_json_begin(&j);
		report_json(&j, result, info);
		json_finish(&j);
	} else if (result && r == 0) {
		print_result(cli, result, out);
	}
	return report_trouble(cli, r, result, err);
}
