#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""Hard links: every name lands and comes back, no inode is reachable from both the original and the workspace, and Atoll never takes
the ctime that its own renames move for a foreign change."""
import os
import resource
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

# Name, what the original is made by, what is done inside.
CASES = [
    ("both names go, one with its directory", "mkdir d; echo 1 >d/y; ln d/y a", "rm a; rm -r d"),
    ("both names go, the directory first", "mkdir d; echo 1 >d/y; ln d/y z", "rm -r d; rm z"),
    ("one name goes with its directory, the other is replaced", "mkdir d; echo 1 >d/y; ln d/y a", "rm -r d; echo 2 >n; mv n a"),
    ("two directories that share a file go", "mkdir c d; echo 1 >c/x; ln c/x d/y", "rm -r c d"),
    ("two directories that share a file are renamed", "mkdir c d; echo 1 >c/x; ln c/x d/y", "mv c c2; mv d d2"),
    ("two directories that share a file become files", "mkdir c d; echo 1 >c/x; ln c/x d/y", "rm -r c d; echo 1 >c; echo 2 >d"),
    ("two directories that share a file are made again", "mkdir c d; echo 1 >c/x; ln c/x d/y",
     "rm -r c d; mkdir c d; echo 1 >c/x; ln c/x d/y"),
    ("a new directory shares a file with a name after it", "true", "mkdir n; echo 1 >n/f; ln n/f z"),
    ("a new directory shares a file with a name before it", "true", "mkdir n; echo 1 >n/f; ln n/f a"),
    ("two new directories share a file", "true", "mkdir m n; echo 1 >m/f; ln m/f n/f"),
    ("links come and others go", "mkdir y; echo 1 >y/f; ln y/f x", "mkdir n; echo 1 >n/f; ln n/f p; rm x; rm -r y"),
    ("a program is installed with links", "mkdir bin lib; echo o >bin/old; echo o >lib/old",
     "mkdir lib/core; echo git >bin/git; ln bin/git lib/core/add; ln bin/git lib/core/rm"),
    ("a program with links is removed", "mkdir -p bin lib/core; echo o >bin/old; echo git >bin/git; ln bin/git lib/core/add",
     "rm bin/git; rm -r lib/core"),
    ("a file gets a second name", "echo 1 >a", "ln a b"),
    ("a file with two names gets a third", "echo 1 >a; ln a b", "ln a c; ln b d"),
    ("one of two names is replaced by a link to another file", "echo 1 >a; ln a b; echo 1 >c; touch -r a c", "ln -f c b"),
    ("a name goes and another comes", "echo 1 >a; ln a b", "rm b; ln a c"),
    ("a file is changed through one name and linked anew", "echo 1 >a; ln a b", "echo 2 >>a; ln a c"),
    ("a directory of links is moved into a new one", "mkdir d; echo 1 >d/a; ln d/a d/b; ln d/a c", "mkdir e; mv d e/d; mv c e/c"),
    ("a directory is moved of which a file has a name elsewhere", "mkdir d; echo 1 >d/g; ln d/g k; ln d/g y", "mv d e"),
    ("symbolic links with two names", "true", "ln -s nowhere s; ln s t; mkdir d; ln s d/u"),
    ("a new directory shares a file and a symbolic link with names beside it", "echo 1 >j; ln -s x s; ln -P s h", "mkdir n; ln j n/a; ln -P h n/b"),
    ("symbolic links get and lose names", "ln -s x s; ln -P s h; ln -s y u", "rm s; ln -P h t; ln -P u v"),
    ("every name of a file changes its mode", "mkdir d; echo 1 >a; ln a d/b", "chmod 600 a; rm d/b; ln a d/b"),
]


def inodes(*tops):
    """(device, inode) of everything that is no directory, with a path for each."""
    found = {}
    for top in tops:
        for where, _, names in os.walk(os.fsencode(top)):
            for name in names:
                st = os.lstat(os.path.join(where, name))
                found[(st.st_dev, st.st_ino)] = os.path.join(where, name)
    return found


def workspaces(box):
    """The workspace trees of all areas below the state directory, without undo records."""
    result = []
    for where, directories, _ in os.walk(box.state):
        result += [os.path.join(where, d) for d in directories if d in ("upper", "tree")]
        directories[:] = [d for d in directories if d not in ("upper", "tree") and not d.startswith("op-")]
    return result


def shared(box, original):
    """Names of inodes that both the original and a workspace reach."""
    ours, theirs = inodes(original), inodes(*workspaces(box))
    return [(ours[i], theirs[i]) for i in set(ours) & set(theirs)]


def shell(box, script, cwd, inside=False):
    return box.run("sh", "-ec", script, cwd=cwd) if inside else box.command(["sh", "-ec", script], cwd=cwd)


def seen_inside(box, path):
    done = box.run(t.PYTHON, "-I", "-S", os.path.join(box.place.lib, "manifest.py"), path)
    if done.returncode != 0:
        return {"failed": t.said(done)}
    # The stage of a snapshot lies in the original, and is no part of the tree.
    return {name: entry for name, entry in eval(done.stdout).items() if name not in mf.HIDDEN}  # pylint: disable=eval-used


def there_and_back(tap, place, ground, who, strategy, case):
    name, setup, inside = case
    label = "%s, %s, %s" % (name, strategy, who)
    path = place.fresh("tree", who, ground)
    box = t.Box(place, who, strategy, dirs=[path], state=os.path.join(place.fresh("state", who, ground), "s"))
    shell(box, setup, path)
    before = mf.manifest(path)
    trouble = []

    def must(done, what):
        if done.returncode != 0:
            trouble.append("%s: %s" % (what, t.said(done)))

    def isolated(what):
        both = shared(box, path)
        if both:
            trouble.append("reachable from both sides %s: %s" % (what, both[:3]))

    must(box.new(), "new")
    must(shell(box, inside, path, True), "run")
    view = seen_inside(box, path)
    for turn in ("first", "second"):
        must(box.commit(), "%s commit" % turn)
        landed = mf.manifest(path)
        if landed != view:
            trouble.append("landed differs from inside: %s" % mf.differences(view, landed, 6))
        isolated("after the %s commit" % turn)
        must(box.undo(), "%s undo" % turn)
        back = mf.manifest(path)
        if back != before:
            trouble.append("undone differs from before: %s" % mf.differences(before, back, 6))
        isolated("after the %s undo" % turn)
        again = seen_inside(box, path)
        if again != view:
            trouble.append("inside differs after undo: %s" % mf.differences(view, again, 6))
    tap.check("lands, comes back and lands again: " + label, not trouble, *trouble)
    box.drop()
    t.remove_tree(path)


def timeless(manifest):
    """Without the times of directories, which stay where only a part of the changes lands."""
    return {name: {key: value for key, value in entry.items() if key != "mtime" or entry["type"] != "dir"} for name, entry in manifest.items()}


class Parts:
    """A case of which every changed path but one is committed by name."""

    def __init__(self, place, who, strategy, case):
        self.path = place.fresh("tree", who)
        self.box = t.Box(place, who, strategy, dirs=[self.path])
        shell(self.box, case[1], self.path)
        self.before = mf.manifest(self.path)
        self.box.new()
        shell(self.box, case[2] + "; echo rest >zz-rest", self.path, True)
        self.view = timeless({name: entry for name, entry in seen_inside(self.box, self.path).items() if name != b"zz-rest"})
        listed = self.box.diff("--name-status").stdout.decode().splitlines()
        self.chosen = [os.path.join(self.path, line.split("\t")[-1]) for line in listed if not line.endswith("zz-rest")]

    def side(self):
        now = mf.manifest(self.path)
        return "new" if timeless(now) == self.view else "old" if now == self.before else "neither: %s" % mf.differences(self.before, now, 6)

    def close(self):
        self.box.drop()
        t.remove_tree(self.path)


def parts_there_and_back(place, who, strategy, case):
    p = Parts(place, who, strategy, case)
    trouble = []
    for turn in ("first", "second"):
        for what, done, side in (("commit", p.box.commit(*p.chosen), "new"), ("undo", None, "old")):
            done = done or p.box.undo()
            if done.returncode == 4 and what == "commit" and turn == "first":  # a replaced directory does not land by path
                p.close()
                return []
            if done.returncode != 0 or p.side() != side:
                trouble.append("%s: %s %s: %s, %s" % (case[0], turn, what, t.said(done), p.side()))
        if shared(p.box, p.path):
            trouble.append("%s: reachable from both sides: %s" % (case[0], shared(p.box, p.path)[:3]))
    p.close()
    return trouble


def parts_cut_off(place, who, strategy, case, fault):
    """Each rename of the commit in turn fails, or is never reached."""
    trouble, number, code = [], 0, None
    while code != 0 and number < 60:
        number += 1
        p = Parts(place, who, strategy, case)
        p.box.program, p.box.counts_kills = place.faults_bin, False
        done = p.box.commit(*p.chosen, fault="%d:%s" % (number, fault), program_environment={"ATOLL_FAULT_ONLY": "rename"})
        code = done.returncode
        recovered = p.box.recover()
        if code != 4 and (recovered.returncode != 0 or p.side() not in ("old", "new") or (code == 0 and p.side() != "new")):
            trouble.append("%s, %s of rename %d: %s; %s; %s" % (case[0], fault, number, t.said(done), t.said(recovered), p.side()))
        p.close()
        if code == 4:
            break
    return trouble + (["%s: renames without end" % case[0]] if number == 60 else [])


def parts(tap, place, who, strategy):
    found = [line for lines in t.parallel(lambda case: parts_there_and_back(place, who, strategy, case), CASES) for line in lines]
    tap.check("by path: every name lands, comes back and lands again, %s, %s" % (strategy, who), not found, *found[:8])
    if strategy != "overlay" or who != "user" or not place.faults_bin:
        return
    for fault in ("EIO", "kill"):
        found = [line for lines in t.parallel(lambda case, fault=fault: parts_cut_off(place, who, strategy, case, fault), CASES) for line in lines]
        tap.check("by path: all or nothing where a rename ends with %s, %s, %s" % (fault, strategy, who), not found, *found[:8])


def by_path(tap, place, who, strategy):
    """Only one name of several lands: what is written inside afterwards stays inside."""
    path = place.fresh("tree", who)
    box = t.Box(place, who, strategy, dirs=[path])
    shell(box, "echo x >a; mkdir d; echo y >d/f", path)
    box.new()
    shell(box, "ln a e; mkdir n; ln d/f n/g; ln d/f n/h", path, True)
    first, second = box.commit(path + "/e"), box.commit(path + "/n")
    linked = os.stat(path + "/n/g").st_ino == os.stat(path + "/n/h").st_ino
    both = shared(box, path)
    shell(box, "echo not committed >a; echo not committed >d/f", path, True)
    content = [open(path + "/" + name, encoding="utf-8").read() for name in ("a", "e", "d/f", "n/g", "n/h")]
    tap.check("one name lands by path and nothing written inside later reaches it, %s, %s" % (strategy, who),
              first.returncode == 0 and second.returncode == 0 and not both and content == ["x\n", "x\n", "y\n", "y\n", "y\n"],
              content, both, t.said(first), t.said(second))
    tap.check("names that land together stay one file, %s, %s" % (strategy, who), linked)
    rest, back = box.commit(), [box.undo() for _ in range(3)]
    left = sorted(os.listdir(path))
    tap.check("the rest lands too, and all three commits can be taken back, %s, %s" % (strategy, who),
              rest.returncode == 0 and all(b.returncode == 0 for b in back) and left == ["a", "d"] and
              open(path + "/a", encoding="utf-8").read() == "x\n", left, t.said(rest), *map(t.said, back))
    box.drop()


def removed_after_by_path(tap, place, who, strategy):
    """The undo data of a commit by path has a name of a file that a command inside goes on writing
    to: that is no work of another process."""
    path = place.fresh("tree", who)
    box = t.Box(place, who, strategy, dirs=[path])
    shell(box, "echo x >a", path)
    box.new()
    shell(box, "ln a e", path, True)
    commit = box.commit(path + "/e")
    shell(box, "echo not committed >a", path, True)
    rolled, removed = box.rollback(), box.rm()
    tap.check("a sandbox can be removed after edits by the other name were dropped, %s, %s" % (strategy, who),
              commit.returncode == rolled.returncode == removed.returncode == 0, t.said(commit), t.said(rolled),
              t.said(removed))
    box.drop()


def noted(tap, place, who, strategy):
    """The note about names that keep the old content counts the names that this commit leaves
    alone, also those that were changed inside."""
    path = place.fresh("tree", who)
    box = t.Box(place, who, strategy, dirs=[path])
    shell(box, "echo x >a; ln a b; ln a c", path)
    box.new()
    shell(box, "echo more >>a; rm b; ln a b", path, True)
    one = box.commit("--dry-run", path + "/a")
    both = box.commit("--dry-run", path + "/a", path + "/b")
    notes = [[line for line in done.stdout.decode().splitlines() if "names" in line] for done in (one, both)]
    note = "%s: has 3 names, %d of them outside the change; those keep the old content"
    tap.check("a commit by path notes the names that it leaves alone, and only for what it lands, %s, %s" %
              (strategy, who),
              one.returncode == both.returncode == 0 and [len(lines) for lines in notes] == [1, 2] and
              all(note % ("a", 2) in line for line in notes[0]) and note % ("a", 1) in notes[1][0] and
              note % ("b", 1) in notes[1][1],
              t.said(one), t.said(both))
    box.drop()


def noted_again(tap, place, who, strategy):
    """A name that came back by an undo counts as a name of the original, and a name that the undo record of a commit
    holds does not."""
    path = place.fresh("tree", who)
    box = t.Box(place, who, strategy, dirs=[path])
    shell(box, "echo x >a; ln a b; ln a c", path)
    box.new()
    note, trouble = "%s: has %d names, %d of them outside the change; those keep the old content", []

    def edit(name):
        done = shell(box, "cp -p %s n; echo more >>n; mv n %s" % (name, name), path, True)
        trouble.extend([t.said(done)] if done.returncode else [])

    def lands(name, names, outside, *, undone=False):
        for arguments in (("--dry-run",), ()):
            done = box.commit(*arguments, path + "/" + name)
            lines = [line for line in done.stdout.decode().splitlines() if " names, " in line]
            wanted = ["note: " + note % (name, names, outside)] if names else []
            if done.returncode or lines != wanted:
                trouble.append("%s%s: %s is not %s: %s" % (name, " again" if undone else "", lines, wanted, t.said(done)))

    def undo():
        done = box.undo()
        trouble.extend([t.said(done)] if done.returncode else [])

    edit("a")
    lands("a", 3, 2)
    for _ in range(2):
        undo()
        lands("a", 3, 2, undone=True)
    edit("b")
    lands("b", 2, 1)
    undo()
    lands("b", 2, 1, undone=True)
    edit("c")
    lands("c", 0, 0)
    undo()
    undo()
    lands("b", 2, 1, undone=True)
    tap.check("the note about other names is the same after an undo, and leaves out names in undo records, %s, %s" % (strategy, who),
              not trouble, *trouble)
    box.drop()


LISTED = """
import os, struct
ids = [(1, 7, -1), (2, 6, 54322), (4, 4, -1), (16, 7, -1), (32, 4, -1)]
value = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in ids)
os.setxattr(".", "system.posix_acl_default", value)
"""


def caller_killed(tap, place, strategy):
    """The default ACL names a user whom the user namespace does not map, so that the process that does the work asks
    its caller for the ACL of each file. The caller alone is killed while it answers. Each file has a second name,
    and the rename of one moves the ctime of both: all or nothing all the same."""
    found, number, code, hits = [], 0, None, 0
    while code != 0 and number < 40:
        number += 1
        path = place.fresh("tree", "user")
        box = t.Box(place, "user", strategy, dirs=[path], program=place.faults_bin)
        box.counts_kills = False
        box.command([t.PYTHON, "-c", LISTED], cwd=path)
        shell(box, "for i in 1 2 3; do echo old >f$i; ln f$i m$i; done", path)
        before = mf.manifest(path)
        box.new()
        shell(box, "for i in 1 2 3; do echo new >t; mv t f$i; rm m$i; done", path, True)
        box.commit()
        after = mf.manifest(path)
        done = box.undo(fault="%d:kill" % number, program_environment={"ATOLL_FAULT_ONLY": "sys_write"})
        code = done.returncode
        hits += code == -9
        recovered = box.recover("--wait=10")
        now = mf.manifest(path)
        if recovered.returncode != 0 or now not in (before, after) or (code == 0 and now != before):
            found.append("write %d: %s; %s; %s" % (number, t.said(done), t.said(recovered),
                                                   mf.differences(before, now, 4)))
        box.drop()
    tap.check("all or nothing where the caller of an undo is killed while it reads ACLs, %s" % strategy,
              not found and code == 0 and hits > 3, hits, *found[:6])


CHAIN = """
import os
for i in range(%d):
    os.mkdir("d%%05d" %% i)
    open("d%%05d/f" %% i, "w").close()
    if i:
        os.link("d%%05d/f" %% i, "d%%05d/g" %% (i - 1))
