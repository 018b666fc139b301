#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renaming a directory of the original inside: the same as outside, also for programs that take the overlay's refusal as final."""
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as m  # noqa: E402

LONG = "n" * 200
BASE = [["mkdir", "a", 0o755], ["create", "a/f", "content\n", 0o640], ["link", "a/f", "a/hard"], ["symlink", "f", "a/soft"],
        ["mkdir", "a/b", 0o755], ["create", "a/b/run", "#!/bin/sh\n", 0o755], ["setxattr", "a/b/run", "user.note", "kept"],
        ["mkdir", "a/b/closed", 0o755], ["create", "a/b/closed/x", "x", 0o444], ["mkdir", "a/empty", 0o755], ["mkdir", "void", 0o755],
        ["mkdir", "full", 0o755], ["create", "full/x", "x", 0o644], ["mkdir", "full/in", 0o755], ["create", "full/in/y", "y", 0o644],
        ["symlink", ".", "here"], ["symlink", "full", "way"], ["symlink", "..", "full/up"], ["create", "single", "one", 0o600],
        ["mkdir", LONG, 0o755], ["create", LONG + "/" + LONG, "deep", 0o644],
        ["chmod", "a/b/closed", 0o555], ["stamp_all", 1000000000]]

# Each is run outside and inside; what it prints and leaves must be the same.
RENAMES = {
    "to a new name": 'os.rename("a", "z")',
    "into another directory": 'os.rename("a", "full/a")',
    "by absolute paths": 'os.rename(os.getcwd() + "/a", os.getcwd() + "/z")',
    "by paths that go up": 'os.chdir("full"); os.rename("../a", "../z")',
    "by directory fds": 'd = os.open("full", os.O_RDONLY); os.rename("a", "z", src_dir_fd=os.open(".", os.O_RDONLY), dst_dir_fd=d)',
    "onto an empty directory": 'os.rename("a", "void")',
    "onto a full one": 'os.rename("a", "full")',
    "onto a file": 'os.rename("a", "full/x")',
    "into itself": 'os.rename("a", "a/b/a")',
    "of a part of it": 'os.rename("a/b", "b"); os.rename("a/empty", "b/empty")',
    "there and back": 'os.rename("a", "z"); os.rename("z", "a")',
    "after edits in it": 'open("a/new", "w").close(); os.unlink("a/soft"); os.rename("a", "z")',
    "with a slash at the end": 'os.rename("a/", "z/")',
    "of long names": 'os.rename("%s", "z")' % LONG,
    "of what is not there": 'os.rename("nothing", "z")',
    "through a relative link": 'os.rename("here/a", "here/z")',
    "through a link to another directory": 'os.rename("way/in", "here/z")',
    "through a link that goes up": 'os.chdir("full"); os.rename("up/a", "up/up/full/up/z")',
    "through an absolute link": 'os.symlink(os.getcwd() + "/full", "far"); os.rename("far/in", "far/out"); os.unlink("far")',
    "through a link, by a directory fd": 'os.rename("up/a", "in/z", src_dir_fd=os.open("full", os.O_RDONLY), '
        'dst_dir_fd=os.open("here/full", os.O_RDONLY))',
    "through a link to itself": 'os.symlink("loop", "loop"); os.rename("loop/a", "z")',
    "in exchange for another": 'swap("a", "full")',
    "in exchange for one below another directory": 'swap("a", "full/in")',
    "in exchange for a file": 'swap("a", "full/x"); swap("void", "single")',
    "in exchange for a file, which is named first": 'swap("single", "a")',
    "in exchange for a new directory": 'os.mkdir("fresh"); open("fresh/n", "w").close(); swap("fresh", "a"); swap("full", "fresh")',
    "in exchange for itself": 'swap("a", "a")',
    "in exchange for what lies in it": 'swap("a", "a/b")',
    "in exchange for what is not there": 'swap("a", "nothing")',
    "in exchange and back": 'swap("a", "full"); swap("a", "full")',
    "in exchange through a link": 'swap("here/a", "way/in")',
    "of a file": 'os.rename("full/x", "z"); os.replace("z", "full/x")',
}
# By root's command after it has become somebody else.
BECOME = "os.setgroups([]); os.setgid(54321); os.setuid(54321); "
AS_ANOTHER = {
    "by somebody who may not": BECOME + 'os.rename("a", "z")',
    "by somebody who may": 'os.chmod(".", 0o777); ' + BECOME + 'os.rename("a", "z")',
    "of root, in a sticky directory, by somebody else": 'os.chmod(".", 0o1777); ' + BECOME + 'os.rename("a", "z")',
    "out of a directory that may not be entered": 'os.chmod(".", 0o777); os.chmod("full", 0o700); os.mkdir("full/open"); '
        'os.chmod("full/open", 0o777); os.rename("void", "full/open/void"); ' + BECOME + 'os.rename("full/open/void", "z")',
    "that is not writable to another directory, by somebody else": 'os.chmod("full", 0o777); os.chmod(".", 0o777); ' + BECOME +
        'os.rename("a", "full/a")',
    "by root without power over files": 'os.chmod(".", 0o555); os.chown(".", 1, 1); ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); '
        'drop(); os.rename("a", "z")',
}
FRAME = """
import ctypes, os, struct
def drop():
    header, none = struct.pack("Ii", 0x20080522, 0), struct.pack("6I", *[0] * 6)
    assert ctypes.CDLL(None).capset(header, none) == 0
def swap(a, b):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, a.encode(), -100, b.encode(), 2) != 0:
        raise OSError(ctypes.get_errno(), "exchange")
try:
    %s
except OSError as error:
    print(error.errno)
print(sorted(os.listdir(".")))
"""


