/* SPDX-License-Identifier: Apache-2.0 */
/* Packets as they leave the command's network, and the list of what was refused: src/net/refused.c. */
#include "net/private.h"
#include "tap.h"

static const uint8_t syn4[] = { 0x45, 0, 0,    40,   0, 0, 0, 0, 64, 6, 0, 0, 192,  0,    0, 8, 192, 0, 2, 9,
				0x80, 0, 0x01, 0xbb, 0, 0, 0, 0, 0,  0, 0, 0, 0x50, 0x02, 0, 0, 0,   0, 0, 0 };
static const uint8_t udp6[] = { 0x60, 0, 0, 0, 0, 8, 17, 64, 0xfd, 0, 0,    0,    0, 0, 0, 0,
				0,    0, 0, 0, 0, 0, 0,  2,  0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0,
				0,    0, 0, 0, 0, 0, 0,  1,  0x80, 0, 0,    123,  0, 8, 0, 0 };

static const char *said(const uint8_t *packet, size_t size)
{
	static char text[ADDRESS_TEXT_SIZE + 16];
	enum atoll_refusal_kind kind;
	char at[ADDRESS_TEXT_SIZE];
	struct net_address a;
	uint16_t port;

	if (refused_parse(packet, size, &kind, &a, &port) < 0)
		return "nothing";
	address_format(&a, port, at);
	snprintf(text, sizeof(text), "%d %s", (int)kind, at);
	return text;
}

TEST(packets_that_begin_a_conversation_say_where_they_go)
{
	uint8_t packet[64];

	CHECK_STR(said(syn4, sizeof(syn4)), "1 192.0.2.9:443");
	CHECK_STR(said(udp6, sizeof(udp6)), "2 [2001:db8::1]:123");
	memcpy(packet, syn4, sizeof(syn4));
	packet[33] = 0x12; /* an answer */
	CHECK_STR(said(packet, sizeof(syn4)), "nothing");
	packet[33] = 0x10; /* data */
	CHECK_STR(said(packet, sizeof(syn4)), "nothing");
	packet[9] = 1;
	packet[20] = 8;
	CHECK_STR(said(packet, sizeof(syn4)), "3 192.0.2.9");
	packet[20] = 0;
	CHECK_STR(said(packet, sizeof(syn4)), "nothing");
}

TEST(cut_and_false_packets_are_nothing)
{
	uint8_t packet[64];

	for (size_t i = 0; i < 34; i++)
		CHECK_STR(said(syn4, i), "nothing");
	for (size_t i = 0; i < 44; i++)
		CHECK_STR(said(udp6, i), "nothing");
	memcpy(packet, syn4, sizeof(syn4));
	packet[0] = 0x4f; /* a header longer than the packet */
	CHECK_STR(said(packet, 30), "nothing");
	packet[0] = 0x41; /* or shorter than any */
	CHECK_STR(said(packet, sizeof(syn4)), "nothing");
	packet[0] = 0x00;
	CHECK_STR(said(packet, sizeof(syn4)), "nothing");
}

TEST(each_is_listed_once_with_a_count_and_a_flood_ends)
{
	static struct refused r;
	char text[32];

	refused_add(&r, ATOLL_REFUSAL_NAME, "a.example", 1);
	refused_add(&r, ATOLL_REFUSAL_NAME, "a.example", 0);
	refused_add(&r, ATOLL_REFUSAL_NAME, "a.example", 1);
	refused_add(&r, ATOLL_REFUSAL_TCP, "a.example", 1);
	CHECK_EQ(r.n, 2);
	CHECK_EQ(r.entries[0].count, 2);
	CHECK(!r.more);
	for (int i = 0; i < 1000; i++) {
		snprintf(text, sizeof(text), "192.0.2.1:%d", i);
		refused_add(&r, ATOLL_REFUSAL_TCP, text, 1);
	}
	CHECK_EQ(r.n, REFUSED_MAX);
	CHECK(r.more);
}
