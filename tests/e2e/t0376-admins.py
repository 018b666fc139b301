#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""The work of administrators: directories of the system as resources, scratch layers, low ports,
nginx, programs that sandbox themselves.

The suite never touches /etc of the machine: lib/machine.py makes one of its own.
"""
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402
from machine import Machine, MachineBox  # noqa: E402

# ---- directories of the system ----

NEVER = {"/": b"holds all filesystems", "/dev": b"devices", "/dev/pts": b"devices", "/proc": b"kernel",
         "/proc/sys": b"kernel", "/run": b"sockets", "/run/lock": b"sockets", "/sys": b"kernel"}
WORK = """
set -e
cd /etc
sed -i 's/localhost/localhost sandboxed/' hosts
mkdir -p app/conf.d; echo 'port = 80' > app/conf.d/main; ln -s conf.d/main app/current
rm -f motd; chmod 600 issue; echo 'app:x:4321:' >> group
"""
CHANGED = {"A\tapp", "A\tapp/conf.d", "A\tapp/conf.d/main", "A\tapp/current", "D\tmotd", "M\tgroup", "M\thosts",
           "m\tissue"}


def listed(done):
    """Letters and paths of a diff --name-status."""
    return set(done.stdout.decode().splitlines())


def refused(place, tap, who):
    """Refusals that are the same for every user. They need no machine of the test's own, since nothing changes."""
    box = t.Box(place, who)
    for path in ("/etc", "/usr", "/usr/bin", "/var", "/home", "/tmp", "/dev/shm"):
        done = box.atoll("new", "box", "--dir", path)
        tap.check("%s is refused, and the message names the switch, %s" % (path, who), done.returncode == 4 and
                  b"--allow-system" in done.stderr and os.fsencode(os.path.realpath(path)) in done.stderr, t.said(done))
    for path, why in sorted(NEVER.items()):
        if not os.path.isdir(path):
            continue
        done = box.atoll("new", "box", "--dir", path, "--allow-system")
        tap.check("%s is refused with the switch too, and the message says why, %s" % (path, who),
                  done.returncode == 4 and why in done.stderr, t.said(done))
    done = box.atoll("run", "--allow-system", "--", "true", cwd="/proc")
    tap.check("the everyday form refuses it too, %s" % who, done.returncode == 125 and b"kernel" in done.stderr,
              t.said(done))
    if who != "root":
        done = box.atoll("new", "box", "--dir", "/etc", "--allow-system")
        tap.check("the switch gives an ordinary user nothing to write, user", done.returncode == 4 and
                  b"may not be written" in done.stderr, t.said(done))
    tap.check("and nothing is left of any of them, %s" % who, b"[]" in box.atoll("list", "--json").stdout)
    box.drop()


def etc(place, tap, machine):
    before = mf.manifest(machine.path("/etc"))
    box = MachineBox(machine)
    done = box.new("--dir", "/etc", "--allow-system")
    tap.check("a sandbox over /etc is made", done.returncode == 0 and mf.manifest(machine.path("/etc")) == before,
              t.said(done))
    done = box.run("sh", "-c", WORK)
    tap.check("a command works in it, and outside nothing changes", done.returncode == 0 and
              mf.manifest(machine.path("/etc")) == before, t.said(done))
    done = box.diff("--name-status")
    tap.check("diff lists what it changed", listed(done) == CHANGED, sorted(listed(done) ^ CHANGED), t.said(done))
    shadow = machine.read("/etc/shadow")
    done = box.run("sh", "-c", "cat /etc/shadow; echo x > /etc/shadow; rm /etc/shadow; mv /etc/group /etc/shadow")
    tap.check("what is hidden from commands stays so in it, and cannot be changed", done.stdout == b"" and
              done.returncode != 0 and listed(box.diff("--name-status")) == CHANGED, t.said(done), t.said(box.diff()))
    shown = json.loads(box.atoll("show", "box", "--json").stdout)["resources"][0]
    tap.check("nothing has to be copied: files can be exchanged", shown["strategy"] == "overlay" and
              "copies" not in shown["mode"], shown)
    done = box.commit("-m", "the application")
    tap.check("commit lands it", done.returncode == 0 and "sandboxed" in machine.read("/etc/hosts") and
              not os.path.exists(machine.path("/etc/motd")) and
              machine.read("/etc/app/current") == "port = 80\n" and "app:x:4321:" in machine.read("/etc/group") and
              t.mode_of(machine.path("/etc/issue")) == 0o600 and machine.read("/etc/shadow") == shadow, t.said(done))
    done = box.undo()
    tap.check("undo puts all of it back", done.returncode == 0 and mf.manifest(machine.path("/etc")) == before,
              t.said(done))
    machine.write("/etc/hosts", machine.read("/etc/hosts") + "192.0.2.1 new\n")
    done = box.commit()
    tap.check("a file that was edited meanwhile is a conflict, by name", done.returncode == 3 and
              b"hosts" in done.stderr and
              "new" in machine.read("/etc/hosts") and not os.path.exists(machine.path("/etc/app")), t.said(done))
    done = box.commit("/etc/app")
    tap.check("and a part lands alone", done.returncode == 0 and machine.read("/etc/app/conf.d/main") == "port = 80\n",
              t.said(done))
    box.drop()


