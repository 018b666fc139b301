/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options as data, and the one parser for all of them.
 *
 * A command's options are an array of struct option_spec, ended by one without a name. Help, man pages and completions
 * are printed from the same array. Options may stand before and after operands, up to "--"; what follows that is kept
 * apart (`rest`), because `run` has to tell its own words from those of the command.
 */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/macros.h"

/* What a shell may offer for an argument or operand. */
enum option_completion {
	COMPLETE_NONE,
	COMPLETE_DIRECTORY,
	COMPLETE_FILE,
	COMPLETE_SANDBOX,
	COMPLETE_SANDBOX_OR_FILE,
	COMPLETE_STRATEGY,
	COMPLETE_TOPIC,
	COMPLETE_WORDS, /* those of `values` */
};

struct option_spec {
	const char *name;     /* long, without the dashes */
	const char *argument; /* NULL: takes none; in brackets: may be left out */
	const char *values;   /* NULL, or the only words allowed, separated by spaces */
	const char *help;     /* one sentence, without a full stop */
	enum option_completion completion;
	char letter; /* short form, or 0 */
};

struct option_use {
	const struct option_spec *spec;
	const char *value; /* NULL: none was given */
};

struct options {
	const struct option_spec *own, *common;
	struct option_use *uses;
	size_t n_uses;
	char **operands; /* before "--", or without it */
	size_t n_operands;
	char **rest; /* after "--", NULL-terminated; borrowed from argv */
	size_t n_rest;
	int next; /* with stop_at_operand: the index of the first operand */
};

#define OPTIONS_MESSAGE_SIZE 256

/* argv[0] is skipped. common may be NULL. With stop_at_operand the first operand ends the options and is not consumed.
 * 0, -EINVAL with one line in message, or -ENOMEM. */
int options_parse(int argc, char **argv, const struct option_spec *own, const struct option_spec *common,
		  bool stop_at_operand, struct options *ret, char message[OPTIONS_MESSAGE_SIZE]);
void options_release(struct options *o);

/* name must be one of the specs. options_value gives the last value, or NULL. */
bool options_has(const struct options *o, const char *name);
const char *options_value(const struct options *o, const char *name);

/* "5" or "0.25" seconds in milliseconds; -EINVAL if it is anything else, negative, or beyond three weeks. */
int options_seconds(const char *text, int *ret_ms);

#define AUTO_OPTIONS CLEANUP(options_release) struct options

#endif
