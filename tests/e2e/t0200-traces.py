#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""What the operations do to the file system, call by call: in which order, what they list and read, which names come and go."""
import collections
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import straced  # noqa: E402

SIZE = 65536
TREE = [["mkdir", "still", 0o755], ["mkdir", "still/deep", 0o755], ["mkdir", "busy", 0o755]] + \
    [["create", "%s/f%d" % (d, i), "x" * SIZE, 0o644] for d in ("still", "still/deep", "busy") for i in range(4)] + \
    [["create", "gone", "gone", 0o644]]
EDIT = [["append", "busy/f0", "more"], ["chmod", "busy/f1", 0o600], ["unlink", "gone"], ["mkdir", "made", 0o755],
        ["mkdir", "made/in", 0o755], ["create", "made/in/a", "y" * SIZE, 0o644], ["create", "single", "z" * SIZE, 0o644]]
CANDIDATES = {"busy/f0", "busy/f1", "made/in/a", "single"}  # content that a commit may have to look at


class Scene:
    """Three directories, in this order: an outer one, one beside it, one inside it."""

    def __init__(self, place, who, strategy):
        top = place.fresh("top", who)
        self.outer = t.build_tree(place, who, TREE, below=top, hint="outer")
        self.beside = t.build_tree(place, who, TREE, below=top, hint="beside")
        self.inner = t.build_tree(place, who, TREE, below=self.outer, hint="inner")
        self.top = top
        self.dirs = [self.outer, self.beside, self.inner]
        self.box = t.Box(place, who, strategy, dirs=self.dirs)
        self.calls = []
        self.problems = []

    def must(self, done):
        if done.returncode != 0:
            self.problems.append(t.said(done))

    def edit(self):
        names = [os.path.relpath(path, self.top) for path in self.dirs]
        self.must(self.box.edit([[what, name + "/" + path, *rest] for name in names for what, path, *rest in EDIT], self.top))

    def trace(self, command):
        done, calls = straced.trace(self.box, command, self.box.name)
        self.must(done)
        self.calls += calls
        return calls

    def is_original(self, path):
        return t.is_below(path, self.top)

    def where(self, path):
        """The directory and the path in it, innermost first."""
        for top in (self.inner, self.outer, self.beside):
            if t.is_below(path, top):
                return top, os.path.relpath(path, top)
        return None


def entries_moved(scene, calls):
    """The entries of originals that renames put in place or took away, in order."""
    return [path for c in calls if c.name == "renameat2" and c.done for path in c.paths[:2] if scene.is_original(path)]


def in_order(items):
    return list(dict.fromkeys(items))


def workspaces_dropped(calls):
    """Sequence numbers of the resources whose workspaces were put aside."""
    found = [re.search(r"/(\d+)/trash/", c.paths[1]) for c in calls if c.name == "renameat2" and c.done]
    return in_order(int(m[1]) for m in found if m)


def check_order(scene, tap, label, commit, undo, rollback):
    there, back = entries_moved(scene, commit), entries_moved(scene, undo)
    tap.check("undo goes back in exact reverse of the order in which the commit landed, %s" % label,
              len(there) == 5 * len(scene.dirs) and back == there[::-1], "commit:", *there, "undo:", *back)
    tap.check("inner directories land before outer ones, %s" % label,
              in_order(scene.where(p)[0] for p in there) == [scene.inner, scene.outer, scene.beside], *there)
    dropped = workspaces_dropped(rollback)
    tap.check("a rollback goes from outer to inner directories, %s" % label, dropped == [2, 1, 3], dropped)


def listings(calls):
    """How often each directory was listed to its end. A name that is renamed stands for another directory from then on."""
    counts, generation = collections.Counter(), collections.Counter()
    for c in calls:
        if c.name == "renameat2" and c.done:
            generation.update(c.paths[:2])
        elif c.name == "getdents64" and c.value == 0:
            counts[c.paths[0], generation[c.paths[0]]] += 1
    return counts


def check_walks(scene, tap, label, commit):
    """What was there before is listed once in the workspace and never in the original; what is new may be listed again to be staged."""
    counts = {path: n for (path, _), n in listings(commit).items() if "/locks" not in path}
    made = {path: n for path, n in counts.items() if "/made" in path or "/op-" in path}
    rest = {path: n for path, n in counts.items() if path not in made}
    tap.check("a commit lists each directory of a workspace once, and none of an original, %s" % label,
              rest and max(rest.values()) == 1 and not any(map(scene.is_original, rest)), *sorted(rest.items()))
    tap.check("a commit lists a new directory at most twice, %s" % label, made and max(made.values()) <= 2, *sorted(made.items()))
    opened = collections.Counter(c.opened for c in commit if c.name in ("openat", "openat2") and c.done and "O_DIRECTORY" in c.text and
                                 "O_PATH" not in c.text and "/still" in (c.opened or ""))
    tap.check("a commit opens a directory in which nothing was changed at most once, %s" % label,
              max(opened.values(), default=0) <= 1, opened)


