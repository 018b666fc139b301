/* SPDX-License-Identifier: Apache-2.0 */
/* Shell completion scripts from the tables. Names of sandboxes are asked of `atoll list --quiet` when needed. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include <stdio.h>

void completion_print_bash(FILE *out);
void completion_print_zsh(FILE *out);
void completion_print_fish(FILE *out);

#endif
