/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths git ignores: asked of git once for all paths of a resource. */
#ifndef CLI_GIT_IGNORED_H
#define CLI_GIT_IGNORED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * paths are relative to the directory dir; ret[i] becomes true if git says that it ignores paths[i]. It stays as it is for paths about which
 * nothing is known: if dir lies in no working tree, if there is no git, and from where git stops. If its time is up it stays so for all: half an
 * answer would look like a whole one.
 */
void git_ignored(const char *dir, const char *const *paths, size_t n, bool *ret);

#endif
