/* SPDX-License-Identifier: Apache-2.0 */
/* Helper programs: without a shell, with a time limit, standard error captured, exit status always examined. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stddef.h>
#include <sys/types.h>

struct child_result {
	int exit_status;   /* 0..255, or 128 + signal */
	char output[1024]; /* end of its standard error (and output), for messages */
};

/* A helper that was started. Each is waited for. */
struct child {
	pid_t pid;
	int pidfd, output;
};

/* What it reads and writes, and its environment. */
struct child_io {
	int input, output; /* -EBADF: nothing is read; what is written goes where standard error goes */
	char *const *env;  /* NULL: the caller's */
};

/* Starts argv (searched in PATH). 0, -ENOENT if there is no such program, else -errno. */
int child_start(char *const argv[], struct child *ret);
int child_start_with(char *const argv[], const struct child_io *io, struct child *ret);
/* Waits up to timeout_ms. 0 if it ended by itself (look at exit_status), -ETIMEDOUT after its whole process group was killed and
 * reaped, else -errno. */
int child_wait(struct child *c, int timeout_ms, struct child_result *ret);
/* Both. */
int child_run(char *const argv[], int timeout_ms, struct child_result *ret);

#endif
