#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a sandbox has changed in a PostgreSQL database, row by row, beside what everybody else sees."""
import concurrent.futures
import json
import os
import re
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402

TABLES = r"""
CREATE TABLE people (id int PRIMARY KEY, name text, paid bool, photo bytea, joined timestamptz);
INSERT INTO people SELECT g, 'p' || g, true, '\x00ff', '2020-01-01 00:00+00' FROM generate_series(1, 20) g;
CREATE TABLE orders (id int PRIMARY KEY, person int REFERENCES people);
CREATE TABLE loose (a int, b text);
INSERT INTO loose VALUES (1, 'x'), (1, 'x'), (2, NULL), (3, '');
CREATE TABLE "odd ""name" ("a b" text PRIMARY KEY, "c'd" int);
CREATE TABLE coded (code text NOT NULL UNIQUE, what text);
INSERT INTO coded VALUES ('a', 'old');
CREATE TABLE part (id int, what text, PRIMARY KEY (id)) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (10);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (10) TO (20);
INSERT INTO part VALUES (1, 'one');
CREATE TABLE parent (id int PRIMARY KEY, x int);
CREATE TABLE child (y int) INHERITS (parent);
INSERT INTO parent VALUES (1, 1);
INSERT INTO child VALUES (2, 2, 2);
CREATE TABLE emptied (id int PRIMARY KEY);
INSERT INTO emptied VALUES (1);
CREATE TABLE altered (id int PRIMARY KEY);
INSERT INTO altered VALUES (1);
CREATE TABLE big (id int PRIMARY KEY, x int);
INSERT INTO big SELECT g, g FROM generate_series(1, 3000) g;
CREATE TABLE crowd (id int PRIMARY KEY, x int);
INSERT INTO crowd SELECT g, g FROM generate_series(1, 110000) g;
CREATE TABLE quiet (id int PRIMARY KEY, x int);
INSERT INTO quiet VALUES (1, 1), (2, 2), (3, 3);
CREATE SEQUENCE counter;
"""

# Before the sandbox, and inside it.
OBJECTS = r"""
CREATE SCHEMA shop;
CREATE TABLE shop.kept (id int PRIMARY KEY, a int, b text DEFAULT 'x', c int CHECK (c > 0));
CREATE TABLE shop.gone (id int PRIMARY KEY, x int);
CREATE INDEX gone_x ON shop.gone (x);
CREATE INDEX kept_a ON shop.kept (a);
CREATE VIEW shop.seen AS SELECT id FROM shop.kept;
CREATE VIEW shop.view_gone AS SELECT 1 AS one;
CREATE FUNCTION shop.f(int) RETURNS int LANGUAGE sql AS 'SELECT $1';
CREATE FUNCTION shop.g() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE TYPE shop.mood AS ENUM ('good', 'bad');
CREATE SEQUENCE shop.numbers;
CREATE TABLE shop.quiet (id int PRIMARY KEY);
"""
DEFINED = r"""
CREATE TABLE shop.made (id int PRIMARY KEY, "odd name" text NOT NULL DEFAULT 'it''s', n int GENERATED ALWAYS AS IDENTITY, CHECK (id > 0));
CREATE INDEX made_name ON shop.made ("odd name");
ALTER TABLE shop.kept ADD COLUMN d numeric(10, 2) NOT NULL DEFAULT 1.5;
ALTER TABLE shop.kept DROP COLUMN a;
ALTER TABLE shop.kept ALTER COLUMN b DROP DEFAULT;
ALTER TABLE shop.kept DROP CONSTRAINT kept_c_check;
ALTER TABLE shop.kept ADD CONSTRAINT few CHECK (c < 9);
DROP TABLE shop.gone;
DROP VIEW shop.view_gone;
CREATE OR REPLACE VIEW shop.seen AS SELECT id FROM shop.kept WHERE id > 1;
CREATE OR REPLACE FUNCTION shop.f(int) RETURNS int LANGUAGE sql AS $$SELECT
	$1 + 1$$;
DROP FUNCTION shop.g();
ALTER TYPE shop.mood ADD VALUE 'so so';
ALTER SEQUENCE shop.numbers INCREMENT BY 5;
CREATE SCHEMA later;
CREATE TABLE later.p (id int) PARTITION BY RANGE (id);
CREATE TABLE later.p1 PARTITION OF later.p FOR VALUES FROM (0) TO (10);
CREATE FUNCTION later.t() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END';
CREATE TRIGGER watch BEFORE INSERT ON shop.quiet FOR EACH ROW EXECUTE FUNCTION later.t();
CREATE DOMAIN later.small AS int CHECK (VALUE < 10);
CREATE TEMP TABLE passing (id int);
"""
WORDS = {
    "schema shop.made": ("added", "CREATE TABLE shop.made (id integer NOT NULL, \"odd name\" text DEFAULT 'it''s'::text NOT NULL, "
                         "n integer GENERATED ALWAYS AS IDENTITY NOT NULL, CONSTRAINT made_pkey PRIMARY KEY (id), CONSTRAINT made_id_check CHECK ((id > 0)))"),
    "schema shop.made_name": ("added", "CREATE INDEX made_name ON shop.made USING btree (\"odd name\")"),
    "schema shop.kept.d": ("added", "ALTER TABLE shop.kept ADD COLUMN d numeric(10,2) DEFAULT 1.5 NOT NULL"),
    "schema shop.kept.a": ("deleted", "ALTER TABLE shop.kept DROP COLUMN a"),
    "schema shop.kept_a": ("deleted", "DROP INDEX shop.kept_a"),
    "schema shop.kept.b": ("modified", "ALTER TABLE shop.kept ALTER COLUMN b TYPE text, ALTER COLUMN b DROP NOT NULL, ALTER COLUMN b DROP DEFAULT"),
    "schema kept_c_check ON shop.kept": ("deleted", "ALTER TABLE shop.kept DROP CONSTRAINT kept_c_check"),
    "schema few ON shop.kept": ("added", "ALTER TABLE shop.kept ADD CONSTRAINT few CHECK ((c < 9))"),
    "schema shop.gone": ("deleted", "DROP TABLE shop.gone"),
    "schema shop.view_gone": ("deleted", "DROP VIEW shop.view_gone"),
    "schema shop.seen": ("modified", "CREATE OR REPLACE VIEW shop.seen AS SELECT id FROM shop.kept WHERE (id > 1);"),
    "schema shop.f(integer)": ("modified", "CREATE OR REPLACE FUNCTION shop.f(integer) RETURNS integer LANGUAGE sql AS $function$SELECT $1 + 1$function$ "),
    "schema shop.g()": ("deleted", "DROP ROUTINE shop.g()"),
    "schema shop.mood": ("modified", "CREATE TYPE shop.mood AS ENUM ('good', 'bad', 'so so')"),
    "schema shop.numbers": ("modified", "ALTER SEQUENCE shop.numbers AS bigint INCREMENT BY 5 MINVALUE 1 MAXVALUE 9223372036854775807 START WITH 1 CACHE 1 NO CYCLE"),
    "schema later": ("added", "CREATE SCHEMA later"),
    "schema later.p": ("added", "CREATE TABLE later.p (id integer) PARTITION BY RANGE (id)"),
    "schema later.p1": ("added", "CREATE TABLE later.p1 PARTITION OF later.p FOR VALUES FROM (0) TO (10)"),
    "schema watch ON shop.quiet": ("added", "CREATE TRIGGER watch BEFORE INSERT ON shop.quiet FOR EACH ROW EXECUTE FUNCTION later.t()"),
    "schema later.small": ("added", "CREATE DOMAIN later.small AS integer CONSTRAINT small_check CHECK ((VALUE < 10))"),
}


