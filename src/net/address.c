/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of both kinds, alike. */
#include <arpa/inet.h>
#include <string.h>

#include "net/private.h"

/* ::ffff:a.b.c.d is a.b.c.d written in another way, and goes where that goes. */
static void unmap(struct net_address *a)
{
	struct in_addr v4;

	if (a->family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&a->v6))
		return;
	memcpy(&v4, a->v6.s6_addr + 12, sizeof(v4));
	*a = (struct net_address){ .family = AF_INET, .v4 = v4 };
}

int address_parse(const char *text, struct net_address *ret)
{
	struct net_address a = { .family = AF_INET };

	if (inet_pton(AF_INET, text, &a.v4) != 1) {
		a = (struct net_address){ .family = AF_INET6 };
		if (inet_pton(AF_INET6, text, &a.v6) != 1 || IN6_IS_ADDR_LINKLOCAL(&a.v6))
			return -EINVAL;
	}
	unmap(&a);
	*ret = a;
	return 0;
}

bool address_equal(const struct net_address *a, const struct net_address *b)
{
	if (a->family != b->family)
		return false;
	return a->family == AF_INET ? a->v4.s_addr == b->v4.s_addr : IN6_ARE_ADDR_EQUAL(&a->v6, &b->v6);
}

bool address_is_loopback(const struct net_address *a)
{
	return a->family == AF_INET ? ntohl(a->v4.s_addr) >> 24 == IN_LOOPBACKNET : IN6_IS_ADDR_LOOPBACK(&a->v6);
}

bool address_is_nowhere(const struct net_address *a)
{
	if (a->family == AF_INET6)
		return IN6_IS_ADDR_UNSPECIFIED(&a->v6) || IN6_IS_ADDR_MULTICAST(&a->v6);
	return ntohl(a->v4.s_addr) >> 24 == 0 || ntohl(a->v4.s_addr) >> 28 >= 0xe;
}

bool address_is_local(const struct net_address *a)
{
	if (address_is_loopback(a) || address_is_nowhere(a))
		return true;
	return a->family == AF_INET6 ? IN6_IS_ADDR_LINKLOCAL(&a->v6) : ntohl(a->v4.s_addr) >> 16 == 0xa9fe;
}

socklen_t address_fill(const struct net_address *a, uint16_t port, struct sockaddr_storage *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->ss_family = a->family;
	if (a->family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)ret;

		in->sin_addr = a->v4;
		in->sin_port = htons(port);
		return sizeof(*in);
	}
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)ret;

	in6->sin6_addr = a->v6;
	in6->sin6_port = htons(port);
	return sizeof(*in6);
}

void address_from(const struct sockaddr_storage *from, struct net_address *ret, uint16_t *ret_port)
{
	struct net_address a = { .family = from->ss_family };

	if (a.family == AF_INET) {
		a.v4 = ((const struct sockaddr_in *)from)->sin_addr;
		*ret_port = ntohs(((const struct sockaddr_in *)from)->sin_port);
	} else {
		a.v6 = ((const struct sockaddr_in6 *)from)->sin6_addr;
		*ret_port = ntohs(((const struct sockaddr_in6 *)from)->sin6_port);
	}
	unmap(&a);
	*ret = a;
}

void address_format(const struct net_address *a, uint16_t port, char text[ADDRESS_TEXT_SIZE])
{
	char host[INET6_ADDRSTRLEN] = "?";
	bool brackets = port && a->family == AF_INET6;

	(void)inet_ntop(a->family, a->family == AF_INET ? (const void *)&a->v4 : (const void *)&a->v6, host,
			sizeof(host));
	if (port)
		snprintf(text, ADDRESS_TEXT_SIZE, brackets ? "[%s]:%u" : "%s:%u", host, (unsigned)port);
	else
		snprintf(text, ADDRESS_TEXT_SIZE, "%s", host);
}
