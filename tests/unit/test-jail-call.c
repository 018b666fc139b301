/* SPDX-License-Identifier: Apache-2.0 */
/* Our own work with capabilities over our own files: src/jail/call.c and ids.c. */
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/file.h>
#include <sys/mount.h>

#include "base/fork-gate.h"
#include "jail-scene.h"

static int say_hello(void *arg, int out)
{
	dprintf(out, "hello %s", (const char *)arg);
	return 42;
}

JAIL_TEST(the_answer_and_the_value_come_back)
{
	struct atoll_error err;
	char buffer[32] = "";
	int out = -EBADF;

	CHECK_EQ(jail_call(say_hello, (char *)"you", &out, &err), 42);
	CHECK_EQ(read(out, buffer, sizeof(buffer) - 1), 9);
	CHECK_STR(buffer, "hello you");
	CHECK_EQ(jail_call(say_hello, (char *)"you", NULL, &err), 42);
}

static int write_into(void *arg, int out)
{
	int fd = openat(*(int *)arg, "made", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	(void)out;
	return fd < 0 ? -errno : close(fd);
}

JAIL_TEST(a_read_only_directory_of_ones_own_can_be_written)
{
	struct atoll_error err;
	struct stat st;
	int dir = scene_dir("closed");

	CHECK_EQ(fchmod(dir, 0555), 0);
	if (geteuid() != 0)
		CHECK_EQ(write_into(&dir, -1), -EACCES);
	CHECK_EQ(jail_call(write_into, &dir, NULL, &err), 0);
	CHECK_EQ(fstatat(dir, "made", &st, 0), 0);
	CHECK_EQ(st.st_uid, geteuid());
	CHECK_EQ(fstat(dir, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0555);
}

TEST(files_of_others_stay_out_of_reach_as_user)
{
	struct atoll_error err;
	int dir;

	if (geteuid() != 0)
		tap_skip("needs root to make a file of another user");
	dir = scene_dir("theirs");
	scene_as_user();
	CHECK_EQ(jail_call(write_into, &dir, NULL, &err), -EACCES);
}

static int die(void *arg, int out)
{
	(void)arg;
	(void)out;
	return kill(getpid(), SIGKILL);
}

TEST(a_killed_child_is_in_doubt_as_user)
{
	struct atoll_error err;

	scene_as_user();
	CHECK_EQ(jail_call(die, NULL, NULL, &err), -ATOLL_IN_DOUBT);
	CHECK_EQ(err.code, ATOLL_IN_DOUBT);
	CHECK_EQ(waitpid(-1, NULL, WNOHANG), -1);
}

static int signal_parent(void *arg, int out)
{
	(void)out;
	kill(*(pid_t *)arg, SIGTERM);
	kill(*(pid_t *)arg, SIGINT);
	raise(SIGHUP);
	return 7;
}

static volatile sig_atomic_t seen;

static void see(int sig)
{
	seen |= 1 << sig;
}

JAIL_TEST(signals_are_deferred_until_the_work_is_done)
{
	struct atoll_error err;
	pid_t self = getpid();

	signal(SIGTERM, see);
	signal(SIGINT, see);
	signal(SIGHUP, see);
	CHECK_EQ(jail_call(signal_parent, &self, NULL, &err), 7);
	CHECK((seen & (1 << SIGTERM)) != 0);
	CHECK((seen & (1 << SIGINT)) != 0);
}

JAIL_TEST(a_program_that_ignores_its_children_still_gets_the_answer)
{
	struct atoll_error err;

	signal(SIGCHLD, SIG_IGN);
	for (int i = 0; i < 50; i++)
		CHECK_EQ(jail_call(say_hello, (char *)"you", NULL, &err), 42);
}

static void wait_for(const char *name)
{
	while (faccessat(tap_dirfd, name, F_OK, 0) < 0)
		usleep(1000);
}

static int go_on(void *arg, int out)
{
	(void)arg;
	(void)out;
	tap_write(tap_dirfd, "begun", "");
	wait_for("killed");
	tap_write(tap_dirfd, "done", "done");
	return 0;
}

/* It holds the locks of the caller and may not be left half-way. */
TEST(the_work_goes_on_when_the_caller_is_killed_as_user)
{
	int lock;
	pid_t pid;

	scene_as_user();
	lock = openat(tap_dirfd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	pid = fork();
	if (pid == 0) {
		int mine = openat(tap_dirfd, "lock", O_RDWR | O_CLOEXEC);
		struct atoll_error err;

		CHECK_EQ(flock(mine, LOCK_EX), 0);
		_exit(jail_call(go_on, NULL, NULL, &err));
	}
	wait_for("begun");
	CHECK_EQ(kill(pid, SIGKILL), 0);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(flock(lock, LOCK_EX | LOCK_NB), -1);
	tap_write(tap_dirfd, "killed", "");
	CHECK_EQ(flock(lock, LOCK_EX), 0);
	CHECK_STR(tap_read(tap_dirfd, "done"), "done");
}

static int use_malloc(void *arg, int out)
{
	char *p = malloc(100000);

	(void)arg;
	dprintf(out, "%p", (void *)p);
	free(p);
	return 3;
}

static void *call_many(void *arg)
{
	struct atoll_error err;

	(void)arg;
	for (int i = 0; i < 50; i++)
		CHECK_EQ(jail_call(use_malloc, NULL, NULL, &err), 3);
	return NULL;
}

JAIL_TEST(threads_can_call_at_the_same_time)
{
	pthread_t t[4];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_create(&t[i], NULL, call_many, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
}

TEST(root_maps_everybody)
{
	scene_as_root();
	CHECK(jail_maps_uid(0));
	CHECK(jail_maps_uid(4711));
	CHECK(jail_maps_gid(4711));
}

TEST(a_user_without_sub_ids_maps_nobody_else)
{
	if (geteuid() != 0)
		tap_skip("needs root to become a user without sub-ids");
	scene_as_user();
	CHECK(jail_maps_uid(SCENE_UID));
	CHECK(jail_maps_gid(SCENE_UID));
	CHECK(!jail_maps_uid(0));
	CHECK(!jail_maps_uid(SCENE_UID + 1));
	CHECK(!jail_maps_gid(0));
}

/* ---- Sub-ids ---- */

#define RICH_USER "daemon"
#define RICH_FIRST 100000U

/* In a mount namespace of this test's own, so that no user of the machine is granted anything. */
static void grant_sub_ids(void)
{
	static const char *const files[] = { "/etc/subuid", "/etc/subgid" };

	CHECK_EQ(unshare(CLONE_NEWNS), 0);
	CHECK_EQ(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	tap_write(tap_dirfd, "grants", RICH_USER ":100000:65536\n");
	CHECK_EQ(fchmodat(tap_dirfd, "grants", 0644, 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		AUTO_FREE char *path = NULL;

		CHECK(asprintf(&path, "%s/grants", tap_dir) > 0);
		if (mount(path, files[i], NULL, MS_BIND, NULL) < 0)
			tap_skip("this machine has no place for sub-ids");
	}
}

/* Becomes a user with sub-ids, and returns the first uid granted. */
static unsigned become_rich(void)
{
	struct passwd *pw = getpwnam(RICH_USER);

	if (geteuid() != 0)
		tap_skip("needs root to become a user with sub-ids");
	if (!pw || access("/usr/bin/newuidmap", X_OK) < 0)
		tap_skip("newuidmap or the user " RICH_USER " is missing");
	grant_sub_ids();
	CHECK_EQ(chown(tap_dir, pw->pw_uid, pw->pw_gid), 0);
	CHECK_EQ(initgroups(RICH_USER, pw->pw_gid), 0);
	CHECK_EQ(setresgid(pw->pw_gid, pw->pw_gid, pw->pw_gid), 0);
	CHECK_EQ(setresuid(pw->pw_uid, pw->pw_uid, pw->pw_uid), 0);
	CHECK_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
	return RICH_FIRST;
}

static int give_away(void *arg, int out)
{
	uid_t uid = *(unsigned *)arg;

	(void)out;
	return fchownat(tap_dirfd, "file", uid, (gid_t)-1, 0) < 0 ? -errno : 0;
}

TEST(sub_ids_are_mapped_where_they_are_granted)
{
	unsigned first = become_rich();
	struct atoll_error err;
	struct stat st;

	CHECK(jail_maps_uid(first));
	CHECK(jail_maps_uid(first + 1));
	CHECK(jail_maps_uid(geteuid()));
	CHECK(!jail_maps_uid(0));
	tap_write(tap_dirfd, "file", "x");
	CHECK_EQ(jail_call(give_away, &first, NULL, &err), 0);
	CHECK_EQ(fstatat(tap_dirfd, "file", &st, 0), 0);
	CHECK_EQ(st.st_uid, first);
}

TEST(files_of_sub_ids_can_be_edited_inside)
{
	unsigned first = become_rich();
	struct atoll_error err;
	struct scene s = scene_new("orig");
	struct stat st;

	tap_write(tap_dirfd, "file", "theirs\n");
	CHECK_EQ(jail_call(give_away, &first, NULL, &err), 0);
	CHECK_EQ(renameat(tap_dirfd, "file", s.lower, "file"), 0);
	CHECK_EQ(scene_sh(&s, "mv file moved && cat moved"), 0);
	CHECK_EQ(fstatat(s.upper, "moved", &st, 0), 0);
	CHECK_EQ(st.st_uid, first);
}

/* A daemon closes all its fds: the namespace that was kept is then made again. */
TEST(the_kept_namespace_survives_the_loss_of_its_fd)
{
	unsigned first = become_rich();
	struct atoll_error err;

	CHECK(jail_maps_uid(first));
	for (int fd = 3; fd < 100; fd++) {
		if (fd != tap_dirfd)
			close(fd);
	}
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) < 20)
		;
	tap_write(tap_dirfd, "file", "x");
	CHECK_EQ(jail_call(give_away, &first, NULL, &err), 0);
}

static atomic_bool asked_enough;

static void *ask_for_ids(void *arg)
{
	(void)arg;
	while (!atomic_load(&asked_enough))
		(void)jail_maps_uid(54399);
	return NULL;
}

/* A keeper is forked while other threads of the program work on other sandboxes. */
JAIL_TEST(a_forked_process_finds_no_lock_that_another_thread_held)
{
	pthread_t thread;
	int status;

	atomic_store(&asked_enough, false);
	CHECK_EQ(pthread_create(&thread, NULL, ask_for_ids, NULL), 0);
	for (int i = 0; i < 500; i++) {
		pid_t pid = fork_gate_fork();

		if (pid == 0) {
			alarm(10);
			(void)jail_maps_uid(54399);
			_exit(0);
		}
		CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	}
	atomic_store(&asked_enough, true);
	CHECK_EQ(pthread_join(thread, NULL), 0);
}
