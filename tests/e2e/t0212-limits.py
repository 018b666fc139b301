#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Limits of a run: that they hold, by what, what is said when one is run into, and what is refused."""
import glob
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["mkdir", "d", 0o755], ["stamp_all", 1000000000]]
EAT = """
import sys, time
kept = []
try:
    for i in range(int(sys.argv[1])):
        kept.append(b"x" * (1 << 20))
except MemoryError:
    print("refused", len(kept)); sys.exit(3)
print("had", len(kept), flush=True); time.sleep(float(sys.argv[2]))
"""
SHARED = """
import mmap, os, sys, time
size = int(sys.argv[1]) << 20
memory = mmap.mmap(-1, size)
for i in range(size >> 20):
    memory.write(b"x" * (1 << 20))
children = []
for i in range(4):
    pid = os.fork()
    if pid == 0:
        for i in range(0, size, 4096):
            memory[i]
        time.sleep(float(sys.argv[2]))
        os._exit(0)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
print("had it")
"""
MEMFD = """
import mmap, os, sys, time
fd = os.memfd_create("m")
mapped = None
for i in range(int(sys.argv[1])):
    os.write(fd, b"x" * (1 << 20))
if sys.argv[2] == "mapped":
    mapped = mmap.mmap(fd, 0)
    sum(mapped[i] for i in range(0, len(mapped), 4096))
children = [os.fork() for i in range(2)]
time.sleep(float(sys.argv[3]))
if all(children):
    for pid in children:
        os.waitpid(pid, 0)
    print("had it")
"""
SEGMENT = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
size = int(sys.argv[1]) << 20
for i in range(4):
    segment = libc.shmget(0, size // 4, 0o600)
    at = libc.shmat(segment, None, 0)
    ctypes.memset(at, 1, size // 4)
    if sys.argv[2] == "detached":
        libc.shmdt(ctypes.c_void_p(at))
time.sleep(float(sys.argv[3]))
print("had it")
"""
NAMELESS = """
import os, sys, time
if sys.argv[1] == "never":
    fd = os.open(".", os.O_TMPFILE | os.O_RDWR)
else:
    fd = os.open("unlinked", os.O_CREAT | os.O_RDWR)
    os.unlink("unlinked")
for i in range(int(sys.argv[2])):
    os.write(fd, b"x" * (1 << 20))
    time.sleep(0.01)
time.sleep(float(sys.argv[3]))
print("had it")
"""
FILL = """
import sys
try:
    with open(sys.argv[1] + "/large", "wb", buffering=0) as file:
        for i in range(int(sys.argv[2])):
            file.write(b"x" * (1 << 20))
except OSError as error:
    print("refused", error.errno)
else:
    print("had it")
"""
FORK = """
import os, sys, time
made = []
try:
    for i in range(int(sys.argv[1])):
        pid = os.fork()
        if pid == 0:
            time.sleep(30); os._exit(0)
        made.append(pid)
except OSError as error:
    print("refused", error.errno, len(made), flush=True); time.sleep(1); sys.exit(3)
print("had", len(made), flush=True)
"""


def controllers():
    """Those of the second version that this machine's root can hand out."""
    for base in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        try:
            with open(base + "/cgroup.controllers", encoding="ascii") as file:
                return base, file.read().split()
        except OSError:
            pass
    return None, []


class Ground:
    def __init__(self, place, tap, who, strategy=None):
        self.place, self.tap, self.who = place, tap, who
        self.path = t.build_tree(place, who, BASE)
        self.box = t.Box(place, who, strategy, dirs=[self.path])
        self.box.new()
        self.by_group = who == "root" and {"memory", "pids", "cpu"} <= set(controllers()[1])

    def run(self, options, *argv, **more):
        return self.box.atoll("run", "box", *options, "--", *argv, cwd=self.path, **more)

    def python(self, options, script, *arguments, **more):
        return self.run(options, t.PYTHON, "-I", "-S", "-c", script, *map(str, arguments), **more)

    def check(self, what, good, *diagnosis):
        self.tap.check("%s, %s%s" % (what, self.who, ", " + self.box.strategy if self.box.strategy else ""), good, *diagnosis)

    def refused(self, what, options, named, codes=(2,)):
        done = self.run(options, "true")
        lines = done.stderr.splitlines()
        self.check("%s: one line, exit %s" % (what, "/".join(map(str, codes))), done.returncode in codes and len(lines) == 1 and
                   named.encode() in lines[0], t.said(done))

    def close(self):
        self.box.drop()
        t.remove_tree(self.path)


def memory(g):
    means = b"memory by a control group" if g.by_group else b"memory by a limit of each process and a watch on their sum"
    done = g.python(["--memory", "200M"], EAT, 50, 0)
    g.check("a command within its memory is left alone, and the means are said", done.returncode == 0 and done.stdout == b"had 50\n" and
            means in done.stderr, t.said(done))
    done = g.python(["--memory", "200M", "-q"], EAT, 50, 0)
    g.check("and not with --quiet", done.returncode == 0 and not done.stderr, t.said(done))
    done = g.python(["--memory", "100M"], EAT, 300, 0)
    if g.by_group:
        g.check("one that takes more is ended, and it is said", done.returncode == 137 and b"limit of memory" in done.stderr, t.said(done))
    else:
        g.check("one process that takes more is refused it", done.returncode == 3 and b"refused" in done.stdout and
                int(done.stdout.split()[1]) < 100, t.said(done))
    began = time.monotonic()
    script = "import os, subprocess, sys\nps = [subprocess.Popen([sys.executable, '-I', '-S', '-c', sys.argv[1], '60', '30']) for i in range(4)]\n" \
             "for p in ps: p.wait()"
    done = g.python(["--memory", "150M"], script, EAT)
    took = time.monotonic() - began
    g.check("several that take more together are ended, and it is said", done.returncode == 137 and took < 15 and
            (b"limit of memory" in done.stderr or b"more than the limit of 150.0 MiB" in done.stderr), t.said(done), took)
    done = g.python(["--memory", "100M"], SHARED, 300, 30)
    g.check("memory that processes share counts too", done.returncode == 137 and
            (b"limit of memory" in done.stderr or b"more than the limit of 100.0 MiB" in done.stderr) and b"outside" not in done.stderr,
            t.said(done))
    done = g.python(["--memory", "200M"], SHARED, 80, 0.5)
    g.check("but not once for each of them", done.returncode == 0 and done.stdout == b"had it\n", t.said(done))
    for how in ("written", "mapped"):
        done = g.python(["--memory", "100M"], MEMFD, 300, how, 30)
        g.check("a memfd that is %s counts too" % how, done.returncode == 137 and
                (b"limit of memory" in done.stderr or b"more than the limit of 100.0 MiB" in done.stderr), t.said(done))
        done = g.python(["--memory", "200M"], MEMFD, 80, how, 1)
        g.check("one that is %s counts once" % how, done.returncode == 0 and done.stdout == b"had it\n", t.said(done))
    for how in ("attached", "detached"):
        done = g.python(["--memory", "100M"], SEGMENT, 300, how, 30)
        g.check("System V segments that are %s count too" % how, done.returncode == 137 and
                (b"limit of memory" in done.stderr or b"more than the limit of 100.0 MiB" in done.stderr), t.said(done))
        done = g.python(["--memory", "200M"], SEGMENT, 80, how, 1)
        g.check("System V segments that are %s count once" % how, done.returncode == 0 and done.stdout == b"had it\n",
                t.said(done))
    for place in ("/tmp", "/dev/shm", "/dev", "/run", g.box.home):
        done = g.python(["--memory", "50M"], FILL, place, 80)
        g.check("what lies in %s counts too" % place.replace(g.box.home, "the home directory"),
                done.stdout in (b"refused 28\n", b"refused 13\n") or (g.by_group and done.returncode == 137), t.said(done))
    for wrong in ("0", "-1", "", "1023K", "much", "1X", "99999999T", "1e9", "2 G"):
        g.refused("the memory %r" % wrong, ["--memory=" + wrong], "memory")


def pids(g):
    if g.who == "root" and not g.by_group:
        g.refused("a number of processes that cannot be kept", ["--pids", "20"], "pids cannot be limited here", (125,))
        g.tap.skip("--pids holds, root", "this machine's control groups (v2) have no pids controller, and root's processes are not counted otherwise")
    else:
        done = g.python(["--pids", "20"], FORK, 10)
        g.check("a command within its processes is left alone", done.returncode == 0 and done.stdout == b"had 10\n", t.said(done))
        done = g.python(["--pids", "20"], FORK, 200)
        g.check("one that makes more is refused them, and it is said", done.returncode == 3 and done.stdout.startswith(b"refused 11 1") and
                b"limit of 20 processes was reached" in done.stderr, t.said(done))
        done = g.run(["--pids", "30", "--timeout", "5"], "sh", "-c", "f() { f | f & }; f; sleep 1")
        g.check("a fork bomb stays inside", done.returncode in (0, 2, 124) and b"Cannot fork" in done.stderr, t.said(done))
        done = g.python([], FORK, 100)
        g.check("the next run is not limited by it", done.returncode == 0 and done.stdout == b"had 100\n", t.said(done))
    for wrong in ("0", "-1", "", "1.5", "all", "4194305"):
        g.refused("the number of processes %r" % wrong, ["--pids=" + wrong], "pids")


def cpus(g):
    done = g.run(["--cpus", "1"], "nproc")
    if g.by_group:
        g.check("--cpus by a control group", done.returncode == 0 and b"cpus by a control group" in done.stderr, t.said(done))
    else:
        means = b"cpus by the processors it starts on" if os.cpu_count() > 1 else b"cpus by the machine having no more"
        g.check("--cpus gives whole processors, and says by what", done.returncode == 0 and done.stdout == b"1\n" and means in done.stderr, t.said(done))
        g.refused("less than a processor", ["--cpus", "0.5"], "cpus cannot be limited here", (125,))
    done = g.run(["--cpus", "4000"], "nproc")
    g.check("more processors than there are limit nothing", done.returncode == 0 and int(done.stdout) == len(os.sched_getaffinity(0)), t.said(done))
    for wrong in ("0", "0.001", "-1", "", "4097", "two", "1/2"):
        g.refused("the processors %r" % wrong, ["--cpus=" + wrong], "cpus")


def disk(g):
    write = "import sys, time\nf = open('d/big', 'ab')\nfor i in range(int(sys.argv[1])):\n f.write(b'x' * (1 << 20)); f.flush(); time.sleep(0.01)"
    done = g.python(["--disk", "20M"], write, 5)
    g.check("changes within the limit are left alone, and the means are said", done.returncode == 0 and b"disk by a watch" in done.stderr, t.said(done))
    began = time.monotonic()
    done = g.python(["--disk", "20M"], write, 3000)
    took = time.monotonic() - began
    g.check("a run whose changes take more is ended, and the overshoot is said", done.returncode == 137 and took < 20 and
            b"more than the limit of 20.0 MiB: everything inside was ended" in done.stderr, t.said(done), took)
    shown = g.box.diff("--name-status")
    g.check("its changes are kept, to be decided on", b"d/big" in shown.stdout, t.said(shown))
    if g.box.strategy != "copy_on_write":
        done = g.run(["--disk", "20M"], "true")
        g.check("the next run under that limit is refused before it begins", done.returncode == 125 and b"commit or roll back first" in done.stderr,
                t.said(done))
    g.box.rollback()
    done = g.run(["--disk", "20M"], "sh", "-c", "mkdir -m 0 closed; chmod 700 closed; head -c 30000000 /dev/zero > closed/x; chmod 0 closed; sleep 5")
    g.check("a directory that nobody may enter hides nothing", done.returncode == 137 and b"more than the limit" in done.stderr, t.said(done))
    g.box.rollback()
    for how in ("later", "never") if g.box.strategy != "copy_on_write" else ("later",):
        done = g.python(["--disk", "20M"], NAMELESS, how, 3000, 0)
        g.check("a file without a name counts while it is open (%s)" % how, done.returncode == 137 and
                b"more than the limit of 20.0 MiB: everything inside was ended" in done.stderr, t.said(done))
        done = g.python(["--disk", "20M"], NAMELESS, how, 5, 1)
        g.check("and a small one is left alone (%s)" % how, done.returncode == 0 and done.stdout == b"had it\n", t.said(done))
    with open(os.path.join(g.place.root, "handed-in-" + g.who), "w+b") as file:
        os.unlink(file.name)
        file.write(bytes(30 << 20))
        file.flush()
        done = g.run(["--disk", "20M"], "sleep", "1", stdin=file)
        g.check("one that was handed in does not count", done.returncode == 0, t.said(done))
    done = g.run(["--disk", "1M"], "sh", "-c", "head -c 3000000 /dev/zero > f")
    g.check("a command that was quicker is told of all the same", b"more than the limit of 1.0 MiB" in done.stderr, t.said(done))
    for wrong in ("0", "-1", "", "4095", "all", "1Q"):
        g.refused("the size %r" % wrong, ["--disk=" + wrong], "disk")


def disk_of_a_small_filesystem(g):
    top = g.place.mount("ext4", 24, g.who) if g.place.is_root else None
    if not top:
        g.tap.skip("a limit that the filesystem keeps, %s" % g.who, "no file system can be mounted here")
        return
    path = t.build_tree(g.place, g.who, BASE, below=top)
    box = t.Box(g.place, g.who, dirs=[path])
    box.new()
    fine = box.atoll("run", "box", "--disk", "1M", "--", "true", cwd=path)
    g.check("a limit that a filesystem does not keep is watched", b"disk by a watch" in fine.stderr, t.said(fine))
    done = box.atoll("run", "box", "--disk", "1G", "--", "sh", "-c", "head -c 200000000 /dev/zero > f", cwd=path)
    g.check("a filesystem that is smaller than the limit keeps it, and it is said", done.returncode != 0 and
            b"disk by its filesystem, which has no more" in done.stderr and b"the filesystem of the changes is full" in done.stderr, t.said(done))
    box.drop()
    g.place.unmount(top)


def nothing_is_left(g):
    base, _ = controllers()
    left = glob.glob((base or "/nowhere") + "/**/atoll-*", recursive=True)
    g.check("no control group is left", not left, left)


def main(place, tap):
    if not {"memory", "pids", "cpu"} <= set(controllers()[1]):
        tap.skip("memory, pids and cpus by a control group", "this machine's control groups (v2) have only: %s" % " ".join(controllers()[1]))
    for who in place.users():
        for part in (memory, pids, cpus, disk, disk_of_a_small_filesystem, nothing_is_left):
            if t.only(part.__name__):
                ground = Ground(place, tap, who)
                part(ground)
                ground.close()
    if t.only("disk copy"):
        ground = Ground(place, tap, "user", "copy_on_write")
        disk(ground)
        ground.close()


t.run(main)
