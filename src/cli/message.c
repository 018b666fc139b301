/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/message.h"

#include <stdarg.h>

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

int message_fail(const struct cli *cli, const struct atoll_error *err)
{
	message_error("%s", err->message);
	return cli->command->failure_status ? cli->command->failure_status : atoll_code_exit_status(err->code);
}

int message_oom(const struct cli *cli)
{
	return message_fail(cli, &(struct atoll_error){ .code = ATOLL_FAILED, .message = "out of memory" });
}
