#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Commands that a keeper runs for whoever asks: they are to be told from others by nothing but their speed."""
import os
import resource
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import end, start, started, wait_until  # noqa: E402

# Somebody who speaks to a keeper as no version of the program does: what is sent, how many fds with it, and what comes back.
RAW = """
import array, os, socket, struct, sys
version, case, path = sys.argv[1:]
def connect(block=True):
    s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    s.setblocking(block)
    here = os.open(os.path.dirname(path), os.O_PATH)
    try:
        s.connect("/proc/self/fd/%d/%s" % (here, os.path.basename(path)))
    finally:
        os.close(here)
    return s
if case == "crowd":
    crowd = []
    try:
        while len(crowd) < 100:
            crowd.append(connect(False))
    except BlockingIOError:
        pass
    print(len(crowd))
    sys.exit()
s = connect()
s.settimeout(10)
assert s.recv(1) == b"!"
whole = struct.pack("=32sQI4x", version.encode(), 0, 1) + struct.pack("=IIIIQQ", 0, 2, 0, 0, 0, 0) + b"/\\0touch\\0" + os.getcwd().encode() + b"/raw\\0"
data, n = {"nothing": (b"", 0), "fds": (b"x", 3), "garbage": (os.urandom(4096), 3), "half": (whole[:len(whole) // 2], 3), "bare": (whole, 0),
           "few": (whole, 2), "four": (whole, 4), "many": (whole, 200), "long": (whole + bytes(60000), 3), "leaves": (b"", -1)}[case]
if n >= 0:
    s.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * n))] if n else [])
    try:
        print(len(s.recv(65536)))
    except ConnectionError:
        print(0)
"""

BASE = [["create", "f", "content\n", 0o644], ["mkdir", "d", 0o755], ["create", "d/g", "inner\n", 0o644], ["stamp_all", 1000000000]]
HERE = ("readlink", "/proc/self/ns/pid")


