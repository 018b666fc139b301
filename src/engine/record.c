/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record.h"

#include <string.h>

#include "base/clock.h"
#include "base/sys.h"

#define HEAD_OFFSET 512 /* between locks and notes: the number of the latest run */
#define RECORDS_OFFSET 65536
#define RECORD_SIZE 512

_Static_assert(sizeof(struct record) <= RECORD_SIZE, "a record has its place");

static off_t offset_of(int64_t number)
{
	return RECORDS_OFFSET + (off_t)(number % RECORD_MAX) * RECORD_SIZE;
}

static int write_record(int lock_fd, const struct record *r)
{
	char data[RECORD_SIZE] = { 0 };

	memcpy(data, r, sizeof *r);
	return sys_pwrite(lock_fd, data, sizeof data, offset_of(r->number));
}

static void fill_command(struct record *r, char *const *argv)
{
	for (size_t i = 0; argv[i]; i++) {
		size_t size = strlen(argv[i]) + 1, room = sizeof r->command - r->command_size;

		if (size > room)
			r->flags |= RECORD_CUT;
		size = MIN(size, room);
		memcpy(r->command + r->command_size, argv[i], size);
		r->command_size += (uint32_t)size;
	}
}

int record_begin(int lock_fd, int slot, char *const *argv, unsigned flags, struct record *ret)
{
	struct record r = { .started_ns = clock_realtime_ns(), .slot = slot, .flags = flags };
	int written;

	if (pread(lock_fd, &r.number, sizeof r.number, HEAD_OFFSET) != (ssize_t)sizeof r.number || r.number < 0)
		r.number = 0;
	r.number++;
	written = sys_pwrite(lock_fd, &r.number, sizeof r.number, HEAD_OFFSET);
	if (written < 0)
		return written;
	fill_command(&r, argv);
	*ret = r;
	return write_record(lock_fd, &r);
}

void record_end(int lock_fd, struct record *r, const struct atoll_run_result *result)
{
	if (r->number == 0)
		return;
	r->ended_ns = clock_realtime_ns();
	if (result) {
		r->exit_status = result->exit_status;
		r->signal = result->signal;
		r->elapsed_ns = result->elapsed_ns;
		r->user_ns = result->user_ns;
		r->system_ns = result->system_ns;
		r->max_rss = result->max_rss;
		r->flags |= (result->not_started ? RECORD_NOT_STARTED : 0) | (result->timed_out ? RECORD_TIMED_OUT : 0);
		r->flags |= (result->discards_more ? RECORD_DISCARDS_MORE : 0) |
			    (result->discards_unknown ? RECORD_DISCARDS_UNKNOWN : 0);
		r->discarded = (uint32_t)MIN(result->discarded, UINT32_MAX);
		r->temporary = (uint32_t)MIN(result->temporary, UINT32_MAX);
	} else {
		r->exit_status = 125;
		r->flags |= RECORD_FAILED;
	}
	/* What was done stays done if it cannot be said. */
	(void)write_record(lock_fd, r);
}

static int compare(const void *a, const void *b)
{
	const struct record *x = a, *y = b;

	return x->number > y->number ? -1 : x->number < y->number;
}

int record_list(int lock_fd, struct record **ret, size_t *ret_n)
{
	struct record *list = calloc(RECORD_MAX, sizeof *list);
	size_t n = 0;

	if (!list)
		return -ENOMEM;
	for (int64_t i = 0; i < RECORD_MAX; i++) {
		struct record r;

		if (pread(lock_fd, &r, sizeof r, offset_of(i)) == (ssize_t)sizeof r && r.number > 0 &&
		    r.number % RECORD_MAX == i && r.command_size <= sizeof r.command)
			list[n++] = r;
	}
	qsort(list, n, sizeof *list, compare);
	*ret = list;
	*ret_n = n;
	return 0;
}
