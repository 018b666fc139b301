#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The life of a PostgreSQL transaction: a limit of time, odd places, its keeper killed, and a commit that is given up."""
import json
import os
import re
import signal
import struct
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402
from several import World, add_database  # noqa: E402


class Scene:
    def __init__(self, place, tap, who, server):
        self.place, self.tap, self.who, self.server = place, tap, who, server
        self.base, self.two = [(server, "shop")], [(server, "shop"), (server, "stock")]

    def check(self, name, good, *diagnosis):
        self.tap.check("%s, %s" % (name, self.who), good, *diagnosis)


def limits(s):
    w = World(s.place, s.who, s.base, more=("--db-limit", "2s"))
    w.edit()
    found = w.shown()[1]["detail"]
    s.check("show says how much of the limit is left", " and given up in 0:00:0" in found and "locks" in found, found)
    s.check("its time over, the edits are lost, and show says why", pg.wait_until(w.lost, 10) and w.lost() == {0: "limit of 2s reached"}, w.shown())
    free = s.server.sql("SELECT count(*) FROM pg_stat_activity WHERE usename = 'agent'")
    s.check("and the server is rid of the transaction", free == "0", free)
    done = w.box.commit()
    s.check("commit refuses then, with the cause", done.returncode == 4 and b"limit of 2s reached" in done.stderr and w.all("old"), t.said(done))
    w.box.rollback()
    done = w.inside(w.psql(0, "SELECT pg_sleep(20)"), program_environment={})
    s.check("a statement that runs when the time is over is cut off", done.returncode != 0 and pg.wait_until(w.lost, 5) and
            b"57P01" not in done.stdout, t.said(done), w.lost())
    w.box.rollback()
    w.edit()
    done = w.box.commit()
    s.check("in time it lands", done.returncode == 0 and w.all("new"), t.said(done), w.sides())
    w.close()
    w = World(s.place, s.who, s.base)
    w.must(w.box.atoll("run", "box", "--db-limit", "1h", "--", "sh", "-c", w.psql(0, "INSERT INTO %s VALUES (2)" % w.table)))
    s.check("a run can give the limit of the transaction that it begins", "given up in 0:59:" in w.shown()[1]["detail"] or
            "given up in 1:00:00" in w.shown()[1]["detail"], w.shown())
    home = s.place.fresh("config", s.who)
    os.mkdir(os.path.join(home, "atoll"))
    with open(os.path.join(home, "atoll", "config"), "w", encoding="utf-8") as file:
        file.write("[run]\ndb-limit = 2h\n")
    t.give(home, s.place.uid(s.who))
    w.box.rollback()
    w.must(w.inside(w.psql(0, "SELECT 1"), program_environment={"XDG_CONFIG_HOME": home}))
    s.check("and so can a config file", "given up in 1:59:" in w.shown()[1]["detail"] or "given up in 2:00:00" in w.shown()[1]["detail"], w.shown())
    done = w.box.atoll("run", "box", "--db-limit", "never", "--", "true")
    s.check("what is no time is refused", done.returncode == 2 and b"db-limit" in done.stderr, t.said(done))
    w.close()


def as_json(w, *words):
    return json.loads(w.box.atoll(*words, "--json").stdout)


