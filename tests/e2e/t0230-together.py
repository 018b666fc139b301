#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""Several commands in one sandbox at the same time: one set of mounts, lives of their own, and any of them may be killed."""
import os
import re
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from live import end, start, started, wait_until  # noqa: E402

BASE = [["create", "f", "content\n", 0o644], ["mkdir", "d", 0o755], ["stamp_all", 1000000000]]
ROUNDS = 1000 if t.TORTURE else 60


def processes(word):
    """Pids of all processes that have this word among their arguments."""
    found = []
    for pid in os.listdir("/proc"):
        if pid.isdigit():
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as file:
                    if word.encode() in file.read().split(b"\0"):
                        found.append(int(pid))
            except OSError:
                pass
    return found


def first_inside(process):
    """Pid 1 of a run, seen from outside: a child of its atoll, which may have further children."""
    with open("/proc/%d/task/%d/children" % (process.pid, process.pid), encoding="ascii") as file:
        children = file.read().split()
    for child in children:
        try:
            with open("/proc/%s/status" % child, encoding="ascii", errors="replace") as file:
                if re.search(r"^NSpid:.*\s1$", file.read(), re.M):
                    return int(child)
        except OSError:
            pass  # It has ended.
    raise RuntimeError("no child of %d is pid 1 of a run: %s" % (process.pid, children))


def scene(place, who, strategy):
    path = t.build_tree(place, who, BASE)
    box = t.Box(place, who, strategy, dirs=[path])
    box.new()
    return path, box


def close(box, path):
    box.drop()
    t.remove_tree(path)


def sharing(place, tap, who, strategy):
    path, box = scene(place, who, strategy)
    first = start(box, path, "echo one > a; stat -c %d .; read x; cat b; read x; echo end")
    device = started(first)
    second = start(box, path, "echo two > b; echo three > /tmp/c; stat -c %d .; cat a; read x; echo still > d/e; cat a")
    other = started(second)
    what = "%s, %s" % (strategy, who)
    tap.check("a second run is in the same mount as the first, " + what, device == other != "", device, other)
    tap.check("and sees its writes at once, " + what, started(second) == "one")
    first.stdin.write(b"\n")
    first.stdin.flush()
    tap.check("and the first sees those of the second, " + what, started(first) == "two")
    busy = [box.commit(), box.rollback(), box.rm()]
    tap.check("while they run nothing is committed, rolled back or removed, " + what, all(d.returncode == 6 for d in busy),
              *[t.said(d) for d in busy])
    code, out, err = end(first)
    tap.check("the first ends as usual, " + what, (code, out) == (0, "end\n"), code, out, err)
    third = box.run("sh", "-c", "stat -c %d .; cat b /tmp/c", cwd=path)
    tap.check("the end of the first does not end the second, which can be joined, " + what,
              second.poll() is None and third.stdout.decode().split() == [device, "two", "three"], t.said(third))
    code, out, err = end(second)
    tap.check("the second works on and ends as usual, " + what, (code, out) == (0, "one\n"), code, out, err)
    done = [box.commit(), box.diff()]
    tap.check("then all of their edits are committed, " + what, done[0].returncode == 0 and b"no changes" in done[1].stdout and
              [open(os.path.join(path, n), encoding="ascii").read() for n in ("a", "b", "d/e")] == ["one\n", "two\n", "still\n"],
              *[t.said(d) for d in done])
    later = box.run("ls", "/tmp", cwd=path)
    tap.check("after the last one nothing of their private places is left, " + what, later.stdout == b"", t.said(later))
    close(box, path)


def own_processes(place, tap, who):
    path, box = scene(place, who, None)
    mark = "7%d" % (os.getpid() + 1000000)
    first = start(box, path, "echo up; (setsid sleep %s9 &); read x" % mark)
    started(first)
    second = start(box, path, "echo up; (trap '' TERM; setsid sleep %s8) & ls /proc | grep -c '^[0-9]'; read x" % mark)
    started(second)
    seen = started(second)
    tap.check("each run has a /proc of its own, %s" % who, 0 < int(seen) < 10, seen)
    end(second)
    tap.check("the end of a run ends its own processes, those of others go on, %s" % who,
              wait_until(lambda: not processes(mark + "8")) and processes(mark + "9"), processes(mark + "8"), processes(mark + "9"))
    end(first)
    tap.check("and then the others, %s" % who, wait_until(lambda: not processes(mark + "9")))
    close(box, path)


