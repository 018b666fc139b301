#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 1800
"""A directory and two PostgreSQL databases of two servers in one sandbox: the commit is killed at every step (in the torture run; at some of them
otherwise), and so are the servers. After recovery all three are as before, or all three as after, and no prepared transaction is left."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402
import stepped  # noqa: E402
import straced  # noqa: E402
from several import World, crash  # noqa: E402

SAMPLES = 2


class Scene:
    def __init__(self, place, tap, who, servers):
        self.place, self.tap, self.who, self.servers = place, tap, who, servers
        self.bases = [(server, "shop") for server in servers]

    def world(self, program=None):
        w = World(self.place, self.who, self.bases, program or self.place.faults_bin)
        w.edit()
        return w

    def check(self, name, good, *diagnosis):
        self.tap.check("%s, %s" % (name, self.who), good, *diagnosis)


def commit_again(w):
    """What was not committed can be, with what was lost made once more."""
    if w.lost():
        refused = w.box.commit()
        if refused.returncode != 4 or w.box.rollback().returncode != 0:
            return ["lost, and yet: " + t.said(refused)]
        w.edit()
    done = w.box.commit()
    return [] if done.returncode == 0 and w.all("new") else ["again: %s, stands %s" % (t.said(done), w.sides())]


def settle(w, point):
    """Recovers, and says what is wrong then, and where it stands."""
    done = w.box.recover()
    sides = w.sides()
    wrong = []
    if done.returncode != 0 or len(set(sides)) != 1 or sides[0] not in ("old", "new"):
        wrong.append("recover %s; stands %s" % (t.said(done), sides))
    if [base for base in w.bases if w.gid(base)]:
        wrong.append("a prepared transaction is left: %s" % [w.gid(base) for base in w.bases])
    if w.box.recover().returncode != 0 or w.sides() != sides:
        wrong.append("a second recover changed something: %s, then %s" % (sides, w.sides()))
    if not wrong and sides[0] == "old":
        wrong += commit_again(w)
    return ["%s: %s" % (point, text) for text in wrong], sides[0]


HITS = []  # of each kill: whether it hit


def visit(s, point, break_it, crashes=()):
    """break_it(w) leaves a commit somewhere in the middle; then servers die too."""
    w = s.world()
    try:
        HITS.append(break_it(w))
        for server in crashes:
            crash(server)
        return settle(w, point)
    except RuntimeError as failure:
        return ["%s: %s" % (point, failure)], "none"
    finally:
        left = w.close()
        if left:
            s.check("%s leaves nothing" % point, False, left)


def count(s):
    w = s.world()
    path = os.path.join(w.top, "count")
    w.must(w.box.commit(fault="count", program_environment={"ATOLL_FAULT_COUNT": path}))
    with open(path, encoding="ascii") as file:
        number = int(file.read().split()[0])
    w.close()
    return number


def walk(s):
    number = count(s)
    step = 1 if t.TORTURE else max(1, number // SAMPLES)
    faults = ["%d:kill" % n for n in range(1, number + 1, step)]
    sides, wrong = {}, []
    for i, fault in enumerate(faults):
        crashes = s.servers if i % 4 == 2 else [s.servers[i % 2]] if i % 4 == 3 else ()
        found, side = visit(s, "killed at %s, %d servers too" % (fault, len(crashes)), lambda w, f=fault: w.box.commit(fault=f).returncode in (-9, 137), crashes)
        wrong += found
        sides[side] = sides.get(side, 0) + 1
    s.check("killed at %d of %d points, all three are on one side %s" % (len(faults), number, sides), not wrong, *wrong[:6], "%d failed" % len(wrong))


def strace(w, call, when):
    return straced.kill(w.box, "%s:signal=SIGKILL:when=%d" % (call, when), "commit", "box")


# What is said, and to whom: to the keepers, status and room (1 to 4), prepare (5, 6), vote (7), commit (8); then to the servers.
SEAM = [(call, n) for call in ("sendto", "recvfrom") for n in range(5, 17)] + [("wait4", n) for n in range(1, 4)]
SOME = [("recvfrom", 7), ("recvfrom", 8), ("sendto", 10)]


def walk_seam(s):
    """The released program, and whatever it starts, killed by what it says to whom."""
    sides, wrong = {}, []
    points = SEAM if t.TORTURE else SOME
    for i, (call, when) in enumerate(points):
        crashes = s.servers if i % 3 == 1 else [s.servers[i % 2]] if i % 3 == 2 else ()

        def break_it(w, call=call, when=when):
            w.box.program = s.place.bin
            return strace(w, call, when)

        found, side = visit(s, "killed by %s %d, %d servers too" % (call, when, len(crashes)), break_it, crashes)
        wrong += found
        sides[side] = sides.get(side, 0) + 1
    s.check("killed at %d points of what is said to the databases: all three are on one side %s" % (len(points), sides), not wrong, *wrong[:6],
            "%d failed" % len(wrong))
    s.check("both sides were seen", sides.get("old") and sides.get("new"), sides)


def under_it(s):
    """A server is killed while the commit stands at a call of its own, is back or is not, and the commit goes on."""
    points = [(mark, n, server, back) for mark in ("apply", "decide", "finish") for n in (1, 2) for server in s.servers for back in (True, False)]
    if not t.TORTURE:
        points = [("apply", 1, s.servers[0], True), ("decide", 1, s.servers[0], False)]
    sides, wrong = {}, []
    for mark, n, server, back in points:
        w = s.world()
        point = "server %d killed at %s %d" % (s.servers.index(server), mark, n)
        try:
            commit = stepped.Stepped(w.box, n, "commit", "box", mark=mark)
            commit.stopped()
            server.kill()
            if back:
                server.start()
            done = commit.finish()
            if not back:
                server.start()
            found, side = settle(w, point + ", commit: " + t.said(done))
            wrong += found
            sides[side] = sides.get(side, 0) + 1
            if (done.returncode == 0) != (side == "new") and done.returncode != 7:
                wrong.append("%s: all are %s, and commit said %s" % (point, side, t.said(done)))
        finally:
            w.close()
    s.check("a server killed at %d points of a commit that goes on: all three are on one side %s, and it says so" % (len(points), sides),
            not wrong and sides.get("old") and sides.get("new"), *wrong[:4], sides)


def decided_and_cut(w):
    """Decided and on record; the others were not told: whoever starts the program for that is killed by it."""
    place = os.path.join(w.top, "libexec")
    os.mkdir(place)
    path = os.path.join(place, "atoll-postgres")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nif [ \"$1\" = end-vote ]; then kill -9 $PPID; exit 1; fi\nexec %s \"$@\"\n" %
                   os.path.join(os.path.dirname(w.box.program), "atoll-postgres"))
    os.chmod(path, 0o755)
    w.box.commit(program_environment={"ATOLL_LIBEXEC": place})


def waiting(s):
    """A prepared database whose server is away is in doubt, and told when it is back; one that is not ours is left alone."""
    w = s.world()
    server = s.servers[0]
    decided_and_cut(w)
    s.check("a commit that was cut after its decision has a prepared transaction waiting", w.gid(w.bases[0]), w.gid(w.bases[0]))
    server.sql("BEGIN; CREATE TABLE theirs (a int); PREPARE TRANSACTION '%s-theirs'" % w.gid(w.bases[0]))
    server.kill()
    done = w.box.recover("--json")
    found = [r["outcome"] for r in json.loads(done.stdout)[0]["resources"]]
    s.check("while its server is away it is in doubt, and nothing else is", done.returncode == 7 and found == ["committed", "in doubt", "committed"],
            t.said(done), found)
    told = w.box.atoll("doctor").stdout
    s.check("doctor names the sandbox", b"a commit or undo is unfinished in \"box\"" in told, told)
    done = w.box.run("true")
    s.check("and nothing goes on in the sandbox", done.returncode == 125, t.said(done))
    server.start()
    wrong, side = settle(w, "the server is back")
    s.check("when it is back the commit is whole", side == "new" and wrong == ["the server is back: a prepared transaction is left: %s" %
            [w.gid(w.bases[0]), ""]] and w.gid(w.bases[0]).endswith("-theirs"), wrong, side)
    server.sql("ROLLBACK PREPARED '%s'" % w.gid(w.bases[0]))
    w.close()


def without_marker(s):
    """Somebody has removed what the op kept in its area: what waits is told all the same."""
    w = s.world()
    decided_and_cut(w)
    for name in os.listdir(w.shown()[1]["stage"]):
        if name.startswith("op-"):
            t.remove_tree(os.path.join(w.shown()[1]["stage"], name))
    wrong, side = settle(w, "without a marker")
    s.check("a prepared transaction is told without its marker", not wrong and side == "new", wrong, side)
    w.sql(w.bases[0], "SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
    w.close()


def contradicted(s):
    """An administrator who ends a prepared transaction himself, and otherwise, is reported, and nothing waits for him."""
    w = s.world()
    decided_and_cut(w)
    w.sql(w.bases[0], "ROLLBACK PREPARED '%s'" % w.gid(w.bases[0]))
    done = w.box.recover()
    s.check("a prepared transaction that somebody else rolled back is named", done.returncode == 7 and b"somebody else has rolled back" in done.stderr,
            t.said(done))
    done = w.box.recover()
    s.check("once", done.returncode == 0 and w.sides() == ["new", "old", "new"], t.said(done), w.sides())
    w.close()
    w = s.world()
    decided_and_cut(w)
    w.sql(w.bases[0], "COMMIT PREPARED '%s'" % w.gid(w.bases[0]))
    wrong, side = settle(w, "committed by hand")
    s.check("one that somebody else committed, as it was to be, is fine", not wrong and side == "new", wrong, side)
    w.close()


def main(place, tap):
    if not place.faults_bin or not pg.binaries():
        tap.skip("kills of a commit over several databases", "the fault-injection build or PostgreSQL is not there")
        return
    servers = [pg.Server(place), pg.Server(place)]
    try:
        for server in servers:
            server.sql("CREATE ROLE agent LOGIN")
        for who in place.users():
            s = Scene(place, tap, who, servers)
            for part in (walk, walk_seam, under_it, waiting, without_marker, contradicted):
                if t.only(part.__name__) and (t.TORTURE or who == place.users()[-1 if part == walk_seam else 0]):
                    part(s)
        tap.check("most of the kills hit", sum(HITS) * 10 >= len(HITS) * 8, HITS)
    finally:
        for server in servers:
            server.stop()


t.run(main)
