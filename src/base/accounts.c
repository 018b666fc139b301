/* SPDX-License-Identifier: Apache-2.0 */
#include "base/accounts.h"

#include <stdio.h>
#include <string.h>

#include "base/macros.h"

const char *accounts_next(const char *line)
{
	const char *end = strchr(line, '\n');

	return end && end[1] ? end + 1 : NULL;
}

const char *accounts_field(const char *line, int number, size_t *ret_size)
{
	size_t end = strcspn(line, "\n");
	const char *at = line;

	for (; number > 0 && at; number--) {
		at = memchr(at, ':', end - (size_t)(at - line));
		at = at ? at + 1 : NULL;
	}
	*ret_size = at ? strcspn(at, ":\n") : 0;
	return at ? at : line + end;
}

bool accounts_field_is(const char *line, int number, const char *text)
{
	size_t size;
	const char *field = accounts_field(line, number, &size);

	return size == strlen(text) && memcmp(field, text, size) == 0;
}

bool accounts_field_is_id(const char *line, int number, unsigned id)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", id);
	return accounts_field_is(line, number, text);
}

char *accounts_of_user(const char *text, uid_t uid, int number)
{
	for (const char *line = text; line; line = accounts_next(line)) {
		size_t size, name_size;
		const char *field = accounts_field(line, number, &size);

		(void)accounts_field(line, 0, &name_size);
		if (size > 0 && name_size > 0 && accounts_field_is_id(line, PASSWD_UID, uid))
			return strndup(field, size);
	}
	return NULL;
}
