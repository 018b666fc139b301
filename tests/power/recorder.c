/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A disk that remembers: a FUSE file system of image files ("disk0", "disk1") to be put under loop devices. Every write and
 * every flush that the kernel sends is appended to one log, in the order in which it came, over all disks; so the state of
 * the disks after a power cut at any moment can be made again. Bytes written to "mark" become a mark in the log.
 *
 *	recorder MOUNTPOINT LOG IMAGE…       (in the foreground, one thread; ends when unmounted or when its parent dies)
 *
 * A log record is the struct below, followed by `length` bytes for writes and marks. Writes reach the daemon at once because
 * the kernel's write-back cache for FUSE is not asked for; a flush arrives as fsync, which the loop driver makes of it.
 */
#define FUSE_USE_VERSION 31
#include <errno.h>
#include <fcntl.h>
#include <fuse.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { RECORD_WRITE = 1, RECORD_FLUSH = 2, RECORD_MARK = 3, RECORD_ZERO = 4 };
enum { MARK = 1000, MAX_DISKS = 8 };

struct record {
	uint32_t kind;
	uint32_t disk;
	uint64_t offset;
	uint64_t length;
};

static int log_fd = -EBADF;
static int disks[MAX_DISKS];
static int n_disks;

static int append(uint32_t kind, int disk, off_t offset, const void *data, size_t length)
{
	struct record record = { kind, (uint32_t)disk, (uint64_t)offset, length };
	struct iovec parts[2] = { { &record, sizeof(record) }, { (void *)data, data ? length : 0 } };
	ssize_t wanted = (ssize_t)(sizeof(record) + parts[1].iov_len);

	return writev(log_fd, parts, 2) == wanted ? 0 : -EIO;
}

/* The number of the disk, MARK, or -ENOENT. */
static int which(const char *path)
{
	if (!strcmp(path, "/mark"))
		return MARK;
	if (!strncmp(path, "/disk", 5) && path[5] >= '0' && path[5] < '0' + n_disks && !path[6])
		return path[5] - '0';
	return -ENOENT;
}

static int recorder_getattr(const char *path, struct stat *st, struct fuse_file_info *file)
{
	int disk = which(path);

	(void)file;
	memset(st, 0, sizeof(*st));
	if (!strcmp(path, "/")) {
		st->st_mode = S_IFDIR | 0755;
		st->st_nlink = 2;
		return 0;
	}
	if (disk < 0)
		return disk;
	if (disk != MARK && fstat(disks[disk], st))
		return -errno;
	st->st_mode = S_IFREG | 0600;
	st->st_nlink = 1;
	return 0;
}

static int recorder_open(const char *path, struct fuse_file_info *file)
{
	int disk = which(path);

	if (disk < 0)
		return disk;
	file->fh = (uint64_t)disk;
	file->direct_io = disk == MARK;
	return 0;
}

static int recorder_read(const char *path, char *buffer, size_t size, off_t offset, struct fuse_file_info *file)
{
	ssize_t n;

	(void)path;
	if (file->fh == MARK)
		return 0;
	n = pread(disks[file->fh], buffer, size, offset);
	return n < 0 ? -errno : (int)n;
}

static int recorder_write(const char *path, const char *buffer, size_t size, off_t offset, struct fuse_file_info *file)
{
	ssize_t n;
	int r;

	(void)path;
	if (file->fh == MARK) {
		r = append(RECORD_MARK, 0, 0, buffer, size);
		return r < 0 ? r : (int)size;
	}
	n = pwrite(disks[file->fh], buffer, size, offset);
	if (n < 0)
		return -errno;
	r = append(RECORD_WRITE, (int)file->fh, offset, buffer, (size_t)n);
	return r < 0 ? r : (int)n;
}

static int recorder_fsync(const char *path, int data_only, struct fuse_file_info *file)
{
	(void)path;
	(void)data_only;
	return file->fh == MARK ? 0 : append(RECORD_FLUSH, (int)file->fh, 0, NULL, 0);
}

static int recorder_fallocate(const char *path, int mode, off_t offset, off_t length, struct fuse_file_info *file)
{
	(void)path;
	if (file->fh == MARK || !(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)))
		return -EOPNOTSUPP;
	if (fallocate(disks[file->fh], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, length))
		return -errno;
	return append(RECORD_ZERO, (int)file->fh, offset, NULL, (size_t)length);
}

static int recorder_truncate(const char *path, off_t size, struct fuse_file_info *file)
{
	(void)size;
	(void)file;
	return which(path) == MARK ? 0 : -EPERM;
}

static const struct fuse_operations operations = {
	.getattr = recorder_getattr,
	.open = recorder_open,
	.read = recorder_read,
	.write = recorder_write,
	.fsync = recorder_fsync,
	.fallocate = recorder_fallocate,
	.truncate = recorder_truncate,
};

int main(int argc, char **argv)
{
	char *arguments[] = { argv[0], argv[1], "-f", "-s", NULL };

	if (argc < 4 || argc - 3 > MAX_DISKS) {
		fprintf(stderr, "usage: recorder MOUNTPOINT LOG IMAGE...\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	log_fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	if (log_fd < 0) {
		perror(argv[2]);
		return 1;
	}
	for (int i = 3; i < argc; i++) {
		disks[n_disks] = open(argv[i], O_RDWR | O_CLOEXEC);
		if (disks[n_disks++] < 0) {
			perror(argv[i]);
			return 1;
		}
	}
	return fuse_main(4, arguments, &operations, NULL);
}
