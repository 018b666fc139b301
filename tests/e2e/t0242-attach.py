#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Runs in the background that are typed at: standard input, terminals, going away and coming back, as root and as an ordinary user."""
import fcntl
import glob
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import wait_until  # noqa: E402

BASE = [["create", "f", "content\n", 0o644]]
PATIENCE = 60
NOT_FOUND = 5


class Ground:
    def __init__(self, place, tap, who, state=None):
        self.tap, self.who = tap, who
        self.path = t.build_tree(place, who, BASE)
        self.box = t.Box(place, who, dirs=[self.path], state=state)
        self.box.new()

    def check(self, what, good, *more):
        self.tap.check("%s, %s" % (what, self.who), good, *more)

    def start(self, *words):
        done = self.box.atoll("run", "-d", *words[:words.index("--")], self.box.name, *words[words.index("--"):], cwd=self.path)
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        return done.stdout.decode().strip()

    def attach(self, run, *options, **more):
        return self.box.atoll("attach", *options, self.box.name, run, cwd=self.path, **more)

    def runs(self):
        return {str(r["run"]): r for r in json.loads(self.box.atoll("ps", self.box.name, "--all", "--json").stdout)}

    def sockets(self):
        return glob.glob(self.box.state + "/logs/*/*.sock")

    def close(self):
        self.box.rm("--force", "--kill")
        t.remove_tree(self.path)


class Terminal:
    """Somebody who attaches at a terminal."""

    def __init__(self, ground, *words, rows=30, columns=90):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.slave = os.dup(slave)
        self.before = self.mode()
        self.process = subprocess.Popen([ground.box.program, *words], env=ground.box.environment, cwd=ground.path, stdin=slave, stdout=slave,
                                        stderr=slave, start_new_session=True, **ground.box.identity())
        os.close(slave)
        self.seen = b""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data):
        os.write(self.master, data)

    def sees(self, wanted):
        """Whether that appears; what came before it is forgotten."""
        end = time.monotonic() + PATIENCE
        while wanted not in self.seen:
            if time.monotonic() > end:
                return False
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 4096)
            elif self.process.poll() is not None and not select.select([self.master], [], [], 0)[0]:
                return wanted in self.seen
        self.seen = self.seen[self.seen.index(wanted) + len(wanted):]
        return True

    def mode(self):
        return termios.tcgetattr(self.slave)[:4]

    def end(self):
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()
            os.close(self.master)
            os.close(self.slave)


def stdin(g):
    run = g.start("-i", "--", "sh", "-c", "while read x; do echo got $x; done; echo end; exit 3")
    info = g.runs()[run]
    g.check("ps says that input is taken", info["interactive"] and not info["tty"], info)
    done = g.attach(run, input=b"one\ntwo\n", stdin=None)
    g.check("what is typed reaches the command, and its end too", done.returncode == 3 and done.stdout == b"got one\ngot two\nend\n", t.said(done))
    g.check("no socket is left", not g.sockets(), g.sockets())
    run = g.start("-i", "--", "sh", "-c", "sleep 0.3; sha256sum; echo done")
    data = bytes(range(256)) * 8000
    done = g.attach(run, input=data, stdin=None)
    direct = subprocess.run(["sha256sum"], input=data, capture_output=True, check=True)
    g.check("two megabytes of any bytes arrive as they are", done.stdout == direct.stdout + b"done\n", t.said(done))
    run = g.start("-i", "--", "sh", "-c", "echo up; read x; echo got $x")
    done = g.attach(run, "--detach-keys", "ctrl-a,b", input=b"\x01b", stdin=None)
    g.check("keys that detach leave it running", done.returncode == 0 and b"goes on" in done.stderr and g.runs()[run]["state"] == "running", t.said(done))
    done = g.attach(run, "--detach-keys", "ctrl-a,b", input=b"\x01\x01c\n", stdin=None)
    g.check("keys that only begin so are the command's", done.stdout == b"up\ngot \x01\x01c\n", t.said(done))
    run = g.start("--", "sh", "-c", "cat; echo end")
    done = g.attach(run, input=b"x\n", stdin=None)
    g.check("a run without --interactive has no input", done.returncode == 0 and done.stdout == b"end\n", t.said(done))
    run = g.start("-i", "--", "sh", "-c", "read x; echo got $x")
    silent = subprocess.Popen([g.box.program, "attach", "--no-stdin", g.box.name, run], env=g.box.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, **g.box.identity())
    loud = g.attach(run, input=b"x\n", stdin=None)
    out = silent.communicate(timeout=PATIENCE)[0]
    g.check("several attach at the same time; --no-stdin sends nothing", out == loud.stdout == b"got x\n", out, t.said(loud))