def everyday(place, tap, machine):
    box = MachineBox(machine)
    script = ("--", "sh", "-c", "echo everyday > marker")
    done = box.atoll("run", "--commit", *script, cwd="/etc")
    tap.check("the everyday form in /etc names the switch", done.returncode == 125 and b"--allow-system" in done.stderr,
              t.said(done))
    done = box.atoll("run", "--commit", "--allow-system", *script, cwd="/etc")
    tap.check("and works with it", done.returncode == 0 and machine.read("/etc/marker") == "everyday\n", t.said(done))
    done = box.atoll("undo", cwd="/etc")
    tap.check("and is undone without a name", done.returncode == 0 and not os.path.exists(machine.path("/etc/marker")),
              t.said(done))
    done = box.atoll("run", "--discard", "--allow-system", "--dir", "/var/lib", "--", "sh", "-c",
                     "echo x > /var/lib/marker; cat /var/lib/marker")
    tap.check("/var/lib can be held as well", done.returncode == 0 and done.stdout == b"x\n" and
              not os.path.exists(machine.path("/var/lib/marker")), t.said(done))
    done = box.atoll("run", "--allow-system", "--dir", "/var", "--", "true")
    tap.check("but a mount in the directory is not", done.returncode == 125 and
              b"another filesystem mounted" in done.stderr, t.said(done))
    # Atoll's own state lies in the directory that the sandbox holds, as it does for root by default. (The
    # box still removes the state directory of the suite.)
    inner = MachineBox(machine, name="inner", environment={"ATOLL_STATE_DIR": "/var/lib/atoll"})
    done = [inner.new("--dir", "/var/lib", "--allow-system"),
            inner.run("sh", "-c", "echo x > /var/lib/marker; ls -A /var/lib/atoll"), inner.commit()]
    landed = os.path.exists(machine.path("/var/lib/marker"))
    done += [inner.undo(), inner.rm()]
    tap.check("a directory that holds Atoll's own state can be held: the state is not seen inside",
              all(d.returncode == 0 for d in done[2:]) and
              done[1].stdout == b"" and landed and not os.path.exists(machine.path("/var/lib/marker")),
              *map(t.said, done))
    inner.drop()
    done = box.atoll("new", "box", "--file", "/usr/bin/env")
    tap.check("a program of the system is no file resource without the switch", done.returncode == 4 and
              b"--allow-system" in done.stderr, t.said(done))
    box.drop()


def nginx(place, tap, machine):
    if not t.has("/usr/sbin/nginx") or not os.path.isdir(machine.path("/etc/nginx")):
        return tap.skip("nginx tests a sandboxed /etc", "nginx is not installed")
    test = ("nginx", "-t")
    box = MachineBox(machine, name="web")
    done = box.atoll("new", "web", "--dir", "/etc", "--allow-system", "--scratch", "/var/log/nginx", "--scratch",
                     "/var/lib/nginx")
    tap.check("a sandbox for nginx is made, which keeps the scratch directories", done.returncode == 0, t.said(done))
    page = "server { listen 80; location / { return 200 'inside\\n'; } }"
    done = box.run("sh", "-c",
                   "rm /etc/nginx/sites-enabled/default; echo \"$1\" > /etc/nginx/conf.d/site.conf; nginx -t", "sh",
                   page)
    tap.check("nginx -t accepts a good configuration", done.returncode == 0 and b"test is successful" in done.stderr,
              t.said(done))
    done = box.run("sh", "-c",
                   "cp /etc/nginx/nginx.conf /etc/nginx/saved; echo 'nosuch on;' >> /etc/nginx/nginx.conf; nginx -t; r=$?; "
                   "mv /etc/nginx/saved /etc/nginx/nginx.conf; exit $r")
    tap.check("and refuses a bad one, and names the line", done.returncode == 1 and
              b'unknown directive "nosuch"' in done.stderr, t.said(done))
    outside = box.command(test)
    logs = sorted(os.listdir(machine.path("/var/log/nginx")))
    tap.check("outside it sees the old one", outside.returncode == 0 and
              not os.path.exists(machine.path("/etc/nginx/conf.d/site.conf")), t.said(outside))
    # Not as a daemon: everything ends with the run. It drops root by itself.
    done = box.run("sh", "-c",
                   "nginx -g 'daemon off;' & server=$!; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.3; curl -s http://127.0.0.1/ && break; done; "
                   'kill $server; wait $server')
    tap.check("it serves port 80 inside", done.stdout == b"inside\n", t.said(done))
    tap.check("and its logs are reported as discarded", b"below /var/log/nginx" in done.stderr and
              sorted(os.listdir(machine.path("/var/log/nginx"))) == logs, t.said(done))
    done = box.commit()
    after = box.command(test)
    tap.check("the configuration lands, and nginx outside accepts it", done.returncode == 0 and
              after.returncode == 0 and
              "listen 80" in machine.read("/etc/nginx/conf.d/site.conf"), t.said(done), t.said(after))
    box.drop()
    return None


