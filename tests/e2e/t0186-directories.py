#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 1200
"""Directories that stay: their own metadata, commits by path, undo over newer edits, what stays behind, and overriding others.

Each test runs with every strategy, as root and as an ordinary user: snapshot on a btrfs of its own.
"""
import glob
import os
import stat
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

BASE = [["create", "f", "file\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/in", "inside\n", 0o644], ["create", "d/other", "other\n", 0o644],
        ["mkdir", "d/sub", 0o755], ["create", "d/sub/low", "low\n", 0o644], ["mkdir", "e", 0o755], ["mkdir", "spare", 0o755],
        ["create", "spare/in", "spare\n", 0o644], ["stamp_all", 1000000000]]
DEFAULT = "system.posix_acl_default"
ACL = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, perm, 0xffffffff) for tag, perm in ((1, 7), (4, 5), (0x20, 5)))


class Scene:
    """A tree, a sandbox over it, and everything that went wrong."""

    def __init__(self, place, who, strategy, ground, name="scene"):
        self.place, self.who = place, who
        self.path = t.build_tree(place, who, BASE, below=ground, hint=name)
        self.box = t.Box(place, who, strategy, dirs=[self.path])
        self.wrong = []
        self.ok(self.box.new("--quiet"))

    def need(self, what, good, *more):
        if not good:
            self.wrong.append(" ".join(str(part) for part in (what, *more)))

    def ok(self, done, code=0):
        self.need(" ".join(map(str, done.args[1:4])), done.returncode == code, "wanted exit %d:" % code, t.said(done))
        return done

    def run(self, *lines):
        return self.ok(self.box.run("sh", "-ec", "\n".join(lines), cwd=self.path)).stdout.decode()

    def edit(self, *script):
        return self.ok(self.box.edit(list(script), self.path))

    def diff(self):
        return self.ok(self.box.diff()).stdout.decode()

    def mode(self, name):
        return stat.S_IMODE(os.stat(self.path + "/" + name).st_mode)

    def close(self):
        self.box.drop()
        t.remove_tree(self.path)
        return self.wrong


def foreign_metadata_stays(s):
    """Only a file is added inside: what somebody else does to the directory is neither shown as an edit nor taken back."""
    s.run("echo n > d/n; echo m >> d/in")
    os.setxattr(s.path + "/d", "user.foreign", b"precious")
    os.setxattr(s.path + "/d", DEFAULT, ACL)
    os.chmod(s.path + "/d", 0o711)
    os.setxattr(s.path, "user.foreign", b"at the top")
    os.chmod(s.path, 0o751)
    s.need("diff", "d/n" in s.diff() and "xattr" not in s.diff() and "mode" not in s.diff(), s.diff())

    def check(when):
        s.need(when, os.getxattr(s.path + "/d", "user.foreign") == b"precious" and os.getxattr(s.path + "/d", DEFAULT) == ACL and
               s.mode("d") == 0o711 and os.getxattr(s.path, "user.foreign") == b"at the top" and s.mode("") == 0o751)

    s.ok(s.box.commit())
    check("after the commit")
    s.need("diff after the commit", "no changes" in s.diff(), s.diff())
    s.ok(s.box.undo())
    check("after the undo")
    s.need("diff after the undo", "d/n" in s.diff() and "xattr" not in s.diff(), s.diff())
    s.ok(s.box.commit())
    check("after the second commit")
    s.run("echo more > more")
    s.ok(s.box.commit())
    check("after a commit of something else")


def made_by_both_sides(s):
    """The directory is the same but for its time, which stays: no change that `diff` lists and no commit can land."""
    s.run("mkdir both; echo n > d/n; touch -d '2020-01-01 UTC' e")
    os.mkdir(s.path + "/both")
    os.chown(s.path + "/both", os.stat(s.path).st_uid, os.stat(s.path).st_gid)
    os.rename(s.path + "/d/in", s.path + "/d/out")
    os.mkdir(s.path + "/e/theirs")
    time = os.stat(s.path + "/both").st_mtime_ns
    s.need("diff", "d/n" in s.diff() and "time" not in s.diff(), s.diff())
    s.ok(s.box.commit())
    s.need("the time", os.stat(s.path + "/both").st_mtime_ns == time)
    s.need("diff after the commit", "no changes" in s.diff(), s.diff())


