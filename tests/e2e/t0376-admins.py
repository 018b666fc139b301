#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""What administrators do: directories of the system as resources, scratch layers, low ports, nginx, programs that sandbox themselves.

The suite never touches /etc of the machine: it makes a machine of its own, a root filesystem with a copy of /etc in a mount
namespace, and enters that.
"""
import os
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

# ---- ports ----

BIND = """
import socket
for family, kind, address in ((socket.AF_INET, socket.SOCK_STREAM, "0.0.0.0"), (socket.AF_INET, socket.SOCK_DGRAM, "127.0.0.1"),
                              (socket.AF_INET6, socket.SOCK_STREAM, "::1")):
    try:
        s = socket.socket(family, kind)
        s.bind((address, %d))
        print("bound")
    except OSError as e:
        print("unsupported" if e.errno in (97, 99) else e)
"""
START = "/proc/sys/net/ipv4/ip_unprivileged_port_start"


def first_port():
    with open(START, encoding="ascii") as file:
        return file.read()


def ports(place, tap, who):
    before = first_port()
    box = t.Box(place, who, dirs=[place.fresh("own", who)])
    box.new()
    for port in (1, 80, 443, 1023):
        done = box.run(t.PYTHON, "-c", BIND % port)
        tap.check("port %d of the private network can be bound, %s" % (port, who), done.stdout.startswith(b"bound\nbound\n") and
                  done.stdout.split()[2] in (b"bound", b"unsupported"), t.said(done))
    done = box.atoll("run", "--user", "root", "box", "--", t.PYTHON, "-c", BIND % 80)
    tap.check("so it can by root inside, %s" % who, done.stdout.startswith(b"bound\nbound\n"), t.said(done))
    done = box.atoll("run", "--net", "allow:127.0.0.1:9", "box", "--", t.PYTHON, "-c", BIND % 80)
    tap.check("and where some hosts are allowed, %s" % who, done.stdout.startswith(b"bound\nbound\n"), t.said(done))
    if who != "root" and int(before) > 80:
        done = box.atoll("run", "--net", "host", "box", "--", t.PYTHON, "-c", BIND % 80)
        tap.check("the host's own network is as it was, user", b"bound" not in done.stdout, t.said(done))
    tap.check("of the host nothing changed, %s" % who, first_port() == before)
    box.drop()


def main(place, tap):
    for who in place.users():
        for scene in (ports,):
            if t.only("%s %s" % (scene.__name__, who)):
                scene(place, tap, who)


t.run(main)
