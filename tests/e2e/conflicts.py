#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 1800
"""Every kind of foreign change against every kind of sandboxed change, on ext4, XFS, btrfs and tmpfs.

The table below says what must come out. Each cell is a sandbox of its own over two directories: the pair meets in the first,
the second has an innocent edit. A conflict names the path, exits 3 and changes nothing in either directory; where there is no
conflict both changes are there afterwards, and the innocent edit too.
"""
import ctypes
import mmap
import os
import re
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

LIBC = ctypes.CDLL(None)
C, N, E = "conflict", "no conflict", "either"  # either: nothing is promised but that whichever it is, it is done wholly



def acl(*entries):
    """An ACL as the kernel's attribute. Without named users: an ordinary user's namespace may know no other ids."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", tag, perm, 0xffffffff) for tag, perm in entries)


USER, GROUP, MASK, OTHER = 1, 4, 0x10, 0x20
ACL_INSIDE = acl((USER, 7), (GROUP, 5), (MASK, 5), (OTHER, 5))
ACL_FOREIGN = acl((USER, 7), (GROUP, 5), (MASK, 4), (OTHER, 4))
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"

# The tree: a file, a link, a directory with a file, an empty directory; spare holds inodes made before the sandbox.
BASE = [["create", "f", "first line\n", 0o644], ["symlink", "f", "l"], ["mkdir", "d", 0o755], ["create", "d/in", "inside\n", 0o644],
        ["mkdir", "d/sub", 0o755], ["create", "d/sub/low", "low\n", 0o644], ["mkdir", "e", 0o755],
        ["create", "other", "other\n", 0o644], ["mkdir", "spare", 0o755], ["create", "spare/f", "spare file\n", 0o644],
        ["mkdir", "spare/d", 0o755], ["create", "spare/d/in", "inside\n", 0o644], ["mkdir", "spare/d/sub", 0o755],
        ["create", "spare/d/sub/low", "low\n", 0o644], ["stamp_all", 1000000000]]

# What the sandbox does: name -> (script, the path that must be named in a conflict).
INSIDE = {
    "appends to the file": ([["append", "f", "inside\n"]], "f"),
    "replaces the file": ([["replace", "f", "replaced inside\n", 0o644]], "f"),
    "deletes the file": ([["unlink", "f"]], "f"),
    "changes the file's mode": ([["chmod", "f", 0o600]], "f"),
    "sets an attribute of the file": ([["setxattr", "f", "user.inside", "1"]], "f"),
    "sets the file's time": ([["utime", "f", 5]], "f"),
    "renames the file": ([["rename", "f", "g"]], "f"),
    "turns the file into a directory": ([["become", "f", "dir", "x"]], "f"),
    "turns the file into a link": ([["become", "f", "link", "other"]], "f"),
    "adds a name": ([["create", "n", "mine\n", 0o644]], "n"),
    "retargets the link": ([["retarget", "other", "l"]], "l"),
    "deletes the link": ([["unlink", "l"]], "l"),
    "turns the link into a file": ([["become", "l", "file", "x"]], "l"),
    "adds a file to the directory": ([["create", "d/mine", "mine\n", 0o644]], "d/mine"),
    "changes a file in the directory": ([["append", "d/in", "inside\n"]], "d/in"),
    "changes the directory's mode": ([["chmod", "d", 0o700]], "d"),
    "sets an attribute of the directory": ([["setxattr", "d", "user.inside", "1"]], "d"),
    "sets an access ACL of the directory": ([["setxattr", "d", ACCESS, ACL_INSIDE.decode("latin-1")]], "d"),
    "sets a default ACL of the directory": ([["setxattr", "d", DEFAULT, ACL_INSIDE.decode("latin-1")]], "d"),
    "removes the directory": ([["remove", "d"]], "d"),
    "renames the directory": ([["rename", "d", "d2"]], "d"),
    "turns the directory into a file": ([["become", "d", "file", "x"]], "d"),
    "removes the empty directory": ([["rmdir", "e"]], "e"),
    "adds a file to the empty directory": ([["create", "e/mine", "mine\n", 0o644]], "e/mine"),
}
FILE = ["appends to the file", "replaces the file", "deletes the file", "changes the file's mode", "sets an attribute of the file",
        "sets the file's time", "renames the file", "turns the file into a directory", "turns the file into a link"]
LINK = ["retargets the link", "deletes the link", "turns the link into a file"]
WHOLE_DIR = ["removes the directory", "renames the directory", "turns the directory into a file"]
DIR_META = ["changes the directory's mode", "sets an attribute of the directory", "sets an access ACL of the directory",
            "sets a default ACL of the directory"]


def _append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def _replace(path, data):
    with open(path + ".foreign", "wb") as file:
        file.write(data)
    os.rename(path + ".foreign", path)


def _in_place_same_size_and_time(path):
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"FIRST")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def _swap(path, spare):
    os.rename(path, path + ".was")
    os.rename(spare, path)


def _retype_file(path):
    os.unlink(path)
    os.mkdir(path)


def _fifo(path):
    t.remove_tree(path)
    os.mkfifo(path)


def _relink(path, target):
    os.unlink(path)
    os.symlink(target, path)
    os.utime(path, (1, 1), follow_symlinks=False)  # the same link made inside at the same tick of the clock would be no change at all


# What somebody else does meanwhile: name -> (function of the directory, {expected: sandboxed changes}). Every sandboxed change
# that is not listed must meet it without conflict.
OUTSIDE = {
    "appends to the file": (lambda d: _append(d + "/f", b"foreign\n"), {C: FILE}),
    "changes the file keeping size and time": (lambda d: _in_place_same_size_and_time(d + "/f"), {C: FILE}),
    "replaces the file": (lambda d: _replace(d + "/f", b"foreign\n"), {C: FILE}),
    "moves an older file into its place": (lambda d: os.rename(d + "/spare/f", d + "/f"), {C: FILE}),
    "deletes the file": (lambda d: os.unlink(d + "/f"), {C: FILE}),
    "changes the file's mode": (lambda d: os.chmod(d + "/f", 0o640), {C: FILE}),
    "sets an attribute of the file": (lambda d: os.setxattr(d + "/f", "user.foreign", b"1"), {C: FILE}),
    "sets the file's time": (lambda d: os.utime(d + "/f", ns=(7, 7)), {C: FILE}),
    "renames the file": (lambda d: os.rename(d + "/f", d + "/h"), {C: FILE}),
    "turns the file into a directory": (lambda d: _retype_file(d + "/f"), {C: FILE}),
    "turns the file into a link": (lambda d: _relink(d + "/f", "other"), {C: FILE}),
    "puts a FIFO in the place of the file": (lambda d: _fifo(d + "/f"), {C: FILE}),
    "adds the same name as a FIFO": (lambda d: os.mkfifo(d + "/n"), {C: ["adds a name"]}),
    "puts a FIFO in the place of the directory": (lambda d: _fifo(d + "/d"),
                                                  {C: WHOLE_DIR + DIR_META + ["adds a file to the directory", "changes a file in the directory"]}),
    "adds the same name": (lambda d: _append(d + "/n", b"foreign\n"), {C: ["adds a name"]}),
    "adds the same name as a directory": (lambda d: os.mkdir(d + "/n"), {C: ["adds a name"]}),
    "adds the same name as a link": (lambda d: os.symlink("other", d + "/n"), {C: ["adds a name"]}),
    "adds another name": (lambda d: _append(d + "/m", b"foreign\n"), {}),
    "changes another file": (lambda d: _append(d + "/other", b"foreign\n"), {}),
    "retargets the link": (lambda d: _relink(d + "/l", "elsewhere"), {C: LINK}),
    "deletes the link": (lambda d: os.unlink(d + "/l"), {C: LINK}),
    "turns the link into a file": (lambda d: (os.unlink(d + "/l"), _append(d + "/l", b"foreign")), {C: LINK}),
    "adds a file to the directory": (lambda d: _append(d + "/d/foreign", b"foreign\n"),
                                     {C: WHOLE_DIR, E: DIR_META}),
    "adds the same file to the directory": (lambda d: _append(d + "/d/mine", b"foreign\n"),
                                            {C: WHOLE_DIR + ["adds a file to the directory"], E: DIR_META}),
    "changes a file in the directory": (lambda d: _append(d + "/d/in", b"foreign\n"),
                                        {C: WHOLE_DIR + ["changes a file in the directory"]}),
    "changes a file deep in the directory": (lambda d: _append(d + "/d/sub/low", b"foreign\n"), {C: WHOLE_DIR}),
    "deletes a file in the directory": (lambda d: os.unlink(d + "/d/in"),
                                        {C: WHOLE_DIR + ["changes a file in the directory"], E: DIR_META}),
    "changes the directory's mode": (lambda d: os.chmod(d + "/d", 0o711), {C: WHOLE_DIR + DIR_META}),
    "sets an attribute of the directory": (lambda d: os.setxattr(d + "/d", "user.foreign", b"1"), {C: WHOLE_DIR + DIR_META}),
    "sets an access ACL of the directory": (lambda d: os.setxattr(d + "/d", ACCESS, ACL_FOREIGN), {C: WHOLE_DIR + DIR_META}),
    "sets a default ACL of the directory": (lambda d: os.setxattr(d + "/d", DEFAULT, ACL_FOREIGN), {C: WHOLE_DIR + DIR_META}),
    "removes the directory": (lambda d: t.remove_tree(d + "/d"),
                              {C: WHOLE_DIR + DIR_META + ["adds a file to the directory", "changes a file in the directory"]}),
    "renames the directory": (lambda d: os.rename(d + "/d", d + "/was"),
                              {C: WHOLE_DIR + DIR_META + ["adds a file to the directory", "changes a file in the directory"]}),
    "swaps the whole directory": (lambda d: _swap(d + "/d", d + "/spare/d"),
                                  {C: WHOLE_DIR + DIR_META + ["changes a file in the directory", "adds a file to the directory"]}),
    "adds a file to the empty directory": (lambda d: _append(d + "/e/foreign", b"foreign\n"), {C: ["removes the empty directory"]}),
    "removes the empty directory": (lambda d: os.rmdir(d + "/e"),
                                    {C: ["removes the empty directory", "adds a file to the empty directory"]}),
}


# Both sides change the directory itself, or the one changes it and the other only something in it.
OF_DIRECTORY = DIR_META + ["adds a file to the directory", "changes a file in the directory"]

INNOCENT = [["append", "f", "innocent\n"], ["create", "innocent", "x", 0o644]]
MERGED = {}  # (inside, outside): the manifest of both changes on a plain copy


def expected(inside, outside):
    for outcome, names in OUTSIDE[outside][1].items():
        if inside in names:
            return outcome
    return N


def relevant(inside, outside):
    """Cells where the two meet, and a share of those where they plainly do not; in the torture run all of them."""
    return expected(inside, outside) != N or (inside in OF_DIRECTORY and outside in OF_DIRECTORY) or hash_of(inside + outside) % 10 == 0 or t.TORTURE


def hash_of(text):
    return sum(ord(c) * (i + 7) for i, c in enumerate(text))


def is_named(top, name, text):
    """The path itself, something below it, or the directory above it that somebody else removed or replaced."""
    if os.fsencode("%s/%s/" % (top, name)) in text:
        return True
    while name:
        if os.fsencode("%s/%s:" % (top, name)) in text:
            return True
        name = os.path.dirname(name)
    return False


def reports(done, name):
    """Of a sandbox over one directory: the path, or something below it, has a line of its own in the report."""
    return re.search(rb"(?m)^atoll: (conflict|busy): " + re.escape(os.fsencode(name)) + rb"(/[^:]*)?: ", done.stderr) is not None


def prefixed(name, script):
    """The same script for a directory one level down; targets of links and what is not a path stay."""
    paths = {"rename": (1, 2), "link": (1, 2), "retarget": (2,), "symlink": (2,)}
    return [[name + "/" + part if at in paths.get(op[0], (1,)) else part for at, part in enumerate(op)] for op in script]


class Cell:
    """Two directories, a sandbox over both, a change inside the first and an innocent one in the second."""

    def __init__(self, place, ground, who, strategy, template):
        self.top = place.fresh("cell", who, ground)
        self.one, self.two = self.top + "/one", self.top + "/two"
        for path in (self.one, self.two):
            place.copy(template, path, ground)
        self.box = t.Box(place, who, strategy, dirs=[self.one, self.two], state=place.fresh("state", who) + "/atoll")
        self.problems = []
        self.need(self.box.new())

    def need(self, done, code=0):
        if done.returncode != code:
            self.problems.append("%s: wanted exit %d: %s" % (" ".join(map(str, done.args[1:3])), code, t.said(done)))
        return done

    def inside(self, script):
        self.need(self.box.edit(prefixed("one", script) + prefixed("two", INNOCENT), self.top))

    def commit(self, outcome, name, merged):
        """merged: the manifest of the first directory when both changes are there (None: not compared)."""
        before = [mf.manifest(self.one), mf.manifest(self.two)]
        done = self.box.commit()
        after = [mf.manifest(self.one), mf.manifest(self.two)]
        if outcome == E and done.returncode in (0, 3):
            outcome = C if done.returncode == 3 else N
        if outcome == C:
            self.need(done, 3)
            if done.returncode == 3 and not is_named(self.one, name, done.stderr):
                self.problems.append("the path %r is not named: %s" % (name, t.said(done)))
            if before != after:
                self.problems.append("a conflict changed something: %s %s" % (mf.differences(before[0], after[0]),
                                                                              mf.differences(before[1], after[1])))
        else:
            self.need(done)
            if merged is not None:
                self.problems += ["merged: " + line for line in mf.differences(merged, after[0], ignore=("mtime", "uid", "gid"))]
            if b"innocent" not in after[1]:
                self.problems.append("the other directory's change is not there")

    def close(self):
        self.box.drop()
        t.remove_tree(self.top)


def merged_manifest(place, inside, outside):
    """What both changes together give: the foreign one first, then the script, on a plain copy. Owners are not compared."""
    key = (inside, outside)
    if key not in MERGED:
        who = place.users()[0]
        path = t.build_tree(place, who, BASE, hint="merged")
        inherits = DEFAULT if outside == "sets a default ACL of the directory" else None
        if not inherits:
            OUTSIDE[outside][0](path)
        done = t.plain_box(place, who).edit_directly(INSIDE[inside][0], path)
        if inherits:  # what was made inside knew nothing of it
            OUTSIDE[outside][0](path)
        MERGED[key] = mf.manifest(path) if done.returncode == 0 else None
        t.remove_tree(path)
    return MERGED[key]


def as_user(place, who, function):
    """Foreign changes come from the sandbox's own user: this thread's file system identity is changed for a moment."""
    def call(path):
        uid = place.uid(who) if place.is_root else 0
        if uid:
            LIBC.setfsgid(uid)
            LIBC.setfsuid(uid)
        try:
            function(path)
        finally:
            if uid:
                LIBC.setfsuid(0)
                LIBC.setfsgid(0)
    return call


def matrix(place, tap, kind, ground, who, strategy, only=None):
    """only: these changes inside and outside, and no others."""
    template = t.build_tree(place, who, BASE, below=ground, hint="template")
    for inside, (script, name) in INSIDE.items():
        if only and inside not in only:
            continue
        def one(outside, inside=inside, script=script, name=name):
            foreign = as_user(place, who, OUTSIDE[outside][0])
            outcome = expected(inside, outside)
            merged = None if outcome == C else merged_manifest(place, inside, outside)
            cell = Cell(place, ground, who, strategy, template)
            try:
                cell.inside(script)
                if cell.problems:
                    return cell.problems
                foreign(cell.one)
                cell.commit(outcome, name, merged)
                return ["somebody else %s (%s): %s" % (outside, outcome, line) for line in cell.problems]
            finally:
                cell.close()
        cells = [outside for outside in OUTSIDE if relevant(inside, outside) and (not only or outside in only)]
        title = "the sandbox %s, %d foreign changes, %s, %s, %s" % (inside, len(cells), kind, strategy, who)
        if t.only(title):
            found = [line for lines in t.parallel(one, cells) for line in lines]
            tap.check(title, not found, *found[:12], "%d problems" % len(found))
    t.remove_tree(template)


def directories(place, tap, kind, ground, who, strategy):
    """The part of the matrix that is about a directory's own metadata: what is known of it differs between the strategies."""
    matrix(place, tap, kind, ground, who, strategy, OF_DIRECTORY)


