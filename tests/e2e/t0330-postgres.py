#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL database as a resource: one transaction of the server, committed together with directories, or not at all."""
import json
import os
import re
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402


class World:
    """A directory and a table, and a sandbox "box" over both."""

    serial = 0

    def __init__(self, place, who, server, program=None, role="agent"):
        World.serial += 1
        self.server, self.table = server, "people%d" % World.serial
        self.top = place.fresh("world", who)
        self.dir = os.path.join(self.top, "app")
        os.mkdir(self.dir)
        self.file = os.path.join(self.dir, "file")
        with open(self.file, "w", encoding="utf-8") as file:
            file.write("old")
        t.give(self.dir, place.uid(who))
        server.sql("CREATE TABLE %s (id int PRIMARY KEY, name text); INSERT INTO %s VALUES (1, 'Ann'); GRANT ALL ON %s TO agent"
                   % (3 * (self.table,)))
        self.url = "postgresql://%s@/shop?host=%s&port=%d" % (role, server.home, pg.PORT)
        self.box = t.Box(place, who, program=program, dirs=[self.dir], state=os.path.join(self.top, "state"))
        self.made = self.box.new("--db", self.url)

    def edit(self, *more):
        return self.box.run("sh", "-c", "echo -n new >file && psql -XAtq -v ON_ERROR_STOP=1 -c \"INSERT INTO %s VALUES (2, 'Bob')\" %s"
                            % (self.table, " ".join(more)), cwd=self.dir)

    def stands(self):
        """"old", "new", or what is there."""
        with open(self.file, encoding="utf-8") as file:
            content = file.read()
        rows = self.server.sql("SELECT string_agg(name, ',' ORDER BY id) FROM %s" % self.table)
        sides = {"old": ("old", "Ann"), "new": ("new", "Ann,Bob")}
        return next((side for side, what in sides.items() if what == (content, rows)), "%s and %s" % (content, rows))

    def markers(self):
        return int(self.server.sql("SELECT count(*) FROM pg_largeobject_metadata"))

    def resource(self):
        shown = json.loads(self.box.atoll("show", "box", "--json").stdout)
        return next(r for r in shown["resources"] if r["kind"] == "postgresql")

    def keeper(self):
        """The process that holds the transaction, or None."""
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                with open("/proc/%s/cmdline" % entry, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if len(words) > 2 and words[1] == b"hold" and words[2].startswith(os.fsencode(self.box.state) + b"/"):
                return int(entry)
        return None

    def close(self):
        self.box.atoll("rm", "box", "--abandon")
        gone = not pg.wait_until(lambda: self.keeper() is None) and self.keeper()
        self.server.sql("DROP TABLE %s" % self.table)
        return gone


def life(place, tap, who, server):
    w = World(place, who, server)
    tap.check("a sandbox with a database is made, %s" % who, w.made.returncode == 0, t.said(w.made))
    done = w.edit("-c \"SELECT count(*) FROM %s\"" % w.table)
    tap.check("a command inside sees its own rows, %s" % who, done.returncode == 0 and done.stdout.strip() == b"2", t.said(done))
    tap.check("and nobody else does, %s" % who, w.stands() == "old", w.stands())
    done = w.box.run("sh", "-c", "env; ls -la $PGHOST; cat $HOME/.pgpass; :", cwd=w.dir)
    tap.check("where the server is and how to log in does not get inside, %s" % who, os.fsencode(server.home) not in done.stdout and
              b"PGPASSWORD" not in done.stdout and b"DATABASE_URL=postgresql:///shop?host=/run/atoll/2&user=agent" in done.stdout, t.said(done))
    found = w.resource()
    tap.check("show tells how long the transaction has been open and what it locks, %s" % who, re.search(
        r"a transaction, open for 0:00:\d\d, with changes, locks .*%s \(RowExclusiveLock\)" % w.table, found.get("detail", "")), found)
    done = w.box.diff()
    tap.check("diff counts the rows of each table, %s" % who, re.search(
        r"table public.%s  \(1 inserted, 0 updated, 0 deleted\)" % w.table, done.stdout.decode()), t.said(done))
    done = w.box.commit("--dry-run")
    tap.check("a dry run changes nothing, %s" % who, done.returncode == 0 and w.stands() == "old", t.said(done), w.stands())
    done = w.box.commit("-m", "both")
    tap.check("commit lands both, %s" % who, done.returncode == 0 and w.stands() == "new", t.said(done), w.stands())
    tap.check("no marker and no process is left, %s" % who, w.markers() == 0 and pg.wait_until(lambda: w.keeper() is None), w.markers(), w.keeper())
    done = w.box.undo()
    tap.check("what a database has committed is not taken back, nor anything with it, %s" % who,
              done.returncode == 4 and w.stands() == "new", t.said(done), w.stands())
    done = w.box.undo("--only", w.dir)
    tap.check("but for what is named, %s" % who, done.returncode == 0 and w.stands() == "old and Ann,Bob", t.said(done), w.stands())
    done = w.box.run("psql", "-XAtqc", "DELETE FROM %s WHERE id = 2" % w.table)
    done = w.box.commit() if done.returncode == 0 else done
    tap.check("the next run begins the next transaction, %s" % who, done.returncode == 0 and w.stands() == "new and Ann", t.said(done), w.stands())
    w.box.run("psql", "-XAtqc", "SELECT count(*) FROM %s" % w.table)
    before, done = w.keeper(), w.box.commit()
    tap.check("a commit after reading only ends the transaction and its locks, %s" % who, before and done.returncode == 0 and
              pg.wait_until(lambda: w.keeper() is None) and server.sql("SELECT count(*) FROM pg_locks WHERE relation = '%s'::regclass" % w.table) == "0",
              before, t.said(done), w.keeper())
    listener = pg.Wire(server.home, port=pg.PORT)
    listener.query("LISTEN %s" % w.table)
    w.box.run("psql", "-XAtqc", "NOTIFY %s, 'hello'" % w.table)
    shown, done = w.box.diff(), w.box.commit()
    heard = [body for kind, body in listener.query("SELECT 1").messages if kind == "A"]
    listener.close()
    tap.check("a notification is shown as a change, and delivered by the commit, %s" % who, b"notifications" in shown.stdout and done.returncode == 0
              and len(heard) == 1 and b"hello" in heard[0], t.said(shown), t.said(done), heard)
    w.box.run("psql", "-XAtqc", "DELETE FROM %s" % w.table)
    done = w.box.rollback()
    tap.check("rollback drops the rows, %s" % who, done.returncode == 0 and w.stands() == "new and Ann", t.said(done), w.stands())
    rolled_back_after_reading(w, tap, who, server)
    tap.check("rm leaves no process, %s" % who, not w.close())


def rolled_back_after_reading(w, tap, who, server):
    """A transaction that has only read ends, with its locks, and whatever landed before stays."""
    landing = {"of the directory alone": "echo -n newer >file", "of the database": "psql -XAtqc \"INSERT INTO %s VALUES (3, 'Cid')\"" % w.table}
    for name, script in landing.items():
        w.box.run("sh", "-c", script, cwd=w.dir)
        w.box.commit()
        before = w.stands()
        w.box.run("psql", "-XAtqc", "SELECT count(*) FROM %s" % w.table)
        held, done = w.keeper(), w.box.rollback()
        locks = server.sql("SELECT count(*) FROM pg_locks WHERE relation = '%s'::regclass" % w.table)
        tap.check("a rollback after reading only ends the transaction, and leaves a commit %s, %s" % (name, who), held and done.returncode == 0 and
                  pg.wait_until(lambda: w.keeper() is None) and locks == "0" and w.stands() == before and "detail" not in w.resource(),
                  t.said(done), w.keeper(), locks, w.stands(), w.resource())
    done = w.box.rollback()
    tap.check("once more, it does nothing, %s" % who, done.returncode == 0 and w.stands() == "newer and Ann,Cid", t.said(done), w.stands())


def again(place, tap, who, server):
    w = World(place, who, server)
    w.edit()
    with open(w.file, "r+b"):
        done = w.box.commit()
    tap.check("an original in use refuses the whole after the database was prepared, %s" % who, done.returncode == 3 and w.stands() == "old",
              t.said(done), w.stands())
    done = w.box.run("psql", "-XAtqc", "SELECT count(*) FROM %s" % w.table, timeout=30)
    tap.check("commands go on in the same transaction, %s" % who, done.stdout.strip() == b"2", t.said(done))
    done = w.box.commit()
    tap.check("the next commit lands both, and leaves no marker, %s" % who, done.returncode == 0 and w.stands() == "new" and w.markers() == 0,
              t.said(done), w.stands(), w.markers())
    w.close()


def manners(place, tap, who, server):
    """What clients set for themselves has no effect on what Atoll does."""
    w = World(place, who, server)
    server.sql("GRANT ALL ON %s TO other" % w.table)
    w.edit("-c 'SET ROLE other' -c \"UPDATE %s SET name = 'Bob' WHERE id = 2\"" % w.table)
    done = w.box.commit()
    tap.check("another role of a client's leaves no marker, %s" % who, done.returncode == 0 and w.stands() == "new" and w.markers() == 0,
              t.said(done), w.stands(), w.markers())
    done = w.box.run("sh", "-c", "PGOPTIONS='-c idle_in_transaction_session_timeout=200' psql -XAtqc \"INSERT INTO %s VALUES (3, 'Cy')\"" % w.table)
    time.sleep(0.6)
    tap.check("a limit that a client comes with does not end the transaction, %s" % who, done.returncode == 0 and not w.resource()["lost"],
              t.said(done), w.resource())
    # Taking back so much takes longer than that limit.
    w.box.run("sh", "-c", "{ for i in $(seq 700); do echo \"SET many.s$i = 'x';\"; done; echo 'SET statement_timeout = 1;'; } | psql -XAtq")
    shown = [w.box.diff() for _ in range(3)]
    tap.check("nor does its limit of time stop a diff, %s" % who, all(d.returncode == 0 and b"1 inserted" in d.stdout for d in shown),
              *[t.said(d) for d in shown])
    with pg.Slow(int(server.sql("SELECT pid FROM pg_stat_activity WHERE usename = 'agent'"))):
        shown = [w.box.diff() for _ in range(20)]
    tap.check("nor on a slow server, %s" % who, all(d.returncode == 0 and b"1 inserted" in d.stdout for d in shown), *[t.said(d) for d in shown])
    with open(w.file, "w", encoding="utf-8") as file:
        file.write("foreign")
    done = w.box.commit(w.resource()["path"])
    tap.check("a database can be committed by its name, %s" % who, done.returncode == 0 and w.stands() == "foreign and Ann,Bob,Cy",
              t.said(done), w.stands())
    w.close()


def refusals(place, tap, who, server):
    w = World(place, who, server)
    server.sql("ALTER TABLE %s ADD CONSTRAINT late UNIQUE (name) DEFERRABLE INITIALLY DEFERRED" % w.table)
    done = w.edit("-c \"INSERT INTO %s VALUES (3, 'Ann')\"" % w.table)
    tap.check("a deferred constraint is checked where the command commits, as without Atoll, %s" % who,
              done.returncode != 0 and b"late" in done.stderr, t.said(done))
    done = w.box.commit()
    tap.check("and what it had committed before lands, %s" % who, done.returncode == 0 and w.stands() == "new", t.said(done), w.stands())
    w.close()
    for text, url, status in (("no server", "postgresql://agent@/shop?host=/nowhere&port=1", 1),
                              ("no such database", "postgresql://agent@/nothing?host=%s&port=%d" % (server.home, pg.PORT), 1),
                              ("no connection string", "postgresql:host==", 2)):
        box = t.Box(place, who)
        done = box.new("--db", url)
        tap.check("%s is one clear line, %s" % (text, who), done.returncode == status and done.stderr.count(b"\n") == 1, t.said(done))
    done = t.Box(place, who).new("--db", "mysql://x")
    tap.check("an unknown kind of database is a usage error, %s" % who, done.returncode == 2 and b"postgresql://" in done.stderr, t.said(done))


def losses(place, tap, who, server):
    def backend(w):
        server.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'agent' AND state LIKE 'idle in%'")

    def kill(w):
        os.kill(w.keeper(), signal.SIGKILL)

    def restart(w):
        server.stop()
        server.start()

    for text, lose in (("its connection ended by an administrator", backend), ("its process killed", kill), ("the server restarted", restart)):
        w = World(place, who, server)
        w.edit()
        lose(w)
        lost = pg.wait_until(lambda: w.resource()["lost"])
        tap.check("with %s the edits of the database are lost, and show says so, %s" % (text, who), lost, w.resource())
        done = w.box.commit()
        tap.check("commit refuses as a whole then, %s, %s" % (text, who), done.returncode == 4 and b"lost" in done.stderr and w.stands() == "old",
                  t.said(done), w.stands())
        done = w.box.run("true")
        tap.check("nothing runs as if they were there, %s, %s" % (text, who), done.returncode == 125 and b"lost" in done.stderr, t.said(done))
        done = w.box.commit("file", cwd=w.dir)
        tap.check("the others can be committed by name, %s, %s" % (text, who), done.returncode == 0 and w.stands() == "new and Ann",
                  t.said(done), w.stands())
        done = w.box.rollback()
        done = w.box.run("psql", "-XAtqc", "SELECT 1") if done.returncode == 0 else done
        tap.check("after a rollback it can be used again, %s, %s" % (text, who), done.returncode == 0, t.said(done))
        w.close()


def main(place, tap):
    if not pg.binaries():
        tap.skip("PostgreSQL as a resource", "PostgreSQL is not installed")
        return
    server = pg.Server(place)
    try:
        server.sql("CREATE ROLE other; CREATE ROLE agent LOGIN NOINHERIT; GRANT other TO agent")
        for who in place.users():
            for part in (life, again, manners, refusals, losses):
                if t.only(part.__name__):
                    part(place, tap, who, server)
    finally:
        server.stop()


if __name__ == "__main__":
    t.run(main)
