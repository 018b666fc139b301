# SPDX-License-Identifier: Apache-2.0
"""One scenario with every kind of change over two directories, and the walk over all fault points of an operation.

For each operation (commit, undo, rollback, recover, new, rm) and each fault point the same questions are asked:
after `atoll recover` both directories are as before the operation or both as after it (full manifests), a second recover
changes nothing, the sandbox goes on to work, and removing it leaves nothing. Points are visited in chains: several faults in
a row hit the same sandbox, which must come out of each able to do the next; every chain begins with a fresh sandbox, and in
the torture run each chain is one point long.
"""
import itertools
import os
import re
import sqlite3
import subprocess
import time

import atolltest as t
import isolation
import manifest as mf

CHAIN = 1 if t.TORTURE else 16
T0 = 1000000000 * 10**9


def _touched(script):
    """Fixed times for what a script touched and for the directories around it, deepest first."""
    paths = set()
    for operation in script:
        names = operation[2:3] if operation[0] in ("symlink", "retarget") else operation[1:2]
        if operation[0] in ("rename", "link"):
            names = operation[1:3]
        if operation[0] == "become" and operation[2] == "dir":
            names = [operation[1] + "/inside"]
        for name in names:
            while name:
                paths.add(name)
                name = os.path.dirname(name)
    return paths


def _stamps(script, gone):
    paths = [p for p in _touched(script) if p not in ("a", "b") and not any(t.is_below(p, g) for g in gone)]
    order = sorted(paths, key=lambda p: (-p.count("/"), p)) + ["a", "b"]
    return [["utime", path, T0 + 10**9 * 1000 + index * 1234567 + 89] for index, path in enumerate(order)]


ODD = "\xff\nodd, -x:\\"
BASE = [
    ["mkdir", "a", 0o755], ["mkdir", "b", 0o750],
    ["mkdir", "a/keep", 0o755], ["create", "a/keep/untouched", "same\n", 0o644], ["mkdir", "a/keep/sub", 0o700],
    ["create", "a/keep/sub/nested", "nested\n", 0o600],
    ["create", "a/mod.txt", "old text\n" * 40, 0o644], ["create", "a/big.bin", "B" * 20000, 0o640],
    ["create", "a/rep.txt", "replace me", 0o644], ["create", "a/del.txt", "delete me", 0o644],
    ["mkdir", "a/deldir", 0o755], ["create", "a/deldir/x", "x", 0o644], ["mkdir", "a/deldir/y", 0o755],
    ["create", "a/deldir/y/z", "z", 0o600],
    ["create", "a/f2d", "file", 0o644], ["mkdir", "a/d2f", 0o755], ["create", "a/d2f/q", "q", 0o644],
    ["create", "a/f2l", "file", 0o644], ["symlink", "mod.txt", "a/l2f"], ["symlink", "keep", "a/l2d"],
    ["mkdir", "a/d2l", 0o711], ["create", "a/d2l/r", "r", 0o644], ["symlink", "nowhere", "a/link"],
    ["create", "a/chm", "mode", 0o644], ["mkdir", "a/chd", 0o755], ["create", "a/xat", "attr", 0o644],
    ["setxattr", "a/xat", "user.old", "1"], ["create", "a/tim", "time", 0o644], ["create", "a/ren", "renamed\n", 0o644],
    ["create", "a/h1", "linked", 0o644], ["link", "a/h1", "a/h2"],
    # Names of one file within and beside a directory that goes as a whole: one goes with it, one stays.
    ["create", "a/hgo", "both names go", 0o644], ["link", "a/hgo", "a/deldir/hgo"],
    ["create", "a/hstay", "one name stays", 0o644], ["link", "a/hstay", "a/deldir/hstay"],
    ["mkdir", "a/ro", 0o755], ["create", "a/ro/in", "read only place", 0o444], ["chmod", "a/ro", 0o555],
    ["create", "a/" + ODD, "odd name", 0o644],
    ["create", "b/mod", "second directory", 0o644], ["create", "b/del", "gone soon", 0o644],
    ["mkdir", "b/sub", 0o755], ["create", "b/sub/f", "f", 0o644], ["symlink", "sub/f", "b/ln"],
    ["stamp_all", 1000000000],
]
_EDIT = [
    ["append", "a/mod.txt", "new line\n"], ["overwrite", "a/big.bin", 9000, "changed in place"],
    ["replace", "a/rep.txt", "replaced", 0o600], ["unlink", "a/del.txt"], ["unlink", "a/hgo"], ["remove", "a/deldir"],
    ["become", "a/f2d", "dir", "now inside"], ["become", "a/d2f", "file", "now a file"], ["become", "a/f2l", "link", "keep/untouched"],
    ["become", "a/l2f", "file", "was a link"], ["become", "a/l2d", "dir", "was a link"], ["become", "a/d2l", "link", "keep"],
    ["retarget", "keep/untouched", "a/link"],
    ["chmod", "a/chm", 0o750], ["chmod", "a/chd", 0o700], ["setxattr", "a/xat", "user.new", "value"],
    ["removexattr", "a/xat", "user.old"], ["utime", "a/tim", 5], ["rename", "a/ren", "a/keep/ren2"],
    ["append", "a/keep/sub/nested", "more\n"],
    ["create", "a/new1", "two names", 0o644], ["link", "a/new1", "a/new2"],
    ["mkdir", "a/adddir", 0o755], ["mkdir", "a/adddir/sub", 0o755], ["create", "a/adddir/sub/file", "added", 0o644],
    ["link", "a/adddir/sub/file", "a/hnew"], ["create", "a/adddir/two", "linked within and beside", 0o644],
    ["link", "a/adddir/two", "a/adddir/sub/three"], ["link", "a/adddir/two", "a/0four"],
    ["mkdir", "a/empty", 0o755],
    ["chmod", "a/ro", 0o755], ["replace", "a/ro/in", "changed below a read-only directory", 0o444],
    ["create", "a/ro/added", "added there", 0o644], ["chmod", "a/ro", 0o555],
    ["append", "a/" + ODD, ", changed"], ["create", "a/add\nodd\xfe", "odd and new", 0o644],
    ["append", "b/mod", ", changed"], ["unlink", "b/del"], ["create", "b/new", "new here", 0o644],
    ["become", "b/sub", "file", "was a directory"], ["retarget", "new", "b/ln"], ["chmod", "b", 0o755],
]
EDIT = _EDIT + _stamps([op for op in _EDIT if op[0] not in ("utime",)],
                       ["a/del.txt", "a/deldir", "a/hgo", "a/ren", "b/del", "b/sub/f"])
