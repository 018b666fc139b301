#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# timeout: 600
"""Two and three sandboxes over overlapping trees, with commits and undos at the same time, at whatever moments they come.

Each round builds a tree, makes sandboxes over it (the whole, a directory, a directory in that, or one file; in one state directory
or several; of root and of an ordinary user), edits in each, and starts all commits at once; some are taken back at once.
Afterwards exactly the edits of the commits that succeeded and were not taken back are there, every command has ended with
success or with a conflict, and a sandbox that met a conflict still holds its edits."""
import os
import random
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import atolltest as t  # noqa: E402

ROUNDS = 2000 if t.TORTURE else 40
DIRECTORIES = ("", "d", "d/e", "x")
FILES = 12  # in each directory
ROOTS = ("", "", "d", "d", "d/e", "d/f0")


def base_tree():
    tree = {name: None for name in DIRECTORIES if name}
    for directory in DIRECTORIES:
        for i in range(FILES):
            tree[os.path.join(directory, "f%d" % i)] = "old\n"
    return tree


def build(path, tree):
    for name in sorted(tree):
        if tree[name] is None:
            os.mkdir(os.path.join(path, name))
        else:
            with open(os.path.join(path, name), "w", encoding="ascii") as file:
                file.write(tree[name])


def read(path):
    found = {}
    for top, directories, names in os.walk(path):
        below = os.path.relpath(top, path)
        for name in directories:
            found[os.path.normpath(os.path.join(below, name))] = None
        for name in names:
            with open(os.path.join(top, name), encoding="ascii", errors="replace") as file:
                found[os.path.normpath(os.path.join(below, name))] = file.read()
    return found


def below(path, top):
    return not top or path == top or path.startswith(top + "/")


class Edits:
    """What one sandbox does: shell commands, and the same as paths that are set (to a text, or None for a directory) or removed."""

    def __init__(self, rng, root, mark, tree):
        self.set, self.removed, self.commands = {}, set(), []
        directories = [d for d in DIRECTORIES if below(d, root) and d != root]
        kind = rng.choice(("remove", "write", "write", "write", "move", "few"))
        if root in tree and tree[root] is not None:
            self.write(root, mark)
        elif kind == "remove" and directories:
            self.remove(rng.choice(directories), tree)
        elif kind == "move" and directories:
            self.move(rng.choice(directories), os.path.join(root, "moved-" + mark), tree)
        else:
            where = [d for d in DIRECTORIES if below(d, root)]
            for directory in rng.sample(where, rng.randint(1, len(where))):
                for i in range(FILES if kind != "few" else 2):
                    self.write(os.path.join(directory, "f%d" % i), mark)
                self.write(os.path.join(directory, "added-" + mark), mark)

    def write(self, path, mark):
        self.set[path] = mark + "\n"
        self.commands.append("echo %s > %s" % (mark, path))

    def remove(self, path, tree):
        self.removed |= {name for name in tree if below(name, path)}
        self.commands.append("rm -r " + path)

    def move(self, path, to, tree):
        for name in [name for name in tree if below(name, path)]:
            self.set[os.path.normpath(os.path.join(to, os.path.relpath(name, path)))] = tree[name]
        self.remove(path, tree)
        self.commands[-1] = "mv %s %s" % (path, to)

    def apply(self, tree):
        for path in self.removed:
            tree.pop(path, None)
        tree.update(self.set)


