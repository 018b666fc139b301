#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Tools as they come, at work inside: what they make is seen in the diff, lands, and works outside."""
import os
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

GIT = "git -c user.name=x -c user.email=x@example.org -c safe.directory='*' -c init.defaultBranch=main "
PATIENCE = 60


class Ground:
    """A sandbox over one directory, for one tool."""

    def __init__(self, place, tap, who):
        self.tap, self.who = tap, who
        self.path = place.fresh("project", who)
        self.box = t.Box(place, who, dirs=[self.path])

    def outside(self, script, **more):
        return self.box.command(["sh", "-ec", script], cwd=self.path, **more)

    def run(self, script, *options, **more):
        return self.box.atoll("run", *options, self.box.name, "--", "sh", "-ec", script, cwd=self.path, **more)

    def check(self, what, good, *diagnosis):
        self.tap.check("%s, %s" % (what, self.who), good, *[t.said(d) if hasattr(d, "returncode") else d for d in diagnosis])

    def lands(self, what, inside, proof, expected):
        """The original is untouched until the commit, and what landed works."""
        before = os.listdir(self.path)
        committed = self.box.commit()
        proven = self.outside(proof)
        self.check(what, inside.returncode == 0 and committed.returncode == 0 and proven.returncode == 0 and
                   expected in proven.stdout, "before: %r" % before, inside, committed, proven)


def git(g):
    g.outside(GIT + "init -q; mkdir src; echo one > src/a; echo two > b; " + GIT + "add .; " + GIT + "commit -qm first")
    g.box.new()
    done = g.run(GIT + "checkout -qb topic; " + GIT + "mv src lib; echo more >> b; " + GIT + "commit -qam moved; " + GIT +
                 "checkout -q main; echo other > c; " + GIT + "add c; " + GIT + "commit -qm c; " + GIT + "merge -q --no-edit topic; " +
                 GIT + "tag v1; " + GIT + "stash list; " + GIT + "gc -q; " + GIT + "worktree add -q wt topic; " + GIT + "status --porcelain")
    g.lands("git: branches, mv, merge, tag, gc, worktree", done,
            GIT + "fsck --strict; " + GIT + "log --oneline | wc -l; test -e lib/a; " + GIT + "status --porcelain -uno; cat c", b"4\nother\n")


def make(g):
    g.outside("""printf 'int answer(void);\nint main(void) { return answer() - 42; }\n' > main.c
printf 'int answer(void) { return 41; }\n' > answer.c
printf 'prog: main.o answer.o\n\tgcc -o $@ $^\n%%.o: %%.c\n\tgcc -c -o $@ $<\nclean:\n\trm -f prog *.o\n' > Makefile; make >/dev/null""")
    g.box.new()
    done = g.run("make -j2; sed -i s/41/42/ answer.c; make -j2; ./prog; make -q")
    g.lands("gcc and make: what is old is made again, what is new is not", done, "make -q; ./prog && echo works", b"works")


def venv(g):
    g.box.new()
    pip = "" if t.TORTURE and g.outside("/usr/bin/python3 -c 'import ensurepip'").returncode == 0 else "--without-pip"
    done = g.run("/usr/bin/python3 -m venv %s v; v/bin/python -c 'import sys; open(\"out\", \"w\").write(sys.prefix)'" % pip)
    g.lands("python: a venv", done, "v/bin/python -c 'import sys; print(sys.prefix == open(\"out\").read())'", b"True")


def reachable(g, command):
    try:
        return g.outside(command, timeout=30).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def npm(g):
    if not reachable(g, "npm view is-number version"):
        g.tap.skip("npm install, %s" % g.who, "the registry of npm is not reachable")
        return
    g.box.new()
    shut = g.run("npm install is-number@7 --no-audit --no-fund --fetch-retries=0", "--net", "none")
    g.check("npm install without a network fails and says why", shut.returncode != 0 and b"network" in shut.stderr, shut)
    done = g.run("npm install is-number@7 --no-audit --no-fund; node -p 'require(\"is-number\")(5)'", "--net", "host")
    g.lands("npm install from the registry", done, "node -p 'require(\"is-number\")(\"5\")'; ls package.json package-lock.json", b"true\n")


def apt(g):
    if not reachable(g, "mkdir probe; cd probe; apt-get download hello; rm -r ../probe"):
        g.tap.skip("apt-get download, %s" % g.who, "the registry of Debian is not reachable, or apt-get has no lists")
        return
    g.box.new()
    done = g.run("apt-get -q download hello; dpkg -x hello_*.deb tree; tree/usr/bin/hello", "--net", "host")
    g.lands("apt-get download", done, "dpkg --info hello_*.deb; tree/usr/bin/hello", b"Hello, world!")