def before_the_run(place, tap, kind, ground, who, strategy):
    """A foreign change after new and before the first run counts as well."""
    template = t.build_tree(place, who, BASE, below=ground, hint="template")
    found = []
    for outside in ("appends to the file", "changes the file keeping size and time", "replaces the file", "changes the file's mode",
                    "moves an older file into its place"):
        cell = Cell(place, ground, who, strategy, template)
        as_user(place, who, OUTSIDE[outside][0])(cell.one)
        cell.inside([["append", "f", "inside\n"]])
        cell.commit(E if outside.startswith("moves") else C, "f", None)
        found += ["%s: %s" % (outside, line) for line in cell.problems]
        cell.close()
    tap.check("foreign changes between new and the first run are conflicts, %s, %s, %s" % (kind, strategy, who), not found, *found)
    t.remove_tree(template)


def by_old_handles(place, tap, kind, ground, who, strategy):
    """Through an fd and a mapping that were open before the sandbox began."""
    template = t.build_tree(place, who, BASE, below=ground, hint="template")
    found = []
    for way in ("fd", "mapping"):
        path = place.fresh("held", who, ground)
        subprocess.run(["cp", "-a", template + "/.", path], check=True)
        with open(path + "/f", "r+b") as file:
            view = mmap.mmap(file.fileno(), 0)
            box = t.Box(place, who, strategy, dirs=[path])
            steps = [box.new(), box.edit([["append", "f", "inside\n"]], path)]
            if way == "fd":
                os.pwrite(file.fileno(), b"HELD", 0)
            else:
                view[0:4] = b"HELD"
                view.flush()
            view.close()
        done = box.commit()
        with open(path + "/f", "rb") as file:
            content = file.read()
        if done.returncode != 3 or not content.startswith(b"HELD"):
            found += ["through a %s: %s, content %r" % (way, t.said(done), content), *[t.said(s) for s in steps]]
        box.drop()
        t.remove_tree(path)
    tap.check("writes through an fd and a mapping opened before are conflicts, %s, %s, %s" % (kind, strategy, who), not found, *found)
    t.remove_tree(template)


