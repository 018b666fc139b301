# SPDX-License-Identifier: Apache-2.0
"""A directory and several PostgreSQL databases in one sandbox."""
import json
import os
import subprocess
import time

import atolltest as t
import pgtest as pg


def add_database(server, name):
    server.run(["createdb", name], check=True)


def crash(server):
    """Every process of the server is killed, and it comes back."""
    server.kill()
    server.start()


class World:
    """bases: (server, database) of each. Resource 1 is the directory, 2 the first of them, and so on."""

    serial = 0

    def __init__(self, place, who, bases, program=None, more=(), place_name=None):
        World.serial += 1
        self.table = "several%d" % World.serial
        self.bases = bases
        self.top = place.fresh("world", who)
        if place_name:
            self.top = os.path.join(self.top, place_name)
            os.mkdir(self.top)
            os.chown(self.top, place.uid(who), place.uid(who))
        self.dir = os.path.join(self.top, "app")
        os.mkdir(self.dir)
        with open(os.path.join(self.dir, "file"), "w", encoding="utf-8") as file:
            file.write("old")
        t.give(self.dir, place.uid(who))
        for base in bases:
            self.sql(base, "CREATE TABLE %s (id int PRIMARY KEY); INSERT INTO %s VALUES (1); GRANT ALL ON %s TO agent" % (3 * (self.table,)))
        self.box = t.Box(place, who, program=program, dirs=[self.dir], state=os.path.join(self.top, "state"))
        urls = [word for base in bases for word in ("--db", self.url(base))]
        self.must(self.box.new(*urls, *more))

    @staticmethod
    def sql(base, text):
        server, name = base
        return server.sql(text, environment={"PGDATABASE": name})

    @staticmethod
    def url(base):
        server, name = base
        return "postgresql://agent@/%s?host=%s&port=%d" % (name, server.home, pg.PORT)

    @staticmethod
    def must(done):
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        return done

    def psql(self, index, *commands):
        """A command that speaks with the database of that number, inside."""
        words = " ".join("-c \"%s\"" % command for command in commands)
        return "psql -XAtq -v ON_ERROR_STOP=1 -h /run/atoll/%d -U agent -d %s %s" % (index + 2, self.bases[index][1], words)

    def inside(self, *commands, **more):
        return self.box.run("sh", "-ec", "; ".join(commands), cwd=self.dir, **more)

    def edit(self, *more):
        insert = "INSERT INTO %s VALUES (2)" % self.table
        return self.must(self.inside("echo -n new >file", *[self.psql(i, insert) for i in range(len(self.bases))], *more))

    def sides(self):
        """Of the directory and each database: "old", "new", or what is there."""
        with open(os.path.join(self.dir, "file"), encoding="utf-8") as file:
            found = [(file.read(), "old", "new")]
        for base in self.bases:
            found.append((self.sql(base, "SELECT string_agg(id::text, ',' ORDER BY id) FROM %s" % self.table), "1", "1,2"))
        return ["old" if now == old else "new" if now == new else repr(now) for now, old, new in found]

    def all(self, side):
        return self.sides() == (1 + len(self.bases)) * [side]

    def left(self):
        """Markers, prepared transactions of ours, and processes that hold a transaction."""
        found = ["%s in %s" % (n, base[1]) for base in self.bases
                 for n in [self.sql(base, "SELECT (SELECT count(*) FROM pg_largeobject_metadata) + (SELECT count(*) FROM pg_prepared_xacts "
                                          "WHERE gid LIKE 'atoll-%' AND database = current_database())")] if n != "0"]
        return found + (["a keeper"] if not pg.wait_until(lambda: not self.keepers(), 5) else [])

    def keepers(self):
        found = []
        for entry in os.listdir("/proc"):
            try:
                with open("/proc/%s/cmdline" % entry, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if len(words) > 2 and words[1] == b"hold" and words[2].startswith(os.fsencode(self.box.state) + b"/"):
                found.append(int(entry))
        return found

    def gid(self, base):
        return self.sql(base, "SELECT gid FROM pg_prepared_xacts WHERE gid LIKE 'atoll-%' AND database = current_database()")

    def shown(self):
        return json.loads(self.box.atoll("show", "box", "--json").stdout)["resources"]

    def name(self, index):
        """What the database is called by everybody."""
        return self.shown()[index + 1]["path"]

    def lost(self):
        return {r["resource"] - 2: r.get("detail") for r in self.shown() if r["lost"]}

    def client(self, index):
        """A psql that stays connected to the socket that commands inside have, until its input is closed."""
        area = self.shown()[index + 1]["stage"]
        process = subprocess.Popen(["psql", "-XAtq", "-h", "/proc/self/cwd/socket", "-p", "5432", "-U", "agent", "-d", self.bases[index][1]],
                                   cwd=area, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   env=self.box.environment, **self.box.identity())
        return process

    def close(self):
        self.box.atoll("rm", "box", "--abandon")
        left = self.left()
        for base in self.bases:
            for _ in range(50):
                try:
                    self.sql(base, "DROP TABLE %s" % self.table)
                    break
                except RuntimeError:
                    time.sleep(0.1)
        t.remove_tree(self.top)
        return left
