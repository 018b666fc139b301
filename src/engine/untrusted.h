/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Settings of a run of an untrusted command (docs/untrusted.md). The setting "untrusted" stands for others: no network, an
 * environment of hardly any variables, and no way around the view. What contradicts it is an error if it is said together with it
 * or by something stronger, and is overridden where it is weaker.
 */
#ifndef ENGINE_UNTRUSTED_H
#define ENGINE_UNTRUSTED_H

#include <stdbool.h>
#include <stddef.h>

#include <atoll/atoll.h>

/* How many settings there are of each origin, the weakest first; in a list that holds them in this order. */
enum { ORIGIN_DEFAULTS, ORIGIN_SANDBOX, ORIGIN_CALLER, ORIGIN_COUNT };

/* If the list says so, takes out what is overridden, sees to the rest, and adapts the numbers. *ret: whether it says so. */
int untrusted_apply(struct atoll_settings *settings, size_t numbers[ORIGIN_COUNT], bool *ret, struct atoll_error *err);
/* Whether a list of one origin contradicts itself. */
int untrusted_check(const struct atoll_settings *settings, struct atoll_error *err);
/* Whether "NAME=VALUE" looks as if it would let others act for the user: by its name, or a password in an address. */
bool untrusted_is_credential(const char *assignment);

#endif