def foreign_metadata_conflicts(s):
    """The directory itself was changed inside: any change of its metadata by somebody else is a conflict, for parts and undo too."""
    s.edit(["setxattr", "d", "user.inside", "1"], ["create", "d/n", "n", 0o644], ["chmod", "e", 0o700])
    os.setxattr(s.path + "/d", "user.foreign", b"precious")
    before = mf.manifest(s.path)
    s.ok(s.box.commit(), 3)
    s.need("nothing changed", mf.manifest(s.path) == before)
    s.ok(s.box.commit(s.path + "/d/n", s.path + "/e"))
    s.ok(s.box.commit(), 3)
    s.need("the foreign attribute", os.getxattr(s.path + "/d", "user.foreign") == b"precious")
    os.setxattr(s.path + "/e", "user.foreign", b"later")
    s.ok(s.box.undo(), 3)
    s.need("the mode is there", s.mode("e") == 0o700)
    os.removexattr(s.path + "/e", "user.foreign")
    s.ok(s.box.undo())
    s.need("the mode is back", s.mode("e") == 0o755)
    os.removexattr(s.path + "/d", "user.foreign")
    s.ok(s.box.commit())
    s.need("landed", os.getxattr(s.path + "/d", "user.inside") == b"1" and s.mode("e") == 0o700)


def by_path_keeps_the_directory(s):
    """Something in a directory is committed by path: the directory's own mode and attributes stay edits."""
    s.edit(["chmod", "d", 0o700], ["setxattr", "d", "user.inside", "1"], ["create", "d/n", "n", 0o644])
    s.ok(s.box.commit(s.path + "/d/n"))
    s.need("still shown", "0755→0700" in s.diff() and "xattr" in s.diff(), s.diff())
    s.need("not landed", s.mode("d") == 0o755 and "user.inside" not in os.listxattr(s.path + "/d"))
    s.ok(s.box.commit())
    s.need("landed", s.mode("d") == 0o700 and os.getxattr(s.path + "/d", "user.inside") == b"1")
    s.need("nothing left", "no changes" in s.diff(), s.diff())
    s.ok(s.box.undo())
    s.need("shown again", "0755→0700" in s.diff() and "xattr" in s.diff() and "d/n" not in s.diff(), s.diff())
    s.ok(s.box.undo())
    s.need("as in the beginning", s.mode("d") == 0o755 and not os.path.exists(s.path + "/d/n"))
    s.need("all shown again", "0755→0700" in s.diff() and "d/n" in s.diff(), s.diff())


def by_path_keeps_attributes(s):
    """Likewise if it has no other edit than an attribute."""
    s.edit(["setxattr", ".", "user.root", "1"], ["setxattr", "d", "user.inside", "1"], ["append", "f", "2"], ["append", "d/in", "2"],
           ["create", "new", "n", 0o644])
    s.ok(s.box.commit(s.path + "/f", s.path + "/d/in"))
    s.need("still shown", s.diff().count("xattr") == 2, s.diff())
    s.need("not landed", not set(os.listxattr(s.path) + os.listxattr(s.path + "/d")) & {"user.root", "user.inside"})
    s.ok(s.box.commit())
    s.need("landed", os.getxattr(s.path, "user.root") == b"1" and os.getxattr(s.path + "/d", "user.inside") == b"1")
    s.need("nothing left", "no changes" in s.diff(), s.diff())


def times_that_were_left_to_others_are_no_edit(s):
    """Another process worked in a directory while its mode was changed inside, and things in it: its time does not land, now or later."""
    s.edit(["chmod", ".", 0o700])
    s.run("rm -r d; mkdir d; echo n > d/n")
    with open(s.path + "/theirs", "w", encoding="ascii") as file:
        file.write("1")
    then = os.stat(s.path).st_mtime_ns
    s.ok(s.box.commit())
    s.need("the mode landed", s.mode(".") == 0o700, oct(s.mode(".")))
    s.need("nothing left", "no changes" in s.diff(), s.diff())
    s.ok(s.box.commit())
    s.need("the time of the original", os.stat(s.path).st_mtime_ns >= then)


def removed_by_others_after_a_commit(s):
    """What landed in a directory is no edit any more, and so is the directory's time: another process may remove it."""
    s.run("echo n > d/sub/n; mv f d/sub/f")
    s.ok(s.box.commit())
    os.rename(s.path + "/d/sub", s.path + "/e/sub")
    s.need("nothing is listed", "no changes" in s.diff(), s.diff())
    s.ok(s.box.commit())
    s.need("it stays where the other process put it", not os.path.exists(s.path + "/d/sub") and os.path.exists(s.path + "/e/sub/n"))


def undo_over_a_replaced_directory(s):
    s.run("echo 2 >> d/sub/low")
    s.ok(s.box.commit(s.path + "/d/sub/low"))
    s.run("rm -r d; mkdir d; echo n > d/n")
    before = s.run("find . | sort")
    s.ok(s.box.undo())
    s.need("the view stays", s.run("find . | sort") == before, s.run("find . | sort"))
    s.ok(s.box.commit())
    s.need("landed", sorted(os.listdir(s.path + "/d")) == ["n"], os.listdir(s.path + "/d"))


