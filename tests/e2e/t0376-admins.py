#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""What administrators do: directories of the system as resources, scratch layers, low ports, nginx, programs that sandbox themselves.

The suite never touches /etc of the machine: it makes a machine of its own, a root filesystem with a copy of /etc in a mount
namespace, and enters that.
"""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

# ---- scratch ----

HOST = [["create", "old", "old\n", 0o644], ["create", "gone", "gone\n", 0o644], ["mkdir", "log", 0o755], ["create", "log/one", "1\n", 0o644],
        ["mkdir", "www", 0o755], ["create", "www/page", "page\n", 0o644]]
USES = "cat old log/one; echo more >> old; rm gone; echo 2 > log/two; mkdir -p new/deep; echo x > new/deep/f; cat old log/two; ls"


def scratch(place, tap, who):
    host = t.build_tree(place, who, HOST, hint="host")
    own = place.fresh("own", who)
    before = mf.manifest(host)
    box = t.Box(place, who, dirs=[own])
    box.new()

    def run(script, *options, cwd=host):
        return box.atoll("run", *options, "box", "--", "sh", "-c", script, cwd=cwd)
    done = run("echo x > old")
    tap.check("without --scratch the directory is read-only, %s" % who, done.returncode != 0 and b"Read-only" in done.stderr, t.said(done))
    done = run(USES, "--scratch", host)
    tap.check("--scratch shows what is there, and takes writes, %s" % who, done.returncode == 0 and
              done.stdout == b"old\n1\nold\nmore\n2\nlog\nnew\nold\nwww\n", t.said(done))
    tap.check("outside nothing changes, %s" % who, mf.manifest(host) == before)
    groups = json.loads(box.atoll("show", "box", "--json").stdout)["discarded"][-1]["groups"]
    found = {(path["path"].removeprefix(host + "/"), path["removed"]) for group in groups for path in group["paths"]}
    tap.check("all that was written is reported as discarded, %s" % who, found == {("old", False), ("gone", True), ("log/two", False),
              ("new/deep/f", False)} and b"discarded: " in done.stderr and os.fsencode("below " + host) in done.stderr and
              b"warning: all that the command wrote" in done.stderr, found, t.said(done))
    done = run("cat old; ls", "--scratch", host)
    tap.check("the next run begins anew, %s" % who, done.stdout == b"old\ngone\nlog\nold\nwww\n" and b"discarded" not in done.stderr, t.said(done))
    done = box.atoll("run", "box", "--explain", "--scratch", host)
    tap.check("--explain says it, %s" % who, os.fsencode(host + ": a private layer over the host's own, discarded") in done.stdout, t.said(done))
    done = box.command(["sh", "-c", 'echo "echo s > shelled; cat shelled" | exec "$@"', "sh", box.program, "shell", "--scratch", host, "box"], cwd=host)
    tap.check("a shell takes it too, %s" % who, b"s\n" in done.stdout and mf.manifest(host) == before, t.said(done))
    for option, value, why in (("nothing there", host + "/none", b"nothing at that path"), ("a file", host + "/old", b"no directory"),
                               ("the root", "/", b"root of everything"), ("/proc", "/proc", b"kernel"), ("/dev", "/dev", b"kernel"),
                               ("the resource", own, b"resource"), ("Atoll's own", box.state + "/boxes", b"Atoll's own")):
        done = run("true", "--scratch", value, cwd=own)
        tap.check("--scratch of %s is refused, %s" % (option, who), done.returncode == 125 and why in done.stderr, t.said(done))
    os.mkdir(own + "/part")
    t.give(own, place.uid(who))
    done = run("true", "--scratch", own + "/part", cwd=own)
    tap.check("so is a part of a resource, %s" % who, done.returncode == 125 and b"changes are kept" in done.stderr, t.said(done))
    if who != "root" and place.is_root:
        foreign = place.fresh("foreign", "root")
        with open(foreign + "/f", "w", encoding="ascii") as file:
            file.write("of root\n")
        done = run("touch made; cat f; echo x > f", "--scratch", foreign, cwd=foreign)
        tap.check("in a directory of another user the layer can be written, and what lies there cannot, user", done.stdout == b"of root\n" and
                  b"f: Permission denied" in done.stderr and b"discarded: 1 file below" in done.stderr and os.listdir(foreign) == ["f"], t.said(done))
        os.chmod(foreign, 0o700)
        done = run("true", "--scratch", foreign, cwd=own)
        tap.check("one that may not be read is refused, user", done.returncode == 125 and os.fsencode(foreign) in done.stderr, t.said(done))
    box.drop()
    inner = t.Box(place, who, dirs=[host + "/www"])
    inner.new("--scratch", host)
    done = inner.run("sh", "-c", "echo new > page; echo new > ../old; cat ../log/one", cwd=host + "/www")
    tap.check("a resource may lie in it, and the setting is kept with the sandbox, %s" % who, done.returncode == 0 and done.stdout == b"1\n", t.said(done))
    done = inner.commit()
    with open(host + "/www/page", encoding="ascii") as page, open(host + "/old", encoding="ascii") as old:
        tap.check("its edits land, and nothing else, %s" % who, done.returncode == 0 and page.read() == "new\n" and old.read() == "old\n", t.said(done))
    inner.drop()
    t.remove_tree(host)


def scratch_over_mounts(place, tap):
    host, other, own = place.fresh("host"), place.fresh("other"), place.fresh("own")
    os.mkdir(host + "/mounted")
    with open(other + "/f", "w", encoding="ascii") as file:
        file.write("mounted\n")
    subprocess.run(["mount", "--bind", other, host + "/mounted"], check=True)
    box = t.Box(place, "root", dirs=[own])
    box.new()
    done = box.atoll("run", "--scratch", host, "box", "--", "true")
    tap.check("--scratch over a mount of the host is refused: its content would not show", done.returncode == 125 and
              os.fsencode(host + "/mounted") in done.stderr, t.said(done))
    done = box.atoll("run", "--scratch", host, "--scratch", host + "/mounted", "box", "--", "sh", "-c",
                     "cat %s/mounted/f; echo x > %s/mounted/f; echo x > %s/g" % (host, host, host))
    with open(other + "/f", encoding="ascii") as file:
        tap.check("unless that is named too", done.returncode == 0 and done.stdout == b"mounted\n" and file.read() == "mounted\n" and
                  os.listdir(host) == ["mounted"], t.said(done))
    subprocess.run(["umount", host + "/mounted"], check=True)
    box.drop()


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
        for scene in (scratch, ports, policies, output):
            if t.only("%s %s" % (scene.__name__, who)):
                scene(place, tap, who)
    if not place.is_root:
        return tap.skip("a sandbox over /etc", "needs root")
    if t.only("scratch root"):
        scratch_over_mounts(place, tap)
    return None


t.run(main)
