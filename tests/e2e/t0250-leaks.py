#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
# serial
"""Runs that end in all kinds of ways, one after the other and at the same time: nothing of them is left in the machine."""
import glob
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

RUNS = 1000 if t.TORTURE else 60
WORKERS = 2
TOKEN = "ATOLL_LEAK_TEST=%d" % os.getpid()
# Says that it has begun, and leaves something behind that ends by nobody's own doing.
COMMAND = "(trap '' TERM HUP INT; sleep 1000) & (setsid sleep 1000 &) ; echo $1 > seen; echo begun; "
PATIENCE = 120


class Sandbox:
    """One of several; each is used by one thread at a time."""

    def __init__(self, place, who):
        self.path = place.fresh("dir", who)
        self.box = t.Box(place, who, dirs=[self.path], environment=dict([TOKEN.split("=")]))
        self.made = self.box.new()
        self.count = 0

    def start(self, tail, *options):
        self.count += 1
        script = COMMAND + tail
        return subprocess.Popen([self.box.program, "run", *options, self.box.name, "--", "sh", "-c", script, "sh", str(self.count)],
                                cwd=self.path, env=self.box.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, start_new_session=True, **self.box.identity())



def begun(process):
    return process.stdout.readline() == b"begun\n"


def ended(process):
    process.stdout.close()
    return process.wait(PATIENCE)


def pid_one(process):
    for task in glob.glob("/proc/%d/task/*/children" % process.pid):
        with open(task, encoding="ascii") as file:
            for word in file.read().split():
                return int(word)
    return None


# ---- the endings: each returns None, or what was wrong ----


def by_itself(s):
    p = s.start("exit 7")
    good = begun(p)
    return None if ended(p) == 7 and good else "ended with %s" % p.returncode


def by_death_of_atoll(s):
    p = s.start("wait")
    good = begun(p)
    p.kill()
    return None if ended(p) == -9 and good else "ended with %s" % p.returncode


def by_death_of_pid_one(s):
    p = s.start("wait")
    good = begun(p)
    os.kill(pid_one(p), signal.SIGKILL)
    return None if ended(p) == 137 and good else "ended with %s" % p.returncode


def by_timeout(s):
    p = s.start("wait", "--timeout", "0.3")
    begun(p)
    return None if ended(p) == 124 else "ended with %s" % p.returncode


def by_memory(s):
    p = s.start("exec python3 -c 'x = bytearray(600 << 20); x[::4096] = b\"x\" * len(x[::4096])'", "--memory", "128M")
    begun(p)
    return None if ended(p) != 0 else "it got more memory than allowed"


def by_ctrl_c(s):
    p = s.start("wait")
    good = begun(p)
    os.killpg(p.pid, signal.SIGINT)
    return None if ended(p) in (130, -2) and good else "ended with %s" % p.returncode


def by_terminate(s):
    p = s.start("wait")
    good = begun(p)
    p.terminate()
    return None if ended(p) in (143, -15) and good else "ended with %s" % p.returncode


def by_closed_pipe(s):
    p = s.start("while echo more; do :; done")
    good = begun(p)
    return None if ended(p) != 0 and good else "ended with %s" % p.returncode


def detach(s, tail):
    done = s.box.atoll("run", "--detach", s.box.name, "--", "sh", "-c", COMMAND + tail, "sh", "0", cwd=s.path)
    return done, holder_of_detached(s)


def holder_of_detached(s):
    """The keeper: an atoll of this sandbox's environment that is nobody's child of ours and has a child of its own."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if pid != str(os.getpid()) and s.box.state.encode() in read("/proc/%s/environ" % pid) and \
                read("/proc/%s/stat" % pid).rpartition(b")")[2].split()[1:2] == [b"1"] and s.box.program.encode() in \
                read("/proc/%s/cmdline" % pid):
            return int(pid)
    return None


def detached_by_itself(s):
    done, _ = detach(s, "exit 0")
    return None if done.returncode == 0 and gone(s) else "ended with %s" % t.said(done)


def detached_by_death_of_keeper(s):
    done, keeper = detach(s, "wait")
    if done.returncode != 0 or not keeper:
        return "no keeper: %s" % t.said(done)
    os.kill(keeper, signal.SIGKILL)
    return None if gone(s) else "it goes on without its keeper"


def detached_by_kill(s):
    done, _ = detach(s, "wait")
    killed = s.box.atoll("kill", s.box.name)
    return None if done.returncode == 0 and killed.returncode == 0 and gone(s) else "%s %s" % (t.said(done), t.said(killed))


def joined(s):
    """The first is killed, the second goes on, and a third joins it."""
    first = s.start("wait")
    good = begun(first)
    second = s.start("wait")
    good = begun(second) and good
    first.kill()
    ended(first)
    third = s.start("exit 3")
    good = begun(third) and ended(third) == 3 and second.poll() is None and good
    os.kill(pid_one(second), signal.SIGKILL)
    ended(second)
    return None if good else "the others did not go on"


ENDINGS = [by_itself, by_death_of_atoll, by_death_of_pid_one, by_timeout, by_memory, by_ctrl_c, by_terminate, by_closed_pipe,
           detached_by_itself, detached_by_death_of_keeper, detached_by_kill, joined]


# ---- what is there ----


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def processes(token=TOKEN.encode()):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) != os.getpid() and token in read("/proc/%s/environ" % pid).split(b"\0"):
            found.append((pid, read("/proc/%s/cmdline" % pid).replace(b"\0", b" ").strip()))
    return found


def gone(s):
    """Every process of the sandbox, in time."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if not processes(b"ATOLL_STATE_DIR=" + s.box.state.encode()):
            return True
        time.sleep(0.01)
    return False


