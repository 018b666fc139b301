/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/untrusted-report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/strbuf.h"
#include "cli/discarded.h"
#include "cli/message.h"

int untrusted_json_begin(struct untrusted_json *u)
{
	u->out = open_memstream(&u->text, &u->size);
	if (!u->out)
		return -ENOMEM;
	json_init(&u->j, u->out, false);
	json_object(&u->j, NULL);
	json_bool(&u->j, "untrusted", true);
	json_array(&u->j, "refused");
	return 0;
}

void untrusted_json_refusal(const struct atoll_refusal *r, void *arg)
{
	static const char *const kinds[ATOLL_REFUSAL_KIND_COUNT] = {
		[ATOLL_REFUSAL_NAME] = "name", [ATOLL_REFUSAL_TCP] = "tcp",   [ATOLL_REFUSAL_UDP] = "udp",
		[ATOLL_REFUSAL_PING] = "ping", [ATOLL_REFUSAL_MORE] = "more", [ATOLL_REFUSAL_LOST] = "lost"
	};
	struct untrusted_json *u = arg;

	json_object(&u->j, NULL);
	json_string(&u->j, "kind", kinds[r->kind]);
	json_string(&u->j, "what", r->what);
	json_int(&u->j, "times", r->count);
	json_object_end(&u->j);
}

static void begin_discarded(struct untrusted_json *u)
{
	if (u->lists_discarded)
		return;
	u->lists_discarded = true;
	json_array_end(&u->j);
	json_array(&u->j, "discarded");
}

void untrusted_json_discarded(const struct atoll_discarded *d, void *arg)
{
	struct untrusted_json *u = arg;

	begin_discarded(u);
	discarded_group_json(d, &u->j);
}

void untrusted_json_finish(struct untrusted_json *u, const struct atoll_run_result *result)
{
	struct json *j = &u->j;

	begin_discarded(u);
	json_array_end(j);
	json_bool(j, "discards_unknown", result->discards_unknown);
	json_string(j, "network", result->lists_refusals ? "refused" : "none");
	json_bool(j, "wanted_network", result->wanted_network);
	json_int(j, "run", result->run);
	json_int(j, "exit_status", result->exit_status);
	json_int(j, "signal", result->signal);
	json_bool(j, "timed_out", result->timed_out);
	json_object_end(j);
	json_finish(j);
	fflush(u->out);
	fflush(stdout);
	fwrite(u->text, 1, u->size, stderr);
}

void untrusted_json_release(struct untrusted_json *u)
{
	if (u->out)
		fclose(u->out);
	free(u->text);
}

static void add(struct strbuf *s, const char *format, uint64_t n)
{
	if (s->size > 0)
		strbuf_adds(s, ", ");
	strbuf_addf(s, format, n);
}

void untrusted_print(const struct atoll_run_result *result, uint64_t n_refused)
{
	uint64_t discarded = result->discarded + result->temporary;
	AUTO_STRBUF s = STRBUF_INIT;

	if (n_refused > 0)
		add(&s,
		    n_refused == 1 ? "%" PRIu64 " name or address refused" : "%" PRIu64 " names or addresses refused",
		    n_refused);
	else if (result->wanted_network)
		strbuf_adds(&s, "it looked for a network, and this machine cannot say where to");
	if (discarded > 0)
		add(&s,
		    discarded == 1 ? "%" PRIu64 " entry written outside the sandbox and discarded"
				   : "%" PRIu64 " entries written outside the sandbox and discarded",
		    discarded);
	if (s.size == 0)
		strbuf_adds(&s, "it reached for no network, and wrote nothing outside the sandbox");
	message_error("untrusted: %s", strbuf_str(&s));
}
