/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies a process by its number and a tag, which later processes of the same number do not
 * have.
 *
 * A tag is valid until the machine restarts. It is the start time that /proc/PID/stat shows. If
 * /proc is mounted with hidepid, it shows an ordinary user only the processes that this user may
 * inspect, and not the first process of a view. The tag of a hidden process is the inode number of
 * a pidfd, with PROCESS_TAG_INODE set; Linux does not reuse these numbers since 6.9. On older
 * kernels the tag is 0, and any hidden process of this user with the same number counts as the
 * tagged one.
 *
 *	process_tag(pid, &tag)           while pid is certain to be the process, such as a child
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
/* False for a zombie, too. */
bool process_is_alive(pid_t pid, uint64_t tag);
/* 0 if the process is alive, -ESRCH if not. *ret_pidfd is -EBADF if the kernel or a filter of
 * system calls refuses pidfds: the caller then signals the number. */
int process_open(pid_t pid, uint64_t tag, int *ret_pidfd);
/* The start time of the process or task, in clock ticks since boot. Fails for a hidden process. */
int process_start_time(pid_t pid, uint64_t *ret);
/* Whether a signal that reached this process, with its number and si_code, reached the rest of its
 * process group too: the terminal sends such signals. When a terminal hangs up, the kernel sends SIGHUP
 * to the leader of its session alone. */
bool process_signal_is_for_group(int sig, int code);
/* The children of the process's first thread; an empty list if there are none. *ret is
 * malloc'ed. */
int process_children(pid_t pid, pid_t **ret, size_t *ret_n);

#endif
