/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The system calls that a command is refused, and why: the one place of them. generate-filter.c makes seccomp filters of it when
 * Atoll is built; docs/seccomp.md says what they are for. What is not listed is allowed, up to the last call that was judged; what a later kernel
 * adds does not exist inside (ENOSYS), which programs must expect anyway.
 *
 * ENOSYS is given where programs try something and know what to do without it.
 */
#ifndef JAIL_CALLS_H
#define JAIL_CALLS_H

#include <errno.h>

#define CALLS_LAST_JUDGED 469 /* file_setattr, Linux 6.17; numbers from 424 on are the same on every machine */

/* Atoll sets this in the upper half of landlock_restrict_self()'s flags, so that the filter does
 * not report Atoll's own call. The kernel reads only the lower half. */
#define LANDLOCK_OWN 0x61746f6cU

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

/* Refused too, unless the command may make user namespaces: programs that confine themselves do so in one. */
#define CALLS_REFUSED_WITHOUT_USERNS(X) X(chroot, 0, EPERM, "the root stays what it is")

/* Refused beside these by the profile "strict"; and so are sockets to the kernel (netlink). For what neither debugs nor measures. */
#define CALLS_REFUSED_STRICTLY(X)                                                                  \
	X(ptrace, 0, EPERM, "looks into other processes, as debuggers do")                         \
	X(process_vm_readv, 0, EPERM, "looks into other processes")                                \
	X(process_vm_writev, 0, EPERM, "looks into other processes")                               \
	X(process_madvise, 440, EPERM, "works on other processes")                                 \
	X(process_mrelease, 448, EPERM, "works on other processes")                                \
	X(pidfd_getfd, 438, EPERM, "takes the files of other processes")                           \
	X(personality, 0, EPERM, "turns protections off, as debuggers do")                         \
	X(name_to_handle_at, 0, EPERM, "files by number")                                          \
	X(statmount, 457, ENOSYS, "looks at mounts")                                               \
	X(listmount, 458, ENOSYS, "looks at mounts")                                               \
	X(lsm_get_self_attr, 459, EPERM, "security modules")                                       \
	X(lsm_set_self_attr, 460, EPERM, "security modules")                                       \
	X(lsm_list_modules, 461, EPERM, "security modules")                                        \
	X(mbind, 0, EPERM, "where memory lies, often a hole")                                      \
	X(set_mempolicy, 0, EPERM, "where memory lies")                                            \
	X(get_mempolicy, 0, EPERM, "where memory lies")                                            \
	X(set_mempolicy_home_node, 450, EPERM, "where memory lies")                                \
	X(remap_file_pages, 0, ENOSYS, "left over")                                                \
	X(memfd_secret, 447, ENOSYS, "memory that nobody can look at")                             \
	X(vmsplice, 0, EPERM, "often a hole, hardly used")                                         \
	X(io_setup, 0, ENOSYS, "asynchronous input and output: often a hole, programs do without") \
	X(io_submit, 0, ENOSYS, "asynchronous input and output")                                   \
	X(io_cancel, 0, ENOSYS, "asynchronous input and output")                                   \
	X(io_destroy, 0, ENOSYS, "asynchronous input and output")                                  \
	X(io_getevents, 0, ENOSYS, "asynchronous input and output")                                \
	X(io_pgetevents, 0, ENOSYS, "asynchronous input and output")                               \
	X(shmget, 0, ENOSYS, "System V IPC: old, hardly used")                                     \
	X(shmat, 0, ENOSYS, "System V IPC: old, hardly used")                                      \
	X(shmctl, 0, ENOSYS, "System V IPC: old, hardly used")                                     \
	X(shmdt, 0, ENOSYS, "System V IPC: old, hardly used")                                      \
	X(semget, 0, ENOSYS, "System V IPC: old, hardly used")                                     \
	X(semop, 0, ENOSYS, "System V IPC: old, hardly used")                                      \
	X(semtimedop, 0, ENOSYS, "System V IPC: old, hardly used")                                 \
	X(semctl, 0, ENOSYS, "System V IPC: old, hardly used")                                     \
	X(msgget, 0, ENOSYS, "System V IPC: old, hardly used")                                     \
	X(msgsnd, 0, ENOSYS, "System V IPC: old, hardly used")                                     \
	X(msgrcv, 0, ENOSYS, "System V IPC: old, hardly used")                                     \
	X(msgctl, 0, ENOSYS, "System V IPC: old, hardly used")                                     \
	X(mq_open, 0, ENOSYS, "message queues: hardly used")                                       \
	X(mq_unlink, 0, ENOSYS, "message queues: hardly used")                                     \
	X(mq_timedsend, 0, ENOSYS, "message queues: hardly used")                                  \
	X(mq_timedreceive, 0, ENOSYS, "message queues: hardly used")                               \
	X(mq_notify, 0, ENOSYS, "message queues: hardly used")                                     \
	X(mq_getsetattr, 0, ENOSYS, "message queues: hardly used")

/* Neither of these, but newer than many a library: a profile may name them. */
#define CALLS_NEWER(X)                  \
	X(cachestat, 451, 0, "")        \
	X(fchmodat2, 452, 0, "")        \
	X(map_shadow_stack, 453, 0, "") \
	X(futex_wake, 454, 0, "")       \
	X(futex_wait, 455, 0, "")       \
	X(futex_requeue, 456, 0, "")    \
	X(mseal, 462, 0, "")            \
	X(setxattrat, 463, 0, "")       \
	X(getxattrat, 464, 0, "")       \
	X(listxattrat, 465, 0, "")      \
	X(removexattrat, 466, 0, "")    \
	X(file_getattr, 468, 0, "")     \
	X(file_setattr, 469, 0, "")

#endif
