/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a command without network tried to use it, from the kernel's own counters: nothing has to watch, and a run that never tries
 * pays nothing.
 */
#include <fcntl.h>
#include <string.h>

#include "net/private.h"

/* The value below a heading: "Proto: A B C\nProto: 1 2 3\n". */
static uint64_t counter(const char *text, const char *protocol, const char *heading)
{
	const char *names = strstr(text, protocol), *values = names ? strstr(names + 1, protocol) : NULL;
	size_t size = strlen(heading);

	while (values && (names = strchr(names, ' ')) && (values = strchr(values, ' '))) {
		names++;
		values++;
		if (strncmp(names, heading, size) == 0 && (names[size] == ' ' || names[size] == '\n'))
			return strtoull(values, NULL, 10);
	}
	return 0;
}

static size_t read_all(const char *path, char *text, size_t size)
{
	AUTO_FD fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t n;

	while (fd >= 0 && used < size - 1 && (n = read(fd, text + used, size - 1 - used)) > 0)
		used += (size_t)n;
	text[used] = '\0';
	return used;
}

uint64_t net_attempts(void)
{
	char text[8192];
	const char *v6;
	uint64_t n = 0;

	/* A name server on the loopback, as many machines have it, is not there inside: its packets find no port. */
	if (read_all("/proc/self/net/snmp", text, sizeof(text)) > 0)
		n = counter(text, "Ip: ", "OutNoRoutes") + counter(text, "Udp: ", "NoPorts");
	if (read_all("/proc/self/net/snmp6", text, sizeof(text)) > 0 && (v6 = strstr(text, "Ip6OutNoRoutes")))
		n += strtoull(v6 + strlen("Ip6OutNoRoutes"), NULL, 10);
	return n;
}
