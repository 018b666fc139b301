#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Sandboxes over overlapping trees: their commits, undos and recoveries exclude each other, and the second one sees the first one's
result as a foreign change. One command is stopped in the middle of its work, and another is started beside it."""
import fcntl
import os
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from stepped import Stepped  # noqa: E402

BASE = [["mkdir", "d", 0o755], ["create", "d/f", "old\n", 0o644], ["create", "d/g", "old\n", 0o644], ["mkdir", "d/e", 0o755],
        ["create", "d/e/f", "old\n", 0o644], ["mkdir", "x", 0o755], ["create", "x/f", "old\n", 0o644], ["stamp_all", 1000000000]]
LIMIT = 10  # seconds that an op waits for others


def read(*parts):
    with open(os.path.join(*parts), encoding="ascii") as file:
        return file.read()


def start(box, *arguments):
    return subprocess.Popen([box.program, *arguments], cwd=box.place.root, env=box.environment, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **box.identity())


def finish(process):
    out, err = process.communicate(timeout=120)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class Pair:
    """Two sandboxes over one tree; the first is of the fault-injection build, so that it can be stopped."""

    def __init__(self, place, who="user", first="", second="", other=None, shared=True, strategy=None):
        self.path = t.build_tree(place, who, BASE)
        self.a = self.box(place, who, "a", first, strategy=strategy, program=place.faults_bin)
        self.b = self.box(place, other or who, "b", second, strategy=strategy, state=self.a.state if shared and not other else None)

    def box(self, place, who, name, below, **more):
        path = os.path.join(self.path, below).rstrip("/")
        key = "files" if os.path.isfile(path) else "dirs"
        box = t.Box(place, who, name=name, **{key: [path]}, **more)
        made = box.new()
        if made.returncode != 0:
            raise RuntimeError(t.said(made))
        return box

    def edit(self, box, command):
        done = box.run("sh", "-ec", command, cwd=self.path)
        if done.returncode != 0:
            raise RuntimeError(t.said(done))

    def drop(self):
        self.a.drop()
        self.b.drop()
        t.remove_tree(self.path)


def waits(pair, stepped, *arguments):
    """Starts a command of b while a is stopped: it must not end before a goes on. Both results."""
    stepped.stopped()
    process = start(pair.b, *arguments)
    time.sleep(0.4)
    still = process.poll() is None
    return still, stepped.finish(), finish(process)


SHAPES = [("the same directory", "", "", {}), ("a directory in it", "", "d", {}), ("a directory that holds it", "d", "", {}),
          ("a file in it", "", "d/f", {}), ("the same file", "d/f", "d/f", {}), ("another state directory", "", "d/e", {"shared": False}),
          ("a copy-on-write tree", "", "d", {"strategy": "copy_on_write"})]


def second_waits(place, tap, who, title, first, second, more):
    pair = Pair(place, who, first, second, **more)
    pair.edit(pair.a, "echo a > d/f")
    pair.edit(pair.b, "echo b > d/%s" % ("f" if not second.endswith("e") else "e/f"))
    overlapping = not second.endswith("e")
    still, a, b = waits(pair, Stepped(pair.a, 2, "commit", "a"), "commit", "b")
    tap.check("a commit over %s waits for the first, and %s, %s" % (title, "meets a conflict" if overlapping else "lands", who),
              still and a.returncode == 0 and b.returncode == (3 if overlapping else 0) and read(pair.path, "d/f") == "a\n" and
              (overlapping or read(pair.path, "d/e/f") == "b\n"), still, t.said(a), t.said(b))
    pair.drop()


def removed_below(place, tap, who):
    """The directory of the second sandbox is removed by the first while the second waits."""
    pair = Pair(place, who, "", "d")
    pair.edit(pair.a, "rm -r d")
    pair.edit(pair.b, "echo b > d/f; echo b > d/n")
    still, a, b = waits(pair, Stepped(pair.a, 1, "commit", "a"), "commit", "b")
    undone = pair.a.undo()
    kept = pair.b.diff("--name-status")
    again = pair.b.commit()
    tap.check("a commit into a directory that another one removes meanwhile meets a conflict, and lands when that is undone, %s" % who,
              still and a.returncode == 0 and b.returncode == 3 and undone.returncode == 0 and kept.stdout == b"M\tf\nA\tn\n" and
              again.returncode == 0 and read(pair.path, "d/f") == "b\n" and read(pair.path, "d/n") == "b\n",
              still, t.said(a), t.said(b), t.said(undone), t.said(kept), t.said(again))
    pair.drop()


def undo_excludes(place, tap, who):
    pair = Pair(place, who, "", "d")
    pair.edit(pair.a, "echo a > d/f; echo a > x/f")
    pair.a.commit()
    pair.edit(pair.b, "echo b > d/f")
    still, a, b = waits(pair, Stepped(pair.a, 2, "undo", "a"), "commit", "b")
    tap.check("a commit waits for an undo over the same tree, %s" % who,
              still and a.returncode == 0 and b.returncode == 3 and read(pair.path, "d/f") == "old\n", still, t.said(a), t.said(b))
    pair.drop()
    pair = Pair(place, who, "", "d")
    pair.edit(pair.b, "echo b > d/f")
    pair.b.commit()
    pair.edit(pair.a, "echo a > d/g; echo a > x/f")
    still, a, b = waits(pair, Stepped(pair.a, 2, "commit", "a"), "undo", "b")
    tap.check("an undo waits for a commit over the same tree, %s" % who,
              still and a.returncode == 0 and b.returncode == 0 and read(pair.path, "d/f") == "old\n" and read(pair.path, "d/g") == "a\n",
              still, t.said(a), t.said(b))
    pair.edit(pair.a, "echo again > d/g")
    pair.b.commit()
    still, a, b = waits(pair, Stepped(pair.a, 2, "commit", "a"), "rollback", "b", "--landed")
    tap.check("a rollback that takes a commit back waits, too, %s" % who,
              still and a.returncode == 0 and b.returncode == 0 and read(pair.path, "d/f") == "old\n", still, t.said(a), t.said(b))
    pair.drop()


def neighbours(place, tap, who):
    pair = Pair(place, who, "d", "x", shared=False)
    pair.edit(pair.a, "echo a > d/f")
    pair.edit(pair.b, "echo b > x/f")
    stepped = Stepped(pair.a, 2, "commit", "a")
    stepped.stopped()
    begin = time.monotonic()
    b = pair.b.commit()
    took = time.monotonic() - begin
    a = stepped.finish()
    tap.check("sandboxes over neighbours do not wait for each other, %s" % who,
              a.returncode == 0 and b.returncode == 0 and took < LIMIT / 2, took, t.said(a), t.said(b))
    pair.drop()


def time_limit(place, tap, who):
    """A program that has nothing to do with Atoll holds a lock on a directory above."""
    pair = Pair(place, who, "d", "d")
    pair.edit(pair.b, "echo b > d/f")
    fd = os.open(pair.path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    begin = time.monotonic()
    done = pair.b.commit()
    took = time.monotonic() - begin
    named = b"process %d" % os.getpid() in done.stderr and pair.path.encode() in done.stderr
    tap.check("a lock that another program keeps makes a commit busy after a time, which names it, %s" % who,
              done.returncode == 6 and named and LIMIT - 1 < took < LIMIT + 20 and read(pair.path, "d/f") == "old\n", took, t.said(done))
    fcntl.flock(fd, fcntl.LOCK_SH)
    done = pair.b.commit()
    tap.check("a shared lock on a directory above is not in the way, %s" % who, done.returncode == 0, t.said(done))
    fcntl.flock(fd, fcntl.LOCK_EX)
    waiter = start(pair.b, "undo", "b", "--wait")
    time.sleep(0.3)
    fcntl.flock(fd, fcntl.LOCK_UN)
    done = finish(waiter)
    tap.check("an undo goes on when the lock is given up, %s" % who, done.returncode == 0 and read(pair.path, "d/f") == "old\n", t.said(done))
    os.close(fd)
    pair.drop()


def swapped_root(place, tap, who):
    """While a commit waits, its original is replaced by another directory."""
    pair = Pair(place, who, "", "d", shared=False)
    pair.edit(pair.b, "echo b > d/f")
    fd = os.open(pair.path, os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    waiter = start(pair.b, "commit", "b")
    time.sleep(0.4)
    os.rename(pair.path + "/d", pair.path + "/d-moved")
    os.mkdir(pair.path + "/d")
    with open(pair.path + "/d/f", "w", encoding="ascii") as file:
        file.write("old\n")
    os.close(fd)
    done = finish(waiter)
    tap.check("an original that is replaced while its commit waits is a conflict, %s" % who,
              done.returncode == 3 and read(pair.path, "d/f") == "old\n" and read(pair.path, "d-moved/f") == "old\n", t.said(done))
    pair.drop()


def cut_off(place, tap, who, shared):
    """The first is killed half-way, and the second comes before anybody has recovered."""
    pair = Pair(place, who, "", "d", shared=shared)
    pair.edit(pair.a, "echo a > d/f; echo a > x/f; rm d/g")
    pair.edit(pair.b, "echo b > d/e/f")
    died = pair.a.commit(program_environment={"ATOLL_FAULT": "2:kill", "ATOLL_FAULT_FROM": "apply"})
    half = sorted((read(pair.path, "d/f"), read(pair.path, "x/f"))) == ["a\n", "old\n"]
    b = pair.b.commit()
    if shared:
        good = b.returncode == 0 and b"recovered first" in b.stdout + b.stderr and read(pair.path, "d/f") == read(pair.path, "x/f") == "old\n"
        tap.check("a commit recovers an overlapping one that was cut off first, %s" % who,
                  died.returncode in (-signal.SIGKILL, 137) and half and good and read(pair.path, "d/e/f") == "b\n",
                  t.said(died), half, t.said(b))
    else:
        recovered = pair.a.recover()
        tap.check("over state directories, a commit beside one that was cut off lands what that has not touched, and recovery the rest, %s" % who,
                  half and b.returncode == 0 and recovered.returncode == 0 and read(pair.path, "d/e/f") == "b\n" and
                  read(pair.path, "d/f") == read(pair.path, "x/f") == "old\n", t.said(b), t.said(recovered))
    again = pair.a.commit()
    tap.check("and the one that was cut off can be committed again, %s, %s" % ("one registry" if shared else "two", who),
              again.returncode == 0 and read(pair.path, "d/f") == "a\n" and not os.path.exists(pair.path + "/d/g"), t.said(again))
    pair.drop()


def cut_off_same_path(place, tap, who):
    """Over two state directories nobody can know of the other's journal: what is half-way looks like a foreign change."""
    pair = Pair(place, who, "", "", shared=False)
    pair.edit(pair.a, "for f in d/f d/g x/f; do echo a > $f; done")
    pair.edit(pair.b, "for f in d/f d/g x/f; do echo b > $f; done")
    pair.a.commit(program_environment={"ATOLL_FAULT": "3:kill", "ATOLL_FAULT_FROM": "apply"})
    before = [read(pair.path, f) for f in ("d/f", "d/g", "x/f")]
    b = pair.b.commit()
    recovered = pair.a.recover()
    tap.check("a commit of paths that a cut-off one of another state directory has moved meets a conflict, %s" % who,
              "a\n" in before and "old\n" in before and b.returncode == 3 and recovered.returncode == 0 and
              [read(pair.path, f) for f in ("d/f", "d/g", "x/f")] == ["old\n"] * 3, before, t.said(b), t.said(recovered))
    pair.drop()


