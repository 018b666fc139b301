/* SPDX-License-Identifier: Apache-2.0 */
/* Help for a terminal, printed from the tables. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "base/strbuf.h"
#include "cli/commands.h"
#include "cli/topics.h"

void help_print_overview(FILE *out);
void help_print_command(const struct command *command, FILE *out);
void help_print_topic(const struct topic *topic, FILE *out);

/* "atoll run [OPTION]… [NAME] -- COMMAND [ARGUMENT]…" */
void help_add_usage(struct strbuf *s, const struct command *command);
/* "-m, --message=MESSAGE" */
void help_add_option(struct strbuf *s, const struct option_spec *spec);

#endif
