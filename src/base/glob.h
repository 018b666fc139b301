/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns for paths: "src/" "*.c". In each component * and ? stand for what they do in a shell, except that they match a leading dot too;
 * a component ** stands for any number of directories, at the end of a pattern for everything below. Square brackets work beside a * or
 * a ?: a word that has neither is a plain path, because names such as "[id].tsx" are common. A component that equals a name byte for byte
 * matches it too.
 */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include <stdbool.h>

/* Whether the word is a pattern rather than a path. */
bool glob_is_pattern(const char *word);

/* Whether the pattern matches the path or a directory above it. Both are relative to the same directory. */
bool glob_covers(const char *pattern, const char *path);

#endif
