/* SPDX-License-Identifier: Apache-2.0 */
/* DNS packets: one question in, addresses out. Nothing that a packet says is believed before it was measured. */
#include <ctype.h>
#include <string.h>

#include "net/private.h"

#define HEADER_SIZE 12
#define CLASS_IN 1
#define TTL 10 /* short: what a name means is asked for again while the command runs */

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static uint8_t *put16(uint8_t *p, unsigned value)
{
	p[0] = (uint8_t)(value >> 8);
	p[1] = (uint8_t)value;
	return p + 2;
}

static bool is_host_byte(uint8_t c)
{
	return isalnum(c) || c == '-' || c == '_';
}

/* The name at *at, without compression, which no question needs. Its end goes to *at. */
static int parse_name(const uint8_t *packet, size_t size, size_t *at, char name[NET_NAME_SIZE])
{
	size_t used = 0, i = *at;

	while (i < size && packet[i] != 0) {
		size_t label = packet[i++];

		if (label > 63 || label > size - i || used + label + 1 >= NET_NAME_SIZE)
			return -EBADMSG;
		if (used > 0)
			name[used++] = '.';
		for (size_t end = i + label; i < end; i++)
			name[used++] = is_host_byte(packet[i]) ? (char)tolower(packet[i]) : '?';
	}
	if (i >= size)
		return -EBADMSG;
	name[used] = '\0';
	*at = i + 1;
	return 0;
}

int dns_parse(const uint8_t *packet, size_t size, struct dns_query *ret)
{
	size_t at = HEADER_SIZE;

	*ret = (struct dns_query){ .end = HEADER_SIZE };
	if (size < HEADER_SIZE || packet[2] & 0x80)
		return -EBADMSG;
	if (packet[2] & 0x78)
		return DNS_NOT_IMPLEMENTED;
	if (get16(packet + 4) != 1 || parse_name(packet, size, &at, ret->name) < 0 || size - at < 4) {
		ret->name[0] = '\0';
		return DNS_FORMAT_ERROR;
	}
	ret->type = (uint16_t)get16(packet + at);
	ret->end = at + 4;
	return get16(packet + at + 2) == CLASS_IN ? DNS_NO_ERROR : DNS_NOT_IMPLEMENTED;
}

static bool answers(const struct dns_query *q, const struct net_address *a)
{
	return (q->type == DNS_TYPE_A && a->family == AF_INET) || (q->type == DNS_TYPE_AAAA && a->family == AF_INET6);
}

size_t dns_answer(const uint8_t *packet, size_t size, const struct dns_query *q, enum dns_code code,
		  const struct net_address *addresses, size_t n, uint8_t answer[DNS_PACKET_SIZE])
{
	uint8_t *p = answer + q->end;
	unsigned count = 0;

	(void)size;
	memcpy(answer, packet, q->end);
	memset(answer + 4, 0, HEADER_SIZE - 4);
	answer[2] = (uint8_t)(0x80 | (packet[2] &
				      0x79)); /* an answer; the question's kind, and whether recursion was desired */
	answer[3] = (uint8_t)(0x80 | code);   /* recursion is available */
	put16(answer + 4, q->end > HEADER_SIZE);
	for (size_t i = 0; i < n; i++) {
		size_t length = addresses[i].family == AF_INET ? 4 : 16;

		if (!answers(q, &addresses[i]) || (size_t)(answer + DNS_PACKET_SIZE - p) < 12 + length)
			continue;
		p = put16(p, 0xc000 | HEADER_SIZE); /* the name of the question */
		p = put16(p, q->type);
		p = put16(p, CLASS_IN);
		p = put16(p, 0);
		p = put16(p, TTL);
		p = put16(p, (unsigned)length);
		memcpy(p, &addresses[i].v4, length);
		p += length;
		count++;
	}
	put16(answer + 6, count);
	return (size_t)(p - answer);
}
