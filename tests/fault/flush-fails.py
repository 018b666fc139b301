#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 1800
"""Every flush of every operation fails once: the operation then says that it failed, or that recover must look, and never success.

After a flush that failed the kernel may have dropped the data, and reports success for the next flush: only the operation that was
told of the failure can act on it. A few flushes promise nothing, and may fail unnoticed (is_harmless(), REPLACED).
"""
import os
import sqlite3
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402

LOG, DATABASE = "sqlite fsync log", "sqlite fsync database"
FLUSH = "sync"  # part of the names of all calls that flush
# Of a repository and a SQLite database: how many flushes of an operation may fail unnoticed, since the file is given up then. It is the index
# of a repository that was put back, when only what git knows about its files is brought up to date: git looks at the files once more. A
# rollback that fails to put the repository inside in order before it looks for edits (three files, with the directory of each) goes on: it
# drops them.
REPLACED = {"recover": 1, "undo": 1, "rollback": 7}
EDIT = """set -e
echo new >app/file; echo added >app/more
cd svc; echo new >code; git commit -qam inside; echo built >output; cd ..
python3 -c "import sqlite3; d = sqlite3.connect('data/local.db'); d.execute('INSERT INTO people VALUES (2)'); d.commit()"
"""


class Kinds:
    """A directory, a git repository and a SQLite database in one sandbox: the same questions as faultlib's scenarios answer."""

    def __init__(self, place, who, program):
        self.place, self.who, self.program = place, who, program

    def fresh(self, stage):
        return KindsTrial(self, stage)

    def close(self):
        pass


