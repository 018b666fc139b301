/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that a command is refused, and why: the one table of them. generate-filter.c makes the seccomp filter of it when
 * Atoll is built; SECURITY.md shows it. What is not listed is allowed, up to the last call that was judged; what a later kernel
 * adds does not exist inside (ENOSYS), which programs must expect anyway.
 *
 * ENOSYS is given where programs try something and know what to do without it.
 */
#ifndef JAIL_CALLS_H
#define JAIL_CALLS_H

#include <errno.h>

#define CALLS_LAST_JUDGED 469 /* file_setattr, Linux 6.17; numbers from 424 on are the same on every machine */

/* X(name, number if the library that makes the filter is too old to know the name, errno, why) */
#define CALLS_REFUSED(X)                                                                                               \
	X(mount, 0, EPERM, "mounts are made before the command starts, and by nobody after")                           \
	X(umount, 0, EPERM, "mounts")                                                                                  \
	X(umount2, 0, EPERM, "mounts")                                                                                 \
	X(pivot_root, 0, EPERM, "mounts")                                                                              \
	X(fsopen, 0, EPERM, "mounts")                                                                                  \
	X(fsconfig, 0, EPERM, "mounts")                                                                                \
	X(fsmount, 0, EPERM, "mounts")                                                                                 \
	X(fspick, 0, EPERM, "mounts")                                                                                  \
	X(move_mount, 0, EPERM, "mounts")                                                                              \
	X(open_tree, 0, EPERM, "mounts")                                                                               \
	X(mount_setattr, 0, EPERM, "mounts")                                                                           \
	X(open_tree_attr, 467, EPERM, "mounts")                                                                        \
	X(chroot, 0, EPERM, "the root stays what it is")                                                               \
	X(setns, 0, EPERM, "namespaces are entered before the command starts")                                         \
	X(clone3, 0, ENOSYS, "its flags lie in memory, where a filter cannot see them; the C library uses clone then") \
	X(kexec_load, 0, EPERM, "another kernel")                                                                      \
	X(kexec_file_load, 0, EPERM, "another kernel")                                                                 \
	X(init_module, 0, EPERM, "code in the kernel")                                                                 \
	X(finit_module, 0, EPERM, "code in the kernel")                                                                \
	X(delete_module, 0, EPERM, "code in the kernel")                                                               \
	X(create_module, 0, EPERM, "code in the kernel")                                                               \
	X(query_module, 0, EPERM, "code in the kernel")                                                                \
	X(get_kernel_syms, 0, EPERM, "code in the kernel")                                                             \
	X(bpf, 0, EPERM, "code in the kernel")                                                                         \
	X(perf_event_open, 0, EPERM, "looks into the kernel and at others")                                            \
	X(userfaultfd, 0, EPERM, "stops the kernel in the middle of something")                                        \
	X(io_uring_setup, 0, ENOSYS, "does what other calls do where no filter sees it")                               \
	X(io_uring_enter, 0, ENOSYS, "io_uring")                                                                       \
	X(io_uring_register, 0, ENOSYS, "io_uring")                                                                    \
	X(add_key, 0, EPERM, "keys are the user's, not the sandbox's")                                                 \
	X(request_key, 0, EPERM, "keys")                                                                               \
	X(keyctl, 0, EPERM, "keys")                                                                                    \
	X(open_by_handle_at, 0, EPERM, "opens files by number, past every directory")                                  \
	X(kcmp, 0, EPERM, "tells addresses of the kernel apart")                                                       \
	X(lookup_dcookie, 0, EPERM, "looks into the kernel")                                                           \
	X(syslog, 0, EPERM, "the kernel's log")                                                                        \
	X(acct, 0, EPERM, "the machine's settings")                                                                    \
	X(quotactl, 0, EPERM, "the machine's settings")                                                                \
	X(quotactl_fd, 443, EPERM, "the machine's settings")                                                           \
	X(swapon, 0, EPERM, "the machine's settings")                                                                  \
	X(swapoff, 0, EPERM, "the machine's settings")                                                                 \
	X(reboot, 0, EPERM, "the machine's settings")                                                                  \
	X(sethostname, 0, EPERM, "the machine's settings")                                                             \
	X(setdomainname, 0, EPERM, "the machine's settings")                                                           \
	X(settimeofday, 0, EPERM, "the machine's clock")                                                               \
	X(clock_settime, 0, EPERM, "the machine's clock")                                                              \
	X(stime, 0, EPERM, "the machine's clock")                                                                      \
	X(iopl, 0, EPERM, "the machine's ports")                                                                       \
	X(ioperm, 0, EPERM, "the machine's ports")                                                                     \
	X(vhangup, 0, EPERM, "other people's terminals")                                                               \
	X(fanotify_init, 0, EPERM, "watches whole filesystems")                                                        \
	X(migrate_pages, 0, EPERM, "moves the memory of others")                                                       \
	X(move_pages, 0, EPERM, "moves the memory of others")                                                          \
	X(modify_ldt, 0, EPERM, "often a hole; only emulators use it")                                                 \
	X(vm86, 0, EPERM, "often a hole; only emulators use it")                                                       \
	X(vm86old, 0, EPERM, "often a hole; only emulators use it")                                                    \
	X(nfsservctl, 0, ENOSYS, "left over")                                                                          \
	X(_sysctl, 0, ENOSYS, "left over")                                                                             \
	X(sysfs, 0, ENOSYS, "left over")                                                                               \
	X(ustat, 0, ENOSYS, "left over")                                                                               \
	X(uselib, 0, ENOSYS, "left over")

#endif
