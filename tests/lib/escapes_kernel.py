# SPDX-License-Identifier: Apache-2.0
"""Further attempts to get out of a sandbox (escapes.py): by the kernel's files, its rarer calls and
ioctls, by open files, and at processes outside by their numbers. Run inside in the same way, with
those of escapes.py: escapes_kernel.py NAME[,NAME…] CONTEXT
"""
import ctypes
import fcntl
import glob
import mmap
import os
import pty
import socket
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import escapes  # noqa: E402
from escapes import CLONE, NUMBERS, Stopped, attempt, call, first_error, libc, must_be_empty, open_to_write, x  # noqa: E402

IOV = struct.pack("QQ", 0x1000, 8)
NOT_WRITABLE = "EROFS|EACCES|EPERM|ENOENT"


def each(table, by, make):
    """An attempt for each line of a table of names and arguments."""
    for name, *arguments in table:
        function = make(*arguments)
        function.__name__ = name
        attempt(by)(function)


def control(fd, request, value=0):
    ctypes.set_errno(0)
    argument = value if isinstance(value, bytes) else ctypes.c_long(value)
    if libc.syscall(ctypes.c_long(NUMBERS["ioctl"]), ctypes.c_long(fd), ctypes.c_ulong(request), argument) < 0:
        raise OSError(ctypes.get_errno(), "ioctl")


def prctl(*arguments):
    call("prctl", *arguments)


# ---- the kernel's settings ----

each([("set_%s" % path.replace("/", "_").replace(".", "_"), "/proc/sys/" + path) for path in (
    "kernel/hostname", "kernel/domainname", "kernel/randomize_va_space", "kernel/dmesg_restrict",
    "kernel/kptr_restrict", "kernel/sysrq",
    "kernel/panic", "kernel/panic_on_oops", "kernel/core_uses_pid", "kernel/core_pipe_limit", "kernel/pid_max",
    "kernel/threads-max",
    "kernel/perf_event_paranoid", "kernel/unprivileged_bpf_disabled", "kernel/kexec_load_disabled",
    "kernel/modules_disabled",
    "kernel/shmmax", "kernel/shmall", "kernel/msgmni", "kernel/sem", "kernel/keys/maxkeys", "vm/drop_caches",
    "vm/overcommit_memory",
    "vm/mmap_min_addr", "vm/swappiness", "vm/panic_on_oom", "fs/file-max", "fs/suid_dumpable", "fs/protected_symlinks",
    "fs/protected_hardlinks", "fs/pipe-max-size", "fs/mount-max", "fs/mqueue/queues_max", "user/max_user_namespaces",
    "user/max_mnt_namespaces", "net/ipv4/ip_forward", "net/core/somaxconn")],
     NOT_WRITABLE, lambda path: lambda: open_to_write(path))

each([("write_%s" % path.strip("/").replace("/", "_"), path) for path in (
    "/proc/irq/default_smp_affinity", "/proc/mtrr", "/proc/scsi/scsi", "/proc/acpi/wakeup", "/proc/1/oom_score_adj",
    "/proc/1/comm",
    "/proc/1/clear_refs", "/proc/1/coredump_filter", "/proc/1/uid_map", "/proc/1/gid_map", "/proc/1/setgroups",
    "/sys/power/state", "/sys/power/disk", "/sys/kernel/mm/ksm/run", "/sys/kernel/kexec_crash_size",
    "/sys/kernel/profiling",
    "/sys/kernel/rcu_expedited", "/sys/bus/pci/rescan", "/sys/bus/pci/drivers_probe",
    "/sys/module/printk/parameters/time",
    "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/devices/system/cpu/cpu1/online",
    "/sys/kernel/debug/sched_features", "/sys/kernel/security/lockdown", "/sys/fs/selinux/enforce")],
     NOT_WRITABLE, lambda path: lambda: open_to_write(path))

each([("look_into_%s" % path.strip("/").replace("/", "_"), path) for path in (
    "/sys/firmware", "/sys/fs/bpf", "/sys/fs/pstore", "/sys/kernel/debug", "/etc/ssl/private", "/root/.ssh")],
     "EACCES|EPERM|ENOENT|empty", lambda path: lambda: must_be_empty(path))

