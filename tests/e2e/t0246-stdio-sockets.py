#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Sockets as standard input, output and error: a command cannot use them to reach the host's network, and is otherwise to tell them by nothing
from sockets that it was given itself. A run, one that joins it, and one that a keeper starts."""
import os
import signal
import socket
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import end, start, started  # noqa: E402

PATIENCE = 60
INSIDE = "import ctypes, os, socket, struct, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
RECONNECT = INSIDE + """
s = socket.socket(fileno=0)
where = struct.pack("=H2s4s8x", 2, struct.pack(">H", %d), socket.inet_aton("127.0.0.1"))
for fd in range(3):
    libc.connect(fd, struct.pack("=H14x", 0), 16)
    if libc.connect(fd, where, 16) == 0:
        os.write(2 if fd != 2 else 1, b"HOLE")
os.write(1, b"stopped")
"""
ABSTRACT = INSIDE + """
s = socket.socket(fileno=0)
for send in (lambda: s.sendto(b"HOLE", "\\0%s"), lambda: s.sendmsg([b"HOLE"], [], 0, "\\0%s")):
    try:
        send()
    except OSError:
        pass
for fd in range(3):
    try:
        socket.socket(fileno=os.dup(fd)).bind("\\0taken-%s")
    except OSError:
        pass
os.write(1, b"stopped")
"""
DESCRIPTORS = INSIDE + """
import array
s = socket.socket(fileno=0)
s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [os.open(".", os.O_RDONLY)]))])
print(socket.recv_fds(s, 10, 4)[1], struct.unpack("3i", s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0] in (1, os.getpid()))
"""
HALF = INSIDE + """
s = socket.socket(fileno=0)
os.write(1, b"question")
s.shutdown(socket.SHUT_WR)
while piece := s.recv(100):
    sys.stderr.write("answer: " + piece.decode())