def temporary(uid):
    """What belongs to the user there; root's own is looked for by its name."""
    found = set()
    for top in ("/tmp", "/var/tmp", "/dev/shm", "/run", "/run/user/%d" % uid):
        for entry in os.scandir(top) if os.path.isdir(top) else ():
            try:
                if entry.stat(follow_symlinks=False).st_uid == uid and (uid or entry.name.startswith(".atoll")):
                    found.add(entry.path)
            except OSError:
                pass
    return found


def groups():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        points = [line.split()[4] for line in file if " - cgroup2 " in line]
    return {path for point in points for path in glob.glob(point + "/**/atoll-*", recursive=True)}


def machine(place, boxes):
    uids = {place.uid(box.who) for box in boxes}
    return {
        "mounts": sorted(read("/proc/self/mountinfo").splitlines()),
        "mounts of the host": sorted(line for line in read("/proc/1/mountinfo").splitlines() if place.root.encode() in line),
        "sockets": sorted(line.split()[-1] for line in read("/proc/net/unix").splitlines() if place.root.encode() in line),
        "control groups": sorted(groups()),
        "temporary files": sorted(set().union(*map(temporary, uids))),
        "descriptors of the suite": len(os.listdir("/proc/self/fd")),
    }


def state_of(s):
    """What lies in the state directory beside the database, its log and the output that is kept of detached runs."""
    return [name for name in t.residue(s.box.state) if not name.startswith(("atoll.db", "logs")) and "/upper/" not in name]


def main(place, tap):
    boxes = [Sandbox(place, who) for who in place.users() for _ in range(WORKERS)]
    for s in boxes:
        by_itself(s)
    before, states = machine(place, [s.box for s in boxes]), [state_of(s) for s in boxes]
    wrong, lock, began = [], threading.Lock(), time.monotonic()

    def work(number):
        s = boxes[number]
        chance = random.Random(number)
        order = []
        for _ in range(RUNS // len(boxes)):
            order = order or chance.sample(ENDINGS, len(ENDINGS))
            ending = order.pop()
            why = ending(s)
            if not gone(s):
                why = "processes are left: %s" % processes(b"ATOLL_STATE_DIR=" + s.box.state.encode())
            if why:
                with lock:
                    wrong.append("%s, %s: %s" % (ending.__name__.replace("_", " "), s.box.who, why))

    t.parallel(work, range(len(boxes)), len(boxes))
    tap.note("%d runs in %.1f s" % (RUNS // len(boxes) * len(boxes), time.monotonic() - began))
    tap.check("each of the runs ends as it should, and every process of it", not wrong, *wrong[:20])
    tap.check("no process is left", not processes(), processes())
    after = machine(place, [s.box for s in boxes])
    for what, known in before.items():
        tap.check("no more %s than before" % what, after[what] == known, known, after[what])
    for number, (s, known) in enumerate(zip(boxes, states)):
        tap.check("the state directory is as it was, sandbox %d, %s" % (number, s.box.who), state_of(s) == known, known, state_of(s))
        last = s.box.run("cat", "seen", cwd=s.path)
        committed = s.box.commit()
        tap.check("the edits are there and land, sandbox %d, %s" % (number, s.box.who), last.returncode == 0 and committed.returncode == 0 and
                  os.listdir(s.path) == ["seen"], t.said(last), t.said(committed))
        s.box.rm()
        tap.check("and the sandbox leaves nothing, sandbox %d, %s" % (number, s.box.who), not [n for n in t.residue(s.box.state) if n.startswith(("boxes/", "locks/", "logs/"))],
                  t.residue(s.box.state))


t.run(main)