each([("read_%s" % path.strip("/").replace("/", "_"), path) for path in (
    "/proc/kmsg", "/proc/1/mem", "/proc/1/auxv", "/proc/1/stack", "/proc/1/syscall", "/proc/1/io", "/proc/1/maps",
    "/proc/1/smaps", "/proc/1/pagemap", "/proc/1/personality", "/proc/1/numa_maps")],
     "EACCES|EPERM|ENOENT|EIO|EINVAL|empty", lambda path: lambda: read_some(path))


def read_some(path):
    with open(path, "rb", buffering=0) as file:
        if file.read(16) == b"":
            raise Stopped("empty")


@attempt("EROFS|EACCES|EPERM")
def set_the_timers_of_pid_1():
    escapes.write_to("/proc/1/timerslack_ns", "50000")


@attempt("hidden|EPERM|EACCES")
def find_the_addresses_of_the_kernel():
    with open("/proc/kallsyms", encoding="ascii") as file:
        if all(int(line.split()[0], 16) == 0 for line, _ in zip(file, range(100))):
            raise Stopped("hidden")


@attempt("hidden|EPERM|EACCES")
def find_the_pages_of_memory():
    page = mmap.mmap(-1, 4096)
    page[0] = 1
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek(address // 4096 * 8)
        if struct.unpack("Q", file.read(8))[0] & ((1 << 55) - 1) == 0:
            raise Stopped("hidden")


@attempt("EROFS|EACCES|EPERM|nothing there")
def make_a_control_group():
    tops = [top for top in ["/sys/fs/cgroup", *glob.glob("/sys/fs/cgroup/*/")] if os.path.isdir(top)]
    first_error([lambda top=top: os.mkdir(os.path.join(top, "escaped")) for top in tops])


@attempt("EROFS|EACCES|EPERM|nothing there")
def set_the_scheduler_of_a_disk():
    first_error([lambda path=path: open_to_write(path) for path in glob.glob("/sys/block/*/queue/scheduler")])


@attempt("EROFS|EACCES|EPERM|nothing there")
def set_a_parameter_of_a_module():
    first_error([lambda path=path: open_to_write(path) for path in glob.glob("/sys/module/*/parameters/*")[:200]])


# ---- mounts and namespaces ----

each([("clone_into_a_%s_namespace_of_its_own" % kind, flag) for kind, flag in CLONE.items() if kind != "user"], "EPERM",
     lambda flag: lambda: call("clone", flag | 17, 0, 0, 0, 0) or os._exit(0))


@attempt("EPERM")
def unshare_the_clock():
    call("unshare", 0x80)


@attempt("EPERM")
def enter_the_namespaces_of_pid_1_by_a_pidfd():
    call("setns", call("pidfd_open", 1, 0), CLONE["mnt"] | CLONE["pid"])


@attempt("EPERM")
def find_the_user_namespace_above():
    control(os.open("/proc/self/ns/user", os.O_RDONLY), 0xB702)


@attempt("EPERM")
def find_the_process_namespace_above():
    control(os.open("/proc/self/ns/pid", os.O_RDONLY), 0xB702)


@attempt("EPERM")
def take_the_proc_away():
    call("umount2", b"/proc", 2)


@attempt("EPERM")
def mount_a_writable_proc():
    call("mount", b"none", b"/proc", b"proc", 0, 0)


@attempt("EPERM")
def mount_the_control_groups():
    call("mount", b"none", b"/tmp", b"cgroup2", 0, 0)


@attempt("EPERM")
def mount_a_disk():
    call("mount", b"/dev/vda", b"/tmp", b"ext4", 0, 0)


@attempt("EPERM")
def clone_a_mount_with_attributes():
    call(467, -100, b"/", 1, 0, 0)


@attempt("EROFS|EPERM|EACCES")
def map_the_root_of_the_host():
    escapes.write_to("/proc/self/uid_map", "0 0 1\n")


@attempt("EROFS|EPERM|EACCES")
def allow_setgroups_again():
    escapes.write_to("/proc/self/setgroups", "allow\n")


# ---- calls ----

def refused(name, number=0):
    if name in NUMBERS or number:
        return lambda: call(NUMBERS.get(name, number), 1, 1, 1, 1, 1)
    return None


for _by, _names in (("EPERM", ("kexec_file_load", "swapoff", "ioperm", "modify_ldt", "migrate_pages", "lookup_dcookie",
                               "fsconfig", "fsmount",
                               "open_tree", "mount_setattr", "quotactl_fd", "pivot_root", "sethostname",
                               "open_by_handle_at")),
                    ("ENOSYS", ("io_uring_enter", "io_uring_register", "_sysctl", "ustat", "sysfs", "uselib",
                                "nfsservctl"))):
    each([("call_%s_at_last" % name, name) for name in _names if name in NUMBERS], _by, refused)

each([("join_a_session_of_keys", 1), ("search_the_keys_of_the_user", 10), ("read_a_key", 11), ("link_a_key", 8),
      ("revoke_a_key", 3)],
     "EPERM", lambda operation: lambda: call("keyctl", operation, -4, 0, 0, 0))


@attempt("EPERM")
def set_the_frequency_of_the_clock():
    call("adjtimex", struct.pack("I", 2) + bytes(300))


@attempt("EPERM|EOPNOTSUPP")
def set_the_frequency_of_another_clock():
    call("clock_adjtime", 0, struct.pack("I", 2) + bytes(300))


@attempt("EPERM")
def wake_the_machine_by_a_timer():
    call("timerfd_create", 8, 0)


@attempt("EPERM|EACCES")
def be_nicer_to_itself():
    os.nice(-5)


@attempt("EPERM")
def take_a_deadline():
    call("sched_setattr", 0, struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10000000, 20000000, 30000000), 0)


