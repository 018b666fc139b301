/* SPDX-License-Identifier: Apache-2.0 */
/* Helper programs: without a shell, with a time limit, standard error captured, exit status always examined. */
#ifndef BASE_CHILD_H
#define BASE_CHILD_H

#include <stddef.h>

struct child_result {
	int exit_status;   /* 0..255, or 128 + signal */
	char output[1024]; /* end of its standard error (and output), for messages */
};

/* Runs argv (searched in PATH), waits up to timeout_ms. 0 if it ran and ended by itself (look at exit_status), -ETIMEDOUT
 * after its whole process group was killed and reaped, -ENOENT if there is no such program, else -errno. */
int child_run(char *const argv[], int timeout_ms, struct child_result *ret);

#endif
