/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of /etc/passwd and /etc/group, read without the modules of the name service: those cannot be had in a program that
 * is linked statically, and take longer to load than all the rest of a run.
 */
#ifndef BASE_ACCOUNTS_H
#define BASE_ACCOUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define ACCOUNTS_MAX (1 << 20) /* no file is larger */

/* The numbers of fields: of both files 0 is the name. */
enum { PASSWD_UID = 2, PASSWD_GID = 3, PASSWD_HOME = 5, GROUP_GID = 2, GROUP_MEMBERS = 3 };

/* The next line of a text, or NULL. */
const char *accounts_next(const char *line);
/* A field of a line; of size 0 if there is none. */
const char *accounts_field(const char *line, int number, size_t *ret_size);
bool accounts_field_is(const char *line, int number, const char *text);
bool accounts_field_is_id(const char *line, int number, unsigned id);
/* A field of the line of a user, malloc'ed, or NULL; text: that of /etc/passwd. */
char *accounts_of_user(const char *text, uid_t uid, int number);

#endif
