/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes by number, told apart from later ones that get the same number.
 *
 * A tag names a process for as long as the machine runs. It is the start time that /proc/PID/stat shows. A /proc that is
 * mounted with hidepid shows an ordinary user no process that this user may not inspect, and the first process of a view is such
 * a process. The tag is then the inode number of a pidfd, which Linux does not reuse since 6.9 (PROCESS_TAG_INODE is set in
 * it), or 0 on older kernels: a hidden process of this user with that number then counts as the one that was meant.
 *
 *	process_tag(pid, &tag)           of a process that is certain to be the one, such as a child
 *	process_is_alive(pid, tag)       later, from any process of the same user
 *	process_open(pid, tag, &pidfd)   to signal it
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_TAG_INODE (1ULL << 63)

/* All return 0 or -errno. */
int process_tag(pid_t pid, uint64_t *ret);
/* Not true for a process that has ended and that its parent has not waited for. */
bool process_is_alive(pid_t pid, uint64_t tag);
/* 0 if there is such a process, -ESRCH if not. *ret_pidfd is -EBADF where the kernel, or a filter of system calls, gives no
 * pidfd: signal the number then. */
int process_open(pid_t pid, uint64_t tag, int *ret_pidfd);
/* Of the process or task, in clock ticks since boot; fails for a hidden one. */
int process_start_time(pid_t pid, uint64_t *ret);
/* The children of the process's first thread; an empty list if there are none. *ret is malloc'ed. */
int process_children(pid_t pid, pid_t **ret, size_t *ret_n);

#endif
