#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SQLite databases as resources: cloned while in use, landed by row or as a whole, taken back, and never half."""
import contextlib
import json
import os
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

PEOPLE = """CREATE TABLE people(id INTEGER PRIMARY KEY, name TEXT, mail TEXT UNIQUE);
            INSERT INTO people VALUES(1,'ann','a'),(2,'bob','b'),(3,'cid','c');
            CREATE TABLE loose(a); INSERT INTO loose VALUES(1);"""
EDIT = "UPDATE people SET name='BOB' WHERE id=2; DELETE FROM people WHERE id=3; INSERT INTO people VALUES(4,'dan','d');"
RUN_SQL = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.executescript(sys.argv[2]); c.commit()"


def sql(path, script):
    with contextlib.closing(sqlite3.connect(path, timeout=20)) as db:
        db.executescript(script)
        db.commit()


def dump(path):
    with contextlib.closing(sqlite3.connect(path, timeout=20)) as db:
        return "\n".join(db.iterdump())


def sound(path):
    with contextlib.closing(sqlite3.connect(path, timeout=20)) as db:
        return db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"


class Base(t.Box):
    """A sandbox over one database."""

    def __init__(self, place, who, script=PEOPLE, name="shop's \"x\".db", **more):
        super().__init__(place, who, **more)
        self.dir = place.fresh("data", who)
        self.path = os.path.join(self.dir, name)
        sql(self.path, script)
        if place.is_root:
            t.give(self.dir, place.uid(who))

    def begin(self, *more, **how):
        return self.new("--db", "sqlite:" + self.path, *more, **how)

    def sql(self, script, **more):
        return self.run(t.PYTHON, "-I", "-c", RUN_SQL, self.path, script, **more)

    def outside(self, script):
        """What somebody else does, as the same user: the files beside the database must stay theirs."""
        return self.command([t.PYTHON, "-I", "-c", RUN_SQL, self.path, script])


def life(place, tap, who, mode):
    box = Base(place, who, "PRAGMA journal_mode=%s;" % mode + PEOPLE)
    name = "%s, %s" % (mode, who)
    before = dump(box.path)
    made = box.begin()
    ran = box.sql(EDIT)
    tap.check("what is done inside does not reach the original, " + name, made.returncode == 0 and ran.returncode == 0 and
              dump(box.path) == before, t.said(made), t.said(ran))
    box.outside("INSERT INTO people VALUES(10,'eve','e')")
    listed = box.diff()
    tap.check("a diff counts rows, " + name, b"table people" in listed.stdout and
              b"1 inserted, 1 updated, 1 deleted" in listed.stdout, t.said(listed))
    patch = box.diff("--patch").stdout.decode()
    tap.check("a patch shows them, " + name, "-people id=2 name='bob'\n+people id=2 name='BOB'\n-people id=3 name='cid' mail='c'\n"
              "+people id=4 name='dan' mail='d'\n" in patch, patch)
    rows = json.loads(box.diff("--json").stdout)[0]["rows"]
    tap.check("and so does JSON, " + name, [(row["change"], row["key"]["id"]) for row in rows] ==
              [("modified", "2"), ("deleted", "3"), ("added", "4")] and rows[0]["old"]["name"] == "'bob'" and
              rows[0]["new"]["name"] == "'BOB'" and rows[1]["new"] is None, rows)
    expected = box.path + ".expected"
    sql(expected, PEOPLE + EDIT + "INSERT INTO people VALUES(10,'eve','e')")
    dry = box.commit("--dry-run")
    done = box.commit("--json")
    result = json.loads(done.stdout)
    tap.check("a commit lands them among those of others, " + name, dry.returncode == 0 and done.returncode == 0 and
              dump(box.path) == dump(expected) and result["resources"][0]["outcome"] == "committed", t.said(dry), t.said(done),
              dump(box.path))
    seen = box.run(t.PYTHON, "-I", "-c", "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute("
                   "'SELECT count(*) FROM people').fetchone()[0])", box.path)
    tap.check("and the sandbox sees them too, " + name, seen.stdout == b"4\n" and b"no changes" in box.diff().stdout, t.said(seen))
    box.sql("INSERT INTO people VALUES(5,'fay','f')")
    box.outside("INSERT INTO people VALUES(11,'gil','g')")
    undone = box.undo()
    sql(expected + "2", PEOPLE + "INSERT INTO people VALUES(10,'eve','e'),(11,'gil','g')")
    tap.check("an undo takes back ours alone, " + name, undone.returncode == 0 and dump(box.path) == dump(expected + "2"),
              t.said(undone), dump(box.path))
    listed = box.diff()
    again = box.commit()
    sql(expected, "INSERT INTO people VALUES(5,'fay','f'),(11,'gil','g')")
    tap.check("and keeps the edits, the newer ones too, " + name, b"2 inserted, 1 updated, 1 deleted" in listed.stdout and
              again.returncode == 0 and dump(box.path) == dump(expected), t.said(listed), t.said(again), dump(box.path))
    box.sql("DELETE FROM people")
    dropped = box.rollback()
    tap.check("a rollback drops edits, " + name, dropped.returncode == 0 and b"no changes" in box.diff().stdout and
              dump(box.path) == dump(expected), t.said(dropped))
    removed = box.rm()
    left = [n for n in os.listdir(box.dir) if "expected" not in n and n != os.path.basename(box.path)]
    tap.check("nothing is left, " + name, removed.returncode == 0 and not left and sound(box.path), t.said(removed), left)


