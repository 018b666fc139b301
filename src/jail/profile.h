/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles: filters that a user gives a command beside that of calls.h, which always stands. Of two filters the kernel does what the
 * stricter one says, so that a profile can take away and never give.
 *
 * A profile is a list of rules, tried in order; the first that holds decides, else the fallback does. What calls.h refuses is left to it:
 * a program that asks for a call which does not exist here must hear so, and not what the profile says.
 */
#ifndef JAIL_PROFILE_H
#define JAIL_PROFILE_H

#include <linux/filter.h>

#include "jail/calls.h"
#include "jail/private.h"

#define PROFILE_CALLS (CALLS_LAST_JUDGED + 1)
#define PROFILE_ARGUMENTS 6

enum profile_test {
	PROFILE_EQ,
	PROFILE_NE,
	PROFILE_LT,
	PROFILE_LE,
	PROFILE_GE,
	PROFILE_GT,
	PROFILE_MASKED_EQ, /* the bits of `value` are those of `second` */
};

struct profile_condition {
	unsigned index; /* of the argument */
	enum profile_test test;
	uint64_t value, second;
};

struct profile_rule {
	bool calls[PROFILE_CALLS];
	uint32_t action; /* SECCOMP_RET_… */
	struct profile_condition conditions[PROFILE_ARGUMENTS];
	size_t n_conditions; /* all of which must hold */
};

struct jail_profile {
	bool is_strict;
	struct sock_filter *code;
	size_t n;
	unsigned refused, conditional; /* calls that it refuses, and those of which the arguments decide */
};

/* ---- profile-code.c ---- */

/* 0, -ENOMEM, -E2BIG if the filter would be longer than the kernel takes, or -EACCES if nothing could be executed. */
int profile_compile(struct jail_profile *p, const struct profile_rule *rules, size_t n_rules, uint32_t fallback,
		    bool userns);

/* ---- wall-seccomp.c ---- */

int filter_number(const char *name);          /* -1: none here; -ENOENT: none anywhere */
bool filter_has(int number);                  /* whether it is one of a call */
bool filter_refuses(int number, bool userns); /* whatever its arguments */

#endif