def recovery_waits(place, tap, who):
    pair = Pair(place, who, "", "d", shared=False)
    pair.edit(pair.a, "echo a > x/f; echo a > d/f")
    pair.b.program = place.faults_bin
    pair.edit(pair.b, "echo b > d/e/f; echo b > d/g")
    pair.a.commit(program_environment={"ATOLL_FAULT": "2:kill", "ATOLL_FAULT_FROM": "apply"})
    pair.a, pair.b = pair.b, pair.a
    still, commit, recovered = waits(pair, Stepped(pair.a, 2, "commit", "b"), "recover")
    tap.check("a recovery waits for a commit over the same tree, %s" % who,
              still and commit.returncode == 0 and recovered.returncode == 0 and read(pair.path, "x/f") == read(pair.path, "d/f") == "old\n" and
              read(pair.path, "d/g") == "b\n", still, t.said(commit), t.said(recovered))
    pair.drop()


def late_writes(place, tap, who, strategy):
    """A process works in a directory that the sandbox removed, and goes on after the commit."""
    tail = "%s, %s" % (strategy, who)
    for shape, name, command in (("removed", "d", "rm -r d"), ("became a file", "d", "rm -r d; echo a > d"),
                                 ("became a file, with the name of a slot", "p1", "rm -r p1; echo a > p1")):
        path = t.build_tree(place, who, BASE)
        os.rename(path + "/d", "%s/%s" % (path, name))
        box = t.Box(place, who, strategy, name="a", dirs=[path])
        box.new()
        box.run("sh", "-ec", command, cwd=path)
        inside = os.open("%s/%s" % (path, name), os.O_RDONLY)
        commit = box.commit()
        with open(os.open("late", os.O_WRONLY | os.O_CREAT, 0o644, dir_fd=inside), "w", encoding="ascii") as file:
            file.write("work")
        os.mkdir("made", dir_fd=inside)
        refused = box.rm()
        named = b"/late" in refused.stderr or b"/made" in refused.stderr
        tap.check("what is written into a directory after a commit took it away stops the removal, %s, %s" % (shape, tail),
                  commit.returncode == 0 and refused.returncode == 4 and named, t.said(commit), t.said(refused))
        undone = box.undo()
        tap.check("and comes back with the undo, %s, %s" % (shape, tail), undone.returncode == 0 and
                  read(path, name + "/late") == "work" and
                  os.path.isdir("%s/%s/made" % (path, name)) and read(path, name + "/f") == "old\n", t.said(undone))
        again = box.rm()
        tap.check("after which the sandbox can be removed, %s, %s" % (shape, tail), again.returncode == 0 and
                  read(path, name + "/late") == "work",
                  t.said(again))
        os.close(inside)
        box.drop()
        t.remove_tree(path)


