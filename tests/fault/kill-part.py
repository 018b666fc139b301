#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""SIGKILL, and a failing call, at every step of a commit of a part: of some hunks of a file's edit, or some files of a
repository.

After the recovery the original is all-old or all-new, and the sandbox has its whole edit, in either case.
"""
import os
import shutil
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
from gitrepo import CONFIG, configure  # noqa: E402

OLD, PART, FULL = "1\n2\n3\n4\n5\n6\n", "one\n2\n3\n4\n5\n6\n", "one\n2\n3\n4\n5\nsix\n"


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return None


class Hunks:
    """A directory with a file of which a part lands, and a new file that lands with it."""

    name = "a part of an edit"

    def __init__(self, place, who, strategy):
        self.top = place.fresh("part", who)
        self.box = t.Box(place, who, strategy, program=place.faults_bin)
        self.program = os.path.join(place.fresh("bin", who), "land-part")
        built = os.path.join(os.path.dirname(os.environ["ATOLL_FAULTS_BIN"]), "tests", "fault", "land-part")
        shutil.copy(built, self.program)
        self.sh("mkdir d; printf '%s' > d/text" % OLD.replace("\n", "\\n"))
        done = self.box.new("--dir", self.top + "/d", "-q")
        if done.returncode != 0:
            raise RuntimeError(t.said(done))
        self.box.run("sh", "-c", "printf '%s' > text; echo new > new" % FULL.replace("\n", "\\n"), cwd=self.top + "/d")

    def sh(self, script):
        done = self.box.command(["sh", "-ec", script], cwd=self.top)
        if done.returncode != 0:
            raise RuntimeError(t.said(done))

    def commit(self, fault):
        return self.box.command([self.program, self.box.name, self.top + "/d/text", PART], cwd=self.top, fault=fault)

    def side(self):
        found = read(self.top + "/d/text"), read(self.top + "/d/new")
        return {(OLD, None): "old", (PART, "new\n"): "new"}.get(found, "mixture")

    def is_whole(self):
        done = self.box.run("sh", "-c", "cat text new", cwd=self.top + "/d")
        return done.stdout.decode() == FULL + "new\n"


class Files:
    """A repository taken as it is, of which two of three edited files land."""

    name = "some files of a repository"

    def __init__(self, place, who, strategy):
        self.top = place.fresh("part", who)
        self.box = t.Box(place, who, program=place.faults_bin)
        configure(self.box, CONFIG)
        self.sh("git init -q -b main d; cd d; echo 1 > a; echo 1 > b; echo 1 > c; git add .; git commit -qm first; "
                "echo mine > c")
        done = self.box.atoll("run", "--keep", "--", "sh", "-c", "echo 2 > a; rm b; echo 2 >> c; git add a c",
                              cwd=self.top + "/d")
        listed = self.box.atoll("list", "--json")
        if done.returncode != 0 or b'"name"' not in listed.stdout:
            raise RuntimeError(t.said(done))
        text = listed.stdout.decode()
        mark = '"name": "' if '"name": "' in text else '"name":"'
        self.box.name = text.split(mark, 1)[-1].split('"', 1)[0]

    sh = Hunks.sh

    def commit(self, fault):
        return self.box.commit("a", "b", cwd=self.top + "/d", fault=fault)

    def side(self):
        found = read(self.top + "/d/a"), read(self.top + "/d/b"), read(self.top + "/d/c")
        return {("1\n", "1\n", "mine\n"): "old", ("2\n", None, "mine\n"): "new"}.get(found, "mixture")

    def is_whole(self):
        done = self.box.atoll("run", self.box.name, "--", "sh", "-c",
                              "cat a c; test ! -e b && git diff --cached --name-only", cwd=self.top + "/d")
        return done.stdout == b"2\nmine\n2\na\nc\n"


def visit(scene, fault, found):
    """One crash or failure. Returns whether the commit has landed all the same."""
    done = scene.commit(fault)
    recovered = scene.box.recover()
    side = scene.side()
    wrong = side == "mixture" or (done.returncode == 0 and side != "new")
    if wrong or recovered.returncode != 0 or not scene.is_whole():
        found.append("%s: %s, the edit is whole: %s; %s; %s" %
                     (fault, side, scene.is_whole(), t.said(done), t.said(recovered)))
    if side == "new":
        undone = scene.box.undo()
        if undone.returncode != 0 or scene.side() != "old" or not scene.is_whole():
            found.append("%s: undo: %s, %s" % (fault, scene.side(), t.said(undone)))
    return done.returncode == 0


def walk(place, tap, kind, who, strategy):
    name = "%s, %s, %s" % (kind.name, strategy, who)
    if not t.only(name):
        return
    scene, found, n = kind(place, who, strategy), [], 1
    while not visit(scene, "%d:kill" % n, found) and len(found) < 5 and n < 400:
        n += 1
    tap.check("%s: killed at %d calls, a commit of it is all or nothing, and keeps the edit" % (name, n - 1),
              not found and 20 < n < 400, *found)
    found, landed = [], 0
    for at in range(1, n):
        landed += visit(scene, "%d:EIO" % at, found)
    tap.check("%s: so it is if a call fails" % name, not found and landed < n // 2,
              "%d of %d landed" % (landed, n - 1), *found[:5])
    scene.box.drop()
    t.remove_tree(scene.top)


def main(place, tap):
    if not place.faults_bin:
        tap.check("the fault-injection build is there", False, "ATOLL_FAULTS_BIN is not set")
        return
    for who in place.users():
        for strategy in ("overlay", "copy_on_write"):
            walk(place, tap, Hunks, who, strategy)
        walk(place, tap, Files, who, "as it is")


t.run(main)