def undo_brings_back_metadata_that_a_rollback_dropped(s):
    for paths in ([], ["d", "f"]):
        s.edit(["chmod", "d", 0o700], ["setxattr", "d", "user.inside", "1"], ["append", "f", "2\n"])
        s.ok(s.box.commit(*[s.path + "/" + name for name in paths]))
        s.run("echo x > x")
        s.ok(s.box.rollback())
        s.ok(s.box.undo())
        s.need("inside", s.run("stat -c %a d; tail -n1 f").split() == ["700", "2"], s.run("stat -c %a d; tail -n1 f"))
        s.need("shown", "0755→0700" in s.diff() and "xattr" in s.diff() and "M  f" in s.diff(), s.diff())
        s.need("the original", s.mode("d") == 0o755)
        s.ok(s.box.rollback())


def undo_leaves_newer_times(s):
    s.run("echo x >> f")
    s.ok(s.box.commit(s.path + "/f"))
    s.run("rm -r e")
    before = s.run("stat -c %y .")
    s.ok(s.box.undo())
    s.need("the time of the directory", s.run("stat -c %y .") == before, before, s.run("stat -c %y ."))


def rollback_with_a_fifo(s):
    """What stays inside is dropped by a rollback, which takes no commit back for it."""
    s.run("echo x > y; mkfifo q")
    done = s.ok(s.box.commit())
    s.need("named", b"skipped: q:" in done.stdout + done.stderr, t.said(done))
    s.need("it stays", s.run("ls").split() == ["d", "e", "f", "q", "spare", "y"], s.run("ls"))
    s.ok(s.box.rollback())
    s.need("the commit stands", os.path.exists(s.path + "/y"))
    s.need("it is gone", s.run("ls").split() == ["d", "e", "f", "spare", "y"], s.run("ls"))
    s.ok(s.box.undo())
    s.need("and can be taken back", not os.path.exists(s.path + "/y"))


def replaced_directory_and_fifos(s):
    """Everything that can land lands, and what cannot is named and stays where it is."""
    s.run("rm -r d; mkdir d; echo x > d/y; mkfifo d/p; mkfifo q; mkdir new; mkfifo new/r; echo z > new/z; echo more >> f")
    view = s.run("find . | sort")
    for _ in range(2):
        done = s.ok(s.box.commit())
        said = done.stdout + done.stderr
        s.need("named", all(b"skipped: %s:" % name in said for name in (b"q", b"d/p", b"new/r")), t.said(done))
        s.need("landed", sorted(os.listdir(s.path + "/d")) == ["y"] and os.listdir(s.path + "/new") == ["z"] and
               not os.path.exists(s.path + "/q"), os.listdir(s.path + "/d"), os.listdir(s.path + "/new"))
        s.need("the view stays", s.run("find . | sort") == view, s.run("find . | sort"))
        s.need("nothing else is left", s.diff().splitlines()[-1] == "0 changes: 3 skipped", s.diff())
        s.need("nothing to commit", s.ok(s.box.commit()).stdout.startswith(b"committed 0 changes"))
        s.ok(s.box.undo())
        s.need("taken back", sorted(os.listdir(s.path + "/d")) == ["in", "other", "sub"] and not os.path.exists(s.path + "/new"))
        s.need("the view is the same", s.run("find . | sort") == view, s.run("find . | sort"))


def over_a_fifo_of_the_original(s):
    """A file or directory inside in the place of a FIFO of the original does not land, and neither does what is in it."""
    for name in ("one", "two"):
        os.mkfifo(s.path + "/" + name)
        os.chown(s.path + "/" + name, os.stat(s.path).st_uid, os.stat(s.path).st_gid)
    s.ok(s.box.rollback())
    s.run("rm -f one two; echo x > one; mkdir two; echo y > two/y; echo more >> f")
    done = s.ok(s.box.commit())
    s.need("named", b"skipped: one:" in done.stdout + done.stderr and b"skipped: two:" in done.stdout + done.stderr, t.said(done))
    s.need("the original's stay", all(stat.S_ISFIFO(os.lstat(s.path + "/" + name).st_mode) for name in ("one", "two")))
    s.need("inside too", s.run("cat one two/y").split() == ["x", "y"])
    s.ok(s.box.undo())
    s.need("inside, after the undo", s.run("cat one two/y; tail -n1 f").split() == ["x", "y", "more"])


