/* SPDX-License-Identifier: Apache-2.0 */
/* The lock of a sandbox: which modes exclude each other, over threads and processes, by whom it is released, and the notes of those inside. */
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "engine/slot.h"
#include "tap.h"

#define UUID "00000000-0000-4000-8000-000000000000"

static struct atoll a;

static uint64_t start_time(pid_t pid);
static void note(pid_t pid, uint64_t start);

static void set_scene(void)
{
	CHECK_OK(mkdirat(tap_dirfd, "locks", 0700));
	a = (struct atoll){ .state_dir = tap_dir, .state_fd = tap_dirfd };
}

static int take(enum lock_mode mode, int wait_ms)
{
	struct atoll_error err = { 0 };
	int fd = -EBADF;
	int r = lock_take(&a, UUID, mode, wait_ms, "box", &fd, &err);

	CHECK_EQ(r, r < 0 ? -(int)err.code : 0);
	if (r < 0)
		CHECK(err.message[0] && strstr(err.message, "box"));
	return r < 0 ? r : fd;
}

/* Rows: held; columns: wanted. x: excludes. */
static const char *const table[] = {
	/*          look change */
	/* look   */ ".x",
	/* change */ "xx",
};

TEST(modes_exclude_each_other_in_one_thread)
{
	set_scene();
	for (int held = LOCK_LOOK; held <= LOCK_CHANGE; held++) {
		for (int wanted = LOCK_LOOK; wanted <= LOCK_CHANGE; wanted++) {
			int first = take((enum lock_mode)held, 0), second = take((enum lock_mode)wanted, 0);

			CHECK_OK(first);
			CHECK_EQ(second < 0 ? second : 0, table[held][wanted] == 'x' ? -ATOLL_BUSY : 0);
			fd_close(first);
			fd_close(second);
		}
	}
}

static int take_in_child(enum lock_mode mode)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(take(mode, 0) < 0 ? 1 : 0);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(modes_exclude_each_other_over_processes)
{
	set_scene();
	for (int held = LOCK_LOOK; held <= LOCK_CHANGE; held++) {
		int fd = take((enum lock_mode)held, 0);

		for (int wanted = LOCK_LOOK; wanted <= LOCK_CHANGE; wanted++)
			CHECK_EQ(take_in_child((enum lock_mode)wanted), table[held][wanted] == 'x');
		fd_close(fd);
	}
}

TEST(other_sandboxes_are_not_excluded)
{
	struct atoll_error err = { 0 };
	int fd, other = -EBADF;

	set_scene();
	fd = take(LOCK_CHANGE, 0);
	CHECK_EQ(lock_take(&a, "another", LOCK_CHANGE, 0, "x", &other, &err), 0);
	fd_close(fd);
	fd_close(other);
}

static int alone, most_alone;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;

static void *contend(void *arg)
{
	for (int i = 0; i < 20; i++) {
		int fd = take(LOCK_CHANGE, -1);

		pthread_mutex_lock(&guard);
		alone++;
		most_alone = MAX(most_alone, alone);
		pthread_mutex_unlock(&guard);
		usleep(200);
		pthread_mutex_lock(&guard);
		alone--;
		pthread_mutex_unlock(&guard);
		fd_close(fd);
	}
	return arg;
}

TEST(threads_change_one_at_a_time)
{
	pthread_t threads[6];

	set_scene();
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, contend, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(most_alone, 1);
}

TEST(waiting_ends_when_its_time_is_over_and_not_before)
{
	int64_t start;
	int fd;

	set_scene();
	fd = take(LOCK_CHANGE, 0);
	start = clock_monotonic_ns();
	CHECK_EQ(take(LOCK_CHANGE, 150), -ATOLL_BUSY);
	CHECK(clock_monotonic_ns() - start >= 150000000LL);
	fd_close(fd);
}

TEST(a_waiting_one_gets_the_lock_when_it_is_released_by_death)
{
	int ready[2], go[2], status, fd;
	char c;
	pid_t pid;

	set_scene();
	CHECK_OK(pipe(ready));
	CHECK_OK(pipe(go));
	pid = fork();
	if (pid == 0) {
		CHECK_OK(take(LOCK_CHANGE, 0));
		(void)!write(ready[1], "x", 1);
		(void)!read(go[0], &c, 1);
		usleep(100000);
		raise(SIGKILL);
	}
	CHECK_EQ(read(ready[0], &c, 1), 1);
	CHECK_EQ(take(LOCK_LOOK, 0), -ATOLL_BUSY);
	CHECK_EQ(write(go[1], "x", 1), 1);
	fd = take(LOCK_CHANGE, -1);
	CHECK_OK(fd);
	fd_close(fd);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
}

