# SPDX-License-Identifier: Apache-2.0
"""Random sequences of statements, sent to a PostgreSQL server directly and through the proxy: both must answer the same.

A sequence is a list of steps. A step is one client's unit: a query string, or messages of the extended protocol that end in Sync. A client
that is inside a transaction keeps the turn until it has ended it, because the proxy lets one client at a time into a transaction. The
generator avoids what docs/strategies/postgresql.md names as different from a server of one's own.
"""
import random
import socket
import struct

import pgtest as pg

TABLES = "CREATE TABLE f (id int PRIMARY KEY, v text); CREATE TABLE d (id int REFERENCES f DEFERRABLE INITIALLY DEFERRED)"
CLEAN = "DELETE FROM d; DELETE FROM f; DROP TABLE IF EXISTS x"
NAMES = ("a", "b", '"A"')
SETTINGS = ("work_mem", "my.v", "application_name", "search_path", "extra_float_digits", "standard_conforming_strings",
            "log_statement")
VALUES = {"work_mem": ("'1MB'", "'2MB'", "4096"), "my.v": ("'x'", "'y'", "z", "DEFAULT"),
          "application_name": ("'one'", "two", "DEFAULT"),
          "log_statement": ("'none'",),  # a superuser's
          "search_path": ("public", "pg_catalog, public", "'public'"), "extra_float_digits": ("0", "2"), "standard_conforming_strings": ("on",)}
TIMEOUT = 5
NEWCOMER = 9  # a client that connects when all is over: nothing of the others may be left for it
LIMITS = ("idle_in_transaction_session_timeout", "idle_session_timeout", "transaction_timeout")


def setting(r):
    key = r.choice(SETTINGS)
    return key, r.choice(VALUES[key])


def transaction(r):
    name = r.choice(NAMES)
    return r.choices((
        "BEGIN", "START TRANSACTION", "BEGIN READ ONLY", "COMMIT", "END", "ROLLBACK", "ABORT", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN",
        "SAVEPOINT " + name, "ROLLBACK TO " + name, "ROLLBACK TO SAVEPOINT " + name, "RELEASE " + name,
        "SET TRANSACTION READ ONLY", "COMMIT nonsense"), (14, 2, 1, 8, 2, 5, 1, 1, 1, 12, 14, 3, 5, 0.5, 0.5))[0]


def session(r, versions):
    key, value = setting(r)
    limits = [name for name in LIMITS if name in versions]
    return r.choice((
        "SET %s = %s" % (key, value), "SET LOCAL %s = %s" % (key, value), "SET SESSION %s TO %s" % (key, value), "SHOW " + key, "RESET " + key,
        "RESET ALL", "SELECT set_config('my.v', '%d', %s)" % (r.randrange(3), r.choice(("true", "false"))), "DEALLOCATE ALL",
        "DISCARD PLANS", "SET %s = '1h'" % r.choice(limits), "SET LOCAL %s = '1h'" % r.choice(limits), "RESET " + r.choice(limits),
        "PREPARE q AS SELECT id FROM f ORDER BY id", "EXECUTE q", "DEALLOCATE q", "DEALLOCATE PREPARE s1", "PREPARE s1 AS SELECT 7",
        "SET CONSTRAINTS ALL IMMEDIATE", "SET CONSTRAINTS ALL DEFERRED", "DISCARD ALL", "SET ROLE low",
        "SET LOCAL ROLE low", "RESET ROLE",
        "SET SESSION AUTHORIZATION low", "SET LOCAL SESSION AUTHORIZATION low", "RESET SESSION AUTHORIZATION",
        "SET SESSION TRANSACTION READ ONLY"))


