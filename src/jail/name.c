/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The name of a user, as /etc/subuid and /etc/subgid call him.
 *
 * Not by getpwuid(): it loads the modules of the name service, which a program that is linked statically cannot do, and which takes
 * longer than all the rest of a run. /etc/passwd is read here, and the name service is asked, through getent, only where its answer can
 * matter.
 */
#include <fcntl.h>
#include <string.h>

#include "base/child.h"
#include "base/fd.h"
#include "jail/private.h"

#define PASSWD_MAX (1 << 20)
#define GETENT_TIMEOUT_MS 10000

static const char *next_line(const char *line)
{
	const char *end = strchr(line, '\n');

	return end ? end + 1 : NULL;
}

/* Of "name:password:uid:…" the name, if the uid is this one. */
static char *name_in_line(const char *line, uid_t uid)
{
	size_t size = strcspn(line, ":\n");
	const char *at = line[size] == ':' ? line + size + 1 : "";
	char wanted[16];

	at += strcspn(at, ":\n");
	snprintf(wanted, sizeof(wanted), ":%u:", (unsigned)uid);
	return size > 0 && strncmp(at, wanted, strlen(wanted)) == 0 ? strndup(line, size) : NULL;
}

static char *find_name(const char *passwd, uid_t uid)
{
	char *name = NULL;

	for (const char *line = passwd; line && !name; line = next_line(line))
		name = name_in_line(line, uid);
	return name;
}

static bool knows(const char *passwd, const char *name, size_t size)
{
	for (const char *line = passwd; line; line = next_line(line)) {
		if (strncmp(line, name, size) == 0 && line[size] == ':')
			return true;
	}
	return false;
}

/* Whether something is granted to a name that /etc/passwd does not know. */
static bool names_stranger(const char *grants, const char *passwd)
{
	for (const char *line = grants; line; line = next_line(line)) {
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
	return name_in_line(result.output, uid);
}

char *name_of_user(uid_t uid, const char *const *grants)
{
	AUTO_FREE char *text = NULL;
	const char *passwd = fd_read_file(AT_FDCWD, "/etc/passwd", PASSWD_MAX, &text, NULL) < 0 ? "" : text;
	char *name = find_name(passwd, uid);

	for (; *grants && !name; grants++) {
		if (names_stranger(*grants, passwd))
			return ask_name_service(uid);
	}
	return name;
}
