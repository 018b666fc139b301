#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""The PostgreSQL proxy in front of a real server: transactions of several clients inside one."""
import os
import random
import struct
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import atolltest as t  # noqa: E402
import pgtest as pg  # noqa: E402

UUID = "12345678-1234-4234-8234-123456789abc"


def simple(tap, proxy, server):
    w = proxy.wire()
    tap.check("a client is welcomed with parameters and a key of its own", w.key and [b for k, b in w.hello if k == "S" and b"server_version\0" in b], w.hello)
    a = w.query("CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'one')")
    tap.check("a string of several statements is carried out", a.tags == ["CREATE TABLE", "INSERT 0 1"] and a.status == "I", a)
    tap.check("nothing of it is visible outside", server.sql("SELECT to_regclass('t') IS NULL") == "t")
    a = w.query("INSERT INTO t VALUES (2, 'two'); INSERT INTO t VALUES (1, 'again')")
    tap.check("a string that fails is undone as a whole, and the client is not in a transaction", a.state == "23505" and a.status == "I"
              and w.query("SELECT a FROM t").rows == [["1"]], a)
    a = w.query("SELECT * FROM nowhere")
    tap.check("an error does not poison what was done before", a.state == "42P01" and w.query("SELECT count(*) FROM t").rows == [["1"]], a)
    a = w.query("")
    tap.check("an empty query is answered as such", a.kinds == "IZ", a)
    a = w.query("SELECT 1;\n\n  SELEC 2")
    tap.check("the position of an error is where the client's text has it", a.errors and a.errors[0].get("P") == "14", a)
    a = w.query("BEGIN; SELECT 1; SELEC 2")
    tap.check("so it is in a string with transaction control, which the server parses as a whole and we do not", a.errors and a.errors[0].get("P") == "18", a)
    w.query("ROLLBACK")
    w.close()


def blocks(tap, proxy):
    w = proxy.wire()
    a = w.query("BEGIN")
    tap.check("begin is answered by T", a.tags == ["BEGIN"] and a.status == "T", a)
    w.query("INSERT INTO t VALUES (10, 'ten')")
    a = w.query("INSERT INTO t VALUES (10, 'again')")
    tap.check("an error inside gives E", a.state == "23505" and a.status == "E", a)
    a = w.query("SELECT 1")
    tap.check("and then the server's own refusal", a.state == "25P02" and a.status == "E", a)
    a = w.query("BEGIN")
    tap.check("also of another begin", a.state == "25P02" and a.status == "E", a)
    a = w.query("COMMIT")
    tap.check("commit of a failed transaction answers rollback", a.tags == ["ROLLBACK"] and a.status == "I", a)
    tap.check("and has rolled it back", w.query("SELECT count(*) FROM t WHERE a = 10").rows == [["0"]])
    w.query("BEGIN")
    w.query("INSERT INTO t VALUES (11, 'eleven')")
    w.query("SAVEPOINT mine")
    w.query("INSERT INTO t VALUES (12, 'twelve')")
    w.query("nonsense")
    a = w.query("ROLLBACK TO mine")
    tap.check("a client's own savepoint brings it back", a.tags == ["ROLLBACK"] and a.status == "T", a)
    a = w.query("COMMIT")
    tap.check("and the rest is committed", a.tags == ["COMMIT"] and w.query("SELECT a FROM t WHERE a > 10").rows == [["11"]], a)
    a = w.query("COMMIT")
    tap.check("commit without a transaction warns", a.tags == ["COMMIT"] and a.warnings[0]["C"] == "25P01", a)
    a = w.query("ROLLBACK")
    tap.check("so does rollback", a.tags == ["ROLLBACK"] and a.warnings[0]["C"] == "25P01", a)
    a = w.query("SAVEPOINT x")
    tap.check("a savepoint outside is refused with the server's words", a.state == "25P01" and a.status == "I" and
              a.errors[0]["M"] == "SAVEPOINT can only be used in transaction blocks", a)
    a = w.query("INSERT INTO t VALUES (20, 'x'); BEGIN; INSERT INTO t VALUES (21, 'y'); ROLLBACK; SELECT count(*) FROM t WHERE a >= 20")
    tap.check("a begin in the middle of a string takes what was before it along", a.rows == [["0"]] and
              a.tags == ["INSERT 0 1", "BEGIN", "INSERT 0 1", "ROLLBACK", "SELECT 1"] and a.status == "I", a)
    a = w.query("BEGIN; INSERT INTO t VALUES (22, 'x'); COMMIT; INSERT INTO t VALUES (22, 'again')")
    tap.check("what a string has committed stays when the rest fails", a.state == "23505" and w.query("SELECT a FROM t WHERE a = 22").rows == [["22"]], a)
    w.query("BEGIN")
    a = w.query("COMMIT AND CHAIN")
    tap.check("and chain begins the next one", a.tags == ["COMMIT"] and a.status == "T", a)
    a = w.query("ROLLBACK AND CHAIN")
    tap.check("after rollback too", a.tags == ["ROLLBACK"] and a.status == "T", a)
    w.query("ROLLBACK")
    for text, state in (("PREPARE TRANSACTION 'x'", "0A000"), ("COMMIT PREPARED 'x'", "0A000"), ("COMMIT nonsense", "42601"),
                        ("COMMIT AND CHAIN", "25P01"), ("VACUUM", "25001"), ("CREATE DATABASE x", "25001"),
                        ("DO $$ BEGIN COMMIT; END $$", "2D000"), ("LOCK TABLE t", "25P01"), ("DECLARE c CURSOR FOR SELECT 1", "25P01")):
        a = w.query(text)
        tap.check("refused, and nothing else happens: " + text, a.state == state and a.status == "I", a)
    w.query("BEGIN")
    a = w.query("PREPARE TRANSACTION 'x'")
    tap.check("a refusal inside a transaction fails it", a.state == "0A000" and a.status == "E" and w.query("SELECT 1").state == "25P02", a)
    w.query("ROLLBACK")
    a = w.query("BEGIN READ ONLY")
    b = w.query("INSERT INTO t VALUES (30, 'x')")
    w.query("ROLLBACK")
    tap.check("a read-only transaction is one, and the next is not", b.state == "25006" and w.query("INSERT INTO t VALUES (30, 'x')").tags == ["INSERT 0 1"], a, b)
    a = w.query("BEGIN ISOLATION LEVEL SERIALIZABLE")
    tap.check("an isolation level that is not there is warned about", a.tags == ["BEGIN"] and a.warnings and "read committed" in a.warnings[0]["M"], a)
    a = w.query("SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY")
    tap.check("set transaction is served", a.tags == ["SET"] and not a.warnings and w.query("DELETE FROM t").state == "25006", a)
    w.query("ROLLBACK")
    w.close()


def extended(tap, proxy):
    w = proxy.wire()
    a = w.run("BEGIN")
    tap.check("begin by the extended protocol", a.kinds == "12CZ" and a.tags == ["BEGIN"] and a.status == "T", a)
    a = w.run("INSERT INTO t VALUES ($1, $2)", "40", "forty")
    tap.check("a statement with parameters", a.tags == ["INSERT 0 1"] and a.status == "T", a)
    a = w.run("ROLLBACK")
    tap.check("rollback by the extended protocol", a.tags == ["ROLLBACK"] and a.status == "I" and w.query("SELECT 1 FROM t WHERE a = 40").rows == [], a)
    w.send(pg.parse_message("BEGIN"), pg.bind_message(), ("E", b"\0\0\0\0\0"), pg.parse_message("INSERT INTO t VALUES (41, 'x')"), pg.bind_message(),
           ("E", b"\0\0\0\0\0"), pg.parse_message("COMMIT"), pg.bind_message(), ("E", b"\0\0\0\0\0"), ("S", b""))
    a = pg.Answer(w.until("Z"))
    tap.check("a whole transaction in one pipeline", a.tags == ["BEGIN", "INSERT 0 1", "COMMIT"] and a.kinds == "12C12C12CZ" and a.status == "I", a)
    w.send(pg.parse_message("SELECT 1/0"), pg.bind_message(), ("E", b"\0\0\0\0\0"), pg.parse_message("INSERT INTO t VALUES (42, 'x')"), pg.bind_message(),
           ("E", b"\0\0\0\0\0"), pg.parse_message("COMMIT"), pg.bind_message(), ("E", b"\0\0\0\0\0"), ("S", b""))
    a = pg.Answer(w.until("Z"))
    tap.check("after an error nothing counts until sync", a.state == "22012" and a.tags == [] and a.status == "I" and
              w.query("SELECT 1 FROM t WHERE a = 42").rows == [], a)
    w.send(pg.parse_message("COMMIT", "c"), pg.parse_message("BEGIN", "b"), ("D", b"Sb\0"), ("S", b""))
    a = pg.Answer(w.until("Z"))
    tap.check("transaction commands can be prepared and described", a.kinds == "11tnZ", a)
    a, b, c = w.run("", statement="b", parse=False), w.run("SELECT 1"), w.run("", statement="c", parse=False)
    tap.check("and executed by name", a.tags == ["BEGIN"] and b.status == "T" and c.tags == ["COMMIT"] and c.status == "I", a, b, c)
    w.send(pg.parse_message("SELECT generate_series(1, 5)"), pg.bind_message((), "", "p"), ("E", b"p\0" + struct.pack("!i", 2)), ("H", b""))
    got = w.until("s")
    w.send(("E", b"p\0" + struct.pack("!i", 0)), ("S", b""))
    a = pg.Answer(got + w.until("Z"))
    tap.check("a portal is read in pieces, with flush", len(a.rows) == 5 and "s" in a.kinds and a.status == "I", a)
    a = w.run("SELECT 1", portal="p")
    tap.check("its name is free again afterwards", a.tags == ["SELECT 1"], a)
    a = w.run("SELECT 2", statement="s1")
    b = w.run("SELECT 2", statement="s1")
    tap.check("a name twice is refused under the client's own name", a.rows == [["2"]] and b.state == "42P05" and '"s1"' in b.errors[0]["M"], a, b)
    a = w.run("", statement="none", parse=False)
    tap.check("a name that is not there likewise", a.state == "26000" and '"none"' in a.errors[0]["M"], a)
    long_name = "a_very_long_name_of_a_statement_" * 2
    tap.check("long names are told apart", w.run("SELECT 1", statement=long_name).rows == [["1"]] and w.run("SELECT 2", statement=long_name + "b").rows == [["2"]]
              and w.run("", statement=long_name, parse=False).rows == [["1"]])
    w.query("PREPARE p1 AS SELECT 'prepared'")
    tap.check("statements prepared by SQL are executed by SQL and by the protocol", w.query("EXECUTE p1").rows == [["prepared"]]
              and w.run("", statement="p1", parse=False).rows == [["prepared"]] and w.query("EXPLAIN EXECUTE p1").rows != [])
    a = w.query("DEALLOCATE ALL")
    tap.check("deallocate all", a.tags == ["DEALLOCATE ALL"] and w.query("EXECUTE p1").state == "26000" and w.run("SELECT 1", statement="s1").rows == [["1"]], a)
    w.send(("F", struct.pack("!ihhih", 1598, 0, 0, 0, 0)[:-4] + struct.pack("!h", 0)))
    a = pg.Answer(w.until("Z"))
    tap.check("function calls are passed on", a.kinds in ("VZ", "EZ") and a.status == "I", a)
    w.close()