class KindsTrial:
    must, reach, settle, side, strays, STAGES = f.Trial.must, f.Trial.reach, f.Trial.settle, f.Trial.side, f.Trial.strays, f.Trial.STAGES

    def __init__(self, scenario, stage):
        self.s = self
        self.edit_script = None
        place, who = scenario.place, scenario.who
        self.top = self.work = place.fresh("kinds", who)
        self.box = self
        self.inner = t.Box(place, who, program=scenario.program, dirs=[self.top + "/app"], state=self.top + "/state")
        self.name = self.inner.name
        self.must(self.inner.command(["sh", "-ec", "mkdir app svc data; echo old >app/file; cd svc; git init -q -b main .;"
                                      "git config user.email a@b.c; git config user.name a; echo old >code; echo output >.gitignore;"
                                      "git add .; git commit -qm first; cd ..; python3 -c \"import sqlite3; d = sqlite3.connect('data/local.db');"
                                      "d.execute('CREATE TABLE people (id INTEGER PRIMARY KEY)'); d.execute('INSERT INTO people VALUES (1)');"
                                      "d.commit()\""], cwd=self.top))
        self.first = self.head()
        self.reach(stage)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def new(self, **more):
        return self.inner.new("--git", self.top + "/svc", "--db", "sqlite:" + self.top + "/data/local.db", **more)

    def edit(self, _script, cwd):
        return self.inner.run("sh", "-c", EDIT, cwd=cwd)

    def head(self):
        return self.inner.command(["git", "rev-parse", "HEAD"], cwd=self.top + "/svc").stdout

    def read(self, name):
        try:
            with open(os.path.join(self.top, name), encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def sides(self):
        database = sqlite3.connect(self.top + "/data/local.db")
        rows = len(database.execute("SELECT id FROM people").fetchall())
        database.close()
        found = {(self.read("app/file"), self.read("app/more")): (("old", None), ("new", "added")),
                 (self.read("svc/code"), self.read("svc/output"), self.head() != self.first): (("old", None, False), ("new", "built", True)),
                 rows: (1, 2)}
        sides = ["old" if now == old else "new" if now == new else repr(now) for now, (old, new) in found.items()]
        return [sides[0], " and ".join(sorted(set(sides[1:])))]

    def abandon(self):
        self.inner.atoll("rm", "box", "--abandon")
        t.remove_tree(self.top)


def calls_of(scenario, stage, command, before):
    """The names of all counted calls of an operation, in order."""
    trial = scenario.fresh(stage)
    path = os.path.join(trial.top, "trace")
    try:
        before(trial)
        trial.must(command(trial.box, fault="count", program_environment={"ATOLL_FAULT_TRACE": path}))
        with open(path, encoding="ascii") as file:
            return [line.split(" ", 1)[1].strip() for line in file]
    finally:
        end(trial)


def is_harmless(calls, i):
    """A log that was flushed, and not written since, is flushed once more where a checkpoint begins. And what a checkpoint writes into
    a database is in its log too, which is kept, and used, until a checkpoint has succeeded."""
    return calls[i] == LOG and calls[i - 1] == LOG or calls[i] == DATABASE and LOG in calls[:i] and "sqlite unlink" not in calls[i:]


def fail(scenario, stage, command, before, number):
    """Lets that flush fail: whether the operation said success, and what is wrong otherwise."""
    trial = scenario.fresh(stage)
    try:
        before(trial)
        done = command(trial.box, fault="%d:EIO" % number, program_environment={"ATOLL_FAULT_ONLY": FLUSH})
        if done.returncode not in (0, 1, 7, 125):
            return False, "flush %d: %s" % (number, t.said(done))
        trial.settle()
        return done.returncode == 0, "flush %d: success was said: %s" % (number, t.said(done)) if done.returncode == 0 else None
    except f.Failure as failure:
        return False, "flush %d: %s" % (number, failure)
    finally:
        end(trial)


def end(trial):
    trial.box.atoll("rm", trial.box.name, "--abandon")
    trial.abandon()


def visit(tap, scenario, name, stage, command, before=lambda trial: None, unnoticed_allowed=0, durable=2):
    if not t.only(name):
        return
    calls = calls_of(scenario, stage, command, before)
    if stage != "nothing" or "new" in name:
        tap.check("%s: what it begins and what it decides is flushed to the state database" % name, calls.count(LOG) >= durable, calls.count(LOG))
    flushes = [i for i, call in enumerate(calls) if FLUSH in call]
    numbers = [number for number, i in enumerate(flushes, 1) if not is_harmless(calls, i)]
    results = t.parallel(lambda number: fail(scenario, stage, command, before, number), numbers)
    unnoticed = [text for success, text in results if success]
    wrong = [text for success, text in results if text and not success]
    if len(unnoticed) > unnoticed_allowed:
        wrong += unnoticed
    tap.check("%s: each of %d flushes fails, and it says so" % (name, len(results)), results and not wrong, *wrong[:6], "%d of them did not" % len(wrong))


def visit_recovery(tap, scenario, name, unnoticed_allowed):
    """A commit is killed just before its closing flush, so that recovery has all steps to take back."""
    def command(box, **more):
        return box.commit(**more)

    calls = calls_of(scenario, "edited", command, lambda trial: None)
    last = 1 + max(i for i, call in enumerate(calls) if call == "sys_rename")
    visit(tap, scenario, name, "edited", lambda box, **more: box.recover(**more),
          lambda trial: trial.box.commit(fault="%d:kill" % last), unnoticed_allowed, durable=0)


def visit_run(tap, place, who):
    """With --durable-workspace everything is on disk when the run is over."""
    scenario = f.Scenario(place, who, "overlay", place.faults_bin)
    visit(tap, scenario, "run with a durable workspace, %s" % who, "nothing", lambda box, **more: box.run("true", **more),
          lambda trial: (trial.must(trial.box.new("--durable-workspace")), trial.must(trial.box.edit(scenario.edit_script, trial.work))))
    scenario.close()


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    first = place.users()[0]
    scenarios = [("overlay, user", f.Scenario(place, "user", "overlay", place.faults_bin)),
                 ("copy_on_write, " + first, f.Scenario(place, first, "copy_on_write", place.faults_bin)),
                 ("git and SQLite, user", Kinds(place, "user", place.faults_bin))]
    ground = place.mount("btrfs", who="root", subvolumes=True) if place.is_root else None
    if not ground:
        tap.skip("flushes of a snapshot", "a btrfs cannot be made or mounted here")
    else:
        scenarios.append(("snapshot, root", f.Scenario(place, "root", "snapshot", place.faults_bin, ground=ground, root_times=False)))
    for label, scenario in scenarios:
        allowed = REPLACED if isinstance(scenario, Kinds) else {}
        for operation, (stage, command, _) in f.OPERATIONS.items():
            visit(tap, scenario, "%s, %s" % (operation, label), stage, command, unnoticed_allowed=allowed.get(operation, 0))
        if t.only("recover, " + label):
            visit_recovery(tap, scenario, "recover, " + label, allowed.get("recover", 0))
        scenario.close()
    visit_run(tap, place, "user")
    if ground:
        place.unmount(ground)


t.run(main)
