/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: who has a file open for writing is found, and a lease that somebody breaks does not end the program it was taken by. */
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>

#include "engine/step.h"
#include "tap.h"

static int make_file(void)
{
	int fd = openat(tap_dirfd, "file", O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	CHECK_OK(fd);
	close(fd);
	return openat(tap_dirfd, "file", O_RDONLY | O_CLOEXEC);
}

/* Another process wants to write: it is not waited for, but the holder of the lease is told. */
static void break_lease(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		int fd = openat(tap_dirfd, "file", O_WRONLY | O_NONBLOCK | O_CLOEXEC);

		_exit(fd >= 0 ? 0 : errno);
	}
	CHECK_OK(pid);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), EWOULDBLOCK);
}

static bool is_pending(void)
{
	sigset_t set;

	CHECK_OK(sigpending(&set));
	return sigismember(&set, SIGIO);
}

TEST(a_writer_is_found)
{
	int fd = make_file();
	int writer = openat(tap_dirfd, "file", O_WRONLY | O_CLOEXEC);
	sigset_t before;

	step_leases_begin(&before);
	CHECK_EQ(step_lease(fd), -EAGAIN);
	close(writer);
	CHECK_EQ(step_lease(fd), 1);
	step_leases_end(&before);
	close(fd);
}

TEST(who_has_it_open_at_all_is_found)
{
	int fd = make_file();
	int reader = openat(tap_dirfd, "file", O_RDONLY | O_CLOEXEC);
	sigset_t before;

	step_leases_begin(&before);
	CHECK(step_is_open_elsewhere(fd));
	close(reader);
	CHECK(!step_is_open_elsewhere(fd));
	/* It has left no lease behind that a reader would wait for. */
	reader = openat(tap_dirfd, "file", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	CHECK_OK(reader);
	CHECK_EQ(step_lease(fd), 1);
	step_leases_end(&before);
	close(reader);
	close(fd);
}

TEST(a_broken_lease_ends_nobody)
{
	int fd = make_file();
	sigset_t before, now;

	step_leases_begin(&before);
	CHECK_EQ(step_lease(fd), 1);
	break_lease();
	CHECK(is_pending());
	close(fd);
	step_leases_end(&before);
	CHECK(!is_pending());
	CHECK_OK(sigprocmask(SIG_SETMASK, NULL, &now));
	CHECK(!sigismember(&now, SIGIO));
}

static sem_t go;

static void *bystander(void *arg)
{
	(void)arg;
	while (sem_wait(&go) < 0)
		;
	return NULL;
}

/* The other thread has SIGIO neither blocked nor handled: one that went to it would end the process. */
TEST(a_broken_lease_ends_no_other_thread)
{
	int fd = make_file();
	pthread_t thread;
	sigset_t before;

	CHECK_OK(sem_init(&go, 0, 0));
	CHECK_EQ(pthread_create(&thread, NULL, bystander, NULL), 0);
	step_leases_begin(&before);
	CHECK_EQ(step_lease(fd), 1);
	break_lease();
	close(fd);
	step_leases_end(&before);
	CHECK_OK(sem_post(&go));
	CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(whoever_has_the_notice_blocked_keeps_it)
{
	sigset_t mine, before, now;

	sigemptyset(&mine);
	sigaddset(&mine, SIGIO);
	CHECK_OK(sigprocmask(SIG_BLOCK, &mine, NULL));
	CHECK_OK(raise(SIGIO));
	step_leases_begin(&before);
	step_leases_end(&before);
	CHECK(is_pending());
	CHECK_OK(sigprocmask(SIG_SETMASK, NULL, &now));
	CHECK(sigismember(&now, SIGIO));
}
