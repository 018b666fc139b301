#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""SQLite databases over long chains of edits, commits, undos and rollbacks, while somebody else writes now and then: the original, what the sandbox
sees, and what a diff counts are those of a model of dictionaries. The base and the clone are kept, moved or made anew on the way."""
import contextlib
import json
import os
import random
import sqlite3
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

RUN_SQL = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.executescript(sys.argv[2]); c.commit()"
SHOW = "import sqlite3,sys,json; print(json.dumps(sqlite3.connect(sys.argv[1]).execute('SELECT id, v FROM t').fetchall()))"
ROWS = 4000


class Chain(t.Box):
    """Somebody else writes rows with odd numbers, the sandbox those with even ones."""

    def __init__(self, place, who, seed, journal, wide, ground=None, **more):
        super().__init__(place, who, **more)
        self.random, self.log = random.Random(seed), []
        self.dir = place.fresh("data", who) if ground is None else os.path.join(ground, "data-%d" % seed)
        os.makedirs(self.dir, exist_ok=True)
        self.path = os.path.join(self.dir, "x.db")
        self.start = {i: "row %d %s" % (i, "." * (i % 7 * (300 if wide else 5))) for i in range(1, ROWS)}
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            db.execute("PRAGMA journal_mode=" + journal)
            db.execute("CREATE TABLE t(id INTEGER PRIMARY KEY, v)")
            db.executemany("INSERT INTO t VALUES(?,?)", self.start.items())
            db.execute("CREATE INDEX i ON t(v)")
            db.commit()
        if place.is_root:
            t.give(self.dir, place.uid(who))
        self.original, self.base, self.inside = (dict(self.start) for _ in range(3))
        self.landed = []

    def begin(self, **how):
        return self.new("--db", "sqlite:" + self.path, **how)

    def count(self, operation):
        """How many system calls that change something an operation makes."""
        counter = self.environment["ATOLL_STATE_DIR"] + ".count"
        done = operation(fault="count", program_environment={"ATOLL_FAULT_COUNT": counter})
        with open(counter, encoding="ascii") as file:
            return done, int(file.read())

    def edits(self, odd):
        """SQL, and what it does to a dictionary."""
        script, changes = [], []
        for _ in range(self.random.choice((1, 1, 3, 40))):
            key = self.random.randrange(1, ROWS // 2) * 2 + odd
            value = None if self.random.random() < 0.3 else "new %d" % self.random.randrange(10 ** 6)
            script.append("DELETE FROM t WHERE id=%d;" % key if value is None else "INSERT OR REPLACE INTO t VALUES(%d,'%s');" % (key, value))
            changes.append((key, value))
        return "BEGIN;" + "".join(script) + "COMMIT;", changes

    @staticmethod
    def apply(state, changes):
        for key, value in changes:
            if value is None:
                state.pop(key, None)
            else:
                state[key] = value

    def difference(self):
        return {key: (self.base.get(key), self.inside.get(key)) for key in set(self.base) | set(self.inside)
                if self.base.get(key) != self.inside.get(key)}

    def take_back(self):
        back = [(key, old) for key, (old, _) in self.landed.pop().items()]
        self.apply(self.original, back)
        self.apply(self.base, back)

    def do_inside(self):
        script, changes = self.edits(0)
        self.apply(self.inside, changes)
        return self.run(t.PYTHON, "-I", "-c", RUN_SQL, self.path, script)

    def do_outside(self):
        script, changes = self.edits(1)
        self.apply(self.original, changes)
        return self.command([t.PYTHON, "-I", "-c", RUN_SQL, self.path, script])

    def do_commit(self):
        edits = self.difference()
        if edits:
            self.apply(self.original, [(key, new) for key, (_, new) in edits.items()])
            self.landed.append(edits)
            self.base, self.inside = dict(self.original), dict(self.original)
        return self.commit()

    def do_undo(self):
        if not self.landed:
            return None
        self.take_back()
        return self.undo()

    def do_rollback(self):
        if not self.difference() and self.landed:
            self.take_back()
        self.base, self.inside = dict(self.original), dict(self.original)
        return self.rollback("--landed")

    def check(self, what):
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            original = dict(db.execute("SELECT id, v FROM t"))
            sound = db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        seen = dict(json.loads(self.run(t.PYTHON, "-I", "-c", SHOW, self.path).stdout or b"[]"))
        counted = sum(len(part.get("rows") or []) for part in json.loads(self.diff("--json").stdout))
        if original == self.original and seen == self.inside and counted == len(self.difference()) and sound:
            return None
        return "%s after %s: original %s, inside %s, %d counted, %d wanted" % (
            what, self.log[-8:], original == self.original, seen == self.inside, counted, len(self.difference()))

    def go(self, steps):
        weights = (("inside", 6), ("outside", 3), ("commit", 4), ("undo", 2), ("rollback", 1))
        for _ in range(steps):
            what = self.random.choices([w[0] for w in weights], [w[1] for w in weights])[0]
            done = getattr(self, "do_" + what)()
            self.log.append(what)
            if done is not None and done.returncode != 0:
                return "%s after %s: %s" % (what, self.log[-8:], t.said(done))
            found = self.check(what)
            if found:
                return found
        return None


def chains(place, tap, seeds, ground=None, kind="here"):
    for seed in seeds:
        who = place.users()[seed % len(place.users())] if ground is None else "root"
        journal = "WAL" if seed // 2 % 2 else "DELETE"
        chain = Chain(place, who, seed, journal, seed % 3 == 0, ground)
        made = chain.begin()
        found = chain.go(80 if t.TORTURE else 14) if made.returncode == 0 else t.said(made)
        tap.check("a chain with %s, %s, seed %d: as the model, %s" % (journal, kind, seed, who), not found, found)
        chain.drop()


def interrupted(place, tap, who):
    """A creation, and the first run, which makes the clone, killed or let fail at points all over: told truly, and whole afterwards."""
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False)
        return
    chain = Chain(place, who, 1, "WAL", False, program=place.faults_bin)
    _, made = chain.count(chain.begin)
    _, ran = chain.count(lambda **how: chain.run("true", **how))
    chain.rm("--force")
    found = []
    for what, number in (("new", made), ("run", ran)):
        for turn, point in enumerate(range(1, number + 1, 1 if t.TORTURE else max(1, number // 6))):
            fault = "%d:%s" % (point, ("kill", "ENOSPC", "EIO")[turn % 3])
            done = chain.begin(fault=fault) if what == "new" else chain.begin()
            if what == "run":
                done = chain.run("true", fault=fault)
            chain.recover()
            if b"box" not in chain.atoll("list").stdout:
                done = chain.begin()
            wrong = chain.check("%s with %s: %s" % (what, fault, t.said(done)))
            if wrong:
                found.append(wrong)
            chain.rm("--force")
    tap.check("new and the first run, interrupted at points of %d and %d, %s" % (made, ran, who), not found, *found)
    chain.drop()


def main(place, tap):
    chains(place, tap, range(60 if t.TORTURE else 8))
    for kind in ("xfs",) if place.is_root else ():
        ground = place.mount(kind)
        tap.check("a file system that shares blocks: " + kind, ground is not None)
        if ground:
            chains(place, tap, range(100, 120 if t.TORTURE else 102), ground, kind)
            place.unmount(ground)
    for who in place.users():
        interrupted(place, tap, who)


t.run(main)