@attempt("EPERM")
def read_and_write_before_all_others():
    call("ioprio_set", 1, 0, 1 << 13)


@attempt("EPERM|EINVAL")
def raise_an_ambient_capability():
    prctl(47, 2, 21, 0, 0)


@attempt("EPERM|EINVAL")
def move_its_own_program():
    prctl(35, 13, 0, 0, 0)


@attempt("EPERM")
def set_the_log_of_the_machine():
    call("syslog", 5, 0, 0)


# ---- processes outside, by their numbers ----

each([("open_a_process_outside", lambda: call("pidfd_open", x["victim"], 0)),
      ("trace_a_process_outside", lambda: call("ptrace", 16, x["victim"], 0, 0)),
      ("seize_a_process_outside", lambda: call("ptrace", 0x4206, x["victim"], 0, 0)),
      ("read_the_memory_of_a_process_outside", lambda: call("process_vm_readv", x["victim"], IOV, 1, IOV, 1, 0)),
      ("write_the_memory_of_a_process_outside", lambda: call("process_vm_writev", x["victim"], IOV, 1, IOV, 1, 0)),
      ("signal_a_group_outside", lambda: os.killpg(x["victim"], 28)),
      ("signal_a_thread_outside", lambda: call("tgkill", x["victim"], x["victim"], 28)),
      ("queue_a_signal_outside", lambda: call("rt_sigqueueinfo", x["victim"], 28, struct.pack("iiii", 28, 0, -1, 0) +
                                              bytes(112))),
      ("find_the_group_of_a_process_outside", lambda: os.getpgid(x["victim"])),
      ("find_the_session_of_a_process_outside", lambda: os.getsid(x["victim"])),
      ("find_the_processors_of_a_process_outside", lambda: os.sched_getaffinity(x["victim"])),
      ("set_the_processors_of_a_process_outside", lambda: os.sched_setaffinity(x["victim"], {0})),
      ("set_the_priority_of_a_process_outside", lambda: os.setpriority(os.PRIO_PROCESS, x["victim"], 19)),
      ("set_the_scheduler_of_a_process_outside",
       lambda: os.sched_setscheduler(x["victim"], os.SCHED_BATCH, os.sched_param(0))),
      ("find_the_locks_of_a_process_outside", lambda: call("get_robust_list", x["victim"], bytes(8), bytes(8))),
      ("join_the_group_of_a_process_outside", lambda: os.setpgid(0, x["victim"])),
      ("have_a_process_outside_signalled_by_a_file", lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, x["victim"])),
      ("have_a_group_outside_signalled_by_a_file", lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, -x["victim"])),
      ("have_a_process_outside_signalled_by_a_socket",
       lambda: control(socket.socket(socket.AF_UNIX).detach(), 0x8901, struct.pack("i", x["victim"]))),
      ("move_the_pages_of_a_process_outside",
       lambda: call("process_madvise", call("pidfd_open", x["victim"], 0), bytes(16), 1, 21, 0))],
     "ESRCH|EPERM", lambda action: action)


