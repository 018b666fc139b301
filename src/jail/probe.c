/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine can do, found by doing it in a child whose namespaces vanish with it. */
#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/fork-gate.h"
#include "base/sys.h"
#include "jail/private.h"
#include "tree/tree.h"

bool jail_is_root(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];

	if (geteuid() != 0 || syscall(SYS_capget, &header, data) < 0)
		return false;
	return (data[0].effective & (1U << CAP_SYS_ADMIN)) != 0;
}

/* An answer that is found once. */
struct answer {
	pthread_mutex_t lock;
	_Atomic bool known;
	int value;
	unsigned found;
};
static struct answer userns = { .lock = PTHREAD_MUTEX_INITIALIZER };
static struct answer overlay = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int answer_get(struct answer *a, int (*find)(void))
{
	if (atomic_load_explicit(&a->known, memory_order_acquire))
		return a->value;
	fork_gate_enter(); /* a process that another thread forks at this instant would never get the lock */
	pthread_mutex_lock(&a->lock);
	if (!atomic_load_explicit(&a->known, memory_order_relaxed)) {
		a->value = find();
		a->found++;
		atomic_store_explicit(&a->known, true, memory_order_release);
	}
	pthread_mutex_unlock(&a->lock);
	fork_gate_leave();
	return a->value;
}

/* The exit status of a probing child is its errno. */
static int probe(spawn_fn fn, void *arg)
{
	struct spawn s;
	int r = spawn_start(CLONE_NEWNS, fn, arg, &s);

	if (r < 0)
		return r;
	r = spawn_wait_until(&s, spawn_deadline());
	if (r == -ETIMEDOUT)
		(void)spawn_end(&s);
	if (r < 0)
		return r;
	return WIFEXITED(r) ? -WEXITSTATUS(r) : -EINTR;
}

/* Having a namespace is not enough: some machines give one without the rights in it. Making mounts private needs them. */
static int try_userns(int setup, void *arg)
{
	(void)arg;
	return setup < 0 ? -setup : -mount_make_private();
}

static int try_net(int setup, void *arg)
{
	(void)arg;
	if (setup == 0 && unshare(CLONE_NEWNET) < 0)
		return errno;
	return setup < 0 ? -setup : -net_probe();
}

int jail_probe_net(void)
{
	return probe(try_net, NULL);
}

static int find_userns(void)
{
	return probe(try_userns, NULL);
}

int jail_probe_userns(void)
{
	return answer_get(&userns, find_userns);
}

bool jail_userns_is_forbidden(void)
{
	static const int final[] = { -EPERM, -EACCES, -ENOSPC, -EUSERS, -EINVAL, -ENOSYS };
	int r = jail_is_root() ? 0 : jail_probe_userns();

	for (size_t i = 0; i < ARRAY_SIZE(final); i++)
		if (r == final[i])
			return true;
	return false;
}

static int open_new_dir(int dir, const char *name)
{
	int fd;

	if (mkdirat(dir, name, 0700) < 0)
		return -errno;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int try_overlay(int setup, void *arg)
{
	const struct mount_style *style = arg;
	int stage, lower, upper, work, r;

	r = setup < 0 ? setup : mount_make_private();
	if (r < 0)
		return -r;
	stage = mount_stage(style);
	if (stage < 0)
		return -stage;
	lower = open_new_dir(stage, "lower");
	upper = open_new_dir(stage, "upper");
	work = open_new_dir(stage, "work");
	if (lower < 0 || upper < 0 || work < 0)
		return EIO;
	r = mount_overlay(style, &lower, 1, upper, work, NULL);
	return r < 0 ? -r : 0;
}

static int find_overlay(void)
{
	struct mount_style style;

	mount_style(&style);
	return probe(try_overlay, &style);
}

int jail_probe_overlay(void)
{
	return answer_get(&overlay, find_overlay);
}

unsigned jail_probe_count(void)
{
	unsigned n;

	fork_gate_enter();
	pthread_mutex_lock(&overlay.lock);
	n = overlay.found;
	pthread_mutex_unlock(&overlay.lock);
	fork_gate_leave();
	return n;
}

void jail_probe_again(void)
{
	atomic_store(&userns.known, false);
	atomic_store(&overlay.known, false);
}

struct layers {
	struct mount_style style;
	int fds[3];
	char *paths[3];
};

static void layers_release(struct layers *l)
{
	for (size_t i = 0; i < ARRAY_SIZE(l->paths); i++)
		free(l->paths[i]);
}

/* Overlayfs takes an upper layer that cannot carry its marks, and then refuses much of what is done in it. */
static int try_marks(const struct mount_style *style, int upper)
{
	const char *name = style->user_xattrs ? "user.overlay.probe" : "trusted.overlay.probe";

	return fsetxattr(upper, name, "y", 1, 0) < 0 || fremovexattr(upper, name) < 0 ? -errno : 0;
}

static int try_layers(int setup, void *arg)
{
	const struct layers *l = arg;
	int fds[ARRAY_SIZE(l->fds)];
	int r = setup < 0 ? setup : mount_make_private();

	for (size_t i = 0; i < ARRAY_SIZE(fds) && r >= 0; i++) {
		r = mount_reopen(l->fds[i], l->paths[i], O_RDONLY | O_DIRECTORY);
		fds[i] = r;
	}
	if (r >= 0)
		r = try_marks(&l->style, fds[1]);
	if (r >= 0) {
		mount_clear_marker(fds[2]);
		r = mount_overlay(&l->style, fds, 1, fds[1], fds[2], NULL);
	}
	return r < 0 ? -r : 0;
}

int jail_probe_overlay_at(int lower_fd, int upper_fd, int work_fd)
{
	CLEANUP(layers_release) struct layers l = { .fds = { lower_fd, upper_fd, work_fd } };
	int r;

	mount_style(&l.style);
	for (size_t i = 0; i < ARRAY_SIZE(l.fds); i++) {
		r = fd_path(l.fds[i], &l.paths[i]);
		if (r < 0)
			return r;
	}
	return probe(try_layers, &l);
}