def plain(r):
    number = r.randrange(6)
    return r.choice((
        "INSERT INTO f VALUES (%d, 'v')" % number, "INSERT INTO f VALUES (%d, 'w') ON CONFLICT DO NOTHING" % number,
        "INSERT INTO d VALUES (%d)" % number, "DELETE FROM f WHERE id = %d" % number, "DELETE FROM d", "UPDATE f SET v = v || 'u' WHERE id < %d" % number,
        "SELECT id, v FROM f ORDER BY id", "SELECT count(*) FROM d", "SELECT 1/0", "SELECT * FROM nowhere", "SELECT 'a;b', $$;commit;$$", "TABLE f ORDER BY 1",
        "CREATE TABLE x (a int)", "DROP TABLE x", "INSERT INTO x VALUES (%d)" % number, "SELECT generate_series(1, 3)",
        "DO $$ BEGIN INSERT INTO f VALUES (%d, 'do'); END $$" % number, "TRUNCATE d", "/* c */ SELECT 2", ""))


def cursor(r):
    return r.choice(("DECLARE c CURSOR FOR SELECT generate_series(1, 4)", "FETCH 2 FROM c", "CLOSE c", "LOCK TABLE f IN SHARE MODE", "MOVE 1 FROM c"))


def statement(r, versions):
    kind = r.choices((transaction, plain, lambda r: session(r, versions), cursor), (10, 10, 5, 1))[0]
    return kind(r)


def query(r, versions):
    """A syntax error is found by the server before it carries out anything of a string, and by the proxy when it comes to it: alone only."""
    if r.random() < 0.03:
        return [("Q", r.choice((b"SELEC 1\0", b"BEGINN\0", b"SAVEPOINT\0", b"ROLLBACK TO\0")))]
    texts = [statement(r, versions) for _ in range(r.choice((1, 1, 1, 2, 2, 3, 4)))]
    if len(texts) > 1:
        texts = [text for text in texts if text and "nonsense" not in text] or ["SELECT 1"]
    return [("Q", ";".join(texts).encode() + b"\0")]


def copied(r):
    """What a client sends behind COPY … FROM STDIN; also where the server does not want it."""
    rows = [("d", r.choice((b"%d\tcopied\n" % r.randrange(6), b"junk\n", b""))) for _ in range(r.randrange(3))]
    return rows + [r.choice((("c", b""), ("c", b""), ("f", b"no\0")))]


def copy(r):
    """By the extended protocol, under a name that nothing else executes, or as a part of a query string."""
    if r.random() < 0.5:
        name = ("C", b"Sk\0")
        return [name, pg.parse_message("COPY f FROM STDIN", "k"), pg.bind_message((), "k"),
                ("E", b"\0" + struct.pack("!i", 0))] + copied(r) + [name, ("S", b"")]
    before = r.choice(("", "BEGIN;", "SAVEPOINT a;", "INSERT INTO f VALUES (3, 'x');", "SELECT 1/0;", "ROLLBACK TO a;"))
    after = r.choice(("", ";COMMIT", ";SELECT 1/0", ";ROLLBACK", ";COPY f TO STDOUT"))
    return [("Q", (before + "COPY f FROM STDIN" + after).encode() + b"\0")] + copied(r)


def extended(r, versions):
    """Parse, Bind, Execute of one to six statements, by names or without, with a Sync after some of them."""
    messages = []
    for _ in range(r.choice((1, 1, 2, 3, 4, 6))):
        name = r.choice(("", "", "", "s1", "s2"))
        portal = r.choice(("", "", "", "p1"))
        if r.random() < 0.85:
            if name and r.random() < 0.7:
                messages.append(("C", b"S" + name.encode() + b"\0"))
            text = statement(r, versions).replace("DISCARD ALL", "DISCARD PLANS") or "SELECT 3"  # versions differ in a pipeline, also behind nothing
            messages.append(pg.parse_message(text, name))
        if r.random() < 0.1:
            messages.append(("D", b"S" + name.encode() + b"\0"))
        if portal and r.random() < 0.7:
            messages.append(("C", b"P" + portal.encode() + b"\0"))
        messages.append(pg.bind_message((), name, portal))
        if r.random() < 0.2:
            messages.append(("D", b"P" + portal.encode() + b"\0"))
        messages.append(("E", portal.encode() + b"\0" + struct.pack("!i", r.choice((0, 0, 0, 1)))))
        if r.random() < 0.15:
            messages.append(("H", b""))
        if r.random() < 0.3:
            messages.append(("S", b""))
    return messages + [("S", b"")] if messages[-1][0] != "S" else messages


