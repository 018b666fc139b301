/* SPDX-License-Identifier: Apache-2.0 */
/* DNS packets from anybody: src/net/dns.c. */
#include <sys/random.h>

#include "net/private.h"
#include "tap.h"

/* A question for a name, as resolvers send it. */
static size_t ask(uint8_t *packet, const char *name, unsigned type)
{
	uint8_t *p = packet + 12;

	memset(packet, 0, 12);
	packet[0] = 0x12;
	packet[1] = 0x34;
	packet[2] = 1; /* recursion desired */
	packet[5] = 1;
	while (*name) {
		size_t size = strcspn(name, ".");

		*p++ = (uint8_t)size;
		memcpy(p, name, size);
		p += size;
		name += size + (name[size] == '.');
	}
	*p++ = 0;
	*p++ = 0;
	*p++ = (uint8_t)type;
	*p++ = 0;
	*p++ = 1;
	return (size_t)(p - packet);
}

static struct net_address address(const char *text)
{
	struct net_address a;

	CHECK_EQ(address_parse(text, &a), 0);
	return a;
}

TEST(a_question_is_read_in_lower_case)
{
	uint8_t packet[512];
	struct dns_query q;
	size_t size = ask(packet, "ExAmple.ORG", DNS_TYPE_A);

	CHECK_EQ(dns_parse(packet, size, &q), DNS_NO_ERROR);
	CHECK_STR(q.name, "example.org");
	CHECK_EQ(q.type, DNS_TYPE_A);
	CHECK_EQ(q.end, size);
}

TEST(an_answer_repeats_the_question_and_has_the_addresses_of_its_kind_only)
{
	struct net_address a[] = { address("192.0.2.1"), address("2001:db8::1"), address("192.0.2.2") };
	uint8_t packet[512], answer[DNS_PACKET_SIZE];
	struct dns_query q;
	size_t size = ask(packet, "Example.org", DNS_TYPE_A), n;

	CHECK_EQ(dns_parse(packet, size, &q), 0);
	n = dns_answer(packet, size, &q, DNS_NO_ERROR, a, ARRAY_SIZE(a), answer);
	CHECK_EQ(n, size + 2 * 16);
	CHECK_EQ(answer[0] << 8 | answer[1], 0x1234);
	CHECK_EQ(answer[2], 0x81);
	CHECK_EQ(answer[3], 0x80);
	CHECK_EQ(answer[5], 1);
	CHECK_EQ(answer[7], 2);
	CHECK_EQ(memcmp(answer + 12, packet + 12, size - 12), 0);
	CHECK_EQ(memcmp(answer + size + 12, "\xc0\x00\x02\x01", 4), 0);
	CHECK_EQ(memcmp(answer + size + 28, "\xc0\x00\x02\x02", 4), 0);
	size = ask(packet, "Example.org", DNS_TYPE_AAAA);
	CHECK_EQ(dns_parse(packet, size, &q), 0);
	CHECK_EQ(dns_answer(packet, size, &q, DNS_NO_ERROR, a, ARRAY_SIZE(a), answer), size + 28);
	size = ask(packet, "Example.org", 16);
	CHECK_EQ(dns_parse(packet, size, &q), 0);
	CHECK_EQ(dns_answer(packet, size, &q, DNS_NO_ERROR, a, ARRAY_SIZE(a), answer), size);
	CHECK_EQ(answer[7], 0);
}

TEST(more_addresses_than_fit_are_left_out)
{
	struct net_address a[RESOLVE_MAX];
	uint8_t packet[512], answer[DNS_PACKET_SIZE];
	struct dns_query q;
	char name[300] = "";
	size_t size, n;

	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = address("2001:db8::1");
	for (int i = 0; i < 4; i++)
		sprintf(name + strlen(name), "%s%060d", i > 0 ? "." : "", i);
	size = ask(packet, name, DNS_TYPE_AAAA);
	CHECK_EQ(dns_parse(packet, size, &q), 0);
	CHECK_STR(q.name, name);
	n = dns_answer(packet, size, &q, DNS_NO_ERROR, a, ARRAY_SIZE(a), answer);
	CHECK(n <= DNS_PACKET_SIZE && n > DNS_PACKET_SIZE - 28);
	CHECK_EQ(answer[7], (n - size) / 28);
}

