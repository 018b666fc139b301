/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a run of an untrusted command (docs/untrusted.md). The setting "untrusted" implies
 * others: no network, hardly any environment variable, and no way around the view. A setting that
 * contradicts it is an error if its origin is the same or a stronger one; otherwise "untrusted"
 * overrides it.
 */
#ifndef ENGINE_UNTRUSTED_H
#define ENGINE_UNTRUSTED_H

#include <stdbool.h>
#include <stddef.h>

#include <atoll/atoll.h>

/* The number of settings of each origin, in a list that holds the origins in this order, the
 * weakest first. */
enum { ORIGIN_DEFAULTS, ORIGIN_SANDBOX, ORIGIN_CALLER, ORIGIN_COUNT };

/* Sets *ret to whether the run is untrusted. If it is, removes the overridden settings from the
 * list, adapts the numbers, and refuses contradictions. */
int untrusted_apply(struct atoll_settings *settings, size_t numbers[ORIGIN_COUNT], bool *ret, struct atoll_error *err);
/* Whether a list of one origin contradicts itself. */
int untrusted_check(const struct atoll_settings *settings, struct atoll_error *err);
/* Whether "NAME=VALUE" looks like a credential: by its name, or by a password in an address. */
bool untrusted_is_credential(const char *assignment);

#endif