def conflicts(place, tap, who):
    box = Base(place, who)
    box.begin()
    box.sql(EDIT)
    box.outside("UPDATE people SET mail='z' WHERE id=2")
    before = dump(box.path)
    done = box.commit()
    tap.check("a row that somebody changed is a conflict and named, " + who, done.returncode == 3 and
              b"the row id=2 was changed by somebody else" in done.stderr and dump(box.path) == before, t.said(done))
    box.outside("UPDATE people SET mail='b' WHERE id=2")
    done = box.commit()
    tap.check("and lands when it is as it was, " + who, done.returncode == 0, t.said(done))
    box.outside("UPDATE people SET name='their' WHERE id=4")
    done = box.undo()
    tap.check("an undo that would lose somebody else's row is a conflict, " + who, done.returncode == 3 and
              b"the row id=4 was changed by somebody else" in done.stderr, t.said(done))
    box.drop()


def whole(place, tap, who):
    box = Base(place, who)
    box.begin()
    box.sql("ALTER TABLE people ADD COLUMN age; CREATE INDEX i ON people(age); INSERT INTO loose VALUES(2)")
    before = dump(box.path)
    listed = box.diff()
    with contextlib.closing(sqlite3.connect(box.path)) as open_db:
        open_db.execute("SELECT * FROM people").fetchall()
        done = box.commit()
        columns = len(open_db.execute("SELECT * FROM people").fetchone())
    tap.check("a schema lands, seen by who has it open, " + who, done.returncode == 0 and columns == 4 and b"schema i" in listed.stdout and
              b"lands as a whole" in done.stdout + done.stderr, t.said(done), t.said(listed))
    undone = box.undo()
    tap.check("and goes back, " + who, undone.returncode == 0 and dump(box.path) == before, t.said(undone))
    box.outside("UPDATE people SET name='x' WHERE id=1")
    refused = box.commit()
    tap.check("but not over anybody's write, " + who, refused.returncode == 3 and b"table people" in refused.stderr, t.said(refused))
    box.drop()


def altered(place, tap, who):
    """Rows that were edited in a table of which the definition changed too."""
    box = Base(place, who)
    box.begin()
    box.sql("ALTER TABLE people ADD COLUMN age; DELETE FROM people WHERE id=1; UPDATE people SET name='forged' WHERE id=3;"
            "ALTER TABLE loose ADD COLUMN b")
    listed = box.diff()
    patch = box.diff("--patch").stdout.decode()
    rows = [row for change in json.loads(box.diff("--json").stdout) for row in change.get("rows", [])]
    tap.check("a diff lists the rows of an altered table, " + who, b"table people  (1 updated, 1 deleted)" in listed.stdout and
              "-people id=1 name='ann' mail='a' age=NULL\n-people id=3 name='cid'\n+people id=3 name='forged'\n" in patch and
              [(row["change"], row["key"]["id"]) for row in rows] == [("deleted", "1"), ("modified", "3")],
              t.said(listed), patch, rows)
    tap.check("or says that they were not compared, " + who, b"table loose  (1 rows, 1 before; not compared, " in listed.stdout,
              t.said(listed))
    done = box.commit()
    tap.check("and the database lands as a whole, " + who, done.returncode == 0 and b"lands as a whole" in done.stdout + done.stderr and
              "VALUES(3,'forged','c',NULL)" in dump(box.path), t.said(done), dump(box.path))
    box.drop()