def held_open_at_commit(place, tap, kind, ground, who, strategy):
    """An original held open for writing at the moment of the commit could still be written afterwards: it must not be lost."""
    path = t.build_tree(place, who, BASE, below=ground, hint="held")
    with open(path + "/f", "r+b") as file:
        box = t.Box(place, who, strategy, dirs=[path])
        steps = [box.new(), box.edit([["append", "f", "inside\n"]], path)]
        before = mf.manifest(path)
        done = box.commit()
        good = done.returncode in (3, 6) and reports(done, "f") and mf.manifest(path) == before
        os.pwrite(file.fileno(), b"", 0)
    tap.check("an original that is open for writing at the commit is not replaced, %s, %s, %s" % (kind, strategy, who), good,
              t.said(done), *[t.said(s) for s in steps])
    box.drop()
    t.remove_tree(path)


def two_sandboxes(place, tap, kind, ground, who, strategy):
    path = t.build_tree(place, who, BASE, below=ground, hint="shared")
    first = t.Box(place, who, strategy, name="first", dirs=[path])
    second = t.Box(place, who, strategy, name="second", dirs=[path], state=first.state)
    third = t.Box(place, who, strategy, name="third", dirs=[path], state=first.state)
    steps = [first.new(), second.new(), third.new(), first.edit([["append", "f", "one\n"], ["create", "d/one", "1", 0o644]], path),
             second.edit([["append", "f", "two\n"], ["create", "d/two", "2", 0o644]], path),
             third.edit([["create", "d/three", "3", 0o644]], path), first.commit()]
    after_first = mf.manifest(path)
    lost = second.commit()
    same = mf.manifest(path) == after_first
    merged = third.commit()
    names = mf.manifest(path)
    good = (all(s.returncode == 0 for s in steps) and lost.returncode == 3 and reports(lost, "f") and same and
            merged.returncode == 0 and b"d/one" in names and b"d/three" in names and b"d/two" not in names)
    tap.check("of two sandboxes over one directory the first commit wins and the second sees its conflicts, %s, %s, %s" %
              (kind, strategy, who), good, t.said(lost), t.said(merged), *[t.said(s) for s in steps])
    undone = first.undo()
    tap.check("undo leaves another sandbox's addition, %s, %s, %s" % (kind, strategy, who),
              undone.returncode == 0 and b"d/three" in mf.manifest(path) and b"d/one" not in mf.manifest(path), t.said(undone))
    for box in (second, third, first):
        box.rm()
    first.drop()
    t.remove_tree(path)


