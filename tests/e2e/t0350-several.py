#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several PostgreSQL databases in one commit: all but one are prepared on their servers, and the last one decides."""
import json
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402
from several import World, add_database  # noqa: E402


class Scene:
    def __init__(self, place, tap, who, on, off):
        self.place, self.tap, self.who, self.on, self.off = place, tap, who, on, off
        self.two = [(on, "shop"), (on, "stock")]

    def check(self, name, good, *diagnosis):
        self.tap.check("%s, %s" % (name, self.who), good, *diagnosis)

    def world(self, bases):
        return World(self.place, self.who, bases)


def landing(s):
    cases = [("three of two servers, one of which prepares nothing", [s.two[0], (s.off, "shop"), s.two[1]])]
    cases += [("two databases of one server", s.two)] if s.who == s.place.users()[0] else []
    for text, bases in cases:
        w = s.world(bases)
        w.edit()
        done = w.box.commit("--dry-run")
        s.check("%s: a dry run changes nothing" % text, done.returncode == 0 and w.all("old"), t.said(done), w.sides())
        done = w.box.commit("--json")
        result = json.loads(done.stdout)
        s.check("%s land with the directory" % text, done.returncode == 0 and w.all("new"), t.said(done), w.sides())
        s.check("%s: each resource is listed once, as committed" % text, [(r["resource"], r["outcome"]) for r in result["resources"]] ==
                [(i + 1, "committed") for i in range(len(bases) + 1)], result["resources"])
        s.check("%s: no marker, prepared transaction or process is left" % text, not w.left(), w.left())
        done = w.inside(w.psql(0, "DELETE FROM %s WHERE id = 2" % w.table))
        done = w.box.commit() if done.returncode == 0 else done
        s.check("%s: the next commit is of the one that has changes" % text, done.returncode == 0 and
                w.sides() == ["new", "old"] + (len(bases) - 1) * ["new"], t.said(done), w.sides())
        done = w.box.undo()
        s.check("%s: and is not taken back" % text, done.returncode == 4 and w.sides()[1] == "old", t.said(done))
        s.check("%s: rm leaves nothing" % text, not w.close())


def switched_off(s):
    add_database(s.off, "stock")
    w = s.world([(s.off, "shop"), (s.off, "stock")])
    w.edit()
    for arguments in (["--dry-run"], []):
        done = w.box.commit(*arguments)
        s.check("two databases whose server prepares nothing are refused, by the name of the setting %s" % arguments, done.returncode == 4 and
                done.stderr.count(b"max_prepared_transactions is 0") >= 2 and b"restart" in done.stderr and w.all("old") and not w.lost(),
                t.said(done), w.sides(), w.lost())
    done = w.box.commit(w.name(0))
    second = w.box.commit()
    s.check("and can be committed one after the other", done.returncode == 0 and second.returncode == 0 and w.all("new"),
            t.said(done), t.said(second), w.sides())
    w.close()


def obstacles(s):
    w = s.world(s.two)
    w.edit(w.psql(0, "CREATE TEMP TABLE x (a int)"))
    done = w.box.commit()
    s.check("a database with a temporary table decides, and both land", done.returncode == 0 and w.all("new") and not w.left(),
            t.said(done), w.sides(), w.left())
    w.close()
    w = s.world(s.two)
    w.edit(w.psql(0, "BEGIN; CREATE TEMP TABLE x (a int); ROLLBACK"), w.psql(1, "NOTIFY here, 'now'"))
    for arguments in (["--dry-run"], []):
        done = w.box.commit(*arguments)
        s.check("temporary tables, even rolled back, and NOTIFY are refused by name, and nothing is lost %s" % arguments, done.returncode == 4 and
                b"temporary" in done.stderr and b"NOTIFY" in done.stderr and w.all("old") and not w.lost(), t.said(done), w.sides(), w.lost())
    done = w.box.commit(w.name(0))
    second = w.box.commit()
    s.check("and land one after the other", done.returncode == 0 and second.returncode == 0 and w.all("new"),
            t.said(done), t.said(second), w.sides())
    w.close()


def held_cursors(s):
    w = s.world(s.two)
    w.edit()
    clients = [w.client(i) for i in range(2)]
    for c in clients:
        c.stdin.write("DECLARE c CURSOR WITH HOLD FOR SELECT 1;\n\\echo ready\n")
        c.stdin.flush()
        c.stdout.readline()
    done = w.box.commit()
    s.check("open cursors WITH HOLD are refused by name", done.returncode == 4 and b"WITH HOLD" in done.stderr and not w.lost(), t.said(done), w.lost())
    for c in clients:
        c.stdin.write("SELECT pg_advisory_lock(7), pg_advisory_xact_lock(7);\nCLOSE c;\n\\echo ready\n")
        c.stdin.flush()
        c.stdout.readline()
        c.stdout.readline()
    done = w.box.commit()
    s.check("with the cursors closed all land, whatever advisory locks are held", done.returncode == 0 and w.all("new"), t.said(done), w.sides())
    for c in clients:
        c.stdin.close()
        c.wait(10)
        c.stdout.close()
    w.close()


