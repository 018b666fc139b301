/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads and processes racing on one sandbox, through the library, for every strategy that isolates: no operation may be answered by
 * anything but success, busy, or "there is none"; no reader may ever see a mixture; and taking back every commit leads back to the
 * original as it was. Run under the thread and address sanitizers too (sanitizers.sh).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define TAP_SECONDS 240
#include "../contract/contract.h"

#define FILES 4
#define SECONDS 4

static atomic_bool over;
static atomic_uint pause_us = 3000; /* at most so long between two operations of a thread */
static atomic_int counts[8];        /* how often each operation was done */

struct actor {
	const char *name;
	int (*act)(unsigned *seed, struct atoll_error *err);
	unsigned allowed; /* codes besides success */
	int count;        /* index into counts */
};

#define MAY(code) (1u << ATOLL_##code)

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

/* ---- what is done ---- */

static int some_wait(unsigned *seed)
{
	return rand_r(seed) % 3 ? 0 : 50;
}

static int act_run(unsigned *seed, struct atoll_error *err)
{
	char script[160];
	char *const argv[] = { (char *)"/bin/sh", (char *)"-ec", script, NULL };
	struct atoll_run_result result = { 0 };
	int r;

	/* Commands run side by side in a sandbox, and exclude each other themselves where they want to. */
	snprintf(script, sizeof script,
		 "exec 8< original; flock 8; for f in 0 1 2 3; do echo token-%08d > original/file$f; done",
		 rand_r(seed) % 100000000);
	r = atoll_run(a, "box", &(struct atoll_run_options){ .argv = argv, .cwd = tap_dir, .wait_ms = some_wait(seed) },
		      &result, err);
	if (r == 0 && result.exit_status != 0)
		tap_fail(__FILE__, __LINE__, "the command ended with %d", result.exit_status);
	counts[0] += r == 0;
	return r;
}

static int act_commit(unsigned *seed, struct atoll_error *err)
{
	struct atoll_result *result = NULL;
	int r = atoll_commit(a, "box", &(struct atoll_commit_options){ .wait_ms = some_wait(seed) }, &result, err);

	CHECK(result && result->success == (r == 0));
	counts[1] += r == 0 && result->commit > 0;
	atoll_result_free(result);
	return r;
}

static int act_undo(unsigned *seed, struct atoll_error *err)
{
	struct atoll_result *result = NULL;
	int r = atoll_undo(a, "box", &(struct atoll_undo_options){ .wait_ms = some_wait(seed) }, &result, err);

	atoll_result_free(result);
	counts[2] += r == 0;
	return r;
}

static int act_rollback(unsigned *seed, struct atoll_error *err)
{
	struct atoll_result *result = NULL;
	struct atoll_undo_options options = { .wait_ms = some_wait(seed), .landed = true };
	int r = atoll_rollback(a, "box", &options, &result, err);

	atoll_result_free(result);
	counts[3] += r == 0;
	return r;
}

static int count_change(const struct atoll_change *change, void *arg)
{
	(void)change;
	++*(int *)arg;
	return 0;
}

static int act_diff(unsigned *seed, struct atoll_error *err)
{
	int n = 0;
	int r = atoll_changes(a, "box", NULL, count_change, &n, err);

	(void)seed;
	counts[4] += r == 0;
	return r;
}

static int act_show(unsigned *seed, struct atoll_error *err)
{
	struct atoll_info *info = NULL;
	struct atoll_log_entry *log = NULL;
	size_t n = 0;
	int r = atoll_show(a, "box", &info, err);

	(void)seed;
	atoll_info_free(info);
	if (r == 0)
		r = atoll_log(a, "box", &log, &n, err);
	if (r == 0)
		atoll_log_free(log, n);
	counts[5] += r == 0;
	return r;
}

static int act_remove(unsigned *seed, struct atoll_error *err)
{
	int r = atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true, .wait_ms = some_wait(seed) },
			     err);

	counts[6] += r == 0;
	return r;
}

static int act_new(unsigned *seed, struct atoll_error *err)
{
	int r = scene_try_new("box", "original", tap_variant, err);

	(void)seed;
	counts[7] += r == 0;
	return r;
}

