/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <fcntl.h>
#include <string.h>

#include "base/macros.h"

static int64_t read_clock(clockid_t id)
{
	struct timespec t = { 0 };

	clock_gettime(id, &t);
	return clock_ns(t);
}

int64_t clock_monotonic_ns(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

int64_t clock_realtime_ns(void)
{
	return read_clock(CLOCK_REALTIME);
}

int64_t clock_offset_ns(void)
{
	return read_clock(CLOCK_REALTIME) - read_clock(CLOCK_BOOTTIME);
}

/* 2^64 nanoseconds */
#define ERA_SEC 18446744073LL
#define ERA_NSEC 709551616LL

int16_t clock_era(struct timespec t)
{
	/* Both are the same modulo 2^64, so their distance is a multiple of an era, but for the seconds that its fractions add up to. */
	int64_t distance = (int64_t)t.tv_sec - (int64_t)clock_timespec(clock_ns(t)).tv_sec;

	return (int16_t)((distance + (distance < 0 ? -ERA_SEC : ERA_SEC) / 2) / ERA_SEC);
}

struct timespec clock_timespec_of_era(int64_t ns, int16_t era)
{
	struct timespec t = clock_timespec(ns), fractions = clock_timespec(era * ERA_NSEC);

	t.tv_sec += (time_t)(era * ERA_SEC + fractions.tv_sec);
	t.tv_nsec += fractions.tv_nsec;
	if (t.tv_nsec >= NSEC_PER_SEC) {
		t.tv_nsec -= NSEC_PER_SEC;
		t.tv_sec++;
	}
	return t;
}

void clock_format(int64_t realtime_ns, char buffer[CLOCK_TEXT_SIZE])
{
	int64_t fraction = realtime_ns % NSEC_PER_SEC;
	time_t seconds = (time_t)(realtime_ns / NSEC_PER_SEC);
	struct tm tm = { 0 };
	size_t size;

	if (fraction < 0) {
		fraction += NSEC_PER_SEC;
		seconds--;
	}
	gmtime_r(&seconds, &tm);
	size = strftime(buffer, CLOCK_TEXT_SIZE, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(buffer + size, CLOCK_TEXT_SIZE - size, ".%06dZ", (int)(fraction / 1000));
}

void clock_now(char buffer[CLOCK_TEXT_SIZE])
{
	clock_format(clock_realtime_ns(), buffer);
}

void clock_boot_id(char buffer[40])
{
	AUTO_FD fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t size = fd < 0 ? -1 : read(fd, buffer, 39);

	buffer[MAX(size, (ssize_t)0)] = '\0';
	buffer[strcspn(buffer, "\n")] = '\0';
}
