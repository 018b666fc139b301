/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files behind atoll_doctor(). */
#ifndef ENGINE_DOCTOR_H
#define ENGINE_DOCTOR_H

#include "engine/engine.h"

struct checks {
	struct atoll_check *v;
	size_t n;
};

/* Takes ownership of the finding, also on failure. Returns 0, or -ENOMEM, also for a finding of
 * NULL. advice may be NULL. */
int checks_add(struct checks *c, const char *name, enum atoll_check_status status, char *finding, const char *advice);

/* doctor-life.c: tries a whole life of a sandbox in a temporary directory; one check for each step,
 * "try-new" to "try-rm", up to the step that failed. */
int doctor_life(struct checks *c);

#endif
