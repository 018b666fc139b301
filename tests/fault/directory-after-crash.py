#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 900
"""Another process removes or replaces a directory with steps in it, after a crash or in the middle of a commit or undo.

What it did stays as it is. Every path outside of the directory is all-old or all-new, what has no place to go to is kept and named (exit
7), the second recovery finds nothing to do, and the sandbox can be used and removed. Where it only may not be written to any more, all other
paths are settled, the recovery says what is in its way, and the next one finishes when that is gone.
"""
import itertools
import json
import os
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402
from stepped import Stepped  # noqa: E402

BASE = [
    ["mkdir", "p", 0o755], ["mkdir", "q", 0o755], ["create", "p/first", "old first\n", 0o644], ["create", "p/zlast", "old last\n", 0o644],
    ["mkdir", "p/d", 0o755], ["create", "p/d/changed", "old changed\n", 0o644], ["create", "p/d/deleted", "old deleted\n", 0o644],
    ["mkdir", "p/d/sub", 0o755], ["create", "p/d/sub/deleted", "old deeper\n", 0o644], ["create", "p/d/same", "same\n", 0o644],
    ["mkdir", "p/d/gone", 0o755], ["create", "p/d/gone/in", "old below\n", 0o644],
    ["create", "q/other", "old other\n", 0o644], ["stamp_all", 1000000000],
]
EDIT = """cd p && echo new first > first && echo new last > zlast && echo new changed > d/changed && rm d/deleted d/sub/deleted &&
    echo new added > d/added && rm -r d/gone && mkdir d/made && echo new below > d/made/in && chmod 700 d/sub && chmod 750 d &&
    echo new other > ../q/other"""
OUTSIDE = ("p/first", "p/zlast", "q/other")
OLD = {"changed": "old changed\n", "deleted": "old deleted\n", "sub/deleted": "old deeper\n", "gone/in": "old below\n"}
NEW = {"changed": "new changed\n", "added": "new added\n", "made/in": "new below\n"}


def read(path):
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def by_file(d):
    shutil.rmtree(d)
    write(d, "theirs\n")


def by_symlink(d):
    os.rename(d, d + ".away")
    os.symlink("d.away", d)


def by_directory(d):
    os.rename(d, d + ".away")
    os.mkdir(d, 0o750)
    write(d + "/theirs", "theirs\n")


# What another process does to the directory
FOREIGN = {"removed": shutil.rmtree, "replaced by a file": by_file, "replaced by a symbolic link": by_symlink,
           "replaced by another directory": by_directory}


def theirs(work):
    """What the other process made, and the directory that it has moved away."""
    d = work + "/p/d"
    if os.path.islink(d):
        here = os.readlink(d)
    elif os.path.isdir(d):
        here = (read(d + "/theirs"), os.stat(d).st_ino, os.stat(d).st_mode)
    else:
        here = read(d)
    return here, mf.manifest(d + ".away") if os.path.isdir(d + ".away") else None


def side(work):
    """"old", "new", or what there is of each."""
    found = {read(os.path.join(work, path))[:3] for path in OUTSIDE}
    return found.pop() if len(found) == 1 else str({path: read(os.path.join(work, path)) for path in OUTSIDE})


def contents(top):
    """The files below a directory or at a path, by content."""
    names = [os.path.join(at, name) for at, _, files in os.walk(top) for name in files]
    return {read(name): name for name in names or [top] if os.path.isfile(name)}


