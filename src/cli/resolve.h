/* SPDX-License-Identifier: Apache-2.0 */
/* Which sandbox, and which paths, the operands of a command mean. */
#ifndef CLI_RESOLVE_H
#define CLI_RESOLVE_H

#include <atoll/atoll.h>

#include "cli/commands.h"

/* Finds the sandbox of that name or, if name is NULL, the only sandbox, or the innermost one
 * around the current directory. */
int resolve_sandbox(struct cli *cli, const char *name, struct atoll_info **ret, struct atoll_error *err);

/*
 * [NAME] [PATH…]: the first operand is the name if a sandbox of that name exists, or if a command
 * without a name would find no sandbox; else all operands are paths in the sandbox that such a
 * command finds. The selection borrows from o. Words after "--" are always paths.
 */
struct resolve_target {
	struct atoll_info *info;
	const char *word; /* the first operand, if the function took it for a path; else NULL */
	const char **paths;
	struct atoll_selection selection;
};
int resolve_target(struct cli *cli, const struct options *o, struct resolve_target *ret, struct atoll_error *err);
/* The same without asking: the first operand is taken for the name. False if it cannot be one, or memory ran out. There is no info. */
bool resolve_presumed(const struct options *o, struct resolve_target *ret);
/* To be called when the library found no such path: if the word may be a misspelt name, adds
 * that to *err. Returns r or the code of *err. */
int resolve_failed(const struct cli *cli, const struct resolve_target *t, int r, struct atoll_error *err);
void resolve_target_release(struct resolve_target *t);

/* The wait_ms that --wait means; false after a usage error was printed. */
/* With --kill: ends what runs in the sandbox, and waits a little for who looks after it. 0, or a negative code. */
int resolve_end_runs(struct cli *cli, const struct options *o, const char *name, int *wait_ms, struct atoll_error *err);
bool resolve_wait(struct cli *cli, const struct options *o, int *ret_ms);

/* What --keep-alive says, if it was given; false after a usage error was printed. */
bool resolve_keep_alive(struct cli *cli, const struct options *o, int *ret_ms);

static inline void resolve_info_release(struct atoll_info **info)
{
	*info = atoll_info_free(*info);
}

#define AUTO_INFO CLEANUP(resolve_info_release) struct atoll_info
#define AUTO_TARGET CLEANUP(resolve_target_release) struct resolve_target

#endif