def pipeline(wire, *texts):
    """All of them up to one Sync."""
    messages = []
    for text in texts:
        messages += [pg.parse_message(text), pg.bind_message(), ("E", b"\0\0\0\0\0")]
    wire.send(*messages, ("S", b""))
    return pg.Answer(wire.until("Z"))


def failed_block(wire, value):
    """A transaction with one row, a savepoint and an error."""
    for text in ("BEGIN", "INSERT INTO state VALUES (%d)" % value, "SAVEPOINT s", "SELECT 1/0"):
        wire.query(text)


def states(tap, proxy):
    """What a statement means depends on the one before it, not on what the last ReadyForQuery said."""
    w = proxy.wire()
    w.query("CREATE TABLE state (a int)")
    failed_block(w, 1)
    a = pipeline(w, "ROLLBACK TO s", "INSERT INTO state VALUES (2)", "COMMIT")
    tap.check("a pipeline that revives a failed transaction commits it", a.tags == ["ROLLBACK", "INSERT 0 1", "COMMIT"] and a.status == "I"
              and w.query("SELECT a FROM state ORDER BY a").rows == [["1"], ["2"]], a)
    for number, text in enumerate(("DEALLOCATE ALL", "RESET ALL", "DISCARD PLANS", "BEGIN", "SET TRANSACTION READ ONLY",
                                   "SET idle_in_transaction_session_timeout = '50ms'", "SET LOCAL idle_in_transaction_session_timeout = '50ms'")):
        failed_block(w, 10 + number)
        a = pipeline(w, "ROLLBACK TO s", text, "COMMIT")
        failed_block(w, 20 + number)
        b = w.query("ROLLBACK TO s; %s" % text)
        c = w.query("COMMIT")
        tap.check("nothing is lost by what follows a rollback to a savepoint: " + text, a.tags[-1:] == ["COMMIT"] and b.status == "T" and c.tags == ["COMMIT"]
                  and w.query("SELECT count(*) FROM state WHERE a IN (%d, %d)" % (10 + number, 20 + number)).rows == [["2"]], a, b, c)
    w.run("DEALLOCATE ALL")
    w.query("BEGIN")
    w.send(pg.parse_message("DEALLOCATE ALL"), ("S", b""))
    w.until("Z")
    w.run("SELECT 1/0", statement="bad")
    a = w.run("", parse=False)
    tap.check("a failed transaction refuses to bind DEALLOCATE ALL", a.kinds == "EZ" and a.state == "25P02", a)
    w.query("ROLLBACK")
    w.query("BEGIN; SET my.x = 1; SAVEPOINT s; SET my.x = 2; SAVEPOINT t")
    w.query("SELECT 1/0; ROLLBACK TO s; SAVEPOINT t")
    w.query("ROLLBACK TO t; COMMIT")
    tap.check("what an error has skipped is not taken for done", w.query("SHOW my.x").rows == [["2"]] and proxy.sql("SELECT 1") == "1"
              and w.query("SHOW my.x").rows == [["2"]])
    for text in ("DO $$ BEGIN SET idle_in_transaction_session_timeout = '50ms'; END $$", "SELECT set_config('idle_in_transaction_session_timeout', '50ms', false)"):
        a = w.query("BEGIN")
        a = w.query(text)
        time.sleep(0.2)
        b = w.query("COMMIT")
        tap.check("a limit that a function sets has no effect: " + text, not a.errors and b.tags == ["COMMIT"] and w.query("SELECT 1").rows == [["1"]], a, b)
    w.close()


def hidden_limits(tap, server, program, place):
    """Limits that no text of a client names: by a value of Bind, and by a function that was there before."""
    server.sql("CREATE FUNCTION quick() RETURNS text LANGUAGE sql AS $$SELECT set_config('Idle_in_transaction_session_timeout', '50ms', false)$$")
    for label, text, values in (("a value of Bind", "SELECT set_config($1, $2, false)",
                                 ("idle_in_transaction_session_timeout", "50ms")),
                                ("a function that was there before", "SELECT quick()", ())):
        proxy = pg.Proxy(server, program, place)
        w = proxy.wire()
        a = w.run(text, *values)
        time.sleep(0.2)
        b = proxy.sql("SELECT 1")
        w.query("BEGIN")
        w.run(text, *values)
        time.sleep(0.2)
        c = proxy.tell("status")
        tap.check("a limit set by %s has no effect" % label, a.rows == [["50ms"]] and b == "1" and
                  c.startswith("ok open"), a, b, c)
        w.close()
        proxy.close()
    server.sql("DROP FUNCTION quick")


def query_in_a_pipeline(tap, proxy):
    """Without a Sync before it. If an earlier message fails, a server skips it as it skips the rest."""
    w = proxy.wire()
    step = [("E", b"\0\0\0\0\0")]
    w.send(pg.parse_message("SELECT 1"), pg.bind_message(), *step, ("Q", b"SELECT 2\0"), ("S", b""))
    a, b = pg.Answer(w.until("Z")), pg.Answer(w.until("Z"))
    tap.check("a query amid a pipeline is answered in its place", a.rows == [["1"], ["2"]] and b.kinds == "Z", a, b)
    w.send(pg.parse_message("SELECT 1/0"), pg.bind_message(), *step, ("Q", b"SELECT 2\0"), ("S", b""),
           ("Q", b"SELECT 3\0"))
    a, b = pg.Answer(w.until("Z")), pg.Answer(w.until("Z"))
    tap.check("one behind an error is skipped", a.state == "22012" and not a.rows and b.rows == [["3"]], a, b)
    w.close()


def names_in_a_pipeline(tap, proxy):
    """PREPARE and DEALLOCATE count at their place: what is sent behind them, before their answers, is newer."""
    w, execute = proxy.wire(), ("E", b"\0\0\0\0\0")
    w.send(pg.parse_message("PREPARE n AS SELECT 7"), pg.bind_message(), execute, ("C", b"Sn\0"),
           pg.parse_message("COMMIT", "n"), ("S", b""))
    w.until("Z")
    w.query("BEGIN")
    a = w.run("", statement="n", parse=False)
    tap.check("a COMMIT that was parsed behind a PREPARE of the same name commits", a.tags == ["COMMIT"] and a.status == "I", a)
    w.send(pg.parse_message("DEALLOCATE n"), pg.bind_message(), execute, pg.parse_message("SELECT 8", "n"), ("S", b""))
    w.until("Z")
    w.query("DEALLOCATE ALL")
    a = w.run("", statement="n", parse=False)
    tap.check("DEALLOCATE ALL removes what was parsed behind a DEALLOCATE of the same name", a.state == "26000", a)
    w.send(pg.parse_message("COMMIT", "n"), ("S", b""))
    w.until("Z")
    w.send(pg.parse_message("SELECT 1/0"), pg.bind_message(), execute, pg.parse_message("DEALLOCATE n"), pg.bind_message(),
           execute, ("S", b""))
    w.until("Z")
    w.query("BEGIN")
    a = w.run("", statement="n", parse=False)
    tap.check("a DEALLOCATE that the server skips leaves the name as it was", a.tags == ["COMMIT"] and a.status == "I", a)
    w.close()


