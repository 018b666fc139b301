/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/runs.h"

#include <string.h>

#include "cli/message.h"

const char *runs_state(const struct atoll_run_info *r)
{
	if (r->running)
		return "running";
	if (r->lost)
		return "lost";
	if (r->failed || r->not_started)
		return "failed";
	if (r->timed_out)
		return "timed out";
	return r->signal ? "killed" : "exited";
}

bool runs_number(struct cli *cli, const char *text, int64_t *ret)
{
	if (*text && strlen(text) < 18 && text[strspn(text, "0123456789")] == '\0' && strtoll(text, NULL, 10) > 0) {
		*ret = strtoll(text, NULL, 10);
		return true;
	}
	message_usage(cli->command, "a run is given by its number, as atoll ps shows it");
	return false;
}

int runs_print(const char *data, size_t size, void *arg)
{
	(void)arg;
	return fwrite(data, 1, size, stdout) != size || fflush(stdout) != 0;
}

int runs_find(struct cli *cli, const char *name, int64_t number, struct atoll_run_info *ret, struct atoll_error *err)
{
	struct atoll_run_info *runs;
	size_t n;
	int r = atoll_runs(cli->a, name, &runs, &n, err);

	if (r < 0)
		return r;
	*ret = (struct atoll_run_info){ .number = number };
	for (size_t i = 0; i < n; i++) {
		if (number ? runs[i].number == number : runs[i].logged) {
			*ret = runs[i];
			break;
		}
	}
	atoll_runs_free(runs, n);
	ret->argv = NULL;
	ret->started_at = ret->ended_at = NULL;
	return 0;
}

bool runs_operand(struct cli *cli, const struct options *o, int64_t *ret)
{
	*ret = 0;
	return o->n_operands < 2 || runs_number(cli, o->operands[1], ret);
}
