#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Runs in the foreground whose output is kept (--log): it arrives as it would without, at pipes, files and terminals, and is there afterwards."""
import fcntl
import hashlib
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

BASE = [["create", "f", "content\n", 0o644]]
PATIENCE = 60
NOT_FOUND = 5
MIXED = "import os, random\nfor i in range(3000):\n os.write(random.choice((1, 2)), b'%d\\n' % i)"
BYTES = "import os, sys\nfor i in range(300): sys.stdout.buffer.write(bytes(range(256)) * 40)\nsys.stderr.write('errors\\n')\nsys.exit(9)"


class Ground:
    def __init__(self, place, tap, who):
        self.place, self.tap, self.who = place, tap, who
        self.path = t.build_tree(place, who, BASE)
        self.box = t.Box(place, who, dirs=[self.path])
        self.box.new()

    def check(self, what, good, *more):
        self.tap.check("%s, %s" % (what, self.who), good, *more)

    def words(self, *argv, options=()):
        return [self.box.program, "run", "--log", *options, self.box.name, "--", *argv]

    def popen(self, words, **more):
        return subprocess.Popen(words, env=self.box.environment, cwd=self.path, **{**self.box.identity(), **more})

    def run(self, *argv, options=(), **more):
        return self.box.atoll("run", "--log", *options, self.box.name, "--", *argv, cwd=self.path, **more)

    def log(self, *run):
        return self.box.atoll("logs", self.box.name, *run).stdout

    def close(self):
        self.box.rm("--force", "--kill")
        t.remove_tree(self.path)


