/* SPDX-License-Identifier: Apache-2.0 */
/* The gate: how many threads are inside, and how many want to fork. The mutex is held over the fork itself. */
#include "base/fork-gate.h"

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	unsigned inside, forking;
} gate = { .mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER };

static _Thread_local unsigned depth;

void fork_gate_enter(void)
{
	if (depth++)
		return;
	pthread_mutex_lock(&gate.mutex);
	while (gate.forking)
		pthread_cond_wait(&gate.changed, &gate.mutex);
	gate.inside++;
	pthread_mutex_unlock(&gate.mutex);
}

void fork_gate_leave(void)
{
	if (--depth)
		return;
	pthread_mutex_lock(&gate.mutex);
	gate.inside--;
	pthread_cond_broadcast(&gate.changed);
	pthread_mutex_unlock(&gate.mutex);
}

pid_t fork_gate_fork(void)
{
	pid_t pid;
	int saved;

	if (depth)
		return fork();
	pthread_mutex_lock(&gate.mutex);
	gate.forking++;
	while (gate.inside)
		pthread_cond_wait(&gate.changed, &gate.mutex);
	pid = fork();
	saved = errno;
	if (pid == 0) {
		/* Here are no other threads, and the waiting ones are not ours. */
		gate.changed = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
		gate.forking = 0;
	} else {
		gate.forking--;
		pthread_cond_broadcast(&gate.changed);
	}
	pthread_mutex_unlock(&gate.mutex);
	errno = saved;
	return pid;
}