def skipped(tap, proxy):
    """After an error the server skips all messages up to Sync: names stand for what they stood for before."""
    w = proxy.wire()
    w.send(pg.parse_message("SELECT 5", "n"), pg.parse_message("COMMIT", "c"), ("S", b""))
    w.until("Z")
    w.send(pg.parse_message("SELECT 1/0"), pg.bind_message(), ("E", b"\0\0\0\0\0"), ("C", b"Sn\0"), pg.parse_message("COMMIT", "n"), ("C", b"Sc\0"),
           pg.parse_message("SELECT 6", "c"), ("S", b""))
    w.until("Z")
    w.query("BEGIN; INSERT INTO state VALUES (30)")
    a = w.run("", statement="n", parse=False)
    b = w.run("COMMIT AND", statement="n")
    c = w.run("", statement="n", parse=False)
    tap.check("a statement that was not replaced is what it was", a.rows == [["5"]] and a.status == "T" and b.errors and c.state == "25P02", a, b, c)
    w.query("ROLLBACK; BEGIN; INSERT INTO state VALUES (31)")
    a = w.run("", statement="c", parse=False)
    tap.check("also a transaction command", a.tags == ["COMMIT"] and w.query("SELECT count(*) FROM state WHERE a = 31").rows == [["1"]], a)
    a = w.query("EXECUTE c")
    tap.check("which SQL cannot execute", a.state == "0A000" and a.status == "I", a)
    other = proxy.wire()
    w.run("SELECT 'mine'")
    a = other.run("", parse=False)
    tap.check("another client's unnamed statement is not there", a.state == "26000", a)
    w.query("BEGIN; SAVEPOINT s")
    w.send(pg.parse_message("COMMIT"), pg.bind_message((), "", "p"), ("S", b""))
    w.until("Z")
    w.query("ROLLBACK TO s")
    w.send(("E", b"p\0\0\0\0\0"), ("S", b""))
    a = pg.Answer(w.until("Z"))
    tap.check("nor a portal that a rollback has removed", a.state == "34000" and a.status == "E", a)
    w.query("ROLLBACK")
    for text in ("SELECT pg_catalog.pg_export_snapshot()", "SET TRANSACTION SNAPSHOT '1-1-1'"):
        w.query("BEGIN")
        a = w.query(text)
        tap.check("who wants several connections with one view (pg_dump --jobs) is told why not: " + text, a.state == "0A000" and "--jobs" in a.errors[0]["H"], a)
        w.query("ROLLBACK")
    a = w.query("SELECT 1; DISCARD ALL")
    tap.check("discard all belongs alone", a.state == "25001" and a.status == "I", a)
    w.close()
    other.close()


def answers(wire, *units):
    """The kinds of the messages that answer each unit, and the SQLSTATEs of errors."""
    result = []
    for unit in units:
        wire.send(*unit)
        a = pg.Answer(wire.until("Z"))
        result.append(a.kinds.replace("S", "").replace("N", "") + a.state)
    return result


def execute(text, name):
    """By a statement and a portal of this name."""
    return [pg.parse_message(text, name), pg.bind_message((), name, name), ("E", name.encode() + b"\0\0\0\0\0"), ("S", b"")]


def unnamed(tap, proxy, server):
    """The proxy's own statements leave a client's unnamed statement and portal alone: it answers as the server does."""
    series = [pg.parse_message("SELECT generate_series(1, 9)"), pg.bind_message(), ("E", b"\0" + struct.pack("!i", 2)), ("S", b"")]
    more = [("E", b"\0" + struct.pack("!i", 2)), ("S", b"")]
    begin, end = [("Q", b"BEGIN\0")], [("Q", b"ROLLBACK\0")]
    limit = [("Q", b"SELECT set_config('idle_in_transaction_session_timeout', '0', false)\0")]
    setting = [pg.parse_message("SET work_mem = '1MB'"), pg.bind_message(), ("E", b"\0\0\0\0\0"), ("S", b"")]
    back = [pg.parse_message("ROLLBACK TO nowhere", "b"), pg.bind_message((), "b", "p"), ("S", b"")]
    closing = [("D", b"S\0"), ("C", b"Pp\0"), pg.bind_message(), ("S", b"")]
    for what, units, expected in (
            ("a portal goes on after a text that names a limit", (begin, limit, series, more, more, end), "DDsZ"),
            ("and after a statement that the proxy carries out", (begin, series, execute("RESET ALL", "r"), more, end), "DDsZ"),
            ("a query string ends it, also one that the proxy carries out", (begin, series, [("Q", b"RESET ALL\0")], more, end), "EZ34000"),
            ("a statement is described in a failed transaction, and what follows is done",
             (begin, setting, execute("RESET ALL", "r2"), execute("SELECT 1/0", "f"), back, closing, end), "tn3EZ25P02"),
            ("a portal that was bound in one and closed is bound again", (begin, setting, execute("RESET ALL", "r3"), execute("SELECT 1/0", "g"),
             back, closing, [pg.bind_message((), "b", "p"), ("S", b"")], end), "2Z")):
        w, direct = proxy.wire(), pg.Wire(server.home, port=pg.PORT)
        a, b = answers(w, *units), answers(direct, *units)
        tap.check("unnamed, as on a server: " + what, a == b and a[-2] == expected, a, b)
        w.close()
        direct.close()
    w = proxy.wire()
    a = answers(w, begin, series)
    inspection = proxy.tell("inspect")
    b = answers(w, more, end)
    tap.check("a question from outside leaves the unnamed portal alone", inspection.startswith("ok") and b[0] == "DDsZ", a, inspection, b)
    w.close()


def two_clients(tap, proxy):
    a, b = proxy.wire(application_name="first"), proxy.wire(application_name="second")
    tap.check("each has its own settings from the start", a.query("SHOW application_name").rows == [["first"]] and b.query("SHOW application_name").rows == [["second"]])
    a.query("SET search_path = pg_catalog")
    a.query("SET x.y = 'for a'")
    tap.check("and what one sets the other does not have", b.query("SELECT current_setting('search_path'), coalesce(current_setting('x.y', true), '')").rows == [['"$user", public', ""]]
              and a.query("SELECT current_setting('search_path'), current_setting('x.y')").rows == [["pg_catalog", "for a"]])
    a.query("BEGIN")
    a.query("SET x.y = 'rolled back'")
    a.query("SET LOCAL work_mem = '1MB'")
    a.query("ROLLBACK")
    b.query("BEGIN")
    b.query("SET LOCAL work_mem = '2MB'")
    b.query("COMMIT")
    tap.check("rolled back and local settings end with the transaction", a.query("SHOW x.y").rows == [["for a"]] and b.query("SHOW work_mem").rows == [["4MB"]]
              and a.query("SHOW work_mem").rows == [["4MB"]])
    a.query("RESET ALL")
    ra = a.send(pg.parse_message("SELECT 'a'"), ("S", b"")) or a.until("Z")
    rb = b.send(pg.parse_message("SELECT 'b'"), ("S", b"")) or b.until("Z")
    a1, b1 = a.run("", parse=False), b.run("", parse=False)
    tap.check("unnamed statements of two clients are two", a1.rows == [["a"]] and b1.rows == [["b"]], ra, rb, a1, b1)
    a.run("SELECT 'a'", statement="same")
    b.run("SELECT 'b'", statement="same")
    tap.check("so are those of the same name", a.run("", statement="same", parse=False).rows == [["a"]] and b.run("", statement="same", parse=False).rows == [["b"]])
    a.query("BEGIN")
    a.query("INSERT INTO t VALUES (50, 'a')")
    began = time.monotonic()
    answer = b.query("SELECT count(*) FROM t WHERE a = 50")
    took = time.monotonic() - began
    tap.check("who waits too long for another's transaction is told", answer.state == "55P03" and "H" in answer.errors[0] and "first" in answer.errors[0]["D"]
              and answer.status == "I" and took > 0.3, answer, took)
    answer = b.run("SELECT 1")
    tap.check("also in the extended protocol", answer.state == "55P03" and answer.status == "I" and answer.kinds == "EZ", answer)
    threading.Timer(0.1, lambda: a.send(("Q", b"ROLLBACK\0"))).start()
    answer = b.query("SELECT count(*) FROM t WHERE a = 50")
    tap.check("who does not, gets the turn when it ends", answer.rows == [["0"]], answer)
    a.until("Z")
    a.query("BEGIN")
    a.query("INSERT INTO t VALUES (51, 'a')")
    a.close()
    answer = b.query("SELECT count(*) FROM t WHERE a = 51")
    tap.check("a client that disconnects in its transaction has rolled it back", answer.rows == [["0"]], answer)
    a = proxy.wire()
    a.query("BEGIN")
    b.send(("Q", b"SELECT 1\0"))
    time.sleep(0.1)
    b.cancel()
    answer = pg.Answer(b.until("Z"))
    tap.check("who waits can cancel", answer.state == "57014", answer)
    a.query("ROLLBACK")
    a.close()
    b.close()


def cancel(tap, proxy):
    a, b = proxy.wire(), proxy.wire()
    a.send(("Q", b"SELECT pg_sleep(30)\0"))
    time.sleep(0.1)
    b.cancel()
    time.sleep(0.1)
    tap.check("nobody cancels another one's statement", "busy=1" in proxy.tell("status"))
    began = time.monotonic()
    a.cancel()
    answer = pg.Answer(a.until("Z"))
    tap.check("a client cancels its own", answer.state == "57014" and time.monotonic() - began < 5, answer)
    tap.check("and goes on", a.query("SELECT 1").rows == [["1"]])
    bad = 0
    for i in range(60):
        a.send(("Q", b"SELECT 1\0"))
        a.cancel()
        answer = pg.Answer(a.until("Z"))
        bad += answer.state not in ("", "57014")
    tap.check("a cancel that comes too late hits nothing else", bad == 0 and " open " in proxy.tell("status") + " ", proxy.tell("status"))
    a.send(("Q", b"SELECT pg_sleep(30)\0"))
    time.sleep(0.1)
    a.close()
    tap.check("the statement of a client that is gone is cancelled", b.query("SELECT 2").rows == [["2"]])
    b.close()