TEST(a_runner_is_seen_while_it_holds_a_slot)
{
	int fd;

	set_scene();
	CHECK(!lock_is_running(&a, UUID));
	fd = take(LOCK_LOOK, 0);
	CHECK(!lock_is_running(&a, UUID));
	CHECK_EQ(slot_take(fd, "box", NULL), 0);
	CHECK(lock_is_running(&a, UUID));
	fd_close(fd);
	CHECK(!lock_is_running(&a, UUID));
	fd = take(LOCK_CHANGE, 0);
	CHECK(!lock_is_running(&a, UUID));
	fd_close(fd);
}

static bool count_one(int slot, const struct slot_note *note, void *arg)
{
	(void)slot;
	(void)note;
	++*(int *)arg;
	return false;
}

TEST(each_runner_has_a_slot_of_its_own_and_sees_the_others)
{
	int fds[40], seen = 0;

	set_scene();
	for (int i = 0; i < 40; i++) {
		struct slot_note n = { .kind = SLOT_RUN };

		fds[i] = take(LOCK_LOOK, 0);
		CHECK_EQ(slot_take(fds[i], "box", NULL), i);
		CHECK_OK(slot_write(fds[i], i, &n));
	}
	slot_each(fds[7], count_one, &seen);
	CHECK_EQ(seen, 39);
	fd_close(fds[3]);
	fds[3] = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_take(fds[3], "box", NULL), 3);
	for (int i = 0; i < 40; i++)
		fd_close(fds[i]);
}

TEST(there_are_so_many_slots_and_no_more)
{
	struct atoll_error err = { 0 };
	int fd;

	set_scene();
	for (int i = 0; i < SLOT_MAX; i++)
		CHECK_EQ(slot_take(take(LOCK_LOOK, 0), "box", NULL), i);
	fd = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_take(fd, "box", &err), -ATOLL_BUSY);
	CHECK(strstr(err.message, "box") != NULL);
	(void)close_range((unsigned)fd - SLOT_MAX, (unsigned)fd, 0);
}

TEST(a_slot_whose_note_names_a_living_process_is_not_given_away)
{
	int fd;

	set_scene();
	note(getpid(), start_time(getpid()));
	fd = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_take(fd, "box", NULL), 1);
	fd_close(fd);
}

TEST(the_door_is_for_one_at_a_time)
{
	int first, second, status;
	pid_t pid;

	set_scene();
	first = take(LOCK_LOOK, 0);
	second = take(LOCK_LOOK, 0);
	CHECK_OK(slot_close_door(first, "box", NULL));
	pid = fork();
	if (pid == 0) {
		usleep(100000);
		slot_open_door(first);
		_exit(0);
	}
	CHECK_OK(slot_close_door(second, "box", NULL));
	CHECK_EQ(waitpid(pid, &status, WNOHANG) == 0 ? waitpid(pid, &status, 0) : pid, pid);
	fd_close(first);
	fd_close(second);
}

TEST(nobody_is_joined_who_is_of_another_boot_or_another_process_under_the_number)
{
	struct jail_namespaces found;
	int fd, other;

	set_scene();
	note(getpid(), start_time(getpid()) + 1);
	other = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_take(other, "box", NULL), 0);
	fd = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_find_peer(fd, 0, "box", &found, NULL), 0);
	fd_close(fd);
	fd_close(other);
}

TEST(one_with_another_view_is_not_joined)
{
	struct slot_note n = { .kind = SLOT_RUN, .pid = getpid(), .tag = start_time(getpid()), .view_key = 7 };
	struct jail_namespaces found;
	struct atoll_error err = { 0 };
	int fd, other;

	set_scene();
	other = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_take(other, "box", NULL), 0);
	CHECK_OK(slot_write(other, 0, &n));
	fd = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_find_peer(fd, 8, "box", &found, &err), -ATOLL_BUSY);
	CHECK(strstr(err.message, "another view") != NULL);
	fd_close(fd);
	fd_close(other);
}