class Trial:
    """A sandbox over two directories, edited, or committed too if an undo is to follow."""

    def __init__(self, place, who, strategy, operation, ground=None):
        self.operation = operation
        self.work = t.build_tree(place, who, BASE, below=ground)
        self.box = t.Box(place, who, strategy, dirs=[self.work + "/p", self.work + "/q"], program=place.faults_bin,
                         state=place.fresh("state", who, ground) + "/state")
        done = [self.box.new(), self.box.run("sh", "-c", EDIT, cwd=self.work)]
        if operation == "undo":
            done.append(self.box.commit())
        if any(d.returncode for d in done):
            raise RuntimeError("; ".join(map(t.said, done)))
        self.d = self.work + "/p/d"

    def act(self, change):
        """The other process does it; what of the files in its directory was elsewhere by then is Atoll's to keep."""
        self.there = set(contents(self.d))
        change(self.d)
        if self.box.place.is_root:
            t.give(self.work + "/p", self.box.place.uid(self.box.who))
        self.made = theirs(self.work)

    def check(self, done, results, when, whole):
        """Returns what is wrong after everything was settled. whole: the statuses that say that nothing was left as it is."""
        problems = []
        items = [item for result in results for item in result["items"]]
        named = {item["path"]: item.get("kept") for item in items if item["kind"] == "foreign"}
        kept = [k for k in named.values() if k]
        now = side(self.work)
        if now not in ("old", "new"):
            problems.append("a mixture: " + now)
        # A step that has the directory open when it is moved away follows it there; none does so later.
        if theirs(self.work)[:2 if when == "after a crash" else 1] != self.made[:2 if when == "after a crash" else 1]:
            problems.append("what the other process did was changed: %s, now %s" % (self.made, theirs(self.work)))
        if done.returncode not in ((7,) if named else whole) or not all(map(os.path.lexists, kept)):
            problems.append("it names %s and ends with %s" % (named, t.said(done)))
        problems += self.find_lost(now, kept) + self.find_lost_edits(now, named)
        self.made = theirs(self.work)
        again = self.box.recover()
        if again.returncode != 0 or b"nothing to recover" not in again.stdout:
            problems.append("a second recover: " + t.said(again))
        return problems + self.use(now, kept)

    def find_lost(self, now, kept):
        """Where the files are that belong to this side and that the other process did not have in its hands."""
        wanted = {"old": OLD, "new": NEW}.get(now, {})
        returning = now == ("old" if self.operation == "commit" else "new")
        found = set().union(contents(self.d), contents(self.d + ".away"), *map(contents, kept))
        lost = set(wanted.values()) - found - (set() if self.made[1] else self.there)
        return ["neither in its place nor kept: %s" % sorted(lost)] if returning and lost else []

    def find_lost_edits(self, now, named):
        """After a commit was taken back its edits are in the sandbox, in what the other process moved away, or named."""
        found = set().union(contents(self.d), contents(self.d + ".away"), contents(self.box.state))
        lost = [name for name, text in NEW.items() if text not in found and not any(t.is_below("d/" + name, path) for path in named)]
        return ["edits that are gone and not named: %s, named %s" % (lost, named)] if now == "old" and self.operation == "commit" and lost else []

    def use(self, now, kept):
        problems = []
        used = [self.box.diff(), self.box.run("touch", "p/made-afterwards", cwd=self.work)]
        done = self.box.commit()
        if any(u.returncode for u in used) or done.returncode not in (0, 3):
            problems += ["used afterwards: " + t.said(u) for u in used + [done]]
        if done.returncode == 3 and side(self.work) != now or not self.is_theirs_still():
            problems.append("a commit afterwards overwrote something: %s %s" % (side(self.work), t.said(done)))
        gone = self.box.rm("--force")
        if gone.returncode != (4 if kept else 0):
            problems.append("rm: " + t.said(gone))
        if kept and self.box.rm("--abandon").returncode != 0:
            problems.append("rm --abandon does not work")
        left = t.residue(self.box.state + "/boxes")
        return problems + (["left behind: %s" % left[:4]] if left else [])

    def is_theirs_still(self):
        """A directory of theirs may get what the commit lands beside what they made there."""
        (here, away), (then, away_then) = theirs(self.work), self.made
        return away == away_then and (here[:2] == then[:2] if isinstance(then, tuple) else here == then)

    def close(self):
        t.remove_tree(os.path.dirname(self.box.state))
        t.remove_tree(self.work)


def calls(place, who, strategy, operation, ground):
    """How many calls that change something the operation makes from its first step on."""
    trial = Trial(place, who, strategy, operation, ground)
    path = os.path.join(os.path.dirname(trial.box.state), "count")
    done = getattr(trial.box, operation)(fault="count", program_environment={"ATOLL_FAULT_COUNT": path, "ATOLL_FAULT_FROM": "apply"})
    if done.returncode != 0:
        raise RuntimeError(t.said(done))
    with open(path, encoding="ascii") as file:
        number = int(file.read().split()[0])
    trial.box.drop()
    trial.close()
    return number