def wait_until(condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def of_program(g):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/exe" % pid).startswith(g.box.program) and os.stat("/proc/" + pid).st_uid == g.place.uid(g.who):
                found.append(pid)
        except OSError:
            pass
    return found


def pipes(g):
    plain = g.box.run("sh", "-c", "echo plain", cwd=g.path)
    told = g.box.atoll("logs", g.box.name, "1")
    g.check("without --log nothing is kept, and that is said", plain.stdout == b"plain\n" and told.returncode == NOT_FOUND and b"--log" in told.stderr, t.said(told))
    done = g.run(t.PYTHON, "-c", BYTES)
    wanted = bytes(range(256)) * 40 * 300
    g.check("output and errors arrive as they are, apart, with the status", done.returncode == 9 and done.stdout == wanted and done.stderr == b"errors\n",
            done.returncode, len(done.stdout), done.stderr)
    kept = g.log()
    g.check("and are kept", sorted(kept) == sorted(wanted + b"errors\n"), len(kept))
    path = os.path.join(g.place.fresh("out", g.who), "out")
    with open(path, "wb") as file:
        g.popen(g.words(t.PYTHON, "-c", MIXED), stdout=file, stderr=file, stdin=subprocess.DEVNULL).wait(PATIENCE)
    with open(path, "rb") as file:
        text = file.read()
    g.check("what goes to one place keeps its order", text == b"".join(b"%d\n" % i for i in range(3000)) == g.log(), len(text), text[:80])
    process = g.popen(g.words("sh", "-c", "printf 'name? '; read x; echo hello $x"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    first = os.read(process.stdout.fileno(), 100)
    rest = process.communicate(b"you\n", timeout=PATIENCE)[0]
    g.check("nothing is held back, and input is the command's own", (first, rest) == (b"name? ", b"hello you\n"), first, rest)
    data = os.urandom(1 << 20)
    done = g.run("sha256sum", input=data, stdin=None)
    g.check("input arrives as it is", done.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest(), t.said(done))
    process = g.popen(g.words("sh", "-c", "while :; do echo y; done"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.readline()
    process.stdout.close()
    g.check("a closed pipe ends it", process.wait(PATIENCE) in (141, 128 + signal.SIGPIPE, 2), process.returncode)
    process = g.popen(g.words("sh", "-c", "trap '' PIPE; while :; do sleep 0.02; echo y || exit 4; done"), stdin=subprocess.DEVNULL,
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    g.check("also one that was closed before anything was written", process.wait(PATIENCE) == 4, process.returncode)
    process.stderr.close()
    done = g.run("sh", "-c", "i=0; while [ $i -lt 12 ]; do head -c 1048576 /dev/zero | tr '\\0' x; i=$((i+1)); done; echo end")
    kept = g.log()
    g.check("the log is bounded, the output is not", len(done.stdout) == (12 << 20) + 4 and 4 << 20 <= len(kept) <= 9 << 20 and kept.endswith(b"xend\n"),
            len(done.stdout), len(kept))
    g.check("no process is left", wait_until(lambda: not of_program(g)), of_program(g))


def ends(g):
    process = g.popen(g.words("sh", "-c", "echo up; (setsid sleep 1000 &); sleep 1000"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    process.stdout.readline()
    process.kill()
    process.wait()
    g.check("the death of atoll ends all, the keeper of the log too", wait_until(lambda: not of_program(g)), of_program(g))
    g.check("and what was written is there", g.log() == b"up\n", g.log())
    process.stdout.close()
    done = g.run("sh", "-c", "(setsid sh -c 'sleep 1000' &); echo quick")
    g.check("what the command leaves running holds nothing up", done.returncode == 0 and g.log() == b"quick\n", t.said(done))
    done = g.run("sh", "-c", "echo late; sleep 1000", options=("--timeout", "1"))
    g.check("nor does a time limit lose anything", done.returncode == 124 and done.stdout == b"late\n" == g.log(), t.said(done), g.log())
    done = g.run("./none")
    g.check("what cannot be executed is told as ever", done.returncode == 127 and done.stderr.count(b"\n") == 1, t.said(done))
    g.box.atoll("new", "kept", "--dir", g.path, "--log")
    done = g.box.atoll("run", "kept", "--", "echo", "x", cwd=g.path), g.box.atoll("logs", "kept")
    g.check("--log is kept with a sandbox", done[0].stdout == done[1].stdout == b"x\n", *[t.said(d) for d in done])
    done = g.box.atoll("run", "--log=no", "kept", "--", "echo", "y", cwd=g.path), g.box.atoll("logs", "kept")
    g.check("and can be taken back", done[0].stdout == b"y\n" and done[1].stdout == b"x\n", *[t.said(d) for d in done])
    g.box.atoll("rm", "kept")


class Terminal:
    def __init__(self, g, words, **more):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
        self.before = self.mode()
        slave = self.slave

        def become():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = g.popen(words, **{"stdin": slave, "stdout": slave, "stderr": slave, "preexec_fn": become, **more})
        self.seen = b""

    def mode(self):
        return termios.tcgetattr(self.slave)[:4]

    def sees(self, wanted):
        end = time.monotonic() + PATIENCE
        while wanted not in self.seen and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 4096)
            elif self.process.poll() is not None:
                break
        return wanted in self.seen

    def end(self):
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self.process.wait()

    def close(self):
        os.close(self.master)
        os.close(self.slave)


def terminal(g):
    look = "test -t 0 && echo 0tty; test -t 1 && echo 1tty; test -t 2 && echo 2tty; stty size < /dev/tty; echo look''ed"
    one = Terminal(g, g.words("sh", "-c", look + "; read x; echo got $x; cat"))
    g.check("a terminal stays one, of the same size", one.sees(b"looked") and all(w in one.seen for w in (b"0tty", b"1tty", b"2tty", b"33 77")), one.seen)
    os.write(one.master, b"typed\n")
    g.check("what is typed arrives, and is echoed once", one.sees(b"got typed") and one.seen.count(b"typed") == 2, one.seen)
    os.write(one.master, b"line\n")
    one.sees(b"line\r\nline\r\n")  # cat runs: between two commands a shell may pass over a signal
    os.write(one.master, b"\x03")
    g.check("Ctrl-C ends it", one.end() == 130 and one.mode() == one.before, one.process.returncode)
    g.check("what was seen is kept", b"0tty" in g.log() and b"got typed" in g.log(), g.log())
    one.close()
    two = Terminal(g, g.words("sh", "-c", "echo up; sleep 1000"))
    two.sees(b"up")
    two.process.kill()
    g.check("the terminal is as it was, also when atoll is killed", wait_until(lambda: two.mode() == two.before and not of_program(g)), of_program(g))
    two.end()
    two.close()
    three = Terminal(g, g.words("sh", "-c", "test -t 0 || echo piped; test -t 1 && echo 1tty; cat; echo look''ed"), stdin=subprocess.PIPE)
    three.process.stdin.write(b"from a pipe\n")
    three.process.stdin.close()
    g.check("with input from a pipe the output is a terminal still", three.sees(b"looked") and all(w in three.seen for w in (b"piped", b"1tty", b"from a pipe")) and
            three.end() == 0 and b"from a pipe" in g.log(), three.seen, g.log())
    three.close()


def main(place, tap):
    for who in place.users():
        for part in (pipes, ends, terminal):
            if t.only(part.__name__):
                ground = Ground(place, tap, who)
                try:
                    part(ground)
                finally:
                    ground.close()


t.run(main)
