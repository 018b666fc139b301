# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server, the proxy in front of it, and a client that speaks the protocol byte by byte."""
import glob
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

PORT = 54329


def binaries():
    """The newest installed version's programs."""
    found = glob.glob("/usr/lib/postgresql/*/bin/initdb")
    found.sort(key=lambda path: int(re.search(r"/(\d+)/bin", path).group(1)))
    if found:
        return os.path.dirname(found[-1])
    initdb = shutil.which("initdb")
    return os.path.dirname(initdb) if initdb else None


FURTHER = ("13", "18")  # major versions that scripts/install-deps brings besides the machine's own
CACHE = "/var/cache/atoll-tests"


def further():
    """Major version and programs of each of them; None: it could not be fetched."""
    for major in FURTHER:
        path = os.path.join(CACHE, "postgresql-%s" % major, "bin")
        yield major, path if os.access(os.path.join(path, "postgres"), os.X_OK) else None


class Server:
    """PostgreSQL in a directory of its own, run by an ordinary user who has a name: the server wants one."""

    def __init__(self, place, options=(), home=None, programs=None):
        self.bin = programs or binaries()
        self.identity = {}
        self.home = home or place.fresh("pg")
        if os.geteuid() == 0:
            names = [entry.pw_name for entry in pwd.getpwall()]
            user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
            self.identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(self.home, user.pw_uid, user.pw_gid)
        self.data = os.path.join(self.home, "data")
        self.options = ("listen_addresses=''", "unix_socket_directories='%s'" % self.home, "fsync=off", "port=%d" % PORT,
                        "max_prepared_transactions=5", "shared_buffers=16MB", *options)
        self.environment = {"PATH": self.bin + ":/usr/bin:/bin", "HOME": self.home, "LC_ALL": "C", "PGUSER": "owner",
                            "PGHOST": self.home, "PGPORT": str(PORT), "PGDATABASE": "shop"}
        self.run(["initdb", "-D", self.data, "-U", "owner", "-A", "trust", "-E", "UTF8", "--wal-segsize=1", "--no-sync"], check=True)
        with open(os.path.join(self.data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.write("\n".join(self.options) + "\n")
        self.start()
        self.run(["createdb", "shop"], check=True)
        self.conninfo = "host=%s port=%d user=owner dbname=shop" % (self.home, PORT)

    def run(self, argv, check=False, timeout=60, environment=None, **more):
        return subprocess.run(argv, cwd=self.home, env={**self.environment, **(environment or {})}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, errors="replace", timeout=timeout, check=check, **self.identity, **more)

    def start(self):
        # Its output must not hold a pipe of ours open: the server lives on after pg_ctl.
        with open(os.path.join(self.home, "start.log"), "w", encoding="utf-8") as log:
            done = subprocess.run(["pg_ctl", "-D", self.data, "-l", os.path.join(self.home, "log"), "-w", "start"], cwd=self.home,
                                  env=self.environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, **self.identity)
        if done.returncode != 0:
            with open(os.path.join(self.home, "log"), encoding="utf-8", errors="replace") as log:
                raise RuntimeError("the server does not start: " + log.read()[-1000:])

    def stop(self, mode="immediate"):
        self.run(["pg_ctl", "-D", self.data, "-m", mode, "-w", "stop"])

    def kill(self):
        """All of its processes at once, by SIGKILL: nobody says goodbye, and nothing is written any more."""
        with open(os.path.join(self.data, "postmaster.pid"), encoding="ascii") as file:
            main = int(file.readline())
        os.kill(main, signal.SIGSTOP)  # it starts nobody anew meanwhile
        with open("/proc/%d/task/%d/children" % (main, main), encoding="ascii") as file:
            pids = [int(word) for word in file.read().split()] + [main]
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        if not wait_until(lambda: not any(os.path.exists("/proc/%d" % pid) for pid in pids)):
            raise RuntimeError("a killed server lives on")

    def sql(self, text, **more):
        """By a connection of its own, beside the proxy: what everybody else sees."""
        done = self.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text], **more)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout.strip()


