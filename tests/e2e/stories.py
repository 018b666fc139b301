#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 900
"""Long lives of a sandbox: edits, commits, partial commits, undos and rollbacks in any order, some of them killed.

What a command sees inside is moved neither by a commit nor by an undo, whatever was edited in between: only where the
edits are kept changes. So after each operation the view must be what it was, and the original what the model says.
"""
import json
import os
import random
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402
import manifest as mf  # noqa: E402

STORIES = 120 if t.TORTURE else 10
NAMES = "abc"
# Name, the original, and operations: edit scripts, ("commit", path or None), ("undo",), ("rollback",), ("refused", path)
KNOWN = [
    ("newer edits below a directory that was committed by name", [], [
        [["mkdir", "n", 0o755], ["create", "n/1", "1", 0o644], ["create", "n/2", "2", 0o644], ["create", "n/3", "3", 0o644]],
        ("commit", "n"), [["append", "n/1", "+"], ["unlink", "n/3"], ["create", "n/4", "4", 0o644]], ("undo",), ("commit", "n"), ("undo",)]),
    ("a file committed by name, then removed", [], [
        [["create", "f", "f", 0o644]], ("commit", "f"), [["unlink", "f"]], ("undo",), ("commit", None)]),
    ("a directory removed by name, then made again", [["mkdir", "d", 0o755], ["create", "d/old", "old", 0o644]], [
        [["remove", "d"]], ("commit", "d"), [["mkdir", "d", 0o755], ["create", "d/new", "new", 0o644]], ("undo",), ("commit", None), ("undo",)]),
    ("one file of a new directory committed, then all of it removed", [], [
        [["mkdir", "n", 0o755], ["create", "n/1", "1", 0o644], ["create", "n/2", "2", 0o644]],
        ("commit", "n/1"), [["remove", "n"]], ("undo",), ("commit", None)]),
    ("one file of a new directory committed, then the directory replaced", [], [
        [["mkdir", "n", 0o755], ["create", "n/1", "1", 0o644]], ("commit", "n/1"), [["become", "n", "dir", "x"]], ("undo",), ("commit", None)]),
    ("part of a new directory that was renamed", [], [
        [["mkdir", "x", 0o755], ["create", "x/1", "1", 0o644], ["create", "x/2", "2", 0o644], ["rename", "x", "y"]],
        ("commit", "y/1"), ("commit", None), ("undo",), ("undo",)]),
    ("part of a directory that takes a file's place", [["create", "f", "f", 0o644]], [
        [["become", "f", "dir", "x"], ["create", "f/2", "2", 0o644]], ("commit", "f/2"), ("commit", None), ("undo",), ("undo",)]),
    ("part of a directory whose place a file has taken", [["mkdir", "d", 0o755], ["create", "d/1", "1", 0o644]], [
        [["become", "d", "file", "x"]], ("refused", "d/1"), ("commit", "d")]),
    ("a commit by name taken back after a rollback", [["mkdir", "d", 0o755], ["create", "d/1", "1", 0o644]], [
        [["append", "d/1", "+"], ["mkdir", "d/n", 0o755], ["create", "d/n/1", "1", 0o644], ["create", "d/n/2", "2", 0o644]],
        ("commit", "d/1"), ("commit", "d/n/1"), ("rollback",), ("undo",), ("undo",), ("commit", None)]),
]


class Wrong(Exception):
    """What a story found."""


def told(entries):
    """Times of directories are no part of the model; what nobody may read cannot be compared."""
    result = {}
    for path, entry in entries.items():
        entry = dict(entry)
        if entry["type"] == "dir":
            del entry["mtime"]
        if entry["mode"] == "0000":
            entry.pop("sha256", None)
        result[path] = entry
    return result


def part(entries, path):
    top = os.fsencode(path)
    return {name: entry for name, entry in entries.items() if name == top or name.startswith(top + b"/")}


def random_path(rng):
    return "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, 3)))


def random_script(rng, size):
    script = []
    for _ in range(size):
        one, two, word = random_path(rng), random_path(rng), "t%d" % rng.randrange(10**6)
        script += rng.choice([
            [["create", one, word, rng.choice([0o644, 0o600, 0])]], [["mkdir", one, 0o755]], [["remove", one]], [["append", one, word]],
            [["rename", one, two]], [["become", one, rng.choice(["file", "dir", "link"]), word]], [["chmod", one, 0o711]],
            [["symlink", word, one]], [["setxattr", one, "user.x", word]], [["utime", one, rng.randrange(10**18)]],
            [["replace", one, word, 0o644]], [["rename", one, "aside"], ["rename", two, one], ["rename", "aside", two]]])
    return script


