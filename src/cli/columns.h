/* SPDX-License-Identifier: Apache-2.0 */
/* The width of a text on a terminal, and shortening a text to a width. */
#ifndef CLI_COLUMNS_H
#define CLI_COLUMNS_H

#include "base/strbuf.h"

size_t columns_of(const char *text);
/* Adds the text. If it is wider than the columns, an ellipsis replaces its middle: the beginning
 * and the end are the most telling parts of a path. */
void columns_add_shortened(struct strbuf *s, const char *text, size_t columns);

#endif
