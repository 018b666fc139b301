#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Profiles of system calls (--seccomp) and user namespaces (--userns), as root and as an ordinary user."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["mkdir", "d", 0o755]]
MAKE = ("mkdir", "mkdirat")
# What programs that were linked to the C library need to begin and to print.
START = ["execve", "brk", "mmap", "munmap", "mprotect", "openat", "open", "read", "pread64", "write", "close", "fstat", "newfstatat", "stat", "access",
         "faccessat", "arch_prctl", "set_tid_address", "set_robust_list", "rseq", "prlimit64", "getrandom", "exit_group", "ioctl", "lseek", "futex"]
CALL = """
import ctypes, errno, sys
libc = ctypes.CDLL(None, use_errno=True)
for name in sys.argv[1:]:
    number = %r[name]
    r = libc.syscall(ctypes.c_long(number), 0, 0, 0, 0, 0)
    print(name, errno.errorcode[ctypes.get_errno()] if r < 0 else "done")
"""
NUMBERS = {"x86_64": {"ptrace": 101, "mq_open": 240, "io_setup": 206, "shmget": 29, "clone3": 435, "unheard": 470, "chroot": 161, "getpid": 39, "mount": 165},
           "aarch64": {"ptrace": 117, "mq_open": 180, "io_setup": 0, "shmget": 194, "clone3": 435, "unheard": 470, "chroot": 51, "getpid": 172,
                       "mount": 40}}[os.uname().machine]


class Ground:
    def __init__(self, place, tap, who):
        self.place, self.tap, self.who = place, tap, who
        self.path = t.build_tree(place, who, BASE)
        self.box = t.Box(place, who, dirs=[self.path])
        self.box.new()
        self.serial = 0

    def profile(self, content):
        """The path of a new file with that content, which is text or what JSON is made of."""
        self.serial += 1
        path = os.path.join(self.place.fresh("profile", self.who), "%d.json" % self.serial)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content, indent=1))
        os.chmod(path, 0o644)
        return path

    def run(self, profile, *argv, options=()):
        return self.box.atoll("run", "box", "--seccomp", profile, *options, "--", *argv, cwd=self.path)

    def calls(self, profile, *names, options=()):
        """What each of these calls answers."""
        done = self.run(profile, t.PYTHON, "-I", "-S", "-c", CALL % NUMBERS, *names, options=options)
        return dict(line.split() for line in done.stdout.decode().splitlines()) or t.said(done)

    def check(self, what, good, *more):
        self.tap.check("%s, %s" % (what, self.who), good, *more)

    def refused(self, what, profile, *named):
        done = self.run(profile, "true")
        lines = done.stderr.splitlines()
        self.check(what + ": one line, exit 125", done.returncode == 125 and len(lines) == 1 and all(n.encode() in lines[0] for n in named), t.said(done))


def names(g):
    found = g.calls("default", "ptrace", "mq_open", "clone3", "unheard", "chroot")
    g.check("the default refuses what it always does", found["clone3"] == found["unheard"] == "ENOSYS" and found["chroot"] == "EPERM" and
            found["mq_open"] == "EFAULT", found)
    found = g.calls("strict", "ptrace", "mq_open", "io_setup", "shmget", "clone3", "unheard", "chroot", "getpid")
    g.check("strict refuses more", found["ptrace"] == "EPERM" and found["mq_open"] == found["io_setup"] == found["shmget"] == "ENOSYS", found)
    g.check("and nothing of it is given back", found["clone3"] == found["unheard"] == "ENOSYS" and found["chroot"] == "EPERM" and
            found["getpid"] == "done", found)
    done = g.run("strict", "sh", "-c", "git --version && echo x > made && ls -l | cat && %s -c 'import socket, threading; socket.socket()'" % t.PYTHON)
    g.check("ordinary tools work with strict", done.returncode == 0 and not done.stderr, t.said(done))
    done = g.run("strict", t.PYTHON, "-c", "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW)")
    g.check("but no socket to the kernel can be made", done.returncode == 1 and b"not supported" in done.stderr, t.said(done))