def late_given_up(place, tap, who):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, name="a", dirs=[path])
    box.new()
    box.run("rm", "-r", "d", cwd=path)
    inside = os.open(path + "/d/e", os.O_RDONLY)
    box.commit()
    with open(os.open("f", os.O_WRONLY, dir_fd=inside), "w", encoding="ascii") as file:
        file.write("late")
    os.close(inside)
    refused, given_up = box.rm(), box.atoll("rm", "a", "--abandon")
    tap.check("a file that is written after its directory was removed stops the removal, too, but not with --abandon, %s" % who,
              refused.returncode == 4 and b"/e/f" in refused.stderr and given_up.returncode == 0, t.said(refused), t.said(given_up))
    box.drop()
    t.remove_tree(path)


def late_by_another_name(place, tap, who, strategy, keeps):
    """A file of a directory that a commit removed is written to by its name elsewhere. While that name is there, nothing is lost with the
    undo data. keeps: whether it is; None: it goes, and nothing was written."""
    path = t.build_tree(place, who, BASE)
    os.link(path + "/d/f", path + "/x/linked")
    if keeps is not None:
        os.link(path + "/d/f", path + "/d/e/linked")
    box = t.Box(place, who, strategy, name="a", dirs=[path])
    box.new()
    box.run("rm", "-r", "d", cwd=path)
    commit = box.commit()
    if keeps is not None:
        with open(path + "/x/linked", "w", encoding="ascii") as file:
            file.write("work")
    if not keeps:
        os.unlink(path + "/x/linked")
    removed = box.rm()
    if keeps is None:
        tap.check("a name elsewhere that is removed does not stop the removal, %s, %s" % (strategy, who), commit.returncode == 0 and
                  removed.returncode == 0, t.said(commit), t.said(removed))
    elif keeps:
        tap.check("what is written by a name that stayed does not stop the removal, %s, %s" % (strategy, who), commit.returncode == 0 and
                  removed.returncode == 0 and read(path, "x/linked") == "work", t.said(commit), t.said(removed))
    else:
        tap.check("once the undo data has all names of the file, it does, %s, %s" % (strategy, who), commit.returncode == 0 and
                  removed.returncode == 4 and (b"/f\"" in removed.stderr or b"/linked\"" in removed.stderr), t.said(commit), t.said(removed))
    box.drop()
    t.remove_tree(path)


