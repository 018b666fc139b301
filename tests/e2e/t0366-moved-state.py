#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""A state directory that was moved: its sandboxes, their edits and their undo data are found where it is now. One that was moved and then copied:
an area outside of it has one owner at every instant, and the other registry neither uses nor removes it."""
import glob
import os
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

BASE = [["create", "a", "1\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/b", "1\n", 0o644], ["stamp_all", 1000000000]]


def read(*parts):
    with open(os.path.join(*parts), encoding="ascii") as file:
        return file.read()


def move(box):
    """Moves the state directory, and lets the box use it at its new place."""
    moved = box.state + "-moved"
    os.rename(box.state, moved)
    box.state = box.environment["ATOLL_STATE_DIR"] = moved


def moved(place, tap, who, strategy, as_file):
    tail = "%s, %s, %s" % ("a file" if as_file else "a directory", strategy, who)
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, dirs=[] if as_file else [path], files=[path + "/a"] if as_file else [])
    made = [box.new(), box.run("sh", "-c", "echo 2 > a", cwd=path), box.commit(), box.run("sh", "-c", "echo 3 > a", cwd=path)]
    move(box)
    diff = box.diff("--name-status")
    commit = box.commit()
    tap.check("edits are there after the state directory was moved, and land, %s" % tail,
              all(done.returncode == 0 for done in made) and b"M\ta" in diff.stdout and commit.returncode == 0 and read(path, "a") == "3\n",
              *[t.said(done) for done in made], t.said(diff), t.said(commit))
    first = box.undo()
    move(box)
    then = read(path, "a")
    second = box.undo()
    tap.check("commits made before and after can be taken back, after a second move, too, %s" % tail,
              first.returncode == 0 and then == "2\n" and second.returncode == 0 and read(path, "a") == "1\n", t.said(first), t.said(second))
    gone = box.rm()
    left = [name for _, names, files in os.walk(box.state + "/boxes") for name in names + files]
    tap.check("and the sandbox leaves nothing when it is removed, %s" % tail, gone.returncode == 0 and not left, t.said(gone), left)
    box.drop()
    t.remove_tree(path)


def put_back_in_place(place, tap, who, strategy):
    """A backup is copied over the content of the state directory itself, so that nothing tells the
    registry that it is older than the originals."""
    tail = "%s, %s" % (strategy, who)
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, dirs=[path])
    made = [box.new(), box.run("sh", "-c", "echo 2 > a", cwd=path), box.commit()]
    backup = place.fresh("backup")
    subprocess.run(["cp", "-a", box.state + "/.", backup], check=True)
    made += [box.undo(), box.rollback(), box.run("sh", "-c", "echo 9 > d/b", cwd=path), box.commit()]
    subprocess.run(["find", box.state, "-mindepth", "1", "-delete"], check=True)
    subprocess.run(["cp", "-a", backup + "/.", box.state], check=True)
    done = [box.undo(), box.rollback("--landed"), box.diff(), box.commit()]
    tap.check("after a backup was put back in place nothing newer is overwritten, %s" % tail,
              all(m.returncode == 0 for m in made) and
              all(d.returncode in (0, 3, 4) for d in done) and
              done[0].returncode == (4 if strategy == "overlay" else 3) and read(path, "a") == "1\n" and
              read(path, "d/b") == "9\n",
              *map(t.said, made), *map(t.said, done), read(path, "a"), read(path, "d/b"))
    gone = box.rm()
    tap.check("and the sandbox can be removed, %s" % tail, gone.returncode == 0, t.said(gone))
    box.drop()
    t.remove_tree(path)


# ---- copies that lack something ----


COPIES = (("tar", "tar -C %s -cf - . | tar -C %s -xpf -"),
          ("cp without times", "cp -dR --preserve=mode,ownership,xattr,links %s/. %s"),
          ("cp without links", "cp -PR --preserve=mode,ownership,xattr,timestamps %s/. %s"),
          ("tar with attributes", "tar -C %s --xattrs --xattrs-include=\\* -cf - . | tar -C %s --xattrs --xattrs-include=\\* -xpf -"),
          ("cp -a", "cp -a %s/. %s"))


def incomplete(place, tap, who, strategy, how, command):
    """A copy without attributes, times or links would lack edits, and have some that no command
    made: it is not adopted unasked."""
    tail = "%s, %s, %s" % (how, strategy, who)
    path = t.build_tree(place, who, BASE)
    os.setxattr(path + "/a", "user.k", b"v")
    box = t.Box(place, who, strategy, dirs=[path])
    made = [box.new(), box.run("sh", "-c", "rm -r d; mkdir d; echo 2 > d/new", cwd=path)]
    before = box.diff("--name-status")
    copy = t.Box(place, who, strategy, state=os.path.join(place.fresh("state", who), "atoll"))
    os.mkdir(copy.state, 0o700)
    os.chown(copy.state, place.uid(who), place.uid(who))
    subprocess.run(["sh", "-c", command % (box.state, copy.state)], check=True)
    t.remove_tree(box.state)
    whole = how in ("cp -a", "tar with attributes")
    adopt = copy.recover("--adopt")
    if whole:
        diff = copy.diff("--name-status")
        tap.check("a copy that has kept everything is adopted, and has the same edits, %s" % tail,
                  not any(d.returncode for d in made) and adopt.returncode == 0 and diff.stdout == before.stdout,
                  t.said(adopt), t.said(diff),
                  t.said(before))
    else:
        commit, accepted, later = copy.commit(), copy.recover("--adopt", "--accept-incomplete"), copy.diff()
        tap.check("a copy that has lost something is refused, until it is taken as it is, %s" % tail,
                  not any(d.returncode for d in made) and adopt.returncode == 4 and
                  b"--accept-incomplete" in adopt.stderr and
                  commit.returncode == 4 and os.getxattr(path + "/a", "user.k") == b"v" and
                  read(path, "d/b") == "1\n" and
                  accepted.returncode == 0 and later.returncode == 0, t.said(adopt), t.said(commit), t.said(accepted),
                  t.said(later))
    copy.drop()
    box.drop()
    t.remove_tree(path)


def undone(place, tap, who, strategy, command):
    """The undo data of a copy has other inodes: where they are needed undo says so, and leaves everything as it is."""
    tail = "%s, %s, %s" % (command, strategy, who)
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, dirs=[path])
    made = [box.new(), box.run("sh", "-c", "echo 2 > a; " + command, cwd=path), box.commit()]
    landed = box.command(["find", ".", "-printf", "%P %m %s\n"], cwd=path).stdout
    copy = t.Box(place, who, state=box.state + "-copy")
    subprocess.run(["cp", "-a", box.state, copy.state], check=True)
    t.remove_tree(box.state)
    made.append(copy.recover("--adopt"))
    undo = copy.undo()
    after = box.command(["find", ".", "-printf", "%P %m %s\n"], cwd=path).stdout
    diff = copy.diff("--name-status")
    tap.check("a commit made before the state directory was copied is taken back, or it is said why not and nothing is done, %s" % tail,
              not any(d.returncode for d in made) and
              ((undo.returncode == 0 and read(path, "a") == "1\n" and b"M\ta" in diff.stdout) or
               (undo.returncode == 4 and b"was copied or restored" in undo.stderr and after == landed and
                not diff.stdout)),
              *[t.said(d) for d in made], t.said(undo), t.said(diff), landed, after)
    again = [copy.run("sh", "-c", "echo 3 > a", cwd=path), copy.commit()]
    tap.check("and the next commit lands what was edited since, %s" % tail, not any(d.returncode for d in again) and
              read(path, "a") == "3\n",
              *[t.said(d) for d in again])
    copy.drop()
    box.drop()
    t.remove_tree(path)


def cut_off(place, tap, who, strategy):
    """A commit is killed while it is applied, and the state directory copied then: the copy, whose
    files have other inodes, is not adopted unasked, and the directory itself recovers."""
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, program=place.faults_bin, dirs=[path])
    look = ["sh", "-c", "find . -printf '%P %y %m\\n' | sort; cat a"]
    made = [box.new(), box.run("sh", "-c", "echo 2 > a; rm -r d; mkdir n; echo 2 > n/n", cwd=path)]
    old = box.command(look, cwd=path).stdout
    refused, wrong = 0, []
    for point in range(1, 60, 3):
        killed = box.commit(fault="%d:kill" % point, program_environment={"ATOLL_FAULT_FROM": "apply"})
        if killed.returncode not in (-9, 137):
            break
        between = box.command(look, cwd=path).stdout
        copy = t.Box(place, who, state=box.state + "-copy")
        subprocess.run(["cp", "-a", box.state, copy.state], check=True)
        os.rename(box.state, box.state + "-away")
        adopt = copy.recover("--adopt")
        after = box.command(look, cwd=path).stdout
        if adopt.returncode == 4 and b"cut off" in adopt.stderr and after == between:
            refused += 1
        elif adopt.returncode != 0 or between == old:
            wrong.append("%d: %s" % (point, t.said(adopt)))
        t.remove_tree(copy.state)
        os.rename(box.state + "-away", box.state)
        recovered = [box.recover(), box.undo()]
        if recovered[0].returncode != 0 or box.command(look, cwd=path).stdout != old:
            wrong.append("%d: %s" % (point, [t.said(d) for d in recovered]))
    tap.check("a copy made while a commit was cut off is not adopted, %s, %s" % (strategy, who),
              not any(d.returncode for d in made) and refused > 3 and not wrong, refused, *wrong)
    box.drop()
    t.remove_tree(path)


def pinned(place, tap, who):
    """A moved state directory and its adopted copy have one sandbox id, and so the same pins in a repository."""
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, name="box")

    def git(*argv):
        return box.command(["git", "-C", path, "-c", "gc.reflogExpire=now", "-c", "gc.reflogExpireUnreachable=now",
                            *argv])

    def pins():
        return git("for-each-ref", "--format=%(objectname)", "refs/atoll").stdout.decode().split()

    made = [git("init", "-q"), git("config", "user.name", "n"), git("config", "user.email", "e"), git("add", "."),
            git("commit", "-qm", "1"),
            box.new("--git", path), box.run("sh", "-c", "echo 2 > a && git commit -qam inside", cwd=path)]
    base = git("rev-parse", "HEAD").stdout.decode().strip()
    copy = t.Box(place, who, name="box", state=box.state + "-copy")
    os.rename(box.state, box.state + "-moved")
    box.state = box.environment["ATOLL_STATE_DIR"] = box.state + "-moved"
    subprocess.run(["cp", "-a", box.state, copy.state], check=True)
    made += [copy.recover("--adopt"), box.rm()]
    dropped = pins()
    made.append(copy.run("true", cwd=path))
    again = pins()
    made += [git("commit", "-q", "--amend", "-m", "another"), git("gc", "-q", "--prune=now"),
             copy.run("git", "log", "--oneline", cwd=path)]
    there = git("cat-file", "-e", base)
    tap.check("a pin that rm in a copy of the state directory dropped is set again by the next run, and keeps what the sandbox is built on, %s" % who,
              not any(d.returncode for d in made) and not dropped and again == [base] and there.returncode == 0,
              dropped, again, t.said(there),
              *[t.said(d) for d in made])
    gone = copy.rm()
    tap.check("and it is gone when that is removed, too, %s" % who, gone.returncode == 0 and not pins(), t.said(gone),
              pins())
    copy.drop()
    box.drop()
    t.remove_tree(path)


# ---- two registries, one area ----


OWNED = b"is owned by the copy of the state directory at \"%s\""
KINDS = ("overlay", "copy_on_write", "snapshot", "git_worktree", "file")


class Pair:
    """A sandbox whose area lies beside its original, its state directory after a move, and a copy of that."""

    def __init__(self, place, who, kind, names=("box",), program=None, top=None, state_name="atoll"):
        self.place, self.own = place, not top
        self.top = top or place.mount("btrfs" if kind == "snapshot" else "ext4", who=who, subvolumes=kind == "snapshot")
        self.path = t.build_tree(place, who, BASE, below=self.top)
        state = os.path.join(place.fresh("state", who), state_name)
        self.made, self.moved, self.copied = [], [], []
        for name in names:
            box = t.Box(place, who, None if kind in ("git_worktree", "file") else kind, name=name, state=state,
                        dirs=[] if kind in ("git_worktree", "file") else [self.path], files=[self.path + "/a"] if kind == "file" else [])
            extra = ()
            if kind == "git_worktree":
                for argv in (["init", "-q"], ["config", "user.name", "n"], ["config", "user.email", "e"], ["add", "."], ["commit", "-qm", "1"]):
                    self.made.append(box.command(["git", "-C", self.path, *argv]))
                extra = ("--git", self.path)
            self.made += [box.new(*extra), box.run("sh", "-c", "echo 2 > a", cwd=self.path)]
            self.moved.append(t.Box(place, who, name=name, state=state + "-moved"))
            self.copied.append(t.Box(place, who, name=name, state=state + "-copy", program=program))
        os.rename(state, state + "-moved")
        subprocess.run(["cp", "-a", state + "-moved", state + "-copy"], check=True)
        self.areas = glob.glob(self.top + "/.atoll-*/*/*")
        if kind == "snapshot":
            self.areas = glob.glob(self.top + "/**/.atoll-*/*/*", recursive=True)

    def is_whole(self):
        return all(done.returncode == 0 for done in self.made) and len(self.areas) >= len(self.moved)

    def close(self):
        for box in self.moved + self.copied:
            box.drop()
        t.remove_tree(self.path)
        if self.own:
            self.place.unmount(self.top)


def adopted(place, tap, who, kind):
    tail = "%s, %s" % (kind, who)
    pair = Pair(place, who, kind)
    moved, copied, path = pair.moved[0], pair.copied[0], pair.path
    adopt, diff = copied.recover("--adopt"), copied.diff("--name-status")
    tap.check("a copy takes over areas outside of the state directory, %s" % tail,
              pair.is_whole() and adopt.returncode == 0 and b"M\ta" in diff.stdout, *[t.said(done) for done in pair.made], pair.areas,
              t.said(adopt), t.said(diff))
    done = [moved.run("true", cwd=path), moved.diff(), moved.commit(), moved.undo(), moved.rollback(), moved.recover("box"),
            moved.atoll("rm", "box"), moved.recover("--adopt")]
    tap.check("the directory that lost them refuses, and names the copy, %s" % tail,
              all(d.returncode in (4, 125) and d.stderr.count(b"\n") == 1 and copied.state.encode() in d.stderr for d in done) and
              all(OWNED % copied.state.encode() in d.stderr for d in done[:-1]) and read(path, "a") == "1\n", *[t.said(d) for d in done])
    done = [moved.atoll("list"), moved.atoll("show", "box"), moved.recover(), moved.rm()]
    diff = copied.diff("--name-status")
    tap.check("it lists and removes its sandbox, and leaves what the copy owns, %s" % tail,
              not any(d.returncode for d in done) and b"M\ta" in diff.stdout, *[t.said(d) for d in done], t.said(diff))
    done = [copied.commit(*(["-m", "2"] if kind == "git_worktree" else []))]
    landed = read(path, "a")
    done += [copied.undo(), copied.rm()]
    tap.check("the copy commits, undoes, and leaves nothing when it is removed, %s" % tail,
              not any(d.returncode for d in done) and landed == "2\n" and read(path, "a") == "1\n" and not any(map(os.path.exists, pair.areas)),
              *[t.said(d) for d in done], landed)
    pair.close()


def in_use(place, tap, who, state_name, shape):
    pair = Pair(place, who, "overlay", state_name=state_name)
    moved, copied = pair.moved[0], pair.copied[0]
    runs = subprocess.Popen([moved.program, "run", "box", "--", "sh", "-c", "echo in; exec sleep 60"], cwd=pair.path, env=moved.environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **moved.identity())
    runs.stdout.readline()
    busy = copied.recover("--adopt")
    runs.kill()
    runs.communicate()
    refused = copied.recover("--adopt")
    after = [moved.diff(), moved.commit()]
    tap.check("areas that a run uses are not taken over, nor those of a directory that is known to be there, %s, %s" % (shape, who),
              pair.is_whole() and busy.returncode == 6 and b"in use" in busy.stderr and refused.returncode in (4, 6) and
              not any(done.returncode for done in after) and read(pair.path, "a") == "2\n", t.said(busy), t.said(refused), *[t.said(d) for d in after])
    pair.close()


def taken_back(place, tap, who):
    pair = Pair(place, who, "overlay")
    moved, copied = pair.moved[0], pair.copied[0]
    adopt = copied.recover("--adopt")
    t.remove_tree(copied.state)
    done = [moved.diff(), moved.recover("--adopt"), moved.commit()]
    tap.check("areas of a copy that is gone can be taken back, %s" % who,
              pair.is_whole() and adopt.returncode == 0 and [d.returncode for d in done] == [4, 0, 0] and b"--adopt" in done[0].stderr and
              read(pair.path, "a") == "2\n", t.said(adopt), *[t.said(d) for d in done])
    pair.close()


def make_old(state):
    """Makes the registry one of a version before there were marks."""
    database = sqlite3.connect(state + "/atoll.db")
    database.executescript("ALTER TABLE owner DROP COLUMN registry; ALTER TABLE op_resource DROP COLUMN stays_active;"
                           "ALTER TABLE op_resource DROP COLUMN added; ALTER TABLE op_resource DROP COLUMN modified;"
                           "ALTER TABLE op_resource DROP COLUMN deleted; ALTER TABLE op_resource DROP COLUMN meta;"
                           "ALTER TABLE sandbox DROP COLUMN prunable; ALTER TABLE sandbox DROP COLUMN measured_op;"
                           "ALTER TABLE sandbox DROP COLUMN measured;"
                           "PRAGMA user_version=6")
    database.close()


def unmarked(place, tap, who):
    pair = Pair(place, who, "overlay")
    moved, copied = pair.moved[0], pair.copied[0]
    adopt = copied.recover("--adopt")
    make_old(moved.state)
    make_old(copied.state)
    for area in pair.areas:
        os.unlink(area + "/owner")
    done = [moved.diff(), copied.diff(), copied.commit(), moved.commit()]
    tap.check("areas without a mark are those of the first registry that opens them, %s" % who,
              pair.is_whole() and adopt.returncode == 0 and [d.returncode for d in done] == [0, 4, 4, 0] and OWNED % moved.state.encode() in done[1].stderr
              and read(pair.path, "a") == "2\n", t.said(adopt), *[t.said(d) for d in done])
    pair.close()


def killed(place, tap, who):
    """Adoption is killed at every step: each sandbox has one owner then, and adopting again ends it."""
    if not place.faults_bin:
        tap.skip("adoption killed at every step, %s" % who, "needs the program with fault injection")
        return
    wrong, point, over = [], 0, False
    top = place.mount("ext4", who=who)
    while not over and point < 200:
        point += 1
        pair = Pair(place, who, "overlay", names=("one", "two"), program=place.faults_bin, top=top)
        adopt = pair.copied[0].recover("--adopt", fault="%d:kill" % point)
        over = adopt.returncode == 0
        owners = []
        for moved, copied in zip(pair.moved, pair.copied):
            owners.append((copied.diff().returncode, moved.run("true", cwd=pair.path).returncode))
        os.rename(pair.moved[0].state, pair.moved[0].state + "-gone")
        again = pair.copied[0].recover("--adopt")
        diffs = [copied.diff("--name-status") for copied in pair.copied]
        if not (pair.is_whole() and all(owner in ((0, 125), (4, 0)) for owner in owners) and again.returncode == 0 and
                all(b"M\ta" in done.stdout for done in diffs) and adopt.returncode in (0, -9)):
            wrong += ["point %d: %s" % (point, owners), t.said(adopt), t.said(again), *[t.said(done) for done in diffs]]
        os.rename(pair.moved[0].state + "-gone", pair.moved[0].state)
        pair.close()
    place.unmount(top)
    tap.check("adoption killed at every step leaves one owner of each sandbox, and is completed by another, %s" % who,
              not wrong and over and point > 5, point, *wrong[:12])


def main(place, tap):
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            moved(place, tap, who, strategy, False)
            put_back_in_place(place, tap, who, strategy)
        moved(place, tap, who, None, True)
        pinned(place, tap, who)
        for strategy in ("overlay", "copy_on_write"):
            for command in ("chmod 600 d/b", "rm d/b", "rm -r d"):
                undone(place, tap, who, strategy, command)
            cut_off(place, tap, who, strategy)
        for strategy in ("overlay", "copy_on_write"):
            for how, command in COPIES:
                incomplete(place, tap, who, strategy, how, command)
        if not place.is_root:
            tap.skip("areas outside of the state directory, %s" % who, "needs root, who can mount a file system")
            continue
        for kind in KINDS:
            if t.only(kind):
                adopted(place, tap, who, kind)
        in_use(place, tap, who, "atoll", "an ordinary path")
        in_use(place, tap, who, "at\noll", "a path with a newline")
        taken_back(place, tap, who)
        unmarked(place, tap, who)
        killed(place, tap, who)


if __name__ == "__main__":
    t.run(main)