DPKG = "PATH=$PATH:/sbin:/usr/sbin dpkg --root=root --log=/dev/null --force-not-root --force-script-chrootless "


def dpkg(g):
    g.outside("""mkdir -p pkg/DEBIAN pkg/usr/bin pkg/usr/share/doc/hi; echo 'echo hi' > pkg/usr/bin/hi; echo 1 > pkg/usr/share/doc/hi/doc
printf 'Package: hi\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n' > pkg/DEBIAN/control
chmod -R g-s pkg; dpkg-deb --root-owner-group -b pkg hi.deb >/dev/null; rm -r pkg
mkdir -p root/var/lib/dpkg/updates root/var/lib/dpkg/info; touch root/var/lib/dpkg/status""")
    for g.box.strategy in ("overlay", "copy_on_write"):
        g.box.new()
        done = g.run(DPKG + "-i hi.deb")
        g.lands("dpkg installs, %s" % g.box.strategy, done, "sh root/usr/bin/hi; " + DPKG + "-s hi", b"install ok installed")
        done = g.run(DPKG + "-P hi")
        g.lands("dpkg purges, %s" % g.box.strategy, done, "test ! -e root/usr/share/doc/hi; echo gone", b"gone")
        back = [g.box.undo(), g.box.undo()]
        g.check("dpkg: both come back, %s" % g.box.strategy, not any(d.returncode for d in back) and not os.path.exists(g.path + "/root/usr"), *back)
        g.box.rm()


def web(g):
    with open(g.path + "/page", "w", encoding="ascii") as file:
        file.write("old\n")
    g.box.new()
    wait = "for i in $(seq 600); do curl -sf http://localhost:8123/page && break; sleep 0.1; done"
    done = g.run("echo new > page; /usr/bin/python3 -m http.server --bind 127.0.0.1 8123 >/dev/null 2>&1 & " + wait)
    g.check("a web server and its client in one run", done.returncode == 0 and done.stdout == b"new\n", done)
    started = g.box.atoll("run", "--detach", g.box.name, "--", "/usr/bin/python3", "-m", "http.server", "--bind", "127.0.0.1", "8123",
                          cwd=g.path)
    done = g.run(wait)
    killed = g.box.atoll("kill", g.box.name)
    g.check("and in two at the same time", started.returncode == 0 and done.stdout == b"new\n" and killed.returncode == 0,
            started, done, killed)
    gone = g.outside("! curl -sf http://localhost:8123/page")
    g.check("which the host does not reach", gone.returncode == 0, gone)


def screen(tmux):
    return tmux("capture-pane", "-p").stdout


def wait_for(condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def vim(g):
    with open(g.path + "/text", "w", encoding="ascii") as file:
        file.write("first line\n")
    if g.box.place.is_root:
        os.chown(g.path + "/text", g.box.place.uid(g.who), g.box.place.uid(g.who))
    g.box.new()
    socket = os.path.join(g.box.home, "tmux")

    def tmux(*arguments):
        return g.box.command(["tmux", "-f", "/dev/null", "-S", socket, *arguments], cwd=g.path,
                             program_environment={"TERM": "xterm", "SHELL": "/bin/sh"})

    command = "%s run %s -- vim -u NONE -N text; echo ended $?; sleep 1000" % (g.box.program, g.box.name)
    started = tmux("new-session", "-d", "-x", "80", "-y", "24", command)
    try:
        shown = wait_for(lambda: b"first line" in screen(tmux))
        tmux("send-keys", "o", "second line", "Escape")
        typed = wait_for(lambda: b"second line" in screen(tmux))
        tmux("resize-window", "-x", "100", "-y", "30")
        resized = wait_for(lambda: tmux("send-keys", ":set columns?", "Enter").returncode == 0 and b"columns=100" in screen(tmux))
        tmux("send-keys", ":wq", "Enter")
        ended = wait_for(lambda: b"ended 0" in screen(tmux))
        g.check("vim on a terminal: keys, a change of size, and its end", started.returncode == 0 and shown and typed and resized and ended,
                started, shown, typed, resized, ended, screen(tmux))
    finally:
        tmux("kill-server")
    g.lands("and what was written lands", g.run("true"), "cat text", b"first line\nsecond line\n")


NEEDS = {git: "git", make: "make", npm: "npm", apt: "apt-get", dpkg: "dpkg-deb", web: "curl", vim: "vim"}


def main(place, tap):
    for who in place.users():
        for tool in (git, make, venv, npm, apt, dpkg, web, vim):
            if not t.only(tool.__name__):
                continue
            if shutil.which(NEEDS.get(tool, "sh")) is None:
                tap.skip("%s, %s" % (tool.__name__, who), "there is no %s" % NEEDS[tool])
                continue
            ground = Ground(place, tap, who)
            tool(ground)
            ground.box.drop()


t.run(main)
