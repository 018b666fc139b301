# SPDX-License-Identifier: Apache-2.0
"""Runs a command for which the kernel lacks something: without.py WHAT[,WHAT…] command [argument…]

  namespaces   user namespaces are used up: the command is in one that allows no further one (ENOSPC), and has no rights in it
  clone        a container's filter refuses user namespaces (EPERM)
  landlock     the calls of Landlock do not exist (ENOSYS)
  NAME=ERROR   this system call is refused, as a container's filter may do: close_range=EPERM
"""
import ctypes
import errno
import os
import struct
import sys

CLONE_NEWUSER = 0x10000000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
LOAD, JUMP_EQUAL, JUMP_AND, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, ERRNO = 0x7FFF0000, 0x00050000
NUMBER, FIRST_ARGUMENT = 0, 16
LANDLOCK = range(444, 447)
CLONE3 = 435
CALLS = {"pidfd_send_signal": 424, "pidfd_open": 434, "close_range": 436, "openat2": 437, "pidfd_getfd": 438,
         "faccessat2": 439, "seccomp": {"x86_64": 317, "aarch64": 277}[os.uname().machine]}
CLONE, UNSHARE = {"x86_64": (56, 272), "aarch64": (220, 97)}[os.uname().machine]
libc = ctypes.CDLL(None, use_errno=True)


def must(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def use_up_namespaces():
    uid, gid = os.getuid(), os.getgid()
    must(libc.unshare(CLONE_NEWUSER))
    for name, text in (("setgroups", "deny"), ("uid_map", "%d %d 1" % (uid, uid)), ("gid_map", "%d %d 1" % (gid, gid))):
        with open("/proc/self/" + name, "w", encoding="ascii") as file:
            file.write(text)
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
        file.write("0")


def refuse(number, error):
    return [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | error)]


def refuse_with_flag(number, flag, error):
    return [(JUMP_EQUAL, 0, 4, number), (LOAD, 0, 0, FIRST_ARGUMENT), (JUMP_AND, 0, 1, flag), (RETURN, 0, 0, ERRNO | error),
            (RETURN, 0, 0, ALLOW)]


def set_filter(parts):
    program = [(LOAD, 0, 0, NUMBER), *parts, (RETURN, 0, 0, ALLOW)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in program))
    must(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    must(libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, struct.pack("@HP", len(program), ctypes.addressof(code)), 0, 0))


def main():
    wanted, parts = sys.argv[1].split(","), []
    if "namespaces" in wanted:
        use_up_namespaces()
    if "clone" in wanted:
        parts += refuse_with_flag(CLONE, CLONE_NEWUSER, errno.EPERM) + refuse_with_flag(UNSHARE, CLONE_NEWUSER, errno.EPERM)
        parts += refuse(CLONE3, errno.ENOSYS)
    if "landlock" in wanted:
        for number in LANDLOCK:
            parts += refuse(number, errno.ENOSYS)
    for name, _, error in (each.partition("=") for each in wanted if "=" in each):
        parts += refuse(CALLS[name], getattr(errno, error))
    if parts:
        set_filter(parts)
    os.execvp(sys.argv[2], sys.argv[2:])


main()
