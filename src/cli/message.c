/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

/* Declared non-null because gcc with -fsanitize=undefined warns of a null format otherwise. */
__attribute__((nonnull(2), format(printf, 2, 0))) static void print_line(const char *before, const char *format,
									 va_list args, const char *after)
{
	fflush(stdout); /* in order, where both go to one place */
	fputs("atoll: ", stderr);
	fputs(before, stderr);
	vfprintf(stderr, format, args);
	fputs(after, stderr);
	putc('\n', stderr);
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

int message_usage(const struct command *command, const char *format, ...)
{
	char hint[64];
	va_list args;

	snprintf(hint, sizeof(hint), "; see atoll %s%s--help", command ? command->name : "", command ? " " : "");
	va_start(args, format);
	print_line("", format, args, hint);
	va_end(args);
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

int message_fail(const struct cli *cli, const struct atoll_error *err)
{
	message_error("%s%s", err->message, way_out(cli, err));
	return cli->command->failure_status ? cli->command->failure_status : atoll_code_exit_status(err->code);
}

int message_oom(const struct cli *cli)
{
	return message_fail(cli, &(struct atoll_error){ .code = ATOLL_FAILED, .message = "out of memory" });
}
