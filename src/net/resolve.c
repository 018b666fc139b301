/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a name means on this machine, by getent: it knows /etc/hosts, DNS and whatever else the name service is set up for. Not by
 * getaddrinfo(), which waits, and which a program that is linked statically cannot fully do.
 */
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "net/private.h"

int resolve_start(struct resolve *r, const char *name, bool whole)
{
	char text[NET_NAME_SIZE + 1];
	char *argv[] = { (char *)"getent", (char *)"ahosts", (char *)"--", text, NULL };

	snprintf(text, sizeof(text), "%s%s", name, whole ? "." : "");
	r->size = 0;
	return child_start(argv, &r->child);
}

int resolve_read(struct resolve *r)
{
	char rest[512];

	for (;;) {
		bool full = r->size == sizeof(r->text) - 1;
		ssize_t n = read(r->child.output, full ? rest : r->text + r->size,
				 full ? sizeof(rest) : sizeof(r->text) - 1 - r->size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : 1;
		if (n == 0)
			return 1;
		r->size += full ? 0 : (size_t)n;
	}
}

static bool is_known(const struct net_address *a, size_t n, const struct net_address *one)
{
	for (size_t i = 0; i < n; i++)
		if (address_equal(&a[i], one))
			return true;
	return false;
}

/* Lines "ADDRESS TYPE [NAME]", each address once for each type of socket. */
static int read_addresses(char *text, struct net_address *ret)
{
	size_t n = 0;

	for (char *line; n < RESOLVE_MAX && (line = strsep(&text, "\n"));) {
		struct net_address a;

		line[strcspn(line, " \t")] = '\0';
		if (address_parse(line, &a) == 0 && !is_known(ret, n, &a))
			ret[n++] = a;
	}
	return (int)n;
}

int resolve_end(struct resolve *r, struct net_address *ret)
{
	struct child_result result;
	int status = child_wait(&r->child, 1000, &result);

	if (status < 0)
		return status;
	if (result.exit_status != 0)
		return result.exit_status == 2 ? 0 : -EIO;
	r->text[r->size] = '\0';
	return read_addresses(r->text, ret);
}

void resolve_kill(struct resolve *r)
{
	struct child_result result;

	(void)child_wait(&r->child, 0, &result);
}