# A directory inside another one, and single files, are resources of their own: nothing is renamed from one to the other.
_MIXED = [op for op in _EDIT if op[0] != "rename" and op[1] != "b" and (not op[1].startswith("b/") or op[1] in ("b/mod", "b/del")) and
          op[1:] != ["new", "b/ln"]]
MIXED_EDIT = [op for op in _MIXED + _stamps([op for op in _MIXED if op[0] != "utime"], ["a/del.txt", "a/deldir", "a/hgo", "b/del"]) if op[1] != "b"]
SHAPES = {  # directories, files, what is done to them
    "directories": (["a", "b"], [], EDIT),
    "a nested directory and files": (["a", "a/keep/sub"], ["b/mod", "b/del"], MIXED_EDIT),
}


class Scenario:
    """Templates and expected manifests for one user and one strategy, and fresh sandboxes over copies of them."""

    def __init__(self, place, who, strategy, program, box=t.Box, ground=None, shape="directories", root_times=True):
        """box: the class that starts the program; another one may inject its faults from outside. ground: a directory on another
        file system for originals and state. root_times: those of the directories themselves are compared too."""
        self.ground, self.root_times = ground, root_times
        self.untimed = ()  # directories whose times are not compared
        self.hits = self.misses = 0
        self.dirs, self.files, edit = SHAPES[shape]
        self.place, self.who, self.strategy, self.program, self.box = place, who, strategy, program, box
        self.template = t.build_tree(place, who, BASE, hint="template", below=ground)
        edited = place.fresh("edited", who, ground)
        subprocess.run(["cp", "-a", self.template + "/.", edited], check=True)
        helper = t.Box(place, who, program=program)
        self.edit_script = helper.script(edit)
        done = helper.edit_directly(self.edit_script, edited)
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        self.old = self.manifests(self.template)
        self.new = self.manifests(edited)
        self.clean = None
        t.remove_tree(edited)

    def manifests(self, work):
        found = [mf.manifest(os.path.join(work, d)) for d in "ab"]
        if self.files:  # the directory around single files is not theirs
            found[1][b"."]["mtime"] = None
        for entries in () if self.root_times else found:
            entries[b"."]["mtime"] = None
        for entries in found:
            for name in set(self.untimed) & set(entries):
                entries[name]["mtime"] = None
        return found

    def leave_out_times(self, names):
        self.untimed = names
        for entries in self.old + self.new:
            for name in set(names) & set(entries):
                entries[name]["mtime"] = None

    def close(self):
        t.remove_tree(self.template)

    def fresh(self, stage):
        return Trial(self, stage)