def terminal(g):
    before = g.box.environment.get("PS1")
    g.box.environment["PS1"] = "ready> "
    run = g.start("--tty", "--", "bash", "--norc", "--noprofile", "-i")
    g.check("ps says that it has a terminal", g.runs()[run]["tty"] and g.runs()[run]["interactive"], g.runs())
    one = Terminal(g, "attach", g.box.name, run)
    g.check("a prompt appears", one.sees(b"ready> "), one.seen)
    one.type(b"stty size; test -t 0 && test -t 1 && test -t 2 && tty\n")
    g.check("it is a terminal, of the size of one's own", one.sees(b"\r\n30 90\r\n") and one.sees(b"/dev/"), one.seen)
    one.resize(50, 120)
    one.type(b"while [ \"$(stty size)\" != '50 120' ]; do sleep 0.05; done; echo resi''zed\n")
    g.check("and follows it", one.sees(b"resized"), one.seen)
    # What is typed while the shell still edits its line would not be a line to cat.
    one.sees(b"ready> ")
    one.type(b"echo be''gun; cat\n")
    g.check("keys are echoed once", one.sees(b"echo be''gun; cat\r\nbegun\r\n"), one.seen)
    one.type(b"line\n")
    g.check("and lines come back", one.sees(b"line\r\nline\r\n"), one.seen)
    one.type(b"\x03")
    g.check("Ctrl-C ends what runs in the foreground, and nothing else", one.sees(b"ready> "), one.seen)
    one.type(b"echo be''gun; cat; echo sta''tus $?\n")
    one.sees(b"\r\nbegun\r\n")
    one.type(b"x\n")
    one.sees(b"x\r\nx\r\n")
    one.type(b"\x1a")
    g.check("Ctrl-Z stops it", one.sees(b"Stopped"), one.seen)
    one.type(b"\x10\x11")
    g.check("Ctrl-P Ctrl-Q leaves, with status 0", one.sees(b"goes on") and one.mode() == one.before and one.end() == 0, one.seen)
    g.check("and it goes on", g.runs()[run]["state"] == "running")
    two = Terminal(g, "attach", g.box.name, run, rows=24, columns=80)
    two.type(b"echo aga''in\n")
    g.check("one comes back", two.sees(b"again"), two.seen)
    two.type(b"exit 7\nexit 7\n")
    g.check("its end is the end, with its status", two.end() == 7 and wait_until(lambda: g.runs()[run]["exit_status"] == 7), g.runs()[run])
    g.check("logs has what was seen", b"again" in g.box.atoll("logs", g.box.name, run).stdout)
    if before is None:
        del g.box.environment["PS1"]


def scribes_of(pid):
    """Of a run's pid 1: the other children of its keeper."""
    with open("/proc/%d/stat" % pid, encoding="ascii") as file:
        keeper = file.read().rsplit(")", 1)[1].split()[1]
    with open("/proc/%s/task/%s/children" % (keeper, keeper), encoding="ascii") as file:
        return [int(word) for word in file.read().split() if int(word) != pid]