def locks(s):
    """What a sandbox keeps others waiting for is told by every command, and given up when the sandbox is idle."""
    w = World(s.place, s.who, s.base)
    s.server.sql("ALTER TABLE %s OWNER TO agent; GRANT CREATE ON SCHEMA public TO agent" % w.table)
    alter = w.psql(0, "ALTER TABLE %s ADD COLUMN more int" % w.table)
    wanted = ('locks public.%s (AccessExclusiveLock) for 0:00:' % w.table).encode()
    done = w.inside(w.psql(0, "INSERT INTO %s VALUES (2)" % w.table))
    s.check("locks of rows are no surprise", done.returncode == 0 and b" locks " not in done.stderr, t.said(done))
    w.must(w.inside(w.psql(0, "CREATE TABLE mine_alone (a int)")))
    done = w.inside(alter)
    s.check("a run says which relations it leaves locked, and nothing of those that nobody else can see", done.returncode == 0 and wanted in done.stderr
            and b"mine_alone" not in done.stderr and b"given up after 0:59:" in done.stderr.replace(b"after 1:00:00", b"after 0:59:"), t.said(done))
    for words in (("list",), ("diff", "box"), ("commit", "box", "--dry-run")):
        done = w.box.atoll(*words)
        s.check("so does %s" % words[0], done.returncode == 0 and wanted in done.stderr, t.said(done))
    done = w.box.atoll("status", cwd=w.dir)
    s.check("and status, of the directory", done.returncode == 0 and re.search(
        r"^  locks     public\.%s \(AccessExclusiveLock\) for \d+ (second|minute)s?; others wait for it$" % w.table, done.stdout.decode(), re.M), t.said(done))
    found = json.loads(w.box.atoll("list", "--json").stdout)[0]["resources"][1]
    s.check("and JSON", found.get("locks", [{}])[0].get("relation") == "public." + w.table and found["locks"][0]["mode"] == "AccessExclusiveLock"
            and found["locks"][0]["seconds"] >= 0 and 3500 < found["given_up_in_seconds"] <= 3600, found)
    lock = ("public." + w.table, "AccessExclusiveLock")
    listed = [c for c in as_json(w, "diff", "box") if c["change"] == "locked"]
    s.check("diff --json has an object for each lock", len(listed) == 1 and
            [listed[0][key] for key in ("path", "mode", "resource", "resource_path")] == [*lock, 2, w.name(0)] and
            listed[0]["seconds"] >= 0 and 3500 < listed[0]["given_up_in_seconds"] <= 3600, listed)
    result = as_json(w, "commit", "box", "--dry-run", "--quiet")["resources"]
    s.check("commit --json has the locks that stay, with --quiet too", "locks" not in result[0] and
            [(x["relation"], x["mode"]) for x in result[1]["locks"]] == [lock] and
            3500 < result[1]["given_up_in_seconds"] <= 3600, result)
    w.box.rollback()
    left = as_json(w, "diff", "box"), as_json(w, "commit", "box")["resources"]
    s.check("neither has any where nothing is locked", left[0] == [] and not any("locks" in r for r in left[1]), left)
    w.must(w.box.atoll("run", "box", "--db-idle-limit", "2s", "--", "sh", "-c", w.psql(0, "INSERT INTO %s VALUES (2)" % w.table)))
    s.check("an idle transaction that keeps nobody from a table stays", not pg.wait_until(w.lost, 4), w.lost())
    w.box.rollback()
    made = ("CREATE TABLE alone (a int)", "CREATE VIEW alone_view AS SELECT 1", "CREATE MATERIALIZED VIEW alone_stored AS SELECT 1", "CREATE SEQUENCE alone_numbers",
            "CREATE TABLE alone_parts (a int) PARTITION BY LIST (a); CREATE TABLE alone_part PARTITION OF alone_parts DEFAULT",
            "BEGIN; SAVEPOINT a; CREATE TABLE alone_later (a int); RELEASE a; ALTER TABLE alone_later ADD b int; COMMIT", "ALTER VIEW alone_view RENAME TO alone_seen")
    done = w.box.atoll("run", "box", "--db-idle-limit", "2s", "--", "sh", "-c", " && ".join(w.psql(0, text) for text in made))
    s.check("relations that the transaction has made lock nobody out, on a server where nothing else happens",
            done.returncode == 0 and b" locks " not in done.stderr, t.said(done))
    s.check("and it stays", not pg.wait_until(w.lost, 4), w.lost())
    w.box.rollback()
    w.must(w.box.atoll("run", "box", "--db-idle-limit", "2s", "--", "sh", "-c", alter))
    s.check("one that does is given up, and says why", pg.wait_until(w.lost, 10) and
            w.lost() == {0: "idle for 2s while it locked public.%s (AccessExclusiveLock)" % w.table}, w.lost())
    s.check("and others go on", s.server.sql("SELECT count(*) FROM %s" % w.table) != "")
    w.box.rollback()
    drop = w.psql(0, "CREATE TEMP TABLE passing (a int); DROP TABLE passing; DROP TABLE %s CASCADE" % w.table)
    done = w.box.atoll("run", "box", "--db-idle-limit", "2s", "--", "sh", "-c", drop)
    s.check("a relation that was dropped inside is locked too, by the name that others know", done.returncode == 0 and
            wanted in done.stderr
            and b"passing" not in done.stderr, t.said(done))
    s.check("and given up", pg.wait_until(w.lost, 10) and
            "public.%s (AccessExclusiveLock)" % w.table in w.lost().get(0, ""), w.lost())
    w.box.rollback()
    w.must(w.box.atoll("run", "box", "--db-idle-limit", "none", "--", "sh", "-c", alter))
    s.check("unless there is no such limit", "given_up_in_seconds" not in json.loads(w.box.atoll("list", "--json").stdout)[0]["resources"][1])
    w.close()


