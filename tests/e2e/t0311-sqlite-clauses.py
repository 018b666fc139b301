#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SQLite tables whose own rules change rows: ON CONFLICT clauses of every kind, triggers, foreign keys, generated columns, odd indexes.

A commit lands exactly the rows that the sandbox changed, or nothing. Each case is compared with a model: rows as dictionaries by key, merged by
key, and a function that says which values must be unique."""
import contextlib
import os
import shutil
import sqlite3
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

CLAUSES = ("REPLACE", "IGNORE", "FAIL", "ABORT", "ROLLBACK")
RUN_SQL = """import sqlite3,sys
c=sqlite3.connect(sys.argv[1], isolation_level=None)
c.executescript(sys.argv[2])"""


class Shape:
    """One kind of table. inside and outside: what the sandbox and somebody else do; they clash. clear: takes the clash away again. later: what
    somebody else does after the commit, so that an undo clashes, and clear_later. unique: of all rows of u, the values of which no two may be
    alike, as a list of lists."""

    def __init__(self, name, ddl, inside, outside, clear, unique=None, later=None, clear_later=None, key=1, dangling=None, rows=None):
        self.name, self.ddl, self.inside, self.outside, self.clear = name, ddl, inside, outside, clear
        self.unique = unique or (lambda rows: [[row[1] for row in rows if row[1] is not None]])
        self.later = later or "INSERT INTO u(id, k) VALUES(50, 'old')"
        self.clear_later = clear_later or "DELETE FROM u WHERE id=50"
        self.key, self.dangling = key, dangling or (lambda tables: False)
        self.rows = rows or "INSERT INTO u(id, k) VALUES(1,'a'),(2,'old'),(9,'keep')"


ADD = "INSERT INTO u(id, k) VALUES(3,'c'); DELETE FROM u WHERE id=2"
CLASH, CLEAR = "INSERT INTO u(id, k) VALUES(4,'c')", "DELETE FROM u WHERE id=4"


def no_case(rows):
    return [[row[1].lower() for row in rows]]


def orphans(tables):
    parents = {row[0] for row in tables["u"]}
    return any(row[1] not in parents for row in tables["child"] if row[1] is not None)


def fk_shape(name, action, more="", orphan=""):
    ddl = ("CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c});"
           "CREATE TABLE child(id INTEGER PRIMARY KEY, u INTEGER REFERENCES u(id) %s, n TEXT NOT NULL ON CONFLICT {c} DEFAULT 'd')%s;"
           % (action, more))
    rows = "INSERT INTO u VALUES(1,'a'),(2,'old'),(9,'keep'); INSERT INTO child VALUES(1,2,'x'),(2,9,'y');" + orphan
    inside = "PRAGMA foreign_keys=ON; " + ("DELETE FROM child WHERE u=2; DELETE FROM u WHERE id=2" if "CASCADE" not in action
                                           else "DELETE FROM u WHERE id=2")
    return Shape(name, ddl, inside, "INSERT INTO child VALUES(7,2,'theirs')", "DELETE FROM child WHERE id=7", dangling=orphans, rows=rows)


SHAPES = [
    Shape("a unique column", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c});", ADD, CLASH, CLEAR),
    Shape("an update to a taken value", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c});",
          "UPDATE u SET k='c' WHERE id=2", CLASH, CLEAR),
    Shape("two columns that are unique together", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT, m INTEGER DEFAULT 5,"
          " UNIQUE(m, k) ON CONFLICT {c});", ADD, CLASH, CLEAR, unique=lambda rows: [[row[1:3] for row in rows]]),
    Shape("clauses on several columns", "CREATE TABLE u(id INTEGER PRIMARY KEY ON CONFLICT {c}, k TEXT UNIQUE ON CONFLICT IGNORE,"
          " m TEXT UNIQUE ON CONFLICT {c}, z TEXT NOT NULL ON CONFLICT REPLACE DEFAULT 'z');",
          "INSERT INTO u(id, k, m) VALUES(3,'c','m'); DELETE FROM u WHERE id=2", "INSERT INTO u(id, k, m) VALUES(4,'theirs','m')", CLEAR,
          unique=lambda rows: [[row[i] for row in rows if row[i] is not None] for i in (1, 2)]),
    Shape("a row that clashes twice", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c}, m UNIQUE ON CONFLICT {c});",
          "INSERT INTO u VALUES(3,'c','d'); DELETE FROM u WHERE id=2",
          "INSERT INTO u VALUES(4,'c','e'); INSERT INTO u VALUES(5,'f','d')", "DELETE FROM u WHERE id IN (4,5)",
          unique=lambda rows: [[row[i] for row in rows if row[i] is not None] for i in (1, 2)]),
    Shape("an integer key", "CREATE TABLE u(id INTEGER PRIMARY KEY ON CONFLICT {c}, k TEXT);", ADD,
          "INSERT INTO u VALUES(3,'theirs')", "DELETE FROM u WHERE id=3", unique=lambda rows: [],
          later="INSERT INTO u VALUES(2,'new')", clear_later="DELETE FROM u WHERE id=2"),
    Shape("a text key", "CREATE TABLE u(id TEXT PRIMARY KEY ON CONFLICT {c} NOT NULL, k TEXT UNIQUE ON CONFLICT {c});", ADD, CLASH, CLEAR),
    Shape("without rowid", "CREATE TABLE u(id INTEGER PRIMARY KEY ON CONFLICT {c}, k TEXT UNIQUE ON CONFLICT {c}) WITHOUT ROWID;", ADD,
          CLASH, CLEAR),
    Shape("without rowid, a key of two", "CREATE TABLE u(id INTEGER, k TEXT, v TEXT, PRIMARY KEY(id, k) ON CONFLICT {c},"
          " UNIQUE(k) ON CONFLICT {c}) WITHOUT ROWID;", ADD, CLASH, CLEAR, key=2),
    Shape("not null with a default", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT NOT NULL ON CONFLICT REPLACE DEFAULT 'dflt' "
          "UNIQUE ON CONFLICT {c});", "INSERT INTO u VALUES(3,NULL); DELETE FROM u WHERE id=2", "INSERT INTO u VALUES(4,'dflt')", CLEAR),
    Shape("a check", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c}, CHECK(length(k) < 9) ON CONFLICT {c});", ADD,
          CLASH, CLEAR),
    Shape("a partial index", "CREATE TABLE u(id INTEGER PRIMARY KEY ON CONFLICT {c}, k TEXT); CREATE UNIQUE INDEX i ON u(k) WHERE id < 60;",
          ADD, CLASH, CLEAR),
    Shape("an index of an expression", "CREATE TABLE u(id INTEGER PRIMARY KEY ON CONFLICT {c}, k TEXT); CREATE UNIQUE INDEX i ON u(lower(k));",
          ADD, "INSERT INTO u VALUES(4,'C')", CLEAR, unique=no_case, later="INSERT INTO u VALUES(50,'OLD')"),
    Shape("a stored column", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT, g TEXT AS (lower(k)) STORED UNIQUE ON CONFLICT {c});", ADD,
          "INSERT INTO u(id, k) VALUES(4,'C')", CLEAR, unique=no_case, later="INSERT INTO u(id, k) VALUES(50,'OLD')"),
    Shape("a virtual column", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT, g TEXT AS (lower(k)) UNIQUE ON CONFLICT {c});", ADD,
          "INSERT INTO u(id, k) VALUES(4,'C')", CLEAR, unique=no_case, later="INSERT INTO u(id, k) VALUES(50,'OLD')"),
    Shape("a collation", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT COLLATE NOCASE UNIQUE ON CONFLICT {c});", ADD,
          "INSERT INTO u VALUES(4,'C')", CLEAR, unique=no_case, later="INSERT INTO u VALUES(50,'OLD')"),
    Shape("autoincrement", "CREATE TABLE u(id INTEGER PRIMARY KEY AUTOINCREMENT, k TEXT UNIQUE ON CONFLICT {c});", ADD, CLASH, CLEAR),
    Shape("a strict table", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c}, m ANY UNIQUE ON CONFLICT {c}) STRICT;",
          ADD, CLASH, CLEAR),
    Shape("values exchanged", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c});",
          "UPDATE u SET k='x' WHERE id=1; UPDATE u SET k='a' WHERE id=2; UPDATE u SET k='c' WHERE id=1", CLASH, CLEAR),
    Shape("a trigger that ignores", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c});"
          "CREATE TRIGGER g BEFORE INSERT ON u WHEN (SELECT count(*) FROM u) > 4 BEGIN SELECT RAISE(IGNORE); END;",
          ADD, CLASH + "; INSERT INTO u VALUES(60,'p')", CLEAR),
    Shape("a trigger that deletes", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c});"
          "CREATE TRIGGER g AFTER INSERT ON u WHEN NEW.id=3 BEGIN DELETE FROM u WHERE id > 40; END;",
          ADD, CLASH + "; INSERT INTO u VALUES(60,'p')", CLEAR),
    Shape("a view with a trigger", "CREATE TABLE u(id INTEGER PRIMARY KEY, k TEXT UNIQUE ON CONFLICT {c}); CREATE VIEW v AS SELECT * FROM u;"
          "CREATE TRIGGER g INSTEAD OF INSERT ON v BEGIN INSERT OR REPLACE INTO u VALUES(NEW.id, NEW.k); END;",
          "INSERT INTO v VALUES(3,'c'); DELETE FROM u WHERE id=2", CLASH, CLEAR),
    fk_shape("a foreign key that cascades", "ON DELETE CASCADE ON UPDATE CASCADE"),
    fk_shape("a foreign key that restricts", "ON DELETE RESTRICT"),
    fk_shape("children without rowid", "ON DELETE CASCADE", " WITHOUT ROWID"),
]


class Case(t.Box):
    def __init__(self, place, who, shape, clause, journal, *more):
        super().__init__(place, who)
        self.shape = shape
        self.dir = place.fresh("data", who)
        self.path = os.path.join(self.dir, "x.db")
        self.script("PRAGMA journal_mode=%s; %s; %s" % (journal, shape.ddl.format(c=clause), shape.rows))
        if place.is_root:
            t.give(self.dir, place.uid(who))
        self.base = self.tables()
        self.new("--db", "sqlite:" + self.path, *more)

    def script(self, script, path=None):
        with contextlib.closing(sqlite3.connect(path or self.path, isolation_level=None)) as db:
            db.executescript(script)

    def outside(self, script):
        return self.command([t.PYTHON, "-I", "-c", RUN_SQL, self.path, script])

    def tables(self, path=None):
        with contextlib.closing(sqlite3.connect(path or self.path)) as db:
            names = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE type='table' AND name NOT LIKE 'sqlite_%'")]
            return {name: sorted(db.execute("SELECT * FROM " + name).fetchall(), key=repr) for name in names}

    def sound(self):
        with contextlib.closing(sqlite3.connect(self.path)) as db:
            return db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"

    def edit(self):
        """The same edits inside, and on a copy: what the sandbox has made of its rows."""
        copy = self.dir + ".copy"
        shutil.copy(self.path, copy)
        with contextlib.suppress(sqlite3.Error):
            self.script(self.shape.inside, copy)
        self.run(t.PYTHON, "-I", "-c", RUN_SQL, self.path, self.shape.inside)
        inside = self.tables(copy)
        os.unlink(copy)
        return inside

    def merge(self, old, new, now):
        """The model: what leads from old to new, done to now; None if something speaks against it."""
        merged, size = {}, self.shape.key
        for name, rows in now.items():
            by_key = {row[:size]: row for row in rows}
            before, after = ({row[:size]: row for row in side[name]} for side in (old, new))
            for key in set(before) | set(after):
                if before.get(key) == after.get(key):
                    continue
                if by_key.get(key) != before.get(key):
                    return None
                by_key.pop(key, None)
                if key in after:
                    by_key[key] = after[key]
            merged[name] = sorted(by_key.values(), key=repr)
        if any(len(set(values)) != len(values) for values in self.shape.unique(merged["u"])) or self.shape.dangling(merged):
            return None
        return merged


def step(case, operation, old, new, found, what):
    """One operation against the model: all of it and success, or a conflict and nothing."""
    before = case.tables()
    wanted = case.merge(old, new, before)
    done = operation()
    expected = (0, wanted) if wanted is not None else (3, before)
    if (done.returncode, case.tables()) != expected or not case.sound():
        found.append("%s: exit %d, %s; %r instead of %r" % (what, done.returncode, t.said(done), case.tables(), expected))
    return done.returncode


def one(place, who, shape, clause, journal):
    case, found = Case(place, who, shape, clause, journal), []
    inside = case.edit()
    if inside == case.base:
        found.append("nothing was edited")
    case.outside(shape.outside)
    if step(case, case.commit, case.base, inside, found, "commit over a clash") != 3:
        found.append("the clash was no clash")
    case.outside(shape.clear)
    step(case, case.commit, case.base, inside, found, "commit")
    case.outside(shape.later)
    if step(case, case.undo, inside, case.base, found, "undo over a clash") != 3 and not shape.name.startswith("a foreign key") and \
            shape.name not in ("children without rowid", "an integer key"):
        found.append("the later clash was no clash")
    case.outside(shape.clear_later)
    case.outside("INSERT INTO u(id, k) VALUES(70,'benign')")
    step(case, case.undo, inside, case.base, found, "undo")
    step(case, case.commit, case.base, inside, found, "commit again")
    step(case, case.undo, inside, case.base, found, "undo again")
    case.drop()
    return found


def together(place, tap, who):
    """A conflict of rows keeps everything else of the commit from landing, and undo likewise."""
    for clause in CLAUSES:
        tree = place.fresh("tree", who)
        with open(tree + "/file", "w", encoding="ascii") as file:
            file.write("old")
        if place.is_root:
            t.give(tree, place.uid(who))
        case = Case(place, who, SHAPES[0], clause, "DELETE", "--dir", tree)
        inside = case.edit()
        case.run("sh", "-c", 'printf new > "$1"', "sh", tree + "/file")

        def content(path=tree + "/file"):
            with open(path, encoding="ascii") as opened:
                return opened.read()

        case.outside(CLASH)
        found = []
        step(case, case.commit, case.base, inside, found, "commit")
        dry = case.commit("--dry-run")
        ours = case.commit("--on-conflict=ours")
        tap.check("a clash of rows keeps a file from landing, %s, %s" % (clause, who), not found and content() == "old" and
                  ours.returncode == 3 and dry.returncode == 3 and b"has a unique value that somebody else gave" in ours.stderr and
                  b"rows of a database are never overwritten" in ours.stderr,
                  *found, t.said(ours), t.said(dry))
        part = case.commit(tree + "/file")
        tap.check("the file alone lands, %s, %s" % (clause, who), part.returncode == 0 and content() == "new", t.said(part))
        part = case.commit(case.path)
        tap.check("and the database alone is a conflict, %s, %s" % (clause, who), part.returncode == 3 and (4, "c") in case.tables()["u"],
                  t.said(part))
        case.outside(CLEAR)
        done = case.commit()
        case.outside(case.shape.later)
        now = case.tables()
        undone = case.undo()
        tap.check("an undo that clashes changes nothing, %s, %s" % (clause, who), done.returncode == 0 and undone.returncode == 3 and
                  case.tables() == now and content() == "new", t.said(done), t.said(undone))
        case.drop()


def main(place, tap):
    for number, shape in enumerate(SHAPES):
        for clause in CLAUSES:
            who = place.users()[number % len(place.users())]
            found = one(place, who, shape, clause, "WAL" if number % 3 == 1 else "DELETE")
            tap.check("%s, ON CONFLICT %s: as the model, %s" % (shape.name, clause, who), not found, *found)
    together(place, tap, place.users()[-1])


t.run(main)