def tree_after(path, since):
    return m.without_now(m.manifest(path), since)


def compare(place, tap, who, what, argv):
    one, two = (t.build_tree(place, who, BASE) for _ in range(2))
    since = time.time_ns() - 10**9  # the filesystem's clock is a coarse one
    box = t.Box(place, who, "overlay", dirs=[two])
    outside = box.command(argv, cwd=one)
    made = box.new()
    before = m.manifest(two)
    inside = box.run(*argv, cwd=two)
    untouched = m.differences(before, m.manifest(two))
    committed = box.commit()
    differences = m.differences(tree_after(one, since), tree_after(two, since))
    tap.check("%s, %s" % (what, who), made.returncode == 0 and inside.returncode == outside.returncode and
              inside.stdout == outside.stdout and not untouched and committed.returncode == 0 and not differences,
              t.said(outside), t.said(inside), t.said(committed), *untouched, *differences)
    undone = box.undo()
    differences = m.differences(before, m.manifest(two)) if b"nothing" not in committed.stdout else []
    tap.check("and back again: %s, %s" % (what, who), differences == [] and (undone.returncode == 0 or undone.returncode == 5),
              t.said(undone), *differences)
    box.drop()


def refused_as_before(place, tap, who):
    """What cannot be copied whole stays refused, and whole."""
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, "overlay", dirs=[path])
    os.mkfifo(path + "/a/fifo")
    os.chown(path + "/a/fifo", os.stat(path).st_uid, os.stat(path).st_gid)
    box.new()
    done = box.run("python3", "-c", FRAME % 'os.rename("a", "z")', cwd=path)
    tap.check("a directory with a FIFO in it is refused and stays, %s" % who, done.returncode == 0 and
              done.stdout.split(b"\n")[0] == b"18" and b"'a'" in done.stdout and b"atoll-move" not in done.stdout, t.said(done))
    done = box.run("python3", "-c", FRAME % 'swap("full", "a")', cwd=path)
    tap.check("and so is its exchange for another one, %s" % who, done.returncode == 0 and done.stdout.split(b"\n")[0] == b"18" and
              b"'a'" in done.stdout and b"'full'" in done.stdout and b"atoll" not in done.stdout, t.said(done))
    box.drop()


def with_threads(place, tap, who):
    """Many at once, from many processes, with signals that interrupt them."""
    path = t.build_tree(place, who, [["mkdir", "d%d" % i, 0o755] for i in range(24)] +
                        [["create", "d%d/f%d" % (i, k), "x", 0o644] for i in range(24) for k in range(4)])
    box = t.Box(place, who, "overlay", dirs=[path])
    box.new()
    program = """
import os, signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.siginterrupt(signal.SIGALRM, False)
children = []
for worker in range(4):
    pid = os.fork()
    if pid == 0:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        for i in range(worker, 24, 4):
            os.rename("d%d" % i, "e%d" % i)
        os._exit(0)
    children.append(pid)
for pid in children:
    if os.waitpid(pid, 0)[1]:
        print("failed")
print(sorted(os.listdir(".")) == sorted("e%d" % i for i in range(24)), sum(len(os.listdir(n)) for n in os.listdir(".")))
"""
    done = box.run("python3", "-c", program, cwd=path)
    tap.check("many at once, interrupted by signals, %s" % who, done.stdout == b"True 96\n", t.said(done))
    box.drop()


def with_git(place, tap, who):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, "overlay", dirs=[path])
    git = ["git", "-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "safe.directory=*"]
    for argv in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        box.command(git + argv, cwd=path)
    box.new()
    done = box.run(*git, "mv", "a", "moved", cwd=path)
    status = box.run(*git, "status", "--porcelain", cwd=path)
    tap.check("git mv of a directory, %s" % who, done.returncode == 0 and b"R  a/f -> moved/f" in status.stdout, t.said(done),
              t.said(status))
    box.drop()


def main(place, tap):
    for who in place.users():
        for what, code in RENAMES.items():
            compare(place, tap, who, "a directory renamed " + what, ["python3", "-c", FRAME % code])
        for what, code in (AS_ANOTHER if who == "root" else {}).items():
            compare(place, tap, who, "a directory renamed " + what, ["python3", "-c", FRAME % code])
        compare(place, tap, who, "mv of a directory", ["sh", "-c", "mv a z && ls"])
        refused_as_before(place, tap, who)
        with_threads(place, tap, who)
        with_git(place, tap, who)


t.run(main)