class Story:
    def __init__(self, place, who, strategy, base):
        self.tree = t.build_tree(place, who, base, way="lenient")
        self.box = t.Box(place, who, strategy, dirs=[self.tree], program=place.faults_bin or place.bin)
        self.box.counts_kills = False
        self.earlier = []  # the original before each commit that stands
        self.must(self.box.new())
        self.original, self.view = self.look(), self.look_inside()

    def must(self, done):
        if done.returncode != 0:
            raise Wrong(" ".join(map(str, done.args[1:4])) + ": " + t.said(done))
        return done

    def look(self):
        return told(mf.manifest(self.tree))

    def look_inside(self, script=()):
        done = self.must(self.box.edit(list(script), self.tree, "view"))
        return told(mf.load(done.stdout.decode().splitlines()[-1]))

    def edit(self, script):
        self.view = self.look_inside(script)
        self.same("the original after an edit", self.original, self.look())

    def same(self, what, wanted, found):
        if wanted != found:
            raise Wrong("%s: %s" % (what, mf.differences(wanted, found, 6)))

    def commits(self):
        log = json.loads(self.box.atoll("log", self.box.name, "--json").stdout)
        return sum(entry["operation"] == "commit" and entry["status"] == "landed" for entry in log)

    def operate(self, what, path=None, fault=None):
        """One operation, recovered if it was killed, and everything that must hold after it."""
        where = [os.path.join(self.tree, path)] if path else []
        where += ["--landed"] if what == "rollback" else []
        done = self.box.atoll(what, self.box.name, *where, fault=fault)
        killed = fault and done.returncode not in (0, 4)
        if killed:
            self.must(self.box.recover())
        elif not (what == "commit" and path and done.returncode == 4):
            self.must(done)
        after, view, number = self.look(), self.look_inside(), self.commits()
        if what == "rollback":
            if not killed:
                self.same("the view after a rollback", after, view)
            self.view = view
        self.same("the view after %s" % what, self.view, view)
        self.judge(what, path, done.returncode == 0 and not killed, after)
        if number > len(self.earlier):
            self.earlier.append(self.original)
        elif number < len(self.earlier):
            self.earlier.pop()
        self.original = after

    def judge(self, what, path, sure, after):
        if what == "commit" and path:
            if sure or after != self.original:
                self.same("the part that was committed", part(self.view, path), part(after, path))
        elif what == "commit":
            if sure or after != self.original:
                self.same("the original after a commit", self.view, after)
        elif after != self.original or (sure and what == "undo"):
            self.same("the original after " + what, self.earlier[-1] if self.earlier else self.original, after)

    def refused(self, path):
        done = self.box.commit(os.path.join(self.tree, path))
        if done.returncode != 4:
            raise Wrong("not refused: " + t.said(done))
        self.same("the original after a refusal", self.original, self.look())

    def close(self):
        self.box.drop()
        t.remove_tree(self.tree)


def known(place, who, strategy, base, operations):
    story = Story(place, who, strategy, base)
    try:
        for operation in operations:
            if isinstance(operation, list):
                story.edit(operation)
            elif operation[0] == "refused":
                story.refused(operation[1])
            else:
                story.operate(*operation)
        return None
    except Wrong as error:
        return "%r: %s" % (operation, error)
    finally:
        story.close()


def invented(place, who, strategy, seed):
    rng = random.Random(seed)
    story = Story(place, who, strategy, random_script(rng, 25))
    past = []
    try:
        for _ in range(14):
            what = rng.choice(["edit"] * 4 + ["commit"] + ["part"] * 3 + ["undo"] * 2 + ["rollback"] * (rng.random() < 0.3))
            fault = "%d:kill" % rng.randrange(1, 90) if place.faults_bin and rng.random() < 0.4 else None
            path = None
            if what == "part":
                touched = sorted(p for p in set(story.original) | set(story.view) if story.original.get(p) != story.view.get(p) and p != b".")
                path = os.fsdecode(rng.choice(touched)) if touched else None
            if what == "part" and not path or what == "undo" and not story.earlier:
                continue
            past.append((what, path, fault))
            if what == "edit":
                past[-1] = (what, random_script(rng, rng.randint(1, 10)))
                story.edit(past[-1][1])
            else:
                story.operate("commit" if what == "part" else what, path, fault)
        return None
    except Wrong as error:
        return "seed %d: %s\n%s" % (seed, error, "\n".join(map(repr, past[-8:])))
    finally:
        story.close()


def main(place, tap):
    for who, strategy in [(who, strategy) for who in place.users() for strategy in ("overlay", "copy_on_write")]:
        for name, base, operations in KNOWN:
            found = known(place, who, strategy, base, operations)
            tap.check("%s: the view stays, %s, %s" % (name, strategy, who), not found, found)
        found = [f for f in t.parallel(lambda seed, w=who, s=strategy: invented(place, w, s, seed), range(STORIES)) if f]
        tap.check("%d invented stories, some killed: the view stays, %s, %s" % (STORIES, strategy, who), not found, *found[:3])


t.run(main)