def bind_mounts(place, tap):
    """The second sandbox reaches the tree through a bind mount, below which .. does not lead to the first one's root."""
    pair = Pair(place, "root", "", "x", shared=False)
    point = place.fresh("bind")
    subprocess.run(["mount", "--bind", pair.path + "/d", point], check=True)
    bound = t.Box(place, "root", name="bound", dirs=[point + "/e"])
    bound.new()
    bound.run("sh", "-c", "echo b > f", cwd=point + "/e")
    pair.edit(pair.a, "echo a > d/e/f")
    stepped = Stepped(pair.a, 2, "commit", "a")
    stepped.stopped()
    process = start(bound, "commit", "bound")
    time.sleep(0.4)
    still = process.poll() is None
    a, b = stepped.finish(), finish(process)
    tap.check("a commit through a bind mount waits for one over the directory that holds it", still and a.returncode == 0 and
              b.returncode == 3 and read(pair.path, "d/e/f") == "a\n", still, t.said(a), t.said(b))
    bound.drop()
    subprocess.run(["umount", point], check=True)
    pair.drop()


def unreadable(place, tap):
    """A directory above that the user may pass through and not read cannot be locked by that user."""
    pair = Pair(place, "user", "d", "d")
    pair.edit(pair.b, "echo b > d/f")
    os.chown(pair.path, 0, 0)
    os.chmod(pair.path, 0o711)
    done = pair.b.commit()
    tap.check("a directory above that may not be read does not stop a commit", done.returncode == 0 and read(pair.path, "d/f") == "b\n",
              t.said(done))
    pair.drop()


