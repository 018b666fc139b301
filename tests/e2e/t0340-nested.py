#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Resources within resources: each path belongs to the innermost, children land before parents, and nothing lands twice or half."""
import contextlib
import json
import os
import sqlite3
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

ROWS = "CREATE TABLE t(id INTEGER PRIMARY KEY, v); INSERT INTO t VALUES(1,'a'),(2,'b');"
EDIT = "UPDATE t SET v='new' WHERE id=1; INSERT INTO t VALUES(3,'c');"
RUN_SQL = "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.executescript(sys.argv[2]); c.commit(); c.close()"
OLD, NEW = [(1, "a"), (2, "b")], [(1, "new"), (2, "b"), (3, "c")]


def sql(path, script):
    with contextlib.closing(sqlite3.connect(path, timeout=20)) as db:
        db.executescript(script)
        db.commit()


def rows(path):
    with contextlib.closing(sqlite3.connect(path, timeout=20)) as db:
        sound = db.execute("PRAGMA integrity_check").fetchone()[0]
        return db.execute("SELECT * FROM t ORDER BY id").fetchall() if sound == "ok" else sound


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


class Scene(t.Box):
    """A directory for originals, and git as whoever works there."""

    def __init__(self, place, who, ground=None, **more):
        super().__init__(place, who, **more)
        self.top = place.fresh("nested", who, ground)
        self.home = place.fresh("home", who)
        self.environment["HOME"] = self.home
        write(self.home + "/.gitconfig", "[user]\n\tname = T\n\temail = t@example.org\n[init]\n\tdefaultBranch = main\n"
              "[safe]\n\tdirectory = *\n")
        self.settle()

    def settle(self):
        """Everything belongs to whoever works there."""
        if self.place.is_root:
            t.give(self.top, self.place.uid(self.who))
            t.give(self.home, self.place.uid(self.who))

    def path(self, *names):
        return os.path.join(self.top, *names)

    def git(self, where, *arguments):
        done = subprocess.run(["git", "-C", self.path(where), *arguments], env={**os.environ, "HOME": self.home}, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise RuntimeError(done.stdout.decode())
        return done.stdout.decode()

    def repository(self, name):
        write(self.path(name, "f"), "old\n")
        self.git(name, "init", "-q")
        self.git(name, "add", "f")
        self.git(name, "commit", "-qm", "one")

    def sql(self, name, script):
        return self.run(t.PYTHON, "-I", "-c", RUN_SQL, self.path(name), script)

    def outside(self, name, script):
        return self.command([t.PYTHON, "-I", "-c", RUN_SQL, self.path(name), script])

    def shell(self, script):
        return self.run("sh", "-ec", "cd '%s'; %s" % (self.top, script))

    def begin(self, *arguments):
        self.settle()
        return self.new(*[a if a.startswith("-") or a in (self.strategy, "none") else
                          "sqlite:" + self.path(a[7:]) if a.startswith("sqlite:") else self.path(a) for a in arguments])

    def log(self, name):
        return self.git(name, "log", "--format=%s").splitlines()

    def status(self, name):
        return self.git(name, "status", "--short").splitlines()


# ---- each pair ----

def database_in_directory(place, tap, who, strategy, order, ground=None):
    box = Scene(place, who, ground, strategy=strategy)
    name = "%s, %s, the %s first" % (strategy, who, order)
    db = "app/data/local.db"
    place.make_directory(box.path("app"), ground)
    write(box.path("app/x"), "old")
    write(box.path("app/data/keep"), "kept")
    write(box.path("app/old/o"), "o")
    sql(box.path(db), "PRAGMA journal_mode=WAL;" + ROWS)
    parts = [("--dir", "app"), ("--db", "sqlite:" + db)]
    made = box.begin(*sum(parts if order == "directory" else parts[::-1], ()))
    ran = box.sql(db, EDIT)
    listed = box.diff().stdout.decode()
    tap.check("a database in a directory is listed once, by row, and the directory says whose it is, " + name, made.returncode == 0 and
              ran.returncode == 0 and "1 inserted, 1 updated" in listed and "transaction_rollback, and lands with that" in listed and
              "1 change:" in listed and rows(box.path(db)) == OLD, t.said(made), t.said(ran), listed)
    box.shell("echo new > app/x; echo n > app/data/new; rm -r app/old; mkdir app/old; echo p > app/old/p")
    box.outside(db, "INSERT INTO t VALUES(10,'theirs')")
    nested = [c for c in json.loads(box.diff("--json").stdout) if c["change"] == "skipped"]
    dry = box.commit("--dry-run").stdout.decode()
    tap.check("JSON says so too, and the plan has the child first, " + name, len(nested) == 1 and nested[0]["path"] == "data/local.db" and
              "lands with that" in nested[0]["note"] and 0 < dry.find("land as a whole") < dry.find("/app/x: exchange"), nested, dry)
    done = box.commit("--json")
    outcomes = [r["outcome"] for r in json.loads(done.stdout)["resources"]]
    tap.check("both land, among what others did, " + name, done.returncode == 0 and outcomes == ["committed"] * 2 and
              rows(box.path(db)) == NEW + [(10, "theirs")] and read(box.path("app/x")) == "new\n" and
              sorted(os.listdir(box.path("app/old"))) == ["p"] and read(box.path("app/data/new")) == "n\n", t.said(done), rows(box.path(db)))
    box.sql(db, "INSERT INTO t VALUES(4,'later')")
    after = box.diff().stdout.decode()
    undone = box.undo()
    tap.check("an undo takes both back and keeps the edits, newer ones too, " + name, "1 inserted" in after and
              undone.returncode == 0 and rows(box.path(db)) == OLD + [(10, "theirs")] and read(box.path("app/x")) == "old" and
              "2 inserted, 1 updated" in box.diff().stdout.decode(), t.said(undone), after)
    again = box.commit()
    back = box.rollback("--landed")
    tap.check("they land again, and a rollback is of both, " + name, again.returncode == 0 and back.returncode == 0 and
              rows(box.path(db)) == OLD + [(10, "theirs")] and read(box.path("app/x")) == "old" and
              b"no changes" in box.diff().stdout, t.said(again), t.said(back))
    box.shell("rm -r app/data")
    refused = box.commit()
    tap.check("a directory that holds a database does not go with it, " + name, refused.returncode == 4 and
              b"local.db" in refused.stderr and rows(box.path(db)) == OLD + [(10, "theirs")] and
              read(box.path("app/data/keep")) == "kept", t.said(refused))
    removed = box.rm("--force")
    tap.check("nothing is left, " + name, removed.returncode == 0 and sorted(os.listdir(box.path("app/data"))) == ["keep", "local.db"],
              os.listdir(box.path("app/data")))


def without_namespaces(place, tap, who):
    """A command works in the copy itself, at the copy's path, and finds the clone there."""
    box = Scene(place, who, strategy="copy_on_write")
    db = "app/data/local.db"
    os.makedirs(box.path("app/data"))
    os.makedirs(box.path("app/inner"))
    sql(box.path(db), ROWS)
    inner, helper = box.command, [t.PYTHON, "-I", "-S", os.path.join(place.lib, "without.py"), "namespaces"]
    box.command = lambda argv, **more: inner([*helper, *argv], **more)
    made = box.begin("--db", "sqlite:" + db, "--dir", "app", "--dir", "app/inner")
    ran = [box.atoll("run", "--isolation=best", box.name, "--", t.PYTHON, "-I", "-c", RUN_SQL, "local.db", EDIT, cwd=box.path("app/data")),
           box.atoll("run", "--isolation=best", box.name, "--", "sh", "-c", "echo new > f", cwd=box.path("app/inner"))]
    held_back = rows(box.path(db)) == OLD and read(box.path("app/inner/f")) is None
    done = box.commit()
    tap.check("without namespaces each is in its own copy, and lands, " + who, made.returncode == 0 and held_back and
              all(r.returncode == 0 for r in ran) and done.returncode == 0 and rows(box.path(db)) == NEW and
              read(box.path("app/inner/f")) == "new\n", t.said(made), *[t.said(r) for r in ran], t.said(done))
    box.atoll("run", "--isolation=best", box.name, "--", "sh", "-c", "rmdir inner", cwd=box.path("app"))
    done = box.commit()
    tap.check("what is nobody's to remove stays, " + who, read(box.path("app/inner/f")) == "new\n", t.said(done))
    undone = box.undo()
    tap.check("and it is taken back, " + who, undone.returncode == 0 and rows(box.path(db)) == OLD and
              read(box.path("app/inner/f")) is None, t.said(undone))
    box.drop()


def conflicts(place, tap, who):
    """One that cannot land stops the others, whichever it is."""
    box = Scene(place, who)
    db = "app/local.db"
    write(box.path("app/x"), "old")
    sql(box.path(db), ROWS)
    box.begin("--dir", "app", "--db", "sqlite:" + db)
    box.sql(db, EDIT)
    box.shell("echo new > app/x")
    box.outside(db, "UPDATE t SET v='theirs' WHERE id=1")
    child = box.commit()
    tap.check("a conflict in the child stops the parent, " + who, child.returncode == 3 and b"the row id=1" in child.stderr and
              read(box.path("app/x")) == "old", t.said(child))
    box.outside(db, "UPDATE t SET v='a' WHERE id=1")
    box.command(["sh", "-c", "echo theirs > " + box.path("app/x")])
    parent = box.commit()
    tap.check("a conflict in the parent stops the child, " + who, parent.returncode == 3 and b"/app/x: was changed by somebody else" in parent.stderr and
              rows(box.path(db)) == OLD, t.said(parent))
    alone = box.commit(box.path(db))
    tap.check("the child lands alone when it is named, " + who, alone.returncode == 0 and rows(box.path(db)) == NEW and
              read(box.path("app/x")) == "theirs\n", t.said(alone))
    undone = box.undo()
    tap.check("and is taken back alone, " + who, undone.returncode == 0 and rows(box.path(db)) == OLD, t.said(undone))
    box.drop()


def database_in_repository(place, tap, who, how):
    box = Scene(place, who)
    name = "%s, %s" % (how, who)
    db = "svc/d/db.sqlite3"
    box.repository("svc")
    os.mkdir(box.path("svc/d"))
    sql(box.path(db), ROWS)
    if how == "tracked":
        box.git("svc", "add", "d")
        box.git("svc", "commit", "-qm", "two")
        sql(box.path(db), "INSERT INTO t VALUES(9,'dirty')")
    elif how == "ignored":
        write(box.path("svc/.git/info/exclude"), "*.sqlite3\n")
    more = [(9, "dirty")] if how == "tracked" else []
    before = box.status("svc")
    made = box.begin("--db", "sqlite:" + db, "--git", "svc")
    box.sql(db, EDIT)
    box.shell("echo new >> svc/f")
    done = box.commit("-m", "edits")
    stat = box.git("svc", "show", "--stat", "--format=")
    tap.check("rows land in a %s database, and the commit of edits leaves it out, %s" % (how, who), made.returncode == 0 and
              done.returncode == 0 and rows(box.path(db)) == NEW + more and box.status("svc") == before and "sqlite3" not in stat and
              read(box.path("svc/f")) == "old\nnew\n", t.said(made), t.said(done), stat, box.status("svc"))
    box.sql(db, "INSERT INTO t VALUES(5,'e')")
    box.shell("cd svc; echo more >> f; git add -f d; git commit -qam inside")
    done = box.commit()
    status = box.status("svc")
    tap.check("committed inside, it lands in the branch and by row, and git sees what differs, " + name, done.returncode == 0 and
              rows(box.path(db)) == NEW[:3] + [(5, "e")] + more and status in ([" M d/db.sqlite3"], []) and
              "d/db.sqlite3" in box.git("svc", "show", "--stat", "--format=") and "error" not in box.git("svc", "fsck", "--strict"),
              t.said(done), status)
    undone = box.undo()
    tap.check("both are taken back, " + name, undone.returncode == 0 and rows(box.path(db)) == NEW + more and
              box.status("svc") == before and box.log("svc")[0] == "edits", t.said(undone), box.status("svc"))
    box.drop()


def repositories(place, tap, who, strategy):
    """A repository in a directory, and one in another repository."""
    box = Scene(place, who, strategy=strategy)
    name = "%s, %s" % (strategy, who)
    write(box.path("app/x"), "old")
    box.repository("app/vendor/repo")
    made = box.begin("--git", "app/vendor/repo", "--dir", "app", "--strategy", strategy)
    box.shell("echo new > app/x; cd app/vendor/repo; echo new > f; git commit -qam two")
    busy = box.shell("rmdir app/vendor/repo")
    done = box.commit()
    tap.check("a repository in a directory lands as one, " + name, made.returncode == 0 and busy.returncode != 0 and done.returncode == 0 and
              read(box.path("app/x")) == "new\n" and box.log("app/vendor/repo") == ["two", "one"] and not box.status("app/vendor/repo"),
              t.said(made), t.said(done))
    undone = box.undo()
    tap.check("and goes back with it, " + name, undone.returncode == 0 and read(box.path("app/x")) == "old" and
              box.log("app/vendor/repo") == ["one"] and not box.status("app/vendor/repo"), t.said(undone))
    box.drop()


def in_repository(place, tap, who):
    box = Scene(place, who)
    box.repository("svc")
    box.repository("svc/sub")
    write(box.path("svc/build/out"), "old")
    write(box.path("svc/.git/info/exclude"), "build\n")
    box.git("svc", "add", "-f", "build/out")
    box.git("svc", "commit", "-qm", "two")
    made = box.begin("--dir", "svc/build", "--git", "svc", "--git", "svc/sub")
    box.shell("cd svc; echo new > build/out; echo fresh > build/fresh; echo new > f; cd sub; echo new > f; git commit -qam inner; "
              "cd ..; git add -f build sub; git commit -qm outer; echo last > f")
    listed = box.diff().stdout.decode()
    done = box.commit("-m", "edits")
    tap.check("a directory and a repository in a repository land as one, " + who, made.returncode == 0 and done.returncode == 0 and
              box.log("svc") == ["edits", "outer", "two", "one"] and box.log("svc/sub") == ["inner", "one"] and
              read(box.path("svc/build/fresh")) == "fresh\n" and not box.status("svc") and not box.status("svc/sub") and
              listed.count("lands with that") == 2, t.said(made), t.said(done), listed, box.status("svc"))
    undone = box.undo()
    tap.check("and are taken back, " + who, undone.returncode == 0 and box.log("svc") == ["two", "one"] and
              box.log("svc/sub") == ["one"] and read(box.path("svc/build/out")) == "old" and
              read(box.path("svc/build/fresh")) is None and box.status("svc") == ["?? sub/"], t.said(undone), box.status("svc"))
    box.drop()


def beside(place, tap, who):
    """Databases beside one another and beside files, in any order."""
    box = Scene(place, who)
    for name in ("one.db", "two.db", "sub/three.db"):
        os.makedirs(os.path.dirname(box.path(name)), exist_ok=True)
        sql(box.path(name), ROWS)
    write(box.path("a.txt"), "old")
    write(box.path("b.txt"), "old")
    made = box.begin("--db", "sqlite:two.db", "--file", "b.txt", "--db", "sqlite:sub/three.db", "--file", "a.txt", "--db", "sqlite:one.db")
    for name in ("one.db", "two.db", "sub/three.db"):
        box.sql(name, EDIT)
    box.shell("echo new > a.txt; echo new > b.txt")
    listed = box.diff().stdout.decode()
    done = box.commit()
    tap.check("three databases and two files of one directory land, " + who, made.returncode == 0 and done.returncode == 0 and
              all(rows(box.path(n)) == NEW for n in ("one.db", "two.db", "sub/three.db")) and read(box.path("a.txt")) == "new\n" and
              read(box.path("b.txt")) == "new\n" and "5 changes" in listed and "skipped" not in listed, t.said(made), t.said(done), listed)
    undone = box.undo()
    tap.check("and databases beside files are taken back, " + who, undone.returncode == 0 and rows(box.path("one.db")) == OLD and
              rows(box.path("sub/three.db")) == OLD and read(box.path("a.txt")) == "old", t.said(undone))
    back = box.rollback()
    tap.check("and rolled back, " + who, back.returncode == 0 and b"no changes" in box.diff().stdout, t.said(back), t.said(box.diff()))
    box.rm()
    for extra, why in ((("--file", "one.db-wal"), b"belongs to"), (("--dir", ".", "--strategy", "none"), b"not isolated")):
        write(box.path("one.db-wal"), "")
        refused = box.begin("--db", "sqlite:one.db", *extra)
        tap.check("%s with it is refused, %s" % (extra[0], who), refused.returncode == 4 and why in refused.stderr, t.said(refused))
        os.unlink(box.path("one.db-wal"))
    box.drop()


# ---- databases that nobody named ----

HOLD = """import sqlite3, sys
c = sqlite3.connect(sys.argv[1], uri=True, isolation_level=None)
c.execute(sys.argv[2]).fetchall()
c.execute("SELECT * FROM t").fetchall()
print(flush=True)
sys.stdin.read()"""


@contextlib.contextmanager
def held(box, name, how="SELECT 1", mode="rw"):
    """Somebody has the database open meanwhile."""
    with subprocess.Popen([t.PYTHON, "-I", "-c", HOLD, "file:%s?mode=%s" % (box.path(name), mode), how], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, **box.identity()) as process:
        process.stdout.readline()
        try:
            yield
        finally:
            process.stdin.close()


def unnamed(place, tap, who, strategy):
    """A database below a directory is a file like any other, unless somebody has it open: then it is refused, and how it is named is said."""
    box = Scene(place, who, strategy=strategy)
    db = "app/data/l.db"
    os.makedirs(box.path("app/data"))
    sql(box.path(db), ROWS)
    box.begin("--dir", "app")
    box.sql(db, EDIT)
    hint = ("--db sqlite:" + box.path(db)).encode()
    for what, how, mode in (("to write", "SELECT 1", "rw"), ("to read", "SELECT 1", "ro"), ("in a transaction", "BEGIN IMMEDIATE", "rw")):
        with held(box, db, how, mode):
            dry = box.commit("--dry-run")
            done = box.commit()
        tap.check("a database that somebody has open %s is not swapped, %s, %s" % (what, strategy, who), done.returncode == 4 and
                  dry.returncode == 4 and hint in done.stderr and rows(box.path(db)) == OLD, t.said(done), t.said(dry))
    done = box.commit()
    tap.check("one that nobody has open lands as a file, %s, %s" % (strategy, who), done.returncode == 0 and rows(box.path(db)) == NEW, t.said(done))
    with held(box, db, mode="ro"):
        undone = box.undo()
    tap.check("nor is it taken back under anybody, %s, %s" % (strategy, who), undone.returncode == 3 and b"l.db" in undone.stderr and
              rows(box.path(db)) == NEW and box.undo().returncode == 0 and rows(box.path(db)) == OLD, t.said(undone))
    box.rollback()
    box.shell("rm -r app/data")
    with held(box, db):
        done = box.commit()
    tap.check("nor does it go with its directory, %s, %s" % (strategy, who), done.returncode == 4 and hint in done.stderr and
              rows(box.path(db)) == OLD, t.said(done))
    box.rollback()
    box.shell("echo x > app/data/l.db-journal")
    with held(box, db):
        done = box.commit()
    tap.check("nor is a journal put beside it, %s, %s" % (strategy, who), done.returncode == 4 and hint in done.stderr and
              rows(box.path(db)) == OLD, t.said(done))
    box.drop()


def with_a_log(place, tap, who):
    """A log that was left by a crash belongs to the database that it was written for."""
    box = Scene(place, who)
    db, log = "app/l.db", "app/l.db-wal"
    os.makedirs(box.path("app"))
    sql(box.path("spare"), "PRAGMA journal_mode=WAL;" + ROWS)
    with contextlib.closing(sqlite3.connect(box.path("spare"))) as spare:
        spare.execute("INSERT INTO t VALUES(7,'in the log')")
        spare.commit()
        for end in ("", "-wal"):
            with open(box.path("spare" + end), "rb") as source, open(box.path(db + end), "wb") as target:
                target.write(source.read())
    box.begin("--dir", "app")
    box.sql(db, EDIT)
    done = box.commit()
    tap.check("a log lands and goes with its database, " + who, done.returncode == 0 and not os.path.exists(box.path(log)) and
              rows(box.path(db)) == NEW + [(7, "in the log")], t.said(done))
    box.sql(db, "INSERT INTO t VALUES(8,'later')")
    write(box.path(log), "somebody else's")
    box.settle()
    done = box.commit()
    os.unlink(box.path(log))
    tap.check("a database is not put beside a log of another, " + who, done.returncode == 4 and b"log (-wal)" in done.stderr and
              rows(box.path(db)) == NEW + [(7, "in the log")], t.said(done))
    box.drop()


def foreign_log(place, tap, who, *around):
    """Somebody opens the original, with a log, after a command inside has closed its own: that log is not taken for the clone's."""
    box = Scene(place, who)
    db = "app/data/l.db"
    os.makedirs(box.path("app/data"))
    sql(box.path(db), "PRAGMA journal_mode=WAL;" + ROWS)
    box.begin(*around, "--db", "sqlite:" + db)
    box.sql(db, EDIT)
    with held(box, db, "INSERT INTO t VALUES(30,'theirs')"):
        shown = box.shell("ls app/data")
        box.sql(db, "INSERT INTO t VALUES(4,'d')")
        listed = box.diff()
    done = box.commit()
    tap.check("a log of the original is never the clone's, %s, %s" % (around[0] if around else "alone", who), shown.stdout == b"l.db\n" and
              b"2 inserted, 1 updated" in listed.stdout and done.returncode == 0 and
              rows(box.path(db)) == NEW + [(4, "d"), (30, "theirs")], t.said(shown), t.said(listed), t.said(done), rows(box.path(db)))
    box.drop()


# ---- all or nothing ----

class Family(Scene):
    """A directory with a repository and a database in it, and a database in the repository: one sandbox over all, edited."""

    names = ("app/data/local.db", "app/vendor/repo/db.sqlite3")

    def __init__(self, place, who):
        super().__init__(place, who, program=place.faults_bin)
        write(self.path("app/x"), "old")
        write(self.path("app/gone/o"), "o")
        self.repository("app/vendor/repo")
        for name in self.names:
            os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
            sql(self.path(name), ROWS)
        self.old = self.content()
        self.begin_all()
        self.edit_all()

    def begin_all(self, **more):
        self.settle()
        return self.new("--db", "sqlite:" + self.path(self.names[0]), "--dir", self.path("app"), "--git", self.path("app/vendor/repo"),
                        "--db", "sqlite:" + self.path(self.names[1]), **more)

    def is_usable(self):
        return self.diff().returncode == 0 and self.shell("true").returncode == 0

    def edit_all(self):
        self.shell("echo new > app/x; rm -r app/gone; mkdir app/gone; echo p > app/gone/p; cd app/vendor/repo; echo new > f")
        for name in self.names:
            self.sql(name, EDIT)

    def content(self):
        # Killed before it has written anything, SQLite leaves an empty journal, which means nothing to it and which git lists.
        status = tuple(line for line in self.status("app/vendor/repo") if not line.endswith("-journal"))
        return (read(self.path("app/x")), tuple(sorted(os.listdir(self.path("app/gone")))), read(self.path("app/vendor/repo/f")),
                len(self.log("app/vendor/repo")), status, tuple(tuple(rows(self.path(n))) for n in self.names))

    def count(self, operation):
        counter = self.environment["ATOLL_STATE_DIR"] + ".count"
        done = operation(fault="count", program_environment={"ATOLL_FAULT_COUNT": counter})
        return done, int(read(counter))

    def is_whole(self):
        """What is inside goes on: both databases are there, and nothing of the edits is lost or done twice."""
        seen = [self.run(t.PYTHON, "-I", "-c", "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute("
                         "'SELECT count(*) FROM t').fetchone()[0])", self.path(n)).stdout for n in self.names]
        return seen == [b"3\n"] * 2


def faults(number, points):
    kinds = ("kill", "EIO", "ENOSPC")
    if t.TORTURE:
        return [(point, kind) for kind in kinds for point in range(1, number + 1)]
    return [(p, kinds[i % 4 % 3]) for i, p in enumerate(range(max(1, number // points // 2), number + 1, max(1, number // points)))]


def walk(box, operation, before, after, points):
    for point, kind in points:
        done = operation(fault="%d:%s" % (point, kind))
        recovered = box.recover()
        now = box.content()
        if now not in (before, after) or recovered.returncode != 0 or not box.is_whole():
            return point, kind, "%d, %s: %s; %s; %r" % (point, kind, t.said(done), t.said(recovered), now)
        if now == after:
            return point, kind, None
    return None


def all_or_nothing(place, tap, who):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False)
        return
    box = Family(place, who)
    done, number = box.count(box.commit)
    new = box.content()
    tap.check("parents and children land together, " + who, done.returncode == 0 and new[0] == "new\n" and
              new[5] == (tuple(NEW), tuple(NEW)) and new[3] == 2, t.said(done), new)
    undone, undo_number = box.count(box.undo)
    tap.check("and go back together, " + who, undone.returncode == 0 and box.content() == box.old, t.said(undone), box.content())
    points, found, ends = faults(number, 7), [], 0
    while points and not found:
        stop = walk(box, box.commit, box.old, new, points)
        if not stop:
            break
        ends += 1
        points = points[points.index(stop[:2]) + 1:]
        found += [stop[2]] if stop[2] else []
        undone = box.undo()
        if undone.returncode != 0 or box.content() != box.old:
            found.append("the undo after %d: %s; %r" % (stop[0], t.said(undone), box.content()))
    tap.check("a commit killed or failed at points of %d, %d of them past its decision, %s" % (number, ends, who), not found, *found)
    done = box.commit()
    tap.check("lands at last, " + who, done.returncode == 0 and box.content() == new, t.said(done))
    points, ends = faults(undo_number, 6), 0
    while points and not found:
        stop = walk(box, box.undo, new, box.old, points)
        if not stop:
            break
        ends += 1
        points = points[points.index(stop[:2]) + 1:]
        found += [stop[2]] if stop[2] else []
        again = box.commit()
        if again.returncode != 0 or box.content() != new:
            found.append("the edits did not come back after %d: %s; %r" % (stop[0], t.said(again), box.content()))
    tap.check("an undo killed or failed at points of %d, %d of them past its decision, %s" % (undo_number, ends, who), not found, *found)
    box.drop()


def spread(number, points):
    return range(1, number + 1) if t.TORTURE else range(max(1, number // points // 2), number + 1, max(1, number // points))


def broken_off(place, tap, who):
    """A rollback, which makes hosts and guests fresh, and a new, killed at points."""
    box = Family(place, who)
    box.commit()
    new, number, found = box.content(), None, []
    done, number = box.count(lambda **more: box.rollback("--landed", **more))
    if done.returncode != 0 or box.content() != box.old or b"no changes" not in box.diff().stdout:
        found.append("%s; %s" % (t.said(done), t.said(box.diff())))
    for point in spread(number, 6):
        if box.content() == box.old:
            box.rollback()
            box.edit_all()
            box.commit()
        begun = box.content() == new
        done = box.rollback("--landed", fault="%d:kill" % point)
        recovered = box.recover()
        now = box.content()
        last = box.rollback("--landed")
        if not begun or now not in (box.old, new) or recovered.returncode != 0 or last.returncode != 0 or box.content() != box.old or \
                b"no changes" not in box.diff().stdout:
            found.append("%d: %s; %s; %s; %r" % (point, t.said(done), t.said(recovered), t.said(last), now))
    tap.check("a rollback killed at points of %d, %s" % (number, who), not found, *found)
    box.rm()
    number, found = box.count(box.begin_all)[1], []
    for point in spread(number, 6):
        box.rm()
        done = box.begin_all(fault="%d:kill" % point)
        recovered = box.recover()
        left = box.atoll("list", "--json").stdout.strip() not in (b"[]", b"")
        if recovered.returncode != 0 or box.content() != box.old or (left and done.returncode == -9 and not box.is_usable()):
            found.append("%d: %s; %s" % (point, t.said(done), t.said(recovered)))
    tap.check("a new killed at points of %d, %s" % (number, who), not found, *found)
    box.rm()
    left = t.residue(box.state + "/boxes")
    tap.check("and nothing is left, " + who, not left, left)
    box.drop()


def main(place, tap):
    for who in place.users():
        orders = ("directory", "database") if who == "root" else ("database", "directory")
        database_in_directory(place, tap, who, "overlay", orders[0])
        database_in_directory(place, tap, who, "copy_on_write", orders[1])
        all_or_nothing(place, tap, who)
        repositories(place, tap, who, "overlay" if who == "root" else "copy_on_write")
    who = place.users()[-1]
    for how in ("tracked", "untracked", "ignored"):
        database_in_repository(place, tap, who if how != "untracked" else "root" if place.is_root else who, how)
    broken_off(place, tap, who)
    conflicts(place, tap, who)
    in_repository(place, tap, who)
    beside(place, tap, who)
    if who != "root":
        without_namespaces(place, tap, who)
    ground = place.mount("btrfs", subvolumes=True) if place.is_root else None
    if not ground:
        tap.skip("a database in a snapshot", "a btrfs cannot be made or mounted here")
    else:
        for owner in place.users():
            database_in_directory(place, tap, owner, "snapshot", "database", ground)
        place.unmount(ground)
    unnamed(place, tap, who, "overlay")
    unnamed(place, tap, "root" if place.is_root else who, "copy_on_write")
    with_a_log(place, tap, who)
    foreign_log(place, tap, who)
    foreign_log(place, tap, "root" if place.is_root else who, "--dir", "app")
    foreign_log(place, tap, who, "--dir", "app")


t.run(main)
