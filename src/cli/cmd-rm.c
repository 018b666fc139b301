/* SPDX-License-Identifier: Apache-2.0 */
/* atoll rm: remove sandboxes. */
#include <inttypes.h>

#include "base/error.h"
#include "base/json.h"
#include "base/strbuf.h"
#include "cli/ask.h"
#include "cli/message.h"
#include "cli/quote.h"
#include "cli/report.h"
#include "cli/resolve.h"

#define COUNT_LIMIT 1000

/* Checks whether undecided changes may be lost: returns 0 if so (and sets *ret_force) or if
 * there are none, else a negative code. */
static int check_pending(struct cli *cli, const char *name, bool *ret_force, struct atoll_error *err)
{
	char question[512];
	uint64_t n;
	int r = atoll_pending(cli->a, name, COUNT_LIMIT, &n, err);

	if (r < 0 || n == 0)
		return r;
	if (!ask_is_possible())
		return error_set(err, ATOLL_REFUSED, 0, "rm", name,
				 "sandbox \"%s\" holds %" PRIu64
				 "%s undecided change%s; commit first, or remove it with --force",
				 name, n, n >= COUNT_LIMIT ? " or more" : "", n == 1 ? "" : "s");
	snprintf(question, sizeof(question),
		 "sandbox \"%s\" holds %" PRIu64 "%s undecided change%s; remove it and lose them? [y/N] ", name, n,
		 n >= COUNT_LIMIT ? " or more" : "", n == 1 ? "" : "s");
	if (!ask_yes(question))
		return error_set(err, ATOLL_REFUSED, 0, "rm", name, "sandbox \"%s\" was not removed", name);
	*ret_force = true;
	return 0;
}

/* What became of a commit that was given up: nobody can ask again. */
static void print_sides(const struct atoll_result *result)
{
	for (size_t i = 0; i < result->n_resources; i++) {
		const struct atoll_resource_result *r = &result->resources[i];
		const char *side = r->outcome == ATOLL_OUTCOME_COMMITTED     ? "committed"
				   : r->outcome == ATOLL_OUTCOME_ROLLED_BACK ? "not committed"
									     : "unknown";
		AUTO_STRBUF line = STRBUF_INIT;

		quote_name(&line, "", r->path, "");
		strbuf_addf(&line, " was left %s%s", side, r->cause ? ": " : "");
		if (r->cause)
			quote_prose(&line, r->cause);
		message_warning("%s", strbuf_str(&line));
	}
}

static int removed(struct cli *cli, const char *name, int r, const struct atoll_result *result,
		   const struct atoll_error *err, struct json *j)
{
	const struct atoll_result nothing = { .success = r >= 0,
					      .operation = "rm",
					      .sandbox = (char *)name,
					      .atomic = true,
					      .error = r < 0 ? *err : (struct atoll_error){ 0 } };

	if (j)
		report_json(j, result ? result : &nothing, NULL);
	if (result)
		print_sides(result);
	return r < 0 ? message_fail(cli, err) : 0;
}

static int remove_one(struct cli *cli, const struct options *o, const char *name, struct atoll_remove_options options,
		      struct json *j)
{
	struct atoll_result *result = NULL;
	struct atoll_error err = { 0 };
	int status, r = options.force ? 0 : check_pending(cli, name, &options.force, &err);

	if (r >= 0)
		r = resolve_end_runs(cli, o, name, &options.wait_ms, &err);
	if (r >= 0)
		r = atoll_remove_told(cli->a, name, &options, &result, &err);
	status = removed(cli, name, r, result, &err, j);
	atoll_result_free(result);
	return status;
}

int cmd_rm(struct cli *cli, const struct options *o)
{
	struct atoll_remove_options options = { .abandon = options_has(o, "abandon") };
	bool json = options_has(o, "json");
	struct json j;
	int status = 0;

	options.force = options.abandon || options_has(o, "force");
	if (!resolve_wait(cli, o, &options.wait_ms))
		return atoll_code_exit_status(ATOLL_INVALID);
	if (json) {
		message_json_begin(&j);
		json_array(&j, NULL);
	}
	/* One that cannot be removed does not keep the others; the first reason is the exit status. */
	for (size_t i = 0; i < o->n_operands + o->n_rest; i++) {
		int r = remove_one(cli, o, i < o->n_operands ? o->operands[i] : o->rest[i - o->n_operands], options,
				   json ? &j : NULL);

		if (status == 0)
			status = r;
	}
	if (json) {
		json_array_end(&j);
		json_finish(&j);
	}
	return status;
}