TEST(one_who_is_alive_is_joined_by_the_holders_fds)
{
	struct slot_note n = { .kind = SLOT_RUN, .pid = getpid(), .tag = start_time(getpid()), .n_namespaces = 1 };
	struct jail_namespaces found = { 0 };
	struct stat mine, theirs;
	int fd, other;

	set_scene();
	n.namespaces[0] = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);
	other = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_take(other, "box", NULL), 0);
	CHECK_OK(slot_write(other, 0, &n));
	fd = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_find_peer(fd, 0, "box", &found, NULL), 1);
	CHECK_EQ(found.n, 1);
	CHECK_OK(fstat(found.fds[0], &theirs));
	CHECK_OK(fstat(n.namespaces[0], &mine));
	CHECK_EQ(mine.st_ino, theirs.st_ino);
	fd_close(found.fds[0]);
	fd_close(fd);
	fd_close(other);
}

/* Its holder's fds may be closed then, and their numbers stand for other files. A fifo makes the opening last as long as the test wants. */
TEST(one_who_ends_while_the_fds_are_opened_is_not_joined)
{
	struct slot_note n = { .kind = SLOT_RUN, .n_namespaces = 1 };
	struct jail_namespaces found = { 0 };
	int fd, other;
	pid_t ending, ender;

	set_scene();
	CHECK_OK(mkfifoat(tap_dirfd, "fifo", 0600));
	ending = fork();
	if (ending == 0) {
		pause();
		_exit(0);
	}
	n.pid = ending;
	n.tag = start_time(ending);
	n.namespaces[0] = openat(tap_dirfd, "fifo", O_PATH | O_CLOEXEC);
	other = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_take(other, "box", NULL), 0);
	CHECK_OK(slot_write(other, 0, &n));
	ender = fork();
	if (ender == 0) {
		usleep(200000);
		kill(ending, SIGKILL);
		do {
			usleep(100000);
		} while (openat(tap_dirfd, "fifo", O_WRONLY | O_CLOEXEC | O_NONBLOCK) < 0);
		pause();
		_exit(0);
	}
	fd = take(LOCK_LOOK, 0);
	CHECK_EQ(slot_find_peer(fd, 0, "box", &found, NULL), 0);
	CHECK_EQ(waitpid(ending, NULL, 0), ending);
	CHECK_OK(kill(ender, SIGKILL));
	CHECK_EQ(waitpid(ender, NULL, 0), ender);
	fd_close(n.namespaces[0]);
	fd_close(fd);
	fd_close(other);
}

/* Whoever waits for a runner does so for five seconds; below that nobody waited, on a busy machine neither. */
#define WAITED_NS 4500000000LL

/* Field 22 of /proc/PID/stat. */
static uint64_t start_time(pid_t pid)
{
	char path[64];
	const char *text;
	uint64_t value = 0;
	int field = 2;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	text = strrchr(tap_read(AT_FDCWD, path), ')');
	for (; text && field < 22; text++)
		field += *text == ' ';
	CHECK(text != NULL);
	value = strtoull(text, NULL, 10);
	return value;
}

/* Left behind by one who is not there any more. */
static void note(pid_t pid, uint64_t start)
{
	struct slot_note n = { .kind = SLOT_RUN, .pid = pid, .tag = start };
	int fd = take(LOCK_LOOK, 0), slot = slot_take(fd, "box", NULL);

	CHECK_OK(slot);
	CHECK_OK(slot_write(fd, slot, &n));
	fd_close(fd);
}

TEST(the_lock_is_not_given_before_the_noted_runner_is_gone)
{
	int status, go[2], fd;
	char c;
	pid_t pid;

	set_scene();
	CHECK_OK(pipe(go));
	pid = fork();
	if (pid == 0) {
		(void)!read(go[0], &c, 1);
		usleep(200000);
		_exit(0);
	}
	note(pid, start_time(pid));
	CHECK_EQ(write(go[1], "x", 1), 1);
	fd = take(LOCK_CHANGE, 0);
	CHECK_OK(fd);
	CHECK_EQ(waitpid(pid, &status, WNOHANG), pid);
	fd_close(fd);
}

static void *live_on(void *arg)
{
	pause();
	return arg;
}

/* For a moment every program with threads looks like that when it ends. */
TEST(one_whose_first_thread_has_ended_is_alive_while_it_has_others)
{
	struct slot_note n = { 0 };
	pthread_t thread;
	pid_t pid;
	char path[64];

	clock_boot_id(n.boot_id);
	pid = fork();
	if (pid == 0) {
		if (pthread_create(&thread, NULL, live_on, NULL) != 0)
			_exit(1);
		pthread_exit(NULL);
	}
	n.pid = pid;
	n.tag = start_time(pid);
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	for (int i = 0; i < 3000 && !strstr(tap_read(AT_FDCWD, path), ") Z "); i++)
		usleep(10000);
	CHECK(strstr(tap_read(AT_FDCWD, path), ") Z ") != NULL);
	CHECK(slot_is_alive(&n));
	CHECK_OK(kill(pid, SIGKILL));
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK(!slot_is_alive(&n));
}