def instants(place, tap, kind, ground, who, repeats):
    """Written an instant before new: never a conflict. An instant after: always one."""
    path = place.fresh("instants", who, ground)
    state = place.fresh("state", who) + "/atoll"
    false, missed, other = [], [], []
    uid = place.uid(who)
    for number in range(repeats):
        for name in ("before", "after"):
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write("base %d\n" % number)
            os.chown(os.path.join(path, name), uid, uid)
        box = t.Box(place, who, None, name="n%d" % number, dirs=[path], state=state)
        with open(path + "/before", "a", encoding="ascii") as file:
            file.write("an instant before\n")
        made = box.new()
        with open(path + "/after", "a", encoding="ascii") as file:
            file.write("an instant after\n")
        edited = box.edit([["append", "before", "inside\n"], ["append", "after", "inside\n"]], path)
        part = box.commit(path + "/before")
        whole = box.commit()
        if made.returncode or edited.returncode:
            other.append(t.said(made) + t.said(edited))
        if part.returncode != 0:
            false.append("%d: %s" % (number, t.said(part)))
        if whole.returncode != 3:
            missed.append("%d: %s" % (number, t.said(whole)))
        box.rm()
        if len(false) + len(missed) + len(other) > 5:
            break
    tap.check("%d files written an instant before new are no conflicts, %s, %s" % (repeats, kind, who), not false and not other,
              *false, *other)
    tap.check("%d files written an instant after new are conflicts, %s, %s" % (repeats, kind, who), not missed and not other, *missed)
    t.remove_tree(path)


