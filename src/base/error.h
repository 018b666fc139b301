/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making a struct atoll_error in one line and returning it.
 *
 *	return error_set(err, ATOLL_NOT_FOUND, 0, "show", name, "there is no sandbox \"%s\"", name);
 *
 * A message is one line, names the object in quotes, says what failed and what to do. All functions accept err == NULL.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <atoll/atoll.h>

#include "base/macros.h"

/* Fills *err and returns -code. object may be NULL. Control characters in the message become escapes. */
int error_set(struct atoll_error *err, enum atoll_code code, int sys_errno, const char *operation, const char *object,
	      const char *format, ...) PRINTF_LIKE(6, 7);

/* For a failed system call: the code is chosen by the errno (ENOSPC, EDQUOT -> NO_SPACE; ETXTBSY -> BUSY; EROFS,
 * EACCES, EPERM -> REFUSED; ENOMEM and the rest -> FAILED) and ": <strerror>" is appended. sys_errno may be negative. */
int error_sys(struct atoll_error *err, int sys_errno, const char *operation, const char *object, const char *format,
	      ...) PRINTF_LIKE(5, 6);

/* Out of memory. */
int error_oom(struct atoll_error *err, const char *operation);

/* All of them return a negative number: told to compilers and analyzers, which cannot see into them. */
static inline int error_is_negative(int code)
{
	if (code >= 0)
		__builtin_unreachable();
	return code;
}
#define error_set(...) error_is_negative(error_set(__VA_ARGS__))
#define error_sys(...) error_is_negative(error_sys(__VA_ARGS__))
#define error_oom(...) error_is_negative(error_oom(__VA_ARGS__))

#endif
