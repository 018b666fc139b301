#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""The contract of the strategies that serve no directory, and of one that does: the same questions to each kind of resource.

contract.h runs over every strategy for directories; test-states.c sees that each of the others is named here.
"""
import os
import sqlite3
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402


class Kind:
    """name, the strategy that serves it, and what it can do."""

    can_undo = can_conflict = True

    def __init__(self, top, box, server):
        self.top, self.box, self.server = top, box, server

    def path(self, name):
        return os.path.join(self.top, name)

    def do(self, command):
        done = self.box.command(["sh", "-ec", command], cwd=self.top)
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        return done.stdout.decode().strip()


class Directory(Kind):
    name, strategy = "directory", "overlay"

    def make(self):
        self.do("mkdir dir; echo old > dir/file")
        return ["--dir", self.path("dir")]

    def edit(self):
        return "echo new > dir/file"

    def foreign(self):
        self.do("echo theirs > dir/file")

    def look(self):
        return {"old": "old", "new": "new"}.get(self.do("cat dir/file"), "neither")


class File(Kind):
    name, strategy = "file", "overlay"

    def make(self):
        self.do("mkdir dir; echo old > dir/file; echo beside > dir/other")
        return ["--file", self.path("dir/file")]

    def edit(self):
        return "echo new > dir/file"

    def foreign(self):
        self.do("echo theirs > dir/file")

    def look(self):
        return {"old": "old", "new": "new"}.get(self.do("cat dir/file"), "neither")


class Repository(Kind):
    name, strategy = "git", "git_worktree"

    def make(self):
        self.do("git init -q -b main svc; cd svc; git config user.email a@b.c; git config user.name a; echo old > code; git add .; git commit -qm first")
        return ["--git", self.path("svc")]

    def edit(self):
        return "cd svc; echo new > code; git commit -qam inside"

    def foreign(self):
        self.do("cd svc; echo theirs > code; git commit -qam theirs")

    def look(self):
        found = self.do("cd svc; git log -1 --format=%s; cat code; git status --porcelain")
        return {"first\nold": "old", "inside\nnew": "new"}.get(found, "neither")


class Sqlite(Kind):
    name, strategy = "SQLite", "transaction_rollback"

    def sql(self, text):
        database = sqlite3.connect(self.path("data/db"))
        with database:
            found = database.execute(text).fetchall()
        database.close()
        return found

    def make(self):
        self.do("mkdir data; python3 -c \"import sqlite3; d = sqlite3.connect('data/db'); d.execute('CREATE TABLE t (id INTEGER PRIMARY KEY, v)');"
                "d.execute('INSERT INTO t VALUES (1, 0)'); d.commit()\"")
        return ["--db", "sqlite:" + self.path("data/db")]

    def edit(self):
        return "python3 -c \"import sqlite3; d = sqlite3.connect('data/db'); d.execute('UPDATE t SET v = 1'); d.commit()\""

    def foreign(self):
        self.sql("UPDATE t SET v = 2")

    def look(self):
        return {0: "old", 1: "new"}.get(self.sql("SELECT v FROM t")[0][0], "neither")


class Postgres(Kind):
    """What has landed cannot be taken back; and whoever else wants to change the same row waits for the transaction's end."""

    name, strategy = "PostgreSQL", "transaction_rollback"
    can_undo = can_conflict = False
    serial = 0

    def make(self):
        Postgres.serial += 1
        self.table = "kinds%d" % Postgres.serial
        self.server.sql("CREATE TABLE %s (id int PRIMARY KEY, v int); INSERT INTO %s VALUES (1, 0); GRANT ALL ON %s TO agent" % (3 * (self.table,)))
        return ["--db", "postgresql://agent@/shop?host=%s&port=%d" % (self.server.home, pg.PORT)]

    def edit(self):
        return "psql -XAtqc 'UPDATE %s SET v = 1'" % self.table

    def look(self):
        return {"0": "old", "1": "new"}.get(self.server.sql("SELECT v FROM %s" % self.table), "neither")