class Trial:
    """A sandbox brought to a stage: "nothing", "made", "edited" or "committed"."""

    STAGES = ("nothing", "made", "edited", "committed")

    def __init__(self, scenario, stage):
        self.s = scenario
        self.top = scenario.place.fresh("trial", scenario.who, scenario.ground)
        self.work = os.path.join(self.top, "work")
        subprocess.run(["cp", "-a", scenario.template, self.work], check=True)
        for name in scenario.dirs if scenario.ground in scenario.place.subvolumes else ():
            t.remove_tree(os.path.join(self.work, name))
            scenario.place.copy(os.path.join(scenario.template, name), os.path.join(self.work, name), scenario.ground)
        self.box = scenario.box(scenario.place, scenario.who, scenario.strategy, state=self.top + "/state", program=scenario.program,
                                dirs=[os.path.join(self.work, d) for d in scenario.dirs],
                                files=[os.path.join(self.work, f) for f in scenario.files])
        self.reach(stage)

    def must(self, done):
        if done.returncode != 0:
            raise Failure("preparing: " + " ".join(map(str, done.args[1:4])) + ": " + t.said(done))

    def reach(self, stage):
        rank = self.STAGES.index(stage)
        if rank >= 1:
            self.must(self.box.new())
        if rank >= 2:
            self.must(self.box.edit(self.s.edit_script, self.work))
        if rank >= 3:
            self.must(self.box.commit())

    def sides(self):
        """For each directory "old", "new" or the differences from both."""
        result = []
        for index, now in enumerate(self.s.manifests(self.work)):
            if now == self.s.old[index]:
                result.append("old")
            elif now == self.s.new[index]:
                result.append("new")
            else:
                result.append("neither: from old %s; from new %s" % (mf.differences(self.s.old[index], now, 6),
                                                                     mf.differences(self.s.new[index], now, 6)))
        return result

    def side(self):
        both = self.sides()
        if both[0] != both[1] or both[0] not in ("old", "new"):
            raise Failure("mixed: " + " | ".join(both))
        return both[0]

    def strays(self):
        """Staging below the state directory that no commit or undo on record needs."""
        if not os.path.exists(self.box.state + "/atoll.db"):
            return []
        database = sqlite3.connect(self.box.state + "/atoll.db")
        needed = {name for (name,) in database.execute("SELECT dir FROM op WHERE NOT (kind = 0 AND (phase = 3 OR taken_back))")}
        database.close()
        staging = re.compile("op-[0-9a-f]{16}")
        return [name for name in t.residue(self.box.state)
                if staging.match(os.path.basename(name)) and staging.match(os.path.basename(name)).group() not in needed]

    def settle(self):
        """Recover, look, recover again, look: the two looks must agree."""
        first = self.box.recover()
        end = time.monotonic() + 60
        while first.returncode == 6 and time.monotonic() < end:  # the lock of a killed process goes with the last of its fds
            time.sleep(0.02)
            first = self.box.recover()
        if first.returncode != 0:
            raise Failure("recover: " + t.said(first))
        side = self.side()
        shared = isolation.shared([os.path.join(self.work, name) for name in "ab"], self.box.state)
        if shared:
            raise Failure("not isolated: " + "; ".join(shared[:4]))
        if self.strays():
            raise Failure("staging stays after recover: %s" % self.strays()[:4])
        second = self.box.recover()
        if second.returncode != 0:
            raise Failure("second recover: " + t.said(second))
        if self.side() != side:
            raise Failure("the second recover changed something: %s, then %s" % (side, self.side()))
        return side

    def exists(self):
        done = self.box.atoll("show", self.box.name)
        if done.returncode not in (0, 5):
            raise Failure("show: " + t.said(done))
        return done.returncode == 0

    def pending(self):
        done = self.box.diff("--name-status")
        if done.returncode != 0:
            raise Failure("diff: " + t.said(done))
        return len(done.stdout.splitlines())

    def leftovers(self):
        names = [n for n in t.residue(self.top) if not t.is_below(n, "work/a") and not t.is_below(n, "work/b")]
        return [n for n in names if not n.endswith(("-wal", "-shm"))]

    def drop(self):
        """The sandbox goes; what it leaves is compared with what a sandbox without faults leaves."""
        if self.exists():
            self.must(self.box.rm())
        left = self.leftovers()
        if self.s.clean is None:
            self.s.clean = left
        extra = sorted(set(left) - set(self.s.clean))
        t.remove_tree(self.top)
        if extra:
            raise Failure("left behind after rm: %s" % extra[:10])

    def abandon(self):
        t.remove_tree(self.top)