def delayed(s, w):
    """Commits, with a server that has committed and does not say so: it waits for a standby that is not there."""
    for text in ("ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()"):
        s.server.sql(text)
    pg.wait_until(lambda: s.server.sql("SHOW synchronous_standby_names") == "nobody")
    process = subprocess.Popen([w.box.program, "commit", "box"], env=w.box.environment, cwd=w.top, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               **w.box.identity())
    if not pg.wait_until(lambda: s.server.sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'") == "1"):
        process.kill()
        raise RuntimeError("the server does not wait: %r" % (process.communicate(),))
    return process


def undelayed(s):
    for text in ("ALTER SYSTEM RESET synchronous_standby_names", "SELECT pg_reload_conf()"):
        s.server.sql(text)


def killed_in_between(s):
    """The keeper dies between the server's COMMIT and its answer: the engine finds out by the marker."""
    w = World(s.place, s.who, s.base)
    w.edit()
    answer = delayed(s, w)
    for pid in w.keepers():
        os.kill(pid, signal.SIGKILL)
    undelayed(s)
    out, err = answer.communicate(timeout=30)
    s.check("a keeper killed between COMMIT and its answer: the commit is found to be one", answer.returncode == 0 and w.all("new") and not w.left(),
            out, err, w.sides(), w.left())
    w.close()


def odd_places(s):
    w = World(s.place, s.who, s.base, place_name="a b'c\"d\\e\nf")
    w.edit()
    shown = w.lost()
    done = w.box.commit()
    s.check("a place with a newline, a space, quotes and a backslash", done.returncode == 0 and not shown and w.all("new"), t.said(done), w.sides())
    w.inside(w.psql(0, "DELETE FROM %s" % w.table))
    os.kill(w.keepers()[0], signal.SIGKILL)
    s.check("there too a killed keeper is noticed", pg.wait_until(w.lost, 5), w.shown())
    s.check("and rm leaves nothing", not w.close())


def cut(w, word):
    """A commit that is killed by the program that it starts with that word."""
    place = os.path.join(w.top, "libexec")
    os.mkdir(place)
    path = os.path.join(place, "atoll-postgres")
    with open(path, "w", encoding="utf-8") as file:
        file.write("#!/bin/sh\nif [ \"$1\" = %s ]; then kill -9 $PPID; exit 1; fi\nexec '%s' \"$@\"\n" %
                   (word, os.path.join(os.path.dirname(w.box.program), "atoll-postgres")))
    os.chmod(path, 0o755)
    return w.box.commit(program_environment={"ATOLL_LIBEXEC": place})


def given_up(s):
    w = World(s.place, s.who, s.two)
    w.edit()
    cut(w, "end-vote")
    gid = w.gid(s.two[0])
    s.server.kill()
    done = w.box.rm()
    s.check("a sandbox with a prepared database that cannot be told is not removed by force", done.returncode == 7 and b"--abandon" in done.stderr, t.said(done))
    done = w.box.atoll("rm", "box", "--abandon", "--json")
    sides = {r["resource"]: (r["outcome"], r["cause"]) for r in json.loads(done.stdout)[0]["resources"]}
    s.server.start()
    s.check("rm --abandon says on which side each resource was left, as JSON", done.returncode == 0 and sides[1] == ("committed", None) and
            sides[2][0] == "in doubt" and gid and gid in sides[2][1] and "is to be committed" in sides[2][1] and sides[3] == ("committed", None), t.said(done), sides)
    s.check("and in words", b"app was left committed" in done.stderr and b"was left unknown: " in done.stderr, t.said(done))
    s.server.sql("ROLLBACK PREPARED '%s'" % gid)
    for pid in w.keepers():
        os.kill(pid, signal.SIGKILL)
    for base in s.two:
        w.sql(base, "SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
    w.close()


def durable(s):
    """A server that answers before its log is written, and writes that seldom, loses the last commits in a crash: not ours."""
    server = pg.Server(s.place, options=("synchronous_commit=off", "wal_writer_delay=10s"))
    try:
        server.sql("CREATE ROLE agent LOGIN")
        w = World(s.place, s.who, [(server, "shop")])
        w.edit()
        done = w.box.commit()
        server.kill()
        server.start()
        s.check("durable: a commit outlives the server's crash where its log is written late", done.returncode == 0 and w.all("new"), t.said(done), w.sides())
        w.close()
    finally:
        server.stop()


def marker(s):
    """The number of the marker is taken by somebody else's large object: that is no proof that the commit landed."""
    w = World(s.place, s.who, s.base, program=s.place.faults_bin)
    w.edit()
    w.box.commit(fault="1:kill", program_environment={"ATOLL_FAULT_FROM": "apply"})
    stage = w.shown()[1]["stage"]
    path = next(os.path.join(stage, name, "marker") for name in os.listdir(stage) if name.startswith("op-"))
    with open(path, "rb") as file:
        oid = struct.unpack_from("=I", file.read())[0]
    s.server.kill()
    s.server.start()
    s.server.sql("SELECT lo_from_bytea(%d, 'something else')" % oid, environment={"PGUSER": "agent"})
    done = w.box.recover()
    s.check("marker: somebody's large object of its number is not taken for it", done.returncode == 0 and w.all("old"), t.said(done), w.sides())
    kept = s.server.sql("SELECT convert_from(lo_get(%d), 'UTF8')" % oid)
    s.check("marker: and that object stays", kept == "something else", kept)
    s.server.sql("SELECT lo_unlink(%d)" % oid)
    w.close()


def partial(s):
    """A commit of some paths and the database is killed between the server's COMMIT and the journal's record of it."""
    w = World(s.place, s.who, s.base, program=s.place.faults_bin)
    w.edit("echo -n kept >other")
    done = w.box.commit(os.path.join(w.dir, "file"), w.name(0), fault="1:kill",
                        program_environment={"ATOLL_FAULT_FROM": "decide"})
    before, recovered, shown = w.sides(), w.box.recover(), w.shown()
    s.check("partial: the commit was killed after the server's COMMIT", before == ["new", "new"], t.said(done), before)
    s.check("partial: recovery leaves a directory with further edits active", recovered.returncode == 0 and w.all("new") and
            [r["state"] for r in shown] == ["active", "committed"], t.said(recovered), shown)
    done = w.box.atoll("rm", "box")
    s.check("partial: rm refuses to drop these edits", done.returncode == 4, t.said(done))
    done = w.box.commit()
    found = os.path.exists(os.path.join(w.dir, "other"))
    s.check("partial: the next commit lands them", done.returncode == 0 and found and w.shown()[0]["state"] == "committed",
            t.said(done), w.shown())
    w.close()


def main(place, tap):
    if not pg.binaries():
        tap.skip("the life of a PostgreSQL transaction", "PostgreSQL is not installed")
        return
    server = pg.Server(place)
    try:
        server.sql("CREATE ROLE agent LOGIN")
        add_database(server, "stock")
        for who in place.users():
            with_faults = [marker, partial] if place.faults_bin else []
            for part in (limits, locks, killed_in_between, odd_places, given_up, durable, *with_faults):
                if t.only(part.__name__) and (who == place.users()[0] or part in (killed_in_between, odd_places)):
                    part(Scene(place, tap, who, server))
    finally:
        server.stop()


t.run(main)
