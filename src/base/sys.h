/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that touch durable state, each under a name of its own: the declared seam for fault injection.
 *
 * In a release build they are the plain calls. Built with -Dfaults=true (ATOLL_FAULTS defined) each call first asks
 * sys_fault(), which counts and, when the count named by the environment is reached, makes this one call fail, ends the
 * process by SIGKILL at that instant, or stops it for others to act:
 *
 *	ATOLL_FAULT=37:ENOSPC     the 37th call fails with ENOSPC
 *	ATOLL_FAULT=37:kill       SIGKILL before the 37th call is made
 *	ATOLL_FAULT=37:kill-after SIGKILL after the 37th call was made
 *	ATOLL_FAULT=37:step       SIGSTOP before the 37th call and before every later one
 *	ATOLL_FAULT=count         at exit the number of calls is written to the file ATOLL_FAULT_COUNT names
 *	ATOLL_FAULT_TRACE=FILE    the number and name of every counted call is appended to FILE
 *	ATOLL_FAULT_ONLY=sync     only calls whose name contains "sync" are counted
 *	ATOLL_FAULT_FROM=prepare  counting begins when sys_fault_mark("prepare") is passed (default: from the start)
 *
 * Counting is over a process and the children it forks without exec (a shared mapping). "kill" ends the parent too if
 * the caller is such a child (sys_fault_child() is called by whoever forks one).
 * All functions return 0 or a positive result, or -errno. SQLite's own writes are counted through its VFS's system-call
 * table (sys_fault_hook_sqlite(), called by the store).
 */
#ifndef BASE_SYS_H
#define BASE_SYS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

int sys_open(int dirfd, const char *name, int flags, mode_t mode); /* for O_CREAT and writing opens; adds O_CLOEXEC */
int sys_rename(int old_dir, const char *old_name, int new_dir, const char *new_name, unsigned flags);
int sys_link(int old_dir, const char *old_name, int new_dir, const char *new_name);
int sys_unlink(int dirfd, const char *name, int flags);
int sys_mkdir(int dirfd, const char *name, mode_t mode);
int sys_symlink(const char *target, int dirfd, const char *name);
int sys_whiteout(int dirfd, const char *name);        /* by which an overlay's upper layer hides what is below */
int sys_write(int fd, const void *data, size_t size); /* all of it, or -errno */
int sys_pwrite(int fd, const void *data, size_t size, off_t at); /* all of it at once, or -errno */
int sys_truncate(int fd, off_t size);
int sys_chmod(int fd, mode_t mode); /* fd may be O_PATH: goes through /proc/self/fd then */
int sys_chown(int dirfd, const char *name, uid_t uid,
	      gid_t gid); /* never follows; name "" with AT_EMPTY_PATH = the fd itself */
int sys_utimens(int dirfd, const char *name,
		const struct timespec times[2]);                            /* never follows; name "": the fd itself */
int sys_setxattr(int fd, const char *name, const void *value, size_t size); /* fd may be O_PATH */
int sys_removexattr(int fd, const char *name);
int sys_removexattr_at(int dirfd, const char *entry,
		       const char *name); /* links are not followed; Linux 6.13, else -ENOSYS */
int sys_fsync(int fd);
int sys_syncfs(int fd);
int sys_clone_file(int to_fd, int from_fd); /* FICLONE */
ssize_t sys_copy_range(int from_fd, off_t *from, int to_fd, off_t *to, size_t size);
ssize_t sys_sendfile(int to_fd, int from_fd, off_t *from, size_t size);
int sys_snapshot(int from_fd, int dirfd, const char *name, bool read_only); /* of the btrfs subvolume from_fd */
int sys_subvolume_destroy(int dirfd, const char *name);                     /* with everything in it */
int sys_subvolume_thaw(int fd);                                             /* a read-only one can be written */
int sys_btrfs_sync(int fd);           /* writes all data of the filesystem back, and ends the running transaction */
int sys_set_flags(int fd, int flags); /* FS_IOC_SETFLAGS */
struct fsxattr;
int sys_set_project(int fd, const struct fsxattr *x); /* FS_IOC_FSSETXATTR */
int sys_set_link_project(int fd, uint32_t id);        /* of a symbolic link, O_PATH; Linux 6.17, else -ENOSYS */
int sys_lease(int fd, int type);                      /* F_RDLCK or F_UNLCK; SIGIO is left to the caller */
int sys_flock(int fd, int how);

/* Of a file that is mapped shared and writable: gives it the blocks behind the mapping, so that no write to it can raise SIGBUS. -ENOSPC
 * where they cannot be had. Does nothing before Linux 5.14. */
int sys_allocate_mapped(void *at, size_t size);

void sys_fault_mark(const char *name);
void sys_fault_child(void);
struct sqlite3_vfs;
void sys_fault_hook_sqlite(struct sqlite3_vfs *vfs);
bool sys_faults_built_in(void);

#endif
