# SPDX-License-Identifier: Apache-2.0
"""Attempts to get out of a sandbox, run inside: escapes.py NAME[,NAME…] CONTEXT

An attempt that is refused raises: an OSError, or Stopped where the refusal is seen in another way. One that comes to its end is a hole.
No attempt does harm where it succeeds: what belongs to the machine is opened for writing and left as it is, and what is sent to all is a signal
that means nothing to anybody but the suite. Prints a line for each: its name, a tab, and "stopped WHY" or "HOLE". Run without arguments it prints the names. CONTEXT is a Python literal: what there is outside.
"""
import ast
import ctypes
import errno
import fcntl
import mmap
import os
import pty
import re
import signal
import socket
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
ATTEMPTS = {}
x = {}  # the context


class Stopped(Exception):
    pass


def attempt(by):
    """by: what must stop it, as a regular expression over what is printed."""
    def register(function):
        ATTEMPTS[function.__name__] = (function, by)
        return function
    return register


def numbers():
    for path in ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h", "/usr/include/asm-generic/unistd.h"):
        if os.path.exists(path):
            with open(path, encoding="ascii") as file:
                return {name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", file.read())}
    return {}


def call(name, *arguments):
    """A system call, by name or number; raises what it says."""
    number = name if isinstance(name, int) else NUMBERS[name]
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(number), *[a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments])
    if r < 0:
        raise OSError(ctypes.get_errno(), str(name))
    return r


NUMBERS = numbers()
CLONE = {"user": 0x10000000, "mnt": 0x20000, "pid": 0x20000000, "net": 0x40000000, "uts": 0x4000000, "ipc": 0x8000000, "cgroup": 0x2000000}
MS_REMOUNT, MS_BIND = 32, 4096
AT_EMPTY_PATH, AT_RECURSIVE = 0x1000, 0x8000


def write_to(path, text="escaped\n", flags=os.O_WRONLY):
    fd = os.open(path, flags)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def open_to_write(path):
    """What belongs to the machine: that it could be written is hole enough."""
    os.close(os.open(path, os.O_WRONLY))


def first_error(actions):
    """All of them must be refused; raises the last refusal."""
    last = None
    for action in actions:
        try:
            action()
        except OSError as e:
            last = e
            continue
        return
    if last:
        raise last
    raise Stopped("nothing there to try it on")


def must_be_empty(path):
    if not os.listdir(path):
        raise Stopped("empty")


