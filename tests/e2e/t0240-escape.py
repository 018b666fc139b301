#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Attempts to get out (tests/lib/escapes.py and escapes_kernel.py), each in a process of its own,
by an ordinary user, by a user who is root inside, and by root. The test prints the wall that
stopped each attempt, which must be the wall that is meant to. Afterwards everything outside is as
it was."""
import ctypes
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import escapes  # noqa: E402
import escapes_kernel  # noqa: E402, F401: adds its own to escapes.ATTEMPTS

LIMITS = {"fork_without_end": ("--pids", "30"), "take_all_memory": ("--memory", "128M")}
SECRETS = {".ssh/id_test": "PRIVATE KEY", ".aws/credentials": "secret", ".config/gcloud/token": "secret", ".mozilla/logins.json": "secret",
           ".netrc": "password"}
SHM_KEY = 0x61746f6c
VICTIM = """
import signal
signal.signal(signal.SIGWINCH, lambda *_: exit(9))
print("ready", flush=True)
while True:
    signal.pause()
"""


class Outside:
    """What a command must not reach, and whether it did."""

    def __init__(self, place, who, inside):
        self.place, self.uid, self.inside = place, place.uid(who), inside
        self.who = who if inside == "self" else "%s as root inside" % who
        self.top = place.fresh("top", who)
        self.resource, self.beside = os.path.join(self.top, "resource"), os.path.join(self.top, "beside")
        self.canary = os.path.join(self.beside, "canary")
        for path in (self.resource, self.beside):
            os.mkdir(path)
        self.write(self.canary, "canary")
        self.write(os.path.join(self.resource, "inside"), "original")
        self.write(os.path.join(self.resource, "original-directory/file"), "original")
        self.box = t.Box(place, who, dirs=[self.resource], environment={
            "LD_PRELOAD": "", "LD_LIBRARY_PATH": "/nowhere", "GCONV_PATH": "/nowhere", "SSH_AUTH_SOCK": "/nowhere", "DOCKER_HOST": "unix:///nowhere",
            "XDG_RUNTIME_DIR": "/nowhere"})
        self.box.home = self.box.environment["HOME"] = place.fresh("home", who)
        for name, text in SECRETS.items():
            self.write(os.path.join(self.box.home, name), text)
        self.sockets = []
        self.tmp = os.path.join("/tmp", os.path.basename(place.root) + "-" + who + "-" + inside)
        paths = [os.path.join(self.beside, "s"), os.path.join(self.resource, "socket"), os.path.join(self.box.home, "socket"), self.tmp]
        for path in [*paths, "\0" + self.tmp]:
            self.listen(path)
        t.give(self.top, self.uid)
        t.give(self.box.home, self.uid)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.shm = "/dev/shm/" + os.path.basename(self.tmp)
        self.write(self.shm, "x")
        self.victims = [self.start_victim(), self.start_victim()]
        self.before = self.state()

    @staticmethod
    def write(path, text):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def listen(self, path):
        self.sockets.append(socket.socket(socket.AF_UNIX))
        old = os.getcwd()
        try:  # names of sockets are short
            if path[0] == "/":
                os.chdir(os.path.dirname(path))
                path = os.path.basename(path)
            self.sockets[-1].bind(path)
        finally:
            os.chdir(old)
        self.sockets[-1].listen()

    def start_victim(self):
        """Ends on the one signal that is nothing to others; the second one is in the process group in which atoll is started."""
        victim = subprocess.Popen([t.PYTHON, "-I", "-S", "-c", VICTIM], preexec_fn=lambda: os.setpgid(0, 0), stdout=subprocess.PIPE,
                                  **self.box.identity())
        victim.stdout.readline()
        return victim

    def state(self):
        return {"beside": self.listing(self.beside),
                "resource": self.listing(self.resource), "hostname": os.uname().nodename,
                "core_pattern": self.content("/proc/sys/kernel/core_pattern"), "modprobe": self.content("/proc/sys/kernel/modprobe"),
                "passwd": self.content("/etc/passwd"), "victims": [v.poll() for v in self.victims]}

    @staticmethod
    def content(path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError:
            return None

    def listing(self, top):
        found = []
        for path in sorted([top] + [os.path.join(top, name) for name in os.listdir(top)]):
            st = os.lstat(path)
            found.append((os.path.basename(path), st.st_mode, st.st_uid, st.st_size, st.st_mtime_ns, st.st_ino,
                          self.content(path) if os.path.isfile(path) else None, os.listxattr(path, follow_symlinks=False)))
        return found

    def context(self):
        disk = os.stat(self.top).st_dev
        return repr({"root": "root" in self.who, "beside": self.beside, "canary": self.canary, "resource": self.resource, "state": self.box.state,
                     "open_fd": 7, "victim": self.victims[0].pid, "marker": self.marker(), "port": self.server.getsockname()[1],
                     "abstract": self.tmp, "socket_beside": "../beside/s", "socket_tmp": self.tmp, "shm": self.shm, "shmkey": SHM_KEY,
                     "disk": (os.major(disk), os.minor(disk))})

    def marker(self):
        return "daemon-" + os.path.basename(self.tmp)

    def daemons(self):
        return [pid for pid in os.listdir("/proc") if pid.isdigit() and self.marker().encode() in (self.content("/proc/%s/cmdline" % pid) or b"")]

    def run(self, names):
        group = self.victims[1].pid

        def prepare():
            # A directory of the host that somebody forgot to close, and the process group of another program.
            os.dup2(os.open("/", os.O_RDONLY), 7)
            os.setpgid(0, group)

        with open(self.canary, "rb") as stdin:
            return self.box.atoll("run", self.box.name, "--user", self.inside, *LIMITS.get(names[0], ()), "--", t.PYTHON, "-I", "-S",
                                  os.path.join(self.place.lib, "escapes_kernel.py"), ",".join(names), self.context(),
                                  cwd=self.resource, stdin=stdin, close_fds=False, preexec_fn=prepare, timeout=60)

    def close(self):
        for victim in self.victims:
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            victim.stdout.close()
        for s in [*self.sockets, self.server]:
            s.close()
        for path in (self.tmp, self.shm):
            os.unlink(path)


def sysv_memory():
    libc = ctypes.CDLL(None, use_errno=True)
    return libc, libc.shmget(SHM_KEY, 4096, 0o1666)


def batches(names):
    """Ten in one run; what sends signals, or takes what the others need, alone."""
    alone = [name for name in names if re.search("signal|kill|daemon|fork|memory$", name)]
    others = [name for name in names if name not in alone]
    return [others[i:i + 10] for i in range(0, len(others), 10)] + [[name] for name in alone]


def judge(tap, name, said, done, who):
    title, by = name.replace("_", " "), escapes.ATTEMPTS[name][1]
    if b"cannot be limited here" in done.stderr:
        tap.skip("%s, %s" % (title, who), "this machine has no control group for that")
        return
    if b"more than the limit" in done.stderr:
        said = "stopped killed, as all of the run"
    tap.check("%s: %s, %s" % (title, said.split("(")[0].strip() or "nothing was said", who),
              said.startswith("stopped") and re.search(r"\b(%s)" % by, said), said, t.said(done), "meant to be stopped by " + by)


def all_attempts(tap, outside):
    who = outside.who
    try:
        made = outside.box.new()
        tap.check("a sandbox is made, %s" % who, made.returncode == 0, t.said(made))
        done = outside.box.atoll("run", outside.box.name, "--user", outside.inside, "--", "id", "-u")
        tap.check("the command is who it is meant to be, %s" % who, done.stdout == (b"0\n" if "root" in who else b"%d\n" % outside.uid), t.said(done))
        for names in batches([name for name in escapes.ATTEMPTS if t.only(name)]):
            done = outside.run(names)
            lines = dict(line.split("\t", 1) for line in done.stdout.decode(errors="replace").splitlines() if "\t" in line)
            for name in names:
                judge(tap, name, lines.get(name, ""), done, who)
        after = outside.state()
        for what, value in outside.before.items():
            tap.check("outside, the %s is as it was, %s" % (what, who), after[what] == value, value, after[what])
        tap.check("no process of the sandbox is left, %s" % who, not outside.daemons(), outside.daemons())
        done = outside.box.commit("--dry-run")
        tap.check("what was planted inside does not land without being asked for, %s" % who, done.returncode in (0, 4), t.said(done))
    finally:
        outside.close()
        outside.box.drop()


def main(place, tap):
    for name in ("escapes.py", "escapes_kernel.py"):
        shutil.copy(os.path.join(t.LIB, name), place.lib)
        os.chmod(os.path.join(place.lib, name), 0o644)
    libc, memory = sysv_memory()
    outsides = [Outside(place, who, "self") for who in place.users()] + [Outside(place, "user", "root")]
    try:
        t.parallel(lambda outside: all_attempts(tap, outside), outsides)
    finally:
        if memory >= 0:
            libc.shmctl(memory, 0, None)


t.run(main)