def with_itself(place, tap, kind, ground, who, strategy):
    """A sandbox never conflicts with what it committed or took back itself."""
    path = t.build_tree(place, who, BASE, below=ground, hint="itself")
    box = t.Box(place, who, strategy, dirs=[path])
    flow = [box.new()]
    for number in range(3):
        flow += [box.edit([["append", "f", "%d\n" % number], ["append", "d/in", "%d\n" % number]], path), box.commit()]
    flow += [box.edit([["append", "f", "part\n"], ["append", "other", "rest\n"], ["create", "d/x", "x", 0o644]], path),
             box.commit(path + "/f"), box.commit()]
    flow += [box.undo(), box.commit(), box.undo(), box.edit([["append", "f", "more\n"]], path), box.commit()]
    flow += [box.edit([["unlink", "f"]], path), box.commit(), box.edit([["create", "f", "again", 0o644]], path), box.commit()]
    tap.check("commit, partial commit and undo never conflict with themselves, %s, %s, %s" % (kind, strategy, who),
              all(s.returncode == 0 for s in flow), *["%d: %s" % (i, t.said(s)) for i, s in enumerate(flow) if s.returncode])
    box.drop()
    t.remove_tree(path)


def undo_checks_too(place, tap, kind, ground, who, strategy):
    template = t.build_tree(place, who, BASE, below=ground, hint="template")
    table = {"changes a landed file": (lambda d: _append(d + "/f", b"foreign\n"), 3, "f"),
             "changes a landed file keeping size and time": (lambda d: _in_place_same_size_and_time(d + "/f"), 3, "f"),
             "replaces a landed file": (lambda d: _replace(d + "/f", b"x"), 3, "f"),
             "deletes an added file": (lambda d: os.unlink(d + "/n"), 3, "n"),
             "takes the name of a deleted file": (lambda d: _append(d + "/other", b"foreign"), 3, "other"),
             "adds to an added directory": (lambda d: _append(d + "/nd/foreign", b"x"), 3, "nd"),
             "changes a file in an added directory": (lambda d: _append(d + "/nd/x", b"foreign"), 3, "nd/x"),
             "adds to a directory in an added directory": (lambda d: _append(d + "/nd/nd/foreign", b"x"), 3, "nd/nd"),
             "changes the mode of a landed file": (lambda d: os.chmod(d + "/f", 0o604), 3, "f"),
             "sets an attribute of a directory whose mode landed": (lambda d: os.setxattr(d + "/d", "user.foreign", b"1"), 3, "d"),
             "sets a default ACL of a directory whose mode landed": (lambda d: os.setxattr(d + "/d", DEFAULT, ACL_FOREIGN), 3, "d"),
             "sets an access ACL of a directory whose mode landed": (lambda d: os.setxattr(d + "/d", ACCESS, ACL_FOREIGN), 3, "d"),
             "changes the mode of a directory whose attribute landed": (lambda d: os.chmod(d + "/e", 0o711), 3, "e"),
             "changes the attribute of a directory that landed": (lambda d: os.setxattr(d + "/e", "user.inside", b"2"), 3, "e"),
             "changes the ACL of a directory that landed": (lambda d: os.setxattr(d + "/spare", ACCESS, ACL_FOREIGN), 3, "spare"),
             "sets another attribute of a directory whose ACL landed": (lambda d: os.setxattr(d + "/spare", "user.foreign", b"1"), 3, "spare"),
             "sets an attribute of a directory in which a file landed": (lambda d: os.setxattr(d + "/d/sub", "user.foreign", b"1"), 0, ""),
             "sets a default ACL of a directory in which a file landed": (lambda d: os.setxattr(d + "/d/sub", DEFAULT, ACL_FOREIGN), 0, ""),
             "adds another name": (lambda d: _append(d + "/foreign", b"x"), 0, "")}
    script = [["append", "f", "inside\n"], ["create", "n", "new\n", 0o644], ["unlink", "other"], ["mkdir", "nd", 0o755],
              ["create", "nd/x", "x", 0o644], ["mkdir", "nd/nd", 0o755], ["chmod", "d", 0o700], ["create", "d/sub/new", "x", 0o644],
              ["setxattr", "e", "user.inside", "1"], ["setxattr", "spare", ACCESS, ACL_INSIDE.decode("latin-1")]]
    found = []
    for what, (change, code, name) in table.items():
        path = place.fresh("undone", who, ground)
        subprocess.run(["cp", "-a", template + "/.", path], check=True)
        box = t.Box(place, who, strategy, dirs=[path])
        flow = [box.new(), box.edit(script, path), box.commit()]
        as_user(place, who, change)(path)
        before = mf.manifest(path)
        done = box.undo()
        if done.returncode != code or any(s.returncode for s in flow):
            found.append("%s: wanted %d: %s; %s" % (what, code, t.said(done), [t.said(s) for s in flow if s.returncode]))
        elif code == 3 and (not reports(done, name) or mf.manifest(path) != before):
            found.append("%s: not named, or something changed: %s; %s" % (what, t.said(done), mf.differences(before, mf.manifest(path))))
        elif code == 0:
            expected_now = t.build_tree(place, who, BASE, below=ground, hint="expected")
            as_user(place, who, change)(expected_now)
            found += ["%s: %s" % (what, line) for line in
                      mf.differences(mf.manifest(expected_now), mf.manifest(path), ignore=("mtime", "uid", "gid"))]
            t.remove_tree(expected_now)
        box.drop()
        t.remove_tree(path)
    tap.check("undo has the same check for foreign changes, %s, %s, %s" % (kind, strategy, who), not found, *found)
    t.remove_tree(template)


