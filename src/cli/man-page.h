/* SPDX-License-Identifier: Apache-2.0 */
/* Man pages, in the man(7) macros, from the tables: atoll(1), and atoll-COMMAND(1) for each command. */
#ifndef CLI_MAN_PAGE_H
#define CLI_MAN_PAGE_H

#include <stdio.h>

#include "cli/commands.h"

void man_page_print_overview(FILE *out);
void man_page_print_command(const struct command *command, FILE *out);

#endif
