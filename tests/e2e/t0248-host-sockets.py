#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""A command reaches no socket and no FIFO of the host (tests/lib/reaching.py): wherever they lie,
and whether the host made them before the command began or while it runs. Sockets and FIFOs of its
own work as ever."""
import os
import shutil
import socket
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import reaching  # noqa: E402

KINDS = {"stream": socket.SOCK_STREAM, "packets": socket.SOCK_SEQPACKET, "datagrams": socket.SOCK_DGRAM}
TOP = "/srv"


def mount(kind, path, *options):
    os.makedirs(path, exist_ok=True)
    subprocess.run(["mount", "-t", kind, *options, "none", path], check=True)


class Host:
    """Directories of the host, in the suite's own mount namespace, and the sockets and FIFOs in them."""

    def __init__(self, place):
        self.layers = place.fresh("layers")
        self.nodes = {}  # by path: the socket, or the fd of a FIFO, in which there is something to read
        mount("tmpfs", self.layers)
        for name in ("upper", "work"):
            os.mkdir(os.path.join(self.layers, name))
        mount("overlay", "/usr", "-o", "lowerdir=/usr,upperdir=%s/upper,workdir=%s/work" % (self.layers, self.layers))
        mount("tmpfs", TOP, "-o", "mode=755")
        for name in ("beside/mounted", "closed/mounted", "deep/a/b/mounted"):
            mount("tmpfs", os.path.join(TOP, name))
        for name in ("full", "empty", "quiet", "shown", "beside/directory", "closed/directory"):
            os.mkdir(os.path.join(TOP, name))
        for name in ("closed", "quiet"):
            os.chmod(os.path.join(TOP, name), 0o711)

    def close(self):
        self.clear()
        for path in (TOP + "/beside/mounted", TOP + "/closed/mounted", TOP + "/deep/a/b/mounted", TOP, "/usr",
                     self.layers):
            subprocess.run(["umount", "-l", path], check=True)

    def add(self, directory, when):
        os.makedirs(directory, exist_ok=True)
        for kind, number in KINDS.items():
            path = os.path.join(directory, "%s-%s" % (kind, when))
            s = socket.socket(socket.AF_UNIX, number)
            s.bind(path)
            if number != socket.SOCK_DGRAM:
                s.listen(64)
            s.setblocking(False)
            self.nodes[path] = s
        path = os.path.join(directory, "fifo-" + when)
        os.mkfifo(path)
        self.nodes[path] = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        os.write(self.nodes[path], reaching.PEER)
        for path in self.nodes:
            os.chmod(path, 0o666 if "fifo" in path else 0o777)

    def reached(self, path):
        """Whether a process was at the other end; looks once."""
        node = self.nodes[path]
        try:
            if isinstance(node, int):
                return os.read(node, 100) != reaching.PEER
            return bool(node.recv(100) if node.type == socket.SOCK_DGRAM else node.accept())
        except BlockingIOError:
            return isinstance(node, int)

    def clear(self):
        for path, node in self.nodes.items():
            os.unlink(path)
            if isinstance(node, int):
                os.close(node)
            else:
                node.close()
        self.nodes.clear()
        for path in (TOP + "/beside/new", TOP + "/new"):
            shutil.rmtree(path, ignore_errors=True)


def places(box, resource):
    """By name: the directory, and when nodes can be made there."""
    both = ("before", "later")
    return {
        "a tree of programs": ("/usr/lib/atoll-test", both),
        "a directory that was empty": (TOP + "/empty", ("later",)),
        "a directory with a file": (TOP + "/full", both),
        "a directory with a mount in it": (TOP + "/beside", both),
        "a directory beside a mount": (TOP + "/beside/directory", both),
        "a mount": (TOP + "/beside/mounted", both),
        "a directory that was made later beside a mount": (TOP + "/beside/new", ("later",)),
        "a directory that was made later": (TOP + "/new", ("later",)),
        "a directory above mounts": (TOP + "/deep/a", both),
        "a closed directory": (TOP + "/quiet", both),
        "a closed directory with a mount in it": (TOP + "/closed", both),
        "a directory in a closed one with a mount in it": (TOP + "/closed/directory", both),
        "a directory that --ro shows": (TOP + "/shown", both),
        "the home directory": (box.home, both),
        "the resource": (resource, ("before",)),
    }