static const struct actor changing[] = {
	{ "run", act_run, MAY(BUSY), 0 },
	{ "commit", act_commit, MAY(BUSY), 1 },
	{ "undo", act_undo, MAY(BUSY) | MAY(NOT_FOUND), 2 },
	{ "rollback", act_rollback, MAY(BUSY), 3 },
	{ "diff", act_diff, MAY(BUSY), 4 },
	{ "show", act_show, 0, 5 },
};

/* With sandboxes coming and going: a file committed by the one before is a foreign change only if it was changed after the new one began. */
static const struct actor living[] = {
	{ "new", act_new, MAY(EXISTS) | MAY(BUSY), 7 },          { "run", act_run, MAY(BUSY) | MAY(NOT_FOUND), 0 },
	{ "commit", act_commit, MAY(BUSY) | MAY(NOT_FOUND), 1 }, { "undo", act_undo, MAY(BUSY) | MAY(NOT_FOUND), 2 },
	{ "diff", act_diff, MAY(BUSY) | MAY(NOT_FOUND), 4 },     { "show", act_show, MAY(NOT_FOUND), 5 },
	{ "remove", act_remove, MAY(BUSY) | MAY(NOT_FOUND), 6 },
};

static void play(const struct actor *actor, unsigned seed)
{
	while (!over) {
		struct atoll_error err = { 0 };
		int r = actor->act(&seed, &err);

		if (r < 0 && !(actor->allowed & (1u << -r)))
			tap_fail(__FILE__, __LINE__, "%s: %s: %s", actor->name, atoll_code_name(err.code), err.message);
		usleep((useconds_t)((unsigned)rand_r(&seed) % pause_us));
	}
}

/* ---- what is seen from outside ---- */

/* Every file is there at every instant, with a whole token. */
static void *watch(void *arg)
{
	unsigned seed = 99;

	while (!over) {
		char name[32], text[64] = "";
		int fd;

		snprintf(name, sizeof name, "original/file%d", rand_r(&seed) % FILES);
		fd = openat(tap_dirfd, name, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, text, sizeof text - 1) != 15 || strncmp(text, "token-", 6) != 0)
			tap_fail(__FILE__, __LINE__, "a reader saw %s as \"%s\" (%s)", name, text, strerror(errno));
		close(fd);
		usleep(300);
	}
	return arg;
}

static void set_scene(void)
{
	scene_open();
	scene_original("original");
	for (int i = 0; i < FILES; i++) {
		char name[32];

		snprintf(name, sizeof name, "original/file%d", i);
		tap_write(tap_dirfd, name, "token-00000000\n");
	}
}

/* All old or all new: the files agree. */
static void check_whole(void)
{
	AUTO_FREE char *first = strdup(tap_read(tap_dirfd, "original/file0"));

	CHECK_STR(tap_read(tap_dirfd, "original/file1"), first);
	CHECK_STR(tap_read(tap_dirfd, "original/file2"), first);
	CHECK_STR(tap_read(tap_dirfd, "original/file3"), first);
}

/* Nothing needs recovery, and taking everything back leads to the beginning. */
static void check_way_back(const char *old)
{
	struct atoll_result **results = NULL;
	struct atoll_error err = { 0 };
	unsigned seed = 1;
	size_t n = 1;
	int r;

	CHECK_DONE(atoll_recover(a, "box", NULL, &results, &n, &err), err);
	CHECK_EQ(n, 0);
	atoll_result_list_free(results, n);
	check_whole();
	while ((r = act_undo(&seed, &err)) == 0)
		check_whole();
	CHECK_CODE(r, -ATOLL_NOT_FOUND, err);
	check_manifest("original", old);
	CHECK_DONE(atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true }, &err), err);
}

static void check_nothing_left(void)
{
	static const char *const places[] = { "state/boxes", "state/locks" };

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		AUTO_FREE char *left = manifest(places[i]);

		if (strchr(left, '\n')[1])
			tap_fail(__FILE__, __LINE__, "left in %s: %s", places[i], left);
	}
}

/* ---- threads ---- */

