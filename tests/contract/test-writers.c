/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody else who opens an original for writing while a commit or an undo is under way: his write is never lost. For every strategy. */
#include <sys/prctl.h>

#include "contract.h"

/* More than one report of progress, so that there is a moment in which some steps are applied and others are not. */
#define FILES 600

static pid_t writer;
static struct atoll_error err;

static void make_files(void)
{
	scene_open();
	scene_original("original");
	for (int i = 0; i < FILES; i++) {
		char name[64];

		snprintf(name, sizeof name, "original/f%03d", i);
		tap_write(tap_dirfd, name, "old\n");
	}
	scene_new("original");
	scene_run("for f in original/f*; do echo new > $f; done");
}

/* An ordinary program: it waits until it may write. */
static void write_later(const char *path)
{
	int ready[2];
	char byte;

	CHECK_OK(pipe(ready));
	writer = fork();
	if (writer == 0) {
		int fd;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		/* A lease lives as long as anybody has the file open by which it was taken. */
		if (write(ready[1], "", 1) != 1 || close_range(3, ~0U, 0) < 0)
			_exit(1);
		fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
		_exit(fd < 0 || write(fd, "foreign\n", 8) != 8);
	}
	CHECK_OK(writer);
	CHECK_EQ(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
}

/* Whether the process sleeps, which it does only while it waits for a lease; or has ended, because nobody held one. */
static bool waits_or_ended(pid_t pid)
{
	char path[64], state = 'Z';
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 'Z';
	if (f)
		fclose(f);
	return state == 'S' || state == 'Z';
}

static void disturb(const char *phase, uint64_t done, uint64_t total, void *arg)
{
	if (strcmp(phase, arg) != 0 || writer || !done)
		return;
	/* Steps go forward in a commit, and backward in an undo. */
	write_later(strcmp(phase, "applying") == 0 ? "original/f599" : "original/f000");
	while (!waits_or_ended(writer))
		usleep(1000);
}

static void check_writer(int code, const char *stands)
{
	int status = -1;
	AUTO_FREE char *wanted = str_format("%sforeign\n", stands);
	const char *path = strcmp(stands, "old\n") == 0 ? "original/f599" : "original/f000";

	CHECK(writer > 0);
	CHECK_EQ(waitpid(writer, &status, 0), writer);
	CHECK_EQ(status, 0);
	CHECK_CODE(code, -ATOLL_CONFLICT, err);
	CHECK_STR(tap_read(tap_dirfd, path), wanted);
	CHECK_STR(tap_read(tap_dirfd, "original/f001"), stands);
	CHECK_STR(tap_read(tap_dirfd, "original/f598"), stands);
}

CONTRACT_ISOLATING(who_opens_an_original_while_a_commit_is_applied_stops_it_and_writes_what_he_wanted)
{
	struct atoll_commit_options options = { .progress = disturb, .progress_arg = (void *)"applying" };

	if (geteuid() != 0)
		tap_skip("for a user the work is done by another process, whose child the writer would be");
	make_files();
	check_writer(atoll_commit(a, "box", &options, NULL, &err), "old\n");
}

CONTRACT_ISOLATING(who_opens_what_was_landed_while_it_is_taken_back_stops_that_and_writes_what_he_wanted)
{
	struct atoll_undo_options options = { .progress = disturb, .progress_arg = (void *)"taking back" };

	if (geteuid() != 0)
		tap_skip("for a user the work is done by another process, whose child the writer would be");
	make_files();
	scene_commit();
	check_writer(atoll_undo(a, "box", &options, NULL, &err), "new\n");
}