def attempts(found):
    return [(way, "%s/%s-%s" % (directory, kind, when), place, when) for place,
            (directory, times) in found.items() for when in times
            for way, (kind, _) in reaching.WAYS.items()]


def start(box, inside, tries):
    return subprocess.Popen([box.program, "run", "--user", inside, "--ro", TOP + "/shown", box.name, "--", t.PYTHON,
                             "-I", "-S", os.path.join(box.place.lib, "reaching.py"),
                             repr([(way, path) for way, path, _, _ in tries])], env=box.environment, cwd="/",
                             stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **box.identity())


def reach(place, tap, host, who, inside):
    resource = place.fresh("resource", who)
    box = t.Box(place, who, dirs=[resource])
    box.place = place
    box.home = box.environment["HOME"] = place.fresh("home", who)
    with open(TOP + "/full/file", "w", encoding="ascii"):
        pass
    found = places(box, resource)
    tries = attempts(found)
    box.new()
    for directory, times in found.values():
        if "before" in times:
            host.add(directory, "before")
    process = start(box, inside, tries)
    begun = process.stdout.readline()
    for directory, times in found.values():
        if "later" in times:
            host.add(directory, "later")
    out, error = process.communicate(b"go\n", timeout=120)
    said = dict((tuple(line.split("\t")[:2]),
                 line.split("\t")[2]) for line in out.decode().splitlines() if line.count("\t") == 2)
    reached = {path for path in host.nodes if host.reached(path)}
    title = who if inside == "self" else "%s as root inside" % who
    tap.check("the command begins, %s" % title, begun == b"ready\n", begun, out, error)
    for way, path, name, when in tries:
        answer = said.get((way, path), "nothing")
        tap.check("%s in %s, made %s: %s, %s" % (way, name, "before" if when == "before" else "while it runs", answer,
                                                 title),
                  answer.startswith("stopped") and path not in reached, path, error[-500:])
    host.clear()
    box.drop()


OWN = """
import os, socket, sys, threading
for path in (sys.argv[1] + "/s", "/tmp/s", "\\0own"):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM):
        server, client = socket.socket(socket.AF_UNIX, kind), socket.socket(socket.AF_UNIX, kind)
        server.bind(path)
        if kind != socket.SOCK_DGRAM:
            server.listen()
        client.connect(path)
        client.send(b"x")
        peer = server if kind == socket.SOCK_DGRAM else server.accept()[0]
        print(peer.recv(10).decode(), end="")
        server.close()
        if path[0] != "\\0":
            os.unlink(path)
for path in (sys.argv[1] + "/f", "/tmp/f"):
    os.mkfifo(path)
    thread = threading.Thread(target=lambda: open(path, "w").write("f"))
    thread.start()
    print(open(path).read(), end="")
    thread.join()
"""


def own_ones_work(place, tap, who, inside):
    resource = place.fresh("own", who)
    box = t.Box(place, who, dirs=[resource])
    box.new()
    done = box.atoll("run", "--user", inside, box.name, "--", t.PYTHON, "-I", "-S", "-c", OWN, ".", cwd=resource)
    tap.check("sockets and FIFOs made inside work, %s" % (who if inside == "self" else who + " as root inside"),
              done.stdout == b"x" * 9 + b"ff", t.said(done))
    box.drop()


def main(place, tap):
    shutil.copy(os.path.join(t.LIB, "reaching.py"), place.lib)
    os.chmod(os.path.join(place.lib, "reaching.py"), 0o644)
    kinds = [(who, "self") for who in place.users()] + [("user", "root")]
    for who, inside in kinds:
        own_ones_work(place, tap, who, inside)
    if not place.is_root:
        tap.skip("sockets and FIFOs of the host", "needs root")
        return
    host = Host(place)
    try:
        for who, inside in kinds:
            reach(place, tap, host, who, inside)
    finally:
        host.close()


t.run(main)