class Scene:
    def __init__(self, place, tap, who, kind, server):
        self.tap = tap
        self.top = place.fresh("kind", who)
        self.box = t.Box(place, who, state=self.top + "/state", program=place.faults_bin or place.bin)
        self.box.counts_kills = False
        self.kind = kind(self.top, self.box, server)
        self.label = "%s, %s" % (kind.name, who)
        self.made = self.box.new(*self.kind.make())

    def edit(self):
        return self.box.run("sh", "-ec", self.kind.edit(), cwd=self.top)

    def edits(self):
        return self.box.diff("--name-status").stdout

    def check(self, name, good, *diagnosis):
        self.tap.check("%s, %s" % (name, self.label), good, self.kind.look(), *[t.said(d) if hasattr(d, "stderr") else d for d in diagnosis])

    def close(self):
        self.box.atoll("rm", "box", "--abandon")
        t.remove_tree(self.top)


def lands(s):
    done = s.edit()
    s.check("a run changes nothing outside, and diff shows it", done.returncode == 0 and s.kind.look() == "old" and s.edits(), s.made, done)
    done = s.box.commit("--dry-run")
    s.check("a dry run changes nothing", done.returncode == 0 and s.kind.look() == "old" and s.edits(), done)
    done = s.box.commit()
    s.check("commit lands the edit", done.returncode == 0 and s.kind.look() == "new" and not s.edits(), done)
    done = s.box.commit()
    s.check("a second commit has nothing to do", done.returncode == 0 and b"nothing to commit" in done.stdout and s.kind.look() == "new", done)
    done = s.box.undo()
    if s.kind.can_undo:
        s.check("undo takes it back and keeps the edit", done.returncode == 0 and s.kind.look() == "old" and s.edits(), done)
    else:
        s.check("undo is refused, and changes nothing", done.returncode == 4 and s.kind.look() == "new", done)


def rolls_back(s):
    s.edit()
    done = s.box.rollback()
    s.check("rollback drops the edit", done.returncode == 0 and s.kind.look() == "old" and not s.edits(), done)
    done = s.edit()
    landed = s.box.commit()
    s.check("and the sandbox works again", done.returncode == 0 and landed.returncode == 0 and s.kind.look() == "new", done, landed)


def commits_nothing(s):
    done = [s.box.commit(), s.box.rollback()]
    s.check("a commit without changes, and then a rollback, touch nothing", not any(d.returncode for d in done) and s.kind.look() == "old", *done)


def conflicts(s):
    if not s.kind.can_conflict:
        return
    s.edit()
    s.kind.foreign()
    done = s.box.commit()
    s.check("somebody else's edit is a conflict, and stays", done.returncode == 3 and s.kind.look() == "neither" and s.edits(), done)


def recovers(s):
    """Killed at every fifth call after the plan is on record, until a kill comes too late."""
    number, sides = 1, set()
    while number < 400:
        s.edit()
        done = s.box.commit(fault="%d:kill" % number, program_environment={"ATOLL_FAULT_FROM": "apply"})
        first = s.box.recover()
        side = s.kind.look()
        second = s.box.recover()
        if first.returncode or second.returncode or side not in ("old", "new") or s.kind.look() != side:
            s.check("a commit that is killed is recovered to one side", False, number, done, first, second)
            return
        sides.add(side)
        killed = done.returncode in (-9, 137)
        if not killed or side == "new":
            break
        number += 5
    s.check("a commit that is killed is recovered to one side", sides == {"old", "new"} and
            (killed or done.returncode == 0), sides, done)


def main(place, tap):
    server = pg.Server(place) if pg.binaries() else None
    if server:
        server.sql("CREATE ROLE agent LOGIN")
    try:
        for kind in (Directory, File, Repository, Sqlite, Postgres):
            if kind is Postgres and not server:
                tap.skip("the contract of PostgreSQL", "PostgreSQL is not installed")
                continue
            for who in place.users():
                for part in (lands, rolls_back, commits_nothing, conflicts, recovers):
                    if part is recovers and not place.faults_bin:
                        tap.check("the fault-injection build is there, %s, %s" % (kind.name, who), False,
                                  "ATOLL_FAULTS_BIN is not set")
                        continue
                    s = Scene(place, tap, who, kind, server)
                    part(s)
                    s.close()
    finally:
        if server:
            server.stop()


t.run(main)
