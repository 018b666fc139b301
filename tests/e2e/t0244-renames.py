#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 200
"""Renames of directories that Atoll does for a command from outside stay within what the process itself may: its Landlock domain, its root, and
what is mounted in its view."""
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

INSIDE = r'''
import ctypes, os, struct, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
WRITING = (1 << 15) - 1 & ~(1 | 4 | 8)

def confine(path):
    """Writing below the path alone."""
    ruleset = libc.syscall(444, struct.pack("Q", WRITING), 8, 0)
    fd = os.open(path, os.O_PATH)
    assert libc.syscall(445, ruleset, 1, struct.pack("<Qi", WRITING, fd), 0) == 0
    assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.syscall(446, ruleset, 0) == 0, os.strerror(ctypes.get_errno())

def rename(what, one, two):
    try:
        os.rename(one, two)
        print(what, "done", flush=True)
    except OSError as e:
        print(what, os.strerror(e.errno), flush=True)

def child(function):
    pid = os.fork()
    if pid == 0:
        function()
        os._exit(0)
    os.waitpid(pid, 0)

def landlock():
    read, write = os.pipe()
    def confined():
        confine("mine")
        rename("itself", "other/one", "other/renamed")
        child(lambda: rename("child", "other/one", "mine/one"))
        def orphan():
            if os.fork() == 0:
                time.sleep(0.1)
                rename("orphan", "other/one", "other/renamed")
                os.write(write, b"x")
                os._exit(0)
        child(orphan)
        os.read(read, 1)
    child(confined)
    rename("unconfined", "other/" + sys.argv[2], "other/renamed-" + sys.argv[2])

def root():
    uid, gid = os.getuid(), os.getgid()
    assert libc.unshare(0x10000000) == 0
    open("/proc/self/setgroups", "w").write("deny")
    open("/proc/self/uid_map", "w").write("%d %d 1" % (uid, uid))
    open("/proc/self/gid_map", "w").write("%d %d 1" % (gid, gid))
    top = os.open(".", os.O_PATH)
    os.chroot("mine")
    os.chdir("/")
    rename("climbing", "../other/one", "../other/renamed")
    try:
        os.rename("one", "renamed", src_dir_fd=os.open("other", os.O_PATH, dir_fd=top), dst_dir_fd=top)
        print("by fd done")
    except OSError as e:
        print("by fd", os.strerror(e.errno))

def again():
    rename("directory", "other/" + sys.argv[2], "other/renamed-" + sys.argv[2])

def mounts():
    rename("hidden", "hidden", "gone")
    rename("read-only", "fixed", "gone")
    rename("over", "mine", "fixed")
    rename("above", "deep", "gone")
    rename("beside", "other", "renamed")
    rename("below", "deep/beside", "deep/renamed")

globals()[sys.argv[1]]()
'''


def make_original(place, who, below=None):
    top = place.fresh("top", who, below)
    for name in ("mine", "other/one", *("other/%d" % i for i in range(5)), "hidden", "fixed", "deep/fixed", "deep/beside"):
        os.makedirs(os.path.join(top, name))
    for name in ("deep/fixed/f", "other/one/f", *("other/%d/f" % i for i in range(5))):
        with open(os.path.join(top, name), "w", encoding="ascii") as file:
            file.write("good")
    t.give(top, place.uid(who))
    return top


def inside(box, top, name, *options, number=0):
    """number: of a directory that no overlay has renamed yet, which takes the help from outside."""
    done = box.atoll("run", *options, box.name, "--", t.PYTHON, "-I", "-S", os.path.join(box.place.lib, "inside.py"), name, str(number), cwd=top)
    return done, done.stdout.decode(errors="replace").splitlines()


def own_confinement(place, tap, who):
    top = make_original(place, who)
    box = t.Box(place, who, "overlay", dirs=[top])
    box.new()
    done, lines = inside(box, top, "landlock")
    tap.check("a process that Landlock confines renames no directory elsewhere, nor do its children, %s" % who,
              lines[:3] == ["itself Permission denied", "child Permission denied", "orphan Permission denied"], t.said(done))
    tap.check("one that began before and is not confined does, %s" % who, lines[3:] == ["unconfined done"], t.said(done))
    done, lines = inside(box, top, "again", number=1)
    tap.check("another run is not concerned, %s" % who, lines == ["directory done"], t.said(done))
    if who != "root":
        done, lines = inside(box, top, "root", "--userns")
        tap.check("a process with another root renames no directory outside of it, %s" % who, len(lines) == 2 and
                  lines[0].startswith("climbing No such") and lines[1] == "by fd Invalid cross-device link", t.said(done))
    box.atoll("run", "--keep-alive", "20s", box.name, "--", "true", cwd=top)
    for number, which in ((2, "a run"), (3, "a second run")):
        done, lines = inside(box, top, "again", number=number)
        tap.check("%s that a keeper serves renames directories as ever, %s" % (which, who), lines == ["directory done"], t.said(done))
    done, lines = inside(box, top, "landlock", number=4)
    tap.check("and confines itself as ever, %s" % who, lines[:1] == ["itself Permission denied"] and lines[3:] == ["unconfined done"], t.said(done))
    box.rm("--force")


