#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 3600
"""Power cuts of a commit over a directory, a git repository, a SQLite and a PostgreSQL database that all lie on the same disk: as
power-cut.py has it, and after recovery all four are old or all four are new; after a reported success only new will do."""
import os
import random
import sqlite3
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402
import powerlib as w  # noqa: E402
from together import World  # noqa: E402

SIDES = (4 * ["old"], 4 * ["new"])


def perform(place, bench, mark):
    """What is recorded: the originals are on disk, the sandbox and its edits are not synced by anybody but Atoll and the server."""
    top = bench.points[0]
    for name in ("pg", "world"):
        os.mkdir(os.path.join(top, name))
    server = pg.Server(place, ("fsync=on",), home=os.path.join(top, "pg"))
    try:
        server.sql("CREATE ROLE agent LOGIN")
        world = World(place, "root", server, place.bin, os.path.join(top, "world"))
        server.sql("CHECKPOINT")
        subprocess.run(["sync"], check=True)
        mark("made")
        world.edit()
        mark("begin commit")
        world.must(world.box.commit("-m", "together"))
        mark("done commit")
        time.sleep(0.05)
        mark("end")
        if world.sides() != SIDES[1]:
            raise RuntimeError("a commit that nobody disturbs: %s" % world.sides())
        world.must(world.box.atoll("rm", "box"))  # and with it whoever keeps a transaction
    finally:
        server.stop("fast")
    return world


def look(world, allowed):
    """The questions asked of a mounted, power-cut disk."""
    problems = []
    for lock in (os.path.join(world.server.data, "postmaster.pid"), os.path.join(world.server.home, ".s.PGSQL.%d.lock" % pg.PORT)):
        if os.path.exists(lock):
            os.unlink(lock)  # after a real cut no process would have its number
    world.server.start()
    try:
        done = world.box.recover()
        sides = world.sides()
        if done.returncode != 0:
            problems.append("recover: " + t.said(done))
        if sides not in SIDES or sides[0] not in allowed:
            problems.append("found %s, allowed %s" % (sides, sorted(allowed)))
        for question in (["fsck", "--strict"], ["commit", "-q", "--allow-empty", "-m", "after"]):
            answer = world.box.command(["git", *question], cwd=world.path("svc"))
            if answer.returncode != 0:
                problems.append("git %s: %s" % (question[0], t.said(answer)))
        if world.box.recover().returncode != 0:
            problems.append("a second recover fails")
        world.box.atoll("rm", "box", "--abandon")
    except (RuntimeError, sqlite3.Error) as failure:
        problems.append(str(failure))
    finally:
        world.server.stop("immediate")
    return problems


def one(place, tap, kind, wanted, recorder):
    bench = w.Bench(place, kind, 1, recorder)
    found = []
    try:
        recording = bench.record(lambda mark: found.append(perform(place, bench, mark)))
    except RuntimeError as error:
        tap.check("a commit over all kinds can be recorded on %s" % kind, False, error)
        return
    world = found[0]
    chosen, boundaries = w.states(recording, wanted, random.Random(kind))
    wrong = w.replay_all(bench, recording, chosen, lambda allowed: lambda: look(world, allowed))
    tap.check("%d power cuts at %d flushes on %s recover to all four old or all four new" % (len(chosen), boundaries, kind), not wrong, *wrong[:8],
              "%d problems" % len(wrong))
    bench.close()


def main(place, tap):
    title = "power cuts of a commit over all kinds"
    if not pg.binaries():
        tap.skip(title, "PostgreSQL is not there")
        return
    recorder = w.recorder_for(place, tap, title)
    if not recorder:
        return
    w.SIZES["ext4"] = w.SIZES["btrfs"] = 320  # a database server needs room
    for kind in ("ext4", "xfs", "btrfs") if t.TORTURE else ("ext4",):
        one(place, tap, kind, 150 if t.TORTURE else 10, recorder)


t.run(main)
