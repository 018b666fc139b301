/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "base/random.h"

TEST(bytes_fill_exactly_what_is_asked_for)
{
	unsigned char data[1024 + 1] = { 0 };
	int zeros = 0;

	data[1024] = 0xa5;
	random_bytes(data, 1024);
	for (int i = 0; i < 1024; i++)
		zeros += data[i] == 0;
	CHECK_EQ(data[1024], 0xa5);
	CHECK(zeros < 100);
}

TEST(uuids_are_version_4_lower_case_and_differ)
{
	char last[37] = "", uuid[37];

	for (int i = 0; i < 1000; i++) {
		random_uuid(uuid);
		CHECK_EQ(strlen(uuid), 36);
		for (int at = 0; at < 36; at++) {
			if (at == 8 || at == 13 || at == 18 || at == 23)
				CHECK_EQ(uuid[at], '-');
			else
				CHECK(strchr("0123456789abcdef", uuid[at]));
		}
		CHECK_EQ(uuid[14], '4');
		CHECK(strchr("89ab", uuid[19]));
		CHECK(strcmp(uuid, last) != 0);
		memcpy(last, uuid, sizeof(last));
	}
}

TEST(names_are_two_lower_case_words)
{
	for (int i = 0; i < 20000; i++) {
		char name[64];
		size_t first;

		random_name(name, sizeof(name));
		first = strspn(name, "abcdefghijklmnopqrstuvwxyz");
		CHECK(first >= 3 && name[first] == '-');
		CHECK(strspn(name + first + 1, "abcdefghijklmnopqrstuvwxyz") == strlen(name) - first - 1);
		CHECK(strlen(name) - first - 1 >= 3);
	}
}

TEST(a_name_is_cut_to_its_buffer)
{
	char name[6] = "zzzzz";

	random_name(name, sizeof(name));
	CHECK_EQ(strlen(name), 5);
}