def a_fifo_took_the_place_of_something(s):
    """That is a conflict, whatever was done inside. Even overriding leaves the FIFO alone: the change is named as skipped, and stays inside."""
    cases = [("echo 2 > f", "f"), ("rm f", "f"), ("rm f; mkdir f; echo 2 > f/in", "f"), ("echo 2 > added", "added"), ("chmod 600 f", "f"),
             ("echo 2 > d/sub/low", "d/sub"), ("echo 2 > d/sub/n", "d/sub"), ("rm d/sub/low", "d/sub"), ("rm -r d/sub", "d/sub"),
             ("echo 2 > d/sub/low", "d"), ("mkdir d/sub/n", "d"), ("rm -r d", "d"), ("rm -r d; mkdir d; echo 2 > d/n", "d")]
    kept = s.place.fresh("kept")
    subprocess.run(["cp", "-a", s.path + "/.", kept], check=True)
    for line, name in cases:
        s.run(line, "echo top > top")
        shown = s.diff()
        t.remove_tree(s.path + "/" + name)
        os.mkfifo(s.path + "/" + name)
        t.give(s.path + "/" + name, s.place.uid(s.who) if s.place.is_root else os.getuid())
        view = s.run("find . | sort; cat f 2>&1 || true")
        before = mf.manifest(s.path)
        done = s.ok(s.box.commit(), 3)
        s.need("named", b"conflict: %s" % name.encode() in done.stderr, line, t.said(done))
        s.need("nothing was touched", mf.manifest(s.path) == before, line)
        s.need("nobody deleted anything", "D  " not in s.diff(), line, name, s.diff())
        done = s.ok(s.box.commit("--on-conflict=ours"))
        s.need("skipped", b"skipped: %s" % name.encode() in done.stdout + done.stderr and b"delete" not in done.stdout, line, t.said(done))
        s.need("the FIFO stays", stat.S_ISFIFO(os.lstat(s.path + "/" + name).st_mode) and os.path.exists(s.path + "/top"), line)
        s.need("it stays inside", s.run("find . | sort; cat f 2>&1 || true") == view, line, s.run("find . | sort"), view)
        s.need("still skipped", "S  " in s.diff() and "D  " not in s.diff(), line, s.diff())
        s.ok(s.box.undo())
        s.wrong += ["undone: " + text for text in mf.differences(before, mf.manifest(s.path), ignore=("mtime",))]
        s.need("the view after the undo", s.run("find . | sort; cat f 2>&1 || true") == view, line, s.run("find . | sort"))
        os.unlink(s.path + "/" + name)
        subprocess.run(["cp", "-a", kept + "/.", s.path], check=True)
        s.ok(s.box.rollback())
        if s.wrong:
            s.wrong.append("with %r over %s: %s" % (line, name, shown))
            return


def below_a_replaced_directory(s):
    s.run("rm -r d; mkdir d; echo x > d/y")
    done = s.ok(s.box.commit(s.path + "/d/sub/low"), 4)
    s.need("the reason", b"replaced as a whole" in done.stderr or b"deleted as a whole" in done.stderr, t.said(done))
    s.ok(s.box.commit(s.path))
    s.need("the whole resource by its path", sorted(os.listdir(s.path + "/d")) == ["y"])


def killed_with_fifos(s):
    """A full commit that is killed, at every ninth system call: recovery brings all or nothing, and what stays behind is where it was."""
    s.run("rm -r d; mkdir d; echo x > d/y; mkfifo d/p q; mkdir new; mkfifo new/r; echo z > new/z; chmod 700 e")
    view, before = s.run("find . | sort"), sorted(mf.manifest(s.path))
    for number in range(1, 2000, 9):
        s.box.program = s.place.faults_bin
        done = s.box.commit(fault="%d:kill" % number)
        killed = done.returncode in (-9, 137)
        s.need("killed, or through with it", killed or done.returncode == 0, number, t.said(done))
        s.box.program = s.place.bin
        s.ok(s.box.recover())
        s.need("the view after kill %d" % number, s.run("find . | sort") == view, s.run("find . | sort"))
        landed = os.path.exists(s.path + "/new/z")
        s.need("all of it after kill %d" % number, not landed or (os.listdir(s.path + "/d") == ["y"] and s.mode("e") == 0o700))
        if landed:
            s.ok(s.box.undo())
            s.need("the view after the undo, kill %d" % number, s.run("find . | sort") == view, s.run("find . | sort"))
        s.need("the original after kill %d" % number, sorted(mf.manifest(s.path)) == before and s.mode("e") == 0o755)
        if not killed or s.wrong:
            return
    s.need("the commit ends", False)


# From within the directory that is renamed. A directory that the sandbox made is renamed by the kernel with every strategy.
WITHIN = """
import errno, os
os.chdir("d")
held = open("in", "a")
os.rename("../d", "../moved")
for what in (lambda: open("made", "w").close(), os.getcwd, lambda: os.listdir("."), lambda: open("../moved/beside", "w").close()):
    try:
        what()
        print("done")
    except OSError as e:
        print(errno.errorcode[e.errno])
held.write("more\\n")
held.close()
os.chdir("../moved")
open("later", "w").close()
os.chdir("..")
os.mkdir("own")
os.chdir("own")
os.rename("../own", "../owned")
open("made", "w").close()
"""


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read()


