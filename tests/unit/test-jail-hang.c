/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts that never end, because a filesystem below them does not answer. */
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>

#include "base/clock.h"
#include "jail-scene.h"

/* Long enough for a busy machine to mount in, where it does answer; and what "in time" means on one, which is far below the default. */
#define PATIENCE_MS 2000
#define IN_TIME_MS 15000

/* A file system with an empty root, served by a child until it is told to stop answering. It takes no request that it does not answer:
 * whoever waits for one can then be killed. */
struct silent {
	pid_t pid;
	volatile bool *silent;
};

static void reply(int fd, uint64_t unique, int error, const void *data, size_t size)
{
	char out[sizeof(struct fuse_out_header) + 256];
	const struct fuse_out_header header = { (uint32_t)(sizeof header + size), error, unique };

	memcpy(out, &header, sizeof header);
	if (size)
		memcpy(out + sizeof header, data, size);
	(void)!write(fd, out, sizeof header + size);
}

static void answer(int fd, const struct fuse_in_header *in)
{
	const struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
					    .minor = FUSE_KERNEL_MINOR_VERSION,
					    .max_write = 4096 };
	const struct fuse_attr_out attr = { .attr_valid = 3600,
					    .attr = { .ino = 1, .mode = S_IFDIR | 0755, .nlink = 2 } };
	const struct fuse_open_out open = { .fh = 1 };
	const struct fuse_statfs_out statfs = { .st = { .bsize = 4096, .namelen = 255, .frsize = 4096 } };

	switch (in->opcode) {
	case FUSE_INIT:
		reply(fd, in->unique, 0, &init, sizeof init);
		break;
	case FUSE_GETATTR:
		reply(fd, in->unique, 0, &attr, sizeof attr);
		break;
	case FUSE_OPENDIR:
		reply(fd, in->unique, 0, &open, sizeof open);
		break;
	case FUSE_STATFS:
		reply(fd, in->unique, 0, &statfs, sizeof statfs);
		break;
	case FUSE_READDIR:
	case FUSE_RELEASEDIR:
		reply(fd, in->unique, 0, NULL, 0);
		break;
	default:
		reply(fd, in->unique, -ENOSYS, NULL, 0);
	}
}

static _Noreturn void serve(int fd, volatile const bool *silent)
{
	static char in[1 << 17];
	struct pollfd p = { .fd = fd, .events = POLLIN };

	for (;;) {
		(void)poll(&p, 1, 5);
		if (*silent)
			pause();
		if ((p.revents & POLLIN) && read(fd, in, sizeof in) >= (ssize_t)sizeof(struct fuse_in_header))
			answer(fd, (const struct fuse_in_header *)in);
	}
}

/* In a mount namespace of the test's own, so that nothing stays if it fails. */
static struct silent mount_silent(const char *path)
{
	struct silent s = { .silent = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0) };
	char options[100];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		tap_skip("there is no /dev/fuse");
	CHECK_OK(unshare(CLONE_NEWNS));
	CHECK_OK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	snprintf(options, sizeof options, "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd);
	CHECK_OK(mount("silent", path, "fuse", MS_NOSUID | MS_NODEV, options));
	s.pid = fork();
	CHECK_OK(s.pid);
	if (s.pid == 0)
		serve(fd, s.silent);
	close(fd);
	return s;
}

static void unmount_silent(struct silent *s, const char *path)
{
	CHECK_OK(kill(s->pid, SIGKILL));
	CHECK_OK(waitpid(s->pid, NULL, 0));
	CHECK_OK(umount2(path, MNT_DETACH));
}

/* How many children this process has, its server left out. */
static int children(const struct silent *s)
{
	char path[64], text[4096] = "";
	int n = 0, pid, used;
	FILE *f;

	snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
	f = fopen(path, "re");
	CHECK(f != NULL);
	CHECK(fgets(text, sizeof text, f) != NULL);
	fclose(f);
	for (const char *at = text; sscanf(at, "%d%n", &pid, &used) == 1; at += used)
		n += pid != s->pid;
	return n;
}

static int64_t since_ms(int64_t began)
{
	return (clock_monotonic_ns() - began) / 1000000;
}

/* The scene with the silent file system as its lower layer, which has answered so far. */
static struct scene scene_silent(struct silent *ret)
{
	struct scene s = scene_new("orig");

	close(s.lower);
	*ret = mount_silent(s.path);
	s.lower = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK_OK(s.lower);
	s.mounts[0].lower_fds[0] = s.lower;
	s.spec.cwd = "/";
	CHECK_EQ(scene_sh(&s, "true"), 0);
	*ret->silent = true;
	jail_set_patience(PATIENCE_MS);
	return s;
}

TEST(a_run_whose_mount_hangs_ends_in_time_and_leaves_nothing)
{
	struct silent silent;
	int64_t began;

	scene_as_root();
	struct scene s = scene_silent(&silent);
	began = clock_monotonic_ns();
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"true", NULL }), -ATOLL_TIMEOUT);
	CHECK_EQ(s.err.code, ATOLL_TIMEOUT);
	CHECK(since_ms(began) >= PATIENCE_MS && since_ms(began) < IN_TIME_MS);
	CHECK_EQ(children(&silent), 0);
	close(s.lower);
	unmount_silent(&silent, s.path);
}

static int look(pid_t pid, int segments, void *arg)
{
	(void)pid;
	(void)arg;
	return 100;
}

TEST(one_that_serves_whose_mount_hangs_ends_in_time_and_leaves_nothing)
{
	static const struct jail_server nobody_asks = { .listen_fd = -EBADF };
	struct silent silent;
	int64_t began;

	scene_as_root();
	struct scene s = scene_silent(&silent);
	s.spec.server = &nobody_asks;
	s.spec.watch = look;
	began = clock_monotonic_ns();
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"true", NULL }), -ATOLL_TIMEOUT);
	CHECK_EQ(s.err.code, ATOLL_TIMEOUT);
	CHECK(since_ms(began) >= PATIENCE_MS && since_ms(began) < IN_TIME_MS);
	CHECK_EQ(children(&silent), 0);
	close(s.lower);
	unmount_silent(&silent, s.path);
}

JAIL_TEST(one_that_serves_says_why_its_view_does_not_stand)
{
	static const struct jail_server nobody_asks = { .listen_fd = -EBADF };
	struct scene s = scene_new("orig");
	int ordinary;

	s.spec.cwd = "/nowhere/at/all";
	ordinary = scene_try(&s, (char *[]){ (char *)"true", NULL });
	CHECK(ordinary < 0);
	s.spec.server = &nobody_asks;
	s.spec.watch = look;
	CHECK_EQ(scene_try(&s, (char *[]){ (char *)"true", NULL }), ordinary);
}

TEST(a_probe_whose_mount_hangs_ends_in_time_and_leaves_nothing)
{
	struct silent silent;
	int64_t began;

	scene_as_root();
	struct scene s = scene_silent(&silent);
	began = clock_monotonic_ns();
	CHECK_EQ(jail_probe_overlay_at(s.lower, s.upper, s.work), -ETIMEDOUT);
	CHECK(since_ms(began) < IN_TIME_MS);
	CHECK_EQ(children(&silent), 0);
	close(s.lower);
	unmount_silent(&silent, s.path);
}

JAIL_TEST(a_command_that_takes_longer_than_mounting_may_is_left_alone)
{
	struct scene s = scene_new("orig");

	jail_set_patience(PATIENCE_MS);
	CHECK_EQ(scene_sh(&s, "sleep 2.2; exit 3"), 3);
}