def all_named(place, tap, kind, ground, who, strategy):
    """Several conflicts at once: every one of them is named, and none that is not one."""
    path = place.fresh("many", who, ground)
    for number in range(12):
        _append("%s/file-%02d" % (path, number), b"base\n")
    t.give(path, place.uid(who))
    box = t.Box(place, who, strategy, dirs=[path])
    flow = [box.new(), box.edit([["append", "file-%02d" % n, "in\n"] for n in range(12)], path)]
    for number in range(0, 12, 2):
        _append("%s/file-%02d" % (path, number), b"foreign\n")
    done = box.commit()
    wrong = [n for n in range(12) if ((b"file-%02d" % n) in done.stderr) != (n % 2 == 0)]
    tap.check("every conflicting path is named and no other, %s, %s, %s" % (kind, strategy, who), done.returncode == 3 and not wrong,
              wrong, t.said(done), *[t.said(s) for s in flow if s.returncode])
    box.drop()
    t.remove_tree(path)


def main(place, tap):
    kinds = ("ext4", "xfs", "btrfs", "tmpfs") if place.is_root else ("here",)
    quick = {"ext4": [("user", "overlay")], "xfs": [("root", "overlay")], "btrfs": [("user", "copy_on_write"), ("root", "snapshot")],
             "tmpfs": [("root", "overlay")], "here": [("user", "overlay")]}
    for kind in kinds:
        for who in place.users():
            for strategy in ("overlay", "copy_on_write", *(("snapshot",) if kind == "btrfs" else ())):
                if not t.TORTURE and (who, strategy) not in quick[kind]:
                    continue
                ground = place.fresh("ground", who) if kind == "here" else place.mount(kind, who=who, subvolumes=strategy == "snapshot")
                if ground is None:
                    tap.skip("conflicts on %s" % kind, "it cannot be made or mounted here")
                    continue
                begin = time.monotonic()
                parts = [matrix, before_the_run, by_old_handles, held_open_at_commit, two_sandboxes, with_itself, undo_checks_too,
                         all_named]
                # Of what is known of the original one strategy differs little from another: for this one the whole is left to the torture run.
                few = strategy == "snapshot" and not t.TORTURE
                for part in [directories, *parts[-3:]] if few else parts:
                    if t.only(part.__name__ + " " + kind) or part in (matrix, directories):
                        part(place, tap, kind, ground, who, strategy)
                if t.only("instants " + kind) and not few:
                    instants(place, tap, kind, ground, who, 200 if t.TORTURE else 50)
                tap.note("%s, %s, %s: %.1f s" % (kind, strategy, who, time.monotonic() - begin))
                if kind != "here":
                    place.unmount(ground)


t.run(main)