def renamed_while_a_process_works_in_it(s):
    """overlay makes a renamed directory of the original anew: a process that works in the old one is in a directory that was removed."""
    said = s.ok(s.box.run(t.PYTHON, "-c", WITHIN, cwd=s.path)).stdout.decode().split()
    if s.box.strategy == "overlay":
        s.need("what the process is told", said == ["ENOENT", "ENOENT", "done", "done"], said)
    else:
        s.need("what the process is told", said == ["done"] * 4, said)
    s.ok(s.box.commit("--quiet"))
    names = ["beside", "in", "later", "other", "sub"] + (["made"] if s.box.strategy != "overlay" else [])
    s.need("what landed", sorted(os.listdir(s.path + "/moved")) == sorted(names) and read(s.path + "/moved/in") == "inside\nmore\n" and
           not os.path.exists(s.path + "/d") and os.listdir(s.path + "/owned") == ["made"], sorted(os.listdir(s.path + "/moved")))
    s.ok(s.box.undo("--quiet"))
    s.need("after the undo", sorted(os.listdir(s.path + "/d")) == ["in", "other", "sub"] and not os.path.exists(s.path + "/moved"))


def opened_inside_only(s):
    """A directory that its owner has closed is opened inside: the run, the commit and the undo succeed as elsewhere, and edits of others are seen."""
    os.setxattr(s.path + "/d/sub", "user.known", b"1")
    os.chmod(s.path + "/d/sub", 0)
    os.chmod(s.path + "/d", 0)
    inside = "chmod 700 d; chmod 700 d/sub; echo new > d/sub/new; echo more >> d/in; exit 3"
    again = s.box
    s.box = t.Box(s.place, s.who, again.strategy, dirs=[s.path])
    s.ok(s.box.new("--quiet"))
    s.ok(s.box.run("sh", "-ec", inside, cwd=s.path), 3)
    s.ok(s.box.run("true", cwd=s.path))
    s.ok(s.box.commit("--quiet"))
    s.need("what landed", read(s.path + "/d/sub/new") == "new\n" and read(s.path + "/d/in") == "inside\nmore\n" and s.mode("d") == 0o700)
    s.ok(s.box.undo("--quiet"))
    s.need("the mode after the undo", s.mode("d") == 0)
    os.chmod(s.path + "/d", 0o700)
    with open(s.path + "/d/in", "a", encoding="ascii") as file:
        file.write("foreign\n")
    os.chmod(s.path + "/d", 0)
    done = s.ok(s.box.commit("--quiet"), 3)
    s.need("the conflict", b"conflict: d/in: " in done.stderr, t.said(done))
    os.chmod(s.path + "/d", 0o700)
    os.chmod(s.path + "/d/sub", 0o700)
    s.need("what is left of the other edit", read(s.path + "/d/in") == "inside\nforeign\n" and not os.path.exists(s.path + "/d/sub/new"))
    s.box.drop()
    s.box = again


def undo_leaves_the_time_of_others(s):
    """Somebody else made a name, or set the time, after the commit: the undo gives no directory an older time than that."""
    s.run("echo n > d/n; echo m >> e/new; echo more >> d/sub/low; echo more >> f")
    s.ok(s.box.commit())
    with open(s.path + "/d/theirs", "w", encoding="ascii"):
        pass
    made = os.stat(s.path + "/d").st_mtime_ns
    os.utime(s.path + "/d/sub", ns=(1, 1500000000123456789))
    s.ok(s.box.undo())
    s.need("a name was made", os.stat(s.path + "/d").st_mtime_ns >= made and os.path.exists(s.path + "/d/theirs"), os.stat(s.path + "/d"))
    s.need("the time was set", os.stat(s.path + "/d/sub").st_mtime_ns == 1500000000123456789, os.stat(s.path + "/d/sub"))
    s.need("nobody else was there", int(os.stat(s.path + "/e").st_mtime) == 1000000000, os.stat(s.path + "/e"))