TEST(names_with_other_bytes_match_no_host)
{
	uint8_t packet[512];
	struct dns_query q;
	size_t size = ask(packet, "ab", DNS_TYPE_A);

	packet[13] = '.'; /* one label ".b", which must not be read as two */
	CHECK_EQ(dns_parse(packet, size, &q), 0);
	CHECK_STR(q.name, "?b");
	packet[13] = '\0';
	CHECK_EQ(dns_parse(packet, size, &q), 0);
	CHECK_STR(q.name, "?b");
}

TEST(packets_that_are_no_questions_are_told_apart)
{
	uint8_t packet[1024], answer[DNS_PACKET_SIZE];
	struct dns_query q;
	size_t size = ask(packet, "a.b", DNS_TYPE_A);

	for (size_t i = 0; i < 12; i++)
		CHECK_EQ(dns_parse(packet, i, &q), -EBADMSG);
	for (size_t i = 12; i < size; i++) {
		CHECK_EQ(dns_parse(packet, i, &q), DNS_FORMAT_ERROR);
		CHECK_EQ(dns_answer(packet, i, &q, DNS_FORMAT_ERROR, NULL, 0, answer), 12);
		CHECK_EQ(answer[5], 0);
	}
	packet[2] |= 0x80; /* an answer: two servers would talk for ever */
	CHECK_EQ(dns_parse(packet, size, &q), -EBADMSG);
	size = ask(packet, "a.b", DNS_TYPE_A);
	packet[2] |= 0x28; /* an update */
	CHECK_EQ(dns_parse(packet, size, &q), DNS_NOT_IMPLEMENTED);
	size = ask(packet, "a.b", DNS_TYPE_A);
	packet[5] = 2;
	CHECK_EQ(dns_parse(packet, size, &q), DNS_FORMAT_ERROR);
	size = ask(packet, "a.b", DNS_TYPE_A);
	packet[12] = 0xc0; /* a name that points at itself */
	packet[13] = 0x0c;
	CHECK_EQ(dns_parse(packet, size, &q), DNS_FORMAT_ERROR);
	memset(packet + 12, 63, sizeof(packet) - 12); /* labels without end */
	CHECK_EQ(dns_parse(packet, sizeof(packet), &q), DNS_FORMAT_ERROR);
	memset(packet + 12, 1, sizeof(packet) - 12);
	CHECK_EQ(dns_parse(packet, sizeof(packet), &q), DNS_FORMAT_ERROR);
}

/* In buffers of exactly that size, so that a sanitizer sees every byte too far. */
TEST(random_packets_do_no_harm)
{
	struct net_address a[RESOLVE_MAX];
	uint8_t answer[DNS_PACKET_SIZE];
	unsigned seed = 1, parsed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(a); i++)
		a[i] = address(i % 2 ? "192.0.2.1" : "2001:db8::1");
	for (int i = 0; i < 200000; i++) {
		size_t size = (size_t)rand_r(&seed) % 300;
		uint8_t *packet = malloc(size + 1);
		struct dns_query q;
		int code;

		for (size_t k = 0; k < size; k++)
			packet[k] = (uint8_t)(rand_r(&seed) % (i % 3 ? 256 : 24));
		if (size > 12 && i % 2) {
			memset(packet + 2, 0, 10);
			packet[5] = 1;
		}
		code = dns_parse(packet, size, &q);
		CHECK(strlen(q.name) < NET_NAME_SIZE && q.end <= MAX(size, 12U));
		parsed += code == DNS_NO_ERROR;
		if (code >= 0)
			CHECK(dns_answer(packet, size, &q, (enum dns_code)code, a, ARRAY_SIZE(a), answer) <=
			      DNS_PACKET_SIZE);
		free(packet);
	}
	CHECK(parsed > 0);
}
