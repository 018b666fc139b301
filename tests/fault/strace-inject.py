#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# serial
# timeout: 3600
"""Faults from outside: the unmodified release program under strace, killed or failed at the nth call of each kind.

What the fault build's own seam might leave out is hit here too: SQLite's calls, the run-time library's, those of children.
"""
import collections
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import faultlib as f  # noqa: E402

CALLS = ["renameat2", "fsync", "fdatasync", "syncfs", "pwrite64", "write", "ftruncate", "mkdirat", "mkdir", "unlinkat", "unlink", "linkat",
         "symlinkat", "fchmod", "fchmodat", "fchownat", "utimensat", "setxattr", "fsetxattr", "removexattr", "fremovexattr", "openat",
         "openat2", "close", "fcntl", "flock", "statx", "newfstatat", "clone3", "clone", "unshare", "mmap", "getdents64", "ioctl"]
ERRORS = ("ENOSPC", "EIO", "EACCES", "ENOMEM")
# Their failure cannot be told from a bug of the caller: only killing is of use there.
KILL_ONLY = {"close", "mmap", "clone3", "clone"}
SAMPLES = None if t.TORTURE else 3


class InjectedBox(t.Box):
    """A sandbox whose faulty commands run below strace; a fault is what strace calls an injection."""

    def command(self, argv, fault=None, **more):
        if fault is not None:
            name = fault.split(":", 1)[0]
            argv = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + name, "-e", "inject=" + fault, *argv]
        return super().command(argv, **more)


def calls_of(scenario, stage, command):
    """How often each call is made by the operation (by the process that makes most of them: strace counts per process)."""
    trial = scenario.fresh(stage)
    log = os.path.join(trial.top, "strace.log")
    box = trial.box
    done = box.command(["strace", "-f", "-qq", "-o", log, box.program, command, box.name])
    counts = collections.defaultdict(collections.Counter)
    if done.returncode == 0:
        with open(log, encoding="latin-1") as file:
            for line in file:
                match = re.match(r"(\d+) +([a-z_0-9]+)\(", line)
                if match:
                    counts[match[2]][match[1]] += 1
    trial.abandon()
    if done.returncode != 0:
        raise f.Failure("under strace: " + t.said(done))
    return {name: max(by.values()) for name, by in counts.items()}


def sample(number):
    if SAMPLES is None or number <= SAMPLES:
        return range(1, number + 1)
    return sorted({1 + (number - 1) * i // (SAMPLES - 1) for i in range(SAMPLES)})


def faults(counts):
    kills, errors = [], []
    for name in CALLS:
        for index, n in enumerate(sample(counts.get(name, 0))):
            kills.append("%s:signal=SIGKILL:when=%d" % (name, n))
            if name not in KILL_ONLY:
                for error in ERRORS if t.TORTURE else (ERRORS[(index + len(name)) % len(ERRORS)],):
                    errors.append("%s:error=%s:when=%d" % (name, error, n))
    return kills, errors


def usable(place):
    return t.has("strace") and t.Box(place, "user").command(["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=getpid", "-e",
                                                               "inject=getpid:error=EIO:when=1", "true"]).returncode == 0


def main(place, tap):
    if not usable(place):
        tap.skip("faults injected by strace", "strace is not there or may not trace")
        return
    pairs = [("overlay", "user"), ("copy_on_write", place.users()[0])]
    if t.TORTURE:
        pairs = [(s, w) for s in ("overlay", "copy_on_write") for w in place.users()]
    for strategy, who in pairs:
        scenario = f.Scenario(place, who, strategy, place.bin, InjectedBox)
        for operation in ("commit", "undo", "rollback"):
            stage, _, points = f.OPERATIONS[operation]
            name = "%s, %s, %s" % (operation, strategy, who)
            if not t.only(name) or (operation == "rollback" and not t.TORTURE):
                continue
            try:
                kills, errors = faults(calls_of(scenario, stage, operation))
            except f.Failure as failure:
                tap.check("%s can be traced" % name, False, failure)
                continue
            for what, wanted in (("killed at", kills), ("failed at", errors)):
                # An ordinary user's work is done by a child: a kill that hits it ends the command in its ordinary way.
                visited, found = f.walk(scenario, stage, points, wanted, counts_hits=who == "root")
                tap.check("%s %s %d system calls of the release program: all-old or all-new" % (name, what, visited),
                          visited and not found, *found[:8], "%d of the points failed" % len(found))
        scenario.close()


t.run(main)