def commit_after_undo_leaves_the_time_of_others(s):
    """Another process made a name in the root, in which the commit only changed a file. After the
    undo that time is no older inside, so that the next commit does not set it back; and a time that
    was set inside after the commit still is an edit."""
    s.run("echo edited >> f")
    s.ok(s.box.commit())
    with open(s.path + "/theirs", "w", encoding="ascii"):
        pass
    made = os.stat(s.path).st_mtime_ns
    s.ok(s.box.undo())
    s.need("inside", int(s.run("stat -c %Y .")) >= made // 10**9, s.run("stat -c %y ."), made)
    s.ok(s.box.commit())
    s.need("the time of the original", os.stat(s.path).st_mtime_ns >= made, os.stat(s.path).st_mtime_ns, made)
    s.run("touch -d @1000000001 .")
    s.ok(s.box.undo())
    s.need("the newer edit", int(s.run("stat -c %Y .")) == 1000000001, s.run("stat -c %y ."))


def undo_that_fails_leaves_the_time_of_others(s):
    s.run("echo n > d/n; echo more >> d/sub/low")
    s.ok(s.box.commit())
    with open(s.path + "/d/theirs", "w", encoding="ascii"):
        pass
    made = os.stat(s.path + "/d").st_mtime_ns
    s.box.program = s.place.faults_bin
    for mark, fault, codes in (("decide", "1:kill", (-9, 137)), ("apply", "3:kill", (-9, 137)),
                               ("decide", "1:EIO", (1,))):
        done = s.box.undo(fault=fault, program_environment={"ATOLL_FAULT_FROM": mark})
        s.need("the fault was met", done.returncode in codes, mark, fault, t.said(done))
        s.ok(s.box.recover())
        s.need(fault, os.stat(s.path + "/d").st_mtime_ns == made and os.path.exists(s.path + "/d/n"), os.stat(s.path + "/d"), made)
    s.box.program = s.place.bin
    s.ok(s.box.undo())
    s.need("undone", os.stat(s.path + "/d").st_mtime_ns >= made and not os.path.exists(s.path + "/d/n"), os.stat(s.path + "/d"))


def whiteouts_do_not_land(s):
    """overlayfs leaves no mark of a deleted name in a directory that is new, but a workspace may come from another kernel."""
    s.run("mkdir n; echo f > n/f")
    if s.box.strategy != "overlay":
        return
    uppers = glob.glob(os.path.join(s.box.state, "boxes/*/*/upper/n"))
    s.need("the workspace is found", len(uppers) == 1, uppers)
    for upper in uppers:
        os.mknod(upper + "/gone", 0o600 | stat.S_IFCHR, os.makedev(0, 0))
    s.ok(s.box.commit())
    s.need("what landed", os.listdir(s.path + "/n") == ["f"], os.listdir(s.path + "/n"))


def attributes_that_look_like_an_overlays(s):
    """user.overlay.* is what an overlay of an ordinary user keeps for itself. Everywhere else it is an attribute like any other; nowhere
    does one that an original has, or a command sets, delete anything."""
    plain = s.box.strategy != "overlay" or s.who == "root"
    names = [("d", "opaque"), ("d", "mine"), ("d/in", "mine"), ("spare", "opaque")]
    for path, name in names:
        os.setxattr(s.path + "/" + path, "user.overlay." + name, b"y")
    s.ok(s.box.rollback())
    before = mf.manifest(s.path)
    s.run("echo n > d/n; echo more >> d/in; test -f d/other; test -f spare/in")
    inside = [("e", "opaque"), ("d/sub", "opaque"), ("d/other", "origin")]
    if plain:
        s.edit(*[["setxattr", path, "user.overlay." + name, "y"] for path, name in inside], ["mkdir", "new", 0o755],
               ["setxattr", "new", "user.overlay.opaque", "y"], ["create", "d/sub/n", "n", 0o644])
        s.need("shown", all(line in s.diff() for line in ("d/sub/  (xattr", "d/other  (xattr)", "e/  (xattr)")), s.diff())
    s.need("nothing is deleted", "D  " not in s.diff(), s.diff())
    s.ok(s.box.commit())
    s.need("all are there", sorted(os.listdir(s.path + "/d")) == ["in", "n", "other", "sub"] and os.listdir(s.path + "/spare") == ["in"] and
           os.path.exists(s.path + "/d/sub/low"), os.listdir(s.path + "/d"))
    wanted = names + inside + [("new", "opaque")] if plain else [names[0], names[1], names[3]]
    for path, name in wanted:
        s.need("landed or stayed", "user.overlay." + name in os.listxattr(s.path + "/" + path), path, os.listxattr(s.path + "/" + path))
    s.need("nothing left", "no changes" in s.diff(), s.diff())
    s.ok(s.box.undo())
    s.wrong += ["undone: " + line for line in mf.differences(before, mf.manifest(s.path), ignore=("mtime",))]
    if plain:
        s.need("edits again", all(line in s.diff() for line in ("d/sub/  (xattr", "e/  (xattr)")) and "D  " not in s.diff(), s.diff())
    s.run("rm -r d/sub; mkdir d/sub; echo only > d/sub/only")
    s.ok(s.box.commit())
    s.need("a replaced directory", os.listdir(s.path + "/d/sub") == ["only"], os.listdir(s.path + "/d/sub"))
    s.need("of the overlay's own nothing lands", not [name for name in os.listxattr(s.path + "/d/sub") if "overlay" in name])


TESTS = [attributes_that_look_like_an_overlays, foreign_metadata_stays, made_by_both_sides, foreign_metadata_conflicts, by_path_keeps_the_directory,
         by_path_keeps_attributes, times_that_were_left_to_others_are_no_edit, removed_by_others_after_a_commit, undo_over_a_replaced_directory,
         undo_brings_back_metadata_that_a_rollback_dropped, undo_leaves_newer_times,
         undo_leaves_the_time_of_others, commit_after_undo_leaves_the_time_of_others,
         undo_that_fails_leaves_the_time_of_others, rollback_with_a_fifo, replaced_directory_and_fifos,
         over_a_fifo_of_the_original, a_fifo_took_the_place_of_something, below_a_replaced_directory, killed_with_fifos, whiteouts_do_not_land,
         renamed_while_a_process_works_in_it, opened_inside_only]


# ---- overriding what somebody else did ----

def by_another_root(place, tap):
    """Root without CAP_SYS_ADMIN and root with it mark what was deleted in an overlay by different attributes: neither may read the other's."""
    less = ["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]
    for title, first, second in (("less", less, []), ("more", [], less)):
        path = t.build_tree(place, "root", BASE, hint="capabilities")
        box = t.Box(place, "root", "overlay", dirs=[path])

        def atoll(before, *arguments, b=box):
            return b.command([*before, b.program, *arguments])

        made = atoll(first, "new", box.name, "--dir", path, "--strategy", "overlay", "--quiet")
        ran = atoll(first, "run", box.name, "--", "sh", "-ec", "cd '%s'; rm -r d; mkdir d; echo new > d/new" % path)
        before = mf.manifest(path)
        refused = [atoll(second, *arguments) for arguments in
                   (("diff", box.name), ("commit", box.name), ("rollback", box.name), ("run", box.name, "--", "true"), ("rm", box.name))]
        untouched = mf.manifest(path) == before
        landed = atoll(first, "commit", box.name)
        tap.check("made by root with %s capabilities: no other reads it" % title, made.returncode == ran.returncode == landed.returncode == 0 and
                  untouched and [done.returncode for done in refused] == [4, 4, 4, 125, 4] and
                  all(b"CAP_SYS_ADMIN" in done.stderr for done in refused) and os.listdir(path + "/d") == ["new"],
                  t.said(made), t.said(ran), *map(t.said, refused), t.said(landed), os.listdir(path + "/d"))
        atoll(first, "rm", box.name, "--force")
        t.remove_tree(path)


def content(path):
    with open(path, encoding="ascii") as file:
        return file.read()


# What is done inside, and how it is recognised when it has landed.
INSIDE = {
    "appends to a file": ([["append", "d/in", "mine\n"]], lambda p: content(p + "/d/in") == "inside\nmine\n"),
    "adds a file": ([["create", "d/mine", "mine", 0o644]], lambda p: content(p + "/d/mine") == "mine"),
    "changes a file deep below": ([["append", "d/sub/low", "mine\n"]], lambda p: content(p + "/d/sub/low") == "low\nmine\n"),
    "adds directories": ([["mkdir", "d/sub/a", 0o750], ["mkdir", "d/sub/a/b", 0o700], ["create", "d/sub/a/b/c", "c", 0o600]],
                         lambda p: content(p + "/d/sub/a/b/c") == "c" and stat.S_IMODE(os.stat(p + "/d/sub/a").st_mode) == 0o750),
    "changes the mode": ([["chmod", "d", 0o700]], lambda p: stat.S_IMODE(os.stat(p + "/d").st_mode) == 0o700),
    "sets an attribute": ([["setxattr", "d", "user.inside", "1"]], lambda p: os.getxattr(p + "/d", "user.inside") == b"1"),
    "removes the directory": ([["remove", "d"]], lambda p: not os.path.lexists(p + "/d")),
    "removes a file": ([["unlink", "d/in"]], lambda p: not os.path.lexists(p + "/d/in")),
    "turns the directory into a file": ([["become", "d", "file", "x"]], lambda p: content(p + "/d") == "x"),
    "turns a file into a directory": ([["become", "d/in", "dir", "x"]], lambda p: content(p + "/d/in/inside") == "x"),
    "replaces the directory": ([["remove", "d"], ["mkdir", "d", 0o755], ["create", "d/only", "x", 0o644]],
                               lambda p: content(p + "/d/only") == "x" and not {"in", "other", "sub"} & set(os.listdir(p + "/d"))),
    "adds to the empty directory": ([["create", "e/mine", "mine", 0o644]], lambda p: content(p + "/e/mine") == "mine"),
}


def swap(path, by):
    t.remove_tree(path)
    by(path)


OUTSIDE = {
    "removes the directory": lambda p: t.remove_tree(p + "/d"),
    "renames the directory": lambda p: os.rename(p + "/d", p + "/was"),
    "puts a file in its place": lambda p: swap(p + "/d", lambda at: open(at, "w", encoding="ascii").write("foreign")),
    "puts a link in its place": lambda p: swap(p + "/d", lambda at: os.symlink("spare", at)),
    "puts another directory in its place": lambda p: (os.rename(p + "/d", p + "/was"), os.rename(p + "/spare", p + "/d")),
    "puts a FIFO in its place": lambda p: swap(p + "/d", os.mkfifo),
    "removes a file": lambda p: os.unlink(p + "/d/in"),
    "turns a file into a directory": lambda p: swap(p + "/d/in", lambda at: (os.mkdir(at), os.mkdir(at + "/foreign"))),
    "removes the lower directory": lambda p: t.remove_tree(p + "/d/sub"),
    "puts a file in the place of the lower directory": lambda p: swap(p + "/d/sub", lambda at: open(at, "w", encoding="ascii").write("foreign")),
    "changes mode and attributes": lambda p: (os.chmod(p + "/d", 0o711), os.setxattr(p + "/d", "user.foreign", b"1")),
    "adds names": lambda p: (os.mkdir(p + "/d/mine"), os.mkdir(p + "/d/sub/a"), os.mkdir(p + "/e/mine")),
    "removes the empty directory": lambda p: os.rmdir(p + "/e"),
}


def override(place, who, strategy, ground, inside, outside, by_path):
    """Whatever somebody else did, ours lands, and undo brings back exactly what they had done; or it is refused with a reason."""
    s = Scene(place, who, strategy, ground, "ours")
    script, landed = INSIDE[inside]
    s.ok(s.box.edit(script, s.path))
    OUTSIDE[outside](s.path)
    if place.is_root:
        t.give(s.path, place.uid(who))
    before = mf.manifest(s.path)
    names = sorted({s.path + "/" + op[1].split("/")[0] for op in script}) if by_path else []
    plain = s.box.commit(*names)
    s.need("without overriding", plain.returncode in (0, 3, 4), t.said(plain))
    done = plain if plain.returncode == 0 else s.box.commit("--on-conflict=ours", *names)
    s.need("ours", done.returncode in (0, 4) and (done.returncode == 0 or b"refused: " in done.stderr), t.said(done))
    said = done.stdout + done.stderr
    if done.returncode == 0 and b"skipped: d: the original is" not in said and b"has the place of its directory" not in said:
        try:
            s.need("landed", landed(s.path), t.said(done), sorted(mf.manifest(s.path)))
        except OSError as error:
            s.need("landed", False, error, t.said(done), sorted(mf.manifest(s.path)))
        if not by_path:  # that both have removed something, and a time beside foreign changes, stay to be seen
            left = [line for line in s.diff().splitlines() if "removed by somebody else" not in line and " change" not in line
                    and not line.endswith("(time)")]
            s.need("nothing is left", not left, s.diff())
    if done.returncode == 0 and not done.stdout.startswith((b"committed 0 changes", b"nothing to commit")):
        s.ok(s.box.undo())
    after = mf.manifest(s.path)
    s.wrong += ["undone: " + line for line in mf.differences(before, after, ignore=("mtime",))]
    return ["%s, somebody else %s: %s" % (inside, outside, line) for line in s.close()]


def overriding(place, tap, who, strategy, ground):
    cells = [(inside, outside) for inside in INSIDE for outside in OUTSIDE]
    if not t.TORTURE:  # a third of them for each pair of strategy and user; all of them are met by some pair
        share = ["overlay", "copy_on_write", "snapshot"].index(strategy) + (who == "user")
        cells = cells[share % 3::3]
    for by_path in (False, True):
        found = t.parallel(lambda cell, by_path=by_path: override(place, who, strategy, ground, *cell, by_path), cells)
        found = [line for lines in found for line in lines]
        tap.check("ours lands or is refused with a reason, and undo brings theirs back, %d pairs%s, %s, %s" %
                  (len(cells), " by path" if by_path else "", strategy, who), not found, *found[:12], "%d problems" % len(found))


def main(place, tap):
    if place.is_root and t.only("capabilities"):
        by_another_root(place, tap)
    for strategy in ("overlay", "copy_on_write", "snapshot"):
        for who in place.users():
            ground = None
            if strategy == "snapshot":
                ground = place.mount("btrfs", who=who, subvolumes=True) if place.is_root else None
                if ground is None:
                    tap.skip("directories, snapshot, %s" % who, "btrfs cannot be made or mounted here")
                    continue
            for test in TESTS:
                title = "%s, %s, %s" % (test.__name__.replace("_", " "), strategy, who)
                if not t.only(title):
                    continue
                s = Scene(place, who, strategy, ground)
                try:
                    test(s)
                finally:
                    wrong = s.close()
                tap.check(title, not wrong, *wrong)
            if t.only("overriding %s %s" % (strategy, who)):
                overriding(place, tap, who, strategy, ground)
            if ground:
                place.unmount(ground)


t.run(main)