static bool all_done(const struct actor *actors, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!counts[actors[i].count])
			return false;
	return true;
}

struct part {
	const struct actor *actor;
	unsigned seed;
};

static void *play_part(void *arg)
{
	const struct part *part = arg;

	play(part->actor, part->seed);
	return NULL;
}

static void race_threads(const struct actor *actors, size_t n, int each)
{
	struct part parts[16];
	pthread_t threads[16], watcher;
	size_t started = 0;

	CHECK_EQ(pthread_create(&watcher, NULL, watch, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		for (int k = 0; k < each; k++, started++) {
			parts[started] = (struct part){ &actors[i], (unsigned)started + 1 };
			CHECK_EQ(pthread_create(&threads[started], NULL, play_part, &parts[started]), 0);
		}
	}
	sleep(SECONDS);
	/* A slow machine is given more time to have done everything once, and more and more room: where commands follow each other without a
	 * gap nobody else gets the sandbox. */
	for (int i = 0; i < 120 && !all_done(actors, n); i++) {
		sleep(1);
		pause_us = MIN(2 * pause_us, 500000U);
	}
	over = true;
	for (size_t i = 0; i < started; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(pthread_join(watcher, NULL), 0);
}

CONTRACT_ISOLATING(threads_racing_on_one_sandbox_exclude_each_other)
{
	AUTO_FREE char *old = NULL;

	set_scene();
	old = manifest("original");
	scene_new("original");
	race_threads(changing, ARRAY_SIZE(changing), 2);
	for (int i = 0; i < 6; i++)
		CHECK(counts[i] > 0);
	check_way_back(old);
	check_nothing_left();
}

CONTRACT_ISOLATING(threads_making_using_and_removing_a_sandbox_leave_nothing)
{
	struct atoll_error err = { 0 };
	int r;

	set_scene();
	race_threads(living, ARRAY_SIZE(living), 1);
	CHECK(counts[6] > 0 && counts[7] > 0);
	check_whole();
	r = atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true }, &err);
	CHECK(r == 0 || r == -ATOLL_NOT_FOUND);
	check_nothing_left();
}

/* ---- processes ---- */

static pid_t start(const struct actor *actor, unsigned seed)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		int64_t end = now() + SECONDS;

		atoll_close(a);
		scene_open();
		while (now() < end) {
			struct atoll_error err = { 0 };
			int r = actor->act(&seed, &err);

			if (r < 0 && !(actor->allowed & (1u << -r)))
				tap_fail(__FILE__, __LINE__, "%s: %s: %s", actor->name, atoll_code_name(err.code),
					 err.message);
			usleep((useconds_t)(rand_r(&seed) % 3000));
		}
		exit(0);
	}
	CHECK_OK(pid);
	return pid;
}

static void race_processes(const struct actor *actors, size_t n, int each)
{
	pthread_t watcher;
	int status, bad = 0;

	/* Forked before any thread is started. */
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < each; k++)
			start(&actors[i], (unsigned)(i * 10) + (unsigned)k + 1);
	CHECK_EQ(pthread_create(&watcher, NULL, watch, NULL), 0);
	while (wait(&status) > 0)
		bad += status != 0;
	over = true;
	CHECK_EQ(pthread_join(watcher, NULL), 0);
	CHECK_EQ(bad, 0);
}

CONTRACT_ISOLATING(processes_racing_on_one_sandbox_exclude_each_other)
{
	AUTO_FREE char *old = NULL;

	set_scene();
	old = manifest("original");
	scene_new("original");
	race_processes(changing, ARRAY_SIZE(changing), 2);
	check_way_back(old);
	check_nothing_left();
}

CONTRACT_ISOLATING(processes_making_using_and_removing_a_sandbox_leave_nothing)
{
	struct atoll_error err = { 0 };
	int r;

	set_scene();
	race_processes(living, ARRAY_SIZE(living), 1);
	check_whole();
	r = atoll_remove(a, "box", &(struct atoll_remove_options){ .force = true }, &err);
	CHECK(r == 0 || r == -ATOLL_NOT_FOUND);
	check_nothing_left();
}
