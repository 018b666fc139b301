/* SPDX-License-Identifier: Apache-2.0 */
/* Nobody is inside when somebody forks; nobody waits for itself. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/fork-gate.h"
#include "tap.h"

static atomic_int inside;
static atomic_bool over;

static void *go_in_and_out(void *arg)
{
	while (!over) {
		fork_gate_enter();
		inside++;
		fork_gate_enter();
		usleep(100);
		fork_gate_leave();
		inside--;
		fork_gate_leave();
	}
	return arg;
}

TEST(a_fork_happens_when_nobody_is_inside_and_the_child_can_go_in)
{
	pthread_t threads[4];
	int status;

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, go_in_and_out, NULL), 0);
	for (int i = 0; i < 200; i++) {
		pid_t pid = fork_gate_fork();

		CHECK_OK(pid);
		if (pid == 0) {
			int seen = inside;

			fork_gate_enter();
			fork_gate_leave();
			_exit(seen == 0 ? 0 : 1);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK_EQ(status, 0);
	}
	over = true;
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void *fork_often(void *arg)
{
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork_gate_fork();

		if (pid == 0)
			_exit(0);
		CHECK_EQ(waitpid(pid, NULL, 0), pid);
	}
	return arg;
}

TEST(several_threads_fork_one_after_the_other)
{
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, fork_often, NULL), 0);
	for (int i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

TEST(a_thread_that_is_inside_forks_at_once)
{
	pid_t pid;
	int status;

	fork_gate_enter();
	pid = fork_gate_fork();
	if (pid == 0)
		_exit(7);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(WEXITSTATUS(status), 7);
	fork_gate_leave();
}
