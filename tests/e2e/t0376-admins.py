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


# ---- the everyday form ----

def policies(place, tap, who):
    """What atoll commit has an option for, atoll run --commit has one for too."""
    for what, command, option, name in (("a link to the outside", "ln -s /root/secret out", "--allow-outside-links", "out"),
                                        ("a file that gains setuid", "cp /bin/true s; chmod 4755 s", "--allow-set-id", "s")):
        path = place.fresh("project", who)
        box = t.Box(place, who)
        done = box.atoll("run", "--commit", "--", "sh", "-c", command, cwd=path)
        tap.check("%s is refused after a run, and the option named, %s" % (what, who), done.returncode == 4 and os.fsencode(option) in done.stderr and
                  os.listdir(path) == [], t.said(done))
        done = box.atoll("run", "--commit", option, "--", "sh", "-c", command, cwd=path)
        tap.check("%s lands with %s, %s" % (what, option, who), done.returncode == 0 and os.listdir(path) == [name], t.said(done))
        named = t.Box(place, who, dirs=[path], state=box.state)
        named.new()
        done = box.atoll("run", "--commit", option, "box", "--", "sh", "-c", command.replace("out", "out2").replace(" s", " s2"), cwd=path)
        tap.check("also in a sandbox that has a name, %s" % who, done.returncode == 0 and sorted(os.listdir(path)) == [name, name + "2"], t.said(done))
        named.drop()


def output(place, tap, who):
    """/dev/stdout and /dev/stderr of a command whose output goes to plain files."""
    own, logs = place.fresh("own", who), place.fresh("logs", who)
    script = own + "/script"
    with open(script, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\necho to-out > /dev/stdout\necho to-err > /dev/stderr\necho teed | tee /dev/stderr\necho again >> /dev/stdout\n")
    os.chmod(script, 0o755)
    t.give(own, place.uid(who))
    box = t.Box(place, who, dirs=[own])
    box.new()
    ways = (("both in one file", '"$@" >"$0/log" 2>&1'), ("appended", '"$@" >>"$0/log" 2>&1'), ("in two files", '"$@" >"$0/log" 2>"$0/errors"'),
            ("through pipes", '"$@" 2>&1 | cat >"$0/log"'))
    for options in ((), ("--log",), ("--keep-alive", "5")):
        for what, how in ways:
            for name in os.listdir(logs):
                os.unlink(logs + "/" + name)
            done = box.command(["sh", "-c", how, logs, box.program, "run", *options, "box", "--", "./script"], cwd=own)
            text = ""
            for name in sorted(os.listdir(logs)):
                with open(logs + "/" + name, encoding="utf-8") as file:
                    text += file.read()
            # A shell's > truncates the file that it opens again; what comes later is there in any case.
            tap.check("a script writes to /dev/stdout and /dev/stderr, %s%s, %s" % (what, " with " + options[0] if options else "", who),
                      "ermission denied" not in text and text.count("teed") >= 1 and "again" in text and done.returncode == 0, text, t.said(done))
    box.drop()
    # The shell that opens the file again writes at its beginning, and Atoll's own position is still there.
    everyday = t.Box(place, who)
    done = everyday.command(["sh", "-c", '"$@" 2>"$0/errors"', logs, box.program, "run", "--discard", "--", "sh", "-c",
                             "echo a line of the command > /dev/stderr; touch ~/made made"], cwd=own)
    with open(logs + "/errors", encoding="utf-8") as file:
        lines = file.read().splitlines()
    tap.check("what Atoll says overwrites nothing of it, %s" % who, done.returncode == 0 and lines[0] == "a line of the command" and
              len(lines) > 2 and lines[-1] == "discarded" and any("discarded: 1 file" in line for line in lines), lines)
    everyday.drop()


def main(place, tap):
    for who in place.users():
        for scene in (ports, policies, output):
            if t.only("%s %s" % (scene.__name__, who)):
                scene(place, tap, who)


t.run(main)