@attempt("EPERM")
def seize_pid_1():
    call("ptrace", 0x4206, 1, 0, 0)


@attempt("EPERM")
def write_the_memory_of_pid_1_by_a_call():
    call("process_vm_writev", 1, IOV, 1, IOV, 1, 0)


# ---- open files, and files beside the resource ----

def canary():
    return os.open(x["canary"], os.O_RDONLY)


each([("change_a_mode_beside_by_an_fd", lambda: os.fchmod(canary(), 0o777)),
      ("change_an_owner_beside_by_an_fd", lambda: os.fchown(canary(), os.getuid(), os.getgid())),
      ("change_times_beside_by_an_fd", lambda: os.utime(canary(), (1, 1))),
      ("set_an_attribute_beside_by_an_fd", lambda: os.setxattr(canary(), "user.escaped", b"x")),
      ("make_a_directory_beside", lambda: os.mkdir(x["beside"] + "/d")),
      ("make_a_link_beside", lambda: os.symlink("x", x["beside"] + "/l")),
      ("make_a_fifo_beside", lambda: os.mkfifo(x["beside"] + "/p")),
      ("make_a_socket_beside", lambda: socket.socket(socket.AF_UNIX).bind("../beside/new-socket")),
      ("make_a_file_without_a_name_beside", lambda: os.open(x["beside"], os.O_TMPFILE | os.O_RDWR)),
      ("change_an_owner_beside", lambda: os.chown(x["canary"], os.getuid(), os.getgid())),
      ("change_the_times_of_a_directory_beside", lambda: os.utime(x["beside"], (1, 1))),
      ("rename_a_file_beside", lambda: os.rename(x["canary"], x["canary"] + "2")),
      ("link_a_file_beside", lambda: os.link(x["canary"], x["canary"] + "2")),
      ("write_beside_through_the_root_of_a_process", lambda: open_to_write("/proc/self/root" + x["canary"])),
      ("write_beside_through_the_directory_of_a_process", lambda: open_to_write("/proc/self/cwd/../beside/canary")),
      ("write_beside_through_an_open_directory",
       lambda: open_to_write("/proc/self/fd/%d/canary" % os.open(x["beside"], os.O_PATH))),
      ("write_beside_through_an_open_file",
       lambda: open_to_write("/proc/self/fd/%d" % os.open(x["canary"], os.O_PATH)))],
     "EROFS|EACCES|EPERM|EOPNOTSUPP", lambda action: action)


