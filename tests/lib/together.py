# SPDX-License-Identifier: Apache-2.0
"""A directory, a git repository, a SQLite and a PostgreSQL database in one sandbox, with an edit to each."""
import os
import sqlite3

import atolltest as t
import pgtest as pg

EDIT = """set -e
echo new >../app/file; echo added >../app/more
cd ../svc; echo new >code; git commit -qam inside; echo built >output
python3 -c "import sqlite3; d = sqlite3.connect('../data/local.db'); d.execute('INSERT INTO people VALUES (2)'); d.commit()"
psql -XAtqc "INSERT INTO TABLE_NAME VALUES (2)"
"""


class World:
    serial = 0

    def __init__(self, place, who, server, program, top=None):
        World.serial += 1
        self.server, self.place = server, place
        self.table = "together%d" % World.serial
        self.top = top or place.fresh("world", who)
        self.box = t.Box(place, who, program=program, dirs=[self.path("app")], state=self.path("state"))
        for name in ("app", "svc", "data"):
            os.mkdir(self.path(name))
            t.give(self.path(name), place.uid(who))
        self.do("sh", "-ec", "echo old >app/file; cd svc; git init -q -b main .; git config user.email a@b.c; git config user.name a;"
                "echo old >code; echo output >.gitignore; git add .; git commit -qm first")
        self.first = self.git("rev-parse", "HEAD")
        self.do("python3", "-c", "import sqlite3; d = sqlite3.connect('data/local.db'); d.execute('CREATE TABLE people (id INTEGER PRIMARY KEY)');"
                "d.execute('INSERT INTO people VALUES (1)'); d.commit()")
        server.sql("CREATE TABLE %s (id int PRIMARY KEY); INSERT INTO %s VALUES (1); GRANT ALL ON %s TO agent" % (3 * (self.table,)))

    def edit(self):
        self.must(self.box.new("--git", self.path("svc"), "--db", "sqlite:" + self.path("data/local.db"),
                               "--db", "postgresql://agent@/shop?host=%s&port=%d" % (self.server.home, pg.PORT)))
        self.must(self.box.run("sh", "-c", EDIT.replace("TABLE_NAME", self.table), cwd=self.path("svc")))

    def path(self, name):
        return os.path.join(self.top, name)

    def must(self, done):
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        return done

    def do(self, *argv, cwd=None):
        return self.must(self.box.command(list(argv), cwd=cwd or self.top))

    def git(self, *arguments):
        return self.do("git", *arguments, cwd=self.path("svc")).stdout.decode().strip()

    def read(self, name):
        try:
            with open(self.path(name), encoding="utf-8") as file:
                return file.read().strip()
        except FileNotFoundError:
            return None

    def sides(self):
        """Which side each of the four stands on; what is neither is told as it is."""
        database = sqlite3.connect(self.path("data/local.db"))
        rows = [row[0] for row in database.execute("SELECT id FROM people ORDER BY id")]
        database.close()
        status = self.git("status", "--porcelain")
        checkout = (self.read("svc/code"), self.read("svc/output"), self.git("rev-parse", "HEAD") != self.first, status)
        found = [((self.read("app/file"), self.read("app/more")), ("old", None), ("new", "added")),
                 (checkout, ("old", None, False, ""), ("new", "built", True, "")),
                 (rows, [1], [1, 2]),
                 (self.server.sql("SELECT string_agg(id::text, ',' ORDER BY id) FROM %s" % self.table), "1", "1,2")]
        return ["old" if now == old else "new" if now == new else repr(now) for now, old, new in found]

    def close(self):
        self.box.atoll("rm", "box", "--abandon")
        left = self.server.sql("SELECT count(*) FROM pg_largeobject_metadata")
        self.server.sql("DROP TABLE %s" % self.table)
        t.remove_tree(self.top)
        if left != "0":
            raise RuntimeError("%s markers are left in the database" % left)
