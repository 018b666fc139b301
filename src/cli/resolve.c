/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/resolve.h"

#include <string.h>

#include "base/error.h"
#include "cli/message.h"

int resolve_sandbox(struct cli *cli, const char *name, struct atoll_info **ret, struct atoll_error *err)
{
	return atoll_show(cli->a, name, ret, err);
}

/* Whether the word is a sandbox's name, by the rule in the header. */
static int find_named(struct cli *cli, const char *word, struct atoll_info **ret, bool *ret_is_name,
		      struct atoll_error *err)
{
	struct atoll_error unnamed = { 0 }, other = { 0 };
	int r = atoll_show(cli->a, word, ret, &unnamed);

	*ret_is_name = true;
	if (r == 0)
		return 0;
	if ((unnamed.code == ATOLL_NOT_FOUND || unnamed.code == ATOLL_INVALID) &&
	    atoll_show(cli->a, NULL, ret, &other) == 0) {
		*ret_is_name = false;
		return 0;
	}
	*err = unnamed;
	return r;
}

static bool list_paths(const struct options *o, bool is_name, struct resolve_target *t)
{
	size_t n = 0;

	t->paths = calloc(o->n_operands + o->n_rest + 1, sizeof(*t->paths));
	if (!t->paths)
		return false;
	for (size_t i = is_name; i < o->n_operands; i++)
		t->paths[n++] = o->operands[i];
	for (size_t i = 0; i < o->n_rest; i++)
		t->paths[n++] = o->rest[i];
	t->selection = (struct atoll_selection){ t->paths, n };
	return true;
}

bool resolve_presumed(const struct options *o, struct resolve_target *ret)
{
	return o->n_operands > 0 && !strchr(o->operands[0], '/') && list_paths(o, true, ret);
}

int resolve_target(struct cli *cli, const struct options *o, struct resolve_target *ret, struct atoll_error *err)
{
	AUTO_TARGET t = { 0 };
	bool is_name = false;
	int r;

	r = o->n_operands > 0 ? find_named(cli, o->operands[0], &t.info, &is_name, err)
			      : atoll_show(cli->a, NULL, &t.info, err);
	if (r < 0)
		return r;
	if (!list_paths(o, is_name, &t))
		return error_oom(err, cli->command->name);
	if (o->n_operands > 0 && !is_name)
		t.word = o->operands[0];
	*ret = t;
	t = (struct resolve_target){ 0 };
	return 0;
}

/* Adds no name to the message for a word with a slash: the user meant it as a path. */
int resolve_failed(const struct cli *cli, const struct resolve_target *t, int r, struct atoll_error *err)
{
	struct atoll_error selected = *err;
	AUTO_STRBUF near = STRBUF_INIT;

	if (r >= 0 || !t->word || strchr(t->word, '/') || selected.code != ATOLL_NOT_FOUND ||
	    strcmp(selected.operation, "select") != 0 || strcmp(selected.object, t->word) != 0)
		return r;
	message_add_nearest(cli, t->word, &near);
	if (near.size)
		return error_set(err, ATOLL_NOT_FOUND, 0, "open", t->word, "there is no sandbox \"%s\"%s", t->word,
				 strbuf_str(&near));
	return error_set(err, ATOLL_NOT_FOUND, 0, "open", t->word, "there is no sandbox \"%s\", and %s", t->word,
			 selected.message);
}

void resolve_target_release(struct resolve_target *t)
{
	t->info = atoll_info_free(t->info);
	free(t->paths);
	t->paths = NULL;
}

bool resolve_wait(struct cli *cli, const struct options *o, int *ret_ms)
{
	const char *text = options_value(o, "wait");

	*ret_ms = options_has(o, "wait") ? -1 : 0;
	if (!text || options_seconds(text, ret_ms) == 0)
		return true;
	message_usage(cli->command, "--wait wants a number of seconds");
	return false;
}

#define KILL_GRACE_MS 10000
#define AFTER_KILL_MS 5000 /* the Atoll of an ended command has its end to record */

int resolve_end_runs(struct cli *cli, const struct options *o, const char *name, int *wait_ms, struct atoll_error *err)
{
	struct atoll_kill_options options = { .grace_ms = KILL_GRACE_MS };

	if (!options_has(o, "kill"))
		return 0;
	if (*wait_ms >= 0)
		*wait_ms = MAX(*wait_ms, AFTER_KILL_MS);
	return atoll_kill(cli->a, name, &options, NULL, err);
}

bool resolve_keep_alive(struct cli *cli, const struct options *o, int *ret_ms)
{
	const char *text = options_value(o, "keep-alive");

	if (!text || options_seconds(text, ret_ms) == 0)
		return true;
	message_usage(cli->command, "--keep-alive wants a number of seconds");
	return false;
}