def on_a_machine(place, tap):
    machine = Machine(place)
    try:
        for scene in (etc, everyday, nginx):
            if t.only(scene.__name__ + " root"):
                scene(place, tap, machine)
    finally:
        machine.close()


# ---- scratch ----

HOST = [["create", "old", "old\n", 0o644], ["create", "gone", "gone\n", 0o644], ["mkdir", "log", 0o755],
        ["create", "log/one", "1\n", 0o644], ["mkdir", "www", 0o755], ["create", "www/page", "page\n", 0o644]]
USES = "cat old log/one; echo more >> old; rm gone; echo 2 > log/two; mkdir -p new/deep; echo x > new/deep/f; cat old log/two; ls"


CONNECT = """
import os, socket
try:
    socket.socket(socket.AF_UNIX).connect("socket")
    print("socket connected")
except OSError:
    print("socket refused")
try:
    os.write(os.open("fifo", os.O_WRONLY | os.O_NONBLOCK), b"x")
    print("fifo written")
except OSError:
    print("fifo refused")
"""


def scratch(place, tap, who):
    host = t.build_tree(place, who, HOST, hint="host")
    own = place.fresh("own", who)
    before = mf.manifest(host)
    box = t.Box(place, who, dirs=[own])
    box.new()

    def run(script, *options, cwd=host):
        return box.atoll("run", *options, "box", "--", "sh", "-c", script, cwd=cwd)
    done = run("echo x > old")
    tap.check("without --scratch the directory is read-only, %s" % who, done.returncode != 0 and
              b"Read-only" in done.stderr, t.said(done))
    done = run(USES, "--scratch", host)
    tap.check("--scratch shows what is there, and takes writes, %s" % who, done.returncode == 0 and
              done.stdout == b"old\n1\nold\nmore\n2\nlog\nnew\nold\nwww\n", t.said(done))
    tap.check("outside nothing changes, %s" % who, mf.manifest(host) == before)
    groups = json.loads(box.atoll("show", "box", "--json").stdout)["discarded"][-1]["groups"]
    found = {(path["path"].removeprefix(host + "/"), path["removed"]) for group in groups for path in group["paths"]}
    tap.check("all that was written is reported as discarded, %s" % who,
              found == {("old", False), ("gone", True), ("log/two", False),
              ("new/deep/f", False)} and b"discarded: " in done.stderr and
              os.fsencode("below " + host) in done.stderr and
              b"warning: all that the command wrote" in done.stderr, found, t.said(done))
    done = run("cat old; ls", "--scratch", host)
    tap.check("the next run begins anew, %s" % who, done.stdout == b"old\ngone\nlog\nold\nwww\n" and
              b"discarded" not in done.stderr, t.said(done))
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(host + "/socket")
        server.listen(1)
        os.chmod(host + "/socket", 0o777)
        os.mkfifo(host + "/fifo")
        os.chmod(host + "/fifo", 0o666)
        reader = os.open(host + "/fifo", os.O_RDONLY | os.O_NONBLOCK)
        done = box.atoll("run", "--scratch", host, "box", "--", t.PYTHON, "-c", CONNECT, cwd=host)
        tap.check("no socket and no FIFO of the host is reached through it, %s" % who,
                  done.stdout == b"socket refused\nfifo refused\n" and os.read(reader, 100) == b"", t.said(done))
        os.close(reader)
    for name in ("socket", "fifo"):
        os.unlink(host + "/" + name)
    before = mf.manifest(host)
    done = box.atoll("run", "box", "--explain", "--scratch", host)
    tap.check("--explain says it, %s" % who,
              os.fsencode(host + ": a private layer over the host's own, discarded") in done.stdout, t.said(done))
    done = box.command(["sh", "-c", 'echo "echo s > shelled; cat shelled" | exec "$@"', "sh", box.program, "shell",
                        "--scratch", host, "box"], cwd=host)
    tap.check("a shell takes it too, %s" % who, b"s\n" in done.stdout and mf.manifest(host) == before, t.said(done))
    for option, value, why in (("nothing there", host + "/none", b"nothing at that path"),
                               ("a file", host + "/old", b"no directory"),
                               ("the root", "/", b"root of everything"), ("/proc", "/proc", b"kernel"),
                               ("/dev", "/dev", b"kernel"),
                               ("the resource", own, b"resource"),
                               ("Atoll's own", box.state + "/boxes", b"Atoll's own")):
        done = run("true", "--scratch", value, cwd=own)
        tap.check("--scratch of %s is refused, %s" % (option, who), done.returncode == 125 and why in done.stderr,
                  t.said(done))
    os.mkdir(own + "/part")
    t.give(own, place.uid(who))
    done = run("true", "--scratch", own + "/part", cwd=own)
    tap.check("--scratch of a part of a resource is refused, %s" % who, done.returncode == 125 and
              b"changes are kept" in done.stderr, t.said(done))
    if who != "root" and place.is_root:
        foreign = place.fresh("foreign", "root")
        with open(foreign + "/f", "w", encoding="ascii") as file:
            file.write("of root\n")
        done = run("touch made; cat f; echo x > f", "--scratch", foreign, cwd=foreign)
        tap.check("in a directory of another user the layer can be written, and what lies there cannot, user",
                  done.stdout == b"of root\n" and
                  b"f: Permission denied" in done.stderr and b"discarded: 1 file below" in done.stderr and
                  os.listdir(foreign) == ["f"], t.said(done))
        os.chmod(foreign, 0o700)
        done = run("true", "--scratch", foreign, cwd=own)
        tap.check("a directory that the user may not read is refused, user", done.returncode == 125 and
                  os.fsencode(foreign) in done.stderr, t.said(done))
    box.drop()
    inner = t.Box(place, who, dirs=[host + "/www"])
    inner.new("--scratch", host)
    done = inner.run("sh", "-c", "echo new > page; echo new > ../old; cat ../log/one", cwd=host + "/www")
    tap.check("a resource may lie in it, and the setting is kept with the sandbox, %s" % who, done.returncode == 0 and
              done.stdout == b"1\n", t.said(done))
    done = inner.commit()
    with open(host + "/www/page", encoding="ascii") as page, open(host + "/old", encoding="ascii") as old:
        tap.check("its edits land, and nothing else, %s" % who, done.returncode == 0 and page.read() == "new\n" and
                  old.read() == "old\n", t.said(done))
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
        tap.check("unless that is named too", done.returncode == 0 and done.stdout == b"mounted\n" and
                  file.read() == "mounted\n" and os.listdir(host) == ["mounted"], t.said(done))
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
        tap.check("port %d of the private network can be bound, %s" % (port, who),
                  done.stdout.startswith(b"bound\nbound\n") and
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


# ---- /dev/shm ----

def memory(place, tap, who):
    path = tempfile.mkdtemp(prefix="atoll-test-", dir="/dev/shm")
    try:
        os.chmod(path, 0o755)
        with open(path + "/f", "w", encoding="ascii") as file:
            file.write("old\n")
        t.give(path, place.uid(who))
        box = t.Box(place, who, dirs=[path])
        done = [box.new(), box.run("sh", "-c", "echo new > f; echo g > g; ls .. | wc -l", cwd=path)]
        tap.check("a user's own directory in /dev/shm needs no switch, %s" % who,
                  all(d.returncode == 0 for d in done) and done[1].stdout == b"1\n", *map(t.said, done))
        done = box.commit()
        with open(path + "/f", encoding="ascii") as file:
            tap.check("edits of it land, %s" % who, done.returncode == 0 and file.read() == "new\n" and
                      os.path.exists(path + "/g"), t.said(done))
        done = box.undo()
        with open(path + "/f", encoding="ascii") as file:
            tap.check("and are undone, %s" % who, done.returncode == 0 and file.read() == "old\n" and
                      not os.path.exists(path + "/g"), t.said(done))
        box.drop()
    finally:
        shutil.rmtree(path)
        for name in os.listdir("/dev/shm"):
            if name.startswith(".atoll-") and not os.listdir("/dev/shm/" + name):
                os.rmdir("/dev/shm/" + name)


# ---- the everyday form ----

def policies(place, tap, who):
    """atoll run --commit has the same options for refused changes as atoll commit."""
    for what, command, option, name in (("a link to the outside", "ln -s /root/secret out", "--allow-outside-links",
                                         "out"),
                                        ("a file that gains setuid", "cp /bin/true s; chmod 4755 s", "--allow-set-id",
                                         "s")):
        path = place.fresh("project", who)
        box = t.Box(place, who)
        done = box.atoll("run", "--commit", "--", "sh", "-c", command, cwd=path)
        tap.check("%s is refused after a run, and the option named, %s" % (what, who), done.returncode == 4 and
                  os.fsencode(option) in done.stderr and os.listdir(path) == [], t.said(done))
        done = box.atoll("run", "--commit", option, "--", "sh", "-c", command, cwd=path)
        tap.check("%s lands with %s, %s" % (what, option, who), done.returncode == 0 and os.listdir(path) == [name],
                  t.said(done))
        named = t.Box(place, who, dirs=[path], state=box.state)
        named.new()
        done = box.atoll("run", "--commit", option, "box", "--", "sh", "-c",
                         command.replace("out", "out2").replace(" s", " s2"), cwd=path)
        tap.check("%s lands with it in a sandbox that has a name too, %s" % (what, who), done.returncode == 0 and
                  sorted(os.listdir(path)) == [name, name + "2"], t.said(done))
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
    ways = (("both in one file", '"$@" >"$0/log" 2>&1'), ("appended", '"$@" >>"$0/log" 2>&1'),
            ("in two files", '"$@" >"$0/log" 2>"$0/errors"'), ("through pipes", '"$@" 2>&1 | cat >"$0/log"'))
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
            tap.check("a script writes to /dev/stdout and /dev/stderr, %s%s, %s" %
                      (what, " with " + options[0] if options else "", who),
                      "ermission denied" not in text and text.count("teed") >= 1 and "again" in text and
                      done.returncode == 0, text, t.said(done))
    box.drop()
    # The shell that opens the file again writes at its beginning, and Atoll's own position is still there.
    everyday = t.Box(place, who)
    done = everyday.command(["sh", "-c", '"$@" 2>"$0/errors"', logs, box.program, "run", "--discard", "--", "sh", "-c",
                             "echo a line of the command > /dev/stderr; touch ~/made made"], cwd=own)
    with open(logs + "/errors", encoding="utf-8") as file:
        lines = file.read().splitlines()
    tap.check("what Atoll says overwrites nothing of it, %s" % who, done.returncode == 0 and
              lines[0] == "a line of the command" and
              len(lines) > 2 and lines[-1] == "discarded" and any("discarded: 1 file" in line for line in lines), lines)
    everyday.drop()


# ---- programs that make sandboxes of their own ----

def bubblewrap(place, tap, who):
    if not t.has("bwrap"):
        return tap.skip("bubblewrap is refused with the reason, %s" % who, "it is not installed")
    box = t.Box(place, who, dirs=[place.fresh("own", who)])
    box.new()
    command = ("bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "true")
    for options in ((),) if who == "root" else ((), ("--userns",)):
        done = box.atoll("run", *options, "box", "--", *command)
        tap.check("bubblewrap is refused, and Atoll says why%s, %s" % (" with --userns" if options else "", who),
                  done.returncode != 0 and
                  b'"bwrap" does not work inside: it mounts filesystems' in done.stderr, t.said(done))
    done = box.run("echo", "bwrap")
    tap.check("another command gets no warning, %s" % who, done.returncode == 0 and done.stderr == b"", t.said(done))
    box.drop()
    return None


def main(place, tap):
    for who in place.users():
        for scene in (refused, scratch, ports, memory, policies, output, bubblewrap):
            if t.only("%s %s" % (scene.__name__, who)):
                scene(place, tap, who)
    if not place.is_root:
        return tap.skip("a sandbox over /etc", "needs root")
    if t.only("scratch root"):
        scratch_over_mounts(place, tap)
    if any(t.only(name + " root") for name in ("etc", "everyday", "nginx")):
        on_a_machine(place, tap)
    return None


t.run(main)