def no_locks(place, tap):
    """Filesystems without flock, and a lock that fails."""
    pair = Pair(place, "root", "", "")
    pair.edit(pair.a, "echo a > d/f")
    trace = place.root + "/trace"
    pair.a.atoll("commit", "a", program_environment={"ATOLL_FAULT": "count", "ATOLL_FAULT_TRACE": trace})
    first = [int(line.split()[0]) for line in read(trace).splitlines() if line.endswith(" sys_flock")]
    pair.a.undo()
    failed = pair.a.commit(fault="%d:EIO" % first[0])
    untouched = read(pair.path, "d/f") == "old\n"
    done = pair.a.commit(fault="%d:EOPNOTSUPP" % first[0])
    tap.check("a lock that fails stops a commit before it changes anything", failed.returncode == 1 and untouched, t.said(failed))
    tap.check("a filesystem without such locks does not stop a commit", done.returncode == 0 and read(pair.path, "d/f") == "a\n",
              first, t.said(done))
    pair.drop()


def databases(place, tap):
    """A repository and a SQLite database inside the directory of another sandbox."""
    for kind in ("git", "sqlite"):
        pair = Pair(place, "user", "", "", shared=False)
        plain = t.plain_box(place, "user")
        if kind == "git":
            plain.command(["sh", "-ec", "cd d; git init -q; git config user.name x; git config user.email x@x; git add .; git commit -qm base"], cwd=pair.path)
            inside = t.Box(place, "user", name="inner")
            made = inside.atoll("new", "inner", "--git", pair.path + "/d")
            ran = inside.run("sh", "-ec", "echo inner > f; git commit -qam inner", cwd=pair.path + "/d")
        else:
            plain.command(["sqlite3", "d/base.db", "create table t(x); insert into t values('old')"], cwd=pair.path)
            inside = t.Box(place, "user", name="inner")
            made = inside.atoll("new", "inner", "--db", "sqlite:" + pair.path + "/d/base.db")
            ran = inside.run("sqlite3", "base.db", "update t set x = 'inner'", cwd=pair.path + "/d")
        outer = pair.box(place, "user", "outer", "", program=place.faults_bin)
        pair.edit(outer, "echo outer > x/f; rm -r d")
        stepped = Stepped(outer, 1, "commit", "outer")
        stepped.stopped()
        process = start(inside, "commit", "inner")
        time.sleep(0.4)
        still = process.poll() is None
        first, second = stepped.finish(), finish(process)
        tap.check("a commit of a %s inside the directory of another sandbox waits for that, and finds its original gone" % kind,
                  made.returncode == 0 and ran.returncode == 0 and still and first.returncode == 0 and second.returncode == 3 and
                  not os.path.exists(pair.path + "/d"), t.said(made), t.said(ran), still, t.said(first), t.said(second))
        undone, again = outer.undo(), inside.commit()
        landed = plain.command(["git", "show", "HEAD:f"] if kind == "git" else ["sqlite3", "base.db", "select x from t"], cwd=pair.path + "/d")
        tap.check("and lands when that is taken back, %s" % kind, undone.returncode == 0 and again.returncode == 0 and
                  landed.stdout == b"inner\n", t.said(undone), t.said(again), t.said(landed))
        inside.drop()
        outer.drop()
        pair.drop()