class Proxy:
    def __init__(self, server, program, place, wait_ms=2000, message_max=0, isolation=None, conninfo=None):
        self.server, self.dir, self.program = server, place.fresh("socket"), program
        if server.identity:
            os.chown(self.dir, server.identity["user"], server.identity["group"])
        argv = [program, "serve", self.dir, conninfo or server.conninfo, str(wait_ms), str(message_max)]
        self.process = subprocess.Popen(argv + ([isolation] if isolation else []), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=server.environment, cwd=server.home, **server.identity)
        self.greeting = self.process.stdout.readline().strip()

    def tell(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def environment(self):
        return {"PGHOST": self.dir, "PGPORT": "5432"}

    def psql(self, text, *options, **more):
        return self.server.run(["psql", "-X", *options], input=text, environment=self.environment(), **more)

    def sql(self, text):
        done = self.server.run(["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", text], environment=self.environment())
        return done.stdout.strip() if done.returncode == 0 else "FAILED " + done.stderr.strip()

    def wire(self, **parameters):
        return Wire(self.dir, **parameters)

    def close(self):
        self.process.stdin.close()
        try:
            code = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        return code


class Wire:
    """The protocol by hand. Every message that came is (type, body)."""

    def __init__(self, directory, startup=True, timeout=10, port=5432, **parameters):
        self.directory, self.port = directory, port
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout)
        self.socket.connect(os.path.join(directory, ".s.PGSQL.%d" % port))
        self.data = b""
        self.key = None
        if startup:
            pairs = {"user": "owner", "database": "shop", **parameters}
            body = struct.pack("!i", 3 << 16)
            body += b"".join(k.encode() + b"\0" + v.encode() + b"\0" for k, v in pairs.items()) + b"\0"
            self.socket.sendall(struct.pack("!i", len(body) + 4) + body)
            self.hello = self.until("Z")
            self.key = next((body for kind, body in self.hello if kind == "K"), None)

    def send(self, *messages):
        self.socket.sendall(b"".join(kind.encode() + struct.pack("!i", len(body) + 4) + body for kind, body in messages))

    def receive(self):
        while len(self.data) < 5 or len(self.data) < 1 + struct.unpack("!i", self.data[1:5])[0]:
            try:
                piece = self.socket.recv(1 << 16)
            except ConnectionResetError:  # closed with something unread
                piece = b""
            if not piece:
                return None
            self.data += piece
        size = struct.unpack("!i", self.data[1:5])[0]
        kind, body = chr(self.data[0]), self.data[5:size + 1]
        self.data = self.data[size + 1:]
        return kind, body

    def until(self, last):
        result = []
        while True:
            message = self.receive()
            if message is None:
                return result + [("closed", b"")]
            result.append(message)
            if message[0] == last:
                return result

    def query(self, text):
        self.send(("Q", text.encode() + b"\0"))
        return Answer(self.until("Z"))

    def run(self, text, *values, statement="", portal="", rows=0, parse=True, sync=True):
        """Parse, Bind, Describe, Execute and Sync."""
        messages = [parse_message(text, statement)] if parse else []
        messages += [bind_message(values, statement, portal), ("E", portal.encode() + b"\0" + struct.pack("!i", rows))]
        self.send(*messages, *([("S", b"")] if sync else []))
        return Answer(self.until("Z")) if sync else None

    def cancel(self):
        other = socket.socket(socket.AF_UNIX)
        other.connect(os.path.join(self.directory, ".s.PGSQL.%d" % self.port))
        other.sendall(struct.pack("!ii", 16, 80877102) + self.key)
        other.settimeout(10)
        other.recv(1)
        other.close()

    def close(self):
        self.socket.close()


class Slow(threading.Thread):
    """A server process that gets the processor for a moment only, again and again."""

    def __init__(self, pid):
        super().__init__()
        self.pid, self.ended = pid, threading.Event()

    def run(self):
        while not self.ended.wait(0.0004):
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(0.002)
            os.kill(self.pid, signal.SIGCONT)

    def __enter__(self):
        self.start()

    def __exit__(self, *_):
        self.ended.set()
        self.join()


def parse_message(text, statement=""):
    return "P", statement.encode() + b"\0" + text.encode() + b"\0" + struct.pack("!h", 0)


def bind_message(values=(), statement="", portal=""):
    body = portal.encode() + b"\0" + statement.encode() + b"\0" + struct.pack("!hh", 0, len(values))
    for value in values:
        body += struct.pack("!i", len(value)) + value.encode()
    return "B", body + struct.pack("!h", 0)


class Answer:
    def __init__(self, messages):
        self.messages = messages
        self.kinds = "".join(kind for kind, _ in messages)
        self.tags = [body.rstrip(b"\0").decode() for kind, body in messages if kind == "C"]
        self.errors = [fields(body) for kind, body in messages if kind == "E"]
        self.warnings = [fields(body) for kind, body in messages if kind == "N"]
        self.rows = [row(body) for kind, body in messages if kind == "D"]
        self.status = messages[-1][1].decode() if messages[-1][0] == "Z" else ""
        self.state = self.errors[0]["C"] if self.errors else ""

    def __repr__(self):
        return "%s %s %s %s %s" % (self.kinds, self.tags, self.errors, self.rows, self.status)


def fields(body):
    return {part[:1].decode(): part[1:].decode(errors="replace") for part in body.split(b"\0") if part}


def row(body):
    result, at = [], 2
    for _ in range(struct.unpack("!h", body[:2])[0]):
        size = struct.unpack("!i", body[at:at + 4])[0]
        at += 4
        result.append(None if size < 0 else body[at:at + size].decode(errors="replace"))
        at += max(size, 0)
    return result


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False
