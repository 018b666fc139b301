/* SPDX-License-Identifier: Apache-2.0 */
/* Time. Persisted times are UTC, RFC 3339, microseconds; durations come from the monotonic clock. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NSEC_PER_SEC 1000000000LL

int64_t clock_monotonic_ns(void);
int64_t clock_realtime_ns(void);
/* REALTIME minus BOOTTIME: jumps when the wall clock is set. */
int64_t clock_offset_ns(void);
static inline int64_t clock_ns(struct timespec t)
{
	/* Unsigned, because the product alone may lie outside where the sum does not. */
	return (int64_t)((uint64_t)t.tv_sec * (uint64_t)NSEC_PER_SEC + (uint64_t)t.tv_nsec);
}
/* 64 bits of nanoseconds hold the years 1677 to 2262. A time outside of them is kept modulo 2^64, with the number of times that 2^64
 * must be added: its era. Filesystems have such times (ext4 until 2446, XFS until 2486, tmpfs and btrfs any); 16 bits are enough for
 * nineteen million years. */
int16_t clock_era(struct timespec t);
struct timespec clock_timespec_of_era(int64_t ns, int16_t era);
/* The reverse of clock_ns(), in era 0. Also before 1970: the kernel wants the fraction to be positive. */
static inline struct timespec clock_timespec(int64_t ns)
{
	bool before = ns % NSEC_PER_SEC < 0;

	return (struct timespec){ .tv_sec = (time_t)(ns / NSEC_PER_SEC) - before,
				  .tv_nsec = (long)(ns % NSEC_PER_SEC + (before ? NSEC_PER_SEC : 0)) };
}
/* "2026-01-02T03:04:05.678901Z" */
#define CLOCK_TEXT_SIZE 32
void clock_format(int64_t realtime_ns, char buffer[CLOCK_TEXT_SIZE]);
void clock_now(char buffer[CLOCK_TEXT_SIZE]);
/* The kernel's boot id, 36 characters; "" if it cannot be read. */
void clock_boot_id(char buffer[40]);

#endif