def other_views(place, tap, who):
    path, box = scene(place, who, None)
    first = start(box, path, "echo up; read x", "--hide", "/usr/share")
    started(first)
    same = box.atoll("run", "--hide", "/usr/share", box.name, "--", "ls", "/usr/share", cwd=path)
    other = box.run("true", cwd=path)
    tap.check("a run that wants the same view joins, %s" % who, same.returncode not in (125, 6), t.said(same))
    tap.check("one that wants another is refused, with the reason, %s" % who, other.returncode == 125 and b"another view" in other.stderr,
              t.said(other))
    end(first)
    tap.check("and gets it afterwards, %s" % who, box.run("ls", "/usr/share", cwd=path).returncode == 0)
    close(box, path)


def kills(place, tap, who):
    """Each party in turn is ended by SIGKILL while another command works."""
    for victim in ("atoll", "pid 1"):
        for order in ("first", "second"):
            path, box = scene(place, who, None)
            mark = "6%d" % (os.getpid() + 1000000)
            one = start(box, path, "echo up; (setsid sleep %s1 &); read x; echo one > one" % mark)
            started(one)
            two = start(box, path, "echo up; (setsid sleep %s2 &); read x; echo two > two" % mark)
            started(two)
            dies, lives = (one, two) if order == "first" else (two, one)
            os.kill(dies.pid if victim == "atoll" else first_inside(dies), signal.SIGKILL)
            code = end(dies)[0]
            gone = mark + ("1" if order == "first" else "2")
            what = "%s of the %s run killed, %s" % (victim, order, who)
            tap.check("all of its processes end: " + what, code == (-9 if victim == "atoll" else 137) and
                      wait_until(lambda: not processes(gone)), code, processes(gone))
            third = box.run("true", cwd=path)
            tap.check("the other goes on, and can be joined: " + what, end(lives)[0] == 0 and third.returncode == 0, t.said(third))
            name = "two" if order == "first" else "one"
            done = [box.run("cat", name, cwd=path), box.commit()]
            tap.check("and its edits land: " + what, done[0].stdout.decode() == name + "\n" and done[1].returncode == 0 and
                      os.path.exists(os.path.join(path, name)), *[t.said(d) for d in done])
            close(box, path)


def crowd(place, tap, who):
    path, box = scene(place, who, None)
    runs = [start(box, path, "echo %d > n%d; stat -c %%d .; read x; ls | wc -l" % (i, i)) for i in range(24)]
    devices = {started(r) for r in runs}
    ends = [end(r) for r in runs]
    tap.check("two dozen begin at the same time in one mount, %s" % who, len(devices) == 1 and all(e[0] == 0 for e in ends) and
              all(e[1].strip() == "26" for e in ends), devices, *ends[:3])
    done = box.commit()
    tap.check("and all of their edits land, %s" % who, done.returncode == 0 and
              sum(name.startswith("n") for name in os.listdir(path)) == 24, t.said(done))
    close(box, path)


def mixed_endings(place, tap, who):
    """Begins, ends and kills without order: nothing is left, nothing stays locked, no edit of a run that said so is lost."""
    path, box = scene(place, who, None)
    mark = "5%d" % (os.getpid() + 1000000)
    alive, wrong, said = [], [], 0
    for i in range(ROUNDS):
        run = start(box, path, "echo x > f%d; echo up; (setsid sleep %s &); %s" % (i, mark, "exit 3" if i % 4 == 0 else "read x"))
        if i % 5 != 4:
            said += started(run) == "up"
        else:
            time.sleep(0.0007 * (i % 13))
        if i % 3 == 1:
            os.kill(run.pid, signal.SIGKILL)
        elif i % 7 == 2 and i % 5 != 4 and i % 4 != 0:
            os.kill(first_inside(run), signal.SIGKILL)
        alive.append((i, run))
        while len(alive) > i % 4:
            number, run = alive.pop(0)
            code, _, err = end(run)
            if code not in (0, 3, -9, 137) and number % 5 != 4:
                wrong.append((number, code, err))
    wrong += [(n, c) for n, c in ((n, end(r)[0]) for n, r in alive) if c not in (0, 3, -9, 137)]
    tap.check("runs of mixed endings disturb nobody, %s" % who, not wrong, wrong[:5])
    tap.check("and leave no process, %s" % who, wait_until(lambda: not processes(mark) and not processes(box.program)),
              processes(mark), processes(box.program))
    files = box.run("sh", "-c", "ls | grep -c ^f", cwd=path)
    tap.check("and what they wrote is there, %s" % who, int(files.stdout) > said, t.said(files), said)
    done = box.commit()
    tap.check("and the sandbox can be committed, %s" % who, done.returncode == 0, t.said(done))
    close(box, path)


def main(place, tap):
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            if t.only("sharing"):
                sharing(place, tap, who, strategy)
        for part in (own_processes, other_views, kills, crowd, mixed_endings):
            if t.only(part.__name__):
                part(place, tap, who)


t.run(main)