def in_child(action):
    """The signal that ends a child that does it, or 0."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    status = os.waitpid(pid, 0)[1]
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


# ---- mounts ----

@attempt("EPERM")
def mount_a_file_system():
    call("mount", b"none", b"/mnt", b"tmpfs", 0, 0)


@attempt("EPERM")
def make_the_root_writable_again():
    call("mount", b"none", b"/", b"", MS_REMOUNT | MS_BIND, 0)


@attempt("EPERM")
def make_the_root_writable_by_mount_setattr():
    attr = struct.pack("QQQQ", 0, 1, 0, 0)
    call("mount_setattr", -100, b"/", AT_RECURSIVE, attr, len(attr))


@attempt("EPERM")
def bind_the_original_elsewhere():
    call("mount", x["beside"].encode(), b"/mnt", b"", MS_BIND, 0)


@attempt("EPERM")
def unmount_the_private_tmp():
    call("umount2", b"/tmp", 2)


@attempt("EPERM")
def uncover_what_is_hidden():
    call("umount2", x["state"].encode(), 2)


@attempt("EPERM")
def pivot_to_another_root():
    call("pivot_root", b"/tmp", b"/tmp")


@attempt("EPERM")
def chroot_and_climb_out():
    call("chroot", b"/tmp")


@attempt("EPERM")
def open_a_new_file_system():
    call("fsopen", b"tmpfs", 0)


@attempt("EPERM")
def pick_the_file_system_of_the_root():
    call("fspick", -100, b"/", 0)


@attempt("EPERM")
def clone_the_mounts():
    call("open_tree", -100, b"/", 1)


@attempt("EPERM")
def move_a_mount():
    call("move_mount", -100, b"/tmp", -100, b"/mnt", 0)


# ---- files outside ----

@attempt("EROFS")
def write_a_file_beside_the_resource():
    write_to(x["canary"])


@attempt("EROFS")
def make_a_file_beside_the_resource():
    write_to(os.path.join(x["beside"], "escaped"), flags=os.O_CREAT | os.O_WRONLY)


@attempt("EROFS")
def remove_a_file_beside_the_resource():
    os.unlink(x["canary"])


@attempt("EROFS")
def change_a_mode_beside_the_resource():
    os.chmod(x["canary"], 0o777)


@attempt("EROFS")
def change_times_beside_the_resource():
    os.utime(x["canary"], (1, 1))


@attempt("EROFS")
def set_an_attribute_beside_the_resource():
    os.setxattr(x["canary"], "user.escaped", b"1")


@attempt("EROFS")
def truncate_a_file_beside_the_resource():
    os.truncate(x["canary"], 0)


@attempt("EROFS")
def write_through_a_symlink_in_the_resource():
    os.symlink(x["canary"], "link-out")
    write_to("link-out")


@attempt("EROFS")
def write_through_a_symlink_of_a_directory():
    os.symlink(x["beside"], "dir-out")
    write_to("dir-out/escaped", flags=os.O_CREAT | os.O_WRONLY)


@attempt("EROFS")
def climb_out_by_dots():
    write_to("../beside/canary")


@attempt("EXDEV|EROFS")
def link_an_outside_file_into_the_resource():
    os.link(x["canary"], "linked")
    write_to("linked")


@attempt("EXDEV|EROFS")
def move_an_outside_file_into_the_resource():
    os.rename(x["canary"], "moved")


@attempt("EXDEV|EROFS")
def exchange_a_file_with_one_outside():
    write_to("mine", flags=os.O_CREAT | os.O_WRONLY)
    call("renameat2", -100, b"mine", -100, x["canary"].encode(), 2)


@attempt("EBUSY|EROFS")
def rename_the_root_of_the_resource():
    os.rename(x["resource"], x["resource"] + "-gone")


@attempt("EACCES|its own Landlock domain")
def rename_a_directory_past_a_landlock_domain():
    """The process outside, which renames directories of the original for the command, must not do it for one that may not."""
    os.makedirs("deep/inner/one", exist_ok=True)
    os.makedirs("deep/allowed", exist_ok=True)

    def confined():
        writing = (1 << 13) - 1 & ~(1 | 4 | 8)
        ruleset = call(444, struct.pack("Q", writing), 8, 0)
        call(445, ruleset, 1, struct.pack("<Qi", writing, os.open("deep/allowed", os.O_PATH)), 0)
        if libc.prctl(38, 1, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "no_new_privs")
        call(446, ruleset, 0)
        try:
            os.rename("original-directory", "renamed-directory")
        except OSError as e:
            os.kill(os.getpid(), signal.SIGUSR1 if e.errno == errno.EACCES else signal.SIGUSR2)

    if in_child(confined) == signal.SIGUSR1:
        raise Stopped("its own Landlock domain")


@attempt("EBUSY|EROFS")
def remove_the_root_of_the_resource():
    os.rmdir(x["resource"])


@attempt("EROFS|ETXTBSY|EACCES")
def overwrite_a_program_of_the_host():
    open_to_write(os.path.realpath(sys.executable))


@attempt("EROFS|EACCES")
def add_a_user_to_the_host():
    open_to_write("/etc/passwd")


@attempt("the original is as it was")
def change_the_original_of_the_resource():
    write_to("inside")  # in the view it must work; outside the suite looks at the original
    raise Stopped("copy on write: the original is as it was")


@attempt("EPERM")
def open_a_file_by_its_handle():
    call("open_by_handle_at", -100, b"\0" * 64, 0)


@attempt("ENOENT|EACCES|EPERM|empty")
def look_into_the_state_directory():
    must_be_empty(x["state"])


@attempt("EPERM|EOPNOTSUPP|EACCES")
def plant_overlay_attributes():
    os.makedirs("planted", exist_ok=True)
    first_error([lambda name=name: os.setxattr("planted", "trusted.overlay." + name, b"y") for name in ("opaque", "redirect", "metacopy")])


@attempt("EPERM")
def plant_a_whiteout():
    os.mknod("whiteout", 0o20000 | 0o600, os.makedev(0, 0))


@attempt("EPERM")
def plant_a_capability():
    write_to("capable", flags=os.O_CREAT | os.O_WRONLY)
    os.setxattr("capable", "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 21, 0, 0, 0))


@attempt("EPERM|EOPNOTSUPP|ENOTTY")
def make_a_file_immutable():
    write_to("immutable", flags=os.O_CREAT | os.O_WRONLY)
    with open("immutable", "rb") as file:
        fcntl.ioctl(file, 0x40086602, struct.pack("l", 0x10))


# ---- fds, environment, secrets ----

@attempt("EBADF")
def use_a_directory_that_the_caller_had_open():
    os.listdir(x["open_fd"])


@attempt("EACCES")
def write_to_the_file_that_is_standard_input():
    write_to("/proc/self/fd/0")


@attempt("not there")
def find_variables_that_steer_the_loader():
    if not any(name in os.environ for name in ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "GCONV_PATH")):
        raise Stopped("not there")


@attempt("not there")
def find_variables_that_name_agents():
    if not any(name in os.environ for name in ("SSH_AUTH_SOCK", "DBUS_SESSION_BUS_ADDRESS", "DOCKER_HOST", "XDG_RUNTIME_DIR")):
        raise Stopped("not there")


@attempt("EACCES|ENOENT|EPERM|empty")
def read_an_ssh_key():
    with open(os.path.expanduser("~/.ssh/id_test"), encoding="ascii") as file:
        file.read()


@attempt("empty|EACCES|EPERM")
def read_a_token_in_a_file():
    with open(os.path.expanduser("~/.netrc"), encoding="ascii") as file:
        if file.read() == "":
            raise Stopped("empty")


@attempt("EACCES|EPERM|empty")
def read_the_store_of_a_cloud():
    must_be_empty(os.path.expanduser("~/.aws"))


@attempt("EACCES|EPERM|empty")
def read_the_store_of_a_browser():
    must_be_empty(os.path.expanduser("~/.mozilla"))


@attempt("empty|EACCES|EPERM")
def read_the_password_hashes():
    with open("/etc/shadow", encoding="ascii") as file:
        if file.read() == "":
            raise Stopped("empty")


# ---- processes ----

@attempt("EACCES|EPERM")
def read_the_program_of_pid_1():
    os.close(os.open("/proc/1/exe", os.O_RDONLY))


@attempt("EACCES|EPERM")
def overwrite_the_program_of_pid_1():
    open_to_write("/proc/1/exe")


@attempt("EACCES|EPERM")
def go_through_the_root_of_pid_1():
    os.listdir("/proc/1/root")


@attempt("EACCES|EPERM")
def go_through_the_directory_of_pid_1():
    os.listdir("/proc/1/cwd")


@attempt("EACCES|EPERM")
def use_the_fds_of_pid_1():
    os.readlink("/proc/1/fd/0")


@attempt("EACCES|EPERM|EROFS")
def write_the_memory_of_pid_1():
    open_to_write("/proc/1/mem")


@attempt("EACCES|EPERM")
def read_the_environment_of_pid_1():
    with open("/proc/1/environ", "rb") as file:
        file.read()


@attempt("EPERM")
def trace_pid_1():
    call("ptrace", 16, 1, 0, 0)


@attempt("EPERM")
def read_the_memory_of_pid_1():
    iov = struct.pack("QQ", 0x1000, 8)
    call("process_vm_readv", 1, iov, 1, iov, 1, 0)


@attempt("EPERM")
def take_an_fd_of_pid_1():
    call("pidfd_getfd", call("pidfd_open", 1, 0), 0, 0)


@attempt("still there|EPERM")
def kill_pid_1():
    os.kill(1, signal.SIGKILL)
    os.kill(1, signal.SIGSTOP)
    raise Stopped("still there")


@attempt("ESRCH")
def signal_a_process_outside():
    os.kill(x["victim"], signal.SIGWINCH)


@attempt("ESRCH|EPERM|kept to its own")
def signal_everybody():
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.kill(-1, signal.SIGWINCH)
        os._exit(0)
    raise Stopped("kept to its own: the suite looks whether the others live")


@attempt("kept to its own")
def signal_the_process_group_of_the_caller():
    os.kill(0, signal.SIGWINCH)  # would end the process outside that is of this group
    raise Stopped("kept to its own: the suite looks whether the others live")


@attempt("not there")
def find_processes_of_the_host():
    if not os.path.exists("/proc/%d" % x["victim"]) and max(int(n) for n in os.listdir("/proc") if n.isdigit()) < 100:
        raise Stopped("not there")


@attempt("ESRCH")
def limit_a_process_outside():
    call("prlimit64", x["victim"], 7, 0, 0)


@attempt("gone with the command")
def leave_a_daemon_behind():
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            os.execvp("sleep", [x["marker"], "300"])
        os._exit(0)
    time.sleep(0.05)
    raise Stopped("gone with the command: the suite looks for it")


@attempt("EPERM|EACCES")
def take_real_time_priority():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))


@attempt("EAGAIN")
def fork_without_end():
    for _ in range(1000):
        if os.fork() == 0:
            time.sleep(20)
            os._exit(0)


@attempt("ENOMEM|killed")
def take_all_memory():
    def take():
        hoard = []
        while len(hoard) < 64:
            hoard.append(mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
            hoard[-1].write(b"x" * (16 << 20))

    pid = os.fork()
    if pid == 0:
        try:
            take()
        except (OSError, MemoryError):
            os._exit(77)
        os._exit(0)
    status = os.waitpid(pid, 0)[1]
    if status != 0:
        raise Stopped("killed" if os.WIFSIGNALED(status) else "ENOMEM")


# ---- identities and capabilities ----

@attempt("EPERM|EINVAL|over its own files alone")
def become_root():
    os.setuid(0)
    if x["root"]:
        raise Stopped("root it is, over its own files alone")


@attempt("no new privileges|no longer set")
def gain_by_a_setuid_program():
    with open("/proc/self/status", encoding="ascii") as file:
        if re.search(r"NoNewPrivs:\s+1", file.read()) and os.statvfs("/usr/bin").f_flag & os.ST_NOSUID:
            raise Stopped("no new privileges, and mounts without set-id")


@attempt("EPERM")
def take_capabilities_back():
    header, data = struct.pack("Ii", 0x20080522, 0), struct.pack("IIIIII", 0xffffffff, 0xffffffff, 0, 0x1ff, 0x1ff, 0)
    call("capset", header, data)


@attempt("EINVAL|EPERM")
def allow_new_privileges_again():
    if libc.prctl(38, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno() or errno.EINVAL, "prctl")


def _unshare(kind):
    def function():
        call("unshare", CLONE[kind])
    function.__name__ = "unshare_a_%s_namespace" % kind
    return function


for _kind in CLONE:
    attempt("EPERM")(_unshare(_kind))


@attempt("EPERM")
def clone_into_a_user_namespace():
    if call("clone", CLONE["user"] | signal.SIGCHLD, 0, 0, 0, 0) == 0:
        os._exit(0)


@attempt("ENOSYS")
def clone_by_a_call_that_no_filter_can_read():
    arguments = struct.pack("QQQQQQQQ", CLONE["user"], 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    if call("clone3", arguments, len(arguments)) == 0:
        os._exit(0)


@attempt("EACCES|EPERM")
def enter_the_namespaces_of_pid_1():
    call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)


@attempt("EPERM")
def enter_a_namespace():
    call("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), 0)


@attempt("signal 31")
def call_the_kernel_as_a_32_bit_program():
    code = b"\xb8\x14\x00\x00\x00\xcd\x80\xc3"  # mov $20, %eax; int $0x80; ret: getpid
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    ended = in_child(function)
    if ended:
        raise Stopped("signal %d" % ended)


@attempt("ENOSYS")
def call_the_kernel_by_x32_numbers():
    call(0x40000000 + 39)


@attempt("ENOSYS")
def call_what_nobody_judged():
    call(470)


# ---- the terminal ----

def _terminal(request):
    master, slave = pty.openpty()
    try:
        os.write(master, b"")
        ctypes.set_errno(0)
        if libc.syscall(ctypes.c_long(NUMBERS["ioctl"]), slave, ctypes.c_ulong(request), ctypes.create_string_buffer(b"x")) < 0:
            raise OSError(ctypes.get_errno(), "ioctl")
    finally:
        os.close(master)
        os.close(slave)


@attempt("EPERM")
def type_into_the_terminal():
    _terminal(0x5412)


@attempt("EPERM")
def type_into_the_terminal_with_stray_bits():
    _terminal(0x100005412)


@attempt("EPERM")
def paste_into_the_console():
    _terminal(0x541C)


@attempt("EPERM")
def load_a_line_discipline():
    _terminal(0x5423)


# ---- the network and sockets ----

@attempt("ECONNREFUSED")
def connect_to_a_service_on_the_hosts_loopback():
    socket.create_connection(("127.0.0.1", x["port"]), 2)


@attempt("ENETUNREACH|EHOSTUNREACH|EADDRNOTAVAIL")
def connect_to_the_world():
    socket.create_connection(("192.0.2.1", 80), 2)


@attempt("ECONNREFUSED")
def connect_to_an_abstract_socket_of_the_host():
    socket.socket(socket.AF_UNIX).connect("\0" + x["abstract"])


@attempt("ECONNREFUSED|ENOENT")
def connect_to_a_socket_beside_the_resource():
    socket.socket(socket.AF_UNIX).connect(x["socket_beside"])


@attempt("ECONNREFUSED|ENOENT")
def connect_to_a_socket_in_the_resource():
    socket.socket(socket.AF_UNIX).connect("socket")


@attempt("ECONNREFUSED|ENOENT")
def connect_to_a_socket_in_the_home():
    socket.socket(socket.AF_UNIX).connect(os.path.expanduser("~/socket"))


@attempt("ENOENT|ECONNREFUSED")
def connect_to_a_socket_in_tmp():
    socket.socket(socket.AF_UNIX).connect(x["socket_tmp"])


@attempt("ENOENT")
def find_the_sockets_of_daemons():
    first_error([lambda path=path: os.stat(path) for path in
                 ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus/system_bus_socket", "/run/user", "/tmp/.X11-unix")])


@attempt("EPERM|EACCES")
def open_a_raw_socket():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


@attempt("EAFNOSUPPORT")
def open_a_packet_socket():
    socket.socket(17, socket.SOCK_RAW, 3)


@attempt("EAFNOSUPPORT")
def talk_to_the_hypervisor():
    socket.socket(40, socket.SOCK_STREAM)


@attempt("EAFNOSUPPORT")
def use_the_kernels_ciphers():
    socket.socket(38, socket.SOCK_SEQPACKET)


@attempt("EPERM")
def make_a_network_interface():
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
    s.bind((0, 0))
    kind = struct.pack("HH", 9, 1) + b"dummy\0\0\0"
    info = struct.pack("HH", 4 + len(kind) - 3, 1) + b"dummy\0\0\0"
    body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH", 4 + len(info), 18) + info
    s.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
    code = struct.unpack("i", s.recv(4096)[16:20])[0]
    if code:
        raise OSError(-code, "netlink")


@attempt("ENOENT")
def find_shared_memory_of_the_host():
    os.stat(x["shm"])


@attempt("ENOENT")
def attach_system_v_memory_of_the_host():
    call("shmget", x["shmkey"], 0, 0)


# ---- devices and the kernel's files ----

@attempt("EPERM")
def make_a_disk():
    os.mknod("disk", 0o60000 | 0o600, os.makedev(x["disk"][0], x["disk"][1]))
    os.open("disk", os.O_RDONLY)


@attempt("EPERM")
def make_the_memory_device():
    os.mknod("/dev/mem", 0o20000 | 0o600, os.makedev(1, 1))
    os.open("/dev/mem", os.O_RDONLY)


@attempt("ENOENT")
def open_devices_of_the_host():
    first_error([lambda name=name: os.open("/dev/" + name, os.O_RDONLY) and None for name in
                 ("mem", "kmem", "port", "kmsg", "vda", "sda", "nvme0n1", "loop-control", "fuse", "kvm", "uinput", "mapper/control")])


@attempt("EROFS|EACCES|EPERM")
def set_the_core_pattern():
    open_to_write("/proc/sys/kernel/core_pattern")


@attempt("EROFS|EACCES|EPERM|ENOENT")
def set_the_module_loader():
    open_to_write("/proc/sys/kernel/modprobe")


@attempt("EROFS|EACCES|EPERM|ENOENT")
def press_the_magic_key():
    open_to_write("/proc/sysrq-trigger")


@attempt("EROFS|EACCES|EPERM|ENOENT")
def register_a_binary_format():
    open_to_write("/proc/sys/fs/binfmt_misc/register")


@attempt("EROFS|EACCES|EPERM|nothing there")
def set_a_release_agent():
    agents = [os.path.join(top, name) for top, _, names in os.walk("/sys/fs/cgroup") for name in names if name == "release_agent"]
    first_error([lambda path=path: open_to_write(path) for path in agents])


@attempt("EROFS|EACCES|EPERM|nothing there")
def leave_the_control_group():
    tops = [os.path.join("/sys/fs/cgroup", name) for name in os.listdir("/sys/fs/cgroup")] + ["/sys/fs/cgroup"]
    tops = [top for top in tops if os.path.exists(os.path.join(top, "cgroup.procs"))]
    first_error([lambda top=top: open_to_write(os.path.join(top, "cgroup.procs")) for top in tops])


@attempt("EROFS|EACCES|EPERM|ENOENT")
def set_the_uevent_helper():
    open_to_write("/sys/kernel/uevent_helper")


@attempt("EACCES|EPERM|EROFS|empty|ENOENT")
def read_the_kernels_memory():
    with open("/proc/kcore", "rb") as file:
        if file.read(16) == b"":
            raise Stopped("empty")


@attempt("EACCES|EPERM|ENOENT|empty")
def read_the_kernels_traces():
    must_be_empty("/sys/kernel/tracing")


@attempt("EPERM|EACCES")
def name_the_machine():
    name = os.uname().nodename.encode()
    call("sethostname", name, len(name))


@attempt("EPERM")
def restart_the_machine():
    call("reboot", 0, 0, 0, 0)  # without the magic numbers the kernel would say EINVAL


def _refused(name):
    def function():
        call(name, 1, 1, 1, 1, 1)  # nothing that would do harm
    function.__name__ = "call_" + name
    return function


for _name, _by in (("bpf", "EPERM"), ("perf_event_open", "EPERM"), ("userfaultfd", "EPERM"), ("io_uring_setup", "ENOSYS"), ("keyctl", "EPERM"),
                   ("add_key", "EPERM"), ("request_key", "EPERM"), ("kexec_load", "EPERM"), ("init_module", "EPERM"), ("finit_module", "EPERM"),
                   ("delete_module", "EPERM"), ("fanotify_init", "EPERM"), ("syslog", "EPERM"), ("swapon", "EPERM"),
                   ("settimeofday", "EPERM"), ("clock_settime", "EPERM"), ("acct", "EPERM"), ("quotactl", "EPERM"), ("vhangup", "EPERM"),
                   ("iopl", "EPERM"), ("kcmp", "EPERM"), ("move_pages", "EPERM"), ("setdomainname", "EPERM")):
    if _name in NUMBERS:
        attempt(_by)(_refused(_name))


def outcome(name):
    try:
        ATTEMPTS[name][0]()
        return "HOLE"
    except Stopped as e:
        return "stopped " + str(e)
    except OSError as e:
        return "stopped %s (%s)" % (errno.errorcode.get(e.errno, e.errno), e)


def main():
    if len(sys.argv) < 3:
        print("\n".join("%s\t%s" % (name, by) for name, (_, by) in ATTEMPTS.items()))
        return
    x.update(ast.literal_eval(sys.argv[2]))
    for name in sys.argv[1].split(","):
        # In a process of its own: one attempt must not change what the next one finds.
        if os.fork() == 0:
            os.write(1, ("%s\t%s\n" % (name, outcome(name))).encode())
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    main()