@attempt("EACCES")
def map_a_file_beside_for_writing():
    mmap.mmap(canary(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)


@attempt("EACCES")
def make_a_mapping_writable():
    page = mmap.mmap(canary(), 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ)
    with open("/proc/self/maps", encoding="ascii") as file:
        start = next(int(line.split("-")[0], 16) for line in file if line.rstrip().endswith("/canary"))
    call("mprotect", start, 4096, 3)
    page.close()


@attempt("EPERM|ENOENT|EXDEV|EROFS")
def give_an_open_file_a_name_in_the_resource():
    call("linkat", os.open(x["canary"], os.O_PATH), b"", -100, b"stolen", 0x1000)


@attempt("EPERM|EINVAL|EROFS|EXDEV")
def leave_a_whiteout_behind():
    escapes.write_to("left", flags=os.O_CREAT | os.O_WRONLY)
    call("renameat2", -100, b"left", -100, b"left2", 4)


each([("plant_%s" % name.replace(".", "_"),
       name) for name in ("trusted.escaped", "security.ima", "system.posix_acl_escaped")],
     "EPERM|EOPNOTSUPP|ENOTSUP|EINVAL|EACCES", lambda name: lambda: os.setxattr(".", name, b"x"))


@attempt("EPERM|EOPNOTSUPP|ENOTTY|EACCES")
def freeze_the_filesystem():
    control(os.open(".", os.O_RDONLY), 0xC0045877)


@attempt("EPERM|EOPNOTSUPP|ENOTTY|EINVAL|EACCES")
def find_the_blocks_of_a_file():
    control(os.open("inside", os.O_RDONLY), 1, struct.pack("i", 0))


@attempt("EROFS|EPERM|EOPNOTSUPP|ENOTTY")
def make_a_file_beside_immutable():
    control(canary(), 0x40086602, struct.pack("l", 0x10))


# ---- devices and terminals ----

each([("make_the_device_" + name, major, minor) for name, major, minor in (
    ("kmsg", 1, 11), ("port", 1, 4), ("fuse", 10, 229), ("kvm", 10, 232), ("tun", 10, 200), ("loop_control", 10, 237),
    ("tty0", 4, 0), ("ptmx_of_the_host", 5, 2), ("userfaultfd", 10, 126))],
     "EPERM", lambda major, minor: lambda: os.mknod("device", 0o20000 | 0o600, os.makedev(major, minor)))

each([("open_the_device_" + name.replace("/", "_"),
       "/dev/" + name) for name in ("userfaultfd", "net/tun", "mqueue", "disk", "input", "snapshot", "hpet",
                                                                                 "rtc0", "watchdog", "vsock",
                                                                                 "cpu/0/msr", "vfio", "dri", "snd")],
     "ENOENT", lambda path: lambda: os.open(path, os.O_RDONLY))


def terminal(request, value):
    def action():
        master, slave = pty.openpty()
        try:
            control(slave, request, value)
        finally:
            os.close(master)
            os.close(slave)
    return action


each([("take_the_console", 0x541D, 0), ("lock_a_terminals_settings", 0x5457, bytes(64)),
      ("hang_a_terminal_up", 0x5437, 0)],
     "EPERM", terminal)


@attempt("not there")
def find_the_terminals_of_the_host():
    if set(os.listdir("/dev/pts")) <= {"ptmx", "0"}:
        raise Stopped("not there")


# ---- sockets ----

each([("open_a_socket_for_" + name, family, kind) for name, family, kind in (
    ("keys_of_networks", 15, 3), ("fast_packets", 44, 3), ("clusters", 30, 1), ("reliable_datagrams", 21, 5),
    ("radio", 31, 3), ("cars", 29, 3),
    ("shared_memory", 43, 1), ("kernel_messages", 41, 2), ("modems", 24, 1), ("routers", 42, 2))],
     "EAFNOSUPPORT", lambda family, kind: lambda: socket.socket(family, kind))


def option(level, name, value=struct.pack("i", 1)):
    return lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM).setsockopt(level, name, value)


each([("mark_packets", socket.SOL_SOCKET, 36), ("take_more_buffers", socket.SOL_SOCKET, 33),
      ("debug_a_socket", socket.SOL_SOCKET, 1),
      ("take_foreign_addresses", socket.IPPROTO_IP, 19), ("repair_a_connection", socket.IPPROTO_TCP, 19)],
     "EPERM|EACCES", option)


@attempt("EPERM|EACCES")
def take_the_loopback_down():
    control(socket.socket().detach(), 0x8914, b"lo\0".ljust(16, b"\0") + struct.pack("h", 0) + bytes(22))


@attempt("EPERM|EACCES")
def give_the_loopback_an_address():
    control(socket.socket().detach(), 0x8916, b"lo\0".ljust(16, b"\0") +
            struct.pack("HH4s", 2, 0, bytes([10, 9, 8, 7])) + bytes(16))


@attempt("EPERM")
def pass_for_pid_1_at_a_socket():
    one, two = socket.socketpair()
    two.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    one.sendmsg([b"x"], [(socket.SOL_SOCKET, 2, struct.pack("iII", 1, os.getuid(), os.getgid()))])


@attempt("not there")
def find_the_sockets_of_the_host_in_a_list():
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as file:
        if x["abstract"] not in file.read():
            raise Stopped("not there")


@attempt("not there")
def find_the_services_of_the_host_in_a_list():
    with open("/proc/net/tcp", encoding="ascii") as file:
        if ":%04X" % x["port"] not in file.read():
            raise Stopped("not there")


@attempt("EPERM|EACCES|ECONNREFUSED")
def tell_the_machine_of_a_device():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)
    s.sendto(b"add@/devices/escaped\0ACTION=add\0", (0, 1))


@attempt("EPERM|EPROTONOSUPPORT|ECONNREFUSED")
def tell_the_audit_of_the_machine():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)
    s.sendto(struct.pack("IHHII", 16, 1005, 5, 1, 0), (0, 0))
    code = struct.unpack("i", s.recv(4096)[16:20])[0]
    raise OSError(-code, "netlink")


if __name__ == "__main__":
    escapes.main()
