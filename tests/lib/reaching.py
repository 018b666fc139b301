# SPDX-License-Identifier: Apache-2.0
"""Attempts to reach sockets and FIFOs of the host, run inside: reaching.py [(WAY, PATH), …]

Says "ready", waits for a line, and then tries each way. Prints for each the way, the path, and
"HOLE" or what stopped it, parted by tabs.
"""
import ast
import errno
import os
import socket
import sys

PEER = b"peer"  # the host's end sends this to a process that reaches it


def client(kind):
    s = socket.socket(socket.AF_UNIX, kind)
    s.settimeout(1)
    return s


def connect(kind, path):
    client(kind).connect(path)


def connect_by_link(path):
    link = os.path.join("/tmp", "link-%d" % os.getpid())
    os.symlink(path, link)
    connect(socket.SOCK_STREAM, link)


def by_number(path):
    """Opens the node itself, but not for use."""
    return "/proc/self/fd/%d" % os.open(path, os.O_PATH | os.O_NOFOLLOW)


def connect_from_beside(path):
    os.chdir(os.path.dirname(path))
    connect(socket.SOCK_STREAM, os.path.basename(path))


def connect_by_dots(path):
    connect(socket.SOCK_STREAM, "/proc/self/root/usr/.." + path)


def connect_in_a_thread_of_another_root(path):
    connect(socket.SOCK_STREAM, "/proc/thread-self/root" + path)


def bind_and_send(path):
    s = client(socket.SOCK_DGRAM)
    s.bind("")
    s.sendto(b"escaped", path)


def send_message(path):
    client(socket.SOCK_DGRAM).sendmsg([b"escaped"], [], 0, path)


def send_with_an_fd(path):
    null = os.open("/dev/null", os.O_RDONLY)
    client(socket.SOCK_DGRAM).sendmsg([b"escaped"],
                                      [(socket.SOL_SOCKET, socket.SCM_RIGHTS, null.to_bytes(4, sys.byteorder))], 0,
                                      path)


def send_from_a_pair(path):
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.settimeout(1)
    one.sendto(b"escaped", path)


def connect_datagrams(path):
    s = client(socket.SOCK_DGRAM)
    s.connect(path)
    s.send(b"escaped")


def read_fifo(path):
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if os.read(fd, 100) != PEER:
        raise OSError(errno.EAGAIN, "another FIFO")


def write_fifo(path):
    os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b"escaped")


def open_fifo_for_both(path):
    fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    if os.read(fd, 100) != PEER:
        raise OSError(errno.EAGAIN, "another FIFO")


# The ways to reach a node, and the kind of node.
WAYS = {
    "connect to a stream": ("stream", lambda path: connect(socket.SOCK_STREAM, path)),
    "connect to a stream by a link": ("stream", connect_by_link),
    "connect to a stream by the number of an open file": ("stream", lambda path: connect(socket.SOCK_STREAM,
            by_number(path))),
    "connect to a stream from its directory": ("stream", connect_from_beside),
    "connect to a stream through the root of a process": ("stream", connect_by_dots),
    "connect to a stream through the root of a thread": ("stream", connect_in_a_thread_of_another_root),
    "connect to packets": ("packets", lambda path: connect(socket.SOCK_SEQPACKET, path)),
    "connect to datagrams": ("datagrams", connect_datagrams),
    "send a datagram from a bound socket": ("datagrams", bind_and_send),
    "send a message": ("datagrams", send_message),
    "send a message with an fd": ("datagrams", send_with_an_fd),
    "send a datagram from a pair": ("datagrams", send_from_a_pair),
    "read a FIFO": ("fifo", read_fifo),
    "read a FIFO by the number of an open file": ("fifo", lambda path: read_fifo(by_number(path))),
    "write to a FIFO": ("fifo", write_fifo),
    "open a FIFO for both": ("fifo", open_fifo_for_both),
}


def outcome(way, path):
    try:
        WAYS[way][1](path)
        return "HOLE"
    except OSError as e:
        return "stopped by %s" % errno.errorcode.get(e.errno, e)


def main():
    print("ready", flush=True)
    sys.stdin.readline()
    for way, path in ast.literal_eval(sys.argv[1]):
        # In a process of its own, which may go to another directory.
        if os.fork() == 0:
            os.write(1, ("%s\t%s\t%s\n" % (way, path, outcome(way, path))).encode())
            os._exit(0)
        os.wait()


if __name__ == "__main__":
    main()