class Failure(Exception):
    """What a trial found wrong."""


def is_kill(fault):
    return "kill" in fault.lower()


def struck(trial, done, fault):
    """Counts kills that hit, and those after which the command had its ordinary end: only the first kind tests anything."""
    if is_kill(fault):
        hit = done.returncode in (-9, 137)
        trial.s.hits += hit
        trial.s.misses += not hit
    return done


def truthful(done, side, before, after, what):
    """In the fail-once test the exit status says what happened; 7 says that recover must look."""
    code = done.returncode
    if b"cannot write to standard output" in done.stderr:
        return  # that is what failed, and what is said
    if code == 0 and side != after:
        raise Failure("%s said success, but the directories are %s: %s" % (what, side, t.said(done)))
    if code not in (0, 7) and code > 0 and side != before:
        raise Failure("%s said failure, but the directories are %s: %s" % (what, side, t.said(done)))


def _changing(trial, fault, what, before, after):
    """commit, undo or rollback from committed, with a fault in it; then recovery. Returns the side it ended on."""
    done = struck(trial, getattr(trial.box, what)(*(["--landed"] if what == "rollback" else []), fault=fault), fault)
    if not is_kill(fault) and done.returncode not in (7, 0):
        truthful(done, trial.side(), before, after, what)
    if done.returncode not in (-9, 137, 0, 1, 2, 3, 4, 6, 7, 127):  # 127: the dynamic linker itself was hit
        raise Failure("%s ended with %s" % (what, t.said(done)))
    if done.returncode == 0:
        truthful(done, trial.side(), before, after, what)
    return trial.settle()


def commit_points(trial, faults):
    for fault in faults:
        yield fault
        if _changing(trial, fault, "commit", "old", "new") == "new":
            trial.must(trial.box.undo())
            if trial.side() != "old":
                raise Failure("undo after the recovered commit gave " + trial.side())
    trial.must(trial.box.commit())
    if trial.side() != "new":
        raise Failure("the commit after recovery left the directories " + trial.side())


def undo_points(trial, faults):
    for fault in faults:
        yield fault
        if _changing(trial, fault, "undo", "new", "old") == "old":
            trial.must(trial.box.commit())
            if trial.side() != "new":
                raise Failure("commit after the recovered undo gave " + trial.side())
    trial.must(trial.box.undo())
    if trial.side() != "old":
        raise Failure("the undo after recovery left the directories " + trial.side())


def rollback_points(trial, faults):
    """Rollback of a landed commit: taken back, and its edits dropped."""
    for fault in faults:
        yield fault
        if _changing(trial, fault, "rollback", "new", "old") == "new":
            continue
        if trial.pending():
            trial.must(trial.box.rollback())
        if trial.pending():
            raise Failure("a rollback that said success left edits")
        trial.must(trial.box.edit(trial.s.edit_script, trial.work))
        trial.must(trial.box.commit())
        if trial.side() != "new":
            raise Failure("run and commit after the recovered rollback gave " + trial.side())


def drop_points(trial, faults):
    """Rollback of edits that were never committed: the originals stay. The edits of each directory are all there or all gone; those of one
    alone are there only if the rollback failed and said so."""
    full = trial.pending()
    for fault in faults:
        yield fault
        done = struck(trial, trial.box.rollback(fault=fault), fault)
        if trial.settle() != "old":
            raise Failure("a rollback of uncommitted edits changed an original")
        left = trial.pending()
        if left not in (0, full) and done.returncode not in (0, -9, 137) and b"are still in the sandbox" in done.stderr:
            trial.must(trial.box.rollback())
            left = trial.pending()
        if left not in (0, full):
            raise Failure("a rollback left %d of %d edits: %s" % (left, full, t.said(done)))
        if done.returncode == 0 and left:
            raise Failure("rollback said success and left the edits: " + t.said(done))
        if left == 0:
            trial.must(trial.box.edit(trial.s.edit_script, trial.work))
            if trial.pending() != full:
                raise Failure("after a rollback the same edits give another change set")


