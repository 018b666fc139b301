/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "pg/message.h"

TEST(a_message_is_read_when_all_of_it_is_there)
{
	struct pg_buffer b = { 0 };
	struct pg_message m;

	CHECK_EQ(pg_message_peek(&b, 100, &m), 0);
	pg_buffer_add(&b, "Q\0\0\0\7ab", 7);
	CHECK_EQ(pg_message_peek(&b, 100, &m), 0);
	CHECK_EQ(m.type, 'Q');
	CHECK_EQ(m.size, 3);
	pg_buffer_add(&b, "\0X", 2);
	CHECK_EQ(pg_message_peek(&b, 100, &m), 1);
	CHECK_EQ(m.size, 3);
	CHECK(memcmp(m.body, "ab", 3) == 0);
	pg_message_consume(&b, &m);
	CHECK_EQ(pg_buffer_size(&b), 1);
	pg_buffer_release(&b);
}

TEST(impossible_and_excessive_lengths_are_told_apart)
{
	struct pg_buffer b = { 0 };
	struct pg_message m;

	pg_buffer_add(&b, "Q\0\0\0\3", 5);
	CHECK_EQ(pg_message_peek(&b, 100, &m), -EPROTO);
	pg_buffer_consume(&b, 5);
	pg_buffer_add(&b, "Q\xff\xff\xff\xff", 5);
	CHECK_EQ(pg_message_peek(&b, 100, &m), -EPROTO);
	pg_buffer_consume(&b, 5);
	pg_buffer_add(&b, "Q\0\0\0\x69", 5);
	CHECK_EQ(pg_message_peek(&b, 100, &m), -EMSGSIZE);
	CHECK_EQ(pg_message_peek(&b, 101, &m), 0);
	pg_buffer_release(&b);
}

TEST(a_reader_is_never_led_past_the_end)
{
	struct pg_message m = { .body = "ab\0cd", .size = 5 };
	struct pg_reader r = pg_reader_of(&m);

	CHECK_STR(pg_reader_string(&r), "ab");
	CHECK_STR(pg_reader_string(&r), "");
	CHECK(r.bad);
	CHECK_EQ(pg_reader_int32(&r), 0);
	r = pg_reader_of(&m);
	CHECK_EQ(pg_reader_int32(&r), 0x61620063);
	CHECK_EQ(pg_reader_int16(&r), 0);
	CHECK(r.bad);
}

TEST(a_report_has_its_fields)
{
	struct pg_report report = { .severity = "ERROR", .state = "55P03", .message = "no", .hint = "wait" };
	struct pg_buffer b = { 0 };
	struct pg_message m;

	pg_message_report(&b, 'E', &report);
	CHECK_EQ(pg_message_peek(&b, 1000, &m), 1);
	CHECK_STR(pg_message_field(&m, 'C'), "55P03");
	CHECK_STR(pg_message_field(&m, 'H'), "wait");
	CHECK_STR(pg_message_field(&m, 'D'), "");
	pg_buffer_release(&b);
}

TEST(what_is_taken_from_a_buffer_makes_room_again)
{
	struct pg_buffer b = { 0 };
	char block[1000];

	memset(block, 'x', sizeof(block));
	for (int i = 0; i < 10000; i++) {
		pg_buffer_add(&b, block, sizeof(block));
		CHECK_EQ(pg_buffer_size(&b), sizeof(block) * (i == 0 ? 1 : 2));
		if (i > 0)
			pg_buffer_consume(&b, sizeof(block));
	}
	CHECK(b.capacity <= 64 << 10);
	pg_buffer_consume(&b, sizeof(block));
	CHECK_EQ(b.start, 0);
	pg_buffer_release(&b);
}
