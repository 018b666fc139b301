#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""Every call by which a commit or an undo looks at files fails once: the op rolls back the steps that it has done.

strace makes these calls fail, because the fault injection of the program covers only calls that change something. The
files have several names, so that a rename of one name moves the ctime that the other names show.
"""
import collections
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

CALLS = ("statx", "newfstatat", "name_to_handle_at", "flistxattr", "listxattr", "fgetxattr", "getxattr", "readlinkat")
BASE = [["mkdir", "d", 0o755], ["mkdir", "d/x", 0o755]] + [
    operation for n in "123"
    for operation in (["create", "d/f" + n, "old %s\n" % n, 0o644], ["link", "d/f" + n, "d/x/m" + n])] + [
    ["create", "d/gone", "gone\n", 0o644], ["link", "d/gone", "d/stays"], ["setxattr", "d/f1", "user.a", "1"],
    ["stamp_all", 1000000000]]
EDIT = ("cd d; for n in 1 2 3; do echo new $n > t; mv t f$n; rm x/m$n; ln f$n x/n$n; done; rm gone; "
        "echo new > added; ln added also")
STEP = 1 if t.TORTURE else 3


class Scene:
    def __init__(self, place, who, strategy):
        self.work = t.build_tree(place, who, BASE, hint="reads")
        self.box = t.Box(place, who, strategy, dirs=[self.work + "/d"])
        self.log = os.path.join(place.fresh("log", who), "log")
        done = self.box.new()
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        self.box.run("sh", "-ec", EDIT, cwd=self.work)
        self.old = self.look()

    def look(self):
        found = {}
        for top, _, names in os.walk(self.work + "/d"):
            for name in names:
                path = os.path.join(top, name)
                with open(path, encoding="ascii") as file:
                    found[os.path.relpath(path, self.work)] = (file.read(), os.stat(path).st_nlink)
        return found

    def traced(self, command, *options):
        strace = ["strace", "-f", "-qq", "-o", self.log, *options]
        return self.box.command([*strace, self.box.program, command, self.box.name])

    def counts(self, command):
        """How often each call is made by the process that makes most of them: strace counts for each process."""
        done = self.traced(command, "-e", "trace=" + ",".join(CALLS))
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        found = collections.defaultdict(collections.Counter)
        with open(self.log, encoding="latin-1") as log:
            for line in log:
                match = re.match(r"(\d+) +([a-z_0-9]+)\(", line)
                if match:
                    found[match[2]][match[1]] += 1
        return {name: max(by.values()) for name, by in found.items()}

    def fail(self, command, name, n, error):
        return self.traced(command, "-e", "trace=" + name, "-e", "inject=%s:error=%s:when=%d" % (name, error, n))


def judge(scene, done, before, after):
    """What is wrong after a call has failed, or None."""
    if scene.look() == (after if done.returncode == 0 else before):
        return None
    recovered = scene.box.recover()
    if recovered.returncode == 0 and scene.look() in (before, after):
        return None
    return "exit %d, then recover: %s; %s" % (done.returncode, t.said(recovered), scene.look())


def walk(scene, command, back, before, after, counts):
    found, points = [], 0
    for name, count in sorted(counts.items()):
        for n in range(1, count + 1, STEP if name == "statx" else 1):
            error = ("EIO", "ENOMEM")[n // STEP % 2]
            done = scene.fail(command, name, n, error)
            points += 1
            wrong = judge(scene, done, before, after)
            if wrong:
                return points, found + ["%s:%s:%d: %s; %s" % (name, error, n, wrong, t.said(done))]
            if scene.look() == after and back(scene.box).returncode != 0:
                return points, found + ["%s:%s:%d: the way back failed" % (name, error, n)]
    return points, found


def main(place, tap):
    probe = ["strace", "-qq", "-o", "/dev/null", "-e", "trace=getpid", "true"]
    usable = t.has("strace") and subprocess.run(probe, check=False).returncode == 0
    if not usable:
        tap.skip("calls that look at files fail", "strace is not there or may not trace")
        return
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            name = "%s, %s" % (strategy, who)
            if not t.only(name):
                continue
            scene = Scene(place, who, strategy)
            commits = scene.counts("commit")
            new = scene.look()
            undos = scene.counts("undo")
            points, found = walk(scene, "commit", lambda box: box.undo(), scene.old, new, commits)
            tap.check("a commit is all or nothing if a look fails, %s: %d points" % (name, points),
                      not found and points > 40, *found)
            scene.box.commit()
            points, found = walk(scene, "undo", lambda box: box.commit(), new, scene.old, undos)
            tap.check("so is an undo, %s: %d points" % (name, points), not found and points > 30, *found)
            scene.box.drop()
            t.remove_tree(scene.work)


t.run(main)
