#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 300
"""While Atoll moves a directory for a command, it keeps the limits of the run and passes signals
on: the move is stopped in the middle, and the command ends all the same. The directory is whole
afterwards, under one name or the other."""
import os
import signal
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import stepped  # noqa: E402

FILES = 20
PATIENCE = 30
# Before the new directory is in place, and while the old one is taken away.
MOMENTS = {"at its beginning": 3, "at its end": 3 * FILES}
SCRIPT = """
import os, sys, time
if os.fork() == 0:
    time.sleep(0.5)
    fd = os.memfd_create("m") if sys.argv[1] == "memory" else os.open("fill", os.O_CREAT | os.O_WRONLY) if sys.argv[1] == "disk" else -1
    for i in range(300 if fd >= 0 else 0):
        os.write(fd, b"x" * (1 << 20))
        time.sleep(0.01)
    time.sleep(100)
    os._exit(0)
os.rename("a", "z")
time.sleep(100)
"""
# What ends the command: options, and the exit status of the run.
ENDS = {"time": (["--timeout", "1"], 124), "memory": (["--memory", "100M"], 137), "disk": (["--disk", "20M"], 137),
        "signal": ([], 143)}


def is_inside(marker):
    for pid in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        if words[0] == t.PYTHON.encode() and marker.encode() in words:
            return True
    return False


def ends_soon(marker):
    end = time.monotonic() + PATIENCE
    while is_inside(marker) and time.monotonic() < end:
        time.sleep(0.05)
    return not is_inside(marker)


def case(place, tap, who, end, moment):
    options, code = ENDS[end]
    path = place.fresh("tree", who)
    os.mkdir(path + "/a")
    names = ["f%d" % i for i in range(FILES)]
    for name in names:
        with open(os.path.join(path, "a", name), "w", encoding="ascii") as file:
            file.write(name)
    t.give(path, place.uid(who))
    box = t.Box(place, who, "overlay", dirs=[path], program=place.faults_bin)
    box.place = place
    marker = "marker-%s-%s-%d" % (os.path.basename(path), end, MOMENTS[moment])
    title = "%s, while a move is %s, %s" % (end, moment, who)
    made = box.new()
    if made.returncode != 0:
        tap.skip(title, "no overlay here")
        return
    run = stepped.Stepped(box, MOMENTS[moment], "run", "--cwd", path, *options, "box", "--", t.PYTHON, "-c", SCRIPT,
                          end, marker, mark="move")
    stopped = run.stopped()
    if end == "signal":
        run.process.send_signal(signal.SIGTERM)
    gone = ends_soon(marker)
    tap.check("the move is stopped: %s" % title, stopped is not None)
    tap.check("the command ends: %s" % title, gone)
    done = run.finish()
    tap.check("the run says so: %s" % title, done.returncode == code, t.said(done))
    seen = box.run("sh", "-c", "ls -A | grep -v fill; ls a z 2>/dev/null | grep -c ^f", cwd=path)
    tap.check("the directory is whole: %s" % title, seen.stdout in (b"a\n%d\n" % FILES, b"z\n%d\n" % FILES),
              t.said(seen))
    box.drop()


def main(place, tap):
    for who in place.users():
        for end in ENDS:
            for moment in MOMENTS:
                case(place, tap, who, end, moment)


t.run(main)
