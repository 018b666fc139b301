/* SPDX-License-Identifier: Apache-2.0 */
/* Telling UTF-8 from other bytes in file names, and what a terminal may be shown from what it may not. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes (1..4) the valid UTF-8 sequence at the start of text takes; 0 if there is none, or at the end of text. Over-long
 * forms, surrogates and what lies above U+10FFFF are not valid. */
size_t utf8_sequence(const char *text);

/* As utf8_sequence(). *ret_character becomes its code point, only if the sequence is valid. */
size_t utf8_decode(const char *text, uint32_t *ret_character);

/*
 * As utf8_sequence(), but also returns 0 for characters that could change a terminal's state or the
 * look of the text around them: control characters (C0, DEL, C1), line and paragraph separators,
 * changes of writing direction.
 */
size_t utf8_printable(const char *text);

#endif
