#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Settings from config files and from the sandbox: which one counts, what `atoll config` says of it, what is refused."""
import json
import os
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["stamp_all", 1000000000]]
SHOW = ("sh", "-c", 'echo "$A|$B|$C|$D"; ulimit -Hn')


class Ground:
    def __init__(self, place, tap, who):
        self.place, self.tap, self.who = place, tap, who
        self.path = t.build_tree(place, who, BASE)
        self.config_home = place.fresh("config", who)
        self.user_file = self.write(os.path.join(self.config_home, "atoll", "config"), "")
        self.box = t.Box(place, who, dirs=[self.path], environment={"XDG_CONFIG_HOME": self.config_home})

    def write(self, path, text, mode=0o644):
        os.makedirs(os.path.dirname(path), 0o755, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        if self.place.is_root and path.startswith(self.config_home):
            t.give(self.config_home, self.place.uid(self.who))
        return path

    def check(self, what, good, *diagnosis):
        self.tap.check("%s, %s" % (what, self.who), good, *diagnosis)

    def run(self, *options, **more):
        return self.box.atoll("run", "box", *options, "--", *SHOW, cwd=self.path, **more)

    def effective(self, *arguments):
        done = self.box.atoll("config", "--json", *arguments)
        return [(s["name"], s["value"], s["source"]) for s in json.loads(done.stdout)] if done.returncode == 0 else t.said(done)

    def close(self):
        self.box.drop()
        t.remove_tree(self.path)


def system_file(place, text):
    """/etc/atoll/config, in the mount namespace of this suite alone."""
    upper, work = place.fresh("upper"), place.fresh("work")
    subprocess.run(["mount", "-t", "overlay", "-o", "lowerdir=/etc,upperdir=%s,workdir=%s" % (upper, work), "overlay", "/etc"], check=True)
    place.mounts.append("/etc")
    os.makedirs("/etc/atoll", 0o755, exist_ok=True)
    with open("/etc/atoll/config", "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod("/etc/atoll/config", 0o644)


def precedence(g):
    g.write(g.user_file, "# mine\n[run]\nenv = B=user\nenv = C=user\n env=D=kept as it is \nnofile = 200\ntimeout=\"1h\"\n")
    made = g.box.new("--env", "C=box", "--nofile", "150")
    done = g.run()
    first = b"system|" if g.place.is_root else b"|"
    g.check("the sandbox's settings win over the user's file, and that over the system's", made.returncode == 0 and
            done.stdout == first + b"user|box|kept as it is\n150\n", t.said(done), t.said(made))
    done = g.run("--nofile", "100", "--env", "C=option")
    g.check("an option wins over all of them", done.stdout == first + b"user|option|kept as it is\n100\n", t.said(done))
    extra = g.write(g.config_home + "/extra", "[run]\nnofile = 99\nenv = D=extra\n")
    done = g.run("--config", extra)
    g.check("--config comes after the standard files and before the sandbox", done.stdout == first + b"user|box|extra\n150\n", t.said(done))
    found = g.effective()
    wanted = [("nofile", "200", g.user_file + ":6"), ("timeout", "1h", g.user_file + ":7"), ("env", "B=user", g.user_file + ":3"),
              ("cwd", ".", "default"), ("clear-env", "no", "default"), ("env-file", None, "default")]
    if g.place.is_root:
        wanted.append(("env", "A=system", "/etc/atoll/config:2"))
    g.check("config says where each value comes from", all(w in found for w in wanted), found)
    found = g.effective("box")
    wanted = [("nofile", "150", "sandbox box"), ("env", "C=box", "sandbox box"), ("env", "C=user", g.user_file + ":4")]
    g.check("config NAME knows what is kept with the sandbox", all(w in found for w in wanted) and
            ("nofile", "200", g.user_file + ":6") not in found, found)
    text = g.box.atoll("config", "box").stdout.decode()
    g.check("and prints it for people", any(line.split() == ["nofile", "150", "sandbox", "box"] for line in text.splitlines()), text)
    shown = g.box.atoll("show", "box").stdout
    as_json = json.loads(g.box.atoll("show", "box", "--json").stdout)
    g.check("show lists what is kept", b"C=box" in shown and {"name": "nofile", "value": "150"} in as_json["settings"], shown, as_json)


def kept(g):
    """What is stored comes back byte by byte, from any directory."""
    odd = "A=new\nline \\n back\\slash \" quote \udcff ="
    made = g.box.new("--env", odd, "--cwd", "sub", "--timeout", "2s", cwd=g.path)
    os.mkdir(g.path + "/sub")
    t.give(g.path, g.place.uid(g.who))
    done = g.box.atoll("run", "box", "--", "sh", "-c", 'printf %s "$A"; pwd', cwd="/")
    g.check("odd bytes and a relative path are kept as they were meant", done.stdout == os.fsencode(odd)[2:] + os.fsencode(g.path + "/sub\n"),
            t.said(done), t.said(made))
    done = g.box.atoll("run", "box", "--", "sleep", "30", cwd="/")
    g.check("a kept time limit holds", done.returncode == 124, t.said(done))
    refused = g.box.atoll("new", "other", "--dir", g.path, "--timeout", "0")
    listed = g.box.atoll("list", "-q").stdout
    g.check("an absurd value is refused at new, and nothing is made", refused.returncode == 2 and b"timeout" in refused.stderr and
            listed == b"box\n", t.said(refused), listed)


def bad_files(g):
    g.box.new()
    table = [("an unknown key", "[run]\nfrobnicate = 1\n", ":2: there is no setting \"frobnicate\""),
             ("an absurd value", "[run]\n\ntimeout = -1\n", ":3: timeout"),
             ("an unknown section", "[jail]\n", ":1: an unknown section"),
             ("a setting before its section", "timeout = 1\n", ":1: a setting before"),
             ("a line that is none", "[run]\nhello\n", ":2: neither"),
             ("open quotes", "[run]\nenv = \"A=b\n", ":2: the quotes"),
             ("text after quotes", "[run]\nenv = \"A=b\" c\n", ":2: the quotes"),
             ("a relative path", "[run]\ncwd = sub\n", ":2: a path must begin"),
             ("a NUL byte", "[run]\nenv = A=\0\n", "NUL"),
             ("two million bytes", "#" * 2000000, "too large")]
    for what, text, named in table:
        g.write(g.user_file, text)
        done, shown = g.run(), g.box.atoll("config")
        good = all(d.returncode == c and len(d.stderr.splitlines()) == 1 and named.encode() in d.stderr and not d.stdout
                   for d, c in ((done, 125), (shown, 2)))
        g.check("%s in the config file: one line that says where" % what, good, t.said(done), t.said(shown))
    g.write(g.user_file, "[run]\nnofile = 77\n", 0o666)
    done = g.run()
    g.check("a config file that others may write is refused", done.returncode == 125 and b"written by others" in done.stderr, t.said(done))
    g.write(g.user_file, "[run]\nenv = \"A=  quoted \\\"x\\\" \"\r\n; a comment\n  nofile  =  77  \n")
    done = g.run()
    g.check("quotes keep blanks, other blanks do not count", done.stdout == b'  quoted "x" |||\n77\n', t.said(done))
    if g.place.is_root and g.who != "root":
        os.chown(g.user_file, 12345, 12345)
        done = g.run()
        g.check("a config file of somebody else is refused", done.returncode == 125 and b"somebody else" in done.stderr, t.said(done))
    g.write(g.user_file, "[run]\nhide = /does/not/exist\nhide = ~/.nothing\nnofile = 77\n")
    done = g.run()
    g.check("a config file may hide what is not there", done.returncode == 0 and done.stdout.endswith(b"77\n"), t.said(done))
    os.unlink(g.user_file)
    done = g.run("--config", g.user_file)
    g.check("a file that is named must be there", done.returncode == 125 and b"no config file" in done.stderr, t.said(done))
    os.mkfifo(g.user_file)
    t.give(g.config_home, g.place.uid(g.who))
    done = g.run(timeout=20)
    g.check("a FIFO is no config file, and nobody waits for it", done.returncode == 125 and b"regular" in done.stderr, t.said(done))
    os.unlink(g.user_file)
    planted = g.write(g.path + "/.atoll", "[run]\nnofile = 66\n")
    for name in ("atoll.conf", ".atoll.conf", "config", "atoll/config"):
        g.write(os.path.join(g.path, name), "[run]\nnofile = 66\n")
    done = g.run()
    g.check("nothing is read from the directory it runs in", done.returncode == 0 and not done.stdout.endswith(b"66\n"), t.said(done), planted)


def main(place, tap):
    if place.is_root:
        system_file(place, "[run]\nenv = A=system\n")
    for who in place.users():
        for part in (precedence, kept, bad_files):
            if t.only(part.__name__):
                ground = Ground(place, tap, who)
                part(ground)
                ground.close()


t.run(main)