open("stays", "w").close()
os.link("stays", "d%%05d/h" %% i)
"""


def chained(tap, place, who):
    """Directories of which each holds a name of a file in the next one, and only the last one a
    name of a file that stays inside: all are copied, and the time to find that out grows with their
    number, not with its square."""
    used, found = [], []
    for count in (300, 1200):
        path = place.fresh("tree", who)
        box = t.Box(place, who, "overlay", dirs=[path])
        box.new()
        made = box.run(t.PYTHON, "-c", CHAIN % count, cwd=path)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = box.commit(*["%s/d%05d" % (path, i) for i in range(count)])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(after.ru_utime - before.ru_utime)
        found += [t.said(d)[:300] for d in (made, done) if d.returncode] + shared(box, path)
        found += [str(i) for i in range(1, count) if not os.path.samefile("%s/d%05d/f" % (path, i),
                                                                          "%s/d%05d/g" % (path, i - 1))]
        box.drop()
    tap.check("directories that are chained by hard links land by path as copies, in linear time, %s" % who,
              not found and
              used[1] < 12 * max(used[0], 0.05), used, *found[:8])


def copied_together(tap, place, who):
    """A directory is copied because of one file in it; the other files in it have names elsewhere that land with it."""
    path = place.fresh("tree", who)
    box = t.Box(place, who, "overlay", dirs=[path])
    shell(box, "echo 1 >stays; mkdir k", path)
    box.new()
    shell(box, "mkdir n m; ln stays n/shared; echo 2 >n/f; ln n/f m/f; echo 3 >m/g; ln m/g k/g", path, True)
    done = box.commit(path + "/n", path + "/m", path + "/k")
    linked = os.stat(path + "/n/f").st_ino == os.stat(path + "/m/f").st_ino and os.stat(path + "/m/g").st_ino == os.stat(path + "/k/g").st_ino
    back = box.undo()
    tap.check("what a copied directory shares with others stays one file, %s" % who, done.returncode == 0 and linked and
              not shared(box, path) and back.returncode == 0 and sorted(os.listdir(path)) == ["k", "stays"], t.said(done), t.said(back))
    box.drop()


def one_file(tap, place, who):
    path = place.fresh("tree", who)
    box = t.Box(place, who, files=[path + "/a"])
    shell(box, "echo x >a", path)
    box.new()
    shell(box, "echo y >a; ln a a.bak", path, True)
    done = box.commit()
    shell(box, "echo not committed >a.bak", path, True)
    text = open(path + "/a", encoding="utf-8").read()
    tap.check("a link beside a file resource does not lead to the original, %s" % who, done.returncode == 0 and text == "y\n" and
              not shared(box, path), text, t.said(done))
    box.drop()


def landed_once(tap, place, who, strategy):
    """Of a file resource, one name lands. The other names of its file stay inside: that is no change, and no further commit lands it."""
    for name, setup, inside, text in (
            ("a name of the original", "echo x >a; ln a b", "echo y >>a", "x\ny\n"),
            ("a new name", "echo x >a", "echo y >>a; ln a c", "x\ny\n"),
            ("a new name of an unchanged file", "echo x >a; ln a b", "ln a c", "x\n")):
        path = place.fresh("tree", who)
        box = t.Box(place, who, strategy, files=[path + "/a"])
        shell(box, setup, path)
        before = timeless(mf.manifest(path))
        box.new()
        shell(box, inside, path, True)
        listed = box.diff("--name-status").stdout
        first = box.commit()
        landed, left = mf.manifest(path), box.diff("--name-status").stdout.split(b"\n")
        again = [box.commit() for _ in range(2)]
        quiet = mf.manifest(path) == landed and not any(b"metadata" in done.stdout for done in again)
        both = shared(box, path)
        back = box.undo() if b"M\t" in listed else None
        tap.check("a file with a name beside it lands once, and its undo is that of the edit: %s, %s, %s" % (name, strategy, who),
                  all(done.returncode == 0 for done in [first] + again) and (not back or back.returncode == 0) and quiet and
                  content(path + "/a") == "x\n" and landed[b"a"]["size"] == len(text) and timeless(mf.manifest(path)) == before and
                  not both and all(not line or line.startswith(b"S\t") for line in left),
                  listed, left, both, t.said(first), *map(t.said, again), *([t.said(back)] if back else []))
        box.drop()


def listed_once(tap, place, who, strategy):
    """Two files of one directory have one workspace: an edit beside them is listed, and counted, once."""
    path = place.fresh("tree", who)
    box = t.Box(place, who, strategy, files=[path + "/a", path + "/b"])
    shell(box, "echo x >a; echo y >b", path)
    box.new()
    shell(box, "ln a c; echo z >>b", path, True)
    listed = box.diff("--name-status").stdout.decode().splitlines()
    done, removed = box.commit(), box.atoll("rm", box.name)
    tap.check("an edit beside two file resources is listed once, %s, %s" % (strategy, who),
              [line.rsplit("/", 1)[-1].split("\t")[-1] for line in listed] == ["c", "b"] and done.returncode == 0 and
              done.stdout.count(b"skipped: ") == 1 and removed.returncode == 4 and b" 1 undecided change;" in removed.stderr,
              listed, t.said(done), t.said(removed))
    box.drop()


def landed_by_path(tap, place, who, strategy, ground):
    """One name of a file lands by path; what differs afterwards is that the other name is another file. By itself that does not land."""
    path = place.fresh("tree", who, ground)
    box = t.Box(place, who, strategy, dirs=[path])
    shell(box, "mkdir d; echo x >d/a; ln d/a b; echo x >d/f", path)
    before = mf.manifest(path)
    box.new()
    shell(box, "echo y >>b; ln -f b d/a", path, True)
    done = [box.commit(path + "/d/a")]
    landed = mf.manifest(path)
    shell(box, "echo y >>d/f", path, True)
    if strategy != "overlay":  # in an overlay the name that has landed is the original's again, and no change
        done.append(box.commit(path + "/d/a"))
    alone = mf.manifest(path) == landed
    done.append(box.commit(path + "/d"))
    two = not os.path.samefile(path + "/d/a", path + "/b") and content(path + "/d/f") == "x\ny\n"
    both = shared(box, path)
    done += [box.undo(), box.undo()]
    undone = mf.differences(before, mf.manifest(path))
    done.append(box.commit())
    tap.check("a name that has landed by path does not land again without the other names, %s, %s" % (strategy, who),
              all(d.returncode == 0 for d in done) and alone and two and not both and not undone and
              os.path.samefile(path + "/d/a", path + "/b"), alone, two, both, undone, *map(t.said, done))
    box.drop()


def database_link(tap, place, who):
    path = place.fresh("tree", who)
    box = t.Box(place, who, dirs=[path])
    box.command(["sqlite3", path + "/x.db", "CREATE TABLE t(a); INSERT INTO t VALUES(1)"])
    made = box.new("--db", "sqlite:" + path + "/x.db")
    run = shell(box, "sqlite3 x.db 'INSERT INTO t VALUES(2)'; ln x.db copy.db", path, True)
    done = box.commit()
    both = shared(box, path)
    shell(box, "sqlite3 x.db 'INSERT INTO t VALUES(3)'", path, True)
    rows = box.command(["sqlite3", path + "/copy.db", "SELECT count(*) FROM t"]).stdout
    tap.check("a link to a database of the sandbox does not lead to the original, %s" % who, made.returncode == run.returncode ==
              done.returncode == 0 and rows == b"2\n" and not both, rows, both, t.said(made), t.said(run), t.said(done))
    box.drop()


def chains(tap, place, who, strategy):
    """Several commits over the names of one file, by the same sandbox: no commit or undo conflicts with an earlier one."""
    path = place.fresh("tree", who)
    box = t.Box(place, who, strategy, dirs=[path])
    shell(box, "echo 1 >a; ln a b; mkdir d; ln a d/c", path)
    before = mf.manifest(path)
    box.new()
    done, states = [], []
    for script, paths in (("rm a", []), ("echo 2 >>b", []), ("echo 3 >>d/c; echo n >n; ln n m", ["d/c"]), ("rm d/c b", []), ("ln n d/k", [])):
        done.append(shell(box, script, path, True))
        states.append(mf.manifest(path))
        done.append(box.commit(*[path + "/" + p for p in paths]))
    back = []
    for state in reversed(states):
        done.append(box.undo())
        back += mf.differences(state, mf.manifest(path), 4)
    tap.check("commits over the names of one file never conflict with each other, %s, %s" % (strategy, who),
              all(d.returncode == 0 for d in done) and not back and mf.manifest(path) == before, *back,
              *[t.said(d) for d in done if d.returncode != 0])
    box.drop()


def foreign(tap, place, who, strategy):
    """A foreign change to one name is one to all of them, and is still found among our own renames."""
    for name, change in (("mode", "chmod 600 b"), ("content", "echo foreign >>b"), ("a further link", "ln b c"),
                         ("an attribute", t.PYTHON + " -c 'import os; os.setxattr(\"b\", \"user.f\", b\"1\")'")):
        path = place.fresh("tree", who)
        box = t.Box(place, who, strategy, dirs=[path])
        shell(box, "echo 1 >a; ln a b; mkdir d; ln a d/e", path)
        box.new()
        shell(box, "rm a; rm -r d", path, True)
        shell(box, change, path)
        before = mf.manifest(path)
        done = box.commit()
        tap.check("a foreign change by another name is a conflict: %s, %s, %s" % (name, strategy, who), done.returncode == 3 and
                  mf.manifest(path) == before, t.said(done), mf.differences(before, mf.manifest(path)))
        box.drop()


def nothing_done(tap, place, who, strategy):
    """What another process does to the names of a file is no change of a sandbox that did nothing."""
    for name, change in (("replaced", "echo new >n; mv n h"), ("removed", "rm h"), ("linked again", "ln b i")):
        path = place.fresh("tree", who)
        box = t.Box(place, who, strategy, dirs=[path])
        shell(box, "echo 1 >b; ln b h", path)
        box.new()
        box.run("true")
        shell(box, change, path)
        diff, done = box.diff("--name-status"), box.commit()
        tap.check("a foreign change of links is no change of the sandbox: %s, %s, %s" % (name, strategy, who), not diff.stdout and
                  done.returncode == 0, t.said(diff), t.said(done))
        box.drop()


def content(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def another_name(tap, place, who, strategy, ground):
    """A directory is moved inside, and landed; it is moved once more, and another process has done something to a name elsewhere of its file."""
    for name, change, now in (("removed", "rm top", None), ("replaced", "echo foreign >n; mv n top", "foreign\n"),
                              ("written to", "echo foreign >>top", "1\nforeign\n")):
        path = place.fresh("tree", who, ground)
        box = t.Box(place, who, strategy, dirs=[path])
        shell(box, "mkdir d; echo 1 >d/f; ln d/f top", path)
        box.new()
        shell(box, "mv d e", path, True)
        first = box.commit(path + "/d", path + "/e")
        shell(box, change, path)
        shell(box, "mv e g", path, True)
        listed, done = box.diff("--name-status").stdout.decode(), box.commit()
        top, moved = content(path + "/top"), content(path + "/g/f")
        tap.check("another name of a file in a moved directory is left alone: %s, %s, %s" % (name, strategy, who),
                  first.returncode == done.returncode == 0 and "top" not in listed and top == now and moved == "1\n",
                  t.said(first), listed, t.said(done), top)
        box.drop()


def delayed(tap, place, strategy, inside, what, undo=False):
    """A foreign metadata change between Atoll's last look and its rename: the rename is taken back and the change reported. strace delays the
    rename, which is just scheduling."""
    changes = [("an attribute", t.PYTHON + " -c 'import os; os.setxattr(\"f\", \"user.foreign\", b\"1\")'"), ("a link", "ln f g"), ("the mode", "chmod 600 f"),
               ("a newer version, and another one", "echo A >t1; mv t1 f; sleep 1; echo B >t2; mv t2 f")]
    stood = "new\n" if undo else "old\n"
    for name, change in changes:
        path = place.fresh("tree")
        box = t.Box(place, "root", strategy, dirs=[path])
        shell(box, "echo old >f", path)
        box.new()
        shell(box, inside, path, True)
        view = seen_inside(box, path)
        if undo:
            box.commit()
        trace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=renameat2", "-e",
                 "inject=renameat2:delay_enter=1200000:when=1..2", box.program, "undo" if undo else "commit", box.name]
        process = subprocess.Popen(trace, env=box.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        late = box.command(["sh", "-c", "sleep 0.6; " + change], cwd=path)
        output = process.communicate()
        after = open(path + "/f", encoding="utf-8").read() if os.path.exists(path + "/f") else None
        kept = {"an attribute": after == stood and os.listxattr(path + "/f") == ["user.foreign"],
                "a link": after == stood and os.path.exists(path + "/g") and os.stat(path + "/f").st_nlink == 2,
                "the mode": after == stood and os.stat(path + "/f").st_mode & 0o777 == 0o600,
                "a newer version, and another one": after == "B\n"}[name]
        tap.check("a file that is %s while another process changes it: %s, %s" % (what, name, strategy),
                  late.returncode == 0 and process.returncode in (3, 7) and kept and
                  (undo or inside == "rm f" or
                   seen_inside(box, path).get(b"f", {}).get("sha256") == view[b"f"]["sha256"]),
                  process.returncode, output, after)
        box.drop()


def main(place, tap):
    btrfs = place.mount("btrfs", subvolumes=True) if place.is_root else None
    if not btrfs:
        tap.skip("hard links, snapshot", "a btrfs cannot be made or mounted here")
    for who in place.users():
        grounds = [("overlay", None), ("copy_on_write", None)] + ([("snapshot", btrfs)] if btrfs and who == "root" else [])
        for strategy, ground in grounds:
            for case in CASES:
                there_and_back(tap, place, ground, who, strategy, case)
            another_name(tap, place, who, strategy, ground)
            landed_by_path(tap, place, who, strategy, ground)
        for strategy in ("overlay", "copy_on_write"):
            by_path(tap, place, who, strategy)
            removed_after_by_path(tap, place, who, strategy)
            noted(tap, place, who, strategy)
            noted_again(tap, place, who, strategy)
            parts(tap, place, who, strategy)
            chains(tap, place, who, strategy)
            foreign(tap, place, who, strategy)
            nothing_done(tap, place, who, strategy)
            landed_once(tap, place, who, strategy)
            listed_once(tap, place, who, strategy)
        if who == "user" and place.faults_bin:
            caller_killed(tap, place, "overlay")
            caller_killed(tap, place, "copy_on_write")
        chained(tap, place, who)
        copied_together(tap, place, who)
        one_file(tap, place, who)
        database_link(tap, place, who)
    if place.is_root:
        t.parallel(lambda case: delayed(tap, place, *case), [
            ("overlay", "echo new >f", "replaced"), ("overlay", "rm f", "removed"),
            ("copy_on_write", "echo new >f", "replaced"),
            ("overlay", "echo new >f", "put back by an undo", True),
            ("copy_on_write", "echo new >f", "put back by an undo", True)], 5)


t.run(main)