class Racer:
    def __init__(self, place, rng, number, who, state, path, strategy):
        self.rng, self.path = random.Random(rng.random()), path
        self.root = rng.choice(ROOTS)
        full = os.path.join(path, self.root).rstrip("/")
        is_file = self.root.endswith("f0")
        self.box = t.Box(place, who, strategy, name="box%d" % number, dirs=[] if is_file else [full], files=[full] if is_file else [],
                         state=state)
        self.box.looks_apart = False  # it would come between a commit and its undo
        self.edits = Edits(rng, self.root, "mark%d" % number, base_tree())
        self.delay = rng.choice((0, 0, rng.random() * 0.03))
        self.undoes = rng.random() < 0.3
        self.commit = self.undo = None

    def prepare(self):
        return [self.box.new(), self.box.run("sh", "-ec", "\n".join(self.edits.commands), cwd=self.path)]

    def race(self, start):
        start.wait()
        time.sleep(self.delay)
        self.commit = self.box.commit()
        if self.undoes and self.commit.returncode == 0:
            self.undo = self.box.undo()

    def landed(self):
        return self.commit.returncode == 0 and not (self.undo and self.undo.returncode == 0)

    def wrong(self):
        wrong = []
        if self.commit.returncode not in (0, 3):
            wrong.append("commit: " + t.said(self.commit))
        if self.undo and self.undo.returncode not in (0, 3):
            wrong.append("undo: " + t.said(self.undo))
        diff = self.box.diff("--name-status") if self.commit.returncode == 3 else None
        # An original that is gone cannot be compared with.
        if diff and diff.returncode != 3 and (diff.returncode != 0 or not diff.stdout.strip()):
            wrong.append("the edits of a refused commit are gone: " + t.said(diff))
        return wrong

    def __str__(self):
        said = "%s over %r of %s: %s: commit %s" % (self.box.name, self.root, self.box.who, "; ".join(self.edits.commands)[:200],
                                                    self.commit.returncode if self.commit else "-")
        return said + (", undo %d" % self.undo.returncode if self.undo else "")


def one_round(place, seed, tally):
    rng = random.Random(seed)
    path = place.fresh("tree", "user")
    build(path, base_tree())
    if place.is_root:
        t.give(path, place.uid("user"))
    n, shared = rng.choice((2, 2, 3)), rng.random() < 0.6
    users = [rng.choice(place.users()) for _ in range(n)]
    states = {}
    racers = []
    for i, who in enumerate(users):
        state = states.setdefault(who if shared else i, os.path.join(place.fresh("state", who), "atoll"))
        racers.append(Racer(place, rng, i, who, state, path, rng.choice((None, None, "copy_on_write"))))
    wrong = [t.said(step) for racer in racers for step in racer.prepare() if step.returncode != 0]
    start = threading.Event()
    threads = [threading.Thread(target=racer.race, args=(start,)) for racer in racers]
    for thread in threads:
        thread.start()
    start.set()
    for thread in threads:
        thread.join()
    expected = base_tree()
    for racer in racers:
        racer.box.look_apart("seed %d" % seed)
        wrong += racer.wrong()
        if racer.landed():
            racer.edits.apply(expected)
    found = {name: text for name, text in read(path).items() if ".atoll-" not in name}
    if found != expected:
        wrong += ["%s: is %r, should be %r" % (name, found.get(name, "absent"), expected.get(name, "absent"))
                  for name in sorted(set(found) | set(expected)) if found.get(name, "absent") != expected.get(name, "absent")][:8]
    for racer in racers:
        done = racer.box.rm()
        if done.returncode != 0:
            wrong.append("rm: " + t.said(done))
    key = "".join(sorted("%d%s" % (racer.commit.returncode, "u%d" % racer.undo.returncode if racer.undo else "") for racer in racers))
    tally[key] = tally.get(key, 0) + 1
    for state in set(states.values()):
        t.remove_tree(os.path.dirname(state))
    t.remove_tree(path)
    return ["seed %d: %s" % (seed, line) for line in [str(racer) for racer in racers] + wrong] if wrong else []


def main(place, tap):
    first = int(os.environ.get("ATOLL_TEST_ONLY") or 0)
    wrong, tally, rounds = [], {}, 1 if first else ROUNDS
    for seed in range(first, first + rounds):
        wrong += one_round(place, seed, tally)
    both = sum(n for key, n in tally.items() if key.count("0") >= 2)
    tap.check("%d rounds of racing commits and undos over overlapping trees leave exactly what succeeded" % rounds, not wrong, *wrong[:60])
    tap.check("and the rounds held conflicts as well as several commits that succeeded",
              first or (both and any("3" in key for key in tally)), tally)
    tap.note("how the commits (u: undos) of a round ended, and how often: %s" %
             ", ".join("%s %d" % pair for pair in sorted(tally.items(), key=lambda pair: -pair[1])))


if __name__ == "__main__":
    t.run(main)