def sequence(seed, versions):
    r = random.Random(seed)
    clients = r.choice((1, 1, 2, 3))
    steps = []
    for _ in range(r.randrange(3, 11)):
        unit = r.choices((lambda: query(r, versions), lambda: extended(r, versions), lambda: copy(r)), (9, 11, 1))[0]()
        cut = r.randrange(1, len(unit)) if len(unit) > 2 and r.random() < 0.2 else 0
        steps.append((r.randrange(clients), unit, cut))
    return steps


FINAL = """SELECT session_user, current_user; SHOW work_mem; SELECT current_setting('my.v', true); SHOW application_name; SHOW search_path; SHOW extra_float_digits;
SELECT 'rows', id, v FROM f ORDER BY id; SELECT 'refs', id FROM d ORDER BY id; SELECT to_regclass('x')"""
NAMES_LEFT = [message for name in (b"s1", b"s2", b"q") for message in (("D", b"S" + name + b"\0"), ("S", b""))]


def describe(message):
    """What of a message must be the same."""
    kind, body = message
    if kind == "E":
        fields = pg.fields(body)
        return "error %s %s" % (fields["C"], fields["M"])
    if kind == "N":
        return "notice " + pg.fields(body)["C"]
    if kind in ("C", "Z"):
        return "%s %s" % (kind, body.rstrip(b"\0").decode())
    if kind == "D":
        return "row %s" % pg.row(body)
    return kind


def compared(messages):
    """Without what is documented as different: parameters come when they change; in a failed transaction an unnamed
    statement may not be there to be described; the words about malformed transaction commands and transaction blocks,
    which versions change."""
    result = []
    for message in messages:
        if message[0] in ("S", "N"):
            continue
        text = describe(message)
        if text.startswith("error 25P02"):
            while result and result[-1] in ("t", "T", "n", "3"):
                result.pop()
        if text.startswith(("error 42601", "error 25001")):
            text = text[:len("error 42601")]
        result.append(text)
    return result


class Side:
    """The connections to one of the two. reused: those to the server itself are made fresh by DISCARD ALL and not made
    anew, because starting their processes took most of the time."""

    def __init__(self, directory, port, reused):
        self.directory, self.port, self.reused = directory, port, reused
        self.clients = {}

    def wire(self, client):
        if client not in self.clients:
            self.clients[client] = pg.Wire(self.directory, port=self.port, timeout=TIMEOUT, application_name="fuzz", options="-c my.v=0")
        return self.clients[client]

    def send(self, client, unit, cut):
        wire = self.wire(client)
        if cut:
            wire.send(*unit[:cut])
        wire.send(*unit[cut:])

    def receive(self, client, unit):
        wire, messages = self.clients[client], []
        try:
            for _ in range(sum(kind in "QS" for kind, _ in unit)):
                messages += wire.until("Z")
        except socket.timeout:
            messages.append(("timeout", b""))
        return messages

    def close(self):
        for client in self.clients.values():
            client.close()
        self.clients = {}

    def refresh(self):
        """Clients that connect for the first time, or that cannot be told from them."""
        if not self.reused:
            self.close()
        for wire in self.clients.values():
            wire.send(("Q", b"ROLLBACK\0"), ("Q", b"DISCARD ALL\0"))
        for wire in self.clients.values():
            answer = pg.Answer(wire.until("Z") + wire.until("Z"))
            if answer.tags != ["ROLLBACK", "DISCARD ALL"]:
                raise RuntimeError("a connection cannot be made fresh: %s" % answer)


def ask(sides, client, unit, cut):
    """The answers of both sides, which work at the same time."""
    for side in sides:
        side.send(client, unit, cut)
    return [side.receive(client, unit) for side in sides]


