/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns for paths: "src/" "*.c". In each component * and ? mean the same as in a shell, except
 * that they match a leading dot too; a component ** matches any number of directories, and at the
 * end of a pattern everything below. Square brackets are special only in a word that also has a *
 * or a ?; a word without either is a plain path, because names such as "[id].tsx" are common. A
 * component that equals a name byte for byte matches it too.
 */
#ifndef BASE_GLOB_H
#define BASE_GLOB_H

#include <stdbool.h>

/* Returns whether the word is a pattern rather than a path. */
bool glob_is_pattern(const char *word);

/* Returns whether the pattern matches the path or a directory above it. Both are relative to the
 * same directory. */
bool glob_covers(const char *pattern, const char *path);

#endif
