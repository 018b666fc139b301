/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "base/error.h"
#include "base/similar.h"
#include "cli/output.h"

/* Lines that are held until Atoll has listed the changes. */
static struct {
	bool on;
	struct strbuf text;
} held;

/* Declared non-null because gcc with -fsanitize=undefined warns of a null format otherwise. */
__attribute__((nonnull(2), format(printf, 2, 0))) static void print_line(const char *before, const char *format,
									 va_list args, const char *after)
{
	AUTO_FREE char *text = NULL;

	if (held.on) {
		if (vasprintf(&text, format, args) < 0)
			text = NULL;
		strbuf_addf(&held.text, "atoll: %s%s%s\n", before, text ? text : format, after);
		return;
	}
	fflush(stdout); /* in order, where both go to one place */
	output_stderr_to_end();
	fputs("atoll: ", stderr);
	fputs(before, stderr);
	vfprintf(stderr, format, args);
	fputs(after, stderr);
	putc('\n', stderr);
}

void message_hold(bool on)
{
	held.on = on;
}

const char *message_held(void)
{
	return strbuf_str(&held.text);
}

void message_release(void)
{
	held.on = false;
	fflush(stdout);
	fputs(message_held(), stderr);
	strbuf_release(&held.text);
}

void message_error(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line("", format, args, "");
	va_end(args);
}

void message_warning(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	print_line("warning: ", format, args, "");
	va_end(args);
}

/* ---- the JSON form of a failure ---- */

/* The program's answer with --json: the command's own document, or else the first error. */
static struct {
	bool wanted, answered, failed;
	struct atoll_error error;
} answer;

void message_json_want(bool wanted)
{
	answer.wanted = wanted;
}

void message_json_begin(struct json *j)
{
	answer.answered = true;
	json_init(j, stdout, true);
}

/* The JSON message is the same text that standard error gets, with its advice. */
static void remember(const struct atoll_error *err, const char *message)
{
	struct atoll_error e = *err;

	if (answer.failed)
		return;
	if (message != err->message)
		(void)error_set(&e, err->code, err->sys_errno, err->operation, err->object, "%s", message);
	answer.error = e;
	answer.failed = true;
}

void message_json_error(struct json *j, const struct atoll_error *err, int exit_status)
{
	json_object(j, "error");
	json_string(j, "code", atoll_code_name(err->code));
	json_int(j, "exit_status", exit_status);
	json_int(j, "errno", err->sys_errno);
	json_string(j, "operation", err->operation);
	json_string(j, "object", err->object);
	json_string(j, "message", err->message);
	json_object_end(j);
}

int message_json_finish(int status)
{
	struct json j;

	if (!answer.wanted || answer.answered || !answer.failed || status == 0)
		return status;
	message_json_begin(&j);
	json_object(&j, NULL);
	json_bool(&j, "success", false);
	message_json_error(&j, &answer.error, status);
	json_object_end(&j);
	json_finish(&j);
	return status;
}

/* ---- failures ---- */

int message_usage(const struct command *command, const char *format, ...)
{
	AUTO_FREE char *text = NULL;
	AUTO_STRBUF line = STRBUF_INIT;
	struct atoll_error err = { .code = ATOLL_INVALID };
	va_list args;

	va_start(args, format);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	va_end(args);
	strbuf_addf(&line, "%s; see atoll %s%s--help", text ? text : format, command ? command->name : "",
		    command ? " " : "");
	message_error("%s", strbuf_str(&line));
	(void)error_set(&err, ATOLL_INVALID, 0, command ? command->name : "atoll", NULL, "%s", strbuf_str(&line));
	remember(&err, err.message);
	return atoll_code_exit_status(ATOLL_INVALID);
}

static bool offers(const struct cli *cli, const char *option)
{
	for (const struct option_spec *o = cli->command->options; o && o->name; o++)
		if (strcmp(o->name, option) == 0)
			return true;
	return false;
}

/* What this command has against a sandbox that is in use. */
static const char *way_out(const struct cli *cli, const struct atoll_error *err)
{
	if (err->code != ATOLL_BUSY || strcmp(err->operation, "lock") != 0)
		return "";
	if (err->sys_errno == EBUSY && offers(cli, "wait") && offers(cli, "kill"))
		return "; wait for it with --wait, or end it with --kill";
	return offers(cli, "wait") ? "; wait for it with --wait" : "; try again later";
}

void message_add_nearest(const struct cli *cli, const char *word, struct strbuf *s)
{
	struct similar near = similar_to(word);
	struct atoll_info **list = NULL;
	struct atoll_error ignored;
	size_t n = 0;

	if (!cli->a || atoll_list(cli->a, &list, &n, &ignored) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		similar_try(&near, list[i]->name);
	if (near.best)
		strbuf_addf(s, "; did you mean \"%s\"?", near.best);
	atoll_info_list_free(list, n);
}

/* For a name that no sandbox has. A message that asks "did you mean" already names the nearest
 * one. */
static void add_nearest_name(const struct cli *cli, const struct atoll_error *err, struct strbuf *s)
{
	if (err->code == ATOLL_NOT_FOUND && strcmp(err->operation, "open") == 0 && *err->object &&
	    !strstr(err->message, "did you mean"))
		message_add_nearest(cli, err->object, s);
}

int message_fail(const struct cli *cli, const struct atoll_error *err)
{
	AUTO_STRBUF line = STRBUF_INIT;

	strbuf_adds(&line, err->message);
	add_nearest_name(cli, err, &line);
	strbuf_adds(&line, way_out(cli, err));
	message_error("%s", strbuf_str(&line));
	remember(err, strbuf_str(&line));
	return cli->command->failure_status ? cli->command->failure_status : atoll_code_exit_status(err->code);
}

int message_oom(const struct cli *cli)
{
	return message_fail(cli, &(struct atoll_error){ .code = ATOLL_FAILED, .message = "out of memory" });
}
