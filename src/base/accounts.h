/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the lines of /etc/passwd and /etc/group without the NSS modules of libc: a statically
 * linked program cannot load these modules, and loading them takes longer than all the rest of a
 * run.
 */
#ifndef BASE_ACCOUNTS_H
#define BASE_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ACCOUNTS_MAX (1 << 20) /* maximum size of a file */

/* Field numbers; field 0 is the name in both files. */
enum { PASSWD_UID = 2, PASSWD_GID = 3, PASSWD_HOME = 5, GROUP_GID = 2, GROUP_MEMBERS = 3 };

/* Returns the next line of a text, or NULL. */
const char *accounts_next(const char *line);
/* Returns a field of a line; its size is 0 if the line has no such field. */
const char *accounts_field(const char *line, int number, size_t *ret_size);
bool accounts_field_is(const char *line, int number, const char *text);
bool accounts_field_is_id(const char *line, int number, unsigned id);
/* Returns a field of a user's line, malloc'ed, or NULL. text is the content of /etc/passwd. */
char *accounts_of_user(const char *text, uid_t uid, int number);

#endif
