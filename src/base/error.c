/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"

/* The one table of codes: library, exit status, help and documentation are fed from it. */
static const struct {
	const char *name;
	int exit_status;
	const char *meaning;
} codes[] = {
	[ATOLL_OK] = { "ok", 0, "Everything asked for was done." },
	[ATOLL_FAILED] = { "failed", 1, "A system call or an internal check failed." },
	[ATOLL_INVALID] = { "invalid", 2, "An argument is malformed." },
	[ATOLL_CONFLICT] = { "conflict", 3, "Somebody else changed the original meanwhile; nothing was changed." },
	[ATOLL_REFUSED] = { "refused", 4, "Refused by policy or by a check beforehand." },
	[ATOLL_NOT_FOUND] = { "not-found", 5, "There is no such sandbox, path or commit." },
	[ATOLL_BUSY] = { "busy", 6, "In use by another process or thread." },
	[ATOLL_IN_DOUBT] = { "in-doubt", 7, "Something is left for recover, or for a human." },
	[ATOLL_EXISTS] = { "exists", 4, "A sandbox of that name is there already." },
	[ATOLL_STATE] = { "state", 4, "Not possible in the sandbox's present state." },
	[ATOLL_UNSUPPORTED] = { "unsupported", 4, "This strategy or this machine cannot do it." },
	[ATOLL_NO_SPACE] = { "no-space", 4, "Space, inodes or quota do not suffice." },
	[ATOLL_CORRUPT] = { "corrupt", 1, "The state database is damaged or from a newer version." },
	[ATOLL_TIMEOUT] = { "timeout", 1, "A time limit passed." },
};
_Static_assert(ARRAY_SIZE(codes) == ATOLL_CODE_COUNT, "every code has its row");

static bool is_code(enum atoll_code code)
{
	return (unsigned)code < ATOLL_CODE_COUNT;
}

const char *atoll_code_name(enum atoll_code code)
{
	return is_code(code) ? codes[code].name : "unknown";
}

const char *atoll_code_meaning(enum atoll_code code)
{
	return is_code(code) ? codes[code].meaning : "Not a code of this version.";
}

int atoll_code_exit_status(enum atoll_code code)
{
	return is_code(code) ? codes[code].exit_status : 1;
}

const char *atoll_version(void)
{
	return ATOLL_VERSION;
}

/* Copies text, escaping what is not printable; what does not fit is cut between characters and marked. */
static void copy_safely(char *to, size_t size, const char *text)
{
	static const char mark[] = "…";
	size_t used = 0, fits = 0;

	while (*text) {
		char escape[8];
		size_t n = utf8_printable(text);
		const char *piece = text;

		if (n > 0) {
			text += n;
		} else {
			const char *short_form = *text == '\n'   ? "\\n"
						 : *text == '\t' ? "\\t"
						 : *text == '\r' ? "\\r"
								 : NULL;

			n = (size_t)snprintf(escape, sizeof(escape), "\\x%02x", (unsigned)(unsigned char)*text);
			if (short_form)
				n = (size_t)snprintf(escape, sizeof(escape), "%s", short_form);
			piece = escape;
			text++;
		}
		if (used + n >= size) {
			memcpy(to + fits, mark, sizeof(mark));
			return;
		}
		memcpy(to + used, piece, n);
		used += n;
		if (used + sizeof(mark) <= size)
			fits = used;
	}
	to[used] = '\0';
}

/* Format results are made here first: the arguments may point into the struct that is to be filled. */
#define TEXT_SIZE 4096

static void fill(struct atoll_error *err, enum atoll_code code, int sys_errno, const char *operation,
		 const char *object, const char *text)
{
	struct atoll_error e = { .code = code, .sys_errno = sys_errno };

	copy_safely(e.operation, sizeof(e.operation), operation ? operation : "");
	copy_safely(e.object, sizeof(e.object), object ? object : "");
	copy_safely(e.message, sizeof(e.message), text);
	*err = e;
}

int(error_set)(struct atoll_error *err, enum atoll_code code, int sys_errno, const char *operation, const char *object,
	       const char *format, ...)
{
	char text[TEXT_SIZE];
	va_list args;

	if (err) {
		va_start(args, format);
		vsnprintf(text, sizeof(text), format, args);
		va_end(args);
		fill(err, code, abs(sys_errno), operation, object, text);
	}
	return -(int)code;
}

static enum atoll_code code_of_errno(int sys_errno)
{
	switch (sys_errno) {
	case ENOSPC:
	case EDQUOT:
		return ATOLL_NO_SPACE;
	case ETXTBSY:
		return ATOLL_BUSY;
	case EROFS:
	case EACCES:
	case EPERM:
		return ATOLL_REFUSED;
	default:
		return ATOLL_FAILED;
	}
}

int(error_sys)(struct atoll_error *err, int sys_errno, const char *operation, const char *object, const char *format,
	       ...)
{
	enum atoll_code code = code_of_errno(abs(sys_errno));
	const char *reason = strerrordesc_np(abs(sys_errno));
	char text[TEXT_SIZE], safe[sizeof(err->message)];
	va_list args;

	if (!err)
		return -(int)code;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	if (!reason)
		reason = "unknown error";
	/* The reason is the part people need: a long name is shortened before it, not instead of it. */
	copy_safely(safe, sizeof(safe) - strlen(reason) - 2, text);
	snprintf(text, sizeof(text), "%s: %s", safe, reason);
	fill(err, code, abs(sys_errno), operation, object, text);
	return -(int)code;
}

int(error_oom)(struct atoll_error *err, const char *operation)
{
	return error_set(err, ATOLL_FAILED, ENOMEM, operation, NULL, "out of memory");
}