def bytes_read(scene, calls):
    """Of each file of originals and workspaces."""
    counts = collections.Counter()
    for c in calls:
        if c.name in ("read", "pread64", "readv", "preadv", "copy_file_range", "sendfile", "splice", "mmap") and c.done and c.paths:
            size = int(c.text.split(", ")[1]) if c.name == "mmap" else c.value
            source = c.paths[1] if c.name == "sendfile" else c.paths[0]
            if scene.is_original(source) or re.search(r"/boxes/[^/]*/\d+/(tree|upper)/", source):
                counts[source] += size
    return counts


def check_reading(scene, tap, label, name, calls):
    counts = bytes_read(scene, calls)
    others = {path: n for path, n in counts.items() if not any(path.endswith("/" + c) for c in CANDIDATES)}
    tap.check("%s reads no file that was not changed, %s" % (name, label), not others, others)
    tap.check("%s reads of what was changed at most its size twice, %s" % (name, label),
              sum(counts.values()) <= 2 * (SIZE + 4) * len(CANDIDATES) * len(scene.dirs), sum(counts.values()), counts)


def check_names(scene, tap, label):
    """Over all operations of the sandbox's life. The database's own files are SQLite's."""
    gone, again, touched, moved = set(), [], [], []
    for c in scene.calls:
        if "atoll.db" in c.text:
            continue
        if c.removes():
            gone.add(c.removes())
        if c.creates() in gone:
            again.append(c)
        if any(map(scene.is_original, c.paths)):
            if c.removes() or (c.creates() and not c.name.startswith("rename")):
                touched.append(c)
            if c.name == "renameat2" and c.done and all(map(scene.is_original, c.paths[:2])):
                moved.append(c)
    tap.check("no name is made again after it was removed, %s" % label, gone and not again, *again[:8])
    tap.check("in an original nothing is made or removed, but renamed from or into a private directory, %s" % label,
              not touched and not moved, *touched[:8], *moved[:8])


def check_registry(tap, label, name, calls):
    opened = [c for c in calls if c.name == "openat" and c.done and c.paths[0].endswith("/atoll.db")]
    tap.check("%s opens the registry once, %s" % (name, label), len(opened) == 1, *opened)


def check_new(place, tap, who):
    """Whose the tree is, is told by its directories and the names in them; no file is opened for that, and for root nothing."""
    path = t.build_tree(place, who, TREE)
    box = t.Box(place, who, dirs=[path])
    done, calls = straced.trace(box, "new", box.name, "--dir", path)
    below = [c for c in calls if c.name in ("openat", "openat2") and any(p != path and t.is_below(p, path) for p in c.paths)]
    if who != "root":
        below = [c for c in below if "O_DIRECTORY" not in str(c)]
    tap.check("new opens %s of what is in the directory, %s" % ("nothing" if who == "root" else "no file", who),
              done.returncode == 0 and not below, t.said(done), *below[:8])
    box.drop()
    if place.is_root:
        os.chown(os.path.join(path, "gone"), 0, 0)
        box = t.Box(place, who, dirs=[path])
        done = box.new("--json")
        tap.check("new finds at the top what belongs to somebody else, %s" % who, done.returncode == 0 and
                  b'gone\\" belongs to a user or group that the namespace cannot map' in done.stdout, t.said(done))
        box.drop()
    t.remove_tree(path)


def life(place, tap, who, strategy):
    scene = Scene(place, who, strategy)
    label = "%s, %s" % (strategy, who)
    scene.must(scene.box.new())
    scene.edit()
    diff = scene.trace("diff")
    commit = scene.trace("commit")
    undo = scene.trace("undo")
    scene.trace("commit")
    scene.must(scene.box.rollback("--landed"))
    scene.edit()
    rollback = scene.trace("rollback")
    tap.check("every operation succeeds under strace, %s" % label, not scene.problems, *scene.problems)
    check_order(scene, tap, label, commit, undo, rollback)
    check_walks(scene, tap, label, commit)
    check_reading(scene, tap, label, "diff", diff)
    check_reading(scene, tap, label, "commit", commit)
    check_names(scene, tap, label)
    for name, calls in (("commit", commit), ("undo", undo), ("rollback", rollback)):
        check_registry(tap, label, name, calls)
    scene.box.drop()
    t.remove_tree(scene.top)


def main(place, tap):
    for strategy in ("overlay", "copy_on_write"):
        life(place, tap, "user", strategy)
    check_new(place, tap, "user")


t.run(main)
