/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a run of an untrusted command (docs/untrusted.md). The setting "untrusted" stands for
 * others: no network, an environment of hardly any variables, and no way around the view. What
 * contradicts it is an error if it is said together with it or by something stronger, and is
 * overridden where it is weaker.
 */
#ifndef ENGINE_UNTRUSTED_H
#define ENGINE_UNTRUSTED_H

#include <stdbool.h>
#include <stddef.h>

#include <atoll/atoll.h>

/* The number of settings of each origin, in a list that holds the origins in this order, the weakest
 * first. */
enum { ORIGIN_DEFAULTS, ORIGIN_SANDBOX, ORIGIN_CALLER, ORIGIN_COUNT };

/* Sets *ret to whether the list says "untrusted". If so, removes the overridden settings, adapts the
 * numbers, and refuses contradictions. */
int untrusted_apply(struct atoll_settings *settings, size_t numbers[ORIGIN_COUNT], bool *ret, struct atoll_error *err);
/* Whether a list of one origin contradicts itself. */
int untrusted_check(const struct atoll_settings *settings, struct atoll_error *err);
/* Whether "NAME=VALUE" looks like a credential: by its name, or by a password in an address. */
bool untrusted_is_credential(const char *assignment);

#endif