def mishaps(g):
    run = g.start("-i", "--", "sh", "-c", "echo up; read x; echo got $x")
    socket = g.sockets()
    os.rename(socket[0], socket[0] + ".away")
    done = subprocess.Popen([g.box.program, "attach", g.box.name, run], env=g.box.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            **g.box.identity())
    done.stdout.readline()
    os.rename(socket[0] + ".away", socket[0])
    second = g.attach(run, input=b"y\n", stdin=None)
    out = done.communicate(timeout=PATIENCE)[0]
    g.check("without a socket there is the output at least", done.returncode == 0 and out == b"got y\n" and second.returncode == 0, out, t.said(second))
    run = g.start("--tty", "--", "sh", "-c", "trap '' HUP; echo up; while :; do sleep 0.05; done")
    one = Terminal(g, "attach", g.box.name, run)
    one.sees(b"up")
    info = g.runs()[run]
    with open("/proc/%d/stat" % info["pid"], encoding="ascii") as file:
        keeper = int(file.read().rsplit(")", 1)[1].split()[1])
    os.kill(keeper, signal.SIGKILL)
    g.check("the death of the keeper is told, and the terminal is as it was", one.sees(b"killed together with its keeper") and one.mode() == one.before and
            one.end() == 137, one.seen)
    left = g.sockets()
    done = g.attach(run)
    g.check("one who attaches then is told the same", done.returncode == 137 and b"keeper" in done.stderr, t.said(done))
    g.check("no socket is left of any of them", wait_until(lambda: not g.sockets()), left)
    run = g.start("-i", "--", "sh", "-c", "trap '' PIPE; echo up; while echo y; do sleep 0.05; done 2>/dev/null; read x; exit 6")
    info = g.runs()[run]
    wait_until(lambda: g.box.atoll("logs", g.box.name, run).stdout.startswith(b"up\ny"))
    for pid in scribes_of(info["pid"]):
        os.kill(pid, signal.SIGKILL)
    done = g.attach(run, input=b"x\n", stdin=None)
    g.check("one whose log and input are gone is heard no more, and ends", done.returncode == 6 and done.stdout.startswith(b"up\n"), t.said(done))
    with open(os.path.join(glob.glob(g.box.state + "/logs/*")[0], "9999.sock"), "w", encoding="ascii"):
        pass
    run = g.start("-i", "--", "cat")
    os.unlink(g.sockets()[0] if not g.sockets()[0].endswith("9999.sock") else g.sockets()[1])
    done = g.box.atoll("kill", g.box.name, run), g.box.atoll("rm", "--force", g.box.name)
    g.check("what lies where sockets do is no obstacle", all(d.returncode == 0 for d in done) and not glob.glob(g.box.state + "/logs/*"),
            *[t.said(d) for d in done])
    g.box.new()
    for what, words in (("--interactive without --detach", ("run", "-i", g.box.name, "--", "true")), ("--tty without --detach", ("run", "--tty", g.box.name, "--", "true")),
                        ("strange keys", ("attach", "--detach-keys", "ctrl-", g.box.name)), ("too many keys", ("attach", "--detach-keys", ",".join("abcdefghi"), g.box.name)),
                        ("keys without commas", ("attach", "--detach-keys", "ab", g.box.name))):
        done = g.box.atoll(*words, cwd=g.path)
        g.check("%s: one line, exit 2" % what, done.returncode == 2 and done.stderr.count(b"\n") == 1, t.said(done))
    done = g.attach("99")
    g.check("a run that is not there: one line, exit 125", done.returncode in (125, NOT_FOUND) and done.stderr.count(b"\n") == 1, t.said(done))


def long_path(place, tap, who):
    """An address of a socket has 108 bytes."""
    deep = place.fresh("deep", who)
    for _ in range(3):
        deep = os.path.join(deep, "d" * 100)
        os.mkdir(deep)
    t.give(os.path.dirname(os.path.dirname(os.path.dirname(deep))), place.uid(who))
    g = Ground(place, tap, who, state=deep + "/atoll")
    run = g.start("-i", "--", "cat")
    done = g.attach(run, input=b"through\n", stdin=None)
    g.check("the path of a socket may be longer than an address", done.returncode == 0 and done.stdout == b"through\n", t.said(done))
    g.close()


def main(place, tap):
    for who in place.users():
        for part in (stdin, terminal, mishaps):
            if t.only(part.__name__):
                ground = Ground(place, tap, who)
                try:
                    part(ground)
                finally:
                    ground.close()
        if t.only("long_path"):
            long_path(place, tap, who)


t.run(main)