def users(place, tap):
    """Of two users and two state directories, over a directory of the ordinary one."""
    pair = Pair(place, "user", "", "d", other="root")
    pair.edit(pair.a, "echo a > d/f")
    pair.edit(pair.b, "echo b > d/f")
    still, a, b = waits(pair, Stepped(pair.a, 2, "commit", "a"), "commit", "b")
    tap.check("a commit of another user waits, too", still and a.returncode == 0 and b.returncode == 3 and read(pair.path, "d/f") == "a\n",
              still, t.said(a), t.said(b))
    pair.drop()


def main(place, tap):
    for who in place.users():
        for shape in SHAPES:
            second_waits(place, tap, who, *shape)
        removed_below(place, tap, who)
        undo_excludes(place, tap, who)
        neighbours(place, tap, who)
        time_limit(place, tap, who)
        swapped_root(place, tap, who)
        cut_off(place, tap, who, True)
        cut_off(place, tap, who, False)
        cut_off_same_path(place, tap, who)
        recovery_waits(place, tap, who)
        for strategy in ("overlay", "copy_on_write"):
            late_writes(place, tap, who, strategy)
            late_by_another_name(place, tap, who, strategy, True)
            late_by_another_name(place, tap, who, strategy, False)
            late_by_another_name(place, tap, who, strategy, None)
        late_given_up(place, tap, who)
    if place.is_root:
        bind_mounts(place, tap)
        unreadable(place, tap)
        no_locks(place, tap)
        users(place, tap)
        databases(place, tap)


if __name__ == "__main__":
    t.run(main)
