/* SPDX-License-Identifier: Apache-2.0 */
/* atoll recover: finish what a crash left. */
#include "base/json.h"
#include "cli/message.h"
#include "cli/report.h"
#include "cli/resolve.h"

/* failure: an error that is in none of the results, or NULL. */
static void print_json(struct atoll_result **results, size_t n, const struct atoll_error *failure)
{
	struct json j;

	message_json_begin(&j);
	json_array(&j, NULL);
	for (size_t i = 0; i < n; i++)
		report_json(&j, results[i], NULL);
	if (failure) {
		json_object(&j, NULL);
		json_bool(&j, "success", false);
		message_json_error(&j, failure, atoll_code_exit_status(failure->code));
		json_object_end(&j);
	}
	json_array_end(&j);
	json_finish(&j);
}

/* Every sandbox by its own result; returns the worst exit status of them. */
static int print_results(struct cli *cli, struct atoll_result **results, size_t n, bool json)
{
	int status = 0;

	for (size_t i = 0; i < n; i++) {
		const struct atoll_result *result = results[i];
		int r = result->success ? 0 : -(int)result->error.code, s;

		if (json)
			s = report_trouble(cli, r, result, &result->error);
		else
			s = report_result(cli, r, result, &result->error, stdout, false);
		status = MAX(status, s);
	}
	return status;
}

int cmd_recover(struct cli *cli, const struct options *o)
{
	struct atoll_result **results = NULL;
	struct atoll_recover_options options = { .adopt = options_has(o, "adopt"),
						 .accept_incomplete = options_has(o, "accept-incomplete") };
	struct atoll_error err = { 0 };
	bool json = options_has(o, "json");
	int r, status;
	size_t n = 0;

	if (options_has(o, "all") && o->n_operands > 0)
		return message_usage(cli->command, "NAME and --all exclude each other");
	if (!resolve_wait(cli, o, &options.wait_ms))
		return atoll_code_exit_status(ATOLL_INVALID);
	r = atoll_recover(cli->a, o->n_operands > 0 ? o->operands[0] : NULL, &options, &results, &n, &err);
	status = print_results(cli, results, n, json);
	if (json && (r >= 0 || n > 0))
		print_json(results, n, r < 0 && status == 0 ? &err : NULL);
	if (n == 0 && r == 0 && !json && !cli->quiet)
		puts("nothing to recover");
	/* A failure that a result tells of has been printed with it. */
	if (r < 0 && status == 0)
		status = message_fail(cli, &err);
	atoll_result_list_free(results, n);
	return r < 0 ? atoll_code_exit_status(err.code) : status;
}