def recoded(place, tap, who):
    """A database that was made anew with another text encoding."""
    box = Base(place, who)
    before = dump(box.path)
    box.begin()
    box.run("rm", box.path)
    box.sql("PRAGMA encoding='UTF-16le';" + PEOPLE + "DROP TABLE loose; UPDATE people SET name='forged' WHERE id=3")
    listed = box.diff()
    tap.check("a diff lists what differs under another encoding, " + who, b"pragma encoding" in listed.stdout and
              b"schema loose  (DROP table" in listed.stdout and b"table people  (3 rows, 3 before)" in listed.stdout, t.said(listed))
    done = box.commit()
    tap.check("and that lands, " + who, done.returncode == 0 and "forged" in dump(box.path), t.said(done), dump(box.path))
    undone = box.undo()
    tap.check("and is taken back, " + who, undone.returncode == 0 and dump(box.path) == before, t.said(undone))
    box.drop()


def locked(place, tap, who):
    box = Base(place, who)
    box.begin()
    box.sql(EDIT)
    before = dump(box.path)
    with contextlib.closing(sqlite3.connect(box.path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        done = box.commit()
        other.execute("ROLLBACK")
    tap.check("one that stays locked is busy, and nothing changes, " + who, done.returncode == 6 and dump(box.path) == before,
              t.said(done))
    tap.check("and lands afterwards, " + who, box.commit().returncode == 0)
    box.drop()
    box = Base(place, who)
    box.begin()
    box.sql(EDIT)
    with contextlib.closing(sqlite3.connect(box.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        done = box.rollback()
        other.execute("ROLLBACK")
    os.rename(box.path, box.path + ".away")
    gone = box.rollback()
    shown = box.diff()
    os.rename(box.path + ".away", box.path)
    tap.check("a rollback drops nothing while it is locked or gone, " + who, done.returncode == 6 and
              gone.returncode == 5 and
              all(b"still in the sandbox" in one.stderr for one in (done, gone)) and
              b"1 inserted, 1 updated, 1 deleted" in shown.stdout,
              t.said(done), t.said(gone), t.said(shown))
    done = box.rollback()
    tap.check("and all of it afterwards, " + who, done.returncode == 0 and b"no changes" in box.diff().stdout and
              dump(box.path) == before, t.said(done))
    box.drop()


def bad_input(place, tap, who):
    box = Base(place, who)
    cases = {"missing": (None, b"missing"), "a directory": ("dir", b"is not a regular file"), "text": (b"x" * 5000, b"is not a SQLite database"),
             "a pipe": ("fifo", b"is not a regular file"), "cut short": ("cut", b"damaged")}
    for what, (content, said) in cases.items():
        path = os.path.join(box.dir, what + ".db")
        if content == "dir":
            os.mkdir(path)
        elif content == "fifo":
            os.mkfifo(path)
        elif content == "cut":
            sql(path, PEOPLE + "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<9999) INSERT INTO loose SELECT i FROM n")
            os.truncate(path, 8192)
        elif content:
            with open(path, "wb") as file:
                file.write(content)
        if os.path.exists(path) and place.is_root:
            os.chown(path, place.uid(who), place.uid(who))
        done = box.atoll("new", "bad", "--db", "sqlite:" + path, timeout=30)
        tap.check("%s is refused in one line, %s" % (what, who), done.returncode not in (0, 1) and done.stderr.count(b"\n") == 1 and
                  said in done.stderr and b"bad" not in box.atoll("list").stdout, t.said(done))


def hostile(place, tap, who):
    """What a command may leave in the place of the database."""
    tricks = {"a link": "rm %s; ln -s /etc/passwd %s", "a pipe": "rm %s; mkfifo %s", "garbage": "rm %s; head -c 9000 /dev/urandom > %s",
              "nothing": "rm %s; true %s", "a directory": "rm %s; mkdir %s"}
    for what, command in tricks.items():
        box = Base(place, who, name="x.db")
        box.begin()
        before = dump(box.path)
        box.run("sh", "-c", command % (box.path, box.path))
        shown = box.diff(timeout=30)
        done = box.commit(timeout=30)
        tap.check("%s in its place does not land, %s" % (what, who), done.returncode not in (0, 1) and dump(box.path) == before and
                  shown.returncode is not None, t.said(done), t.said(shown))
        back = box.rollback()
        tap.check("%s in its place can be rolled back, %s" % (what, who), back.returncode == 0 and box.sql(EDIT).returncode == 0 and
                  box.commit().returncode == 0 and dump(box.path) != before, t.said(back))
        box.drop()


TWO_SQL = """import resource,signal,sqlite3,sys
c=sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("ATTACH ? AS y", (sys.argv[2],))
c.execute("BEGIN"); c.execute("UPDATE main.t SET v='new' WHERE id=9000"); c.execute("UPDATE y.t SET v='new' WHERE id=89000")
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
c.execute("COMMIT")"""


def cut_off(place, tap, who):
    """A command that dies in a transaction over two databases, after it has written the first one
    and before the second."""
    rows = ("CREATE TABLE t(id INTEGER PRIMARY KEY, v); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<%d)"
            " INSERT INTO t SELECT i, 'old' FROM n;")
    for where in ("one directory", "two directories", "a directory of the sandbox"):
        apart = where == "two directories"
        box = Base(place, who, rows % 9000, name="x.db")
        second = (place.fresh("second", who) if apart else box.dir) + "/y.db"
        sql(second, rows % 90000)
        if place.is_root:
            t.give(os.path.dirname(second), place.uid(who))
        box.begin("--db", "sqlite:" + second, *(["--dir", box.dir] if where.startswith("a ") else []))
        box.sql("INSERT INTO t VALUES(99999,'first')")
        box.run(t.PYTHON, "-I", "-c", RUN_SQL, second, "INSERT INTO t VALUES(99999,'first')")
        limit = os.path.getsize(box.path) + (1 << 16)
        died = box.run(t.PYTHON, "-I", "-c", TWO_SQL, box.path,
                       second, str(limit))
        name = "in %s, %s" % (where, who)
        done = box.commit()
        if apart:
            tap.check("half of a transaction that was cut off is refused, " + name, died.returncode > 128 and
                      done.returncode == 4 and
                      b"first" not in dump(second).encode() and b"several directories" in done.stderr, t.said(died),
                      t.said(done))
            for path in (box.path, second):
                box.run(t.PYTHON, "-I", "-c", RUN_SQL, path, "SELECT count(*) FROM t")
            done = box.commit()
        landed = [dump(path) for path in (box.path, second)]
        tap.check("what was cut off does not land, what was before it does, " + name, died.returncode > 128 and
                  done.returncode == 0 and
                  all("first" in text and "new" not in text for text in landed) and sound(box.path) and sound(second),
                  t.said(died),
                  t.said(done))
        shown = box.diff()
        tap.check("nor later, " + name, b"no changes" in shown.stdout and box.undo().returncode == 0 and
                  box.commit().returncode == 0 and
                  [dump(path) for path in (box.path, second)] == landed, t.said(shown))
        box.drop()


class Trio(Base):
    """Two databases of one directory and a directory beside them, one sandbox over all three, edited."""

    def __init__(self, place, who):
        super().__init__(place, who, "PRAGMA journal_mode=WAL;" + PEOPLE, program=place.faults_bin)
        self.tree, self.second = self.dir + "/app", self.dir + "/a second.db"
        os.mkdir(self.tree)
        sql(self.second, PEOPLE)
        with open(self.tree + "/file", "w", encoding="ascii") as file:
            file.write("old")
        if place.is_root:
            t.give(self.dir, place.uid(who))
        self.old = self.content()
        self.begin("--dir", self.tree, "--db", "sqlite:" + self.second)
        self.run("sh", "-c", 'printf new > "$1"', "sh", self.tree + "/file")
        self.sql(EDIT)
        self.run(t.PYTHON, "-I", "-c", RUN_SQL, self.second, "CREATE TABLE more(a); DELETE FROM people;")

    def content(self):
        with open(self.tree + "/file", encoding="ascii") as file:
            return (file.read(), dump(self.path), dump(self.second))

    def count(self, operation):
        counter = self.environment["ATOLL_STATE_DIR"] + ".count"
        done = operation(fault="count", program_environment={"ATOLL_FAULT_COUNT": counter})
        with open(counter, encoding="ascii") as file:
            return done, int(file.read())

    def sound(self):
        return sound(self.path) and sound(self.second)


def faults(number, points):
    kinds = ("kill", "ENOSPC", "EIO")
    if t.TORTURE:
        return [(point, kind) for kind in kinds for point in range(1, number + 1)]
    return [(point, kinds[0 if i % 3 else 1 + i // 3 % 2]) for i, point in enumerate(range(1, number + 1, max(1, number // points)))]


def walk(box, operation, before, after, points, number):
    """Faults at points of an operation that leads from one state to the other; what failed is told truly, and recover brings one of them.
    Stops where it has come to the end; the caller goes on with another sandbox."""
    for point, kind in points:
        done = operation(fault="%d:%s" % (point, kind))
        if kind != "kill" and box.content() != (after if done.returncode == 0 else before) and done.returncode != 7:
            return point, kind, "%d: not the truth: %s; %r" % (point, t.said(done), box.content())
        recovered = box.recover()
        now = box.content()
        if now not in (before, after) or recovered.returncode != 0 or not box.sound():
            return point, kind, "%d of %d, %s: %s; %s; %r" % (point, number, kind, t.said(done), t.said(recovered), now)
        if now == after:
            return point, kind, None
    return None


def all_or_nothing(place, tap, who):
    """Killed, or let fail, at points over a commit of a directory and two databases, and over its undo: all are old or all new."""
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False)
        return
    box = Trio(place, who)
    done, number = box.count(box.commit)
    new = box.content()
    tap.check("a directory and two databases land together, " + who, done.returncode == 0 and new[0] == "new" and
              all(a != b for a, b in zip(box.old, new)), t.said(done))
    undone, undo_number = box.count(box.undo)
    tap.check("and are taken back as one, " + who, undone.returncode == 0 and box.content() == box.old, t.said(undone))
    points, found, ends, decided = faults(number, 14), [], 0, None
    while points and not found:
        stop = walk(box, box.commit, box.old, new, points, number)
        if not stop:
            break
        ends += 1
        points = points[points.index(stop[:2]) + 1:]
        decided = decided or (stop[0] if stop[1] == "kill" else None)
        found += [stop[2]] if stop[2] else []
        box.drop()
        box = Trio(place, who)
    tap.check("a commit killed or failed at points of %d, %d of them past its decision, %s" % (number, ends, who), not found, *found)
    done = box.commit()
    tap.check("lands at last, " + who, done.returncode == 0 and box.content() == new, t.said(done))
    # The last ones are where the undo data is removed, piece by piece.
    points, ends = faults(undo_number, 8) + [(undo_number - k, "ENOSPC") for k in (13, 10, 7, 4)], 0
    while points and not found:
        stop = walk(box, box.undo, new, box.old, points, undo_number)
        if not stop:
            break
        ends += 1
        points = points[points.index(stop[:2]) + 1:]
        found += [stop[2]] if stop[2] else []
        again = box.commit()
        if again.returncode != 0 or box.content() != new:
            found.append("the edits did not come back: %s" % t.said(again))
    tap.check("an undo killed or failed at points of %d, %d of them past its decision, %s" % (undo_number, ends, who), not found, *found)
    rolled_back(tap, box, who, found)
    box.drop()
    taken_away(place, tap, who, decided, new)


def rolled_back(tap, box, who, found):
    """A rollback that takes a commit back, of resources of which two share a workspace, killed now and again."""
    number = None
    for point in (None, -80, -55, -40, -25, -12):
        now = box.content()
        if now == box.old:
            box.run("sh", "-c", 'printf new > "$1"', "sh", box.tree + "/file")
            box.sql(EDIT)
            box.run(t.PYTHON, "-I", "-c", RUN_SQL, box.second, "CREATE TABLE more(a); DELETE FROM people;")
            box.commit()
        if point is None:
            done, number = box.count(lambda **more: box.rollback("--landed", **more))
            recovered = done
        else:
            done = box.rollback("--landed", fault="%d:kill" % (number + point))
            recovered = box.recover()
            box.rollback("--landed")
        if recovered.returncode != 0 or box.content() != box.old or b"no changes" not in box.diff().stdout:
            found.append("%s: %s; %s; %r" % (point, t.said(done), t.said(recovered), box.content()))
    tap.check("a rollback killed at points of %s, %s" % (number, who), not found, *found)


def taken_away(place, tap, who, decided, new):
    box = Trio(place, who)
    box.commit(fault="%d:kill" % decided)
    os.rename(box.path, box.path + ".away")
    recovered = box.recover()
    os.rename(box.path + ".away", box.path)
    shown = box.diff()
    tap.check("what has landed has landed, also if somebody takes the file away, " + who, recovered.returncode == 0 and
              box.content() == new and b"no changes" in shown.stdout, t.said(recovered), t.said(shown))
    again = box.sql("INSERT INTO people VALUES(77,'late','l')")
    done = box.commit()
    tap.check("and the sandbox goes on, " + who, again.returncode == 0 and done.returncode == 0 and "late" in dump(box.path),
              t.said(again), t.said(done))
    box.drop()


def main(place, tap):
    for who in place.users():
        life(place, tap, who, "DELETE" if who == "root" else "WAL")
        conflicts(place, tap, who)
        whole(place, tap, who)
        altered(place, tap, who)
        recoded(place, tap, who)
        all_or_nothing(place, tap, who)
    bad_input(place, tap, place.users()[-1])
    locked(place, tap, place.users()[-1])
    hostile(place, tap, place.users()[-1])
    for who in place.users():
        cut_off(place, tap, who)


t.run(main)