def play(sides, steps):
    """None, or what is different and where."""
    owner, status = 0, "I"
    for side in sides:
        side.refresh()
    ask(sides, 0, [("Q", CLEAN.encode() + b"\0")], 0)
    everyone = sorted({step[0] for step in steps}) + [NEWCOMER]
    ends = [(client, [("Q", b"ROLLBACK\0"), ("Q", FINAL.encode() + b"\0")] + NAMES_LEFT, 0) for client in everyone]
    for number, (client, unit, cut) in enumerate(steps + [(-1, [("Q", b"ROLLBACK\0")], 0)] + ends):
        client = owner if status != "I" or client < 0 else client
        answers = ask(sides, client, unit, cut)
        first, second = (compared(messages) for messages in answers)
        if first != second:
            return "step %d, client %d, %s\n  direct:  %s\n  proxied: %s" % (number, client, unit, first, second)
        owner, status = client, answers[0][-1][1].decode()
    return None


def ends_server(steps):
    """PostgreSQL itself dies by SIGSEGV (seen with 13.23, 15.18 and 18.4, without the proxy) when a
    client parses a FETCH while its cursor is open, and describes it after the cursor is closed and
    the server has discarded its plan."""
    return any(kind == "P" and b"FETCH" in body for _, unit, _ in steps for kind, body in unit)


class Fuzzer:
    """The two sides have a database each, with the same tables: what one side commits, the other must not see."""

    def __init__(self, server, program, place):
        self.server = server
        server.sql("CREATE DATABASE proxied")
        server.sql("CREATE ROLE low")
        for database in ("shop", "proxied"):
            server.sql(TABLES + "; GRANT ALL ON f, d TO low", environment={"PGDATABASE": database})
        self.proxy = proxy = pg.Proxy(server, program, place, wait_ms=2000, conninfo=server.conninfo.replace("dbname=shop", "dbname=proxied"))
        self.limits = server.sql("SELECT string_agg(name, ' ') FROM pg_settings WHERE name IN ('%s')" % "', '".join(LIMITS)).split()
        self.sides = [Side(server.home, pg.PORT, True), Side(proxy.dir, 5432, False)]
        self.renew()

    def renew(self):
        """The proxy's transaction would grow for ever. What it does to the tables is rolled back; the direct side commits."""
        for side in self.sides:
            side.close()
        self.server.sql(CLEAN)
        for command in ("hold 5000", "rollback", "begin"):
            answer = self.proxy.tell(command)
            if not answer.startswith("ok"):
                raise RuntimeError("%s: %s" % (command, answer))

    def one(self, seed):
        steps = sequence(seed, self.limits)
        return None if ends_server(steps) else play(self.sides, steps)

    def unlimited(self):
        wire = self.sides[1].wire(0)
        return all(wire.query("SHOW " + name).rows == [["0"]] for name in self.limits)

    def differ(self, steps):
        """As play(); what a difference leaves behind must not be found again by the next one."""
        difference = play(self.sides, steps)
        if difference:
            self.renew()
        return difference

    def shrunk(self, steps):
        """Fewer steps and messages that still differ."""
        again = True
        while again:
            again = False
            for i, (client, unit, _) in enumerate(steps):
                fewer = [steps[:i] + steps[i + 1:]]
                fewer += [steps[:i] + [(client, unit[:k] + unit[k + 1:], 0)] + steps[i + 1:] for k in range(len(unit) - 1) if unit[k][0] != "B"]
                found = next((some for some in fewer if some and self.differ(some)), None)
                if found:
                    steps, again = found, True
                    break
        return steps

    def explain(self, seed, difference):
        self.renew()
        steps = self.shrunk(sequence(seed, self.limits))
        lines = ["seed %d: %s" % (seed, difference), "reduced to:"]
        return "\n".join(lines + ["  client %d: %s" % (client, unit) for client, unit, _ in steps] + [str(self.differ(steps))])