sys.stderr.write(" and the end")
"""


class Runs:
    """A sandbox, and how a command is started in it."""

    def __init__(self, place, who, way):
        self.path = t.build_tree(place, who, [["create", "f", "content\n", 0o644]])
        self.box = t.Box(place, who, dirs=[self.path])
        self.box.new()
        self.way, self.what, self.other = way, ", %s, %s" % (way, who), None
        if way == "joined":
            self.other = start(self.box, self.path, "echo up; read x")
            started(self.other)
        if way == "by a keeper":
            self.box.atoll("run", "--keep-alive", "300", self.box.name, "--", "true", cwd=self.path)

    def start(self, stdin, stdout, stderr, *argv, options=()):
        return subprocess.Popen([self.box.program, "run", *options, self.box.name, "--", *argv], cwd=self.path, env=self.box.environment, stdin=stdin,
                                stdout=stdout, stderr=stderr, **self.box.identity())

    def python(self, ends, script, **more):
        return self.start(*ends, t.PYTHON, "-I", "-S", "-c", script, **more)

    def close(self):
        if self.other:
            end(self.other)
        self.box.drop()
        t.remove_tree(self.path)


def pair(kind=socket.SOCK_STREAM):
    ours, theirs = socket.socketpair(socket.AF_UNIX, kind)
    ours.settimeout(PATIENCE)
    return ours, theirs


def tcp_pair():
    server = socket.create_server(("127.0.0.1", 0))
    ours = socket.create_connection(server.getsockname())
    theirs, _ = server.accept()
    server.close()
    ours.settimeout(PATIENCE)
    return ours, theirs


def all_of(s, size=1 << 30):
    found = bytearray()
    while len(found) < size:
        piece = s.recv(min(65536, size - len(found)))
        if not piece:
            break
        found += piece
    return bytes(found)


def said(run, ours, theirs):
    """What a command said whose standard fds are all of the same socket."""
    theirs.close()
    found = all_of(ours)
    run.wait(PATIENCE)
    ours.close()
    return found


def ways_out(tap, runs):
    service = socket.create_server(("127.0.0.1", 0))
    service.settimeout(0.2)
    for name, make in (("TCP", tcp_pair), ("Unix", pair)):
        ours, theirs = make()
        found = said(runs.python([theirs] * 3, RECONNECT % service.getsockname()[1]), ours, theirs)
        try:
            service.accept()
            reached = True
        except socket.timeout:
            reached = False
        tap.check("a %s socket as standard input, output and error cannot be connected to the host%s" % (name, runs.what), found == b"stopped" and
                  not reached, found, reached)
    service.close()
    abstract = "atoll-%d" % os.getpid()
    receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    receiver.bind("\0" + abstract)
    receiver.settimeout(0.2)
    ours, theirs = pair()
    found = said(runs.python([theirs] * 3, ABSTRACT % (abstract, abstract, abstract)), ours, theirs)
    try:
        reached = receiver.recv(10)
    except socket.timeout:
        reached = None
    receiver.close()
    with socket.socket(socket.AF_UNIX) as free:
        free.bind("\0taken-" + abstract)
    tap.check("nor reach, or take, an abstract name of the host" + runs.what, found == b"stopped" and not reached, found, reached)
    ours, theirs = pair()
    with open("/dev/null", "rb") as null:
        socket.send_fds(ours, [b"y"], [null.fileno()])
    run = runs.python([theirs] * 3, DESCRIPTORS)
    theirs.close()
    message = socket.recv_fds(ours, 1, 4)
    found = all_of(ours)
    tap.check("no descriptors go through it, and the peer is no process of the host" + runs.what, not message[1] and found == b"[] True\n" and
              run.wait(PATIENCE) == 0, message, found)
    ours.close()


def refused(tap, runs):
    listening = socket.create_server(("127.0.0.1", 0))
    ours, datagrams = pair(socket.SOCK_DGRAM)
    more, packets = pair(socket.SOCK_SEQPACKET)
    for name, s in (("listens", listening), ("sends datagrams", datagrams), ("sends packets", packets)):
        run = runs.start(s, subprocess.PIPE, subprocess.PIPE, "echo", "inside")
        out, err = run.communicate(timeout=PATIENCE)
        tap.check("standard input that %s is refused%s" % (name, runs.what), run.returncode != 0 and b"inside" not in out and b"standard input" in err and
                  b"pipe" in err, run.returncode, out, err)
    run = runs.python([listening, subprocess.PIPE, subprocess.PIPE], "import socket; print(socket.socket(fileno=0).getsockname()[1])", options=("--net", "host"))
    out, err = run.communicate(timeout=PATIENCE)
    tap.check("in the host's network it is handed on as it is" + runs.what, out == b"%d\n" % listening.getsockname()[1], out, err)
    for s in (listening, ours, datagrams, more, packets):
        s.close()


def transparent(tap, runs):
    for name, make in (("TCP", tcp_pair), ("Unix", pair)):
        what = " (%s)%s" % (name, runs.what)
        ours, theirs = make()
        run = runs.start(theirs, theirs, subprocess.PIPE, "cat")
        theirs.close()
        ours.sendall(b"first")
        first = all_of(ours, 5)
        ours.shutdown(socket.SHUT_WR)
        tap.check("what is written is read and answered, and the end of input ends the command" + what, first == b"first" and run.wait(PATIENCE) == 0 and
                  all_of(ours) == b"", first)
        run.stderr.close()
        ours.close()
        ours, theirs = make()
        run = runs.python([theirs, theirs, subprocess.PIPE], HALF)
        asked = all_of(ours)  # the end of output, while this process still holds the other socket
        ours.sendall(b"42")
        ours.shutdown(socket.SHUT_WR)
        err = run.communicate(timeout=PATIENCE)[1]
        tap.check("a half close inside is one outside, and input still comes" + what, asked == b"question" and err == b"answer: 42 and the end", asked, err)
        ours.close()
        theirs.close()
        size = 32 << 20
        ours, theirs = make()
        run = runs.start(theirs, theirs, subprocess.PIPE, "cat")
        theirs.close()
        writer = threading.Thread(target=lambda s=ours: (s.sendall(b"0123456789abcdef" * (size // 16)), s.shutdown(socket.SHUT_WR)))
        begun = time.monotonic()
        writer.start()
        found = all_of(ours)
        seconds = time.monotonic() - begun
        writer.join()
        tap.check("%d MiB go through both ways unchanged%s" % (size >> 20, what), len(found) == size and found == b"0123456789abcdef" * (size // 16) and
                  run.wait(PATIENCE) == 0, len(found))
        tap.note("%.0f MiB/s%s" % (size / seconds / (1 << 20), what))
        run.stderr.close()
        ours.close()
        ours, theirs = make()
        ours.sendall(b"line 1\nline 2\nline 3\n")
        run = runs.python([theirs, subprocess.PIPE, subprocess.PIPE], "import os\nline = b''\nwhile not line.endswith(b'\\n'): line += os.read(0, 1)\nprint(line)")
        out, err = run.communicate(timeout=PATIENCE)
        theirs.settimeout(PATIENCE)
        tap.check("input that the command does not read is left for the next one" + what, out == b"b'line 1\\n'\n" and theirs.recv(100) == b"line 2\nline 3\n",
                  out, err)
        run = runs.start(theirs, subprocess.PIPE, subprocess.PIPE, "true")
        ours.sendall(b"untouched")
        run.communicate(timeout=PATIENCE)
        tap.check("all of it, where it reads nothing" + what, theirs.recv(100) == b"untouched")
        ours.shutdown(socket.SHUT_WR)
        run = runs.start(theirs, subprocess.PIPE, subprocess.PIPE, "cat")
        tap.check("an input that has ended already is at its end" + what, run.communicate(timeout=PATIENCE)[0] == b"" and run.returncode == 0)
        theirs.sendall(b"still open")
        tap.check("and the socket stays open for others" + what, ours.recv(100) == b"still open")
        ours.close()
        theirs.close()


def endings(tap, runs):
    ours, theirs = pair()
    run = runs.start(subprocess.DEVNULL, theirs, subprocess.PIPE, "sh", "-c", "head -c 150000 /dev/zero; echo end")
    theirs.close()
    code = run.wait(PATIENCE)
    tap.check("what was written last is there when the run has ended" + runs.what, code == 0 and all_of(ours).endswith(b"end\n"), code)
    run.stderr.close()
    ours.close()
    ours, theirs = pair()
    run = runs.start(subprocess.DEVNULL, theirs, subprocess.PIPE, "sh", "-c", "(while :; do printf y; sleep 0.05; done); kill -l $? >&2")
    theirs.close()
    ours.recv(10)
    ours.close()
    err = run.communicate(timeout=PATIENCE)[1]
    tap.check("a command whose output nobody takes is ended by SIGPIPE" + runs.what, err.strip() == b"PIPE", err)
    ours, theirs = pair()
    run = runs.start(subprocess.DEVNULL, theirs, subprocess.PIPE, "sh", "-c", "yes & sleep 1000")
    theirs.close()
    ours.recv(10)
    time.sleep(0.5)
    run.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    code = run.wait(PATIENCE)
    tap.check("one whose output is not taken can be ended" + runs.what, code == 143 and time.monotonic() - begun < 15, code, time.monotonic() - begun)
    run.stderr.close()
    ours.close()
    ours, theirs = pair()
    begun = time.monotonic()
    run = runs.start(subprocess.DEVNULL, theirs, subprocess.PIPE, "yes", options=("--timeout", "1"))
    theirs.close()
    code = run.wait(PATIENCE)
    tap.check("and a time limit holds" + runs.what, code == 124 and time.monotonic() - begun < 15, code, time.monotonic() - begun)
    run.stderr.close()
    ours.close()


def main(place, tap):
    for who in place.users():
        for way in ("a run", "joined", "by a keeper"):
            runs = Runs(place, who, way)
            try:
                ways_out(tap, runs)
                refused(tap, runs)
                transparent(tap, runs)
                endings(tap, runs)
            finally:
                runs.close()


t.run(main)