def new_points(trial, faults):
    for fault in faults:
        yield fault
        done = struck(trial, trial.box.new(fault=fault), fault)
        if trial.settle() != "old":
            raise Failure("new changed an original")
        there = trial.exists()
        if done.returncode == 0 and not there or done.returncode > 0 and there:
            raise Failure("new ended with %s, but the sandbox is %s" % (t.said(done), "there" if there else "not there"))
        if there:  # what is there after the recovery was made completely
            trial.must(trial.box.run("true", cwd=trial.work))
            trial.must(trial.box.rm())
    trial.reach("committed")
    if trial.side() != "new":
        raise Failure("a sandbox made after the crashes committed to " + trial.side())


def rm_points(trial, faults):
    for fault in faults:
        yield fault
        if not trial.exists():
            trial.reach("made")
        side = trial.side()
        done = struck(trial, trial.box.rm(fault=fault), fault)
        if trial.settle() != side:
            raise Failure("rm changed an original")
        there = trial.exists()
        if done.returncode == 0 and there:
            raise Failure("rm said success and the sandbox is there: " + t.said(done))
        if there:  # nothing of it has gone
            trial.must(trial.box.run("true", cwd=trial.work))


def recover_points(crash):
    """A crash inside a commit at the point `crash`, and then faults inside its recovery."""
    def points(trial, faults):
        for fault in faults:
            yield fault
            trial.box.commit(fault=crash)
            done = struck(trial, trial.box.recover(fault=fault), fault)
            if not is_kill(fault) and done.returncode == 0:
                trial.side()
            if trial.settle() == "new":
                trial.must(trial.box.undo())
                if trial.side() != "old":
                    raise Failure("undo after a recovery with a fault gave " + trial.side())
    return points


OPERATIONS = {  # name: (stage the sandbox is brought to, the command that is counted, the walk)
    "commit": ("edited", lambda b, **m: b.commit(**m), commit_points),
    "undo": ("committed", lambda b, **m: b.undo(**m), undo_points),
    "rollback": ("committed", lambda b, **m: b.rollback("--landed", **m), rollback_points),
    "rollback of edits": ("edited", lambda b, **m: b.rollback(**m), drop_points),
    "new": ("nothing", lambda b, **m: b.new(**m), new_points),
    "rm": ("committed", lambda b, **m: b.rm(**m), rm_points),
}


def count(scenario, stage, command, before=None):
    """How many fault points a command passes."""
    trial = scenario.fresh(stage)
    if before:
        before(trial)
    path = os.path.join(trial.top, "count")
    done = command(trial.box, fault="count", program_environment={"ATOLL_FAULT_COUNT": path})
    try:
        if done.returncode != 0:
            raise Failure("the command that is to be counted: " + t.said(done))
        with open(path, encoding="ascii") as file:
            number = int(file.read().split()[0])
        os.unlink(path)
        trial.drop()
        return number
    except FileNotFoundError:
        raise Failure("no count was written: " + t.said(done)) from None
    finally:
        trial.abandon()


def walk(scenario, stage, points, faults, workers=2, chain_size=CHAIN, counts_hits=True):
    """Visits all faults in chains; returns (how many were visited, what was found wrong). A chain's later commands may pass fewer points than
    the one that was counted; more than a tenth of the kills may not be lost that way. counts_hits: a kill that hit ends the command itself."""
    faults = list(faults)
    scenario.hits = scenario.misses = 0
    chains = [faults[i:i + chain_size] for i in range(0, len(faults), chain_size)]

    def one(chain):
        at, found = "preparing", []
        trial = None
        try:
            trial = scenario.fresh(stage)
            for at in points(trial, chain):
                pass
            at = "after %s" % chain[-1]
            trial.drop()
        except (Failure, subprocess.TimeoutExpired) as failure:
            found.append("%s (chain %s…): %s" % (at, chain[0], failure))
        finally:
            if trial:
                trial.abandon()
        return found

    found = list(itertools.chain.from_iterable(t.parallel(one, chains, workers)))
    if counts_hits and scenario.misses * 10 > scenario.hits + scenario.misses:
        found.append("%d of %d kills did not hit" % (scenario.misses, scenario.hits + scenario.misses))
    return len(faults), found
