/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a keeper and those who ask it say to each other. Both are of one version, or do not understand each other. Read by
 * src/cli/start.c too, which has no C library.
 */
#ifndef ENGINE_SERVED_MESSAGE_H
#define ENGINE_SERVED_MESSAGE_H

#include <stdint.h>

#include <atoll/atoll.h>

#include "jail/jail.h"

#define SERVED_DIR "live"  /* of the state directory; in it a socket for each sandbox that is kept, by its name */
#define SERVED_NAME_MAX 80 /* of a sandbox that can be reached */

/* Then follows a struct jail_request with the environment as it is: the keeper fills in and takes out. */
struct served_question {
	char version[32];
	uint64_t blocked;      /* signals */
	uint32_t has_settings; /* who asks has read the config files; otherwise there must be none */
};

/* Sent twice: when it begins, and at the end. */
struct served_answer {
	int64_t run;
	int32_t code;
	struct atoll_run_result result;
	struct atoll_error error;
};

/* What start.c has got done before the program began: it must not be done again. */
enum served_early { SERVED_NOT_YET, SERVED_ANSWERED, SERVED_LOST };
extern __attribute__((visibility("hidden"))) enum served_early served_early;
extern __attribute__((visibility("hidden"))) struct served_answer served_early_answer;

#endif
