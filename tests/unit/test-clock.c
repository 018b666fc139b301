/* SPDX-License-Identifier: Apache-2.0 */
#include "tap.h"

#include "base/clock.h"
#include "base/macros.h"

static const char *format(int64_t ns)
{
	static char text[CLOCK_TEXT_SIZE];

	clock_format(ns, text);
	return text;
}

TEST(times_are_written_in_utc_with_microseconds)
{
	setenv("TZ", "Asia/Kathmandu", 1);
	tzset();
	CHECK_STR(format(0), "1970-01-01T00:00:00.000000Z");
	CHECK_STR(format(1767323045678901999LL), "2026-01-02T03:04:05.678901Z");
	CHECK_STR(format(951827696000000000LL), "2000-02-29T12:34:56.000000Z");
}

TEST(times_before_1970_and_at_the_ends_of_the_range_are_written)
{
	CHECK_STR(format(-1000), "1969-12-31T23:59:59.999999Z");
	CHECK_STR(format(-NSEC_PER_SEC), "1969-12-31T23:59:59.000000Z");
	CHECK_STR(format(INT64_MAX), "2262-04-11T23:47:16.854775Z");
	CHECK_STR(format(INT64_MIN), "1677-09-21T00:12:43.145224Z");
}

TEST(texts_order_as_times_do)
{
	char a[CLOCK_TEXT_SIZE], b[CLOCK_TEXT_SIZE];

	clock_now(a);
	for (int i = 0; i < 1000; i++) {
		clock_now(b);
		CHECK(strcmp(a, b) <= 0);
		memcpy(a, b, sizeof(a));
	}
}

TEST(a_time_is_taken_apart_and_put_together_also_before_1970)
{
	static const int64_t times[] = { 0, 1, -1, 1500000000, -1500000000, -NSEC_PER_SEC, INT64_MAX, INT64_MIN };

	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		struct timespec t = clock_timespec(times[i]);

		CHECK(t.tv_nsec >= 0 && t.tv_nsec < NSEC_PER_SEC);
		CHECK_EQ(clock_ns(t), times[i]);
	}
	CHECK_EQ(clock_timespec(-1500000000).tv_sec, -2);
}

TEST(a_time_of_any_era_is_taken_apart_and_put_together)
{
	static const int64_t seconds[] = { 0,
					   10413792000,     /* 2300 */
					   15032385535,     /* the last of ext4 */
					   16299260424,     /* the last of XFS */
					   253402300799,    /* 9999 */
					   -2147483648,     /* the first of ext4 and XFS */
					   -11676096000,    /* 1600 */
					   -62135596800,    /* 1 */
					   500000000000000, /* fifteen million years */
					   -500000000000000,
					   9223372036,
					   9223372037,
					   -9223372037,
					   -9223372038 };

	for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
		for (long ns = 0; ns < NSEC_PER_SEC; ns += 333333333) {
			struct timespec t = { .tv_sec = (time_t)seconds[i], .tv_nsec = ns };
			struct timespec again = clock_timespec_of_era(clock_ns(t), clock_era(t));

			CHECK_EQ(again.tv_sec, t.tv_sec);
			CHECK_EQ(again.tv_nsec, t.tv_nsec);
		}
	}
	CHECK_EQ(clock_era((struct timespec){ .tv_sec = 9223372036 }), 0);
	CHECK_EQ(clock_era((struct timespec){ .tv_sec = 9223372037 }), 1);
	CHECK_EQ(clock_era((struct timespec){ .tv_sec = -9223372038 }), -1);
}

TEST(the_monotonic_clock_goes_forward)
{
	int64_t before = clock_monotonic_ns();

	usleep(2000);
	CHECK(clock_monotonic_ns() - before >= 2000000);
}

TEST(the_offset_is_steady_while_nobody_sets_the_clock)
{
	int64_t before = clock_offset_ns(), after;

	usleep(20000);
	after = clock_offset_ns();
	CHECK(llabs(after - before) < 10000000);
}

TEST(the_boot_id_is_a_uuid_and_stays)
{
	char a[40], b[40];

	clock_boot_id(a);
	clock_boot_id(b);
	CHECK_EQ(strlen(a), 36);
	CHECK_EQ(strspn(a, "0123456789abcdef-"), 36);
	CHECK_STR(a, b);
}
