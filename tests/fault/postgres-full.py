#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""A full disk under the process that holds a PostgreSQL transaction, at each of its calls, and a commit that takes longer than that transaction may."""
import os
import shutil
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402
import stepped  # noqa: E402
from several import World, add_database  # noqa: E402


def full(w, number):
    """What the environment of atoll must have, so that the nth call of the process that holds the transaction finds the disk full."""
    place = os.path.join(w.top, "libexec")
    os.makedirs(place, exist_ok=True)
    path = os.path.join(place, "atoll-postgres")
    beside = os.path.dirname(os.environ["ATOLL_FAULTS_BIN"])
    program = next(p for p in (os.path.join(beside, "atoll-postgres"), os.path.join(beside, "..", "hold", "atoll-postgres")) if os.path.exists(p))
    program = shutil.copy(program, os.path.join(place, "real"))  # where everybody may start it
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\n[ \"$1\" != hold ] || export ATOLL_FAULT=%d:ENOSPC\nexec '%s' \"$@\"\n" % (number, program))
    os.chmod(path, 0o755)
    return {"ATOLL_LIBEXEC": place}


def visit(place, who, bases, number):
    """Run and commit with it; what fails can be repeated when there is room again. What is wrong, and what failed."""
    w = World(place, who, bases)
    wrong, failed = [], ""
    ran = w.inside("echo -n new >file", *[w.psql(i, "INSERT INTO %s VALUES (2)" % w.table) for i in range(len(bases))],
                   program_environment=full(w, number))
    if ran.returncode != 0:
        failed = "run"
        if b"No space" not in ran.stderr or w.lost() or not w.all("old"):
            wrong.append("run: %s, lost %s" % (t.said(ran), w.lost()))
        w.edit()
    done = w.box.commit()
    if done.returncode != 0:
        failed = "commit"
        if b"No space" not in done.stderr or w.lost() or not w.all("old"):
            wrong.append("commit: %s, lost %s, stands %s" % (t.said(done), w.lost(), w.sides()))
        done = w.box.commit()
    if done.returncode != 0 or not w.all("new"):
        wrong.append("at last: %s, stands %s" % (t.said(done), w.sides()))
    left = w.close()
    return ["full at %d: %s" % (number, text) for text in wrong + left], failed


def walk(place, tap, who, bases):
    wrong, seen = [], {}
    number = 1
    while number < 40 and (number < 4 or any(seen.get(n) for n in range(number - 3, number))):
        found, seen[number] = visit(place, who, bases, number)
        wrong += found
        number += 1
    failed = sorted(set(seen.values()) - {""})
    tap.check("the disk full at each of %d calls of who holds the transaction: nothing is lost, and it lands when there is room, %s" % (number - 1, who),
              not wrong, *wrong[:5])
    tap.check("both the note that it is open and the marker were met, %s" % who, failed == ["commit", "run"], seen)


def slow_commit(place, tap, who, bases):
    w = World(place, who, bases, place.faults_bin, more=("--db-limit", "2s"))
    w.edit()
    commit = stepped.Stepped(w.box, 1, "commit", "box")
    commit.stopped()
    time.sleep(2.5)
    lost = w.lost()
    done = commit.finish()
    tap.check("a limit of time does not disturb a commit that is under way, %s" % who, done.returncode == 0 and not lost and w.all("new"), t.said(done),
              lost, w.sides())
    w.close()


def main(place, tap):
    if not place.faults_bin or not pg.binaries():
        tap.skip("a full disk under a PostgreSQL transaction", "the fault-injection build or PostgreSQL is not there")
        return
    server = pg.Server(place)
    try:
        server.sql("CREATE ROLE agent LOGIN")
        add_database(server, "stock")
        who = place.users()[0]
        walk(place, tap, who, [(server, "shop")])
        slow_commit(place, tap, who, [(server, "shop"), (server, "stock")])
    finally:
        server.stop()


t.run(main)