def no_room(s):
    """The server's prepared transactions are in use by somebody else, who keeps his."""
    for i in range(5):
        s.on.sql("BEGIN; CREATE TABLE foreign%d (a int); PREPARE TRANSACTION 'atoll-foreign-%d'" % (i, i))
    w = s.world(s.two)
    w.edit()
    done = w.box.commit()
    s.check("without room on the server it is refused", done.returncode == 4 and b"max_prepared_transactions is 5 on its server, 5 in use" in done.stderr
            and w.all("old") and not w.lost(), t.said(done), w.sides(), w.lost())
    s.on.sql("ROLLBACK PREPARED 'atoll-foreign-0'")
    done = w.box.commit()
    s.check("and lands when there is", done.returncode == 0 and w.all("new"), t.said(done), w.sides())
    w.box.recover()
    found = s.on.sql("SELECT count(*) FROM pg_prepared_xacts")
    s.check("prepared transactions of others stay, whatever they are called", found == "4", found)
    for i in range(1, 5):
        s.on.sql("ROLLBACK PREPARED 'atoll-foreign-%d'" % i)
    w.close()


def restored(s):
    """A server that was restored from a backup has a transaction prepared again, whose commit is over."""
    w = s.world(s.two)
    w.edit()
    w.must(w.box.commit())
    info = json.loads(w.box.atoll("show", "box", "--json").stdout)
    token = next(name for name in os.listdir(info["resources"][1]["stage"]) if name.startswith("op-"))
    gid = "atoll-%s-2-" % info["uuid"]
    for name, row in ((gid + token, 3), (gid + "op-0123456789abcdef", 4)):
        s.on.sql("BEGIN; INSERT INTO %s VALUES (%d); PREPARE TRANSACTION '%s'" % (w.table, row, name), environment={"PGUSER": "agent"})
    done = w.box.recover()
    rows = s.on.sql("SELECT string_agg(id::text, ',' ORDER BY id) FROM %s" % w.table)
    left = s.on.sql("SELECT string_agg(gid, ' ') FROM pg_prepared_xacts")
    s.check("what is prepared again under the name of a commit that is over ends as that did, and nothing else does", done.returncode == 0 and
            rows == "1,2,3" and left == gid + "op-0123456789abcdef", t.said(done), rows, left)
    s.on.sql("ROLLBACK PREPARED '%s'" % left)
    w.close()


def unforeseen(s):
    """What nobody could see beforehand: a trigger notifies, and the server refuses to prepare that."""
    w = s.world(s.two)
    s.on.sql("CREATE OR REPLACE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY quiet; RETURN NEW; END';"
             "CREATE TRIGGER t BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION tell()" % w.table)
    w.edit()
    done = w.box.commit("--json")
    result = json.loads(done.stdout)
    s.check("what the server refuses to prepare is lost, in the server's words, and the rest rolled back", done.returncode != 0 and w.all("old") and
            list(w.lost()) == [0] and "NOTIFY" in w.lost()[0] and [r["outcome"] for r in result["resources"]] == 3 * ["rolled back"],
            t.said(done), w.sides(), w.lost())
    done = w.box.commit()
    s.check("commit refuses as a whole then", done.returncode == 4 and b"lost" in done.stderr, t.said(done))
    done = w.box.commit(w.name(1), "file", cwd=w.dir)
    s.check("the others can be committed by name", done.returncode == 0 and w.sides() == ["new", "old", "new"], t.said(done), w.sides())
    s.check("rm leaves nothing of it", not w.close())


def main(place, tap):
    if not pg.binaries():
        tap.skip("several PostgreSQL databases in one commit", "PostgreSQL is not installed")
        return
    on = pg.Server(place)
    off = pg.Server(place, options=("max_prepared_transactions=0",))
    try:
        for server in (on, off):
            server.sql("CREATE ROLE agent LOGIN")
        add_database(on, "stock")
        for who in place.users():
            for part in (landing, switched_off, obstacles, held_cursors, no_room, restored, unforeseen):
                if t.only(part.__name__) and (who == place.users()[0] or part == landing):
                    part(Scene(place, tap, who, on, off))
    finally:
        on.stop()
        off.stop()


t.run(main)
