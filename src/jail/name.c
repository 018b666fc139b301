/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a user, as /etc/subuid and /etc/subgid call him.
 *
 * Does not call getpwuid() (see accounts.h). It reads /etc/passwd, and asks the name service,
 * through getent, only if its answer can matter.
 */
#include <fcntl.h>
#include <string.h>

#include "base/accounts.h"
#include "base/child.h"
#include "base/fd.h"
#include "jail/private.h"

#define GETENT_TIMEOUT_MS 10000

static bool knows(const char *passwd, const char *name, size_t size)
{
	for (const char *line = passwd; line; line = accounts_next(line)) {
		if (strncmp(line, name, size) == 0 && line[size] == ':')
			return true;
	}
	return false;
}

/* Whether something is granted to a name that /etc/passwd does not know. */
static bool names_stranger(const char *grants, const char *passwd)
{
	for (const char *line = grants; line; line = accounts_next(line)) {
		size_t size = strcspn(line, ":\n");

		if (line[size] == ':' && strspn(line, "0123456789") != size && !knows(passwd, line, size))
			return true;
	}
	return false;
}

static char *ask_name_service(uid_t uid)
{
	char number[16];
	char *argv[] = { (char *)"getent", (char *)"passwd", number, NULL };
	struct child_result result;

	snprintf(number, sizeof(number), "%u", (unsigned)uid);
	if (child_run(argv, GETENT_TIMEOUT_MS, &result) < 0 || result.exit_status != 0)
		return NULL;
	return accounts_of_user(result.output, uid, 0);
}

char *name_of_user(uid_t uid, const char *const *grants)
{
	AUTO_FREE char *text = NULL;
	const char *passwd = fd_read_file(AT_FDCWD, "/etc/passwd", ACCOUNTS_MAX, &text, NULL) < 0 ? "" : text;
	char *name = accounts_of_user(passwd, uid, 0);

	for (; *grants && !name; grants++) {
		if (names_stranger(*grants, passwd))
			return ask_name_service(uid);
	}
	return name;
}