def after_crash(make, number, change):
    """Returns (exit status of recover, problems)."""
    trial = make()
    try:
        getattr(trial.box, trial.operation)(fault="%d:kill" % number, program_environment={"ATOLL_FAULT_FROM": "apply"})
        trial.act(change)
        done = trial.box.recover("--json")
        return done.returncode, trial.check(done, json.loads(done.stdout) if done.stdout else [], "after a crash", (0,))
    except (OSError, ValueError, TypeError) as error:
        return -1, [repr(error)]
    finally:
        trial.close()


def in_the_middle(make, number, change):
    """Returns (exit status of the operation, problems). It may succeed, if it was through with the directory."""
    trial = make()
    try:
        command = Stepped(trial.box, number, trial.operation, "box", "--json")
        command.stopped()
        trial.act(change)
        done = command.finish()
        return done.returncode, trial.check(done, [json.loads(done.stdout)], "in the middle", (0, 3))
    except (OSError, ValueError, TypeError) as error:
        return -1, [repr(error)]
    finally:
        trial.close()


def walk(place, tap, who, strategy, ground=None):
    for operation in ("commit", "undo"):
        if not t.only("%s, %s" % (operation, strategy)):
            continue
        number = calls(place, who, strategy, operation, ground)
        step = 1 if t.TORTURE else 5
        visits = (("after a crash", after_crash), ("in the middle", in_the_middle))
        for index, ((what, change), (when, visit)) in enumerate(itertools.product(FOREIGN.items(), visits)):
            points = range(1 + index % step, number + 1, step)
            results = t.parallel(lambda n, v=visit, c=change, o=operation: v(lambda: Trial(place, who, strategy, o, ground), n, c), points)
            found = ["%d: %s" % (n, p) for n, (_, problems) in zip(points, results) for p in problems]
            told = sum(code == 7 for code, _ in results)
            tap.check("a directory is %s %s: no mixture, all is kept or named at %d points, %s, %s, %s" %
                      (what, when, len(points), operation, strategy, who), not found and told, *found[:6], "%d problems, %d told" % (len(found), told))


def closed(make, number):
    """The directory is given to another user after a crash. Returns (whether the recovery had something to do there, problems)."""
    trial = make()
    problems = []
    try:
        getattr(trial.box, trial.operation)(fault="%d:kill" % number, program_environment={"ATOLL_FAULT_FROM": "apply"})
        owner = os.stat(trial.d)
        os.chown(trial.d, 0, 0)
        os.chmod(trial.d, 0o755)
        first = trial.box.recover()
        before = side(trial.work)
        os.chown(trial.d, owner.st_uid, owner.st_gid)
        if before not in ("old", "new"):
            problems.append("a mixture outside of the directory: " + before)
        if first.returncode not in (0, 7) and not (b"d/" in first.stderr and b"everything else is settled" in first.stderr):
            problems.append("the obstacle is not named: " + t.said(first))
        again, third = trial.box.recover(), trial.box.recover()
        inside = {read(os.path.join(trial.d, name)) for name in (OLD if side(trial.work) == "old" else NEW)}
        if again.returncode != 0 or third.returncode != 0 or side(trial.work) != before:
            problems.append("the next recoveries: %s, %s, %s" % (side(trial.work), t.said(again), t.said(third)))
        if first.returncode != 7 and inside != set((OLD if before == "old" else NEW).values()):
            problems.append("in the directory, which is %s outside: %s" % (before, inside))
        return first.returncode not in (0, 7), problems
    except (OSError, ValueError, TypeError) as error:
        return False, [repr(error)]
    finally:
        trial.close()


def walk_closed(place, tap, strategy):
    if not place.is_root or not t.only("closed, " + strategy):
        return
    for operation in ("commit", "undo"):
        number = calls(place, "user", strategy, operation, None)
        points = range(1, number + 1, 1 if t.TORTURE else 5)
        results = t.parallel(lambda n, o=operation: closed(lambda: Trial(place, "user", strategy, o), n), points)
        found = ["%d: %s" % (n, p) for n, (_, problems) in zip(points, results) for p in problems]
        told = sum(stuck for stuck, _ in results)
        tap.check("a directory may not be written to after a crash: all else is settled, then all at %d points, %s, %s" %
                  (len(points), operation, strategy), not found and told, *found[:6], "%d problems, %d told" % (len(found), told))


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    for strategy, who in (("overlay", "user"), ("copy_on_write", place.users()[0])):
        walk(place, tap, who, strategy)
        walk_closed(place, tap, strategy)


t.run(main)