def copies(tap, proxy):
    w = proxy.wire()
    w.query("CREATE TABLE c (a int, b text)")
    w.send(("Q", b"COPY c FROM STDIN\0"))
    got = w.until("G")
    w.send(("d", b"1\tone\n2\ttw"), ("d", b"o\n"), ("c", b""))
    a = pg.Answer(got + w.until("Z"))
    tap.check("copy in", a.tags == ["COPY 2"] and a.status == "I", a)
    w.send(("Q", b"COPY c FROM STDIN\0"), ("d", b"3\tthree\n"), ("c", b""), ("Q", b"SELECT count(*) FROM c\0"))
    a, b = pg.Answer(w.until("Z")), pg.Answer(w.until("Z"))
    tap.check("copy in by a client that does not wait", a.tags == ["COPY 1"] and b.rows == [["3"]], a, b)
    w.send(("Q", b"COPY c FROM STDIN\0"), ("d", b"4\tfour\n"), ("f", b"changed my mind\0"))
    a = pg.Answer(w.until("Z"))
    tap.check("copy that the client lets fail", a.state == "57014" and a.status == "I", a)
    w.send(("Q", b"COPY c FROM STDIN\0"), ("d", b"nonsense\n"), ("d", b"5\tfive\n"), ("c", b""), ("Q", b"SELECT count(*) FROM c\0"))
    a, b = pg.Answer(w.until("Z")), pg.Answer(w.until("Z"))
    tap.check("copy of nonsense", a.state == "22P02" and b.rows == [["3"]], a, b)
    a = w.query("COPY c TO STDOUT")
    tap.check("copy out", b"".join(body for kind, body in a.messages if kind == "d") == b"1\tone\n2\ttwo\n3\tthree\n" and a.tags == ["COPY 3"], a)
    big = b"x" * 3000000
    w.send(("Q", b"COPY c FROM STDIN\0"))
    w.until("G")
    w.send(("d", b"9\t" + big + b"\n"), ("c", b""))
    a = pg.Answer(w.until("Z"))
    b = w.query("SELECT length(b), b FROM c WHERE a = 9")
    tap.check("one message of copied data, and one row, may be longer than any buffer", a.tags == ["COPY 1"] and b.rows == [["3000000", big.decode()]], a.state, b.state)
    w.send(pg.parse_message("COPY c FROM STDIN"), pg.bind_message(), ("E", b"\0\0\0\0\0"), ("S", b""), ("d", b"6\tsix\n"), ("c", b""), ("S", b""))
    a = pg.Answer(w.until("Z"))
    tap.check("copy by the extended protocol", a.tags == ["COPY 1"] and a.status == "I" and w.query("SELECT b FROM c WHERE a = 6").rows == [["six"]], a)
    copying = [pg.parse_message("COPY c FROM STDIN"), pg.bind_message(), ("E", b"\0\0\0\0\0")]
    w.send(*copying, ("d", b"66\tx\n"), ("c", b""), pg.parse_message("SELECT count(*) FROM c WHERE a = 66"),
           *copying[1:], ("S", b""))
    a = pg.Answer(w.until("Z"))
    tap.check("copy amid a pipeline", a.tags == ["COPY 1", "SELECT 1"] and a.rows == [["1"]], a)
    w.send(pg.parse_message("SELECT 1"), *copying[1:], ("d", b"66\tx\n"), ("c", b""), ("S", b""))
    tap.check("copied data without a COPY is ignored", pg.Answer(w.until("Z")).rows == [["1"]])
    w.send(("Q", b"COPY c FROM STDIN\0"), ("S", b""), ("d", b"67\tx\n"), ("H", b""), ("c", b""), ("Q", b"SELECT 2\0"))
    a, b = pg.Answer(w.until("Z")), pg.Answer(w.until("Z"))
    tap.check("so are Sync and Flush amid copied data", a.tags == ["COPY 1"] and b.rows == [["2"]], a, b)
    for label, sent in (("a pipeline that goes on", [*copying, *copying, ("S", b"")]),
                        ("a query", [("Q", b"COPY c FROM STDIN\0"), ("Q", b"SELECT 1\0")])):
        bad = proxy.wire()
        bad.send(*sent)
        a = pg.Answer(bad.until("Z"))
        tap.check("%s where the server wants data costs only its own client" % label, a.state == "08P01" and
                  a.kinds.endswith("closed")
                  and proxy.tell("status").startswith("ok open"), a, proxy.tell("status"))
        bad.close()
    w.send(("Q", b"COPY c FROM STDIN\0"), ("d", b"7\tseven\n"))
    w.until("G")
    w.close()
    w = proxy.wire()
    tap.check("a client that is gone in the middle of copying has copied nothing", w.query("SELECT count(*) FROM c WHERE a = 7").rows == [["0"]])
    slow = proxy.wire()
    slow.send(("Q", b"SELECT repeat('x', 1000) FROM generate_series(1, 100000)\0"))
    time.sleep(0.5)
    with open("/proc/%d/statm" % proxy.process.pid, encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    tap.check("a client that does not read does not make memory grow", resident < 40 << 20, resident)
    slow.close()
    tap.check("nor hold the others up for ever", w.query("SELECT 1").rows == [["1"]])
    w.close()


def garbage(tap, proxy):
    for name, data in (("nonsense", b"GET / HTTP/1.0\r\n\r\n"), ("an impossible length", b"\0\0\0\1\0\0\0\0"), ("protocol 2", struct.pack("!ii", 8, 2 << 16)),
                       ("an enormous startup", struct.pack("!ii", 1 << 30, 3 << 16)), ("an unfinished startup", struct.pack("!ii", 20, 3 << 16))):
        w = proxy.wire(startup=False)
        w.socket.sendall(data)
        if name == "an unfinished startup":
            w.close()
            continue
        got = w.until("Z")
        tap.check("refused with an error: " + name, got[-1][0] == "closed" and len(got) == 2 and got[0][0] == "E", got)
        w.close()
    w = proxy.wire(startup=False)
    w.socket.sendall(struct.pack("!ii", 8, 80877103))
    tap.check("encryption is declined", w.socket.recv(1) == b"N")
    w.close()
    w = proxy.wire(startup=False)
    body = struct.pack("!i", (3 << 16) + 9) + b"user\0x\0_pq_.new\0on\0\0"
    w.socket.sendall(struct.pack("!i", len(body) + 4) + body)
    got = w.until("Z")
    tap.check("a newer minor version is negotiated", got[0][0] == "v" and got[-1][0] == "Z", got)
    w.close()
    for name, messages, state in (("an unknown type", [("y", b"")], "08P01"), ("a query without end", [("Q", b"SELECT 1")], "08P01"),
                                  ("bind without names", [("B", b"x")], "08P01"), ("describe of nothing", [("D", b"")], "08P01"),
                                  ("an oversized message", [("Q", b"x" * 2000000 + b"\0")], "54000")):
        w = proxy.wire()
        try:
            w.send(*messages)
        except OSError:
            pass
        got = pg.Answer(w.until("Z"))
        tap.check("refused, and the client is disconnected: " + name, got.state == state and got.kinds.endswith("Eclosed"), got)
        w.close()
    w = proxy.wire(startup=False)
    w.socket.sendall(struct.pack("!i", 4 + 4 + 38) + struct.pack("!i", 3 << 16) + b"user\0x\0DateStyle\0nonsense\0x\0\0\0\0\0\0\0\0\0\0\0"[:38].ljust(38, b"\0"))
    got = w.until("Z")
    tap.check("a startup message with something behind it is refused", got[-1][0] == "closed", got)
    w.close()
    w = proxy.wire(DateStyle="nonsense")
    got = pg.Answer(w.send(("Q", b"SELECT 1\0")) or w.until("Z"))
    tap.check("a setting that the server refuses ends the client, in the server's words", got.state == "22023" and got.errors[0]["S"] == "FATAL", got)
    w.close()
    w = proxy.wire(options="-c search_path=pg_catalog --work-mem=3MB -cx.y=a\\ b")
    got = w.query("SELECT current_setting('search_path'), current_setting('work_mem'), current_setting('x.y')")
    tap.check("startup options are settings", got.rows == [["pg_catalog", "3MB", "a b"]], got)
    got = w.query("SET work_mem = '5MB'; RESET work_mem")
    tap.check("and what reset leads to when the turn comes back", proxy.sql("SELECT 1") == "1" and w.query("SHOW work_mem").rows == [["3MB"]], got)
    w.close()
    w = proxy.wire()
    tap.check("all the others are served as before", w.query("SELECT 1").rows == [["1"]])
    w.close()


def storm(tap, server, program, place):
    """Clients that do all of it at the same time and disappear in the middle: what each has committed adds up."""
    proxy = pg.Proxy(server, program, place, wait_ms=5000)
    first = proxy.wire()
    first.query("CREATE TABLE sums (a int PRIMARY KEY, b int NOT NULL); INSERT INTO sums SELECT g, 0 FROM generate_series(1, 10) g")
    until, strange, counts = time.monotonic() + (60 if t.TORTURE else 3), [], [0]

    def pair(chance):
        a, b = chance.randrange(1, 11), chance.randrange(1, 11)
        return "UPDATE sums SET b = b + 1 WHERE a = %d" % a, "UPDATE sums SET b = b - 1 WHERE a = %d" % b

    def block(w, chance):
        w.query("BEGIN")
        for text in pair(chance):
            w.query(text) if chance.random() < 0.5 else w.run(text)
        if chance.random() < 0.2:
            w.query("SAVEPOINT s")
            w.query("SELECT 1/0")
            w.query("ROLLBACK TO s")
        return w.query(chance.choice(("COMMIT", "ROLLBACK", "COMMIT")))

    def pipeline(w, chance):
        messages = []
        for text in ("BEGIN", *pair(chance), chance.choice(("COMMIT", "ROLLBACK"))):
            messages += [pg.parse_message(text), pg.bind_message(), ("E", b"\0\0\0\0\0")]
        w.send(*messages, ("S", b""))
        return pg.Answer(w.until("Z"))

    def disappear(w, chance):
        w.send(*chance.choice(([("Q", b"SELECT pg_sleep(5)\0")], [("Q", b"COPY sums FROM STDIN\0"), ("d", b"99\t1\n")],
                               [("Q", b"BEGIN\0"), ("Q", b"UPDATE sums SET b = b + 1\0")], [pg.parse_message("UPDATE sums SET b = 7"), pg.bind_message()])))
        time.sleep(chance.random() * 0.02)
        w.close()

    def cancelled(w, chance):
        w.send(("Q", b"SELECT pg_sleep(5)\0"))
        time.sleep(chance.random() * 0.02)
        answer = None
        while answer is None:
            w.cancel()
            w.socket.settimeout(0.2)
            try:
                answer = pg.Answer(w.until("Z"))
            except TimeoutError:
                pass
            w.socket.settimeout(10)
        return answer

    def client(number):
        chance = random.Random(number)
        w = proxy.wire(application_name="storm %d" % number)
        while time.monotonic() < until:
            what = chance.random()
            try:
                if what < 0.1:
                    disappear(w, chance)
                    w = proxy.wire(application_name="storm %d" % number)
                    continue
                answer = (cancelled(w, chance) if what < 0.15 else pipeline(w, chance) if what < 0.4 else block(w, chance) if what < 0.7
                          else w.query("; ".join(pair(chance))) if what < 0.9 else w.query("SELECT 1/0"))
                counts[0] += 1
                if answer.status != "I" or answer.state not in ("", "22012", "57014"):
                    strange.append(repr(answer))
            except OSError as error:
                strange.append("%s in %s" % (error, what))
                return
        w.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = first.query("SELECT sum(b), count(*) FROM sums")
    tap.check("a storm of clients: what each has committed adds up", answer.rows == [["0", "10"]] and not strange, answer, *strange[:5])
    status = proxy.tell("status")
    tap.check("and the proxy is as it was", status.startswith("ok open clients=1 waiting=0") and counts[0] > 20, status, counts)
    first.close()
    tap.check("and ends well", proxy.close() == 0)


def escapes(tap, proxy, server):
    """No text may end the server's transaction."""
    w = proxy.wire()
    w.query("CREATE TABLE escaped (a int)")
    texts = ["SELECT '\\'; COMMIT; --'", "SELECT 1e$$; COMMIT; --$$", "SELECT 0x1f$$ ' $$; COMMIT; --'", "SELECT b'1'\n'\\'; COMMIT; --'",
             "CREATE FUNCTION f1() RETURNS int BEGIN ATOMIC SELECT 1 AS case; END; COMMIT",
             "CREATE FUNCTION begin() RETURNS int LANGUAGE sql AS 'SELECT 1'; COMMIT", "SELECT /* /* */ ; COMMIT; --*/ 1; COMMIT",
             "SELECT E'\\'; COMMIT; --'; COMMIT", "SELECT $a$;COMMIT;$A$;COMMIT;$a$; COMMIT", "SELECT U&'\\'; COMMIT; --'",
             "SET standard_conforming_strings = off; SELECT '\\'; COMMIT; --'", "SELECT '\\'; COMMIT; --'", "SELECT E'a'\n'\\'; COMMIT; --'",
             "RESET standard_conforming_strings", "SELECT '\\'; COMMIT; --'", ";;COMMIT", "/**/COMMIT", "END", "ABORT", "COMMIT PREPARED 'x'",
             "SELECT (1; COMMIT; SELECT 1)", "\\; COMMIT", "SELECT 'a' -- '\n; COMMIT", "SELECT N'\\'; COMMIT; --'"]
    for text in texts:
        w.query(text)
    w.query("BEGIN")
    w.query("SET standard_conforming_strings = off")
    w.send(("Q", b"ROLLBACK\0"), ("Q", b"SELECT '\\'; COMMIT; --'\0"))
    w.until("Z")
    w.until("Z")
    w.query("BEGIN; SET standard_conforming_strings = off; SET x.z = '\\'; COMMIT; --'")
    w.query("COMMIT; RESET standard_conforming_strings")
    other = proxy.wire(application_name="other")
    other.query("SELECT 1")
    w.query("SELECT 1")
    for text in ("COMMIT", "SELECT 1; COMMIT", "/* */ COMMIT", "ROLLBACK", "PREPARE TRANSACTION 'x'"):
        w.run(text)
    for text in ("SET standard_conforming_strings = off; BEGIN; SELECT '\\', 'x; COMMIT; --'", "SELECT 1; COMMIT; SELECT '\\', 'x; COMMIT; --'"):
        w.query(text)
        w.query("ROLLBACK")
        w.query("SET standard_conforming_strings = off")
        w.query("SET standard_conforming_strings = on; COMMIT; SELECT '\\'; COMMIT; --'")
        w.query("RESET standard_conforming_strings")
    answer = w.query("SET standard_conforming_strings = off; COMMIT; SELECT 1")
    tap.check("how strings are read cannot change in the middle of a string", answer.state == "42601", answer)
    w.query("RESET standard_conforming_strings")
    sjis = proxy.wire(client_encoding="SJIS")
    sjis.query("SELECT 1")
    hidden = proxy.wire(startup=False)
    body = struct.pack("!i", 3 << 16) + b"user\0x\0application_name\0\x83\\' ; COMMIT; --\0\0"
    hidden.socket.sendall(struct.pack("!i", len(body) + 4) + body)
    answer = pg.Answer(hidden.until("Z"))
    tap.check("nor can a value of the startup message hide a quote", answer.state == "22023", answer)
    sjis.close()
    hidden.close()
    # A name that the server still has, and the client has tried to give to something else.
    for text in ("COMMIT", "ROLLBACK", "DEALLOCATE ALL"):
        w.run(text, statement="disguised")
        w.run("SELECT 1", statement="disguised")
        w.run("", statement="disguised", parse=False)
        w.query("EXECUTE disguised")
        w.query("BEGIN")
        w.send(pg.parse_message(text, "other"), pg.bind_message((), "other", "p"), ("S", b""))
        w.until("Z")
        w.send(pg.parse_message("SELECT 1"), pg.bind_message((), "", "p"), ("S", b""))
        w.until("Z")
        w.send(("E", b"p\0\0\0\0\0"), ("S", b""))
        w.until("Z")
        w.query("ROLLBACK")
        w.query("DEALLOCATE ALL")
    ours = w.query("SELECT statement FROM pg_prepared_statements WHERE statement LIKE 'SAVEPOINT%'").rows[0][0].split()[1]
    for text in ("RELEASE %s", "ROLLBACK TO %s", "ROLLBACK TO SAVEPOINT \"%s\"", "RELEASE U&\"%s\"", "SAVEPOINT %s", "DEALLOCATE %s_make"):
        w.query("BEGIN")
        answer = w.query(text % ours)
        w.query("ROLLBACK")
        tap.check("what is the proxy's own is not for clients: " + text, answer.state in ("3B001", "26000"), answer)
    w.query("SET client_encoding = 'SJIS'")
    w.send(("Q", b"SELECT '\x83\\'; COMMIT; --'\0"))
    answer = pg.Answer(w.until("Z"))
    tap.check("an encoding that hides quotes is not served", answer.state == "42601", answer)
    tap.check("no text ends the server's transaction", proxy.tell("status").startswith("ok open") and server.sql("SELECT to_regclass('escaped') IS NULL") == "t",
              proxy.tell("status"))
    w.close()
    other.close()


def constraints(tap, proxy):
    w = proxy.wire()
    w.query("CREATE TABLE parent (a int PRIMARY KEY); CREATE TABLE child (a int REFERENCES parent DEFERRABLE INITIALLY DEFERRED)")
    a = w.query("INSERT INTO child VALUES (1)")
    tap.check("a deferred constraint is checked at the end of a statement outside transactions", a.state == "23503" and a.status == "I", a)
    tap.check("and the error is the only answer to that statement", a.tags == [], a)
    a = w.query("SELECT 1; INSERT INTO child VALUES (1); SELECT 2")
    tap.check("of several the last one has no answer", a.tags == ["SELECT 1", "INSERT 0 1"] and a.state == "23503", a)
    a = w.query("INSERT INTO child VALUES (1); SET TRANSACTION READ ONLY")
    tap.check("nor has one that the proxy carries out", a.tags == ["INSERT 0 1"] and a.state == "25006", a)
    w.query("BEGIN; SAVEPOINT s; INSERT INTO child VALUES (1); SET TRANSACTION READ ONLY")
    a = w.query("COMMIT")
    tap.check("READ ONLY of a savepoint ends with it before the check", a.state == "23503" and a.status == "I", a)
    w.query("BEGIN")
    a = w.query("INSERT INTO child VALUES (1)")
    b = w.query("COMMIT")
    tap.check("and at commit", a.tags == ["INSERT 0 1"] and b.state == "23503" and b.status == "I", a, b)
    w.query("BEGIN; INSERT INTO child VALUES (2); INSERT INTO parent VALUES (2)")
    a = w.query("COMMIT")
    tap.check("not before", a.tags == ["COMMIT"], a)
    a = w.run("INSERT INTO child VALUES (3)")
    tap.check("in the extended protocol too", a.state == "23503", a)
    w.query("BEGIN; CREATE TABLE late (a int REFERENCES parent DEFERRABLE INITIALLY DEFERRED); INSERT INTO late VALUES (78); INSERT INTO parent VALUES (78)")
    a = w.query("COMMIT")
    tap.check("a new one is deferred in the transaction that makes it", a.tags == ["COMMIT"], a)
    w.query("CREATE TABLE other (a int UNIQUE DEFERRABLE)")
    w.query("INSERT INTO other VALUES (1), (2)")
    w.query("BEGIN; SET CONSTRAINTS ALL DEFERRED; UPDATE other SET a = 3 - a; COMMIT")
    a = w.query("BEGIN; INSERT INTO other VALUES (1)")
    tap.check("what was deferred by a command is immediate in the next transaction", a.state == "23505", a)
    w.query("ROLLBACK")
    for end in ("RELEASE s; ROLLBACK", "COMMIT"):
        w.query("BEGIN; INSERT INTO child VALUES (1); SAVEPOINT s; SAVEPOINT s; SET CONSTRAINTS ALL DEFERRED")
        w.query("SET CONSTRAINTS ALL IMMEDIATE; " * (end != "COMMIT") + end)
        w.query("ROLLBACK")
        a = w.query("BEGIN; INSERT INTO child VALUES (1)")
        tap.check("SET CONSTRAINTS in a savepoint ends with the transaction that fails: " + end, not a.errors, a)
        w.query("ROLLBACK")
    w.query("ALTER TABLE child ALTER CONSTRAINT child_a_fkey DEFERRABLE INITIALLY IMMEDIATE")
    a = w.query("BEGIN; INSERT INTO child VALUES (77)")
    tap.check("a constraint that is no longer deferred is checked at once", a.state == "23503" and a.status == "E", a)
    w.query("ROLLBACK")
    w.query("DROP TABLE child, late")
    a = w.query("INSERT INTO parent VALUES (9)")
    tap.check("a constraint that is gone is no longer asked for", a.tags == ["INSERT 0 1"], a)
    w.close()


def chains(tap, w):
    """The block that AND CHAIN begins is read-only if the server would have it so."""
    for text, wanted in (("SET TRANSACTION READ ONLY; COMMIT AND CHAIN", "on"),
                         ("SET TRANSACTION READ ONLY; ROLLBACK AND CHAIN", "on"),
                         ("SAVEPOINT s; SET TRANSACTION READ ONLY; COMMIT AND CHAIN", "on"),
                         ("SAVEPOINT s; SAVEPOINT s; SET TRANSACTION READ ONLY; ROLLBACK AND CHAIN", "off"),
                         ("SET TRANSACTION READ ONLY; SAVEPOINT s; SELECT 1/0", "on"),
                         ("SET TRANSACTION READ ONLY; SELECT 1/0", "off"),
                         ("SET TRANSACTION READ ONLY; COMMIT AND CHAIN; SELECT 1/0; ", "on"),
                         ("SAVEPOINT s; SET TRANSACTION READ ONLY; ROLLBACK TO s; COMMIT AND CHAIN", "off")):
        w.query("BEGIN")
        w.query(text)
        a = w.query("COMMIT AND CHAIN; " * ("1/0" in text) + "SHOW transaction_read_only")
        tap.check("a chained block is read-only as on a server: " + text, a.rows == [[wanted]] and a.status == "T", a)
        w.query("ROLLBACK")


def read_only(tap, w):
    w.query("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    a, b, c = w.query("CREATE TABLE ro (a int)"), w.run("CREATE TABLE ro (a int)"), w.query("BEGIN; CREATE TABLE ro (a int)")
    tap.check("who is read-only by default is so in every transaction", a.state == b.state == c.state == "25006", a, b, c)
    w.query("ROLLBACK")
    a = w.query("BEGIN READ WRITE; CREATE TABLE ro (a int); ROLLBACK")
    tap.check("but not in one that says otherwise", not a.errors, a)
    w.query("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE")
    chains(tap, w)


def session(tap, proxy):
    w = proxy.wire(DateStyle="Postgres, DMY", application_name="one")
    w.query("SET DateStyle = 'German'")
    a, b = w.query("RESET DateStyle"), w.query("SHOW DateStyle")
    tap.check("reset leads back to what the client came with", a.tags == ["RESET"] and b.rows == [["Postgres, DMY"]], a, b)
    w.query("SET DateStyle = 'German'")
    a, b = w.run("RESET ALL"), w.query("SHOW DateStyle")
    tap.check("reset all too, by the extended protocol", a.tags == ["RESET"] and b.rows == [["Postgres, DMY"]], a, b)
    w.query("SET idle_in_transaction_session_timeout = 1")
    time.sleep(0.1)
    tap.check("a limit that would end the transaction of all has no effect", w.query("SHOW idle_in_transaction_session_timeout").rows == [["0"]])
    a = w.query("SET LOCAL work_mem = '1MB'")
    tap.check("set local outside a transaction warns and does nothing", a.warnings and a.warnings[0]["C"] == "25P01" and w.query("SHOW work_mem").rows == [["4MB"]], a)
    if "version=13" not in proxy.tell("status"):  # which does not report the setting
        read_only(tap, w)
    w.query("CREATE FUNCTION opens() RETURNS int LANGUAGE plpgsql AS $$DECLARE c1 CURSOR FOR SELECT 1; BEGIN OPEN c1; RETURN 1; END$$")
    a, b = w.query("SELECT opens()"), w.query("SELECT opens()")
    tap.check("a cursor that a function leaves open ends with the statement", a.rows == b.rows == [["1"]], a, b)
    w.query("CREATE TEMP TABLE mine (a int); DECLARE held CURSOR WITH HOLD FOR SELECT 1; SELECT pg_advisory_lock(7)")
    w.close()
    w = proxy.wire()
    a = w.query("SELECT (SELECT count(*) FROM pg_cursors), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'), to_regclass('mine') IS NULL")
    tap.check("what a session leaves behind goes with the last client", a.rows == [["0", "0", "t"]], a)
    w.query("BEGIN")
    w.query("DECLARE c CURSOR FOR SELECT generate_series(1, 3)")
    a = w.query("FETCH 2 FROM c")
    w.query("COMMIT")
    b = w.query("BEGIN; DECLARE c CURSOR FOR SELECT 1; COMMIT")
    tap.check("a cursor ends with its transaction", len(a.rows) == 2 and not b.errors, a, b)
    w.query("DECLARE h CURSOR WITH HOLD FOR SELECT 7")
    tap.check("one with hold does not", w.query("FETCH h").rows == [["7"]])
    w.query("CREATE TEMP TABLE tmp (a int)")
    w.query("SELECT pg_advisory_lock(1)")
    w.query("PREPARE x AS SELECT 1")
    w.query("SET work_mem = '9MB'")
    others = proxy.tell("status")
    a = w.query("DISCARD ALL")
    tap.check("discard all forgets what a session has", a.tags == ["DISCARD ALL"] and w.query("EXECUTE x").state == "26000" and w.query("SHOW work_mem").rows == [["4MB"]]
              and w.query("SELECT * FROM tmp").state == "42P01", a, others)
    w.query("BEGIN")
    tap.check("but not inside a transaction", w.query("DISCARD ALL").state == "25001")
    w.query("ROLLBACK")
    w.query("CREATE TABLE seq (a serial)")
    a, b = w.query("SELECT now()"), w.query("SELECT now()")
    tap.check("the time of the transaction is one for all", a.rows == b.rows)
    a = w.query("LISTEN x; NOTIFY x; UNLISTEN x")
    tap.check("listen and notify are accepted", a.tags == ["LISTEN", "NOTIFY", "UNLISTEN"], a)
    w.close()


def defaults(tap, proxy):
    w = proxy.wire(TimeZone="Asia/Tokyo", application_name="one", options="-c my.x=0")
    for text, name, value in (("SET TIME ZONE DEFAULT", "timezone", "Asia/Tokyo"),
                              ("SET TIME ZONE LOCAL", "timezone", "Asia/Tokyo"),
                              ("SET \"TimeZone\" TO DEFAULT", "timezone", "Asia/Tokyo"),
                              ("SET my.x = DEFAULT", "my.x", "0"),
                              ("BEGIN; SET LOCAL my.x TO DEFAULT", "my.x", "0"),
                              ("SET application_name TO DEFAULT", "application_name", "one")):
        w.query("SET timezone = 'UTC'; SET my.x = 5; SET application_name = 'two'")
        a, b = w.query(text), w.query("SHOW " + name)
        w.query("COMMIT")
        tap.check(text + " leads back to what the client came with", a.tags[-1:] == ["SET"] and b.rows == [[value]], a,
                  b)
    w.query("SET \"TimeZone\" = 'UTC'; SET timezone TO DEFAULT")
    proxy.sql("SELECT 1")
    tap.check("and stays there when another client was served", w.query("SHOW timezone").rows == [["Asia/Tokyo"]])
    tap.check("a default with something behind it is the server's to refuse",
              w.query("SET my.x TO DEFAULT, 1").state == "42601")
    w.close()


def identities(tap, proxy):
    """A role may not reset what another one has set."""
    w, other = proxy.wire(), proxy.wire()
    w.query("CREATE ROLE low; CREATE ROLE lower")
    me = "SELECT session_user, current_user"
    for text in ("SET log_statement = 'none'; SET ROLE low",
                 "SET log_statement = 'none'; SET SESSION AUTHORIZATION low",
                 "SET ROLE low; RESET ALL", "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; SET ROLE low",
                 "SET SESSION SESSION AUTHORIZATION low"):
        w.query(text)
        a, b, c = w.query(me), other.query(me), w.query(me)
        tap.check("each client is who it is after " + text, a.rows[0][1] == "low" and
                  b.rows == [["owner", "owner"]] and c.rows == a.rows, a, b, c)
        w.query("RESET SESSION AUTHORIZATION; RESET ROLE; RESET ALL")
    w.query("SET SESSION AUTHORIZATION owner; SET ROLE low")
    other.query("SET ROLE low; SET SESSION AUTHORIZATION owner")
    a, b, c = w.query(me), other.query(me), w.query(me)
    tap.check("who was set last counts", a.rows == c.rows == [["owner", "low"]] and b.rows == [["owner", "owner"]], a,
              b, c)
    w.query("DISCARD ALL")
    other.query("RESET SESSION AUTHORIZATION")
    tap.check("discard all ends the role", w.query(me).rows == [["owner", "owner"]])
    for text, user in (("SET LOCAL log_statement = 'none'; SET LOCAL ROLE low", "owner"),
                       ("SET LOCAL SESSION AUTHORIZATION low", "owner"),
                       ("SET ROLE lower; SAVEPOINT s; SET LOCAL ROLE none; SET LOCAL log_statement = 'none'", "lower")):
        a, b = w.query("BEGIN; %s; COMMIT" % text), w.query("SELECT current_user")
        tap.check("a block with %s is committed" % text, a.tags[-1:] == ["COMMIT"] and b.rows == [[user]], a, b)
        w.query("RESET ROLE")
    other.close()
    w.query("SET log_statement = 'none'; SET ROLE low")
    answers = [proxy.tell(command) for command in ("hold 1000", "check", "resume")]
    tap.check("a commit does not depend on the role of the latest client",
              [answer.split()[0] for answer in answers] == ["ok"] * 3, answers)
    w.close()


def short_limits(tap, server, program, place):
    """A limit of time that a client has set counts for questions in its transaction, too, until
    they have taken it away."""
    proxy = pg.Proxy(server, program, place)
    other, w = proxy.wire(), proxy.wire()
    other.query("CREATE TABLE kept (a int)")
    w.query("BEGIN; SET statement_timeout = 2")
    with pg.Slow(int(proxy.tell("status").split("pid=")[1].split()[0])):
        asked = [proxy.tell("inspect") for _ in range(150)]
    a, b, c = w.query("SELECT 1"), w.query("ROLLBACK"), other.query("SELECT count(*) FROM kept")
    status = proxy.tell("status")
    tap.check("a question on a slow server never costs the transaction of all", status.startswith("ok open") and
              c.rows == [["0"]], status, asked[-1], c)
    tap.check("the client goes on, or gets the error that its own transaction has failed",
              (a.rows == [["1"]] or a.state in ("25P02", "57014")) and b.tags == ["ROLLBACK"], a, b)
    w.close()
    other.close()
    proxy.close()


def tools(tap, proxy, server):
    done = proxy.psql("\\set ON_ERROR_STOP 1\nCREATE TABLE p AS SELECT g AS a, 'text ' || g AS b FROM generate_series(1, 1000) g;\n\\copy p TO '/dev/null'\n\\d p\nBEGIN;\nDELETE FROM p;\nROLLBACK;\nSELECT count(*) FROM p;\n")
    tap.check("psql works", done.returncode == 0 and "1000" in done.stdout, done.stderr)
    dump = server.run(["pg_dump", "-t", "p"], environment=proxy.environment())
    tap.check("pg_dump sees what is in the sandbox", dump.returncode == 0 and dump.stdout.count("\ttext ") == 1000, dump.stderr)
    proxy.sql("ALTER TABLE p RENAME TO p_old")
    load = proxy.psql(dump.stdout, "-v", "ON_ERROR_STOP=1")
    tap.check("and can be loaded again", load.returncode == 0 and proxy.sql("SELECT count(*) FROM p") == "1000", load.stderr)
    done = server.run(["pgbench", "-i", "-q", "-s", "1", "-I", "dtgp"], environment=proxy.environment())
    tap.check("pgbench makes its tables", done.returncode == 0, done.stderr)
    for mode in ("simple", "extended", "prepared"):
        done = server.run(["pgbench", "-n", "-M", mode, "-c", "3", "-j", "3", "-t", "20"], environment=proxy.environment())
        tap.check("pgbench runs with three clients: " + mode, done.returncode == 0 and "60/60" in done.stdout, done.stdout, done.stderr)
    tap.check("its sums agree", proxy.sql("SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(delta) FROM pgbench_history)") == "t")


def loss(tap, server, program, place):
    proxy = pg.Proxy(server, program, place)
    a, b = proxy.wire(), proxy.wire()
    a.query("CREATE TABLE gone (a int)")
    pid = proxy.tell("status").split("pid=")[1].split()[0]
    server.sql("SELECT pg_terminate_backend(%s)" % pid)
    got = pg.Answer(b.until("Z"))
    tap.check("a killed connection is told to every client", got.state == "57P01" and "administrator" in got.errors[0]["D"] and got.kinds == "Eclosed", got)
    status = proxy.tell("status")
    tap.check("and is a state of its own", " lost " in status and "administrator" in status, status)
    w = proxy.wire()
    tap.check("also to those who come later", pg.Answer(w.hello).state == "57P01", w.hello)
    tap.check("nothing can be committed then", proxy.tell("hold 0").startswith("error state"), proxy.tell("hold 0"))
    for one in (a, b, w):
        one.close()
    proxy.close()
    proxy = pg.Proxy(server, program, place)
    a = proxy.wire()
    a.send(("Q", b"SELECT pg_sleep(20)\0"))
    time.sleep(0.1)
    server.stop("immediate")
    got = pg.Answer(a.until("Z"))
    tap.check("a server that goes down in the middle of a statement likewise", got.state == "57P01" and " lost " in proxy.tell("status"), got)
    a.close()
    proxy.close()
    server.start()


def ends(tap, server, program, place):
    def said(*argv):
        return server.run([program, *argv]).stdout.strip()

    proxy = pg.Proxy(server, program, place, wait_ms=500)
    a = proxy.wire(application_name="busy one")
    a.query("CREATE TABLE landed (a int); INSERT INTO landed VALUES (1)")
    inspection = proxy.tell("inspect")
    tap.check("what was written and what is locked is known", "xid=0" not in inspection and "public.landed:AccessExclusiveLock" in inspection, inspection)
    a.query("BEGIN")
    tap.check("it cannot be held while somebody is in a transaction", proxy.tell("hold 50").startswith("error busy") and "busy one" in proxy.tell("hold 0"))
    a.query("INSERT INTO landed VALUES (2)")
    a.query("COMMIT")
    tap.check("it can afterwards", proxy.tell("hold 50") == "ok")
    a.send(("Q", b"SELECT count(*) FROM landed\0"))
    tap.check("constraints are checked", proxy.tell("check") == "ok")
    marker = proxy.tell("mark " + UUID).split()[1:]
    tap.check("a marker is made", len(marker) == 5, marker)
    tap.check("as long as it is open the outcome is in doubt", said("outcome", server.conninfo, *marker).startswith("error in-doubt") or
              "in doubt" in said("outcome", server.conninfo, *marker), said("outcome", server.conninfo, *marker))
    tap.check("commit", proxy.tell("commit") == "ok" and server.sql("SELECT count(*) FROM landed") == "2", proxy.tell("status"))
    tap.check("the outcome is committed", said("outcome", server.conninfo, *marker) == "committed")
    other = [*marker[:2], "12345", *marker[3:]]
    tap.check("another server's marker is recognised by its content, and missing it proves nothing there",
              said("outcome", server.conninfo, "99999", *other[1:]).startswith("error"), said("outcome", server.conninfo, "99999", *other[1:]))
    tap.check("a marker is forgotten, twice", said("forget", server.conninfo, *marker) == "ok" and said("forget", server.conninfo, *marker) == "ok"
              and server.sql("SELECT count(*) FROM pg_largeobject_metadata") == "0")
    tap.check("the next transaction begins with the same clients", proxy.tell("begin") == "ok" and pg.Answer(a.until("Z")).rows == [["2"]])
    a.query("INSERT INTO landed VALUES (3)")
    a.query("BEGIN; INSERT INTO landed VALUES (4)")
    said_force, got = proxy.tell("force"), pg.Answer(a.until("Z"))
    tap.check("force ends a client's transaction", said_force == "ok" and got.state == "57P01", said_force, got)
    marker = proxy.tell("mark " + UUID).split()[1:]
    text = proxy.tell("rollback")
    tap.check("rollback", text == "ok" and server.sql("SELECT count(*) FROM landed") == "2", text, marker)
    tap.check("the outcome is not committed", said("outcome", server.conninfo, *marker) == "not committed", said("outcome", server.conninfo, *marker))
    other = [*marker[:3], str(int(marker[3]) + 1), marker[4]]
    tap.check("after a restore or promotion of the server, a missing marker proves nothing", int(marker[3]) > 0 and
              "the server was restored or promoted since" in said("outcome", server.conninfo, *other), said("outcome", server.conninfo, *other))
    proxy.tell("begin")
    a.close()
    a = proxy.wire()
    a.query("INSERT INTO landed VALUES (5)")
    proxy.tell("hold 100")
    tap.check("prepare", proxy.tell("prepare atoll-1") == "ok" and said("find", server.conninfo, "atoll-1") == "found", proxy.tell("status"))
    tap.check("a prepared transaction is committed, and only once", said("commit-prepared", server.conninfo, "atoll-1") == "found"
              and said("commit-prepared", server.conninfo, "atoll-1") == "not found" and server.sql("SELECT count(*) FROM landed") == "3")
    proxy.tell("begin")
    a.query("CREATE TABLE d (a int UNIQUE DEFERRABLE INITIALLY DEFERRED); INSERT INTO landed VALUES (6)")
    a.query("SELECT 1")
    proxy.tell("hold 100")
    tap.check("rollback of a prepared one", proxy.tell("prepare atoll-2") == "ok" and said("rollback-prepared", server.conninfo, "atoll-2") == "found"
              and server.sql("SELECT count(*) FROM landed") == "3")
    proxy.tell("begin")
    pid = proxy.tell("status").split("pid=")[1].split()[0]
    a.query("INSERT INTO landed VALUES (7)")
    proxy.tell("hold 100")
    marker = proxy.tell("mark " + UUID).split()[1:]
    server.sql("SELECT pg_terminate_backend(%s)" % pid)
    pg.wait_until(lambda: server.sql("SELECT count(*) FROM pg_stat_activity WHERE pid = %s" % pid) == "0")
    tap.check("a connection lost before commit is in doubt for the proxy", proxy.tell("commit").startswith("error"), proxy.tell("status"))
    tap.check("and not for the server", said("outcome", server.conninfo, *marker) == "not committed")
    a.close()
    proxy.close()


def crashes(tap, server, program, place):
    """Killed while it commits, or the server is: the outcome that is told afterwards is what really is there."""
    def outcome(marker):
        said = ""
        for _ in range(200):
            said = server.run([program, "outcome", server.conninfo, *marker]).stdout.strip()
            if not said.startswith("error"):
                break
            time.sleep(0.05)
        return said

    server.sql("CREATE TABLE crash (a int)")
    wrong, told = [], {"committed": 0, "not committed": 0}
    rounds = 200 if t.TORTURE else 14
    for i in range(rounds):
        proxy = pg.Proxy(server, program, place)
        proxy.sql("INSERT INTO crash SELECT %d FROM generate_series(1, 300)" % i)
        proxy.tell("hold 1000")
        marker = proxy.tell("mark " + UUID).split()[1:]
        server_dies = i % 7 == 3
        if i % 4:
            proxy.process.stdin.write("commit\n")
            proxy.process.stdin.flush()
            time.sleep(random.random() * 0.004)
        if server_dies:
            server.stop("immediate")
        proxy.process.kill()
        proxy.process.wait()
        proxy.process.stdin.close()
        proxy.process.stdout.close()
        if server_dies:
            server.start()
        said = outcome(marker)
        there = server.sql("SELECT count(*) FROM crash WHERE a = %d" % i)
        told[said] = told.get(said, 0) + 1
        if (said, there) not in (("committed", "300"), ("not committed", "0")):
            wrong.append((i, said, there))
        server.run([program, "forget", server.conninfo, *marker])
    tap.check("killed while it commits, or with the server killed, the outcome told is the one that is there", not wrong, wrong, told)
    tap.check("both outcomes were among them", told["committed"] > 0 and told["not committed"] > 0, told)
    tap.check("no marker is left", server.sql("SELECT count(*) FROM pg_largeobject_metadata") == "0")


def bad_servers(tap, server, program, place):
    def refused(conninfo, *more):
        return server.run([program, "serve", place.root, conninfo, *more], input="").stdout.strip()

    text = refused("host=/nowhere dbname=x")
    tap.check("an unreachable server is one clear line", text.startswith("error failed: cannot connect to the database:") and "\n" not in text, text)
    text = refused(server.conninfo.replace("dbname=shop", "dbname=none"))
    tap.check("so is a database that is not there", '"none" does not exist' in text, text)
    text = refused("postgresql://u:secret@[bad")
    tap.check("a malformed connection string is not repeated", "malformed" in text and "secret" not in text, text)
    text = refused("host=/nowhere user=x password=secret dbname=x")
    tap.check("a password is in no message", "secret" not in text, text)
    text = refused(server.conninfo, "0", "0", "chaos")
    tap.check("an unknown isolation level is refused", "chaos" in text and text.startswith("error invalid"), text)
    text = server.run([program, "probe", server.conninfo]).stdout
    tap.check("a probe tells what matters", "database=shop role=owner" in text and "prepared=5" in text and "read_only=0" in text, text)
    server.sql("CREATE ROLE plain LOGIN")
    server.sql("GRANT CREATE ON SCHEMA public TO plain")
    conninfo = server.conninfo.replace("user=owner", "user=plain")
    proxy = pg.Proxy(server, program, place, conninfo=conninfo, isolation="repeatable read")
    w = proxy.wire()
    w.query("CREATE TABLE by_plain (a int)")
    proxy.tell("hold 100")
    marker = proxy.tell("mark " + UUID).split()[1:]
    tap.check("an unprivileged role can mark and commit", len(marker) == 5 and proxy.tell("commit") == "ok", marker)
    text = server.run([program, "outcome", conninfo, *marker]).stdout.strip()
    tap.check("and ask", text == "committed", text)
    server.run([program, "forget", conninfo, *marker])
    w.close()
    proxy.close()


def used(process):
    """Seconds that it has run on a processor."""
    with open("/proc/%d/schedstat" % process.pid, encoding="ascii") as file:
        return int(file.read().split()[0]) / 1e9


def quiet(tap, proxy):
    """Looking for what is likely to come ends soon where it does not come."""
    w = proxy.wire()
    w.query("BEGIN")
    for _ in range(50):
        w.query("SELECT 1")
    before = used(proxy.process)
    time.sleep(0.5)
    tap.check("a client that thinks inside a transaction costs nothing", used(proxy.process) - before < 0.05, used(proxy.process) - before)
    before = used(proxy.process)
    w.query("SELECT pg_sleep(0.5)")
    tap.check("nor does a long statement", used(proxy.process) - before < 0.05, used(proxy.process) - before)
    before = used(proxy.process)
    for _ in range(200):
        w.query("SELECT pg_sleep(0.001)")
    tap.check("nor do many that take longer than is looked for", used(proxy.process) - before < 0.1, used(proxy.process) - before)
    w.query("ROLLBACK")
    w.close()


def main(place, tap):
    program = place.helper("tests/pg/proxy-server")
    if not pg.binaries():
        tap.check("PostgreSQL is installed", False, "scripts/install-deps test brings it")
        return
    server = pg.Server(place)
    try:
        proxy = pg.Proxy(server, program, place, wait_ms=400, message_max=1000000)
        for part in (lambda: simple(tap, proxy, server), lambda: blocks(tap, proxy), lambda: extended(tap, proxy), lambda: states(tap, proxy),
                     lambda: query_in_a_pipeline(tap, proxy), lambda: names_in_a_pipeline(tap, proxy),
                     lambda: skipped(tap, proxy), lambda: unnamed(tap, proxy, server),
                     lambda: two_clients(tap, proxy),
                     lambda: cancel(tap, proxy), lambda: copies(tap, proxy), lambda: garbage(tap, proxy), lambda: constraints(tap, proxy),
                     lambda: session(tap, proxy), lambda: defaults(tap, proxy), lambda: identities(tap, proxy),
                     lambda: quiet(tap, proxy), lambda: tools(tap, proxy, server), lambda: escapes(tap, proxy, server)):
            part()
        tap.check("the transaction was never lost", proxy.tell("status").startswith("ok open"), proxy.tell("status"))
        last = proxy.wire()
        ended = proxy.close()
        tap.check("the proxy ends with its input", ended == 0, ended)
        tap.check("and tells its clients", pg.Answer(last.until("Z")).state == "57P01")
        last.close()
        tap.check("and leaves nothing in the database", server.sql("SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace") == "0")
        hidden_limits(tap, server, program, place)
        short_limits(tap, server, program, place)
        storm(tap, server, program, place)
        ends(tap, server, program, place)
        bad_servers(tap, server, program, place)
        crashes(tap, server, program, place)
        loss(tap, server, program, place)
    finally:
        server.stop()


if __name__ == "__main__":
    t.run(main)