class World:
    serial = 0

    def __init__(self, place, who, server, tables=TABLES, role="agent"):
        World.serial += 1
        self.server, self.database, self.role = server, "diff%d" % World.serial, role
        server.run(["createdb", "-O", "agent", self.database], check=True)
        self.sql(tables)
        self.top = place.fresh("world", who)
        self.dir = os.path.join(self.top, "app")
        os.mkdir(self.dir)
        t.give(self.dir, place.uid(who))
        url = "postgresql://%s@/%s?host=%s&port=%d" % (role, self.database, server.home, pg.PORT)
        self.box = t.Box(place, who, dirs=[self.dir], state=os.path.join(self.top, "state"))
        self.box.new("--db", url)

    def sql(self, text):
        """As everybody else."""
        done = self.server.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1"], input=text, environment={"PGDATABASE": self.database, "PGUSER": self.role})
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()

    def inside(self, text):
        done = self.box.run("psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text, cwd=self.dir)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout.decode().strip()

    def shown(self):
        """Of each table: the changed rows, as (change, old, new), and what is said beside them."""
        found = json.loads(self.box.diff("--json").stdout)
        changes = found["changes"] if isinstance(found, dict) else found
        self.errors = {c["path"]: c.get("rows_error", "") for c in changes}
        self.changes = {c["path"]: c for c in changes}
        return {c["path"]: [(row["change"], row["old"], row["new"]) for row in c.get("rows", [])] for c in changes}


def rows(tap, w):
    w.inside("INSERT INTO people VALUES (100, NULL, false, NULL, NULL); INSERT INTO people VALUES (101, '', NULL, '\\xdeadbeef', '2021-02-03 04:05:06+00')")
    w.inside("UPDATE people SET name = E'it''s\\n\\x1b[31mred\\\\' WHERE id = 1; DELETE FROM people WHERE id = 2; UPDATE people SET id = 200 WHERE id = 3")
    w.inside("UPDATE people SET name = name WHERE id = 4; UPDATE people SET name = 'twice' WHERE id = 5; UPDATE people SET name = 'thrice' WHERE id = 5")
    w.inside("INSERT INTO people VALUES (300, 'gone again'); DELETE FROM people WHERE id = 300")
    w.inside("BEGIN; DELETE FROM people WHERE id = 6; ROLLBACK")
    w.inside("BEGIN; SAVEPOINT a; UPDATE people SET name = 'no' WHERE id = 7; ROLLBACK TO a; UPDATE people SET name = 'yes' WHERE id = 8; COMMIT")
    w.inside("SELECT FROM people WHERE id = 9 FOR UPDATE; INSERT INTO orders VALUES (1, 10)")
    w.inside("UPDATE people SET name = repeat('long', 1000) WHERE id = 11")
    w.sql("UPDATE people SET name = 'theirs' WHERE id = 12; DELETE FROM people WHERE id = 13; INSERT INTO people VALUES (400, 'theirs')")
    state = w.inside("SHOW TimeZone")
    found = w.shown()
    got = {(kind, (old or new)["id"], (new or old)["id"]): (old, new) for kind, old, new in found["table public.people"]}
    tap.check("each changed row is shown once and nothing else", sorted(got) == sorted([
        ("added", "100", "100"), ("added", "101", "101"), ("modified", "1", "1"), ("deleted", "2", "2"), ("deleted", "3", "3"),
        ("added", "200", "200"), ("modified", "5", "5"), ("modified", "8", "8"), ("modified", "11", "11")]), sorted(got))
    tap.check("NULL is not an empty string, and truth no text", got["added", "100", "100"][1] ==
              {"id": "100", "name": "NULL", "paid": "false", "photo": "NULL", "joined": "NULL"} and got["added", "101", "101"][1]["name"] == "''", got)
    tap.check("values have the text of their types", got["added", "101", "101"][1]["photo"] == "'\\xdeadbeef'" and
              got["added", "101", "101"][1]["joined"] == "'2021-02-03 04:05:06+00'", got["added", "101", "101"])
    old, new = got["modified", "1", "1"]
    tap.check("old and new value of an update", old["name"] == "'p1'" and new["name"] == "'it''s\n\x1b[31mred\\'", (old, new))
    tap.check("of a row that was updated twice the first and the last", got["modified", "5", "5"][0]["name"] == "'p5'" and
              got["modified", "5", "5"][1]["name"] == "'thrice'", got["modified", "5", "5"])
    long = got["modified", "11", "11"][1]["name"]
    tap.check("a long value is shown by its beginning and length", len(long) < 1100 and "(4000 characters, md5 " in long, long[-80:])
    text = w.box.diff("--patch").stdout.decode()
    tap.check("a patch has a line for each side", "\n-public.people id=1 name='p1'\n" in text and "\n-public.people id=2 name='p2'" in text, text)
    tap.check("and nothing of a value reaches the terminal as it is", "\x1b" not in text and "it''s\\n" in text and "[31mred" in text, text)
    tap.check("the counts are there without values", b"table public.people" in w.box.diff().stdout, w.box.diff().stdout)
    tap.check("a row that was locked only is not shown", found.get("table public.orders") == [("added", None, {"id": "1", "person": "10"})], found.get("table public.orders"))
    tap.check("settings of clients stay", w.inside("SHOW TimeZone") == state)


def shapes(tap, w):
    w.inside("DELETE FROM loose WHERE ctid IN (SELECT ctid FROM loose WHERE a = 1 LIMIT 1); UPDATE loose SET b = '' WHERE a = 2; UPDATE loose SET b = b WHERE a = 3")
    w.inside("INSERT INTO \"odd \"\"name\" VALUES (E'k\\ney', 1)")
    w.inside("UPDATE coded SET what = 'new'; UPDATE part SET id = 11; INSERT INTO part VALUES (2, 'two'); UPDATE parent SET x = 5")
    found = w.shown()
    tap.check("rows of a table without a key are counted as a whole", sorted(found["table public.loose"], key=str) == sorted([
        ("deleted", {"a": "1", "b": "'x'"}, None), ("deleted", {"a": "2", "b": "NULL"}, None), ("added", None, {"a": "2", "b": "''"})], key=str),
        found["table public.loose"])
    label = 'table public."odd ""name"'
    tap.check("names are quoted as SQL has them", found.get(label) == [("added", None, {"a b": "'k\ney'", "c'd": "1"})], found)
    tap.check("a unique column that is never null is a key too", found["table public.coded"] ==
              [("modified", {"code": "'a'", "what": "'old'"}, {"code": "'a'", "what": "'new'"})], found["table public.coded"])
    tap.check("a partition is a table of its own", found["table public.part_1"] == [("deleted", {"id": "1", "what": "'one'"}, None),
              ("added", None, {"id": "2", "what": "'two'"})] and found["table public.part_2"] == [("added", None, {"id": "11", "what": "'one'"})],
              found.get("table public.part_1"), found.get("table public.part_2"))
    tap.check("so is one that inherits, without the other's key", found["table public.parent"] == [("modified", {"id": "1", "x": "1"}, {"id": "1", "x": "5"})] and
              found["table public.child"] == [("deleted", {"id": "2", "x": "2", "y": "2"}, None), ("added", None, {"id": "2", "x": "5", "y": "2"})],
              found["table public.child"])
    key = w.changes["table public.coded"]["rows"][0]["key"]
    tap.check("and JSON names the key", key == {"code": "'a'"}, key)


def definitions(tap, w):
    w.inside("CREATE TABLE fresh (id int PRIMARY KEY); INSERT INTO fresh VALUES (1)")
    w.inside("TRUNCATE emptied; INSERT INTO emptied VALUES (7)")
    w.inside("ALTER TABLE altered ADD COLUMN more text; UPDATE altered SET more = 'x'")
    found = w.shown()
    tap.check("rows of a new table", found["table public.fresh"] == [("added", None, {"id": "1"})] and not w.errors["table public.fresh"], found)
    tap.check("what stood in an emptied table is not guessed", found["table public.emptied"] == [("modified", None, {"id": "7"})] and
              "emptied" in w.errors["table public.emptied"], found["table public.emptied"], w.errors)
    tap.check("nor in one of another definition", found["table public.altered"] == [("modified", None, {"id": "1", "more": "'x'"})] and
              "nobody else can read it" in w.errors["table public.altered"], found["table public.altered"], w.errors)
    tap.check("and it does not wait for anybody", w.inside("SELECT count(*) FROM emptied") == "1")


# What a sandbox does beside a row of "beside", and what is told of it besides. Tables with text have a TOAST table, those of numbers have none.
FILES = r"""
CREATE TABLE beside (id int);
CREATE TABLE numbers (id int); INSERT INTO numbers SELECT generate_series(1, 1000);
CREATE TABLE texts (id int PRIMARY KEY, v text); INSERT INTO texts VALUES (1, 'one');
CREATE TABLE refers (id int REFERENCES texts);
CREATE TABLE pieces (id int) PARTITION BY LIST (id);
CREATE TABLE piece_1 PARTITION OF pieces FOR VALUES IN (1); CREATE TABLE piece_2 PARTITION OF pieces FOR VALUES IN (2);
CREATE TABLE counted (id serial, v int); INSERT INTO counted (v) VALUES (1);
CREATE MATERIALIZED VIEW stored AS SELECT 1 AS one;
"""
FILE_CASES = (
    ("TRUNCATE numbers", {"table public.numbers": "truncated"}),
    ("TRUNCATE texts CASCADE", {"table public.texts": "truncated", "table public.refers": "truncated"}),
    ("TRUNCATE pieces", {"table public.piece_1": "truncated", "table public.piece_2": "truncated"}),
    ("BEGIN; SAVEPOINT a; TRUNCATE numbers; RELEASE a; COMMIT", {"table public.numbers": "truncated"}),
    ("TRUNCATE texts, refers; INSERT INTO texts VALUES (7, 'new')", {"table public.texts": "truncated or rewritten; 1 inserted, 0 updated, 0 deleted",
                                                                    "table public.refers": "truncated"}),
    ("TRUNCATE numbers; INSERT INTO numbers VALUES (7)", {"table public.numbers": "truncated or rewritten; 1 inserted, 0 updated, 0 deleted"}),
    ("TRUNCATE counted RESTART IDENTITY", {"table public.counted": "truncated", "sequence public.counted_id_seq": "restarted or defined otherwise"}),
    ("ALTER TABLE numbers ALTER id TYPE int USING id + 100", {"table public.numbers": "rewritten"}),
    ("ALTER TABLE texts ALTER v TYPE text USING v || v", {"table public.texts": "rewritten"}),
    ("CLUSTER texts USING texts_pkey", {"table public.texts": "rewritten", "schema public.texts": "clustered on texts_pkey (was none)"}),
    ("REFRESH MATERIALIZED VIEW stored", {"table public.stored": "rewritten; 1 inserted, 0 updated, 0 deleted"}),
    ("BEGIN; TRUNCATE numbers; ROLLBACK", {}),
    ("CREATE TABLE made (id int, v text); INSERT INTO made VALUES (1); TRUNCATE made; ALTER TABLE made ALTER id TYPE bigint; TRUNCATE made",
     {"schema public.made": "CREATE TABLE public.made (id bigint, v text)"}))


def emptied(tap, w):
    """A table that lost its rows without a DELETE is listed, alone and beside other changes."""
    def told():
        w.shown()
        return {path: re.sub(r", about \d+ rows? before", "", c["note"]) for path, c in w.changes.items() if c["change"] != "locked"}

    for text, wanted in FILE_CASES:
        w.inside(text)
        alone = told()
        w.inside("INSERT INTO beside VALUES (1)")
        beside = told()
        w.box.rollback()
        # An insert that was rolled back counts.
        tap.check("told alone: " + text, alone == (wanted or {"transaction": "something other than rows was changed"}), alone)
        tap.check("told beside a row: " + text, beside == {**wanted, "table public.beside": "1 inserted, 0 updated, 0 deleted"}, beside)
    w.inside("INSERT INTO beside VALUES (1); TRUNCATE numbers")
    found, lines = w.shown(), w.box.diff("--patch").stdout
    tap.check("a truncated table is in a patch too", b"table public.numbers: truncated" in lines, lines)
    tap.check("with the reason why its rows are not shown", found["table public.numbers"] == [] and "emptied" in w.errors["table public.numbers"], w.errors)
    done = w.box.commit()
    tap.check("and counts as a change that lands", done.returncode == 0 and b"committed 2 changes" in done.stdout and
              w.sql("SELECT count(*) FROM numbers") == "0", t.said(done))
    w.sql("INSERT INTO numbers VALUES (1); ALTER ROLE agent SET default_transaction_isolation = 'repeatable read'")
    w.box.rollback()
    w.inside("SELECT 1 FROM beside")
    w.sql("TRUNCATE pieces")
    w.inside("TRUNCATE numbers")
    found = told()
    w.box.rollback()
    w.sql("ALTER ROLE agent RESET default_transaction_isolation")
    tap.check("told where definitions are not compared, and nothing that others did", found.pop("table public.numbers", "") == "truncated" and
              list(found) == ["schema"], found)


def large(tap, w):
    w.inside("UPDATE big SET x = x + 1 WHERE id <= 2500; DELETE FROM big WHERE id > 2990")
    found = w.shown()
    tap.check("of very many rows the first thousand is shown", len(found["table public.big"]) == 1000 and
              "and 1510 more rows" in w.errors["table public.big"], len(found["table public.big"]), w.errors)
    tap.check("in the order of the key", [row[1]["id"] for row in found["table public.big"][:12]] == [str(i) for i in range(1, 13)])


def crowded(tap, w):
    w.inside("SELECT count(*) FROM (SELECT FROM crowd FOR UPDATE) x; UPDATE crowd SET x = 0 WHERE id = 70000; DELETE FROM crowd WHERE id = 70001")
    found = w.shown()
    tap.check("few changed rows are found among very many that are locked", found["table public.crowd"] == [
        ("modified", {"id": "70000", "x": "70000"}, {"id": "70000", "x": "0"}), ("deleted", {"id": "70001", "x": "70001"}, None)] and
        not w.errors["table public.crowd"], found["table public.crowd"], w.errors)


def manners(tap, w):
    """Whatever clients have set, and whoever else is there."""
    other = pg.Wire(w.server.home, port=pg.PORT, user="agent", database=w.database)
    other.query("BEGIN")
    other.query("SELECT FROM quiet WHERE id = 1 FOR KEY SHARE")
    other.query("DELETE FROM quiet WHERE id = 2")
    before = w.sql("SELECT last_value, is_called FROM counter")
    w.inside("UPDATE quiet SET x = 9 WHERE id = 1")
    w.inside("CREATE SCHEMA evil; CREATE FUNCTION evil.format(text, int) RETURNS text LANGUAGE sql AS 'SELECT nextval(''counter'')::text'; "
             "SET search_path = evil, pg_catalog, public; SET DateStyle = 'German'; SET standard_conforming_strings = off; SET client_encoding = LATIN1")
    found = w.shown()
    tap.check("a row that others have locked too is found, and one that others delete is not ours",
              found["table public.quiet"] == [("modified", {"id": "1", "x": "1"}, {"id": "1", "x": "9"})], found["table public.quiet"])
    tap.check("no function of a client is called", w.sql("SELECT last_value, is_called FROM counter") == before)
    other.query("COMMIT")
    found = w.shown()
    tap.check("nor is it ours when they have deleted it", len(found["table public.quiet"]) == 1, found["table public.quiet"])
    other.query("BEGIN")
    other.send(("Q", b"LOCK people\0"))
    while w.sql("SELECT count(*) FROM pg_locks WHERE NOT granted") == "0":
        time.sleep(0.01)
    found = w.shown()
    tap.check("nobody is waited for who waits for the sandbox", not found["table public.people"] and
              "somebody else has it locked" in w.errors["table public.people"], w.errors)
    tap.check("and the other tables are shown", len(found["table public.quiet"]) == 1 and not w.errors["table public.quiet"], w.errors)
    other.close()
    tap.check("it can be committed after all this", w.box.commit().returncode == 0)
    tap.check("and has landed", w.sql("SELECT x FROM quiet WHERE id = 1") == "9" and w.sql("SELECT name FROM people WHERE id = 5") == "thrice")


def quoted(tap, place, server):
    """A role for which the server quotes every name: tables are named, and found, all the same."""
    server.sql("ALTER ROLE agent SET quote_all_identifiers = on")
    try:
        w = World(place, place.users()[0], server, "CREATE TABLE kept (id int PRIMARY KEY); CREATE TABLE gone (id int)")
        w.inside("INSERT INTO kept VALUES (1); DROP TABLE gone")
        found = w.shown()
    finally:
        server.sql("ALTER ROLE agent RESET ALL")
    tap.check("rows are shown where the server quotes all names", found.get("table public.kept") == [("added", None, {"id": "1"})], found, w.errors)
    text = w.box.diff().stderr.decode()
    tap.check("and a locked table has its plain name", "public.gone" in text and '"public"' not in text, text)


def many(tap, place, server):
    """Few changes among very many columns and constraints, for a role whose settings make plans slow."""
    tables = ("DO $$BEGIN FOR i IN 1..800 LOOP EXECUTE format('CREATE TABLE t%s (id int PRIMARY KEY, %s)', i, "
              "(SELECT string_agg(format('c%s int DEFAULT 1', k), ', ') FROM generate_series(1, 40) k)); END LOOP; END$$")
    w = World(place, place.users()[0], server, tables)
    server.sql("ALTER ROLE agent SET enable_seqscan = off; ALTER ROLE agent SET enable_hashjoin = off; ALTER ROLE agent SET enable_mergejoin = off")
    try:
        w.inside("ALTER TABLE t5 ADD COLUMN z int; ALTER TABLE t6 ALTER c2 SET DEFAULT 2; ALTER TABLE t7 RENAME CONSTRAINT t7_pkey TO t7_key; "
                 "ALTER INDEX t9_pkey SET (fillfactor = 50); ALTER TABLE t10 RENAME COLUMN c1 TO d1; ALTER TABLE t11 DROP COLUMN c3; "
                 "ALTER TABLE t12 ALTER c2 SET STATISTICS 5; ALTER TABLE t12 ALTER c2 SET STATISTICS -1; DROP TABLE t8")
        began = time.monotonic()
        w.shown()
        took = time.monotonic() - began
    finally:
        server.sql("ALTER ROLE agent RESET ALL")
    got = sorted(path for path, c in w.changes.items() if path.startswith("schema"))
    tap.check("few changed definitions are found among very many", got == [
        "schema public.t10.d1", "schema public.t11.c3", "schema public.t5.z", "schema public.t6.c2", "schema public.t8", "schema t7_key ON public.t7",
        "schema t9_pkey ON public.t9"], got, [c["note"] for c in w.changes.values()])
    tap.check("and soon", took < 20, took)
    w.box.rollback()
    w.inside("DO $$BEGIN FOR i IN 1..250 LOOP EXECUTE format('ALTER TABLE t%s ADD COLUMN z int', i); END LOOP; END$$")
    w.shown()
    got = [c["note"] for path, c in w.changes.items() if path.startswith("schema")]
    tap.check("of very many that were changed the first are told, and how many more there are", len(got) == 201 and
              "50 more definitions are not listed" in got, len(got), [note for note in got if "more" in note])


def open_block(tap, w):
    """While a client is inside its own transaction, and somebody else than the sandbox."""
    script = ("BEGIN; SET LOCAL ROLE nobody_else; SET LOCAL search_path = nowhere; SET LOCAL work_mem = '5MB'; SAVEPOINT mine;\n"
              "INSERT INTO public.shared VALUES (1, 'a');\n\\! sleep 2\n"
              "INSERT INTO public.shared VALUES (2, current_user || current_setting('search_path') || current_setting('work_mem'));\n"
              "SELECT b FROM public.shared WHERE a = 2; ROLLBACK TO mine; INSERT INTO public.shared VALUES (3, 'c'); COMMIT;\n")
    with open(os.path.join(w.dir, "script.sql"), "w", encoding="utf-8") as file:
        file.write(script)
    w.inside("SELECT 1")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        client = pool.submit(w.box.run, "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-f", "script.sql", cwd=w.dir)
        rows_seen = []
        for _ in range(200):
            rows_seen = w.shown().get("table public.shared", [])
            if rows_seen or client.done():
                break
            time.sleep(0.05)
        done = client.result()
    tap.check("what a client has not committed yet is shown too", rows_seen == [("added", None, {"a": "1", "b": "'a'"})], rows_seen, t.said(done))
    tap.check("and its transaction goes on as it was", done.returncode == 0 and done.stdout.strip() == b"nobody_elsenowhere5MB", t.said(done))
    tap.check("to its own end", w.shown()["table public.shared"] == [("added", None, {"a": "3", "b": "'c'"})], w.changes)


def schema(tap, w):
    w.inside("SET search_path = shop, public")
    w.inside("BEGIN; CREATE TABLE shop.never (id int); ROLLBACK")
    tap.check("a definition that was taken back is none", not [p for p in w.shown() if p.startswith("schema")], w.changes)
    w.inside(DEFINED)
    w.sql("CREATE TABLE theirs (id int); CREATE FUNCTION theirs() RETURNS int LANGUAGE sql AS 'SELECT 1'")
    w.shown()
    # Newer servers leave the table's name out where there is one table only.
    got = {p: (c["change"], c.get("note", "").replace("kept.id", "id")) for p, c in w.changes.items() if p.startswith("schema")}
    for path, wanted in WORDS.items():
        tap.check("told as SQL: " + path.split(" ", 1)[1], got.get(path) == wanted, got.get(path))
    trigger = got.pop("schema later.t()", ("", ""))
    tap.check("a new function", trigger[0] == "added" and trigger[1].startswith("CREATE OR REPLACE FUNCTION later.t() RETURNS trigger"), trigger)
    tap.check("nothing else is told: nothing of others, nothing temporary", not set(got) - set(WORDS), set(got) - set(WORDS))
    tap.check("and people read it", b"CREATE OR REPLACE VIEW shop.seen" in w.box.diff().stdout, w.box.diff().stdout)
    tap.check("it lands as it was shown", w.box.commit().returncode == 0 and w.sql("SELECT count(*) FROM pg_class WHERE relname IN ('made', 'gone')") == "1")


# Each on a table of its own: what is done, the name under which it is told, and how.
FACTS = (
    ("CREATE POLICY p ON {t} AS RESTRICTIVE FOR SELECT TO nobody_else USING (id > 0)", "p ON {t}",
     "CREATE POLICY p ON {t} AS RESTRICTIVE FOR SELECT TO nobody_else USING ((id > 0))"),
    ("CREATE POLICY p ON {t} FOR UPDATE USING (true) WITH CHECK (id > 1)", "p ON {t}", "CREATE POLICY p ON {t} AS PERMISSIVE FOR UPDATE TO PUBLIC USING (true) WITH CHECK ((id > 1))"),
    ("ALTER TABLE {t} DISABLE TRIGGER g", "g ON {t}", "fires never: disabled (was default)"),
    ("ALTER TABLE {t} ENABLE ALWAYS TRIGGER g", "g ON {t}", "fires always (was default)"),
    ("ALTER TABLE {t} DISABLE RULE r", "r ON {t}", "fires never: disabled (was default)"),
    ("ALTER TABLE {t} OWNER TO nobody_else", "{t}", "owner nobody_else (was agent)"),
    ("ALTER TABLE {t} ENABLE ROW LEVEL SECURITY", "{t}", "row level security enabled (was default)"),
    ("ALTER TABLE {t} FORCE ROW LEVEL SECURITY", "{t}", "row level security of the owner forced (was default)"),
    ("ALTER TABLE {t} REPLICA IDENTITY FULL", "{t}", "replica identity FULL (was default)"),
    ("ALTER TABLE {t} SET UNLOGGED", "{t}", "logging off: unlogged (was default)"),
    ("ALTER TABLE {t} ALTER v SET STORAGE EXTERNAL", "{t}.v", "storage EXTERNAL (was default)"),
    ("ALTER TABLE {t} ALTER g DROP EXPRESSION", "{t}.g",
     "ALTER TABLE {t} ALTER COLUMN g TYPE integer, ALTER COLUMN g DROP NOT NULL, ALTER COLUMN g DROP DEFAULT; generated none (was stored)"),
    ("ALTER TABLE {t} ALTER i DROP IDENTITY", "{t}.i",
     "ALTER TABLE {t} ALTER COLUMN i TYPE integer, ALTER COLUMN i SET NOT NULL, ALTER COLUMN i DROP DEFAULT; identity none (was ALWAYS)"),
    ("ALTER TABLE {t} INHERIT fact_base", "{t}", "inherits public.fact_base (was none)"),
    ("GRANT SELECT ON {t} TO nobody_else", "{t}", "privileges {{agent=arwdDxt/agent,nobody_else=r/agent}} (was default)"),
    ("GRANT SELECT (v) ON {t} TO nobody_else", "{t}.v", "privileges {{nobody_else=r/agent}} (was default)"),
    ("COMMENT ON TABLE {t} IS 'mine'", "comment on table {t}", "COMMENT ON table {t} IS 'mine'"))
FACT_TABLE = """CREATE TABLE {t} (id int, v text, g int GENERATED ALWAYS AS (id * 2) STORED, i int GENERATED ALWAYS AS IDENTITY); CREATE TRIGGER g BEFORE INSERT ON {t} FOR EACH ROW EXECUTE FUNCTION fact();
CREATE RULE r AS ON UPDATE TO {t} DO ALSO NOTHING; ALTER TABLE {t} OWNER TO agent;"""


def facts(tap, place, server):
    """What a definition in words does not say is told beside it."""
    tables = ["public.fact%d" % i for i in range(len(FACTS))]
    w = World(place, place.users()[-1], server, "GRANT CREATE ON SCHEMA public TO nobody_else; CREATE FUNCTION fact() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END'; ALTER FUNCTION fact() OWNER TO agent;"
              "CREATE TABLE fact_base (id int); ALTER TABLE fact_base OWNER TO agent; CREATE TABLE fact_p (id int) PARTITION BY RANGE (id); CREATE TABLE fact_p1 PARTITION OF fact_p FOR VALUES FROM (0) TO (10);"
              "ALTER TABLE fact_p OWNER TO agent; ALTER TABLE fact_p1 OWNER TO agent;" + "".join(FACT_TABLE.format(t=name) for name in tables))
    for table, (text, _, _) in zip(tables, FACTS):
        w.inside(text.format(t=table))
    w.inside("ALTER TABLE fact_p DETACH PARTITION fact_p1")
    w.inside("REVOKE EXECUTE ON FUNCTION fact() FROM public")
    w.shown()
    got = {p: c.get("note", "").replace("arwdDxtm", "arwdDxt") for p, c in w.changes.items() if p.startswith("schema")}
    for table, (text, name, note) in zip(tables, FACTS):
        told = got.get("schema " + name.format(t=table))
        tap.check("told as it lands: " + text.format(t="t"), told == note.format(t=table), told)
    told = got.get("schema public.fact_p1", "")
    tap.check("told as it lands: a detached partition", "partition of none (was public.fact_p)" in told, told)
    told = got.get("schema public.fact()")
    tap.check("told as it lands: a revoked privilege", told == "privileges {agent=X/agent} (was default)", told)


# By a superuser, in one transaction with a changed row: what is done, where it is told, and how.
REST = """CREATE TABLE beside (id int); CREATE TABLE kept (id int PRIMARY KEY, v text); CREATE SEQUENCE numbers;
CREATE FOREIGN DATA WRAPPER wrapper; CREATE SERVER remote FOREIGN DATA WRAPPER wrapper; CREATE USER MAPPING FOR owner SERVER remote;
CREATE FOREIGN TABLE far (a int) SERVER remote OPTIONS (x 'old');
CREATE TEXT SEARCH DICTIONARY words (TEMPLATE = simple); CREATE OPERATOR FAMILY family USING btree;
CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; COMMENT ON FUNCTION f() IS 'old'; CREATE ROLE someone_{serial};
CREATE PUBLICATION news FOR TABLE kept; CREATE INDEX kept_v ON kept ((v || v)); CREATE STATISTICS shape ON id, v FROM kept;
CREATE TEXT SEARCH CONFIGURATION search (PARSER = "default"); ALTER TEXT SEARCH CONFIGURATION search ADD MAPPING FOR word, email WITH simple;
CREATE VIEW seen AS SELECT 1 AS one; CREATE VIEW read AS SELECT 1 AS one; CREATE MATERIALIZED VIEW stored AS SELECT 1 AS one;
CREATE MATERIALIZED VIEW sorted AS SELECT 1 AS one; CREATE INDEX sorted_one ON sorted (one); CREATE INDEX stored_one ON stored (one);
CREATE TYPE pair AS (a int); CREATE TYPE triple AS (a int); CREATE TYPE span AS RANGE (SUBTYPE = int);
CREATE TABLE pieces (id int) PARTITION BY LIST (id); CREATE TABLE piece_1 PARTITION OF pieces FOR VALUES IN (1);
CREATE TABLE piece_2 PARTITION OF pieces FOR VALUES IN (2); CREATE INDEX pieces_id ON ONLY pieces (id); CREATE INDEX piece_1_id ON piece_1 (id);
CREATE TABLE numbered (id int, n int GENERATED ALWAYS AS IDENTITY);
CREATE FUNCTION joins() RETURNS int LANGUAGE sql AS 'SELECT 1'; CREATE FUNCTION member() RETURNS int LANGUAGE sql AS 'SELECT 1';
CREATE FUNCTION needs() RETURNS int LANGUAGE sql AS 'SELECT 1'; ALTER EXTENSION plpgsql ADD FUNCTION member(); CREATE TABLE joining (id int);"""
UNLISTED = "something that is not listed was changed in it"
REST_CASES = (
    ("ALTER ROLE someone_{serial} PASSWORD 'x'", "schema password of role someone_{serial}", "set"),
    ("COMMENT ON ROLE someone_{serial} IS 'new'", "schema comment on role someone_{serial}", "COMMENT ON role someone_{serial} IS 'new'"),
    ("GRANT someone_{serial} TO owner WITH ADMIN OPTION", "schema role owner", "member of someone_{serial} WITH ADMIN OPTION (was default)"),
    ("ALTER DATABASE {database} CONNECTION LIMIT 7", "schema database {database}", "connection limit 7 (was default)"),
    ("ALTER FOREIGN TABLE far OPTIONS (SET x 'new')", "schema public.far", "foreign server remote {{x=new}} (was remote {{x=old}})"),
    ("ALTER FOREIGN TABLE far ALTER a OPTIONS (y '1')", "schema public.far.a", "foreign options {{y=1}} (was default)"),
    ("ALTER USER MAPPING FOR owner SERVER remote OPTIONS (ADD z '1')", "schema user mapping for owner server remote", "ALTER USER MAPPING FOR owner SERVER remote"),
    ("ALTER TEXT SEARCH DICTIONARY words (STOPWORDS = english)", "schema text search dictionary public.words", "ALTER text search dictionary public.words"),
    ("CREATE TRUSTED LANGUAGE other HANDLER plpgsql_call_handler", "schema language other", "CREATE language other"),
    ("CREATE CONVERSION conversion FOR 'LATIN1' TO 'UTF8' FROM iso8859_1_to_utf8", "schema conversion public.conversion", "CREATE conversion public.conversion"),
    ("ALTER OPERATOR FAMILY family USING btree ADD FUNCTION 1 btint4cmp(int, int)", "schema operator family public.family for access method btree",
     "ALTER operator family public.family for access method btree"),
    ("ALTER SEQUENCE numbers OWNED BY kept.id", "schema public.numbers", "owned by public.kept.id (was none)"),
    ("ALTER INDEX kept_pkey SET (fillfactor = 50)", "schema kept_pkey ON public.kept", "options {{fillfactor=50}} (was default)"),
    ("ALTER TABLE kept SET (toast.autovacuum_enabled = off)", "schema public.kept", "options of the TOAST table {{autovacuum_enabled=off}} (was default)"),
    ("COMMENT ON SCHEMA public IS 'new'", "schema comment on schema public", "COMMENT ON schema public IS 'new'"),
    ("COMMENT ON FUNCTION f() IS NULL", "schema comment on function public.f()", "COMMENT ON function public.f() IS NULL"),
    ("ALTER PUBLICATION news SET (publish = 'insert')", "schema news", "publish insert (was default)"),
    ("CREATE PUBLICATION more FOR TABLE beside", "schema more", "CREATE PUBLICATION more FOR TABLE public.beside"),
    ("ALTER TABLE kept ALTER v SET STATISTICS 500", "schema public.kept.v", "statistics 500 (was default)"),
    ("ALTER INDEX kept_v ALTER COLUMN 1 SET STATISTICS 500", "schema public.kept_v", "statistics of column 1: 500 (was default)"),
    ("ALTER STATISTICS shape SET STATISTICS 7", "schema public.shape", "statistics 7 (was default)"),
    ("ALTER TEXT SEARCH CONFIGURATION search ALTER MAPPING FOR word WITH words, simple", "schema public.search",
     "CREATE TEXT SEARCH CONFIGURATION public.search (PARSER = pg_catalog.\"default\") MAPPING FOR word WITH public.words, simple, MAPPING FOR email WITH simple"),
    ("ALTER SERVER remote OPTIONS (ADD place 'x')", "schema remote", "options {{place=x}} (was default)"),
    ("CREATE SERVER farther TYPE 't' FOREIGN DATA WRAPPER wrapper", "schema farther", "CREATE SERVER farther TYPE 't' FOREIGN DATA WRAPPER wrapper"),
    ("CREATE COLLATION plain (LOCALE = 'C')", "schema public.plain", "CREATE COLLATION public.plain (PROVIDER = libc, LOCALE = 'C')"),
    ("ALTER VIEW seen RENAME COLUMN one TO two", "schema public.seen", "CREATE OR REPLACE VIEW public.seen AS SELECT 1 AS two;"),
    ("ALTER MATERIALIZED VIEW stored RENAME COLUMN one TO two", "schema public.stored", "CREATE OR REPLACE MATERIALIZED VIEW public.stored AS SELECT 1 AS two;"),
    ("ALTER TABLE stored_one RENAME COLUMN one TO three", "schema public.stored_one", "CREATE INDEX stored_one ON public.stored USING btree (two)"),
    ("GRANT SELECT (one) ON read TO someone_{serial}", "schema public.read", "privileges of columns one {{someone_{serial}=r/owner}} (was default)"),
    ("ALTER MATERIALIZED VIEW sorted CLUSTER ON sorted_one", "schema public.sorted", "clustered on sorted_one (was none)"),
    ("ALTER INDEX pieces_id ATTACH PARTITION piece_1_id", "schema public.piece_1_id", "partition of public.pieces_id (was none)"),
    ("ALTER TYPE pair RENAME TO couple", "schema public.couple", "CREATE TYPE public.couple AS (a integer); was public.pair"),
    ("GRANT USAGE ON TYPE triple TO someone_{serial}", "schema public.triple",
     "privileges of its type {{=U/owner,owner=U/owner,someone_{serial}=U/owner}} (was default)"),
    ("ALTER TYPE span RENAME TO stretch", "schema public.stretch", "ALTER TYPE public.stretch; was public.span"),
    ("ALTER SEQUENCE numbered_n_seq RENAME TO n_seq", "schema public.n_seq",
     "ALTER SEQUENCE public.n_seq AS integer INCREMENT BY 1 MINVALUE 1 MAXVALUE 2147483647 START WITH 1 CACHE 1 NO CYCLE; was public.numbered_n_seq"),
    ("ALTER EXTENSION plpgsql ADD FUNCTION joins()", "schema function public.joins() of extension plpgsql", "ALTER EXTENSION plpgsql ADD function public.joins()"),
    ("ALTER EXTENSION plpgsql ADD TABLE joining", "schema table public.joining of extension plpgsql", "ALTER EXTENSION plpgsql ADD table public.joining"),
    ("ALTER FUNCTION needs() DEPENDS ON EXTENSION plpgsql", "schema function public.needs() of extension plpgsql",
     "ALTER function public.needs() DEPENDS ON EXTENSION plpgsql"),
    ("CREATE TYPE shell", "schema public.shell", "CREATE TYPE public.shell"),
    ("COMMENT ON FUNCTION pg_catalog.now() IS 'new'", "catalog pg_description", UNLISTED),
    ("GRANT SELECT ON pg_catalog.pg_authid TO someone_{serial}", "catalog pg_class", UNLISTED),
    ("GRANT EXECUTE ON FUNCTION pg_read_file(text) TO someone_{serial}", "catalog pg_proc", UNLISTED))


def unnamed(tap, place, server):
    """Nothing lands that the diff does not name, at least by its catalog."""
    names = {"serial": World.serial + 1, "database": "diff%d" % (World.serial + 1)}
    w = World(place, place.users()[0], server, REST.format(**names), role="owner")
    w.inside("BEGIN; COMMENT ON FUNCTION pg_catalog.now() IS 'never'; CREATE ROLE never; ALTER DATABASE %s CONNECTION LIMIT 3; ROLLBACK" % w.database)
    w.inside("INSERT INTO beside VALUES (1)")
    w.shown()
    tap.check("what was rolled back is not told", list(w.changes) == ["table public.beside"], w.changes)
    for text, _, _ in REST_CASES:
        w.inside(text.format(**names))
    w.shown()
    got = {path: c["note"] for path, c in w.changes.items() if c["change"] != "locked"}
    wanted = {path.format(**names): note.format(**names) for _, path, note in REST_CASES}
    for text, path, _ in REST_CASES:
        path = path.format(**names)
        tap.check("told beside a row: " + text, got.get(path) == wanted[path], got.get(path))
    tap.check("and nothing else is", set(got) - set(wanted) == {"table public.beside"}, set(got) - set(wanted))
    w.box.rollback()
    w.inside("ALTER EXTENSION plpgsql DROP FUNCTION member()")
    w.shown()
    got = {path: c["change"] for path, c in w.changes.items()}
    tap.check("what leaves an extension is neither made nor dropped",
              got == {"schema function public.member() of extension plpgsql": "deleted", "schema public.member()": "modified"}, w.changes)
    w.box.rollback()
    if w.sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_trgm'") == "1":
        w.sql("CREATE EXTENSION pg_trgm; CREATE SCHEMA apart")
        w.inside("ALTER EXTENSION pg_trgm SET SCHEMA apart")
        w.shown()
        tap.check("told as it lands: an extension's schema", w.changes["schema pg_trgm"]["note"] == "schema apart (was public)", w.changes)
        w.box.rollback()
    else:
        tap.skip("told as it lands: an extension's schema", "the server has no extension pg_trgm")
    w.sql("DROP SERVER remote CASCADE; DROP ROLE someone_%d" % names["serial"])
    w = World(place, place.users()[0], server, "CREATE TABLE beside (id int)")
    w.inside("INSERT INTO beside VALUES (1); ALTER ROLE agent PASSWORD 'x'")
    w.shown()
    tap.check("a role that may not read passwords is told that something may have been changed",
              w.changes.get("catalog pg_authid", {}).get("note") == "something that is not listed may have been changed in it", w.changes)


# PostgreSQL 18: NOT NULL is a constraint with a name. What is done beside a row of "beside", and what is told of constraints.
NOT_NULL = """CREATE TABLE beside (id int); CREATE TABLE free (id int, v text); CREATE TABLE bound (id int CONSTRAINT b NOT NULL, v text);
CREATE TABLE unproven (v text); ALTER TABLE unproven ADD CONSTRAINT u NOT NULL v NOT VALID;"""
NOT_NULL_CASES = (
    ("ALTER TABLE free ADD CONSTRAINT n NOT NULL v NOT VALID", {"schema n ON public.free": "ALTER TABLE public.free ADD CONSTRAINT n NOT NULL v NOT VALID"}),
    ("ALTER TABLE free ADD CONSTRAINT n NOT NULL v NO INHERIT", {"schema n ON public.free": "ALTER TABLE public.free ADD CONSTRAINT n NOT NULL v NO INHERIT"}),
    ("ALTER TABLE unproven VALIDATE CONSTRAINT u", {"schema u ON public.unproven": "ALTER TABLE public.unproven ADD CONSTRAINT u NOT NULL v"}),
    ("ALTER TABLE bound RENAME CONSTRAINT b TO c", {"schema c ON public.bound": "ALTER TABLE public.bound ADD CONSTRAINT c NOT NULL id; was b ON public.bound"}),
    ("ALTER TABLE bound ALTER CONSTRAINT b NO INHERIT", {"schema b ON public.bound": "ALTER TABLE public.bound ADD CONSTRAINT b NOT NULL id NO INHERIT"}),
    ("ALTER TABLE free ADD COLUMN w int NOT NULL", {}),
    ("ALTER TABLE bound DROP COLUMN id", {}),
    ("CREATE TABLE made (id int NOT NULL)", {}))


def not_null(tap, place, server):
    """A constraint NOT NULL is told with its name and all that it says, unless it comes or goes with its column. Called by t0302."""
    if int(server.sql("SHOW server_version_num")) < 180000:
        return  # there are none
    w = World(place, place.users()[-1], server, NOT_NULL)
    for text, wanted in NOT_NULL_CASES:
        w.inside("INSERT INTO beside VALUES (1); " + text)
        w.shown()
        w.box.rollback()
        got = {path: c["note"] for path, c in w.changes.items() if " ON " in path}
        tap.check("told as a constraint: " + text, got == wanted, got)
    w.inside("CREATE TABLE made (id int CONSTRAINT m NOT NULL NO INHERIT)")
    w.shown()
    told = w.changes["schema public.made"]["note"]
    tap.check("a new table has in its definition what the column does not say",
              told == "CREATE TABLE public.made (id integer NOT NULL, CONSTRAINT m NOT NULL id NO INHERIT)", told)


def main(place, tap):
    if not pg.binaries():
        tap.skip("the diff of a PostgreSQL database", "PostgreSQL is not installed")
        return
    server = pg.Server(place)
    try:
        server.sql("CREATE ROLE agent LOGIN")
        w = World(place, place.users()[0], server)
        for part in (rows, shapes, definitions, large, crowded, manners):
            part(tap, w)
        server.sql("CREATE ROLE nobody_else; GRANT nobody_else TO agent")
        open_block(tap, World(place, place.users()[-1], server, "CREATE TABLE shared (a int PRIMARY KEY, b text); GRANT ALL ON shared TO nobody_else"))
        quoted(tap, place, server)
        many(tap, place, server)
        schema(tap, World(place, place.users()[-1], server, OBJECTS))
        facts(tap, place, server)
        emptied(tap, World(place, place.users()[0], server, FILES))
        unnamed(tap, place, server)
    finally:
        server.stop()


if __name__ == "__main__":
    t.run(main)