def files(g):
    deny = g.profile({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": [*MAKE, "socketcall"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]})
    done = g.run(deny, "sh", "-c", "mkdir x; echo y > y; cat y")
    g.check("a file refuses what it names", done.stdout == b"y\n" and b"not supported" in done.stderr and not os.path.exists(g.path + "/x"), t.said(done))
    allow = g.profile({"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1, "architectures": ["SCMP_ARCH_X86_64"], "flags": [], "archMap": None,
                       "syscalls": [{"names": START, "action": "SCMP_ACT_ALLOW", "args": [], "comment": "", "includes": {}, "excludes": {}}]})
    done = g.run(allow, "cat", "f")
    g.check("a file allows what it names", done.returncode == 0 and done.stdout == b"content\n", t.said(done))
    done = g.run(allow, "mkdir", "x")
    g.check("and nothing else", done.returncode == 1 and b"not permitted" in done.stderr, t.said(done))
    generous = g.profile({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": ["mount", "chroot", "clone3"], "action": "SCMP_ACT_ALLOW"}]})
    found = g.calls(generous, "mount", "chroot", "clone3", "unheard")
    g.check("a file cannot give what is refused always", found == {"mount": "EPERM", "chroot": "EPERM", "clone3": "ENOSYS", "unheard": "ENOSYS"}, found)
    odd = g.profile({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5, "includes": {"caps": ["CAP_SYS_ADMIN"]}},
        {"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5, "includes": {"arches": ["s390x"]}},
        {"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5, "includes": {"minKernel": "99.0"}},
        {"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 5, "excludes": {"arches": ["amd64", "arm64"]}},
        {"names": ["getpid"], "action": "SCMP_ACT_ERRNO", "errnoRet": 11, "includes": {"minKernel": "4.8"}, "excludes": {"caps": ["CAP_SYS_ADMIN"]}}]})
    g.check("a rule for others is passed over", g.calls(odd, "getpid") == {"getpid": "EAGAIN"}, g.calls(odd, "getpid"))
    either = g.profile({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["kill"], "action": "SCMP_ACT_ERRNO", "args": [{"index": 1, "value": n, "op": "SCMP_CMP_EQ"} for n in (10, 12)]}]})
    done = g.run(either, "bash", "-c", "trap 'echo got' USR1 USR2 HUP; for s in USR1 USR2 HUP; do kill -$s $$; done; true")
    g.check("of several conditions on one argument each counts", done.stdout == b"got\n" and done.stderr.count(b"not permitted") == 2, t.said(done))
    killing = g.profile({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{"names": list(MAKE), "action": "SCMP_ACT_KILL_PROCESS"}]})
    done = g.run(killing, "mkdir", "x")
    g.check("a program can be ended for it", done.returncode == 128 + 31, t.said(done))
    made = g.box.atoll("new", "kept", "--dir", g.path, "--seccomp", os.path.relpath(deny, g.path), cwd=g.path)
    done = g.box.atoll("run", "kept", "--", "mkdir", "/tmp/x", cwd="/")
    shown = g.box.atoll("config", "kept")
    g.check("a profile is kept with a sandbox", done.returncode == 1 and os.path.basename(deny).encode() in shown.stdout, t.said(made), t.said(done), t.said(shown))
    g.box.atoll("rm", "kept")
    done = g.box.atoll("run", "box", "--explain", "--seccomp", deny, cwd=g.path), g.box.atoll("run", "box", "--explain", "--seccomp", "strict", cwd=g.path)
    g.check("--explain names the profile", any(line.startswith(b"call") and b"refuses 2 calls" in line for line in done[0].stdout.splitlines()) and
            any(line.startswith(b"call    strict") for line in done[1].stdout.splitlines()), *[t.said(d) for d in done])


def mistakes(g):
    rule = '{"defaultAction": "SCMP_ACT_ALLOW",\n "syscalls": [\n  {"names": ["mkdir"], "action": "SCMP_ACT_ERRNO"%s}\n]}'
    g.refused("a profile that is not there", g.path + "/none.json", "none.json")
    g.refused("a directory as profile", g.path, "Is a directory")
    g.refused("an endless profile", "/dev/zero", "/dev/zero")
    g.refused("an empty profile", g.profile(""), "line 1")
    g.refused("a profile that is no JSON", g.profile("{\n\n x"), "line 3")
    g.refused("a profile with a NUL byte", g.profile("{}\0"), "NUL")
    g.refused("a profile that is a list", g.profile("[]"), "line 1", "object")
    g.refused("a profile without a default", g.profile('{"syscalls": []}'), "defaultAction")
    g.refused("an unknown name", g.profile('{"defaultAction": "SCMP_ACT_ALLOW",\n"sycalls": []}'), "line 2", "sycalls")
    g.refused("an unknown action", g.profile('{"defaultAction": "ALLOW"}'), "ALLOW")
    g.refused("an action that needs a supervisor", g.profile('{"defaultAction": "SCMP_ACT_NOTIFY"}'), "SCMP_ACT_NOTIFY")
    g.refused("a misspelt call that was to be refused", g.profile((rule % "").replace("mkdir", "mkdirr")), "line 3", "mkdirr")
    g.refused("a rule without names", g.profile('{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [{}]}'), "names")
    g.refused("a strange error", g.profile(rule % ', "errnoRet": 5000'), "line 3", "4095")
    g.refused("a condition without an operator", g.profile(rule % ', "args": [{"index": 0, "value": 1}]'), "line 3", "SCMP_CMP")
    g.refused("a condition on a seventh argument", g.profile(rule % ', "args": [{"index": 6, "value": 1, "op": "SCMP_CMP_EQ"}]'), "index")
    g.refused("a condition on a negative number", g.profile(rule % ', "args": [{"index": 0, "value": -1, "op": "SCMP_CMP_EQ"}]'), "whole")
    g.refused("a profile under which nothing could start", g.profile('{"defaultAction": "SCMP_ACT_ERRNO"}'), "execve")
    done = g.box.atoll("run", "box", "--seccomp", "", "--", "true", cwd=g.path)
    g.check("an empty name is refused, exit 2", done.returncode == 2 and done.stderr.count(b"\n") == 1, t.said(done))
    g.check("nothing was run", sorted(os.listdir(g.path)) == ["d", "f"])


def namespaces(g):
    done = g.box.atoll("run", "box", "--", "unshare", "-Ur", "id", "-u", cwd=g.path)
    g.check("user namespaces are refused by default", done.returncode == 1 and b"not permitted" in done.stderr, t.said(done))
    done = g.box.atoll("run", "box", "--userns", "--", "unshare", "-Urnp", "--fork", "sh", "-c", "id -u; echo x > of-inner", cwd=g.path)
    if g.who == "root":
        g.check("root is told that it has none", done.returncode == 125 and done.stderr.count(b"\n") == 1 and b"--userns" in done.stderr, t.said(done))
        return
    g.check("--userns allows them, and warns", done.returncode == 0 and done.stdout == b"0\n" and done.stderr.startswith(b"atoll: warning: "), t.said(done))
    inner = ["mount -t tmpfs none /mnt", "mount --bind /tmp /mnt", "mount -o remount,rw,bind /", "umount -l /tmp", "echo x > /etc/new",
             "mount -t proc proc /proc", "nsenter -t 1 -m true", "mknod dev c 1 3", "pivot_root . ."]
    done = g.box.atoll("run", "box", "--userns", "--", "unshare", "-Urmpf", "--propagation", "unchanged", "sh", "-c", "; ".join("%s && echo HOLE" % each for each in inner), cwd=g.path)
    g.check("mounts, and what is read-only, stay as they are", b"HOLE" not in done.stdout and
            done.stderr.count(b"\n") > len(inner), t.said(done))
    done = g.box.atoll("run", "box", "--userns", "--seccomp", g.profile({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
        {"names": ["chroot"], "action": "SCMP_ACT_ERRNO", "errnoRet": 95}]}), "--", "unshare", "-Ur", "chroot", "/", "true", cwd=g.path)
    g.check("a profile holds in them too", done.returncode != 0 and b"not supported" in done.stderr, t.said(done))
    done = g.box.atoll("run", "box", "--userns", "--explain", cwd=g.path)
    g.check("--explain says so", b"user namespaces" in done.stdout, t.said(done))


def main(place, tap):
    for who in place.users():
        for part in (names, files, mistakes, namespaces):
            if t.only(part.__name__):
                ground = Ground(place, tap, who)
                part(ground)
                ground.box.drop()
                t.remove_tree(ground.path)


t.run(main)