def mount_points(place, tap, who, strategy):
    top = make_original(place, who)
    box = t.Box(place, who, strategy, dirs=[top])
    box.new()
    options = ("--hide", top + "/hidden", "--ro", top + "/fixed", "--ro", top + "/deep/fixed")
    done, lines = inside(box, top, "mounts", *options)
    busy = "Device or resource busy"
    tap.check("what is hidden or read-only cannot be renamed, nor what is above it, %s, %s" % (strategy, who),
              lines == ["hidden " + busy, "read-only " + busy, "over " + busy, "above " + busy, "beside done", "below done"], t.said(done))
    done = box.atoll("run", *options, box.name, "--", "sh", "-c",
                     "mv deep x && mkdir -p deep/fixed; echo evil > deep/fixed/f; echo more > deep/new; rmdir fixed && mkdir fixed; echo evil > fixed/f", cwd=top)
    done = box.commit()
    with open(top + "/deep/fixed/f", encoding="ascii") as file:
        tap.check("a commit lands what is beside a read-only part, and nothing of it, %s, %s" % (strategy, who), done.returncode == 0 and
                  file.read() == "good" and os.path.exists(top + "/deep/new") and os.listdir(top + "/fixed") == [], t.said(done))
    box.drop()


def lent(place, tap, who):
    """A command renames directories of the host where --rw lends them."""
    top, project = make_original(place, who), place.fresh("project", who)
    os.makedirs(top + "/above/original")
    t.give(top, place.uid(who))
    box = t.Box(place, who, "overlay", dirs=[project, top + "/above/original"])
    box.new()
    script = """cd %s && mv -T deep x; mkdir -p deep/fixed; echo evil > deep/fixed/f; mv -T other y; mkdir -p other/one; cat y/one/f
                mv -T above z; mkdir -p above/original; touch above/original/new; mv -T mine renamed""" % top
    done = box.atoll("run", "--rw", top, "--ro", top + "/deep/fixed", "--hide", top + "/other/one/f", box.name, "--", "sh", "-c", script, cwd=project)
    with open(top + "/deep/fixed/f", encoding="ascii") as file:
        tap.check("in a lent directory nothing above a read-only or hidden part or a resource is renamed, %s" % who, done.stderr.count(b"busy") == 3 and
                  file.read() == "good" and not {"x", "y", "z"} & set(os.listdir(top)) and not os.listdir(top + "/above/original"), t.said(done))
    tap.check("and what is beside them is, %s" % who, os.path.isdir(top + "/renamed"), t.said(done))
    box.rm("--force")


def made_inside(place, tap, who):
    """A directory of the sandbox alone is renamed by the overlay itself."""
    top = make_original(place, who)
    box = t.Box(place, who, "overlay", dirs=[top])
    box.new()
    box.run("sh", "-c", "mkdir -p new/fixed; echo good > new/fixed/f", cwd=top)
    os.makedirs(top + "/new/fixed")  # an option names what is there outside
    t.give(top + "/new", place.uid(who))
    done = box.atoll("run", "--ro", top + "/new/fixed", box.name, "--", "sh", "-c", "mv new x; mkdir -p new/fixed; echo evil > new/fixed/f; cat new/fixed/f",
                     cwd=top)
    tap.check("nor a directory above it that was made inside, %s" % who, done.stdout == b"good\n", t.said(done))
    box.rm("--force")


def root_of_a_resource(place, tap, who):
    for where, parent in (("$HOME", place.fresh("home", who)), ("/tmp", None)):
        parent = parent or subprocess.run(["mktemp", "-d", "/tmp/atoll-test-XXXXXX"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        os.chmod(parent, 0o755)
        t.give(parent, place.uid(who))
        top = make_original(place, who, below=parent)
        box = t.Box(place, who, None, dirs=[top], environment={"HOME": parent})
        box.new()
        done = box.run(t.PYTHON, "-c", "import os; os.rename(%r, %r)" % (top, top + "-moved"), cwd=parent)
        tap.check("the root of a resource in %s is not renamed, %s" % (where, who), b"Device or resource busy" in done.stderr, t.said(done))
        box.rm("--force")
        shutil.rmtree(parent)


def main(place, tap):
    with open(os.path.join(place.lib, "inside.py"), "w", encoding="ascii") as file:
        file.write(INSIDE)
    os.chmod(os.path.join(place.lib, "inside.py"), 0o644)
    for who in place.users():
        own_confinement(place, tap, who)
        for strategy in ("overlay", "copy_on_write"):
            mount_points(place, tap, who, strategy)
        lent(place, tap, who)
        made_inside(place, tap, who)
        root_of_a_resource(place, tap, who)


t.run(main)