TEST(looking_does_not_wait_for_the_noted_runner)
{
	int64_t start;
	int fd;

	set_scene();
	note(getpid(), start_time(getpid()));
	start = clock_monotonic_ns();
	fd = take(LOCK_LOOK, 0);
	CHECK_OK(fd);
	CHECK(clock_monotonic_ns() - start < WAITED_NS);
	fd_close(fd);
}

TEST(a_note_of_another_process_with_the_same_number_or_of_nobody_is_not_waited_for)
{
	int64_t start = clock_monotonic_ns();
	int fd;

	set_scene();
	note(getpid(), start_time(getpid()) + 1);
	fd = take(LOCK_CHANGE, 0);
	CHECK_OK(fd);
	fd_close(fd);
	note(0, 0);
	fd = take(LOCK_CHANGE, 0);
	CHECK_OK(fd);
	fd_close(fd);
	CHECK(clock_monotonic_ns() - start < WAITED_NS);
}

TEST(a_note_that_is_garbage_is_not_trusted)
{
	char garbage[200];
	int fd;

	set_scene();
	memset(garbage, 'z', sizeof garbage);
	fd = take(LOCK_LOOK, 0);
	for (off_t at = 0; at < 64 * 1024; at += sizeof garbage)
		CHECK_EQ(pwrite(fd, garbage, sizeof garbage, at), sizeof garbage);
	fd_close(fd);
	fd = take(LOCK_CHANGE, 0);
	CHECK_OK(fd);
	fd_close(fd);
}

TEST(a_runner_that_does_not_end_makes_it_busy)
{
	set_scene();
	note(getpid(), start_time(getpid()));
	CHECK_EQ(take(LOCK_CHANGE, 0), -ATOLL_BUSY);
}

TEST(a_lock_file_that_is_a_link_or_cannot_be_made_is_an_error)
{
	set_scene();
	CHECK_OK(symlinkat("/dev/null", tap_dirfd, "locks/" UUID));
	CHECK(take(LOCK_CHANGE, 0) < 0);
	CHECK_OK(unlinkat(tap_dirfd, "locks/" UUID, 0));
	CHECK_OK(unlinkat(tap_dirfd, "locks", AT_REMOVEDIR));
	CHECK(take(LOCK_CHANGE, 0) < 0);
}

TEST(a_removed_lock_file_is_made_anew)
{
	int fd;

	set_scene();
	fd_close(take(LOCK_CHANGE, 0));
	lock_remove(&a, UUID);
	lock_remove(&a, UUID);
	CHECK_EQ(faccessat(tap_dirfd, "locks/" UUID, F_OK, 0), -1);
	fd = take(LOCK_LOOK, 0);
	CHECK_OK(fd);
	fd_close(fd);
}

static void *take_later(void *arg)
{
	*(int *)arg = take(LOCK_CHANGE, 5000);
	return NULL;
}

/* As recovery does with a lock file whose sandbox it does not know, while another process has opened the file. */
TEST(a_lock_on_a_file_that_was_removed_meanwhile_is_taken_again)
{
	int first, second = -EBADF;
	pthread_t waiting;

	set_scene();
	first = take(LOCK_CHANGE, 0);
	CHECK_EQ(pthread_create(&waiting, NULL, take_later, &second), 0);
	CHECK_EQ(usleep(100000), 0); /* it has opened the file, and waits */
	lock_remove(&a, UUID);
	lock_release(first);
	CHECK_EQ(pthread_join(waiting, NULL), 0);
	CHECK_OK(second);
	CHECK_EQ(take(LOCK_LOOK, 0), -ATOLL_BUSY);
	lock_release(second);
}

TEST(the_end_of_a_run_is_the_time_of_the_lock_and_without_a_run_there_is_none)
{
	int64_t before;
	int fd;

	set_scene();
	CHECK_EQ(lock_last_run(&a, UUID), INT64_MIN);
	fd = take(LOCK_LOOK, 0);
	CHECK_EQ(lock_last_run(&a, UUID), INT64_MIN);
	CHECK_OK(slot_write(fd, 0, &(struct slot_note){ .pid = 1 }));
	before = lock_last_run(&a, UUID);
	CHECK(before > 0);
	CHECK_EQ(usleep(50000), 0);
	lock_note_end(fd);
	CHECK(lock_last_run(&a, UUID) > before);
	lock_release(fd);
}