class Kept:
    """A sandbox with a keeper that serves."""

    def __init__(self, place, who, strategy=None):
        self.path = t.build_tree(place, who, BASE)
        self.box = t.Box(place, who, strategy, dirs=[self.path])
        self.box.new()
        self.keep()

    def keep(self):
        done = self.box.atoll("run", "--keep-alive", "300", self.box.name, "--", "true", cwd=self.path)
        assert done.returncode == 0, t.said(done)
        self.where = self.run(*HERE).stdout

    def run(self, *argv, **more):
        return self.box.run(*argv, **{"cwd": self.path, **more})

    def sh(self, script, **more):
        return self.run("sh", "-c", script, **more)

    def otherwise(self, *argv, **more):
        """The same command by itself: an option makes it so."""
        return self.box.atoll("run", "--env", "OF=itself", self.box.name, "--", *argv, **{"cwd": self.path, **more})

    def is_served(self):
        return self.where and self.run(*HERE).stdout == self.where

    def keeper(self):
        """Outside, the father of pid 1."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    words = file.read().split(b"\0")
                with open("/proc/%s/environ" % pid, "rb") as file:
                    ours = ("ATOLL_STATE_DIR=" + self.box.state).encode() in file.read().split(b"\0")
                with open("/proc/%s/status" % pid, encoding="ascii", errors="replace") as file:
                    status = file.read()
            except OSError:
                continue
            if ours and b"--keep-alive" in words and "NSpid:\t%s\n" % pid in status:
                return int(pid)
        return None

    def first(self):
        """Pid 1 of the keeper, and its child: the command, or the spare process."""
        found = [self.keeper()]
        for _ in range(2):
            name = "/proc/%d/task/%d/children" % (found[-1], found[-1])
            wait_until(lambda name=name: read(name))
            found.append(int(read(name).split()[0]))
        return found[1:]

    def raw(self, case):
        version = self.box.atoll("--version").stdout.decode().split()[-1]
        done = self.box.command([t.PYTHON, "-c", RAW, version, case, "%s/live/%s" % (self.box.state, self.box.name)], cwd=self.path)
        return done.stdout.decode().strip() if done.returncode == 0 else t.said(done)

    def close(self):
        self.box.drop()
        t.remove_tree(self.path)


def is_there(word):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                if word.encode() in file.read().split(b"\0"):
                    return True
        except OSError:
            pass
    return False


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def ordinary_things(place, tap, who, strategy):
    kept = Kept(place, who, strategy)
    what = ", %s, %s" % (strategy, who)
    tap.check("runs without options share the pid namespace of the keeper" + what, kept.is_served() and kept.is_served())
    tap.check("with options they have their own" + what, kept.otherwise(*HERE).stdout not in (b"", kept.where))
    named = kept.box.atoll("run", "--state-dir", kept.box.state, kept.box.name, "--", *HERE, cwd=kept.path)
    tap.check("who asks by way of the library is served too" + what, named.stdout == kept.where, t.said(named))
    data = os.urandom(1 << 20)
    done = kept.box.command([kept.box.program, "run", kept.box.name, "--", "sh", "-c", "cat; echo error >&2"], cwd=kept.path, stdin=None,
                            input=data)
    tap.check("input and output are byte for byte" + what, done.stdout == data and done.stderr == b"error\n", len(done.stdout), done.stderr)
    for argv in (("sh", "-c", "exit 7"), ("/nowhere/at/all",), ("/",), ("sh", "-c", "kill -9 $$"), ("sh", "-c", "kill -TERM $$")):
        one, other = kept.run(*argv), kept.otherwise(*argv)
        tap.check("%s ends as by itself%s" % (" ".join(argv), what),
                  (one.returncode, one.stdout, one.stderr) == (other.returncode, other.stdout, other.stderr), t.said(one), t.said(other))
    one = kept.sh("pwd; cat f; echo more > f; mv d e && cat e/g")
    tap.check("it works in the sandbox, where it was started, and may move directories" + what,
              one.stdout.decode() == kept.path + "\ncontent\ninner\n", t.said(one))
    lost = place.fresh("lost", who, below="/tmp")
    one, other = kept.run("true", cwd=lost), kept.otherwise("true", cwd=lost)
    t.remove_tree(lost)
    tap.check("a directory that is not there inside is told as by itself" + what,
              (one.returncode, one.stderr) == (other.returncode, other.stderr) and one.returncode == 125, t.said(one), t.said(other))
    tap.check("and the next is served" + what, kept.is_served())
    listed = kept.box.atoll("ps", kept.box.name, "--all").stdout.decode()
    tap.check("they are on record" + what, "exited 7" in listed and "killed" in listed.lower() and "cat f" in listed, listed)
    done = [kept.box.commit(), kept.box.diff()]
    tap.check("their edits are committed, without a word of the keeper" + what,
              done[0].returncode == 0 and b"no changes" in done[1].stdout and read(kept.path + "/f") == "more\n" and
              read(kept.path + "/e/g") == "inner\n" and wait_until(lambda: not kept.keeper()), *[t.said(d) for d in done])
    kept.close()


def likeness(place, tap, who):
    """What a command gets from whoever started it, it gets."""
    kept = Kept(place, who)
    what = ", %s" % who
    done = kept.sh("umask; grep SigIgn /proc/self/status", preexec_fn=lambda: (os.umask(0o27), signal.signal(signal.SIGUSR1, signal.SIG_IGN)))
    tap.check("file mode mask and ignored signals" + what, b"0027" in done.stdout and int(done.stdout.split()[-1], 16) & 1 << 9,
              t.said(done))
    again = kept.sh("umask; grep SigIgn /proc/self/status")
    tap.check("and the next has its own" + what, b"0022" in again.stdout and not int(again.stdout.split()[-1], 16) & 1 << 9, t.said(again))
    done = kept.sh("echo $A $DISPLAY $LD_X", program_environment={"A": "1", "DISPLAY": ":0", "LD_X": "y"})
    tap.check("the environment, without what is not for inside" + what, done.stdout == b"1\n", t.said(done))
    for name, prepare, script, wanted in (
            ("open files", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (77, 77)), "ulimit -n", "77"),
            ("niceness", lambda: os.nice(5), "nice", str(min(19, os.nice(0) + 5))),
            ("processors", lambda: os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}), "nproc", "1")):
        done = kept.sh(script + "; readlink /proc/self/ns/pid", preexec_fn=prepare).stdout.decode().split()
        tap.check("%s: one who is not alike is not served, and has what is his%s" % (name, what),
                  done[0] == wanted and (done[1] != kept.where.decode().strip() or name == "processors" and os.cpu_count() == 1), done)
    config = os.path.join(kept.box.home, ".config", "atoll", "config")
    os.makedirs(os.path.dirname(config), exist_ok=True)
    with open(config, "w", encoding="ascii") as file:
        file.write("[run]\nenv = FROM=config\n")
    if place.is_root:
        t.give(os.path.join(kept.box.home, ".config"), place.uid(who))
    done = kept.sh("echo $FROM")
    t.remove_tree(os.path.join(kept.box.home, ".config"))
    tap.check("a config file counts" + what, done.stdout == b"config\n", t.said(done))
    with open(kept.path + "/log", "wb") as log:
        if place.is_root:
            os.chown(kept.path + "/log", place.uid(who), place.uid(who))
        done = subprocess.run([kept.box.program, "run", kept.box.name, "--", "echo", "x"], cwd=kept.path, env=kept.box.environment,
                              stdout=log, stderr=subprocess.PIPE, check=False, **kept.box.identity())
    tap.check("output that goes past the sandbox is warned of" + what, b"outside the sandbox" in done.stderr, done.stderr)
    directory = os.open(kept.path, os.O_RDONLY)
    done = kept.run("true", stdin=directory)
    os.close(directory)
    tap.check("a directory of the host is not handed in" + what, done.returncode == 125 and b"directory" in done.stderr, t.said(done))
    done = kept.run(t.PYTHON, "-c", "import socket; socket.create_connection(('192.0.2.1', 9), 1)")
    tap.check("who wanted network is told why there is none" + what, done.returncode == 1 and b"--net" in done.stderr, t.said(done))
    seen = kept.sh("cat /proc/1/environ /proc/1/maps; readlink /proc/1/exe /proc/1/root /proc/1/fd/*; ls /proc/self/fd | wc -l")
    tap.check("pid 1 lets nobody look into it, and nothing of the keeper is open" + what, seen.stdout == b"4\n", t.said(seen))
    kept.close()


def ends(place, tap, who):
    """However a run ends, nothing of it is left, and only one who was killed ends the keeper."""
    kept = Kept(place, who)
    what, mark = ", %s" % who, "5%d" % (os.getpid() + 1000000)
    kept.sh("(setsid sleep %s1 &) ; (trap '' TERM HUP; setsid sleep %s1) & sleep 0.1" % (mark, mark))
    tap.check("when a run has returned its last process has ended" + what, not is_there(mark + "1"))
    run = start(kept.box, kept.path, "echo up; (setsid sleep %s2 &); sleep %s2" % (mark, mark))
    started(run)
    listed = kept.box.atoll("ps", kept.box.name).stdout.decode()
    busy = kept.box.commit()
    run.kill()
    run.communicate()
    tap.check("while it runs it is listed, and nothing is committed" + what, "echo up" in listed and busy.returncode == 6, listed, t.said(busy))
    tap.check("when whoever asked is killed everything of it ends" + what, wait_until(lambda: not is_there(mark + "2")))
    tap.check("and the next is served" + what, wait_until(kept.is_served))
    run = start(kept.box, kept.path, "trap 'echo got; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    started(run)
    run.terminate()
    code, out, err = end(run)
    tap.check("signals are passed on" + what, (code, out) == (3, "got\n"), code, out, err)
    run = start(kept.box, kept.path, "echo up; sleep %s3" % mark)
    started(run)
    done = kept.box.atoll("kill", kept.box.name)
    code = end(run)[0]
    tap.check("kill ends it" + what, done.returncode == 0 and code == 143 and not is_there(mark + "3") and kept.is_served(), t.said(done), code)
    run = start(kept.box, kept.path, "echo up; (setsid sleep %s4 &); sleep %s4" % (mark, mark))
    started(run)
    os.kill(kept.keeper(), signal.SIGKILL)
    code, out, err = end(run)
    tap.check("when the keeper is killed the run ends with it, and that is said" + what, code == 137 and "killed from outside" in err and
              wait_until(lambda: not is_there(mark + "4")), code, out, err)
    done = kept.sh("echo still > f; cat f")
    tap.check("the next goes by itself" + what, done.stdout == b"still\n", t.said(done))
    kept.keep()
    tap.check("until there is another keeper" + what, kept.is_served())
    keeper = kept.keeper()
    os.kill(keeper, signal.SIGSTOP)
    done = kept.sh("echo once >> once; cat once")
    os.kill(keeper, signal.SIGCONT)
    time.sleep(0.2)
    after = kept.sh("cat once")
    tap.check("one that does not answer is not waited for, and does nothing later" + what,
              done.stdout == after.stdout == b"once\n", t.said(done), t.said(after))
    with open(kept.path + "/f", "a", encoding="ascii") as file:
        file.write("foreign\n")
    done = kept.box.commit()
    tap.check("a foreign edit of what such a run has touched is a conflict" + what, done.returncode == 3, t.said(done))
    kept.box.rm()
    tap.check("with the sandbox its socket is gone" + what, not os.path.exists(kept.box.state + "/live"))
    kept.close()


def many(place, tap, who):
    kept = Kept(place, who)
    what = ", %s" % who
    codes = t.parallel(lambda i: kept.sh("echo %d >> all; exit %d" % (i, i % 7)).returncode, range(60), workers=6)
    lines = sorted(int(x) for x in kept.sh("cat all").stdout.split())
    tap.check("many at once: each runs once and gets its own status" + what, list(codes) == [i % 7 for i in range(60)] and lines == list(range(60)),
              codes, lines)
    turns = 0
    for i in range(20):
        kept.sh("echo %d > turn" % i)
        done = kept.box.commit()
        turns += done.returncode == 0 and read(kept.path + "/turn") == "%d\n" % i
        kept.keep()
    tap.check("run, commit, run: a keeper is in nobody's way" + what, turns == 20, turns)
    kept.close()


def settled(value):
    """What it is when it has been the same for half a second: the next spare process may just be getting ready."""
    last, times = value(), 0
    while times < 10:
        time.sleep(0.05)
        now = value()
        last, times = now, times + 1 if now == last else 0
    return last


def strangers(place, tap, who):
    """Whatever is said to a keeper, it goes on, and keeps nothing of it."""
    kept = Kept(place, who)
    what = ", %s" % who
    fds = "/proc/%d/fd" % kept.keeper()
    before = settled(lambda: len(os.listdir(fds)))
    for case in ("nothing", "fds", "garbage", "half", "bare", "few", "four", "many", "long", "leaves"):
        heard = kept.raw(case)
        tap.check("%s: nothing is run, and the next is served%s" % (case, what), heard == ("" if case == "leaves" else "0") and kept.is_served() and
                  kept.sh("ls raw").stdout == b"", heard)
    tap.check("nothing of them is left open" + what, wait_until(lambda: len(os.listdir(fds)) == before), before, os.listdir(fds))
    done = kept.box.command(["sh", "-c", 'exec "$0" run "$1" -- readlink /proc/self/fd/0 <&-', kept.box.program, kept.box.name], cwd=kept.path)
    tap.check("who has no standard input does not hand in another fd" + what, done.stdout == b"/dev/null\n", t.said(done))
    keeper = kept.keeper()
    os.kill(keeper, signal.SIGSTOP)
    crowd = kept.raw("crowd")
    begun = time.monotonic()
    done = kept.box.command(["timeout", "30", kept.box.program, "run", kept.box.name, "--", "echo", "x"], cwd=kept.path)
    more = kept.box.command(["timeout", "30", kept.box.program, "run", "--state-dir", kept.box.state, kept.box.name, "--", "echo", "x"], cwd=kept.path)
    os.kill(keeper, signal.SIGCONT)
    tap.check("one that is stopped, before which many wait, holds up nobody" + what, done.stdout == more.stdout == b"x\n" and
              crowd.isdigit() and 0 < int(crowd) < 100, crowd, t.said(done), t.said(more), time.monotonic() - begun)
    tap.check("and it gets on with the next" + what, wait_until(kept.is_served))
    kept.close()


def stale(place, tap, who):
    """What was meant for one command, or done by it, does not reach the next."""
    kept = Kept(place, who)
    what, mark = ", %s" % who, "6%d" % (os.getpid() + 1000000)
    run = start(kept.box, kept.path, "echo up; exec sleep 100")
    started(run)
    first, command = kept.first()
    os.kill(first, signal.SIGSTOP)
    os.kill(command, signal.SIGKILL)
    run.terminate()
    time.sleep(0.3)
    os.kill(first, signal.SIGCONT)
    code = end(run)[0]
    done = kept.sh("sleep 0.2; echo alive")
    tap.check("a signal that comes when the command has ended" + what, code == 137 and done.stdout == b"alive\n" and kept.is_served(), code, t.said(done))
    hostile = ("import ctypes, os, time\nif os.fork() == 0:\n while True: ctypes.CDLL(None).sigqueue(1, %d, ctypes.c_void_p(%d))\n"
               "time.sleep(0.1)" % (signal.SIGRTMAX, signal.SIGKILL))
    kept.run(t.PYTHON, "-c", hostile)
    done = [kept.sh("sleep 0.05; echo alive") for _ in range(3)]
    tap.check("signals that a command sends to pid 1 in the name of others" + what, [d.stdout for d in done] == 3 * [b"alive\n"] and kept.is_served(),
              *[t.said(d) for d in done])
    spare = kept.first()[1]
    os.kill(spare, signal.SIGSTOP)
    run = start(kept.box, kept.path, "echo ran > ghost")
    wait_until(lambda: "ghost" in kept.box.atoll("ps", kept.box.name).stdout.decode())
    os.kill(spare, signal.SIGKILL)
    code = end(run)[0]
    time.sleep(0.3)
    done = kept.sh("ls ghost")
    tap.check("a request that was not taken before its end was told is not run" + what, code == 137 and done.stdout == b"" and kept.is_served(),
              code, t.said(done))
    kept.run(t.PYTHON, "-c", "import resource; resource.prlimit(1, resource.RLIMIT_NOFILE, (20, 20))")
    done = kept.sh("ulimit -n")
    tap.check("limits of pid 1 that a command has changed" + what, done.stdout.strip() == b"%d" % resource.getrlimit(resource.RLIMIT_NOFILE)[0],
              t.said(done))
    wait_until(lambda: not kept.keeper())
    kept.keep()
    done = kept.run("setsid", "sh", "-c", "sleep 0.2; echo ran")
    tap.check("a command leads no process group, and can make a session" + what, done.stdout == b"ran\n", t.said(done))
    run = start(kept.box, kept.path, "echo up; for i in $(seq 100); do sleep %s & done; echo; wait" % mark)
    started(run)
    time.sleep(0.3)
    os.kill(kept.first()[0], signal.SIGKILL)
    code, _, err = end(run)
    tap.check("when pid 1 was killed, that is said after everything has ended" + what, code == 137 and not is_there(mark), code, err)
    kept.keep()
    os.kill(kept.first()[1], signal.SIGKILL)
    gone = wait_until(lambda: not kept.keeper())
    done = kept.sh("echo alive")
    tap.check("without its spare process a keeper goes" + what, gone and done.stdout == b"alive\n", t.said(done))
    kept.close()


def neighbours(place, tap, who):
    """Other operations, and other keepers."""
    kept = Kept(place, who)
    what = ", %s" % who
    for which in ((), None):
        run = start(kept.box, kept.path, "echo up; exec sleep 100")
        started(run)
        number = kept.box.atoll("ps", kept.box.name).stdout.decode().split("\n")[1].split()[0]
        begun = time.monotonic()
        done = kept.box.atoll("kill", "--grace", "20", kept.box.name, *((number,) if which is None else which))
        tap.check("kill waits for the command and not for the keeper: %s%s" % ("all" if which == () else "one", what), done.returncode == 0 and
                  end(run)[0] == 143 and time.monotonic() - begun < 15 and kept.is_served(), t.said(done), time.monotonic() - begun)
    path = kept.box.atoll("path", kept.box.name).stdout.decode().strip()
    kept.sh("true")
    tap.check("a path leads through no process that is about to run a command" + what, os.path.exists(path + "/f"), path)
    run = start(kept.box, kept.path, "echo up; read x; echo still")
    started(run)
    older = kept.keeper()
    kept.keep()
    code, out, err = end(run)
    tap.check("a younger keeper leaves the older one its command" + what, (code, out) == (0, "still\n"), code, out, err)
    tap.check("which then goes, and the younger one is asked" + what, wait_until(lambda: not os.path.exists("/proc/%d" % older)) and kept.is_served())
    kept.box.commit()
    done = kept.box.atoll("run", "--keep-alive", "300", "--memory", "100M", kept.box.name, "--", "true", cwd=kept.path)
    limits = kept.sh("ulimit -d; ulimit -n").stdout, kept.otherwise("sh", "-c", "ulimit -d; ulimit -n").stdout
    tap.check("limits of the run that a keeper was started with are not for others" + what, limits[0] == limits[1], limits, t.said(done))
    kept.close()


def main(place, tap):
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            ordinary_things(place, tap, who, strategy)
        likeness(place, tap, who)
        ends(place, tap, who)
        strangers(place, tap, who)
        stale(place, tap, who)
        neighbours(place, tap, who)
        many(place, tap, who)


t.run(main)
