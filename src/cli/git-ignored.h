/* SPDX-License-Identifier: Apache-2.0 */
/* Asks git, once for all paths of a resource, which of them it ignores. */
#ifndef CLI_GIT_IGNORED_H
#define CLI_GIT_IGNORED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * paths are relative to the directory dir. ret[i] becomes true if git reports that it ignores
 * paths[i]. The function leaves ret[i] unchanged for paths without an answer: if dir lies in no
 * working tree, if git is not installed, and for the paths after which git stopped. On a timeout it
 * leaves all of ret unchanged, because half an answer would look like a complete one.
 */
void git_ignored(const char *dir, const char *const *paths, size_t n, bool *ret);

#endif
