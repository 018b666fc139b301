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
